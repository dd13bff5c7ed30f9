"""Pseudo-marginal Markov chain ABC: a chain whose stationary distribution is the exact posterior.

A random walk on θ, accepted with the likelihood of the release replaced by the mean of q(s_obs | s_r) over simulated
s_1, ..., s_R: an unbiased estimate, which is kept with θ, so that the posterior stays exact (Andrieu & Roberts 2009;
Marjoram et al. 2003 for R = 1).

The steps fit the mode that a chain is in.  A chain that came from a wide mode into a narrow one would shorten them and
stay there, and so would all chains, which then agree.  So some proposals do not depend on where the chain is: they are
around draws of the prior, by the density of the release.
"""

from contextlib import suppress
from numbers import Integral
from typing import Any, ClassVar, NamedTuple

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ..._base.acceptance import N_COUNTERS, note_acceptance, require_acceptance
from ..._base.restore import require, require_finite, require_same, require_sweeps, same_layout
from .._driver import is_kept, n_kept
from ._abc_importance import effective

#: Simulations from the prior that a chain's start is chosen from.
N_STARTS = 1000
TARGET = 0.3  # acceptance rate that the steps are adapted to
P_FAR, N_CENTRES = 0.25, 200  # share of the proposals that do not depend on θ, and how many draws they are around
LEAST_EACH = 2.0  # effective draws of the prior behind them, for each parameter and one more


class MarkovState(NamedTuple):
    """All of a chain except its random generator."""

    theta: np.ndarray  # (n_params,)
    statistic: np.ndarray  # (n_columns,): one of the R, drawn by its share of the estimate
    log_target: np.ndarray  # (1,): log prior + log of the estimate
    moves: np.ndarray  # (d,) the parameters that vary under the prior
    factor: np.ndarray  # (d, d): of the proposals' covariance
    centres: np.ndarray  # (N_CENTRES, d) that far proposals are around
    width: np.ndarray  # (d, d): factor of their covariance; 0 where there are none
    n_sweeps: np.ndarray  # (1,)
    floats: np.ndarray


class MarkovDraws(NamedTuple):
    """Draws, one per row."""

    theta: np.ndarray
    statistics: np.ndarray


