"""Kinds of noise of a user's own: a density, and draws."""

from math import exp, floor, log, pi

import numpy as np

from sklearn_dpmix.mechanisms import AdditiveMechanism, GaussianMechanism, LaplaceMechanism, compiled


class OwnNoise(AdditiveMechanism):
    def __init__(self, scale=1.0, *, bounds=None, clamp=True):
        self.scale = scale
        self.bounds = bounds
        self.clamp = clamp


class Cauchy(OwnNoise):
    @compiled
    def log_noise(self, e, scale):
        return -log(pi * scale * (1.0 + (e / scale) ** 2))

    def draw_noise(self, rng, scale, size):
        return scale * rng.standard_cauchy(size)


class OwnLaplace(OwnNoise):
    log_noise, draw_noise = LaplaceMechanism.log_noise, LaplaceMechanism.draw_noise


class OwnGaussian(OwnNoise):
    log_noise, draw_noise = GaussianMechanism.log_noise, GaussianMechanism.draw_noise


FALL, FLAT = 2.0, 0.4  # log ratio of one stair to the next, and the share of the first stair's period that it takes


class Stairs(OwnNoise):
    """The staircase mechanism (Geng et al. 2015) of a sensitivity ``scale`` at ε = 2."""

    @compiled
    def log_noise(self, e, scale):
        periods = abs(e) / scale
        n, next_one = floor(periods), exp(-FALL)
        top = (1.0 - next_one) / (2.0 * scale * (FLAT + next_one * (1.0 - FLAT)))
        return log(top) - FALL * (n + (1.0 if periods - n >= FLAT else 0.0))

    def draw_noise(self, rng, scale, size):
        next_one = np.exp(-FALL)
        n, is_low = rng.geometric(1.0 - next_one, size) - 1.0, rng.random(size)
        is_low = is_low < (1.0 - FLAT) * next_one / (FLAT + (1.0 - FLAT) * next_one)
        u = rng.random(size)
        place = np.where(is_low, FLAT + (1.0 - FLAT) * u, FLAT * u)
        return scale * (n + place) * rng.choice([-1.0, 1.0], size)


def jumps(scale, most):
    """Where the stairs' density jumps, in order, up to about so far from zero."""
    ends = scale * (np.arange(most / scale + 1.0) + FLAT)
    return np.concatenate([-ends[::-1], ends])
