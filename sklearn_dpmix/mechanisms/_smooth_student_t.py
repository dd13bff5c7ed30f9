"""Heavy-tailed noise calibrated by a smooth sensitivity: pure ε (Nissim et al. 2007; Bun & Steinke 2019)."""

from dataclasses import dataclass
from math import asinh, exp, hypot, pi, sinh, sqrt
from typing import Any

import numpy as np
from scipy.special import gammaln

from .._base.parameters import positive_number
from ._dilated import DilatedLaw
from ._smooth_noise import SmoothSensitivityMechanism

#: Relative excess of the stated loss over the closed form, above its rounding error
ROUNDING = 1e-12


@dataclass(frozen=True)
class StudentTLaw(DilatedLaw):
    """η(u) ∝ (1 + u²/ν)^(-(ν + 1)/2)."""

    df: float

    def log_density(self, u):
        nu = self.df
        constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) - 0.5 * np.log(nu * pi)
        return constant - 0.5 * (nu + 1.0) * np.log1p(u * u / nu)

    def draw(self, rng, size):
        return rng.standard_t(self.df, size)

    def spent(self, epsilon, xi, multiplier):
        """Return (the least ε that holds, 0), in closed form.

        At shift s and dilation e^t, log p/q = t - (ν+1) t + (ν+1)/2 log R, where R(u) = (ν e^2t + (u - s)²)/(ν + u²) is
        a ratio of quadratic forms in (u, √ν).  Its supremum, including u = ∞, is the larger eigenvalue of [[1, -s/√ν],
        [-s/√ν, e^2t + s²/ν]], whose eigenvalues have the product e^2t.  So it is e^(t + θ) with 2 cosh θ = (1 + e^2t +
        s²/ν) e^-t.  So

            sup log p/q = (1 - ν) t/2 + (ν + 1) θ/2,   cosh θ = cosh t + e^-t s²/(2ν).

        It grows with s², which is at most min(1, e^2t)/m², where cosh θ = cosh t + e^-|t|/(2νm²).  There θ is the
        distance, in the hyperbolic plane, of a fixed point from the point at |t| of a geodesic (cosh θ = A cosh(|t| -
        t_0), A > 1).  So it is convex in |t|, and so is the supremum with the worse sign of t: its largest value is at
        |t| = 0 or ξ.
        """
        nu = self.df

        def loss(t):
            half_theta = asinh(hypot(sinh(0.5 * t), 0.5 * exp(-0.5 * t) / sqrt(nu) / multiplier))
            return 0.5 * abs(nu - 1.0) * t + (nu + 1.0) * half_theta

        return (1.0 + ROUNDING) * max(loss(0.0), loss(xi)), 0.0


class SmoothStudentTMechanism(SmoothSensitivityMechanism):
    """Release s(x) + m SS_ξ(x) u, with u of Student's t distribution: ε-DP without δ.

    Parameters
    ----------
    epsilon : float
        Privacy loss, from 1e-100 to 300.
    query, xi, multiplier, n_records :
        As in :class:`SmoothLaplaceMechanism`.
    df : float, default=3
        ν, degrees of freedom.  More degrees give lighter tails but spend more on the change of scale, so ξ must be
        below ε/ν.

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
    Bun, Steinke (2019), "Average-case averages"; the supremum of the loss is derived in closed form here.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import SmoothStudentTMechanism
    >>> from sklearn_dpmix.queries import SmoothMedian
    >>> mechanism = SmoothStudentTMechanism(epsilon=1.0, query=SmoothMedian(bounds=(0, 100)))
    >>> mechanism.guarantee()
    PrivacyGuarantee(epsilon=1.0, delta=0.0, rho=0.5, neighbours='replace one record')
    >>> round(mechanism.xi_, 4), round(mechanism.multiplier_, 4)
    (0.2219, 1.6037)
    """

    def __init__(
        self,
        epsilon: float,
        *,
        query: Any = None,
        df: float = 3,
        xi: float | None = None,
        multiplier: float | None = None,
        n_records: int | None = None,
    ) -> None:
        super().__init__(epsilon, query=query, xi=xi, multiplier=multiplier, n_records=n_records)
        self.df = df

    @property
    def _law(self):
        return StudentTLaw(positive_number("df", self.df))


class SmoothCauchyMechanism(SmoothSensitivityMechanism):
    """Release s(x) + m SS_ξ(x) u, with Cauchy u, of density 1/(π(1 + u²)): ε-DP without δ.

    The published m = 6/ε at ξ = ε/6 holds with room to spare: at the same ξ the smallest m is about 1/ε.  The noise has
    no mean; inference that models it does not need one.

    Parameters
    ----------
    epsilon : float
        Privacy loss, from 1e-100 to 300.
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
    Nissim, Raskhodnikova, Smith (2007), §2; the loss is that of Student's t with one degree of freedom.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import SmoothCauchyMechanism
    >>> from sklearn_dpmix.queries import SmoothMedian
    >>> mechanism = SmoothCauchyMechanism(epsilon=1.0, query=SmoothMedian(bounds=(0, 100)))
    >>> round(mechanism.xi_, 4), round(mechanism.multiplier_, 4)
    (0.7305, 0.9595)
    """

    _law = StudentTLaw(1.0)
