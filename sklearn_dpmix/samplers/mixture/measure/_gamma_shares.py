"""Shares of categories, as an atom of the walk has them: of independent gamma variables e^η."""

from math import exp

from ...._base.compiled import helper


@helper
def log_gammas(walk, first, size):
    """The largest of a feature's η, and the sum of e^(η - largest)."""
    highest, total = walk.atoms[first], 0.0
    for c in range(1, size):
        highest = max(highest, walk.atoms[first + c])
    for c in range(size):
        total += exp(walk.atoms[first + c] - highest)
    return highest, total
