"""The normal approximation under a budget: curvature and coefficients given what was released, against quadrature."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import expit, gammaln, logsumexp, multigammaln
from sklearn.base import clone
from statistical import Disagreement, assert_mean_close

from sklearn_dpmix import DPLogisticRegressionMCMC
from sklearn_dpmix.estimators.private._dp_budget import Budget
from sklearn_dpmix.estimators.private._dp_normal import DPNormal
from sklearn_dpmix.estimators.private._noise_source import SimulatedNoise
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.models import LogisticLikelihood
from sklearn_dpmix.privacy import PrivacyLedger, gaussian_mu
from sklearn_dpmix.samplers import PrivateNormalApproximation
from sklearn_dpmix.samplers.private._curvature import EVENNESS, CurvaturePosterior, Expansion, ReleasedScore
from sklearn_dpmix.samplers.private._normal_approximation import NormalPosterior, _tempered, given, release_score
from sklearn_dpmix.samplers.private._normal_logits import NormalLogits, even_curvatures
from sklearn_dpmix.samplers.private._target import ROUNDING, Target

BUDGET = GaussianMechanism(epsilon=2.0, delta=1e-6)
OF_ONE = np.array([[[30.0]]])
ONE = ReleasedScore(np.array([0.4]), np.array([9.0]), 15.0, np.array([[25.0]]), 9.0, 2.0, 100.0, OF_ONE)
TWO = ReleasedScore(
    np.array([0.4, -0.2]),
    np.array([9.0, 4.0]),
    15.0,
    np.array([[25.0, 4.0], [4.0, 8.0]]),
    7.0,
    2.0,
    60.0,
    np.array([[[10.0, 0.0], [0.0, 20.0]], [[30.0, 10.0], [10.0, 10.0]]]),
)
SLOPE, SPREAD = np.array([[0.8, 0.3], [-0.1, 0.6]]), 0.7


def expansion(released):
    slope = SLOPE[: len(released.theta), : len(released.theta)]
    return Expansion(-slope @ released.theta, slope, SPREAD)


def walked(released, seed, n_steps=240):
    """Draws of the entries of H, and of θ given H: (walkers, steps, ...)."""
    rng, posterior = np.random.default_rng(seed), CurvaturePosterior(released, expansion(released))
    walkers, step = posterior.settle(rng, *posterior.start(rng, 60), 40)
    kept = []
    for _ in range(n_steps):
        walkers, _ = posterior.move(rng, walkers, step)
        kept.append(posterior.matrices(walkers.x))
    H = np.array(kept).transpose(1, 0, 2, 3)
    upper = np.triu_indices(H.shape[2])
    return H[:, :, upper[0], upper[1]]


def grid(released, n_points):
    """(entries of H at the points of a grid, their probabilities), straight from the definition."""
    p, top = len(released.theta), released.largest_trace
    side = (np.arange(n_points) + 0.5) / n_points
    if p == 1:
        H = (top * side)[:, None, None]
    else:  # trace, share of the first entry, correlation
        trace, share, r = (part.ravel() for part in np.meshgrid(top * side, side, 2.0 * side - 1.0, indexing="ij"))
        a, d = trace * share, trace * (1.0 - share)
        H = np.array([[a, r * np.sqrt(a * d)], [r * np.sqrt(a * d), d]]).transpose(2, 0, 1)
    offset, slope, spread = expansion(released)
    S = spread * H + H @ slope @ slope.T @ H / released.prior_precision + released.gradient_noise**2 * np.eye(p)
    mean = H @ offset
    error = H - released.curvature
    log_p = -0.5 * (error**2).sum(axis=(1, 2)) / released.curvature_noise**2
    rest = released.gradient - mean
    log_p -= 0.5 * np.linalg.slogdet(S)[1] + 0.5 * np.einsum("ki,kij,kj->k", rest, np.linalg.inv(S), rest)
    a = EVENNESS + 0.5 * (p + 1)
    terms = []
    for shape in released.shapes:  # W = RHRᵀ has a uniform trace, and given it a density proportional to det(W)^k
        R = np.linalg.inv(np.linalg.cholesky(shape)) * np.sqrt(np.trace(shape) / p)
        W = R @ H @ R.T
        log_trace = np.log(np.trace(W, axis1=1, axis2=2))
        log_det = np.linalg.slogdet(W)[1] - p * log_trace
        of_R = (p + 1) * np.linalg.slogdet(R)[1] - (0.5 * p * (p + 1) - 1.0) * log_trace
        terms += [gammaln(p * b) - multigammaln(b, p) + (b - a[0]) * log_det + of_R for b in a]
    log_p += logsumexp(terms, axis=0)
    if p == 2:  # dH = trace √(share (1 - share)) trace d(trace, share, r)
        log_p += 0.5 * np.log(share * (1.0 - share)) + 2.0 * np.log(trace)
    weights = np.exp(log_p - log_p.max())
    upper = np.triu_indices(p)
    return H[:, upper[0], upper[1]], weights / weights.sum()


def moments(entries):
    return np.concatenate([entries, entries**2], axis=-1)


@pytest.mark.parametrize("released, n_points", [(ONE, 20_000), (TWO, 60)], ids=["one", "two"])
def test_the_curvature_has_its_posterior(released, n_points):
    """Against quadrature; one that ignores half of the curvature's noise, or the gradient's, is found out."""
    entries, weights = grid(released, n_points)
    exact = weights @ moments(entries)
    assert_mean_close(moments(walked(released, 0)), exact, min_ess=400)
    for wrong in ({"curvature_noise": 0.5 * released.curvature_noise}, {"gradient_noise": 1.0}):
        with pytest.raises(Disagreement):
            assert_mean_close(moments(walked(released._replace(**wrong), 1)), exact, min_ess=400)


SHAPES = np.array([np.diag([1.0, 2.0, 1.0, 3.0]), 5.0 * np.eye(4) + 1.0])


@pytest.mark.parametrize("df", [None, 1.0])
def test_the_slope_of_the_log_density(df):
    """By differences, in all coordinates, with every term at work."""
    rng, p = np.random.default_rng(2), 4
    root = rng.standard_normal((p, p))
    released = ReleasedScore(
        rng.standard_normal(p), 9.0 * rng.standard_normal(p), 3.0, root @ root.T, 2.0, 0.2, 40.0, SHAPES, df
    )
    slope = np.eye(p) + 0.3 * rng.standard_normal((p, p))
    posterior = CurvaturePosterior(released, Expansion(rng.standard_normal(p), slope, SPREAD))
    x = 0.5 * rng.standard_normal((3, posterior.n_coordinates))
    _, slope = posterior.log_density(x)
    for j, step in enumerate(1e-5 * np.eye(posterior.n_coordinates)):
        up, down = (posterior.log_density(x + sign * step)[0] for sign in (1.0, -1.0))
        np.testing.assert_allclose(slope[:, j], (up - down) / 2e-5, rtol=1e-5, atol=1e-5)


MODEL = LogisticLikelihood(n_features=1, fit_intercept=False, prior_sigma=3.0, data_norm=1.0)


def exact_coefficient(posterior, log_prior):
    """Distribution function of θ under the model's own a(θ) and b(θ), by quadrature over (H, θ)."""
    one = posterior.released
    H = (np.arange(600) + 0.5) / 600 * one.largest_trace
    t = np.linspace(-10.0, 10.0, 2001)
    theta, volume = np.sinh(t), np.log(np.cosh(t))
    logits, points = posterior.logits, theta[:, None]
    displacement = logits.displacement(points)[:, 0]
    noise = np.sqrt(logits.flatness(points) * H[:, None] + one.gradient_noise**2)
    z = stats.norm.logpdf(one.gradient[0], H[:, None] * displacement, noise)
    if one.prior_df is not None:
        z += reference(posterior, H, points, noise) - reference(posterior, H, np.zeros((1, 1)), None)
    log_p = z + stats.norm.logpdf(one.curvature[0, 0], H, one.curvature_noise)[:, None] + log_prior(theta) + volume
    p = np.exp(log_p - log_p.max()).sum(axis=0)
    return theta, np.cumsum(p) / p.sum()


