"""The hybrid mechanism: its law as printed, privacy by brute force, g by quadrature, nodes, moments, wrong input.

Its posteriors are in ``test_exact_channels.py``.  Compiled methods run here as the plain Python that they are.
"""

import itertools
from math import fsum

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix._releases.nodes import cell_edges, compress
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix._releases.summarised_release import SummarisedRelease
from sklearn_dpmix.kernels import BetaKernel, NormalKernel, TruncatedNormalKernel
from sklearn_dpmix.mechanisms import HybridMechanism, PiecewiseMechanism
from sklearn_dpmix.mechanisms._hybrid import COIN_ALONE

ALPHA = 1e-6
BOUNDS = (-2.0, 3.0)


def printed(epsilon, t):
    """(share of the piecewise mechanism, D, probability of D) as Wang et al. print them."""
    e = np.exp(epsilon)
    share = 1 - np.exp(-epsilon / 2) if epsilon > 0.61 else 0.0
    return share, (e + 1) / (e - 1), (e - 1) / (2 * e + 2) * t + 0.5


# --- law and guarantee ------------------------------------------------------------------------------------------------


def test_the_threshold_is_the_papers():
    """Beyond it the hybrid's worst variance falls below the coin's, by the paper's own formulas."""
    assert pytest.approx(0.61, abs=0.005) == COIN_ALONE

    def worst(epsilon, share):
        s, e = np.exp(epsilon / 2), np.exp(epsilon)
        t = np.linspace(-1, 1, 201)
        of_piecewise, of_coin = t**2 / (s - 1) + (s + 3) / (3 * (s - 1) ** 2), ((e + 1) / (e - 1)) ** 2 - t**2
        return np.max(share * of_piecewise + (1 - share) * of_coin)

    for epsilon, is_better in ((COIN_ALONE - 0.01, False), (COIN_ALONE + 0.01, True), (3.0, True)):
        assert (worst(epsilon, 1 - np.exp(-epsilon / 2)) < worst(epsilon, 0.0)) == is_better


