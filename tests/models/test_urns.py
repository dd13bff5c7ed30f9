"""A random other record's cluster, read record by record or by the clusters' sizes."""

import numba
import numpy as np
import pytest
from scipy.special import digamma

from sklearn_dpmix.mixings._urn import FEW, MANY, cluster_of_another
from sklearn_dpmix.samplers.mixture.moves._split_merge import harmonic


@pytest.mark.parametrize(("n_records", "n_slots"), [(50, 8), (MANY + 9, FEW), (MANY + 9, 2 * FEW)])
def test_clusters_have_the_weights_of_their_other_records(n_records, n_slots):
    """Catches the record itself among the others, an empty slot, and a last cluster that is cut off."""
    i = 17  # clusters 1, 3 and 4 of every ten records, in turn
    alloc = np.array([1, 3, 3, 4, 4, 4, 4, 4, 4, 3], dtype=np.int32)[np.arange(n_records) % 10]
    counts = np.bincount(np.delete(alloc, i), minlength=n_slots).astype(float)
    u = np.arange(n_records - 1)[:: n_records // 50 | 1] + 0.5
    found = [cluster_of_another(value, alloc, counts, i) for value in u]
    if n_records > MANY and n_slots <= FEW:
        np.testing.assert_array_equal(found, np.searchsorted(np.cumsum(counts), u, side="right"))
    else:
        np.testing.assert_array_equal(found, np.delete(alloc, i)[u.astype(int)])
    assert cluster_of_another(n_records - 1.0, alloc, counts, i) in alloc  # rounded up


def test_harmonic_numbers_where_the_fourth_power_of_n_leaves_64_bits():
    """Catches integers that wrap around: at multiples of 65,536 a cluster of one more was always split."""
    compiled = numba.njit(lambda n: harmonic(n))
    for n in (32, 33, 1000, 65_536, 131_072, 10**6):
        assert compiled(n) == pytest.approx(digamma(n + 1.0) + np.euler_gamma, rel=1e-11)
