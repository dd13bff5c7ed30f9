"""The approximation of Bernstein & Sheldon (2018), and the sampler that mixes it with the exact θ | s.

In it s | θ is normal with the exact mean and variance.
"""

from itertools import pairwise

import numpy as np
from bounded_records_oracle import LOG, LOGIT, grid_posterior, log_gamma, log_gamma_box
from curator_oracle import Mixture, gaussian, laplace, log_release, panels
from oracle import log_normal, log_tilted_mass
from scipy.special import (
    betaln,
    expit,
    gammainccinv,
    gammaincinv,
    log_expit,
    log_ndtr,
)


def sum_moments(family, theta, n, known_shape=1.0, complement=None):
    """Mean and variance of s = Σx given θ: n(θ, θ(1-θ)), n(θ, θ) or n(k/θ, k/θ²); ``complement`` is 1-θ, if at hand."""
    if family == "binomial":
        return n * theta, n * theta * (1 - theta if complement is None else complement)
    if family == "poisson":
        return n * theta, n * theta
    if family in ("exponential", "gamma"):
        return n * known_shape / theta, n * known_shape / theta**2
    raise ValueError(f"family={family!r}")


def log_normal_release(y, mean, variance, noise, scale, support=(-np.inf, np.inf)):
    """Log of ∫ N(s | mean, variance) Π_r q(y_r - s) ds over the support, in closed form.

    Laplace noise: between neighbouring releases the exponent is linear in s, which tilts the normal.  Gaussian noise:
    a product of normals.  ``mean`` and ``variance`` are arrays of one shape, which the result has.
    """
    y, (lo, hi) = np.sort(np.ravel(np.asarray(y, float))), support
    mean, variance = np.asarray(mean, float), np.asarray(variance, float)
    if noise == "gaussian":
        precision = 1 / variance + len(y) / scale**2
        centre = (mean / variance + y.sum() / scale**2) / precision
        log_peak = log_normal(centre, mean, variance) + sum(log_normal(value, centre, scale**2) for value in y)
        a, b = ((bound - centre) * np.sqrt(precision) for bound in support)
        with np.errstate(invalid="ignore"):
            flip = a + b > 0  # to the smaller tail; False on the whole line
        a, b = np.where(flip, -b, a), np.where(flip, -a, b)
        log_mass = log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b)))
        return log_peak + 0.5 * np.log(2 * np.pi / precision) + log_mass
    cuts = np.concatenate([[lo], y[(y > lo) & (y < hi)], [hi]])
    if len(cuts) == 2 and np.all(np.isinf(cuts)):
        raise ValueError("no release")
    terms = []
    for left, right in pairwise(cuts):
        ref = left if np.isfinite(left) else right
        slope = (np.sum(y >= right) - np.sum(y <= left)) / scale
        height = np.sum(-np.abs(y - ref)) / scale - len(y) * np.log(2 * scale)
        terms.append(log_tilted_mass(mean, np.sqrt(variance), left, right, slope, ref) + height)
    return np.logaddexp.reduce(terms)


def normal_approximation(family, y, n, prior, noise, scale, *, known_shape=1.0):
    """p(θ | y) where s | θ ~ N(nμ(θ), nΣ(θ)) stands for the exact law: one joint law of θ, s and y.

    Parameters
    ----------
    family : {"binomial", "poisson", "exponential", "gamma"}
    y : float or array-like of shape (n_releases,)
    prior : (a, b) of a beta law, or (shape, rate)
    noise, scale : "laplace" and b, or "gaussian" and the standard deviation

    Returns
    -------
    GridPosterior of one parameter.
    """

    def log_target(theta, v):
        theta, v = theta[:, 0], v[:, 0]
        likelihood = log_normal_release(y, *sum_moments(family, theta, n, known_shape, expit(-v)), noise, scale)
        if family == "binomial":
            return likelihood + (prior[0] - 1) * log_expit(v) + (prior[1] - 1) * log_expit(-v) - betaln(*prior)
        return likelihood + log_gamma(theta, *prior)

    if family == "binomial":
        box = (-60 / min(prior[0], 1), 60 / min(prior[1], 1))
        return grid_posterior(log_target, [LOGIT], [box], (4001,))
    return grid_posterior(log_target, [LOG], [log_gamma_box(*prior)], (4001,))


