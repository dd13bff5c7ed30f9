"""The sweep of ``_conditional`` for many records, on all cores.

The records are independent given the mixing measure.  They are split into blocks of ``BLOCK``, each with its own
generator.  The blocks do not depend on the number of threads, so neither do the draws.  The number of threads is
``numba.config.NUMBA_NUM_THREADS``: the number of cores, or what the environment variable of that name says; joblib sets
it in its worker processes.
"""

import numpy as np

from ..._base.compiled import Component, compiled, entry, lower
from .._threads import in_threads
from ._places import CURSOR, LOWEST, N_SLOTS, WEIGHT
from ._run import run_block
from ._state import compact, move_clusters
from ._sticks import allocate_range, bound_weights, draw_weights, extend_sticks, finish_allocation

BLOCK = 8192
BLOCKS_FROM = 2 * BLOCK  # records; with fewer there is nothing to share (benchmarks/threads.py)
LEVELS, STICKS, RECORDS, CLUSTERS = 1, 2, 3, 4  # cursor: what comes next


class InBlocks(Component):
    """The sweep of ``Slice`` and ``Conditional``, but that it stops where Python passes over the records."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        ints = state.ints
        if ints[CURSOR] == 0:
            compact(state)
            draw_weights(rng, mixing, state)
            ints[CURSOR] = LEVELS
        if ints[CURSOR] == STICKS and extend_sticks(rng, channel, kernel, mixing, state):
            bound_weights(state)
            ints[CURSOR] = RECORDS
        if ints[CURSOR] != CLUSTERS:
            return False
        move_clusters(rng, 1, channel, kernel, state, warming_up)
        ints[CURSOR] = 0
        return True


def run_in_blocks(values, Z, state, rng, n_sweeps, n_warmup, thin):
    """``run_block`` with the passes over records done in threads."""
    sampler, channel, kernel, mixing = values
    outer = lower(InBlocks, {"n_aux": 1})
    passes = RecordPasses(sampler, channel, kernel, Z)
    return run_block((outer, channel, kernel, mixing), Z, state, rng, n_sweeps, n_warmup, thin, passes)


class RecordPasses:
    """The two passes of a sweep over all records, block by block."""

    def __init__(self, *parts):
        self.parts = parts

    def __call__(self, state, rng):
        """Do the pass that the sweep waits for; return whether it waited for one."""
        n = len(state.alloc)
        blocks = [(first, min(first + BLOCK, n)) for first in range(0, n, BLOCK)]
        if state.ints[CURSOR] == LEVELS:
            seeds = np.random.SeedSequence(rng.integers(2**32, size=4).tolist()).spawn(len(blocks))
            self.rngs = [np.random.Generator(np.random.PCG64(seed)) for seed in seeds]
            lows = in_threads(lambda b: levels(state, self.rngs[b], *blocks[b]), len(blocks))
            state.floats[LOWEST] = min(lows)
            state.ints[CURSOR] = STICKS
        elif state.ints[CURSOR] == RECORDS:
            n_slots = state.ints[N_SLOTS]
            counts = np.zeros((len(blocks), n_slots))
            stats = np.zeros((len(blocks), n_slots, state.stats.shape[1]))
            found = in_threads(
                lambda b: records(*self.parts, state, self.rngs[b], *blocks[b], counts[b], stats[b]), len(blocks)
            )
            state.counts[:n_slots] = counts.sum(axis=0)
            state.stats[:n_slots] = stats.sum(axis=0)
            accepted, lowest = zip(*found, strict=True)
            finish_allocation(self.parts[2], state, sum(accepted), min(lowest))
            state.ints[CURSOR] = CLUSTERS
        else:
            return False
        return True


def levels(state, rng, first, last):
    """Step 2 for a block; returns the lowest level."""
    of_block = rng.random(last - first) * state.work[WEIGHT, state.alloc[first:last]]
    state.levels[first:last] = of_block
    return of_block.min()


@entry
def records(sampler, channel, kernel, Z, state, rng, first, last, counts, stats):
    """Step 3 for a block; its counts and sufficient statistics.

    They are summed in arrays of the block's own: those of neighbours share cache lines, which threads would fight over.
    """
    scratch, own_counts, own_stats = np.empty(counts.size), np.zeros(counts.size), np.zeros(stats.shape)
    n_accepted, lowest = allocate_range(sampler, rng, channel, kernel, Z, state, first, last, scratch, own_counts)
    for i in range(first, last):
        kernel.add_record(own_stats, state.alloc[i], state.records, i, 0, 1.0)
    for k in range(counts.size):
        counts[k] = own_counts[k]
        for t in range(stats.shape[1]):
            stats[k, t] = own_stats[k, t]
    return n_accepted, lowest
