"""Monte Carlo EM for the likelihood of a release (Gong 2019, §4), with samples that grow by ascent (Caffo et al. 2005).

E-step: statistics s_i from the model at θ, with weights ω_i = q(s_obs | s_i) (equation 13).  M-step: the maximum of
Σ ω_i log π(s_i | θ) (equation 14).  A step counts only if the gain in that sum is positive beyond its Monte Carlo
error; otherwise more simulations join (Caffo, Jank & Jones 2005).  Score and information of the release are Louis'
(equations 15 and 16).
"""

from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.special import logsumexp
from scipy.stats import norm

#: Errors of a rise that is taken for one, of the size of the next sample, and of convergence (Caffo et al., §5).
ALPHA, BETA, GAMMA = 0.25, 0.25, 0.1
BLOCK = 65536  # simulations at a time


class Imputation(NamedTuple):
    """Weighted statistics from the law of s given the release and θ; the weights sum to 1."""

    statistics: np.ndarray
    weights: np.ndarray
    log_likelihood: float  # of the release, estimated


def impute(simulator, theta, size, rng, earlier=None):
    """E-step: ``size`` simulations at θ, next to ``earlier`` ones at the same θ."""
    parts = [] if earlier is None else [earlier]
    for first in range(0, size, BLOCK):
        n = min(BLOCK, size - first)
        statistics = simulator.statistics(rng, np.tile(theta, (n, 1)))
        parts.append((statistics, simulator.log_release(statistics)))
    statistics, log_release = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    total = logsumexp(log_release)
    if total == -np.inf:
        raise ValueError(
            f"the release has density 0 given each of {len(statistics)} simulations at theta={theta.tolist()}: start "
            "nearer to it (the model's theta_init), or check the model, the mechanism and the release"
        )
    weights = np.exp(log_release - total)
    return Imputation(statistics, weights, float(total - np.log(len(weights)))), (statistics, log_release)


class Likelihood:
    """The model's log likelihood with its derivatives and its maximum; numeric where the model has no closed form."""

    def __init__(self, model):
        self.model = model

    def log_likelihood(self, statistics, theta):
        """(size,) at one θ."""
        value = np.asarray(self.model.log_likelihood(statistics, np.tile(theta, (len(statistics), 1))), dtype=float)
        if value.shape != (len(statistics),):
            raise ValueError(
                f"{type(self.model).__name__}.log_likelihood(statistics, theta) must have shape "
                f"({len(statistics)},), got {value.shape}"
            )
        return np.where(np.isnan(value), -np.inf, value)

    def maximise(self, imputed, theta):
        """M-step: θ of the largest weighted log likelihood."""
        used = imputed.weights > 0.0
        statistics, weights = imputed.statistics[used], imputed.weights[used]
        if callable(getattr(self.model, "maximise", None)):
            found = np.asarray(self.model.maximise(statistics, weights), dtype=np.float64)
            if found.shape != theta.shape or not np.all(np.isfinite(found)):
                raise ValueError(
                    f"{type(self.model).__name__}.maximise(statistics, weights) must be {len(theta)} finite numbers, "
                    f"got {found.tolist()}"
                )
            return found
        start = -(weights @ self.log_likelihood(statistics, theta))

        def loss(at):
            value = weights @ self.log_likelihood(statistics, at)
            return -value - start if np.isfinite(value) else 1e300

        options = {"xatol": 1e-9, "fatol": 1e-12, "adaptive": True, "maxiter": 2000 * len(theta)}
        steps = np.vstack([theta, theta + np.diag(0.05 * np.maximum(np.abs(theta), 1e-3))])
        return minimize(loss, theta, method="Nelder-Mead", options={**options, "initial_simplex": steps}).x

    def _steps(self, theta):
        return np.maximum(np.abs(theta), 1e-3) * 1e-4

    def score(self, statistics, theta):
        """Gradients, (size, n_params)."""
        if callable(getattr(self.model, "score", None)):
            return np.asarray(self.model.score(statistics, np.tile(theta, (len(statistics), 1))), dtype=np.float64)
        steps = np.diag(self._steps(theta))
        columns = [
            (self.log_likelihood(statistics, theta + step) - self.log_likelihood(statistics, theta - step))
            / (2.0 * step.sum())
            for step in steps
        ]
        return np.column_stack(columns)

    def hessian(self, statistics, theta):
        """Second derivatives, (size, n_params, n_params)."""
        if callable(getattr(self.model, "hessian", None)):
            return np.asarray(self.model.hessian(statistics, np.tile(theta, (len(statistics), 1))), dtype=np.float64)
        steps = np.diag(self._steps(theta))
        columns = [
            (self.score(statistics, theta + step) - self.score(statistics, theta - step)) / (2.0 * step.sum())
            for step in steps
        ]
        result = np.stack(columns, axis=-1)
        return 0.5 * (result + np.swapaxes(result, -1, -2))


def louis(likelihood, imputed, theta):
    """(score, its Monte Carlo covariance, observed information) of the release at θ: equations 15 and 16."""
    used = imputed.weights > 0.0
    statistics, weights = imputed.statistics[used], imputed.weights[used]
    scores = likelihood.score(statistics, theta)
    score = weights @ scores
    centred = scores - score
    information = -np.einsum("i,ijk->jk", weights, likelihood.hessian(statistics, theta))
    information -= (weights[:, None] * centred).T @ centred  # E λλ' - E λ E λ'
    error = (weights[:, None] * centred).T @ (weights[:, None] * centred)
    return score, error, information


class Step(NamedTuple):
    """One row of the trace."""

    theta: np.ndarray
    log_likelihood: float
    n_simulations: int
    gain: float
    gain_error: float


def ascend(simulator, likelihood, theta, size, rng, most):
    """One EM step: simulations join until the gain is a rise beyond its error.  Returns (θ, Step, used up)."""
    z = norm.isf(ALPHA)
    imputed, kept = impute(simulator, theta, size, rng)
    while True:
        proposed = likelihood.maximise(imputed, theta)
        used = imputed.weights > 0.0
        weights, statistics = imputed.weights[used], imputed.statistics[used]
        rise = likelihood.log_likelihood(statistics, proposed) - likelihood.log_likelihood(statistics, theta)
        gain = float(weights @ rise)
        error = float(np.sqrt(np.sum((weights * (rise - gain)) ** 2)))
        n = len(imputed.weights)
        more = ceil(n / 2)
        if gain >= z * error or n + more > most:
            return proposed, Step(proposed, imputed.log_likelihood, n, gain, error), n + more > most
        imputed, kept = impute(simulator, theta, more, rng, kept)


def next_size(step):
    """Simulations of the next step: so many that a gain of the same size would be seen (Caffo et al., eq. 13)."""
    if step.gain <= 0.0:
        return step.n_simulations
    needed = step.n_simulations * (step.gain_error * (norm.isf(ALPHA) + norm.isf(BETA)) / step.gain) ** 2
    return int(max(step.n_simulations, min(needed, 10.0 * step.n_simulations)))


def upper_gain(step):
    """What the gain hardly ever exceeds."""
    return step.gain + norm.isf(GAMMA) * step.gain_error
