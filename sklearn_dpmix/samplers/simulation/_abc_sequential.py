"""Sequential ABC: wide noise is narrowed to the mechanism's own while a proposal is learnt, then importance sampling.

A batch of simulations (θ, s) with θ from a proposal g, at first the prior, is weighted by π(θ) q_w(s_obs | s) / g(θ),
q_w the mechanism's density with its noise w times as wide, and w the smallest that leaves enough effective simulations.
The next g is a mixture around the weighted θ (Beaumont, Cornuet, Marin & Robert 2009; Sisson, Fan & Tanaka 2007).  When
w is 1, or the scatter of s and not w decides what is compatible, g is learnt once more at w = 1 and then fixed.  After
that, draws are importance sampling from a fixed g, and its theory applies: they are consistent for the exact posterior,
with known errors.  Weights are bounded, since g has a share of the prior.  Memory is bounded too: if there are more
simulations than it is meant to hold, those of least weight are thinned out (Fearnhead & Clifford 2003).
"""

from math import exp, inf, log
from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from joblib import Parallel, delayed
from scipy.spatial.distance import cdist
from scipy.special import gammaln, logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ._abc_importance import ImportanceABC, effective, effective_of_means, weigh
from ._simulator import WeightedDraws, block_generator

STALLED = 0.8  # a width that shrinks by less says that the scatter of s decides
N_CENTRES = 200  # of the mixture that proposes
DF = 5.0  # its components are t distributions: their tails keep weights bounded
SHARE_OF_PRIOR = 0.1  # in each proposal: so that weights are bounded where the prior goes
MOST_BATCHES = 100  # of a step
MOST_NUMBERS = 2**23  # in memory, of simulations: parameters, statistics and weights


class SequentialABC(BaseEstimator):
    """Learn a proposal under noise that gets narrower step by step, then sample from it with weights.

    Parameters
    ----------
    batch_size : int, default=1000
        Simulations in a step.
    ess_fraction : float in (0, 1), default=0.1
        In each step noise is narrowed until this share of the simulations is effective.

    Examples
    --------
    >>> from sklearn_dpmix import PrivateABC
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.models import PoissonCount
    >>> from sklearn_dpmix.samplers import SequentialABC
    >>> method = SequentialABC(batch_size=500)
    >>> model = PrivateABC(LaplaceMechanism(scale=0.5), model=PoissonCount(), method=method, random_state=0).fit([37.4])
    >>> model.theta_draws_.shape
    (1000, 1)
    """

    needs = ("sample_prior", "log_prior")
    has_chains = False

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "batch_size": [Interval(Integral, 20, None, closed="left")],
        "ess_fraction": [Interval(Real, 0, 1, closed="neither")],
    }

    def __init__(self, batch_size: int = 1000, ess_fraction: float = 0.1) -> None:
        self.batch_size = batch_size
        self.ess_fraction = ess_fraction

    def run(
        self, simulator: Any, n_draws: int, root: Any, *, n_jobs: int | None, max_simulations: int, progress: Any
    ) -> Any:
        """Return ``WeightedDraws``: simulations until ``n_draws`` are effective, and so many resampled of them."""
        budget, target = SimulationLimit(max_simulations), self.ess_fraction * self.batch_size
        proposal, width, widths, was_interrupted = None, inf, [], False

        def batches(step):
            own = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 1, step))
            return Batches(simulator, own, proposal, self.batch_size, n_jobs, budget, 4 * n_draws)

        pilot = batches(0)
        try:
            while width > 1.0 and not budget.is_spent:
                simulations = pilot.draw(1)
                target = min(target, 0.5 * len(simulations.theta))
                new = narrowest(simulations, target, min(width, simulator.most_wide))
                if new > STALLED * width:
                    new, simulations = 1.0, pilot.draw_until(target, MOST_BATCHES)
                width = new
                widths.append(width)
                progress(0, f"noise x {width:.3g}")
                proposal = Proposal(simulator, simulations, width)
                pilot = batches(len(widths))
            last = simulations if budget.is_spent else pilot.draw_until(n_draws, inf, progress)
        except KeyboardInterrupt:
            if pilot.simulations is None:
                raise
            last, was_interrupted = pilot.simulations, True
        draws = self._resampled(last, n_draws, root, widths, budget)
        draws.was_interrupted = was_interrupted
        return draws

    def _resampled(self, simulations, n_draws, root, widths, budget):
        found = weigh(simulations.theta, simulations.statistics, simulations.log_weight(1.0), simulations.n)
        if not found.weights.any():
            found.n_simulations = budget.n_simulations
            return found
        simulations.check_normalised()
        rng = block_generator(root, 0)
        chosen = rng.permutation(systematic(found.theta, found.weights, n_draws, rng))
        with np.errstate(divide="ignore"):  # no spread, no draws
            ess = 1.0 / (1.0 / found.ess + 1.0 / n_draws)  # at least: the second term is what resampling adds at most
        return WeightedDraws(
            found.theta[chosen],
            found.statistics[chosen],
            np.full(n_draws, 1.0 / n_draws),
            ess=ess,
            log_evidence=found.log_evidence,
            log_evidence_error=found.log_evidence_error,
            acceptance_rate=float(found.ess.min() / simulations.n),
            n_simulations=budget.n_simulations,
            complete=bool(found.ess.min() >= n_draws),
            attributes={"widths_": np.array(widths)},
        )


