"""Draws from truncated normal and gamma distributions are exact, stay inside, and take a bounded number of tries.

Checks that compare take the function as an argument, and are shown to reject a broken twin of it.
"""

import math

import numpy as np
import pytest
from compiled_draws import sample
from numba import njit
from scipy import special, stats

from sklearn_dpmix._base.numeric import draw_gamma_below, draw_truncated_normal

INF = math.inf
ALPHA = 1e-6


def truncated_normal_cdf(x, a, b):
    if b <= 0:
        return 1 - truncated_normal_cdf(-x, -b, -a)
    if a < 0:
        if b - a < 1e-6:
            return (x - a) / (b - a)
        return (special.ndtr(x) - special.ndtr(a)) / (special.ndtr(b) - special.ndtr(a))

    def below(x):  # 1 - Q(x) / Q(a)
        scaled = special.erfcx(x / math.sqrt(2)) / special.erfcx(a / math.sqrt(2))
        return 1 - scaled * np.exp(-0.5 * (x - a) * (x + a))

    return below(x) / below(b)


def truncated_gamma_cdf(x, a, upper):
    if upper == INF:
        return special.gammainc(a, x)

    def series(x):
        total = term = np.ones_like(x)
        n = a
        while np.max(term / total) > 1e-12:
            n += 1
            term = term * x / n
            total = total + term
        return np.log(total)

    return np.exp(a * np.log(x / upper) - (x - upper) + series(x) - series(np.array([upper])))


def p_value(draw, cdf, a, b):
    """Kolmogorov-Smirnov p-value of the draws; zero when one leaves the interval."""
    x = sample(draw, (a, b))
    low, high = (a, b) if cdf is truncated_normal_cdf else (0.0, b)
    if not np.all((x >= low) & (x <= high)):
        return 0.0
    return stats.kstest(cdf(x, a, b), "uniform").pvalue


NORMAL_REGIMES = {
    "unrestricted": (-INF, INF),
    "wide": (-2.0, 2.0),
    "one-sided": (-0.1, INF),
    "about zero": (-0.7, 1.0),
    "point-like": (-4e-10, 6e-10),
    "half": (0.0, INF),
    "half, two ends": (0.3, 2.0),
    "tail": (1.0, INF),
    "tail, two ends": (1.0, 2.5),
    "far tail": (30.0, INF),
    "farthest tail": (1e4, INF),
    "narrow": (3.0, 3.2),
    "narrow, near zero": (0.1, 0.9),
    "narrow, far": (30.0, 30.01),
    "left tail": (-INF, -2.0),
    "left, two ends": (-3.5, -2.0),
}
GAMMA_REGIMES = {
    "unrestricted": (2.5, INF),
    "unrestricted, small shape": (0.3, INF),
    "above the mode": (2.5, 4.0),
    "at the shape": (50.0, 50.0),
    "below the shape": (50.0, 49.9),
    "below the mode": (50.0, 40.0),
    "far below": (50.0, 1.0),
    "underflowed": (500.0, 1e-3),
    "exponential": (1.0, 0.7),
    "small shape": (0.5, 0.4),
    "smallest shape": (0.1, 0.09),
    "small shape, far below": (0.1, 1e-5),
    "huge shape": (1e6, 1e6 - 100.0),
    "huge shape, above": (1e6, 1e6 + 500.0),
    "huge shape, far below": (1e6, 9e5),
}


@pytest.mark.parametrize("regime", NORMAL_REGIMES)
def test_draw_truncated_normal(regime):
    """Catches a wrong rate, a lost acceptance test, clipping to the interval, a reflection forgotten."""
    assert p_value(draw_truncated_normal, truncated_normal_cdf, *NORMAL_REGIMES[regime]) > ALPHA


@pytest.mark.parametrize("regime", GAMMA_REGIMES)
def test_draw_gamma_below(regime):
    """Catches a proposal taken for the target, clipping to the upper end, a tangent that is no envelope."""
    assert p_value(draw_gamma_below, truncated_gamma_cdf, *GAMMA_REGIMES[regime]) > ALPHA


@njit(nogil=True)
def normal_clipped(rng, a, b):
    return min(max(rng.standard_normal(), a), b)


@njit(nogil=True)
def normal_without_acceptance(rng, a, b):
    scale = 2.0 / (a + math.sqrt(a * a + 4.0))
    while True:
        x = a + scale * rng.standard_exponential()
        if x <= b:
            return x


@njit(nogil=True)
def normal_of_wrong_rate(rng, a, b):
    while True:
        t = rng.standard_exponential() / a
        if a + t <= b and 2.0 * rng.standard_exponential() >= (t - 1.0 / a) ** 2:
            return a + t


@njit(nogil=True)
def normal_uniform(rng, a, b):
    return a + (b - a) * rng.random()


@njit(nogil=True)
def normal_not_reflected(rng, a, b):
    return a + b - draw_truncated_normal(rng, a, b)


