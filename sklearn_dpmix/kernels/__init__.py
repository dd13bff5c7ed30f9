"""Mixture kernels: the density of a record in a cluster, and the base measure of the cluster's parameters."""

from ._beta import BetaKernel
from ._categorical import CategoricalKernel
from ._convolved import ConvolvedNormalKernel
from ._kernel import Kernel
from ._multivariate_normal import MultivariateNormalKernel
from ._normal import NormalKernel
from ._truncated_normal import TruncatedNormalKernel

__all__ = [
    "BetaKernel",
    "CategoricalKernel",
    "ConvolvedNormalKernel",
    "Kernel",
    "MultivariateNormalKernel",
    "NormalKernel",
    "TruncatedNormalKernel",
]
