"""Draws stay with an estimator, whatever becomes of the warnings about them; what is there belongs to one fit."""

import tracemalloc
import warnings

import numpy as np
import pytest
from coin import Coin
from regression_records import SHORT, query
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_dpmix import (
    DPLogisticRegressionMCMC,
    DPPenaltyMCMC,
    NaivePosterior,
    PrivateABC,
    PrivateDPMixture,
    PrivateDPMixtureRegressor,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
    PrivateNaiveBayesDA,
    ReleaseSummary,
)
from sklearn_dpmix._chains.progress import Progress
from sklearn_dpmix.estimators.private import _dp_normal
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import Banana, GaussianMean, GaussianPredictors, RegressionPrior
from sklearn_dpmix.privacy import PrivacyLedger
from sklearn_dpmix.queries import ClassFeatureCounts
from sklearn_dpmix.samplers import PrivateNewton
from sklearn_dpmix.samplers.private._normal_approximation import NormalPosterior
from sklearn_dpmix.samplers.private._target import Target

RNG = np.random.default_rng(0)
X = RNG.uniform(-1.0, 1.0, (2000, 2))
LABELS = (RNG.random(2000) < 1.0 / (1.0 + np.exp(-2.0 * X[:, 0]))).astype(int)
BUDGET = GaussianMechanism(epsilon=2.0, delta=1e-6)
NOISE = GaussianMechanism(scale=0.3)
CURVE = NOISE.privatize(np.column_stack([X[:50, 0], np.sin(3.0 * X[:50, 0])]), random_state=0)
PRECISE = LaplaceMechanism(epsilon=20_000.0, bounds=(-10, 10))
NARROW = NormalKernel(3.0, 0.1, 3.0, 1e-4)  # components far narrower than a cell


def wide_cells():
    records = 0.01 * np.random.default_rng(0).standard_normal((20_000, 1)) + 3.0
    return ReleaseSummary(PRECISE, width=0.05).update(PRECISE.privatize(records, random_state=1))


def logistic(sampler="normal", **params):
    return DPLogisticRegressionMCMC(BUDGET, data_norm=1.5, sampler=sampler, **params)


def chains():
    return DPPenaltyMCMC(n_iter=40, n_chains=2)


TIMES = {"n_chains": 2, "n_warmup": 5, "n_draws": 8, "random_state": 0}
#: estimator, what is fitted, its draws, the warning
DOUBTED = {
    "logistic": (logistic(chains()), (X, LABELS), "coef_draws_", "not mixed"),
    "logistic, normal": (logistic(simulate=True), (X, LABELS), "coef_draws_", "NOT private"),
    "regressor": (PrivateDPMixtureRegressor(NOISE, **TIMES), (CURVE[:, :1], CURVE[:, 1]), "n_clusters_draws_", "mixed"),
    "rejection": (
        PrivateABC(LaplaceMechanism(scale=0.1), model=Coin(), max_simulations=500, random_state=0),
        ([13.0],),
        "theta_draws_",
        "stopped early",
    ),
    "regression": (
        PrivateLinearRegressionDA(LaplaceMechanism(scale=1.0, query=query(1)), n_records=60, **SHORT),
        ([0.0, 50.0, 20.0, 0.0, 20.0],),
        "coef_draws_",
        "mixed|contradicts",
    ),
    "naive": (
        NaivePosterior(LaplaceMechanism(scale=2.0), family="poisson", n_records=20, n_warmup=0, n_draws=8),
        ([40.0],),
        "theta_draws_",
        "mixed",
    ),
    "summary": (PrivateDPMixture(PRECISE, kernel=NARROW, **TIMES), (wide_cells(),), "n_clusters_draws_", "too wide"),
}


@pytest.mark.parametrize("name", DOUBTED)
def test_draws_stay_when_warnings_are_errors(name):
    """Catches draws, and a budget, that are lost because a warning about the draws was turned into an error."""
    model, data, draws, words = DOUBTED[name]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises((RuntimeWarning, UserWarning), match=words):
            model.fit(*data)
    assert getattr(model, draws).size and len(model.summary())


def test_a_prior_is_doubted_before_a_budget_is_spent():
    """Catches a warning about what is public that comes after the release, which is lost if it is an error."""
    mechanism = LaplaceMechanism(scale=1.0, query=query(1))
    model = PrivateLinearRegressionDA(mechanism, prior=RegressionPrior(1e6), **SHORT)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X[:60, :1], X[:60, 1])
    first = [str(one.message)[:12] for one in caught[:2]]
    assert first == ["under the pr", "PrivateLinea"]


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_a_refit_of_a_regressor_that_fails_leaves_the_earlier_one(monkeypatch):
    """Catches chains that go on in the fit that is kept."""
    model = PrivateDPMixtureRegressor(NOISE, warm_start=True, **TIMES).fit(CURVE[:, :1], CURVE[:, 1])
    curves = model.curve_draws([[0.5]])
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(PrivateDPMixtureRegressor, "_keep", lambda self: (_ for _ in ()).throw(KeyboardInterrupt))
        model.set_params(n_draws=20).fit(CURVE[:, :1], CURVE[:, 1])
    np.testing.assert_array_equal(model.curve_draws([[0.5]]), curves)
    assert model.n_clusters_draws_.shape == curves.shape[:2]


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_nothing_of_an_earlier_fit_is_left():
    """Catches R-hat of chains beside draws of a normal approximation."""
    model = logistic(chains()).fit(X, LABELS)
    assert model.r_hat_ and model.ess_
    model.set_params(sampler="normal").fit(X, LABELS)
    assert not hasattr(model, "r_hat_") and not hasattr(model, "ess_")


