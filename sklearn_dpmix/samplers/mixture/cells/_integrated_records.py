"""Channels of cells (``mechanisms._cells``) with the records integrated out.

On such a channel, g(z | θ) costs one product per cell, so memberships, parameters, splits and merges can all be decided
by it, and nothing holds anything else in place.
"""

from math import inf, log

import numpy as np

from ...._base.compiled import compiled, helper, lower
from .._places import BIN_MOVE_RATE, CELL_CHANGE_RATE, MASS, N_SLOTS, NO_PASS, PASS, PASSED, PROBABILITY, STAGE
from .._reuse import ReUse, reuse_pass
from .._sampler import check_count
from .._state import fill_cache, running_mean, update_clusters
from ..moves._noncentred import noncentred_moves
from ..moves._split_merge import sort_records, split_merge


class CellSampler(ReUse):
    """Base class of samplers for such channels; by itself it is the sampler for releases of single records."""

    kernel_needs = ("steps",)
    needs_noise_free = False
    needs_marginal_channel = True
    needs_cells = True
    needs_order = True
    keeps_records = False
    takes_histograms = True
    takes_correlated = frozenset()
    float_ranges = {BIN_MOVE_RATE: (0.0, 1.0 + 1e-9), CELL_CHANGE_RATE: (-1e-9, 1.0 + 1e-9)}

    def __init__(self, n_moves: int = 1, n_split_merge: int = 20) -> None:
        self.n_moves = n_moves
        self.n_split_merge = n_split_merge

    def check(self) -> None:
        check_count(self, "n_moves", self.n_moves)
        check_count(self, "n_split_merge", self.n_split_merge)

    def _lower(self, **context):
        fields = {"n_aux": 1, "n_rounds": float(self.n_moves), "n_tries": float(self.n_split_merge)}
        return lower(type(self), fields)

    @compiled
    def prepare(self, channel, kernel, theta, work, k, is_new):
        if is_new:
            fill_cache(channel, kernel, theta, k)

    @compiled
    def weigh_clusters(self, channel, kernel, Z, i, records, theta, work, n_slots):
        size = channel.last_cell + 1
        first, whole = theta.shape[1] - size, size // 4 * 4
        for k in range(n_slots):
            work[PROBABILITY, k] = 0.0
        for c in range(0, whole, 4):  # four at a time: the sums wait in memory
            w, x = channel.weight(Z, i, c), channel.weight(Z, i, c + 1)
            y, z = channel.weight(Z, i, c + 2), channel.weight(Z, i, c + 3)
            at = first + c
            for k in range(n_slots):
                even = w * theta[k, at] + x * theta[k, at + 1]
                work[PROBABILITY, k] += even + (y * theta[k, at + 2] + z * theta[k, at + 3])
        for c in range(whole, size):
            weight = channel.weight(Z, i, c)
            for k in range(n_slots):
                work[PROBABILITY, k] += weight * theta[k, first + c]
        for k in range(n_slots):
            work[PROBABILITY, k] *= work[MASS, k]

    @compiled
    def weigh_in_logs(self, channel, kernel, Z, i, records, theta, work, n_slots):
        """Products of masses that underflow are not changed: a sum of 0 leaves the record where it is."""
        total = 0.0
        for k in range(n_slots):
            total += work[PROBABILITY, k]
        return total

    # moves of parameters: records are integrated out

    @compiled
    def shift(self, rng, channel, kernel, Z, state, first, last, k, to):
        theta, size, gain, ratio = state.theta, channel.last_cell + 1, 0.0, 1.0
        at, whole = channel.first_mass(theta), size // 4 * 4
        old, new = np.empty(size), np.empty(size)  # along memory, which rows of theta are not
        for c in range(size):
            old[c], new[c] = theta[k, at + c], theta[to, at + c]
        for r in range(first, last):
            i = state.order[r]
            before = before_1 = before_2 = before_3 = 0.0  # four sums: the additions need not wait for each other
            after = after_1 = after_2 = after_3 = 0.0
            for c in range(0, whole, 4):
                w, x = channel.weight(Z, i, c), channel.weight(Z, i, c + 1)
                y, z = channel.weight(Z, i, c + 2), channel.weight(Z, i, c + 3)
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
    def keep(self, channel, kernel, Z, state, first, last, k, to):
        """There is no record to move."""

    @compiled
    def undo(self, channel, Z, state, first, last):
        """Nothing was changed."""

    @compiled
    def pass_share(self, rng, channel, Z, state, warming_up):
        """Probability that a sweep goes over the records one by one."""
        return 1.0

    @compiled
    def move_share(self, state):
        """Probability that a sweep moves parameters with the records integrated out."""
        change = state.floats[CELL_CHANGE_RATE]
        return 1.0 if change == 0.0 else min(max(2.0 * change, 0.1), 1.0)

    @compiled
    def attempts(self, state):
        """Number of split-merge attempts in a sweep: down to half as many if cells are known, as the passes then do
        more."""
        return int(max(0.5 * (1.0 + self.move_share(state)) * self.n_tries, 1.0))

    @compiled
    def move_given_records(self, rng, channel, kernel, Z, state, tune):
        """The kernel's own update of the parameters, given records drawn exactly: the better, the less noise."""
        change = impute_by_cell(rng, channel, kernel, Z, state)
        if tune:
            state.floats[CELL_CHANGE_RATE] = running_mean(state.floats[CELL_CHANGE_RATE], change)
        update_clusters(rng, self.n_aux, channel, kernel, state, tune)

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        return sweep_cells(self, rng, channel, kernel, mixing, Z, state, warming_up)


@helper
def sweep_cells(sampler, rng, channel, kernel, mixing, Z, state, warming_up):
    """Memberships, parameters, splits and merges.  False when out of slots (resumes at the stage and the cursor)."""
    ints = state.ints
    if ints[STAGE] == 0:
        ints[STAGE] = PASS if rng.random() < sampler.pass_share(rng, channel, Z, state, warming_up) else NO_PASS
    if ints[STAGE] == PASS:
        if not reuse_pass(sampler, rng, channel, kernel, mixing, Z, state):
            return False
        ints[STAGE] = PASSED
    if state.counts.size < ints[N_SLOTS] + int(sampler.n_tries) + 1:
        return False
    sort_records(state)
    if ints[STAGE] == PASSED:
        sampler.move_given_records(rng, channel, kernel, Z, state, warming_up)
    if rng.random() < sampler.move_share(state):
        for _ in range(int(sampler.n_rounds)):
            noncentred_moves(sampler, rng, channel, kernel, Z, state, warming_up)
    split_merge(sampler, rng, sampler.attempts(state), channel, kernel, mixing, Z, state)
    ints[STAGE] = 0
    return True


@helper
def impute_by_cell(rng, channel, kernel, Z, state):
    """Every record from its exact conditional: its cell, then the kernel within.  Needs ``order``.

    Returns the mean probability that another draw would be in another cell.
    """
    theta, order, size, first, change = state.theta, state.order, channel.last_cell + 1, 0, 0.0
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
            change += 1.0 - chances[chosen] / total if total > 0.0 else 0.0
            state.records[i, 0, 0] = channel.draw_within(rng, kernel, theta, k, chosen)
        first = last
    return change / order.size
