"""Gibbs over clusters given imputed records, with a pool of empty clusters that is kept (Favaro & Teh 2013, "ReUse").

Neal's Algorithm 8 draws new candidate clusters for every record.  Here a pool of them is part of the state during the
pass: a record that leaves its cluster empty puts that cluster's parameters in a random place of the pool, and if a
record takes a pool cluster, a draw from the base measure replaces it.  This is exact, and the inner loop has neither
draws nor branches.
"""

from math import exp, inf, log

import numpy as np

from ..._base.compiled import compiled, helper
from ..._base.vector import exp_bounded
from ._places import CONCENTRATION, CURSOR, MASS, N_CLUSTERS, N_FREE, N_SLOTS, PEAK, PROBABILITY
from ._sampler import MixtureSampler
from ._state import compact, update_clusters

POOL = 4


class ReUse(MixtureSampler):
    """Gibbs sampler for noise-free records that keeps a pool of empty clusters; for any kernel that can be evaluated.

    References
    ----------
    Favaro & Teh (2013), "MCMC for normalized random measure mixture models", the ReUse algorithm.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import ReUse
    >>> ReUse()
    ReUse()
    """

    kernel_needs: tuple[str, ...] = ("relative",)
    needs_noise_free = True

    # what reuse_pass asks of a sampler: here likelihoods of the records that the state keeps

    @compiled
    def prepare(self, channel, kernel, theta, work, k, is_new):
        """Called for the clusters of the pass, and when a new one's parameters are drawn."""
        work[PEAK, k] = kernel.peak_record(theta, k)

    @compiled
    def weigh_clusters(self, channel, kernel, Z, i, records, theta, work, n_slots):
        """Write the probabilities of record i's clusters, up to a factor, into ``work[PROBABILITY, :n_slots]``."""
        for c in range(n_slots):
            relative = kernel.log_relative_record(theta, c, records, i)
            work[PROBABILITY, c] = work[MASS, c] * work[PEAK, c] * exp_bounded(relative)

    @compiled
    def weigh_in_logs(self, channel, kernel, Z, i, records, theta, work, n_slots):
        """Weights relative to the largest, for a record so far from all clusters that these underflow; their sum."""
        top = -inf
        for c in range(n_slots):
            work[PROBABILITY, c] = -inf
            if work[MASS, c] > 0.0:
                work[PROBABILITY, c] = log(work[MASS, c]) + kernel.log_record(theta, c, records, i)
                top = max(top, work[PROBABILITY, c])
        total = 0.0
        for c in range(n_slots):
            work[PROBABILITY, c] = exp(work[PROBABILITY, c] - top)
            total += work[PROBABILITY, c]
        return total

    @compiled
    def take_off(self, channel, Z, records, i):
        """Called before record i is moved."""

    @compiled
    def put_on(self, rng, channel, kernel, Z, i, records, theta, k):
        """Called after record i was put in cluster k."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not reuse_pass(self, rng, channel, kernel, mixing, Z, state):
            return False
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


@helper
def weigh_counts(sampler, channel, kernel, state, discount):
    """Masses of occupied clusters, and what the sampler looks up of them."""
    state.work[MASS], state.work[PEAK] = 0.0, 0.0
    for k in range(state.ints[N_SLOTS]):
        if state.counts[k] > 0.0:
            state.work[MASS, k] = state.counts[k] - discount
            sampler.prepare(channel, kernel, state.theta, state.work, k, False)


@helper
def add_probabilities(work, padded):
    """Sum of the first ``padded``, a multiple of four: of four sums, whose additions need not wait for each other."""
    even, odd, more, rest = 0.0, 0.0, 0.0, 0.0
    for c in range(0, padded, 4):
        even += work[PROBABILITY, c]
        odd += work[PROBABILITY, c + 1]
        more += work[PROBABILITY, c + 2]
        rest += work[PROBABILITY, c + 3]
    return (even + odd) + (more + rest)


@helper
def draw_slot(rng, work, n_slots, total, k):
    """A slot by its probability; k if none has any."""
    u, chosen = rng.random() * total, k
    for c in range(n_slots):
        if work[PROBABILITY, c] > 0.0:
            chosen = c
            u -= work[PROBABILITY, c]
            if u < 0.0:
                break
    return chosen


@helper
def reuse_pass(sampler, rng, channel, kernel, mixing, Z, state):
    """c_i given all other clusters, record by record.  False when out of slots (resumes at the cursor)."""
    if state.ints[N_SLOTS] + POOL + 1 > state.counts.size:
        return False
    alloc, records, counts, theta, work = state.alloc, state.records, state.counts, state.theta, state.work
    concentration, discount = state.floats[CONCENTRATION], mixing.discount
    n_clusters, n_slots = state.ints[N_CLUSTERS], state.ints[N_SLOTS]
    pool = np.empty(POOL, np.int64)
    n_free = state.ints[N_FREE]
    weigh_counts(sampler, channel, kernel, state, discount)
    for p in range(POOL):
        pool[p] = n_slots
        n_slots += 1
    share = mixing.new_cluster_weight(concentration, n_clusters) / POOL
    for p in range(POOL):
        kernel.draw_prior(rng, theta, pool[p])
        work[MASS, pool[p]] = share
        sampler.prepare(channel, kernel, theta, work, pool[p], True)
    largest = 1.0  # of the densities that what ``exp_bounded`` leaves out may be multiplied by
    for c in range(n_slots):
        largest = max(largest, work[PEAK, c])
    stop = alloc.size
    for i in range(state.ints[CURSOR], alloc.size):
        k = alloc[i]
        sampler.take_off(channel, Z, records, i)
        counts[k] -= 1.0
        work[MASS, k] = counts[k] - discount
        if counts[k] == 0.0:
            p = min(int(rng.random() * POOL), POOL - 1)
            state.free[n_free] = pool[p]
            n_free += 1
            work[MASS, pool[p]] = 0.0
            pool[p] = k
            n_clusters -= 1
            share = mixing.new_cluster_weight(concentration, n_clusters) / POOL
            for q in range(POOL):
                work[MASS, pool[q]] = share
        padded = (n_slots + 7) // 8 * 8  # whole vectors; slots beyond have mass 0
        sampler.weigh_clusters(channel, kernel, Z, i, records, theta, work, padded)
        total = add_probabilities(work, padded)
        if not 1e-250 * largest <= total <= 1e250:  # nor if it is no number
            total = sampler.weigh_in_logs(channel, kernel, Z, i, records, theta, work, n_slots)
        chosen = draw_slot(rng, work, n_slots, total, k)
        alloc[i] = chosen
        counts[chosen] += 1.0
        if counts[chosen] == 1.0:
            n_clusters += 1
            share = mixing.new_cluster_weight(concentration, n_clusters) / POOL
            for p in range(POOL):
                if pool[p] == chosen:
                    if n_free > 0:
                        n_free -= 1
                        pool[p] = state.free[n_free]
                    else:
                        pool[p] = n_slots
                        n_slots += 1
                    kernel.draw_prior(rng, theta, pool[p])
                    sampler.prepare(channel, kernel, theta, work, pool[p], True)
                    largest = max(largest, work[PEAK, pool[p]])
                work[MASS, pool[p]] = share
        work[MASS, chosen] = counts[chosen] - discount
        sampler.put_on(rng, channel, kernel, Z, i, records, theta, chosen)
        if n_slots == counts.size and n_free == 0:
            stop = i + 1
            break
    state.ints[N_SLOTS] = n_slots
    state.ints[N_CLUSTERS] = n_clusters
    compact(state)
    state.ints[CURSOR] = stop % alloc.size
    return stop == alloc.size
