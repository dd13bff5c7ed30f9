"""Priors with power tails: what they find where noise hides a scale, their densities, draws and updates."""

import numpy as np
import pytest
from exp_family_case import MIXED
from scipy import stats
from scipy.special import logit

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import (
    Beta,
    Exponential,
    GammaProductPrior,
    LogLogisticPrior,
    MeanPrecisionPrior,
    Normal,
    NormalCauchyPrior,
    resolve_family,
)
from sklearn_dpmix.models._family_records import RECORD_MODELS
from sklearn_dpmix.queries import SufficientStatistics

pytestmark = pytest.mark.filterwarnings(MIXED)

NARROW = {
    "normal": (lambda rng: rng.normal(400.0, 3.0, 400), (0.0, 1000.0)),
    "exponential": (lambda rng: rng.exponential(2.0, 400), (0.0, 1000.0)),
    "beta": (lambda rng: rng.beta(2000.0, 3000.0, 400), (0.001, 0.999)),
}


@pytest.mark.parametrize(
    "name, approximation",
    [
        ("normal", "exact"), ("normal", "normal"), ("exponential", "exact"), ("exponential", "normal"),
        ("beta", "normal"),
    ],
)  # fmt: skip
def test_a_population_that_fills_little_of_the_bounds(name, approximation):
    """What a conjugate default took for impossible: an sd or a mean of 0.2 to 0.7 % of the width."""
    rng = np.random.default_rng(3)
    narrow, bounds = NARROW[name]
    mechanism = LaplaceMechanism(epsilon=2.0, query=SufficientStatistics(name, bounds))
    S = mechanism.privatize(narrow(rng)[:, None], random_state=1)
    options = {"family": name, "n_records": 400, "random_state": 0, "n_chains": 2, "n_draws": 500}

    def misses(**prior):
        model = PrivateExpFamilyGibbs(mechanism, approximation=approximation, **options, **prior).fit(S)
        first, second = model.theta_draws_[..., 0], model.theta_draws_[..., -1]
        scale = {"normal": np.sqrt(second), "exponential": 1.0 / first, "beta": 0.49 / np.sqrt(first + second)}[name]
        return np.quantile(scale, 0.005) > {"normal": 3.0, "exponential": 2.0, "beta": 0.0069}[name]

    assert not misses()
    family = resolve_family(name)
    assert misses(prior=GammaProductPrior() if name == "beta" else family.default_prior(bounds))


def check_updates(family, prior, bounds, theta, rng):
    """Imputed records' updates keep the prior where there are no records, and find what many are drawn from."""
    draws, work = prior.draw(rng, 20_000, family), np.zeros((1, 2))
    model = RECORD_MODELS[family.names[0]](family, prior, bounds, "clamp", None, None, None)._lower()
    after = draws[:4000].copy()
    for row in after:
        for _ in range(2):
            model.update_theta(rng, row, np.zeros((0, 1)), 0, work)
    for before, found in zip(draws.T, after.T, strict=True):
        assert stats.ks_2samp(before[4000:], found).pvalue > 1e-6
    records, row = family.draw(rng, np.tile(theta, (4000, 1)))[:, None], draws[0].copy()
    records = logit(records) if isinstance(family, Beta) else records  # as the model holds them
    for _ in range(5):
        model.update_theta(rng, row, records, 4000, work)
    np.testing.assert_allclose(row, theta, rtol=0.2)
    return model, draws


@pytest.mark.parametrize(
    "family, prior, theta",
    [(Normal(), NormalCauchyPrior(2.0, 3.0, 0.5), [1.0, 4.0]), (Exponential(), LogLogisticPrior(0.2), [1.0])],
)
def test_wide_priors_of_scales(family, prior, theta):
    """Density, draws and updates say the same."""
    model, draws = check_updates(family, prior, (0.0, 1.0), theta, np.random.default_rng(0))
    grid = np.quantile(draws[:, -1], np.linspace(0.02, 0.98, 200))
    theta = np.column_stack([*([np.full(200, 2.0)] if family.n_params == 2 else []), grid])
    density = np.exp(prior.log_density(theta)) * (np.pi * 3.0 if family.n_params == 2 else 1.0)  # of the scale alone
    assert np.trapezoid(density, grid) == pytest.approx(0.96, abs=0.01)
    log_prior = [model.log_prior_block(row, 0) for row in theta]
    of_log = prior.log_density(theta) + np.log(grid)
    np.testing.assert_allclose(np.diff(log_prior), np.diff(of_log), rtol=1e-8, atol=1e-10)


def test_the_wide_prior_of_beta_records():
    """Mean and precision have the distributions that the docstring says; the density integrates to 1."""
    prior = MeanPrecisionPrior(3.0)
    _, draws = check_updates(Beta(), prior, (0.1, 0.9), [1.0, 4.0], np.random.default_rng(0))
    both = draws.sum(axis=1)
    assert stats.kstest(draws[:, 0] / both, "uniform").pvalue > 1e-6
    assert stats.kstest(1.0 / np.sqrt(both), stats.halfcauchy(scale=3.0**-0.5).cdf).pvalue > 1e-6
    grid = np.geomspace(1e-7, 1e9, 2000)  # at means of 1/3: da db = s dm ds
    density = np.exp(prior.log_density(np.column_stack([grid, 2.0 * grid]) / 3.0)) * grid
    assert np.trapezoid(density * grid, np.log(grid)) == pytest.approx(1.0, abs=2e-4)
