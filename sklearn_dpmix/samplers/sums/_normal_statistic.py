"""The normal approximation of Bernstein & Sheldon (2018): s | θ ~ N(nμ(θ), nΣ(θ)), and nothing else approximate.

μ and Σ are the mean and covariance of what one record adds to the statistic, cut at bounds or not.  With the prior and
the noise this is one joint distribution of θ, s and y, the paper's "generative process" (§3.2, §3.3), and this sampler
draws from its posterior.  Two things differ from the paper's Algorithms 1 and 2:

- They draw θ | s from the exact conjugate distribution, which belongs to another joint distribution.  Here θ moves
  under the normal distribution of s | θ itself, so that there is one target.  It needs only μ and Σ of the released
  statistic; no sufficient statistics of the records that were dropped or clamped are imputed.
- They treat Laplace noise as a scale mixture of normals.  Here s given the rest is drawn exactly, along one line after
  the other, on which normal times noise is log-concave, whatever the noise.

With z = (√n L)⁻¹ (s - nμ), LL' = Σ, one sweep is

1. s along each coordinate axis, and (two statistics) along the first column of L: z_1 with z_2 held;
2. moves of v, the unconstrained coordinates of θ, that hold s (centred: prior and normal density decide), that hold z
   (non-centred: prior and noise decide), and that draw s again (joint: :mod:`_joint_proposal`).  The first move freely
   under little noise, the second under much, and the third also in between and if one statistic has much noise and the
   other little.  For each kind there is an independence proposal from q(v), a mixture of t distributions fitted to the
   posterior under Gaussian noise of the same variance, and a random walk; ``ROUNDS`` of all in a sweep.

An unknown n is another coordinate: n = ⌊u + 1/2⌋ with u as in v.  Under integer noise the release is of s rounded to an
integer: first that integer is drawn, whose distribution is a difference of normal probabilities times the noise,
log-concave too (Prékopa), then s within its cell.
"""

import math
from typing import NamedTuple

import numpy as np

from ..._base.compiled import compiled, helper, lower
from ..._base.numeric import draw_truncated_normal, log_ndtr_interval
from ..._base.restore import require, require_finite, require_same, same_layout
from .._proposal import log_proposal, proposal_fields, propose
from ._joint_proposal import draw_score, log_score, put_conditional
from ._log_concave import draw_log_concave
from ._statistic import ACCEPTED, N_INTS, PROPOSED, StatisticSampler, log_noise, require_chain

SMALLEST_ROOT = 1e-150  # a smaller spread of one record is none
ROUNDS = 4
CENTRED, NON_CENTRED, JOINT = range(3)  # kinds of moves

FIRST_COLUMN = 2.0  # kinds of distribution: 0 and 1 are along these coordinates, 2 along the first column of L
# state.work: the kind, the normal distribution, and the line (a point and a direction) that it is along
KIND, CENTRE, SPREAD, POINT, DIRECTION, N_WORK = 0, 1, 2, 3, 5, 7


class NormalState(NamedTuple):
    """All of a chain except its random generator."""

    theta: np.ndarray  # (n_params,)
    statistic: np.ndarray  # (k,)
    free: np.ndarray  # (2, d): v, with u last where n is unknown; a proposal
    mean: np.ndarray  # (2, k): μ at either
    root: np.ndarray  # (2, k, k): L
    score: np.ndarray  # (3, k): z; of a proposal, z or the statistic that goes with it; its z where that is drawn
    width: np.ndarray  # (3,)
    work: np.ndarray
    ints: np.ndarray


