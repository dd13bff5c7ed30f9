"""Which two atoms merge: one at random, and a partner that is like it."""

from math import log

from ...._base.compiled import apart, helper


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
    by_first, by_second = 1.0 / affinities(chart, walk, i, n), 1.0 / affinities(chart, walk, j, n)
    return log(chart.affinity(walk, i, j) / n * (by_first + by_second))
