"""Atoms of truncated normal kernels: as of normal ones, with g by a table of the interval."""

from math import log

import numpy as np

from ...._base.compiled import compiled
from ...._base.numeric import HALF_LOG_2PI
from ._any_noise import any_noise
from ._normal_on_interval import NormalOnInterval
from ._on_interval import InBins


class TruncatedNormalInTable(NormalOnInterval):
    """Coordinates (μ, log σ²) of the law before truncation; one feature."""

    def interval(self):
        return float(self.kernel.low[0]), float(self.kernel.high[0] - self.kernel.low[0])

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

    @compiled
    def take(self, theta, row, walk):
        walk.atoms[1], walk.atoms[2] = theta[row, 0], 2.0 * log(theta[row, 1])


class TruncatedNormalChart(TruncatedNormalInTable):
    """Under a channel that has densities of normal records: these are what glides keep."""

    def seen_of(self, channel):
        return any_noise(channel)

    @compiled
    def kept_by(self, channel):
        return channel


class TruncatedNormalInBins(InBins, TruncatedNormalInTable):
    """Under a channel that tells bins apart."""

    def shares(self):
        return self.grid.below, self.grid.weights * self.width
