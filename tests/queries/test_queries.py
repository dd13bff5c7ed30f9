"""Queries as scikit-learn's objects, as a user's own, under noise, and given what is wrong."""

import pickle
import re

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpmix.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    MultivariateNormalMechanism,
)
from sklearn_dpmix.models import FAMILIES, Bernoulli, Beta, Family, Gamma, Multinomial, Normal, Poisson, resolve_family
from sklearn_dpmix.queries import BoundedRecords, ClassFeatureCounts, Query, RegressionMoments, SufficientStatistics

NORMS, RELATIONS = (1, 2), ("replace", "add_remove")
QUERIES = [
    BoundedRecords([(0, 1), (2, 3)], n_features=2, neighbours="add_remove"),
    SufficientStatistics("normal", (-1, 1), outside="drop"),
    SufficientStatistics(Multinomial(n_categories=3)),
    RegressionMoments([(0, 1), (2, 3)], (0, 1), 2, "sum", neighbours="add_remove"),
    ClassFeatureCounts(2, [2, 3], neighbours="add_remove"),
]


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_queries_are_scikit_learn_objects(query):
    """Catches parameters that are changed, renamed or lost on the way."""
    params = query.get_params(deep=False)
    for copy in (clone(query), pickle.loads(pickle.dumps(query)), eval(repr(query)), type(query)(**params)):
        assert repr(copy) == repr(query) and repr(copy.get_params()) == repr(query.get_params())
        assert [copy.sensitivity(norm) for norm in NORMS] == [query.sensitivity(norm) for norm in NORMS]
    changed = clone(query).set_params(neighbours="replace")
    assert changed.sensitivity() == query.sensitivity(neighbours="replace")
    assert query.sensitivity() == query.sensitivity(neighbours=query.neighbours)
    assert type(query).__name__ in query._repr_html_()


def test_a_query_of_ones_own():
    """Two methods are enough; what is missing is named."""

    class Above(Query):
        def __init__(self, threshold=0.0):
            self.threshold = threshold

        def contributions(self, records):
            return (np.asarray(records) > self.threshold).astype(float)

        def sensitivity(self, norm=1, neighbours=None):
            return 1.0

    query = Above(0.5)
    assert query.value([[0.0], [1.0], [2.0]]).tolist() == [2.0]
    assert query.n_statistics is None
    assert LaplaceMechanism(epsilon=2.0, query=query).guarantee().epsilon == 2.0
    with pytest.raises(ValueError, match=r"Above.contributions\(records\) must have shape .* 3 rows, got \(3,\)"):
        query.value([0.0, 1.0, 2.0])
    with pytest.raises(ValueError, match="must define n_statistics"):
        query.statistic_names()

    class Itself(Above):
        def contributions(self, records):
            return np.asarray(records, dtype=np.float64)

    for records in ([[12345.0, 0.0], [12345.0, np.inf]], [[0.0, 1e308], [0.0, 1e308]], [[np.nan, 1.0]]):
        with pytest.raises(ValueError, match="have a sum that is not finite") as error, np.errstate(over="ignore"):
            Itself().value(records)  # confidential: no number of theirs is quoted
        assert not any(word in str(error.value) for word in ("24690", "inf,", "[", "nan"))

    class Nothing(Query):
        pass

    with pytest.raises(TypeError, match=r"Nothing must define contributions\(self, records\)"):
        Nothing().value([[1.0]])
    with pytest.raises(TypeError, match=r"Nothing must define sensitivity\(self, norm=1, neighbours=None\)"):
        Nothing().sensitivity()
    for call in (Family().statistics, lambda x: Family().diameter(0, 1, 1), lambda x: Family().radius(0, 1, 1)):
        with pytest.raises(TypeError, match="Family must define"):
            call(np.ones(2))


def test_sensitivity_is_a_parameter_and_a_method():
    """Catches a method hidden by the parameter after set_params, clone or pickling."""
    query = RegressionMoments((0, 1), (0, 1), 2)
    assert query.get_params() == {
        "x_bounds": (0, 1), "y_bounds": (0, 1), "n_features": 2, "sensitivity": "joint", "neighbours": "replace"
    }  # fmt: skip
    assert query.sensitivity(1) == 9.375
    for other in (query.set_params(sensitivity="sum"), clone(query), pickle.loads(pickle.dumps(query))):
        assert other.sensitivity(1) == 15.0 and other.get_params()["sensitivity"] == "sum"
        assert "sensitivity='sum'" in repr(other)
    query.sensitivity = "joint"
    assert query.sensitivity(norm=1) == 9.375 and "sensitivity" not in repr(query)


