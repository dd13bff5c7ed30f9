"""PrivatePosteriorDA: a user's own model against quadrature and enumeration; what it says where a model is wrong."""

import doctest
import pathlib
import re
import warnings
from itertools import product
from math import inf, log

import joblib
import naive_bayes_oracle as nb_oracle
import numpy as np
import pytest
from bounded_records_oracle import bounded_normal_mean
from curator_oracle import laplace
from scipy.special import gammaln, logsumexp
from statistical import Disagreement, assert_mean_close

from sklearn_dpmix import PrivatePosteriorDA
from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    DiscreteLaplaceMechanism,
    FiniteChannelMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    LaplaceMechanism,
    PerturbedHistogramMechanism,
    RandomizedResponseMechanism,
    compiled,
)
from sklearn_dpmix.models import BetaPrior
from sklearn_dpmix.queries import BoundedRecords, ClassFeatureCounts, Query

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


class NormalMean:
    """x ~ N(μ, variance), μ ~ N(prior[0], prior[1])."""

    def __init__(self, variance=1.0, prior=(0.0, 4.0)):
        self.variance = variance
        self.prior = prior

    def sample_prior(self, rng, size):
        return rng.normal(self.prior[0], self.prior[1] ** 0.5, (size, 1))

    def sample_records(self, rng, theta, n):
        return rng.normal(theta[0], self.variance**0.5, n)

    def sample_posterior(self, rng, records, theta):
        precision = 1 / self.prior[1] + len(records) / self.variance
        mean = (self.prior[0] / self.prior[1] + records.sum() / self.variance) / precision
        return rng.normal(mean, precision**-0.5, 1)


