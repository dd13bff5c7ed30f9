"""Samplers that keep the mixing measure: the private slice sampler, and its exact-draw version.

Beraha et al., §3.2, after Kalli, Griffin & Walker (2011).  One sweep, given the partition and the clusters' parameters:

1. P: occupied weights Dirichlet(n_k - d, α + dK); the rest of P is a Pitman–Yor measure with base measure G0 (Pitman
   1996). This is the law of P given the partition, free of stick labels, so that clusters need no label moves to mix.
2. u_i ~ U(0, w_{c_i}), and sticks of the rest until less than min u is left: atoms with w_k > u_i are then all known.
3. c_i among the atoms with w_k > u_i, by the likelihood; y_i given c_i; θ_k given the records in k.

The slice level may depend on P only: levels by place in the list would depend on which atoms were occupied before.  So
a heavy tail of weights (Pitman–Yor with a large discount) needs more sticks than memory holds: ``max_discount``.
"""

from math import exp, inf

from .._compiled import compiled, helper
from ._base import MixtureSampler
from ._state import (
    CONCENTRATION,
    CURSOR,
    N_CLUSTERS,
    N_FREE,
    N_SLOTS,
    compact,
    fill_cache,
    note_acceptance,
    update_clusters,
)

# rows of ``state.work``
WEIGHT, LOG_LIKELIHOOD, BOUND = 0, 1, 2
# floats of this sampler: what is left of P beyond the atoms in slots, and the slice's lowest level
REST, LOWEST = 4, 5


