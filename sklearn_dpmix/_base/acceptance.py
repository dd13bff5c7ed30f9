"""Counters of accept steps: the first numbers of every chain's ``floats`` whose sweep has one."""

import numpy as np

from .compiled import helper
from .restore import require_finite, require_range

ACCEPTED, PROPOSED, LOG_MIN_ACCEPT = range(3)
N_COUNTERS = 3


@helper
def note_acceptance(floats, n_proposed, n_accepted, lowest):
    """Count a sweep's proposals; keep the smallest log acceptance probability met."""
    floats[PROPOSED] += n_proposed
    floats[ACCEPTED] += n_accepted
    floats[LOG_MIN_ACCEPT] = min(floats[LOG_MIN_ACCEPT], lowest)


def require_acceptance(floats):
    """Raise where what was read from a file cannot be such counters, or where another number is not finite."""
    require_range(0.0, 1e300, floats=floats[[ACCEPTED, PROPOSED]])
    require_range(-np.inf, 0.0, floats=floats[LOG_MIN_ACCEPT])
    require_finite(floats=np.delete(floats, LOG_MIN_ACCEPT))
