"""Privacy guarantees and conversions between them."""

from dataclasses import dataclass
from functools import lru_cache
from math import exp, inf, log, pi, sqrt

import numpy as np
from scipy.optimize import brentq
from scipy.special import erfcx, ndtr

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

    @classmethod
    def pure(cls, epsilon, neighbours="replace one record"):
        """ε-DP, which is ε²/2-zCDP (Bun & Steinke 2016, Proposition 1.4)."""
        return cls(epsilon, 0.0, 0.5 * epsilon**2, neighbours)


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

    ρ = (√(ln 1/δ + ε) - √(ln 1/δ))².

    Parameters
    ----------
    epsilon : float, at least 0
    delta : float in (0, 1)

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

    Gaussian noise of standard deviation σ on a query of L2 sensitivity Δ has μ = Δ²/(2σ²).  With s = √(2μ) = Δ/σ and
    x = ε/s - s/2 it is δ = Φ(-x) - e^ε Φ(-x-s) = φ(x)·(R(x) - R(x+s)), R the Mills ratio (1-Φ)/φ: the relative error
    is below 1e-11 for all ε and μ in [1e-24, 1e4].

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
    s = sqrt(2.0 * mu)
    x = epsilon / s - 0.5 * s
    density = exp(-0.5 * x * x) / sqrt(2.0 * pi)
    if s >= 1e-3:
        return density * (_mills(x) - _mills(x + s)) if x > 0 else float(ndtr(-x)) - density * _mills(x + s)
    # Taylor in s, else the two ratios cancel; m_k = ∫ v^k exp(-xv - v²/2) dv over v > 0, so that R' = -m_1
    m_0 = _mills(x)
    m_1 = 1.0 - x * m_0
    m_2 = m_0 - x * m_1
    m_3 = 2.0 * m_1 - x * m_2
    m_4 = 3.0 * m_2 - x * m_3
    return density * s * (m_1 - s / 2 * (m_2 - s / 3 * (m_3 - s / 4 * m_4)))


def gaussian_scale(epsilon, delta, sensitivity=1.0):
    """Return the smallest Gaussian standard deviation that is (ε, δ)-DP (Balle & Wang 2018, Algorithm 1).

    Rounded up by about 1e-12 of itself, so that rounding is never paid for in privacy.

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
    _check_number("sensitivity", sensitivity, 0)
    return sensitivity * _unit_scale(float(epsilon), float(delta))


@lru_cache(maxsize=100_000)  # records with their own epsilon ask for many, and again on each use
def _unit_scale(epsilon, delta):
    def excess(log_mu):
        value = gaussian_delta(epsilon, exp(log_mu))
        return log(value) - log(delta) if value > 0 else -1e3

    low = high = log(epsilon)
    while excess(high) < 0:
        high += 1.0
    while excess(low) > 0:
        low -= 1.0
    log_mu = brentq(excess, low, high, xtol=1e-13, rtol=1e-15)
    return (1.0 + 1e-12) / sqrt(2.0 * exp(log_mu))


def _mills(x):
    """(1 - Φ(x))/φ(x)."""
    return sqrt(0.5 * pi) * float(erfcx(sqrt(0.5) * x))


def _check_number(name, value, low, closed=False):
    good = isinstance(value, (int, float, np.number)) and not isinstance(value, bool)
    if not good or not (low <= value if closed else low < value) or not value < inf:
        bound = f"at least {low}" if closed else f"greater than {low}"
        raise ValueError(f"{name} must be a finite number {bound}, got {value!r}")


def _check_delta(delta):
    if not isinstance(delta, (int, float, np.number)) or isinstance(delta, bool) or not 0 < delta < 1:
        raise ValueError(f"delta must be strictly between 0 and 1, got {delta!r}")
