"""The statistical checks themselves: they hold where they should, and no other way."""

import numpy as np
import pytest
from scipy.signal import lfilter
from statistical import (
    Disagreement,
    TooFewDraws,
    assert_mean_close,
    assert_means_agree,
    assert_pmf_close,
    assert_ranks_uniform,
    effective_sample_size,
)


def ar1(rng, rho, shape=(4, 20_000)):
    """Stationary draws of mean 0 and variance 1; (1 - ρ)/(1 + ρ) of them are effective."""
    noise = rng.normal(size=shape) * np.sqrt(1 - rho**2)
    noise[:, 0] /= np.sqrt(1 - rho**2)
    return lfilter([1.0], [1.0, -rho], noise, axis=1)


@pytest.mark.parametrize("rho", [-0.5, 0.0, 0.8])
def test_tolerance_is_that_of_the_effective_sample_size(rho):
    """Catches a tolerance from the number of draws, or one so wide that it accepts anything."""
    rng = np.random.default_rng(1)
    errors = []
    for _ in range(20):
        draws = ar1(rng, rho)
        ess = effective_sample_size(draws)
        expected = min(draws.size * (1 - rho) / (1 + rho), draws.size)
        assert 0.75 * expected < ess <= 1.25 * expected
        assert_mean_close(draws, 0.0)
        error = draws.std() / np.sqrt(ess)
        with pytest.raises(Disagreement):
            assert_mean_close(draws, draws.mean() + 5.0 * error)
        assert_mean_close(draws, draws.mean() + 4.8 * error)
        errors.append(draws.mean() / error)
    assert np.std(errors) < 1.6


def test_draws_that_say_nothing_do_not_pass():
    """Catches a check that is satisfied by a stuck chain, by chains that disagree, or by NaN."""
    rng = np.random.default_rng(2)
    apart = rng.normal(size=(4, 5000)) * 0.01 + np.arange(4)[:, None]
    for draws, failure in [
        (np.zeros((4, 1000)), TooFewDraws),
        (ar1(rng, 0.999), TooFewDraws),
        (apart, TooFewDraws),
        (np.full((4, 1000), np.nan), Disagreement),
    ]:
        with pytest.raises(failure):
            assert_mean_close(draws, 1.5)
        with pytest.raises(failure):
            assert_means_agree(draws, rng.normal(size=(4, 5000)))
    with pytest.raises(TooFewDraws):
        assert_pmf_close(np.ones((4, 5000), dtype=int), [0.0, 0.999, 0.001])
    with pytest.raises(Disagreement):
        assert_pmf_close(np.ones((4, 5000), dtype=int), [0.0, 0.9, 0.1])


def test_probabilities_of_small_integers():
    """Catches pooling that hides a wrong probability."""
    rng = np.random.default_rng(3)
    pmf = np.array([0.0, 0.5, 0.3, 0.194, 0.006])
    draws = rng.choice(5, size=(4, 10_000), p=pmf)
    assert_pmf_close(draws, pmf)
    for wrong in ([0.0, 0.52, 0.28, 0.194, 0.006], [0.0, 0.5, 0.3, 0.17, 0.03], [0.5, 0.3, 0.194, 0.006]):
        with pytest.raises(Disagreement):
            assert_pmf_close(draws, wrong)


@pytest.mark.parametrize(("shift", "scale"), [(0.0, 1.0), (0.4, 1.0), (0.0, 0.7), (0.0, 1.4)])
def test_ranks_see_shift_and_width(shift, scale):
    """Catches ranks that are not uniform where all is well, or that see no posterior too narrow, too wide or off."""
    rng = np.random.default_rng(4)
    truth, draws = rng.normal(size=1000), shift + scale * rng.normal(size=(1000, 99))
    if (shift, scale) == (0.0, 1.0):
        assert_ranks_uniform(truth, draws, rng)
        assert_ranks_uniform(np.round(truth), np.round(draws), rng)  # ties
        with pytest.raises(TooFewDraws):
            assert_ranks_uniform(truth, ar1(rng, 0.5, (1000, 99)), rng)
    else:
        with pytest.raises(Disagreement):
            assert_ranks_uniform(truth, draws, rng)
