"""One contract that every mechanism with a guarantee inherits: its sensitivity and its guarantee, by brute force."""

import itertools
import re
import sys

import numpy as np
import pytest
from additive_contract import (
    KERNEL,
    PAIR,
    AdditiveContract,
    imputations,
    law_is,
    log_joint,
    log_marginals,
    normal_theta,
    panels,
)
from budget_contract import BudgetContract, SumQuery
from scipy.special import logsumexp

from sklearn_dpmix.mechanisms import GaussianMechanism, _secure

# ---------------------------------------------------------------- the contract of a mechanism with a guarantee


class CalibratedContract(BudgetContract, AdditiveContract):
    """What a mechanism with a sensitivity and a guarantee keeps.  A subclass gives ``norm`` and ``budget`` besides."""

    norm: int
    budget: dict  # parameters that say how much privacy

    # --- sensitivity ---

    @pytest.mark.parametrize(
        "bounds, d",
        [
            *itertools.product([(0, 1), (-2.5, 4)], [1, 2, 3]),
            ([(-1, 3)], 1),
            (PAIR, 2),
            ([(0, 1), (-5, 5), (2, 2.25)], 3),
        ],
        ids=repr,
    )
    def test_sensitivity_is_the_largest_distance_of_two_records(self, bounds, d):
        """Brute force over the corners, where a norm is largest."""
        pairs = np.broadcast_to(bounds, (d, 2))
        corners = np.array(list(itertools.product(*pairs)))
        distance = np.linalg.norm(corners[:, None] - corners[None], ord=self.norm, axis=2)
        mechanism = self.cls(**self.budget, bounds=bounds)
        assert mechanism.sensitivity(d) == pytest.approx(distance.max(), rel=1e-15)

    def test_sensitivity_of_a_query_is_its_own(self):
        """Brute force over neighbours: one record of three replaced by any corner."""
        query = SumQuery(PAIR)
        corners = np.array(list(itertools.product(*PAIR)))
        moved = max(
            np.linalg.norm(query.value(np.array([a, r, r])) - query.value(np.array([b, r, r])), self.norm)
            for a, b, r in itertools.product(corners, repeat=3)
        )
        assert self.cls(**self.budget, query=query).sensitivity() == pytest.approx(moved, rel=1e-14)

    def test_one_pair_of_bounds_counts_once_a_feature(self):
        one, three = self.cls(**self.budget, bounds=(0, 2)), self.cls(**self.budget, bounds=[(0, 2)] * 3)
        assert one.noise_scale_for(3) == three.noise_scale
        assert one.noise_scale_for(1) == one.noise_scale < three.noise_scale

    # --- pieces ---

    def channels(self, rng, n=200):
        """Channels with and without clamping, per-record noise, and releases in, on and outside the bounds."""
        Z = rng.uniform(-6, 8, (n, 2))
        Z[:10], Z[10:20] = PAIR[:, 0], PAIR[:, 1]
        noise = np.exp(rng.uniform(-3, 3, n))
        for bounds, clamp in ((PAIR, True), (PAIR, False), (None, True)):
            mechanism = self.cls(scale=noise, bounds=bounds, clamp=clamp)
            low, high = PAIR.T if bounds is not None and clamp else np.array([[-np.inf] * 2, [np.inf] * 2])
            yield mechanism._lower(n_records=n, n_features=2), Z, noise, low, high

    def test_pieces_cover_the_line_and_agree_with_the_channel(self):
        """Each piece, where it is not empty, is log q(z | y); together they leave no gap."""
        rng = np.random.default_rng(5)
        for channel, Z, *_ in self.channels(rng):
            for i, j in np.ndindex(Z.shape):
                end = -np.inf
                for p in range(channel.n_pieces()):
                    lo, hi, anchor, value, slope, curvature = channel.piece(Z, i, j, p)
                    if not lo < hi:
                        continue
                    assert lo == end and np.isfinite(value)
                    assert curvature >= 0 and (curvature == 0 or self.cls.piece_shape == "quadratic")
                    assert slope == 0 or self.cls.piece_shape != "flat"
                    end = hi
                    inner = max(lo, -50.0), min(hi, 50.0)
                    for y in (*inner, *rng.uniform(*inner, 3)):
                        u = y - anchor
                        tilt = value + slope * u - 0.5 * curvature * u * u
                        np.testing.assert_allclose(tilt, channel.log_channel(Z, i, j, y), rtol=1e-11, atol=1e-11)
                assert end == np.inf

    # --- the marginal and the exact conditional, with the normal kernel ---

    def test_log_marginal_is_the_integral(self):
        """log g(z | θ) against Gauss-Legendre: relative error of g below 1e-9, for any noise, clamped and not."""
        rng = np.random.default_rng(6)
        n = 60
        for channel, Z, noise, low, high in self.channels(rng, n):
            mean, sd = rng.uniform(-4, 6, Z.shape), np.exp(rng.uniform(-2, 2, Z.shape))
            kernel, theta = normal_theta(KERNEL, mean, sd)
            result = np.empty_like(Z)
            log_marginals(channel, kernel, Z, theta, result)
            expected = np.array(
                [
                    logsumexp(log_joint(self.log_law, Z[i, j], noise[i], low[j], high[j], mean[i, j], sd[i, j])[1])
                    for i, j in np.ndindex(Z.shape)
                ]
            ).reshape(Z.shape)
            np.testing.assert_allclose(result, expected, rtol=0, atol=1e-9)

    @pytest.mark.parametrize("noise", [1e-4, 1e-2, 1e3])
    def test_log_marginal_at_extreme_noise(self, noise):
        """At small noise g is nearly f; the tilts are steep, and nothing may cancel."""
        z = np.array([[0.3, 0.3], [0.999, -2.0], [1.0, 4.0]])
        mean, sd = np.array([[0.0, 0.5], [1.0, 2.0], [-3.0, 1.0]]), np.array([[1.0, 0.1], [0.5, 5.0], [2.0, 1.0]])
        kernel, theta = normal_theta(KERNEL, mean, sd)
        for bounds, low, high in (((0, 1), 0.0, 1.0), (None, -np.inf, np.inf)):
            channel = self.cls(scale=noise, bounds=bounds)._lower(n_records=3, n_features=2)
            result = np.empty_like(z)
            log_marginals(channel, kernel, z, theta, result)
            for i, j in np.ndindex(z.shape):
                exact = logsumexp(log_joint(self.log_law, z[i, j], noise, low, high, mean[i, j], sd[i, j])[1])
                assert abs(result[i, j] - exact) < 1e-9 * max(1.0, 1e-3 * abs(exact)), (bounds, i, j)

    def test_impute_is_the_exact_conditional(self):
        """KS of 4,000 draws against the integrated conditional, in each setting; 20 % too much noise is rejected."""
        rng = np.random.default_rng(7)
        rejected = 0
        for channel, Z, noise, low, high in self.channels(rng, 30):
            mean, sd = rng.uniform(-4, 6, Z.shape), np.exp(rng.uniform(-2, 2, Z.shape))
            kernel, theta = normal_theta(KERNEL, mean, sd)
            draws = np.empty((*Z.shape, 4000))
            imputations(channel, kernel, Z, theta, rng, draws)
            for i, j in np.ndindex(Z.shape):
                for wrong in (1.0, 1.2):
                    parts = Z[i, j], wrong * noise[i], low[j], high[j], mean[i, j], sd[i, j]
                    y, log_mass = log_joint(self.log_law, *parts)
                    cdf = np.cumsum(np.exp(log_mass - logsumexp(log_mass)))
                    passes = law_is(draws[i, j], lambda x, y=y, cdf=cdf: np.interp(x, y, cdf))
                    assert passes or wrong > 1, parts
                    rejected += not passes
        assert rejected > 20

    # --- the guarantee ---

    def test_scale_with_bounds_has_one(self):
        """The same noise, said in two ways, promises the same."""
        one = self.cls(**self.budget, bounds=PAIR)
        two = self.cls(scale=one.noise_scale, bounds=PAIR)
        assert two.guarantee().rho == pytest.approx(one.guarantee().rho, rel=1e-14)

    def test_without_clamping_the_guarantee_is_for_records_inside(self):
        assert self.cls(**self.budget, bounds=PAIR).guarantee().neighbours == "replace one record"
        mechanism = self.cls(**self.budget, bounds=PAIR, clamp=False)
        assert mechanism.guarantee().neighbours == "replace one record, for records inside bounds"

    def test_rho_bounds_every_renyi_divergence(self):
        """ρ-zCDP: D_α <= αρ, by integrating over z for records at opposite bounds; attained by the Gaussian."""
        for mechanism in (self.cls(**self.budget, bounds=(0, 1)), self.cls(rho=0.7, bounds=(0, 1))):
            rho, scale = mechanism.guarantee().rho, mechanism.noise_scale
            z, log_weight = panels(np.linspace(-200 * scale, 200 * scale, 3001), [0.0, 1.0])
            p, q = (mechanism.log_density(z[:, None], np.full((len(z), 1), y)) for y in (0.0, 1.0))
            ratio = [
                logsumexp(order * p + (1 - order) * q + log_weight) / (order - 1) / (order * rho)
                for order in (1.01, 1.5, 2.0, 3.0, 10.0)
            ]
            assert max(ratio) < 1 + 1e-9
            if self.cls is GaussianMechanism:
                np.testing.assert_allclose(ratio, 1.0, rtol=1e-9)

    def test_a_query_is_released_once(self):
        """The release has the query's shape, its noise the query's sensitivity, its density the value's."""
        mechanism = self.cls(**self.budget, query=SumQuery(PAIR))
        X = np.random.default_rng(8).uniform(-2, 2, (50, 2))
        Z = np.array([mechanism.privatize(X, random_state=s) for s in range(2000)])
        scale = mechanism.noise_scale
        assert Z.shape == (2000, 2) and not mechanism.is_local
        assert law_is(((Z - mechanism.query.value(X)) / scale).ravel(), self.law(1.0).cdf)
        expected = self.log_law(Z - mechanism.query.value(X), scale).sum(axis=1)
        np.testing.assert_allclose(mechanism.log_density(Z, X), expected, rtol=1e-12)
        assert mechanism.guarantee().rho == pytest.approx(self.cls(**self.budget, bounds=PAIR).guarantee().rho)
        with pytest.raises(ValueError, match=r"has 2 values, but a query makes one release: give one number"):
            self.cls(scale=[1.0, 2.0], query=SumQuery(PAIR)).privatize(X)
        with pytest.raises(ValueError, match=r"takes bounds= .* or query= .* not both: got bounds=\(0, 1\)"):
            self.cls(**self.budget, query=SumQuery(PAIR), bounds=(0, 1)).privatize(X)

    def test_noise_variance_and_tail_are_those_of_the_law(self):
        """What the estimators' plausibility checks use."""
        scale = np.array([0.5, 2.0])
        mechanism = self.cls(scale=scale)
        assert mechanism.noise_variance() == pytest.approx(np.mean(self.law(scale).var()))
        distance = np.array([0.0, 0.3, 5.0])
        np.testing.assert_allclose(mechanism.tail_probability(distance, 2.0), self.law(2.0).sf(distance), rtol=1e-12)
        assert self.cls.kurtosis == 3 + self.law(1.0).stats("k")

    # --- secure ---

    def test_secure_noise_has_the_same_law(self):
        """OpenDP's noise in units of the declared scale, one scale for all records or one each."""
        pytest.importorskip("opendp")
        for mechanism in (self.cls(**self.budget, bounds=PAIR), self.cls(scale=np.repeat([1.0, 3.0, 0.1], 2600))):
            noise = self.standardised(mechanism, secure=True)[:8000]
            assert law_is(noise, self.law(1.0).cdf)
            assert not law_is(1.3 * noise, self.law(1.0).cdf)

    def test_opendp_gets_the_clamped_value(self, monkeypatch):
        """Noise drawn at 0 and added by NumPy has the holes that secure=True is there to close."""
        seen = {}

        def measurement(noise, scale):
            return lambda values: [seen.setdefault(scale, values), [0.25] * len(values)][1]

        monkeypatch.setattr(_secure, "measurement", measurement)
        mechanism = self.cls(scale=[1.0, 2.0, 1.0], bounds=PAIR)
        release = mechanism.privatize([[-9.0, 0.25], [1.0, 9.0], [2.0, 0.125]], secure=True)
        assert seen == {1.0: [-1.0, 0.25, 2.0, 0.125], 2.0: [1.0, 0.5]}
        np.testing.assert_array_equal(release, np.full((3, 2), 0.25))  # nothing is added afterwards

    def test_opendp_certifies_the_guarantee(self):
        """Its own privacy map at our sensitivity is within the budget; without the margin it is not always."""
        pytest.importorskip("opendp")
        rng = np.random.default_rng(9)
        without = 0
        for _ in range(300):
            bounds = np.sort(rng.normal(size=(3, 2)), axis=1) * 10.0 ** rng.integers(-5, 5)
            mechanism = self.cls(rho=float(np.exp(rng.normal())), bounds=bounds)
            kind, scale = mechanism.secure_noise, mechanism.noise_scale
            promised = self.promised(mechanism.guarantee())
            assert _secure.measurement(kind, scale).map(mechanism.sensitivity()) <= promised
            without += _secure.measurement(kind, scale / (1 + _secure.MARGIN)).map(mechanism.sensitivity()) > promised
        assert without > 10

    def promised(self, guarantee):
        return guarantee.rho

    def test_a_secure_query_is_released_once(self):
        pytest.importorskip("opendp")
        Z = self.cls(scale=1e-6, query=SumQuery(PAIR)).privatize([[1.0, 0.25], [2.0, 9.0]], secure=True)
        np.testing.assert_allclose(Z, [3.0, 0.75], atol=1e-3)

    @pytest.mark.parametrize("seed", [0, np.random.default_rng(0)])
    def test_secure_takes_no_seed(self, seed):
        with pytest.raises(
            ValueError, match=r"secure=True .* takes no seed, got random_state=.*pass random_state=None"
        ):
            self.one_feature().privatize([[0.5]], random_state=seed, secure=True)

    def test_secure_without_opendp_names_the_extra(self, monkeypatch):
        monkeypatch.setitem(sys.modules, "opendp", None)
        monkeypatch.setitem(sys.modules, "opendp.prelude", None)
        with pytest.raises(ImportError, match=re.escape('pip install "sklearn-dpmix[secure]"')):
            self.one_feature().privatize([[0.5]], secure=True)

    # --- wrong parameters ---

    @pytest.mark.parametrize("value", [0, -1.0, np.nan, np.inf, "1", True, [], [[1.0]], [1.0, -1.0], ["1"]])
    @pytest.mark.parametrize("name", ["epsilon", "rho"])
    def test_a_bad_budget_is_refused(self, name, value):
        rest = {k: v for k, v in self.budget.items() if k != "epsilon"} if name == "epsilon" else {}
        self.refuses(name, value, **rest)

    def test_exactly_one_way_to_say_how_much_noise(self):
        for given in ({}, {"rho": 1.0, "scale": 2.0}, {**self.budget, "rho": 1.0}, {**self.budget, "scale": 1.0}):
            with pytest.raises(ValueError, match="takes exactly one of epsilon, rho and scale, got epsilon="):
                self.cls(**given, bounds=(0, 1)).check()

    def test_a_budget_needs_bounds_or_a_query(self):
        for given in (self.budget, {"rho": 1.0}):
            with pytest.raises(ValueError, match=r"needs bounds=\(lo, hi\) or query= .* pass scale="):
                self.cls(**given).privatize([[0.5]])

    def test_noise_beyond_floating_point_is_refused(self):
        with pytest.raises(ValueError, match=r"rho=1e-320 .* floating point cannot hold"):
            self.cls(rho=1e-320, bounds=(0, 1e150)).check()
