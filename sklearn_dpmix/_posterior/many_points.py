"""Log densities of a mixture at many numbers, from those at few: polynomials on cells, halved until they are right.

The log density is computed at 33 Chebyshev points of a cell.  Where the polynomial through every second one is right
at the others to ``TOLERANCE``, the one through all, which is better still, gives the points in the cell; elsewhere the
cell is halved, down to cells of so few points that these are computed themselves.  Kinks and bounds therefore need no
care, and since cells are no wider than a few standard deviations of the atoms around them, no peak is overlooked.
"""

from collections.abc import Callable

import numpy as np
from numpy.polynomial import chebyshev

from .._base.typing import Array, Floats

MANY = 5_000  # different points, from which on polynomials save time
TOLERANCE = 1e-7  # of the log density
DEGREE = 32
FEW = 2 * (DEGREE + 1)  # points of a cell that are computed themselves
FIRST_CELLS = 32  # of equally many points
WIDEST = 8.0  # cells around an atom, in its standard deviations
OFTEN = 10  # how often a number is repeated that may be unlike its neighbours

NODES = -np.cos(np.pi * np.arange(DEGREE + 1) / DEGREE)
COEFFICIENTS = np.linalg.inv(chebyshev.chebvander(NODES, DEGREE))  # times values at NODES
BETWEEN = chebyshev.chebvander(NODES[1::2], DEGREE // 2) @ np.linalg.inv(
    chebyshev.chebvander(NODES[::2], DEGREE // 2)
)  # times every second value: those between


def log_density_at(points: Floats, exact: Callable[[Array], Floats], atoms: tuple[Floats, Floats]) -> Floats:
    """``exact(points)``, of shape (n,), to an error near 1e-7 if there are more than 5000 different points.

    ``exact`` takes points of shape (m,); ``atoms`` are the means and variances of the mixture's components.  A number
    that occurs often is computed itself: its probability may not be the density around it.
    """
    x, of, times = np.unique(points, return_inverse=True, return_counts=True)
    if len(x) <= MANY:
        return exact(x)[of]
    values, is_often = np.empty(len(x)), times >= OFTEN
    if is_often.any():
        values[is_often] = exact(x[is_often])
    rest = np.flatnonzero(~is_often)
    if len(rest):
        values[rest] = by_polynomials(x[rest], exact, edges_around(*atoms))
    return values[of]


def edges_around(mean: Floats, variance: Floats) -> Floats:
    """Ends of cells around each atom, 4 to 8 of its standard deviations wide; narrower ones fit into wider ones."""
    is_proper = np.isfinite(mean) & np.isfinite(variance) & (variance > 0.0)
    mean, octave = mean[is_proper], np.floor(0.5 * np.log2(variance[is_proper]))
    edges = [np.empty(0)]
    for k in np.unique(octave):
        width = WIDEST * 2.0**k
        edges.append(width * (np.unique(np.floor(mean[octave == k] / width))[:, None] + np.arange(-1.0, 3.0)).ravel())
    return np.concatenate(edges)


def by_polynomials(x: Floats, exact: Callable[[Array], Floats], edges: Floats) -> Floats:
    """``exact(x)`` for increasing x, first on cells between ``edges`` and others."""
    values, is_left = np.empty(len(x)), np.ones(len(x), dtype=bool)
    among = x[np.linspace(0, len(x) - 1, FIRST_CELLS + 1).astype(np.int64)]
    edges = np.unique(np.concatenate([among, edges[(edges > x[0]) & (edges < x[-1])]]))
    low, high = edges[:-1], edges[1:]
    while True:
        first, last = np.searchsorted(x, low), np.searchsorted(x, high)
        last[high == x[-1]] = len(x)
        middle = 0.5 * (low + high)
        is_many = (last - first > FEW) & (middle > low) & (middle < high)
        low, high, middle, first, last = (part[is_many] for part in (low, high, middle, first, last))
        if not len(low):
            break
        half = 0.5 * (high - low)
        found = exact((middle[:, None] + half[:, None] * NODES).ravel()).reshape(len(low), -1)
        with np.errstate(invalid="ignore"):
            is_right = np.abs(found[:, ::2] @ BETWEEN.T - found[:, 1::2]).max(axis=1) <= TOLERANCE  # nor nan
        for cell in np.flatnonzero(is_right):
            rows = slice(first[cell], last[cell])
            t = np.clip((x[rows] - middle[cell]) / half[cell], -1.0, 1.0)
            values[rows], is_left[rows] = chebyshev.chebval(t, COEFFICIENTS @ found[cell]), False
        low, middle, high = low[~is_right], middle[~is_right], high[~is_right]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    if is_left.any():
        values[is_left] = exact(x[is_left])
    return values
