"""Samplers that keep the mixing measure: the private slice sampler, and its exact-draw version.

Beraha et al., §3.2, after Kalli, Griffin & Walker (2011).  One sweep, given the partition and the clusters' parameters:

1. P: occupied weights Dirichlet(n_k - d, α + dK); the rest of P is a Pitman–Yor measure with base measure G0 (Pitman
   1996).  This is the distribution of P given the partition, without stick labels, so clusters need no label moves to
   mix.
2. u_i ~ U(0, w_{c_i}), and sticks of the rest until less than min u is left: atoms with w_k > u_i are then all known.
3. c_i among the atoms with w_k > u_i, by the likelihood; y_i given c_i; θ_k given the records in k.

The slice level may depend only on P: levels by place in the list would depend on which atoms were occupied before.  So
a heavy tail of weights (Pitman–Yor with a large discount) would need more sticks than fit into memory, and there is a
``max_discount``.
"""

from math import exp

from ..._base.compiled import compiled
from ._places import CURSOR
from ._sampler import MixtureSampler
from ._state import compact, update_clusters
from ._sticks import allocate, draw_weights, extend_sticks


class Slice(MixtureSampler):
    """Private slice sampler: clusters by f(y | θ), records by a Metropolis step with proposal f(· | θ).

    It is exact for every channel whose density can be evaluated and every kernel from which records can be drawn.

    References
    ----------
    Beraha, Favaro, Rao, §3.2; Kalli, Griffin & Walker (2011); the Metropolis step is that of Ju et al. (2022).

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
            draw_weights(rng, mixing, state)
        if not extend_sticks(rng, channel, kernel, mixing, state):
            return False
        allocate(self, rng, channel, kernel, Z, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        return True


class Conditional(Slice):
    """Exact-draw conditional sampler: clusters by g(z | θ), with records integrated out; records are drawn exactly.

    It needs the marginal channel in closed form.  Nothing is rejected, at any ε.

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
