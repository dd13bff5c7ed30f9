"""PrivateDPMixtureRegressor: curves, quantiles and densities of y given x, other units, and what is refused."""

import itertools
import pickle
import warnings

import numpy as np
import pytest
from dp_regressor_case import fitted, line, linear
from scipy import stats
from scipy.special import softmax
from sklearn.base import clone

from sklearn_dpmix import PrivateDPMixture, PrivateDPMixtureRegressor
from sklearn_dpmix._posterior.response_law import regression
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PiecewiseMechanism,
    SquareWaveMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.queries import RegressionMoments

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed")
CLAMPED = LaplaceMechanism(scale=1.0, bounds=(-4, 4))


def two_bends(n, rng):
    x = np.where(rng.random(n) < 0.4, rng.normal(-2.0, 0.6, n), rng.normal(1.5, 1.0, n))
    return np.column_stack([x, 2.0 * np.sin(1.3 * x) + 0.4 * rng.standard_normal(n)])


@pytest.fixture(scope="module")
def bent():
    """A fit to a curve under Laplace noise."""
    mechanism = LaplaceMechanism(scale=0.3)
    Z = mechanism.privatize(two_bends(400, np.random.default_rng(0)), random_state=1)
    params = {"n_chains": 2, "n_warmup": 300, "n_draws": 300, "random_state": 0}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        return PrivateDPMixtureRegressor(mechanism, **params).fit(Z[:, :1], Z[:, 1])


def test_a_curve_is_found(bent):
    """Catches columns that change places, a law of x for that of y, and bands of something else."""
    X = np.array([[-2.0], [-1.3], [1.2], [2.4]])
    truth = 2.0 * np.sin(1.3 * X[:, 0])
    mean, std = bent.predict(X, return_std=True)
    assert np.all(np.abs(mean - truth) < 0.5)
    curves, (low, high) = bent.curve_draws(X), bent.curve_interval(X, 0.9)
    assert curves.shape == (2, 300, 4)
    assert mean == pytest.approx(curves.mean(axis=(0, 1)))
    assert np.quantile(curves, [0.05, 0.95], axis=(0, 1)) == pytest.approx(np.array([low, high]))
    quantiles = bent.predict_quantiles(X, [0.05, 0.5, 0.95])
    assert np.all((quantiles[:, 0] < truth) & (truth < quantiles[:, 2])) and quantiles.shape == (4, 3)
    assert np.all(quantiles[:, 2] - quantiles[:, 0] < 5.0 * std)
    inside = np.linspace(-12, 12, 4001)
    density = np.exp(bent.score_samples(np.full((4001, 1), 1.2), inside))
    assert np.trapezoid(density, inside) == pytest.approx(1.0, abs=1e-6)
    assert np.trapezoid(density * inside, inside) == pytest.approx(mean[2], abs=1e-5)
    assert bent.score(X, truth) > 0.8
    middle = bent._joint_.moment_draws().mean.mean(axis=(0, 1))[:1]
    assert bent.summary().loc["curve[1]", "mean"] == pytest.approx(bent.predict([middle])[0])  # R-hat is of the curve


def test_predictions_do_not_depend_on_jobs_blocks_or_pickling(bent, monkeypatch):
    """Catches blocks that are put together in another order."""
    X = np.linspace(-3, 3, 150)[:, None]
    one = bent.predict(X, return_std=True)
    again = pickle.loads(pickle.dumps(bent)).set_params(n_jobs=2)
    monkeypatch.setattr("sklearn_dpmix._posterior.response_law.CHUNK", 20_000)
    assert np.array_equal(one, again.predict(X, return_std=True))
    assert np.array_equal(bent.predict_quantiles(X[:9], 0.3), again.predict_quantiles(X[:9], 0.3))


@pytest.mark.parametrize(
    "mechanism", [SquareWaveMechanism(4.0, bounds=(-4, 4)), PiecewiseMechanism(4.0, bounds=(-4, 4)), CLAMPED]
)
def test_predictions_at_releases_do_not_depend_on_other_releases(mechanism):
    """Catches a channel that was made for one release, and is then read beyond its end."""
    Z = mechanism.privatize(line(30, 1.0), random_state=1)
    X, y = Z[:6, :1], Z[:6, 1]
    params = {"n_chains": 1, "n_warmup": 20, "n_draws": 20, "random_state": 0}
    model = fitted(PrivateDPMixtureRegressor(mechanism, noised_inputs=True, **params), Z)
    each = [model.predict(X[i : i + 1], return_std=True) for i in range(6)]
    np.testing.assert_allclose(model.predict(X, return_std=True), np.concatenate(each, axis=1), rtol=1e-12)
    each = [model.score_samples(X[i : i + 1], y[i : i + 1]) for i in range(6)]
    np.testing.assert_allclose(model.score_samples(X, y), np.concatenate(each), rtol=1e-12)


