"""Quantiles and the standard deviation of a new response of a linear regression."""

import warnings

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import brentq

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix.estimators.curator._new_responses import carried_by_few, quantiles_of

LEVELS = np.array([1e-6, 0.05, 0.5, 0.9, 1.0 - 1e-6])


@pytest.fixture(scope="module")
def model():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(20, 2))
    return PrivateLinearRegressionDA(n_chains=2, n_draws=300, random_state=0).fit(
        X, X @ [1.0, -2.0] + rng.normal(size=20)
    )


def mean_over_draws(law, model, X, y, stretch=1.0):
    """P(Y < y | x) or P(Y > y | x), as ``law`` says."""
    location = model.intercept_draws_[..., None] + model.coef_draws_ @ X.T
    return law(y, location, stretch * model.sigma_draws_[..., None]).mean(axis=(0, 1))


def test_quantiles_have_their_levels(model):
    """And would not with σ that is 1 % larger."""
    X = np.random.default_rng(1).normal(scale=5.0, size=(500, 2))
    found = model.predict_quantiles(X, LEVELS)
    assert found.shape == (500, 5)
    for q, column in zip(LEVELS, found.T, strict=True):
        np.testing.assert_allclose(mean_over_draws(stats.norm.cdf, model, X, column), q, rtol=1e-7)
        np.testing.assert_allclose(mean_over_draws(stats.norm.sf, model, X, column), 1.0 - q, rtol=1e-7)
    assert np.abs(mean_over_draws(stats.norm.cdf, model, X, found[:, 1], 1.01) - LEVELS[1]).max() > 1e-4
    np.testing.assert_array_equal(model.predict_quantiles(X[:3], 0.9), found[:3, [3]])


@pytest.mark.parametrize("tail", [0.3, 1.0, 5.0])
def test_quantiles_of_heavy_tails(tail):
    """Draws of σ over many orders of magnitude, and two lines far from each other."""
    rng = np.random.default_rng(2)
    sigma, location = rng.pareto(tail, 200) + 1e-3, rng.choice([0.0, 1e4], (1, 200)) + rng.normal(size=(1, 200))

    def gap(y, q):
        return stats.norm.cdf(y, location[0], sigma).mean() - q

    far = 10.0 * np.max(np.abs(location) + sigma)
    expected = [brentq(gap, -far, far, args=(q,), xtol=1e-12, rtol=1e-14) for q in LEVELS]
    np.testing.assert_allclose(
        [gap(y, q) for y, q in zip(quantiles_of(location, sigma, LEVELS)[0], LEVELS, strict=True)], 0.0, atol=1e-9
    )
    np.testing.assert_allclose(quantiles_of(location, sigma, LEVELS)[0], expected, rtol=1e-6, atol=1e-6)


def test_quantiles_far_out_and_of_lines_far_apart():
    """Of the smallest levels, and where next to all of the draws' σ are 15 orders larger than the others."""
    location = np.zeros((3, 100))
    for q in (1e-12, 1e-100, 1e-300):
        np.testing.assert_allclose(quantiles_of(location, np.ones(100), np.array([q])), stats.norm.ppf(q), rtol=1e-12)
    sigma = np.where(np.arange(100) < 10, 1.0, 1e15)
    y = quantiles_of(location, sigma, np.array([0.47]))[0, 0]
    assert stats.norm.cdf(y, 0.0, sigma).mean() == pytest.approx(0.47, rel=1e-9)


def test_a_variance_that_does_not_exist_is_doubted(model, monkeypatch):
    """Of a half-Cauchy σ; not where σ has an inverse gamma variance of shape 3, as after seven records."""
    rng = np.random.default_rng(3)
    cauchy, gamma = np.abs(rng.standard_cauchy((2, 2000))), rng.standard_gamma(3.0, (2, 2000)) ** -0.5
    assert carried_by_few(cauchy) > 0.5 and carried_by_few(gamma) is None
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict([[0.0, 0.0]], return_std=True)
    assert carried_by_few(cauchy[:, :400]) is None  # too few to say
    monkeypatch.setattr(model, "sigma_draws_", cauchy)
    with pytest.warns(RuntimeWarning, match=r"draws of sigma make up \d+% of the mean of sigma²"):
        model.predict([[0.0, 0.0]], return_std=True)


def test_levels_are_checked(model):
    for q in (0.0, 1.0, [0.5, np.nan], "a", []):
        with pytest.raises(ValueError, match="q must be probabilities between 0 and 1"):
            model.predict_quantiles([[0.0, 0.0]], q)
    with pytest.raises(ValueError, match="3 features"):
        model.predict_quantiles([[0.0, 0.0, 0.0]], 0.5)
