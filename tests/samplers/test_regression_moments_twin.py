"""Linear regression given the design against a slow twin: long random walks on the density as the model states it."""

from functools import cache
from math import exp, lgamma, log

import numpy as np
import pytest
from regression_moments_twin import NoDeterminant, Problem, TooManyDegrees, Twin
from scipy import stats
from statistical import Disagreement, assert_means_agree

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.estimators.curator import _regression_problems
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import RegressionPrior
from sklearn_dpmix.models._regression_moments import MomentRegression
from sklearn_dpmix.queries import NoisyCount, RegressionMoments

BOUNDS = ((-1.0, 3.0), (-2.0, 1.0))  # of y, of each x
COEF_SCALE, SHAPE, SCALE = 0.8, 2.0, 0.2

CASES = {  # p, n, noise, its scale, releases, scale of the noise of n where that is unknown
    "laplace": (1, 60, "Laplace", 4.0, 1, None),
    "gaussian, two releases": (1, 60, "Gaussian", 8.0, 2, None),
    "number unknown": (1, 12, "Laplace", 3.0, 1, 3.0),
    "two predictors": (2, 25, "Laplace", 4.0, 1, None),
    "three predictors": (3, 20, "Laplace", 4.0, 1, None),
    "little noise": (1, 12, "Laplace", 0.3, 1, None),
    "constant predictor": (1, 300, "Laplace", 4.0, 1, None),
}


def query(p):
    return RegressionMoments([BOUNDS[1]] * p, BOUNDS[0], p)


def released(name):
    """(mechanism, releases, noisy count or None) of records that people might have."""
    p, n, noise, scale, n_releases, count_scale = CASES[name]
    rng = np.random.default_rng(21)
    mechanism = (LaplaceMechanism if noise == "Laplace" else GaussianMechanism)(scale=scale, query=query(p))
    x = np.full((n, p), -0.5) if name == "constant predictor" else rng.uniform(-2, 1, (n, p))
    y = 1.0 + x @ np.array([0.7, -0.4, 0.2])[:p] + 0.4 * rng.standard_normal(n)
    S = np.array([mechanism.privatize(np.column_stack([x, y]), random_state=rng) for _ in range(n_releases)])
    return mechanism, S, None if count_scale is None else float(n + rng.laplace(scale=count_scale))


@cache
def fitted(name):
    """The package's draws of what :meth:`Twin.quantities` has."""
    return fit(name)


def fit(name):
    mechanism, S, count = released(name)
    n, count_scale = CASES[name][1], CASES[name][5]
    number = n if count is None else NoisyCount(count, LaplaceMechanism(scale=count_scale))
    prior = RegressionPrior(COEF_SCALE, sigma_shape=SHAPE, sigma_scale=SCALE)
    model = PrivateLinearRegressionDA(mechanism, prior=prior, n_records=number, n_draws=10_000, random_state=3).fit(S)
    half, middle = np.ptp(BOUNDS[1]) / 2, np.mean(BOUNDS[1])
    mean = (model.x_mean_draws_[..., 0] - middle) / half
    draws = [model.intercept_draws_, *np.moveaxis(model.coef_draws_, -1, 0), np.log(model.sigma_draws_)]
    draws += [mean, model.x_covariance_draws_[..., 0, 0] / half**2 + mean**2]
    return np.stack([*draws, *([] if count is None else [model.n_records_draws_])], axis=-1)


def agrees(name, twin=Twin, n_chains=300, n_steps=3000, min_ess=800):
    """Means and mean squares of coefficients, log σ, the design's first moments, and n."""
    p, n, noise, scale, _, count_scale = CASES[name]
    _, S, count = released(name)
    law = (stats.laplace if noise == "Laplace" else stats.norm)(scale=scale)
    counted = None if count is None else (count, stats.laplace(scale=count_scale))
    problem = Problem(n, p, BOUNDS, COEF_SCALE, SHAPE, SCALE, law, S, counted)
    draws = twin(problem).run(np.random.default_rng(4), n_chains, n_steps, thin=20)
    ours = fitted(name)
    centre = ours.mean(axis=(0, 1))
    both = [np.concatenate([part, (part - centre) ** 2], axis=-1) for part in (ours, draws)]
    assert_means_agree(*both, min_ess=min_ess, what=name)


@pytest.mark.slow
def test_the_posterior_is_that_of_a_slow_twin():
    """Catches a wrong density, Jacobian, set of moments, reflection or unit."""
    agrees("laplace")


@pytest.mark.slow
def test_a_twin_without_a_determinant_is_rejected():
    with pytest.raises(Disagreement):
        agrees("laplace", NoDeterminant)


@pytest.mark.nightly
@pytest.mark.parametrize("name", [name for name in CASES if name != "laplace"])
def test_other_posteriors_are_those_of_a_slow_twin(name):
    """Three predictors are beyond weighted draws from the prior.  Random walks of more numbers take more steps."""
    agrees(name, n_steps=10_000 * CASES[name][0])


@pytest.mark.nightly
def test_a_twin_with_too_many_degrees_of_freedom_is_rejected():
    with pytest.raises(Disagreement):
        agrees("little noise", TooManyDegrees, n_steps=10_000)  # more would hide what the residuals say


class NumberWithoutVolume(MomentRegression):
    """A walk of n that takes the densities of G/n and w for those of G and b."""

    @compiled
    def log_given_sums(self, point, moments, work):
        half, log_q = 0.5 * self.degrees(self.number(point)), point[self.design + 2 * self.d]
        value = self.log_design(point, moments, work) + half * (log_q - log(2.0)) - 0.5 * exp(log_q) - lgamma(half)
        return value - (2.0 + 2.0 * self.shape) * log(self.tau(point)) - self.scale / self.tau(point) ** 2 - log_q


@pytest.mark.nightly  # compiles the sampler anew
def test_a_walk_of_the_number_with_a_wrong_density_is_rejected(monkeypatch):
    right = fitted("number unknown")
    monkeypatch.setattr(_regression_problems, "MomentRegression", NumberWithoutVolume)
    with pytest.raises(Disagreement):
        assert_means_agree(fit("number unknown"), right, min_ess=800, what="number unknown")
