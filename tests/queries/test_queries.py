"""Queries: the value against naive loops, the sensitivity against brute force over neighbours."""

import itertools
import math
import pickle
import re

import numpy as np
import pytest
from scipy.spatial.distance import pdist
from sklearn.base import clone

from sklearn_dpmix.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    LaplaceMechanism,
)
from sklearn_dpmix.models import FAMILIES, Bernoulli, Beta, Family, Gamma, Multinomial, Normal, Poisson, resolve_family
from sklearn_dpmix.queries import BoundedRecords, ClassFeatureCounts, Query, RegressionMoments, SufficientStatistics

NORMS, RELATIONS = (1, 2), ("replace", "add_remove")


def brute_force(query, records, norm, relation):
    """How far one of these records moves the value, over all of them or over all pairs."""
    moves = query.contributions(records)
    if relation == "replace":
        return pdist(moves, "cityblock" if norm == 1 else "euclidean").max()
    return np.linalg.norm(moves, norm, axis=1).max()


def sensitivity_is_exact(query, records, norm, relation):
    """Whether the sensitivity holds for these records, and some pair of them comes within 0.1 % of it."""
    found, stated = brute_force(query, records, norm, relation), query.sensitivity(norm, relation)
    return found <= stated * (1 + 1e-12) and found >= stated * (1 - 1e-3)


def around(lo, hi, n=901):
    """A fine grid on [lo, hi], its ends, and what is outside."""
    width = hi - lo
    return np.concatenate([np.linspace(lo, hi, n), [lo - width, lo - 1e-9 * width, hi + 1e-9 * width, hi + 3 * width]])


# ---------------------------------------------------------------- sufficient statistics

NORMAL_BOUNDS = [
    (-1, 1), (0.2, 3), (-3, -0.4), (-0.1, 0.3), (-5, 2), (-0.45, 0.45), (-0.5, 0.5), (1.4, 1.6), (-1.5, 1.5),
    (-2, 7), (-0.7, 1.45), (-1e-3, 40), (1000, 1001), (-1e-6, 1e-6), (0, 1e5),
]  # fmt: skip


def released():
    """(family, bounds, records) of each family."""
    rng = np.random.default_rng(0)
    for lo, hi in NORMAL_BOUNDS + np.sort(rng.normal(0, 2, (12, 2)), axis=1).tolist():
        yield "normal", (lo, hi), around(lo, hi)
    for lo, hi in ((0.01, 0.99), (0.2, 0.3), (0.6, 0.999), (1e-9, 0.5), (0.4, 0.9), *rng.random((6, 2)).tolist()):
        lo, hi = min(lo, hi), max(lo, hi)
        yield "beta", (lo, hi), np.concatenate([np.linspace(lo, hi, 901), [lo / 2, (1 + hi) / 2, 0.0, 1.0]])
    for name in ("exponential", Gamma(shape=2.5)):
        for lo, hi in ((0, 1), (2, 5), (0.5, 0.75)):
            yield name, (lo, hi), np.abs(around(lo, hi))
    for lo, hi in ((0, 1), (2, 5), (3, 40)):
        yield "poisson", (lo, hi), np.arange(60.0)
    yield "bernoulli", None, np.array([0.0, 1.0])
    for n in (2, 5):
        yield Multinomial(n_categories=n), None, np.arange(n)


@pytest.mark.parametrize("scaled", [True, False])
@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("norm", NORMS)
def test_sensitivity_of_sufficient_statistics_is_exact(norm, relation, outside, scaled):
    """Catches bounds taken for the furthest pair (normal), and a dropped record's 0 left out."""
    for family, bounds, records in released():
        query = SufficientStatistics(family, bounds, outside=outside, scaled=scaled)
        assert sensitivity_is_exact(query, records, norm, relation), query


def test_a_scaled_release_has_no_unit():
    """Records and bounds times any number, and shifted where the family is a normal: the same release."""
    rng = np.random.default_rng(0)
    for family, records, bounds in (
        ("normal", rng.normal(40, 30, 50), (0, 100)),
        ("exponential", rng.exponential(3, 50), (0.5, 10)),
        (Gamma(shape=2.5), rng.exponential(3, 50), (0, 10)),
    ):
        expected = SufficientStatistics(family, bounds).value(records)
        for unit in (1e-6, 0.3, 1e6):
            shift = 17.0 * unit if family == "normal" else 0.0
            other = SufficientStatistics(family, [unit * b + shift for b in bounds])
            np.testing.assert_allclose(other.value(unit * records + shift), expected, rtol=1e-12, atol=1e-12)
            assert other.sensitivity() == SufficientStatistics(family, bounds).sensitivity()


