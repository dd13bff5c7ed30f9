"""Channels of cells (``mechanisms._cells``) with the records integrated out, or known up to their bin.

On such a channel g(z | θ) costs a product a cell, so that memberships, parameters, splits and merges can all be judged
by it: nothing holds anything else in place.  A histogram of all records has no g of one record; there the bins of the
records are kept, and drawn anew from the kernel where a cluster's parameters move.
"""

from math import inf, log
from typing import Any

import numpy as np

from .._compiled import compiled, helper, lower
from ._base import MixtureSampler, check_count
from ._noncentred import noncentred_moves
from ._reuse import CHANCE, MASS, ReUse, reuse_pass
from ._split_merge import sort_records, split_merge
from ._state import N_SLOTS, STAGE, fill_cache, update_clusters

PASS, PASSED, NO_PASS = 1, 2, 3  # stages: memberships are next, are done, are left out
# floats: running chance that a record would be let into the bin of another; that one drawn anew is in another cell
OPENNESS, DOUBT = 4, 5
N_PAIRS = 16  # on which a sweep of the warm-up measures it


class Cells(ReUse):
    """Gibbs over clusters, random-walk moves of parameters, splits and merges, all by g(z | θ).

    For Haar coefficients, binomial releases, and (as ``Bins``, which it resolves to) histograms of all records, with
    kernels that know steps of their parameters.  Exact.

    Parameters
    ----------
    n_moves : int, default=1
        Moves of each cluster's parameters in a sweep, each first in location, then in spread.
    n_split_merge : int, default=20
        Attempts to split or merge clusters in a sweep; about half of them where the release tells cells apart.

    References
    ----------
    Favaro & Teh (2013) for the pool of empty clusters; Beraha, Favaro, Rao, §3.3, on integrating records out.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Cells
    >>> Cells(n_moves=4)
    Cells(n_moves=4)
    """

    kernel_needs = ("steps",)
    needs_noise_free = False
    needs_marginal_channel = True
    needs_cells = True
    needs_order = True
    takes_histograms = True
    takes_correlated = frozenset()

    def __init__(self, n_moves: int = 1, n_split_merge: int = 20) -> None:
        self.n_moves = n_moves
        self.n_split_merge = n_split_merge

    def check(self) -> None:
        check_count(self, "n_moves", self.n_moves)
        check_count(self, "n_split_merge", self.n_split_merge)

    def resolve(self, mechanism: Any, kernel: Any, mixing: Any = None) -> "MixtureSampler":
        is_histogram = mechanism is not None and mechanism.is_histogram
        return (Bins if is_histogram else Cells)(**self.get_params())

    def _lower(self, **context):
        fields = {"n_aux": 1, "n_rounds": float(self.n_moves), "n_tries": float(self.n_split_merge)}
        return lower(type(self), fields)

    @compiled
    def prepare(self, channel, kernel, theta, work, k, is_new):
        if is_new:
            fill_cache(channel, kernel, theta, k)

    @compiled
    def chances(self, channel, kernel, Z, i, records, theta, work, n_slots):
        size = channel.last_cell + 1
        first, whole = theta.shape[1] - size, size // 4 * 4
        for k in range(n_slots):
            work[CHANCE, k] = 0.0
        for c in range(0, whole, 4):  # four at a time: the sums wait in memory
            w, x, y, z = (
                channel.weight(Z, i, c),
                channel.weight(Z, i, c + 1),
                channel.weight(Z, i, c + 2),
                channel.weight(Z, i, c + 3),
            )
            at = first + c
            for k in range(n_slots):
                even = w * theta[k, at] + x * theta[k, at + 1]
                work[CHANCE, k] += even + (y * theta[k, at + 2] + z * theta[k, at + 3])
        for c in range(whole, size):
            weight = channel.weight(Z, i, c)
            for k in range(n_slots):
                work[CHANCE, k] += weight * theta[k, first + c]
        for k in range(n_slots):
            work[CHANCE, k] *= work[MASS, k]

    @compiled
    def rescue(self, channel, kernel, Z, i, records, theta, work, n_slots):
        """Products of masses that underflow stay as they are: a sum of 0 leaves the record where it is."""
        total = 0.0
        for k in range(n_slots):
            total += work[CHANCE, k]
        return total

    # moves of parameters: records are integrated out

    @compiled
    def shift(self, rng, channel, kernel, Z, order, first, last, theta, k, to, records, levels):
        size, at, gain, ratio = channel.last_cell + 1, theta.shape[1] - channel.last_cell - 1, 0.0, 1.0
        whole = size // 4 * 4
        old, new = np.empty(size), np.empty(size)  # along memory, which rows of theta are not
        for c in range(size):
            old[c], new[c] = theta[k, at + c], theta[to, at + c]
        for r in range(first, last):
            i = order[r]
            before = before_1 = before_2 = before_3 = 0.0  # four sums: the additions need not wait for each other
            after = after_1 = after_2 = after_3 = 0.0
            for c in range(0, whole, 4):
                w, x, y, z = (
                    channel.weight(Z, i, c),
                    channel.weight(Z, i, c + 1),
                    channel.weight(Z, i, c + 2),
                    channel.weight(Z, i, c + 3),
                )
                before += w * old[c]
                before_1 += x * old[c + 1]
                before_2 += y * old[c + 2]
                before_3 += z * old[c + 3]
                after += w * new[c]
                after_1 += x * new[c + 1]
                after_2 += y * new[c + 2]
                after_3 += z * new[c + 3]
            for c in range(whole, size):
                weight = channel.weight(Z, i, c)
                before += weight * old[c]
                after += weight * new[c]
            after = (after + after_1) + (after_2 + after_3)
            if after <= 0.0:
                return -inf
            step = after / ((before + before_1) + (before_2 + before_3))
            if 1e-50 < step < 1e50 and 1e-200 < ratio < 1e200:  # one logarithm for many records
                ratio *= step
            else:
                gain += log(step)
        return gain + log(ratio)

    @compiled
    def keep(self, channel, kernel, Z, order, first, last, theta, k, to, records, levels):
        """There is no record to move."""

    @compiled
    def undo(self, channel, Z, order, first, last, records, levels):
        """Nothing was changed."""

    @compiled
    def pass_share(self, rng, channel, Z, state, warming_up):
        """Probability that a sweep goes over the records one by one."""
        return 1.0

    @compiled
    def move_share(self, state):
        """Probability that a sweep moves parameters with the records integrated out."""
        doubt = state.floats[DOUBT]
        return 1.0 if doubt == 0.0 else min(max(2.0 * doubt, 0.1), 1.0)

    @compiled
    def attempts(self, state):
        """To split or merge, in a sweep: as many as half fewer where cells are known, and the passes do more."""
        return int(max(0.5 * (1.0 + self.move_share(state)) * self.n_tries, 1.0))

    @compiled
    def move_given_records(self, rng, channel, kernel, Z, state, tune):
        """The kernel's own update of the parameters, given records drawn exactly: the better, the less noise."""
        doubt = impute_by_cell(rng, channel, kernel, Z, state)
        if tune:
            state.floats[DOUBT] = running_mean(state.floats[DOUBT], doubt)
        update_clusters(rng, self.n_aux, channel, kernel, state, tune)

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        ints = state.ints
        if ints[STAGE] == 0:
            ints[STAGE] = PASS if rng.random() < self.pass_share(rng, channel, Z, state, warming_up) else NO_PASS
        if ints[STAGE] == PASS:
            if not reuse_pass(self, rng, channel, kernel, mixing, Z, state):
                return False
            ints[STAGE] = PASSED
        if state.counts.size < ints[N_SLOTS] + int(self.n_tries) + 1:
            return False
        sort_records(state)
        if ints[STAGE] == PASSED:
            self.move_given_records(rng, channel, kernel, Z, state, warming_up)
        if rng.random() < self.move_share(state):
            for _ in range(int(self.n_rounds)):
                noncentred_moves(self, rng, channel, kernel, Z, state, warming_up)
        split_merge(self, rng, self.attempts(state), channel, kernel, mixing, Z, state)
        ints[STAGE] = 0
        return True


