"""All samplers draw from the same posterior of 60 records, where no exact answer is known."""

from functools import cache

import numpy as np
import pytest
from statistical import Disagreement, assert_means_agree

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.samplers import MixingMeasure, Neal5
from sklearn_dpmix.samplers.mixture.measure import _node_layout

N_RECORDS = 60
BOUNDS = (-5.0, 6.0)
PRIOR = {"mean": 0.3, "mean_precision": 0.2, "shape": 3.0, "scale": 3.0}
POINTS = np.array([[-4.0], [-1.5], [0.5], [3.0], [7.0]])
MECHANISMS = {
    "laplace": LaplaceMechanism(epsilon=10.0, bounds=BOUNDS),
    "gaussian": GaussianMechanism(scale=1.2, bounds=BOUNDS),
}
# sampler: (object, sweeps a draw)
SAMPLERS = {
    "neal5": (Neal5(), 20),
    "neal5 of 3": (Neal5(n_auxiliary=3), 15),
    "slice": ("slice", 20),
    "conditional": ("conditional", 6),
    "neal8": ("neal8", 2),
    "auto": ("auto", 1),
}
REFERENCE = "neal8"


def records():
    """Two overlapping groups and one apart, beyond a bound in part."""
    rng = np.random.default_rng(5)
    return np.concatenate([rng.normal(-2.5, 0.7, 25), rng.normal(0.0, 1.2, 20), rng.normal(5.0, 1.0, 15)])[:, None]


@cache
def summaries(setting, noise, kernel=NormalKernel, seed=0):
    """Draws of (number of clusters, its square, whether it is at most 3, log density at POINTS)."""
    mechanism, (sampler, thin) = MECHANISMS[noise], SAMPLERS[setting]
    Z = mechanism.privatize(records(), random_state=6)
    model = PrivateDPMixture(
        mechanism,
        kernel=kernel(**PRIOR),
        sampler=sampler,
        n_warmup=2000,
        n_draws=6000,
        thin=thin,
        n_jobs=2,
        random_state=seed,
    ).fit(Z)
    k = model.n_clusters_draws_[..., None]
    return np.concatenate([k, k**2, k <= 3, np.log(model.density_draws(POINTS))], axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", [pytest.param(noise, marks=[pytest.mark.nightly] * (noise == "gaussian")) for noise in MECHANISMS]
)
@pytest.mark.parametrize(
    "sampler",
    [pytest.param(name, marks=[pytest.mark.nightly] * (name != "auto")) for name in SAMPLERS if name != REFERENCE],
)
def test_samplers_agree(sampler, noise):
    """Catches a sampler that is wrong only with many records: sweeps that stop early, statistics that drift."""
    assert_means_agree(summaries(sampler, noise), summaries(REFERENCE, noise), what=f"{sampler}, {noise}")


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", pytest.param("gaussian", marks=pytest.mark.nightly)])
def test_the_walk_on_nodes_agrees(noise, monkeypatch):
    """With cells where 60 records would be nodes themselves: nodes, and the Poisson draw of occupied atoms."""
    monkeypatch.setattr(_node_layout, "FEW", 0)
    monkeypatch.setitem(SAMPLERS, "mixing measure", (MixingMeasure(), 1))
    draws = summaries.__wrapped__("mixing measure", noise)
    assert_means_agree(draws, summaries(REFERENCE, noise), what=noise)


def heavier_scale(scale, **prior):
    """A base measure that is wider than it says."""
    return NormalKernel(scale=1.3 * scale, **prior)


@pytest.mark.slow
def test_slightly_different_posterior_is_rejected():
    """The broken twin: a sampler that draws from the posterior of a scale that is 30 % larger (15 % hardly shows)."""
    with pytest.raises(Disagreement):
        assert_means_agree(summaries("auto", "laplace", heavier_scale), summaries(REFERENCE, "laplace"))
