"""Releases of a histogram of all records: draws from a smoothed one, or noisy counts (Beraha et al., §5, App. C).

Given the other records, one record's effect on such a release is flat on bins, so the channel of a single record is a
:class:`BinnedChannel` whose table changes as records move.  A chain keeps that table: row 0 has the weight q(Z | one
more record in the bin)/q(Z | no more), row 1 the number of imputed records in each bin, row 2 what was released.
"""

from math import exp

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled
from .._base.parameters import check_array, positive_integer
from .._base.typing import Array, Floats
from ._binned import BinnedChannel

RELEASED = 2  # the row of the table


class HistogramMechanism(BinnedChannel):
    """Base class of mechanisms whose release depends on the counts of records in ``n_bins`` bins.

    A subclass defines ``released(Z)``, what was released for each bin; the compiled ``log_released(self, table, b,
    count)``, the log density of that with ``count`` records in bin b, up to a constant; and its constants in
    ``_fields()``.
    """

    is_local = False
    is_histogram = True

    def check(self, n_features: int | None = None) -> None:
        self.bounds_for(1)
        self.positive_integer("n_bins")
        self.positive_integer("n_records")

    def positive_integer(self, name: str) -> int:
        """A parameter that must be a positive integer."""
        return positive_integer(f"{name} of {type(self).__name__}", getattr(self, name), most=2**31)

    def _release(self, Z):
        """As a column."""
        Z = check_array(Z, dtype=np.float64, ensure_2d=False, input_name="Z", estimator=type(self).__name__)
        return Z.reshape(-1, 1)

    def _records(self, X):
        self.check()
        return super()._records(X)

    def counts(self, X: ArrayLike) -> Array:
        """Records in each bin."""
        X = self._records(X)
        if len(X) != self.positive_integer("n_records"):
            raise ValueError(f"X has {len(X)} records, but n_records={self.n_records!r}: they must agree")
        return np.bincount(self.bin_of(X[:, 0]), minlength=self.n_bins).astype(np.float64)

    def encode(self, Z: Array) -> Array:
        """The table that a chain starts from."""
        self.check_loss(self.guarantee().epsilon)
        table = np.zeros((3, self.n_bins + 1))
        table[RELEASED, :-1] = self.released(Z)
        return table

    def proportions(self, Z: Array) -> Array:
        """Approximate proportions of records in each bin, by the release and ``_more()`` in all bins alike."""
        released = np.maximum(self.released(Z), 0.0) + self._more() / self.n_bins
        return released / released.sum()

    def _more(self):
        """How many counts to add, spread evenly: of few draws, or much noise, all may be in one bin."""
        return 1.0

    def moments(self, Z: Array) -> tuple[Floats, Floats]:
        p, centres = self.proportions(Z), self.centres()
        width = np.diff(self.bounds_for(1)[0]).item() / self.n_bins
        mean = p @ centres
        return np.array([mean]), np.array([p @ (centres - mean) ** 2 + width**2 / 12.0])

    def guess(self, Z: Array) -> Floats | None:
        levels = (np.arange(self.n_records) + 0.5) / self.n_records
        bins = np.searchsorted(np.cumsum(self.proportions(Z)), levels)
        return self.centres()[np.minimum(bins, self.n_bins - 1)][:, None]

    @compiled
    def row(self, i):
        return 0

    @compiled
    def take_off(self, Z, records, i):
        self.count(Z, self.bin(records[i, 0, 0]), -1.0)

    @compiled
    def put_on(self, Z, records, i):
        self.count(Z, self.bin(records[i, 0, 0]), 1.0)

    @compiled
    def count(self, table, b, change):
        """One record more or less in bin b, in O(1)."""
        table[1, b] += change
        now = table[1, b]
        table[0, b] = exp(self.log_released(table, b, now + 1.0) - self.log_released(table, b, now))
