"""Moves of the atoms' masses: between two atoms, of one, births and deaths."""

from math import exp, log

from ...._base.compiled import helper
from ._walk_atoms import CUT, LARGEST, N_ATOMS, TOTAL, at, draw_level, log_tilt, remove
from ._walk_likelihood import keep_trial, try_one, try_three


@helper
def move_mass(rng, walk):
    """Move mass from one atom to another: a step of random size of log(J_j/J_k), with their sum kept."""
    n, atoms, cut = int(walk.law[N_ATOMS]), walk.atoms, walk.law[CUT]
    if n < 2:
        return
    j = int(rng.random() * n)
    k = int(rng.random() * (n - 1))
    k += k >= j
    a, b = at(walk, j), at(walk, k)
    both = atoms[a] + atoms[b]
    z = log(atoms[a] / atoms[b]) + 2.0 * exp(-5.0 * rng.random()) * rng.standard_normal()
    new = both / (1.0 + exp(-z))
    rest = both - new
    if new < cut or rest < cut:
        return
    ratio = walk.masses.log_ratio(new, atoms[a]) + walk.masses.log_ratio(rest, atoms[b])
    level = draw_level(rng, walk, ratio)
    value = try_three(walk, new - atoms[a], j, rest - atoms[b], k, 0.0, k, level)  # in the digits that each keeps
    if value > level:
        atoms[a], atoms[b] = new, rest
        keep_trial(walk, walk.law[TOTAL], value)


@helper
def change_mass(rng, walk):
    """Change the mass of one atom."""
    n, law, atoms = int(walk.law[N_ATOMS]), walk.law, walk.atoms
    k = int(rng.random() * n)
    a = at(walk, k)
    new = atoms[a] * exp(1.5 * exp(-4.0 * rng.random()) * rng.standard_normal())
    if new < law[CUT] or new > LARGEST:
        return
    total = law[TOTAL] + new - atoms[a]
    ratio = walk.masses.log_ratio(new, atoms[a]) + log_tilt(walk, n, total) - log_tilt(walk, n, law[TOTAL])
    level = draw_level(rng, walk, ratio)
    value = try_one(walk, new - atoms[a], k, total, level)
    if value > level:
        atoms[a] = new
        keep_trial(walk, total, value)


@helper
def bear_or_kill(rng, channel, chart, walk):
    """Add an atom with log J uniform and θ from G0, or take one away.

    A birth has density G0/T in (log J, θ), T the range of log J.
    """
    n, law, atoms = int(walk.law[N_ATOMS]), walk.law, walk.atoms
    log_range = log(LARGEST / law[CUT])
    if rng.random() < 0.5:
        if n >= walk.capacity - 1:
            return
        new = law[CUT] * exp(rng.random() * log_range)
        chart.draw_base(rng, walk, n)
        chart.fill(channel, walk, n)
        total = law[TOTAL] + new
        ratio = walk.masses.log_growth(walk, n) + walk.masses.log_ratio(new, 1.0) + log(log_range / (n + 1.0))
        ratio += log_tilt(walk, n + 1, total) - log_tilt(walk, n, law[TOTAL])
        level = draw_level(rng, walk, ratio)
        value = try_one(walk, new, n, total, level)
        if value > level:
            atoms[at(walk, n)] = new
            law[N_ATOMS] = n + 1.0
            keep_trial(walk, total, value)
    elif n > 1:
        k = int(rng.random() * n)
        mass = atoms[at(walk, k)]
        total = law[TOTAL] - mass
        ratio = walk.masses.log_growth(walk, n - 1) + walk.masses.log_ratio(mass, 1.0) + log(log_range / n)
        ratio += log_tilt(walk, n, law[TOTAL]) - log_tilt(walk, n - 1, total)
        level = draw_level(rng, walk, -ratio)
        value = try_one(walk, -mass, k, total, level)
        if value > level:
            keep_trial(walk, total, value)
            remove(walk, k)
