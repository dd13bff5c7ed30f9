"""Densities of releases that have no closed form, by records, against normal laws and quadrature."""

from itertools import pairwise

import numpy as np
import pytest
from scipy import special, stats
from sklearn.base import clone

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._posterior import by_records, predictive
from sklearn_dpmix._posterior.cluster import Clustering
from sklearn_dpmix._posterior.mixture import mixture_sample
from sklearn_dpmix.kernels import CategoricalKernel
from sklearn_dpmix.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    RandomizedResponseMechanism,
    SquareWaveMechanism,
)

SCALES = pytest.mark.parametrize("scale", [3.0, 0.3, 0.03, 1e-4])


def fitted(mechanism, kernel, X):
    model = PrivateDPMixture(mechanism, kernel=kernel, n_chains=1, n_draws=40, n_warmup=100, random_state=0)
    return model.fit(mechanism.privatize(X, random_state=1))


def seen_through(model, mechanism, Z):
    """Releases of another mechanism, as if no density had a closed form, and weights and θ of all draws' atoms."""
    atoms = model._draws_.atoms_of(np.arange(40))
    return model._releases(Z, model._channel(mechanism, len(Z)), None), *atoms


@pytest.fixture(scope="module")
def correlated():
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 1)) < 0.5, -2.0, 2.0) + rng.standard_normal((200, 2)) @ [[1.0, 0.9], [0.0, 0.4]]
    return fitted(GaussianMechanism(scale=0.3), "multivariate_normal", X), X


def log_normals(model, theta, Z, scale):
    """Log density of each release under each atom, (atoms, n)."""
    kernel, found = model._kernel(), []
    for one in theta:
        L = np.zeros((2, 2))
        L[np.tril_indices(2)] = one[kernel.at_root : kernel.at_root + 3]
        found.append(stats.multivariate_normal.logpdf(Z, one[[0, 4]], L @ L.T + scale**2 * np.eye(2)))
    return np.array(found)


def error_of_mean(model, X, scale):
    """Errors of log g of releases."""
    mechanism = GaussianMechanism(scale=scale)
    Z = mechanism.privatize(X, random_state=2)
    releases, start, log_weights, theta = seen_through(model, mechanism, Z)
    exact = np.logaddexp.reduce(log_weights[:, None] + log_normals(model, theta, Z, scale)) - np.log(40)
    return by_records.mean_by_records(releases, start, log_weights, theta)(np.arange(len(Z))) - exact


@SCALES
def test_density_of_correlated_features(correlated, scale):
    """As near as 10,000 predictive records and 50 around each release allow."""
    error = error_of_mean(*correlated, scale)
    assert abs(error.mean()) < 0.02 + 5.0 * error.std() / np.sqrt(len(error))
    assert np.sqrt(np.mean(error**2)) < 0.15


def test_without_records_around_the_density_is_wrong(correlated, monkeypatch):
    monkeypatch.setattr(by_records, "records_around", lambda releases, rows: np.empty((len(rows), 2, 0)))
    assert np.mean(np.abs(error_of_mean(*correlated, 0.03))) > 0.15
    assert np.mean(np.abs(error_of_mean(*correlated, 1e-4))) > 10.0


@SCALES
def test_clusters_of_correlated_features(correlated, scale):
    """Those with the largest w g, but for releases that two clusters are nearly as likely to have made."""
    model, X = correlated
    mechanism, one = GaussianMechanism(scale=scale), model._clusters_.clustering
    Z = mechanism.privatize(X, random_state=3)
    releases, *_ = seen_through(model, mechanism, Z)
    exact = one.log_weights[:, None] + log_normals(model, one.theta, Z, scale)
    found = Clustering(*one).clusters(releases)
    lost = exact.max(axis=0) - exact[found, np.arange(len(Z))]
    assert np.mean(lost > 0.0) < 0.05
    assert lost.max() < 0.7


