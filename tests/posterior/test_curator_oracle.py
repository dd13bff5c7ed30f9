"""The oracles of the statistic-level samplers against themselves: weighted draws from the prior, chains, limits."""

import json

import bounded_records_oracle as clamped
import curator_oracle as oracle
import long_twin_runs as long_runs
import naive_bayes_oracle as nb_oracle
import normal_sum_oracle as normal_sums
import numpy as np
import pytest
import regression_oracle as twins
from curator_oracle import discrete_gaussian, discrete_laplace, gaussian, laplace
from regression_oracle import Predictors, Residual
from scipy import stats
from scipy.integrate import quad
from scipy.special import logsumexp
from statistical import ALPHA, Disagreement, TooFewDraws, assert_mean_close

from sklearn_dpmix.queries import SufficientStatistics

LIMIT = stats.norm.isf(ALPHA / 2)
SIZE = 200_000


def judge(found, error, expected, what):
    z = (np.asarray(found) - expected) / error
    if not np.all(np.abs(z) <= LIMIT):
        raise Disagreement(f"{what}: {found}, expected {expected}: {z} standard errors")


def assert_agrees(posterior, theta, log_weight, log_evidence=0.0):
    """Means, standard deviations, cdfs and log p(y) of weighted draws (size, n_params) are those of the oracle."""
    found = twins.weighted_summary(theta, log_weight)
    if found.ess < 2000:
        raise TooFewDraws(f"{found.ess:.0f} effective draws")
    judge(found.mean, found.mean_error, posterior.mean, "mean")
    judge(found.sd, found.sd_error, posterior.sd, "standard deviation")
    relative = np.sqrt(1 / found.ess - 1 / len(theta))
    judge(found.log_evidence + log_evidence, relative, posterior.log_evidence, "log evidence")
    weight = np.exp(log_weight - logsumexp(log_weight))
    for k, column in enumerate(theta.T):
        order = np.argsort(column)
        points = column[order][np.searchsorted(np.cumsum(weight[order]), [0.2, 0.5, 0.8])]
        found = twins.weighted_summary((column[:, None] <= points) * 1.0, log_weight)
        judge(found.mean, found.mean_error, posterior.cdf(points, k), f"cdf of parameter {k}")


def bounded_sum(records, bounds, outside, statistic):
    """Σ statistic of records (size, n), clamped to bounds or dropped outside: (size, n_statistics)."""
    inside = (records >= bounds[0]) & (records <= bounds[1])
    values = statistic(np.clip(records, *bounds))
    return np.where(inside[..., None] | (outside == "clamp"), values, 0.0).sum(axis=1)


def identity(x):
    return x[..., None]


def squares(x):
    return np.stack([x, x**2], axis=-1)


def logs(x):
    return np.stack([np.log(x), np.log1p(-x)], axis=-1)


def draw_binomial(rng, n, prior):
    theta = rng.beta(*prior, (SIZE, 1))
    return theta, (rng.random((SIZE, n)) < theta).sum(axis=1)[:, None]


def draw_unknown_binomial(rng, largest, prior):
    n, theta = rng.integers(0, largest + 1, SIZE), rng.beta(*prior, SIZE)
    return theta[:, None], np.column_stack([rng.binomial(n, theta), n])


def draw_multinomial(rng, n, alpha):
    theta = rng.dirichlet(alpha, SIZE)
    return theta, rng.multinomial(n, theta).astype(float)


def draw_unknown_multinomial(rng, largest, alpha):
    n, theta = rng.integers(0, largest + 1, SIZE), rng.dirichlet(alpha, SIZE)
    return theta, rng.multinomial(n, theta).astype(float)


def draw_poisson(rng, n, prior, bounds=(0, np.inf), outside="clamp"):
    theta = rng.gamma(prior[0], 1 / prior[1], (SIZE, 1))
    return theta, bounded_sum(rng.poisson(theta, (SIZE, n)), bounds, outside, identity)


def draw_unknown_poisson(rng, largest, prior):
    n, theta = rng.integers(0, largest + 1, SIZE), rng.gamma(prior[0], 1 / prior[1], SIZE)
    return theta[:, None], np.column_stack([rng.poisson(n * theta), n])


def draw_gamma(rng, n, known_shape, prior, bounds=(0, np.inf), outside="clamp"):
    theta = rng.gamma(prior[0], 1 / prior[1], (SIZE, 1))
    return theta, bounded_sum(rng.gamma(known_shape, 1 / theta, (SIZE, n)), bounds, outside, identity)


