"""Thresholds and many records, what they do not take, and thresholds in a tail."""

from types import SimpleNamespace

import numpy as np
import pytest
from oracle import log_normal
from scipy.special import log_ndtr
from scipy.stats import norm
from statistical import assert_mean_close, effective_sample_size
from threshold_case import PRIOR, SCALE, THRESHOLD, Z, fitted

from sklearn_dpmix import DeconvolutionKDE, PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess, PitmanYor
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import CUT
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_and_masses

# --- many records ----------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_population_that_goes_on_below():
    """Half of 20,000 records is left out, and found again; a model of what appeared alone is far off."""
    rng = np.random.default_rng(0)
    y = np.where(rng.random(20_000) < 0.6, rng.normal(40.0, 8.0, 20_000), rng.normal(70.0, 5.0, 20_000))
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(0, 100), released_above=45.0)
    released = mechanism.privatize(y[:, None], random_state=1)
    assert 0.4 * len(y) < len(released) < 0.7 * len(y) and released.min() > 45.0
    few = {"n_chains": 2, "n_warmup": 400, "n_draws": 400, "random_state": 0}
    model = PrivateDPMixture(mechanism, **few).fit(released)
    assert max(model.r_hat_.values()) < 1.05
    low, high = np.quantile(model.n_suppressed_draws(random_state=0), [0.005, 0.995])
    assert low < len(y) - len(released) < high
    of_known = PrivateDPMixture(mechanism, n_records=len(y), **few).fit(released)
    mean = of_known.moment_draws().mean
    assert abs(mean.mean() - y.mean()) < 5 * mean.std() + 0.5
    for n_records in (len(y), None):  # what was fitted stays
        of_known.set_params(n_records=n_records)
        assert np.all(of_known.n_suppressed_draws() == len(y) - len(released))
    naive = PrivateDPMixture(LaplaceMechanism(epsilon=10.0, bounds=(0, 100)), **few).fit(released)
    assert naive.moment_draws().mean.mean() > y.mean() + 5.0
    summary = ReleaseSummary(mechanism).update(released)
    of_summary = PrivateDPMixture(mechanism, **few).fit(summary)
    assert of_summary.score_samples([[50.0]]) == pytest.approx(model.score_samples([[50.0]]), abs=0.1)


@pytest.mark.slow
def test_how_much_is_below_mixes():
    """Records far below look alike at any depth, deeper ones being more: R goes from a twentieth to two thirds."""
    rng = np.random.default_rng(102)
    y = np.where(rng.random(5000) < 0.6, rng.normal(30.0, 6.0, 5000), rng.normal(62.0, 9.0, 5000))
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(0, 100), released_above=40.4)
    released = mechanism.privatize(y[:, None], random_state=2)
    model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=400, n_draws=400, random_state=0).fit(released)
    share = model.released_share_draws()
    low, high = np.quantile(share, [0.05, 0.95])
    assert low < 0.2 and high > 0.6
    effective_sample_size(share, 200, "R")  # it raises where there are fewer


def test_masses_below_the_cut_are_of_few_records_behind_a_threshold():
    """Where few releases appear, next to nothing of the masses may be all that these are about."""
    mechanism = LaplaceMechanism(scale=SCALE, released_above=THRESHOLD)
    channel, kernel = mechanism._lower(n_records=3, n_features=1), NormalKernel(**PRIOR)._lower(n_features=1)
    values = None, channel, kernel, DirichletProcess()._lower()
    for n_all, n_behind in ((None, 300), (5000, 5000)):
        seen = MixingMeasure(10).compressed(Release(Z[:, None], mechanism, n_all), *chart_and_masses(values), 0.1)
        assert seen.law[CUT] == pytest.approx(0.1 / n_behind)


def test_scores_are_of_releases_that_appear():
    """The predictive density of releases above the threshold has mass one."""
    model = fitted("gaussian", n_draws=200, n_chains=1)
    z = np.linspace(THRESHOLD + 1e-9, 15.0, 4001)
    density = np.exp([model.score_release(np.array([[one]])) for one in z[::20]])
    assert np.trapezoid(density, z[::20]) == pytest.approx(1.0, abs=0.01)


# --- what it does not take -------------------------------------------------------------------------------------------


