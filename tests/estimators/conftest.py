"""Fits that tests of the mixture share: none of them changes one."""

import numpy as np
import pytest
from fitted_mixtures import MECHANISM, RELEASE, fit

from sklearn_dpmix.mechanisms import LaplaceMechanism


@pytest.fixture(scope="session")
def fitted():
    return fit(MECHANISM, RELEASE)


@pytest.fixture(scope="session")
def two_features():
    """Two groups in the plane, one feature ten times the other."""
    rng = np.random.default_rng(0)
    groups = rng.integers(2, size=150)
    X = (rng.normal(size=(150, 2)) + 6.0 * groups[:, None]) * [1.0, 10.0]
    mechanism = LaplaceMechanism(epsilon=100.0, bounds=[(-4, 10), (-40, 100)])
    Z = mechanism.privatize(X, random_state=1)
    return fit(mechanism, Z), Z, groups
