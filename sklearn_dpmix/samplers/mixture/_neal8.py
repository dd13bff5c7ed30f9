"""Neal 8 on the closed-form marginal channel: Gibbs over clusters with auxiliary parameters (Neal 2000, Algorithm 8).

The confidential records are integrated out of the allocations (g(z | θ) in place of f(y | θ)); they are drawn exactly,
but only for the update of θ.
"""

from math import exp, inf

from ..._base.compiled import compiled, helper, lower
from ._places import CONCENTRATION, CURSOR, N_CLUSTERS, N_SLOTS
from ._sampler import MixtureSampler, check_count
from ._state import copy_params, fill_cache, occupy, take_slot, update_clusters, vacate


class Neal8(MixtureSampler):
    """Gibbs sampler of clusters given z, with ``n_auxiliary`` candidate new clusters drawn from the base measure.

    It is exact, and needs the marginal channel in closed form.

    Parameters
    ----------
    n_auxiliary : int, default=3
        Number of candidate new clusters for each record.

    References
    ----------
    Neal (2000), Algorithm 8; Beraha et al., eq. (5), for the marginal kernel.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Neal8
    >>> Neal8()
    Neal8()
    """

    needs_marginal_channel = True

    def __init__(self, n_auxiliary: int = 3) -> None:
        self.n_auxiliary = n_auxiliary

    def check(self) -> None:
        check_count(self, "n_auxiliary", self.n_auxiliary)

    def _lower(self, **context):
        return lower(type(self), {"n_aux": 1, "n_candidates": int(self.n_auxiliary)})

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not gibbs_sweep(self.n_candidates, channel, kernel, mixing, Z, state, rng):
            return False
        impute_records(rng, channel, kernel, Z, state)
        update_clusters(rng, 1, channel, kernel, state, warming_up)
        return True


@helper
def impute_records(rng, channel, kernel, Z, state):
    """y_i from its exact conditional, every record."""
    for i in range(state.alloc.size):
        for j in range(kernel.n_features):
            state.records[i, 0, j] = channel.impute(rng, kernel, Z, i, j, state.theta, state.alloc[i])


@helper
def gibbs_sweep(n_candidates, channel, kernel, mixing, Z, state, rng):
    """c_i given all other clusters, record by record.  False when out of slots (resumes at the cursor).

    Every candidate needs its own slot; candidates wait in the first empty ones, and all except the chosen one are
    forgotten. Where record i is alone, its own parameters are the first candidate.
    """
    alloc, counts, theta = state.alloc, state.counts, state.theta
    concentration = state.floats[CONCENTRATION]
    n, stop = alloc.size, alloc.size
    for i in range(state.ints[CURSOR], n):
        if state.ints[N_SLOTS] + n_candidates > counts.size:
            stop = i
            break
        k = alloc[i]
        counts[k] -= 1.0
        n_clusters = state.ints[N_CLUSTERS]
        if counts[k] == 0.0:
            n_clusters -= 1
        n_slots = state.ints[N_SLOTS]
        # without other clusters a new one is certain, though a negative concentration would weigh it below 0
        share = mixing.new_cluster_weight(concentration, n_clusters) / n_candidates if n_clusters > 0 else 1.0
        top, total, chosen = -inf, 0.0, k
        for c in range(n_slots + n_candidates):
            if c < n_slots:
                if counts[c] == 0.0:
                    continue
                weight = counts[c] - mixing.discount
                candidate = c
            else:
                weight = share
                candidate = c
                if c == n_slots and counts[k] == 0.0:
                    candidate = k
                else:
                    kernel.draw_prior(rng, theta, c)
                    fill_cache(channel, kernel, theta, c)
            value = kernel.log_marginal_record(channel, Z, i, theta, candidate)
            if value > top:
                total *= exp(top - value)
                top = value
            mass = weight * exp(value - top) if value > -inf else 0.0
            total += mass
            if rng.random() * total < mass:
                chosen = candidate
        settle(state, i, k, chosen)
    state.ints[CURSOR] = stop % n
    return stop == n


@helper
def settle(state, i, k, chosen):
    """Move record i (removed from cluster k) to ``chosen``; a candidate beyond the used slots gets its own slot."""
    if chosen >= state.ints[N_SLOTS]:
        to = take_slot(state)
        copy_params(state.theta, chosen, to)
        occupy(state)
        chosen = to
    if state.counts[k] == 0.0 and chosen != k:
        vacate(state, k)
    state.alloc[i] = chosen
    state.counts[chosen] += 1.0
