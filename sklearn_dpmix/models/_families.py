"""Exponential families of one number a record, by their sufficient statistic t(x) (Bernstein & Sheldon 2018, §2).

How far apart t(x) and t(x') can be for x, x' inside bounds is a fact about the curve t, and each family states it, in
closed form: noise is calibrated by it (:class:`sklearn_dpmix.queries.SufficientStatistics`).
"""

from math import copysign, hypot, inf, sqrt

import numpy as np

from ._base import Family, Identity, LargestAtTheEnds


class Bernoulli(Identity):
    """Records 0 and 1, t(x) = x; the sum is binomial.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import Bernoulli
    >>> Bernoulli().statistics(np.array([0.0, 1.0])).ravel()
    array([0., 1.])
    """

    names = ("bernoulli", "binomial")
    support = (0.0, 1.0)
    is_integer = True
    is_bounded = True


class Multinomial(Family):
    """Categories 0..K-1, t(x) the indicator of each; the sums are the counts.

    Parameters
    ----------
    n_categories : int, optional
        K, at least 2.  None: not known yet.

    Raises
    ------
    ValueError
        On use, for ``n_categories`` that is not such an integer.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import Multinomial
    >>> Multinomial(n_categories=3).statistics(np.array([2.0, 0.0]))
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    names = ("multinomial", "categorical")
    is_integer = True
    is_bounded = True

    def __init__(self, n_categories=None):
        self.n_categories = n_categories

    def check(self):
        n = self.n_categories
        if n is not None and (not isinstance(n, (int, np.integer)) or isinstance(n, bool) or n < 2):
            raise ValueError(
                f"n_categories must be an integer, 2 or more, or None where not yet known, got n_categories={n!r}"
            )

    @property
    def n_params(self):
        return self.n_categories

    @property
    def n_statistics(self):
        return self.n_categories

    @property
    def labels(self):
        return tuple(f"x=={category}" for category in range(self.n_categories or 0))

    @property
    def support(self):
        return 0.0, inf if self.n_categories is None else self.n_categories - 1.0

    def statistics(self, x):
        return (x[:, None] == np.arange(self.n_categories)).astype(np.float64)

    def diameter(self, lo, hi, norm):
        """Two entries differ by 1."""
        return 2.0 if norm == 1 else sqrt(2.0)

    def radius(self, lo, hi, norm):
        return 1.0


class Poisson(Identity):
    """Counts 0, 1, 2, ..., t(x) = x.

    Examples
    --------
    >>> from sklearn_dpmix.models import Poisson
    >>> Poisson().diameter(2, 10, norm=1)
    8.0
    """

    names = ("poisson",)
    support = (0.0, inf)
    is_integer = True


class Exponential(Identity):
    """Exponential records, at least 0, t(x) = x.

    Examples
    --------
    >>> from sklearn_dpmix.models import Exponential
    >>> Exponential().radius(0.5, 10, norm=1)
    10.0
    """

    names = ("exponential",)
    support = (0.0, inf)


class Gamma(Identity):
    """Gamma records of known shape and unknown rate, t(x) = x.

    Parameters
    ----------
    shape : float, default=1.0
        The known shape, positive; 1 is the exponential family.

    Raises
    ------
    ValueError
        On use, for a shape that is not positive.

    Examples
    --------
    >>> from sklearn_dpmix.models import Gamma
    >>> Gamma(shape=2.0).diameter(0, 10, norm=2)
    10.0
    """

    names = ("gamma",)
    support = (0.0, inf)

    def __init__(self, shape=1.0):
        self.shape = shape

    def check(self):
        shape = self.shape
        if not isinstance(shape, (int, float, np.number)) or isinstance(shape, bool) or not 0 < shape < inf:
            raise ValueError(f"shape must be a positive finite number, got shape={shape!r}")


class Normal(Family):
    """Normal records with both parameters unknown, t(x) = (x, x²).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import Normal
    >>> Normal().statistics(np.array([1.0, -3.0]))
    array([[ 1.,  1.],
           [-3.,  9.]])
    >>> Normal().diameter(-1, 1, norm=1)  # 1 and -1/2, not the two ends
    2.25
    """

    names = ("normal",)
    n_params = 2
    n_statistics = 2
    labels = ("x", "x^2")

    def statistics(self, x):
        return np.column_stack([x, x * x]).astype(np.float64)

    def diameter(self, lo, hi, norm):
        """Between a bound b and another record x, at a bound or where the derivative in x is 0.

        ‖t(b) - t(x)‖ is |b - x| (1 + |b + x|) in L1, |b - x| √(1 + (b + x)²) in L2.  With b + x fixed it grows with
        |b - x|, so that one of a furthest pair is a bound.  L1: it is the larger of |g(b) - g(x)| for g(x) = x² + x and
        for g(x) = x² - x, which turn at x = ∓1/2.  L2: the derivative of (b - x)² (1 + (b + x)²) in x is
        -2 (b - x) (2x² + 2bx + 1).
        """

        def distance(b, x):
            return abs(b - x) * (1.0 + abs(b + x) if norm == 1 else hypot(1.0, b + x))

        lo, hi = float(lo), float(hi)
        found = distance(lo, hi)
        for b in (lo, hi):
            turns = (-0.5, 0.5)
            if norm == 2:
                root = -0.5 * (b + copysign(sqrt(b * b - 2.0), b)) if b * b > 2.0 else None
                turns = () if root is None else (root, 0.5 / root)
            found = max(found, *(distance(b, min(max(x, lo), hi)) for x in turns), 0.0)
        return found

    def radius(self, lo, hi, norm):
        """At the record of largest magnitude."""
        x = max(abs(float(lo)), abs(float(hi)))
        return x * (1.0 + x if norm == 1 else hypot(1.0, x))


class Beta(LargestAtTheEnds):
    """Beta records, strictly between 0 and 1, t(x) = (log x, log(1 - x)).

    Both logarithms are monotone, so that in any norm the bounds are furthest apart.  |t₁| + |t₂| = -log x(1 - x) and
    t₁² + t₂² are convex in x, for (log² x)'' = 2 (1 - log x)/x² > 0: largest at a bound.

    Examples
    --------
    >>> from sklearn_dpmix.models import Beta
    >>> round(Beta().diameter(0.1, 0.9, norm=1), 6)  # 2 logit(0.9)
    4.394449
    """

    names = ("beta",)
    n_params = 2
    n_statistics = 2
    labels = ("log(x)", "log(1-x)")
    support = (0.0, 1.0)

    def statistics(self, x):
        with np.errstate(divide="ignore"):
            return np.column_stack([np.log(x), np.log1p(-x)])


#: Families by name.
FAMILIES: dict[str, type[Family]] = {
    name: family
    for family in (Bernoulli, Multinomial, Poisson, Exponential, Gamma, Normal, Beta)
    for name in family.names
}


def resolve_family(value):
    """Return the family that is meant: the object itself, or the one of that name with its default parameters.

    Parameters
    ----------
    value : str or Family

    Raises
    ------
    ValueError
        For a name that is not in ``FAMILIES``.
    TypeError
        For what is neither a name nor a family.

    Examples
    --------
    >>> from sklearn_dpmix.models import resolve_family
    >>> resolve_family("binomial")
    Bernoulli()
    """
    if isinstance(value, Family):
        return value
    known = ", ".join(f'"{name}"' for name in FAMILIES)
    if isinstance(value, str):
        if value in FAMILIES:
            return FAMILIES[value]()
        raise ValueError(f"family must be one of {known} or an object of sklearn_dpmix.models.Family, got {value!r}")
    if isinstance(value, type) and issubclass(value, Family):
        raise TypeError(f"family must be an object, got the class {value.__name__}: pass {value.__name__}()")
    raise TypeError(f"family must be one of {known} or an object of sklearn_dpmix.models.Family, got {value!r}")
