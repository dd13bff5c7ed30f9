"""Atoms of correlated normals: their prior and densities against SciPy, and mistakes that the exact posterior shows."""

from functools import cache

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone
from statistical import MIN_ESS, Disagreement, assert_means_agree

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.compiled import compiled, entry
from sklearn_dpmix.kernels import MultivariateNormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _which_chart
from sklearn_dpmix.samplers.mixture.measure._correlated_hidden import CorrelatedHiddenChart
from sklearn_dpmix.samplers.mixture.measure._dirichlet_masses import DirichletMasses
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import BY_RESIDUALS, PER_FEATURE
from sklearn_dpmix.samplers.mixture.measure._walk_state import Walk, new_state

SCALES = {1: [[0.7]], 2: [[2.0, 0.9], [0.9, 0.8]], 3: [[2.0, 0.9, -0.8], [0.9, 0.8, -0.1], [-0.8, -0.1, 1.5]]}
N = 7


@entry
def fill(channel, chart, walk, k):
    chart.fill(channel, walk, k)
    chart.fill_slopes(channel, walk, k)


@entry
def write(chart, walk, a, theta):
    chart.put(walk, a, theta, 0)


@entry
def log_base(chart, walk, k):
    return chart.log_base(walk, k)


@entry
def draw_base(rng, chart, walk, n, found):
    for i in range(n):
        chart.draw_base(rng, walk, 0)
        for e in range(walk.width):
            found[i, e] = walk.atoms[e]


@entry
def prior_slopes(chart, walk, gradient):
    for e in range(walk.width):
        walk.gradient[e] = 0.0
    chart.add_prior(walk, 0, 0)
    for e in range(walk.width):
        gradient[e] = walk.gradient[e]


def problem(d, mechanism=None, seed=0):
    """A chart of d features, and a walk with one atom of random coordinates."""
    rng = np.random.default_rng(seed)
    kernel = MultivariateNormalKernel(rng.normal(size=d), 0.8, d + 4.0, SCALES[d])._lower(n_features=d)
    chart = CorrelatedHiddenChart(kernel, d)
    mechanism = LaplaceMechanism(scale=0.7) if mechanism is None else mechanism
    Z, variances = rng.normal(size=(N, d)), rng.exponential(size=(d, N)) * (rng.random((d, N)) < 0.7)
    kept = np.vstack([rng.normal(size=(d, N)), variances])
    walk = walk_of(chart, mechanism, Z, 0.4 * rng.normal(size=chart.n_coordinates()), kept)
    walk.residuals[:] = rng.normal(size=d * N)
    return chart, walk, mechanism._lower(n_records=N, n_features=d), Z


def walk_of(chart, mechanism, Z, place, kept=None):
    """A walk with one atom, at this place, over these releases."""
    d, state = Z.shape[1], new_state(chart.n_coordinates(), 2, kept)
    state.mass[0], state.place[0] = 1.0, place
    law = np.concatenate([np.zeros(PER_FEATURE), chart.law(np.zeros(d), np.ones(d))])
    masses = DirichletMasses(DirichletProcess()._lower()).value()
    return Walk.of(state, np.vstack([Z.T, np.ones(len(Z))]), chart.lookup(mechanism, Z.T), law, masses)


def law_of(chart, walk, d):
    """(μ, Σ) of the atom, as the kernel has them."""
    theta = np.zeros((1, chart.n_params()))
    write(chart.value(), walk, 0, theta)
    J = chart.factors(theta)[0]
    return theta[0, 0 : 4 * d : 4], np.linalg.inv(J.T @ J), np.linalg.inv(J)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_prior_is_the_normal_inverse_wishart_law(d):
    """Catches a wrong Jacobian of the coordinates, from that of (μ, Σ) by finite differences, and wrong slopes."""
    chart, walk, _, _ = problem(d)
    kernel, value, width = chart.kernel, chart.value(), int(walk.width)

    def flat(place):
        walk.atoms[1:width] = place
        mean, covariance, _ = law_of(chart, walk, d)
        return np.concatenate([mean, covariance[np.tril_indices(d)]])

    def log_density(place):
        walk.atoms[1:width] = place
        return log_base(value, walk, 0)

    def slopes(function, place, step=1e-5):
        return np.array([(function(place + e) - function(place - e)) / (2 * step) for e in step * np.eye(len(place))])

    place = walk.atoms[1:width].copy()
    log_jacobian = np.linalg.slogdet(slopes(flat, place))[1]
    walk.atoms[1:width] = place
    mean, covariance, _ = law_of(chart, walk, d)
    expected = stats.multivariate_normal(kernel.prior_mean, covariance / kernel.precision).logpdf(mean)
    expected += stats.invwishart(kernel.dof, np.array(SCALES[d])).logpdf(covariance) + log_jacobian
    assert log_density(place) == pytest.approx(expected, abs=1e-6)
    gradient = np.zeros(width)
    walk.atoms[1:width] = place
    walk.fence[4], walk.fence[5] = 1.0, width - 1.0
    prior_slopes(value, walk, gradient)
    np.testing.assert_allclose(gradient[1:], slopes(log_density, place), rtol=1e-5, atol=1e-6)


