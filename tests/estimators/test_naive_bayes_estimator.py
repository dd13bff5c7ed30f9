"""PrivateNaiveBayesDA as an estimator: attributes, prediction, warm starts, and wrong input."""

import pickle
import re
import warnings

import joblib
import numpy as np
import pytest
from naive_bayes_case import MECHANISM, QUERY, RECORDS, RELEASE, fit
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_dpmix import PrivateNaiveBayesDA
from sklearn_dpmix.estimators.curator import _naive_bayes as estimator_module
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.models import BetaPrior, DirichletPrior
from sklearn_dpmix.queries import BoundedRecords, ClassFeatureCounts

pytestmark = [
    pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*releases noise drawn by NumPy:UserWarning"),
]


@pytest.fixture(scope="module")
def fitted():
    return fit(RELEASE, MECHANISM, 80, n_draws=1000)


@pytest.fixture(params=["tables", "gibbs"])
def either_sampler(request, monkeypatch):
    """Both samplers that the estimator chooses from."""
    if request.param == "gibbs":
        monkeypatch.setattr(estimator_module, "independent_tables", lambda *args: None)


def assert_same_draws(one, other):
    np.testing.assert_array_equal(one.class_prob_draws_, other.class_prob_draws_)
    np.testing.assert_array_equal(one.feature_prob_draws_, other.feature_prob_draws_)


def test_attributes(fitted):
    assert fitted.class_prob_draws_.shape == (1, 1000, 2)
    assert fitted.feature_prob_draws_.shape == (1, 1000, 2, 2, 3)
    np.testing.assert_allclose(fitted.feature_prob_draws_.sum(axis=-1), 1.0)
    np.testing.assert_allclose(fitted.class_prob_draws_.sum(axis=-1), 1.0)
    assert np.all(fitted.feature_prob_draws_[:, :, 0, :, 2] == 0)
    assert fitted.classes_.tolist() == [0, 1] and fitted.n_values_.tolist() == [2, 3]
    np.testing.assert_array_equal(fitted.release_, RELEASE[None])
    assert set(fitted.r_hat_) == {"class_prob[0]", "class_prob[1]", "information[0]", "information[1]"}
    assert fitted.ess_["information[1]"] > 700 and fitted.n_features_in_ == 2
    assert "class_prob[1]" in str(fitted.summary())


def test_layout_of_the_draws():
    """Draws stand where their names say: with hardly any noise they are the records' frequencies."""
    model = fit(QUERY.value(RECORDS), LaplaceMechanism(scale=1e-3, query=QUERY), 80)
    for j in range(2):
        for c in range(2):
            for v in range(QUERY.n_values[j]):
                inside = RECORDS[RECORDS[:, 2] == c, j]
                expected = (1 + np.sum(inside == v)) / (QUERY.n_values[j] + len(inside))
                assert model.feature_prob_draws_[:, :, j, c, v].mean() == pytest.approx(expected, abs=0.02)


def test_prediction_averages_over_draws(fitted):
    """p(class | x) ∝ E[p(class, x | θ)]: not the plug-in, nor the average of p(class | x, θ)."""
    X = np.array([[v, w] for v in range(2) for w in range(3)] * 2)
    joint = np.empty((len(X), 2, 1000))
    for i, x in enumerate(X):
        for c in range(2):
            joint[i, c] = fitted.class_prob_draws_[0, :, c]
            for j in range(2):
                joint[i, c] *= fitted.feature_prob_draws_[0, :, j, c, x[j]]
    expected = joint.mean(axis=2) / joint.mean(axis=2).sum(axis=1, keepdims=True)
    np.testing.assert_allclose(fitted.predict_proba(X), expected, rtol=1e-10)
    np.testing.assert_allclose(np.exp(fitted.predict_log_proba(X)), expected, rtol=1e-10)
    np.testing.assert_array_equal(fitted.predict(X), np.argmax(expected, axis=1))
    others = (joint / joint.sum(axis=1, keepdims=True)).mean(axis=2)
    assert np.max(np.abs(others - expected)) > 1e-3


def test_prediction_in_blocks(fitted, monkeypatch):
    X = np.random.default_rng(12).integers(0, 2, (50, 2))
    whole = fitted.predict_proba(X)
    monkeypatch.setattr(estimator_module, "BLOCK", 1)
    np.testing.assert_allclose(fitted.predict_proba(X), whole, rtol=1e-12)