def draw_normal_mean(rng, n, bounds, outside, variance, prior):
    theta = rng.normal(prior[0], np.sqrt(prior[1]), (SIZE, 1))
    return theta, bounded_sum(rng.normal(theta, np.sqrt(variance), (SIZE, n)), bounds, outside, identity)


def draw_normal(rng, n, bounds, outside, prior):
    mean, mean_precision, shape, scale = prior
    sigma2 = scale / rng.gamma(shape, size=(SIZE, 1))
    mu = rng.normal(mean, np.sqrt(sigma2 / mean_precision))
    return np.hstack([mu, sigma2]), bounded_sum(rng.normal(mu, np.sqrt(sigma2), (SIZE, n)), bounds, outside, squares)


def draw_beta(rng, n, bounds, outside, prior):
    a, b = (rng.gamma(shape, 1 / rate, (SIZE, 1)) for shape, rate in prior)
    return np.hstack([a, b]), bounded_sum(rng.beta(a, b, (SIZE, n)), bounds, outside, logs)


BOUNDED = [(n, outside) for n in (1, 2) for outside in ("clamp", "drop")]
NIG, BETAS, ALPHAS = (0.2, 0.5, 5, 4), ((2, 1), (3, 1.5)), (1, 2, 0.5)
CASES = {
    "binomial 1": (lambda: oracle.beta_binomial([1, -1], 1, (0.5, 2), discrete_laplace(2.0)),
                   lambda rng: draw_binomial(rng, 1, (0.5, 2)), [1, -1], discrete_laplace(2.0)),
    "binomial 3": (lambda: oracle.beta_binomial(3.4, 3, (2, 3), gaussian(1.2)),
                   lambda rng: draw_binomial(rng, 3, (2, 3)), 3.4, gaussian(1.2)),
    "binomial unknown n": (lambda: oracle.beta_binomial(3.2, None, (1, 2), laplace(1.5), count=9.3),
                           lambda rng: draw_unknown_binomial(rng, 80, (1, 2)), [3.2, 9.3], laplace(1.5)),
    "multinomial 4": (lambda: oracle.dirichlet_multinomial([[1, 2, 2], [0, 3, 1]], 4, ALPHAS, discrete_gaussian(1.5)),
                      lambda rng: draw_multinomial(rng, 4, ALPHAS), [[1, 2, 2], [0, 3, 1]], discrete_gaussian(1.5)),
    "multinomial unknown n": (lambda: oracle.dirichlet_multinomial([2.5, 1.2, -0.3], None, ALPHAS, gaussian(1.0)),
                              lambda rng: draw_unknown_multinomial(rng, 30, ALPHAS), [2.5, 1.2, -0.3], gaussian(1.0)),
    "poisson 2": (lambda: oracle.gamma_poisson([3.1, 5.5], 2, (1.5, 1), laplace(2.0)),
                  lambda rng: draw_poisson(rng, 2, (1.5, 1)), [3.1, 5.5], laplace(2.0)),
    "poisson unknown n": (lambda: oracle.gamma_poisson(4, None, (1.5, 1), discrete_laplace(1.0), count=3),
                          lambda rng: draw_unknown_poisson(rng, 40, (1.5, 1)), [4, 3], discrete_laplace(1.0)),
    "exponential 3": (lambda: oracle.gamma_known_shape([2.1, -0.4], 3, 1.0, (2, 1.5), laplace(0.8)),
                      lambda rng: draw_gamma(rng, 3, 1.0, (2, 1.5)), [2.1, -0.4], laplace(0.8)),
    "gamma 2": (lambda: oracle.gamma_known_shape(1.7, 2, 0.6, (3, 1.5), gaussian(0.4)),
                lambda rng: draw_gamma(rng, 2, 0.6, (3, 1.5)), 1.7, gaussian(0.4)),
}  # fmt: skip
for _n, _outside in BOUNDED:
    CASES |= {
        f"exponential {_n} {_outside}": (
            lambda n=_n, o=_outside: clamped.bounded_gamma(1.3, n, (0.2, 2.5), 1.0, (3, 2), laplace(0.6), outside=o),
            lambda rng, n=_n, o=_outside: draw_gamma(rng, n, 1.0, (3, 2), (0.2, 2.5), o), 1.3, laplace(0.6)),
        f"poisson {_n + 2} {_outside}": (
            lambda n=_n, o=_outside: clamped.bounded_poisson(7, n + 2, (1, 4), (3, 1), discrete_laplace(1.0),
                                                           outside=o),
            lambda rng, n=_n, o=_outside: draw_poisson(rng, n + 2, (3, 1), (1, 4), o), 7, discrete_laplace(1.0)),
        f"normal mean {_n} {_outside}": (
            lambda n=_n, o=_outside: clamped.bounded_normal_mean(1.2, n, (-1, 1.5), 0.8, (0.3, 1.5), laplace(0.5),
                                                               outside=o),
            lambda rng, n=_n, o=_outside: draw_normal_mean(rng, n, (-1, 1.5), o, 0.8, (0.3, 1.5)), 1.2, laplace(0.5)),
        f"normal {_n} {_outside}": (
            lambda n=_n, o=_outside: clamped.bounded_normal([1.3, 1.6], n, (-1, 2), NIG, laplace(0.7), outside=o),
            lambda rng, n=_n, o=_outside: draw_normal(rng, n, (-1, 2), o, NIG), [1.3, 1.6], laplace(0.7)),
        f"beta {_n} {_outside}": (
            lambda n=_n, o=_outside: clamped.bounded_beta([-0.7, -1.9], n, (0.1, 0.8), BETAS, laplace(0.5), outside=o),
            lambda rng, n=_n, o=_outside: draw_beta(rng, n, (0.1, 0.8), o, BETAS), [-0.7, -1.9], laplace(0.5)),
    }  # fmt: skip


