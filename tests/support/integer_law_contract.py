"""The law of integer noise and its channel, each by sums over the integers: tests that integer mechanisms inherit.

A check takes what it checks as an argument, and is shown to reject a broken twin of it.
"""

import itertools
import pickle

import numpy as np
import pytest
from additive_contract import KERNEL, assert_parameters_stay, imputations, log_marginals, normal_theta
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_dpmix.mechanisms import compiled

mpmath = pytest.importorskip("mpmath")

ALPHA = 1e-6
PAIR = np.array([(-1, 3), (0, 1)])  # bounds of two features
SCALES = [0.05, 0.3, 0.7, 1.0, 2.5, 30.0, 31.0, 400.0]


# ---------------------------------------------------------------- checks


def support(scale, reach=45):
    """Integers that hold all but a negligible part of the noise."""
    end = int(reach * np.max(scale)) + 10
    return np.arange(-end, end + 1.0)


def log_pmf(mechanism, e, y=0):
    """Its own log probabilities of noise e, through the compiled channel."""
    e = np.asarray(e, dtype=float)
    return mechanism.log_density((y + e)[:, None], np.full((len(e), 1), y))


def chi_square(noise, probability):
    """P-value of integer draws; ``probability`` maps integers to theirs.  Cells below 10 expected are pooled."""
    values = np.arange(min(noise.min(), -60) - 5, max(noise.max(), 60) + 6)
    expected = probability(values) * len(noise)
    keep = expected >= 10
    assert keep.any() and not keep.all()
    observed = np.array([np.sum(noise == v) for v in values[keep]])
    counts = np.append(observed, len(noise) - observed.sum())
    expected = np.append(expected[keep], len(noise) - expected[keep].sum())
    if expected[-1] < 1:  # too few for the approximation: into a cell of the others
        counts, expected = (np.append(part[:-2], part[-2:].sum()) for part in (counts, expected))
    return float(stats.chi2.sf(np.sum((counts - expected) ** 2 / expected), len(counts) - 1))


def law_is(noise, probability):
    return np.array_equal(noise, np.floor(noise)) and chi_square(noise, probability) > ALPHA


def sums_to_one(log_mass):
    return abs(logsumexp(log_mass)) < 1e-12


def pieces_fit(channel, Z, rng):
    """Whether pieces cover the line without overlap and each is the channel's log probability there."""
    for i, j in np.ndindex(Z.shape):
        end = -np.inf
        for p in range(channel.n_pieces()):
            lo, hi, anchor, value, slope, curvature = channel.piece(Z, i, j, p)
            if not lo < hi:
                continue
            inner = rng.uniform(max(lo, -30.0), min(hi, 30.0), 4)
            same = [channel.log_channel(Z, i, j, y) == value for y in inner]
            if not (lo == end and np.isfinite(anchor) and slope == curvature == 0 and all(same)):
                return False
            end = hi
        if end != np.inf:
            return False
    return True


# ---------------------------------------------------------------- the contract


