"""Data augmentation for a linear regression, with many non-centred moves at the cost of one pass over the records.

With the standardised residuals e_i and predictors z_i of all records held fixed, and without clamping, the released
moments are a polynomial in θ = (α, β, σ, m, C): (1, x_i, y_i) is linear in (1, z_i, e_i), so all that the records have
to say is the matrix M of products of (1, z, e).  A random walk of many steps on the posterior of θ given M, as it would
be without clamping, is reversible; its end is a proposal for the exact posterior given (z, e), and is accepted by the
ratio of the two at both ends (the surrogate transition method: Liu 2001, *Monte Carlo Strategies in Scientific
Computing*, §9.4.3).  If no record is clamped, nothing is rejected.  Otherwise clamping is assumed to do everywhere what
it does at a reference point, which is chosen in the warm-up (:func:`set_shift`).
"""

from math import exp, inf

from ..._base.compiled import Component, compiled, helper
from .._release_density import log_release
from ._augmented_state import MOVES_ACCEPTED, MOVES_PROPOSED, N_RECORDS, TUNED
from ._carry import adapt_factor, carried_total, carry_records, move_blocks

SHORT_WALK = 5  # steps
WALKS_SUFFICE = 0.7  # acceptance rate of long walks


class RegressionAugmentation(Component):
    """Data augmentation of Ju et al., and a random walk in each sweep, of ``n_moves`` steps or a short one.

    If many records are clamped, the surrogate is wrong far away, and ends of long walks are rejected; the share of
    short walks follows from that and is tuned only in the warm-up.  ``n_steps`` rounds of single steps come after the
    walk, each with its own pass over the records, except in chains whose long walks are mostly accepted.
    """

    def __init__(self, n_moves=30, n_steps=0):
        self.n_moves = n_moves
        self.n_steps = n_steps

    @compiled
    def move(self, model, channel, S, state, rng, current, warming_up):
        """The random walk and its acceptance.  ``current`` is the log density of the release."""
        if self.n_moves > 0.0:
            walk_and_steps(self, model, channel, S, state, rng, current, warming_up)


@helper
def walk_and_steps(sampler, model, channel, S, state, rng, current, warming_up):
    """The walk and, if that is not enough, steps that are each accepted by the exact posterior."""
    current = walk(int(sampler.n_moves), model, channel, S, state, rng, current, warming_up)
    if state.floats[TUNED] < WALKS_SUFFICE:
        accepted, proposed = state.floats[MOVES_ACCEPTED], state.floats[MOVES_PROPOSED]
        move_blocks(rng, int(sampler.n_steps), model, channel, S, state, current, warming_up)
        state.floats[MOVES_ACCEPTED], state.floats[MOVES_PROPOSED] = accepted, proposed  # of walks only


@helper
def walk(n_moves, model, channel, S, state, rng, current, warming_up):
    """A walk on the surrogate, accepted or not.  Returns the log density of the release."""
    theta, work, q = state.theta, state.work, model.p + 1
    moments, image, coefs = work[: q + 1], work[q + 1 : 2 * q + 1], work[2 * q + 1 : 3 * q + 2]
    to, trial, total = work[3 * q + 2], work[3 * q + 3], work[3 * q + 4][: state.total.size]
    standard_moments(model, theta, state, moments)
    for p in range(theta.size):
        to[p] = theta[p]
        trial[p] = theta[p]
    kind = model.n_blocks() - 1  # of how records are carried: 0 keeps the predictors as they are, to the last bit
    if warming_up and rng.random() < 0.1:
        for p in range(theta.size):
            state.reference[p] = theta[p]
    set_shift(model, state, kind, moments, image, coefs, total)
    surrogate_total(model, to, moments, image, coefs, total, True)
    start = log_release(channel, S, total)
    end, long = start, rng.random() < long_share(state)
    for _ in range(n_moves if long else SHORT_WALK):
        for block in range(model.n_blocks()):
            end = walk_step(rng, model, channel, S, state, block, to, trial, end, warming_up)
    state.floats[MOVES_PROPOSED] += 1.0
    carried_total(model, to, kind, state, total)
    proposed = log_release(channel, S, total)
    gain = (proposed - end) - (current - start)
    if warming_up and long:
        rate = state.floats[TUNED]
        state.floats[TUNED] = max(rate + 0.05 * (exp(min(gain, 0.0)) - rate), 1e-3)
    if gain >= 0.0 or rng.random() < exp(gain):
        state.floats[MOVES_ACCEPTED] += 1.0
        carry_records(model, to, kind, state, total)
        return proposed
    return current