def by_query(draw, family, bounds, outside):
    """A statistic of scaled records, by the query that releases it."""
    query = SufficientStatistics(family, bounds, outside=outside)
    return query.contributions(np.ravel(draw)).reshape(*draw.shape, -1).sum(axis=1)


def draw_scaled_gamma(rng, prior, bounds, outside):
    theta = rng.gamma(prior[0], 1 / prior[1], (SIZE, 1))
    return theta, by_query(rng.gamma(1.0, 1 / theta, (SIZE, 2)), "exponential", bounds, outside)


def draw_scaled_normal(rng, prior, bounds, outside):
    mean, mean_precision, shape, scale = prior
    sigma2 = scale / rng.gamma(shape, size=(SIZE, 1))
    mu = rng.normal(mean, np.sqrt(sigma2 / mean_precision))
    return np.hstack([mu, sigma2]), by_query(rng.normal(mu, np.sqrt(sigma2), (SIZE, 2)), "normal", bounds, outside)


def draw_scaled_beta(rng, prior, bounds, outside):
    a, b = (rng.gamma(shape, 1 / rate, (SIZE, 1)) for shape, rate in prior)
    records = np.clip(rng.beta(a, b, (SIZE, 2)), 1e-300, 1 - 1e-16)
    return np.hstack([a, b]), by_query(records, "beta", bounds, outside)


for _outside in ("clamp", "drop"):
    CASES |= {
        f"scaled exponential {_outside}": (
            lambda o=_outside: clamped.bounded_gamma(-0.4, 2, (0.2, 2.5), 1.0, (3, 2), laplace(0.6), outside=o,
                                                    scaled=True),
            lambda rng, o=_outside: draw_scaled_gamma(rng, (3, 2), (0.2, 2.5), o), -0.4, laplace(0.6)),
        f"scaled normal {_outside}": (
            lambda o=_outside: clamped.bounded_normal([0.5, -1.6], 2, (-1, 2), NIG, laplace(0.7), outside=o,
                                                     scaled=True),
            lambda rng, o=_outside: draw_scaled_normal(rng, NIG, (-1, 2), o), [0.5, -1.6], laplace(0.7)),
        f"scaled beta {_outside}": (
            lambda o=_outside: clamped.bounded_beta([-0.3, 0.8], 2, (0.1, 0.8), BETAS, laplace(0.5), outside=o,
                                                   scaled=True),
            lambda rng, o=_outside: draw_scaled_beta(rng, BETAS, (0.1, 0.8), o), [-0.3, 0.8], laplace(0.5)),
    }  # fmt: skip
FLAT = {"binomial unknown n": 81, "multinomial unknown n": 31, "poisson unknown n": 41}  # values of n that were drawn


@pytest.mark.parametrize("name", CASES)
def test_posterior(name):
    """Draws of θ and of the records from the model, weighted with the density of the release."""
    posterior, draw, release, log_noise = CASES[name]
    theta, statistic = draw(np.random.default_rng(list(name.encode())))
    log_weight = oracle.log_release(release, statistic, log_noise)
    assert_agrees(posterior(), theta, log_weight, np.log(FLAT.get(name, 1)))


