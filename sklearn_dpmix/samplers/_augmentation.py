"""Data augmentation for a release of sums over records (Ju, Awan, Gong & Rao 2022), interwoven with non-centred moves.

The state has all confidential records.  One sweep:

1. each record by a Metropolis step with the model as proposal (Ju et al., Algorithm 1): the model cancels, and what is
   left is the noise's density at the release, for the sum with the old contribution taken off and the new one added;
2. θ given the records: the model's own update, no privacy in it;
3. non-centred moves, at will: hold each record's standardised residual fixed, propose θ', carry the records along.  The
   residuals' law does not depend on θ, so that only the noise's density and the prior decide (Yu & Meng 2011).  Without
   them θ moves by about 1/√n of its spread in a sweep, since n records hold it.

The step of 3 is a factor of a covariance, adapted in the warm-up only (Vihola 2012).
"""

from math import exp, inf, sqrt
from typing import NamedTuple

import numpy as np

from .._compiled import Component, compiled, entry, helper, lower

# ints
N_RECORDS, N_SWEEPS, N_ADAPTED, N_INTS = 0, 1, 2, 3
# floats; TUNED is the sampler's own
ACCEPTED, PROPOSED, LOG_MIN_ACCEPT, MOVES_ACCEPTED, MOVES_PROPOSED, TUNED, N_FLOATS = 0, 1, 2, 3, 4, 5, 6
TARGET = 0.3  # acceptance rate that non-centred moves are adapted to


class AugmentedState(NamedTuple):
    """All of a chain but its random generator: arrays that a sweep changes in place."""

    theta: np.ndarray  # (n_params,)
    records: np.ndarray  # (most + 1, d): ints[N_RECORDS] imputed confidential records; the last row is scratch
    contributions: np.ndarray  # (most + 1, k): t(record) of each; the last row is scratch
    total: np.ndarray  # (k,): their sum
    steps: np.ndarray  # (n_blocks, m, m): lower factors of the non-centred proposals
    reference: np.ndarray  # (n_params,): parameters met in the warm-up
    work: np.ndarray  # (rows, columns): the model's scratch
    ints: np.ndarray
    floats: np.ndarray


def start_augmentation(model, value, n_records, most, S, moments, rng):
    """Start a chain: θ near what the release says, records drawn from the model; there is room for ``most``."""
    state = new_state(model, n_records, most, S.shape[1], model.start(moments, rng))
    fill(value, state, rng)
    return state


def start_known_records(model, records, rng):
    """Start a chain on records that are known."""
    state = new_state(model, len(records), len(records), 0, model.start(None, rng))
    state.records[:-1] = records
    return state


def new_state(model, n_records, most, n_statistics, theta):
    """Return a state with nothing but θ in it."""
    ints = np.zeros(N_INTS, dtype=np.int64)
    ints[N_RECORDS] = n_records
    return AugmentedState(
        theta=theta,
        records=np.zeros((most + 1, model.n_columns)),
        contributions=np.zeros((most + 1, n_statistics)),
        total=np.zeros(n_statistics),
        steps=model.first_steps(),
        reference=theta.copy(),
        work=np.zeros(model.work_shape(n_statistics)),
        ints=ints,
        floats=np.zeros(N_FLOATS),
    )


@entry
def fill(model, state, rng):
    """Draw all records given θ."""
    for i in range(state.ints[N_RECORDS]):
        model.draw_record(rng, state.theta, state.records, i)
        model.contribute(state.records, i, state.contributions, i)


@helper
def log_release(channel, S, total):
    """Log density of all releases of the total, up to a constant."""
    value = 0.0
    for r in range(S.shape[0]):
        for j in range(total.size):
            value += channel.log_release(S, r, j, total[j])
    return value


@helper
def log_release_moved(channel, S, total, contributions, old, new):
    """The same with one record's contribution replaced by another."""
    value = 0.0
    for r in range(S.shape[0]):
        for j in range(total.size):
            moved = total[j] - contributions[old, j] + contributions[new, j]
            value += channel.log_release(S, r, j, moved)
    return value


@helper
def refresh_total(state):
    """The total from all contributions: once a sweep, against drift."""
    total, contributions = state.total, state.contributions
    for j in range(total.size):
        total[j] = 0.0
    for i in range(state.ints[N_RECORDS]):
        for j in range(total.size):
            total[j] += contributions[i, j]


@helper
def update_records(rng, model, channel, S, state):
    """Step 1.  Returns the log density of the release."""
    records, contributions, total, theta = state.records, state.contributions, state.total, state.theta
    n, spare = state.ints[N_RECORDS], records.shape[0] - 1
    current, lowest, n_accepted = log_release(channel, S, total), 0.0, 0
    for i in range(n):
        model.draw_record(rng, theta, records, spare)
        model.contribute(records, spare, contributions, spare)
        proposed = log_release_moved(channel, S, total, contributions, i, spare)
        gain = proposed - current
        lowest = min(lowest, gain)
        if gain >= 0.0 or rng.random() < exp(gain):
            for j in range(total.size):
                total[j] += contributions[spare, j] - contributions[i, j]
                contributions[i, j] = contributions[spare, j]
            for j in range(records.shape[1]):
                records[i, j] = records[spare, j]
            current = proposed
            n_accepted += 1
    state.floats[PROPOSED] += n
    state.floats[ACCEPTED] += n_accepted
    state.floats[LOG_MIN_ACCEPT] = min(state.floats[LOG_MIN_ACCEPT], lowest)
    return current


