"""The deconvoluting kernel density estimator: its formula, its mean, its error and its bandwidths."""

import re

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad, trapezoid
from scipy.optimize import minimize_scalar
from scipy.special import gamma, jv
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_dpmix import DeconvolutionKDE
from sklearn_dpmix.estimators.mixture._bandwidths import plug_in, roughness
from sklearn_dpmix.estimators.mixture._noise_inversion import (
    empirical_cf,
    evaluate,
    evaluate_evenly,
    inversion,
    quadrature,
)
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, RecordChannel
from sklearn_dpmix.metrics import integrated_squared_error

ALPHA = 1e-6
MECHANISMS = [LaplaceMechanism(scale=0.4), GaussianMechanism(scale=0.5)]
WEIGHTS, MEANS, SDS = np.array([0.6, 0.4]), np.array([-1.0, 1.5]), np.array([0.7, 0.5])
both = pytest.mark.parametrize("mechanism", MECHANISMS, ids=["laplace", "gaussian"])
selectors = pytest.mark.parametrize("bandwidth", ["plug-in", "bootstrap"])


# --- the truth, written apart from the package -----------------------------------------------------------------------


def noise_cf(mechanism, t):
    """Characteristic functions 1/(1 + b²t²) and exp(-η²t²/2)."""
    u = (mechanism.noise_scale * t) ** 2
    return 1.0 / (1.0 + u) if isinstance(mechanism, LaplaceMechanism) else np.exp(-0.5 * u)


def kernel_cf(u):
    return (1.0 - u * u) ** 3


def kernel(v):
    """K itself, (1/π)∫_0^1 cos(vu)(1 - u²)³du, by Poisson's integral of a Bessel function of order 7/2."""
    v = np.where(v == 0, 1e-3, np.abs(v))
    return 0.5 / np.sqrt(np.pi) * gamma(4.0) * (2.0 / v) ** 3.5 * jv(3.5, v)


def true_cf(t):
    return np.sum(WEIGHTS * np.exp(1j * np.multiply.outer(t, MEANS) - 0.5 * np.multiply.outer(t, SDS) ** 2), axis=-1)


def true_density(x):
    return np.sum(WEIGHTS * stats.norm.pdf(np.asarray(x)[..., None], MEANS, SDS), axis=-1)


def records(n, rng):
    cluster = rng.choice(2, n, p=WEIGHTS)
    return rng.normal(MEANS[cluster], SDS[cluster])[:, None]


def exact_mise(mechanism, n, h):
    """MISE of the raw estimate: (1/π)∫ φ_K(th)²(1/φ_noise² - |φ_y|²)/n + |φ_y|²(1 - φ_K(th))² dt."""

    def error(t):
        signal = np.abs(true_cf(t)) ** 2
        shrink = kernel_cf(t * h) if t * h < 1 else 0.0
        return shrink**2 * (1.0 / noise_cf(mechanism, t) ** 2 - signal) / n + signal * (1.0 - shrink) ** 2

    end = 20.0  # |φ_y(t)|² is below exp(-t²/4)
    return (quad(error, 0, 1 / h, limit=500)[0] + (quad(error, 1 / h, end, limit=500)[0] if h * end > 1 else 0)) / np.pi


def oracle_bandwidth(mechanism, n):
    found = minimize_scalar(lambda u: exact_mise(mechanism, n, np.exp(u)), bounds=np.log([0.05, 1.5]), method="bounded")
    return float(np.exp(found.x))


def broken_twin(mechanism):
    """The estimator with the noise ignored: an ordinary kernel density estimate of the release."""
    return type(mechanism)(scale=1e-9)


# --- formula ---------------------------------------------------------------------------------------------------------


def check_formula(model, Z, mechanism, points):
    """The raw estimate is the integral of the docstring, by adaptive quadrature."""
    h, z = model.bandwidth_, Z[:, 0]
    size = quad(lambda t: kernel_cf(t * h) / noise_cf(mechanism, t), 0, 1 / h)[0] / np.pi  # bounds |f|
    for x, found in zip(points, model.density(points[:, None], proper=False), strict=True):
        value, error = quad(
            lambda t, x=x: np.mean(np.cos(t * (x - z))) * kernel_cf(t * h) / noise_cf(mechanism, t) / np.pi,
            0, 1 / h, limit=2000, epsabs=1e-12,
        )  # fmt: skip
        phase = np.max(np.abs(x - z)) / h  # rounding of a phase is rounding of its cosine
        assert abs(found - value) <= error + 4 * np.finfo(float).eps * max(phase, 10) * size, x


