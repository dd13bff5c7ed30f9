"""Densities of atoms whose features are independent: products, whose factors are kept with g.

An atom's table has g, two derivatives a feature, and with more than one feature the features' factors.  Derivatives
are those of the factors; ``times_others`` makes them those of g.  So a move of one feature costs one factor.
"""

from ...._base.compiled import apart, helper
from ._walk_atoms import at, copy_numbers, row


@apart
def fill(channel, walk, k):
    """Fill the table of atom k."""
    for j in range(walk.n_features):
        fill_factor(channel, walk, k, j)
    multiply_factors(walk, k)


@apart
def fill_feature(channel, walk, k, source, j):
    """Fill what a move of feature j needs, for an atom that differs from atom ``source`` only in its mass and that."""
    for i in range(walk.n_features):
        if i != j:
            copy_row(walk, row_of_factor(walk, k, i), row_of_factor(walk, source, i))
    fill_factor(channel, walk, k, j)
    multiply_factors(walk, k)


@apart
def copy_feature(walk, k, source, j):
    """Make atom k what atom ``source`` is, whose table was filled by :func:`fill_feature`."""
    copy_numbers(walk, k, source)
    to, of = row(walk, k), row(walk, source)
    copy_row(walk, to, of)
    for e in range(1 + 2 * j, 3 + 2 * j):
        copy_row(walk, to + e * walk.n_nodes, of + e * walk.n_nodes)
    if walk.n_features > 1:
        copy_row(walk, row_of_factor(walk, k, j), row_of_factor(walk, source, j))


@helper
def copy_row(walk, to, of):
    """Copy a row of the tables."""
    for m in range(walk.n_nodes):
        walk.tables[to + m] = walk.tables[of + m]


@apart
def fill_factor(channel, walk, k, j):
    """Feature j's factor, and its derivatives."""
    a, n, slopes = at(walk, k) + 1 + 2 * j, walk.n_nodes, row(walk, k) + (1 + 2 * j) * walk.n_nodes
    tables, nodes, g = walk.tables, walk.nodes, row_of_factor(walk, k, j)
    mean, log_variance = walk.atoms[a], walk.atoms[a + 1]
    channel.fill_normal(j, nodes, n, mean, log_variance, tables, g, slopes)
    walk.fill_unseen(channel, mean, log_variance, g, slopes)


@helper
def row_of_factor(walk, k, j):
    """Where feature j's factor begins in the tables; of one feature it is g itself."""
    d = walk.n_features
    return row(walk, k) + (0 if d == 1 else (1 + 2 * d + j) * walk.n_nodes)


@helper
def multiply_factors(walk, k):
    """Make g the product of the factors."""
    if walk.n_features > 1:
        tables, g, first = walk.tables, row(walk, k), row_of_factor(walk, k, 0)
        for m in range(walk.n_nodes):
            tables[g + m] = tables[first + m]
        times_others(walk, tables, g, k, 0, 0, walk.n_nodes)


@helper
def times_others(walk, target, to, k, j, first, n):
    """Multiply what begins there by the factors of all features but j, at ``n`` nodes from the ``first`` on."""
    tables = walk.tables
    for i in range(walk.n_features):
        if i != j:
            other = row_of_factor(walk, k, i) + first
            for m in range(n):
                target[to + m] *= tables[other + m]


@helper
def scale_others(walk, to, scaled, k, j, first, n):
    """Write what is in ``score`` from ``scaled`` on, times the factors of all features but j, from ``to`` on."""
    score = walk.score
    for m in range(n):
        score[to + m] = score[scaled + m]
    times_others(walk, score, to, k, j, first, n)
