"""Proposals of a few unconstrained parameters: walks, and a mixture of t at the modes of an approximate posterior.

Compiled code finds the mixture in the fields ``centres`` (n_modes, d), ``factors`` (n_modes, d, d), ``log_weights`` and
``cumulative`` (n_modes,) of a sampler's value; d is at most 3.
"""

import math

import numpy as np

from .._base.compiled import helper

DEGREES = 5.0  # of freedom
WIDEN = 1.2  # the scale over that of the mode
SMALLEST_WALK = 1e-2  # walks are between that and 2 standard deviations of a mode, even in the logarithm


def proposal_fields(centres, factors, log_weights):
    """The fields of a mixture at ``centres``, with lower Cholesky factors of the covariances and log shares."""
    log_weights = np.asarray(log_weights, dtype=np.float64)
    return {
        "centres": np.asarray(centres, dtype=np.float64),
        "factors": WIDEN * np.asarray(factors, dtype=np.float64),
        "log_weights": log_weights,
        "cumulative": np.cumsum(np.exp(log_weights)),
    }


@helper
def log_proposal(sampler, v):
    """Log density of the mixture at v, up to a constant."""
    top, total = -math.inf, 0.0
    d = sampler.centres.shape[1]
    for m in range(sampler.centres.shape[0]):
        square = log_scale = 0.0
        for a in range(d):
            u = solve_row(sampler.factors[m], sampler.centres[m], v, a)
            square += u * u
            log_scale += math.log(sampler.factors[m, a, a])
        value = sampler.log_weights[m] - log_scale - 0.5 * (DEGREES + d) * math.log1p(square / DEGREES)
        if value > top:
            total = total * math.exp(top - value) + 1.0
            top = value
        else:
            total += math.exp(value - top)
    return top + math.log(total)


@helper
def solve_row(factor, centre, v, row):
    """Entry ``row`` of F⁻¹ (v - c) for a lower factor."""
    first = (v[0] - centre[0]) / factor[0, 0]
    if row == 0:
        return first
    second = (v[1] - centre[1] - factor[1, 0] * first) / factor[1, 1]
    if row == 1:
        return second
    return (v[2] - centre[2] - factor[2, 0] * first - factor[2, 1] * second) / factor[2, 2]


@helper
def propose(rng, sampler, v, new, is_independent):
    """Write a draw from the mixture into ``new``, or a step of a symmetric random walk from v."""
    d = sampler.centres.shape[1]
    u, mode = rng.random(), 0
    while mode < sampler.centres.shape[0] - 1 and u >= sampler.cumulative[mode]:
        mode += 1
    if is_independent:
        scale = 1.0 / math.sqrt(2.0 * rng.standard_gamma(0.5 * DEGREES) / DEGREES)
    else:
        scale = 2.0 * SMALLEST_WALK ** rng.random()
    for a in range(d):
        new[a] = sampler.centres[mode, a] if is_independent else v[a]
    for b in range(d):
        e = scale * rng.standard_normal()
        for a in range(b, d):
            new[a] += sampler.factors[mode, a, b] * e