@both
@pytest.mark.parametrize("bandwidth", [0.05, 0.3, 2.0])
def test_the_estimate_is_the_inversion_integral(mechanism, bandwidth):
    """Catches a wrong kernel, noise law, sign, factor π or h, and too few nodes for a small bandwidth."""
    if isinstance(mechanism, GaussianMechanism) and bandwidth < 0.1:
        bandwidth = 0.1  # 1/φ_noise(1/h) is exp(12.5) there
    rng = np.random.default_rng(1)
    Z = mechanism.privatize(100.0 + records(60, rng), random_state=rng)
    model = DeconvolutionKDE(mechanism, bandwidth=bandwidth).fit(Z)
    points = np.array([95.0, 98.7, 100.0, 101.5, 104.0])
    points = points[(points > model.support_[0]) & (points < model.support_[1])]
    check_formula(model, Z, mechanism, points)
    with pytest.raises(AssertionError):
        check_formula(DeconvolutionKDE(broken_twin(mechanism), bandwidth=bandwidth).fit(Z), Z, mechanism, points)


def smoothed_truth(x, h):
    """K_h * f in the domain of x, with K from a Bessel function: nothing is shared with the Fourier route."""
    return quad(lambda y: kernel((x - y) / h) / h * true_density(y), -8, 8, limit=500, points=[x], epsabs=1e-11)[0]


@both
def test_the_expectation_is_the_smoothed_density(mechanism):
    """With the exact characteristic function of a release: E f = K_h * f, whatever the noise."""
    h = 0.3
    log_gain = lambda t: -np.log(noise_cf(mechanism, t))  # noqa: E731
    t, c = inversion(lambda t: true_cf(t) * noise_cf(mechanism, t), log_gain, h, 20.0)
    x = np.array([-2.0, -1.0, 0.1, 1.5, 3.0])
    found = evaluate(t, c, x)
    np.testing.assert_allclose(found, [smoothed_truth(v, h) for v in x], rtol=0, atol=1e-9)


def mean_z(mechanism, declared, h, x, n_releases):
    """z of the mean raw estimate over releases, against K_h * f."""
    rng = np.random.default_rng(2)
    model = DeconvolutionKDE(declared, bandwidth=h)
    estimates = [
        model.fit(mechanism.privatize(records(100, rng), random_state=rng)).density(x[:, None], proper=False)
        for _ in range(n_releases)
    ]
    expected = np.array([smoothed_truth(v, h) for v in x])
    return (np.mean(estimates, axis=0) - expected) / stats.sem(estimates, axis=0)


@both
def test_releases_average_to_the_smoothed_density(mechanism):
    """The same by simulation, the mechanism's own noise included; a twin that ignores the noise is found out."""
    h, x = 0.3, np.array([-1.0, 0.2, 1.5])

    def agrees(declared, n):
        return np.abs(mean_z(mechanism, declared, h, x, n)) < stats.t.isf(ALPHA / (2 * len(x)), n - 1)

    assert np.all(agrees(mechanism, 300))
    assert not np.all(agrees(broken_twin(mechanism), 80))


@pytest.mark.parametrize("phase", [1.0, 300.0])
def test_factored_sums_are_the_plain_ones(phase):
    """Catches a slip in the factors, on which estimate and normalisation rest."""
    rng, t = np.random.default_rng(3), quadrature(phase)[0]
    c, y = rng.normal(size=len(t)) + 1j * rng.normal(size=len(t)), rng.uniform(0.0, phase, 70_000)
    for n_points in (1, 2, 10, 101):
        x = -3.0 + 0.25 * np.arange(n_points)
        expected = (np.exp(-1j * np.outer(x, t)) @ c).real
        np.testing.assert_allclose(evaluate_evenly(t, c, -3.0, 0.25, n_points), expected, atol=1e-11)
        np.testing.assert_allclose(evaluate(t, c, x), expected, atol=1e-11)
    expected = [np.mean(np.exp(1j * one * y)) for one in t]
    np.testing.assert_allclose(empirical_cf(t, y), expected, atol=1e-12)


# --- a proper density ------------------------------------------------------------------------------------------------


