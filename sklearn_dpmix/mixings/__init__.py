"""Priors on partitions."""

from ._dirichlet import DirichletProcess
from ._finite_mixtures import MixtureOfFiniteMixtures
from ._pitman_yor import PitmanYor

__all__ = ["DirichletProcess", "MixtureOfFiniteMixtures", "PitmanYor"]
