"""Neal 2 and Neal 3: Gibbs over clusters with a conjugate base measure (Neal 2000; Beraha et al., §3.3).

Both see noise-free "records": the records themselves without a mechanism, or a release whose Gaussian noise the
kernel has absorbed (``ConvolvedNormalKernel``, the τ² trick).
"""

from math import exp, inf
from typing import Any

import numpy as np

from ..._base.compiled import compiled, entry, helper
from ..._base.restore import require
from ..._base.typing import Array
from ._places import CONCENTRATION, CURSOR, N_CLUSTERS, N_SLOTS
from ._sampler import MixtureSampler
from ._state import occupy, recompute_stats, take_slot, update_clusters, vacate


class Neal3(MixtureSampler):
    """Collapsed Gibbs: the parameters of clusters are integrated out of the allocations.

    References
    ----------
    Neal (2000), Algorithm 3; Beraha et al., §3.3.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Neal3
    >>> Neal3()
    Neal3()
    """

    kernel_needs = ("predictive",)
    needs_noise_free = True

    def restored(self, values: Any, Z: Array, kernel: Any, mixing: Any, state: Any, fresh: Any, n_sweeps: int) -> Any:
        state = super().restored(values, Z, kernel, mixing, state, fresh, n_sweeps)
        right = state._replace(stats=np.zeros_like(state.stats))
        put_stats(values[2], right)
        if n_sweeps:
            size = 1.0 + np.max(np.abs(right.stats))
            require(np.abs(state.stats - right.stats) < 1e-9 * size, "stats", "are not those of the records")
        return state

    @compiled
    def log_existing(self, kernel, i, state, k):
        """Log density of record i in cluster k, which does not hold it."""
        return kernel.log_predictive_record(state.stats, k, state.counts[k], state.records, i)

    @compiled
    def start_cluster(self, rng, kernel, state, k):
        """Nothing to draw: the parameters are drawn at the end of the sweep."""

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not collapsed_sweep(self, kernel, mixing, state, rng):
            return False
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


class Neal2(Neal3):
    """Gibbs that keeps the parameters of clusters; new clusters come from the base measure's predictive density.

    References
    ----------
    Neal (2000), Algorithm 2; Beraha et al., §3.3.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Neal2
    >>> Neal2()
    Neal2()
    """

    @compiled
    def log_existing(self, kernel, i, state, k):
        return kernel.log_record(state.theta, k, state.records, i)

    @compiled
    def start_cluster(self, rng, kernel, state, k):
        """θ of a new cluster given its one record."""
        kernel.update_params(rng, state.theta, k, state.stats, 1.0)


@entry
def put_stats(kernel, state):
    """Sufficient statistics of all clusters, from the records."""
    recompute_stats(1, kernel, state)


@helper
def add_record(kernel, state, i, k, sign):
    """Put record i into cluster k's statistics (sign 1), or take it off (-1)."""
    kernel.add_record(state.stats, k, state.records, i, 0, sign)
    state.counts[k] += sign
    if state.counts[k] == 0.0:
        for s in range(state.stats.shape[1]):
            state.stats[k, s] = 0.0


@helper
def collapsed_sweep(sampler, kernel, mixing, state, rng):
    """c_i given all other clusters, record by record.  False when out of slots (resumes at the cursor)."""
    n, stop = state.alloc.size, state.alloc.size
    for i in range(state.ints[CURSOR], n):
        empty = take_slot(state)
        if empty < 0:
            stop = i
            break
        k = state.alloc[i]
        add_record(kernel, state, i, k, -1.0)
        if state.counts[k] == 0.0:
            vacate(state, k)
            empty = k
        for s in range(state.stats.shape[1]):
            state.stats[empty, s] = 0.0
        fresh = mixing.new_cluster_weight(state.floats[CONCENTRATION], state.ints[N_CLUSTERS])
        top, total, chosen = -inf, 0.0, empty
        for c in range(state.ints[N_SLOTS] + 1):
            if c < state.ints[N_SLOTS]:
                if state.counts[c] == 0.0:
                    continue
                weight = state.counts[c] - mixing.discount
                value = sampler.log_existing(kernel, i, state, c)
            else:
                c = empty
                weight, value = fresh, kernel.log_predictive_record(state.stats, empty, 0.0, state.records, i)
            if value > top:
                total *= exp(top - value)
                top = value
            mass = weight * exp(value - top) if value > -inf else 0.0
            total += mass
            if rng.random() * total < mass:
                chosen = c
        add_record(kernel, state, i, chosen, 1.0)
        if chosen == empty:
            occupy(state)
            sampler.start_cluster(rng, kernel, state, chosen)
        state.alloc[i] = chosen
    state.ints[CURSOR] = stop % n
    return stop == n
