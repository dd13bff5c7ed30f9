"""Releases of which only those above a public threshold appear."""

from copy import deepcopy
from functools import cache
from itertools import chain, pairwise
from math import prod

import numpy as np
import oracle
import pytest
from scipy.integrate import quad
from scipy.special import ndtr, owens_t
from scipy.stats import laplace, norm
from statistical import Disagreement, assert_mean_close, assert_means_agree, effective_sample_size
from threshold_case import CASES, PRIOR, SCALE, THRESHOLD, Z, fitted

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._posterior.predictive import release_log_density
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.samplers import MixingMeasure

X = np.array([-2.0, -0.5, 0.5, 1.5, 3.0])
LAWS = {LaplaceMechanism: laplace, GaussianMechanism: norm}


# --- the probability of being released -------------------------------------------------------------------------------


NODES, WEIGHTS = np.polynomial.legendre.leggauss(100)


def by_quadrature(law, b, t, low, high, mean, sd):
    """P(clamp(y) + noise > t), y ~ N(mean, sd²)."""
    places = np.array([t, low, high, mean, t - 4 * b, t + 4 * b, mean - 3 * sd, mean + 3 * sd])
    edges = np.unique(np.clip(np.append(places, [-1e9, 1e9]), mean - 14 * sd, mean + 14 * sd))
    length = np.diff(edges)[:, None]
    y = edges[:-1, None] + length * (0.5 + 0.5 * NODES)
    return np.sum(0.5 * length * WEIGHTS * law.sf(t - np.clip(y, low, high), scale=b) * norm.pdf(y, mean, sd))


@pytest.mark.parametrize("sign", [1.0, -1.0])
@pytest.mark.parametrize(
    ("kind", "bounds"),
    [(kind, bounds) for kind in (LaplaceMechanism, GaussianMechanism) for bounds in (None, (-2.0, 3.0))],
)
def test_probability_of_being_released(kind, bounds, sign):
    """Against quadrature; the derivatives against differences."""
    rng, (low, high) = np.random.default_rng(1), (-np.inf, np.inf) if bounds is None else bounds
    for _ in range(20):
        b, sd = 10 ** rng.uniform(-0.7, 0.7), 10 ** rng.uniform(-1.3, 0.7)
        mean, t, step = 3 * rng.standard_normal(), rng.uniform(-4, 5), 1e-5
        channel = kind(scale=b, bounds=bounds, released_above=t)._lower(n_records=1, n_features=1)

        def fill(mean, log_variance, channel=channel, b=b):
            found = np.zeros(3)
            channel.fill_released(sign, b, mean, log_variance, found, 0, 1, 2)
            return found

        at = 2 * np.log(sd)
        expected = by_quadrature(LAWS[kind], b, t, low, high, mean, sd)
        value, by_mean, by_scale = fill(mean, at)
        assert value == pytest.approx(expected if sign > 0 else 1 - expected, rel=1e-7, abs=1e-12)
        slope = (fill(mean + step * sd, at)[0] - fill(mean - step * sd, at)[0]) / (2 * step)
        assert by_mean * sd == pytest.approx(slope, abs=1e-8)
        assert by_scale == pytest.approx((fill(mean, at + step)[0] - fill(mean, at - step)[0]) / (2 * step), abs=1e-8)


def test_small_probabilities_keep_their_digits():
    """Of clamped records under Gaussian noise, far below the threshold: relative to quadrature, down to 1e-30."""
    low, high = -2.0, 3.0
    for mean, sd, b, t in ((-3.0, 1.0, 0.5, 4.0), (2.5, 0.05, 0.4, 6.0), (-9.0, 4.0, 0.05, 2.9), (0.0, 0.01, 1.0, 9.0)):
        mechanism, found = GaussianMechanism(scale=b, bounds=(low, high), released_above=t), np.zeros(3)
        channel, law = mechanism._lower(n_records=1, n_features=1), norm(mean, sd)
        channel.fill_released(1.0, b, mean, 2 * np.log(sd), found, 0, 1, 2)
        places = np.unique(np.clip([low, high, *(mean + sd * np.linspace(-12, 12, 25))], low, high))

        def appears(y, t=t, b=b, law=law):
            return norm.sf(t - y, scale=b) * law.pdf(y)

        expected = sum(quad(appears, *pair, epsabs=0.0, epsrel=1e-12)[0] for pair in pairwise(places))
        expected += norm.sf(t - low, scale=b) * law.cdf(low) + norm.sf(t - high, scale=b) * law.sf(high)
        assert found[0] == pytest.approx(expected, rel=1e-8)