@pytest.mark.parametrize("kind", [SquareWaveMechanism, PiecewiseMechanism])
def test_predictors_that_are_never_released_are_refused(kind):
    """Catches a prediction at an x outside the range of releases, whose likelihood is zero for any record."""
    mechanism = kind(4.0, bounds=[(-4, 4), (-40, 40)])
    Z = mechanism.privatize(line(30, 1.0), random_state=1)
    model = PrivateDPMixtureRegressor(mechanism, noised_inputs=True, n_chains=1, n_warmup=5, n_draws=5, random_state=0)
    model = fitted(model, Z)
    y = Z[:1, 1]
    for call in (model.predict, model.curve_draws, model.curve_interval, lambda X: model.score_samples(X, y)):
        call(Z[:1, :1])
        with pytest.raises(ValueError, match=r"takes X as it was released: Z must lie in .*row 0, column 0 has 30"):
            call([[30.0]])  # y might be released as that
    expected = model.predict(Z[:1, :1])  # what was fitted decides, not what is set since
    assert model.set_params(mechanism=DiscreteLaplaceMechanism(scale=0.3)).predict(Z[:1, :1]) == expected
    assert np.isfinite(model.set_params(noised_inputs=False).predict([[30.0]])).all()


def test_warm_start_goes_on_and_the_first_fit_stays_where_the_next_one_fails(bent):
    """Catches chains that begin anew, and a fit that is half replaced."""
    Z = line(40, 1.0)
    params = {"n_chains": 2, "n_warmup": 20, "random_state": 0, "warm_start": True}
    for is_linear in (True, False):
        model = fitted(PrivateDPMixtureRegressor(linear=is_linear, n_draws=20, **params), Z)
        first = model.curve_draws([[0.0]])
        fitted(model.set_params(n_draws=30), Z)
        assert model.n_iter_ == 50 and np.array_equal(model.curve_draws([[0.0]])[:, :20], first)
        with pytest.raises(ValueError, match="the data changed"):
            fitted(model, Z + 1.0)
        assert np.array_equal(model.curve_draws([[0.0]])[:, :20], first)


@pytest.mark.parametrize(
    ("mechanism", "is_linear"),
    [
        (GaussianMechanism(scale=1.0), True),
        (None, True),
        (CLAMPED, False),
        pytest.param(GaussianMechanism(scale=1.0), False, marks=pytest.mark.nightly),
        pytest.param(CLAMPED, True, marks=pytest.mark.nightly),
    ],
)
def test_other_units_make_the_same_fit(mechanism, is_linear):
    """Data, noise and bounds in a unit 2^20 times as large or small: slopes stay, lines and intervals go along."""
    for units in (2.0**20, 2.0**-20):
        check_units(mechanism, is_linear, units)


def check_units(mechanism, is_linear, units):
    Z, larger = line(40, 1.0), None
    if mechanism is not None:
        larger = clone(mechanism).set_params(scale=units * mechanism.scale)
        larger = larger if mechanism.bounds is None else larger.set_params(bounds=(-4 * units, 4 * units))
    params = {"linear": is_linear, "n_chains": 2, "n_warmup": 40, "n_draws": 40, "random_state": 0}
    one = fitted(PrivateDPMixtureRegressor(mechanism, **params), Z)
    other = fitted(PrivateDPMixtureRegressor(larger, **params), units * Z)
    X, y = np.linspace(-3, 3, 5)[:, None], np.linspace(-2, 2, 5)
    if is_linear:
        assert other.coef_draws_ == pytest.approx(one.coef_draws_, rel=1e-6)
    for noised in (False, True):
        one.noised_inputs = other.noised_inputs = noised
        for a, b in zip(one.predict(X, return_std=True), other.predict(units * X, return_std=True), strict=True):
            assert b / units == pytest.approx(a, rel=1e-6, abs=1e-6)
        assert other.predict_quantiles(units * X, 0.2) / units == pytest.approx(one.predict_quantiles(X, 0.2), rel=1e-6)
        both = other.score_samples(units * X, units * y), one.score_samples(X, y) - np.log(units)
        assert both[0] == pytest.approx(both[1], rel=1e-6, abs=1e-6)