class Table:
    """Cells of a 2 × 2 table: answers (cell // 2, cell % 2), θ ~ Dirichlet(alpha)."""

    alpha = np.array([1.0, 2.0, 0.5, 1.5])

    def sample_prior(self, rng, size):
        return rng.dirichlet(self.alpha, size)

    def sample_records(self, rng, theta, n):
        cell = rng.choice(4, n, p=theta)
        return np.column_stack([cell // 2, cell % 2])

    def sample_posterior(self, rng, records, theta):
        return rng.dirichlet(self.alpha + np.bincount(2 * records[:, 0] + records[:, 1], minlength=4))


def fit(S, mechanism, model, **params):
    params = {"n_chains": 4, "n_warmup": 100, "n_draws": 1000, "random_state": 0, **params}
    return PrivatePosteriorDA(mechanism, model=model, **params).fit(S)


# --- exact ------------------------------------------------------------------------------------------------------------


def assert_normal_mean(draws, posterior):
    mean, sd = posterior.mean[0], posterior.sd[0]
    assert_mean_close(draws, [mean])
    assert_mean_close((draws - mean) ** 2, [sd**2], what="variance")
    points = mean + sd * np.array([-1.0, 0.5, 1.5])
    assert_mean_close((draws <= points) * 1.0, posterior.cdf(points), what="cdf")


@pytest.mark.slow
@pytest.mark.parametrize("releases", [[2.6], pytest.param([[2.6], [1.1]], marks=pytest.mark.nightly)])
def test_normal_mean(releases):
    """Two records clamped to [-1, 1.5], the sum with Laplace noise, against quadrature.  Catches a proposal that is not
    the model's, a decision on an old sum, and clamping that inference does not know."""
    S, n, bounds = np.array(releases), 2, (-1.0, 1.5)
    model, mechanism = NormalMean(), LaplaceMechanism(scale=0.8, query=BoundedRecords(bounds))
    posterior = bounded_normal_mean(S, n, bounds, 1.0, (0.0, 4.0), laplace(0.8))
    params = {"n_records": n, "n_draws": 6000, "thin": 2}
    assert_normal_mean(fit(S, mechanism, model, **params).theta_draws_, posterior)
    other = mechanism.set_params(scale=0.8 * 1.5)
    with pytest.raises(Disagreement):
        assert_normal_mean(fit(S, other, model, **params).theta_draws_, posterior)


class StaleRecords(NormalMean):
    """A broken twin: its records do not follow θ."""

    def sample_records(self, rng, theta, n):
        return rng.normal(0.0, 1.0, n)


@pytest.mark.slow
def test_a_model_that_contradicts_itself_is_found():
    S, bounds = np.array([2.6]), (-1.0, 1.5)
    posterior = bounded_normal_mean(S, 2, bounds, 1.0, (0.0, 4.0), laplace(0.8))
    mechanism = LaplaceMechanism(scale=0.8, query=BoundedRecords(bounds))
    draws = fit(S, mechanism, StaleRecords(), n_records=2, n_draws=8000).theta_draws_
    with pytest.raises(Disagreement):
        assert_normal_mean(draws, posterior)


def table_posterior(Z, alpha, epsilon):
    """Mean and variance of θ: all tables of confidential answers behind the released ones."""
    n, keep = len(Z), 1 / (1 + np.exp(-epsilon / 2))
    channel = np.array([[np.prod(np.where(np.array(divmod(a, 2)) == divmod(b, 2), keep, 1 - keep)) for b in range(4)]
                        for a in range(4)])  # fmt: skip
    released = np.bincount(2 * Z[:, 0].astype(int) + Z[:, 1].astype(int), minlength=4)
    ways = {(0, 0, 0, 0): 0.0}  # counts of confidential cells so far -> log weight
    for b, m in enumerate(released):
        new = {}
        for split in product(range(m + 1), repeat=4):
            if sum(split) == m:
                weight = gammaln(m + 1) - sum(gammaln(k + 1) for k in split) + np.dot(split, np.log(channel[:, b]))
                for counts, before in ways.items():
                    key = tuple(np.add(counts, split).tolist())
                    new[key] = np.logaddexp(new.get(key, -np.inf), before + weight)
        ways = new
    counts = np.array(list(ways))
    log_weight = np.array(list(ways.values())) + gammaln(alpha + counts).sum(axis=1)
    weight = np.exp(log_weight - logsumexp(log_weight))
    a, total = alpha + counts, alpha.sum() + n
    mean = weight @ a / total
    return mean, weight @ (a * (a + 1)) / (total * (total + 1)) - mean**2


@pytest.mark.nightly
def test_table_from_randomised_response():
    """A local mechanism: each record decided by itself, against the enumeration of all tables behind the release."""
    epsilon, rng = 2.0, np.random.default_rng(1)
    Z = rng.integers(0, 2, (11, 2)).astype(float)
    mean, variance = table_posterior(Z, Table.alpha, epsilon)
    mechanism = RandomizedResponseMechanism(epsilon, n_categories=2)
    draws = fit(Z, mechanism, Table(), n_draws=3000, thin=2).theta_draws_
    assert_mean_close(draws, mean)
    assert_mean_close((draws - mean) ** 2, variance)
    others = fit(Z, RandomizedResponseMechanism(2.6, n_categories=2), Table(), n_draws=3000, thin=2).theta_draws_
    with pytest.raises(Disagreement):
        assert_mean_close((others - mean) ** 2, variance)


class OwnNaiveBayes:
    """Two classes, a feature of two values and one of three; θ = (P(class 1), P(x1 = 1 | class), P(x2 | class))."""

    theta_init = [0.5, 0.5, 0.5, *[1 / 3] * 6]

    def sample_records(self, rng, theta, n):
        c = (rng.random(n) < theta[0]).astype(int)
        x1 = rng.random(n) < theta[1 + c]
        x2 = (rng.random((n, 1)) > np.cumsum(theta[3:].reshape(2, 3)[c], axis=1)[:, :2]).sum(axis=1)
        return np.column_stack([x1, x2, c])

    def sample_posterior(self, rng, records, theta):
        x1, x2, c = records.T
        first = [rng.beta(1 + c.sum(), 1 + np.sum(1 - c))]
        second = [rng.beta(1 + np.sum(x1[c == k]), 1 + np.sum(1 - x1[c == k])) for k in (0, 1)]
        third = [rng.dirichlet(1 + np.bincount(x2[c == k], minlength=3)) for k in (0, 1)]
        return np.concatenate([first, second, *third])


@pytest.mark.nightly
def test_a_release_of_many_numbers():
    """Naive Bayes written by a user, against the enumeration of all data sets: contributions of several entries, of
    which a proposal leaves some as they are."""
    S = np.array([1.0, 0, 2, 1, 0, 2, -1, 1, 0, 1])
    mechanism = DiscreteLaplaceMechanism(scale=1.2, query=ClassFeatureCounts(2, [2, 3]))
    posterior = nb_oracle.naive_bayes_exact(S, 3, 2, (2, 3), 1.0, lambda e: -np.abs(e) / 1.2)
    columns = [1, 3, 5, 6, 7, 8, 9, 10, 11]
    draws = fit(S, mechanism, OwnNaiveBayes(), n_records=3, n_draws=6000, thin=2).theta_draws_
    assert_mean_close(draws, posterior.mean[columns])
    assert_mean_close((draws - posterior.mean[columns]) ** 2, posterior.sd[columns] ** 2)


@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_acceptance_is_at_least_exp_minus_epsilon(epsilon):
    """Ju et al., Proposition 3.1, for a clamped sum and for a local mechanism."""
    for mechanism, S in (
        (LaplaceMechanism(epsilon, query=BoundedRecords((-1, 1))), [9.0]),
        (LaplaceMechanism(epsilon, bounds=(-1, 1)), np.full((20, 1), 3.0)),
    ):
        model = fit(S, mechanism, NormalMean(), n_records=20, n_draws=200)
        assert np.exp(-epsilon) * (1 - 1e-12) <= model.min_acceptance_ < np.exp(-0.9 * epsilon)
        assert np.exp(-epsilon) < model.acceptance_rate_ < 1


# --- the estimator ----------------------------------------------------------------------------------------------------

CURATOR = GaussianMechanism(rho=0.5, query=BoundedRecords((-2, 3)))
RELEASE = CURATOR.privatize(np.random.default_rng(2).normal(1, 1, (30, 1)), random_state=3)


def test_attributes():
    model = fit(RELEASE, CURATOR, NormalMean(), n_records=30, n_draws=50)
    assert model.theta_draws_.shape == (4, 50, 1) and model.n_iter_ == 150
    assert set(model.r_hat_) == {"theta[0]"} == set(model.ess_)
    known = fit(np.full((30, 1), 1.0), None, NormalMean(), n_draws=2000)
    assert not hasattr(known, "acceptance_rate_")
    assert_mean_close(known.theta_draws_, [30 / 30.25])


def test_a_number_will_do_for_one_parameter():
    class Number(NormalMean):
        def sample_posterior(self, rng, records, theta):
            return super().sample_posterior(rng, records, theta)[0]

    one, other = (fit(RELEASE, CURATOR, model, n_records=30, n_draws=20) for model in (Number(), NormalMean()))
    np.testing.assert_array_equal(one.theta_draws_, other.theta_draws_)


def test_a_model_may_reuse_its_arrays():
    """Catches records that are kept without a copy."""

    class Reuses(NormalMean):
        def sample_records(self, rng, theta, n):
            self.buffer = getattr(self, "buffer", np.empty(n))
            self.buffer[:] = super().sample_records(rng, theta, n)
            return self.buffer

    params = {"n_records": 30, "n_draws": 30, "n_chains": 1}
    one, other = (fit(RELEASE, CURATOR, model, **params).theta_draws_ for model in (Reuses(), NormalMean()))
    np.testing.assert_array_equal(one, other)


def test_a_chain_starts_near_the_release():
    """Prior draws may be so far off that all records are clamped: proposals would then say nothing about θ."""
    mechanism = LaplaceMechanism(epsilon=1.0, query=BoundedRecords((-3, 5)))
    model = fit([200.0], mechanism, NormalMean(prior=(0.0, 1e4)), n_records=100, n_warmup=0, n_draws=5)
    assert np.all(np.abs(model.theta_draws_ - 2.0) < 15.0)


def test_draws_do_not_depend_on_n_jobs():
    params = {"n_records": 30, "n_draws": 40, "n_chains": 3}
    one, other = (fit(RELEASE, CURATOR, NormalMean(), n_jobs=n_jobs, **params).theta_draws_ for n_jobs in (None, 2))
    np.testing.assert_array_equal(one, other)


@pytest.mark.slow
def test_draws_do_not_depend_on_the_backend():
    """Processes, as the documentation advises: the release and the model can be pickled."""
    Z = LaplaceMechanism(scale=1.0).privatize(np.zeros((20, 1)), random_state=0)
    for mechanism, S in ((CURATOR, RELEASE), (LaplaceMechanism(scale=1.0), Z)):
        n_records = 30 if S is RELEASE else None
        expected = fit(S, mechanism, NormalMean(), n_records=n_records, n_draws=40).theta_draws_
        with joblib.parallel_config("loky", n_jobs=2):
            found = fit(S, mechanism, NormalMean(), n_records=n_records, n_draws=40).theta_draws_
        np.testing.assert_array_equal(found, expected)


def test_warm_start():
    params = {"n_records": 30, "thin": 3, "n_warmup": 10}
    longer = fit(RELEASE, CURATOR, NormalMean(), n_draws=50, **params)
    model = fit(RELEASE, CURATOR, NormalMean(), n_draws=20, warm_start=True, **params)
    np.testing.assert_array_equal(model.set_params(n_draws=50).fit(RELEASE).theta_draws_, longer.theta_draws_)
    with pytest.raises(ValueError, match="model changed"):
        model.set_params(model=NormalMean(variance=2.0)).fit(RELEASE)
    with pytest.raises(ValueError, match="the data changed"):
        model.set_params(model=NormalMean()).fit(RELEASE + 1)


@pytest.mark.parametrize(
    "mechanism", [LaplaceMechanism(2.0, bounds=(0, 1)), GaussianMechanism(scale=0.3), HaarWaveletMechanism(2.0, 1)]
)
def test_any_local_mechanism_with_a_density(mechanism):
    X = np.random.default_rng(4).random((20, 1))
    model = fit(mechanism.privatize(X, random_state=0), mechanism, NormalMean(), n_draws=20)
    assert np.all(np.isfinite(model.theta_draws_))


# --- models and releases that are wrong -------------------------------------------------------------------------------


def without(name):
    methods = {key: member for key, member in vars(NormalMean).items() if key.startswith("sample_") and key != name}
    return type("Partial", (), methods)()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (None, r"needs sample_records\(rng, theta, n\) -> records of shape \(n, ...\), which model=None does not have"),
        (NormalMean, "model must be an object, got the class NormalMean"),
        (without("sample_records"), r"needs sample_records\(rng, theta, n\) .*Partial does not have"),
        (without("sample_posterior"), r"needs sample_posterior\(rng, records, theta\) -> theta of shape \(n_params,\)"),
        (without("sample_prior"), r"needs sample_prior\(rng, size\) .* or theta_init"),
    ],
)
def test_a_missing_method_is_named(model, message):
    with pytest.raises(TypeError, match=message):
        fit(RELEASE, CURATOR, model, n_records=30)


