"""The integer mechanisms: their laws, cells, sensitivity and guarantees, each by sums over the integers."""

import itertools
import re

import numpy as np
import pytest
from budget_contract import GaussianBudget, LaplaceBudget, SumQuery
from integer_contract import IntegerContract, hockey_stick
from integer_law_contract import PAIR, log_pmf, mpmath

from sklearn_dpmix.mechanisms import _secure
from sklearn_dpmix.mechanisms._discrete_gaussian import DiscreteGaussianMechanism, exact_log_delta
from sklearn_dpmix.mechanisms._discrete_laplace import DiscreteLaplaceMechanism
from sklearn_dpmix.privacy import gaussian_scale


class TestDiscreteLaplace(LaplaceBudget, IntegerContract):
    cls = DiscreteLaplaceMechanism
    norm = 1
    budget = {"epsilon": 1.3}

    def exact_log_pmf(self, e, scale):
        with mpmath.workdps(60):
            r = mpmath.exp(-1 / mpmath.mpf(scale))
            return mpmath.log((1 - r) / (1 + r)) - abs(e) / mpmath.mpf(scale)

    def twin_noise(self, rng, scale, size):
        return rng.laplace(scale=scale, size=size)

    def twin_total(self, scale):
        return 2 * scale

    def twin_variance(self, scale):
        return 2 * scale**2

    @pytest.mark.parametrize("epsilon", [0.05, 1.0, 12.0])
    @pytest.mark.parametrize("bounds", [[(0, 1)], [(-2, 5)], PAIR], ids=repr)
    def test_largest_log_probability_ratio_is_epsilon(self, bounds, epsilon):
        """Over all pairs of records, those outside the bounds included: attained; exceeded by 5 % less noise."""
        lo, hi = np.transpose(bounds)
        ranges = [range(a - 2, b + 3) for a, b in zip(lo, hi)]
        points = np.array(list(itertools.product(*ranges)), dtype=float)

        def largest(mechanism):
            density = [mechanism.log_density(points, np.broadcast_to(y, points.shape)) for y in points]
            return np.ptp(density, axis=0).max()

        mechanism = self.cls(epsilon, bounds=bounds)
        assert largest(mechanism) == pytest.approx(epsilon, rel=1e-12)
        assert (mechanism.guarantee().epsilon, mechanism.guarantee().delta) == (epsilon, 0.0)
        assert largest(self.cls(scale=0.95 * mechanism.noise_scale, bounds=bounds)) > 1.04 * epsilon
        assert self.cls(scale=mechanism.noise_scale, bounds=bounds).guarantee().epsilon == pytest.approx(epsilon)

    def test_no_delta_is_left_at_epsilon(self):
        mechanism = self.cls(0.9, bounds=(0, 4))
        assert self.divergences(mechanism, 4, lambda p, q: hockey_stick(p, q, 0.9)) < 1e-12
        assert self.divergences(mechanism, 4, lambda p, q: hockey_stick(p, q, 0.85)) > 1e-3


