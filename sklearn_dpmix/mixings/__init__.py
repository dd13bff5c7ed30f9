"""Priors on partitions."""

from ._dirichlet import DirichletProcess
from ._finite import MixtureOfFiniteMixtures
from ._pitman_yor import PitmanYor

__all__ = ["DirichletProcess", "MixtureOfFiniteMixtures", "PitmanYor"]