# ---------------------------------------------------------------- under noise


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("epsilon", [0.1, 3.0])
def test_the_loss_of_the_furthest_records_is_epsilon(epsilon, relation):
    """The privacy loss of a pure mechanism on the worst pair is ε, no less and no more."""
    query = RegressionMoments((-1, 1), (-1, 1), 2, neighbours=relation)
    mechanism = LaplaceMechanism(epsilon=epsilon, query=query)
    shared = np.array([[0.3, -0.2, 0.9], [0.1, 0.7, -0.4]])
    neighbour = np.vstack([shared, np.ones(3)])
    other = np.vstack([shared, -np.ones(3) / 4]) if relation == "replace" else shared
    Z = query.value(neighbour)[None]
    loss = mechanism.log_density(Z, neighbour) - mechanism.log_density(Z, other)
    assert loss[0] == pytest.approx(epsilon, rel=1e-12)


@pytest.mark.parametrize("cls", [LaplaceMechanism, GaussianMechanism])
def test_continuous_mechanisms_take_queries(cls):
    budget = {"epsilon": 1.0} if cls is LaplaceMechanism else {"epsilon": 1.0, "delta": 1e-6}
    rng = np.random.default_rng(5)
    for query, records in (
        (RegressionMoments((0, 1), (0, 1), 2), rng.random((20, 3))),
        (BoundedRecords((0, 1), 3), rng.random((20, 3))),
        (SufficientStatistics("beta", (0.1, 0.9)), rng.random((20, 1))),
    ):
        mechanism = cls(**budget, query=query)
        Z = mechanism.privatize(records, random_state=0)
        assert Z.shape == (query.n_statistics,)
        assert mechanism.log_density(Z[None], records).shape == (1,)
        assert mechanism.sensitivity() == query.sensitivity(mechanism.norm)
        assert clone(mechanism).guarantee() == mechanism.guarantee()
        assert mechanism.get_params()["query__neighbours"] == "replace"


@pytest.mark.parametrize("cls", [DiscreteLaplaceMechanism, DiscreteGaussianMechanism])
def test_discrete_mechanisms_take_counts(cls):
    budget = {"epsilon": 1.0} if cls is DiscreteLaplaceMechanism else {"rho": 0.5}
    for query, records in (
        (ClassFeatureCounts(2, 3, 2), [[0, 2, 1], [1, 1, 0]]),
        (SufficientStatistics("bernoulli"), [[0], [1], [1]]),
        (SufficientStatistics(Multinomial(n_categories=3)), [[0], [2]]),
        (SufficientStatistics("poisson", (0, 10), outside="drop"), [[4], [20]]),
    ):
        Z = cls(**budget, query=query).privatize(records, random_state=1)
        assert Z.shape == (query.n_statistics,) and np.array_equal(Z, np.round(Z))


@pytest.mark.parametrize("cls", [LaplaceMechanism, DiscreteLaplaceMechanism, MultivariateNormalMechanism])
def test_no_record_is_released_as_one_is(cls):
    """Where neighbours add or remove one; else the number of records is public, and 0 of them an error."""
    for neighbours in ("add_remove", "replace"):
        query = BoundedRecords((0, 9), n_features=2, neighbours=neighbours)
        mechanism = cls(np.eye(2), query=query) if cls is MultivariateNormalMechanism else cls(1.0, query=query)
        assert mechanism.privatize(np.ones((1, 2)), random_state=0).shape == (2,)
        if neighbours == "add_remove":
            assert mechanism.privatize(np.empty((0, 2)), random_state=0).shape == (2,)
        else:
            with pytest.raises(ValueError, match="0 sample"):
                mechanism.privatize(np.empty((0, 2)), random_state=0)