class MarkovABC(BaseEstimator):
    """Pseudo-marginal random walk with ``n_replicates`` simulations per step.

    A quarter of the proposals are not steps from where the chain is, but around draws of the prior that explain the
    release (a mixture of 200 normals), so that chains go from one mode to another.

    Parameters
    ----------
    n_replicates : int, default=10
        Simulations per step.  With more of them the chain gets stuck less often.

    Examples
    --------
    >>> from sklearn_dpmix import PrivateABC
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.models import PoissonCount
    >>> from sklearn_dpmix.samplers import MarkovABC
    >>> method = MarkovABC(n_replicates=20)
    >>> model = PrivateABC(LaplaceMechanism(scale=5.0), model=PoissonCount(), method=method, random_state=0).fit([37.4])
    >>> model.theta_draws_.shape
    (4, 1000, 1)
    """

    needs = ("sample_prior", "log_prior")
    has_chains = True

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "n_replicates": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, n_replicates: int = 10) -> None:
        self.n_replicates = n_replicates

    def init(self, simulator: Any, rng: np.random.Generator) -> Any:
        """Start a chain at one of ``N_STARTS`` draws of the prior, by the density of the release."""
        theta, statistics, log_release = simulator.from_prior(rng, N_STARTS)
        log_prior = simulator.log_prior(theta)
        best = int(np.argmax(np.where(log_prior > -np.inf, log_release + rng.gumbel(size=N_STARTS), -np.inf)))
        if not np.isfinite(log_release[best] + log_prior[best]):
            raise ValueError(
                f"none of {N_STARTS} draws of the prior can have led to this release (log_prior {log_prior[best]}, log "
                f"density of the release {log_release[best]}): check the model, the mechanism and the release"
            )
        moves = np.flatnonzero(np.ptp(theta, axis=0) > 0.0)
        centres, width = far_proposals(theta[:, moves], np.where(log_prior > -np.inf, log_release, -np.inf), rng)
        return MarkovState(
            theta[best].copy(),
            statistics[best].copy(),
            np.array([log_prior[best] + log_release[best]]),
            moves,
            np.diag(np.std(theta[:, moves], axis=0)),
            centres,
            width,
            np.zeros(1, dtype=np.int64),
            np.zeros(N_COUNTERS),
        )

    def restored(self, simulator: Any, state: Any, fresh: Any, n_sweeps: int) -> Any:
        """Return a state that was read from a file, or raise ValueError if it cannot be one of this chain."""
        state = same_layout(fresh, state)
        require_sweeps(state.n_sweeps[0], n_sweeps, "n_sweeps")
        require_same(fresh, state, "moves")
        names = "theta", "statistic", "log_target", "factor", "centres", "width"
        require_finite(**{name: getattr(state, name) for name in names})
        require(simulator.log_prior(state.theta[None]) > -np.inf, "theta", "is impossible under the prior")
        require(np.diagonal(state.factor) > 0, "factor", "is not positive")
        require((np.diagonal(state.width) > 0) | (not state.width.any()), "width", "is not positive")
        require_acceptance(state.floats)
        return state

    def check_draws(self, simulator: Any, draws: Any) -> None:
        """Raise ValueError if draws that were read from a file are impossible."""
        if len(draws.theta):
            require(simulator.log_prior(draws.theta) > -np.inf, "theta", "is impossible under the prior")

    def advance(
        self, simulator: Any, state: Any, rng: np.random.Generator, n_sweeps: int, n_warmup: int, thin: int
    ) -> Any:
        """Advance a chain in place by ``n_sweeps``; return (state, draws)."""
        done = int(state.n_sweeps[0])
        n_draws, row = n_kept(done, n_sweeps, n_warmup, thin), 0
        draws = MarkovDraws(np.zeros((n_draws, len(state.theta))), np.zeros((n_draws, len(state.statistic))))
        for sweep in range(done + 1, done + n_sweeps + 1):
            self._step(simulator, state, rng, adapt=sweep <= n_warmup)
            if is_kept(sweep, n_warmup, thin):
                draws.theta[row], draws.statistics[row] = state.theta, state.statistic
                row += 1
        return state, draws

    def _step(self, simulator, state, rng, adapt):
        is_far, proposed = state.width.any() and rng.random() < P_FAR, state.theta.copy()
        direction, place = rng.standard_normal(len(state.moves)), state.theta[state.moves]
        if is_far:
            proposed[state.moves] = state.centres[rng.integers(len(state.centres))] + state.width @ direction
        else:
            proposed[state.moves] += state.factor @ direction
        log_target, statistic = self._estimate(simulator, rng, proposed)
        gain = log_target - state.log_target[0]
        if is_far:
            gain += log_far(state, place) - log_far(state, proposed[state.moves])
        elif adapt and len(direction) > 0:
            adapt_covariance(state.factor, direction, np.exp(min(gain, 0.0)), int(state.n_sweeps[0]) + 1)
        state.n_sweeps[0] += 1
        is_accepted = -rng.standard_exponential() <= gain
        note_acceptance(state.floats, 1, is_accepted, gain)
        if is_accepted:
            state.theta[:], state.statistic[:], state.log_target[0] = proposed, statistic, log_target

    def _estimate(self, simulator, rng, theta):
        """(log prior + log of the estimated likelihood, one of the statistics by its share)."""
        log_prior = simulator.log_prior(theta[None])[0]
        if log_prior == -np.inf:
            return -np.inf, None
        statistics = simulator.statistics(rng, np.tile(theta, (self.n_replicates, 1)))
        log_release = simulator.log_release(statistics)
        chosen = int(np.argmax(log_release + rng.gumbel(size=self.n_replicates)))
        return log_prior + np.logaddexp.reduce(log_release) - np.log(self.n_replicates), statistics[chosen]


def far_proposals(theta, log_release, rng):
    """Centres and width of proposals by weighted draws of the prior.

    The weights are a power of the release's densities, 1 or as low as lets enough draws count.  If some parameters
    follow from others, the width is 0: then there are no such proposals.
    """
    (n, d), power = theta.shape, 1.0
    least = min(LEAST_EACH * (d + 1), np.count_nonzero(log_release > -np.inf))
    while (n_effective := effective(power * log_release)) < least and power > 1e-9:
        power *= 0.8
    weights = np.exp(power * (log_release - log_release.max()))
    weights /= weights.sum()
    centres, width = theta[rng.choice(n, N_CENTRES, p=weights)], np.zeros((d, d))
    offset = np.sqrt(weights)[:, None] * (theta - weights @ theta)
    with suppress(np.linalg.LinAlgError):
        # the rule of thumb for the width of a density estimate (Silverman 1986)
        width = np.linalg.cholesky(offset.T @ offset) * n_effective ** (-1.0 / (d + 4))
    return centres, width


def log_far(state, place):
    """Log density of far proposals, up to a constant."""
    distance = np.linalg.solve(state.width, (place - state.centres).T)
    return np.logaddexp.reduce(-0.5 * np.sum(distance**2, axis=0))


def adapt_covariance(factor, direction, probability, step):
    """Vihola (2012), eq. (1), in place: acceptance towards ``TARGET``."""
    d = len(direction)
    rate = min(1.0, d * step**-0.66) * (probability - TARGET)
    u = factor @ direction
    factor[:] = np.linalg.cholesky(factor @ factor.T + rate / (direction @ direction) * np.outer(u, u))
