"""DP penalty: Metropolis–Hastings on noisy log likelihood ratios (Yildirim & Ermis 2019; Räisä 2021, §3.1 and §4.1)."""

from math import log
from typing import NamedTuple

import numpy as np


class WalkState(NamedTuple):
    """A random walk: where it is, what its move remembers, and the counts that are kept."""

    psi: np.ndarray
    theta: np.ndarray
    log_prior: float  # at θ
    log_volume: float  # at ψ
    memory: np.ndarray
    order: np.ndarray  # a permutation of the records, for batches; empty without them
    n_accepted: np.ndarray
    clipped: np.ndarray  # confidential: summed shares of clipped records


class RandomWalk:
    """The common part of tests of noisy ratios: the proposal, the prior's part of the ratio, and counts of acceptances.

    Parameters
    ----------
    target : Target
    coordinates : Coordinates
    move : object of ``_walk_moves``
    batch_size : int, optional
        None: all records.
    """

    def __init__(self, target, coordinates, move, batch_size=None):
        self.target, self.coordinates, self.move, self.batch_size = target, coordinates, move, batch_size

    def init(self, psi, source=None):
        """The state at ψ."""
        n = self.target.n_records if self.batch_size is not None else 0
        theta, memory = self.coordinates.theta(psi), self.move.start(len(psi))
        at = psi, theta, self.target.log_prior(theta), self.coordinates.log_volume(psi)
        return WalkState(*at, memory, np.arange(n), np.zeros(1, np.int64), np.zeros(1))

    def step(self, state, source):
        """(next state, θ)."""
        psi, moved = self.move.propose(state.psi, state.memory, source)
        theta = self.coordinates.theta(psi)
        log_prior = self.target.log_prior(theta)
        accepted, clipped = False, 0.0
        if log_prior > -np.inf:
            log_volume = self.coordinates.log_volume(psi)
            log_public = log_prior - state.log_prior + (log_volume - state.log_volume)
            accepted, clipped = self.test(state, theta, log_public, source)
        memory = self.move.after(state.memory, moved, accepted)
        at = (psi, theta, log_prior, log_volume) if accepted else state[:4]
        counts = state.n_accepted + accepted, state.clipped + clipped
        return WalkState(*at, memory, state.order, *counts), at[1]

    def _log_ratio(self, state, theta, bound, source):
        """(Log likelihood ratio, of all records or estimated from a batch; the estimate's variance; share clipped)."""
        target, size = self.target, self.batch_size
        if size is None:
            ratios = target.ratios(state.theta, theta, bound)
            return target.temperature * ratios.total, 0.0, ratios.n_clipped / target.n_records
        factor, rest = target.n_records * target.temperature / size, 1.0 - size / target.n_records
        ratios = target.ratios(state.theta, theta, bound, target.batch(source, size, state.order))
        variance = factor * factor * rest * size / (size - 1.0) * ratios.square
        return factor * ratios.total, variance, ratios.n_clipped / size


class Penalty(RandomWalk):
    """Accept with probability min(1, exp(λ + N(0, s²) - s²/2)), which leaves the target invariant.

    The noise has s = ``noise_multiplier`` times what one record can change.  On a batch of b records drawn without
    replacement, λ - σ²/2 is released in one number, with A = nT/b, f = b/n, and

        λ = A Σ r + log prior ratio,    σ² = (nT)² (1 - f)/b · S²,    S² = Σ (r - r̄)²/(b - 1):

    to take σ² as the variance of λ, and its distribution as normal, is a central limit *approximation*.  It is good if
    b is in the hundreds and no single ratio is a large part of σ.  With w the width of the ratios' range, replacing one
    of them, x, by x' changes that number by A(x - x') - A²(1 - f)((x - m)² - (x' - m)²)/2, m the mean of the others: by
    at most Aw + A²(1 - f)w²/2, attained at the ends of the range.

    Parameters
    ----------
    noise_multiplier : float
        0: no noise.
    """

    def __init__(self, target, coordinates, move, batch_size=None, noise_multiplier=0.0):
        super().__init__(target, coordinates, move, batch_size)
        self.noise_multiplier = noise_multiplier

    @staticmethod
    def sensitivity_of(target, width, batch_size):
        """How far one record can move what is released, where log ratios range over ``width``."""
        if batch_size is None:
            return target.temperature * width
        factor, rest = target.n_records * target.temperature / batch_size, 1.0 - batch_size / target.n_records
        return factor * width * (1.0 + 0.5 * factor * rest * width)

    def test(self, state, theta, log_public, source):
        bound, width = self.target.ratio_bound(state.theta, theta)
        value, variance, clipped = self._log_ratio(state, theta, bound, source)
        sensitivity = self.sensitivity_of(self.target, width, self.batch_size)
        released = source.release(np.array([value - 0.5 * variance]), sensitivity, self.noise_multiplier)[0]
        s = self.noise_multiplier * sensitivity
        return log(source.random(1)[0]) < released + log_public - 0.5 * s * s, clipped
