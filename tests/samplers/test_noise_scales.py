"""The walk over mixing measures on records with noise scales of their own: densities, nodes, posterior, estimator.

Broken twins: scales permuted among nodes, a node's weight off.
"""

from math import log

import numpy as np
import pytest
import test_exact
from statistical import Disagreement, assert_means_agree, assert_pmf_close

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture._run import Draws
from sklearn_dpmix.samplers.mixture.measure import _node_layout
from sklearn_dpmix.samplers.mixture.measure._any_noise import with_densities
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_and_masses

MECHANISMS = {"laplace": LaplaceMechanism, "gaussian": GaussianMechanism}
KERNEL = NormalKernel(0.0, 0.1, 3.0, 3.0)


def three_normals(n):
    rng = np.random.default_rng(0)
    return (rng.choice([-5.0, 0.0, 5.0], n) + rng.standard_normal(n))[:, None]


def scales(kind, n):
    rng = np.random.default_rng(5)
    return rng.choice([0.5, 2.0, 20.0], n) if kind == "few" else np.exp(rng.uniform(np.log(0.4), np.log(20.0), n))


# --- densities and nodes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bounds", [None, (-2.0, 3.0)])
@pytest.mark.parametrize("kind", list(MECHANISMS.values()))
def test_densities_are_those_of_one_scale(kind, bounds):
    """Catches a scale that is read in the wrong place: node by node, against a mechanism of that scale."""
    rng, n = np.random.default_rng(0), 5
    for _ in range(40):
        scale, sd, mean = 10 ** rng.uniform(-1, 1, n), 10 ** rng.uniform(-1.5, 1), 2.0 * rng.standard_normal()
        x = rng.uniform(-6.0, 6.0, n) if bounds is None else rng.uniform(*bounds, n)
        own, out, expected = kind(scale=scale, bounds=bounds), np.zeros(3 * n), np.zeros((3, n))
        nodes, value = np.vstack([x, own.lookup(x[None], scale)]), with_densities(own._lower(n_records=n, n_features=1))
        value.fill_normal(0, nodes.ravel(), n, mean, 2 * log(sd), out, 0, n)
        found = out.reshape(3, n)
        for i in range(n):
            one, out = kind(scale=scale[i], bounds=bounds), np.zeros(3)
            nodes = np.append(x[i], one.lookup(x[None, i : i + 1]))
            one._lower(n_records=1, n_features=1).fill_normal(0, nodes, 1, mean, 2 * log(sd), out, 0, 1)
            expected[:, i] = out
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-11)
        np.testing.assert_allclose(found[1:] / found[0], expected[1:] / expected[0], rtol=1e-9, atol=1e-9)


def random_draws(n=20):
    rng, found = np.random.default_rng(3), []
    for _ in range(n):
        weights = np.concatenate([0.7 * rng.dirichlet([9, 9, 9]), 0.3 * rng.dirichlet(np.ones(4))])
        sd, mean = np.sqrt(3.0 / np.append(rng.standard_gamma(3.0, 6), 16.0)), rng.uniform(-8, 8, 4)
        mean = np.append([-5, 0, 5], mean)
        found.append((weights, np.column_stack([mean, sd, 0.0 * sd, np.log(sd)])))
    whole = np.full(n, 7)
    return Draws(whole, whole, np.ones(n), *(np.concatenate(part) for part in zip(*found, strict=True)))


