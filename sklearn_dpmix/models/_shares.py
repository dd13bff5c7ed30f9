"""Shares of categories under a symmetric Dirichlet prior, in compiled code."""

from .._base.compiled import helper


@helper
def dirichlet_from_counts(rng, alpha, theta, first, size):
    """Replace the ``size`` counts from place ``first`` on by a draw of Dirichlet(α + counts).

    If a tiny α made all gammas underflow, one category gets everything.
    """
    total = 0.0
    for k in range(first, first + size):
        theta[k] = rng.standard_gamma(alpha + theta[k])
        total += theta[k]
    if total == 0.0:
        theta[first + min(int(rng.random() * size), size - 1)] = total = 1.0
    for k in range(first, first + size):
        theta[k] /= total
