"""The posterior of the mixing measure itself, given nodes that stand for any number of records."""

from math import exp, lgamma, log, sqrt
from typing import Any, NamedTuple

import numpy as np
from scipy.special import gammainccinv

from .._compiled import compiled, entry, lower
from .._nodes import FEW, Nodes, cell_edges, compress
from .._restore import require_range
from ._base import MixtureSampler, check_concentration, check_count
from ._measure_draws import keep_draw, log_likelihoods
from ._measure_masses import bear_or_kill, change_mass, move_concentration, move_mass
from ._measure_splits import part_or_join, split_or_merge
from ._measure_state import (
    BASE,
    CENTRE,
    CONCENTRATION,
    CUT,
    DUST_RANGE,
    HALF_LOG_2PI,
    LARGEST,
    MAX_ATOMS,
    N_ATOMS,
    N_DUST,
    N_LAW,
    N_RECORDS,
    N_SWEEPS,
    NEAR,
    REACH,
    fill,
    grow,
    make_walk,
    new_state,
    refresh,
)
from ._measure_steps import step_one, step_two
from ._parameter_draws import n_kept
from ._run import DONE, NO_ROOM, NO_SLOTS, Draws, twice

MANY = 30_000  # records, from which on a sweep has more moves
N_WIDTHS = 4.0  # standard deviations of the population on either side of its mean, where cells are narrow
NARROWEST = 1e-6  # prior probability of a component narrower than nodes are first laid out for
TOLERANCE = 0.005  # of the log likelihood of all records
N_TRIAL = 400  # sweeps of the run that tries nodes out
MANY_NODES = 3000


class Compressed(NamedTuple):
    """What the chains see of a release: nodes, the noise's densities there given a bound, and constants."""

    nodes: np.ndarray  # (2, nodes)
    ends: np.ndarray  # (2, nodes)
    law: np.ndarray
    are_records: bool
    width: float  # of the cells
    wanted: float = 0.0  # width of the cells that would be right, where the release's summary has none so narrow


