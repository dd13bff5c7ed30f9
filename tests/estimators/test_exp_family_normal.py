"""PrivateExpFamilyGibbs where records are cut at bounds: the normal approximation, and imputation record by record."""

import bounded_records_oracle as clamped
import curator_oracle as oracle
import normal_sum_oracle as normal_sums
import numpy as np
import pytest
from curator_oracle import discrete_laplace, laplace
from exp_family_case import MIXED, check, draw
from scipy import stats
from scipy.special import expit, log_expit, logsumexp, polygamma, psi
from statistical import (
    Disagreement,
    assert_mean_close,
    assert_means_agree,
    assert_pmf_close,
)

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import (
    GaussianMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.models import (
    Beta,
    Exponential,
    Gamma,
    GammaPrior,
    GammaProductPrior,
    MeanPrecisionPrior,
    Normal,
    NormalInverseGammaPrior,
    Poisson,
    resolve_family,
)
from sklearn_dpmix.models._family_records import carry_poisson
from sklearn_dpmix.queries import NoisyCount, SufficientStatistics

pytestmark = pytest.mark.filterwarnings(MIXED)


# --- what one record adds --------------------------------------------------------------------------------------------


def numeric_moments(family, law, bounds, outside, n_panels=4001, gains=(1.0, 0.0)):
    """Mean and covariance of gain · t(x) + offset cut at bounds, by quadrature over quantiles (or by a sum)."""
    lo, hi = bounds
    if family.is_integer:
        x = np.arange(lo, hi + 1.0)
        w, below, above = law.pmf(x), law.cdf(lo - 1), law.sf(hi)
    else:
        quantiles = np.clip(law.ppf(np.linspace(1e-12, 1 - 1e-12, n_panels)), lo, hi)
        x, w = oracle.panels(np.unique(np.append(np.linspace(lo, hi, n_panels), quantiles)), 4)
        w, below, above = w * law.pdf(x), law.cdf(lo), law.sf(hi)
    t = gains[0] * family.statistics(x) + gains[1]
    if outside == "clamp":
        ends = gains[0] * family.statistics(np.array([lo, hi])) + gains[1]
        t, w = np.vstack([t, ends]), np.append(w, [below, above])
    else:
        t, w = np.vstack([t, 0 * t[:1]]), np.append(w, below + above)
    mean = w @ t
    return mean, ((t - mean) * w[:, None]).T @ (t - mean)


def many_moments(family, law, bounds, outside, gains=(1.0, 0.0)):
    """As :func:`numeric_moments`, for many smooth laws at once: the parameters of ``law`` are columns, (n, 1)."""
    x, w = oracle.panels(np.linspace(*bounds, 9), 16)
    ends = np.array(bounds)
    t = gains[0] * family.statistics(np.append(x, ends)) + gains[1]
    if outside == "drop":
        t[-2:] = 0.0
    w = np.hstack([w * law.pdf(x), law.cdf(ends[:1]), law.sf(ends[1:])])
    mean = w @ t
    centred = t - mean[:, None]
    return mean, np.swapaxes(centred * w[..., None], 1, 2) @ centred


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
        (Beta(), GammaProductPrior(), [np.log(a / b), np.log(a + b)], stats.beta(a, b), (0.05, 0.9))
        for a, b in [(1.0, 1.0), (0.3, 0.5), (5.0, 2.0), (50.0, 30.0), (0.05, 3.0)]
    ),
]  # fmt: skip


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("family, prior, v, law, bounds", RECORDS)
def test_moments_of_a_record(family, prior, v, law, bounds, outside, is_scaled):
    """Catches a wrong closed form, and cancellation where the spread is far below the mean."""
    k = family.n_statistics
    mean, root = np.zeros(k), np.zeros((k, k))
    gains = (np.array([0.7, 2.0])[:k], np.array([0.3, 1.2])[:k]) if is_scaled else (np.ones(k), np.zeros(k))
    value = family._lower(prior=prior, bounds=bounds, outside=outside, gains=gains)
    value.moments(np.array(v, dtype=float), mean, root)
    expected, covariance = numeric_moments(family, law, bounds, outside, gains=gains)
    np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-12 if is_scaled else 0.0)
    np.testing.assert_allclose(root, np.linalg.cholesky(covariance), rtol=1e-5, atol=1e-300)