def reference(posterior, H, points, noise):
    """Half the log of the prior's precision and Fisher's information of θ in the gradient: (n_H, n_points)."""
    one, logits, step = posterior.released, posterior.logits, 1e-4
    if noise is None:
        noise = np.sqrt(logits.flatness(points) * H[:, None] + one.gradient_noise**2)
    slope = (logits.displacement(points + step) - logits.displacement(points - step))[:, 0] / (2.0 * step)
    return 0.5 * np.log(one.prior_precision + (H[:, None] * slope / noise) ** 2)


@pytest.mark.parametrize("df, prior", [(None, stats.norm(0, 3)), (1.0, stats.t(1, scale=3))], ids=["normal", "Cauchy"])
def test_coefficients_have_their_posterior(df, prior):
    """Where the log likelihood is far from a quadratic; weights, mixture and walkers, at alpha = 1e-6 of 300 draws.

    Fifty fits of which six draws each are taken: what resampling repeats is spread.  Constant a and b are found out,
    and so is Student's t alone.
    """
    released = ReleasedScore(
        np.array([0.2]), np.array([60.0]), 15.0, np.array([[40.0]]), 20.0, 1.0 / 9.0, 100.0, OF_ONE, df
    )
    drawn, plain, alone = [], [], []
    for seed in range(50):
        posterior = NormalPosterior(released, MODEL, 400)
        drawn.append(posterior.draws(np.random.default_rng([3, seed]), 100)[:6, 0])
        assert posterior.power > 0.99
        if df is not None:
            posterior._log_reference = lambda axes, theta: 0.0
            alone.append(posterior.draws(np.random.default_rng([6, seed]), 100)[:20, 0])
        if seed >= 10:  # of the twin some will do
            continue
        quadratic = Expansion(-released.theta, np.eye(1), 1.0)
        axes, of_prior = posterior._curvatures(np.random.default_rng([4, seed]), 100, quadratic)
        mean, root = given(released, axes, of_prior, quadratic)
        plain.append(mean[:, 0] + np.random.default_rng([5, seed]).standard_normal(100) / root[:, 0, 0])
    theta, cdf = exact_coefficient(posterior, prior.logpdf)

    def p_value(draws):
        return stats.kstest(np.interp(np.ravel(draws), theta, cdf), "uniform").pvalue

    assert p_value(drawn) > 1e-6 > p_value(plain)
    assert df is None or p_value(alone) < 1e-6


