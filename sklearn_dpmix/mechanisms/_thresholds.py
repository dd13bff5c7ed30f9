"""Releases of which only those above a public threshold appear: the probability that a record's release does.

R(μ, σ²) = P(clamp(y) + noise > t), y ~ N(μ, σ²), with its derivatives by μ and log σ².  That a release does *not*
appear is the same of everything reflected: noise is symmetric.  Below ``LEAST`` R counts as ``LEAST``, so that a
population of which next to nothing is released never looks likely by underflow.
"""

from math import erfc, exp, inf, sqrt

from .._base.compiled import helper
from ._noised_normal import INV_SQRT_2PI, NO_BOUND, SQRT_HALF, one_sided

LEAST = 1e-150


@helper
def fill_released_laplace(t, low, high, b, mean, log_variance, out, first, second, third):
    """Under Laplace noise of scale b: R into ``out[first]``, its derivatives into ``second`` and ``third``.

    ``below`` is E[e^(-(at - y)/b); low < y < at], ``above`` the same beyond ``at``, the place between the bounds that
    is next to t; ``at_low`` and ``at_high`` are those of the atoms at the bounds.
    """
    variance = exp(log_variance)
    sd = sqrt(variance)
    r, at = sd / b, min(max(t, low), high)
    low_t, high_t = max((low - mean) / sd, -NO_BOUND), min((high - mean) / sd, NO_BOUND)
    u = (at - mean) / sd
    from_low, to_high = exp(-(at - low) / b), exp(-(high - at) / b)
    below = one_sided(u, r) - (from_low * one_sided(low_t, r) if low > -inf else 0.0)
    above = one_sided(-u, r) - (to_high * one_sided(-high_t, r) if high < inf else 0.0)
    at_low, at_high = 0.5 * erfc(-low_t * SQRT_HALF) * from_low, 0.5 * erfc(high_t * SQRT_HALF) * to_high
    f_low, f_high = from_low * density(low_t) / sd, to_high * density(high_t) / sd
    inner = 0.5 * (below + above) / b
    bend = 0.5 * (f_low - f_high + (below - above) / b) / b
    if t >= high:  # all records are below: E[e^(-(t - y)/b)]/2
        factor = exp(-(t - high) / b)
        value = 0.5 * factor * (below + at_low + 0.5 * erfc(high_t * SQRT_HALF))
    elif t <= low:
        factor = exp(-(low - t) / b)
        value = 1.0 - 0.5 * factor * (above + at_high + 0.5 * erfc(-low_t * SQRT_HALF))
    else:
        factor = 1.0
        value = 0.5 * (below + at_low) + 0.5 * erfc(u * SQRT_HALF) - 0.5 * (above + at_high)
    put(value, factor * inner, 0.5 * variance * factor * bend, out, first, second, third)


@helper
def fill_released_gaussian(t, noise, mean, log_variance, out, first, second, third):
    """The same under Gaussian noise of standard deviation ``noise``, without clamping."""
    variance = exp(log_variance)
    spread = sqrt(variance + noise * noise)
    u = (mean - t) / spread
    by_mean = density(u) / spread
    by_scale = -0.5 * by_mean * u * variance / spread
    put(0.5 * erfc(-u * SQRT_HALF), by_mean, by_scale, out, first, second, third)


@helper
def put(value, by_mean, by_scale, out, first, second, third):
    out[first] = max(value, LEAST)
    out[second] = by_mean if value > LEAST else 0.0
    out[third] = by_scale if value > LEAST else 0.0


@helper
def density(t):
    """Of the standard normal law."""
    return INV_SQRT_2PI * exp(-0.5 * t * t)
