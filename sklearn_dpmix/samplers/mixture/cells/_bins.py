"""Histograms of all records: a record has no g of its own, so the bins of the records are kept."""

import numpy as np

from ...._base.compiled import compiled, helper
from .._places import BIN_MOVE_RATE
from .._state import running_mean, update_clusters
from ._integrated_records import CellSampler

N_PAIRS = 16  # on which a sweep of the warm-up measures bin_move_rate


class Bins(CellSampler):
    """Gibbs over the bins of all records of a histogram; ``records`` has each record anywhere in its bin.

    The parameters of a cluster move given its records, which are drawn within their bins.  They also move together with
    these bins, which are drawn again from the kernel, so that only the release decides.  ``Cells`` resolves to it.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Bins
    >>> Bins()
    Bins()
    """

    needs_histogram = True
    needs_levels = True  # the bin that a record would move to

    @compiled
    def take_off(self, channel, Z, records, i):
        channel.take_off(Z, records, i)

    @compiled
    def put_on(self, rng, channel, kernel, Z, i, records, theta, k):
        records[i, 0, 0] = channel.centre(channel.draw_cell(rng, Z, i, theta, k))
        channel.put_on(Z, records, i)

    @compiled
    def shift(self, rng, channel, kernel, Z, state, first, last, k, to):
        """Draw bins from the kernel of slot ``to``: the log ratio of the release's density; the counts follow."""
        gain, below = -log_release(channel, Z), np.empty(channel.last_cell + 1)
        accumulate_masses(channel, state.theta, to, below)
        for r in range(first, last):
            i, new = state.order[r], draw_bin_of_kernel(rng, below)
            state.levels[i] = new
            Z[1, channel.bin(state.records[i, 0, 0])] -= 1.0
            Z[1, new] += 1.0
        return gain + log_release(channel, Z)

    @compiled
    def keep(self, channel, kernel, Z, state, first, last, k, to):
        for r in range(first, last):
            i = state.order[r]
            state.records[i, 0, 0] = channel.centre(int(state.levels[i]))
        for b in range(channel.last_cell + 1):
            channel.count(Z, b, 0.0)

    @compiled
    def undo(self, channel, Z, state, first, last):
        for r in range(first, last):
            i = state.order[r]
            Z[1, int(state.levels[i])] -= 1.0
            Z[1, channel.bin(state.records[i, 0, 0])] += 1.0

    @compiled
    def pass_share(self, rng, channel, Z, state, warming_up):
        """If the release hardly distinguishes bins, splits and merges alone move records better."""
        if warming_up:
            rate = bin_move_rate(rng, channel, Z, state)
            state.floats[BIN_MOVE_RATE] = running_mean(state.floats[BIN_MOVE_RATE], rate)
        return min(max((1.0 - state.floats[BIN_MOVE_RATE]) / 0.2, 0.2), 1.0)

    @compiled
    def move_share(self, state):
        return 0.5

    @compiled
    def attempts(self, state):
        return int(self.n_tries)

    @compiled
    def move_given_records(self, rng, channel, kernel, Z, state, tune):
        draw_within_bins(rng, channel, kernel, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, tune)


@helper
def draw_within_bins(rng, channel, kernel, state):
    """Every record given its cluster and its bin."""
    records = state.records
    for i in range(state.alloc.size):
        b = channel.bin(records[i, 0, 0])
        y = channel.draw_within(rng, kernel, state.theta, state.alloc[i], b)
        records[i, 0, 0] = y if channel.bin(y) == b else channel.centre(b)  # rounding must not change counts


@helper
def bin_move_rate(rng, channel, Z, state):
    """Mean over random pairs of records of the chance that the first would be let into the bin of the second."""
    n, total = state.alloc.size, 0.0
    for _ in range(N_PAIRS):
        own = Z[0, channel.bin(state.records[min(int(rng.random() * n), n - 1), 0, 0])]
        other = Z[0, channel.bin(state.records[min(int(rng.random() * n), n - 1), 0, 0])]
        total += min(1.0, other / own) if own > 0.0 else 1.0
    return total / N_PAIRS


@helper
def log_release(channel, table):
    """Log density of the release given the bins' counts, up to a constant."""
    total = 0.0
    for b in range(channel.last_cell + 1):
        total += channel.log_released(table, b, table[1, b])
    return total


@helper
def accumulate_masses(channel, theta, k, below):
    """Write the mass of cluster k up to each bin's end into ``below``."""
    first, total = channel.first_mass(theta), 0.0
    for b in range(channel.last_cell + 1):
        total += theta[k, first + b]
        below[b] = total


@helper
def draw_bin_of_kernel(rng, below):
    """A bin from the kernel alone: how many end at or below u, which is less than the last end."""
    u, chosen = rng.random() * below[below.size - 1], 0
    for b in range(below.size):
        chosen += below[b] <= u
    return chosen