@both
@selectors
def test_the_density_is_proper(mechanism, bandwidth):
    """At least 0 and of integral 1 though the raw estimate is negative in places; the log is -inf there.

    The tolerance is the trapezoid rule's, step²/8 times the total variation of the derivative (kinks included), for the
    fit's 32 points a bandwidth and this test's 128.
    """
    rng = np.random.default_rng(4)
    Z = mechanism.privatize(records(150, rng), random_state=rng)
    model = DeconvolutionKDE(mechanism, bandwidth=bandwidth).fit(Z)
    step = model.bandwidth_ / 128
    x = np.arange(model.support_[0], model.support_[1], step)[:, None]
    raw, proper = model.density(x, proper=False), model.density(x)
    assert raw.min() < 0  # else this says nothing
    assert np.all(proper >= 0)
    np.testing.assert_array_equal(proper == 0, raw <= 0)
    variation = np.abs(np.diff(proper, n=2)).sum() / step
    tolerance = ((model.bandwidth_ / 32) ** 2 + step**2) / 8 * variation + 2 * step * proper[[0, -1]].max()
    assert tolerance < 0.01
    assert trapezoid(proper, x[:, 0]) == pytest.approx(1.0, abs=tolerance)
    positive = proper > 0
    np.testing.assert_array_equal(model.score_samples(x)[positive], np.log(proper[positive]))
    assert np.all(np.isneginf(model.score_samples(x)[~positive]))
    assert model.score(x[positive]) == np.log(proper[positive]).mean()
    outside = [[model.support_[0] - 1e-6], [model.support_[1] + 1e-6], [1e300]]
    np.testing.assert_array_equal(model.density(outside), 0.0)
    np.testing.assert_array_equal(model.density(outside, proper=False), 0.0)


# --- error and bandwidth ---------------------------------------------------------------------------------------------

GRID = np.linspace(-6.0, 6.0, 601)


def integrated_errors(mechanism, n, seeds, bandwidth, proper, declared=None):
    errors = []
    for seed in seeds:
        rng = np.random.default_rng([5, n, seed])
        Z = mechanism.privatize(records(n, rng), random_state=rng)
        model = DeconvolutionKDE(declared or mechanism, bandwidth=bandwidth).fit(Z)
        errors.append(integrated_squared_error(model.density(GRID[:, None], proper), true_density(GRID), GRID))
    return np.array(errors)


@both
def test_the_mean_integrated_squared_error_is_the_exact_one(mechanism):
    """Catches noise that is divided out with the right mean and the wrong variance; the twin has the wrong bias."""
    n, h = 200, 0.25
    exact = exact_mise(mechanism, n, h)

    def agrees(n_seeds, *declared):
        # the grid ends at ±6: what is lost is less than the variance there, K's tail squared, below 1 % of the whole
        errors = integrated_errors(mechanism, n, range(n_seeds), h, False, *declared)
        limit = stats.t.isf(ALPHA / 2, n_seeds - 1)
        return abs(errors.mean() - exact) < limit * stats.sem(errors) + 0.01 * exact

    assert agrees(150)
    assert not agrees(50, broken_twin(mechanism))


@both
@selectors
def test_the_estimate_converges(mechanism, bandwidth):
    """More records, less error: the limit is half way (in logs) from no gain to the oracle bandwidths' gain.

    Catches a bandwidth that does not shrink with n, and one that shrinks too fast.
    """
    oracle = [exact_mise(mechanism, n, oracle_bandwidth(mechanism, n)) for n in (200, 5000)]
    few, many = (integrated_errors(mechanism, n, range(12), bandwidth, True).mean() for n in (200, 5000))
    assert many / few < np.sqrt(oracle[1] / oracle[0])


@both
@selectors
@pytest.mark.parametrize("n", [200, 1000])
def test_bandwidths_are_near_the_oracle(mechanism, bandwidth, n):
    """Median exact MISE over releases at most 1.5 times the least, each bandwidth within a factor of 2.

    Catches a selector that ignores the noise or a factor in its criterion.  The factors are not so wide that anything
    passes: half or twice the best bandwidth is outside.
    """
    best, chosen = oracle_bandwidth(mechanism, n), []
    for seed in range(15):
        rng = np.random.default_rng([6, n, seed])
        Z = mechanism.privatize(records(n, rng), random_state=rng)
        chosen.append(DeconvolutionKDE(mechanism, bandwidth=bandwidth).fit(Z).bandwidth_)
    least = exact_mise(mechanism, n, best)
    assert np.median([exact_mise(mechanism, n, h) for h in chosen]) <= 1.5 * least
    assert np.all(np.abs(np.log(np.array(chosen) / best)) <= np.log(2.0))
    assert min(exact_mise(mechanism, n, best / 2), exact_mise(mechanism, n, best * 2)) > 1.5 * least


