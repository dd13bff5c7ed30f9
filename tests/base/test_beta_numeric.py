"""Accuracy of the compiled helpers of the beta distribution against mpmath, and exactness of their draws.

Checks that compare take the function as an argument, and are shown to reject a broken twin of it.
"""

import importlib.util
import itertools
import math
import zlib
from fractions import Fraction
from functools import cache

import numba
import numpy as np
import pytest
from numba import njit
from scipy import special, stats

from sklearn_dpmix._base import beta_numeric
from sklearn_dpmix._base.beta_numeric import digamma, draw_beta, draw_beta_interval, log_beta, trigamma
from sklearn_dpmix.kernels._beta import fill_inner_masses

mpmath = pytest.importorskip("mpmath")

EPS = np.finfo(float).eps
INF = math.inf
SMALLEST, LARGEST = np.finfo(float).tiny, float(np.nextafter(1, 0))
N_DRAWS = 20_000
ALPHA = 1e-6
BITS = 300


@njit(nogil=True)
def log_beta_cdf(a, b, x):
    return beta_numeric.log_beta_cdf(a, b, x)


@njit(nogil=True)
def log_beta_interval(a, b, lo, hi):
    return beta_numeric.log_beta_interval(a, b, lo, hi)


# ---------------------------------------------------------------- exact values


def series(a, b, x):
    """DLMF 8.17.8 without its front: positive terms, in fixed point, of which a shape's 80 binary places are exact."""
    one = 1 << 80
    a, b, x = int(Fraction(a) * one), int(Fraction(b) * one), int(mpmath.ldexp(x, BITS))
    term = total = 1 << BITS
    above, below = a + b, a + one
    while term:
        term = (term * x >> BITS) * above // below
        total += term
        above += one
        below += one
    return mpmath.ldexp(mpmath.mpf(total), -BITS)


@cache
def tails(a, b, x):
    """Both tails of the distribution at `x`, one of them by the series: the smaller, unless that is above 1e-50."""
    with mpmath.workprec(BITS):
        p, q, low = mpmath.mpf(a), mpmath.mpf(b), mpmath.mpf(x)
        high = 1 - low
        if x in (0, 1):
            return low, high
        front = mpmath.exp(p * mpmath.log(low) + q * mpmath.log(high)) / mpmath.beta(p, q)
        if x < 0.01 or x <= min(0.99, a / (a + b)):
            tail = front * series(a, b, low) / p
            return tail, 1 - tail
        tail = front * series(b, a, high) / q
        return 1 - tail, tail


@cache
def exact_log_interval(a, b, lo, hi):
    with mpmath.workprec(BITS):
        below, above = tails(a, b, lo), tails(a, b, hi)
        mass = above[0] - below[0] if above[0] < 0.5 else below[1] - above[1]
        return mpmath.log(mass) if mass < 0.5 else mpmath.log1p(-below[0] - above[1])


def error(value, exact, relative, absolute=0.0):
    """Error of a float in units of the tolerance; infinite where the float is not finite."""
    if not math.isfinite(value):
        return INF
    return float(abs(mpmath.mpf(value) - exact) / (relative * abs(exact) + absolute))


def test_exact_values():
    """Catches a mistake in the series that everything below is compared with."""
    with mpmath.workdps(60):
        for a, b, x in [(2.5, 3.0, 0.3), (0.02, 60.0, 0.01), (1e3, 10.0, 0.97), (0.5, 0.5, 0.9), (0.5, 1e-3, 0.999)]:
            exact = mpmath.betainc(a, b, 0, x, regularized=True)
            assert abs(tails(a, b, x)[0] / exact - 1) < 1e-40
            assert abs(tails(a, b, x * (1 + EPS))[0] / exact - 1) > 1e-20


# ---------------------------------------------------------------- psi functions, beta function

