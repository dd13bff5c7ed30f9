"""Calls on all cores, for compiled code that releases Python's lock."""

import os
from concurrent.futures import ThreadPoolExecutor
from functools import cache

from numba import config


def in_threads(function, n):
    """``[function(0), ..., function(n - 1)]`` on all cores; neighbours, whose memory is close, not at the same time."""
    n_threads = config.NUMBA_NUM_THREADS
    if n_threads == 1:
        return [function(b) for b in range(n)]
    stride = -(-n // n_threads)
    pool, found = _pool(os.getpid(), n_threads), [None] * n
    running = {b: pool.submit(function, b) for b in sorted(range(n), key=lambda b: b % stride)}
    for b, future in running.items():
        found[b] = future.result()
    return found


@cache
def _pool(process, n_threads):
    """The threads of this process: after a fork there are none."""
    return ThreadPoolExecutor(n_threads, thread_name_prefix="sklearn_dpmix")
