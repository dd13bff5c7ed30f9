"""Samplers: of mixture posteriors, of simulators' parameters (``...ABC``), of private chains' starts, and a private
normal approximation."""

from ._abc_importance import ImportanceABC
from ._abc_markov import MarkovABC
from ._abc_rejection import RejectionABC
from ._abc_sequential import SequentialABC
from ._auto import Auto
from ._base import MixtureSampler
from ._bins import Bins
from ._cells import Cells
from ._collapsed import Neal2, Neal3
from ._conditional import Conditional, Slice
from ._dp_optimum import PrivateNewton
from ._imputed import Imputed
from ._interweaved import Interweaved
from ._jain_neal import JainNeal
from ._measure import MixingMeasure
from ._neal5 import Neal5
from ._neal8 import Neal8
from ._normal_approximation import PrivateNormalApproximation
from ._reuse import ReUse
from ._sources import Sources
from ._surrogate import Surrogate

__all__ = [
    "Auto",
    "Bins",
    "Cells",
    "Conditional",
    "ImportanceABC",
    "Imputed",
    "Interweaved",
    "JainNeal",
    "MarkovABC",
    "MixingMeasure",
    "MixtureSampler",
    "Neal2",
    "Neal3",
    "Neal5",
    "Neal8",
    "PrivateNewton",
    "PrivateNormalApproximation",
    "ReUse",
    "RejectionABC",
    "SequentialABC",
    "Slice",
    "Sources",
    "Surrogate",
]
