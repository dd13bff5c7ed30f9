"""Normal atoms whose records are moved to two bounds, under a channel that is a polynomial between these."""

from math import exp

import numpy as np

from ...._base.compiled import compiled
from ...._base.vector import erfcx_positive, exp_bounded
from ._interval import at_record
from ._normal_on_interval import NormalOnInterval
from ._walk_atoms import HALF_LOG_2PI

FARTHEST = 40.0  # standard deviations beyond which there is no mass
SQRT_HALF, PEAK = 0.5**0.5, exp(-HALF_LOG_2PI)


class ClampedNormalChart(NormalOnInterval):
    """Coordinates (μ, log σ²); one feature.  Two rows of the table are for records at the bounds."""

    n_others = 2

    def __init__(self, kernel, n_features, channel, finer=1.0):
        super().__init__(kernel, n_features)
        self.channel, self.low, self.width = channel, float(channel.low[0]), float(channel.width[0])
        self.grid = self.grid_of(finer)

    def finer(self):
        return type(self)(self.kernel, self.n_features, self.channel, 2.0)

    def other_rows(self, noise):
        return np.array([at_record(noise, self.low), at_record(noise, self.low + self.width)])

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
        e_low, e_high = exp_bounded(-0.5 * low * low), exp_bounded(-0.5 * high * high)
        tail_low = 0.5 * e_low * erfcx_positive(abs(low) * SQRT_HALF)
        tail_high = 0.5 * e_high * erfcx_positive(abs(high) * SQRT_HALF)
        below, above = (1.0 - tail_low if low > 0.0 else tail_low), (1.0 - tail_high if high < 0.0 else tail_high)
        mass = 1.0 - tail_low - tail_high
        mass = tail_low - tail_high if low > 0.0 else mass
        mass = tail_high - tail_low if high < 0.0 else mass
        by_mean, by_scale = PEAK * inverse * (e_low - e_high), 0.5 * PEAK * (low * e_low - high * e_high)
        for p in range(inside):
            f = values[p]
            values[p] = mass * f
            values[size + p] = mass * values[size + p] + by_mean * f
            values[2 * size + p] = mass * values[2 * size + p] + by_scale * f
        values[inside], values[inside + 1] = below, above
        values[size + inside], values[size + inside + 1] = -PEAK * inverse * e_low, PEAK * inverse * e_high
        values[2 * size + inside], values[2 * size + inside + 1] = -0.5 * PEAK * low * e_low, 0.5 * PEAK * high * e_high
        self.multiply(nodes, n, out, first, second)