def test_moments_without_bounds():
    """The derivatives of the log-partition: against quadrature over all but nothing of the mass."""
    for family, prior, v, law, bounds in [
        (Exponential(), GammaPrior(), [0.7], stats.expon(scale=np.exp(-0.7)), (0.0, 40.0)),
        (Gamma(2.5), GammaPrior(), [0.7], stats.gamma(2.5, scale=np.exp(-0.7)), (0.0, 40.0)),
        (Poisson(), GammaPrior(), [0.7], stats.poisson(np.exp(0.7)), (0, 60)),
        (Normal(), NormalInverseGammaPrior(), [3.0, 0.7], stats.norm(3.0, np.exp(0.35)), (-30.0, 30.0)),
        (Beta(), GammaProductPrior(), [0.4, 1.6], stats.beta(*np.exp(1.6) * expit([0.4, -0.4])), (1e-9, 1 - 1e-9)),
    ]:
        k = family.n_statistics
        mean, root = np.zeros(k), np.zeros((k, k))
        family._lower(prior=prior).moments(np.array(v), mean, root)
        expected, covariance = numeric_moments(family, law, bounds, "clamp")
        np.testing.assert_allclose(mean, expected, rtol=1e-6)
        np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-5)


@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("precision", [1e3, 1e6, 1e9])
def test_moments_of_beta_records_that_are_nearly_equal(precision, outside):
    """Bounds are far off, so that they are the derivatives of the log-partition; catches variances lost in rounding."""
    a, b = 0.4 * precision, 0.6 * precision
    mean, root = np.zeros(2), np.zeros((2, 2))
    value = Beta()._lower(prior=MeanPrecisionPrior(), bounds=(0.001, 0.999), outside=outside)
    value.moments(np.array([np.log(a / b), np.log(precision)]), mean, root)
    np.testing.assert_allclose(mean, psi([a, b]) - psi(precision), rtol=1e-11)
    covariance = np.diag(polygamma(1, [a, b])) - polygamma(1, precision)
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-5)


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "exponential", "normal", "beta", "beta, wide"])
def test_the_prior_of_free_coordinates(name):
    """Draws of the prior, as coordinates v, have the density that the compiled ``log_prior`` says: by its score."""
    family = resolve_family(name.split(",")[0])
    prior = {
        "normal": NormalInverseGammaPrior(1.0, 0.5, 3.0, 2.0),
        "beta": GammaProductPrior((2.0, 1.5), 0.7),
        "beta, wide": MeanPrecisionPrior(30.0),
    }.get(name, family.prior_class(2.0, 1.5))
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
        exact = normal_sums.normal_approximation("binomial", y, n, prior, "laplace", scale)
        model = check(draw("binomial", y, scale, prior, n=n, approximation="normal"), exact, pmf=False)
        assert model.approximation_ == "normal" and 0.2 < model.acceptance_rate_ < 0.9
    with pytest.raises(Disagreement):
        check(draw("binomial", y, 1.2 * scale, prior, n=n, approximation="normal", n_draws=20_000), exact, pmf=False)


@pytest.mark.slow
def test_normal_approximation_of_exponential_sums():
    for n, y, scale, prior in [(20, [35.0], 2.0, (1.5, 2.0)), (1000, [800.0], 300.0, (3.0, 2.0))]:
        exact = normal_sums.normal_approximation("exponential", y, n, prior, "laplace", scale)
        check(draw("exponential", y, scale, prior, n=n, approximation="normal"), exact, pmf=False)


