"""The state of a walk over mixing measures, and what all of its moves do.

The Dirichlet process is a gamma process divided by its sum S: atoms (J, θ) of a Poisson process with intensity
α J⁻¹ e⁻ᴶ dJ G0(dθ) have weights J/S.  S is independent of the weights, so that its law may be chosen: it is tilted by
S^``TILT`` e^(-``TILT`` S), which keeps it near 1.  Atoms above a cut are walked over, one by one; those below, the
dust, are drawn anew as a whole.  Allocations and confidential records are integrated out.
"""

from math import exp, log
from typing import NamedTuple

import numpy as np

from ...._base.compiled import Component, apart, apart_sums, compiled, helper, lower
from ...._base.restore import require, require_finite, require_range, same_layout
from ...._base.vector import log_positive

# a state's ints
N_ATOMS, N_DUST, N_SWEEPS = range(3)
# a walk's law: its ints as floats, and the others; then what its chart says of each feature
CONCENTRATION, TOTAL, LOG_LIKELIHOOD, N_RECORDS, CUT, N_MOVES = range(3, 9)  # the first: what masses have at random
OUTSIDE, OUTSIDE_A, OUTSIDE_B = range(9, 12)  # the mass of those outside of the mixture (``_outside``), and its prior
IS_EXCURSION, IS_FILLED = 12, 13  # whether dust and concentration stay (``_excursions``); whether all tables are filled
BY_RESIDUALS = 14  # whether residuals are kept beside the releases (``_hidden_records``)
STIFFNESS = 15  # of means, for a mass of 1: records without noise may be repeated, and the metric not know it
IS_STALE = 16  # at how many nodes the mixture's sum lost digits: it is made anew before the next move
PER_FEATURE = 17
CENTRE, REACH, NEAR = range(3)

TILT = 20.0
LARGEST = 20.0  # of an atom's J: more has probability e^-300
LARGEST_OUTSIDE = 1e12
DUST_RANGE = 5.0  # the dust's atoms are from the cut down to e^-5 of it
LEAST_DENSITY = 1e-300
LOST = 1e11  # what a record costs whose density is less than that: more than all others together could gain
# ratios of densities below which a sum from which atoms were taken lost its digits: after a move to before, and of the
# mixture to the most that it was since it was made anew
FAR, STALE = 1e-9, 1e-6
HALF_LOG_2PI = 0.9189385332046727


class MeasureState(NamedTuple):
    """All of a chain but its random generator."""

    mass: np.ndarray  # (capacity,): J of each atom
    place: np.ndarray  # (capacity, coordinates): its parameters, as the chart has them
    dust_mass: np.ndarray  # (capacity,)
    dust_place: np.ndarray  # (capacity, coordinates)
    ints: np.ndarray
    floats: np.ndarray  # (2,): the concentration, or what else the law of the masses has at random; the mass outside
    records: np.ndarray  # (features, releases) where the chart keeps them, else (0, 0)

    def restored(self, fresh, n_sweeps):
        """Return this state, read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._base.restore`)."""
        while fresh.mass.size < self.mass.size and fresh.mass.size < MAX_ATOMS:
            fresh = grow(fresh)
        state = same_layout(fresh, self)
        n, n_dust = state.ints[N_ATOMS], state.ints[N_DUST]
        require(state.ints[N_SWEEPS] == n_sweeps, "ints", f"says {state.ints[N_SWEEPS]} sweeps, not {n_sweeps}")
        require_range(1, state.mass.size - 1, ints=n)
        require_range(0, state.mass.size - 1, ints=n_dust)
        require_finite(place=state.place, dust_place=state.dust_place, mass=state.mass, dust_mass=state.dust_mass)
        require_finite(records=state.records)
        require_range(0.0, LARGEST_OUTSIDE, floats=state.floats[1])
        return state


MAX_ATOMS = 2**14


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


