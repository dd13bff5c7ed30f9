"""Splits of atoms, and merges, that keep the mass and what the chart keeps of a pair (Richardson & Green 1997)."""

from math import exp, log, pi, sin, sqrt

from ...._base.compiled import apart, helper
from ._walk_atoms import (
    CUT,
    N_ATOMS,
    TOTAL,
    at,
    copy_atom,
    draw_above,
    draw_level,
    log_one_more,
    n_above,
    random_mass,
    remove,
)
from ._walk_likelihood import keep_trial, try_three

LEAST_SHIFT = 0.003
LOG_SHIFTS = log(1.0 / LEAST_SHIFT)
IMPOSSIBLE = -1e300


# --- which pair ------------------------------------------------------------------------------------------------------


@apart
def affinities(chart, walk, i, n):
    """Sum of the affinities of atom i with all others."""
    total = 0.0
    for j in range(n):
        if j != i:
            total += chart.affinity(walk, i, j)
    return total


@helper
def draw_partner(rng, chart, walk, i, n):
    """Another atom, by affinity."""
    u, partner = rng.random() * affinities(chart, walk, i, n), -1
    for j in range(n):
        if j != i:
            partner = j
            u -= chart.affinity(walk, i, j)
            if u <= 0.0:
                break
    return partner


@helper
def log_pair(chart, walk, i, j, n):
    """Log probability that i and j are the pair, in either order."""
    by_either = 1.0 / affinities(chart, walk, i, n) + 1.0 / affinities(chart, walk, j, n)
    return log(chart.affinity(walk, i, j) / n * by_either)


# --- what is drawn ---------------------------------------------------------------------------------------------------


@helper
def log_share_ratio(share):
    """Log Jacobian of (log J, share) to the two atoms' log J, less the log density of the share.

    It is uniform or of the arcsine law.
    """
    rest = share * (1.0 - share)
    return -log(rest) - log(0.5 + 0.5 / (pi * sqrt(rest)))


@helper
def draw_shift(rng):
    """How far apart the two are, from 0 to 1: uniform or log-uniform."""
    return rng.random() if rng.random() < 0.5 else exp(-LOG_SHIFTS * rng.random())


@helper
def shift_density(shift):
    return 0.5 + (0.5 / (shift * LOG_SHIFTS) if shift > LEAST_SHIFT else 0.0)


# --- the moves -------------------------------------------------------------------------------------------------------


@helper
def split_or_merge(rng, channel, chart, walk):
    """Split an atom, or merge two; equally often.  What is split, or comes of a merge, is above a random mass."""
    if rng.random() < 0.5:
        split(rng, channel, chart, walk)
    else:
        merge(rng, channel, chart, walk)


@helper
def split(rng, channel, chart, walk):
    n, law, atoms, least = int(walk.law[N_ATOMS]), walk.law, walk.atoms, random_mass(rng, walk)
    k, trial = draw_above(rng, walk, least), 2 * walk.capacity
    if k < 0 or n >= walk.capacity - 1:
        return
    a, b, c = at(walk, k), at(walk, trial), at(walk, n)
    share = rng.random()
    if rng.random() < 0.5:
        share = sin(0.5 * pi * share) ** 2
    if not 0.0 < share < 1.0:
        return
    mass, first, second = atoms[a], share * atoms[a], (1.0 - share) * atoms[a]
    if first < law[CUT] or second < law[CUT]:
        return
    ratio = chart.split_place(rng, walk, a, b, c, share)
    if not (ratio > IMPOSSIBLE and atoms[c + 1] > atoms[b + 1]):
        return
    atoms[b], atoms[c] = first, second
    chart.fill(channel, walk, trial)
    chart.fill(channel, walk, n)
    ratio += log_share_ratio(share) + log_one_more(walk, n) + walk.masses.log_ratio(first * second, mass)
    ratio += chart.log_base(walk, trial) + chart.log_base(walk, n) - chart.log_base(walk, k)
    ratio += log(n_above(walk, least))
    swap_numbers(walk, a, b)  # the pair as a merge would see it
    ratio += log_pair(chart, walk, k, n, n + 1)
    swap_numbers(walk, a, b)
    level = draw_level(rng, walk, ratio)
    value = try_three(walk, -mass, k, first, trial, second, n, level)
    if value > level:
        copy_atom(walk, k, trial)
        law[N_ATOMS] = n + 1.0
        keep_trial(walk, law[TOTAL], value)


@helper
def swap_numbers(walk, a, b):
    """Swap the numbers of the atoms that begin at ``a`` and at ``b``; not their tables."""
    for e in range(walk.width):
        walk.atoms[a + e], walk.atoms[b + e] = walk.atoms[b + e], walk.atoms[a + e]


@helper
def merge(rng, channel, chart, walk):
    n, law, atoms, trial = int(walk.law[N_ATOMS]), walk.law, walk.atoms, 2 * walk.capacity
    least = random_mass(rng, walk)
    if n < 2:
        return
    i = int(rng.random() * n)
    j = draw_partner(rng, chart, walk, i, n)
    if atoms[at(walk, i) + 1] > atoms[at(walk, j) + 1]:
        i, j = j, i
    a, b, new = at(walk, i), at(walk, j), at(walk, trial)
    both = atoms[a] + atoms[b]
    share = atoms[a] / both
    if both <= least or not 0.0 < share < 1.0:
        return
    n_choices = n_above(walk, least) + 1 - int(atoms[a] > least) - int(atoms[b] > least)
    ratio = chart.merge_places(walk, a, b, new, share)
    if not ratio > IMPOSSIBLE:
        return
    atoms[new] = both
    chart.fill(channel, walk, trial)
    ratio += log_share_ratio(share) + log_one_more(walk, n - 1) + walk.masses.log_ratio(atoms[a] * atoms[b], both)
    ratio += chart.log_base(walk, i) + chart.log_base(walk, j) - chart.log_base(walk, trial)
    ratio += log(n_choices) + log_pair(chart, walk, i, j, n)
    level = draw_level(rng, walk, -ratio)
    value = try_three(walk, -atoms[a], i, -atoms[b], j, both, trial, level)
    if value > level:
        copy_atom(walk, i, trial)
        keep_trial(walk, law[TOTAL], value)
        remove(walk, j)
