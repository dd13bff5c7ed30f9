"""Private linear regression: its compiled parts, its promises, and what it refuses."""

import pickle
import time

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone
from statistical import assert_mean_close

from sklearn_dpmix import PrivateLinearRegressionDA, PrivateNaiveBayesDA
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.estimators.curator import _regression_problems
from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism, LaplaceMechanism
from sklearn_dpmix.models import GaussianPredictors, HistogramPredictors, RegressionPrior
from sklearn_dpmix.models._regression_model import ClampedRegression
from sklearn_dpmix.queries import BoundedRecords, NoisyCount, RegressionMoments
from sklearn_dpmix.samplers.augmentation._augmented_state import MOVES_ACCEPTED, MOVES_PROPOSED

pytestmark = [
    pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*releases noise drawn by NumPy:UserWarning"),
]


def test_compiled_contributions_are_the_querys():
    """Catches another order of the statistics, or another map to [-1, 1], than the one that is released."""
    rng = np.random.default_rng(0)
    for p in (1, 2, 4):
        x_bounds = np.sort(rng.normal(size=(p, 2)), axis=1)
        query = RegressionMoments(x_bounds, (-1.0, 2.0), p)
        bounds = np.column_stack(query.record_bounds())
        model = ClampedRegression(bounds, RegressionPrior().scaled(bounds), GaussianPredictors())
        value, records = model._lower(), rng.normal(scale=2.0, size=(50, p + 1))
        found = np.zeros((50, query.n_statistics))
        for i in range(50):
            value.contribute(records, i, found, i)
        np.testing.assert_allclose(found, query.contributions(records), atol=1e-12)
        low, high = query.value_range(50)
        assert np.all((low <= found.sum(axis=0)) & (found.sum(axis=0) <= high))
        assert np.all(found >= low / 50) and np.all(found <= high / 50)


class ResidualTooSmall(ClampedRegression):
    """The standardised residual is half of what it is: the records are not where their moments are."""

    @compiled
    def standardise(self, theta, records, i, row):
        p = self.p
        e = records[i, p] - theta[0]
        for j in range(p):
            e -= theta[1 + j] * records[i, j]
        records[row, p] = 0.5 * e / theta[p + 1]
        self.x.standardise(theta, records, i, row)


def accepted_and_proposed_walks():
    """Of the sweeps after the warm-up, where nothing is clamped."""
    rng = np.random.default_rng(1)
    x = rng.normal(size=(50, 3))
    y = 0.5 + x @ [0.2, -0.3, 0.1] + 0.5 * rng.normal(size=50)
    mechanism = LaplaceMechanism(scale=0.01, query=RegressionMoments((-60, 60), (-60, 60), 3))
    S = mechanism.privatize(np.column_stack([x, y]), random_state=2)
    prior = RegressionPrior(1.0, sigma_shape=3.0, sigma_scale=1.0)
    parts = {"prior": prior, "x_model": GaussianPredictors(), "random_state": 0}
    model = PrivateLinearRegressionDA(mechanism, n_records=50, n_draws=1, **parts).fit(S)

    def accepted_and_proposed():
        return np.array([chain.state.floats[[MOVES_ACCEPTED, MOVES_PROPOSED]] for chain in model._run_.chains])

    warmed_up = accepted_and_proposed()
    model.set_params(warm_start=True, n_draws=200).fit(S)
    return accepted_and_proposed() - warmed_up


@pytest.mark.nightly
def test_nothing_is_rejected_where_nothing_is_clamped(monkeypatch):
    """Without clamping the surrogate is the posterior; catches moments that are not the query's value.

    The broken twin has some paths rejected.
    """
    np.testing.assert_array_equal(accepted_and_proposed_walks(), 2 * 199.0)
    monkeypatch.setattr(_regression_problems, "ClampedRegression", ResidualTooSmall)
    accepted, proposed = accepted_and_proposed_walks().T
    assert np.all(accepted < 0.95 * proposed)


def test_precise_moments_give_the_regression_of_the_records():
    """With next to no noise the posterior is that of the records themselves."""
    rng = np.random.default_rng(4)
    x = rng.normal(size=(400, 2))
    y = 1.0 + x @ [2.0, -1.0] + rng.normal(size=400)
    mechanism = LaplaceMechanism(scale=0.02, query=RegressionMoments((-5, 5), (-12, 12), 2))
    S = mechanism.privatize(np.column_stack([x, y]), random_state=2)
    private = PrivateLinearRegressionDA(mechanism, x_model=GaussianPredictors(), n_records=400, random_state=0).fit(S)
    public = PrivateLinearRegressionDA(random_state=0).fit(x, y)
    np.testing.assert_allclose(private.coef_, public.coef_, atol=0.05)
    np.testing.assert_allclose(private.intercept_, public.intercept_, atol=0.05)
    np.testing.assert_allclose(private.predict(x, return_std=True)[1], public.predict(x, return_std=True)[1], atol=0.1)


