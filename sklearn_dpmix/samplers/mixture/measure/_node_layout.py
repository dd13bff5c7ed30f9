"""Nodes for a release, and how many moves over them a sweep of the trial run has."""

from functools import partial
from math import inf, sqrt
from typing import Any

import numpy as np

from ...._base.choices import evenly_spaced
from ...._base.table import padded
from ...._releases.nodes import FEW, Nodes, cell_edges, compress, edges_around, halved
from ...._releases.nodes_of_scales import compress_scaled
from ...._releases.nodes_of_several import compress_places, compress_records
from .._run import Draws
from ._compressed import Compressed, LineCells, different, set_moves
from ._normal_atoms import N_WIDTHS
from ._walk_atoms import CUT, MORE_RENEWALS, N_RECORDS, STIFFNESS
from ._walk_draws import fill_densities
from ._walk_likelihood import LEAST_DENSITY
from ._walk_state import new_state
from ._which_chart import law_of

N_MOVES_FIRST = 100  # in a sweep of the trial run, fewer where there are many nodes
MOST_WORK = 120_000  # moves in a sweep of the trial run, times nodes and features
N_MOVES_OF_SEVERAL, MOST_WORK_OF_SEVERAL = 50, 300_000  # of several features: in the trial run, and after it
N_MOVES_OF_RECORDS, MOST_WORK_OF_RECORDS = 60, 330_000  # ... where something is kept beside each release
LEAST_OF_RECORDS = 80  # fewer would hardly take less time than what is drawn anew beside them
MOST_TIMES = 4.0  # as many moves in a sweep as in one of the trial run
FEWER = 0.7  # nodes of several features or scales, to records: else the records are the nodes
REPEATED = 0.25  # of what records at one place say of its mean, which the metric of different ones has anyway
MOST_BEHIND = 100  # times as many records as appeared above a threshold, if their number is unknown
BAND = 1.2  # of log scales of the noise, for cells of the width that their least one asks for
TOLERANCE = 0.005  # of the log likelihood of all records
LEAST_CHECKED, MOST_CHECKED = 100, 500  # draws whose log likelihood is looked at, evenly spaced
MOST_WORK_CHECKED = 3e7  # these times nodes and atoms
WIDER = 2.0  # first boxes of several features, which the trial run narrows where it must
STEP, STEP_OF_SCALES = 0.5, 0.5**0.5  # to the width of narrower cells
MANY_NODES, MOST_NODES = 3000, 10_000  # from which on cells are halved one by one, and no more