def test_the_guarantee_says_which_neighbours():
    """Catches an add-or-remove sensitivity sold as one for replacement, which is up to twice as large."""
    words = {"replace": "replace one record", "add_remove": "add or remove one record"}
    for relation, said in words.items():
        query = ClassFeatureCounts(2, 2, 3, neighbours=relation)
        for mechanism in (LaplaceMechanism(1.0, query=query), GaussianMechanism(rho=0.5, query=query)):
            assert mechanism.guarantee().neighbours == said
    replace, add_remove = (
        LaplaceMechanism(1.0, query=ClassFeatureCounts(2, 2, 3, neighbours=one)).noise_scale for one in RELATIONS
    )
    assert (replace, add_remove) == (6.0, 3.0)
    assert LaplaceMechanism(1.0, bounds=(0, 1)).guarantee().neighbours == "replace one record"


# ---------------------------------------------------------------- wrong input

PAIR = np.zeros((2, 2))
WRONG = [
    (BoundedRecords((1, 0)), None, r"bounds=\(1, 0\): bounds must be finite with lo < hi"),
    (BoundedRecords(None), None, r"bounds=None: bounds must be a pair"),
    (BoundedRecords([(0, 1), (0, 1)]), None, r"2 pair\(s\), but n_features=1"),
    (BoundedRecords([(0, 1), (0,)]), None, r"bounds=\[\(0, 1\), \(0,\)\]: bounds must be a pair"),
    (BoundedRecords((0, 1), 1.5), None, r"n_features must be an integer, 1 or more, got n_features=1.5"),
    (BoundedRecords((0, 1), neighbours="swap"), None, r"neighbours must be .* got neighbours='swap'"),
    (BoundedRecords((0, 1)), PAIR, r"records must have shape \(n_records, 1\).*got shape \(2, 2\)"),
    (BoundedRecords((0, 1), 2), [[0, 1], [np.nan, 0]], r"records must be finite, got nan at position \(1, 0\)"),
    (BoundedRecords((0, 1), 2), [[0, 1], [0]], r"records must be numbers"),
    (BoundedRecords((0, 1)), ["a"], r"records must be numbers, got a list of shape \(1,\) that holds str_"),
    (BoundedRecords((0, 1)), [[0.5], [None]], r"got a list of shape \(2, 1\) that holds NoneType, float: encode"),
    (SufficientStatistics("weibull"), None, r'family must be one of "bernoulli".*got \'weibull\''),
    (SufficientStatistics("normal", (0, 1), outside="cut"), None, r"outside must be .* got outside='cut'"),
    (SufficientStatistics("normal", (0, 1), neighbours=None), None, r"neighbours must be .* got neighbours=None"),
    (SufficientStatistics("multinomial"), None, r"family='multinomial' .* pass Multinomial\(n_categories=...\)"),
    (SufficientStatistics(Multinomial(n_categories=1)), None, r"n_categories must be an integer from 2 to 10000000"),
    (SufficientStatistics(Gamma(shape=-1), (0, 1)), None, r"shape must be a positive finite number, got shape=-1"),
    (SufficientStatistics("bernoulli", (0, 1)), None, r"takes no bounds, got bounds=\(0, 1\)"),
    (SufficientStatistics("poisson", (0.5, 3)), None, r"bounds must be integers .* got bounds=\(0.5, 3\)"),
    (SufficientStatistics("beta", (0, 0.5)), None, r"bounds must be where .* got bounds=\(0, 0.5\)"),
    (SufficientStatistics("exponential", (-1, 5)), None, r"inside its support from 0 to inf, got bounds=\(-1, 5\)"),
    (SufficientStatistics("normal", (0, 1e200)), None, r"bounds must be where .* is finite"),
    (SufficientStatistics("bernoulli"), [0, 2], r"records must be inside .* got 2.0 at position 1"),
    (SufficientStatistics("bernoulli"), [0, 0.5], r"records must be integers .* got 0.5 at position 1"),
    (SufficientStatistics(Multinomial(n_categories=3)), [3], r"from 0 to 2, got 3.0 at position 0"),
    (SufficientStatistics("exponential", (0, 1)), [-0.5], r"records must be inside .* got -0.5"),
    (SufficientStatistics(Beta()), [0.5, 1.0], r"is finite; give bounds, got 1.0 at position 1"),
    (SufficientStatistics("normal"), [1e200], r"is finite; give bounds, got 1e\+200"),
    (SufficientStatistics("normal"), PAIR, r"records must have shape \(n_records, 1\), one number per record"),
    (RegressionMoments((1, 0), (0, 1), 2), None, r"x_bounds=\(1, 0\): bounds must be finite"),
    (RegressionMoments((0, 1), (0, np.inf), 2), None, r"y_bounds=\(0, inf\): bounds must be finite"),
    (RegressionMoments([(0, 1)] * 3, (0, 1), 2), None, r"x_bounds=.* has 3 pair\(s\), but the records have 2"),
    (RegressionMoments((0, 1), (0, 1), 0), None, r"n_features must be an integer, 1 or more, got n_features=0"),
    (RegressionMoments((0, 1), (0, 1), 2, "tight"), None, r"sensitivity must be .* got sensitivity='tight'"),
    (RegressionMoments((0, 1), (0, 1), 2), PAIR, r"records must have shape \(n_records, 3\), the predictors and then"),
    (ClassFeatureCounts(1, 2, 1), None, r"n_classes must be an integer, 2 or more, got n_classes=1"),
    (ClassFeatureCounts(2, 2), None, r"n_features must be given if n_values is one number"),
    (ClassFeatureCounts(2, [2, 3], 3), None, r"n_values must be a number, or one per feature, got n_values=\[2, 3\]"),
    (ClassFeatureCounts(2, []), None, r"n_values must be a number, or one per feature, got n_values=\[\]"),
    (ClassFeatureCounts(2, [2, 0]), None, r"n_values must be an integer, 1 or more, got n_values=0"),
    (ClassFeatureCounts(2, "ab"), None, r"n_values must be an integer, 1 or more, got n_values='ab'"),
    (
        ClassFeatureCounts(2, 3, 1),
        [[3, 0]],
        r"0 to 2 in column 0 \(n_values of x1 is 3\), got 3.0 at position \(0, 0\)",
    ),
    (ClassFeatureCounts(2, 3, 1), [[0, 2]], r"0 to 1 in column 1 \(n_classes is 2\), got 2.0 at position \(0, 1\)"),
    (ClassFeatureCounts(2, 3, 1), [[0.5, 1]], r"records must hold integers .* got 0.5"),
]


