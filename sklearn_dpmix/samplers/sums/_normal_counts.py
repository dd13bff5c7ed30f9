"""The normal approximation of multinomial counts: s | θ ~ N(nθ, n(diag θ - θθ')) on Σ s = n (Bernstein & Sheldon 2018).

As in :mod:`_normal_statistic`, it is one joint distribution of θ, s and y.  It is updated one pair of categories at a
time, in random order, with s_j + s_k = m, θ_j + θ_k = τ and all others fixed; p = θ_j/τ.  Then

    s_j | p ~ N(mp, nτ p(1-p)),    p ~ Beta(α_j, α_k),

and the rest of the joint density does not depend on p or s_j: Σ (s_i - nθ_i)²/(nθ_i) over the pair is
(s_j - mp)²/(nτ p(1-p)) + (m - nτ)²/(nτ).  So

1. s_j is drawn exactly, normal times the noise on s_j and on m - s_j being log-concave;
2. p moves with s_j held, with Beta(α_j + s_j, α_k + s_k) of the exact distribution as an independence proposal;
3. p moves with z = (s_j - mp)/√(nτ p(1-p)) held, by a random walk of the logit, so that only prior and noise decide;
4. an unknown n moves with all (s_j - nθ_j)/√n held, by a random walk on integers.
"""

import math

import numpy as np

from ..._base.compiled import compiled, helper
from ..._base.numeric import log1p_exp, log_ndtr_interval
from ..._base.restore import require
from ._log_concave import draw_log_concave
from ._statistic import ACCEPTED, PROPOSED, StatisticSampler, draw_log_gamma, log_noise, new_state, shuffle

FIRST, SECOND, FIXED, CENTRE, SPREAD = range(5)  # state.work: the pair, s_j + s_k, and the normal distribution
SMALLEST_WALK = 1e-3  # walks are between that and 2 units, even in the logarithm


class NormalCounts(StatisticSampler):
    """Pairwise sampler of (θ, s) under the normal distribution of s | θ; the model's value has ``alpha``."""

    def init(self, model, n_params, n_records, given, release, rng):
        """θ starts from the conjugate distribution at the release: from far away, step 2 is slow under small noise."""
        theta = rng.dirichlet(np.maximum(model.alpha, 1.0) + np.maximum(release, 0.0))
        state = new_state(n_params, n_records * theta if given is None else given, n_records, len(theta))
        state.theta[:] = theta
        return state

    def check_state(self, state):
        require(state.theta > 0, "theta", "has probabilities that are not positive")
        for name in ("theta", "statistic"):
            total = 1.0 if name == "theta" else state.n_records[0]
            require(abs(getattr(state, name).sum() - total) < 1e-6 * total, name, "does not have the right sum")

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        order = state.order
        size = order.size
        shuffle(rng, order)
        for i in range(size):
            state.work[FIRST], state.work[SECOND] = order[i], order[i + 1 if i + 1 < size else 0]
            update_pair(rng, self, model, (channel, counter, S, C, state.work), state)
        if C.shape[0] > 0 and self.is_given == 0.0:
            update_records(rng, channel, counter, S, C, state)

    @compiled
    def log_law(self, context, x):
        channel, _, S, _, work = context
        u = (x - work[CENTRE]) / work[SPREAD]
        value = log_noise(channel, S, int(work[FIRST]), x) + log_noise(channel, S, int(work[SECOND]), work[FIXED] - x)
        return value - 0.5 * u * u

    @compiled
    def draw_theta(self, model, state, rng):
        pass


@helper
def update_pair(rng, sampler, model, context, state):
    """Steps 1 to 3."""
    s, theta, work = state.statistic, state.theta, state.work
    j, k = int(work[FIRST]), int(work[SECOND])
    fixed, share = s[j] + s[k], theta[j] + theta[k]
    size = state.n_records[0] * share  # nτ
    logit = math.log(theta[j]) - math.log(theta[k])
    work[FIXED] = fixed
    if sampler.is_given == 0.0:
        p, spread = share_of(logit, size)
        work[CENTRE], work[SPREAD] = fixed * p, spread
        s[j], state.width[j] = draw_log_concave(
            rng, sampler, context, -math.inf, math.inf, s[j], state.width[j], False
        )  # fmt: skip
        s[k] = fixed - s[j]
    a, b = max(s[j], 0.0), max(s[k], 0.0)
    proposal = draw_log_gamma(rng, model.alpha[j] + a) - draw_log_gamma(rng, model.alpha[k] + b)
    gain = log_weight(proposal, s[j], fixed, size, a, b) - log_weight(logit, s[j], fixed, size, a, b)
    state.ints[PROPOSED] += 1
    if gain >= 0.0 or rng.standard_exponential() > -gain:
        state.ints[ACCEPTED] += 1
        logit = proposal
    if sampler.is_given == 0.0:
        p, spread = share_of(logit, size)
        z = (s[j] - fixed * p) / spread
        proposal = logit + 2.0 * SMALLEST_WALK ** rng.random() * rng.standard_normal()
        q, spread = share_of(proposal, size)
        at = fixed * q + spread * z
        work[CENTRE], work[SPREAD] = at, 1.0  # the distribution without its normal factor, which is 0 there
        gain = sampler.log_law(context, at)
        work[CENTRE] = s[j]
        gain -= sampler.log_law(context, s[j])
        # log density of the logit: α_j log p + α_k log(1-p)
        gain += (model.alpha[j] + model.alpha[k]) * (log1p_exp(-logit) - log1p_exp(-proposal))
        gain -= model.alpha[k] * (proposal - logit)
        if gain >= 0.0 or rng.standard_exponential() > -gain:
            logit = proposal
            s[j], s[k] = at, fixed - at
    theta[j] = max(share * math.exp(-log1p_exp(-logit)), 1e-300)
    theta[k] = max(share * math.exp(-log1p_exp(logit)), 1e-300)


@helper
def share_of(logit, size):
    """(p, √(nτ p(1-p)))."""
    log_p, log_q = -log1p_exp(-logit), -log1p_exp(logit)
    return math.exp(log_p), math.sqrt(size) * math.exp(0.5 * (log_p + log_q))


@helper
def log_weight(logit, s, fixed, size, a, b):
    """Log of the normal density of s over the binomial p^a (1-p)^b: of the target over the proposal."""
    p, spread = share_of(logit, size)
    z = (s - fixed * p) / spread
    return -0.5 * z * z - math.log(spread) + a * log1p_exp(-logit) + b * log1p_exp(logit)


@helper
def update_records(rng, channel, counter, S, C, state):
    """Step 4."""
    s, theta, n = state.statistic, state.theta, state.n_records
    size = 2.0 * SMALLEST_WALK ** rng.random()
    step = float(math.floor(0.5 + size * n[0] * rng.standard_normal()))
    new = n[0] + step
    if new < 1.0:
        return
    scale = math.sqrt(new / n[0])
    gain = log_noise(counter, C, 0, new) - log_noise(counter, C, 0, n[0])
    gain += log_step(size * new, -step) - log_step(size * n[0], step)
    for j in range(s.size):
        gain += log_noise(channel, S, j, new * theta[j] + scale * (s[j] - n[0] * theta[j]))
        gain -= log_noise(channel, S, j, s[j])
    if gain >= 0.0 or rng.standard_exponential() > -gain:
        for j in range(s.size):
            s[j] = new * theta[j] + scale * (s[j] - n[0] * theta[j])
        n[0] = new


@helper
def log_step(sd, step):
    """Log probability that a normal number with this standard deviation rounds to ``step``."""
    return log_ndtr_interval((step - 0.5) / sd, (step + 0.5) / sd)