PSI_POINTS = np.concatenate([np.logspace(-140, 12, 150), np.linspace(0.5, 12, 300), [1.4616321449683622]])
BETA_SHAPES = (1e-300, 1e-20, 1e-3, 0.02, 0.5, 1.0, 2.5, 9.99, 10.0, 10.01, 37.0, 400.0, 1e4, 1e6, 1e8)


def digamma_error(function):
    with mpmath.workdps(30):
        return max(error(function(x), mpmath.digamma(x), 2e-15, 2e-15) for x in PSI_POINTS)


def trigamma_error(function):
    with mpmath.workdps(30):
        return max(error(function(x), mpmath.psi(1, x), 2e-15) for x in PSI_POINTS)


def log_beta_error(function):
    with mpmath.workdps(40):
        gamma = {a: mpmath.loggamma(a) for a in BETA_SHAPES}
        return max(
            error(function(a, b), gamma[a] + gamma[b] - mpmath.loggamma(mpmath.mpf(a) + b), 5e-16, 5e-15)
            for a in BETA_SHAPES
            for b in BETA_SHAPES
        )


def test_digamma():
    """Catches a missing term of the recurrence or of the series."""
    assert digamma_error(digamma) < 1
    assert digamma_error(lambda x: digamma(x) + 1e-14) > 1
    assert math.isnan(digamma(0.0)) and math.isnan(digamma(-1e300)) and math.isnan(digamma(math.nan))


def test_trigamma():
    """Catches a missing term of the recurrence or of the series."""
    assert trigamma_error(trigamma) < 1
    assert trigamma_error(lambda x: trigamma(x) * (1 + 1e-14)) > 1
    assert math.isnan(trigamma(0.0)) and math.isnan(trigamma(-1e300)) and math.isnan(trigamma(math.nan))


def test_log_beta():
    """Catches a difference of large logarithms of the gamma function."""
    assert log_beta_error(log_beta) < 1
    assert log_beta_error(lambda a, b: math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)) > 100
    assert log_beta_error(lambda a, b: log_beta(a, b) + 1e-14) > 1
    assert all(log_beta(a, b) == log_beta(b, a) for a in BETA_SHAPES for b in BETA_SHAPES)


# ---------------------------------------------------------------- logarithms of probabilities

SHAPES = (1e-3, 0.02, 0.5, 1.0, 1.7, 9.99, 10.01, 60.0, 1000.0, 1e4)


def points(a, b):
    """Both ends, the bulk, far tails, and either side of where one method hands over to another."""
    mean = a / (a + b)
    deviation = math.sqrt(mean * (1 - mean) / (a + b + 1))
    turn = (a + 1) / (a + b + 2)
    common = [1e-300, 1e-20, 1e-5, 1e-3, 0.03, 0.3, 0.5, 0.51, 0.9, 0.999, 1 - 1e-9]
    own = [mean + k * deviation for k in (-8, -2, 0, 2, 8)] + [turn * (1 - 1e-9), turn * (1 + 1e-9)]
    small = [1 - 0.199 / (a + 1), 1 - 0.201 / (a + 1), 0.199 / (b + 1), 0.201 / (b + 1)]
    return sorted({x for x in common + own + small if 0 < x < 1})


PAIRS = [(a, b) for a in SHAPES for b in SHAPES] + [(1e6, 1e6)]
POINTS = [(a, b, x) for a, b in PAIRS for x in points(a, b)]
INTERVALS = []
for _a, _b in PAIRS:
    _x = [0.0, *points(_a, _b), 1.0]
    INTERVALS += [(_a, _b, *ends) for ends in itertools.pairwise(_x)]
    INTERVALS += [(_a, _b, x, x * (1 + w)) for x in _x for w in (1e-13, 1e-6, 0.03, 1.9) if x < x * (1 + w) <= 1]
    INTERVALS += [(_a, _b, x, x + 1 / 32) for x in _x if x + 1 / 32 <= 1]


def cdf_error(function, step=1):
    # a logarithm of size L cannot be closer than L * EPS
    exact = [(args, exact_log_interval(*args[:2], 0.0, args[2])) for args in POINTS[::step]]
    return max(error(function(*args), value, 4 * EPS, 1e-11) for args, value in exact)


