"""Private linear regression against weighted draws from the prior, its number of records known or not."""

from functools import cache
from math import log
from typing import NamedTuple

import numpy as np
import pytest
import regression_oracle as oracle
from scipy import stats
from statistical import Disagreement, effective_sample_size

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix._base.compiled import compiled, lower
from sklearn_dpmix.estimators.curator import _regression_problems
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import GaussianPredictors, RegressionPrior
from sklearn_dpmix.models._regression_model import ClampedRegression
from sklearn_dpmix.models._regression_prior import log_coefs
from sklearn_dpmix.queries import NoisyCount, RegressionMoments
from sklearn_dpmix.samplers.augmentation._regression_count import NoisyRegressionNumber

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


class Case(NamedTuple):
    """A release of few records and what is known."""

    n: int
    x_bounds: tuple
    y_bounds: tuple
    mechanism: type
    scale: float
    release: tuple
    sigma: float | None = None
    mean: tuple | None = None
    covariance: tuple | None = None

    @property
    def p(self):
        return len(self.x_bounds)

    def query(self):
        return RegressionMoments(self.x_bounds, self.y_bounds, self.p)


CASES = {
    "one predictor, nothing known": Case(
        3, ((-1.0, 1.5),), (-2.0, 2.0), LaplaceMechanism, 0.5, (1.9, 1.1, 1.6, 0.4, 1.2)
    ),
    "much is clamped": Case(
        2, ((-0.5, 0.5),), (-1.0, 1.0), LaplaceMechanism, 0.4, (-1.3, -0.2, 1.7, 0.6, 1.5), mean=(0.2,)
    ),
    "two predictors, two releases": Case(
        2,
        ((-2.0, 2.0), (-1.0, 3.0)),
        (-4.0, 4.0),
        GaussianMechanism,
        0.8,
        ((0.5, 0.2, -0.9, 1.0, 0.3, -1.0, 0.4, 0.1, 0.9), (-0.3, 0.9, -0.1, 0.3, -0.8, -0.2, 1.2, -0.4, 0.5)),
    ),
    "residual and predictors known": Case(
        4, ((-1.0, 1.0),), (-3.0, 3.0), LaplaceMechanism, 0.6, (2.2, 1.5, 2.4, 0.9, 1.0), 0.8, (0.3,), ((0.7,),)
    ),
}
PRIOR = {"coef_scale": 1.5, "sigma_shape": 2.5, "sigma_scale": 1.2}


def quantities(coefs, sigma, mean, covariance):
    """What is compared: numbers with finite variance, (..., n)."""
    diagonal = np.log(np.diagonal(covariance, axis1=-2, axis2=-1))
    return np.concatenate([coefs, np.log(sigma)[..., None], mean, diagonal], axis=-1)


@cache
def truth(name):
    """Posterior means by draws from the prior, with their Monte Carlo errors."""
    case, rng = CASES[name], np.random.default_rng(17)
    lo, width = np.array(case.x_bounds)[:, 0], np.diff(case.x_bounds).ravel()
    residual = oracle.Residual(None if case.sigma is None else case.sigma**2, 2.5, 1.2)
    predictors = oracle.Predictors(
        tuple(lo + 0.5 * width) if case.mean is None else case.mean,
        np.diag(width**2 / 16) if case.covariance is None else case.covariance,
        np.diag(width**2 / 4) if case.mean is None else None,
        case.p + 2 if case.covariance is None else None,
    )
    noise = oracle.NOISE["laplace" if case.mechanism is LaplaceMechanism else "gaussian"](case.scale)
    values, weights, p = [], [], case.p
    for _ in range(12):
        theta = oracle.draw_prior(rng, 100_000, 1.5, residual, predictors)
        records = oracle.draw_records(rng, theta, case.n, p)
        statistic = oracle.regression_moments(*records, case.x_bounds, case.y_bounds)
        covariance = np.empty((len(theta), p, p))
        rows, columns = np.triu_indices(p)
        covariance[:, rows, columns] = covariance[:, columns, rows] = theta[:, 2 * p + 2 :]
        mean = theta[:, p + 2 : 2 * p + 2]
        values.append(quantities(theta[:, : p + 1], np.sqrt(theta[:, p + 1]), mean, covariance))
        weights.append(oracle.log_release(case.release, statistic, noise))
    return oracle.weighted_summary(np.concatenate(values), np.concatenate(weights))


