"""Chains over the sufficient statistic s = Σ t(x_i) behind noisy releases of it: the common part of these samplers.

A release is y_r = s + noise, r = 0, 1, ...: the rows of ``S``.  If the number of records n is not known either, it was
released too: the rows of ``C``, under the channel ``counter``; without such rows n is known.
"""

import math
from typing import NamedTuple

import numpy as np

from ..._base.compiled import Component, compiled, helper, lower
from ..._base.restore import (
    require,
    require_finite,
    require_range,
    require_same,
    require_sweeps,
    require_whole,
    same_layout,
)
from .._release_density import log_entry

N_SWEEPS, PROPOSED, ACCEPTED, N_INTS = 0, 1, 2, 3


class StatisticState(NamedTuple):
    """All of a chain except its random generator: arrays that a sweep changes in place."""

    theta: np.ndarray  # (n_params,): where the sampler keeps it, and scratch for draws of it elsewhere
    statistic: np.ndarray  # (n_coordinates,): s, and what else belongs to it (the zeros of a binomial)
    n_records: np.ndarray  # (1,)
    width: np.ndarray  # (n_laws,): spread of each one-dimensional distribution when last drawn from; saves evaluations
    # (Counts: and an unknown α)
    work: np.ndarray  # the distribution that is drawn from, as numbers
    order: np.ndarray  # (n_coordinates,) integers: the coordinates in random order
    ints: np.ndarray

    def restored(self, fresh, n_sweeps):
        """Return this state, read from a file after that many sweeps, checked (:mod:`sklearn_dpmix._base.restore`)."""
        state = same_layout(fresh, self)
        require_finite(theta=state.theta, statistic=state.statistic, n_records=state.n_records)
        require_chain(state, n_sweeps)
        require(np.sort(state.order) == np.arange(len(state.order)), "order", "does not have each coordinate once")
        return state


def require_chain(state, n_sweeps):
    """What the states of all samplers of a statistic have."""
    require_sweeps(state.ints[N_SWEEPS], n_sweeps)
    require_range(0, 2**62, ints=state.ints)
    require_range(1e-300, 1e300, width=state.width)


def new_state(n_params, statistic, n_records, n_laws):
    """Return a state that starts at ``statistic`` and ``n_records``."""
    statistic = np.array(statistic, dtype=np.float64)
    return StatisticState(
        theta=np.zeros(n_params),
        statistic=statistic,
        n_records=np.array([n_records], dtype=np.float64),
        width=np.ones(n_laws),
        work=np.zeros(16),
        order=np.arange(len(statistic)),
        ints=np.zeros(N_INTS, dtype=np.int64),
    )


class StatisticSampler(Component):
    """Base class.

    A subclass defines the compiled methods

    ==============================================================================  =================================
    ``sweep(model, channel, counter, S, C, state, rng, warming_up)``                 one sweep
    ``draw_theta(model, state, rng)``                                                θ for a draw, into ``state.theta``
    ``log_law(context, x)``                                                          the one-dimensional law that
                                                                                    state.work describes; context is
                                                                                    (channel, counter, S, C, work)
    ==============================================================================  =================================

    and ``init(model, n_params, n_records, given, rng)``, which returns a state; ``given`` is the statistic if it was
    released without noise, otherwise None.
    """

    def _lower(self, *, is_given=False):
        """``is_given``: the statistic was released without noise, and does not move."""
        return lower(type(self), {"is_given": float(is_given)})

    def restored(self, model, is_known, is_given, state, fresh, n_sweeps):
        """Return a state read from a file, or raise ValueError.

        Parameters
        ----------
        model : component value
        is_known : bool
            Whether the number of records is.
        is_given : bool
            Whether the statistic was released without noise.
        state, fresh, n_sweeps :
            As for the state's ``restored``.
        """
        state = state.restored(fresh, n_sweeps)
        if is_known:
            require_same(fresh, state, "n_records")
        if is_given and is_known:
            require_same(fresh, state, "statistic")
        require_whole(n_records=state.n_records)
        self.check_state(state)
        return state

    def check_statistic(self, statistic):
        """Raise ValueError if no records have such a statistic."""

    def check_state(self, state):
        """Raise ValueError if the statistic cannot be what it is."""

    @compiled
    def number(self, state):
        return state.n_records[0]

    @compiled
    def keep(self, model, state, rng, draws, row):
        self.draw_theta(model, state, rng)
        for p in range(draws.theta.shape[1]):
            draws.theta[row, p] = state.theta[p]
        for j in range(draws.statistic.shape[1]):
            draws.statistic[row, j] = state.statistic[j]
        draws.n_records[row] = self.number(state)


@helper
def shuffle(rng, order):
    """Put ``order`` into a random order."""
    for i in range(order.size - 1, 0, -1):
        at = int(rng.random() * (i + 1))
        order[i], order[at] = order[at], order[i]


@helper
def log_noise(channel, S, j, x):
    """Log density of all releases of entry j if its value is x, up to a constant; 0 of an entry that has none."""
    return log_entry(channel, S, j, x) if j < S.shape[1] else 0.0


# --- compiled numbers ------------------------------------------------------------------------------------------------


@helper
def log_gamma_ratio(x, a, b):
    """log Γ(x+a)/Γ(x+b) for positive x+a and x+b, without the cancellation of two large logarithms.

    From 16 on by Stirling's series, log Γ(z) = (z - 1/2) log z - z + 1/(12z) - 1/(360z³) + ..., its difference written
    out: with p = x + a, q = x + b it is (q - 1/2) log(p/q) + (a - b)(log p - 1) and the difference of the rest.
    """
    p, q = x + a, x + b
    if min(p, q) < 16.0:
        return math.lgamma(p) - math.lgamma(q)
    u, v = 1.0 / p, 1.0 / q
    rest = u * (1.0 / 12.0 - u * u * (1.0 / 360.0 - u * u * (1.0 / 1260.0 - u * u / 1680.0)))
    rest -= v * (1.0 / 12.0 - v * v * (1.0 / 360.0 - v * v * (1.0 / 1260.0 - v * v / 1680.0)))
    return (q - 0.5) * math.log1p((a - b) / q) + (a - b) * (math.log(p) - 1.0) + rest


@helper
def draw_log_gamma(rng, shape):
    """Logarithm of a gamma variate of rate 1; finite however small the shape: G(a) = G(a + 1) U^(1/a)."""
    is_small = shape < 1.0
    value = math.log(rng.standard_gamma(shape + 1.0 if is_small else shape))
    return value - rng.standard_exponential() / shape if is_small else value


@helper
def draw_log_beta(rng, a, b):
    """Logarithm of a beta variate, finite however small it is."""
    difference = 0.0
    for i in range(2):
        difference = draw_log_gamma(rng, a if i else b) - difference
    difference = -difference  # log of the second over the first
    if difference > 30.0:
        return -difference - math.exp(-difference)
    return -math.log1p(math.exp(difference))
