"""Record-additive statistics Σ t(record) that know their sensitivity: what a curator releases with noise.

Give one to a mechanism, as in ``LaplaceMechanism(epsilon=1.0, query=RegressionMoments(...))``.  The noise is calibrated
by ``query.sensitivity(norm)``, exact for each query here: some pair of neighbours attains it.
"""

from ._base import Query
from ._bounded import BoundedRecords
from ._counts import ClassFeatureCounts
from ._noisy_count import NoisyCount
from ._private_bounds import private_bounds, private_quantile
from ._regression import RegressionMoments
from ._sufficient import SufficientStatistics

__all__ = [
    "BoundedRecords",
    "ClassFeatureCounts",
    "NoisyCount",
    "Query",
    "RegressionMoments",
    "SufficientStatistics",
    "private_bounds",
    "private_quantile",
]
