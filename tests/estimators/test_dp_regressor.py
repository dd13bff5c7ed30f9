"""PrivateDPMixtureRegressor: the law of y given x, or given what was released of x, and one linear relation."""

import pickle
import warnings
from functools import cache
from math import inf, sqrt

import numpy as np
import pytest
from scipy import optimize, stats
from sklearn.base import clone
from statistical import ALPHA, Disagreement, assert_mean_close, assert_means_agree, assert_ranks_uniform

from sklearn_dpmix import PrivateDPMixture, PrivateDPMixtureRegressor
from sklearn_dpmix._posterior.mixture import MixtureDraws
from sklearn_dpmix._posterior.response_law import AtPlace, AtRelease, ConditionalLaw
from sklearn_dpmix.kernels import MultivariateNormalKernel, NormalKernel
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    LaplaceMechanism,
    NoNoise,
)
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.queries import RegressionMoments
from sklearn_dpmix.samplers import Imputed
from sklearn_dpmix.samplers.mixture import _one_normal
from sklearn_dpmix.samplers.mixture._one_normal import OneNormal
from sklearn_dpmix.samplers.mixture._run import Draws

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")

# --- the conditional law, against sums over the joint density ---------------------------------------------------------


def some_draws(d, rng, *, steep=False):
    """Three draws of a mixture: (weights, means, covariances) of each, and the same as the package keeps them."""
    parts, rows = [], []
    for n_atoms in (1, 3, 4):
        mean = rng.normal(0.0, 1.5, (n_atoms, d))
        root = np.tril(rng.normal(0.0, 0.6, (n_atoms, d, d)))
        root[:, range(d), range(d)] = rng.uniform(0.2, 1.2, (n_atoms, d))
        if steep:  # y is almost a line in x
            root[:, -1, -1] = 1e-3
        parts.append((rng.dirichlet(np.ones(n_atoms)), mean, root @ np.swapaxes(root, 1, 2)))
        sd = np.sqrt(np.sum(root**2, axis=2))
        alone = np.stack([mean, sd, 1.0 / sd, np.log(sd)], axis=2).reshape(n_atoms, 4 * d)
        inverse, (i, j) = np.linalg.inv(root), np.tril_indices(d)
        log_det = np.log(inverse[:, range(d), range(d)]).sum(axis=1)
        rows.append(np.column_stack([alone, inverse[:, i, j], root[:, i, j], log_det]))
    n_atoms = np.array([len(row) for row in rows])
    weights = np.concatenate([weights for weights, _, _ in parts])
    return parts, MixtureDraws([Draws(n_atoms, n_atoms, np.ones(3), weights, np.concatenate(rows))])


def kernel_value(d):
    return MultivariateNormalKernel(mean=0.0, dof=d + 2.0, scale=1.0)._lower(n_features=d)


def panels(edges, n=60):
    """Nodes and weights of a Gauss rule between any two neighbouring edges."""
    t, w = np.polynomial.legendre.leggauss(n)
    edges = np.unique(edges)
    half, middle = 0.5 * np.diff(edges)[:, None], 0.5 * (edges[1:] + edges[:-1])[:, None]
    return (middle + half * t).ravel(), (half * w).ravel()


class Oracle:
    """The law of y given a release z of x (one feature) by brute force: sums over a fine grid of x.

    ``likelihood(x)`` is the density of the release; its kinks are among ``kinks``.
    """

    def __init__(self, draw, likelihood, kinks):
        weights, mean, covariance = draw
        self.laws = []
        for w, m, S in zip(weights, mean, covariance, strict=True):
            sd, slope = sqrt(S[0, 0]), S[0, 1] / S[0, 0]
            ends = m[0] + np.array([-12.0, 12.0]) * sd
            steps = np.concatenate([np.linspace(*ends, 400), [k for k in kinks if ends[0] < k < ends[1]]])
            x, node = panels(np.concatenate([steps, *[k + np.linspace(-1, 1, 81) * 0.2 * sd for k in kinks]]))
            mass = w * node * stats.norm.pdf(x, m[0], sd) * likelihood(x)
            self.laws.append((x, mass, m[1] + slope * (x - m[0]), sqrt(S[1, 1] - slope**2 * S[0, 0])))
        self.total = sum(mass.sum() for _, mass, _, _ in self.laws)

    def expect(self, function):
        return sum(mass @ function(centre, sd) for _, mass, centre, sd in self.laws) / self.total

    def mean(self):
        return self.expect(lambda centre, sd: centre)

    def variance(self):
        mean = self.mean()
        return self.expect(lambda centre, sd: sd**2 + (centre - mean) ** 2)

    def cdf(self, y):
        return self.expect(lambda centre, sd: stats.norm.cdf(y, centre, sd))

    def pdf(self, y):
        return self.expect(lambda centre, sd: stats.norm.pdf(y, centre, sd))


