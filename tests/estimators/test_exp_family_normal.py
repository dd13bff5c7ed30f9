"""PrivateExpFamilyGibbs by the normal approximation."""

import bounded_records_oracle as clamped
import curator_oracle as oracle
import normal_sum_oracle as normal_sums
import numpy as np
import pytest
from curator_oracle import discrete_laplace
from exp_family_case import MIXED, check, draw
from scipy import stats
from scipy.special import log_expit, logsumexp
from statistical import Disagreement, assert_mean_close, assert_means_agree, assert_pmf_close

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import Exponential, GammaPrior, Normal, NormalInverseGammaPrior
from sklearn_dpmix.queries import NoisyCount, SufficientStatistics

pytestmark = pytest.mark.filterwarnings(MIXED)


def many_moments(family, law, bounds, outside, gains=(1.0, 0.0)):
    """Mean and covariance of gain · t(x) + offset cut at bounds, of many smooth laws: their parameters are (n, 1)."""
    x, w = oracle.panels(np.linspace(*bounds, 9), 16)
    ends = np.array(bounds)
    t = gains[0] * family.statistics(np.append(x, ends)) + gains[1]
    if outside == "drop":
        t[-2:] = 0.0
    w = np.hstack([w * law.pdf(x), law.cdf(ends[:1]), law.sf(ends[1:])])
    mean = w @ t
    centred = t - mean[:, None]
    return mean, np.swapaxes(centred * w[..., None], 1, 2) @ centred


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


@pytest.mark.slow
def test_an_unknown_number_of_which_counts_say_nothing():
    """n is then as its noisy count says.  Catches steps that grow with n, as if they were as likely backwards."""
    n = np.arange(1.0, 400.0)
    for count, scale in ((20.0, 10.0), (10.0, 20.0)):
        model = draw("multinomial", [3.0, 5.0, 4.0], 1e6, None, count=(count, scale), approximation="normal", thin=5)
        weights = np.exp(-np.abs(n - count) / scale)
        assert_mean_close(model.n_records_draws_, np.average(n, weights=weights), min_ess=300, what="n")


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