def test_known_records_have_the_conjugate_posterior():
    """With σ known: N((X'X/σ² + I/s²)⁻¹ X'y/σ², ...)."""
    rng = np.random.default_rng(3)
    x, y = rng.normal(size=(7, 2)), rng.normal(size=7)
    prior = RegressionPrior(coef_scale=1.5, sigma=0.7)
    model = PrivateLinearRegressionDA(prior=prior, n_warmup=10, n_draws=10_000, random_state=0).fit(x, y)
    design = np.column_stack([np.ones(7), x])
    covariance = np.linalg.inv(design.T @ design / 0.49 + np.eye(3) / 2.25)
    draws = np.concatenate([model.intercept_draws_[..., None], model.coef_draws_], axis=-1)
    assert_mean_close(draws, covariance @ design.T @ y / 0.49)
    assert_mean_close((draws - draws.mean(axis=(0, 1))) ** 2, np.diag(covariance))
    point, std = model.predict(x[:1], return_std=True)
    np.testing.assert_allclose(std, np.sqrt(design[0] @ covariance @ design[0] + 0.49), rtol=0.02)
    np.testing.assert_allclose(model.score_samples(x[:1], y[:1]), stats.norm.logpdf(y[0], point, std), atol=0.02)


def test_scores_of_many_rows():
    """The mean of normal densities over draws, also where none is above 0; catches work on one row at a time."""
    rng = np.random.default_rng(5)
    x, y = rng.normal(size=(3000, 2)), rng.normal(size=3000)
    model = PrivateLinearRegressionDA(n_chains=2, n_warmup=10, n_draws=500, random_state=0).fit(x[:50], y[:50])
    coef, intercept = model.coef_draws_.reshape(-1, 2), model.intercept_draws_.ravel()
    sigma = model.sigma_draws_.ravel()
    y[1:3] = 1e4, -1e200
    started = time.process_time()
    expected = []
    for row, value in zip(x, y, strict=True):
        with np.errstate(over="ignore"):
            expected.append(logsumexp(stats.norm.logpdf(value, intercept + coef @ row, sigma)) - np.log(1000))
    one_by_one = time.process_time() - started
    started = time.process_time()
    np.testing.assert_allclose(model.score_samples(x, y), expected, rtol=1e-12)
    assert expected[2] == -np.inf and time.process_time() - started < 0.2 * one_by_one


QUERY = RegressionMoments((-3, 3), (-5, 5), 1)
MECHANISM = LaplaceMechanism(epsilon=5.0, query=QUERY)
SHORT = {"n_chains": 2, "n_warmup": 50, "n_draws": 40, "random_state": 0, "x_model": GaussianPredictors()}


def data(n=30):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(n, 1))
    return x, 1.0 - x[:, 0] + rng.normal(size=n)


def test_draws_depend_on_the_seed_only_and_go_on():
    S = MECHANISM.privatize(np.column_stack(data()), random_state=0)
    reference = PrivateLinearRegressionDA(MECHANISM, n_records=30, **SHORT).fit(S)
    threads = PrivateLinearRegressionDA(MECHANISM, n_records=30, n_jobs=2, **SHORT).fit(S)
    np.testing.assert_array_equal(reference.coef_draws_, threads.coef_draws_)
    warm = PrivateLinearRegressionDA(MECHANISM, n_records=30, **SHORT | {"n_draws": 11, "warm_start": True}).fit(S)
    warm.set_params(n_draws=40).fit(S)
    np.testing.assert_array_equal(reference.coef_draws_, warm.coef_draws_)
    assert repr(clone(reference)) == repr(reference)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(reference)).coef_, reference.coef_)


def test_raw_records_are_privatised_with_fresh_noise_and_not_kept():
    """Catches noise drawn from random_state, and a pickle with a confidential record in it."""
    x, y = data()
    one = PrivateLinearRegressionDA(MECHANISM, **SHORT).fit(x, y)
    other = PrivateLinearRegressionDA(MECHANISM, **SHORT).fit(x, y)
    assert np.all(one.release_ != other.release_)
    assert one.release_.shape == (1, 5) and one.n_features_in_ == 1
    blob = pickle.dumps(one)
    for value in (*x[:, 0], *y):
        assert np.float64(value).tobytes() not in blob
    again = PrivateLinearRegressionDA(MECHANISM, n_records=30, **SHORT).fit(one.release_)
    np.testing.assert_array_equal(again.coef_draws_, one.coef_draws_)