@helper
def long_share(state):
    """Probability of a long walk: near 1 if their ends are accepted, small if clamping makes most of them rejected."""
    rate = state.floats[TUNED]
    return 0.5 if rate == 0.0 else min(max(2.0 * rate, 0.1), 0.9)


@helper
def set_shift(model, state, kind, moments, image, coefs, total):
    """What clamping changes of the query's value under the reference parameters, given (z, e).

    Any function of (z, e) may shift the surrogate; this one makes it nearly right where many records are clamped.
    """
    shift = coefs[model.p + 1]
    for j in range(total.size):
        shift[j] = 0.0
    surrogate_total(model, state.reference, moments, image, coefs, total, True)
    for j in range(total.size):
        shift[j] = -total[j]
    carried_total(model, state.reference, kind, state, total)
    for j in range(total.size):
        shift[j] += total[j]


@helper
def walk_step(rng, model, channel, S, state, block, to, trial, current, adapt):
    """One Metropolis step of a block of ``to``; ``trial`` equals it before and after."""
    q, work, step, m = model.p + 1, state.work, state.steps[block], model.block_size(block)
    moments, image, coefs = work[: q + 1], work[q + 1 : 2 * q + 1], work[2 * q + 1 : 3 * q + 2]
    total, v, direction = work[3 * q + 4][: state.total.size], work[3 * q + 5], work[3 * q + 6]
    model.get_block(to, block, v)
    for a in range(m):
        direction[a] = rng.standard_normal()
    for a in range(m):
        for b in range(a + 1):
            v[a] += step[a, b] * direction[b]
    model.set_block(trial, block, v)
    gain, proposed = model.log_prior_block(trial, block), current
    if gain > -inf:
        surrogate_total(model, trial, moments, image, coefs, total, block > 0)
        proposed = log_release(channel, S, total)
        gain += proposed - current - model.log_prior_block(to, block)
    probability = exp(min(gain, 0.0))
    if adapt:
        adapt_factor(step, direction, m, probability, state.ints)
    accepts = rng.random() < probability
    source, copy = (trial, to) if accepts else (to, trial)
    for p in range(state.theta.size):
        copy[p] = source[p]
    if block > 0 and not accepts:  # the predictors' part of ``coefs`` and ``image`` is the trial's
        surrogate_total(model, to, moments, image, coefs, total, True)
    return proposed if accepts else current


@helper
def standard_moments(model, theta, state, moments):
    """M: products of (1, z, e), z = L⁻¹(x - m), e = (y - α - xβ)/σ, summed over records."""
    p, records, n = model.p, state.records, state.ints[N_RECORDS]
    spare = records.shape[0] - 1
    for a in range(p + 2):
        for b in range(p + 2):
            moments[a, b] = 0.0
    for i in range(n):
        model.standardise(theta, records, i, spare)
        for a in range(p + 1):
            w = records[spare, a]
            moments[a + 1, 0] += w
            for b in range(a + 1):
                moments[a + 1, b + 1] += w * records[spare, b]
    moments[0, 0] = n
    for a in range(p + 2):
        for b in range(a):
            moments[b, a] = moments[a, b]


@helper
def surrogate_total(model, theta, moments, image, coefs, total, predictors):
    """The query's value if nothing were clamped, and the shift; without ``predictors``, their part is as it was.

    Row a of ``coefs`` has scaled coordinate a (x_1, ..., x_p, y) in terms of (1, z, e), the row after them the shift;
    ``image`` is ``coefs @ M``.
    """
    p, shift = model.p, coefs[model.p + 1]
    model.set_coefs(theta, coefs, predictors)
    for a in range(0 if predictors else p, p + 1):
        for b in range(p + 2):
            value = 0.0
            for r in range(p + 2):
                value += coefs[a, r] * moments[r, b]
            image[a, b] = value
    total[0] = image[p, 0] + shift[0]
    total[p + 1] = product(image, coefs, p, p, p) + shift[p + 1]
    for j in range(p):
        total[1 + j] = product(image, coefs, p, j, p) + shift[1 + j]
    if predictors:
        at = 2 * p + 2
        for j in range(p):
            total[p + 2 + j] = image[j, 0] + shift[p + 2 + j]
            for r in range(j, p):
                total[at] = product(image, coefs, j, r, p) + shift[at]
                at += 1


@helper
def product(image, coefs, a, b, p):
    value = 0.0
    for r in range(p + 2):
        value += image[a, r] * coefs[b, r]
    return value
