"""What the chains of a walk see of a release, and of the kernel and the mixing that it is walked over for."""

from collections.abc import Callable
from math import inf
from typing import Any, NamedTuple

import numpy as np

from .._run import Draws
from ._beta_atoms import BetaChart, BetaInBins
from ._categorical_atoms import CategoricalChart
from ._chart import Chart
from ._clamped_atoms import ClampedNormalChart
from ._convolved_atoms import ConvolvedNormalChart
from ._correlated_atoms import CorrelatedChart, is_clamped, keeps_normal
from ._correlated_clamped import CorrelatedClampedChart, degree_of
from ._correlated_gaussian import CorrelatedGaussianChart
from ._correlated_hidden import CorrelatedHiddenChart
from ._dirichlet_masses import DirichletMasses
from ._finite_masses import FiniteMasses
from ._many_categories import MANY, ManyCategoriesChart
from ._mass_law import MassLaw
from ._normal_atoms import NormalChart
from ._outside import Outside
from ._pitman_yor_masses import PitmanYorMasses
from ._sheet import Sheet
from ._threshold_walk import ThresholdWalk
from ._truncated_atoms import TruncatedNormalChart, TruncatedNormalInBins, TruncatedNormalInTable
from ._walk_atoms import CUT, IS_EXCURSION, N_MOVES, N_RECORDS, PER_FEATURE
from ._walk_state import Walk
from ._ways import Ways

WARM = 50.0  # sweeps that warm up a chain whose draws are worth keeping
MOST_EVERY = 4  # of a longer warm-up every fourth sweep is made, or more of them


class Cells(NamedTuple):
    """Cells of the line, whose records give way to nodes."""

    edges: np.ndarray
    width: float  # of the narrowest, but for those that a kink or an end cuts

    def halves(self) -> "Cells":
        """These, each cut in the middle."""
        return Cells(np.union1d(self.edges, 0.5 * (self.edges[1:] + self.edges[:-1])), 0.5 * self.width)


class Glides(NamedTuple):
    """Where glides keep the density of releases."""

    points: np.ndarray  # numbers of some nodes
    scales: np.ndarray  # of the sheet there


class Compressed(NamedTuple):
    """What the chains see: nodes for the records, what the mechanism looks up there, and the law of atoms."""

    chart: Chart
    masses: MassLaw
    nodes: np.ndarray  # (features + 1, nodes): places and weights; last those of records that did not appear, if any
    lookup: np.ndarray  # (2 features, nodes), or 3 where releases have noise scales of their own
    near: np.ndarray  # (features, nodes that stand for records): records near their places
    law: np.ndarray
    are_records: bool
    width: float = 0.0  # of the cells that were asked for; 0 where nothing is left out
    cells: Cells | None = None  # of the line, if nodes stand for theirs
    times: float = inf  # as many moves would make a draw worth keeping; infinite where no trial run has said so
    outside: Outside | None = None  # records that are none of the mixture's
    ways: Ways | None = None  # that shares of many categories go
    chances: np.ndarray | None = None  # of answers given each category
    few: Any = None  # the same of a few nodes, for excursions; None: no excursions
    glides: Glides | None = None
    apart: int = 0  # sweeps between glides or excursions, if there are any

    @property
    def n_seen(self):
        """Number of nodes that stand for records."""
        return self.near.shape[1]

    @property
    def weights(self):
        """Theirs."""
        return self.nodes[-1, : self.n_seen]

    def walk(self, state):
        """The walk of a state over these nodes."""
        kind = Walk if self.n_seen == self.nodes.shape[1] else ThresholdWalk
        seen = self.n_seen, self.outside, self.ways, self.chances
        return kind.of(state, self.nodes, self.lookup, self.law, self.masses.value(), *seen)

    def compiled(self) -> tuple[Any, Any]:
        """The channel and the chart as moves see them, with scratch space of their own."""
        return self.chart.seen_of(self.chart.channel), self.chart.value()

    def every(self, n_warmup):
        """Which sweeps of a warm-up are made: every fourth, or more, where the trial run says that it is long."""
        return int(min(max(n_warmup / (WARM * max(self.times, 2.0)), 1.0), MOST_EVERY))

    def start(self):
        """What chains begin with beside the releases."""
        return self.chart.kept(self.near, self.lookup[:, : self.n_seen])

    def of_few(self, places, weights, n_moves):
        """What they see of a few of these nodes, with weights of their own, and so many moves in a sweep."""
        law, nodes = self.law.copy(), np.vstack([self.nodes[:-1, places], weights])
        law[N_MOVES] = n_moves
        lookup, near = self.lookup[:, places], self.near[:, places]
        return self._replace(nodes=nodes, lookup=lookup, near=near, law=law, are_records=False)

    def with_excursions(self, few, apart, n_moves):
        """With excursions over few of these nodes, so many sweeps apart, and moves over all nodes in each."""
        law = self.law.copy()
        law[N_MOVES], few.law[IS_EXCURSION] = n_moves, 1.0
        return self._replace(law=law, few=few, apart=apart)

    def sheet(self):
        """The sheet that glides go along, if there are any."""
        if self.glides is None:
            return None
        points, scales = self.glides
        return Sheet.of(self.nodes[:-1, points], self.lookup[:, points], scales, self.law)


def categorical_chart(kernel: Any, n_features: int, channel: Any) -> Chart:
    """Of one question with many categories another one."""
    many = n_features == 1 and int(kernel.size) >= MANY
    return (ManyCategoriesChart if many else CategoricalChart)(kernel, n_features, channel)


