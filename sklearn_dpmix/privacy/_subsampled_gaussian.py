"""Gaussian noise on a batch drawn without replacement: amplification by the privacy profile.

The theorem (Balle, Barthe & Gaboardi 2018, Theorem 9) in the form used here, with its proof.  For γ >= 0 write
H_γ(P, Q) = sup_S P(S) - γ·Q(S), the δ at ε = log γ.  A mechanism M sees a batch of b of the n records, all batches
equally likely; let H(t) bound H_t(M(B), M(B')) for batches that differ in one record.  Then, with q = b/n, two data
sets that differ in record i have, for all t >= 1,

    H_γ(ω, ω') <= q·H(t)   at   γ = 1 + q(t - 1).                                                           (1)

Proof.  ω = (1-q)·ω0 + q·ω1 and ω' = (1-q)·ω0 + q·ω1', where ω1, ω1' are the distributions given that i is in the batch.
As γ + (1-q)(t-1) = t, ω - γω' = q·[ω1 - t·(β·ω1' + (1-β)·ω0)] with β = γ/t, so that by convexity H_γ(ω, ω') <=
q·[β·H_t(ω1, ω1') + (1-β)·H_t(ω1, ω0)].  Batches of ω1 and ω1' differ in record i; exchanging i for a record drawn from
those outside the batch turns a batch of ω1 into one of ω0, so both divergences are mixtures of ones that H(t) bounds.
∎

Rényi divergences are mixtures of H_γ in both directions (Sason & Verdú 2016), and (1) holds in both:

    E_ω'[(ω/ω')^α] = 1 + α(α-1) ∫_1^∞ γ^(α-2) H_γ(ω, ω') + γ^(-α-1) H_γ(ω', ω) dγ.                           (2)

For Gaussian noise H(t) is E_Q[(R - t)+] with R = dP/dQ and P = N(s, 1), Q = N(0, 1), s = 1/noise_multiplier (it grows
with the shift, so the sensitivity is the worst case).  Putting (1) into (2) and integrating over γ first leaves one
integral of positive terms over R > 1, with the likelihood ratio L = 1 + q(R - 1) and r_p(L) = L^p - 1 - p(L - 1):

    exp((α-1)·rdp(α)) <= 1 + E_Q[(r_α(L) + r_(1-α)(L))·1(R > 1)].                                            (3)

At q = 1 this is exactly the Gaussian's.  Wang, Balle & Kasiviswanathan (2019), Theorems 9 and 27, which use ternary
divergences, come out up to four times as large if the noise is large.
"""

from dataclasses import dataclass
from functools import lru_cache
from math import ceil, inf, log, pi

import numpy as np
from numpy.typing import ArrayLike

from .._base.typing import Floats
from ._number_checks import check_batch, check_count, check_number, check_orders
from ._releases import GaussianReleases, Releases, times

#: Relative excess of the integral (3), far above the errors of quadrature and rounding, which never cost privacy.
MARGIN = 1e-10
#: Largest number of intervals of an integral, and of panels in one of them.  They allow multipliers from 0.02 on, below
#: which a release costs a thousand nats; orders that need more get no amplification.
MOST_WORK, MOST_PANELS = 20_000, 200
#: Intervals in which the integrand is below e^-NEGLIGIBLE of the largest are left out; there are at most MOST_WORK.
NEGLIGIBLE = 50.0

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(16)


@dataclass(frozen=True)
class SubsampledGaussianReleases(Releases):
    """Gaussian noise on a query of a batch that is drawn without replacement, anew and in secret for each release.

    The bound is that of the module's proof (privacy profiles, Balle, Barthe & Gaboardi 2018); it is below that of
    dp-accounting (Wang, Balle & Kasiviswanathan 2019, Theorem 27) at every order, and never above the cost of the same
    noise on all records.

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise in units of the query's L2 sensitivity *on a batch*, when one record of the
        batch is replaced.
    batch_size : int
        Records in a batch, at least 1.
    n_records : int
        Records in the data, at least ``batch_size``; public.
    n_releases : int, default=1
        At least 0.

    Attributes
    ----------
    mu : float or None
        The privacy loss is exactly Gaussian only if the batch is all of the data.
    rho : float
        n_releases / (2·noise_multiplier²): zCDP has no amplification by subsampling.

    Raises
    ------
    ValueError
        For a multiplier that is not positive and finite, counts that are not integers, or a batch beyond the data.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import GaussianReleases, SubsampledGaussianReleases
    >>> batch = SubsampledGaussianReleases(noise_multiplier=2.0, batch_size=100, n_records=10_000, n_releases=50)
    >>> batch.rdp([2.0, 8.0]).round(5)
    array([0.00195, 0.00782])
    >>> GaussianReleases(noise_multiplier=2.0, n_releases=50).rdp([2.0, 8.0])
    array([12.5, 50. ])
    """

    noise_multiplier: float
    batch_size: int
    n_records: int
    n_releases: int = 1
    _log_moment_is_convex = True  # by (2), α(α-1)·γ^(α-2) is a moment of a measure over γ

    def __post_init__(self):
        check_number("noise_multiplier", self.noise_multiplier, 0)
        batch_size, n_records = check_batch(self.batch_size, self.n_records)
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))
        object.__setattr__(self, "batch_size", batch_size)
        object.__setattr__(self, "n_records", n_records)
        object.__setattr__(self, "n_releases", check_count("n_releases", self.n_releases, 0))

    @property
    def mu(self) -> float | None:
        """Mean of N(μ, 2μ) if the batch is all of the data, otherwise None."""
        return self.gaussian_mu_bound if self.batch_size == self.n_records else None

    @property
    def rho(self) -> float | None:
        """ρ of zCDP, without amplification: that of the same noise on all of the data."""
        return self.gaussian_mu_bound

    @property
    def gaussian_mu_bound(self) -> float | None:
        """μ of the same noise on all of the data: subsampling never costs more."""
        return GaussianReleases(self.noise_multiplier, self.n_releases).mu

    def rdp(self, orders: ArrayLike) -> Floats:
        """Return the bound (3) for each order α, at most α·μ of the same noise on all of the data."""
        orders = check_orders(orders)
        one = _rdp(self.batch_size / self.n_records, 1.0 / self.noise_multiplier, tuple(np.ravel(orders).tolist()))
        whole = GaussianReleases(self.noise_multiplier, self.n_releases).rdp(orders)
        return np.minimum(times(one.reshape(orders.shape), self.n_releases), whole)


