"""Non-centred moves of a cluster's parameters (DESIGN 2.2): the residuals e_i = (y_i - μ)/σ stay, (μ, σ) and so y move.

Given the residuals, the likelihood f(y | θ) does not change, so the acceptance ratio has the channel and the prior
only: Σ_i [log q(z_i | y_i') - log q(z_i | y_i)] + log G0(θ') - log G0(θ), in coordinates in which the step is
symmetric.
"""

from math import exp, log

from .._compiled import helper
from ._state import N_SLOTS, copy_params

TARGET = 0.35
GAIN, ACCEPT = 0, 1  # rows of ``state.work``
# floats: how often each step was tuned; log step of the mean, then of the scale, for clusters of 2^b..2^(b+1) records
N_BINS = 32
TUNED, STEPS = 8, 16


@helper
def size_bin(count):
    """Octave of a cluster's size."""
    return min(int(log(count) * 1.4426950408889634), N_BINS - 1)


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
def noncentred_move(rng, channel, kernel, Z, state, which, tune):
    """Move the means (``which`` 0) or the scales (1) of all clusters, each accepted on its own.

    Proposals stand in rows ``N_SLOTS + k`` of ``theta``, which must have room.  Step sizes are tuned (``tune``, in the
    warm-up only) to one acceptance rate, by the octave of the cluster's size.
    """
    alloc, theta, work, records = state.alloc, state.theta, state.work, state.records
    n_slots = state.ints[N_SLOTS]
    steps = STEPS + N_BINS * which
    for k in range(n_slots):
        if state.counts[k] > 0.0:
            step = exp(state.floats[steps + size_bin(state.counts[k])])
            gain = 0.0
            for j in range(kernel.n_features):
                spread = kernel.prior_spread(j)
                kernel.perturb(rng, theta, k, n_slots + k, j, step * spread * (1 - which), step * which)
                gain += kernel.log_prior(theta, n_slots + k, j) - kernel.log_prior(theta, k, j)
            work[GAIN, k] = gain
    for i in range(alloc.size):
        k = alloc[i]
        work[GAIN, k] += log_weight_gain(channel, kernel, Z, i, theta, k, n_slots + k, records)
    any_accepted = False
    for k in range(n_slots):
        work[ACCEPT, k] = 0.0
        if state.counts[k] > 0.0:
            probability = exp(min(work[GAIN, k], 0.0))
            if rng.random() < probability:
                work[ACCEPT, k] = 1.0
                any_accepted = True
            if tune:
                state.floats[TUNED + which] += 1.0
                rate = max(0.02, (1.0 + 0.1 * state.floats[TUNED + which]) ** -0.6)
                b = steps + size_bin(state.counts[k])
                state.floats[b] = min(max(state.floats[b] + rate * (probability - TARGET), -20.0), 3.0)
    if any_accepted:
        for i in range(alloc.size):
            k = alloc[i]
            if work[ACCEPT, k] > 0.0:
                move_record(kernel, i, theta, k, n_slots + k, records)
        for k in range(n_slots):
            if work[ACCEPT, k] > 0.0:
                copy_params(theta, n_slots + k, k)
