"""What mechanisms state at the edges of floating point: right to 1e-9, or refused in words that name the parameter."""

from math import inf

import numpy as np
import pytest
from scipy.linalg import solve_triangular

import sklearn_dpmix.mechanisms as mechanisms
from sklearn_dpmix.mechanisms import (
    BinomialMechanism,
    DiscreteGaussianMechanism,
    DiscreteLaplaceMechanism,
    FiniteChannelMechanism,
    GaussianMechanism,
    HaarWaveletMechanism,
    HybridMechanism,
    LaplaceMechanism,
    MultivariateLaplaceMechanism,
    MultivariateNormalMechanism,
    MultivariateTMechanism,
    PerturbedHistogramMechanism,
    PiecewiseMechanism,
    PublishedScaleMechanism,
    RandomizedResponseMechanism,
    SmoothCauchyMechanism,
    SmoothedHistogramMechanism,
    SmoothGaussianMechanism,
    SmoothLaplaceMechanism,
    SmoothStudentTMechanism,
    SquareWaveMechanism,
    UnaryEncodingMechanism,
    _elliptical,
)
from sklearn_dpmix.mechanisms._randomized_response import CELLS, integer_odds
from sklearn_dpmix.privacy import gaussian_scale
from sklearn_dpmix.privacy._guarantee import half_square
from sklearn_dpmix.queries import BoundedRecords, SmoothMedian

mpmath = pytest.importorskip("mpmath")
mpf = mpmath.mpf

LOSSES = [1e-320, 1e-300, 1e-160, 1e-100, 1e-30, 1e-16, 1e-5, 1.0, 30.0, 1e3, 1e5, 1e50, 1e154, 1e200, 1e308]
WIDTHS = [1e-300, 2.7e-162, 1e-100, 1e-5, 1.0, 1e5, 1e100, 1e200, 1e300]
LARGEST, SMALLEST = mpf(np.finfo(float).max), mpf(np.finfo(float).tiny)
MEDIAN = SmoothMedian(bounds=(0, 1))


@pytest.fixture(autouse=True)
def many_digits():
    with mpmath.workdps(60):
        yield


def agrees(stated, true):
    """Right to 1e-9; infinite beyond the largest double, and never less than what is below the smallest normal one."""
    if true > LARGEST * (1 - mpf(1e-9)):
        return stated == inf or abs(stated / true - 1) < 1e-9
    if 0 < true < SMALLEST:
        return true * (1 - mpf(1e-9)) <= stated <= max(2 * true, true + mpf(1e-321))
    return abs(mpf(stated) - true) <= mpf(1e-9) * true


def stated(build, names, n_features=None):
    """(mechanism, what it states), or None where it is refused by name: any other error, and any warning, fails."""
    try:
        mechanism = build()
        return mechanism, mechanism.guarantee(n_features)
    except ValueError as error:
        assert any(f"{name}=" in str(error) or str(error).startswith(f"{name} ") for name in names), error
        return None


def normal_log_delta(epsilon, shift):
    """log of the exact δ of normal noise at a shift in standard deviations, or an upper bound where that is below -1e6.

    δ = φ(x)(R(x) - R(x + s)), x = ε/s - s/2 and R the Mills ratio, at most √(π/2) for x >= 0.
    """
    with mpmath.workdps(60 + int(abs(mpmath.log10(shift)) + abs(mpmath.log10(epsilon)) / 2)):
        x = epsilon / shift - shift / 2
        if x > 1500:
            return -x * x / 2
        if x < -1500:
            return mpf(0)
        return mpmath.log(mpmath.ncdf(-x) - mpmath.exp(epsilon + mpmath.log(mpmath.ncdf(-x - shift))))


