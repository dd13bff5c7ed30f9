"""Releases, their summaries, whether two of these are the same, and short fits."""

import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism

LAPLACE = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))
MECHANISMS = [
    LAPLACE,
    LaplaceMechanism(epsilon=5.0, bounds=(-10, 10), clamp=False),
    LaplaceMechanism(scale=0.02),
    GaussianMechanism(epsilon=10.0, delta=1e-5, bounds=(-10, 10)),
]


def three_normals(n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.choice([-5.0, 0.0, 5.0], n) + rng.standard_normal(n))[:, None]


def release(n, mechanism=LAPLACE):
    return mechanism.privatize(three_normals(n), random_state=1)


def model(mechanism=LAPLACE, **parameters):
    return PrivateDPMixture(mechanism, **{"n_chains": 2, "n_warmup": 20, "n_draws": 20, "random_state": 0} | parameters)


def differ(one, other):
    """Whether two summaries differ by more than rounding."""
    cells, others, sums, other_sums = one._cells, other._cells, one._sums, other._sums
    if one.n_records != other.n_records or cells.grid != others.grid or not np.array_equal(cells.keys, others.keys):
        return True
    apart = np.abs(cells.moments - others.moments) > 1e-12 * (10.0 + cells.moments[:, :1])
    same_sums = sums.n == 0 or np.allclose(sums, other_sums, rtol=1e-12, atol=1e-12 * abs(sums.largest))
    same_ends = np.array_equal(cells.at_ends, others.at_ends)
    return not (same_sums and same_ends and np.array_equal(one._records, other._records)) or bool(apart.any())
