"""Splits and merges of atoms: with the pair's moments kept (Richardson & Green 1997), and of a part that goes far."""

from math import exp, log, pi, sin, sqrt

from .._compiled import helper
from ._measure_state import (
    CONCENTRATION,
    CUT,
    HALF_LOG_2PI,
    LOG_LIKELIHOOD,
    N_ATOMS,
    NEAR,
    TOTAL,
    accepts,
    copy_table,
    fill,
    keep_trial,
    log_base,
    remove,
    try_three,
)

LEAST_SHIFT = 0.003
LOG_SHIFTS = log(1.0 / LEAST_SHIFT)
WIDE, NARROW, P_WIDE = 0.7, 0.07, 0.6


# --- which pair ------------------------------------------------------------------------------------------------------


@helper
def affinity(place, i, j):
    """How likely two atoms are proposed to merge, up to a factor."""
    d, e = place[i, 0] - place[j, 0], place[i, 1] - place[j, 1]
    return 1.0 / (0.2 + 2.0 * d * d / (exp(place[i, 1]) + exp(place[j, 1])) + e * e)


@helper
def affinities(place, i, n):
    """Their sum over all partners of atom i."""
    total = 0.0
    for j in range(n):
        if j != i:
            total += affinity(place, i, j)
    return total


@helper
def draw_partner(rng, place, i, n):
    """Another atom, by affinity."""
    u, partner = rng.random() * affinities(place, i, n), -1
    for j in range(n):
        if j != i:
            partner = j
            u -= affinity(place, i, j)
            if u <= 0.0:
                break
    return partner


@helper
def log_pair(place, i, j, n):
    """Log probability that i and j are the pair, in either order."""
    return log(affinity(place, i, j) / n * (1.0 / affinities(place, i, n) + 1.0 / affinities(place, j, n)))


# --- a split keeps mass, mean and variance ---------------------------------------------------------------------------


@helper
def log_split_density(share, shift, spread):
    """Log density of a split's three numbers.

    The share of the first atom is uniform or of the arcsine law; the shift uniform or log-uniform; the logit of the
    spread near that of the share.
    """
    d = log(spread / (1.0 - spread)) - log(share / (1.0 - share))
    near = P_WIDE / WIDE * exp(-0.5 * (d / WIDE) ** 2) + (1.0 - P_WIDE) / NARROW * exp(-0.5 * (d / NARROW) ** 2)
    if near <= 0.0:
        return -1e300
    of_share = 0.5 + 0.5 / (pi * sqrt(share * (1.0 - share)))
    of_shift = 0.5 + (0.5 / (shift * LOG_SHIFTS) if shift > LEAST_SHIFT else 0.0)
    return log(of_share) + log(of_shift) + log(near) - HALF_LOG_2PI - log(spread * (1.0 - spread))


@helper
def log_jacobian(mean, other, share, shift, spread):
    """Of (log J, μ, log σ², share, shift, spread) to the two atoms' log J, μ and log σ²."""
    return log(abs(other - mean) / (share * (1.0 - share) * shift * (1.0 - shift * shift) * spread * (1.0 - spread)))


@helper
def split_or_merge(rng, channel, kernel, walk):
    """Split an atom in two of the same mass, mean and variance together, or merge two; equally often."""
    if rng.random() < 0.5:
        split(rng, channel, kernel, walk)
    else:
        merge(rng, channel, kernel, walk)


@helper
def split(rng, channel, kernel, walk):
    n, law, mass, place = walk.ints[N_ATOMS], walk.law, walk.mass, walk.place
    if n >= mass.size - 1:
        return
    k = int(rng.random() * n)
    share = rng.random()
    if rng.random() < 0.5:
        share = sin(0.5 * pi * share) ** 2
    shift = rng.random() if rng.random() < 0.5 else exp(-LOG_SHIFTS * rng.random())
    if not (0.0 < share < 1.0 and 0.0 < shift < 1.0):
        return
    z = log(share / (1.0 - share)) + (WIDE if rng.random() < P_WIDE else NARROW) * rng.standard_normal()
    spread = 1.0 / (1.0 + exp(-z))
    if not 0.0 < spread < 1.0:
        return
    first, second = share * mass[k], (1.0 - share) * mass[k]
    if first < law[CUT] or second < law[CUT]:
        return
    mean, log_variance = place[k, 0], place[k, 1]
    sd, left = exp(0.5 * log_variance), (1.0 - shift * shift) * exp(log_variance)
    odds = sqrt((1.0 - share) / share)
    before = log_base(kernel, walk, mean, log_variance)
    place[k, 0], place[k, 1] = mean - shift * sd * odds, log(spread * left / share)
    place[n, 0], place[n, 1] = mean + shift * sd / odds, log((1.0 - spread) * left / (1.0 - share))
    if place[n, 0] > place[k, 0]:
        fill(channel, walk, place, k, walk.spare[0])
        fill(channel, walk, place, n, walk.spare[1])
        value = try_three(walk, -mass[k], walk.table[k, 0], first, walk.spare[0, 0], second, walk.spare[1, 0])
        ratio = log(law[CONCENTRATION]) + log_base(kernel, walk, place[k, 0], place[k, 1])
        ratio += log_base(kernel, walk, place[n, 0], place[n, 1]) - before - log_split_density(share, shift, spread)
        ratio += log_jacobian(place[k, 0], place[n, 0], share, shift, spread) + log(n) + log_pair(place, k, n, n + 1)
        if accepts(rng, ratio + value - law[LOG_LIKELIHOOD]):
            mass[k], mass[n] = first, second
            copy_table(walk.table[k], walk.spare[0])
            copy_table(walk.table[n], walk.spare[1])
            walk.ints[N_ATOMS] = n + 1
            keep_trial(walk, law[TOTAL], value)
            return
    place[k, 0], place[k, 1] = mean, log_variance