@pytest.mark.parametrize("epsilon", [0.2, 0.6, 0.62, 1.0, 4.0])
def test_law_is_the_one_that_is_printed(epsilon):
    mechanism, piecewise = HybridMechanism(epsilon, BOUNDS), PiecewiseMechanism(epsilon, BOUNDS)
    for y in (-9.0, -2.0, 0.1, 2.9, 3.0, 7.0):
        share, side, up = printed(epsilon, np.clip((y - 0.5) / 2.5, -1, 1))
        sides = np.array([[0.5 - 2.5 * side], [0.5 + 2.5 * side]])
        found = np.exp(mechanism.log_density(sides, np.full((2, 1), y)))
        np.testing.assert_allclose(found, [(1 - share) * (1 - up), (1 - share) * up], rtol=1e-9)
        if share:
            line = 0.5 + 2.5 * np.linspace(-0.999, 0.999, 40)[:, None] / np.tanh(epsilon / 4)
            given = np.full_like(line, y)
            expected = np.log(share) + piecewise.log_density(line, given)
            np.testing.assert_allclose(mechanism.log_density(line, given), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("epsilon", [1e-3, 0.3, 0.62, 1.0, 2.5, 12.0])
def test_privacy_loss_by_brute_force(epsilon):
    """Over all pairs of records and releases, the coin's sides among them: at most ε, attained by both parts."""
    mechanism = HybridMechanism(epsilon, BOUNDS)
    share, side, _ = printed(epsilon, 0.0)
    sides = 0.5 + 2.5 * side * np.array([-1.0, 1.0])
    windows = 0.5 + 2.5 * np.linspace(-0.999999, 0.999999, 3001) / np.tanh(epsilon / 4) if share else np.empty(0)
    line = np.array([-9.0, *np.linspace(*BOUNDS, 21), 9.0])
    for z in (sides, windows)[: 1 + (share > 0)]:
        log_q = np.array([mechanism.log_density(z[:, None], np.full((len(z), 1), y)) for y in line])
        assert np.max(log_q.max(axis=0) - log_q.min(axis=0)) == pytest.approx(epsilon, rel=1e-9)
    assert mechanism.guarantee().epsilon == epsilon
    two = HybridMechanism(2 * epsilon, BOUNDS)
    pairs = np.array(list(itertools.product(BOUNDS, repeat=2)))
    Z = np.array(list(itertools.product([*sides, *windows[::400]], repeat=2)))
    log_q = np.array([two.log_density(Z, np.tile(pair, (len(Z), 1))) for pair in pairs])
    assert np.max(log_q.max(axis=0) - log_q.min(axis=0)) == pytest.approx(2 * epsilon, rel=1e-9)


@pytest.mark.parametrize("epsilon", [20.0, 36.0, 45.0])
@pytest.mark.parametrize("bounds", [BOUNDS, (-1e-6, 2e-6)])
def test_the_unlikely_side_of_the_coin(epsilon, bounds):
    """Catches odds at a bound that were the difference of two numbers near ½: minus infinity from ε = 37 on."""
    mechanism, (low, high) = HybridMechanism(epsilon, bounds), bounds
    side = 0.5 * (high - low) / np.tanh(epsilon / 2)
    z = 0.5 * (low + high) + side * np.array([[-1.0], [1.0]])
    unlikely = -0.5 * epsilon - epsilon - np.log1p(np.exp(-epsilon))
    expected = [unlikely + epsilon, unlikely]
    np.testing.assert_allclose(mechanism.log_density(z, np.full((2, 1), low)), expected, rtol=1e-12)
    np.testing.assert_allclose(mechanism.log_density(z, np.full((2, 1), high)), expected[::-1], rtol=1e-12)


@pytest.mark.parametrize("secure", [False, True])
@pytest.mark.parametrize("epsilon", [0.5, 1.5])
def test_law_of_a_release(epsilon, secure):
    """Sides by their probabilities, the rest by the piecewise law; the twin has the law of another record."""
    n = 4_000 if secure else 40_000
    mechanism = HybridMechanism(2 * epsilon, [BOUNDS, (0.0, 1.0)])
    X = np.tile([1.7, -3.0], (n, 1))
    Z = mechanism.privatize(X, secure=True) if secure else mechanism.privatize(X, random_state=5)
    mechanism.check_release(Z)
    for j, (lo, hi) in enumerate((BOUNDS, (0.0, 1.0))):
        v = (Z[:, j] - 0.5 * (lo + hi)) / (0.5 * (hi - lo))
        own = np.clip((X[0, j] - lo) / (hi - lo) * 2 - 1, -1, 1)
        for t, is_right in ((own, True), (-own, False)):
            share, side, up = printed(epsilon, t)
            is_side = np.abs(np.abs(v) - side) < 1e-9
            seen = np.array([np.sum(is_side & (v < 0)), np.sum(is_side & (v > 0)), np.sum(~is_side)])
            law = np.array([(1 - share) * (1 - up), (1 - share) * up, share])
            p = stats.chisquare(seen[law > 0], n * law[law > 0]).pvalue
            assert seen[law == 0].sum() == 0 and (p > ALPHA if is_right else p < ALPHA)
            if share:
                line = np.linspace(-1, 1, 200_001) / np.tanh(epsilon / 4)
                density = np.exp(PiecewiseMechanism(epsilon).log_density(line[:, None], np.full((len(line), 1), t)))
                cdf = np.cumsum(density) / density.sum()
                p = stats.kstest(v[~is_side], lambda z, line=line, cdf=cdf: np.interp(z, line, cdf)).pvalue
                assert p > ALPHA if is_right else p < ALPHA


@pytest.mark.parametrize("epsilon", [0.4, 1.0, 3.0])
def test_the_release_is_unbiased_and_varies_as_printed(epsilon):
    for t in (-1.0, 0.2, 0.9):
        Z = HybridMechanism(epsilon).privatize(np.full((400_000, 1), t), random_state=2)
        share, side, _ = printed(epsilon, t)
        s = np.exp(epsilon / 2)
        variance = share * (t * t / (s - 1) + (s + 3) / (3 * (s - 1) ** 2)) + (1 - share) * (side**2 - t * t)
        assert abs(Z.mean() - t) < 5 * np.sqrt(variance / Z.size)
        assert Z.var() == pytest.approx(variance, rel=0.02)


def test_each_record_may_have_its_own_epsilon():
    epsilon = np.array([0.4, 2.0, 5.0])
    Z = np.array([[1 / np.tanh(0.2)], [-1 / np.tanh(1.0)], [0.4]])
    X = np.array([[0.3], [0.1], [0.4]])
    together = HybridMechanism(epsilon).log_density(Z, X)
    alone = [HybridMechanism(one).log_density(Z[[i]], X[[i]]).item() for i, one in enumerate(epsilon)]
    np.testing.assert_allclose(together, alone, rtol=1e-14)
    channel = HybridMechanism(epsilon)._lower(n_records=3, n_features=1)
    np.testing.assert_allclose([channel.log_channel(Z, i, 0, X[i, 0]) for i in range(3)], alone, rtol=1e-12)
    assert HybridMechanism(epsilon).guarantee().epsilon == 5.0


# --- where a chain starts ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_moments_are_those_of_the_records(epsilon):
    rng = np.random.default_rng(3)
    X = np.column_stack([rng.beta(5, 2, 200_000), 10 * rng.random(200_000)])
    mechanism = HybridMechanism(2 * epsilon, [(0, 1), (0, 10)])
    release = Release(mechanism.privatize(X, random_state=4), mechanism)
    mean, variance = release.moments()
    np.testing.assert_allclose(mean, X.mean(axis=0), rtol=0.02)
    if epsilon > 1:
        np.testing.assert_allclose(variance, X.var(axis=0), rtol=0.15)
    guess = release.guess()
    assert guess.shape == X.shape and guess.min() > 0.0 and np.all(guess.max(axis=0) < [1.0, 10.0])


def test_the_error_of_the_variance_is_that_of_releases():
    """Of 1500 equal records, over 400 releases; the tolerance is six standard errors of a standard deviation."""
    n, found, mechanism = 1500, [], HybridMechanism(1.5, (0, 1))
    for seed in range(400):
        u, u_squared = mechanism._estimates(mechanism.privatize(np.full((n, 1), 0.7), random_state=seed))
        found.append(u_squared.mean() - u.mean() ** 2)
    tolerance = 6.0 / np.sqrt(800)
    assert np.std(found) == pytest.approx(mechanism._noise_error(np.array([0.7]), n), rel=tolerance)
    assert np.std(found) != pytest.approx(mechanism._noise_error(np.array([0.7]), n / 2), rel=tolerance)  # a twin


# --- g, exact draws of records, densities at nodes --------------------------------------------------------------------


PRIOR = {"mean": 0.5, "mean_precision": 0.1, "shape": 3.0, "scale": 0.1}
KERNELS = {
    "normal": (NormalKernel(**PRIOR), stats.norm(0.7, 0.6)),
    "truncated": (
        TruncatedNormalKernel(**PRIOR, bounds=(-1.5, 1.2)), stats.truncnorm(-2.2 / 0.6, 0.5 / 0.6, 0.7, 0.6)
    ),
    "beta": (BetaKernel(bounds=(-0.5, 2.0)), stats.beta(2.5, 1.3, -0.5, 2.5)),
    "beta inside": (BetaKernel(bounds=(0.0, 1.0)), stats.beta(2.5, 1.3)),
}  # fmt: skip


def setting(name):
    kernel, law = KERNELS[name]
    value, theta = kernel._lower(n_features=1), np.zeros((1, kernel.sizes(1)[0] + 4))
    if isinstance(kernel, BetaKernel):
        theta[0, :2] = 2.5, 1.3
    else:
        value.put_params(theta, 0, 0, 0.7, 0.6)
    return value, theta, law


class Unclamped(HybridMechanism):
    """A twin: the coin's odds are those of the mean before records were moved to the bounds."""

    @compiled
    def log_marginal(self, kernel, Z, i, j, theta, k):
        return np.log(self.of_coin[i] * self.odds(i, j, self.sign(Z, i, j), kernel.mean(theta, k, j)))


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-3.0, 5.0)])
def test_the_mean_of_clamped_records(name, bounds):
    """Against quadrature, of kernels inside the bounds, beyond them, and across."""
    value, theta, law = setting(name)
    for lo, hi in (bounds, (bounds[0] + 0.4, bounds[1] - 0.3), (1.1, 1.15), (4.0, 6.0), (-9.0, -4.0)):
        kinks = [end for end in (-1.5, -0.5, 0.0, 1.0, 1.2, 2.0) if lo < end < hi]
        mean = lo + quad(law.sf, lo, hi, epsabs=1e-13, points=kinks)[0]
        assert value.clamped_mean(theta, 0, 0, lo, hi) == pytest.approx(mean, rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("place", [0.3, 5.0, -1e3])
@pytest.mark.parametrize("sd", [1e3, 1e8, 1e30, 1e90])
def test_the_mean_of_clamped_records_of_a_hugely_wide_cluster(place, sd):
    """It is that of a uniform law on (-1, 3), and at 1e3 nearly so."""
    value = TruncatedNormalKernel(**PRIOR, bounds=(-1.0, 3.0))._lower(n_features=1)
    theta = np.zeros((1, 8))
    value.put_params(theta, 0, 0, place if sd < 1e8 else place * sd * 1e-3, sd)
    error = 4e-3 if sd < 1e8 else 1e-8
    assert value.clamped_mean(theta, 0, 0, 0.0, 1.0) == pytest.approx(0.5 * 0.25 + 0.5, abs=error)
    assert value.clamped_mean(theta, 0, 0, -2.0, 0.5) == pytest.approx(-0.25 * 0.375 + 0.5 * 0.625, abs=error)
    assert value.clamped_mean(theta, 0, 0, 4.0, 5.0) == pytest.approx(4.0, abs=1e-12)


#: Places in (0, 1) and weights of the tanh-sinh rule: powers at the ends, as beta densities have, cost it no digits.
STEPS = np.linspace(-3.5, 3.5, 141)
PLACES = 1.0 / (1.0 + np.exp(-np.pi * np.sinh(STEPS)))
WEIGHTS = 0.05 * 0.25 * np.pi * np.cosh(STEPS) / np.cosh(0.5 * np.pi * np.sinh(STEPS)) ** 2


@pytest.mark.slow
@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("epsilon", [0.4, 1.3])
def test_g_is_the_integral(name, epsilon):
    value, theta, law = setting(name)
    mechanism = HybridMechanism(epsilon, (0.0, 1.0))
    side = np.array([[0.5 - 0.5 / np.tanh(epsilon / 2)], [0.5 + 0.5 / np.tanh(epsilon / 2)]])
    Z = np.vstack([side, [[0.2], [0.5], [1.7]]]) if epsilon > COIN_ALONE else side
    channel = mechanism._lower(n_records=len(Z), n_features=1)
    rng = np.random.default_rng(7)
    for i, z in enumerate(Z[:, 0]):
        lo, hi = channel.window(Z, i, 0)
        cuts = np.array(sorted({-6.0, 7.0, 0.0, 1.0, -1.5, -0.5, 1.2, 2.0, *np.clip([lo, hi], -6.0, 7.0)}))
        lengths = np.diff(cuts)[:, None]
        y = cuts[:-1, None] + lengths * PLACES
        density = mechanism.log_density(np.full((y.size, 1), z), y.reshape(-1, 1)).reshape(y.shape)
        parts = (lengths * WEIGHTS * np.exp(density) * law.pdf(y)).sum(axis=1)
        assert channel.log_marginal(value, Z, i, 0, theta, 0) == pytest.approx(np.log(sum(parts)), rel=1e-7, abs=1e-8)
        y = np.array([channel.impute(rng, value, Z, i, 0, theta, 0) for _ in range(2000)])
        share = sum(part for part, b in zip(parts, cuts[1:], strict=True) if b <= 1.0) / sum(parts)
        if 0.0 < share < 1.0 - 1e-9:
            assert stats.binomtest(int(np.sum(y <= 1.0)), len(y), min(share, 1.0)).pvalue > ALPHA
        below = sum(part for part, b in zip(parts, cuts[1:], strict=True) if b <= 0.0) / sum(parts)
        if below > 1e-6:
            assert stats.binomtest(int(np.sum(y <= 0.0)), len(y), below).pvalue > ALPHA


def test_odds_that_forget_clamping_are_found():
    value, theta, _ = setting("normal")
    Z = np.array([[0.5 + 0.5 / np.tanh(0.5)]])
    right, wrong = (kind(1.0, (0.0, 1.0))._lower(n_records=1, n_features=1) for kind in (HybridMechanism, Unclamped))
    found = [channel.log_marginal(value, Z, 0, 0, theta, 0) for channel in (right, wrong)]
    assert abs(found[0] - found[1]) > 0.01


@pytest.mark.parametrize("epsilon", [0.3, 0.9, 4.0])
def test_noised_normal_densities(epsilon):
    """At nodes, as g of the release is; the derivatives against differences."""
    mechanism, rng = HybridMechanism(epsilon, BOUNDS), np.random.default_rng(1)
    kernel, theta = NormalKernel(**PRIOR)._lower(n_features=1), np.zeros((1, 8))
    side = 0.5 + 2.5 / np.tanh(epsilon / 2) * np.array([-1.0, 1.0])
    z = np.append(side, rng.uniform(*mechanism.kinks(1)[0, [1, -2]], 6)) if epsilon > COIN_ALONE else side
    n, places = len(z), mechanism.folded(z)
    nodes = np.concatenate([places, mechanism.lookup(places[None]).ravel()])
    value = mechanism._lower(n_records=1, n_features=1)

    def fill(mean, log_variance):
        out = np.full(3 * n, np.nan)
        value.fill_normal(0, nodes, n, mean, log_variance, out, 0, n)
        return out.reshape(3, n)

    for _ in range(40):
        sd, mean, step = 10 ** rng.uniform(-1.5, 0.7), rng.normal(0.5, 3.0), 1e-5
        kernel.put_params(theta, 0, 0, mean, sd)
        found = fill(mean, 2 * np.log(sd))
        one = mechanism._lower(n_records=1, n_features=1)
        g = [np.exp(one.log_marginal(kernel, np.array([[place]]), 0, 0, theta, 0)) for place in z]
        np.testing.assert_allclose(found[0], g, rtol=1e-9, atol=1e-14)
        by_mean = (fill(mean + step * sd, 2 * np.log(sd))[0] - fill(mean - step * sd, 2 * np.log(sd))[0]) / (2 * step)
        by_scale = (fill(mean, 2 * np.log(sd) + step)[0] - fill(mean, 2 * np.log(sd) - step)[0]) / (2 * step)
        np.testing.assert_allclose(found[1] * sd / found[0], by_mean / found[0], atol=1e-6)
        np.testing.assert_allclose(found[2] / found[0], by_scale / found[0], atol=1e-6)


# --- nodes, summaries, fits -------------------------------------------------------------------------------------------


def population(n, seed=0):
    rng = np.random.default_rng(seed)
    return np.where(rng.random(n) < 0.4, rng.normal(-1.2, 0.6, n), rng.normal(1.7, 0.9, n))[:, None]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0, 8.0])
