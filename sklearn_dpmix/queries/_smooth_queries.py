"""Queries whose noise depends on the data: the median and trimmed means, with their smooth sensitivity."""

from math import exp
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.one_line import OneLine
from .._base.parameters import check_bounds, numbers, positive_number
from ._query import as_records

#: Numbers of simulated data sets that are sorted at a time: as many as fit into a processor's cache
CHUNK = 1 << 18
#: The smooth sensitivity never falls below this share of its largest value, since otherwise it could underflow to no
#: noise at all.  A constant does not change between neighbours, and the larger of two smooth functions is smooth.
FLOOR = 1e-100


class SmoothQuery(OneLine):
    """One number of a data set, not a sum over records, that knows its smooth sensitivity.

    Neighbours replace one record by another; the number of records n is public.  The local sensitivity LS(x) is how far
    one replacement can change the value of x.  The ξ-smooth sensitivity SS_ξ(x) = max over x' of exp(-ξ d(x, x'))
    LS(x'), where d is the number of records that differ, bounds LS and changes by a factor of at most e^ξ between
    neighbours.  The noise of :class:`SmoothLaplaceMechanism` and the like is calibrated to it.

    A query of your own defines ``value(X)`` -> (1,) and ``smooth_sensitivity(X, xi)`` -> float, which must be positive
    and have both properties for *every* data set; and, if possible, ``smallest_smooth_sensitivity(n, xi)``.

    References
    ----------
    Nissim, Raskhodnikova, Smith (2007), §2; Gong (2022), eqs. (4) and (5).

    Examples
    --------
    A query whose sensitivity is the same everywhere is already smooth:

    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import SmoothCauchyMechanism
    >>> from sklearn_dpmix.queries import SmoothQuery
    >>> class MeanOfUnitRecords(SmoothQuery):
    ...     def value(self, X):
    ...         return np.clip(X, 0, 1).mean(axis=0)
    ...
    ...     def smooth_sensitivity(self, X, xi):
    ...         return 1 / len(X)
    >>> mechanism = SmoothCauchyMechanism(epsilon=1.0, query=MeanOfUnitRecords())
    >>> mechanism.privatize(np.full((50, 1), 0.5), random_state=0).shape
    (1,)
    """

    neighbours = "replace"
    n_statistics = 1

    def check(self) -> None:
        """Raise ValueError if a parameter is wrong."""

    def value(self, X: ArrayLike) -> Any:
        """Return the value of confidential records X of shape (n, 1), before noise: ndarray of shape (1,)."""
        raise TypeError(f"{type(self).__name__} must define value(self, X) -> ndarray of shape (1,)")

    def smooth_sensitivity(self, X: ArrayLike, xi: float) -> float:
        """Return the ξ-smooth sensitivity at X, (n, 1), a positive float that is as confidential as the records."""
        raise TypeError(f"{type(self).__name__} must define smooth_sensitivity(self, X, xi) -> positive float")

    def smallest_smooth_sensitivity(self, n: int, xi: float) -> float:
        """Return the smallest ξ-smooth sensitivity of any n records, or less; 0.0 if it is not known."""
        return 0.0

    def sensitivity(self, norm: int = 1, neighbours: str | None = None) -> float:
        """Raise TypeError: other mechanisms need a sensitivity, but here it depends on the data."""
        raise TypeError(
            f"{type(self).__name__} has a sensitivity that depends on the data: release it through "
            "SmoothLaplaceMechanism, SmoothGaussianMechanism, SmoothCauchyMechanism or SmoothStudentTMechanism"
        )


