"""Where DP-MCMC takes its randomness from: the operating system, OpenDP on top of it, or a seed in a simulation.

Whoever can reproduce the noise can take it off.  So a real run draws every number from the operating system's entropy:
there is no seed and no generator whose state could be kept, and what is drawn ahead is forgotten in a pickle.
"""

import os

import numpy as np
from scipy.special import ndtri

from .mechanisms._secure import MARGIN, measurement

AHEAD = 2048  # numbers drawn at a time


class SystemNoise:
    """Uniform and normal numbers from the operating system's entropy."""

    def __init__(self):
        self._ahead = np.empty(0)

    def __reduce__(self):
        return type(self), ()

    def random(self, size):
        """Uniform on (0, 1): the middles of 2^52 cells."""
        if size > AHEAD:
            return _uniform(size)
        if size > len(self._ahead):
            self._ahead = _uniform(AHEAD)
        drawn, self._ahead = self._ahead[:size].copy(), self._ahead[size:]
        return drawn

    def standard_normal(self, size):
        """Standard normal by inversion, so within ±8.2."""
        return ndtri(self.random(size))

    def release(self, values, sensitivity, multiplier):
        """``values``, of L2 sensitivity ``sensitivity``, with normal noise of ``multiplier`` times that.

        The scale is rounded up, as OpenDP's is, so that rounding is never at the cost of privacy.
        """
        if sensitivity == 0.0:  # nothing depends on a record, but for rounding
            return np.zeros(len(values))
        scale = sensitivity * multiplier * (1.0 + MARGIN)
        return values + scale * self.standard_normal(len(values))


class SecureNoise(SystemNoise):
    """The noise of what is released by OpenDP, which resists floating-point attacks; the rest as in SystemNoise."""

    def release(self, values, sensitivity, multiplier):
        if sensitivity == 0.0:
            return np.zeros(len(values))
        noisy = measurement("gaussian", multiplier)((values / sensitivity).tolist())
        return np.array(noisy) * sensitivity


class SimulatedNoise(SystemNoise):
    """From a NumPy generator: for tests and studies on data that are not confidential."""

    def __init__(self, rng):
        self.rng = rng

    def __reduce__(self):
        return SimulatedNoise, (self.rng,)

    def random(self, size):
        return self.rng.random(size)

    def standard_normal(self, size):
        return self.rng.standard_normal(size)


class NoNoise(SimulatedNoise):
    """Proposals from a NumPy generator, and what is released is exact: the non-private parent of each sampler."""

    def __reduce__(self):
        return NoNoise, (self.rng,)

    def release(self, values, sensitivity, multiplier):
        return values


def _uniform(size):
    cells = np.frombuffer(os.urandom(8 * size), dtype=np.uint64) >> np.uint64(12)
    return (cells.astype(np.float64) + 0.5) * 2.0**-52
