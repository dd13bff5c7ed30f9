"""Memberships given imputed records, and records drawn exactly feature by feature: for correlated features under noise.

The marginal kernel g(z | θ) of correlated features needs orthant integrals, but y_j given z_j, the other features and θ
is a tilted univariate normal (DESIGN 2.2).
"""

from .._compiled import compiled, helper, lower
from ._interweaved import URN_RATE, urn_or_gibbs
from ._reuse import ReUse
from ._state import N_SLOTS, STAGE, update_clusters


class Imputed(ReUse):
    """Urn or Gibbs passes over memberships and imputed records, then each feature exactly given the others.

    Exact; for kernels that know the law of a feature given the others, under a channel that tilts it in closed form.

    References
    ----------
    Beraha et al., Algorithm 1, for the urn pass; Favaro & Teh (2013) for the Gibbs pass.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Imputed
    >>> Imputed()
    Imputed()
    """

    kernel_needs = ("relative", "conditional")
    needs_noise_free = False
    needs_conditional_channel = True
    has_acceptance = True
    takes_correlated = frozenset({"noise"})
    float_ranges = {URN_RATE: (0.0, 1.0)}

    def _lower(self, **context):
        return lower(type(self), {"n_aux": 1})

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if not urn_or_gibbs(self, channel, kernel, mixing, Z, state, rng, warming_up):
            return False
        if state.ints[N_SLOTS] == state.counts.size:
            return False
        impute_by_feature(rng, channel, kernel, Z, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        state.ints[STAGE] = 0
        return True


@helper
def impute_by_feature(rng, channel, kernel, Z, state):
    """y_ij given z_ij, the other features and θ, for every record; the first unused slot holds the conditional law."""
    spare = state.ints[N_SLOTS]
    for i in range(state.alloc.size):
        for j in range(kernel.n_features):
            kernel.condition(state.theta, state.alloc[i], state.records, i, j, spare)
            state.records[i, 0, j] = channel.impute(rng, kernel, Z, i, j, state.theta, spare)
