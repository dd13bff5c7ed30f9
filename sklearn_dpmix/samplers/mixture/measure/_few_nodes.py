"""Few nodes that stand for many along an excursion: of any kernel, where nodes are many, as of several features.

The posterior of many records is narrow: log densities of populations likely under it differ by combinations of some
dozens of functions.  A trial run shows which, and weights of some hundred records are found that give the sums over all
of these functions: log densities of its draws, and derivatives of these by atoms' masses.
"""

from math import ceil, inf, sqrt
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from ...._releases.nodes_of_several import reduced
from .._run import Draws
from ._compressed import most_rows, new_draws, sweeps_a_draw
from ._excursions import come_home, set_out
from ._walk_atoms import N_MOVES
from ._walk_draws import fill_densities
from ._walk_likelihood import LEAST_DENSITY
from ._walk_state import new_state, with_room, write_back

WORTH_EXCURSIONS = 150_000  # moves in a sweep, times nodes and features, from which on excursions take less time
WORTH_OF_LINE, WORTH_IF_SLOW = 100_000, 25_000  # the same of one feature; there, if draws follow each other slowly
SIZES = 24, 32, 40, 64, 80, 120, 160, 240, 320  # multiples of eight, which processors take at once
LEAST_TIMES = 2  # as many nodes as few ones there must be, at least
CLOSE, TOO_FAR = 0.2, 1.0  # errors in log likelihood: so few nodes do; not even the most do
N_FITTED, N_OTHERS = 180, 20  # draws that the few nodes are made for, and others that say whether they do
FAR = 30.0  # in log likelihood, below the best draw's: what is farther counts less in proportion
N_MISSED, MOST_ATOMS = 0.01, 100  # records that a draw's smallest atoms may hold which are missed; most atoms of one
SCORED, N_SCORES = 3, 8  # every third draw's derivatives by masses are looked at, of its largest atoms
OF_MASS = 0.1  # share of an atom's mass that a derivative stands for
N_ROUNDS = 4  # of choosing, at most
N_STARTS, N_AROUND, N_BEFORE = 4, 50, 25  # walks in between, excursions of each, and others where they begin
LEAST_APART, WORK_APART = 2, 4000  # sweeps between excursions, and nodes times features for each
EXCURSION, MOVES_BETWEEN = 120, 1.0  # moves for each of these sweeps, and in each of them, over all nodes
A_DRAW = 1.5  # excursions that a draw should take
N_TRIED, LEAST_TAKEN = 30, 0.5  # excursions of a trial, and the share of them that is taken, if they are worth it


class Functions(NamedTuple):
    """Functions of the nodes, in rows, whose sums the few shall give; log densities are less their mean."""

    mean: np.ndarray
    fitted: np.ndarray  # log densities of draws, and derivatives by masses
    others: np.ndarray  # log densities of draws that say whether they do