class TestDiscreteGaussian(GaussianBudget, IntegerContract):
    cls = DiscreteGaussianMechanism
    norm = 2
    budget = {"epsilon": 1.3, "delta": 1e-3}

    def exact_log_pmf(self, e, scale):
        with mpmath.workdps(60):
            s = mpmath.mpf(scale)
            if scale < 50:
                total = mpmath.nsum(lambda k: mpmath.exp(-(k**2) / (2 * s**2)), [-mpmath.inf, mpmath.inf], method="d")
            else:  # Poisson's formula: beyond its first term is less than 10^-40000
                total = s * mpmath.sqrt(2 * mpmath.pi)
            return -(mpmath.mpf(e) ** 2) / (2 * s**2) - mpmath.log(total)

    def twin_noise(self, rng, scale, size):
        return rng.normal(scale=scale, size=size)

    def twin_total(self, scale):
        return np.sqrt(2 * np.pi) * scale

    def twin_variance(self, scale):
        return scale**2

    BUDGETS = [(0.1, 1e-5), (1.0, 1e-10), (1.0, 0.05), (3.0, 1e-3), (8.0, 1e-8), (10.0, 0.01), (0.01, 0.5)]

    @pytest.mark.parametrize("width", [1, 2, 7])
    @pytest.mark.parametrize("epsilon, delta", BUDGETS)
    def test_delta_is_the_hockey_stick_divergence(self, epsilon, delta, width):
        """The largest over all shifts is the stated δ; 5 % less noise breaks it where δ does not ripple."""
        mechanism = self.cls(epsilon, delta, bounds=(0, width))
        guarantee = mechanism.guarantee()
        assert (guarantee.epsilon, guarantee.delta) == (epsilon, delta)
        actual = self.divergences(mechanism, width, lambda p, q: hockey_stick(p, q, epsilon))
        assert delta * (1 - 1e-6) < actual <= delta
        scale = mechanism.noise_scale
        if epsilon < width:
            less = self.cls(scale=0.95 * scale, bounds=(0, width))
            assert self.divergences(less, width, lambda p, q: hockey_stick(p, q, epsilon)) > delta

    @pytest.mark.parametrize(
        "scale, epsilon, shift", [(0.3, 1, 1), (5, 0.1, 4), (40, 0.5, 9), (700, 0.01, 3), (3e3, 2, 5000)]
    )
    def test_exact_delta_is_the_sum(self, scale, epsilon, shift):
        """Against mpmath, across the change from terms to an integral."""
        with mpmath.workdps(40):
            t = mpmath.mpf(epsilon) * mpmath.mpf(scale) ** 2 / shift - mpmath.mpf(shift) / 2
            first = int(mpmath.floor(t)) + 1
            terms = range(first, max(first, 0) + int(14 * scale) + 60)
            over = 1 / (2 * mpmath.mpf(scale) ** 2)
            mass = [mpmath.exp(-(e**2) * over) * -mpmath.expm1(epsilon - shift * (2 * e + shift) * over) for e in terms]
            exact = float(mpmath.log(mpmath.fsum(mass)) + self.exact_log_pmf(0, scale))
        assert exact_log_delta(scale, epsilon, shift) == pytest.approx(exact, abs=1e-11)

    def test_less_noise_is_used_where_delta_ripples(self):
        """With one bit at ε = 5, δ = .001 the last root of δ(σ) is .70, but it dips below δ earlier."""
        first = self.cls(5.0, 1e-3, bounds=(0, 1)).noise_scale
        grid = np.linspace(0.05, 3.0, 4000)
        good = np.array([exact_log_delta(s, 5.0, 1) <= np.log(1e-3) for s in grid])
        assert grid[np.argmax(good)] == pytest.approx(first, abs=2 * (grid[1] - grid[0]))
        assert grid[~good].max() > 1.2 * first  # so more noise may protect less: not a property to rely on
        scales = [self.cls(e, 1e-3, bounds=(0, 1)).noise_scale for e in np.linspace(1, 9, 60)]
        assert np.all(np.diff(scales) < 0)

    def test_large_scales_are_the_continuous_ones(self):
        for epsilon, delta in self.BUDGETS:
            scale = self.cls(epsilon, delta, bounds=(0, 10**9)).noise_scale
            assert scale == pytest.approx(gaussian_scale(epsilon, delta, 1e9), rel=1e-6)

    def test_opendps_margin_does_not_raise_delta(self):
        """Where δ rises with σ, a scale rounded up is paid for by the slack of the calibration."""
        for width, (epsilon, delta) in itertools.product((1, 2, 7), self.BUDGETS):
            scale = self.cls(epsilon, delta, bounds=(0, width)).noise_scale
            for used in (scale, scale * (1 + _secure.MARGIN)):
                assert exact_log_delta(used, epsilon, width) <= np.log(delta)

    def delta_in_the_plane(self, scale, shift, epsilon):
        z = np.arange(-int(14 * scale), int(14 * scale) + 5.0)
        one = self.cls(scale=scale)
        p = log_pmf(one, z)
        q = [log_pmf(one, z - s) for s in shift]
        return hockey_stick(p[:, None] + p[None], q[0][:, None] + q[1][None], epsilon)

    @pytest.mark.parametrize("epsilon, delta", [(0.5, 1e-5), (1.0, 0.01), (4.0, 1e-6)])
    def test_several_features_are_conservative(self, epsilon, delta):
        """All shifts of an integer ball in the plane: δ is kept, with less than a factor 30 to spare."""
        bounds = [(0, 3), (0, 2)]
        for mechanism in (self.cls(epsilon, delta, bounds=bounds), self.cls(epsilon, delta, query=SumQuery(bounds))):
            scale, sensitivity = mechanism.noise_scale, np.sqrt(13)
            shifts = [s for s in itertools.product(range(4), repeat=2) if 0 < np.hypot(*s) <= sensitivity + 1e-9]
            actual = max(self.delta_in_the_plane(scale, s, epsilon) for s in shifts)
            assert delta / 30 < actual <= delta
            assert mechanism.guarantee(2).rho == pytest.approx(6.5 / scale**2)
        assert self.delta_in_the_plane(0.8 * scale, (3, 2), epsilon) > delta

    def test_a_query_of_one_number_is_calibrated_exactly(self):
        """One that says so, or one whose neighbours cannot differ in two numbers."""
        exact = self.cls(1.0, 1e-5, bounds=(0, 3)).noise_scale
        query = SumQuery([(0, 3)])
        assert self.cls(1.0, 1e-5, query=query).noise_scale > 1.05 * exact
        query.n_statistics = 1
        assert self.cls(1.0, 1e-5, query=query).noise_scale == exact
        count = self.cls(1.0, 1e-5, query=SumQuery([(0, 1)]))
        assert count.noise_scale == self.cls(1.0, 1e-5, bounds=(0, 1)).noise_scale

    def test_one_pair_of_bounds_counts_once_a_feature(self):
        one, three = self.cls(**self.budget, bounds=(0, 2)), self.cls(**self.budget, bounds=[(0, 2)] * 3)
        assert one.noise_scale_for(3) == three.noise_scale
        assert one.noise_scale_for(1) == one.noise_scale < three.noise_scale
        assert one.guarantee(3) == three.guarantee()
        assert one.guarantee().rho > three.guarantee().rho

    @pytest.mark.parametrize("delta", [0, 1, np.nan, "0.1", [0.1]])
    def test_a_bad_delta_is_refused(self, delta):
        with pytest.raises(ValueError, match="delta must be .* between 0 and 1, got delta=" + re.escape(repr(delta))):
            self.cls(1.0, delta, bounds=(0, 1)).check()

    @pytest.mark.parametrize("given", [{"epsilon": 1.0}, {"delta": 0.1}, {"rho": 1.0, "delta": 0.1}], ids=repr)
    def test_epsilon_and_delta_go_together(self, given):
        with pytest.raises(ValueError, match=r"epsilon and delta go together, got epsilon=.*give both, or rho="):
            self.cls(**given, bounds=(0, 1)).check()

    def test_the_classical_calibration_is_refused(self):
        with pytest.raises(
            ValueError, match=r"""calibration must be "analytic", got 'classical': no other is proved"""
        ):
            self.cls(1.0, 0.1, bounds=(0, 1), calibration="classical").check()
