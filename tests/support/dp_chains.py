"""Chains of private samplers, and what they should find of a normal mean."""

import numpy as np

from sklearn_dpmix.estimators.private._noise_source import SimulatedNoise
from sklearn_dpmix.models import GaussianMean
from sklearn_dpmix.samplers.private._hamiltonian import NoisyHamiltonian
from sklearn_dpmix.samplers.private._walk_moves import Coordinates


def run(sampler, psi, source, n):
    """θ of ``n`` steps from ψ, (1, n, n_params)."""
    state = sampler.init(psi, source) if isinstance(sampler, NoisyHamiltonian) else sampler.init(psi)
    draws = np.empty((1, n, len(psi)))
    for i in range(n):
        state, draws[0, i] = sampler.step(state, source)
    return draws


def simulated(seed):
    return SimulatedNoise(np.random.default_rng(seed))


def plain(model):
    return Coordinates(model, np.zeros(model.n_params), np.eye(model.n_params))


NORMAL = GaussianMean(n_features=2, sigma=1.0, prior_sigma=1.0, data_norm=2.5)


NORMAL_X = np.random.default_rng(4).normal([0.5, -0.3], 1.0, (40, 2))


def normal_moments(T=1.0):
    """Means of θ and θ² given the clipped records."""
    precision = T * len(NORMAL_X) + 1.0
    mean = T * NORMAL.clip_records(NORMAL_X).sum(axis=0) / precision
    return np.concatenate([mean, mean**2 + 1.0 / precision])


def moments(draws):
    return np.concatenate([draws, draws**2], axis=2)
