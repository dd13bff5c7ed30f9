"""Floating-point noise gives records away, and ``secure=True`` does not."""

import warnings

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpmix import PrivateLinearRegressionDA, PrivateNaiveBayesDA
from sklearn_dpmix.estimators.private._noise_source import SecureNoise, SystemNoise
from sklearn_dpmix.mechanisms import (
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    LaplaceMechanism,
    PerturbedHistogramMechanism,
)
from sklearn_dpmix.queries import ClassFeatureCounts, RegressionMoments

from .floats import is_off_grid, shown_by_attainable_sets, shown_by_multiples, shown_by_snapping
from .measure import shown_epsilon

pytest.importorskip("opendp")
NIGHTLY = pytest.mark.nightly

N = 4000
LAPLACE = LaplaceMechanism(epsilon=0.5, bounds=(0, 1))
GAUSSIAN = GaussianMechanism(0.5, 1e-6, bounds=(0, 4))
GAUSSIAN_QUICK = GaussianMechanism(scale=1.0, bounds=(0, 1))


def releases(mechanism, secure, n=N):
    """Releases of the values 0 and 1, each n times."""
    seeds = (None, None) if secure else (1, 2)
    return [mechanism.privatize(np.full((n, 1), value), secure=secure, random_state=seed)[:, 0]
            for value, seed in zip((0.0, 1.0), seeds, strict=True)]  # fmt: skip


# --- mechanisms ------------------------------------------------------------------------------------------------------


def test_multiples_break_numpys_noise():
    """The power of the check: more than is stated, where the stated ε is ½."""
    assert shown_by_multiples(*releases(LAPLACE, False)) > 2.0
    assert shown_by_multiples(*releases(GAUSSIAN_QUICK, False)) > 2.0


@NIGHTLY
def test_multiples_find_nothing_in_secure_noise():
    """The same event, at most the stated ε (of the Gaussian, that of a shift by 1 and the δ that goes with it)."""
    assert shown_by_multiples(*releases(LAPLACE, True)) <= 0.5
    zero, one = releases(GAUSSIAN_QUICK, True)
    assert shown_epsilon(is_off_grid(zero), is_off_grid(one), delta=1e-3) <= 4.0
    assert np.mean(is_off_grid(one)) > 0.05  # not impossible from 1 any more


def test_snapping_breaks_numpys_laplace_noise():
    """What is attainable from 0 is rarely so from 1."""
    zero, one = (z[:1500] for z in releases(LAPLACE, False))
    scale = LAPLACE.noise_scale
    assert shown_by_snapping(zero, one, scale) > 0.75
    assert shown_by_attainable_sets(zero, one, scale) > 1.5


@NIGHTLY
def test_snapping_finds_nothing_in_secure_noise():
    """OpenDP reaches every double."""
    zero, one = (z[:1500] for z in releases(LAPLACE, True))
    scale = LAPLACE.noise_scale
    assert shown_by_snapping(zero, one, scale) <= 0.5 and shown_by_attainable_sets(zero, one, scale) <= 0.5


@NIGHTLY
@pytest.mark.parametrize("noise", ["laplace", "discrete_laplace"])
def test_histograms(noise):
    """Counts of 0 and 1 in a bin."""
    mechanism = PerturbedHistogramMechanism(1.0, 2, n_records=1, noise=noise)
    first, second = np.array([[0.9]]), np.array([[0.1]])  # the first bin has 0 records, or 1

    def shown(secure):
        return shown_by_multiples(*(
            [mechanism.privatize(X, secure=secure, random_state=None if secure else i + 2 * k)[0] for i in range(600)]
            for k, X in enumerate((first, second))
        ))  # fmt: skip

    assert shown(True) <= 1.0
    assert (shown(False) > 1.0) == (noise == "laplace")


@NIGHTLY
def test_haar_coefficients():
    """The first coefficient of level 2 is 0 for one record and 2 for the other."""
    mechanism = HaarWaveletMechanism(1.0, 2)
    records = (0.9, 0.1)

    def shown(secure):
        zero, two = (
            mechanism.privatize(np.full((N, 1), x), secure=secure, random_state=None if secure else k)[:, 3]
            for k, x in enumerate(records)
        )
        return shown_by_multiples(zero, two)

    assert shown(False) > 1.0 and shown(True) <= 1.0


