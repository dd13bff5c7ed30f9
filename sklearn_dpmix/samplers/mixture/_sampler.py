"""The base class of mixture samplers: declared requirements, a start, and one compiled sweep."""

from collections.abc import Callable
from typing import Any

import numpy as np

from ..._base.chunks import chunks
from ..._base.compiled import Component, lower
from ..._base.parameters import is_integer
from ..._base.restore import require, require_range, require_whole
from ..._base.typing import Array
from ._places import CONCENTRATION, N_CLUSTERS, N_SLOTS
from ._run import run_block
from ._state import n_cached, new_state

__all__ = ["MixtureSampler", "check_count"]


class MixtureSampler(Component):
    """Base class of samplers of Dirichlet-process mixtures.

    A subclass defines the compiled ``sweep(self, channel, kernel, mixing, Z, state, rng, warming_up) -> bool``: one
    sweep that leaves the posterior invariant and changes the arrays of ``state`` in place.  It returns False if it ran
    out of slots; it is then called again with a larger state and continues at ``state.ints[CURSOR]``.

    Examples
    --------
    What a sampler requires of its parts is stated in its class:

    >>> from sklearn_dpmix.samplers import Conditional, Neal2, Neal5
    >>> Neal5.needs_marginal_channel, Conditional.needs_marginal_channel
    (False, True)
    >>> Neal2.kernel_needs
    ('predictive',)
    """

    #: capabilities of the kernel that the sweep uses (``Kernel.CAPABILITIES``)
    kernel_needs: tuple[str, ...] = ()
    #: True if the sweep calls ``channel.log_marginal`` or ``channel.impute``
    needs_marginal_channel = False
    #: True if the channel must be one of cells (``mechanisms._cells``)
    needs_cells = False
    #: True if the release must be draws, each of which came from a record or from none
    needs_sources = False
    #: True if the release must be a histogram of all records
    needs_histogram = False
    #: True if it draws one feature given the others exactly
    needs_conditional_channel = False
    #: where it takes kernels with features that are correlated given θ: "none" (without noise), "noise"
    takes_correlated = frozenset({"none"})
    #: True if the sweep sees the release as noise-free records: no mechanism, or a kernel that absorbs the noise
    needs_noise_free = False
    #: whether moves carry records along, of which the release must leave something open
    moves_records = False
    #: imputed records kept for each record
    n_imputed = 1
    #: whether the sweep keeps a slice level for each record
    needs_levels = False
    #: whether the sweep sorts records by cluster
    needs_order = False
    #: whether the sweep can use a release of all records (``HistogramMechanism``)
    takes_histograms = False
    #: whether each record is drawn given its cluster and the release when a sweep ends, not integrated out
    keeps_records = True
    #: whether a ``ReleaseSummary`` will do in place of the release
    takes_summaries = False
    #: whether a chain starts from a guess of the records
    starts_near_records = True
    #: whether releases may appear above a threshold only (``released_above`` of a mechanism)
    takes_thresholds = False
    #: whether some people may answer without regard to the cards (``noncompliance`` of a mechanism)
    takes_noncompliance = False
    #: True if noise must offer the densities of the kernel's records under it, at many places at once
    needs_noised_kernel = False
    #: True if weights must be shares of masses with a known distribution
    needs_masses = False
    #: largest Pitman–Yor discount that the sweep can take
    max_discount = 1.0
    #: whether the sweep has an accept step on each record
    has_acceptance = False
    #: ranges (least, most) of what the sampler keeps in ``state.floats`` between sweeps, by place
    float_ranges: dict[int, tuple[float, float]] = {}

    def _lower(self, **context):
        return lower(type(self), {"n_aux": 1})

    def most_times(self, seen: Any) -> int:
        """Sweeps that may count as one, where draws are worth little."""
        return 1

    def longer(self, values: Any, seen: Any, times: int) -> Any:
        """What chains see of the release where so many sweeps count as one."""
        return seen

    @property
    def label(self) -> str:
        """Its name in error messages."""
        return type(self).__name__

    def check(self) -> None:
        """Raise ValueError if a parameter of the sampler is wrong."""

    def resolve(self, mechanism: Any, kernel: Any, mixing: Any = None) -> "MixtureSampler":
        """Return the sampler to run for these parts: ``self``, unless it stands for others, as ``Auto`` does."""
        return self

    def takes_features(self, mechanism: Any, kernel: Any, n_features: int) -> bool:
        """Whether it takes so many features of these parts."""
        return True

    def sized(
        self, n_records: int, n_features: int, count_different: Callable[[], int] | None = None
    ) -> "MixtureSampler":
        """Return the sampler to run on a release of this size: ``self``, unless it chooses by that, as ``Auto``'s does.

        ``count_different`` counts different releases; it is called only if the answer depends on that.
        """
        return self

    def summarise(self, values: Any, Z: Array, release: Any) -> Any:
        """What the chains see of the release, made once for all of them: here ``Z``, as the channel encodes it."""
        return Z

    def compression_error(self, release: Any, seen: Any, draws: Any) -> float | None:
        """Error of the draws' log likelihood due to what :meth:`summarise` left out; None if it left out nothing."""
        return None

    def init(self, values: Any, Z: Array, records: Array, sizes: Any, rng: np.random.Generator) -> Any:
        """Start a chain: records near the release's guess, a random number of clusters around random records.

        Parameters
        ----------
        values : tuple (sampler, channel, kernel, mixing) of component values
        Z : ndarray of shape (n, n_released)
        records : ndarray of shape (n, n_features), a guess of the confidential records
        sizes : (columns of theta, columns of stats)
        rng : numpy.random.Generator
        """
        n, d = records.shape
        n_params = sizes[0] + n_cached(values[1])
        state = new_state(n, self.n_imputed, d, n_params, sizes[1], levels=self.needs_levels, order=self.needs_order)
        state.records[:n] = records[:, None, :]
        if hasattr(values[3], "most_clusters"):  # it is how many components there are
            concentration = most = values[3].draw_start(rng)
        else:
            concentration, most = values[3].start, n
        n_start = int(min(rng.integers(1, 11), n, most))
        counts = put_to_nearest(records, records[rng.choice(n, n_start, replace=False)], state.alloc)
        state.counts[: len(counts)] = counts
        state.ints[N_SLOTS] = state.ints[N_CLUSTERS] = len(counts)
        state.floats[CONCENTRATION] = concentration
        return state._replace(table=start_table(values[1], Z, records)) if self.is_global(values[1]) else state

    def continued(self, values: Any, Z: Any, state: Any) -> Any:
        """Return a start from the end of a chain that saw fewer records, for a sampler that takes summaries.

        The mixing may be another one.
        """
        raise NotImplementedError

    def restored(self, values: Any, Z: Array, kernel: Any, mixing: Any, state: Any, fresh: Any, n_sweeps: int) -> Any:
        """Return a state that was read from a file, or raise ValueError if it cannot be one of this chain.

        Parameters
        ----------
        values, Z :
            As for :meth:`init`.
        kernel, mixing :
            The components, whose values are in ``values``.
        state : State
            After ``n_sweeps`` sweeps.
        fresh : State
            As :meth:`init` returns it.
        n_sweeps : int
        """
        state, (_, channel, _, urn) = state.restored(fresh, n_sweeps), values
        n_clusters, concentration = int(state.ints[N_CLUSTERS]), state.floats[CONCENTRATION]
        for place, (least, most) in self.float_ranges.items():
            require_range(least, most, floats=state.floats[place])
        if n_sweeps:
            kernel.check_state(state.theta[state.counts > 0], state.records[: state.alloc.size])
        check_concentration(mixing, concentration, n_clusters)
        is_possible = urn.new_cluster_weight(concentration, n_clusters) >= 0
        require(is_possible, "floats", "has an impossible concentration")
        require(n_clusters <= getattr(urn, "most_clusters", np.inf), "ints", "has more clusters than the mixing")
        if channel._owner.releases_records:  # they are given; a chain may start at what is nearest in the support
            records = state.records[:-1]
            require((records == fresh.records[:-1]) | (records == Z[:, None]), "records", "are not those given to fit")
        if self.is_global(channel):
            table = start_table(channel, Z, state.records[:-1, 0])
            is_same = np.isclose(state.table[0], table[0], rtol=1e-6, atol=0.0)
            require(is_same & np.all(state.table[1:] == table[1:], axis=0), "table", "is not that of the records")
        return state

    @staticmethod
    def is_global(channel: Any) -> bool:
        """Whether the channel of a record depends on the others."""
        return bool(channel._owner.is_histogram)

    def advance(
        self, values: Any, Z: Array, state: Any, rng: np.random.Generator, n_sweeps: int, n_warmup: int, thin: int
    ) -> Any:
        """Advance a chain in place by ``n_sweeps``; return (state, draws)."""
        Z = state.table if state.table.size else Z
        return run_block(values, Z, state, rng, n_sweeps, n_warmup, thin)


