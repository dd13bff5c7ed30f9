"""Compiled scalar helpers of the beta distribution: probabilities of intervals, exact draws, psi functions.

Allocation-free, never cached by themselves.  Right as plain Python too (``NUMBA_DISABLE_JIT=1``), where division by
zero and the logarithm of zero raise.  Next to a point `x` stands its complement `y`, so that either end of the unit
interval is as fine as floating point has it.
"""

import math

from .compiled import helper

_LOG_SQRT_2PI = 0.9189385332046728
_LARGE = 10.0  # from here on the asymptotic series in 1 / x**2 below have full accuracy
_SMALLEST = 2.2250738585072014e-308  # the smallest normal double: its reciprocal is finite
_LARGEST = 1.0 - 2.0**-53  # the largest double below one
_TERMS = 20_000  # bounds the continued fraction, which takes a multiple of sqrt(max(a, b)) terms or fewer
_TRIES = 1000  # bounds the rejection, whose tries each succeed with probability 0.59 or more


@helper
def digamma(x):
    """Digamma function of a positive number: recurrence (DLMF 5.5.2) up to 10, then its series (DLMF 5.11.2).

    The error is below 2e-15 times the larger of one and the value.
    """
    if not x > 0.0:
        return math.nan
    s = 0.0
    while x < _LARGE:
        s -= 1.0 / x
        x += 1.0
    v = 1.0 / (x * x)
    t = 1.0 / 240.0 - v * (1.0 / 132.0 - v * (691.0 / 32760.0 - v / 12.0))
    t = v * (1.0 / 12.0 - v * (1.0 / 120.0 - v * (1.0 / 252.0 - v * t)))
    return s + (math.log(x) - 0.5 / x - t)


@helper
def trigamma(x):
    """Trigamma function of a positive number: recurrence (DLMF 5.15.5) up to 10, then its series (DLMF 5.15.8).

    The relative error is below 2e-15; `x` must be above 1e-150, where its square is a number.
    """
    if not x > 0.0:
        return math.nan
    s = 0.0
    while x < _LARGE:
        s += 1.0 / (x * x)
        x += 1.0
    v = 1.0 / (x * x)
    t = 1.0 / 30.0 - v * (5.0 / 66.0 - v * (691.0 / 2730.0 - v * 7.0 / 6.0))
    return s + (1.0 + (0.5 + (1.0 / 6.0 - v * (1.0 / 30.0 - v * (1.0 / 42.0 - v * t))) / x) / x) / x


@helper
def _stirling(x):
    """Rest of Stirling's formula for ``log(Gamma(x))``, ``x >= 10`` (DLMF 5.11.1): error below 1e-16."""
    v = 1.0 / (x * x)
    s = 1.0 / 1680.0 - v * (1.0 / 1188.0 - v * (691.0 / 360360.0 - v / 156.0))
    return (1.0 / 12.0 - v * (1.0 / 360.0 - v * (1.0 / 1260.0 - v * s))) / x


@helper
def log_beta(a, b):
    """Logarithm of the beta function of two positive numbers.

    The leading terms of Stirling's formula (DLMF 5.11.1) are differenced by hand, so that those of large arguments do
    not cancel, alike or of different sizes.  The error is below 5e-15 plus 5e-16 of the value, for arguments from
    1e-300 to 1e8.
    """
    if a > b:
        a, b = b, a
    if b < _LARGE:
        return math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    rest = _stirling(b) - _stirling(a + b)
    if a < _LARGE:
        return math.lgamma(a) + (rest + a - (a + b - 0.5) * math.log1p(a / b) - a * math.log(b))
    rest += _stirling(a) + _LOG_SQRT_2PI - 0.5 * math.log(b)
    return rest - (a - 0.5) * math.log1p(b / a) - b * math.log1p(a / b)


@helper
def _log_front(a, b, x, y):
    """``log(x**a * y**b / B(a, b))`` for ``0 < x = 1 - y < 1``."""
    if min(a, b) < _LARGE:
        lx = math.log(x) if x < 0.5 else math.log1p(-y)
        ly = math.log(y) if y < 0.5 else math.log1p(-x)
        return a * lx + b * ly - log_beta(a, b)
    # powers of x and y over the mean's: near it both logarithms are small, and what is left is their difference
    n = a + b
    t = b * x - a * y
    lx = math.log1p(t / a) if abs(t) < 0.5 * a else math.log(x / (a / n))
    ly = math.log1p(-t / b) if abs(t) < 0.5 * b else math.log(y / (b / n))
    rest = _stirling(n) - _stirling(a) - _stirling(b) - _LOG_SQRT_2PI
    return a * lx + b * ly + 0.5 * math.log(a * (b / n)) + rest


