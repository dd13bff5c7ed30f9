"""Laplace and Gaussian noise, a mechanism of one's own, and no noise: the contracts, and what each adds to them."""

import itertools
import re
import warnings

import numpy as np
import pytest
from additive_contract import KERNEL, PAIR, AdditiveContract, imputations, log_marginals, normal_theta, panels
from budget_contract import GaussianBudget, LaplaceBudget, SumQuery
from calibrated_contract import CalibratedContract
from scipy import stats

from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    NoNoise,
    RecordChannel,
    compiled,
)


class CauchyMechanism(AdditiveMechanism):
    """A user's own mechanism: no calibration, no pieces."""

    def __init__(self, scale=1.0, *, bounds=None, clamp=True):
        self.scale = scale
        self.bounds = bounds
        self.clamp = clamp

    @compiled
    def log_noise(self, e, scale):
        return -np.log(np.pi * scale * (1.0 + (e / scale) ** 2))

    def draw_noise(self, rng, scale, size):
        return scale * rng.standard_cauchy(size)


class TestUserDefined(AdditiveContract):
    """A user's Cauchy mechanism keeps the contract with a density and a sampler alone."""

    cls = CauchyMechanism

    def law(self, scale):
        return stats.cauchy(scale=scale)

    @staticmethod
    def log_law(e, scale):
        return -np.log(np.pi * scale) - np.log1p((e / scale) ** 2)

    def settings(self):
        yield CauchyMechanism()
        yield CauchyMechanism(scale=0.3, bounds=PAIR)
        yield CauchyMechanism(scale=np.geomspace(0.1, 3, 40), bounds=(-1, 1), clamp=False)

    def test_log_density_integrates_to_one(self):
        """Of a Cauchy too much lies beyond any grid: the log density is scipy's (above), and that one is tested."""

    def test_it_has_no_secure_noise(self):
        with pytest.raises(ValueError, match="CauchyMechanism has no secure=True"):
            CauchyMechanism().privatize([[0.0]], secure=True)

    def test_a_missing_density_is_named(self):
        class Silent(AdditiveMechanism):
            def __init__(self, scale=1.0):
                self.scale = scale

        with pytest.raises(TypeError, match=r"Silent must define the compiled method log_noise\(self, e, scale\)"):
            Silent().log_density([[0.0]], [[0.0]])

    def test_an_unmarked_override_is_named(self):
        """It would be left out of compiled code, whose error nobody can read."""

        class Unmarked(LaplaceMechanism):
            def log_noise(self, e, scale):
                return 0.0

        with pytest.raises(TypeError, match=r"Unmarked.log_noise is called by compiled code.*@compiled"):
            Unmarked(scale=1.0).log_density([[0.0]], [[0.0]])


class TestLaplace(LaplaceBudget, CalibratedContract):
    cls = LaplaceMechanism
    norm = 1
    budget = {"epsilon": 1.3}

    def law(self, scale):
        return stats.laplace(scale=scale)

    @staticmethod
    def log_law(e, scale):
        return -np.abs(e) / scale - np.log(2 * scale)

    def settings(self):
        yield LaplaceMechanism(2.0, bounds=(-1, 3))
        yield LaplaceMechanism(epsilon=0.1, bounds=PAIR)
        yield LaplaceMechanism(epsilon=50, bounds=PAIR.tolist(), clamp=False)
        yield LaplaceMechanism(rho=0.5, bounds=((-1, 3), (0, 0.5)))
        yield LaplaceMechanism(scale=0.25)
        yield LaplaceMechanism(epsilon=np.geomspace(0.1, 20, 40), bounds=PAIR)
        yield LaplaceMechanism(scale=[0.5, 1.0, 2.0] * 20, bounds=(0, 1))

    def promised(self, guarantee):
        return guarantee.epsilon

    @pytest.mark.parametrize("epsilon", [0.05, 1.0, 12.0])
    @pytest.mark.parametrize("bounds", [[(0, 1)], PAIR, [(0, 1), (-5, 5), (2, 2.25)]], ids=repr)
    def test_largest_log_density_ratio_is_epsilon(self, bounds, epsilon):
        """Over releases z and records y, y' anywhere, those outside the bounds included: attained, not exceeded."""
        mechanism = LaplaceMechanism(epsilon, bounds=bounds)
        lo, hi = np.transpose(np.asarray(bounds, dtype=float))
        rng = np.random.default_rng(4)
        Z = np.concatenate([rng.uniform(lo - 3, hi + 3, (500, len(lo))), [lo - 1, hi + 1]])
        Y = np.concatenate([rng.uniform(lo - 2, hi + 2, (30, len(lo))), list(itertools.product(*zip(lo, hi)))])
        density = np.array([mechanism.log_density(Z, np.broadcast_to(y, Z.shape)) for y in Y])
        assert np.ptp(density, axis=0).max() == pytest.approx(epsilon, rel=1e-9)
        assert mechanism.guarantee().epsilon == epsilon
        assert mechanism.guarantee().delta == 0.0

    def test_without_clamping_a_record_outside_has_no_guarantee(self):
        """The broken twin of the ratio test: unclamped, it must exceed ε."""
        mechanism = LaplaceMechanism(1.0, bounds=(-1, 1), clamp=False)
        ratio = mechanism.log_density([[0.0]], [[0.0]]) - mechanism.log_density([[0.0]], [[8.0]])
        assert ratio == pytest.approx(4.0)  # the example of ERRATA


