"""What a mechanism makes of a record on an interval: tables of it for the cells of :mod:`_interval`."""

from math import ceil, inf

import numpy as np

from ._interval import N_FINE, N_POINTS, OF_MOMENTS, OneByOne, cell_of, moments_of
from ._noise_parts import OfNoise

MOST_FALL, MOST_PARTS = 6.0, 2000  # of log q within a part of a cell; of the interval


class InPieces(OneByOne):
    """Noise that is piecewise log-quadratic in the record: the density of releases given it."""

    def __init__(self, channel, places):
        self.channel, self.places = channel, places

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


class OfCoins(InPieces):
    """The same where some releases are sides of a coin, whose odds are linear in the record between the bounds."""

    def __init__(self, channel, places, bounds):
        super().__init__(channel, places)
        self.bounds = bounds

    def is_side(self, i):
        return self.channel.sign(self.places[:, None], i, 0) != 0.0

    def ends(self, i, edges):
        if self.is_side(i):
            return np.union1d(edges, np.clip(self.bounds, edges[0], edges[-1]))
        return super().ends(i, edges)

    def density(self, i, y):
        if not self.is_side(i):
            return super().density(i, y)
        Z = self.places[:, None]
        return np.exp([[self.channel.log_channel(Z, i, 0, value) for value in row] for row in y])


class OfIntegers:
    """Integer noise: records that are rounded to one integer have one law, so that all releases are done at once."""

    def __init__(self, mechanism, places):
        self.mechanism, self.places = mechanism, places

    def table(self, edges):
        """T of the releases for cells with these edges: (points, releases)."""
        low, high = self.mechanism.bounds_for(1)[0]
        ends = np.union1d(edges, np.clip(np.arange(low, high) + 0.5, edges[0], edges[-1]))
        middle = 0.5 * (ends[1:] + ends[:-1])
        q, cell = self.at_records(middle), cell_of(middle, edges)
        shares = moments_of(np.ones_like, ends, edges, cell) @ OF_MOMENTS
        found = [shares[cell == c].T @ q[cell == c] for c in range(len(edges) - 1)]
        return np.concatenate(found)

    def at_record(self, y):
        """q of each release given the record."""
        return self.at_records(y)[0]

    def at_records(self, y):
        """q of each release given each record: (records, releases)."""
        k = np.clip(np.floor(np.ravel(y) + 0.5), *self.mechanism.bounds_for(1)[0])
        different, of = np.unique(k, return_inverse=True)
        # not ``log_density``, which refuses places between integers, as nodes are where noise is wide
        return np.exp(self.mechanism.log_densities_given(self.places[:, None], different[:, None]))[of]


class OfPolynomials(OneByOne):
    """A channel whose releases' probabilities are polynomials of the record."""

    def __init__(self, mechanism, places):
        self.mechanism, self.places = mechanism, places

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
    channel = mechanism._lower(n_records=len(places), n_features=1)
    if mechanism.piece_shape == "mean":
        return OfCoins(channel, places, mechanism.bounds_for(1)[0])
    return InPieces(channel, places)
