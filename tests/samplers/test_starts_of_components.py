"""Where chains of a mixture of finite mixtures begin: apart, where they may stay where they begin."""

import warnings

import numpy as np
import pytest
from statistical import assert_pmf_close

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.mixings import MixtureOfFiniteMixtures

STILL = {"gaps": (1.0, [0.5, 0.0, 0.0, 0.5]), "large weights": (30.0, 0.3), "ten": (20.0, [0.1] * 10)}


@pytest.mark.parametrize("name", STILL)
def test_chains_that_may_stay_start_at_a_draw_from_the_prior(name):
    value, rng = MixtureOfFiniteMixtures(*STILL[name])._lower(), np.random.default_rng(0)
    draws = np.array([value.draw_start(rng) for _ in range(4000)]).astype(np.int64)[None]
    prior = STILL[name][1]
    pmf = np.array(prior) if np.ndim(prior) else prior * (1.0 - prior) ** np.arange(60)
    assert_pmf_close(draws, np.append(0.0, pmf), what="number of components")


@pytest.mark.parametrize(("mixing", "start"), [((1.0, 0.3), 10.0), ((0.5, [0.2, 0.4, 0.4]), 3.0)])
def test_others_start_with_many_components(mixing, start):
    assert MixtureOfFiniteMixtures(*mixing)._lower().draw_start(np.random.default_rng(0)) == start


@pytest.mark.parametrize("name", STILL)
@pytest.mark.parametrize("sampler", ["auto", "neal5"])
def test_chains_that_stay_where_they_began_warn(name, sampler):
    """The release says nothing, so the number of components has its prior, which such chains do not find."""
    mechanism = GaussianMechanism(scale=1e5)
    model = PrivateDPMixture(
        mechanism,
        kernel=NormalKernel(mean=0.0, mean_precision=0.1, shape=2.0, scale=2.0),
        mixing=MixtureOfFiniteMixtures(*STILL[name]),
        sampler=sampler,
        n_chains=8,
        n_warmup=100,
        n_draws=200,
        random_state=0,
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(mechanism.privatize(np.zeros((300, 1)), random_state=0))
    assert any("the chains have not mixed" in str(one.message) for one in caught)
    assert model.r_hat_["n_components"] > 1.5