def _statistic_edges(family, n, known_shape, lo, top, marks, decades):
    """Edges of panels of s, at most four standard deviations of s | θ wide, ever smaller on both sides of each mark."""
    span = top - lo
    if family == "binomial":
        edges = lo + span * np.sin(np.linspace(0, np.pi / 2, int(np.sqrt(n)) + 25)) ** 2
    elif family == "poisson":
        edges = lo + span * np.linspace(0, 1, int(np.sqrt(span) / 2) + 25) ** 2
    else:
        edges = lo + np.append(0, np.geomspace(1e-8 * span, span, int(5 * np.sqrt(n * known_shape)) + 25))
    near = span / 25 * 10.0 ** np.arange(-decades, 0.01, 0.5)
    edges = np.unique(np.concatenate([edges, *(m + sign * np.append(0, near) for m in marks for sign in (-1, 1))]))
    edges = edges[(edges >= lo) & (edges <= top)]
    return edges[np.append(True, np.diff(edges) > 1e-12 * span)]


def _parameter_edges(low, high, sd):
    """Edges of panels of v, three sd(v) wide and at most 1."""
    edges = [low]
    while edges[-1] < high:
        edges.append(edges[-1] + min(1.0, 3 * sd(edges[-1])))
    return edges


def gibbs_stationary(family, y, n, prior, noise, scale, *, known_shape=1.0, support=None, augmented=False):
    """The law that the sampler of Bernstein & Sheldon, Algorithm 1, leaves invariant, found numerically.

    The sampler alternates the exact conjugate θ | s, Beta(a + s, b + n - s) or Gamma(shape + s, rate + n) or
    Gamma(shape + nk, rate + s), with s | θ, y under the normal approximation, N(s | nμ(θ), nΣ(θ)) Π_r q(y_r - s)
    restricted to the support ("rejection sampling until valid").  No joint law has both conditionals, so the answer is
    neither the exact posterior nor :func:`normal_approximation`: it is the fixed point of
    K(s, s') = ∫ p(θ | s) p(s' | θ, y) dθ, a matrix on Gauss-Legendre nodes of s.

    Parameters
    ----------
    family, y, n, prior, noise, scale, known_shape : as in :func:`normal_approximation`
    support : (lo, hi), default (0, n) for the binomial family and (0, inf) otherwise
    augmented : bool
        False: s | θ, y is drawn as it stands.  True (Laplace, one release): as the paper writes it, through
        s | θ, σ², y and then 1/σ² | s ~ InverseGaussian(1/(b|y - s|), 1/b²).  As the conditionals are incompatible,
        the two have different invariant laws; K(s, s') = ∫∫ p(θ | s) p(σ² | s) p(s' | θ, σ², y) dσ² dθ.

    Returns
    -------
    Mixture over the nodes of s, with ``mean``, ``sd`` and ``cdf`` of θ.
    """
    y = np.ravel(np.asarray(y, float))
    if augmented and (noise != "laplace" or len(y) != 1):
        raise ValueError("the augmented sampler is for one release with Laplace noise")
    lo, hi = support or ((0.0, float(n)) if family == "binomial" else (0.0, np.inf))
    top = hi
    reach = max(y.max(), 1.0) + 30 * scale + 10 * np.sqrt(n)
    for _ in range(4):
        top = min(hi, reach)
        mixture, edge = _gibbs_on(family, y, n, prior, noise, scale, known_shape, (lo, hi), top, augmented)
        if top == hi or edge < 1e-10:
            return mixture
        reach *= 2
    raise ValueError("the law of s does not end")


