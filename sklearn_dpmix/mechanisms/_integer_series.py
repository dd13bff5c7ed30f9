"""Series in derivatives of the normal density, for sums over integers that are integrals but for small terms."""

from math import exp, sqrt

import numpy as np

from .._base.compiled import helper
from .._base.numeric import INV_SQRT_2PI
from .._base.vector import exp_bounded
from ._noised_normal import FARTHEST

N_TERMS, N_ONE_SIDED = 4, 8  # of the series without bounds, and of those at an end
N_SLOPES = 5  # derivatives of Gaussian noise at a bound that are looked up
N_CIRCLE = 64  # places at which Cauchy's formula for coefficients is evaluated


def coefficients(function, radius, n):
    """Coefficients of powers 0 to n - 1 of a function that is analytic within a circle, by Cauchy's formula."""
    z = radius * np.exp(2j * np.pi * np.arange(N_CIRCLE) / N_CIRCLE)
    return np.real(np.fft.fft(function(z)))[:n] / (N_CIRCLE * radius ** np.arange(n))


def rounding(z):
    """What D is replaced by where records are rounded."""
    return np.sinh(0.5 * z) / (0.5 * z)


def laplace_series(rate):
    """Constants of ``fill_integers_laplace``: the factor of continuous noise and b_0, b_1, ...; the same at an end."""
    r, gap = np.exp(-rate), -np.expm1(-rate)
    has_pole, radius = rate < 2.0 * np.pi, 3.0 if rate < 2.0 else 1.0
    factor = 4.0 * np.tanh(0.5 * rate) * np.sinh(0.5 * rate) / rate**2 if has_pole else 0.0
    at_end = gap / rate if has_pole else 0.0

    def both_sides(z):
        return gap**2 / (gap**2 - 2.0 * r * (np.cosh(z) - 1.0)) * rounding(z) - factor / (1.0 - (z / rate) ** 2)

    def one_side(z):
        return r * np.expm1(z) / (z * (np.exp(z) - r)) - at_end / (rate + z)

    even = coefficients(both_sides, radius, 2 * N_TERMS)[::2]
    return np.concatenate([[factor], even, [at_end], coefficients(one_side, radius, N_ONE_SIDED)])


def gaussian_series(noise, variance):
    """The variance of continuous noise, and b_0, b_1, ...; of noise with these probabilities from 0 on, if any."""

    def both_sides(z):
        moments = 1.0
        if len(noise):
            e = np.arange(1.0, len(noise))
            moments = (noise[0] + 2.0 * np.cosh(np.outer(z, e)) @ noise[1:]) * np.exp(-0.5 * variance * z**2)
        return moments * rounding(z)

    return np.append(variance, coefficients(both_sides, 1.0, 2 * N_TERMS)[::2])


def slopes_at_end(apart, scale):
    """Derivatives of q(e + ½) - q(e - ½), q Gaussian noise of this scale, at such places: (N_SLOPES, places)."""
    found = np.zeros((2, N_SLOPES, *apart.shape))
    for derivatives, side in zip(found, (0.5, -0.5), strict=True):
        u = (apart + side) / scale
        derivatives[0] = INV_SQRT_2PI / scale * np.exp(-0.5 * u**2)
        derivatives[1] = -u / scale * derivatives[0]
        for p in range(2, N_SLOPES):
            derivatives[p] = -(u * derivatives[p - 1] + (p - 1) / scale * derivatives[p - 2]) / scale
    return found[0] - found[1]


@helper
def add_series(nodes, x, n, factor, series, total, mean, variance, out, first, second):
    """Add Σ b_j D^2j of the normal density of variance ``total`` to ``factor`` times what is there.

    Derivatives of it are Hermite polynomials, and its change by log σ² is half of σ² times its second derivative.
    """
    inverse = 1.0 / sqrt(total)
    square = inverse * inverse
    b0, b1 = series[1], series[2] * square
    b2, b3 = series[3] * square * square, series[4] * square * square * square
    p0, p1, p2 = b0 - b1 + 3.0 * b2 - 15.0 * b3, b1 - 6.0 * b2 + 45.0 * b3, b2 - 15.0 * b3
    q0, q1, q2 = b0 - 3.0 * b1 + 15.0 * b2 - 105.0 * b3, b1 - 10.0 * b2 + 105.0 * b3, b2 - 21.0 * b3
    r0, r1 = -b0 + 3.0 * b1 - 15.0 * b2 + 105.0 * b3, b0 - 6.0 * b1 + 45.0 * b2 - 420.0 * b3
    r2, r3 = b1 - 15.0 * b2 + 210.0 * b3, b2 - 28.0 * b3
    peak, half_share = INV_SQRT_2PI * inverse, 0.5 * variance * square
    for m in range(n):
        u = min(max((nodes[x + m] - mean) * inverse, -FARTHEST), FARTHEST)
        w = u * u
        f = peak * exp_bounded(-0.5 * w)
        out[first + m] = max(factor * out[first + m] + f * (p0 + w * (p1 + w * (p2 + w * b3))), 0.0)
        out[second + m] = factor * out[second + m] + f * u * inverse * (q0 + w * (q1 + w * (q2 + w * b3)))
        by_scale = f * half_share * (r0 + w * (r1 + w * (r2 + w * (r3 + w * b3))))
        out[second + n + m] = factor * out[second + n + m] + by_scale


@helper
def fill_slopes(t, inverse, found):
    """The normal density and its derivatives, at t standard deviations of 1/``inverse`` from its mean."""
    found[0] = INV_SQRT_2PI * inverse * exp(-0.5 * t * t)
    found[1] = -inverse * t * found[0]
    for i in range(2, found.size):
        found[i] = -inverse * (t * found[i - 1] + (i - 1.0) * inverse * found[i - 2])
