"""PrivateExpFamilyGibbs where the law of the statistic is known: draws against exact posteriors (curator_oracle.py).

Where something is compiled, the statement is "these draws come from that posterior": means, probabilities of intervals
and of the hidden statistic, with tolerances from effective sample sizes.  Broken twins are the same check on a wrong
model: noise of another scale, a release forgotten, a sampler that leaves a factor out.
"""

import warnings

import curator_oracle as oracle
import numpy as np
import pytest
from curator_oracle import gaussian, laplace
from exp_family_case import MIXED, NOISE, check, draw
from scipy import stats
from scipy.special import betaln, gammaln, log_expit, logit, logsumexp, psi
from statistical import (
    Disagreement,
    assert_mean_close,
    assert_pmf_close,
    assert_ranks_uniform,
)

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.estimators.curator import _exp_family_engines
from sklearn_dpmix.mechanisms import (
    LaplaceMechanism,
)
from sklearn_dpmix.models import (
    Beta,
    BetaPrior,
    DirichletPrior,
    Gamma,
    GammaPrior,
    GammaProductPrior,
    MeanPrecisionPrior,
    NormalInverseGammaPrior,
    WideDirichletPrior,
)
from sklearn_dpmix.samplers.sums import _integer_table
from sklearn_dpmix.samplers.sums._hidden_counts import FIRST, FIXED, KIND, TRANSFER, Counts
from sklearn_dpmix.samplers.sums._statistic import log_noise

pytestmark = pytest.mark.filterwarnings(MIXED)


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
def test_multinomial_under_an_unknown_concentration_is_exact():
    """Small counts are drawn from tables, larger ones by rejection sampling and in windows."""
    for n, y, scale, median, noise in [
        (1, [0.4, 0.3, 1.0], 1.0, 1.0, "laplace"),
        (10, [[3.0, 5.0, 1.0], [4.0, 7.0, -1.0]], 2.0, 0.2, "gaussian"),
        (68, [61.0, 3.0, 1.0], 4.0, 1.0, "discrete laplace"),
        (68, [20.0, 45.0, 9.0], 15.0, 0.5, "laplace"),
    ]:
        exact = oracle.wide_dirichlet_multinomial(y, n, median, NOISE[noise][1](scale))
        model = check(draw("multinomial", y, scale, WideDirichletPrior(median), noise=noise, n=n), exact, min_ess=1000)
        if n == 10:  # a fixed concentration would not pass
            with pytest.raises(AssertionError):
                check(model, oracle.dirichlet_multinomial(y, n, 3 * (median,), NOISE[noise][1](scale)))
    law = {"count": 12.0, "count_noise": laplace(2.0)}
    exact = oracle.wide_dirichlet_multinomial([3.0, 5.0, 0.0], None, 1.0, laplace(1.0), **law)
    check(draw("multinomial", [3.0, 5.0, 0.0], 1.0, None, count=(12.0, 2.0)), exact, min_ess=1000)


@pytest.mark.slow
def test_binomial_beyond_the_table_is_exact(monkeypatch):
    """The chain over counts, which takes over where a table would be too long: small exponents included."""
    monkeypatch.setattr(_integer_table, "MAX_POINTS", 1)
    for n, y, scale, prior in BINOMIAL:
        check(draw("binomial", y, scale, prior, n=n, n_draws=8000), oracle.beta_binomial(y, n, prior, laplace(scale)))


@pytest.mark.slow
def test_poisson_beyond_the_table_is_exact(monkeypatch):
    monkeypatch.setattr(_integer_table, "MAX_POINTS", 1)
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
@pytest.mark.parametrize("rate", [1e-15, 1e-40])
def test_a_prior_far_beyond_the_release_ends(rate):
    """Catches a chain that starts where one more or less is the same number: it never came back."""
    model = PrivateExpFamilyGibbs(
        LaplaceMechanism(scale=1e6), family="poisson", prior=GammaPrior(1.0, rate), n_records=100, n_warmup=20,
        n_draws=20, random_state=0,
    )  # fmt: skip
    with pytest.warns(RuntimeWarning, match="have not mixed"):
        assert np.all(np.isfinite(model.fit([50.0]).theta_draws_))


