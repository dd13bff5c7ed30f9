"""The moments that a linear regression needs (Ju et al. 2022, §4.2), with their exact joint sensitivity.

A record is w = (y, x_1, ..., x_p) in [-1, 1]^q, q = p + 1.  It contributes every w_i and every w_i w_j with i <= j.
Let w and w' be two records, u = (w + w')/2 and v = (w - w')/2: any u, v with |u_i| + |v_i| <= 1.  Then

    w_i - w'_i = 2 v_i,    w_i w_j - w'_i w'_j = 2 (u_i v_j + u_j v_i),    w_i² - w'_i² = 4 u_i v_i.

**L1, a record replaced.**  Put t_i = |v_i|, so that |u_i| <= 1 - t_i, and S = Σ t_i.  The distance is

    Σ_i 2 t_i + Σ_i 4 |u_i| t_i + Σ_{i<j} 2 |u_i v_j + u_j v_i|
      <= 2 S + 4 Σ_i (1 - t_i) t_i + 2 Σ_{i≠j} (1 - t_i) t_j
       = 2 S + 4 S - 4 Σ t_i² + 2 (q - 1) S - 2 (S² - Σ t_i²)
       = (2q + 4) S - 2 S² - 2 Σ t_i²
      <= (2q + 4) S - 2 (1 + 1/q) S²                                by Σ t_i² >= S²/q (Cauchy-Schwarz)
      <= q (q + 2)² / (2 (q + 1)) = (p + 1)(p + 3)² / (2 (p + 2))    at S = q (q + 2)/(2 (q + 1)).

The first step is an equality if v_i = t_i and u_i = 1 - t_i, the second if all t_i are equal, the third if each is
(q + 2)/(2 (q + 1)), which is at most 1: so w = (1, ..., 1) and w' = (-1, ..., -1)/(q + 1) attain the bound, whatever q.

**L2, a record replaced.**  The squared distance is 4 Σ v_i² + 16 Σ u_i² v_i² + 4 Σ_{i<j} (u_i v_j + u_j v_i)² = 4 F,

    F = (1 + Σ u_i²) Σ v_i² + (Σ u_i v_i)² + 2 Σ u_i² v_i².

Signs that make all u_i v_i >= 0 maximise it, and then it grows with each |u_i| and each |v_i|: so let v_i = t_i,
u_i = 1 - t_i, t in [0, 1]^q.  In one coordinate t = t_i, the others fixed, with A = 1 + Σ_{j≠i} u_j², B = Σ_{j≠i} t_j²,
C = Σ_{j≠i} u_j t_j and s = t (1 - t), F is a constant plus

    A t² + B (1 - t)² + 2 C s + 4 s²
      <= A t² + B (1 - t)² + (A - 1 + B) s + s        by 2 C <= 2 √((A - 1) B) <= A - 1 + B, and s <= 1/4
       = A t + B (1 - t) <= max(A, B),

which is its value at t = 1 or t = 0.  So F is largest at a vertex, t_i = 1 for k coordinates and 0 for the others,
where it is k (q + 1 - k) <= ⌊(q + 1)²/4⌋, with equality at k = ⌊(q + 1)/2⌋.  Hence Δ₂ = 2 √⌊(p + 2)²/4⌋, attained by
w = (1, ..., 1) and w' with k signs turned.

**A record added or removed.**  The q + q (q + 1)/2 = (p + 1)(p + 4)/2 entries are each at most 1, and all 1 at the
corner (1, ..., 1).

**The sum of ranges.**  The q linear entries and the q (q - 1)/2 products move by at most 2 each, the q squares by at
most 1: 2 q + q (q - 1) + q = p² + 4p + 3 in L1, and in L2 the root of 4 q + 2 q (q - 1) + q = 2 q² + 3 q.
"""

from collections.abc import Callable
from math import sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import positive_integer
from .._base.typing import Array, Floats
from ._query import Query, as_records, named_bounds


