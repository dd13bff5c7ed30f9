"""Coordinates, tempering and modes of DP-MCMC samplers."""

import numpy as np
import pytest
from dp_chains import NORMAL, NORMAL_X, moments, normal_moments, plain, run, simulated
from statistical import Disagreement, assert_mean_close

from sklearn_dpmix.estimators.private._noise_source import ExactReleases
from sklearn_dpmix.models import Banana, GaussianMean
from sklearn_dpmix.samplers.private._hamiltonian import NoisyHamiltonian
from sklearn_dpmix.samplers.private._newton import private_steps
from sklearn_dpmix.samplers.private._penalty import Penalty
from sklearn_dpmix.samplers.private._target import Target
from sklearn_dpmix.samplers.private._walk_moves import Coordinates, FullMove


def test_a_bent_posterior_in_straight_coordinates_and_in_its_own():
    """The banana, whose posterior is known: moves in φ and in θ, with noise, from the private optimum."""
    model = Banana(a=1.0, sigma=(1.0, 1.0), prior_sigma=1.0, data_norm=3.0)
    rng = np.random.default_rng(11)
    X = model.sample_records(rng, np.array([0.2, 0.5]), 60)
    exact = model.sample_posterior(rng, model.clip_records(X), size=200_000)
    expected = np.concatenate([exact.mean(axis=0), (exact**2).mean(axis=0)])
    target = Target(model, X)
    *_, (phi, root, _) = private_steps(target, np.zeros(2), 2, 0.5, simulated(12))
    sampler = Penalty(target, Coordinates(model, phi, root), FullMove(1.2), noise_multiplier=0.5)
    assert_mean_close(moments(run(sampler, np.zeros(2), simulated(13), 20_000)), expected, what="straight")

    coordinates = Coordinates(model, np.zeros(2), np.eye(2))
    coordinates.is_bent = False
    sampler = Penalty(target, coordinates, FullMove(0.25), noise_multiplier=0.5)
    assert_mean_close(moments(run(sampler, np.array([0.2, 0.5]), simulated(14), 30_000)), expected, what="bent")


class Exponential:
    """x ~ Exponential(θ) cut at 3, θ ~ Gamma(2, 1), with moves in log θ: volumes change with θ."""

    n_params, theta_init = 1, [1.0]

    def clip_records(self, X):
        return np.clip(X, 0.0, 3.0)

    def log_density(self, X, theta):
        return np.log(theta[0]) - theta[0] * X[:, 0]

    def grad_log_density(self, X, theta):
        return 1.0 / theta[0] - X[:, :1]

    def log_prior(self, theta):
        theta = theta[:, 0]
        return np.where(theta > 0.0, np.log(np.maximum(theta, 1e-300)) - theta, -np.inf)

    def log_ratio_range(self, theta, new):
        return 3.0 * abs(new[0] - theta[0])

    def gradient_range(self, theta, frame):
        return 3.0 * abs(frame[0, 0])

    def to_working(self, theta):
        return np.log(theta)

    def from_working(self, phi):
        return np.exp(phi)

    def working_jacobian(self, phi):
        return np.exp(phi)[:, None]


class FlatVolume(Coordinates):
    """Forgets that volumes change."""

    def log_volume(self, psi):
        return 0.0


@pytest.mark.parametrize("sampler", ["penalty", "hamiltonian"])
@pytest.mark.parametrize("coordinates", [Coordinates, FlatVolume])
def test_volumes_count_in_bent_coordinates(sampler, coordinates):
    """A posterior Gamma(2 + n, 1 + Σx) moved on in log θ, with noise; without the volumes it is another."""
    model, X = Exponential(), np.random.default_rng(19).exponential(size=(8, 1))
    target, frame = Target(model, X), coordinates(model, np.zeros(1), np.eye(1))
    if sampler == "penalty":
        chain = Penalty(target, frame, FullMove(0.8), noise_multiplier=0.2)
    else:
        chain = NoisyHamiltonian(target, frame, 0.2, 3, np.ones(1), 0.1, 0.2)
    draws = run(chain, np.zeros(1), simulated(20), 30_000 if sampler == "penalty" else 12_000)
    shape, rate = 10.0, 1.0 + model.clip_records(X).sum()
    expected = [shape / rate, shape * (shape + 1.0) / rate**2]
    if coordinates is Coordinates:
        assert_mean_close(moments(draws), expected)
    else:
        with pytest.raises(Disagreement):
            assert_mean_close(moments(draws), expected)


def test_a_tempered_hamiltonian_has_the_tempered_posterior():
    """T goes with gradients and ratios, not with the prior."""
    target = Target(NORMAL, NORMAL_X, temperature=0.3)
    sampler = NoisyHamiltonian(target, plain(NORMAL), 0.15, 4, np.ones(2), 0.5, 0.5)
    assert_mean_close(moments(run(sampler, np.zeros(2), simulated(21), 12_000)), normal_moments(0.3))


def test_the_optimum_without_noise_is_the_mode():
    """Two Newton steps on a normal posterior end there, with its covariance."""
    target = Target(NORMAL, NORMAL_X, is_private=False)
    *_, (phi, root, noise) = private_steps(target, np.zeros(2), 2, 0.0, ExactReleases(np.random.default_rng(0)))
    assert noise == 0.0
    np.testing.assert_allclose(phi, normal_moments()[:2], rtol=1e-9)
    np.testing.assert_allclose(root @ root.T, np.eye(2) / 41.0, rtol=1e-9)


def test_the_noise_is_the_same_there_and_back():
    """A model whose range depends on the direction: the chain takes the larger of the two both ways."""

    class OneWay(GaussianMean):
        def log_ratio_range(self, theta, new):
            return 3.0 if new[0] > theta[0] else 2.0

    target, low, high = Target(OneWay(data_norm=1.0), np.zeros((3, 1))), np.zeros(1), np.ones(1)
    assert target.ratio_bound(low, high) == target.ratio_bound(high, low)
    assert 3.0 <= target.ratio_bound(high, low)[1] < 3.0 + 1e-5
