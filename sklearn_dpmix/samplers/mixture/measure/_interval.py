"""Densities of releases of records on an interval, whatever the noise, by one product of a matrix and a vector.

The interval is cut into cells, so narrow that within one the density f of an atom is a polynomial but for rounding: it
is given by its values at the cell's Gauss points.  So g(x) = Σ_p T_xp f(y_p) with

    T_xp = ∫ q(x | y) ℓ_p(y) dy,

ℓ_p the polynomial that is 1 at y_p and 0 at the cell's other points.  T depends on the noise and the nodes alone, and
is made once (product integration: Atkinson 1997, §4.2).  However sharp q turns, as Laplace's does at the release, or
jumps, as a window's: only f need be smooth.
"""

from functools import partial
from math import ceil, inf
from typing import Any, NamedTuple

import numpy as np
from numpy.polynomial import legendre

from ._noise_parts import FINE_POINTS, FINE_WEIGHTS, N_FINE, OfNoise

N_POINTS = 8  # of a cell
POINTS, WEIGHTS = legendre.leggauss(N_POINTS)
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


class InPieces(NamedTuple):
    """Noise that is piecewise log-quadratic in the record: the density of releases given it."""

    channel: Any
    places: Any

    def ends(self, i, edges):
        """Ends of parts of the cells in which the density of release i turns nowhere and falls little."""
        breaks = [edges]
        for lo, hi, anchor, _, slope, curvature in self.pieces(i):
            low, high = max(lo, edges[0]), min(hi, edges[-1])
            if low < high:
                steepest = abs(slope) + abs(curvature) * max(abs(low - anchor), abs(high - anchor))
                n = ceil(min(steepest * (high - low) / MOST_FALL, MOST_PARTS))
                breaks.append(np.linspace(low, high, n + 1))
        return np.unique(np.concatenate(breaks))

    def density(self, i, y):
        """q(z_i | y), y of shape (parts, points), by the piece that each part's middle is in."""
        values, middle = np.zeros_like(y), 0.5 * (y[:, 0] + y[:, -1])
        for lo, hi, anchor, value, slope, curvature in self.pieces(i):
            is_in = (middle >= lo) & (middle <= hi)
            d = y[is_in] - (anchor if abs(anchor) < inf else 0.0)
            values[is_in] = np.exp(value + slope * d - 0.5 * curvature * d * d)
        return values

    def pieces(self, i):
        """Pieces of log q(z_i | y) as a function of the record y, without the empty ones."""
        Z = self.places[:, None]
        pieces = [self.channel.piece(Z, i, 0, p) for p in range(self.channel.n_pieces())]
        return [piece for piece in pieces if piece[0] < piece[1]]


class OfCoins(NamedTuple):
    """The same where some releases are sides of a coin, whose odds are linear in the record between the bounds."""

    windows: InPieces
    bounds: Any

    @property
    def places(self):
        return self.windows.places

    def is_side(self, i):
        return self.windows.channel.sign(self.places[:, None], i, 0) != 0.0

    def ends(self, i, edges):
        if self.is_side(i):
            return np.union1d(edges, np.clip(self.bounds, edges[0], edges[-1]))
        return self.windows.ends(i, edges)

    def density(self, i, y):
        if not self.is_side(i):
            return self.windows.density(i, y)
        channel, Z = self.windows.channel, self.places[:, None]
        return np.exp([[channel.log_channel(Z, i, 0, value) for value in row] for row in y])