MISTAKEN = {
    "binomial 3": lambda: oracle.beta_binomial(3.4, 2, (2, 3), gaussian(1.2)),
    "multinomial 4": lambda: oracle.dirichlet_multinomial([1, 2, 2], 4, ALPHAS, discrete_gaussian(1.5)),
    "poisson 2": lambda: oracle.gamma_poisson([3.1, 5.5], 2, (1, 1.5), laplace(2.0)),
    "gamma 2": lambda: oracle.gamma_known_shape(1.7, 2, 0.6, (3, 1.5), laplace(0.4)),
    "exponential 1 clamp": lambda: clamped.bounded_gamma(1.3, 1, (0.2, 2.5), 1.0, (3, 2), laplace(0.6), outside="drop"),
    "exponential 2 drop": lambda: oracle.gamma_known_shape(1.3, 2, 1.0, (3, 2), laplace(0.6)),
    "poisson 3 drop": lambda: clamped.bounded_poisson(7, 3, (1, 4), (3, 1), discrete_laplace(1.0)),
    "normal 2 clamp": lambda: clamped.bounded_normal([1.3, 1.6], 2, (-1, 2), (0.2, 0.5, 4, 5), laplace(0.7)),
    "scaled exponential drop": lambda: clamped.bounded_gamma(-0.4, 2, (0.2, 2.5), 1, (3, 2), laplace(0.6), scaled=True),
    "scaled normal clamp": lambda: clamped.bounded_normal([0.5, -1.6], 2, (-1, 2), NIG, laplace(0.7)),
    "beta 2 drop": lambda: clamped.bounded_beta([-0.7, -1.9], 2, (0.1, 0.8), BETAS, laplace(0.5)),
}


@pytest.mark.parametrize("name", MISTAKEN)
def test_mistaken_posterior_is_caught(name):
    _, draw, release, log_noise = CASES[name]
    theta, statistic = draw(np.random.default_rng(list(name.encode())))
    with pytest.raises(Disagreement):
        assert_agrees(MISTAKEN[name](), theta, oracle.log_release(release, statistic, log_noise))


def test_noise_laws():
    e = np.array([-3.0, 0.0, 2.0])
    np.testing.assert_allclose(laplace(1.7)(e), stats.laplace.logpdf(e, scale=1.7))
    np.testing.assert_allclose(gaussian(1.7)(e), stats.norm.logpdf(e, scale=1.7))
    np.testing.assert_allclose(discrete_laplace(1.7)(e), stats.dlaplace.logpmf(e, 1 / 1.7))
    k = np.arange(-60, 61)
    for law in (discrete_laplace(1.7), discrete_gaussian(0.4), discrete_gaussian(3.0)):
        np.testing.assert_allclose(np.exp(law(k)).sum(), 1, rtol=1e-12)
    np.testing.assert_allclose(discrete_gaussian(3.0)(2) - discrete_gaussian(3.0)(0), -2 / 9)
    assert discrete_laplace(1.0)(0.5) == -np.inf


def test_limits():
    """Without noise the conjugate posterior; with too much, the prior; unbounded, the mixture; tables of thousands."""
    posterior = oracle.beta_binomial(1200, 4000, (2, 3), laplace(1e-3))
    x = np.array([0.29, 0.3, 0.31])
    np.testing.assert_allclose(posterior.cdf(x), stats.beta.cdf(x, 1202, 2803), atol=1e-9)
    np.testing.assert_allclose(posterior.pmf()[1199:1202], [0, 1, 0], atol=1e-9)
    posterior = oracle.gamma_known_shape(12.0, 10, 1.5, (2, 3), gaussian(1e-4))
    np.testing.assert_allclose(posterior.cdf([1.0, 1.3]), stats.gamma.cdf([1.0, 1.3], 17, scale=1 / 15), atol=1e-6)
    posterior = oracle.gamma_poisson(3.0, 4, (3, 2), gaussian(1e5))
    np.testing.assert_allclose(posterior.cdf([1.0, 2.0]), stats.gamma.cdf([1.0, 2.0], 3, scale=0.5), atol=1e-8)
    bounded = clamped.bounded_gamma([2.0, 1.1], 2, (0, 12), 1.0, (4, 3), laplace(0.5))
    mixture = oracle.gamma_known_shape([2.0, 1.1], 2, 1.0, (4, 3), laplace(0.5))
    np.testing.assert_allclose([*bounded.mean, *bounded.sd], [*mixture.mean, *mixture.sd], rtol=oracle.RTOL_TWO_RECORDS)
    bounded = clamped.bounded_poisson(9, 20, (0, 30), (4, 8), discrete_laplace(2.0))
    mixture = oracle.gamma_poisson(9, 20, (4, 8), discrete_laplace(2.0))
    np.testing.assert_allclose([*bounded.mean, *bounded.sd], [*mixture.mean, *mixture.sd], rtol=1e-6)
    np.testing.assert_allclose(bounded.cdf([0.4, 0.6]), mixture.cdf([0.4, 0.6]), atol=1e-6)


