"""Split-merge moves with restricted Gibbs scans, on top of another sampler (Jain & Neal 2004).

They use the records that the other sampler keeps, noise-free or imputed, with the parameters of clusters integrated
out.  Two records are picked.  If they share a cluster, a split that separates them is proposed, otherwise a merge of
their clusters.  Where the other records go is drawn by Gibbs scans between these two clusters from a random start, and
the last scan makes the proposal.  So a whole cluster moves in one step, to where its records fit.
"""

from collections.abc import Callable
from math import exp, inf, lgamma, log
from operator import attrgetter
from typing import Any

from sklearn.base import clone

from ..._base.compiled import compiled, helper, lower
from ..._base.numeric import log1p_exp
from ..._base.typing import Array
from ._auto import AutoOfRecords
from ._places import CONCENTRATION, N_CLUSTERS, N_SLOTS, STAGE, SWEPT
from ._sampler import MixtureSampler, check_count, declared
from ._state import compact, occupy, take_slot, update_clusters, vacate


def declares_as_wrapped(kind):
    """Let a sampler declare what the one that it wraps does, but for what its class says itself."""
    for name in set(declared()) - vars(kind).keys():
        setattr(kind, name, property(attrgetter(f"wrapped.{name}")))
    return kind


@declares_as_wrapped
class JainNeal(MixtureSampler):
    """Another sampler's sweep, then attempts to split or merge clusters.

    It is exact, is for conjugate kernels, and requires what the other sampler does.

    Parameters
    ----------
    sampler : MixtureSampler, optional
        The other sampler.  None: what ``Auto()`` chooses among those that keep records.
    n_attempts : int, default=1
        Attempts in each sweep; each costs about ``n_scans + 3`` passes over the records of one or two clusters.
    n_scans : int, default=3
        Gibbs scans of a proposal before the last one.

    References
    ----------
    Jain & Neal (2004), "A split-merge Markov chain Monte Carlo procedure for the Dirichlet process mixture model".

    Examples
    --------
    >>> from sklearn_dpmix.samplers import JainNeal, Neal3
    >>> JainNeal(Neal3(), n_attempts=5)
    JainNeal(n_attempts=5, sampler=Neal3())
    """

    needs_order = True
    kernel_needs = property(lambda self: ("predictive", *self.wrapped.kernel_needs))  # type: ignore[assignment]

    def __init__(self, sampler: MixtureSampler | None = None, n_attempts: int = 1, n_scans: int = 3) -> None:
        self.sampler = sampler
        self.n_attempts = n_attempts
        self.n_scans = n_scans

    def check(self) -> None:
        check_count(self, "n_attempts", self.n_attempts)
        check_count(self, "n_scans", self.n_scans)
        if not isinstance(self.wrapped, MixtureSampler) or isinstance(self.wrapped, JainNeal):
            raise TypeError(f"JainNeal: sampler must be another sampler object such as Neal3(), got {self.sampler!r}")
        self.wrapped.check()
        if self.wrapped.n_imputed != 1:
            raise ValueError(f"JainNeal needs one imputed value per record, got sampler={self.sampler!r}")

    def resolve(self, mechanism: Any, kernel: Any, mixing: Any = None) -> "MixtureSampler":
        """Records must be there when the other sampler's sweep ends; they are drawn given the clusters."""
        other = self.wrapped.resolve(mechanism, kernel, mixing)
        if not other.keeps_records:
            raise ValueError(
                f"JainNeal splits and merges by the records that the other sampler keeps, but {other.label} integrates "
                f"them out under mechanism={mechanism!r}, and splits and merges by itself: use "
                'sampler="cells", or JainNeal(Neal5())'
            )
        return clone(self).set_params(sampler=other)

    def sized(
        self, n_records: int, n_features: int, count_different: Callable[[], int] | None = None
    ) -> MixtureSampler:
        return clone(self).set_params(sampler=self.wrapped.sized(n_records, n_features, count_different))

    def restored(self, values: Any, Z: Array, kernel: Any, mixing: Any, state: Any, fresh: Any, n_sweeps: int) -> Any:
        return self.wrapped.restored(values, Z, kernel, mixing, state, fresh, n_sweeps)

    @property
    def wrapped(self) -> MixtureSampler:
        """The other sampler."""
        return AutoOfRecords() if self.sampler is None else self.sampler

    @property
    def label(self) -> str:
        return f"{type(self).__name__}({self.wrapped.label})"

    def _lower(self, **context):
        fields = {"n_aux": 1, "n_tries": float(self.n_attempts), "n_restricted": float(self.n_scans)}
        return lower(type(self), fields | {"other": self.wrapped._lower(**context)})

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        ints = state.ints
        if ints[STAGE] != SWEPT:
            if not self.other.sweep(channel, kernel, mixing, Z, state, rng, warming_up):
                return False
            ints[STAGE] = SWEPT
        compact(state)
        if state.counts.size < ints[N_SLOTS] + int(self.n_tries) + 3:
            return False
        for _ in range(int(self.n_tries)):
            split_or_merge(rng, int(self.n_restricted), kernel, mixing, state)
        update_clusters(rng, self.n_aux, channel, kernel, state, False)  # parameters given the new partition
        ints[STAGE] = 0
        return True


