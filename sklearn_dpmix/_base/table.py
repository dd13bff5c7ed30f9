"""Products of a table, made once for some nodes, with numbers of an atom and their derivatives."""

import numpy as np

from .compiled import apart, helper


def padded(rows):
    """With rows of zeros up to a multiple of four."""
    return np.concatenate([rows, np.zeros((-len(rows) % 4, *rows.shape[1:]))])


@helper
def clear(n, out, first, second):
    """Zeros for g and its two derivatives at all nodes."""
    for m in range(n):
        out[first + m] = 0.0
        out[second + m] = 0.0
        out[second + n + m] = 0.0


@apart
def multiply_table(nodes, x, n, values, n_places, out, first, second):
    """g at all nodes and its two derivatives: T, from x on, times f and its own at ``n_places``, four at a time."""
    clear(n, out, first, second)
    add_table(nodes, x, n, values, n_places, out, first, second)
    for m in range(n):
        out[first + m] = max(out[first + m], 0.0)  # where it is next to nothing, of rounding


@helper
def add_table(nodes, x, n, values, n_places, out, first, second):
    """Add that product to what is there, which may be less than nothing."""
    for p in range(0, n_places, 4):
        q, a, b = x + p * n, n_places + p, 2 * n_places + p
        f, f2, f3, f4 = values[p], values[p + 1], values[p + 2], values[p + 3]
        d, d2, d3, d4 = values[a], values[a + 1], values[a + 2], values[a + 3]
        e, e2, e3, e4 = values[b], values[b + 1], values[b + 2], values[b + 3]
        if f == f2 == f3 == f4 == d == d2 == d3 == d4 == e == e2 == e3 == e4 == 0.0:
            continue  # a narrow atom is at few of the places
        for m in range(n):
            t, t2, t3, t4 = nodes[q + m], nodes[q + n + m], nodes[q + 2 * n + m], nodes[q + 3 * n + m]
            out[first + m] += (f * t + f2 * t2) + (f3 * t3 + f4 * t4)
            out[second + m] += (d * t + d2 * t2) + (d3 * t3 + d4 * t4)
            out[second + n + m] += (e * t + e2 * t2) + (e3 * t3 + e4 * t4)
