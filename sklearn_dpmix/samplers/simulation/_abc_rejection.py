"""Rejection ABC: independent draws from the exact posterior (Gong 2019, Algorithm 1 and Theorem 1)."""

from math import ceil, inf, log
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ._simulator import WeightedDraws, block_generator

SLACK = 1e-9  # relative: by which a density may exceed its mode in floating point


class RejectionABC(BaseEstimator):
    """Keep a parameter from the prior with probability q(s_obs | s) / max q, where s is its simulated statistic.

    q is the density of the mechanism's noise, so the parameters that are kept come from the posterior itself, without a
    bandwidth or a tolerance (Gong 2019, Theorem 1).  The share of simulations that is kept is q(s_obs) / max q.

    Parameters
    ----------
    block_size : int, default=16384
        Simulations at a time.

    Examples
    --------
    >>> from sklearn_dpmix import PrivateABC
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.models import PoissonCount
    >>> from sklearn_dpmix.samplers import RejectionABC
    >>> method = RejectionABC(block_size=4096)
    >>> model = PrivateABC(LaplaceMechanism(scale=5.0), model=PoissonCount(), method=method, random_state=0).fit([37.4])
    >>> model.theta_draws_.shape, bool(0 < model.acceptance_rate_ < 1)
    ((1000, 1), True)
    """

    needs = ("sample_prior",)
    has_chains = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "block_size": [Interval(Integral, 1, None, closed="left")],
    }

    def __init__(self, block_size: int = 16384) -> None:
        self.block_size = block_size

    def run(
        self, simulator: Any, n_draws: int, root: Any, *, n_jobs: int | None, max_simulations: int, progress: Any
    ) -> Any:
        """Return ``WeightedDraws``; ``root`` is a SeedSequence.

        Results do not depend on ``n_jobs``: block i has its own generator, and the draws are the first ones in the
        order of blocks.
        """
        if simulator.log_mode == inf:
            raise ValueError(
                f'method="rejection" needs the largest value that the density of {simulator.mechanism!r} takes, which '
                'is not known: use method="smc" or "importance", or give the mechanism n_records where it takes that'
            )
        blocks: list[Any] = []
        n_kept, expected = 0, 0.0
        size = int(self.block_size)  # scikit-learn takes True for 1, NumPy does not
        most = ceil(max_simulations / size)
        n_ahead, was_interrupted = 1, False
        try:
            with Parallel(n_jobs=n_jobs, prefer="threads") as parallel:
                while n_kept < n_draws and len(blocks) < most:
                    first = len(blocks)
                    sizes = [min(size, max_simulations - i * size) for i in range(first, min(first + n_ahead, most))]
                    new = parallel(delayed(one_block)(simulator, root, first + i, size) for i, size in enumerate(sizes))
                    for block in new:
                        if n_kept < n_draws:
                            blocks.append(block)
                            n_kept, expected = n_kept + len(block[0]), expected + block[2]
                    n_simulations = sum(block[4] for block in blocks)
                    rate = expected / n_simulations
                    progress(min(n_kept, n_draws), f"acceptance {rate:.2g}")
                    left = (n_draws - n_kept) / rate if rate > 0.0 else inf
                    n_ahead = max(1, min(int(min(left / size, 1e6)), 2 * n_ahead, 256))
        except KeyboardInterrupt:
            if not blocks:
                raise
            was_interrupted = True
        return self._draws(simulator, blocks, n_draws, was_interrupted)

    def _draws(self, simulator, blocks, n_draws, was_interrupted):
        n_simulations = sum(block[4] for block in blocks)
        rate = sum(block[2] for block in blocks) / n_simulations
        square = sum(block[3] for block in blocks) / n_simulations
        is_known = rate > 1e-150 and n_simulations > 1
        error = np.sqrt(max(square / rate / rate - 1.0, 0.0) / (n_simulations - 1)) if is_known else inf
        theta, statistics = (np.concatenate([block[k] for block in blocks])[:n_draws] for k in (0, 1))
        n = len(theta)
        return WeightedDraws(
            theta,
            statistics,
            np.full(n, 1.0 / max(n, 1)),
            ess=np.full(theta.shape[1], float(n)),
            log_evidence=simulator.log_mode + (log(rate) if rate > 0.0 else -inf),
            log_evidence_error=float(error),
            acceptance_rate=rate,
            n_simulations=n_simulations,
            complete=n == n_draws,
            was_interrupted=was_interrupted,
        )


def one_block(simulator, root, i, size):
    """(θ kept, statistics kept, sum of acceptance probabilities, sum of their squares, simulations)."""
    rng = block_generator(root, i)
    theta, statistics, log_release = simulator.from_prior(rng, size)
    gain = log_release - simulator.log_mode
    if np.any(gain > SLACK * max(1.0, abs(simulator.log_mode))):
        raise ValueError(
            f"the density of {simulator.mechanism!r} is larger at a simulated statistic than log_release_mode says: "
            'its noise must have its mode at 0 for method="rejection" (and a simulated smooth sensitivity be that of '
            'n_records records); use method="importance" or "smc"'
        )
    kept = -rng.standard_exponential(size) <= gain
    probability = np.exp(np.minimum(gain, 0.0))
    return theta[kept], statistics[kept], float(probability.sum()), float(np.sum(probability**2)), size
