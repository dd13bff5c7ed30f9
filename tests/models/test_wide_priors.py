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
    DirichletPrior,
    Exponential,
    GammaProductPrior,
    LogLogisticPrior,
    MeanPrecisionPrior,
    Multinomial,
    Normal,
    NormalCauchyPrior,
    WideDirichletPrior,
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


def shares_of(counts, prior=None, epsilon=1.0, **options):
    """A fit of categories."""
    family = Multinomial(len(counts))
    mechanism = LaplaceMechanism(epsilon, query=SufficientStatistics(family))
    S = mechanism.privatize(np.repeat(np.arange(len(counts)), counts)[:, None], random_state=1)
    options = {"n_records": sum(counts), "random_state": 0, **options}
    return PrivateExpFamilyGibbs(mechanism, family=family, prior=prior, **options).fit(S)


def test_many_categories_of_which_most_are_empty():
    """A fixed α counts for α records in each category: two fifths of all records went to the empty ones."""
    counts = [250, 150, 75, 25] + 96 * [0]
    fixed, model = shares_of(counts, DirichletPrior(1.0), n_draws=200), shares_of(counts, n_draws=500)
    assert isinstance(model.prior_, WideDirichletPrior)
    low, high = np.quantile(model.theta_draws_[..., :3], [0.005, 0.995], axis=(0, 1))
    assert np.all((low < [0.5, 0.3, 0.15]) & ([0.5, 0.3, 0.15] < high))
    assert np.quantile(fixed.theta_draws_[..., 0], 0.995) < 0.5
    assert fixed.theta_draws_[..., 4:].sum(axis=-1).mean() > 0.25
    assert model.theta_draws_[..., 4:].sum(axis=-1).mean() < 0.05
    assert max(model.r_hat_.values()) < 1.02


def test_categories_that_are_equally_frequent():
    """They are found to be, and more exactly than under a uniform prior."""
    counts = 50 * [20]
    fixed, model = (shares_of(counts, prior, n_draws=300) for prior in (DirichletPrior(1.0), None))
    np.testing.assert_allclose(model.theta_draws_.mean(axis=(0, 1)), 0.02, rtol=0.25)
    assert model.theta_draws_.std(axis=(0, 1)).mean() < 0.7 * fixed.theta_draws_.std(axis=(0, 1)).mean()


def test_a_release_of_noise_leaves_the_prior_of_shares():
    """Of the largest and of the first share."""
    prior = WideDirichletPrior(2.0)
    model = PrivateExpFamilyGibbs(
        LaplaceMechanism(scale=1e5), family="multinomial", prior=prior, n_records=60, n_warmup=200, n_draws=300,
        thin=40, random_state=0,
    ).fit([20.0, 25.0, 15.0, 0.0])  # fmt: skip
    theta, expected = model.theta_draws_.reshape(-1, 4), prior.draw(np.random.default_rng(0), 20_000, Multinomial(4))
    for of in (np.max, lambda theta, axis: theta[:, 0], np.var):
        assert stats.ks_2samp(of(theta, axis=1), of(expected, axis=1)).pvalue > 1e-4


def test_an_unknown_concentration_is_in_a_checkpoint(tmp_path):
    counts, path = [40, 9, 2, 0, 0], tmp_path / "chains"
    one_run = shares_of(counts, n_warmup=50, n_draws=150)
    shares_of(counts, n_warmup=50, n_draws=40, checkpoint=path)
    resumed = shares_of(counts, n_warmup=50, n_draws=150, checkpoint=path)
    np.testing.assert_array_equal(resumed.theta_draws_, one_run.theta_draws_)


def test_densities_of_conjugate_priors_are_scipys():
    theta = np.array([[0.2, 0.5, 0.3], [0.0, 0.7, 0.3], [0.2, 0.5, 0.2], [0.1, 0.1, 0.8]])
    for alpha in (0.7, [2.0, 1.0, 0.5]):
        full = np.broadcast_to(alpha, 3)
        expected = [stats.dirichlet.logpdf(theta[0], full), -np.inf, -np.inf, stats.dirichlet.logpdf(theta[3], full)]
        np.testing.assert_allclose(DirichletPrior(alpha).log_density(theta), expected)
    pairs = np.array([[0.4, 3.0], [2.0, -1.0]])
    shape, rate = np.array([2.0, 1.5]), np.array([0.1, 3.0])
    expected = stats.gamma.logpdf(pairs, shape, scale=1.0 / rate).sum(axis=1)
    np.testing.assert_allclose(GammaProductPrior(shape, rate).log_density(pairs), expected)


def test_the_wide_prior_of_shares():
    """The density of two shares integrates to 1, and is that of the draws; α is log-logistic."""
    prior = WideDirichletPrior(0.5)
    logit_grid = np.linspace(-300.0, 300.0, 6001)
    first, second = 1.0 / (1.0 + np.exp(-logit_grid)), 1.0 / (1.0 + np.exp(logit_grid))
    density = np.exp(prior.log_density(np.column_stack([first, second]))) * first * second
    cdf = np.cumsum(density) * 0.1
    assert cdf[-1] == pytest.approx(1.0, abs=0.02)  # the rest is beyond 10⁻¹³⁰
    draws = prior.draw(np.random.default_rng(0), 20_000, Multinomial(2))[:, 0]
    for at in (1e-6, 0.01, 0.3, 0.5, 0.9):
        assert np.mean(draws < at) == pytest.approx(np.interp(at, first, cdf) / cdf[-1], abs=0.02)
    assert np.all(prior.log_density(np.array([[0.0, 1.0], [0.5, 0.6]])) == -np.inf)
    with pytest.raises(ValueError, match="alpha of WideDirichletPrior must be a positive"):
        WideDirichletPrior(0.0).check()


@pytest.mark.parametrize("mechanism, approximation", [(None, "auto"), (LaplaceMechanism(scale=0.5), "normal")])
def test_counts_that_are_known_or_normal_need_a_conjugate_prior(mechanism, approximation):
    options = {"family": "multinomial", "n_records": 600, "approximation": approximation}
    with pytest.raises(ValueError, match=r"Dirichlet.*, got .*: this one needs a mechanism and approximation='exact'"):
        PrivateExpFamilyGibbs(mechanism, prior=WideDirichletPrior(), **options).fit([100.0, 200.0, 300.0])
    model = PrivateExpFamilyGibbs(mechanism, **options).fit([100.0, 200.0, 300.0])
    assert isinstance(model.prior_, DirichletPrior)


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
