"""What several releases cost together: ε at a δ, δ at an ε."""

from collections.abc import Iterable
from math import exp, inf, isfinite, log

import numpy as np
from scipy.optimize import brentq

from ._conversions import approx_dp_to_zcdp, zcdp_to_approx_dp
from ._gaussian_loss import gaussian_delta, gaussian_mu
from ._number_checks import check_accountant, check_delta, check_number
from ._releases import Releases
from ._renyi import ORDERS, epsilons, log_deltas, renyi_epsilon, renyi_log_delta

#: Relative excess of an exact ε, above its rounding error; half of what :func:`gaussian_mu` leaves, so that a budget
#: that was used up to the last digit does not seem overspent.
MARGIN = 5e-13


def epsilon_of(releases: Releases | Iterable[Releases], delta: float, accountant: str = "tight") -> float:
    """Return an ε such that all ``releases`` together are (ε, δ)-DP; neighbours replace one record.

    Parameters
    ----------
    releases : Releases or list of Releases
        Releases made on the same data, in any order; each may be chosen after seeing those before it.
    delta : float in (0, 1)
    accountant : {"tight", "rdp", "zcdp"}, default="tight"
        - ``"zcdp"``: ρ's add up and ε = ρ + 2√(ρ ln 1/δ) (Bun & Steinke 2016); no amplification by subsampling.
        - ``"rdp"``: Rényi divergences add up at each of 980 orders α; ε = rdp + log((α-1)/α) - (log δ + log α)/(α-1) at
          the best order (Canonne, Kamath & Steinke 2020, Proposition 12).
        - ``"tight"``: exact, to about 1e-12, if all noise is Gaussian on all of the data: the privacy loss is N(μ, 2μ)
          with the sum of the μ's.  Otherwise it is ``"rdp"``, or the cost of the same noise on all of the data if that
          is less.

    Returns
    -------
    epsilon : float
        In nats, rounded up; inf if no ε is known to hold.

    Raises
    ------
    ValueError
        For ``delta`` outside (0, 1), an unknown accountant, or releases that have no ρ under ``"zcdp"``.
    TypeError
        For anything that is not a :class:`Releases`.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import GaussianReleases, epsilon_of
    >>> test = GaussianReleases(noise_multiplier=50.0, n_releases=1000)
    >>> [round(epsilon_of(test, 1e-6, accountant), 3) for accountant in ("zcdp", "rdp", "tight")]
    [3.525, 3.131, 2.922]
    """
    releases = as_list(releases)
    check_delta(delta)
    check_accountant(accountant)
    delta = float(delta)
    if accountant == "zcdp":
        rho = total_rho(releases)
        return zcdp_to_approx_dp(rho, delta) if isfinite(rho) else inf
    if accountant == "rdp":
        return _least_epsilon(releases, delta)
    exact = total(releases, "mu")
    if exact is not None:
        return _gaussian_epsilon(exact, delta)
    bound = total(releases, "gaussian_mu_bound")
    return min(_least_epsilon(releases, delta), inf if bound is None else _gaussian_epsilon(bound, delta))


def delta_of(releases: Releases | Iterable[Releases], epsilon: float, accountant: str = "tight") -> float:
    """Return a δ such that all ``releases`` together are (ε, δ)-DP: :func:`epsilon_of` the other way round.

    Parameters
    ----------
    releases : Releases or list of Releases
    epsilon : float, at least 0
    accountant : {"tight", "rdp", "zcdp"}, default="tight"
        As for :func:`epsilon_of`.

    Returns
    -------
    delta : float
        At most 1; the relative error is about 1e-11 if it is exact.

    Raises
    ------
    ValueError, TypeError
        As for :func:`epsilon_of`; ``epsilon`` must be finite and at least 0.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import GaussianReleases, delta_of
    >>> test = GaussianReleases(noise_multiplier=50.0, n_releases=1000)
    >>> print(*(f"{delta_of(test, 3.0, accountant):.2g}" for accountant in ("zcdp", "rdp", "tight")))
    5.5e-05 2.7e-06 5.6e-07
    """
    releases = as_list(releases)
    check_number("epsilon", epsilon, 0, closed=True)
    check_accountant(accountant)
    epsilon = float(epsilon)
    if accountant == "zcdp":
        rho = total_rho(releases)
        if rho == 0 or rho >= epsilon:
            return 0.0 if rho == 0 else 1.0
        return exp(-((epsilon - rho) ** 2) / (4.0 * rho))
    if accountant == "tight" and total(releases, "mu") is not None:
        return _gaussian_delta(epsilon, total(releases, "mu"))
    renyi = min(1.0, exp(min(0.0, _least_log_delta(releases, epsilon))))
    bound = total(releases, "gaussian_mu_bound") if accountant == "tight" else None
    return renyi if bound is None else min(renyi, _gaussian_delta(epsilon, bound))


