"""Priors as compiled code sees them: log densities of parameters, and their draws given records.

``prior`` has the numbers of a conjugate prior or of a wide one.
"""

from math import exp, inf, log, log1p, sqrt

from .._base.compiled import helper
from ._priors import LARGEST_BETA


@helper
def log_normal_prior(prior, mean, log_variance):
    """Log density of (μ, log σ²), up to a constant."""
    centred = mean - prior.mean
    if prior.spread > 0.0:
        value = -log1p((centred / prior.spread) ** 2) + 0.5 * log_variance
        return value - log1p(exp(min(log_variance, 600.0)) / prior.scale)
    half = prior.scale + 0.5 * prior.mean_precision * centred * centred
    return -(prior.shape + 0.5) * log_variance - half * exp(-log_variance)


@helper
def draw_normal_parameters(rng, prior, theta, n, centre, squares):
    """(μ, σ²) given n records, their mean and the sum of squares about it: jointly, or one by one under wide priors."""
    shift = centre - prior.mean
    if prior.spread > 0.0:
        gap, variance = theta[0] - prior.mean, theta[1]
        precision = 2.0 * rng.standard_exponential() / (prior.spread * prior.spread + gap * gap)
        scale = rng.standard_exponential() / (1.0 / prior.scale + 1.0 / variance)
        whole = n / variance + precision
        theta[0] = prior.mean + n / variance / whole * shift + rng.standard_normal() / sqrt(whole)
        gap = centre - theta[0]
        theta[1] = (scale + 0.5 * (squares + n * gap * gap)) / rng.standard_gamma(0.5 + 0.5 * n)
        return
    precision = prior.mean_precision + n
    scale = prior.scale + 0.5 * (squares + prior.mean_precision * n / precision * shift * shift)
    variance = scale / rng.standard_gamma(prior.shape + 0.5 * n)
    theta[0] = prior.mean + n / precision * shift + sqrt(variance / precision) * rng.standard_normal()
    theta[1] = variance


@helper
def log_rate_prior(prior, log_rate):
    """Log density of the log of a rate (or of a Poisson mean), up to a constant."""
    if prior.wide > 0.0:
        return log_rate - 2.0 * log(prior.rate + exp(log_rate))
    return prior.shape * log_rate - prior.rate * exp(log_rate)


@helper
def draw_rate(rng, prior, rate, shape, total):
    """A rate given records that count for ``shape`` and add up to ``total``, and the previous rate."""
    own = prior.rate
    if prior.wide > 0.0:
        own = rng.standard_gamma(2.0) / (prior.rate + rate)
    return max(rng.standard_gamma(prior.shape + shape) / (own + total), 1e-300)


@helper
def log_shapes_prior(prior, log_a, log_b):
    """Log density of the logs of both parameters of a beta distribution, up to a constant."""
    if prior.precision > 0.0:
        log_both = max(log_a, log_b) + log1p(exp(-abs(log_a - log_b)))
        both = exp(log_both)
        if not both <= LARGEST_BETA:
            return -inf
        return log_a + log_b - 1.5 * log_both - log(prior.precision + both)
    value = prior.shape[0] * log_a - prior.rate[0] * exp(log_a)
    return value + prior.shape[1] * log_b - prior.rate[1] * exp(log_b)
