"""Accuracy of the compiled numeric helpers against mpmath, and exactness of their draws.

Checks that compare take the function as an argument, and are shown to reject a broken twin of it.
"""

import importlib.util
import math
import re

import numba
import numpy as np
import pytest
from numba import njit
from scipy import special

from sklearn_dpmix._base import numeric, vector
from sklearn_dpmix._base.numeric import (
    log_gamma_p,
    log_ndtr,
    log_ndtr_interval,
)
from sklearn_dpmix._base.vector import exp_bounded

mpmath = pytest.importorskip("mpmath")

EPS = np.finfo(float).eps
INF = math.inf


# ---------------------------------------------------------------- exact values


def upper_normal(x):
    return mpmath.erfc(x / mpmath.sqrt(2)) / 2


def exact_log_ndtr(x):
    with mpmath.workdps(30):
        x = mpmath.mpf(x)
        return mpmath.log(upper_normal(-x)) if x < 0 else mpmath.log1p(-upper_normal(x))


def exact_log_interval(a, b):
    with mpmath.workdps(70):
        a, b = mpmath.mpf(a), mpmath.mpf(b)
        if b < 0:
            a, b = -b, -a
        mass = upper_normal(a) - upper_normal(b)
        return mpmath.log(mass) if mass < 0.5 else mpmath.log1p(-upper_normal(-a) - upper_normal(b))


def exact_log_gamma_p(a, x):
    """Power series, whose terms are all positive; Legendre's continued fraction far above the transition."""
    with mpmath.workdps(40):
        far = x > a + 10 * math.sqrt(a) + 20
        a, x = mpmath.mpf(a), mpmath.mpf(x)
        front = a * mpmath.log(x) - x - mpmath.loggamma(a + 1)
        if far:
            fraction = mpmath.mpf(0)
            for k in range(200, 0, -1):
                fraction = k * (a - k) / (x + 2 * k + 1 - a + fraction)
            return mpmath.log1p(-mpmath.exp(front) * a / (x + 1 - a + fraction))
        total = term = mpmath.mpf(1)
        n = a
        while term > total * 1e-35:
            n += 1
            term *= x / n
            total += term
        return front + mpmath.log(total)


def error(value, exact, relative, absolute=0.0):
    """Error of a float in units of the tolerance; infinite where the float is not finite."""
    if not math.isfinite(value):
        return INF
    return float(abs(mpmath.mpf(value) - exact) / (relative * abs(exact) + absolute))


# ---------------------------------------------------------------- logarithms of probabilities

NDTR_POINTS = np.concatenate([np.linspace(-45, 37.5, 331), -np.logspace(1, 8, 30), [2.0, -20.0, 20.0, -1e-9, 0.0]])
INTERVALS = [
    (sign * start - (width if sign < 0 else 0.0), sign * start + (0.0 if sign < 0 else width))
    for sign in (1.0, -1.0)
    for start in (0.0, 1e-3, 0.3, 1.0, 3.0, 8.0, 19.9, 20.0, 37.0, 60.0, 1e3, 1e5)
    for width in (1e-12, 1e-6, 1e-3, 0.04, 0.099, 0.101, 0.7, 1.01, 5.0, INF)
    if start + width > start
] + [(-0.4 * w, 0.6 * w) for w in (1e-12, 1e-4, 0.1, 0.3, 0.99, 1.01, 3.0, 30.0)]
GAMMA_POINTS = [
    (a, a * ratio)
    for a in (0.1, 0.5, 1.0, 2.5, 9.99, 10.01, 29.9, 30.0, 31.0, 100.0, 500.0, 1e4, 1e6)
    for ratio in (1e-300, 1e-6, 0.1, 0.499, 0.501, 0.8, 0.99, 0.9999, 1.0, 1.0001, 1.02, 1.3, 1.59, 1.61, 3.0, 20.0)
    if a < 1e5 or 0.9 < ratio < 1.1 or ratio < 0.5
] + [(500.0, 1e-3), (1e6, 999_000.0), (1e6, 1e6 + 3e3), (0.1, 5.8), (0.1, 6.0), (20.0, 33.9), (20.0, 34.0)]


def ndtr_error(function):
    return max(error(function(x), exact_log_ndtr(x), 1e-13) for x in NDTR_POINTS)


