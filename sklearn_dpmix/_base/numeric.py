"""Compiled scalar helpers: normal and gamma probabilities, exact truncated draws.

Allocation-free, and compiled *without* ``cache=True``: the cached entry points elsewhere compile these into themselves.
Right as plain Python too (``NUMBA_DISABLE_JIT=1``), where division by zero and the logarithm of zero raise.
"""

import math

from .compiled import helper, shared

SQRT_HALF = 0.7071067811865476
INV_SQRT_2PI = 0.3989422804014327
HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)
_SQRT_2PI = 2.5066282746310002
_LOG_SQRT_2PI = 0.9189385332046728  # the same, rounded right, which that is not: draws depend on the last digit
LEAST_GAMMA = 1e-180  # its inverse is far from everything, and squares of that are still floating-point numbers
_TAIL = 20.0  # beyond it the asymptotic series of the Mills ratio has full accuracy, and erfc is not needed

# Temme's c_k(eta), k = 0..5, as power series in eta, highest power first (DLMF 8.12.9 and 8.12.11).
_TEMME_0 = (
    -4.382036018453353e-09, 1.0261809784240309e-08, 6.707853543401498e-09, -1.7665952736826078e-07,
    8.296711340953087e-07, -1.85406221071516e-06, -2.185448510679992e-06, 3.919263178522438e-05,
    -0.0001787551440329218, 0.0003527336860670194, 0.0011574074074074073, -0.014814814814814815,
    0.08333333333333333, -0.3333333333333333,
)  # fmt: skip
_TEMME_1 = (
    1.378633446915721e-07, 4.647127802807434e-09, -1.6120900894563446e-06, 7.64916091608111e-06,
    -1.8098550334489977e-05, -4.018775720164609e-07, 0.00020576131687242798, -0.0009902263374485596,
    0.0026455026455026454, -0.003472222222222222, -0.001851851851851852,
)  # fmt: skip
_TEMME_2 = (
    1.3721957309062934e-06, 3.423578734096138e-08, -1.2760635188618728e-05, 5.2923448829120125e-05,
    -0.0001073665322636516, 2.0093878600823047e-06, 0.0007716049382716049, -0.0026813271604938273,
    0.004133597883597883,
)  # fmt: skip
_TEMME_3 = (
    1.1082654115347302e-05, -2.396505113867297e-07, -7.561801671883977e-05, 0.00026772063206283885,
    -0.0004691894943952557, 0.00022947209362139917, 0.0006494341563786008,
)  # fmt: skip
_TEMME_4 = (
    6.641498215465122e-05, -1.4638452578843418e-06, -0.0002990724803031902, 0.0007840392217200666,
    -0.0008618882909167117,
)  # fmt: skip
_TEMME_5 = (0.0002772753244959392, -6.972813758365857e-05, -0.00033679855336635813)


@shared
def _mills_tail(x):
    """Mills ratio ``(1 - Phi(x)) / phi(x)`` for ``x >= 20``: asymptotic series, relative error below 1e-15."""
    v = 1.0 / (x * x)
    s = v * (105.0 + v * (-945.0 + v * (10395.0 + v * (-135135.0 + v * 2027025.0))))
    return (1.0 + v * (-1.0 + v * (3.0 + v * (-15.0 + s)))) / x


@shared
def log_ndtr(x):
    """Logarithm of the standard normal distribution function.

    ``erfc`` in the centre, the asymptotic series of the Mills ratio (DLMF 7.12.1) beyond 20 standard deviations.

    Parameters
    ----------
    x : float

    Returns
    -------
    float
        ``log(Phi(x))``, relative error below 1e-13.
    """
    if x < 2.0:
        if x > -_TAIL:
            return math.log(0.5 * math.erfc(-SQRT_HALF * x))
        if x == -math.inf:
            return x
        return math.log(_mills_tail(-x)) - (0.5 * x * x + _LOG_SQRT_2PI)
    if x < _TAIL:
        return math.log1p(-0.5 * math.erfc(SQRT_HALF * x))
    return -INV_SQRT_2PI * math.exp(-0.5 * x * x) * _mills_tail(x)


@shared
def log_interval_ratio(a, w):
    """Logarithm of the standard normal probability of ``[a, a + w]`` over the density at `a`.

    Parameters
    ----------
    a : float
        At least 20, unless the interval is narrow, ``w * max(1, |a|, |a + w|) < 0.1``.
    w : float
        Positive, possibly infinite.

    Returns
    -------
    float
        ``log((Phi(a + w) - Phi(a)) / phi(a))``.
    """
    h = 0.5 * w
    if w * max(1.0, a + w, -a) < 0.1:
        m = (a + h) * h
        p = m * m
        q = h * h
        s = (p - q) / 6.0 + (p * (p - 6.0 * q) + 3.0 * q * q) / 120.0
        s += (p * (p * (p - 15.0 * q) + 45.0 * q * q) - 15.0 * q * q * q) / 5040.0
        return math.log(w * (1.0 + s)) - 0.5 * (a * w + q)
    ratio = math.exp(-w * (a + h))
    if ratio > 0.0:
        ratio *= _mills_tail(a + w)
    return math.log(_mills_tail(a) - ratio)