BAD = {
    "another length": ({}, (np.zeros((4, 1)), np.zeros(3)), "y must have one response per row of Z, got 3"),
    "no response": ({}, (np.zeros((4, 1)), None), "requires y to be passed"),
    "nan in y": ({}, (np.zeros((2, 1)), [0.0, np.nan]), "Input y contains NaN"),
    "nan in Z": ({}, ([[0.0], [np.nan]], np.zeros(2)), "Input Z contains NaN"),
    "other width": (
        {"mechanism": LaplaceMechanism(epsilon=1.0, bounds=[(0, 1)] * 3)},
        (np.zeros((4, 1)), np.zeros(4)),
        r"covers 3 column\(s\), but Z and y together have 2: give bounds of each predictor",
    ),
    "one column": (
        {"mechanism": GaussianMechanism(rho=1.0, bounds=[(0, 1)])},
        (np.zeros((4, 1)), np.zeros(4)),
        r"covers 1 column\(s\)",
    ),
    "wavelets": (
        {"mechanism": HaarWaveletMechanism(2.0, 0)},
        (np.zeros((4, 2)), np.zeros(4)),
        "does not release each column",
    ),
    "a query": (
        {"mechanism": LaplaceMechanism(scale=1.0, query=RegressionMoments((0, 1), (0, 1), 1))},
        (np.zeros((4, 1)), np.zeros(4)),
        "records one by one",
    ),
    "lengths of noise": (
        {"mechanism": LaplaceMechanism(scale=[1.0, 2.0])},
        (np.zeros((4, 1)), np.zeros(4)),
        "there are 4 records",
    ),
    "kernel": ({"kernel": NormalKernel()}, (np.zeros((4, 1)), np.zeros(4)), "kernel must be 'multivariate_normal'"),
    "mixing": (
        {"linear": True, "mixing": DirichletProcess()},
        (np.zeros((4, 1)), np.zeros(4)),
        "linear=True fits one normal.*leave mixing out",
    ),
    "noised inputs of several predictors": (
        {"mechanism": LaplaceMechanism(scale=1.0), "noised_inputs": True},
        (np.zeros((4, 2)), np.zeros(4)),
        r"noised_inputs=True is exact for.*2 predictor\(s\)",
    ),
    "noised inputs of integers": (
        {"mechanism": DiscreteLaplaceMechanism(scale=1.0), "noised_inputs": True},
        (np.zeros((4, 1)), np.zeros(4)),
        "noised_inputs=True is exact for",
    ),
    "noised inputs by a coin": (
        {"mechanism": HybridMechanism(4.0, bounds=(-1, 1)), "noised_inputs": True},
        (np.zeros((4, 1)), np.zeros(4)),
        r"noised_inputs=True is exact for.*1 predictor\(s\) under Hybrid",
    ),
    "noised inputs with noise of their own": (
        {"mechanism": GaussianMechanism(scale=[1.0] * 4), "noised_inputs": True},
        (np.zeros((4, 1)), np.zeros(4)),
        "needs continuous noise with one scale for all records",
    ),
    "linear": ({"linear": "yes"}, (np.zeros((4, 1)), np.zeros(4)), "'linear' parameter"),
}


@pytest.mark.parametrize("name", BAD)
def test_bad_input_is_named(name):
    params, data, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        PrivateDPMixtureRegressor(**params).fit(*data)


def test_bad_predictions_are_named(bent):
    for q in (0.0, 1.0, [0.5, 1.5], "half", []):
        with pytest.raises(ValueError, match="q must be probabilities between 0 and 1"):
            bent.predict_quantiles([[0.0]], q)
    with pytest.raises(ValueError, match=r"y must have shape \(2,\)"):
        bent.score_samples([[0.0], [1.0]], [0.0])
    with pytest.raises(ValueError, match="return_std must be True or False"):
        bent.predict([[0.0]], return_std="yes")
    with pytest.raises(ValueError, match="level must be a probability"):
        bent.curve_interval([[0.0]], 1.0)
    with pytest.raises(ValueError, match="X has 2 features"):
        bent.predict([[0.0, 1.0]])
    with pytest.raises(AttributeError, match="fit with linear=True"):
        bent.coef_interval()


