"""PrivateExpFamilyGibbs against exact posteriors (curator_oracle.py), and what it takes and refuses.

Where something is compiled, the statement is "these draws come from that posterior": means, probabilities of intervals
and of the hidden statistic, with tolerances from effective sample sizes.  Broken twins are the same check on a wrong
model: noise of another scale, a release forgotten, a sampler that leaves a factor out.
"""

import pickle
import re
import warnings

import curator_oracle as oracle
import numpy as np
import pytest
from curator_oracle import discrete_laplace, gaussian, laplace
from scipy import stats
from scipy.special import gammaln, log_expit, log_ndtr, logsumexp
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from statistical import (
    Disagreement,
    TooFewDraws,
    assert_mean_close,
    assert_means_agree,
    assert_pmf_close,
    assert_ranks_uniform,
)

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix._compiled import compiled
from sklearn_dpmix.estimators import _chain_estimator, _exp_family_engines
from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.models import (
    Bernoulli,
    Beta,
    BetaPrior,
    DirichletPrior,
    Exponential,
    Family,
    Gamma,
    GammaPrior,
    GammaProductPrior,
    Multinomial,
    Normal,
    NormalInverseGammaPrior,
    Poisson,
    resolve_family,
)
from sklearn_dpmix.models._family_records import carry_poisson
from sklearn_dpmix.queries import NoisyCount, Query, RegressionMoments, SufficientStatistics
from sklearn_dpmix.samplers import _statistic_table
from sklearn_dpmix.samplers._statistic import log_noise
from sklearn_dpmix.samplers._statistic_counts import FIRST, FIXED, KIND, TRANSFER, Counts

MIXED = "ignore:the chains have not mixed:RuntimeWarning"
pytestmark = pytest.mark.filterwarnings(MIXED)

LAPLACE = LaplaceMechanism(scale=2.0)
NOISE = {
    "laplace": (LaplaceMechanism, laplace),
    "gaussian": (GaussianMechanism, gaussian),
    "discrete laplace": (DiscreteLaplaceMechanism, discrete_laplace),
}
PRIORS = {  # by the oracle's tuples
    "binomial": lambda p: BetaPrior(*p),
    "multinomial": DirichletPrior,
    "poisson": lambda p: GammaPrior(*p),
    "gamma": lambda p: GammaPrior(*p),
    "exponential": lambda p: GammaPrior(*p),
}


def draw(family, release, scale, prior, *, noise="laplace", n=None, count=None, off=1.0, **options):
    """A fitted model.  ``off`` multiplies the scale of the noise that inference is told of."""
    mechanism = NOISE[noise][0](scale=scale * off)
    n_records = n if count is None else NoisyCount(count[0], LaplaceMechanism(scale=count[1] * off))
    name = family if isinstance(family, str) else family.names[0]
    prior = PRIORS[name](prior) if isinstance(prior, (tuple, list)) else prior
    options = {"n_chains": 4, "n_warmup": 500, "n_draws": 4000, "random_state": 0, **options}
    model = PrivateExpFamilyGibbs(mechanism, family=family, prior=prior, n_records=n_records, **options)
    return model.fit(np.reshape(release, (-1, model_width(family, release))))


def model_width(family, release):
    family = resolve_family(family)
    return np.shape(release)[-1] if isinstance(family, Multinomial) else family.n_statistics


def check(model, exact, *, pmf=True, min_ess=2000):
    """The draws of θ (and of s) are from the oracle's posterior."""
    theta = model.theta_draws_
    n_params = len(np.atleast_1d(exact.mean))
    assert_mean_close(theta[..., :n_params], exact.mean, min_ess=min_ess, what="θ")
    for k in range(n_params):
        for at in exact.mean[k] + exact.sd[k] * np.array([-1.0, 0.0, 1.0]):
            p = float(exact.cdf(at, k))
            if 0.02 < p < 0.98:
                assert_mean_close(theta[..., k] <= at, p, min_ess=min_ess, what=f"P(θ_{k} <= {at:.4g})")
    if pmf and isinstance(exact, oracle.Mixture) and exact.support.dtype == float and len(exact.weights) < 1e5:
        column = 0 if exact.support.ndim == 1 else exact.support.shape[1] - model.statistic_draws_.shape[2]
        law = exact.pmf(column)
        if law.max() < 0.98:
            assert_pmf_close(model.statistic_draws_[..., 0].astype(int), law, min_ess=min_ess, what="statistic")
    return model


# --- exact laws, small n included ------------------------------------------------------------------------------------

BINOMIAL = [  # n, releases, noise scale, prior
    (1, [1.4], 1.0, (1.0, 1.0)),
    (2, [-0.3], 0.7, (0.5, 0.5)),
    (3, [2.0, 0.0], 2.0, (2.0, 0.3)),
    (10, [7.3], 2.0, (1.0, 1.0)),
    (100, [104.0, 93.0, 90.0], 8.0, (3.0, 2.0)),
]


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "discrete laplace"])
def test_binomial_is_exact(noise):
    """One compiled loop, several cases: a table of the beta-binomial law times the noise."""
    for n, y, scale, prior in BINOMIAL:
        y = np.round(y) if noise == "discrete laplace" else np.array(y)
        exact = oracle.beta_binomial(y, n, prior, NOISE[noise][1](scale))
        model = check(draw("binomial", y, scale, prior, noise=noise, n=n), exact)
        assert model.approximation_ == "exact"
        assert model.theta_draws_.shape == (4, 4000, 1) and model.statistic_draws_.shape == (4, 4000, 1)


@pytest.mark.slow
def test_poisson_is_exact():
    for n, y, scale, prior in [
        (1, [1.4], 1.0, (1.0, 1.0)),
        (2, [-0.3], 0.7, (0.5, 0.2)),
        (3, [8.0, 2.0], 3.0, (2.0, 0.3)),
        (100, [280.0], 20.0, (0.3, 0.01)),
    ]:
        exact = oracle.gamma_poisson(y, n, prior, gaussian(scale))
        check(draw("poisson", y, scale, prior, noise="gaussian", n=n), exact)


MULTINOMIAL = [  # n, releases, noise scale, alpha
    (1, [0.4, 0.3, 1.0], 1.0, (1.0, 1.0, 1.0)),
    (3, [[2.0, 0.0, 1.0], [3.0, -1.0, 0.0]], 1.5, (0.5, 2.0, 0.3)),
    (10, [3.0, 5.0, 1.0], 2.0, (0.3, 0.5, 2.0)),
    (40, [12.0, 25.0, 9.0], 4.0, (2.0, 1.0, 3.0)),
]


@pytest.mark.slow
@pytest.mark.parametrize(
    "noise", ["laplace", *(pytest.param(name, marks=pytest.mark.nightly) for name in ("gaussian", "discrete laplace"))]
)
def test_multinomial_is_exact(noise):
    for n, y, scale, alpha in MULTINOMIAL:
        y = np.round(y) if noise == "discrete laplace" else np.array(y)
        exact = oracle.dirichlet_multinomial(y, n, alpha, NOISE[noise][1](scale))
        model = check(draw("multinomial", y, scale, list(alpha), noise=noise, n=n), exact)
        np.testing.assert_array_equal(model.statistic_draws_.sum(axis=2), n)
        np.testing.assert_allclose(model.theta_draws_.sum(axis=2), 1.0)


