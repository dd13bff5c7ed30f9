"""Statistics that know their sensitivity: what a curator releases with noise.

Most are record-additive, Σ t(record).  Give one to a mechanism, as in
``LaplaceMechanism(epsilon=1.0, query=RegressionMoments(...))``.  The noise is calibrated by
``query.sensitivity(norm)``, exact for each query here: some pair of neighbours attains it.

A median or a trimmed mean is not a sum, and its sensitivity depends on the data: ``SmoothMedian`` and
``SmoothTrimmedMean`` work with ``SmoothLaplaceMechanism`` and the like."""

from ._bounded import BoundedRecords
from ._counts import ClassFeatureCounts
from ._noisy_count import NoisyCount
from ._private_bounds import private_bounds, private_quantile
from ._query import Query
from ._regression_query import RegressionMoments
from ._smooth_queries import SmoothMedian, SmoothQuery, SmoothTrimmedMean
from ._sufficient import SufficientStatistics

__all__ = [
    "BoundedRecords",
    "ClassFeatureCounts",
    "NoisyCount",
    "Query",
    "RegressionMoments",
    "SmoothMedian",
    "SmoothQuery",
    "SmoothTrimmedMean",
    "SufficientStatistics",
    "private_bounds",
    "private_quantile",
]
