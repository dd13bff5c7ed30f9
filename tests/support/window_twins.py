"""Twins of a window mechanism for which records beyond a bound are never in the window."""

import numpy as np

from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.mechanisms import SquareWaveMechanism


class ForgetsClamping(SquareWaveMechanism):
    @compiled
    def window(self, Z, i, j):
        centre = self.middle[j] + (Z[i, j] - self.middle[j]) * self.shrink[i]
        reach = self.half[j] * self.narrow[i]
        return max(centre - reach, self.low[j]), min(centre + reach, self.high[j])


class ForgetsClampingOnNodes(SquareWaveMechanism):
    """Of the walk over mixing measures."""

    noised_kernels = frozenset({"normal"})

    def lookup(self, places):
        return np.clip(super().lookup(places), *self.bounds)
