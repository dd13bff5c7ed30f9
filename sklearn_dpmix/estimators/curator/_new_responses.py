"""Quantiles of a new response, and a doubt about its variance, from draws of a line and of σ."""

import numpy as np
from scipy.special import ndtr, ndtri

from ..._base.numeric import HALF_LOG_2PI

MOST_STEPS = 200
FEW, MUCH = 1e-3, 0.2  # of the draws of σ; of the sum of their squares


def quantiles_of(location, sigma, q):
    """Quantiles of the mean of the draws' normal distributions, by Newton steps, and halves where these leave it.

    Parameters
    ----------
    location : ndarray of shape (n, n_draws)
    sigma : ndarray of shape (n_draws,)
    q : ndarray of shape (n_q,)

    Returns
    -------
    quantiles : ndarray of shape (n, n_q)
    """
    found, narrow = np.empty((len(location), len(q))), np.median(sigma)
    for j, level in enumerate(q):
        each = location + sigma * ndtri(level)
        low, high, y = each.min(axis=1), each.max(axis=1), np.median(each, axis=1)
        for _ in range(MOST_STEPS):
            u = (y[:, None] - location) / sigma
            gap = ndtr(u).mean(axis=1) - level
            low, high = np.where(gap <= 0.0, y, low), np.where(gap >= 0.0, y, high)
            density = (np.exp(-0.5 * u * u - HALF_LOG_2PI) / sigma).mean(axis=1)
            with np.errstate(divide="ignore", invalid="ignore"):
                new = y - gap / density
            new = np.where((low < new) & (new < high), new, 0.5 * low + 0.5 * high)
            is_there = np.all(np.abs(new - y) <= 1e-9 * narrow + 1e-14 * np.abs(y))
            y = new
            if is_there:
                break
        found[:, j] = y
    return found


def carried_by_few(sigma):
    """The share of the mean of σ² that a thousandth of the draws carry, if it is much: the mean may not exist."""
    squares = np.sort(np.square(sigma).ravel())[::-1]
    share = squares[: max(1, round(FEW * squares.size))].sum() / squares.sum()
    return share if share > MUCH else None
