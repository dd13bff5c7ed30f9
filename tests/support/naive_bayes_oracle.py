"""Posteriors given the noisy tables of a naive Bayes model (Ju, Awan, Gong & Rao 2022, section 5): oracles for tests.

The enumeration of all data sets, for tiny tables; and a slow twin of the paper's sampler, as in ``regression_oracle``.
"""

from itertools import combinations_with_replacement, product

import numpy as np
from curator_oracle import Mixture, log_release
from numba import njit
from regression_oracle import copy_into, log_noise_at
from scipy.special import gammaln


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
        current = log_noise_at(release, statistic, scale, is_gaussian)
        for i in range(n):
            c = _draw_category(rng, theta[:n_classes])
            at = n_classes
            for k in range(n_features):
                begin = at + c * n_values[k]
                drawn[k] = _draw_category(rng, theta[begin : begin + n_values[k]])
                at += n_classes * n_values[k]
            if incremental:
                copy_into(proposed, statistic)
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
            value = log_noise_at(release, proposed, scale, is_gaussian)
            if np.log(rng.random()) < value - current:
                classes[i] = c
                copy_into(features[i], drawn)
                copy_into(statistic, proposed)
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
            copy_into(draws[t // thin], theta)
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