class NormalApproximation(StatisticSampler):
    """The posterior under a normal distribution of s | θ; a model as in :class:`sklearn_dpmix.models.Family`.

    Parameters
    ----------
    centres : ndarray of shape (n_modes, d)
    factors : ndarray of shape (n_modes, d, d)
        Lower Cholesky factors of the covariances at the modes.
    log_weights : ndarray of shape (n_modes,)
        Logarithms of the modes' shares, which add up to 1.
    n_records : float
        0 if it is unknown.
    y, noise : ndarrays of shape (n_statistics,)
        Mean of the releases and variance of its noise, for joint moves.
    widest : float
        Joint moves multiply the variance by a number between 1/widest and widest; 1 for Gaussian noise.
    is_given : bool
        Whether the statistic was released without noise.
    """

    def __init__(self, centres, factors, log_weights, n_records, y, noise, widest, is_given):
        self.centres = centres
        self.factors = factors
        self.log_weights = log_weights
        self.n_records = n_records
        self.y = y
        self.noise = noise
        self.widest = widest
        self.is_given = is_given

    def _lower(self, **context):
        fields = {
            **proposal_fields(self.centres, self.factors, self.log_weights),
            "known": float(self.n_records),
            "is_given": float(self.is_given),
            "widest": float(self.widest),
            "y": np.array(self.y, dtype=np.float64),
            "noise": np.maximum(self.noise, 1e-300),
        }
        return lower(type(self), fields)

    def init(self, model, n_params, given, rng):
        """Start at a draw from q."""
        d, k = self.centres.shape[1], len(self.y)
        mode = rng.choice(len(self.log_weights), p=np.exp(self.log_weights))
        state = NormalState(
            theta=np.zeros(n_params),
            statistic=np.zeros(k),
            free=np.zeros((2, d)),
            mean=np.zeros((2, k)),
            root=np.zeros((2, k, k)),
            score=np.zeros((3, k)),
            width=np.ones(3),
            work=np.zeros(N_WORK),
            ints=np.zeros(N_INTS, dtype=np.int64),
        )
        start = self.centres[mode] + self.factors[mode] @ rng.standard_normal(d)
        if not self.n_records:
            start[-1] = max(start[-1], 1.0)
        state.free[0] = start
        model.moments(start, state.mean[0], state.root[0])
        n = self.n_records or math.floor(start[-1] + 0.5)
        if given is None:
            state.statistic[:] = n * state.mean[0] + math.sqrt(n) * state.root[0] @ rng.standard_normal(k)
        else:
            state.statistic[:] = given
        state.width[:] = math.sqrt(n) * np.max(np.abs(state.root[0]))
        return state

    def restored(self, model, is_known, is_given, state, fresh, n_sweeps):
        state = same_layout(fresh, state)
        require_finite(theta=state.theta, statistic=state.statistic, free=state.free[0])
        require_finite(mean=state.mean[0], root=state.root[0])
        require_chain(state, n_sweeps)
        if is_given:
            require_same(fresh, state, "statistic")
        mean, root = np.zeros_like(state.mean[0]), np.zeros_like(state.root[0])
        model.moments(state.free[0], mean, root)
        require(np.isclose(state.mean[0], mean, rtol=1e-6), "mean", "is not that of its parameters")
        require(np.isclose(state.root[0], root, rtol=1e-6), "root", "is not that of its parameters")
        require(is_known or state.free[0, -1] >= 0.5, "free", "has an impossible number of records")
        return state

    @compiled
    def n_of(self, free):
        return self.known if self.known > 0.0 else float(math.floor(free[free.size - 1] + 0.5))

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        if self.is_given == 0.0:
            self.update_statistic(rng, (channel, counter, S, C, state.work), state)
        n_kinds = 3 if self.is_given == 0.0 else 1
        for _ in range(ROUNDS):
            for kind in range(n_kinds):
                for walk in range(2):
                    move(rng, self, model, channel, counter, S, C, state, walk == 0, kind)

    @compiled
    def update_statistic(self, rng, context, state):
        draw_along_lines(rng, self, context, state)

    @compiled
    def rounded(self, x):
        """What noise goes on."""
        return x

    @compiled
    def log_law(self, context, x):
        channel, _, S, _, work = context
        u = (x - work[CENTRE]) / work[SPREAD]
        value = -0.5 * u * u
        if work[KIND] != FIRST_COLUMN:
            return value + log_noise(channel, S, int(work[KIND]), x)
        for j in range(2):
            value += log_noise(channel, S, j, work[POINT + j] + x * work[DIRECTION + j])
        return value

    @compiled
    def draw_theta(self, model, state, rng):
        model.to_theta(state.free[0], state.theta)

    @compiled
    def number(self, state):
        return self.n_of(state.free[0])


class RoundedNormalApproximation(NormalApproximation):
    """The same for one statistic under integer noise, which is added to s rounded to an integer."""

    @compiled
    def update_statistic(self, rng, context, state):
        draw_cell(rng, self, context, state)

    @compiled
    def rounded(self, x):
        return float(math.floor(x + 0.5))

    @compiled
    def log_law(self, context, x):
        channel, _, S, _, work = context
        low = (x - 0.5 - work[CENTRE]) / work[SPREAD]
        return log_ndtr_interval(low, low + 1.0 / work[SPREAD]) + log_noise(channel, S, 0, x)


@helper
def draw_cell(rng, sampler, context, state):
    """Step 1 under integer noise: the integer, then s within its cell."""
    s, work, width = state.statistic, state.work, state.width
    n = sampler.n_of(state.free[0])
    work[CENTRE], work[SPREAD] = n * state.mean[0, 0], math.sqrt(n) * state.root[0, 0, 0]
    start = float(math.floor(s[0] + 0.5))
    cell, width[0] = draw_log_concave(rng, sampler, context, -math.inf, math.inf, start, width[0], True)
    low = (cell - 0.5 - work[CENTRE]) / work[SPREAD]
    s[0] = work[CENTRE] + work[SPREAD] * draw_truncated_normal(rng, low, low + 1.0 / work[SPREAD])
    if math.floor(s[0] + 0.5) != cell:  # rounding
        s[0] = cell