def wrong(**methods):
    return type("Wrong", (NormalMean,), methods)()


@pytest.mark.parametrize(
    ("model", "message"),
    [
        (wrong(sample_prior=lambda self, rng, size: np.zeros(3)),
         r"Wrong.sample_prior\(rng, 100\) must have shape \(100, n_params\), got \(3,\)"),
        (wrong(sample_prior=lambda self, rng, size: np.full((size, 1), np.nan)), "must be finite"),
        (wrong(theta_init="a"), "Wrong.theta_init must be numbers, got"),
        (wrong(theta_init=np.zeros((2, 2))), r"Wrong.theta_init must have shape \(n_params,\), got \(2, 2\)"),
        (wrong(sample_records=lambda self, rng, theta, n: np.zeros(n + 1)),
         r"Wrong.sample_records\(rng, theta, 30\) must have shape \(30,\), got \(31,\)"),
        (wrong(sample_records=lambda self, rng, theta, n: 0.0), r"sample_records.*must have shape \(30,\), got \(\)"),
        (wrong(sample_records=lambda self, rng, theta, n: np.zeros((n, 2))), "shape"),
        (wrong(sample_posterior=lambda self, rng, records, theta: np.zeros(2)),
         r"Wrong.sample_posterior\(rng, records, theta\) must have shape \(1,\), got \(2,\)"),
        (wrong(sample_posterior=lambda self, rng, records, theta: theta * np.inf), "must be finite"),
        (wrong(sample_posterior=lambda self, rng, records, theta: records.sort()), "read-only"),
    ],
)  # fmt: skip
def test_a_wrong_shape_is_named(model, message):
    with pytest.raises(ValueError, match=message), np.errstate(invalid="ignore"):
        fit(RELEASE, CURATOR, model, n_records=30)


