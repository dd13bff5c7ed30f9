"""Moves of many records of a histogram at once: the prior is reproduced, proposals have the chances they say."""

import numpy as np
import pytest
from scipy import stats
from scipy.special import digamma
from statistical import Disagreement, effective_sample_size

from sklearn_dpmix import PrivateLinearRegressionDA
from sklearn_dpmix._base.compiled import compiled, entry
from sklearn_dpmix.estimators.curator import _regression_problems
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import HistogramPredictors, RegressionPrior
from sklearn_dpmix.models._cell_counts import mean_square, middle, propose_change, set_direction
from sklearn_dpmix.models._regression_model import ClampedRegression
from sklearn_dpmix.queries import RegressionMoments
from sklearn_dpmix.samplers._release_density import log_release
from sklearn_dpmix.samplers.augmentation import _keep_response, _regression_shapes
from sklearn_dpmix.samplers.augmentation._augmented_state import N_RECORDS, new_state
from sklearn_dpmix.samplers.augmentation._regression_shapes import TO, ShapeAugmentation, change_shapes

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
N_BINS, CONCENTRATION = 3, 4.0


def check_prior(monkeypatch, sigma=None):
    """Fit a release that says nothing, y being clamped often, mostly by changes of shape; compare with the prior."""
    monkeypatch.setattr(_regression_problems, "WALK_RECORDS", 0)
    monkeypatch.setattr(_regression_problems, "TRY_RECORDS", 12 * 300)  # twice as many a sweep change little more
    monkeypatch.setattr(_regression_shapes, "FEWER", 1.0)
    query = RegressionMoments((-1.0, 1.0), (-1.0, 1.0), 1)
    prior = RegressionPrior(coef_scale=0.7, sigma=sigma, sigma_shape=4.0, sigma_scale=1.0)
    model = PrivateLinearRegressionDA(
        LaplaceMechanism(scale=1e4, query=query),
        prior=prior,
        x_model=HistogramPredictors(N_BINS, CONCENTRATION),
        n_records=12,
        n_draws=10_000,
        thin=2,
        random_state=3,
    ).fit(np.zeros(5))
    a = CONCENTRATION / (N_BINS + 2)
    share = model.x_share_draws_[..., 0, :]
    exact = {
        "intercept": (model.intercept_draws_, 0.0),
        "slope": (model.coef_draws_[..., 0], 0.0),
        "intercept²": (model.intercept_draws_**2, 0.49),
        "slope²": (model.coef_draws_[..., 0] ** 2, 0.49),
        "share of the lower bound": (share[..., 0], 0.2),
        "its square": (share[..., 0] ** 2, 0.2 * (a + 1.0) / (CONCENTRATION + 1.0)),
        "square of the middle's": (share[..., 2] ** 2, 0.2 * (a + 1.0) / (CONCENTRATION + 1.0)),
    }
    if sigma is None:
        exact["log σ²"] = (2.0 * np.log(model.sigma_draws_), -digamma(4.0))
    for name, (draws, value) in exact.items():
        error = draws.std() / np.sqrt(effective_sample_size(draws, what=name))
        z = (draws.mean() - value) / error
        if abs(z) > stats.norm.isf(0.5e-6):
            raise Disagreement(f"{name}: {draws.mean():.4f}, {z:+.1f} standard errors from {value}")


@pytest.mark.slow
@pytest.mark.parametrize("sigma", [None, 0.4])
def test_a_release_that_says_nothing_leaves_the_prior(sigma, monkeypatch):
    """Catches a wrong Jacobian, wrong weights of counts and a wrong chance of a proposal."""
    check_prior(monkeypatch, sigma)


class SigmaForgotten(ShapeAugmentation):
    """The Jacobian is that of σ, where the prior is that of log σ."""

    @compiled
    def log_ratio(self, model, state, before, after):
        to = state.work[TO][: state.theta.size]
        return model.log_prior_block(to, 0) - model.log_prior_block(state.theta, 0) + before - after


class DeterminantForgotten(ShapeAugmentation):
    """(α, β, σ) follow the sums for nothing."""

    @compiled
    def log_ratio(self, model, state, before, after):
        to = state.work[TO][: state.theta.size]
        return model.log_prior_block(to, 0) - model.log_prior_block(state.theta, 0)


@entry
def shapes_of_prior(sampler, model, channel, S, state, thetas, rng, after):
    """Records of each θ, and what changes of shape make of θ."""
    for r in range(len(thetas)):
        state.theta[:] = thetas[r]
        state.total[:] = 0.0
        for i in range(state.ints[N_RECORDS]):
            model.draw_record(rng, state.theta, state.records, i)
            model.contribute(state.records, i, state.contributions, i)
            state.total[:] += state.contributions[i]
        change_shapes(sampler, rng, 30, model, channel, S, state, log_release(channel, S, state.total))
        after[r] = state.theta