def test_a_label_depends_on_its_release_alone(correlated):
    model, X = correlated
    Z = model.mechanism.privatize(X, random_state=4)
    labels = model.predict(Z)
    np.testing.assert_array_equal(model.predict(Z[::-1])[::-1], labels)
    np.testing.assert_array_equal(model.predict(Z[50:60]), labels[50:60])
    np.testing.assert_array_equal(model.predict(model._release_), model.labels_)


MECHANISMS = {
    "laplace": LaplaceMechanism(scale=0.2, bounds=(-3, 3)),
    "own scales": GaussianMechanism(scale=np.geomspace(0.01, 2.0, 200), bounds=(-3, 3)),
    "integers": DiscreteLaplaceMechanism(scale=2.0, bounds=(-3, 3)),
    "integers of own scales": DiscreteGaussianMechanism(scale=np.geomspace(0.5, 9.0, 200), bounds=(-3, 3)),
    "square wave": SquareWaveMechanism(epsilon=8.0, bounds=(-3, 3)),
    "hybrid": HybridMechanism(epsilon=6.0, bounds=(-3, 3)),
}


@pytest.fixture(scope="module")
def very_many(correlated):
    """Records of the fit's mixtures."""
    model, _ = correlated
    start, log_weights, theta = model._draws_.atoms_of(np.arange(40))
    return mixture_sample(model._kernel(), start, np.exp(log_weights), theta, 300_000, 2, np.random.default_rng(1))


@pytest.mark.parametrize("name", MECHANISMS)
def test_density_under_other_mechanisms(correlated, very_many, name):
    """Against the mean of q(z | y) over very many records; noise for integers is added to the nearest one."""
    (model, X), mechanism = correlated, MECHANISMS[name]
    Z = mechanism.privatize(np.floor(X + 0.5) if mechanism.is_discrete else X, random_state=2)
    releases, start, log_weights, theta = seen_through(model, mechanism, Z)
    rows = np.arange(0, 200, 8)
    q = [mechanism_density(mechanism, Z, row, very_many[:, 0]) for row in rows]
    exact, of_exact = np.mean(q, axis=1), np.std(q, axis=1) / 300_000**0.5
    error = np.exp(by_records.mean_by_records(releases, start, log_weights, theta)(rows)) / exact - 1.0
    is_known = of_exact < 0.05 * exact
    assert is_known.sum() > 10
    assert abs(error[is_known].mean()) < 0.03 + 5.0 * error[is_known].std() / np.sqrt(is_known.sum())
    assert np.sqrt(np.mean(error[is_known] ** 2)) < 0.2


def mechanism_density(mechanism, Z, row, records):
    """q(z | y) of one release for each of these records."""
    one, records = mechanism, np.floor(records + 0.5) if mechanism.is_discrete else records
    if not mechanism.has_one_law:
        one = clone(mechanism).set_params(scale=mechanism.scale[row])
    return np.exp(one.log_density(np.broadcast_to(Z[row], records.shape), records))


PLACES = (np.arange(20_000) + 0.5) / 20_000


@pytest.fixture(scope="module")
def on_interval():
    """A fit, its records, and the density that it finds."""
    X = np.random.default_rng(0).beta(2.0, 5.0, (150, 1))
    model = fitted(LaplaceMechanism(scale=0.05, bounds=(0, 1)), "beta", X)
    _, log_weights, theta = model._draws_.atoms_of(np.arange(40))
    density = sum(np.exp(w) * stats.beta.pdf(PLACES, *one[:2]) for w, one in zip(log_weights, theta, strict=True))
    return model, X, density / 40.0


def laplace_density(z, y, scale):
    """SciPy's takes three times as long."""
    return np.exp(-np.abs(z - y) / scale) / (2.0 * scale)


@pytest.mark.parametrize("scale", [0.2, 0.02, 1e-3])
def test_density_of_records_on_an_interval(on_interval, scale):
    """Under clamped noise, by quadrature."""
    (model, X, density), mechanism = on_interval, LaplaceMechanism(scale=scale, bounds=(0, 1))
    Z = mechanism.privatize(X, random_state=2)
    releases, start, log_weights, theta = seen_through(model, mechanism, Z)
    error = by_records.mean_by_records(releases, start, log_weights, theta)(np.arange(len(Z)))
    error -= [np.log(np.mean(density * laplace_density(z, PLACES, scale))) for z in Z[:, 0]]
    assert abs(error.mean()) < 0.02 + 5.0 * error.std() / np.sqrt(len(error))
    assert np.sqrt(np.mean(error**2)) < 0.15


