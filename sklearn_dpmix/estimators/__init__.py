"""Estimators: validation, ``fit``, prediction from draws; no maths."""

from ._dp_mixture import PrivateDPMixture

__all__ = ["PrivateDPMixture"]
