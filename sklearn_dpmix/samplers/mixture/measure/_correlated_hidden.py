"""Atoms of correlated normals where densities under noise have no closed form: something is kept for each release."""

import numpy as np

from ...._base.compiled import compiled
from ._correlated_atoms import CorrelatedChart, is_clamped, keeps_normal
from ._hidden_residuals import (
    fill_by_residuals,
    fill_pair_by_residuals,
    fill_pair_slopes_by_residuals,
    fill_slopes_by_residuals,
)
from ._hidden_variances import exchange, fill_given, fill_given_slopes, fill_pair, fill_pair_slopes
from ._steps import some_of_many
from ._walk_atoms import BY_RESIDUALS

LEAST_SHARE, MOST_SHARE, MOST_CLAMPED = 0.1, 0.9, 0.5  # of the moves, while variances are kept


class CorrelatedHiddenChart(CorrelatedChart):
    """By turns a variance of the noise (``_hidden_variances``) and a residual (``_hidden_residuals``) are kept."""

    keeps_records = True

    def seen_of(self, channel):
        return channel

    def kept(self, near, lookup):
        return np.vstack([near, lookup**-2.0])

    def share_of_variances(self):
        """Share of the moves while variances are kept; 1 where nothing is hidden then.

        The more noise there is, the less; at most a half where records beyond the bounds are kept with them.
        """
        if self.channel is None or (keeps_normal(self.channel) and not is_clamped(self.channel)):
            return 1.0
        share = 1.0 / (1.0 + np.exp(np.log(self.channel.noise).mean()) / self.units().min())
        return min(max(share, LEAST_SHARE), MOST_CLAMPED if is_clamped(self.channel) else MOST_SHARE)

    def fields(self):
        return super().fields() | {"of_variances": float(self.share_of_variances())}

    @compiled
    def share(self, walk):
        if self.of_variances == 1.0:
            return 1.0
        return 2.0 * (self.of_variances if walk.law[BY_RESIDUALS] == 0.0 else 1.0 - self.of_variances)

    @compiled
    def moves(self):
        """More splits and steps of one atom than elsewhere, by what effective draws each of them made for its time."""
        return 0.12, 0.16, 0.30, 0.45, 0.60, 0.88, 0.94

    @compiled
    def blocks(self, walk):
        return some_of_many(walk)

    @compiled
    def exchange(self, rng, channel, walk):
        exchange(rng, channel, self, walk)

    @compiled
    def fill(self, channel, walk, k):
        walk.has_slopes[k] = 0.0
        if walk.law[BY_RESIDUALS] == 0.0:
            if self.n_features == 2:
                fill_pair(self, walk, k)
            else:
                fill_given(self, walk, k)
        elif self.n_features == 2:
            fill_pair_by_residuals(channel, self, walk, k)
        else:
            fill_by_residuals(channel, self, walk, k)

    @compiled
    def fill_slopes(self, channel, walk, k):
        if walk.has_slopes[k] == 1.0:
            return
        walk.has_slopes[k] = 1.0
        if walk.law[BY_RESIDUALS] == 0.0:
            if self.n_features == 2:
                fill_pair_slopes(self, walk, k)
            else:
                fill_given_slopes(self, walk, k)
        elif self.n_features == 2:
            fill_pair_slopes_by_residuals(channel, self, walk, k)
        else:
            fill_slopes_by_residuals(channel, self, walk, k)
