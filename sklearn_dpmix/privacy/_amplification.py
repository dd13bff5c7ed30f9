"""Amplification by batches drawn without replacement, for a mechanism known only by its Rényi divergences.

There are two bounds, of which callers take the smaller; q is the share of the records in a batch, and ``curve(orders)``
returns the divergences ε(α) of the mechanism on a batch of which one record is replaced.

*By ternary divergences* (Wang, Balle & Kasiviswanathan 2019, Theorem 9), at integer orders α >= 2:

    ε'(α) <= 1/(α-1)·log(1 + q²·C(α,2)·min{4(e^ε(2) - 1), e^ε(2)·min{2, (e^ε(∞) - 1)²}}
                           + Σ_{j=3}^α q^j·C(α,j)·e^((j-1)ε(j))·min{2, (e^ε(∞) - 1)^j}).

Between integers (α-1)·ε'(α) is interpolated, since it is convex (their Corollary 10).

*By the privacy profile.*  ``_subsampled_gaussian`` proves that with H(t) >= H_t(M(B), M(B')) for all neighbouring
batches,

    exp((α-1)·ε'(α)) <= 1 + α(α-1)·q² ∫_1^∞ (w^(α-2) + w^(-α-1))·H(t) dt,   w = 1 + q(t-1).

Every order λ of the curve bounds H(e^x) by exp((λ-1)(ε(λ) - x + log(1 - 1/λ)) - log λ) (the conversion to δ in
``_renyi``), and so does the total variation √(1 - e^-ε) by a constant.  [0, ∞) is cut into cells of x = log t, each
with the bound that is best at its middle, which is the exponential of a linear function of x.  On a cell log w is
convex in x, so for α >= 2 the first integrand is at most the exponential of the chord of its logarithm; the other
powers of w fall and are taken at the left end.  Beyond the last cell w <= t.  So each step is an inequality, and there
is no quadrature error.  This bound makes mechanisms with ε(∞) = ∞ affordable: for them the first bound's terms have a
factor of 2, where a small number to the power j would be enough for a mild mechanism.
"""

from math import ceil, floor, inf, isfinite, log

import numpy as np
from scipy.special import gammaln, logsumexp

from ._renyi import ORDERS, log_deltas, log_total_variation

#: Orders above this are not amplified by the first bound: its sum has as many terms as the order.
MAX_ORDER = 10_000
#: Relative excess of a bound over its rounding error: rounding never costs privacy.
MARGIN = 1e-10
#: Ends of the cells of x = log t.
_CELLS = np.concatenate([[0.0], np.geomspace(1e-6, 1e4, 1601)])


def amplified(curve, q, orders):
    """Return the smallest of the two bounds and of no amplification, for an array of orders.

    A mixture of pairs diverges no more than the worst of them, so a batch never costs more than all of the data.
    """
    plain = evaluate(curve, orders)
    if q == 1.0:
        return plain
    return np.minimum(plain, np.minimum(by_ternary_divergences(curve, q, orders), by_profile(curve, q, orders)))


def by_ternary_divergences(curve, q, orders):
    """Return the first bound for an array of orders; inf above ``MAX_ORDER``."""
    bound = np.full(orders.shape, inf)
    chosen = np.flatnonzero(orders <= MAX_ORDER)
    if chosen.size:
        log_terms = _log_terms(curve, q, ceil(orders[chosen].max()))
        integers = {end(orders[i]) for i in chosen for end in (floor, ceil)}
        cumulants = {alpha: _cumulant(log_terms, alpha) for alpha in integers}
        for i in chosen:
            below, above = cumulants[floor(orders[i])], cumulants[ceil(orders[i])]
            share = orders[i] - floor(orders[i])
            bound[i] = ((1.0 - share) * below + share * above if share else below) / (orders[i] - 1.0)
    return bound


def _log_terms(curve, q, top):
    """Return log of the theorem's terms for j = 0, ..., ``top`` without the binomial coefficients; -inf at 0 and 1."""
    j = np.arange(2, max(top, 2) + 1)
    epsilon = evaluate(curve, j.astype(np.float64))
    worst = float(evaluate(curve, np.array([inf]))[0])
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


def by_profile(curve, q, orders):
    """Return the second bound for an array of orders; inf where the curve has no higher order."""
    rdp = evaluate(curve, ORDERS)
    known = np.isfinite(rdp)
    if not known.any():
        return np.full(orders.shape, inf)
    known_orders, rdp = ORDERS[known], rdp[known]
    left, right = _CELLS[:-1, None], _CELLS[1:, None]
    middle = 0.5 * (left + right)
    log_h = log_deltas(rdp, middle, known_orders)  # cells × orders of the curve
    best = np.argmin(log_h, axis=1)
    slope = 1.0 - known_orders[best][:, None]
    log_h = log_h[np.arange(len(best)), best][:, None]
    flat = log_h > log_total_variation(rdp)
    slope, log_h = np.where(flat, 0.0, slope), np.where(flat, log_total_variation(rdp), log_h)

    def chord(at_left, at_right):
        """Log of the integral over the cell of the exponential of a linear function, given its values at the ends."""
        high, fall = np.maximum(at_left, at_right), np.abs(at_right - at_left)
        with np.errstate(invalid="ignore", divide="ignore"):
            share = np.where(fall > 1e-8, -np.expm1(-fall) / fall, 1.0)
        return high + np.log(share * (right - left))

    ends = [log_h + slope * (x - middle) + x for x in (left, right)]  # log of H·dt/dx
    log_w = [np.logaddexp(np.log1p(-q), log(q) + x) for x in (left, right)]
    falling = chord(*ends)
    bound = np.empty(orders.shape)
    for i, alpha in enumerate(orders):  # one order at a time: all at once would need a hundred megabytes
        if alpha >= known_orders[-1]:
            bound[i] = inf
            continue
        if alpha >= 2:
            first = chord(ends[0] + (alpha - 2.0) * log_w[0], ends[1] + (alpha - 2.0) * log_w[1])
        else:
            first = falling + (alpha - 2.0) * log_w[0]
        second = falling - (alpha + 1.0) * log_w[0]
        pieces = logsumexp(np.logaddexp(first, second))
        tail = _log_tail(alpha, known_orders, rdp)
        excess = log(alpha * (alpha - 1.0)) + 2.0 * log(q) + np.logaddexp(pieces, tail)
        bound[i] = np.logaddexp(0.0, excess) / (alpha - 1.0) * (1.0 + MARGIN)
    return bound


def _log_tail(alpha, known_orders, rdp):
    """Return log of a bound on the integral beyond the last cell, from an order of the curve above α."""
    x, power = _CELLS[-1], max(alpha, 2.0)  # w^(α-2) + w^(-α-1) <= 2·t^(power-2)
    above = known_orders > power
    if not above.any():
        return inf
    gap = known_orders[above] - power
    return float(np.min(log(2.0) + log_deltas(rdp[above], x, known_orders[above]) + (power - 1.0) * x - np.log(gap)))


def evaluate(curve, orders):
    """Return the curve at an array of orders, once it has been checked."""
    values = np.asarray(curve(orders), dtype=np.float64)
    if values.shape != orders.shape or not np.all(values >= 0):
        raise ValueError(
            f"rdp must return one divergence of at least 0 (or inf) per order, got {values!r} for orders {orders!r}"
        )
    return np.array(values)
