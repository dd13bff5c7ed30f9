"""Draws from beta distributions, within bounds or not, are exact, stay inside, and take a bounded number of tries.

Checks that compare take the function as an argument, and are shown to reject a broken twin of it.
"""

import math

import numpy as np
import pytest
from compiled_beta import LARGEST, SMALLEST, log_beta_cdf, log_beta_interval
from compiled_draws import sample
from numba import njit
from scipy import stats

from sklearn_dpmix._base import beta_numeric
from sklearn_dpmix._base.beta_numeric import draw_beta, draw_beta_interval, log_beta

INF = math.inf
ALPHA = 1e-6


@njit(nogil=True)
def conditional_cdf(x, a, b, lo, hi):
    """Distribution function of the restricted variate, from whichever end is nearer in probability.

    Close to one doubles are so coarse that a small `b` makes it visibly discrete: no regime goes there.
    """
    total = log_beta_interval(a, b, lo, hi)
    out = np.empty(x.shape)
    for i in range(x.shape[0]):
        out[i] = math.exp(log_beta_interval(a, b, lo, x[i]) - total)
        if out[i] > 0.5:
            out[i] = 1.0 - math.exp(log_beta_interval(a, b, x[i], hi) - total)
    return out


@njit(nogil=True)
def unrestricted(rng, a, b, lo, hi):
    return draw_beta(rng, a, b)


def p_value(draw, args):
    """Kolmogorov-Smirnov p-value of the draws; zero when one leaves the interval, or an end of [0, 1] is hit."""
    x = sample(draw, args)
    if not np.all((x >= args[2]) & (x <= args[3]) & (x > 0) & (x < 1)):
        return 0.0
    return stats.kstest(conditional_cdf(x, *map(float, args)), "uniform").pvalue


REGIMES = {
    "bulk": (2.0, 5.0, 0.1, 0.6),
    "bin": (2.0, 5.0, 9 / 32, 10 / 32),
    "first bin": (2.0, 5.0, 0.0, 1 / 32),
    "last bin": (2.0, 5.0, 31 / 32, 1.0),
    "steep bin": (20.0, 50.0, 0.9, 0.9 + 1 / 32),
    "bin at the mode": (20.0, 50.0, 9 / 32, 10 / 32),
    "uniform": (1.0, 1.0, 0.2, 0.7),
    "narrow": (3.0, 7.0, 0.3, 0.3 + 1e-9),
    "narrow, steep": (1e4, 10.0, 0.5, 0.5 + 1e-4),
    "far lower tail": (200.0, 300.0, 0.0, 0.05),
    "far upper tail": (200.0, 300.0, 0.9, 1.0),
    "farthest tail": (1e4, 1e4, 0.0, 1e-5),
    "large shapes": (1e4, 1e4, 0.4, 0.6),
    "half of large shapes": (1e4, 3e3, 0.77, 1.0),
    "U": (0.5, 0.5, 0.0, 1.0),
    "U, middle": (0.1, 0.2, 0.2, 0.9),
    "U, lower end": (0.1, 0.2, 0.0, 0.05),
    "U, upper end": (0.1, 0.4, 0.9, 1.0),
    "sharp U, middle": (1e-3, 1e-3, 1e-8, 1 - 1e-8),
    "sharp U, lower half": (1e-3, 1e-3, 1e-300, 0.5),
    "J": (0.05, 20.0, 0.0, 1.0),
    "J, tail": (0.05, 20.0, 0.5, 1.0),
    "J, flat": (1e-3, 1000.0, 1e-12, 1e-6),
    "J, reversed": (1000.0, 1e-3, 0.0, 0.99999),
    "tiny ends": (0.3, 5.0, 1e-200, 1e-199),
    "next to one": (5.0, 0.4, 1 - 1e-8, 1.0),
    "unequal": (1e-2, 1e4, 0.0, 1.0),
}
UNRESTRICTED = [(2.0, 5.0), (1.0, 1.0), (50.0, 1.0), (1e4, 2e4), (0.9, 1.1), (0.5, 0.5), (0.05, 0.2), (0.1, 30.0)]