@pytest.mark.slow
def test_binomial_beyond_the_table_is_exact(monkeypatch):
    """The chain over counts, which takes over where a table would be too long: small exponents included."""
    monkeypatch.setattr(_statistic_table, "MAX_POINTS", 1)
    for n, y, scale, prior in BINOMIAL:
        check(draw("binomial", y, scale, prior, n=n, n_draws=8000), oracle.beta_binomial(y, n, prior, laplace(scale)))


@pytest.mark.slow
def test_poisson_beyond_the_table_is_exact(monkeypatch):
    monkeypatch.setattr(_statistic_table, "MAX_POINTS", 1)
    for n, y, scale, prior in [(2, [-0.3], 0.7, (0.5, 0.2)), (100, [280.0], 20.0, (3.0, 0.01))]:
        check(draw("poisson", y, scale, prior, n=n), oracle.gamma_poisson(y, n, prior, laplace(scale)))


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", pytest.param("gaussian", marks=pytest.mark.nightly)])
def test_gamma_is_exact(noise):
    for n, k, y, scale, prior in [
        (1, 1.0, [2.0], 1.0, (2.0, 1.0)),
        (2, 0.3, [0.4], 0.5, (3.0, 1.0)),
        (10, 1.0, [7.0, 9.0], 2.0, (0.7, 0.5)),
        (100, 2.5, [120.0], 15.0, (2.0, 1.0)),
    ]:
        exact = oracle.gamma_known_shape(y, n, k, prior, NOISE[noise][1](scale))
        check(draw(Gamma(shape=k), y, scale, prior, noise=noise, n=n, n_draws=8000), exact, pmf=False)


@pytest.mark.slow
def test_an_unknown_number_of_records_is_exact():
    """Flat prior on n, which was released with noise as well."""
    count = (12.0, 2.0)
    law = {"count": count[0], "count_noise": laplace(count[1])}
    exact = oracle.beta_binomial(7.3, None, (0.6, 2.0), laplace(2.0), **law)
    model = check(draw("binomial", 7.3, 2.0, (0.6, 2.0), count=count, n_draws=8000), exact)
    assert_pmf_close(model.n_records_draws_, exact.pmf(0), what="n")
    assert model.n_records_draws_.dtype.kind == "i"
    exact = oracle.dirichlet_multinomial([3.0, 5.0, 1.0], None, (0.3, 0.5, 2.0), laplace(1.0), **law)
    model = check(draw("multinomial", [3.0, 5.0, 1.0], 1.0, [0.3, 0.5, 2.0], count=count, n_draws=8000), exact)
    np.testing.assert_array_equal(model.statistic_draws_.sum(axis=2), model.n_records_draws_)
    exact = oracle.gamma_poisson(30.0, None, (1.5, 0.7), laplace(4.0), **law)
    model = check(draw("poisson", 30.0, 4.0, (1.5, 0.7), count=count, n_draws=8000), exact)
    assert_pmf_close(model.n_records_draws_, exact.pmf(0), what="n")


@pytest.mark.slow
def test_an_unknown_number_of_exponential_records_is_exact():
    """Against the mixture over n of the posteriors with n known, n from 1 on."""
    prior, count, y, scale = (2.0, 1.0), (4.0, 1.5), 3.0, 1.0
    known = [oracle.gamma_known_shape(y, n, 1.0, prior, laplace(scale)) for n in range(1, 60)]
    log_w = np.array([m.log_evidence + laplace(count[1])(count[0] - n) for n, m in enumerate(known, start=1)])
    w = np.exp(log_w - logsumexp(log_w))
    model = draw("exponential", y, scale, prior, count=count, n_draws=8000)
    assert_mean_close(model.theta_draws_, [w @ [m.mean[0] for m in known]], what="θ")
    assert_mean_close(model.theta_draws_[..., 0] <= 1.0, w @ [float(m.cdf(1.0)) for m in known], what="P(θ <= 1)")
    assert_pmf_close(model.n_records_draws_, np.append(0.0, w), what="n")


@pytest.mark.slow
def test_large_noise_and_many_records_mix():
    """θ and s do not hold each other in place, for n of a billion and noise far beyond the sampling spread."""
    for family, release in (("binomial", [3e8]), ("poisson", [3e9]), ("exponential", [3e9])):
        model = draw(family, release, 3e7, None, n=10**9, n_warmup=50, n_draws=2000)
        assert min(model.ess_.values()) > 5000, family
        assert model.statistic_draws_.std() > 1e7
    model = draw("multinomial", [3e8, 6e8, 1e8], 3e7, None, n=10**9, n_warmup=50, n_draws=2000)
    assert min(model.ess_.values()) > 5000


@pytest.mark.slow
def test_releases_with_a_scale_each():
    """Two releases of the same records under budgets of their own."""
    n, y, scales = 10, np.array([7.3, 2.0]), np.array([1.0, 4.0])
    s = np.arange(n + 1.0)
    log_weight = sum(laplace(b)(value - s) for b, value in zip(scales, y))  # a uniform prior on θ: s is uniform
    exact = oracle.Mixture("beta", s[:, None], log_weight, 1.0 + s, 1.0 + n - s)
    model = PrivateExpFamilyGibbs(LaplaceMechanism(scale=scales), family="binomial", n_records=n, n_draws=4000)
    check(model.set_params(random_state=0).fit(y[:, None]), exact)


# --- broken twins of the exact samplers ------------------------------------------------------------------------------


@pytest.mark.slow
def test_wrong_models_are_found():
    """Noise 20 % off, a release forgotten, one record too many: what the checks above must see, and do."""
    n, y, scale, prior = BINOMIAL[2]
    exact = oracle.beta_binomial(y, n, prior, laplace(scale))
    for wrong in (
        lambda: draw("binomial", y, scale, prior, n=n, off=1.2, n_draws=40_000),
        lambda: draw("binomial", y[:1], scale, prior, n=n),
        lambda: draw("binomial", y, scale, prior, n=n + 1),
        lambda: draw("binomial", y, scale, (2.0, 0.5), n=n),
    ):
        with pytest.raises(Disagreement):
            check(wrong(), exact)
    exact = oracle.gamma_known_shape([7.0, 9.0], 10, 1.0, (0.7, 0.5), laplace(2.0))
    for wrong in (
        lambda: draw(Gamma(), [7.0, 9.0], 2.0, (0.7, 0.5), n=10, off=1.2, n_draws=40_000),
        lambda: draw(Gamma(), [7.0, 9.0], 2.0, (0.7, 0.5), n=11),
    ):
        with pytest.raises(Disagreement):
            check(wrong(), exact, pmf=False)


class OneSidedTransfer(Counts):
    """Forgets that what one count gains, the other loses: no noise on the second."""

    @compiled
    def log_law(self, context, x):
        channel, counter, S, C, work = context
        j = int(work[FIRST])
        value = log_noise(channel, S, j, x)
        return value if work[KIND] == TRANSFER else value + log_noise(counter, C, 0, work[FIXED] + x)


@pytest.mark.slow
def test_a_transfer_that_forgets_a_factor_is_found(monkeypatch):
    monkeypatch.setitem(_exp_family_engines.SAMPLERS, "counts", OneSidedTransfer)
    n, y, scale, alpha = 40, [12.0, 25.0, 9.0], 4.0, (1.0, 1.0, 1.0)
    exact = oracle.dirichlet_multinomial(y, n, alpha, laplace(scale))
    with pytest.raises(Disagreement):
        check(draw("multinomial", y, scale, list(alpha), n=n), exact)


# --- what one record adds --------------------------------------------------------------------------------------------


