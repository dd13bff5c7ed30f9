"""The default prior's moments: what a few records far from all others do to them."""

from math import log, pi

import numpy as np
import pytest
from scipy import stats

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._releases.release import Release, inside
from sklearn_dpmix._releases.summarised_release import SummarisedRelease
from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    BinomialMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PerturbedHistogramMechanism,
    SmoothedHistogramMechanism,
    compiled,
)


def ages(n, *odd):
    rng = np.random.default_rng(0)
    x = np.where(rng.random(n) < 0.4, rng.normal(30.0, 5.0, n), rng.normal(55.0, 8.0, n))
    x[: len(odd)] = odd
    return x[:, None]


@pytest.mark.parametrize("mechanism", [None, LaplaceMechanism(scale=5.0), GaussianMechanism(scale=2.0)])
@pytest.mark.parametrize("draw", ["normal", "laplace", "uniform", "exponential"])
def test_ordinary_records_set_the_prior_as_they_are(mechanism, draw):
    for n in (1, 2, 50, 300_000):
        release = Release(getattr(np.random.default_rng(n), draw)(size=(n, 2)), mechanism)
        np.testing.assert_array_equal(release.typical_moments(), release.moments())


def test_a_group_of_two_in_a_hundred_does_too():
    """Up to fifteen interquartile ranges beyond the quartiles; farther out it counts as there."""
    x = ages(10_000, *[400.0] * 200)
    np.testing.assert_array_equal(Release(x, None).typical_moments(), Release(x, None).moments())
    far, nearer = ages(10_000, *[900.0] * 200), x.copy()
    low, high = np.quantile(x, [0.25, 0.75])
    nearer[:200] = high + 15.0 * (high - low)
    np.testing.assert_allclose(Release(far, None).typical_moments(), Release(nearer, None).moments(), rtol=0.01)
    mostly_one = np.where(np.arange(1000) % 50 == 0, 900.0, 30.0)[:, None]
    np.testing.assert_array_equal(Release(mostly_one, None).typical_moments(), Release(mostly_one, None).moments())


@pytest.mark.parametrize("n", [99, 1000, 300_000])
def test_a_heavy_tail_does_not_make_components_wider_than_most_records(n):
    """The variance of Pareto records with no variance is that of their largest ones, up to 10^5 times the others'."""
    x = 1.0 / np.random.default_rng(3).random((n, 1))
    mean, variance = Release(x, None).typical_moments()
    assert 30.0 < variance < 150.0 < x.var() and 3.0 < mean < 7.0
    mechanism = GaussianMechanism(scale=0.1)
    found = SummarisedRelease(ReleaseSummary(mechanism).update(x), mechanism).typical_moments()
    np.testing.assert_allclose(np.ravel(found), [mean[0], variance[0]], rtol=0.02)


@pytest.mark.parametrize("mechanism", [None, LaplaceMechanism(scale=5.0)])
@pytest.mark.parametrize("n", [30, 99, 100, 1000, 300_000])
def test_wrong_entries_do_not(mechanism, n):
    """Of a hundred ages 1 is 999,999: the scale of the default kernel was ten million times as large."""
    as_they_are = ages(n) if mechanism is None else mechanism.privatize(ages(n), random_state=1)
    wrong = as_they_are.copy()
    wrong[:1] = 999_999.0
    (mean, variance), (_, expected) = (Release(Z, mechanism).typical_moments() for Z in (wrong, as_they_are))
    assert 0.8 * expected < variance < expected * (1.0 + 500.0 / n) and abs(mean - 45.0) < max(4.0, 500.0 / n)
    if mechanism is not None:
        summary = ReleaseSummary(mechanism).update(wrong)
        found = SummarisedRelease(summary, mechanism).typical_moments()
        np.testing.assert_allclose(found, [mean, variance], rtol=1e-3 if n < 1e5 else 0.02)


@pytest.mark.parametrize("n", [5, 9, 10, 99])
def test_a_summary_moves_few_records_as_an_array_does(n):
    """None of fewer than ten, whose quartiles say little."""
    mechanism, x = LaplaceMechanism(scale=5.0), ages(n)
    x[:1] = 999_999.0
    found = SummarisedRelease(ReleaseSummary(mechanism).update(x), mechanism).typical_moments()
    np.testing.assert_allclose(found, Release(x, mechanism).typical_moments(), rtol=1e-9)


def test_among_records_with_noise_of_their_own_wrong_ones_do_not_either():
    """Releases with much noise of their own may be far out, and stay there."""
    rng, x = np.random.default_rng(0), ages(2000)
    scales = np.where(np.arange(2000) % 25 == 0, 3e4, rng.choice([0.1, 0.11], 2000))
    mechanism = LaplaceMechanism(scale=scales)
    as_they_are = mechanism.privatize(x, random_state=1)
    np.testing.assert_array_equal(
        *(getattr(Release(as_they_are, mechanism), m)() for m in ("moments", "typical_moments"))
    )
    wrong = as_they_are.copy()
    wrong[1] = 999_999.0
    expected = Release(as_they_are, mechanism).moments()
    np.testing.assert_allclose(Release(wrong, mechanism).typical_moments(), expected, rtol=0.5)
    assert Release(wrong, mechanism).moments()[1] > 1e5 * expected[1]


