"""Infer a population from what a differential-privacy mechanism released."""

from ._releases.summary import ReleaseSummary
from .estimators import (
    AutoDraws,
    DeconvolutionKDE,
    DPBarkerMCMC,
    DPHamiltonianMC,
    DPLogisticRegressionMCMC,
    DPPenaltyMCMC,
    NaivePosterior,
    OnePosteriorSampling,
    PrivateABC,
    PrivateDPMixture,
    PrivateDPMixtureRegressor,
    PrivateExpFamilyGibbs,
    PrivateLinearRegressionDA,
    PrivateMCEM,
    PrivateNaiveBayesDA,
    PrivatePosteriorDA,
)

__all__ = [
    "AutoDraws",
    "DPBarkerMCMC",
    "DPHamiltonianMC",
    "DPLogisticRegressionMCMC",
    "DPPenaltyMCMC",
    "DeconvolutionKDE",
    "NaivePosterior",
    "OnePosteriorSampling",
    "PrivateABC",
    "PrivateDPMixture",
    "PrivateDPMixtureRegressor",
    "PrivateExpFamilyGibbs",
    "PrivateLinearRegressionDA",
    "PrivateMCEM",
    "PrivateNaiveBayesDA",
    "PrivatePosteriorDA",
    "ReleaseSummary",
]
__version__ = "0.1.0.dev0"
