"""Estimators: validation, ``fit``, prediction from draws; no maths."""

from ._deconvolution import DeconvolutionKDE
from ._dp_mixture import PrivateDPMixture
from ._regression import PrivateLinearRegressionDA

__all__ = ["DeconvolutionKDE", "PrivateDPMixture", "PrivateLinearRegressionDA"]
