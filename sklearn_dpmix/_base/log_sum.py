"""The log of a sum of exponentials, for loops that ask for it many thousand times."""

import numpy as np
from scipy.special import logsumexp

from .typing import Floats


def log_sum_exp(values: Floats, weights: Floats | None = None) -> np.float64:
    """As SciPy's ``logsumexp`` of a line of numbers, to the last bit, in a fraction of its time.

    SciPy's takes 0.1 ms for ten numbers: it looks for the arrays' library, and computes the sum in two ways.
    """
    inside = values if weights is None else np.where(weights == 0.0, -np.inf, values)
    top = inside.max(initial=-np.inf)
    if not np.isfinite(top):
        return logsumexp(values, b=weights)
    is_top, terms = inside == top, np.exp(inside - top)
    terms[is_top] = 0.0
    if weights is None:
        of_top, others = np.float64(np.count_nonzero(is_top)), terms.sum()
    else:
        of_top, others = np.sum(weights * is_top), np.sum(weights * terms)
        if not (of_top > 0.0 and others > -of_top):
            return logsumexp(values, b=weights)
    return np.log1p(others / of_top) + np.log(of_top) + top