def test_a_curvature_that_noise_hides_has_the_shape_of_a_design():
    """Larger for an intercept than across it, smaller along the coefficients: ten features, n = 400, ε = 4.

    Mean ratios to the exact one, of eight releases.  The twin takes all directions for alike: intercepts and large
    coefficients then came out too far from 0, and an intercept of -2.5 was held in half of its 90 % intervals.
    """
    rng, model = np.random.default_rng(10), LogisticLikelihood(n_features=10, data_norm=np.sqrt(10.0))
    theta, ratios = np.array([2.0, *np.zeros(9), -1.5]), []
    for _ in range(8):
        target = Target(model, np.column_stack([rng.uniform(-1.4, 1.4, (400, 10)), rng.integers(0, 2, 400)]))
        released, exact = release_score(target, theta, 1.7, 2.9, SimulatedNoise(rng)), target.information(theta)
        for one in (released, released._replace(shapes=40.0 * np.eye(11)[None])):
            posterior = CurvaturePosterior(one)
            walkers, _ = posterior.settle(rng, *posterior.start(rng, 60), 20)
            H = posterior.matrices(walkers.x).mean(axis=0)
            ratios.append([H[-1, -1] / exact[-1, -1], (theta @ H @ theta) / (theta @ exact @ theta)])
    ours, twin = np.mean(np.reshape(ratios, (8, 2, 2)), axis=0)
    assert 0.9 < ours[0] < 1.4 and 0.7 < ours[1] < 1.5
    assert twin[0] < 0.85 and twin[1] > 1.6


def test_means_over_normal_logits():
    """Against quadrature, and each the derivative of the one before: also in the variance, by the heat equation."""
    mean, variance = np.array([-3.0, -0.4, 0.0, 1.5]), np.array([0.0, 0.5, 9.0, 2.0])
    nodes, shares = np.polynomial.hermite_e.hermegauss(80)
    p = expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes)
    exact = [part @ (shares / shares.sum()) for part in (p, p * (1.0 - p))]
    means = MODEL.normal_means(mean, variance)
    np.testing.assert_allclose(means[:2], exact, atol=2e-4)
    up, down = (MODEL.normal_means(mean + step, variance) for step in (1e-5, -1e-5))
    np.testing.assert_allclose((np.array(up) - down)[:3] / 2e-5, means[1:], atol=1e-8)
    up, down = (MODEL.normal_means(mean, variance + 1.0 + step) for step in (1e-5, -1e-5))
    np.testing.assert_allclose(
        (np.array(up) - down)[:2] / 1e-5, MODEL.normal_means(mean, variance + 1.0)[2:], atol=1e-8
    )


