"""Non-centred moves: parameters move, and records with them at fixed standardised residuals (Yu & Meng 2011).

The step is a factor of a covariance, adapted in the warm-up only (Vihola 2012).
"""

from math import exp, inf, sqrt

from ..._base.compiled import helper
from ..._base.linear import update_factor
from .._release_density import log_release
from ._augmented_state import MOVES_ACCEPTED, MOVES_PROPOSED, N_ADAPTED, N_RECORDS

TARGET = 0.3  # acceptance rate that non-centred moves are adapted to


@helper
def carried_total(model, to, block, state, total):
    """Write the query's value of the records as they are under ``to`` into ``total``; the records do not move."""
    spare = state.records.shape[0] - 1
    for j in range(state.total.size):
        total[j] = 0.0
    for i in range(state.ints[N_RECORDS]):
        model.carry(state.theta, to, block, state.records, i, spare)
        model.contribute(state.records, spare, state.contributions, spare)
        for j in range(state.total.size):
            total[j] += state.contributions[spare, j]


@helper
def carry_records(model, to, block, state, total):
    """Put θ at ``to``, and with it the records and their ``total``."""
    for i in range(state.ints[N_RECORDS]):
        model.carry(state.theta, to, block, state.records, i, i)
        model.contribute(state.records, i, state.contributions, i)
    for j in range(state.total.size):
        state.total[j] = total[j]
    for p in range(state.theta.size):
        state.theta[p] = to[p]


@helper
def move_block(rng, model, channel, S, state, block, current, adapt):
    """A random-walk step of one block of parameters.  Returns the log density of the release."""
    theta, work, m, step = state.theta, state.work, model.block_size(block), state.steps[block]
    v, direction, total, to = work[0], work[1], work[2][: state.total.size], work[3]
    before = model.log_prior_block(theta, block)
    if not before > -inf:  # beyond what these moves reach: nothing would lead back
        return current
    model.get_block(theta, block, v)
    for a in range(m):
        direction[a] = rng.standard_normal()
    for p in range(theta.size):
        to[p] = theta[p]
    for a in range(m):
        for b in range(a + 1):
            v[a] += step[a, b] * direction[b]
    model.set_block(to, block, v)
    gain = model.log_prior_block(to, block) - before
    proposed = current
    if gain > -inf:
        carried_total(model, to, block, state, total)
        proposed = log_release(channel, S, total)
        gain += proposed - current
    probability = exp(min(gain, 0.0))
    state.floats[MOVES_PROPOSED] += 1.0
    if adapt:
        adapt_factor(step, direction, m, probability, state.ints, N_ADAPTED)
    if rng.random() >= probability:
        return current
    state.floats[MOVES_ACCEPTED] += 1.0
    carry_records(model, to, block, state, total)
    return proposed


@helper
def move_blocks(rng, n_rounds, model, channel, S, state, current, adapt):
    """Rounds of steps of all blocks.  Returns the log density of the release."""
    for _ in range(n_rounds):
        for block in range(model.n_blocks()):
            current = move_block(rng, model, channel, S, state, block, current, adapt)
    return current


@helper
def adapt_factor(factor, direction, m, probability, ints, at):
    """Vihola (2012), eq. (1): S S' ← S (I + η (α - α*) u u' / ‖u‖²) S', by an update of the lower factor S.

    With v = S u √(η |α - α*|) / ‖u‖ it is S S' ± v v'; the downdate is by less than half of S S', so that it stays
    positive definite.
    """
    ints[at] += 1
    rate = min(1.0, m * ints[at] ** -0.66) * (probability - TARGET)
    length = 0.0
    for a in range(m):
        length += direction[a] * direction[a]
    scale = sqrt(abs(rate) / length)
    sign = 1.0 if rate > 0.0 else -1.0
    for a in range(m - 1, -1, -1):
        value = 0.0
        for b in range(a + 1):
            value += factor[a, b] * direction[b]
        direction[a] = scale * value
    update_factor(factor, direction, sign, m)
