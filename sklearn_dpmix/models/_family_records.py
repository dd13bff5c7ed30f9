"""Exponential families record by record, as data augmentation sees them: for statistics that are cut at bounds.

The contribution of a record outside the bounds is dropped or clamped; the record itself is not, so θ given all records
has its conjugate distribution.
"""

from math import exp, floor, inf, lgamma, log, sqrt

import numpy as np
from scipy.special import logit

from .._base.beta_numeric import draw_beta_logit
from .._base.compiled import compiled, helper, lower
from .._base.numeric import log1p_exp
from ._beta_updates import update_shapes
from ._exponential_family import OUTSIDE
from ._moments import poisson_tail
from ._poisson_pairs import exchange_pairs
from ._prior_updates import draw_normal_parameters, draw_rate, log_normal_prior, log_rate_prior
from ._records import RecordModel

CLAMP, DROP = OUTSIDE["clamp"], OUTSIDE["drop"]
FARTHEST = 9.0  # standard deviations from the mean, where steps to a Poisson record's new value begin


class FamilyRecords(RecordModel):
    """Records of a family with a prior; a subclass for each family has the compiled methods.

    Parameters
    ----------
    family : Family
    prior : Prior
    bounds : pair (lo, hi), or None
    outside : {"clamp", "drop"}, or None
    gains : pair (gain, offset) of arrays, or None
        A record adds gain · t(x) + offset.
    centres, factors : ndarrays of shape (n_modes, d) and (n_modes, d, d)
        Unconstrained coordinates near which chains start, and factors of their covariances.
    """

    n_columns = 1

    def __init__(self, family, prior, bounds, outside, gains, centres, factors):
        self.family = family
        self.prior = prior
        self.bounds = bounds
        self.outside = outside
        self.gains = gains
        self.centres = centres
        self.factors = factors

    def _lower(self, **context):
        return lower(type(self), {**self._fields(), **self.family._cut(self._cut_points(), self.outside, self.gains)})

    def _fields(self):
        return {**self.prior.fields(self.family), **self.family._numbers()}

    @property
    def support(self):
        """Where imputed records are."""
        return self.family.support

    def _cut_points(self):
        """The bounds as imputed records have them."""
        return self.bounds

    def start(self, moments, rng):
        """Parameters to start from, near one of the modes, each equally often."""
        mode, theta = rng.integers(len(self.centres)), np.zeros(self.family.n_params)
        free = self.centres[mode] + self.factors[mode] @ rng.standard_normal(self.centres.shape[1])
        self.family._lower(prior=self.prior).to_theta(free, theta)
        return theta

    def first_steps(self):
        """Factors of the first non-centred proposals, (n_blocks, m, m)."""
        return np.array(self.factors[:1])

    def first_metric(self):
        """There are no paths."""
        return np.zeros((0, 0))

    def work_shape(self, n_statistics):
        """Shape of the scratch that a sweep needs."""
        return 7, max(self.family.n_params, n_statistics)

    @compiled
    def n_blocks(self):
        return 1

    @compiled
    def contribute(self, records, i, contributions, row):
        x, share = summed(self, records[i, 0])
        contributions[row, 0] = share * (self.gain[0] * x + self.offset[0])

    @compiled
    def exchange(self, rng, theta, records, contributions, n):
        """Moves that leave the sum as it is, where no other could move."""


@helper
def summed(model, x):
    """(x as it is summed, and 1, or 0 if it is dropped)."""
    if model.outside == CLAMP:
        return min(max(x, model.lo), model.hi), 1.0
    if model.outside == DROP and (x < model.lo or x > model.hi):
        return x, 0.0
    return x, 1.0


class RateRecords(FamilyRecords):
    """Families with one parameter θ > 0 under Gamma(shape, rate); non-centred moves use log θ."""

    largest = 1e150  # range of θ for non-centred moves

    def _fields(self):
        return {**super()._fields(), "largest": self.largest}

    @compiled
    def block_size(self, block):
        return 1

    @compiled
    def get_block(self, theta, block, v):
        v[0] = log(theta[0])

    @compiled
    def set_block(self, theta, block, v):
        theta[0] = exp(v[0])

    @compiled
    def log_prior_block(self, theta, block):
        if not 1e-150 < theta[0] < self.largest:
            return -inf
        return log_rate_prior(self, log(theta[0]))


class ScaleRecords(RateRecords):
    """Gamma(k, rate θ) records (exponential: k = 1), θ ~ Gamma(shape, rate).  A record keeps θx."""

    @compiled
    def draw_record(self, rng, theta, records, i):
        records[i, 0] = rng.standard_gamma(self.known_shape) / theta[0]

    @compiled
    def update_theta(self, rng, theta, records, n, work):
        total = 0.0
        for i in range(n):
            total += records[i, 0]
        theta[0] = draw_rate(rng, self, theta[0], n * self.known_shape, total)

    @compiled
    def carry(self, theta, to, block, records, i, row):
        records[row, 0] = records[i, 0] * (theta[0] / to[0])


