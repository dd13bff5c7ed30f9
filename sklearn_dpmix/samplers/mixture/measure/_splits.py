"""Splits and merges of normal atoms, with the pair's mass, means and variances kept (Richardson & Green 1997)."""

from math import exp, log, pi, sin, sqrt

from ...._base.compiled import apart, helper
from ._pairs import draw_partner, log_pair
from ._walk_state import (
    CUT,
    HALF_LOG_2PI,
    LOG_LIKELIHOOD,
    N_ATOMS,
    TOTAL,
    accepts,
    at,
    copy_atom,
    draw_above,
    keep_trial,
    log_one_more,
    n_above,
    random_mass,
    remove,
    try_three,
)

LEAST_SHIFT = 0.003
LOG_SHIFTS = log(1.0 / LEAST_SHIFT)
WIDE, NARROW, P_WIDE = 0.7, 0.07, 0.6


# --- a split keeps mass, and mean and variance of each feature -------------------------------------------------------


@helper
def log_share_ratio(share):
    """Log Jacobian of (log J, share) to the two atoms' log J, less the log density of the share.

    It is uniform or of the arcsine law.
    """
    rest = share * (1.0 - share)
    return -log(rest) - log(0.5 + 0.5 / (pi * sqrt(rest)))


@apart
def log_feature_ratio(sd, share, shift, spread, j):
    """Log Jacobian of (μ, log σ², shift, spread) to the two atoms' μ and log σ², less the log density of the last two.

    The shift is uniform or log-uniform, and in features other than the first of either sign; the logit of the spread is
    near that of the share.
    """
    d = log(spread / (1.0 - spread)) - log(share / (1.0 - share))
    near = P_WIDE / WIDE * exp(-0.5 * (d / WIDE) ** 2) + (1.0 - P_WIDE) / NARROW * exp(-0.5 * (d / NARROW) ** 2)
    shift = abs(shift)
    of_shift = 0.5 + (0.5 / (shift * LOG_SHIFTS) if shift > LEAST_SHIFT else 0.0)
    if j > 0:
        of_shift *= 0.5
    distance = sd / sqrt(share * (1.0 - share))
    return HALF_LOG_2PI - log(of_shift) + log(distance / ((1.0 - shift * shift) * max(near, 1e-300)))


@helper
def split_or_merge(rng, channel, chart, walk):
    """Split an atom in two of the same mass, means and variances together, or merge two; equally often.

    What is split, or comes of a merge, is above a random mass.
    """
    if rng.random() < 0.5:
        split(rng, channel, chart, walk)
    else:
        merge(rng, channel, chart, walk)


@helper
def split(rng, channel, chart, walk):
    n, law, atoms, least = int(walk.law[N_ATOMS]), walk.law, walk.atoms, random_mass(rng, walk)
    k, kept, trial = draw_above(rng, walk, least), 2 * walk.capacity, 2 * walk.capacity + 1
    if k < 0 or n >= walk.capacity - 1:
        return
    a, b, old, new = at(walk, k), at(walk, n), at(walk, kept), at(walk, trial)
    share = rng.random()
    if rng.random() < 0.5:
        share = sin(0.5 * pi * share) ** 2
    if not 0.0 < share < 1.0:
        return
    mass, n_choices = atoms[a], n_above(walk, least)
    first, second = share * mass, (1.0 - share) * mass
    if first < law[CUT] or second < law[CUT]:
        return
    ratio, odds = log_share_ratio(share) - chart.log_base(walk, k), sqrt((1.0 - share) / share)
    is_proper = True
    atoms[old] = mass
    for j in range(walk.n_features):
        shift = rng.random() if rng.random() < 0.5 else exp(-LOG_SHIFTS * rng.random())
        if j > 0 and rng.random() < 0.5:
            shift = -shift
        z = log(share / (1.0 - share)) + (WIDE if rng.random() < P_WIDE else NARROW) * rng.standard_normal()
        spread = 1.0 / (1.0 + exp(-z))
        e = 1 + 2 * j
        mean, log_variance = atoms[a + e], atoms[a + e + 1]
        atoms[old + e], atoms[old + e + 1] = mean, log_variance
        if not (0.0 < abs(shift) < 1.0 and 0.0 < spread < 1.0):
            is_proper = False
            shift = spread = 0.5
        sd, left = exp(0.5 * log_variance), (1.0 - shift * shift) * exp(log_variance)
        atoms[a + e], atoms[a + e + 1] = mean - shift * sd * odds, log(spread * left / share)
        atoms[b + e], atoms[b + e + 1] = mean + shift * sd / odds, log((1.0 - spread) * left / (1.0 - share))
        ratio += log_feature_ratio(sd, share, shift, spread, j)
    if is_proper and atoms[b + 1] > atoms[a + 1]:
        atoms[b] = second
        for e in range(1, 1 + 2 * walk.n_features):
            atoms[new + e] = atoms[a + e]
        atoms[new] = first
        chart.fill(channel, walk, trial)
        chart.fill(channel, walk, n)
        value = try_three(walk, -mass, k, first, trial, second, n)
        ratio += log_one_more(walk, n) + walk.masses.log_ratio(first * second, mass)
        ratio += chart.log_base(walk, k) + chart.log_base(walk, n)
        ratio += log(n_choices) + log_pair(chart, walk, k, n, n + 1)
        if accepts(rng, ratio + value - law[LOG_LIKELIHOOD]):
            copy_atom(walk, k, trial)
            law[N_ATOMS] = n + 1.0
            keep_trial(walk, law[TOTAL], value)
            return
    for e in range(1 + 2 * walk.n_features):
        atoms[a + e] = atoms[old + e]


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
    ratio = log_share_ratio(share)
    for f in range(walk.n_features):
        e = 1 + 2 * f
        inner, outer = share * exp(atoms[a + e + 1]), (1.0 - share) * exp(atoms[b + e + 1])
        d = atoms[b + e] - atoms[a + e]
        variance = inner + outer + share * (1.0 - share) * d * d
        shift, spread = d * sqrt(share * (1.0 - share) / variance), inner / (inner + outer)
        if not (0.0 < abs(shift) < 1.0 and 0.0 < spread < 1.0):
            return
        atoms[new + e], atoms[new + e + 1] = share * atoms[a + e] + (1.0 - share) * atoms[b + e], log(variance)
        ratio += log_feature_ratio(sqrt(variance), share, shift, spread, f)
    atoms[new] = both
    chart.fill(channel, walk, trial)
    value = try_three(walk, -atoms[a], i, -atoms[b], j, both, trial)
    ratio += log_one_more(walk, n - 1) + walk.masses.log_ratio(atoms[a] * atoms[b], both)
    ratio += chart.log_base(walk, i) + chart.log_base(walk, j)
    ratio += log(n_choices) + log_pair(chart, walk, i, j, n) - chart.log_base(walk, trial)
    if accepts(rng, value - law[LOG_LIKELIHOOD] - ratio):
        copy_atom(walk, i, trial)
        keep_trial(walk, law[TOTAL], value)
        remove(walk, j)