@pytest.mark.parametrize(
    "twin, regime",
    [
        (normal_clipped, "half, two ends"),
        (normal_without_acceptance, "tail"),
        (normal_of_wrong_rate, "tail"),
        (normal_uniform, "narrow"),
        (normal_uniform, "about zero"),
        (normal_not_reflected, "left, two ends"),
    ],
)
def test_broken_normal_is_rejected(twin, regime):
    """Catches a check of the truncated normal that would accept anything."""
    assert p_value(twin, truncated_normal_cdf, *NORMAL_REGIMES[regime]) < ALPHA


@njit(nogil=True)
def gamma_clipped(rng, a, upper):
    return min(rng.standard_gamma(a), upper)


@njit(nogil=True)
def gamma_power(rng, a, upper):
    return upper * (1.0 - rng.random()) ** (1.0 / a)


@njit(nogil=True)
def gamma_without_acceptance(rng, a, upper):
    return upper * math.exp(-rng.standard_exponential() / (a - upper))


@njit(nogil=True)
def gamma_of_wrong_shape(rng, a, upper):
    return draw_gamma_below(rng, a + 1.0, upper)


@pytest.mark.parametrize(
    "twin, regime",
    [
        (gamma_clipped, "above the mode"),
        (gamma_power, "exponential"),
        (gamma_power, "below the mode"),
        (gamma_without_acceptance, "below the mode"),
        (gamma_without_acceptance, "small shape"),
        (gamma_of_wrong_shape, "exponential"),
    ],
)
def test_broken_gamma_is_rejected(twin, regime):
    """Catches a check of the truncated gamma that would accept anything."""
    assert p_value(twin, truncated_gamma_cdf, *GAMMA_REGIMES[regime]) < ALPHA


def test_draws_stay_inside():
    """Catches a rounding that leaves the interval: ends one unit in the last place apart, far tails, huge ends."""
    for a in (-1e8, -3.0, -1e-300, 0.0, 0.5, 7.0, 1e8, 1e160):
        for b in (np.nextafter(a, INF), np.nextafter(np.nextafter(a, INF), INF), a + 1e-9 * abs(a), INF):
            if a < b:
                x = sample(draw_truncated_normal, (a, b), n=200)
                assert np.all((x >= a) & (x <= b))
                x = sample(draw_truncated_normal, (-b, -a), n=200)
                assert np.all((x >= -b) & (x <= -a))
    for a in (0.1, 1.0, 3.0, 1e6):
        for upper in (1e-300, 1e-3, a, np.nextafter(a, 0), 2 * a):
            x = sample(draw_gamma_below, (a, upper), n=200)
            assert np.all((x > 0) & (x <= upper) | ((x == 0) & (upper < 1e-250)))


def test_degenerate_draws():
    """Catches an endless loop at an empty interval or NaN."""
    rng = np.random.default_rng(0)
    for a in (-2.5, 0.0, 3.0, INF, -INF):
        assert draw_truncated_normal(rng, a, a) == a
    assert math.isnan(draw_truncated_normal(rng, math.nan, 1.0))
    assert draw_truncated_normal(rng, 1.0, math.nan) == 1.0
    for a, upper in [(math.nan, 1.0), (1.0, math.nan), (0.0, 1.0), (1.0, 0.0)]:
        assert math.isnan(draw_gamma_below(rng, a, upper))


class CountingGenerator:
    """A generator that counts its variates, and stops a sampler that asks for too many."""

    def __init__(self, limit):
        self.rng, self.count, self.limit = np.random.default_rng(0), 0, limit

    def __getattr__(self, name):
        self.count += 1
        if self.count > self.limit:
            raise RuntimeError("too many variates")
        return getattr(self.rng, name)


def variates_per_draw(draw, a, b, n=300):
    rng = CountingGenerator(limit=20 * n)
    python = getattr(draw, "py_func", draw)
    for _ in range(n):
        python(rng, a, b)
    return rng.count / n


def test_bounded_number_of_tries():
    """Catches a regime without an efficient proposal: no draw takes more than about 2.1 tries of two variates."""
    starts = (-6.0, -2.0, -1.0, -0.1, 0.0, 0.1, 0.39, 0.41, 1.0, 3.0, 30.0, 1e4, 1e8)
    for a in starts:
        for width in (1e-9, 0.1, 0.5, 1.0, 1.19, 1.21, 1.5, 2.5, 2.51, 5.0, INF):
            assert variates_per_draw(draw_truncated_normal, a, a + width) < 4.5
    for a in (0.1, 0.5, 0.9, 1.0, 1.1, 2.0, 5.0, 30.0, 1e3, 1e6):
        for ratio in (1e-9, 1e-3, 0.3, 0.9, 0.99, 0.999, 1.0, 1.01, 2.0, INF):
            assert variates_per_draw(draw_gamma_below, a, a * ratio) < 3.5
    with pytest.raises(RuntimeError):
        variates_per_draw(draw_gamma_clipped_by_rejection, 50.0, 10.0)


def draw_gamma_clipped_by_rejection(rng, a, upper):
    while True:
        x = rng.standard_gamma(a)
        if x <= upper:
            return x
