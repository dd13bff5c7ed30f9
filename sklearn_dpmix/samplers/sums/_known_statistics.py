"""Statistics that were released without noise: θ from its ordinary posterior, for the families without another sampler.

(Counts and sums of :mod:`_hidden_counts` and :mod:`_hidden_sums` do not move if they are given.)
"""

import math

import numpy as np

from ..._base.compiled import compiled
from ..._base.restore import require
from ._statistic import StatisticSampler, new_state


class GivenNormal(StatisticSampler):
    """Normal records: independent draws of (μ, σ²) from the conjugate distribution."""

    def init(self, model, n_params, n_records, given, rng):
        return new_state(n_params, given, n_records, 1)

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        pass

    @compiled
    def draw_theta(self, model, state, rng):
        n, s = state.n_records[0], state.statistic
        precision = model.mean_precision + n
        centred = s[0] / n - model.mean
        scale = model.scale + 0.5 * max(s[1] - s[0] * s[0] / n, 0.0)
        scale += 0.5 * model.mean_precision * n / precision * centred * centred
        variance = scale / rng.standard_gamma(model.shape + 0.5 * n)
        mean = model.mean + n / precision * centred
        state.theta[0] = mean + math.sqrt(variance / precision) * rng.standard_normal()
        state.theta[1] = variance


class GivenBeta(StatisticSampler):
    """Beta records: the family updates both parameters."""

    def init(self, model, n_params, n_records, given, rng):
        state = new_state(n_params, given, n_records, 2)
        state.theta[:] = rng.gamma(np.maximum(model.shape, 1.0))
        return state

    def check_state(self, state):
        require(state.theta > 0, "theta", "has shapes that are not positive")

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        model.update_theta(rng, state.theta, state.statistic, state.n_records[0])

    @compiled
    def draw_theta(self, model, state, rng):
        pass
