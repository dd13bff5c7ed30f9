"""Slice-type sweeps on one core and on all, and the same sweep in one piece (wall time: that is what threads save)."""

import time
import warnings

from numba import config

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.samplers.mixture import _conditional

SIZES = (5_000, 20_000, 100_000)
SWEEPS = {"slice": 1_000_000, "conditional": 100_000}  # timed records: so many over n sweeps


def micros(sampler, Z, mechanism, n_sweeps):
    """Wall time of a sweep: of a fit that goes on, less that of one that goes on for fewer sweeps."""
    model = PrivateDPMixture(
        mechanism, sampler=sampler, n_chains=1, n_warmup=30, n_draws=2, thin=n_sweeps // 4, random_state=0
    )
    model.fit(Z).set_params(warm_start=True)
    seconds = []
    for n_draws in (4, 14):
        started = time.perf_counter()
        model.set_params(n_draws=n_draws).fit(Z)
        seconds.append(time.perf_counter() - started)
    return (seconds[1] - seconds[0]) / (8 * (n_sweeps // 4)) * 1e6


def blocks_against_one_piece():
    """Rows (sampler, n, µs a sweep in one piece, in blocks on one thread, on all, the first over the last)."""
    rows, blocks_from, n_threads = [], _conditional.BLOCKS_FROM, config.NUMBA_NUM_THREADS
    for sampler, n_records in SWEEPS.items():
        for n in SIZES:
            mechanism = LaplaceMechanism(10.0, bounds=(-10, 10))
            Z = mechanism.privatize(make_three_normals(n, random_state=0)[0], random_state=1)
            found = []
            for threshold, threads in ((n + 1, 1), (1, 1), (1, n_threads)):
                _conditional.BLOCKS_FROM, config.NUMBA_NUM_THREADS = threshold, threads
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)
                    found.append(micros(sampler, Z, mechanism, max(12, n_records // n)))
            rows.append((sampler, n, *found, found[0] / found[2]))
    _conditional.BLOCKS_FROM, config.NUMBA_NUM_THREADS = blocks_from, n_threads
    return rows
