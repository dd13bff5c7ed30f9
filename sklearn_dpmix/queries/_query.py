"""The base class of queries, and the checks that they share."""

import numpy as np
from numpy.typing import ArrayLike

from .._base.one_line import OneLine
from .._base.parameters import check_bounds, has_masked, numbers
from .._base.typing import Array, Floats

#: Which inputs are neighbours: one record is replaced by another, or one is added or removed.
RELATIONS = ("replace", "add_remove")


class Query(OneLine):
    """Statistic Σ_i t(record_i) of confidential records, with its sensitivity.

    A query of your own defines ``contributions(records)``, the t(record_i) as an array of shape
    (n_records, n_statistics), and ``sensitivity(norm)``, which must hold for *every* record, outliers included: privacy
    rests on it.  Parameters are stored untouched, as in any scikit-learn object.

    Attributes
    ----------
    neighbours : {"replace", "add_remove"}
        The relation for which the sensitivity, and so the mechanism's guarantee, holds.
    n_statistics : int or None
        Length of the value; None if a query of your own does not define it.

    References
    ----------
    Ju, Awan, Gong, Rao (2022), §2.3, Definition of record-additivity; Dwork, McSherry, Nissim, Smith (2006) for
    sensitivity.

    Examples
    --------
    The number of records above a threshold: one record changes it by at most 1, in any norm.

    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.queries import Query
    >>> class NumberAbove(Query):
    ...     def __init__(self, threshold=0.0):
    ...         self.threshold = threshold
    ...
    ...     def contributions(self, records):
    ...         return (np.asarray(records)[:, :1] > self.threshold).astype(float)
    ...
    ...     def sensitivity(self, norm=1, neighbours=None):
    ...         return 1.0
    >>> query = NumberAbove(threshold=1.5)
    >>> query.value([[1.0], [2.0], [3.0]])
    array([2.])
    >>> LaplaceMechanism(epsilon=0.5, query=query).noise_scale
    2.0
    """

    neighbours = "replace"

    @property
    def n_statistics(self) -> int | None:
        return None

    def check(self) -> None:
        """Raise ValueError or TypeError if a parameter is wrong."""
        check_relation(self.neighbours)

    def contributions(self, records: ArrayLike) -> Array:
        """Return the contribution t(record) of each record.

        Parameters
        ----------
        records : array-like of shape (n_records, n_columns)
            Confidential records.  One column may be left out: (n_records,).

        Returns
        -------
        contributions : ndarray of shape (n_records, n_statistics)

        Raises
        ------
        ValueError
            For a wrong parameter, and for records of a wrong shape, not finite or impossible.
        """
        raise TypeError(
            f"{type(self).__name__} must define contributions(self, records): (n, ...) -> (n, n_statistics)"
        )

    def value(self, records: ArrayLike) -> Floats:
        """Return the sum of the contributions, before noise.

        Parameters
        ----------
        records : array-like of shape (n_records, n_columns)
            Confidential records.

        Returns
        -------
        value : ndarray of shape (n_statistics,)

        Raises
        ------
        ValueError
            If :meth:`contributions` raises it; for contributions that are not one row per record, or not finite.
        """
        contributions, n = np.asarray(self.contributions(records), dtype=np.float64), np.shape(records)[0]
        if contributions.ndim != 2 or len(contributions) != n:
            raise ValueError(
                f"{type(self).__name__}.contributions(records) must have shape (n_records, n_statistics) with {n} "
                f"rows, got {contributions.shape}: one row per record"
            )
        total = contributions.sum(axis=0)
        if not np.all(np.isfinite(total)):
            raise ValueError(
                f"{type(self).__name__}.contributions(records) have a sum that is not finite, which noise cannot hide: "
                "every contribution must be finite, and so must their sum"
            )
        return total

    def sensitivity(self, norm: int = 1, neighbours: str | None = None) -> float:
        """Return how far one record can change the value: max ‖t(x) - t(x')‖ over records, or max ‖t(x)‖.

        It is the former if a record is replaced, and the latter if one is added or removed.

        Parameters
        ----------
        norm : {1, 2}, default=1
            L1 (what Laplace noise needs) or L2 (Gaussian).
        neighbours : {"replace", "add_remove"}, optional
            None: the query's own ``neighbours``.

        Returns
        -------
        sensitivity : float

        Raises
        ------
        ValueError
            For a wrong parameter, and if nothing bounds the sensitivity.
        """
        self.check()
        if not isinstance(norm, (int, float, np.number)) or norm not in (1, 2):
            raise ValueError(f"norm must be 1 or 2, got norm={norm!r}: Laplace noise needs 1, Gaussian noise 2")
        relation = self.neighbours if neighbours is None else check_relation(neighbours)
        with np.errstate(over="ignore"):  # refused below
            reach = float(self._reach(int(norm), relation))
        if not np.isfinite(reach):
            raise ValueError(f"{self!r} has sensitivity {reach}: bounds must be narrow enough for floating point")
        return reach

    def _reach(self, norm, relation):
        """The sensitivity, after parameters have been checked."""
        raise TypeError(f"{type(self).__name__} must define sensitivity(self, norm=1, neighbours=None)")

    def entry_moves(self) -> Floats | None:
        """Return the least and the most that one record can change each number, (2, n_statistics); None: not known.

        With it, noise that differs between numbers has a smaller ε than Δ₂ alone would say.
        """
        return None

    def statistic_names(self) -> list[str]:
        """Return the name of each entry of the value: a list of n_statistics str."""
        if self.n_statistics is None:
            raise ValueError(f"{type(self).__name__} must define n_statistics for its statistics to have names")
        return [f"statistic_{j}" for j in range(self.n_statistics)]


