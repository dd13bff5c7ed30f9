"""Linear regression given the design: against weighted draws from the prior, the conjugate posterior, and twins."""

import warnings
from functools import cache
from math import log

import numpy as np
import pytest
from regression_records import BOUNDS, POPULATIONS, SHORT, population, query
from scipy import stats
from statistical import Disagreement, assert_mean_close, assert_ranks_uniform, effective_sample_size

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.estimators.curator import _regression, _regression_problems
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import GaussianPredictors, HistogramPredictors, RegressionPrior
from sklearn_dpmix.models._regression_moments import MomentRegression
from sklearn_dpmix.models._regression_prior import draw_residual, log_residual, residual_force
from sklearn_dpmix.queries import NoisyCount, RegressionMoments

PRIOR = RegressionPrior(coef_scale=0.8, sigma_shape=2.0, sigma_scale=0.2)
CASES = {  # p, n, mechanism, release: drawn once by :func:`draw_prior` and noise
    "laplace": (1, 6, LaplaceMechanism(scale=2.0, query=query(1)), ((-2.1, 1.3, 3.2, 1.9, 3.4),)),
    "gaussian, two releases": (
        1,
        9,
        GaussianMechanism(scale=2.5, query=query(1)),
        ((1.5, -2.0, 1.0, -3.0, 2.9), (-0.5, 0.3, 4.0, -1.0, 4.0)),
    ),
    "two predictors": (
        2,
        8,
        LaplaceMechanism(scale=3.0, query=query(2)),
        ((-2.0, 1.0, -1.0, 3.0, 0.5, -2.0, 3.0, 1.0, 5.0),),
    ),
    "impossible moments": (1, 5, LaplaceMechanism(scale=3.0, query=query(1)), ((3.0, -2.0, -4.0, -9.0, -2.0),)),
}


# --- an oracle that shares no line with the package ------------------------------------------------------------------


def draw_design(rng, size, p):
    """G/n, flat on what laws on [-1, 1]^p can have (p <= 2): (size, p + 1, p + 1), by rejection."""
    kept = []
    while sum(map(len, kept)) < size:
        m, products = rng.uniform(-1, 1, (size, p)), rng.uniform(-1, 1, (size, p, p))
        G = np.ones((size, p + 1, p + 1))
        G[:, 0, 1:] = G[:, 1:, 0] = m
        products[:, range(p), range(p)] = rng.random((size, p))  # squares are positive
        G[:, 1:, 1:] = np.triu(products) + np.swapaxes(np.triu(products, 1), 1, 2)
        fine = np.ones(size, dtype=bool)
        for a in (-1, 1):
            for b in (-1, 1):
                for j in range(1, p + 1):
                    for k in range(1, p + 1):  # E (1 + a x_j)(1 + b x_k)
                        fine &= 1 + a * m[:, j - 1] + b * m[:, k - 1] + a * b * G[:, j, k] >= 0
        G = G[fine]
        kept.append(G[np.linalg.eigvalsh(G)[:, 0] > 0])
    return np.concatenate(kept)[:size]


def draw_prior(rng, size, p, n):
    """(quantities, moments): α, β, log σ on the original scale, E x_1 where bounds are [-1, 1]; and the release's."""
    d = p + 1
    theta = PRIOR.coef_scale * rng.standard_normal((size, d))
    sigma = np.sqrt(PRIOR.sigma_scale / rng.standard_gamma(PRIOR.sigma_shape, size))
    (y_low, y_high), (low, high) = BOUNDS
    half_y, half = (y_high - y_low) / 2, (high - low) / 2
    gamma = theta * half / half_y
    gamma[:, 0] = (theta[:, 0] + theta[:, 1:].sum(axis=1) * (low + high) / 2 - (y_low + y_high) / 2) / half_y
    tau, G = sigma / half_y, n * draw_design(rng, size, p)
    noise = np.linalg.cholesky(G) @ rng.standard_normal((size, d, 1))
    b = (G @ gamma[..., None] + tau[:, None, None] * noise)[..., 0]
    explained = np.einsum("ti,ti->t", b, np.linalg.solve(G, b[..., None])[..., 0])
    c = explained + tau**2 * rng.chisquare(n - d, size)
    upper = G[(slice(None), *np.triu_indices(d))][:, 1:]
    values = np.column_stack([theta, np.log(sigma), G[:, 0, 1] / n])
    return values, np.column_stack([b, c, upper])


