"""Channels of cells (``mechanisms._cells``) with the records integrated out, or known up to their bin.

On such a channel g(z | θ) costs a product a cell, so that memberships, parameters, splits and merges can all be judged
by it: nothing holds anything else in place.  A histogram of all records has no g of one record; there the bins of the
records are kept, and drawn anew from the kernel where a cluster's parameters move.
"""

from math import exp, inf, log

import numpy as np

from .._compiled import compiled, helper, lower
from ._base import check_count
from ._neal8 import impute_records
from ._noncentred import TARGET, noncentred_moves
from ._reuse import CHANCE, MASS, ReUse, reuse_pass
from ._split_merge import sort_records, split_merge
from ._state import (
    KERNEL_STEPS,
    KERNEL_TUNED,
    N_SLOTS,
    STAGE,
    copy_params,
    fill_cache,
    size_bin,
    tune_step,
    update_clusters,
)

PASSED = 1  # stage: memberships are done


class Cells(ReUse):
    """Gibbs over clusters, random-walk moves of parameters, splits and merges, all by g(z | θ).

    For Haar coefficients, binomial releases, and (as ``Bins``, which it resolves to) histograms of all records, with
    kernels that know steps of their parameters.  Exact.

    Parameters
    ----------
    n_moves : int, default=1
        Moves of each cluster's parameters in a sweep, each first in location, then in spread.
    n_split_merge : int, default=20
        Attempts to split or merge clusters in a sweep.

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

    def __init__(self, n_moves=1, n_split_merge=20):
        self.n_moves = n_moves
        self.n_split_merge = n_split_merge

    def check(self):
        check_count(self, "n_moves", self.n_moves)
        check_count(self, "n_split_merge", self.n_split_merge)

    def resolve(self, mechanism, kernel, mixing=None):
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
        size, at, gain = channel.last_cell + 1, theta.shape[1] - channel.last_cell - 1, 0.0
        old, new = np.empty(size), np.empty(size)  # along memory, which rows of theta are not
        for c in range(size):
            old[c], new[c] = theta[k, at + c], theta[to, at + c]
        for r in range(first, last):
            before = after = more_before = more_after = 0.0  # two sums each: additions need not wait for each other
            for c in range(0, size - 1, 2):
                weight, more = channel.weight(Z, order[r], c), channel.weight(Z, order[r], c + 1)
                before += weight * old[c]
                more_before += more * old[c + 1]
                after += weight * new[c]
                more_after += more * new[c + 1]
            if size % 2 == 1:
                weight = channel.weight(Z, order[r], size - 1)
                before += weight * old[size - 1]
                after += weight * new[size - 1]
            after += more_after
            if after <= 0.0:
                return -inf
            gain += log(after / (before + more_before))
        return gain

    @compiled
    def keep(self, channel, kernel, Z, order, first, last, theta, k, to, records, levels):
        """There is no record to move."""

    @compiled
    def undo(self, channel, Z, order, first, last, records, levels):
        """Nothing was changed."""

    @compiled
    def move_given_records(self, rng, channel, kernel, Z, state, tune):
        """The kernel's own update of the parameters, given records drawn exactly: the better, the less noise."""
        impute_records(rng, channel, kernel, Z, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, tune)

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        ints = state.ints
        if ints[STAGE] != PASSED:
            if not reuse_pass(self, rng, channel, kernel, mixing, Z, state):
                return False
            ints[STAGE] = PASSED
        if state.counts.size < ints[N_SLOTS] + int(self.n_tries) + 1:
            return False
        sort_records(state)
        self.move_given_records(rng, channel, kernel, Z, state, warming_up)
        for _ in range(int(self.n_rounds)):
            noncentred_moves(self, rng, channel, kernel, Z, state, warming_up)
        split_merge(self, rng, int(self.n_tries), channel, kernel, mixing, Z, state)
        ints[STAGE] = 0
        return True


class Bins(Cells):
    """The same on a histogram of all records: each is known up to its bin, which ``records`` has the centre of.

    A cluster's parameters move given the bins of its records; and together with these bins, drawn anew from the kernel,
    so that only the release decides.  Use ``Cells``.

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
        gain = -log_release(channel, Z)
        for r in range(first, last):
            new = draw_bin_of_kernel(rng, channel, theta, to)
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
    def move_given_records(self, rng, channel, kernel, Z, state, tune):
        """Random-walk moves of θ_k given the bins of its records, tuned as the other moves are."""
        theta, order, first = state.theta, state.order, 0
        spare, at_mass = state.ints[N_SLOTS], theta.shape[1] - channel.last_cell - 1
        for k in range(spare):
            last, at = first + int(state.counts[k]), KERNEL_STEPS + size_bin(state.counts[k])
            step = exp(state.floats[at])
            kernel.perturb(rng, theta, k, spare, 0, step * kernel.prior_spread(0), step)
            gain = kernel.log_prior(theta, spare, 0) - kernel.log_prior(theta, k, 0)
            if gain > -inf:
                fill_cache(channel, kernel, theta, spare)
                for r in range(first, last):
                    b = at_mass + channel.bin(state.records[order[r], 0, 0])
                    gain += log(theta[spare, b] / theta[k, b]) if theta[spare, b] > 0.0 else -inf
            probability = exp(min(gain, 0.0))
            if rng.random() < probability:
                copy_params(theta, spare, k)
            if tune:
                tune_step(state.floats, KERNEL_TUNED, at, probability, TARGET)
            first = last


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
def draw_bin_of_kernel(rng, channel, theta, k):
    """A bin from the kernel alone."""
    first, chosen = theta.shape[1] - channel.last_cell - 1, 0
    u = rng.random()
    for b in range(channel.last_cell + 1):
        mass = theta[k, first + b]
        if mass > 0.0:
            chosen = b
            u -= mass
            if u < 0.0:
                break
    return chosen
