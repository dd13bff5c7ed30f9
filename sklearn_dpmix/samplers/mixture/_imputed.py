"""Memberships given imputed records, and records drawn exactly feature by feature: for correlated features under noise.

The marginal kernel g(z | θ) of correlated features needs orthant integrals, but y_j given z_j, the other features and θ
is a tilted univariate normal.
"""

from ..._base.compiled import compiled, helper, lower
from ._interweaved import Interweaved, urn_or_gibbs
from ._places import N_SLOTS, PASSES, STAGE, URN_RATE
from ._sampler import check_count
from ._state import update_clusters
from .moves._noncentred import noncentred_moves
from .moves._rescaling import rescale_all
from .moves._split_merge import sort_records, split_merge

WORK, MOST_PASSES = 2000, 8  # records times passes of a sweep


class Imputed(Interweaved):
    """Urn or Gibbs passes over memberships and imputed records, each feature drawn exactly given the others, and more.

    Non-centred moves, splits and merges move records along, as in :class:`Interweaved`; there are also moves that shift
    or spread all records and clusters together.  It is exact.  It is for kernels that know the distribution of a
    feature given the others, under a channel that tilts it in closed form.

    Parameters
    ----------
    n_split_merge : int, default=20
        Attempts to split or merge clusters in each pass; 0 leaves that out.
    n_passes : int, optional
        Number of passes over the records in a sweep.  None: as many as visit 2000 records, but at most 8.

    References
    ----------
    Beraha et al., Algorithm 1, for the urn pass; Favaro & Teh (2013) for the Gibbs pass.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Imputed
    >>> Imputed()
    Imputed()
    """

    kernel_needs = ("relative", "conditional", "rescaling")
    needs_conditional_channel = True
    takes_correlated = frozenset({"noise"})
    float_ranges = {URN_RATE: (0.0, 1.0), PASSES: (0.0, 0.0)}

    def __init__(self, n_split_merge: int = 20, n_passes: int | None = None) -> None:
        super().__init__(n_split_merge)
        self.n_passes = n_passes

    def check(self) -> None:
        super().check()
        if self.n_passes is not None:
            check_count(self, "n_passes", self.n_passes)

    def _lower(self, *, n_records=WORK, **context):
        n_passes = min(max(WORK // n_records, 1), MOST_PASSES) if self.n_passes is None else self.n_passes
        return lower(type(self), {"n_aux": 1, "n_tries": float(self.n_split_merge), "n_passes": float(n_passes)})

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        while state.floats[PASSES] < self.n_passes:
            if not self.one_pass(channel, kernel, mixing, Z, state, rng, warming_up):
                return False
            state.floats[PASSES] += 1.0
        state.floats[PASSES] = 0.0
        return True

    @compiled
    def one_pass(self, channel, kernel, mixing, Z, state, rng, warming_up):
        """One pass.  False when out of slots (resumes at the stage and the cursor)."""
        if not urn_or_gibbs(self, channel, kernel, mixing, Z, state, rng, warming_up):
            return False
        if state.counts.size < state.ints[N_SLOTS] + int(self.n_tries) + 1:
            return False
        impute_by_feature(rng, channel, kernel, Z, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, warming_up)
        sort_records(state)
        noncentred_moves(self, rng, channel, kernel, Z, state, warming_up)
        split_merge(self, rng, int(self.n_tries), channel, kernel, mixing, Z, state)
        rescale_all(rng, channel, kernel, Z, state, warming_up)
        state.ints[STAGE] = 0
        return True


@helper
def impute_by_feature(rng, channel, kernel, Z, state):
    """y_ij given z_ij, the other features and θ, for every record; the first unused slot holds the conditional."""
    spare = state.ints[N_SLOTS]
    for i in range(state.alloc.size):
        for j in range(kernel.n_features):
            kernel.condition(state.theta, state.alloc[i], state.records, i, j, spare)
            state.records[i, 0, j] = channel.impute(rng, kernel, Z, i, j, state.theta, spare)
