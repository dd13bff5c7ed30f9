"""The walk on integers by tables of the noise: kernels on an interval, and noise scales of each record's own.

Broken twins: whole cells of integers at the bounds, scales of other records.
"""

import grid_oracle as oracle
import numpy as np
import pytest
from exact_channel_cases import compare, points
from scipy.special import betainc, ndtr
from statistical import Disagreement
from test_integer_nodes import BOUNDS, CASES, PRIOR, fitted_draws, log_noise

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix.kernels import BetaKernel, NormalKernel, TruncatedNormalKernel
from sklearn_dpmix.mechanisms import DiscreteGaussianMechanism, DiscreteLaplaceMechanism
from sklearn_dpmix.samplers import Auto, MixingMeasure


def exact_on_interval(kernel, name, last=0.5):
    """Of kernels on the bounds themselves: an integer at a bound has half a cell (twin: ``last`` = 1, a whole one)."""
    (low, high), (_, scale, z) = BOUNDS, CASES[name]
    edges = np.concatenate([[low], np.arange(low, high) + last, [high]])[:, None, None]
    if kernel == "beta":
        grid = oracle.BetaGrid(2.0, 0.2, BOUNDS)
        cdf = betainc(grid.a, grid.b, (edges - low) / (high - low))
    else:
        grid = oracle.TruncatedNormalGrid(**PRIOR, bounds=BOUNDS)
        cdf = ndtr((edges - grid.mu) / grid.sigma) / np.exp(grid.log_inside)
    q = np.exp(log_noise(name, np.array(z)[:, None] - np.arange(low, high + 1), scale))
    log_g = np.log(np.maximum(np.tensordot(q, np.diff(cdf, axis=0), axes=1), 1e-300))
    return oracle.local_posterior(grid, log_g, points(BOUNDS))


OWN_SCALES = np.array([0.5, 2.0, 0.3, 1.0])


def exact_of_own_scales(name, scales=OWN_SCALES):
    """Of releases whose noise has these scales, in their order."""
    z = CASES[name][2]
    grid = oracle.NormalGrid(**PRIOR, bounds=(BOUNDS[0] - 0.5, BOUNDS[1] + 0.5))
    k = np.arange(BOUNDS[0], BOUNDS[1] + 1)
    log_q = np.array([log_noise(name, one - k, scale) for one, scale in zip(z, scales, strict=True)])
    return oracle.local_posterior(grid, oracle.binned_log_g(grid, log_q), points(BOUNDS))


KERNELS = {"beta": BetaKernel(2.0, 0.2), "truncated": TruncatedNormalKernel(**PRIOR)}


@pytest.mark.slow
@pytest.mark.parametrize("kernel, name", [("beta", "laplace"), ("truncated", "gaussian")])
def test_posterior_on_an_interval_is_exact(kernel, name):
    """g by a table of the interval, in which a record at a bound is rounded from one side only."""
    kind, scale, z = CASES[name]
    draws = fitted_draws(kind(scale=scale, bounds=BOUNDS), KERNELS[kernel], z, points(BOUNDS))
    compare(*draws, exact_on_interval(kernel, name), name)
    with pytest.raises(Disagreement):
        compare(*draws, exact_on_interval(kernel, name, last=1.0), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_posterior_of_own_scales_is_exact(name):
    """Nodes are pairs of a value and a scale; with those of other records it is another posterior."""
    kind, _, z = CASES[name]
    draws = fitted_draws(kind(scale=OWN_SCALES, bounds=BOUNDS), PRIOR, z, points(BOUNDS))
    compare(*draws, exact_of_own_scales(name), name)
    with pytest.raises(Disagreement):
        compare(*draws, exact_of_own_scales(name, np.roll(OWN_SCALES, 1)), name)


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
def test_tables_between_integers():
    """Where noise is wide nodes are not integers, of an array, of its summary, and of records with their own scales."""
    rng = np.random.default_rng(0)
    X = np.rint(np.clip(rng.normal(200.0, 50.0, (400, 1)), 0, 400))
    short = {"n_chains": 1, "n_warmup": 30, "n_draws": 50, "random_state": 0}
    for kernel in ("beta", "truncated_normal"):
        mechanism = DiscreteGaussianMechanism(scale=20.0, bounds=(0, 400))
        Z = mechanism.privatize(X, random_state=1)
        for release in (Z, ReleaseSummary(mechanism).update(Z)):
            model = PrivateDPMixture(mechanism, kernel=kernel, **short).fit(release)
            assert isinstance(model.sampler_, MixingMeasure) and model.compression_error_ < 1e-3
    mechanism = DiscreteGaussianMechanism(scale=rng.choice([15.0, 30.0], 400), bounds=(0, 400))
    model = PrivateDPMixture(mechanism, **short).fit(mechanism.privatize(X, random_state=1))
    assert isinstance(model.sampler_, MixingMeasure) and model.compression_error_ < 1e-2


class OwnLaw(DiscreteLaplaceMechanism):
    """What may have another law than the class that it is derived from."""


def test_tables_are_of_the_mechanism_s_own_law():
    for kind, walks in ((DiscreteLaplaceMechanism, True), (OwnLaw, False)):
        for scale in (1.0, np.array([1.0, 2.0])):
            auto = Auto().resolve(kind(scale=scale, bounds=(0, 9)), TruncatedNormalKernel())
            assert isinstance(auto.sized(2, 1), MixingMeasure) is walks


def test_integers_with_their_own_scales():
    """``"auto"`` walks where tables can be made: of one feature, within bounds that are not far apart."""
    scales, rng = np.array([1.0, 3.0]), np.random.default_rng(0)
    for mechanism, walks in (
        (DiscreteLaplaceMechanism(scale=scales, bounds=(0, 100)), True),
        (DiscreteLaplaceMechanism(scale=scales, bounds=(0, 2000)), False),
        (DiscreteLaplaceMechanism(scale=scales, bounds=(0, 100), clamp=False), False),
        (DiscreteGaussianMechanism(scale=scales), False),
    ):
        auto = Auto().resolve(mechanism, NormalKernel())
        assert isinstance(auto.sized(2, 1), MixingMeasure) is walks
        assert isinstance(auto.sized(10**5, 1, lambda: 2000), MixingMeasure) is walks
        assert not isinstance(auto.sized(10**5, 1, lambda: 2001), MixingMeasure)
        assert not isinstance(auto.sized(2, 2), MixingMeasure)
    mechanism = DiscreteLaplaceMechanism(scale=rng.choice(scales, 300), bounds=(0, 100))
    Z = mechanism.privatize(rng.integers(20, 60, (300, 1)), random_state=1)
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=30, n_draws=50, random_state=0).fit(Z)
    assert model.labels_.shape == (300,) and np.isfinite(model.score_release(Z))
    assert model.compression_error_ < 1e-3
