"""Importance-sampling ABC: weighted draws, consistent for the exact posterior (Gong 2019, equation 10)."""

from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ._simulator import WeightedDraws, block_generator


class ImportanceABC(BaseEstimator):
    """Weight parameters from a proposal g by q(s_obs | s) π(θ) / g(θ), where s is their simulated statistic.

    Parameters
    ----------
    proposal : object or None, default=None
        It has ``sample(rng, size)`` -> (size, n_params) and ``log_density(theta)`` -> (size,), and its density is
        positive wherever the prior is; the model then needs ``log_prior``.  None: the prior.
    block_size : int, default=16384
        Simulations at a time.

    Examples
    --------
    >>> from scipy.stats import gamma
    >>> from sklearn_dpmix import PrivateABC
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.models import PoissonCount
    >>> from sklearn_dpmix.samplers import ImportanceABC
    >>> class NearTheRelease:
    ...     law = gamma(20, scale=2)
    ...
    ...     def sample(self, rng, size):
    ...         return self.law.rvs((size, 1), random_state=rng)
    ...
    ...     def log_density(self, theta):
    ...         return self.law.logpdf(theta[:, 0])
    >>> method = ImportanceABC(proposal=NearTheRelease())
    >>> model = PrivateABC(LaplaceMechanism(scale=5.0), model=PoissonCount(), method=method, random_state=0).fit([37.4])
    >>> round(float(model.weights_.sum()), 6)
    1.0
    """

    has_chains = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "proposal": "no_validation",
        "block_size": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, proposal: Any = None, block_size: int = 16384) -> None:
        self.proposal = proposal
        self.block_size = block_size

    @property
    def needs(self) -> Any:
        return ("sample_prior",) if self.proposal is None else ("log_prior",)

    def run(
        self, simulator: Any, n_draws: int, root: Any, *, n_jobs: int | None, max_simulations: int, progress: Any
    ) -> Any:
        """Return ``WeightedDraws`` of ``n_draws`` simulations; ``root`` is a SeedSequence."""
        for method in ("sample", "log_density"):
            if self.proposal is not None and not callable(getattr(self.proposal, method, None)):
                raise TypeError(
                    f"proposal must have sample(rng, size) and log_density(theta), and {type(self.proposal).__name__} "
                    f"has no {method}"
                )
        total, size, blocks = min(n_draws, max_simulations), int(self.block_size), []
        was_interrupted = False
        sizes = [min(size, total - first) for first in range(0, total, size)]
        try:
            with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
                for first in range(0, len(sizes), 64):
                    blocks += parallel(
                        delayed(self._block)(simulator, root, i, sizes[i])
                        for i in range(first, min(first + 64, len(sizes)))
                    )
                    progress(sum(len(block[0]) for block in blocks), "")
        except KeyboardInterrupt:
            if not blocks:
                raise
            was_interrupted = True
        theta, statistics, log_weight = (np.concatenate(parts) for parts in zip(*blocks, strict=True))
        draws = weigh(theta, statistics, log_weight, len(theta))
        draws.complete, draws.was_interrupted = len(theta) == n_draws, was_interrupted
        draws.attributes["k_hat_"] = pareto_k_hat(log_weight)
        return draws

    def _block(self, simulator, root, i, size):
        theta, statistics, log_ratio = self.simulate(simulator, block_generator(root, i), size)
        inside = log_ratio > -np.inf
        if inside.any():
            log_ratio[inside] += simulator.log_release(statistics[inside])
        return theta, statistics, log_ratio

    def simulate(self, simulator: Any, rng: np.random.Generator, size: int) -> Any:
        """(θ from the proposal, statistics, log(π(θ)/g(θ))); no statistics, but nan, outside the prior's support."""
        if self.proposal is None:
            theta = simulator.prior(rng, size)
            return theta, simulator.statistics(rng, theta), np.zeros(size)
        theta = np.asarray(self.proposal.sample(rng, size), dtype=np.float64)
        if theta.ndim != 2 or len(theta) != size:
            raise ValueError(f"proposal.sample(rng, {size}) must have shape ({size}, n_params), got {theta.shape}")
        log_g = np.asarray(self.proposal.log_density(theta), dtype=np.float64)
        if log_g.shape != (size,) or not np.all(np.isfinite(log_g)):
            raise ValueError(
                f"proposal.log_density(theta) must be {size} finite numbers at what the proposal drew, got shape "
                f"{log_g.shape}"
            )
        log_ratio = simulator.log_prior(theta) - log_g
        inside = log_ratio > -np.inf
        statistics = np.full((size, simulator.n_columns), np.nan)
        if inside.any():
            statistics[inside] = simulator.statistics(rng, theta[inside])
        return theta, statistics, log_ratio


def weigh(theta, statistics, log_weight, n):
    """``WeightedDraws`` with effective sample sizes, and the evidence as a mean of n weights: others are 0."""
    total = logsumexp(log_weight)
    weights = np.exp(log_weight - total) if total > -np.inf else np.zeros(len(theta))
    squares = float(np.sum(weights**2))
    return WeightedDraws(
        theta,
        statistics,
        weights,
        ess=effective_of_means(theta, weights),
        log_evidence=float(total - np.log(n)),
        log_evidence_error=float(np.sqrt(max(n * squares - 1.0, 0.0) / (n - 1))) if squares > 0.0 and n > 1 else np.inf,
        acceptance_rate=np.nan,
        n_simulations=int(np.count_nonzero(~np.isnan(statistics[:, 0]))),
        complete=True,
    )


def pareto_k_hat(log_weight):
    """k-hat of Pareto-smoothed importance sampling; nan for fewer than 25 weights, -inf if the largest are equal."""
    from arviz_stats.base import array_stats

    top = log_weight.max()
    if len(log_weight) < 25 or top == -np.inf or np.ptp(log_weight) == 0.0:  # arviz-stats has no tail to fit
        return np.nan
    try:
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            k_hat = float(array_stats.psislw(-np.maximum(log_weight, top - 700.0))[1])
    except ValueError:  # the largest weights are all the same
        return -np.inf
    return np.inf if np.isnan(k_hat) else k_hat  # few weights are all there is: no tail is as heavy


def effective(log_weight):
    """Kish's effective sample size."""
    top = np.max(log_weight)
    if not top > -np.inf:
        return 0.0
    weight = np.exp(log_weight - top)
    return float(weight.sum() ** 2 / np.sum(weight**2))


def effective_of_means(theta, weights):
    """Independent draws whose means would be as exact as these weighted means: (n_params,).

    It is less than Kish's 1/Σw² if large weights are far out, and never more: if one weight is nearly all, the mean is
    nearly its parameter, and the remaining spread says nothing.  A parameter that does not vary has Kish's.
    """
    used = weights > 0.0
    if not used.any():
        return np.zeros(theta.shape[1])
    theta, weights = theta[used], weights[used]
    kish, width = 1.0 / np.sum(weights**2), np.ptp(theta, axis=0)
    varies = width > 0.0  # by the range: what rounding leaves of a constant's squares is dust
    squares = ((theta[:, varies] - weights @ theta[:, varies]) / width[varies]) ** 2
    ess = np.full(theta.shape[1], kish)
    ess[varies] = np.minimum(weights @ squares / np.maximum(weights**2 @ squares, 1e-300), kish)
    return ess
