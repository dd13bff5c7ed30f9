"""Monte Carlo EM for the likelihood of a release (Gong 2019, §4), with samples that grow by ascent (Caffo et al. 2005).

E-step: statistics s_i from the model at θ, with weights ω_i = q(s_obs | s_i) (equation 13).  M-step: the maximum of
Σ ω_i log π(s_i | θ) (equation 14).  A step counts only if the gain in that sum is positive beyond its Monte Carlo
error; otherwise more simulations join (Caffo, Jank & Jones 2005).  Score and information of the release are Louis'
(equations 15 and 16).
"""

from functools import partial
from math import ceil
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize
from scipy.stats import norm

from ..._base.differences import central_differences
from ..._base.parameters import numbers

#: Error probabilities of accepting a rise, of the size of the next sample, and of convergence (Caffo et al., §5).
ALPHA, BETA, GAMMA = 0.25, 0.25, 0.1
BLOCK = 65536  # simulations at a time
NEWTON_SIZE = 100_000  # simulations that a Newton step begins with
FEWEST_EFFECTIVE = 100  # simulations, by their weights, for an error to be believed
MOST_ROUGH = 0.05  # relative Monte Carlo error of a standard error
STEP = 1e-4  # of numeric derivatives, in scales of the parameters
#: How much such a step bends the log likelihood, at least (and more than its rounding), and how many times that at most
LEAST_BEND, ROUNDING, MOST_BEND = 1e-9, 1e-13, 1e6
N_BENT, MOST_SCALINGS = 1000, 30  # statistics that this is seen from; powers of ten that are tried


class Imputation(NamedTuple):
    """Weighted statistics from the distribution of s given the release and θ; the weights sum to 1."""

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
    largest = np.max(log_release)
    if largest == -np.inf:
        raise ValueError(
            f"the release has density 0 given each of {len(statistics)} simulations at theta={theta.tolist()}: start "
            "nearer to it (the model's theta_init), or check the model, the mechanism and the release"
        )
    shares = np.exp(log_release - largest)
    total = np.sum(shares)
    log_likelihood = float(largest + np.log(total / len(shares)))
    return Imputation(statistics, shares / total, log_likelihood), (statistics, log_release)