def test_names_of_columns_are_checked_before_a_budget_is_spent():
    """Catches an error after the draws were paid for."""
    pd = pytest.importorskip("pandas")
    ledger = PrivacyLedger(epsilon=4.0, delta=1e-5)
    model = logistic(ledger=ledger)
    with pytest.raises(TypeError, match="Feature names"):
        model.fit(pd.DataFrame(X, columns=[0, "b"]), LABELS)
    assert ledger.spent.epsilon == 0.0
    with pytest.raises(NotFittedError):
        model.predict(X)


def test_rows_are_clipped_as_in_the_fit():
    """Catches predictions that change with a parameter for the next fit."""
    model = logistic().fit(X, LABELS)
    before = model.predict_proba(X[:5])
    np.testing.assert_array_equal(model.set_params(data_norm=0.01).predict_proba(X[:5]), before)


SUMS = LaplaceMechanism(scale=2.0)
FAMILY = PrivateExpFamilyGibbs(SUMS, family="poisson", n_records=9, **TIMES)


@pytest.mark.filterwarnings("ignore:the chains have not mixed", "ignore:the release contradicts")
@pytest.mark.parametrize(
    ("model", "data", "change"),
    [
        (FAMILY, [[9.0], [7.0]], {"mechanism__scale": 9.0}),
        (FAMILY, [[9.0], [7.0]], {"truncation": (0, 1)}),
        (
            PrivateLinearRegressionDA(LaplaceMechanism(scale=1.0, query=query(1)), n_records=60, **SHORT),
            [[0.0, 50.0, 20.0, 0.0, 20.0]] * 2,
            {"x_model": GaussianPredictors(), "mechanism": None},
        ),
        (
            PrivateABC(SUMS, model=Coin(), n_draws=20, random_state=0),
            [[13.0], [12.0]],
            {"model": Banana(), "mechanism__scale": 9.0},
        ),
    ],
    ids=["scale", "truncation", "regression", "abc"],
)
def test_a_tree_is_of_the_fit(model, data, change):
    """Catches the likelihood and replicates of a mechanism or a model that is for the next fit."""
    pytest.importorskip("arviz_base")

    def tree():
        parts = model.to_datatree(log_likelihood=True, posterior_predictive=True, random_state=0)
        return [parts[group]["release"].values for group in ("observed_data", "log_likelihood", "posterior_predictive")]

    model = clone(model).fit(data)
    before = tree()
    model.set_params(**change)
    for found, expected in zip(tree(), before, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_scores_are_of_the_model_of_the_fit():
    """Catches records that are clipped for the next fit."""
    model = DPPenaltyMCMC(model=GaussianMean(n_features=2, data_norm=2.0), n_iter=40, n_chains=2, random_state=0).fit(X)
    before = model.score_samples(X)
    np.testing.assert_array_equal(model.set_params(model__data_norm=0.1).score_samples(X), before)
    np.testing.assert_array_equal(model.set_params(model=Banana()).score_samples(X), before)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_predictions_for_many_rows_take_little_memory():
    """Catches a table of all draws and all rows, of 8 GB for a million rows."""
    many = np.resize(X, (40_000, 2))
    classifier = logistic().fit(X, LABELS)
    model = DPPenaltyMCMC(model=Banana(), n_iter=600, n_chains=2, random_state=0).fit(X)
    for method in (classifier.predict, classifier.predict_proba, classifier.predict_interval, model.score_samples):
        tracemalloc.start()
        found = np.asarray(method(many))
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 80e6, method.__name__
        rows = found.T if method == classifier.predict_interval else found
        np.testing.assert_allclose(rows, np.concatenate([rows[:2000]] * 20), rtol=1e-12)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "cls", "method"),
    [
        ("logistic", DPPenaltyMCMC, "_monitor"),
        ("logistic", DPLogisticRegressionMCMC, "_monitor"),
        ("regressor", PrivateDPMixtureRegressor, "_keep"),
        ("summary", PrivateDPMixture, "_note_compression"),
    ],
)
def test_ctrl_c_after_the_chains_keeps_the_draws(name, cls, method, monkeypatch):
    """Catches draws, and a budget, that are lost because Ctrl-C came a second after the last block."""
    model, data, draws, _ = DOUBTED[name]
    original, calls = getattr(cls, method), []

    def once(*args):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(cls, method, once)
    with pytest.warns(RuntimeWarning, match="interrupted: kept"):
        fitted = clone(model).fit(*data)
    assert getattr(fitted, draws).size and fitted.r_hat_


