"""Baselines of the exponential families: what they are, and that they are worse in the way that they should be."""

import numpy as np
import pytest
from scipy import stats
from statistical import assert_mean_close

from sklearn_dpmix import NaivePosterior, OnePosteriorSampling, PrivateExpFamilyGibbs
from sklearn_dpmix.estimators._baselines import nearest_statistic
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.metrics import coverage
from sklearn_dpmix.models import Beta, BetaPrior, Exponential, Multinomial, Normal, Poisson

SHORT = {"n_chains": 2, "n_warmup": 10, "n_draws": 4000, "random_state": 0}


def test_naive_posterior_is_the_conjugate_one_at_the_release():
    """Catches a release that is used otherwise than as the statistic."""
    model = NaivePosterior(LaplaceMechanism(scale=3.0), family="binomial", prior=BetaPrior(2, 3), n_records=50, **SHORT)
    model.fit([17.2])
    law = stats.beta(2 + 17, 3 + 33)
    assert_mean_close(model.theta_draws_[..., 0], law.mean())
    assert_mean_close((model.theta_draws_[..., 0] - law.mean()) ** 2, law.var())
    assert model.statistic_draws_.min() == model.statistic_draws_.max() == 17.0


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@pytest.mark.parametrize(
    ("family", "s", "n"),
    [
        (Multinomial(3), [-5.0, 70.3, 20.4], 80),
        (Multinomial(3), [-5.0, -1.0, -2.0], 80),
        (Poisson(), [-3.0], 10),
        (Exponential(), [-3.0], 10),
        (Normal(), [100.0, -7.0], 10),
        (Beta(), [3.0, -0.5], 10),
    ],
    ids=lambda value: str(value),
)
def test_what_no_records_have_is_moved_to_what_some_have(family, s, n):
    """An ordinary fit takes the result, and refuses what it was."""
    with pytest.raises(ValueError, match=r"records|statistic|counts"):
        PrivateExpFamilyGibbs(family=family, n_records=n, **SHORT).fit(np.array(s))
    moved = nearest_statistic(family, np.array(s), n)
    PrivateExpFamilyGibbs(family=family, n_records=n, **SHORT | {"n_draws": 10}).fit(moved)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_naive_intervals_do_not_cover_and_ours_do():
    """The comparison of the paper's Figure 1, at one setting: n = 200, ε = 0.1."""
    rng, draws, truth = np.random.default_rng(0), {NaivePosterior: [], PrivateExpFamilyGibbs: []}, []
    mechanism = LaplaceMechanism(scale=10.0)
    for _ in range(300):
        theta = rng.random()
        truth.append(theta)
        S = rng.binomial(200, theta) + rng.laplace(scale=10.0, size=1)
        for kind, found in draws.items():
            chain = {"n_chains": 1, "n_warmup": 0, "n_draws": 199, "random_state": rng}
            model = kind(mechanism, family="binomial", n_records=200, **chain).fit(S)
            found.append(model.theta_draws_[0, :, 0])
    kinds = PrivateExpFamilyGibbs, NaivePosterior
    ours, naive = (coverage(np.array(draws[kind]), np.array(truth), levels=(0.9,)) for kind in kinds)
    assert abs(ours.coverage[0] - 0.9) < 5 * np.sqrt(0.09 / 300)
    assert naive.coverage[0] < 0.9 - 5 * np.sqrt(0.09 / 300)


def test_one_posterior_sampling_keeps_its_promise():
    """The log density of a draw moves by at most ε/n_draws when a record is replaced, and by at least a third of it."""
    grid, epsilon, n_draws = np.linspace(0.1, 0.9, 2001)[1:-1], 3.0, 2
    power = 0.5 * epsilon / (n_draws * np.log(9.0))
    densities = []
    for ones in (0, 1):
        law = stats.beta(1 + power * ones, 1 + power * (6 - ones))
        densities.append(law.logpdf(grid) - np.log(law.cdf(0.9) - law.cdf(0.1)))
    loss = np.abs(densities[0] - densities[1]).max()
    assert epsilon / n_draws / 3 < loss <= epsilon / n_draws
    model = OnePosteriorSampling(epsilon, n_draws=20_000 * n_draws // 2, random_state=0)
    draws = model.fit(np.array([1, 0, 0, 0, 0, 0])).theta_draws_.ravel()
    power = 0.5 * epsilon / (model.n_draws * np.log(9.0))
    law = stats.beta(1 + power, 1 + 5 * power)
    u = (law.cdf(draws) - law.cdf(0.1)) / (law.cdf(0.9) - law.cdf(0.1))
    assert stats.kstest(u, "uniform").pvalue > 1e-6
    assert model.guarantee_.epsilon == epsilon


@pytest.mark.parametrize(
    ("params", "X", "message"),
    [
        ({}, [0, 1, 2], "one 0 or 1 a record"),
        ({"epsilon": -1.0}, [0, 1], "epsilon must be positive"),
        ({"low": 0.6}, [0, 1], "low must be between 0 and 0.5, got low=0.6"),
        ({"prior": 3}, [0, 1], "prior"),
    ],
)
def test_bad_input_is_named(params, X, message):
    with pytest.raises(ValueError, match=message):
        OnePosteriorSampling(**params).fit(X)
