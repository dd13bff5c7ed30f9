"""A partition that represents draws of partitions: the one with least expected loss (Dahl, Johnson, Müller 2022).

Write a, b, m for the sizes of a cluster of the candidate, of a cluster of a draw, and of what they share.  Both losses
are sums of a term d(m, a, b) over such pairs of clusters: m(a + b - 2m) for "binder", m log2(ab/m²) for "vi".
Collected by sizes they are Σ f(a) + Σ f(b) - 2 Σ f(m), with f(x) = x² or x log2 x; so putting an item into a cluster
changes few terms of the sum, and the search never computes a loss from scratch.
"""

from math import inf

import numpy as np

from .._base.distinct import distinct_rows
from .._base.parameters import positive_integer
from .partition_loss import LOSSES, count_together
from .partition_search import UNPLACED, State, search

__all__ = ["point_partition", "similarity"]


def point_partition(label_draws, loss="vi", *, n_starts=16, rng):
    """Return a partition with least expected loss, up to the search, and that loss.

    The search is greedy, from several starts.  A start places the items one by one, in random order, each where it
    costs least given the items before it; every other start takes a random draw instead.  Then items are moved one at a
    time, to another cluster or to one of their own, and pairs of clusters are merged, until neither lowers the expected
    loss.  The best result over the starts is returned: a local optimum, but not necessarily the global one.  The
    algorithm is after Dahl, Johnson & Müller (2022); the merging and the starts from draws are ours.

    Parameters
    ----------
    label_draws : array-like of int, shape (n_draws, n)
        Draws of the partition; which integers they use does not matter.
    loss : {"binder", "vi"}, default="vi"
        "binder": the share of the n(n - 1)/2 pairs of items that are together in one partition and apart in the other
        (Binder 1978), one minus the Rand index.  "vi": the variation of information H(c | c') + H(c' | c) in bits
        (Meilă 2007), between 0 and log2(n).
    n_starts : int, default=16
    rng : numpy.random.Generator
        Chooses the starts; nothing else is random.

    Returns
    -------
    labels : ndarray of int64, shape (n,)
        Consecutive from 0, the largest cluster first; among clusters of equal size, the one that comes first among the
        items.
    expected_loss : float
        The mean over draws of the loss between ``labels`` and the draw; exactly 0 if every draw is that partition.  It
        is not Jensen's lower bound of the expected variation of information, which Wade & Ghahramani (2018) compute
        from the similarity matrix.

    Notes
    -----
    With K clusters of the candidate and R the sum over draws of their numbers of clusters:

    - "binder" keeps the (n, n) matrix of :func:`similarity`, and the sums of its rows over each cluster, (K, n).  A
      pass over the items takes O(nK), and O(n) more for each item that moves.
    - "vi" keeps how many items each cluster of each draw shares with each of the candidate, (R, K), and (n, n_draws)
      row numbers of that table.  A pass over the items takes O(n n_draws K).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix._posterior.partition import point_partition
    >>> label_draws = [[7, 7, 7, 2, 2], [0, 0, 0, 1, 1], [0, 0, 1, 1, 1]]
    >>> labels, loss = point_partition(label_draws, "binder", rng=np.random.default_rng(0))
    >>> labels
    array([0, 0, 0, 1, 1])
    >>> round(loss, 6)  # of ten pairs, one draw has four wrong
    0.133333
    """
    kind, label_draws = _loss(loss), _label_draws(label_draws)
    positive_integer("n_starts", n_starts)
    n_draws, n = label_draws.shape
    rows = _rows(label_draws)
    model = kind._lower(rows=rows)
    capacity = min(n, 8)
    best, least = None, inf
    for start in range(n_starts):
        order = rng.permutation(n)
        first = np.full(n, UNPLACED)
        if start % 2:
            t = rng.integers(n_draws)
            first = _by_size(rows[t] - rows[t].min())
            capacity = max(capacity, first.max() + 1)
        while True:
            room = np.zeros(capacity, np.int64), kind.table(rows, capacity), np.empty(capacity)
            state = State(first.copy(), order, *room)
            if search(model, state):
                break
            capacity = min(n, 2 * capacity)  # and once more: growing the arrays inside is slow to compile
        value = _mean_loss(kind, state.labels, rows)
        if value < least:
            best, least = state.labels, value
    labels = _by_size(best)
    return labels, _mean_loss(kind, labels, rows)


def similarity(label_draws):
    """Return the share of the draws (n_draws, n) in which two items are together, for each pair: (n, n), symmetric.

    O(n² n_draws) comparisons of small integers, by blocks of rows; the memory is that of the result.
    """
    label_draws = _label_draws(label_draws)
    return count_together(_rows(label_draws)) / len(label_draws)


# --- the partitions as numbers --------------------------------------------------------------------------------------


def _rows(label_draws):
    """Number the clusters of all draws consecutively, those of the first draw first: (n_draws, n) of int32."""
    rows = np.empty(label_draws.shape, dtype=np.int32)
    used = 0
    for t, labels in enumerate(label_draws):
        rows[t] = distinct_rows(labels[:, None])[1]
        rows[t] += used
        used = rows[t].max() + 1
    return rows


def _by_size(labels):
    """Renumber clusters from 0 by size downwards, ties by their first item."""
    _, first, labels, size = np.unique(labels, return_index=True, return_inverse=True, return_counts=True)
    place = np.empty(len(size), dtype=np.int64)
    place[np.lexsort((first, -size))] = np.arange(len(size))
    return place[labels]


def _mean_loss(kind, labels, rows):
    """Expected loss of a partition with labels 0, 1, ...: the sum of d(m, a, b) over what clusters share, if anything.

    No term is negative, and one of equal clusters is exactly 0; the same sum collected by sizes would cancel.
    """
    n_draws, n = rows.shape
    cells, m = np.unique(rows.astype(np.int64) * (labels.max() + 1) + labels, return_counts=True)
    row, k = np.divmod(cells, labels.max() + 1)
    a, b = np.bincount(labels)[k], np.bincount(rows.ravel())[row]
    return float(np.sum(kind.disagreement(m, a, b)) / (n_draws * kind.scale(n)))


# --- checks ---------------------------------------------------------------------------------------------------------


def _loss(loss):
    if not isinstance(loss, str) or loss not in LOSSES:
        raise ValueError(f"loss must be one of {', '.join(map(repr, LOSSES))}, got loss={loss!r}")
    return LOSSES[loss]


def _label_draws(label_draws):
    """Return draws of labels as an array of integers, (n_draws, n)."""
    shape = "one row per draw, one column per item"
    try:
        array = np.asarray(label_draws)
    except ValueError:
        raise ValueError(f"label_draws must be an array, {shape}, but its rows differ in length") from None
    if array.dtype.kind not in "iu":
        raise ValueError(
            f"label_draws must be integers, {shape}, got an array of {array.dtype}: number the clusters, for instance "
            "by numpy.unique(..., return_inverse=True)"
        )
    if array.ndim != 2 or array.size == 0:
        raise ValueError(
            "label_draws must have shape (n_draws, n) with at least one draw and one item, got shape "
            f"{array.shape}: one row per draw (of all chains, one after the other), one column per item"
        )
    return array
