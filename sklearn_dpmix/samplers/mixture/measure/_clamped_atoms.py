"""Normal atoms whose records are moved to two bounds, under a channel that is a polynomial between these."""

from math import exp

import numpy as np

from ...._base.compiled import compiled
from ...._base.numeric import HALF_LOG_2PI, log_ndtr, log_ndtr_interval
from ._noise_parts import jumps_of
from ._normal_on_interval import NormalOnInterval

FARTHEST = 40.0  # standard deviations beyond which there is no mass


class ClampedNormalChart(NormalOnInterval):
    """Coordinates (μ, log σ²); one feature.  Two rows of the table are for records at the bounds."""

    n_others = 2

    def interval(self):
        return float(self.channel.low[0]), float(self.channel.width[0])

    def other_rows(self, noise):
        return np.array([noise.at_record(self.low), noise.at_record(self.low + self.width)])

    def fields(self):
        return super().fields() | {"n_inside": np.int64(len(self.grid.below))}

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """The mass between the bounds, shared out over the grid, and that beyond each.

        With t = (bound - μ)/σ, Φ(t) has derivatives -φ(t)/σ and -t φ(t)/2 by μ and log σ².
        """
        self.evaluate(mean, log_variance)
        values, size, inside, inverse = self.values, self.n_places, self.n_inside, exp(-0.5 * log_variance)
        low = min(max((self.low - mean) * inverse, -FARTHEST), FARTHEST)
        high = min(max((self.high - mean) * inverse, -FARTHEST), FARTHEST)
        below, mass, above = exp(log_ndtr(low)), exp(log_ndtr_interval(low, high)), exp(log_ndtr(-high))
        f_low, f_high = exp(-0.5 * low * low - HALF_LOG_2PI), exp(-0.5 * high * high - HALF_LOG_2PI)
        by_mean, by_scale = inverse * (f_low - f_high), 0.5 * (low * f_low - high * f_high)
        for p in range(inside):
            f = values[p]
            values[p] = mass * f
            values[size + p] = mass * values[size + p] + by_mean * f
            values[2 * size + p] = mass * values[2 * size + p] + by_scale * f
        values[inside], values[inside + 1] = below, above
        values[size + inside], values[size + inside + 1] = -inverse * f_low, inverse * f_high
        values[2 * size + inside], values[2 * size + inside + 1] = -0.5 * low * f_low, 0.5 * high * f_high
        self.multiply(nodes, n, out, first, second)


class ClampedNormalUnderNoise(ClampedNormalChart):
    """The same under additive noise."""

    def interval(self):
        return float(self.channel.low[0]), float(self.channel.high[0] - self.channel.low[0])

    def ends(self):
        """Releases at which the noise of records at a bound jumps or bends."""
        jumps = jumps_of(self.channel, self.width)
        return tuple(np.append(self.low + jumps, self.low + self.width + jumps))
