"""One question with many categories, whose shares move along one direction at a time."""

from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from grid_oracle import noncompliance_posterior
from scipy.special import logsumexp
from scipy.stats import chi2, norm
from statistical import Disagreement, assert_mean_close, assert_pmf_close, effective_sample_size

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import CategoricalKernel
from sklearn_dpmix.mechanisms import FiniteChannelMechanism, RandomizedResponseMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _which_chart
from sklearn_dpmix.samplers.mixture.measure._parts import log_far_density
from sklearn_dpmix.samplers.mixture.measure._ways import main_axes

K = 8
MATRIX = np.random.default_rng(8).dirichlet(np.full(5, 0.7), K)
PLACES = np.arange(K)[:, None]


@pytest.fixture(autouse=True)
def many(monkeypatch):
    """Eight categories are many, so that posteriors can be enumerated."""
    monkeypatch.setattr(_which_chart, "MANY", K)


def fitted(mechanism, Z, mixing, alpha, sampler="auto", **parameters):
    parameters = {"n_draws": 4000, "random_state": 0} | parameters
    kernel = CategoricalKernel(alpha=alpha)
    return PrivateDPMixture(mechanism, kernel=kernel, mixing=mixing, sampler=sampler, **parameters).fit(Z)


class SeesOtherWays(MixingMeasure):
    """A twin: what an axis adds at an answer is taken for what it adds at another one."""

    def answers(self, values, Z, release):
        seen = super().answers(values, Z, release)
        return seen._replace(ways=seen.ways._replace(seen=seen.ways.seen[:, ::-1].copy()))


def compare_few(alpha, sampler="auto", n_draws=3000):
    """All partitions of four records."""
    Z = np.array([[0], [4], [2], [0]])
    with np.errstate(divide="ignore"):
        log_q = np.log(MATRIX[:, Z.ravel()].T)[:, None]
    nobody, x = np.full(len(Z), -np.inf), list(product(range(K)))
    _, _, pmf, predictive = noncompliance_posterior(log_q, nobody, 1.0, 1.0, alpha, x, 1.5)
    model = fitted(FiniteChannelMechanism(MATRIX), Z, DirichletProcess(1.5), alpha, sampler, n_draws=n_draws)
    assert_pmf_close(model.n_clusters_draws_, pmf, what="clusters")
    assert_mean_close(model.density_draws(PLACES), predictive, what="predictive")


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.3, 1.0, 2.5])
def test_posterior_of_few_records_is_exact(alpha):
    """Catches a wrong law of shares, of proposals between two ends, or of what two atoms exchange."""
    compare_few(alpha)


@pytest.mark.slow
def test_other_ways_are_noticed():
    with pytest.raises(Disagreement):
        compare_few(1.0, SeesOtherWays(), 2000)


@pytest.mark.slow
def test_answers_that_say_nothing_leave_the_prior():
    """Shares of the population: E π² = 1/K² + Var π/(1 + concentration), Var π that of one draw of the base measure."""
    alpha, concentration = 0.7, 1.5
    even = FiniteChannelMechanism(np.full((K, 3), 1 / 3))
    model = fitted(even, np.repeat([0, 1, 2], 20_000)[:, None], DirichletProcess(concentration), alpha)
    shares = model.density_draws(PLACES)
    variance = (1 / K) * (1 - 1 / K) / (K * alpha + 1) / (1 + concentration)
    expected = [np.full(K, 1 / K), np.full(K, 1 / K**2 + variance)]
    assert_mean_close(np.concatenate([shares, shares**2], axis=-1), np.concatenate(expected), what="shares")


def moments(model):
    shares = model.density_draws(PLACES)
    return np.concatenate([shares, shares**2], axis=-1)


def assert_agree(first, second):
    """Means of draws of two samplers, by their effective sample sizes: one chi-square test a moment."""
    for j in range(first.shape[-1]):
        parts = [(one[..., j].mean(), one[..., j].var(), effective_sample_size(one[..., j], 200, "share"))
                 for one in (first, second)]  # fmt: skip
        (a, v, n), (b, w, m) = parts
        if (a - b) ** 2 / (v / n + w / m) > chi2.isf(1e-6 / first.shape[-1], 1):
            raise Disagreement(f"moment {j}: {a:.5f} and {b:.5f}")


def of_eight(n):
    mechanism = RandomizedResponseMechanism(2.0, K)
    X = np.random.default_rng(0).choice(K, n, p=np.arange(1, K + 1) / 36)[:, None]
    return mechanism, mechanism.privatize(X, random_state=1)


