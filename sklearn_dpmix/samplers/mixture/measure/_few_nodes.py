"""Few nodes that stand for many along an excursion: of any kernel, where records of several features are the nodes.

The posterior of many records is narrow: log densities of populations likely under it differ by combinations of some
dozens of functions.  A trial run shows which, and weights of some hundred records are found that give the sums over all
of these functions: log densities of its draws, and derivatives of these by atoms' masses.
"""

from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ...._base.compiled import entry
from ...._releases.nodes_of_several import reduced
from .._run import Draws
from ._walk_state import LEAST_DENSITY, new_state

SIZES = 40, 60, 80, 120, 160, 240, 320
CLOSE = 0.2  # standard deviation of what they leave out of a draw's log likelihood
N_FITTED, N_OTHERS = 40, 20  # draws that the few nodes are made for, and others that say whether they do
N_ATOMS, N_SCORES = 12, 8  # largest atoms of a draw that are looked at, and those by whose masses derivatives are taken
OF_MASS = 0.1  # share of an atom's mass that a derivative stands for


def few_nodes(seen: Any, channel: Any, chart: Any, masses: Any, draws: Draws) -> Any:
    """(Numbers of some nodes, their weights): as few as stand for all in other draws; none if that takes many."""
    walk = seen.walk(new_state(chart.n_coordinates(), 1), masses)
    ends, logs, scores = np.cumsum(draws.n_atoms), [], []
    for t in np.linspace(0, len(draws.n_atoms) - 1, N_FITTED + N_OTHERS).astype(np.int64):
        first = ends[t] - draws.n_atoms[t]
        rows = slice(first, min(ends[t], first + N_ATOMS))
        densities = np.empty((rows.stop - first, seen.nodes.shape[1]))
        fill_densities(channel, chart.value(), walk, draws.theta[rows], densities)
        densities *= draws.weights[rows, None]
        density = np.maximum(densities.sum(axis=0), LEAST_DENSITY)
        logs.append(np.log(density))
        scores.append(OF_MASS * densities[:N_SCORES] / density)
    is_other = np.arange(len(logs)) % ((N_FITTED + N_OTHERS) // N_OTHERS) == 1
    fitted, others = np.array(logs)[~is_other], np.array(logs)[is_other]
    scores = np.vstack([score for score, no in zip(scores, is_other, strict=True) if not no])
    with threadpool_limits(limits=1):  # matrices are so small that threads would only wait for each other
        return chosen_nodes(fitted, others, scores, seen.weights)


def chosen_nodes(fitted: Any, others: Any, scores: Any, weights: Any) -> Any:
    """The same from log densities of draws, (draws, nodes), of others for the check, and scores."""
    mean = fitted.mean(axis=0)
    functions = np.vstack([fitted - mean, scores])
    sizes, vectors = np.linalg.eigh(functions @ functions.T)  # principal components, of which the first matter most
    parts = vectors[:, ::-1].T @ functions / np.sqrt(np.maximum(sizes[::-1, None], 1e-300) / len(mean))
    for size in SIZES:
        if 3 * size > len(mean):
            break
        found = reduced(np.vstack([parts[: size - 2], mean, np.ones(len(mean))]).T, weights)
        if np.std(others @ (weights - found)) < CLOSE:
            places = np.flatnonzero(found > 0.0)
            return places, found[places]
    return np.zeros(0, np.int64), np.zeros(0)


# --- compiled --------------------------------------------------------------------------------------------------------


@entry
def fill_densities(channel, chart, walk, theta, densities):
    """Densities of components at all nodes."""
    for k in range(len(theta)):
        chart.take(theta, k, walk)
        chart.fill(channel, walk, 0)
        for m in range(walk.n_nodes):
            densities[k, m] = walk.tables[m]
