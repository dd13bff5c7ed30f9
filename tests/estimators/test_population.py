"""Densities, cdfs, quantiles, moments and samples of the population agree with one another and with the release."""

import time
import warnings

import numpy as np
import pytest
from fitted_mixtures import COMPONENTS, MECHANISM, RECORDS, RELEASE, fit
from scipy import stats
from scipy.integrate import trapezoid
from scipy.stats import kstest
from sklearn.metrics import adjusted_rand_score

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    RandomizedResponseMechanism,
    SquareWaveMechanism,
)
from sklearn_dpmix.metrics import hellinger_distance

GRID = np.linspace(-60, 60, 4001)[:, None]
LEFTOVER = 1e-3  # mass that densities give to the base measure itself, and cdfs to one draw from it


def test_density_draws_average_to_score_samples(fitted, two_features):
    """Catches a log of means that is a mean of logs, and an unseen part that one of the two forgot."""
    for model, X in ((fitted, GRID[::40]), (two_features[0], two_features[1])):
        draws = model.density_draws(X)
        assert draws.shape == (2, 200, len(X))
        np.testing.assert_allclose(draws.mean(axis=(0, 1)), np.exp(model.score_samples(X)), rtol=1e-12)
        lower, upper = model.density_interval(X, level=0.9)
        np.testing.assert_allclose([lower, upper], np.quantile(draws, [0.05, 0.95], axis=(0, 1)), rtol=1e-12)
        assert np.all(lower <= upper)


def test_interval_covers_the_density_of_the_data(fitted):
    """Catches intervals of something else (a single draw, the release's density)."""
    from sklearn_dpmix.datasets import three_normals_density

    x = np.linspace(-8, 8, 33)
    lower, upper = fitted.density_interval(x[:, None], level=0.99)
    assert np.mean((lower <= three_normals_density(x)) & (three_normals_density(x) <= upper)) > 0.7


def test_density_does_not_underflow_far_away(fitted):
    """Catches -inf where the predictive density has a polynomial tail."""
    far = np.array([[1e4], [-1e8], [1e150], [1e300]])
    scores = fitted.score_samples(far)
    assert np.all(np.isfinite(scores))
    assert np.all(np.diff(scores) < 0.0)


@pytest.mark.nightly
def test_kernel_without_a_base_predictive():
    """Catches densities that need the base measure's own in closed form, and their underflow far away."""
    model = fit(GaussianMechanism(scale=0.5), RECORDS[:60], kernel="convolved_normal", sampler="neal2")
    x = np.linspace(-300, 300, 60_001)[:, None]
    assert trapezoid(np.exp(model.score_samples(x)), x[:, 0]) == pytest.approx(1, abs=LEFTOVER)
    assert model.density_draws(RELEASE).mean(axis=(0, 1)) == pytest.approx(np.exp(model.score_samples(RELEASE)))
    assert np.all(np.isfinite(model.score_samples([[1e5], [-1e5]])))
    assert adjusted_rand_score(COMPONENTS[:60], model.labels_) > 0.6
    np.testing.assert_array_equal(model.predict(RECORDS[:60]), model.labels_)
    with pytest.raises(ValueError, match="holds the noise of the training release"):
        model.predict(RECORDS[:3], epsilon=1.0)


def test_many_points_are_the_same_as_few(fitted):
    """Catches chunks that are glued together wrongly, or that depend on the number of threads."""
    X = np.linspace(-12, 12, 5003)[:, None]
    for method in (fitted.score_samples, fitted.density_draws, fitted.cdf_draws, fitted.density_interval):
        whole = np.asarray(method(X))
        np.testing.assert_allclose(whole[..., ::1000], method(X[::1000]), rtol=1e-12)
    fitted.set_params(n_jobs=2)
    np.testing.assert_array_equal(fitted.density_draws(X), fitted.set_params(n_jobs=None).density_draws(X))


def test_cdf_is_the_integral_of_the_density(fitted):
    """Catches a cdf of other weights or components than the density's."""
    integral = np.concatenate([[0.0], np.cumsum(0.5 * (0.03) * np.add(*_pairs(fitted.density_draws(GRID)[1, 7])))])
    cdf = fitted.cdf_draws(GRID)[1, 7]
    np.testing.assert_allclose(cdf, integral, atol=1.5 * LEFTOVER)
    assert np.all(np.diff(cdf) >= 0)


def _pairs(values):
    return values[:-1], values[1:]


