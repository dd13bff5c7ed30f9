"""Fits on confidential records: secure noise, and nothing but the release in attributes, warnings and error texts."""

import warnings

import numpy as np
import pytest
from joblib import hash as joblib_hash
from scipy.stats import beta
from sklearn.base import clone

from sklearn_dpmix import (
    AutoDraws,
    DPLogisticRegressionMCMC,
    DPPenaltyMCMC,
    OnePosteriorSampling,
    PrivateLinearRegressionDA,
    PrivateNaiveBayesDA,
)
from sklearn_dpmix.estimators._chain_estimator import ChainEstimator
from sklearn_dpmix.estimators.curator._regression_problems import GivenDesign, ImputedRecords
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import Banana, GaussianPredictors, LinearGaussianLikelihood
from sklearn_dpmix.queries import ClassFeatureCounts, RegressionMoments

SHORT = {"n_chains": 1, "n_warmup": 0, "n_draws": 1, "random_state": 0}
ALPHA = 1e-6
N_FEATURES, N_VALUES = 5, 100
MOMENTS = LaplaceMechanism(scale=1.0, query=RegressionMoments((0, 1), (0, 1), n_features=N_FEATURES))
TABLES = LaplaceMechanism(scale=1.0, query=ClassFeatureCounts(2, [N_VALUES]))

pytestmark = [
    pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:[0-9]* iterations of each chain are too few:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*releases noise drawn by NumPy:UserWarning"),
]


# --- floating-point noise ---------------------------------------------------------------------------------------------


def released_moments(secure):
    """Releases of entries that are 0 and that are 1 before noise: of one record in the middle, and in the corner."""
    model = PrivateLinearRegressionDA(MOMENTS, x_model=GaussianPredictors(), secure=secure, **SHORT)
    return [
        np.concatenate([model.fit(np.full((1, N_FEATURES), x), [x]).release_.ravel() for _ in range(30)])
        for x in (0.5, 1.0)
    ]


def released_counts(secure):
    """Releases of counts that are 0 and that are 1: class 0 has each value once, class 1 none."""
    model = PrivateNaiveBayesDA(TABLES, secure=secure, **SHORT)
    X, y = np.arange(N_VALUES)[:, None], np.zeros(N_VALUES, dtype=int)
    S = np.array([model.fit(X, y).release_.ravel() for _ in range(8)])
    return S[:, N_VALUES:].ravel(), S[:, :N_VALUES].ravel()


def has_holes(z):
    """z in (0, 1/2) that is no multiple of 2^-53: 1 and a double between -1 and -1/2 never add up to such a number."""
    return (z > 0) & (z < 0.5) & (z * 2.0**53 != np.floor(z * 2.0**53))


def log_ratio_at_least(at_zero, at_one):
    """Lower bound, at level 1 - 2 ALPHA, of the log ratio of the event's probabilities (Clopper and Pearson)."""
    hits, others = np.sum(has_holes(at_zero)), np.sum(has_holes(at_one))
    low = beta.ppf(ALPHA, hits, len(at_zero) - hits + 1)
    return np.log(low / beta.isf(ALPHA, others + 1, len(at_one) - others)), others


@pytest.mark.parametrize("released", [released_moments, released_counts])
def test_secure_noise_has_no_holes(released):
    """Noise of scale 1 on what moves by 1 has log ratios of 1 at most: NumPy's has more, which the event shows."""
    pytest.importorskip("opendp")
    found, others = log_ratio_at_least(*released(secure=False))
    assert found > 1.0 and others == 0
    found, others = log_ratio_at_least(*released(secure=True))
    assert found < 1.0 and others > 0


def in_words(model, X, y):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, y)
    return [str(w.message) for w in caught]


@pytest.mark.parametrize(
    ("cls", "mechanism", "X", "y"),
    [(PrivateLinearRegressionDA, MOMENTS, np.full((N_FEATURES + 2, N_FEATURES), 0.5), np.full(N_FEATURES + 2, 0.1)),
     (PrivateNaiveBayesDA, TABLES, [[0], [1], [2]], [0, 1, 0])],
)  # fmt: skip
def test_noise_that_is_not_secure_is_warned_of_once(cls, mechanism, X, y, monkeypatch):
    def words(model, *data):
        return [text for text in in_words(model, *data) if "NumPy" in text]

    said = words(cls(mechanism, **SHORT), X, y)
    assert len(said) == 1 and "Pass secure=True" in said[0] and "mechanism.privatize(..., secure=True)" in said[0]
    with warnings.catch_warnings(), monkeypatch.context() as patch:
        warnings.simplefilter("error", UserWarning)
        patch.setattr(LaplaceMechanism, "privatize", lambda *args, **kwargs: pytest.fail("released before it warned"))
        with pytest.raises(UserWarning, match="NumPy"):
            cls(mechanism, **SHORT).fit(X, y)
    S = mechanism.privatize(np.column_stack([X, y]), random_state=0)
    assert not words(cls(mechanism, n_records=len(X), **SHORT), S, None) and not words(cls(**SHORT), X, y)
    with pytest.raises(ValueError, match="secure"):
        cls(mechanism, secure="yes", **SHORT).fit(X, y)
    pytest.importorskip("opendp")
    assert not words(cls(mechanism, secure=True, **SHORT), X, y)