def numeric_moments(family, law, bounds, outside, n_panels=4001):
    """Mean and covariance of t(x) cut at bounds, by quadrature over quantiles (or by a sum)."""
    lo, hi = bounds
    if family.is_integer:
        x = np.arange(lo, hi + 1.0)
        w, below, above = law.pmf(x), law.cdf(lo - 1), law.sf(hi)
    else:
        quantiles = np.clip(law.ppf(np.linspace(1e-12, 1 - 1e-12, n_panels)), lo, hi)
        x, w = oracle.panels(np.unique(np.append(np.linspace(lo, hi, n_panels), quantiles)), 4)
        w, below, above = w * law.pdf(x), law.cdf(lo), law.sf(hi)
    t = family.statistics(x)
    if outside == "clamp":
        t, w = np.vstack([t, family.statistics(np.array([lo, hi]))]), np.append(w, [below, above])
    else:
        t, w = np.vstack([t, 0 * t[:1]]), np.append(w, below + above)
    mean = w @ t
    return mean, ((t - mean) * w[:, None]).T @ (t - mean)


RECORDS = [  # family, prior, v, the law of a record, bounds
    *((Exponential(), GammaPrior(), [np.log(r)], stats.expon(scale=1 / r), (0.5, 5.0)) for r in (0.01, 0.5, 2.0)),
    *((Gamma(2.5), GammaPrior(), [np.log(r)], stats.gamma(2.5, scale=1 / r), (0.0, 5.0)) for r in (0.05, 1.0, 9.0)),
    *((Poisson(), GammaPrior(), [np.log(r)], stats.poisson(r), (0, 10)) for r in (0.01, 3.0, 15.0)),
    *((Poisson(), GammaPrior(), [np.log(r)], stats.poisson(r), (2, 7)) for r in (0.5, 3.0, 15.0)),
    *(
        (Normal(), NormalInverseGammaPrior(), [m, 2 * np.log(s)], stats.norm(m, s), bounds)
        for m, s, bounds in [
            (0.0, 1.0, (-1.0, 2.0)), (3.0, 0.2, (-1.0, 2.9)), (1.0, 0.01, (-1.0, 2.0)), (0.0, 30.0, (-1.0, 2.0)),
            (-4.0, 1.0, (-1.0, 2.0)), (170.0, 8.0, (120.0, 220.0)), (110.0, 20.0, (120.0, 220.0)),
        ]
    ),
    *(
        (Beta(), GammaProductPrior(), [np.log(a), np.log(b)], stats.beta(a, b), (0.05, 0.9))
        for a, b in [(1.0, 1.0), (0.3, 0.5), (5.0, 2.0), (50.0, 30.0), (0.05, 3.0)]
    ),
]  # fmt: skip


@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("family, prior, v, law, bounds", RECORDS)
def test_moments_of_a_record(family, prior, v, law, bounds, outside):
    """Catches a wrong closed form, and cancellation where the spread is far below the mean."""
    k = family.n_statistics
    mean, root = np.zeros(k), np.zeros((k, k))
    family._lower(prior=prior, bounds=bounds, outside=outside).moments(np.array(v, dtype=float), mean, root)
    expected, covariance = numeric_moments(family, law, bounds, outside)
    np.testing.assert_allclose(mean, expected, rtol=1e-9)
    np.testing.assert_allclose(root, np.linalg.cholesky(covariance), rtol=1e-5, atol=1e-300)


def test_moments_without_bounds():
    """The derivatives of the log-partition: against quadrature over all but nothing of the mass."""
    for family, prior, v, law, bounds in [
        (Exponential(), GammaPrior(), [0.7], stats.expon(scale=np.exp(-0.7)), (0.0, 40.0)),
        (Gamma(2.5), GammaPrior(), [0.7], stats.gamma(2.5, scale=np.exp(-0.7)), (0.0, 40.0)),
        (Poisson(), GammaPrior(), [0.7], stats.poisson(np.exp(0.7)), (0, 60)),
        (Normal(), NormalInverseGammaPrior(), [3.0, 0.7], stats.norm(3.0, np.exp(0.35)), (-30.0, 30.0)),
        (Beta(), GammaProductPrior(), [1.1, 0.7], stats.beta(np.exp(1.1), np.exp(0.7)), (1e-9, 1 - 1e-9)),
    ]:
        k = family.n_statistics
        mean, root = np.zeros(k), np.zeros((k, k))
        family._lower(prior=prior).moments(np.array(v), mean, root)
        expected, covariance = numeric_moments(family, law, bounds, "clamp")
        np.testing.assert_allclose(mean, expected, rtol=1e-6)
        np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-5)


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "exponential", "normal", "beta"])
def test_the_prior_of_free_coordinates(name):
    """Draws of the prior, as coordinates v, have the density that the compiled ``log_prior`` says: by its score."""
    family = resolve_family(name)
    prior = {"normal": NormalInverseGammaPrior(1.0, 0.5, 3.0, 2.0), "beta": GammaProductPrior((2.0, 1.5), 0.7)}.get(
        name, family.prior_class(2.0, 1.5)
    )
    value = family._lower(prior=prior)
    v = family.to_free(prior.draw(np.random.default_rng(0), 20_000, family))
    theta = np.zeros(family.n_params)
    value.to_theta(v[0], theta)
    np.testing.assert_allclose(family.to_free(theta[None])[0], v[0])
    h = 1e-4
    for a in range(v.shape[1]):
        e = h * np.eye(v.shape[1])[a]
        score = np.array([(value.log_prior(row + e) - value.log_prior(row - e)) / (2 * h) for row in v])
        for weight in (np.ones(len(v)), np.tanh(v[:, a]), np.tanh(v[:, -1])):  # E[score w] = -E[∂w]
            slope = {True: 1.0 - weight**2, False: 0.0}[weight is not None and weight.std() > 0]
            slope = slope if a == v.shape[1] - 1 or np.array_equal(weight, np.tanh(v[:, a])) else 0.0
            sample = score * weight + slope
            assert abs(sample.mean()) < 5 * sample.std() / np.sqrt(len(v)), (name, a)


# --- the normal approximation ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_normal_approximation_of_a_binomial():
    """s | θ is normal and all else is exact: the oracle integrates s out in closed form."""
    for n, y, scale, prior in [
        (10, [3.0], 2.0, (1.5, 2.0)),
        (100, [30.0, 35.0], 0.5, (1.0, 1.0)),
        (1000, [300.0], 200.0, (2.0, 3.0)),
    ]:
        exact = oracle.normal_approximation("binomial", y, n, prior, "laplace", scale)
        model = check(draw("binomial", y, scale, prior, n=n, approximation="normal"), exact, pmf=False)
        assert model.approximation_ == "normal" and 0.2 < model.acceptance_rate_ < 0.9
    with pytest.raises(Disagreement):
        check(draw("binomial", y, 1.2 * scale, prior, n=n, approximation="normal", n_draws=20_000), exact, pmf=False)


@pytest.mark.slow
def test_normal_approximation_of_exponential_sums():
    for n, y, scale, prior in [(20, [35.0], 2.0, (1.5, 2.0)), (1000, [800.0], 300.0, (3.0, 2.0))]:
        exact = oracle.normal_approximation("exponential", y, n, prior, "laplace", scale)
        check(draw("exponential", y, scale, prior, n=n, approximation="normal"), exact, pmf=False)