@both
def test_the_plug_in_minimises_the_asymptotic_error(mechanism):
    """Catches a wrong stationarity condition: V(h) + h⁴μ₂²θ/4 by quadrature, μ₂ = 6, θ from the pilot."""
    rng = np.random.default_rng(7)
    y = mechanism.privatize(records(300, rng), random_state=rng)[:, 0]
    unit = np.ptp(y)
    law = np.log1p if isinstance(mechanism, LaplaceMechanism) else (lambda u: 0.5 * u)
    gain = lambda t: law((mechanism.scale * t / unit) ** 2)  # noqa: E731  1/φ_noise² overflows, its log does not
    y = (y - y.min()) / unit
    h, pilot = plug_in(y, gain, y.var() / 2)
    theta = roughness(2, pilot, y, gain)

    def asymptotic(log_h):
        h = np.exp(log_h)
        noise = quad(lambda u: kernel_cf(u) ** 2 * np.exp(2 * gain(u / h)), 0, 1, epsrel=1e-12)[0]
        return noise / (np.pi * len(y) * h) + 9 * theta * h**4

    found = minimize_scalar(
        asymptotic, bounds=(np.log(h) - 1, np.log(h) + 1), method="bounded", options={"xatol": 1e-9}
    )
    assert np.log(h) == pytest.approx(found.x, abs=1e-6)  # a minimum is found to about √eps


@both
@selectors
def test_units_do_not_matter(mechanism, bandwidth):
    """Catches a constant that has units: h moves with the scale of the records, and not with their place."""
    rng = np.random.default_rng(8)
    Z = mechanism.privatize(records(200, rng), random_state=rng)
    model = DeconvolutionKDE(mechanism, bandwidth=bandwidth).fit(Z)
    x = np.linspace(-3, 3, 7)[:, None]
    for factor, shift in ((1e-6, 0.0), (2.0, 100.0), (1e6, -1e6)):
        scaled = type(mechanism)(scale=factor * mechanism.scale)
        other = DeconvolutionKDE(scaled, bandwidth=bandwidth).fit(factor * Z + shift)
        # rounding of Z against its spread, at most 1e-13 here, moves h by as much; the bootstrap's search stops at 1e-6
        assert other.bandwidth_ == pytest.approx(
            factor * model.bandwidth_, rel=1e-9 if bandwidth == "plug-in" else 1e-5
        )
        fixed = DeconvolutionKDE(scaled, bandwidth=factor * model.bandwidth_).fit(factor * Z + shift)
        np.testing.assert_allclose(factor * fixed.density(factor * x + shift), model.density(x), rtol=0, atol=1e-8)


@selectors
@pytest.mark.parametrize("kind", [LaplaceMechanism, GaussianMechanism])
@pytest.mark.parametrize("noise", [1e-6, 10.0, 1000.0])
def test_hardly_any_noise_and_hardly_anything_else(kind, noise, bandwidth):
    """Catches overflow of 1/φ_noise², and a variance of the records taken to be negative or 0."""
    rng = np.random.default_rng(9)
    mechanism = kind(scale=noise)
    model = DeconvolutionKDE(mechanism, bandwidth=bandwidth).fit(
        mechanism.privatize(records(100, rng), random_state=rng)
    )
    density = model.density(np.linspace(*model.support_, 500)[:, None])
    assert 0 < model.bandwidth_ < np.inf and np.all(np.isfinite(density)) and density.max() > 0


def test_calibration_by_epsilon_is_the_scale():
    """Catches a scale read from a parameter and not from the mechanism: Δ/ε here."""
    rng = np.random.default_rng(10)
    mechanism = LaplaceMechanism(epsilon=25.0, bounds=(-5, 5))
    Z = mechanism.privatize(records(100, rng), random_state=rng)
    model, other = DeconvolutionKDE(mechanism).fit(Z), DeconvolutionKDE(LaplaceMechanism(scale=0.4)).fit(Z)
    assert model.noise_scale_ == 0.4
    assert model.bandwidth_ == pytest.approx(other.bandwidth_, rel=1e-12)


# --- what is refused -------------------------------------------------------------------------------------------------

