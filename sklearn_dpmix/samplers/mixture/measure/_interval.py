"""Densities of releases of records on an interval, whatever the noise, by one product of a matrix and a vector.

The interval is cut into cells, so narrow that within one the density f of an atom is a polynomial but for rounding: it
is given by its values at the cell's Gauss points.  So g(x) = Σ_p T_xp f(y_p) with

    T_xp = ∫ q(x | y) ℓ_p(y) dy,

ℓ_p the polynomial that is 1 at y_p and 0 at the cell's other points.  T depends on the noise and the nodes alone, and
is made once (product integration: Atkinson 1997, §4.2).  However sharp q turns, as Laplace's does at the release, or
jumps, as a window's: only f need be smooth.
"""

from functools import partial
from typing import NamedTuple

import numpy as np
from numpy.polynomial import legendre

N_POINTS = 8  # of a cell
POINTS, WEIGHTS = legendre.leggauss(N_POINTS)
#: From Legendre moments of a function on [-1, 1] to its integrals with each ℓ_p
OF_MOMENTS = (legendre.legvander(POINTS, N_POINTS - 1) * (np.arange(N_POINTS) + 0.5)).T * WEIGHTS
N_FINE = 16  # points of each part of a cell in which the noise's density is smooth
FINE_POINTS, FINE_WEIGHTS = legendre.leggauss(N_FINE)
WIDEST = 0.25  # cell, as a share of the interval


class Grid(NamedTuple):
    """Gauss points of cells that are narrower towards the interval's ends.

    ``below`` and ``above`` are the points' distances from the lower and the upper end, as shares of the interval's
    width: each without rounding where it is small.
    """

    edges: np.ndarray  # (cells + 1,), as shares of the width
    below: np.ndarray  # (points,)
    above: np.ndarray
    weights: np.ndarray  # of the points, for integrals over [0, 1]


class Spots(NamedTuple):
    """Where cells are narrower than elsewhere: all that reach into ``place`` ± ``reach`` are at most so ``wide``."""

    place: np.ndarray  # as shares of the width
    reach: np.ndarray
    wide: np.ndarray


def grid(first, finest, widest, growth, cuts=(), spots=None):
    """The grid from ``first`` of the width to 1 - ``first``.

    Its first cell is ``finest`` wide; each is ``growth`` times as wide as the one before, but at most ``widest``.  No
    cell reaches across ``cuts``, and those at ``spots`` are halved until they are narrow enough.
    """
    half, step, cuts = [first], finest, np.asarray(cuts, dtype=np.float64)
    while half[-1] < 0.5:
        half.append(half[-1] + step)
        step = min(step * growth, widest, WIDEST)
    half = np.array(half)
    half[1:] = first + (half[1:] - first) * ((0.5 - first) / (half[-1] - first))
    lower = np.union1d(half, cuts[(cuts > first) & (cuts < 0.5)])
    upper = np.union1d(half, 1.0 - cuts[(cuts > 0.5) & (cuts < 1.0 - first)])
    if spots is not None:
        lower, upper = narrowed(lower, spots), narrowed(upper, spots._replace(place=1.0 - spots.place))
    (low, of_low), (high, of_high) = (gauss(edges) for edges in (lower, upper))
    edges = np.concatenate([lower, 1.0 - upper[-2::-1]])
    below, above = np.concatenate([low, 1.0 - high[::-1]]), np.concatenate([1.0 - low, high[::-1]])
    return Grid(edges, below, above, np.concatenate([of_low, of_high[::-1]]))


def narrowed(edges, spots):
    """These edges, with cells halved that are too wide at some spot."""
    while True:
        most = np.full(len(edges) - 1, np.inf)
        first = np.searchsorted(edges[1:], spots.place - spots.reach)
        last = np.searchsorted(edges[:-1], spots.place + spots.reach)
        for begin, end, wide in zip(first, last, spots.wide, strict=True):
            most[begin:end] = np.minimum(most[begin:end], wide)
        is_wide = np.diff(edges) > most
        if not is_wide.any():
            return edges
        edges = np.sort(np.append(edges, 0.5 * (edges[:-1] + edges[1:])[is_wide]))


def gauss(edges):
    """Gauss points of cells, and their weights."""
    width = np.diff(edges)
    return (edges[:-1, None] + width[:, None] * (0.5 + 0.5 * POINTS)).ravel(), (0.5 * width[:, None] * WEIGHTS).ravel()


class OneByOne:
    """Noise that is looked at release by release: ``ends`` of parts of the cells, and ``density`` in each."""

    def table(self, edges):
        """T of the releases for cells with these edges, in the records' unit: (points, releases)."""
        found = np.empty((len(edges) - 1, N_POINTS, len(self.places)))
        for i in range(len(self.places)):
            ends = self.ends(i, edges)
            cell = cell_of(0.5 * (ends[1:] + ends[:-1]), edges)
            moments = moments_of(partial(self.density, i), ends, edges, cell)
            starts = np.searchsorted(cell, np.arange(len(edges) - 1))
            found[:, :, i] = np.add.reduceat(moments, starts) @ OF_MOMENTS
        return found.reshape(-1, len(self.places))

    def at_record(self, y):
        """q of each release given the record."""
        return np.array([self.density(i, np.array([[y]]))[0, 0] for i in range(len(self.places))])


def cell_of(places, edges):
    return np.clip(np.searchsorted(edges, places, side="right") - 1, 0, len(edges) - 2)


def moments_of(density, ends, edges, cell):
    """Legendre moments of a density in each part between ``ends``, as a part of its cell."""
    half, middle = 0.5 * np.diff(ends), 0.5 * (ends[1:] + ends[:-1])
    y = middle[:, None] + half[:, None] * FINE_POINTS
    t = 2.0 * (y - edges[cell][:, None]) / np.diff(edges)[cell][:, None] - 1.0
    weighed = half[:, None] * FINE_WEIGHTS * density(y)
    return np.einsum("sf,sfk->sk", weighed, legendre.legvander(t, N_POINTS - 1))
