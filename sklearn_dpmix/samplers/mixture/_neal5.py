"""Private Neal 5: a pseudo-marginal Pólya-urn sampler (Beraha et al., Algorithm 1, eqs. 7-8, with ERRATA)."""

from math import exp, log
from typing import Any

from sklearn.base import clone

from ..._base.acceptance import note_acceptance
from ..._base.compiled import compiled, helper, lower
from ..._base.numeric import log_sum_in
from ._places import CONCENTRATION, CURSOR, N_CLUSTERS, N_FREE, N_SLOTS
from ._sampler import MixtureSampler, check_count
from ._state import occupy, take_slot, update_clusters, vacate


class Neal5(MixtureSampler):
    """Private Neal 5: propose a cluster from the urn and new auxiliaries from its kernel, and accept by the channel.

    It is exact for every channel whose density can be evaluated and every kernel from which records can be drawn.

    Parameters
    ----------
    n_auxiliary : int, default=1
        m, the number of auxiliary records for each record.  More of them make the estimate of g more stable at m times
        the cost.  The target of record i is (1/m) Σ_j q(z_i | ỹ_ij) Π_j f(ỹ_ij | θ), so all m count in the update of θ
        (ERRATA).  Noise-free records have no auxiliaries, and m is 1.

    References
    ----------
    Beraha, Favaro, Rao, Algorithm 1; Neal (2000), Algorithm 5, which is what it is without a mechanism.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Neal5
    >>> Neal5(n_auxiliary=5)
    Neal5(n_auxiliary=5)
    """

    has_acceptance = True
    takes_histograms = True
    takes_correlated = frozenset({"noise"})

    def __init__(self, n_auxiliary: int = 1) -> None:
        self.n_auxiliary = n_auxiliary

    def check(self) -> None:
        check_count(self, "n_auxiliary", self.n_auxiliary)

    def resolve(self, mechanism: Any, kernel: Any, mixing: Any = None) -> "MixtureSampler":
        """Without noise m is 1: with m copies of a record, Π_j f(ỹ_ij | θ) would count it m times.

        Under a release of all records too: there no estimate of one record's g is independent of the others'.
        """
        if mechanism is None or mechanism.releases_records or kernel.absorbs_noise or mechanism.is_histogram:
            return clone(self).set_params(n_auxiliary=1)
        return self

    @property
    def n_imputed(self) -> int:  # type: ignore[override]
        return self.n_auxiliary

    def _lower(self, **context):
        return lower(type(self), {"n_aux": int(self.n_auxiliary)})

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not urn_sweep(self.n_aux, channel, kernel, mixing, Z, state, rng):
            return False
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


@helper
def urn_sweep(m, channel, kernel, mixing, Z, state, rng):
    """Algorithm 1, lines 5-11: update (c_i, ỹ_i) record by record.  False when out of slots (resumes at the cursor)."""
    alloc, records, counts, theta = state.alloc, state.records, state.counts, state.theta
    concentration, n_clusters = state.floats[CONCENTRATION], state.ints[N_CLUSTERS]
    n, d = alloc.size, kernel.n_features
    n_accepted, lowest = 0, 0.0
    room = counts.size - state.ints[N_SLOTS] + state.ints[N_FREE]
    start, stop = state.ints[CURSOR], n
    for i in range(start, n):
        if room == 0:  # before the proposal: to stop because of what was proposed would prefer old clusters
            stop = i
            break
        k = alloc[i]
        counts[k] -= 1.0
        alone = counts[k] == 0.0
        to = mixing.propose_cluster(rng, concentration, n_clusters - 1 if alone else n_clusters, alloc, counts, i)
        fresh = to < 0
        if fresh:
            to = take_slot(state)
            kernel.draw_prior(rng, theta, to)
        channel.take_off(Z, records, i)
        for a in range(m):
            kernel.propose_record(rng, channel, Z, i, theta, to, records, n, a)
        gain = log_estimate(m, channel, kernel, Z, i, theta, to, records, n)
        gain -= log_estimate(m, channel, kernel, Z, i, theta, k, records, i)
        lowest = min(lowest, gain)
        if gain >= 0.0 or rng.random() < exp(gain):
            if fresh:
                occupy(state)
                room -= 1
            if alone:
                vacate(state, k)
                room += 1
            n_clusters = state.ints[N_CLUSTERS]
            for a in range(m):
                for j in range(d):
                    records[i, a, j] = records[n, a, j]
            alloc[i] = to
            counts[to] += 1.0
            n_accepted += 1
        else:
            counts[k] += 1.0
        channel.put_on(Z, records, i)
    note_acceptance(state.floats, stop - start, n_accepted, lowest)
    state.ints[CURSOR] = stop % n
    return stop == n


@helper
def log_estimate(m, channel, kernel, Z, i, theta, k, records, row):
    """log(m ĝ_i), eq. (8): the log of the sum over the m auxiliaries of Π_j q(z_ij | ỹ_ij)."""
    d = kernel.n_features
    top = 0.0
    for j in range(d):
        top += channel.log_weight(kernel, Z, i, j, theta, k, records[row, 0, j])
    if m == 1:
        return top
    total = 1.0
    for a in range(1, m):
        weight = 0.0
        for j in range(d):
            weight += channel.log_weight(kernel, Z, i, j, theta, k, records[row, a, j])
        top, total = log_sum_in(top, total, weight)
    return top + log(total)
