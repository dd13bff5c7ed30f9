"""A random other record's cluster, read record by record or laid end to end."""

import numpy as np
import pytest

from sklearn_dpmix.mixings._urn import FEW, MANY, cluster_of_another

IN_PLAIN_PYTHON = cluster_of_another.py_func


def urn(n_records, n_slots, i):
    """(clusters of records, sizes without record i): clusters 1, 3 and 4 of every ten, in turn."""
    alloc = np.array([1, 3, 3, 4, 4, 4, 4, 4, 4, 3], dtype=np.int32)[np.arange(n_records) % 10]
    counts = np.bincount(alloc, minlength=n_slots).astype(float)
    counts[alloc[i]] -= 1.0
    return alloc, counts


@pytest.mark.parametrize(("n_records", "n_slots"), [(50, 8), (MANY + 9, FEW), (MANY + 9, 2 * FEW)])
def test_clusters_have_the_weights_of_their_other_records(n_records, n_slots):
    """Catches the record itself among the others, an empty slot, and a last cluster that is cut off."""
    i = 17
    alloc, counts = urn(n_records, n_slots, i)
    u = np.arange(n_records - 1)[:: n_records // 50 | 1] + 0.5
    found = [IN_PLAIN_PYTHON(value, alloc, counts, i) for value in u]
    if n_slots <= FEW < MANY < n_records:
        np.testing.assert_array_equal(found, np.searchsorted(np.cumsum(counts), u, side="right"))
    else:
        np.testing.assert_array_equal(found, np.delete(alloc, i)[u.astype(int)])
    assert IN_PLAIN_PYTHON(n_records - 1.0, alloc, counts, i) in alloc  # rounded up
