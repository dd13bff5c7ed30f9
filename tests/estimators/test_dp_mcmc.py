"""Estimators that release posterior draws under a budget: plans, what they keep, posteriors."""

import pickle
import warnings

import numpy as np
import pytest
from dp_mcmc_case import BUDGET, HAMILTONIAN, MEAN, PENALTY, X
from held import leaks
from sklearn.base import clone
from statistical import assert_mean_close

from sklearn_dpmix import DPBarkerMCMC, DPHamiltonianMC, DPLogisticRegressionMCMC, DPPenaltyMCMC
from sklearn_dpmix.estimators.private._dp_scale import largest_scale
from sklearn_dpmix.estimators.private._noise_source import SimulatedNoise
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.models import Banana, GaussianMean
from sklearn_dpmix.privacy import BudgetExceededError, GaussianReleases, PrivacyLedger, epsilon_of, gaussian_mu
from sklearn_dpmix.samplers import PrivateNewton

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


# ---------------------------------------------------------------- the budget


def test_iterations_of_the_thesis():
    """ε = 4, δ = 1e-6, n = 100,000, τ = 0.17: the tight accountant allows 2028 tests over all chains."""
    estimator = DPPenaltyMCMC(BUDGET, model=Banana(), clip_bound=0.15, noise_multiplier=0.17 * 100_000**0.5)
    plan = estimator._plan(estimator._check_privacy(), 100_000)
    assert plan.n_iter == 2028 // 4
    assert epsilon_of(plan.releases, 1e-6) <= 4.0 < epsilon_of([GaussianReleases(plan.multiplier, 2029)], 1e-6)
    one = clone(estimator).set_params(n_chains=1)
    assert one._plan(one._check_privacy(), 100_000).n_iter == 2028


@pytest.mark.parametrize("n_chains", [1, 3])
@pytest.mark.parametrize("reuse", [True, False])
def test_hamiltonian_pays_for_every_gradient(reuse, n_chains):
    """k ratios, and kL + 1 gradients a chain or k(L + 1); counted where they are made."""
    estimator = clone(HAMILTONIAN).set_params(reuse_gradients=reuse, n_chains=n_chains, simulate=True, n_leapfrog=3)
    counts = {}

    class Counting(SimulatedNoise):
        def release(self, values, sensitivity, multiplier):
            counts[len(values), multiplier] = counts.get((len(values), multiplier), 0) + 1
            return super().release(values, sensitivity, multiplier)

    estimator._sources = lambda n: [Counting(np.random.default_rng(i)) for i in range(n)]
    with pytest.warns(UserWarning, match="NOT private"):
        estimator.fit(X)
    k = estimator.n_iter_ * n_chains
    ratios = counts[1, estimator.noise_multiplier_]
    gradients = counts[2, estimator.gradient_noise_multiplier_]
    assert (ratios, gradients) == (k, 3 * k + n_chains if reuse else 4 * k)
    mu = ratios / (2 * estimator.noise_multiplier_**2) + gradients / (2 * estimator.gradient_noise_multiplier_**2)
    np.testing.assert_allclose(mu, gaussian_mu(4.0, 1e-6), rtol=1e-7)


def test_all_of_the_budget_is_spent_and_no_more():
    """Whatever is bought with it: iterations, a start, a clipped fraction."""
    estimator = clone(PENALTY).set_params(
        clip_bound=2.0, preconditioner=PrivateNewton(n_steps=2, share=0.2), clipped_fraction_share=0.05
    )
    estimator.fit(X)
    assert 4.0 - 1e-6 < estimator.privacy_spent_.epsilon <= 4.0
    assert estimator.privacy_spent_.delta == 1e-6 and estimator.privacy_spent_.neighbours == "replace one record"
    plan = estimator._plan(estimator._check_privacy(), len(X))
    assert [one.n_releases for one in plan.releases] == [2, 1, 40]
    np.testing.assert_allclose(plan.releases[0].mu / gaussian_mu(4.0, 1e-6), 0.2)
    with_rho = clone(PENALTY).set_params(mechanism=GaussianMechanism(rho=0.3)).fit(X)
    np.testing.assert_allclose(with_rho.privacy_spent_.rho, 0.3, rtol=1e-7)


