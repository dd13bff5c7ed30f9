"""A linear regression given the design, from noisy moments: moves of the quantities that determine the moments.

The state is a point of :class:`MomentRegression`, which determines all moments.  A sweep makes these moves:

1. two Hamiltonian paths of the whole point, in which the moments change too; the prior, and the noise at the release,
   decide (``_regression_paths``).  The metric reflects what is held in place, by the noise if there is little of it and
   by the prior if there is much.  A path is reflected at an edge of the possible G, and does not change the number of
   records, at whose steps it would break off;
2. ε and z by elliptical slice sampling (Murray, Adams & MacKay 2010), τ by steps of many sizes, q from its prior: free
   under much noise, as no edge of the possible G is in the way;
3. a random walk of L with everything else held, so that b and c change too, and one with b, q and τ held and γ
   integrated out, which is the only move that gets into and out of designs that are nearly singular;
4. if n is unknown, a random walk of it with all released moments held and γ integrated out;
5. γ, then τ, given the moments, both conjugate; the moments do not change, and the rest of the point does.  Free under
   little noise.

A sweep costs the same for any number of records.
"""

from math import cos, exp, inf, log, pi, sin, sqrt
from typing import NamedTuple

import numpy as np

from ..._base.compiled import Component, compiled, helper
from ..._base.linear import multiply_lower
from ..._base.restore import require, require_finite, require_range, require_sweeps, same_layout
from .._release_density import log_release
from ._carry import adapt_factor
from ._regression_number import walk_number
from ._regression_paths import ACCEPTED, LOG_STEP, N_PATH_INTS, N_SWEEPS, PROPOSED, follow, learn, log_target, take

OF_STEP, OF_HELD, N_INTS = range(N_PATH_INTS, N_PATH_INTS + 3)  # steps that either walk was adapted by
N_PATHS, N_WALKS = 2, 8  # in a sweep: paths, and steps of either random walk
MOST_TURNS = 10


class MomentsState(NamedTuple):
    """All of a chain except its random generator: arrays that a sweep changes in place."""

    point: np.ndarray  # (2, n_coordinates): where the chain is; a proposal
    moments: np.ndarray  # (2, n_statistics)
    vectors: np.ndarray  # (4, larger of these): momentum, force, slope; the point's mean in the warm-up
    metric: np.ndarray  # (n_coordinates, n_coordinates): lower factor of a covariance
    products: np.ndarray  # (n_coordinates, n_coordinates): about the mean, in the warm-up
    step: np.ndarray  # (n_design, n_design): lower factor of the random walk of L
    held: np.ndarray  # the same, with b held
    work: np.ndarray  # (2 d + 3, d)
    ints: np.ndarray
    floats: np.ndarray


def restored_moments(model, state, fresh, n_sweeps):
    """Return a state read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._base.restore`).

    ``model`` is the component's value, which says what the moments of the point are.
    """
    state = same_layout(fresh, state)
    require_counts(state, n_sweeps)
    require_finite(point=state.point, moments=state.moments, vectors=state.vectors, products=state.products)
    for name in ("metric", "step", "held"):
        require_finite(**{name: getattr(state, name)})
        require(np.diagonal(getattr(state, name)) > 0, name, "is a factor that is not positive")
    require_range(0.0, state.ints[PROPOSED], floats=state.floats[ACCEPTED])
    require_range(-50.0, 50.0, floats=state.floats[LOG_STEP])
    moments = np.zeros_like(state.moments[0])
    require(model.set_moments(state.point[0], moments, np.zeros_like(state.work)), "point", "has no moments")
    if n_sweeps:
        is_same = np.abs(state.moments[0] - moments) <= 1e-6 * (model.number(state.point[0]) + np.abs(moments))
        require(is_same, "moments", "are not those of the point")
    return state


def require_counts(state, n_sweeps):
    """Raise if the counts of a state are not those of a chain after that many sweeps."""
    require_sweeps(state.ints[N_SWEEPS], n_sweeps)
    require_range(0, 2**62, ints=state.ints)


class MomentsSampler(Component):
    """Sampler of :class:`MomentRegression`.

    Parameters
    ----------
    sd : float
        Standard deviation of the noise.
    n_warmup : int
        Sweeps that adapt.
    """

    def __init__(self, sd, n_warmup):
        self.sd = sd
        self.n_warmup = n_warmup

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        current = log_target(model, channel, counter, S, C, state, 0)
        for _ in range(N_PATHS):
            current = follow(rng, self, model, channel, counter, S, C, state, current, warming_up, 1.0)
        current = turn(rng, model, channel, counter, S, C, state, current)
        current = rescale(rng, model, channel, counter, S, C, state, current)
        current = walk_design(rng, model, channel, counter, S, C, state, current, warming_up)
        if model.known == 0.0:
            walk_number(rng, N_WALKS, model, counter, C, state)
        walk_given_products(rng, model, channel, S, state, warming_up)
        model.update_given_moments(rng, state.point[0], state.work)
        if warming_up:
            learn(self, state)

    @compiled
    def keep(self, model, state, rng, draws, row):
        d = model.d
        for a in range(d):
            draws.theta[row, a] = state.work[d, a]
        draws.theta[row, d] = model.tau(state.point[0])
        for j in range(draws.statistic.shape[1]):
            draws.statistic[row, j] = state.moments[0, j]
        draws.n_records[row] = model.number(state.point[0])