def laplace_density(z, b, low=-inf, high=inf):
    return lambda x: np.exp(-np.abs(z - np.clip(x, low, high)) / b) / (2 * b)


def gaussian_density(z, sd, low=-inf, high=inf):
    return lambda x: stats.norm.pdf(z, np.clip(x, low, high), sd)


CHANNELS = {
    "laplace": (LaplaceMechanism(scale=0.7), laplace_density, (0.7,)),
    "little laplace": (LaplaceMechanism(scale=0.03), laplace_density, (0.03,)),
    "much laplace": (LaplaceMechanism(scale=20.0), laplace_density, (20.0,)),
    "clamped laplace": (LaplaceMechanism(scale=0.7, bounds=(-1.0, 0.8)), laplace_density, (0.7, -1.0, 0.8)),
    "clamped gaussian": (GaussianMechanism(scale=0.5, bounds=(-1.0, 0.8)), gaussian_density, (0.5, -1.0, 0.8)),
    "gaussian": (GaussianMechanism(scale=0.5), gaussian_density, (0.5,)),
}


def law_at_release(draws, mechanism):
    channel = mechanism._lower(n_records=1, n_features=2, kernel=None)
    return ConditionalLaw(draws, AtRelease.value(draws, int(channel.n_pieces())), channel, kernel_value(2))


@pytest.mark.parametrize("steep", [False, True], ids=["", "steep"])
@pytest.mark.parametrize("name", CHANNELS)
def test_law_at_a_release_is_a_sum_over_x(name, steep):
    """Catches a wrong tilt, a bound or a kink that is left out, a wrong weight of a piece, and steps between nodes."""
    mechanism, density, args = CHANNELS[name]
    parts, draws = some_draws(2, np.random.default_rng(5), steep=steep)
    law = law_at_release(draws, mechanism)
    Z, q = np.array([[-3.0], [-0.4], [0.8], [1.5]]), np.array([0.03, 0.5, 0.9])
    means, variances = law.curves(Z)
    quantiles, y = law.quantiles(Z, q), np.array([-2.0, 0.1, 0.9, 3.0])
    densities = np.exp(law.log_density(Z, y))
    for i, z in enumerate(Z[:, 0]):
        kinks = [z, *args[1:]]
        oracles = [Oracle(draw, density(z, *args), kinks) for draw in parts]
        for t, oracle in enumerate(oracles):
            assert means[t, i] == pytest.approx(oracle.mean(), rel=1e-8, abs=1e-8)
            assert variances[t, i] == pytest.approx(oracle.variance(), rel=1e-7)
        if not steep:  # the oracle's grid of x is too coarse for such a density of y
            assert densities[i] == pytest.approx(np.mean([one.pdf(y[i]) for one in oracles]), rel=1e-8, abs=1e-290)
        below = [np.mean([one.cdf(value) for one in oracles]) for value in quantiles[i]]
        assert below == pytest.approx(q, abs=1e-4 if steep else 1e-9)
    other = Oracle(parts[1], density(Z[1, 0], 1.05 * args[0], *args[1:]), [Z[1, 0], *args[1:]])  # a twin
    assert abs(means[1, 1] / other.mean() - 1.0) > 1e-6


def test_bounds_count():
    """The twin of clamped channels: without bounds, or with another one, the law is another."""
    mechanism, density, (sd, low, high) = CHANNELS["clamped gaussian"]
    parts, draws = some_draws(2, np.random.default_rng(5))
    means, _ = law_at_release(draws, mechanism).curves(np.array([[1.5]]))
    right, no_bound, another = (
        Oracle(parts[1], density(1.5, sd, *ends), [*ends]).mean()
        for ends in ((low, high), (-99, 99), (low, high + 0.1))
    )
    assert means[1, 0] == pytest.approx(right, rel=1e-8)
    assert min(abs(means[1, 0] - no_bound), abs(means[1, 0] - another)) > 1e-3


