"""Atoms of correlated normals of two features, clamped before wide Gaussian noise: releases see moments of records.

Let y be a clamped record, each feature of it scaled to [-1, 1].  Noise not much narrower than the bounds makes q(z | y)
so smooth in y that it is a polynomial of low degree, q(z | y) = Σ_i c_i(z_1) T_i(y_1) Σ_j c_j(z_2) T_j(y_2), T
Chebyshev's.  So g(z) = Σ_ij c_i(z_1) c_j(z_2) E[T_i(y_1) T_j(y_2)]: the c are looked up, and moments are the same for
all releases.
"""

from functools import lru_cache

import numpy as np
from numpy.polynomial import chebyshev

from ...._base.compiled import apart, apart_sums, compiled, helper
from ...._base.numeric import INV_SQRT_2PI
from ._clamped_moments import SIDE, fill_sums, moment_fields
from ._correlated_gaussian import CorrelatedGaussianChart
from ._correlated_splits import invert
from ._walk_atoms import at, row

DEGREES = range(2 * SIDE - 1, 32, SIDE)
ERROR = 1e-7  # of q(z | y), relative to it, or to what it is FAR away
FAR, FARTHEST = 6.0, 10.0  # standard deviations of the noise: hardly ever more; where noise is taken to end


def coefficients(places, noise, low, high, degree):
    """c_i(z) of releases of one feature, (degree + 1, releases)."""
    centre, half = 0.5 * (low + high), 0.5 * (high - low)
    z = np.clip(places, low - FARTHEST * noise, high + FARTHEST * noise)
    points = np.cos(np.pi * (np.arange(degree + 1) + 0.5) / (degree + 1))
    u = (z - (centre + half * points[:, None])) / noise
    values = np.exp(-0.5 * u * u) * (INV_SQRT_2PI / noise)
    return np.linalg.solve(chebyshev.chebvander(points, degree), values)


@lru_cache
def degree_for(ratio):
    """The least degree that is exact enough where half the range is ``ratio`` times the noise, or None."""
    z, y = np.linspace(0.0, ratio + FAR, 60), np.linspace(-1.0, 1.0, 200)
    exact, least = (np.exp(-0.5 * t * t) * INV_SQRT_2PI for t in (z - ratio * y[:, None], np.array(FAR)))
    for degree in DEGREES:
        found = chebyshev.chebvander(y, degree) @ coefficients(z, 1.0, -ratio, ratio, degree)
        if np.max(np.abs(found - exact) / np.maximum(exact, least)) < ERROR:
            return degree
    return None


def degree_of(channel):
    """The degree for a channel's value: of Gaussian noise of one scale, with bounds."""
    ratios = 0.5 * (channel.high - channel.low) / channel.noise[0]
    return degree_for(float(np.max(ratios))) if np.all(np.isfinite(ratios)) else None


class CorrelatedClampedChart(CorrelatedGaussianChart):
    """g by moments, which are the same for all releases."""

    longest = 2.0  # more gave less for their time where it was tried (100,000 records, ε = 50)

    def lookup(self, mechanism, places, *scales):
        channel, degree = self.channel, degree_of(self.channel)
        bounds = zip(places, channel.low, channel.high, strict=True)
        return np.vstack([coefficients(z, channel.noise[0], low, high, degree) for z, low, high in bounds])

    def fields(self):
        channel = self.channel
        return super().fields() | moment_fields(channel.low, channel.high, channel.noise[0], degree_of(channel))

    @compiled
    def fill(self, channel, walk, k):
        fill_table(self, walk, k)


# --- compiled --------------------------------------------------------------------------------------------------------


@apart
def fill_table(chart, walk, k):
    """Densities of the releases under atom k, and their derivatives."""
    n, g, size = walk.n_nodes, row(walk, k), chart.degree + 1
    invert(chart, walk, at(walk, k))
    fill_sums(chart)
    combine(chart)
    for m in range(walk.width * n):
        walk.tables[g + m] = 0.0
    for i in range(0, size, SIDE):
        for j in range(0, size - i, SIDE):
            add_block(chart, walk, 0, i, j, g)
    for m in range(n):
        walk.tables[g + m] = max(walk.tables[g + m], 0.0)
    for e in range(1, walk.width):
        add_block(chart, walk, e, 0, 0, g + e * n)


@helper
def combine(chart):
    """Moments for g's derivatives by the coordinates, in place of those for derivatives by μ and Σ.

    Where Σ has a derivative C, g has half of Σ_ab C_ab ∂²g/∂μ_a∂μ_b.  C is 2 l l' by log s_j, l = L_j; by t_10 it is
    -(b c' + c b') with column 1 of T⁻¹ and column 0 of Σ.
    """
    sums, root, half = chart.sums, chart.root, chart.half
    a, b, c = root[0, 0] / half[0], root[1, 0] / half[1], root[1, 1] / half[1]
    for i in range(SIDE):
        for j in range(SIDE):
            first, second = sums[1, i, j], sums[2, i, j]
            of_first, of_both, of_second = sums[3, i, j], sums[4, i, j], sums[5, i, j]
            sums[1, i, j] = first / half[0]
            sums[2, i, j] = a * a * of_first + 2.0 * a * b * of_both + b * b * of_second
            sums[3, i, j] = second / half[1]
            sums[4, i, j] = c * c * of_second
            sums[5, i, j] = -root[0, 0] / half[1] * (a * of_both + b * of_second)


@apart_sums
def add_block(chart, walk, e, i, j, to):
    """Add Σ c_i(z_1) c_j(z_2) times a moment, over four i and four j, at all nodes."""
    n, nodes, tables, c = walk.n_nodes, walk.nodes, walk.tables, chart.sums
    x, y = (1 + i) * n, (3 + chart.degree + j) * n
    c00, c01, c02, c03 = c[e, i, j], c[e, i, j + 1], c[e, i, j + 2], c[e, i, j + 3]
    c10, c11, c12, c13 = c[e, i + 1, j], c[e, i + 1, j + 1], c[e, i + 1, j + 2], c[e, i + 1, j + 3]
    c20, c21, c22, c23 = c[e, i + 2, j], c[e, i + 2, j + 1], c[e, i + 2, j + 2], c[e, i + 2, j + 3]
    c30, c31, c32, c33 = c[e, i + 3, j], c[e, i + 3, j + 1], c[e, i + 3, j + 2], c[e, i + 3, j + 3]
    for m in range(n):
        y0, y1, y2, y3 = nodes[y + m], nodes[y + n + m], nodes[y + 2 * n + m], nodes[y + 3 * n + m]
        value = nodes[x + m] * (c00 * y0 + c01 * y1 + (c02 * y2 + c03 * y3))
        value += nodes[x + n + m] * (c10 * y0 + c11 * y1 + (c12 * y2 + c13 * y3))
        value += nodes[x + 2 * n + m] * (c20 * y0 + c21 * y1 + (c22 * y2 + c23 * y3))
        value += nodes[x + 3 * n + m] * (c30 * y0 + c31 * y1 + (c32 * y2 + c33 * y3))
        tables[to + m] += value
