"""One contract that every mechanism inherits: its law, pieces, sensitivity and guarantee, each by brute force.

A check of a law takes what it checks as an argument, and is shown to reject a broken twin of it.
"""

import itertools
import pickle
import re
import sys
import warnings

import cloudpickle
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_dpmix._base.compiled import entry
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import (
    AdditiveMechanism,
    GaussianMechanism,
    LaplaceMechanism,
    NoNoise,
    RecordChannel,
    _secure,
    compiled,
)

ALPHA = 1e-6
PAIR = np.array([(-1.0, 3.0), (0.0, 0.5)])  # bounds of two features


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


class SumQuery:
    """The sum of records clamped to bounds, released as one vector."""

    def __init__(self, bounds):
        self.bounds = bounds

    def value(self, X):
        return np.clip(X, *np.transpose(self.bounds)).sum(axis=0)

    def sensitivity(self, norm):
        return float(np.linalg.norm(np.diff(self.bounds)[:, 0], norm))


# ---------------------------------------------------------------- integrals


def panels(*points, n_nodes=12):
    """Nodes and log weights of Gauss-Legendre on each panel between the sorted points."""
    edges = np.unique(np.concatenate([np.ravel(p) for p in points]))
    nodes, weights = np.polynomial.legendre.leggauss(n_nodes)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (1 + nodes)).ravel(), np.log(half * weights).ravel()


def joint_panels(z, noise, low, high, mean, sd):
    """Panels on which q(z | y) f(y | θ) is smooth, fine near its peaks, and beyond which nothing is left."""
    shrunk = (mean * noise**2 + z * sd**2) / (noise**2 + sd**2)
    ends = [e for e in (low, high) if np.isfinite(e)]
    centres = np.array([mean, z, shrunk, mean + sd**2 / noise, mean - sd**2 / noise, *ends])
    steps = np.concatenate([np.linspace(0, 45, 91), np.geomspace(1e-9, 0.5, 60)])
    near = [centres[:, None] + sign * width * steps for width in (sd, noise) for sign in (-1, 1)]
    between = np.linspace(min(mean, z) - 45 * sd, max(mean, z) + 45 * sd, 801)
    keep = np.concatenate([np.ravel(near), between, ends, [z]])
    reach = 45 * sd
    return panels(keep[(keep >= mean - reach) & (keep <= mean + reach)])


def log_joint(log_law, z, noise, low, high, mean, sd):
    """(y, log of q(z | y) f(y | θ) dy) on a fine grid."""
    y, log_weight = joint_panels(z, noise, low, high, mean, sd)
    return y, log_law(z - np.clip(y, low, high), noise) + stats.norm.logpdf(y, mean, sd) + log_weight


def law_is(draws, cdf):
    """Kolmogorov–Smirnov at ALPHA; ``cdf`` is a function."""
    return stats.kstest(draws, cdf).pvalue > ALPHA


# ---------------------------------------------------------------- compiled questions


@entry
def log_marginals(channel, kernel, Z, theta, result):
    for i in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            result[i, j] = channel.log_marginal(kernel, Z, i, j, theta, i)


@entry
def imputations(channel, kernel, Z, theta, rng, result):
    for i in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            for t in range(result.shape[2]):
                result[i, j, t] = channel.impute(rng, kernel, Z, i, j, theta, i)


def normal_theta(kernel, mean, sd):
    """Rows of ``theta`` with the means and standard deviations (n, n_features), and the kernel's value."""
    value = kernel._lower(n_features=mean.shape[1])
    theta = np.zeros((len(mean), kernel.sizes(mean.shape[1])[0]))
    for k, j in np.ndindex(mean.shape):
        value.set_params(theta, k, j, mean[k, j], sd[k, j])
    return value, theta


KERNEL = NormalKernel(mean=0.0, mean_precision=0.1, shape=3.0, scale=3.0)


# ---------------------------------------------------------------- the contract of any additive mechanism