def test_a_ledger_refuses_what_several_fits_would_overspend():
    """Two fits of ε = 4 do not go into 5 (into 6 they do); the second leaves the data alone, and a clone shares it."""
    ledger = PrivacyLedger(5.0, 1e-6)
    first = clone(PENALTY).set_params(ledger=ledger).fit(X)
    second = clone(first)
    assert second.ledger is ledger
    with pytest.raises(ValueError, match="budget"):
        second.fit(X)
    assert not hasattr(second, "theta_draws_") and ledger.spent.epsilon <= 4.0
    with pytest.warns(UserWarning, match="NOT private"):  # a simulation spends nothing
        clone(first).set_params(simulate=True, random_state=0).fit(X)
    with pytest.raises(ValueError, match="budget"):  # before the data are looked at
        clone(first).set_params(n_iter=10).fit([[np.nan, 1.0]])
    assert len(ledger.entries) == 1
    empty = PrivacyLedger(5.0, 1e-6)
    with pytest.raises(ValueError, match="finite numbers"):
        clone(first).set_params(n_iter=10, ledger=empty).fit([[np.nan, 1.0]])
    assert empty.entries == ()
    with pytest.raises(ValueError, match="budget"):  # the classifier clones its sampler, and the ledger is the same
        DPLogisticRegressionMCMC(BUDGET, data_norm=1.0, sampler=first).fit(X, X[:, 0] > 0)


def test_batches_are_cheaper_than_all_records():
    """The same noise multiplier buys more iterations on batches, by the Rényi accountant."""
    noise = 20.0
    full = clone(PENALTY).set_params(n_iter=None, noise_multiplier=noise, n_chains=1)
    batch = clone(full).set_params(batch_size=50, temperature=0.05)
    plans = [e._plan(e._check_privacy(), 2000) for e in (full, batch)]
    assert plans[1].n_iter > 20 * plans[0].n_iter
    assert epsilon_of(plans[1].releases, 1e-6) <= 4.0


# ---------------------------------------------------------------- posteriors


def exact_moments(T=1.0):
    precision = T * len(X) + 1.0 / MEAN.prior_sigma**2
    mean = T * MEAN.clip_records(X).sum(axis=0) / precision
    return np.concatenate([mean, mean**2 + 1.0 / precision])


def moments(draws):
    return np.concatenate([draws, draws**2], axis=2)


@pytest.mark.parametrize(
    "estimator",
    [
        DPPenaltyMCMC(model=MEAN, n_iter=40_000, preconditioner=PrivateNewton(), n_chains=2),
        DPHamiltonianMC(model=MEAN, n_iter=8000, step_size=0.7, n_leapfrog=2, preconditioner=PrivateNewton()),
        DPBarkerMCMC(model=MEAN, n_iter=60_000, batch_size=None, preconditioner=PrivateNewton(), n_chains=2),
    ],
    ids=lambda e: type(e).__name__,
)
def test_without_a_mechanism_each_is_its_parent(estimator):
    """Metropolis, Hamiltonian Monte Carlo and Barker's test, against the posterior in closed form."""
    fitted = clone(estimator).set_params(random_state=1).fit(X)
    assert fitted.privacy_spent_ is None and not fitted.is_private_
    assert_mean_close(moments(fitted.settled_draws()), exact_moments())


@pytest.mark.slow
@pytest.mark.parametrize(
    "estimator",
    [
        DPPenaltyMCMC(model=MEAN, n_iter=80_000, preconditioner=PrivateNewton(), n_chains=2),
        DPHamiltonianMC(model=MEAN, n_iter=16_000, step_size=0.4, n_leapfrog=3, preconditioner=PrivateNewton()),
    ],
    ids=lambda e: type(e).__name__,
)
def test_under_a_large_budget_the_posterior_is_exact(estimator):
    """The whole fit with its noise: plan, start, geometry, chains."""
    mechanism = GaussianMechanism(rho=400.0)
    with pytest.warns(UserWarning, match="NOT private"):
        fitted = clone(estimator).set_params(mechanism=mechanism, simulate=True, random_state=2).fit(X)
    assert_mean_close(moments(fitted.settled_draws()), exact_moments(), min_ess=500)


def test_a_users_model_in_plain_numpy():
    """Fifteen lines: a Laplace location model with Lipschitz log density, in a fit that clips nothing."""

    class Location:
        n_params = 1

        def log_density(self, X, theta):
            return -np.abs(X[:, 0] - theta[0])

        def log_prior(self, theta):
            return -0.5 * theta[:, 0] ** 2

        def log_ratio_range(self, theta, new):
            return 2.0 * abs(new[0] - theta[0])

    rng = np.random.default_rng(3)
    data = rng.laplace(0.7, 1.0, (4000, 1))
    estimator = DPPenaltyMCMC(BUDGET, model=Location(), n_iter=4000, n_chains=1, simulate=True, random_state=0)
    with pytest.warns(UserWarning, match="NOT private"):
        fitted = estimator.fit(data)
    assert abs(fitted.settled_draws().mean() - 0.7) < 0.15
    assert fitted.score_samples(data[:3]).shape == (3,)


