"""What the data are: exponential families and their priors, models for DP-MCMC, simulators, and predictors' laws."""

from ._banana import Banana
from ._epidemic import StochasticSIR
from ._exponential_family import Family
from ._families import FAMILIES, Bernoulli, Beta, Exponential, Gamma, Multinomial, Normal, Poisson, resolve_family
from ._gaussian_mean import GaussianMean
from ._histogram_predictors import HistogramPredictors
from ._likelihood import LikelihoodModel
from ._linear_likelihood import LinearGaussianLikelihood, LogisticLikelihood
from ._normal_predictors import GaussianPredictors
from ._priors import BetaPrior, DirichletPrior, GammaPrior, GammaProductPrior, NormalInverseGammaPrior, Prior
from ._records import RecordModel
from ._regression_prior import RegressionPrior
from ._simulators import BinomialCount, NormalMoments, PoissonCount
from ._wide_priors import LogLogisticPrior, MeanPrecisionPrior, NormalCauchyPrior, WideDirichletPrior

__all__ = [
    "FAMILIES",
    "Banana",
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
    "GaussianMean",
    "GaussianPredictors",
    "HistogramPredictors",
    "LikelihoodModel",
    "LinearGaussianLikelihood",
    "LogLogisticPrior",
    "LogisticLikelihood",
    "MeanPrecisionPrior",
    "Multinomial",
    "Normal",
    "NormalCauchyPrior",
    "NormalInverseGammaPrior",
    "NormalMoments",
    "Poisson",
    "PoissonCount",
    "Prior",
    "RecordModel",
    "RegressionPrior",
    "StochasticSIR",
    "WideDirichletPrior",
    "resolve_family",
]
