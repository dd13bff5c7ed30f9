"""Sequential ABC: noise narrows from wide to the mechanism's own while a proposal is learnt, and importance ends it.

A batch of simulations (θ, s) with θ from a proposal g, at first the prior, is weighted by π(θ) q_w(s_obs | s) / g(θ),
q_w the mechanism's density with its noise w times as wide, and w the smallest that leaves enough effective simulations.
The next g is a mixture around the weighted θ (Beaumont, Cornuet, Marin & Robert 2009; Sisson, Fan & Tanaka 2007).  When
w is 1, or the scatter of s and not w decides what is compatible, g is learnt once more at w = 1 and then fixed.  What is
drawn after that is importance sampling from a fixed g, with everything that is known of it: consistent for the exact
posterior, an unbiased evidence, an effective sample size, and k-hat.
"""

from math import exp, inf, log

import numpy as np
from scipy.spatial.distance import cdist
from scipy.special import gammaln, logsumexp
from sklearn.base import BaseEstimator

from ._abc_importance import ImportanceABC, weigh
from ._simulator import WeightedDraws, block_generator

MOST_WIDE = 1e15  # factors of the noise's scale that are tried
STALLED = 0.8  # a width that shrinks by less says that the scatter of s decides
N_CENTRES = 300  # of the mixture that proposes
DF = 5.0  # its components are t laws: their tails keep weights bounded
SHARE_OF_PRIOR = 0.1  # in each proposal: so that weights are bounded where the prior goes
MOST_BATCHES = 100  # of a step


class SequentialABC(BaseEstimator):
    """Learn a proposal under noise that narrows step by step, then sample from it with weights.

    Parameters
    ----------
    batch_size : int, default=1000
        Simulations of a step.
    ess_fraction : float in (0, 1), default=0.3
        Noise narrows as far as leaves that share of them effective.
    """

    needs = ("sample_prior", "log_prior")
    has_chains = False

    def __init__(self, batch_size=1000, ess_fraction=0.3):
        self.batch_size = batch_size
        self.ess_fraction = ess_fraction

    def run(self, simulator, n_draws, root, *, n_jobs, max_simulations, progress):
        """Return :class:`WeightedDraws`: simulations until ``n_draws`` are effective, and so many resampled of them."""
        budget, target = Budget(max_simulations), self.ess_fraction * self.batch_size
        proposal, width, widths = None, inf, []
        pilot = Batches(simulator, block_root(root, 0), proposal, self.batch_size, n_jobs, budget)
        try:
            while width > 1.0 and not budget.is_spent:
                simulations = pilot.draw(1)
                new = narrowest(simulations, target, width)
                if new > STALLED * width:
                    new, simulations = 1.0, pilot.draw_until(target, MOST_BATCHES)
                width = new
                widths.append(width)
                progress(0, f"noise x {width:.3g}")
                proposal = Proposal(simulator, simulations, width)
                pilot = Batches(simulator, block_root(root, len(widths)), proposal, self.batch_size, n_jobs, budget)
            last = pilot.draw_until(n_draws, inf, progress)
        except KeyboardInterrupt:
            if pilot.simulations is None:
                raise
            last = pilot.simulations
        return self._resampled(last, n_draws, root, widths, budget)

    def _resampled(self, simulations, n_draws, root, widths, budget):
        found = weigh(simulations.theta, simulations.statistics, simulations.log_weight(1.0), complete=True)
        if not found.weights.any():
            found.n_simulations = budget.n_simulations
            return found
        chosen = systematic(found.theta, found.weights, n_draws, block_generator(root, 0))
        ess = 1.0 / (1.0 / found.ess + 1.0 / n_draws)  # at least: the second term is what resampling adds at most
        return WeightedDraws(
            found.theta[chosen],
            found.statistics[chosen],
            np.full(n_draws, 1.0 / n_draws),
            ess=ess,
            log_evidence=found.log_evidence,
            log_evidence_error=found.log_evidence_error,
            acceptance_rate=float(found.ess[0] / len(found.theta)),
            n_simulations=budget.n_simulations,
            complete=bool(found.ess[0] >= n_draws),
            widths_=np.array(widths),
            **found.attributes,
        )


class Budget:
    """How many simulations there were, and whether there may be more."""

    def __init__(self, most):
        self.most, self.n_simulations = most, 0

    @property
    def is_spent(self):
        return self.n_simulations >= self.most


class Simulations:
    """Parameters, statistics and log(π(θ)/g(θ)) of simulations; -inf outside the prior's support."""

    def __init__(self, simulator, theta, statistics, log_ratio):
        self.simulator, self.theta, self.statistics, self.log_ratio = simulator, theta, statistics, log_ratio

    def log_weight(self, width):
        """Log weights under noise that many times as wide."""
        value = np.full(len(self.theta), -inf)
        inside = self.log_ratio > -inf
        value[inside] = self.log_ratio[inside] + self.simulator.log_release_widened(width)(self.statistics[inside])
        return value


