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


def blocks(t, x):
    """exp(itx) of the frequencies of :func:`quadrature`, as factors (panels, points) and (nodes, points), for blocks.

    The nodes of all panels are alike: p panels of points take p + 32 exponentials each, not 32p.
    """
    nodes, panels = t[: len(NODES)], t[:: len(NODES)] - t[0]
    size = max(1, BLOCK // (len(nodes) + len(panels)))
    for i in range(0, len(x), size):
        yield tuple(np.exp(1j * np.outer(part, x[i : i + size])) for part in (panels, nodes))


def empirical_cf(t, y):
    """φ_emp(t) = Σ exp(ity_i)/n at the frequencies of :func:`quadrature`."""
    return sum(by_panel @ by_node.T for by_panel, by_node in blocks(t, y)).ravel() / len(y)


def inversion(cf, log_gain, bandwidth, span):
    """Frequencies t and coefficients c such that the estimate is f(x) = Re Σ c exp(-itx).

    This is f(x) = (1/π)∫_0^{1/h} Re(exp(-itx) φ(t)) φ_K(th)/φ_noise(t) dt on the nodes t = u/h, for any characteristic
    function φ of the release, where |x - z| is at most ``span``.
    """
    u, weights = quadrature(span / bandwidth)
    t = u / bandwidth
    return t, weights / (pi * bandwidth) * cf(t) * kernel_cf(u) * np.exp(log_gain(t))


def evaluate(t, c, x):
    """Re Σ c exp(-itx) at any points, for the frequencies of :func:`quadrature`."""
    c = c.reshape(-1, len(NODES))
    sums = [np.sum(by_panel * (c @ by_node), axis=0).real for by_panel, by_node in blocks(t, -x)]
    return np.concatenate(sums)


def evaluate_evenly(t, c, start, step, n_points):
    """Re Σ c exp(-itx) at x = start + step·(mB + l): exp(-itx) factors into (m, t) and (t, l), √n_points of each."""
    size = int(np.ceil(np.sqrt(n_points)))
    outer = np.exp(-1j * np.outer(start + step * size * np.arange(size), t)) * c
    return (outer @ np.exp(-1j * np.outer(t, step * np.arange(size)))).real.ravel()[:n_points]
