"""The probability that a record's release appears, if only releases above a public threshold do.

It is R(μ, σ²) = P(clamp(y) + noise > t), y ~ N(μ, σ²), with its derivatives by μ and log σ².  The probability that a
release does *not* appear is the same with everything reflected, because noise is symmetric.  Below ``LEAST``, R counts
as ``LEAST``, so that a population of which next to nothing is released never looks likely because of underflow.
"""

from math import erfc, exp, inf, sqrt

import numpy as np

from .._base.compiled import helper
from .._base.numeric import INV_SQRT_2PI, SQRT_HALF
from ._noised_normal import NO_BOUND, one_sided

LEAST = 1e-150
NODES, WEIGHTS = (tuple(part.tolist()) for part in np.polynomial.legendre.leggauss(16))
#: Ends of the parts over which an integral is taken: around a place, and below a bound, in units of the width there
AROUND, BELOW = (-9.0, -3.0, 0.0, 3.0, 9.0), (40.0, 12.0, 4.0, 1.0)


@helper
def fill_released_laplace(t, low, high, b, mean, log_variance, out, first, second, third):
    """Under Laplace noise of scale b: R into ``out[first]``, its derivatives into ``second`` and ``third``.

    ``below`` is E[e^(-(at - y)/b); low < y < at], and ``above`` is the same beyond ``at``, the place between the bounds
    that is nearest to t.  ``at_low`` and ``at_high`` are those of the atoms at the bounds.
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
def fill_released_clamped_gaussian(t, low, high, noise, mean, log_variance, out, first, second, third):
    """The same if records are moved to the bounds.

    Start with a record at low, and add the effect of the line up to the record: R is

        Φ((low - t)/η) + ∫_low^high φ((s - t)/η)/η Φ((μ - s)/σ) ds,

    a sum of positive terms, computed by Gauss–Legendre between places where either factor bends or their product has
    its mass.  Its derivative by μ is the density at t of releases of records within the bounds, and its derivative by
    σ² is half the next derivative.
    """
    variance = exp(log_variance)
    sd, total = sqrt(variance), variance + noise * noise
    share, tau = variance / total, noise * sqrt(variance / total)
    centre = mean + share * (t - mean)
    value, start = 0.5 * erfc((t - low) / noise * SQRT_HALF), low
    while start < high:
        end = high
        for offset in AROUND:
            end = next_end(start, end, t + offset * noise)
            end = next_end(start, end, centre + offset * tau)
            end = next_end(start, end, mean + offset * sd)
        for offset in BELOW:
            end = next_end(start, end, high - offset * noise * noise / max(t - high, noise))
        half, part = 0.5 * (end - start), 0.0
        for i in range(len(NODES)):
            s = start + half * (1.0 + NODES[i])
            u = (s - t) / noise
            part += WEIGHTS[i] * exp(-0.5 * u * u) * erfc((s - mean) / sd * SQRT_HALF)
        value += 0.5 * INV_SQRT_2PI / noise * half * part
        start = end
    low_t, high_t = (low - centre) / tau, (high - centre) / tau
    inside = 0.5 * (erfc(low_t * SQRT_HALF) - erfc(high_t * SQRT_HALF))
    if high_t < 0.0:
        inside = 0.5 * (erfc(-high_t * SQRT_HALF) - erfc(-low_t * SQRT_HALF))
    scale = density((t - mean) / sqrt(total)) / sqrt(total)
    bend = share * (t - mean) * inside - tau * (density(high_t) - density(low_t))
    put(value, scale * inside, 0.5 * scale * bend, out, first, second, third)


@helper
def next_end(start, end, place):
    """The nearer of ``end`` and a place, if that is beyond ``start``."""
    return place if start < place < end else end


@helper
def put(value, by_mean, by_scale, out, first, second, third):
    out[first] = max(value, LEAST)
    out[second] = by_mean if value > LEAST else 0.0
    out[third] = by_scale if value > LEAST else 0.0


@helper
def density(t):
    """Density of the standard normal distribution."""
    return INV_SQRT_2PI * exp(-0.5 * t * t)
