"""The posterior of the mixing measure itself, given nodes that stand for any number of records."""

from typing import Any

import numpy as np

from ...._base.compiled import compiled, entry
from ...._releases.nodes import FEW
from ..._driver import is_kept, n_kept
from .._run import DONE, NO_ROOM, NO_SLOTS, Draws, twice
from .._sampler import MixtureSampler, check_count
from ._categorical_atoms import chances_of
from ._compressed import Compressed, chart_and_masses, chart_kind, different, law_of, new_draws, sweeps_a_draw
from ._excursions import come_home, set_out
from ._few_nodes import ChoiceOfFew
from ._glides import FEW_POINTS, glide_often
from ._masses import bear_or_kill, change_mass, move_mass
from ._node_layout import MOST_TIMES, MOST_WORK, NodeLayout
from ._outside import outside_of
from ._parts import part_or_join
from ._sheet import choose_points
from ._starts import Starts
from ._steps import step_one
from ._walk_atoms import (
    IS_EXCURSION,
    IS_FILLED,
    N_ATOMS,
    N_DUST,
    N_MOVES,
    N_SWEEPS,
    OUTSIDE,
    TIMES,
    TOTAL,
    n_all,
    number,
)
from ._walk_draws import keep_draw, log_likelihoods
from ._walk_likelihood import refresh, refresh_stale
from ._walk_state import MAX_ATOMS, MOST_SWEEPS, grow, new_state, write_back
from ._ways import ways_of

N_MOVES_ANSWERS = 200  # in a sweep over categories
MANY_TIMES = 4  # as many moves where those of shares are of one direction
TIMES_OF_SEVERAL, MOST_OF_SEVERAL = 3.0, 1.25  # times as many, at least and most, of many answers to several questions
TOLERANCE = 0.005  # of the log likelihood of all records
LEAST_CHECKED, MOST_CHECKED = 100, 3e7  # draws whose log likelihood is looked at; times nodes and atoms
N_TRIAL = 600  # sweeps of the run that tries nodes out; a third of them come before its first draw
N_TOGETHER, MOVES_BESIDE = 2, 300  # sweeps between glides, and moves in each
N_FAMILY = 100  # components by which points for glides are chosen
WORTH_GLIDING = 3.0  # times as many moves as there may be, from which on glides over many points are worth their time
WORTH_EXCURSIONS = 150_000  # moves in a sweep, times nodes and features, from which on excursions take less time
MANY_NODES, MOST_NODES = 3000, 10_000  # from which on cells are halved one by one, and no more
MOST_WORK_A_SWEEP = 4e6  # moves, times nodes and features, where several sweeps count as one
WIDER = 2.0  # first boxes of several features, which the trial run narrows where it must
STEP, STEP_OF_SCALES = 0.5, 0.5**0.5  # to the width of narrower cells


