"""Posteriors given the noisy moments of a regression, or the noisy tables of a naive Bayes model: oracles for tests.

The models and the release are those of Ju, Awan, Gong & Rao (2022), sections 4 and 5.  Three independent means:

- weighted draws from the prior (:func:`regression_importance`), for n <= 5 records;
- the enumeration of all data sets (:func:`naive_bayes_exact`), for tiny tables;
- a slow twin of the paper's sampler (:func:`regression_twin`, :func:`naive_bayes_twin`): every record in turn is
  proposed from the model and accepted with probability min(1, q(release | proposed) / q(release | current)), where the
  statistic is recomputed from all records, and the parameters are then drawn given the records.  ``incremental=True``
  adds the new contribution and takes off the old one instead, for long runs.

``python tests/support/regression_oracle.py`` writes the results of two long runs beside this file, see :func:`main`.
"""

import json
from itertools import combinations_with_replacement, product
from pathlib import Path
from typing import NamedTuple

import numpy as np
from arviz_stats.base import array_stats
from curator_oracle import Mixture, gaussian, laplace, log_release
from numba import njit
from scipy import stats
from scipy.special import gammaln

NOISE = {"laplace": laplace, "gaussian": gaussian}
PROBABILITIES = (0.05, 0.25, 0.5, 0.75, 0.95)


# --- linear regression ------------------------------------------------------------------------------------------------


class Residual(NamedTuple):
    """σ²: ``value`` where it is known, otherwise InvGamma(shape, scale)."""

    value: float | None = None
    shape: float = 0.0
    scale: float = 0.0


class Predictors(NamedTuple):
    """x ~ N(m, C).  Without ``mean_covariance``, m = ``mean``, else m ~ N(mean, mean_covariance).

    Without ``df``, C = ``covariance``, else C ~ InvWishart(df, covariance), independent of m, with density
    ∝ |C|^(-(df + p + 1)/2) exp(-tr(covariance C⁻¹)/2).
    """

    mean: tuple
    covariance: tuple
    mean_covariance: tuple | None = None
    df: float | None = None


def column_names(p):
    """What the columns of draws of a regression are."""
    upper = [f"covariance_{i}{j}" for i in range(p) for j in range(i, p)]
    return ["intercept", *(f"coef_{j}" for j in range(p)), "sigma2", *(f"mean_{j}" for j in range(p)), *upper]


def regression_moments(x, y, x_bounds, y_bounds):
    """The statistic: unique entries of (X'Y, Y'Y, X'X), without n, of clamped records mapped to [-1, 1].

    Σy, Σx_1 y, ..., Σx_p y, Σy², Σx_1, ..., Σx_p, Σx_1², Σx_1 x_2, ..., Σx_p²: with X = (1, x), the upper triangle of
    X'X row by row.

    Parameters
    ----------
    x : ndarray of shape (..., n, p)
    y : ndarray of shape (..., n)
    x_bounds : array-like of shape (2,) or (p, 2)
    y_bounds : (lo, hi)

    Returns
    -------
    ndarray of shape (..., (p² + 5p + 4) / 2)
    """
    p = x.shape[-1]
    lo, hi = np.broadcast_to(np.asarray(x_bounds, float), (p, 2)).T
    x = 2 * (np.clip(x, lo, hi) - lo) / (hi - lo) - 1
    lo, hi = y_bounds
    y = 2 * (np.clip(y, lo, hi) - lo) / (hi - lo) - 1
    columns = [y, *(x[..., j] * y for j in range(p)), y**2, *(x[..., j] for j in range(p))]
    columns += [x[..., i] * x[..., j] for i in range(p) for j in range(i, p)]
    return np.stack(columns, axis=-1).sum(axis=-2)


