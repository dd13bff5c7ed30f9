"""Paths of a regression's parameters and of its records' mean and covariance: their force, and draws that stay such."""

from math import log

import numpy as np
import pytest
from scipy import stats
from statistical import Disagreement

from sklearn_dpmix._base.compiled import compiled, entry, lower
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import GaussianPredictors, HistogramPredictors, RegressionPrior
from sklearn_dpmix.models._regression_model import ClampedRegression
from sklearn_dpmix.samplers._release_density import log_release
from sklearn_dpmix.samplers.augmentation._augmented_state import MOVES_ACCEPTED, MOVES_PROPOSED, N_RECORDS, new_state
from sklearn_dpmix.samplers.augmentation._regression_count import NoisyRegressionNumber
from sklearn_dpmix.samplers.augmentation._regression_records import RegressionAugmentation
from sklearn_dpmix.samplers.augmentation._sweeps import refresh_total


def parts(p, x_model, sigma=None, model_class=ClampedRegression, seed=0):
    """A model and bounds of p predictors."""
    bounds = np.sort(np.random.default_rng(seed).normal(size=(p + 1, 2)), axis=1)
    prior = RegressionPrior(1.3, sigma=sigma, sigma_scale=None if p > 1 else 0.2).scaled(bounds)
    return model_class(bounds, prior, x_model)


