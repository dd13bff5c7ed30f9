"""Prior variances of coefficients that are learnt from a release: against quadrature, by ranks, and in any unit."""

from functools import cache

import numpy as np
import pytest
from scipy import integrate, stats
from statistical import Disagreement, assert_mean_close, assert_ranks_uniform

from sklearn_dpmix import DPLogisticRegressionMCMC, DPPenaltyMCMC
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.models import LogisticLikelihood
from sklearn_dpmix.samplers import PrivateNewton
from sklearn_dpmix.samplers.private._curvature import EVENNESS, CurvaturePosterior, Expansion, ReleasedScore
from sklearn_dpmix.samplers.private._normal_approximation import given


class WithoutJacobian(CurvaturePosterior):
    """The broken twin: the density of a variance taken for that of its logarithm."""

    def log_density(self, x):
        value, slope = super().log_density(x)
        slope[:, self.n_entries :] -= 1.0
        return value - x[:, self.n_entries :].sum(axis=1), slope


def coefficients(rng, posterior, walkers, expansion):
    """A draw of θ given each walker."""
    axes = np.linalg.eigh(posterior.matrices(walkers.x))
    mean, root = given(posterior.released, axes, 1.0 / posterior.variances(walkers.x), expansion)
    return mean + (rng.standard_normal(mean.shape)[:, None, :] @ np.linalg.inv(root))[:, 0]


# ---------------------------------------------------------------- one coefficient, by quadrature

ONE = ReleasedScore(
    np.array([0.4]), np.array([40.0]), 15.0, np.array([[25.0]]), 9.0, 2.0, 100.0, np.full((1, 1, 1), 30.0), prior_df=1.0
)
OF_ONE = Expansion(np.array([-0.32]), np.array([[0.8]]), 0.7)


def quadrature(released, expansion):
    """Means of H, H² and atan θ under Student's t, and of tanh(u/2): over θ without u, and over u without θ."""
    H = ((np.arange(1000) + 0.5) / 1000 * released.largest_trace)[:, None]
    offset, slope, spread = expansion.offset[0], expansion.slope[0, 0], expansion.spread
    of_H = stats.norm.logpdf(released.curvature[0, 0], H, released.curvature_noise)
    noise = spread * H + released.gradient_noise**2
    nu, scale = released.prior_df, released.prior_precision**-0.5
    t = np.linspace(-12.0, 12.0, 2001)
    theta, volume = np.sinh(t), np.log(np.cosh(t))
    z = stats.norm.logpdf(released.gradient[0], H * (offset + slope * theta), np.sqrt(noise))
    p = np.exp(of_H + z + stats.t.logpdf(theta, nu, scale=scale) + volume)
    u = np.linspace(-12.0, 40.0, 2001)
    total = np.sqrt(noise + (H * slope * scale) ** 2 * np.exp(u))
    of_u = stats.invgamma.logpdf(np.exp(u), 0.5 * nu, scale=0.5 * nu) + u
    q = np.exp(of_H + stats.norm.logpdf(released.gradient[0], H * offset, total) + of_u)
    means = [(H * p).sum() / p.sum(), (H**2 * p).sum() / p.sum(), (np.arctan(theta) * p).sum() / p.sum()]
    return np.array([*means, (np.tanh(0.5 * u) * q).sum() / q.sum()])


@pytest.mark.parametrize("df", [1.0, 4.0])
def test_variances_have_their_posterior(df):
    """Against quadrature, of θ with Student's t and no variances; without the Jacobian they have another."""
    released = ONE._replace(prior_df=df)
    exact = quadrature(released, OF_ONE)

    def walked(cls, seed):
        rng, posterior, kept = np.random.default_rng(seed), cls(released, OF_ONE), []
        walkers, step = posterior.settle(rng, *posterior.start(rng, 60), 60)
        for _ in range(400):
            walkers, _ = posterior.move(rng, walkers, step)
            H, theta = posterior.matrices(walkers.x)[:, 0, 0], coefficients(rng, posterior, walkers, OF_ONE)[:, 0]
            kept.append(np.stack([H, H**2, np.arctan(theta), np.tanh(0.5 * walkers.x[:, 1])], axis=1))
        return np.transpose(kept, (1, 0, 2))

    assert_mean_close(walked(CurvaturePosterior, 0), exact, min_ess=1000)
    with pytest.raises(Disagreement):
        assert_mean_close(walked(WithoutJacobian, 1), exact, min_ess=1000)


# ---------------------------------------------------------------- two coefficients, by ranks

THETA0, LARGEST, DF = np.array([0.4, -0.2]), 60.0, 2.0
SHAPES = np.array([[[10.0, 0.0], [0.0, 20.0]], [[15.0, 5.0], [5.0, 10.0]]])
OF_TWO = Expansion(np.array([-0.3, 0.2]), np.array([[0.8, 0.3], [-0.1, 0.6]]), 0.7)


def from_the_model(rng):
    """(θ, u, a release): all from the prior that the class states."""
    while True:
        k, S = rng.choice(EVENNESS), SHAPES[rng.integers(len(SHAPES))]
        W = stats.wishart.rvs(2.0 * k + 3.0, np.eye(2), random_state=rng)  # given its trace of density det(W)^k
        root = np.linalg.cholesky(S / (0.5 * np.trace(S)))
        H = root @ (rng.uniform(0.0, 3.0 * LARGEST) * W / np.trace(W)) @ root.T
        if np.trace(H) < LARGEST:
            break
    u = np.log(stats.invgamma.rvs(0.5 * DF, scale=0.5 * DF, size=2, random_state=rng))
    theta = np.exp(0.5 * u) / np.sqrt(2.0) * rng.standard_normal(2)
    noise = OF_TWO.spread * H + 15.0**2 * np.eye(2)
    gradient = rng.multivariate_normal(H @ (OF_TWO.offset + OF_TWO.slope @ theta), noise)
    E = rng.standard_normal((2, 2)) * 7.0 / np.sqrt(2.0)
    E = np.array([[E[0, 0] * np.sqrt(2.0), E[0, 1]], [E[0, 1], E[1, 1] * np.sqrt(2.0)]])
    return theta, u, ReleasedScore(THETA0, gradient, 15.0, H + E, 7.0, 2.0, LARGEST, SHAPES, prior_df=DF)