@pytest.mark.parametrize("query, records, message", WRONG, ids=lambda one: repr(one)[:50])
def test_wrong_input_is_named(query, records, message):
    """Catches a message without the parameter, the value or the remedy, and NaN in place of an error."""
    calls = [query.sensitivity, lambda: query.value(np.zeros((1, 1)))] if records is None else []
    for call in calls or [lambda: query.value(records), lambda: query.contributions(records)]:
        with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
            call()


def test_what_is_asked_of_the_sensitivity_is_checked():
    """Catches a third norm answered as L2, and a family's unbounded statistic released as if it were bounded."""
    query = SufficientStatistics("normal", (-1, 1))
    for norm in (0, 3, None, np.inf):
        with pytest.raises(ValueError, match="norm must be 1 or 2, got norm="):
            query.sensitivity(norm)
    with pytest.raises(ValueError, match=r"neighbours must be .* got neighbours='both'"):
        query.sensitivity(neighbours="both")
    for name in ("normal", "beta", "poisson", "exponential", "gamma"):
        unbounded = SufficientStatistics(name)
        assert unbounded.contributions([0.5] if name != "poisson" else [1]).shape == (1, unbounded.n_statistics)
        with pytest.raises(ValueError, match=r"bounds=None: .* give bounds=\(lo, hi\)"):
            unbounded.sensitivity()
        with pytest.raises(ValueError, match="bounds=None"):
            LaplaceMechanism(1.0, query=unbounded).privatize([[0.5 if name != "poisson" else 1.0]])
    with pytest.raises(ValueError, match="has sensitivity inf: bounds must be narrow enough"):
        BoundedRecords((-8e307, 8e307), 3).sensitivity()


def test_families_by_name():
    """Names, aliases and objects; a class or another thing is refused with the remedy."""
    assert isinstance(resolve_family("binomial"), Bernoulli)
    assert isinstance(resolve_family("categorical"), Multinomial)
    family = Poisson()
    assert resolve_family(family) is family
    for wrong, message in ((Normal, r"pass family=Normal\("), (3, "family must be one of")):
        with pytest.raises(TypeError, match=message):
            resolve_family(wrong)
    for cls in set(FAMILIES.values()):
        default = cls()
        default.check()
        assert repr(clone(default)) == repr(pickle.loads(pickle.dumps(default)))
        if default.n_statistics is not None:
            t = default.statistics(np.array([0.25, 0.5, 0.75]))
            assert t.shape == (3, default.n_statistics) and len(default.labels) == default.n_statistics