@pytest.mark.parametrize(
    ("p", "sigma", "x_model"),
    [
        (1, None, GaussianPredictors()),
        (3, 0.3, GaussianPredictors(mean=np.zeros(3))),
        (2, None, GaussianPredictors(covariance=np.eye(2))),
        (2, 0.4, GaussianPredictors(np.zeros(2), np.eye(2))),
        (2, None, HistogramPredictors(4)),
    ],
)
def test_the_force_is_the_gradient_of_the_density(p, sigma, x_model):
    """In plain Python; a wrong force leaves the posterior right and the chains slow, so that nothing else sees it."""
    rng, model = np.random.default_rng(0), parts(p, x_model, sigma)
    value, n_moments, size = model._lower(), (p + 1) * (p + 4) // 2, model.n_coordinates
    work, records, moments = np.zeros(model.work_shape(n_moments)), rng.normal(size=(20, p + 2)), np.zeros(n_moments)
    records[:, 0] = 1.0
    work[p + 2 : 2 * p + 4, : p + 2] = np.linalg.cholesky(records.T @ records)
    theta, point, force = model.start(np.eye(p + 2) + 0.1, rng), np.zeros(size), np.zeros(size)
    value.set_point(theta, work, point, np.zeros(model.n_params + 1))
    point += 0.1 * rng.normal(size=size)
    work[4 * p + 6, :n_moments], work[4 * p + 7, : len(theta)] = rng.normal(size=n_moments), theta
    value.set_expected(theta, moments, work, True)
    slope = 0.01 * rng.normal(size=n_moments)

    def log_density(x):
        assert value.set_moments(x, moments, work)
        return value.log_prior(x, work) + slope @ moments - 1e-3 * moments @ moments

    log_density(point)
    value.set_force(point, slope - 2e-3 * moments, force, work)
    steps = 1e-6 * np.eye(size)
    expected = [(log_density(point + step) - log_density(point - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(force, expected, rtol=1e-5, atol=1e-5)


def test_expected_moments_are_those_of_clamped_normal_records():
    """Against 400,000 records; exact where one coordinate of two is within the bounds, as the first is here."""
    rng, n = np.random.default_rng(1), 400_000
    model = parts(2, GaussianPredictors(), seed=3)
    value, work, moments = model._lower(), np.zeros(model.work_shape(9)), np.zeros(9)
    centre, half = model.bounds.mean(axis=1), 0.5 * np.diff(model.bounds).ravel()
    theta = np.zeros(model.n_params)
    theta[:4] = centre[2] + 0.3 * half[2], 0.9 * half[2] / half[0], 0.4 * half[2] / half[1], 0.6 * half[2]
    theta[1], theta[0] = theta[1], theta[0] - theta[1] * centre[0] - theta[2] * centre[1]
    theta[4:6], theta[6:9] = centre[:2], (0.1 * half[0], 0.02 * half[1], 0.8 * half[1])
    records, found = np.zeros((n, 3)), np.zeros((n, 9))
    standard = rng.standard_normal((n, 3))
    root = np.array([[theta[6], 0.0], [theta[7], theta[8]]])
    records[:, :2] = theta[4:6] + standard[:, :2] @ root.T
    records[:, 2] = theta[0] + records[:, :2] @ theta[1:3] + theta[3] * standard[:, 2]
    for i in range(1000):
        value.contribute(records, i, found, i)
    scaled = np.clip((records - centre) / half, -1.0, 1.0)
    np.testing.assert_allclose(found[:1000, 0], scaled[:1000, 2])
    design = np.column_stack([np.ones(n), standard])
    work[4:8, :4] = np.linalg.cholesky(design.T @ design)
    value.set_expected(theta, moments, work, True)
    x, y = scaled[:, :2], scaled[:, 2]
    terms = [y, x[:, 0] * y, x[:, 1] * y, y * y, x[:, 0], x[:, 1], x[:, 0] ** 2, x[:, 0] * x[:, 1], x[:, 1] ** 2]
    for j, term in enumerate(terms):
        if j != 2:  # both of x_2 and y are clamped: nearly so
            assert abs(moments[j] / n - term.mean()) < 5.0 * term.std() / np.sqrt(n)
    assert abs(moments[2] / n - terms[2].mean()) < 0.02


@entry
def walks(sampler, model, channel, state, thetas, noise, rng, before, after):
    """Draw records and a release of each θ, and let the paths move them; what is compared before and after."""
    n, S = state.ints[N_RECORDS], np.zeros((1, state.total.size))
    for r in range(len(thetas)):
        state.theta[:] = thetas[r]
        for i in range(n):
            model.draw_record(rng, state.theta, state.records, i)
            model.contribute(state.records, i, state.contributions, i)
        refresh_total(state)
        S[0] = state.total + noise[r]
        model.update_theta(rng, state.theta, state.records, n, state.work)  # leaves the sums
        before[r, : state.theta.size], before[r, state.theta.size :] = state.theta, state.total
        sampler.move(model, channel, S, state, rng, log_release(channel, S, state.total), False)
        refresh_total(state)
        after[r, : state.theta.size], after[r, state.theta.size :] = state.theta, state.total


def draw_thetas(rng, model, n_draws):
    """Parameters from their prior."""
    p, x, thetas = len(model.bounds) - 1, model.x_model, np.zeros((n_draws, model.n_params))
    thetas[:, : p + 1] = model.prior.mean + rng.standard_normal((n_draws, p + 1)) @ model.prior.root.T
    thetas[:, p + 1] = np.sqrt(model.prior.scale / rng.standard_gamma(model.prior.shape, n_draws))
    if isinstance(x, HistogramPredictors):
        shares = rng.dirichlet(np.full(x.n_bins + 2, x.concentration / (x.n_bins + 2)), (n_draws, p))
        thetas[:, p + 2 :] = shares.reshape(n_draws, -1)
    else:
        width = np.diff(model.bounds[:p]).ravel()
        thetas[:, p + 2 : 2 * p + 2] = model.bounds[:p].mean(axis=1) + 0.5 * width * rng.standard_normal((n_draws, p))
        covariance = stats.invwishart(p + 2, np.diag(width**2 / 16.0)).rvs(n_draws, rng).reshape(n_draws, p, p)
        thetas[:, 2 * p + 2 :] = np.linalg.cholesky(covariance)[:, *np.tril_indices(p)]
    return thetas


def check_invariance(model, n, n_draws=100_000):
    """Draws of parameters, records and a release stay such: means of what the paths do to them are 0."""
    rng, p, scale = np.random.default_rng(4), len(model.bounds) - 1, 0.6
    k, thetas = (p + 1) * (p + 4) // 2, draw_thetas(rng, model, n_draws)
    state = new_state(model, n, n, k, thetas[0].copy())
    state.metric[:] *= 0.3
    channel = LaplaceMechanism(scale=scale)._lower(n_records=1, n_features=k)
    before, after = np.zeros((2, n_draws, model.n_params + k))
    noise = rng.laplace(scale=scale, size=(n_draws, k))
    sampler = RegressionAugmentation(sd=scale * np.sqrt(2.0), n_walks=12)
    walks(sampler._lower(), model._lower(), channel, state, thetas, noise, rng, before, after)
    assert state.floats[MOVES_PROPOSED] == 12 * n_draws and state.floats[MOVES_ACCEPTED] > 4 * n_draws
    check_means(model, np.column_stack([before, np.full(n_draws, n)]), np.column_stack([after, np.full(n_draws, n)]))


def check_means(model, before, after, least=0.3):
    """Raise Disagreement where the mean of a quantity of (θ, sums, n) changes; ``least`` of all draws must move."""
    p, n_draws = len(model.bounds) - 1, len(before)
    quantities = {
        "log σ": lambda t: np.log(t[:, p + 1]),
        "intercept": lambda t: np.clip(t[:, 0], -5.0, 5.0),
        "slope²": lambda t: np.minimum(t[:, 1] ** 2, 9.0),
        "Σy": lambda t: t[:, model.n_params],
        "Σxy": lambda t: t[:, model.n_params + 1],
        "variance of y": lambda t: t[:, model.n_params + p + 1] - t[:, model.n_params] ** 2 / t[:, -1],
    }
    if not isinstance(model.x_model, HistogramPredictors):
        quantities |= {
            "mean of x": lambda t: np.clip(t[:, p + 2], -5.0, 5.0),
            "log sd of x": lambda t: np.log(t[:, 2 * p + 2]),
            "Σx": lambda t: t[:, model.n_params + p + 2],
            "variance of x": lambda t: t[:, model.n_params + 2 * p + 2] - t[:, model.n_params + p + 2] ** 2 / t[:, -1],
        }
    if np.any(before[:, -1] != before[0, -1]):
        quantities |= {"n": lambda t: t[:, -1], "n log σ": lambda t: t[:, -1] * np.log(t[:, p + 1])}
    for name, f in quantities.items():
        gaps = f(after) - f(before)
        assert np.mean(gaps != 0.0) > least, name
        z = gaps.mean() / (gaps.std() / np.sqrt(n_draws))
        if abs(z) > stats.norm.isf(0.5e-6):
            raise Disagreement(f"{name} changes by {gaps.mean():.4f}, {z:+.1f} standard errors")


def problem(p, x_model, model_class=ClampedRegression):
    """Bounds that clamp about a fifth of the records."""
    bounds = np.tile([-1.0, 1.0], (p + 1, 1))
    prior = RegressionPrior(coef_scale=0.7, sigma_shape=4.0, sigma_scale=1.0).scaled(bounds)
    return model_class(bounds, prior, x_model)


class Faulty(ClampedRegression):
    """K's diagonal has the density of ``degrees`` records more; that of entries below it lacks a share ``flat``.

    One class for all twins, so that they are compiled together.
    """

    right, degrees, flat = ClampedRegression.log_prior, 0.0, 0.0

    def _lower(self, **context):
        right = super()._lower(**context)
        faults = {"degrees": self.degrees, "flat": self.flat}
        return lower(type(self), {name: getattr(right, name) for name in right._fields} | faults)

    @compiled
    def log_prior(self, point, work):
        value, root = self.right(point, work), work[self.root_rows()]
        for a in range(self.first_free(), self.p + 2):
            value += self.degrees * log(root[a, a])
            for b in range(a):
                value += 0.5 * self.flat * root[a, b] ** 2
        return value


class DegreesOffByOne(Faulty):
    """The density of K's diagonal is that of one record more."""

    degrees = 1.0


class OtherEntriesForgotten(Faulty):
    """K's entries below the diagonal have a flat prior."""

    flat = 1.0


@pytest.mark.slow
@pytest.mark.parametrize("p", [1, 2])
@pytest.mark.parametrize("x_model", [GaussianPredictors(), HistogramPredictors(3, 4.0)])
def test_draws_stay_such(p, x_model):
    """Catches a wrong density of K, another map of the records than that of the moments, a wrong acceptance."""
    check_invariance(problem(p, x_model), 7)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("twin", "x_model"),
    [
        (DegreesOffByOne, GaussianPredictors()),
        (DegreesOffByOne, HistogramPredictors(3, 4.0)),
        (OtherEntriesForgotten, GaussianPredictors()),
    ],
)
def test_broken_twin_is_rejected(twin, x_model):
    with pytest.raises(Disagreement):
        check_invariance(problem(1, x_model, twin), 7)


@entry
def leaps(counting, model, channel, state, thetas, numbers, noise, counts, rng, before, after):
    """Draw as many records as there are, and a release, of each θ; numbers of records then leap."""
    S, size = np.zeros((1, state.total.size)), state.theta.size
    for r in range(len(thetas)):
        state.theta[:], n = thetas[r], numbers[r]
        state.ints[N_RECORDS] = n
        for i in range(n):
            model.draw_record(rng, state.theta, state.records, i)
            model.contribute(state.records, i, state.contributions, i)
        refresh_total(state)
        S[0] = state.total + noise[r]
        model.update_theta(rng, state.theta, state.records, n, state.work)
        before[r, :size], before[r, size:-1], before[r, -1] = state.theta, state.total, n
        current = log_release(channel, S, state.total)
        for _ in range(8):
            current = counting.leap(rng, model, channel, counts[r], S, state, current)
            model.update_theta(rng, state.theta, state.records, state.ints[N_RECORDS], state.work)
        refresh_total(state)
        after[r, :size], after[r, size:-1], after[r, -1] = state.theta, state.total, state.ints[N_RECORDS]


def check_leaps(model, number=NoisyRegressionNumber, n_draws=40_000):
    """Numbers of records from p + 2 to 14, all alike in the prior."""
    rng, p, scale, least, most = np.random.default_rng(8), len(model.bounds) - 1, 0.6, len(model.bounds) + 1, 14
    k, thetas = (p + 1) * (p + 4) // 2, draw_thetas(rng, model, n_draws)
    numbers = rng.integers(least, most, size=n_draws, endpoint=True)
    state = new_state(model, most, most, k, thetas[0].copy())
    channel = LaplaceMechanism(scale=scale)._lower(n_records=1, n_features=k)
    before, after = np.zeros((2, n_draws, model.n_params + k + 1))
    noise, counts = rng.laplace(scale=scale, size=(n_draws, k)), numbers + rng.laplace(scale=2.0, size=n_draws)
    counting = number(LaplaceMechanism(scale=2.0), 2.0)._lower()
    values = counting, model._lower(), channel, state, thetas, numbers, noise, counts[:, None, None]
    leaps(*values, rng, before, after)
    check_means(model, before, after, 0.1)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("p", "x_model"), [(1, GaussianPredictors()), (2, GaussianPredictors()), (1, HistogramPredictors(3, 4.0))]
)
def test_draws_stay_such_where_the_number_of_records_leaps(p, x_model):
    """Catches a wrong Jacobian, another map of the records than that of θ, a forgotten prior."""
    check_leaps(problem(p, x_model))


class DegreesOffByTwo(NoisyRegressionNumber):
    """(R/R₀)² has a power of n too few, in each factor."""

    @compiled
    def gain(self, count, n, new):
        ratio = self.mechanism.log_release(count, 0, 0, new) - self.mechanism.log_release(count, 0, 0, n)
        return ratio + log(new / n)


@pytest.mark.slow
def test_broken_leap_is_rejected():
    with pytest.raises(Disagreement):
        check_leaps(problem(1, GaussianPredictors()), DegreesOffByTwo)
