"""Weighted releases that stand for many of one feature whose noise has different scales.

The log density of a release is as smooth in the logarithm of its noise's scale as in its place.  Releases of one scale
give way to Gauss rules of theirs (``nodes``).  Where there are many scales, those of a band are taken together, and
the releases of each box of places and scales give way to some of them, with the same moments (``nodes_of_several``).
"""

import numpy as np

from .nodes import Nodes, compress
from .nodes_of_several import cells_of, compress_boxes

FEW_OF_EACH = 8  # releases of one scale: nodes for them would hardly be fewer
FEW_SCALES = 6  # in a band, up to which each has rules of its own: they have fewer nodes than moments of both


def compress_scaled(z, scales, band, edges_between):
    """Nodes for releases.

    Parameters
    ----------
    z, scales : ndarray of shape (n,)
    band : float or None
        Width of a band of log scales; None: releases of each scale are taken by themselves.
    edges_between : callable
        Edges of cells from the first to the last of some places, in increasing order, for noise of this scale or a
        larger one: ``edges_between(places, scale)``.

    Returns
    -------
    places, scales, weights : ndarray of shape (n_nodes,), places in increasing order
    """
    if band is None:
        return of_each_scale(z, scales, edges_between)
    distinct, of_each = np.unique(scales, return_inverse=True)
    bands = np.floor(np.log(distinct / distinct[0]) / band).astype(np.int64)
    found = []
    for number in np.unique(bands):
        members = np.flatnonzero(bands == number)
        if len(members) <= FEW_SCALES:
            for member in members:
                places, weights = rules_of(z[of_each == member], distinct[member], edges_between)
                found.append((places, np.full(len(places), distinct[member]), weights))
        else:
            rows = np.flatnonzero(bands[of_each] == number)
            found.append(box_nodes(z[rows], scales[rows], edges_between))
    return in_order(found)


def in_order(found):
    """Nodes (places, scales, weights) of several parts, in order of their places."""
    nodes = np.concatenate(found, axis=1)
    return nodes[:, np.argsort(nodes[0], kind="stable")]


def of_each_scale(z, scales, edges_between):
    """Nodes for releases of each scale by themselves; those of a scale that few have are nodes."""
    order = np.argsort(scales, kind="stable")
    starts = np.flatnonzero(np.diff(scales[order], prepend=-1.0))
    counts = np.diff(starts, append=len(z))
    rare = order[np.repeat(counts < FEW_OF_EACH, counts)]
    found = [(z[rare], scales[rare], np.ones(len(rare)))]
    for start, count in zip(starts, counts, strict=True):
        if count >= FEW_OF_EACH:
            rows = order[start : start + count]
            places, weights = rules_of(z[rows], scales[rows[0]], edges_between)
            found.append((places, np.full(len(places), scales[rows[0]]), weights))
    return in_order(found)


def rules_of(z, scale, edges_between):
    """Nodes for releases of one scale."""
    places, counts = np.unique(z, return_counts=True)
    nodes = Nodes(places, counts.astype(np.float64))
    if len(places) > 1:
        nodes = compress(nodes, edges_between(places, scale))
    return nodes


def box_nodes(z, scales, edges_between):
    """Nodes for releases of a band."""
    places = np.unique(z)
    cell = cells_of(z, edges_between(places, scales.min())) if len(places) > 1 else np.zeros(len(z))
    kept, weights = compress_boxes(np.column_stack([z, np.log(scales)]), cell)
    return z[kept], scales[kept], weights
