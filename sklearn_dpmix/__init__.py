"""Infer a population from what a differential-privacy mechanism released."""

import gc

_looks_for_garbage = gc.isenabled()
gc.disable()  # modules leave hardly any, and to look through all of them again and again takes a seventh of the time
try:
    from ._chains.auto_draws import AutoDraws
    from ._releases.summary import ReleaseSummary
    from .estimators.curator._baselines import NaivePosterior, OnePosteriorSampling
    from .estimators.curator._exp_family import PrivateExpFamilyGibbs
    from .estimators.curator._naive_bayes import PrivateNaiveBayesDA
    from .estimators.curator._posterior_da import PrivatePosteriorDA
    from .estimators.curator._regression import PrivateLinearRegressionDA
    from .estimators.mixture._deconvolution import DeconvolutionKDE
    from .estimators.mixture._dp_mixture import PrivateDPMixture
    from .estimators.mixture._dp_regressor import PrivateDPMixtureRegressor
    from .estimators.private._dp_barker import DPBarkerMCMC
    from .estimators.private._dp_hamiltonian import DPHamiltonianMC
    from .estimators.private._dp_logistic import DPLogisticRegressionMCMC
    from .estimators.private._dp_penalty import DPPenaltyMCMC
    from .estimators.simulation._abc import PrivateABC
    from .estimators.simulation._mcem import PrivateMCEM
finally:
    if _looks_for_garbage:
        gc.enable()

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
