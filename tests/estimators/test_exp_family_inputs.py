"""What PrivateExpFamilyGibbs takes, and what it refuses or doubts, by name."""

import re
import warnings

import curator_oracle as oracle
import numpy as np
import pytest
from curator_oracle import laplace
from exp_family_case import LAPLACE, MIXED, check, draw
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from statistical import assert_mean_close

from sklearn_dpmix import PrivateExpFamilyGibbs
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.estimators import _chain_estimator
from sklearn_dpmix.estimators.curator._curator import probability_beyond
from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.models import BetaPrior, DirichletPrior, Family, Gamma, GammaPrior, Poisson
from sklearn_dpmix.queries import NoisyCount, Query, RegressionMoments, SufficientStatistics

pytestmark = pytest.mark.filterwarnings(MIXED)


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


ABOVE = LaplaceMechanism(scale=1.0, released_above=1.0)
POISSON = {"family": "poisson", "n_records": 10}
WRONG = [  # mechanism, parameters, release, message
    (LAPLACE, {"n_records": 10}, [3.0], "family must be given"),
    (LAPLACE, {"family": "weibull", "n_records": 10}, [3.0], "family must be one of \"bernoulli\".*got 'weibull'"),
    (LAPLACE, {"family": Poisson, "n_records": 10}, [3.0], "family must be an object, got the class Poisson"),
    (LAPLACE, {"family": Gamma(-1.0), "n_records": 10}, [3.0], "shape must be a positive finite number"),
    (LAPLACE, {"family": Family(), "n_records": 10}, [3.0], r"family=Family\(\) has no prior_class, to_theta, log_pr"),
    (LAPLACE, {"family": "poisson"}, [3.0], "n_records must say how many records.*got n_records=None"),
    (LAPLACE, {"family": "poisson", "n_records": 0}, [3.0], "n_records must be an integer, 1 or more, got n_records=0"),
    (
        LAPLACE,
        {"family": "poisson", "n_records": True},
        [3.0],
        "got n_records=True: give a positive integer, or NoisyCount",
    ),
    (
        LAPLACE,
        {"family": "poisson", "n_records": 10.0},
        [3.0],
        "got n_records=10.0: give a positive integer, or NoisyCount",
    ),
    (LAPLACE, {**POISSON, "prior": BetaPrior()}, [3.0], "prior of family Poisson must be a GammaPrior, got prior=Be"),
    (LAPLACE, {**POISSON, "prior": GammaPrior(0.0)}, [3.0], "shape of GammaPrior must be a positive finite number"),
    (LAPLACE, {**POISSON, "prior": "vague"}, [3.0], "must be a GammaPrior, got prior='vague'"),
    (LAPLACE, {"family": "multinomial", "n_records": 9, "prior": DirichletPrior([1, 2])}, [3, 3, 3], "2 number.*3 cat"),
    (LAPLACE, {**POISSON, "approximation": "laplace"}, [3.0], "'approximation' parameter .* must be a str among"),
    (LAPLACE, POISSON, [3.0, 4.0], r"release of family Poisson must have 1 number\(s\).*pass several releases as rows"),
    (LAPLACE, {"family": "normal", "n_records": 9}, [[1.0], [2.0]], r"have 2 number\(s\), the sums of \['x', 'x\^2'\]"),
    (LAPLACE, {"family": "multinomial", "n_records": 9}, [3.0], "one number per category, at least 2, got 1"),
    (LAPLACE, POISSON, [np.nan], "contains NaN"),
    (LAPLACE, POISSON, [np.inf], "contains infinity"),
    (LAPLACE, POISSON, ["a"], "holds text"),
    (None, {"family": "normal", "n_records": NoisyCount(4, LAPLACE)}, [3.0, 5.0], "then needs n_records as a number"),
    (None, {"family": "beta", "n_records": NoisyCount(4, LAPLACE)}, [-3.0, -5.0], "then needs n_records as a number"),
    (LaplaceMechanism, POISSON, [3.0], "mechanism must add noise to a statistic"),
    ("laplace", POISSON, [3.0], "mechanism must add noise to a statistic"),
    (CauchyMechanism(), POISSON, [3.0], "noise with a log-concave density.*is_log_concave = True"),
    (LaplaceMechanism(1.0, bounds=(0, 1)), POISSON, [3.0], r"releases records one by one \(bounds=\)"),
    (LaplaceMechanism(1.0, query=RegressionMoments((0, 1), (0, 1), 1)), POISSON, [3.0], "SufficientStatistics only"),
    (bounded("exponential", (0, 3)), POISSON, [3.0], r"family=Poisson\(\), but the mechanism.*Exponential\(\)"),
    (bounded(Gamma(2.0), (0, 3)), {"family": Gamma(3.0), "n_records": 9}, [3.0], r"shape=3.0\), but .*shape=2.0"),
    (LaplaceMechanism(scale=-1.0), POISSON, [3.0], "scale must be positive"),
    (LaplaceMechanism(scale=[1.0, 2.0]), POISSON, [3.0], "scale of LaplaceMechanism has 2 values, but"),
    (DiscreteLaplaceMechanism(scale=1.0), POISSON, [3.5], "must hold integers, got 3.5"),
    (DiscreteGaussianMechanism(scale=1.0), {"family": "exponential", "n_records": 9}, [3], "an integer: use Gaussian"),
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
    (None, {"family": "normal", "n_records": 5}, [5e-9, 4e-18], "no 5 records of family Normal"),
    (None, {"family": "beta", "n_records": 2}, [-0.1, -0.1], "no 2 records of family Beta"),
    (None, POISSON, [[3], [4]], "several rows must be equal"),
    (None, {**POISSON, "truncation": (0, 5), "approximation": "exact"}, [3], "is not possible here: without noise"),
    (
        bounded("poisson", (0, 8)),
        {"family": "poisson", "n_records": 10**7, "approximation": "exact"},
        [3e7],
        '"exact" is not possible here: each record is imputed.*approximation="normal" handles it',
    ),
    (
        DiscreteLaplaceMechanism(scale=1.0),
        {"family": "multinomial", "n_records": 9, "approximation": "normal"},
        [3, 6],
        'treats multinomial counts as real numbers.*use approximation="exact"',
    ),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount("ten", LAPLACE)}, [3.0], "value of NoisyCount must be"),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(np.nan, LAPLACE)}, [3.0], "value of NoisyCount must be"),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(2e16, LAPLACE)}, [3.0], "must be at most 2..53"),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(10, ABOVE)}, [3.0], "NoisyCount takes releases of all"),
    (ABOVE, POISSON, [3.0], r"takes releases of all records, got released_above=1.0"),
    (LAPLACE, POISSON, [1e16], r"must be within .2..53, .*got 1e.16"),
    (LAPLACE, {"family": "binomial", "n_records": 10**17}, [3.0], "n_records must be at most 9007199254740992"),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(10, 2.0)}, [3.0], "must be an object that adds noise"),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(10, LaplaceMechanism(1.0))}, [3.0], "scale=1/epsilon is"),
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
        "value of NoisyCount must be an integer under DiscreteLaplaceMechanism.*, got value=10.5",
    ),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(10, CauchyMechanism())}, [3.0], "log-concave density"),
    (LAPLACE, {"family": "poisson", "n_records": NoisyCount(10, LaplaceMechanism(scale=[1, 2]))}, [3.0], "one scale"),
]