class Walk(Component):
    """A chain's state with what its moves look up and write to, as bare pointers; made anew for each block of sweeps.

    Atom k is J and its coordinates (:class:`Chart`): ``width`` numbers.  Dust follows atoms, from ``capacity`` on, and
    then, from twice that on, come the atoms of a proposal.
    """

    @classmethod
    def of(cls, state, nodes, lookup, law, masses, n_seen=None, outside=None, ways=None, chances=None):
        """Return the walk of a state; ``nodes`` (features + 1, nodes) are places and weights.

        After the first ``n_seen``, or all, there are those for records whose releases did not appear: their place is 1
        where they have the probability that one appears, and a negative weight; else -1.  ``outside`` is an
        ``Outside``, and ``ways`` are ``Ways``, whose moves need no derivatives; ``chances`` are of answers.
        """
        (capacity, n_coordinates), size, n_features = state.place.shape, nodes.shape[1], len(nodes) - 1
        width = 1 + n_coordinates
        n_rows = width if n_features == 1 else width + n_features
        if ways is not None:
            n_rows = 1
        atoms = np.zeros((3 * capacity + 2, width))
        atoms[:capacity, 0], atoms[capacity : 2 * capacity, 0] = state.mass, state.dust_mass
        atoms[:capacity, 1:], atoms[capacity : 2 * capacity, 1:] = state.place, state.dust_place
        law = law.copy()
        law[:3], law[CONCENTRATION], law[OUTSIDE] = state.ints, state.floats[0], state.floats[1]
        if outside is not None:
            law[OUTSIDE_A], law[OUTSIDE_B] = outside.a, outside.b
        nothing = np.zeros(size)
        fields = {
            "law": law,
            "masses": masses,
            "atoms": atoms.ravel(),
            "nodes": lay_out(nodes, lookup),
            "weights": nodes[-1].copy(),
            "roots": np.sqrt(np.abs(nodes[-1])),
            "signed": np.sign(nodes[-1]) * np.sqrt(np.abs(nodes[-1])),
            "tables": np.empty((3 * capacity + 2) * n_rows * size),  # of each atom: g, its derivatives, its factors
            "outside": nothing if outside is None else outside.density,
            "shares": np.zeros(0) if outside is None else outside.shares.ravel(),
            "copies": np.zeros(0) if outside is None else outside.copies.ravel(),
            "given": nothing if outside is None else np.empty(size),
            "mix": np.empty(size),  # Σ J g over all atoms, and those outside of the mixture
            "most": np.empty(size),  # ... and the most that it was since it was made anew
            "trial": np.empty(size),  # that of a proposal
            "score": np.empty((2 * width + 2) * size),
            "metric": np.empty((2 * width + 1) ** 2),
            "gradient": np.empty(2 * width + 1),
            "move": np.empty(2 * width + 1),
            "fence": np.zeros(6),
            "marks": np.zeros(2 * capacity),
            "n_nodes": np.int64(size),
            "n_seen": np.int64(size if n_seen is None else n_seen),
            "width": np.int64(width),
            "n_rows": np.int64(n_rows),
            "capacity": np.int64(capacity),
            "n_features": n_features,
            "answers": np.zeros(0) if ways is None else ways.answers.ravel(),
            "chances": np.zeros(0) if chances is None else chances.ravel(),  # (features, categories, nodes)
            "records": state.records.ravel(),
            "residuals": np.zeros(state.records.size),
            "ways": np.zeros(0) if ways is None else ways.ways.ravel(),
            "seen": np.zeros(0) if ways is None else ways.seen.ravel(),
        }
        return lower(cls, fields, frozen=False)

    # --- what a threshold changes: nothing here ----------------------------------------------------------------------

    @compiled
    def before_move(self):
        """What each move begins with."""
        refresh_stale(self)

    @compiled
    def fill_unseen(self, channel, mean, log_variance, g, slopes):
        """Fill the rest of a table, from ``g`` and from ``slopes`` on: nodes of records that did not appear."""

    @compiled
    def judged(self, value, c, k, c2, k2, c3, k3, total):
        """The log likelihood of a proposal that adds c times atom k, and two others; ``value`` is what its sum gave."""
        return with_digits(self, value, c, k, c2, k2, c3, k3, total)

    @compiled
    def is_lost(self, density):
        """Whether a mixture with these densities has no usable likelihood."""
        return False


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
    state.ints[:] = walk.law[:3]
    state.floats[:] = walk.law[CONCENTRATION], walk.law[OUTSIDE]
    state.records[:] = walk.records.reshape(state.records.shape)


# --- compiled --------------------------------------------------------------------------------------------------------


@helper
def at(walk, k):
    """Where atom k begins in ``atoms``."""
    return k * walk.width


@helper
def row(walk, k):
    """Where its table begins."""
    return k * walk.n_rows * walk.n_nodes


@helper
def n_all(walk):
    """How many atoms there are, dust included."""
    return int(walk.law[N_ATOMS] + walk.law[N_DUST])


@helper
def number(walk, k):
    """The atom's number, of the k-th of all."""
    n_atoms = int(walk.law[N_ATOMS])
    return k if k < n_atoms else walk.capacity + k - n_atoms


