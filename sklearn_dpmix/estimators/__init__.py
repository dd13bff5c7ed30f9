"""Estimators: validation, ``fit``, prediction from draws; no maths."""

from ._abc import PrivateABC
from ._auto_draws import AutoDraws
from ._baselines import NaivePosterior, OnePosteriorSampling
from ._deconvolution import DeconvolutionKDE
from ._dp_barker import DPBarkerMCMC
from ._dp_hamiltonian import DPHamiltonianMC
from ._dp_logistic import DPLogisticRegressionMCMC
from ._dp_mixture import PrivateDPMixture
from ._dp_penalty import DPPenaltyMCMC
from ._dp_regressor import PrivateDPMixtureRegressor
from ._exp_family import PrivateExpFamilyGibbs
from ._mcem import PrivateMCEM
from ._naive_bayes import PrivateNaiveBayesDA
from ._posterior_da import PrivatePosteriorDA
from ._regression import PrivateLinearRegressionDA

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
]
