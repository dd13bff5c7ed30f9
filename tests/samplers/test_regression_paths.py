"""Hamiltonian paths of the regression given the design: their force, and their reflection at edges."""

from math import log

import numpy as np
import pytest
from scipy import stats

from sklearn_dpmix.models import RegressionPrior
from sklearn_dpmix.models._regression_moments import MomentRegression
from sklearn_dpmix.models._regression_prior import log_residual
from sklearn_dpmix.samplers.augmentation._regression_number import hold_number
from sklearn_dpmix.samplers.augmentation._regression_paths import drift
from sklearn_dpmix.samplers.augmentation._regression_start import start_moments


@pytest.mark.parametrize(("p", "sigma", "known"), [(1, None, True), (3, 0.3, True), (2, None, False)])
def test_the_force_is_the_gradient_of_the_density(p, sigma, known):
    """In plain Python; a wrong force leaves the posterior right and the chains slow, so that nothing else sees it."""
    rng = np.random.default_rng(0)
    bounds, n = np.sort(rng.normal(size=(p + 1, 2)), axis=1), 40
    prior = RegressionPrior(1.3, sigma=sigma, sigma_scale=None if known else 0.2)
    model = MomentRegression(prior.scaled(bounds), n if known else 0, 2 * n)
    value, at, d = model._lower(), model.n_design, p + 1
    point = 0.3 * rng.normal(size=model.n_coordinates)
    rows, columns = np.tril_indices(d)
    point[:at] = np.where(rows == columns, 0.7, 0.1)[1:] + 0.1 * rng.normal(size=at)
    point[at + 2 * d] += log(n)
    point[-1] = point[-1] if known else n
    moments, work, slope = np.zeros((p + 1) * (p + 4) // 2), np.zeros((2 * d + 3, d)), rng.normal(size=(2, 54))
    slope = slope[:, : len(moments)] * np.array([[0.01], [1e-3]])

    def log_density(x):
        assert value.set_moments(x, moments, work)
        return value.log_prior(x, work) + slope[0] @ moments - slope[1] @ moments**2

    log_density(point)
    force = np.zeros(len(point))
    value.set_force(point, slope[0] - 2.0 * slope[1] * moments, force, work)
    steps = 1e-6 * np.eye(len(point))
    expected = [(log_density(point + step) - log_density(point - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(force, expected, rtol=1e-5, atol=1e-5)
    log_density(point)
    before = moments.copy()
    value.update_given_moments(rng, point, work)  # the moments stay
    log_density(point)
    np.testing.assert_allclose(moments, before, rtol=1e-9)


@pytest.mark.parametrize("p", [1, 3])
def test_paths_are_reflected_at_the_edge(p):
    """In plain Python: the first exit is where moments stop being possible, and a path reversed ends where it began."""
    rng = np.random.default_rng(1)
    n = 50
    model = MomentRegression(RegressionPrior().scaled(np.tile([-1.0, 1.0], (p + 1, 1))), n, n)
    state = start_moments(model, np.zeros((1, (p + 1) * (p + 4) // 2)), n, 1e4, 0.0, rng)
    value, size, at, n_edges = model._lower(), state.point.shape[1], model.n_design, 0
    moments, normal = state.moments[0], np.zeros(size)

    def is_possible(x):
        return value.set_moments(x, moments, state.work)

    for _ in range(40):
        point, velocity = state.point[0].copy(), np.zeros(size)
        velocity[:at] = rng.standard_normal(at)
        time = value.first_exit(point, velocity, normal)
        before, after = point + (time - 1e-6) * velocity, point + (time + 1e-6) * velocity
        diagonal = np.cumsum(np.arange(2, p + 2)) - 1
        if np.all(after[diagonal] > 0.0):
            assert is_possible(before) and not is_possible(after)
            tangent = rng.standard_normal(size)
            tangent -= (tangent @ normal) / (normal @ normal) * normal
            rise = 1e-4 * normal / (normal @ normal)  # 1e-4 of the edge's quadratic, far above the tangent's 1e-12
            on = point + time * velocity + 1e-6 * tangent
            assert is_possible(on + rise) and not is_possible(on - rise)
            n_edges += 1
    assert n_edges > 10
    n_reflected = 0
    for _ in range(40):
        state.point[1] = state.point[0]
        momentum = state.vectors[0]
        momentum[:size] = rng.standard_normal(size)
        first, length = momentum.copy(), np.linalg.norm(momentum)
        if drift(value, state, 1.0) and is_possible(state.point[1]):
            n_reflected += not np.allclose(momentum, first)
            np.testing.assert_allclose(np.linalg.norm(momentum), length)
            momentum *= -1.0
            assert drift(value, state, 1.0)
            np.testing.assert_allclose(state.point[1], state.point[0], atol=1e-8)
            np.testing.assert_allclose(momentum, -first, atol=1e-7)
    assert n_reflected > 5


def momentum_of_number(hold):
    """Largest change of n, in plain Python, along paths that ``hold`` the number of records."""
    rng, n = np.random.default_rng(2), 50
    model = MomentRegression(RegressionPrior().scaled(np.tile([-1.0, 1.0], (3, 1))), 0, 2 * n)
    state = start_moments(model, np.zeros((1, 9)), n, 1e4, 25.0, rng)
    value, momentum, moved, worst = model._lower(), state.vectors[0], 0.0, 0.0
    for _ in range(40):
        state.point[1] = state.point[0]
        momentum[:] = rng.standard_normal(len(momentum))
        hold(value, state.metric, momentum)
        if drift(value, state, 1.0):
            moved += np.abs(state.point[1] - state.point[0]).sum()
            worst = max(worst, abs(state.point[1, -1] - state.point[0, -1]))
    assert moved > 1.0
    return worst


def test_paths_hold_the_number_of_records():
    """Also where they are reflected; paths that change it are seen."""
    assert momentum_of_number(hold_number) < 1e-9
    assert momentum_of_number(lambda *_: None) > 1.0


@pytest.mark.parametrize(("p", "sigma"), [(1, None), (2, 0.3), (3, None)])
def test_another_number_of_records_with_the_same_moments(p, sigma):
    """In plain Python: the moments stay, the way back is the same, and the density is that of the moments."""
    rng = np.random.default_rng(3)
    bounds, n, d, n_tried = np.sort(rng.normal(size=(p + 1, 2)), axis=1), 40, p + 1, 0
    prior = RegressionPrior(1.3, sigma=sigma).scaled(bounds)
    model = MomentRegression(prior, 0, 2 * n)
    value, at, work = model._lower(), model.n_design, np.zeros((2 * d + 3, d))
    moments, other, scratch = np.zeros((3, (p + 1) * (p + 4) // 2))
    rows, columns = np.triu_indices(p)

    def log_density(point):
        """Of n, log τ and the moments, as SciPy has it."""
        new, tau, G = round(point[-1]), value.tau(point), np.zeros((d, d))
        G[0, 0], G[0, 1:], G[1 + rows, 1 + columns] = new, moments[d + 1 : 2 * d], moments[2 * d :]
        G = np.triu(G) + np.triu(G, 1).T
        b = stats.multivariate_normal(G @ prior.mean, G @ prior.covariance @ G + tau**2 * G).logpdf(moments[:d])
        squares = (moments[d] - moments[:d] @ np.linalg.solve(G, moments[:d])) / tau**2
        of_tau = 0.0 if sigma else log_residual(value.shape, value.scale, value.rate, tau)
        return b + stats.chi2(new - d).logpdf(squares) - 2.0 * np.log(tau) - at * np.log(new) + of_tau

    for _ in range(30):
        point, to, back = np.zeros((3, model.n_coordinates))
        entries, across = np.tril_indices(d)
        point[:at] = np.where(entries == across, 0.6, 0.1)[1:] + 0.1 * rng.normal(size=at)
        point[at:] = 0.3 * rng.normal(size=len(point) - at)
        point[at + 2 * d], point[-1] = np.log(n - d) + 0.1 * rng.normal(), n + rng.uniform(-0.5, 0.5)
        assert value.set_moments(point, moments, work)
        new = rng.uniform(n / 2, 2 * n)
        if not value.set_number(point, new, to, moments, scratch, work):
            continue
        n_tried += 1
        assert value.set_number(to, point[-1], back, moments, scratch, work)
        np.testing.assert_allclose(back, point, rtol=1e-9, atol=1e-9)
        other[:] = moments
        gain = value.log_given_sums(to, other, work)
        np.testing.assert_allclose(other, moments, rtol=1e-9, atol=1e-9)
        gain -= value.log_given_sums(point, other, work)
        np.testing.assert_allclose(gain, log_density(to) - log_density(point), rtol=1e-6, atol=1e-6)
    assert n_tried > 10
