"""Wavelet, randomised-response and histogram channels: laws, guarantees, sensitivities, wrong input."""

import itertools
import warnings

import numpy as np
import pytest
from scipy.stats import chisquare, kstest

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.estimators.mixture._compose import resolve_components
from sklearn_dpmix.kernels import BetaKernel, CategoricalKernel, NormalKernel
from sklearn_dpmix.mechanisms import (
    DiscreteLaplaceMechanism,
    HaarWaveletMechanism,
    LaplaceMechanism,
    PerturbedHistogramMechanism,
    RandomizedResponseMechanism,
    SmoothedHistogramMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess, PitmanYor
from sklearn_dpmix.samplers import Bins, Cells, MixtureSampler, Sources

ALPHA = 1e-6
RECORDS = np.array([[0.05], [0.3], [0.62], [0.99], [1.0], [-3.0], [7.0]])


def haar(j, k, x):
    """ψ_jk(x) from its definition, last intervals closed."""
    u = 2.0**j * x - k
    last = x == 1.0 and k == 2**j - 1
    return 2.0 ** (j / 2) * ((0 <= u < 0.5) - float(0.5 <= u < 1 or last))


@pytest.mark.parametrize("resolution", [0, 1, 3])
@pytest.mark.parametrize("bounds", [(0, 1), (-2.0, 6.0)])
def test_haar_coefficients_are_the_wavelets(resolution, bounds):
    """Catches another order, sign or height of coefficients, an open last bin, records that are not clamped."""
    mechanism = HaarWaveletMechanism(1.0, resolution, bounds=bounds)
    X = np.concatenate([RECORDS, np.linspace(bounds[0], bounds[1], 33)[:, None]])
    x = (np.clip(X[:, 0], *bounds) - bounds[0]) / (bounds[1] - bounds[0])
    expected = [[haar(j, k, value) for j in range(resolution + 1) for k in range(2**j)] for value in x]
    np.testing.assert_allclose(mechanism.coefficients()[mechanism.bin_of(X[:, 0])], expected, rtol=1e-12)
    noise = mechanism.privatize(np.tile(X, (1000, 1)), random_state=11) - np.tile(expected, (1000, 1))
    assert kstest(noise.ravel() / mechanism.noise_scale, "laplace").pvalue > ALPHA
    assert kstest(noise.ravel() / (1.1 * mechanism.noise_scale), "laplace").pvalue < ALPHA  # the twin


@pytest.mark.parametrize("resolution", [0, 1, 2, 4])
def test_haar_sensitivity_by_enumeration(resolution):
    """Catches a wrong closed form: the largest L1 distance between coefficients of any two bins."""
    mechanism = HaarWaveletMechanism(3.0, resolution)
    c = mechanism.coefficients()
    largest = np.abs(c[:, None] - c).sum(axis=2).max()
    assert mechanism.sensitivity() == pytest.approx(largest, rel=1e-12)
    assert mechanism.noise_scale == pytest.approx(largest / 3.0)
    assert mechanism.guarantee().epsilon == 3.0
    assert HaarWaveletMechanism(7.0, 5).guarantee().epsilon == 7.0  # as little is lost in rounding
    loose = HaarWaveletMechanism(3.0, resolution, calibration="butucea")
    assert loose.guarantee().epsilon == pytest.approx(largest / loose.noise_scale)
    assert loose.noise_scale / mechanism.noise_scale > 7


def test_haar_log_density_and_its_bound():
    """Catches a density of the wrong bin, and a channel that moves by more than ε."""
    mechanism = HaarWaveletMechanism(2.0, 2)
    Z = mechanism.privatize(np.tile(RECORDS, (40, 1)), random_state=5)
    direct = -np.abs(Z[:, None] - mechanism.coefficients()).sum(axis=2) / mechanism.noise_scale
    direct -= Z.shape[1] * np.log(2 * mechanism.noise_scale)
    np.testing.assert_allclose(mechanism.log_bins(Z), direct, rtol=1e-10)
    X = np.linspace(0, 1, len(Z))[:, None]
    np.testing.assert_allclose(mechanism.log_density(Z, X), direct[np.arange(len(Z)), mechanism.bin_of(X[:, 0])])
    assert np.ptp(mechanism.log_bins(Z), axis=1).max() <= 2.0 + 1e-12
    far = np.sign(mechanism.coefficients()[[0]]) * 100.0  # a release that tells all there is to tell
    assert np.ptp(mechanism.log_bins(far)) <= 2.0 + 1e-12


def test_a_bin_that_the_release_all_but_excludes():
    """Catches an underflow of the table, or of its sums, near the largest ε, and one that goes unnoticed beyond."""
    mechanism, kernel = HaarWaveletMechanism(680.0, 0), NormalKernel(0.5, 0.1, 3.0, 0.1)._lower(n_features=1)
    Z = np.array([[1.0]])  # the coefficient of the first bin, exactly
    channel, table = mechanism._lower(n_records=1, n_features=1), mechanism.encode(Z)
    theta = np.zeros((1, 6))
    kernel.put_params(theta, 0, 0, 30.0, 0.5)  # all of its mass is in the second bin
    channel.cache(kernel, theta, 0)
    assert channel.log_marginal(kernel, table, 0, 0, theta, 0) == pytest.approx(mechanism.log_bins(Z)[0, 1])
    assert channel.impute(np.random.default_rng(0), kernel, table, 0, 0, theta, 0) > 0.5
    for beyond, release in (
        (HaarWaveletMechanism(800.0, 0), Z),
        (SmoothedHistogramMechanism(None, 4, 3, n_records=9, smoothing=1e-150), [0.1, 0.2, 0.3]),
        (PerturbedHistogramMechanism(800.0, 3, n_records=9), [1.0, 2.0, 6.0]),
    ):
        with pytest.raises(ValueError, match="beyond floating point"):
            fit(beyond, release)


def test_randomized_response_law_and_guarantee():
    """Catches a keep probability without K, a wrong split over features, a biased other category."""
    X = np.repeat([[0, 3], [2, 1]], 20_000, axis=0)
    mechanism = RandomizedResponseMechanism(2.0, 4)
    Z = mechanism.privatize(X, random_state=3)
    keep = np.exp(1.0) / (np.exp(1.0) + 3)
    for rows, column in itertools.product((slice(0, 20_000), slice(20_000, None)), range(2)):
        p = np.full(4, (1 - keep) / 3)
        p[X[rows, column][0]] = keep
        seen = np.bincount(Z[rows, column].astype(int), minlength=4)
        assert chisquare(seen, 20_000 * p).pvalue > ALPHA
        assert chisquare(seen, 20_000 * np.roll(p, 1)).pvalue < ALPHA
    table = np.array(
        [[mechanism.log_density([list(z)], [list(x)]).item() for z in itertools.product(range(4), repeat=2)]
         for x in itertools.product(range(4), repeat=2)]
    )  # fmt: skip
    np.testing.assert_allclose(np.exp(table).sum(axis=1), 1.0, rtol=1e-12)
    assert np.max(table[:, None] - table) == pytest.approx(mechanism.guarantee().epsilon)


def test_randomized_response_with_its_own_epsilon_each():
    """Catches per-record ε that is averaged or mixed up."""
    mechanism = RandomizedResponseMechanism([0.5, 5.0], 3)
    keep = np.exp([0.5, 5.0]) / (np.exp([0.5, 5.0]) + 2)
    np.testing.assert_allclose(mechanism.log_density([[1], [1]], [[1], [1]]), np.log(keep))
    assert mechanism.guarantee().epsilon == 5.0
    Z = RandomizedResponseMechanism(3.0, 5).privatize(np.full((4000, 1), 2), secure=True)
    keep = np.exp(3.0) / (np.exp(3.0) + 4)
    p = np.where(np.arange(5) == 2, keep, (1 - keep) / 4)
    assert chisquare(np.bincount(Z[:, 0].astype(int), minlength=5), 4000 * p).pvalue > ALPHA


def largest_loss(mechanism, n, n_bins, releases):
    """Largest change of the log density of whole releases over all pairs of neighbouring data sets of n records."""
    centres = mechanism.centres()
    log_density = {
        bins: np.array([mechanism.log_density(Z, centres[list(bins)][:, None]).sum() for Z in releases])
        for bins in itertools.product(range(n_bins), repeat=n)
    }
    pairs = itertools.product(log_density, range(n_bins))
    return max(np.abs(log_density[bins] - log_density[other, *bins[1:]]).max() for bins, other in pairs)


def test_smoothed_histogram_guarantee_by_brute_force():
    """Catches the sign slip of the printed condition, the missing bin width, a δ that is not the closed form."""
    mechanism = SmoothedHistogramMechanism(1.7, 3, 4, n_records=3, bounds=(-1, 2))
    releases = [np.full(4, c) for c in mechanism.centres()] + [[-0.5, 0.5, 0.5, 1.9]]
    assert largest_loss(mechanism, 3, 3, releases) == pytest.approx(1.7, rel=1e-10)
    assert mechanism.guarantee().epsilon == pytest.approx(1.7)
    again = SmoothedHistogramMechanism(None, 3, 4, n_records=3, bounds=(-1, 2), smoothing=mechanism.smoothing_)
    assert again.guarantee().epsilon == pytest.approx(1.7)


def test_smoothed_histogram_law():
    """Catches draws from unsmoothed bins, and a density that does not integrate to one."""
    mechanism = SmoothedHistogramMechanism(None, 4, 40_000, n_records=5, bounds=(0, 2), smoothing=0.3)
    X = np.array([[0.1], [0.2], [1.1], [1.9], [2.0]])
    Z = mechanism.privatize(X, random_state=8)
    p = 0.7 * np.array([2, 0, 1, 2]) / 5 + 0.3 / 4
    seen = np.bincount((Z * 2).astype(int), minlength=4)
    assert chisquare(seen, 40_000 * p).pvalue > ALPHA
    assert chisquare(seen, 40_000 * np.array([2, 1e-9, 1, 2]) / (5 + 1e-9)).pvalue < ALPHA
    assert kstest((Z * 2) % 1, "uniform").pvalue > ALPHA
    grid = (np.arange(40_000) + 0.5) / 20_000
    assert np.exp(mechanism.log_density(grid, X)).mean() * 2 == pytest.approx(1.0)


@pytest.mark.parametrize("noise", ["laplace", "discrete_laplace"])
def test_perturbed_histogram(noise):
    """Catches a sensitivity of 1 (replacing a record moves two counts), and noise of another law."""
    mechanism = PerturbedHistogramMechanism(0.8, 3, n_records=3, noise=noise)
    releases = [np.array(z, float) for z in itertools.product((-9, 0, 1, 12), repeat=3)]
    assert largest_loss(mechanism, 3, 3, releases) == pytest.approx(0.8)
    many = np.concatenate([mechanism.privatize([[0.1], [0.2], [0.9]], random_state=s) - [2, 0, 1] for s in range(1000)])
    if noise == "laplace":
        assert kstest(many, "laplace", args=(0, 2.5)).pvalue > ALPHA
    else:
        e = np.arange(-12, 13)
        r = np.exp(-0.4)
        p = (1 - r) / (1 + r) * r ** np.abs(e)
        inside = np.abs(many) <= 12
        seen = np.bincount((many[inside] + 12).astype(int), minlength=25)
        assert chisquare(seen, inside.sum() * p / p.sum()).pvalue > ALPHA


def test_secure_counts_and_coefficients():
    """Catches a secure release of another shape or scale."""
    pytest.importorskip("opendp")
    counts = PerturbedHistogramMechanism(1e6, 2, n_records=3).privatize([[0.1], [0.2], [0.9]], secure=True)
    np.testing.assert_allclose(counts, [2, 1], atol=1e-3)
    integers = PerturbedHistogramMechanism(50.0, 2, n_records=3, noise="discrete_laplace")
    assert np.array_equal(integers.privatize([[0.1], [0.2], [0.9]], secure=True), [2, 1])
    with pytest.raises(ValueError, match="takes no seed, got random_state=0"):
        integers.privatize([[0.1], [0.2], [0.9]], secure=True, random_state=0)
    Z = HaarWaveletMechanism(1e6, 1).privatize([[0.1]], secure=True)
    np.testing.assert_allclose(Z, [[1, np.sqrt(2), 0]], atol=1e-3)


def fit(mechanism, Z, **params):
    return PrivateDPMixture(mechanism, n_chains=1, n_warmup=5, n_draws=5, **params).fit(Z)


HISTOGRAM = SmoothedHistogramMechanism(1.0, 4, 3, n_records=10)
COUNTS = PerturbedHistogramMechanism(1.0, 3, n_records=10, noise="discrete_laplace")


@pytest.mark.parametrize(
    ("mechanism", "Z", "message"),
    [
        (HaarWaveletMechanism(1.0, 21), np.zeros((2, 3)), "resolution must be an integer from 0 to 20"),
        (HaarWaveletMechanism(1.0, 1.5), np.zeros((2, 3)), "resolution=1.5"),
        (HaarWaveletMechanism(-1.0, 1), np.zeros((2, 3)), "epsilon must be positive"),
        (HaarWaveletMechanism(1.0, 1, calibration="x"), np.zeros((2, 3)), "calibration must be"),
        (HaarWaveletMechanism(1.0, 1, bounds=(1, 0)), np.zeros((2, 3)), "bounds must be finite with lo < hi"),
        (HaarWaveletMechanism(1.0, 2), np.zeros((2, 3)), "Z has 3 columns, but resolution=2 releases 7"),
        (RandomizedResponseMechanism(1.0, 1), np.zeros((2, 1)), "n_categories must be"),
        (RandomizedResponseMechanism(0.0, 3), np.zeros((2, 1)), "epsilon must be positive"),
        (RandomizedResponseMechanism(1.0, 3), [[0], [3]], "row 1, column 0 has 3"),
        (RandomizedResponseMechanism(1.0, 3), [[0.5], [2]], "row 0, column 0 has 0.5"),
        (HISTOGRAM, [0.1, 0.2], "n_released=3 draws were released"),
        (HISTOGRAM, [0.1, 0.2, 1.2], "Z has 1.2, outside bounds"),
        (SmoothedHistogramMechanism(1.0, 4, 3), [0.1, 0.2, 0.3], "n_records of SmoothedHistogramMechanism"),
        (SmoothedHistogramMechanism(None, 4, 3, n_records=10, smoothing=1.0), [0.1, 0.2, 0.3], "smoothing must be"),
        (SmoothedHistogramMechanism(1.0, 4, 3, n_records=10, smoothing=0.5), [0.1, 0.2, 0.3], "exactly one of"),
        (SmoothedHistogramMechanism(1.0, 0, 3, n_records=10), [0.1, 0.2, 0.3], "n_bins of"),
        (COUNTS, [1.0, 2.5, 3.0], "releases integers, but Z has 2.5"),
        (COUNTS, [1.0, 2.0], "n_bins=3 counts were released"),
        (DiscreteLaplaceMechanism(1.0, bounds=(0, 5)), [[1.5]], "1.5"),
    ],
)
def test_wrong_releases_and_parameters(mechanism, Z, message):
    """Catches input that gets through, or an error that does not say what is wrong."""
    with pytest.raises((ValueError, TypeError), match=message):
        fit(mechanism, Z)


def test_parts_that_do_not_go_together():
    """Catches a composition that fails late, or without a word on the remedy."""
    Z = HISTOGRAM.privatize(np.full((10, 1), 0.3), random_state=0)
    for sampler in ("neal8", "interweaved"):
        with pytest.raises(ValueError, match="releases a histogram of all"):
            fit(HISTOGRAM, Z, sampler=sampler)
    with pytest.raises(ValueError, match="another number of records"):
        fit(HISTOGRAM, Z, n_records=11)
    with pytest.raises(ValueError, match="Sources needs draws from a histogram of all records"):
        fit(COUNTS, [1.0, 2.0, 3.0], sampler=Sources())
    with pytest.raises(ValueError, match="Bins needs a histogram of all records"):
        fit(HaarWaveletMechanism(1.0, 0), [[0.3]], sampler=Bins())
    with pytest.raises(ValueError, match="strictly inside its bounds"):
        fit(None, [[0.2], [1.0]], kernel="beta")
    with pytest.raises(ValueError, match="one feature"):
        fit(LaplaceMechanism(1.0, bounds=(0, 1)), np.full((3, 2), 0.5), kernel="beta")
    with pytest.raises(ValueError, match="rate must be a positive number"):
        fit(None, [[0.2]], kernel=BetaKernel(rate=0.0))
    with pytest.raises(ValueError, match="alpha must be a positive number"):
        fit(None, [[0.0]], kernel=CategoricalKernel(alpha=-1.0))
    with pytest.raises(ValueError, match="must hold categories"):
        fit(None, [[0.5]], kernel="categorical")
    with pytest.raises(ValueError, match="leave the kernel's out"):
        fit(RandomizedResponseMechanism(1.0, 3), [[0]], kernel=CategoricalKernel(n_categories=4))
    with pytest.raises(ValueError, match=r"integers from 0 to n_categories - 1 = 2: encode text.*OrdinalEncoder"):
        RandomizedResponseMechanism(1.0, 3).privatize([["bus"], ["car"]])


@pytest.mark.parametrize("kind", [DiscreteLaplaceMechanism, LaplaceMechanism])
def test_bounds_say_how_many_categories_there_are_and_noise_does_not(kind):
    """Catches categories by the release, which noise had made up to 11 of 0 to 3, and no more than 1."""
    for Z in ([[11.0], [1.0]], [[-1.0], [-2.0]]):
        release = Release(np.array(Z), kind(scale=1.0, bounds=(0, 3)))
        assert CategoricalKernel().resolve(release).n_categories == 4
    pairs = Release(np.array([[0.0, 1.0]]), kind(scale=1.0, bounds=[(0, 2), (0, 2)]))
    assert CategoricalKernel().resolve(pairs).n_categories == 3
    for bounds in (None, (1, 3), [(0, 2), (0, 3)]):
        release = Release(np.array([[0.0, 1.0]]), kind(scale=1.0, bounds=bounds))
        with pytest.raises(ValueError, match=r"does not say how many categories there are: pass kernel=Categorical"):
            CategoricalKernel().resolve(release)
        assert CategoricalKernel(5).resolve(release).n_categories == 5


def test_categories_taken_for_numbers_are_doubted(monkeypatch):
    """Catches silence where the default kernel is left in place for categories, and a doubt where it is not."""

    class Doubted(Exception):
        """All that comes before the chains is done."""

    def stop(*args):
        raise Doubted

    monkeypatch.setattr("sklearn_dpmix.estimators._chain_estimator.start_chains", stop)
    Z = np.arange(12)[:, None] % 3
    with pytest.warns(UserWarning, match=r"releases categories, and kernel NormalKernel.*kernel=\"categorical\""):
        with pytest.raises(Doubted):
            fit(RandomizedResponseMechanism(1.0, 3), Z)
    with warnings.catch_warnings(), pytest.raises(Doubted):
        warnings.simplefilter("error")
        fit(RandomizedResponseMechanism(1.0, 3), Z, kernel="categorical")


def test_answers_that_are_no_categories_are_named():
    """Catches a number of categories that is made of them before anything looks."""
    with pytest.raises(ValueError, match=r"Z must hold categories, .*got values in \[-2, -1\]"):
        PrivateDPMixture(kernel="categorical").fit([[-1], [-2]])


def test_a_release_of_all_records_has_no_labels():
    """Catches labels, predictions and scores of single releases where there are none."""
    Z = HISTOGRAM.privatize(np.full((10, 1), 0.3), random_state=0)
    model = fit(HISTOGRAM, Z, kernel=BetaKernel(), random_state=0)
    column = fit(HISTOGRAM, Z[:, None], kernel=BetaKernel(), random_state=0)
    np.testing.assert_array_equal(model.n_clusters_draws_, column.n_clusters_draws_)
    for name in ("labels_", "predict", "fit_predict", "score_release"):
        assert not hasattr(model, name)
    assert np.all(np.isfinite(model.score_samples([[0.2], [0.9]])))
    assert model.sample(3, random_state=0).shape == (3, 1)


def test_few_draws_are_traced_to_their_records():
    """Catches a choice that is slow, and one that forgets the parameters."""
    many = SmoothedHistogramMechanism(1.0, 4, 11, n_records=10)
    for mechanism, expected in (
        (HISTOGRAM, Sources),
        (many, Bins),
        (COUNTS, Bins),
        (HaarWaveletMechanism(1.0, 0), Cells),
    ):
        sampler = Cells(n_moves=3).resolve(mechanism, BetaKernel())
        assert type(sampler) is expected
        assert sampler.n_moves == 3
    assert type(Sources().resolve(many, BetaKernel())) is Sources


def test_sources_keep_their_books_when_clusters_outgrow_their_slots():
    """Catches records, bins or clusters that are lost or counted twice, also where a sweep is taken up again."""
    n, mechanism, kernel = 400, SmoothedHistogramMechanism(30.0, 4, 20, n_records=400), BetaKernel()
    Z, rng = mechanism.encode(np.linspace(0.1, 0.9, 20)[:, None]), np.random.default_rng(0)
    values = Sources()._lower(), mechanism._lower(), kernel._lower(n_features=1), DirichletProcess(60.0)._lower()
    state = Sources().init(values, Z, rng.random((n, 1)), kernel.sizes(1), rng)
    slots = state.counts.size
    for _ in range(20):
        state, draws = Sources().advance(values, Z, state, rng, 1, 0, 1)
        np.testing.assert_array_equal(np.bincount(state.alloc, minlength=state.counts.size), state.counts)
        assert draws.n_clusters[0] == np.count_nonzero(state.counts)
        bins = mechanism.bin_of(state.records[:n, 0, 0])
        np.testing.assert_array_equal(state.table[1, :4], np.bincount(bins, minlength=4))
    assert state.counts.size > slots


@pytest.mark.parametrize(
    "mechanism", [HaarWaveletMechanism(5.0, 1), HISTOGRAM, LaplaceMechanism(1.0, bounds=(0, 1)), None], ids=str
)
def test_auto_takes_any_discount(mechanism):
    """Catches "auto" that ends at a sampler which refuses the mixing, and advises "auto"."""
    n_records = getattr(mechanism, "n_records", None)
    *_, sampler = resolve_components(mechanism, "beta", PitmanYor(1.0, 0.6), "auto", n_records)
    assert isinstance(sampler, MixtureSampler)
    with pytest.raises(ValueError, match="discount"):
        resolve_components(mechanism, "beta", PitmanYor(1.0, 0.6), "slice", n_records)