@cache
def truth(name):
    """(means, their Monte Carlo errors) of the posterior, by weighted draws from the prior."""
    p, n, mechanism, release = CASES[name]
    rng, values, weights = np.random.default_rng(3), [], []
    law = stats.laplace if isinstance(mechanism, LaplaceMechanism) else stats.norm
    for _ in range(12):
        drawn, moments = draw_prior(rng, 200_000, p, n)
        values.append(drawn)
        weights.append(sum(law.logpdf(row - moments, scale=mechanism.scale).sum(axis=1) for row in np.array(release)))
    values, weights = np.concatenate(values), np.concatenate(weights)
    weights = np.exp(weights - weights.max())
    weights /= weights.sum()
    assert 1 / np.sum(weights**2) > 5000
    values = np.column_stack([values, values**2])
    mean = weights @ values
    return mean, np.sqrt(weights**2 @ (values - mean) ** 2)


def check(name, **changes):
    _, n, mechanism, release = CASES[name]
    model = PrivateLinearRegressionDA(mechanism, prior=PRIOR, n_records=n, n_draws=10_000, random_state=7)
    model.set_params(**changes).fit(np.array(release))
    middle, half = np.mean(BOUNDS[1]), np.ptp(BOUNDS[1]) / 2
    draws = [model.intercept_draws_, *np.moveaxis(model.coef_draws_, -1, 0), np.log(model.sigma_draws_)]
    draws.append((model.x_mean_draws_[..., 0] - middle) / half)
    draws = np.stack([*draws, *np.square(draws)], axis=-1)
    mean, error = truth(name)
    for j in range(draws.shape[-1]):
        column = draws[..., j]
        both = np.hypot(error[j], column.std() / np.sqrt(effective_sample_size(column, what=f"{name}[{j}]")))
        if abs(column.mean() - mean[j]) > stats.norm.isf(0.5e-6 / draws.shape[-1]) * both:
            raise Disagreement(f"{name}[{j}]: {column.mean():.4f}, expected {mean[j]:.4f} ± {both:.4f}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "name",
    [
        "laplace",
        "gaussian, two releases",
        pytest.param("two predictors", marks=pytest.mark.nightly),
        pytest.param("impossible moments", marks=pytest.mark.nightly),
    ],
)
def test_posterior_is_that_of_weighted_draws(name):
    """Catches a wrong density, force, Jacobian, set of moments or unit."""
    check(name)


class ResidualHasNDegreesOfFreedom(MomentRegression):
    @compiled
    def degrees(self, n):
        return n


class DesignWeighted(MomentRegression):
    """|G|^-1/2 forgotten in the density of b given G."""

    @compiled
    def log_prior(self, point, work):
        d, at = self.d, self.design
        value, half, log_q = 0.0, 0.5 * self.degrees(self.number(point)), point[at + 2 * d]
        for a in range(2 * d):
            value -= 0.5 * point[at + a] * point[at + a]
        for a in range(d):
            value += (1 + d - a if a > 0 else 0) * log(work[a, a])
        value += half * log_q - 0.5 * np.exp(log_q)
        log_tau = point[at + 2 * d + 1]
        return value - 2.0 * self.shape * log_tau - self.scale * np.exp(-2.0 * log_tau)


class NoNoiseOnSquares(LaplaceMechanism):
    """The noise of Σ y² is forgotten: it counts for nothing."""

    @compiled
    def log_release(self, S, r, j, value):
        return 0.0 if j == 2 else -abs(S[r, j] - value) * self.rate[r * self.each]