class TestGaussian(GaussianBudget, CalibratedContract):
    cls = GaussianMechanism
    norm = 2
    budget = {"epsilon": 1.3, "delta": 1e-3}

    def law(self, scale):
        return stats.norm(scale=scale)

    @staticmethod
    def log_law(e, scale):
        return -0.5 * (e / scale) ** 2 - np.log(scale) - 0.5 * np.log(2 * np.pi)

    def settings(self):
        yield GaussianMechanism(2.0, 0.01, bounds=(-1, 3))
        yield GaussianMechanism(epsilon=0.1, delta=1e-9, bounds=PAIR)
        yield GaussianMechanism(epsilon=0.9, delta=0.1, bounds=PAIR.tolist(), clamp=False, calibration="classical")
        yield GaussianMechanism(rho=0.5, bounds=((-1, 3), (0, 0.5)))
        yield GaussianMechanism(scale=0.25)
        yield GaussianMechanism(epsilon=np.geomspace(0.1, 20, 40), delta=1e-5, bounds=PAIR)
        yield GaussianMechanism(scale=[0.5, 1.0, 2.0] * 20, bounds=(0, 1))

    @staticmethod
    def hockey_stick(mechanism, epsilon, first, second):
        """δ at ε: the integral over z of the positive part of q(z | y) - e^ε q(z | y'), of one feature."""
        scale = mechanism.noise_scale
        crossing = 0.5 * (first + second) + epsilon * scale**2 / (first - second)  # the log ratio is linear in z
        side = np.sign(first - second)
        z, log_weight = panels(crossing + side * scale * np.linspace(0, 60, 601), [first, second])
        p, q = (mechanism.log_density(z[:, None], np.full((len(z), 1), y)) for y in (first, second))
        return np.sum(np.maximum(np.exp(p) - np.exp(epsilon + q), 0) * np.exp(log_weight))

    @pytest.mark.parametrize("calibration", ["analytic", "classical"])
    @pytest.mark.parametrize("epsilon, delta", [(0.1, 1e-5), (0.9, 0.1), (3.0, 1e-3), (10.0, 0.01)])
    def test_delta_is_the_hockey_stick_divergence(self, calibration, epsilon, delta):
        """By integration over z of the mechanism's own density, at opposite bounds and beyond them."""
        mechanism = GaussianMechanism(epsilon, delta, bounds=(0, 2), calibration=calibration)
        guarantee = mechanism.guarantee()
        if calibration == "analytic":
            assert guarantee.delta == delta
        for first, second in ((0.0, 2.0), (2.0, 0.0), (-5.0, 9.0)):
            if first < 0:  # clamped, so that it is the same pair
                np.testing.assert_array_equal(
                    mechanism.log_density([[0.3], [0.3]], [[first], [second]]),
                    mechanism.log_density([[0.3], [0.3]], [[0.0], [2.0]]),
                )
            else:
                actual = self.hockey_stick(mechanism, epsilon, first, second)
                assert actual == pytest.approx(guarantee.delta, rel=1e-7)
        inside = self.hockey_stick(mechanism, epsilon, 0.2, 1.9)
        assert inside < guarantee.delta

    def test_two_features_share_the_budget(self):
        """The same on a grid in the plane: corner against opposite corner."""
        mechanism = GaussianMechanism(1.0, 0.01, bounds=PAIR)
        scale = mechanism.noise_scale
        axis = np.linspace(-9, 9, 901) * scale
        cell = (axis[1] - axis[0]) ** 2
        Z = np.stack(np.meshgrid(axis + 1.0, axis + 0.25), axis=-1).reshape(-1, 2)
        p, q = (mechanism.log_density(Z, np.broadcast_to(corner, Z.shape)) for corner in PAIR.T)
        delta = np.maximum(np.exp(p) - np.exp(1.0 + q), 0).sum() * cell
        assert delta == pytest.approx(0.01, rel=1e-3)

    def test_classical_noise_beyond_epsilon_one_is_reported_as_it_is(self):
        """ERRATA: δ is .041 at (10, .01) and .78 at (25, .01), and a warning says so."""
        for epsilon, actual in ((10.0, "0.041"), (25.0, "0.78")):
            mechanism = GaussianMechanism(epsilon, 0.01, bounds=(-1, 1), calibration="classical")
            assert mechanism.noise_scale == pytest.approx(2 * np.sqrt(2 * np.log(125)) / epsilon)
            assert f"{mechanism.guarantee().delta:.2g}" == actual
            stated = f'is ({epsilon:g}, {mechanism.guarantee().delta:.3g})-DP; use calibration="analytic"'
            with pytest.warns(UserWarning, match=re.escape(stated)):
                mechanism.privatize([[0.0]], random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            GaussianMechanism(0.9, 0.01, bounds=(-1, 1), calibration="classical").privatize([[0.0]], random_state=0)
            GaussianMechanism(25.0, 0.01, bounds=(-1, 1)).privatize([[0.0]], random_state=0)

    def test_a_normal_kernel_can_absorb_it_unclamped_only(self):
        assert GaussianMechanism(scale=1.0).is_absorbable
        assert GaussianMechanism(1.0, 0.1, bounds=(0, 1), clamp=False).is_absorbable
        assert not GaussianMechanism(scale=1.0, bounds=(0, 1)).is_absorbable
        assert not GaussianMechanism(scale=[1.0, 2.0]).is_absorbable
        assert not GaussianMechanism(scale=1.0, query=SumQuery(PAIR)).is_absorbable

    @pytest.mark.parametrize("delta", [0, 1, -0.1, 1.5, np.nan, "0.1", True, [0.1]])
    def test_a_bad_delta_is_refused(self, delta):
        mechanism = GaussianMechanism(1.0, delta, bounds=(0, 1))
        for call in (mechanism.check, mechanism.guarantee, lambda: mechanism.privatize([[0.5]])):
            with pytest.raises(
                ValueError, match="delta must be .* between 0 and 1, got delta=" + re.escape(repr(delta))
            ):
                call()

    @pytest.mark.parametrize("given", [{"epsilon": 1.0}, {"delta": 0.1}, {"rho": 1.0, "delta": 0.1}], ids=repr)
    def test_epsilon_and_delta_go_together(self, given):
        with pytest.raises(ValueError, match=r"epsilon and delta go together, got epsilon=.*give both, or rho="):
            GaussianMechanism(**given, bounds=(0, 1)).check()

    def test_an_unknown_calibration_is_refused(self):
        with pytest.raises(ValueError, match="""calibration must be "analytic" or "classical", got 'exact'"""):
            GaussianMechanism(1.0, 0.1, bounds=(0, 1), calibration="exact").check()


# ---------------------------------------------------------------- no noise


def test_no_noise_is_the_record_itself():
    """Its marginal is the kernel's density, its imputation the release."""
    Z = np.array([[0.3, -1.0], [2.0, 0.5]])
    mean, sd = np.array([[0.0, 1.0], [1.0, 1.0]]), np.array([[1.0, 2.0], [0.5, 3.0]])
    kernel, theta = normal_theta(KERNEL, mean, sd)
    channel = NoNoise()._lower(n_records=2, n_features=2)
    result = np.empty_like(Z)
    log_marginals(channel, kernel, Z, theta, result)
    np.testing.assert_allclose(result, stats.norm.logpdf(Z, mean, sd), rtol=1e-12)
    draws = np.empty((2, 2, 3))
    imputations(channel, kernel, Z, theta, np.random.default_rng(0), draws)
    np.testing.assert_array_equal(draws, np.repeat(Z[:, :, None], 3, axis=2))
    assert channel.log_channel(Z, 0, 0, 0.3) == 0.0
    assert channel.log_channel(Z, 0, 0, 0.4) == -np.inf


def test_the_base_channel_weighs_by_its_density():
    """A channel with ``log_channel`` alone is complete: its weight is its density, and it checks nothing."""

    class Flat(RecordChannel):
        @compiled
        def log_channel(self, Z, i, j, y):
            return -y

    channel = Flat()._lower(n_records=1, n_features=1)
    assert channel.log_weight(None, None, 0, 0, None, 0, 2.0) == -2.0
    assert Flat().check() is None


def test_errors_name_no_other_estimators():
    """Catches scikit-learn's advice to take one that is for missing values."""
    with pytest.raises(ValueError, match="contains NaN") as caught:
        LaplaceMechanism(scale=1.0).privatize([[np.nan]])
    assert "HistGradient" not in str(caught.value)