class CentralMean(SmoothQuery):
    """Mean of the records without the g smallest and the g largest.

    A subclass has ``bounds`` and defines ``n_trimmed(n)``, the number g, at most (n - 1)/2.

    Notes
    -----
    Let x_1 <= ... <= x_n be the records within [lo, hi], x_0 = lo, x_{n+1} = hi, and r = n - 2g be how many are left.

    *Local sensitivity.*  A record of rank at most g + 1 that goes to hi shifts the window by one: the mean grows by
    (x_{n-g+1} - x_{g+1})/r.  No replacement does more: the record of a rank is then at most the former one of the next
    rank.  Likewise downwards.  So LS = max over j in {g, g+1} of (x_{j+r} - x_j)/r.

    *After k replacements* the largest value of LS is

        A_k = max over i = g-k, ..., g+1 of (x_{i+k+r} - x_i)/r,  ranks below 0 and above n+1 meaning lo and hi.

    It is no larger: take y that differs from x in k records and j in {g, g+1}; let b of the x be at most y_j and a lie
    strictly between y_j and y_{j+r}, so that y_{j+r} - y_j <= x_{b+a+1} - x_b.  At most r - 1 of the y lie strictly
    between: a <= k + r - 1.  At least j of the y are at most y_j: b >= j - k.  At least n - j - r + 1 are at least
    y_{j+r}: b + a + 1 <= j + k + r.  If b <= j, i = b is a window of A_k that contains (b, b+a+1); if b > j, i = j is.
    It is attained: of the k + r - 1 records between ranks i and i+k+r, i = j-k, ..., j, move j - i to x_i and i - j + k
    to x_{i+k+r} (fewer where a rank is beyond the ends): then y_j = x_i and y_{j+r} = x_{i+k+r}.

    So SS_ξ = max over k of e^(-ξk) A_k, where the whole width is reached at k = 2g + 1.  As A_k grows with k, none
    between a and b does more than e^(-ξ(a+1)) A_b: the search halves the range of k and leaves out what cannot win.

    *Smallest.*  The windows from g + 1 to n + 1, from 0 to n - g and from 0 to n + 1 say that r SS_ξ is at least
    e^(-ξg) max(hi - x_{g+1}, x_{n-g} - lo) >= e^(-ξg)(hi - lo)/2, and e^(-ξ(2g+1))(hi - lo).  Records that are all in
    the middle of the bounds attain the larger of the two.
    """

    def n_trimmed(self, n: int) -> int:
        """Number of records, out of n, that are left out at each end."""
        raise NotImplementedError

    def check(self) -> None:
        self._ends()

    def _ends(self):
        return check_bounds(self.bounds, 1)[0].tolist()

    def value(self, X: ArrayLike) -> Any:
        """Return the value before noise.

        Parameters
        ----------
        X : array-like of shape (n_records, 1) or (n_records,)
            Confidential records; those outside the bounds count as at the bound.

        Returns
        -------
        value : ndarray of shape (1,)
        """
        return self.statistics(self._row(X), 1.0)[0, :1]

    def smooth_sensitivity(self, X: ArrayLike, xi: float) -> float:
        """Return the exact ξ-smooth sensitivity, which is as confidential as the records.

        Parameters
        ----------
        X : array-like of shape (n_records, 1) or (n_records,)
        xi : float
            ξ, positive: the mechanism's ``xi_``.

        Returns
        -------
        smooth_sensitivity : float
        """
        return float(self.statistics(self._row(X), xi)[0, 1])

    def statistics(self, X: ArrayLike, xi: float) -> Any:
        """Return the value and the smooth sensitivity of many data sets, as a simulator does.

        Parameters
        ----------
        X : array-like of shape (size, n_records)
            One simulated data set per row.
        xi : float
            ξ, positive: the mechanism's ``xi_``.

        Returns
        -------
        statistics : ndarray of shape (size, 2)
            Value, ξ-smooth sensitivity.

        Raises
        ------
        ValueError
            For a wrong parameter, and for data sets that are not finite numbers of that shape.
        """
        xi, (lo, hi) = positive_number("xi", xi), self._ends()
        array = numbers(X)
        if array is None or array.ndim != 2 or array.shape[1] == 0 or not np.all(np.isfinite(array)):
            raise ValueError(
                "X must be finite numbers of shape (size, n_records), one data set per row, with at least one "
                f"record; got {'no numbers' if array is None else f'shape {array.shape}'}"
            )
        n = array.shape[1]
        g = self.n_trimmed(n)
        result = np.empty((len(array), 2))
        ordered = np.empty((max(1, CHUNK // (n + 2)), n + 2))
        ordered[:, 0], ordered[:, -1] = lo, hi
        for start in range(0, len(array), len(ordered)):
            rows = slice(start, min(start + len(ordered), len(array)))
            x = ordered[: rows.stop - rows.start]
            x[:, 1:-1] = np.sort(np.clip(array[rows], lo, hi), axis=1)
            result[rows, 0] = x[:, g + 1 : n - g + 1].mean(axis=1)
            result[rows, 1] = smooth_spread(x, g, xi) / (n - 2 * g)
        return result

    def smallest_smooth_sensitivity(self, n: int, xi: float) -> float:
        """Return the smallest ξ-smooth sensitivity that n records can have: when all are in the middle.

        Parameters
        ----------
        n : int
            Number of records.
        xi : float

        Returns
        -------
        smallest : float
        """
        xi, (lo, hi) = positive_number("xi", xi), self._ends()
        g = self.n_trimmed(n)
        return max(0.5 * exp(-xi * g), exp(-xi * (2 * g + 1)), FLOOR) * (hi - lo) / (n - 2 * g)

    def _row(self, X):
        return as_records(X, 1, "the number that is ranked").T


def smooth_spread(x, g, xi):
    """(size,) r times the smooth sensitivity of sorted rows x of shape (size, n + 2), the bounds at both ends."""
    n = x.shape[1] - 2
    r, most = n - 2 * g, 2 * g + 1
    width = float(x[0, -1] - x[0, 0])  # r A_k at k = most

    def widest(k):  # r A_k: beyond an end windows stop growing, but their k does not
        first, last = max(g - k, 0), min(g + 1, most - k)
        return (x[:, first + k + r : last + k + r + 1] - x[:, first : last + 1]).max(axis=1)

    best = np.maximum(widest(0), max(exp(-xi * most), FLOOR) * width)
    blocks = [(0, most, np.full(len(x), width))]  # first and last k, both done, and r A_k at the last
    while blocks:
        start, stop, highest = blocks.pop()
        if stop - start < 2 or not np.any(exp(-xi * (start + 1)) * highest > best):
            continue
        k = (start + stop) // 2
        found = widest(k)
        np.maximum(best, exp(-xi * k) * found, out=best)
        blocks += [(k, stop, highest), (start, k, found)]
    return best


class SmoothMedian(CentralMean):
    """Median of bounded records: the middle one, or the mean of the middle two if their number is even.

    Parameters
    ----------
    bounds : pair (lo, hi)
        Public bounds, in the records' unit; records outside are moved to the bound.

    Raises
    ------
    ValueError
        On use, for bounds that are reversed or not finite; for records that are not finite numbers.

    Notes
    -----
    The smooth sensitivity is exact; ``CentralMean`` has the derivation, of which the median is the case that leaves one
    record, or two.  For an odd number of records it is that of Nissim et al.

    References
    ----------
    Nissim, Raskhodnikova, Smith (2007), §3.1.

    Examples
    --------
    >>> from sklearn_dpmix.queries import SmoothMedian
    >>> query = SmoothMedian(bounds=(0, 100))
    >>> query.value([3, 1, 2, 1000])
    array([2.5])
    >>> query.smooth_sensitivity([3, 1, 2, 1000], xi=2.0)  # (100 - 2)/2
    49.0
    >>> query.statistics([[3, 1, 2, 1000], [2, 2, 2, 2]], xi=2.0).round(4)
    array([[ 2.5   , 49.    ],
           [ 2.    ,  6.6314]])
    """

    def __init__(self, bounds: ArrayLike) -> None:
        self.bounds = bounds

    def n_trimmed(self, n: int) -> int:
        return (n - 1) // 2


class SmoothTrimmedMean(CentralMean):
    """Mean of bounded records without the smallest and the largest: robust, and needs less noise if bounds are wide.

    Parameters
    ----------
    bounds : pair (lo, hi)
        Public bounds, in the records' unit; records outside are moved to the bound.
    trim : float in [0, 0.5)
        Share of the records that is left out at each end: g = floor(trim × n) records.

    Raises
    ------
    ValueError
        On use, for a wrong parameter; for records that are not finite numbers.

    Notes
    -----
    The smooth sensitivity is exact; ``CentralMean`` has the derivation.

    References
    ----------
    Nissim, Raskhodnikova, Smith (2007); Bun, Steinke (2019), "Average-case averages", on trimmed means.

    Examples
    --------
    >>> from sklearn_dpmix.queries import SmoothTrimmedMean
    >>> query = SmoothTrimmedMean(bounds=(0, 100), trim=0.2)
    >>> query.value([1, 2, 3, 4, 1000])
    array([3.])
    >>> query.smooth_sensitivity([1, 2, 3, 4, 1000], xi=2.0)  # (100 - 2)/3
    32.666666666666664
    """

    def __init__(self, bounds: ArrayLike, trim: float) -> None:
        self.bounds = bounds
        self.trim = trim

    def check(self) -> None:
        super().check()
        self.n_trimmed(1)

    def n_trimmed(self, n: int) -> int:
        trim = numbers(self.trim)
        if trim is None or trim.ndim or not 0 <= trim < 0.5:
            raise ValueError(
                f"trim must be a share of the records in [0, 0.5), got trim={self.trim!r}: SmoothMedian leaves out all "
                "but the middle"
            )
        return min(int(float(trim) * n + 1e-9), (n - 1) // 2)  # 0.29 × 100 is below 29 in floating point
