"""What the data are: exponential families, each with its sufficient statistic."""

from ._base import Family
from ._families import (
    FAMILIES,
    Bernoulli,
    Beta,
    Exponential,
    Gamma,
    Multinomial,
    Normal,
    Poisson,
    resolve_family,
)
from ._records import RecordModel
from ._regression import GaussianPredictors, RegressionPrior

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Beta",
    "Exponential",
    "Family",
    "Gamma",
    "GaussianPredictors",
    "Multinomial",
    "Normal",
    "Poisson",
    "RecordModel",
    "RegressionPrior",
    "resolve_family",
]
