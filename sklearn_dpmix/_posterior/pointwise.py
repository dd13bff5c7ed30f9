"""Releases one by one under each draw: their log density, for LOO, and replicates, for posterior predictive checks."""

import numpy as np

from .mixture import in_chunks, mixture_sample
from .predictive import atoms_of_releases, mean_density

DRAWS = 64  # of a block, on which threads work


def mixture_log_likelihood(draws, releases, chosen):
    """log g(z_i | P_t) = log Σ_k w_k g(z_i | θ_k) for the mixtures P_t of the draws ``chosen``: (len(chosen), n).

    All atoms of a draw count, those without records included; the last one stands for the rest of the unseen part (a
    mass of at most ``LEFTOVER``).
    """
    start, log_weights, theta = atoms_of_releases(draws, releases.channel, chosen)
    theta = releases.with_cache(theta)
    table, all_rows = np.empty((len(chosen), len(releases.Z))), np.arange(len(releases.Z))
    density = mean_density(releases)

    def fill(block):
        for t in range(block.start, block.stop):
            rows = slice(start[t], start[t + 1])
            one = np.array([0, start[t + 1] - start[t]])
            table[t] = density(one, log_weights[rows], theta[rows], all_rows)

    in_chunks(fill, len(chosen), DRAWS, releases.n_jobs)
    if releases.log_outside is not None:
        table = np.logaddexp(table, np.log(draws.flat.outside[chosen])[:, None] + releases.log_outside)
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
