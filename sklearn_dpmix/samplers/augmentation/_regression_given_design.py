"""A linear regression given the design, from noisy moments: moves of the quantities that determine the moments.

The state is a point of :class:`MomentRegression`, which determines all moments.  A sweep makes these moves:

1. two Hamiltonian paths of the whole point, in which the moments change too; the prior, and the noise at the release,
   decide.  The metric is that of the linearised posterior, then that of draws in the warm-up.  It reflects what is held
   in place, by the noise if there is little of it and by the prior if there is much.  The force may be anything that
   depends on the point alone: for noise it is a wide difference quotient, which smooths the kink of Laplace noise.  A
   path is reflected at an edge of the possible G, and does not change the number of records, at whose steps it would
   break off;
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
from ..._base.linear import factor, multiply_lower, multiply_upper
from ..._base.restore import require, require_finite, require_range, same_layout
from .._release_density import log_entry, log_release
from ._carry import adapt_factor
from ._regression_number import hold_number, walk_number

N_SWEEPS, PROPOSED, N_TUNED, N_COLLECTED, N_INTS = 0, 1, 2, 3, 6
OF_STEP, OF_HELD = 2, 3  # where the integers that a walk is adapted by begin
ACCEPTED, LOG_STEP, N_FLOATS = 0, 1, 2
TARGET = 0.75  # acceptance rate that the step is adapted to
REACH, MOST_LONGER = 4.0, 3.0  # of the longest paths, in units of the metric; and how many times as many steps
MOST_TURNS = 10
MOST_EDGES = 30  # that a step of a path may meet
APART = 0.25  # of the noise's standard deviation: half the difference that the force is taken over


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
    require_sweeps(state, n_sweeps)
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


def require_sweeps(state, n_sweeps):
    """Raise if the counts of a state are not those of a chain after that many sweeps."""
    require(state.ints[N_SWEEPS] == n_sweeps, "ints", f"says {state.ints[N_SWEEPS]} sweeps, not {n_sweeps}")
    require_range(0, 2**62, ints=state.ints)


class MomentsSampler(Component):
    """Sampler of :class:`MomentRegression`.

    Parameters
    ----------
    sd : float
        Standard deviation of the noise.
    n_warmup : int
        Sweeps that adapt.
    n_walks : int
        Steps of either random walk in a sweep.
    n_steps : int
        Largest number of steps of a path; more if steps are so short that a path would lead nowhere.
    n_paths : int
        Paths in a sweep.
    """

    def __init__(self, sd, n_warmup, n_walks=8, n_steps=20, n_paths=2):
        self.sd = sd
        self.n_warmup = n_warmup
        self.n_walks = n_walks
        self.n_steps = n_steps
        self.n_paths = n_paths

    @compiled
    def sweep(self, model, channel, counter, S, C, state, rng, warming_up):
        current = log_target(model, channel, counter, S, C, state, 0)
        for _ in range(int(self.n_paths)):
            current = follow(rng, self, model, channel, counter, S, C, state, current, warming_up)
        current = turn(rng, model, channel, counter, S, C, state, current)
        current = rescale(rng, model, channel, counter, S, C, state, current)
        current = walk_design(rng, self, model, channel, counter, S, C, state, current, warming_up)
        if model.known == 0.0:
            walk_number(rng, int(self.n_walks), model, counter, C, state)
        walk_given_products(rng, self, model, channel, S, state, warming_up)
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
def follow(rng, sampler, model, channel, counter, S, C, state, current, adapt):
    """Step 1.  Returns the log density of the point."""
    point, momentum, force = state.point, state.vectors[0], state.vectors[1]
    size = point.shape[1]
    step = exp(state.floats[LOG_STEP]) * (0.7 + 0.6 * rng.random())
    most = min(max(sampler.n_steps, REACH * exp(-state.floats[LOG_STEP])), MOST_LONGER * sampler.n_steps)
    n_steps = 1 + int(rng.random() * most)
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
def walk_design(rng, sampler, model, channel, counter, S, C, state, current, adapt):
    """Step 3: a random walk of L.  Returns the log density of the point."""
    point, step, direction, gap, size = state.point, state.step, state.vectors[0], state.vectors[1], model.design
    for _ in range(int(sampler.n_walks)):
        for a in range(size):
            direction[a] = rng.standard_normal()
        multiply_lower(step, direction, gap, size)
        for a in range(point.shape[1]):
            point[1, a] = point[0, a]
        for a in range(size):
            point[1, a] += gap[a]
        proposed = log_target(model, channel, counter, S, C, state, 1)
        if adapt:
            adapt_factor(step, direction, size, exp(min(proposed - current, 0.0)), state.ints[OF_STEP:])
        if rng.standard_exponential() > -(proposed - current):
            take(state)
            current = proposed
    return current


@helper
def walk_given_products(rng, sampler, model, channel, S, state, adapt):
    """Step 3: a random walk of L, b, q and τ held and γ integrated out; γ must be drawn next."""
    point, moments, size = state.point, state.moments, model.design
    direction, gap = state.vectors[0], state.vectors[1]
    for j in range(moments.shape[1]):
        moments[1, j] = moments[0, j]
    for a in range(point.shape[1]):
        point[1, a] = point[0, a]
    current = log_given_products(model, channel, S, state, 0)
    for _ in range(int(sampler.n_walks)):
        for a in range(size):
            direction[a] = rng.standard_normal()
        multiply_lower(state.held, direction, gap, size)
        for a in range(size):
            point[1, a] = point[0, a] + gap[a]
        proposed = log_given_products(model, channel, S, state, 1)
        if adapt:
            adapt_factor(state.held, direction, size, exp(min(proposed - current, 0.0)), state.ints[OF_HELD:])
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
    for a in range(size):
        for b in range(a + 1):
            old = 0.0
            for r in range(b + 1):
                old += metric[a, r] * metric[b, r]
            products[a, b] = (products[a, b] + prior * old) / (n + prior)
    factor(products, size)
    for a in range(size):
        mean[a] = 0.0
        for b in range(a + 1):
            metric[a, b] = products[a, b]
            products[a, b] = 0.0
    state.ints[N_COLLECTED] = 0
    state.ints[N_TUNED] = 10
