"""Data augmentation for a release of sums over records (Ju, Awan, Gong & Rao 2022), interwoven with non-centred moves.

The state has all confidential records.  One sweep:

1. each record, or as many as the sampler says, by a Metropolis step with the model as proposal (Ju et al., Algorithm
   1): the model cancels, which leaves the noise's density at the release, for the sum with the old contribution removed
   and the new one added;
2. θ given the records: the model's own update, in which privacy plays no role;
3. optional non-centred moves: hold each record's standardised residual fixed, propose θ', and move the records with it.
   The distribution of the residuals does not depend on θ, so only the noise's density and the prior decide (Yu & Meng
   2011).  Without these moves θ moves by about 1/√n of its spread in a sweep, since n records hold it in place.
"""

from math import exp

import numpy as np

from ..._base.acceptance import note_acceptance
from ..._base.compiled import Component, compiled, helper, lower
from .._driver import n_kept, run_chain
from .._parameter_draws import new_statistic_draws
from .._release_density import log_release
from ._augmented_state import N_RECORDS, N_SWEEPS
from ._number import change_number


@helper
def log_release_moved(channel, S, total, contributions, old, new):
    """``log_release`` with one record's contribution replaced by another."""
    value = 0.0
    for r in range(S.shape[0]):
        for j in range(total.size):
            value += channel.log_release(S, r, j, total[j] - contributions[old, j] + contributions[new, j])
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
def update_records(rng, n_updates, model, channel, S, state):
    """Step 1, for so many records, the next ones in each sweep.  Returns the log density of the release."""
    records, contributions, total, theta = state.records, state.contributions, state.total, state.theta
    n, spare = state.ints[N_RECORDS], records.shape[0] - 1
    current, lowest, n_accepted = log_release(channel, S, total), 0.0, 0
    i = state.ints[N_SWEEPS] * n_updates % n if n > 0 else 0
    for _ in range(n_updates):
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
        i = i + 1 if i + 1 < n else 0
    note_acceptance(state.floats, n_updates, n_accepted, lowest)
    return current


class AugmentationSweeps(Component):
    """A sampler with all it needs: the fields ``sampler``, ``model``, ``channel``, ``counting``, ``S``, ``count``."""

    @compiled
    def sweep(self, state, rng, warming_up):
        model, channel, S = self.model, self.channel, self.S
        refresh_total(state)
        current = update_records(rng, self.sampler.n_updates(state), model, channel, S, state)
        current = change_number(rng, model, channel, self.counting, self.count, S, state, current)
        model.update_theta(rng, state.theta, state.records, state.ints[N_RECORDS], state.work)
        current = self.counting.leap(rng, model, channel, self.count, S, state, current)
        self.sampler.move(model, channel, S, state, rng, current, warming_up)

    @compiled
    def keep(self, state, rng, draws, row):
        for p in range(state.theta.size):
            draws.theta[row, p] = state.theta[p]
        for j in range(state.total.size):
            draws.statistic[row, j] = state.total[j]
        draws.n_records[row] = state.ints[N_RECORDS]


def advance_augmentation(values, S, count, state, rng, n_sweeps, n_warmup, thin):
    """Advance a chain in place by ``n_sweeps``; return (state, draws).

    Parameters
    ----------
    values : tuple (sampler, model, channel, counting) of component values
    S : ndarray of shape (n_releases, n_statistics)
    count : float
        The noisy number of records, where ``counting`` says that there is one.
    """
    names, done = ("sampler", "model", "channel", "counting", "S", "count"), state.ints[N_SWEEPS:]
    sweeps = lower(AugmentationSweeps, dict(zip(names, (*values, S, np.full((1, 1), count)), strict=True)))
    draws = new_statistic_draws(n_kept(done[0], n_sweeps, n_warmup, thin), len(state.theta), len(state.total))
    run_chain(sweeps, state, rng, done, n_sweeps, n_warmup, thin, draws)
    return state, draws
