"""Infer a population from what a differential-privacy mechanism released."""

from .estimators import PrivateDPMixture

__all__ = ["PrivateDPMixture"]
__version__ = "0.1.0.dev0"