@pytest.mark.nightly  # each compiles the sampler anew
@pytest.mark.parametrize("twin", [ResidualHasNDegreesOfFreedom, DesignWeighted])
def test_a_broken_model_is_rejected(twin, monkeypatch):
    monkeypatch.setattr(_regression_problems, "MomentRegression", twin)
    with pytest.raises(Disagreement):
        check("laplace")


@pytest.mark.nightly
def test_broken_noise_is_rejected():
    with pytest.raises(Disagreement):
        check("laplace", mechanism=NoNoiseOnSquares(scale=2.0, query=query(1)))


@pytest.mark.slow
def test_noise_a_third_too_wide_is_rejected():
    with pytest.raises(Disagreement):
        check("laplace", mechanism=LaplaceMechanism(scale=2.7, query=query(1)))


# --- limits and units ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("scale", [1e-4, 1e-8])
def test_without_noise_it_is_the_conjugate_posterior(scale):
    """Two samplers, one of them closed form given σ: next to no noise against the records themselves."""
    rng = np.random.default_rng(5)
    x, y = population(rng, 40)
    mechanism = GaussianMechanism(scale=scale, query=query(2))
    S = mechanism.privatize(np.column_stack([x, y]), random_state=1)
    prior = RegressionPrior(1.5, sigma=0.25)
    model = PrivateLinearRegressionDA(mechanism, prior=prior, n_records=40, n_draws=3000, random_state=0).fit(S)
    design = np.column_stack([np.ones(40), x])
    covariance = np.linalg.inv(design.T @ design / 0.25**2 + np.eye(3) / 2.25)
    draws = np.concatenate([model.intercept_draws_[..., None], model.coef_draws_], axis=-1)
    assert_mean_close(draws, covariance @ design.T @ y / 0.25**2)
    assert_mean_close((draws - draws.mean(axis=(0, 1))) ** 2, np.diag(covariance))
    np.testing.assert_allclose(model.x_mean_draws_.mean(axis=(0, 1)), x.mean(axis=0), atol=1e-3)
    np.testing.assert_allclose(model.x_covariance_draws_.mean(axis=(0, 1)), np.cov(x.T, ddof=0), atol=1e-3)


def test_the_default_prior_of_residuals_is_half_cauchy():
    """Its density, the force of it, and the update given no residuals, which keeps it."""
    _, _, sigma, *numbers = RegressionPrior().scaled(np.array([[0.0, 3.0], [10.0, 14.0]]))
    law = stats.halfcauchy(scale=0.15)  # of half a width
    tau, step = np.geomspace(1e-5, 30.0, 100), 1e-5
    found = [log_residual(*numbers, one) for one in tau]
    np.testing.assert_allclose(np.diff(found), np.diff(law.logpdf(tau) + np.log(tau)), atol=1e-9)
    for one in tau:
        rise = log_residual(*numbers, one * np.exp(step)) - log_residual(*numbers, one * np.exp(-step))
        assert residual_force(*numbers, one) == pytest.approx(0.5 * rise / step, abs=1e-6)
    rng = np.random.default_rng(0)
    after = [draw_residual(rng, *numbers, one, 0, 0.0) for one in law.rvs(4000, random_state=1)]
    assert sigma is None and stats.kstest(after, law.cdf).pvalue > 1e-6
    fixed = RegressionPrior(sigma_shape=3.0, sigma_scale=0.2).scaled(np.array([[-1.0, 1.0]] * 2))[3:]
    after = [draw_residual(rng, *fixed, 1.0, 7, 0.3) for _ in range(4000)]
    assert stats.kstest(np.square(after), stats.invgamma(6.5, scale=0.35).cdf).pvalue > 1e-6


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("sigma", [0.001, 0.01])
def test_residuals_far_smaller_than_the_bounds(sigma):
    """A default prior that is worth a record of a twentieth of y's width held them for impossible."""
    rng, n = np.random.default_rng(3), 200_000
    x = rng.random(n)
    y = 0.2 + 0.5 * x + sigma * rng.standard_normal(n)
    mechanism = LaplaceMechanism(epsilon=5.0, query=RegressionMoments((0, 1), (0, 1), 1))
    S = mechanism.privatize(np.column_stack([x, y]), random_state=1)
    fit = PrivateLinearRegressionDA(mechanism, n_records=n, random_state=0).fit(S)
    assert np.quantile(fit.sigma_draws_, 0.005) < sigma < np.quantile(fit.sigma_draws_, 0.995)


