"""Mean and covariance of what one record adds to a statistic: t(x), cut at bounds or not (Bernstein & Sheldon, §3.3).

A record outside [lo, hi] adds 0 if it is dropped (the paper's truncation, of which Proposition 1 follows), or t(bound)
if it is clamped.  Everything has a closed form except the beta distribution under bounds, which uses a Gauss-Legendre
rule on fixed nodes.  If the statistic is scaled, ``gain`` · t(x) + ``offset`` takes the place of t(x).
"""

from math import erfc, exp, log, log1p, pi, sqrt

import numpy as np

from .._base.beta_numeric import digamma, log_beta, log_beta_cdf, trigamma
from .._base.compiled import helper
from .._base.numeric import log1p_exp, log_gamma_p
from ._exponential_family import OUTSIDE

CLAMP = OUTSIDE["clamp"]
#: Share of the squared range of a contribution: a smaller variance is rounding.
ROUNDING = 1e-14
NOTHING = 1e-20  # the least variance of a beta record, in squares of what its bounds are apart
NODES, WEIGHTS = np.polynomial.legendre.leggauss(64)
#: A rule for bounds between which a normal density is almost flat: at most so many standard deviations apart; and that
#: times the distance of the mean from the farther one, in standard deviations, is at most the second number
FLAT_NODES, FLAT_WEIGHTS = np.polynomial.legendre.leggauss(16)
FLAT, FLAT_IN_TAIL = 1.0, 10.0
REACH = 14.0  # standard deviations of logit(x), beyond which a beta distribution has less than 1e-6


@helper
def put_factor(root, a, b, c, floor_a, floor_c):
    """Write the lower factor of ((a, b), (b, c)), keeping both pivots above a floor."""
    a = max(a, floor_a)
    root[0, 0] = sqrt(a)
    root[1, 0] = b / root[0, 0]
    root[1, 1] = sqrt(max(c - root[1, 0] * root[1, 0], floor_c))
    root[0, 1] = 0.0


@helper
def cut_moments(m0, m1, m2, below, above, lo, hi, outside, gain, offset, mean, root):
    """Moments of gx + o for one number x, from its moments m_r = E x^r on [lo, hi] and the masses outside."""
    g, o = gain[0], offset[0]
    if outside == CLAMP:  # from the bound that is nearer to the mean, since otherwise small variances would be lost
        width = hi - lo
        if m1 + below * lo + above * hi < 0.5 * (lo + hi):
            first = m1 - lo * m0 + width * above
            second = m2 - 2.0 * lo * m1 + lo * lo * m0 + width * width * above
            mean[0] = lo + first
        else:
            first = hi * m0 - m1 + width * below
            second = m2 - 2.0 * hi * m1 + hi * hi * m0 + width * width * below
            mean[0] = hi - first
        mean[0] = g * mean[0] + o
        root[0, 0] = g * sqrt(max(second - first * first, ROUNDING * width * width))
        return
    first, second = g * m1 + o * m0, g * g * m2 + 2.0 * g * o * m1 + o * o * m0
    width = max(abs(g * lo + o), abs(g * hi + o))
    mean[0] = first
    root[0, 0] = sqrt(max(second - first * first, ROUNDING * width * width))


@helper
def gamma_moments(shape, rate, lo, hi, outside, gain, offset, mean, root):
    """For a Gamma(shape, rate) record, t(x) = x: ∫ x^r f over [lo, hi] is E x^r times a probability of shape + r."""
    if outside == 0.0:
        mean[0], root[0, 0] = shape / rate, sqrt(shape) / rate
        return
    below, up_to_hi = exp(log_gamma_p(shape, rate * lo)), exp(log_gamma_p(shape, rate * hi))
    one = exp(log_gamma_p(shape + 1.0, rate * hi)) - exp(log_gamma_p(shape + 1.0, rate * lo))
    two = exp(log_gamma_p(shape + 2.0, rate * hi)) - exp(log_gamma_p(shape + 2.0, rate * lo))
    scale = 1.0 / rate
    m1, m2 = shape * scale * one, shape * (shape + 1.0) * scale * scale * two
    cut_moments(up_to_hi - below, m1, m2, below, 1.0 - up_to_hi, lo, hi, outside, gain, offset, mean, root)


@helper
def poisson_tail(a, rate):
    """P(X >= a) of a Poisson variate."""
    return exp(log_gamma_p(a, rate)) if a > 0.0 else 1.0