@helper
def split_or_merge(rng, n_scans, kernel, mixing, state):
    """One attempt.  Uses ``order`` for the other members and three unused slots' statistics; slots are compact."""
    alloc, order, n = state.alloc, state.order, state.alloc.size
    if n < 2:
        return
    i = min(int(rng.random() * n), n - 1)
    j = min(int(rng.random() * (n - 1)), n - 2)
    j += j >= i
    a, b = alloc[i], alloc[j]
    n_others = 0
    for r in range(n):
        if (alloc[r] == a or alloc[r] == b) and r != i and r != j:
            order[n_others] = r if rng.random() < 0.5 else ~r  # ~r: in j's part
            n_others += 1
    first = state.ints[N_SLOTS]
    log_likelihood, n_first, n_second = part_records(kernel, state, i, j, n_others, first)  # of the launch state
    for _ in range(n_scans):
        n_first, n_second, _ = restricted_scan(rng, kernel, mixing, state, n_others, first, n_first, n_second, -1)
    keep = -1 if a == b else a
    n_first, n_second, log_q = restricted_scan(rng, kernel, mixing, state, n_others, first, n_first, n_second, keep)
    log_likelihood, n_first, n_second = part_records(kernel, state, i, j, n_others, first)
    n_merged, d = state.ints[N_CLUSTERS] - (a != b), mixing.discount
    fresh = mixing.new_cluster_weight(state.floats[CONCENTRATION], n_merged)
    gain = log_likelihood - log_q + (log(fresh) if fresh > 0.0 else -inf)  # a finite mixture may be full
    gain += lgamma(n_first - d) + lgamma(n_second - d) - lgamma(n_first + n_second - d) - lgamma(1.0 - d)
    if (gain if a == b else -gain) < log(rng.random()):
        return
    if a == b:
        b = take_slot(state)
        occupy(state)
        alloc[j] = b
        for s in range(n_others):
            if order[s] < 0:
                alloc[~order[s]] = b
        state.counts[a], state.counts[b] = n_first, n_second
    else:
        alloc[j] = a
        for s in range(n_others):
            alloc[order[s] if order[s] >= 0 else ~order[s]] = a
        state.counts[a], state.counts[b] = n_first + n_second, 0.0
        vacate(state, b)
        compact(state)


@helper
def part_records(kernel, state, i, j, n_others, first):
    """Statistics of i's and j's parts into slots ``first`` and the next, of both together into the one after.

    Returns (log marginal likelihood of the parts less that of both together, size of i's part, of j's).
    """
    stats, records = state.stats, state.records
    for k in range(first, first + 3):
        for s in range(stats.shape[1]):
            stats[k, s] = 0.0
    total, n_first, n_second = 0.0, 0.0, 0.0
    for s in range(-2, n_others):
        r = i if s == -2 else ~j if s == -1 else state.order[s]
        k, size = first, n_first
        if r < 0:
            r, k, size = ~r, first + 1, n_second
        total += kernel.log_predictive_record(stats, k, size, records, r)
        total -= kernel.log_predictive_record(stats, first + 2, n_first + n_second, records, r)
        kernel.add_record(stats, k, records, r, 0, 1.0)
        kernel.add_record(stats, first + 2, records, r, 0, 1.0)
        n_first += k == first
        n_second += k != first
    return total, n_first, n_second


@helper
def restricted_scan(rng, kernel, mixing, state, n_others, first, n_first, n_second, keep):
    """Gibbs over the two parts, record by record, or to where the state has them: ``keep`` is the first part's slot.

    Returns the parts' sizes and the log probability of what came out.
    """
    stats, records, order, log_q = state.stats, state.records, state.order, 0.0
    for s in range(n_others):
        r, old = order[s], first
        if r < 0:
            r, old = ~r, first + 1
        kernel.add_record(stats, old, records, r, 0, -1.0)
        n_first -= old == first
        n_second -= old != first
        odds = kernel.log_predictive_record(stats, first + 1, n_second, records, r)
        odds -= kernel.log_predictive_record(stats, first, n_first, records, r)
        odds += log(n_second - mixing.discount) - log(n_first - mixing.discount)
        if keep >= 0:
            is_first = state.alloc[r] == keep
        else:
            is_first = rng.random() < 1.0 / (1.0 + exp(odds))
        log_q -= log1p_exp(odds if is_first else -odds)
        order[s] = r if is_first else ~r
        kernel.add_record(stats, first if is_first else first + 1, records, r, 0, 1.0)
        n_first += is_first
        n_second += not is_first
    return n_first, n_second, log_q
