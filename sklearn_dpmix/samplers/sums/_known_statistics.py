"""Statistics that were released without noise: θ from its ordinary posterior, for the families without another sampler.

(Counts and sums of :mod:`_hidden_counts` and :mod:`_hidden_sums` do not move if they are given.)
"""

import math

import numpy as np

from ..._base.compiled import compiled, helper
from ..._base.restore import require
from ._log_concave import draw_log_concave
from ._statistic import StatisticSampler, log_gamma_ratio, new_state

ROUNDS = 10
LINEAR, RECORDS, OTHER, SHAPE = range(4)  # state.work of GivenBeta


class GivenNormal(StatisticSampler):
    """Normal records: independent draws of (μ, σ²) from the conjugate distribution.

    Examples
    --------
    >>> from sklearn_dpmix.samplers.sums._known_statistics import GivenNormal
    >>> GivenNormal()
    GivenNormal()
    """

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
    """Beta records: a given b and b given a, each log-concave, in turn, ``ROUNDS`` times per sweep.

    The log posterior of a is (shape-1) log a - rate a + a s_1 + n (log Γ(a+b) - log Γ(a)).  ψ'(a+b) - ψ'(a) < 0, and
    for a shape below 1 the power has an auxiliary variable, as in :mod:`_hidden_sums`.  A wide prior is a mixture of
    such priors, whose rate is drawn.

    Examples
    --------
    >>> from sklearn_dpmix.samplers.sums._known_statistics import GivenBeta
    >>> GivenBeta()
    GivenBeta()
    """

    def init(self, model, n_params, n_records, given, rng):
        state = new_state(n_params, given, n_records, 2)
        state.theta[:] = rng.gamma(np.maximum(model.shape, 1.0))
        return state

    def check_state(self, state):
        require(state.theta > 0, "theta", "has shapes that are not positive")

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        context = (channel, counter, S, C, state.work)
        for i in range(2 * ROUNDS):
            draw_shape(rng, self, model, context, state, i % 2)

    @compiled
    def log_law(self, context, x):
        work = context[4]
        if not x > 0.0:
            return -math.inf
        value = x * work[LINEAR] + work[RECORDS] * log_gamma_ratio(x, work[OTHER], 0.0)
        return value + (work[SHAPE] - 1.0) * math.log(x) if work[SHAPE] > 1.0 else value

    @compiled
    def draw_theta(self, model, state, rng):
        pass


@helper
def draw_shape(rng, sampler, model, context, state, which):
    """a (``which`` 0) or b given the other."""
    theta, work = state.theta, state.work
    linear = state.statistic[which] - model.draw_rate(rng, which, theta[0] + theta[1])
    if model.shape[which] < 1.0:
        linear -= rng.standard_gamma(1.0 - model.shape[which]) / theta[which]
    work[LINEAR], work[RECORDS] = linear, state.n_records[0]
    work[OTHER], work[SHAPE] = theta[1 - which], model.shape[which]
    theta[which], state.width[which] = draw_log_concave(
        rng, sampler, context, 0.0, model.largest - theta[1 - which], theta[which], state.width[which], False
    )
