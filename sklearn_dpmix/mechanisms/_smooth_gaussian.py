"""Gaussian noise calibrated by a smooth sensitivity (Nissim et al. 2007; Gong 2022, Example 3)."""

from dataclasses import dataclass

import numpy as np
from scipy.special import log_ndtr, ndtr

from .._base.numeric import HALF_LOG_2PI
from ._dilated import DilatedLaw
from ._smooth_noise import ApproximateSmoothMechanism


@dataclass(frozen=True)
class GaussianLaw(DilatedLaw):
    """η(u) = exp(-u²/2)/√(2π)."""

    def log_density(self, u):
        return -0.5 * u * u - HALF_LOG_2PI

    def draw(self, rng, size):
        return rng.standard_normal(size)

    def hockey_stick(self, epsilon, shift, log_dilation):
        """E_ε in closed form.

        With b = e^t, 2 (log p/q - ε) = a u² - 2 c u + d is a parabola with a = 1/b² - 1, c = s/b², d = s²/b² + 2(t -
        ε).  If b < 1, it opens upwards, and p wins left of the near root and right of the far one, as d < 0 or s > 0.
        If b > 1, p wins between the far root, on the left, and the near one, if there are roots.
        """
        t, b, s = log_dilation, np.exp(log_dilation), shift
        a, c, d = np.expm1(-2.0 * t), s / b**2, (s / b) ** 2 + 2.0 * (t - epsilon)
        discriminant = (s / b) ** 2 + 2.0 * a * (epsilon - t)  # c² - a d, without cancellation
        root = c + np.sqrt(np.maximum(discriminant, 0.0))
        near, far = d / root, root / a

        def excess(u, side):  # excess of p over e^ε q, left (side = 1) or right (-1) of u
            return ndtr(side * u) - np.exp(epsilon + log_ndtr(side * (u - s) / b))

        wider = np.where(discriminant > 0.0, excess(near, 1.0) - excess(far, 1.0), 0.0)
        return np.where(t < 0.0, excess(near, 1.0) + excess(far, -1.0), wider)


class SmoothGaussianMechanism(ApproximateSmoothMechanism):
    """Release s(x) + m SS_ξ(x) u, with standard normal u.

    Example 3 of the paper has m = 5 √(2 ln(2/δ))/ε.  This holds with room to spare: at ε = 1, δ = 1e-6 and the same ξ,
    the smallest m is 5.9, a quarter of it.

    Parameters
    ----------
    epsilon : float
        ε of (ε, δ)-DP, from 1e-100 to 300.
    delta : float
        δ, from 1e-15 to 1.
    query, xi, multiplier, n_records :
        As in :class:`SmoothLaplaceMechanism`.

    Attributes
    ----------
    xi_, multiplier_ : float
        ξ and m that are used; they need no fit.

    Raises
    ------
    ValueError, TypeError
        As in :class:`SmoothLaplaceMechanism`.

    References
    ----------
    Nissim, Raskhodnikova, Smith (2007), §2; Gong (2022), Example 3.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import SmoothGaussianMechanism
    >>> from sklearn_dpmix.queries import SmoothTrimmedMean
    >>> query = SmoothTrimmedMean(bounds=(0, 100), trim=0.1)
    >>> mechanism = SmoothGaussianMechanism(epsilon=1.0, delta=1e-6, query=query)
    >>> mechanism.guarantee().delta, mechanism.n_columns(1)
    (1e-06, 2)
    """

    _law = GaussianLaw()
