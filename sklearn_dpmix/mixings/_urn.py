"""A random other record's cluster: what urns of records draw from."""

from .._base.compiled import helper

MANY = 2**20  # records whose clusters are more than a processor's cache holds
FEW = 64  # slots that are read sooner than one number from memory


@helper
def cluster_of_another(u, alloc, counts, i):
    """Cluster of a record other than i, for u uniform on [0, n - 1); ``counts`` are without record i.

    O(1): a random record's; with so many records that this would wait for memory, and few slots, by sizes.
    """
    n_others = alloc.size - 1
    if alloc.size > MANY and counts.size <= FEW:
        return cluster_by_size(u, counts, n_others)
    other = min(int(u), n_others - 1)
    return alloc[other + 1] if other >= i else alloc[other]


@helper
def cluster_by_size(u, counts, n_others):
    """The same law: where u falls with clusters laid end to end.  What is left of u is exact, for sizes are whole."""
    k, u = 0, min(u, n_others - 0.5)
    while u >= counts[k]:
        u -= counts[k]
        k += 1
    return k
