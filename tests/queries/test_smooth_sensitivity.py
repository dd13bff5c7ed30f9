"""Queries' smooth sensitivity by brute force over all data sets of a grid, and their values by plain Python."""

import itertools
import math
import statistics

import numpy as np
import pytest

from sklearn_dpmix.queries import SmoothMedian, SmoothTrimmedMean

XIS = (0.01, 0.1, 0.5, 2.0)
GRIDS = {1: (-1, -0.4, 0.2, 0.5, 3), 2: (-1, -0.4, 0, 0.2, 1, 3), 3: (-1, -0.4, 0, 1, 3), 4: (-1, 0, 0.1, 1.5, 3)}
GRIDS[5] = (-1, -0.2, 0.5, 3)
QUERIES = [SmoothMedian((-1, 3))] + [SmoothTrimmedMean((-1, 3), trim) for trim in (0, 0.2, 0.25, 0.34, 0.49)]


def plain_value(query, records):
    """The value in plain Python."""
    records = sorted(min(max(x, -1), 3) for x in records)
    if isinstance(query, SmoothMedian):
        return statistics.median(records)
    g = math.floor(query.trim * len(records))
    return statistics.fmean(records[g : len(records) - g])


def brute_force(query, grid, n, xi):
    """(values, local sensitivities, smooth sensitivities) at all data sets of n numbers of the grid: (m,) * n each.

    The smooth sensitivity is a maximum over how each record may change, so it can be taken record by record.
    """
    m = len(grid)
    value = np.array([plain_value(query, x) for x in itertools.product(grid, repeat=n)]).reshape((m,) * n)
    local = np.zeros_like(value)
    for axis in range(n):
        highest, lowest = value.max(axis, keepdims=True), value.min(axis, keepdims=True)
        local = np.maximum(local, np.maximum(highest - value, value - lowest))
    smooth = local
    for axis in range(n):
        smooth = np.maximum(smooth, math.exp(-xi) * smooth.max(axis, keepdims=True))
    return value, local, smooth


def agrees(query, statistics_of):
    """Whether values and smooth sensitivities are the brute force's on all grids."""
    for (n, grid), xi in itertools.product(GRIDS.items(), XIS):
        value, _, smooth = brute_force(query, grid, n, xi)
        found = statistics_of(np.array(list(itertools.product(grid, repeat=n))), xi)
        close = [np.allclose(f, e.ravel(), rtol=1e-12, atol=1e-12) for f, e in zip(found.T, (value, smooth))]
        if not all(close):
            return False
    return True


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_smooth_sensitivity_is_exact(query):
    """At every data set of a grid that holds the bounds: its definition, by exhaustion.

    Rejected: the local sensitivity alone; a bound that looks one replacement too far or not far enough; another ξ.
    """
    assert agrees(query, query.statistics)

    def with_smooth(change):
        def twin(X, xi):
            found = query.statistics(X, xi)
            found[:, 1] = change(found[:, 1], X, xi)
            return found

        return twin

    assert not agrees(query, with_smooth(lambda smooth, X, xi: math.exp(-xi) * smooth))
    assert not agrees(query, with_smooth(lambda smooth, X, xi: query.statistics(X, 1.1 * xi)[:, 1]))
    assert not agrees(query, with_smooth(lambda smooth, X, xi: query.statistics(X, 50.0)[:, 1]))


def test_shapes_and_names():
    """One data set as a column, a list or a row of many; records beyond the bounds count as on them."""
    query = SmoothMedian((-1, 3))
    records = [0.5, 7.0, -9.0, 0.25]
    row = query.statistics([records], 0.3)
    assert row.shape == (1, 2) and query.value(records).shape == (1,)
    for given in (records, np.array(records)[:, None], [[x] for x in records]):
        assert query.value(given)[0] == row[0, 0] == 0.375 and query.smooth_sensitivity(given, 0.3) == row[0, 1]
    np.testing.assert_array_equal(query.statistics([np.clip(records, -1, 3)], 0.3), row)
    assert SmoothTrimmedMean((0, 1), 0.29).n_trimmed(100) == 29  # 0.29 × 100 < 29 in floating point
    assert [SmoothTrimmedMean((0, 1), 0.5 - 1e-12).n_trimmed(n) for n in (1, 2, 6)] == [0, 0, 2]


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_pruned_search_is_the_full_one(query):
    """On many records, against all pairs of ranks; and chunks of rows against rows one by one."""
    rng = np.random.default_rng(0)
    for n, xi in itertools.product((1, 2, 17, 64, 201), (1e-3, 0.05, 0.6)):
        X = np.concatenate([rng.normal(1, 1, (20, n)), rng.choice([-1, 0, 3], (10, n)), rng.beta(0.1, 0.1, (10, n))])
        g = query.n_trimmed(n)
        r = n - 2 * g
        x = np.column_stack([np.full(40, -1.0), np.sort(np.clip(X, -1, 3), axis=1), np.full(40, 3.0)])
        p, q = np.arange(g + 2)[:, None], np.arange(n - g, n + 2)[None, :]
        weight = np.where(q - p >= r, np.exp(-xi * (q - p - r)), 0.0)
        full = [np.max(weight * (row[q] - row[p])) / r for row in x]
        found = query.statistics(X, xi)
        np.testing.assert_allclose(found[:, 1], full, rtol=1e-12)
        np.testing.assert_array_equal(found[7], [query.value(X[7])[0], query.smooth_sensitivity(X[7], xi)])
    many = np.repeat(X, 40, axis=0)  # more rows than are sorted at a time
    np.testing.assert_array_equal(query.statistics(many, xi), np.repeat(found, 40, axis=0))


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_smallest_smooth_sensitivity_is_attained_and_never_passed(query):
    """By records in the middle; twin: a bound that is 1 % larger is passed."""
    rng = np.random.default_rng(1)
    for n, xi in itertools.product((1, 2, 3, 8, 31), XIS):
        smallest = query.smallest_smooth_sensitivity(n, xi)
        X = rng.uniform(-1, 3, (3000, n))
        X[:1000] = 1.0 + rng.uniform(-2, 2, (1000, 1)) * rng.random((1000, n)) ** rng.uniform(0, 20, (1000, 1))
        X[0] = 1.0
        found = query.statistics(X, xi)[:, 1]
        assert found[0] == pytest.approx(smallest, rel=1e-12)
        assert np.all(found >= smallest * (1 - 1e-12)) and np.any(found < smallest * 1.01)