@pytest.mark.parametrize(("mechanism", "params", "release", "message"), WRONG)
def test_wrong_input_is_named(mechanism, params, release, message, no_chains):
    """Catches an error that comes late, or does not say parameter, value and remedy."""
    with pytest.raises((ValueError, TypeError), match=message):
        PrivateExpFamilyGibbs(mechanism, **params).fit(release)


class Counter:
    """A query with no more than what additive noise asks of one."""

    def value(self, X):
        return np.array([float(len(X))])

    def sensitivity(self, norm=1):
        return 1.0


def test_counting_queries_are_taken():
    NoisyCount(10, LaplaceMechanism(epsilon=0.5, query=RecordCount())).check()
    plain = NoisyCount(10, LaplaceMechanism(epsilon=0.5, query=Counter()))
    plain.check()
    assert plain.scale == NoisyCount(10, LaplaceMechanism(scale=[2.0])).scale == 2.0
    count = NoisyCount(-3.0, GaussianMechanism(scale=2.0))
    count.check()
    assert (count.likely, count.scale, count.most) == (1, 2.0, 81)
    assert clone(count).get_params()["value"] == -3.0


@pytest.mark.parametrize(
    ("mechanism", "params", "release", "message"),
    [
        (LAPLACE, {"family": "binomial", "n_records": 10}, [-1000.0], "release 0 has sum.x. = -1000.*between 0 and 10"),
        (LAPLACE, {"family": "binomial", "n_records": 10}, [[4.0], [200.0]], "release 1 has sum.x. = 200"),
        (
            GaussianMechanism(scale=1.0),
            {"family": "exponential", "prior": GammaPrior(), "n_records": 10},
            [-30.0],
            "between 0 and inf",
        ),
        (
            bounded("normal", (-1, 1)),
            {"family": "normal", "n_records": 10},
            [0.0, 90.0],
            r"(?s)sum\(2x\^2-5/4\) = 90.*-12.5 and 7.5",
        ),
        (
            bounded("normal", (-1, 1), scaled=False),
            {"family": "normal", "n_records": 10},
            [0.0, -90.0],
            r"(?s)sum\(x\^2\) = -90.*0 and 10",
        ),
        (LAPLACE, {"family": "multinomial", "n_records": 300}, [100.0, 80.0], "add up to 180, and to 300 before noise"),
    ],
)
def test_an_impossible_release_is_doubted(mechanism, params, release, message, monkeypatch):
    """With a number: how probable so much noise is."""

    def stop(problem, approximation):
        raise StopIteration

    monkeypatch.setattr("sklearn_dpmix.estimators.curator._exp_family.choose_engine", stop)
    with pytest.warns(UserWarning, match=message) as caught, pytest.raises(StopIteration):
        PrivateExpFamilyGibbs(mechanism, **params).fit(release)
    probability = float(re.search(r"probability (?:of at most )?([\d.e+-]+)", str(caught[0].message)).group(1))
    assert probability < 1e-6


