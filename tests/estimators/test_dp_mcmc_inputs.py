"""Estimators that release posterior draws under a budget: shapes, interruptions, bad input."""

import warnings

import numpy as np
import pytest
from dp_mcmc_case import BARKER, BUDGET, EVERY, HAMILTONIAN, MEAN, PENALTY, X
from sklearn.base import clone
from sklearn.exceptions import NotFittedError

from sklearn_dpmix import DPBarkerMCMC, DPLogisticRegressionMCMC, DPPenaltyMCMC
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import GaussianMean, LogisticLikelihood
from sklearn_dpmix.privacy import PrivacyLedger
from sklearn_dpmix.samplers import PrivateNewton

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


@EVERY
def test_draws_have_the_contracts_shapes(estimator):
    """(n_chains, n_iter // n_chains, n_params): nothing is dropped."""
    fitted = clone(estimator).set_params(n_chains=3).fit(X)
    assert fitted.theta_draws_.shape == (3, estimator.n_iter // 3, 2)
    assert fitted.n_iter_ == estimator.n_iter // 3 and fitted.n_features_in_ == 2
    assert 0.0 <= fitted.acceptance_rate_ <= 1.0
    assert set(fitted.r_hat_) == {"theta[0]", "theta[1]"}
    assert fitted.to_datatree()["posterior"]["theta"].shape[0] == 3


class NeverRead:
    """Data whose values nobody may look at."""

    shape = (2000, 2)

    def __len__(self):
        return 2000

    def __array__(self, *args, **kwargs):
        raise AssertionError("the data were looked at")


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"mechanism": GaussianMechanism(epsilon=0.0, delta=1e-6)}, "epsilon .* must be one number positive"),
        ({"mechanism": GaussianMechanism(epsilon=np.nan, delta=1e-6)}, "epsilon .* must be one number positive"),
        ({"mechanism": GaussianMechanism(epsilon=1.0, delta=1.0)}, "delta .* between 0 and 1"),
        ({"mechanism": GaussianMechanism(epsilon=1.0)}, "delta .* between 0 and 1"),
        ({"mechanism": GaussianMechanism(scale=1.0)}, "it has no scale"),
        ({"mechanism": GaussianMechanism(epsilon=1.0, delta=1e-6, bounds=(0, 1))}, "it has no bounds"),
        ({"mechanism": LaplaceMechanism(epsilon=1.0)}, "must be GaussianMechanism"),
        ({"n_iter": None}, "exactly one of n_iter .* and noise_multiplier"),
        ({"noise_multiplier": 10.0}, "exactly one of n_iter .* and noise_multiplier"),
        ({"n_iter": None, "noise_multiplier": 0.1}, "too small for one iteration"),
        ({"n_iter": 1}, "n_iter is the total over chains"),
        ({"model": GaussianMean(n_features=2)}, "needs clip_bound, or a model of bounded records"),
        ({"model": None}, "needs a model"),
        ({"model": object()}, "needs log_density of the model"),
        ({"clip_bound": 0.0}, "'clip_bound' parameter"),
        ({"clip_bound": -1.0}, "'clip_bound' parameter"),
        ({"temperature": 2.0}, "'temperature' parameter"),
        ({"init": [np.nan, 0.0]}, "init must be 2 finite numbers"),
        ({"preconditioner": PrivateNewton(share=1.5)}, "share of PrivateNewton"),
        ({"init": [0.0]}, "init must be 2 finite numbers"),
        ({"init": ["a", "b"]}, "init must be 2 finite numbers"),
        ({"model": GaussianMean}, r"model must be an object, got the class GaussianMean: pass model=GaussianMean\("),
        ({"init": [[0.0, 0.0]]}, "init must be 2 finite numbers"),
        ({"batch_size": 2001}, "batch_size must be at most the number of records, 2000"),
        ({"clipped_fraction_share": 0.1}, "clipped_fraction_share=0.1 needs clip_bound and batch_size=None"),
        (
            {"preconditioner": PrivateNewton(), "model": LogisticLikelihood(1), "clip_bound": 1.0},
            "information_range",
        ),
        ({"secure": True, "simulate": True}, "exclude each other"),
        ({"ledger": 5.0}, "ledger of DPPenaltyMCMC must be a PrivacyLedger"),
        ({"mechanism": None}, "ledger of DPPenaltyMCMC has nothing to count"),
        ({"mechanism": None, "ledger": None, "n_iter": None}, "without a mechanism has no noise"),
        ({"mechanism": None, "ledger": None, "batch_size": 2001}, "must be at most the number of records, 2000"),
    ],
)
def test_bad_parameters_before_any_data(parameters, message):
    """Each names what is wrong, and nothing has looked at a record or spent anything."""
    ledger = PrivacyLedger(4.0, 1e-6)
    estimator = clone(PENALTY).set_params(**{"ledger": ledger, **parameters})
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.fit(NeverRead())
    assert len(ledger.entries) == 0