class IntegerLaw:
    """What an integer mechanism releases, and the channel that samplers see."""

    cls: type
    norm: int
    budget: dict

    def exact_log_pmf(self, e, scale):
        """By mpmath."""
        raise NotImplementedError

    def twin_noise(self, rng, scale, size):
        """Noise of a law that is near but another: the continuous one, rounded."""
        raise NotImplementedError

    def settings(self):
        yield self.cls(**self.budget, bounds=(-1, 3))
        yield self.cls(**self.budget, bounds=PAIR)
        yield self.cls(**self.budget, bounds=PAIR.tolist(), clamp=False)
        yield self.cls(rho=0.5, bounds=((-1, 3), (0, 1)))
        yield self.cls(scale=0.6)
        yield self.cls(scale=[0.5, 1.0, 2.0] * 20, bounds=(0, 1))

    # --- a scikit-learn object ---

    def test_it_is_a_scikit_learn_object(self):
        for mechanism in self.settings():
            for copy in (clone(mechanism), pickle.loads(pickle.dumps(mechanism))):
                assert repr(copy) == repr(mechanism)
                np.testing.assert_array_equal(copy.noise_scale_for(2), mechanism.noise_scale_for(2))
            assert_parameters_stay(mechanism)

    # --- the law ---

    @pytest.mark.parametrize("scale", SCALES)
    def test_log_pmf_is_mpmaths_far_into_the_tails(self, scale):
        e = np.unique(np.floor(np.concatenate([np.arange(6), np.geomspace(1, 1e4 * scale + 10, 30)])))
        expected = [float(self.exact_log_pmf(int(v), scale)) for v in e]
        np.testing.assert_allclose(log_pmf(self.cls(scale=scale), e), expected, rtol=1e-13, atol=2e-15)
        np.testing.assert_allclose(log_pmf(self.cls(scale=scale), -e), expected, rtol=1e-13, atol=2e-15)

    @pytest.mark.parametrize("scale", [1e-9, 1e7, 1e12])
    def test_log_pmf_at_extreme_scales(self, scale):
        e = np.array([0.0, 1.0, 1e3, 1e9, 1e13])
        expected = [float(self.exact_log_pmf(int(v), scale)) for v in e]
        np.testing.assert_allclose(log_pmf(self.cls(scale=scale), e), expected, rtol=1e-13, atol=2e-15)

    def test_log_noise_is_the_same_law(self):
        value = self.cls(scale=SCALES)._lower(n_records=len(SCALES), n_features=1)
        for scale, e in itertools.product(SCALES, (0.0, 2.0, -7.0)):
            expected = float(self.exact_log_pmf(int(e), scale))
            assert value.log_noise(e, scale) == pytest.approx(expected, rel=1e-13, abs=2e-15)

    @pytest.mark.parametrize("scale", SCALES)
    def test_pmf_sums_to_one(self, scale):
        """The normaliser of the continuous law fails at small scales."""
        for y in (0, 1, 9):  # 9 is clamped
            mechanism = self.cls(scale=scale, bounds=(0, 1))
            assert sums_to_one(log_pmf(mechanism, support(scale), y))
        if scale < 0.5:
            shape = log_pmf(self.cls(scale=scale), support(scale)) + self.cls.log_sum(scale)
            assert not sums_to_one(shape - np.log(self.twin_total(scale)))

    @pytest.mark.parametrize("scale", [0.4, 0.7, 2.3, 25.0])
    def test_draws_have_the_law(self, scale):
        """20,000 draws; the continuous law rounded, or 10 % more noise, is rejected."""
        mechanism = self.cls(scale=scale)

        def probability(e):
            return np.exp(log_pmf(mechanism, e))

        noise = mechanism.privatize(np.full((20_000, 1), 7), random_state=11)[:, 0] - 7
        assert law_is(noise, probability)
        assert not law_is(noise + 0.5, probability)
        more = self.cls(scale=1.1 * scale).privatize(np.zeros((20_000, 1)), random_state=12)[:, 0]
        assert not law_is(more, probability)
        if scale < 1:
            rounded = np.round(self.twin_noise(np.random.default_rng(13), scale, 20_000))
            assert not law_is(rounded, probability)

    def test_each_record_has_noise_of_its_own_scale(self):
        scale = np.repeat([0.5, 3.0], 10_000)
        Z = self.cls(scale=scale).privatize(np.zeros((20_000, 1)), random_state=14)[:, 0]
        for one in (0.5, 3.0):
            assert law_is(Z[scale == one], lambda e, one=one: np.exp(log_pmf(self.cls(scale=one), e)))
        assert not law_is(Z, lambda e: np.exp(log_pmf(self.cls(scale=0.5), e)))

    @pytest.mark.parametrize("scale", SCALES)
    def test_moments_and_tails_are_sums(self, scale):
        """Variance, kurtosis and P(noise > distance) as the plausibility checks use them."""
        mechanism = self.cls(scale=scale)
        e = support(scale, 60)
        p = np.exp(log_pmf(mechanism, e))
        variance = np.sum(p * e**2)
        assert mechanism.noise_variance() == pytest.approx(variance, rel=1e-10)
        if variance >= 1:
            assert mechanism.kurtosis == pytest.approx(np.sum(p * e**4) / variance**2, rel=1e-9)
        else:
            assert mechanism.kurtosis is None
        distance = np.array([0.0, 0.3, 1.0, 2.99, 3 * scale, 12 * scale])
        expected = [np.sum(p[e > d]) for d in distance]
        np.testing.assert_allclose(mechanism.tail_probability(distance, scale), expected, rtol=1e-9, atol=1e-300)
        if scale < 0.5:
            assert abs(self.twin_variance(scale) / variance - 1) > 0.1  # the continuous formula is no match

    def test_moments_over_records_of_different_noise(self):
        mechanism = self.cls(scale=[1.0, 2.0, 5.0])
        alone = [self.cls(scale=s) for s in (1.0, 2.0, 5.0)]
        variance = np.array([m.noise_variance() for m in alone])
        assert mechanism.noise_variance() == pytest.approx(variance.mean())
        fourth = np.sum([np.sum(np.exp(log_pmf(m, support(9))) * support(9) ** 4) for m in alone])
        evenness = np.mean([1, 4, 25]) ** 2 / np.mean([1, 16, 625])
        assert evenness / (mechanism.kurtosis - 1) == pytest.approx(
            variance.sum() ** 2 / (fourth - np.sum(variance**2)) / 3, rel=1e-9
        )

    # --- the channel as samplers see it ---

    def test_confidential_reals_count_as_their_rounding(self):
        """Half up, after clamping; records that are integers give ``log_density``."""
        channel = self.cls(scale=0.8, bounds=(-1, 3))._lower(n_records=1, n_features=1)
        Z = np.array([[2.0]])
        for y, c in ((0.49, 0), (0.5, 1), (-0.5, 0), (-0.51, -1), (-9.7, -1), (2.5, 3), (44.0, 3), (-np.inf, -1)):
            expected = self.cls(scale=0.8).log_density(Z, [[c]])[0]
            assert channel.log_channel(Z, 0, 0, y) == pytest.approx(expected, rel=1e-14)
        gap = [channel.log_weight(None, Z, 0, 0, None, 0, y) - channel.log_channel(Z, 0, 0, y) for y in (-3, 0.2, 8)]
        np.testing.assert_allclose(gap, gap[0], rtol=1e-13)

    def channel(self, rng, n=40):
        Z = np.round(rng.uniform(-8, 9, (n, 2)))
        noise = np.exp(rng.uniform(-1, 2, n))
        return self.cls(scale=noise, bounds=PAIR)._lower(n_records=n, n_features=2), Z, noise

    def test_pieces_cover_the_line_and_agree_with_the_channel(self):
        rng = np.random.default_rng(5)
        channel, Z, noise = self.channel(rng)
        assert channel.n_pieces() == 5  # of the wider feature; three are empty for the other
        assert pieces_fit(channel, Z, rng)

        class Shifted(self.cls):
            """Cells from one integer to the next, as if records were rounded down."""

            @compiled
            def piece(self, Z, i, j, p):
                c = self.low[j] + p
                if c > self.high[j]:
                    return np.inf, np.inf, self.high[j], -np.inf, 0.0, 0.0
                value = self.log_shape(Z[i, j] - c, self.rate[i * self.each]) - self.log_total[i * self.each]
                return c if p > 0 else -np.inf, c + 1 if c < self.high[j] else np.inf, c, value, 0.0, 0.0

        class Short(self.cls):
            """One cell too few."""

            @compiled
            def n_pieces(self):
                return self.cells - 1

        for broken in (Shifted, Short):
            twin = broken(scale=noise, bounds=PAIR)._lower(n_records=len(Z), n_features=2)
            assert not pieces_fit(twin, Z, rng)

    def test_there_are_pieces_only_where_cells_are_few(self):
        assert self.cls(scale=1.0, bounds=(0, 5)).piece_shape == "flat"
        assert self.cls(scale=1.0, bounds=(0, 10**6)).piece_shape is None
        assert self.cls(scale=1.0, bounds=(0, 5), clamp=False).piece_shape is None
        assert self.cls(scale=1.0).piece_shape is None

    def test_log_marginal_is_the_sum_over_cells(self):
        """log g(z | θ) with the normal kernel against scipy; cells of another rounding are rejected."""
        rng = np.random.default_rng(6)
        channel, Z, noise = self.channel(rng)
        mean, sd = rng.uniform(-3, 5, Z.shape), np.exp(rng.uniform(-1, 1, Z.shape))
        kernel, theta = normal_theta(KERNEL, mean, sd)
        result = np.empty_like(Z)
        log_marginals(channel, kernel, Z, theta, result)

        def expected(offset):
            g = np.empty_like(Z)
            for i, j in np.ndindex(Z.shape):
                c = np.arange(PAIR[j, 0], PAIR[j, 1] + 1)
                edges = np.concatenate([[-np.inf], c[1:] - offset, [np.inf]])
                mass = np.diff(stats.norm.cdf(edges, mean[i, j], sd[i, j]))
                g[i, j] = np.log(np.sum(mass * np.exp(log_pmf(self.cls(scale=noise[i]), Z[i, j] - c))))
            return g

        np.testing.assert_allclose(result, expected(0.5), rtol=1e-9, atol=1e-9)
        assert np.abs(result - expected(0.4)).max() > 1e-3

    def test_impute_is_the_exact_conditional(self):
        """KS of 4,000 draws against the conditional distribution function; the prior's is rejected."""
        z, mean, sd = np.array([[3.0]]), np.array([[0.4]]), np.array([[1.3]])
        mechanism = self.cls(scale=1.1, bounds=(-1, 3))
        kernel, theta = normal_theta(KERNEL, mean, sd)
        draws = np.empty((1, 1, 4000))
        channel = mechanism._lower(n_records=1, n_features=1)
        imputations(channel, kernel, z, theta, np.random.default_rng(7), draws)
        c = np.arange(-1, 4)
        edges = np.concatenate([[-40.0], c[1:] - 0.5, [40.0]])
        q = np.exp(log_pmf(self.cls(scale=1.1), 3.0 - c))
        prior = stats.norm(0.4, 1.3).cdf
        total = np.concatenate([[0], np.cumsum(q * np.diff(prior(edges)))])

        def cdf(y):
            k = np.searchsorted(edges, y, side="right") - 1
            return (total[k] + q[k] * (prior(y) - prior(edges[k]))) / total[-1]

        assert stats.kstest(draws.ravel(), cdf).pvalue > ALPHA
        assert not stats.kstest(draws.ravel(), prior).pvalue > ALPHA

    def test_draw_reverse_draws_from_log_reverse(self):
        """The proposal near the release: integers by their law, uniform within the cell."""
        scale = [0.3, 1.0, 6.0]
        channel = self.cls(scale=scale)._lower(n_records=3, n_features=1)
        rng, Z = np.random.default_rng(8), np.array([[-5.0], [0.0], [3.0]])
        assert channel.can_reverse()
        for i in range(3):
            y = np.array([channel.draw_reverse(rng, Z, i, 0) for _ in range(5000)])
            cell = np.floor(y + 0.5)
            e = support(scale[i])
            log_mass = np.array([channel.log_reverse(Z, i, 0, Z[i, 0] + v) for v in e])
            mass = np.exp(log_mass - logsumexp(log_mass))

            def probability(v, e=e, mass=mass):
                return np.interp(v, e, mass)

            assert law_is(cell - Z[i, 0], probability)
            assert i == 0 or not law_is(np.round(1.4 * (cell - Z[i, 0])), probability)
            assert stats.kstest(y - cell, stats.uniform(-0.5, 1.0).cdf).pvalue > ALPHA