@helper
def log_tilt(walk, n_atoms, total):
    """Log density of S, with e^-J of all atoms, apart from what the law of the masses already contains."""
    value = walk.masses.power(walk, n_atoms) * log(total) - (TILT + 1.0) * total
    return value + log_mass_inside(walk, total, walk.law[OUTSIDE])


@helper
def log_mass_inside(walk, total, outside):
    """Log of the factor in S of the outside share's beta density, apart from ``outside`` to the power a."""
    a, b = walk.law[OUTSIDE_A], walk.law[OUTSIDE_B]
    return b * log(total) - (a + b) * log(total + outside)


@helper
def log_one_more(walk, n_atoms):
    """Log ratio of the prior with one atom more than that many, and the same total, beyond its place and J^shape."""
    ratio = walk.masses.log_growth(walk, n_atoms)
    return ratio + log_tilt(walk, n_atoms + 1, walk.law[TOTAL]) - log_tilt(walk, n_atoms, walk.law[TOTAL])


@helper
def accepts(rng, log_ratio):
    """Whether a proposal is accepted."""
    return log(1.0 - rng.random()) < log_ratio


@helper
def draw_poisson(rng, rate):
    """A Poisson number, by the waiting times of its process."""
    n, time = 0, rng.standard_exponential()
    while time < rate:
        n += 1
        time += rng.standard_exponential()
    return n


@helper
def log_term(weight, density):
    """What a node adds to the log likelihood."""
    value = weight * log_positive(max(density, LEAST_DENSITY))
    return value if density > LEAST_DENSITY else value - LOST * abs(weight)


@apart_sums
def log_likelihood(walk, density, total):
    """Σ_m ω_m log f(x_m) of the mixture with these densities at the nodes, not yet divided by S."""
    weights, value = walk.weights, 0.0
    for m in range(walk.n_nodes):
        value += log_term(weights[m], density[m])
    if walk.is_lost(density):
        return -1e300
    return value - walk.law[N_RECORDS] * log(total + walk.law[OUTSIDE])


@apart_sums
def try_one(walk, c, k, total):
    """The log likelihood with c times atom k added to the mixture, which is written into ``trial``."""
    weights, mix, trial, tables, g, value = walk.weights, walk.mix, walk.trial, walk.tables, row(walk, k), 0.0
    for m in range(walk.n_nodes):
        density = mix[m] + c * tables[g + m]
        trial[m] = density
        value += log_term(weights[m], density)
    value -= walk.law[N_RECORDS] * log(total + walk.law[OUTSIDE])
    return walk.judged(value, c, k, 0.0, k, 0.0, k, total)


@apart_sums
def try_three(walk, c, k, c2, k2, c3, k3):
    """As :meth:`try_one`, with three atoms that leave the total unchanged."""
    weights, mix, trial, tables, value = walk.weights, walk.mix, walk.trial, walk.tables, 0.0
    g, g2, g3 = row(walk, k), row(walk, k2), row(walk, k3)
    for m in range(walk.n_nodes):
        density = mix[m] + c * tables[g + m] + c2 * tables[g2 + m] + c3 * tables[g3 + m]
        trial[m] = density
        value += log_term(weights[m], density)
    value -= walk.law[N_RECORDS] * log(walk.law[TOTAL] + walk.law[OUTSIDE])
    return walk.judged(value, c, k, c2, k2, c3, k3, walk.law[TOTAL])


@apart
def try_sum(walk, total):
    """The log likelihood of the mixture in ``trial``, a sum from which atoms were taken: -1e300 if it lost digits.

    And if the way back would lose them, so that moves are turned down both ways.
    """
    return -1e300 if n_apart(walk) > 0.0 else log_likelihood(walk, walk.trial, total)


@apart_sums
def n_far(walk):
    """At how many nodes ``trial`` lost its digits."""
    found = 0.0
    for m in range(walk.n_nodes):
        found += 1.0 if walk.trial[m] < FAR * walk.mix[m] else 0.0
    return found


@apart_sums
def n_apart(walk):
    """At how many nodes ``trial`` did, or ``mix`` would on the way back."""
    found = 0.0
    for m in range(walk.n_nodes):
        less, more = min(walk.trial[m], walk.mix[m]), max(walk.trial[m], walk.mix[m])
        found += 1.0 if less < FAR * more else 0.0
    return found


@apart
def with_digits(walk, value, c, k, c2, k2, c3, k3, total):
    """The log likelihood with three atoms added, which is ``value`` unless ``trial`` lost its digits."""
    if n_far(walk) == 0.0:
        return value
    for m in range(walk.n_nodes):
        if walk.trial[m] < FAR * walk.mix[m]:
            walk.trial[m] = density_anew(walk, m, c, k, c2, k2, c3, k3)
    return log_likelihood(walk, walk.trial, total)