@helper
def _log_tail(a, b, x, y):
    """``log(I_x(a, b))`` where :func:`_below` asks for it; ``-inf`` at zero.

    The even part of the continued fraction DLMF 8.17.22 (Didonato and Morris, 1992, ACM TOMS 18, equation 9), by the
    recurrence DLMF 1.12.5 of its convergents, each scaled to the denominator one.
    """
    if not x > 0.0:
        return -math.inf
    n = 0.0
    c = 1.0 / (a + 1.0)
    lead = a - (a + b) * x + 1.0 if x < 0.5 else (a + b) * y - b + 1.0
    value = 1.0 / (a * lead * c)  # the convergent
    before, scale = 0.0, value  # the numerator and the denominator before it
    last = 0.0
    while abs(value - last) > 5e-16 * value and n < _TERMS:
        n += 1.0
        u = n * (b - n) * x * c
        alpha = (a + (n - 1.0)) * (a + b + (n - 1.0)) * x * c * u
        c = 1.0 / (a + 2.0 * n + 1.0)
        beta = n + u + (a + n) * (lead + n * (1.0 + y)) * c
        last = value
        inverse = 1.0 / (beta + alpha * scale)
        before, value, scale = value * inverse, (beta * value + alpha * before) * inverse, inverse
    return _log_front(a, b, x, y) + math.log(value)


@helper
def _below(a, b, x, y):
    """Whether the tail below `x` is the one to compute: where it is not the larger one, or next to it.

    With a small shape nearly all of the probability is at one end, and the other tail must not be its complement.
    """
    if b < 0.1 and b < a:
        return y * (a + 1.0) >= 0.2
    if a < 0.1 and a < b:
        return x * (b + 1.0) <= 0.2
    return x * (a + b + 2.0) <= a + 1.0


@helper
def _log_complement(log_p):
    """``log(1 - p)``, held away from the ``-inf`` of a probability that rounds to one."""
    if log_p < -0.7:
        return math.log1p(-math.exp(log_p))
    return math.log(-math.expm1(min(log_p, -1e-16)))


@helper
def log_beta_cdf(a, b, x):
    """Logarithm of the regularised incomplete beta function, ``log(I_x(a, b))``.

    Continued fraction below the mean, reflection (DLMF 8.17.4) above it.

    Parameters
    ----------
    a, b : float
        Shapes, positive.
    x : float
        Upper end, from 0 to 1.

    Returns
    -------
    float
        ``-inf`` at ``x <= 0``, zero at ``x >= 1``.  For shapes from 1e-3 to 1e4 the relative error of the probability
        is below 1e-11, besides the rounding of the logarithm itself; smaller shapes lose digits as their reciprocal.
    """
    if not x < 1.0:
        return 0.0 if x >= 1.0 else math.nan
    y = 1.0 - x
    if _below(a, b, x, y):
        return min(_log_tail(a, b, x, y), 0.0)
    return _log_complement(_log_tail(b, a, y, x))


