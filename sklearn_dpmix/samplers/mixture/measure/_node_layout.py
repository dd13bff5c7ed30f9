"""Nodes for a release, and how many moves over them a sweep of the trial run has."""

from math import inf, sqrt
from typing import Any

import numpy as np

from ...._base.table import padded
from ...._releases.nodes import FEW, Nodes, cell_edges, compress, edges_around, halved
from ...._releases.nodes_of_scales import compress_scaled
from ...._releases.nodes_of_several import compress_places, compress_records
from ._compressed import Compressed, chart_and_masses, different, law_of
from ._normal_atoms import N_WIDTHS
from ._walk_atoms import CUT, N_MOVES, N_RECORDS, STIFFNESS

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


class NodeLayout:
    """What the chains see of a release, with cells of a width: of one feature or several, one noise scale or many."""

    n_moves: int | None

    def compressed(
        self,
        values: Any,
        Z: Any,
        release: Any,
        width: float,
        chart: Any = None,
        halves: bool = False,
        edges: Any = None,
    ) -> Compressed:
        """What the chains see, with cells of this width where the population is, or of one feature with these edges.

        Of edges the width is that of the narrowest cell that matters. Or with ``halves`` of cells twice as wide,
        wherever those are: cells that were halved around many records are halved again.
        """
        (of_kernel, masses), mechanism = chart_and_masses(values), release.channel
        (mean, variance), n, n_features = release.moments(), release.n_records, release.n_features
        chart = of_kernel if chart is None else chart
        are_records, scales = n <= FEW or n_features > 1, ()
        lookup: Any = None
        if mechanism.tables == "bins":
            near = mechanism.guess(release.Z).T
            order = np.argsort(near[0], kind="stable")
            near, lookup = near[:, order], padded(Z[order, :-1].T)
            nodes, are_records = np.vstack([near, np.ones(n)]), True
        elif chart.keeps_records:
            nodes, are_records = np.vstack([mechanism.folded(Z).T, np.ones(n)]), True
        elif mechanism.is_grained:
            nodes, width = self.nodes_of_values(release, chart, Z, width, halves, edges)
            are_records = n <= FEW
        elif not mechanism.has_one_law:
            nodes, *scales = self.nodes_of_scales(release, chart, Z, width)
            are_records = nodes.shape[1] == n
        elif n_features > 1:
            nodes = self.nodes_of_several(mechanism, chart, Z, width)
            are_records = nodes.shape[1] == n
        elif are_records:
            nodes = np.array(release.nodes(width))
        else:
            nodes = np.array(self.nodes_of_line(release, chart, width, halves, edges))
        law = law_of(chart, masses, n, mean, variance)
        if mechanism.released_above is not None:
            law[CUT] = masses.cut(MOST_BEHIND * n if release.n_all is None else release.n_all)
        law[STIFFNESS] = REPEATED * n if mechanism.releases_records else 0.0
        law[N_MOVES], most_moves = self.moves_over(nodes.shape[1] * n_features, chart, n_features)
        if lookup is None:
            lookup, near = chart.lookup(mechanism, nodes[:-1], *scales), mechanism.near(nodes[:-1])
        seen = Compressed(nodes, lookup, near, law, are_records, width, most_moves=most_moves)
        seen = seen._replace(kept=chart.kept(near, lookup), narrow=chart.narrow, edges=edges)
        return self.with_threshold(seen, release)

    def moves_over(self, work: int, chart: Any, n_features: int) -> tuple[float, float]:
        """Moves in a sweep of the trial run, and the most after it; ``work`` is of one move, nodes times features."""
        n_first, most, least = N_MOVES_FIRST, inf, 0
        if n_features > 1 and chart.keeps_records:
            n_first, most, least = N_MOVES_OF_RECORDS, MOST_WORK_OF_RECORDS / work, LEAST_OF_RECORDS
        elif n_features > 1:
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
        n_seen = seen.nodes.shape[1]
        return seen._replace(nodes=nodes, lookup=np.hstack([seen.lookup, lookup]), law=law, n_seen=n_seen)

    def nodes_of_values(
        self, release: Any, chart: Any, Z: Any, width: float, halves: bool, edges: Any
    ) -> tuple[Any, float]:
        """Nodes among the values that can be released, and the width of their cells.

        Unless that leaves many fewer, each different release is a node, and the width is 0.
        """
        mechanism = release.channel
        nodes = different(mechanism.folded(Z))
        if width > 0.0 and nodes.shape[1] > FEW:
            if release.n_features > 1:
                fewer = self.nodes_of_several(mechanism, chart, Z, width)
            else:
                fewer = np.array(self.nodes_of_line(release, chart, width, halves, edges))
            if fewer.shape[1] < FEWER * nodes.shape[1]:
                return fewer, width
        return nodes, 0.0

    def nodes_of_line(self, release: Any, chart: Any, width: float, halves: bool = False, edges: Any = None) -> Nodes:
        """Nodes for the records of one feature."""
        if edges is None:
            edges, least = self.edges_of_line(release, chart, 2.0 * width if halves else width)
            width = 0.5 * least if halves else least
        if halves:
            edges = np.union1d(edges, 0.5 * (edges[1:] + edges[:-1]))
        fine = fine_nodes(release, width)
        if len(edges) < 2:
            return Nodes(fine.places[:1], np.array([fine.weights.sum()]))
        return (compress_places if release.channel.is_grained else compress)(fine, edges)

    def edges_of_line(self, release: Any, chart: Any, width: float) -> tuple[Any, float]:
        """Edges of the cells, and the width of the narrowest that are not cut by a kink or an end."""
        mechanism, fine = release.channel, fine_nodes(release, width)
        low, high = fine.places[0], fine.places[-1]
        if low == high:
            return fine.places[:1], width
        if mechanism.releases_records:  # no noise makes the density simple anywhere
            edges = edges_around(fine.places, width)
        else:
            mean, variance = (moment[0] for moment in release.moments())
            core_low, core_high = mechanism.reach(mean - N_WIDTHS * sqrt(variance), mean + N_WIDTHS * sqrt(variance))
            kinks = mechanism.kinks(1)[0]
            if chart.is_on_interval:
                kinks = np.union1d(kinks, chart.ends())
            edges = cell_edges(low, high, core_low, core_high, width, kinks, fine.places)
        noise, factor = mechanism.noise_variance(1), width / mechanism.node_spacing(chart.narrowest()[0])

        def narrowest(n: Any) -> Any:
            return np.inf if noise is None else factor * np.sqrt(noise + chart.narrowest_of(n) ** 2)

        while len(finer := halved(edges, fine, narrowest, release.narrowest())) > len(edges):
            edges, width = finer, 0.5 * width
            fine = fine if mechanism.is_grained else release.nodes(width)
        return edges, width

    def nodes_of_several(self, mechanism: Any, chart: Any, Z: Any, width: float) -> Any:
        """Nodes for boxes of this width in the first feature, if they are much fewer than the records; else those.

        Records without noise stay, since nothing but the prior keeps components from being narrower than boxes.
        """
        z = mechanism.folded(Z)
        places, weights = z[np.argsort(z[:, 0], kind="stable")], np.ones(len(z))
        if len(z) > FEW and not mechanism.releases_records:
            spacing = np.array([mechanism.node_spacing(sd) for sd in chart.narrowest()])
            found = compress_records(z, width / spacing[0] * spacing, mechanism.kinks(z.shape[1]))
            if len(found[1]) < FEWER * len(z):
                places, weights = found
        return np.vstack([places.T, weights])

    def nodes_of_scales(self, release: Any, chart: Any, Z: Any, width: float) -> Any:
        """Nodes and the scales of their noise, for cells of this width under the least, if much fewer than records."""
        mechanism, n, scales = release.channel, release.n_records, release.noise_scale()[:, 0]
        z = mechanism.folded(Z)
        order = np.argsort(z[:, 0], kind="stable")
        records = np.vstack([z[order].T, np.ones(n)]), scales[order]
        if n <= FEW or release.n_features > 1:
            return records
        sd, (mean, variance) = chart.narrowest()[0], release.moments()
        reach, factor = N_WIDTHS * sqrt(variance[0]), width / mechanism.node_spacing(sd)
        core, kinks = mechanism.reach(mean[0] - reach, mean[0] + reach), mechanism.kinks(1)[0]

        def edges_between(low, high, scale):
            return cell_edges(low, high, *core, factor * mechanism.node_spacing(sd, scale), kinks)

        places, scales, weights = compress_scaled(z[:, 0], scales, factor * BAND, edges_between)
        return (np.vstack([places, weights]), scales) if len(weights) < FEWER * n else records


def fine_nodes(release: Any, width: float) -> Nodes:
    """What stands for the records of one feature, to be cut into cells of this width and wider ones."""
    if release.channel.is_grained:
        return Nodes(*different(release.channel.folded(release.Z)))
    return release.nodes(width)
