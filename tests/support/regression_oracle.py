"""Posteriors given the noisy moments of a regression: oracles for tests.

The model and the release are those of Ju, Awan, Gong & Rao (2022), section 4.  Two independent means:

- weighted draws from the prior (:func:`regression_importance`), for n <= 5 records;
- a slow twin of the paper's sampler (:func:`regression_twin`): every record in turn is proposed
  from the model and accepted with probability min(1, q(release | proposed) / q(release | current)), where the
  statistic is recomputed from all records, and the parameters are then drawn given the records.  ``incremental=True``
  adds the new contribution and takes off the old one instead, for long runs.
"""

from typing import NamedTuple

import numpy as np
from curator_oracle import gaussian, laplace, log_release
from numba import njit
from scipy import stats

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
def log_noise_at(release, statistic, scale, is_gaussian):
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
def copy_into(target, source):
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
        current = log_noise_at(release, statistic, scale, is_gaussian)
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
                copy_into(proposed, new)
                for k in range(n):
                    if k != i:
                        _contribution(x[k], y[k], lo, hi, old)
                        _add(proposed, old)
            value = log_noise_at(release, proposed, scale, is_gaussian)
            if np.log(rng.random()) < value - current:
                copy_into(x[i], x_new)
                y[i] = y_new
                current = value
                copy_into(statistic, proposed)
                accepted += 1
        # (intercept, coefficients) | records, σ²: precision I / coef_scale² + X'X / σ², X = (1, x)
        precision.fill(0.0)
        linear.fill(0.0)
        for i in range(n):
            copy_into(design[1:], x[i])
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
            copy_into(row[: p + 1], coefs)
            row[p + 1] = sigma2
            copy_into(row[p + 2 : 2 * p + 2], mean)
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
        x, y = (np.ascontiguousarray(a[0]) for a in draw_records(rng, start, n, p))  # one layout: compiled once
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