def test_density_of_records_at_the_ends():
    """Half of the records are 0 or 1, where beta densities have no bound: against all predictive records' mean."""
    rng = np.random.default_rng(0)
    X = np.where(rng.random((200, 1)) < 0.5, rng.integers(0, 2, (200, 1)), rng.beta(2.0, 5.0, (200, 1)))
    mechanism = LaplaceMechanism(scale=0.01, bounds=(0, 1))
    model = fitted(mechanism, "beta", X)
    Z = mechanism.privatize(X, random_state=2)
    releases, start, log_weights, theta = seen_through(model, mechanism, Z)
    error = by_records.mean_by_records(releases, start, log_weights, theta)(np.arange(200))
    y = mixture_sample(model._kernel(), start, np.exp(log_weights), theta, 300_000, 1, rng)[:, 0, 0]
    error -= [np.log(np.mean(laplace_density(z, y, 0.01))) for z in Z[:, 0]]
    assert abs(error.mean()) < 0.02 + 5.0 * error.std() / np.sqrt(200)
    assert np.sqrt(np.mean(error**2)) < 0.15


@pytest.mark.parametrize("scale", [0.3, 0.05])
def test_density_of_categories_under_noise(scale):
    """Catches probabilities that are taken for densities."""
    X = np.random.default_rng(0).integers(0, 4, (200, 1)).astype(float)
    mechanism = GaussianMechanism(scale=scale, bounds=(0, 3))
    model = fitted(mechanism, CategoricalKernel(4), X)
    Z = mechanism.privatize(X, random_state=2)
    releases, start, log_weights, theta = seen_through(model, mechanism, Z)
    shares = np.exp(log_weights) @ theta[:, :4] / 40.0
    exact = np.log(stats.norm.pdf(Z, np.arange(4), scale) @ shares)
    error = by_records.mean_by_records(releases, start, log_weights, theta)(np.arange(200)) - exact
    assert np.max(np.abs(error)) < 5.0 * np.sqrt(np.max(1.0 / shares) / by_records.N_PREDICTIVE)


def test_equal_releases_are_scored_once(monkeypatch):
    """Answers and integers are few, however many records there are."""
    X = np.random.default_rng(0).integers(0, 3, (300, 2)).astype(float)
    mechanism = RandomizedResponseMechanism(epsilon=2.0, n_categories=3)
    model = fitted(mechanism, CategoricalKernel(3), X)
    one_by_one = np.mean([model.score_release(z[None]) for z in model._release_[:20]])
    rows = []
    real = predictive.mean_marginal
    monkeypatch.setattr(predictive, "mean_marginal", lambda *args: rows.extend(args[-1]) or real(*args))
    assert model.score_release(model._release_[:20]) == pytest.approx(one_by_one)
    assert len(rows) == len(np.unique(model._release_[:20], axis=0)) < 20


def integer_scores(model, mechanism, Z):
    """Logs of sums over the integers that records are, each atom's masses from the nearer tail."""
    k = np.arange(-200.0, 200.0)
    _, log_weights, theta = model._draws_.atoms_of(np.arange(40))
    far = np.abs(k - theta[:, [0]])
    below, above = ((side - far) / theta[:, [1]] for side in (-0.5, 0.5))
    log_mass = special.log_ndtr(above) + np.log1p(-np.exp(special.log_ndtr(below) - special.log_ndtr(above)))
    log_mass = np.logaddexp.reduce(log_weights[:, None] + log_mass) - np.log(40.0)
    logs = [mechanism.log_density(np.full((400, 1), z), k[:, None]) for z in Z]
    return np.logaddexp.reduce(log_mass + logs, axis=1)