class RegressionMoments(Query):
    r"""Unique entries of X'Y, Y'Y and X'X of records mapped to [-1, 1], with an intercept column.

    Each x and y is clamped to its bounds and mapped linearly, lo to -1 and hi to 1.  The value is, in this order,

    1. X'Y, the intercept's first: Σ y, Σ x_1 y, ..., Σ x_p y;
    2. Y'Y: Σ y²;
    3. the upper triangle of X'X row by row, without the constant n: Σ x_1, ..., Σ x_p, Σ x_1², Σ x_1 x_2, ..., Σ x_p².

    Under replacement its sensitivity is exactly

    .. math:: \Delta_1 = \frac{(p + 1)(p + 3)^2}{2 (p + 2)}, \qquad \Delta_2 = 2 \sqrt{\lfloor (p + 2)^2 / 4 \rfloor},

    both proved at the top of this file, and attained.  The sum of the entries' ranges, p² + 4p + 3 in L1, is larger (15
    against 9.375 at p = 2): ``sensitivity="sum"`` uses it, for releases that were calibrated that way.

    Parameters
    ----------
    x_bounds : pair (lo, hi), or one per feature
        Public bounds of the predictors, in their unit.
    y_bounds : pair (lo, hi)
        Public bounds of the response, in its unit.
    n_features : int
        p, the number of predictors.
    sensitivity : {"joint", "sum"}, default="joint"
        The exact sensitivity, or the sum of the entries' ranges (in L2 the root of the sum of their squares).
    neighbours : {"replace", "add_remove"}, default="replace"
        The relation for which the guarantee holds.

    Notes
    -----
    Records are rows (x_1, ..., x_p, y).  ``query.sensitivity(norm)`` is the method that every query has; the value of
    the parameter ``sensitivity=`` is ``query.get_params()["sensitivity"]``.

    Raises
    ------
    ValueError
        On use, for a wrong parameter; for records that do not fit.

    References
    ----------
    Ju, Awan, Gong, Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data", §4.2; the
    sensitivities are ours.

    Examples
    --------
    >>> from sklearn_dpmix.queries import RegressionMoments
    >>> query = RegressionMoments(x_bounds=(0, 10), y_bounds=(-2, 2), n_features=2)
    >>> query.statistic_names()
    ['sum(y)', 'sum(x1*y)', 'sum(x2*y)', 'sum(y*y)', 'sum(x1)', 'sum(x2)', 'sum(x1*x1)', 'sum(x1*x2)', 'sum(x2*x2)']
    >>> query.value([[10.0, 5.0, 1.0]])
    array([0.5 , 0.5 , 0.  , 0.25, 1.  , 0.  , 1.  , 0.  , 0.  ])
    >>> query.sensitivity(norm=1), query.sensitivity(norm=2)
    (9.375, 4.0)
    >>> query.set_params(sensitivity="sum").sensitivity(norm=1)
    15.0
    """

    def __init__(
        self,
        x_bounds: ArrayLike,
        y_bounds: ArrayLike,
        n_features: int,
        sensitivity: str = "joint",
        *,
        neighbours: str = "replace",
    ) -> None:
        self.x_bounds = x_bounds
        self.y_bounds = y_bounds
        self.n_features = n_features
        self.sensitivity = sensitivity
        self.neighbours = neighbours

    # ``sensitivity`` has to be both a parameter, a word, and the method that mechanisms call.  Reading the attribute
    # gives the method; assigning to it, as __init__ and set_params do, stores the word elsewhere; and get_params, which
    # clone and repr use, gives the word.

    @property
    def sensitivity(self) -> Callable[..., float]:  # type: ignore[override]
        """The method ``sensitivity(norm=1, neighbours=None)`` of every query."""
        return super().sensitivity

    @sensitivity.setter
    def sensitivity(self, rule: str) -> None:
        self._rule = rule

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the parameters by name, ``sensitivity`` as it was given."""
        return super().get_params(deep) | {"sensitivity": self._rule}

    @property
    def n_statistics(self) -> int:
        p = positive_integer("n_features", self.n_features)
        return (p + 1) * (p + 4) // 2

    def statistic_names(self) -> list[str]:
        x = [f"x{j + 1}" for j in range(self.n_features)]
        products = [f"{x[i]}*{x[j]}" for i, j in zip(*np.triu_indices(len(x)))]
        return [f"sum({entry})" for entry in ["y", *(f"{one}*y" for one in x), "y*y", *x, *products]]

    def check(self) -> None:
        super().check()
        if not isinstance(self._rule, str) or self._rule not in ("joint", "sum"):
            raise ValueError(
                'sensitivity must be "joint" (exact) or "sum" (of the ranges of the entries), got '
                f"sensitivity={self._rule!r}"
            )
        self.record_bounds()

    def value_range(self, n_records: int) -> Floats:
        """Return the (lowest, highest) possible values of each entry of the value, each of shape (n_statistics,)."""
        ones = np.ones(self.n_features + 1)
        return self._range(n_records, -ones, ones)

    def _unscaled_range(self, n_records):
        """As :meth:`value_range`, for records within the bounds that are not mapped to [-1, 1]."""
        return self._range(n_records, *self.record_bounds())

    def _range(self, n_records, lo, hi):
        rows, columns = np.triu_indices(self.n_features)
        first = np.concatenate([[-1] * (self.n_features + 1), rows])  # of each product: y is the last
        second = np.concatenate([np.arange(self.n_features), [-1], columns])
        ends = np.array([a[first] * b[second] for a in (lo, hi) for b in (lo, hi)])
        low, high = ends.min(axis=0), ends.max(axis=0)
        low[(first == second) & (lo[first] < 0) & (hi[first] > 0)] = 0.0  # squares
        p = self.n_features
        order = [-1], slice(0, p + 1), slice(0, p), slice(p + 1, None)
        return tuple(
            n_records * np.concatenate([ends[order[0]], products[order[1]], ends[order[2]], products[order[3]]])
            for ends, products in ((lo, low), (hi, high))
        )

    def record_bounds(self) -> Floats:
        """Return (lo, hi), each of shape (n_features + 1,), the response last."""
        return self._bounds().T

    def _bounds(self):
        """(lo, hi) of each predictor and of the response: (n_features + 1, 2)."""
        n_features = positive_integer("n_features", self.n_features)
        x_bounds = named_bounds("x_bounds", self.x_bounds, n_features)
        return np.vstack([x_bounds, named_bounds("y_bounds", self.y_bounds, 1)])

    def scale_records(self, records: ArrayLike) -> Floats:
        """Return the records clamped to the bounds and mapped to [-1, 1].

        Parameters
        ----------
        records : array-like of shape (n_records, n_features + 1)
            Rows (x_1, ..., x_p, y).

        Returns
        -------
        scaled : ndarray of shape (n_records, n_features + 1)

        Raises
        ------
        ValueError
            For a wrong parameter; for records that do not fit.

        Examples
        --------
        >>> from sklearn_dpmix.queries import RegressionMoments
        >>> RegressionMoments((0, 10), (-2, 2), 1).scale_records([[5.0, -2.0], [12.0, 1.0]])
        array([[ 0. , -1. ],
               [ 1. ,  0.5]])
        """
        self.check()
        lo, hi = self.record_bounds()
        records = as_records(records, len(lo), "the predictors and then the response")
        return 2.0 * ((np.clip(records, lo, hi) - lo) / (hi - lo)) - 1.0

    def contributions(self, records: ArrayLike) -> Array:
        scaled = self.scale_records(records)
        x, y = scaled[:, :-1], scaled[:, -1:]
        rows, columns = np.triu_indices(x.shape[1])
        return np.hstack([y, x * y, y * y, x, x[:, rows] * x[:, columns]])

    def _reach(self, norm, relation):
        if relation == "add_remove":
            return self.n_statistics if norm == 1 else sqrt(self.n_statistics)
        p = self.n_features
        q = p + 1
        if self._rule == "sum":
            return q * q + 2 * q if norm == 1 else sqrt(2 * q * q + 3 * q)
        return q * (q + 2) ** 2 / (2 * (q + 1)) if norm == 1 else 2.0 * sqrt((q + 1) ** 2 // 4)