# --- what is kept and said is a function of the release ---------------------------------------------------------------


def state_after(monkeypatch, model, X, y, release):
    """Attributes, as a hash by name, and warnings, of a fit that releases ``release`` whatever it is given."""
    with monkeypatch.context() as patch:
        patch.setattr(type(model.mechanism), "privatize", lambda self, X, **how: release.copy())
        words = in_words(model, X, y)
    return {name: joblib_hash(value) for name, value in vars(model).items()}, words


def neighbours_of_tables(rng):
    """Classes 0 and 1, but for one record of the second data set, which has the third."""
    X, y = rng.integers(0, 4, (49, 2)), np.zeros(49, dtype=int)
    other_X, other_y = X.copy(), y.copy()
    other_X[-1], other_y[-1] = rng.integers(0, 4, 2), rng.integers(1, 3)
    return X, y, other_X, other_y


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("names", [None, ["left", "right", "swing"], [-7, 0, 3], [0.5, 1.5, 9.0]])
def test_bayes_keeps_a_function_of_the_release(monkeypatch, seed, names):
    """Catches classes that are read off the labels: whichever record has a label, what is kept is the same."""
    mechanism = LaplaceMechanism(epsilon=5.0, query=ClassFeatureCounts(3, [4, 4]))
    X, y, other_X, other_y = neighbours_of_tables(np.random.default_rng(seed))
    release = mechanism.privatize(np.column_stack([X, y]), random_state=seed)
    labels = np.arange(3) if names is None else np.array(names)
    states = []
    for data, codes in ((X, y), (other_X, other_y)):
        model = PrivateNaiveBayesDA(mechanism, classes=names, **SHORT)
        states.append(state_after(monkeypatch, model, data, labels[codes], release))
        np.testing.assert_array_equal(model.classes_, labels)
    assert states[0] == states[1]


def test_many_labels_are_not_warned_of(monkeypatch):
    """scikit-learn's check of labels warns where most of them occur once: that would be said of confidential ones."""
    mechanism = LaplaceMechanism(epsilon=5.0, query=ClassFeatureCounts(30, [2]))
    X, release = np.zeros((30, 1)), np.ones(60)
    models = [PrivateNaiveBayesDA(mechanism, **SHORT) for _ in range(2)]
    one, other = np.arange(30), np.arange(30) % 2
    assert state_after(monkeypatch, models[0], X, one, release) == state_after(
        monkeypatch, models[1], X, other, release
    )


@pytest.mark.parametrize("seed", range(3))
def test_regression_keeps_a_function_of_the_release(monkeypatch, seed):
    rng = np.random.default_rng(seed)
    X, y = rng.random((20, N_FEATURES)), rng.random(20)
    other_X, other_y = X.copy(), y.copy()
    other_X[3], other_y[3] = 1e9, -1e9  # clamped
    release = MOMENTS.privatize(np.column_stack([X, y]), random_state=seed)
    models = [PrivateLinearRegressionDA(MOMENTS, **SHORT) for _ in range(2)]
    assert state_after(monkeypatch, models[0], X, y, release) == state_after(
        monkeypatch, models[1], other_X, other_y, release
    )


# --- errors -----------------------------------------------------------------------------------------------------------

