"""Data augmentation for sums of sufficient statistics that are cut at bounds: exact, at a price a record."""

from math import exp, inf

import numpy as np

from .._compiled import entry, helper, lower
from ._augmentation import (
    N_RECORDS,
    N_SWEEPS,
    Augmentation,
    change_number,
    finish_sweep,
    log_release,
    refresh_total,
    update_records,
)
from ._proposal import log_proposal, proposal_fields, propose
from ._statistic import StatisticDraws

OLD, NEW, TO = 4, 5, 6  # rows of the scratch


class FamilyAugmentation(Augmentation):
    """Data augmentation, with one more non-centred move: anywhere in the posterior, as its modes are approximately.

    Two parameters may explain the same sum, where records are dropped; from one to the other there is no way by steps.

    Parameters
    ----------
    centres, factors, log_weights : ndarrays
        The modes, as in ``proposal_fields``.
    n_moves : int, default=2
        Rounds of random-walk moves.
    """

    def __init__(self, centres, factors, log_weights, n_moves=2):
        self.centres = centres
        self.factors = factors
        self.log_weights = log_weights
        self.n_moves = n_moves

    def _lower(self, **context):
        fields = proposal_fields(self.centres, self.factors, self.log_weights)
        return lower(type(self), {**fields, "n_moves": float(self.n_moves)})


@helper
def jump(rng, sampler, model, channel, S, state, current):
    """A non-centred move to a draw of the mixture.  Returns the log density of the release."""
    theta, records, contributions, work = state.theta, state.records, state.contributions, state.work
    n, spare = state.ints[N_RECORDS], records.shape[0] - 1
    old, new, to, total = work[OLD], work[NEW], work[TO], work[0]
    model.get_block(theta, 0, old)
    propose(rng, sampler, old, new, True)
    model.set_block(to, 0, new)
    gain = model.log_prior_block(to, 0) - model.log_prior_block(theta, 0)
    gain += log_proposal(sampler, old) - log_proposal(sampler, new)
    if not gain > -inf:
        return current
    for j in range(state.total.size):
        total[j] = 0.0
    for i in range(n):
        model.carry(theta, to, 0, records, i, spare)
        model.contribute(records, spare, contributions, spare)
        for j in range(state.total.size):
            total[j] += contributions[spare, j]
    proposed = log_release(channel, S, total[: state.total.size])
    gain += proposed - current
    if not (gain >= 0.0 or rng.random() < exp(gain)):
        return current
    for i in range(n):
        model.carry(theta, to, 0, records, i, i)
        model.contribute(records, i, contributions, i)
    for j in range(state.total.size):
        state.total[j] = total[j]
    for p in range(theta.size):
        theta[p] = to[p]
    return proposed


@entry
def run_records(sampler, model, channel, counting, S, count, state, rng, until, n_warmup, thin, draws):
    """Sweeps of ``_augmentation`` up to sweep ``until``; draws have the hidden statistic too."""
    n_drawn = 0
    while state.ints[N_SWEEPS] < until:
        sweep = state.ints[N_SWEEPS] + 1 - n_warmup
        refresh_total(state)
        current = update_records(rng, model, channel, S, state)
        current = change_number(rng, model, channel, counting, count, S, state, current)
        model.update_theta(rng, state.theta, state.records, state.ints[N_RECORDS], state.work)
        if model.n_blocks() > 0:
            current = jump(rng, sampler, model, channel, S, state, current)
            sampler.move(model, channel, S, state, rng, current, sweep <= 0)
        before = n_drawn
        n_drawn = finish_sweep(state, draws, n_drawn, sweep, thin)
        if n_drawn > before:
            for j in range(state.total.size):
                draws.statistic[before, j] = state.total[j]


def advance_records(values, S, count, state, rng, n_sweeps, n_warmup, thin):
    """Advance a chain in place by ``n_sweeps``; return (state, draws).

    Parameters
    ----------
    values : tuple (sampler, model, channel, counting) of component values
    S : ndarray of shape (n_releases, n_statistics)
    count : float
        The noisy number of records, where ``counting`` says that there is one.
    """
    done = int(state.ints[N_SWEEPS])
    n_draws = max(done + n_sweeps - n_warmup, 0) // thin - max(done - n_warmup, 0) // thin
    draws = StatisticDraws(np.zeros((n_draws, len(state.theta))), np.zeros((n_draws, S.shape[1])), np.zeros(n_draws))
    S = np.array(S)  # writable: one compiled version, wherever it comes from
    run_records(*values, S, np.full((1, 1), count), state, rng, done + n_sweeps, n_warmup, thin, draws)
    return state, draws