@pytest.mark.slow
def test_normal_approximation_of_dropped_records_finds_both_modes():
    """A sum over records that are dropped outside bounds is the same for two rates; their shares are in the oracle."""
    n, y, scale, prior, bounds = 1000, 815.0, 20.0, (2.0, 2.0), (0.03, 3.7)

    def log_target(theta, v):
        mean, variance = many_moments(Exponential(), stats.expon(scale=1 / theta), bounds, "drop")
        likelihood = normal_sums.log_normal_release([y], n * mean[:, 0], n * variance[:, 0, 0], "laplace", scale)
        return likelihood + clamped.log_gamma(theta[:, 0], *prior)

    v = np.linspace(-3.0, 1.5, 601)
    exact = clamped.GridPosterior([v], [clamped.LOG], log_target(np.exp(v)[:, None], v) + v)
    share = float(exact.cdf(0.5))
    assert 0.1 < share < 0.9
    model = draw("exponential", y, scale, prior, n=n, truncation=bounds, approximation="normal")
    assert_mean_close(model.theta_draws_[..., 0] < 0.5, share, what="share of the far mode")
    assert_mean_close(model.theta_draws_, exact.mean, what="θ")
    assert draw("exponential", y, scale, prior, n=n, truncation=bounds, n_draws=10).approximation_ == "normal"  # auto


@pytest.mark.slow
@pytest.mark.parametrize("scaled", [False, True])
def test_normal_approximation_of_a_clamped_normal(scaled):
    """Two statistics under Gaussian noise: y | θ is normal, on a grid of (μ, σ²) with moments by quadrature."""
    n, y, scale, bounds, prior = 200, [60.0, 190.0], 12.0, (-2.0, 2.0), (0.0, 1.0, 4.0, 4.0)
    gains = (1.0, 0.0)
    if scaled:
        y, scale, gains = [30.0, -155.0], 6.0, (np.array([0.5, 0.5]), np.array([0.0, -1.25]))  # u = x/2
    axes = [np.linspace(-0.6, 1.4, 41), np.linspace(-1.0, 1.4, 41)]
    mu, log_variance = (c.reshape(-1, 1) for c in np.meshgrid(*axes, indexing="ij"))
    law = stats.norm(mu, np.exp(0.5 * log_variance))
    mean, covariance = many_moments(Normal(), law, bounds, "clamp", gains)
    of_release, gap = n * covariance + scale**2 * np.eye(2), y - n * mean
    log_density = -0.5 * np.sum(gap * np.linalg.solve(of_release, gap[..., None])[..., 0], axis=1)
    log_density -= 0.5 * np.linalg.slogdet(of_release)[1]
    log_density += oracle.log_normal(mu, prior[0], np.exp(log_variance) / prior[1])[:, 0]
    log_density += (clamped.log_gamma(np.exp(-log_variance), *prior[2:]) - log_variance)[:, 0]
    w = np.exp(log_density - log_density.max()).reshape(41, 41)
    assert max(w[0].max(), w[-1].max(), w[:, 0].max(), w[:, -1].max()) < 1e-6
    mean = [w.sum(axis=1) @ axes[0] / w.sum(), w.sum(axis=0) @ np.exp(axes[1]) / w.sum()]
    query = SufficientStatistics("normal", bounds=bounds, scaled=scaled)
    mechanism = GaussianMechanism(rho=0.5 * (query.sensitivity(2) / scale) ** 2, query=query)
    model = PrivateExpFamilyGibbs(
        mechanism, family="normal", n_records=n, prior=NormalInverseGammaPrior(*prior), approximation="normal",
        n_draws=8000, random_state=0,
    )  # fmt: skip
    assert_mean_close(model.fit(y).theta_draws_, mean, what="(μ, σ²)")
    with pytest.raises(Disagreement):
        assert_mean_close(model.set_params(n_records=210).fit(y).theta_draws_, mean, what="(μ, σ²)")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("family", "count", "scale"), [("exponential", -1.0, 1.0), ("poisson", 3.0, 1.0), ("beta", 50.0, 40.0)]
)
def test_normal_approximation_of_a_number_that_may_be_small(family, count, scale):
    """Sums that say nothing: the number has its own noise's law, from 1 on, and does not stand still at the mode."""
    query = SufficientStatistics(family, bounds=(0.1, 0.9) if family == "beta" else (0, 4))
    mechanism, n_records = LaplaceMechanism(epsilon=1e-5, query=query), NoisyCount(count, LaplaceMechanism(scale=scale))
    options = {"family": family, "n_records": n_records, "approximation": "normal", "n_draws": 4000, "random_state": 0}
    model = PrivateExpFamilyGibbs(mechanism, **options).fit(np.zeros(query.n_statistics))
    n = np.arange(1.0, 60.0 * scale)
    pmf = np.exp(-np.abs(n - count) / scale)
    assert_pmf_close(model.n_records_draws_, np.append(0.0, pmf / pmf.sum()), what="n")


