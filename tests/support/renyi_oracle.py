"""Divergences of two densities: of Rényi by quadrature, and the δ of normal losses with many digits."""

import math

from scipy.special import logsumexp


def exact_divergence(p, q, alpha, grid):
    """Rényi divergence of order α of two densities given by their logs on an even grid (the trapezium rule)."""
    return float(logsumexp(alpha * p + (1 - alpha) * q) + math.log(grid[1] - grid[0])) / (alpha - 1)


def exact_delta(epsilon, mu):
    """δ of N(μ, 2μ) at ε, Φ(-x) - e^ε Φ(-x-s), with digits to spare for what cancels."""
    import mpmath

    with mpmath.workdps(80):
        epsilon, mu = mpmath.mpf(epsilon), mpmath.mpf(mu)
        s = mpmath.sqrt(2 * mu)
        return mpmath.ncdf((mu - epsilon) / s) - mpmath.exp(epsilon) * mpmath.ncdf(-(mu + epsilon) / s)