class Batches:
    """Batches of simulations from one proposal, with the prior as a part of it; they add up."""

    def __init__(self, simulator, root, proposal, batch_size, n_jobs, budget):
        self.simulator, self.root, self.proposal = simulator, root, proposal
        self.batch_size, self.n_jobs, self.budget = batch_size, n_jobs, budget
        self.n_batches, self.parts, self.simulations = 0, [], None

    def draw(self, n_batches):
        """Add batches; return all simulations so far."""
        sampler = ImportanceABC(self.proposal)
        for _ in range(n_batches):
            size = min(self.batch_size, self.budget.most - self.budget.n_simulations)
            if size <= 0:
                break
            rng = block_generator(self.root, self.n_batches)
            self.parts.append(sampler.simulate(self.simulator, rng, size))
            self.n_batches += 1
            self.budget.n_simulations += int(np.count_nonzero(self.parts[-1][2] > -inf))
        arrays = (np.concatenate(part) for part in zip(*self.parts, strict=True))
        self.simulations = Simulations(self.simulator, *arrays)
        return self.simulations

    def draw_until(self, target, most, progress=None):
        """Add batches until as many simulations are effective at the mechanism's own noise."""
        simulations, n = self.draw(1), 1
        while n < most and not self.budget.is_spent:
            ess = effective(simulations.log_weight(1.0))
            if progress is not None:
                progress(int(min(ess, target)), f"{self.budget.n_simulations} simulations")
            if ess >= target:
                break
            wanted = n * (target / ess - 1.0) if ess > 0.0 else n
            more = int(min(max(wanted, 1), n, most - n))
            simulations, n = self.draw(more), n + more
        return simulations


class Proposal:
    """The prior, and t laws around resampled parameters, as wide as a kernel density estimate would have them."""

    def __init__(self, simulator, simulations, width):
        log_weight = simulations.log_weight(width)
        total = logsumexp(log_weight)
        if total == -inf:
            raise ValueError(
                f"the release has density 0 given each of {len(log_weight)} simulations, under noise {width:.3g} times "
                "as wide as the mechanism's: check the model, the mechanism and the release"
            )
        theta, weights = simulations.theta, np.exp(log_weight - total)
        n, d = 1.0 / np.sum(weights**2), theta.shape[1]
        mean = weights @ theta
        spread = (weights[:, None] * (theta - mean)).T @ (theta - mean) + 1e-12 * np.diag(np.var(theta, axis=0))
        bandwidth = (4.0 / ((d + 2.0) * n)) ** (1.0 / (d + 4.0))  # Silverman's rule
        self.root = bandwidth * np.linalg.cholesky(spread + 1e-300 * np.eye(d))
        self.simulator, self.d = simulator, d
        rng = np.random.Generator(np.random.PCG64(0))  # of the mixture's centres; any will do
        self.centres = theta[systematic(theta, weights, N_CENTRES, rng)]

    def sample(self, rng, size):
        """(size, n_params)"""
        theta = self.simulator.prior(rng, size)
        mixture = rng.random(size) >= SHARE_OF_PRIOR
        n = int(np.count_nonzero(mixture))
        scale = np.sqrt(DF / rng.chisquare(DF, n))[:, None]
        steps = scale * rng.standard_normal((n, self.d)) @ self.root.T
        theta[mixture] = self.centres[rng.integers(len(self.centres), size=n)] + steps
        return theta

    def log_density(self, theta):
        """(size,)"""
        whiten = np.linalg.inv(self.root).T
        squares = cdist(theta @ whiten, self.centres @ whiten, "sqeuclidean")
        log_t = np.log(np.mean((1.0 + squares / DF) ** (-0.5 * (DF + self.d)), axis=1)) + self._log_constant()
        log_prior = self.simulator.log_prior(theta)
        return np.logaddexp(log(1.0 - SHARE_OF_PRIOR) + log_t, log(SHARE_OF_PRIOR) + log_prior)

    def _log_constant(self):
        value = gammaln(0.5 * (DF + self.d)) - gammaln(0.5 * DF) - 0.5 * self.d * log(DF * np.pi)
        return value - np.sum(np.log(np.diag(self.root)))


def narrowest(simulations, target, width):
    """The smallest width, at most ``width``, that leaves ``target`` effective simulations."""
    if effective(simulations.log_weight(1.0)) >= target:
        return 1.0
    low, high = 0.0, min(log(width), log(MOST_WIDE))
    if width == inf:
        high = 1.0
        while effective(simulations.log_weight(exp(high))) < target and high < log(MOST_WIDE):
            low, high = high, 2.0 * high
    for _ in range(25):
        middle = 0.5 * (low + high)
        if effective(simulations.log_weight(exp(middle))) < target:
            low = middle
        else:
            high = middle
    return exp(high)


def effective(log_weight):
    """Kish's effective sample size."""
    top = np.max(log_weight)
    if not top > -inf:
        return 0.0
    weight = np.exp(log_weight - top)
    return float(weight.sum() ** 2 / np.sum(weight**2))


def systematic(theta, weights, size, rng):
    """Systematic resampling along the first principal component, so that neighbours stand for each other: indices."""
    centred = theta - weights @ theta
    spread = (weights[:, None] * centred).T @ centred
    order = np.argsort(centred @ np.linalg.eigh(spread)[1][:, -1])
    ends = np.cumsum(weights[order])
    at = np.searchsorted(ends / ends[-1], (np.arange(size) + rng.random()) / size)
    return order[np.minimum(at, len(order) - 1)]


def block_root(root, *key):
    """The seed sequence of a step: it depends on its place only."""
    return np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, 1, *key))
