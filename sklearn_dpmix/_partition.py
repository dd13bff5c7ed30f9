"""A partition that stands for draws of partitions: the one of least expected loss, after Dahl, Johnson, Müller (2022).

Write a, b, m for the sizes of a cluster of the candidate, of a cluster of a draw, and of what they share.  Both losses
are sums of a term d(m, a, b) over such pairs of clusters: m(a + b - 2m) for "binder", m log2(ab/m²) for "vi".
Collected by sizes they are Σ f(a) + Σ f(b) - 2 Σ f(m), with f(x) = x² or x log2 x; so putting an item into a cluster
changes few terms of the sum, and the search never computes a loss anew.
"""

import numbers
from math import inf
from typing import NamedTuple

import numpy as np

from ._compiled import Component, compiled, entry, helper, lower

__all__ = ["expected_loss", "point_partition", "similarity"]

UNPLACED = -1  # the label of an item that is in no cluster yet
N_BYTES = 2**18  # of a block of pairs in ``similarity``, so that it stays in a processor's cache


def expected_loss(labels, label_draws, loss):
    """Return the mean over draws of the loss between a partition and the draw.

    Parameters
    ----------
    labels : array-like of int, shape (n,)
        The partition: items are together where their labels are equal.
    label_draws : array-like of int, shape (n_draws, n)
        Draws of the partition.
    loss : {"binder", "vi"}
        "binder": the share of the n(n - 1)/2 pairs of items that one partition has together and the other apart [1]_,
        between 0 and 1; it is one minus Rand's index.  "vi": the variation of information H(c | c') + H(c' | c) in bits
        [2]_, between 0 and log2(n).

    Returns
    -------
    float
        Exactly 0 where every draw is the partition itself.

    Raises
    ------
    ValueError
        For an unknown loss, and for labels that are not integers or whose shapes do not fit.

    Notes
    -----
    O(n n_draws log n) time, O(n n_draws) memory.  The mean is over the draws themselves, not Jensen's lower bound of
    the expected variation of information, which [3]_ computes from the similarity matrix.

    References
    ----------
    .. [1] Binder (1978), Bayesian cluster analysis.  Biometrika 65, 31-38.
    .. [2] Meilă (2007), Comparing clusterings: an information based distance.  J. Multivariate Analysis 98, 873-895.
    .. [3] Wade, Ghahramani (2018), Bayesian cluster analysis: point estimation and credible balls.  Bayesian Analysis
       13, 559-626.

    Examples
    --------
    >>> from sklearn_dpmix._partition import expected_loss
    >>> expected_loss([0, 0, 1, 1], [[0, 0, 1, 1], [0, 0, 0, 0]], "vi")
    0.5
    """
    kind, label_draws = _loss(loss), _label_draws(label_draws)
    labels = _integers("labels", labels, "one label an item")
    if labels.shape != (label_draws.shape[1],):
        raise ValueError(
            f"labels must have shape ({label_draws.shape[1]},), one label for each column of label_draws, got shape "
            f"{labels.shape}"
        )
    return _mean_loss(kind, np.unique(labels, return_inverse=True)[1], _rows(label_draws))


