"""Imputed records that are moved cheaply and in several ways: a sampler for any additive noise.

One sweep: (1) either the urn pass of private Neal 5 (memberships and records together, which is good under large noise)
or a Gibbs pass over memberships and a move of every record (good under small noise); (2) the clusters' parameters given
the records; (3) a non-centred move of the parameters; (4) non-centred splits and merges.  Each leaves the posterior
invariant.  The share of urn passes and the step sizes are tuned only in the warm-up.
"""

from math import exp

from ..._base.acceptance import ACCEPTED, PROPOSED
from ..._base.compiled import compiled, helper, lower
from ..._base.parameters import is_integer
from ..._base.typing import Array
from .._driver import most_times
from ._neal5 import urn_sweep
from ._places import AFTER_GIBBS, AFTER_URN, GIBBS, N_SLOTS, STAGE, URN, URN_RATE
from ._reuse import ReUse, reuse_pass
from ._state import compact, running_mean, update_clusters
from .moves._noncentred import noncentred_moves
from .moves._split_merge import sort_records, split_merge

REVERSE_SHARE = 0.8


class Interweaved(ReUse):
    """Urn and Gibbs passes over imputed records, interwoven with non-centred moves, splits and merges.

    It is exact for every channel whose density can be evaluated; the kernel needs residuals (``Kernel.CAPABILITIES``).

    Parameters
    ----------
    n_split_merge : int, default=20
        Attempts to split or merge clusters in each sweep; 0 leaves that out.

    References
    ----------
    Beraha et al., Algorithm 1, for the urn pass; Favaro & Teh (2013) for the Gibbs pass; Yu & Meng (2011) for
    interweaving.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Interweaved
    >>> Interweaved(n_split_merge=50)
    Interweaved(n_split_merge=50)
    """

    kernel_needs = ("relative", "residuals", "steps")
    needs_noise_free = False
    moves_records = True
    has_acceptance = True
    needs_order = True
    takes_correlated = frozenset()
    float_ranges = {URN_RATE: (0.0, 1.0)}
    #: whether several sweeps may count as one where draws are worth little, as for the choice of ``Auto``
    chooses_work = False

    def __init__(self, n_split_merge: int = 20) -> None:
        self.n_split_merge = n_split_merge

    def check(self) -> None:
        if not is_integer(self.n_split_merge) or self.n_split_merge < 0:
            given = f"got {self.n_split_merge!r}"
            raise ValueError(f"{type(self).__name__}: n_split_merge must be a non-negative integer, {given}")

    def most_times(self, seen: Array) -> int:
        return most_times(seen.size) if self.chooses_work else 1

    def _lower(self, **context):
        return lower(type(self), {"n_aux": 1, "n_tries": float(self.n_split_merge)})

    # moves of parameters carry residuals along

    @compiled
    def shift(self, rng, channel, kernel, Z, state, first, last, k, to):
        total = 0.0
        for r in range(first, last):
            total += kernel.log_weight_change(channel, Z, state.order[r], state.theta, k, to, state.records)
        return total

    @compiled
    def keep(self, channel, kernel, Z, state, first, last, k, to):
        for r in range(first, last):
            kernel.carry_record(state.theta, k, to, state.records, state.order[r])

    @compiled
    def undo(self, channel, Z, state, first, last):
        """Nothing was changed yet."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        ints = state.ints
        if not urn_or_gibbs(self, channel, kernel, mixing, Z, state, rng, warming_up):
            return False
        if ints[STAGE] == AFTER_GIBBS:
            update_records(rng, channel, kernel, Z, state)
            ints[STAGE] = AFTER_URN
        if state.counts.size < ints[N_SLOTS] + int(self.n_tries) + 1:
            return False
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        sort_records(state)
        noncentred_moves(self, rng, channel, kernel, Z, state, warming_up)
        split_merge(self, rng, int(self.n_tries), channel, kernel, mixing, Z, state)
        ints[STAGE] = 0
        return True


@helper
def urn_or_gibbs(sampler, channel, kernel, mixing, Z, state, rng, warming_up):
    """Memberships, by the urn pass (with the records) or by a Gibbs pass given them.  False when out of slots."""
    ints = state.ints
    if ints[STAGE] == 0:
        ints[STAGE] = URN if rng.random() < urn_share(state) else GIBBS
    if ints[STAGE] == URN:
        accepted, proposed = state.floats[ACCEPTED], state.floats[PROPOSED]
        if not urn_sweep(sampler.n_aux, channel, kernel, mixing, Z, state, rng):
            return False
        if warming_up:
            rate = (state.floats[ACCEPTED] - accepted) / (state.floats[PROPOSED] - proposed)
            state.floats[URN_RATE] = running_mean(state.floats[URN_RATE], rate)
        compact(state)
        ints[STAGE] = AFTER_URN
    if ints[STAGE] == GIBBS:
        if not reuse_pass(sampler, rng, channel, kernel, mixing, Z, state):
            return False
        ints[STAGE] = AFTER_GIBBS
    return True


@helper
def urn_share(state):
    """Probability of an urn pass: near 1 if about a third of its proposals are accepted, near 0 if few are."""
    rate = state.floats[URN_RATE]
    return 0.5 if rate == 0.0 else min(max((rate / 0.35) ** 2, 0.05), 0.95)


@helper
def update_records(rng, channel, kernel, Z, state):
    """A Metropolis move of every y_i given its cluster: proposed from the kernel, or around the release."""
    records, theta = state.records, state.theta
    reverse = channel.can_reverse() and rng.random() < REVERSE_SHARE
    for i in range(state.alloc.size):
        k = state.alloc[i]
        for j in range(kernel.n_features):
            y = records[i, 0, j]
            if reverse:
                proposal = channel.draw_reverse(rng, Z, i, j)
                gain = kernel.log_likelihood(theta, k, j, proposal) - kernel.log_likelihood(theta, k, j, y)
                gain += channel.log_reverse(Z, i, j, y) - channel.log_reverse(Z, i, j, proposal)
            else:
                proposal = channel.propose(rng, kernel, Z, i, j, theta, k)
                gain = 0.0
            gain += channel.log_weight(kernel, Z, i, j, theta, k, proposal)
            gain -= channel.log_weight(kernel, Z, i, j, theta, k, y)
            if gain >= 0.0 or rng.random() < exp(gain):
                records[i, 0, j] = proposal
