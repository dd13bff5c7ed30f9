"""A linear regression whose records are known: coefficients and σ in turn, both conjugate."""

from math import exp
from typing import NamedTuple

import numpy as np

from ..._base.compiled import Component, compiled, lower
from ..._base.restore import require, require_finite, same_layout
from .._driver import n_kept, run_chain
from .._parameter_draws import ThetaDraws
from ._regression_given_design import require_counts
from ._regression_paths import N_SWEEPS


class KnownState(NamedTuple):
    """All of a chain if the records are known."""

    theta: np.ndarray  # (d + 1,): γ and τ
    work: np.ndarray  # (d, d)
    ints: np.ndarray

    def restored(self, fresh, n_sweeps):
        """As ``restored_moments`` does."""
        state = same_layout(fresh, self)
        require_counts(state, n_sweeps)
        require_finite(theta=state.theta)
        require(state.theta[-1] > 0, "theta", "has a standard deviation that is not positive")
        return state


class KnownSweeps(Component):
    """γ and τ given X'X, the least squares coefficients and their residual sum of squares.

    Fields: ``model``, ``gram``, ``fit``, ``residual``, and ``n`` records.
    """

    @compiled
    def sweep(self, state, rng, warming_up):
        model, gram, fit, matrix, gamma = self.model, self.gram, self.fit, state.work, state.theta
        d, rate = model.d, gamma[model.d] ** -2
        for a in range(d):
            gamma[a] = 0.0
            for b in range(d):
                matrix[a, b] = rate * gram[a, b]
                gamma[a] += rate * gram[a, b] * fit[b]
        model.draw_coefs(rng, matrix, gamma)
        if model.sigma == 0.0:
            squares = self.residual
            for a in range(d):
                for b in range(d):
                    squares += (gamma[a] - fit[a]) * gram[a, b] * (gamma[b] - fit[b])
            gamma[d] = model.draw_tau(rng, gamma[d], self.n, max(squares, 0.0))

    @compiled
    def keep(self, state, rng, draws, row):
        for a in range(state.theta.size):
            draws.theta[row, a] = state.theta[a]


def start_known(model, rng):
    """Start a chain on records that are known."""
    theta = np.append(model.prior.mean, model.prior.sigma or 0.2 * exp(rng.standard_normal()))
    return KnownState(theta, np.zeros((len(theta) - 1,) * 2), np.zeros(1, dtype=np.int64))


def advance_known(model, gram, fit, residual, n, state, rng, n_sweeps, n_warmup, thin):
    """Advance a chain in place by ``n_sweeps``; return (state, draws)."""
    fields = {"model": model, "gram": gram, "fit": fit, "residual": float(residual), "n": float(n)}
    sweeps, done = lower(KnownSweeps, fields), state.ints[N_SWEEPS:]
    draws = ThetaDraws(np.zeros((n_kept(done[0], n_sweeps, n_warmup, thin), len(state.theta))))
    run_chain(sweeps, state, rng, done, n_sweeps, n_warmup, thin, draws)
    return state, draws
