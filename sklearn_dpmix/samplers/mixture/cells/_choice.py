"""The sampler of channels of cells: which one it is, the mechanism decides."""

from typing import Any

from .._sampler import MixtureSampler
from ._bins import Bins
from ._integrated_records import CellSampler
from ._sources import Sources


class Cells(CellSampler):
    """Gibbs over clusters, random-walk moves of parameters, splits and merges, all by g(z | θ).

    For Haar coefficients and binomial releases, with kernels that know steps of their parameters.  Exact.  On a
    histogram of all records it resolves to ``Bins``, or to ``Sources`` where no more draws were released than there are
    records.

    Parameters
    ----------
    n_moves : int, default=1
        Moves of each cluster's parameters in a sweep, each first in location, then in spread.
    n_split_merge : int, default=20
        Attempts to split or merge clusters in a sweep; about half of them where the release tells cells apart.

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