class PoissonRecords(RateRecords):
    """Poisson(θ) records, θ ~ Gamma(shape, rate).

    A uniform w stands next to x: u = P(X < x) + w P(X = x) is uniform too, whatever θ is, and a record keeps u.  The
    map from (x, w) to (x', w') is one between uniform u's, so (x', w') has the right distribution under θ'.
    """

    n_columns, largest = 2, 1e9

    @compiled
    def draw_record(self, rng, theta, records, i):
        records[i, 0] = float(rng.poisson(theta[0]))
        records[i, 1] = rng.random()

    @compiled
    def update_theta(self, rng, theta, records, n, work):
        total = 0.0
        for i in range(n):
            total += records[i, 0]
        theta[0] = draw_rate(rng, self, theta[0], total, n)

    @compiled
    def exchange(self, rng, theta, records, contributions, n):
        if self.outside == CLAMP:
            exchange_pairs(rng, self, theta[0], records, contributions, n)

    @compiled
    def carry(self, theta, to, block, records, i, row):
        carry_poisson(theta[0], to[0], records, i, row)


@helper
def carry_poisson(rate, new_rate, records, i, row):
    """(x, w) of record i at the same u under another rate; the smaller tail is kept.

    Steps to the new value begin as many standard deviations from the new mean as x is from the old one: from x itself
    they might be many, and begin where the mass is 0 in floating point.
    """
    x = records[i, 0]
    mass = exp(x * log(rate) - rate - lgamma(x + 1.0))
    at_least = poisson_tail(x, rate)
    upper = at_least > 0.5  # u is kept by the lower tail
    u = 1.0 - at_least + records[i, 1] * mass if upper else at_least - records[i, 1] * mass  # 1 - u from above
    z = min(max((x - rate) / sqrt(rate), -FARTHEST), FARTHEST)
    x = max(floor(new_rate + z * sqrt(new_rate)), 0.0)
    mass = exp(x * log(new_rate) - new_rate - lgamma(x + 1.0))
    at_least = poisson_tail(x, new_rate)
    gap = u - (1.0 - at_least) if upper else at_least - u  # u' = P(X < x) + gap: within [0, mass) at the new x
    while gap < 0.0 and x > 0.0:
        mass *= x / new_rate
        x -= 1.0
        gap += mass
    while gap >= mass and mass > 1e-300:
        gap -= mass
        x += 1.0
        mass *= new_rate / x
    records[row, 0] = x
    records[row, 1] = min(max(gap / mass, 0.0), 1.0) if mass > 0.0 else 0.5


class NormalRecords(FamilyRecords):
    """Normal records under a normal-inverse-gamma prior; a record keeps (x - μ)/σ."""

    @compiled
    def draw_record(self, rng, theta, records, i):
        records[i, 0] = theta[0] + sqrt(theta[1]) * rng.standard_normal()

    @compiled
    def contribute(self, records, i, contributions, row):
        x, share = summed(self, records[i, 0])
        contributions[row, 0] = share * (self.gain[0] * x + self.offset[0])
        contributions[row, 1] = share * (self.gain[1] * x * x + self.offset[1])

    @compiled
    def update_theta(self, rng, theta, records, n, work):
        centre = total = squares = 0.0
        if n > 0:
            for i in range(n):
                total += records[i, 0]
            centre = total / n
            for i in range(n):
                squares += (records[i, 0] - centre) ** 2
        draw_normal_parameters(rng, self, theta, n, centre, squares)

    @compiled
    def block_size(self, block):
        return 2

    @compiled
    def get_block(self, theta, block, v):
        v[0], v[1] = theta[0], log(theta[1])

    @compiled
    def set_block(self, theta, block, v):
        theta[0], theta[1] = v[0], exp(v[1])

    @compiled
    def log_prior_block(self, theta, block):
        if not 1e-150 < theta[1] < 1e150:
            return -inf
        return log_normal_prior(self, theta[0], log(theta[1]))

    @compiled
    def carry(self, theta, to, block, records, i, row):
        records[row, 0] = to[0] + (records[i, 0] - theta[0]) * sqrt(to[1] / theta[1])


class BetaRecords(FamilyRecords):
    """Beta(a, b) records by their logits, as a record that rounds to 0 or 1 hides a small shape; no non-centred moves.

    θ given the records is not conjugate.  It is drawn by slice sampling (Neal 2003) of logit(a/(a+b)) and log(a+b),
    which are nearly independent.
    """

    @property
    def support(self):
        return -inf, inf

    def _cut_points(self):
        return None if self.bounds is None else tuple(logit(self.bounds))

    @compiled
    def n_blocks(self):
        return 0

    @compiled
    def draw_record(self, rng, theta, records, i):
        records[i, 0] = draw_beta_logit(rng, theta[0], theta[1])

    @compiled
    def contribute(self, records, i, contributions, row):
        x, share = summed(self, records[i, 0])
        contributions[row, 0] = share * (self.offset[0] - self.gain[0] * log1p_exp(-x))
        contributions[row, 1] = share * (self.offset[1] - self.gain[1] * log1p_exp(x))

    @compiled
    def update_theta(self, rng, theta, records, n, work):
        work[0, 0], work[0, 1] = 0.0, 0.0
        for i in range(n):
            work[0, 0] -= log1p_exp(-records[i, 0])
            work[0, 1] -= log1p_exp(records[i, 0])
        update_shapes(rng, self, theta, work[0], float(n))


#: Record models by the family's first name.
RECORD_MODELS: dict[str, type[FamilyRecords]] = {
    "exponential": ScaleRecords,
    "gamma": ScaleRecords,
    "poisson": PoissonRecords,
    "normal": NormalRecords,
    "beta": BetaRecords,
}
