"""Atoms on an interval: g by a table and their densities at a grid's points, or their masses in a channel's bins."""

from typing import Any

import numpy as np

from ...._base.compiled import compiled
from ...._base.table import multiply_table, padded
from ._interval import Spots
from ._noise_on_interval import noise_of

CELL = 1.5  # width, in standard deviations of the narrowest components
MARGIN = 2.0  # times as narrow components as were seen have their cells, too
LEAST_CELL = 1e-10  # share of the interval
LEAST_WIDEST = 0.01  # ... of a cell where nothing is known of what is there
MOST_POINTS = 6000  # of a grid


class OnInterval:
    """Mixin of charts with a grid of an interval, so many times finer than it need be.

    It is laid out for components that the prior makes.  Many records at one place may make narrower ones, rows of
    parameters in ``narrow``: where these are, the grid has narrower cells.
    """

    is_on_interval = True

    def finer(self: Any) -> Any:
        return type(self)(self.kernel, self.n_features, self.channel, 2.0, self.narrow)

    def with_points_for(self: Any, narrow: Any) -> Any:
        return type(self)(self.kernel, self.n_features, self.channel, 1.0, narrow)

    def spots_of(self: Any, theta: Any) -> Spots:
        """Where components are, how far from there their mass is, and how wide cells may be; one a component."""
        raise NotImplementedError

    def spots(self: Any, finer: float) -> Spots | None:
        """Those of the narrow components, without repetitions."""
        if self.narrow is None:
            return None
        place, reach, wide = self.spots_of(self.narrow)
        wide = 2.0 ** np.floor(np.log2(np.maximum(wide / MARGIN, LEAST_CELL)))
        place, reach = np.round(place / wide) * wide, np.ceil(reach / wide) * wide
        found = np.unique(np.column_stack([place, reach, wide]), axis=0).T
        return Spots(found[0], found[1], found[2] / finer)

    def is_too_narrow(self: Any, theta: Any) -> Any:
        """Whether cells are too wide for each component."""
        (place, _, wide), edges = self.spots_of(theta), self.grid.edges
        cell = np.clip(np.searchsorted(edges, place) - 1, 0, len(edges) - 2)
        return np.diff(edges)[cell] > wide

    def narrower(self: Any, theta: Any) -> Any:
        """Components that the grid should have points for: those that it has, and too narrow ones of these.

        None if there are no others, or too many points would be needed.
        """
        is_narrow = self.is_too_narrow(theta)
        if not is_narrow.any():
            return None
        narrow = theta[is_narrow] if self.narrow is None else np.concatenate([self.narrow, theta[is_narrow]])
        n_points = len(self.with_points_for(narrow).grid.below)
        return narrow if len(self.grid.below) < n_points <= MOST_POINTS else None

    def cuts(self: Any) -> Any:
        """Shares of the interval at which its cells end, whatever their width."""
        return ()

    def lookup(self: Any, mechanism: Any, places: Any, *scales: Any) -> Any:
        mechanism.check_reach(places, *scales)
        noise = noise_of(mechanism, places[0], self.low, self.width, *scales)
        inner = noise.table(self.low + self.width * self.grid.edges)
        return padded(np.concatenate([inner, self.other_rows(noise)]))

    def other_rows(self: Any, noise: Any) -> Any:
        """The table's rows beside those of the grid's points."""
        return np.empty((0, len(noise.places)))

    @compiled
    def multiply(self, nodes, n, out, first, second):
        """What the table makes of the values."""
        multiply_table(nodes, n, n, self.values, self.n_places, out, first, second)


class InBins:
    """Mixin of such charts under a channel that tells bins apart.

    The grid's cells end where bins do, and what its points weigh in a bin is added up.
    """

    def cuts(self: Any) -> Any:
        """Ends of the bins, as shares of the interval."""
        ends = self.channel.low + self.channel.width * np.arange(1, int(self.channel.last_cell) + 1)
        return (ends - self.low) / self.width

    def shares(self: Any) -> Any:
        """Where the numbers in ``values`` are, as shares of the interval, and what they weigh."""
        raise NotImplementedError

    def fields(self: Any) -> Any:
        places, weights = self.shares()
        bins = np.floor((self.low + self.width * places - self.channel.low) / self.channel.width)
        bins = np.clip(bins, 0.0, self.channel.last_cell)
        n_bins = len(padded(np.zeros(int(self.channel.last_cell) + 1)))
        fields = {"bins": padded(bins), "in_bin": padded(weights), "masses": np.empty(3 * n_bins)}
        return super().fields() | fields | {"n_bins": np.int64(n_bins)}  # type: ignore[misc]

    @compiled
    def multiply(self, nodes, n, out, first, second):
        masses, values, size = self.masses, self.values, self.n_places
        for row in range(3):
            for b in range(self.n_bins):
                masses[row * self.n_bins + b] = 0.0
            for p in range(size):
                masses[row * self.n_bins + int(self.bins[p])] += self.in_bin[p] * values[row * size + p]
        multiply_table(nodes, n, n, masses, self.n_bins, out, first, second)