@pytest.mark.parametrize("intercept", [0.0, -2.5], ids=["balanced", "unbalanced"])
def test_how_the_gradient_changes(intercept):
    """For strong coefficients and rows that are not normal, a standard deviation or three away from them.

    What it says of θ is off by less than 0.07, of 0.7; one factor for all directions, even the best, by more than 0.1.
    Flatness, a mean over directions, is right to 12 %.
    """
    rng, model = np.random.default_rng(6), LogisticLikelihood(n_features=2, data_norm=np.sqrt(2.0))
    X = rng.uniform(-1.0, 1.0, (100_000, 2))
    design, truth, errors = np.column_stack([X, np.ones(len(X))]), np.array([3.0, -2.0, intercept]), []
    for toward in np.vstack([truth[None] / np.linalg.norm(truth), rng.standard_normal((6, 3)) / np.sqrt(3.0)]):
        start = truth - 0.7 * toward
        p, q = expit(design @ start), expit(design @ truth)
        H = (design * (p * (1.0 - p))[:, None]).T @ design
        exact = np.linalg.solve(H, design.T @ (q - p))
        logits, way = NormalLogits(model, H, start, len(X)), truth - start
        factor = (exact @ way) / (way @ way)
        found = np.array([logits.displacement(truth[None])[0], factor * way])
        errors.append(np.linalg.norm(found - exact, axis=1))
        flatness = np.trace(np.linalg.solve(H, (design * (q * (1.0 - q))[:, None]).T @ design)) / 3.0
        np.testing.assert_allclose(logits.flatness(truth[None]), flatness, rtol=0.12)
        steps = 1e-5 * np.eye(3)
        slopes = (logits.displacement(truth + steps) - logits.displacement(truth - steps)) / 2e-5
        np.testing.assert_allclose(logits.tangents(np.array([truth, start])), [slopes.T, np.eye(3)], atol=1e-7)
    ours, of_factor = np.sqrt(np.mean(np.square(errors), axis=0))
    assert ours < 0.07 < 0.1 < of_factor


@pytest.mark.parametrize("fit_intercept", [True, False])
def test_shapes_are_curvatures(fit_intercept):
    """Of large normal designs, far from 0 as near it."""
    rng = np.random.default_rng(11)
    model = LogisticLikelihood(n_features=3, fit_intercept=fit_intercept, data_norm=np.sqrt(3.0))
    theta = np.array([2.0, -1.0, 0.0, -1.5])[: model.n_params]
    shapes = even_curvatures(model, theta, 100_000)
    for size, shape in zip((1.0, 0.5), shapes[[0, 2]], strict=True):
        X = np.sqrt(size) * rng.standard_normal((100_000, 3))
        exact = model.observed_information(X, theta)
        np.testing.assert_allclose(shape, exact, atol=0.02 * np.trace(exact))


def rows(n=4000, seed=7):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1.0, 1.0, (n, 2)) / np.sqrt(2.0)
    return X, (rng.random(n) < expit(2.0 * X[:, 0] - X[:, 1] - 0.5)).astype(int)


def fitted(rho, **parameters):
    X, y = rows()
    model = DPLogisticRegressionMCMC(GaussianMechanism(rho=rho), data_norm=1.0, simulate=True, random_state=0)
    with pytest.warns(UserWarning, match="NOT private"):
        return model.set_params(**parameters).fit(X, y)


def test_without_noise_it_is_the_laplace_approximation():
    """Mode and inverse curvature by Newton's method on the records; catches a likelihood counted twice or never."""
    X, y = rows()
    design, theta = np.column_stack([X, np.ones(len(X))]), np.zeros(3)
    for _ in range(20):
        p = expit(design @ theta)
        precision = (design * (p * (1.0 - p))[:, None]).T @ design + np.eye(3) * 2.0 / 9.0
        theta = theta + np.linalg.solve(precision, design.T @ (y - p) - theta * 2.0 / 9.0)
    model = fitted(1e7, sampler=PrivateNormalApproximation(n_draws=4000, n_steps=6))
    draws = np.column_stack([model.coef_draws_[0], model.intercept_draws_[0]])
    white = (draws - theta) @ np.linalg.cholesky(precision)
    assert np.all(np.abs(white.mean(axis=0)) < 5.0 / np.sqrt(1000.0))
    np.testing.assert_allclose(np.cov(white.T), np.eye(3), atol=0.15)
    noisy = fitted(0.02)
    assert np.all(noisy.coef_draws_.std(axis=(0, 1)) > 1.3 * model.coef_draws_.std(axis=(0, 1)))