@pytest.mark.parametrize("bounds", [None, (-10.0, 10.0)])
@pytest.mark.parametrize("many", ["few", "many"])
@pytest.mark.parametrize("kind", list(MECHANISMS.values()))
def test_nodes_stand_for_records(kind, many, bounds, monkeypatch):
    """The log likelihood of random populations, to 10⁻⁶ of a unit of 6000 records in cells that are narrow enough."""
    n, sampler, draws = 6000, MixingMeasure(50), random_draws()
    mechanism = kind(scale=scales(many, n), bounds=bounds)
    Z = mechanism.privatize(three_normals(n), random_state=4)
    channel = with_densities(mechanism._lower(n_records=n, n_features=1))
    kernel = KERNEL._lower(n_features=1)
    values, release = (None, channel, kernel, DirichletProcess()._lower()), Release(Z, mechanism)
    parts = chart_and_masses(values)
    width = mechanism.node_spacing(parts[0].narrowest()[0])

    def error(nodes):
        return sampler.difference(nodes, records, draws)

    monkeypatch.setattr(_node_layout, "FEWER", 0.0)
    records = sampler.compressed(release, *parts, width)
    assert records.are_records and records.nodes.shape[1] == n
    monkeypatch.setattr(_node_layout, "FEWER", 2.0)
    wide, nodes = (sampler.compressed(release, *parts, factor * width) for factor in (1.0, 0.4))
    assert not nodes.are_records and wide.nodes.shape[1] < (900 if many == "few" else 4000)
    assert np.all(nodes.weights > 0)
    np.testing.assert_allclose(nodes.weights.sum(), n, rtol=1e-11)
    assert error(nodes) < 1e-6
    assert error(wide) < 0.02
    permuted, heavy = (nodes._replace(nodes=nodes.nodes.copy(), lookup=nodes.lookup.copy()) for _ in range(2))
    permuted.lookup[-1] = np.roll(permuted.lookup[-1], 1)
    heavy.nodes[-1, nodes.nodes.shape[1] // 2] *= 1.01
    assert error(permuted) > 1.0
    assert error(heavy) > 1e-4


# --- the posterior ---------------------------------------------------------------------------------------------------


class ScalesPermuted(MixingMeasure):
    """Each record has its neighbour's noise."""

    def compressed(self, *args):
        seen = super().compressed(*args)
        seen.lookup[2::3] = np.roll(seen.lookup[2::3], 1, axis=1)
        return seen


class HeavyNode(MixingMeasure):
    """One record counts twice."""

    def compressed(self, *args):
        seen = super().compressed(*args)
        seen.nodes[-1, 0] *= 2.0
        return seen


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    monkeypatch.setitem(test_exact.SAMPLERS, "mixing measure", (MixingMeasure(), 1))


@pytest.mark.slow
@pytest.mark.parametrize("d", [1, 2])
def test_posterior_is_exact(d):
    """Against the enumeration of all partitions, clamped; two features unclamped.  Laplace noise: ``test_exact``."""
    test_exact.check("mixing measure", "gaussian", d, "own noise each", seed=3)


@pytest.mark.slow
@pytest.mark.parametrize("channel", list(MECHANISMS))
def test_posterior_without_bounds_is_exact(channel, monkeypatch):
    case = test_exact.NOISY["own noise each"]._replace(bounds=None)
    cases = {**test_exact.CASES, (channel, 1): {"own noise, no bounds": case}}
    monkeypatch.setattr(test_exact, "CASES", cases)
    test_exact.check("mixing measure", channel, 1, "own noise, no bounds", seed=4)


@pytest.mark.slow
@pytest.mark.parametrize("twin", [ScalesPermuted, HeavyNode])
@pytest.mark.parametrize("channel", ["laplace", pytest.param("gaussian", marks=pytest.mark.nightly)])
def test_broken_twins_are_rejected(channel, twin, monkeypatch):
    monkeypatch.setattr(test_exact, "N_DRAWS", 3000)
    with pytest.raises(Disagreement):
        test_exact.check("mixing measure", channel, 1, "own noise each", seed=3, sampler=twin(50))


def draws_of(sampler, mechanism, Z, thin=1, n_draws=3000):
    model = PrivateDPMixture(
        mechanism, kernel=KERNEL, sampler=sampler, n_warmup=1000, n_draws=n_draws, thin=thin, random_state=0
    ).fit(Z)
    k = model.n_clusters_draws_[..., None]
    return np.concatenate([k, k <= 4, np.log(model.density_draws([[-5.0], [0.0], [2.5], [8.0]]))], axis=-1)


@pytest.mark.slow
@pytest.mark.parametrize("many", ["few", "many"])
@pytest.mark.parametrize("channel", ["laplace", pytest.param("gaussian", marks=pytest.mark.nightly)])
def test_samplers_agree(channel, many, monkeypatch):
    """With 60 records, by the slice sampler; with nodes for as few, too."""
    mechanism = MECHANISMS[channel](scale=scales(many, 60) / 4.0, bounds=(-6.0, 6.0))
    Z = mechanism.privatize(three_normals(60), random_state=1)
    reference = draws_of("slice", mechanism, Z, 20)
    assert_means_agree(draws_of(MixingMeasure(), mechanism, Z), reference)
    monkeypatch.setattr(_node_layout, "FEW", 0)
    monkeypatch.setattr(_node_layout, "FEWER", 2.0)
    assert_means_agree(draws_of(MixingMeasure(), mechanism, Z), reference)


@pytest.mark.nightly
@pytest.mark.parametrize("many", ["few", "many"])
@pytest.mark.parametrize("channel", list(MECHANISMS))
def test_samplers_agree_on_a_thousand_records(channel, many):
    mechanism = MECHANISMS[channel](scale=scales(many, 1000), bounds=(-10.0, 10.0))
    Z = mechanism.privatize(three_normals(1000), random_state=1)
    others = draws_of("interweaved", mechanism, Z, 20, 2000)
    assert_means_agree(draws_of(MixingMeasure(), mechanism, Z, n_draws=2000), others, min_ess=150)


@pytest.mark.slow
def test_noise_without_end_leaves_the_prior():
    """The number of clusters among five records that say nothing is the Dirichlet process's."""
    mechanism = LaplaceMechanism(scale=[1e7, 2e7, 5e7, 1e8, 3e7])
    model = PrivateDPMixture(mechanism, kernel=KERNEL, n_draws=4000, random_state=0).fit(1e7 * np.eye(5)[:, :1])
    assert isinstance(model.sampler_, MixingMeasure)
    pmf = np.array([1.0])
    for i in range(5):  # the i-th record is in a cluster of its own with probability 1/(1 + i)
        pmf = np.append(pmf * i / (1.0 + i), 0.0) + np.append(0.0, pmf) / (1.0 + i)
    assert_pmf_close(model.n_clusters_draws_, pmf)


# --- the estimator ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("many", ["few", "many"])
def test_components_much_narrower_than_the_bounds_need_no_cell_where_no_record_is(many):
    """Cells as narrow over all of the core took 89 gigabytes."""
    n, kernel = 300, NormalKernel(0.0, 0.1, 3.0, 3e-18)._lower(n_features=1)
    mechanism = LaplaceMechanism(scale=scales(many, n))
    release = Release(mechanism.privatize(three_normals(n), random_state=4), mechanism)
    channel = with_densities(mechanism._lower(n_records=n, n_features=1))
    chart, masses = chart_and_masses((None, channel, kernel, DirichletProcess()._lower()))
    seen = MixingMeasure(50).compressed(release, chart, masses, mechanism.node_spacing(chart.narrowest()[0]))
    assert seen.are_records and seen.nodes.shape[1] == n


def small_fit(mechanism, Z, **parameters):
    parameters = {"n_chains": 2, "n_warmup": 100, "n_draws": 100, "random_state": 0} | parameters
    return PrivateDPMixture(mechanism, **parameters).fit(Z)


@pytest.mark.parametrize("many", ["few", "many"])
def test_all_that_works_with_one_scale(many, tmp_path):
    """Labels, new records with an ε of their own, partitions, scores, chains that go on, jobs, checkpoints."""
    n = 400
    epsilon = 20.0 / scales(many, n)
    mechanism = LaplaceMechanism(epsilon=epsilon, bounds=(-10, 10))
    Z = mechanism.privatize(three_normals(n), random_state=1)
    model = small_fit(mechanism, Z)
    assert isinstance(model.sampler_, MixingMeasure)
    assert model.compression_error_ < 0.01
    np.testing.assert_array_equal(model.predict(Z), model.labels_)
    np.testing.assert_array_equal(model.predict(Z[:9], epsilon=epsilon[:9]), model.labels_[:9])
    assert model.similarity(n_partitions=20, random_state=0).shape == (n, n)
    assert model.score_release(Z) > model.score_release(Z, epsilon=0.05)
    jobs = small_fit(mechanism, Z, n_jobs=2)
    np.testing.assert_array_equal(jobs.n_clusters_draws_, model.n_clusters_draws_)
    shorter = small_fit(mechanism, Z, n_draws=40, warm_start=True, checkpoint=tmp_path / "run")
    longer = shorter.set_params(n_draws=100).fit(Z)
    np.testing.assert_array_equal(longer._draws_.flat.theta, model._draws_.flat.theta)
    with pytest.raises(ValueError, match=r"Z has 9 records, but .* for each of 400: pass epsilon="):
        model.predict(Z[:9])


def test_new_records_of_a_mechanism_without_epsilon():
    """Catches a message about the mechanism's constructor, which the user did not call."""
    mechanism = LaplaceMechanism(scale=np.array([1.0, 2.0, 3.0]))
    model = small_fit(mechanism, [[0.0], [1.0], [2.0]])
    assert model.predict([[0.0], [1.0], [2.0]]).shape == (3,)
    with pytest.raises(ValueError, match=r"Z has 2 records, but .* for each of 3: give the records that were fitted"):
        model.predict([[0.0], [1.0]])
    with pytest.raises(ValueError, match=r"epsilon=\[1, 2\] was given, but .* made with scale= or rho="):
        model.predict([[0.0], [1.0]], epsilon=[1, 2])


@pytest.mark.parametrize("mechanism", [LaplaceMechanism, GaussianMechanism])
@pytest.mark.parametrize("ends", [(-3, 3), (-1, 1), (0, 3)])
def test_precise_records_make_the_default_prior(mechanism, ends):
    """Catches moments that the noisiest records drown: a default prior as wide as their noise.

    What n precise records would tell is met to within a few of their standard errors.
    """
    rng, n = np.random.default_rng(5), 5000
    X, made = three_normals(n), mechanism(scale=np.exp(np.log(10.0) * rng.uniform(*ends, n)))
    release = Release(made.privatize(X, random_state=6), made)
    mean, variance = release.moments()
    squares = release.noise_scale() ** 2
    precision = np.sum(1.0 / (X.var() + made.noise_variance() * squares / squares.mean()))
    assert abs(mean[0] - X.mean()) < 5.0 / np.sqrt(precision)
    assert abs(variance[0] - X.var()) < 15.0 * X.var() / np.sqrt(X.var() * precision)
    naive = release.Z.var() - release.noise_variance()
    assert ends == (-1, 1) or abs(naive - X.var()) > 5.0 * X.var()  # the broken twin


@pytest.mark.parametrize("mechanism", [LaplaceMechanism, GaussianMechanism])
def test_one_scale_in_a_list_is_one_scale(mechanism):
    """Catches a conversion of arrays with one number, which NumPy refuses."""
    Z = np.array([[0.0], [1.0], [3.0]])
    one, listed = (small_fit(mechanism(scale=scale), Z) for scale in (2.0, [2.0]))
    np.testing.assert_array_equal(one._draws_.flat.theta, listed._draws_.flat.theta)
    assert small_fit(mechanism(scale=[2.0]), Z[:1]).labels_.shape == (1,)


def test_what_it_does_not_take():
    """No summary, which would have to say which record had which noise."""
    mechanism = LaplaceMechanism(epsilon=[1.0, 2.0, 4.0], bounds=(0, 1))
    with pytest.raises(ValueError, match=r"which record had which noise.*fit all records at once"):
        PrivateDPMixture(mechanism).partial_fit([[0.1], [0.2], [0.3]])
    summary = ReleaseSummary(LaplaceMechanism(epsilon=1.0, bounds=(0, 1))).update([[0.1], [0.2]])
    with pytest.raises(ValueError, match="which record had which noise"):
        PrivateDPMixture(mechanism).fit(summary)