@helper
def log_beta_interval(a, b, lo, hi):
    """Logarithm of the beta probability of an interval.

    A narrow interval is the Taylor series of the density about its middle, by the recurrence that the differential
    equation ``x (1 - x) f' = ((a - 1) (1 - x) - (b - 1) x) f`` gives the coefficients.  Elsewhere the difference of two
    tails, taken on the side of the mean where the interval lies, loses no more than the digits of ``1 / min(a, b)``.

    Parameters
    ----------
    a, b : float
        Shapes, positive.
    lo, hi : float
        Ends of the interval, from 0 to 1.

    Returns
    -------
    float
        ``log(I_hi(a, b) - I_lo(a, b))``, ``-inf`` when ``lo >= hi``.  Accuracy as for :func:`log_beta_cdf`.
    """
    lo, hi = max(lo, 0.0), min(hi, 1.0)
    if not lo < hi:
        return -math.inf
    h = 0.5 * (hi - lo)
    x = lo + h
    y = (1.0 - hi) + h
    if 0.0 < h <= 0.5 * min(x, y):
        hx, hy = h / x, h / y
        slope = (a - 1.0) * hx - (b - 1.0) * hy  # of the log density, over half the width
        curve = (a + b - 2.0) * hx * hy
        if abs(slope) <= 10.0 and curve <= 4.0:
            p, r = hx - hy, hx * hy
            n = before = last = 0.0
            term = total = 1.0
            while abs(term) + abs(last) > 1e-17 * total and n < 400.0:
                last = ((slope - p * n) * term - (curve - r * (n - 1.0)) * before) / (n + 1.0)
                before = ((slope - p * (n + 1.0)) * last - (curve - r * n) * term) / (n + 2.0)
                term, before = before, last
                n += 2.0
                total += term / (n + 1.0)
            return _log_front(a, b, x, y) + math.log(2.0 * hx / y * total)
    if _below(a, b, hi, 1.0 - hi):
        larger = _log_tail(a, b, hi, 1.0 - hi)
        return larger + _log_complement(_log_tail(a, b, lo, 1.0 - lo) - larger)
    if not _below(a, b, lo, 1.0 - lo):
        larger = _log_tail(b, a, 1.0 - lo, lo)
        return larger + _log_complement(_log_tail(b, a, 1.0 - hi, hi) - larger)
    rest = math.exp(_log_tail(a, b, lo, 1.0 - lo)) + math.exp(_log_tail(b, a, 1.0 - hi, hi))
    return math.log1p(-min(rest, _LARGEST))


@helper
def _drop(a, b, x, y, d):
    """By how much the log density of the logit falls from `x` to a logit `d` higher."""
    if x > 0.5:
        return b * d + (a + b) * math.log1p(y * math.expm1(-d))
    if d > 600.0:  # expm1 will overflow
        return b * d + (a + b) * math.log(x + y * math.exp(-d))
    return (a + b) * math.log1p(x * math.expm1(d)) - a * d


@helper
def _hat(a, b, x, y, w):
    """Hat over the density of the logit between `x`, at or above its mode, and a logit `w` higher.

    Flat first, then the exponential tangent to the density.  Both lie above it because it is log-concave; the point of
    tangency, which would best be where the density has fallen by the factor e, matters for the speed only.  Returned:
    the length of the flat part, and the rate of the other, infinite when there is none.
    """
    g = max(b * x - a * y, 0.0)  # minus the slope at x
    d = 2.0 / (g + math.sqrt(g * g + 2.0 * (a + b) * x * y))
    d = math.log1p(d + 0.5 * d * d)
    if d >= w:
        return w, math.inf
    e = math.exp(-d)
    fall = _drop(a, b, x, y, d)
    if fall < 0.8 and w < math.inf and _drop(a, b, x, y, w) <= 1.0:
        return w, math.inf
    rate = (b * x - a * y * e) / (x + y * e)
    return max(d - fall / rate, 0.0), rate


