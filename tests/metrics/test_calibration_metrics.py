"""Ranks and coverage: against naive twins, exact laws, and posteriors that are known to be wrong."""

import math
import re

import numpy as np
import pytest
from scipy import stats
from statistical import assert_frequency

from sklearn_dpmix.metrics import coverage, posterior_ranks, rank_uniformity

ALPHA = 1e-6
N_SIMULATIONS = 1000
N_DRAWS = 99


# ---- ranks


def naive_ranks(draws, truth):
    return [sum(bool(draw < value) for draw in row) for row, value in zip(draws, truth)]


def test_rank_is_the_number_of_draws_below():
    """Catches ranks of the wrong axis, counted from above or from 1."""
    rng = np.random.default_rng(0)
    draws, truth = rng.normal(size=(300, 7, 3)), rng.normal(size=(300, 3))
    ranks = posterior_ranks(draws, truth)
    assert ranks.shape == (300, 3) and ranks.dtype.kind == "i" and ranks.min() == 0 and ranks.max() == 7
    for j in range(3):
        np.testing.assert_array_equal(ranks[:, j], naive_ranks(draws[:, :, j], truth[:, j]))
        np.testing.assert_array_equal(posterior_ranks(draws[:, :, j].tolist(), truth[:, j].tolist()), ranks[:, j])
    np.testing.assert_array_equal(posterior_ranks(draws[:, ::-1], truth), ranks)
    np.testing.assert_array_equal(posterior_ranks(np.exp(draws), np.exp(truth)), ranks)
    np.testing.assert_array_equal(posterior_ranks(-draws, -truth), 7 - ranks)
    assert posterior_ranks([[-np.inf, 0.0, np.inf]], [0.5])[0] == 2


def test_ties_are_broken_evenly():
    """Catches ties that all count as below, or as above, or that miss one of their ranks."""
    n = 20000
    draws, truth = np.tile([1.0, 3.0, 3.0, 3.0, 4.0], (n, 1)), np.full(n, 3.0)
    counts = np.bincount(posterior_ranks(draws, truth, random_state=1), minlength=6)
    assert counts[0] == counts[5] == 0
    for count in counts[1:5]:
        assert_frequency(count, n, 0.25)
    np.testing.assert_array_equal(
        posterior_ranks(draws, truth, random_state=1), posterior_ranks(draws, truth, random_state=1)
    )


def test_ranks_of_a_discrete_quantity_are_uniform():
    """Catches tie-breaking that does not make exchangeable values uniform; without it the check must fail."""
    rng = np.random.default_rng(2)
    values = rng.poisson(2.0, size=(N_SIMULATIONS, 20, 2))
    ranks = posterior_ranks(values[:, 1:], values[:, 0], random_state=rng)
    for column in ranks.T:
        found = rank_uniformity(column, 19)
        assert min(found.pvalue, found.ks_pvalue) >= ALPHA
    below = np.count_nonzero(values[:, 1:, 0] < values[:, :1, 0], axis=1)
    assert rank_uniformity(below, 19).pvalue < ALPHA


# ---- a conjugate model, and posteriors that are wrong

SD = math.sqrt(2.0)  # of the posterior
WRONG = {
    "biased": lambda draws, mean: draws + 0.5 * SD,
    "too narrow": lambda draws, mean: mean + 0.7 * (draws - mean),
    "too wide": lambda draws, mean: mean + 1.5 * (draws - mean),
    # the release z = 2 mean as if it were the record: N(4z/5, 4/5)
    "ignores the noise": lambda draws, mean: 1.6 * mean + math.sqrt(0.4) * (draws - mean),
}