def test_values_of_scaled_statistics():
    """Against the formulas, one record at a time; integers, and what has no bounds, are left as they are."""
    x = [0.3, 0.9, 0.05]
    u = [(min(max(value, 0.1), 0.7) - 0.4) / 0.3 for value in x]
    for family in ("exponential", "gamma"):
        np.testing.assert_allclose(SufficientStatistics(family, (0.1, 0.7)).contributions(x)[:, 0], u, atol=1e-14)
    normal = SufficientStatistics("normal", (0.1, 0.7))
    np.testing.assert_allclose(normal.contributions(x), [[v, 2 * v * v - 1.25] for v in u], atol=1e-14)
    assert normal.statistic_names() == ["sum((x-0.4)/0.3)", "sum(2((x-0.4)/0.3)^2-5/4)"]
    beta = SufficientStatistics("beta", (0.1, 0.7)).contributions([0.1, 0.3, 0.7])
    a = (math.log(0.3) - math.log(0.1)) / math.log(7) * 2 - 1
    b = (math.log(0.7) - math.log(0.3)) / math.log(3) * 2 - 1
    np.testing.assert_allclose(beta, [[-1, 1], [a, b], [1, -1]], atol=1e-14)
    dropped = SufficientStatistics("beta", (0.1, 0.7), outside="drop").contributions([0.9])
    assert dropped.tolist() == [[0.0, 0.0]]
    assert SufficientStatistics("poisson", (2, 9)).value([4, 20]).tolist() == [13.0]
    assert SufficientStatistics("normal").value([2.0, 3.0]).tolist() == [5.0, 13.0]


def test_a_family_of_ones_own_is_not_scaled():
    """Catches a subclass with another statistic that inherits a scaling, and with it a wrong sensitivity."""

    class Cubes(Normal):
        def statistics(self, x):
            return np.column_stack([x, x**3])

        def diameter(self, lo, hi, norm):
            return math.hypot(hi - lo, hi**3 - lo**3) if norm == 2 else hi - lo + hi**3 - lo**3

    query = SufficientStatistics(Cubes(), (0, 2))
    assert query.value([2.0]).tolist() == [2.0, 8.0]
    assert query.sensitivity(1) == 10.0


def test_clamping_and_dropping_differ():
    """The one moves a record to the bound, the other counts nothing; the same inside."""
    records = np.array([[-7.0], [0.5], [2.0]])
    clamp, drop = (SufficientStatistics("normal", (-1, 1), outside=one, scaled=False) for one in ("clamp", "drop"))
    np.testing.assert_array_equal(clamp.contributions(records), [[-1, 1], [0.5, 0.25], [1, 1]])
    np.testing.assert_array_equal(drop.contributions(records), [[0, 0], [0.5, 0.25], [0, 0]])
    far = [SufficientStatistics("exponential", (4, 5), outside=one, scaled=False) for one in ("clamp", "drop")]
    assert [query.sensitivity() for query in far] == [1.0, 5.0]


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("lo, hi", [(-3.0, 3.0), (-4.0, 3.5)])
def test_the_furthest_normal_records_are_not_the_bounds(norm, lo, hi):
    """Where the derivation matters; from closed forms of the two ends."""
    at_ends = (hi - lo) * (1 + abs(lo + hi) if norm == 1 else math.hypot(1, lo + hi))
    assert brute_force(SufficientStatistics("normal"), np.array([lo, hi]), norm, "replace") == pytest.approx(at_ends)
    assert SufficientStatistics("normal", (lo, hi), scaled=False).sensitivity(norm) > 1.5 * at_ends


def test_values_of_sufficient_statistics():
    """Against loops in plain Python."""
    x = [0.25, 0.5, 0.75, 0.5]
    cases = {
        "bernoulli": ([0, 1, 1, 0], lambda x: [x]),
        "poisson": ([0, 3, 7, 1], lambda x: [x]),
        "exponential": (x, lambda x: [x]),
        "gamma": (x, lambda x: [x]),
        "normal": (x, lambda x: [x, x**2]),
        "beta": (x, lambda x: [math.log(x), math.log(1 - x)]),
    }
    assert set(cases) | {"multinomial", "categorical", "binomial"} == set(FAMILIES)
    for name, (records, t) in cases.items():
        query = SufficientStatistics(name)
        expected = [sum(column) for column in zip(*(t(one) for one in records))]
        for given in (records, np.array(records)[:, None]):
            np.testing.assert_allclose(query.value(given), expected, rtol=1e-14)
        assert query.n_statistics == len(expected) == len(query.statistic_names())
    counts = SufficientStatistics(Multinomial(n_categories=4))
    assert counts.value([3, 0, 3, 1]).tolist() == [1, 1, 0, 2]
    assert counts.statistic_names() == ["sum(x==0)", "sum(x==1)", "sum(x==2)", "sum(x==3)"]
    assert SufficientStatistics("bernoulli").value([True, False, True]).tolist() == [2]
    assert SufficientStatistics("normal").value([]).tolist() == [0, 0]