class AdditiveContract:
    """What any additive mechanism keeps.  A subclass gives what follows."""

    cls: type

    def law(self, scale):
        """The law of the noise as scipy has it."""
        raise NotImplementedError

    @staticmethod
    def log_law(e, scale):
        """Its log density, which scipy takes from the density and so loses in the tails."""
        raise NotImplementedError

    def settings(self):
        """Mechanisms for records of two features."""
        raise NotImplementedError

    def broken(self, mechanism):
        """A twin whose noise is 5 % larger than it says."""
        twin = clone(mechanism)

        def privatize(X, **options):
            noise = mechanism.privatize(X, **options) - mechanism._value(np.asarray(X))
            return mechanism._value(np.asarray(X)) + 1.05 * noise

        twin.privatize = privatize
        return twin

    # --- a scikit-learn object ---

    def test_it_is_a_scikit_learn_object(self):
        """get_params, clone, pickle, cloudpickle, repr and the HTML view work in every setting."""
        for mechanism in self.settings():
            names = set(mechanism.get_params())
            assert set(clone(mechanism).get_params()) == names
            for copy in (
                clone(mechanism),
                pickle.loads(pickle.dumps(mechanism)),
                cloudpickle.loads(cloudpickle.dumps(mechanism)),
            ):
                assert type(copy) is type(mechanism) and repr(copy) == repr(mechanism)
                np.testing.assert_array_equal(copy.noise_scale_for(2), mechanism.noise_scale_for(2))
            if np.size(mechanism.noise_scale_for(2)) == 1:  # else repr leaves records out
                written = eval(repr(mechanism), {**vars(np), **globals()})
                assert written.noise_scale_for(2) == mechanism.noise_scale_for(2)
            assert self.cls.__name__ in mechanism._repr_html_()

    def test_parameters_are_stored_untouched(self):
        """The very objects given, whatever was called; a converted or clipped copy would break clone."""
        for mechanism in self.settings():
            before = dict(vars(mechanism))
            contents = pickle.dumps(before)
            n = max(np.size(mechanism.noise_scale_for(2)), 3)
            mechanism.privatize(np.zeros((n, 2)), random_state=0)
            mechanism.check(2)
            mechanism._lower(n_records=n, n_features=2)
            assert vars(mechanism).keys() == before.keys()
            assert all(value is before[name] for name, value in vars(mechanism).items())
            assert pickle.dumps(dict(vars(mechanism))) == contents

    # --- the law ---

    def standardised(self, mechanism, **options):
        """Noise of 20,000 releases in units of the declared scale; records in, on and outside the bounds."""
        rng = np.random.default_rng(1)
        size = np.size(mechanism.noise_scale_for(2))
        X = rng.uniform(-3, 5, (size if size > 1 else 10_000, 2))
        bounds = mechanism.bounds_for(2)
        y = X if bounds is None or not mechanism.clamp else np.clip(X, bounds[:, 0], bounds[:, 1])
        scale = np.atleast_1d(mechanism.noise_scale_for(2))[:, None]
        return ((mechanism.privatize(X, **options) - y) / scale).ravel()

    def test_noise_has_the_declared_scale_and_law(self):
        """KS against scipy's law at ``noise_scale``; noise 5 % larger is rejected."""
        for seed, mechanism in enumerate(self.settings()):
            assert law_is(self.standardised(mechanism, random_state=seed), self.law(1.0).cdf), mechanism
            if np.size(mechanism.noise_scale_for(2)) == 1:
                many = [self.standardised(self.broken(mechanism), random_state=100 + s) for s in range(10)]
                assert not law_is(np.concatenate(many), self.law(1.0).cdf), mechanism

    def test_log_density_is_the_density_of_that_law(self):
        """Equal to scipy's, summed over features; in z it integrates to 1 whatever y is."""
        rng = np.random.default_rng(2)
        for mechanism in self.settings():
            n = np.size(mechanism.noise_scale_for(2))
            n = n if n > 1 else 50
            scale = np.broadcast_to(mechanism.noise_scale_for(2), (n,))[:, None]
            X, Z = rng.uniform(-3, 5, (n, 2)), 3 * rng.standard_cauchy((n, 2))
            bounds = mechanism.bounds_for(2)
            y = X if bounds is None or not mechanism.clamp else np.clip(X, bounds[:, 0], bounds[:, 1])
            expected = self.log_law(Z - y, scale).sum(axis=1)
            np.testing.assert_allclose(mechanism.log_density(Z, X), expected, rtol=1e-12, atol=1e-12)
            near = np.clip(Z - y, -20 * scale, 20 * scale)
            np.testing.assert_allclose(self.log_law(near, scale), self.law(scale).logpdf(near), rtol=1e-12, atol=1e-12)

    def test_log_density_integrates_to_one(self):
        mechanism = self.one_feature()
        for y in (-2.0, 0.0, 0.3, 1.0, 7.0):
            grid, log_weight = panels(y + np.sinh(np.linspace(-40, 40, 2001)) * 1e-3, [0.0, 1.0, y])
            total = logsumexp(mechanism.log_density(grid[:, None], np.full((len(grid), 1), y)) + log_weight)
            assert abs(total) < 1e-8

    def one_feature(self):
        return self.cls(scale=0.7, bounds=(0, 1))

    def test_log_weight_is_log_channel_up_to_a_constant(self):
        """In the hot loop constants are left out, but nothing that depends on y."""
        for mechanism in self.settings():
            n = max(np.size(mechanism.noise_scale_for(2)), 3)
            channel = mechanism._lower(n_records=n, n_features=2)
            Z = np.random.default_rng(3).uniform(-5, 5, (n, 2))
            for i, j in itertools.product(range(3), range(2)):
                gap = [
                    channel.log_weight(None, Z, i, j, None, 0, y) - channel.log_channel(Z, i, j, y)
                    for y in (-4.0, -1.0, 0.2, 0.5, 2.0, 9.0)
                ]
                np.testing.assert_allclose(gap, gap[0], rtol=1e-12, atol=1e-12)

    def test_draw_reverse_draws_from_log_reverse(self):
        """The proposal near the release: KS of its draws against the integral of its density."""
        channel = self.cls(scale=[0.3, 1.0, 2.0])._lower(n_records=3, n_features=1)
        if not channel.can_reverse():
            pytest.skip("no proposal near the release")
        rng, Z = np.random.default_rng(4), np.array([[-5.0], [0.0], [3.0]])
        for i in range(3):
            y, log_weight = panels(Z[i, 0] + np.linspace(-60, 60, 2001) * channel.noise[i])
            log_mass = np.array([channel.log_reverse(Z, i, 0, one) for one in y]) + log_weight
            cdf = np.cumsum(np.exp(log_mass - logsumexp(log_mass)))
            draws = np.array([channel.draw_reverse(rng, Z, i, 0) for _ in range(5000)])
            assert law_is(draws, lambda x, y=y, cdf=cdf: np.interp(x, y, cdf))
            assert not law_is(Z[i, 0] + 1.3 * (draws - Z[i, 0]), lambda x, y=y, cdf=cdf: np.interp(x, y, cdf))

    # --- privatize ---

    def test_privatize_is_reproducible(self):
        mechanism, X = self.one_feature(), np.full((5, 1), 0.5)

        def release(seed):
            return mechanism.privatize(X, random_state=seed)

        np.testing.assert_array_equal(release(3), release(3))
        np.testing.assert_array_equal(release(np.int64(3)), release(3))
        np.testing.assert_array_equal(release(np.random.default_rng(3)), release(np.random.default_rng(3)))
        np.testing.assert_array_equal(release(np.random.RandomState(3)), release(np.random.RandomState(3)))
        assert not np.any(release(3) == release(4))

    def test_two_calls_on_one_generator_differ(self):
        """Two releases with the same noise would give their difference away."""
        mechanism, X = self.one_feature(), np.full((5, 1), 0.5)
        for source in (np.random.default_rng(3), np.random.RandomState(3), None):
            first, second = (mechanism.privatize(X, random_state=source) for _ in range(2))
            assert not np.any(first == second)

    def test_privatize_leaves_the_records_alone(self):
        X = np.array([[-5.0], [0.5], [9.0]])
        before = X.copy()
        self.one_feature().privatize(X, random_state=0)
        np.testing.assert_array_equal(X, before)

    @pytest.mark.parametrize("seed", [-1, 1.5, "0", True, [1]])
    def test_a_bad_seed_is_refused(self, seed):
        with pytest.raises(ValueError, match="random_state.*" + re.escape(repr(seed))):
            self.one_feature().privatize([[0.5]], random_state=seed)

    # --- wrong inputs ---

    @pytest.mark.parametrize(
        "records, says",
        [
            ([[np.nan], [0.0]], "X contains NaN"),
            ([[np.inf], [0.0]], "X contains infinity"),
            ([0.0, 1.0], "Expected 2D array, got 1D array"),
            ([["a"], ["b"]], "could not convert string to float"),
            (np.zeros((0, 1)), "0 sample"),
        ],
    )
    def test_bad_records_are_refused(self, records, says):
        for call in (
            lambda: self.one_feature().privatize(records, random_state=0),
            lambda: self.one_feature().log_density(np.zeros((2, 1)), records),
        ):
            with pytest.raises(ValueError, match=says):
                call()

    def test_records_of_the_wrong_width_are_refused(self):
        mechanism = self.cls(scale=1.0, bounds=PAIR)
        with pytest.raises(ValueError, match=r"(?s)bounds=.* has 2 pair\(s\), but the records have 3 feature\(s\): "):
            mechanism.privatize(np.zeros((4, 3)))
        with pytest.raises(ValueError, match=r"Z must have the shape of what is released of X, \(4, 2\), got \(3, 2\)"):
            mechanism.log_density(np.zeros((3, 2)), np.zeros((4, 2)))

    @pytest.mark.parametrize(
        "bounds",
        [
            (1, 0),
            (1, 1),
            (0, np.nan),
            (0, np.inf),
            (-1e308, 1e308),
            (0,),
            (0, 1, 2),
            [[2, 1]],
            [[[0, 1]]],
            np.zeros((0, 2)),
            "01",
            ("0", "1"),
            (False, True),
            3.0,
            (None, 1),
            {0: 1},
        ],
        ids=repr,
    )
    def test_bad_bounds_are_refused(self, bounds):
        mechanism = self.cls(scale=1.0, bounds=bounds)
        for call in (
            mechanism.check,
            lambda: mechanism.privatize([[0.5]]),
            lambda: mechanism.log_density([[0.0]], [[0.0]]),
        ):
            with pytest.raises(ValueError, match="bounds must be .*lo.* got bounds=" + re.escape(repr(bounds))):
                call()

    @pytest.mark.parametrize(
        "value", [0, -1.0, np.nan, np.inf, "1", True, np.True_, 1j, [], [[1.0]], [1.0, 0.0], ["1"], [True], {}, object]
    )
    def test_a_bad_scale_is_refused(self, value):
        self.refuses("scale", value)

    def refuses(self, name, value, **others):
        mechanism = self.cls(**{name: value}, bounds=(0, 1), **others)
        says = f"{name} must be positive and finite, .* got " + re.escape(f"{name}={value!r}")
        for call in (mechanism.check, lambda: mechanism.privatize([[0.5]]), lambda: mechanism.noise_scale):
            with pytest.raises(ValueError, match=says):
                call()

    def test_noise_of_its_own_for_each_record_needs_that_many_records(self):
        with pytest.raises(ValueError, match=r"noise for each of 3 records .* there are 4 records: give one number"):
            self.cls(scale=[1.0, 2.0, 3.0]).privatize(np.zeros((4, 1)))

    @pytest.mark.parametrize("clamp", ["yes", 1, None])
    def test_clamp_is_a_bool(self, clamp):
        with pytest.raises(ValueError, match=re.escape(f"clamp must be True or False, got {clamp!r}")):
            self.cls(scale=1.0, clamp=clamp).privatize([[0.0]])


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

        with pytest.raises(TypeError, match=r"Unmarked.log_noise overrides a compiled method.*@compiled"):
            Unmarked(scale=1.0).log_density([[0.0]], [[0.0]])


