"""Moves of the two shapes of a beta distribution given records under gamma priors, for the beta kernel.

s and t are Σ log x and Σ log(1 - x) of n records; ``shape`` and ``rate`` are the priors'.
"""

from math import exp, log, sqrt

from .._base.beta_numeric import digamma, log_beta, trigamma
from .._base.compiled import helper

LEAST, MOST = 1e-3, 1e6  # support of the priors
FREEDOM = 5.0  # degrees of freedom of the independence move's proposal


@helper
def draw_logs(rng, shape, n, near):
    """The sum of the logs of n distances from an end, all below ``near``: they are log(near) - Exponential(shape)."""
    return n * log(near) - rng.standard_gamma(n) / shape if n > 0.0 else 0.0


@helper
def log_posterior(a, b, s, t, n, shape, rate):
    """Log density of (log a, log b) given n records with Σ log x = s, Σ log(1 - x) = t; the logs' Jacobian included."""
    return a * s + b * t - n * log_beta(a, b) + shape * (log(a) + log(b)) - rate * (a + b)


@helper
def drift(a, b, s, t, n, shape, rate, step):
    """Mean shift of the Langevin proposal, and the Cholesky factor of its covariance: step² times the inverse of
    G = Fisher information of n records in (log a, log b), plus ``shape``, the priors' expected curvature."""
    both, curve = digamma(a + b), trigamma(a + b)
    grad_a = a * (n * (both - digamma(a)) + s - rate) + shape
    grad_b = b * (n * (both - digamma(b)) + t - rate) + shape
    g_aa = n * a * a * (trigamma(a) - curve) + shape
    g_bb = n * b * b * (trigamma(b) - curve) + shape
    g_ab = -n * a * b * curve
    det = g_aa * g_bb - g_ab * g_ab
    half = 0.5 * step * step / det
    shift_a, shift_b = half * (g_bb * grad_a - g_ab * grad_b), half * (g_aa * grad_b - g_ab * grad_a)
    l_aa = step * sqrt(g_bb / det)
    l_ba = -step * g_ab / sqrt(g_bb * det)
    l_bb = step / sqrt(g_bb)
    return shift_a, shift_b, l_aa, l_ba, l_bb


@helper
def log_proposal(u, v, l_aa, l_ba, l_bb):
    """Log density, up to a constant, of a step (u, v) from the proposal's mean."""
    e = u / l_aa
    f = (v - l_ba * e) / l_bb
    return -0.5 * (e * e + f * f) - log(l_aa * l_bb)


@helper
def log_student(u, v, l_aa, l_ba, l_bb):
    """Log density, up to a constant, of a bivariate t with Cholesky factor l, at (u, v) from its centre."""
    e = u / l_aa
    f = (v - l_ba * e) / l_bb
    return -(0.5 * FREEDOM + 1.0) * log(1.0 + (e * e + f * f) / FREEDOM)


@helper
def jump(rng, a, b, s, t, n, shape, rate):
    """An independence move from a bivariate t at the mode, found by Fisher scoring from (1, 1): (a, b) after it."""
    mode_a, mode_b = 1.0, 1.0
    l_aa, l_ba, l_bb = 1.0, 0.0, 1.0
    for _ in range(30):  # the proposal depends only on the statistics, wherever this ends
        shift_a, shift_b, l_aa, l_ba, l_bb = drift(mode_a, mode_b, s, t, n, shape, rate, 1.0)
        mode_a = min(max(mode_a * exp(min(max(2.0 * shift_a, -1.5), 1.5)), LEAST), MOST)
        mode_b = min(max(mode_b * exp(min(max(2.0 * shift_b, -1.5), 1.5)), LEAST), MOST)
        if abs(shift_a) + abs(shift_b) < 1e-3 * (l_aa + l_bb):
            break
    stretch = sqrt(FREEDOM / (2.0 * rng.standard_gamma(0.5 * FREEDOM)))
    e, f = stretch * rng.standard_normal(), stretch * rng.standard_normal()
    u, v = l_aa * e, l_ba * e + l_bb * f
    if not (-20.0 < u < 20.0 and -20.0 < v < 20.0):
        return a, b
    new_a, new_b = mode_a * exp(u), mode_b * exp(v)
    if not (LEAST <= new_a <= MOST and LEAST <= new_b <= MOST):
        return a, b
    gain = log_posterior(new_a, new_b, s, t, n, shape, rate) - log_posterior(a, b, s, t, n, shape, rate)
    gain += log_student(log(a / mode_a), log(b / mode_b), l_aa, l_ba, l_bb) - log_student(u, v, l_aa, l_ba, l_bb)
    return (new_a, new_b) if rng.random() < exp(min(gain, 0.0)) else (a, b)


@helper
def langevin_move(rng, a, b, s, t, n, shape, rate, step):
    """One Metropolis-adjusted Langevin move; returns (a, b, acceptance probability)."""
    shift_a, shift_b, l_aa, l_ba, l_bb = drift(a, b, s, t, n, shape, rate, step)
    e, f = rng.standard_normal(), rng.standard_normal()
    u, v = shift_a + l_aa * e, shift_b + l_ba * e + l_bb * f
    if not (-20.0 < u < 20.0 and -20.0 < v < 20.0):
        return a, b, 0.0
    new_a, new_b = a * exp(u), b * exp(v)
    if not (LEAST <= new_a <= MOST and LEAST <= new_b <= MOST):
        return a, b, 0.0
    gain = log_posterior(new_a, new_b, s, t, n, shape, rate) - log_posterior(a, b, s, t, n, shape, rate)
    gain -= log_proposal(u - shift_a, v - shift_b, l_aa, l_ba, l_bb)
    shift_a, shift_b, l_aa, l_ba, l_bb = drift(new_a, new_b, s, t, n, shape, rate, step)
    gain += log_proposal(-u - shift_a, -v - shift_b, l_aa, l_ba, l_bb)
    probability = exp(min(gain, 0.0))
    return (new_a, new_b, probability) if rng.random() < probability else (a, b, probability)
