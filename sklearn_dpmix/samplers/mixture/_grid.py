"""A mixture's likelihood on a grid of releases, and moves of the mixture by it: what ``Surrogate`` walks on.

Its state is a number K of components, their weights w, which sum to one, and their parameters θ.  Its target is

    H(K, w, θ) Π_b (Σ_k w_k g(node_b | θ_k))^mass_b,   H = urn(K) Γ(n - dK)/Γ(1 - d)^K Π_k w_k^(-1 - d) G0(θ_k)

with n the records of these components and d the discount: given memberships, w is Dirichlet(n_k - d), and with w
integrated out H becomes the urn's law of the partition.  ``mass`` shares each release between the four nodes around it.
"""

from math import exp, inf, lgamma, log
from typing import NamedTuple

import numpy as np

from ..._base.compiled import helper
from ._state import copy_params, fill_cache
from .moves._split_merge import NEAR

MOST = 48  # components
SPARE = MOST  # the row that a move writes to
FAR = 0.3  # share of splits whose new parameters are from the base measure
PERTURB, TRANSFER = 0.4, 0.75  # moves up to here, of a uniform number; beyond, splits and merges
WIDEST, DECADES = 1.5, 3.0  # of the random walk of weights: its largest step, and e-folds down to its smallest


class Fixed(NamedTuple):
    """What a walk leaves alone."""

    n: float  # records of these components
    n_others: int  # clusters that take no part
    least: float  # a weight's least value
    concentration: float


class Grid(NamedTuple):
    """Arrays of a walk, rows of ``params`` and ``density`` by component."""

    nodes: np.ndarray  # (n_nodes, 1)
    mass: np.ndarray  # (n_nodes,): releases near each
    density: np.ndarray  # (MOST + 1, n_nodes): g(node | θ_k)
    mix: np.ndarray  # (n_nodes,): that of the mixture last looked at
    params: np.ndarray  # (MOST + 1, n_params), column-major
    weights: np.ndarray  # (MOST + 1,)
    trial: np.ndarray  # (MOST + 1,): the weights of a proposal


@helper
def fill_density(channel, kernel, grid, k):
    """g of component k at the nodes."""
    fill_cache(channel, kernel, grid.params, k)
    for b in range(grid.mass.size):
        grid.density[k, b] = exp(channel.log_marginal(kernel, grid.nodes, b, 0, grid.params, k))


@helper
def log_surrogate(grid, weights, n_components):
    """Log likelihood on the grid, the spare row included; fills ``mix``."""
    mix, density, total = grid.mix, grid.density, 0.0
    for b in range(mix.size):
        mix[b] = weights[SPARE] * density[SPARE, b] if weights[SPARE] > 0.0 else 0.0
    for k in range(n_components):
        weight = weights[k]
        if weight > 0.0:
            for b in range(mix.size):
                mix[b] += weight * density[k, b]
    for b in range(mix.size):
        total += grid.mass[b] * log(mix[b]) if mix[b] > 0.0 else -inf
    return total


@helper
def copy_component(grid, source, to):
    """Copy a component's parameters and densities to another row."""
    copy_params(grid.params, source, to)
    for b in range(grid.mass.size):
        grid.density[to, b] = grid.density[source, b]


@helper
def walk(rng, channel, kernel, mixing, grid, fixed, n_moves, n_components):
    """``n_moves`` moves, each reversible.  Returns (components, log surrogate)."""
    now = log_surrogate(grid, grid.weights, n_components)
    for _ in range(n_moves):
        for k in range(n_components):
            grid.trial[k] = grid.weights[k]
        grid.trial[SPARE] = 0.0
        u = rng.random()
        if u < PERTURB:
            now = try_perturb(rng, channel, kernel, grid, fixed, n_components, now)
        elif u < TRANSFER:
            now = try_transfer(rng, mixing, grid, fixed, n_components, now)
        elif rng.random() < 0.5:
            n_components, now = try_split(rng, channel, kernel, mixing, grid, fixed, n_components, now)
        else:
            n_components, now = try_merge(rng, kernel, mixing, grid, fixed, n_components, now)
    return n_components, now


@helper
def draw_component(rng, n):
    """One of n, each with the same probability."""
    return min(int(rng.random() * n), n - 1)


