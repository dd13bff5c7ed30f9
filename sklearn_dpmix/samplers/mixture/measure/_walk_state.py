"""The state of a walk over mixing measures, as a chain keeps it and as its moves see it.

The Dirichlet process is a gamma process divided by its sum S: atoms (J, θ) of a Poisson process with intensity
α J⁻¹ e⁻ᴶ dJ G0(dθ) have weights J/S.  S is independent of the weights, so that its law may be chosen: it is tilted by
S^``TILT`` e^(-``TILT`` S), which keeps it near 1.  Atoms above a cut are walked over, one by one; those below, the
dust, are drawn anew as a whole.  Allocations and confidential records are integrated out.
"""

from typing import NamedTuple

import numpy as np

from ...._base.compiled import Component, compiled, lower
from ...._base.memory import address
from ...._base.restore import require_finite, require_range, require_sweeps, same_layout
from ._walk_atoms import (
    BY_RESIDUALS,
    CONCENTRATION,
    LARGEST_OUTSIDE,
    LINE,
    N_ATOMS,
    N_DUST,
    N_SWEEPS,
    OUTSIDE,
    OUTSIDE_A,
    OUTSIDE_B,
)
from ._walk_likelihood import refresh_stale, with_digits

MAX_ATOMS = 2**14


class MeasureState(NamedTuple):
    """All of a chain but its random generator."""

    mass: np.ndarray  # (capacity,): J of each atom
    place: np.ndarray  # (capacity, coordinates): its parameters, as the chart has them
    dust_mass: np.ndarray  # (capacity,)
    dust_place: np.ndarray  # (capacity, coordinates)
    ints: np.ndarray
    floats: np.ndarray  # (2,): the concentration, or what else the law of the masses has at random; the mass outside
    records: np.ndarray  # (2 features, releases) where the chart keeps something beside these, else (0, 0): records and
    # variances of their noise, or residuals and -1

    def restored(self, fresh, n_sweeps):
        """Return this state, read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._base.restore`)."""
        while fresh.mass.size < self.mass.size and fresh.mass.size < MAX_ATOMS:
            fresh = grow(fresh)
        state = same_layout(fresh, self)
        n, n_dust = state.ints[N_ATOMS], state.ints[N_DUST]
        require_sweeps(state.ints[N_SWEEPS], n_sweeps)
        require_range(1, state.mass.size - 1, ints=n)
        require_range(0, state.mass.size - 1, ints=n_dust)
        require_finite(place=state.place, dust_place=state.dust_place, mass=state.mass, dust_mass=state.dust_mass)
        require_finite(records=state.records)
        require_range(0.0, LARGEST_OUTSIDE, floats=state.floats[1])
        return state


def new_state(n_coordinates, capacity=64, records=None):
    """Return a state without atoms."""
    return MeasureState(
        mass=np.zeros(capacity),
        place=np.zeros((capacity, n_coordinates)),
        dust_mass=np.zeros(capacity),
        dust_place=np.zeros((capacity, n_coordinates)),
        ints=np.zeros(3, np.int64),
        floats=np.array([1.0, 0.0]),
        records=np.zeros((0, 0)) if records is None else records,
    )


def grow(state):
    """Return the state with twice the room."""
    parts = {name: getattr(state, name) for name in ("mass", "place", "dust_mass", "dust_place")}
    return state._replace(**{name: np.concatenate([part, np.zeros_like(part)]) for name, part in parts.items()})


def with_room(state):
    """Return the state with room for as many atoms again, if there may be as many."""
    while state.mass.size <= min(max(state.ints[[N_ATOMS, N_DUST]] * (2, 4)), MAX_ATOMS - 1):
        state = grow(state)
    return state


