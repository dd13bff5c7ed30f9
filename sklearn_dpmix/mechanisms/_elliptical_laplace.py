"""Noise of density exp(-√(u'C⁻¹u)): pure ε for a statistic whose numbers move together (Gong 2022, §5)."""

from math import log, pi

import numpy as np
from scipy.special import gammaln

from .._base.typing import Floats
from ..privacy import PrivacyGuarantee
from ._elliptical import EllipticalMechanism


class MultivariateLaplaceMechanism(EllipticalMechanism):
    """Release s + u, with u of density proportional to exp(-√(u'C⁻¹u)) on R^k.

    The normaliser is 2 π^(k/2) Γ(k)/Γ(k/2) √det C: the sphere's area times ∫ r^(k-1) e^-r dr.  So with L L' = C the
    radius of L⁻¹u has the distribution Gamma(k) and its direction is uniform; u is drawn in this way, exactly.  By the
    triangle inequality, log densities differ by no more than the Mahalanobis length of the shift.  So ε is the longest
    L⁻¹d over what one record can move the statistic by; it is Δ₂/√λ, where λ is the smallest eigenvalue of C, unless
    the query knows more (``entry_moves``).

    Parameters
    ----------
    covariance : array-like of shape (k, k)
        C, symmetric and positive definite: the shape of the noise.  Its covariance is (k + 1) C.
    query : object of ``sklearn_dpmix.queries``, optional
        What is released; it has ``value(X)`` of shape (k,) and ``sensitivity(2)``.  None: the rows of X are released.

    Raises
    ------
    ValueError
        On use, for a covariance that is not one, or does not fit the query.

    Notes
    -----
    The other distribution of this name, √W N(0, C) with exponential W, has a Bessel function as its density, which for
    k >= 2 grows without bound towards 0.  Log ratios are then unbounded, so there is no ε; and there is no mode by
    which to normalise an acceptance probability, so there is no rejection sampling.  With k = 1 both are the Laplace
    distribution.

    References
    ----------
    Gong (2022), §5; Hardt, Talwar (2010), "On the geometry of differential privacy", for noise exp(-‖u‖) with any norm.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import MultivariateLaplaceMechanism
    >>> from sklearn_dpmix.queries import BoundedRecords
    >>> query = BoundedRecords([(0, 3), (0, 4)], n_features=2)
    >>> mechanism = MultivariateLaplaceMechanism([[100.0, 0.0], [0.0, 100.0]], query=query)
    >>> mechanism.guarantee().epsilon
    0.5
    """

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one release; ValueError without a query.

        Parameters
        ----------
        n_features : int, optional
            Not used.
        """
        return PrivacyGuarantee.pure(self._mahalanobis_sensitivity(), self._neighbours())

    def noise_variance(self, n_features: int | None = None) -> float | Floats | None:
        """Variance of the noise on each number, (k,)."""
        C = self._matrix()
        return (len(C) + 1.0) * np.diag(C)

    def _log_radial(self, squared, k):
        constant = log(2.0) + 0.5 * k * log(pi) + gammaln(k) - gammaln(0.5 * k)
        return -np.sqrt(squared) - constant

    def _draw_spherical(self, rng, size, k):
        direction = rng.standard_normal((size, k))
        direction /= np.linalg.norm(direction, axis=1, keepdims=True)
        return rng.standard_gamma(k, (size, 1)) * direction
