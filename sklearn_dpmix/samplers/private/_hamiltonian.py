"""Hamiltonian Monte Carlo on noisy clipped gradients, with the penalty test at the end (Räisä 2021, Algorithm 3).

The gradient at ψ is released as g(ψ) + sd(ψ) ξ, ξ ~ N(0, I).  The map (ψ, p, ξ_0, ..., ξ_L) -> (ψ', -p', ξ_L, ..., ξ_0)
that leapfrog steps make with these is an involution that keeps volumes and the distribution of the ξ, whatever g is.
So clipped gradients and noise cost acceptances and nothing else, and ξ_L of one trajectory may be ξ_0 of the next (and
ξ_0 again after a rejection): L + 1 gradients of a trajectory become L.  There is no friction, which would break this.
"""

from math import log
from typing import NamedTuple

import numpy as np


class HamiltonianState(NamedTuple):
    psi: np.ndarray
    theta: np.ndarray
    log_prior: float  # at θ
    log_volume: float  # at ψ
    gradient: np.ndarray  # noisy, of the log posterior in ψ
    n_accepted: np.ndarray
    clipped: np.ndarray  # confidential, as in WalkState


class NoisyHamiltonian:
    """A trajectory of leapfrog steps, accepted with probability min(1, exp(-ΔH + N(0, s²) - s²/2)).

    Parameters
    ----------
    target : Target
    coordinates : Coordinates
    step_size : float
        η, in ψ.
    n_leapfrog : int
        L.
    mass : ndarray of shape (n_params,)
        Diagonal of M, in ψ.
    noise_multiplier, gradient_noise_multiplier : float
        Standard deviations of the noise in sensitivities; 0: no noise.
    reuse : bool
        Whether the last gradient of a trajectory is the first of the next.
    """

    def __init__(
        self,
        target,
        coordinates,
        step_size,
        n_leapfrog,
        mass,
        noise_multiplier=0.0,
        gradient_noise_multiplier=0.0,
        reuse=True,
    ):
        self.target, self.coordinates = target, coordinates
        self.step_size, self.n_leapfrog, self.mass = step_size, n_leapfrog, mass
        self.noise_multiplier, self.gradient_noise_multiplier = noise_multiplier, gradient_noise_multiplier
        self.reuse = reuse

    def init(self, psi, source):
        """The state at ψ; releases a gradient."""
        theta = self.coordinates.theta(psi)
        gradient = self.gradient(psi, theta, source) if self.reuse else np.zeros(len(psi))
        at = psi, theta, self.target.log_prior(theta), self.coordinates.log_volume(psi)
        return HamiltonianState(*at, gradient, np.zeros(1, np.int64), np.zeros(1))

    def gradient(self, psi, theta, source):
        """The noisy gradient in ψ.  The curvature of bent coordinates is left to the test."""
        frame = self.coordinates.jacobian(psi)
        bound, width = self.target.gradient_bound(theta, frame)
        total = self.target.gradient(theta, frame, bound)
        released = source.release(total, self.target.temperature * width, self.gradient_noise_multiplier)
        return released + frame.T @ self.target.grad_log_prior(theta)

    def step(self, state, source):
        """(next state, θ)."""
        psi, theta, log_prior = state[:3]
        gradient = first = state.gradient if self.reuse else self.gradient(psi, theta, source)
        start = np.sqrt(self.mass) * source.standard_normal(len(psi))
        p = start
        for _ in range(self.n_leapfrog):
            p = p + 0.5 * self.step_size * gradient
            psi = psi + self.step_size * p / self.mass
            theta = self.coordinates.theta(psi)
            log_prior = self.target.log_prior(theta) if np.isfinite(theta).all() else -np.inf
            if log_prior == -np.inf:
                return state._replace(gradient=first), state.theta  # the way back passes here too
            gradient = self.gradient(psi, theta, source)
            p = p + 0.5 * self.step_size * gradient
        log_volume = self.coordinates.log_volume(psi)
        log_public = log_prior - state.log_prior + (log_volume - state.log_volume)
        log_public += 0.5 * ((start * start - p * p) / self.mass).sum()
        bound, width = self.target.ratio_bound(state.theta, theta)
        ratios, factor = self.target.ratios(state.theta, theta, bound), self.target.temperature
        released = source.release(np.array([factor * ratios.total]), factor * width, self.noise_multiplier)[0]
        s = self.noise_multiplier * factor * width
        clipped = state.clipped + ratios.n_clipped / self.target.n_records
        if log(source.random(1)[0]) < released + log_public - 0.5 * s * s:
            at = psi, theta, log_prior, log_volume
            return HamiltonianState(*at, gradient, state.n_accepted + 1, clipped), theta
        return state._replace(gradient=first, clipped=clipped), state.theta
