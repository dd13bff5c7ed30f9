"""Modes and curvatures of the posterior of the normal approximation, for proposals and starts.

With Gaussian noise of the same variance D in place of the noise, s is integrated out: y ~ N(nμ(θ), nΣ(θ) + D/R) for the
mean y of R releases.  The modes of that times the prior, with the curvature there, are all that a proposal needs: a
proposal changes how fast chains mix, but not what they converge to.  (A sum of records that are dropped outside bounds
may be the same for two different θ; so modes are searched for globally.)
"""

import math

import numpy as np
from scipy.optimize import minimize

from ..._base.compiled import entry

N_GRID, GRID_END = 4001, 60.0  # of one coordinate
N_QUANTILES = 121  # of each of two
N_STARTS, APART = 12, 8  # climbs start from so many points of the grid, so many steps apart
NEGLIGIBLE = 20.0  # a mode so far below the highest, in logs, is left out
MAX_MODES = 4
FARTHEST = 1e150


@entry
def log_collapsed(model, V, y, noise, n, count, count_noise, mean, root, out):
    """Log density of rows of V: v, and u last where n is 0, that is unknown, and ``count`` was released.

    ``mean`` (k,) and ``root`` (k, k) are scratch; k is 1 or 2.
    """
    for i in range(V.shape[0]):
        v = V[i]
        value, m = model.log_prior(v), n
        if n == 0.0:
            m = v[V.shape[1] - 1]
            value -= 0.5 * (count - m) * (count - m) / count_noise
            if not m >= 0.5:
                out[i] = -math.inf
                continue
        model.moments(v, mean, root)
        a = m * root[0, 0] * root[0, 0] + noise[0]
        e = y[0] - m * mean[0]
        value -= 0.5 * (math.log(a) + e * e / a)
        if y.size == 2:
            b = m * root[0, 0] * root[1, 0]
            c = m * (root[1, 0] * root[1, 0] + root[1, 1] * root[1, 1]) + noise[1] - b * b / a
            e = y[1] - m * mean[1] - b / a * e
            value -= 0.5 * (math.log(c) + e * e / c)
        out[i] = value if value > -math.inf else -math.inf


def collapsed(model, y, noise, n_records, count, count_noise):
    """The log density of rows of coordinates, as a function.

    Parameters
    ----------
    model : component value
    y : ndarray of shape (k,)
        Mean of the releases.
    noise : ndarray of shape (k,)
        Variance of its noise.
    n_records : float
        0 if it is unknown and was released as ``count`` with noise of variance ``count_noise``.
    """
    k = len(y)
    mean, root = np.zeros(k), np.zeros((k, k))
    y, noise = np.array(y, dtype=np.float64), np.maximum(np.array(noise, dtype=np.float64), 1e-300)

    def log_density(V):
        V = np.ascontiguousarray(np.atleast_2d(V), dtype=np.float64)
        out = np.empty(len(V))
        log_collapsed(
            model, V, y, noise, float(n_records), float(count), float(count_noise), mean, root, out
        )  # fmt: skip
        return np.maximum(out, -FARTHEST)

    return log_density


def find_modes(log_density, starts, n_records, count):
    """Return (centres (m, d), factors (m, d, d), log_weights (m,)) of the modes.

    Parameters
    ----------
    log_density : function
        What :func:`collapsed` returns.
    starts : ndarray of shape (n_starts, n_free)
        Points to climb from.
    n_records : float
        0 if it is unknown, and was released as ``count``.
    """
    d = starts.shape[1]
    axes = [np.linspace(-GRID_END, GRID_END, N_GRID)]
    if d == 2:
        axes = [np.quantile(column, np.linspace(0.001, 0.999, N_QUANTILES)) for column in starts.T]
    grid = np.stack([axis.ravel() for axis in np.meshgrid(*axes, indexing="ij")], axis=1)
    if not n_records:
        grid = np.column_stack([grid, np.full(len(grid), max(count, 1.0))])
    values = log_density(grid).reshape([len(axis) for axis in axes])
    best = grid[local_maxima(values)]
    modes = []
    for start in best:
        found = _climb(log_density, start)
        factor = _factor(log_density, found)
        height = float(log_density(found)[0])
        apart = [np.linalg.norm(np.linalg.solve(other[1], found - other[0])) for other in modes]
        if all(distance > 0.5 for distance in apart):
            modes.append((found, factor, height))
    highest = max((mode[2] for mode in modes), default=np.nan)
    if not highest > -FARTHEST:  # NaN included
        raise ValueError(
            "the prior and the release are so far apart that the posterior density underflows everywhere: choose a "
            "prior closer to the release"
        )
    modes = sorted((mode for mode in modes if mode[2] >= highest - NEGLIGIBLE), key=lambda mode: -mode[2])[:MAX_MODES]
    factors = rounded(np.array([mode[1] for mode in modes]))
    spread = np.linalg.norm(factors, axis=2)
    centres = spread * np.round(np.array([mode[0] for mode in modes]) / spread, 4)
    log_weights = np.array([mode[2] + np.log(np.diag(mode[1])).sum() for mode in modes])
    shares = np.exp(log_weights - log_weights.max())
    shares = np.maximum(shares / shares.sum(), 0.05)  # so that each is tried now and then
    return centres, factors, np.log(shares / shares.sum())