@helper
def merge(rng, channel, kernel, walk):
    n, law, mass, place = walk.ints[N_ATOMS], walk.law, walk.mass, walk.place
    if n < 2:
        return
    i = int(rng.random() * n)
    j = draw_partner(rng, place, i, n)
    if place[i, 0] > place[j, 0]:
        i, j = j, i
    both = mass[i] + mass[j]
    share = mass[i] / both
    inner, outer = share * exp(place[i, 1]), (1.0 - share) * exp(place[j, 1])
    d = place[j, 0] - place[i, 0]
    variance = inner + outer + share * (1.0 - share) * d * d
    shift, spread = d * sqrt(share * (1.0 - share) / variance), inner / (inner + outer)
    if not (0.0 < shift < 1.0 and 0.0 < spread < 1.0 and 0.0 < share < 1.0):
        return
    new = walk.pair
    new[0, 0], new[0, 1] = share * place[i, 0] + (1.0 - share) * place[j, 0], log(variance)
    fill(channel, walk, new, 0, walk.spare[0])
    value = try_three(walk, -mass[i], walk.table[i, 0], -mass[j], walk.table[j, 0], both, walk.spare[0, 0])
    ratio = log(law[CONCENTRATION]) + log_base(kernel, walk, place[i, 0], place[i, 1])
    ratio += log_base(kernel, walk, place[j, 0], place[j, 1]) - log_base(kernel, walk, new[0, 0], new[0, 1])
    ratio += log_jacobian(place[i, 0], place[j, 0], share, shift, spread) - log_split_density(share, shift, spread)
    ratio += log(n - 1.0) + log_pair(place, i, j, n)
    if accepts(rng, value - law[LOG_LIKELIHOOD] - ratio):
        mass[i] = both
        place[i, 0], place[i, 1] = new[0, 0], new[0, 1]
        copy_table(walk.table[i], walk.spare[0])
        keep_trial(walk, law[TOTAL], value)
        remove(walk, j)


# --- a part of an atom goes far --------------------------------------------------------------------------------------


@helper
def log_far_density(kernel, walk, k, place, h):
    """Log density of where a part of atom k goes: from G0, or near the atom, widely or closely."""
    near = walk.law[NEAR]
    d, e = (place[h, 0] - walk.place[k, 0]) / near, place[h, 1] - walk.place[k, 1]
    r = d * d + e * e
    close = 0.25 * (exp(-0.5 * r) + 16.0 * exp(-8.0 * r)) / (2.0 * pi * near)
    return log(0.5 * exp(log_base(kernel, walk, place[h, 0], place[h, 1])) + close + 1e-300)


@helper
def part_or_join(rng, channel, kernel, walk):
    """Part some mass of an atom from it, to a place of its own; or join an atom to another, whose place is kept."""
    n, law, mass, place = walk.ints[N_ATOMS], walk.law, walk.mass, walk.place
    cut, near = law[CUT], law[NEAR]
    if rng.random() < 0.5:
        k = int(rng.random() * n)
        if n >= mass.size - 1 or mass[k] <= 2.0 * cut:
            return
        log_range = log((mass[k] - cut) / cut)
        part = cut * exp(rng.random() * log_range)
        if mass[k] - part < cut:
            return
        if rng.random() < 0.5:
            variance = kernel.prior_scale[0] / rng.standard_gamma(kernel.prior_shape[0])
            place[n, 0] = kernel.prior_mean[0] + sqrt(variance / kernel.precision[0]) * rng.standard_normal()
            place[n, 1] = log(variance)
        else:
            width = 1.0 if rng.random() < 0.5 else 0.25
            place[n, 0] = place[k, 0] + width * near * rng.standard_normal()
            place[n, 1] = place[k, 1] + width * rng.standard_normal()
        fill(channel, walk, place, n, walk.table[n])
        g = walk.table[n, 0]
        value = try_three(walk, -part, walk.table[k, 0], part, g, 0.0, g)
        ratio = log_part(kernel, walk, k, n, mass[k], part, log_range) - log(n + 1.0)
        if accepts(rng, ratio + value - law[LOG_LIKELIHOOD]):
            mass[k] -= part
            mass[n] = part
            walk.ints[N_ATOMS] = n + 1
            keep_trial(walk, law[TOTAL], value)
    elif n > 1:
        k = int(rng.random() * n)
        h = int(rng.random() * (n - 1))
        h += h >= k
        both = mass[k] + mass[h]
        g = walk.table[h, 0]
        value = try_three(walk, mass[h], walk.table[k, 0], -mass[h], g, 0.0, g)
        ratio = log_part(kernel, walk, k, h, both, mass[h], log((both - cut) / cut)) - log(n)
        if accepts(rng, value - law[LOG_LIKELIHOOD] - ratio):
            mass[k] = both
            keep_trial(walk, law[TOTAL], value)
            remove(walk, h)


@helper
def log_part(kernel, walk, k, h, both, part, log_range):
    """Log ratio of the prior and the proposal of parting: atom h of this mass from atom k that had ``both``."""
    ratio = log(walk.law[CONCENTRATION]) + log_base(kernel, walk, walk.place[h, 0], walk.place[h, 1])
    ratio += log(both / ((both - part) * part)) + log(part * log_range)
    return ratio - log_far_density(kernel, walk, k, walk.place, h)
