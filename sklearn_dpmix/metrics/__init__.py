"""Distances between densities and between samples, and tests of whether posteriors are calibrated."""

from ._density_distance import hellinger_distance, integrated_squared_error
from ._mmd import mmd
from ._simulated_ranks import Coverage, coverage, posterior_ranks
from ._uniformity import RankUniformity, rank_uniformity

__all__ = [
    "Coverage",
    "RankUniformity",
    "coverage",
    "hellinger_distance",
    "integrated_squared_error",
    "mmd",
    "posterior_ranks",
    "rank_uniformity",
]