def fits(releases, epsilon, delta, accountant):
    """Whether releases stay within (ε, δ).  Every budget uses this one comparison, so budgets never disagree."""
    if accountant == "zcdp":
        return total_rho(releases) <= approx_dp_to_zcdp(epsilon, delta)
    if accountant == "tight":
        bound = total(releases, "gaussian_mu_bound")  # μ itself if that is exact
        if bound is not None and bound <= gaussian_mu(epsilon, delta):
            return True
        if total(releases, "mu") is not None:
            return False
    return _least_log_delta(releases, epsilon) <= log(delta)


def as_list(releases):
    """Return releases as a list; TypeError if one is something else."""
    found = list(releases) if np.iterable(releases) and not isinstance(releases, Releases) else [releases]
    for one in found:
        if not isinstance(one, Releases):
            raise TypeError(
                f"releases must be a Releases or a list of them, got {one!r}: describe what was released with "
                "GaussianReleases, SubsampledGaussianReleases or SubsampledReleases"
            )
    return found


def total(releases, name):
    """Return the sum of an attribute over releases; None if one of them has none."""
    parts = [getattr(one, name) for one in releases]
    return None if any(part is None for part in parts) else float(sum(parts))


def total_rho(releases):
    """Return the sum of the ρ's, or raise an error that names a release without one."""
    for one in releases:
        if one.rho is None:
            raise ValueError(f'accountant="zcdp" cannot account for {one!r}, which has no ρ: use "rdp" or "tight"')
    return float(sum(one.rho for one in releases))


def total_rdp(releases, orders=ORDERS):
    """Return the summed Rényi divergences at an array of orders."""
    return sum((one.rdp(orders) for one in releases), 0.0 * orders)


def _least_epsilon(releases, delta):
    rdp, orders = at_best_orders(releases, lambda rdp, orders: epsilons(rdp, delta, orders))
    return renyi_epsilon(rdp, delta, orders)


def _least_log_delta(releases, epsilon):
    rdp, orders = at_best_orders(releases, lambda rdp, orders: log_deltas(rdp, epsilon, orders))
    return renyi_log_delta(rdp, epsilon, orders)


def at_best_orders(releases, values):
    """Return (rdp, orders) at the smallest order and around the one with the smallest ``values(rdp, orders)``.

    If each (α-1)·rdp(α) is convex in α, log δ is too: it adds -(α-1)·ε and (α-1)·log(α-1) - α·log(α), whose second
    derivative is 1/(α-1) - 1/α > 0.  So it falls and then rises, and so does ε, which is a convex function over α-1.
    Then a search on ever finer parts of the grid finds the best of all 980 orders from 50.  Otherwise all orders are
    used.  The choice of orders can cost accuracy but never validity.  The same holds for an rdp that is not amplified
    at orders in the hundred thousands, where the integral would be too much work.
    """
    if not all(one._log_moment_is_convex for one in releases):
        return total_rdp(releases), ORDERS
    at = np.arange(0, len(ORDERS), 64)
    for step in (8, 1):
        best = at[np.argmin(values(total_rdp(releases, ORDERS[at]), ORDERS[at]))]
        at = np.unique(np.clip(best + step * np.arange(-8, 9), 0, len(ORDERS) - 1))
    orders = ORDERS[np.union1d([0], at)]  # the smallest order bounds the total variation
    return total_rdp(releases, orders), orders


def _gaussian_delta(epsilon, mu):
    return gaussian_delta(epsilon, mu) if isfinite(mu) else 1.0


def _gaussian_epsilon(mu, delta):
    """Return the smallest ε at which N(μ, 2μ) stays within δ, rounded up."""
    if not isfinite(mu):
        return inf
    if gaussian_delta(0.0, mu) <= delta:
        return 0.0
    top = zcdp_to_approx_dp(mu, delta)

    def excess(epsilon):
        value = gaussian_delta(epsilon, mu)
        return log(value) - log(delta) if value > 0 else -1e3

    epsilon = brentq(excess, 0.0, top, xtol=1e-300, rtol=1e-15) * (1.0 + MARGIN)
    step = MARGIN
    while gaussian_delta(epsilon, mu) > delta:  # rounding alone, as in gaussian_mu
        epsilon *= 1.0 + step
        step *= 2.0
    return epsilon
