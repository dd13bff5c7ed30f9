"""Advance a chain by a block of sweeps and record draws: the one compiled loop that all mixture samplers share."""

from math import ceil
from typing import NamedTuple

import numpy as np

from ..._base.compiled import entry, helper
from ..._base.restore import require, require_range
from .._driver import is_kept, n_kept
from ._places import CONCENTRATION, N_CLUSTERS, N_SLOTS, N_SWEEPS, NOT_BEGUN, STAGE
from ._state import MAX_SLOTS, copy_params, grow, n_cached, twice, update_clusters

#: A draw's mixing measure is cut where less than this mass is left: one more atom (in densities: the base measure)
#: has it.  Where the rest is more after ``MOST_OF_REST`` atoms, up to ``MOST_SHARES`` more share it.
LEFTOVER = 1e-3
MOST_OF_REST, MOST_SHARES = 256, 1024
DONE, NO_SLOTS, NO_ROOM = range(3)  # why ``run`` stops


class Draws(NamedTuple):
    """Draws of the mixing measure, one after the other: draw t has ``n_atoms[t]`` rows of ``weights`` and ``theta``.

    The first ``n_clusters[t]`` atoms are the occupied clusters, largest first; then come atoms of the unseen part; the
    last atom stands for the rest (mass below ``LEFTOVER``, or a share of more).  Weights of a draw sum to one.
    """

    n_clusters: np.ndarray
    n_atoms: np.ndarray
    concentration: np.ndarray
    weights: np.ndarray
    theta: np.ndarray
    #: share of the records that do not come from the mixture; empty if all do
    outside: np.ndarray = np.zeros(0)

    def every_second(self):
        """Every second of these draws, the last among them."""
        kept = np.arange(len(self.n_atoms))[::-1] % 2 == 0
        rows, outside = np.repeat(kept, self.n_atoms), kept[: len(self.outside)]
        return Draws(*(part[kept] for part in self[:3]), self.weights[rows], self.theta[rows], self.outside[outside])

    def check(self, n_draws):
        """Raise ValueError unless these are ``n_draws`` draws whose rows go together."""
        for name in ("n_clusters", "n_atoms", "concentration"):
            require(len(getattr(self, name)) == n_draws, name, f"of the draws is not of {n_draws} draws")
        require(len(self.outside) in (0, n_draws), "outside", f"of the draws is not of {n_draws} draws")
        require_range(0.0, 1.0, outside=self.outside)
        n_rows = len(self.weights)
        require_range(1, n_rows, n_atoms=self.n_atoms)
        require_range(1, self.n_atoms, n_clusters=self.n_clusters)
        require(np.sum(self.n_atoms) == n_rows == len(self.theta), "n_atoms", "is not that of the draws' rows")
        require_range(0.0, 1.0 + 1e-9, weights=self.weights)
        if n_draws:
            sums = np.add.reduceat(self.weights, np.cumsum(self.n_atoms) - self.n_atoms)
            require(np.abs(sums - 1.0) < 1e-6, "weights", "of a draw do not sum to 1")


@helper
def draw_mixture(rng, kernel, mixing, state, weights, theta, start):
    """Draw P given the partition and its parameters into rows from ``start`` on; return the number of atoms.

    Occupied weights and the rest are Dirichlet(n_1 - d, ..., n_K - d, w_K), w_K = α + dK a new cluster's weight; the
    rest is Pitman–Yor(w_K, d) with base measure G0, independent of all else (Pitman 1996, Theorem 20).  A finite
    mixture's ends where w is 0.
    """
    concentration, discount = state.floats[CONCENTRATION], mixing.discount
    n_clusters, total = state.ints[N_CLUSTERS], 0.0
    last, at = np.inf, -1  # the clusters in order: by count downwards, ties by slot upwards
    for h in range(start, start + n_clusters):
        last, at = next_largest(state.counts, state.ints[N_SLOTS], last, at)
        weights[h] = rng.standard_gamma(last - discount)
        for p in range(theta.shape[1]):
            theta[h, p] = state.theta[at, p]
        total += weights[h]
    mass = mixing.new_cluster_weight(concentration, n_clusters)
    rest = rng.standard_gamma(mass) if mass > 0.0 else 0.0
    total += rest
    for h in range(start, start + n_clusters):
        weights[h] /= total
    rest /= total
    first = h = start + n_clusters
    while rest > LEFTOVER and h < first + MOST_OF_REST:
        # stick-breaking of the unseen part: Beta(1 - d, w of the clusters and sticks so far and this one)
        a = rng.standard_gamma(1.0 - discount)
        b = rng.standard_gamma(mixing.new_cluster_weight(concentration, h + 1 - start))
        weights[h] = rest * a / (a + b)
        rest -= weights[h]
        kernel.draw_prior(rng, theta, h)
        h += 1
    rest, n_shares = max(rest, 0.0), 1
    if rest > LEFTOVER:  # so many that their squares are those of its sticks, (1 - d)/(1 + w), or next to nothing
        alike = (1.0 + mixing.new_cluster_weight(concentration, h - start)) / (1.0 - discount)
        n_shares = int(ceil(min(alike, (rest / LEFTOVER) ** 2, MOST_SHARES)))
    for k in range(h, h + n_shares):
        weights[k] = rest / n_shares
        kernel.draw_prior(rng, theta, k)
    return h + n_shares - start