@apart
def density_anew(walk, m, c, k, c2, k2, c3, k3):
    """The mixture at node m with three atoms added, as a sum of positive terms."""
    tables, density, left, left2, left3 = walk.tables, walk.law[OUTSIDE] * walk.outside[m], c, c2, c3
    for e in range(n_all(walk)):
        h = number(walk, e)
        mass = walk.atoms[at(walk, h)]
        if h == k:
            mass, left = mass + left, 0.0
        if h == k2:
            mass, left2 = mass + left2, 0.0
        if h == k3:
            mass, left3 = mass + left3, 0.0
        density += max(mass, 0.0) * tables[row(walk, h) + m]
    density += left * tables[row(walk, k) + m] + left2 * tables[row(walk, k2) + m]
    return density + left3 * tables[row(walk, k3) + m]


@helper
def keep_trial(walk, total, value):
    """Accept the proposed mixture as the current one."""
    n_stale = 0.0
    for m in range(walk.n_nodes):
        walk.mix[m] = walk.trial[m]
        walk.most[m] = max(walk.most[m], walk.mix[m])
        n_stale += 1.0 if walk.mix[m] < STALE * walk.most[m] else 0.0
    walk.law[IS_STALE] = n_stale
    walk.law[TOTAL], walk.law[LOG_LIKELIHOOD] = total, value


@apart
def add_to(walk, target, c, k):
    """Add c times atom k to a mixture."""
    tables, g = walk.tables, row(walk, k)
    for m in range(walk.n_nodes):
        target[m] += c * tables[g + m]


@apart
def copy_atom(walk, k, source):
    """Make atom k what atom ``source`` is."""
    atoms, tables, a, b = walk.atoms, walk.tables, at(walk, k), at(walk, source)
    for e in range(walk.width):
        atoms[a + e] = atoms[b + e]
    a, b = row(walk, k), row(walk, source)
    for m in range(walk.n_rows * walk.n_nodes):
        tables[a + m] = tables[b + m]


@helper
def refresh(walk):
    """Recompute the mixture's sum, so that it depends on the state alone and rounding does not accumulate."""
    total = 0.0
    for m in range(walk.n_nodes):
        walk.mix[m] = walk.law[OUTSIDE] * walk.outside[m]
    for k in range(n_all(walk)):
        h = number(walk, k)
        mass = walk.atoms[at(walk, h)]
        total += mass
        add_to(walk, walk.mix, mass, h)
    for m in range(walk.n_nodes):
        walk.most[m] = walk.mix[m]
    walk.law[TOTAL], walk.law[IS_STALE] = total, 0.0
    walk.law[LOG_LIKELIHOOD] = log_likelihood(walk, walk.mix, total)


@apart
def refresh_stale(walk):
    """As :func:`refresh`, if the sum lost digits since."""
    if walk.law[IS_STALE] != 0.0:
        refresh(walk)


@helper
def random_mass(rng, walk):
    """A random mass, from one that hardly holds a record to a tenth of all; moves choose among the atoms above it."""
    log_least = log(10.0 * walk.law[CUT])
    return exp(log_least + rng.random() * (log(0.1) - log_least))


@helper
def n_above(walk, least):
    """How many atoms are above a mass."""
    found = 0
    for k in range(int(walk.law[N_ATOMS])):
        if walk.atoms[at(walk, k)] > least:
            found += 1
    return found


@helper
def draw_above(rng, walk, least):
    """One of the atoms above a mass; -1 if there is none."""
    left = int(rng.random() * n_above(walk, least))
    for k in range(int(walk.law[N_ATOMS])):
        if walk.atoms[at(walk, k)] > least:
            if left == 0:
                return k
            left -= 1
    return -1


@helper
def choose_above(rng, walk, least, most, chosen):
    """Write at most so many of the atoms above a mass, drawn without replacement, into ``chosen``; return how many."""
    left = n_above(walk, least)
    r = min(left, most)
    wanted = r
    for k in range(int(walk.law[N_ATOMS])):
        if walk.atoms[at(walk, k)] > least:
            if rng.random() * left < wanted:
                chosen[r - wanted] = k
                wanted -= 1
            left -= 1
    return r


@helper
def remove(walk, k):
    """Take atom k away; the last one gets its row."""
    walk.law[N_ATOMS] -= 1.0
    last = int(walk.law[N_ATOMS])
    if k != last:
        copy_atom(walk, k, last)
