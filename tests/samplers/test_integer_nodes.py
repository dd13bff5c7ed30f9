"""The walk over mixing measures on integers under integer noise: different values with their counts are the nodes.

Broken twins: continuous noise in place of discrete, a node's weight off, integers a cell apart.
"""

from math import log

import grid_oracle as oracle
import numpy as np
import pytest
from exact_channel_cases import compare, points
from scipy.special import ndtr
from scipy.stats import norm
from statistical import Disagreement, assert_means_agree

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import Auto, MixingMeasure
from sklearn_dpmix.samplers.mixture._run import Draws
from sklearn_dpmix.samplers.mixture.measure._compressed import different
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_and_masses

PRIOR = {"mean": 1.5, "mean_precision": 0.3, "shape": 2.5, "scale": 0.6}
BOUNDS = (0, 4)
CASES = {
    "laplace": (DiscreteLaplaceMechanism, 0.5, [-1.0, 1.0, 1.0, 5.0]),
    "gaussian": (DiscreteGaussianMechanism, 0.5, [-1.0, 1.0, 3.0, 3.0]),
}
CONTINUOUS = {"laplace": LaplaceMechanism, "gaussian": GaussianMechanism}


def log_noise(name, e, scale):
    """Normalised over integers by their sum."""
    far = np.arange(-600.0, 601.0)
    shape = (lambda e: -np.abs(e) / scale) if name == "laplace" else (lambda e: -0.5 * (e / scale) ** 2)
    return shape(e) - np.log(np.sum(np.exp(shape(far))))


@pytest.mark.parametrize("name", list(CASES))
@pytest.mark.parametrize("cells", [1, 5])
def test_densities(name, cells):
    """Against the pieces of the channel; the derivatives against differences."""
    kind, scale, z = CASES[name]
    mechanism, x = kind(scale=scale, bounds=(0, cells - 1) if cells > 1 else (2, 3)), np.array(z)
    value, kernel = mechanism._lower(n_records=4, n_features=1), NormalKernel(**PRIOR)._lower(n_features=1)
    nodes = np.vstack([x, mechanism.lookup(x[None])]).ravel()

    def fill(mean, log_variance):
        out = np.ones(12)
        value.fill_normal(0, nodes, 4, mean, log_variance, out, 0, 4)
        return out.reshape(3, 4)

    for mean, sd in ((0.3, 1.1), (7.0, 0.6), (-9.0, 3.0), (2.5, 0.05)):
        theta, step = np.array([[mean, sd, 1.0 / sd, log(sd)]]), 1e-5
        found = fill(mean, 2 * log(sd))
        expected = np.exp([value.log_marginal(kernel, x[:, None], i, 0, theta, 0) for i in range(4)])
        np.testing.assert_allclose(found[0], expected, rtol=1e-12)
        by_mean = fill(mean + step * sd, 2 * log(sd))[0] - fill(mean - step * sd, 2 * log(sd))[0]
        by_scale = fill(mean, 2 * log(sd) + step)[0] - fill(mean, 2 * log(sd) - step)[0]
        np.testing.assert_allclose(found[1] * sd / found[0], by_mean / (2 * step) / found[0], atol=1e-6)
        np.testing.assert_allclose(found[2] / found[0], by_scale / (2 * step) / found[0], atol=1e-6)


WIDE = {
    "hardly any laplace": (DiscreteLaplaceMechanism, 0.15),
    "hardly any gaussian": (DiscreteGaussianMechanism, 0.3),
    "narrow laplace": (DiscreteLaplaceMechanism, 2.0),
    "wide laplace": (DiscreteLaplaceMechanism, 300.0),
    "narrow gaussian": (DiscreteGaussianMechanism, 2.0),
    "gaussian": (DiscreteGaussianMechanism, 12.0),
    "wide gaussian": (DiscreteGaussianMechanism, 70.0),
    "very wide gaussian": (DiscreteGaussianMechanism, 5000.0),
}


