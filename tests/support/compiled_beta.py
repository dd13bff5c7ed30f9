"""Compiled functions of beta distributions, as Python and other compiled functions may call them."""

import numpy as np
from numba import njit

from sklearn_dpmix._base import beta_numeric

SMALLEST, LARGEST = np.finfo(float).tiny, float(np.nextafter(1, 0))


@njit(nogil=True)
def log_beta_cdf(a, b, x):
    return beta_numeric.log_beta_cdf(a, b, x)


@njit(nogil=True)
def log_beta_interval(a, b, lo, hi):
    return beta_numeric.log_beta_interval(a, b, lo, hi)