def test_prior_draws_have_its_slopes():
    """Catches draws of another law than the density: the mean slope is zero in each coordinate."""
    chart, walk, _, _ = problem(2)
    value, width = chart.value(), int(walk.width)
    found, gradient = np.zeros((4000, width)), np.zeros(width)
    draw_base(np.random.default_rng(1), value, walk, len(found), found)
    walk.fence[4], walk.fence[5] = 1.0, width - 1.0

    def worst(atoms):
        slopes = []
        for atom in atoms:
            walk.atoms[1:width] = atom[1:]
            prior_slopes(value, walk, gradient)
            slopes.append(gradient[1:].copy())
        return np.abs(np.mean(slopes, axis=0) / stats.sem(slopes)).max()

    assert worst(found) < 4.5
    found[:, 2] += 0.1  # the twin: one scale a tenth too large
    assert worst(found) > 6.0


def table_and_slopes(chart, walk, channel, step):
    """The atom's table, and derivatives of its densities by finite differences."""
    value, width, seen = chart.value(), int(walk.width), chart.seen_of(channel)
    place, found = walk.atoms[1:width].copy(), []
    for e in step * np.vstack([np.zeros(width - 1), np.eye(width - 1), -np.eye(width - 1)]):
        walk.atoms[1:width] = place + e
        fill(seen, value, walk, 0)
        found.append(walk.tables[: width * N].reshape(width, N).copy())
    densities = np.array(found)[1:, 0]
    return found[0], (densities[: width - 1] - densities[width - 1 :]) / (2.0 * step)


def check_densities(chart, walk, channel, expected):
    """The atom's densities are these, and their derivatives those by finite differences."""
    found, slopes = table_and_slopes(chart, walk, channel, 1e-6)
    np.testing.assert_allclose(found[0], expected, rtol=1e-12)
    np.testing.assert_allclose(found[1:], slopes, rtol=1e-5, atol=1e-8)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("mechanism", [LaplaceMechanism, GaussianMechanism])
@pytest.mark.parametrize("by_residuals", [False, True])
def test_densities_and_their_slopes(d, mechanism, by_residuals):
    """Catches a wrong density by variances or by residuals, under bounds too, and a wrong derivative of either."""
    scale = 0.7
    chart, walk, channel, Z = problem(d, mechanism(scale=scale, bounds=(-1.0, 1.5)))
    walk.law[BY_RESIDUALS] = float(by_residuals)
    mean, covariance, root = law_of(chart, walk, d)
    if by_residuals:
        x = np.clip(mean + walk.residuals.reshape(d, N).T @ root.T, -1.0, 1.5)
        r = (Z - x) / scale
        expected = np.exp(-np.abs(r).sum(axis=1) if mechanism is LaplaceMechanism else -0.5 * (r**2).sum(axis=1))
    else:
        kept = walk.records.reshape(2, d, N).transpose(0, 2, 1)
        expected = [stats.multivariate_normal(mean, covariance + np.diag(v)).pdf(y) for y, v in zip(*kept, strict=True)]
        expected = np.array(expected) * np.sqrt(np.diag(SCALES[d])).prod()  # in units of the prior's scales
    check_densities(chart, walk, channel, expected)


@entry
def draw_variances(mechanism, rng, noise, found):
    for m in range(noise.size):
        found[m] = mechanism.draw_variance(rng, noise[m])


