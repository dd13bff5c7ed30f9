"""Few nodes that stand for many along an excursion: of any kernel, where nodes are many, as of several features.

The posterior of many records is narrow: log densities of populations likely under it differ by combinations of some
dozens of functions.  A trial run shows which, and weights of some hundred records are found that give the sums over all
of these functions: log densities of its draws, and derivatives of these by atoms' masses.
"""

from math import ceil, inf, sqrt
from typing import Any

import numpy as np
from threadpoolctl import threadpool_limits

from ...._base.compiled import entry
from ...._releases.nodes_of_several import reduced
from .._run import Draws
from ._compressed import sweeps_a_draw
from ._excursions import come_home, set_out
from ._walk_atoms import N_MOVES
from ._walk_likelihood import LEAST_DENSITY
from ._walk_state import new_state

WORTH_EXCURSIONS = 150_000  # moves in a sweep, times nodes and features, from which on excursions take less time
LONG_LINE = 100_000  # the same of one feature
SIZES = 40, 64, 80, 120, 160, 240, 320  # multiples of eight, which processors take at once
CLOSE, TOO_FAR = 0.2, 1.0  # errors in log likelihood of few that are enough, and of as many as may be that are not
N_FITTED, N_OTHERS = 180, 20  # draws that the few nodes are made for, and others that say whether they do
N_ATOMS, N_SCORES = 12, 8  # largest atoms of a draw that are looked at, and those by whose masses derivatives are taken
OF_MASS = 0.1  # share of an atom's mass that a derivative stands for
N_ROUNDS = 4  # of choosing, at most
N_STARTS, N_AROUND = 4, 75  # runs over the few in between, and their sweeps
LEAST_APART, WORK_APART = 2, 4000  # sweeps between excursions, and nodes times features for each
EXCURSION, MOVES_BETWEEN = 120, 1.0  # moves for each of these sweeps, and in each of them, over all nodes
A_DRAW = 1.5  # sweeps that a draw should take
N_TRIED, LEAST_TAKEN = 30, 0.5  # excursions of a trial, and the share of them that is taken, if they are worth it


class ChoiceOfFew:
    """Whether a walk goes on excursions, and over which nodes."""

    def may_roam(self: Any, seen: Any, release: Any) -> bool:
        """Whether excursions may take less time than moves over all nodes."""
        work = seen.law[N_MOVES] * seen.nodes[:-1].size
        if release.n_features > 1 or release.channel.tables == "bins":
            return bool(seen.times > 1.0 or work > WORTH_EXCURSIONS)
        # without noise a component may be as narrow as one of few nodes
        return bool(work > LONG_LINE) and not release.channel.releases_records

    def with_few(self: Any, values: Any, seen: Any, draws: Draws) -> Any:
        """With excursions over a few nodes that stand for all in these draws, and then in those where they lead."""
        rng, states, weights = np.random.default_rng(0), None, seen.weights
        apart = max(LEAST_APART, ceil(seen.nodes[:-1].size / WORK_APART))
        found = log_densities(seen, draws)
        for _ in range(N_ROUNDS):
            places, of_few, error = chosen_nodes(*found, weights)
            if error > TOO_FAR:
                return seen
            few = seen.of_few(places, of_few, apart * EXCURSION)
            states, draws = self.runs_over(values, few, rng, states)
            found = log_densities(seen, draws)
            left = left_out(found[1], weights, places, of_few)
            if left < CLOSE:
                break
        roaming = seen.with_excursions(few, apart, MOVES_BETWEEN)
        if left > TOO_FAR or self.share_taken(values, roaming, rng) < LEAST_TAKEN:
            return seen
        return self.with_longer(values, roaming, draws, rng)

    def with_longer(self: Any, values: Any, seen: Any, draws: Draws, rng: np.random.Generator) -> Any:
        """With excursions so long that one or two make a draw, by trial runs, unless too few are then accepted."""
        times = min(sweeps_a_draw(draws, seen.few) / A_DRAW, seen.chart.longest)
        if times <= 1.0:
            return seen
        longer = seen.with_longer_excursions(times)
        return longer if self.share_taken(values, longer, rng) >= LEAST_TAKEN else seen

    def runs_over(self: Any, values: Any, few: Any, rng: np.random.Generator, states: Any) -> tuple[Any, Draws]:
        """Where some trial runs over few nodes end, and their draws; they begin at these states, if there are any."""
        if states is None:
            states = [self.init(values, few, None, None, rng) for _ in range(N_STARTS)]
        runs = [self.trial(values, few, state, rng, N_AROUND) for state in states]
        states, draws = zip(*runs, strict=True)
        return states, Draws(*map(np.concatenate, zip(*draws, strict=True)))

    def share_taken(self: Any, values: Any, seen: Any, rng: np.random.Generator) -> float:
        """Share of some excursions that were accepted."""
        state = self.init(values, seen, None, None, rng)
        walk, few = (nodes.walk(state) for nodes in (seen, seen.few))
        over = seen.compiled(), seen.few.compiled()
        self.roam(values, seen, over[0], walk, rng, 0)
        return sum(self.go_far(values, seen, over, walk, few, rng) for _ in range(N_TRIED)) / N_TRIED

    def go_far(self: Any, values: Any, seen: Any, over: Any, walk: Any, few: Any, rng: np.random.Generator) -> bool:
        """An excursion; return whether it was accepted.  ``over``: ``compiled()`` of all nodes and of the few."""
        set_out(walk, few)
        self.roam(values, seen.few, over[1], few, rng, 1)
        channel, chart = over[0]
        return bool(come_home(channel, chart, walk, few, rng))


