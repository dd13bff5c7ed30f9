"""Privacy mechanisms: what was released, with which law, under which guarantee."""

from .._compiled import compiled
from ._additive import AdditiveMechanism
from ._channel import NoNoise, RecordChannel
from ._gaussian import GaussianMechanism
from ._laplace import LaplaceMechanism

__all__ = ["AdditiveMechanism", "GaussianMechanism", "LaplaceMechanism", "NoNoise", "RecordChannel", "compiled"]
