"""The α of a symmetric Dirichlet prior that is unknown (``WideDirichletPrior``), given counts.

With v = log α, m the prior's median of α and p(v) ∝ e^v / (1 + e^v/m)², the log-logistic distribution,

    p(v given counts s_1..s_K) ∝ p(v) · Γ(Kα)/Γ(n+Kα) · Π_j Γ(s_j+α)/Γ(α),     n = Σ s_j,

with the probabilities integrated out.  This is not always log-concave, and so v moves by slice sampling (Neal 2003,
stepping out and shrinking).
"""

import math

from ..._base.compiled import helper
from ._statistic import log_gamma_ratio

WIDTH, MAX_STEPS = 1.0, 100  # of the slice
SMALLEST, LARGEST = 1e-150, 1e150  # α beyond is never met, but its square must be a number
ALPHA = 10  # where state.work has α during a sweep, if it is unknown; samplers use the places before it


@helper
def alpha_of(model, work, j):
    """α of category j."""
    return work[ALPHA] if model.median_alpha > 0.0 else model.alpha[j]


@helper
def alpha_total_of(model, work, size):
    """α of all ``size`` categories together."""
    return work[ALPHA] * size if model.median_alpha > 0.0 else model.alpha_total


@helper
def log_alpha_law(median, counts, v):
    """log p(v given counts), up to a constant."""
    alpha = math.exp(v)
    value, n = v - 2.0 * math.log1p(alpha / median), 0.0
    for j in range(counts.size):
        n += counts[j]
        if counts[j] > 0.0:
            value += log_gamma_ratio(alpha, counts[j], 0.0)
    return value + log_gamma_ratio(counts.size * alpha, 0.0, n) if n > 0.0 else value


@helper
def move_alpha(rng, median, counts, alpha):
    """Return another α, by a move that leaves its distribution given the counts as it is."""
    v = math.log(alpha)
    level = log_alpha_law(median, counts, v) - rng.standard_exponential()
    low = v - WIDTH * rng.random()
    high = low + WIDTH
    below = int(MAX_STEPS * rng.random())
    above = MAX_STEPS - 1 - below
    while below > 0 and log_alpha_law(median, counts, low) > level:
        low -= WIDTH
        below -= 1
    while above > 0 and log_alpha_law(median, counts, high) > level:
        high += WIDTH
        above -= 1
    new = low + (high - low) * rng.random()
    while log_alpha_law(median, counts, new) <= level and high - low > 1e-12:
        if new < v:
            low = new
        else:
            high = new
        new = low + (high - low) * rng.random()
    return min(max(math.exp(new), SMALLEST), LARGEST)
