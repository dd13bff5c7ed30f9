"""Infer a population from what a differential-privacy mechanism released."""

from .estimators import DeconvolutionKDE, PrivateDPMixture, PrivateLinearRegressionDA

__all__ = ["DeconvolutionKDE", "PrivateDPMixture", "PrivateLinearRegressionDA"]
__version__ = "0.1.0.dev0"