class Bins(Cells):
    """The same on a histogram of all records: each is known up to its bin, in which ``records`` has it anywhere.

    A cluster's parameters move given its records, drawn within their bins; and together with these bins, drawn anew
    from the kernel, so that only the release decides.  Use ``Cells``.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Bins
    >>> Bins()
    Bins()
    """

    needs_levels = True  # the bin that a record would move to

    @compiled
    def take_off(self, channel, Z, records, i):
        channel.take_off(Z, records, i)

    @compiled
    def put_on(self, rng, channel, kernel, Z, i, records, theta, k):
        records[i, 0, 0] = channel.centre(draw_bin(rng, channel, Z, theta, k))
        channel.put_on(Z, records, i)

    @compiled
    def shift(self, rng, channel, kernel, Z, order, first, last, theta, k, to, records, levels):
        """Draw bins from the kernel of slot ``to``: the log ratio of the release's density; the counts follow."""
        gain, below = -log_release(channel, Z), np.empty(channel.last_cell + 1)
        accumulate_masses(channel, theta, to, below)
        for r in range(first, last):
            new = draw_bin_of_kernel(rng, below)
            levels[order[r]] = new
            Z[1, channel.bin(records[order[r], 0, 0])] -= 1.0
            Z[1, new] += 1.0
        return gain + log_release(channel, Z)

    @compiled
    def keep(self, channel, kernel, Z, order, first, last, theta, k, to, records, levels):
        for r in range(first, last):
            records[order[r], 0, 0] = channel.centre(int(levels[order[r]]))
        for b in range(channel.last_cell + 1):
            channel.count(Z, b, 0.0)

    @compiled
    def undo(self, channel, Z, order, first, last, records, levels):
        for r in range(first, last):
            Z[1, int(levels[order[r]])] -= 1.0
            Z[1, channel.bin(records[order[r], 0, 0])] += 1.0

    @compiled
    def pass_share(self, rng, channel, Z, state, warming_up):
        """Where the release tells bins hardly apart, splits and merges alone move records better."""
        if warming_up:
            state.floats[OPENNESS] = running_mean(state.floats[OPENNESS], openness(rng, channel, Z, state))
        return min(max((1.0 - state.floats[OPENNESS]) / 0.2, 0.2), 1.0)

    @compiled
    def move_share(self, state):
        return 0.5

    @compiled
    def attempts(self, state):
        return int(self.n_tries)

    @compiled
    def move_given_records(self, rng, channel, kernel, Z, state, tune):
        """The kernel's own update of the parameters, given records drawn within their bins."""
        records = state.records
        for i in range(state.alloc.size):
            b = channel.bin(records[i, 0, 0])
            y = channel.draw_within(rng, kernel, state.theta, state.alloc[i], b)
            records[i, 0, 0] = y if channel.bin(y) == b else channel.centre(b)  # rounding must not change counts
        update_clusters(rng, self.n_aux, channel, kernel, state, tune)