def test_records_on_a_line_have_hardly_any_residual():
    """No noise and no residuals: σ goes to the rounding of records, not to 0."""
    x = np.linspace(0.0, 1.0, 20)
    fit = PrivateLinearRegressionDA(n_draws=500, n_chains=2, random_state=0).fit(x[:, None], 2.0 - 3.0 * x)
    assert np.all((fit.sigma_draws_ > 1e-14) & (fit.sigma_draws_ < 1e-9))
    np.testing.assert_allclose([fit.intercept_, *fit.coef_], [2.0, -3.0], rtol=1e-9)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@pytest.mark.parametrize("x_model", [None, GaussianPredictors(), HistogramPredictors()])
def test_units_do_not_matter(x_model):
    """Data, bounds and query in other units: the same release, and the same draws in those units."""
    rng = np.random.default_rng(2)
    x, y = population(rng, 60)
    base = np.array([*[BOUNDS[1]] * 2, BOUNDS[0]])
    reference, S = None, None
    for unit, shift in ((1.0, 0.0), (1e-6, 0.0), (1e6, 0.0), (1e3, 1e4), (1e-2, -3.0)):
        units, moved = np.array([unit, 1.0 / unit, unit**0.5]), np.array([shift, -shift, shift])
        bounds = base * units[:, None] + moved[:, None]
        mechanism = LaplaceMechanism(epsilon=4.0, query=RegressionMoments(bounds[:2], bounds[2], 2))
        records = np.column_stack([x, y]) * units + moved
        released = mechanism.privatize(records, random_state=9)
        S = released if S is None else S
        np.testing.assert_allclose(released, S, rtol=1e-6)
        fit = PrivateLinearRegressionDA(mechanism, x_model=x_model, n_records=60, **SHORT).fit(S)
        coefs = fit.coef_draws_ * units[:2] / units[2]
        at_centre = fit.intercept_draws_ + fit.coef_draws_ @ bounds[:2].mean(axis=1) - bounds[2].mean()
        found = [coefs, at_centre / units[2], fit.sigma_draws_ / units[2], (fit.x_mean_draws_ - moved[:2]) / units[:2]]
        reference = found if reference is None else reference
        for one, other in zip(found, reference, strict=True):
            np.testing.assert_allclose(one, other, rtol=1e-6, atol=1e-6)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_units_do_not_matter_without_a_mechanism():
    x, y = population(np.random.default_rng(2), 60)
    reference = PrivateLinearRegressionDA(**SHORT).fit(x, y)
    for unit in (1e-6, 1e6):
        fit = PrivateLinearRegressionDA(**SHORT).fit(x * unit, y / unit)
        np.testing.assert_allclose(fit.coef_draws_ * unit**2, reference.coef_draws_, rtol=1e-6)
        np.testing.assert_allclose(fit.sigma_draws_ * unit, reference.sigma_draws_, rtol=1e-6)


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@pytest.mark.parametrize("x_model", [None, GaussianPredictors(), HistogramPredictors(), "known"])
def test_a_slope_that_determines_the_intercept(x_model):
    """Seconds since 1970, and an intercept that is known to one unit at 0: the line goes through 0."""
    rng, n, bounds = np.random.default_rng(0), 50, np.array([[1.6e9, 1.7e9], [0.3e9, 1.35e9]])
    x = rng.uniform(*bounds[0], n)
    y = 0.5 * x + 1e8 * rng.standard_normal(n)
    options = {"prior": RegressionPrior(coef_scale=1.0), "n_draws": 300, "n_warmup": 200, "random_state": 0}
    mechanism = LaplaceMechanism(epsilon=20.0, query=RegressionMoments(*bounds, 1))
    if x_model == "known":
        fit = PrivateLinearRegressionDA(**options).fit(x[:, None], y)
    else:
        S = mechanism.privatize(np.column_stack([x, y]), random_state=1)
        fit = PrivateLinearRegressionDA(mechanism, x_model=x_model, n_records=n, **options).fit(S)
    assert abs(fit.coef_[0] - x @ y / (x @ x)) < 0.005 and 0.007 < fit.coef_draws_.std() < 0.011
    assert abs(fit.intercept_) < 0.2 and 0.9 < fit.intercept_draws_.std() < 1.1