class Slice(MixtureSampler):
    """Private slice sampler: clusters by f(y | θ), records by a Metropolis step with proposal f(· | θ).

    Exact for every channel whose density can be evaluated and every kernel that can be drawn from.

    References
    ----------
    Beraha, Favaro, Rao, §3.2; Kalli, Griffin & Walker (2011); the Metropolis step is Ju et al. (2022)'s.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Slice
    >>> Slice()
    Slice()
    """

    has_acceptance = True
    takes_histograms = True
    needs_levels = True
    max_discount = 0.35

    @compiled
    def log_allocation(self, channel, kernel, Z, i, records, theta, k):
        return kernel.log_record(theta, k, records, i)

    @compiled
    def update_record(self, rng, channel, kernel, Z, i, records, theta, k):
        """Each feature by its own Metropolis step; returns (lowest log acceptance ratio, number accepted)."""
        lowest, accepted = 0.0, 0
        for j in range(kernel.n_features):
            y = records[i, 0, j]
            proposal = channel.propose(rng, kernel, Z, i, j, theta, k)
            gain = channel.log_weight(kernel, Z, i, j, theta, k, proposal)
            gain -= channel.log_weight(kernel, Z, i, j, theta, k, y)
            lowest = min(lowest, gain)
            if gain >= 0.0 or rng.random() < exp(gain):
                records[i, 0, j] = proposal
                accepted += 1
        return lowest, accepted

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if state.ints[CURSOR] == 0:
            compact(state)
            draw_occupied_weights(rng, mixing, state)
        if not extend_sticks(rng, channel, kernel, mixing, state):
            return False
        allocate(self, rng, channel, kernel, Z, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


class Conditional(Slice):
    """Exact-draw conditional sampler: clusters by g(z | θ), the records integrated out; records drawn exactly.

    Needs the marginal channel in closed form (DESIGN 2.2).  Nothing is rejected, at any ε.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Conditional
    >>> Conditional()
    Conditional()
    """

    has_acceptance = False
    needs_marginal_channel = True

    @compiled
    def log_allocation(self, channel, kernel, Z, i, records, theta, k):
        return kernel.log_marginal_record(channel, Z, i, theta, k)

    @compiled
    def update_record(self, rng, channel, kernel, Z, i, records, theta, k):
        for j in range(kernel.n_features):
            records[i, 0, j] = channel.impute(rng, kernel, Z, i, j, theta, k)
        return 0.0, kernel.n_features


@helper
def draw_occupied_weights(rng, mixing, state):
    """Step 1, and the slice levels of step 2."""
    n_clusters = state.ints[N_CLUSTERS]
    rest = rng.standard_gamma(mixing.fresh_weight(state.floats[CONCENTRATION], n_clusters))
    total = rest
    for k in range(n_clusters):
        state.work[WEIGHT, k] = rng.standard_gamma(state.counts[k] - mixing.discount)
        total += state.work[WEIGHT, k]
    for k in range(n_clusters):
        state.work[WEIGHT, k] /= total
    lowest = inf
    for i in range(state.alloc.size):
        state.levels[i] = rng.random() * state.work[WEIGHT, state.alloc[i]]
        lowest = min(lowest, state.levels[i])
    state.floats[REST] = rest / total
    state.floats[LOWEST] = lowest
    state.ints[CURSOR] = 1


@helper
def extend_sticks(rng, channel, kernel, mixing, state):
    """Step 2: atoms of the unseen part of P until less than the lowest level is left.  False when out of slots."""
    while state.floats[REST] > state.floats[LOWEST]:
        k = state.ints[N_SLOTS]
        if k == state.counts.size:
            return False
        a = rng.standard_gamma(1.0 - mixing.discount)
        b = rng.standard_gamma(mixing.fresh_weight(state.floats[CONCENTRATION], k + 1))
        state.work[WEIGHT, k] = state.floats[REST] * a / (a + b)
        state.floats[REST] *= b / (a + b)
        kernel.draw_prior(rng, state.theta, k)
        fill_cache(channel, kernel, state.theta, k)
        state.ints[N_SLOTS] += 1
    state.ints[CURSOR] = 0
    return True


@helper
def allocate(sampler, rng, channel, kernel, Z, state):
    """Step 3: c_i, then y_i, record by record; the records are independent given P."""
    work, n_slots = state.work, state.ints[N_SLOTS]
    state.counts[:n_slots] = 0.0
    largest = 0.0
    for k in range(n_slots - 1, -1, -1):  # largest weight from here on: a record looks no further than it needs
        largest = max(largest, work[WEIGHT, k])
        work[BOUND, k] = largest
    lowest, n_accepted = 0.0, 0
    for i in range(state.alloc.size):
        channel.take_off(Z, state.records, i)
        top, n_seen = -inf, 0
        while n_seen < n_slots and work[BOUND, n_seen] > state.levels[i]:
            k = n_seen
            work[LOG_LIKELIHOOD, k] = -inf
            if work[WEIGHT, k] > state.levels[i]:
                work[LOG_LIKELIHOOD, k] = sampler.log_allocation(channel, kernel, Z, i, state.records, state.theta, k)
                top = max(top, work[LOG_LIKELIHOOD, k])
            n_seen += 1
        k = draw_by_log_weight(rng, work, n_seen, top, state.alloc[i])
        state.alloc[i] = k
        state.counts[k] += 1.0
        low, accepted = sampler.update_record(rng, channel, kernel, Z, i, state.records, state.theta, k)
        channel.put_on(Z, state.records, i)
        lowest = min(lowest, low)
        n_accepted += accepted
    n_clusters = 0
    for k in range(n_slots):
        n_clusters += state.counts[k] > 0.0
    state.ints[N_CLUSTERS] = n_clusters
    state.ints[N_FREE] = 0
    note_acceptance(state, state.alloc.size * kernel.n_features, n_accepted, lowest)


@helper
def draw_by_log_weight(rng, work, n_slots, top, current):
    """Draw a slot with probability proportional to exp(work[1, k]); stay where no weight is finite."""
    if top == -inf:
        return current
    total = 0.0
    for k in range(n_slots):
        total += exp(work[LOG_LIKELIHOOD, k] - top)
    u = rng.random() * total
    chosen = current
    for k in range(n_slots):
        weight = exp(work[LOG_LIKELIHOOD, k] - top)
        if weight > 0.0:
            chosen = k
            u -= weight
            if u < 0.0:
                break
    return chosen