def test_nodes_stand_for_records(epsilon):
    """The coin's sides are nodes of their own, with their counts; the twin lays nodes out as if they were windows'."""
    mechanism, n = HybridMechanism(epsilon, BOUNDS), 30_000
    Z = mechanism.privatize(population(n), random_state=4)
    fine, kinks = ReleaseSummary(mechanism).update(Z).nodes(), mechanism.kinks(1)[0]
    nodes = compress(fine, cell_edges(kinks[0], kinks[-1], -np.inf, np.inf, mechanism.node_spacing(0.3), kinks))
    assert nodes.weights.sum() == pytest.approx(n) and len(nodes.places) < 500
    kernel, value = NormalKernel(**PRIOR)._lower(n_features=1), mechanism._lower(n_records=1, n_features=1)

    def log_likelihood(places, weights, mean, sd):
        lookup, total = mechanism.lookup(places[None]), np.zeros(len(places))
        for w, m, s in zip((0.3, 0.7), mean, sd, strict=True):
            out = np.zeros(3 * len(places))
            nodes, n_places = np.concatenate([places, lookup.ravel()]), len(places)
            value.fill_normal(0, nodes, n_places, m, 2 * np.log(s), out, 0, n_places)
            total += w * out[:n_places]
        return fsum(weights * np.log(total))

    theta = np.zeros((1, 8))
    for mean, sd in (((-1.0, 1.5), (0.5, 1.0)), ((0.4, 2.5), (0.3, 0.3)), ((-2.5, 0.0), (1.0, 0.4))):
        each = np.zeros(2000)
        for w, m, s in zip((0.3, 0.7), mean, sd, strict=True):
            kernel.put_params(theta, 0, 0, m, s)
            each += [w * np.exp(value.log_marginal(kernel, Z[[i]], 0, 0, theta, 0)) for i in range(2000)]
        folded = mechanism.folded(Z[:2000, 0])
        assert log_likelihood(folded, np.ones(2000), mean, sd) == pytest.approx(fsum(np.log(each)), abs=1e-6)
        all_of_them = log_likelihood(mechanism.folded(Z[:, 0]), np.ones(n), mean, sd)
        assert log_likelihood(*nodes, mean, sd) == pytest.approx(all_of_them, abs=1e-3)
        as_windows = PiecewiseMechanism(epsilon, BOUNDS)
        if epsilon > COIN_ALONE:
            twin = compress(ReleaseSummary(as_windows).update(Z).nodes(), as_windows.kinks(1)[0])
            assert abs(log_likelihood(*twin, mean, sd) - all_of_them) > 1.0


