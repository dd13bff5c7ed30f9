"""The oracles of the statistic-level samplers against themselves: weighted draws from the prior, chains, limits."""

import bounded_records_oracle as clamped
import curator_oracle as oracle
import normal_sum_oracle as normal_sums
import numpy as np
import pytest
from curator_oracle import discrete_gaussian, discrete_laplace, gaussian, laplace
from scipy import stats
from scipy.integrate import quad
from statistical import Disagreement
from weighted_draws import assert_agrees, judge

from sklearn_dpmix.queries import SufficientStatistics

SIZE = 200_000


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
