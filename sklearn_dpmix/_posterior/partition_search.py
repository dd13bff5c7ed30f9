"""The greedy search for a partition with least expected loss, compiled: first single items, then pairs of clusters."""

from math import inf
from typing import NamedTuple

import numpy as np

from .._base.compiled import entry, helper

UNPLACED = -1  # the label of an item that is in no cluster yet


class State(NamedTuple):
    """Where the search stands: the clusters 0, ..., K - 1 have items, and the arrays have room for ``size.size``."""

    labels: np.ndarray  # of each item
    order: np.ndarray  # in which items are taken
    size: np.ndarray  # of each cluster
    table: np.ndarray  # what the loss keeps of each cluster
    cost: np.ndarray  # of putting the item at hand into each cluster


@entry
def search(model, state):
    """Search from ``state.labels``; `model` is the loss.

    Each move lowers the expected loss by more than the tolerance, so the search ends.  Return whether the arrays had
    room for all clusters; if not, the state is of no use.
    """
    n_clusters = enter_labelled(model, state)
    n_before = -1
    while n_clusters != n_before:
        n_moves = -1
        while n_moves != 0:
            n_clusters, n_moves = reallocate(model, state, n_clusters)
            if n_clusters > state.size.size:
                return False
        n_before = n_clusters
        n_clusters = merge_pairs(model, state, n_clusters)
    return True


@helper
def enter_labelled(model, state):
    """Enter the items that have a label; return the number of clusters."""
    n_clusters = 0
    for i in range(state.labels.size):
        k = state.labels[i]
        if k != UNPLACED:
            put(model, state, i, k, 1)
            n_clusters = max(n_clusters, k + 1)
    return n_clusters


@helper
def reallocate(model, state, n_clusters):
    """Put each item where it costs least given the others; the first pass also places items that are in no cluster yet.

    Return (number of clusters, number of moves).  If there is one cluster more than there is room for, the pass has
    stopped.
    """
    n_moves = 0
    for i in state.order:
        own = state.labels[i]
        to = cheapest(model, state, n_clusters, i, own)
        if to == own:
            continue
        if to == state.size.size:
            return to + 1, n_moves
        n_moves += 1
        n_clusters = max(n_clusters, to + 1)
        put(model, state, i, to, 1)
        state.labels[i] = to
        if own != UNPLACED:
            put(model, state, i, own, -1)
            if state.size[own] == 0:
                n_clusters = close(model, state, own, n_clusters)
    return n_clusters, n_moves


@helper
def cheapest(model, state, n_clusters, i, own):
    """The cluster where item i costs least: its own unless another is better by the tolerance; a new one costs 0."""
    model.fill_costs(state.table, state.size, n_clusters, i, own, state.cost)
    best, least = own, inf
    if own != UNPLACED:
        least = state.cost[own] - model.tolerance
    for k in range(n_clusters):
        if k != own and state.cost[k] < least:
            best, least = k, state.cost[k]
    return n_clusters if least > 0.0 else best


@helper
def put(model, state, i, k, sign):
    """Put item i into cluster k, or take it out with sign -1."""
    model.shift(state.table, i, k, sign)
    state.size[k] += sign


@helper
def merge_pairs(model, state, n_clusters):
    """Merge each cluster with the one that lowers the expected loss most, if any; return the number of clusters."""
    k = 0
    while k < n_clusters:
        model.fill_merge_costs(state.table, state.labels, state.size, n_clusters, k, state.cost)
        best, least = k, -model.tolerance
        for l in range(k + 1, n_clusters):
            if state.cost[l] < least:
                best, least = l, state.cost[l]
        if best == k:
            k += 1
        else:
            join(model, state, k, best)
            n_clusters = close(model, state, best, n_clusters)
    return n_clusters


@helper
def close(model, state, k, n_clusters):
    """Give the number k of an empty cluster to the last one; return the number of clusters."""
    if k != n_clusters - 1:
        join(model, state, k, n_clusters - 1)
    return n_clusters - 1


@helper
def join(model, state, k, l):
    """Put all items of cluster l into cluster k."""
    model.merge(state.table, k, l)
    state.size[k] += state.size[l]
    state.size[l] = 0
    for i in range(state.labels.size):
        if state.labels[i] == l:
            state.labels[i] = k
