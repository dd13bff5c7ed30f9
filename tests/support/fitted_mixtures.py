"""Records of three normals, their release, and fits of a second."""

import warnings

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.mechanisms import LaplaceMechanism

MECHANISM = LaplaceMechanism(epsilon=50.0, bounds=(-10, 10))
RECORDS, COMPONENTS = make_three_normals(300, random_state=0)
RELEASE = MECHANISM.privatize(RECORDS, random_state=1)


def fit(mechanism, Z, **params):
    params = {"n_chains": 2, "n_warmup": 300, "n_draws": 200, "random_state": 0, **params}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "the chains have not mixed", RuntimeWarning)
        return PrivateDPMixture(mechanism, **params).fit(Z)
