"""The sum of bounded records."""

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import numbers, positive_integer
from .._base.typing import Array, Floats
from ..models._exponential_family import length
from ._query import Query, as_records, named_bounds


class BoundedRecords(Query):
    """Sum of the records, each moved to the bound if it is outside.

    Sensitivity under replacement is the bounds' diameter, Σ(hi - lo) in L1 and √Σ(hi - lo)² in L2, which two opposite
    corners attain; if a record is added or removed, it is the norm of the corner that is furthest from 0.

    Parameters
    ----------
    bounds : pair (lo, hi), or one per feature
        Public bounds, in the records' unit.
    n_features : int, default=1
        Columns of the records.
    neighbours : {"replace", "add_remove"}, default="replace"
        What the guarantee is about.

    Raises
    ------
    ValueError
        On use, for bounds that are reversed, not finite or not one pair per feature; for records that do not fit.

    References
    ----------
    Dwork, McSherry, Nissim, Smith (2006).

    Examples
    --------
    >>> from sklearn_dpmix.queries import BoundedRecords
    >>> query = BoundedRecords([(0, 1), (-3, 1)], n_features=2)
    >>> query.value([[0.5, 0.0], [7.0, -9.0]])
    array([ 1.5, -3. ])
    >>> query.sensitivity(norm=1), query.sensitivity(norm=1, neighbours="add_remove")
    (5.0, 4.0)
    """

    def __init__(self, bounds: ArrayLike, n_features: int = 1, *, neighbours: str = "replace") -> None:
        self.bounds = bounds
        self.n_features = n_features
        self.neighbours = neighbours

    @property
    def n_statistics(self) -> int:
        return positive_integer("n_features", self.n_features)

    def check(self) -> None:
        super().check()
        self._bounds()

    def _bounds(self):
        """(lo, hi), each of shape (n_features,)."""
        n_features = positive_integer("n_features", self.n_features)
        pairs = numbers(self.bounds)
        if pairs is not None and pairs.ndim == 2 and len(pairs) != n_features:
            raise ValueError(
                f"bounds={self.bounds!r} has {len(pairs)} pair(s), but n_features={n_features}: give one pair "
                f"(lo, hi), or n_features={len(pairs)}"
            )
        return named_bounds("bounds", self.bounds, n_features).T

    def contributions(self, records: ArrayLike) -> Array:
        super().check()
        lo, hi = self._bounds()
        return np.clip(as_records(records, len(lo), "the features"), lo, hi)

    def _reach(self, norm, relation):
        lo, hi = self._bounds()
        return length(hi - lo if relation == "replace" else np.maximum(np.abs(lo), np.abs(hi)), norm)

    def entry_moves(self) -> Floats | None:
        for name in ("contributions", "value", "sensitivity", "_reach"):  # what is true here may not be of a subclass
            if getattr(type(self), name) is not getattr(BoundedRecords, name):
                return None
        lo, hi = self._bounds()
        return np.array([lo - hi, hi - lo] if self.neighbours == "replace" else [lo, hi])

    def statistic_names(self) -> list[str]:
        return [f"sum(x{j + 1})" for j in range(self.n_statistics)]
