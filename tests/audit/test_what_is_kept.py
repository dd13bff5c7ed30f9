"""What a fit keeps, says and writes is a function of what it released: the same for D and for D'."""

import itertools

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpmix import (
    DPBarkerMCMC,
    DPHamiltonianMC,
    DPLogisticRegressionMCMC,
    DPPenaltyMCMC,
    OnePosteriorSampling,
    PrivateLinearRegressionDA,
    PrivateNaiveBayesDA,
)
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.models import GaussianMean, GaussianPredictors
from sklearn_dpmix.queries import ClassFeatureCounts, RegressionMoments
from sklearn_dpmix.samplers import PrivateNewton

from .kept import Fixed, differences, folders, neighbours, outcome
from .replay import recorded

NIGHTLY = pytest.mark.nightly
N_PAIRS = 12

# --- one release, from which all else follows ------------------------------------------------------------------------

SMALL = {"n_chains": 2, "n_warmup": 3, "n_draws": 12, "random_state": 0}
COUNTS = Fixed(1.0, query=ClassFeatureCounts(2, [2, 3]))
MOMENTS = Fixed(1.0, query=RegressionMoments((-1, 1), (-1, 1), 1))
BAYES, LINEAR = PrivateNaiveBayesDA(COUNTS, **SMALL), PrivateLinearRegressionDA(MOMENTS, **SMALL)


def categories(labels):
    """Draws of a record (x_1, x_2, label)."""
    return lambda rng: [rng.integers(2), rng.integers(3), labels[rng.integers(len(labels))]]


def line(rng):
    """A record (x, y), now and then far outside the bounds."""
    return rng.standard_normal(2) * (1e6 if rng.random() < 0.2 else 1.0)


#: (estimator, draw of a record, length of the release)
RECORDS = {
    "PrivateNaiveBayesDA": (BAYES, categories([0, 1]), 10),
    "PrivateNaiveBayesDA, labels that are no numbers of classes": (BAYES, categories([3, 5, 7]), 10),
    "PrivateNaiveBayesDA, wrong n_records": (clone(BAYES).set_params(n_records=99), categories([0, 1]), 10),
    "PrivateNaiveBayesDA, checkpoint": (clone(BAYES).set_params(checkpoint="a"), categories([0, 1]), 10),
    "PrivateLinearRegressionDA": (LINEAR, line, 5),
    "PrivateLinearRegressionDA, wrong n_records": (clone(LINEAR).set_params(n_records=99), line, 5),
    "PrivateLinearRegressionDA, normal predictors": (clone(LINEAR).set_params(x_model=GaussianPredictors()), line, 5),
}


def told_apart(estimator, draw, length, tmp_path, seed=0):
    """What differs between D and D' for some pair of neighbours."""
    rng, found, places = np.random.default_rng(seed), set(), folders(tmp_path)
    for _ in range(N_PAIRS):
        Fixed.release = np.round(rng.normal(2.0, 2.0, length), 3)
        sides = [outcome(estimator, (records[:, :-1], records[:, -1]), next(places))
                 for records in neighbours(rng, 6, draw)]  # fmt: skip
        found |= set(differences(*sides))
    return found


@NIGHTLY
@pytest.mark.parametrize("name", RECORDS)
def test_a_fit_on_records_keeps_a_function_of_its_release(name, tmp_path):
    """Catches labels, numbers, warnings and error texts that one record decides."""
    assert told_apart(*RECORDS[name], tmp_path) == set()


@NIGHTLY
def test_public_class_labels_are_kept_whoever_has_them(tmp_path):
    """With ``classes=`` the labels are those, though all records may have the same."""
    estimator = PrivateNaiveBayesDA(COUNTS, classes=(3, 7), **SMALL)
    assert told_apart(estimator, categories([3, 7]), 10, tmp_path) == set()
    Fixed.release = np.ones(10)
    fitted = estimator.fit(np.zeros((4, 2)), np.full(4, 7))
    assert list(fitted.classes_) == [3, 7]


def test_one_posterior_sampling_keeps_its_draws_and_no_more(tmp_path):
    """Beside the draws, which are the release."""
    rng, places = np.random.default_rng(1), folders(tmp_path)
    for _ in range(N_PAIRS):
        sides = [outcome(OnePosteriorSampling(random_state=0), (records,), next(places), ("theta_draws_",))
                 for records in neighbours(rng, 20, lambda rng: [rng.integers(2)])]  # fmt: skip
        assert differences(*sides) == []


# --- many releases: the path of D, fed to D' -------------------------------------------------------------------------