@pytest.mark.slow
def test_normal_approximation_of_dropped_records_finds_both_modes():
    """A sum over records that are dropped outside bounds is the same for two rates; their shares are in the oracle."""
    n, y, scale, prior, bounds = 1000, 815.0, 20.0, (2.0, 2.0), (0.03, 3.7)

    def log_target(theta, v):
        moments = [numeric_moments(Exponential(), stats.expon(scale=1 / r), bounds, "drop", 300) for r in theta[:, 0]]
        mean, variance = np.array([m[0][0] for m in moments]), np.array([m[1][0, 0] for m in moments])
        likelihood = oracle.log_normal_release([y], n * mean, n * variance, "laplace", scale)
        return likelihood + oracle.log_gamma(theta[:, 0], *prior)

    v = np.linspace(-3.0, 1.5, 601)
    exact = oracle.GridPosterior([v], [oracle.LOG], log_target(np.exp(v)[:, None], v) + v)
    share = float(exact.cdf(0.5))
    assert 0.1 < share < 0.9
    model = draw("exponential", y, scale, prior, n=n, truncation=bounds, approximation="normal")
    assert_mean_close(model.theta_draws_[..., 0] < 0.5, share, what="share of the far mode")
    assert_mean_close(model.theta_draws_, exact.mean, what="θ")
    assert draw("exponential", y, scale, prior, n=n, truncation=bounds, n_draws=10).approximation_ == "normal"  # auto


@pytest.mark.slow
def test_normal_approximation_of_a_clamped_normal():
    """Two statistics under Gaussian noise: y | θ is normal, on a grid of (μ, σ²) with moments by quadrature."""
    n, y, scale, bounds, prior = 200, [60.0, 190.0], 12.0, (-2.0, 2.0), (0.0, 1.0, 4.0, 4.0)
    axes = [np.linspace(-0.6, 1.4, 41), np.linspace(-1.0, 1.4, 41)]
    mesh = np.stack([c.ravel() for c in np.meshgrid(*axes, indexing="ij")], axis=1)
    log_density = np.empty(len(mesh))
    for i, (mu, log_variance) in enumerate(mesh):
        law = stats.norm(mu, np.exp(0.5 * log_variance))
        mean, covariance = numeric_moments(Normal(), law, bounds, "clamp", 100)
        log_density[i] = stats.multivariate_normal(n * mean, n * covariance + scale**2 * np.eye(2)).logpdf(y)
        log_density[i] += oracle.log_normal(mu, prior[0], np.exp(log_variance) / prior[1])
        log_density[i] += oracle.log_gamma(np.exp(-log_variance), *prior[2:]) - log_variance
    w = np.exp(log_density - log_density.max()).reshape(41, 41)
    assert max(w[0].max(), w[-1].max(), w[:, 0].max(), w[:, -1].max()) < 1e-6
    mean = [w.sum(axis=1) @ axes[0] / w.sum(), w.sum(axis=0) @ np.exp(axes[1]) / w.sum()]
    query = SufficientStatistics("normal", bounds=bounds)
    mechanism = GaussianMechanism(rho=0.5 * (query.sensitivity(2) / scale) ** 2, query=query)
    model = PrivateExpFamilyGibbs(
        mechanism, family="normal", n_records=n, prior=NormalInverseGammaPrior(*prior), approximation="normal",
        n_draws=8000, random_state=0,
    )  # fmt: skip
    assert_mean_close(model.fit(y).theta_draws_, mean, what="(μ, σ²)")
    with pytest.raises(Disagreement):
        assert_mean_close(model.set_params(n_records=210).fit(y).theta_draws_, mean, what="(μ, σ²)")


@pytest.mark.nightly
def test_normal_approximation_under_integer_noise():
    """The release is of s rounded: a sum over integers of normal cells."""
    n, y, scale, prior = 30, 12, 2.0, (1.5, 2.0)
    k = np.arange(-60.0, 120.0)

    def log_target(theta, v):
        mean, sd = n * theta, np.sqrt(n * theta * (1 - theta))
        cell = np.log(np.maximum(stats.norm.cdf((k + 0.5 - mean) / sd) - stats.norm.cdf((k - 0.5 - mean) / sd), 1e-300))
        prior_log = (prior[0] - 1) * log_expit(v[:, 0]) + (prior[1] - 1) * log_expit(-v[:, 0])
        return logsumexp(cell + discrete_laplace(scale)(y - k), axis=1) + prior_log

    exact = oracle.grid_posterior(log_target, [oracle.LOGIT], [(-8.0, 8.0)], (2001,))
    check(draw("binomial", [y], scale, prior, noise="discrete laplace", n=n, approximation="normal"), exact, pmf=False)


@pytest.mark.nightly
def test_normal_approximation_of_two_categories_is_that_of_a_binomial():
    """Both counts released, of which the second is n - s: two releases of s."""
    n, y, scale, alpha = 20, [6.0, 15.0], 2.0, (1.5, 2.0)
    exact = oracle.normal_approximation("binomial", [y[0], n - y[1]], n, alpha, "laplace", scale)
    model = draw("multinomial", y, scale, list(alpha), n=n, approximation="normal", n_draws=10_000)
    check(model, exact, pmf=False)
    np.testing.assert_allclose(model.statistic_draws_.sum(axis=2), n)


@pytest.mark.nightly
@pytest.mark.parametrize(
    ("family", "release", "scale"), [("poisson", [3e4], 300.0), ("multinomial", [2e3, 7e3, 1e3], 100.0)]
)
@pytest.mark.parametrize("count", [None, (10_050.0, 30.0)])
def test_normal_approximation_agrees_with_exact_for_many_records(family, release, scale, count):
    n = 10_000 if count is None else None
    both = [
        draw(family, release, scale, None, n=n, count=count, approximation=a, n_draws=10_000, n_warmup=2000)
        for a in ("exact", "normal")
    ]
    assert_means_agree(*(model.theta_draws_ for model in both), what=family)
    assert_means_agree(*(model.theta_draws_**2 for model in both), what=f"{family}, squared")


# --- records cut at bounds: imputed one by one -----------------------------------------------------------------------


def imputed(family, bounds, outside, release, scale, n, prior, **options):
    query = SufficientStatistics(family, bounds=bounds, outside=outside)
    mechanism = LaplaceMechanism(epsilon=query.sensitivity(1) / scale, query=query)
    options = {"n_draws": 8000, "n_warmup": 1000, "random_state": 0, **options}
    model = PrivateExpFamilyGibbs(mechanism, family=family, n_records=n, prior=prior, approximation="exact", **options)
    return model.fit(release)


@pytest.mark.slow
@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_bounded_exponential_records_are_exact(outside):
    exact = oracle.bounded_gamma([1.3], 2, (0.2, 2.0), 1.0, (2.0, 1.5), laplace(0.7), outside=outside)
    model = imputed("exponential", (0.2, 2.0), outside, [1.3], 0.7, 2, GammaPrior(2.0, 1.5))
    check(model, exact)
    assert model.approximation_ == "exact" and model.acceptance_rate_ > np.exp(-2.0 / 0.7)
    other = {"clamp": "drop", "drop": "clamp"}[outside]
    with pytest.raises(Disagreement):  # dropping is not clamping
        check(imputed("exponential", (0.2, 2.0), other, [1.3], 0.7, 2, GammaPrior(2.0, 1.5)), exact)


@pytest.mark.nightly
def test_bounded_normal_records_are_exact():
    prior = (0.3, 1.4, 5.0, 3.7)
    exact = oracle.bounded_normal([1.0, 2.3], 2, (-1.0, 2.0), prior, laplace(0.9), outside="drop")
    check(imputed("normal", (-1.0, 2.0), "drop", [1.0, 2.3], 0.9, 2, NormalInverseGammaPrior(*prior)), exact)