def test_next_to_nothing_is_no_less():
    channel = GaussianMechanism(scale=1.0, released_above=100.0)._lower(n_records=1, n_features=1)
    found = np.zeros(3)
    channel.fill_released(1.0, 1.0, 0.0, 0.0, found, 0, 1, 2)
    np.testing.assert_array_equal(found, [1e-150, 0.0, 0.0])


# --- the posterior ---------------------------------------------------------------------------------------------------


def both_below(h, k, correlation):
    """P(X < h, Y < k) of two standard normal variables (Owen 1956)."""
    root = np.sqrt(1.0 - correlation**2)
    value = 0.5 * (ndtr(h) + ndtr(k)) - owens_t(h, (k - correlation * h) / (h * root))
    return value - owens_t(k, (h - correlation * k) / (k * root)) - 0.5 * (h * k < 0)


LEFT_OUT = -3.25  # stands for a release that did not appear


@cache
def enumerated(name, n_suppressed):
    """The predictive density where so many are known to be left out: P(left out) is their g, in all partitions."""
    kind, bounds = CASES[name]
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    usual = oracle.log_marginal_kernel

    def mass(mu, sigma, *tilt):
        return np.exp(oracle.log_tilted_mass(mu, sigma, *tilt))

    def log_g(z, mu, sigma, noise, b, bounds):
        if z != LEFT_OUT:
            return usual(z, mu, sigma, noise, b, bounds)
        t = THRESHOLD
        if kind is GaussianMechanism and bounds is not None:
            spread = np.hypot(sigma, b)
            ends = [both_below((end - mu) / sigma, (t - mu) / spread, sigma / spread) for end in (low, high)]
            atoms = ndtr((low - mu) / sigma) * ndtr((t - low) / b) + ndtr((mu - high) / sigma) * ndtr((t - high) / b)
            return np.log(ends[1] - ends[0] + atoms)
        if kind is GaussianMechanism:
            return np.log(ndtr((t - mu) / np.hypot(sigma, b)))
        first = low if bounds is not None else mu - 40 * sigma - 40 * b  # a mass has one infinite end at most
        left_out = mass(mu, sigma, first, t, 0.0, t) - 0.5 * mass(mu, sigma, first, t, 1 / b, t)
        left_out = left_out + 0.5 * mass(mu, sigma, t, high, -1 / b, t)
        if bounds is not None:
            left_out = left_out + ndtr((low - mu) / sigma) * laplace.cdf(t - low, scale=b)
            left_out = left_out + ndtr((mu - high) / sigma) * laplace.cdf(t - high, scale=b)
        return np.log(left_out)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(oracle, "log_marginal_kernel", log_g)
        noise = "laplace" if kind is LaplaceMechanism else "gaussian"
        released = np.append(Z, np.full(n_suppressed, LEFT_OUT))
        return oracle.exact_posterior(
            released, noise=noise, noise_scale=SCALE, bounds=bounds, x=X[:, None], **PRIOR
        ).predictive


class Forgets(MixingMeasure):
    """The node of those left out is forgotten."""

    def with_threshold(self, seen, release):
        return seen


