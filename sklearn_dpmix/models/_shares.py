"""Categories, and their shares under a symmetric Dirichlet prior, in compiled code."""

from .._base.compiled import helper


@helper
def draw_category(rng, probabilities, first, size):
    """A category with the probabilities from place ``first`` on."""
    u = rng.random()
    for k in range(size - 1):
        u -= probabilities[first + k]
        if u < 0.0:
            return k
    return size - 1


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
