"""The masses of a mixture of finite mixtures: gamma variables, as many as there are components."""

from math import exp, inf, lgamma, log

import numpy as np

from ...._base.compiled import compiled
from ...._base.restore import require, require_range, require_whole
from ._mass_law import MassLaw
from ._walk_atoms import CONCENTRATION as N_HIDDEN
from ._walk_atoms import CUT, N_ATOMS, TILT, TOTAL

MOST_HIDDEN, NEGLIGIBLE = 1e5, 1e-15


class FiniteMasses(MassLaw):
    """M ~ p components with masses of law Gamma(γ, 1); besides those above the cut, the number below it is random.

    As a point process the masses have the density M! p(M) Π J^γ e^-J/Γ(γ) in log J, and the law of S given M the
    constant Γ(γM), S^-γM.  The cut holds so little that those below have no weight in the likelihood.
    """

    def cut(self, n_records):
        return exp(-5.0) * min(0.02 / n_records, 0.01)

    def start(self, n_atoms):
        return int(np.clip(n_atoms, self.least(), self.mixing.most_clusters)), 0.0

    def least(self):
        """The least number of components that the prior allows."""
        return 1 if self.mixing.most_clusters == inf else 1 + int(np.flatnonzero(self.mixing.log_prior > -inf)[0])

    def check_random(self, mixing, value, n_atoms):
        require_whole(floats=value)
        require_range(0, self.mixing.most_clusters - n_atoms, floats=value)
        is_possible = self.mixing.most_clusters == inf or self.mixing.log_prior[int(n_atoms + value) - 1] > -inf
        require(is_possible, "floats", "makes a number of components that the mixing excludes")

    def fields(self):
        gamma = -self.mixing.discount
        table = {name: getattr(self.mixing, name) for name in ("log_fail", "log_prior", "most_clusters")}
        return table | {"gamma": gamma, "log_gamma": lgamma(gamma), "least": float(self.least())}

    @compiled
    def shape(self):
        return self.gamma

    @compiled
    def log_ratio(self, new, old):
        return self.gamma * log(new / old)

    @compiled
    def power(self, walk, n_atoms):
        return TILT - self.gamma * (n_atoms + walk.law[N_HIDDEN])

    @compiled
    def log_growth(self, walk, n_atoms):
        n = n_atoms + walk.law[N_HIDDEN]
        ratio = lgamma(self.gamma * (n + 1.0)) - lgamma(self.gamma * n) - self.log_gamma
        return log(n + 1.0) + self.log_next(n) + ratio

    @compiled
    def log_next(self, n):
        """Log of p(n + 1)/p(n)."""
        if self.most_clusters == inf:
            return self.log_fail
        if n >= self.most_clusters:
            return -1e300
        return self.log_prior[int(n)] - self.log_prior[int(n) - 1]

    @compiled
    def renew(self, rng, channel, chart, walk):
        """Draw how many components are below the cut u given those above: each has the prior u^γ/Γ(γ + 1) there.

        They are at least as many as make a number of components that the prior allows.
        """
        walk.law[N_HIDDEN] = 0.0
        n, log_each = walk.law[N_ATOMS], self.gamma * log(walk.law[CUT] / walk.law[TOTAL]) - log(self.gamma)
        hidden = max(self.least - n, 0.0)
        log_weight, total, chosen = 0.0, 1.0, hidden
        while hidden < MOST_HIDDEN and n + hidden < self.most_clusters:
            log_weight += self.log_growth(walk, n + hidden) + log_each - log(hidden + 1.0)
            hidden += 1.0
            weight = exp(log_weight)
            total += weight
            if rng.random() * total < weight:
                chosen = hidden
            if self.most_clusters == inf and weight < NEGLIGIBLE * total:
                break
        walk.law[N_HIDDEN] = chosen

    @compiled
    def left_out(self, walk):
        return walk.law[N_HIDDEN] * walk.law[CUT] * self.gamma / (self.gamma + 1.0)

    @compiled
    def kept(self, walk):
        """The number of components."""
        return walk.law[N_ATOMS] + walk.law[N_HIDDEN]