def simulate(seed):
    """θ ~ N(0, 4), record N(θ, 1), release z with noise N(0, 3): (draws of N(z/2, 2), θ, z/2 as a column)."""
    rng = np.random.default_rng(seed)
    truth = 2.0 * rng.normal(size=N_SIMULATIONS)
    record = truth + rng.normal(size=N_SIMULATIONS)
    mean = 0.5 * (record + math.sqrt(3.0) * rng.normal(size=N_SIMULATIONS))[:, None]
    return mean + SD * rng.normal(size=(N_SIMULATIONS, N_DRAWS)), truth, mean


def test_right_posterior_is_calibrated():
    """Catches ranks or intervals that are off by more than chance where nothing is wrong."""
    draws, truth, _ = simulate(8)
    found = rank_uniformity(posterior_ranks(draws, truth), N_DRAWS, level=1 - ALPHA)
    assert found.inside and found.ks_pvalue >= ALPHA
    covered = coverage(draws, truth, confidence=1 - ALPHA)
    np.testing.assert_array_equal(covered.levels, [0.5, 0.8, 0.9, 0.95])
    assert np.all((covered.lower <= covered.levels) & (covered.levels <= covered.upper))


@pytest.mark.parametrize("name", WRONG)
def test_wrong_posterior_is_rejected(name):
    """The broken twins: catches checks that accept everything, or see the mean alone."""
    draws, truth, mean = simulate(9)
    wrong = WRONG[name](draws, mean)
    found = rank_uniformity(posterior_ranks(wrong, truth), N_DRAWS, level=1 - ALPHA)
    assert not found.inside and found.pvalue < ALPHA
    covered = coverage(wrong, truth, levels=0.8, confidence=1 - ALPHA)
    middle = len(found.points) // 2
    if name == "biased":  # too large: the truth is below most draws; coverage is a blunt instrument for this one
        assert found.ecdf[middle] > found.upper[middle] and found.ks_pvalue < ALPHA
    elif name == "too wide":
        assert covered.lower[0] > 0.8
    else:
        assert covered.upper[0] < 0.8


# ---- coverage


def test_coverage_is_between_order_statistics():
    """Catches the wrong axis, one tail of 1 - level, open ends, ends off by rounding, and columns that are mixed."""
    rng = np.random.default_rng(10)
    draws, truth = rng.normal(size=(200, 39, 2)).round(1), rng.normal(size=(200, 2)).round(1)
    found = coverage(draws, truth, levels=[0.9, 0.5, 0.95], confidence=0.99)
    assert found.coverage.shape == found.lower.shape == found.upper.shape == (3, 2)
    for i, k in enumerate((2, 10, 1)):  # 40 · 0.05, 40 · 0.25, 40 · 0.025
        for j in range(2):
            hits = 0
            for row, value in zip(draws[:, :, j].tolist(), truth[:, j].tolist()):
                row.sort()
                hits += row[k - 1] <= value <= row[39 - k]
            assert found.coverage[i, j] == hits / 200
            one = coverage(draws[:, :, j], truth[:, j], levels=found.levels[i], confidence=0.99)
            assert one.coverage == found.coverage[i, j] and one.lower == found.lower[i, j]
            # Clopper–Pearson, as quantiles of beta distributions
            assert found.lower[i, j] == pytest.approx(stats.beta.ppf(0.005, hits, 201 - hits), rel=1e-9)
            assert found.upper[i, j] == pytest.approx(stats.beta.ppf(0.995, hits + 1, 200 - hits), rel=1e-9)
    np.testing.assert_allclose(found.standard_error, np.sqrt(np.array([0.09, 0.25, 0.0475]) / 200), rtol=1e-12)
    assert found.confidence == 0.99


def test_coverage_does_not_depend_on_the_number_of_draws():
    """Catches quantiles that shrink with few draws: NumPy's default, the broken twin, covers 3 in 10, not 5."""
    n = 20000
    values = np.random.default_rng(11).normal(size=(n, 4))
    draws, truth = values[:, 1:], values[:, 0]
    found = coverage(draws, truth, levels=0.5)
    assert_frequency(round(found.coverage[0] * n), n, 0.5)
    low, high = np.quantile(draws, [0.25, 0.75], axis=1)
    with pytest.raises(AssertionError, match="expected a fraction"):
        assert_frequency(np.count_nonzero((low <= truth) & (truth <= high)), n, 0.5)


