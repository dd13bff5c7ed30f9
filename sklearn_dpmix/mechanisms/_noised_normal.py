"""Normal records behind a channel: g(x | μ, log σ²) and its two derivatives, at all nodes at once.

These are loops over ``n`` nodes without branches and calls, which LLVM vectorises.  From ``x`` on, ``nodes`` has the
places (within the bounds, if the noise is Laplace noise and records are clamped), then two numbers for each that the
mechanism looks up.  The results go into ``out``: g from ``first`` on, and ∂g/∂μ and ∂g/∂log σ² from ``second`` on.

Under additive noise the two numbers are the noise's densities given a record at the lower bound and at the upper bound,
0 without bounds.  Clamped records are those inside the bounds and two atoms:

    g(x) = ∫_lo^hi q(x | y) f(y) dy + F(lo) q(x | lo) + (1 - F(hi)) q(x | hi).
"""

from math import exp, inf, sqrt

import numpy as np

from .._base.compiled import helper
from .._base.numeric import INV_SQRT_2PI, SQRT_HALF
from .._base.table import multiply_table
from .._base.vector import erfcx_positive, exp_bounded

FARTHEST = 40.0  # standard deviations beyond which there is no mass
LEAST_NOISE = 1e-20  # standard deviations: less is as none
NO_BOUND = 1e100  # stands for an infinite bound where infinity times 0 would occur


@helper
def fill_normal_laplace(nodes, x, n, low, high, b, mean, log_variance, out, first, second):
    """Laplace noise of scale b.

    With a = |x - μ|/σ and r = σ/b, 4b g = e^(r²/2 - ra) erfc((r - a)/√2) + e^(r²/2 + ra) erfc((r + a)/√2) without
    bounds, and ∂²g/∂μ² = (g - f)/b².  With bounds, for x between them, records below ``low`` act on x as if they were
    spread by e^(y - low)/b: F(low) in place of A(low) = ∫_-∞^low e^((y - low)/b) f(y) dy; and likewise above.
    """
    sd = exp(0.5 * log_variance)
    b = max(b, LEAST_NOISE * sd)
    inverse, r = 1.0 / sd, sd / b
    c, half_square, peak = 0.25 / b, 0.5 * r * r, INV_SQRT_2PI * inverse
    for m in range(n):
        d = (nodes[x + m] - mean) * inverse
        a = abs(d)
        u = (r - a) * SQRT_HALF
        e = exp_bounded(-0.5 * a * a)
        near = e * erfcx_positive(abs(u))
        beyond = 2.0 * exp_bounded(min(half_square - a * r, 0.0)) - near
        near = near if u >= 0.0 else beyond
        far = e * erfcx_positive((r + a) * SQRT_HALF)
        total = c * (near + far)
        out[first + m] = total
        slope = c * (near - far) / b
        out[second + m] = slope if d >= 0.0 else -slope
        out[second + n + m] = half_square * (total - peak * e)
    if low == -inf and high == inf:
        return
    half = 0.5 * sd * r
    mass, below, f = parts_below(max((low - mean) * inverse, -NO_BOUND), r)
    mass2, above, f2 = parts_below(max((mean - high) * inverse, -NO_BOUND), r)
    add_end(nodes, x + n, n, out, first, second, mass - below, -below / b, half * (peak * f - below / b))
    add_end(nodes, x + 2 * n, n, out, first, second, mass2 - above, above / b, half * (peak * f2 - above / b))


@helper
def parts_below(t, r):
    """P(Y < t), E[e^(r (Y - t)); Y < t] and e^(-t²/2), with Y standard normal."""
    (mass, e), u = mass_below(t), (r - t) * SQRT_HALF
    part = 0.5 * e * erfcx_positive(abs(u))
    return mass, part if u >= 0.0 else exp(min(0.5 * r * r - r * t, 0.0)) - part, e


@helper
def mass_below(t):
    """P(Y < t) and e^(-t²/2), with Y standard normal."""
    e = exp_bounded(-0.5 * t * t)
    tail = 0.5 * e * erfcx_positive(abs(t) * SQRT_HALF)
    return tail if t < 0.0 else 1.0 - tail, e


@helper
def one_sided(t, r):
    """E[e^(r (Y - t)); Y < t], with Y standard normal."""
    u = (r - t) * SQRT_HALF
    e = 0.5 * exp(-0.5 * t * t) * erfcx_positive(abs(u))
    return e if u >= 0.0 else exp(min(0.5 * r * r - r * t, 0.0)) - e


