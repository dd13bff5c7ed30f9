"""The posterior of the mixing measure itself, given nodes that stand for any number of records."""

from typing import Any

import numpy as np

from ...._base.compiled import compiled, entry
from ...._base.distinct import distinct_rows
from ...._releases.nodes import FEW
from ..._driver import is_kept, n_kept
from .._run import DONE, NO_ROOM, NO_SLOTS, Draws, twice
from .._sampler import MixtureSampler, check_count
from ._compressed import Compressed, Glides, most_rows, new_draws, set_moves, sweeps_a_draw
from ._few_nodes import ChoiceOfFew
from ._glides import FEW_POINTS, glide_often
from ._masses import bear_or_kill, change_mass, move_mass
from ._node_layout import MOST_TIMES, MOST_WORK, NodeLayout, first_width
from ._outside import outside_of
from ._parts import part_or_join
from ._sheet import choose_points
from ._starts import Starts
from ._steps import step_one
from ._walk_atoms import (
    IS_EXCURSION,
    IS_FILLED,
    IS_FRESH,
    N_ATOMS,
    N_DUST,
    N_MOVES,
    N_SWEEPS,
    OUTSIDE,
    TOTAL,
    n_all,
    number,
)
from ._walk_draws import keep_draw
from ._walk_likelihood import refresh_changed, refresh_stale
from ._walk_state import MAX_ATOMS, grow, new_state, write_back
from ._ways import ways_of
from ._which_chart import chart_and_masses, chart_kind, law_of

N_MOVES_ANSWERS = 200  # in a sweep over categories
MANY_TIMES = 4  # as many moves where those of shares are of one direction
TIMES_OF_SEVERAL, MOST_OF_SEVERAL = 3.0, 1.25  # times as many, at least and most, of many answers to several questions
N_TRIAL = 600  # sweeps of the run that tries nodes out; a third of them come before its first draw
N_TOGETHER, MOVES_BESIDE = 2, 300  # sweeps between glides, and moves in each
N_FAMILY = 100  # components by which points for glides are chosen
WORTH_GLIDING = 3.0  # times as many moves as there may be, from which on glides over many points are worth their time
LOOK_AGAIN = 5.0  # times as many moves, from which on another trial run sees what glides do
MOST_SWEEPS = 16  # that count as one, as excursions so many times as long do; half as many where there are none
MOST_WORK_A_SWEEP = 4e6  # moves, times nodes and features, where several sweeps count as one


