"""The cluster of a random other record, from which urns draw."""

from .._base.compiled import helper

MANY = 2**20  # with more records, their clusters do not fit into a processor's cache
FEW = 64  # slots that can be read in less time than one number from memory


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