def test_shares_of_a_budget_that_is_not_there():
    """Both releases together, before any iteration; and a start of the model's that is none."""
    shares = {"preconditioner": PrivateNewton(share=0.6), "clipped_fraction_share": 0.5, "clip_bound": 1.0}
    model = LogisticLikelihood(2, data_norm=1.0)
    with pytest.raises(ValueError, match=r"share=0.6 of preconditioner and clipped_fraction_share=0.5 together are"):
        clone(PENALTY).set_params(model=model, ledger=None, batch_size=None, **shares).fit(X, X[:, 0] > 0)
    odd = GaussianMean(n_features=2, data_norm=1.0)
    odd.theta_init = ["a", "b"]
    with pytest.raises(ValueError, match="theta_init of GaussianMean must be 2 finite numbers"):
        clone(PENALTY).set_params(model=odd).fit(NeverRead())


@EVERY
def test_a_start_outside_the_support_is_refused_before_any_data(estimator):
    """The default start is 0, where a positive parameter has no density; chains stood still at it."""

    class Positive(GaussianMean):
        def log_prior(self, theta):
            return np.where(np.all(theta > 0.0, axis=1), super().log_prior(theta), -np.inf)

    model = Positive(n_features=2, data_norm=1.0)
    with pytest.raises(ValueError, match=r"starts at \[0.0, 0.0\], where log_prior of Positive is -inf: give init"):
        clone(estimator).set_params(model=model).fit(NeverRead())


