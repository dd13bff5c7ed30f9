"""Splits and merges of correlated normal atoms, with the pair's mean and covariance kept.

In the manner of Richardson & Green (1997) and, for several features, of Dellaportas & Papageorgiou (2006), with a share
of a matrix in place of eigenvalues and rotations.  An atom with covariance Σ = LL' is split by a share s, a shift v in
the half of the unit ball where v_0 > 0, and a spread P, symmetric with eigenvalues in (0, 1):

    μ_1 = μ - √((1 - s)/s) L v,  μ_2 = μ + √(s/(1 - s)) L v,  W = Σ - L v v' L' = MM',
    s Σ_1 = M P M',  (1 - s) Σ_2 = M (I - P) M'.

(μ, Σ, v, P) to (μ_1, Σ_1, μ_2, Σ_2) has the Jacobian |L| (s(1 - s))^(-d/2) |M|^(d+1) (s(1 - s))^(-d(d+1)/2).  P has a
matrix beta law with mean close to s I: with Wishart matrices A and B, A + B = CC', it is C⁻¹ A C'⁻¹.
"""

from math import exp, lgamma, log, pi, sqrt

from ...._base.compiled import apart, helper
from ...._base.linear import (
    add_square,
    divide_triangle,
    factor,
    invert_triangle,
    log_diagonal,
    multiply_lower,
    multiply_triangles,
    solve_lower,
)
from ._splits import IMPOSSIBLE, draw_shift, shift_density

WIDE, NARROW, P_WIDE = 6.0, 150.0, 0.6  # records that the spread's law is worth


# --- an atom's covariance and its coordinates ------------------------------------------------------------------------


@helper
def invert(chart, walk, a):
    """Work out μ, T⁻¹ with T = (t_ij), and L = T⁻¹ diag(s), of the atom that begins at ``a``."""
    d, inverse = chart.n_features, chart.inverse
    for i in range(d):
        chart.mean[i] = walk.atoms[a + 1 + 2 * i]
        for j in range(i + 1):
            value = 1.0 if i == j else 0.0
            for r in range(j, i):
                value -= chart.slope(walk, a, i, r) * inverse[r, j]
            inverse[i, j] = value
            chart.root[i, j] = value * (chart.units[j] * exp(walk.atoms[a + 2 + 2 * j]))


@helper
def put_root(chart, walk, a, root):
    """Write L as coordinates of the atom that begins at ``a``: s, and T = diag(s) L⁻¹."""
    d, inverse, at_slope = chart.n_features, chart.scratch, a + 1 + 2 * chart.n_features
    invert_triangle(root, inverse, d)
    for i in range(d):
        walk.atoms[a + 2 + 2 * i] = log(root[i, i] / chart.units[i])
        for j in range(i):
            walk.atoms[at_slope] = root[i, i] * inverse[i, j]
            at_slope += 1


@helper
def log_volume(chart, walk, a):
    """Log Jacobian of an atom's coordinates to (μ, Σ): |dΣ| = Π_i 2 s_i^(2(d - i)) dlog s_i Π dt, i from 0."""
    value, d = 0.0, chart.n_features
    for i in range(d):
        value += 2.0 * (d - i) * (walk.atoms[a + 2 + 2 * i] + chart.log_units[i]) + log(2.0)
    return value


# --- the laws of what a split draws ----------------------------------------------------------------------------------


@helper
def log_multigamma(a, d):
    """Log of the multivariate gamma function, without its power of π."""
    value = 0.0
    for i in range(d):
        value += lgamma(a - 0.5 * i)
    return value


@helper
def shapes(share, worth, d):
    """Shapes of the matrix beta law."""
    return 0.5 * (d + worth * share), 0.5 * (d + worth * (1.0 - share))


@helper
def log_spread_density(log_first, log_second, share, worth, d):
    """Log density of a spread, of the log determinants of it and of I less it."""
    a, b = shapes(share, worth, d)
    value = log_multigamma(a + b, d) - log_multigamma(a, d) - log_multigamma(b, d) - 0.25 * d * (d - 1) * log(pi)
    return value + (a - 0.5 * (d + 1)) * log_first + (b - 0.5 * (d + 1)) * log_second


@apart
def log_spread(log_first, log_second, share, d):
    """Log density of a spread: one of two laws."""
    wide = log_spread_density(log_first, log_second, share, WIDE, d) + log(P_WIDE)
    narrow = log_spread_density(log_first, log_second, share, NARROW, d) + log(1.0 - P_WIDE)
    most = max(wide, narrow)
    return most + log(exp(wide - most) + exp(narrow - most))


@helper
def draw_wishart_root(rng, root, shape, d):
    """Write a triangle whose square is Wishart of that shape, half its degrees of freedom (Bartlett 1933)."""
    for i in range(d):
        root[i, i] = sqrt(2.0 * rng.standard_gamma(shape - 0.5 * i))
        for j in range(i):
            root[i, j] = rng.standard_normal()


@helper
def log_shift(shift, d):
    """Log density of a shift of this length, in half of the unit ball and any direction."""
    return log(shift_density(shift)) + lgamma(0.5 * d) - 0.5 * d * log(pi) - (d - 1) * log(shift)