class MixingMeasure(MixtureSampler):
    """Walks over the mixing measure, with allocations and confidential records integrated out: any n at one price.

    The likelihood of a release depends on the population's density only through a few hundred weighted nodes (Gauss
    rules of the records of each cell of the line), so that a move costs the same for a thousand records as for a
    billion.  The Dirichlet process is an unnormalised gamma process, whose atoms are born, die, split, merge, exchange
    mass, and take Langevin steps; those too small to hold a record are drawn anew as a whole in each sweep.

    One feature; normal kernels; additive noise of one scale that offers its noised normal densities (Laplace and
    Gaussian, clamped or not); a Dirichlet process.

    Parameters
    ----------
    n_moves : int, optional
        Moves in a sweep.  None: 100, and twice as many from 30,000 records on, where atoms move less far.

    Notes
    -----
    Exact but for two things that are far below Monte Carlo error.  Atoms are left out that hold some 10⁻⁴ records
    together.  Nodes are first laid out for components as wide as the prior makes all but one in 10⁶, where they are
    exact to rounding, and refined until cells half as wide change the log likelihood by less than 0.005 over a trial
    run; ``compression_error_`` of the fit is the largest such change over 100 of its draws.  The records enter by a
    ``ReleaseSummary``; where one that was given to ``fit`` has wider cells than the fit wants, ``compression_error_``
    counts what they leave out, and a warning has the width to ask for.

    References
    ----------
    Ferguson & Klass (1972) for the gamma process; Richardson & Green (1997) for moment-matching splits; Girolami &
    Calderhead (2011) for the steps; Gautschi (2004) for Gauss rules from modified moments.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import MixingMeasure
    >>> MixingMeasure(n_moves=50)
    MixingMeasure(n_moves=50)
    """

    needs_marginal_channel = True
    needs_common_channel = True
    needs_noised_kernel = True
    needs_gamma_process = True
    #: largest concentration, or prior mean of one: atoms are about this times the log of fifty times the records
    max_concentration = 20.0
    keeps_records = False
    takes_summaries = True

    def __init__(self, n_moves: int | None = None) -> None:
        self.n_moves = n_moves

    def check(self) -> None:
        if self.n_moves is not None:
            check_count(self, "n_moves", self.n_moves)

    def _lower(self, *, n_records, **context):
        n_moves = (200 if n_records >= MANY else 100) if self.n_moves is None else int(self.n_moves)
        return lower(type(self), {"n_aux": 1, "n_moves": n_moves})

    # --- what the chains see of the release --------------------------------------------------------------------------

    def summarise(self, values: Any, Z: Any, release: Any) -> Any:
        """Nodes, refined until half as wide cells change the log likelihood of no draw of a short trial run."""
        if release.n_features != 1:
            raise ValueError(
                f'sampler {self.label} takes one feature, but the release has {release.n_features}: use sampler="auto"'
            )
        kernel = values[2]
        narrowest = sqrt(kernel.prior_scale[0] / gammainccinv(kernel.prior_shape[0], NARROWEST))
        width = release.mechanism.node_spacing(narrowest)
        seen = self.compressed(values, Z, release, max(width, release.narrowest()))
        seen = seen._replace(wanted=width if width < seen.width else 0.0)
        while not seen.are_records and seen.nodes.shape[1] < MANY_NODES:
            rng = np.random.default_rng(0)
            start = self.init(values, seen, None, None, rng)
            _, draws = self.advance(values, seen, start, rng, N_TRIAL, N_TRIAL // 4, 1)
            if self.compression_error(values, Z, release, seen, draws) < TOLERANCE:
                break
            if 0.5 * seen.width < release.narrowest():
                return seen._replace(wanted=min(width, 0.5 * seen.width))
            seen = self.compressed(values, Z, release, 0.5 * seen.width)
        return seen

    def compressed(self, values: Any, Z: Any, release: Any, width: float) -> Compressed:
        """What the chains see, with cells of this width where the population is."""
        _, channel, kernel, _ = values
        mean, variance = release.moments()
        n, reach = release.n_records, N_WIDTHS * sqrt(variance[0])
        nodes = self.nodes(release.nodes(width), n, mean[0] - reach, mean[0] + reach, width)
        law = np.zeros(N_LAW)
        law[N_RECORDS], law[CUT] = n, min(0.02 / n, 0.01)
        law[CENTRE], law[REACH] = mean[0], 0.75 * reach
        shape, scale, precision = kernel.prior_shape[0], kernel.prior_scale[0], kernel.precision[0]
        law[NEAR] = sqrt(scale / shape * (1.0 + 1.0 / precision))
        law[BASE] = 0.5 * log(precision) - HALF_LOG_2PI + shape * log(scale) - lgamma(shape)
        return Compressed(*self.with_ends(channel, release, nodes), law, n <= FEW, width)

    def nodes(self, fine: Nodes, n: int, core_low: float, core_high: float, width: float) -> Nodes:
        """Nodes for n records for which ``fine`` stands."""
        low, high = fine.places[0], fine.places[-1]
        if n <= FEW:
            return fine
        if low == high:
            return Nodes(fine.places[:1], np.array([float(n)]))
        return compress(fine, cell_edges(low, high, core_low, core_high, width))

    def with_ends(self, channel: Any, release: Any, nodes: Nodes) -> tuple[Any, Any]:
        """The nodes, and the noise's densities there given a record at either bound."""
        mechanism, noise, bounds = release.mechanism, float(channel.noise[0]), (channel.low[0], channel.high[0])
        ends = [
            np.exp(mechanism.log_noise(nodes.places - end, noise)) if np.isfinite(end) else np.zeros(len(nodes.places))
            for end in bounds
        ]
        return np.array(nodes), np.array(ends)

    def compression_error(self, values: Any, Z: Any, release: Any, seen: Any, draws: Any) -> float | None:
        if seen.are_records:
            return 0.0
        finer = self.compressed(values, Z, release, 0.5 * seen.width)
        error = self.difference(values[1], seen[:2], finer[:2], draws)
        if 0.5 * seen.width < release.narrowest():  # then what the narrow cells leave out counts, too
            one, other = (self.with_ends(values[1], release, nodes) for nodes in release.narrow_nodes())
            error = max(error, self.difference(values[1], one, other, draws))
        return error

    def difference(self, channel: Any, seen: Any, finer: Any, draws: Draws) -> float:
        """Largest difference of the log likelihoods, on two sets of nodes with ends, of at most a hundred draws."""
        start = np.append(0, np.cumsum(draws.n_atoms))
        chosen = np.unique(np.linspace(0, len(draws.n_atoms) - 1, min(100, len(draws.n_atoms))).astype(np.int64))
        values = np.zeros((2, len(chosen)))
        for found, (nodes, ends) in zip(values, (seen, finer), strict=True):
            log_likelihoods(channel, nodes, ends, chosen, start, draws.weights, draws.theta, found)
        return float(np.max(np.abs(values[0] - values[1]), initial=0.0))

    # --- chains ------------------------------------------------------------------------------------------------------

    def init(self, values: Any, Z: Any, records: Any, sizes: Any, rng: np.random.Generator) -> Any:
        state, (_, _, kernel, mixing) = new_state(), values
        places, weights = Z.nodes
        n = int(rng.integers(1, 11))
        state.mass[:n] = 1.0 / n
        state.place[:n, 0] = rng.choice(places, n, p=weights / weights.sum())
        state.place[:n, 1] = np.log(kernel.prior_scale[0] / rng.standard_gamma(kernel.prior_shape[0], n))
        state.ints[N_ATOMS] = n
        state.floats[0] = mixing.start
        return state

    def continued(self, Z: Any, state: Any) -> Any:
        """Dust above the cut of more records is atoms; the rest is drawn anew."""
        n, n_dust = int(state.ints[N_ATOMS]), int(state.ints[N_DUST])
        mass = np.concatenate([state.mass[:n], state.dust_mass[:n_dust]])
        place = np.concatenate([state.place[:n], state.dust_place[:n_dust]])
        is_atom = mass > Z.law[CUT]
        n, fresh = int(is_atom.sum()), new_state()
        while fresh.mass.size < 2 * n:
            fresh = grow(fresh)
        fresh.mass[:n], fresh.place[:n] = mass[is_atom], place[is_atom]
        fresh.ints[N_ATOMS], fresh.floats[0] = n, state.floats[0]
        return fresh

    def restored(self, values: Any, Z: Any, kernel: Any, mixing: Any, state: Any, fresh: Any, n_sweeps: int) -> Any:
        state, cut = state.restored(fresh, n_sweeps), Z.law[CUT]
        require_range(cut, LARGEST, mass=state.mass[: state.ints[N_ATOMS]])
        require_range(0.99 * exp(-DUST_RANGE) * cut, cut, dust_mass=state.dust_mass[: state.ints[N_DUST]])
        check_concentration(mixing, state.floats[0], 1)
        return state

    def advance(
        self, values: Any, Z: Any, state: Any, rng: np.random.Generator, n_sweeps: int, n_warmup: int, thin: int
    ) -> Any:
        done = int(state.ints[N_SWEEPS])
        n_draws = n_kept(done, n_sweeps, n_warmup, thin)
        counts, n_rows = np.zeros((2, n_draws), np.int64), 32 * n_draws + 4 * state.mass.size
        draws = Draws(counts[0], counts[1], np.zeros(n_draws), np.zeros(n_rows), np.zeros((n_rows, 4)))
        filled, stop, (sampler, channel, kernel, mixing) = np.zeros(2, np.int64), NO_ROOM, values
        while stop != DONE:
            walk = make_walk(state, Z.nodes, Z.ends, Z.law)
            until, are_records = done + n_sweeps, Z.are_records
            stop = run(sampler, channel, kernel, mixing, walk, are_records, rng, until, n_warmup, thin, draws, filled)
            state.floats[0] = walk.law[CONCENTRATION]
            if stop == NO_ROOM:
                draws = draws._replace(weights=twice(draws.weights), theta=twice(draws.theta))
            elif stop == NO_SLOTS:
                if state.mass.size >= MAX_ATOMS:
                    raise MemoryError("the mixing measure needs more than 16,384 atoms: use a smaller concentration")
                state = grow(state)
        return state, draws._replace(weights=draws.weights[: filled[1]].copy(), theta=draws.theta[: filled[1]].copy())

    @compiled
    def sweep(self, channel, kernel, mixing, walk, rng):
        """``n_moves`` moves at random, then the dust and the concentration."""
        for _ in range(self.n_moves):
            u = rng.random()
            if u < 0.13:
                move_mass(rng, walk)
            elif u < 0.20:
                change_mass(rng, walk)
            elif u < 0.37:
                bear_or_kill(rng, channel, kernel, walk)
            elif u < 0.54:
                split_or_merge(rng, channel, kernel, walk)
            elif u < 0.67:
                part_or_join(rng, channel, kernel, walk)
            elif u < 0.78:
                step_one(rng, channel, kernel, walk)
            else:
                step_two(rng, channel, kernel, walk)
        move_concentration(rng, channel, kernel, mixing, walk)


@entry
def run(sampler, channel, kernel, mixing, walk, are_records, rng, until, n_warmup, thin, draws, filled):
    """Sweep up to sweep ``until``; keep a draw after every ``thin`` sweeps beyond the warm-up.  Return why it stops."""
    ints, capacity, occupied = walk.ints, walk.mass.size, walk.chosen
    for k in range(ints[N_ATOMS]):
        fill(channel, walk, walk.place, k, walk.table[k])
    for k in range(ints[N_DUST]):
        fill(channel, walk, walk.dust_place, k, walk.dust_table[k])
    while ints[N_SWEEPS] < until:
        if draws.weights.size < filled[1] + 2 * capacity + 1:
            return NO_ROOM
        if ints[N_ATOMS] > capacity // 2 or ints[N_DUST] > capacity // 4:
            return NO_SLOTS
        refresh(walk)
        sampler.sweep(channel, kernel, mixing, walk, rng)
        ints[N_SWEEPS] += 1
        sweep = ints[N_SWEEPS] - n_warmup
        if sweep > 0 and sweep % thin == 0:
            t, used = filled[0], filled[1]
            refresh(walk)
            n_occupied, n_atoms = keep_draw(rng, kernel, walk, are_records, occupied, draws.weights, draws.theta, used)
            draws.n_clusters[t], draws.n_atoms[t] = n_occupied, n_atoms
            draws.concentration[t] = walk.law[CONCENTRATION]
            filled[0] += 1
            filled[1] += n_atoms
    return DONE
