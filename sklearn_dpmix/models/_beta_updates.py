"""Updates of the parameters of beta records given the records' statistic: slice sampling (Neal 2003).

In logit(a/(a + b)) and log(a + b), which are nearly independent.  In (a, b), and by one given the other, records that
are nearly equal leave a ridge on which chains stand still.
"""

from math import exp, inf, log, sqrt

from .._base.beta_numeric import log_beta
from .._base.compiled import helper
from .._base.numeric import log1p_exp
from ._prior_updates import log_shapes_prior

N_SLICES = 4  # rounds in an update


@helper
def update_shapes(rng, model, theta, sums, n):
    """(a, b) given the sums of log x and of log(1 - x) over n records."""
    v, w = log(theta[0]) - log(theta[1]), log(theta[0] + theta[1])
    for turn in range(2 * N_SLICES):
        v, w = slice_step(rng, model, sums, n, v, w, turn % 2)
    log_a, log_b = log_shapes(v, w)
    theta[0], theta[1] = exp(log_a), exp(log_b)


@helper
def log_shapes(v, w):
    """(log a, log b) from v = logit(a/(a+b)) and w = log(a+b)."""
    return w - log1p_exp(-v), w - log1p_exp(v)


@helper
def log_beta_posterior(model, sums, n, v, w):
    """Log density of (v, w), which is that of (log a, log b): the volume is the same."""
    log_a, log_b = log_shapes(v, w)
    if not (log_a > -300.0 and log_b > -300.0 and w < 300.0):
        return -inf
    a, b = exp(log_a), exp(log_b)
    value = a * sums[0] + b * sums[1] - n * log_beta(a, b)
    return value + log_shapes_prior(model, log_a, log_b)


@helper
def slice_step(rng, model, sums, n, v, w, which):
    """One update of v (``which`` 0) or w by stepping out and shrinking from a width of 3/√(n+1)."""
    x = v if which == 0 else w
    level = log_beta_posterior(model, sums, n, v, w) - rng.standard_exponential()
    width = 3.0 / sqrt(n + 1.0)
    low = x - width * rng.random()
    high = low + width
    for side in range(2):
        at, step = (low, -width) if side == 0 else (high, width)
        for _ in range(200):
            if not log_beta_posterior(model, sums, n, at if which == 0 else v, w if which == 0 else at) > level:
                break
            at += step
        if side == 0:
            low = at
        else:
            high = at
    while True:
        at = low + (high - low) * rng.random()
        a, b = (at, w) if which == 0 else (v, at)
        if log_beta_posterior(model, sums, n, a, b) > level:
            return a, b
        if at < x:
            low = at
        else:
            high = at
