"""Private samplers against exact posteriors: detailed balance by enumeration, noisy chains against closed forms."""

from math import log

import numpy as np
import pytest
from dp_chains import NORMAL, NORMAL_X, moments, normal_moments, plain, run, simulated
from scipy.special import ndtr
from statistical import Disagreement, assert_mean_close, assert_pmf_close

from sklearn_dpmix.estimators.private._noise_source import ExactReleases, SimulatedNoise
from sklearn_dpmix.models import GaussianMean
from sklearn_dpmix.samplers.private._barker_acceptance import Barker
from sklearn_dpmix.samplers.private._barker_correction import barker_correction
from sklearn_dpmix.samplers.private._hamiltonian import NoisyHamiltonian
from sklearn_dpmix.samplers.private._newton import private_steps
from sklearn_dpmix.samplers.private._penalty import Penalty
from sklearn_dpmix.samplers.private._target import Target
from sklearn_dpmix.samplers.private._walk_moves import MOVES, FullMove

# ---------------------------------------------------------------- the penalty test on a small state space


class Steps(FullMove):
    """To a neighbour on the integers."""

    def propose(self, psi, memory, source):
        return psi + (1.0 if source.random(1)[0] < 0.5 else -1.0), 0


class FiveStates(GaussianMean):
    """θ is one of 0, ..., 4, with weights of its own."""

    log_weights = np.log([0.3, 0.05, 0.3, 0.15, 0.2])

    def log_prior(self, theta):
        k = np.round(theta[:, 0]).astype(int)
        return np.where((k >= 0) & (k < 5), self.log_weights[np.clip(k, 0, 4)], -np.inf)


MODEL = FiveStates(sigma=4.0, data_norm=1.5)
RECORDS = np.random.default_rng(0).normal(2.0, 1.0, (12, 1))


def five_states(multiplier, sampler=Penalty, **parameters):
    target = Target(MODEL, RECORDS)
    return sampler(target, plain(MODEL), Steps(1.0), noise_multiplier=multiplier, **parameters)


def posterior_of_five():
    X = MODEL.clip_records(RECORDS)
    log_pi = MODEL.log_weights + [MODEL.log_density(X, np.array([float(k)])).sum() for k in range(5)]
    return np.exp(log_pi - np.logaddexp.reduce(log_pi))


def accept(ratio, s):
    """E min(1, exp(λ + N(0, s²) - s²/2))."""
    return ndtr(ratio / s - 0.5 * s) + np.exp(ratio) * ndtr(-ratio / s - 0.5 * s)


def test_penalty_keeps_its_target_by_enumeration():
    """π P = π for the transition matrix with the noise integrated out, and the code accepts as often as it says."""
    pi, sampler = posterior_of_five(), five_states(4.0)
    s = 4.0 * MODEL.log_ratio_range(np.zeros(1), np.ones(1))
    assert 0.5 < s < 4.0
    P = np.zeros((5, 5))
    for a in range(5):
        for b in (a - 1, a + 1):
            if 0 <= b < 5:
                P[a, b] = 0.5 * accept(log(pi[b] / pi[a]), s)
        P[a, a] = 1.0 - P[a].sum()
    np.testing.assert_allclose(pi @ P, pi, rtol=1e-12)
    source, n = simulated(1), 20_000
    for a, b in ((0, 1), (1, 2), (3, 2)):
        state = sampler.init(np.array([float(a)]))
        log_prior = MODEL.log_weights[b] - MODEL.log_weights[a]
        found = np.mean([sampler.test(state, np.array([float(b)]), log_prior, source)[0] for _ in range(n)])
        expected = accept(log(pi[b] / pi[a]), s)
        assert abs(found - expected) < 5.0 * np.sqrt(expected * (1.0 - expected) / n), (a, b, found, expected)


class NoCorrection(Penalty):
    """Takes the noisy ratio for the ratio."""

    def test(self, state, theta, log_public, source):
        s = self.noise_multiplier * self.sensitivity_of(
            self.target, self.target.ratio_bound(state.theta, theta)[1], self.batch_size
        )
        return super().test(state, theta, log_public + 0.5 * s * s, source)


class NotTheLogarithm(Penalty):
    """Compares u with the log ratio (the thesis' Algorithm 3 as printed)."""

    def test(self, state, theta, log_public, source):
        class Exponentials:
            release = staticmethod(source.release)

            @staticmethod
            def random(size):
                return np.exp(source.random(size))

        return super().test(state, theta, log_public, Exponentials)


@pytest.mark.parametrize("sampler, is_right", [(Penalty, True), (NoCorrection, False), (NotTheLogarithm, False)])
def test_penalty_chain_on_five_states(sampler, is_right):
    """The chain itself, and two that forget what makes it exact."""
    n = 60_000 if is_right else 15_000
    draws = run(five_states(4.0, sampler), np.array([2.0]), simulated(2), n)[:, :, 0].round().astype(int)
    if is_right:
        assert_pmf_close(draws, posterior_of_five(), what="state")
    else:
        with pytest.raises(Disagreement):
            assert_pmf_close(draws, posterior_of_five(), what="state", min_ess=10)