class MixingMeasure(NodeLayout, ChoiceOfFew, Starts, MixtureSampler):
    """Walks over the mixing measure, with allocations and confidential records integrated out: for any n.

    The likelihood of a release of one feature depends on the population's density only through a few hundred weighted
    nodes (Gauss rules of the records of each cell of the line), so that a move costs the same for a thousand records as
    for a billion (but under Haar coefficients, where the records are the nodes).  Of several features some records
    stand for those near them, with all moments kept, or every record is a node if that would save little.  Records with
    many different noise scales are treated alike.  The Dirichlet process is an unnormalised gamma process, whose atoms
    are born, die, split, merge, exchange mass, and take Langevin steps, alone, with a neighbour, or many together;
    those too small to hold a record are drawn anew as a whole.  Where a trial run says that this would take long,
    several atoms glide along what the records leave open, or, where nodes are many, there are excursions over a few of
    them, at whose end all are looked at.

    It takes these kernels under these mechanisms:

    - normal: Laplace or Gaussian noise, clamped or not, with one scale or one per record; square wave and piecewise
      mechanisms with one ε or one per record; integer noise, the hybrid mechanism and binomial counts with one; Haar
      coefficients; for one feature, any other noise with one scale that is added to clamped records, and integer noise
      of several scales if records are moved to bounds with at most 1024 integers; or no mechanism;
    - truncated normal and beta, for one feature: the same mechanisms, of integer noise those with such bounds;
    - convolved normal: unclamped Gaussian noise with one scale;
    - multivariate normal: Laplace or Gaussian noise (see :class:`~sklearn_dpmix.kernels.MultivariateNormalKernel`);
    - categorical: randomised response or unary encoding with one ε or one per record, or a finite channel.  The nodes
      are then the distinct answers, of each ε.

    The prior is a Dirichlet process with a concentration of at most 20, a mixture of finite mixtures whose possible
    numbers of components have no gaps, or a Pitman–Yor process with a discount of at most 0.3 and a concentration of
    at most 5.

    Parameters
    ----------
    n_moves : int, optional
        Moves in a sweep.  None: as many as make a draw worth keeping, by a short trial run; for one feature 100 to 400,
        for several 50 to 200, and fewer for many nodes; for categories 200 to 800, fewer for many answers; and up to
        eight times as many where the draws of a fit turn out to be worth little (``n_draws`` of ``PrivateDPMixture``);
        excursions get up to sixteen times as long.
        Of a warm-up that is long for such draws only every second, third or fourth sweep is then made.

    Notes
    -----
    Numerical errors are far below Monte Carlo error. Atoms are left out that hold some 10⁻⁴ records together.
    Densities of records on an interval are taken at some hundred points of it, which gives those of releases
    to 10⁻⁷ or so, and at more points where the trial run finds components narrower than the prior's. Nodes are first
    laid out for components as wide as the prior makes all but one in 10⁶; for these they are exact to rounding. Then
    they are refined, until cells half as wide change the log likelihood by less than 0.005 over a trial run. Beyond
    3000 nodes only cells that matter are refined. ``compression_error_`` of the fit is the largest such change over 500
    of its draws (over 100 or more where that would take long), with twice as many points of the interval. The records
    enter by a ``ReleaseSummary``; where one that was given to ``fit`` has wider cells than the fit wants,
    ``compression_error_`` counts what they leave out, and a warning has the width to ask for.

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
    starts_near_records = False
    takes_thresholds = True
    takes_noncompliance = True

    def __init__(self, n_moves: int | None = None) -> None:
        self.n_moves = n_moves

    def most_times(self, seen: Compressed) -> int:
        work = max(seen.law[N_MOVES] * seen.nodes[:-1].size, 1.0)
        most = MOST_SWEEPS if seen.few is not None else MOST_SWEEPS // 2
        return 1 if self.n_moves is not None else int(min(most, max(MOST_WORK_A_SWEEP / work, 1.0)))

    def check(self) -> None:
        if self.n_moves is not None:
            check_count(self, "n_moves", self.n_moves)

    def takes_features(self, mechanism: Any, kernel: Any, n_features: int) -> bool:
        has_scales = mechanism is not None and not mechanism.has_one_law
        return n_features == 1 or not getattr(chart_kind(kernel, mechanism, has_scales), "is_on_interval", False)

    # --- what the chains see of the release --------------------------------------------------------------------------

    def summarise(self, values: Any, Z: Any, release: Any) -> Any:
        """Nodes, refined until half as wide cells change the log likelihood of no draw of a short trial run."""
        chart, masses = chart_and_masses(values)
        if chart.is_finite:
            return self.answers(values, Z, release)
        chart.check(self.label, release.n_features)
        masses.check(self.label, release.n_records)
        finer = self.compressed(release, chart, masses, max(first_width(release, chart), release.narrowest()))
        while finer is not None:
            seen = finer
            if self.n_moves is not None and seen.are_records:
                return seen
            draws = self.trial_draws(values, seen)
            finer = self.refined(release, seen, draws)
        return seen if self.n_moves is not None else self.with_moves(values, release, seen, draws)

    def with_moves(self, values: Any, release: Any, seen: Compressed, draws: Draws) -> Compressed:
        """With as many moves in a sweep, glides or excursions as a trial run's draws ask for."""
        channel, chart = release.channel, seen.chart
        most = self.moves_over(seen.nodes[:, : seen.n_seen], chart)[1]
        seen = seen._replace(times=self.lengthen(seen, draws, most))
        if channel.released_above is not None or chart.keeps_records:
            return seen
        found = self.with_few(values, seen, draws) if self.may_roam(seen, release) else seen
        is_line = release.n_features == 1 and channel.has_one_law and channel.tables != "bins"
        if found is seen and is_line and chart.can_glide and seen.times > 1.0:
            found = self.with_glides(values, seen)
        if found.glides is not None and seen.times > LOOK_AGAIN:
            found = found._replace(times=sweeps_a_draw(self.trial_draws(values, found), found) / chart.worth)
        return found

    def lengthen(self, seen: Compressed, draws: Draws, most: float) -> float:
        """Give a sweep the moves that make a draw worth keeping, up to ``most``; return their number over ``most``."""
        n = seen.law[N_MOVES]
        wanted = n * sweeps_a_draw(draws, seen) / seen.chart.worth
        set_moves(seen.law, round(max(n, min(wanted, most))))
        return float(wanted / most)

    def with_glides(self, values: Any, seen: Compressed) -> Compressed:
        """With points for glides, chosen by their densities under some components at records."""
        rng, weights = np.random.default_rng(0), seen.weights
        chosen = rng.choice(len(weights), N_FAMILY, p=weights / weights.sum())
        densities = self.densities(values, seen, seen.chart.start(seen.near[:, chosen], rng))
        points, scales = choose_points(densities, weights)
        if not len(points) or (len(points) > FEW_POINTS and seen.times < WORTH_GLIDING):
            return seen
        if len(points) <= FEW_POINTS:  # then glides do most of the work
            seen.law[N_MOVES] = min(MOVES_BESIDE, seen.law[N_MOVES])
        return seen._replace(glides=Glides(points, scales), apart=N_TOGETHER)

    def densities(self, values: Any, seen: Compressed, place: Any) -> Any:
        """Densities of components with these coordinates, (components, nodes for records)."""
        n = len(place)
        state = new_state(seen.chart.n_coordinates(), n, seen.start())
        state.place[:], state.ints[N_ATOMS] = place, n
        walk = seen.walk(state)
        self.roam(values, seen, seen.compiled(), walk, np.random.default_rng(0), 0)
        return walk.tables.reshape(-1, int(walk.n_rows), int(walk.n_nodes))[:n, 0, : len(seen.weights)]

    def answers(self, values: Any, Z: Any, release: Any) -> Compressed:
        """Nodes of a channel of answers: those that were given, of each ε, and how often each was."""
        n, channel, (chart, masses) = len(Z), release.channel, chart_and_masses(values)
        answers, _, counts = distinct_rows(release.with_scales())
        if not channel.has_one_law:
            answers, channel = answers[:, :-1], channel.of_scales(answers[:, -1], release.n_features)
        nodes, chances = np.vstack([channel.guess_encoded(answers).T, counts]), channel.chances(answers)
        law = law_of(chart, masses, n, None, None)
        n_moves = (MANY_TIMES if chart.goes_ways else 1) * MOST_WORK // (nodes.shape[1] * chart.n_coordinates())
        law[N_MOVES] = min(max(n_moves, 10), N_MOVES_ANSWERS) if self.n_moves is None else self.n_moves
        most = MOST_TIMES * law[N_MOVES]
        lookup = np.zeros((2 * release.n_features, nodes.shape[1]))
        seen = Compressed(chart, masses, nodes, lookup, nodes[:-1], law, n <= FEW, chances=chances)
        if chart.goes_ways:
            seen = seen._replace(ways=ways_of(chances, counts))
        if channel.noncompliance is not None:
            seen = seen._replace(outside=outside_of(channel, nodes))
            if self.n_moves is None and release.n_features > 1 and n > FEW:
                law[N_MOVES] *= TIMES_OF_SEVERAL
                most *= MOST_OF_SEVERAL
        if self.n_moves is None:
            seen = seen._replace(times=self.lengthen(seen, self.trial_draws(values, seen), most))
        return seen

    def trial_draws(self, values: Any, seen: Compressed) -> Draws:
        """The last two thirds of a trial run."""
        rng = np.random.default_rng(0)
        return self.advance(values, seen, self.init(values, seen, None, None, rng), rng, N_TRIAL, N_TRIAL // 3, 1)[1]

    # --- chains ------------------------------------------------------------------------------------------------------

    def advance(
        self, values: Any, Z: Any, state: Any, rng: np.random.Generator, n_sweeps: int, n_warmup: int, thin: int
    ) -> Any:
        done, every, apart = int(state.ints[N_SWEEPS]), Z.every(n_warmup), Z.apart
        filled, stop, until = np.zeros(2, np.int64), NO_ROOM, done + n_sweeps
        (channel, chart), sheet = Z.compiled(), Z.sheet()
        over = (channel, chart), None if Z.few is None else Z.few.compiled()
        n_draws = n_kept(done, n_sweeps, n_warmup, thin)
        draws = new_draws(n_draws, 32 * n_draws + 4 * state.mass.size, Z.chart, Z.outside is not None)
        while stop != DONE:
            walk, few = Z.walk(state), None if Z.few is None else Z.few.walk(state)
            stop, sweep = DONE, int(walk.law[N_SWEEPS])
            while stop == DONE and sweep < until:  # a few at a time where glides or an excursion follow
                sweep = min(until, sweep - sweep % apart + apart) if apart else until
                which = n_warmup, every, thin
                stop = run(values[0], channel, chart, walk, Z.are_records, rng, sweep, *which, draws, filled)
                is_due = stop == DONE and apart and sweep % (apart * (every if sweep <= n_warmup else 1)) == 0
                if is_due and sheet is not None:
                    glide_often(channel, chart, walk, sheet, rng, apart)
                if is_due and few is not None:
                    self.go_far(values, Z, over, walk, few, rng)
            write_back(walk, state)
            if stop == NO_ROOM:
                draws = draws._replace(weights=twice(draws.weights), theta=twice(draws.theta))
            elif stop == NO_SLOTS:
                if state.mass.size >= MAX_ATOMS:
                    raise MemoryError("the mixing measure needs more than 16,384 atoms: use a smaller concentration")
                state = grow(state)
        return state, draws._replace(weights=draws.weights[: filled[1]].copy(), theta=draws.theta[: filled[1]].copy())

    def roam(
        self,
        values: Any,
        seen: Compressed,
        over: Any,
        walk: Any,
        rng: np.random.Generator,
        n_sweeps: int,
        kept: Any = None,
    ) -> None:
        """Fill a walk's tables, and sweep over ``seen.compiled()``; keep no draw, or the last as one of those kept."""
        draws, filled = kept or (new_draws(0, most_rows(walk), seen.chart, False), np.zeros(2, np.int64))
        channel, chart = over
        run(values[0], channel, chart, walk, False, rng, n_sweeps, n_sweeps - bool(kept), 1, 1, draws, filled)

    @compiled
    def sweep(self, channel, chart, walk, rng):
        """As many moves at random as the law says, then what is random beside the atoms above the cut.

        An excursion is a proposal, and must be as likely backwards: half of them begin with the latter.
        """
        is_backwards = walk.law[IS_EXCURSION] > 0.0 and rng.random() < 0.5
        for turn in range(2):
            if (turn == 0) == is_backwards:
                walk.masses.renew(rng, channel, chart, walk)
            else:
                self.move_often(channel, chart, walk, rng)

    @compiled
    def move_often(self, channel, chart, walk, rng):
        """The moves of a sweep, each of a kind at random; then what is kept beside the releases anew."""
        mass, masses, births, splits, parts, one, two = chart.moves()
        for _ in range(int(walk.law[N_MOVES] * chart.share(walk))):
            walk.before_move(rng, channel, chart)
            u = rng.random()
            if u < mass:
                move_mass(rng, walk)
            elif u < masses:
                change_mass(rng, walk)
            elif u < births:
                bear_or_kill(rng, channel, chart, walk)
            elif u < splits:
                chart.split(rng, channel, walk)
            elif u < parts:
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


@entry
def run(sampler, channel, chart, walk, are_records, rng, until, n_warmup, every, thin, draws, filled):
    """Sweep up to sweep ``until``; keep a draw after every ``thin`` sweeps beyond the warm-up.  Return why it stops."""
    law, capacity = walk.law, walk.capacity
    if law[IS_FILLED] == 0.0:
        for k in range(n_all(walk)):
            chart.fill(channel, walk, number(walk, k))
        law[IS_FRESH] = 0.0
    while law[N_SWEEPS] < until:
        if draws.weights.size < filled[1] + 2 * capacity + 1:
            return NO_ROOM
        if law[N_ATOMS] > capacity // 2 or law[N_DUST] > capacity // 4:
            return NO_SLOTS
        if law[N_SWEEPS] >= n_warmup or law[N_SWEEPS] % every == 0.0:  # the others are left out
            refresh_changed(walk)
            sampler.sweep(channel, chart, walk, rng)
        law[N_SWEEPS] += 1.0
        if is_kept(int(law[N_SWEEPS]), n_warmup, thin):
            t, used = filled[0], filled[1]
            refresh_changed(walk)
            n_occupied, n_atoms = keep_draw(rng, chart, walk, are_records, draws.weights, draws.theta, used)
            draws.n_clusters[t], draws.n_atoms[t] = n_occupied, n_atoms
            draws.concentration[t] = walk.masses.kept(walk)
            if draws.outside.size > 0:
                draws.outside[t] = law[OUTSIDE] / (law[OUTSIDE] + law[TOTAL])
            filled[0] += 1
            filled[1] += n_atoms
    return DONE