def test_a_wrong_type_is_named():
    """Catches fractions that are cut off because the first records were integers."""

    class Changes(NormalMean):
        n_calls, theta_init = 0, [0.0]

        def sample_records(self, rng, theta, n):
            self.n_calls += 1
            return np.zeros(n, dtype=int) if self.n_calls == 1 else np.full(n, 0.5)

    with pytest.raises(ValueError, match=r"Changes.sample_records\(rng, theta, 30\) must be of type int64"):
        fit(RELEASE, CURATOR, Changes(), n_records=30, n_chains=1)


class Squares(Query):
    """A user's query that does not say how many numbers it releases."""

    def contributions(self, records):
        return np.clip(np.column_stack([records, np.square(records)]), -9, 9)

    def sensitivity(self, norm=1, neighbours=None):
        return 27.0


def test_a_query_of_your_own():
    mechanism = LaplaceMechanism(epsilon=1.0, query=Squares())
    assert fit([3.0, 20.0], mechanism, NormalMean(), n_records=30, n_draws=20).acceptance_rate_ > 0.3
    with pytest.raises(ValueError, match=r"Squares.contributions\(records\) must have shape \(30, 3\).*got \(30, 2\)"):
        fit([3.0, 20.0, 1.0], mechanism, NormalMean(), n_records=30)