@pytest.mark.parametrize("regime", REGIMES)
def test_draw_beta_interval(regime):
    """Catches a wrong hat, a lost acceptance test, clipping to the interval, a side forgotten."""
    assert p_value(draw_beta_interval, REGIMES[regime]) > ALPHA


@pytest.mark.parametrize("shapes", UNRESTRICTED)
def test_draw_beta(shapes):
    """Catches shapes exchanged, underflow of gamma variates, draws at the very ends."""
    assert p_value(unrestricted, (*shapes, 0.0, 1.0)) > ALPHA


@njit(nogil=True)
def clipped(rng, a, b, lo, hi):
    return min(max(draw_beta(rng, a, b), lo), hi)


@njit(nogil=True)
def uniform(rng, a, b, lo, hi):
    return lo + (hi - lo) * rng.random()


@njit(nogil=True)
def of_wrong_shape(rng, a, b, lo, hi):
    return draw_beta_interval(rng, 1.1 * a, b, lo, hi)


@njit(nogil=True)
def exchanged(rng, a, b, lo, hi):
    return draw_beta(rng, b, a)


@njit(nogil=True)
def log_uniform(rng, a, b, lo, hi):
    return lo * (hi / lo) ** rng.random()


@njit(nogil=True)
def density_of_the_logit(rng, a, b, lo, hi):
    """Proposals uniform in the value where they should be in the logit: shapes smaller by one."""
    return draw_beta_interval(rng, a + 1.0, b + 1.0, lo, hi)


@pytest.mark.parametrize(
    "twin, regime",
    [
        (clipped, "bulk"),
        (uniform, "steep bin"),
        (uniform, "first bin"),
        (uniform, "far upper tail"),
        (of_wrong_shape, "bulk"),
        (of_wrong_shape, "first bin"),
        (of_wrong_shape, "far lower tail"),
        (of_wrong_shape, "U"),
        (of_wrong_shape, "U, lower end"),
        (of_wrong_shape, "J"),
        (of_wrong_shape, "large shapes"),
        (exchanged, "J"),
        (log_uniform, "tiny ends"),
        (log_uniform, "sharp U, lower half"),
        (density_of_the_logit, "U"),
        (density_of_the_logit, "bulk"),
        (density_of_the_logit, "J, flat"),
    ],
)
def test_broken_draw_is_rejected(twin, regime):
    """Catches a check of the draws that would accept anything."""
    assert p_value(twin, REGIMES[regime]) < ALPHA


@njit(nogil=True)
def by_gammas(rng, a, b, lo, hi):
    x = rng.standard_gamma(a)
    return x / max(x + rng.standard_gamma(b), SMALLEST)


def ends_error(draw):
    """Smallest p-value of how many draws of tiny shapes are how near to the ends: even beyond what doubles tell."""
    x = sample(draw, (1e-3, 2e-3, 0.0, 1.0))
    counts = [(np.sum(x < t), math.exp(log_beta_cdf(1e-3, 2e-3, t))) for t in (1e-300, 1e-100, 0.5)]
    counts.append((np.sum(1 - x < 1e-10), math.exp(log_beta_cdf(2e-3, 1e-3, 1e-10))))
    if not np.all((x > 0) & (x < 1)):
        return 0.0
    return min(stats.binomtest(int(k), x.size, p).pvalue for k, p in counts)


def test_draw_beta_of_tiny_shapes():
    """Catches gamma variates that underflow, to a ratio of zeros at the worst."""
    assert ends_error(unrestricted) > ALPHA
    assert ends_error(draw_beta_interval) > ALPHA
    assert ends_error(by_gammas) < ALPHA
    assert ends_error(of_wrong_shape) < ALPHA
    x = sample(unrestricted, (1e-3, 2e-3, 0.0, 1.0))
    assert x.min() == SMALLEST and x.max() == LARGEST


