"""Densities of many releases at once, for scores and labels, against those one by one."""

from functools import cache

import numpy as np
import pytest

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._posterior.cluster import choose_clustering
from sklearn_dpmix._posterior.predictive import release_log_density
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    SquareWaveMechanism,
)

BOUNDS = [(0.0, 100.0), (-50.0, 10.0), (20.0, 80.0)]
N = 150
MECHANISMS = {
    "laplace": lambda bounds: LaplaceMechanism(epsilon=20.0, bounds=bounds),
    "laplace, own scales": lambda bounds: LaplaceMechanism(scale=np.linspace(1.0, 9.0, N), bounds=bounds),
    "gaussian": lambda bounds: GaussianMechanism(scale=2.0, bounds=bounds),
    "no bounds": lambda bounds: GaussianMechanism(scale=2.0),
    "square wave": lambda bounds: SquareWaveMechanism(epsilon=8.0, bounds=bounds),
    "square wave, own epsilons": lambda bounds: SquareWaveMechanism(np.linspace(1.0, 12.0, N), bounds),
    "hybrid": lambda bounds: HybridMechanism(epsilon=8.0, bounds=bounds),
    "integers": lambda bounds: DiscreteLaplaceMechanism(scale=2.0, bounds=bounds),
}


def records_of(n_features):
    rng = np.random.default_rng(0)
    centres = np.array([[15.0, -40.0, 30.0], [80.0, 0.0, 60.0]])[rng.integers(0, 2, N), :n_features]
    return np.rint(rng.normal(centres, 4.0))


@cache
def fitted(n_features):
    """Draws of one fit for all mechanisms: any will do, and each mechanism would compile a sweep of its own."""
    mechanism = MECHANISMS["laplace"](BOUNDS[:n_features])
    Z = mechanism.privatize(records_of(n_features), random_state=1)
    return PrivateDPMixture(mechanism, sampler="neal5", n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(Z)


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize("kind", MECHANISMS)
def test_as_one_by_one(kind, n_features):
    """Catches a feature with another's bounds, scale or component, and a far release whose density is nothing."""
    mechanism, model = MECHANISMS[kind](BOUNDS[:n_features]), fitted(n_features)
    Z = mechanism.privatize(records_of(n_features), random_state=1)
    at_once = model._releases(mechanism.encode(Z), model._channel(mechanism, N), mechanism)
    assert at_once.noised is not None
    if kind == "no bounds":
        Z[0] = 1e8
        at_once = at_once._replace(Z=Z)
    one_by_one = at_once._replace(noised=None)
    found, expected = (release_log_density(model._draws_, releases) for releases in (at_once, one_by_one))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    if kind == "no bounds":
        assert expected[0] < -650.0  # beyond LEAST
    labels, expected = (choose_clustering(model._draws_, releases)[1] for releases in (at_once, one_by_one))
    np.testing.assert_array_equal(labels, expected)


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
def test_densities_beyond_floating_point():
    """Of three features each is 10¹²⁰; their product is compared by logarithms."""
    unit, X = 1e-120, np.random.default_rng(0).normal(size=(30, 3))
    X[:15] += 20.0
    Z = unit * GaussianMechanism(scale=1.0).privatize(X, random_state=1)
    mechanism = GaussianMechanism(scale=unit)
    model = PrivateDPMixture(mechanism, sampler="neal5", n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(Z)
    at_once = model._fitted_releases()
    one_by_one = at_once._replace(noised=None)
    found, expected = (release_log_density(model._draws_, releases) for releases in (at_once, one_by_one))
    np.testing.assert_allclose(found, expected, rtol=1e-10)
    labels, expected = (choose_clustering(model._draws_, releases)[1] for releases in (at_once, one_by_one))
    np.testing.assert_array_equal(labels, expected)
