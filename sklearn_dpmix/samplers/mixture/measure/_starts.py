"""Where a walk's chains begin: at a few records that count for ever more, where others ended, or where a file says.

Many records hold a chain near the first explanation of them that it finds.  So it begins under little of the log
likelihood, as if there were few records, and gets more of it step by step (annealing: Kirkpatrick, Gelatt & Vecchi
1983).
"""

from math import exp
from typing import Any

import numpy as np

from ...._base.restore import require, require_range
from ._walk_atoms import CUT, LARGEST, N_ATOMS, N_DUST, N_SWEEPS, STIFFNESS
from ._walk_likelihood import LEAST_DENSITY
from ._walk_state import MAX_ATOMS, grow, new_state, with_room, write_back

EASY = 30.0  # so few records hold no chain
SWEEPS = 10  # for each of their doublings
N_MOVES_AT_HOME = 50  # in each, of chains that go on excursions
SET_OUT = 10  # times so many before one of narrow components begins
# Log likelihood that a component of the records at one place must gain for an atom to begin there that is as narrow as
# they ask for, if no noise hides that: steps towards one that is tens of times narrower than the prior's are too short.
LEAST_GAIN = 20.0
AT_ONE = 0.25  # of such a component's standard deviation: nodes nearer than that to each other stand for one place
LEAST_REST = 0.01  # share of the other atoms, together


def repeated(places: Any, weights: Any, narrowest: Any) -> tuple[Any, Any]:
    """Nodes, in order of their places, at which a component of the records there gains; how many records those are.

    Under a conjugate prior n records at one place make a density of 1/(√(2πe) σ) each, with σ = ``narrowest(n)``;
    without it theirs is about that of the n others nearest to them.
    """
    edges = np.concatenate([places[:1], 0.5 * (places[1:] + places[:-1]), places[-1:]])
    below, reach = np.append(0.0, np.cumsum(weights)), AT_ONE * narrowest(weights)
    first, last = np.searchsorted(places, places - reach), np.searchsorted(places, places + reach, side="right")
    n = below[last] - below[first]
    low, high = np.interp(below[first] - 0.5 * n, below, edges), np.interp(below[last] + 0.5 * n, below, edges)
    log_ratio = np.log(np.maximum(0.5 * (high - low) / narrowest(n), 1e-300)) - 0.5 * (np.log(2.0 * np.pi) + 1.0)
    chosen = np.flatnonzero(n * log_ratio > LEAST_GAIN)
    chosen = np.array([k for k in chosen if k == first[k] + np.argmax(weights[first[k] : last[k]])], np.int64)
    return chosen, n[chosen]