def summed(mechanism, x, mean, sd):
    """g(x) and its derivatives by μ and log σ², with a term for each integer; and sizes of the terms, to judge them."""
    bounds = mechanism.bounds_for(1)
    far = np.floor(mean - 45.0 * sd) - 1.0, np.ceil(mean + 45.0 * sd) + 1.0
    low, high = far if bounds is None else np.clip(far, *bounds[0])
    y, edges = np.arange(low, high + 1.0), np.concatenate([[-np.inf], np.arange(low, high) + 0.5, [np.inf]])
    t = (edges - mean) / sd
    f, tf = np.exp(-0.5 * t**2) / np.sqrt(2.0 * np.pi), np.where(np.isinf(t), 0.0, t) * norm.pdf(t)
    masses = np.where(t[1:] < 0, norm.cdf(t[1:]) - norm.cdf(t[:-1]), norm.sf(t[:-1]) - norm.sf(t[1:]))
    noise = np.exp(mechanism.log_density(np.repeat(x, len(y))[:, None], np.tile(y, len(x))[:, None]))
    terms = np.array([masses, -np.diff(f) / sd, -0.5 * np.diff(tf)])
    return terms @ noise.reshape(len(x), -1).T, np.abs(terms).sum(axis=1)[:, None] * noise.max()


@pytest.mark.parametrize("bounds", [(-10, 600), (-10, 100_000), None])
@pytest.mark.parametrize("name", list(WIDE))
def test_densities_of_many_integers(name, bounds):
    """Where they are sums, closed forms or series; components in the middle, at a bound and beyond it."""
    kind, scale = WIDE[name]
    mechanism = kind(scale=scale, bounds=bounds)
    reach = 4 * min(scale, 400)
    x = np.unique(mechanism.folded(np.rint(np.random.default_rng(0).uniform(-10 - reach, 600 + reach, 60))))
    value, nodes = mechanism._lower(n_records=1, n_features=1), np.vstack([x[None], mechanism.lookup(x[None])]).ravel()
    components = [(300.2, 0.1), (310.0, 3.9), (310.0, 4.0), (585.0, 5.0), (-12.0, 0.4), (300.0, 11.99)]
    components += [(310.3, 12.0), (590.0, 13.0), (640.0, 50.0), (200.0, 900.0)]
    for mean, sd in components:
        out = np.full(3 * len(x), np.nan)
        value.fill_normal(0, nodes, len(x), mean, 2.0 * log(sd), out, 0, len(x))
        expected, size = summed(mechanism, x, mean, sd)
        tolerance = (1e-11, 1e-14) if sd < 4.0 else (1e-8, 1e-12)  # of series
        np.testing.assert_allclose(out.reshape(3, -1) / size, expected / size, *tolerance)


def random_draws(n=20):
    rng, found = np.random.default_rng(3), []
    for _ in range(n):
        sd = np.append(rng.uniform(30.0, 80.0, 2), 400.0)
        mean = np.append(rng.normal([300.0, 700.0], 20.0), 500.0)
        found.append((rng.dirichlet([9.0, 9.0, 2.0]), np.column_stack([mean, sd, 0.0 * sd, np.log(sd)])))
    whole = np.full(n, 3)
    return Draws(whole, whole, np.ones(n), *(np.concatenate(part) for part in zip(*found, strict=True)))


@pytest.mark.parametrize("name", ["narrow laplace", "wide laplace", "narrow gaussian", "wide gaussian"])
def test_some_places_stand_for_all(name):
    """The log likelihood of random populations, to 10⁻⁶ of a unit of 6000 records; under wide Gaussian noise, any."""
    (kind, scale), sampler, draws, rng = WIDE[name], MixingMeasure(50), random_draws(), np.random.default_rng(0)
    mechanism = kind(scale=scale, bounds=(0, 1000))
    Z = mechanism.privatize(np.rint(np.clip(rng.normal(rng.choice([300, 700], 6000), 60.0), 0, 1000))[:, None])
    kernel = NormalKernel(500.0, 0.1, 20.0, 20.0 * 40.0**2)._lower(n_features=1)
    values = (None, mechanism._lower(n_records=6000, n_features=1), kernel, DirichletProcess()._lower())
    some = sampler.compressed(Release(Z, mechanism), *chart_and_masses(values), 50.0)
    nodes = different(mechanism.folded(Z))
    every = some._replace(nodes=nodes, near=nodes[:-1], lookup=mechanism.lookup(nodes[:-1]))
    assert some.nodes.shape[1] < 0.7 * every.nodes.shape[1]
    assert (set(some.nodes[0]) <= set(every.nodes[0])) == (name != "wide gaussian")
    np.testing.assert_allclose(some.weights.sum(), 6000, rtol=1e-11)
    assert sampler.difference(some, every, draws) < 1e-6
    some.nodes[-1, 30] *= 1.01
    assert sampler.difference(some, every, draws) > 1e-3


