"""Sweeps that count as one, where draws are worth little: how many there were stands beside how many count as one."""

from .restore import require, require_range


def require_sweeps(counts, n_sweeps, most):
    """Raise unless ``counts``, (sweeps, how many of them count as one), say ``n_sweeps``, and at most so many do."""
    require_range(1, most, ints=counts[1])
    done = counts[0] / counts[1]
    require(done == n_sweeps, "ints", f"says {done:g} sweeps, not {n_sweeps}")


def slowed(state, place, n_sweeps, most):
    """The state with twice the sweeps counting as one, of which it has so many; None: that is too much.

    ``state.ints`` has the number of sweeps at ``place``, and then how many count as one.
    """
    times = 2 * int(state.ints[place + 1])
    if times > most:
        return None
    ints = state.ints.copy()
    ints[place : place + 2] = times * n_sweeps, times
    return state._replace(ints=ints)
