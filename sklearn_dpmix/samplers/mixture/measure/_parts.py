"""Births of an atom from a part of another one, to a place near it or anywhere, and the way back."""

from math import exp, log, pi, sqrt

from ...._base.compiled import apart, helper
from ._walk_atoms import CUT, N_ATOMS, TOTAL, at, draw_level, log_one_more, remove
from ._walk_likelihood import keep_trial, try_three

ROOT_2PI = sqrt(2.0 * pi)


@helper
def log_far_density(chart, walk, k, h):
    """Log density of where a part of atom k goes: from G0, or near the atom, widely or closely.

    In logs: densities in hundreds of coordinates are no floats.
    """
    atoms, r, log_size, a, b = walk.atoms, 0.0, log(4.0), at(walk, k), at(walk, h)
    for e in range(1, walk.width):
        near = chart.near(walk, e)
        u = (atoms[b + e] - atoms[a + e]) / near
        r += u * u
        log_size += log(ROOT_2PI * near)
    of_base = chart.log_base(walk, h) - log(2.0)
    widely, closely = -0.5 * r - log_size, (walk.width - 1.0) * log(4.0) - 8.0 * r - log_size
    most = max(of_base, widely, closely)
    return most + log(exp(of_base - most) + exp(widely - most) + exp(closely - most))


@helper
def draw_near(rng, chart, walk, k, h, width):
    """Draw a place for atom h near that of atom k."""
    a, b, atoms = at(walk, k), at(walk, h), walk.atoms
    for e in range(1, walk.width):
        atoms[b + e] = atoms[a + e] + width * chart.near(walk, e) * rng.standard_normal()


@helper
def part_or_join(rng, channel, chart, walk):
    """Part some mass of an atom from it, to a place of its own; or join an atom to another, whose place is kept."""
    n, law, atoms = int(walk.law[N_ATOMS]), walk.law, walk.atoms
    cut = law[CUT]
    if rng.random() < 0.5:
        k = int(rng.random() * n)
        a, b = at(walk, k), at(walk, n)
        if n >= walk.capacity - 1 or atoms[a] <= 2.0 * cut:
            return
        log_range = log((atoms[a] - cut) / cut)
        part = cut * exp(rng.random() * log_range)
        if atoms[a] - part < cut:
            return
        if rng.random() < 0.5:
            chart.draw_base(rng, walk, n)
        else:
            draw_near(rng, chart, walk, k, n, 1.0 if rng.random() < 0.5 else 0.25)
            if not chart.is_proper(walk, b):
                return
        chart.fill(channel, walk, n)
        ratio = log_part(chart, walk, k, n, atoms[a], part, log_range) + log_one_more(walk, n) - log(n + 1.0)
        level = draw_level(rng, walk, ratio)
        value = try_three(walk, -part, k, part, n, 0.0, n, level)
        if value > level:
            atoms[a] -= part
            atoms[b] = part
            law[N_ATOMS] = n + 1.0
            keep_trial(walk, law[TOTAL], value)
    elif n > 1:
        k = int(rng.random() * n)
        h = int(rng.random() * (n - 1))
        h += h >= k
        part, both = atoms[at(walk, h)], atoms[at(walk, k)] + atoms[at(walk, h)]
        ratio = log_part(chart, walk, k, h, both, part, log((both - cut) / cut)) + log_one_more(walk, n - 1) - log(n)
        level = draw_level(rng, walk, -ratio)
        value = try_three(walk, part, k, -part, h, 0.0, h, level)
        if value > level:
            atoms[at(walk, k)] = both
            keep_trial(walk, law[TOTAL], value)
            remove(walk, h)


@apart
def log_part(chart, walk, k, h, both, part, log_range):
    """Log ratio of the prior and the proposal of parting: atom h of this mass from atom k that had ``both``."""
    ratio = walk.masses.log_ratio((both - part) * part, both) + chart.log_base(walk, h)
    ratio += log(both / ((both - part) * part)) + log(part * log_range)
    return ratio - log_far_density(chart, walk, k, h)
