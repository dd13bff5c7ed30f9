"""Atoms of correlated normals under Gaussian noise, where no records are kept, checked by SciPy and by simulation."""

from functools import cache

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from statistical import MIN_ESS, Disagreement, assert_mean_close
from test_correlated_atoms import SCALES, N, check_densities, fill, law_of, problem

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import MultivariateNormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import Auto, Imputed, MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _which_chart
from sklearn_dpmix.samplers.mixture.measure._correlated_clamped import CorrelatedClampedChart
from sklearn_dpmix.samplers.mixture.measure._correlated_gaussian import CorrelatedGaussianChart
from sklearn_dpmix.samplers.mixture.measure._correlated_hidden import CorrelatedHiddenChart
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_of

NOISE = 0.8
PAIR = np.array([[-1.6, 0.3], [1.8, -1.9]])
PLACES = np.array([[0.4, -1.0], [1.2, -0.2]])
MEAN, PRECISION, DOF = np.array([0.4, -1.0]), 0.8, 6.0


@pytest.mark.parametrize("d", [1, 2, 3])
def test_densities_and_their_slopes(d):
    """Catches a wrong density of releases, and a wrong derivative by any coordinate."""
    plain, walk, channel, Z = problem(d, GaussianMechanism(scale=NOISE))
    mean, covariance, _ = law_of(plain, walk, d)
    expected = stats.multivariate_normal(mean, covariance + NOISE**2 * np.eye(d)).pdf(Z)
    check_densities(chart_of(plain.kernel, channel), walk, channel, expected)


def test_densities_of_atoms_that_are_nearly_a_line():
    """Catches a covariance plus that of the noise which rounding makes no covariance: densities were NaN."""
    plain, walk, channel, Z = problem(2, GaussianMechanism(scale=NOISE))
    chart = chart_of(plain.kernel, channel).value()
    for log_scale in (18.0, 25.0, 60.0, 150.0):
        walk.atoms[1:6] = [0.0, log_scale, 0.0, -3.0, -1.7]
        fill(channel, chart, walk, 0)
        found = walk.tables[: len(Z)]
        most = np.exp(-log_scale) / chart.units[0] / (2.0 * np.pi * NOISE)
        assert np.all(np.isfinite(walk.tables[: walk.width * len(Z)]))
        assert np.all((found >= 0.0) & (found <= 1.01 * most))


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
@pytest.mark.parametrize("mechanism", [GaussianMechanism(scale=NOISE), LaplaceMechanism(scale=NOISE)])
def test_dof_near_its_limit(mechanism):
    """The walk cannot tell what the prior says of its atoms, and says so; "auto" imputes the records instead."""
    Z = np.random.default_rng(0).normal(size=(40, 2))
    kernel = MultivariateNormalKernel(MEAN, PRECISION, 1.01, SCALES[2])
    model = PrivateDPMixture(mechanism, kernel=kernel, n_chains=1, n_warmup=5, n_draws=10, random_state=0)
    with pytest.raises(ValueError, match=r"dof of at least n_features - 0\.5 = 1\.5, got dof=1\.01"):
        clone(model).set_params(sampler=MixingMeasure()).fit(Z)
    assert type(model.fit(Z).sampler_) is Imputed
    assert np.all(np.isfinite(model.density_draws(Z)))
    model.set_params(kernel=MultivariateNormalKernel(MEAN, PRECISION, 1.5, SCALES[2])).fit(Z)
    assert type(model.sampler_) is MixingMeasure