def point_partition(label_draws, loss="vi", *, n_starts=16, max_clusters=None, rng):
    """Return a partition of least expected loss: Bayes' estimate of the partition, up to the search.

    The search is greedy, from several starts.  A start puts the items one by one, in random order, each where it costs
    least given the items before it; every other start takes a random draw instead.  Then items are moved one at a
    time, to another cluster or to one of their own, and pairs of clusters are merged, until neither lowers the
    expected loss.  The best of the starts is returned: a local optimum, not surely the global one.

    Parameters
    ----------
    label_draws : array-like of int, shape (n_draws, n)
        Draws of the partition; which integers they use does not matter.
    loss : {"binder", "vi"}, default="vi"
        See :func:`expected_loss`.
    n_starts : int, default=16
        Number of starts.
    max_clusters : int, optional
        The most clusters that the partition may have.  None: no bound.
    rng : numpy.random.Generator
        Chooses the starts; given these, nothing is random.

    Returns
    -------
    labels : ndarray of int64, shape (n,)
        Consecutive from 0, the largest cluster first; of equal ones, the one that comes first among the items.
    expected_loss : float
        That of ``labels``, as :func:`expected_loss` computes it.

    Raises
    ------
    ValueError
        For an unknown loss, labels that are not integers or not of two axes, counts below 1, and an ``rng`` that is no
        generator.

    Notes
    -----
    With K clusters of the candidate and R the sum over draws of their numbers of clusters:

    - "binder" keeps the (n, n) matrix of :func:`similarity`, and the sums of its rows over each cluster, (K, n).  A
      pass over the items takes O(nK), and O(n) more for each item that moves.
    - "vi" keeps how many items each cluster of each draw shares with each of the candidate, (R, K), and (n, n_draws)
      row numbers of that table.  A pass over the items takes O(n n_draws K).

    The algorithm is after [1]_: sequential allocation, then reallocation.  The merging is ours, and so are the starts
    from draws.

    References
    ----------
    .. [1] Dahl, Johnson, Müller (2022), Search algorithms and loss functions for Bayesian clustering.  J. Computational
       and Graphical Statistics 31, 1189-1201.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix._partition import point_partition
    >>> label_draws = [[7, 7, 7, 2, 2], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]]
    >>> labels, loss = point_partition(label_draws, "binder", rng=np.random.default_rng(0))
    >>> labels
    array([0, 0, 0, 1, 1])
    >>> round(loss, 6)  # of ten pairs, one draw has four wrong
    0.133333
    """
    kind, label_draws = _loss(loss), _label_draws(label_draws)
    _check_count("n_starts", n_starts)
    if max_clusters is not None:
        _check_count("max_clusters", max_clusters)
    if not isinstance(rng, np.random.Generator):
        raise ValueError(f"rng must be a numpy.random.Generator, got {rng!r}: pass numpy.random.default_rng(seed)")
    n_draws, n = label_draws.shape
    rows = _rows(label_draws)
    limit = n if max_clusters is None else min(max_clusters, n)
    model = kind._lower(rows=rows)
    capacity = min(limit, 8)
    best, least = None, inf
    for start in range(n_starts):
        order = rng.permutation(n)
        first = np.full(n, UNPLACED)
        if start % 2:
            t = rng.integers(n_draws)
            first = _by_size(rows[t] - rows[t].min())
            first[first >= limit] = UNPLACED
            capacity = max(capacity, first.max() + 1)
        while True:
            room = np.zeros(capacity, np.int64), kind.table(rows, capacity), np.empty(capacity)
            state = State(first.copy(), order, *room)
            if search(model, state, limit):
                break
            capacity = min(limit, 2 * capacity)  # and once more: growing the arrays inside is slow to compile
        value = _mean_loss(kind, state.labels, rows)
        if value < least:
            best, least = state.labels, value
    labels = _by_size(best)
    return labels, _mean_loss(kind, labels, rows)


def similarity(label_draws):
    """Return the share of the draws in which each two items are together.

    Parameters
    ----------
    label_draws : array-like of int, shape (n_draws, n)
        Draws of the partition.

    Returns
    -------
    ndarray of float64, shape (n, n)
        Symmetric, with ones on the diagonal.

    Raises
    ------
    ValueError
        For labels that are not integers, or not of two axes.

    Notes
    -----
    O(n² n_draws) comparisons of small integers, by blocks of rows; the memory is that of the result.
    """
    label_draws = _label_draws(label_draws)
    return _together(_rows(label_draws)) / len(label_draws)


# --- the partitions as numbers --------------------------------------------------------------------------------------


def _rows(label_draws):
    """Number the clusters of all draws consecutively, those of the first draw first: (n_draws, n) of int32."""
    rows = np.empty(label_draws.shape, dtype=np.int32)
    used = 0
    for t, labels in enumerate(label_draws):
        rows[t] = np.unique(labels, return_inverse=True)[1]
        rows[t] += used
        used = rows[t].max() + 1
    return rows


def _by_size(labels):
    """Renumber clusters from 0 by size downwards, ties by their first item."""
    _, first, labels, size = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    place = np.empty(len(size), dtype=np.int64)
    place[np.lexsort((first, -size))] = np.arange(len(size))
    return place[labels]