def interval_error(function):
    # a logarithm of size L cannot be closer than L * EPS, and its argument moves as much by the rounding of the ends
    return max(error(function(a, b), exact_log_interval(a, b), 4 * EPS, 1e-10) for a, b in INTERVALS)


def gamma_error(function):
    return max(error(function(a, x), exact_log_gamma_p(a, x), 1e-10, 1e-12) for a, x in GAMMA_POINTS)


def naive_log(probability):
    with np.errstate(divide="ignore"):
        return float(np.log(probability))


def test_log_ndtr():
    """Catches a log of an underflowed or cancelled probability, and an asymptotic series used too near zero."""
    assert ndtr_error(log_ndtr) < 1
    assert ndtr_error(lambda x: naive_log(special.ndtr(x))) > 100
    assert ndtr_error(lambda x: log_ndtr(x) * (1 + 2e-13)) > 1


def test_log_ndtr_interval():
    """Catches a difference of two distribution functions that cancels, underflows, or is taken in the wrong tail."""
    assert interval_error(log_ndtr_interval) < 1
    assert interval_error(lambda a, b: naive_log(special.ndtr(b) - special.ndtr(a))) > 100
    assert interval_error(lambda a, b: log_ndtr_interval(a, b) + (2e-10 if b - a < 1e-3 else 0.0)) > 1


def test_log_ndtr_interval_near_certainty():
    """Catches log(1 - q) for log1p(-q): the rest of the probability would be lost."""
    for a, b in [(-9.0, 10.0), (-12.0, INF), (-INF, 15.0), (-30.0, 30.0)]:
        assert error(log_ndtr_interval(a, b), exact_log_interval(a, b), 1e-12) < 1


def test_log_ndtr_interval_symmetry():
    """Catches a regime chosen differently in the two tails, and infinite ends mistaken for one another."""
    for a, b in INTERVALS:
        assert log_ndtr_interval(a, b) == log_ndtr_interval(-b, -a)
    for x in (-50.0, -3.0, 0.0, 0.5, 4.0):
        assert log_ndtr_interval(-INF, x) == pytest.approx(log_ndtr(x), rel=1e-13)


def test_log_gamma_p():
    """Catches log of an underflowed P, Temme's expansion used outside its range, and cancellation at large shapes."""
    assert gamma_error(log_gamma_p) < 1
    assert gamma_error(lambda a, x: naive_log(special.gammainc(a, x))) > 100
    assert gamma_error(lambda a, x: log_gamma_p(a, x) * (1 + 2e-10)) > 1


def test_log_gamma_p_near_certainty():
    """Catches log(P) for log1p(-Q): the upper tail would be lost."""
    for a, x in [(0.5, 30.0), (3.0, 60.0), (25.0, 120.0), (100.0, 159.0), (100.0, 400.0)]:
        assert error(log_gamma_p(a, x), exact_log_gamma_p(a, x), 1e-10) < 1


def test_limits_of_probabilities():
    """Catches NaN (or, in plain Python, an exception) at infinite, empty and huge arguments."""
    assert log_ndtr(INF) == 0 and log_ndtr(-INF) == -INF and math.isnan(log_ndtr(math.nan))
    assert log_ndtr_interval(-INF, INF) == 0
    for a, b in [(1.0, 1.0), (2.0, 1.0), (INF, INF), (-INF, -INF), (1e300, INF), (math.nan, 1.0)]:
        assert log_ndtr_interval(a, b) == -INF
    for a in (0.1, 5.0, 50.0, 1e6):
        assert log_gamma_p(a, 0.0) == -INF
        assert log_gamma_p(a, INF) == log_gamma_p(a, 1e300) == 0
        assert -INF < log_gamma_p(a, 5e-324) < -50


def test_log_gamma_p_continuous_over_its_methods():
    """Catches a seam: the methods must agree where one takes over from the other."""
    for a, x in [(40.0, 20.0), (40.0, 64.0), (1e4, 5e3), (8.0, 13.0 + 2 * math.sqrt(8.0)), (30.0, 33.0), (10.0, 9.0)]:
        for shape, end in [(a, x), (np.nextafter(a, 0), x)]:
            values = [log_gamma_p(shape, np.nextafter(end, to)) for to in (0, INF)]
            assert values[0] == pytest.approx(values[1], rel=1e-10, abs=1e-12)


