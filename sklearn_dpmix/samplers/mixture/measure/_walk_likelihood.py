"""The likelihood of a walk: sums over its atoms at the nodes, of the mixture as it is and as a proposal would make it.

A proposal adds multiples of atoms to the sum, or takes them away.  Where next to nothing is left of it, it has lost its
digits and is made anew, as a sum of positive terms.
"""

from math import log

from ...._base.compiled import apart, apart_sums, helper
from ...._base.vector import log_positive
from ._walk_atoms import IS_FRESH, IS_STALE, LOG_LIKELIHOOD, N_RECORDS, OUTSIDE, TOTAL, at, n_all, number, row

LEAST_DENSITY = 1e-300
LOST = 1e11  # what a record costs whose density is less than that: more than all others together could gain
# ratios of densities below which a sum from which atoms were taken lost its digits: after a move to before, and of the
# mixture to the most that it was since it was made anew; a sweep's rounding, some 1e-13 of that, is far below both
FAR, STALE = 1e-7, 1e-4


@helper
def log_term(weight, density):
    """What a node adds to the log likelihood."""
    value = weight * log_positive(max(density, LEAST_DENSITY))
    return value if density > LEAST_DENSITY else value - LOST * abs(weight)


@apart_sums
def log_likelihood(walk, density, total):
    """Σ_m ω_m log f(x_m) of the mixture with these densities at the nodes, not yet divided by S."""
    weights, value = walk.weights, 0.0
    for m in range(walk.n_nodes):
        value += log_term(weights[m], density[m])
    if walk.is_lost(density):
        return -1e300
    return value - walk.law[N_RECORDS] * log(total + walk.law[OUTSIDE])


@apart_sums
def try_one(walk, c, k, total, level):
    """The log likelihood with c times atom k added to the mixture, which is written into ``trial``.

    Where it is found to be below ``level`` without all digits, -1e300.
    """
    weights, mix, trial, tables, g, value = walk.weights, walk.mix, walk.trial, walk.tables, row(walk, k), 0.0
    for m in range(walk.n_nodes):
        density = mix[m] + c * tables[g + m]
        trial[m] = density
        value += log_term(weights[m], density)
    value -= walk.law[N_RECORDS] * log(total + walk.law[OUTSIDE])
    return walk.judged(value, c, k, 0.0, k, 0.0, k, total, level)


@apart_sums
def try_three(walk, c, k, c2, k2, c3, k3, level):
    """As :meth:`try_one`, with three atoms that leave the total unchanged."""
    weights, mix, trial, tables, value = walk.weights, walk.mix, walk.trial, walk.tables, 0.0
    g, g2, g3 = row(walk, k), row(walk, k2), row(walk, k3)
    for m in range(walk.n_nodes):
        density = mix[m] + c * tables[g + m] + c2 * tables[g2 + m] + c3 * tables[g3 + m]
        trial[m] = density
        value += log_term(weights[m], density)
    value -= walk.law[N_RECORDS] * log(walk.law[TOTAL] + walk.law[OUTSIDE])
    return walk.judged(value, c, k, c2, k2, c3, k3, walk.law[TOTAL], level)


@apart_sums
def try_replaced(walk, k, other, by, total, outside):
    """The log likelihood with atom ``by`` for k, with the one after it for ``other`` if that is not k, too.

    And with so much more mass outside.  The mixture is written into ``trial``; as for ``try_sum``, -1e300 if it lost
    digits.
    """
    weights, mix, trial, tables, atoms = walk.weights, walk.mix, walk.trial, walk.tables, walk.atoms
    less, more, g, h = atoms[at(walk, k)], atoms[at(walk, by)], row(walk, k), row(walk, by)
    less2 = more2 = value = n_lost = 0.0
    g2, h2 = g, h
    if other != k:
        less2, more2, g2, h2 = atoms[at(walk, other)], atoms[at(walk, by + 1)], row(walk, other), row(walk, by + 1)
    for m in range(walk.n_nodes):
        density = mix[m] - less * tables[g + m] + more * tables[h + m] + outside * walk.outside[m]
        density += more2 * tables[h2 + m] - less2 * tables[g2 + m]
        trial[m] = density
        value += log_term(weights[m], density)
        n_lost += 1.0 if min(density, mix[m]) < FAR * max(density, mix[m]) else 0.0
    if n_lost > 0.0 or walk.is_lost(trial):
        return -1e300
    return value - walk.law[N_RECORDS] * log(total + walk.law[OUTSIDE])


@apart
def try_sum(walk, total):
    """The log likelihood of the mixture in ``trial``, a sum from which atoms were taken: -1e300 if it lost digits.

    And if the way back would lose them, so that moves are turned down both ways.
    """
    return -1e300 if n_apart(walk) > 0.0 else log_likelihood(walk, walk.trial, total)


