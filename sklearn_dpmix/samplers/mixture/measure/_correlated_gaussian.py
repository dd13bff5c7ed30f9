"""Atoms of correlated normals under Gaussian noise that nothing is clamped before: a release is normal, too."""

import numpy as np

from ...._base.compiled import apart_sums, compiled, helper
from ...._base.linear import add_square, factor_above, invert_triangle, log_diagonal
from ...._base.numeric import HALF_LOG_2PI
from ...._base.vector import exp_bounded
from ._correlated_atoms import CorrelatedChart
from ._correlated_splits import invert
from ._walk_atoms import at, row


class CorrelatedGaussianChart(CorrelatedChart):
    """A release of N(μ, Σ) is N(μ, Σ + η²I), so that nothing is kept beside it."""

    longest = 10.0  # along a bent curve more atoms or fewer do as well, and one way leads to another by many moves

    def narrowest(self):
        """Zero: features that go together may leave next to no spread across."""
        return np.zeros(self.n_features)

    @compiled
    def fill(self, channel, walk, k):
        fill_table(self, walk, k)


@apart_sums
def fill_table(chart, walk, k):
    """Densities of the releases under atom k, and their derivatives.

    With S = Σ + η²I and a = S⁻¹(z - μ), log g has derivatives a by μ, and (a'Ca - tr S⁻¹C)/2 where Σ has C.  By log s_j
    C is 2 l l' with l = L_j; by t_ij, -(b c' + c b') with b column i of T⁻¹ and c that of Σ, j.
    """
    n, d, tables, nodes, score, g = walk.n_nodes, chart.n_features, walk.tables, walk.nodes, walk.score, row(walk, k)
    inverse, covariance = chart.inner, chart.first
    spread(chart, walk, at(walk, k))
    constant = log_diagonal(inverse, d) - d * HALF_LOG_2PI
    for m in range(n):
        tables[g + m] = 0.0
    for i in range(d):  # K (z - μ), K'K = S⁻¹, into row i of ``score``
        e = i * n
        for m in range(n):
            score[e + m] = 0.0
        for j in range(i + 1):
            c, z, mean = inverse[i, j], 2 * j * n, chart.mean[j]
            for m in range(n):
                score[e + m] += c * (nodes[z + m] - mean)
        for m in range(n):
            tables[g + m] += score[e + m] * score[e + m]
    for m in range(n):
        tables[g + m] = exp_bounded(min(constant - 0.5 * tables[g + m], 700.0))
    for j in range(d):  # a into row d + j
        a, of_mean = (d + j) * n, g + (1 + 2 * j) * n
        for m in range(n):
            score[a + m] = 0.0
        for i in range(j, d):
            c, e = inverse[i, j], i * n
            for m in range(n):
                score[a + m] += c * score[e + m]
        for m in range(n):
            tables[of_mean + m] = tables[g + m] * score[a + m]
    for j in range(d):
        for i in range(d):
            chart.direction[i] = chart.root[i, j] if i >= j else 0.0
        add_curvature(chart, walk, g, g + (2 + 2 * j) * n, chart.direction, chart.direction, 1.0)
    for i in range(1, d):
        for r in range(d):
            chart.direction[r] = chart.inverse[r, i] if r >= i else 0.0
        for j in range(i):
            for r in range(d):
                chart.trial[r] = covariance[max(r, j), min(r, j)]
            to = g + (1 + 2 * d + i * (i - 1) // 2 + j) * n
            add_curvature(chart, walk, g, to, chart.direction, chart.trial, -1.0)


@helper
def spread(chart, walk, a):
    """Work out μ, T⁻¹ and L of the atom that begins at ``a``, Σ into ``chart.first`` and K into ``chart.inner``."""
    d, root, covariance = chart.n_features, chart.second, chart.first
    noise = 1.0 / walk.nodes[walk.n_nodes]  # of one scale: that of the first release
    invert(chart, walk, a)
    for i in range(d):
        for j in range(i + 1):
            covariance[i, j] = 0.0
    add_square(chart.root, 1.0, covariance, d)
    for i in range(d):
        for j in range(i + 1):
            root[i, j] = covariance[i, j] + (noise * noise if i == j else 0.0)
    factor_above(root, d, noise * noise)
    invert_triangle(root, chart.inner, d)


@apart_sums
def add_curvature(chart, walk, g, to, b, c, sign):
    """Write g (b'a c'a - b'S⁻¹c), with this sign, from ``to`` on in the tables."""
    n, d, inverse, score, tables, mean = walk.n_nodes, chart.n_features, chart.inner, walk.score, walk.tables, 0.0
    for i in range(d):
        first, second = 0.0, 0.0
        for j in range(i + 1):
            first += inverse[i, j] * b[j]
            second += inverse[i, j] * c[j]
        mean += first * second
    first, second = 2 * d * n, (2 * d + 1) * n
    for m in range(2 * n):
        score[first + m] = 0.0
    for i in range(d):
        a, of_b, of_c = (d + i) * n, b[i], c[i]
        for m in range(n):
            score[first + m] += of_b * score[a + m]
            score[second + m] += of_c * score[a + m]
    for m in range(n):
        tables[to + m] = sign * tables[g + m] * (score[first + m] * score[second + m] - mean)
