"""What is drawn, and figures that are closed."""

import numpy as np
import pytest

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.mechanisms import LaplaceMechanism


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    plt = pytest.importorskip("matplotlib.pyplot")
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def records():
    return np.random.default_rng(0).normal([-3.0, 3.0], 0.5, size=(20, 2)).reshape(-1, 1)


@pytest.fixture(scope="module")
def mixture(records):
    mechanism = LaplaceMechanism(epsilon=100.0, bounds=(-5, 5))
    Z = mechanism.privatize(records, random_state=1)
    return PrivateDPMixture(mechanism, n_chains=2, n_warmup=100, n_draws=200, random_state=0).fit(Z)