def correlated_chart(kernel: Any, n_features: int, channel: Any) -> Chart:
    return correlated_kind(n_features, channel)(kernel, n_features, channel)


def correlated_kind(n_features: int, channel: Any) -> type[CorrelatedChart]:
    """The chart that correlated normal kernels have: one that keeps something beside each release where it must."""
    if channel is None or not keeps_normal(channel) or channel.each:
        return CorrelatedHiddenChart
    if not is_clamped(channel):
        return CorrelatedGaussianChart
    return CorrelatedClampedChart if n_features == 2 and degree_of(channel) is not None else CorrelatedHiddenChart


#: by what mechanisms call the kernel's records: of the kernel's value, the number of features, and a channel's value
CHARTS: dict[str, Callable[[Any, int, Any], Chart]] = {
    "beta": BetaChart,
    "categorical": categorical_chart,
    "convolved_normal": ConvolvedNormalChart,
    "correlated_normal": correlated_chart,
    "normal": NormalChart,
    "truncated_normal": TruncatedNormalChart,
}

#: the same by ``tables`` of a channel, for which there is another one
CHARTS_OF_TABLES: dict[tuple[str | None, str], Callable[[Any, int, Any], Chart]] = {
    ("bins", "beta"): BetaInBins,
    ("bins", "truncated_normal"): TruncatedNormalInBins,
    ("polynomial", "normal"): ClampedNormalChart,
    ("polynomial", "truncated_normal"): TruncatedNormalInTable,
}


def chart_of(kernel: Any, channel: Any = None) -> Chart:
    """The chart of a kernel's value under a channel's, or under any."""
    kind = chart_kind(kernel._owner, None if channel is None else channel._owner)
    return kind(kernel, int(kernel.n_features), channel)


def chart_kind(kernel: Any, mechanism: Any) -> Callable[[Any, int, Any], Chart]:
    """What makes the chart of a kernel under a mechanism, or under none."""
    name, tables = kernel.noised_as, None if mechanism is None else mechanism.tables
    return CHARTS_OF_TABLES.get((tables, name), CHARTS[name])


def power_law(mixing: Any) -> MassLaw:
    """The law of a Pitman–Yor process's masses; without a discount it is a Dirichlet process."""
    return PitmanYorMasses(mixing) if mixing.discount > 0.0 else DirichletMasses(mixing)


#: by what mixings call the law of their masses
MASS_LAWS: dict[str, Callable[[Any], MassLaw]] = {
    "dirichlet": DirichletMasses,
    "finite": FiniteMasses,
    "pitman_yor": power_law,
}


def masses_of(mixing: Any) -> MassLaw:
    """The law of the masses of a mixing's value."""
    return MASS_LAWS[mixing._owner.masses_as](mixing)


def chart_and_masses(values: Any) -> tuple[Chart, MassLaw]:
    """Both, of the values of a sampler, a channel, a kernel and a mixing."""
    return chart_of(values[2], values[1]), masses_of(values[3])


def law_of(chart: Chart, masses: MassLaw, n_records: int, mean: Any, variance: Any) -> Any:
    """Constants of the walk: of the records, and of each feature."""
    law = np.zeros(PER_FEATURE)
    law[N_RECORDS], law[CUT] = n_records, masses.cut(n_records)
    return np.concatenate([law, chart.law(mean, variance)])


def sweeps_a_draw(draws: Draws, seen: Compressed) -> float:
    """Sweeps for one independent draw: of the slowest of the log density at five nodes, mean, variance and clusters."""
    from arviz_stats.base import array_stats

    chart, start = seen.chart, np.cumsum(draws.n_atoms) - draws.n_atoms
    shares = np.cumsum(seen.weights) / seen.weights.sum()
    points = seen.near[:, np.searchsorted(shares, (0.05, 0.25, 0.5, 0.75, 0.95))]
    density = draws.weights[:, None] * chart.densities(draws.theta, points)
    found = [draws.n_clusters.astype(float), draws.outside, *np.log(np.add.reduceat(density, start) + 1e-300).T]
    for j in range(len(points)):
        mean, sd = chart.moments(draws.theta, j)
        offset = mean - points[j, 2]  # of places near zero squares lose no digits
        means = np.add.reduceat(draws.weights * offset, start)
        variances = np.add.reduceat(draws.weights * (offset**2 + sd**2), start) - means**2
        found += [means, np.log(np.maximum(variances, 1e-300))]
    moving = [values[None] for values in found if values.size and np.ptp(values) > 0]
    ess = [float(array_stats.ess(values, chain_axis=0, draw_axis=1)) for values in moving]
    return len(start) / max(np.nanmin(ess), 1.0) if ess else 1.0


def new_draws(n_draws: int, n_rows: int, chart: Any, outside: bool) -> Draws:
    """Return room for draws, and for the share of records ``outside`` the mixture."""
    (n_clusters, n_atoms), of_outside = np.zeros((2, n_draws), np.int64), np.zeros(n_draws if outside else 0)
    theta = np.zeros((n_rows, chart.n_params()))
    return Draws(n_clusters, n_atoms, np.zeros(n_draws), np.zeros(n_rows), theta, of_outside)


def different(Z: Any) -> Any:
    """Different releases, and how often there is each, as nodes."""
    places, counts = np.unique(Z, axis=0, return_counts=True)
    return np.vstack([places.T, counts]).astype(np.float64)