@pytest.mark.parametrize("noise", [0.0, 0.6])
@pytest.mark.parametrize("d", [2, 4])
def test_law_at_a_place_is_that_of_the_joint_normals(d, noise):
    """Catches a wrong slope, weight or residual variance of a component, with and without noise in x.

    The oracle conditions in full matrices; and, for d = 2, sums the joint density over y.
    """
    parts, draws = some_draws(d, np.random.default_rng(7))
    X, y = np.random.default_rng(8).normal(0.0, 2.0, (5, d - 1)), np.linspace(-2, 3, 5)
    law = ConditionalLaw(draws, AtPlace.value(draws, d, noise**2), NoNoise()._lower(), kernel_value(d))
    means, variances = law.curves(X)
    q = np.array([0.01, 0.5, 0.99])
    quantiles, densities = law.quantiles(X, q), law.log_density(X, y)
    for i, x in enumerate(X):
        given = []
        for t, (weights, mean, covariance) in enumerate(parts):
            S = covariance + noise**2 * np.diag([1.0] * (d - 1) + [0.0])
            mass = [
                w * stats.multivariate_normal.pdf(x, m[:-1], s[:-1, :-1])
                for w, m, s in zip(weights, mean, S, strict=True)
            ]
            mass = np.array(mass) / np.sum(mass)
            slope = np.array([np.linalg.solve(s[:-1, :-1], s[:-1, -1]) for s in S])
            centre = mean[:, -1] + np.sum(slope * (x - mean[:, :-1]), axis=1)
            own = S[:, -1, -1] - np.sum(slope * S[:, :-1, -1], axis=1)
            given.append((mass, centre, np.sqrt(own)))
            assert means[t, i] == pytest.approx(mass @ centre, rel=1e-9)
            expected = mass @ (own + centre**2) - (mass @ centre) ** 2
            assert variances[t, i] == pytest.approx(expected, rel=1e-7)
            if d == 2:
                grid = np.linspace(-40, 40, 200_001)
                both = sum(
                    w * stats.multivariate_normal.pdf(np.column_stack([np.full_like(grid, x[0]), grid]), m, s)
                    for w, m, s in zip(weights, mean, S, strict=True)
                )
                assert means[t, i] == pytest.approx(both @ grid / both.sum(), rel=1e-7)
        pdf = np.mean([mass @ stats.norm.pdf(y[i], centre, sd) for mass, centre, sd in given])
        assert densities[i] == pytest.approx(np.log(pdf), rel=1e-9)
        below = [np.mean([mass @ stats.norm.cdf(v, centre, sd) for mass, centre, sd in given]) for v in quantiles[i]]
        assert below == pytest.approx(q, abs=1e-11)


def test_gaussian_noise_as_pieces_and_in_closed_form_agree():
    """Two ways to one law: quadrature over pieces, and x plus noise as a wider normal."""
    _, draws = some_draws(2, np.random.default_rng(9))
    closed = ConditionalLaw(draws, AtPlace.value(draws, 2, 0.25), NoNoise()._lower(), kernel_value(2))
    pieces = law_at_release(draws, GaussianMechanism(scale=0.5))
    X, y, q = np.linspace(-6, 6, 9)[:, None], np.linspace(-3, 4, 9), np.array([0.001, 0.3, 0.999])
    for one, other in zip(closed.curves(X), pieces.curves(X), strict=True):
        assert other == pytest.approx(one, rel=1e-10)
    assert pieces.log_density(X, y) == pytest.approx(closed.log_density(X, y), rel=1e-9)
    assert pieces.quantiles(X, q) == pytest.approx(closed.quantiles(X, q), rel=1e-8)


def test_far_places_have_a_law():
    """Catches densities that underflow where no component is near."""
    _, draws = some_draws(2, np.random.default_rng(9))
    for law in (
        ConditionalLaw(draws, AtPlace.value(draws, 2), NoNoise()._lower(), kernel_value(2)),
        law_at_release(draws, LaplaceMechanism(scale=0.1, bounds=(-1, 1))),
    ):
        X = np.array([[-1e4], [300.0]])
        mean, variance = law.curves(X)
        assert np.all(np.isfinite(mean)) and np.all(variance > 0)
        assert np.all(np.isfinite(law.log_density(X, np.array([0.0, 1e3]))))
        assert np.all(np.diff(law.quantiles(X, np.array([0.1, 0.5, 0.9])), axis=1) > 0)


# --- one linear relation ----------------------------------------------------------------------------------------------

PRIOR = MultivariateNormalKernel(mean=[0.5, -0.3], mean_precision=0.4, dof=5.0, scale=[[1.5, 0.6], [0.6, 2.0]])