@shared
def log_ndtr_interval(a, b):
    """Logarithm of the standard normal probability of an interval.

    By symmetry the interval lies to the right of zero or holds it.  A narrow one is the Taylor (Hermite) series of the
    density about its middle; elsewhere the difference of two tails loses at most one digit.

    Parameters
    ----------
    a, b : float
        Ends of the interval, infinities allowed.

    Returns
    -------
    float
        ``log(Phi(b) - Phi(a))``, ``-inf`` when ``a >= b``.  Relative error of the probability below 1e-11, besides the
        rounding of the logarithm itself.
    """
    if not a < b:
        return -math.inf
    if b <= 0.0:
        a, b = -b, -a
    w = b - a
    if w * max(1.0, b, -a) < 0.1 or a >= _TAIL:
        return log_interval_ratio(a, w) - (0.5 * a * a + _LOG_SQRT_2PI)
    if a < 0.0:
        if w > 1.0:
            return math.log1p(-0.5 * (math.erfc(-SQRT_HALF * a) + math.erfc(SQRT_HALF * b)))
        return math.log(0.5 * (math.erf(SQRT_HALF * b) - math.erf(SQRT_HALF * a)))
    return math.log(0.5 * (math.erfc(SQRT_HALF * a) - math.erfc(SQRT_HALF * b)))


@shared
def draw_truncated_normal(rng, a, b):
    """Exact draw of a standard normal restricted to an interval.

    Rejection after Robert (1995) and Chopin (2011), each test made against an exponential variate: plain or half normal
    where the interval holds enough of it, uniform when it is narrow, otherwise the exponential of Robert's optimal rate
    from the end nearest zero.  Every regime accepts at least 0.48 of its tries.

    Parameters
    ----------
    rng : numpy.random.Generator
    a, b : float
        Ends of the interval, infinities allowed.

    Returns
    -------
    float
        A value in ``[a, b]``; `a` itself when ``a >= b`` or an end is NaN.
    """
    if not a < b:
        return a
    sign = 1.0
    if b <= 0.0:
        a, b, sign = -b, -a, -1.0
    w = b - a
    if a < 0.0:
        if w > _SQRT_2PI:
            while True:
                z = rng.standard_normal()
                if a <= z <= b:
                    return z
        while True:
            z = min(a + w * rng.random(), b)
            if 2.0 * rng.standard_exponential() >= z * z:
                return z
    if a < 0.4 and w > 1.2:
        while True:
            z = abs(rng.standard_normal())
            if a <= z <= b:
                return sign * z
    scale = 2.0 / (a + math.sqrt(a * a + 4.0))  # both 1 / rate and rate - a
    if w <= scale:
        while True:
            t = w * rng.random()
            if rng.standard_exponential() >= t * (a + 0.5 * t):
                return sign * min(a + t, b)
    while True:
        t = scale * rng.standard_exponential()
        if t <= w:
            d = t - scale
            if 2.0 * rng.standard_exponential() >= d * d:
                return sign * min(a + t, b)


@shared
def _horner(coefs, x):
    """Value at `x` of the polynomial with the tuple `coefs`, highest power first."""
    s = 0.0
    for c in coefs:
        s = s * x + c
    return s


@shared
def _log_gamma_p_temme(a, x):
    """Temme's uniform expansion (DLMF 8.12.3-4) of ``log(P(a, x))`` for ``a >= 30`` and ``0.5 <= x / a <= 1.6``."""
    mu = (x - a) / a
    phi = max(mu - math.log1p(mu), 0.0)
    eta = math.copysign(math.sqrt(2.0 * phi), mu)
    half = a * phi  # y * y / 2, for the normal deviate y of about the same tail
    y = math.sqrt(2.0 * half)
    v = 1.0 / a
    s = v * (_horner(_TEMME_3, eta) + v * (_horner(_TEMME_4, eta) + v * _horner(_TEMME_5, eta)))
    s = _horner(_TEMME_0, eta) + v * (_horner(_TEMME_1, eta) + v * (_horner(_TEMME_2, eta) + s))
    s *= math.sqrt(v)
    if mu <= 0.0 and y >= _TAIL:
        return math.log(_mills_tail(y) - s) - (half + _LOG_SQRT_2PI)
    tail = 0.5 * math.erfc(SQRT_HALF * y)
    s *= INV_SQRT_2PI * math.exp(-half)
    if mu <= 0.0:
        return math.log(tail - s)
    return math.log1p(-(tail + s))


