"""Infer a population from what a differential-privacy mechanism released."""

from .estimators import DeconvolutionKDE, PrivateDPMixture

__all__ = ["DeconvolutionKDE", "PrivateDPMixture"]
__version__ = "0.1.0.dev0"
