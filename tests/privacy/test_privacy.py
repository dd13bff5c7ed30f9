"""Privacy arithmetic against closed forms, inverse pairs and mpmath; broken twins are rejected."""

import math

import numpy as np
import pytest
from renyi_oracle import exact_delta
from scipy.special import log_ndtr

from sklearn_dpmix.privacy import (
    PrivacyGuarantee,
    approx_dp_to_zcdp,
    gaussian_delta,
    gaussian_scale,
    zcdp_to_approx_dp,
)

mpmath = pytest.importorskip("mpmath")

EPSILONS = [0.0, *10.0 ** np.arange(-12, 4.1, 1.0), 0.3, 1.7, 25.0]
DELTAS = [1e-200, 1e-30, 1e-9, 1e-5, 0.01, 0.25, 0.9, 0.999]


def worst_error(delta_of):
    """Largest relative error over the grid, of values that a float can hold."""
    worst = 0.0
    for epsilon in EPSILONS:
        for mu in 10.0 ** np.arange(-24, 4.1, 0.5):
            exact = exact_delta(epsilon, mu)
            if exact > 1e-290:
                worst = max(worst, float(abs(delta_of(epsilon, float(mu)) - exact) / exact))
    return worst


# ---------------------------------------------------------------- the Gaussian mechanism's delta


def test_gaussian_delta_is_exact_on_a_wide_grid():
    """Relative error below 1e-10; the textbook difference of two normal probabilities loses all digits."""

    def textbook(epsilon, mu):
        s = math.sqrt(2 * mu)
        first, second = log_ndtr((mu - epsilon) / s), epsilon + log_ndtr(-(mu + epsilon) / s)
        return math.exp(first) * -math.expm1(min(second - first, 0.0))

    assert worst_error(gaussian_delta) < 1e-10
    assert worst_error(textbook) > 0.1


@pytest.mark.parametrize("epsilon, mu", [(0.0, 0.5), (1.0, 0.02), (1.0, 3.0), (7.0, 10.0), (30.0, 2.0)])
def test_gaussian_delta_is_the_expected_excess_loss(epsilon, mu):
    """δ = E[(1 - exp(ε - L))+] for L ~ N(μ, 2μ), by quadrature: the definition, not Theorem 8."""
    with mpmath.workdps(30):
        top = max(mu, epsilon) + 40 * math.sqrt(2 * mu)
        points = [epsilon, *(epsilon + np.geomspace(1e-3, 1, 25) * (top - epsilon))]
        integral = mpmath.quad(
            lambda loss: (1 - mpmath.exp(epsilon - loss)) * mpmath.npdf(loss, mu, mpmath.sqrt(2 * mu)), points
        )
    assert gaussian_delta(epsilon, mu) == pytest.approx(float(integral), rel=1e-11, abs=0)


def test_gaussian_delta_at_its_ends():
    assert gaussian_delta(0.0, 0.0) == gaussian_delta(1.0, 0.0) == 0.0
    for mu in (1e-20, 1e-3, 2.0):  # total variation of N(0, 1) and N(s, 1), s = √(2μ)
        assert gaussian_delta(0.0, mu) == pytest.approx(math.erf(math.sqrt(mu) / 2), rel=1e-12, abs=0)
    assert gaussian_delta(1.0, 1e4) == 1.0
    assert gaussian_delta(100.0, 0.01) == 0.0


def test_gaussian_delta_is_monotone():
    """Less at larger ε, more at larger μ: also across the switch of formulas at √(2μ) = 1e-3."""
    for mu in (1e-8, 0.5e-6, 0.01, 3.0):
        values = [gaussian_delta(e, mu) for e in np.geomspace(1e-9, 40 * math.sqrt(2 * mu), 300)]
        assert np.all(np.diff(values) <= 0)
    for epsilon in (0.0, 1e-6, 1e-3, 1.0):
        values = [gaussian_delta(epsilon, m) for m in np.geomspace(max(epsilon, 1e-9) ** 2 / 500, 100, 400)]
        assert np.all(np.diff(values) >= 0)
    assert gaussian_delta(1e-4, 0.5e-6 * (1 - 1e-9)) == pytest.approx(gaussian_delta(1e-4, 0.5e-6), rel=1e-7, abs=0)


def test_errata_numbers_of_the_classical_calibration():
    """√(2 ln(1.25/δ))/ε is not (ε, δ)-DP beyond ε = 1: .041 at (10, .01), .78 at (25, .01), about 1 at ε = 50."""
    for epsilon, delta, actual in ((10.0, 0.01, 0.041), (25.0, 0.01, 0.78), (50.0, 0.01, 1.0)):
        sigma = math.sqrt(2 * math.log(1.25 / delta)) / epsilon
        assert gaussian_delta(epsilon, 0.5 / sigma**2) == pytest.approx(actual, abs=0.0051)
    settings = [(e, d) for e in (5, 10, 25, 50) for d in (0.01, 0.1, 0.25)]
    broken = [gaussian_delta(e, 0.25 * e**2 / math.log(1.25 / d)) > d for e, d in settings]
    assert sum(broken) == 9  # of the twelve of §4.3
    for epsilon in (0.01, 0.3, 0.999):  # where it is proved
        for delta in (1e-12, 1e-5, 0.1, 0.9):
            assert gaussian_delta(epsilon, 0.25 * epsilon**2 / math.log(1.25 / delta)) <= delta


# ---------------------------------------------------------------- the smallest noise


