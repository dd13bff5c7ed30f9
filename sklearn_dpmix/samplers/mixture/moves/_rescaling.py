"""All records and clusters are shifted, or spread about a centre, together: residuals stay, and so does the likelihood.

Even if noise hides the population's shape, its mean and variance are known well, and no move of one cluster changes
either of them much.
"""

from math import exp

from ...._base.compiled import helper
from .._places import N_SLOTS, RESCALING_STEPS, RESCALING_TUNED
from .._state import copy_params, fill_cache, tune_step
from ._noncentred import TARGET


@helper
def rescale_all(rng, channel, kernel, Z, state, tune):
    """Shift, then spread, each feature; needs compact slots and a spare one.

    y becomes c + shift + e^spread (y - c), c the prior's centre, and clusters move too.  The records' densities and
    their Jacobian cancel, which leaves the channel, the prior, and the Jacobian of the clusters' means.
    """
    theta, records, spare = state.theta, state.records, state.ints[N_SLOTS]
    for j in range(kernel.n_features):
        for spreads in range(2):
            at = RESCALING_STEPS + spreads
            step = exp(state.floats[at]) * rng.standard_normal()
            shift, log_spread = step * kernel.prior_spread(j) * (1 - spreads), step * spreads
            gain, spread, centre = spare * log_spread, exp(log_spread), kernel.prior_mean[j]
            for k in range(spare):
                kernel.rescale(theta, k, spare, j, shift, log_spread)
                gain += kernel.log_prior_change(theta, k, spare)
            if gain > -1e300:
                for i in range(state.alloc.size):
                    k, y = state.alloc[i], records[i, 0, j]
                    gain += channel.log_weight(kernel, Z, i, j, theta, k, centre + shift + spread * (y - centre))
                    gain -= channel.log_weight(kernel, Z, i, j, theta, k, y)
            probability = exp(min(gain, 0.0))
            if rng.random() < probability:
                for i in range(state.alloc.size):
                    records[i, 0, j] = centre + shift + spread * (records[i, 0, j] - centre)
                for k in range(spare):
                    kernel.rescale(theta, k, spare, j, shift, log_spread)
                    copy_params(theta, spare, k)
                    fill_cache(channel, kernel, theta, k)
            if tune:
                tune_step(state.floats, RESCALING_TUNED + spreads, at, probability, TARGET)