@helper
def fill_normal_gaussian(nodes, x, n, low, high, noise, mean, log_variance, out, first, second):
    """Gaussian noise of standard deviation ``noise``.

    The inner part is N(x | μ, V), with V = σ² + noise², times the probability that y | x ~ N(m, τ²) is within the
    bounds.
    """
    variance = exp(log_variance)
    total_variance = variance + noise * noise
    inverse = 1.0 / total_variance
    c = sqrt(inverse) * INV_SQRT_2PI
    if low == -inf and high == inf:
        half_share = 0.5 * variance * inverse
        for m in range(n):
            d = nodes[x + m] - mean
            q = d * d * inverse
            density = c * exp_bounded(-0.5 * q)
            out[first + m] = density
            out[second + m] = density * d * inverse
            out[second + n + m] = density * half_share * (q - 1.0)
        return
    low, high = max(low, -NO_BOUND), min(high, NO_BOUND)
    share, tau = variance * inverse, noise * sqrt(variance * inverse)
    sharpness, over_variance = 1.0 / tau, 1.0 / variance
    for m in range(n):
        d = nodes[x + m] - mean
        density = c * exp_bounded(-0.5 * d * d * inverse)
        shift = share * d  # m - μ
        at_low, at_high = (low - mean - shift) * sharpness, (high - mean - shift) * sharpness
        e_low, e_high = exp_bounded(-0.5 * at_low * at_low), exp_bounded(-0.5 * at_high * at_high)
        inside = mass_between(at_low, at_high, e_low, e_high)
        change = tau * INV_SQRT_2PI * (e_high - e_low)
        square = (shift * shift + tau * tau) * inside - 2.0 * shift * change
        square -= tau * tau * INV_SQRT_2PI * (at_high * e_high - at_low * e_low)
        out[first + m] = density * inside
        out[second + m] = density * (shift * inside - change) * over_variance
        out[second + n + m] = density * 0.5 * (square * over_variance - inside)
    add_ends(nodes, x, n, low - mean, mean - high, variance, out, first, second)


@helper
def mass_between(low, high, e_low, e_high):
    """P(low < Y < high) for Y standard normal, from e^(-t²/2) at both ends: accurate in either tail, too."""
    tail_low = 0.5 * e_low * erfcx_positive(abs(low) * SQRT_HALF)
    tail_high = 0.5 * e_high * erfcx_positive(abs(high) * SQRT_HALF)
    inside = 1.0 - tail_low - tail_high
    inside = tail_low - tail_high if low > 0.0 else inside
    return tail_high - tail_low if high < 0.0 else inside


@helper
def add_ends(nodes, x, n, below, above, variance, out, first, second):
    """Add the atoms at both bounds: how far the lower one is above the mean, and the mean above the upper one."""
    scale = sqrt(1.0 / variance)
    (mass, f), (mass2, f2), peak = mass_below(below * scale), mass_below(above * scale), INV_SQRT_2PI * scale
    add_end(nodes, x + n, n, out, first, second, mass, -peak * f, -0.5 * peak * f * below)
    add_end(nodes, x + 2 * n, n, out, first, second, mass2, peak * f2, -0.5 * peak * f2 * above)


@helper
def fill_normal_window(nodes, x, n, outside, gain, mean, log_variance, out, first, second):
    """A window of records between two ends, which are looked up: ``outside`` elsewhere, and ``gain`` more within.

    If a bound is in the window, all records beyond it are too, and that end is infinite.  With t an end minus μ over σ,
    the mass Φ(t) has derivatives -φ(t)/σ and -t φ(t)/2.
    """
    inverse = exp(-0.5 * log_variance)
    by_mean, by_scale = gain * inverse * INV_SQRT_2PI, 0.5 * gain * INV_SQRT_2PI
    for m in range(n):
        low = min(max((nodes[x + n + m] - mean) * inverse, -FARTHEST), FARTHEST)
        high = min(max((nodes[x + 2 * n + m] - mean) * inverse, -FARTHEST), FARTHEST)
        e_low, e_high = exp_bounded(-0.5 * low * low), exp_bounded(-0.5 * high * high)
        inside = mass_between(low, high, e_low, e_high)
        out[first + m] = outside + gain * inside
        out[second + m] = by_mean * (e_low - e_high)
        out[second + n + m] = by_scale * (low * e_low - high * e_high)


@helper
def add_end(nodes, end, n, out, first, second, mass, by_mean, by_scale):
    """Add the atom at a bound, of this mass with these derivatives."""
    for m in range(n):
        out[first + m] += mass * nodes[end + m]
        out[second + m] += by_mean * nodes[end + m]
        out[second + n + m] += by_scale * nodes[end + m]


@helper
def fill_normal_bins(nodes, n, start, width, last, mean, log_variance, out, first, second):
    """Bins of this width, from 0 to ``last``, of which the first and the last have all records beyond the bounds.

    Behind its place, a node has a table: how likely the release is given each bin.
    """
    inverse, size = exp(-0.5 * log_variance), (last + 4) // 4 * 4
    masses = np.zeros(3 * size)
    low, e_low, tail_low = -FARTHEST, 0.0, 0.0
    for b in range(last + 1):
        high = min(max((start + (b + 1) * width - mean) * inverse, -FARTHEST), FARTHEST) if b < last else FARTHEST
        e_high = exp_bounded(-0.5 * high * high)
        tail_high = 0.5 * e_high * erfcx_positive(abs(high) * SQRT_HALF)
        inside = 1.0 - tail_low - tail_high
        inside = tail_low - tail_high if low > 0.0 else inside
        masses[b] = tail_high - tail_low if high < 0.0 else inside
        masses[size + b] = inverse * INV_SQRT_2PI * (e_low - e_high)
        masses[2 * size + b] = 0.5 * INV_SQRT_2PI * (low * e_low - high * e_high)
        low, e_low, tail_low = high, e_high, tail_high
    multiply_table(nodes, n, n, masses, size, out, first, second)