class MixingMeasure(NodeLayout, ChoiceOfFew, Starts, MixtureSampler):
    """Walks over the mixing measure, with allocations and confidential records integrated out: for any n.

    The likelihood of a release of one feature depends on the population's density only through a few hundred weighted
    nodes (Gauss rules of the records of each cell of the line), so that a move costs the same for a thousand records as
    for a billion.  Of several features some records stand for those near them, with all moments kept, or each for
    itself where that does not leave many fewer; so do records of noise scales of their own, if there are more than a
    few scales.  The Dirichlet process is an unnormalised gamma process, whose atoms
    are born, die, split, merge, exchange mass, and take Langevin steps, alone, with a neighbour, or many together;
    those too small to hold a record are drawn anew as a whole.  Where a trial run says that this would take long,
    several atoms glide along what the records leave open; of several features there are excursions over a few nodes,
    at whose end all nodes are looked at.

    Normal kernels and a channel that offers its noised normal densities (Laplace and Gaussian noise, clamped or not, of
    one scale or one a record; discrete noise of one scale on any number of integers, with nodes among the different
    values, or anywhere if it is wide Gaussian noise; the windows of the square wave, the piecewise and the hybrid
    mechanism, and binomial counts, of one ε; Haar coefficients); truncated normal and beta kernels, of one feature,
    without the integers and the hybrid mechanism; convolved normal
    kernels; correlated normal ones under Gaussian noise of one scale, if nothing is clamped before it, or of two
    features if it is not much narrower than the bounds, and under other Gaussian and Laplace noise, with a record, or
    what makes it, kept beside each release; normal kernels without noise; or categorical kernels and randomised
    response of one ε, where the different answers are the nodes; a Dirichlet process with a concentration of at most
    20, a mixture of finite mixtures whose possible numbers of components have no gaps, or a Pitman–Yor process with a
    discount of at most 0.3 and a concentration of at most 5.

    Parameters
    ----------
    n_moves : int, optional
        Moves in a sweep.  None: as many as make a draw worth keeping, by a short trial run; for one feature 100 to 400,
        for several 50 to 200, and fewer for many nodes; for categories 200 to 800, fewer for many answers; and up to
        eight times as many where the draws of a fit turn out to be worth little (``n_draws`` of ``PrivateDPMixture``).

    Notes
    -----
    Numerical errors are far below Monte Carlo error. Atoms are left out that hold some 10⁻⁴ records together. Densities
    of records on an interval are taken at some hundred points of it, which gives those of releases to 10⁻⁷ or so, and
    at more points where the trial run finds components narrower than the prior's. Nodes are first laid out for
    components as wide as the prior makes all but one in 10⁶, where they are exact to rounding, and refined until cells
    half as wide change the log likelihood by less than 0.005 over a trial run; beyond 3000 nodes only where they do;
    ``compression_error_`` of the fit is the largest such change over its draws (where that would take long, 100 or more
    of them), with twice as many points of the interval in it. The records enter by a ``ReleaseSummary``; where one that
    was given to ``fit`` has wider cells than the fit wants, ``compression_error_`` counts what they leave out, and a
    warning has the width to ask for.

    References
    ----------
    Ferguson & Klass (1972) for the gamma process; Richardson & Green (1997) for moment-matching splits; Girolami &
    Calderhead (2011) for the steps; Zappa, Holmes-Cerfon & Goodman (2018) for glides; Liu (2001, §9.4.3) and Christen &
    Fox (2005) for excursions; Gautschi (2004) for Gauss rules from modified moments; Litterer & Lyons (2012) for fewer
    records with the same moments.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import MixingMeasure
    >>> MixingMeasure(n_moves=50)
    MixingMeasure(n_moves=50)
    """

    needs_noised_kernel = True
    needs_masses = True
    keeps_records = False
    takes_correlated = frozenset({"noise"})
    takes_summaries = True
    takes_thresholds = True
    takes_noncompliance = True

    def __init__(self, n_moves: int | None = None) -> None:
        self.n_moves = n_moves

    def most_times(self, seen: Compressed) -> int:
        work = max(seen.law[N_MOVES] * seen.nodes[:-1].size, 1.0)
        return 1 if self.n_moves is not None else int(min(MOST_SWEEPS, max(MOST_WORK_A_SWEEP / work, 1.0)))

    def check(self) -> None:
        if self.n_moves is not None:
            check_count(self, "n_moves", self.n_moves)

    def takes_features(self, mechanism: Any, kernel: Any, n_features: int) -> bool:
        return n_features == 1 or not getattr(chart_kind(kernel, mechanism), "is_on_interval", False)

    # --- what the chains see of the release --------------------------------------------------------------------------

    def summarise(self, values: Any, Z: Any, release: Any) -> Any:
        """Nodes, refined until half as wide cells change the log likelihood of no draw of a short trial run."""
        chart, masses = chart_and_masses(values)
        if chart.is_finite:
            return self.answers(values, Z, release)
        chart.check(self.label, release.n_features)
        masses.check(self.label, release.n_records)
        is_line = release.n_features == 1 and release.channel.has_one_law and release.channel.tables != "bins"
        step = STEP if release.channel.has_one_law else STEP_OF_SCALES
        if not is_line and release.channel.tables is not None:
            width = 0.0
        else:
            width = release.channel.node_spacing(chart.narrowest()[0]) * (WIDER if release.n_features > 1 else 1.0)
        seen = self.compressed(values, Z, release, max(width, release.narrowest()))
        seen = seen._replace(wanted=width if width < seen.width else 0.0)
        while True:
            if seen.are_records and self.n_moves is not None:
                return seen
            draws = self.trial_draws(values, seen)
            if chart.is_on_interval and (narrow := self.narrower(values, Z, release, seen, draws)) is not None:
                finer = self.compressed(
                    values, Z, release, seen.width, chart.with_points_for(narrow), edges=seen.edges
                )
                seen = finer._replace(wanted=seen.wanted)
                continue
            if seen.are_records or not seen.width:
                break
            if self.compression_error(values, Z, release, seen, draws) < TOLERANCE:
                break
            if step * seen.width < release.narrowest():
                seen = seen._replace(wanted=min(width, step * seen.width))
                break
            if seen.nodes.shape[1] >= MANY_NODES and is_line:
                edges, least = self.finer_edges(values, Z, release, seen, draws)
                if least == 0.0:
                    seen = seen._replace(wanted=min(width, step * seen.width))
                    break
                finer = self.compressed(values, Z, release, least, seen.chart(values), edges=edges)
                seen = finer._replace(wanted=seen.wanted)
                continue
            seen = self.compressed(values, Z, release, step * seen.width, seen.chart(values))
        if self.n_moves is not None:
            return seen
        times = self.lengthen(seen, draws, seen.chart(values))
        if release.n_features > 1 or release.channel.tables == "bins":
            is_worth = times > 1.0 or seen.law[N_MOVES] * seen.nodes[:-1].size > WORTH_EXCURSIONS
            can_roam = seen.n_seen is None and not chart.keeps_records
            return self.with_few(values, seen, draws) if is_worth and can_roam else seen
        can_glide = is_line and chart.can_glide and release.channel.released_above is None
        return self.with_glides(values, seen, times) if can_glide and times > 1.0 else seen

    def narrower(self, values: Any, Z: Any, release: Any, seen: Compressed, draws: Draws) -> Any:
        """Components of draws that the chart should have points for, if more points change their log likelihood."""
        chart, n_expected = seen.chart(values), draws.weights * release.n_records
        found = chart.narrower(draws.theta[n_expected >= 1.0])
        if found is None:
            return None
        finer = self.compressed(values, Z, release, seen.width, chart.finer(), edges=seen.edges)
        return None if self.difference(values, seen, finer, draws, chart.finer()) < TOLERANCE else found

    def finer_edges(self, values: Any, Z: Any, release: Any, seen: Compressed, draws: Draws) -> Any:
        """Edges with those cells halved that the log likelihoods of draws ask for, and the least width of a cell.

        Log densities may be no polynomials in a few cells only: at the ends of windows around narrow components, say.
        The width is 0 if no cell can be halved.
        """
        chart, edges, least = seen.chart(values), seen.edges, seen.width
        if edges is None:
            edges, least = self.edges_of_line(release, chart, seen.width)
        finer = self.compressed(values, Z, release, 0.5 * seen.width, chart, True, seen.edges)
        cells = [np.searchsorted(edges, nodes.nodes[0], side="right") for nodes in (seen, finer)]
        one, other = self.log_likelihoods(values, (seen, finer), (chart, chart), draws, cells, len(edges) + 1)
        error, middle = np.max(np.abs(one - other), axis=0)[1:-1], 0.5 * (edges[:-1] + edges[1:])
        order, is_wrong = np.argsort(error), (edges[:-1] < middle) & (middle < edges[1:])
        is_wrong[order[np.cumsum(error[order]) < 0.5 * TOLERANCE]] = False
        is_wrong &= middle - edges[:-1] >= release.narrowest()
        if not is_wrong.any() or seen.nodes.shape[1] > MOST_NODES:
            return edges, 0.0
        return np.union1d(edges, middle[is_wrong]), min(least, float((middle - edges[:-1])[is_wrong].min()))

    def lengthen(self, seen: Compressed, draws: Draws, chart: Any) -> float:
        """Give a sweep as many moves as make a draw worth keeping; return by how many times they are too many."""
        n = seen.law[N_MOVES]
        wanted = n * sweeps_a_draw(draws, seen, chart) / chart.worth
        seen.law[N_MOVES] = round(max(n, min(wanted, seen.most_moves)))
        return float(wanted / seen.most_moves)

    def with_glides(self, values: Any, seen: Compressed, times: float) -> Compressed:
        """With points for glides, chosen by their densities under some components at records."""
        chart, rng, weights = seen.chart(values), np.random.default_rng(0), seen.weights
        chosen = rng.choice(len(weights), N_FAMILY, p=weights / weights.sum())
        densities = self.densities(values, seen, chart.start(seen.near[:, chosen], rng))
        points, scales = choose_points(densities, weights)
        if not len(points) or (len(points) > FEW_POINTS and times < WORTH_GLIDING):
            return seen
        if len(points) <= FEW_POINTS:  # then glides do most of the work
            seen.law[N_MOVES] = min(MOVES_BESIDE, seen.law[N_MOVES])
        return seen._replace(points=points, scales=scales, apart=N_TOGETHER)

    def densities(self, values: Any, seen: Compressed, place: Any) -> Any:
        """Densities of components with these coordinates, (components, nodes for records)."""
        chart, masses, n = seen.chart(values), chart_and_masses(values)[1], len(place)
        state = new_state(chart.n_coordinates(), n, seen.start())
        state.place[:], state.ints[N_ATOMS] = place, n
        walk = seen.walk(state, masses.value())
        self.roam(values, chart.value(), walk, np.random.default_rng(0), 0)
        return walk.tables.reshape(-1, int(walk.n_rows), seen.nodes.shape[1])[:n, 0, : len(seen.weights)]

    def answers(self, values: Any, Z: Any, release: Any) -> Compressed:
        """Nodes of a channel of answers: those that were given, and how often each was."""
        nodes, n, (chart, masses) = different(Z), len(Z), chart_and_masses(values)
        law = law_of(chart, masses, n, None, None)
        most = (MANY_TIMES if chart.goes_ways else 1) * MOST_WORK // (nodes.shape[1] * chart.n_coordinates())
        law[N_MOVES] = min(max(most, 10), N_MOVES_ANSWERS) if self.n_moves is None else self.n_moves
        lookup = np.zeros((2 * release.n_features, nodes.shape[1]))
        seen = Compressed(nodes, lookup, nodes[:-1], law, n <= FEW, 0.0, most_moves=MOST_TIMES * law[N_MOVES])
        if chart.goes_ways:
            ways = ways_of(release.channel, nodes)
            seen = seen._replace(ways=ways, chances=ways.answers)
        else:
            seen = seen._replace(chances=chances_of(values[1], nodes, int(values[2].size)))
        if release.channel.noncompliance is not None:
            seen = seen._replace(outside=outside_of(release.channel, nodes))
            if self.n_moves is None and release.n_features > 1 and n > FEW:
                law[N_MOVES] *= TIMES_OF_SEVERAL
                seen = seen._replace(most_moves=MOST_OF_SEVERAL * seen.most_moves)
        if self.n_moves is None:
            self.lengthen(seen, self.trial_draws(values, seen), chart)
        return seen

    def trial_draws(self, values: Any, seen: Compressed, rng: Any = None, n: int | None = None) -> Draws:
        rng, n = np.random.default_rng(0) if rng is None else rng, N_TRIAL if n is None else n
        start = self.init(values, seen, None, None, rng)
        return self.advance(values, seen, start, rng, n, n // 3, 1)[1]

    def compression_error(self, values: Any, Z: Any, release: Any, seen: Any, draws: Any) -> float:
        chart = seen.chart(values)
        if (seen.are_records or not seen.width) and not chart.is_on_interval:
            return 0.0
        finer = self.compressed(values, Z, release, 0.5 * seen.width, chart.finer(), True, seen.edges)
        error = self.difference(values, seen, finer, draws, chart.finer())
        if 0.5 * seen.width < release.narrowest():  # then what the narrow cells leave out counts, too
            narrow = [np.array(nodes) for nodes in release.narrow_nodes()]
            parts = [seen._replace(nodes=p, lookup=chart.lookup(release.channel, p[:-1])) for p in narrow]
            one, other = (self.with_threshold(part, release) for part in parts)
            error = max(error, self.difference(values, one, other, draws))
        return error

    def difference(
        self, values: Any, seen: Compressed, finer: Compressed, draws: Draws, finer_chart: Any = None
    ) -> float:
        """Largest difference of the log likelihoods of draws: of all, or as many as take little time."""
        charts = seen.chart(values), finer.chart(values) if finer_chart is None else finer_chart
        parts = [np.zeros(nodes.nodes.shape[1], np.int64) for nodes in (seen, finer)]
        one, other = self.log_likelihoods(values, (seen, finer), charts, draws, parts, 1)
        return float(np.max(np.abs(one - other), initial=0.0))

    def log_likelihoods(self, values: Any, layouts: Any, charts: Any, draws: Draws, parts: Any, n_parts: int) -> Any:
        """Those of draws, of all or as many as take little time, by each layout of nodes: (draws, parts of nodes)."""
        masses, start = chart_and_masses(values)[1], np.append(0, np.cumsum(draws.n_atoms))
        work = layouts[-1].nodes[:-1].size * np.mean(draws.n_atoms)
        n_chosen = min(len(draws.n_atoms), max(LEAST_CHECKED, int(MOST_CHECKED / work)))
        chosen = np.unique(np.linspace(0, len(draws.n_atoms) - 1, n_chosen).astype(np.int64))
        found = np.zeros((2, len(chosen), n_parts))
        for rows, nodes, one, part in zip(found, layouts, charts, parts, strict=True):
            walk, channel = nodes.walk(new_state(one.n_coordinates(), 1), masses.value()), one.seen_of(values[1])
            log_likelihoods(channel, one.value(), walk, chosen, start, draws.weights, draws.theta, part, rows)
        return found

    # --- chains ------------------------------------------------------------------------------------------------------

    def advance(
        self, values: Any, Z: Any, state: Any, rng: np.random.Generator, n_sweeps: int, n_warmup: int, thin: int
    ) -> Any:
        times, done = state.ints[TIMES], int(state.ints[N_SWEEPS])
        n_sweeps, n_warmup, thin = (int(times * n) for n in (n_sweeps, n_warmup, thin))
        n_draws = n_kept(done, n_sweeps, n_warmup, thin)
        filled, stop, masses = np.zeros(2, np.int64), NO_ROOM, chart_and_masses(values)[1]
        chart = Z.chart(values)
        channel, value, law_of_masses, sheet = chart.seen_of(values[1]), chart.value(), masses.value(), Z.sheet()
        n_rows = 32 * n_draws + 4 * state.mass.size
        draws = new_draws(n_draws, n_rows, chart, Z.outside is not None)
        while stop != DONE:
            walk, until = Z.walk(state, law_of_masses), done + n_sweeps
            few = Z.few.walk(state, law_of_masses) if Z.few is not None else None
            stop, sweep = DONE, int(walk.law[N_SWEEPS])
            while stop == DONE and sweep < until:  # a few at a time where glides or an excursion follow
                sweep = min(until, sweep - sweep % Z.apart + Z.apart) if Z.apart else until
                stop = run(values[0], channel, value, walk, Z.are_records, rng, sweep, n_warmup, thin, draws, filled)
                if stop == DONE and sheet is not None and sweep % Z.apart == 0:
                    glide_often(channel, value, walk, sheet, rng, Z.apart)
                if stop == DONE and few is not None and sweep % Z.apart == 0:
                    set_out(walk, few)
                    self.roam(values, value, few, rng, 1)
                    come_home(channel, value, walk, few, rng)
            write_back(walk, state)
            if stop == NO_ROOM:
                draws = draws._replace(weights=twice(draws.weights), theta=twice(draws.theta))
            elif stop == NO_SLOTS:
                if state.mass.size >= MAX_ATOMS:
                    raise MemoryError("the mixing measure needs more than 16,384 atoms: use a smaller concentration")
                state = grow(state)
        return state, draws._replace(weights=draws.weights[: filled[1]].copy(), theta=draws.theta[: filled[1]].copy())

    def roam(self, values: Any, value: Any, walk: Any, rng: np.random.Generator, n_sweeps: int) -> None:
        """Fill a walk's tables, and sweep; no draw is kept."""
        (chart, _), filled = chart_and_masses(values), np.zeros(2, np.int64)
        nothing, channel = new_draws(0, 2 * int(walk.capacity) + 1, chart, False), chart.seen_of(values[1])
        run(values[0], channel, value, walk, False, rng, n_sweeps, n_sweeps, 1, nothing, filled)

    @compiled
    def sweep(self, channel, chart, walk, rng):
        """As many moves at random as the law says, then what is random beside the atoms above the cut."""
        mass, masses, births, parts, joins, one, two = chart.moves()
        for _ in range(int(walk.law[N_MOVES] * chart.share(walk))):
            walk.before_move(rng, channel, chart)
            u = rng.random()
            if u < mass:
                move_mass(rng, walk)
            elif u < masses:
                change_mass(rng, walk)
            elif u < births:
                bear_or_kill(rng, channel, chart, walk)
            elif u < parts:
                chart.part(rng, channel, walk)
            elif u < joins:
                part_or_join(rng, channel, chart, walk)
            elif u < one:
                step_one(rng, channel, chart, walk)
            elif u < two:
                chart.step(rng, channel, walk)
            else:
                chart.slide(rng, channel, walk)
        refresh_stale(walk)
        chart.exchange(rng, channel, walk)
        refresh_stale(walk)
        if walk.law[IS_EXCURSION] == 0.0:
            walk.masses.renew(rng, channel, chart, walk)


@entry
def run(sampler, channel, chart, walk, are_records, rng, until, n_warmup, thin, draws, filled):
    """Sweep up to sweep ``until``; keep a draw after every ``thin`` sweeps beyond the warm-up.  Return why it stops."""
    law, capacity = walk.law, walk.capacity
    if law[IS_FILLED] == 0.0:
        for k in range(n_all(walk)):
            chart.fill(channel, walk, number(walk, k))
    while law[N_SWEEPS] < until:
        if draws.weights.size < filled[1] + 2 * capacity + 1:
            return NO_ROOM
        if law[N_ATOMS] > capacity // 2 or law[N_DUST] > capacity // 4:
            return NO_SLOTS
        refresh(walk)
        sampler.sweep(channel, chart, walk, rng)
        law[N_SWEEPS] += 1.0
        if is_kept(int(law[N_SWEEPS]), n_warmup, thin):
            t, used = filled[0], filled[1]
            refresh(walk)
            n_occupied, n_atoms = keep_draw(rng, chart, walk, are_records, draws.weights, draws.theta, used)
            draws.n_clusters[t], draws.n_atoms[t] = n_occupied, n_atoms
            draws.concentration[t] = walk.masses.kept(walk)
            if draws.outside.size > 0:
                draws.outside[t] = law[OUTSIDE] / (law[OUTSIDE] + law[TOTAL])
            filled[0] += 1
            filled[1] += n_atoms
    return DONE
