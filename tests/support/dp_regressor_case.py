"""A release of records near a line, and fits of one linear relation to it."""

from functools import cache

import numpy as np

from sklearn_dpmix import PrivateDPMixtureRegressor
from sklearn_dpmix.kernels import MultivariateNormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism

PRIOR = MultivariateNormalKernel(mean=[0.5, -0.3], mean_precision=0.4, dof=5.0, scale=[[1.5, 0.6], [0.6, 2.0]])


def linear(mechanism, **params):
    defaults = {"n_chains": 4, "n_warmup": 200, "n_draws": 2000, "random_state": 0}
    return PrivateDPMixtureRegressor(mechanism, kernel=PRIOR, linear=True, **defaults | params)


@cache
def line(n, scale):
    """Records near a line and their release by Gaussian noise."""
    rng = np.random.default_rng(n)
    x = rng.normal(0.4, 1.1, n)
    X = np.column_stack([x, 0.8 - 1.3 * x + 0.7 * rng.standard_normal(n)])
    return GaussianMechanism(scale=scale).privatize(X, random_state=1) if scale else X


def fitted(model, Z):
    return model.fit(Z[:, :-1], Z[:, -1])