@pytest.mark.slow
def test_a_number_that_a_sum_with_little_noise_holds():
    """Of imputed records one at a time comes or goes, which such a sum hardly allows: 2 to 30 effective draws."""
    query = SufficientStatistics("exponential", (0, 10), neighbours="add_remove")
    S, scale, count, prior = -19.4, 0.1, NoisyCount(31.0, LaplaceMechanism(scale=2.0)), GammaPrior(2.0, 4.0)
    mechanism = LaplaceMechanism(scale=scale, query=query)
    model = PrivateExpFamilyGibbs(mechanism, family="exponential", prior=prior, n_records=count, random_state=0)
    model.fit([S])
    assert model.approximation_ == "normal"
    rng, sums = np.random.default_rng(0), np.zeros(3)
    for _ in range(20):  # draws of the prior, weighted: a record adds (x - 5)/5
        n, rate = rng.integers(10, 56, 50_000), rng.gamma(2.0, 0.25, 50_000)
        x = np.minimum(rng.standard_exponential((len(n), 56)) / rate[:, None], 10.0)
        total = np.where(np.arange(56) < n[:, None], 0.2 * x - 1.0, 0.0).sum(axis=1)
        sums += np.exp(-np.abs(S - total) / scale - np.abs(31.0 - n) / 2.0) @ np.column_stack(
            [n, rate, np.ones(len(n))]
        )
    expected = sums[:2] / sums[2]
    assert_mean_close(model.n_records_draws_, expected[0], what="n")
    assert_mean_close(model.theta_draws_[..., 0], expected[1], what="rate")


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

    exact = clamped.grid_posterior(log_target, [clamped.LOGIT], [(-8.0, 8.0)], (2001,))
    check(draw("binomial", [y], scale, prior, noise="discrete laplace", n=n, approximation="normal"), exact, pmf=False)


@pytest.mark.slow
def test_normal_approximation_of_many_counts_starts_near_the_release():
    """Catches chains that start from the prior: with many records and little noise some stayed there."""
    for seed in range(3):
        counts = np.random.default_rng(seed).multinomial(10_000, [0.2, 0.35, 0.45])
        model = PrivateExpFamilyGibbs(
            LaplaceMechanism(scale=2.0),
            family="multinomial",
            n_records=10_000,
            approximation="normal",
            n_warmup=100,
            random_state=seed,
        ).fit(counts + [3.0, -1.0, 2.0])
        assert max(model.r_hat_.values()) < 1.02
        np.testing.assert_allclose(model.theta_draws_.mean(axis=(0, 1)), counts / 10_000, atol=1e-3)


@pytest.mark.nightly
def test_normal_approximation_of_two_categories_is_that_of_a_binomial():
    """Both counts released, of which the second is n - s: two releases of s."""
    n, y, scale, alpha = 20, [6.0, 15.0], 2.0, (1.5, 2.0)
    exact = normal_sums.normal_approximation("binomial", [y[0], n - y[1]], n, alpha, "laplace", scale)
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


def imputed(family, bounds, outside, release, scale, n, prior, scaled=False, **options):
    query = SufficientStatistics(family, bounds=bounds, outside=outside, scaled=scaled)
    mechanism = LaplaceMechanism(epsilon=query.sensitivity(1) / scale, query=query)
    options = {"n_draws": 8000, "n_warmup": 1000, "random_state": 0, **options}
    model = PrivateExpFamilyGibbs(mechanism, family=family, n_records=n, prior=prior, approximation="exact", **options)
    return model.fit(release)