@apart
def log_split_ratio(share, shift, root, inner, log_first, log_second, d):
    """Log Jacobian of (μ, Σ, shift, spread) to the two atoms' μ and Σ, less the log density of the last two."""
    ratio = log_diagonal(root, d) + (d + 1) * log_diagonal(inner, d)
    ratio -= 0.5 * d * (d + 2) * log(share * (1.0 - share))
    return ratio - log_shift(shift, d) - log_spread(log_first, log_second, share, d)


# --- there and back --------------------------------------------------------------------------------------------------


@helper
def draw_direction(rng, v, shift, d):
    """Draw a vector of this length with v_0 > 0, in any direction."""
    length = 0.0
    for i in range(d):
        v[i] = rng.standard_normal()
        length += v[i] * v[i]
    length = sqrt(length) if v[0] > 0.0 else -sqrt(length)
    for i in range(d):
        v[i] *= shift / length


@helper
def draw_spread(rng, chart, share):
    """Draw P; return log |P| and log |I - P|.  ``first`` and ``second`` have the roots of A and B, ``scratch`` C."""
    d, first, second, both = chart.n_features, chart.first, chart.second, chart.scratch
    of_first, of_second = shapes(share, WIDE if rng.random() < P_WIDE else NARROW, d)
    draw_wishart_root(rng, first, of_first, d)
    draw_wishart_root(rng, second, of_second, d)
    for i in range(d):
        for j in range(i + 1):
            both[i, j] = 0.0
    add_square(first, 1.0, both, d)
    add_square(second, 1.0, both, d)
    factor(both, d)
    of_both = log_diagonal(both, d)
    return 2.0 * (log_diagonal(first, d) - of_both), 2.0 * (log_diagonal(second, d) - of_both)


@apart
def split_covariance(rng, chart, walk, a, b, c, share):
    """What :meth:`Chart.split_place` does: of the atom at ``a`` into those at ``b`` and ``c``."""
    d, v, away, odds = chart.n_features, chart.direction, chart.trial, sqrt((1.0 - share) / share)
    root, inner = chart.root, chart.inner  # L, and M
    shift = draw_shift(rng)
    if not 0.0 < shift < 1.0:
        return IMPOSSIBLE
    draw_direction(rng, v, shift, d)
    invert(chart, walk, a)
    multiply_lower(root, v, away, d)
    for i in range(d):
        walk.atoms[b + 1 + 2 * i] = chart.mean[i] - odds * away[i]
        walk.atoms[c + 1 + 2 * i] = chart.mean[i] + away[i] / odds
        for j in range(i + 1):
            inner[i, j] = -away[i] * away[j]
    add_square(root, 1.0, inner, d)
    factor(inner, d)
    log_first, log_second = draw_spread(rng, chart, share)
    ratio = log_split_ratio(share, shift, root, inner, log_first, log_second, d)
    divide_triangle(inner, chart.scratch, d)  # M C⁻¹
    multiply_triangles(inner, chart.first, 1.0 / sqrt(share), root, d)
    put_root(chart, walk, b, root)
    multiply_triangles(inner, chart.second, 1.0 / sqrt(1.0 - share), root, d)
    put_root(chart, walk, c, root)
    if not (chart.is_proper(walk, b) and chart.is_proper(walk, c)):
        return IMPOSSIBLE
    return ratio + log_volume(chart, walk, a) - log_volume(chart, walk, b) - log_volume(chart, walk, c)


@apart
def merge_covariances(chart, walk, a, b, new, share):
    """What :meth:`Chart.merge_places` does: of the atoms at ``a`` and ``b`` into the one at ``new``."""
    atoms, d, v, root, inner = walk.atoms, chart.n_features, chart.direction, chart.root, chart.inner
    for i in range(d):
        mean, other = atoms[a + 1 + 2 * i], atoms[b + 1 + 2 * i]
        v[i] = sqrt(share * (1.0 - share)) * (other - mean)
        atoms[new + 1 + 2 * i] = share * mean + (1.0 - share) * other
        for j in range(i + 1):
            inner[i, j] = 0.0
    invert(chart, walk, a)
    log_first = log_diagonal(root, d)
    add_square(root, share, inner, d)
    invert(chart, walk, b)
    log_second = log_diagonal(root, d)
    add_square(root, 1.0 - share, inner, d)
    for i in range(d):
        for j in range(i + 1):
            root[i, j] = inner[i, j] + v[i] * v[j]
    factor(inner, d)
    factor(root, d)
    solve_lower(root, v, d)
    shift = 0.0
    for i in range(d):
        shift += v[i] * v[i]
    shift = sqrt(shift)
    if not 0.0 < shift < 1.0:
        return IMPOSSIBLE
    put_root(chart, walk, new, root)
    if not chart.is_proper(walk, new):
        return IMPOSSIBLE
    of_inner = log_diagonal(inner, d)
    log_first = d * log(share) + 2.0 * (log_first - of_inner)
    log_second = d * log(1.0 - share) + 2.0 * (log_second - of_inner)
    ratio = log_split_ratio(share, shift, root, inner, log_first, log_second, d)
    return ratio + log_volume(chart, walk, new) - log_volume(chart, walk, a) - log_volume(chart, walk, b)