@helper
def try_perturb(rng, channel, kernel, grid, fixed, n_components, now):
    """A random walk of a component's location, spread or both, its step any between a vague and a known cluster's."""
    k = draw_component(rng, n_components)
    step, which = exp(-0.5 * rng.random() * log(max(grid.weights[k] * fixed.n, 2.0))), rng.random()
    location = step * kernel.prior_spread(0) if which < 0.67 else 0.0
    spread = step if which > 0.33 else 0.0
    kernel.perturb(rng, grid.params, k, SPARE, 0, location, spread)
    gain = kernel.log_prior(grid.params, SPARE, 0) - kernel.log_prior(grid.params, k, 0)
    if gain > -inf:
        fill_density(channel, kernel, grid, SPARE)
        grid.trial[SPARE], grid.trial[k] = grid.weights[k], 0.0
        then = log_surrogate(grid, grid.trial, n_components)
        if log(1.0 - rng.random()) < then - now + gain:
            copy_component(grid, SPARE, k)
            now = then
    return now


@helper
def try_transfer(rng, mixing, grid, fixed, n_components, now):
    """Weight from one component to another, by a random walk of x = log(w_j/w_k); dw_j is w_j w_k/(w_j + w_k) dx."""
    if n_components > 1:
        j, k = draw_component(rng, n_components), draw_component(rng, n_components - 1)
        if k >= j:
            k += 1
        old, other = grid.weights[j], grid.weights[k]
        total = old + other
        x = log(old / other) + WIDEST * exp(-DECADES * rng.random()) * rng.standard_normal()
        new = total / (1.0 + exp(-x))
        if new >= fixed.least and total - new >= fixed.least:
            grid.trial[j], grid.trial[k] = new, total - new
            then = log_surrogate(grid, grid.trial, n_components)
            gain = -mixing.discount * log(new * (total - new) / (old * other))
            if log(1.0 - rng.random()) < then - now + gain:
                grid.weights[j], grid.weights[k] = new, total - new
                now = then
    return now


@helper
def log_split(kernel, mixing, grid, fixed, n_components, k, new, weight, part):
    """Log ratio of H, and of the proposals back and forth, where component k gives ``part`` of ``weight`` to ``new``.

    A split chooses one of K components, a part that is log-uniform, and parameters near k's or from the base measure; a
    merge one of (K + 1) K ordered pairs.
    """
    d = mixing.discount
    fresh = mixing.fresh_weight(fixed.concentration, fixed.n_others + n_components)
    if fresh <= 0.0:
        return -inf
    left = fixed.n - d * n_components
    gain = log(fresh) + lgamma(left - d) - lgamma(left) - lgamma(1.0 - d)
    gain += (1.0 + d) * log(weight / ((weight - part) * part))
    prior, spread = kernel.log_prior(grid.params, new, 0), NEAR * kernel.prior_spread(0)
    near = kernel.log_perturb(grid.params, k, new, 0, spread, NEAR)
    gain += prior - log(FAR * exp(prior) + (1.0 - FAR) * exp(near))
    return gain + log(part * log((weight - fixed.least) / fixed.least)) - log(n_components + 1.0)


@helper
def try_split(rng, channel, kernel, mixing, grid, fixed, n_components, now):
    """A part of a component becomes one of its own."""
    k = draw_component(rng, n_components)
    weight = grid.weights[k]
    if n_components < MOST - 1 and weight > 2.0 * fixed.least:
        part = fixed.least * exp(rng.random() * log((weight - fixed.least) / fixed.least))
        if rng.random() < FAR:
            kernel.draw_prior(rng, grid.params, SPARE)
        else:
            kernel.perturb(rng, grid.params, k, SPARE, 0, NEAR * kernel.prior_spread(0), NEAR)
        gain = log_split(kernel, mixing, grid, fixed, n_components, k, SPARE, weight, part)
        if gain > -inf:
            fill_density(channel, kernel, grid, SPARE)
            grid.trial[k], grid.trial[SPARE] = weight - part, part
            then = log_surrogate(grid, grid.trial, n_components)
            if log(1.0 - rng.random()) < then - now + gain:
                copy_component(grid, SPARE, n_components)
                grid.weights[k], grid.weights[n_components] = weight - part, part
                n_components, now = n_components + 1, then
    return n_components, now


@helper
def try_merge(rng, kernel, mixing, grid, fixed, n_components, now):
    """A component is given to another: the reverse of :func:`try_split`."""
    if n_components > 1:
        k, gone = draw_component(rng, n_components), draw_component(rng, n_components - 1)
        if gone >= k:
            gone += 1
        part, last = grid.weights[gone], n_components - 1
        weight = grid.weights[k] + part
        gain = -log_split(kernel, mixing, grid, fixed, last, k, gone, weight, part)
        grid.trial[k], grid.trial[gone] = weight, 0.0
        then = log_surrogate(grid, grid.trial, n_components)
        if log(1.0 - rng.random()) < then - now + gain:
            grid.weights[k] = weight
            grid.weights[gone] = grid.weights[last]
            copy_component(grid, last, gone)
            n_components, now = last, then
    return n_components, now
