"""Privacy guarantees and conversions between them."""

from dataclasses import dataclass
from math import exp, expm1, inf, log, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import log_ndtr

__all__ = [
    "PrivacyGuarantee",
    "approx_dp_to_zcdp",
    "gaussian_delta",
    "gaussian_scale",
    "zcdp_to_approx_dp",
]


@dataclass(frozen=True)
class PrivacyGuarantee:
    """What a mechanism promises.

    Attributes
    ----------
    epsilon, delta : float or None
        (ε, δ)-differential privacy; None where only ``rho`` is stated.
    rho : float
        ρ of zero-concentrated differential privacy.
    neighbours : str
        Which pairs of inputs the promise is about.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> LaplaceMechanism(epsilon=2.0, bounds=(0, 1)).guarantee()
    PrivacyGuarantee(epsilon=2.0, delta=0.0, rho=2.0, neighbours='replace one record')
    """

    epsilon: float | None
    delta: float | None
    rho: float
    neighbours: str = "replace one record"


def zcdp_to_approx_dp(rho, delta):
    """Return an ε such that ρ-zCDP implies (ε, δ)-DP: ε = ρ + 2√(ρ ln 1/δ) (Bun & Steinke 2016, Prop. 1.3).

    Parameters
    ----------
    rho : float, at least 0
    delta : float in (0, 1)

    Examples
    --------
    >>> from sklearn_dpmix.privacy import zcdp_to_approx_dp
    >>> round(zcdp_to_approx_dp(0.1, 1e-6), 4)
    2.4508
    """
    _check_number("rho", rho, 0, closed=True)
    _check_delta(delta)
    return rho + 2.0 * sqrt(rho * log(1.0 / delta))


def approx_dp_to_zcdp(epsilon, delta):
    """Return the largest ρ whose conversion by :func:`zcdp_to_approx_dp` fits (ε, δ): a budget, not an implication.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import approx_dp_to_zcdp, zcdp_to_approx_dp
    >>> round(zcdp_to_approx_dp(approx_dp_to_zcdp(4.0, 1e-6), 1e-6), 9)
    4.0
    """
    _check_number("epsilon", epsilon, 0, closed=True)
    _check_delta(delta)
    log_term = log(1.0 / delta)
    root = epsilon / (sqrt(log_term + epsilon) + sqrt(log_term))  # √(L + ε) - √L without cancellation
    return root * root


def gaussian_delta(epsilon, mu):
    """Return the exact δ at ε of a Gaussian privacy-loss distribution N(μ, 2μ) (Balle & Wang 2018, Theorem 8).

    Gaussian noise of standard deviation σ on a query of L2 sensitivity Δ has μ = Δ²/(2σ²).

    Parameters
    ----------
    epsilon : float
        At least 0.
    mu : float
        Mean privacy loss, at least 0.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import gaussian_delta
    >>> round(gaussian_delta(1.0, 0.5), 6)
    0.126937
    """
    _check_number("epsilon", epsilon, 0, closed=True)
    _check_number("mu", mu, 0, closed=True)
    if mu == 0:
        return 0.0
    spread = sqrt(2.0 * mu)
    first, second = log_ndtr((mu - epsilon) / spread), epsilon + log_ndtr(-(mu + epsilon) / spread)
    return float(exp(first) * -expm1(min(second - first, 0.0)))


def gaussian_scale(epsilon, delta, sensitivity=1.0):
    """Return the smallest Gaussian standard deviation that is (ε, δ)-DP (Balle & Wang 2018, Algorithm 1).

    Parameters
    ----------
    epsilon : float, positive
    delta : float in (0, 1)
    sensitivity : float, default=1.0
        L2 sensitivity of the query.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import gaussian_delta, gaussian_scale
    >>> sigma = gaussian_scale(1.0, 1e-5)
    >>> round(sigma, 4), round(gaussian_delta(1.0, 0.5 / sigma**2) / 1e-5, 6)
    (3.7306, 1.0)
    """
    _check_number("epsilon", epsilon, 0)
    _check_delta(delta)

    def excess(log_mu):
        value = gaussian_delta(epsilon, exp(log_mu))
        return log(value) - log(delta) if value > 0 else -inf

    low, high = -60.0, 1.0
    while excess(high) < 0:
        high += 1.0
    while excess(0.5 * (low + high)) == -inf:
        low = 0.5 * (low + high)
    log_mu = brentq(lambda t: max(excess(t), -1e3), low, high, xtol=1e-13, rtol=1e-14)
    return sensitivity / sqrt(2.0 * exp(log_mu))


def _check_number(name, value, low, closed=False):
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not good or not (low <= value if closed else low < value) or not value < inf:
        raise ValueError(f"{name} must be a finite number {'at least' if closed else 'greater than'} {low}, got {value!r}")


def _check_delta(delta):
    if not isinstance(delta, (int, float, np.number)) or isinstance(delta, bool) or not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1, got {delta!r}")
