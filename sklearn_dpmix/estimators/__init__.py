"""Estimators: validation, ``fit``, prediction from draws; no maths."""

from ._abc import PrivateABC
from ._baselines import NaivePosterior, OnePosteriorSampling
from ._deconvolution import DeconvolutionKDE
from ._dp_mixture import PrivateDPMixture
from ._exp_family import PrivateExpFamilyGibbs
from ._mcem import PrivateMCEM
from ._naive_bayes import PrivateNaiveBayesDA
from ._posterior_da import PrivatePosteriorDA
from ._regression import PrivateLinearRegressionDA

__all__ = [
    "DeconvolutionKDE",
    "NaivePosterior",
    "OnePosteriorSampling",
    "PrivateABC",
    "PrivateDPMixture",
    "PrivateExpFamilyGibbs",
    "PrivateLinearRegressionDA",
    "PrivateMCEM",
    "PrivateNaiveBayesDA",
    "PrivatePosteriorDA",
]
