"""Normal atoms whose densities under noise are a table's, of an interval, times theirs at the interval's points."""

from math import exp

import numpy as np

from ...._base.compiled import compiled
from ...._base.table import padded
from ...._base.vector import exp_bounded
from ._any_noise import noise_in_table
from ._interval import Spots, grid
from ._normal_atoms import NormalChart
from ._on_interval import CELL, LEAST_WIDEST, OnInterval

FIRST_CELL = 0.125  # width at the bounds, in standard deviations of the narrowest components
GROWTH = 2.0
REACH, REACH_OUTSIDE = 8.0, 16.0  # standard deviations from the mean, or lengths of a decay from the bound, with mass


class NormalOnInterval(OnInterval, NormalChart):
    """Base class; one feature."""

    #: rows of the table beside those of the grid's points
    n_others = 0

    def __init__(self, kernel, n_features, channel=None, finer=1.0, narrow=None):
        super().__init__(kernel, n_features, channel)
        self.low, self.width = self.interval()
        self.narrow = narrow
        sd = min(float(self.narrowest()[0]) / self.width, 1.0) / finer
        widest = max(CELL * sd, LEAST_WIDEST / finer)
        self.grid = grid(0.0, FIRST_CELL * sd, widest, GROWTH, self.cuts(), self.spots(finer))

    def spots_of(self, theta):
        """With its mean beyond a bound, a component decays from there."""
        mean, sd = (theta[:, 0] - self.low) / self.width, theta[:, 1] / self.width
        place = np.clip(mean, 0.0, 1.0)
        beyond = np.abs(mean - place) / sd
        length = sd / np.maximum(beyond, 1.0)
        return Spots(place, np.where(beyond < 1.0, REACH, REACH_OUTSIDE) * length, CELL * length)

    def interval(self):
        """Where it begins, and its width."""
        raise NotImplementedError

    def seen_of(self, channel):
        return noise_in_table()

    def places(self):
        """The grid's points, in the records' unit."""
        return self.low + self.width * self.grid.below

    def fields(self):
        others = np.zeros(self.n_others)
        y = padded(np.append(self.places(), others))
        weights = padded(np.append(self.grid.weights * self.width, others))
        fields = {"y": y, "weights": weights, "values": np.empty(3 * len(y)), "n_places": np.int64(len(y))}
        return super().fields() | fields | {"low": self.low, "high": self.low + self.width}

    @compiled
    def densities_by(self, channel):
        return self

    @compiled
    def kept_by(self, channel):
        return self

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        self.evaluate(mean, log_variance)
        self.multiply(nodes, n, out, first, second)

    @compiled
    def evaluate(self, mean, log_variance):
        """The density at the grid's points, normalised on the grid.

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