class Likelihood:
    """The model's log likelihood with its derivatives and its maximum; numeric if the model has no closed form."""

    def __init__(self, model):
        self.model = model

    def log_likelihood(self, statistics, theta):
        """(size,) at one θ."""
        value = numbers(self.model.log_likelihood(statistics, np.tile(theta, (len(statistics), 1))))
        if value is None or value.shape != (len(statistics),):
            got = "something that is not an array of numbers" if value is None else value.shape
            raise ValueError(
                f"{type(self.model).__name__}.log_likelihood(statistics, theta) must be numbers of shape "
                f"({len(statistics)},), got {got}"
            )
        return np.where(np.isnan(value), -np.inf, value)

    def of_own_draws(self, statistics, theta):
        """The same if the statistics were drawn at θ, so that none of them can be impossible."""
        value = self.log_likelihood(statistics, theta)
        wrong = ~np.isfinite(value)
        if np.any(wrong):
            raise ValueError(
                f"{type(self.model).__name__}.log_likelihood(statistics, theta) must be finite where sample_statistic "
                f"draws, got {value[wrong][0]} of {statistics[wrong][0].tolist()} at theta={theta.tolist()}"
            )
        return value

    def maximise(self, imputed, theta):
        """M-step: θ of the largest weighted log likelihood."""
        used = imputed.weights > 0.0
        statistics, weights = imputed.statistics[used], imputed.weights[used]
        if callable(getattr(self.model, "maximise", None)):
            found = np.asarray(self.model.maximise(statistics, weights), dtype=np.float64)
            if found.shape != theta.shape or not np.all(np.isfinite(found)):
                raise ValueError(
                    f"{type(self.model).__name__}.maximise(statistics, weights) must be finite, of shape "
                    f"{theta.shape}, got {found.tolist()} of shape {found.shape}"
                )
            return found
        start = -(weights @ self.log_likelihood(statistics, theta))

        scale, origin = self.scale(statistics, theta), np.zeros(len(theta))

        def loss(u):
            value = weights @ self.log_likelihood(statistics, theta + scale * u)
            return -value - start if np.isfinite(value) else 1e300

        options = {"xatol": 1e-9, "fatol": 1e-12, "adaptive": True, "maxiter": 2000 * len(theta)}
        options["initial_simplex"] = np.vstack([origin, 0.05 * np.eye(len(theta))])
        return theta + scale * minimize(loss, origin, method="Nelder-Mead", options=options).x

    def scale(self, statistics, theta):
        """The size of a change that matters of each parameter, (n_params,), whatever the parameters' units and origin.

        It is the parameter itself (or 0.001), times the power of ten that brings ``STEP`` of it into the range where
        differences of the log likelihood are derivatives: neither rounding nor curvature of a higher order.
        """
        statistics = statistics[:N_BENT]
        middle, scale = self.log_likelihood(statistics, theta), np.maximum(np.abs(theta), 1e-3)
        least = LEAST_BEND + ROUNDING * np.mean(np.abs(middle))
        for j, start in enumerate(scale.copy()):
            for _ in range(MOST_SCALINGS):
                step = np.zeros(len(theta))
                step[j] = STEP * scale[j]
                ends = [self.log_likelihood(statistics, at) for at in (theta + step, theta - step)]
                bend = abs(np.mean(middle - 0.5 * (ends[0] + ends[1])))  # infinite beyond the edge of the parameters
                if least <= bend <= MOST_BEND * least:
                    break
                scale[j] *= 10.0 if bend < least else 0.1
            else:  # it does not matter, or is on the edge
                scale[j] = start
        return scale

    def _derivative(self, name, statistics, theta, shape):
        value = getattr(self.model, name)(statistics, np.tile(theta, (len(statistics), 1)))
        if np.shape(value) != shape:
            raise ValueError(
                f"{type(self.model).__name__}.{name}(statistics, theta) must have shape {shape}, got {np.shape(value)}"
            )
        return np.asarray(value, dtype=np.float64)

    def score(self, statistics, theta, scale=None):
        """Gradients, (size, n_params)."""
        if callable(getattr(self.model, "score", None)):
            return self._derivative("score", statistics, theta, (len(statistics), len(theta)))
        scale = self.scale(statistics, theta) if scale is None else scale
        return self._by_differences(self.log_likelihood, statistics, theta, scale)

    def hessian(self, statistics, theta):
        """Second derivatives, (size, n_params, n_params)."""
        if callable(getattr(self.model, "hessian", None)):
            return self._derivative("hessian", statistics, theta, (len(statistics), len(theta), len(theta)))
        scale = self.scale(statistics, theta)
        result = self._by_differences(partial(self.score, scale=scale), statistics, theta, scale)
        return 0.5 * (result + np.swapaxes(result, -1, -2))

    @staticmethod
    def _by_differences(function, statistics, theta, scale):
        """Derivatives of function(statistics, θ) by each parameter, along a last axis."""

        def at_all(points):
            return np.array([function(statistics, point) for point in points])

        return np.ascontiguousarray(np.moveaxis(central_differences(at_all, theta, scale * STEP), 0, -1))


def louis(likelihood, imputed, theta):
    """Score, its Monte Carlo covariance and observed information of the release at θ: equations 15 and 16.

    And what :func:`roughness` needs: weights, centred scores and second derivatives of the simulations.
    """
    used = imputed.weights > 0.0
    statistics, weights = imputed.statistics[used], imputed.weights[used]
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):  # on the parameters' edge there are none
        scores, curvatures = likelihood.score(statistics, theta), likelihood.hessian(statistics, theta)
        score = weights @ scores
        centred = scores - score
        weighted = weights[:, None] * centred
        information = -(weights @ curvatures.reshape(len(weights), -1)).reshape(curvatures.shape[1:])
        information -= weighted.T @ centred  # E λλ' - E λ E λ'
        error = weighted.T @ weighted
    return score, error, information, (weights, centred, curvatures)


def roughness(covariance, weights, centred, curvatures):
    """Monte Carlo errors of standard errors, relative to them, the largest; ``covariance`` is I⁻¹.

    A change dI of the information changes it by -I⁻¹ dI I⁻¹.
    """
    pairs = np.einsum("aj,bj->abj", covariance, covariance).reshape(-1, len(covariance))
    change = curvatures.reshape(len(curvatures), -1) @ pairs + (centred @ covariance) ** 2
    change = weights[:, None] * (change + np.diag(covariance))
    return float(np.max(0.5 * np.sqrt(np.sum(change**2, axis=0)) / np.diag(covariance)))