def rounded(x):
    """To 12 binary digits: a search that rounding sends another way (the same data in another unit) ends there too."""
    scale = 2.0 ** (np.floor(np.log2(np.maximum(np.abs(x), 1e-300))) - 12)
    return scale * np.round(x / scale)


def local_maxima(values):
    """Flat indices of the highest points of a grid that are no lower than their neighbours and apart from one another.

    A narrow ridge that is not along an axis has many of them, which should not hide those of another.
    """
    padded = np.pad(values, 1, constant_values=-np.inf)
    inner = (slice(1, -1),) * values.ndim
    peaks = np.ones(values.shape, dtype=bool)
    for axis in range(values.ndim):
        for shift in (-1, 1):
            peaks &= values >= np.roll(padded, shift, axis=axis)[inner]
    found, kept = np.argwhere(peaks), []
    for point in found[np.argsort(-values[peaks], kind="stable")]:
        if all(np.max(np.abs(point - other)) >= APART for other in kept):
            kept.append(point)
        if len(kept) == N_STARTS:
            break
    return np.ravel_multi_index(np.transpose(kept), values.shape)


def _climb(log_density, start):
    """The local maximum above a point."""
    scales = np.full(len(start), 0.1)
    for _ in range(3):  # again from where it stopped: a simplex may have collapsed
        simplex = np.vstack([start, start + np.diag(scales)])
        found = minimize(
            lambda v: -log_density(v)[0],
            start,
            method="Nelder-Mead",
            options={"initial_simplex": simplex, "xatol": 1e-12, "fatol": 1e-6, "maxiter": 400 * len(start)},
        )
        moved = np.abs(found.x - start)
        start = found.x
        scales = np.maximum(0.3 * moved, 1e-6 * (1.0 + np.abs(start)))
    return start


def _factor(log_density, mode):
    """Lower Cholesky factor of the covariance: the inverse of minus the matrix of second differences.

    The differences are over steps on which the density falls by about exp(-1/2), whatever its scale.  Where a point is
    impossible, as there are too few records, the one on the other side of the mode stands for it.
    """
    d, top = len(mode), float(log_density(mode)[0])
    steps = np.empty(d)

    def on_both_sides(step):
        f = log_density(np.array([mode + step, mode - step]))
        return np.where(f > -FARTHEST, f, f[::-1])

    for a in range(d):
        e = np.eye(d)[a]

        def drop(h, e=e):
            return top - 0.5 * float(on_both_sides(h * e).sum())

        h = 1e-8 * (1.0 + abs(mode[a]))
        while drop(h) < 0.5 and h < 1e6 * (1.0 + abs(mode[a])):
            h *= 2.0
        steps[a] = h * min(1.0, math.sqrt(0.5 / max(drop(h), 1e-9)))
    hessian = np.empty((d, d))
    for a in range(d):
        for b in range(a + 1):
            p, q = steps[a] * np.eye(d)[a], steps[b] * np.eye(d)[b]
            if a == b:
                hessian[a, a] = 2.0 * top - on_both_sides(p).sum()
            else:
                f, g = on_both_sides(p + q), on_both_sides(p - q)
                hessian[a, b] = hessian[b, a] = -0.25 * (f[0] + f[1] - g[0] - g[1])
    values, vectors = np.linalg.eigh(hessian)  # in units of the steps
    covariance = (vectors / np.clip(values, 0.05, 1e6)) @ vectors.T
    return np.linalg.cholesky(np.outer(steps, steps) * covariance)