def test_hamiltonian_needs_gradients_and_their_bounds():
    """A model without them is refused before any data, and so is a mass that is not positive."""

    class NoGradient:
        n_params = 2
        log_density = log_prior = staticmethod(lambda *a: None)

    for parameters, message in (
        ({"model": NoGradient()}, "needs grad_log_density of the model"),
        ({"model": GaussianMean(n_features=2), "clip_bound": 1.0}, "needs gradient_clip_bound"),
        ({"mass": [1.0, -1.0]}, "mass must be 2 positive numbers"),
        ({"mass": ["a", "b"]}, "mass must be 2 positive numbers"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            clone(HAMILTONIAN).set_params(**parameters).fit(NeverRead())


@pytest.mark.parametrize(
    "data, message",
    [
        (np.full((5, 2), np.nan), r"finite numbers.*shape \(5, 2\)"),
        (np.zeros((5, 3)), "records of 2 numbers, but X has 3"),
        (np.zeros(5), r"a table of finite numbers.*shape \(5,\)"),
    ],
    ids=["nan", "columns", "1d"],
)
def test_bad_data_spend_nothing(data, message):
    """An error about the data comes before the ledger is charged."""
    ledger = PrivacyLedger(4.0, 1e-6)
    with pytest.raises(ValueError, match=message):
        clone(PENALTY).set_params(ledger=ledger).fit(data)
    assert len(ledger.entries) == 0


@pytest.mark.parametrize("y", [[None], ["inf"], [np.nan]])
@pytest.mark.parametrize("mechanism", [PENALTY.mechanism, None], ids=["confidential", "known"])
def test_a_response_that_is_no_number_is_refused(y, mechanism):
    """scikit-learn looks for missing values before it converts objects and text: one NaN could move a ratio by more."""
    ledger = PrivacyLedger(4.0, 1e-6)
    model = clone(PENALTY).set_params(ledger=ledger if mechanism else None, mechanism=mechanism)
    for responses in (np.array([0.5] * 9 + y, object), [0.5] * 9 + y):
        with pytest.raises(ValueError, match="finite number" if mechanism else "contains (NaN|infinity)"):
            model.fit(np.zeros((10, 1)), responses)
    assert len(ledger.entries) == 0


def test_barker_clips_where_nothing_bounds_ratios():
    """Under a mechanism, with a model of the package and with a user's own; the clipped fraction stays hidden."""

    class Own:
        n_params = 2

        def log_density(self, X, theta):
            return -0.5 * np.sum((X - theta) ** 2, axis=1)

        def log_prior(self, theta):
            return -0.5 * np.sum(theta**2, axis=1)

    for model in (GaussianMean(n_features=2), Own()):
        fitted = clone(BARKER).set_params(model=model).fit(X)
        assert fitted.theta_draws_.shape == (2, 10, 2) and not hasattr(fitted, "clipped_fraction_")
    public = DPBarkerMCMC(model=MEAN, n_iter=20_000, n_chains=2, random_state=0, preconditioner=PrivateNewton()).fit(X)
    np.testing.assert_allclose(public.settled_draws().std(axis=(0, 1)) * len(X) ** 0.5, 1.0, atol=0.15)


def test_the_classifier_checks_its_budget_before_the_data():
    """An impossible budget is refused before anyone looks at a record or a label."""
    for parameters, message in (
        ({"mechanism": GaussianMechanism(epsilon=-1.0, delta=1e-6)}, "epsilon"),
        ({"sampler": DPPenaltyMCMC(noise_multiplier=1e-3)}, "too small for one iteration"),
    ):
        model = DPLogisticRegressionMCMC(BUDGET, data_norm=1.0).set_params(**parameters)
        with pytest.raises(ValueError, match=message):
            model.fit(NeverRead(), NeverRead())


def test_few_iterations_are_kept():
    """One iteration is too few for R-hat, and is no reason to lose what was paid for."""
    fitted = clone(PENALTY).set_params(n_iter=1, n_chains=1).fit(X)
    assert fitted.theta_draws_.shape == (1, 1, 2) and np.isnan(fitted.r_hat_["theta[0]"])


def test_y_may_not_be_left_out_of_a_score():
    """Records with y are scored with y."""
    model = LogisticLikelihood(n_features=2, data_norm=2.0)
    fitted = DPPenaltyMCMC(model=model, n_iter=50, n_chains=1, random_state=0).fit(X, X[:, 0] > 0)
    assert fitted.score_samples(X[:4], [0, 1, 1, 0]).shape == (4,)
    with pytest.raises(ValueError, match="records of 3 numbers, but X has 2"):
        fitted.score_samples(X[:4])
    for y in ([0.0, np.nan, 1.0, 0.0], [0.0, 1.0], ["a", "b", "c", "d"]):
        with pytest.raises(ValueError, match=r"y must have shape \(4,\)|Input y contains NaN|y holds text"):
            fitted.score_samples(X[:4], y)


def test_scores_are_of_records_as_a_fit_sees_them():
    """Catches a density at records beyond ``data_norm``, which the draws say nothing about."""
    y = (X[:, 0] > 0).astype(float)
    model = LogisticLikelihood(n_features=2, data_norm=1.0)
    fitted = DPPenaltyMCMC(model=model, n_iter=50, n_chains=1, random_state=0).fit(X, y)
    far, near = fitted.score_samples([[30.0, 40.0]], [1.0]), fitted.score_samples([[0.6, 0.8]], [1.0])
    np.testing.assert_allclose(far, near)


def test_feature_names_are_kept():
    """A data frame's names, by the samplers and by the classifier."""
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X[:200], columns=["a", "b"])
    assert list(clone(PENALTY).fit(frame).feature_names_in_) == ["a", "b"]
    model = DPLogisticRegressionMCMC(BUDGET, data_norm=1.0).fit(frame, (X[:200, 0] > 0.5).astype(int))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        model.predict(frame)


def test_bad_input_of_the_classifier():
    """data_norm and labels are required, classes are public, and what is not a sampler is refused."""
    features, labels = X[:50], (X[:50, 0] > 0).astype(int)
    with pytest.raises(ValueError, match="needs data_norm, a public number"):
        DPLogisticRegressionMCMC(BUDGET).fit(features, labels)
    for few in (features, features[:2]):
        with pytest.raises(ValueError, match="requires y to be passed, but the target y is None"):
            DPLogisticRegressionMCMC(BUDGET, data_norm=1.0).fit(few, None)
    with pytest.raises(ValueError, match=r"labels \[0, 1\] and no others"):
        DPLogisticRegressionMCMC(BUDGET, data_norm=1.0).fit(features, labels + 1)
    with pytest.raises(ValueError, match="'sampler' parameter"):
        DPLogisticRegressionMCMC(BUDGET, data_norm=1.0, sampler="hmc").fit(features, labels)
    with pytest.raises(ValueError, match="classes must be two labels"):
        DPLogisticRegressionMCMC(BUDGET, data_norm=1.0, classes=(1, 1)).fit(features, labels)
    with pytest.raises(NotFittedError):
        DPLogisticRegressionMCMC(BUDGET).predict(features)


def test_ctrl_c_keeps_the_draws(monkeypatch):
    """The draws so far stay, the whole budget counts as spent, and a warning says both."""
    from sklearn_dpmix.samplers.private._penalty import Penalty

    step, count = Penalty.step, [0]

    def interrupted(self, state, source):
        count[0] += 1
        if count[0] > 30:
            raise KeyboardInterrupt
        return step(self, state, source)

    monkeypatch.setattr(Penalty, "step", interrupted)
    with pytest.warns(RuntimeWarning, match="interrupted: kept .* the whole budget counts as spent"):
        fitted = clone(PENALTY).set_params(n_chains=1).fit(X)
    assert 0 < fitted.n_iter_ <= 30 and fitted.theta_draws_.shape[1] == fitted.n_iter_
    assert fitted.privacy_spent_.epsilon > 3.999


def test_an_error_keeps_the_draws(monkeypatch):
    """A fit that fails in the middle has what was paid for beside the attributes of an earlier fit."""
    from sklearn_dpmix.samplers.private._penalty import Penalty

    step, count, fitted = Penalty.step, [0], clone(PENALTY).fit(X)

    def failing(self, state, source):
        count[0] += 1
        if count[0] > 20:
            raise MemoryError
        return step(self, state, source)

    before = fitted.theta_draws_
    monkeypatch.setattr(Penalty, "step", failing)
    with pytest.raises(MemoryError) as raised:
        fitted.fit(X)
    assert "the draws that were made are kept as unused_release" in raised.value.__notes__[0]
    n_chains, n, n_params = fitted.unused_release.shape
    assert (n_chains, n_params) == (2, 2) and 0 < n <= 10 and np.isfinite(fitted.unused_release).all()
    assert fitted.theta_draws_ is before


def test_a_likelihood_that_leaves_its_support_is_not_entered():
    """log_prior of -inf or NaN means outside: such a proposal is rejected unseen."""

    class Positive(GaussianMean):
        def log_prior(self, theta):
            with np.errstate(invalid="ignore"):
                return np.where(np.all(theta > 0.45, axis=1), super().log_prior(theta), np.log(theta[:, 0] - 0.45) * 0)

    fitted = DPPenaltyMCMC(
        model=Positive(n_features=1, data_norm=3.0), n_iter=2000, init=[0.5], n_chains=1, random_state=0
    ).fit(X[:, :1])
    assert fitted.theta_draws_.min() > 0.45 and np.ptp(fitted.theta_draws_) > 0.0


class Known(GaussianMean):
    """x ~ N(θ, 1): whatever the records, the curvature is their number."""

    information = property()

    def observed_information(self, X, theta):
        return len(X) * np.eye(2)

    def information_range(self, theta):
        return 0.0


def test_a_public_curvature_is_not_released():
    """Catches a curvature released as 0, after which chains start 10¹⁸ standard deviations away."""
    ledger = PrivacyLedger(4.0, 1e-6)
    estimator = clone(PENALTY).set_params(model=Known(2, data_norm=5.0), preconditioner=PrivateNewton(), ledger=ledger)
    with pytest.raises(ValueError, match=r"information_range of Known is 0 .* give the model information\(theta\)"):
        estimator.fit(X)
    assert len(ledger.entries) == 0


def test_a_record_without_observed_information_does_not_stop_a_fit():
    """Catches a fit that ends in LinAlgError, or in NaN, because of one record."""

    class Overflowing(LogisticLikelihood):
        clip_records = staticmethod(lambda X: X)

        def observed_information(self, X, theta):
            return super().observed_information(np.where(X > 100.0, np.nan, X), theta)

    X = np.random.default_rng(0).normal(size=(200, 1)).clip(-1, 1)
    X[17] = 1e3
    model = DPPenaltyMCMC(
        BUDGET, model=Overflowing(1, data_norm=1.0), n_iter=10, n_chains=1, preconditioner=PrivateNewton(n_steps=2)
    )
    with np.errstate(all="ignore"):
        model.fit(X, (X[:, 0] > 0).astype(float))
    assert np.all(np.isfinite(model.theta_draws_)) and np.all(np.isfinite(model.covariance_root_))
