"""The square wave and the piecewise mechanism: their laws as printed, privacy by brute force, g by quadrature.

Their posteriors are in ``test_exact_channels.py``.  Compiled methods run here as the plain Python that they are.
"""

import itertools
from fractions import Fraction
from functools import partial

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from window_twins import ForgetsClamping

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import BetaKernel, NormalKernel, TruncatedNormalKernel
from sklearn_dpmix.mechanisms import (
    BinomialMechanism,
    HybridMechanism,
    PiecewiseMechanism,
    RandomizedResponseMechanism,
    SquareWaveMechanism,
    UnaryEncodingMechanism,
)
from sklearn_dpmix.mechanisms._randomized_response import CELLS, integer_odds

ALPHA = 1e-6
KINDS = pytest.mark.parametrize("kind", [SquareWaveMechanism, PiecewiseMechanism])
LOSSES = (0.05, 0.999, 1.001, 4.0)


def square_wave(epsilon, x):
    """(low end, window's ends, high end, p, q) of the release of a record in [0, 1], as Li et al. print them."""
    e = np.exp(epsilon)
    b = (epsilon * e - e + 1) / (2 * e * (e - 1 - epsilon))
    return -b, x - b, x + b, 1 + b, e / (2 * b * e + 1), 1 / (2 * b * e + 1)


def piecewise(epsilon, t):
    """The same of a record in [-1, 1], as Wang et al. print them."""
    s = np.exp(epsilon / 2)
    C, p = (s + 1) / (s - 1), (s * s - s) / (2 * s + 2)
    low = (C + 1) / 2 * t - (C - 1) / 2
    return -C, low, low + C - 1, C, p, p / (s * s)


PRINTED = {SquareWaveMechanism: (square_wave, (0.0, 1.0)), PiecewiseMechanism: (piecewise, (-1.0, 1.0))}


def law(kind, epsilon, y, bounds):
    """The same for a record y in other bounds."""
    printed, (low, high) = PRINTED[kind]
    scale = (bounds[1] - bounds[0]) / (high - low)
    ends = printed(epsilon, low + (np.clip(y, *bounds) - bounds[0]) / scale)
    return *(bounds[0] + scale * (end - low) for end in ends[:4]), ends[4] / scale, ends[5] / scale


def distribution(kind, epsilon, y, bounds):
    """Distribution function of the release."""
    low, first, last, high, p, q = law(kind, epsilon, y, bounds)
    return lambda z: np.interp(z, [low, first, last, high], np.cumsum([0, q * (first - low), p * (last - first),
                                                                     q * (high - last)]))  # fmt: skip


# --- law and guarantee ------------------------------------------------------------------------------------------------


@KINDS
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-1.0, 1.0), (-3.0, 5.0)])
def test_density_is_the_one_that_is_printed(kind, bounds):
    """Catches another b or C, a unit that is forgotten, records that are not clamped, and densities that do not sum."""
    for epsilon, y in itertools.product(LOSSES, (*np.linspace(*bounds, 5), bounds[0] - 2.0, bounds[1] + 7.0)):
        low, first, last, high, p, q = law(kind, epsilon, y, bounds)
        assert q * (first - low) + p * (last - first) + q * (high - last) == pytest.approx(1.0, rel=1e-12)
        inside = first + (last - first) * np.linspace(0.001, 0.999, 7)
        outside = [z for z in np.linspace(low, high, 23) if not first - 1e-9 <= z <= last + 1e-9]
        Z = np.array([*inside, *outside])[:, None]
        expected = np.log([p] * len(inside) + [q] * len(outside))
        found = kind(epsilon, bounds).log_density(Z, np.full_like(Z, y))
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("epsilon", LOSSES)
def test_width_of_the_square_wave_is_the_best(epsilon):
    """Catches a wrong b, from what it is for: the most that a release can tell of a record, in nats."""

    def told(b):
        p = np.exp(epsilon) / (2 * b * np.exp(epsilon) + 1)
        q = p * np.exp(-epsilon)
        return np.log(2 * b + 1) + 2 * b * p * np.log(p) + q * np.log(q)

    b = SquareWaveMechanism(epsilon).half_width()
    assert told(b) > max(told(0.99 * b), told(1.01 * b))
    assert SquareWaveMechanism(2 * epsilon).half_width(2) == b
    assert SquareWaveMechanism(1e-9).half_width() == pytest.approx(0.5, rel=1e-8)


