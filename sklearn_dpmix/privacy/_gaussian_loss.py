"""The Gaussian mechanism's exact (ε, δ): a privacy-loss distribution N(μ, 2μ)."""

from functools import lru_cache
from math import exp, log, nextafter, pi, sqrt

from scipy.optimize import brentq
from scipy.special import erfcx, erfinv, ndtr

from ._number_checks import check_delta, check_number


def gaussian_delta(epsilon: float, mu: float) -> float:
    """Return the exact δ at ε of a Gaussian privacy-loss distribution N(μ, 2μ) (Balle & Wang 2018, Theorem 8).

    Gaussian noise of standard deviation σ on a query of L2 sensitivity Δ has μ = Δ²/(2σ²).  With s = √(2μ) = Δ/σ and
    x = ε/s - s/2 it is δ = Φ(-x) - e^ε Φ(-x-s) = φ(x)·(R(x) - R(x+s)), where R is the Mills ratio (1-Φ)/φ.  The
    relative error is below 1e-11 for all ε and μ in [1e-24, 1e4].

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
    check_number("epsilon", epsilon, 0, closed=True)
    check_number("mu", mu, 0, closed=True)
    return 0.0 if mu == 0 else _delta_of_shift(epsilon, sqrt(2.0 * mu))


def _delta_of_shift(epsilon, s):
    """The same at a shift by s > 0 standard deviations, whose square may underflow."""
    x = epsilon / s - 0.5 * s
    density = exp(-0.5 * x * x) / sqrt(2.0 * pi)
    if x > 0 and density == 0.0:  # and x may be infinite
        return 0.0
    if s >= 1e-3:
        return density * (_mills(x) - _mills(x + s)) if x > 0 else float(ndtr(-x)) - density * _mills(x + s)
    # Taylor in s, otherwise the two ratios cancel; m_k = ∫ v^k exp(-xv - v²/2) dv over v > 0, so that R' = -m_1
    m_0 = _mills(x)
    m_1 = 1.0 - x * m_0
    m_2 = m_0 - x * m_1
    m_3 = 2.0 * m_1 - x * m_2
    m_4 = 3.0 * m_2 - x * m_3
    return density * s * (m_1 - s / 2 * (m_2 - s / 3 * (m_3 - s / 4 * m_4)))


def gaussian_scale(epsilon: float, delta: float, sensitivity: float = 1.0) -> float:
    """Return the smallest Gaussian standard deviation that is (ε, δ)-DP (Balle & Wang 2018, Algorithm 1).

    It is rounded up by a relative 1e-12 or so, so that rounding never costs privacy.

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
    check_number("epsilon", epsilon, 0)
    check_delta(delta)
    check_number("sensitivity", sensitivity, 0)
    return sensitivity * _unit_scale(float(epsilon), float(delta))


def gaussian_mu(epsilon: float, delta: float) -> float:
    """Return the largest μ of a Gaussian privacy-loss distribution N(μ, 2μ) that is (ε, δ)-DP.

    This is the inverse of :func:`gaussian_delta` in μ, and says how many Gaussian releases a budget allows: releases
    with noise multiplier m (standard deviation over L2 sensitivity) cost 1/(2m²) each, and their μ add up, adaptive
    choices included (Sommer, Meiser & Mohammadi 2019, Theorem 1 and Lemma 11).  It is rounded down by a relative 1e-12
    or so, so that rounding never costs privacy.  The μ of μ-GDP (Dong, Roth & Su 2022) is another number: it is √(2μ).

    Parameters
    ----------
    epsilon : float, at least 0
    delta : float in (0, 1)

    Returns
    -------
    mu : float
        Mean privacy loss in nats.

    Raises
    ------
    ValueError
        For ``epsilon`` or ``delta`` outside their range.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import gaussian_delta, gaussian_mu
    >>> mu = gaussian_mu(4.0, 1e-6)
    >>> round(mu, 6), round(gaussian_delta(4.0, mu) / 1e-6, 6)
    (0.351004, 1.0)
    """
    check_number("epsilon", epsilon, 0, closed=True)
    check_delta(delta)
    epsilon, delta = float(epsilon), float(delta)
    if epsilon == 0:  # δ is the total variation of N(0, 1) and N(√(2μ), 1), which is erf(√μ/2)
        mu = (1.0 - 2e-12) * 4.0 * float(erfinv(delta)) ** 2
    else:
        shift = 1.0 / _unit_scale(epsilon, delta)
        mu = 0.5 * shift * shift
    step = mu * 2.0**-50
    while gaussian_delta(epsilon, mu) > delta:  # only rounding: near δ = 1 a part in 10¹² of μ does not show in δ
        mu = min(nextafter(mu, 0.0), mu - step)
        step *= 2.0
    return mu


@lru_cache(maxsize=100_000)  # records with their own epsilon need many, again on each use
def _unit_scale(epsilon, delta):
    def shift(log_mu):
        return sqrt(2.0) * exp(0.5 * log_mu)

    def excess(log_mu):
        value = _delta_of_shift(epsilon, shift(log_mu))
        return log(value) - log(delta) if value > 0 else -1e3

    low = high = log(epsilon)
    while excess(high) < 0:
        high += 1.0
    while excess(low) > 0:
        low -= 1.0
    log_mu = brentq(excess, low, high, xtol=1e-13, rtol=1e-15)
    return (1.0 + 1e-12) / shift(log_mu)


def _mills(x):
    """(1 - Φ(x))/φ(x)."""
    return sqrt(0.5 * pi) * float(erfcx(sqrt(0.5) * x))