def test_interval_of_no_hits_and_of_all():
    """Closed form: 1 - (α/2)^(1/n).  Catches the normal approximation, of width 0 there."""
    draws = np.tile(np.arange(3.0), (10, 1))
    none, every = coverage(draws, np.full(10, 5.0), 0.5), coverage(draws, np.full(10, 2.0), 0.5)
    assert none.coverage == none.lower == 0.0 and every.coverage == every.upper == 1.0
    assert none.upper[0] == pytest.approx(1 - 0.025**0.1, rel=1e-9)
    assert every.lower[0] == pytest.approx(0.025**0.1, rel=1e-9)


# ---- bad input

TWO = np.zeros((2, 39))


@pytest.mark.parametrize(
    "draws, truth, message",
    [
        (np.zeros(5), np.zeros(5), r"draws must have shape \(n_simulations, n_draws\).*\(5,\)"),
        (np.zeros((2, 3, 4, 5)), np.zeros(2), r"draws must have shape"),
        (np.zeros((2, 0)), np.zeros(2), r"draws must have shape.*\(2, 0\)"),
        (TWO, np.zeros(3), r"truth must have shape \(2,\).*\(3,\)"),
        (TWO, np.zeros((2, 1)), r"truth must have shape \(2,\).*\(2, 1\)"),
        (np.zeros((2, 39, 1)), np.zeros(2), r"truth must have shape \(2, 1\)"),
        (TWO, [0.0, np.nan], r"truth must not be NaN, got 1 "),
        (np.full((2, 39), np.nan), np.zeros(2), r"draws must not be NaN, got 78"),
        ([[1.0, 2.0], [1.0]], np.zeros(2), r"draws must be an array of numbers"),
        (TWO, ["a", "b"], r"truth must be an array of numbers"),
    ],
)
def test_bad_draws_are_named(draws, truth, message):
    """Catches silent broadcasting, and NaN that counts as above each draw."""
    for function in (posterior_ranks, coverage):
        with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
            function(draws, truth)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: coverage(TWO, np.zeros(2), [0.5, 95]), r"levels must be probabilities.*95"),
        (lambda: coverage(TWO, np.zeros(2), 0), r"levels must be probabilities.*levels=0"),
        (lambda: coverage(TWO, np.zeros(2), []), r"levels must be probabilities"),
        (lambda: coverage(TWO, np.zeros(2), [[0.5]]), r"levels must be probabilities"),
        (lambda: coverage(TWO, np.zeros(2), confidence=1), r"confidence must be a probability.*confidence=1"),
        (lambda: coverage(TWO[:, :38], np.zeros(2)), r"levels=0.95 needs at least 39 draws.*\(2, 38\)"),
        (lambda: coverage(TWO, np.zeros(2), 0.99), r"levels=0.99 needs at least 199 draws"),
        (lambda: coverage(TWO, [np.inf, 0]), r"truth must be finite, got inf"),
        (lambda: posterior_ranks(TWO, np.zeros(2), random_state=-1), r"random_state must be"),
    ],
)
def test_bad_parameters_are_named(call, message):
    """Catches a percentage for a probability, and intervals beyond the draws."""
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        call()


def test_enough_draws_are_enough():
    """Catches a refusal by rounding of 0.5 (1 - level) (n_draws + 1) = 1."""
    for level, n_draws in ((0.5, 3), (0.8, 9), (0.9, 19), (0.95, 39), (0.99, 199), (0.999, 1999)):
        assert coverage(np.zeros((1, n_draws)), [0.0], level).coverage == 1.0
        with pytest.raises(ValueError, match=f"at least {n_draws} draws"):
            coverage(np.zeros((1, n_draws - 1)), [0.0], level)
