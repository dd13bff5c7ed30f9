"""What the walk over mixing measures needs from a kernel: coordinates of its parameters, and moves in them."""

from typing import Any

import numpy as np

from ...._base.compiled import Component, compiled, lower
from ._any_noise import noise_in_table
from ._parts import part_or_join
from ._steps import FIRST, N_MOVING, add_slope, step_two
from ._walk_atoms import copy_atom, row

MOVES = 0.17, 0.25, 0.39, 0.51, 0.64, 0.73, 0.92  # how often each kind is made, as sums
NARROWEST = 1e-6  # prior probability of a component narrower than nodes are first laid out for


class Chart(Component):
    """Base class: an atom's parameters as numbers that may have any value, the prior's law of these, and its moves.

    A subclass is for one kind of kernel (``Kernel.noised_as``), and is made of its value, the number of features, and
    a channel's value.  It defines :meth:`n_coordinates`, :meth:`start` and the compiled methods

    =============================  =====================================================================================
    ``log_base(walk, k)``          log density of G0 at atom k, in its coordinates
    ``draw_base(rng, walk, k)``    draw them from G0
    ``add_prior(walk, a, i)``      add the prior's slopes at the atom that begins at ``a`` to the gradient from ``i``
                                   on, and about its curvature, positive definite, to the metric from there on; of
                                   the coordinates that move, if :meth:`choose_moving` does not take all
    ``is_proper(walk, a)``         whether coordinates are within what numbers can hold
    ``near(walk, e)``              how far coordinate ``e`` of a nearby atom may be
    ``fill(channel, walk, k)``     write g of atom k at all nodes, and its derivatives (or leave these to
                                   :meth:`fill_slopes`, and mark that), into its table, by a function of one code for
                                   all callers (``apart``): else they might round differently, and draws would depend on
                                   where blocks of sweeps end
    ``put(walk, a, theta, row)``   write the atom that begins at ``a`` as the kernel's parameters
    ``take(theta, row, walk)``     read them into atom 0
    =============================  =====================================================================================

    and, where :meth:`split` is ``split_or_merge``, of atoms that begin at ``a``, ``b``, ``c`` and ``new``,

    =============================  =====================================================================================
    ``affinity(walk, i, j)``       how likely atoms i and j are proposed to merge, up to a factor
    ``split_place(rng, walk, a,    write at ``b`` and ``c`` the places of two atoms, the first with this share of the
    b, c, share)``                 mass of ``a``; return the log Jacobian less the log density of what was drawn, or
                                   ``IMPOSSIBLE`` where numbers cannot hold it
    ``merge_places(walk, a, b,     write at ``new`` the place of the atom that would be split into ``a`` and ``b``;
    new, share)``                  return what ``split_place`` would
    =============================  =====================================================================================
    """

    #: whether the release has few values, of which each is a node
    is_finite = False
    #: whether shares of such values go the ways of ``Ways``
    goes_ways = False
    #: whether records lie on an interval, so that g is made of what the kernel is at points of it
    is_on_interval = False
    #: whether atoms glide: their densities under noise are ``fill_normal``'s of the channel
    can_glide = False
    #: whether something is kept beside each release
    keeps_records = False
    #: sweeps that one independent draw may take, by the trial run; else a sweep gets more moves
    worth = 2.5
    #: how many times as long an excursion may become where draws follow each other slowly
    longest = 4.0

    def __init__(self, kernel: Any, n_features: int, channel: Any = None) -> None:
        self.kernel = kernel
        self.n_features = n_features
        self.channel = channel

    def n_coordinates(self) -> int:
        """How many numbers an atom has besides its mass."""
        raise NotImplementedError

    def n_params(self) -> int:
        """Columns of ``theta`` that the kernel's parameters need."""
        raise NotImplementedError

    def check(self, label: str, n_features: int) -> None:
        """Raise ValueError where the walk, which errors call ``label``, cannot take the kernel."""
        if self.is_on_interval and n_features > 1:
            raise ValueError(
                f"sampler {label} takes records on an interval of one feature, but these have {n_features}: use "
                'sampler="auto"'
            )

    def narrowest(self) -> Any:
        """Standard deviation, by feature, that components hardly ever go below under the prior."""
        raise NotImplementedError

    def narrowest_of(self, n: Any) -> Any:
        """Standard deviation of the component that n records at one place would lead to; infinite where they cannot
        make it narrower than :meth:`narrowest`."""
        return np.full(np.shape(n), np.inf)

    def finer(self) -> "Chart":
        """A chart that computes densities more accurately, if they are not exact to rounding."""
        return self

    def ends(self) -> tuple[float, ...]:
        """Places that cells of nodes should not reach across, besides those of the mechanism."""
        return ()

    def seen_of(self, channel: Any) -> Any:
        """What moves see of a channel's value: nothing, where tables at the nodes have all that they need."""
        return noise_in_table()

    def lookup(self, mechanism: Any, places: Any, *scales: Any) -> Any:
        """What ``fill`` looks up at releases, (features, releases), of noise of these scales where it has several."""
        mechanism.check_reach(places, *scales)
        return mechanism.lookup(places, *scales)

    def kept(self, near: Any, lookup: Any) -> Any:
        """What is kept beside releases at first, given records near them and what ``lookup`` found; None: nothing."""
        return None

    def law(self, mean: Any, variance: Any) -> Any:
        """What the chart's moves need of each feature, from moments of the records."""
        return np.zeros(0)

    def start(self, places: Any, rng: np.random.Generator) -> Any:
        """Coordinates of a chain's first atoms, at ``places`` of shape (features, atoms)."""
        raise NotImplementedError

    def start_at(self, places: Any, rng: np.random.Generator, n: Any) -> Any:
        """As :meth:`start`, of atoms as narrow as so many records without noise at each place ask for."""
        raise NotImplementedError

    def densities(self, theta: Any, points: Any) -> Any:
        """Densities of components, (components, points), at ``points`` of shape (features, points)."""
        raise NotImplementedError

    def moments(self, theta: Any, j: int) -> tuple[Any, Any]:
        """Mean and standard deviation of feature j of each component."""
        raise NotImplementedError

    def fields(self) -> dict[str, Any]:
        """What the compiled methods read as ``self.<name>``."""
        return {"kernel": self.kernel, "n_features": self.n_features}

    def value(self) -> Any:
        """The chart's compiled value, with scratch space of its own if it needs any."""
        return lower(type(self), self.fields(), frozen=False)

    def check_places(self, **places: Any) -> None:
        """Raise ValueError where coordinates of a checkpoint cannot be those of an atom."""

    @compiled
    def choose_moving(self, rng, walk):
        """Choose which coordinates a step moves: some that follow each other, here all."""
        walk.fence[FIRST], walk.fence[N_MOVING] = 1.0, walk.width - 1.0

    @compiled
    def choose_along(self, rng, walk, j):
        """As :meth:`choose_moving`, for a step of two neighbours along feature j."""
        self.choose_moving(rng, walk)

    @compiled
    def share(self, walk):
        """Moves of the sweep, to those that the law says."""
        return 1.0

    @compiled
    def moves(self):
        """How often moves are of each kind, as cumulative sums: mass between two atoms, mass of one, births and deaths,
        :meth:`split`, parts or joins anywhere, steps of one atom, :meth:`step`; the rest are slides."""
        return MOVES

    @compiled
    def exchange(self, rng, channel, walk):
        """Called after the moves of a sweep: redraw what is kept beside the releases."""

    @compiled
    def blocks(self, walk):
        """By how many nodes at a time a step's slopes are worked out, and of how many of these its metric."""
        return walk.n_nodes, walk.n_nodes

    @compiled
    def fill_slopes(self, channel, walk, k):
        """Write the derivatives of g, where ``fill`` leaves them for when a step needs them."""

    @compiled
    def fill_moved(self, channel, walk, k, source):
        """As ``fill``, for an atom that differs from atom ``source`` only in its mass and in the coordinates that
        move."""
        self.fill(channel, walk, k)

    @compiled
    def keep_moved(self, walk, k, source):
        """Make atom k what the proposal ``source`` is, for which ``fill_moved`` was called."""
        copy_atom(walk, k, source)

    @compiled
    def add_slope(self, walk, k, e, to, mass, scaled, block, done, n_kept, n_block):
        """Write the row of scores of atom k's coordinate e; return what they say of its slope (``_steps.add_scores``).

        The rows of an atom's coordinates are written in order.
        """
        g = row(walk, k) + e * walk.n_nodes + done
        return add_slope(walk, walk.tables, g, to, mass, scaled, done, n_kept, n_block)

    @compiled
    def split(self, rng, channel, walk):
        """Split or merge atoms; equally often."""
        part_or_join(rng, channel, self, walk)

    @compiled
    def step(self, rng, channel, walk):
        """A step of two atoms."""
        step_two(rng, channel, self, walk)

    @compiled
    def slide(self, rng, channel, walk):
        """Move all atoms together, or one by much."""