def draw_prior(rng, size, coef_scale, residual, predictors):
    """Draws of the parameters from the prior, shape (size, n_columns)."""
    p = len(predictors.mean)
    coefs = coef_scale * rng.standard_normal((size, p + 1))
    if residual.value is None:
        sigma2 = residual.scale / rng.standard_gamma(residual.shape, size)
    else:
        sigma2 = np.full(size, float(residual.value))
    if predictors.mean_covariance is None:
        mean = np.broadcast_to(np.asarray(predictors.mean, float), (size, p))
    else:
        mean = rng.multivariate_normal(predictors.mean, predictors.mean_covariance, size)
    if predictors.df is None:
        covariance = np.broadcast_to(np.asarray(predictors.covariance, float), (size, p, p))
    else:
        covariance = stats.invwishart(predictors.df, predictors.covariance).rvs(size, rng).reshape(size, p, p)
    return np.column_stack([coefs, sigma2, mean, covariance[(slice(None), *np.triu_indices(p))]])


def draw_records(rng, theta, n, p):
    """Records of the model for every row of theta: x (size, n, p) and y (size, n)."""
    size, (i, j) = len(theta), np.triu_indices(p)
    covariance = np.empty((size, p, p))
    covariance[:, i, j] = covariance[:, j, i] = theta[:, 2 * p + 2 :]
    root = np.linalg.cholesky(covariance)
    x = theta[:, None, p + 2 : 2 * p + 2] + np.einsum("sij,snj->sni", root, rng.standard_normal((size, n, p)))
    noise = np.sqrt(theta[:, p + 1])[:, None] * rng.standard_normal((size, n))
    return x, theta[:, :1] + np.einsum("snj,sj->sn", x, theta[:, 1 : p + 1]) + noise


class Importance(NamedTuple):
    """Means and standard deviations of the columns with Monte Carlo standard errors, and what the weights are worth."""

    mean: np.ndarray
    mean_error: np.ndarray
    sd: np.ndarray
    sd_error: np.ndarray
    ess: float
    log_evidence: float


def weighted_summary(theta, log_weight):
    """:class:`Importance` of draws (size, n_columns) with log weights (size,); errors by the delta method."""
    top = log_weight.max()
    weight = np.exp(log_weight - top)
    log_evidence = top + np.log(weight.mean())
    weight /= weight.sum()
    mean = weight @ theta
    square = (theta - mean) ** 2
    variance = weight @ square
    sd = np.sqrt(variance)
    sd_error = np.sqrt(weight**2 @ (square - variance) ** 2) / np.maximum(2 * sd, 1e-300)
    return Importance(mean, np.sqrt(weight**2 @ square), sd, sd_error, 1 / np.sum(weight**2), log_evidence)