# ---------------------------------------------------------------- what one record can change


def test_no_record_of_a_batch_changes_what_is_released_by_more_than_the_sensitivity():
    """λ - σ²/2 of two batches that differ in one record: the bound is attained, so anything less is exceeded."""
    rng = np.random.default_rng(3)
    n, b, T = 12, 6, 0.3

    class Identity:
        """Log ratios are the records."""

        n_params = 1

        def log_prior(self, theta):
            return np.zeros(len(theta))

        def log_density(self, X, theta):
            return X[:, 0] * theta[0]

    largest = 0.0
    for trial in range(1000):
        r = rng.choice([-1.0, 1.0], (n, 1)) if trial % 2 else rng.uniform(-1.0, 1.0, (n, 1))
        other, seen = r.copy(), []
        r[0], other[0] = 1.0, -1.0
        for X in (r, other):
            target = Target(Identity(), X, clip_bound=1.0, temperature=T)
            walk = Penalty(target, plain(Identity()), FullMove(1.0), b, 1.0)
            source = Watching(trial, seen)
            walk.test(walk.init(np.zeros(1)), np.ones(1), 0.0, source)
        (one, sensitivity), (two, _) = seen
        assert abs(one - two) <= sensitivity
        largest = max(largest, abs(one - two) / sensitivity)
    assert largest > 0.999


class Watching(SimulatedNoise):
    """Notes what is to be released and its sensitivity; equal seeds draw equal batches, which hold record 0."""

    def __init__(self, seed, seen):
        super().__init__(np.random.default_rng(seed))
        self.seen = seen

    def random(self, size):
        drawn = super().random(size)
        drawn[0] = 1e-9
        return drawn

    def release(self, values, sensitivity, multiplier):
        self.seen.append((float(values[0]) if len(values) == 1 else values, sensitivity))
        return super().release(values, sensitivity, multiplier)


@pytest.mark.parametrize("T", [1.0, 0.3])
def test_no_record_changes_a_ratio_or_a_gradient_by_more_than_its_sensitivity(T):
    """What the samplers ask noise for, on neighbours at the edge of the norm: nearly attained, never exceeded."""
    rng, largest = np.random.default_rng(18), {1: 0.0, 2: 0.0}
    for trial in range(60):
        X = rng.normal(size=(5, 2))
        other, direction = X.copy(), rng.normal(size=2)
        X[2], other[2] = 100.0 * direction, -100.0 * direction
        runs = []
        for data in (X, other):
            seen = []
            target = Target(NORMAL, data, temperature=T)
            sampler = NoisyHamiltonian(target, plain(NORMAL), 0.1, 1, np.ones(2), 1.0, 1.0)
            sampler.init(np.zeros(2), Watching(trial, seen))
            walk = Penalty(target, plain(NORMAL), FullMove(1.0), noise_multiplier=1.0)
            walk.test(walk.init(np.zeros(2)), 0.5 * direction, 0.0, Watching(trial, seen))
            list(private_steps(target, np.zeros(2), 1, 1.0, Watching(trial, seen)))
            runs.append(seen)
        for (one, sensitivity), (two, _) in zip(*runs, strict=True):
            apart = float(np.linalg.norm(np.subtract(one, two))) / sensitivity
            assert apart <= 1.0
            largest[np.size(one)] = max(largest[np.size(one)], apart)
    assert min(largest.values()) > 0.999


# ---------------------------------------------------------------- chains of noisy ratios against closed forms


@pytest.mark.parametrize("move", MOVES)
@pytest.mark.parametrize("multiplier", [0.0, 0.8])
def test_penalty_has_the_posterior(move, multiplier):
    """Every move, with and without noise: without, it is Metropolis."""
    scale = 0.25 if move == "full" else 0.35
    sampler = Penalty(Target(NORMAL, NORMAL_X), plain(NORMAL), MOVES[move](scale), noise_multiplier=multiplier)
    source = simulated(5) if multiplier else ExactReleases(np.random.default_rng(5))
    draws = run(sampler, np.array([0.5, -0.3]), source, 40_000)
    assert_mean_close(moments(draws), normal_moments(), what=move)


class TurnsTooRarely(MOVES["guided"]):
    """Turns round after every fourth rejection."""

    n_rejected = 0

    def after(self, memory, moved, accepted):
        self.n_rejected += not accepted
        return super().after(memory, moved, accepted or self.n_rejected % 4 > 0)


def test_a_guided_walk_that_turns_too_rarely_is_rejected():
    sampler = Penalty(Target(NORMAL, NORMAL_X), plain(NORMAL), TurnsTooRarely(0.25))
    draws = run(sampler, np.array([0.5, -0.3]), ExactReleases(np.random.default_rng(6)), 25_000)
    with pytest.raises(Disagreement):
        assert_mean_close(moments(draws), normal_moments(), min_ess=50)