# --- the normal approximation and the sampler that uses it ------------------------------------------------------------


@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
@pytest.mark.parametrize("support", [(-np.inf, np.inf), (0.0, np.inf), (0.0, 3.0)])
def test_normal_convolution(noise, support):
    y, law = [2.5, -0.4, 1.1], {"laplace": laplace, "gaussian": gaussian}[noise](0.7)
    for mean, variance in ((1.0, 0.5), (4.0, 2.0), (-1.0, 0.3)):

        def density(s):
            return np.exp(stats.norm.logpdf(s, mean, np.sqrt(variance)) + law(np.array(y) - s).sum())  # noqa: B023

        lo, hi = np.clip(support, -15, 15)
        expected, _ = quad(density, lo, hi, points=[p for p in y if lo < p < hi], epsabs=1e-14, limit=200)
        found = normal_sums.log_normal_release(y, mean, variance, noise, 0.7, support)
        np.testing.assert_allclose(found, np.log(expected), rtol=1e-7)


FAMILIES = {
    "binomial": {"y": 2.0, "n": 5, "prior": (1, 1), "noise": "laplace", "scale": 1.0},
    "poisson": {"y": [6.0, 2.5], "n": 3, "prior": (2, 1), "noise": "gaussian", "scale": 1.5},
    "exponential": {"y": [2.0, 2.9], "n": 10, "prior": (2, 3), "noise": "laplace", "scale": 1.0},
}


def draw_parameter(rng, family, prior, size):
    return rng.beta(*prior, size) if family == "binomial" else rng.gamma(prior[0], 1 / prior[1], size)


@pytest.mark.parametrize("family", FAMILIES)
def test_normal_approximation(family):
    setting, rng = FAMILIES[family], np.random.default_rng(11)
    theta = draw_parameter(rng, family, setting["prior"], SIZE)
    mean, variance = normal_sums.sum_moments(family, theta, setting["n"])
    s = rng.normal(mean, np.sqrt(variance))[:, None]
    law = {"laplace": laplace, "gaussian": gaussian}[setting["noise"]](setting["scale"])
    log_weight = oracle.log_release(setting["y"], s, law)
    assert_agrees(normal_sums.normal_approximation(family, **setting), theta[:, None], log_weight)


def until_valid(draw, accept, size):
    """Rejection sampling: draw(rows) until accept(rows, values), for each of ``size`` chains."""
    s, left = np.empty(size), np.arange(size)
    while len(left):
        proposed = draw(left)
        good = accept(left, proposed)
        s[left[good]], left = proposed[good], left[~good]
    return s


def gibbs_chains(rng, family, y, n, prior, noise, scale, augmented=False, n_chains=50_000, n_sweeps=30):
    """The last θ of n_chains chains of Algorithm 1, shape (n_chains,): independent draws."""
    y, top = np.atleast_1d(y), n if family == "binomial" else np.inf
    peak = np.abs(y - np.median(y)).sum() / scale
    sigma2 = rng.exponential(2 * scale**2, n_chains) if augmented else np.full(n_chains, scale**2 / len(y))
    s = np.full(n_chains, np.clip(y.mean(), 0.1, top))
    for sweep in range(n_sweeps):
        if family == "binomial":
            theta = rng.beta(prior[0] + s, prior[1] + n - s)
        elif family == "poisson":
            theta = rng.gamma(prior[0] + s) / (prior[1] + n)
        else:
            theta = rng.gamma(prior[0] + n, 1 / (prior[1] + s))
        if sweep == n_sweeps - 1:
            return theta
        mean, variance = normal_sums.sum_moments(family, theta, n)
        if noise == "gaussian" or augmented:  # a product of normals
            precision = 1 / variance + 1 / sigma2
            mean, variance = (mean / variance + y.mean() / sigma2) / precision, 1 / precision

        def draw(i):
            return rng.normal(mean[i], np.sqrt(variance[i]))  # noqa: B023

        def accept(i, s):
            valid = (s >= 0) & (s <= top)
            if noise == "gaussian" or augmented:
                return valid
            return valid & (rng.random(len(s)) < np.exp(peak - np.abs(y - s[:, None]).sum(axis=1) / scale))

        s = until_valid(draw, accept, n_chains)
        if augmented:
            sigma2 = 1 / rng.wald(1 / (scale * np.abs(y[0] - s)), 1 / scale**2)


