"""Accuracy of the compiled helpers of the beta distribution against mpmath, and exactness of their draws.

Checks that compare take the function as an argument, and are shown to reject a broken twin of it.
"""

import importlib.util
import itertools
import math
from fractions import Fraction
from functools import cache

import numba
import numpy as np
import pytest
from compiled_beta import LARGEST, log_beta_cdf, log_beta_interval
from compiled_draws import fill
from scipy import special

from sklearn_dpmix._base import beta_numeric
from sklearn_dpmix._base.beta_numeric import digamma, draw_beta_interval, log_beta, trigamma
from sklearn_dpmix.kernels._beta import fill_inner_masses

mpmath = pytest.importorskip("mpmath")

EPS = np.finfo(float).eps
INF = math.inf
BITS = 300


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