class Step(NamedTuple):
    """One row of the trace."""

    theta: np.ndarray
    log_likelihood: float
    n_simulations: int
    gain: float
    gain_error: float
    n_effective: float  # of the simulations, by their weights


def ascend(simulator, likelihood, theta, size, rng, most):
    """One EM step: simulations join until the gain is a rise beyond its error.  Returns (θ, Step, used up).

    The last says that ``most`` simulations did not show a rise.
    """
    z = norm.isf(ALPHA)
    imputed, kept = impute(simulator, theta, size, rng)
    while True:
        before = likelihood.of_own_draws(imputed.statistics, theta)
        proposed = likelihood.maximise(imputed, theta)
        used = imputed.weights > 0.0
        weights, statistics = imputed.weights[used], imputed.statistics[used]
        rise = likelihood.log_likelihood(statistics, proposed) - before[used]
        gain = float(weights @ rise)
        error = float(np.sqrt(np.sum((weights * (rise - gain)) ** 2)))
        n = len(imputed.weights)
        more = ceil(n / 2)
        if gain >= z * error or n + more > most:
            step = Step(proposed, imputed.log_likelihood, n, gain, error, 1.0 / float(weights @ weights))
            return proposed, step, gain < z * error
        imputed, kept = impute(simulator, theta, more, rng, kept)


def next_size(step):
    """Simulations of the next step: so many that a gain of the same size would be seen (Caffo et al., eq. 13)."""
    if step.gain <= 0.0:
        return step.n_simulations
    if step.n_effective < FEWEST_EFFECTIVE and upper_gain(step) < 1.0:  # errors from so few say nothing
        return 2 * step.n_simulations
    needed = step.n_simulations * (step.gain_error * (norm.isf(ALPHA) + norm.isf(BETA)) / step.gain) ** 2
    return int(max(step.n_simulations, min(needed, 10.0 * step.n_simulations)))


def upper_gain(step):
    """What the gain hardly ever exceeds."""
    return step.gain + norm.isf(GAMMA) * step.gain_error


class Top(NamedTuple):
    """What is known about the likelihood at one θ."""

    imputed: Imputation
    score: np.ndarray
    information: np.ndarray
    step: np.ndarray | None  # Newton's; None if the information is not positive
    error: np.ndarray
    monte_carlo_error: np.ndarray  # of the step
    roughness: float  # Monte Carlo error of ``error``, relative to it, the largest


def newton_step(simulator, likelihood, theta, precision, most, rng):
    """Louis' score and information at θ, from simulations until the step is known to ``precision`` standard errors.

    And until these are known, which the former is measured by: the information may be near 0 by chance.
    """
    size, kept = min(NEWTON_SIZE, most), None
    nan = np.full(len(theta), np.nan)
    while True:
        imputed, kept = impute(simulator, theta, size, rng, kept)
        score, score_error, information, terms = louis(likelihood, imputed, theta)
        n, step, error, spread, rough, is_precise = len(imputed.weights), None, nan, nan, np.inf, False
        if np.all(np.isfinite(information)) and np.all(np.linalg.eigvalsh(information) > 0.0):
            covariance = np.linalg.inv(information)
            step, error = covariance @ score, np.sqrt(np.diag(covariance))
            if imputed.weights @ imputed.weights * FEWEST_EFFECTIVE < 1.0:
                spread = np.sqrt(np.diag(covariance @ score_error @ covariance))
                rough = roughness(covariance, *terms)
            is_precise = bool(np.all(spread < precision * error)) and rough < MOST_ROUGH
        if is_precise or 2 * n > most:
            return Top(imputed, score, information, step, error, spread, rough)
        size = n


def inside(likelihood, imputed, theta, step):
    """θ moved by the step, or by half of it and so on until the likelihood is finite; None if it never is."""
    statistics = imputed.statistics[imputed.weights > 0.0]
    for _ in range(10):
        if np.all(likelihood.log_likelihood(statistics, theta + step) > -np.inf):
            return theta + step
        step = 0.5 * step
    return None
