"""Privacy mechanisms: what was released, with which law, under which guarantee."""

from .._compiled import compiled
from ._additive import AdditiveMechanism
from ._binned import BinnedChannel
from ._binomial import BinomialMechanism
from ._channel import NoNoise, RecordChannel
from ._discrete_gaussian import DiscreteGaussianMechanism
from ._discrete_laplace import DiscreteLaplaceMechanism
from ._gaussian import GaussianMechanism
from ._haar import HaarWaveletMechanism
from ._histogram import PerturbedHistogramMechanism, SmoothedHistogramMechanism
from ._laplace import LaplaceMechanism
from ._randomized_response import RandomizedResponseMechanism

__all__ = [
    "AdditiveMechanism",
    "BinnedChannel",
    "BinomialMechanism",
    "DiscreteGaussianMechanism",
    "DiscreteLaplaceMechanism",
    "GaussianMechanism",
    "HaarWaveletMechanism",
    "LaplaceMechanism",
    "NoNoise",
    "PerturbedHistogramMechanism",
    "RandomizedResponseMechanism",
    "RecordChannel",
    "SmoothedHistogramMechanism",
    "compiled",
]
