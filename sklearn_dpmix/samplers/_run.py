"""Advance a chain by a block of sweeps and record draws: the one compiled loop that all mixture samplers share."""

from typing import NamedTuple

import numpy as np

from .._compiled import entry, helper
from ._state import CONCENTRATION, N_CLUSTERS, N_SLOTS, N_SWEEPS, enlarge, grow, update_clusters

#: A draw's mixing measure is cut where less than this mass is left: one more atom (in densities: the base measure)
#: has it.
LEFTOVER = 1e-3
MAX_ATOMS = 256
MAX_SLOTS = 2**20


class Draws(NamedTuple):
    """Draws of the mixing measure, one after the other: draw t has ``n_atoms[t]`` rows of ``weights`` and ``theta``.

    The first ``n_clusters[t]`` atoms are the occupied clusters, largest first; then atoms of the unseen part; the
    last atom stands for what is left (mass below ``LEFTOVER``).  Weights of a draw sum to one.
    """

    n_clusters: np.ndarray
    n_atoms: np.ndarray
    concentration: np.ndarray
    weights: np.ndarray
    theta: np.ndarray


@helper
def draw_mixture(rng, kernel, mixing, state, weights, theta):
    """Draw P given the partition and its parameters into ``weights``, ``theta``; return the number of atoms.

    Occupied weights and the rest are Dirichlet(n_1 - d, ..., n_K - d, α + dK); the rest is Pitman–Yor(α + dK, d) with
    base measure G0, independent of all else (Pitman 1996, Theorem 20).
    """
    concentration, discount = state.floats[CONCENTRATION], mixing.discount
    n_clusters, total = state.ints[N_CLUSTERS], 0.0
    last, at = np.inf, -1  # the clusters in order: by count downwards, ties by slot upwards
    for h in range(n_clusters):
        last, at = next_largest(state.counts, state.ints[N_SLOTS], last, at)
        weights[h] = rng.standard_gamma(last - discount)
        for p in range(theta.shape[1]):
            theta[h, p] = state.theta[at, p]
        total += weights[h]
    mass = concentration + discount * n_clusters
    rest = rng.standard_gamma(mass) if mass > 0.0 else 0.0
    total += rest
    for h in range(n_clusters):
        weights[h] /= total
    rest /= total
    h = n_clusters
    while rest > LEFTOVER and h < n_clusters + MAX_ATOMS:
        # stick-breaking of the unseen part: Beta(1 - d, α + dK + d·(sticks so far + 1))
        a = rng.standard_gamma(1.0 - discount)
        b = rng.standard_gamma(mass + discount * (h - n_clusters + 1))
        weights[h] = rest * a / (a + b)
        rest -= weights[h]
        kernel.draw_prior(rng, theta, h)
        h += 1
    weights[h] = max(rest, 0.0)
    kernel.draw_prior(rng, theta, h)
    return h + 1


@helper
def next_largest(counts, n_slots, last, at):
    """The occupied slot that follows slot ``at``, of count ``last``, in order: (its count, its number)."""
    best, slot = 0.0, -1
    for k in range(n_slots):
        if counts[k] > best and (counts[k] < last or (counts[k] == last and k > at)):
            best, slot = counts[k], k
    return best, slot


@entry
def run_block(sampler, channel, kernel, mixing, Z, state, rng, n_sweeps, n_warmup, thin):
    """Advance ``state`` by ``n_sweeps`` sweeps; record a draw after every ``thin`` sweeps beyond the warm-up.

    Returns the state (its arrays may have grown) and the block's :class:`Draws`.  Where a block ends does not matter:
    all that a sweep depends on is in ``state`` and ``rng``.
    """
    before, after = max(state.ints[N_SWEEPS] - n_warmup, 0), max(state.ints[N_SWEEPS] + n_sweeps - n_warmup, 0)
    n_draws = after // thin - before // thin
    n_clusters, n_atoms = np.zeros(n_draws, np.int64), np.zeros(n_draws, np.int64)
    concentration = np.zeros(n_draws)
    weights = np.zeros(16 * n_draws + MAX_ATOMS)
    theta = np.zeros((weights.size, state.theta.shape[1]))
    t, used = 0, 0
    if state.ints[N_SWEEPS] == 0:
        update_clusters(rng, sampler.n_aux, kernel, state)  # given the starting records
    for _ in range(n_sweeps):
        warming_up = state.ints[N_SWEEPS] < n_warmup
        while not sampler.sweep(channel, kernel, mixing, Z, state, rng, warming_up):
            if state.counts.size >= MAX_SLOTS:
                raise MemoryError(
                    "the sampler needs more than a million clusters at once: use a smaller discount or concentration, "
                    'or sampler="auto" in place of "slice" or "conditional"'
                )
            state = grow(state)
        state.floats[CONCENTRATION] = mixing.update_concentration(
            rng, state.floats[CONCENTRATION], state.ints[N_CLUSTERS], state.alloc.size
        )
        state.ints[N_SWEEPS] += 1
        sweep = state.ints[N_SWEEPS] - n_warmup
        if sweep > 0 and sweep % thin == 0:
            needed = used + state.ints[N_CLUSTERS] + MAX_ATOMS + 1
            if needed > weights.size:
                weights = enlarge(weights.reshape(-1, 1), 2 * needed).ravel()
                theta = enlarge(theta, 2 * needed)
            n_atoms[t] = draw_mixture(rng, kernel, mixing, state, weights[used:], theta[used:])
            n_clusters[t] = state.ints[N_CLUSTERS]
            concentration[t] = state.floats[CONCENTRATION]
            used += n_atoms[t]
            t += 1
    return state, Draws(n_clusters, n_atoms, concentration, weights[:used].copy(), theta[:used].copy())