def test_variances_of_laplace_noise():
    """Noise and its variance have the law that they have where the variance, 2 Exp(1), is drawn first."""
    rng, n = np.random.default_rng(0), 20_000
    noise, v = rng.laplace(size=n), np.zeros(n)
    draw_variances(LaplaceMechanism(scale=1.0)._lower(n_records=n, n_features=1), rng, noise, v)

    def p_values(v):
        u = noise / np.sqrt(v)
        near = u[v < np.median(v)]  # independent of v
        return stats.kstest(v, stats.expon(scale=2.0).cdf)[1], stats.kstest(u, "norm")[1], stats.kstest(near, "norm")[1]

    assert min(p_values(v)) > 1e-4
    assert min(p_values(2.0 * rng.exponential(size=n))) < 1e-9  # the twin: whatever the noise was
    assert min(p_values(1.05 * v)) < 1e-4  # a twentieth too wide


@pytest.mark.filterwarnings("ignore:the chains have not mixed", "ignore:feature")
@pytest.mark.parametrize("d", [2, 3])
def test_draws_do_not_depend_on_where_a_fit_stops(d):
    """Catches residuals that are lost where a run stops among them, and slopes that are those of another atom."""
    Z = np.random.default_rng(0).normal(size=(300, d))
    model = PrivateDPMixture(
        LaplaceMechanism(scale=1.0, bounds=[(-2, 2)] * d),
        kernel="multivariate_normal",
        sampler=MixingMeasure(n_moves=20),
        n_warmup=10,
        n_draws=20,
        n_chains=1,
        random_state=0,
    )
    expected = clone(model).fit(Z).density_draws(Z[:5])
    model.set_params(warm_start=True)
    for n_draws in (3, 8, 20):  # after 13 sweeps, and after 18: among residuals, and among variances
        model.set_params(n_draws=n_draws).fit(Z)
    np.testing.assert_array_equal(model.density_draws(Z[:5]), expected)


# --- broken twins, which the enumerated posterior of two records must show ---


class JacobianForgotten(CorrelatedHiddenChart):
    """The prior's density by (μ, Σ), taken for that by the coordinates."""

    right = CorrelatedHiddenChart.log_base

    @compiled
    def log_base(self, walk, k):
        value = self.right(walk, k)
        for i in range(self.n_features):
            value -= 2.0 * (self.n_features - i) * walk.atoms[k * walk.width + 2 + 2 * i]
        return value


PAIR = np.array([[-1.6, 0.3], [1.8, -1.9]])


@cache
def draws_of(sampler, n_draws, thin):
    kernel = MultivariateNormalKernel((0.4, -1.0), 0.8, 6.0, SCALES[2])
    mechanism = LaplaceMechanism(scale=0.8, bounds=((-1, 2), (-1.5, 1)))
    model = PrivateDPMixture(mechanism, kernel=kernel, sampler=sampler, n_draws=n_draws, thin=thin, random_state=0)
    mean, variance = model.fit(PAIR).moment_draws()
    return np.concatenate([model.density_draws(PAIR), mean, np.log(variance)], axis=-1)


def compare(n_draws=600, thin=2, min_ess=200):
    """Compare with the other sampler of correlated records, which is checked by enumeration."""
    draws = draws_of.__wrapped__(MixingMeasure(n_moves=40), n_draws, thin)  # not kept: a twin may have changed it
    assert_means_agree(draws_of("imputed", 4000, 3), draws, min_ess=min_ess)


@pytest.mark.slow
def test_agrees_with_imputed_records():
    compare(4000, 3, MIN_ESS)


class BoundsForgotten(CorrelatedHiddenChart):
    """Records are drawn as if nothing had been clamped."""

    def seen_of(self, channel):
        return LaplaceMechanism(scale=0.8)._lower(n_records=2, n_features=2)


@pytest.mark.slow
@pytest.mark.usefixtures("digested_once")
@pytest.mark.parametrize("twin", [JacobianForgotten, BoundsForgotten])
def test_broken_twin_is_noticed(monkeypatch, twin):
    monkeypatch.setitem(_which_chart.CHARTS, "correlated_normal", twin)
    with pytest.raises(Disagreement):
        compare()


@pytest.mark.slow
def test_noise_of_another_width_is_noticed(monkeypatch):
    """What records are made of is drawn under noise of another width."""
    right = CorrelatedHiddenChart.lookup
    monkeypatch.setattr(CorrelatedHiddenChart, "lookup", lambda *args: 2.0 * right(*args))
    with pytest.raises(Disagreement):
        compare()