def test_prediction_where_all_draws_underflow():
    """A value that no draw thinks possible leaves the class probabilities."""
    X, y = [[0], [0], [1]], [0, 1, 1]
    model = PrivateNaiveBayesDA(prior=DirichletPrior(1e-9), n_values=3, n_draws=50, random_state=0).fit(X, y)
    np.testing.assert_allclose(model.predict_proba([[2]])[0], model.class_prob_draws_.mean(axis=(0, 1)))


def test_many_features_do_not_underflow():
    rng = np.random.default_rng(13)
    X, y = rng.integers(0, 20, (60, 600)), rng.integers(0, 2, 60)
    model = PrivateNaiveBayesDA(n_draws=20, n_chains=1, n_warmup=0, random_state=0).fit(X, y)
    assert np.all(np.isfinite(model.predict_log_proba(X))) and model.score(X, y) > 0.9


def test_predictions_from_many_features_are_exact():
    """Catches products over features that overflow to NaN, or fall to 0 in every class and leave the class prior."""
    rng, m = np.random.default_rng(14), 2000
    model = PrivateNaiveBayesDA(n_values=2, n_chains=1, n_warmup=0, n_draws=20, random_state=0).fit([[0], [1]], [0, 1])
    p = np.where(np.arange(m)[:, None] % 2 == [0, 1], 0.9, 0.1)  # of value 1 given each class
    p = np.clip(p + 0.01 * rng.normal(size=(1, 20, m, 2)), 0.0, 1.0)
    model.feature_prob_draws_ = np.stack([1.0 - p, p], axis=-1)  # of many features: monitoring them takes seconds
    model.n_features_in_, model.n_values_ = m, np.full(m, 2)
    typical = (rng.random((2, m)) < p[0, 0].T).astype(int)
    mixed = np.where(rng.random(m) < 0.55, typical[0], 1 - typical[0])
    points = np.vstack([typical, mixed])
    of_value = np.log(model.feature_prob_draws_[0])
    given = [of_value[:, np.arange(m), :, x].sum(axis=0) for x in points]
    joint = logsumexp(np.array(given) + np.log(model.class_prob_draws_[0]), axis=1)
    expected = joint - logsumexp(joint, axis=1, keepdims=True)
    assert np.all(np.ptp(expected, axis=1) > 100.0)  # nats
    np.testing.assert_allclose(model.predict_log_proba(points), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_draws_do_not_depend_on_n_jobs(n_jobs, either_sampler):
    params = {"n_chains": 3, "n_draws": 40, "n_warmup": 10}
    assert_same_draws(fit(RELEASE, MECHANISM, 80, n_jobs=n_jobs, **params), fit(RELEASE, MECHANISM, 80, **params))


@pytest.mark.slow
def test_draws_do_not_depend_on_the_backend(fitted):
    with joblib.parallel_config("loky", n_jobs=2):
        assert_same_draws(fit(RELEASE, MECHANISM, 80, n_draws=1000), fitted)


@pytest.mark.parametrize("known", [False, True])
def test_warm_start(either_sampler, known):
    """More draws are one longer run, bit for bit."""
    X, y, mechanism = (RECORDS[:, :2], RECORDS[:, 2], None) if known else (RELEASE, None, MECHANISM)
    params = {"n_records": None if known else 80, "n_chains": 2, "n_warmup": 7, "thin": 3, "random_state": 0}
    longer = PrivateNaiveBayesDA(mechanism, n_draws=50, **params).fit(X, y)
    model = PrivateNaiveBayesDA(mechanism, n_draws=20, warm_start=True, **params).fit(X, y)
    assert_same_draws(model.set_params(n_draws=50).fit(X, y), longer)
    with pytest.raises(ValueError, match="the data changed"):
        model.fit(X[::-1], y)
    with pytest.raises(ValueError, match="prior changed"):
        model.set_params(prior=DirichletPrior(3.0)).fit(X, y)


def test_records_are_privatised_with_fresh_entropy():
    """Noise never comes from random_state, and nothing of the records is kept."""
    X, y = RECORDS[:, :2], RECORDS[:, 2]
    models = [PrivateNaiveBayesDA(MECHANISM, n_draws=30, random_state=0).fit(X, y) for _ in range(2)]
    assert np.all(models[0].release_ != models[1].release_)
    again = PrivateNaiveBayesDA(MECHANISM, n_records=80, n_draws=30, random_state=0).fit(models[0].release_)
    assert_same_draws(again, models[0])
    kept = pickle.dumps(models[0])
    assert X.tobytes() not in kept and y.tobytes() not in kept and RECORDS[:, :2].astype(float).tobytes() not in kept
    assert models[0].classes_.tolist() == [0, 1] and clone(models[0]).mechanism is not MECHANISM


def test_classes_are_public_or_what_y_held():
    names = np.array(["no", "yes"])
    for model in (PrivateNaiveBayesDA(n_draws=30), PrivateNaiveBayesDA(MECHANISM, classes=["no", "yes"], n_draws=30)):
        assert model.fit(RECORDS[:, :2], names[RECORDS[:, 2]]).classes_.tolist() == ["no", "yes"]
        assert set(model.predict([[0, 0], [1, 2]])) <= {"no", "yes"}
    one_class = PrivateNaiveBayesDA(MECHANISM, n_draws=30).fit(RECORDS[:, :2], np.ones(80, dtype=int))
    assert one_class.classes_.tolist() == [0, 1]  # whichever occur: the release does not say
    model = PrivateNaiveBayesDA(n_draws=30, n_classes=3).fit(RECORDS[:, :2], RECORDS[:, 2])
    assert model.classes_.tolist() == [0, 1, 2]
    with pytest.raises(ValueError, match="3 labels"):
        PrivateNaiveBayesDA(n_classes=2).fit([[0, 0], [0, 1], [1, 2]], ["a", "b", "c"])
    with pytest.raises(ValueError, match=r"labels \[0, 1\] and no others: pass classes="):
        PrivateNaiveBayesDA(MECHANISM).fit(RECORDS[:, :2], names[RECORDS[:, 2]])


# --- bad input --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "S", "message"),
    [
        ({}, RELEASE[:-1], "must have 10 numbers.*requires y to be passed, but the target y is None"),
        ({}, np.full(10, np.nan), "NaN"),
        ({"n_records": None}, RELEASE, "n_records must say"),
        ({"n_records": 0}, RELEASE, "n_records"),
        ({"mechanism": "laplace"}, RELEASE, "mechanism must be an object"),
        ({"mechanism": LaplaceMechanism}, RELEASE, "mechanism must be an object"),
        ({"mechanism": LaplaceMechanism(1.0, bounds=(0, 1))}, RELEASE, "releases of ClassFeatureCounts only"),
        ({"mechanism": LaplaceMechanism(1.0, query=BoundedRecords((0, 1)))}, RELEASE, "ClassFeatureCounts only"),
        ({"mechanism": LaplaceMechanism(query=QUERY)}, RELEASE, "exactly one of"),
        ({"mechanism": DiscreteLaplaceMechanism(1.0, query=QUERY)}, RELEASE, "must hold integers"),
        (
            {"mechanism": LaplaceMechanism(scale=[1.0, 2.0], query=QUERY)},
            [RELEASE, RELEASE],
            "a query makes one release: give one number",
        ),
        ({"prior": BetaPrior(1, 1)}, RELEASE, "prior"),
        ({"prior": DirichletPrior([1.0, 2.0])}, RELEASE, "one number alpha"),
        ({"prior": DirichletPrior(-1.0)}, RELEASE, "alpha"),
        ({"n_classes": 3}, RELEASE, "n_classes=3, but the mechanism's query says 2"),
        ({"n_values": [2, 2]}, RELEASE, "n_values.*query says"),
        ({"n_values": [2]}, RELEASE, "n_values.*query says"),
    ],
)
def test_bad_releases_and_parameters(change, S, message):
    params = {"mechanism": MECHANISM, "n_records": 80, "n_draws": 10, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        PrivateNaiveBayesDA(**params).fit(S)


@pytest.mark.parametrize("mechanism", [None, MECHANISM])
def test_bad_records(mechanism):
    model = PrivateNaiveBayesDA(mechanism, n_draws=10)
    for X, message, of_confidential in (
        ([[0.5, 0]], "got 0.5 in row 0", "integers from 0 to n_values - 1"),
        ([[-1, 0]], "Negative values", "integers from 0 to n_values - 1"),
        ([["a", "b"]], "X holds text", "finite numbers"),
    ):
        with pytest.raises(ValueError, match=message if mechanism is None else of_confidential):
            model.fit(X, [0])
    with pytest.raises(ValueError, match=r"integers from 0 to (1|n_values - 1)"):
        PrivateNaiveBayesDA(mechanism, n_values=[2, 3]).fit([[2, 0], [0, 0]], [0, 1])
    if mechanism is None:
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            model.fit(RECORDS)
        with pytest.raises(ValueError, match="n_values"):
            PrivateNaiveBayesDA(n_values=[2, 3, 4]).fit(RECORDS[:, :2], RECORDS[:, 2])
    else:
        with pytest.raises(ValueError, match="3 features"):
            model.fit(RECORDS, RECORDS[:, 2])
        secret_n = LaplaceMechanism(epsilon=5.0, query=ClassFeatureCounts(2, [2, 3], neighbours="add_remove"))
        with pytest.raises(ValueError, match="number of records is confidential"):
            PrivateNaiveBayesDA(secret_n).fit(RECORDS[:, :2], RECORDS[:, 2])
        with pytest.raises(ValueError, match="n_records=7"):
            PrivateNaiveBayesDA(mechanism, n_records=7).fit(RECORDS[:, :2], RECORDS[:, 2])


@pytest.mark.parametrize(("X", "message"), [([[0, 3]], "0 to 2 in column 1"), ([[0.5, 0]], "integers"),
                                            ([[0]], "1 features"), ([[-1, 0]], "Negative")])  # fmt: skip
def test_prediction_out_of_range(fitted, X, message):
    with pytest.raises(ValueError, match=message):
        fitted.predict(X)


def test_an_impossible_release_is_warned_of():
    """With how improbable it is; and what is fitted is still the posterior."""
    S = RELEASE.copy()
    S[0] = -60.0
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = fit(S, MECHANISM, 80, n_draws=100)
    said = [str(warning.message) for warning in caught]
    assert any(re.search(r"count\(class=0, x1=0\) = -60.*probability only \d", text) for text in said)
    assert np.all(np.isfinite(model.feature_prob_draws_))
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        fit(RELEASE, MECHANISM, 80, n_draws=100)


def test_a_wrong_number_of_records_is_warned_of():
    """Each table adds up to n_records but for the noise."""
    with pytest.warns(UserWarning, match=r"counts of x1 in the release add up to 8\d.*n_records=400.*at most \d"):
        fit(RELEASE, MECHANISM, 400, n_draws=100)


def test_a_failed_fit_keeps_the_last_one():
    model = fit(RELEASE, MECHANISM, 80, n_draws=20)
    before = model.class_prob_draws_
    with pytest.raises(ValueError, match="must have 10 numbers"):
        model.fit(RELEASE[:3])
    assert model.class_prob_draws_ is before


def test_tables_that_disagree_on_the_classes_are_warned_of():
    """Each adds up to n, and has other sizes of the classes; ordinary releases are not warned of."""
    mechanism = LaplaceMechanism(epsilon=1.0, query=ClassFeatureCounts(2, [2, 3]))
    model = PrivateNaiveBayesDA(mechanism, n_records=1000, n_chains=1, n_draws=20, random_state=0)
    table = [500.0, 400.0, 50.0, 50.0]
    with pytest.warns(UserWarning, match="class 0 has 900 records in the counts of x1 and 100 in those of x2; .*right"):
        model.fit([*table, 30.0, 30.0, 40.0, 300.0, 300.0, 300.0])
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.fit([*table, 290.0, 330.0, 290.0, 40.0, 30.0, 20.0])


@pytest.mark.nightly  # the sums take some ten seconds
def test_draws_of_many_records_under_much_noise_are_independent():
    """10⁵ records, which chains of one record at a time went through in each sweep, for minutes, and had not mixed."""
    rng, n = np.random.default_rng(0), 100_000
    classes = rng.choice(3, size=n, p=[0.5, 0.3, 0.2])
    features = [(rng.integers(0, 5, n) + classes * rng.integers(0, 2, n)) % 5 for _ in range(5)]
    mechanism = LaplaceMechanism(0.1, query=ClassFeatureCounts(3, 5, 5))
    S = mechanism.privatize(np.column_stack([*features, classes]), random_state=1)
    model = PrivateNaiveBayesDA(mechanism, n_records=n, n_classes=3, n_values=[5] * 5, n_draws=100, n_warmup=0)
    model.set_params(n_chains=2, random_state=0).fit(S)
    assert all(len(chain.state.records) == 1 for chain in model._run_.chains)  # none is imputed
    assert min(model.ess_.values()) > 100
