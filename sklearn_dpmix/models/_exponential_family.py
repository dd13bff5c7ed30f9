"""What queries, samplers and predictions need from an exponential family."""

from math import hypot, inf
from typing import Any

import numpy as np

from .._base.compiled import Component, lower
from .._base.typing import Array, Floats

#: How compiled code encodes what happens to a record outside the bounds.
OUTSIDE = {None: 0.0, "clamp": 1.0, "drop": 2.0}


class Family(Component):
    """Base class of exponential families of one number per record.

    A subclass sets the attributes below if they differ, and defines ``statistics(x)``.  To be released with bounds, it
    also defines :meth:`diameter` and :meth:`radius`, which must hold for every pair of records: privacy rests on them.

    Inference needs more: a ``prior_class``; :meth:`log_density`, :meth:`mean` and :meth:`draw` of records given θ; and
    for the normal approximation the compiled methods, on ``n_free`` unconstrained coordinates v of θ,

    ==============================  ==================================================================================
    ``to_theta(v, theta)``          θ, into ``theta``
    ``log_prior(v)``                the log prior density of v, up to a constant
    ``moments(v, mean, root)``      mean and lower Cholesky factor of the covariance of what one record adds to the
                                    statistic; the fields ``lo``, ``hi`` and ``outside`` (``OUTSIDE``) say what that is
                                    (and ``gain`` and ``offset``, where the statistic is scaled: those of the package)
    ==============================  ==================================================================================

    Attributes
    ----------
    names : tuple of str
        Its names in ``family="..."``.
    n_params, n_statistics : int, or None where not yet known
        Lengths of θ and of t(x).
    labels : tuple of str
        The entries of t(x).
    support : pair (lo, hi) of float
        The interval that contains all records; the ends count as inside.
    is_integer : bool
        Whether records are integers.
    is_bounded : bool
        Whether t is bounded on the whole support, so that it can be released without bounds.
    param_names : tuple of str
        The entries of θ.
    prior_class : type
        Class of the prior on θ; its defaults are the default prior.
    wide_prior_class : type or None
        Class of a prior with power tails, for noisy statistics of records within bounds.
    needs_conjugate_prior : bool
        Whether only ``prior_class`` is possible if nothing hides the statistic.
    n_free : int
        Length of v.
    exact_law : str or None
        "counts", "poisson" or "gamma": the distribution of the statistic of records that are not cut at bounds, if it
        has a closed form.
    adds_up : bool
        Whether the numbers of a statistic add up to the number of records.

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
    param_names: tuple[str, ...] = ("theta",)
    prior_class: type | None = None
    wide_prior_class: type | None = None
    needs_conjugate_prior = True
    n_free = 1
    exact_law: str | None = None
    adds_up = False

    @property
    def name(self) -> str:
        """The first of ``names``, or "" if there is none, as for a family of your own."""
        return self.names[0] if self.names else ""

    def check(self) -> None:
        """Raise ValueError if a parameter is wrong."""

    def _lower(self, *, prior=None, bounds=None, outside=None, gains=None, **context):
        """The family with its prior's numbers, and what happens to records outside ``bounds``, a pair or None.

        ``gains`` is a pair of arrays: a record adds gain · t(x) + offset; None: t(x).
        """
        fields = {} if prior is None else prior.fields(self)
        return lower(type(self), {**fields, **self._numbers(), **self._cut(bounds, outside, gains)})

    def _cut(self, bounds, outside, gains):
        """Numbers that say what a record adds to the statistic."""
        lo, hi = (-inf, inf) if bounds is None else bounds
        gain, offset = (np.ones(self.n_statistics), np.zeros(self.n_statistics)) if gains is None else gains
        return {"lo": float(lo), "hi": float(hi), "outside": OUTSIDE[outside], "gain": gain, "offset": offset}

    def _numbers(self):
        """Numbers of the family itself that compiled code reads."""
        return {}

    def default_prior(self, bounds: tuple[float, float] | None) -> Any:
        """Return the default prior, for records with these public bounds, or without bounds if they are None.

        It is None if records have a unit and nothing says which.
        """
        return self.prior_class() if self.prior_class else None

    def wide_prior(self, bounds: Any) -> Any:
        """Return the default prior if noise hides the statistic; usually it is not conjugate.

        ``bounds`` is the public pair, and None only if the family ``is_bounded`` by itself.
        """
        return self.default_prior(bounds)

    def bounds_of(self, statistic: Array, n_records: int) -> tuple[float, float] | None:
        """Return bounds that replace public ones if the statistic of all records is known; None if there is no unit."""
        return None

    def prior_in_units(self, prior: Any, centre: float, unit: float) -> Any:
        """Return what a prior says about the parameters of (x - centre)/unit."""
        return prior

    def theta_from_units(self, theta: Array, centre: float, unit: float) -> Array:
        """Return parameters of records x, (..., n_params), from those of (x - centre)/unit."""
        return theta

    def statistics(self, x: Array) -> Array:
        """Return t(x) of shape (n, n_statistics) for records ``x`` of shape (n,) inside the support."""
        raise TypeError(f"{type(self).__name__} must define statistics(self, x): (n,) -> (n, n_statistics)")

    def agrees(self, other: "Family") -> bool:
        """Return whether ``other`` is the same family."""
        return type(other) is type(self) and bool(other.get_params() == self.get_params())

    def with_statistics(self, n: int) -> "Family":
        """Return the family for a statistic of n numbers: another one where this one does not say how many."""
        return self

    def statistic_range(self, x: Array) -> tuple[Array, Array]:
        """Return the least and the largest of each number of t, which are among those at the places ``x``."""
        t = self.statistics(x)
        return t.min(axis=0), t.max(axis=0)

    def is_statistic(self, s: Array, n: float, slack: Array) -> bool:
        """Return whether s, each of whose entries is within its range, can be Σ t(x) of n records (0: of any number).

        Entries may be off by ``slack``.
        """
        return not self.is_integer or bool(np.all(s == np.floor(s)))

    def is_lost_to_rounding(self, s: Array, n: float) -> bool:
        """Return whether rounding of the sums s of n records hides how they differ."""
        return False

    def nearest_statistic(self, s: Array, n: float) -> Array:
        """Return what Σ t(x) of n records can be, near s: here s itself."""
        return s

    def to_free(self, theta: Array) -> Array:
        """Return the unconstrained coordinates v, (m, n_free), of parameters (m, n_params); here log θ."""
        return np.log(np.maximum(theta, 1e-100))

    def possible(self, theta: Array) -> Any:
        """Return whether each row of θ (m, n_params) is possible, as draws in a file must be: (m,), all True here."""
        return np.ones(len(theta), dtype=np.bool_)

    def log_density(self, x: Array, theta: Array) -> Floats:
        """Return log p(x | θ) of shape (n_theta, n) for records (n,) and parameters (n_theta, n_params)."""
        raise TypeError(f"{type(self).__name__} must define log_density(self, x, theta): (n,), (m, n_params) -> (m, n)")

    def mean(self, theta: Array) -> Array:
        """Return the mean of a record given each row of θ: (n_theta,)."""
        raise TypeError(f"{type(self).__name__} must define mean(self, theta): (m, n_params) -> (m,)")

    def prediction(self, theta: Array) -> float:
        """Return what to predict for a record, given draws of θ: the mean."""
        return float(np.mean(self.mean(theta)))

    def draw(self, rng: np.random.Generator, theta: Array) -> Array:
        """Draw a record given each row of θ: (n_theta,)."""
        raise TypeError(f"{type(self).__name__} must define draw(self, rng, theta): (m, n_params) -> (m,)")

    def draw_sums(self, rng: np.random.Generator, theta: Array, n: Array) -> Floats:
        """Draw Σ t(x) over n[i] records given row i of θ: (n_theta, n_statistics)."""
        records = (self.draw(rng, np.broadcast_to(row, (size, len(row)))) for row, size in zip(theta, n, strict=True))
        return np.array([self.statistics(x).sum(axis=0) for x in records])

    def diameter(self, lo: Any, hi: Any, norm: int) -> Any:
        """Return max ‖t(x) - t(x')‖ in L1 (``norm`` 1) or L2 (2) over records in [lo, hi]."""
        raise TypeError(f"{type(self).__name__} must define diameter(self, lo, hi, norm) to be released with bounds")

    def radius(self, lo: Any, hi: Any, norm: int) -> Any:
        """Return max ‖t(x)‖ in L1 (``norm`` 1) or L2 (2) over records in [lo, hi]."""
        raise TypeError(f"{type(self).__name__} must define radius(self, lo, hi, norm) to be released with bounds")


class LargestAtTheEnds(Family):
    """Statistics that are each monotone in x, so the ends are furthest apart, and with ‖t(x)‖ largest there."""

    def diameter(self, lo: Any, hi: Any, norm: int) -> Any:
        low, high = self.statistics(np.array([lo, hi], dtype=np.float64))
        return length(high - low, norm)

    def radius(self, lo: Any, hi: Any, norm: int) -> Any:
        return max(length(t, norm) for t in self.statistics(np.array([lo, hi], dtype=np.float64)))


class Identity(LargestAtTheEnds):
    """The statistic t(x) = x."""

    def statistics(self, x: Array) -> Array:
        return x[:, None].astype(np.float64)

    def nearest_statistic(self, s: Array, n: float) -> Any:
        return np.clip(np.rint(s) if self.is_integer else s, n * self.support[0], n * self.support[1])


def length(t, norm):
    """‖t‖ in L1 or L2; squares of small numbers do not underflow."""
    return float(np.sum(np.abs(t))) if norm == 1 else hypot(*t)
