"""Laplace noise calibrated by a smooth sensitivity (Nissim et al. 2007; Gong 2022, Example 2)."""

from dataclasses import dataclass
from math import log

import numpy as np

from ._dilated import DilatedLaw
from ._smooth_noise import ApproximateSmoothMechanism


@dataclass(frozen=True)
class LaplaceLaw(DilatedLaw):
    """η(u) = exp(-|u|)/2."""

    def log_density(self, u):
        return -np.abs(u) - log(2.0)

    def draw(self, rng, size):
        return rng.laplace(size=size)

    def hockey_stick(self, epsilon, shift, log_dilation):
        """E_ε in closed form.

        log p/q = t - |u| + |u - s|/b, with b = e^t, is linear on three pieces, and equals ε at most once on each side
        of its extreme points.  At a root p = e^ε q, so the masses beyond it are p (at one scale) and b p (at the
        other).

        If b < 1, p wins beyond a root on the left and one right of s, by p(u)(1 - b) each; if the left root is not left
        of 0, p wins up to the root between 0 and s.  If b > 1, p wins between a root left of 0 and that one, if
        anywhere.
        """
        t, b, s = log_dilation, np.exp(log_dilation), shift
        at_zero = t + s / b - epsilon  # log p/q - ε at u = 0
        outer = np.minimum(at_zero / np.expm1(-t), 0.0)  # the root left of 0
        up_to_inner = -0.5 * (1.0 + b) * np.expm1(-at_zero / (1.0 + 1.0 / b))  # at the root between 0 and s
        right = -0.5 * np.expm1(t) * np.exp(-(epsilon - t + s / b) / np.abs(np.expm1(-t)))
        left = -0.5 * np.expm1(t) * np.where(at_zero > 0.0, 1.0, np.exp(outer))
        wins_inside = np.where(at_zero > 0.0, up_to_inner, 0.0)
        return np.where(t < 0.0, left + right, 0.5 * np.expm1(t) * np.expm1(outer)) + wins_inside


class SmoothLaplaceMechanism(ApproximateSmoothMechanism):
    """Release s(x) + m SS_ξ(x) u, with Laplace u, ``exp(-|u|)/2``: a statistic with little noise for regular data.

    SS_ξ is the query's smooth sensitivity.  Example 2 of the paper, with m = 1/ε, does not have the privacy that it
    states: it spends all of ε on the shift of the value and leaves nothing for the change of scale.  At ε = 1, δ = 1e-6
    the median of one record in [0, 1], which is 0 or e^-ξ, has δ = 3e-3; m = 2/ε is correct.  So ``guarantee()`` states
    nothing that was not verified.

    Parameters
    ----------
    epsilon : float
        ε of (ε, δ)-DP, from 1e-100 to 300.
    delta : float
        δ, from 1e-15 to 1.
    query : object of ``sklearn_dpmix.queries``, optional
        It has ``value(X)`` and ``smooth_sensitivity(X, xi)``, such as ``SmoothMedian``.  An analyst of a release, whose
        simulator returns both, may leave it out.
    xi : float, optional
        ξ, below ε and public.  None: chosen from ε and δ alone, to balance what the shift and the change of scale
        spend.
    multiplier : float, optional
        m, for a release that others calibrated; goes with ``xi``.  None: the smallest m that is verified to hold.
    n_records : int, optional
        Public number of records.  It bounds the density of a release, which rejection sampling needs.

    Attributes
    ----------
    xi_, multiplier_ : float
        ξ and m that are used; they need no fit.

    Raises
    ------
    ValueError, TypeError
        On use, for a wrong parameter, for a ξ that leaves nothing for the shift, and for a query without a smooth
        sensitivity.

    Notes
    -----
    The scale of the noise says something about the data, and the guarantee does not cover publishing it.  Inference
    models it: a simulator returns the smooth sensitivity of the simulated data next to the statistic, as the last
    column.

    References
    ----------
    Nissim, Raskhodnikova, Smith (2007), §2; Gong (2022), Example 2 (ERRATA).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import SmoothLaplaceMechanism
    >>> from sklearn_dpmix.queries import SmoothMedian
    >>> mechanism = SmoothLaplaceMechanism(epsilon=1.0, delta=1e-6, query=SmoothMedian(bounds=(0, 100)))
    >>> X = np.random.default_rng(0).normal(40, 10, size=(1000, 1))
    >>> mechanism.privatize(X, random_state=1).round(2)
    array([39.26])
    >>> mechanism.guarantee().delta
    1e-06
    >>> round(mechanism.xi_, 4), round(mechanism.multiplier_, 4)
    (0.0487, 1.8337)
    """

    _law = LaplaceLaw()