@helper
def draw_beta_interval(rng, a, b, lo, hi):
    """Exact draw of a beta variate restricted to an interval.

    The logit has the log-concave density ``x**a * (1 - x)**b`` whatever the shapes.  Rejection (Devroye, 1986, VII.2)
    from a hat on either side of its highest point in the interval.  Were the tangency where the log density has fallen
    by one, at a distance q, the hat's area would be q, and the density's ``(1 - 1 / e) q`` or more by concavity: 1.6
    tries expected.  As chosen they are below 1.7 (verified on a grid of shapes and intervals), and 1.1 as a rule.

    Parameters
    ----------
    rng : numpy.random.Generator
    a, b : float
        Shapes, positive; verified from 1e-3 to 1e6.
    lo, hi : float
        Ends of the interval, from 0 to 1.

    Returns
    -------
    float
        A value in ``[lo, hi]``, and strictly between 0 and 1 as for :func:`draw_beta`; `lo` itself when ``lo >= hi`` or
        an end is NaN.  NaN unless `a` and `b` are positive and finite.
    """
    if not (0.0 < a < math.inf and 0.0 < b < math.inf):
        return math.nan
    if not lo < hi:
        return lo
    width = hi - lo
    if a >= 1.0 and b >= 1.0 and lo > 0.0 and hi < 1.0:  # the density is log-concave: its slope is steepest at an end
        at_lo, at_hi = (a - 1.0) / lo - (b - 1.0) / (1.0 - lo), (a - 1.0) / hi - (b - 1.0) / (1.0 - hi)
        if -1.0 < at_lo * width < 1.0 and -1.0 < at_hi * width < 1.0:  # it falls by less than e: from the uniform
            top = min(max((a - 1.0) / (a + b - 2.0), lo), hi) if a + b > 2.0 else lo
            rest = 1.0 - top
            for _ in range(_TRIES):
                value = lo + width * rng.random()
                slack = rng.standard_exponential()
                if slack >= (value - top) * (-at_hi if value > top else -at_lo):  # never falls faster than at the end
                    return min(max(value, lo), hi)
                if slack >= (1.0 - a) * math.log(value / top) + (1.0 - b) * math.log((1.0 - value) / rest):
                    return min(max(value, lo), hi)
    n = a + b
    x, y = a / n, b / n
    left = right = 0.0  # logits from the highest point to the ends
    if x <= lo:
        x, y = lo, 1.0 - lo
    elif x >= hi and hi < 1.0:
        x, y = hi, 1.0 - hi
    if x < hi:
        gap = x * (1.0 - hi)
        right = math.log1p((hi - x) / gap) if gap > 0.0 else math.inf
    if x > lo:
        gap = y * lo
        left = math.log1p((x - lo) / gap) if gap > 0.0 else math.inf
    flat_left = flat_right = area_left = area_right = 0.0
    rate_left = rate_right = math.inf
    if left > 0.0:
        flat_left, rate_left = _hat(b, a, y, x, left)
        area_left = flat_left + 1.0 / rate_left
    if right > 0.0:
        flat_right, rate_right = _hat(a, b, x, y, right)
        area_right = flat_right + 1.0 / rate_right
    value = x
    for _ in range(_TRIES):
        d = rng.random() * (area_left + area_right) - area_left
        below = d < 0.0
        if below:
            d += area_left
        flat, rate, end = (flat_left, rate_left, left) if below else (flat_right, rate_right, right)
        slack = rng.standard_exponential()
        if d >= flat:
            hat = rng.standard_exponential()
            d = flat + hat / rate
            slack += hat
        if d <= end and slack >= (_drop(b, a, y, x, d) if below else _drop(a, b, x, y, d)):
            e = math.exp(-d)
            value = x * e / (y + x * e) if below else x / (x + y * e)
            break
    return min(max(value, lo, min(hi, _SMALLEST)), hi, max(lo, _LARGEST))


@helper
def draw_beta(rng, a, b):
    """Exact draw of a beta variate with positive shapes, strictly between 0 and 1.

    The ratio of gamma variates (Marsaglia & Tsang 2000), written out here: a call that takes the generator costs half
    as much again.  They underflow when a shape is small: there by way of the logit, which does not.  What is below the
    smallest normal double is raised to it, what rounds to one is lowered to the largest double below, where the density
    is finite.
    """
    if not (a >= 0.1 and b >= 0.1):
        return draw_beta_interval(rng, a, b, 0.0, 1.0)
    x = y = 0.0
    for side in range(2):
        shape = b if side else a
        d = (shape if shape >= 1.0 else shape + 1.0) - 1.0 / 3.0
        c = 1.0 / math.sqrt(9.0 * d)
        while True:
            normal = rng.standard_normal()
            v = 1.0 + c * normal
            if v > 0.0:
                v, square, u = v * v * v, normal * normal, rng.random()
                if u < 1.0 - 0.0331 * square * square or math.log(u) < 0.5 * square + d * (1.0 - v + math.log(v)):
                    break
        v *= d
        if shape < 1.0:  # Gamma(a) = Gamma(a + 1) U^(1/a)
            v *= math.exp(-rng.standard_exponential() / shape)
        x, y = y, v
    return min(max(x / (x + y), _SMALLEST), _LARGEST)


@helper
def draw_beta_logit(rng, a, b):
    """Logit of a beta variate with positive shapes: exact, and finite also where the variate rounds to 0 or 1."""
    logs = 0.0
    for side in range(2):
        shape = b if side else a
        value = math.log(rng.standard_gamma(shape if shape >= 1.0 else shape + 1.0))
        if shape < 1.0:  # Gamma(a) = Gamma(a + 1) U^(1/a)
            value -= rng.standard_exponential() / shape
        logs = value - logs
    return -logs