def interval_error(function, step=1):
    return max(error(function(*args), exact_log_interval(*args), 4 * EPS, 1e-11) for args in INTERVALS[::step])


def naive_log(probability):
    with np.errstate(divide="ignore", invalid="ignore"):
        return float(np.log(probability))


@pytest.mark.slow
def test_log_beta_cdf():
    """Catches an underflowed tail, the complement of a tail that is nearly one, a fraction stopped too early."""
    assert cdf_error(log_beta_cdf) < 1
    assert cdf_error(lambda a, b, x: naive_log(special.betainc(a, b, x)), step=7) > 100
    assert cdf_error(lambda a, b, x: log_beta_cdf(a, b, x) + 2e-11, step=7) > 1
    assert cdf_error(lambda a, b, x: log_beta_cdf(a, b * (1 + 1e-9), x), step=7) > 1


@pytest.mark.slow
def test_log_beta_interval():
    """Catches a difference that cancels, a tail of the wrong side, a Taylor series taken too far."""
    assert interval_error(log_beta_interval) < 1
    assert (
        interval_error(lambda a, b, l, h: naive_log(special.betainc(a, b, h) - special.betainc(a, b, l)), step=7) > 100
    )
    assert (
        interval_error(lambda a, b, l, h: log_beta_interval(a, b, l, h) + (2e-11 if h - l < 1e-4 else 0.0), step=7) > 1
    )
    assert interval_error(lambda a, b, l, h: log_beta_interval(a, b, l, h if h < 1 else 1 - EPS), step=7) > 1


def inner_masses(a, b, size, middles):
    """``fill_inner_masses`` of the inner bins; NaN where it leaves a bin to the general rule."""
    theta = np.full((1, 3 + size), np.nan)
    theta[0, :2] = a, b
    norm = -log_beta(a, b)  # scipy.special.betaln is off by 1e-12
    fill_inner_masses(theta, 0, 3, size, norm, np.log(middles), np.log1p(-middles))
    return np.where(theta[0, 4:-1] == -1.0, np.nan, theta[0, 4:-1])


def masses_error(shift=0.0):
    """Largest error of ``inner_masses`` in units of its exponents' rounding, and the share of bins that it filled."""
    worst, filled = 0.0, []
    shapes = (0.01, 0.4, 1.0, 1.3, 7.0, 60.0, 900.0)
    for size, a, b in itertools.product((2, 3, 8, 32, 128), shapes, shapes):
        middles = (np.arange(size) + 0.5) / size
        unit = EPS * (1.0 + abs(log_beta(a, b)) + a * abs(np.log(middles)) + b * abs(np.log1p(-middles)))
        for c, mass in enumerate(inner_masses(a, b, size, middles + shift / size), start=1):
            exact = math.exp(log_beta_interval(a, b, c / size, (c + 1) / size))
            if exact > 1e-290 and mass == mass:
                worst = max(worst, abs(mass / exact - 1.0) / unit[c])
            filled.append(mass == mass)
    return worst, np.mean(filled)


def test_masses_of_equal_bins():
    """Catches a slip in the series or in the bound on its terms: against the general rule.

    The twin expands the density about a point beside the middle.
    """
    worst, filled = masses_error()
    assert worst < 10
    assert filled > 0.5
    assert masses_error(shift=1e-6)[0] > 1e4


def test_log_beta_cdf_near_certainty():
    """Catches log(1 - q) for log1p(-q): the rest of the probability would be lost."""
    for a, b, x in [(3.0, 20.0, 0.95), (60.0, 1000.0, 0.3), (0.5, 30.0, 0.9), (1e4, 1e4, 0.6), (5.0, 40.0, 0.8)]:
        for value in (log_beta_cdf(a, b, x), log_beta_interval(a, b, 1e-300, x)):
            assert error(value, exact_log_interval(a, b, 0.0, x), 1e-11, 1e-100 if a > 0.5 else 1e-140) < 1


