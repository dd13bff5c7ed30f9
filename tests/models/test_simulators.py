"""Models whose statistics can be simulated: their derivatives, and that they follow their likelihoods."""

import numpy as np
import pytest
from simulated_models import Plain, judge
from sklearn.base import clone

from sklearn_dpmix.models import BinomialCount, GammaPrior, NormalMoments, PoissonCount, StochasticSIR
from sklearn_dpmix.samplers.simulation import _likelihood_ascent

MODELS = {
    "poisson": (PoissonCount(3, GammaPrior(2.0, 1.0)), [1.7]),
    "binomial": (BinomialCount(12), [0.3]),
    "normal": (NormalMoments(5), [0.4, 2.0]),
}


@pytest.mark.parametrize("name", MODELS)
def test_derivatives_and_maxima(name):
    """Closed forms against finite differences, and the maximum against its neighbours."""
    model, theta = MODELS[name]
    theta = np.array(theta)
    statistics = model.sample_statistic(np.random.default_rng(0), np.tile(theta, (50, 1)))
    numeric = _likelihood_ascent.Likelihood(Plain(model, theta))
    tiled = np.tile(theta, (50, 1))
    assert np.allclose(model.score(statistics, tiled), numeric.score(statistics, theta), rtol=1e-5, atol=1e-5)
    assert np.allclose(model.hessian(statistics, tiled), numeric.hessian(statistics, theta), rtol=1e-3, atol=1e-3)
    weights = np.random.default_rng(1).dirichlet(np.ones(50))
    best = model.maximise(statistics, weights)
    value = weights @ numeric.log_likelihood(statistics, best)
    for step in 1e-3 * np.vstack([np.eye(len(theta)), -np.eye(len(theta))]):
        assert weights @ numeric.log_likelihood(statistics, best + step) < value


def test_the_maximum_of_ones_alone_is_one():
    """Rounding of an average of all ones was 2e-16 above, where the log likelihood is -inf."""
    model, rng = BinomialCount(3), np.random.default_rng(0)
    found = [model.maximise(np.full((50, 1), 3.0), rng.dirichlet(np.ones(50)))[0] for _ in range(100)]
    assert min(found) > 1.0 - 1e-15 and max(found) == 1.0


@pytest.mark.parametrize("name", MODELS)
def test_statistics_follow_the_likelihood(name):
    """The likelihood averages to one under another parameter's law: E_θ p(s | θ')/p(s | θ) = 1; and priors too."""
    model, theta = MODELS[name]
    rng, theta = np.random.default_rng(0), np.array(theta)
    tiled = np.tile(theta, (200_000, 1))
    statistics = model.sample_statistic(rng, tiled)
    for other in (1.05 * theta, 0.95 * theta):
        log_other = model.log_likelihood(statistics, np.tile(other, (len(tiled), 1)))
        ratio = np.exp(log_other - model.log_likelihood(statistics, tiled))
        judge(ratio.mean(), 1.0, ratio.std() / len(ratio) ** 0.5)
    draws = model.sample_prior(rng, 200_000)
    box = np.quantile(draws, [0.2, 0.8], axis=0)
    inside = np.all((draws > box[0]) & (draws < box[1]), axis=1)
    volume = np.prod(box[1] - box[0])
    points = box[0] + rng.random((200_000, len(theta))) * (box[1] - box[0])
    density = volume * np.exp(model.log_prior(points))
    judge(density.mean(), inside.mean(), np.hypot(density.std(), inside.std()) / 200_000**0.5)
    assert np.all(model.log_prior(-np.ones((1, len(theta)))) == -np.inf)


def test_an_epidemic_of_two():
    """One infected person and one susceptible: the chance that the week has no infection is a sum over his days."""
    model, beta, gamma = StochasticSIR(2, 1, 1), 0.5, 0.3
    weekly = model.sample_statistic(np.random.default_rng(0), np.tile([beta, gamma], (200_000, 1)))[:, 0]
    spared, recovers = np.exp(-beta / 2), -np.expm1(-gamma)
    exact_none = sum(spared**day * (1 - recovers) ** (day - 1) * recovers for day in range(1, 8))
    exact_none += spared**7 * (1 - recovers) ** 7
    judge(np.mean(weekly == 0), exact_none, 0.5 / 200_000**0.5)
    assert set(np.unique(weekly)) == {0.0, 1.0}


def test_an_epidemic_is_finite():
    model = StochasticSIR(n_people=50, n_infected=3, n_weeks=10)
    theta = model.sample_prior(np.random.default_rng(0), 500)
    weekly = model.sample_statistic(np.random.default_rng(1), theta)
    assert weekly.shape == (500, 10) and weekly.min() >= 0 and weekly.sum(axis=1).max() <= 47
    assert np.all(np.isfinite(model.log_prior(theta)))
    wrong = (
        ({"n_weeks": 0}, "n_weeks"),
        ({"n_infected": 90}, "more than n_people=50"),
        ({"recovery": 2.0}, "GammaPrior"),
    )
    for params, message in wrong:
        with pytest.raises(ValueError, match=message):
            clone(model).set_params(**params).sample_statistic(np.random.default_rng(0), theta)
