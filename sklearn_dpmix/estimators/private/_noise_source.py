"""Where DP-MCMC takes its randomness from: the operating system, OpenDP on top of it, or a seed in a simulation.

Whoever can reproduce the noise can remove it.  So a real run draws every number from the operating system's entropy:
there is no seed and no generator whose state could be kept, and numbers drawn ahead are not pickled.
"""

import os

import numpy as np
from scipy.special import ndtri

from ...mechanisms._secure import MARGIN, measurement

AHEAD = 2048  # numbers drawn at a time
MOST_WORDS = 15  # words of 64 bits in a number: numbers that need more have probability 2^-960
#: The smallest δ for which normal noise has the tails that δ is about; the tails end where this probability does.
SMALLEST_DELTA = 1e-250


class SystemNoise:
    """Uniform and normal numbers from the operating system's entropy."""

    def __init__(self):
        self._ahead = np.empty(0)

    def __reduce__(self):
        return type(self), ()

    def random(self, size):
        """Uniform on (0, 1), with small numbers as fine as floating point allows."""
        if size > AHEAD:
            return _uniform(size)
        if size > len(self._ahead):
            self._ahead = _uniform(AHEAD)
        drawn, self._ahead = self._ahead[:size].copy(), self._ahead[size:]
        return drawn

    def standard_normal(self, size):
        """Standard normal by inversion on the side of small probabilities, which reaches ±36; the sign is drawn."""
        uniform = self.random(2 * size)
        distance = -ndtri(0.5 * uniform[:size])
        return np.where(uniform[size:] < 0.5, -distance, distance)

    def release(self, values, sensitivity, multiplier):
        """``values``, of L2 sensitivity ``sensitivity``, with normal noise of ``multiplier`` times that.

        The scale is rounded up, as in OpenDP, so that rounding never costs privacy.
        """
        if sensitivity == 0.0:  # nothing depends on a record, except for rounding
            return np.zeros(len(values))
        scale = sensitivity * multiplier * (1.0 + MARGIN)
        return values + scale * self.standard_normal(len(values))


class SecureNoise(SystemNoise):
    """Noise of releases by OpenDP, which resists floating-point attacks; the rest is as in SystemNoise."""

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
        return type(self), (self.rng,)

    def random(self, size):
        return self.rng.random(size)

    def standard_normal(self, size):
        return self.rng.standard_normal(size)


class ExactReleases(SimulatedNoise):
    """Proposals from a NumPy generator, and exact releases: the non-private parent of each sampler."""

    def release(self, values, sensitivity, multiplier):
        return values


def _uniform(size, most_words=MOST_WORDS):
    """The number that an endless row of random bits stands for, rounded to about 53 bits from the first 1 on."""
    words = np.frombuffer(os.urandom(8 * size), dtype=np.uint64)
    rest = np.full(size, 0.5)
    few_bits = np.flatnonzero(words < 2**12)
    if len(few_bits) and most_words > 1:
        rest[few_bits] = _uniform(len(few_bits), most_words - 1)
    return np.minimum((words + rest) * 2.0**-64, 1.0 - 2.0**-53)
