"""Atoms of truncated normal kernels: as of normal ones, with g by a table of the interval."""

from math import exp, log

import numpy as np

from ...._base.compiled import compiled
from ...._base.table import multiply_table, padded
from ...._base.vector import exp_bounded
from ._any_noise import noise_in_table
from ._in_bins import InBins
from ._interval import grid, noise_of, table
from ._normal_atoms import NormalChart
from ._walk_atoms import HALF_LOG_2PI

CELL, FIRST_CELL = 1.5, 0.125  # widths, in standard deviations of the narrowest components, inside and at the bounds
GROWTH = 2.0


class TruncatedNormalChart(NormalChart):
    """Coordinates (μ, log σ²) of the law before truncation; one feature."""

    is_on_interval = True

    def __init__(self, kernel, n_features, finer=1.0):
        super().__init__(kernel, n_features)
        self.low, self.width = float(kernel.low[0]), float(kernel.high[0] - kernel.low[0])
        sd = min(float(self.narrowest()[0]) / self.width, 1.0) / finer
        self.grid = grid(0.0, FIRST_CELL * sd, CELL * sd, GROWTH, self.cuts())

    def cuts(self):
        """Shares of the interval at which its cells end, whatever their width."""
        return ()

    def finer(self):
        return type(self)(self.kernel, self.n_features, 2.0)

    def ends(self):
        return (self.low, self.low + self.width)

    def seen_of(self, channel):
        return super().seen_of(channel) if "normal" in channel._owner.noised_kernels else noise_in_table()

    def lookup(self, mechanism, places, *scales):
        noise = noise_of(mechanism, places[0], *scales)
        return padded(table(noise, self.low + self.width * self.grid.edges))

    def places(self):
        """The grid's points, in the records' unit."""
        return self.low + self.width * self.grid.below

    def densities(self, theta, points):
        x = np.clip(points[0], self.low, self.low + self.width)
        e = (x - theta[:, 0, None]) / theta[:, 1, None]
        return np.exp(-0.5 * e * e - theta[:, 3, None] - HALF_LOG_2PI)

    def moments(self, theta, j):
        y = self.places()
        shares = self.densities(theta, y[None]) * (self.width * self.grid.weights)
        shares /= np.maximum(shares.sum(axis=1, keepdims=True), 1e-300)
        mean = shares @ y
        return mean, np.sqrt(np.maximum(shares @ y**2 - mean**2, 0.0))

    def start(self, places, rng):
        return super().start(np.clip(places, self.low, self.low + self.width), rng)

    def fields(self):
        y = padded(self.places())
        weights = padded(self.grid.weights * self.width)
        fields = {"y": y, "weights": weights, "values": np.empty(3 * len(y)), "n_places": np.int64(len(y))}
        return super().fields() | fields | {"low": self.low, "high": self.low + self.width}

    @compiled
    def densities_by(self, channel):
        return self

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """The density at the grid's points, normalised on the grid, and what the table makes of it.

        With e = (y - μ)/σ it has derivatives f (e - E e)/σ and f (e² - E e²)/2 by μ and log σ².
        """
        values, y, size = self.values, self.y, self.n_places
        precision, top = exp(-log_variance), min(max(mean, self.low), self.high)
        total, by_mean, by_scale, least = 0.0, 0.0, 0.0, 1e300
        for p in range(size):
            if self.weights[p] > 0.0:
                least = min(least, 0.5 * precision * (y[p] - top) * (y[p] + top - 2.0 * mean))
        for p in range(size):
            fall = 0.5 * precision * (y[p] - top) * (y[p] + top - 2.0 * mean) - least
            values[p] = exp_bounded(-max(fall, 0.0))
        for p in range(size):
            d = y[p] - top
            mass = self.weights[p] * values[p]
            total += mass
            by_mean += mass * d
            by_scale += mass * d * (y[p] + top - 2.0 * mean)
        inverse = 1.0 / total
        by_mean *= inverse
        by_scale *= inverse
        for p in range(size):
            d = y[p] - top
            f = values[p] * inverse
            values[p] = f
            values[size + p] = f * (d - by_mean) * precision
            values[2 * size + p] = 0.5 * precision * f * (d * (y[p] + top - 2.0 * mean) - by_scale)
        self.multiply(nodes, n, out, first, second)

    @compiled
    def multiply(self, nodes, n, out, first, second):
        """What the table makes of the values."""
        multiply_table(nodes, n, n, self.values, self.n_places, out, first, second)

    @compiled
    def take(self, theta, row, walk):
        walk.atoms[1], walk.atoms[2] = theta[row, 0], 2.0 * log(theta[row, 1])


class TruncatedNormalInBins(InBins, TruncatedNormalChart):
    """Under a channel that tells bins apart."""

    def shares(self):
        return self.grid.below, self.grid.weights * self.width
