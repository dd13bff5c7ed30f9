"""Which second moments G/n = LL' of u = (1, x) records with all x_j in [-1, 1] can have: its edges and its volume.

It is positive definite, and E (1 ± x_j)(1 ± x_k) >= 0 for all j, k and signs, which includes E x_j² <= 1 and |E x_j| <=
1. For p <= 2 these are exactly the moments of distributions on the box (Anstreicher & Burer 2010, "Computable
representations for convex hulls of low-dimensional quadratic forms", Math. Program. 124). For more predictors they are
the usual relaxation, which allows a little more. That n records cannot have every distribution is ignored.
"""

from math import inf, log, sqrt

from .._base.compiled import helper

SMALLEST = 1e-7  # smallest diagonal entry of L: smaller ones are rounding


@helper
def set_design(point, root, n, moments, d):
    """L of a point, and its moments n LL'; False if no records have these."""
    root[0, 0] = 1.0
    at, entry = 0, 2 * d
    for j in range(1, d):
        for r in range(j + 1):
            root[j, r] = point[at]
            at += 1
        if not root[j, j] > SMALLEST:
            return False
        moments[d + j] = n * root[j, 0]
    for j in range(1, d):
        for k in range(j, d):
            value = 0.0
            for r in range(j + 1):
                value += root[j, r] * root[k, r]
            if not is_possible(root[j, 0], root[k, 0], value):
                return False
            moments[entry] = n * value
            entry += 1
    return True


@helper
def row(j):
    """Where row j of L begins in a point."""
    return j * (j + 1) // 2 - 1


@helper
def first_exit(point, velocity, normal, d):
    """Time until a straight path of L meets an edge of the possible G, where it sets ``normal``; inf if none.

    Each edge is a quadratic in time: E (1 ± x_j)(1 ± x_k) = 0, or E x_j² = 1.  ``normal`` is its gradient there.
    """
    first, one, other, both, sign = inf, 0, 0, 0.0, 0.0
    for j in range(1, d):
        for k in range(j, d):
            a, b, constant, linear, square = row(j), row(k), 0.0, 0.0, 0.0
            for r in range(j + 1):
                constant += point[a + r] * point[b + r]
                linear += point[a + r] * velocity[b + r] + velocity[a + r] * point[b + r]
                square += velocity[a + r] * velocity[b + r]
            for way in range(1 if j == k else 4):
                s = 1.0 if way > 1 else -1.0
                t = 0.0 if j == k else 1.0 - 2.0 * (way % 2)  # 1 + s E x_j x_k + t E (x_j + s x_k)
                start = 1.0 + s * constant + t * (point[a] + s * point[b])
                time = time_below(start, s * linear + t * (velocity[a] + s * velocity[b]), s * square)
                if time < first:
                    first, one, other, both, sign = time, j, k, s, t
    if first == inf:
        return first
    for i in range(normal.size):
        normal[i] = 0.0
    a, b = row(one), row(other)
    for r in range(one + 1):
        normal[b + r] += both * (point[a + r] + first * velocity[a + r])
        normal[a + r] += both * (point[b + r] + first * velocity[b + r])
    normal[a] += sign
    normal[b] += sign * both
    return first


@helper
def time_below(start, linear, square):
    """First time >= 0 from which start + linear t + square t² is negative, with start >= 0 except for rounding."""
    start = max(start, 0.0)
    discriminant = linear * linear - 4.0 * start * square
    if linear > 0.0:
        return -0.5 * (linear + sqrt(discriminant)) / square if square < 0.0 else inf
    if not discriminant > 0.0:
        return inf
    return 2.0 * start / (sqrt(discriminant) - linear)


@helper
def is_possible(a, b, both):
    """E (1 ± u)(1 ± v) >= 0 for all signs, a = E u, b = E v, both = E uv; with u = v that E u² <= 1."""
    return 1.0 + both >= abs(a + b) and 1.0 - both >= abs(a - b)


@helper
def log_volume(root, d):
    """Log density of L if that of LL' is flat."""
    value = 0.0
    for j in range(1, d):
        value += (d - j) * log(root[j, j])
    return value
