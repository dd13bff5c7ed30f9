"""The cluster of a random other record, from which urns draw."""

from .._base.compiled import helper

MANY = 2**20  # with more records, their clusters do not fit into a processor's cache
FEW = 64  # slots that can be read in less time than one number from memory


@helper
def urn_cluster(rng, new_weight, discount, alloc, counts, i):
    """Cluster of record i given the others, by the two-parameter urn; -1 for a new one.

    With f = max(1, 1 - discount), a random other record's cluster, with weight f n_k, is kept with probability
    (n_k - discount)/(f n_k); otherwise everything starts again: O(1).
    """
    n_others, factor = alloc.size - 1, max(1.0, 1.0 - discount)
    if n_others == 0:
        return -1
    while True:
        u = rng.random() * (new_weight + factor * n_others)
        if u < new_weight:
            return -1
        k = cluster_of_another((u - new_weight) / factor if discount < 0.0 else u - new_weight, alloc, counts, i)
        if rng.random() * factor * counts[k] < counts[k] - discount:
            return k


@helper
def cluster_of_another(u, alloc, counts, i):
    """Cluster of a record other than i, for u uniform on [0, n - 1); ``counts`` are without record i.

    O(1): that of a random record.  With so many records that this would wait for memory, and few slots, it is drawn by
    sizes.
    """
    n_others = alloc.size - 1
    if alloc.size > MANY and counts.size <= FEW:
        return cluster_by_size(u, counts, n_others)
    other = min(int(u), n_others - 1)
    return alloc[other + 1] if other >= i else alloc[other]


@helper
def cluster_by_size(u, counts, n_others):
    """The same distribution: where u falls if clusters are laid end to end.  This is exact, since sizes are whole."""
    k, u = 0, min(u, n_others - 0.5)
    while u >= counts[k]:
        u -= counts[k]
        k += 1
    return k