def log_densities(seen: Any, draws: Draws) -> Any:
    """Log densities of some draws at all nodes, (draws, nodes), of others for the check, and scores of the former."""
    walk, (channel, chart) = seen.walk(new_state(seen.chart.n_coordinates(), 1)), seen.compiled()
    ends, logs, scores = np.cumsum(draws.n_atoms), [], []
    for t in np.linspace(0, len(draws.n_atoms) - 1, N_FITTED + N_OTHERS).astype(np.int64):
        first = ends[t] - draws.n_atoms[t]
        rows = slice(first, min(ends[t], first + N_ATOMS))
        densities = np.empty((rows.stop - first, seen.nodes.shape[1]))
        fill_densities(channel, chart, walk, draws.theta[rows], densities)
        densities *= draws.weights[rows, None]
        density = np.maximum(densities.sum(axis=0), LEAST_DENSITY)
        logs.append(np.log(density))
        scores.append(OF_MASS * densities[:N_SCORES] / density)
    is_other = np.arange(len(logs)) % ((N_FITTED + N_OTHERS) // N_OTHERS) == 1
    scores = np.vstack([score for score, no in zip(scores, is_other, strict=True) if not no])
    return np.array(logs)[~is_other], np.array(logs)[is_other], scores


def left_out(logs: Any, weights: Any, places: Any, of_few: Any) -> float:
    """Standard deviation, over draws, of what a few nodes leave out of the log likelihood."""
    return float(np.std(logs @ weights - logs[:, places] @ of_few))


@threadpool_limits.wrap(limits=1)  # matrices are so small that threads would only wait for each other
def chosen_nodes(fitted: Any, others: Any, scores: Any, weights: Any) -> Any:
    """(Numbers of some nodes, their weights, error): as few as stand for all in other draws, or else many."""
    mean = fitted.mean(axis=0)
    parts = principal_components(np.vstack([fitted - mean, scores]), SIZES[-1])
    places, of_few, error = np.arange(len(mean)), weights, inf
    for size in SIZES:
        if 3 * size > len(mean):
            break
        of_all = reduced(np.vstack([parts[: size - 2], mean, np.ones(len(mean))]).T, weights)
        places = np.flatnonzero(of_all > 0.0)
        of_few = of_all[places]
        error = left_out(others, weights, places, of_few)
        if error < CLOSE:
            break
    return places, of_few, error


def principal_components(functions: Any, n: int) -> Any:
    """The first n, about, of functions in rows, each of mean square 1; those that matter most come first.

    From random sums of all functions, which miss little where few components matter (Halko, Martinsson & Tropp 2011).
    """
    n = min(n, *functions.shape)
    some = np.random.default_rng(0).standard_normal((n, len(functions))) @ functions
    basis = np.linalg.qr(some.T)[0]
    sums = functions @ basis
    return (basis @ np.linalg.eigh(sums.T @ sums)[1][:, ::-1]).T * sqrt(functions.shape[1])


# --- compiled --------------------------------------------------------------------------------------------------------


@entry
def fill_densities(channel, chart, walk, theta, densities):
    """Densities of components at all nodes."""
    for k in range(len(theta)):
        chart.take(theta, k, walk)
        chart.fill(channel, walk, 0)
        for m in range(walk.n_nodes):
            densities[k, m] = walk.tables[m]