@pytest.mark.parametrize("delta", DELTAS)
def test_gaussian_scale_is_the_smallest_that_is_private(delta):
    """The noise satisfies (ε, δ) by mpmath, never only nearly; a part in 10⁹ less does not."""
    for epsilon in EPSILONS[1:]:
        sigma = mpmath.mpf(gaussian_scale(epsilon, delta))
        assert exact_delta(epsilon, 1 / (2 * sigma**2)) <= delta
        assert exact_delta(epsilon, 1 / (2 * (sigma * (1 - mpmath.mpf("1e-9"))) ** 2)) > delta


def test_gaussian_scale_is_proportional_to_the_sensitivity():
    assert gaussian_scale(0.7, 1e-6, 3.0) == pytest.approx(3 * gaussian_scale(0.7, 1e-6), rel=1e-15)


def test_gaussian_scale_is_monotone():
    for delta in (1e-9, 0.1):
        assert np.all(np.diff([gaussian_scale(e, delta) for e in np.geomspace(1e-6, 1e3, 200)]) < 0)
    for epsilon in (1e-3, 1.0, 50.0):
        assert np.all(np.diff([gaussian_scale(epsilon, d) for d in np.geomspace(1e-30, 0.999, 200)]) < 0)


# ---------------------------------------------------------------- zCDP


@pytest.mark.parametrize("delta", DELTAS)
def test_conversions_are_inverses(delta):
    """Both ways over twelve decades; subtracting the two roots would lose small ε."""
    for value in 10.0 ** np.arange(-9, 3.1, 0.5):
        assert zcdp_to_approx_dp(approx_dp_to_zcdp(value, delta), delta) == pytest.approx(value, rel=1e-12, abs=0)
        assert approx_dp_to_zcdp(zcdp_to_approx_dp(value, delta), delta) == pytest.approx(value, rel=1e-12, abs=0)
    root = math.log(1 / delta)
    naive = (math.sqrt(root + 1e-9) - math.sqrt(root)) ** 2
    assert delta > 0.01 or zcdp_to_approx_dp(naive, delta) != pytest.approx(1e-9, rel=1e-7, abs=0)


def test_conversions_at_known_values():
    assert zcdp_to_approx_dp(1.0, math.exp(-4)) == pytest.approx(1 + 2 * 2)
    assert zcdp_to_approx_dp(4.0, math.exp(-9)) == pytest.approx(4 + 2 * 6)
    assert zcdp_to_approx_dp(0.0, 0.1) == approx_dp_to_zcdp(0.0, 0.1) == 0.0
    assert approx_dp_to_zcdp(5.0, math.exp(-4)) == pytest.approx(1.0)


def test_conversion_holds_for_the_gaussian_mechanism():
    """ρ-zCDP implies (ε, δ)-DP, so that the exact δ at the converted ε is at most δ (and the bound is not tight)."""
    for rho in np.geomspace(1e-6, 50, 40):
        for delta in DELTAS[1:]:
            assert gaussian_delta(zcdp_to_approx_dp(float(rho), delta), float(rho)) < delta


def test_conversions_are_monotone():
    grid = np.geomspace(1e-6, 100, 100)
    assert np.all(np.diff([zcdp_to_approx_dp(r, 1e-6) for r in grid]) > 0)
    assert np.all(np.diff([approx_dp_to_zcdp(e, 1e-6) for e in grid]) > 0)
    assert np.all(np.diff([zcdp_to_approx_dp(0.5, d) for d in np.geomspace(1e-30, 0.9, 50)]) < 0)


# ---------------------------------------------------------------- arguments


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, "1", True, None, [1.0], 1j])
@pytest.mark.parametrize(
    "name, call",
    [
        ("rho", lambda v: zcdp_to_approx_dp(v, 0.1)),
        ("epsilon", lambda v: approx_dp_to_zcdp(v, 0.1)),
        ("epsilon", lambda v: gaussian_delta(v, 1.0)),
        ("mu", lambda v: gaussian_delta(1.0, v)),
        ("epsilon", lambda v: gaussian_scale(v, 0.1)),
        ("sensitivity", lambda v: gaussian_scale(1.0, 0.1, v)),
    ],
)
def test_a_number_out_of_range_is_refused(name, call, value):
    with pytest.raises(ValueError, match=f"{name} must be a finite number .* got"):
        call(value)


@pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, math.nan, "0.1", True, None])
@pytest.mark.parametrize("call", [zcdp_to_approx_dp, approx_dp_to_zcdp, gaussian_scale])
def test_delta_is_strictly_between_0_and_1(call, delta):
    with pytest.raises(ValueError, match="delta must be strictly between 0 and 1, got"):
        call(1.0, delta)


def test_a_scale_for_epsilon_zero_is_refused():
    for call in (lambda: gaussian_scale(0.0, 0.1), lambda: gaussian_scale(1.0, 0.1, 0.0)):
        with pytest.raises(ValueError, match=r"must be a finite number greater than 0, got 0\.0"):
            call()


def test_a_guarantee_is_a_frozen_value():
    guarantee = PrivacyGuarantee(1.0, 0.0, 0.5)
    assert guarantee == PrivacyGuarantee(1.0, 0.0, 0.5, "replace one record")
    assert hash(guarantee) == hash(PrivacyGuarantee(1.0, 0.0, 0.5))
    with pytest.raises(AttributeError):
        guarantee.epsilon = 2.0
