"""Queries' values against naive loops, and their sensitivities against brute force over neighbours."""

import itertools
import math

import numpy as np
import pytest
from scipy.spatial.distance import pdist

from sklearn_dpmix.models import FAMILIES, Gamma, Multinomial, Normal, resolve_family
from sklearn_dpmix.queries import BoundedRecords, ClassFeatureCounts, RegressionMoments, SufficientStatistics

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
