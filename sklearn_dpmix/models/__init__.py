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
from ._priors import BetaPrior, DirichletPrior, GammaPrior, GammaProductPrior, NormalInverseGammaPrior, Prior
from ._records import RecordModel
from ._regression_prior import GaussianPredictors, RegressionPrior

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Beta",
    "BetaPrior",
    "DirichletPrior",
    "Exponential",
    "Family",
    "Gamma",
    "GammaPrior",
    "GammaProductPrior",
    "GaussianPredictors",
    "Multinomial",
    "Normal",
    "NormalInverseGammaPrior",
    "Poisson",
    "Prior",
    "RecordModel",
    "RegressionPrior",
    "resolve_family",
]