class Starts:
    """First states of chains."""

    def init(self: Any, values: Any, Z: Any, records: Any, sizes: Any, rng: np.random.Generator) -> Any:
        weights, chart, masses = Z.weights, Z.chart, Z.masses
        spikes, counts = np.zeros(0, np.int64), np.zeros(0)
        if Z.law[STIFFNESS] > 0.0 and len(Z.near) == 1:
            spikes, counts = repeated(Z.near[0], weights, chart.narrowest_of)
        n, value = masses.start(int(rng.integers(1, 11)) + len(spikes))
        state = new_state(chart.n_coordinates(), masses.room(Z.law[CUT]), Z.start())
        while state.mass.size < 2 * n:
            state = grow(state)
        state.mass[:n] = 1.0 / n
        chosen = rng.choice(len(weights), n, p=weights / weights.sum())
        state.place[:n] = chart.start(Z.near[:, chosen], rng)
        if 0 < (n_spikes := len(spikes)) < n:
            share = counts / weights.sum()
            state.place[:n_spikes] = chart.start_at(Z.near[:, spikes], rng, counts)
            state.mass[:n_spikes] = share
            state.mass[n_spikes:n] = max(1.0 - share.sum(), LEAST_REST) / (n - n_spikes)
        state.ints[N_ATOMS] = n
        state.floats[:] = value, Z.outside.start(rng) if Z.outside else 0.0
        return self.within_reach(values, Z, self.annealed(values, Z, state, rng), rng)

    def annealed(self: Any, values: Any, Z: Any, state: Any, rng: np.random.Generator) -> Any:
        """After sweeps over all nodes under ever more of the log likelihood.

        Under little of it a chain would leave the narrow components of repeated records, and hardly find them again.
        """
        easier = EASY / Z.weights.sum()
        shares = easier * 2.0 ** np.arange(np.ceil(-np.log2(easier)))
        seen = Z if Z.few is None else Z.with_n_moves(N_MOVES_AT_HOME)
        if Z.law[STIFFNESS] > 0.0:
            shares = np.ones(0 if Z.few is None else SET_OUT)
        for share in shares:
            state = with_room(state)
            lighter = seen.lighter(share)
            walk = lighter.walk(state)
            self.roam(values, lighter, lighter.compiled(), walk, rng, SWEEPS)
            write_back(walk, state)
            state.ints[N_SWEEPS] = 0
        return state

    def within_reach(self: Any, values: Any, Z: Any, state: Any, rng: np.random.Generator) -> Any:
        """With atoms at records that are beyond the reach of all, so that their densities underflow.

        Where they do, nothing draws an atom there: a chain would hardly ever find what few records far away say.
        """
        chart, masses, n = Z.chart, Z.masses, int(state.ints[N_ATOMS])
        if chart.is_finite:
            return state
        density = state.mass[:n] @ self.densities(values, Z, state.place[:n])
        while (is_lost := density <= LEAST_DENSITY).any() and n < MAX_ATOMS // 2:
            n_all, value = masses.start(n + 1)
            weights = np.where(is_lost, Z.weights, 0.0)
            place = chart.start(Z.near[:, [rng.choice(len(weights), p=weights / weights.sum())]], rng)
            added = self.densities(values, Z, place)[0]
            share = min(weights.sum() / Z.weights.sum(), 1.0 / (n + 1.0))
            if n_all != n + 1 or not np.any(is_lost & (share * added > LEAST_DENSITY)):
                break
            if state.mass.size < 2 * n_all:
                state = grow(state)
            state.mass[:n] = np.maximum((1.0 - share) * state.mass[:n], Z.law[CUT])
            state.mass[n], state.place[n] = share, place[0]
            density, n = (1.0 - share) * density + share * added, n_all
            state.ints[N_ATOMS], state.floats[0] = n, value
        return state

    def continued(self: Any, values: Any, Z: Any, state: Any) -> Any:
        return self.within_reach(values, Z, self.with_dust(Z, state), np.random.default_rng(0))

    def with_dust(self: Any, Z: Any, state: Any) -> Any:
        """Dust above the cut of more records is atoms; the rest is drawn anew, and so is what else is random."""
        n, n_dust = int(state.ints[N_ATOMS]), int(state.ints[N_DUST])
        mass = np.concatenate([state.mass[:n], state.dust_mass[:n_dust]])
        place = np.concatenate([state.place[:n], state.dust_place[:n_dust]])
        found = np.flatnonzero(mass > Z.law[CUT])
        masses = Z.masses
        n, value = masses.start(len(found))
        chosen = np.resize(found, n)  # not all, or some twice, where this mixing does not allow as many
        fresh = new_state(place.shape[1], masses.room(Z.law[CUT]), Z.start())
        while fresh.mass.size < 2 * n:
            fresh = grow(fresh)
        fresh.mass[:n], fresh.place[:n] = mass[chosen], place[chosen]
        fresh.ints[N_ATOMS], fresh.floats[:] = n, (value, state.floats[1])
        return fresh

    def restored(
        self: Any, values: Any, Z: Any, kernel: Any, mixing: Any, state: Any, fresh: Any, n_sweeps: int
    ) -> Any:
        state, cut, masses = state.restored(fresh, n_sweeps), Z.law[CUT], Z.masses
        n, n_dust = state.ints[[N_ATOMS, N_DUST]]
        require_range(cut, LARGEST, mass=state.mass[:n])
        require_range(0.99 * exp(-masses.dust_range) * cut, cut, dust_mass=state.dust_mass[:n_dust])
        Z.chart.check_places(place=state.place[:n], dust_place=state.dust_place[:n_dust])
        masses.check_random(mixing, state.floats[0], n)
        require((state.floats[1] > 0.0) == (Z.outside is not None), "floats", "has a mass outside that cannot be")
        return state
