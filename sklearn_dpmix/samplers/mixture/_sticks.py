"""Steps of samplers that keep the mixing measure: its weights, slice levels, sticks, and the records given it.

Numbers of steps are as in ``_conditional``.
"""

from math import exp, inf

from ..._base.acceptance import note_acceptance
from ..._base.compiled import helper
from ._places import BOUND, CONCENTRATION, CURSOR, LOG_LIKELIHOOD, LOWEST, N_CLUSTERS, N_FREE, N_SLOTS, REST, WEIGHT
from ._state import fill_cache


@helper
def draw_weights(rng, mixing, state):
    """Step 1, and the slice levels of step 2."""
    n_clusters = state.ints[N_CLUSTERS]
    rest = rng.standard_gamma(mixing.new_cluster_weight(state.floats[CONCENTRATION], n_clusters))
    total = rest
    for k in range(n_clusters):
        state.work[WEIGHT, k] = rng.standard_gamma(state.counts[k] - mixing.discount)
        total += state.work[WEIGHT, k]
    for k in range(n_clusters):
        state.work[WEIGHT, k] /= total
    state.floats[REST] = rest / total
    state.floats[LOWEST] = inf
    for i in range(state.alloc.size):
        state.levels[i] = rng.random() * state.work[WEIGHT, state.alloc[i]]
        state.floats[LOWEST] = min(state.floats[LOWEST], state.levels[i])
    state.ints[CURSOR] = 1


@helper
def extend_sticks(rng, channel, kernel, mixing, state):
    """Step 2: atoms of the unseen part of P until less than the lowest level is left.  False when out of slots."""
    while state.floats[REST] > state.floats[LOWEST]:
        k = state.ints[N_SLOTS]
        if k == state.counts.size:
            return False
        a = rng.standard_gamma(1.0 - mixing.discount)
        b = rng.standard_gamma(mixing.new_cluster_weight(state.floats[CONCENTRATION], k + 1))
        state.work[WEIGHT, k] = state.floats[REST] * a / (a + b)
        state.floats[REST] *= b / (a + b)
        kernel.draw_prior(rng, state.theta, k)
        fill_cache(channel, kernel, state.theta, k)
        state.ints[N_SLOTS] += 1
    return True


@helper
def allocate(sampler, rng, channel, kernel, Z, state):
    """Step 3: c_i, then y_i, of records that are independent given P."""
    bound_weights(state)
    work, counts, n_slots = state.work, state.counts, state.ints[N_SLOTS]
    counts[:n_slots] = 0.0
    log_likelihood, lowest, n_accepted = work[LOG_LIKELIHOOD], 0.0, 0
    for i in range(state.alloc.size):
        channel.take_off(Z, state.records, i)
        top, n_seen = -inf, 0
        while n_seen < n_slots and work[BOUND, n_seen] > state.levels[i]:
            k = n_seen
            log_likelihood[k] = -inf
            if work[WEIGHT, k] > state.levels[i]:
                log_likelihood[k] = sampler.log_allocation(channel, kernel, Z, i, state.records, state.theta, k)
                top = max(top, log_likelihood[k])
            n_seen += 1
        k = draw_by_log_weight(rng, log_likelihood, n_seen, top, state.alloc[i])
        state.alloc[i] = k
        counts[k] += 1.0
        low, accepted = sampler.update_record(rng, channel, kernel, Z, i, state.records, state.theta, k)
        channel.put_on(Z, state.records, i)
        lowest = min(lowest, low)
        n_accepted += accepted
    n_clusters = 0
    for k in range(n_slots):
        n_clusters += counts[k] > 0.0
    state.ints[N_CLUSTERS] = n_clusters
    state.ints[N_FREE] = 0
    note_acceptance(state.floats, state.alloc.size * kernel.n_features, n_accepted, lowest)
    state.ints[CURSOR] = 0


@helper
def bound_weights(state):
    """Largest weight from each atom on: in step 3 a record looks no further than it needs."""
    largest = 0.0
    for k in range(state.ints[N_SLOTS] - 1, -1, -1):
        largest = max(largest, state.work[WEIGHT, k])
        state.work[BOUND, k] = largest


@helper
def draw_by_log_weight(rng, log_weight, n_slots, top, current):
    """Draw a slot with probability proportional to exp(log_weight[k]); stay if no weight is finite."""
    if top == -inf:
        return current
    total = 0.0
    for k in range(n_slots):
        total += exp(log_weight[k] - top)
    u = rng.random() * total
    chosen = current
    for k in range(n_slots):
        weight = exp(log_weight[k] - top)
        if weight > 0.0:
            chosen = k
            u -= weight
            if u < 0.0:
                break
    return chosen
