"""Noise whose density depends only on u'C⁻¹u (Gong 2022, §5), and its normal member."""

from math import log, pi
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular

from .._base.parameters import check_query, numbers
from .._base.typing import Floats
from ..privacy import PrivacyGuarantee
from ..privacy._guarantee import half_square, rounded_up
from ._statistic_noise import StatisticNoise

#: Largest relative error of ‖L⁻¹‖ from rounding, and so of a guarantee.
LARGEST_ERROR = 1e-9
MOST_CORNERS = 12  # numbers in a release, up to which all corners of a box of moves are looked at


class EllipticalMechanism(StatisticNoise):
    """Base class: release s + L v, with L L' = C and v from a spherical distribution.

    A subclass has ``covariance`` and ``query`` and defines ``_log_radial(squared, k)``, the log density of v in R^k
    given ``squared`` = v'v, largest at 0, and ``_draw_spherical(rng, size, k)``.

    Notes
    -----
    Replacing a record moves s by no more than Δ₂ in L2, so it moves L⁻¹s by no more than Δ₂ ‖L⁻¹‖ = Δ₂/√λ, where λ is
    the smallest eigenvalue of C.  If the query knows how far each number can move (``entry_moves``), and there are at
    most 12, the longest L⁻¹d over the corners d of that box counts if it is less.  The noise is made with the rounded
    L, so what counts is L⁻¹, and not C.  The inverse W of a triangular matrix by substitution is off by no more than a
    small multiple of the rounding error times abs(W) abs(L) abs(W) (Higham 2002, §8.2), which is small even for very
    different scales.  If it is not small, C is refused.
    """

    def __init__(self, covariance: ArrayLike, *, query: Any = None) -> None:
        self.covariance = covariance
        self.query = query

    def check(self, n_features: int | None = None) -> None:
        factor = self._factor()
        if self.query is not None:
            check_query(self.query, type(self).__name__, "value", "sensitivity")
        k = getattr(self.query, "n_statistics", None)
        if k is not None and k != len(factor):
            raise ValueError(
                f"covariance must have shape ({k}, {k}), as the query releases {k} number(s), got shape {factor.shape}"
            )

    def check_width(self, k: int) -> None:
        if k != len(self._factor()):
            raise ValueError(
                f"a release of {k} number(s) does not fit covariance of shape {self._factor().shape}: give one row "
                "and one column per number"
            )

    def _matrix(self):
        """C as an array; raises if something is wrong with it."""
        C = numbers(self.covariance)
        square = C is not None and C.ndim == 2 and C.shape[0] == C.shape[1] > 0 and bool(np.all(np.isfinite(C)))
        if not square or not np.allclose(C, C.T, rtol=1e-10, atol=0.0):
            raise ValueError(
                f"covariance must be a symmetric matrix of shape (k, k), got covariance={self.covariance!r}"
            )
        return C

    def _factor(self):
        """L, lower triangular."""
        try:
            return np.linalg.cholesky(self._matrix())
        except np.linalg.LinAlgError:
            raise ValueError(
                f"covariance must be positive definite, got covariance={self.covariance!r}: some direction has no noise"
            ) from None

    def _mahalanobis_sensitivity(self):
        """How far one record can move L⁻¹s."""
        self.check()
        self._check_query("covariance says")
        sensitivity = float(self.query.sensitivity(2))
        if not sensitivity:
            return 0.0
        (inverse, error), moves = self._inverse(), getattr(self.query, "entry_moves", lambda: None)()
        reach = sensitivity * float(np.linalg.norm(inverse, 2))
        if moves is not None and (k := len(inverse)) <= MOST_CORNERS:
            moves = np.broadcast_to(np.asarray(moves, dtype=np.float64), (2, k))
            farthest = np.abs(moves).max(axis=0)
            corners = np.where(np.arange(2**k)[:, None] >> np.arange(k) & 1, *moves)
            with np.errstate(over="ignore"):
                longest = np.hypot.reduce(corners @ inverse.T, axis=1).max() + np.hypot.reduce(error @ farthest)
            reach = min(reach, float(longest))
        return rounded_up(reach)

    def _inverse(self):
        """L⁻¹, and how far each of its entries can be off; raises if its norm is by more than ``LARGEST_ERROR``."""
        factor = self._factor()
        with np.errstate(all="ignore"):
            inverse = solve_triangular(factor, np.eye(len(factor)), lower=True, check_finite=False)
            error = 2.0 * len(factor) * np.finfo(np.float64).eps * (np.abs(inverse) @ np.abs(factor) @ np.abs(inverse))
        if np.all(np.isfinite(error)) and np.linalg.norm(error, 2) <= LARGEST_ERROR * np.linalg.norm(inverse, 2):
            return inverse, error
        raise ValueError(
            f"covariance is too close to singular, got covariance={self.covariance!r}: the noise in its narrowest "
            "direction is lost in rounding"
        )

    def _statistics(self, X):
        self.check()
        value = X if self.query is None else np.atleast_2d(np.asarray(self.query.value(X), dtype=np.float64))
        self.check_width(value.shape[1])
        return value

    def _draw(self, rng, statistics):
        return self._draw_spherical(rng, *statistics.shape) @ self._factor().T

    def _log_noise(self, E, statistics, widen):
        factor, k = widen * self._factor(), E.shape[1]
        squared = np.sum(solve_triangular(factor, E.T, lower=True, check_finite=False) ** 2, axis=0)
        return self._log_radial(squared, k) - np.log(np.diag(factor)).sum()

    def _log_peak(self, k):
        return float(self._log_radial(0.0, k) - np.log(np.diag(self._factor())).sum())