def true_and_drawn(cls, seed, n_settle, n_moves, n_replicates=100, n_walkers=19):
    rng, true, drawn = np.random.default_rng(seed), [], []
    for _ in range(n_replicates):
        theta, u, released = from_the_model(rng)
        posterior = cls(released, OF_TWO)
        walkers, step = posterior.settle(rng, *posterior.start(rng, n_walkers), n_settle)
        for _ in range(n_moves):
            walkers, _ = posterior.move(rng, walkers, step)
        true.append([*np.arctan(theta), *u])
        drawn.append(np.column_stack([np.arctan(coefficients(rng, posterior, walkers, OF_TWO)), walkers.x[:, 3:]]))
    return np.array(true), np.array(drawn)


@pytest.mark.slow
def test_ranks_of_coefficients_and_variances():
    """Uniform over data from the model, of independent walkers; not without the Jacobian."""

    def check(cls, seed, n_settle, n_moves):
        true, drawn = true_and_drawn(cls, seed, n_settle, n_moves)
        for j in range(4):
            assert_ranks_uniform(true[:, j], drawn[:, :, j], np.random.default_rng(j), n_bins=5)

    check(CurvaturePosterior, 2, 40, 30)
    with pytest.raises(Disagreement):
        check(WithoutJacobian, 3, 15, 5)


# ---------------------------------------------------------------- the model's prior


def test_the_prior_is_a_normal_of_unknown_variance():
    """log_prior against quadrature over the variance, and draws against its distribution function."""
    model, nu, sigma = LogisticLikelihood(1, prior_sigma=1.5, prior_df=1.7), 1.7, 1.5
    theta = np.array([[0.3, -2.0], [9.0, 0.0]])

    def density(value):
        def integrand(v):
            return stats.norm.pdf(value, 0.0, np.sqrt(v)) * stats.invgamma.pdf(v, 0.5 * nu, scale=0.5 * nu * sigma**2)

        return integrate.quad(integrand, 0.0, np.inf, epsabs=1e-13)[0]

    exact = [sum(np.log(density(value)) for value in row) for row in theta]
    np.testing.assert_allclose(model.log_prior(theta), exact, rtol=1e-6)
    draws = model.sample_prior(np.random.default_rng(4), 5000).ravel()
    assert stats.kstest(draws, stats.t(nu, scale=sigma).cdf).pvalue > 1e-6
    assert stats.kstest(draws, stats.norm(scale=sigma).cdf).pvalue < 1e-6


def test_degrees_of_freedom_are_checked():
    with pytest.raises(ValueError, match="prior_df of LogisticLikelihood"):
        LogisticLikelihood(prior_df=0.0).check()


# ---------------------------------------------------------------- units

BUDGET = GaussianMechanism(epsilon=1.0, delta=1e-6)
CHAIN = DPPenaltyMCMC(n_iter=200, n_chains=1, preconditioner=PrivateNewton(n_steps=2))


@cache
def fitted(unit, **parameters):
    rng = np.random.default_rng(5)
    X = rng.uniform(-1.0, 1.0, (2000, 2))
    y = (rng.random(2000) < 1.0 / (1.0 + np.exp(1.0 - 4.0 * X[:, 0]))).astype(int)
    model = DPLogisticRegressionMCMC(BUDGET, data_norm=unit, simulate=True, random_state=0)
    with pytest.warns(UserWarning, match="NOT private"):
        return model.set_params(**parameters).fit(unit * X, y), unit * X[:20]


@pytest.mark.filterwarnings("ignore:the chains have not mixed")
@pytest.mark.parametrize("unit", [1e-6, 0.01, 3.0, 1e6])
@pytest.mark.parametrize("sampler", [None, CHAIN], ids=["normal", "chains"])
def test_fits_do_not_depend_on_the_unit(sampler, unit):
    """Rows and their bound times anything: the same draws in that unit; with a number for a prior they are others."""
    (one, X), (other, moved) = fitted(1.0, sampler=sampler), fitted(unit, sampler=sampler)
    np.testing.assert_allclose(other.coef_draws_ * unit, one.coef_draws_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.intercept_draws_, one.intercept_draws_, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(other.predict_interval(moved), one.predict_interval(X), rtol=1e-6)
    fixed = [fitted(c, sampler=sampler, prior_sigma=3.0)[0].intercept_ for c in (1.0, unit)]
    with pytest.raises(AssertionError):
        np.testing.assert_allclose(*fixed, rtol=1e-3)


def test_a_number_is_a_normal_prior_in_the_units_of_the_rows():
    """No variance is learnt and no row rescaled; None has both."""
    fixed, learnt = fitted(4.0, prior_sigma=3.0)[0].sampler_, fitted(4.0)[0].sampler_
    assert (fixed.model.prior_df, fixed.model.prior_sigma, fixed.model.data_norm) == (None, 3.0, 4.0)
    assert (learnt.model.prior_df, learnt.model.data_norm) == (2.0, np.sqrt(2.0))
    assert learnt.model.prior_sigma == pytest.approx(4.0 / np.sqrt(3.0))
    assert fixed.released_.prior_df is None and learnt.released_.prior_df == 2.0
