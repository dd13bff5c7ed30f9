"""Exact draws of hidden sums: Poisson and gamma (exponential) records under a gamma prior, n known or not.

θ ~ Gamma(a, b) is integrated out, so that it does not hold s in place, and drawn from its conjugate distribution only
when a draw is recorded.  The remaining Γ functions and powers are log-concave in one variable at a time, or made linear
by an auxiliary gamma variable that is drawn again each time:

    (b + x)^-c = 1/Γ(c) ∫_0^∞ w^(c-1) e^(-(b+x)w) dw,   w | x ~ Gamma(c, rate b + x).

w is of relative size 1/√c, with c of the prior and not of the data wherever that can be.
"""

import math

import numpy as np

from ..._base.compiled import compiled
from ..._base.restore import require, require_range, require_whole
from ._log_concave import draw_log_concave
from ._statistic import StatisticSampler, draw_log_beta, draw_log_gamma, log_gamma_ratio, log_noise, new_state

SUM, RECORDS = 0.0, 1.0  # kinds of distribution: s given n, and n given s
# state.work: the kind; slope and log v of auxiliary variables; the prior; the other variable; the known shape
KIND, LINEAR, LOG_V, SHAPE, RATE, OTHER, KNOWN = range(7)


class SumSampler(StatisticSampler):
    """The common part of both samplers; the model's value has the prior's ``shape`` a and ``rate`` b."""

    def init(self, model, n_params, n_records, given, rng):
        """Start at a sum drawn from the model, if none is ``given``."""
        n_records = max(n_records, self.fewest)
        s = self.start(model, n_records, rng) if given is None else given[0]
        if s > 0:
            n_records = max(n_records, 1.0)
        return new_state(n_params, [s], n_records, 2)

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        context = (channel, counter, S, C, state.work)
        state.work[SHAPE], state.work[RATE] = model.shape, model.rate
        if self.is_given == 0.0:
            self.update_sum(rng, model, context, state.statistic, state.n_records, state.width)
        if C.shape[0] > 0:
            self.update_records(rng, model, context, state.statistic, state.n_records, state.width)


class PoissonSum(SumSampler):
    """Sum of Poisson(θ) records.

    p(s | n) = Γ(s+a)/(Γ(a) s!) · (n/(b+n))^s (b/(b+n))^a.  In s, the power is linear and Γ(s+a)/Γ(s+1) is log-concave
    for a >= 1 (otherwise as in ``_hidden_counts``).  In n, s log(n/(b+n)) is concave, because its derivative s(1/n -
    1/(b+n)) falls, and (b+n)^-a has an auxiliary variable.
    """

    fewest = 0.0

    def check_statistic(self, statistic):
        require_whole(statistic=statistic)

    def check_state(self, state):
        s, n = state.statistic, state.n_records
        self.check_statistic(s)
        require((n > 0) | (s == 0), "statistic", "has a sum of no records")

    def start(self, model, n_records, rng):
        return float(rng.poisson(min(n_records * rng.gamma(model.shape) / model.rate, 2.0**50)))  # neighbours differ

    @compiled
    def update_sum(self, rng, model, context, s, n, width):
        work = context[4]
        if n[0] == 0.0:  # no records, no sum
            s[0] = 0.0
            return
        work[KIND], work[LINEAR] = SUM, -math.log1p(work[RATE] / n[0])
        if work[SHAPE] < 1.0:
            work[LOG_V] = draw_log_beta(rng, s[0] + work[SHAPE], 1.0 - work[SHAPE])
        s[0], width[0] = draw_log_concave(rng, self, context, 0.0, np.inf, s[0], width[0], True)

    @compiled
    def update_records(self, rng, model, context, s, n, width):
        work = context[4]
        work[KIND], work[OTHER] = RECORDS, s[0]
        work[LINEAR] = rng.standard_gamma(work[SHAPE]) / (work[RATE] + n[0])
        least = 1.0 if s[0] > 0.0 else 0.0
        n[0], width[1] = draw_log_concave(rng, self, context, least, np.inf, n[0], width[1], True)

    @compiled
    def log_law(self, context, x):
        channel, counter, S, C, work = context
        shape = work[SHAPE]
        if work[KIND] == SUM:
            value = x * work[LINEAR] + log_noise(channel, S, 0, x)
            if shape < 1.0:
                return value + x * work[LOG_V]
            return value + log_gamma_ratio(x, shape, 1.0) if shape > 1.0 else value
        value = log_noise(counter, C, 0, x) - work[LINEAR] * x
        return value - work[OTHER] * math.log1p(work[RATE] / x) if x > 0.0 else value

    @compiled
    def draw_theta(self, model, state, rng):
        log_g = draw_log_gamma(rng, model.shape + state.statistic[0])
        state.theta[0] = math.exp(log_g - math.log(model.rate + state.n_records[0]))


