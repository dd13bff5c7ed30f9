"""Hamiltonian paths of the quantities that determine the moments of a regression.

A model has ``set_moments(point, moments, work)``, ``log_prior(point, work)``, ``set_force(point, slope, force, work)``,
``first_exit(point, velocity, normal)`` and ``number(point)``, and the fields ``design`` and ``known``, as
:class:`MomentRegression` has; the prior, and the noise at the release, decide.  The metric is that of the linearised
posterior, then that of draws in the warm-up.  The force may be anything that depends on the point alone: for noise it
is a wide difference quotient, which smooths the kink of Laplace noise.
"""

from math import exp, inf
from typing import NamedTuple

import numpy as np

from ..._base.compiled import helper
from ..._base.linear import add_square, factor, invert_triangle, multiply_lower, multiply_upper
from .._release_density import log_entry, log_release
from ._regression_number import hold_number

N_SWEEPS, PROPOSED, N_TUNED, N_COLLECTED, N_PATH_INTS = range(5)
ACCEPTED, LOG_STEP, N_FLOATS = range(3)
TARGET = 0.75  # acceptance rate that the step is adapted to
REACH, MOST_LONGER = 4.0, 3.0  # of the longest paths, in units of the metric; and how many times as many steps
N_STEPS = 20.0  # of a path at most; more if steps are so short that a path would lead nowhere
MOST_EDGES = 30  # that a step of a path may meet
APART = 0.25  # of the noise's standard deviation: half the difference that the force is taken over


class Paths(NamedTuple):
    """What a path needs of a chain; a state may have more."""

    point: np.ndarray  # (2, n_coordinates): where the chain is; a proposal
    moments: np.ndarray  # (2, n_statistics)
    vectors: np.ndarray  # (4, larger of these): momentum, force, slope; the point's mean in the warm-up
    metric: np.ndarray  # (n_coordinates, n_coordinates): lower factor of a covariance
    products: np.ndarray  # (n_coordinates, n_coordinates): about the mean, in the warm-up
    work: np.ndarray  # the model's scratch
    ints: np.ndarray
    floats: np.ndarray


@helper
def log_target(model, channel, counter, S, C, state, which):
    """Log density of a point, whose moments are written; -inf if it is impossible."""
    point, moments = state.point[which], state.moments[which]
    if not model.set_moments(point, moments, state.work):
        return -inf
    value = model.log_prior(point, state.work) + log_release(channel, S, moments)
    n = model.number(point)
    for r in range(C.shape[0]):
        value += counter.log_release(C, r, 0, n)
    return value


@helper
def set_force(sampler, model, channel, S, state):
    """Gradient of the log density at the proposal, in the metric's coordinates."""
    point, moments, metric = state.point[1], state.moments[1], state.metric
    force, slope = state.vectors[1], state.vectors[2]
    h = APART * sampler.sd
    for j in range(moments.size):
        slope[j] = (log_entry(channel, S, j, moments[j] + h) - log_entry(channel, S, j, moments[j] - h)) / (2.0 * h)
    model.set_force(point, slope, force, state.work)
    multiply_upper(metric, force, point.size)
    hold_number(model, metric, force)


@helper
def follow(rng, sampler, model, channel, counter, S, C, state, current, adapt, reach):
    """A path, of ``reach`` times the usual length.  Returns the log density of the point."""
    point, momentum, force = state.point, state.vectors[0], state.vectors[1]
    size = point.shape[1]
    step = exp(state.floats[LOG_STEP]) * (0.7 + 0.6 * rng.random())
    most = min(max(N_STEPS, REACH * exp(-state.floats[LOG_STEP])), MOST_LONGER * N_STEPS)
    n_steps = 1 + int(rng.random() * most * reach)
    energy = 0.0
    for a in range(size):
        momentum[a] = rng.standard_normal()
        point[1, a] = point[0, a]
    hold_number(model, state.metric, momentum)
    for a in range(size):
        energy -= 0.5 * momentum[a] * momentum[a]
    proposed = log_target(model, channel, counter, S, C, state, 1)
    set_force(sampler, model, channel, S, state)
    for _ in range(n_steps):
        for a in range(size):
            momentum[a] += 0.5 * step * force[a]
        proposed = -inf
        if drift(model, state, step):
            proposed = log_target(model, channel, counter, S, C, state, 1)
        if not proposed > -inf:
            break
        set_force(sampler, model, channel, S, state)
        for a in range(size):
            momentum[a] += 0.5 * step * force[a]
    for a in range(size):
        energy += 0.5 * momentum[a] * momentum[a]
    gain = proposed - current - energy
    probability = exp(min(gain, 0.0)) if gain > -inf else 0.0  # nan, too
    state.ints[PROPOSED] += 1
    state.floats[ACCEPTED] += probability
    if adapt:
        state.ints[N_TUNED] += 1
        state.floats[LOG_STEP] += max(state.ints[N_TUNED] ** -0.6, 0.01) * (probability - TARGET)
    if rng.random() >= probability:
        return current
    take(state)
    return proposed