# ---------------------------------------------------------------- the contract of a mechanism with a guarantee


class CalibratedContract(AdditiveContract):
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

    def test_scale_alone_has_no_guarantee(self):
        with pytest.raises(ValueError, match=r"guarantee\(\) needs bounds=\(lo, hi\) or query=: scale=1.5 alone"):
            self.cls(scale=1.5).guarantee()

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

    def test_rho_is_what_was_asked_for(self):
        for rho in (1e-3, 0.5, 20.0):
            assert self.cls(rho=rho, bounds=PAIR).guarantee().rho == pytest.approx(rho, rel=1e-14)
        assert self.cls(rho=[0.1, 2.0, 0.5], bounds=PAIR).guarantee().rho == pytest.approx(2.0, rel=1e-14)

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
        with pytest.raises(ValueError, match=r"for each of 2 records .* a query makes one release: give one number"):
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
        for mechanism in (self.cls(**self.budget, bounds=PAIR), self.cls(scale=np.repeat([1.0, 3.0, 0.1], 700))):
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


class TestLaplace(CalibratedContract):
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

    def test_each_record_has_its_own_epsilon(self):
        epsilon = np.array([0.5, 3.0, 1.0])
        mechanism = LaplaceMechanism(epsilon, bounds=(0, 2))
        Z, low, high = np.full((3, 1), -7.0), np.zeros((3, 1)), np.full((3, 1), 2.0)
        ratio = mechanism.log_density(Z, low) - mechanism.log_density(Z, high)
        np.testing.assert_allclose(ratio, epsilon, rtol=1e-12)
        assert mechanism.guarantee().epsilon == 3.0 and mechanism.guarantee().rho == 4.5

    def test_without_clamping_a_record_outside_has_no_guarantee(self):
        """The broken twin of the ratio test: unclamped, it must exceed ε."""
        mechanism = LaplaceMechanism(1.0, bounds=(-1, 1), clamp=False)
        ratio = mechanism.log_density([[0.0]], [[0.0]]) - mechanism.log_density([[0.0]], [[8.0]])
        assert ratio == pytest.approx(4.0)  # the example of ERRATA


class TestGaussian(CalibratedContract):
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

    def test_each_record_has_its_own_epsilon(self):
        epsilon = np.array([0.5, 3.0, 1.0, 3.0])
        mechanism = GaussianMechanism(epsilon, 1e-4, bounds=(0, 2))
        alone = [GaussianMechanism(e, 1e-4, bounds=(0, 2)).noise_scale for e in epsilon]
        np.testing.assert_array_equal(mechanism.noise_scale, alone)
        guarantee = mechanism.guarantee()
        assert (guarantee.epsilon, guarantee.delta) == (3.0, 1e-4)
        assert guarantee.rho == pytest.approx(2.0 / min(alone) ** 2)

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
