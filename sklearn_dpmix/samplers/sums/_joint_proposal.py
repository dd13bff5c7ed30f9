"""The distribution of the hidden statistic given θ and a release with Gaussian noise: a proposal for joint moves.

s = m + Az with z ~ N(0, I), m = nμ and A = √n L; the releases' mean is y = s + e, e ~ N(0, diag D).  Then z | y has the
precision P = I + A'D⁻¹A and the mean P⁻¹ A'D⁻¹ (y - m).  Proposing θ together with z from that distribution integrates
s out under Gaussian noise: θ moves by p(y | θ).  Under other noise, D is its variance times random numbers (Laplace
noise is a mixture of normals with many variances), and the ratio of densities corrects.

With p = A₁₁²/D₁, q = A₂₁²/D₂, r = A₂₂²/D₂ all is written without differences of large numbers: det P = (p+1)(r+1) + q.
"""

import math

from ..._base.compiled import helper

# law: mean and sd of z_1; z_2 given it: intercept, slope and sd
MEAN, SD, INTERCEPT, SLOPE, SECOND_SD = range(5)


@helper
def put_conditional(y, noise, widen, n, mean, root, law):
    """Write the distribution of z into ``law``, D = ``widen`` times ``noise``; for one statistic, the first half."""
    scale, first = math.sqrt(n), widen[0] * noise[0]
    a, e = scale * root[0, 0], (y[0] - n * mean[0]) / first
    p = a * a / first
    if mean.size == 1:
        law[MEAN], law[SD] = a * e / (p + 1.0), 1.0 / math.sqrt(p + 1.0)
        law[INTERCEPT], law[SLOPE], law[SECOND_SD] = 0.0, 0.0, 1.0
        return
    second = widen[1] * noise[1]
    b, c, f = scale * root[1, 0], scale * root[1, 1], (y[1] - n * mean[1]) / second
    q, r = b * b / second, c * c / second
    determinant = (p + 1.0) * (r + 1.0) + q
    law[MEAN] = ((r + 1.0) * a * e + b * f) / determinant
    law[SD] = math.sqrt((r + 1.0) / determinant)
    law[INTERCEPT], law[SLOPE] = c * f / (r + 1.0), -b * c / second / (r + 1.0)
    law[SECOND_SD] = 1.0 / math.sqrt(r + 1.0)


@helper
def draw_score(rng, law, z):
    """z from the distribution."""
    z[0] = law[MEAN] + law[SD] * rng.standard_normal()
    if z.size > 1:
        z[1] = law[INTERCEPT] + law[SLOPE] * z[0] + law[SECOND_SD] * rng.standard_normal()


@helper
def log_score(law, z):
    """Log density of z under the distribution, up to a constant."""
    u = (z[0] - law[MEAN]) / law[SD]
    value = -0.5 * u * u - math.log(law[SD])
    if z.size > 1:
        u = (z[1] - law[INTERCEPT] - law[SLOPE] * z[0]) / law[SECOND_SD]
        value -= 0.5 * u * u + math.log(law[SECOND_SD])
    return value