def test_quantiles_invert_the_cdf(fitted):
    """Catches a bisection that stops early, and draws in another order than the cdf's."""
    q = np.array([1e-6, 0.025, 0.5, 0.9, 1 - 1e-6])
    quantiles = fitted.quantile_draws(q)
    assert quantiles.shape == (2, 200, 5)
    assert fitted.quantile_draws(0.5).shape == (2, 200, 1)
    for chain, draw in ((0, 0), (1, 133)):
        cdf = fitted.cdf_draws(quantiles[chain, draw][:, None])[chain, draw]
        np.testing.assert_allclose(cdf, q, rtol=1e-9, atol=1e-12)
    assert np.all(np.diff(quantiles, axis=2) > 0)
    assert np.all(np.isfinite(fitted.quantile_draws([1e-300, np.nextafter(1.0, 0.0)])))


def test_moments_agree_with_the_density(fitted):
    """Catches a variance that leaves out the spread of the means, or moments of the release."""
    moments = fitted.moment_draws()
    assert moments.mean.shape == moments.variance.shape == (2, 200, 1)
    density = fitted.density_draws(GRID)
    x = GRID[:, 0]
    mean = trapezoid(density * x, x)
    variance = trapezoid(density * (x - mean[..., None]) ** 2, x)
    # what is left of P has mass LEFTOVER at most, somewhere within the base measure's reach
    np.testing.assert_allclose(np.median(moments.mean[..., 0] - mean), 0, atol=0.02)
    np.testing.assert_allclose(np.median(moments.variance[..., 0] / variance), 1, atol=0.05)
    assert abs(moments.mean.mean() - RECORDS.mean()) < 5 * RECORDS.std() / np.sqrt(300)


def test_samples_follow_the_predictive(fitted, two_features):
    """Catches samples of one draw, without the unseen part, or with features of different records."""
    X = fitted.sample(20_000, random_state=5)
    assert X.shape == (20_000, 1)
    x = np.sort(X[:, 0])
    assert kstest(fitted.cdf_draws(x[::20, None]).mean(axis=(0, 1)), "uniform").pvalue > 1e-6
    np.testing.assert_array_equal(X, fitted.sample(20_000, random_state=5))
    assert not np.array_equal(X, fitted.sample(20_000, random_state=6))
    assert fitted.sample().shape == (1, 1)
    model = two_features[0]
    assert np.corrcoef(model.sample(5000, random_state=0).T)[0, 1] > 0.8


def test_score_release_is_the_convolved_predictive():
    """Catches a score of the confidential density, of another noise, or one that forgets the clamping.

    At most 500 draws, so that all are used; log g(z) = log ∫ q(z | y) p(y) dy, the noise's density integrated against
    the predictive one by the trapezoidal rule on both sides of its kink.
    """
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(-6, 6))
    Z = mechanism.privatize(RECORDS[:100], random_state=3)
    model = fit(mechanism, Z)
    b = mechanism.noise_scale
    for z in (-9.0, 0.3, 5.0, 8.0):
        y = np.unique(np.concatenate([np.linspace(-80, 80, 40_001), z + np.linspace(-5, 5, 2001), [-6.0, 6.0]]))
        channel = np.exp(-np.abs(z - np.clip(y, -6, 6)) / b) / (2 * b)
        expected = np.log(trapezoid(channel * np.exp(model.score_samples(y[:, None])), y))
        assert model.score_release([[z]]) == pytest.approx(expected, abs=3 * LEFTOVER)


EPSILONS = np.resize([1.0, 3.0, 10.0], 60)