class NoError(Penalty):
    """Takes the ratio of a batch for that of all records."""

    def test(self, state, theta, log_public, source):
        full, size = self.target.ratios, self.batch_size
        target = self.target
        rows = target.batch(source, size, state.order)
        ratios = full(state.theta, theta, np.inf, rows)
        factor = target.n_records * target.temperature / size
        return log(source.random(1)[0]) < factor * ratios.total + log_public, 0.0


@pytest.mark.parametrize("sampler, is_right", [(Penalty, True), (NoError, False)])
def test_penalty_on_batches_is_nearly_right(sampler, is_right):
    """On tempered data against the closed form; without the correction for the batch's error it is too wide."""
    model = GaussianMean(sigma=1.0, prior_sigma=1.0, data_norm=3.0)
    X, T = np.random.default_rng(7).normal(0.4, 1.0, (2000, 1)), 0.02
    target = Target(model, X, temperature=T)
    walk = sampler(target, plain(model), FullMove(0.3), batch_size=40, noise_multiplier=0.1)
    draws = run(walk, np.array([0.4]), simulated(8), 30_000)
    precision = T * len(X) + 1.0
    mean = T * model.clip_records(X).sum() / precision
    if is_right:
        assert_mean_close(moments(draws), [mean, mean**2 + 1.0 / precision])
    else:
        with pytest.raises(Disagreement):
            assert_mean_close(moments(draws), [mean, mean**2 + 1.0 / precision])


# ---------------------------------------------------------------- Hamiltonian


class Louder(SimulatedNoise):
    """Three times the noise that the sampler allows for."""

    def release(self, value, sensitivity, multiplier):
        return super().release(value, sensitivity, 3.0 * multiplier)


@pytest.mark.parametrize("reuse", [True, False])
@pytest.mark.parametrize("multipliers", [(0.0, 0.0), (0.6, 0.5)])
def test_hamiltonian_has_the_posterior(reuse, multipliers):
    """With reused and with fresh gradients, with noise in them and without, clipped a lot."""
    target = Target(NORMAL, NORMAL_X, gradient_clip_bound=0.8)
    sampler = NoisyHamiltonian(target, plain(NORMAL), 0.07, 4, np.array([1.0, 1.5]), *multipliers, reuse=reuse)
    source = simulated(9) if multipliers[0] else ExactReleases(np.random.default_rng(9))
    draws = run(sampler, np.array([0.5, -0.3]), source, 16_000)
    assert_mean_close(moments(draws), normal_moments())


def test_hamiltonian_with_more_noise_than_is_allowed_for_is_rejected():
    sampler = NoisyHamiltonian(Target(NORMAL, NORMAL_X), plain(NORMAL), 0.15, 2, np.ones(2), 1.0, 0.5)
    draws = run(sampler, np.array([0.5, -0.3]), Louder(np.random.default_rng(10)), 12_000)
    with pytest.raises(Disagreement):
        assert_mean_close(moments(draws), normal_moments(), min_ess=50)


# ---------------------------------------------------------------- Barker


def barker_draws(correction, batch_size, T=0.005, n=60_000):
    model = GaussianMean(sigma=1.0, prior_sigma=1.0)
    X = np.random.default_rng(15).normal(0.4, 1.0, (2000, 1))
    target = Target(model, X, temperature=T)
    walk = Barker(target, plain(model), FullMove(0.7), batch_size, correction)
    precision = T * len(X) + 1.0
    draws = run(walk, np.array([0.4]), simulated(16), n) - T * X.sum() / precision
    return moments(draws), [0.0, 1.0 / precision]


@pytest.mark.parametrize("batch_size", [None, 400])
def test_barker_has_the_posterior(batch_size):
    """All records: the exact test; a batch with clipping that hardly bites: nearly."""
    assert_mean_close(*barker_draws(barker_correction(2.0), batch_size))


def test_barker_without_the_correction_is_rejected():
    """The noise alone decides, as if N(0, 2) were logistic: colder than the posterior."""

    class Nothing:
        variance = 2.0

        @staticmethod
        def draw(source, size):
            return np.zeros(size)

    with pytest.raises(Disagreement):
        assert_mean_close(*barker_draws(Nothing, 400))


def test_barker_rejects_unseen_what_the_accounting_does_not_cover():
    """A proposal whose ratios could range over more than 2√b/(nT) is not looked at."""
    model = GaussianMean(data_norm=3.0)
    target = Target(model, np.zeros((100, 1)), temperature=0.1)
    walk = Barker(target, plain(model), FullMove(1.0), 25, barker_correction(2.0))
    assert Barker.widest(target, 25) == 1.0  # and log ratios range over 6 ‖θ' - θ‖
    target.ratios = None  # whoever asks for it fails
    assert walk.test(walk.init(np.zeros(1)), np.array([0.2]), 0.0, simulated(17)) == (False, 0.0)
    with pytest.raises(TypeError):
        walk.test(walk.init(np.zeros(1)), np.array([0.16]), 0.0, simulated(17))
