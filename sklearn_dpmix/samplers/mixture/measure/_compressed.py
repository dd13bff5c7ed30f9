"""What the chains of a walk see of a release: nodes, and how much work on them a draw is worth."""

from math import inf
from typing import Any, NamedTuple

import numpy as np

from ...._base.distinct import distinct_rows
from .._run import Draws
from ._chart import Chart
from ._mass_law import MassLaw
from ._outside import Outside
from ._sheet import Sheet
from ._threshold_walk import ThresholdWalk
from ._walk_atoms import IS_EXCURSION, MORE_RENEWALS, N_MOVES, N_RECORDS
from ._walk_state import Walk
from ._ways import Ways

WARM = 50.0  # sweeps that warm up a chain whose draws are worth keeping
MANY_MOVES = 50.0  # in a sweep, from which on it draws small masses anew as often as it may
RENEWALS, RENEWALS_AT_HOME = 4.0, 0.02  # of small masses: on an excursion, and in a sweep over all nodes between two
MOST_EVERY = 4  # of the sweeps of a longer warm-up at least every fourth is made


class LineCells(NamedTuple):
    """Cells of the line, whose records give way to nodes."""

    edges: np.ndarray
    width: float  # of the narrowest, but for those that a kink or an end cuts

    def halves(self) -> "LineCells":
        """These, each cut in the middle."""
        return LineCells(np.union1d(self.edges, 0.5 * (self.edges[1:] + self.edges[:-1])), 0.5 * self.width)


class Glides(NamedTuple):
    """Where glides keep the density of releases."""

    points: np.ndarray  # numbers of some nodes
    scales: np.ndarray  # of the sheet there


class Compressed(NamedTuple):
    """What the chains see: nodes for the records, what the mechanism looks up there, and the law of atoms.

    Only a channel of answers has ``outside``, ``ways`` and ``chances``.  Where single moves go too slowly, a walk also
    has either ``glides`` or, for excursions, ``few``: every ``apart`` sweeps it takes some.
    """

    chart: Chart
    masses: MassLaw
    nodes: np.ndarray  # (features + 1, nodes): places and weights; last those of records that did not appear, if any
    lookup: np.ndarray  # (2 features, nodes), or 3 where releases have noise scales of their own
    near: np.ndarray  # (features, nodes that stand for records): records near their places
    law: np.ndarray
    are_records: bool
    width: float = 0.0  # of the cells that were asked for; 0 where nothing is left out
    cells: LineCells | None = None  # of the line, if nodes stand for theirs
    times: float = inf  # moves that a draw worth keeping needs, over the most of a sweep; inf before a trial run
    outside: Outside | None = None  # records that are none of the mixture's
    ways: Ways | None = None  # that shares of many categories go
    chances: np.ndarray | None = None  # of answers given each category
    glides: Glides | None = None
    few: Any = None  # all this for a few of the nodes
    apart: int = 0
    reached: Any = None  # a state that excursions of a trial came to

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

    def lighter(self, share):
        """With this share of the log likelihood."""
        law, nodes = self.law.copy(), self.nodes.copy()
        law[N_RECORDS] *= share
        nodes[-1] *= share
        return self._replace(nodes=nodes, law=law)

    def with_n_moves(self, n):
        """With so many moves in a sweep."""
        law = self.law.copy()
        set_moves(law, n)
        return self._replace(law=law)

    def of_few(self, places, weights, n_moves):
        """What they see of a few of these nodes, with weights of their own, and so many moves in a sweep."""
        nodes, lookup = np.vstack([self.nodes[:-1, places], weights]), self.lookup[:, places]
        few = self._replace(nodes=nodes, lookup=lookup, near=self.near[:, places], are_records=False)
        return few.with_n_moves(n_moves)

    def with_excursions(self, few, apart, n_moves):
        """With excursions over few of these nodes, so many sweeps apart, and moves over all nodes in each."""
        law = self.law.copy()
        law[N_MOVES], law[MORE_RENEWALS], few.law[MORE_RENEWALS] = n_moves, RENEWALS_AT_HOME - 1.0, RENEWALS - 1.0
        few.law[IS_EXCURSION] = 1.0
        return self._replace(law=law, few=few, apart=apart)

    def with_longer_excursions(self, times):
        """With excursions so many times as long."""
        law = self.few.law.copy()
        law[N_MOVES] = round(times * law[N_MOVES])
        return self._replace(few=self.few._replace(law=law))

    def sheet(self):
        """The sheet that glides go along, if there are any."""
        if self.glides is None:
            return None
        points, scales = self.glides
        return Sheet.of(self.nodes[:-1, points], self.lookup[:, points], scales, self.law)


def set_moves(law: Any, n: float) -> None:
    """Make a sweep have so many moves; one of few draws small masses anew less often, too."""
    law[N_MOVES], law[MORE_RENEWALS] = n, min(n / MANY_MOVES, 1.0) - 1.0


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


def most_rows(walk: Any) -> int:
    """Rows that a draw of this walk may need."""
    return 2 * int(walk.capacity) + 1


def different(Z: Any) -> Any:
    """Different releases, and how often there is each, as nodes."""
    places, _, counts = distinct_rows(Z)
    return np.vstack([places.T, counts]).astype(np.float64)
