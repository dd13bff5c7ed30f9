"""Samplers for mixture posteriors and simulators (``...ABC``), starts of private chains, a normal approximation."""

from .mixture._auto import Auto
from .mixture._collapsed import Neal2, Neal3
from .mixture._conditional import Conditional, Slice
from .mixture._imputed import Imputed
from .mixture._interweaved import Interweaved
from .mixture._jain_neal import JainNeal
from .mixture._neal5 import Neal5
from .mixture._neal8 import Neal8
from .mixture._reuse import ReUse
from .mixture._sampler import MixtureSampler
from .mixture.cells._bins import Bins
from .mixture.cells._choice import Cells
from .mixture.cells._sources import Sources
from .mixture.measure._walk import MixingMeasure
from .private._newton import PrivateNewton
from .private._normal_approximation import PrivateNormalApproximation
from .simulation._abc_importance import ImportanceABC
from .simulation._abc_markov import MarkovABC
from .simulation._abc_rejection import RejectionABC
from .simulation._abc_sequential import SequentialABC

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
]