class OfIntegers(NamedTuple):
    """Integer noise: records that are rounded to one integer have one law, so that all releases are done at once."""

    mechanism: Any
    places: Any

    def table(self, edges):
        """What :func:`table` finds for other noise release by release."""
        low, high = self.mechanism.bounds_for(1)[0]
        ends = np.union1d(edges, np.clip(np.arange(low, high) + 0.5, edges[0], edges[-1]))
        middle = 0.5 * (ends[1:] + ends[:-1])
        q, cell = self.at_record(middle), cell_of(middle, edges)
        shares = moments_of(np.ones_like, ends, edges, cell) @ OF_MOMENTS
        found = [shares[cell == c].T @ q[cell == c] for c in range(len(edges) - 1)]
        return np.concatenate(found)

    def at_record(self, y):
        """q of each release given each record: (records, releases)."""
        k = np.clip(np.floor(np.ravel(y) + 0.5), *self.mechanism.bounds_for(1)[0])
        different, of = np.unique(k, return_inverse=True)
        # not ``log_density``, which refuses places between integers, as nodes are where noise is wide
        return np.exp(self.mechanism.log_densities_given(self.places[:, None], different[:, None]))[of]


class OfPolynomials(NamedTuple):
    """A channel whose releases' probabilities are polynomials of the record."""

    mechanism: Any
    places: Any

    def ends(self, i, edges):
        """Ends of parts of the cells in which Gauss rules are exact: records beyond the bounds are moved to them."""
        n = ceil((self.mechanism.degree + N_POINTS) / (2 * N_FINE))
        ends = np.interp(np.arange(n * (len(edges) - 1) + 1) / n, np.arange(len(edges)), edges)
        return np.union1d(ends, np.clip(self.mechanism.bounds_for(1)[0], edges[0], edges[-1]))

    def density(self, i, y):
        """q(z_i | y)."""
        z = np.full((y.size, 1), self.places[i])
        return np.exp(self.mechanism.log_density(z, y.reshape(-1, 1))).reshape(y.shape)


def noise_of(mechanism, places, low, width, scales=None):
    """What the mechanism makes of a record between ``low`` and ``low + width``, for these releases.

    With scales of their own where they are given.
    """
    if mechanism.tables == "polynomial":
        return OfPolynomials(mechanism, places)
    if mechanism.tables == "noise":
        return OfNoise(mechanism, places, low, width)
    if scales is not None:
        mechanism = mechanism.of_scales(scales, 1)
    if mechanism.of_integers:
        return OfIntegers(mechanism, places)
    pieces = InPieces(mechanism._lower(n_records=len(places), n_features=1), places)
    return OfCoins(pieces, mechanism.bounds_for(1)[0]) if mechanism.piece_shape == "mean" else pieces


def table(noise, edges):
    """T of the releases for cells with these edges, in the records' unit: (points, releases)."""
    if isinstance(noise, OfIntegers):
        return noise.table(edges)
    found = np.empty((len(edges) - 1, N_POINTS, len(noise.places)))
    for i in range(len(noise.places)):
        ends = noise.ends(i, edges)
        cell = cell_of(0.5 * (ends[1:] + ends[:-1]), edges)
        moments = moments_of(partial(noise.density, i), ends, edges, cell)
        starts = np.searchsorted(cell, np.arange(len(edges) - 1))
        found[:, :, i] = np.add.reduceat(moments, starts) @ OF_MOMENTS
    return found.reshape(-1, len(noise.places))


def cell_of(places, edges):
    return np.clip(np.searchsorted(edges, places, side="right") - 1, 0, len(edges) - 2)


def moments_of(density, ends, edges, cell):
    """Legendre moments of a density in each part between ``ends``, as a part of its cell."""
    half, middle = 0.5 * np.diff(ends), 0.5 * (ends[1:] + ends[:-1])
    y = middle[:, None] + half[:, None] * FINE_POINTS
    t = 2.0 * (y - edges[cell][:, None]) / np.diff(edges)[cell][:, None] - 1.0
    weighed = half[:, None] * FINE_WEIGHTS * density(y)
    return np.einsum("sf,sfk->sk", weighed, legendre.legvander(t, N_POINTS - 1))


def at_record(noise, y):
    """q of each release given the record."""
    if isinstance(noise, OfIntegers):
        return noise.at_record(y)[0]
    return np.array([noise.density(i, np.array([[y]]))[0, 0] for i in range(len(noise.places))])
