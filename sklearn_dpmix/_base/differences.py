"""Derivatives by central differences."""

import numpy as np


def central_differences(function, theta, steps):
    """Derivatives at θ by each parameter, (n_params, ...), of a function of points (n, n_params) -> (n, ...)."""
    up, down = (function(theta + np.diag(sign * steps)) for sign in (1.0, -1.0))
    rise = up - down
    return rise / (2.0 * steps).reshape(-1, *(1,) * (rise.ndim - 1))
