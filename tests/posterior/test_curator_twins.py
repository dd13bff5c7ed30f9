"""The twins of the regression and of naive Bayes against weighted draws, exact sums and their stored answers."""

import json

import curator_oracle as oracle
import long_twin_runs as long_runs
import naive_bayes_oracle as nb_oracle
import numpy as np
import pytest
import regression_oracle as twins
from curator_oracle import discrete_laplace, laplace
from regression_oracle import Predictors, Residual
from scipy.special import logsumexp
from statistical import Disagreement, assert_mean_close
from weighted_draws import assert_agrees, judge

# --- regression -------------------------------------------------------------------------------------------------------

SMALL = {"n": 3, "x_bounds": (-1, 1.5), "y_bounds": (-2, 2), "noise": "laplace", "scale": 1.0, "coef_scale": 1.0}
SMALL |= {"residual": Residual(None, 6, 5), "predictors": Predictors((0.2,), ((3.0,),), ((0.5,),), 8)}
SMALL_RELEASE = [0.3, 0.8, 1.5, 0.4, 1.2]


def test_regression_moments():
    rng = np.random.default_rng(21)
    x, y = 3 * rng.standard_normal((7, 2)), 3 * rng.standard_normal(7)
    bounds = np.array([[-2.0, 3.0], [0.0, 1.0]])
    u = np.column_stack([np.ones(7), (np.clip(x, *bounds.T) - bounds.mean(axis=1)) / (np.diff(bounds).T / 2)])
    v = np.clip(y, -4, 2) / 3 + 1 / 3
    gram = u.T @ u
    expected = [*(u.T @ v), v @ v, gram[0, 1], gram[0, 2], gram[1, 1], gram[1, 2], gram[2, 2]]
    np.testing.assert_allclose(twins.regression_moments(x, y, bounds, (-4, 2)), expected)
    out = np.zeros(9)
    total = np.zeros(9)
    for row, value in zip(x, y):
        twins._contribution(row, value, np.array([-2.0, 0, -4]), np.array([3.0, 1, 2]), out)
        total += out
    np.testing.assert_allclose(total, expected)


@pytest.fixture(scope="module")
def small_twin():
    return twins.regression_twin(SMALL_RELEASE, **SMALL, rng=np.random.default_rng(22), n_draws=12_000, n_chains=4,
                                 thin=4)  # fmt: skip


def assert_twin_agrees(found, draws):
    kept = found.sd > 1e-9
    errors = [long_runs.summarise(draws[:, :, kept], "")[key] for key in ("mean", "mean_error", "sd", "sd_error")]
    mean, mean_error, sd, sd_error = (np.array(value) for value in errors)
    judge(mean, np.hypot(mean_error, found.mean_error[kept]), found.mean[kept], "mean")
    judge(sd, np.hypot(sd_error, found.sd_error[kept]), found.sd[kept], "standard deviation")


@pytest.mark.slow
def test_regression_twin(small_twin):
    """Data augmentation and weighted draws from the prior agree at n = 3, where all that can be is unknown."""
    found = twins.regression_importance(SMALL_RELEASE, **SMALL, rng=np.random.default_rng(23), size=200_000)
    assert_twin_agrees(found, small_twin[0])
    other = twins.regression_importance(SMALL_RELEASE, **SMALL | {"scale": 1.3}, rng=np.random.default_rng(24),
                                        size=200_000)  # fmt: skip
    with pytest.raises(Disagreement):
        assert_twin_agrees(other, small_twin[0])


@pytest.mark.slow
def test_regression_twin_two_predictors():
    """Two predictors, two releases with Gaussian noise, and a correlated law of the predictors."""
    predictors = Predictors((0.2, 0.5), ((4.0, 1.0), (1.0, 3.0)), ((1.0, 0.3), (0.3, 0.5)), 9.0)
    setting = {"n": 2, "x_bounds": [(-1, 1), (0, 2)], "y_bounds": (-3, 3), "noise": "gaussian", "scale": 1.2}
    setting |= {"coef_scale": 1.5, "residual": Residual(0.7), "predictors": predictors}
    release = [[0.5, 0.8, -0.3, 0.9, 1.0, 0.2, 1.5, 0.1, 1.2], [0.1, 0.2, 0.5, 1.9, -0.3, 0.8, 1.1, 0.6, 0.7]]
    draws, _ = twins.regression_twin(release, **setting, rng=np.random.default_rng(25), n_draws=15_000, thin=4)
    found = twins.regression_importance(release, **setting, rng=np.random.default_rng(26), size=200_000)
    assert found.ess > 5000
    assert_twin_agrees(found, draws)


def test_regression_twin_increments():
    """Adding and taking off contributions makes the decisions that summing over all records makes."""
    release, rngs = long_runs.regression_release(), (np.random.default_rng(27) for _ in range(2))
    one, other = (
        twins.regression_twin(release, **long_runs.REGRESSION, rng=rng, n_draws=150, n_warmup=1, incremental=way)[0]
        for rng, way in zip(rngs, (False, True))
    )
    np.testing.assert_array_equal(one, other)


def stored(name):
    return json.loads((long_runs.HERE / f"data_{name}_twin.json").read_text())