@pytest.mark.slow
@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_bounded_exponential_records_are_exact(outside):
    exact = clamped.bounded_gamma([1.3], 2, (0.2, 2.0), 1.0, (2.0, 1.5), laplace(0.7), outside=outside)
    model = imputed("exponential", (0.2, 2.0), outside, [1.3], 0.7, 2, GammaPrior(2.0, 1.5))
    check(model, exact)
    assert model.approximation_ == "exact" and model.acceptance_rate_ > np.exp(-2.0 / 0.7)
    other = {"clamp": "drop", "drop": "clamp"}[outside]
    with pytest.raises(Disagreement):  # dropping is not clamping
        check(imputed("exponential", (0.2, 2.0), other, [1.3], 0.7, 2, GammaPrior(2.0, 1.5)), exact)


@pytest.mark.slow
def test_scaled_exponential_records_are_exact():
    """A dropped record adds 0, which is the middle of the bounds and not their lower end."""
    exact = clamped.bounded_gamma([0.4], 2, (0.2, 2.0), 1.0, (2.0, 1.5), laplace(0.7), outside="drop", scaled=True)
    check(imputed("exponential", (0.2, 2.0), "drop", [0.4], 0.7, 2, GammaPrior(2.0, 1.5), scaled=True), exact)


@pytest.mark.slow
def test_chains_leave_a_mode_that_holds_hardly_anything():
    """Catches jumps that know only modes with mass: where records are dropped, one at 0.65 has probability 0.0005."""
    model = imputed(
        "exponential", (0.006, 1.17), "drop", [267.5], 1.17, 1000, GammaPrior(8.0, 2.0), n_draws=500, n_warmup=200
    )
    rate = model.theta_draws_[:, :, 0]
    assert np.all(np.mean(rate < 1.5, axis=1) < 0.05)
    assert abs(rate.mean() - 3.385) < 0.2 * rate.std()  # by quadrature, the sum taken as normal


@pytest.mark.nightly
@pytest.mark.parametrize("scaled, release", [(False, [1.0, 2.3]), (True, [0.3, -1.2])])
def test_bounded_normal_records_are_exact(scaled, release):
    prior, options = (0.3, 1.4, 5.0, 3.7), {"scaled": scaled}
    exact = clamped.bounded_normal(release, 2, (-1.0, 2.0), prior, laplace(0.9), outside="drop", **options)
    check(imputed("normal", (-1.0, 2.0), "drop", release, 0.9, 2, NormalInverseGammaPrior(*prior), **options), exact)


@pytest.mark.nightly
@pytest.mark.parametrize("outside", ["clamp", "drop"])
def test_bounded_poisson_and_beta_records_are_exact(outside):
    exact = clamped.bounded_poisson([13.3], 5, (1, 6), (2.0, 0.5), laplace(1.7), outside=outside)
    check(imputed("poisson", (1, 6), outside, [13.3], 1.7, 5, GammaPrior(2.0, 0.5)), exact)
    prior = ((2.0, 1.0), (1.5, 0.7))
    exact = clamped.bounded_beta([-1.5, -1.0], 2, (0.1, 0.8), prior, laplace(0.6), outside=outside)
    common = (0.1, 0.8), outside, [-1.5, -1.0], 0.6, 2, GammaProductPrior((2.0, 1.5), (1.0, 0.7))
    check(imputed("beta", *common), exact)
    exact = clamped.bounded_beta([-1.5, -1.0], 2, (0.1, 0.8), prior, laplace(0.6), outside=outside, scaled=True)
    check(imputed("beta", *common, scaled=True), exact)


@pytest.mark.slow
def test_beta_records_that_round_to_0_or_1_are_exact():
    """Of shapes this small most records do: what they say about the shapes is in their logits."""
    prior, release, bounds = ((0.5, 1.0), (0.7, 0.8)), [-1.5, -1.0], (0.1, 0.8)
    exact = clamped.bounded_beta(release, 2, bounds, prior, laplace(0.6), outside="drop", n_nodes=(301, 301))
    check(imputed("beta", bounds, "drop", release, 0.6, 2, GammaProductPrior((0.5, 0.7), (1.0, 0.8))), exact)


@pytest.mark.nightly
def test_bounded_records_of_unknown_number():
    """The mixture over n of the posteriors with n known."""
    prior, count, y, scale, bounds = (2.0, 1.5), (6.0, 0.8), [7.3], 1.2, (0, 4)
    known = [clamped.bounded_poisson(y, n, bounds, prior, laplace(scale)) for n in range(1, 21)]
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