def test_log_beta_interval_adds_up():
    """Catches bins of a partition whose probabilities do not sum to one, narrow and wide ones together."""
    for a, b in [(2.0, 5.0), (0.5, 0.5), (20.0, 50.0), (1e-3, 1e-3), (1.0, 1.0), (300.0, 0.1)]:
        for edges in (np.linspace(0, 1, 33), np.concatenate([[0], np.logspace(-30, 0, 40)])):
            mass = [math.exp(log_beta_interval(a, b, *ends)) for ends in itertools.pairwise(edges)]
            assert sum(mass) == pytest.approx(1, rel=1e-11)


def test_limits_of_probabilities():
    """Catches NaN (or, in plain Python, an exception) at empty, subnormal and outer arguments."""
    for a in SHAPES:
        for b in SHAPES:
            assert log_beta_cdf(a, b, 0.0) == log_beta_cdf(a, b, -0.5) == -INF
            assert log_beta_cdf(a, b, 1.0) == log_beta_cdf(a, b, 1.5) == log_beta_interval(a, b, 0.0, 1.0) == 0
            assert log_beta_interval(a, b, -1.0, 2.0) == 0
            assert -INF < log_beta_cdf(a, b, 5e-324) < 0
            assert log_beta_interval(a, b, 0.0, 5e-324) == log_beta_cdf(a, b, 5e-324)
            assert log_beta_interval(a, b, LARGEST, 1.0) > -INF
            for lo, hi in [(0.0, 0.0), (1.0, 1.0), (0.3, 0.3), (0.4, 0.3), (math.nan, 0.5), (0.5, math.nan)]:
                assert log_beta_interval(a, b, lo, hi) == -INF
    assert math.isnan(log_beta_cdf(1.0, 1.0, math.nan))


# ---------------------------------------------------------------- draws


@njit(nogil=True)
def fill(out, draw, rng, a, b, lo, hi):
    for i in range(out.shape[0]):
        out[i] = draw(rng, a, b, lo, hi)


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


def sample(draw, args, n=N_DRAWS):
    """Draws under a seed of the regime's own: fixed, yet the regimes do not share their luck."""
    out = np.empty(n)
    args = tuple(map(float, args))
    fill(out, draw, np.random.default_rng(zlib.crc32(repr(args).encode())), *args)
    return out


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


# ---------------------------------------------------------------- plain Python


def test_plain_python_agrees(monkeypatch):
    """Catches code that only compiles: a division by zero, a logarithm of zero or an overflow raises in Python."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    spec = importlib.util.spec_from_file_location("sklearn_dpmix._base._beta_plain", beta_numeric.__file__)
    plain = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(plain)
    monkeypatch.undo()  # what it is compared with may yet have to be compiled
    ends = (0.0, 5e-324, 1e-310, 1e-100, 1e-3, 0.3, 0.3001, 0.5, 0.9, 1 - 1e-9, LARGEST, 1.0)
    out, rng = np.empty(1), np.random.default_rng
    for a in (1e-3, 0.4, 1.0, 30.0, 1e4):
        for b in (1e-3, 0.4, 1.0, 30.0, 1e4):
            assert 0 < plain.draw_beta(rng(0), a, b) < 1
            for lo in ends:
                value = plain.log_beta_cdf(a, b, lo)
                assert value == pytest.approx(log_beta_cdf(a, b, lo), rel=1e-11, abs=1e-12)
                for hi in ends:
                    value = plain.log_beta_interval(a, b, lo, hi)
                    assert value == pytest.approx(log_beta_interval(a, b, lo, hi), rel=1e-11, abs=1e-12)
                    if lo < hi:
                        fill(out, draw_beta_interval, rng(0), a, b, lo, hi)
                        assert plain.draw_beta_interval(rng(0), a, b, lo, hi) == pytest.approx(out[0], rel=1e-9)
