"""A few of many: evenly spaced, or in proportion to weights."""

import numpy as np


def evenly_spaced(n, most):
    """Numbers from 0 to n - 1, both among them: all, or ``most`` if there are more."""
    return np.linspace(0, n - 1, min(n, most)).astype(np.int64)


def in_proportion(weights, n):
    """``n`` places of ``weights``, in order, each as often as its share says (systematic resampling without a draw)."""
    total = np.cumsum(weights)
    return np.searchsorted(total, total[-1] * (np.arange(n) + 0.5) / n)