@pytest.mark.nightly
@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_bounded_poisson_and_beta_records_are_exact(outside):
    exact = oracle.bounded_poisson([13.3], 5, (1, 6), (2.0, 0.5), laplace(1.7), outside=outside)
    check(imputed("poisson", (1, 6), outside, [13.3], 1.7, 5, GammaPrior(2.0, 0.5)), exact)
    prior = ((2.0, 1.0), (1.5, 0.7))
    exact = oracle.bounded_beta([-1.5, -1.0], 2, (0.1, 0.8), prior, laplace(0.6), outside=outside)
    check(imputed("beta", (0.1, 0.8), outside, [-1.5, -1.0], 0.6, 2, GammaProductPrior((2.0, 1.5), (1.0, 0.7))), exact)


@pytest.mark.nightly
def test_bounded_records_of_unknown_number():
    """The mixture over n of the posteriors with n known."""
    prior, count, y, scale, bounds = (2.0, 1.5), (6.0, 0.8), [7.3], 1.2, (0, 4)
    known = [oracle.bounded_poisson(y, n, bounds, prior, laplace(scale)) for n in range(1, 21)]
    log_w = np.array([m.log_evidence + laplace(count[1])(count[0] - n) for n, m in enumerate(known, start=1)])
    nothing = laplace(scale)(y[0]) + laplace(count[1])(count[0])  # of no records: θ from the prior
    w = np.exp(np.append(nothing, log_w) - logsumexp(np.append(nothing, log_w)))
    n_records = NoisyCount(count[0], LaplaceMechanism(scale=count[1]))
    model = imputed("poisson", bounds, "clamp", y, scale, n_records, GammaPrior(*prior))
    assert_mean_close(model.theta_draws_, [w @ [prior[0] / prior[1], *(m.mean[0] for m in known)]], what="θ")
    assert_pmf_close(model.n_records_draws_, w, what="n")


@pytest.mark.nightly
@pytest.mark.parametrize("family, bounds, theta, prior", [
    ("exponential", (0.03, 3.7), [1.0], GammaPrior(2.0, 2.0)),
    ("normal", (-3.0, 3.0), [0.5, 1.0], NormalInverseGammaPrior(0.0, 0.1, 3.0, 3.0)),
    ("poisson", (0, 8), [3.0], GammaPrior(2.0, 1.0)),
])  # fmt: skip
def test_imputation_and_normal_approximation_agree(family, bounds, theta, prior):
    """At n = 400, on a clamped statistic."""
    query = SufficientStatistics(family, bounds=bounds)
    mechanism = LaplaceMechanism(epsilon=1.0, query=query)
    records = resolve_family(family).draw(np.random.default_rng(0), np.tile(theta, (400, 1)))
    S = mechanism.privatize(records[:, None], random_state=1)
    both = [
        PrivateExpFamilyGibbs(mechanism, family=family, n_records=400, prior=prior, approximation=a, n_draws=5000,
                              random_state=2).fit(S).theta_draws_
        for a in ("exact", "normal")
    ]  # fmt: skip
    sd = both[0].std(axis=(0, 1))
    assert np.all(np.abs(both[0].mean(axis=(0, 1)) - both[1].mean(axis=(0, 1))) < 0.1 * sd)  # n is finite
    np.testing.assert_allclose(both[1].std(axis=(0, 1)), sd, rtol=0.1)


def test_poisson_records_are_carried_by_their_quantiles():
    """There and back is where it was; and a Poisson record becomes one of the other rate."""
    rng = np.random.default_rng(0)
    for rate, other in ((3.0, 4.0), (0.2, 1.5), (40.0, 33.0), (200.0, 260.0)):
        x = rng.poisson(rate, 4000)
        found = np.empty(4000)
        for i in range(4000):
            records = np.array([[x[i], rng.random()], [0.0, 0.0], [0.0, 0.0]])
            carry_poisson(rate, other, records, 0, 1)
            found[i] = records[1, 0]
            carry_poisson(other, rate, records, 1, 2)
            if 1e-6 < records[0, 1] < 1 - 1e-6:
                np.testing.assert_allclose(records[2], records[0], atol=1e-4)
        assert np.all(np.diff(found[np.argsort(x, kind="stable")]) > -3 - 3 * np.sqrt(max(rate, other)))
        assert abs(found.mean() - other) < 5 * np.sqrt(other / 4000)
        assert abs(found.var() / other - 1.0) < 5 * np.sqrt((2.0 + 1.0 / other) / 4000)


# --- without a mechanism ---------------------------------------------------------------------------------------------


def given(family, S, n, prior, **options):
    options = {"n_draws": 4000, "n_warmup": 200, "random_state": 0, **options}
    return PrivateExpFamilyGibbs(family=family, n_records=n, prior=prior, **options).fit(S)


@pytest.mark.slow
def test_without_noise_it_is_the_conjugate_posterior():
    law = stats.beta(2.5 + 7, 1.0 + 3)
    model = given("binomial", [7], 10, BetaPrior(2.5, 1.0))
    assert_mean_close(model.theta_draws_, law.mean())
    assert_mean_close(model.theta_draws_[..., 0] < 0.7, law.cdf(0.7))
    assert np.all(model.statistic_draws_ == 7)
    model = given("multinomial", [1, 5, 0], 6, DirichletPrior([0.3, 1.0, 2.0]))
    assert_mean_close(model.theta_draws_, np.array([1.3, 6.0, 2.0]) / 9.3)
    law = stats.gamma(2.0 + 6 * 1.5, scale=1 / (1.0 + 4.2))
    model = given(Gamma(shape=1.5), [4.2], 6, GammaPrior(2.0, 1.0))
    assert_mean_close(model.theta_draws_, law.mean())
    assert_mean_close(model.theta_draws_[..., 0] < 2.0, law.cdf(2.0))


@pytest.mark.slow
def test_without_noise_a_normal_is_conjugate_too():
    x = np.array([0.3, 1.9, -0.4, 0.8])
    model = given("normal", [x.sum(), (x**2).sum()], 4, NormalInverseGammaPrior(0.5, 0.7, 3.0, 2.0))
    precision, shape = 4.7, 5.0
    centre = (0.7 * 0.5 + x.sum()) / precision
    scale = 2.0 + 0.5 * ((x**2).sum() + 0.7 * 0.25 - precision * centre**2)
    assert_mean_close(model.theta_draws_, [centre, scale / (shape - 1)])
    law = stats.t(2 * shape, centre, np.sqrt(scale / (shape * precision)))
    assert_mean_close(model.theta_draws_[..., 0] < 1.0, law.cdf(1.0))


@pytest.mark.slow
def test_without_noise_beta_records():
    """On a grid of (log a, log b); shapes of the prior below and above 1."""
    x = np.array([0.2, 0.5, 0.7, 0.4, 0.35])
    s = Beta().statistics(x).sum(axis=0)
    a, b = np.meshgrid(*[np.exp(np.linspace(-4.0, 5.0, 400))] * 2, indexing="ij")
    log_p = 0.6 * np.log(a) - 0.3 * a + 2.0 * np.log(b) - 0.5 * b + a * s[0] + b * s[1]
    log_p += 5 * (gammaln(a + b) - gammaln(a) - gammaln(b))
    w = np.exp(log_p - log_p.max())
    model = given("beta", s, 5, GammaProductPrior((0.6, 2.0), (0.3, 0.5)))
    assert_mean_close(model.theta_draws_, [(w * a).sum() / w.sum(), (w * b).sum() / w.sum()])


# --- calibration -----------------------------------------------------------------------------------------------------


