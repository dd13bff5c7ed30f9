"""Directions in the shares of many categories, along each of which the answers to one question say how far to go."""

from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import eigh, null_space

N_EM = 200


class Ways(NamedTuple):
    """What moves of an atom's shares look up."""

    answers: Any  # (1, K, nodes): probability of each answer given each category
    ways: Any  # (K - 1, K): directions, each of sum 0
    seen: Any  # (K - 1, nodes): what they add to the probability of each answer


def ways_of(answers: Any, counts: Any) -> Ways:
    """The ways at different answers to one question, by their chances (1, K, answers) and how often each was given."""
    ways = main_axes(answers[0], counts)
    return Ways(answers, ways, ways @ answers[0])


def main_axes(answers: Any, counts: Any) -> Any:
    """Axes of the normal law that the shares of categories have about, by Fisher's information where they are likely.

    Those that the answers leave open have about the spread of their prior, a share's own size.  Any axes are right.
    """
    size, n = len(answers), counts.sum()
    shares = np.full(size, 1.0 / size)
    for _ in range(N_EM):
        shares *= answers @ (counts / (shares @ answers)) / n
    scores = answers * (np.sqrt(counts) / (shares @ answers))
    free = null_space(np.ones((1, size)))
    precision = scores @ scores.T + np.diag((shares + 1.0 / size) ** -2)
    return (free @ eigh(free.T @ precision @ free)[1]).T
