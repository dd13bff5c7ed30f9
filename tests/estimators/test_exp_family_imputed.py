"""PrivateExpFamilyGibbs where records are cut at bounds: imputation record by record."""

from types import SimpleNamespace

import bounded_records_oracle as clamped
import numpy as np
import pytest
from curator_oracle import gaussian, laplace
from exp_family_case import MIXED, check
from scipy.special import logsumexp
from scipy.stats import chisquare, poisson
from statistical import Disagreement, assert_mean_close, assert_pmf_close

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import GammaPrior, GammaProductPrior, NormalInverseGammaPrior, _poisson_pairs, resolve_family
from sklearn_dpmix.models._family_records import carry_poisson
from sklearn_dpmix.queries import NoisyCount, SufficientStatistics
from sklearn_dpmix.samplers.augmentation import _carry, _family_sums

pytestmark = pytest.mark.filterwarnings(MIXED)


def imputed(family, bounds, outside, release, scale, n, prior, scaled=False, **options):
    query = SufficientStatistics(family, bounds=bounds, outside=outside, scaled=scaled)
    mechanism = LaplaceMechanism(epsilon=query.sensitivity(1) / scale, query=query)
    options = {"n_draws": 3000, "n_warmup": 500, "random_state": 0, **options}
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


def test_poisson_records_of_rates_far_apart_are_exact():
    """Caught records that did not come along where the chance of their value underflows at the other end of a jump."""
    release, scale, n, prior, bounds = [1500.0], 1000.0, 5, (1.0, 0.002), (0, 1000)
    exact = clamped.bounded_poisson(release, n, bounds, prior, laplace(scale), n_nodes=3201)
    model = imputed("poisson", bounds, "clamp", release, scale, n, GammaPrior(*prior), n_draws=2000)
    assert_mean_close(model.theta_draws_, exact.mean, what="θ")


@pytest.mark.parametrize(("bounds", "n", "total"), [((1, 6), 5, 13.0), ((0, 5), 20, 70.0)])
def test_poisson_records_under_hardly_any_noise_are_exact(bounds, n, total):
    """Caught a number of records beyond a bound that hardly changed, in draws whose effective number seemed large."""
    prior, scale = (2.0, 0.5), 0.05
    exact = clamped.bounded_poisson([total], n, bounds, prior, laplace(scale), n_nodes=1601)
    check(imputed("poisson", bounds, "clamp", [total], scale, n, GammaPrior(*prior), n_draws=3000), exact)


@pytest.mark.parametrize("rate", [1e-8, 0.3, 5.0, 40.0, 1e3, 1e7])
@pytest.mark.parametrize("x", [0.0, 1.0, 7.0, 1000.0])
def test_tails_of_pairs(rate, x):
    for found, expected in (
        (_poisson_pairs.log_at_most(x, rate), poisson.logcdf(x, rate)),
        (_poisson_pairs.log_at_least(x, rate), poisson.logsf(x - 1, rate)),
    ):
        assert (np.isfinite(found) and found == pytest.approx(max(expected, -1e300), rel=1e-9, abs=1e-12)) or (
            expected == -np.inf and found < -700
        )


def records_after_pairs(bounds, rate, rng, n_draws=20_000, n=3):
    """Some records of the prior, after moves of pairs, (n_draws, n)."""
    model, found = SimpleNamespace(lo=bounds[0], hi=bounds[1], contribute=lambda *args: None), []
    for _ in range(n_draws):
        records = np.column_stack([rng.poisson(rate, n), rng.random(n)]).astype(float)
        before = np.clip(records[:, 0], *bounds).sum()
        _poisson_pairs.exchange_pairs(rng, model, rate, records, None, n)
        assert np.clip(records[:, 0], *bounds).sum() == pytest.approx(before)
        found.append(records[:, 0])
    return np.array(found)


@pytest.mark.parametrize(("bounds", "rate"), [((1, 4), 2.3), ((0.5, 3.5), 3.0), ((-1, 2), 0.4), ((2, 9), 30.0)])
def test_pairs_of_poisson_records_keep_their_law(bounds, rate, monkeypatch):
    """Each record's, where their clamped sum stays.  Twins: the bound's own mass alone, at either bound."""

    def p_value(seed):
        found = records_after_pairs(bounds, rate, np.random.default_rng(seed)).ravel()
        edges = np.arange(max(found.max(), rate + 6 * np.sqrt(rate)) + 2)
        expected = len(found) * np.diff(poisson.cdf(edges - 1, rate))
        keep = expected > 10
        observed = np.bincount(found.astype(int), minlength=len(edges))[: len(expected)]
        pooled = [np.append(part[keep], part[~keep].sum() + 1e-9) for part in (observed, expected)]
        return chisquare(pooled[0], pooled[1] * pooled[0].sum() / pooled[1].sum()).pvalue

    assert p_value(0) > 1e-5
    for name in ("log_at_most", "log_at_least") if bounds == (1, 4) else ():
        with monkeypatch.context() as patch:
            patch.setattr(_poisson_pairs, name, _poisson_pairs.log_poisson)
            assert p_value(1) < 1e-5


def test_few_records_are_imputed_whatever_the_number_of_modes():
    """Where records are dropped a small and a large rate explain the same sum; a normal one is far from it for few."""
    prior, bounds, n, release, scale = (1.0, 0.4), (0, 5), 20, [5.0], 0.8
    exact = clamped.bounded_poisson(release, n, bounds, prior, gaussian(scale), outside="drop")
    mechanism = GaussianMechanism(scale=scale, query=SufficientStatistics("poisson", bounds=bounds, outside="drop"))
    options = {"family": "poisson", "n_records": n, "prior": GammaPrior(*prior), "n_draws": 4000, "random_state": 0}
    model = PrivateExpFamilyGibbs(mechanism, **options).fit(release)
    assert model.approximation_ == "exact"
    assert_mean_close(model.theta_draws_, exact.mean, what="θ")
    with pytest.raises(Disagreement):
        normal = PrivateExpFamilyGibbs(mechanism, approximation="normal", **options).fit(release)
        assert_mean_close(normal.theta_draws_, exact.mean, what="θ")


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
    near, far = ((3.0, 4.0), (0.2, 1.5), (40.0, 33.0), (200.0, 260.0)), ((2.0, 800.0), (300.0, 1500.0), (1e5, 0.3))
    for rate, other in near + far:
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


def test_a_rate_beyond_the_moves_stays_where_it_is():
    """Catches a prior of 0 where the state is: any proposal was then accepted, whatever had been released."""
    model = SimpleNamespace(
        block_size=lambda block: 1, get_block=lambda theta, block, v: None, set_block=lambda to, block, v: None,
        log_prior_block=lambda theta, block: -np.inf if theta[0] < 1e-150 else 0.0,
    )  # fmt: skip
    state = SimpleNamespace(
        theta=np.array([1e-200]), work=np.zeros((8, 4)), steps=np.ones((1, 1, 1)), total=np.zeros(1)
    )
    rng = np.random.default_rng(0)
    assert _carry.move_block(rng, model, None, None, state, 0, -3.0, True) == -3.0
    assert _family_sums.jump(rng, None, model, None, None, state, -3.0) == -3.0
