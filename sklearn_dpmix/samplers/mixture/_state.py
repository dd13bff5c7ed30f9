"""The state of a mixture chain, and the few things that every sampler does to it.

Clusters live in slots: row ``k`` of ``counts``, ``stats``, ``theta``.  A slot with count 0 is empty.  Slots from
``ints[N_SLOTS]`` on have never been used; empty ones below that wait on the stack ``free``.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from ..._base.acceptance import require_acceptance
from ..._base.compiled import helper
from ..._base.restore import require, require_finite, require_range, require_sweeps, same_layout
from ._places import (
    CURSOR,
    KERNEL_STEPS,
    KERNEL_TUNED,
    N_BINS,
    N_CLUSTERS,
    N_FLOATS,
    N_FREE,
    N_INTS,
    N_ROWS,
    N_SLOTS,
    N_SWEEPS,
    NOT_BEGUN,
    STAGE,
)

MAX_SLOTS = 2**20


class State(NamedTuple):
    """All of a chain except its random generator: arrays that a sweep changes in place."""

    alloc: np.ndarray  # (n,) int32: slot of each record's cluster
    records: np.ndarray  # (n + 1, m, d): imputed confidential records, m auxiliaries each; the last row is scratch
    levels: np.ndarray  # (n,) or empty: slice level of each record
    counts: np.ndarray  # (capacity,): records in each slot, as floats
    stats: np.ndarray  # (capacity, n_stats): sufficient statistics of the slot's records
    theta: np.ndarray  # (capacity, n_params), column-major: cluster parameters; loops over clusters run along memory
    work: np.ndarray  # (N_ROWS, capacity): scratch, one column a slot
    order: np.ndarray  # (n,) int64 or empty: records sorted by cluster
    table: np.ndarray  # what a channel of all records keeps (``mechanisms._histogram``), or empty
    free: np.ndarray  # (capacity,) int64: stack of empty slots
    ints: np.ndarray
    floats: np.ndarray

    def restored(self, fresh, n_sweeps):
        """Return this state, read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._base.restore`).

        What slots, records and ``table`` may hold besides, sampler, kernel, channel and mixing say
        (``MixtureSampler.restored``).
        """
        while fresh.counts.size < self.counts.size and fresh.counts.size < MAX_SLOTS:
            fresh = grow(fresh)  # the only way in which arrays grow
        state = same_layout(fresh, self)
        n, capacity, ints, floats = state.alloc.size, state.counts.size, state.ints, state.floats
        n_slots, n_free = ints[N_SLOTS], ints[N_FREE]
        require_sweeps(ints[N_SWEEPS], n_sweeps)
        require(ints[STAGE] == (0 if n_sweeps else NOT_BEGUN), "ints", "is from an unfinished sweep")
        require(ints[CURSOR] == 0, "ints", "is from an unfinished sweep")
        require_range(1, capacity, ints=n_slots)
        require_range(0, n_slots - 1, alloc=state.alloc)
        occupied = np.bincount(state.alloc, minlength=capacity)
        require(state.counts == occupied, "counts", "are not those of alloc")
        require(ints[N_CLUSTERS] == np.count_nonzero(occupied), "ints", "has another number of clusters than alloc")
        empty = np.flatnonzero(occupied[:n_slots] == 0)
        require_range(0, len(empty), ints=n_free)
        stack = state.free[:n_free]
        require(np.isin(stack, empty) & (len(np.unique(stack)) == n_free), "free", "has slots that are not empty")
        require_range(-n, n - 1, order=state.order)
        require_finite(records=state.records[:n], levels=state.levels, stats=state.stats, theta=state.theta)
        require_finite(table=state.table)
        require_acceptance(floats)
        require_range(-20.0, 3.0, floats=floats[KERNEL_STEPS : KERNEL_STEPS + N_BINS])
        require_range(0.0, 1e300, floats=floats[KERNEL_TUNED])
        return state


def n_cached(channel):
    """How many spare columns of ``theta`` a channel's value keeps masses of cells in."""
    return channel.last_cell + 1 if channel._owner.keeps_masses else 0


def new_state(n_records, n_auxiliary, n_features, n_params, n_stats, *, levels=False, order=False, capacity=32):
    """Return a state with every record in slot 0 and nothing drawn yet."""
    counts = np.zeros(capacity)
    counts[0] = n_records
    ints = np.zeros(N_INTS, dtype=np.int64)
    ints[N_SLOTS] = ints[N_CLUSTERS] = 1
    ints[STAGE] = NOT_BEGUN
    floats = np.zeros(N_FLOATS)
    return State(
        alloc=np.zeros(n_records, dtype=np.int32),
        records=np.zeros((n_records + 1, n_auxiliary, n_features)),
        levels=np.zeros(n_records if levels else 0),
        counts=counts,
        stats=np.zeros((capacity, n_stats)),
        theta=np.zeros((max(n_params, 2), capacity)).T,  # one column would be row-major as well: another type
        work=np.zeros((N_ROWS, capacity)),
        order=np.zeros(n_records if order else 0, dtype=np.int64),
        table=np.zeros((0, 0)),
        free=np.zeros(capacity, dtype=np.int64),
        ints=ints,
        floats=floats,
    )


def twice(part, axis=0):
    """Return the array followed by as many zeros."""
    return np.concatenate([part, np.zeros_like(part)], axis=axis)


def grow(state):
    """Return the state with twice the slots."""
    return state._replace(
        counts=twice(state.counts),
        stats=twice(state.stats),
        theta=np.tile(state.theta.T, 2).T,  # no zeros: of which a kernel may make NaN
        work=twice(state.work, axis=1),
        free=twice(state.free),
    )


@helper
def copy_params(theta, source, to):
    """Copy a cluster's parameters to another slot."""
    for p in range(theta.shape[1]):
        theta[to, p] = theta[source, p]


@helper
def take_slot(state):
    """Return an empty slot, or -1 if there is no room; it is not taken until :func:`occupy`."""
    if state.ints[N_FREE] > 0:
        return state.free[state.ints[N_FREE] - 1]
    if state.ints[N_SLOTS] < state.counts.size:
        return state.ints[N_SLOTS]
    return -1


@helper
def occupy(state):
    """Mark the slot that :func:`take_slot` returned as used."""
    if state.ints[N_FREE] > 0:
        state.ints[N_FREE] -= 1
    else:
        state.ints[N_SLOTS] += 1
    state.ints[N_CLUSTERS] += 1


@helper
def vacate(state, k):
    """Give an emptied slot back."""
    state.free[state.ints[N_FREE]] = k
    state.ints[N_FREE] += 1
    state.ints[N_CLUSTERS] -= 1


@helper
def compact(state):
    """Move the occupied slots to the front, in order; the rest is free.  O(records)."""
    n_slots = state.ints[N_SLOTS]
    if state.ints[N_CLUSTERS] == n_slots:
        return
    kept = 0
    for k in range(n_slots):
        if state.counts[k] > 0.0:
            state.free[k] = kept  # the stack is emptied below: it can hold the new places meanwhile
            if kept < k:
                state.counts[kept] = state.counts[k]
                copy_params(state.theta, k, kept)
                copy_params(state.stats, k, kept)
                state.counts[k] = 0.0
            kept += 1
    for i in range(state.alloc.size):
        state.alloc[i] = state.free[state.alloc[i]]
    state.ints[N_SLOTS] = kept
    state.ints[N_FREE] = 0


@helper
def recompute_stats(m, kernel, state):
    """Sufficient statistics of all clusters from the records: O(records), and no drift."""
    state.stats[:] = 0.0
    for i in range(state.alloc.size):
        k = state.alloc[i]
        for a in range(m):
            kernel.add_record(state.stats, k, state.records, i, a, 1.0)


@helper
def size_bin(count):
    """Octave of a cluster's size."""
    return min(int(log(count) * 1.4426950408889634), N_BINS - 1)


@helper
def tune_step(floats, tuned, at, probability, target):
    """Stochastic approximation of the log step ``floats[at]`` towards the acceptance rate ``target``."""
    floats[tuned] += 1.0
    rate = max(0.02, (1.0 + 0.1 * floats[tuned]) ** -0.6)
    floats[at] = min(max(floats[at] + rate * (probability - target), -20.0), 3.0)


@helper
def running_mean(old, value):
    """An average that forgets; 0 if nothing was measured yet."""
    return value if old == 0.0 else old + 0.05 * (value - old)


@helper
def fill_cache(channel, kernel, theta, k):
    """What the channel keeps of θ_k: a separate function, since otherwise every caller compiles it again."""
    channel.cache(kernel, theta, k)


@helper
def update_clusters(rng, m, channel, kernel, state, tune):
    """θ_k given the records in k (Beraha et al., Algorithm 1 line 14: all m auxiliaries count), for each cluster."""
    recompute_stats(m, kernel, state)
    floats, target = state.floats, kernel.target_acceptance()
    for k in range(state.ints[N_SLOTS]):
        if state.counts[k] > 0.0:
            at = KERNEL_STEPS + size_bin(state.counts[k])
            probability = kernel.move_params(rng, state.theta, k, state.stats, m * state.counts[k], exp(floats[at]))
            if tune and target > 0.0:
                tune_step(floats, KERNEL_TUNED, at, probability, target)
            fill_cache(channel, kernel, state.theta, k)