@pytest.mark.slow
def test_stored_regression_twin():
    """The long run at n = 100 against weighted draws, which share none of the chain's code."""
    data = stored("regression")
    np.testing.assert_allclose(data["release"], long_runs.regression_release(), rtol=1e-12)
    proposal = data["mean"], 2 * np.diag(np.square(data["sd"]))
    found = twins.regression_importance(data["release"], **long_runs.REGRESSION, rng=np.random.default_rng(28),
                                        size=100_000, block=10_000, proposal=proposal)  # fmt: skip
    assert found.ess > 300
    judge(data["mean"], np.hypot(data["mean_error"], found.mean_error[:3]), found.mean[:3], "mean")
    judge(data["sd"], np.hypot(data["sd_error"], found.sd_error[:3]), found.sd[:3], "standard deviation")


# --- naive Bayes ------------------------------------------------------------------------------------------------------


def test_naive_bayes_exact():
    """All ordered data sets, one by one, with the probability of each as a product over records in turn."""
    release, alpha, log_noise = [2.3, -0.4, 0.8, 0.6, 1.5, 0.2, -0.3, 1.1], 1.3, laplace(0.9)
    posterior = nb_oracle.naive_bayes_exact(release, 3, 2, (2, 2), alpha, log_noise)
    total, first = -np.inf, -np.inf
    for code in np.ndindex(*[8] * 3):
        classes, features = np.array(code) // 4, np.column_stack([np.array(code) // 2 % 2, np.array(code) % 2])
        log_p = 0.0
        for i in range(3):  # Pólya's urns
            mates = classes[:i] == classes[i]
            log_p += np.log((alpha + mates.sum()) / (2 * alpha + i))
            for k in range(2):
                same = mates & (features[:i, k] == features[i, k])
                log_p += np.log((alpha + same.sum()) / (2 * alpha + mates.sum()))
        log_p += log_noise(release - nb_oracle.tables(classes, features, 2, (2, 2))).sum()
        total = np.logaddexp(total, log_p)
        first = np.logaddexp(first, log_p + np.log((alpha + np.sum(classes == 0)) / (2 * alpha + 3)))
    np.testing.assert_allclose(posterior.log_evidence, total)
    np.testing.assert_allclose(posterior.mean[0], np.exp(first - total))
    np.testing.assert_allclose(posterior.mean[[0, 2, 4, 6, 8]] + posterior.mean[[1, 3, 5, 7, 9]], 1)


def test_naive_bayes_exact_with_weighted_draws():
    rng, release, size = np.random.default_rng(31), [[1, 0, 2, 1, -1, 1, 0, 1, 1, 0]], 60_000  # 2 values, and 3
    theta = np.column_stack([rng.dirichlet([2.0] * k, size) for k in (2, 2, 2, 3, 3)])
    classes = (rng.random((2, size)) > theta[:, 0]).astype(int)
    statistic, rows = np.zeros((size, 10)), np.arange(size)
    for c in classes:
        for first, values, cell in ((2, 2, 0), (6, 3, 4)):
            begin = first + c * values
            below = np.cumsum([theta[rows, begin + v] for v in range(values - 1)], axis=0)
            statistic[rows, cell + c * values + (rng.random(size) > below).sum(axis=0)] += 1
    log_weight = oracle.log_release(release, statistic, discrete_laplace(1.5))
    assert_agrees(nb_oracle.naive_bayes_exact(release, 2, 2, (2, 3), 2.0, discrete_laplace(1.5)), theta, log_weight)


@pytest.mark.slow
def test_naive_bayes_twin():
    release = [2.3, -0.4, 0.8, 0.6, 1.5, 0.2, -0.3, 1.1]
    draws, _ = nb_oracle.naive_bayes_twin(release, 3, 2, (2, 2), 1.3, "laplace", 0.9, np.random.default_rng(32), 12_000,
                                      n_chains=4, thin=2)  # fmt: skip
    right = nb_oracle.naive_bayes_exact(release, 3, 2, (2, 2), 1.3, laplace(0.9))
    assert_mean_close(draws, right.mean)
    assert_mean_close((draws - right.mean) ** 2, right.sd**2)
    assert_mean_close((draws < 0.4) * 1.0, [right.cdf(0.4, k) for k in range(10)])
    with pytest.raises(Disagreement):
        assert_mean_close(draws, nb_oracle.naive_bayes_exact(release, 3, 2, (2, 2), 1.3, laplace(1.1)).mean)


def test_naive_bayes_twin_increments():
    (_, release), rngs = long_runs.naive_bayes_release(), (np.random.default_rng(33) for _ in range(2))
    one, other = (
        nb_oracle.naive_bayes_twin(release, **long_runs.NAIVE_BAYES, rng=rng, n_draws=100, n_warmup=1, incremental=way)[
            0
        ]
        for rng, way in zip(rngs, (False, True))
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_stored_naive_bayes_twin():
    data = stored("naive_bayes")
    np.testing.assert_allclose(data["release"], long_runs.naive_bayes_release()[1], rtol=1e-12)
    draws, _ = nb_oracle.naive_bayes_twin(data["release"], **long_runs.NAIVE_BAYES, rng=np.random.default_rng(34),
                                      n_draws=2500, n_chains=4, n_warmup=500, thin=4, incremental=True)  # fmt: skip
    short = long_runs.summarise(draws, "")
    judge(short["mean"], np.hypot(short["mean_error"], data["mean_error"]), np.array(data["mean"]), "mean")
    assert logsumexp(np.log(data["mean"][:5])) == pytest.approx(0, abs=1e-6)