@helper
def poisson_moments(rate, lo, hi, outside, gain, offset, mean, root):
    """For a Poisson record, t(x) = x: E x 1{lo <= x <= hi} = θ P(lo-1 <= X <= hi-1), and so on."""
    if outside == 0.0:
        mean[0], root[0, 0] = rate, sqrt(rate)
        return
    at_lo, above = poisson_tail(lo, rate), poisson_tail(hi + 1.0, rate)
    m1 = rate * (poisson_tail(lo - 1.0, rate) - poisson_tail(hi, rate))
    m2 = m1 + rate * rate * (poisson_tail(lo - 2.0, rate) - poisson_tail(hi - 1.0, rate))
    cut_moments(at_lo - above, m1, m2, 1.0 - at_lo, above, lo, hi, outside, gain, offset, mean, root)


@helper
def normal_moments(mu, variance, lo, hi, outside, gain, offset, mean, root):
    """For a normal record, t(x) = (x, x²).

    With x = c + d, where c is μ moved into the bounds, the pair is linear in (d, d²): (x, x²) = (c + d, c² + 2cd + d²).
    Moments of d lose little to cancellation, and the lower factor of Cov(x, x²) is ((1, 0), (2c, 1)) times that of
    Cov(d, d²).  On the bounds, with z = (x - μ)/σ from α to β, the moments ∫ z^r φ are m_0 = Φ(β) - Φ(α), m_1 = φ(α) -
    φ(β), m_r = (r-1) m_{r-2} + α^(r-1) φ(α) - β^(r-1) φ(β).  Where α and β are close these would be small differences:
    a Gauss–Legendre rule loses nothing there.
    """
    sd, width = sqrt(variance), hi - lo
    if outside == 0.0:
        mean[0], mean[1] = mu, mu * mu + variance
        root[0, 0], root[0, 1], root[1, 0], root[1, 1] = sd, 0.0, 2.0 * mu * sd, sqrt(2.0) * variance
        return
    alpha, beta = (lo - mu) / sd, (hi - mu) / sd
    below, above = 0.5 * erfc(-alpha * sqrt(0.5)), 0.5 * erfc(beta * sqrt(0.5))
    c, apart = min(max(mu, lo), hi), width / sd
    if apart <= FLAT and apart * max(abs(alpha), abs(beta)) <= FLAT_IN_TAIL:
        m0 = d1 = d2 = d3 = d4 = 0.0
        for i in range(len(FLAT_NODES)):
            share = 0.5 + 0.5 * FLAT_NODES[i]
            weight, d = 0.5 * FLAT_WEIGHTS[i] * apart * normal_density(alpha + share * apart), lo - c + share * width
            m0 += weight
            d1 += weight * d
            d2 += weight * d * d
            d3 += weight * d**3
            d4 += weight * d**4
    else:
        m0 = mass_between(alpha, beta, below, above)
        f, g = normal_density(alpha), normal_density(beta)
        m1 = f - g
        m2 = m0 + alpha * f - beta * g
        m3 = 2.0 * m1 + alpha * alpha * f - beta * beta * g
        m4 = 3.0 * m2 + alpha * alpha * alpha * f - beta * beta * beta * g
        delta = mu - c  # d = δ + σz
        d1 = delta * m0 + sd * m1
        d2 = delta * delta * m0 + 2.0 * delta * sd * m1 + variance * m2
        d3 = delta**3 * m0 + 3.0 * delta * delta * sd * m1 + 3.0 * delta * variance * m2 + sd * variance * m3
        d4 = delta**4 * m0 + 4.0 * delta**3 * sd * m1 + 6.0 * delta * delta * variance * m2
        d4 += 4.0 * delta * sd * variance * m3 + variance * variance * m4
    if outside == CLAMP:
        low, high = lo - c, hi - c
        d1 += low * below + high * above
        d2 += low * low * below + high * high * above
        d3 += low**3 * below + high**3 * above
        d4 += low**4 * below + high**4 * above
        mean[0], mean[1] = c + d1, c * c + 2.0 * c * d1 + d2
        put_factor(root, d2 - d1 * d1, d3 - d1 * d2, d4 - d2 * d2, ROUNDING * width**2, ROUNDING * width**4)
        root[1, 0] += 2.0 * c * root[0, 0]
        for j in range(2):
            mean[j] = gain[j] * mean[j] + offset[j]
            for i in range(j + 1):
                root[j, i] *= gain[j]
        return
    # dropped: (t_1 1, t_2 1) is linear in (1, d, d²) 1, with coefficients (f0, f1) and (g0, g1, g2)
    q, out = m0, below + above
    v00, v01, v02, v11, v12, v22 = q * out, d1 * out, d2 * out, d2 - d1 * d1, d3 - d1 * d2, d4 - d2 * d2
    f0, f1 = gain[0] * c + offset[0], gain[0]
    g0, g1, g2 = gain[1] * c * c + offset[1], 2.0 * gain[1] * c, gain[1]
    mean[0], mean[1] = f0 * q + f1 * d1, g0 * q + g1 * d1 + g2 * d2
    a = f0 * f0 * v00 + 2.0 * f0 * f1 * v01 + f1 * f1 * v11
    b = f0 * (g0 * v00 + g1 * v01 + g2 * v02) + f1 * (g0 * v01 + g1 * v11 + g2 * v12)
    e = g0 * g0 * v00 + g1 * g1 * v11 + g2 * g2 * v22 + 2.0 * (g0 * g1 * v01 + g0 * g2 * v02 + g1 * g2 * v12)
    reach = max(abs(lo), abs(hi))
    put_factor(root, a, b, e, ROUNDING * (f1 * reach) ** 2, ROUNDING * (g2 * reach * reach) ** 2)