def calibration_ranks(family, n, theta, simulate, mechanism, told, prior, **options):
    """(true θ, draws) of replicates: θ from the prior, records, noise, and 19 thinned draws."""
    rng = np.random.default_rng(0)
    model = PrivateExpFamilyGibbs(told, family=family, prior=prior, n_records=n, n_chains=1, n_draws=19, **options)
    draws = np.empty((len(theta), 19))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for i, value in enumerate(theta):
            release = np.atleast_1d(simulate(rng, value)) + mechanism.draw_noise(rng, mechanism.noise_scale, 1)
            draws[i] = model.set_params(random_state=i).fit(release).theta_draws_[0, :, 0]
    return draws


@pytest.mark.slow
def test_posteriors_are_calibrated():
    """Ranks of the truth are uniform, noise included; told of a third of the noise, they are not."""
    rng = np.random.default_rng(1)
    theta = rng.beta(0.7, 1.2, 250)
    mechanism = LaplaceMechanism(scale=3.0)
    common = "binomial", 12, theta, lambda rng, p: float(rng.binomial(12, p)), mechanism
    draws = calibration_ranks(*common, mechanism, BetaPrior(0.7, 1.2), n_warmup=0)
    assert_ranks_uniform(theta, draws, rng, n_bins=10, what="binomial")
    draws = calibration_ranks(*common, LaplaceMechanism(scale=1.0), BetaPrior(0.7, 1.2), n_warmup=0)
    with pytest.raises(Disagreement):
        assert_ranks_uniform(theta, draws, rng, n_bins=10, what="binomial")


@pytest.mark.slow
def test_gamma_posteriors_are_calibrated():
    rng = np.random.default_rng(2)
    theta = rng.gamma(2.0, 1.0, 250)
    mechanism = LaplaceMechanism(scale=4.0)
    draws = calibration_ranks(
        "exponential", 5, theta, lambda rng, r: rng.gamma(5.0) / r, mechanism, mechanism, GammaPrior(2.0, 1.0),
        n_warmup=30, thin=15,
    )  # fmt: skip
    assert_ranks_uniform(theta, draws, rng, n_bins=10, what="exponential")


# --- prediction ------------------------------------------------------------------------------------------------------

FITS = {
    "binomial": (dict(family="binomial", n_records=20), [13.2]),
    "multinomial": (dict(family="categorical", n_records=20), [5.0, 12.0, 1.0]),
    "exponential": (dict(family="exponential", n_records=20, prior=GammaPrior(2.0, 1.0)), [30.0]),
}  # fmt: skip


@pytest.fixture(scope="module")
def fitted():
    return {
        name: PrivateExpFamilyGibbs(LAPLACE, n_draws=2000, n_warmup=100, random_state=0, **params).fit(S)
        for name, (params, S) in FITS.items()
    }


@pytest.mark.slow
def test_predictions_are_averages_over_the_posterior(fitted):
    model = fitted["binomial"]
    p = model.theta_draws_.mean()
    np.testing.assert_allclose(model.predict(np.zeros((3, 5))), p)
    np.testing.assert_allclose(model.score_samples([[0], [1], [2], [0.5]])[:2], np.log([1 - p, p]))
    assert np.all(model.score_samples([[2.0], [0.5], [-1.0]]) == -np.inf)
    model = fitted["multinomial"]
    np.testing.assert_array_equal(model.predict([[0.0], [0.0]]), [1, 1])
    np.testing.assert_allclose(model.score_samples([0, 1, 2]), np.log(model.theta_draws_.mean(axis=(0, 1))))
    assert model.score_samples([[3.0]])[0] == -np.inf
    model = fitted["exponential"]
    rate = model.theta_draws_.ravel()
    np.testing.assert_allclose(model.predict([0.0]), np.mean(1 / rate))
    np.testing.assert_allclose(model.score_samples([[0.7]]), np.log(np.mean(rate * np.exp(-0.7 * rate))))


@pytest.mark.slow
def test_samples_are_predictive_records(fitted):
    for name, model in fitted.items():
        x = model.sample(20_000, random_state=1)
        assert x.shape == (20_000, 1)
        np.testing.assert_array_equal(x, model.sample(20_000, random_state=1))
        if name == "exponential":
            rate = model.theta_draws_.ravel()
            u = [np.mean(-np.expm1(-one * rate)) for one in x[::10, 0]]
            assert stats.kstest(u, "uniform").pvalue > 1e-6
        else:
            values, counts = np.unique(x, return_counts=True)
            p = np.exp(model.score_samples(values))
            assert np.all(np.abs(counts / 20_000 - p) < 5 * np.sqrt(p * (1 - p) / 20_000))
        with pytest.raises(ValueError, match="n_samples must be a positive integer, got True"):
            model.sample(True)


FAMILIES = {  # a family with parameters and the law of a record
    "bernoulli": (Bernoulli(), [[0.3]], stats.bernoulli(0.3), [0, 1]),
    "poisson": (Poisson(), [[2.5]], stats.poisson(2.5), [0, 3, 7]),
    "gamma": (Gamma(1.5), [[2.0]], stats.gamma(1.5, scale=0.5), [0.0, 0.2, 3.0]),
    "normal": (Normal(), [[1.0, 4.0]], stats.norm(1.0, 2.0), [-3.0, 1.0]),
    "beta": (Beta(), [[2.0, 0.7]], stats.beta(2.0, 0.7), [0.1, 0.9]),
}


@pytest.mark.parametrize("name", FAMILIES)
def test_laws_of_records(name):
    """log_density, mean and draw of each family, against SciPy."""
    family, theta, law, x = FAMILIES[name]
    theta, x = np.array(theta), np.array(x, dtype=float)
    expected = law.logpmf(x) if family.is_integer else law.logpdf(x)
    np.testing.assert_allclose(family.log_density(x, theta)[0], expected, rtol=1e-9)
    np.testing.assert_allclose(family.mean(theta), law.mean())
    drawn = family.draw(np.random.default_rng(0), np.tile(theta, (20_000, 1)))
    assert abs(drawn.mean() - law.mean()) < 5 * law.std() / np.sqrt(20_000)
    outside = {"normal": []}.get(name, [-1.0])
    assert np.all(family.log_density(np.array(outside), theta) == -np.inf)


# --- chains ----------------------------------------------------------------------------------------------------------

KINDS = {
    "table": dict(family="binomial", n_records=20),
    "counts": dict(family="categorical", n_records=20),
    "sum": dict(family="exponential", n_records=20),
    "unknown n": dict(family="binomial", n_records=NoisyCount(21.0, LaplaceMechanism(scale=2.0))),
    "normal": dict(family="binomial", n_records=20, approximation="normal"),
    "records": dict(family="exponential", n_records=20, truncation=(0.0, 3.0), approximation="exact"),
}  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_warm_start_and_n_jobs_change_nothing(kind):
    """More draws are those of one longer run, bit for bit, whatever runs at the same time."""
    S = [5.0, 12.0, 1.0] if kind == "counts" else [13.2]
    options = {"n_chains": 2, "n_warmup": 7, "random_state": 3, "warm_start": True, **KINDS[kind]}
    model = PrivateExpFamilyGibbs(LaplaceMechanism(scale=1.5), n_draws=11, **options).fit(S)
    model.set_params(n_draws=50, n_jobs=2).fit(S)
    longer = PrivateExpFamilyGibbs(LaplaceMechanism(scale=1.5), n_draws=50, **options).fit(S)
    np.testing.assert_array_equal(model.theta_draws_, longer.theta_draws_)
    np.testing.assert_array_equal(model.statistic_draws_, longer.statistic_draws_)
    assert model.n_iter_ == 57
    with pytest.raises(ValueError, match="the data changed"):
        model.fit(np.add(S, 1.0))
    with pytest.raises(ValueError, match="mechanism__scale changed"):
        model.set_params(mechanism__scale=2.0).fit(S)
    np.testing.assert_array_equal(model.theta_draws_, longer.theta_draws_)  # a refused fit leaves the last one
    again = pickle.loads(pickle.dumps(longer))
    np.testing.assert_array_equal(again.predict([0.0]), longer.predict([0.0]))


