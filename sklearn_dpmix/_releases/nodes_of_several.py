"""Weighted records that stand for many of several features: as ``nodes``, with moments of all features together.

Space is cut into boxes.  In each the records give way to some of them, with positive weights, that have the same
moments up to a total degree: of more records than moments some can always go (Carathéodory), and groups of records by
their means first, so that each round halves their number (Litterer & Lyons 2012).  Records moved to a bound are boxes
of their own, of fewer dimensions and so of fewer moments.
"""

from functools import cache
from math import comb

import numpy as np
from threadpoolctl import threadpool_limits

from .._base.distinct import distinct_rows
from .nodes import Nodes, cell_edges

DEGREES = {1: 15, 2: 9, 3: 5}  # of the moments that are kept, by the number of features that vary in a box
LEAST_DEGREE = 4  # of more features
AT_ONCE = 2**14  # records of a box whose moments are held at a time, unless there are as many moments
TOLERANCE = 1e-13  # relative, of a singular value that is taken for zero
LEAST_CHANGE = 1e-9  # relative, of a weight that a change may make vanish


def compress_records(records, widths, kinks=None):
    """Rows of some records, and weights, for boxes of these widths.

    Parameters
    ----------
    records : ndarray of shape (n_records, n_features)
    widths : ndarray of shape (n_features,)
    kinks : sequence of n_features arrays, optional
        Places that no box reaches across.

    Returns
    -------
    places : ndarray of shape (n_nodes, n_features)
    weights : ndarray of shape (n_nodes,), positive; they sum to the number of records
    """
    box = np.empty(records.shape)
    for j, (z, width) in enumerate(zip(records.T, widths, strict=True)):
        low, high = z.min(), z.max()
        edges = cell_edges(low, high, low, high, width, () if kinks is None else kinks[j], z)
        box[:, j] = cells_of(z, edges)
    _, box, _ = distinct_rows(box)
    kept, weights = compress_boxes(records, box)
    return records[kept], weights


def cells_of(z, edges):
    """The cell of each place; those at either end are in a cell of their own."""
    inside = np.searchsorted(edges, z, side="right")
    return np.where(z == edges[0], -1, np.where(z == edges[-1], len(edges), inside))


def compress_boxes(records, box, weights=None):
    """Numbers of some records, and weights, that have the moments of those in each box, numbered by ``box``.

    The records' own ``weights`` are 1 unless they are given.
    """
    n_features = records.shape[1]
    most = max(AT_ONCE, 4 * comb(n_features + degree_of(n_features), n_features))
    order = np.argsort(box.ravel(), kind="stable")
    weights = np.ones(len(records)) if weights is None else weights.copy()
    with threadpool_limits(limits=1):  # matrices are so small that threads would only wait for each other
        for rows in np.split(order, np.flatnonzero(np.diff(box.ravel()[order])) + 1):
            while len(rows) > most:  # a part that varies in fewer features keeps at least as many of their moments
                for part in np.array_split(rows, -(-len(rows) // most)):
                    weights[part] = reduced(moments(records[part]), weights[part])
                rows = rows[weights[rows] > 0.0]
            weights[rows] = reduced(moments(records[rows]), weights[rows])
    kept = np.flatnonzero(weights > 0.0)
    return kept, weights[kept]


def compress_places(nodes, edges):
    """As :func:`~sklearn_dpmix._releases.nodes.compress`, with nodes that are some of the places."""
    places, weights = nodes
    kept, weights = compress_boxes(places[:, None], cells_of(places, edges), weights)
    return Nodes(places[kept], weights)


def moments(places):
    """Products of Chebyshev polynomials up to a total degree, of the features that vary, in the box they fill."""
    low, high = places.min(axis=0), places.max(axis=0)
    varies = high > low
    n, low, high = int(varies.sum()), low[varies], high[varies]
    angle = np.arccos(np.clip(2.0 * (places[:, varies] - low) / (high - low) - 1.0, -1.0, 1.0))
    degree, values = degree_of(n), np.ones((len(places), 1))
    powers = powers_up_to(degree, n)
    for j in range(n):
        values = values * np.cos(np.outer(angle[:, j], [power[j] for power in powers]))
    return values


def degree_of(n_features):
    return DEGREES.get(n_features, LEAST_DEGREE)


@cache
def powers_up_to(degree, n):
    """All n-tuples of numbers from 0 on that add up to this degree or less, in order."""
    if n == 0:
        return [()]
    return [(first, *rest) for first in range(degree + 1) for rest in powers_up_to(degree - first, n - 1)]


def reduced(values, weights):
    """Weights, most of them 0, with the same sums of the columns of ``values``."""
    weights, rows, n_columns = weights.copy(), np.arange(len(weights)), values.shape[1]
    while True:
        groups = np.array_split(rows, min(2 * n_columns, len(rows)))
        starts = np.cumsum([0] + [len(group) for group in groups[:-1]])
        of_group = np.add.reduceat(weights[rows], starts)
        means = np.add.reduceat(weights[rows, None] * values[rows], starts) / of_group[:, None]
        left = eliminated(means, of_group)
        if np.all(left > 0.0):
            return weights
        weights[rows] *= np.repeat(left / of_group, [len(group) for group in groups])
        rows = rows[weights[rows] > 0.0]


def eliminated(values, weights):
    """The same for rows few enough to solve for: none is left that could go."""
    _, sizes, vectors = np.linalg.svd(values.T)
    free = vectors[np.sum(sizes > TOLERANCE * sizes[0]) :].copy()  # changes of weights that keep all sums
    weights = weights.copy()
    for i, change in enumerate(free):
        size = np.max(np.abs(change))
        if size < LEAST_CHANGE:
            continue
        change = change / (size if np.max(change) > LEAST_CHANGE * size else -size)
        steps = np.divide(weights, change, out=np.full(len(weights), np.inf), where=change > LEAST_CHANGE)
        gone = int(np.argmin(steps))
        weights = np.maximum(weights - steps[gone] * change, 0.0)
        weights[gone] = 0.0
        free[i + 1 :] -= np.outer(free[i + 1 :, gone] / change[gone], change)
        free[:, gone] = 0.0
    return weights