def regression_importance(release, n, x_bounds, y_bounds, noise, scale, coef_scale, residual, predictors, rng,
                          size=2_000_000, block=100_000, proposal=None):  # fmt: skip
    """Posterior by draws (θ, records) from the prior, weighted with q(release | statistic): exact as ``size`` grows.

    Parameters
    ----------
    release : array-like of shape (n_statistics,) or (n_releases, n_statistics)
        See :func:`regression_moments`.
    n : int
        Number of records; up to about 5, or the weights degenerate: look at ``ess``.
    noise, scale : "laplace" and b, or "gaussian" and the standard deviation, for each entry
    coef_scale : float
        Intercept and coefficients ~ N(0, coef_scale² I), on the data's original scale.
    residual : Residual
    predictors : Predictors
    rng : numpy.random.Generator
    proposal : None or (mean, covariance)
        The law N(mean, covariance) to draw intercept and coefficients from instead of the prior: with a good one, and
        little else unknown, n may be 100.

    Returns
    -------
    Importance
        Of the columns :func:`column_names`.
    """
    thetas, log_weights = [], []
    for _ in range(size // block):
        theta, p = draw_prior(rng, block, coef_scale, residual, predictors), len(predictors.mean)
        log_weight = 0.0
        if proposal is not None:
            law = stats.multivariate_normal(*proposal)
            coefs = law.rvs(block, rng)
            log_weight = stats.norm.logpdf(coefs, 0, coef_scale).sum(axis=1) - law.logpdf(coefs)
            theta[:, : p + 1] = coefs
        statistic = regression_moments(*draw_records(rng, theta, n, p), x_bounds, y_bounds)
        thetas.append(theta)
        log_weights.append(log_weight + log_release(release, statistic, NOISE[noise](scale)))
    return weighted_summary(np.concatenate(thetas), np.concatenate(log_weights))


@njit
def _contribution(x, y, lo, hi, out):
    """Contribution of one record: x (p,), y; lo and hi (p + 1,), the last for y; out (n_statistics,)."""
    p = len(x)
    u = np.empty(p + 1)
    for j in range(p + 1):
        value = y if j == p else x[j]
        u[j] = 2.0 * (min(max(value, lo[j]), hi[j]) - lo[j]) / (hi[j] - lo[j]) - 1.0
    out[0] = u[p]
    for j in range(p):
        out[1 + j] = u[j] * u[p]
        out[p + 2 + j] = u[j]
    out[p + 1] = u[p] * u[p]
    at = 2 * p + 2
    for i in range(p):
        for j in range(i, p):
            out[at] = u[i] * u[j]
            at += 1


@njit
def _log_noise(release, statistic, scale, is_gaussian):
    """Log q(release | statistic) up to a constant; release (n_releases, n_statistics)."""
    total = 0.0
    for r in range(release.shape[0]):
        for j in range(release.shape[1]):
            e = (release[r, j] - statistic[j]) / scale
            total -= 0.5 * e * e if is_gaussian else abs(e)
    return total


@njit
def _root(a):
    """Lower triangular L with L L' = a."""
    d = a.shape[0]
    root = np.zeros((d, d))
    for i in range(d):
        for j in range(i + 1):
            total = a[i, j]
            for k in range(j):
                total -= root[i, k] * root[j, k]
            root[i, j] = np.sqrt(total) if i == j else total / root[j, j]
    return root


@njit
def _forward(root, b):
    """The solution of L x = b."""
    x = b.copy()
    for i in range(len(b)):
        for k in range(i):
            x[i] -= root[i, k] * x[k]
        x[i] /= root[i, i]
    return x


@njit
def _backward(root, b):
    """The solution of L' x = b."""
    x = b.copy()
    for i in range(len(b) - 1, -1, -1):
        for k in range(i + 1, len(b)):
            x[i] -= root[k, i] * x[k]
        x[i] /= root[i, i]
    return x


@njit
def _inverse(a):
    """The inverse of a positive definite matrix."""
    d = a.shape[0]
    root, result = _root(a), np.zeros((d, d))
    for i in range(d):
        unit = np.zeros(d)
        unit[i] = 1.0
        column = _backward(root, _forward(root, unit))
        for j in range(d):
            result[i, j] = column[j]
    return result


@njit
def _add(target, source):
    """target += source, a loop: quick to compile."""
    for j in range(len(target)):
        target[j] += source[j]


@njit
def _copy(target, source):
    for j in range(len(target)):
        target[j] = source[j]


@njit
def _draw_normal(rng, precision, linear):
    """A draw of N(precision⁻¹ linear, precision⁻¹): L'x = L⁻¹ linear + e."""
    root = _root(precision)
    x = _forward(root, linear)
    for j in range(len(x)):
        x[j] += rng.standard_normal()
    return _backward(root, x)


@njit
def _draw_inverse_wishart(rng, df, scale):
    """A draw of InvWishart(df, scale): the inverse of B B' with B = L A, L L' = scale⁻¹ and Bartlett's A."""
    d = scale.shape[0]
    root, a = _root(_inverse(scale)), np.zeros((d, d))
    for i in range(d):
        a[i, i] = np.sqrt(2.0 * rng.standard_gamma(0.5 * (df - i)))
        for j in range(i):
            a[i, j] = rng.standard_normal()
    wishart = np.zeros((d, d))
    for j in range(d):  # column j of B
        b = np.zeros(d)
        for i in range(j, d):
            for k in range(j, i + 1):
                b[i] += root[i, k] * a[k, j]
        for i in range(d):
            for k in range(d):
                wishart[i, k] += b[i] * b[k]
    return _inverse(wishart)


@njit
def _regression_chain(rng, release, scale, is_gaussian, lo, hi, x, y, coefs, sigma2, mean, covariance, coef_scale,
                      sigma2_prior, prior_mean, mean_covariance, df, prior_covariance, incremental, draws,
                      thin):  # fmt: skip
    """Fill draws (n_draws, n_columns) from the given start; returns the acceptance rate.

    sigma2_prior (shape, scale) with shape 0 where σ² is known; mean_covariance[0, 0] = 0 where m is known; df 0 where C
    is known.
    """
    n, p = x.shape
    n_statistics = release.shape[1]
    old, new, proposed = np.empty(n_statistics), np.empty(n_statistics), np.empty(n_statistics)
    statistic, e, x_new, design = np.zeros(n_statistics), np.empty(p), np.empty(p), np.ones(p + 1)
    precision, linear, accepted = np.empty((p + 1, p + 1)), np.empty(p + 1), 0
    for t in range(draws.shape[0] * thin):
        root, sd = _root(covariance), np.sqrt(sigma2)
        statistic.fill(0.0)
        for i in range(n):
            _contribution(x[i], y[i], lo, hi, old)
            _add(statistic, old)
        current = _log_noise(release, statistic, scale, is_gaussian)
        for i in range(n):
            for j in range(p):
                e[j] = rng.standard_normal()
            y_new = coefs[0]
            for j in range(p):
                x_new[j] = mean[j]
                for k in range(j + 1):
                    x_new[j] += root[j, k] * e[k]
                y_new += coefs[1 + j] * x_new[j]
            y_new += sd * rng.standard_normal()
            _contribution(x_new, y_new, lo, hi, new)
            if incremental:
                _contribution(x[i], y[i], lo, hi, old)
                for j in range(n_statistics):
                    proposed[j] = statistic[j] + new[j] - old[j]
            else:
                _copy(proposed, new)
                for k in range(n):
                    if k != i:
                        _contribution(x[k], y[k], lo, hi, old)
                        _add(proposed, old)
            value = _log_noise(release, proposed, scale, is_gaussian)
            if np.log(rng.random()) < value - current:
                _copy(x[i], x_new)
                y[i] = y_new
                current = value
                _copy(statistic, proposed)
                accepted += 1
        # (intercept, coefficients) | records, σ²: precision I / coef_scale² + X'X / σ², X = (1, x)
        precision.fill(0.0)
        linear.fill(0.0)
        for i in range(n):
            _copy(design[1:], x[i])
            for j in range(p + 1):
                linear[j] += design[j] * y[i] / sigma2
                for k in range(p + 1):
                    precision[j, k] += design[j] * design[k] / sigma2
        for j in range(p + 1):
            precision[j, j] += 1.0 / coef_scale**2
        coefs = _draw_normal(rng, precision, linear)
        if sigma2_prior[0] > 0:  # InvGamma(shape + n/2, scale + Σ residual² / 2)
            half = sigma2_prior[1]
            for i in range(n):
                residual = y[i] - coefs[0]
                for j in range(p):
                    residual -= coefs[1 + j] * x[i, j]
                half += 0.5 * residual**2
            sigma2 = half / rng.standard_gamma(sigma2_prior[0] + 0.5 * n)
        if mean_covariance[0, 0] > 0:  # precision S⁻¹ + n C⁻¹, linear S⁻¹ m0 + C⁻¹ Σx
            inverse, before, pull = _inverse(covariance), _inverse(mean_covariance), np.zeros(p)
            total = np.empty((p, p))
            for j in range(p):
                for k in range(p):
                    total[j, k] = before[j, k] + n * inverse[j, k]
                    pull[j] += before[j, k] * prior_mean[k]
                    for i in range(n):
                        pull[j] += inverse[j, k] * x[i, k]
            mean = _draw_normal(rng, total, pull)
        if df > 0:
            scatter = prior_covariance.copy()
            for i in range(n):
                for j in range(p):
                    for k in range(p):
                        scatter[j, k] += (x[i, j] - mean[j]) * (x[i, k] - mean[k])
            covariance = _draw_inverse_wishart(rng, df + n, scatter)
        if (t + 1) % thin == 0:
            row = draws[t // thin]
            _copy(row[: p + 1], coefs)
            row[p + 1] = sigma2
            _copy(row[p + 2 : 2 * p + 2], mean)
            at = 2 * p + 2
            for i in range(p):
                for j in range(i, p):
                    row[at] = covariance[i, j]
                    at += 1
    return accepted / (draws.shape[0] * thin * n)


def regression_twin(release, n, x_bounds, y_bounds, noise, scale, coef_scale, residual, predictors, rng, n_draws, *,
                    n_chains=1, n_warmup=1000, thin=1, incremental=False):  # fmt: skip
    """Draws of Ju et al.'s sampler, from a start drawn from the prior.

    Parameters
    ----------
    release, n, x_bounds, y_bounds, noise, scale, coef_scale, residual, predictors, rng
        See :func:`regression_importance`.
    n_draws, n_warmup : int
        Draws kept in each chain, and sweeps dropped before; a draw is kept every ``thin`` sweeps.
    incremental : bool
        False: the statistic is summed over all records for every proposal.

    Returns
    -------
    draws : ndarray of shape (n_chains, n_draws, n_columns)
        See :func:`column_names`.
    acceptance : ndarray of shape (n_chains,)
    """
    p = len(predictors.mean)
    release = np.asarray(release, float).reshape(-1, (p * p + 5 * p + 4) // 2)
    bounds = np.vstack([np.broadcast_to(np.asarray(x_bounds, float), (p, 2)), y_bounds]).astype(float)
    lo, hi = bounds[:, 0].copy(), bounds[:, 1].copy()
    prior_mean, prior_covariance = np.asarray(predictors.mean, float), np.asarray(predictors.covariance, float)
    spread = predictors.mean_covariance
    spread = np.zeros((p, p)) if spread is None else np.asarray(spread, float)
    shape = 0.0 if residual.value is not None else float(residual.shape)
    draws, acceptance = np.empty((n_chains, n_draws, len(column_names(p)))), np.empty(n_chains)
    for chain in range(n_chains):
        start = draw_prior(rng, 1, coef_scale, residual, predictors)
        x, y = (a[0] for a in draw_records(rng, start, n, p))
        covariance = np.empty((p, p))
        covariance[np.triu_indices(p)] = covariance.T[np.triu_indices(p)] = start[0, 2 * p + 2 :]
        warmup = np.empty((1, draws.shape[2]))
        state = [start[0, : p + 1].copy(), start[0, p + 1], start[0, p + 2 : 2 * p + 2].copy(), covariance]
        prior = (float(coef_scale), np.array([shape, residual.scale]), prior_mean, spread, float(predictors.df or 0),
                 prior_covariance, incremental)  # fmt: skip
        head = (rng, release, float(scale), noise == "gaussian", lo, hi, x, y)
        _regression_chain(*head, *state, *prior, warmup, n_warmup)
        row = warmup[0]
        covariance[np.triu_indices(p)] = covariance.T[np.triu_indices(p)] = row[2 * p + 2 :]
        state = [row[: p + 1].copy(), row[p + 1], row[p + 2 : 2 * p + 2].copy(), covariance]
        acceptance[chain] = _regression_chain(*head, *state, *prior, draws[chain], thin)
    return draws, acceptance


# --- naive Bayes ------------------------------------------------------------------------------------------------------


def tables(classes, features, n_classes, n_values):
    """The statistic: for each feature the counts (class, value), class-major, one feature after the other.

    Parameters
    ----------
    classes : integer ndarray of shape (n,)
    features : integer ndarray of shape (n, n_features)
    n_values : tuple of int
        Number of values of each feature.

    Returns
    -------
    ndarray of shape (n_classes * sum(n_values),)
    """
    counts = [np.bincount(classes * v + column, minlength=n_classes * v) for column, v in zip(features.T, n_values)]
    return np.concatenate(counts).astype(float)


def naive_bayes_names(n_classes, n_values):
    """What the columns of a naive Bayes posterior are: P(class), then P(value | class) in the order of the release."""
    names = [f"class_{c}" for c in range(n_classes)]
    return names + [f"feature_{k}_{c}{v}" for k, m in enumerate(n_values) for c in range(n_classes) for v in range(m)]


def _dirichlet_counts(release_like, n_classes, n_values):
    """Counts of classes, repeated feature tables, and each column's group total: from tables (m, n_cells)."""
    first = release_like[:, : n_classes * n_values[0]].reshape(-1, n_classes, n_values[0])
    by_class = first.sum(axis=2)
    totals = [np.repeat(by_class.sum(axis=1, keepdims=True), n_classes, axis=1)]
    totals += [np.repeat(by_class, v, axis=1) for v in n_values]
    return np.hstack([by_class, release_like]), np.hstack(totals)


def naive_bayes_exact(release, n, n_classes, n_values, alpha, log_noise):
    """Posterior of P(class) ~ Dirichlet(alpha) and P(value | class) ~ Dirichlet(alpha): all data sets are enumerated.

    A data set is a multiset of n of the n_classes * prod(n_values) types of record.  With the parameters integrated out
    its probability is n! / Π_type m_type! times a Dirichlet-multinomial constant for the classes and one for every
    class of every feature; given it, all parameters are Dirichlet.

    Parameters
    ----------
    release : array-like of shape (n_cells,) or (n_releases, n_cells)
        See :func:`tables`.
    log_noise : function of the error, elementwise

    Returns
    -------
    Mixture
        ``mean``, ``sd`` and ``cdf(x, k)`` of the columns :func:`naive_bayes_names`; ``support`` holds the tables.
    """
    types = np.array(list(product(range(n_classes), *(range(v) for v in n_values))))
    weights = np.array(list(combinations_with_replacement(range(len(types)), n)))
    multiplicity = np.stack([np.bincount(row, minlength=len(types)) for row in weights])
    cells = np.stack([tables(types[row, 0], types[row, 1:], n_classes, n_values) for row in weights])
    counts, totals = _dirichlet_counts(cells, n_classes, n_values)
    sizes = np.concatenate([np.full(n_classes, n_classes), *(np.full(n_classes * v, v) for v in n_values)])
    log_p = gammaln(n + 1) - gammaln(multiplicity + 1).sum(axis=1)
    log_p += (gammaln(alpha + counts) - gammaln(alpha)).sum(axis=1)
    log_p += ((gammaln(alpha * sizes) - gammaln(alpha * sizes + totals)) / sizes).sum(axis=1)  # once a group
    return Mixture("beta", cells, log_p + log_release(release, cells, log_noise), alpha + counts,
                   alpha * (sizes - 1) + totals - counts)  # fmt: skip


@njit
def _draw_category(rng, p):
    u, last = rng.random(), len(p) - 1
    for j in range(last):
        u -= p[j]
        if u < 0:
            return j
    return last


@njit
def _count(classes, features, n_classes, n_values, skip, out):
    """The tables of all records but ``skip``."""
    out.fill(0.0)
    for i in range(len(classes)):
        if i != skip:
            at = 0
            for k in range(len(n_values)):
                out[at + classes[i] * n_values[k] + features[i, k]] += 1.0
                at += n_classes * n_values[k]


@njit
def _draw_dirichlet(rng, alpha, counts, out):
    total = 0.0
    for j in range(len(out)):
        out[j] = rng.standard_gamma(alpha + counts[j])
        total += out[j]
    for j in range(len(out)):
        out[j] /= total


@njit
def _naive_bayes_chain(rng, release, scale, is_gaussian, classes, features, theta, alpha, n_classes, n_values,
                       incremental, draws, thin):  # fmt: skip
    """Fill draws (n_draws, n_columns) from the given start; returns the acceptance rate."""
    n, n_features = features.shape
    statistic, proposed = np.empty(release.shape[1]), np.empty(release.shape[1])
    by_class, drawn, accepted = np.empty(n_classes), np.empty(n_features, np.int64), 0
    for t in range(draws.shape[0] * thin):
        _count(classes, features, n_classes, n_values, -1, statistic)
        current = _log_noise(release, statistic, scale, is_gaussian)
        for i in range(n):
            c = _draw_category(rng, theta[:n_classes])
            at = n_classes
            for k in range(n_features):
                begin = at + c * n_values[k]
                drawn[k] = _draw_category(rng, theta[begin : begin + n_values[k]])
                at += n_classes * n_values[k]
            if incremental:
                _copy(proposed, statistic)
                at = 0
                for k in range(n_features):
                    proposed[at + classes[i] * n_values[k] + features[i, k]] -= 1.0
                    at += n_classes * n_values[k]
            else:
                _count(classes, features, n_classes, n_values, i, proposed)
            at = 0
            for k in range(n_features):
                proposed[at + c * n_values[k] + drawn[k]] += 1.0
                at += n_classes * n_values[k]
            value = _log_noise(release, proposed, scale, is_gaussian)
            if np.log(rng.random()) < value - current:
                classes[i] = c
                _copy(features[i], drawn)
                _copy(statistic, proposed)
                current = value
                accepted += 1
        for c in range(n_classes):
            by_class[c] = 0.0
        for i in range(n):
            by_class[classes[i]] += 1.0
        _draw_dirichlet(rng, alpha, by_class, theta[:n_classes])
        at = 0
        for k in range(n_features):
            for _ in range(n_classes):
                stop = at + n_values[k]
                _draw_dirichlet(rng, alpha, statistic[at:stop], theta[n_classes + at : n_classes + stop])
                at = stop
        if (t + 1) % thin == 0:
            _copy(draws[t // thin], theta)
    return accepted / (draws.shape[0] * thin * n)


def draw_naive_bayes(rng, n_classes, n_values, alpha, n):
    """Parameters from the prior, in the columns of :func:`naive_bayes_names`, and n records: classes and features."""
    parts = [rng.dirichlet(np.full(n_classes, alpha))]
    parts += [rng.dirichlet(np.full(v, alpha), n_classes) for v in n_values]
    classes = rng.choice(n_classes, n, p=parts[0])
    features = np.array([[rng.choice(v, p=part[c]) for v, part in zip(n_values, parts[1:])] for c in classes])
    return np.concatenate([part.ravel() for part in parts]), classes, features


def naive_bayes_twin(release, n, n_classes, n_values, alpha, noise, scale, rng, n_draws, *, n_chains=1, n_warmup=1000,
                     thin=1, incremental=False):  # fmt: skip
    """Draws of Ju et al.'s sampler: class and features of a record are proposed together, from the model.

    Parameters
    ----------
    release : array-like of shape (n_cells,) or (n_releases, n_cells)
    noise, scale : "laplace" (or the discrete one, whose ratios are the same) and b, or "gaussian"
    n_draws, n_chains, n_warmup, thin, incremental : as in :func:`regression_twin`

    Returns
    -------
    draws : ndarray of shape (n_chains, n_draws, n_columns)
        See :func:`naive_bayes_names`.
    acceptance : ndarray of shape (n_chains,)
    """
    release = np.asarray(release, float).reshape(-1, n_classes * sum(n_values))
    draws = np.empty((n_chains, n_draws, n_classes + release.shape[1]))
    acceptance = np.empty(n_chains)
    for chain in range(n_chains):
        theta, classes, features = draw_naive_bayes(rng, n_classes, n_values, alpha, n)
        head = (rng, release, float(scale), noise == "gaussian", classes, features, theta, float(alpha), n_classes,
                np.array(n_values), incremental)  # fmt: skip
        _naive_bayes_chain(*head, np.empty((1, draws.shape[2])), n_warmup)
        acceptance[chain] = _naive_bayes_chain(*head, draws[chain], thin)
    return draws, acceptance


# --- two long runs ----------------------------------------------------------------------------------------------------

REGRESSION = {"n": 100, "x_bounds": (-10.0, 10.0), "y_bounds": (-10.0, 10.0), "noise": "laplace", "scale": 1.3,
              "coef_scale": 2.0, "residual": Residual(2.0),
              "predictors": Predictors((0.9001, -1.1733), ((1.0, 0.0), (0.0, 1.0)))}  # fmt: skip
REGRESSION_TRUTH = (-1.79, -2.89, -0.66)
NAIVE_BAYES = {"n": 100, "n_classes": 5, "n_values": (3,) * 5, "alpha": 2.0, "noise": "laplace", "scale": 1.0}
HERE = Path(__file__).parent


def regression_release(seed=20220):
    """One data set of the paper's setting (n = 100, p = 2, epsilon = 10, scale 13/epsilon), and its release."""
    rng = np.random.default_rng(seed)
    truth = np.array([[*REGRESSION_TRUTH, 2.0, *REGRESSION["predictors"].mean, 1.0, 0.0, 1.0]])
    x, y = draw_records(rng, truth, REGRESSION["n"], 2)
    s = regression_moments(x[0], y[0], REGRESSION["x_bounds"], REGRESSION["y_bounds"])
    return s + rng.laplace(0, REGRESSION["scale"], len(s))


def naive_bayes_release(seed=20221):
    """Truth and release of the paper's setting (n = 100, 5 classes, 5 features of 3 values, epsilon = 10, scale 1)."""
    rng = np.random.default_rng(seed)
    setting = [NAIVE_BAYES[key] for key in ("n_classes", "n_values")]
    theta, classes, features = draw_naive_bayes(rng, *setting, NAIVE_BAYES["alpha"], NAIVE_BAYES["n"])
    s = tables(classes, features, *setting)
    return theta, s + rng.laplace(0, NAIVE_BAYES["scale"], len(s))


def summarise(draws, names):
    """Means, standard deviations and quantiles of draws (n_chains, n_draws, n_columns), with their standard errors."""
    result = {"names": list(names), "probabilities": list(PROBABILITIES)}
    axes = {"chain_axis": 0, "draw_axis": 1}
    result["mean"] = draws.mean(axis=(0, 1))
    result["mean_error"] = array_stats.mcse(draws, method="mean", **axes)
    result["sd"] = draws.std(axis=(0, 1))
    result["sd_error"] = array_stats.mcse(draws, method="sd", **axes)
    result["quantiles"] = np.quantile(draws, PROBABILITIES, axis=(0, 1)).T
    errors = [array_stats.mcse(draws, method="quantile", prob=q, **axes) for q in PROBABILITIES]
    result["quantile_errors"] = np.stack(errors, axis=1)
    result["ess"] = array_stats.ess(draws, method="mean", **axes)
    result["r_hat"] = array_stats.rhat(draws, **axes)
    return {key: _rounded(value) for key, value in result.items()}


def _rounded(value):
    if isinstance(value, np.ndarray):
        return [_rounded(item) for item in value]
    return float(f"{value:.7g}") if isinstance(value, float) else value


def run_regression(n_draws=50_000, thin=50, n_chains=4, seed=1):
    """The long run of :func:`regression_twin` at the paper's setting; what data_regression_twin.json holds."""
    release, rng = regression_release(), np.random.default_rng(seed)
    draws, acceptance = regression_twin(release, **REGRESSION, rng=rng, n_draws=n_draws, n_chains=n_chains,
                                        n_warmup=20_000, thin=thin, incremental=True)  # fmt: skip
    setting = REGRESSION | {"residual": REGRESSION["residual"]._asdict(),
                            "predictors": REGRESSION["predictors"]._asdict()}  # fmt: skip
    head = {"setting": setting, "truth": REGRESSION_TRUTH, "release": release.tolist(), "n_chains": n_chains,
            "sweeps": n_chains * n_draws * thin, "thin": thin, "acceptance_rate": float(acceptance.mean())}  # fmt: skip
    return head | summarise(draws[:, :, :3], column_names(2)[:3])


def run_naive_bayes(n_draws=50_000, thin=20, n_chains=4, seed=2):
    """The long run of :func:`naive_bayes_twin` at the paper's setting; what data_naive_bayes_twin.json holds."""
    (truth, release), rng = naive_bayes_release(), np.random.default_rng(seed)
    draws, acceptance = naive_bayes_twin(release, **NAIVE_BAYES, rng=rng, n_draws=n_draws, n_chains=n_chains,
                                         n_warmup=20_000, thin=thin, incremental=True)  # fmt: skip
    head = {"setting": NAIVE_BAYES, "truth": _rounded(truth), "release": release.tolist(), "n_chains": n_chains,
            "sweeps": n_chains * n_draws * thin, "thin": thin, "acceptance_rate": float(acceptance.mean())}  # fmt: skip
    names = naive_bayes_names(NAIVE_BAYES["n_classes"], NAIVE_BAYES["n_values"])
    return head | summarise(draws, names)


def main():
    """Write data_regression_twin.json and data_naive_bayes_twin.json: some minutes."""
    for name, run in (("regression", run_regression), ("naive_bayes", run_naive_bayes)):
        (HERE / f"data_{name}_twin.json").write_text(json.dumps(run(), indent=1) + "\n")


if __name__ == "__main__":
    main()