def draw_population(rng, kernel=PRIOR, size=None):
    covariance = np.reshape(
        stats.invwishart.rvs(kernel.dof, kernel.scale, size=size or 1, random_state=rng), (-1, 2, 2)
    )
    root = np.linalg.cholesky(covariance / kernel.mean_precision)
    mean = np.asarray(kernel.mean) + np.einsum("tij,tj->ti", root, rng.standard_normal((len(root), 2)))
    return mean, covariance


def linear(mechanism, **params):
    defaults = {"n_chains": 4, "n_warmup": 200, "n_draws": 2000, "random_state": 0}
    return PrivateDPMixtureRegressor(mechanism, kernel=PRIOR, linear=True, **defaults | params)


def coefficients(model):
    parts = model.coef_draws_, model.intercept_draws_[..., None], np.log(model.sigma_draws_)[..., None]
    return np.concatenate(parts, axis=2)


@cache
def line(n, scale):
    """Records near a line and their release by Gaussian noise."""
    rng = np.random.default_rng(n)
    x = rng.normal(0.4, 1.1, n)
    X = np.column_stack([x, 0.8 - 1.3 * x + 0.7 * rng.standard_normal(n)])
    return GaussianMechanism(scale=scale).privatize(X, random_state=1) if scale else X


def fitted(model, Z):
    return model.fit(Z[:, :-1], Z[:, -1])


def weighted_prior(Z, scale, n_draws=400_000):
    """Means of slope, intercept and log σ given a release of few records, by draws from the prior; and their errors."""
    mean, S = draw_population(np.random.default_rng(0), size=n_draws)
    T = S + scale**2 * np.eye(2)
    gap = Z[None] - mean[:, None]
    solved = np.linalg.solve(T[:, None], gap[..., None])[..., 0]
    log_w = -0.5 * np.sum(gap * solved, axis=(1, 2)) - 0.5 * len(Z) * np.linalg.slogdet(T)[1]
    w = np.exp(log_w - log_w.max())
    slope = S[:, 0, 1] / S[:, 0, 0]
    log_sigma = 0.5 * np.log(S[:, 1, 1] - slope * S[:, 0, 1])
    found = np.stack([slope, mean[:, 1] - slope * mean[:, 0], log_sigma])
    at = found @ w / w.sum()
    error = np.sqrt(np.sum((w * (found - at[:, None])) ** 2, axis=1)) / w.sum()
    return at, error


@pytest.mark.parametrize("scale", [0.0, 1.0])
def test_few_records_against_weighted_prior_draws(scale):
    """The likelihood of each record, and draws from the prior: catches a wrong moment's law, prior or Jacobian."""
    Z = line(5, scale)
    draws = coefficients(fitted(linear(GaussianMechanism(scale=scale) if scale else None, n_draws=8000), Z))
    expected, error = weighted_prior(Z, scale)
    own = draws.reshape(-1, 3).std(axis=0) / np.sqrt(0.5 * draws.size / 3)  # ESS is some 0.9 of the draws
    z = stats.norm.isf(ALPHA / 2)
    assert np.all(np.abs(draws.mean(axis=(0, 1)) - expected) < z * np.hypot(own, error))
    twin, _ = weighted_prior(Z, scale + 0.5)
    assert np.any(np.abs(draws.mean(axis=(0, 1)) - twin) > z * np.hypot(own, error))


def test_without_noise_it_is_the_conjugate_posterior():
    """Catches a scatter, a count or a prior that is off: Σ given records is inverse Wishart, μ a Student t."""
    Z = line(40, 0.0)
    model = fitted(linear(None), Z)
    n, m = len(Z), np.asarray(PRIOR.mean)
    gap = Z.mean(axis=0) - m
    scale = np.asarray(PRIOR.scale) + (n - 1) * np.cov(Z.T)
    scale += n * PRIOR.mean_precision / (n + PRIOR.mean_precision) * np.outer(gap, gap)
    mean = (n * Z.mean(axis=0) + PRIOR.mean_precision * m) / (n + PRIOR.mean_precision)
    slope = scale[0, 1] / scale[0, 0]  # E Σ_xy/Σ_xx of an inverse Wishart
    draws = coefficients(model)
    assert_mean_close(draws[..., 0], slope, what="slope")
    with pytest.raises(Disagreement):
        assert_mean_close(draws[..., 0], np.cov(Z.T)[0, 1] / np.cov(Z.T)[0, 0], what="slope without a prior")
    at_mean = draws[..., 1] + draws[..., 0] * mean[0]  # E (μ_y - β μ_x) + E β E μ_x
    assert_mean_close(at_mean, mean[1], what="line at the mean")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("n", "scale"),
    [pytest.param(n, scale, marks=pytest.mark.nightly) for n, scale in ((60, 1.0), (300, 2.0))] + [(2, 1.0)],
)
def test_sums_and_imputed_records_agree(n, scale):
    """Catches a law of the sums that is not that of the records; the twin has noise that is 20 % too small."""
    mechanism, Z = GaussianMechanism(scale=scale), line(n, scale)
    by_sums, by_records = linear(mechanism), linear(mechanism, sampler="imputed", n_draws=4000, thin=3, n_jobs=2)
    one = coefficients(fitted(by_sums, Z))
    assert isinstance(by_sums.sampler_, OneNormal)
    other = coefficients(fitted(by_records, Z))
    assert_means_agree(one, other)
    assert_means_agree(one**2, other**2)
    if n > 2:
        with pytest.raises(Disagreement):
            assert_means_agree(coefficients(fitted(linear(GaussianMechanism(scale=0.8 * scale)), Z)), other)