@pytest.mark.parametrize(
    ("params", "release", "message"),
    [
        ({}, np.zeros(4), r"5 numbers.*requires y to be passed, but the target y is None"),
        ({}, [0.0, np.nan, 0.0, 0.0, 0.0], "NaN"),
        ({"n_records": None}, np.zeros(5), "n_records must say how many"),
        ({"n_records": 0}, np.zeros(5), "n_records"),
        ({"prior": RegressionPrior(coef_scale=-1.0)}, np.zeros(5), "coef_scale must be a positive number, got"),
        ({"prior": "flat"}, np.zeros(5), "prior"),
        ({"x_model": GaussianPredictors(mean=[0.0, 1.0])}, np.zeros(5), r"mean must be finite and of shape \(1,\)"),
        ({"x_model": GaussianPredictors(covariance=[[-1.0]])}, np.zeros(5), "positive definite"),
        (
            {"mechanism": LaplaceMechanism(scale=[1.0, 2.0], query=QUERY)},
            np.zeros((2, 5)),
            "a query makes one release: give one number",
        ),
        (
            {"mechanism": DiscreteLaplaceMechanism(scale=1.0, query=QUERY)},
            np.zeros(5),
            "a moment of a regression is not an integer: use LaplaceMechanism",
        ),
        ({"mechanism": LaplaceMechanism(scale=1.0)}, np.zeros(5), "understands releases of RegressionMoments only"),
        (
            {"mechanism": LaplaceMechanism(epsilon=1.0, query=BoundedRecords((0, 1)))},
            np.zeros(5),
            "RegressionMoments only",
        ),
    ],
)
def test_bad_input_is_named(params, release, message):
    model = PrivateLinearRegressionDA(**{"mechanism": MECHANISM, "n_records": 30, **SHORT, **params})
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(release)
    assert not hasattr(model, "coef_")


@pytest.mark.parametrize("cls", [PrivateLinearRegressionDA, PrivateNaiveBayesDA])
def test_a_number_that_is_not_the_records_is_refused_without_a_mechanism(cls):
    with pytest.raises(ValueError, match="n_records=5, but there are 20 records: leave n_records out"):
        cls(n_records=5).fit(np.arange(20)[:, None] % 3, np.arange(20) % 2)


def test_raw_records_must_fit_the_query():
    x, y = data()
    with pytest.raises(ValueError, match="n_features=1"):
        PrivateLinearRegressionDA(MECHANISM, **SHORT).fit(np.column_stack([x, x]), y)
    with pytest.raises(ValueError, match="n_records=7"):
        PrivateLinearRegressionDA(MECHANISM, n_records=7, **SHORT).fit(x, y)


def test_a_confidential_number_of_records_is_released_apart():
    x, y = data()
    query = RegressionMoments((-3, 3), (-5, 5), 1, neighbours="add_remove")
    model = PrivateLinearRegressionDA(LaplaceMechanism(epsilon=5.0, query=query), **SHORT)
    with pytest.raises(ValueError, match="NoisyCount"):
        model.fit(x, y)
    with pytest.raises(ValueError, match="value of NoisyCount must be a finite number, got value='many'"):
        model.set_params(n_records=NoisyCount("many", MECHANISM)).fit(np.zeros(5))
    with pytest.raises(TypeError, match="mechanism of NoisyCount must be an object that adds noise"):
        model.set_params(n_records=NoisyCount(30, None)).fit(np.zeros(5))


@pytest.mark.parametrize("x_model", [GaussianPredictors(), HistogramPredictors()])
def test_a_release_that_contradicts_a_model_of_the_predictors_is_doubted(x_model):
    """Σ xy beyond what Σ x² and Σ y² allow, each within the bounds by itself."""
    mechanism = LaplaceMechanism(scale=1.0, query=QUERY)
    with pytest.warns(UserWarning, match=r"contradicts the model: sum\(x1\*y\) = 25, .* what x_model says"):
        PrivateLinearRegressionDA(mechanism, n_records=30, **SHORT | {"x_model": x_model}).fit(
            [0.0, 25.0, 5.0, 0.0, 5.0]
        )


def test_an_impossible_release_is_doubted():
    """Σ y² of 30 records cannot be -40 with noise of scale 1."""
    mechanism = LaplaceMechanism(scale=1.0, query=QUERY)
    with pytest.warns(UserWarning, match=r"sum\(y\*y\) = -40.*probability only 2e-18"):
        PrivateLinearRegressionDA(mechanism, n_records=30, **SHORT).fit([0.0, 0.0, -40.0, 0.0, 5.0])


@pytest.mark.parametrize(
    ("value", "words"), [(1j, "y holds complex"), ({}, "y holds dict"), (pd.NA, "y holds missing values")]
)
def test_responses_that_are_no_numbers_are_named(value, words):
    with pytest.raises(TypeError, match=f"{words}: pass real numbers"):
        PrivateLinearRegressionDA().fit([[0.0], [1.0], [2.0]], np.array([1.0, value, 2.0], dtype=object))