@helper
def running_mean(old, value):
    """An average that forgets; 0 where nothing was measured yet."""
    return value if old == 0.0 else old + 0.05 * (value - old)


@helper
def impute_by_cell(rng, channel, kernel, Z, state):
    """Every record from its exact conditional: its cell, then the kernel within.  Needs ``order``.

    Returns the mean probability that another draw would be in another cell.
    """
    theta, order, size, first, doubt = state.theta, state.order, channel.last_cell + 1, 0, 0.0
    at, whole = theta.shape[1] - size, size // 4 * 4
    mass, chances = np.empty(size), np.empty(size)
    for k in range(state.ints[N_SLOTS]):
        for c in range(size):
            mass[c] = theta[k, at + c]
        last = first + int(state.counts[k])
        for r in range(first, last):
            i = order[r]
            for c in range(size):
                chances[c] = channel.weight(Z, i, c) * mass[c]
            even, odd, more, rest = 0.0, 0.0, 0.0, 0.0
            for c in range(0, whole, 4):
                even += chances[c]
                odd += chances[c + 1]
                more += chances[c + 2]
                rest += chances[c + 3]
            for c in range(whole, size):
                even += chances[c]
            total = (even + odd) + (more + rest)
            u, chosen = rng.random() * total, 0
            for c in range(size):
                if chances[c] > 0.0:
                    chosen = c
                    u -= chances[c]
                    if u < 0.0:
                        break
            doubt += 1.0 - chances[chosen] / total if total > 0.0 else 0.0
            state.records[i, 0, 0] = channel.draw_within(rng, kernel, theta, k, chosen)
        first = last
    return doubt / order.size


@helper
def openness(rng, channel, Z, state):
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
def draw_bin(rng, channel, Z, theta, k):
    """A record's bin given its cluster and the release."""
    first, total, chosen = theta.shape[1] - channel.last_cell - 1, 0.0, 0
    for b in range(channel.last_cell + 1):
        total += Z[0, b] * theta[k, first + b]
    u = rng.random() * total
    for b in range(channel.last_cell + 1):
        mass = Z[0, b] * theta[k, first + b]
        if mass > 0.0:
            chosen = b
            u -= mass
            if u < 0.0:
                break
    return chosen


@helper
def accumulate_masses(channel, theta, k, below):
    """Write the mass of cluster k up to each bin's end into ``below``."""
    first, total = theta.shape[1] - channel.last_cell - 1, 0.0
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