def assert_means_are(exact, columns):
    """Means of draws are the oracle's within the errors of both; a quantity that is known is so to the last digits."""
    for j, column in enumerate(columns):
        if np.ptp(column) < 1e-9:  # known
            assert abs(column[0, 0] - exact.mean[j]) < 1e-9
            continue
        ess = effective_sample_size(column, what=f"quantity {j}")
        error = np.hypot(column.std() / np.sqrt(ess), exact.mean_error[j])
        if abs(column.mean() - exact.mean[j]) > stats.norm.isf(0.5e-6) * error:
            raise Disagreement(f"quantity {j}: {column.mean():.4f}, expected {exact.mean[j]:.4f} ± {error:.4f}")


def check(name, interweave=True, scale=1.0):
    """Fit, and compare posterior means with the oracle's; ``scale`` multiplies that of the noise."""
    case = CASES[name]
    model = PrivateLinearRegressionDA(
        case.mechanism(scale=scale * case.scale, query=case.query()),
        prior=RegressionPrior(**PRIOR, sigma=case.sigma),
        x_model=GaussianPredictors(case.mean, case.covariance),
        n_records=case.n,
        interweave=interweave,
        n_warmup=2000,
        n_draws=8_000,
        thin=3 if interweave else 20,
        random_state=5,
    ).fit(np.array(case.release))
    coefs = np.concatenate([model.intercept_draws_[..., None], model.coef_draws_], axis=-1)
    draws = quantities(coefs, model.sigma_draws_, model.x_mean_draws_, model.x_covariance_draws_)
    assert_means_are(truth(name), np.moveaxis(draws, -1, 0))


TAKES_A_MINUTE = "two predictors, two releases"


@pytest.mark.slow
@pytest.mark.parametrize("interweave", [True, False])
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.nightly] * (name == TAKES_A_MINUTE)) for name in CASES]
)
def test_posterior_is_exact(name, interweave):
    """Catches a wrong target of the record moves, the conjugate updates or the random walk."""
    check(name, interweave)


class ForgetsToClamp(ClampedRegression):
    """Contributions of records as they are."""

    @compiled
    def contribute(self, records, i, contributions, row):
        p, at = self.p, 2 * self.p + 2
        y = (records[i, p] - self.centre[p]) * self.rate[p]
        contributions[row, 0] = y
        contributions[row, p + 1] = y * y
        for j in range(p):
            x = (records[i, j] - self.centre[j]) * self.rate[j]
            contributions[row, p + 2 + j] = x
            contributions[row, 1 + j] = x * y
            for r in range(j, p):
                contributions[row, at] = x * (records[i, r] - self.centre[r]) * self.rate[r]
                at += 1


class JacobianOfSigmaForgotten(ClampedRegression):
    """The prior of σ² where that of log σ belongs."""

    @compiled
    def log_prior_block(self, theta, block):
        value = 0.0
        if block == 0:
            value = log_coefs(self.coef_whiten, self.coef_mean, theta, self.p + 1)
            return (
                value
                - 2.0 * (self.sigma_shape + 1.0) * log(theta[self.p + 1])
                - self.sigma_scale / (theta[self.p + 1] ** 2)
            )
        value -= 0.5 * self.x.mean_precision[0] * (theta[3] - self.x.mean_prior[0]) ** 2
        return value + self.log_factor(theta)

    @compiled
    def log_factor(self, theta):
        d = theta[4]
        return (2.0 - (self.x.wishart_dof + 2.0)) * log(d) - 0.5 * self.x.wishart_scale[0] / (d * d)


class JacobianOfTheFactorForgotten(JacobianOfSigmaForgotten):
    """The prior of C where that of the logs of its factor belongs; that of log σ is right."""

    @compiled
    def log_prior_block(self, theta, block):
        value = 0.0
        if block == 0:
            value = log_coefs(self.coef_whiten, self.coef_mean, theta, 2)
            return value - 2.0 * self.sigma_shape * log(theta[2]) - self.sigma_scale / (theta[2] ** 2)
        value -= 0.5 * self.x.mean_precision[0] * (theta[3] - self.x.mean_prior[0]) ** 2
        return value - (self.x.wishart_dof + 2.0) * log(theta[4]) - 0.5 * self.x.wishart_scale[0] / (theta[4] ** 2)


