"""What the data are: exponential families, each with its sufficient statistic."""

from ._base import Family
from ._epidemic import StochasticSIR
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
from ._simulators import BinomialCount, NormalMoments, PoissonCount

__all__ = [
    "FAMILIES",
    "Bernoulli",
    "Beta",
    "BetaPrior",
    "BinomialCount",
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
    "NormalMoments",
    "Poisson",
    "PoissonCount",
    "Prior",
    "RecordModel",
    "RegressionPrior",
    "StochasticSIR",
    "resolve_family",
]