def assert_chains_agree(posterior, theta):
    points = np.quantile(theta, [0.1, 0.5, 0.9])
    draws = np.column_stack([theta, (theta - posterior.mean) ** 2, theta[:, None] <= points])
    expected = np.array([*posterior.mean, *posterior.sd**2, *posterior.cdf(points)])
    judge(draws.mean(axis=0), draws.std(axis=0) / np.sqrt(len(theta)), expected, "θ, (θ - mean)², cdf")


@pytest.mark.parametrize("family", FAMILIES)
def test_gibbs_stationary(family):
    setting = FAMILIES[family]
    theta = gibbs_chains(np.random.default_rng(12), family, **setting, n_chains=30_000)
    assert_chains_agree(normal_sums.gibbs_stationary(family, **setting), theta)
    if family != "poisson":  # it is neither the exact posterior nor that of the normal approximation
        exact = (oracle.beta_binomial(2.0, 5, (1, 1), laplace(1.0)) if family == "binomial"
                 else oracle.gamma_known_shape([2.0, 2.9], 10, 1.0, (2, 3), laplace(1.0)))  # fmt: skip
        for other in (exact, normal_sums.normal_approximation(family, **setting)):
            with pytest.raises(Disagreement):
                assert_chains_agree(other, theta)


AUGMENTED = {"y": 2.0, "n": 10, "prior": (2, 3), "noise": "laplace", "scale": 1.0}


def test_gibbs_stationary_augmented():
    """Drawing σ² | s and s | σ² in turn has another invariant law than drawing s at once."""
    theta = gibbs_chains(np.random.default_rng(13), "exponential", **AUGMENTED, augmented=True, n_chains=200_000)
    assert_chains_agree(normal_sums.gibbs_stationary("exponential", **AUGMENTED, augmented=True), theta)
    with pytest.raises(Disagreement):
        assert_chains_agree(normal_sums.gibbs_stationary("exponential", **AUGMENTED), theta)


def test_gibbs_stationary_approaches_the_posterior():
    exact = oracle.beta_binomial(600, 2000, (1, 1), laplace(40))
    gibbs = normal_sums.gibbs_stationary("binomial", 600, 2000, (1, 1), "laplace", 40)
    np.testing.assert_allclose([gibbs.mean[0], gibbs.sd[0]], [exact.mean[0], exact.sd[0]], rtol=2e-3)


# --- regression -------------------------------------------------------------------------------------------------------

SMALL = {"n": 3, "x_bounds": (-1, 1.5), "y_bounds": (-2, 2), "noise": "laplace", "scale": 1.0, "coef_scale": 1.0}
SMALL |= {"residual": Residual(None, 6, 5), "predictors": Predictors((0.2,), ((3.0,),), ((0.5,),), 8)}
SMALL_RELEASE = [0.3, 0.8, 1.5, 0.4, 1.2]


def test_regression_moments():
    rng = np.random.default_rng(21)
    x, y = 3 * rng.standard_normal((7, 2)), 3 * rng.standard_normal(7)
    bounds = np.array([[-2.0, 3.0], [0.0, 1.0]])
    u = np.column_stack([np.ones(7), (np.clip(x, *bounds.T) - bounds.mean(axis=1)) / (np.diff(bounds).T / 2)])
    v = np.clip(y, -4, 2) / 3 + 1 / 3
    gram = u.T @ u
    expected = [*(u.T @ v), v @ v, gram[0, 1], gram[0, 2], gram[1, 1], gram[1, 2], gram[2, 2]]
    np.testing.assert_allclose(twins.regression_moments(x, y, bounds, (-4, 2)), expected)
    out = np.zeros(9)
    total = np.zeros(9)
    for row, value in zip(x, y):
        twins._contribution(row, value, np.array([-2.0, 0, -4]), np.array([3.0, 1, 2]), out)
        total += out
    np.testing.assert_allclose(total, expected)