SOME_DO_NOT = FiniteChannelMechanism([[0.8, 0.2], [0.25, 0.75]], noncompliance=BetaPrior(4, 6))


@pytest.mark.parametrize(
    ("change", "S", "message"),
    [
        ({}, [1.0, 2.0], "must have 1 numbers, got shape"),
        ({}, [np.nan], "NaN"),
        ({"n_records": None}, RELEASE, "n_records must say"),
        ({"n_records": 0}, RELEASE, "n_records"),
        ({"mechanism": "laplace"}, RELEASE, "mechanism must be an object"),
        ({"mechanism": LaplaceMechanism(1.0, query=object())}, RELEASE, "needs contributions"),
        ({"mechanism": LaplaceMechanism(query=BoundedRecords((0, 1)))}, RELEASE, "exactly one of"),
        ({"mechanism": PerturbedHistogramMechanism(epsilon=1.0, n_bins=3, n_records=30)}, RELEASE, "or be local"),
        ({"mechanism": DiscreteLaplaceMechanism(1.0, query=BoundedRecords((0, 1)))}, [0.5], "integers"),
        (
            {"mechanism": DiscreteLaplaceMechanism(1.0, query=BoundedRecords((0, 1)))},
            [3.0],
            "model's records are not in",
        ),
        ({"mechanism": RandomizedResponseMechanism(1.0, n_categories=2)}, [[0.0], [2.0]], "categories"),
        ({"mechanism": LaplaceMechanism(scale=1.0), "n_records": 7}, np.zeros((3, 1)), "n_records=7, but S has 3 rows"),
        ({"mechanism": SOME_DO_NOT}, np.zeros((30, 1)), "answers of people who all follow the design, got noncompl"),
    ],
)
def test_bad_releases_and_parameters(change, S, message):
    params = {"mechanism": CURATOR, "n_records": 30, "n_draws": 10, **change}
    with pytest.raises((ValueError, TypeError), match=message):
        PrivatePosteriorDA(model=NormalMean(), **params).fit(S)


class UniformNoise(AdditiveMechanism):
    """Uniform between -scale and scale."""

    def __init__(self, scale=1.0, *, query=None):
        self.scale, self.query = scale, query

    @compiled
    def log_noise(self, e, scale):
        return -log(2.0 * scale) if abs(e) <= scale else -inf

    def draw_noise(self, rng, scale, size):
        return rng.uniform(-scale, scale, size)


def test_a_start_that_cannot_have_led_to_the_release_is_refused():
    """Catches chains that stay at impossible records for ever: one record at a time leads nowhere from there."""
    mechanism = UniformNoise(0.5, query=BoundedRecords((-4, 4)))
    model = NormalMean()
    model.theta_init = [0.0]
    few = {"n_records": 10, "n_chains": 1, "n_draws": 20, "n_warmup": 20, "random_state": 0}
    with pytest.raises(ValueError, match=r"no records .* can have led to this release, its density is 0"):
        PrivatePosteriorDA(mechanism, model=model, **few).fit([40.0])
    model.theta_init = [3.0]
    fitted = PrivatePosteriorDA(mechanism, model=model, **few).fit([30.0])
    assert np.all(fitted.theta_draws_ > 1.0)


# --- documentation ----------------------------------------------------------------------------------------------------

PAGE = pathlib.Path(__file__).parents[2] / "docs" / "user_models.md"


@pytest.mark.nightly
def test_documentation_runs():
    """Every example prints what it says, and is at most 25 lines long."""
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 4
    for number, example in enumerate(examples):
        assert len(example.splitlines()) <= 25
        test = doctest.DocTestParser().get_doctest(example, {}, f"example {number}", str(PAGE), 0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert doctest.DocTestRunner().run(test).failed == 0