@pytest.mark.parametrize("n_features", [1, 3])
@pytest.mark.parametrize("given", ["epsilon", "rho", "scale"])
@pytest.mark.parametrize("cls", [LaplaceMechanism, GaussianMechanism])
def test_additive_noise_states_what_it_has(cls, given, n_features):
    """The exact loss of the noise in force, over all sizes of ε, ρ, scales and bounds."""
    n_right = 0
    for value in LOSSES:
        for width in WIDTHS:
            parts = {given: value, "bounds": (0, width)}
            if cls is GaussianMechanism and given == "epsilon":
                parts["delta"] = 1e-5
            found = stated(lambda parts=parts: cls(**parts), [given, "bounds"], n_features)
            if found is None:
                continue
            n_right += 1
            scale = mpf(found[0].noise_scale_for(n_features))
            if cls is LaplaceMechanism:
                epsilon = n_features * mpf(width) / scale
                assert agrees(found[1].epsilon, epsilon), (value, width, found)
                assert agrees(found[1].rho, epsilon**2 / 2), (value, width, found)
            else:
                shift = mpmath.sqrt(n_features) * mpf(width) / scale
                assert agrees(found[1].rho, shift**2 / 2), (value, width, found)
                if given == "epsilon":
                    assert found[1].epsilon == value and found[1].delta == 1e-5
    assert n_right > 60


@pytest.mark.parametrize("calibration", ["analytic", "classical"])
@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-17, 1e-250])
def test_normal_noise_has_the_delta_that_it_states(delta, calibration):
    """At any ε, to 1e-9 where doubles can tell; never more."""
    for epsilon in LOSSES:
        found = stated(
            lambda e=epsilon: GaussianMechanism(e, delta, bounds=(0, 1), calibration=calibration), ["epsilon", "delta"]
        )
        if found is None:
            continue
        log_delta = normal_log_delta(mpf(epsilon), 1 / mpf(found[0].noise_scale))
        assert log_delta <= mpmath.log(found[1].delta) + 1e-9 if found[1].delta else log_delta < -700, epsilon
        if calibration == "analytic" and 1e-5 <= epsilon <= 30:
            assert log_delta >= mpmath.log(delta) - 1e-8


def test_a_loss_and_a_delta_that_are_tiny_together():
    """Squares of shifts below 1e-162 underflow: the scale for ε = δ = 1e-200 must not stop there."""
    for value in (1e-200, 1e-300):
        scale = gaussian_scale(value, value)
        assert abs(normal_log_delta(mpf(value), 1 / mpf(scale)) - mpmath.log(value)) < 1e-9


@pytest.mark.parametrize("delta", [0.3, 1e-5, 1e-100])
def test_discrete_normal_noise_has_the_delta_that_it_states(delta):
    """Summed over the integers, where they are few enough; and rounding of σ at a large ε costs nothing."""
    for width in (1, 5, 300):
        for epsilon in (1.0, 30.0, 1e3, 1e5, 1e8, 1e9, 1e50, 1e308):
            found = stated(lambda e=epsilon, w=width: DiscreteGaussianMechanism(e, delta, bounds=(0, w)), ["epsilon"])
            if found is None or found[0].noise_scale > 30.0:
                continue
            sigma = mpf(found[0].noise_scale)
            reach = width + int(25 * sigma) + 3
            weight = [mpmath.exp(-(mpf(k) ** 2) / (2 * sigma**2)) for k in range(reach + width + 1)]
            factor = mpmath.exp(mpf(epsilon))
            terms = [weight[abs(k)] - factor * weight[abs(k + width)] for k in range(-reach, reach + 1)]
            exact = mpmath.fsum(max(term, mpf(0)) for term in terms) / (weight[0] + 2 * mpmath.fsum(weight[1:]))
            assert exact <= mpf(delta) * (1 + mpf(1e-9)), (width, epsilon)


def test_discrete_noise_states_what_it_has():
    for value in LOSSES:
        for width in WIDTHS:
            for cls, given in (
                (DiscreteLaplaceMechanism, "epsilon"),
                (DiscreteLaplaceMechanism, "scale"),
                (DiscreteLaplaceMechanism, "rho"),
                (DiscreteGaussianMechanism, "rho"),
                (DiscreteGaussianMechanism, "scale"),
            ):
                found = stated(lambda c=cls, g=given, v=value, w=width: c(**{g: v}, bounds=(0, w)), [given, "bounds"])
                if found is not None:
                    loss = mpf(width) / mpf(found[0].noise_scale)
                    assert agrees(found[1].rho, loss**2 / 2), (cls, value, width)
                    assert cls is DiscreteGaussianMechanism or agrees(found[1].epsilon, loss)


def least_singular_value(factor):
    exact = mpmath.matrix(factor.tolist())
    return mpmath.sqrt(min(mpmath.eigsy(exact.T * exact, eigvals_only=True)))


