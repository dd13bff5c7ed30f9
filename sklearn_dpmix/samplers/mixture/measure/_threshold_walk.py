"""Walks where only releases above a threshold appeared: some nodes are of the records whose releases did not.

There the likelihood is divided by the probability of being released.  That and a density may both be next to nothing,
and must have all their digits.
"""

from math import log

from ...._base.compiled import apart, compiled, helper
from ._walk_atoms import N_RECORDS, OUTSIDE
from ._walk_likelihood import density_anew, log_term, refresh
from ._walk_state import Walk

FAR, NEAR_ENOUGH = 1e-5, 0.1  # ratios of densities below which digits are lost: for moves, for sums that are made anew


class ThresholdWalk(Walk):
    """A walk with nodes, from ``n_seen`` on, of records whose releases did not appear."""

    @compiled
    def before_move(self):
        """Digits that a move lost are not to be missed by the next."""
        refresh(self)

    @compiled
    def fill_unseen(self, channel, mean, log_variance, g, slopes):
        channel.fill_unseen(self.nodes, self.n_seen, self.n_nodes, mean, log_variance, self.tables, g, slopes)

    @compiled
    def judged(self, value, c, k, c2, k2, c3, k3, total):
        return add_anew(self, c, k, c2, k2, c3, k3, total)

    @compiled
    def is_lost(self, density):
        return is_far(self, density)


@helper
def is_far(walk, density):
    """Whether a density differs so much from the present one that it has lost digits, or does on the way back.

    A move that is turned down for it is so in both directions.
    """
    for m in range(walk.n_nodes):
        if not FAR * walk.mix[m] <= density[m] or not FAR * density[m] <= walk.mix[m]:
            return True
    return False


@apart
def add_anew(walk, c, k, c2, k2, c3, k3, total):
    """The log likelihood with three atoms added, from sums of positive terms where digits were lost."""
    weights, value = walk.weights, 0.0
    for m in range(walk.n_nodes):
        if walk.trial[m] < NEAR_ENOUGH * walk.mix[m]:
            walk.trial[m] = density_anew(walk, m, c, k, c2, k2, c3, k3)
        value += log_term(weights[m], walk.trial[m])
    return value - walk.law[N_RECORDS] * log(total + walk.law[OUTSIDE])