@helper
def turn(rng, model, channel, counter, S, C, state, current):
    """Step 2: elliptical slice sampling of ε and z.  Returns the log density of the point.

    It gives up after some shrinking, which is reversible: the way back is as long.
    """
    point, other, first = state.point, state.vectors[0], model.design
    lost = -rng.standard_exponential()  # of the density, ε and z's own apart
    for a in range(2 * model.d):
        lost += 0.5 * point[0, first + a] ** 2
    for a in range(point.shape[1]):
        point[1, a] = point[0, a]
    for a in range(2 * model.d):
        other[a] = rng.standard_normal()
    angle = 2.0 * pi * rng.random()
    low, high = angle - 2.0 * pi, angle
    for _ in range(MOST_TURNS):
        for a in range(2 * model.d):
            point[1, first + a] = cos(angle) * point[0, first + a] + sin(angle) * other[a]
        proposed = log_target(model, channel, counter, S, C, state, 1)
        gain = proposed - current
        for a in range(2 * model.d):
            gain += 0.5 * point[1, first + a] ** 2
        if gain > lost:
            take(state)
            return proposed
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * rng.random()
    return current


@helper
def rescale(rng, model, channel, counter, S, C, state, current):
    """Step 2: τ, and n, by steps of many sizes, q from its prior.  Returns the log density of the point.

    With n go all coordinates as the metric has them go.
    """
    point, metric, at = state.point, state.metric, model.design + 2 * model.d
    last = point.shape[1] - 1
    for i in range(4 if model.known > 0.0 else 10):
        for a in range(point.shape[1]):
            point[1, a] = point[0, a]
        ratio = 0.0
        if i >= 4:
            length = 0.0
            for b in range(last + 1):
                length += metric[last, b] ** 2
            size = exp(1.0 - 2.0 * rng.random()) * rng.standard_normal() / sqrt(length)
            for a in range(last + 1):
                for b in range(a + 1):
                    point[1, a] += size * metric[a, b] * metric[last, b]
        elif i % 2 == 0:
            if model.sigma > 0.0:
                continue
            point[1, at + 1] += exp(1.0 - 5.0 * rng.random()) * rng.standard_normal()
        else:
            half = 0.5 * model.degrees(model.number(point[0]))
            old, new = point[0, at], log(2.0 * rng.standard_gamma(half))
            point[1, at] = new
            ratio = half * (old - new) - 0.5 * (exp(old) - exp(new))
        proposed = log_target(model, channel, counter, S, C, state, 1)
        if rng.standard_exponential() > -(proposed - current + ratio):
            take(state)
            current = proposed
    return current


@helper
def walk_design(rng, model, channel, counter, S, C, state, current, adapt):
    """Step 3: a random walk of L.  Returns the log density of the point."""
    point, step, direction, gap, size = state.point, state.step, state.vectors[0], state.vectors[1], model.design
    for _ in range(N_WALKS):
        for a in range(size):
            direction[a] = rng.standard_normal()
        multiply_lower(step, direction, gap, size)
        for a in range(point.shape[1]):
            point[1, a] = point[0, a]
        for a in range(size):
            point[1, a] += gap[a]
        proposed = log_target(model, channel, counter, S, C, state, 1)
        if adapt:
            adapt_factor(step, direction, size, exp(min(proposed - current, 0.0)), state.ints, OF_STEP)
        if rng.standard_exponential() > -(proposed - current):
            take(state)
            current = proposed
    return current


@helper
def walk_given_products(rng, model, channel, S, state, adapt):
    """Step 3: a random walk of L, b, q and τ held and γ integrated out; γ must be drawn next."""
    point, moments, size = state.point, state.moments, model.design
    direction, gap = state.vectors[0], state.vectors[1]
    for j in range(moments.shape[1]):
        moments[1, j] = moments[0, j]
    for a in range(point.shape[1]):
        point[1, a] = point[0, a]
    current = log_given_products(model, channel, S, state, 0)
    for _ in range(N_WALKS):
        for a in range(size):
            direction[a] = rng.standard_normal()
        multiply_lower(state.held, direction, gap, size)
        for a in range(size):
            point[1, a] = point[0, a] + gap[a]
        proposed = log_given_products(model, channel, S, state, 1)
        if adapt:
            adapt_factor(state.held, direction, size, exp(min(proposed - current, 0.0)), state.ints, OF_HELD)
        if rng.standard_exponential() > -(proposed - current):
            take(state)
            current = proposed
    # L and w in ``work`` are the last proposal's
    log_given_products(model, channel, S, state, 0)


@helper
def log_given_products(model, channel, S, state, which):
    """Log density of L given b, q and τ, γ integrated out; -inf if it is impossible."""
    value = model.log_design(state.point[which], state.moments[which], state.work)
    return value + log_release(channel, S, state.moments[which]) if value > -inf else value