@shared
def log_gamma_p(a, x):
    """Logarithm of the regularised lower incomplete gamma function, ``log(P(a, x))``.

    Temme's uniform expansion about the transition of a large `a`, the power series below it (DLMF 8.11.4), Legendre's
    continued fraction of the upper tail above it (DLMF 8.9.2); the number of terms is bounded for all `a`.

    Parameters
    ----------
    a : float
        Shape, positive, up to 1e6 or so.
    x : float
        Upper end, from 0 to infinity.

    Returns
    -------
    float
        ``log(P(a, x))``, ``-inf`` at ``x <= 0``.  Relative error below 1e-10, absolute when the value is near zero.
    """
    if not x > 0.0:
        return -math.inf if x <= 0.0 else math.nan
    if x == math.inf:
        return 0.0
    if a >= 30.0 and 0.5 * a <= x <= 1.6 * a:
        return _log_gamma_p_temme(a, x)
    # log of x^a exp(-x) / Gamma(a + 1): Stirling's series keeps the cancellation of large terms out of it
    if a < 10.0:
        front = a * math.log(x) - x - math.lgamma(a + 1.0)
    else:
        v = 1.0 / (a * a)
        stirling = (1.0 / 12.0 - v * (1.0 / 360.0 - v * (1.0 / 1260.0 - v * (1.0 / 1680.0 - v / 1188.0)))) / a
        front = a * (math.log(x) - math.log(a)) + (a - x) - 0.5 * math.log(a) - _LOG_SQRT_2PI - stirling
    if x <= a + 2.0 * math.sqrt(a) + 5.0:
        s = t = 1.0
        n = a
        while t > 1e-17 * s:
            n += 1.0
            t *= x / n
            s += t
        return min(front + math.log(s), 0.0)
    if front < -750.0:
        return 0.0
    # modified Lentz evaluation; every partial denominator is positive as x > a + 1
    b = x + 1.0 - a
    c = math.inf
    h = d = 1.0 / b
    n = delta = 0.0
    while abs(delta - 1.0) > 1e-15 and n < 500.0:
        n += 1.0
        an = n * (a - n)
        b += 2.0
        d = 1.0 / (an * d + b)
        c = b + an / c
        delta = c * d
        h *= delta
    return math.log1p(-a * math.exp(front) * h)


@shared
def draw_gamma(rng, a):
    """A Gamma variate of shape `a` and rate 1 to divide by: with a shape of 0.01 many are too small for floats."""
    return max(rng.standard_gamma(a), LEAST_GAMMA)


@shared
def draw_gamma_below(rng, a, upper):
    """Exact draw of a Gamma variate of shape `a` and rate 1 restricted to ``(0, upper]``.

    At ``upper >= a`` (at least half of the probability) plain rejection.  Below, ``s = -log(x / upper)`` has the
    log-concave density ``exp(-a s - upper exp(-s))`` on ``s >= 0`` whatever `a`, and is drawn by rejection from the
    exponential tangent to it near Robert's (1995) optimal point, which accepts three quarters of the tries or more.

    Parameters
    ----------
    rng : numpy.random.Generator
    a : float
        Shape, positive.
    upper : float
        Upper end, positive, possibly infinite.

    Returns
    -------
    float
        A value in ``(0, upper]`` (zero only by underflow); NaN unless `a` and `upper` are positive.
    """
    if not (a > 0.0 and upper > 0.0):
        return math.nan
    if upper >= a:
        while True:
            x = rng.standard_gamma(a)
            if x <= upper:
                return x
    c = a - upper
    s0 = min(2.0 / (c + math.sqrt(c * c + 4.0 * upper)), 3.0)
    k = upper * math.exp(-s0)
    scale = 1.0 / (a - k)
    while True:
        s = scale * rng.standard_exponential()
        d = s - s0
        if rng.standard_exponential() >= k * (math.expm1(-d) + d):
            return upper * math.exp(-s)


@helper
def draw_weighted(rng, weights, first, size, total):
    """One of ``size`` numbers from 0 on, by weights from place ``first`` on, which add up to ``total``."""
    u = rng.random() * total
    for k in range(size - 1):
        u -= weights[first + k]
        if u < 0.0:
            return k
    return size - 1


@helper
def log1p_exp(u):
    """log(1 + e^u)."""
    return max(u, 0.0) + math.log1p(math.exp(-abs(u)))


@helper
def log_sum_in(top, total, value):
    """One step of a running log-sum-exp: (top, total) with total·exp(top) the sum so far."""
    if value > top:
        return value, total * math.exp(top - value) + 1.0
    if value > -math.inf:
        return top, total + math.exp(value - top)
    return top, total