def test_gradient_is_the_slope_of_the_density():
    """Catches a wrong term of the gradient, with which paths would still be exact and hardly ever be accepted."""
    rng = np.random.default_rng(0)
    for d in (2, 3, 5):
        prior = stats.wishart.rvs(d + 3, np.eye(d), random_state=rng)
        kernel = MultivariateNormalKernel(mean=0.2, mean_precision=0.7, dof=d + 1.5, scale=prior)._lower(n_features=d)
        Z = rng.normal(size=(9, d))
        law, size = np.array([9.0, 0.6]), d * (d + 1) // 2
        seen = _one_normal.Moments(Z.mean(axis=0), 8 * np.cov(Z.T), law, np.zeros(size), np.eye(size))
        x = 0.3 * rng.normal(size=size)
        _, slope = _one_normal.target_and_slope(kernel, seen, x)
        found = optimize.approx_fprime(x, lambda x, seen=seen, k=kernel: _one_normal.target_and_slope(k, seen, x)[0])
        assert slope == pytest.approx(found, rel=1e-4, abs=1e-4)


N_REPLICATES, N_KEPT, THIN = 400, 99, 2


def ranked(mechanism, believed, n, seed, n_replicates=N_REPLICATES, **params):
    """Slopes of populations from the prior, and posterior draws of them given a release."""
    rng = np.random.default_rng(seed)
    truth, draws = np.empty(n_replicates), np.empty((n_replicates, N_KEPT))
    for r in range(n_replicates):
        (mean,), (S,) = draw_population(rng)
        Z = mechanism.privatize(rng.multivariate_normal(mean, S, n), random_state=rng)
        kept = {"n_chains": 1, "n_warmup": 100, "n_draws": N_KEPT, "thin": THIN, "random_state": rng} | params
        draws[r] = fitted(linear(believed, **kept), Z).coef_draws_[0, :, 0]
        truth[r] = S[0, 1] / S[0, 0]
    return truth, draws