@pytest.mark.parametrize("kind", [DiscreteLaplaceMechanism, DiscreteGaussianMechanism])
def test_few_records_of_two_features_stand_for_all(kind):
    rng = np.random.default_rng(0)
    mechanism = kind(scale=3.0, bounds=(0, 1000))
    Z = mechanism.privatize(np.rint(np.clip(rng.normal([[300, 700]], 30.0, (6000, 2)), 0, 1000)))
    kernel = NormalKernel(500.0, 0.1, 20.0, 20.0 * 40.0**2)._lower(n_features=2)
    values = (None, mechanism._lower(n_records=6000, n_features=2), kernel, DirichletProcess()._lower())
    sampler, sd = MixingMeasure(50), rng.uniform(25.0, 60.0, 80)
    some = sampler.compressed(Release(Z, mechanism), *chart_and_masses(values), 80.0)
    nodes = different(Z)
    every = some._replace(nodes=nodes, near=nodes[:-1], lookup=mechanism.lookup(mechanism.folded(nodes[:-1])))
    assert some.nodes.shape[1] < 0.3 * every.nodes.shape[1]
    one = np.column_stack([rng.normal(300.0, 9.0, 80), sd, 0.0 * sd, np.log(sd)])
    other = np.column_stack([rng.normal(700.0, 9.0, 80), sd, 0.0 * sd, np.log(sd)])
    whole = np.full(20, 4)
    draws = Draws(whole, whole, np.ones(20), np.full(80, 0.25), np.hstack([one, other]))
    assert sampler.difference(some, every, draws) < 0.005


def exact(name):
    _, scale, z = CASES[name]
    grid = oracle.NormalGrid(**PRIOR, bounds=(BOUNDS[0] - 0.5, BOUNDS[1] + 0.5))
    log_q = log_noise(name, np.array(z)[:, None] - np.arange(BOUNDS[0], BOUNDS[1] + 1), scale)
    return oracle.local_posterior(grid, oracle.binned_log_g(grid, log_q), points(BOUNDS))


def draws_of(name, sampler="auto", kind=None, n_draws=5000):
    own_kind, scale, z = CASES[name]
    return fitted_draws((kind or own_kind)(scale=scale, bounds=BOUNDS), PRIOR, z, points(BOUNDS), sampler, n_draws)


def fitted_draws(mechanism, prior, z, at, sampler="auto", n_draws=5000):
    kernel = NormalKernel(**prior) if isinstance(prior, dict) else prior
    model = PrivateDPMixture(mechanism, kernel=kernel, sampler=sampler, n_draws=n_draws, random_state=0)
    model.fit(np.array(z)[:, None])
    assert isinstance(model.sampler_, MixingMeasure)
    return model.n_clusters_draws_, model.density_draws(at[:, None])


MANY_PRIOR = {"mean": 150.0, "mean_precision": 0.3, "shape": 2.5, "scale": 0.6 * 60.0**2}
MANY_POINTS = np.array([10.0, 60.0, 150.0, 250.0, 380.0])
MANY = {
    "laplace": (DiscreteLaplaceMechanism(scale=10.0, bounds=(0, 400)), [-25.0, 30.0, 30.0, 260.0]),
    "open laplace": (DiscreteLaplaceMechanism(scale=10.0), [-25.0, 30.0, 30.0, 260.0]),
    "gaussian": (DiscreteGaussianMechanism(scale=20.0, bounds=(0, 400)), [-25.0, 30.0, 30.0, 260.0]),
    "open gaussian": (DiscreteGaussianMechanism(scale=3.0), [-2.0, 30.0, 30.0, 260.0]),
    "narrow gaussian": (DiscreteGaussianMechanism(scale=3.0, bounds=(0, 400)), [-2.0, 30.0, 30.0, 260.0]),
}