@pytest.mark.parametrize(("spread", "n_least"), [(0.1, 500.0), (5.0, 500.0), (40.0, 1500.0)])
def test_tempered_weights_are_of_the_stated_power_and_count_for_enough(spread, n_least):
    """Catches weights of another power than the one returned, and weights that count for less than asked."""
    rng = np.random.default_rng(3)
    own, change = rng.normal(size=(2, 3000)) * [[0.3], [spread]]
    power, weights = _tempered(own, change, n_least)
    expected = np.exp(own + power * change - logsumexp(own + power * change))
    np.testing.assert_allclose(weights, expected, rtol=1e-10)
    assert 1.0 / (weights**2).sum() >= n_least * (1.0 - 1e-12)
    log_weights = own + (power + 2.0**-10) * change
    assert power == 1.0 or np.exp(logsumexp(2 * log_weights) - 2 * logsumexp(log_weights)) * n_least > 1.0


@pytest.mark.filterwarnings("ignore:simulate=True:UserWarning")
@pytest.mark.parametrize("seed", range(3))
def test_a_gradient_that_no_coefficients_have(seed):
    """Catches steps of the search for a mode that overshoot: labels are all 1, and noise asks for more than that.

    Intercepts of a hundred were next, where all curvatures are 0: LinAlgError, once the budget was spent.
    """
    approximation = PrivateNormalApproximation(n_draws=100)
    budget = GaussianMechanism(epsilon=100.0, delta=1e-3)
    model = DPLogisticRegressionMCMC(
        budget, sampler=approximation, data_norm=1e-3, prior_sigma=2e3, simulate=True, random_state=seed
    )
    mode = model.fit(np.zeros((3000, 2)), np.ones(3000, dtype=int)).sampler_.mode_
    assert 5.0 < mode[2] < 20.0


def test_it_releases_what_it_pays_for():
    """A gradient and a curvature a step, at the planned noise; catches a release more, or one that is not counted."""
    counts = []

    class Counting(SimulatedNoise):
        def release(self, values, sensitivity, multiplier):
            counts.append((len(values), multiplier))
            return super().release(values, sensitivity, multiplier)

    model = LogisticLikelihood(n_features=2, data_norm=1.0)
    estimator = DPNormal(PrivateNormalApproximation(n_steps=3), BUDGET, model=model, simulate=True)
    estimator._sources = lambda n: [Counting(np.random.default_rng(i)) for i in range(n)]
    with pytest.warns(UserWarning, match="NOT private"):
        estimator._warn(estimator._draw(*rows(200)))
    assert [size for size, _ in counts] == [3, 6] * 3
    np.testing.assert_allclose(sum(0.5 / m**2 for _, m in counts), gaussian_mu(2.0, 1e-6), rtol=1e-9)
    assert 2.0 - 1e-6 < estimator.privacy_spent_.epsilon <= 2.0
    one = estimator.released_  # noise = multiplier times the largest difference of two records
    farthest = model.gradient_range(one.theta, np.eye(3))
    np.testing.assert_allclose(one.gradient_noise / counts[-2][1], farthest, rtol=1e-5)
    farthest = model.information_range(one.theta) * ROUNDING
    np.testing.assert_allclose(one.curvature_noise / counts[-1][1], farthest, rtol=1e-12)


def test_what_is_spent_is_no_more_than_the_budget():
    """Catches shares of ρ whose sum is a unit in the last place more."""
    for rho in np.linspace(0.1, 3.0, 60):
        budget = Budget(DPNormal(PrivateNormalApproximation(), GaussianMechanism(rho=rho)))
        releases = [one for pair in PrivateNormalApproximation(n_steps=5).parts(budget) for one in pair]
        assert rho * (1.0 - 1e-12) < budget.spent(releases).rho <= rho


def test_largest_information_bounds_every_record():
    """And is reached, at θ = 0 by the longest row."""
    model = LogisticLikelihood(n_features=2, data_norm=1.5)
    rng = np.random.default_rng(8)
    X = model.clip_records(np.column_stack([4.0 * rng.standard_normal((200, 2)), np.zeros(200)]))
    traces = [np.trace(model.observed_information(x[None], np.zeros(3))) for x in X]
    np.testing.assert_allclose(max(traces), model.largest_information)
    assert np.trace(model.observed_information(X[:1], np.ones(3))) < model.largest_information


