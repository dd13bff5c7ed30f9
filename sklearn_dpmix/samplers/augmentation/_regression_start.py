"""Where a chain of a linear regression given the design starts, and the metric that it starts with."""

from math import sqrt

import numpy as np
from scipy.linalg import solve_triangular

from ._regression_given_design import N_INTS, MomentsState
from ._regression_paths import LOG_STEP, N_FLOATS

MARGIN = 0.02  # of the way to the centre of the possible moments


def start_moments(model, S, n_records, variance, count_variance, rng):
    """Start a chain near what the release says: a draw from the linearised posterior, or nearer where that is nothing.

    Parameters
    ----------
    model : MomentRegression
    S : ndarray of shape (n_releases, n_statistics)
    n_records : int
        Or what is likely of it.
    variance, count_variance : float
        Of the noise on each moment, and on the number of records.
    """
    value, mean = model._lower(), S.mean(axis=0)
    d, n = len(model.prior.mean), max(n_records, len(model.prior.mean) + 1)
    centre = first_point(model, mean / n, n, sqrt(variance / len(S)) / n)
    work, moments = np.zeros((2 * d + 3, d)), np.zeros(S.shape[1])
    size = len(centre)
    steps = np.full(size, 1e-5)
    if not model.n_records:
        steps[-1] = 1.0
    jacobian = np.zeros((len(moments), size))
    for i in range(size):
        ends = []
        for sign in (1.0, -1.0):
            moved = centre.copy()
            moved[i] += sign * steps[i]
            value.set_moments(moved, moments, work)
            ends.append(moments.copy())
        jacobian[:, i] = (ends[0] - ends[1]) / (2.0 * steps[i])
    own = np.full(size, 3.0)
    own[model.n_design :] = 1.0
    own[model.n_design + 2 * d] = 0.5 * (n - d)
    if not model.n_records:
        own[-1] = 1.0 / (count_variance + 0.1)
    metric = root_of_covariance(np.vstack([jacobian / sqrt(variance / len(S)), np.diag(np.sqrt(own))]))
    point, spread = centre, 1.0
    for _ in range(30):
        trial = centre + spread * metric @ rng.standard_normal(size)
        if value.set_moments(trial, moments, work):
            point = trial
            break
        spread *= 0.7
    floats = np.zeros(N_FLOATS)
    floats[LOG_STEP] = -1.0
    return MomentsState(
        point=np.array([point, point]),
        moments=np.zeros((2, S.shape[1])),
        vectors=np.zeros((4, max(size, S.shape[1]))),
        metric=metric,
        products=np.zeros((size, size)),
        held=metric[: model.n_design, : model.n_design] * 2.38 / np.sqrt(model.n_design),
        step=metric[: model.n_design, : model.n_design] * 2.38 / np.sqrt(model.n_design),
        work=work,
        ints=np.zeros(N_INTS, dtype=np.int64),
        floats=floats,
    )


def root_of_covariance(A):
    """The lower triangular root of (AᵀA)⁻¹, without AᵀA, in which little noise leaves no digit of the prior."""
    triangle = np.linalg.qr(A[:, ::-1], mode="r")[::-1, ::-1]
    return solve_triangular(triangle * np.sign(np.diag(triangle))[:, None], np.eye(len(triangle)), lower=True)


def first_point(model, mean, n, noise):
    """A possible point near means of products with so much noise: they are drawn to the centre until they are possible.

    No further than the noise is large: of binary predictors the posterior is within that of an edge, where a chain that
    starts far inside never arrives.
    """
    value, prior = model._lower(), model.prior
    d, at = len(prior.mean), model.n_design
    p = d - 1
    upper, lower = np.triu_indices(p), np.tril_indices(d)
    even = np.diag([1.0, *[1.0 / 3.0] * p])  # of a uniform distribution
    noisy = np.eye(d)
    noisy[0, 1:], noisy[1:, 1:][upper] = np.clip(mean[d + 1 : d + 1 + p], -1.0, 1.0), np.clip(mean[2 * d :], -1.0, 1.0)
    noisy = np.triu(noisy) + np.triu(noisy, 1).T
    point = np.zeros(model.n_coordinates)
    if not model.n_records:
        point[-1] = n
    work, moments = np.zeros((2 * d + 3, d)), np.zeros(len(mean))
    for shrink in [0.0, *np.geomspace(min(1e-3, noise), 1.0, 60)]:
        mixed = (1.0 - shrink) * noisy + shrink * even
        if np.linalg.eigvalsh(mixed)[0] > 1e-13:
            point[:at] = np.linalg.cholesky(mixed)[lower][1:]
            if value.set_moments(point, moments, work):
                break
    shrink = shrink + min(MARGIN, noise) * (1.0 - shrink)
    root = np.linalg.cholesky((1.0 - shrink) * noisy + shrink * even)
    point[:at] = root[lower][1:]
    coefs = np.linalg.solve(root @ root.T + 1e-3 * np.eye(d), mean[:d])
    whitened = np.clip(np.linalg.solve(prior.root, coefs - prior.mean), -2.0, 2.0)
    score = root.T @ (prior.mean + prior.root @ whitened)
    tau = prior.sigma or sqrt(max(mean[d] - score @ score, 1e-3))
    point[at : at + d] = whitened
    point[at + 2 * d] = np.log(n - d)
    if prior.sigma is None:
        point[at + 2 * d + 1] = np.log(tau)
    return point