@pytest.fixture(scope="module")
def small_twin():
    return twins.regression_twin(SMALL_RELEASE, **SMALL, rng=np.random.default_rng(22), n_draws=12_000, n_chains=4,
                                 thin=4)  # fmt: skip


def assert_twin_agrees(found, draws):
    kept = found.sd > 1e-9
    errors = [long_runs.summarise(draws[:, :, kept], "")[key] for key in ("mean", "mean_error", "sd", "sd_error")]
    mean, mean_error, sd, sd_error = (np.array(value) for value in errors)
    judge(mean, np.hypot(mean_error, found.mean_error[kept]), found.mean[kept], "mean")
    judge(sd, np.hypot(sd_error, found.sd_error[kept]), found.sd[kept], "standard deviation")


@pytest.mark.slow
def test_regression_twin(small_twin):
    """Data augmentation and weighted draws from the prior agree at n = 3, where all that can be is unknown."""
    found = twins.regression_importance(SMALL_RELEASE, **SMALL, rng=np.random.default_rng(23), size=200_000)
    assert_twin_agrees(found, small_twin[0])
    other = twins.regression_importance(SMALL_RELEASE, **SMALL | {"scale": 1.3}, rng=np.random.default_rng(24),
                                        size=200_000)  # fmt: skip
    with pytest.raises(Disagreement):
        assert_twin_agrees(other, small_twin[0])


@pytest.mark.slow
def test_regression_twin_two_predictors():
    """Two predictors, two releases with Gaussian noise, and a correlated law of the predictors."""
    predictors = Predictors((0.2, 0.5), ((4.0, 1.0), (1.0, 3.0)), ((1.0, 0.3), (0.3, 0.5)), 9.0)
    setting = {"n": 2, "x_bounds": [(-1, 1), (0, 2)], "y_bounds": (-3, 3), "noise": "gaussian", "scale": 1.2}
    setting |= {"coef_scale": 1.5, "residual": Residual(0.7), "predictors": predictors}
    release = [[0.5, 0.8, -0.3, 0.9, 1.0, 0.2, 1.5, 0.1, 1.2], [0.1, 0.2, 0.5, 1.9, -0.3, 0.8, 1.1, 0.6, 0.7]]
    draws, _ = twins.regression_twin(release, **setting, rng=np.random.default_rng(25), n_draws=15_000, thin=4)
    found = twins.regression_importance(release, **setting, rng=np.random.default_rng(26), size=200_000)
    assert found.ess > 5000
    assert_twin_agrees(found, draws)


def test_regression_twin_increments():
    """Adding and taking off contributions makes the decisions that summing over all records makes."""
    release, rngs = long_runs.regression_release(), (np.random.default_rng(27) for _ in range(2))
    one, other = (
        twins.regression_twin(release, **long_runs.REGRESSION, rng=rng, n_draws=150, n_warmup=1, incremental=way)[0]
        for rng, way in zip(rngs, (False, True))
    )
    np.testing.assert_array_equal(one, other)


def stored(name):
    return json.loads((long_runs.HERE / f"data_{name}_twin.json").read_text())


@pytest.mark.slow
def test_stored_regression_twin():
    """The long run at n = 100 against weighted draws, which share none of the chain's code."""
    data = stored("regression")
    np.testing.assert_allclose(data["release"], long_runs.regression_release(), rtol=1e-12)
    proposal = data["mean"], 2 * np.diag(np.square(data["sd"]))
    found = twins.regression_importance(data["release"], **long_runs.REGRESSION, rng=np.random.default_rng(28),
                                        size=100_000, block=10_000, proposal=proposal)  # fmt: skip
    assert found.ess > 300
    judge(data["mean"], np.hypot(data["mean_error"], found.mean_error[:3]), found.mean[:3], "mean")
    judge(data["sd"], np.hypot(data["sd_error"], found.sd_error[:3]), found.sd[:3], "standard deviation")


# --- naive Bayes ------------------------------------------------------------------------------------------------------


