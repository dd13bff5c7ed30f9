"""Moves of many records at once: mixtures on a grid of releases, then one exact step for all of them.

With weights w of the larger clusters the records and their memberships can be integrated out: release i has density
Σ_k w_k g(z_i | θ_k).  That is as dear as a sweep, but on a grid of releases, between which its logarithm is taken to be
cubic, it costs the same for any number of records.  So (w, θ) and the number of clusters move many steps on the grid
(the surrogate); then all memberships are drawn from the surrogate's, and the whole is accepted by what the surrogate
got wrong (surrogate transition, Liu 2001, §9.4.3; delayed acceptance, Christen & Fox 2005).  Exact for any grid.
"""

from math import exp, inf, log, sqrt
from typing import Any, NamedTuple

import numpy as np

from ..._base.compiled import compiled, helper, lower
from ..._base.restore import require
from ..._base.typing import Array
from ._grid import MOST, Fixed, Grid, fill_density, log_surrogate, walk
from ._interweaved import Interweaved, interweaved_sweep
from ._places import CONCENTRATION, FINENESS, N_CLUSTERS, N_SLOTS, STAGE
from ._sampler import check_count
from ._state import compact, occupy, take_slot, vacate

MOST_NODES = 4096
TARGET = 0.8  # acceptance rate that the fineness is tuned to


class Lattice(NamedTuple):
    """Nodes at equal distances over the releases; ``Grid`` keeps those that have releases near."""

    low: float  # the first
    step: float
    place: np.ndarray  # (n_nodes,): releases shared to each; then its row in the grid


