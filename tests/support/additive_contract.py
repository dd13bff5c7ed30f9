"""One contract that every additive mechanism inherits: its law, its pieces, what it refuses, each by brute force.

A check of a law takes what it checks as an argument, and is shown to reject a broken twin of it.
"""

import itertools
import pickle
import re

import cloudpickle
import numpy as np
import pytest
from scipy import stats
from scipy.special import logsumexp
from sklearn.base import clone

from sklearn_dpmix._base.compiled import entry
from sklearn_dpmix.kernels import NormalKernel

ALPHA = 1e-6
PAIR = np.array([(-1.0, 3.0), (0.0, 0.5)])  # bounds of two features


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
        value.put_params(theta, k, j, mean[k, j], sd[k, j])
    return value, theta


KERNEL = NormalKernel(mean=0.0, mean_precision=0.1, shape=3.0, scale=3.0)


# ---------------------------------------------------------------- the contract of any additive mechanism


def assert_parameters_stay(mechanism):
    """The very objects given, as they were, after all that uses them."""
    before = dict(vars(mechanism))
    contents = pickle.dumps(before)
    n = max(np.size(mechanism.noise_scale_for(2)), 3)
    mechanism.privatize(np.zeros((n, 2)), random_state=0)
    mechanism.check(2)
    mechanism._lower(n_records=n, n_features=2)
    assert vars(mechanism).keys() == before.keys()
    assert all(value is before[name] for name, value in vars(mechanism).items())
    assert pickle.dumps(dict(vars(mechanism))) == contents


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
                written = eval(repr(mechanism), {**vars(np), type(mechanism).__name__: type(mechanism)})
                assert written.noise_scale_for(2) == mechanism.noise_scale_for(2)
            assert self.cls.__name__ in mechanism._repr_html_()

    def test_parameters_are_stored_untouched(self):
        """The very objects given, whatever was called; a converted or clipped copy would break clone."""
        for mechanism in self.settings():
            assert_parameters_stay(mechanism)

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
            ([0.0, 1.0], r"^Expected 2D array, got 1D array instead: X has shape \(2,\)\.\nReshape [^0]*$"),
            ([["a"], ["b"]], "holds text"),
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
        with pytest.raises(ValueError, match=r"Z must have the shape of a release of X, \(4, 2\), got \(3, 2\)"):
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

    def test_the_first_bad_scale_of_many_is_named(self):
        self.refuses("scale", np.repeat([2.0, -0.5], [30, 70]), found="scale[30]=-0.5")

    def refuses(self, name, value, found=None, **others):
        mechanism = self.cls(**{name: value}, bounds=(0, 1), **others)
        says = f"{name} must be positive and finite, .* got " + re.escape(found or f"{name}={value!r}")
        for call in (mechanism.check, lambda: mechanism.privatize([[0.5]]), lambda: mechanism.noise_scale):
            with pytest.raises(ValueError, match=says):
                call()

    def test_noise_of_its_own_for_each_record_needs_that_many_records(self):
        with pytest.raises(ValueError, match=r"has 3 values, but there are 4 records: give one number"):
            self.cls(scale=[1.0, 2.0, 3.0]).privatize(np.zeros((4, 1)))

    @pytest.mark.parametrize("clamp", ["yes", 1, None])
    def test_clamp_is_a_bool(self, clamp):
        with pytest.raises(ValueError, match=re.escape(f"clamp must be True or False, got {clamp!r}")):
            self.cls(scale=1.0, clamp=clamp).privatize([[0.0]])
