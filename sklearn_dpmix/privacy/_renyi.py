"""From Rényi divergences to (ε, δ), on a fine grid of orders."""

from math import inf

import numpy as np

#: The orders that accountants use: two parts in a hundred apart, and all small integers, where the bounds for
#: subsampling are best.  A grid costs accuracy (a part in 10⁴ of ε) but never validity.
ORDERS = np.union1d(1.0 + np.geomspace(1e-2, 1e6, 921), np.arange(2, 65))
ORDERS.flags.writeable = False


def renyi_epsilon(rdp, delta, orders=ORDERS):
    """Return the smallest ε >= 0 for which divergences ``rdp`` at ``orders`` imply (ε, δ)-DP.

    ε = rdp + log((α-1)/α) - (log δ + log α)/(α-1) (Canonne, Kamath & Steinke 2020, Proposition 12; Balle, Barthe,
    Gaboardi, Hsu & Sato 2020, Theorem 21), at its smallest over the orders.  It is 0 if the total variation is at most
    δ; √(1 - e^-rdp) bounds that (Bretagnolle & Huber 1979), as the divergence of order 1 is below that of any α > 1.
    """
    if log_total_variation(rdp) <= np.log(delta):
        return 0.0
    return max(0.0, float(np.min(epsilons(rdp, delta, orders))))


def renyi_log_delta(rdp, epsilon, orders=ORDERS):
    """Return log of the smallest δ for which divergences at ``orders`` imply (ε, δ)-DP: these bounds, solved for δ."""
    return float(min(np.min(log_deltas(rdp, epsilon, orders)), log_total_variation(rdp)))


def epsilons(rdp, delta, orders):
    """Return the ε that each order gives on its own."""
    return rdp + np.log1p(-1.0 / orders) - (np.log(delta) + np.log(orders)) / (orders - 1.0)


def log_deltas(rdp, epsilon, orders=ORDERS):
    """Return the log δ that each order gives on its own."""
    return (orders - 1.0) * (rdp - epsilon + np.log1p(-1.0 / orders)) - np.log(orders)


def log_total_variation(rdp):
    """Return log √(1 - e^-rdp) at the smallest divergence; at most 0."""
    least = np.min(rdp)
    return 0.5 * float(np.log(-np.expm1(-least))) if least > 0 else -inf