def farthest_corner(factor):
    """The longest L⁻¹d over the corners d of the cube from -1 to 1, of those that come out longest in floats."""
    k = len(factor)
    corners = np.where(np.arange(2 ** (k - 1))[:, None] >> np.arange(k) & 1, 1.0, -1.0)
    lengths = np.linalg.norm(solve_triangular(factor, corners.T, lower=True), axis=0)
    longest = mpf(0)
    for i in np.argsort(lengths)[-5:]:
        found: list = []
        for row, d in zip(factor.tolist(), corners[i].tolist(), strict=True):  # mpmath calls tiny pivots 0
            found.append((d - sum(mpf(a) * b for a, b in zip(row, found, strict=False))) / mpf(row[len(found)]))
        longest = max(longest, mpmath.norm(found))
    return longest


def elliptical_covariances():
    i = np.arange(13)
    hilbert = 1.0 / (i[:, None] + i + 1.0)
    for k in (2, 3, 5, 8, 10, 12, 13):
        yield hilbert[:k, :k]
    for one in (1e-320, 1e-300, 1e-160, 1.0, 1e160, 1e308):
        yield np.array([[one]])
        yield np.diag([one, 1.0, 1e-12])
    yield np.array([[1e12, 0.9], [0.9, 1e-12]])
    yield np.array([[1.0, 1.0 - 1e-13], [1.0 - 1e-13, 1.0]])


@pytest.mark.parametrize("cls", [MultivariateNormalMechanism, MultivariateLaplaceMechanism, MultivariateTMechanism])
def test_elliptical_noise_states_what_its_factor_has(cls, monkeypatch):
    """The largest loss at a corner of the bounds; of many numbers, that along the factor's narrowest direction.

    Refused where that could be rounding.  Catches the smallest eigenvalue of the covariance, which of Hilbert's matrix
    of order 13 is rounding alone.
    """
    n_right, more = 0, {"df": 4.0} if cls is MultivariateTMechanism else {}
    for covariance in elliptical_covariances():
        k, factor = len(covariance), np.linalg.cholesky(covariance)
        farthest = farthest_corner(factor) if k < 13 else mpmath.sqrt(k) / least_singular_value(factor)
        for width in (1e-300, 1.0, 1e150):
            query = BoundedRecords((0, width), n_features=k)
            found = stated(lambda c=covariance, q=query: cls(c, **more, query=q), ["covariance"])
            if found is None:
                continue
            n_right += 1
            distance = mpf(width) * farthest
            if cls is MultivariateNormalMechanism:
                assert agrees(found[1].rho, distance**2 / 2), covariance
            else:
                is_t = cls is MultivariateTMechanism
                epsilon = (4 + k) * mpmath.asinh(distance / 4) if is_t else distance
                assert agrees(found[1].epsilon, epsilon), covariance
    assert n_right > 20
    monkeypatch.setattr(_elliptical, "LARGEST_ERROR", 1e-16)
    with pytest.raises(ValueError, match="covariance is too close to singular"):
        cls(covariance, **more, query=query).guarantee()


BY_EPSILON = {
    "randomised response": lambda e: RandomizedResponseMechanism(e, 4),
    "square wave": lambda e: SquareWaveMechanism(e),
    "piecewise": lambda e: PiecewiseMechanism(e),
    "hybrid": lambda e: HybridMechanism(e),
    "unary": lambda e: UnaryEncodingMechanism(e, 4),
    "binomial": lambda e: BinomialMechanism(e, 5),
    "haar": lambda e: HaarWaveletMechanism(e, 2),
    "histogram": lambda e: PerturbedHistogramMechanism(e, 4, n_records=50),
    "cauchy": lambda e: SmoothCauchyMechanism(e, query=MEDIAN, xi=1e-3 * e),
    "student": lambda e: SmoothStudentTMechanism(e, query=MEDIAN, xi=1e-3 * e),
    "student 30": lambda e: SmoothStudentTMechanism(e, query=MEDIAN, xi=1e-3 * e, df=30),
    "normal": lambda e: SmoothGaussianMechanism(e, 1e-6, query=MEDIAN, xi=1e-3 * e),
    "laplace": lambda e: SmoothLaplaceMechanism(e, 1e-6, query=MEDIAN, xi=1e-3 * e),
    "published": lambda e: PublishedScaleMechanism(e, 1e-6, query=MEDIAN, xi=1e-3 * e),
}