@helper
def draw_along_lines(rng, sampler, context, state):
    """Step 1: s exactly along lines."""
    s, mean, root, work, width = state.statistic, state.mean, state.root, state.work, state.width
    n = sampler.n_of(state.free[0])
    scale = math.sqrt(n)
    # with L = ((a, 0), (b, c)): s_1 | s_2 and s_2 | s_1, then z_1 | z_2; or s alone
    a, b, c = scale * root[0, 0, 0], 0.0, 1.0
    if s.size == 2:
        b, c = scale * root[0, 1, 0], scale * root[0, 1, 1]
    second = math.sqrt(b * b + c * c)
    for line in range(3 if s.size == 2 else 1):
        work[KIND] = float(line)
        start = s[line] if line < 2 else (s[0] - n * mean[0, 0]) / a
        if line == 0:
            work[CENTRE], work[SPREAD] = n * mean[0, 0], a * c / second
            if s.size == 2:
                work[CENTRE] += a * b / (second * second) * (s[1] - n * mean[0, 1])
        elif line == 1:
            work[CENTRE], work[SPREAD] = n * mean[0, 1] + b / a * (s[0] - n * mean[0, 0]), c
        else:
            work[CENTRE], work[SPREAD] = 0.0, 1.0
            work[POINT], work[DIRECTION] = n * mean[0, 0], a
            work[POINT + 1], work[DIRECTION + 1] = s[1] - b * start, b
        x, width[line] = draw_log_concave(rng, sampler, context, -math.inf, math.inf, start, width[line], False)
        if line < 2:
            s[line] = x
        else:
            s[0], s[1] = work[POINT] + a * x, work[POINT + 1] + b * x


@helper
def log_centred(sampler, state, which):
    """log N(s | nμ, nΣ) at the state (0) or the proposal (1), up to a constant; leaves z in ``score[which]``."""
    n = sampler.n_of(state.free[which])
    scale = 1.0 / math.sqrt(n)
    value = -0.5 * state.statistic.size * math.log(n)
    score = state.score[which]
    for j in range(state.statistic.size):
        z = (state.statistic[j] - n * state.mean[which, j]) * scale
        for i in range(j):
            z -= state.root[which, j, i] * score[i]
        score[j] = z / state.root[which, j, j]
        value -= 0.5 * score[j] * score[j] + math.log(state.root[which, j, j])
    return value


@helper
def redraw_score(rng, sampler, state, n):
    """z of a proposal, into ``score[2]``, drawn under Gaussian noise; log of its normal density over the proposal's.

    Minus the same for the state.
    """
    law = state.work
    widen = sampler.widest ** (2.0 * rng.random() - 1.0), sampler.widest ** (2.0 * rng.random() - 1.0)
    put_conditional(sampler.y, sampler.noise, widen, n, state.mean[1], state.root[1], law)
    draw_score(rng, law, state.score[2])
    gain = -log_score(law, state.score[2])
    put_conditional(sampler.y, sampler.noise, widen, sampler.n_of(state.free[0]), state.mean[0], state.root[0], law)
    gain += log_score(law, state.score[0])
    for j in range(state.statistic.size):
        gain -= 0.5 * (state.score[2, j] * state.score[2, j] - state.score[0, j] * state.score[0, j])
    return gain


@helper
def move(rng, sampler, model, channel, counter, S, C, state, is_independent, kind):
    """Step 2: one Metropolis–Hastings move of v."""
    centred = log_centred(sampler, state, 0)
    propose(rng, sampler, state.free[0], state.free[1], is_independent)
    state.ints[PROPOSED] += 1
    n = sampler.n_of(state.free[1])
    if not n >= 1.0:
        return
    model.moments(state.free[1], state.mean[1], state.root[1])
    gain = model.log_prior(state.free[1]) - model.log_prior(state.free[0])
    if is_independent:
        gain += log_proposal(sampler, state.free[0]) - log_proposal(sampler, state.free[1])
    if C.shape[0] > 0:
        gain += log_noise(counter, C, 0, n) - log_noise(counter, C, 0, sampler.n_of(state.free[0]))
    if not gain > -math.inf:
        return
    for j in range(state.statistic.size):
        if not state.root[1, j, j] > SMALLEST_ROOT:
            return
    if kind == CENTRED:
        gain += log_centred(sampler, state, 1) - centred
    else:
        scale, z = math.sqrt(n), state.score[0]
        if kind == JOINT:
            gain += redraw_score(rng, sampler, state, n)
            z = state.score[2]
        for j in range(state.statistic.size):
            at = n * state.mean[1, j]
            for i in range(j + 1):
                at += scale * state.root[1, j, i] * z[i]
            state.score[1, j] = at
            gain += log_noise(channel, S, j, sampler.rounded(at))
            gain -= log_noise(channel, S, j, sampler.rounded(state.statistic[j]))
    if not (gain >= 0.0 or rng.standard_exponential() > -gain):
        return
    state.ints[ACCEPTED] += 1
    for a in range(state.free.shape[1]):
        state.free[0, a] = state.free[1, a]
    for j in range(state.statistic.size):
        state.mean[0, j] = state.mean[1, j]
        for i in range(j + 1):
            state.root[0, j, i] = state.root[1, j, i]
        if kind != CENTRED:
            state.statistic[j] = state.score[1, j]
