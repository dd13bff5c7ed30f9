"""Different rows, against NumPy's sort of whole rows."""

import numpy as np
import pytest

from sklearn_dpmix._base.distinct import distinct_rows

RNG = np.random.default_rng(0)
TABLES = {
    "answers": RNG.integers(0, 4, (2000, 3)).astype(float),
    "integers": RNG.integers(-3, 2, (500, 2)),
    "more cells than an integer counts": RNG.integers(0, 2, (300, 80)).astype(float),
    "many numbers each": RNG.permutation(40_000).reshape(8000, 5).astype(float),
    "fractions": RNG.integers(0, 5, (400, 2)) / 8.0,
    "one feature with a fraction": np.column_stack([RNG.integers(0, 3, 400), RNG.integers(0, 3, 400) / 2.0]),
    "integers of either end": RNG.choice([-(2**63), -(2**62), 0, 2**62, 2**63 - 1], (200, 2)),
    "short integers": np.arange(-128, 128).astype(np.int8)[RNG.integers(0, 256, (3000, 1))],
    "flags": RNG.random((20, 2)) < 0.5,
    "no repeats": RNG.normal(size=(500, 2)),
    "far apart": RNG.choice([-1e300, 0.0, 1.0, 2.0**60, 1e300], (200, 2)),
    "both zeros": RNG.choice([-0.0, 0.0, 1.0], (50, 2)),
    "one row": np.array([[3.0, 0.5]]),
    "no row": np.empty((0, 2)),
}


@pytest.mark.parametrize("table", TABLES.values(), ids=TABLES.keys())
def test_as_numpy_finds_them(table):
    """Catches rows that share a cell, and cells in another order than the rows."""
    rows, inverse, counts = np.unique(table, axis=0, return_inverse=True, return_counts=True)
    found = distinct_rows(table)
    np.testing.assert_array_equal(found[0], rows)
    np.testing.assert_array_equal(found[1], inverse.ravel())
    np.testing.assert_array_equal(found[2], counts)
    assert found[0].dtype == table.dtype
