"""The exact posterior of n <= 4 records under the multivariate normal kernel; no code of the package.

It enumerates the partitions, with the normal-inverse-Wishart marginal likelihood of each cluster; under noise that is
integrated over the confidential records by quadrature, as there g(z | θ) has no closed form.
"""

from functools import cache
from itertools import pairwise
from math import prod
from typing import NamedTuple

import numpy as np
import oracle
from scipy.special import gammaln, multigammaln

RTOL = 2e-4  # two orders of quadrature may differ by that: the tests' Monte Carlo error is 25 times as large


class Prior(NamedTuple):
    """N(μ | mean, Σ/mean_precision) and Σ ~ IW(dof, scale), density ∝ |Σ|^-(dof+d+1)/2 exp(-tr(scale Σ⁻¹)/2)."""

    mean: tuple
    mean_precision: float
    dof: float
    scale: tuple


def marginal(n, s, ss, prior):
    """∫ Π_i N(y_i | μ, Σ) G0(dμ, dΣ) of n records, from s_j = Σu_j and ss_jm = Σu_j u_m, u = y - mean (Gelman §3.6)."""
    d, total, dof = len(s), prior.mean_precision + n, prior.dof + n
    psi = np.array(prior.scale)
    constant = multigammaln(dof / 2, d) - multigammaln(prior.dof / 2, d) + 0.5 * prior.dof * np.linalg.slogdet(psi)[1]
    constant += 0.5 * d * (np.log(prior.mean_precision / total) - n * np.log(np.pi))
    a = {(i, j): psi[i, j] + ss[i, j] - s[i] * s[j] / total for i, j in ss}
    log_determinant = 0.0
    for j in range(d):  # by elimination, on arrays of any shape
        log_determinant = log_determinant + np.log(a[j, j])
        for i in range(j + 1, d):
            for k in range(j + 1, i + 1):
                a[i, k] = a[i, k] - a[i, j] * a[k, j] / a[j, j]
    return np.exp(constant - 0.5 * dof * log_determinant)


