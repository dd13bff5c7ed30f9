"""What integer mechanisms promise, by sums over the integers, and what they refuse: the tests that they inherit."""

import itertools
import re

import numpy as np
import pytest
from budget_contract import BudgetContract, SumQuery
from integer_law_contract import PAIR, IntegerLaw, law_is, log_pmf, support
from scipy.special import logsumexp

from sklearn_dpmix.mechanisms import _secure


def hockey_stick(p, q, epsilon):
    """δ at ε from two log probability functions: Σ max(0, p - e^ε q)."""
    with np.errstate(over="ignore"):
        return np.sum(np.maximum(-np.expm1(np.minimum(epsilon + q - p, 0.0)), 0.0) * np.exp(p))


def renyi(p, q, order):
    return logsumexp(order * p + (1 - order) * q) / (order - 1)


class IntegerContract(BudgetContract, IntegerLaw):
    # --- sensitivity and guarantee ---

    @pytest.mark.parametrize(
        "bounds, d", [((0, 1), 1), ((-2, 3), 2), (PAIR, 2), ([(0, 1), (0, 2), (4, 5)], 3)], ids=repr
    )
    def test_sensitivity_is_the_largest_distance_of_two_records(self, bounds, d):
        """Over all pairs of integer records; under a query, over all ways to replace one record of two."""
        ranges = [range(lo, hi + 1) for lo, hi in np.broadcast_to(bounds, (d, 2))]
        records = np.array(list(itertools.product(*ranges)))
        distance = np.linalg.norm(records[:, None] - records[None], ord=self.norm, axis=2)
        mechanism = self.cls(**self.budget, bounds=bounds)
        assert mechanism.sensitivity(d) == pytest.approx(distance.max(), rel=1e-15)
        query = SumQuery(np.broadcast_to(bounds, (d, 2)))
        values = np.array([query.value(np.array([records[0], r])) for r in records])
        moved = np.linalg.norm(values[:, None] - values[None], ord=self.norm, axis=2).max()
        assert self.cls(**self.budget, query=query).sensitivity() == pytest.approx(moved, rel=1e-15)

    def divergences(self, mechanism, width, function):
        """Largest ``function(p, q)`` over records 0 and k, k up to ``width``, either way."""
        z = support(mechanism.noise_scale, 40 if self.norm == 2 else 60) + width / 2
        z = np.unique(np.floor(z))
        p = [mechanism.log_density(z[:, None], np.full((len(z), 1), k)) for k in range(width + 1)]
        pairs = [(p[0], p[k]) for k in range(1, width + 1)]
        return max(max(function(a, b), function(b, a)) for a, b in pairs)

    def test_rho_bounds_every_renyi_divergence(self):
        """Over all shifts and a grid of orders; 3 % less noise than promised breaks it, where ρ is attained."""
        orders = (1.001, 1.3, 2.0, 3.0, 4.5, 10.0, 40.0)
        for width, mechanism in (
            (3, self.cls(**self.budget, bounds=(0, 3))),
            (4, self.cls(rho=0.7, bounds=(0, 4))),
            (1, self.cls(rho=20.0, bounds=(0, 1))),
        ):
            rho = mechanism.guarantee().rho
            loss = [self.divergences(mechanism, width, lambda p, q, a=a: renyi(p, q, a)) / a for a in orders]
            assert max(loss) <= rho * (1 + 1e-9)
            if self.norm == 2:
                assert max(loss) == pytest.approx(rho, rel=1e-9)
                less = self.cls(scale=0.97 * mechanism.noise_scale, bounds=(0, width))
                assert self.divergences(less, width, lambda p, q: renyi(p, q, 2.0)) / 2 > rho

    def test_without_clamping_the_guarantee_is_for_records_inside(self):
        mechanism = self.cls(**self.budget, bounds=PAIR, clamp=False)
        assert mechanism.guarantee().neighbours == "replace one record, for records inside bounds"
        outside = mechanism.log_density([[0, 0]], [[0, 0]]) - mechanism.log_density([[0, 0]], [[900, 0]])
        assert outside > 5 * self.budget["epsilon"]

    # --- privatize ---

    def test_releases_are_integers_in_float_arrays(self):
        X = np.array([[-9, 0], [2, 7], [1, 1]])
        for records in (X, X.astype(float), X.tolist()):
            Z = self.cls(scale=1e-9, bounds=PAIR).privatize(records, random_state=0)
            assert Z.dtype == np.float64
            np.testing.assert_array_equal(Z, [[-1, 0], [2, 1], [1, 1]])
        far = self.cls(scale=3.0, bounds=(2**52 - 4, 2**52)).privatize(np.full((500, 1), 2**52), random_state=0)
        assert np.array_equal(far, np.floor(far)) and len(np.unique(far % 2)) == 2
        wide = self.cls(scale=2.0**45).privatize(np.zeros((1000, 1)), random_state=0)
        assert np.array_equal(wide, np.floor(wide))
        self.cls(scale=2.0**45).check_release(wide)

    def test_privatize_is_reproducible_and_leaves_the_records_alone(self):
        X = np.arange(40.0)[:, None]
        before = X.copy()
        mechanism = self.cls(scale=5.0, bounds=(0, 30))
        first, again, other = (mechanism.privatize(X, random_state=s) for s in (3, 3, 4))
        np.testing.assert_array_equal(first, again)
        assert np.any(first != other)
        np.testing.assert_array_equal(X, before)
        rng = np.random.default_rng(3)
        assert np.any(mechanism.privatize(X, random_state=rng) != mechanism.privatize(X, random_state=rng))

    def test_a_query_is_released_once(self):
        mechanism = self.cls(**self.budget, query=SumQuery(PAIR))
        X = np.random.default_rng(9).uniform(-2, 4, (50, 2)).round()
        Z = np.array([mechanism.privatize(X, random_state=s) for s in range(2000)])
        noise = (Z - mechanism.query.value(X)).ravel()
        assert Z.shape == (2000, 2) and not mechanism.is_local
        alone = self.cls(scale=mechanism.noise_scale)
        assert law_is(noise, lambda e: np.exp(log_pmf(alone, e)))
        expected = sum(log_pmf(alone, Z[:, j] - mechanism.query.value(X)[j]) for j in range(2))
        np.testing.assert_allclose(mechanism.log_density(Z, X), expected, rtol=1e-12)
        for records in (2**51, 2**51 + 1):  # whose sum is 2**52, and more: an error would tell them apart
            of_large = self.cls(scale=1e-9, query=SumQuery([(0, 2**52), (0, 1)])).privatize([[2**51, 0], [records, 0]])
            np.testing.assert_array_equal(of_large, [2.0**52, 0.0])
        half = self.cls(**self.budget, query=SumQuery(PAIR, offset=0.5))
        with pytest.raises(ValueError, match=r"query.value\(X\) must hold integers: "):
            half.privatize(X)

    # --- secure ---

    def test_secure_noise_has_the_same_law(self):
        pytest.importorskip("opendp")
        for scale in (0.7, 4.0):
            mechanism = self.cls(scale=scale, bounds=(-3, 3))
            noise = mechanism.privatize(np.full((8000, 1), 9), secure=True)[:, 0] - 3
            assert law_is(noise, lambda e, m=mechanism: np.exp(log_pmf(m, e)))
            assert not law_is(2 * noise, lambda e, m=mechanism: np.exp(log_pmf(m, e)))
        large = self.cls(scale=1e-3).privatize([[2.0**52], [-(2.0**52) + 1]], secure=True)
        np.testing.assert_array_equal(large, [[2.0**52], [-(2.0**52) + 1]])

    def test_opendp_certifies_the_guarantee(self):
        """Its own privacy map at our sensitivity is within the budget; without the margin it is not always."""
        dp = pytest.importorskip("opendp.prelude")
        dp.enable_features("contrib")
        rng = np.random.default_rng(10)
        without = 0
        for _ in range(60):
            low = rng.integers(-1000, 1000, 3)
            bounds = np.column_stack([low, low + rng.integers(1, 500, 3)])
            mechanism = self.cls(rho=float(np.exp(rng.normal())), bounds=bounds)
            guarantee = mechanism.guarantee()
            promised = guarantee.rho if self.norm == 2 else guarantee.epsilon
            make = dp.m.make_gaussian if self.norm == 2 else dp.m.make_laplace
            distance = (dp.l2_distance if self.norm == 2 else dp.l1_distance)(T=float)
            domain = dp.vector_domain(dp.atom_domain(T=dp.i64))
            scale = mechanism.noise_scale
            ours = make(domain, distance, scale=scale * (1 + _secure.MARGIN))
            assert ours.map(mechanism.sensitivity()) <= promised
            without += make(domain, distance, scale=scale).map(mechanism.sensitivity()) > promised
        assert without > 2

    # --- wrong inputs ---

    @pytest.mark.parametrize("bounds", [(0, 1.5), (0.5, 2), [(0.25, 3)], (0, 2**53)], ids=repr)
    def test_bounds_that_are_not_integers_are_refused(self, bounds):
        mechanism = self.cls(scale=1.0, bounds=bounds)
        for call in (mechanism.check, lambda: mechanism.privatize([[0]]), mechanism.guarantee):
            with pytest.raises(ValueError, match="bounds must be integers .* got bounds=" + re.escape(repr(bounds))):
                call()

    @pytest.mark.parametrize("bounds", [(1, 0), (0, np.inf), "01", (0,)], ids=repr)
    def test_bad_bounds_are_refused(self, bounds):
        with pytest.raises(ValueError, match="bounds must be .*lo.* got bounds=" + re.escape(repr(bounds))):
            self.cls(scale=1.0, bounds=bounds).privatize([[0]])

    @pytest.mark.parametrize("bounds", [None, (0, 3)])
    def test_records_and_releases_that_are_not_integers_are_refused(self, bounds):
        mechanism = self.cls(scale=1.0, bounds=bounds)
        bad, good = [[1.0], [2.5], [0.1]], [[1.0], [2.0], [0.0]]
        for call in (lambda: mechanism.privatize(bad), lambda: mechanism.log_density(good, bad)):
            with pytest.raises(
                ValueError, match=r"^X must hold integers, got 2\.5 at position \(1, 0\): .*round first"
            ):
                call()
        for call in (lambda: mechanism.check_release(bad), lambda: mechanism.log_density(bad, good)):
            with pytest.raises(ValueError, match=r"^Z must hold integers, got 2\.5 at position \(1, 0\): "):
                call()
        assert mechanism.check_release(good) is None
        with pytest.raises(ValueError, match=r"^Z must hold integers, got nan"):
            mechanism.check_release([[np.nan]])

    def test_integers_beyond_floats_are_refused(self):
        mechanism = self.cls(scale=1.0)
        with pytest.raises(ValueError, match=r"X must be at most 2\*\*52 in magnitude, got 9007199254740992.0 at"):
            mechanism.privatize([[2**53]])
        with pytest.raises(ValueError, match=r"Z must be at most 2\*\*53 - 1 in magnitude, got -1e\+16 at"):
            mechanism.check_release([[-1e16]])
        assert self.cls(scale=1e-9, bounds=(0, 2)).privatize([[1e300]], random_state=0) == 2  # clamped

    @pytest.mark.parametrize("value", [2.0**46, 2.0**-501])
    def test_scales_out_of_range_are_refused(self, value):
        with pytest.raises(ValueError, match=f"with scale={value!r} has noise of scale .* between 2"):
            self.cls(scale=value).privatize([[0]])

    @pytest.mark.parametrize("value", [0, -1.0, np.nan, "1", True, [], [1.0, 0.0]])
    @pytest.mark.parametrize("name", ["epsilon", "rho", "scale"])
    def test_a_bad_budget_is_refused(self, name, value):
        rest = {k: v for k, v in self.budget.items() if k != "epsilon"} if name == "epsilon" else {}
        says = f"{name} must be positive and finite, .* got " + re.escape(f"{name}={value!r}")
        with pytest.raises(ValueError, match=says):
            self.cls(**{name: value}, bounds=(0, 1), **rest).check()

    def test_exactly_one_way_to_say_how_much_noise(self):
        for given in ({}, {"rho": 1.0, "scale": 2.0}, {**self.budget, "rho": 1.0}):
            with pytest.raises(ValueError, match="takes exactly one of epsilon, rho and scale, got epsilon="):
                self.cls(**given, bounds=(0, 1)).check()
        with pytest.raises(ValueError, match=r"needs bounds=\(lo, hi\) or query= .* pass scale="):
            self.cls(**self.budget).check()
        with pytest.raises(ValueError, match=r"has 3 values, but there are 4 records"):
            self.cls(scale=[1.0, 2.0, 3.0]).privatize(np.zeros((4, 1)))
