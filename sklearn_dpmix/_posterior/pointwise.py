"""Releases one by one under each draw: their log density, for LOO, and replicates, for posterior predictive checks."""

import numpy as np

from ..mechanisms import AdditiveMechanism
from ..mechanisms._additive import _log_density
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


def statistic_log_likelihood(mechanism, S, statistics):
    """Log density of each release given each statistic before noise, added up over its entries: (size, n_releases)."""
    if not isinstance(mechanism, AdditiveMechanism):
        return np.column_stack([mechanism.release_density(s[None])(statistics) for s in S])
    channel = mechanism._lower(n_records=len(S), n_features=S.shape[1])
    table = np.empty((len(statistics), len(S)))
    for t, statistic in enumerate(statistics):
        table[t] = _log_density(channel, S, np.tile(statistic, (len(S), 1)))
    return table


def statistic_replicates(mechanism, statistics, n_releases, rng):
    """``n_releases`` simulated releases of each statistic: (size, n_releases, n_statistics)."""
    if not isinstance(mechanism, AdditiveMechanism):
        n_statistics = statistics.shape[1] - mechanism.n_hidden
        noise = [mechanism._draw(rng, statistics) for _ in range(n_releases)]
        return statistics[:, None, :n_statistics] + np.stack(noise, axis=1)
    size, k = statistics.shape
    bounds = mechanism.bounds_for(k)
    if bounds is not None and mechanism.clamp:
        statistics = np.clip(statistics, bounds[:, 0], bounds[:, 1])
    if mechanism.is_discrete:
        statistics = np.floor(statistics + 0.5)  # what its noise goes on
    shape = size, n_releases, k
    scale = np.broadcast_to(mechanism._scales(n_releases, k)[:, None], shape)
    return statistics[:, None] + mechanism.draw_noise(rng, scale, shape)
