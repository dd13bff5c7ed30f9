"""From ρ-zCDP to (ε, δ) and back."""

from math import log, sqrt

from ._number_checks import check_delta, check_number


def zcdp_to_approx_dp(rho: float, delta: float) -> float:
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
    check_number("rho", rho, 0, closed=True)
    check_delta(delta)
    return rho + 2.0 * sqrt(rho * -log(delta))


def approx_dp_to_zcdp(epsilon: float, delta: float) -> float:
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
    check_number("epsilon", epsilon, 0, closed=True)
    check_delta(delta)
    log_term = -log(delta)  # 1/δ may overflow
    root = epsilon / (sqrt(log_term + epsilon) + sqrt(log_term))  # √(L + ε) - √L without cancellation
    return root * root
