"""Atoms on an interval: g by a table and their densities at a grid's points, or their masses in a channel's bins."""

from typing import Any

import numpy as np

from ...._base.compiled import compiled
from ...._base.table import multiply_table, padded


class OnInterval:
    """Mixin of charts with a grid of an interval, so many times finer than it need be."""

    is_on_interval = True

    def finer(self: Any) -> Any:
        return type(self)(self.kernel, self.n_features, self.channel, 2.0)

    def cuts(self: Any) -> Any:
        """Shares of the interval at which its cells end, whatever their width."""
        return ()

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
