"""Releases one by one under each draw: their log density, for LOO, and replicates, for posterior predictive checks."""

import numpy as np

from .cluster import atoms_of_releases, mean_density, with_cache
from .mixture import in_chunks, mixture_sample

DRAWS = 64  # of a block, on which threads work


def mixture_log_likelihood(draws, channel, kernel, Z, chosen, n_jobs=None, noised=None, log_outside=None):
    """log g(z_i | P_t) = log Σ_k w_k g(z_i | θ_k) for the mixtures P_t of the draws ``chosen``: (len(chosen), n).

    All atoms of a draw count, those without records included; the last one stands for the rest of the unseen part (a
    mass of at most ``LEFTOVER``).  ``noised`` and ``log_outside`` are as in ``release_log_density``.
    """
    start, log_weights, theta = atoms_of_releases(draws, channel, chosen)
    theta = with_cache(channel, kernel, theta)
    table, releases = np.empty((len(chosen), len(Z))), np.arange(len(Z))
    density = mean_density(channel, kernel, Z, noised)

    def fill(block):
        for t in range(block.start, block.stop):
            rows = slice(start[t], start[t + 1])
            one = np.array([0, start[t + 1] - start[t]])
            table[t] = density(one, log_weights[rows], theta[rows], releases)

    in_chunks(fill, len(chosen), DRAWS, n_jobs)
    if log_outside is not None:
        table = np.logaddexp(table, np.log(draws.flat.outside[chosen])[:, None] + log_outside)
    return table


def mixture_replicates(draws, kernel, release, chosen, n, n_features, rng):
    """``release(records)`` of n new records from each draw's mixture: (len(chosen), ...)."""
    start, log_weights, theta = draws.atoms_of(chosen)
    weights, replicates = np.exp(log_weights), []
    for t in range(len(chosen)):
        rows = slice(start[t], start[t + 1])
        one = np.array([0, start[t + 1] - start[t]])
        replicates.append(release(mixture_sample(kernel, one, weights[rows], theta[rows], n, n_features, rng)[:, 0]))
    return np.array(replicates)