@pytest.mark.slow
def test_a_summary_says_what_the_records_do(tmp_path):
    mechanism = HybridMechanism(1.5, BOUNDS)
    Z = mechanism.privatize(population(20_000), random_state=5)
    summary = ReleaseSummary(mechanism)
    for batch in np.array_split(Z, 7):
        summary.update(batch)
    one, other = Release(Z, mechanism), SummarisedRelease(summary, mechanism)
    for found, expected in zip(other.moments(), one.moments(), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    for found, expected in zip(summary.nodes(), one.nodes(0.1), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-6, atol=1e-9)
    summary.save(tmp_path / "summary.npz")
    np.testing.assert_array_equal(ReleaseSummary.load(tmp_path / "summary.npz").nodes().places, summary.nodes().places)


# --- bad input --------------------------------------------------------------------------------------------------------


def test_rounded_releases_keep_the_sides_of_the_coin():
    """Catches single precision, in which a side of the coin would be a release of the piecewise mechanism."""
    mechanism = HybridMechanism(2.0)
    Z = mechanism.privatize(np.random.default_rng(0).beta(4, 2, (4000, 1)), random_state=1)
    right = mechanism.moments(mechanism.on_line(Z))
    for rounded in (Z.astype(np.float32).astype(np.float64), Z.round(6)):
        mechanism.check_release(rounded)
        np.testing.assert_allclose(mechanism.moments(mechanism.on_line(rounded)), right, rtol=1e-4)
    message = r"Z was rounded, or .* \d+ equal, to six digits, -1\.313.* or 1\.313.*releases about 14\d\d such"
    for wrong in (Z.round(4), Z.round(2), 1.01 * Z):
        with pytest.raises(ValueError, match=message):
            mechanism.check_release(wrong)


@pytest.mark.parametrize("epsilon", [12.0, 20.0, 25.0, 30.0])
def test_releases_of_a_record_on_a_bound_are_hardly_ever_the_coin(epsilon):
    """Catches a side of the coin that is as wide as the window, in which all releases of such a record are."""
    mechanism = HybridMechanism(epsilon)
    Z = mechanism.privatize(np.ones((20_000, 1)), random_state=1)
    *_, is_side, _ = mechanism._coins(Z)
    assert is_side.sum() < 50 + 2 * len(Z) * np.exp(-0.5 * epsilon)
    assert mechanism._coins(np.full((1, 1), mechanism._side(epsilon)))[2].all()


@pytest.mark.parametrize("epsilon", [0.3, 1.0, 3.0, 4.0])
def test_sides_of_the_coin_stay_where_they_are_when_folded(epsilon):
    """Catches ends of the line that are a rounding error from the sides, of which there was then no density."""
    bounds = np.array([(-1.0, 1.0), (0.0, 1.0), (18.0, 99.0)])
    mechanism = HybridMechanism(3.0 * epsilon, bounds=bounds)
    places = mechanism.on_line(mechanism.privatize(np.tile(bounds.mean(axis=1), (100, 1)), random_state=0))
    assert np.array_equal(mechanism.folded(places), places)


def test_a_density_on_a_grid_is_no_rounded_release():
    """Catches a density that is refused because many points of a grid are close to a side of the coin."""
    grid = np.linspace(-0.5, 1.5, 100_001)[:, None]
    assert np.isfinite(HybridMechanism(2.0).log_density(grid, np.full_like(grid, 0.5))).all()


def test_a_mean_that_noise_hides_leaves_the_variance_open():
    """Catches a default prior that is sure of records on a bound, where the estimate of their mean happens to be."""
    for kind in (HybridMechanism, PiecewiseMechanism):
        mechanism = kind(0.05)
        releases = [mechanism.privatize(np.full((100, 1), 0.5), random_state=seed) for seed in range(20)]
        found = [mechanism.moments(mechanism.on_line(Z)) for Z in releases]
        assert min(variance[0] for _, variance in found) > 0.05


def test_wrong_parameters_and_releases():
    for mechanism, Z, message in (
        (HybridMechanism(), [[0.5]], "epsilon must be positive"),
        (HybridMechanism(-1.0), [[0.5]], "epsilon must be positive"),
        (HybridMechanism(1.0, (1, 0)), [[0.5]], "bounds must be finite with lo < hi"),
        (HybridMechanism(1.0), [[0.5], [5.2]], r"Z must lie in \[-.*\], the range of HybridMechanism.*row 1, column 0"),
        (HybridMechanism(0.5), [[4.082988165073596], [0.2]], r"Z must hold only -4\.08298\d+ and 4\.08298\d+, .*row 1"),
        (HybridMechanism(700.0), [[0.5]], r"HybridMechanism with epsilon=700\.0 has a window of width"),
    ):
        with pytest.raises(ValueError, match=message):
            PrivateDPMixture(mechanism, n_chains=1, n_warmup=5, n_draws=5).fit(Z)
    with pytest.raises(ValueError, match="takes no seed, got random_state=0"):
        HybridMechanism(1.0).privatize([[0.5]], secure=True, random_state=0)