class MultivariateNormalMechanism(EllipticalMechanism):
    """Release s + N(0, C), for any covariance C of the k numbers.

    Parameters
    ----------
    covariance : array-like of shape (k, k)
        C, symmetric and positive definite.
    query : object of ``sklearn_dpmix.queries``, optional
        What is released; it has ``value(X)`` of shape (k,) and ``sensitivity(2)``.  None: the rows of X are released.

    Raises
    ------
    ValueError
        On use, for a covariance that is not one, or does not fit the query.

    References
    ----------
    Gong (2022), §5; Bun, Steinke (2016), Proposition 1.6, for ρ.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import MultivariateNormalMechanism
    >>> from sklearn_dpmix.queries import BoundedRecords
    >>> query = BoundedRecords([(0, 1), (0, 1)], n_features=2)
    >>> mechanism = MultivariateNormalMechanism([[4.0, 1.0], [1.0, 4.0]], query=query)
    >>> mechanism.privatize([[0.5, 0.2], [0.1, 0.7]], random_state=0).shape
    (2,)
    >>> round(mechanism.guarantee().rho, 6)  # Δ₂² = 2, smallest eigenvalue 3
    0.333333
    """

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one release: ρ = d²/2 (zero-concentrated).

        d is the most that one record can move L⁻¹s, L L' = C, as in :class:`MultivariateLaplaceMechanism`.

        ``sklearn_dpmix.privacy.gaussian_delta(epsilon, rho)`` gives its δ at an ε.

        Parameters
        ----------
        n_features : int, optional
            Not used.

        Raises
        ------
        ValueError
            Without a query.
        """
        return PrivacyGuarantee(None, None, half_square(self._mahalanobis_sensitivity()), self._neighbours())

    def log_release_mode(self, S: ArrayLike) -> float | None:
        """Return the log density of the releases given their mean, which :meth:`release_density` never exceeds.

        Parameters
        ----------
        S : array-like of shape (n_releases, k)

        Returns
        -------
        log_mode : float
        """
        S = np.atleast_2d(np.asarray(S, dtype=np.float64))
        return float(self.release_density(S)(S.mean(axis=0, keepdims=True))[0])

    def noise_variance(self, n_features: int | None = None) -> float | Floats | None:
        """Variance of the noise on each number, (k,)."""
        return np.diag(self._matrix()).copy()

    def _log_radial(self, squared, k):
        return -0.5 * squared - 0.5 * k * log(2.0 * pi)

    def _draw_spherical(self, rng, size, k):
        return rng.standard_normal((size, k))