@pytest.mark.slow
def test_summaries(fitted):
    model = fitted["multinomial"]
    assert list(model.r_hat_) == ["probability_0", "probability_1", "probability_2"]
    assert np.all(np.array(list(model.r_hat_.values())) < 1.01)
    assert "probability_1" in str(model.summary())
    assert model.n_features_in_ == 3
    assert not hasattr(model, "n_records_draws_") and not hasattr(model, "acceptance_rate_")


# --- inputs ----------------------------------------------------------------------------------------------------------

@pytest.fixture
def no_chains(monkeypatch):
    """Any chain that starts is an error; so nothing compiles either."""

    def start(*args, **kwargs):
        raise AssertionError("a chain was started")

    monkeypatch.setattr(_chain_estimator, "start_chains", start)


class CauchyMechanism(AdditiveMechanism):
    def __init__(self, scale=1.0):
        self.scale = scale


class RecordCount(Query):
    neighbours = "add_remove"
    n_statistics = 1

    def sensitivity(self, norm=1, neighbours=None):
        return 1.0


def bounded(family, bounds, **options):
    return LaplaceMechanism(epsilon=1.0, query=SufficientStatistics(family, bounds=bounds, **options))


POISSON = {"family": "poisson", "n_records": 10}
WRONG = [  # mechanism, parameters, release, message
    (LAPLACE, {"n_records": 10}, [3.0], "family must be given"),
    (LAPLACE, {"family": "weibull", "n_records": 10}, [3.0], 'family must be one of "bernoulli".*got \'weibull\''),
    (LAPLACE, {"family": Poisson, "n_records": 10}, [3.0], "family must be an object, got the class Poisson"),
    (LAPLACE, {"family": Gamma(-1.0), "n_records": 10}, [3.0], "shape must be a positive finite number"),
    (LAPLACE, {"family": Family(), "n_records": 10}, [3.0], r"family=Family\(\) has no prior_class"),
    (LAPLACE, {"family": "poisson"}, [3.0], "n_records must say how many records.*got n_records=None"),
    (LAPLACE, {"family": "poisson", "n_records": 0}, [3.0], "n_records must be a positive integer.*got n_records=0"),
    (LAPLACE, {"family": "poisson", "n_records": True}, [3.0], "positive integer.*got n_records=True"),
    (LAPLACE, {"family": "poisson", "n_records": 10.0}, [3.0], "positive integer.*got n_records=10.0"),
    (LAPLACE, {**POISSON, "prior": BetaPrior()}, [3.0], "prior of family Poisson must be a GammaPrior, got prior=Be"),
    (LAPLACE, {**POISSON, "prior": GammaPrior(0.0)}, [3.0], "shape of GammaPrior must be a positive finite number"),
    (LAPLACE, {**POISSON, "prior": "vague"}, [3.0], "must be a GammaPrior, got prior='vague'"),
    (LAPLACE, {"family": "multinomial", "n_records": 9, "prior": DirichletPrior([1, 2])}, [3, 3, 3], "2 number.*3 cat"),
    (LAPLACE, {**POISSON, "approximation": "laplace"}, [3.0], "'approximation' parameter .* must be a str among"),
    (LAPLACE, POISSON, [3.0, 4.0], r"release of family Poisson must have 1 number\(s\).*several releases go one a row"),
    (LAPLACE, {"family": "normal", "n_records": 9}, [[1.0], [2.0]], r"have 2 number\(s\), the sums of \['x', 'x\^2'\]"),
    (LAPLACE, {"family": "multinomial", "n_records": 9}, [3.0], "one number a category, at least 2, got 1"),
    (LAPLACE, POISSON, [np.nan], "contains NaN"),
    (LAPLACE, POISSON, [np.inf], "contains infinity"),
    (LAPLACE, POISSON, ["a"], "could not convert string"),
    (LaplaceMechanism, POISSON, [3.0], "mechanism must add noise to a statistic"),
    ("laplace", POISSON, [3.0], "mechanism must add noise to a statistic"),
    (CauchyMechanism(), POISSON, [3.0], "noise with a log-concave density.*is_log_concave = True"),
    (LaplaceMechanism(1.0, bounds=(0, 1)), POISSON, [3.0], r"releases records one by one \(bounds=\)"),
    (LaplaceMechanism(1.0, query=RegressionMoments((0, 1), (0, 1), 1)), POISSON, [3.0], "SufficientStatistics only"),
    (bounded("exponential", (0, 3)), POISSON, [3.0], r"family=Poisson\(\), but the mechanism.*Exponential\(\)"),
    (bounded(Gamma(2.0), (0, 3)), {"family": Gamma(3.0), "n_records": 9}, [3.0], r"shape=3.0\), but .*shape=2.0"),
    (LaplaceMechanism(scale=-1.0), POISSON, [3.0], "scale must be positive"),
    (LaplaceMechanism(scale=[1.0, 2.0]), POISSON, [3.0], "own noise for each of 2 records"),
    (DiscreteLaplaceMechanism(scale=1.0), POISSON, [3.5], "must hold integers, got 3.5"),
    (DiscreteGaussianMechanism(scale=1.0), {"family": "exponential", "n_records": 9}, [3], "not one: use GaussianMech"),
    (LAPLACE, {**POISSON, "truncation": (3, 1)}, [3.0], r"truncation=\(3, 1\): .*lo < hi"),
    (LAPLACE, {**POISSON, "truncation": (0.5, 3)}, [3.0], r"truncation=\(0.5, 3\): bounds must be integers"),
    (LAPLACE, {"family": "binomial", "n_records": 9, "truncation": (0, 1)}, [3.0], "truncation=.*takes no bounds"),
    (bounded("poisson", (0, 8)), {**POISSON, "truncation": (0, 8)}, [3.0], "outside were dropped, but the mechanism"),
    (
        bounded("poisson", (0, 8), outside="drop"),
        {**POISSON, "truncation": (0, 9)},
        [3.0],
        "records outside were dropped, but the mech",
    ),
    (None, POISSON, [3.5], r"no 10 records of family Poisson have the statistic \[3.5\]"),
    (None, {"family": "binomial", "n_records": 5}, [6], "no 5 records of family Bernoulli"),
    (None, {"family": "multinomial", "n_records": 5}, [3, 3], "no 5 records of family Multinomial"),
    (None, {"family": "normal", "n_records": 5}, [5.0, 4.0], "no 5 records of family Normal"),
    (None, {"family": "beta", "n_records": 2}, [-0.1, -0.1], "no 2 records of family Beta"),
    (None, POISSON, [[3], [4]], "several rows must be equal"),
    (None, {**POISSON, "truncation": (0, 5), "approximation": "exact"}, [3], '"exact" is not there: without noise'),
    (
        bounded("poisson", (0, 8)),
        {"family": "poisson", "n_records": 10**7, "approximation": "exact"},
        [3e7],
        '"exact" is not there: each record is imputed.*approximation="normal" handles it',
    ),
    (
        DiscreteLaplaceMechanism(scale=1.0),
        {"family": "multinomial", "n_records": 9, "approximation": "normal"},
        [3, 6],
        'takes multinomial counts for real numbers.*use approximation="exact"',
    ),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount("ten", LAPLACE)}, [3.0], "value of NoisyCount must be"),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(np.nan, LAPLACE)}, [3.0], "value of NoisyCount must be"),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(10, 2.0)}, [3.0], "must be an object that adds noise"),
    (
        LAPLACE,
        {"family": "poisson", "n_records": NoisyCount(10, LaplaceMechanism(1.0, bounds=(0, 1)))},
        [3.0],
        "which has no bounds",
    ),
    (
        LAPLACE,
        {"family": "poisson", "n_records": NoisyCount(10, bounded("poisson", (0, 8)))},
        [3.0],
        "must have a query of one number and sensitivity 1",
    ),
    (
        LAPLACE,
        {"family": "poisson", "n_records": NoisyCount(10.5, DiscreteLaplaceMechanism(scale=1.0))},
        [3.0],
        "must hold integers, got 10.5",
    ),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(10, CauchyMechanism())}, [3.0], "log-concave density"),
]