@pytest.mark.parametrize("name", BY_EPSILON)
def test_a_loss_is_stated_as_it_was_asked_for_or_refused_by_name(name):
    """Catches bare OverflowError and ZeroDivisionError; the noise itself is compared elsewhere."""
    n_right = 0
    for epsilon in LOSSES:
        found = stated(lambda e=epsilon: BY_EPSILON[name](e), ["epsilon"])
        if found is not None:
            n_right += 1
            assert agrees(found[1].epsilon, mpf(epsilon))
            assert found[1].rho == inf or agrees(found[1].rho, mpf(epsilon) ** 2 / 2)
    assert n_right >= 5


def test_a_matrix_states_its_largest_ratio_and_never_less():
    """Of odds from even to e^700; what rounding may take is in it."""
    for ratio in (1.0 + 1e-15, 1.0 + 1e-8, 1.5, 1e3, 1e300):
        least = 1.0 / (1.0 + ratio)
        matrix = [[1.0 - least, least], [least, 1.0 - least]]
        true = mpmath.log(max(mpf(1.0 - least) / mpf(least), mpf(least) / mpf(1.0 - least)))
        found = FiniteChannelMechanism(matrix).guarantee().epsilon
        assert true <= found <= true * (1 + mpf(1e-9)) + mpf(1e-14)


@pytest.mark.parametrize("multiplier", [1e-300, 1e-5, 1e300])
def test_a_multiplier_out_of_all_measure_is_verified_or_refused(multiplier):
    for cls, more in (
        (SmoothCauchyMechanism, {}),
        (SmoothStudentTMechanism, {}),
        (SmoothGaussianMechanism, {"delta": 1e-6}),
    ):
        found = stated(lambda c=cls, m=more: c(1.0, **m, query=MEDIAN, xi=0.01, multiplier=multiplier), ["multiplier"])
        assert (found is None) == (multiplier < 1.0)


def test_smoothed_histograms_state_the_loss_of_the_smoothing_in_force():
    for epsilon in LOSSES:
        found = stated(lambda e=epsilon: SmoothedHistogramMechanism(e, 4, 20, n_records=100), ["epsilon"])
        if found is not None:
            delta = mpf(found[0].smoothing_)
            assert agrees(found[1].epsilon, 20 * mpmath.log1p((1 - delta) * 4 / (delta * 100)))


def test_every_mechanism_is_looked_at():
    """A mechanism that is added must be added here."""
    bases = {"AdditiveMechanism", "BinnedChannel", "NoNoise", "RecordChannel"}
    classes = {name for name in mechanisms.__all__ if isinstance(getattr(mechanisms, name), type)}
    assert classes - bases <= {name for name, one in globals().items() if isinstance(one, type)}


@pytest.mark.parametrize("n_categories", [2, 3, 1000, 2**31])
def test_secure_randomised_response_holds_any_epsilon(n_categories):
    """The exact log ratio of its whole numbers is from 0 to ε, and nearly ε where that is larger than rounding."""
    for epsilon in [*LOSSES, 3e-16, 1e-15, 2e-15, 1e-12, 1e-9, 5.0, 50.0, 61.0, 63.0]:
        t, whole = integer_odds(epsilon, n_categories), n_categories * CELLS
        loss = mpmath.log(mpf(t) * (n_categories - 1) / (whole - t))
        assert 0 <= loss <= mpf(epsilon), epsilon
        if 1e-5 <= epsilon <= 50.0:
            assert loss >= mpf(epsilon) * (1 - mpf(1e-9))


def test_secure_randomised_response_draws_with_these_odds(monkeypatch):
    import secrets

    mechanism, threshold = RandomizedResponseMechanism(2e-16, 2), integer_odds(1e-16, 2)
    assert threshold == CELLS
    for drawn, kept in ((threshold - 1, True), (threshold, False)):
        monkeypatch.setattr(secrets, "randbelow", lambda n, drawn=drawn: drawn if n == 2 * CELLS else 0)
        released = mechanism.privatize([[0, 1], [1, 1]], secure=True)
        assert np.array_equal(released == [[0, 1], [1, 1]], np.full((2, 2), kept))


def test_half_a_square_is_never_less_than_it_is():
    for loss in LOSSES:
        assert agrees(half_square(loss), mpf(loss) ** 2 / 2)
    assert half_square(0.0) == 0.0 and half_square(2.0) == 2.0 and half_square(1e308) == inf