def exact_of_many(name):
    """Of hundreds of integers; without bounds, of all that count."""
    mechanism, z = MANY[name]
    low, high = (-1000.0, 1400.0) if mechanism.bounds is None else mechanism.bounds
    grid = oracle.NormalGrid(**MANY_PRIOR, bounds=(low - 0.5, high + 0.5))
    g, edges = np.zeros((len(z), *grid.mu.shape)), grid.edges(int(high - low) + 1)
    noise = np.exp(log_noise(name.split()[-1], np.array(z)[:, None] - np.arange(low, high + 1.0), mechanism.scale))
    first, last = np.flatnonzero(noise.max(axis=0) > 1e-25)[[0, -1]]
    below = ndtr((edges[first] - grid.mu) / grid.sigma) if first else np.zeros(grid.mu.shape)
    for y in range(first, last + 1):
        up_to = ndtr((edges[y + 1] - grid.mu) / grid.sigma)
        g += noise[:, y, None, None] * (up_to - below)
        below = up_to
    with np.errstate(divide="ignore"):
        return oracle.local_posterior(grid, np.log(np.maximum(g, 0.0)), MANY_POINTS)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(MANY))
def test_posterior_of_many_integers_is_exact(name):
    """Against the same enumeration, where series are used; with other bounds, or with one record more,
    it is rejected."""
    (mechanism, z), truth = MANY[name], exact_of_many(name)
    compare(*fitted_draws(mechanism, MANY_PRIOR, z, MANY_POINTS), truth, name)
    with pytest.raises(Disagreement):
        compare(*fitted_draws(mechanism, MANY_PRIOR, z, MANY_POINTS, HeavyNode(100), 2000), truth, name)
    other = type(mechanism)(scale=mechanism.scale, bounds=(50, 400))  # fits badly: a trial run would ask for many moves
    with pytest.raises(Disagreement):
        compare(*fitted_draws(other, MANY_PRIOR, z, MANY_POINTS, MixingMeasure(100), 2000), truth, name)


class HeavyNode(MixingMeasure):
    """One record more than there is."""

    def compressed(self, *args):
        seen = super().compressed(*args)
        seen.nodes[-1, -1] += 1.0
        return seen


class NextCell(MixingMeasure):
    """Each release is its neighbour's."""

    def compressed(self, *args):
        seen = super().compressed(*args)
        seen.nodes[0] += 1.0
        return seen


@pytest.mark.slow
@pytest.mark.parametrize("name", list(CASES))
def test_posterior_is_exact(name):
    """Against the enumeration of all partitions of four records, two of them the same."""
    compare(*draws_of(name), exact(name), name)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["laplace", pytest.param("gaussian", marks=pytest.mark.nightly)])
def test_broken_twins_are_rejected(name):
    truth = exact(name)
    for sampler in (HeavyNode(100), NextCell(100)):
        with pytest.raises(Disagreement):
            compare(*draws_of(name, sampler, n_draws=2000), truth, name)
    with pytest.raises(Disagreement):
        compare(*draws_of(name, kind=CONTINUOUS[name]), truth, name)


def release(n):
    rng = np.random.default_rng(0)
    y = np.clip(np.round(rng.choice([3.0, 12.0], n) + 1.5 * rng.standard_normal(n)), 0, 15)[:, None]
    mechanism = DiscreteLaplaceMechanism(epsilon=15.0, bounds=(0, 15))
    return mechanism, mechanism.privatize(y, random_state=1)


@pytest.mark.slow
@pytest.mark.parametrize("n", [60, pytest.param(1000, marks=pytest.mark.nightly)])
def test_samplers_agree(n):
    """With 1000 records they are no longer drawn one by one, and occupied atoms are found by nodes."""
    mechanism, Z = release(n)

    def draws(sampler, thin):
        model = PrivateDPMixture(
            mechanism, kernel=NormalKernel(7.0, 0.1, 3.0, 6.0), sampler=sampler, n_draws=2500, thin=thin, random_state=0
        ).fit(Z)
        k = model.n_clusters_draws_[..., None]
        return np.concatenate([k, k <= 3, np.log(model.density_draws([[0.0], [3.0], [8.0], [14.0]]))], axis=-1)

    assert_means_agree(draws("mixing_measure", 1), draws(*(("slice", 15) if n == 60 else ("neal5", 60))), min_ess=150)


@pytest.mark.slow
@pytest.mark.parametrize("other", ["interweaved", pytest.param("neal5", marks=pytest.mark.nightly)])
@pytest.mark.parametrize("name", ["open laplace", "gaussian"])
def test_samplers_agree_on_many_integers(name, other):
    """Sixty records, behind noise without bounds or at both."""
    mechanism, rng = MANY[name][0], np.random.default_rng(0)
    y = np.rint(np.clip(rng.normal(rng.choice([20.0, 260.0], 60), 40.0), 0, 400))[:, None]
    Z = mechanism.privatize(y, random_state=1)

    def draws(sampler, thin):
        kernel = NormalKernel(**MANY_PRIOR)
        model = PrivateDPMixture(
            mechanism, kernel=kernel, sampler=sampler, n_draws=2500, thin=thin, random_state=0
        ).fit(Z)
        k = model.n_clusters_draws_[..., None]
        return np.concatenate([k, k <= 3, np.log(model.density_draws(MANY_POINTS[:, None]))], axis=-1)

    assert_means_agree(draws("mixing_measure", 1), draws(other, 10), min_ess=150)