@pytest.mark.parametrize(
    "mechanism",
    [
        LaplaceMechanism(epsilon=10.0, bounds=(-3, 3)),
        LaplaceMechanism(epsilon=EPSILONS, bounds=(-3, 3)),
        LaplaceMechanism(scale=1e-6),
        LaplaceMechanism(scale=1.0, released_above=-2.0),
        GaussianMechanism(scale=2.0, bounds=(-3, 3)),
        GaussianMechanism(epsilon=EPSILONS, delta=1e-5, bounds=(-3, 3)),
        DiscreteLaplaceMechanism(epsilon=5.0, bounds=(-3, 3)),
        SquareWaveMechanism(epsilon=1.0, bounds=(-6, 6)),
        HybridMechanism(epsilon=1.0, bounds=(-6, 6)),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_score_release_of_blocks_is_that_record_by_record(mechanism):
    """Catches a factor that nodes leave out (of releases outside bounds), and densities that are next to nothing."""
    is_additive = isinstance(mechanism, AdditiveMechanism)
    records = np.round(RECORDS[:60]) if is_additive and mechanism.is_discrete else RECORDS[:60]
    Z = mechanism.privatize(records, random_state=3)
    if mechanism.released_above is not None:
        Z = Z[Z[:, 0] > mechanism.released_above]
    model = fit(mechanism, Z, n_warmup=20, n_draws=20)
    if is_additive:
        Z[:2] = [[40.0], [3000.0]]
    found = model.score_release(Z)
    model._noised = lambda mechanism: None
    assert found == pytest.approx(model.score_release(Z), rel=1e-12)


def test_score_release_is_fast():
    """Catches a closed form for each atom and release, of a microsecond each."""
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(-6, 6))
    Z = mechanism.privatize(np.resize(RECORDS, (1000, 1)), random_state=3)
    model, seconds = fit(mechanism, Z, n_warmup=20, n_draws=100), []
    for noised in (model._noised, lambda mechanism: None):
        model._noised = noised
        model.score_release(Z[:10])
        started = time.process_time()
        model.score_release(Z)
        seconds.append(time.process_time() - started)
    assert seconds[0] < 0.5 * seconds[1]


def test_score_release_without_noise_is_the_score():
    """Catches a noise-free channel that is not the identity."""
    model = fit(None, RECORDS[:100])
    assert model.score_release(RECORDS[:50]) == pytest.approx(model.score(RECORDS[:50]), abs=3 * LEFTOVER)


def test_the_centre_of_categories_is_one():
    """Catches a log density between two categories, which is the same in all draws, so that nothing watches it."""
    mechanism = RandomizedResponseMechanism(epsilon=2.0, n_categories=2)
    with warnings.catch_warnings(action="ignore", category=RuntimeWarning):
        model = PrivateDPMixture(
            mechanism, kernel="categorical", n_chains=2, n_warmup=20, n_draws=50, random_state=0
        ).fit([[0], [1]])
    assert np.isfinite(model.r_hat_["log_density"])


def test_two_features(two_features):
    """Catches features that are mixed up: they differ in scale and have bounds of their own."""
    model, Z, groups = two_features
    assert adjusted_rand_score(groups, model.labels_) > 0.8
    np.testing.assert_array_equal(model.predict(Z), model.labels_)
    assert model.quantile_draws([0.2, 0.8]).shape == (2, 200, 2, 2)
    moments = model.moment_draws()
    np.testing.assert_allclose(moments.mean.mean(axis=(0, 1)), [3.0, 30.0], rtol=0.3)
    np.testing.assert_allclose(np.sqrt(moments.variance.mean(axis=(0, 1))), [3.2, 32.0], rtol=0.3)
    assert {"mean[0]", "mean[1]", "log_variance[0]", "log_variance[1]"} <= set(model.r_hat_)
    # the joint cdf against its margins, and the density against finite differences of the cdf
    x, h = np.array([[1.0, 5.0]]), np.array([1e-3, 1e-2])
    corners = [model.cdf_draws(x + h * s).mean() for s in ([1, 1], [1, -1], [-1, 1], [-1, -1])]
    difference = (corners[0] - corners[1] - corners[2] + corners[3]) / (4 * h.prod())
    assert np.exp(model.score_samples(x)[0]) == pytest.approx(difference, rel=0.05)
    median = model.quantile_draws(0.5)[0, 0, 0]
    assert model.cdf_draws([[median[0], 1e9]])[0, 0, 0] == pytest.approx(0.5, rel=1e-9)
    assert model.cdf_draws([[1e9, median[1]]])[0, 0, 0] == pytest.approx(0.5, rel=1e-9)


@pytest.mark.nightly
def test_channel_without_a_closed_form_marginal():
    """Catches predictions that need g(z) in closed form, and an estimate of it that is far off."""

    class NoTilt(NormalKernel):
        tilts = frozenset()

    Z = RELEASE[:40]
    params = {"sampler": "neal5", "n_chains": 1, "n_warmup": 50, "n_draws": 50}
    exact, estimated = fit(MECHANISM, Z, **params), fit(MECHANISM, Z, kernel=NoTilt(), **params)
    np.testing.assert_array_equal(exact.n_clusters_draws_, estimated.n_clusters_draws_)
    assert estimated.score_release(Z) == pytest.approx(exact.score_release(Z), abs=0.1)
    np.testing.assert_array_equal(estimated.predict(Z), estimated.labels_)
    np.testing.assert_array_equal(np.unique(estimated.labels_), np.arange(estimated.labels_.max() + 1))


def test_informativeness_is_the_distance_of_the_mean_densities():
    """Catches a distance from another prior, a square left out, and a release that says nothing called informative."""
    x = np.linspace(-300, 300, 30_001)
    prior = stats.t.pdf(x, 6, 0.0, np.sqrt(11.0))  # of N(0, 10 σ²) · IG(3, 3): a Student t
    for epsilon in (0.05, 50.0):
        mechanism = LaplaceMechanism(epsilon, bounds=(-10, 10))
        model = fit(mechanism, mechanism.privatize(RECORDS, random_state=1), kernel=NormalKernel(0.0, 0.1, 3.0, 3.0))
        exact = hellinger_distance(prior, np.exp(model.score_samples(x[:, None])), x)
        error = 4.9 / np.sqrt(20_000)  # of the square, at α = 1e-6: its variance is at most H² (2 - H²) / n
        assert abs(model.informativeness(random_state=0) ** 2 - exact**2) < error * exact * np.sqrt(2.0)
    assert exact > 0.2


# --- integers under integer noise: a record is a real number that was rounded ---------------------------------------


@pytest.fixture(scope="module")
def counts():
    """(Model, numbers of children from 0 to 8.)"""
    X = np.minimum(np.random.default_rng(0).poisson(1.4, (1000, 1)), 8.0)
    mechanism = DiscreteLaplaceMechanism(epsilon=24.0, bounds=(0, 8))
    model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=300, n_draws=300, random_state=0)
    return model.fit(mechanism.privatize(X, random_state=1)), X