def test_value_of_a_data_frame():
    """Catches a query that takes the frame's index or its labels for records."""
    frames = pytest.importorskip("pandas")
    records = frames.DataFrame({"x": [0.25, 0.5, 0.75, 0.5]}, index=[7, 3, 3, 0])
    assert SufficientStatistics("normal").value(records).tolist() == [2.0, 1.125]


# ---------------------------------------------------------------- bounded records


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("bounds, d", [((-1, 3), 1), ((2, 3), 2), ([(0, 1), (-5, 2), (3, 4)], 3), ((0, 1e-170), 2)])
def test_sensitivity_of_bounded_records_is_exact(bounds, d, norm, relation):
    """Catches the bounds' width where the furthest corner counts, and squares that underflow."""
    query = BoundedRecords(bounds, d)
    pairs = np.broadcast_to(bounds, (d, 2))
    records = np.array(list(itertools.product(*(around(lo, hi, 3 if d == 3 else 9) for lo, hi in pairs))))
    scale = 1e170 if np.max(np.abs(pairs)) < 1e-9 else 1.0  # brute force squares too
    moves = query.contributions(records) * scale
    found = pdist(moves, "minkowski", p=norm).max() if relation == "replace" else np.linalg.norm(moves, norm, 1).max()
    assert found == pytest.approx(query.sensitivity(norm, relation) * scale, rel=1e-12)
    assert query.value(records).tolist() == pytest.approx(
        [sum(min(max(x, lo), hi) for x in column) for column, (lo, hi) in zip(records.T.tolist(), pairs.tolist())]
    )


# ---------------------------------------------------------------- regression


def corners_and_more(q, rng):
    """Records in [-1, 1]^q: a grid with all corners, random ones, and the lines from corner to corner."""
    grid = np.linspace(-1, 1, {2: 25, 3: 9, 4: 5}[q])
    diagonal = np.linspace(-1, 1, 301)[:, None] * np.ones(q)
    return np.vstack([list(itertools.product(grid, repeat=q)), rng.uniform(-1, 1, (400, q)), diagonal])


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("p", [1, 2, 3])
def test_sensitivity_of_regression_moments_is_exact(p, norm, relation):
    """The closed forms are attained; catches a product counted twice, or the constant n released."""
    rng = np.random.default_rng(p)
    query = RegressionMoments((-1, 1), (-1, 1), p)
    records = corners_and_more(p + 1, rng)
    assert sensitivity_is_exact(query, records, norm, relation)
    ranges = RegressionMoments((-1, 1), (-1, 1), p, sensitivity="sum")
    moves = query.contributions(records)
    largest = np.ptp(moves, axis=0) if relation == "replace" else np.abs(moves).max(axis=0)
    assert ranges.sensitivity(norm, relation) == pytest.approx(np.linalg.norm(largest, norm), rel=1e-12)
    assert ranges.sensitivity(norm, relation) >= query.sensitivity(norm, relation)