class DegreesOfFreedomOffByOne(ClampedRegression):
    """The predictors' covariance given the records has one degree of freedom too few."""

    def _lower(self, **context):
        value, law = super()._lower(**context), self.x._lower()
        x = {name: getattr(law, name) for name in law._fields}
        x["wishart_dof"] -= 1.0
        fields = {name: getattr(value, name) for name in value._fields}
        return lower(type(self), fields | {"x": lower(type(self.x), x)})


TWINS = [
    ("much is clamped", ForgetsToClamp),
    pytest.param("one predictor, nothing known", JacobianOfSigmaForgotten, marks=pytest.mark.nightly),
    pytest.param("one predictor, nothing known", JacobianOfTheFactorForgotten, marks=pytest.mark.nightly),
    pytest.param("one predictor, nothing known", DegreesOfFreedomOffByOne, marks=pytest.mark.nightly),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "twin"), TWINS)
def test_broken_twin_is_rejected(name, twin, monkeypatch):
    """The same check disagrees with each twin."""
    monkeypatch.setattr(_regression_problems, "ClampedRegression", twin)
    with pytest.raises(Disagreement):
        check(name)


@pytest.mark.slow
def test_wrong_noise_is_rejected():
    with pytest.raises(Disagreement):
        check("residual and predictors known", scale=1.3)


COUNT = NoisyCount(2.3, LaplaceMechanism(scale=0.6))
OPEN_CASE = CASES["one predictor, nothing known"]


@cache
def truth_of_open_case():
    """Posterior means of the coefficients, log σ and the number of records, a flat prior on 0..most included."""
    rng = np.random.default_rng(23)
    residual = oracle.Residual(None, 2.5, 1.2)
    predictors = oracle.Predictors((0.25,), np.array([[2.5**2 / 16]]), np.array([[2.5**2 / 4]]), 3)
    noise, values, weights = oracle.NOISE["laplace"](OPEN_CASE.scale), [], []
    for n in range(14):  # beyond, the noisy number has probability e^-19
        theta = oracle.draw_prior(rng, 150_000, 1.5, residual, predictors)
        statistic = np.zeros((len(theta), 5))
        if n:
            records = oracle.draw_records(rng, theta, n, 1)
            statistic = oracle.regression_moments(*records, OPEN_CASE.x_bounds, OPEN_CASE.y_bounds)
        values.append(np.column_stack([theta[:, :2], np.log(theta[:, 2]) / 2, np.full(len(theta), n)]))
        weights.append(oracle.log_release(OPEN_CASE.release, statistic, noise) - abs(2.3 - n) / 0.6)
    return oracle.weighted_summary(np.concatenate(values), np.concatenate(weights))


def check_open_case(count):
    model = PrivateLinearRegressionDA(
        LaplaceMechanism(scale=OPEN_CASE.scale, query=OPEN_CASE.query()),
        prior=RegressionPrior(**PRIOR),
        x_model=GaussianPredictors(),
        n_records=count,
        n_warmup=1000,
        n_draws=8_000,
        thin=3,
        random_state=5,
    ).fit(np.array(OPEN_CASE.release))
    draws = [model.intercept_draws_, model.coef_draws_[..., 0], np.log(model.sigma_draws_), model.n_records_draws_]
    assert_means_are(truth_of_open_case(), draws)


@pytest.mark.nightly
def test_an_unknown_number_of_records_is_exact():
    """Births and deaths against draws from the prior; catches a ratio that forgets the noisy number or a place."""
    check_open_case(COUNT)


class DeathsTooRare(NoisyRegressionNumber):
    """The place's probability 1/n is in the ratio once too often."""

    @compiled
    def gain(self, count, n, new):
        ratio = self.mechanism.log_release(count, 0, 0, new) - self.mechanism.log_release(count, 0, 0, n)
        return ratio + log((n + 1.0) / (new + 1.0))


@pytest.mark.slow
def test_a_broken_birth_is_rejected(monkeypatch):
    monkeypatch.setattr(_regression_problems, "NoisyRegressionNumber", DeathsTooRare)
    with pytest.raises(Disagreement):
        check_open_case(COUNT)
