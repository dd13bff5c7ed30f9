"""Non-centred moves of a cluster's parameters: the residuals e_i = (y_i - μ)/σ stay, (μ, σ) and so y move.

Given the residuals, the likelihood f(y | θ) does not change, so the acceptance ratio has the channel and the prior
only: Σ_i [log q(z_i | y_i') - log q(z_i | y_i)] + log G0(θ') - log G0(θ), in coordinates in which the step is
symmetric.
"""

from math import exp, inf

from ...._base.compiled import helper
from .._places import MOVES_STEPS, MOVES_TUNED, N_BINS, N_SLOTS
from .._state import copy_params, fill_cache, size_bin, tune_step

TARGET = 0.35


@helper
def noncentred_moves(sampler, rng, channel, kernel, Z, state, tune):
    """Move the means, then the scales, of each cluster; needs ``order`` sorted by cluster, and a spare slot.

    What goes with the parameters is the sampler's: ``shift`` (records ``order[first:last]``, from one slot's parameters
    to another's, giving the change of the target's logarithm), then ``keep`` or ``undo``.  Step sizes are tuned
    (``tune``, in the warm-up only) to one acceptance rate, by the octave of the cluster's size.
    """
    theta, spare = state.theta, state.ints[N_SLOTS]
    first = 0
    for k in range(spare):
        last = first + int(state.counts[k])
        for scales in range(2):
            at = MOVES_STEPS + N_BINS * scales + size_bin(state.counts[k])
            step = exp(state.floats[at])
            kernel.perturb_cluster(rng, theta, k, spare, step * (1 - scales), step * scales)
            gain = kernel.log_prior_change(theta, k, spare)
            is_possible = gain > -inf
            if is_possible:
                fill_cache(channel, kernel, theta, spare)
                gain += sampler.shift(rng, channel, kernel, Z, state, first, last, k, spare)
            probability = exp(min(gain, 0.0))
            if rng.random() < probability:
                sampler.keep(channel, kernel, Z, state, first, last, k, spare)
                copy_params(theta, spare, k)
            elif is_possible:
                sampler.undo(channel, Z, state, first, last)
            if tune:
                tune_step(state.floats, MOVES_TUNED + scales, at, probability, TARGET)
        first = last