class SimulationLimit:
    """How many simulations there were, and how many there may be; proposals outside the support count as well."""

    def __init__(self, most):
        self.left, self.n_simulations = most, 0

    @property
    def is_spent(self):
        return self.left <= 0

    def take(self, n_batches, batch_size):
        """Sizes of the batches, as many as there may be."""
        sizes = [min(batch_size, self.left - i * batch_size) for i in range(n_batches)]
        sizes = [size for size in sizes if size > 0]
        self.left -= sum(sizes)
        return sizes


class Simulations:
    """Parameters, statistics and log(π(θ)/g(θ)) of simulations; -inf outside the prior's support.

    They stand for ``n`` simulations with a sum of π/g of ``total_ratio``, which are more than there are if some were
    trimmed.
    """

    def __init__(self, simulator, theta, statistics, log_ratio, n=None, total_ratio=None):
        self.simulator, self.theta, self.statistics, self.log_ratio = simulator, theta, statistics, log_ratio
        self.n = len(theta) if n is None else n
        self.total_ratio = float(np.exp(np.minimum(log_ratio, 50.0)).sum()) if total_ratio is None else total_ratio

    def most(self, fewest):
        """How many are kept: what memory holds, at least ``fewest``."""
        return max(fewest, MOST_NUMBERS // (self.theta.shape[1] + self.statistics.shape[1] + 1))

    def __add__(self, other):
        names = "theta", "statistics", "log_ratio"
        arrays = (np.concatenate([getattr(self, name), getattr(other, name)]) for name in names)
        return Simulations(self.simulator, *arrays, self.n + other.n, self.total_ratio + other.total_ratio)

    def trimmed(self, most, rng):
        """At most so many of them, which weigh as much, together and in expectation each (Fearnhead & Clifford 2003).

        Those above a level keep their weight at the mechanism's own noise.  Those below are kept with probability
        weight/level, and then have the level for weight; neighbours stand for each other.  Weights of 0 are left out.
        """
        log_weight = self.log_weight(1.0)
        order = np.argsort(-log_weight)[: max(1, np.count_nonzero(log_weight > log_weight.max() - 700.0))]
        log_ratio = self.log_ratio.copy()
        if len(order) > most:
            weight = np.exp(log_weight[order] - log_weight[order[0]])
            rest = np.cumsum(weight[::-1])[::-1]  # of each, and of all that are smaller
            above = int(np.argmax(weight[:most] * (most - np.arange(most)) <= rest[:most]))
            level = rest[above] / (most - above)
            below = systematic(self.theta[order[above:]], weight[above:] / rest[above], most - above, rng) + above
            log_ratio[order[below]] += np.log(level / weight[below])
            order = np.concatenate([order[:above], order[below]])
        return Simulations(
            self.simulator, self.theta[order], self.statistics[order], log_ratio[order], self.n, self.total_ratio
        )

    def check_normalised(self):
        """Raise ValueError if the prior's density does not integrate to 1: π/g then has another mean under g.

        It is at most 1 / ``SHARE_OF_PRIOR`` if the density is right, so that its variance is at most that, too.
        """
        mean = self.total_ratio / self.n
        if abs(mean - 1.0) > 6.0 * np.sqrt(1.0 / (SHARE_OF_PRIOR * self.n)):
            raise ValueError(
                f"{type(self.simulator.model).__name__}.log_prior must be the normalised log density of what "
                f"sample_prior draws: under the learnt proposal the density is {mean:.3g} times what it should be"
            )

    def effective(self):
        """Effective sample size of the worst mean at the mechanism's own noise."""
        log_weight = self.log_weight(1.0)
        total = logsumexp(log_weight)
        return float(effective_of_means(self.theta, np.exp(log_weight - total)).min()) if total > -inf else 0.0

    def log_weight(self, width):
        """Log weights under noise that many times as wide."""
        value = np.full(len(self.theta), -inf)
        inside = self.log_ratio > -inf
        value[inside] = self.log_ratio[inside] + self.simulator.log_release_widened(width)(self.statistics[inside])
        return value


class Batches:
    """Batches of simulations from one proposal, with the prior as a part of it; they add up.

    Memory is bounded: if there are too many simulations, those of least weight are thinned out.
    """

    def __init__(self, simulator, root, proposal, batch_size, n_jobs, budget, fewest):
        self.simulator, self.root, self.proposal = simulator, root, proposal
        self.batch_size, self.n_jobs, self.budget, self.fewest = batch_size, n_jobs, budget, fewest
        self.n_batches, self.simulations = 0, None

    def draw(self, n_batches):
        """Add batches; return the simulations so far."""
        sizes = self.budget.take(n_batches, self.batch_size)
        while sizes:
            at_once = 1 if self.simulations is None else max(1, self.simulations.most(self.fewest) // self.batch_size)
            self._add(sizes[:at_once])
            sizes = sizes[at_once:]
        return self.simulations

    def _add(self, sizes):
        sampler = ImportanceABC(self.proposal)
        parts = Parallel(n_jobs=self.n_jobs, prefer="threads")(
            delayed(sampler.simulate)(self.simulator, block_generator(self.root, self.n_batches + i), size)
            for i, size in enumerate(sizes)
        )
        new = Simulations(self.simulator, *(np.concatenate(part) for part in zip(*parts, strict=True)))
        self.n_batches += len(sizes)
        self.budget.n_simulations += int(np.count_nonzero(new.log_ratio > -inf))
        self.simulations = new if self.simulations is None else self.simulations + new
        most = self.simulations.most(self.fewest)
        if len(self.simulations.theta) > most:
            self.simulations = self.simulations.trimmed(most, block_generator(self.root, self.n_batches, 0))

    def draw_until(self, target, most, progress=None):
        """Add batches until as many simulations are effective at the mechanism's own noise."""
        simulations, n = self.draw(1), 1
        while n < most and not self.budget.is_spent:
            ess = simulations.effective()
            if progress is not None:
                progress(int(min(ess, target)), f"{self.budget.n_simulations} simulations")
            if ess >= target:
                break
            wanted = n * (target / ess - 1.0) if ess > 0.0 else n
            more = int(min(max(wanted, 1), n, most - n))
            simulations, n = self.draw(more), n + more
        return simulations


class Proposal:
    """The prior, and t distributions around resampled parameters, each as wide as all of these parameters.

    So it has about twice the posterior's variance (Beaumont et al. 2009).  If the scatter of s and not the noise
    decides what is compatible, the best proposal is π times the root of the likelihood, which has just this variance.
    """

    def __init__(self, simulator, simulations, width):
        log_weight = simulations.log_weight(width)
        total = logsumexp(log_weight)
        if total == -inf:
            raise ValueError(
                f"the release has density 0 given each of {len(log_weight)} simulations, under noise {width:.3g} times "
                "as wide as the mechanism's: check the model, the mechanism and the release"
            )
        theta, weights = simulations.theta, np.exp(log_weight - total)
        self.varies = np.ptp(theta, axis=0) > 0.0  # a parameter that does not has no density
        moving = theta[:, self.varies]
        mean = weights @ moving
        spread = (weights[:, None] * (moving - mean)).T @ (moving - mean)
        self.root = np.linalg.cholesky(spread + np.diag(1e-9 * np.var(moving, axis=0) + 1e-300))
        if not np.all(simulator.log_prior(theta[weights > 0.0]) > -inf):
            raise ValueError(
                f"{type(simulator.model).__name__}.log_prior(theta) must be finite where sample_prior draws, got -inf"
            )
        self.simulator, self.d = simulator, moving.shape[1]
        log_constant = gammaln(0.5 * (DF + self.d)) - gammaln(0.5 * DF) - 0.5 * self.d * log(DF * np.pi)
        self.log_constant = log_constant - np.sum(np.log(np.diag(self.root)))
        rng = np.random.Generator(np.random.PCG64(0))  # of the mixture's centres; any will do
        self.centres = theta[systematic(theta, weights, N_CENTRES, rng)]

    def sample(self, rng, size):
        """(size, n_params)"""
        theta = self.simulator.prior(rng, size)
        mixture = rng.random(size) >= SHARE_OF_PRIOR
        n = int(np.count_nonzero(mixture))
        scale = np.sqrt(DF / rng.chisquare(DF, n))[:, None]
        steps = scale * rng.standard_normal((n, self.d)) @ self.root.T
        moved = self.centres[rng.integers(len(self.centres), size=n)]
        moved[:, self.varies] += steps
        theta[mixture] = moved
        return theta

    def log_density(self, theta):
        """(size,)"""
        whiten = np.linalg.inv(self.root).T
        squares = cdist(theta[:, self.varies] @ whiten, self.centres[:, self.varies] @ whiten, "sqeuclidean")
        mean = np.mean((1.0 + squares / DF) ** (-0.5 * (DF + self.d)), axis=1)
        log_t = np.log(np.maximum(mean, 1e-300)) + self.log_constant
        log_prior = self.simulator.log_prior(theta)
        return np.logaddexp(log(1.0 - SHARE_OF_PRIOR) + log_t, log(SHARE_OF_PRIOR) + log_prior)


def narrowest(simulations, target, width):
    """The smallest width, at most ``width``, that leaves ``target`` effective simulations."""
    if effective(simulations.log_weight(1.0)) >= target:
        return 1.0
    low, high = 0.0, log(width)
    for _ in range(25):
        middle = 0.5 * (low + high)
        if effective(simulations.log_weight(exp(middle))) < target:
            low = middle
        else:
            high = middle
    return exp(high)


def systematic(theta, weights, size, rng):
    """Systematic resampling along the first principal component, so that neighbours stand for each other: indices."""
    centred = theta - weights @ theta
    spread = (weights[:, None] * centred).T @ centred
    order = np.argsort(centred @ np.linalg.eigh(spread)[1][:, -1])
    ends = np.cumsum(weights[order])
    at = np.searchsorted(ends / ends[-1], (np.arange(size) + rng.random()) / size)
    return order[np.minimum(at, len(order) - 1)]