class GammaSum(SumSampler):
    """Sum of Gamma(k, rate θ) records of known shape k (1: exponential), the model's ``known_shape``.

    p(s | n) = b^a s^(m-1) (b+s)^-(a+m) / B(m, a), m = nk.  In s it is (s/(b+s))^(m-1) (b+s)^-(a+1): for m >= 1 the
    first is log-concave, as above, and the second has an auxiliary variable; for m < 1 both s^-(1-m) and (b+s)^-(a+m)
    have one.  In n >= 1, m log(s/(b+s)) is linear and Γ(m+a)/Γ(m) is log-concave, because ψ'(m+a) - ψ'(m) is negative.
    (No records have no sum, so the flat prior on n starts at 1.)
    """

    fewest = 1.0

    def check_statistic(self, statistic):
        require_range(1e-300, 1e100, statistic=statistic)

    def check_state(self, state):
        self.check_statistic(state.statistic)
        require(state.n_records >= 1, "n_records", "says less than one")

    def start(self, model, n_records, rng):
        theta = max(rng.gamma(model.shape + 1.0) / model.rate, 1e-100)
        return max(float(rng.gamma(n_records * model.known_shape) / theta), 1e-100)

    @compiled
    def update_sum(self, rng, model, context, s, n, width):
        work = context[4]
        m = n[0] * model.known_shape
        linear = rng.standard_gamma(work[SHAPE] + min(m, 1.0)) / (work[RATE] + s[0])
        if m < 1.0:
            linear += rng.standard_gamma(1.0 - m) / s[0]
        work[KIND], work[LINEAR], work[OTHER] = SUM, linear, m
        x, width[0] = draw_log_concave(rng, self, context, 0.0, np.inf, s[0], width[0], False)
        s[0] = max(x, 1e-300)

    @compiled
    def update_records(self, rng, model, context, s, n, width):
        work = context[4]
        work[KIND], work[OTHER], work[KNOWN] = RECORDS, s[0], model.known_shape
        n[0], width[1] = draw_log_concave(rng, self, context, 1.0, np.inf, n[0], width[1], True)

    @compiled
    def log_law(self, context, x):
        channel, counter, S, C, work = context
        if work[KIND] == SUM:
            m = work[OTHER]
            value = log_noise(channel, S, 0, x) - work[LINEAR] * x
            if m > 1.0:
                return value - (m - 1.0) * math.log1p(work[RATE] / x) if x > 0.0 else -np.inf
            return value
        m = x * work[KNOWN]
        value = log_noise(counter, C, 0, x) - m * math.log1p(work[RATE] / work[OTHER])
        return value + log_gamma_ratio(m, work[SHAPE], 0.0)

    @compiled
    def draw_theta(self, model, state, rng):
        log_g = draw_log_gamma(rng, model.shape + state.n_records[0] * model.known_shape)
        state.theta[0] = math.exp(log_g - math.log(model.rate + state.statistic[0]))