SECRETS = 3.14159, 271.828
BUDGET = GaussianMechanism(epsilon=1.0, delta=1e-6)
COUNTS, PRODUCTS = ClassFeatureCounts(2, [2, 2]), RegressionMoments((0, 1), (0, 1), 2)
NOT_NUMBERS = {"text", "text in a list", "missing", "complex", "rows of two lengths", "too large for a float"}
LABELS = {"label", "label as text", "label among texts", "labels in two axes"}
TEXTS = {"label as text", "label among texts", "labels in two axes"}
BUDGETED = {"clip_bound": 1.0, "n_iter": 4, "n_chains": 1}
# estimator, whether it takes y, and what it must refuse
NORMAL = SHORT | {"x_model": GaussianPredictors()}
FITS = {
    "bayes": (PrivateNaiveBayesDA(LaplaceMechanism(1.0, query=COUNTS), **SHORT), True,
              NOT_NUMBERS | LABELS | {"value", "negative", "one axis"}),
    "regression": (PrivateLinearRegressionDA(LaplaceMechanism(1.0, query=PRODUCTS), **NORMAL), True,
                   NOT_NUMBERS | TEXTS | {"one axis"}),
    "logistic": (DPLogisticRegressionMCMC(BUDGET, data_norm=1.0, sampler=DPPenaltyMCMC(n_iter=4, n_chains=1)), True,
                 NOT_NUMBERS | LABELS | {"one axis"}),
    "penalty": (DPPenaltyMCMC(BUDGET, model=Banana(), **BUDGETED), False, NOT_NUMBERS | {"one axis"}),
    "penalty, with y": (DPPenaltyMCMC(BUDGET, model=LinearGaussianLikelihood(2), **BUDGETED), True,
                        NOT_NUMBERS | TEXTS | {"one axis"}),
    "one posterior": (OnePosteriorSampling(), False, NOT_NUMBERS | {"value", "negative", "fraction"}),
}  # fmt: skip


def wrong_data(secret):
    """Records of which one is not what it should be, in its first and in its last place."""
    for place in (0, -1):
        X, y = np.zeros((4, 2)), np.zeros(4)
        y[1] = 1.0
        value = X.copy()
        value[place, place] = secret
        yield "value", value, y
        yield "negative", -value, y
        yield "fraction", value / 1000.0, y
        text = value.astype(object)
        text[place, place] = f"{secret} mg"
        yield "text", text, y
        yield "text in a list", text.tolist(), y
        missing = X.copy()
        missing[place, 0] = np.nan
        missing[place, 1] = secret
        yield "missing", missing, y
        yield "one axis", value[:, 0], y
        yield "complex", value + 1j * secret, y
        label = y.copy()
        label[place] = secret
        yield "label", X, label
        text = label.astype(object)
        text[place] = f"{secret} mg"
        yield "label as text", X, text
        yield "label among texts", X, [f"{secret} mg", "no", "no", "yes"]
        yield "labels in two axes", X, [[secret, 1.0]] * 4
        yield "rows of two lengths", [[secret], [0.0, 1.0], [0.0, 1.0], [0.0, 1.0]], y
        yield "too large for a float", [[10 ** (400 + int(secret)), 0], [0, 0], [0, 0], [0, 0]], y


@pytest.mark.parametrize("name", FITS)
def test_errors_quote_nothing_confidential(name, monkeypatch):
    """Whatever is wrong with whichever record: the same words, and none of them from the records."""
    for method in ("_advance_chains", "_warn_about_chains"):  # what is wrong is said before
        monkeypatch.setattr(ChainEstimator, method, lambda *args: None)
    for problem in (GivenDesign, ImputedRecords):
        monkeypatch.setattr(problem, "warn_of_misfit", lambda *args: None)
    estimator, takes_y, must_refuse = FITS[name]
    good = np.array([[0.0], [1.0]]) if name == "one posterior" else np.zeros((4, 2))
    clone(estimator).fit(good, [0, 1, 0, 1] if takes_y else None)
    by_kind = {}
    for secret in SECRETS:
        for kind, X, y in wrong_data(secret):
            if name == "one posterior" and isinstance(X, np.ndarray):
                X = X.reshape(-1, 1)
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                try:
                    clone(estimator).fit(X, y if takes_y else None)
                except (ValueError, TypeError) as error:
                    assert error.__cause__ is None and error.__context__ is None, kind
                    by_kind.setdefault(kind, set()).add((str(error), *(str(w.message) for w in caught)))
    for kind, texts in by_kind.items():
        assert len(texts) == 1, (kind, texts)
        for text in next(iter(texts)):
            assert not any(quoted in text for quoted in ("3.14", "271", "mg", "in row", "position")), (kind, text)
    assert must_refuse <= set(by_kind)


# --- public classes ---------------------------------------------------------------------------------------------------


def test_classes_of_a_release_have_names():
    mechanism = LaplaceMechanism(epsilon=20.0, query=ClassFeatureCounts(2, [2]))
    X = np.repeat([0, 1], 100)[:, None]
    S = mechanism.privatize(np.column_stack([X, X]), random_state=0)
    model = PrivateNaiveBayesDA(mechanism, n_records=200, classes=["no", "yes"], n_draws=50, random_state=0).fit(S)
    assert model.classes_.tolist() == ["no", "yes"] and model.predict([[0], [1]]).tolist() == ["no", "yes"]


