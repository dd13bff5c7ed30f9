"""Estimators: validation, ``fit``, prediction from draws; no maths."""

from ._baselines import NaivePosterior, OnePosteriorSampling
from ._deconvolution import DeconvolutionKDE
from ._dp_mixture import PrivateDPMixture
from ._exp_family import PrivateExpFamilyGibbs
from ._naive_bayes import PrivateNaiveBayesDA
from ._posterior_da import PrivatePosteriorDA
from ._regression import PrivateLinearRegressionDA

__all__ = [
    "DeconvolutionKDE",
    "NaivePosterior",
    "OnePosteriorSampling",
    "PrivateDPMixture",
    "PrivateExpFamilyGibbs",
    "PrivateLinearRegressionDA",
    "PrivateNaiveBayesDA",
    "PrivatePosteriorDA",
]
