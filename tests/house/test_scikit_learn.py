"""scikit-learn's own checks of every estimator; also run on the oldest scikit-learn that we support."""

import inspect

import numpy as np
import pytest
import sklearn
from sklearn.base import BaseEstimator
from sklearn.model_selection import GridSearchCV
from sklearn.utils.estimator_checks import parametrize_with_checks
from sklearn.utils.fixes import parse_version

from sklearn_dpmix import (
    DPBarkerMCMC,
    DPHamiltonianMC,
    DPLogisticRegressionMCMC,
    DPPenaltyMCMC,
    PrivateDPMixture,
    PrivateDPMixtureRegressor,
    PrivateLinearRegressionDA,
    PrivateNaiveBayesDA,
    PrivatePosteriorDA,
    kernels,
    mechanisms,
    mixings,
    samplers,
)


class NormalRecords:
    """A user's model: each entry of a record is N(θ, 1), the prior flat."""

    theta_init = [0.0]

    def __repr__(self):  # the same in every process: it is in the names of tests
        return "NormalRecords()"

    def sample_records(self, rng, theta, n):
        return rng.normal(theta[0], 1.0, (n, 1))

    def sample_posterior(self, rng, records, theta):
        return rng.normal(records.mean(), records.size**-0.5, 1)

    def log_prior(self, theta):
        return -0.005 * theta[:, 0] ** 2

    def log_density(self, X, theta):
        return -0.5 * np.sum((X - theta[0]) ** 2, axis=1)

    def grad_log_density(self, X, theta):
        return np.sum(X - theta[0], axis=1)[:, None]


SHORT = {"n_chains": 1, "n_warmup": 20, "n_draws": 30}
NEEDS_Y = "score_samples(X, y) is the density of y given X: it needs y"
SCORES_Y = {"check_methods_sample_order_invariance": NEEDS_Y, "check_methods_subset_invariance": NEEDS_Y}
CANNOT_APPLY = {"PrivateDPMixtureRegressor": SCORES_Y, "PrivateLinearRegressionDA": SCORES_Y}

if parse_version(sklearn.__version__) < parse_version("1.7"):
    CANNOT_APPLY["PrivateNaiveBayesDA"] = {
        "check_positive_only_tag_during_fit": "the check itself takes a mean off integers, and fails"
    }


def cannot_apply(estimator):
    """Checks that cannot apply to an estimator, and why."""
    return CANNOT_APPLY.get(type(estimator).__name__, {})


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@parametrize_with_checks(
    [
        PrivateDPMixture(),
        PrivateDPMixture(**SHORT),
        PrivateDPMixtureRegressor(**SHORT),
        PrivateDPMixtureRegressor(linear=True, **SHORT),
        PrivateLinearRegressionDA(**SHORT),
        PrivateNaiveBayesDA(**SHORT),
        PrivatePosteriorDA(model=NormalRecords(), **SHORT),
        DPPenaltyMCMC(model=NormalRecords(), n_iter=60, n_chains=1),
        DPHamiltonianMC(model=NormalRecords(), n_iter=20, n_chains=1),
        DPBarkerMCMC(model=NormalRecords(), n_iter=60, n_chains=1, batch_size=None),
        DPLogisticRegressionMCMC(),
    ],
    expected_failed_checks=cannot_apply,
)
def test_scikit_learns_checks(estimator, check):
    """Catches a departure from scikit-learn's conventions; none is expected to fail but those that cannot apply."""
    check(estimator)


def components():
    """All public classes that are parameters of estimators."""
    found = {getattr(module, name) for module in (kernels, mechanisms, mixings, samplers) for name in module.__all__}
    return sorted(filter(inspect.isclass, found), key=lambda cls: cls.__name__)


@pytest.mark.parametrize("component", components())
def test_components_keep_scikit_learns_methods(component):
    """Catches a compiled method of that name, with which no search can set a component's parameters."""
    if issubclass(component, BaseEstimator):
        assert component.set_params is BaseEstimator.set_params
        assert component.get_params is BaseEstimator.get_params


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_a_search_over_parameters_of_a_kernel():
    Z = np.random.default_rng(0).normal(size=(30, 1))
    model = PrivateDPMixture(kernel=kernels.NormalKernel(mean=0.0, scale=1.0), random_state=0, **SHORT)
    search = GridSearchCV(model, {"kernel__scale": [0.01, 2.0, 500.0]}, cv=2).fit(Z)
    assert search.best_params_ == {"kernel__scale": 2.0}
    assert search.best_estimator_.kernel_.scale == 2.0
