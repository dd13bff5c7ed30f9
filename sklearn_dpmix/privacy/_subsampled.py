"""Any mechanism on a batch that is drawn without replacement: amplification of its Rényi divergences."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, floor, inf, isfinite, log

import numpy as np
from scipy.special import gammaln, logsumexp

from ._checks import check_batch, check_count, check_orders
from ._releases import Releases, times

#: Orders above get no amplification: the theorem's sum has as many terms as the order.
MAX_ORDER = 10_000
#: Relative excess of the theorem's sum over what rounding does to it: never at the cost of privacy.
MARGIN = 1e-10


@dataclass(frozen=True, init=False)
class SubsampledReleases(Releases):
    """Releases of a mechanism on a batch drawn without replacement, the mechanism known by its Rényi divergences alone.

    At integer orders α >= 2, with q = batch_size/n_records and ε(j) the mechanism's divergence of order j on a batch,

        ε'(α) <= 1/(α-1)·log(1 + q²·C(α,2)·min{4(e^ε(2) - 1), e^ε(2)·min{2, (e^ε(∞) - 1)²}}
                               + Σ_{j=3}^α q^j·C(α,j)·e^((j-1)ε(j))·min{2, (e^ε(∞) - 1)^j})

    (Wang, Balle & Kasiviswanathan 2019, Theorem 9).  Between integers (α-1)·ε'(α) is interpolated, since it is convex
    (their Corollary 10).  The bound is never above ε(α): a mixture of pairs diverges no more than the worst of them.
    Above order 10,000 there is no amplification.

    Parameters
    ----------
    rdp : callable
        ``rdp(orders)`` takes an array of orders > 1, infinity included, and returns an array of the divergences of one
        release on a batch of which one record is replaced, in nats; inf where there is no bound.
    batch_size : int
        Records in a batch, at least 1.
    n_records : int
        Records in the data, at least ``batch_size``; public.
    n_releases : int, default=1
        At least 0.

    Attributes
    ----------
    one_batch : callable
        ``rdp`` as given.
    mu, rho : None
        The mechanism's privacy loss is not known to be Gaussian or concentrated.

    Raises
    ------
    ValueError
        For counts that are not integers, a batch beyond the data, or divergences that are negative, NaN or of another
        shape than the orders.
    TypeError
        Where ``rdp`` cannot be called.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import SubsampledReleases, barker_rdp
    >>> releases = SubsampledReleases(barker_rdp(1000), batch_size=1000, n_records=100_000, n_releases=500)
    >>> releases.rdp([2.0, 8.0]).round(4)
    array([0.0008, 0.0114])
    """

    one_batch: Callable
    batch_size: int
    n_records: int
    n_releases: int = 1

    def __init__(self, rdp, batch_size, n_records, n_releases=1):
        if not callable(rdp):
            raise TypeError(f"rdp must be a function of an array of orders, got {rdp!r}")
        batch_size, n_records = check_batch(batch_size, n_records)
        object.__setattr__(self, "one_batch", rdp)
        object.__setattr__(self, "batch_size", batch_size)
        object.__setattr__(self, "n_records", n_records)
        object.__setattr__(self, "n_releases", check_count("n_releases", n_releases, 0))

    def rdp(self, orders):
        """Return the bound for each order α."""
        orders = check_orders(orders)
        key = (self.one_batch, self.batch_size / self.n_records, tuple(np.ravel(orders).tolist()))
        try:
            one = _cached_rdp(*key)
        except TypeError as error:
            if "unhashable" not in str(error):
                raise
            one = _rdp(*key)
        return times(one.reshape(orders.shape), self.n_releases)


def _rdp(curve, q, orders):
    """Return the bound of one release for each order."""
    orders = np.array(orders)
    bound = _evaluate(curve, orders)
    amplified = orders[orders <= MAX_ORDER]
    if q < 1.0 and amplified.size:
        top = ceil(amplified.max())
        log_terms = _log_terms(curve, q, top)
        values = {k: _cumulant(log_terms, k) for k in {f(a) for a in amplified for f in (floor, ceil)}}
        for i in np.flatnonzero(orders <= MAX_ORDER):
            below, share = floor(orders[i]), orders[i] - floor(orders[i])
            above = values[ceil(orders[i])]
            cumulant = above if share == 0 or above == inf else (1.0 - share) * values[below] + share * above
            bound[i] = min(bound[i], cumulant / (orders[i] - 1.0))
    bound.flags.writeable = False
    return bound


_cached_rdp = lru_cache(maxsize=64)(_rdp)  # an accountant asks for its grid of orders at many counts of one mechanism


def _log_terms(curve, q, top):
    """Return log of the theorem's terms for j = 0, ..., ``top`` without the binomial coefficients; -inf at 0 and 1."""
    j = np.arange(2, max(top, 2) + 1)
    epsilon = _evaluate(curve, j.astype(np.float64))
    worst = float(_evaluate(curve, np.array([inf]))[0])
    log_worst = log(np.expm1(worst)) if 0 < worst < 700 else (-inf if worst == 0 else inf)  # log(e^ε(∞) - 1)
    terms = (j - 1) * epsilon + np.minimum(log(2.0), j * log_worst)
    if isfinite(epsilon[0]):
        log_gap = log(-np.expm1(-epsilon[0])) if epsilon[0] > 0 else -inf  # e^ε - 1 = e^ε(1 - e^-ε)
        terms[0] = min(terms[0], log(4.0) + epsilon[0] + log_gap)
    return np.concatenate([[-inf, -inf], terms + j * log(q)])


def _cumulant(log_terms, alpha):
    """Return (α-1)·ε'(α) at an integer α, rounded up."""
    if alpha < 2:
        return 0.0
    j = np.arange(2, alpha + 1)
    log_binomial = gammaln(alpha + 1.0) - gammaln(j + 1.0) - gammaln(alpha - j + 1.0)
    excess = logsumexp(log_terms[2 : alpha + 1] + log_binomial)
    return float(np.logaddexp(0.0, excess)) * (1.0 + MARGIN)


def _evaluate(curve, orders):
    """Return the curve at an array of orders, once it has been checked."""
    values = np.asarray(curve(orders), dtype=np.float64)
    if values.shape != orders.shape or not np.all(values >= 0):
        raise ValueError(
            f"rdp must return one divergence of at least 0 (or inf) an order, got {values!r} for orders {orders!r}"
        )
    return np.array(values)