class ChoiceOfFew:
    """Whether a walk goes on excursions, and over which nodes."""

    def may_roam(self: Any, seen: Any, release: Any) -> bool:
        """Whether excursions may take less time than moves over all nodes."""
        work = seen.law[N_MOVES] * seen.nodes[:-1].size
        if release.n_features > 1 or release.channel.tables == "bins":
            return bool(seen.times > 1.0 or work > WORTH_EXCURSIONS)
        least = WORTH_IF_SLOW if seen.times > 1.0 else WORTH_OF_LINE
        # without noise a component may be as narrow as one of few nodes
        return bool(work > least) and not release.channel.releases_records

    def with_few(self: Any, values: Any, seen: Any, draws: Draws) -> Any:
        """With excursions over a few nodes that stand for all in these draws, and then in those where they lead."""
        rng, places, weights = np.random.default_rng(0), (), seen.weights
        states: Any = None
        apart = max(LEAST_APART, ceil(seen.nodes[:-1].size / WORK_APART))
        functions = functions_of(seen, draws)
        for _ in range(N_ROUNDS):
            places, of_few, error = chosen_nodes(functions, weights, len(places))
            if error > TOO_FAR:
                return seen
            few = seen.of_few(places, of_few, apart * EXCURSION)
            roaming = seen.with_excursions(few, apart, MOVES_BETWEEN)
            states, draws = self.ends_of_excursions(values, roaming, rng, states)
            new = functions_of(seen, draws)
            left = left_out(new.others, weights, places, of_few)
            if left < CLOSE:
                break
            functions = new._replace(fitted=np.vstack([functions.fitted, new.fitted]))
        if left > TOO_FAR:
            return seen
        return self.with_best_length(values, seen, roaming, draws, states[0], rng)

    def with_best_length(
        self: Any, values: Any, seen: Any, roaming: Any, draws: Draws, state: Any, rng: np.random.Generator
    ) -> Any:
        """With excursions so long that one or two make a draw, if enough are then accepted; else shorter or none."""
        for_a_draw, most = sweeps_a_draw(draws, roaming.few), seen.chart.longest
        for times in sorted({min(max(for_a_draw / A_DRAW, 1.0), most), 1.0}, reverse=True):
            longer = roaming.with_longer_excursions(times)
            if self.share_taken(values, longer, state, rng) >= LEAST_TAKEN:
                sweeps = roaming.apart * max(for_a_draw / times, 1.0)
                return longer._replace(times=sweeps / seen.chart.worth, reached=state)
        return seen

    def longer(self: Any, values: Any, seen: Any, times: int) -> Any:
        """With excursions up to so many times as long, in place of more: each ends with a look at all nodes.

        They are made twice as long again and again, as long as enough of them are then taken.
        """
        if seen.few is None:
            return seen
        length = 1
        while 2 * length <= times:
            twice = seen.with_longer_excursions(2 * length)
            if self.share_taken(values, twice, seen.reached, np.random.default_rng(0)) < LEAST_TAKEN:
                break
            length *= 2
        return seen.with_longer_excursions(length)._replace(apart=length * seen.apart)

    def ends_of_excursions(
        self: Any, values: Any, seen: Any, rng: np.random.Generator, states: Any
    ) -> tuple[Any, Draws]:
        """Where walks come to that begin at these states, if there are any; the ends of their excursions, as draws.

        The ends are those not taken, too: they show what is wrong with the few.  A run that never looked at all nodes
        would come to populations for which the few do not stand, and stay there.
        """
        n_before = N_BEFORE if states is None else 0
        if states is None:
            states = [self.init(values, seen, None, None, rng) for _ in range(N_STARTS)]
        states, over, found = [with_room(state) for state in states], (seen.compiled(), seen.few.compiled()), []
        for state in states:
            walk, few = seen.walk(state), seen.few.walk(state)
            draws, filled = new_draws(N_AROUND, N_AROUND * most_rows(few), seen.chart, False), np.zeros(2, np.int64)
            self.roam(values, seen, over[0], walk, rng, 0)
            for i in range(n_before + N_AROUND):
                self.go_far(values, seen, over, walk, few, rng, (draws, filled) if i >= n_before else None)
            write_back(walk, state)
            found.append([*(part[: filled[0]] for part in draws[:3]), *(part[: filled[1]] for part in draws[3:5])])
        return states, Draws(*map(np.concatenate, zip(*found, strict=True)))

    def share_taken(self: Any, values: Any, seen: Any, state: Any, rng: np.random.Generator) -> float:
        """Share of some excursions that were accepted, of a walk that begins at a state."""
        walk, few = (nodes.walk(with_room(state)) for nodes in (seen, seen.few))
        over = seen.compiled(), seen.few.compiled()
        self.roam(values, seen, over[0], walk, rng, 0)
        return sum(self.go_far(values, seen, over, walk, few, rng) for _ in range(N_TRIED)) / N_TRIED

    def go_far(
        self: Any, values: Any, seen: Any, over: Any, walk: Any, few: Any, rng: np.random.Generator, kept: Any = None
    ) -> bool:
        """An excursion; return whether it was accepted.

        ``over``: ``compiled()`` of all nodes and of the few; ``kept``: draws to which its end is added, and how many.
        """
        set_out(walk, few)
        self.roam(values, seen.few, over[1], few, rng, 1, kept)
        channel, chart = over[0]
        return bool(come_home(channel, chart, walk, few, rng))


def functions_of(seen: Any, draws: Draws) -> Functions:
    """Functions whose sums over all nodes few shall give, by some of these draws."""
    walk, (channel, chart) = seen.walk(new_state(seen.chart.n_coordinates(), 1)), seen.compiled()
    ends, n = np.cumsum(draws.n_atoms), N_FITTED + N_OTHERS
    is_other = np.arange(n) % (n // N_OTHERS) == 1
    logs, scores = np.empty((n, seen.nodes.shape[1])), []
    for i, t in enumerate(np.linspace(0, len(ends) - 1, n).astype(np.int64)):
        first = ends[t] - draws.n_atoms[t]
        rest = seen.weights.sum() * (1.0 - np.cumsum(draws.weights[first : ends[t]]))
        rows = slice(first, min(ends[t], first + int(np.sum(rest > N_MISSED)) + 1, first + MOST_ATOMS))
        densities = np.empty((rows.stop - first, logs.shape[1]))
        fill_densities(channel, chart, walk, draws.theta[rows], densities)
        densities *= draws.weights[rows, None]
        density = np.maximum(densities.sum(axis=0), LEAST_DENSITY)
        logs[i] = np.log(density)
        scores.append(OF_MASS * densities[:N_SCORES] / density if i % SCORED == 0 else ())
    value = logs @ seen.weights
    counts = 1.0 / np.maximum((value.max() - value) / FAR, 1.0)
    mean = np.average(logs[~is_other], axis=0, weights=counts[~is_other])
    logs = counts[:, None] * (logs - mean)
    fitted = [logs[~is_other]] + [c * of_one for c, of_one in zip(counts, scores, strict=True) if len(of_one)]
    return Functions(mean, np.vstack(fitted), logs[is_other])


def left_out(logs: Any, weights: Any, places: Any, of_few: Any) -> float:
    """Standard deviation, over draws, of what a few nodes leave out of the log likelihood."""
    return float(np.std(logs @ weights - logs[:, places] @ of_few))


@threadpool_limits.wrap(limits=1)  # matrices are so small that threads would only wait for each other
def chosen_nodes(functions: Functions, weights: Any, least: int) -> Any:
    """(Numbers of some nodes, their weights, error): as few as stand for all in other draws, or else many.

    At least as many as ``least``, about.
    """
    mean, fitted, others = functions
    parts = principal_components(fitted, SIZES[-1])
    around = mean - np.mean(mean)  # in any unit of the records the same
    places, of_few, error = np.arange(len(mean)), weights, inf
    for size in SIZES:
        if LEAST_TIMES * size > len(mean):
            break
        if size < least:
            continue
        of_all = reduced(np.vstack([parts[: size - 2], around, np.ones(len(mean))]).T, weights)
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