def check_relation(neighbours):
    """Return a neighbour relation, or raise ValueError."""
    if not isinstance(neighbours, str) or neighbours not in RELATIONS:
        raise ValueError(
            f'neighbours must be "replace" (one record for another) or "add_remove" (one more or less), got '
            f"neighbours={neighbours!r}"
        )
    return neighbours


def named_bounds(name, bounds, n_features):
    """Return the bounds of a parameter called ``name`` as an array of shape (n_features, 2)."""
    try:
        return check_bounds(bounds, n_features)
    except ValueError as error:
        raise ValueError(f"{name}={bounds!r}: {error}") from None


def as_records(records, n_columns, columns):
    """Return records as finite floats of shape (n_records, n_columns), or raise ValueError.

    ``columns`` says what the columns are.
    """
    array = numbers(records)
    if array is None:
        array = _truths(records)
    if array is None:
        raise ValueError(
            f"records must be numbers, got {_kind(records)}: encode text and categories as numbers, drop rows with "
            "masked or missing entries"
        )
    if array.ndim == 1 and n_columns == 1:
        array = array[:, None]
    if array.ndim != 2 or array.shape[1] != n_columns:
        raise ValueError(
            f"records must have shape (n_records, {n_columns}), {columns}, got shape {array.shape}: one row per record"
        )
    wrong = np.argwhere(~np.isfinite(array))
    if len(wrong):
        first = tuple(wrong[0].tolist())
        raise ValueError(f"records must be finite, got {float(array[first])} at position {first}: impute or drop it")
    return array


def _kind(records):
    """Say what records are that are not numbers, without their values, which may be confidential."""
    what = f"a {type(records).__name__}"
    if has_masked(records):
        return f"{what} with masked entries"
    try:
        array = np.asarray(records)
    except ValueError:  # rows of different lengths
        return f"{what} of rows of different lengths"
    held = {type(one).__name__ for one in array.flat} if array.dtype == object else {array.dtype.type.__name__}
    return f"{what} of shape {array.shape} that holds {', '.join(sorted(held))}"


def _truths(records):
    """True and False as 1.0 and 0.0; None for anything else."""
    if has_masked(records):
        return None
    try:
        array = np.asarray(records)
    except ValueError:  # rows of different lengths
        return None
    return array.astype(np.float64) if array.dtype.kind == "b" else None
