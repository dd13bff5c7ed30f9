"""A walk's kept draws: the mixing measure, with the number of its atoms that records came from."""

from math import exp, log

import numpy as np

from .._compiled import entry, helper, sums_helper
from .._vector import log_positive
from ._measure_state import CONCENTRATION, CUT, DUST_RANGE, LEAST_DENSITY, N_ATOMS, N_DUST, TOTAL, draw_poisson

SURELY = 30.0  # expected records from which on an atom is taken to have one: it has none with probability e^-30


@helper
def keep_draw(rng, kernel, walk, are_records, occupied, weights, theta, start):
    """Write P into rows from ``start`` on; return (number of atoms with records, number of atoms).

    Those with records come first, largest first; then the others.  The last one has what the atoms left out weigh
    together.
    """
    n_atoms, n_dust = walk.ints[N_ATOMS], walk.ints[N_DUST]
    n = n_atoms + n_dust
    rest = walk.law[CONCENTRATION] * walk.law[CUT] * exp(-DUST_RANGE)
    total = walk.law[TOTAL] + rest
    n_occupied = draw_occupied(rng, walk, are_records, occupied)
    for place in range(n):  # the largest of those left, with records first
        best, at, is_occupied = -1.0, -1, place < n_occupied
        for k in range(n):
            if (occupied[k] == 1) == is_occupied and occupied[k] >= 0 and mass_of(walk, k) > best:
                best, at = mass_of(walk, k), k
        occupied[at] = -1
        weights[start + place] = best / total
        if at < n_atoms:
            kernel.set_params(theta, start + place, 0, walk.place[at, 0], exp(0.5 * walk.place[at, 1]))
        else:
            at -= n_atoms
            kernel.set_params(theta, start + place, 0, walk.dust_place[at, 0], exp(0.5 * walk.dust_place[at, 1]))
    weights[start + n] = rest / total
    kernel.draw_prior(rng, theta, start + n)
    return n_occupied, n + 1


@helper
def mass_of(walk, k):
    n_atoms = walk.ints[N_ATOMS]
    return walk.mass[k] if k < n_atoms else walk.dust_mass[k - n_atoms]


@helper
def g_of(walk, k, m):
    n_atoms = walk.ints[N_ATOMS]
    return walk.table[k, 0, m] if k < n_atoms else walk.dust_table[k - n_atoms, 0, m]


@sums_helper
def n_expected(walk, mass, g):
    """Expected number of records of an atom."""
    weights, mix, value = walk.nodes[1], walk.mix, 0.0
    for m in range(weights.size):
        value += weights[m] * g[m] / mix[m]
    return mass * value


@helper
def draw_occupied(rng, walk, are_records, occupied):
    """Mark with 1 the atoms that records came from, else 0; return how many.

    Given P records are independent, from atom k with probability r_k(z) = J_k g_k(z)/Σ J g.  Where nodes are records,
    each draws its atom.  Else large atoms have records for sure.  A record is of a small one with probability
    r(z) = Σ_small r_k(z), which is that of at least one point of a Poisson process with rate -log(1 - r(z)).  Its
    points fall on nodes; one at a node of ω records meets a record already hit with the chance of ω even ones, and what
    is computed so is a polynomial in such sums over records as nodes give exactly.
    """
    n_atoms, n_nodes = walk.ints[N_ATOMS], walk.mix.size
    n = n_atoms + walk.ints[N_DUST]
    for k in range(n):
        occupied[k] = 0
    if are_records:
        for m in range(n_nodes):
            occupied[draw_atom(rng, walk, m, walk.mix[m], n, occupied, False)] = 1
    else:
        small, hits = walk.trial, walk.score[6]
        for m in range(n_nodes):
            small[m] = hits[m] = 0.0
        largest, most = 0, -1.0
        for k in range(n):
            mass = mass_of(walk, k)
            g = walk.table[k, 0] if k < n_atoms else walk.dust_table[k - n_atoms, 0]
            expected = n_expected(walk, mass, g)
            if expected > most:
                largest, most = k, expected
            if expected >= SURELY:
                occupied[k] = 1
        occupied[largest] = 1
        for k in range(n):
            if occupied[k] == 0:
                mass = mass_of(walk, k)
                for m in range(n_nodes):
                    small[m] += mass * g_of(walk, k, m)
        rate = 0.0
        for m in range(n_nodes):
            rate += walk.nodes[1, m] * log_odds(small[m], walk.mix[m])
        for _ in range(draw_poisson(rng, rate)):
            u, m = rng.random() * rate, -1
            for h in range(n_nodes):
                if small[h] > 0.0:
                    m = h
                    u -= walk.nodes[1, h] * log_odds(small[h], walk.mix[h])
                    if u < 0.0:
                        break
            if rng.random() * walk.nodes[1, m] >= hits[m]:
                hits[m] += 1.0
                occupied[draw_atom(rng, walk, m, small[m], n, occupied, True)] = 2
    n_occupied = 0
    for k in range(n):
        if occupied[k] == 2:
            occupied[k] = 1
        n_occupied += occupied[k]
    return n_occupied


@helper
def log_odds(small, mix):
    """-log(1 - r), r the share of the small atoms."""
    return -log(max(1.0 - small / mix, 1e-16))


@helper
def draw_atom(rng, walk, m, total, n, occupied, among_small):
    """An atom at node m, by J g: among all, or among those that are not large."""
    u, chosen = rng.random() * total, 0
    for k in range(n):
        if not among_small or occupied[k] != 1:
            value = mass_of(walk, k) * g_of(walk, k, m)
            if value > 0.0:
                chosen = k
                u -= value
                if u < 0.0:
                    break
    return chosen


@entry
def log_likelihoods(channel, nodes, ends, chosen, start, weights, theta, values):
    """Σ_m ω_m log f(x_m) of the chosen draws of P."""
    density, out = np.empty(nodes.shape[1]), np.empty((3, nodes.shape[1]))
    for t in range(chosen.size):
        density[:] = 0.0
        for h in range(start[chosen[t]], start[chosen[t] + 1]):
            channel.fill_normal(nodes[0], ends, theta[h, 0], 2.0 * theta[h, 3], out)
            for m in range(density.size):
                density[m] += weights[h] * out[0, m]
        values[t] = 0.0
        for m in range(density.size):
            values[t] += nodes[1, m] * log_positive(max(density[m], LEAST_DENSITY))
