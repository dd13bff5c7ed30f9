"""Displays in scikit-learn's style: posteriors, what privacy costs, and whether chains and posteriors are right.

Each class keeps the numbers that it plots; ``from_...`` computes and plots them, and ``plot`` plots them again.  They
need matplotlib (the extra ``[plot]``), which is imported when something is plotted.
"""

from ._calibration_display import CalibrationDisplay
from ._coefficients import CoefficientDisplay
from ._density_display import DensityDisplay
from ._privacy_utility import PrivacyUtilityDisplay
from ._rank import RankDisplay
from ._similarity import SimilarityDisplay
from ._trace import TraceDisplay

__all__ = [
    "CalibrationDisplay",
    "CoefficientDisplay",
    "DensityDisplay",
    "PrivacyUtilityDisplay",
    "RankDisplay",
    "SimilarityDisplay",
    "TraceDisplay",
]