def test_draws_stay_inside():
    """Catches a rounding that leaves the interval, an exact 0 or 1, NaN, and an endless loop."""
    ends = [0.0, 5e-324, 1e-310, 1e-200, 1e-9, 0.3, 0.5, 0.7, 1 - 1e-9, float(np.nextafter(LARGEST, 0)), LARGEST, 1.0]
    ends += [float(np.nextafter(x, 1)) for x in (1e-200, 0.3, 0.7)]
    for a in (1e-3, 0.4, 1.0, 30.0, 1e6):
        for b in (1e-3, 0.4, 1.0, 30.0, 1e6):
            for lo in ends:
                for hi in ends:
                    if lo < hi:
                        x = sample(draw_beta_interval, (a, b, lo, hi), n=20)
                        assert np.all((x >= lo) & (x <= hi) & (x > 0) & (x < 1))


def test_degenerate_draws():
    """Catches an endless loop at an empty interval, at shapes of no distribution, and at NaN."""
    rng = np.random.default_rng(0)
    for x in (0.0, 0.3, 1.0):
        assert draw_beta_interval(rng, 2.0, 3.0, x, x) == x
    assert math.isnan(draw_beta_interval(rng, 2.0, 3.0, math.nan, 0.5))
    assert draw_beta_interval(rng, 2.0, 3.0, 0.2, math.nan) == 0.2
    for shape in (math.nan, 0.0, -1.0, INF):
        for args in [(shape, 2.0), (2.0, shape), (0.5, shape)]:
            assert math.isnan(draw_beta_interval(rng, *args, 0.1, 0.2))
    for shape in (math.nan, 0.0, -1.0):
        assert math.isnan(draw_beta(rng, shape, 2.0)) and math.isnan(draw_beta(rng, 2.0, shape))


@njit(nogil=True)
def acceptance(hat, a, b, lo, hi):
    """Share of the tries that succeed: the area under the density of the logit over that under its hat."""
    x, y = a / (a + b), b / (a + b)
    if x <= lo:
        x, y = lo, 1.0 - lo
    elif x >= hi:
        x, y = hi, 1.0 - hi
    area = 0.0
    if x < hi:
        flat, rate = hat(a, b, x, y, math.log1p((hi - x) / (x * (1.0 - hi))) if hi < 1.0 else math.inf)
        area += flat + 1.0 / rate
    if x > lo:
        flat, rate = hat(b, a, y, x, math.log1p((x - lo) / (y * lo)) if lo > 0.0 else math.inf)
        area += flat + 1.0 / rate
    top = a * math.log(x) + b * math.log(y) - log_beta(a, b)
    return math.exp(log_beta_interval(a, b, lo, hi) - top) / area


@njit(nogil=True)
def flat_hat(a, b, x, y, w):
    return min(w, 1e9), math.inf


def acceptance_range(hat):
    shapes = np.logspace(-3, 5, 17)
    ends = np.concatenate([[0, 1], np.logspace(-40, -0.31, 12), 1 - np.logspace(-12, -0.31, 8)])
    found = []
    for a in shapes:
        for b in shapes:
            mean = a / (a + b)
            deviation = math.sqrt(mean * (1 - mean) / (a + b + 1))
            own = [x for x in (mean, mean - deviation, mean + deviation, mean + 5 * deviation) if 0 < x < 1]
            all_ends = np.unique(np.concatenate([ends, own]))
            found += [acceptance(hat, a, b, lo, hi) for i, lo in enumerate(all_ends) for hi in all_ends[i + 1 :]]
    return min(found), max(found)


def test_bounded_number_of_tries():
    """Catches an interval without an efficient hat, and a hat that lies below the density."""
    least, most = acceptance_range(beta_numeric._hat)
    assert 0.59 < least and most < 1 + 1e-6
    assert acceptance_range(flat_hat)[0] < 0.01
