"""Moves of parameters together with hidden statistics, in scaled coordinates."""

import numpy as np
import pytest
from scipy import stats

from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import Normal, NormalInverseGammaPrior
from sklearn_dpmix.samplers.sums import _normal_statistic
from sklearn_dpmix.samplers.sums._fitted_mixture import draw_mixture, fit_mixture, log_parts
from sklearn_dpmix.samplers.sums._joint_proposal import draw_score, log_score, put_conditional


@pytest.mark.parametrize("k", [1, 2])
def test_the_law_of_the_hidden_statistic(k):
    """Of z given y = m + Az + e: mean, covariance and density, against matrix algebra."""
    rng = np.random.default_rng(0)
    root = np.array([[1.3, 0.0], [-0.8, 0.4]])[:k, :k]
    y, noise, mean, n = rng.normal(0, 3, k), np.array([2.0, 0.1])[:k], np.array([0.1, -0.05])[:k], 7.0
    law = np.zeros(8)
    put_conditional(y, 0.5 * noise, (2.0, 2.0), n, mean, root, law)
    A = np.sqrt(n) * root
    P = np.eye(k) + A.T @ np.diag(1 / noise) @ A
    exact = stats.multivariate_normal(np.linalg.solve(P, A.T @ ((y - n * mean) / noise)), np.linalg.inv(P))
    z = rng.normal(0, 1, (3, k))
    found = np.array([log_score(law, row) for row in z])
    np.testing.assert_allclose(found - found[0], exact.logpdf(z) - exact.logpdf(z[0]), rtol=1e-10)
    draws = np.empty((20_000, k))
    for row in draws:
        draw_score(rng, law, row)
    whitened = np.linalg.solve(np.linalg.cholesky(exact.cov_object.covariance), (draws - exact.mean).T)
    assert np.all(np.abs(whitened.mean(axis=1)) < 5 / np.sqrt(20_000))
    assert np.all(np.abs(whitened @ whitened.T / 20_000 - np.eye(k)) < 5 * np.sqrt(2 / 20_000))


def moved(kind, is_independent, size=800, n_moves=5, widest=4.0):
    """(v, z, e) of exact draws of (θ, s, y), and what moves given y make of them: (size, 2, 6)."""
    rng, n, scale = np.random.default_rng(3), 10, 0.5
    family, prior, bounds = Normal(), NormalInverseGammaPrior(0.1, 2.0, 4.0, 1.0), (-1.0, 1.0)
    gains = (np.array([1.0, 2.0]), np.array([0.0, -1.25]))
    model = family._lower(prior=prior, bounds=bounds, outside="clamp", gains=gains)
    free = family.to_free(prior.draw(rng, size, family))
    channel = LaplaceMechanism(scale=scale)._lower(n_records=1, n_features=2)
    centres, factors = np.array([[0.1, -1.2]]), np.array([[[0.4, 0.0], [0.1, 0.6]]])
    out = np.empty((size, 2, 6))
    for i in range(size):
        whole = _normal_statistic.NormalApproximation(
            centres, factors, np.zeros(1), n, np.zeros(2), np.ones(2), widest, is_given=False
        )
        state = whole.init(model, 2, None, rng)
        state.free[0] = free[i]
        model.moments(free[i], state.mean[0], state.root[0])
        z = rng.standard_normal(2)
        state.statistic[:] = n * state.mean[0] + np.sqrt(n) * state.root[0] @ z
        y = state.statistic + rng.laplace(0.0, scale, 2)
        whole.y, whole.noise = y, np.full(2, 2.0 * scale**2)
        sampler = whole._lower()
        for at in range(2):
            for _ in range(at * n_moves):
                _normal_statistic.move(
                    rng, sampler, model, channel, channel, y[None], np.zeros((0, 1)), state, is_independent, kind
                )
            _normal_statistic.log_centred(sampler, state, 0)
            out[i, at] = [*state.free[0], *state.score[0], *(y - state.statistic)]
    return out


def assert_invariant(out):
    """The joint law of (θ, s, y) is what it was: averages of functions of it do not change."""
    v, w = out[..., 0] - 0.1, out[..., 1] + 1.2
    z, e = out[..., 2:4], out[..., 4:]
    functions = [v, w, v * v, w * w, v * w, *np.moveaxis(z, -1, 0), *np.moveaxis(z * z, -1, 0),
                 *np.moveaxis(np.abs(e), -1, 0), v * e[..., 0], w * e[..., 1], z[..., 0] * e[..., 0]]  # fmt: skip
    for f in functions:
        change = f[:, 1] - f[:, 0]
        assert abs(change.mean()) <= 5.5 * change.std() / np.sqrt(len(change)) + 1e-12  # z may stay, up to rounding


@pytest.mark.parametrize("is_independent", [True, False])
@pytest.mark.parametrize("kind", [pytest.param(0, marks=pytest.mark.slow), pytest.param(1, marks=pytest.mark.slow), 2])
def test_moves_keep_the_joint_law(kind, is_independent):
    """Centred, non-centred and joint moves, by draws from the model: each keeps the law of (θ, s, y)."""
    out = moved(kind, is_independent)
    assert np.mean(out[:, 1, 0] != out[:, 0, 0]) > 0.05
    assert_invariant(out)


def test_a_joint_move_that_forgets_a_factor_is_found(monkeypatch):
    """The density of the old z under the law that the new one is drawn from."""
    whole = _normal_statistic.redraw_score

    def forgetful(rng, sampler, state, n):
        gain = whole(rng, sampler, state, n)
        return gain - log_score(state.work, state.score[0])

    monkeypatch.setattr(_normal_statistic, "redraw_score", forgetful)
    with pytest.raises(AssertionError):
        assert_invariant(moved(_normal_statistic.JOINT, True, widest=1.0))


def test_a_mixture_follows_a_curved_ridge():
    """A banana: of draws of one t law at the mode fewer than 1 in 20 count, of the fitted mixture's 1 in 4."""

    def log_density(x):
        return -0.5 * (x[:, 0] / 3.0) ** 2 - 0.5 * ((x[:, 1] - x[:, 0] ** 2) / 0.3) ** 2

    at_mode = np.zeros((1, 2)), np.diag([3.0, 0.3])[None], np.zeros(1)

    def efficiency(mixture):
        centres, factors, shares = mixture
        draws = draw_mixture(np.random.default_rng(1), centres, 1.2 * factors, shares, 5000)
        log_w = log_density(draws) - np.log(np.exp(log_parts(draws, centres, 1.2 * factors, shares)).sum(axis=1))
        w = np.exp(log_w - log_w.max())
        return w.sum() ** 2 / (w @ w) / len(w)

    assert efficiency(at_mode) < 0.05
    assert efficiency(fit_mixture(log_density, *at_mode)) > 0.25
