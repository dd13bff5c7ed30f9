"""Multivariate t noise: pure ε with polynomial tails (Gong 2022, §5)."""

from math import asinh, inf, log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln

from .._base.parameters import positive_number
from .._base.typing import Floats
from ..privacy import PrivacyGuarantee
from ..privacy._guarantee import rounded_up
from ._elliptical import EllipticalMechanism

SMALLEST_DF = 0.1


class MultivariateTMechanism(EllipticalMechanism):
    """Release s + u, with multivariate t noise u: density proportional to (1 + u'C⁻¹u/ν)^(-(ν + k)/2).

    For a shift of Mahalanobis length d, the log ratio of densities has the supremum (ν + k) asinh(d/(2√ν)).  Along the
    shift, R(w) = (ν + (w - d)²)/(ν + w²) is a ratio of quadratic forms in (w, √ν).  Its largest value is the larger
    eigenvalue of [[1, -d/√ν], [-d/√ν, 1 + d²/ν]], which is e^θ with cosh θ = 1 + d²/(2ν).  Directions across the shift
    add the same to both forms and bring R nearer to 1.  So ε is the supremum at the longest d, as in
    :class:`MultivariateLaplaceMechanism`.

    Parameters
    ----------
    covariance : array-like of shape (k, k)
        C, symmetric and positive definite: the shape of the noise.  Its covariance is ν/(ν - 2) C, infinite for ν <= 2.
    df : float
        ν, degrees of freedom, positive.
    query : object of ``sklearn_dpmix.queries``, optional
        What is released; it has ``value(X)`` of shape (k,) and ``sensitivity(2)``.  None: the rows of X are released.

    Raises
    ------
    ValueError
        On use, for a wrong parameter, or a covariance that does not fit the query.

    References
    ----------
    Gong (2022), §5; the supremum is derived above.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import MultivariateTMechanism
    >>> from sklearn_dpmix.queries import BoundedRecords
    >>> query = BoundedRecords([(0, 3), (0, 4)], n_features=2)
    >>> mechanism = MultivariateTMechanism([[100.0, 0.0], [0.0, 100.0]], df=4, query=query)
    >>> round(mechanism.guarantee().epsilon, 4)  # 6 asinh(5/10/4)
    0.7481
    """

    def __init__(self, covariance: ArrayLike, df: float, *, query: Any = None) -> None:
        self.covariance = covariance
        self.df = df
        self.query = query

    def check(self, n_features: int | None = None) -> None:
        if positive_number("df", self.df) < SMALLEST_DF:
            raise ValueError(f"df must be at least {SMALLEST_DF}, or draws overflow, got df={self.df!r}")
        super().check(n_features)

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one release, ε = (ν + k) asinh(Δ₂/(2√(νλ))); ValueError without a query.

        Parameters
        ----------
        n_features : int, optional
            Not used.
        """
        distance, nu = self._mahalanobis_sensitivity(), float(self.df)
        shift = 0.5 * distance / sqrt(nu)
        if shift == inf:
            raise ValueError(
                f"covariance is too small for this sensitivity, got covariance={self.covariance!r}: the guarantee "
                "overflows"
            )
        epsilon = (nu + len(self._matrix())) * asinh(rounded_up(shift)) if distance else 0.0
        return PrivacyGuarantee.pure(epsilon, self._neighbours())

    def noise_variance(self, n_features: int | None = None) -> float | Floats | None:
        """Variance of the noise on each number, (k,); infinite for ν <= 2."""
        nu, diagonal = positive_number("df", self.df), np.diag(self._matrix())
        return diagonal * nu / (nu - 2.0) if nu > 2.0 else np.full(len(diagonal), np.inf)

    def _log_radial(self, squared, k):
        nu = positive_number("df", self.df)
        constant = gammaln(0.5 * (nu + k)) - gammaln(0.5 * nu) - 0.5 * k * log(nu * pi)
        return constant - 0.5 * (nu + k) * np.log1p(squared / nu)

    def _draw_spherical(self, rng, size, k):
        nu = positive_number("df", self.df)
        return rng.standard_normal((size, k)) / np.sqrt(rng.chisquare(nu, (size, 1)) / nu)