def test_quartiles_of_a_heavy_tail():
    """Of lognormal records; they were -1.0 and 3.2, of components that are wider than most records are large."""
    x = np.exp(3.0 * np.random.default_rng(0).standard_normal((1000, 1)))
    model = PrivateDPMixture(None, random_state=0, n_chains=1, n_draws=200, n_warmup=200).fit(x)
    found = model.quantile_draws([0.25, 0.5]).mean(axis=(0, 1)).ravel()
    assert np.all(np.abs(found - np.quantile(x, [0.25, 0.5])) < [0.3, 0.8])


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", [None, LaplaceMechanism(scale=5.0)])
def test_quartiles_of_ages_among_which_one_is_wrong(mechanism):
    """They were 22.7, 45.2 and 67.6, of one wide component, for 31.8, 47.6 and 56.8."""
    x = ages(20_000, 999_999.0)
    Z = x if mechanism is None else mechanism.privatize(x, random_state=1)
    model = PrivateDPMixture(mechanism, random_state=0, n_chains=1, n_draws=200).fit(Z)
    found = model.quantile_draws([0.25, 0.5, 0.75]).mean(axis=(0, 1)).ravel()
    assert np.abs(found - np.quantile(x, [0.25, 0.5, 0.75])).max() < 1.0


class CauchyNoise(AdditiveMechanism):
    """Of no variance, and wide."""

    def __init__(self, scale=1.0, *, bounds=None):
        self.scale, self.bounds = scale, bounds

    @compiled
    def log_noise(self, e, scale):
        return -log(pi * scale * (1.0 + (e / scale) ** 2))

    def draw_noise(self, rng, scale, size):
        return scale * (5.0 + rng.standard_cauchy(size))  # about 5 scales, as the noise of a mechanism may be


class WideNormal(CauchyNoise):
    """Of a variance that the class does not say."""

    def draw_noise(self, rng, scale, size):
        return scale * rng.standard_normal(size)


@pytest.mark.parametrize("noise", [CauchyNoise, WideNormal])
@pytest.mark.parametrize("n", [300, 30_000])
def test_moments_under_noise_of_unknown_variance(noise, n):
    """Those of the records, as ranges of release and noise show them; the release's own were 10^5 times as large."""
    rng = np.random.default_rng(0)
    x = np.column_stack([rng.normal(50.0, 10.0, n), rng.choice([0.0, 100.0], n, p=[0.9, 0.1])])
    mechanism = noise(scale=np.where(np.arange(n) < n // 2, 2.0, 4.0))
    release = Release(mechanism.privatize(x, random_state=1), mechanism)
    mean, variance = release.moments()
    assert abs(mean[0] - 50.0) < 3.0 and abs(mean[1]) < 3.0
    error = 30.0 / n**0.5 + 0.3  # of the variance, relatively
    assert 60.0 < variance[0] < 100.0 * (1.0 + error) and 600.0 < variance[1] < 1500.0 * (1.0 + error)
    assert np.all(np.abs(release.guess() - mean) <= 3.0 * np.sqrt(variance) * (1.0 + 1e-12))
    within = Release(release.Z, noise(mechanism.scale, bounds=[(0.0, 40.0), (-3.0, -1.0)]))
    mean, variance = within.moments()
    assert np.all(mean <= [40.0, -1.0]) and np.all(mean > [39.5, -1.5]) and np.all(variance <= [400.0, 1.0])


def test_where_the_noise_hides_the_mean_it_is_not_at_a_bound():
    """The mean of a normal law between the bounds; it was the nearest number between them."""
    Z, x = np.array([[350.0], [90.0], [160.0], [-20.0]]), np.linspace(0.0, 100.0, 10_001)
    mean, _ = Release(Z, LaplaceMechanism(scale=200.0, bounds=(0, 100))).moments()
    weights = np.exp(-0.5 * ((x - Z.mean()) / np.sqrt(2.0 * 200.0**2 / 4)) ** 2)
    np.testing.assert_allclose(mean, np.average(x, weights=weights), rtol=1e-4)
    hidden = LaplaceMechanism(scale=np.array([2.0, 2.0, 2e4, 2e4]), bounds=(0, 100))  # two records say where it is
    assert Release(np.array([[90.0], [92.0], [-3e4], [-1e4]]), hidden).moments()[0] > 85.0


def test_a_mean_between_bounds():
    """As SciPy's truncated normal has it, on either side, near the bounds and far from them."""
    mean, error = np.array([50.0, 3.0, 98.0, 130.0, -700.0, 1e4]), np.array([1.0, 4.0, 9.0, 30.0, 25.0, 1e4])
    expected = stats.truncnorm.mean(-mean / error, (100.0 - mean) / error, loc=mean, scale=error)
    np.testing.assert_allclose(inside(mean, error, 0.0, 100.0), expected, rtol=1e-9)
    assert inside(50.0, 1.0, 0.0, 100.0) == 50.0 and inside(70.0, 0.0, 0.0, 60.0) == pytest.approx(60.0)


@pytest.mark.parametrize(
    "mechanism",
    [
        HaarWaveletMechanism(1.0, 2),
        BinomialMechanism(0.5, 1),
        HybridMechanism(0.5, bounds=(0, 1)),
        PerturbedHistogramMechanism(0.2, 4, n_records=3),
        SmoothedHistogramMechanism(0.5, 16, 2, n_records=3),
    ],
)
def test_three_records_under_much_noise_leave_the_prior_wide(mechanism):
    """Catches one that is sure of what noise put into one bin, or on one side."""
    for seed in range(20):
        Z = mechanism.privatize(np.full((3, 1), 0.5), random_state=seed)
        mean, variance = Release(Z if mechanism.is_local else Z[:, None], mechanism).moments()
        assert variance > 0.02 and abs(mean - 0.5) < 3.0 * np.sqrt(variance)