def test_naive_bayes_exact():
    """All ordered data sets, one by one, with the probability of each as a product over records in turn."""
    release, alpha, log_noise = [2.3, -0.4, 0.8, 0.6, 1.5, 0.2, -0.3, 1.1], 1.3, laplace(0.9)
    posterior = nb_oracle.naive_bayes_exact(release, 3, 2, (2, 2), alpha, log_noise)
    total, first = -np.inf, -np.inf
    for code in np.ndindex(*[8] * 3):
        classes, features = np.array(code) // 4, np.column_stack([np.array(code) // 2 % 2, np.array(code) % 2])
        log_p = 0.0
        for i in range(3):  # Pólya's urns
            mates = classes[:i] == classes[i]
            log_p += np.log((alpha + mates.sum()) / (2 * alpha + i))
            for k in range(2):
                same = mates & (features[:i, k] == features[i, k])
                log_p += np.log((alpha + same.sum()) / (2 * alpha + mates.sum()))
        log_p += log_noise(release - nb_oracle.tables(classes, features, 2, (2, 2))).sum()
        total = np.logaddexp(total, log_p)
        first = np.logaddexp(first, log_p + np.log((alpha + np.sum(classes == 0)) / (2 * alpha + 3)))
    np.testing.assert_allclose(posterior.log_evidence, total)
    np.testing.assert_allclose(posterior.mean[0], np.exp(first - total))
    np.testing.assert_allclose(posterior.mean[[0, 2, 4, 6, 8]] + posterior.mean[[1, 3, 5, 7, 9]], 1)


def test_naive_bayes_exact_with_weighted_draws():
    rng, release, size = np.random.default_rng(31), [[1, 0, 2, 1, -1, 1, 0, 1, 1, 0]], 60_000  # 2 values, and 3
    theta = np.column_stack([rng.dirichlet([2.0] * k, size) for k in (2, 2, 2, 3, 3)])
    classes = (rng.random((2, size)) > theta[:, 0]).astype(int)
    statistic, rows = np.zeros((size, 10)), np.arange(size)
    for c in classes:
        for first, values, cell in ((2, 2, 0), (6, 3, 4)):
            begin = first + c * values
            below = np.cumsum([theta[rows, begin + v] for v in range(values - 1)], axis=0)
            statistic[rows, cell + c * values + (rng.random(size) > below).sum(axis=0)] += 1
    log_weight = oracle.log_release(release, statistic, discrete_laplace(1.5))
    assert_agrees(nb_oracle.naive_bayes_exact(release, 2, 2, (2, 3), 2.0, discrete_laplace(1.5)), theta, log_weight)


@pytest.mark.slow
def test_naive_bayes_twin():
    release = [2.3, -0.4, 0.8, 0.6, 1.5, 0.2, -0.3, 1.1]
    draws, _ = nb_oracle.naive_bayes_twin(release, 3, 2, (2, 2), 1.3, "laplace", 0.9, np.random.default_rng(32), 12_000,
                                      n_chains=4, thin=2)  # fmt: skip
    right = nb_oracle.naive_bayes_exact(release, 3, 2, (2, 2), 1.3, laplace(0.9))
    assert_mean_close(draws, right.mean)
    assert_mean_close((draws - right.mean) ** 2, right.sd**2)
    assert_mean_close((draws < 0.4) * 1.0, [right.cdf(0.4, k) for k in range(10)])
    with pytest.raises(Disagreement):
        assert_mean_close(draws, nb_oracle.naive_bayes_exact(release, 3, 2, (2, 2), 1.3, laplace(1.1)).mean)


def test_naive_bayes_twin_increments():
    (_, release), rngs = long_runs.naive_bayes_release(), (np.random.default_rng(33) for _ in range(2))
    one, other = (
        nb_oracle.naive_bayes_twin(
            release, **long_runs.NAIVE_BAYES, rng=rng, n_draws=100, n_warmup=1, incremental=way)[0]
        for rng, way in zip(rngs, (False, True))
    )
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_stored_naive_bayes_twin():
    data = stored("naive_bayes")
    np.testing.assert_allclose(data["release"], long_runs.naive_bayes_release()[1], rtol=1e-12)
    draws, _ = nb_oracle.naive_bayes_twin(data["release"], **long_runs.NAIVE_BAYES, rng=np.random.default_rng(34),
                                      n_draws=2500, n_chains=4, n_warmup=500, thin=4, incremental=True)  # fmt: skip
    short = long_runs.summarise(draws, "")
    judge(short["mean"], np.hypot(short["mean_error"], data["mean_error"]), np.array(data["mean"]), "mean")
    assert logsumexp(np.log(data["mean"][:5])) == pytest.approx(0, abs=1e-6)