BUDGET = GaussianMechanism(epsilon=4.0, delta=1e-6)
MODEL = GaussianMean(1, data_norm=3.0)
PENALTY = DPPenaltyMCMC(BUDGET, model=MODEL, n_iter=24, n_chains=2)
SHORT = DPPenaltyMCMC(n_iter=16, n_chains=2, preconditioner=PrivateNewton())
PATHS = {
    "DPPenaltyMCMC": PENALTY,
    "DPPenaltyMCMC, start": clone(PENALTY).set_params(preconditioner=PrivateNewton(n_steps=1)),
    "DPPenaltyMCMC, clipped": clone(PENALTY).set_params(model=GaussianMean(1), clip_bound=0.3, proposal_scale=0.1),
    "DPPenaltyMCMC, clipped fraction": clone(PENALTY).set_params(
        model=GaussianMean(1), clip_bound=0.3, proposal_scale=0.1, clipped_fraction_share=0.1
    ),
    "DPPenaltyMCMC, batches": clone(PENALTY).set_params(batch_size=20, temperature=0.1),
    "DPHamiltonianMC": DPHamiltonianMC(BUDGET, model=MODEL, n_iter=8, n_leapfrog=2, n_chains=2),
    "DPLogisticRegressionMCMC": DPLogisticRegressionMCMC(BUDGET, data_norm=1.0, sampler=SHORT),
    "DPBarkerMCMC": DPBarkerMCMC(BUDGET, model=MODEL, batch_size=20, temperature=0.05, n_iter=16, n_chains=2),
    "DPBarkerMCMC, clipped": DPBarkerMCMC(
        BUDGET, model=GaussianMean(1), batch_size=20, temperature=0.05, n_iter=16, n_chains=2
    ),
}


def data_of(estimator, records):
    """Arguments of ``fit``: with labels for the classifier."""
    return (records, (np.arange(len(records)) % 2)) if isinstance(estimator, DPLogisticRegressionMCMC) else (records,)


def far(rng):
    """A record of one number, now and then far out."""
    return rng.standard_normal(1) * (1e6 if rng.random() < 0.1 else 1.0)


def told_apart_on_paths(estimator, tmp_path, n_pairs=N_PAIRS):
    """What differs between D and D' where D' is given what D released, for some pair of neighbours."""
    rng, found, places = np.random.default_rng(2), set(), folders(tmp_path)
    for seed in range(n_pairs):
        first, second = (data_of(estimator, records) for records in neighbours(rng, 60, far))
        with recorded(seed) as path:
            one = outcome(estimator, first, next(places))
        with recorded(seed, path):
            other = outcome(estimator, second, next(places))
        assert "error" not in one, one["error"]
        found |= set(differences(one, other))
    return found


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n == "DPPenaltyMCMC, start" else NIGHTLY) for n in PATHS])
def test_a_fit_under_a_budget_keeps_a_function_of_its_releases(name, tmp_path):
    """Catches a count, a fraction or a warning that depends on more than what was released."""
    assert told_apart_on_paths(PATHS[name], tmp_path) == set()


# --- broken twins ----------------------------------------------------------------------------------------------------


class KeepsACount(DPPenaltyMCMC):
    """Shows how many ratios were clipped."""

    def _keep(self, budget, plan, states, source, n_records):
        super()._keep(budget, plan, states, source, n_records)
        self.fraction_ = float(np.sum([state.clipped for state in states]))


class KeepsASum(PrivateLinearRegressionDA):
    """Keeps a number of the records, out of sight."""

    def fit(self, X, y=None):
        super().fit(X, y)
        self._hidden = {"sum": np.sum(X)}
        return self


class Says(PrivateLinearRegressionDA):
    """Warns of a record that is outside the bounds."""

    def fit(self, X, y=None):
        import warnings

        if np.max(np.abs(X)) > 1.0:
            warnings.warn(f"{np.max(np.abs(X)):g} was moved to the bound", UserWarning, stacklevel=2)
        return super().fit(X, y)


class Writes(PrivateLinearRegressionDA):
    """Writes a log of its own."""

    def fit(self, X, y=None):
        with open("log.txt", "w") as file:
            file.write(f"mean {np.mean(X)}")
        return super().fit(X, y)


@NIGHTLY
@pytest.mark.parametrize("twin, what", [(KeepsASum, "attributes"), (Says, "warnings"), (Writes, "files")])
def test_a_twin_that_keeps_or_tells_more_is_found(twin, what, tmp_path):
    """Each in its own way."""
    found = told_apart(twin(MOMENTS, **SMALL), line, 5, tmp_path)
    assert what in found


@NIGHTLY
def test_a_twin_that_shows_how_many_were_clipped_is_found(tmp_path):
    """A number that nobody paid for."""
    params = PATHS["DPPenaltyMCMC, clipped"].get_params(deep=False)
    assert {"attributes", "pickle"} <= told_apart_on_paths(KeepsACount(**params), tmp_path, 4)


def test_contents_see_what_is_inside():
    """Two objects that differ in an array deep inside are told apart, and equal ones are not."""
    from .kept import contents

    pairs = itertools.product([{"a": [np.zeros(2)]}], [{"a": [np.zeros(2)]}, {"a": [np.array([0.0, 1e-300])]}])
    assert [contents(one) == contents(other) for one, other in pairs] == [True, False]
    assert contents(GaussianMean(1)) != contents(GaussianMean(2))