@helper
def change_number(rng, model, channel, counting, count, S, state, current):
    """Births and deaths of records, where their number was released with noise and has a flat prior on 0..most.

    Each try puts a record from the model in a random place, or takes a random one out: the places' probabilities 1/n
    cancel, as do the model and the prior, and the noise on both releases decides.
    """
    records, contributions, total = state.records, state.contributions, state.total
    spare = records.shape[0] - 1
    for _ in range(int(counting.n_tries)):
        n = state.ints[N_RECORDS]
        born = rng.random() < 0.5
        if n == (spare if born else 0):
            continue
        place = spare
        if born:
            model.draw_record(rng, state.theta, records, spare)
            model.contribute(records, spare, contributions, spare)
        else:
            place = min(int(rng.random() * n), n - 1)
        sign = 1.0 if born else -1.0
        for j in range(total.size):
            total[j] += sign * contributions[place, j]
        proposed = log_release(channel, S, total)
        gain = proposed - current + counting.gain(count, n, n + sign)
        if gain >= 0.0 or rng.random() < exp(gain):
            current = proposed
            to, source = (n, spare) if born else (place, n - 1)
            for j in range(total.size):
                contributions[to, j] = contributions[source, j]
            for j in range(records.shape[1]):
                records[to, j] = records[source, j]
            state.ints[N_RECORDS] = n + 1 if born else n - 1
        else:
            for j in range(total.size):
                total[j] -= sign * contributions[place, j]
    return current


@helper
def move_block(rng, model, channel, S, state, block, current, adapt):
    """Step 3 for one block of parameters.  Returns the log density of the release."""
    theta, records, contributions, work = state.theta, state.records, state.contributions, state.work
    n, spare = state.ints[N_RECORDS], records.shape[0] - 1
    m, step = model.block_size(block), state.steps[block]
    old, direction, new_total, to = work[0], work[1], work[2], work[3]
    model.get_block(theta, block, old)
    for a in range(m):
        direction[a] = rng.standard_normal()
    for p in range(theta.size):
        to[p] = theta[p]
    for a in range(m - 1, -1, -1):  # from below, so that ``old`` may be overwritten by the proposal
        for b in range(a + 1):
            old[a] += step[a, b] * direction[b]
    model.set_block(to, block, old)
    gain = model.log_prior_block(to, block) - model.log_prior_block(theta, block)
    proposed = current
    if gain > -inf:
        for j in range(state.total.size):
            new_total[j] = 0.0
        for i in range(n):
            model.carry(theta, to, block, records, i, spare)
            model.contribute(records, spare, contributions, spare)
            for j in range(state.total.size):
                new_total[j] += contributions[spare, j]
        proposed = log_release(channel, S, new_total[: state.total.size])
        gain += proposed - current
    probability = exp(min(gain, 0.0))
    state.floats[MOVES_PROPOSED] += 1.0
    if adapt:
        adapt_factor(step, direction, m, probability, state.ints)
    if rng.random() >= probability:
        return current
    state.floats[MOVES_ACCEPTED] += 1.0
    for i in range(n):
        model.carry(theta, to, block, records, i, i)
        model.contribute(records, i, contributions, i)
    for j in range(state.total.size):
        state.total[j] = new_total[j]
    for p in range(theta.size):
        theta[p] = to[p]
    return proposed


@helper
def adapt_factor(factor, direction, m, probability, ints):
    """Vihola (2012), eq. (1): S S' ← S (I + η (α - α*) u u' / ‖u‖²) S', by an update of the lower factor S.

    With v = S u √(η |α - α*|) / ‖u‖ it is S S' ± v v'; the downdate is by less than half of S S', so that it stays
    positive definite.
    """
    ints[N_ADAPTED] += 1
    rate = min(1.0, m * ints[N_ADAPTED] ** -0.66) * (probability - TARGET)
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
    for a in range(m):
        diagonal = factor[a, a]
        root = sqrt(diagonal * diagonal + sign * direction[a] * direction[a])
        c, s = root / diagonal, direction[a] / diagonal
        factor[a, a] = root
        for b in range(a + 1, m):
            factor[b, a] = (factor[b, a] + sign * s * direction[b]) / c
            direction[b] = c * direction[b] - s * factor[b, a]


class KnownNumber(Component):
    """The number of records is known."""

    def _lower(self, **context):
        return lower(type(self), {"n_tries": 0.0})

    @compiled
    def gain(self, count, n, new):
        return 0.0


