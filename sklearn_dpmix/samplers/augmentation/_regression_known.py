"""A linear regression whose records are known: coefficients and σ in turn, both conjugate."""

from math import exp
from typing import NamedTuple

import numpy as np

from ..._base.compiled import entry
from ..._base.linear import draw_normal
from ..._base.restore import require, require_finite, same_layout
from .._parameter_draws import ThetaDraws, n_kept
from ._regression_given_design import N_SWEEPS, require_sweeps


class KnownState(NamedTuple):
    """All of a chain where the records are known."""

    theta: np.ndarray  # (d + 1,): γ and τ
    work: np.ndarray  # (d, d)
    ints: np.ndarray

    def restored(self, fresh, n_sweeps):
        """As ``restored_moments`` does."""
        state = same_layout(fresh, self)
        require_sweeps(state, n_sweeps)
        require_finite(theta=state.theta)
        require(state.theta[-1] > 0, "theta", "has a standard deviation that is not positive")
        return state


@entry
def run_known(model, gram, fit, residual, n, state, rng, until, n_warmup, thin, theta):
    """γ and τ given X'X, the least squares coefficients and their residual sum of squares."""
    n_drawn, d, matrix, gamma = 0, model.d, state.work, state.theta
    while state.ints[N_SWEEPS] < until:
        rate = gamma[d] ** -2
        for a in range(d):
            gamma[a] = model.shift[a]
            for b in range(d):
                matrix[a, b] = rate * gram[a, b] + model.precision[a, b]
                gamma[a] += rate * gram[a, b] * fit[b]
        draw_normal(rng, matrix, gamma, d)
        if model.sigma == 0.0:
            squares = residual
            for a in range(d):
                for b in range(d):
                    squares += (gamma[a] - fit[a]) * gram[a, b] * (gamma[b] - fit[b])
            gamma[d] = model.draw_tau(rng, gamma[d], n, max(squares, 0.0))
        state.ints[N_SWEEPS] += 1
        sweep = state.ints[N_SWEEPS] - n_warmup
        if sweep > 0 and sweep % thin == 0:
            for a in range(d + 1):
                theta[n_drawn, a] = gamma[a]
            n_drawn += 1


def start_known(model, rng):
    """Start a chain on records that are known."""
    theta = np.append(model.prior.mean, model.prior.sigma or 0.2 * exp(rng.standard_normal()))
    return KnownState(theta, np.zeros((len(theta) - 1,) * 2), np.zeros(1, dtype=np.int64))


def advance_known(model, gram, fit, residual, n, state, rng, n_sweeps, n_warmup, thin):
    """Advance a chain in place by ``n_sweeps``; return (state, draws)."""
    done = int(state.ints[N_SWEEPS])
    draws = ThetaDraws(np.zeros((n_kept(done, n_sweeps, n_warmup, thin), len(state.theta))))
    gram, fit = np.array(gram), np.array(fit)  # writable: one compiled version, wherever they come from
    run_known(model, gram, fit, float(residual), float(n), state, rng, done + n_sweeps, n_warmup, thin, draws.theta)
    return state, draws
