"""Derivatives by central differences."""

import numpy as np


def central_differences(function, theta, steps):
    """Derivatives at θ by each parameter, (n_params, ...), of a function of points (n, n_params) -> (n, ...)."""
    apart = np.diag(steps)
    rise = function(theta + apart) - function(theta - apart)
    return rise / (2.0 * steps).reshape(-1, *(1,) * (rise.ndim - 1))