class Surrogate(Interweaved):
    """``Interweaved``, and now and then a move of all large clusters by a surrogate of the releases' likelihood.

    For thousands of records of one feature, under Laplace or Gaussian noise of one scale, where the kernel has g in
    closed form; with several features it is ``Interweaved``.  Exact.  The first fit compiles for longer.

    Parameters
    ----------
    n_split_merge : int, default=20
        Attempts to split or merge clusters in each sweep.
    n_moves : int, optional
        Moves on the grid each time.  None: a tenth of the number of records, at most 1000.
    min_records : int, default=1
        With fewer records it is ``Interweaved``.

    References
    ----------
    Liu (2001), Monte Carlo Strategies in Scientific Computing, §9.4.3; Christen & Fox (2005), "Markov chain Monte Carlo
    using an approximation".

    Examples
    --------
    >>> from sklearn_dpmix.samplers import Surrogate
    >>> Surrogate(n_moves=200)
    Surrogate(n_moves=200)
    """

    needs_marginal_channel = True
    needs_common_channel = True
    float_ranges = {**Interweaved.float_ranges, FINENESS: (0.0, 40.0)}
    #: probability that a sweep begins with such a move
    share = 0.5
    #: records of the smallest clusters that take part
    least = 12.0
    #: a weight's least value, in multiples of such a cluster's
    floor = 1.3
    #: fewest and most nodes in a standard deviation of the releases
    fineness = (3.0, 40.0)

    def __init__(self, n_split_merge: int = 20, n_moves: int | None = None, min_records: int = 1) -> None:
        super().__init__(n_split_merge)
        self.n_moves = n_moves
        self.min_records = min_records

    def check(self) -> None:
        super().check()
        if self.n_moves is not None:
            check_count(self, "n_moves", self.n_moves)
        check_count(self, "min_records", self.min_records)

    def restored(self, values: Any, Z: Array, kernel: Any, mixing: Any, state: Any, fresh: Any, n_sweeps: int) -> Any:
        state = super().restored(values, Z, kernel, mixing, state, fresh, n_sweeps)
        fineness = state.floats[FINENESS]
        require(fineness == 0.0 or fineness >= self.fineness[0], "floats", "has too coarse a grid")
        return state

    def sized(self, n_records: int, n_features: int) -> Interweaved:
        return self if n_features == 1 and n_records >= self.min_records else Interweaved(self.n_split_merge)

    def _lower(self, *, n_records, **context):
        n_moves = min(max(n_records // 10, 1), 1000) if self.n_moves is None else self.n_moves
        fields = {"n_aux": 1, "n_tries": float(self.n_split_merge), "n_grid_moves": int(n_moves)}
        coarsest, finest = self.fineness
        fields |= {"share": self.share, "least": self.least, "floor": self.floor}
        return lower(type(self), fields | {"coarsest": coarsest, "finest": finest})

    @compiled
    def sweep(self, channel, kernel, mixing, Z, state, rng, warming_up):
        if state.ints[STAGE] == 0:
            if state.counts.size < state.ints[N_SLOTS] + MOST:
                return False
            if rng.random() < self.share:
                move_on_grid(self, rng, channel, kernel, mixing, Z, state, warming_up)
        return interweaved_sweep(self, channel, kernel, mixing, Z, state, rng, warming_up)

    @compiled
    def log_ratio(self, before, after):
        """Log acceptance ratio, of log likelihood less that of the surrogate."""
        return after - before


@helper
def move_on_grid(sampler, rng, channel, kernel, mixing, Z, state, tune):
    """Walk from the large clusters, draw all their records' memberships, and accept or leave all as it was.

    Large are clusters of ``least`` records or more.  Which records are theirs stays: a proposal with a smaller cluster
    is rejected, and nothing is tried where a weight is too small to begin with.
    """
    counts, theta, ints, floats = state.counts, state.theta, state.ints, state.floats
    number, slots = np.full(ints[N_SLOTS], -1), np.empty(MOST, np.int64)  # the component of a slot; its slot
    n_large, n, total, smallest = 0, 0.0, 0.0, inf
    weights = np.zeros(MOST + 1)
    for k in range(ints[N_SLOTS]):
        if counts[k] >= sampler.least and n_large < MOST:
            number[k], slots[n_large] = n_large, k
            weights[n_large] = rng.standard_gamma(counts[k] - mixing.discount)
            total += weights[n_large]
            smallest = min(smallest, weights[n_large])
            n += counts[k]
            n_large += 1
    least = sampler.floor * sampler.least / n if n > 0.0 else inf
    if n_large == MOST or smallest < least * total or n_large == 0:
        return
    weights /= total
    members = state.order  # the component of each record, or -1; sorted anew before it is used as what it is
    for i in range(members.size):
        members[i] = number[state.alloc[i]]
    if floats[FINENESS] == 0.0:
        floats[FINENESS] = min(max(8.0, sampler.coarsest), sampler.finest)
    low, step, n_nodes = lay_grid(members, Z, n, floats[FINENESS])
    lattice = Lattice(low, step, np.zeros(n_nodes))
    share_out(members, Z, lattice)
    n_used = np.count_nonzero(lattice.place)
    grid = Grid(
        nodes=np.empty((n_used, 1)),
        mass=np.empty(n_used),
        density=np.empty((MOST + 1, n_used)),
        mix=np.empty(n_used),
        params=np.empty((theta.shape[1], MOST + 1)).T,
        weights=weights,
        trial=np.zeros(MOST + 1),
    )
    pack(lattice, grid)
    for h in range(n_large):
        for p in range(theta.shape[1]):
            grid.params[h, p] = theta[slots[h], p]
        fill_density(channel, kernel, grid, h)
    table, sizes = np.empty((n_used, MOST)), np.zeros(MOST)
    before = -log_surrogate(grid, weights, n_large)
    fill_table(grid, n_large, table)
    before += log_truth(channel, kernel, Z, lattice, grid, n_large, table, members)
    if not before < inf:  # the grid is so coarse that it could not have proposed what there is
        tune_fineness(sampler, floats, 0.0, tune)
        return
    fixed = Fixed(n, ints[N_CLUSTERS] - n_large, least, floats[CONCENTRATION])
    n_new, now = walk(rng, channel, kernel, mixing, grid, fixed, sampler.n_grid_moves, n_large)
    fill_table(grid, n_new, table)
    draw_members(rng, Z, lattice, grid, n_new, table, members, sizes)
    after = log_truth(channel, kernel, Z, lattice, grid, n_new, table, members) - now
    fits = after < inf
    for h in range(n_new):
        fits = fits and sizes[h] >= sampler.least
    probability = exp(min(sampler.log_ratio(before, after), 0.0)) if fits else 0.0
    tune_fineness(sampler, floats, probability, tune and fits)  # what does not fit says nothing about the grid
    if rng.random() < probability:
        for h in range(max(n_large, n_new)):
            if h >= n_large:
                slots[h] = take_slot(state)
                occupy(state)
            counts[slots[h]] = sizes[h] if h < n_new else 0.0
            if h >= n_new:
                vacate(state, slots[h])
            else:
                for p in range(theta.shape[1]):
                    theta[slots[h], p] = grid.params[h, p]
        for i in range(members.size):
            if members[i] >= 0:
                k = slots[members[i]]
                state.alloc[i] = k
                state.records[i, 0, 0] = channel.impute(rng, kernel, Z, i, 0, theta, k)
        compact(state)


@helper
def tune_fineness(sampler, floats, probability, tune):
    """More nodes where the probability of acceptance is below its target, fewer where it is above."""
    if tune:
        fineness = floats[FINENESS] * exp(0.3 * (TARGET - probability))
        floats[FINENESS] = min(max(fineness, sampler.coarsest), sampler.finest)


@helper
def lay_grid(members, Z, n, fineness):
    """(first node, step, number of nodes) of a grid over the releases of large clusters."""
    low, high, mean, square = inf, -inf, 0.0, 0.0
    for i in range(members.size):
        if members[i] >= 0:
            low, high = min(low, Z[i, 0]), max(high, Z[i, 0])
            mean += Z[i, 0] / n
    for i in range(members.size):
        if members[i] >= 0:
            square += (Z[i, 0] - mean) ** 2
    step = max(sqrt(square / n) / fineness, (high - low) / (MOST_NODES - 4))
    if step <= 0.0:
        step = 1.0
    return low - step, step, int((high - low) / step) + 4


@helper
def around(z, lattice):
    """(first of the four nodes around z, their weights in Lagrange's cubic)."""
    x = (z - lattice.low) / lattice.step
    b = min(max(int(x), 1), lattice.place.size - 3)
    x -= b
    u = 1.0 - x
    inner, outer = 0.5 * (1.0 + x) * (1.0 + u), x * u / 6.0
    return b - 1, (-outer * (1.0 + u), inner * u, inner * x, -outer * (1.0 + x))


@helper
def share_out(members, Z, lattice):
    """Share each release between the four nodes around it, so that a cubic is kept."""
    for i in range(members.size):
        if members[i] >= 0:
            b, shares = around(Z[i, 0], lattice)
            for s in shares:
                lattice.place[b] += s
                b += 1


@helper
def pack(lattice, grid):
    """Keep the nodes that have releases; ``place`` then says where a node went."""
    place, kept = lattice.place, 0
    for b in range(place.size):
        if place[b] != 0.0:
            grid.nodes[kept, 0], grid.mass[kept] = lattice.low + b * lattice.step, place[b]
            place[b] = kept
            kept += 1


@helper
def fill_table(grid, n_components, table):
    """w_k g(node | θ_k), the components of a node side by side."""
    for b in range(table.shape[0]):
        for h in range(n_components):
            table[b, h] = grid.weights[h] * grid.density[h, b]


@helper
def fill_parts(z, lattice, grid, n_components, table):
    """What the surrogate, cubic between nodes, gives each component of the density at z, in ``trial``; their sum."""
    b, (first, second, third, fourth) = around(z, lattice)
    place = lattice.place
    p, q, r, s = int(place[b]), int(place[b + 1]), int(place[b + 2]), int(place[b + 3])
    total = 0.0
    for h in range(n_components):
        part = first * table[p, h] + second * table[q, h] + third * table[r, h] + fourth * table[s, h]
        grid.trial[h] = max(part, 0.0)
        total += grid.trial[h]
    return total


@helper
def draw_members(rng, Z, lattice, grid, n_components, table, members, sizes):
    """A component for each record by the surrogate; count them."""
    for i in range(members.size):
        if members[i] >= 0:
            u, chosen = rng.random() * fill_parts(Z[i, 0], lattice, grid, n_components, table), 0
            for h in range(n_components):
                if grid.trial[h] > 0.0:
                    chosen = h
                    u -= grid.trial[h]
                    if u < 0.0:
                        break
            members[i] = chosen
            sizes[chosen] += 1.0


@helper
def log_truth(channel, kernel, Z, lattice, grid, n_components, table, members):
    """Σ log [w_k g(z_i | θ_k) / p(c_i = k)], p by the surrogate: but for its errors its own log likelihood.

    Infinite where the surrogate does not give a record the component that it has.
    """
    total = 0.0
    for i in range(members.size):
        if members[i] >= 0:
            h = members[i]
            mix = fill_parts(Z[i, 0], lattice, grid, n_components, table)
            if grid.trial[h] <= 0.0:
                return inf
            ratio = grid.weights[h] * (mix / grid.trial[h])
            total += channel.log_marginal(kernel, Z, i, 0, grid.params, h) + log(ratio)
    return total
