"""A release behind a threshold, and fits of it."""

import numpy as np

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess

PRIOR = {"mean": 0.3, "mean_precision": 0.5, "shape": 3.0, "scale": 2.0}
Z, SCALE, THRESHOLD = np.array([1.3, 2.6, 1.9]), 0.7, 1.0
CASES = {
    "laplace": (LaplaceMechanism, None),
    "clamped": (LaplaceMechanism, (-1.0, 2.5)),
    "gaussian": (GaussianMechanism, None),
    "clamped gaussian": (GaussianMechanism, (-1.0, 2.5)),
}


def fitted(name, n_records=None, sampler="auto", **parameters):
    kind, bounds = CASES[name]
    mechanism = kind(scale=SCALE, bounds=bounds, released_above=THRESHOLD)
    model = PrivateDPMixture(
        mechanism,
        kernel=NormalKernel(**PRIOR),
        mixing=DirichletProcess(1.0),
        sampler=sampler,
        n_records=n_records,
        **{"n_draws": 2000, "random_state": 0} | parameters,
    )
    return model.fit(Z[:, None])
