"""What a release of sums says about them: the log density of its noise.

``S`` has a release of the same sums in each row.
"""

from .._base.compiled import helper


@helper
def log_entry(channel, S, j, value):
    """Log density of all releases of one sum if it is ``value``, up to a constant."""
    total = 0.0
    for r in range(S.shape[0]):
        total += channel.log_release(S, r, j, value)
    return total


@helper
def log_release(channel, S, total):
    """Log density of all releases of all sums, up to a constant."""
    value = 0.0
    for j in range(total.size):
        value += log_entry(channel, S, j, total[j])
    return value
