"""PrivateDPMixtureRegressor(linear=True): slope, intercept and spread of one relation, from sums or from records."""

from functools import cache

import numpy as np
import pytest
from dp_regressor_case import PRIOR, fitted, line, linear
from scipy import optimize, stats
from statistical import ALPHA, Disagreement, assert_mean_close, assert_means_agree, assert_ranks_uniform

from sklearn_dpmix import PrivateDPMixtureRegressor
from sklearn_dpmix.kernels import MultivariateNormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.samplers import Imputed, MixingMeasure
from sklearn_dpmix.samplers.mixture import _one_normal
from sklearn_dpmix.samplers.mixture._one_normal import OneNormal

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")


def draw_population(rng, kernel=PRIOR, size=None):
    covariance = np.reshape(
        stats.invwishart.rvs(kernel.dof, kernel.scale, size=size or 1, random_state=rng), (-1, 2, 2)
    )
    root = np.linalg.cholesky(covariance / kernel.mean_precision)
    mean = np.asarray(kernel.mean) + np.einsum("tij,tj->ti", root, rng.standard_normal((len(root), 2)))
    return mean, covariance


def coefficients(model):
    parts = model.coef_draws_, model.intercept_draws_[..., None], np.log(model.sigma_draws_)[..., None]
    return np.concatenate(parts, axis=2)


@cache
def populations():
    return draw_population(np.random.default_rng(0), size=400_000)


def weighted_prior(Z, scale):
    """Means of slope, intercept and log σ given a release of few records, by draws from the prior; and their errors."""
    mean, S = populations()
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
    theta = by_sums._joint_._draws_.flat.theta[::2]  # of the one normal, before the atom for what is left: nothing
    density = np.exp(-0.5 * ((0.3 - theta[:, 0]) / theta[:, 1]) ** 2) / (np.sqrt(2.0 * np.pi) * theta[:, 1])
    np.testing.assert_allclose(by_sums._joint_.density_draws([[0.3]], feature=0).ravel(), density, rtol=1e-9)
    other = coefficients(fitted(by_records, Z))
    assert_means_agree(one, other)
    assert_means_agree(one**2, other**2)
    if n > 2:
        with pytest.raises(Disagreement):
            assert_means_agree(coefficients(fitted(linear(GaussianMechanism(scale=0.8 * scale)), Z)), other)


@pytest.mark.slow
def test_default_and_imputed_records_agree_under_clamped_laplace_noise():
    """Catches a walk over one atom with another law than the records'; the twin forgets that records were clamped."""
    mechanism = LaplaceMechanism(scale=0.3, bounds=(-0.5, 1.5))
    Z = mechanism.privatize(line(20, 0.0), random_state=5)
    by_default, by_records = linear(mechanism, thin=3), linear(mechanism, sampler="imputed", thin=3)
    one, other = coefficients(fitted(by_default, Z)), coefficients(fitted(by_records, Z))
    assert isinstance(by_default.sampler_, MixingMeasure)
    assert_means_agree(one, other)
    assert_means_agree(one**2, other**2)
    with pytest.raises(Disagreement):
        assert_means_agree(coefficients(fitted(linear(LaplaceMechanism(scale=0.3)), Z)), other)


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