class Walk(Component):
    """A chain's state with what its moves look up and write to, as bare pointers; made anew for each block of sweeps.

    Atom k is J and its coordinates (:class:`Chart`): ``width`` numbers.  Dust follows atoms, from ``capacity`` on, and
    then, from twice that on, come the atoms of a proposal.
    """

    @classmethod
    def of(cls, state, nodes, lookup, law, masses, n_seen=None, outside=None, ways=None, chances=None):
        """Return the walk of a state; ``nodes`` (features + 1, nodes) are places and weights.

        The first ``n_seen``, or all, stand for releases that appeared, the others for records whose releases did not,
        one a noise scale: at place 1 with a negative weight if their number is unknown, where g is the probability of
        appearing; at place -1 if it is known, where g is that of not appearing.  Copies of the last node without weight
        may follow (:func:`rounded_up`).  ``outside`` is an ``Outside``, and ``ways`` are ``Ways``, whose moves need no
        derivatives; ``chances`` are of answers.
        """
        n_seen = nodes.shape[1] if n_seen is None else n_seen
        if outside is None and ways is None and chances is None and not state.records.size:
            nodes, lookup = rounded_up(nodes, lookup)
        (capacity, n_coordinates), size, n_features = state.place.shape, nodes.shape[1], len(nodes) - 1
        width = 1 + n_coordinates
        n_rows = width if n_features == 1 else width + n_features
        if ways is not None:
            n_rows = 1
        atoms = np.zeros((3 * capacity + 2, width))
        atoms[:capacity, 0], atoms[capacity : 2 * capacity, 0] = state.mass, state.dust_mass
        atoms[:capacity, 1:], atoms[capacity : 2 * capacity, 1:] = state.place, state.dust_place
        law = law.copy()
        law[:3], law[CONCENTRATION], law[OUTSIDE] = state.ints[:3], state.floats[0], state.floats[1]
        law[BY_RESIDUALS] = 1.0 if (state.records < 0.0)[n_features:].any() else 0.0
        if outside is not None:
            law[OUTSIDE_A], law[OUTSIDE_B] = outside.a, outside.b
        nothing = aligned(np.zeros(size))
        fields = {
            "law": law,  # its own numbers, by position (``_walk_atoms``)
            "masses": masses,
            "atoms": atoms.ravel(),
            "nodes": aligned(lay_out(nodes, lookup)),
            "weights": aligned(nodes[-1]),
            "roots": aligned(np.sqrt(np.abs(nodes[-1]))),
            "signed": aligned(np.sign(nodes[-1]) * np.sqrt(np.abs(nodes[-1]))),
            "tables": room((3 * capacity + 2) * n_rows * size),  # of each atom: g, its derivatives, its factors
            "has_slopes": np.ones(3 * capacity + 2),  # whether derivatives are there
            "outside": nothing if outside is None else outside.density,
            "shares": np.zeros(0) if outside is None else outside.shares.ravel(),  # of ``Outside``, as the next
            "copies": np.zeros(0) if outside is None else outside.copies.ravel(),
            "given": nothing if outside is None else np.empty(size),  # what a trade takes from atoms
            "mix": room(size),  # Σ J g over all atoms, and those outside of the mixture
            "most": room(size),  # ... and the most that it was since it was made anew
            "trial": room(size),  # that of a proposal
            "score": room((2 * width + 2) * size),  # scratch of a move: rows of numbers at the nodes
            "metric": np.empty((2 * width + 1, 2 * width + 1)),  # this and the next two: of a step of two atoms
            "gradient": np.empty(2 * width + 1),
            "move": np.empty(2 * width + 1),
            "fence": np.zeros(6),  # what a step must not cross (``_steps``)
            "marks": np.zeros(2 * capacity),  # scratch of a move: a number for each atom, or of each that it chose
            "n_nodes": np.int64(size),
            "n_seen": np.int64(n_seen),
            "width": np.int64(width),
            "n_rows": np.int64(n_rows),
            "capacity": np.int64(capacity),
            "n_features": n_features,
            "chances": np.zeros(0) if chances is None else chances.ravel(),  # (features, categories, nodes)
            "records": state.records.ravel(),  # of ``MeasureState``
            "residuals": state.records[:n_features].flatten(),  # of these, if they are such (``BY_RESIDUALS``)
            "ways": np.zeros(0) if ways is None else ways.ways.ravel(),
            "seen": np.zeros(0) if ways is None else ways.seen.ravel(),
        }
        return lower(cls, fields, frozen=False)

    # --- what a threshold changes: nothing here ----------------------------------------------------------------------

    @compiled
    def before_move(self, rng, channel, chart):
        """What each move begins with."""
        refresh_stale(self)

    @compiled
    def fill_unseen(self, channel, mean, log_variance, g, slopes):
        """Fill the rest of a table, from ``g`` and from ``slopes`` on: nodes of records that did not appear."""

    @compiled
    def judged(self, value, c, k, c2, k2, c3, k3, total, level):
        """The log likelihood of a proposal that adds c times atom k, and two others; ``value`` is what its sum gave.

        Or -1e300 where it is found to be below ``level``.
        """
        return with_digits(self, value, c, k, c2, k2, c3, k3, total, level)

    @compiled
    def is_lost(self, density):
        """Whether a mixture with these densities has no usable likelihood."""
        return False


def rounded_up(nodes, lookup):
    """Eight nodes or more, with copies of the last one, of no weight, up to a multiple of eight.

    Loops take as many nodes at a time, and what is left one by one.
    """
    n = nodes.shape[1]
    n_more = -n % LINE if n >= LINE else 0
    nodes, lookup = (np.pad(rows, ((0, 0), (0, n_more)), mode="edge") for rows in (nodes, lookup))
    nodes[-1, n:] = 0.0
    return nodes, lookup


def room(size):
    """Room for so many numbers, from the start of a line of the cache on: eight of them are in one."""
    found = np.empty(size + LINE - 1)
    first = -(address(found) // found.itemsize) % LINE
    return found[first : first + size]


def aligned(numbers):
    """A copy of these in such room."""
    found = room(numbers.size)
    found[:] = numbers
    return found


def lay_out(nodes, lookup):
    """For each feature the places, and the two or three numbers that the mechanism looks up there: one flat array."""
    places = nodes[:-1, None]
    return np.concatenate([places, lookup.reshape(len(places), -1, places.shape[2])], axis=1).ravel()


def write_back(walk, state):
    """Write the walk's atoms into the state."""
    capacity = int(walk.capacity)
    atoms = walk.atoms.reshape(-1, int(walk.width))
    state.mass[:], state.dust_mass[:] = atoms[: 2 * capacity, 0].reshape(2, -1)
    state.place[:], state.dust_place[:] = atoms[: 2 * capacity, 1:].reshape(2, capacity, -1)
    state.ints[:3] = walk.law[:3]
    state.floats[:] = walk.law[CONCENTRATION], walk.law[OUTSIDE]
    state.records[:] = walk.records.reshape(state.records.shape)
    if walk.law[BY_RESIDUALS] == 1.0:
        n_features = len(state.records) // 2
        state.records[:n_features], state.records[n_features:] = walk.residuals.reshape(n_features, -1), -1.0
