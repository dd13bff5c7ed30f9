"""The sampler of Ju et al. (2022), Algorithm 1, which the package's samplers of noisy tables are compared with."""

from math import exp

from sklearn_dpmix._base.acceptance import note_acceptance
from sklearn_dpmix._base.compiled import Component, compiled, helper
from sklearn_dpmix.samplers.tables._record_chains import log_gain


class RecordMetropolis(Component):
    """Class and features of a record are proposed together, from the model given θ.

    A proposal costs O(number of features).
    """

    @compiled
    def sweep(self, model, channel, S, state, rng, warming_up):
        propose_records(rng, model, channel, S, state)
        model.draw_parameters(rng, state.theta, state.counts)


@helper
def log_gain_of(model, channel, S, counts, records, i):
    """Change of the release's log density when record i goes on the counts: into one cell of each table."""
    gain = 0.0
    for j in range(model.n_features):
        cell = model.cell_of(records, i, j)
        gain += log_gain(channel, S, cell, counts[cell])
    return gain


@helper
def propose_records(rng, model, channel, S, state):
    records, counts, theta = state.records, state.counts, state.theta
    n, lowest, n_accepted = records.shape[0] - 1, 0.0, 0
    for i in range(n):
        model.draw_record(rng, theta, records, n)
        model.count(records, i, counts, -1.0)
        gain = log_gain_of(model, channel, S, counts, records, n) - log_gain_of(model, channel, S, counts, records, i)
        lowest = min(lowest, gain)
        if gain >= 0.0 or rng.random() < exp(gain):
            for j in range(records.shape[1]):
                records[i, j] = records[n, j]
            n_accepted += 1
        model.count(records, i, counts, 1.0)
    note_acceptance(state.floats, n, n_accepted, lowest)
