"""Atoms of truncated normal kernels: as of normal ones, with g by a table of the interval."""

from math import log

import numpy as np

from ...._base.compiled import compiled
from ._any_noise import any_noise, noise_in_table
from ._normal_on_interval import NormalOnInterval
from ._on_interval import InBins
from ._walk_atoms import HALF_LOG_2PI


class TruncatedNormalChart(NormalOnInterval):
    """Coordinates (μ, log σ²) of the law before truncation; one feature."""

    def __init__(self, kernel, n_features, finer=1.0):
        super().__init__(kernel, n_features)
        self.low, self.width = float(kernel.low[0]), float(kernel.high[0] - kernel.low[0])
        self.grid = self.grid_of(finer)

    def finer(self):
        return type(self)(self.kernel, self.n_features, 2.0)

    def ends(self):
        return (self.low, self.low + self.width)

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

    def seen_of(self, channel):
        return any_noise(channel)

    @compiled
    def kept_by(self, channel):
        return channel

    @compiled
    def take(self, theta, row, walk):
        walk.atoms[1], walk.atoms[2] = theta[row, 0], 2.0 * log(theta[row, 1])


class TruncatedNormalInTable(TruncatedNormalChart):
    """Under a channel that has no densities of normal records."""

    def seen_of(self, channel):
        return noise_in_table()

    @compiled
    def kept_by(self, channel):
        return self


class TruncatedNormalInBins(InBins, TruncatedNormalInTable):
    """Under a channel that tells bins apart."""

    def shares(self):
        return self.grid.below, self.grid.weights * self.width