def compare(name, n_suppressed, sampler="auto"):
    draws = fitted(name, len(Z) + n_suppressed, sampler).density_draws(X[:, None])
    assert_mean_close(draws, enumerated(name, n_suppressed), what=f"{name}, {n_suppressed} left out")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "n_suppressed"),
    [
        pytest.param("laplace", 1, marks=pytest.mark.nightly),
        ("clamped", 2),
        ("gaussian", 2),
        ("gaussian", 0),
        ("clamped gaussian", 2),
    ],
)
def test_posterior_given_how_many_were_left_out(name, n_suppressed):
    compare(name, n_suppressed)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["clamped", "gaussian", "clamped gaussian"])
def test_those_left_out_matter(name):
    with pytest.raises(Disagreement):
        compare(name, 2, Forgets())


SCALES = (0.3, 1.5, 0.3)  # of releases of several noise scales


def density(x, mean, sd):
    """Normal; SciPy's takes three times as long."""
    e = (x - mean) / sd
    return np.exp(-0.5 * e * e) / (2.5066282746310002 * sd)


@cache
def simulated(*each):
    """Predictive density and n/Σ 1/R under Gaussian noise, and errors, by the prior with weights Π f(z)/R; and Π f(z).

    A third way, without partitions, nodes or chains: sticks (Sethuraman 1994).  Of ``each`` tuple of scales, by the
    same draws.
    """
    rng, size, n_sticks, parts = np.random.default_rng(1), 20_000, 30, []  # they leave 2⁻³⁰ on average
    for _ in range(5):
        v = rng.random((size, n_sticks))
        w = v * np.cumprod(np.column_stack([np.ones(size), 1.0 - v[:, :-1]]), axis=1)
        variance = PRIOR["scale"] / rng.gamma(PRIOR["shape"], size=w.shape)
        mean = PRIOR["mean"] + np.sqrt(variance / PRIOR["mean_precision"]) * rng.standard_normal(w.shape)
        sd = np.sqrt(variance)
        totals = {scale: np.sqrt(variance + scale**2) for scale in {*chain(*each)}}
        shares = {b: np.sum(w * ndtr((mean - THRESHOLD) / total), axis=1) for b, total in totals.items()}
        seen = {(z, b) for scales in each for z, b in zip(Z, scales, strict=True)}
        seen = {(z, b): np.sum(w * density(z, mean, totals[b]), axis=1) for z, b in seen}
        densities = [np.sum(w * density(x, mean, sd), axis=1) for x in X]
        for scales in each:
            likelihood = prod(seen[pair] for pair in zip(Z, scales, strict=True))
            appear, n_each = prod(shares[b] for b in scales), sum(1 / shares[b] for b in scales)
            parts.append(np.column_stack([likelihood / appear, likelihood, *densities, len(Z) / n_each]))
    return [weighted(np.concatenate(parts[i :: len(each)])) for i in range(len(each))]


def weighted(draws):
    """Means and errors by the weights in the first column, and by those in the second, of the others."""
    weights, values = np.split(draws, [2], axis=1)
    weights /= weights.sum(axis=0)
    found = [weight @ values for weight in weights.T]
    errors = [np.sqrt(weight**2 @ (values - one) ** 2) for weight, one in zip(weights.T, found, strict=True)]
    return list(zip(found, errors, strict=True))


@pytest.mark.slow
def test_posterior_where_their_number_is_unknown():
    model = fitted("gaussian")
    draws = np.concatenate([model.density_draws(X[:, None]), model.released_share_draws()[..., None]], axis=-1)
    [(right, (forgotten, _))] = simulated((SCALE,) * 3)
    for j, (truth, error) in enumerate(zip(*right, strict=True)):
        one = draws[..., j]
        spread = np.hypot(error, one.std() / np.sqrt(effective_sample_size(one, 1000, "R")))
        assert abs(one.mean() - truth) < 5 * spread
    assert abs(forgotten[-1] - draws[..., -1].mean()) > 0.1  # the twin that forgets the normaliser
    n_left_out = model.n_suppressed_draws(random_state=0)
    share = model.released_share_draws()
    assert n_left_out.shape == share.shape
    expected = 3 * (1 / share - 1)
    assert abs(np.mean((n_left_out - expected) / np.sqrt(3 * (1 - share)) * share)) < 5 / np.sqrt(share.size)