def test_density_of_the_joint_mixture_is_that_of_the_estimator(bent):
    """The parts agree: f(x, y) = f(x) f(y | x) in each draw, with the joint mixture's own density.

    But for the last atom of a draw, which the joint density takes for the base measure: it has a mass below 0.001.
    """
    assert isinstance(bent._joint_, PrivateDPMixture)
    y, x = np.linspace(-6, 6, 2001), -2.0
    joint = bent._joint_.density_draws(np.column_stack([np.full_like(y, x), y]))
    centre = (joint @ y) / joint.sum(axis=2)
    apart = np.abs(centre - bent.curve_draws([[x]])[..., 0])
    assert np.quantile(apart, 0.99) < 1e-3  # that atom may be narrow, and at this x: one draw in hundreds
    assert apart.max() < 0.1


@pytest.mark.parametrize("is_linear", [True, False])
def test_draws_go_to_arviz(bent, is_linear):
    """Catches a tree without the coefficients, or with replicates that are not releases of (x, y)."""
    pytest.importorskip("arviz_base")
    Z = line(40, 1.0)
    model = fitted(linear(GaussianMechanism(scale=1.0), n_chains=2, n_draws=50), Z) if is_linear else bent
    tree = model.to_datatree(posterior_predictive=True, thin=10, random_state=0)
    n, n_draws = (40, 5) if is_linear else (400, 30)
    assert tree["posterior_predictive"]["release"].shape == (2, n_draws, n, 2)
    assert tree["observed_data"]["release"].shape == (n, 2)
    assert ("coef" if is_linear else "n_clusters") in tree["posterior"]
    named = {"chain", "draw", "feature"} if is_linear else {"chain", "draw", "column", "place"}
    assert set(tree["posterior"].sizes) == named
    with pytest.raises(ValueError, match=r"log_likelihood=True\) is not available"):
        model.to_datatree(log_likelihood=True)


FAR_OFF = GaussianMechanism(scale=0.3, bounds=(-2, 2)), LaplaceMechanism(scale=0.3)


@pytest.mark.parametrize("far", [1e9, 1e21, 1e200, -1e200])
@pytest.mark.parametrize("mechanism", FAR_OFF, ids=repr)
def test_far_releases_say_what_the_farthest_does(mechanism, far):
    """Clamped records are beyond the bound; Laplace noise tilts them by exp(x/b).  Digits were lost there."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=100)
    y = np.clip(x + 0.3 * rng.normal(size=100), -2, 2)
    model = PrivateDPMixtureRegressor(
        mechanism, noised_inputs=True, n_chains=2, n_warmup=20, n_draws=20, random_state=0
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.clip(x, -2, 2)[:, None], y)
    draws, sign = model._joint_._draws_, np.sign(far)
    slope, intercept = regression(draws.flat.theta, 2)[:2]
    mean, sd = draws.flat.theta[:, 0], draws.flat.theta[:, 1]
    if mechanism.bounds is None:
        log_mass, at = sign * mean / 0.3 + 0.5 * (sd / 0.3) ** 2, mean + sign * sd**2 / 0.3
    else:
        beyond = stats.truncnorm((2.0 - sign * mean) / sd, np.inf)
        log_mass, at = stats.norm.logsf((2.0 - sign * mean) / sd), mean + sign * sd * beyond.mean()
    curves = []
    for first, last in itertools.pairwise(draws.start):
        shares = softmax((draws.log_weights + log_mass)[first:last])
        curves.append(shares @ (intercept + slope[:, 0] * at)[first:last])
    np.testing.assert_allclose(model.predict([[far]]), np.mean(curves), rtol=1e-4)
    assert -50.0 < model.score_samples([[far]], [0.0]).item() < 0.0
    assert np.isfinite(model.predict_quantiles([[far]], [0.1, 0.9])).all()


def test_places_where_no_component_has_a_density_are_refused(bent):
    """They had a prediction of 0, and a standard deviation of NaN."""
    for ask in (bent.predict, bent.curve_draws, bent.curve_interval):
        with pytest.raises(ValueError, match=r"row \[1e\+160\], which is too far"):
            ask([[0.0], [1e160]])
    with pytest.raises(ValueError, match="too far"):
        bent.predict_quantiles([[1e160]], 0.5)
    with pytest.raises(ValueError, match="too far"):
        bent.score_samples([[1e160]], [0.0])