@pytest.mark.parametrize(
    ("mechanism", "expected"),
    [
        (GaussianMechanism(scale=NOISE), CorrelatedGaussianChart),
        (GaussianMechanism(scale=NOISE, bounds=(-1, 2), clamp=False), CorrelatedGaussianChart),
        (GaussianMechanism(scale=2.0, bounds=(-1, 2)), CorrelatedClampedChart),
        (GaussianMechanism(scale=0.4, bounds=(-1, 2)), CorrelatedHiddenChart),
        (GaussianMechanism(scale=np.linspace(2.0, 4.0, N), bounds=(-1, 2)), CorrelatedHiddenChart),
        (GaussianMechanism(scale=np.linspace(0.5, 1.0, N)), CorrelatedHiddenChart),
        (LaplaceMechanism(scale=2.0, bounds=(-1, 2)), CorrelatedHiddenChart),
    ],
)
def test_records_are_kept_only_where_they_must(mechanism, expected):
    """Catches a closed form where noise is narrow, of several scales, or another noise."""
    kernel = MultivariateNormalKernel(MEAN, PRECISION, DOF, SCALES[2])
    channel = mechanism._lower(n_records=N, n_features=2)
    assert type(chart_of(kernel._lower(n_features=2), channel)) is expected
    if np.size(mechanism.scale) == 1:
        walks = Auto().resolve(mechanism, kernel).sized(10**6, 2)
        assert isinstance(walks, MixingMeasure) == (not expected.keeps_records)


# --- the posterior of two records ------------------------------------------------------------------------------------

CLAMPED = GaussianMechanism(scale=1.2, bounds=(-1.0, 1.0))


@cache
def exact(mechanism, n=400_000):
    """Posterior mean of the density at two places, and whether the records are in one cluster.

    Draws from the prior and of records, weighted by the releases' densities; the two ways to put two records into
    clusters.
    """
    rng = np.random.default_rng(0)
    covariance = stats.invwishart(DOF, np.array(SCALES[2])).rvs(n, random_state=rng)
    root = np.linalg.cholesky(covariance)
    mean = MEAN + np.einsum("nij,nj->ni", root, rng.standard_normal((n, 2))) / np.sqrt(PRECISION)
    d = PLACES - mean[:, None]
    form = np.einsum("npi,nij,npj->np", d, np.linalg.inv(covariance), d)
    f = np.exp(-0.5 * form) / (2.0 * np.pi * np.sqrt(np.linalg.det(covariance)))[:, None]
    records = mean[:, None] + np.einsum("nij,npj->npi", root, rng.standard_normal((n, 2, 2)))
    if mechanism.bounds is not None:
        records = np.clip(records, *mechanism.bounds)
    g = stats.norm.pdf(PAIR, records, mechanism.scale).prod(axis=2)
    together, alone = g.prod(axis=1), g.mean(axis=0)
    p = together.mean() / (together.mean() + alone.prod())  # of one cluster, with a concentration of 1
    of_one = (together @ f) / together.sum()
    of_two = ((g / alone) @ np.full(2, 0.5) / n) @ f
    return np.append((2.0 * (p * of_one + (1.0 - p) * of_two) + f.mean(axis=0)) / 3.0, p)


def compare(mechanism, n_draws=1500, thin=2, min_ess=400):
    kernel = MultivariateNormalKernel(MEAN, PRECISION, DOF, SCALES[2])
    model = PrivateDPMixture(
        mechanism,
        kernel=kernel,
        mixing=DirichletProcess(1.0),
        sampler=MixingMeasure(n_moves=40),
        n_draws=n_draws,
        thin=thin,
        random_state=0,
    ).fit(PAIR)
    density = model.density_draws(PLACES)
    one = (model.n_clusters_draws_ == 1).astype(float).reshape(*density.shape[:-1], 1)
    assert_mean_close(np.concatenate([density, one], axis=-1), exact(mechanism), min_ess=min_ess)


PLAIN = GaussianMechanism(scale=NOISE)


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [PLAIN, CLAMPED])
def test_posterior_is_exact(mechanism):
    compare(mechanism, 4000, 2, MIN_ESS)


@pytest.mark.slow
def test_noise_of_another_width_is_noticed(monkeypatch):
    right = CorrelatedGaussianChart.lookup
    monkeypatch.setattr(CorrelatedGaussianChart, "lookup", lambda *args: 0.8 * right(*args))
    with pytest.raises(Disagreement):
        compare(PLAIN)


@pytest.mark.slow
def test_forgotten_bounds_are_noticed(monkeypatch):
    monkeypatch.setitem(_which_chart.CHARTS, "correlated_normal", CorrelatedGaussianChart)
    with pytest.raises(Disagreement):
        compare(CLAMPED)
