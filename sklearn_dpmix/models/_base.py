"""What queries ask of an exponential family."""

from math import hypot, inf

import numpy as np

from .._compiled import Component


class Family(Component):
    """Base class of exponential families of one number a record.

    A subclass sets the attributes below where they differ and defines ``statistics(x)``; to be released with bounds
    also :meth:`diameter` and :meth:`radius`, which must hold for every pair of records: privacy rests on them.

    Attributes
    ----------
    names : tuple of str
        What ``family="..."`` calls it.
    n_params, n_statistics : int, or None where not yet known
        Lengths of θ and of t(x).
    labels : tuple of str
        The entries of t(x).
    support : pair (lo, hi) of float
        Records lie in it; the ends count as inside.
    is_integer : bool
        Whether records are integers.
    is_bounded : bool
        Whether t is bounded on the whole support, so that it can be released without bounds.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import Family
    >>> from sklearn_dpmix.queries import SufficientStatistics
    >>> class Rayleigh(Family):
    ...     support = (0.0, np.inf)
    ...     labels = ("x^2",)
    ...
    ...     def statistics(self, x):
    ...         return x[:, None] ** 2
    ...
    ...     def diameter(self, lo, hi, norm):
    ...         return hi**2 - lo**2
    ...
    ...     def radius(self, lo, hi, norm):
    ...         return hi**2
    >>> SufficientStatistics(Rayleigh(), bounds=(1, 3)).sensitivity(norm=1)
    8.0
    """

    names: tuple[str, ...] = ()
    n_params: int | None = 1
    n_statistics: int | None = 1
    labels: tuple[str, ...] = ("x",)
    support: tuple[float, float] = (-inf, inf)
    is_integer = False
    is_bounded = False

    def check(self):
        """Raise ValueError where a parameter is wrong."""

    def statistics(self, x):
        """Return t(x) of shape (n, n_statistics) for records ``x`` of shape (n,) inside the support."""
        raise TypeError(f"{type(self).__name__} must define statistics(self, x): (n,) -> (n, n_statistics)")

    def diameter(self, lo, hi, norm):
        """Return max ‖t(x) - t(x')‖ in L1 (``norm`` 1) or L2 (2) over records in [lo, hi]."""
        raise TypeError(f"{type(self).__name__} must define diameter(self, lo, hi, norm) to be released with bounds")

    def radius(self, lo, hi, norm):
        """Return max ‖t(x)‖ in L1 (``norm`` 1) or L2 (2) over records in [lo, hi]."""
        raise TypeError(f"{type(self).__name__} must define radius(self, lo, hi, norm) to be released with bounds")


class LargestAtTheEnds(Family):
    """Statistics of which each is monotone in x, so that the ends are furthest apart, and with ‖t(x)‖ largest there."""

    def diameter(self, lo, hi, norm):
        low, high = self.statistics(np.array([lo, hi], dtype=np.float64))
        return length(high - low, norm)

    def radius(self, lo, hi, norm):
        return max(length(t, norm) for t in self.statistics(np.array([lo, hi], dtype=np.float64)))


class Identity(LargestAtTheEnds):
    """The statistic t(x) = x."""

    def statistics(self, x):
        return x[:, None].astype(np.float64)


def length(t, norm):
    """‖t‖ in L1 or L2; squares of small numbers do not underflow."""
    return float(np.sum(np.abs(t))) if norm == 1 else hypot(*t)
