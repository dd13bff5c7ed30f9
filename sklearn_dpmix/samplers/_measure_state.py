"""The state of a walk over mixing measures, and what all of its moves do.

The Dirichlet process is a gamma process divided by its sum S: atoms (J, θ) of a Poisson process with intensity
α J⁻¹ e⁻ᴶ dJ G0(dθ) have weights J/S.  S is independent of the weights, so that its law may be chosen: it is tilted by
S^``TILT`` e^(-``TILT`` S), which keeps it near 1.  Atoms above a cut are walked over, one by one; those below, the
dust, are drawn anew as a whole.  Allocations and confidential records are integrated out.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from .._compiled import helper, sums_helper
from .._restore import require, require_finite, require_range, same_layout
from .._vector import log_positive

# ints
N_ATOMS, N_DUST, N_SWEEPS = range(3)
# law
CONCENTRATION, TOTAL, LOG_LIKELIHOOD, N_RECORDS, CUT, CENTRE, REACH, NEAR, BASE = range(9)
N_LAW = 9

TILT = 20.0
LARGEST = 20.0  # of an atom's J: more has probability e^-300
DUST_RANGE = 5.0  # the dust's atoms are from the cut down to e^-5 of it
LEAST_DENSITY = 1e-300
HALF_LOG_2PI = 0.9189385332046727


class MeasureState(NamedTuple):
    """All of a chain but its random generator."""

    mass: np.ndarray  # (capacity,): J of each atom
    place: np.ndarray  # (capacity, 2): its mean and log variance
    dust_mass: np.ndarray  # (capacity,)
    dust_place: np.ndarray  # (capacity, 2)
    ints: np.ndarray
    floats: np.ndarray  # (1,): the concentration

    def restored(self, fresh, n_sweeps):
        """Return this state, read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._restore`)."""
        while fresh.mass.size < self.mass.size and fresh.mass.size < MAX_ATOMS:
            fresh = grow(fresh)
        state = same_layout(fresh, self)
        n, n_dust = state.ints[N_ATOMS], state.ints[N_DUST]
        require(state.ints[N_SWEEPS] == n_sweeps, "ints", f"says {state.ints[N_SWEEPS]} sweeps, not {n_sweeps}")
        require_range(1, state.mass.size - 1, ints=n)
        require_range(0, state.mass.size - 1, ints=n_dust)
        require_finite(place=state.place, dust_place=state.dust_place, mass=state.mass, dust_mass=state.dust_mass)
        require_range(-600.0, 600.0, place=state.place[:n, 1], dust_place=state.dust_place[:n_dust, 1])
        require_range(0.0, MAX_ATOMS, floats=state.floats)  # with as many atoms a concentration is less than that
        return state


MAX_ATOMS = 2**14


def new_state(capacity=64):
    """Return a state without atoms."""
    return MeasureState(
        mass=np.zeros(capacity),
        place=np.zeros((capacity, 2)),
        dust_mass=np.zeros(capacity),
        dust_place=np.zeros((capacity, 2)),
        ints=np.zeros(3, np.int64),
        floats=np.ones(1),
    )


def grow(state):
    """Return the state with twice the room."""
    arrays = {name: np.concatenate([part, np.zeros_like(part)]) for name, part in state._asdict().items()}
    return state._replace(**{name: arrays[name] for name in ("mass", "place", "dust_mass", "dust_place")})


class Walk(NamedTuple):
    """A chain's state with what its moves look up and write to; made anew for each block of sweeps."""

    mass: np.ndarray
    place: np.ndarray
    dust_mass: np.ndarray
    dust_place: np.ndarray
    ints: np.ndarray
    law: np.ndarray
    nodes: np.ndarray  # (2, nodes): places and weights
    roots: np.ndarray  # (nodes,): roots of the weights
    ends: np.ndarray  # (2, nodes): densities of the noise given a record at either bound
    table: np.ndarray  # (capacity, 3, nodes): g of each atom and its derivatives
    dust_table: np.ndarray  # the same of the dust
    mix: np.ndarray  # (nodes,): Σ J g over all atoms
    trial: np.ndarray  # (nodes,): that of a proposal
    spare: np.ndarray  # (2, 3, nodes): table of a proposal's atoms
    score: np.ndarray  # (7, nodes)
    metric: np.ndarray  # (6, 6)
    vectors: np.ndarray  # (3, 6): gradient, step, scratch
    pair: np.ndarray  # (2, 3): log J, mean and log variance of a proposal's atoms
    chosen: np.ndarray  # (2 capacity,) int64


def make_walk(state, nodes, ends, law):
    """Return the walk of a state; ``nodes`` of shape (2, nodes)."""
    capacity, size = state.mass.size, nodes.shape[1]
    law = law.copy()
    law[CONCENTRATION] = state.floats[0]
    return Walk(
        *state[:5],
        law=law,
        nodes=nodes,
        roots=np.sqrt(nodes[1]),
        ends=ends,
        table=np.empty((capacity, 3, size)),
        dust_table=np.empty((capacity, 3, size)),
        mix=np.empty(size),
        trial=np.empty(size),
        spare=np.empty((2, 3, size)),
        score=np.empty((7, size)),
        metric=np.empty((6, 6)),
        vectors=np.empty((3, 6)),
        pair=np.empty((2, 3)),
        chosen=np.zeros(2 * capacity, np.int64),
    )


# --- compiled --------------------------------------------------------------------------------------------------------


@helper
def log_base(kernel, walk, mean, log_variance):
    """Log density of G0 in the coordinates (μ, log σ²)."""
    d, precision = mean - kernel.prior_mean[0], kernel.precision[0]
    pull = (kernel.prior_scale[0] + 0.5 * precision * d * d) * exp(-log_variance)
    return walk.law[BASE] - (kernel.prior_shape[0] + 0.5) * log_variance - pull


@helper
def draw_base(rng, kernel, place, k):
    """Draw an atom's place from G0."""
    variance = kernel.prior_scale[0] / rng.standard_gamma(kernel.prior_shape[0])
    place[k, 0] = kernel.prior_mean[0] + (variance / kernel.precision[0]) ** 0.5 * rng.standard_normal()
    place[k, 1] = log(variance)


@helper
def log_tilt(total):
    """Log density of S beyond the Poisson process of the J without e^-J."""
    return TILT * log(total) - (TILT + 1.0) * total


@helper
def accepts(rng, log_ratio):
    """Whether a proposal is accepted."""
    return log(1.0 - rng.random()) < log_ratio


@helper
def draw_poisson(rng, rate):
    """A Poisson number, by the waiting times of its process."""
    n, time = 0, rng.standard_exponential()
    while time < rate:
        n += 1
        time += rng.standard_exponential()
    return n


@sums_helper
def log_likelihood(walk, density, total):
    """Σ_m ω_m log f(x_m) of the mixture with these densities at the nodes, not yet divided by S."""
    weights, value = walk.nodes[1], 0.0
    for m in range(weights.size):
        value += weights[m] * log_positive(max(density[m], LEAST_DENSITY))
    return value - walk.law[N_RECORDS] * log(total)


@sums_helper
def try_one(walk, c, g, total):
    """The log likelihood with c·g added to the mixture, which is written into ``trial``."""
    weights, mix, trial, value = walk.nodes[1], walk.mix, walk.trial, 0.0
    for m in range(weights.size):
        density = mix[m] + c * g[m]
        trial[m] = density
        value += weights[m] * log_positive(max(density, LEAST_DENSITY))
    return value - walk.law[N_RECORDS] * log(total)


@sums_helper
def try_three(walk, c, g, c2, g2, c3, g3):
    """The same with three such terms, which leave the total as it is."""
    weights, mix, trial, value = walk.nodes[1], walk.mix, walk.trial, 0.0
    for m in range(weights.size):
        density = mix[m] + c * g[m] + c2 * g2[m] + c3 * g3[m]
        trial[m] = density
        value += weights[m] * log_positive(max(density, LEAST_DENSITY))
    return value - walk.law[N_RECORDS] * log(walk.law[TOTAL])


@helper
def copy_to(target, source):
    for m in range(target.size):
        target[m] = source[m]


@helper
def keep_trial(walk, total, value):
    """Take the proposed mixture for the present one."""
    copy_to(walk.mix, walk.trial)
    walk.law[TOTAL], walk.law[LOG_LIKELIHOOD] = total, value


@helper
def add_to(target, c, g):
    """target += c·g"""
    for m in range(target.size):
        target[m] += c * g[m]


@helper
def copy_table(target, source):
    """g and its derivatives of an atom."""
    for e in range(3):
        copy_to(target[e], source[e])


@helper
def fill(channel, walk, place, k, out):
    """g and its derivatives of the atom in row k of ``place``."""
    channel.fill_normal(walk.nodes[0], walk.ends, place[k, 0], place[k, 1], out)


@helper
def refresh(walk):
    """Add the mixture up anew: a function of the state alone, free of rounding that adds up."""
    total, mix = 0.0, walk.mix
    for m in range(mix.size):
        mix[m] = 0.0
    for k in range(walk.ints[N_ATOMS]):
        total += walk.mass[k]
        add_to(mix, walk.mass[k], walk.table[k, 0])
    for k in range(walk.ints[N_DUST]):
        total += walk.dust_mass[k]
        add_to(mix, walk.dust_mass[k], walk.dust_table[k, 0])
    walk.law[TOTAL] = total
    walk.law[LOG_LIKELIHOOD] = log_likelihood(walk, mix, total)


@helper
def remove(walk, k):
    """Take atom k away; the last one gets its row."""
    walk.ints[N_ATOMS] -= 1
    last = walk.ints[N_ATOMS]
    if k != last:
        walk.mass[k] = walk.mass[last]
        walk.place[k, 0], walk.place[k, 1] = walk.place[last, 0], walk.place[last, 1]
        copy_table(walk.table[k], walk.table[last])
