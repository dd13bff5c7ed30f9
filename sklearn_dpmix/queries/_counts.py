"""Class-by-feature tables of counts: what naive Bayes needs (Ju et al. 2022, §4.1)."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import numbers, positive_integer
from .._base.typing import Array, Floats
from ._query import Query, as_records


class ClassFeatureCounts(Query):
    """Number of records of each class with each value of a feature: one table per feature.

    A record adds 1 to one cell of each of the K tables.  A record of another class, put in its place, adds only to
    other cells.  So the sensitivity under replacement is exactly 2K in L1 and √(2K) in L2, and it is K and √K if a
    record is added or removed.  Class counts are margins of each table and are not released again.

    Parameters
    ----------
    n_classes : int
        Classes 0, 1, ..., n_classes - 1; at least 2.
    n_values : int, or sequence of int of length n_features
        Values of a feature: 0, 1, ..., n_values - 1.
    n_features : int, optional
        K.  Needed if ``n_values`` is one number.
    neighbours : {"replace", "add_remove"}, default="replace"
        What the guarantee is about.

    Notes
    -----
    Records are rows (feature_1, ..., feature_K, class) of integers.  The value is the tables one after another, each
    class-major: entry (class, value) of a table is at position class × n_values + value.

    Raises
    ------
    ValueError
        On use, for a wrong parameter; for records that are not such integers.

    References
    ----------
    Ju, Awan, Gong, Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data", §4.1.

    Examples
    --------
    >>> from sklearn_dpmix.queries import ClassFeatureCounts
    >>> query = ClassFeatureCounts(n_classes=2, n_values=[2, 3])
    >>> query.value([[1, 2, 0], [1, 0, 0], [0, 2, 1]])
    array([0., 2., 1., 0., 1., 0., 1., 0., 0., 1.])
    >>> query.sensitivity(norm=1)
    4.0
    >>> query.statistic_names()[:3]
    ['count(class=0, x1=0)', 'count(class=0, x1=1)', 'count(class=1, x1=0)']
    """

    def __init__(
        self,
        n_classes: int,
        n_values: int | Sequence[int],
        n_features: int | None = None,
        *,
        neighbours: str = "replace",
    ) -> None:
        self.n_classes = n_classes
        self.n_values = n_values
        self.n_features = n_features
        self.neighbours = neighbours

    @property
    def n_statistics(self) -> int:
        n_classes, n_values = self._sizes()
        return n_classes * sum(n_values)

    def statistic_names(self) -> list[str]:
        n_classes, n_values = self._sizes()
        return [
            f"count(class={c}, x{k + 1}={v})" for k, size in enumerate(n_values) for c in range(n_classes)
            for v in range(size)
        ]  # fmt: skip

    def check(self) -> None:
        super().check()
        self._sizes()

    def _sizes(self):
        """(n_classes, list of the number of values of each feature)."""
        n_classes = positive_integer("n_classes", self.n_classes, least=2)
        n_features = None if self.n_features is None else positive_integer("n_features", self.n_features)
        sizes = numbers(self.n_values)
        if sizes is None or sizes.ndim == 0:
            size = positive_integer("n_values", self.n_values)
            if n_features is None:
                raise ValueError(
                    "n_features must be given if n_values is one number for all, got n_features=None with "
                    f"n_values={self.n_values!r}; or give n_values as one number per feature"
                )
            return n_classes, [size] * n_features
        if sizes.ndim != 1 or len(sizes) != (n_features or max(len(sizes), 1)):
            raise ValueError(
                f"n_values must be a number, or one per feature, got n_values={self.n_values!r} with "
                f"n_features={self.n_features!r}: leave n_features out, or make them agree"
            )
        return n_classes, [positive_integer("n_values", size) for size in self.n_values]

    def _cells(self, records):
        """The cells in which each record counts: integers of shape (n_records, n_features)."""
        self.check()
        n_classes, n_values = self._sizes()
        records = as_records(records, len(n_values) + 1, "the features and then the class")
        sizes = np.array([*n_values, n_classes])
        wrong = np.argwhere((records != np.floor(records)) | (records < 0) | (records >= sizes))
        if len(wrong):
            row, column = wrong[0].tolist()
            what = "n_classes" if column == len(n_values) else f"n_values of x{column + 1}"
            raise ValueError(
                f"records must hold integers from 0 to {sizes[column] - 1} in column {column} ({what} is "
                f"{sizes[column]}), got {float(records[row, column])} at position {(row, column)}: encode them, e.g. "
                "by scikit-learn's OrdinalEncoder"
            )
        records = records.astype(np.intp)
        starts = n_classes * np.cumsum([0, *n_values[:-1]])
        return starts + records[:, -1:] * sizes[:-1] + records[:, :-1]

    def contributions(self, records: ArrayLike) -> Array:
        cells = self._cells(records)
        contributions = np.zeros((len(cells), self.n_statistics))
        np.put_along_axis(contributions, cells, 1.0, axis=1)
        return contributions

    def value(self, records: ArrayLike) -> Floats:
        return np.bincount(self._cells(records).ravel(), minlength=self.n_statistics).astype(np.float64)

    def _reach(self, norm, relation):
        changed = len(self._sizes()[1]) * (2 if relation == "replace" else 1)
        return changed if norm == 1 else np.sqrt(changed)