def _gibbs_on(family, y, n, prior, noise, scale, known_shape, support, top, augmented):
    """:func:`gibbs_stationary` with s up to ``top``; also the mass of the last two panels."""
    lo, hi = support
    marks = [lo, *y[(y > lo) & (y < top)], *([hi] if np.isfinite(hi) else [])]
    edges = _statistic_edges(family, n, known_shape, lo, top, marks, 6 if augmented else 3)
    s, w = panels(edges, 8)
    if family == "binomial":
        kind, f, a, b = "beta", expit, prior[0] + s, prior[1] + n - s
        low, high = -32 / min(prior[0] + lo, 1), 32 / min(prior[1] + n - top, 1)
        v, dv = panels(_parameter_edges(low, high, lambda v: (sum(prior) + n * expit(v) * expit(-v)) ** -0.5), 8)
        log_theta = np.outer(a, log_expit(v)) + np.outer(b, log_expit(-v)) - betaln(a, b)[:, None]
    else:
        kind, f, zero = "gamma", np.exp, 0 * s
        if family == "poisson":
            a, b = prior[0] + s, prior[1] + n + zero
        else:
            a, b = prior[0] + n * known_shape + zero, prior[1] + s
        low, high = np.log(gammaincinv(a.min(), 1e-13) / b.max()), np.log(gammainccinv(a.max(), 1e-13) / b.min())
        v, dv = panels(_parameter_edges(low, high, lambda v: min(a.max(), a.min() + n * np.exp(v)) ** -0.5), 8)
        log_theta = log_gamma(np.exp(v), a[:, None], b[:, None]) + v
    to_theta = np.exp(log_theta) * dv  # (n_s, n_theta)
    mean, variance = sum_moments(family, f(v), n, known_shape, expit(-v))
    seen = to_theta.max(axis=0) > 1e-13
    to_theta, mean, variance = to_theta[:, seen], mean[seen], variance[seen]
    if not augmented:
        log_noise = {"laplace": laplace, "gaussian": gaussian}[noise](scale)
        log_s = log_normal(s, mean[:, None], variance[:, None]) + log_release(y, s[:, None], log_noise)
        log_total = log_normal_release(y, mean, variance, noise, scale, support)
        kernel = to_theta @ (np.exp(log_s - log_total[:, None]) * w)
    else:
        kernel, step = np.zeros((len(s), len(s))), 0.25
        grid = np.log(2 * scale**2) + np.arange(-26, 6.5, step)  # log σ²
        error = (y[0] - s)[:, None]
        # p(σ² | s) = (σ²)^(-1/2) exp(-(y - s)²/(2σ²) - σ²/(2b²) + |y - s|/b) / (b √(2π))
        log_mix = 0.5 * grid - 0.5 * error**2 * np.exp(-grid) - 0.5 * np.exp(grid) / scale**2 + np.abs(error) / scale
        mix = np.exp(log_mix) * step / (scale * np.sqrt(2 * np.pi))
        for k, sigma2 in enumerate(np.exp(grid)):
            precision = 1 / variance + 1 / sigma2
            centre = (mean / variance + y[0] / sigma2) / precision
            log_total = log_normal_release(y, mean, variance, "gaussian", np.sqrt(sigma2), support)
            log_inside = log_total - log_normal(y[0], mean, variance + sigma2)
            log_s = log_normal(s, centre[:, None], 1 / precision[:, None]) - log_inside[:, None]
            kernel += mix[:, [k]] * (to_theta @ (np.exp(log_s) * w))
    rows = kernel.sum(axis=1)
    kernel /= rows[:, None]
    p = np.linalg.solve(np.eye(len(s)) - kernel.T + 1.0, np.ones(len(s)))  # the fixed point p = p K with Σp = 1
    if np.abs(p @ kernel - p).sum() > 1e-9 or p.min() < -1e-9 or np.abs(p) @ np.abs(rows - 1) > 1e-6:
        raise ValueError("the grid of s or θ is too coarse")
    with np.errstate(divide="ignore"):
        mixture = Mixture(kind, s, np.log(np.maximum(p, 0)), a, b)
    return mixture, p[s > edges[-3]].sum() if top < hi else 0.0