def _together(rows):
    """In how many draws each two items are together, (n, n) floats that are integers."""
    n_draws, n = rows.shape
    codes = rows - rows.min(axis=1, keepdims=True)
    codes = codes.astype(np.min_scalar_type(codes.max()))
    counts = np.empty((n, n))
    step = max(1, N_BYTES // n)
    for start in range(0, n, step):
        stop = min(start + step, n)
        block = np.zeros((stop - start, n - start))
        same = np.empty(block.shape, dtype=bool)
        for t in range(0, n_draws, 255):  # what a byte can count
            few = np.zeros(block.shape, dtype=np.uint8)
            for labels in codes[t : t + 255]:
                np.equal(labels[start:stop, None], labels[start:], out=same)
                few += same.view(np.uint8)
            block += few
        counts[start:stop, start:] = block
        counts[start:, start:stop] = block.T
    return counts


def _mean_loss(kind, labels, rows):
    """Expected loss of a partition with labels 0, 1, ...: the sum of d(m, a, b) over what clusters share, if anything.

    No term is negative, and one of equal clusters is exactly 0; the same sum collected by sizes would cancel.
    """
    n_draws, n = rows.shape
    cells, m = np.unique(rows.astype(np.int64) * (labels.max() + 1) + labels, return_counts=True)
    row, k = np.divmod(cells, labels.max() + 1)
    a, b = np.bincount(labels)[k], np.bincount(rows.ravel())[row]
    return float(np.sum(kind.disagreement(m, a, b)) / (n_draws * kind.scale(n)))


# --- losses: what the search knows of them --------------------------------------------------------------------------


class BinderLoss(Component):
    """Pairs of items on which partitions disagree.

    Putting item i into cluster k changes the pairs by Σ_{j in k} (1 - 2π_ij), where π is the similarity.  Here costs
    are n_draws times that: integers, so floats without rounding.  Table: Σ_{j in k} n_draws π_ij at (k, i).
    """

    @staticmethod
    def scale(n):
        return max(n * (n - 1), 1)  # d counts each pair twice

    @staticmethod
    def disagreement(m, a, b):
        return m * (a + b - 2 * m)

    def _lower(self, *, rows):
        together = _together(rows)
        np.fill_diagonal(together, 0.0)  # an item's own cluster is then as any other
        return lower(type(self), {"together": together, "n_draws": float(len(rows)), "tolerance": 0.5})

    def table(self, rows, capacity):
        return np.zeros((capacity, rows.shape[1]))

    @compiled
    def fill_costs(self, table, size, n_clusters, i, own, cost):
        for k in range(n_clusters):
            cost[k] = self.n_draws * (size[k] - (k == own)) - 2.0 * table[k, i]

    @compiled
    def shift(self, table, i, k, sign):
        for j in range(table.shape[1]):
            table[k, j] += sign * self.together[i, j]

    @compiled
    def fill_merge_costs(self, table, labels, size, n_clusters, k, cost):
        for l in range(k + 1, n_clusters):
            cost[l] = self.n_draws * size[k] * size[l]
        for i in range(labels.size):
            if labels[i] == k:
                for l in range(k + 1, n_clusters):
                    cost[l] -= 2.0 * table[l, i]

    @compiled
    def merge(self, table, k, l):
        for j in range(table.shape[1]):
            table[k, j] += table[l, j]
            table[l, j] = 0.0


class VariationOfInformation(Component):
    """Variation of information, in bits.

    With f(x) = x log2 x, putting item i into cluster k changes n times the loss from a draw by
    f(a + 1) - f(a) - 2 (f(m + 1) - f(m)), where m counts the items that k shares with the draw's cluster of i.  Here
    costs are n_draws/2 times the mean of that over draws.  Table: m at (cluster of a draw, k).
    """

    @staticmethod
    def scale(n):
        return n

    @staticmethod
    def disagreement(m, a, b):
        return m * np.log2(a * b / (m * m))

    def _lower(self, *, rows):
        n_draws, n = rows.shape
        x, at_least_1 = np.arange(n + 1.0), np.maximum(np.arange(n + 1.0), 1.0)
        step = np.log2(x + 1.0) + x * np.log1p(1.0 / at_least_1) / np.log(2.0)  # f(x + 1) - f(x), without cancellation
        fields = {"rows": rows.T, "f": x * np.log2(at_least_1), "step": step, "n_draws": float(n_draws)}
        return lower(type(self), fields | {"tolerance": 1e-9 * n_draws})

    def table(self, rows, capacity):
        return np.zeros((rows.max() + 1, capacity), dtype=np.int32)

    @compiled
    def fill_costs(self, table, size, n_clusters, i, own, cost):
        for k in range(n_clusters):
            cost[k] = 0.5 * self.n_draws * self.step[size[k] - (k == own)]
        for t in range(self.rows.shape[1]):
            row = self.rows[i, t]
            for k in range(n_clusters):
                cost[k] -= self.step[table[row, k] - (k == own)]

    @compiled
    def shift(self, table, i, k, sign):
        for t in range(self.rows.shape[1]):
            table[self.rows[i, t], k] += sign

    @compiled
    def fill_merge_costs(self, table, labels, size, n_clusters, k, cost):
        for l in range(k + 1, n_clusters):
            cost[l] = 0.5 * self.n_draws * (self.f[size[k] + size[l]] - self.f[size[k]] - self.f[size[l]])
        for row in range(table.shape[0]):
            m = table[row, k]
            if m > 0:  # else nothing changes; so small clusters cost little, however many they are
                for l in range(k + 1, n_clusters):
                    other = table[row, l]
                    cost[l] -= self.f[m + other] - self.f[m] - self.f[other]

    @compiled
    def merge(self, table, k, l):
        for row in range(table.shape[0]):
            table[row, k] += table[row, l]
            table[row, l] = 0


LOSSES = {"binder": BinderLoss(), "vi": VariationOfInformation()}


# --- the search, compiled -------------------------------------------------------------------------------------------


class State(NamedTuple):
    """Where the search stands: the clusters 0, ..., K - 1 have items, and the arrays have room for ``size.size``."""

    labels: np.ndarray  # of each item
    order: np.ndarray  # in which items are taken
    size: np.ndarray  # of each cluster
    table: np.ndarray  # what the loss keeps of each cluster
    cost: np.ndarray  # of putting the item at hand into each cluster


@entry
def search(model, state, limit):
    """Search from ``state.labels``, with at most ``limit`` clusters; `model` is the loss.

    Each move lowers the expected loss by more than the tolerance, so it ends.  Return whether the arrays have had room
    for all clusters; where not, the state is of no use.
    """
    n_clusters = enter_labelled(model, state)
    n_before = -1
    while n_clusters != n_before:
        n_moves = -1
        while n_moves != 0:
            n_clusters, n_moves = reallocate(model, state, n_clusters, limit)
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
            model.shift(state.table, i, k, 1)
            state.size[k] += 1
            n_clusters = max(n_clusters, k + 1)
    return n_clusters


@helper
def reallocate(model, state, n_clusters, limit):
    """Put each item where it costs least given the others; the first pass so places what is in no cluster yet.

    Return (the number of clusters, that of the moves).  One cluster more than there is room for: the pass has stopped.
    """
    n_moves = 0
    for i in state.order:
        own = state.labels[i]
        to = cheapest(model, state, n_clusters, limit, i, own)
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
def cheapest(model, state, n_clusters, limit, i, own):
    """The cluster where item i costs least: its own unless another is better by the tolerance; a new one costs 0."""
    model.fill_costs(state.table, state.size, n_clusters, i, own, state.cost)
    best, least = own, inf
    if own != UNPLACED:
        least = state.cost[own] - model.tolerance
    for k in range(n_clusters):
        if k != own and state.cost[k] < least:
            best, least = k, state.cost[k]
    return n_clusters if n_clusters < limit and least > 0.0 else best


@helper
def put(model, state, i, k, sign):
    """Enter item i into cluster k, or with sign -1 take it out."""
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


# --- checks ---------------------------------------------------------------------------------------------------------


def _loss(loss):
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}, got loss={loss!r}")
    return LOSSES[loss]


def _label_draws(label_draws):
    label_draws = _integers("label_draws", label_draws, "one row a draw, one column an item")
    if label_draws.ndim != 2 or label_draws.size == 0:
        raise ValueError(
            f"label_draws must have shape (n_draws, n) with at least one draw and one item, got shape "
            f"{label_draws.shape}: one row a draw (of all chains, one after the other), one column an item"
        )
    return label_draws


def _integers(name, labels, shape):
    """Return labels as an array of integers."""
    try:
        array = np.asarray(labels)
    except ValueError:
        raise ValueError(f"{name} must be an array, {shape}, but its rows differ in length") from None
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"{name} must be integers, {shape}, got an array of {array.dtype}: number the clusters, for instance by "
            "numpy.unique(..., return_inverse=True)"
        )
    return array


def _check_count(name, value):
    if not isinstance(value, numbers.Integral) or isinstance(value, bool) or value < 1:
        raise ValueError(f"{name} must be an integer of at least 1, got {name}={value!r}")
