"""Independent posterior draws of one hidden integer statistic, from a table of p(s | y) with θ integrated out.

For the number of ones among n records (beta-binomial) and the sum of n Poisson records (negative binomial), n known,
p(s) is closed-form: p(s) = p₁(s) w(s), with p₁ the same distribution for exponents of at least 1, and w(s) the product
of Γ(x+a)/Γ(x+1) over the exponents a below 1.  Under log-concave noise, p₁(s) q(y - s) is log-concave: its mode is
found by bisection, and beyond a point where it has fallen by a factor e^-t, the rest is smaller than a geometric sum,
less than 2 e^-t of the part before that point.  The range of log w is added to t.  So the part that the table leaves
out is bounded.
"""

import math

import numpy as np

from ..._base.compiled import compiled, entry, lower
from ..._base.restore import require_whole
from ..._base.search import last_where
from ._hidden_counts import draw_dirichlet
from ._hidden_sums import PoissonSum
from ._statistic import StatisticSampler, log_gamma_ratio, log_noise, new_state

MAX_POINTS = 2**18
TAIL = 1e-12  # mass that a table may leave out


class TableSampler(StatisticSampler):
    """Each draw of s is independent of the others; a subclass defines p(s) and draws θ given s.

    Parameters
    ----------
    first : float
        The smallest s of the table.
    cumulative : ndarray of shape (n_points,), optional
        P(s <= first + i | y).
    """

    def __init__(self, first=0.0, cumulative=None):
        self.first = first
        self.cumulative = cumulative

    def check_statistic(self, statistic):
        require_whole(statistic=statistic)

    def _lower(self, **context):
        table = np.ones(1) if self.cumulative is None else np.asarray(self.cumulative, dtype=np.float64)
        return lower(type(self), {"first": float(self.first), "cumulative": table, "n_points": float(len(table))})

    def tabulate(self, model, channel, S, n_records):
        """Return the sampler with its table, or None if that would be too long.

        Parameters
        ----------
        model, channel : component values
        S : ndarray of shape (n_releases, 1)
        n_records : float
        """
        value = self._lower()

        def log_mass(points, least):
            out = np.empty(len(points))
            fill_log_mass(value, model, channel, S, n_records, points, least, out)
            return out

        first, last = find_window(
            lambda s: float(log_mass(np.array([s]), 1.0)[0]),
            self.largest(n_records),
            lambda last: self.log_range(model, n_records, last),
        )
        if last - first >= MAX_POINTS:
            return None
        log_p = log_mass(np.arange(first, last + 1.0), 0.0)
        cumulative = np.cumsum(np.exp(log_p - log_p.max()))
        return type(self)(first, cumulative / cumulative[-1])

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        u = rng.random()
        low, high = 0, int(self.n_points) - 1  # the first i with u < cumulative[i] is in between
        while low < high:
            middle = (low + high) // 2
            if u < self.cumulative[middle]:
                high = middle
            else:
                low = middle + 1
        self.put(state, self.first + low)


def find_window(log_mass, largest, log_range):
    """Return integers (first, last) from 0 to ``largest`` that hold all but TAIL of w(s) exp(log_mass(s)).

    Parameters
    ----------
    log_mass : callable, concave on the integers
    largest : float, possibly inf
    log_range : callable (last) -> range of log w on [0, last] or more
    """
    mode = last_where(lambda s: s == 0 or log_mass(s) > log_mass(s - 1.0), 0.0, largest)
    top, fall = log_mass(mode), -math.log(TAIL) + 2.0
    while True:
        last = last_where(lambda s: log_mass(s) >= top - fall, mode, largest)  # noqa: B023
        below = last_where(lambda d: log_mass(mode - d) >= top - fall, 0.0, mode)  # noqa: B023
        first = mode - below
        needed = -math.log(TAIL) + 2.0 + log_range(last)
        if needed <= fall:
            return max(first - 1.0, 0.0), min(last + 1.0, largest)
        fall = needed + 1e-9 * abs(needed)


@entry
def fill_log_mass(sampler, model, channel, S, n_records, points, least, out):
    """log p(s) + log q(y - s) at each point, up to a constant; prior exponents below ``least`` count as ``least``."""
    for i in range(points.size):
        out[i] = sampler.log_prior(model, n_records, points[i], least) + log_noise(channel, S, 0, points[i])


class BinomialTable(TableSampler):
    """The number of ones among n records, under Beta(α₁, α₂)."""

    def init(self, model, n_params, n_records, given, rng):
        return new_state(n_params, [0.0, n_records], n_records, 1)

    @staticmethod
    def largest(n_records):
        return n_records

    @staticmethod
    def log_range(model, n_records, last):
        return sum(log_gamma_ratio(0.0, a, 1.0) - log_gamma_ratio(n_records, a, 1.0) for a in model.alpha if a < 1.0)

    @compiled
    def log_prior(self, model, n_records, s, least):
        value = log_gamma_ratio(s, max(model.alpha[0], least), 1.0)
        return value + log_gamma_ratio(n_records - s, max(model.alpha[1], least), 1.0)

    @compiled
    def put(self, state, s):
        state.statistic[0] = s
        state.statistic[1] = state.n_records[0] - s

    @compiled
    def draw_theta(self, model, state, rng):
        draw_dirichlet(rng, model.alpha, state.statistic, state.theta)


class PoissonTable(TableSampler):
    """The sum of n Poisson records, under Gamma(shape, rate)."""

    def init(self, model, n_params, n_records, given, rng):
        return new_state(n_params, [0.0], n_records, 1)

    @staticmethod
    def largest(n_records):
        return np.inf

    @staticmethod
    def log_range(model, n_records, last):
        a = model.shape
        return log_gamma_ratio(0.0, a, 1.0) - log_gamma_ratio(last, a, 1.0) if a < 1.0 else 0.0

    @compiled
    def log_prior(self, model, n_records, s, least):
        return log_gamma_ratio(s, max(model.shape, least), 1.0) - s * math.log1p(model.rate / n_records)

    @compiled
    def put(self, state, s):
        state.statistic[0] = s

    draw_theta = PoissonSum.draw_theta
