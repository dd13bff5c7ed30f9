"""Splits and merges of correlated normal atoms, with the pair's mass, mean and covariance kept.

In the manner of Richardson & Green (1997) and, for several features, of Dellaportas & Papageorgiou (2006), with a share
of a matrix in place of eigenvalues and rotations.  An atom with covariance Σ = LL' is split by a share s, a shift v in
the half of the unit ball where v_0 > 0, and a spread P, symmetric with eigenvalues in (0, 1):

    μ_1 = μ - √((1 - s)/s) L v,  μ_2 = μ + √(s/(1 - s)) L v,  W = L (I - vv') L' = MM',
    s Σ_1 = M P M',  (1 - s) Σ_2 = M (I - P) M'.

(μ, Σ, v, P) to (μ_1, Σ_1, μ_2, Σ_2) has the Jacobian |L| (s(1 - s))^(-d/2) |M|^(d+1) (s(1 - s))^(-d(d+1)/2).  P has a
matrix beta law with mean close to s I: of two Wishart matrices the first one's share.
"""

from math import exp, lgamma, log, pi, sin, sqrt

from ...._base.compiled import apart, helper
from ._hidden_records import invert
from ._pairs import draw_partner, log_pair
from ._splits import LEAST_SHIFT, LOG_SHIFTS, log_share_ratio
from ._walk_state import (
    CUT,
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

WIDE, NARROW, P_WIDE = 6.0, 150.0, 0.6  # records that the spread's law is worth


# --- lower triangular matrices, d times d in a row, in ``chart.work`` ------------------------------------------------


@helper
def factorise(chart, to, d):
    """Cholesky's factor, in place of the lower half of a positive definite matrix; whether it is one."""
    work = chart.work
    for i in range(d):
        for j in range(i + 1):
            value = work[to + i * d + j]
            for r in range(j):
                value -= work[to + i * d + r] * work[to + j * d + r]
            if i > j:
                work[to + i * d + j] = value / work[to + j * d + j]
            elif value > 0.0:
                work[to + i * d + i] = sqrt(value)
            else:
                return False
    return True


@helper
def multiply(chart, to, a, b, d):
    """Write the product of two triangles."""
    work = chart.work
    for i in range(d):
        for j in range(i + 1):
            value = 0.0
            for r in range(j, i + 1):
                value += work[a + i * d + r] * work[b + r * d + j]
            work[to + i * d + j] = value


@helper
def divide(chart, to, a, b, d):
    """Write the inverse of triangle ``a``, times triangle ``b``; ``to`` may be ``b``."""
    work = chart.work
    for i in range(d):
        for j in range(i + 1):
            value = work[b + i * d + j]
            for r in range(j, i):
                value -= work[a + i * d + r] * work[to + r * d + j]
            work[to + i * d + j] = value / work[a + i * d + i]


@helper
def log_diagonal(chart, a, d):
    """Log determinant of a triangle."""
    value = 0.0
    for i in range(d):
        value += log(chart.work[a + i * d + i])
    return value


@helper
def add_square(chart, to, a, weight, d):
    """Add a triangle times its transpose, times a weight, to a lower half."""
    work = chart.work
    for i in range(d):
        for j in range(i + 1):
            value = 0.0
            for r in range(j + 1):
                value += work[a + i * d + r] * work[a + j * d + r]
            work[to + i * d + j] += weight * value


@helper
def put_root(chart, walk, a, at_root, d):
    """Write a covariance's triangle as the coordinates of the atom that begins at ``a``: s, and T = diag(s) L⁻¹."""
    work, at_slope = chart.work, a + 1 + 2 * d
    for i in range(d):
        s = work[at_root + i * d + i]
        walk.atoms[a + 2 + 2 * i] = log(s / chart.units[i])
        for j in range(i):  # t_ij = -Σ_{r<i} L_ir t_rj / s_r
            value = work[at_root + i * d + j] / work[at_root + j * d + j]
            for r in range(j + 1, i):
                value += work[at_root + i * d + r] / work[at_root + r * d + r] * walk.atoms[row_of(a, r, d) + j]
            walk.atoms[at_slope] = -value
            at_slope += 1


@helper
def row_of(a, i, d):
    """Where slopes t_i0, ..., t_i(i-1) of the atom that begins at ``a`` are."""
    return a + 1 + 2 * d + i * (i - 1) // 2


@helper
def take_root(chart, walk, a, to, d):
    """Write the triangle of an atom's covariance; its mean is in ``chart.mean``."""
    invert(chart, walk, a)
    for i in range(d * d):
        chart.work[to + i] = chart.root[i]


# --- the laws of what a split draws ----------------------------------------------------------------------------------


@helper
def log_multigamma(a, d):
    """Log of the multivariate gamma function, without its power of π."""
    value = 0.0
    for i in range(d):
        value += lgamma(a - 0.5 * i)
    return value


@helper
def log_beta(log_first, log_second, share, worth, d):
    """Log density of a spread, of the log determinants of it and of I less it."""
    a, b = shapes(share, worth, d)
    value = log_multigamma(a + b, d) - log_multigamma(a, d) - log_multigamma(b, d) - 0.25 * d * (d - 1) * log(pi)
    return value + (a - 0.5 * (d + 1)) * log_first + (b - 0.5 * (d + 1)) * log_second


@helper
def shapes(share, worth, d):
    """Shapes of the matrix beta law."""
    return 0.5 * (d + worth * share), 0.5 * (d + worth * (1.0 - share))


@apart
def log_spread(log_first, log_second, share, d):
    """Log density of a spread: one of two laws."""
    wide = log_beta(log_first, log_second, share, WIDE, d) + log(P_WIDE)
    narrow = log_beta(log_first, log_second, share, NARROW, d) + log(1.0 - P_WIDE)
    most = max(wide, narrow)
    return most + log(exp(wide - most) + exp(narrow - most))


@helper
def draw_triangle(rng, chart, to, shape, d):
    """Write a triangle whose square is Wishart of that shape, half its degrees of freedom (Bartlett 1933)."""
    for i in range(d):
        chart.work[to + i * d + i] = sqrt(2.0 * rng.standard_gamma(shape - 0.5 * i))
        for j in range(i):
            chart.work[to + i * d + j] = rng.standard_normal()


@helper
def log_shift(shift, d):
    """Log density of a shift of this length, in half of the unit ball: uniform or log-uniform, in any direction."""
    of_length = 0.5 + (0.5 / (shift * LOG_SHIFTS) if shift > LEAST_SHIFT else 0.0)
    return log(of_length) + lgamma(0.5 * d) - 0.5 * d * log(pi) - (d - 1) * log(shift)


@apart
def log_split_ratio(chart, share, shift, at_root, at_inner, log_first, log_second, d):
    """Log Jacobian of (μ, Σ, shift, spread) to the two atoms' μ and Σ, less the log density of the last two."""
    log_shares, of_inner = log(share * (1.0 - share)), log_diagonal(chart, at_inner, d)
    ratio = log_diagonal(chart, at_root, d) + (d + 1) * of_inner - (0.5 * d + 0.5 * d * (d + 1)) * log_shares
    return ratio - log_shift(shift, d) - log_spread(log_first, log_second, share, d)


@helper
def log_base_of_covariance(chart, walk, k, d):
    """Log density of G0 at atom k, in (μ, Σ)."""
    value, a = chart.log_base(walk, k), at(walk, k)
    for i in range(d):
        value -= 2.0 * (d - i) * (walk.atoms[a + 2 + 2 * i] + chart.log_units[i]) + log(2.0)
    return value


# --- the moves -------------------------------------------------------------------------------------------------------


@helper
def split_or_merge(rng, channel, chart, walk):
    """Split an atom above a random mass, or merge two into one above it; equally often."""
    if rng.random() < 0.5:
        split(rng, channel, chart, walk)
    else:
        merge(rng, channel, chart, walk)


@helper
def swap(walk, a, b):
    """Swap the numbers of the atoms that begin at ``a`` and at ``b``; not their tables."""
    for e in range(walk.width):
        walk.atoms[a + e], walk.atoms[b + e] = walk.atoms[b + e], walk.atoms[a + e]


@apart
def split(rng, channel, chart, walk):
    """Write the two atoms into a trial's place and behind the last one; if accepted, the first replaces the old one."""
    n, law, atoms, d, work = int(walk.law[N_ATOMS]), walk.law, walk.atoms, chart.n_features, chart.work
    least = random_mass(rng, walk)
    k, trial = draw_above(rng, walk, least), 2 * walk.capacity
    if k < 0 or n >= walk.capacity - 1:
        return
    share = rng.random()
    if rng.random() < 0.5:
        share = sin(0.5 * pi * share) ** 2
    shift = rng.random() if rng.random() < 0.5 else exp(-LOG_SHIFTS * rng.random())
    if not (0.0 < share < 1.0 and 0.0 < shift < 1.0):
        return
    a, b, c = at(walk, k), at(walk, trial), at(walk, n)
    mass, n_choices = atoms[a], n_above(walk, least)
    first, second = share * mass, (1.0 - share) * mass
    if first < law[CUT] or second < law[CUT]:
        return
    size = d * d
    root, inner, left, right, both = 0, size, 2 * size, 3 * size, 4 * size
    take_root(chart, walk, a, root, d)
    length = 0.0
    for i in range(d):
        chart.direction[i] = rng.standard_normal()
        length += chart.direction[i] ** 2
    sign = 1.0 if chart.direction[0] > 0.0 else -1.0
    for i in range(d):
        chart.direction[i] *= sign * shift / sqrt(length)
    for i in range(d):  # I - vv'
        for j in range(i + 1):
            work[both + i * d + j] = (1.0 if i == j else 0.0) - chart.direction[i] * chart.direction[j]
    if not factorise(chart, both, d):
        return
    multiply(chart, inner, root, both, d)
    of_first, of_second = shapes(share, WIDE if rng.random() < P_WIDE else NARROW, d)
    draw_triangle(rng, chart, left, of_first, d)
    draw_triangle(rng, chart, right, of_second, d)
    for i in range(size):
        work[both + i] = 0.0
    add_square(chart, both, left, 1.0, d)
    add_square(chart, both, right, 1.0, d)
    if not factorise(chart, both, d):
        return
    divide(chart, left, both, left, d)  # roots of P and of I - P
    divide(chart, right, both, right, d)
    log_first, log_second = 2.0 * log_diagonal(chart, left, d), 2.0 * log_diagonal(chart, right, d)
    ratio = log_split_ratio(chart, share, shift, root, inner, log_first, log_second, d)
    odds = sqrt((1.0 - share) / share)
    for i in range(d):
        away = 0.0
        for j in range(i + 1):
            away += work[root + i * d + j] * chart.direction[j]
        atoms[b + 1 + 2 * i] = chart.mean[i] - odds * away
        atoms[c + 1 + 2 * i] = chart.mean[i] + away / odds
    multiply(chart, both, inner, left, d)
    multiply(chart, root, inner, right, d)
    for i in range(size):
        work[both + i] /= sqrt(share)
        work[root + i] /= sqrt(1.0 - share)
    put_root(chart, walk, b, both, d)
    put_root(chart, walk, c, root, d)
    atoms[b], atoms[c] = first, second
    if not (chart.is_proper(walk, b) and chart.is_proper(walk, c) and atoms[c + 1] > atoms[b + 1]):
        return
    chart.fill(channel, walk, trial)
    chart.fill(channel, walk, n)
    value = try_three(walk, -mass, k, first, trial, second, n)
    ratio += log_share_ratio(share) + log_one_more(walk, n) + walk.masses.log_ratio(first * second, mass)
    ratio += log_base_of_covariance(chart, walk, trial, d) + log_base_of_covariance(chart, walk, n, d)
    ratio += log(n_choices) - log_base_of_covariance(chart, walk, k, d)
    swap(walk, a, b)  # the pair as a merge would see it
    ratio += log_pair(chart, walk, k, n, n + 1)
    swap(walk, a, b)
    if accepts(rng, ratio + value - law[LOG_LIKELIHOOD]):
        copy_atom(walk, k, trial)
        law[N_ATOMS] = n + 1.0
        keep_trial(walk, law[TOTAL], value)


@apart
def merge(rng, channel, chart, walk):
    n, law, atoms, d, work = int(walk.law[N_ATOMS]), walk.law, walk.atoms, chart.n_features, chart.work
    least, trial = random_mass(rng, walk), 2 * walk.capacity
    if n < 2:
        return
    i = int(rng.random() * n)
    j = draw_partner(rng, chart, walk, i, n)
    if atoms[at(walk, i) + 1] > atoms[at(walk, j) + 1]:
        i, j = j, i
    a, b, new = at(walk, i), at(walk, j), at(walk, trial)
    mass = atoms[a] + atoms[b]
    share = atoms[a] / mass
    if mass <= least or not 0.0 < share < 1.0:
        return
    n_choices = n_above(walk, least) + 1 - int(atoms[a] > least) - int(atoms[b] > least)
    size = d * d
    root, inner, left, right = 0, size, 2 * size, 3 * size
    take_root(chart, walk, a, left, d)
    take_root(chart, walk, b, right, d)
    for e in range(size):
        work[inner + e] = 0.0
    add_square(chart, inner, left, share, d)
    add_square(chart, inner, right, 1.0 - share, d)
    for e in range(d):
        apart_by = atoms[b + 1 + 2 * e] - atoms[a + 1 + 2 * e]
        chart.direction[e] = sqrt(share * (1.0 - share)) * apart_by
        atoms[new + 1 + 2 * e] = atoms[a + 1 + 2 * e] + (1.0 - share) * apart_by
    for e in range(d):
        for f in range(e + 1):
            work[root + e * d + f] = work[inner + e * d + f] + chart.direction[e] * chart.direction[f]
    if not (factorise(chart, inner, d) and factorise(chart, root, d)):
        return
    log_first, log_second = d * log(share), d * log(1.0 - share)
    shift = 0.0
    for e in range(d):
        value = chart.direction[e]
        for f in range(e):
            value -= work[root + e * d + f] * chart.trial[f]
        chart.trial[e] = value / work[root + e * d + e]
        shift += chart.trial[e] ** 2
        log_first += 2.0 * log(work[left + e * d + e] / work[inner + e * d + e])
        log_second += 2.0 * log(work[right + e * d + e] / work[inner + e * d + e])
    shift = sqrt(shift)
    if not 0.0 < shift < 1.0:
        return
    put_root(chart, walk, new, root, d)
    atoms[new] = mass
    if not chart.is_proper(walk, new):
        return
    ratio = log_split_ratio(chart, share, shift, root, inner, log_first, log_second, d) + log_share_ratio(share)
    chart.fill(channel, walk, trial)
    value = try_three(walk, -atoms[a], i, -atoms[b], j, mass, trial)
    ratio += log_one_more(walk, n - 1) + walk.masses.log_ratio(atoms[a] * atoms[b], mass)
    ratio += log_base_of_covariance(chart, walk, i, d) + log_base_of_covariance(chart, walk, j, d)
    ratio += log(n_choices) + log_pair(chart, walk, i, j, n) - log_base_of_covariance(chart, walk, trial, d)
    if accepts(rng, value - law[LOG_LIKELIHOOD] - ratio):
        copy_atom(walk, i, trial)
        keep_trial(walk, law[TOTAL], value)
        remove(walk, j)