def test_refusals():
    mechanism = LaplaceMechanism(scale=1.0, released_above=1.0)
    z = np.array([[1.5], [2.0], [0.5]])
    with pytest.raises(ValueError, match=r"above released_above=1\.0, but 1 of 3 are not, the first in row 2 \(0.5\)"):
        PrivateDPMixture(mechanism).fit(z)
    for parts in ({"sampler": "interweaved"}, {"kernel": "truncated_normal"}, {"mixing": PitmanYor()}):
        with pytest.raises(ValueError, match=r"released_above=1\.0 needs MixingMeasure"):
            PrivateDPMixture(mechanism, **parts).fit(z[:2])
    with pytest.raises(ValueError, match="takes noise of at most 64 different scales"):
        PrivateDPMixture(LaplaceMechanism(scale=1.0 + np.arange(65), released_above=1.0)).fit(np.full((65, 1), 2.0))
    with pytest.raises(ValueError, match="there are several noise scales, and the records"):
        PrivateDPMixture(LaplaceMechanism(scale=[1.0, 2.0], released_above=1.0), n_records=9).fit(z[:2])
    with pytest.raises(ValueError, match="n_records=1, but 2 releases appeared"):
        PrivateDPMixture(mechanism, n_records=1).fit(z[:2])
    with pytest.raises(ValueError, match="takes one feature, got 2"):
        mechanism.privatize(np.zeros((3, 2)))
    with pytest.raises(ValueError, match="released_above must be a finite number, got 'high'"):
        LaplaceMechanism(scale=1.0, released_above="high").privatize([[0.5]])
    with pytest.raises(ValueError, match="released_above must be a finite number, got 'high'"):
        LaplaceMechanism(epsilon=1.0, bounds=(0, 1), released_above="high").guarantee()
    a_sum = SimpleNamespace(value=np.sum, sensitivity=lambda norm: 1.0)
    with pytest.raises(ValueError, match="is for records, not for a query's value"):
        LaplaceMechanism(epsilon=1.0, query=a_sum, released_above=0.5).privatize([[0.5]])
    with pytest.raises(ValueError, match="DeconvolutionKDE takes releases of all records"):
        DeconvolutionKDE(mechanism).fit(z[:2])
    assert not hasattr(PrivateDPMixture(LaplaceMechanism(scale=1.0)), "n_suppressed_draws")


def test_a_threshold_far_below_is_none():
    """The default prior is that of a release of all records; one that cuts the population off reaches down."""
    rng, bounds = np.random.default_rng(0), (0.0, 100.0)
    z = rng.normal(60.0, 5.0, (400, 1))
    without = Release(z, LaplaceMechanism(scale=1.0, bounds=bounds)).moments()
    for threshold in (-1e300, -1e4, 0.0, 30.0):
        found = Release(z, LaplaceMechanism(scale=1.0, bounds=bounds, released_above=threshold)).moments()
        np.testing.assert_allclose(found, without, rtol=1e-3)
    mechanism = LaplaceMechanism(scale=1.0, bounds=bounds, released_above=60.0)
    _, variance = Release(z[z > 60.0][:, None], mechanism).moments()
    assert 20.0**2 < variance[0] < 50.0**2


@pytest.mark.parametrize(("share", "is_known"), [(0.5, False), (0.5, True), (0.25, True), (0.02, True), (0.9, True)])
def test_the_default_prior_is_about_a_population_that_goes_on_below(share, is_known):
    """Not about the releases that appeared, however many were left out if that is known."""
    n, mechanism = int(2000 / share), LaplaceMechanism(scale=0.5, released_above=40.0 + 10.0 * norm.isf(share))
    z = mechanism.privatize(np.random.default_rng(0).normal(40.0, 10.0, (n, 1)), random_state=1)
    mean, variance = Release(z, mechanism, n if is_known else None).moments()
    assert abs(mean - 40.0) < 3.0 and 80.0 < variance < 250.0


# --- thresholds in a tail ---------------------------------------------------------------------------------------------


def in_the_tail(scale, threshold, released):
    """Mean and mean square of μ for one normal under Gaussian noise, by quadrature over (μ, log σ²)."""
    mean, log_variance = np.linspace(-60.0, 20.0, 8001)[:, None], np.linspace(-6.0, 9.0, 301)
    variance = np.exp(log_variance)
    total = variance + scale**2
    log_p = log_normal(mean, PRIOR["mean"], variance / PRIOR["mean_precision"])
    log_p = log_p - PRIOR["shape"] * log_variance - PRIOR["scale"] / variance
    log_p = log_p + sum(log_normal(z, mean, total) for z in released)
    log_p = log_p - len(released) * log_ndtr((mean - threshold) / np.sqrt(total))
    p = np.exp(log_p - log_p.max())
    return np.array([np.sum(p * np.tanh(mean)), np.sum(p * np.abs(mean))]) / p.sum()


@pytest.mark.slow
def test_a_threshold_that_hardly_a_record_is_above():
    """Catches sums that lose the digits of a density next to nothing, which another one next to nothing divides."""
    released, threshold, scale = np.array([2.66, 2.71, 2.76, 2.64, 2.75, 2.62]), 2.6, 0.3
    model = PrivateDPMixture(
        GaussianMechanism(scale=scale, released_above=threshold),
        kernel=NormalKernel(**PRIOR),
        mixing=DirichletProcess(1e-300),
        n_draws=6000,
        random_state=0,
    ).fit(released[:, None])
    mean = model.moment_draws()[0][..., 0]
    draws = np.stack([np.tanh(mean), np.abs(mean)], axis=-1)
    assert_mean_close(draws, in_the_tail(scale, threshold, released), what="mean")