def test_default_is_draws_and_no_chains(recwarn):
    """No R-hat, no warning, one row of draws; what is in the summary without them; a ledger that is charged once."""
    ledger = PrivacyLedger(2.5, 1e-6)
    model = DPLogisticRegressionMCMC(BUDGET, data_norm=1.0, ledger=ledger).fit(*rows(1000))
    assert not [w for w in recwarn if "mixed" in str(w.message)] and not hasattr(model, "r_hat_")
    assert model.coef_draws_.shape == (1, 1000, 2) and model.intercept_draws_.shape == (1, 1000)
    assert list(model.summary().index) == ["coef[0]", "coef[1]", "intercept"]
    assert ledger.spent.epsilon == pytest.approx(model.privacy_spent_.epsilon, rel=1e-3)
    named = clone(model).set_params(sampler="normal", ledger=None).fit(*rows(1000))
    assert type(named.sampler_) is type(model.sampler_) and not np.array_equal(named.coef_, model.coef_)
    with pytest.raises(ValueError, match="budget"):
        model.fit(*rows(1000))


@pytest.mark.parametrize("size", [1.0, 0.001])
def test_columns_that_noise_hides_are_named(recwarn, size):
    """Beside a thousand times larger one: the interval is no more than what the prior says of such a column."""
    X, y = rows(20_000)
    DPLogisticRegressionMCMC(BUDGET, data_norm=1.0).fit(X * [1.0, size], y)
    found = [str(w.message) for w in recwarn if "noise swamps columns" in str(w.message)]
    assert len(found) == (size < 1.0) and all("columns [1] of X" in one for one in found)


@pytest.mark.parametrize(
    "parameters, message",
    [
        ({"sampler": PrivateNormalApproximation(n_steps=0)}, "n_steps of PrivateNormalApproximation"),
        ({"sampler": PrivateNormalApproximation(n_draws=5)}, "n_draws of PrivateNormalApproximation"),
        ({"sampler": PrivateNormalApproximation(curvature_share=1.0)}, "curvature_share of PrivateNormalApproximation"),
        ({"sampler": "normal", "mechanism": None}, "needs a mechanism"),
        ({"sampler": PrivateNormalApproximation(secure=True), "simulate": True}, "exclude each other"),
        ({"mechanism": GaussianMechanism(epsilon=-1.0, delta=1e-6)}, "epsilon of the mechanism of DPLogisticRegr"),
        ({"mechanism": GaussianMechanism(epsilon=1.0, delta=1e-6, bounds=(0, 1))}, "mechanism of DPLogisticRegr"),
        ({"random_state": 0}, "DPLogisticRegressionMCMC draws noise"),
        ({"ledger": 5.0}, "ledger of DPLogisticRegressionMCMC"),
        ({"ledger": PrivacyLedger(0.1, 1e-6)}, "DPLogisticRegressionMCMC"),
    ],
)
def test_bad_parameters(parameters, message):
    """Each names what is wrong, and the public class."""
    with pytest.raises((TypeError, ValueError), match=message):
        DPLogisticRegressionMCMC(BUDGET, data_norm=1.0).set_params(**parameters).fit(*rows(50))


@pytest.mark.slow
def test_draws_are_as_far_from_the_truth_as_they_say():
    """Squared distances over forty releases, in the draws' own covariances: χ² with 3 degrees of freedom each.

    Catches draws without the noise of the gradient, and draws of three times it.
    """
    rng, truth, noises = np.random.default_rng(9), np.array([2.0, -1.0, -0.5]), (1.0, 0.01, 3.0)
    sampler, distances = PrivateNormalApproximation(n_draws=400), np.zeros(3)
    for seed in range(40):
        X, y = rows(5000, seed=[9, seed])
        model = DPLogisticRegressionMCMC(GaussianMechanism(epsilon=0.5, delta=1e-6), data_norm=1.0, sampler=sampler)
        model.set_params(prior_sigma=2.0)  # of light tails: covariances of draws are to say how far they go
        with pytest.warns(UserWarning, match="NOT private"):
            model.set_params(simulate=True, random_state=seed).fit(X, y)
        one, found = model.sampler_.released_, [np.column_stack([model.coef_draws_[0], model.intercept_draws_[0]])]
        for factor in noises[1:]:
            wrong = one._replace(gradient_noise=factor * one.gradient_noise)
            found.append(NormalPosterior(wrong, model.sampler_.model, len(X)).draws(rng, 400))
        errors = [np.linalg.solve(np.linalg.cholesky(np.cov(draws.T)), draws.mean(axis=0) - truth) for draws in found]
        distances += [error @ error for error in errors]
    right, without, thrice = stats.chi2.cdf(distances, 3 * 40)
    assert 1e-6 < right < 1.0 - 1e-6
    assert without > 1.0 - 1e-6
    assert thrice < 1e-6
