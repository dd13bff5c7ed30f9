"""A kernel density estimate with the noise divided out, by characteristic functions (Stefanski & Carroll 1990)."""

from math import pi

import numpy as np

KERNEL_VARIANCE = 6.0  # ∫x²K(x)dx = -φ_K''(0)
BLOCK = 2**20  # entries of a temporary array
NODES, WEIGHTS = np.polynomial.legendre.leggauss(32)


def kernel_cf(u):
    """φ_K(u) = (1 - u²)³ on [-1, 1], 0 outside."""
    return np.maximum(1.0 - np.square(u), 0.0) ** 3


def quadrature(phase):
    """Nodes and weights on [0, 1] for an integrand that turns through ``phase`` radians.

    Panels of 32 Gauss–Legendre nodes, at most 40 radians each: the rule is exact to degree 63, and the Chebyshev
    coefficients of exp(20ix) beyond that are below 1e-20.  Two panels at least, for φ_K²/φ_noise².
    """
    n_panels = 2 + int(phase / 40.0)
    nodes = (np.arange(n_panels)[:, None] + 0.5 + 0.5 * NODES) / n_panels
    return nodes.ravel(), np.tile(0.5 * WEIGHTS / n_panels, n_panels)


def empirical_cf(t, y):
    """φ_emp(t) = Σ exp(ity_i)/n."""
    size = max(1, BLOCK // len(t))
    return sum(np.exp(1j * np.outer(t, y[i : i + size])).sum(axis=1) for i in range(0, len(y), size)) / len(y)


def inversion(cf, log_gain, bandwidth, span):
    """Frequencies t and coefficients c such that the estimate is f(x) = Re Σ c exp(-itx).

    This is f(x) = (1/π)∫_0^{1/h} Re(exp(-itx) φ(t)) φ_K(th)/φ_noise(t) dt on the nodes t = u/h, for any characteristic
    function φ of the release, where |x - z| is at most ``span``.
    """
    u, weights = quadrature(span / bandwidth)
    t = u / bandwidth
    return t, weights / (pi * bandwidth) * cf(t) * kernel_cf(u) * np.exp(log_gain(t))


def evaluate(t, c, x):
    """Re Σ c exp(-itx) at any points."""
    size = max(1, BLOCK // len(t))
    blocks = [(np.exp(-1j * np.outer(x[i : i + size], t)) @ c).real for i in range(0, len(x), size)]
    return np.concatenate(blocks)


def evaluate_evenly(t, c, start, step, n_points):
    """Re Σ c exp(-itx) at x = start + step·(mB + l): exp(-itx) factors into (m, t) and (t, l), √n_points of each."""
    size = int(np.ceil(np.sqrt(n_points)))
    outer = np.exp(-1j * np.outer(start + step * size * np.arange(size), t)) * c
    return (outer @ np.exp(-1j * np.outer(t, step * np.arange(size)))).real.ravel()[:n_points]
