"""Where a mixture's chain keeps its numbers: every sampler and every move has its own places.

Compiled code reads ``state.floats[URN_RATE]``; samplers and moves are combined in many ways, so no two things may share
a place.
"""

from ..._base.acceptance import N_COUNTERS


class Room:
    """Gives out places one after the other."""

    def __init__(self) -> None:
        self.size = 0

    def take(self, n: int = 1) -> int:
        """The beginning of the next ``n`` places."""
        self.size += n
        return self.size - n


#: Octaves of cluster sizes, for each of which a step is tuned: of 2^b..2^(b+1) records.
N_BINS = 32

# ---------------------------------------------------------------- ``state.ints``
_ints = Room()
N_SLOTS, N_FREE, N_CLUSTERS = _ints.take(), _ints.take(), _ints.take()
CURSOR = _ints.take()  # where a sweep that ran out of slots continues
N_SWEEPS = _ints.take()
STAGE = _ints.take()  # what that sweep has done
N_INTS = _ints.size

# ---------------------------------------------------------------- ``state.ints[STAGE]``
NOT_BEGUN = -1  # of a chain whose parameters are not drawn yet; 0 between sweeps
URN, GIBBS, AFTER_URN, AFTER_GIBBS = 1, 2, 3, 4  # of an interweaved sweep
PASS, PASSED, NO_PASS = 5, 6, 7  # of a sweep by cells: memberships are next, are done, are left out
OTHERS = 8  # of a sweep by sources: the other records are next
SWEPT = 9  # of a split and merge after another sampler's sweep, which is done

# ---------------------------------------------------------------- ``state.floats``
_floats = Room()
_floats.take(N_COUNTERS)  # of accept steps
CONCENTRATION = _floats.take()  # or how many components there are
URN_RATE = _floats.take()  # running acceptance rate of the urn pass
PASSES = _floats.take()  # passes over the records made in this sweep
REST, LOWEST = _floats.take(), _floats.take()  # of the sticks: the mass behind them; the lowest slice level
BIN_MOVE_RATE = _floats.take()  # running chance that a record would be let into the bin of another
CELL_CHANGE_RATE = _floats.take()  # running chance that a record drawn again is in another cell
N_SOURCES = _floats.take()  # one more than how many records are sources, which come first; 0 between sweeps
MOVES_TUNED, MOVES_STEPS = _floats.take(2), _floats.take(2 * N_BINS)  # log steps of a cluster's mean, then of its scale
RESCALING_TUNED, RESCALING_STEPS = _floats.take(2), _floats.take(2)  # the same of all clusters together
KERNEL_TUNED, KERNEL_STEPS = _floats.take(), _floats.take(N_BINS)  # of the kernel's own move
N_FLOATS = _floats.size

# ---------------------------------------------------------------- rows of ``state.work``, with a column a slot
_rows = Room()
MASS, PEAK, PROBABILITY = _rows.take(), _rows.take(), _rows.take()  # of the Gibbs pass over memberships
WEIGHT, LOG_LIKELIHOOD, BOUND = _rows.take(), _rows.take(), _rows.take()  # of the sticks
FIRST = _rows.take()  # where a cluster's records begin in ``order``
N_ROWS = _rows.size