def with_scales(scales, bounds=None, kind=GaussianMechanism, **parameters):
    mechanism = kind(scale=np.array(scales), bounds=bounds, released_above=THRESHOLD)
    parameters = {"n_draws": 2000, "random_state": 0} | parameters
    return PrivateDPMixture(mechanism, kernel=NormalKernel(**PRIOR), **parameters).fit(Z[:, None])


def compare_scales(model, truths):
    draws = np.concatenate([model.density_draws(X[:, None]), model.released_share_draws()[..., None]], axis=-1)
    for j, (truth, error) in enumerate(zip(*truths, strict=True)):
        one = draws[..., j]
        if abs(one.mean() - truth) > 5 * np.hypot(error, one.std() / np.sqrt(effective_sample_size(one, 1000, "R"))):
            raise Disagreement(f"{j}: {one.mean():.4f}, expected {truth:.4f}")


@pytest.mark.slow
def test_noise_of_several_scales():
    """Each release is divided by its own scale's R; twins have one R for all, or none."""
    model = with_scales(SCALES)
    own, common, others = simulated(SCALES, (SCALE,) * 3, (1.5, 0.3, 0.3))
    compare_scales(model, own[0])
    share = model.released_share_draws()
    n_left_out = model.n_suppressed_draws(random_state=0)
    counts, shares = model._shares_by_scale()
    np.testing.assert_array_equal(counts, [2, 1])
    np.testing.assert_allclose(3 / share, np.sum(counts / shares, axis=-1))
    spread = np.sqrt(np.sum(counts * (1 - shares) / shares**2, axis=-1))
    assert abs(np.mean((n_left_out - 3 * (1 / share - 1)) / spread)) < 5 / np.sqrt(share.size)
    for wrong in (own[1], common[0], others[0]):
        with pytest.raises(Disagreement):
            compare_scales(model, wrong)


@pytest.mark.nightly
@pytest.mark.slow
def test_equal_scales_are_one():
    """Catches a scale that is read from another place where records have their own."""
    compare_scales(with_scales((SCALE,) * 3), simulated((SCALE,) * 3)[0][0])
    for kind, bounds in ((LaplaceMechanism, (-1.0, 2.5)), (GaussianMechanism, (-1.0, 2.5)), (LaplaceMechanism, None)):
        each = with_scales((SCALE,) * 3, bounds, kind).density_draws(X[:, None])
        common = with_scales(SCALE, bounds, kind).density_draws(X[:, None])
        assert_means_agree(each, common, what=f"{kind.__name__}, {bounds}")


@pytest.mark.slow
def test_scores_of_releases_of_several_scales():
    """Of each scale the predictive density of releases above the threshold has mass one; so have single likelihoods."""
    model, z = with_scales(SCALES, n_draws=100, n_chains=1), np.linspace(THRESHOLD + 1e-9, 21.0, 401)
    density = np.array([np.exp(3 * model.score_release(np.full((3, 1), one))) for one in z])
    of_two = model._of_each_scale(model._fitted_releases())
    assert [np.atleast_1d(rows).tolist() for rows, _ in of_two] == [[0, 2], [1]]
    each = []
    for rows, releases in of_two:
        found = release_log_density(model._draws_, releases._replace(Z=z[:, None]))
        assert np.trapezoid(np.exp(found), z) == pytest.approx(1.0, abs=0.01)
        each.append(found * len(rows))
    np.testing.assert_allclose(density, np.exp(sum(each)), rtol=1e-9)
    changed = deepcopy(model).set_params(mechanism=LaplaceMechanism(scale=1.0))
    assert changed.score_release(np.full((3, 1), 3.0)) == model.score_release(np.full((3, 1), 3.0))