class WaitingTimes:
    """Exponential records; their rate, in units of 1/``unit``, is Gamma(2, 1)."""

    n_params = 1

    def __init__(self, unit):
        self.unit, self.theta_init = unit, [0.7 / unit]

    def log_prior(self, theta):
        rate = theta[:, 0] * self.unit
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where(rate > 0.0, np.log(rate) - rate, -np.inf)

    def log_density(self, X, theta):
        return np.log(theta[0]) - theta[0] * X[:, 0] if theta[0] > 0.0 else np.full(len(X), -np.inf)

    def grad_log_density(self, X, theta):
        return (1.0 / theta[0] - X[:, 0])[:, None]

    def information(self, theta):
        return np.array([[theta[0] ** -2.0]])


@pytest.mark.parametrize("unit", [1e-9, 1e5, 1e9])
@pytest.mark.parametrize(
    "estimator",
    [DPPenaltyMCMC(n_iter=4000, preconditioner=PrivateNewton()), DPHamiltonianMC(n_iter=1000)],
    ids=["penalty", "hamiltonian"],
)
def test_parameters_may_be_in_any_unit(estimator, unit):
    """The numeric derivatives of the prior left its support, so that chains stood still, or all draws were NaN."""
    records = np.random.default_rng(0).exponential(unit, (500, 1))
    model = clone(estimator).set_params(model=WaitingTimes(unit), n_chains=2, random_state=1).fit(records)
    assert_mean_close(model.settled_draws()[..., 0] * unit, 502.0 / (1.0 + records.sum() / unit), min_ess=100)


class UntoldMean(GaussianMean):
    """Nothing public says how wide the posterior is but the range of what a record can add."""

    @property
    def information(self):
        raise AttributeError("information")