@helper
def next_largest(counts, n_slots, last, at):
    """The occupied slot that follows slot ``at``, of count ``last``, in order: (its count, its number)."""
    best, slot = 0.0, -1
    for k in range(n_slots):
        if counts[k] > best and (counts[k] < last or (counts[k] == last and k > at)):
            best, slot = counts[k], k
    return best, slot


@entry
def run(sampler, channel, kernel, mixing, Z, state, rng, until, n_warmup, thin, draws, filled):
    """Sweep up to sweep ``until``; record a draw after every ``thin`` sweeps beyond the warm-up.  Return why it stops.

    ``filled`` holds the draws and the atoms recorded.  Arrays are made outside: growing them here would take seconds to
    compile.
    """
    ints = state.ints
    if ints[STAGE] == NOT_BEGUN:
        if kernel.target_acceptance() > 0.0:  # otherwise the update forgets where it starts
            for k in range(ints[N_CLUSTERS]):
                kernel.draw_prior(rng, state.theta, k)
        update_clusters(rng, sampler.n_aux, channel, kernel, state, False)  # given the starting records
        for k in range(ints[N_SLOTS], state.counts.size):  # passes look at whole vectors of slots, used or not
            copy_params(state.theta, 0, k)
        ints[STAGE] = 0
    while ints[N_SWEEPS] < until:
        records_draw = is_kept(ints[N_SWEEPS] + 1, n_warmup, thin)
        if records_draw and draws.weights.size < filled[1] + state.counts.size + MOST_OF_REST + MOST_SHARES:
            return NO_ROOM
        if not sampler.sweep(channel, kernel, mixing, Z, state, rng, ints[N_SWEEPS] < n_warmup):
            return NO_SLOTS
        state.floats[CONCENTRATION] = mixing.update_concentration(
            rng, state.floats[CONCENTRATION], ints[N_CLUSTERS], state.alloc.size
        )
        ints[N_SWEEPS] += 1
        if records_draw:
            t, used = filled[0], filled[1]
            draws.n_clusters[t] = ints[N_CLUSTERS]
            draws.concentration[t] = state.floats[CONCENTRATION]
            draws.n_atoms[t] = draw_mixture(rng, kernel, mixing, state, draws.weights, draws.theta, used)
            filled[0] += 1
            filled[1] += draws.n_atoms[t]
    return DONE


def run_block(values, Z, state, rng, n_sweeps, n_warmup, thin):
    """Advance ``state`` by ``n_sweeps`` sweeps; return it (its arrays may have grown) and the block's :class:`Draws`.

    Where a block ends does not matter: everything that a sweep depends on is in ``state`` and ``rng``.
    """
    done = int(state.ints[N_SWEEPS])
    n_draws = n_kept(done, n_sweeps, n_warmup, thin)
    n_rows, n_params = 16 * n_draws + MOST_OF_REST, state.theta.shape[1] - n_cached(values[1])
    counts = np.zeros((2, n_draws), np.int64)
    draws = Draws(counts[0], counts[1], np.zeros(n_draws), np.zeros(n_rows), np.zeros((n_rows, n_params)))
    filled = np.zeros(2, np.int64)
    while (stop := run(*values, Z, state, rng, done + n_sweeps, n_warmup, thin, draws, filled)) != DONE:
        if stop == NO_ROOM:
            draws = draws._replace(weights=twice(draws.weights), theta=twice(draws.theta))
        elif state.counts.size < MAX_SLOTS:
            state = grow(state)
        else:
            raise MemoryError(
                "the sampler needs more than a million clusters at once: use a smaller discount or concentration, "
                'or sampler="auto" in place of "slice" or "conditional"'
            )
    return state, draws._replace(weights=draws.weights[: filled[1]].copy(), theta=draws.theta[: filled[1]].copy())