def test_classes_without_a_mechanism():
    """Labels that are known need not all occur; others are refused."""
    X, y = [[0], [1], [1]], ["a", "c", "c"]
    model = PrivateNaiveBayesDA(classes=["a", "b", "c"], **SHORT).fit(X, y)
    assert model.classes_.tolist() == ["a", "b", "c"] and model.predict_proba(X).shape == (3, 3)
    with pytest.raises(ValueError, match=r"labels \['a', 'b'\] and no others"):
        PrivateNaiveBayesDA(classes=["a", "b"], **SHORT).fit(X, y)
    with pytest.raises(ValueError, match="classes must be 2 different labels"):
        PrivateNaiveBayesDA(classes=["a", "b", "c"], n_classes=2, **SHORT).fit(X, y)


@pytest.mark.parametrize("classes", [["yes", "no"], [1, 1], [0, 1, 2], [0], [[0, 1]], [0, None], [0.0, np.nan], []])
def test_bad_classes_are_refused(classes):
    model = PrivateNaiveBayesDA(LaplaceMechanism(1.0, query=ClassFeatureCounts(2, [2])), classes=classes, **SHORT)
    with pytest.raises(ValueError, match="classes must be 2 different labels in increasing order"):
        model.fit([[0], [1]], [0, 1])


# --- nothing is spent on a fit that is refused ------------------------------------------------------------------------


RAW = {
    PrivateLinearRegressionDA: (MOMENTS, np.full((N_FEATURES + 2, N_FEATURES), 0.5), np.full(N_FEATURES + 2, 0.1)),
    PrivateNaiveBayesDA: (TABLES, [[0], [1], [2]], [0, 1, 0]),
}


@pytest.mark.parametrize(
    ("cls", "params"),
    [
        *((cls, {name: value}) for cls in RAW for name, value in
          {"n_draws": AutoDraws(min_ess=-1.0), "n_jobs": 0, "n_records": 99, "checkpoint": "run"}.items()),
        (PrivateLinearRegressionDA, {"x_model": GaussianPredictors(mean=[0.5])}),
        (PrivateLinearRegressionDA, {"x_model": GaussianPredictors(covariance=-np.eye(N_FEATURES))}),
        (PrivateNaiveBayesDA, {"n_values": [3, 3]}),
    ],
    ids=str,
)  # fmt: skip
def test_what_refuses_a_fit_refuses_it_before_anything_is_released(cls, params, monkeypatch):
    """Catches a parameter that is looked at only once the budget is spent."""
    mechanism, X, y = RAW[cls]
    monkeypatch.setattr(LaplaceMechanism, "privatize", lambda *args, **kwargs: pytest.fail("released"))
    with pytest.raises(ValueError, match=next(iter(params)) + "|min_ess|GaussianPredictors"):
        cls(mechanism, **SHORT | params).fit(X, y)


@pytest.mark.parametrize("cls", RAW)
def test_chains_go_on_from_the_release(cls):
    """Catches chains that cannot be continued once the budget is spent, and go on as those of other records."""
    mechanism, X, y = RAW[cls]
    model = cls(mechanism, warm_start=True, **SHORT).fit(X, y)
    release, n = model.release_, len(X)
    shorter = model.set_params(n_draws=3, n_records=n).fit(release)
    whole = cls(mechanism, n_records=n, **SHORT | {"n_draws": 3}).fit(release)
    for name in (name for name in vars(whole) if name.endswith("_draws_") and name[0] != "_"):
        np.testing.assert_array_equal(getattr(shorter, name), getattr(whole, name))
    with pytest.raises(ValueError, match="the last fit, but the data changed"):
        model.set_params(n_draws=4, n_records=n + 1).fit(release)


@pytest.mark.parametrize("cls", RAW)
def test_a_warm_start_releases_nothing_a_second_time(cls, monkeypatch):
    """Catches a second release of the same records, which no chain goes on with; the first fit stays."""
    mechanism, X, y = RAW[cls]
    model = cls(mechanism, warm_start=True, **SHORT).fit(X, y)
    release = model.release_
    monkeypatch.setattr(LaplaceMechanism, "privatize", lambda *args, **kwargs: pytest.fail("released"))
    with pytest.raises(ValueError, match="warm_start=True with fit"):
        model.set_params(n_draws=2).fit(X, y)
    assert model.release_ is release
    model.set_params(warm_start=False)
    with pytest.raises(pytest.fail.Exception, match="released"):
        model.fit(X, y)
