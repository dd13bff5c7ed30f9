"""A few hundred weighted nodes that stand for any number of releases.

The log likelihood of a population P is Σ_i log f_P(z_i), and f_P, a noised density, is smooth.  In each cell of the
line the records give way to the Gauss rule of their empirical measure: nodes inside the cell and positive weights,
exact for polynomials of degree below twice the number of nodes.  For all P at once the error is at most

    Σ_cells 2 n_c min over polynomials p of that degree of max_cell |log f_P - p|,

which falls geometrically.  A rule needs Chebyshev moments only, which add up over records, batches and files.  So the
records go into many narrow cells first (``fine_cells``), and the rules of those, a few thousand nodes, into wide ones.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np

FEW = 150  # records, up to which they are the nodes
N_NODES = 8  # of a cell's rule
NODE_SHARE = 0.18  # of a cell's width between nodes in its middle, and of its records for which one of them stands
MOST_EDGES = 2**20  # of cells of one width, whether records are in them or not
GROWTH = 1.3  # of the cells in the tails, where log f is nearly linear or quadratic


class Nodes(NamedTuple):
    """Places in increasing order and weights; the weights sum to the number of records."""

    places: np.ndarray
    weights: np.ndarray


def cell_edges(low, high, core_low, core_high, width, kinks=(), places=None):
    """Edges of cells from ``low`` to ``high``: of this width in the core, growing beyond it; kinks are edges.

    Where there would be more than ``MOST_EDGES`` in the core, only cells that hold one of ``places`` have that width.
    """
    ends = [low, *(kink for kink in kinks if low < kink < high), high]
    parts = [edges_between(*pair, core_low, core_high, width, places) for pair in pairwise(ends)]
    return np.concatenate([*(part[:-1] for part in parts[:-1]), parts[-1]])


def edges_around(places, width):
    """Edges of those cells of this width that have a place in them; places in order."""
    start = places[0] - width / 3.0  # no place is the first edge, of halves either
    cell = np.unique(np.floor((places - start) / width))
    return start + width * np.union1d(cell, cell + 1.0)


def halved(edges, nodes, narrowest, least=0.0):
    """These edges, with cells halved whose nodes would be farther apart than a component there or beside it is wide.

    The records for which a node stands would seem to lie at it, and a chain would find a component there that is far
    better than it should be.

    Parameters
    ----------
    edges : increasing ndarray
    nodes : Nodes
        The records, or narrow cells' nodes that stand for them.
    narrowest : function
        Width, in releases, of the narrowest component that a number of records at one place would lead to.
    least : float
        Cells are not halved to less.
    """
    cell, width = np.searchsorted(edges, nodes.places, side="right") - 1, np.diff(edges)
    is_inside = (cell >= 0) & (cell < len(width))  # finer nodes may be beyond edges that were laid for others
    n_places = np.bincount(cell[is_inside], minlength=len(width))
    at_one = NODE_SHARE * np.bincount(cell[is_inside], nodes.weights[is_inside], minlength=len(width))
    np.maximum.at(at_one, cell[is_inside], nodes.weights[is_inside])
    at_one = np.maximum(at_one, np.maximum(np.append(at_one[1:], 0.0), np.append(0.0, at_one[:-1])))  # it reaches there
    middle = edges[:-1] + 0.5 * width
    is_wide = (n_places > N_NODES) & (NODE_SHARE * width > narrowest(at_one)) & (0.5 * width >= least)
    can_halve = (edges[:-1] < middle) & (middle < edges[1:])  # there are numbers between
    return np.sort(np.append(edges, middle[is_wide & can_halve]))


def edges_between(low, high, core_low, core_high, width, places):
    """The same without a kink."""
    core_low, core_high = max(low, core_low), min(high, core_high)
    if not core_high > core_low:
        core_low, core_high = low, high
    n_core = max(1, int(np.ceil((core_high - core_low) / width)))
    if n_core <= MOST_EDGES or places is None:
        core = np.linspace(core_low, core_high, n_core + 1)
    else:
        step = (core_high - core_low) / n_core
        cell = np.clip(np.floor((places - core_low) / step), 0.0, n_core - 1.0)
        inner = core_low + step * np.union1d(cell, cell + 1.0)
        core = np.unique(np.clip([core_low, *inner, core_high], core_low, core_high))
    below, above = tail(core_low - low, width), tail(high - core_high, width)
    return np.concatenate([core_low - below[::-1], core, core_high + above])


def tail(length, width):
    """Distances of growing cells' outer edges from the core's end; the last one is at ``length``."""
    if not length > 0:
        return np.empty(0)
    n = int(np.ceil(np.log1p(length * (GROWTH - 1.0) / (GROWTH * width)) / np.log(GROWTH)))
    edges = width * GROWTH * (GROWTH ** np.arange(1, n + 1) - 1.0) / (GROWTH - 1.0)
    edges[-1] = length
    return edges


def compress(nodes, edges):
    """Fewer nodes for the measure of these, all of them between the first edge and the last.

    Nodes at the ends stay what they are: noise may have been moved there.

    Parameters
    ----------
    nodes : Nodes
        Also records, of weight 1.
    edges : increasing ndarray

    Returns
    -------
    nodes : Nodes
    """
    places, weights = nodes
    cell = np.searchsorted(edges, places, side="right") - 1
    is_inside = (places > edges[0]) & (places < edges[-1])
    size = np.bincount(cell[is_inside], minlength=len(edges) - 1)
    is_merged = is_inside & (size[np.minimum(cell, len(size) - 1)] > N_NODES)
    middle, half = 0.5 * (edges[1:] + edges[:-1]), 0.5 * np.diff(edges)
    rest, cell = np.unique(cell[is_merged], return_inverse=True)
    t = (places[is_merged] - middle[rest][cell]) / half[rest][cell]
    moments = np.empty((len(rest), 2 * N_NODES))
    before, now = t, np.ones(len(t))
    for p in range(2 * N_NODES):
        moments[:, p] = np.bincount(cell, weights[is_merged] * now, minlength=len(rest))
        before, now = now, (2.0 if p else 1.0) * t * now - (before if p else 0.0)
    in_cell, weight = gauss_rules(moments)
    is_node = weight > 0.0
    of_cells = (middle[rest, None] + half[rest, None] * in_cell)[is_node]
    return ordered(np.append(places[~is_merged], of_cells), np.append(weights[~is_merged], weight[is_node]))


def ordered(places, weights):
    """Nodes in order of their places."""
    order = np.argsort(places, kind="stable")
    return Nodes(places[order], weights[order])


def gauss_rules(moments):
    """Gauss rules of measures on [-1, 1] from their moments of Chebyshev polynomials T_0, T_1, ...

    The modified Chebyshev algorithm (Gautschi 2004, algorithm 2.1) gives the recurrence of the measure's own orthogonal
    polynomials, and the eigenvalues of its Jacobi matrix the nodes (Golub & Welsch 1969).  Where a measure has fewer
    places than a rule has nodes, it gets as many nodes as the recurrence has terms.

    Parameters
    ----------
    moments : ndarray of shape (n_cells, 2 n_nodes), the first column positive

    Returns
    -------
    places, weights : ndarrays of shape (n_cells, n_nodes); weight 0 where a cell has fewer nodes
    """
    n_cells, n_moments = moments.shape
    n_nodes = n_moments // 2
    total = moments[:, 0]
    monic = moments / total[:, None] * np.append(1.0, 2.0 ** (1 - np.arange(1, n_moments)))
    b = np.full(n_moments, 0.25)  # of the monic Chebyshev polynomials
    b[:2] = 0.0, 0.5
    alpha, beta = np.zeros((n_cells, n_nodes)), np.zeros((n_cells, n_nodes))
    size = np.full(n_cells, n_nodes)
    alpha[:, 0] = monic[:, 1]
    before, now = np.zeros_like(monic), monic.copy()
    with np.errstate(all="ignore"):
        for k in range(1, n_nodes):
            row = np.arange(k, n_moments - k)
            after = np.zeros_like(now)
            after[:, row] = now[:, row + 1] - alpha[:, k - 1, None] * now[:, row]
            after[:, row] += b[row] * now[:, row - 1] - beta[:, k - 1, None] * before[:, row]
            beta[:, k] = after[:, k] / now[:, k - 1]
            alpha[:, k] = after[:, k + 1] / after[:, k] - now[:, k] / now[:, k - 1]
            stops = ~(beta[:, k] > 1e-13) | ~(np.abs(alpha[:, k]) <= 1.0)
            size = np.where(stops & (size == n_nodes), k, size)
            before, now = now, after
    unused = np.arange(n_nodes) >= size[:, None]
    jacobi = np.zeros((n_cells, n_nodes, n_nodes))
    i = np.arange(n_nodes)
    jacobi[:, i, i] = np.where(unused, 3.0 + i, alpha)  # eigenvalues of their own, without weight
    off = np.sqrt(np.where(unused, 0.0, beta))[:, 1:]
    jacobi[:, i[1:], i[:-1]] = off
    places, vectors = np.linalg.eigh(jacobi)
    is_used = np.abs(places) < 2.0  # of places far from zero rounding may leave some beyond 1
    weights = total[:, None] * vectors[:, 0, :] ** 2
    return np.clip(places, -1.0, 1.0), np.where(is_used, weights, 0.0)