@pytest.mark.slow
def test_slopes_are_calibrated():
    """Simulation-based calibration with the noise inside, n = 30; the twin takes the release for the records."""
    mechanism, rng = GaussianMechanism(scale=1.0), np.random.default_rng(2)
    assert_ranks_uniform(*ranked(mechanism, mechanism, 30, 1), rng, what="slope")
    with pytest.raises(Disagreement):
        assert_ranks_uniform(*ranked(mechanism, None, 30, 1, N_REPLICATES // 4), rng, n_bins=5, what="attenuated")


@pytest.mark.slow
@pytest.mark.nightly
def test_slopes_are_calibrated_under_clamped_laplace_noise():
    """The same by imputed records; the twin forgets that records were clamped."""
    params, rng = {"n_warmup": 60, "thin": 8, "sampler": Imputed(n_passes=2)}, np.random.default_rng(2)
    clamped = LaplaceMechanism(scale=0.5, bounds=(-2.0, 2.0))
    assert_ranks_uniform(*ranked(clamped, clamped, 30, 1, **params), rng, what="slope")
    with pytest.raises(Disagreement):
        assert_ranks_uniform(*ranked(clamped, LaplaceMechanism(scale=0.5), 30, 1, **params), rng, what="unclamped")


def test_noise_attenuates_the_naive_slope_and_not_this_one():
    """The point of it: x has as much noise as spread, so that the naive slope is half of the slope."""
    rng = np.random.default_rng(3)
    x = rng.normal(0.0, 1.0, 50_000)
    mechanism = GaussianMechanism(scale=1.0)
    Z = mechanism.privatize(np.column_stack([x, 2.0 * x + rng.standard_normal(x.size)]), random_state=4)
    model = PrivateDPMixtureRegressor(mechanism, linear=True, n_draws=500, random_state=0).fit(Z[:, :1], Z[:, 1])
    assert np.polyfit(*Z.T, 1)[0] == pytest.approx(1.0, abs=0.03)
    (low,), (high,) = model.coef_interval(1 - 1e-3)
    assert low < 2.0 < high < 2.2
    model.set_params(noised_inputs=True)  # what a release says of y is attenuated, and rightly so
    assert np.diff(model.predict([[0.0], [1.0]]))[0] == pytest.approx(1.0, abs=0.03)


CLAMPED = LaplaceMechanism(scale=1.0, bounds=(-4, 4))


@pytest.mark.parametrize(
    ("mechanism", "is_linear"),
    [
        (GaussianMechanism(scale=1.0), True),
        (None, True),
        (CLAMPED, False),
        pytest.param(GaussianMechanism(scale=1.0), False, marks=pytest.mark.nightly),
        pytest.param(CLAMPED, True, marks=pytest.mark.nightly),
    ],
)
def test_other_units_make_the_same_fit(mechanism, is_linear):
    """Data, noise and bounds four times as large: slopes stay, lines and intervals go along, to rounding."""
    Z, larger, units = line(40, 1.0), None, 4.0
    if mechanism is not None:
        larger = clone(mechanism).set_params(scale=units * mechanism.scale)
        larger = larger if mechanism.bounds is None else larger.set_params(bounds=(-16, 16))
    params = {"linear": is_linear, "n_chains": 2, "n_warmup": 40, "n_draws": 40, "random_state": 0}
    one = fitted(PrivateDPMixtureRegressor(mechanism, **params), Z)
    other = fitted(PrivateDPMixtureRegressor(larger, **params), units * Z)
    X, y = np.linspace(-3, 3, 5)[:, None], np.linspace(-2, 2, 5)
    if is_linear:
        assert other.coef_draws_ == pytest.approx(one.coef_draws_, rel=1e-6)
    for noised in (False, True):
        one.noised_inputs = other.noised_inputs = noised
        for a, b in zip(one.predict(X, return_std=True), other.predict(units * X, return_std=True), strict=True):
            assert b == pytest.approx(units * a, rel=1e-6, abs=1e-6)
        assert other.predict_quantiles(units * X, 0.2) == pytest.approx(units * one.predict_quantiles(X, 0.2), rel=1e-6)
        both = other.score_samples(units * X, units * y), one.score_samples(X, y) - np.log(units)
        assert both[0] == pytest.approx(both[1], rel=1e-6, abs=1e-6)


# --- the estimator ----------------------------------------------------------------------------------------------------


def two_bends(n, rng):
    x = np.where(rng.random(n) < 0.4, rng.normal(-2.0, 0.6, n), rng.normal(1.5, 1.0, n))
    return np.column_stack([x, 2.0 * np.sin(1.3 * x) + 0.4 * rng.standard_normal(n)])


@pytest.fixture(scope="module")
def bent():
    """A fit to a curve under Laplace noise."""
    mechanism = LaplaceMechanism(scale=0.3)
    Z = mechanism.privatize(two_bends(400, np.random.default_rng(0)), random_state=1)
    params = {"n_chains": 2, "n_warmup": 300, "n_draws": 300, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return PrivateDPMixtureRegressor(mechanism, **params).fit(Z[:, :1], Z[:, 1])


def test_a_curve_is_found(bent):
    """Catches columns that change places, a law of x for that of y, and bands of something else."""
    X = np.array([[-2.0], [-1.3], [1.2], [2.4]])
    truth = 2.0 * np.sin(1.3 * X[:, 0])
    mean, std = bent.predict(X, return_std=True)
    assert np.all(np.abs(mean - truth) < 0.5)
    curves, (low, high) = bent.curve_draws(X), bent.curve_interval(X, 0.9)
    assert curves.shape == (2, 300, 4)
    assert mean == pytest.approx(curves.mean(axis=(0, 1)))
    assert np.quantile(curves, [0.05, 0.95], axis=(0, 1)) == pytest.approx(np.array([low, high]))
    quantiles = bent.predict_quantiles(X, [0.05, 0.5, 0.95])
    assert np.all((quantiles[:, 0] < truth) & (truth < quantiles[:, 2])) and quantiles.shape == (4, 3)
    assert np.all(quantiles[:, 2] - quantiles[:, 0] < 5.0 * std)
    inside = np.linspace(-12, 12, 4001)
    density = np.exp(bent.score_samples(np.full((4001, 1), 1.2), inside))
    assert np.trapezoid(density, inside) == pytest.approx(1.0, abs=1e-6)
    assert np.trapezoid(density * inside, inside) == pytest.approx(mean[2], abs=1e-5)
    assert bent.score(X, truth) > 0.8
    middle = bent._joint_.moment_draws().mean.mean(axis=(0, 1))[:1]
    assert bent.summary().loc["curve[1]", "mean"] == pytest.approx(bent.predict([middle])[0])  # R-hat is of the curve


def test_predictions_do_not_depend_on_jobs_blocks_or_pickling(bent, monkeypatch):
    """Catches blocks that are put together in another order."""
    X = np.linspace(-3, 3, 150)[:, None]
    one = bent.predict(X, return_std=True)
    again = pickle.loads(pickle.dumps(bent)).set_params(n_jobs=2)
    monkeypatch.setattr("sklearn_dpmix._posterior.response_law.CHUNK", 20_000)
    assert np.array_equal(one, again.predict(X, return_std=True))
    assert np.array_equal(bent.predict_quantiles(X[:9], 0.3), again.predict_quantiles(X[:9], 0.3))


def test_warm_start_goes_on_and_the_first_fit_stays_where_the_next_one_fails(bent):
    """Catches chains that begin anew, and a fit that is half replaced."""
    Z = line(40, 1.0)
    params = {"n_chains": 2, "n_warmup": 20, "random_state": 0, "warm_start": True}
    for is_linear in (True, False):
        model = fitted(PrivateDPMixtureRegressor(linear=is_linear, n_draws=20, **params), Z)
        first = model.curve_draws([[0.0]])
        fitted(model.set_params(n_draws=30), Z)
        assert model.n_iter_ == 50 and np.array_equal(model.curve_draws([[0.0]])[:, :20], first)
        with pytest.raises(ValueError, match="the data changed"):
            fitted(model, Z + 1.0)
        assert np.array_equal(model.curve_draws([[0.0]])[:, :20], first)


def test_checkpoint_of_one_normal_goes_on(tmp_path):
    """Catches a state of the new sampler that is not read back."""
    Z, path = line(40, 1.0), tmp_path / "run.npz"
    params = {"linear": True, "n_chains": 2, "n_warmup": 20, "random_state": 0}
    mechanism = GaussianMechanism(scale=1.0)
    whole = fitted(PrivateDPMixtureRegressor(mechanism, n_draws=60, **params), Z)
    fitted(PrivateDPMixtureRegressor(mechanism, n_draws=30, checkpoint=path, **params), Z)
    again = fitted(PrivateDPMixtureRegressor(mechanism, n_draws=60, checkpoint=path, **params), Z)
    assert np.array_equal(again.coef_draws_, whole.coef_draws_)


def test_a_million_records_are_their_sums():
    """Catches work on single records after the sums are taken: draws depend on the release's moments alone."""
    mechanism, Z = GaussianMechanism(scale=1.0), line(300_000, 1.0)
    model = fitted(linear(mechanism, n_chains=1, n_draws=50), Z)
    mirrored = fitted(linear(mechanism, n_chains=1, n_draws=50), 2.0 * Z.mean(axis=0) - Z)  # of the same two moments
    assert mirrored.coef_draws_ == pytest.approx(model.coef_draws_, rel=1e-6)


BAD = {
    "another length": ({}, (np.zeros((4, 1)), np.zeros(3)), "y must have one response a row of Z, got 3"),
    "no response": ({}, (np.zeros((4, 1)), None), "requires y to be passed"),
    "nan in y": ({}, (np.zeros((2, 1)), [0.0, np.nan]), "Input y contains NaN"),
    "nan in Z": ({}, ([[0.0], [np.nan]], np.zeros(2)), "Input Z contains NaN"),
    "other width": (
        {"mechanism": LaplaceMechanism(epsilon=1.0, bounds=[(0, 1)] * 3)},
        (np.zeros((4, 1)), np.zeros(4)),
        r"covers 3 column\(s\), but Z and y together have 2: give bounds of each predictor",
    ),
    "one column": (
        {"mechanism": GaussianMechanism(rho=1.0, bounds=[(0, 1)])},
        (np.zeros((4, 1)), np.zeros(4)),
        r"covers 1 column\(s\)",
    ),
    "wavelets": (
        {"mechanism": HaarWaveletMechanism(2.0, 0)},
        (np.zeros((4, 2)), np.zeros(4)),
        "does not release each column",
    ),
    "a query": (
        {"mechanism": LaplaceMechanism(scale=1.0, query=RegressionMoments((0, 1), (0, 1), 1))},
        (np.zeros((4, 1)), np.zeros(4)),
        "records one by one",
    ),
    "lengths of noise": (
        {"mechanism": LaplaceMechanism(scale=[1.0, 2.0])},
        (np.zeros((4, 1)), np.zeros(4)),
        "there are 4 records",
    ),
    "kernel": ({"kernel": NormalKernel()}, (np.zeros((4, 1)), np.zeros(4)), "kernel must be 'multivariate_normal'"),
    "mixing": (
        {"linear": True, "mixing": DirichletProcess()},
        (np.zeros((4, 1)), np.zeros(4)),
        "linear=True is one normal.*leave mixing out",
    ),
    "noised inputs of several predictors": (
        {"mechanism": LaplaceMechanism(scale=1.0), "noised_inputs": True},
        (np.zeros((4, 2)), np.zeros(4)),
        r"noised_inputs=True is exact for.*2 predictor\(s\)",
    ),
    "noised inputs of integers": (
        {"mechanism": DiscreteLaplaceMechanism(scale=1.0), "noised_inputs": True},
        (np.zeros((4, 1)), np.zeros(4)),
        "noised_inputs=True is exact for",
    ),
    "noised inputs with noise of their own": (
        {"mechanism": GaussianMechanism(scale=[1.0] * 4), "noised_inputs": True},
        (np.zeros((4, 1)), np.zeros(4)),
        "needs one noise scale for all records",
    ),
    "linear": ({"linear": "yes"}, (np.zeros((4, 1)), np.zeros(4)), "'linear' parameter"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    params, data, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        PrivateDPMixtureRegressor(**params).fit(*data)


def test_bad_predictions_are_named(bent):
    for q in (0.0, 1.0, [0.5, 1.5], "half", []):
        with pytest.raises(ValueError, match="q must be probabilities between 0 and 1"):
            bent.predict_quantiles([[0.0]], q)
    with pytest.raises(ValueError, match=r"y must have shape \(2,\)"):
        bent.score_samples([[0.0], [1.0]], [0.0])
    with pytest.raises(ValueError, match="return_std must be True or False"):
        bent.predict([[0.0]], return_std="yes")
    with pytest.raises(ValueError, match="level must be a probability"):
        bent.curve_interval([[0.0]], 1.0)
    with pytest.raises(ValueError, match="X has 2 features"):
        bent.predict([[0.0, 1.0]])
    with pytest.raises(AttributeError, match="fit with linear=True"):
        bent.coef_interval()


def test_density_of_the_joint_mixture_is_that_of_the_estimator(bent):
    """The parts agree: f(x, y) = f(x) f(y | x) in each draw, with the joint mixture's own density.

    But for the last atom of a draw, which the joint density takes for the base measure: it has a mass below 0.001.
    """
    assert isinstance(bent._joint_, PrivateDPMixture)
    y, x = np.linspace(-6, 6, 2001), -2.0
    joint = bent._joint_.density_draws(np.column_stack([np.full_like(y, x), y]))
    centre = (joint @ y) / joint.sum(axis=2)
    assert centre == pytest.approx(bent.curve_draws([[x]])[..., 0], abs=0.02)


@pytest.mark.parametrize("is_linear", [True, False])
def test_draws_go_to_arviz(bent, is_linear):
    """Catches a tree without the coefficients, or with replicates that are not releases of (x, y)."""
    pytest.importorskip("arviz_base")
    Z = line(40, 1.0)
    model = fitted(linear(GaussianMechanism(scale=1.0), n_chains=2, n_draws=50), Z) if is_linear else bent
    tree = model.to_datatree(posterior_predictive=True, thin=10, random_state=0)
    n, n_draws = (40, 5) if is_linear else (400, 30)
    assert tree["posterior_predictive"]["release"].shape == (2, n_draws, n, 2)
    assert tree["observed_data"]["release"].shape == (n, 2)
    assert ("coef" if is_linear else "n_clusters") in tree["posterior"]
    with pytest.raises(ValueError, match=r"log_likelihood=True\) is not available"):
        model.to_datatree(log_likelihood=True)