@pytest.mark.parametrize("kind", [DiscreteLaplaceMechanism, DiscreteGaussianMechanism])
@pytest.mark.parametrize(
    "given",
    [{"bounds": (0, 100), "clamp": False}, {"bounds": (0, 1024)}, {"bounds": [(0, 9), (0, 50_000)]}, {}],
    ids=["unclamped", "wide", "one of two is wide", "unbounded"],
)
def test_any_number_of_integers(kind, given):
    """Bounds without clamping once gave nodes of density 0, and wide ones a table of any size."""
    mechanism, n_features = kind(scale=2.0, **given), np.ndim(given.get("bounds", 0)) or 1
    assert isinstance(Auto().resolve(mechanism, NormalKernel()).sized(200, n_features), MixingMeasure)
    value, x = mechanism._lower(n_records=1, n_features=n_features), np.array([[3.0, 30.0]] * n_features)
    out, nodes = np.zeros(6), np.concatenate([x[:, None], mechanism.lookup(x).reshape(n_features, -1, 2)], axis=1)
    low, high = (-np.inf, np.inf) if given.get("clamp") is False or not given else np.atleast_2d(given["bounds"])[-1]
    value.fill_normal(n_features - 1, nodes.ravel(), 2, 5.0, log(16.0), out, 0, 2)
    y = np.arange(max(low, -200.0), min(high, 200.0) + 1.0)
    noise = np.exp(kind(scale=2.0).log_density(np.repeat(x[0], len(y))[:, None], np.tile(y, 2)[:, None])).reshape(2, -1)
    edges = np.concatenate([[-np.inf], y[:-1] + 0.5, [np.inf]])
    np.testing.assert_allclose(out[:2], noise @ np.diff(norm.cdf(edges, 5.0, 4.0)), rtol=1e-8, atol=1e-99)


def test_summary_under_wide_gaussian_noise():
    """Its nodes may be anywhere; that of narrow noise, on integers only, is refused."""
    mechanism = DiscreteGaussianMechanism(scale=20.0, bounds=(0, 400))
    Z = mechanism.privatize(np.rint(np.random.default_rng(0).normal(150.0, 40.0, (400, 1))), random_state=0)
    parameters = {"n_chains": 2, "n_warmup": 100, "n_draws": 100, "random_state": 0}
    of_records, of_summary = (
        PrivateDPMixture(mechanism, **parameters).fit(what).density_draws(MANY_POINTS[:, None])
        for what in (Z, ReleaseSummary(mechanism).update(Z))
    )
    np.testing.assert_allclose(of_summary, of_records, rtol=1e-6)
    with pytest.raises(ValueError, match="a summary keeps no integers apart"):
        ReleaseSummary(DiscreteGaussianMechanism(scale=2.0, bounds=(0, 400)))


def test_it_is_the_default(tmp_path):
    """With labels, scores, jobs and chains that go on; not for summaries, nor where nothing bounds the integers."""
    mechanism, Z = release(400)
    parameters = {"n_chains": 2, "n_warmup": 100, "n_draws": 100, "random_state": 0}
    model = PrivateDPMixture(mechanism, **parameters).fit(Z)
    assert isinstance(model.sampler_, MixingMeasure)
    assert model.compression_error_ == 0.0
    np.testing.assert_array_equal(model.predict(Z), model.labels_)
    assert np.isfinite(model.score_release(Z))
    longer = PrivateDPMixture(mechanism, **parameters | {"n_draws": 40}, warm_start=True, checkpoint=tmp_path / "run")
    longer = longer.fit(Z).set_params(n_draws=100, n_jobs=2).fit(Z)
    np.testing.assert_array_equal(longer._draws_.flat.theta, model._draws_.flat.theta)
    with pytest.raises(ValueError, match="a summary keeps no integers apart"):
        ReleaseSummary(mechanism)