class NoisyNumber(Component):
    """The number of records was released with noise of ``mechanism``; ``n_tries`` births or deaths in a sweep."""

    def __init__(self, mechanism, n_tries):
        self.mechanism = mechanism
        self.n_tries = n_tries

    def _lower(self, **context):
        channel = self.mechanism._lower(n_records=1, n_features=1)
        return lower(type(self), {"n_tries": float(self.n_tries), "mechanism": channel})

    @compiled
    def gain(self, count, n, new):
        """Log ratio of the densities of the noisy number at ``new`` and ``n``."""
        return self.mechanism.log_release(count, 0, 0, new) - self.mechanism.log_release(count, 0, 0, n)


def counting(n_records):
    """What is known of the number of records: an integer, or an object with ``scale`` and ``mechanism``."""
    if not hasattr(n_records, "mechanism"):
        return KnownNumber()
    return NoisyNumber(n_records.mechanism, n_tries=int(min(20 + 2 * n_records.scale, 1000)))


class Augmentation(Component):
    """Data-augmentation sampler of Ju et al., with ``n_moves`` rounds of non-centred moves in each sweep.

    A subclass may have moves of its own.
    """

    def __init__(self, n_moves=2):
        self.n_moves = n_moves

    @compiled
    def move(self, model, channel, S, state, rng, current, warming_up):
        """Step 3.  ``current`` is the log density of the release."""
        for _ in range(int(self.n_moves)):
            for block in range(model.n_blocks()):
                current = move_block(rng, model, channel, S, state, block, current, warming_up)


# A compiled function is optimised with all that it calls, once for itself and once more in each caller: so what is big
# is not nested deeper than it must be.


@entry
def run_augmentation(sampler, model, channel, counting, S, count, state, rng, until, n_warmup, thin, draws):
    """Sweep up to sweep ``until``; after every ``thin`` sweeps beyond the warm-up write θ into a row of ``draws``."""
    n_drawn = 0
    while state.ints[N_SWEEPS] < until:
        sweep = state.ints[N_SWEEPS] + 1 - n_warmup
        refresh_total(state)
        current = update_records(rng, model, channel, S, state)
        current = change_number(rng, model, channel, counting, count, S, state, current)
        model.update_theta(rng, state.theta, state.records, state.ints[N_RECORDS], state.work)
        sampler.move(model, channel, S, state, rng, current, sweep <= 0)
        n_drawn = finish_sweep(state, draws, n_drawn, sweep, thin)


@entry
def run_known(model, state, rng, until, n_warmup, thin, draws):
    """The same where the records are known: θ given them, and nothing else."""
    n_drawn = 0
    while state.ints[N_SWEEPS] < until:
        sweep = state.ints[N_SWEEPS] + 1 - n_warmup
        model.update_theta(rng, state.theta, state.records, state.ints[N_RECORDS], state.work)
        n_drawn = finish_sweep(state, draws, n_drawn, sweep, thin)


@helper
def finish_sweep(state, draws, n_drawn, sweep, thin):
    """Count the sweep, and record a draw where one is due."""
    state.ints[N_SWEEPS] += 1
    if sweep <= 0 or sweep % thin != 0:
        return n_drawn
    for p in range(state.theta.size):
        draws.theta[n_drawn, p] = state.theta[p]
    draws.n_records[n_drawn] = state.ints[N_RECORDS]
    return n_drawn + 1


class ThetaDraws(NamedTuple):
    """Draws of the parameters, (n_draws, n_params), and of the number of records, (n_draws,)."""

    theta: np.ndarray
    n_records: np.ndarray


def new_draws(state, n_sweeps, n_warmup, thin):
    """Room for the draws of the next ``n_sweeps`` sweeps."""
    done = int(state.ints[N_SWEEPS])
    n_draws = max(done + n_sweeps - n_warmup, 0) // thin - max(done - n_warmup, 0) // thin
    return ThetaDraws(np.zeros((n_draws, len(state.theta))), np.zeros(n_draws, dtype=np.int64))


def advance_augmentation(values, S, count, state, rng, n_sweeps, n_warmup, thin):
    """Advance a chain in place by ``n_sweeps``; return (state, draws).

    Parameters
    ----------
    values : tuple (sampler, model, channel, counting) of component values
    S : ndarray of shape (n_releases, n_statistics)
    count : float
        The noisy number of records, where ``counting`` says that there is one.
    """
    draws, until = new_draws(state, n_sweeps, n_warmup, thin), int(state.ints[N_SWEEPS]) + n_sweeps
    S = np.array(S)  # writable: one compiled version, wherever it comes from
    run_augmentation(*values, S, np.full((1, 1), count), state, rng, until, n_warmup, thin, draws)
    return state, draws


def advance_known(model, state, rng, n_sweeps, n_warmup, thin):
    """The same for a model whose records are known."""
    draws, until = new_draws(state, n_sweeps, n_warmup, thin), int(state.ints[N_SWEEPS]) + n_sweeps
    run_known(model, state, rng, until, n_warmup, thin, draws)
    return state, draws