class NodeLayout:
    """Nodes of a release for cells of a width: of one feature or several, one noise scale or many."""

    n_moves: int | None

    def compressed(
        self, release: Any, chart: Any, masses: Any, width: float, cells: LineCells | None = None
    ) -> Compressed:
        """What the chains see, with cells of this width where the population is, or of one feature with these cells."""
        mechanism, n = release.channel, release.n_records
        scales, lookup = (), None
        if mechanism.tables == "bins":
            guess = mechanism.guess(release.Z).T
            order = np.argsort(guess[0], kind="stable")
            nodes = np.vstack([guess[:, order], np.ones(n)])
            near, lookup = nodes[:-1], padded(release.encoded()[order, :-1].T)
        elif chart.keeps_records:
            nodes = np.vstack([mechanism.folded(release.Z).T, np.ones(n)])
        elif mechanism.is_grained and not mechanism.has_one_law:
            values, width = different(np.column_stack([mechanism.folded(release.Z), mechanism.scales(n, 1)])), 0.0
            nodes, scales = values[[0, -1]], (values[1],)
        elif mechanism.is_grained:
            nodes, width, cells = nodes_of_values(release, chart, width, cells)
        elif not mechanism.has_one_law:
            nodes, *scales = nodes_of_scales(release, chart, width)
        elif release.n_features > 1:
            nodes = nodes_of_several(release, chart, width)
        elif n <= FEW:
            nodes = np.array(release.nodes(width))
        else:
            cells = cells_of_line(release, chart, width) if cells is None else cells
            nodes = np.array(nodes_of_line(release, cells))
        are_records = n <= FEW or (nodes.shape[1] == n and cells is None and not mechanism.is_grained)
        law = law_of(chart, masses, n, *release.moments())
        if mechanism.released_above is not None:
            law[CUT] = masses.cut(MOST_BEHIND * n if release.n_all is None else release.n_all)
        law[STIFFNESS] = REPEATED * n if mechanism.releases_records else 0.0
        set_moves(law, self.moves_over(nodes, chart)[0])
        if self.n_moves is not None:  # a user who asks for few moves gets all else of a sweep
            law[MORE_RENEWALS] = 0.0
        if lookup is None:
            lookup, near = chart.lookup(mechanism, nodes[:-1], *scales), mechanism.near(nodes[:-1], *scales)
        seen = Compressed(chart, masses, nodes, lookup, near, law, are_records, width, cells)
        return self.with_threshold(seen, release)

    def moves_over(self, nodes: Any, chart: Any) -> tuple[float, float]:
        """Moves over so many nodes in a sweep of the trial run, and the most after it."""
        work, of_several = nodes[:-1].size, len(nodes) > 2
        n_first, most, least = N_MOVES_FIRST, inf, 0
        if of_several and chart.keeps_records:
            n_first, most, least = N_MOVES_OF_RECORDS, MOST_WORK_OF_RECORDS / work, LEAST_OF_RECORDS
        elif of_several:
            n_first, most = N_MOVES_OF_SEVERAL, MOST_WORK_OF_SEVERAL / work
        n_moves = min(n_first, max(MOST_WORK // work, 10)) if self.n_moves is None else self.n_moves
        return n_moves, max(min(MOST_TIMES * n_moves, most), least)

    def with_threshold(self, seen: Compressed, release: Any) -> Compressed:
        """With a node for the records whose releases did not appear, where there is a threshold; one a noise scale.

        Of n releases f(z)/R(P) each is the likelihood, R the probability that one appears; where N records are known to
        be behind them it is f(z) each, and (1 - R)^(N - n).
        """
        if release.channel.released_above is None:
            return seen
        n, n_all = release.n_records, release.n_all
        scales, counts = np.unique(release.channel.noise_scale_for(1), return_counts=True)
        counts = np.array([n]) if len(scales) == 1 else counts
        sign, weights = (1.0, -counts) if n_all is None else (-1.0, n_all - counts)
        law = seen.law.copy()
        law[N_RECORDS] = n + weights.sum()
        lookup = np.zeros((len(seen.lookup), len(scales)))
        lookup[2:] = scales  # where records have their own
        nodes = np.hstack([seen.nodes, np.vstack([np.full(len(scales), sign), weights])])
        return seen._replace(nodes=nodes, lookup=np.hstack([seen.lookup, lookup]), law=law)

    # --- narrower cells, where a trial run asks for them --------------------------------------------------------------

    def refined(self, release: Any, seen: Compressed, draws: Draws) -> Compressed | None:
        """The next layout after one whose trial run made these draws; None where it is right, or none is finer."""
        chart, masses = seen.chart, seen.masses
        if chart.is_on_interval and (narrow := self.narrower(release, seen, draws)) is not None:
            return self.compressed(release, chart.with_points_for(narrow), masses, seen.width, seen.cells)
        if seen.are_records or not seen.width or self.compression_error(release, seen, draws) < TOLERANCE:
            return None
        width = next_width(release, seen)
        if width < release.narrowest():
            return None
        if seen.cells is None or seen.nodes.shape[1] < MANY_NODES:
            return self.compressed(release, chart, masses, width)
        cells = self.finer_cells(release, seen, draws)
        return None if cells is None else self.compressed(release, chart, masses, cells.width, cells)

    def narrower(self, release: Any, seen: Compressed, draws: Draws) -> Any:
        """Components of draws that the chart should have points for, if more points change their log likelihood."""
        found = seen.chart.narrower(draws.theta[draws.weights * release.n_records >= 1.0])
        if found is None:
            return None
        finer = self.compressed(release, seen.chart.finer(), seen.masses, seen.width, seen.cells)
        return None if self.difference(seen, finer, draws) < TOLERANCE else found

    def finer_cells(self, release: Any, seen: Any, draws: Draws) -> LineCells | None:
        """With those halved that the log likelihoods of draws ask for; None if none can be.

        Log densities may be no polynomials in a few cells only: at the ends of windows around narrow components, say.
        """
        (edges, width), finer = seen.cells, self.with_halves(release, seen, seen.chart)
        parts = [np.searchsorted(edges, nodes.nodes[0], side="right") for nodes in (seen, finer)]
        one, other = self.log_likelihoods((seen, finer), draws, parts, len(edges) + 1)
        error, middle = np.max(np.abs(one - other), axis=0)[1:-1], 0.5 * (edges[:-1] + edges[1:])
        order, is_wrong = np.argsort(error), (edges[:-1] < middle) & (middle < edges[1:])
        is_wrong[order[np.cumsum(error[order]) < 0.5 * TOLERANCE]] = False
        is_wrong &= middle - edges[:-1] >= release.narrowest()
        if not is_wrong.any() or seen.nodes.shape[1] > MOST_NODES:
            return None
        least = float((middle - edges[:-1])[is_wrong].min())
        return LineCells(np.union1d(edges, middle[is_wrong]), min(width, least))

    def with_halves(self, release: Any, seen: Compressed, chart: Any) -> Compressed:
        """With half as wide cells: those that were halved around many records are halved again."""
        halves = None if seen.cells is None else seen.cells.halves()
        return self.compressed(release, chart, seen.masses, 0.5 * seen.width, halves)

    def compression_error(self, release: Any, seen: Any, draws: Any) -> float:
        if (seen.are_records or not seen.width) and not seen.chart.is_on_interval:
            return 0.0
        error = self.difference(seen, self.with_halves(release, seen, seen.chart.finer()), draws)
        if 0.5 * seen.width < release.narrowest():  # then what the narrow cells leave out counts, too

            def over(nodes: Any) -> Compressed:
                nodes = np.array(nodes)
                lookup = seen.chart.lookup(release.channel, nodes[:-1])
                return self.with_threshold(seen._replace(nodes=nodes, near=nodes[:-1], lookup=lookup), release)

            one, other = map(over, release.narrow_nodes())
            error = max(error, self.difference(one, other, draws))
        return error

    def wanted(self, release: Any, seen: Compressed) -> float:
        """Width of cells that would be right where a release's summary has none so narrow; 0 where it has."""
        width = next_width(release, seen)
        return min(first_width(release, seen.chart), width) if width < release.narrowest() else 0.0

    def difference(self, seen: Compressed, finer: Compressed, draws: Draws) -> float:
        """Largest difference of the log likelihoods of draws, as many as take little time."""
        parts = [np.zeros(nodes.nodes.shape[1], np.int64) for nodes in (seen, finer)]
        one, other = self.log_likelihoods((seen, finer), draws, parts, 1)
        return float(np.max(np.abs(one - other), initial=0.0))

    def log_likelihoods(self, layouts: Any, draws: Draws, parts: Any, n_parts: int) -> Any:
        """Those of draws, as many as take little time, by each layout of nodes: (draws, parts of nodes)."""
        start = np.append(0, np.cumsum(draws.n_atoms))
        work = layouts[-1].nodes[:-1].size * np.mean(draws.n_atoms)
        n_chosen = min(MOST_CHECKED, max(LEAST_CHECKED, int(MOST_WORK_CHECKED / work)))
        chosen = evenly_spaced(len(draws.n_atoms), n_chosen)
        found = np.zeros((2, len(chosen), n_parts))
        for values, nodes, part in zip(found, layouts, parts, strict=True):
            walk, (channel, chart) = nodes.walk(new_state(nodes.chart.n_coordinates(), 1)), nodes.compiled()
            for value, t in zip(values, chosen, strict=True):
                rows = slice(start[t], start[t + 1])
                densities = np.empty((rows.stop - rows.start, nodes.nodes.shape[1]))
                fill_densities(channel, chart, walk, draws.theta[rows], densities)
                density = np.maximum(draws.weights[rows] @ densities, LEAST_DENSITY)
                value += np.bincount(part, nodes.nodes[-1] * np.log(density), n_parts)
        return found


def first_width(release: Any, chart: Any) -> float:
    """Width of cells that nodes are first laid out for: right for components as the prior makes them."""
    channel, n_features = release.channel, release.n_features
    if channel.tables == "bins" or (channel.tables is not None and (n_features > 1 or not channel.has_one_law)):
        return 0.0
    return float(channel.node_spacing(chart.narrowest()[0]) * (WIDER if n_features > 1 else 1.0))


def next_width(release: Any, seen: Compressed) -> float:
    """Width of the next narrower cells."""
    return (STEP if release.channel.has_one_law else STEP_OF_SCALES) * seen.width


def nodes_of_values(
    release: Any, chart: Any, width: float, cells: LineCells | None
) -> tuple[Any, float, LineCells | None]:
    """Nodes among the values that can be released, and the width of their cells and, of one feature, these.

    Unless that leaves many fewer, each different release is a node, and the width is 0.
    """
    values, fewer = different(release.channel.folded(release.Z)), None
    if width > 0.0 and values.shape[1] > FEW:
        if release.n_features > 1:
            fewer = nodes_of_several(release, chart, width)
        else:
            cells = cells_of_line(release, chart, width) if cells is None else cells
            fewer = np.array(nodes_of_line(release, cells))
    return (values, 0.0, None) if fewer is None or fewer.shape[1] >= FEWER * values.shape[1] else (fewer, width, cells)


def nodes_of_line(release: Any, cells: LineCells) -> Nodes:
    """Nodes for the records of one feature."""
    fine = fine_nodes(release, cells.width)
    if len(cells.edges) < 2:
        return Nodes(fine.places[:1], np.array([fine.weights.sum()]))
    return (compress_places if release.channel.is_grained else compress)(fine, cells.edges)


def cells_of_line(release: Any, chart: Any, width: float) -> LineCells:
    """Cells of this width where the population is, wider ones beyond, and narrower ones around many records."""
    mechanism, fine = release.channel, fine_nodes(release, width)
    low, high = fine.places[0], fine.places[-1]
    if low == high:
        return LineCells(fine.places[:1], width)
    if mechanism.releases_records:  # no noise makes the density simple anywhere
        edges = edges_around(fine.places, width)
    else:
        kinks = mechanism.kinks(1)[0]
        if chart.is_on_interval:
            kinks = np.union1d(kinks, chart.ends())
        edges = cell_edges(low, high, *core_of(release), width, kinks, fine.places)
    noise, factor = mechanism.noise_variance(1), width / mechanism.node_spacing(chart.narrowest()[0])

    def narrowest(n: Any) -> Any:
        return np.inf if noise is None else factor * np.sqrt(noise + chart.narrowest_of(n) ** 2)

    while len(finer := halved(edges, fine, narrowest, release.narrowest())) > len(edges):
        edges, width = finer, 0.5 * width
        fine = fine if mechanism.is_grained else release.nodes(width)
    return LineCells(edges, width)


def core_of(release: Any) -> tuple[float, float]:
    """Where releases of the population's records are, of one feature."""
    mean, variance = (moment[0] for moment in release.moments())
    reach: tuple[float, float] = release.channel.reach(
        mean - N_WIDTHS * sqrt(variance), mean + N_WIDTHS * sqrt(variance)
    )
    return reach


def fine_nodes(release: Any, width: float) -> Nodes:
    """What stands for the records of one feature, to be cut into cells of this width and wider ones."""
    if release.channel.is_grained:
        return Nodes(*different(release.channel.folded(release.Z)))
    return release.nodes(width)


def nodes_of_several(release: Any, chart: Any, width: float) -> Any:
    """Nodes for boxes of this width in the first feature, if they are much fewer than the records; else those.

    Records without noise stay, since nothing but the prior keeps components from being narrower than boxes.
    """
    mechanism, n = release.channel, release.n_records
    z = mechanism.folded(release.Z)
    if n > FEW and not mechanism.releases_records:
        spacing = np.array([mechanism.node_spacing(sd) for sd in chart.narrowest()])
        parts = z, width / spacing[0] * spacing, mechanism.kinks(z.shape[1])
        places, weights = release.remembered(tuple(parts[1].tolist()), partial(compress_records, *parts))
        if len(weights) < FEWER * n:
            return np.vstack([places.T, weights])
    return np.vstack([z[np.argsort(z[:, 0], kind="stable")].T, np.ones(n)])


def nodes_of_scales(release: Any, chart: Any, width: float) -> tuple[Any, Any]:
    """Nodes and the scales of their noise, for cells of this width under the least, if much fewer than records."""
    mechanism, n = release.channel, release.n_records
    scales, z = mechanism.scales(n, release.n_features), mechanism.folded(release.Z)
    if n > FEW and release.n_features == 1:
        sd = chart.narrowest()[0]
        core, factor = core_of(release), width / mechanism.node_spacing(sd)

        def edges_between(places, scale):
            one = mechanism.of_scales(scale, 1)
            spacing = factor * one.node_spacing(sd)
            return cell_edges(places[0], places[-1], *core, spacing, one.kinks(1)[0], places)

        band = factor * BAND if mechanism.is_smooth_in_scale else None
        places, of_nodes, weights = compress_scaled(z[:, 0], scales, band, edges_between)
        if len(weights) < FEWER * n:
            return np.vstack([places, weights]), of_nodes
    order = np.argsort(z[:, 0], kind="stable")
    return np.vstack([z[order].T, np.ones(n)]), scales[order]
