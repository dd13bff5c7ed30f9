"""A release of 60 records, and mixtures that are fitted in a moment."""

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.mechanisms import LaplaceMechanism

MECHANISM = LaplaceMechanism(epsilon=20.0, bounds=(-10, 10))
RELEASE = MECHANISM.privatize(make_three_normals(60, random_state=0)[0], random_state=1)


def mixture(mechanism=MECHANISM, **params):
    return PrivateDPMixture(mechanism, **{"n_chains": 1, "n_warmup": 5, "n_draws": 10, "random_state": 0, **params})