COLUMN = np.linspace(-1.0, 1.0, 20)[:, None]
LAPLACE = LaplaceMechanism(scale=0.1)


class OneBit(RecordChannel):
    """A channel whose noise is not additive."""


class Mean:
    """A query."""


@pytest.mark.parametrize(
    "model, Z, message",
    [
        (DeconvolutionKDE(), COLUMN, "mechanism=None.*KernelDensity.*pass the mechanism"),
        (DeconvolutionKDE(OneBit()), COLUMN, "mechanism must be a LaplaceMechanism or GaussianMechanism.*OneBit"),
        (DeconvolutionKDE(LaplaceMechanism), COLUMN, "mechanism must be .* object"),
        (DeconvolutionKDE(LaplaceMechanism(scale=1.0, query=Mean())), COLUMN, "query=.*use bounds= or scale="),
        (
            DeconvolutionKDE(LaplaceMechanism(scale=np.ones(20))),
            COLUMN,
            "one noise scale.*20 records.*PrivateDPMixture",
        ),
        (DeconvolutionKDE(LaplaceMechanism(scale=-1.0)), COLUMN, "scale must be positive.*-1.0"),
        (DeconvolutionKDE(LAPLACE), np.ones((5, 3)), "Z must have one feature, got n_features=3.*pass one column"),
        (DeconvolutionKDE(LAPLACE), COLUMN[:, 0], "Expected 2D array"),
        (DeconvolutionKDE(LAPLACE), [[np.nan], [1.0]], "Z contains NaN"),
        (DeconvolutionKDE(LAPLACE), np.ones((5, 1)), 'bandwidth="plug-in" needs records that vary.*pass a bandwidth'),
        (DeconvolutionKDE(LAPLACE, bandwidth="bootstrap"), [[1.0]], 'bandwidth="bootstrap" needs .*n_samples=1'),
        (DeconvolutionKDE(LAPLACE), [[-1e308], [1e308]], "range inf"),
        (DeconvolutionKDE(LAPLACE, bandwidth="silverman"), COLUMN, "'bandwidth'.*'silverman'"),
        (DeconvolutionKDE(LAPLACE, bandwidth=0.0), COLUMN, "'bandwidth'.*0.0"),
        (DeconvolutionKDE(LAPLACE, bandwidth=np.inf), COLUMN, "'bandwidth'.*inf"),
        (DeconvolutionKDE(LAPLACE, bandwidth=1.7e308), COLUMN, "beyond floating point"),
        (DeconvolutionKDE(LAPLACE, bandwidth=1e-6), COLUMN, "bandwidth=1e-06 .*too small.*range 2 .*use "),
        (DeconvolutionKDE(GaussianMechanism(scale=1.0), bandwidth=0.1), COLUMN, "bandwidth=0.1 .*too small.*scale 1"),
    ],
)
@pytest.mark.filterwarnings("ignore:feature 0 of the release:UserWarning")
def test_bad_input_is_named(model, Z, message):
    """Catches a message without the parameter, the value or the remedy, and nonsense that is fitted in silence."""
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        model.fit(Z)
    with pytest.raises(NotFittedError):
        model.density(COLUMN)


def test_a_release_of_another_scale_is_doubted():
    """Catches a rescaled release that is fitted without a word: its variance is far below the noise's."""
    with pytest.warns(UserWarning, match="was the release rescaled"):
        DeconvolutionKDE(LaplaceMechanism(scale=50.0)).fit(COLUMN)


def test_a_number_as_bandwidth_takes_equal_records():
    """One record or equal ones have an estimate: the deconvoluting kernel."""
    model = DeconvolutionKDE(LAPLACE, bandwidth=0.5).fit([[3.0]])
    np.testing.assert_allclose(model.density([[2.5], [3.0]]), model.density([[3.5], [3.0]]), rtol=1e-12)
    assert model.bandwidth_ == 0.5 and clone(model).bandwidth == 0.5


class AnyColumns(DeconvolutionKDE):
    """Takes tables of several features and uses the first: scikit-learn's checks have no table of one."""

    def _check_n_columns(self, n_features, name):
        pass


@pytest.mark.filterwarnings("ignore:feature:UserWarning", "ignore:record:UserWarning")
@parametrize_with_checks([AnyColumns(mechanism) for mechanism in MECHANISMS])
def test_scikit_learns_checks(estimator, check):
    """Catches a departure from scikit-learn's conventions, the one-feature limit and mechanism=None apart."""
    check(estimator)