def sums(nodes, mean, size=2**18):
    """(weights, Σu, Σuu') on the product of the records' nodes, in blocks of about ``size``."""
    n, d = len(nodes), len(mean)
    rows = np.arange(len(nodes[0][1]))
    blocks = -(-prod(len(w) for _, w in nodes) // size)
    for block in np.array_split(rows, min(blocks, len(rows))):
        weight, s, ss = 1.0, [0.0] * d, {(i, j): 0.0 for i in range(d) for j in range(i + 1)}
        for r, (y, w) in enumerate(nodes):
            y, w = (y[block], w[block]) if r == 0 else (y, w)
            shape = [-1 if axis == r else 1 for axis in range(n)]
            u = [(y[:, i] - mean[i]).reshape(shape) for i in range(d)]
            weight = weight * w.reshape(shape)
            s = [a + b for a, b in zip(s, u)]
            ss = {(i, j): value + u[i] * u[j] for (i, j), value in ss.items()}
        yield weight, s, ss


def masses(nodes, prior, x):
    """A cluster's ∫ Π_i q(z_i | y_i) m(y) dy, then the same with each point of x as one more record."""
    d, n = len(prior.mean), len(nodes)
    total = np.zeros(1 + len(x))
    nothing = [(np.ones(1), [0.0] * d, {(i, j): 0.0 for i in range(d) for j in range(i + 1)})]
    for weight, s, ss in sums(nodes, prior.mean) if n else nothing:
        total[0] += np.sum(weight * marginal(n, s, ss, prior))
        for p, u in enumerate(x - np.array(prior.mean)):
            more = {(i, j): value + u[i] * u[j] for (i, j), value in ss.items()}
            total[1 + p] += np.sum(weight * marginal(n + 1, [a + b for a, b in zip(s, u)], more, prior))
    return total


def legendre(lo, hi, order):
    x, w = np.polynomial.legendre.leggauss(order)
    return 0.5 * (lo + hi) + 0.5 * (hi - lo) * x, 0.5 * (hi - lo) * w


def feature_nodes(z, noise, scale, bounds, spread, order):
    """Nodes and weights of ∫ q(z | y) f(y) dy for a smooth f: pieces on which the channel is smooth too."""
    if bounds is None and noise == "gaussian":
        x, w = np.polynomial.hermite_e.hermegauss(order)
        return z + scale * x, w / np.sqrt(2 * np.pi)
    if bounds is None:  # either side of z in units of the noise: two panels, and the rest by Gauss-Laguerre
        x, w = np.polynomial.laguerre.laggauss(max(order // 2, 2))
        panels = [(y, v * np.exp(-y)) for y, v in (legendre(0, 2, order), legendre(2, 6, order))]
        panels.append((6 + x, w * np.exp(-6)))
        x, w = (np.concatenate(parts) for parts in zip(*panels))
        return np.concatenate([z - scale * x, z + scale * x]), np.concatenate([w, w]) / 2
    lo, hi = bounds
    cuts = [lo, z, hi] if lo < z < hi else [lo, hi]
    panels = [legendre(a, b, order // 2 + 4 - len(cuts)) for a, b in pairwise(cuts)]
    r, v = legendre(0, 1, order)  # beyond the bounds the channel is flat: all of f's tail, y = hi + spread·r/(1 - r)
    far, v = spread * r / (1 - r), spread * v / (1 - r) ** 2
    panels = [(y, w * np.exp(oracle.log_channel(z, y, noise, scale))) for y, w in panels]
    panels += [(lo - far, v * np.exp(oracle.log_channel(z, lo, noise, scale)))]
    panels += [(hi + far, v * np.exp(oracle.log_channel(z, hi, noise, scale)))]
    return tuple(np.concatenate(parts) for parts in zip(*panels))


def record_nodes(z, noise, scale, bounds, prior, order):
    """Nodes (n, d) and weights (n,) of the integral over one confidential record."""
    if noise is None:
        return z[None], np.ones(1)
    rules = [
        feature_nodes(z[j], noise, scale, None if bounds is None else bounds[j], 2 * np.sqrt(prior.scale[j][j]), order)
        for j in range(len(z))
    ]
    y, w = (np.meshgrid(*parts, indexing="ij") for parts in zip(*rules))
    return np.stack([part.ravel() for part in y], axis=1), prod(part.ravel() for part in w)


#: (noise, clamped, dimensions of the integral): two orders, the finer one counts
ORDERS = {
    ("laplace", False, 2): (12, 20),
    ("laplace", False, 4): (8, 9),
    ("laplace", True, 2): (20, 30),
    ("laplace", True, 4): (14, 16),
    ("gaussian", False, 1): (32, 48),
    ("gaussian", False, 2): (32, 48),
    ("gaussian", False, 3): (24, 32),
    ("gaussian", False, 4): (12, 16),
    ("gaussian", False, 6): (8, 10),
    ("gaussian", True, 2): (20, 30),
    ("gaussian", True, 4): (14, 16),
}


@cache
def cluster_table(Z, noise, scales, bounds, prior, x):
    """Log marginal likelihood and predictive density of the records in every subset (bit masks); checks itself."""
    Z, x = np.array(Z), np.array(x)
    n, d = Z.shape
    log_m, density = np.zeros(2**n), np.empty((2**n, len(x)))
    for mask in range(2**n):
        members = [i for i in range(n) if mask >> i & 1]
        orders = ORDERS[noise, bounds is not None, d * len(members)] if noise and members else (1,)
        tables = []
        for order in orders:
            nodes = [record_nodes(Z[i], noise, scales[i], bounds, prior, order) for i in members]
            tables.append(masses(nodes, prior, x))
        error = np.max(np.abs(tables[0] / tables[-1] - 1))
        if not error < RTOL:
            raise ValueError(f"oracle quadrature over records {members} is not accurate: relative error {error:.1e}")
        log_m[mask], density[mask] = np.log(tables[-1][0]), tables[-1][1:] / tables[-1][0]
    return log_m, density


def posterior(n, log_m, density, mixing):
    """P(number of clusters), shape (n + 1,), and the predictive density, over all partitions.

    ``mixing`` is ("concentration", nodes, weights), ("discount", concentration, discount) or ("components", γ, prior).
    """
    kind, *law = mixing
    pmf, predictive, total = np.zeros(n + 1), np.zeros(density.shape[1]), 0.0
    for partition in oracle.set_partitions(n):
        t = len(partition)
        sizes = np.array([int(mask).bit_count() for mask in partition])
        if kind == "components":
            discount = -law[0]
            log_v, log_old, log_new = (
                oracle.log_finite_eppf(m, k, *law) for m, k in ((n, t), (n + 1, t), (n + 1, t + 1))
            )
            alpha, weight = np.zeros(1), np.exp(log_v + np.sum(gammaln(sizes - discount) - gammaln(-discount)))
            old, fresh = np.exp(log_old - log_v), -discount * np.exp(log_new - log_v)
        else:
            alpha, weights = (law[0], law[1]) if kind == "concentration" else (np.array([law[0]]), np.ones(1))
            discount = law[1] if kind == "discount" else 0.0
            weight = weights * np.prod([alpha + k * discount for k in range(1, t)], axis=0)
            weight = weight / np.prod([alpha + i for i in range(1, n)], axis=0)
            weight = weight * np.exp(np.sum(gammaln(sizes - discount) - gammaln(1 - discount)))
            old, fresh = 1 / (alpha + n), (alpha + t * discount) / (alpha + n)
        weight = weight * np.exp(log_m[partition].sum())
        pmf[t] += np.sum(weight)
        total += np.sum(weight)
        predictive += np.sum(weight * old) * ((sizes - discount) @ density[partition])
        predictive += np.sum(weight * fresh) * density[0]
    return pmf / total, predictive / total