def check_invariance(sampler, n_draws=40_000):
    """Draws of the prior stay such where nothing was released: means of what changes do to them are 0."""
    bounds, rng, n = np.tile([-1.0, 1.0], (2, 1)), np.random.default_rng(4), 12
    prior = RegressionPrior(coef_scale=0.7, sigma_shape=4.0, sigma_scale=1.0).scaled(bounds)
    model = ClampedRegression(bounds, prior, HistogramPredictors(N_BINS, CONCENTRATION))
    coefs, sigma = 0.7 * rng.standard_normal((n_draws, 2)), rng.standard_gamma(4.0, n_draws) ** -0.5
    shares = rng.dirichlet(np.full(N_BINS + 2, CONCENTRATION / (N_BINS + 2)), n_draws)
    thetas = np.column_stack([coefs, sigma, shares])
    state = new_state(model, n, n, 5, np.array([0.0, 0.0, 0.5, *[0.2] * 5]))
    channel, after = GaussianMechanism(scale=1e4)._lower(n_records=1, n_features=5), np.empty_like(thetas)
    shapes_of_prior(sampler._lower(), model._lower(), channel, np.zeros((1, 5)), state, thetas, rng, after)
    moved = np.mean(after[:, 0] != thetas[:, 0])
    assert moved > 0.5
    for name, f in {
        "log σ": lambda t: np.log(t[:, 2]),
        "intercept²": lambda t: np.minimum(t[:, 0] ** 2, 9.0),
        "slope²": lambda t: np.minimum(t[:, 1] ** 2, 9.0),
    }.items():
        gaps = f(after) - f(thetas)
        z = gaps.mean() / (gaps.std() / np.sqrt(n_draws))
        if abs(z) > stats.norm.isf(0.5e-6):
            raise Disagreement(f"{name} changes by {gaps.mean():.4f}, {z:+.1f} standard errors")


@pytest.mark.slow
def test_draws_of_the_prior_stay_such():
    """One series of changes at a time, so that no other move hides a small error."""
    check_invariance(ShapeAugmentation(n_tries=30))


@pytest.mark.slow
@pytest.mark.parametrize("twin", [SigmaForgotten, DeterminantForgotten])
def test_broken_twin_is_rejected(twin):
    """The same check disagrees where a part of the Jacobian is forgotten."""
    with pytest.raises(Disagreement):
        check_invariance(twin(n_tries=30))


def test_a_change_keeps_the_moments():
    """Number, mean and mean square of the records stay but for rounding; catches a wrong direction."""
    rng, counts, n_cells = np.random.default_rng(0), np.array([40.0, 3, 0, 90, 11, 0, 60, 8, 5]), 9
    cells, direction, change, n_changes = np.zeros(4), np.zeros(4), np.zeros(n_cells), 0
    means, squares = (np.array([f(n_cells, k) for k in range(n_cells)]) for f in (middle, mean_square))
    for _ in range(500):
        if propose_change(rng, 0.3, n_cells, 217.0, counts, cells, direction, change) > -np.inf:
            n_changes += 1
            assert change.sum() == 0.0 and np.all(counts + change >= 0) and np.sum(change != 0) <= 4
            assert abs(change @ means) <= 1.0 and abs(change @ squares) <= 2.0
            assert np.abs(change).max() >= 0.03 * 217
    assert n_changes > 20


def test_the_direction_alternates():
    """Cells are corners of a convex curve, the bounds among them."""
    direction = np.zeros(4)
    for n_cells in (4, 5, 12, 100):
        rng = np.random.default_rng(n_cells)
        for _ in range(50):
            cells = np.sort(rng.choice(n_cells, 4, replace=False)).astype(float)
            set_direction(n_cells, cells, direction)
            assert np.all(direction * [1, -1, 1, -1] > 0.0) and np.abs(direction).max() == 1.0


def share_found(n):
    """How often (α, β, σ) are found from others far away, of problems with many clamped records."""
    rng, n_found = np.random.default_rng(0), 0
    for _ in range(400):
        records = np.column_stack([rng.uniform(-1.0, 1.0, n), rng.standard_normal(n)])
        lines, sigmas = rng.uniform((-0.5, -2.0), (0.8, 3.0), (2, 2)), np.exp(rng.uniform(-3.0, 0.0, 2))
        kappa, found = np.column_stack([lines, sigmas])
        sums, target, value, slope = np.zeros((3, 3)), np.zeros(3), np.zeros(3), np.zeros((4, 3))
        _keep_response.products(records, n, 1, sums)
        _keep_response.response_sums(records, n, 1, 3, kappa, sums, target, slope)
        log_slope = _keep_response.solve(records, n, 1, 3, target, sums, found, value, slope)
        n_found += log_slope > -np.inf and np.allclose(found, kappa, atol=1e-6)
    return n_found / 400


def test_coefficients_are_found_from_far_away(monkeypatch):
    """Catches chains that stay where Newton's iterations go round in circles; whole steps do so more often."""
    assert share_found(300) > 0.95
    assert share_found(30) > 0.77
    monkeypatch.setattr(_keep_response, "SHORTEST", 1.0)
    assert share_found(30) < 0.77
