"""Estimators: validation, ``fit``, prediction from draws; no maths."""

from .._chains.auto_draws import AutoDraws
from .curator._baselines import NaivePosterior, OnePosteriorSampling
from .curator._exp_family import PrivateExpFamilyGibbs
from .curator._naive_bayes import PrivateNaiveBayesDA
from .curator._posterior_da import PrivatePosteriorDA
from .curator._regression import PrivateLinearRegressionDA
from .mixture._deconvolution import DeconvolutionKDE
from .mixture._dp_mixture import PrivateDPMixture
from .mixture._dp_regressor import PrivateDPMixtureRegressor
from .private._dp_barker import DPBarkerMCMC
from .private._dp_hamiltonian import DPHamiltonianMC
from .private._dp_logistic import DPLogisticRegressionMCMC
from .private._dp_penalty import DPPenaltyMCMC
from .simulation._abc import PrivateABC
from .simulation._mcem import PrivateMCEM

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