@apart_sums
def n_far(walk):
    """At how many nodes ``trial`` lost its digits."""
    found = 0.0
    for m in range(walk.n_nodes):
        found += 1.0 if walk.trial[m] < FAR * walk.mix[m] else 0.0
    return found


@apart_sums
def n_apart(walk):
    """At how many nodes ``trial`` did, or ``mix`` would on the way back."""
    found = 0.0
    for m in range(walk.n_nodes):
        less, more = min(walk.trial[m], walk.mix[m]), max(walk.trial[m], walk.mix[m])
        found += 1.0 if less < FAR * more else 0.0
    return found


@apart_sums
def most_likely(walk, total):
    """The most that the log likelihood of ``trial`` can be where it lost digits: each density is below ``FAR`` there.

    Of weights that are positive.
    """
    weights, value = walk.weights, 0.0
    for m in range(walk.n_nodes):
        value += log_term(weights[m], max(walk.trial[m], 2.0 * FAR * walk.mix[m]))
    return value - walk.law[N_RECORDS] * log(total + walk.law[OUTSIDE])


@apart
def with_digits(walk, value, c, k, c2, k2, c3, k3, total, level):
    """The log likelihood with three atoms added, which is ``value`` unless ``trial`` lost its digits.

    Or -1e300 where it is below ``level`` whatever the lost digits are.
    """
    if n_far(walk) == 0.0:
        return value
    if most_likely(walk, total) < level:
        return -1e300
    for m in range(walk.n_nodes):
        if walk.trial[m] < FAR * walk.mix[m]:
            walk.trial[m] = density_anew(walk, m, c, k, c2, k2, c3, k3)
    return log_likelihood(walk, walk.trial, total)


@apart
def density_anew(walk, m, c, k, c2, k2, c3, k3):
    """The mixture at node m with three atoms added, as a sum of positive terms."""
    tables, density, left, left2, left3 = walk.tables, walk.law[OUTSIDE] * walk.outside[m], c, c2, c3
    for e in range(n_all(walk)):
        h = number(walk, e)
        mass = walk.atoms[at(walk, h)]
        if h == k:
            mass, left = mass + left, 0.0
        if h == k2:
            mass, left2 = mass + left2, 0.0
        if h == k3:
            mass, left3 = mass + left3, 0.0
        density += max(mass, 0.0) * tables[row(walk, h) + m]
    density += left * tables[row(walk, k) + m] + left2 * tables[row(walk, k2) + m]
    return density + left3 * tables[row(walk, k3) + m]


@helper
def keep_trial(walk, total, value):
    """Accept the proposed mixture as the current one."""
    n_stale = 0.0
    for m in range(walk.n_nodes):
        walk.mix[m] = walk.trial[m]
        walk.most[m] = max(walk.most[m], walk.mix[m])
        n_stale += 1.0 if walk.mix[m] < STALE * walk.most[m] else 0.0
    walk.law[IS_STALE], walk.law[IS_FRESH] = n_stale, 0.0
    walk.law[TOTAL], walk.law[LOG_LIKELIHOOD] = total, value


@apart
def add_to(walk, target, c, k):
    """Add c times atom k to a mixture."""
    tables, g = walk.tables, row(walk, k)
    for m in range(walk.n_nodes):
        target[m] += c * tables[g + m]


@apart
def begin_trial(walk):
    """Make ``trial`` the mixture as it is."""
    for m in range(walk.n_nodes):
        walk.trial[m] = walk.mix[m]


@helper
def replace_in_trial(walk, k, by):
    """Take atom k out of ``trial``, and put atom ``by`` in."""
    add_to(walk, walk.trial, -walk.atoms[at(walk, k)], k)
    add_to(walk, walk.trial, walk.atoms[at(walk, by)], by)


@helper
def refresh(walk):
    """Recompute the mixture's sum, so that it depends on the state alone and rounding does not accumulate."""
    total = 0.0
    for m in range(walk.n_nodes):
        walk.mix[m] = walk.law[OUTSIDE] * walk.outside[m]
    for k in range(n_all(walk)):
        h = number(walk, k)
        mass = walk.atoms[at(walk, h)]
        total += mass
        add_to(walk, walk.mix, mass, h)
    for m in range(walk.n_nodes):
        walk.most[m] = walk.mix[m]
    walk.law[TOTAL], walk.law[IS_STALE], walk.law[IS_FRESH] = total, 0.0, 1.0
    walk.law[LOG_LIKELIHOOD] = log_likelihood(walk, walk.mix, total)


@apart
def refresh_changed(walk):
    """As :func:`refresh`, unless nothing changed since."""
    if walk.law[IS_FRESH] == 0.0:
        refresh(walk)


@apart
def refresh_stale(walk):
    """As :func:`refresh`, if the sum lost digits since."""
    if walk.law[IS_STALE] != 0.0:
        refresh(walk)
