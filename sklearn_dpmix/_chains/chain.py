"""A chain is a value: it can be advanced, copied, sent to another process, kept and resumed.

Nothing of a chain lives anywhere else, and a sweep depends on nothing else; so results do not depend on where a block
of sweeps ends, on ``n_jobs`` or on the joblib backend.
"""

import time
from typing import Any, NamedTuple

import numpy as np
from joblib import Parallel, delayed, effective_n_jobs

BLOCK_SECONDS = 0.5
MOST_BLOCKS = 10  # how many times as long a block may be where sending chains to and fro takes time ...
SHARE = 20  # ... which is to be that small a part of it


class Chain(NamedTuple):
    """State of a sampler (a NamedTuple of arrays) and of its random generator."""

    state: Any
    rng_state: Any

    def advance(self, step, n_sweeps):
        """Return (the chain ``n_sweeps`` further, the draws of the block); ``self`` is left as it is."""
        rng = np.random.Generator(np.random.PCG64())
        rng.bit_generator.state = self.rng_state
        state, draws = step(type(self.state)(*(np.array(part) for part in self.state)), rng, n_sweeps)
        return Chain(state, rng.bit_generator.state), draws


def start_chains(seed_sequence, n_chains, init):
    """Start ``n_chains`` chains, each from a child of the seed sequence; ``init(rng)`` returns a state."""
    chains = []
    for child in seed_sequence.spawn(n_chains):
        rng = np.random.Generator(np.random.PCG64(child))
        state = init(rng)
        chains.append(Chain(state, rng.bit_generator.state))
    return chains


def run_chains(chains, step, n_sweeps, *, n_jobs=None, watch=None):
    """Advance all chains by ``n_sweeps`` in blocks of about ``BLOCK_SECONDS``, longer where a block's way is long.

    A worker that dies in the middle costs its block, where joblib's backend gives the block to another (Dask's does).

    Parameters
    ----------
    chains : list of Chain, or of another class with ``advance(step, n_sweeps)``
    step : callable (state, rng, n_sweeps) -> (state, draws)
        Picklable; changes the state's arrays in place.
    n_sweeps : int
    n_jobs : int or None
        As in joblib; threads unless a ``joblib.parallel_config`` says otherwise.
    watch : callable (chains, blocks, n_done) -> bool, optional
        Called after each block with all there is so far, one list of draws a block; what it returns says whether to
        stop.

    Returns
    -------
    chains : list of Chain
    blocks : list of list of draws, one list a chain
    n_done : int
        Less than ``n_sweeps`` where ``watch`` stopped the run, or after Ctrl-C, which keeps the blocks that all chains
        finished.
    """
    blocks, size, rounds = [], 1, -(-len(chains) // effective_n_jobs(n_jobs))
    reached = chains, 0, 0  # chains, sweeps, blocks: one name, so that an interruption never finds it half updated
    del chains  # states may be large: that before a block and that after it are enough
    try:
        with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
            while reached[1] < n_sweeps:
                size = min(size, n_sweeps - reached[1])
                started = time.perf_counter()
                advanced = parallel(delayed(_timed)(chain, step, size) for chain in reached[0])
                seconds = time.perf_counter() - started
                blocks.append([draws for _, draws, _ in advanced])
                reached = [chain for chain, _, _ in advanced], reached[1] + size, len(blocks)
                if watch is not None and watch(reached[0], blocks, reached[1]):
                    break
                working = rounds * max(own for _, _, own in advanced)
                aim = max(BLOCK_SECONDS, min(MOST_BLOCKS * BLOCK_SECONDS, SHARE * (seconds - working)))
                # the first block also loads compiled code: it only sets the scale
                size = max(1, min(20 * size, int(size * aim / max(working, 1e-6))))
    except KeyboardInterrupt:
        pass
    chains, n_done, n_blocks = reached
    return chains, [list(kept) for kept in zip(*blocks[:n_blocks], strict=True)] or [[] for _ in chains], n_done


def _timed(chain, step, n_sweeps):
    """Return (the chain ``n_sweeps`` further, its draws, seconds)."""
    started = time.perf_counter()
    return *chain.advance(step, n_sweeps), time.perf_counter() - started
