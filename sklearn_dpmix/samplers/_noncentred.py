"""Non-centred moves of a cluster's parameters (DESIGN 2.2): the residuals e_i = (y_i - μ)/σ stay, (μ, σ) and so y move.

Given the residuals, the likelihood f(y | θ) does not change, so the acceptance ratio has the channel and the prior
only: Σ_i [log q(z_i | y_i') - log q(z_i | y_i)] + log G0(θ') - log G0(θ), in coordinates in which the step is
symmetric.
"""

from math import exp

from .._compiled import helper
from ._state import N_BINS, N_SLOTS, copy_params, size_bin, tune_step

TARGET = 0.35
# floats: how often each step was tuned; log step of the mean, then of the scale, for clusters of 2^b..2^(b+1) records
TUNED, STEPS = 8, 16


@helper
def log_weight_gain(channel, kernel, Z, i, theta, k, to, records):
    """Change of log q(z_i | y_i) when record i's residuals move from cluster parameters k to ``to``."""
    gain = 0.0
    for j in range(kernel.n_features):
        y = records[i, 0, j]
        moved = kernel.from_residual(theta, to, j, kernel.residual(theta, k, j, y))
        gain += channel.log_weight(kernel, Z, i, j, theta, to, moved) - channel.log_weight(kernel, Z, i, j, theta, k, y)
    return gain


@helper
def move_record(kernel, i, theta, k, to, records):
    """Carry record i's residuals from cluster parameters k to ``to``."""
    for j in range(kernel.n_features):
        records[i, 0, j] = kernel.from_residual(theta, to, j, kernel.residual(theta, k, j, records[i, 0, j]))


@helper
def noncentred_moves(rng, channel, kernel, Z, state, tune):
    """Move the means, then the scales, of each cluster; needs ``order`` sorted by cluster, and a spare slot.

    Step sizes are tuned (``tune``, in the warm-up only) to one acceptance rate, by the octave of the cluster's size.
    """
    theta, records, order, spare = state.theta, state.records, state.order, state.ints[N_SLOTS]
    first = 0
    for k in range(spare):
        last = first + int(state.counts[k])
        for scales in range(2):
            at = STEPS + N_BINS * scales + size_bin(state.counts[k])
            step, gain = exp(state.floats[at]), 0.0
            for j in range(kernel.n_features):
                kernel.perturb(rng, theta, k, spare, j, step * kernel.prior_spread(j) * (1 - scales), step * scales)
                gain += kernel.log_prior(theta, spare, j) - kernel.log_prior(theta, k, j)
            for r in range(first, last):
                gain += log_weight_gain(channel, kernel, Z, order[r], theta, k, spare, records)
            probability = exp(min(gain, 0.0))
            if rng.random() < probability:
                for r in range(first, last):
                    move_record(kernel, order[r], theta, k, spare, records)
                copy_params(theta, spare, k)
            if tune:
                tune_step(state.floats, TUNED + scales, at, probability, TARGET)
        first = last
