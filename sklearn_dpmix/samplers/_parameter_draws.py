"""Draws of a model's parameters."""

from typing import NamedTuple

import numpy as np


class ThetaDraws(NamedTuple):
    """Draws of the parameters, (n_draws, n_params)."""

    theta: np.ndarray


class StatisticDraws(NamedTuple):
    """Draws, one per row, of the parameters, of the statistic behind a release, and of the number of records."""

    theta: np.ndarray  # (n_draws, n_params)
    statistic: np.ndarray  # (n_draws, n_statistics)
    n_records: np.ndarray  # (n_draws,)


def new_statistic_draws(n_draws, n_params, n_statistics):
    """Room for draws."""
    return StatisticDraws(np.zeros((n_draws, n_params)), np.zeros((n_draws, n_statistics)), np.zeros(n_draws))
