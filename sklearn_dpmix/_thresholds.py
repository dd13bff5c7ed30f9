"""What draws of a mixture say of records whose releases did not appear (``released_above`` of a mechanism)."""

from math import inf

import numpy as np

from ._compiled import entry


def released_shares(draws, channel, chosen):
    """R(P_t), the probability that a record's release appears, under the mixtures P_t of the draws ``chosen``."""
    start, log_weights, theta = draws.atoms_of(chosen)
    shares = np.zeros(len(start) - 1)
    add_shares(channel, start, np.exp(log_weights), theta, shares)
    return np.minimum(shares, 1.0)


def atoms_of_releases(draws, channel, chosen):
    """``draws.atoms_of(chosen)``, with weights for densities of releases that appear: divided by R(P_t)."""
    start, log_weights, theta = draws.atoms_of(chosen)
    if getattr(channel, "threshold", -inf) > -inf:
        log_weights = log_weights - np.repeat(np.log(released_shares(draws, channel, chosen)), np.diff(start))
    return start, log_weights, theta


@entry
def add_shares(channel, start, weights, theta, shares):
    found = np.empty(3)
    for t in range(shares.size):
        for h in range(start[t], start[t + 1]):
            channel.fill_released(1.0, theta[h, 0], 2.0 * theta[h, 3], found, 0, 1, 2)
            shares[t] += weights[h] * found[0]