@pytest.mark.slow
def test_agrees_with_steps_of_all_shares(monkeypatch):
    """And with the allocations and records of another sampler."""
    mechanism, Z = of_eight(400)
    new = moments(fitted(mechanism, Z, DirichletProcess(1.0), 0.6))
    old = moments(fitted(mechanism, Z, DirichletProcess(1.0), 0.6, "conditional"))
    monkeypatch.setattr(_which_chart, "MANY", K + 1)
    assert_agree(new, moments(fitted(mechanism, Z, DirichletProcess(1.0), 0.6)))
    assert_agree(new, old)
    monkeypatch.setattr(_which_chart, "MANY", K)
    with pytest.raises(Disagreement):
        assert_agree(moments(fitted(mechanism, Z, DirichletProcess(1.0), 0.6, SeesOtherWays(), n_draws=1000)), old)


@pytest.mark.slow
def test_local_hashing_of_many_categories_mixes():
    """Steps of all 64 shares at once gave some ten effective draws of 4000, in three times the time."""
    rng = np.random.default_rng(0)
    mechanism = FiniteChannelMechanism.local_hashing(2.0, rng.integers(0, 8, (16, 64)))
    p = 1.0 / np.arange(1, 65)
    Z = mechanism.privatize(rng.choice(64, 200_000, p=p / p.sum())[:, None], random_state=1)
    model = PrivateDPMixture(mechanism, kernel="categorical", random_state=0).fit(Z)
    slow = {key: value for key, value in model.r_hat_.items() if key != "n_clusters"}
    assert max(slow.values()) < 1.02 and min(value for key, value in model.ess_.items() if key != "n_clusters") > 400
    low, high = np.quantile(model.density_draws(np.arange(64)[:, None]), [0.001, 0.999], axis=(0, 1))
    assert np.mean((low < p / p.sum()) & (p / p.sum() < high)) > 0.9


def test_axes_are_directions_of_shares():
    counts = np.array([5.0, 100.0, 30.0, 2.0, 60.0])
    axes = main_axes(MATRIX, counts)
    assert axes.shape == (K - 1, K)
    np.testing.assert_allclose(axes.sum(axis=1), 0.0, atol=1e-12)
    assert np.linalg.matrix_rank(axes) == K - 1


@pytest.mark.slow
def test_labels_of_many_answers_are_those_of_each():
    """More than 65,536 answers are labelled by their different ones."""
    mechanism, Z = of_eight(70_000)
    model = fitted(mechanism, Z, DirichletProcess(1.0), 1.0, n_draws=20, n_chains=1)
    np.testing.assert_array_equal(model.labels_, model.predict(Z))


@pytest.mark.parametrize("n_coordinates", [2, 480, 900])
def test_density_of_a_part_in_hundreds_of_coordinates(n_coordinates):
    """Catches densities that leave floating point: with 300 categories atoms were joined whatever the prior says."""
    rng, near = np.random.default_rng(0), 0.8
    base = norm(1.0, 2.0)
    for spread in (0.01, 0.3, 1.0, 5.0):
        one = rng.standard_normal(n_coordinates)
        other = one + spread * near * rng.standard_normal(n_coordinates)
        of_base = base.logpdf(other).sum()
        chart = SimpleNamespace(near=lambda walk, e: near, log_base=lambda walk, h, value=of_base: value)
        atoms = np.concatenate([[1.0], one, [1.0], other])
        walk = SimpleNamespace(width=1 + n_coordinates, atoms=atoms)
        near_it = [norm(one, width * near).logpdf(other).sum() for width in (1.0, 0.25)]
        expected = logsumexp([of_base, *near_it], b=[0.5, 0.25, 0.25])
        assert log_far_density(chart, walk, 0, 1) == pytest.approx(expected, rel=1e-12)


@pytest.mark.slow
def test_answers_of_hundreds_of_categories_that_say_nothing_leave_the_prior():
    n, alpha = 60, 2.0
    Z = np.random.default_rng(0).integers(0, 300, (n, 1))
    mechanism = RandomizedResponseMechanism(epsilon=1e-3, n_categories=300)
    kernel, sampler = CategoricalKernel(alpha=0.1), MixingMeasure(n_moves=20)
    model = PrivateDPMixture(
        mechanism, kernel=kernel, mixing=DirichletProcess(alpha), sampler=sampler, n_warmup=400, n_draws=1500,
        random_state=0,
    ).fit(Z)  # fmt: skip
    assert_mean_close(model.n_clusters_draws_, np.sum(alpha / (alpha + np.arange(n))), min_ess=100, what="clusters")
