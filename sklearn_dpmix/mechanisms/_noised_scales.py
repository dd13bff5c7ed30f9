"""As ``_noised_normal``, for releases with their own noise scales: the scale follows what is looked up at a node.

The formulas are the same.  Terms that depend on the scale are computed at each node, which takes up to twice as long,
so noise of one scale has its own loops.  Even sharing the body of the loops made those a fifth slower.
"""

from math import erfc, exp, inf, sqrt

from .._base.compiled import helper
from .._base.numeric import INV_SQRT_2PI, SQRT_HALF
from .._base.vector import erfcx_positive, exp_bounded
from ._noised_normal import FARTHEST, LEAST_NOISE, NO_BOUND, add_ends, mass_between


@helper
def fill_normal_laplace_scales(nodes, x, n, low, high, mean, log_variance, out, first, second):
    """Laplace noise; that of node m has scale ``nodes[x + 3 n + m]``."""
    variance = exp(log_variance)
    sd = sqrt(variance)
    inverse = 1.0 / sd
    peak = INV_SQRT_2PI * inverse
    for m in range(n):
        rate = 1.0 / max(nodes[x + 3 * n + m], LEAST_NOISE * sd)
        r = sd * rate
        c, half_square = 0.25 * rate, 0.5 * r * r
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
        slope = c * (near - far) * rate
        out[second + m] = slope if d >= 0.0 else -slope
        out[second + n + m] = half_square * (total - peak * e)
    if low == -inf and high == inf:
        return
    t = max((low - mean) * inverse, -NO_BOUND)
    add_end_scales(nodes, x, x + n, n, t, -1.0, sd, out, first, second)
    t = max((mean - high) * inverse, -NO_BOUND)
    add_end_scales(nodes, x, x + 2 * n, n, t, 1.0, sd, out, first, second)


@helper
def add_end_scales(nodes, x, end, n, t, sign, sd, out, first, second):
    """Add the atom at a bound that is t standard deviations beyond the mean, minus the inner part's share of it."""
    e = exp(-0.5 * t * t)
    mass, f, half = 0.5 * erfc(-t * SQRT_HALF), INV_SQRT_2PI * e / sd, 0.5 * sd * sd
    for m in range(n):
        rate, q = 1.0 / max(nodes[x + 3 * n + m], LEAST_NOISE * sd), nodes[end + m]
        r = sd * rate
        u = (r - t) * SQRT_HALF
        part = 0.5 * e * erfcx_positive(abs(u))
        beyond = exp_bounded(min(0.5 * r * r - r * t, 0.0)) - part
        part = part if u >= 0.0 else beyond
        out[first + m] += (mass - part) * q
        out[second + m] += sign * part * rate * q
        out[second + n + m] += half * rate * (f - part * rate) * q


@helper
def fill_normal_gaussian_scales(nodes, x, n, low, high, mean, log_variance, out, first, second):
    """Gaussian noise; that of node m has standard deviation ``nodes[x + 3 n + m]``."""
    variance = exp(log_variance)
    if low == -inf and high == inf:
        for m in range(n):
            noise, d = nodes[x + 3 * n + m], nodes[x + m] - mean
            inverse = 1.0 / (variance + noise * noise)
            q = d * d * inverse
            density = sqrt(inverse) * INV_SQRT_2PI * exp_bounded(-0.5 * q)
            out[first + m] = density
            out[second + m] = density * d * inverse
            out[second + n + m] = density * 0.5 * variance * inverse * (q - 1.0)
        return
    low, high = max(low, -NO_BOUND), min(high, NO_BOUND)
    over_variance = 1.0 / variance
    for m in range(n):
        noise, d = nodes[x + 3 * n + m], nodes[x + m] - mean
        inverse = 1.0 / (variance + noise * noise)
        share = variance * inverse
        tau = noise * sqrt(share)
        sharpness = 1.0 / tau
        density = sqrt(inverse) * INV_SQRT_2PI * exp_bounded(-0.5 * d * d * inverse)
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
def fill_normal_window_scales(nodes, x, n, mean, log_variance, out, first, second):
    """Windows; of node m the density elsewhere is ``nodes[x + 3 n + m]``, and ``nodes[x + 4 n + m]`` more within."""
    inverse = exp(-0.5 * log_variance)
    by_mean, by_scale = inverse * INV_SQRT_2PI, 0.5 * INV_SQRT_2PI
    for m in range(n):
        gain = nodes[x + 4 * n + m]
        low = min(max((nodes[x + n + m] - mean) * inverse, -FARTHEST), FARTHEST)
        high = min(max((nodes[x + 2 * n + m] - mean) * inverse, -FARTHEST), FARTHEST)
        e_low, e_high = exp_bounded(-0.5 * low * low), exp_bounded(-0.5 * high * high)
        out[first + m] = nodes[x + 3 * n + m] + gain * mass_between(low, high, e_low, e_high)
        out[second + m] = gain * by_mean * (e_low - e_high)
        out[second + n + m] = gain * by_scale * (low * e_low - high * e_high)