@lru_cache(maxsize=64)  # an accountant uses its grid of orders at many counts of one mechanism
def _rdp(q, s, orders):
    """Return (3) of one release for each order."""
    amplified = np.array([np.logaddexp(0.0, _log_excess(q, s, a)) / (a - 1.0) if a < inf else inf for a in orders])
    amplified.flags.writeable = False
    return amplified


def _log_excess(q, s, alpha):
    """Return log E_Q[(r_α(L) + r_(1-α)(L))·1(R > 1)], rounded up; inf if that is not worth the work.

    With x = s/2 + y, R = exp(s·y).  log(L^α) is convex in y, so that log(L^α·φ) exceeds the larger of its values at the
    ends of an interval of length 2 by at most ½, and intervals where it is far below the maximum can be left out;
    beyond y = (α - 1/2)·s + 10 it falls off as a normal tail.  In the others, whose slopes are below 10 + 2 because the
    second derivative is at least -1, composite Gauss–Legendre is used, with panels of half a standard deviation, or of
    half of 1/s (the integrand has singularities at a distance of π/s from the real line).
    """
    n_intervals = ((alpha - 0.5) * s + 10.0) / 2.0
    n_panels = 4.0 * max(1.0, s)
    if n_intervals > MOST_WORK or n_panels > MOST_PANELS:
        return inf
    ends = 2.0 * np.arange(ceil(n_intervals) + 1)
    rough = _log_integrand(np.maximum(ends, 1e-3), q, s, alpha)
    rough = np.maximum(rough[1:], rough[:-1])
    rough[0] = inf  # at R = 1 the integrand vanishes, so there it is not L^α·φ
    starts = ends[:-1][rough > rough[1:].max(initial=-inf) - NEGLIGIBLE]
    width = 2.0 / ceil(n_panels)
    panels = (starts[:, None] + width * (np.arange(ceil(n_panels)) + 0.5)).ravel()
    nodes = (panels[:, None] + 0.5 * width * _NODES).ravel()
    values = _log_integrand(nodes, q, s, alpha)
    top = values.max()
    return top + log(np.exp(values - top).reshape(-1, 16).sum(axis=0) @ _WEIGHTS * 0.5 * width) + MARGIN


def _log_integrand(y, q, s, alpha):
    """Return log[(r_α(L) + r_(1-α)(L))·φ(s/2 + y)] at ascending y > 0."""
    log_ratio = s * y
    with np.errstate(over="ignore"):
        log_u = log(q) + log_ratio + np.log(-np.expm1(-log_ratio))
        u = q * np.expm1(log_ratio)
        log_likelihood_ratio = np.where(log_ratio < 600.0, np.log1p(u), log_u)
    forwards = _log_remainder(alpha, u, log_u, log_likelihood_ratio)
    backwards = _log_remainder(1.0 - alpha, u, log_u, log_likelihood_ratio)
    return np.logaddexp(forwards, backwards) - 0.5 * (0.5 * s + y) ** 2 - 0.5 * log(2.0 * pi)


def _log_remainder(p, u, log_u, log1p_u):
    """Return log((1+u)^p - 1 - p·u) for ascending u > 0 and p > 1 or p < 0, in which it is positive.

    It is a series where the terms cancel.  Otherwise it is computed as written, with the largest term factored out
    where it would overflow.
    """
    power = p * log1p_u
    near = np.searchsorted(u, 0.02 / max(abs(p), 1.0))
    far = max(near, min(np.searchsorted(np.abs(power), 30.0), np.searchsorted(u, 1e10)))
    remainder = np.empty_like(u)

    small, series = u[:near], 1.0
    for k in range(10, 2, -1):  # p(p-1)/2·u²·[1 + (p-2)/3·u·(1 + (p-3)/4·u·(...))]
        series = 1.0 + series * small * ((p - k + 1) / k)
    remainder[:near] = log(0.5 * p * (p - 1.0)) + 2.0 * log_u[:near] + np.log(series)

    remainder[near:far] = np.log(np.expm1(power[near:far]) - p * u[near:far])

    power, log_u = power[far:], log_u[far:]
    if p > 0:
        log_pu = np.log(p) + log_u
        remainder[far:] = power + np.log1p(-np.exp(-power) - np.exp(log_pu - power))
    else:
        remainder[far:] = log(-p) + log_u + np.log1p(np.expm1(power) * np.exp(-log_u) / -p)
    return remainder