def test_known_sensitivities_of_regression_moments():
    """Catches a slip in the closed form for more predictors than brute force reaches."""
    first = [RegressionMoments((0, 1), (0, 1), p).sensitivity(1) for p in (1, 2, 3)]
    np.testing.assert_allclose(first, [16 / 3, 75 / 8, 72 / 5], rtol=1e-15)
    for p in range(1, 12):
        query = RegressionMoments((-1, 1), (-1, 1), p)
        w = np.ones((2, p + 1))
        w[1] /= -(p + 2)
        assert brute_force(query, w, 1, "replace") == pytest.approx(query.sensitivity(1), rel=1e-13)
        w[1] = np.where(np.arange(p + 1) < (p + 2) // 2, -1, 1)
        assert brute_force(query, w, 2, "replace") == pytest.approx(query.sensitivity(2), rel=1e-13)
        assert RegressionMoments((-1, 1), (-1, 1), p, sensitivity="sum").sensitivity(1) == p * p + 4 * p + 3


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("p", [1, 2, 4, 6])
def test_no_ascent_goes_beyond_the_sensitivity_of_regression_moments(p, norm):
    """Random pairs that climb coordinate by coordinate: they come near what is stated and never pass it."""
    rng = np.random.default_rng(10 * p + norm)
    query = RegressionMoments((-1, 1), (-1, 1), p)

    def distance(pairs):
        first, second = (query.contributions(pairs[:, side]) for side in (0, 1))
        return np.linalg.norm(first - second, norm, axis=1)

    pairs = rng.uniform(-1, 1, (300, 2, p + 1))
    found = distance(pairs)
    for step in np.repeat([2.0, 0.5, 0.1, 0.02], 60):
        side, column = rng.integers(2, size=300), rng.integers(p + 1, size=300)
        moved = pairs.copy()
        at = (np.arange(300), side, column)
        moved[at] = np.clip(moved[at] + rng.uniform(-step, step, 300), -1, 1)
        there = distance(moved)
        better = there > found
        pairs[better], found[better] = moved[better], there[better]
    stated = query.sensitivity(norm)
    assert found.max() <= stated * (1 + 1e-12)
    assert found.max() >= 0.98 * stated


def test_value_of_regression_moments():
    """Against sums in plain Python, in the documented order; catches an order that the names do not have."""
    rng = np.random.default_rng(3)
    p, bounds = 3, [(0.0, 10.0), (-2.0, 2.0), (5.0, 6.0)]
    records = np.column_stack([rng.uniform(lo - 1, hi + 1, 40) for lo, hi in [*bounds, (-4.0, 4.0)]])
    query = RegressionMoments(bounds, (-4, 4), p)
    expected: dict[str, float] = {}
    for row in records.tolist():
        scaled = [2 * (min(max(x, lo), hi) - lo) / (hi - lo) - 1 for x, (lo, hi) in zip(row, [*bounds, (-4.0, 4.0)])]
        columns = [("", 1.0), *((f"x{j + 1}", scaled[j]) for j in range(p))]
        y = scaled[-1]
        entries = [(f"{name}*y".lstrip("*"), x * y) for name, x in columns] + [("y*y", y * y)]
        for i, (left, a) in enumerate(columns):
            entries += [(f"{left}*{right}".lstrip("*"), a * b) for right, b in columns[i:] if (left, right) != ("", "")]
        for name, entry in entries:
            expected[f"sum({name})"] = expected.get(f"sum({name})", 0.0) + entry
    assert query.statistic_names() == list(expected)
    np.testing.assert_allclose(query.value(records), list(expected.values()), rtol=1e-12, atol=1e-13)
    inside = np.clip(records, *np.array([*bounds, (-4.0, 4.0)]).T)
    np.testing.assert_allclose(query.unscale_records(query.scale_records(records)), inside, rtol=1e-14, atol=1e-14)


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


# ---------------------------------------------------------------- counts


@pytest.mark.parametrize("relation", RELATIONS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("n_classes, n_values, n_features", [(2, 2, 1), (3, [2, 3, 1], None), (2, [4, 2], 2)])
def test_sensitivity_of_counts_is_exact(n_classes, n_values, n_features, norm, relation):
    query = ClassFeatureCounts(n_classes, n_values, n_features)
    sizes = np.broadcast_to(n_values, n_features or len(n_values))
    records = np.array(list(itertools.product(*(range(size) for size in [*sizes, n_classes]))))
    assert sensitivity_is_exact(query, records, norm, relation)


def test_value_of_counts():
    """Against a dictionary of names; catches tables that are value-major, and sums that differ from contributions."""
    rng = np.random.default_rng(4)
    query = ClassFeatureCounts(3, [2, 4])
    records = np.column_stack([rng.integers(size, size=50) for size in (2, 4, 3)])
    expected = dict.fromkeys(query.statistic_names(), 0)
    for first, second, c in records.tolist():
        expected[f"count(class={c}, x1={first})"] += 1
        expected[f"count(class={c}, x2={second})"] += 1
    assert query.value(records).tolist() == list(expected.values()) == query.contributions(records).sum(0).tolist()
    assert query.n_statistics == len(expected) == 18


# ---------------------------------------------------------------- the check can fail


class Ends(Normal):
    """The two bounds taken for the furthest pair."""

    def diameter(self, lo, hi, norm):
        return float(np.linalg.norm(np.subtract(*self.statistics(np.array([lo, hi]))), norm))


class WithoutZero(SufficientStatistics):
    """A dropped record's 0 left out."""

    def _reach(self, norm, relation):
        return resolve_family(self.family).diameter(*self.bounds, norm)


class ScaledEnds(SufficientStatistics):
    """The two bounds for the furthest pair of scaled records."""

    def _reach(self, norm, relation):
        return 2.0


class OneTable(ClassFeatureCounts):
    """The features' tables taken for one."""

    def _reach(self, norm, relation):
        return 2.0 ** (1 / norm)


class RangesMinusOne(BoundedRecords):
    """One feature forgotten."""

    def _reach(self, norm, relation):
        return BoundedRecords(self.bounds, self.n_features - 1).sensitivity(norm, relation)


class TooLarge(RegressionMoments):
    """Valid, not exact."""

    def _reach(self, norm, relation):
        return 1.01 * super()._reach(norm, relation)


@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize(
    "query, records",
    [
        (SufficientStatistics(Ends(), (-3, 3)), around(-3, 3)),
        (WithoutZero("exponential", (2, 5), outside="drop", scaled=False), np.abs(around(2, 5))),
        (ScaledEnds("normal", (-3, 3)), around(-3, 3)),
        (OneTable(2, 2, 2), np.array(list(itertools.product(range(2), repeat=3)))),
        (RangesMinusOne((0, 1), 2), np.array(list(itertools.product((0.0, 1.0), repeat=2)))),
        (TooLarge((-1, 1), (-1, 1), 1), corners_and_more(2, np.random.default_rng(0))),
        (RegressionMoments((-1, 1), (-1, 1), 1, "sum"), corners_and_more(2, np.random.default_rng(0))),
    ],
)
def test_a_wrong_sensitivity_is_found(query, records, norm):
    assert not sensitivity_is_exact(query, records, norm, "replace")


# ---------------------------------------------------------------- scikit-learn's habits

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
    (BoundedRecords((0, 1)), ["a"], r"records must be numbers, got \['a'\]"),
    (SufficientStatistics("weibull"), None, r'family must be one of "bernoulli".*got \'weibull\''),
    (SufficientStatistics("normal", (0, 1), outside="cut"), None, r"outside must be .* got outside='cut'"),
    (SufficientStatistics("normal", (0, 1), neighbours=None), None, r"neighbours must be .* got neighbours=None"),
    (SufficientStatistics("multinomial"), None, r"family='multinomial' .* pass Multinomial\(n_categories=...\)"),
    (SufficientStatistics(Multinomial(n_categories=1)), None, r"n_categories must be an integer, 2 or more"),
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
    (SufficientStatistics("normal"), PAIR, r"records must have shape \(n_records, 1\), one number a record"),
    (RegressionMoments((1, 0), (0, 1), 2), None, r"x_bounds=\(1, 0\): bounds must be finite"),
    (RegressionMoments((0, 1), (0, np.inf), 2), None, r"y_bounds=\(0, inf\): bounds must be finite"),
    (RegressionMoments([(0, 1)] * 3, (0, 1), 2), None, r"x_bounds=.* has 3 pair\(s\), but the records have 2"),
    (RegressionMoments((0, 1), (0, 1), 0), None, r"n_features must be an integer, 1 or more, got n_features=0"),
    (RegressionMoments((0, 1), (0, 1), 2, "tight"), None, r"sensitivity must be .* got sensitivity='tight'"),
    (RegressionMoments((0, 1), (0, 1), 2), PAIR, r"records must have shape \(n_records, 3\), the predictors and then"),
    (ClassFeatureCounts(1, 2, 1), None, r"n_classes must be an integer, 2 or more, got n_classes=1"),
    (ClassFeatureCounts(2, 2), None, r"n_features must be given where n_values is one number"),
    (ClassFeatureCounts(2, [2, 3], 3), None, r"n_values must be a number, or one a feature, got n_values=\[2, 3\]"),
    (ClassFeatureCounts(2, []), None, r"n_values must be a number, or one a feature, got n_values=\[\]"),
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
    for wrong, message in ((Normal, r"pass Normal\(\)"), (3, "family must be one of")):
        with pytest.raises(TypeError, match=message):
            resolve_family(wrong)
    for cls in set(FAMILIES.values()):
        default = cls()
        default.check()
        assert repr(clone(default)) == repr(pickle.loads(pickle.dumps(default)))
        if default.n_statistics is not None:
            t = default.statistics(np.array([0.25, 0.5, 0.75]))
            assert t.shape == (3, default.n_statistics) and len(default.labels) == default.n_statistics