@pytest.mark.parametrize(("mechanism", "params", "release", "message"), WRONG)
def test_wrong_input_is_named(mechanism, params, release, message, no_chains):
    """Catches an error that comes late, or does not say parameter, value and remedy."""
    with pytest.raises((ValueError, TypeError), match=message):
        PrivateExpFamilyGibbs(mechanism, **params).fit(release)


def test_counting_queries_are_taken():
    NoisyCount(10, LaplaceMechanism(epsilon=0.5, query=RecordCount())).check()
    count = NoisyCount(-3.0, GaussianMechanism(scale=2.0))
    count.check()
    assert (count.likely, count.scale, count.most) == (1, 2.0, 81)
    assert clone(count).get_params()["value"] == -3.0


@pytest.mark.parametrize(
    ("mechanism", "params", "release", "message"),
    [
        (LAPLACE, {"family": "binomial", "n_records": 10}, [-1000.0], "release 0 has sum.x. = -1000.*between 0 and 10"),
        (LAPLACE, {"family": "binomial", "n_records": 10}, [[4.0], [200.0]], "release 1 has sum.x. = 200"),
        (GaussianMechanism(scale=1.0), {"family": "exponential", "n_records": 10}, [-30.0], "between 0 and inf"),
        (bounded("normal", (-1, 1)), {"family": "normal", "n_records": 10}, [0.0, 90.0], r"sum\(x\^2\) = 90.*0 and 10"),
        (LAPLACE, {"family": "multinomial", "n_records": 300}, [100.0, 80.0], "add up to 180, and to 300 before noise"),
    ],
)
def test_an_impossible_release_is_doubted(mechanism, params, release, message, monkeypatch):
    """With a number: how probable so much noise is."""

    def stop(problem, approximation):
        raise StopIteration

    monkeypatch.setattr("sklearn_dpmix.estimators._exp_family.choose_engine", stop)
    with pytest.warns(UserWarning, match=message) as caught, pytest.raises(StopIteration):
        PrivateExpFamilyGibbs(mechanism, **params).fit(release)
    probability = float(re.search(r"probability (?:of at most )?([\d.e+-]+)", str(caught[0].message)).group(1))
    assert probability < 1e-6


def test_a_possible_release_is_not_doubted(monkeypatch):
    def stop(problem, approximation):
        raise StopIteration

    monkeypatch.setattr("sklearn_dpmix.estimators._exp_family.choose_engine", stop)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for family, release in (("binomial", [-9.0]), ("multinomial", [3.0, -2.0, 20.0]), ("poisson", [1e6])):
            with pytest.raises(StopIteration):
                PrivateExpFamilyGibbs(LAPLACE, family=family, n_records=10).fit(release)


@pytest.mark.slow
def test_an_impossible_release_still_gives_a_posterior():
    """At the end of the support, and finite."""
    with pytest.warns(UserWarning, match="= -1000"):
        model = draw("binomial", [-1000.0], 2.0, (1.0, 1.0), n=10, n_draws=1000)
    exact = oracle.beta_binomial([-1000.0], 10, (1.0, 1.0), laplace(2.0))
    assert_mean_close(model.theta_draws_, exact.mean)


@pytest.mark.slow
def test_containers_and_feature_names():
    pd = pytest.importorskip("pandas")
    params = {"family": "binomial", "n_records": 20, "n_draws": 10, "n_warmup": 0, "random_state": 0}
    model = PrivateExpFamilyGibbs(LaplaceMechanism(scale=1.5), **params)
    expected = model.fit(np.array([[13.2]])).theta_draws_
    for S in ([13.2], 13.2, [[13.2]], np.float32(13.2).astype(float) * 0 + 13.2, pd.Series([13.2])):
        np.testing.assert_array_equal(clone(model).fit(S).theta_draws_, expected)
    named = clone(model).fit(pd.DataFrame({"sum": [13.2]}))
    np.testing.assert_array_equal(named.theta_draws_, expected)
    np.testing.assert_array_equal(named.feature_names_in_, ["sum"])
    assert named.n_features_in_ == 1


def test_it_is_a_scikit_learn_estimator():
    """clone, get_params, nested parameters, repr; nothing is stored before fit, and nothing changed by it."""
    mechanism = LaplaceMechanism(scale=2.0)
    model = PrivateExpFamilyGibbs(mechanism, family="gamma", prior=GammaPrior(2.0, 1.0), n_records=5)
    assert set(vars(model)) == set(model.get_params(deep=False))
    copy = clone(model)
    assert copy.prior is not model.prior and copy.get_params()["prior__shape"] == 2.0
    copy.set_params(mechanism__scale=3.0, prior__rate=7.0)
    assert copy.mechanism.scale == 3.0 and mechanism.scale == 2.0
    assert "family='gamma'" in repr(model)
    assert PrivateExpFamilyGibbs().get_params()["approximation"] == "auto"
    for method, argument in (("predict", [0.0]), ("score_samples", [0.0]), ("sample", 1)):
        with pytest.raises(NotFittedError):
            getattr(model, method)(argument)
    with pytest.raises(TypeError):
        PrivateExpFamilyGibbs(mechanism, "gamma")


@pytest.mark.slow
def test_a_user_s_log_concave_noise_is_taken():
    """A mechanism of one's own, which says that its noise is log-concave: logistic noise, against a sum."""

    def log_logistic(e):
        return -np.abs(e) / 1.5 - 2.0 * np.log1p(np.exp(-np.abs(e) / 1.5))

    model = PrivateExpFamilyGibbs(LogisticMechanism(1.5), family="binomial", n_records=10, n_draws=4000, random_state=0)
    exact = oracle.beta_binomial([6.0], 10, (1.0, 1.0), log_logistic)
    check(model.fit([6.0]), exact)


class LogisticMechanism(AdditiveMechanism):
    is_log_concave = True

    def __init__(self, scale=1.0):
        self.scale = scale

    @compiled
    def log_noise(self, e, scale):
        u = abs(e) / scale
        return -u - 2.0 * np.log1p(np.exp(-u))


def test_the_statistical_checks_need_enough_draws():
    """The broken twin of the checks themselves: constant draws say nothing."""
    with pytest.raises(TooFewDraws):
        assert_mean_close(np.zeros((4, 1000)), 0.0)
    assert np.isclose(log_ndtr(0.0), np.log(0.5))