def test_probabilities_of_integers_are_those_of_records(counts):
    """Catches P(y <= v) of the number before it is rounded: P(no child) would be 0.1 in place of 0.25."""
    model, X = counts
    v = np.arange(-1.0, 9.0)
    draws = model.cdf_draws(v[:, None])
    share, sd = np.mean(v >= X, axis=0), draws.std(axis=(0, 1))
    assert np.all(np.abs(draws.mean(axis=(0, 1)) - share) < 5.0 * sd + 1e-12)
    np.testing.assert_allclose(draws[..., [0, -1]], np.broadcast_to([0.0, 1.0], (*draws.shape[:2], 2)), atol=1e-12)
    np.testing.assert_array_equal(model.cdf_draws(v[:, None] + 0.9), draws)
    latent = model._draws_.cdf(model._kernel(), v[1:4, None])
    assert np.any(np.abs(latent.mean(axis=(0, 1)) - share[1:4]) > 5.0 * sd[1:4])


def test_samples_quantiles_and_moments_of_integers_agree(counts):
    model, _ = counts
    draws, v = model.cdf_draws(np.arange(-1.0, 9.0)[:, None]), np.arange(9.0)
    sample = model.sample(100_000, random_state=0)[:, 0]
    shares = np.bincount(sample.astype(int), minlength=9) / len(sample)
    np.testing.assert_allclose(shares, np.diff(draws, axis=-1).mean(axis=(0, 1)), atol=0.01)
    quantiles = model.quantile_draws([0.05, 0.5, 0.95])
    places = np.take_along_axis(draws, quantiles.astype(int) + 1, axis=-1)
    below = np.take_along_axis(draws, quantiles.astype(int), axis=-1)
    assert np.all((below <= [0.05, 0.5, 0.95]) & (places >= [0.05, 0.5, 0.95]))
    mean, variance = (part[..., 0] for part in model.moment_draws(clamped=True))
    np.testing.assert_allclose(mean, np.diff(draws, axis=-1) @ v, rtol=1e-10)
    np.testing.assert_allclose(variance, np.diff(draws, axis=-1) @ v**2 - mean**2, rtol=1e-9)


def test_moments_of_integers_far_from_the_lower_bound():
    """Their variance is no difference of large numbers: it was negative."""
    mechanism = DiscreteLaplaceMechanism(epsilon=2000.0, bounds=(0, 1000))
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=50, n_draws=200, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(np.full((200, 1), 500.0))
    mean, variance = model.moment_draws(clamped=True)
    assert np.all(variance >= 0.0)
    np.testing.assert_allclose(mean, 500.0, atol=0.5)


def test_without_clamping_integers_go_on():
    """And between bounds far apart clamped moments are those of the real numbers, which rounding hardly changes."""
    X = np.random.default_rng(0).integers(0, 5000, (60, 1))
    for clamp in (False, True):
        mechanism = DiscreteLaplaceMechanism(epsilon=24.0, bounds=(0, 5000), clamp=clamp)
        model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=30, n_draws=50, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            model.fit(mechanism.privatize(X, random_state=1))
        sample = model.sample(2000, random_state=0)
        np.testing.assert_array_equal(sample, np.rint(sample))
        if clamp:
            assert sample.min() >= 0 and sample.max() <= 5000
            mean = model.moment_draws(clamped=True).mean.mean()
            assert abs(mean - sample.mean()) < 5.0 * sample.std() / np.sqrt(len(sample))
