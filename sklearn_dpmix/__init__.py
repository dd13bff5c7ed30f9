"""Infer a population from what a differential-privacy mechanism released."""

from .estimators import (
    DeconvolutionKDE,
    NaivePosterior,
    OnePosteriorSampling,
    PrivateABC,
    PrivateDPMixture,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
    PrivateMCEM,
    PrivateNaiveBayesDA,
    PrivatePosteriorDA,
)

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
__version__ = "0.1.0.dev0"
