"""Sequential ABC keeps a bounded number of simulations, and what it says of them is what all of them say."""

import tracemalloc

import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from statistical import Disagreement

from sklearn_dpmix import PrivateABC
from sklearn_dpmix.mechanisms import GaussianMechanism
from sklearn_dpmix.samplers.simulation import _abc_sequential
from sklearn_dpmix.samplers.simulation._abc_importance import weigh
from sklearn_dpmix.samplers.simulation._abc_sequential import Batches, SimulationLimit, Simulations
from sklearn_dpmix.samplers.simulation._simulator import Simulator

Z = stats.norm.isf(0.5e-6)
S = [1.0, -0.5]


class TwoMeans:
    """Two means, known to 0.3 each, N(0, 1) before."""

    def sample_prior(self, rng, size):
        return rng.standard_normal((size, 2))

    def log_prior(self, theta):
        return stats.norm.logpdf(theta).sum(axis=1)

    def sample_statistic(self, rng, theta):
        return rng.normal(theta, 0.3)


def simulator():
    return Simulator(TwoMeans(), GaussianMechanism(scale=0.1), np.array([S]))


def batches(fewest=0, batch_size=500):
    return Batches(simulator(), np.random.SeedSequence(3), None, batch_size, None, SimulationLimit(10**9), fewest)


def sums(simulations):
    """Log evidence and, of each parameter, the weighted mean and the effective size."""
    log_weight = simulations.log_weight(1.0)
    draws = weigh(simulations.theta, simulations.statistics, log_weight, simulations.n)
    return draws.log_evidence, draws.weights @ draws.theta, draws.ess


def test_what_is_thinned_out_is_counted(monkeypatch):
    """Same simulations, with and without bounds on memory: the evidence is the same, sizes are nearly the same."""
    whole = batches().draw(80)
    monkeypatch.setattr(_abc_sequential, "MOST_NUMBERS", 5 * 600)
    kept = batches().draw(80)
    assert len(whole.theta) == whole.n == kept.n == 40_000 and len(kept.theta) == 600
    assert kept.total_ratio == pytest.approx(whole.total_ratio, rel=1e-12)
    (log_evidence, mean, ess), (same, near, fewer) = sums(whole), sums(kept)
    assert same == pytest.approx(log_evidence, abs=1e-11)
    assert np.all(fewer < ess * 1.001) and np.all(fewer > 0.9 * ess)
    variance = 1.0 / (1.0 + 1.0 / 0.1)
    # the thinned mean is off by what thinning adds to the variance of the whole one
    assert np.all(np.abs(near - mean) < Z * np.sqrt(variance * (1.0 / fewer - 1.0 / ess)))


class Equal(Simulations):
    """What is left out has gone: those below the level that stay keep their own weight."""

    def trimmed(self, most, rng):
        found = super().trimmed(most, rng)
        own = dict(zip(self.theta[:, 0].tolist(), self.log_ratio.tolist(), strict=True))
        found.log_ratio = np.array([own[value] for value in found.theta[:, 0].tolist()])
        return found


class Largest(Simulations):
    """The largest weights stay, and count for all."""

    def trimmed(self, most, rng):
        log_weight = self.log_weight(1.0)
        order = np.argsort(-log_weight)[:most]
        log_ratio = self.log_ratio[order] + logsumexp(log_weight) - logsumexp(log_weight[order])
        return Simulations(
            self.simulator, self.theta[order], self.statistics[order], log_ratio, self.n, self.total_ratio
        )


def check_thinning(kind):
    """Weighted sums of functions of θ, over a hundred thinnings of the same simulations."""
    found = batches().draw(8)
    given = kind(found.simulator, found.theta, found.statistics, found.log_ratio)
    top = given.log_weight(1.0).max()

    def weighted(simulations):
        weight, theta = np.exp(simulations.log_weight(1.0) - top), simulations.theta
        columns = np.ones(len(theta)), theta[:, 0], theta[:, 1] ** 2, theta[:, 0] > 1.5, np.abs(theta[:, 1]) < 0.1
        return np.array([weight @ column for column in columns])

    rng = np.random.default_rng(0)
    trials = np.array([weighted(given.trimmed(150, rng)) for _ in range(100)])
    expected, error = weighted(given), trials.std(axis=0, ddof=1) / 100**0.5
    if np.any(np.abs(trials.mean(axis=0) - expected) > Z * error + 1e-9 * np.abs(expected)):
        raise Disagreement(f"{trials.mean(axis=0)}, expected {expected} ± {error}")


def test_thinning_is_unbiased():
    """Catches a level in place of which weights stay, and the largest weights kept for all; the sum is exact."""
    check_thinning(Simulations)
    for twin in (Equal, Largest):
        with pytest.raises(Disagreement):
            check_thinning(twin)


def peak(n_batches):
    drawn = batches()
    drawn.draw(1)
    tracemalloc.start()
    try:
        drawn.draw(n_batches)
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_memory_does_not_grow(monkeypatch):
    without = peak(20), peak(160)
    monkeypatch.setattr(_abc_sequential, "MOST_NUMBERS", 5 * 4000)
    within = peak(20), peak(160)
    assert without[1] > 5 * without[0] and within[1] < 1.5 * within[0] and within[1] < 0.2 * without[1]


def test_thinned_sequences_are_exact(monkeypatch):
    """Six runs with room for few simulations: posterior in closed form, and the sizes that they state."""
    monkeypatch.setattr(_abc_sequential, "MOST_NUMBERS", 5 * 1200)
    runs = [
        PrivateABC(GaussianMechanism(scale=0.06), model=TwoMeans(), method="smc", n_draws=300, random_state=seed).fit(S)
        for seed in range(6)
    ]
    assert min(run.n_simulations_ for run in runs) > 4 * 1200
    noise = 0.09 + 0.0036
    variance = 1.0 / (1.0 + 1.0 / noise)
    draws, ess = np.concatenate([run.theta_draws_ for run in runs]), sum(min(run.ess_.values()) for run in runs)
    assert np.all(np.abs(draws.mean(axis=0) - variance * np.array(S) / noise) < Z * (variance / ess) ** 0.5)
    assert np.all(np.abs(draws.var(axis=0) / variance - 1.0) < Z * (2.0 / ess) ** 0.5)
    log_evidence = stats.norm.logpdf(S, 0.0, (1.0 + noise) ** 0.5).sum()
    evidence = np.exp([run.log_evidence_ - log_evidence for run in runs])
    error = np.mean([run.log_evidence_error_ for run in runs]) / 6**0.5
    assert abs(evidence.mean() - 1.0) < Z * error