@pytest.mark.slow
def test_large_noise_and_many_records_mix():
    """θ and s do not hold each other in place, for n of a billion and noise far beyond the sampling spread."""
    unit = GammaPrior()
    for family, release, prior in (("binomial", [3e8], None), ("poisson", [3e9], None), ("exponential", [3e9], unit)):
        model = draw(family, release, 3e7, prior, n=10**9, n_warmup=50, n_draws=2000)
        assert min(model.ess_.values()) > 5000, family
        assert model.statistic_draws_.std() > 1e7
    for prior, least in ((DirichletPrior(), 5000), (WideDirichletPrior(), 1500)):  # an unknown α moves with the counts
        model = draw("multinomial", [3e8, 6e8, 1e8], 3e7, prior, n=10**9, n_warmup=50, n_draws=2000)
        assert min(model.ess_.values()) > least


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
@pytest.mark.parametrize(
    "prior, log_prior",
    [
        (GammaProductPrior((0.6, 2.0), (0.3, 0.5)), lambda a, b: 0.6 * np.log(a) - 0.3 * a + 2.0 * np.log(b) - 0.5 * b),
        (MeanPrecisionPrior(3.0), lambda a, b: np.log(a * b) - 1.5 * np.log(a + b) - np.log(3.0 + a + b)),
    ],
)
def test_without_noise_beta_records(prior, log_prior):
    """On a grid of (log a, log b); shapes of the prior below and above 1, and the wide one; not the other."""
    x = np.array([0.2, 0.5, 0.7, 0.4, 0.35])
    s = Beta().statistics(x).sum(axis=0)
    a, b = np.meshgrid(*[np.exp(np.linspace(-4.0, 6.0, 500))] * 2, indexing="ij")
    log_p = log_prior(a, b) + a * s[0] + b * s[1] + 5 * (gammaln(a + b) - gammaln(a) - gammaln(b))
    w = np.exp(log_p - log_p.max())

    def compare(prior):
        log_theta = np.log(given("beta", s, 5, prior).theta_draws_)
        assert_mean_close(log_theta, [(w * np.log(a)).sum() / w.sum(), (w * np.log(b)).sum() / w.sum()])

    compare(prior)
    with pytest.raises(Disagreement):
        compare(GammaProductPrior() if isinstance(prior, MeanPrecisionPrior) else MeanPrecisionPrior())


@pytest.mark.slow
def test_without_noise_nearly_equal_beta_records():
    """Along the ridge, by the usual 1000 draws: on a grid of (logit of the mean, log precision)."""
    n, s = 500, 500 * (psi([2000.0, 3000.0]) - psi(5000.0))  # what n records add up to on average
    model = PrivateExpFamilyGibbs(family="beta", n_records=n, random_state=0).fit(s)
    assert max(model.r_hat_.values()) < 1.01
    v, w = np.meshgrid(logit(0.4) + np.linspace(-8e-3, 8e-3, 301), np.log(5000) + np.linspace(-0.5, 0.5, 301))
    a, b = np.exp(w + log_expit(v)), np.exp(w + log_expit(-v))
    log_p = log_expit(v) + log_expit(-v) + 0.5 * w - np.log(10 + np.exp(w)) + a * s[0] + b * s[1] - n * betaln(a, b)
    p = np.exp(log_p - log_p.max()) / np.exp(log_p - log_p.max()).sum()
    found = np.log(model.theta_draws_.sum(axis=-1))
    assert_mean_close(np.stack([found, found**2], axis=-1), [(p * w).sum(), (p * w * w).sum()])


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