@NIGHTLY
@pytest.mark.parametrize(
    "mechanism",
    [DiscreteLaplaceMechanism(1.0, bounds=(0, 1)), DiscreteGaussianMechanism(1.0, 1e-3, bounds=(0, 1))],
    ids=["Laplace", "Gaussian"],
)
@pytest.mark.parametrize("secure", [False, True])
def test_integers_have_no_holes(mechanism, secure):
    """Every release is an integer whatever the record was."""
    assert all(np.array_equal(z, np.rint(z)) for z in releases(mechanism, secure, 500))


# --- DP-MCMC ---------------------------------------------------------------------------------------------------------


def from_source(source, n=N):
    return [np.array([source.release(np.array([v]), 1.0, 1.0)[0] for _ in range(n)]) for v in (0.0, 1.0)]


def test_the_systems_noise_is_broken_by_multiples():
    """Fresh entropy is no help against holes."""
    assert shown_by_multiples(*from_source(SystemNoise(), 2000)) > 1.0


@NIGHTLY
def test_secure_noise_of_dp_mcmc_is_not():
    """Of one release with a multiplier of 1, on paper (4, 1e-3)-DP and less."""
    zero, one = from_source(SecureNoise(), 2000)
    assert shown_epsilon(is_off_grid(zero), is_off_grid(one), delta=1e-3) <= 4.0
    assert np.mean(is_off_grid(one)) > 0.05


# --- fit(X, y) -------------------------------------------------------------------------------------------------------

SMALL = {"n_chains": 1, "n_warmup": 0, "n_draws": 4}
BAYES = PrivateNaiveBayesDA(LaplaceMechanism(1.0, query=ClassFeatureCounts(2, [2])), **SMALL)
LINEAR = PrivateLinearRegressionDA(LaplaceMechanism(1.0, query=RegressionMoments((-1, 1), (-1, 1), 1)), **SMALL)
#: The value of D has 0 where that of D' has 1, in the columns that are named.
FITS = {
    "PrivateNaiveBayesDA": (BAYES, ([[0], [0]], [0, 0]), ([[0], [1]], [0, 1]), [3]),
    "PrivateLinearRegressionDA": (
        LINEAR,
        ([[0.0]] * 3, [0.0] * 3),
        ([[1.0], [0.0], [0.0]], [1.0, 0.0, 0.0]),
        [0, 1, 2, 3, 4],
    ),
}


def released(estimator, data):
    """What a fit of a copy released."""
    return clone(estimator).fit(*map(np.array, data)).release_[0]


def events(estimator, *sides, columns, n=500):
    """Whether any of the columns is off the grid, in each of n fits of either side."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return [np.array([any(is_off_grid(released(estimator, data)[columns])) for _ in range(n)]) for data in sides]


#: A fit takes long; what the events show is far from what is stated, on either side.
LEVEL = 1e-3


@NIGHTLY
@pytest.mark.parametrize("name", FITS)
def test_a_fit_on_records_is_broken_without_secure(name):
    """The power of the check: NumPy noise in a fit shows more than is stated."""
    estimator, first, second, columns = FITS[name]
    assert shown_epsilon(*events(estimator, first, second, columns=columns), alpha=LEVEL) > 1.0


@NIGHTLY
@pytest.mark.parametrize("name", FITS)
def test_a_fit_on_records_is_not_broken_with_secure(name):
    """``secure=True`` of the estimator: the same event shows nothing."""
    estimator, first, second, columns = FITS[name]
    secure = clone(estimator).set_params(secure=True)
    found = events(secure, first, second, columns=columns)
    assert shown_epsilon(*found, alpha=LEVEL) <= 1.0 and found[1].any()


@NIGHTLY
@pytest.mark.parametrize("name", FITS)
def test_a_fit_on_records_without_secure_says_so(name):
    """A warning that names the remedy."""
    estimator, first, _, _ = FITS[name]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        clone(estimator).fit(*map(np.array, first))
    assert any("secure=True" in str(one.message) for one in caught)