def ctrl_c_at(patch, cls, method, call):
    """From then on, the method raises KeyboardInterrupt."""
    original, calls = getattr(cls, method), []

    def interrupted(*args, **options):
        calls.append(1)
        if len(calls) >= call:
            raise KeyboardInterrupt
        return original(*args, **options)

    patch.setattr(cls, method, interrupted)


TABLE = np.column_stack([X[:60, 0] > 0.0, X[:60, 1] > 0.0]).astype(int)
COUNTS = LaplaceMechanism(scale=1.0, query=ClassFeatureCounts(2, 2, 1))


@pytest.mark.filterwarnings("ignore:the chains have not mixed", "ignore:.* releases noise drawn by NumPy")
@pytest.mark.parametrize(
    ("model", "data"),
    [
        (PrivateLinearRegressionDA(LaplaceMechanism(scale=1.0, query=query(1)), **SHORT), (X[:60, :1], X[:60, 1])),
        (PrivateNaiveBayesDA(COUNTS, **TIMES), (TABLE[:, :1], TABLE[:, 1])),
    ],
    ids=["regression", "bayes"],
)
def test_ctrl_c_in_the_warm_up_keeps_the_release(model, data, monkeypatch):
    """Catches a budget that is spent for nothing; the earlier fit stays, and nothing seems fitted that is not."""
    model = clone(model)
    for fitted in (model, clone(model).fit(*data)):
        before = fitted._take_fit()
        vars(fitted).update(before)
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as caught:
            ctrl_c_at(patch, Progress, "__call__", 1)
            fitted.fit(*data)
        assert "with n_records=60, fit(unused_release) goes on with it" in caught.value.__notes__[0]
        assert fitted._take_fit() == before
        vars(fitted).update(before)
    with pytest.raises(NotFittedError):
        model.predict(data[0])
    release = model.unused_release
    model.set_params(n_records=60).fit(release)
    np.testing.assert_array_equal(model.release_, release)
    assert not hasattr(model, "unused_release") and model.predict(data[0]).shape == (60,)


@pytest.mark.filterwarnings("ignore:the chains have not mixed", "ignore:simulate=True")
@pytest.mark.parametrize("is_classifier", [False, True])
def test_ctrl_c_before_the_chains_keeps_the_start(is_classifier, monkeypatch):
    """Catches Newton steps that were paid for and lost."""
    model = DPPenaltyMCMC(n_iter=40, n_chains=2, preconditioner=PrivateNewton())
    if is_classifier:
        model, data, n_params = logistic(model), (X, LABELS), 3
    else:
        model, data, n_params = model.set_params(mechanism=BUDGET, model=Banana(data_norm=2.0)), (X,), 2
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt) as caught:
        ctrl_c_at(patch, Target, "gradient", 3)
        model.fit(*data)
    assert ["init=unused_release starts there" in note for note in caught.value.__notes__] == [True]
    start = model.unused_release
    assert start.shape == (n_params,) and np.any(start != 0.0)
    with pytest.raises(NotFittedError):
        model.score_samples(X) if not is_classifier else model.predict(X)
    model.set_params(**{"sampler__init" if is_classifier else "init": start}).fit(*data)
    assert not hasattr(model, "unused_release")
    assert not hasattr(getattr(model, "sampler_", None), "unused_release")


def test_ctrl_c_between_newton_steps_keeps_the_last_one(monkeypatch):
    """Catches releases that were paid for and lost; the draws are those given the steps that there were."""
    seed = {"simulate": True, "random_state": 0}
    with monkeypatch.context() as patch, pytest.warns(UserWarning, match="NOT private"):
        patch.setattr(_dp_normal, "normal_posteriors", first_two(_dp_normal.normal_posteriors))
        reference = logistic(**seed).fit(X, LABELS)
    with monkeypatch.context() as patch, pytest.warns() as caught:
        ctrl_c_at(patch, Target, "gradient", 3)
        model = logistic(**seed).fit(X, LABELS)
    assert "interrupted: kept 2 of 4 Newton steps" in str(caught[-1].message)
    assert model.n_iter_ == 2 and 2.0 - 1e-6 < model.privacy_spent_.epsilon <= 2.0
    np.testing.assert_array_equal(model.coef_draws_, reference.coef_draws_)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):  # nothing was released
        ctrl_c_at(patch, Target, "gradient", 1)
        logistic().fit(X, LABELS)


def first_two(steps):
    def shortened(*args):
        for number, posterior in enumerate(steps(*args), start=1):
            yield posterior
            if number == 2:
                break

    return shortened


def test_ctrl_c_during_the_draws_given_a_release_draws_again(monkeypatch):
    """Catches all that was released and lost, in the longest part of such a fit."""
    original, calls = NormalPosterior.draws, []

    def once(*args):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return original(*args)

    monkeypatch.setattr(NormalPosterior, "draws", once)
    with pytest.warns(RuntimeWarning, match="interrupted: kept 4 of 4 Newton steps"):
        model = logistic().fit(X, LABELS)
    assert model.coef_draws_.shape == (1, 1000, 2)