# ---------------------------------------------------------------- exponential

EXP_POINTS = np.concatenate(
    [np.linspace(-708, 0, 3001), -np.logspace(-18, 2, 500), np.linspace(0, 1, 101), -math.log(2) * np.arange(0.5, 1021)]
)


def test_exp_bounded():
    """Catches a truncated polynomial, a one-part log(2), and an exponent off by one."""

    def worst(function):
        with mpmath.workdps(25):
            return max(error(function(x), mpmath.exp(mpmath.mpf(x)), 1e-15) for x in EXP_POINTS)

    assert worst(exp_bounded) < 0.25
    assert worst(lambda x: exp_bounded(x) * (1 + 3e-15)) > 1
    assert worst(lambda x: exp_bounded(x - math.remainder(x, 1e-13))) > 1
    assert exp_bounded(0.0) == 1


def test_exp_bounded_limits():
    """Catches a denormal or a wrapped exponent below the range, and a NaN taken for zero."""
    for x in (-708.0001, -709.0, -745.0, -1e4, -1e16, -1e300, -INF):
        assert exp_bounded(x) == 0
    assert exp_bounded(-708.0) > np.finfo(float).tiny
    assert math.isnan(exp_bounded(math.nan))


@pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="nothing is compiled")
def test_exp_bounded_is_vectorised():
    """Catches a branch, a call or an exception in the exponential: the loop would stay scalar, and slow."""

    def vectorised(function, instruction):
        @njit
        def loop(out, a, h, m, y):
            for k in range(out.shape[0]):
                out[k] = function(a[k] - h[k] * (y - m[k]) ** 2)

        arrays = [np.zeros(16) for _ in range(4)]
        loop(*arrays, 0.5)
        return re.search(instruction, loop.inspect_llvm(loop.signatures[0])) is not None

    @njit
    def squared(x):
        return x * x

    @njit
    def checked(x):
        if x > 0.0:
            raise ValueError("positive")
        return exp_bounded(x)

    if not vectorised(squared, r"fmul <\d+ x double>"):
        pytest.skip("no loop is vectorised for this processor")
    assert vectorised(exp_bounded, r"@llvm\.fmuladd\.v\d+f64\(")
    assert not vectorised(checked, r"@llvm\.fmuladd\.v\d+f64\(")


# ---------------------------------------------------------------- plain Python


def test_plain_python_agrees(monkeypatch):
    """Catches code that only compiles: a division by zero, a logarithm of zero or an overflow raises in Python."""
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    plain = []
    for module in (numeric, vector):
        spec = importlib.util.spec_from_file_location(module.__name__ + "_plain", module.__file__)
        copy = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(copy)
        plain.append(copy)
    monkeypatch.undo()  # what they are compared with may yet have to be compiled
    plain_numeric, plain_vector = plain
    ends = (-INF, -1e300, -1e8, -25.0, -3.0, -1e-320, 0.0, 1e-320, 0.7, 3.0, 3.0001, 25.0, 1e8, 1e300, INF)
    for a in ends:
        assert plain_numeric.log_ndtr(a) == pytest.approx(log_ndtr(a), rel=1e-13)
        for b in ends:
            assert plain_numeric.log_ndtr_interval(a, b) == pytest.approx(log_ndtr_interval(a, b), rel=1e-12)
            if a <= b:
                assert a <= plain_numeric.draw_truncated_normal(np.random.default_rng(0), a, b) <= b
    for a in (0.1, 5.0, 50.0, 1e6):
        for x in (0.0, 5e-324, 1e-3, 0.4 * a, a, 1.1 * a, 3 * a, 1e300, INF):
            assert plain_numeric.log_gamma_p(a, x) == pytest.approx(log_gamma_p(a, x), rel=1e-12, abs=1e-14)
            if x > 0:
                assert 0 <= plain_numeric.draw_gamma_below(np.random.default_rng(0), a, x) <= x
    for x in (0.0, -1.0, -708.0, -709.0, -INF):
        assert plain_vector.exp_bounded(x) == pytest.approx(exp_bounded(x), rel=1e-15)