# --- truths that people meet -----------------------------------------------------------------------------------------


@pytest.mark.nightly
@pytest.mark.parametrize("name", POPULATIONS)
@pytest.mark.parametrize("units", [(1.0, 1.0), (10.0, 1e4)])
def test_intervals_hold_the_slope(name, units):
    """Bias and coverage over releases, with all defaults."""
    rng, n, slopes, held = np.random.default_rng(11), 3000, [], 0
    mechanism = LaplaceMechanism(epsilon=5.0, query=RegressionMoments((0, units[0]), (0, units[1]), 1))
    for i in range(60):
        x = POPULATIONS[name](rng, n)
        y = 0.2 + 0.5 * x + 0.05 * rng.standard_normal(n)
        S = mechanism.privatize(np.column_stack([x * units[0], y * units[1]]), random_state=rng)
        fit = PrivateLinearRegressionDA(mechanism, n_records=n, n_draws=500, random_state=i).fit(S)
        low, high = fit.coef_interval(0.9)
        slope = 0.5 * units[1] / units[0]
        held += low[0] < slope < high[0]
        slopes.append(fit.coef_[0] / slope - 1.0)
    error = np.std(slopes, ddof=1) / np.sqrt(len(slopes))
    assert abs(np.mean(slopes)) < stats.t.isf(0.5e-6, len(slopes) - 1) * error
    assert stats.binomtest(int(held), 60, 0.9).pvalue > 1e-6


class CountOfFew(NoisyCount):
    """Cut off so that the flat prior of n, on 3, ..., 40, can be drawn from."""

    most = 40

    @property
    def likely(self):
        return min(super().likely, self.most)


@pytest.mark.nightly
@pytest.mark.parametrize("unknown", [False, True])
def test_calibration(unknown, monkeypatch):
    """Ranks of the true parameters among posterior draws are uniform, with n known or released with noise.

    The prior's responses are often beyond their bounds, and no release of clamped records is like theirs.
    """
    monkeypatch.setattr(_regression, "warn_if_impossible", lambda *_: None)
    rng, draws, truths = np.random.default_rng(12), [], []
    mechanism, counter = LaplaceMechanism(scale=2.0, query=query(1)), LaplaceMechanism(scale=4.0)
    parts = {"prior": PRIOR, "n_chains": 1, "n_warmup": 400, "n_draws": 59, "thin": 12, "random_state": rng}
    for _ in range(600):
        n = int(rng.integers(3, 41)) if unknown else 12
        values, moments = draw_prior(rng, 1, 1, n)
        S = moments + rng.laplace(scale=2.0, size=moments.shape)
        number = CountOfFew(n + rng.laplace(scale=4.0), counter) if unknown else n
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short chains, and releases that are seldom made are made here
            model = PrivateLinearRegressionDA(mechanism, n_records=number, **parts).fit(S)
        truths.append([*values[0, :3], n])
        draws.append([model.intercept_draws_[0], model.coef_draws_[0, :, 0], np.log(model.sigma_draws_[0])])
        draws[-1].append(model.n_records_draws_[0] if unknown else np.zeros(59))
    truths, draws = np.array(truths, dtype=float), np.array(draws, dtype=float)
    for j, name in enumerate(("intercept", "coef", "log_sigma", "n")[: 4 if unknown else 3]):
        assert_ranks_uniform(truths[:, j], draws[:, j], rng, what=name)