def put_to_nearest(records, centres, alloc):
    """Write the number of each record's nearest centre, among those that have a record; return their counts."""
    spread = records.std(axis=0)
    spread[spread == 0] = 1.0
    counts = np.zeros(len(centres), dtype=np.int64)
    parts = chunks(len(records))
    for rows in parts:
        distances = [(((records[rows] - centre) / spread) ** 2).sum(axis=1) for centre in centres]
        alloc[rows] = np.argmin(distances, axis=0)
        counts += np.bincount(alloc[rows], minlength=len(centres))
    number = np.cumsum(counts > 0) - 1
    for rows in parts:
        alloc[rows] = number[alloc[rows]]
    return counts[counts > 0]


def start_table(channel, Z, records):
    """The channel's table with the starting records put in."""
    table = Z.copy()
    for y in records[:, 0]:
        table[1, channel.bin(y)] += 1.0
    for b in range(table.shape[1] - 1):
        channel.count(table, b, 0.0)
    return table


def declared():
    """Names of what samplers declare of themselves."""
    for name, value in vars(MixtureSampler).items():
        if not (name.startswith("_") or callable(value) or isinstance(value, (property, staticmethod))):
            yield name


def check_count(owner, name, value):
    """Check a sampler's positive integer parameter."""
    if not is_integer(value) or not 1 <= value <= 2**31:
        raise ValueError(f"{type(owner).__name__}: {name} must be a positive integer, at most 2**31, got {value!r}")


def check_concentration(mixing, found, n_clusters):
    """Raise if a concentration, of a state or of draws in a file, is impossible under this mixing."""
    value = mixing._lower()
    if getattr(mixing, "random_part", None) is None:
        require(found == value.start, "concentration", "differs from the mixing's")
    elif hasattr(value, "most_clusters"):  # it is how many components there are, with records or without
        require_whole(concentration=found)
        require_range(n_clusters, value.most_clusters, concentration=found)
    else:
        require(found > 0, "concentration", "is not positive")