@helper
def normal_density(z):
    return exp(-0.5 * z * z) / sqrt(2.0 * pi)


@helper
def mass_between(alpha, beta, below, above):
    """Φ(β) - Φ(α), computed from the smaller tails."""
    if alpha > 0.0:
        return 0.5 * erfc(alpha * sqrt(0.5)) - above
    if beta < 0.0:
        return 0.5 * erfc(-beta * sqrt(0.5)) - below
    return 1.0 - below - above


@helper
def beta_moments(a, b, lo, hi, outside, gain, offset, mean, root):
    """For a Beta(a, b) record, t(x) = (log x, log(1-x)): by psi functions, or by quadrature over logit x."""
    g, h, o, p = gain[0], gain[1], offset[0], offset[1]
    if outside == 0.0:
        both, both_1 = digamma(a + b), trigamma(a + b)
        mean[0], mean[1] = digamma(a) - both, digamma(b) - both
        put_factor(root, trigamma(a) - both_1, -both_1, trigamma(b) - both_1, 1e-300, 1e-300)
        return
    centre, spread = digamma(a) - digamma(b), REACH * sqrt(trigamma(a) + trigamma(b))
    logit_lo, logit_hi = log(lo) - log1p(-lo), log(hi) - log1p(-hi)
    left, right = max(logit_lo, centre - spread), min(logit_hi, centre + spread)
    below = exp(log_beta_cdf(a, b, lo)) if logit_lo >= centre - spread else 0.0
    above = exp(log_beta_cdf(b, a, 1.0 - hi)) if logit_hi <= centre + spread else 0.0
    # Moments are about (s_0, t_0), near the mean: records that are nearly equal have a variance in the last digits.
    u = min(max(centre, logit_lo), logit_hi)
    s_0, t_0 = o - g * log1p_exp(-u), p - h * log1p_exp(u)
    if outside != CLAMP and below + above > 0.5:
        s_0 = t_0 = 0.0
    mass = m1 = m2 = m11 = m12 = m22 = 0.0
    if left < right:
        half, middle, front = 0.5 * (right - left), 0.5 * (left + right), log_beta(a, b)
        for i in range(NODES.size):
            u = middle + half * NODES[i]
            s, t = -log1p_exp(-u), -log1p_exp(u)
            w = half * WEIGHTS[i] * exp(a * s + b * t - front)
            s, t = g * s + o - s_0, h * t + p - t_0
            mass += w
            m1 += w * s
            m2 += w * t
            m11 += w * s * s
            m12 += w * s * t
            m22 += w * t * t
    if below + above < 0.5:  # else the mass inside has lost its digits here, and none there
        factor = (1.0 - below - above) / mass
        m1, m2, m11, m12, m22 = factor * m1, factor * m2, factor * m11, factor * m12, factor * m22
    if outside == CLAMP:
        s_lo, t_lo = g * log(lo) + o - s_0, h * log1p(-lo) + p - t_0
        s_hi, t_hi = g * log(hi) + o - s_0, h * log1p(-hi) + p - t_0
    else:  # dropped: they add nothing
        s_lo, t_lo, s_hi, t_hi = -s_0, -t_0, -s_0, -t_0
    m1 += below * s_lo + above * s_hi
    m2 += below * t_lo + above * t_hi
    m11 += below * s_lo * s_lo + above * s_hi * s_hi
    m12 += below * s_lo * t_lo + above * s_hi * t_hi
    m22 += below * t_lo * t_lo + above * t_hi * t_hi
    mean[0], mean[1] = s_0 + m1, t_0 + m2
    floor_1, floor_2 = NOTHING * (g * (logit_hi - logit_lo)) ** 2, NOTHING * (h * (logit_hi - logit_lo)) ** 2
    put_factor(root, m11 - m1 * m1, m12 - m1 * m2, m22 - m2 * m2, floor_1, floor_2)