def test_records_in_place_of_their_sum_are_doubted(monkeypatch):
    """Catches records that are silently taken for so many releases of their sum."""

    def stop(problem, approximation):
        raise StopIteration

    monkeypatch.setattr("sklearn_dpmix.estimators.curator._exp_family.choose_engine", stop)
    with pytest.warns(UserWarning, match="as many rows, 3, as .* fit mech"), pytest.raises(StopIteration):
        PrivateExpFamilyGibbs(LAPLACE, family="poisson", n_records=3).fit([[2.0], [0.0], [5.0]])


def test_a_possible_release_is_not_doubted(monkeypatch):
    def stop(problem, approximation):
        raise StopIteration

    monkeypatch.setattr("sklearn_dpmix.estimators.curator._exp_family.choose_engine", stop)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for family, release in (("binomial", [-9.0]), ("multinomial", [3.0, -2.0, 20.0]), ("poisson", [1e6])):
            with pytest.raises(StopIteration):
                PrivateExpFamilyGibbs(LAPLACE, family=family, n_records=10).fit(release)


@pytest.mark.filterwarnings("error")
def test_noise_on_integers_that_is_hardly_any_is_not_doubted():
    """P(noise >= 1) is 2e-5, and P(noise > 1) 5e-10; and the count itself is what noise of 0 leaves."""
    mechanism = DiscreteLaplaceMechanism(scale=0.093)
    PrivateExpFamilyGibbs(mechanism, family="binomial", n_records=50, random_state=0).fit([18.0])
    probability = probability_beyond(mechanism, np.array([0.0, 0.4, 1.0, 1.5]), 0.093)
    once, twice = mechanism.tail_probability(np.array([0.0, 1.0]), 0.093)
    np.testing.assert_allclose(probability, [1.0, once, once, twice])


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


@pytest.mark.parametrize("centre, spread", [(1.7e9, 60.0), (1e9, 1.0)])
def test_records_that_are_alike_beside_their_size_are_doubted(centre, spread):
    """Of times in seconds since 1970 Σx² keeps nothing of how they differ; less a public number, it does."""
    x = np.random.default_rng(0).normal(centre, spread, 40)
    model = PrivateExpFamilyGibbs(None, family="normal", n_records=40, n_chains=1, n_warmup=5, n_draws=8)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit([x.sum(), np.sum(x * x)])
    assert any("Subtract a public number" in str(one.message) for one in caught)
    x -= round(centre)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit([x.sum(), np.sum(x * x)])
    assert not any("Subtract a public number" in str(one.message) for one in caught)


def test_a_count_below_0_that_noise_cannot_have_made_is_doubted():
    query = SufficientStatistics("bernoulli")
    for mechanism in (LaplaceMechanism(scale=1.0), GaussianMechanism(scale=1.0), DiscreteLaplaceMechanism(scale=1.0)):
        for value, is_doubted in ((-50, True), (-3, False), (5, False)):
            count = NoisyCount(value, mechanism)
            model = PrivateExpFamilyGibbs(
                LaplaceMechanism(1.0, query=query),
                family="bernoulli",
                n_records=count,
                n_chains=1,
                n_warmup=5,
                n_draws=8,
            )
            with warnings.catch_warnings(record=True) as caught:
                warnings.simplefilter("always")
                model.fit([1.0])
            assert any("is negative, and noise takes" in str(one.message) for one in caught) is is_doubted