@pytest.mark.parametrize(
    "estimator",
    [DPHamiltonianMC(n_iter=200), DPBarkerMCMC(n_iter=2000, temperature=0.05)],
    ids=["hamiltonian", "barker"],
)
def test_moves_go_with_the_unit_of_the_parameter(estimator):
    """Those of a parameter of some 10⁶ were 1/√(nT), a millionth of what they should be, so that chains stood still."""
    spreads = []
    for unit in (2.0**-20, 1.0, 2.0**20):
        records = unit * np.random.default_rng(0).normal(1.0, 1.0, (20_000, 1))
        model = UntoldMean(sigma=unit, prior_sigma=10.0 * unit, data_norm=5.0 * unit)
        fitted = clone(estimator).set_params(
            mechanism=BUDGET, model=model, init=[unit], n_chains=2, simulate=True, random_state=0
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # short chains that are not private
            spreads.append(fitted.fit(records).theta_draws_.std() / unit)
    assert max(spreads) < 2.0 * min(spreads)


@pytest.mark.parametrize("n_steps", [2, 6])
def test_newton_steps_stay_where_the_prior_is(n_steps):
    """From 14 times the rate, a whole step leads to a negative one, and all draws were NaN."""
    records, newton = np.random.default_rng(0).exponential(20.0, (500, 1)), PrivateNewton(n_steps=n_steps)
    model = DPPenaltyMCMC(model=WaitingTimes(1.0), n_iter=6000, n_chains=2, preconditioner=newton, random_state=1)
    model.fit(records)
    assert np.all(model.theta_draws_ > 0.0)
    assert_mean_close(model.settled_draws()[..., 0], 502.0 / (1.0 + records.sum()), min_ess=100)


@pytest.mark.parametrize("widest", [3e-15, 3e-6, 3.0, 3e9])
def test_moves_may_be_of_any_unit(widest):
    assert 0.99 * widest < largest_scale(lambda scale: scale <= widest, np.inf) <= widest
    assert largest_scale(lambda scale: scale <= widest, 0.1 * widest) == 0.1 * widest


def test_chains_that_stand_still_are_doubted():
    model = DPPenaltyMCMC(model=MEAN, proposal_scale=1e9, n_iter=40, n_chains=1, random_state=0)
    with pytest.warns(RuntimeWarning, match="none of them moved"):
        assert model.fit(X).acceptance_rate_ == 0.0


def test_logistic_regression_learns():
    """Coefficients near those that made the data, probabilities that average over draws, labels of any name.

    By chains; catches advice to take a preconditioner where there is one.  And by default, without a word on mixing.
    """
    newton = PrivateNewton(n_steps=3, share=0.9)
    chains = DPPenaltyMCMC(n_iter=400, n_chains=100, burn_in=0.0, preconditioner=newton)
    rng = np.random.default_rng(4)
    features = rng.uniform(-1.0, 1.0, (20_000, 2))
    labels = np.where(rng.random(20_000) < 1.0 / (1.0 + np.exp(-3.0 * features[:, 0] - 0.5)), "yes", "no")
    for sampler in (chains, None):
        model = DPLogisticRegressionMCMC(
            BUDGET, sampler=sampler, data_norm=1.5, classes=("yes", "no"), simulate=True, random_state=0
        )
        with pytest.warns(UserWarning, match="NOT private") as caught:
            model.fit(features, labels)
        advice = any("under a budget: records of bounded length" in str(warning.message) for warning in caught)
        assert advice == (sampler is not None) and (advice or len(caught) == 1)
        assert list(model.classes_) == ["no", "yes"]
        np.testing.assert_allclose(model.coef_[0], [3.0, 0.0], atol=0.35)
        np.testing.assert_allclose(model.intercept_, [0.5], atol=0.25)
        probabilities = model.predict_proba(features[:50])
        np.testing.assert_allclose(probabilities[:, 1], model.predict_proba_draws(features[:50]).mean(axis=0))
        lower, upper = model.predict_interval(features[:50], level=0.8)
        assert np.all(lower < upper) and model.score(features, labels) > 0.75
        assert model.privacy_spent_.epsilon <= 4.0 and leaks(model, features) == []


def test_logistic_regression_summarises_its_own_draws():
    """Catches a table of the sampler's θ in place of coefficients, burn-in in it, and intervals at another level."""
    rng = np.random.default_rng(5)
    features = rng.uniform(-1.0, 1.0, (300, 2))
    labels = (rng.random(300) < 1.0 / (1.0 + np.exp(-2.0 * features[:, 0]))).astype(int)
    sampler = DPPenaltyMCMC(n_iter=400, n_chains=2)
    model = DPLogisticRegressionMCMC(sampler=sampler, random_state=0).fit(features, labels)
    table = model.summary()
    assert list(table.index) == ["coef[0]", "coef[1]", "intercept"] == list(model.r_hat_) == list(model.ess_)
    np.testing.assert_allclose(table["mean"], [*model.coef_[0], *model.intercept_])
    assert model.coef_draws_.shape == (2, 100, 2)
    found = model.coef_interval(0.8)
    np.testing.assert_allclose(found, np.quantile(model.coef_draws_.reshape(-1, 2), [0.1, 0.9], axis=0))
    with pytest.raises(ValueError, match="level=80"):
        model.coef_interval(80)


def test_logistic_regression_counts_on_its_ledger():
    """Catches a ledger that does not reach the sampler, and one of two that is not counted on."""
    ledger = PrivacyLedger(5.0, 1e-6)
    sampler = DPPenaltyMCMC(n_iter=50, n_chains=1)
    model = DPLogisticRegressionMCMC(BUDGET, data_norm=1.0, sampler=sampler, ledger=ledger)
    X, y = np.random.default_rng(6).uniform(-1.0, 1.0, (2000, 2)), np.arange(2000) % 2
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spent = model.fit(X, y).privacy_spent_.epsilon
    assert ledger.spent.epsilon == pytest.approx(spent, rel=1e-3)
    with pytest.raises(BudgetExceededError):  # before the data are looked at
        model.fit(np.full((2000, 3), np.nan), y + 5)
    assert model.n_features_in_ == model.predict(X).ndim + 1
    pickle.dumps(model.set_params(ledger=None))
    with pytest.raises(ValueError, match="nothing to count"):
        DPLogisticRegressionMCMC(sampler=DPPenaltyMCMC(n_iter=50), ledger=ledger).fit(X, y)
    model.set_params(ledger=ledger)
    sampler.set_params(ledger=PrivacyLedger(5.0, 1e-6))
    with pytest.raises(ValueError, match="two ledgers"):
        model.fit(X, y)
