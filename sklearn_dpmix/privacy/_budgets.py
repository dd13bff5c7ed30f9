"""How many releases a budget allows, and how much noise a number of releases needs."""

from math import exp, log, sqrt

import numpy as np
from scipy.optimize import brentq

from .._base.search import last_where
from ._accountants import fits
from ._conversions import approx_dp_to_zcdp
from ._gaussian_loss import gaussian_mu
from ._number_checks import MOST, check_accountant, check_batch, check_count, check_delta, check_number
from ._releases import GaussianReleases
from ._renyi import ORDERS, log_deltas, renyi_log_delta
from ._subsampled_gaussian import SubsampledGaussianReleases


def max_releases(
    epsilon: float,
    delta: float,
    noise_multiplier: float,
    accountant: str = "tight",
    batch_size: int | None = None,
    n_records: int | None = None,
) -> int:
    """Return how many Gaussian releases fit (ε, δ) together; neighbours replace one record.

    Parameters
    ----------
    epsilon : float, positive
    delta : float in (0, 1)
    noise_multiplier : float, positive
        Standard deviation of the noise in units of the query's L2 sensitivity (on a batch, if there are batches).
    accountant : {"tight", "rdp", "zcdp"}, default="tight"
        As for :func:`epsilon_of`.  ``"zcdp"`` gives ⌊2·noise_multiplier²·ρ⌋ with ρ = ``approx_dp_to_zcdp(epsilon,
        delta)``.
    batch_size, n_records : int, optional
        For releases that are each made on a batch drawn without replacement; give both, or neither.

    Returns
    -------
    n_releases : int
        The largest number that fits; 0 if not even one does, and 2**53 if that many do.

    Raises
    ------
    ValueError
        For a number out of its range, one of ``batch_size`` and ``n_records`` without the other, or an unknown
        accountant.

    Examples
    --------
    The banana experiment of Räisä's thesis: penalty tests of τ = 0.17 on 100,000 records.

    >>> from sklearn_dpmix.privacy import max_releases
    >>> noise_multiplier = 0.17 * 100_000**0.5
    >>> [max_releases(4.0, 1e-6, noise_multiplier, accountant) for accountant in ("zcdp", "rdp", "tight")]
    [1467, 1797, 2028]
    """
    check_number("noise_multiplier", noise_multiplier, 0)
    make = _maker(epsilon, delta, accountant, batch_size, n_records)
    one = make(noise_multiplier, 1)
    if one.gaussian_mu_bound == 0:
        raise ValueError(
            f"noise_multiplier={noise_multiplier!r} is so large that the cost of a release rounds to 0: pass one below "
            "1e150"
        )
    return last_where(lambda n: fits([make(noise_multiplier, n)], epsilon, delta, accountant), 0, MOST)


def noise_multiplier_for(
    epsilon: float,
    delta: float,
    n_releases: int,
    accountant: str = "tight",
    batch_size: int | None = None,
    n_records: int | None = None,
) -> float:
    """Return the smallest noise with which Gaussian releases fit (ε, δ): the inverse of :func:`max_releases`.

    Parameters
    ----------
    epsilon : float, positive
    delta : float in (0, 1)
    n_releases : int, at least 1
    accountant : {"tight", "rdp", "zcdp"}, default="tight"
    batch_size, n_records : int, optional
        As for :func:`max_releases`.

    Returns
    -------
    noise_multiplier : float
        Standard deviation of the noise in units of the query's L2 sensitivity; rounded up by a relative 1e-12 or so, so
        that ``max_releases(epsilon, delta, noise_multiplier)`` is at least ``n_releases``.

    Raises
    ------
    ValueError
        As for :func:`max_releases`.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import max_releases, noise_multiplier_for
    >>> noise_multiplier = noise_multiplier_for(4.0, 1e-6, 2028)
    >>> round(noise_multiplier, 3), max_releases(4.0, 1e-6, noise_multiplier)
    (53.748, 2028)
    >>> round(noise_multiplier_for(4.0, 1e-6, 2028, batch_size=1000, n_records=100_000), 3)
    0.992
    """
    n_releases = check_count("n_releases", n_releases, 1)
    make = _maker(epsilon, delta, accountant, batch_size, n_records)
    if accountant == "zcdp":
        rho = approx_dp_to_zcdp(epsilon, delta)
        if rho == 0.0:
            raise ValueError(f"epsilon={epsilon!r} is so small that its ρ rounds to 0: pass one above 1e-150")
        multiplier = sqrt(n_releases / (2.0 * rho))
    else:
        multiplier = sqrt(n_releases / (2.0 * gaussian_mu(epsilon, delta)))
        if accountant == "rdp" or make(1.0, 1).mu is None:
            renyi = _renyi_multiplier(lambda m: make(m, n_releases), epsilon, delta)
            multiplier = renyi if accountant == "rdp" else min(renyi, multiplier)
    step = 1e-12
    while not fits([make(multiplier, n_releases)], epsilon, delta, accountant):
        multiplier *= 1.0 + step
        step *= 2.0
    return multiplier


def _maker(epsilon, delta, accountant, batch_size, n_records):
    """Check a budget; return a function of (noise_multiplier, n_releases)."""
    check_number("epsilon", epsilon, 0)
    check_delta(delta)
    check_accountant(accountant)
    if (batch_size is None) != (n_records is None):
        raise ValueError(
            "batch_size and n_records describe batches together, got "
            f"batch_size={batch_size!r}, n_records={n_records!r}: pass both, or neither for releases on all records"
        )
    if batch_size is None:
        return GaussianReleases
    check_batch(batch_size, n_records)
    return lambda noise_multiplier, n_releases: SubsampledGaussianReleases(
        noise_multiplier, batch_size, n_records, n_releases
    )


def _renyi_multiplier(make, epsilon, delta):
    """Return the multiplier at which Rényi divergences reach δ: first on a few orders, then around the best one."""
    orders, multiplier = ORDERS[::16], 1.0
    for _ in range(6):
        multiplier = _solve(lambda m, a=orders: renyi_log_delta(make(m).rdp(a), epsilon, a) - log(delta), multiplier)
        best = int(np.argmin(log_deltas(make(multiplier).rdp(ORDERS), epsilon)))
        window = ORDERS[max(best - 8, 0) : best + 9]
        if np.isin(window, orders).all():
            break
        orders = np.union1d(window, ORDERS[:1])  # the smallest order bounds the total variation
    return multiplier


def _solve(excess, start):
    """Return the multiplier at which a decreasing function is 0."""
    low = high = log(start)
    while excess(exp(high)) > 0:
        high += 1.0
    while excess(exp(low)) < 0:
        low -= 1.0
    return exp(brentq(lambda log_multiplier: excess(exp(log_multiplier)), low, high, xtol=1e-14, rtol=1e-15))