@pytest.mark.parametrize("mechanism", [DiscreteGaussianMechanism(scale=1.5), DiscreteLaplaceMechanism(scale=1.5)])
def test_integers_without_bounds_are_scored_in_closed_form(mechanism):
    """Where floating point has no density, from records drawn around, which is rough but in order."""
    rng = np.random.default_rng(0)
    model, Z = fitted(mechanism, "normal", np.rint(rng.normal([5.0], 2.0, (100, 1)))), [-3.0, 0.0, 5.0, 14.0, 20.0]
    scores = [model.score_release([[z]]) for z in Z]
    np.testing.assert_allclose(scores, integer_scores(model, mechanism, Z), atol=1e-6)
    assert np.all(np.abs(scores - integer_scores(model, mechanism, np.add(Z, 1.0))) > 1e-2)
    far = [model.score_release([[z]]) for z in (30.0, 60.0, 90.0, 200.0, 1e3, 2e3)]
    assert np.all(np.isfinite(far)) and np.all(np.diff(far) < 0.0)


@pytest.mark.parametrize("bounds", [None, (-40, 120)])
def test_integers_far_out_under_noise_that_is_looked_up_to_an_end(bounds):
    """Beyond 16.7 standard deviations no noise is looked up; with bounds the scores are exact there, too."""
    mechanism, rng = DiscreteGaussianMechanism(scale=3.0, bounds=bounds), np.random.default_rng(0)
    model = fitted(mechanism, "normal", np.rint(rng.normal([5.0], 0.4, (100, 1))))
    Z = np.array([20.0, 45.0, 52.0, 60.0, 71.0, 89.0])
    scores = np.array([model.score_release([[z]]) for z in Z])
    exact = integer_scores(model, mechanism, Z)
    known = np.full(6, bounds is not None) | (Z < 45.0)
    np.testing.assert_allclose(scores[known], exact[known], atol=1e-4)
    assert np.all(np.diff(scores) < 0.0) and np.all(np.abs(scores / exact - 1.0) < 0.2)


@pytest.mark.parametrize("scale", [3.0, 0.3, 1e-4])
def test_correlated_features_under_normal_noise_have_a_closed_form(correlated, scale):
    """A release is normal, too; with noise 5 % wider it is another."""
    model, X = correlated
    mechanism = GaussianMechanism(scale=scale)
    Z = mechanism.privatize(X, random_state=2)
    start, log_weights, theta = model._draws_.atoms_of(np.arange(40))
    releases = model._releases(Z, model._channel(mechanism, len(Z)), mechanism)
    found = predictive.mean_density(releases)(start, log_weights, releases.with_cache(theta), np.arange(200))

    def error(scale):
        mean = np.logaddexp.reduce(log_weights[:, None] + log_normals(model, theta, Z, scale)) - np.log(40)
        return np.abs(found - mean).max()

    assert error(scale) < 1e-8 and (scale < 0.01 or error(1.05 * scale) > 1e-3)
    if scale == 0.3:  # as it was fitted
        assert model.score_release(Z) == pytest.approx(found.mean(), abs=1e-12)


def test_partitions_of_correlated_features_under_normal_noise(correlated):
    """Shares of draws in which two records are together, against Σ_k p_ik p_jk for the same draws."""
    model, _ = correlated
    start, log_weights, theta = model._draws_.atoms_of(np.arange(40))
    together, Z = np.zeros((200, 200)), model._Z_
    logs = log_weights[:, None] + log_normals(model, theta, Z, 0.3)
    for first, last in pairwise(start):
        shares = np.exp(logs[first:last] - np.logaddexp.reduce(logs[first:last]))
        together += shares.T @ shares / 40.0
    found = model.similarity(n_partitions=40, random_state=0)
    apart = ~np.eye(200, dtype=bool)
    variance = (together * (1.0 - together) / 40.0)[apart]
    assert abs((found - together)[apart].mean()) < 0.02
    assert np.mean((found - together)[apart] ** 2) < 1.2 * variance.mean()