@KINDS
@pytest.mark.parametrize("epsilon", [1e-6, 0.3, 1.0, 2.5, 12.0])
def test_privacy_loss_by_brute_force(kind, epsilon):
    """Catches a loss that is not ε, exactly, over pairs of records (outside the bounds, too) and releases."""
    mechanism = kind(epsilon, (-2.0, 3.0))
    line = np.array([-9.0, -2.0, -1.7, 0.0, 0.5, 2.2, 3.0, 9.0])
    ends = [law(kind, epsilon, y, (-2.0, 3.0)) for y in line]
    z = np.unique([0.5 * (a + b) for a, b in itertools.pairwise(np.unique(np.concatenate([one[:4] for one in ends])))])
    log_q = np.array([mechanism.log_density(z[:, None], np.full((len(z), 1), y)) for y in line])
    assert np.max(log_q.max(axis=0) - log_q.min(axis=0)) == pytest.approx(epsilon, rel=1e-9)
    pairs = np.array(list(itertools.product((-2.0, 0.4, 3.0), repeat=2)))
    two = kind(2 * epsilon, (-2.0, 3.0))
    releases = np.array(list(itertools.product(z[:: max(len(z) // 12, 1)], repeat=2)))
    log_q = np.array([two.log_density(releases, np.tile(pair, (len(releases), 1))) for pair in pairs])
    assert np.max(log_q.max(axis=0) - log_q.min(axis=0)) == pytest.approx(2 * epsilon, rel=1e-9)
    assert mechanism.guarantee().epsilon == epsilon and kind([0.1, epsilon]).guarantee().epsilon == max(0.1, epsilon)


@KINDS
@pytest.mark.parametrize("secure", [False, True])
def test_law_of_a_release(kind, secure):
    """Catches another law of draws; twins have the whole budget for each feature, or bounds that are not clamped to."""
    n, bounds = 4_000 if secure else 40_000, [(0.0, 1.0), (-4.0, 6.0)]
    mechanism = kind(3.0, bounds)
    for record in ((0.0, 5.0), (0.3, -7.0), (1.4, 6.0)):
        X = np.tile(record, (n, 1))
        Z = mechanism.privatize(X, secure=True) if secure else mechanism.privatize(X, random_state=5)
        mechanism.check_release(Z)
        for j in range(2):
            for epsilon, y, is_right in ((1.5, record[j], True), (3.0, record[j], False), (1.5, 2.0 * j + 0.6, False)):
                p = stats.kstest(Z[:, j], distribution(kind, epsilon, y, bounds[j])).pvalue
                assert p > ALPHA if is_right else p < ALPHA


@KINDS
def test_each_record_may_have_its_own_epsilon(kind):
    """Catches ε that is averaged or mixed up."""
    epsilon, Z, X = np.array([0.5, 2.0, 5.0]), np.array([[0.2], [0.9], [0.4]]), np.array([[0.3], [0.1], [0.4]])
    together = kind(epsilon, (0, 1)).log_density(Z, X)
    alone = [kind(one, (0, 1)).log_density(Z[[i]], X[[i]]).item() for i, one in enumerate(epsilon)]
    np.testing.assert_allclose(together, alone, rtol=1e-14)
    channel = kind(epsilon, (0, 1))._lower(n_records=3, n_features=1)
    np.testing.assert_allclose([channel.log_channel(Z, i, 0, X[i, 0]) for i in range(3)], alone, rtol=1e-12)
    released = kind(epsilon, (0, 1)).privatize(np.full((3, 1), 0.5), random_state=0)
    assert np.all(np.abs(released - 0.5) <= [[law(kind, one, 0.5, (0, 1))[3] - 0.5] for one in epsilon])


@pytest.mark.parametrize(
    "mechanism",
    [
        *(kind(epsilon=2.0, bounds=(0, 1)) for kind in (SquareWaveMechanism, PiecewiseMechanism, HybridMechanism)),
        RandomizedResponseMechanism(epsilon=1.0, n_categories=3),
        UnaryEncodingMechanism(epsilon=1.0, n_categories=3),
        BinomialMechanism(epsilon=1.0, n_trials=3),
    ],
    ids=repr,
)
def test_one_epsilon_is_kept_once(mechanism):
    """Catches fields of one number a record, which a summary of a billion would need 50 GB for."""
    few, many = (mechanism._lower(n_records=n, n_features=1, kernel=BetaKernel()) for n in (1, 10**12))
    assert [np.size(getattr(few, name)) for name in few._fields] == [
        np.size(getattr(many, name)) for name in few._fields
    ]


def test_the_piecewise_release_is_unbiased():
    """Catches a slope that is not (C + 1)/2, by the mean and the variance that are printed."""
    for epsilon, t in itertools.product((0.4, 3.0), (-1.0, 0.2, 0.9)):
        Z = PiecewiseMechanism(epsilon).privatize(np.full((400_000, 1), t), random_state=2)
        s = np.exp(epsilon / 2)
        variance = t * t / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)
        assert abs(Z.mean() - t) < 5 * np.sqrt(variance / Z.size)
        assert Z.var() == pytest.approx(variance, rel=0.02)


@pytest.mark.parametrize(("n", "k"), [(2**60, 1), (2**60, 2**59), (2**60, 2**60 - 1), (5, 2)])
def test_odds_of_a_secure_release_are_within_epsilon(n, k):
    """The exact ratio of a cell inside to one outside, in whole numbers, is from 1 to e^ε, and nearly that."""
    mpmath = pytest.importorskip("mpmath")
    for epsilon in (1e-17, 1e-9, 0.1, 1.0, 20.0, 50.0):
        t = integer_odds(epsilon, n, k)
        ratio = Fraction(t * (n - k), k * (n * CELLS - t))
        with mpmath.workdps(60):
            loss = mpmath.log(mpmath.mpf(ratio.numerator) / ratio.denominator)
            assert 0 <= loss <= epsilon and (epsilon < 1e-6 or loss > epsilon * (1 - 1e-9))


# --- where a chain starts ---------------------------------------------------------------------------------------------


@KINDS
def test_moments_are_those_of_the_records(kind):
    """Catches estimates that are biased, and guesses out of bounds."""
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.beta(5, 2, 200_000), 10 * rng.random(200_000)])
    Z = kind(4.0, [(0, 1), (0, 10)]).privatize(X, random_state=4)
    release = Release(Z, kind(4.0, [(0, 1), (0, 10)]))
    mean, variance = release.moments()
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=0.02)
    np.testing.assert_allclose(variance, X.var(axis=0), rtol=0.15)
    guess = release.guess()
    assert guess.shape == Z.shape and guess.min() > 0.0 and np.all(guess.max(axis=0) < [1.0, 10.0])


@KINDS
@pytest.mark.parametrize("epsilon", [0.5, 3.0])
def test_the_error_of_the_variance_is_that_of_releases(kind, epsilon):
    """Of 1500 equal records, over 400 releases; the tolerance is six standard errors of a standard deviation."""
    n, found = 1500, []
    for seed in range(400):
        mechanism = kind(epsilon, (0, 1))
        u, u_squared = mechanism._estimates(mechanism.privatize(np.full((n, 1), 0.7), random_state=seed))
        found.append(u_squared.mean() - u.mean() ** 2)
    expected, tolerance = mechanism._noise_error(np.array([0.7]), n), 6.0 / np.sqrt(800)
    assert np.std(found) == pytest.approx(expected, rel=tolerance)
    assert np.std(found) != pytest.approx(mechanism._noise_error(np.array([0.7]), n / 2), rel=tolerance)  # a twin
    Z = mechanism.privatize(np.random.default_rng(1).random((n, 1)), random_state=2)
    u, u_squared = mechanism._estimates(Z)
    unbiased = u_squared.mean() - u.mean() ** 2 + u.var(ddof=1) / n
    expected = unbiased + mechanism._noise_error(np.clip(u.mean(axis=0), 0, 1), n)
    np.testing.assert_allclose(mechanism.moments(Z)[1], np.clip(expected, 0.0025, u.mean() - u.mean() ** 2))


# --- g in closed form, and exact draws of records ---------------------------------------------------------------------


def setting(kernel):
    """(kernel's value, θ, density of records, where to integrate)."""
    if isinstance(kernel, BetaKernel):
        value, theta = kernel._lower(n_features=1), np.zeros((1, 3))
        theta[0, :2] = 2.5, 1.3
        return value, theta, stats.beta(2.5, 1.3).pdf, (0.0, 1.0)
    value, theta = kernel._lower(n_features=1), np.zeros((1, kernel.sizes(1)[0] + 4))
    value.put_params(theta, 0, 0, 0.7, 0.6)
    if isinstance(kernel, TruncatedNormalKernel):
        return value, theta, stats.truncnorm(-0.7 / 0.6, 0.3 / 0.6, 0.7, 0.6).pdf, (0.0, 1.0)
    return value, theta, stats.norm(0.7, 0.6).pdf, (-6.0, 7.0)


PRIOR = {"mean": 0.5, "mean_precision": 0.1, "shape": 3.0, "scale": 0.1}
CASES = [
    (kind, kernel)
    for kind in (SquareWaveMechanism, PiecewiseMechanism)
    for kernel in (NormalKernel(**PRIOR), TruncatedNormalKernel(**PRIOR, bounds=(0, 1)), BetaKernel())
]


@pytest.mark.parametrize(("kind", "kernel"), CASES)
def test_g_is_the_integral(kind, kernel):
    """Catches a window that is none of the channel, in g, in pieces or in draws of records, where bounds clamp, too."""
    value, theta, density, (low, high) = setting(kernel)
    for epsilon in (0.3, 4.0):
        least, _, _, most, _, _ = law(kind, epsilon, 0.5, (0.0, 1.0))
        Z = least + (most - least) * np.array([[0.001], [0.03], [0.3], [0.5], [0.9], [0.999]])
        channel = kind(epsilon, (0.0, 1.0))._lower(n_records=len(Z), n_features=1)
        for i, z in enumerate(Z[:, 0]):
            cuts = sorted({low, high, 0.0, 1.0, *(c for c in np.clip(channel.window(Z, i, 0), low, high))})
            q = [np.exp(channel.log_channel(Z, i, 0, 0.5 * (a + b))) * quad(density, a, b, epsabs=1e-13)[0]
                 for a, b in itertools.pairwise(cuts) if a < b]  # fmt: skip
            found = channel.log_marginal(value, Z, i, 0, theta, 0)
            assert found == pytest.approx(np.log(sum(q)), rel=1e-8, abs=1e-9)
            pieces = [channel.log_piece_mass(value, Z, i, 0, theta, 0, p) for p in range(3)]
            assert found == pytest.approx(np.logaddexp.reduce(pieces), rel=1e-9, abs=1e-11)
            inside = [y for y in np.linspace(low, high, 200) if abs(y) > 1e-6]
            expected = kind(epsilon, (0.0, 1.0)).log_density(np.full((len(inside), 1), z), np.array(inside)[:, None])
            away = np.min(np.abs(np.subtract.outer(inside, channel.window(Z, i, 0))), axis=1) > 1e-9
            log_q = np.array([channel.log_channel(Z, i, 0, y) for y in inside])
            np.testing.assert_allclose(log_q[away], expected[away], rtol=1e-10)
        rng = np.random.default_rng(7)
        y = np.array([channel.impute(rng, value, Z, 1, 0, theta, 0) for _ in range(4_000)])
        first, last = np.clip(channel.window(Z, 1, 0), low, high)
        mass = [quad(density, a, b)[0] for a, b in ((low, first), (first, last), (last, high))]
        share = np.exp(epsilon) * mass[1] / (mass[0] + np.exp(epsilon) * mass[1] + mass[2])
        assert stats.binomtest(int(np.sum((y >= first) & (y <= last))), len(y), share).pvalue > ALPHA


def test_a_window_that_forgets_clamping_is_found():
    """The twin of the test above."""
    value, theta, density, _ = setting(NormalKernel(**PRIOR))
    Z = np.array([[1.1]])
    right, wrong = (kind(2.0)._lower(n_records=1, n_features=1) for kind in (SquareWaveMechanism, ForgetsClamping))
    beyond = quad(density, 1.0, 9.0)[0]
    g, other = (np.exp(channel.log_marginal(value, Z, 0, 0, theta, 0)) for channel in (right, wrong))
    p, q = (np.exp(right.log_channel(Z, 0, 0, y)) for y in (2.0, -2.0))
    assert g - other == pytest.approx((p - q) * beyond, rel=1e-8)
    assert right.log_channel(Z, 0, 0, 2.0) != wrong.log_channel(Z, 0, 0, 2.0)


@pytest.mark.parametrize("kind, most", [(SquareWaveMechanism, 240.0), (PiecewiseMechanism, 6.0)])
def test_generous_bounds_do_not_widen_a_default_prior(kind, most):
    """Catches a prior that holds a population for impossible that is narrow beside the bounds, and well known.

    How well it is known differs: the square wave has a share of its releases anywhere.
    """
    X, mechanism = np.random.default_rng(0).normal(37.0, 0.3, (2000, 1)), kind(20.0, (0.0, 100.0))
    mean, variance = Release(mechanism.privatize(X, random_state=1), mechanism).moments()
    assert abs(mean[0] - 37.0) < 0.1
    assert 0.8 * X.var() < variance[0] < most * X.var() < 25.0


@KINDS
def test_features_of_far_different_units(kind):
    """Catches a window that is measured by the floating-point numbers of another feature."""
    X, unit = np.random.default_rng(0).random((50, 2)), np.array([2.0**-20, 2.0**30])
    one, other = kind(4.0, (0, 1)), kind(4.0, [(0, unit[0]), (0, unit[1])])
    np.testing.assert_allclose(other.privatize(X * unit, random_state=1), one.privatize(X, random_state=1) * unit)
    with pytest.raises(ValueError, match=r"has a window of width .*e-0[78], which"):  # not 1e-12's
        kind(8.0, [(0, 1e-12), (1e9, 1e9 + 1e-6)]).privatize([[0.0, 1e9]])


# --- bad input --------------------------------------------------------------------------------------------------------


def fit(mechanism, Z):
    return PrivateDPMixture(mechanism, n_chains=1, n_warmup=5, n_draws=5).fit(Z)


@KINDS
def test_wrong_parameters_and_releases(kind):
    """Catches input that gets through, or an error that does not say what is wrong."""
    name = kind.__name__
    for mechanism, Z, message in (
        (kind(), [[0.5]], "epsilon must be positive"),
        (kind(0.0), [[0.5]], "epsilon must be positive"),
        (kind(-1.0), [[0.5]], "epsilon must be positive"),
        (kind([1.0, 2.0, 3.0]), [[0.5], [0.5]], "epsilon has shape .3,., but there are 2 records.*loop over the folds"),
        (kind(1.0, (1, 0)), [[0.5]], "bounds must be finite with lo < hi"),
        (kind(1.0, None), [[0.5]], "bounds must be a pair"),
        (kind(1.0, [(0, 1), (0, 1)]), [[0.5]], "has 2 pair"),
        (kind(1.0), [[0.5], [5.2]], r"Z must lie in \[-.*\], the range of " + name + r".*row 1, column 0 has 5\.2"),
        (kind(700.0), [[0.5]], rf"{name} with epsilon=700\.0 has a window of width .*use a smaller epsilon"),
        (kind(20.0, (1e9, 1e9 + 1)), [[1e9 + 0.5]], r"epsilon=20\.0 has a window .*bounds=\(1000000000\.0, 10"),
    ):
        with pytest.raises(ValueError, match=message):
            fit(mechanism, Z)
    with pytest.raises(ValueError, match="takes no seed, got random_state=0"):
        kind(1.0).privatize([[0.5]], secure=True, random_state=0)
    with pytest.raises(ValueError, match="but X"):
        kind(1.0).log_density([[0.5]], [[0.5], [0.5]])
    with pytest.raises(ValueError, match="NaN"):
        kind(1.0).privatize([[np.nan]])
    with pytest.raises(ValueError, match="too large for floating point: choose a larger epsilon"):
        PiecewiseMechanism(1e-305).privatize([[0.5]])


@KINDS
def test_proposals_near_a_release_have_their_density(kind):
    """KS of draws against the density's integral, where the window is within the bounds and where it goes on beyond."""
    mechanism, rng = kind(9.0, bounds=(-1, 3)), np.random.default_rng(5)
    releases = np.array([[0.7], [-1.0], [3.0]])
    channel = mechanism._lower(n_records=3, n_features=1)
    assert channel.can_reverse() and not kind(2.0)._lower(n_records=1, n_features=1).can_reverse()
    for i in range(3):
        assert channel.log_reverse(releases, i, 0, -1.1) == channel.log_reverse(releases, i, 0, 3.1) == -np.inf
        edges = np.unique([-1.0, 3.0, *np.clip(channel.window(releases, i, 0), -1.0, 3.0)])
        heights = [np.exp(channel.log_reverse(releases, i, 0, y)) for y in 0.5 * (edges[1:] + edges[:-1])]
        cdf = np.append(0.0, np.cumsum(heights * np.diff(edges)))
        assert cdf[-1] == pytest.approx(1.0, rel=1e-9)
        draws = [channel.draw_reverse(rng, releases, i, 0) for _ in range(3000)]
        assert stats.kstest(draws, partial(np.interp, xp=edges, fp=cdf)).pvalue > ALPHA


@pytest.mark.parametrize("kind", [SquareWaveMechanism, PiecewiseMechanism, HybridMechanism])
@pytest.mark.parametrize("epsilon", [0.3, 4.0, 24.0])
def test_chains_start_within_the_windows(kind, epsilon):
    """Proposals from a kernel hardly ever hit narrow ones."""
    y = np.random.default_rng(0).uniform(-1, 3, (50, 2))
    Z = kind(epsilon, bounds=(-1, 3)).privatize(y, random_state=1)
    mechanism = kind(np.full(50, epsilon), bounds=(-1, 3))
    guess, channel = mechanism.guess(Z), mechanism._lower(n_records=50, n_features=2)
    assert np.all(np.abs(guess - 1.0) < 2.0)
    for i, j in np.ndindex(Z.shape):
        if kind is not HybridMechanism or channel.sign(Z, i, j) == 0.0:
            low, high = channel.window(Z, i, j)
            assert low <= guess[i, j] <= high
