"""The sampler for channels of cells; the mechanism decides which one it is."""

from typing import Any

from .._sampler import MixtureSampler
from ._bins import Bins
from ._integrated_records import CellSampler
from ._sources import Sources


class Cells(CellSampler):
    """Gibbs over clusters, random-walk moves of parameters, splits and merges, all by g(z | θ).

    It is for channels of cells (Haar coefficients, binomial counts under beta kernels), with kernels that define steps
    of their parameters, and is exact; ``MixingMeasure`` mixes better where it takes them.  On a histogram of all
    records it resolves to ``Bins``, or to ``Sources`` if no more draws were released than there are records.

    Parameters
    ----------
    n_moves : int, default=1
        Moves of each cluster's parameters in a sweep; each move is first in location, then in spread.
    n_split_merge : int, default=20
        Attempts to split or merge clusters in a sweep; down to about half as many if the release tells cells apart.

    References
    ----------
    Favaro & Teh (2013) for the pool of empty clusters; Beraha, Favaro, Rao, §3.3, on integrating records out.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Cells
    >>> Cells(n_moves=4)
    Cells(n_moves=4)
    """

    def resolve(self, mechanism: Any, kernel: Any, mixing: Any = None) -> "MixtureSampler":
        if mechanism is None or not mechanism.is_histogram:
            return self
        few = mechanism.has_sources and mechanism.n_released <= mechanism.n_records
        return (Sources if few else Bins)(**self.get_params())
