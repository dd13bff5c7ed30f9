"""Densities of releases of records on an interval, whatever the noise, by one product of a matrix and a vector.

The interval is cut into cells, so narrow that within one the density f of an atom is a polynomial but for rounding: it
is given by its values at the cell's Gauss points.  So g(x) = Σ_p T_xp f(y_p) with

    T_xp = ∫ q(x | y) ℓ_p(y) dy,

ℓ_p the polynomial that is 1 at y_p and 0 at the cell's other points.  T depends on the noise and the nodes alone, and
is made once (product integration: Atkinson 1997, §4.2).  However sharp q turns, as Laplace's does at the release, or
jumps, as a window's: only f need be smooth.
"""

from math import ceil, inf
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

from ...._base.compiled import apart

N_POINTS = 8  # of a cell
N_FINE = 16  # of each part of a cell in which q is smooth
POINTS, WEIGHTS = legendre.leggauss(N_POINTS)
FINE_POINTS, FINE_WEIGHTS = legendre.leggauss(N_FINE)
#: From Legendre moments of a function on [-1, 1] to its integrals with each ℓ_p
OF_MOMENTS = (legendre.legvander(POINTS, N_POINTS - 1) * (np.arange(N_POINTS) + 0.5)).T * WEIGHTS
WIDEST = 0.25  # cell, as a share of the interval
MOST_FALL, MOST_PARTS = 6.0, 2000  # of log q within a part of a cell; of the interval


class Grid(NamedTuple):
    """Gauss points of cells that are narrower towards the interval's ends.

    ``below`` and ``above`` are the points' distances from the lower and the upper end, as shares of the interval's
    width: each without rounding where it is small.
    """

    edges: np.ndarray  # (cells + 1,), as shares of the width
    below: np.ndarray  # (points,)
    above: np.ndarray
    weights: np.ndarray  # of the points, for integrals over [0, 1]


def grid(first, finest, widest, growth):
    """The grid from ``first`` of the width to 1 - ``first``.

    Its first cell is ``finest`` wide; each is ``growth`` times as wide as the one before, but at most ``widest``.
    """
    half, step = [first], finest
    while half[-1] < 0.5:
        half.append(half[-1] + step)
        step = min(step * growth, widest, WIDEST)
    half = np.array(half)
    half[1:] = first + (half[1:] - first) * ((0.5 - first) / (half[-1] - first))
    width = np.diff(half)
    points = (half[:-1, None] + width[:, None] * (0.5 + 0.5 * POINTS)).ravel()
    weights = (0.5 * width[:, None] * WEIGHTS).ravel()
    edges = np.concatenate([half, 1.0 - half[-2::-1]])
    below, above = np.concatenate([points, 1.0 - points[::-1]]), np.concatenate([1.0 - points, points[::-1]])
    return Grid(edges, below, above, np.concatenate([weights, weights[::-1]]))


def table(channel, places, edges):
    """T of releases at ``places`` for cells with these edges, in the records' unit: (points, places)."""
    found = np.empty((len(edges) - 1, N_POINTS, len(places)))
    Z = places[:, None]
    for i in range(len(places)):
        breaks, pieces = [edges], pieces_of(channel, Z, i)
        for lo, hi, anchor, _, slope, curvature in pieces:
            low, high = max(lo, edges[0]), min(hi, edges[-1])
            if low < high:
                steepest = abs(slope) + abs(curvature) * max(abs(low - anchor), abs(high - anchor))
                n = ceil(min(steepest * (high - low) / MOST_FALL, MOST_PARTS))
                breaks.append(np.linspace(low, high, n + 1))
        ends = np.unique(np.concatenate(breaks))
        half, middle = 0.5 * np.diff(ends), 0.5 * (ends[1:] + ends[:-1])
        cell = np.clip(np.searchsorted(edges, middle, side="right") - 1, 0, len(edges) - 2)
        y = middle[:, None] + half[:, None] * FINE_POINTS
        size = np.diff(edges)[cell]
        t = 2.0 * (y - edges[cell][:, None]) / size[:, None] - 1.0
        weighed = half[:, None] * FINE_WEIGHTS * density(pieces, y, middle)
        moments = np.einsum("sf,sfk->sk", weighed, legendre.legvander(t, N_POINTS - 1))
        starts = np.searchsorted(cell, np.arange(len(edges) - 1))
        found[:, :, i] = np.add.reduceat(moments, starts) @ OF_MOMENTS
    return found.reshape(-1, len(places))


def pieces_of(channel, Z, i):
    """Pieces of log q(z_i | y) as a function of the record y, without the empty ones."""
    pieces = [channel.piece(Z, i, 0, p) for p in range(channel.n_pieces())]
    return [piece for piece in pieces if piece[0] < piece[1]]


def density(pieces, y, middle):
    """q(z | y), y of shape (parts, points), by the piece that each part's middle is in."""
    values = np.zeros_like(y)
    for lo, hi, anchor, value, slope, curvature in pieces:
        is_in = (middle >= lo) & (middle <= hi)
        d = y[is_in] - (anchor if abs(anchor) < inf else 0.0)
        values[is_in] = np.exp(value + slope * d - 0.5 * curvature * d * d)
    return values


def at_record(channel, places, y):
    """q of each release given the record."""
    values = np.empty(len(places))
    for i in range(len(places)):
        where = np.array([y])
        values[i] = density(pieces_of(channel, places[:, None], i), where[:, None], where)[0, 0]
    return values


def padded(rows):
    """With rows of zeros up to a multiple of four."""
    return np.concatenate([rows, np.zeros((-len(rows) % 4, *rows.shape[1:]))])


def channel_of(mechanism, places, scales=None):
    """The mechanism as compiled code sees it, of these releases; with scales of their own where they are given."""
    if scales is not None:
        mechanism = type(mechanism)(scale=scales, bounds=mechanism.bounds, clamp=mechanism.clamp)
    return mechanism._lower(n_records=len(places), n_features=1)


@apart
def multiply_table(nodes, x, n, values, n_places, out, first, second):
    """g at all nodes and its two derivatives: T, from x on, times f and its own at ``n_places``, four at a time."""
    for m in range(n):
        out[first + m] = 0.0
        out[second + m] = 0.0
        out[second + n + m] = 0.0
    for p in range(0, n_places, 4):
        q, a, b = x + p * n, n_places + p, 2 * n_places + p
        f, f2, f3, f4 = values[p], values[p + 1], values[p + 2], values[p + 3]
        d, d2, d3, d4 = values[a], values[a + 1], values[a + 2], values[a + 3]
        e, e2, e3, e4 = values[b], values[b + 1], values[b + 2], values[b + 3]
        for m in range(n):
            t, t2, t3, t4 = nodes[q + m], nodes[q + n + m], nodes[q + 2 * n + m], nodes[q + 3 * n + m]
            out[first + m] += (f * t + f2 * t2) + (f3 * t3 + f4 * t4)
            out[second + m] += (d * t + d2 * t2) + (d3 * t3 + d4 * t4)
            out[second + n + m] += (e * t + e2 * t2) + (e3 * t3 + e4 * t4)
    for m in range(n):
        out[first + m] = max(out[first + m], 0.0)  # where it is next to nothing, of rounding