@helper
def drift(model, state, time):
    """Move the proposal by its momentum, reflected where it meets an edge; False if it meets too many.

    As light is, in the metric's coordinates: that keeps volume and energy, and the way back is the same (Mohasel Afshar
    & Domke 2015, "Reflection, refraction, and Hamiltonian Monte Carlo").
    """
    point, momentum, normal, velocity = state.point[1], state.vectors[0], state.vectors[1], state.vectors[2]
    metric, size = state.metric, state.point.shape[1]
    for _ in range(MOST_EDGES):
        multiply_lower(metric, momentum, velocity, size)
        until = min(model.first_exit(point, velocity, normal), time)
        for a in range(size):
            point[a] += until * velocity[a]
        time -= until
        if not time > 0.0:
            return True
        multiply_upper(metric, normal, model.design)
        for b in range(model.design, size):
            normal[b] = 0.0
        hold_number(model, metric, normal)
        along, square = 0.0, 0.0
        for b in range(size):
            along += normal[b] * momentum[b]
            square += normal[b] * normal[b]
        for b in range(size):
            momentum[b] -= 2.0 * along / square * normal[b]
    return False


@helper
def take(state):
    """The proposal becomes the point."""
    for a in range(state.point.shape[1]):
        state.point[0, a] = state.point[1, a]
    for j in range(state.moments.shape[1]):
        state.moments[0, j] = state.moments[1, j]


@helper
def learn(sampler, state):
    """Collect the point's covariance, and make it the metric after a third and after two thirds of the warm-up."""
    point, mean, products, metric = state.point[0], state.vectors[3], state.products, state.metric
    size, sweep = point.size, state.ints[N_SWEEPS] + 1
    third = int(sampler.n_warmup / 3.0)
    if sweep <= third // 4:
        return
    state.ints[N_COLLECTED] += 1
    n = state.ints[N_COLLECTED]
    for a in range(size):
        gap = point[a] - mean[a]
        mean[a] += gap / n
        for b in range(a + 1):
            products[a, b] += gap * (point[b] - mean[b])
    if third == 0 or sweep % third != 0 or sweep > 2 * third or n < 10:
        return
    prior = float(size)  # draws that the metric so far is worth
    add_square(metric, prior, products, size)
    for a in range(size):
        for b in range(a + 1):
            products[a, b] /= n + prior
    factor(products, size)
    for a in range(size):
        mean[a] = 0.0
        for b in range(a + 1):
            metric[a, b] = products[a, b]
            products[a, b] = 0.0
    state.ints[N_COLLECTED] = 0
    state.ints[N_TUNED] = 10


@helper
def linearise(model, variance, paths):
    """Make the metric that of the posterior if moments were linear about the point, with noise of this ``variance``.

    ``model.width`` has the prior's widths.  The precision is R'R with a lower triangular R, and the metric R⁻¹.
    """
    point, moments, products, metric = paths.point, paths.moments[1], paths.products, paths.metric
    size = metric.shape[0]
    n_moments = min(moments.size, size)  # the others do not depend on the point
    for a in range(size):
        step = 1e-4 * model.width[a]
        for j in range(n_moments):
            products[a, j] = 0.0
        for way in range(2):
            slope = (1.0 - 2.0 * way) / (2.0 * step)
            for b in range(size):
                point[1, b] = point[0, b]
            point[1, a] += (1.0 - 2.0 * way) * step
            if model.set_moments(point[1], moments, paths.work):
                for j in range(n_moments):
                    products[a, j] += slope * moments[j]
    last = size - 1
    for a in range(size):
        for b in range(a + 1):
            value = 0.0
            for j in range(n_moments):
                value += products[last - a, j] * products[last - b, j]
            metric[a, b] = value / variance
        metric[a, a] += model.width[last - a] ** -2
    factor(metric, size)
    for a in range(size):
        for b in range(a + 1):
            products[a, b] = metric[last - b, last - a]
    invert_triangle(products, metric, size)
    for a in range(size):
        for b in range(size):
            products[a, b] = 0.0
