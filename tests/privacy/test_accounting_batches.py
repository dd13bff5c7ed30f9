"""What batches and the Barker test cost: quadrature, mpmath, brute force over neighbours; broken twins."""

import itertools
import math
import pickle

import numpy as np
import pytest
from renyi_oracle import exact_divergence
from scipy import stats
from scipy.special import logsumexp

from sklearn_dpmix.privacy import (
    GaussianReleases,
    SubsampledGaussianReleases,
    SubsampledReleases,
    barker_rdp,
    epsilon_of,
)
from sklearn_dpmix.privacy._amplification import by_profile, by_ternary_divergences
from sklearn_dpmix.privacy._renyi import ORDERS
from sklearn_dpmix.privacy._subsampled_gaussian import _log_excess

mpmath = pytest.importorskip("mpmath")


# ---------------------------------------------------------------- Gaussian noise on a batch


def mpmath_excess(q, s, alpha):
    """E[(r_α(L) + r_(1-α)(L))·1(R > 1)] by mpmath."""
    with mpmath.workdps(25):
        q, s, alpha = mpmath.mpf(q), mpmath.mpf(s), mpmath.mpf(alpha)

        def integrand(x):
            u = q * mpmath.expm1(s * x - s * s / 2)
            return mpmath.npdf(x) * ((1 + u) ** alpha - 1 - alpha * u + (1 + u) ** (1 - alpha) - 1 - (1 - alpha) * u)

        return mpmath.log(mpmath.quad(integrand, [s / 2 + k for k in range(int(alpha * s) + 12)]))


@pytest.mark.parametrize("q, s", [(1e-6, 0.01), (1e-3, 1.0), (0.03, 0.3), (0.5, 3.0), (0.01, 1e-3)])
def test_the_integral_is_exact(q, s):
    for alpha in (1.01, 2.0, 5.5):
        assert abs(_log_excess(q, s, alpha) - mpmath_excess(q, s, alpha)) < 2e-10  # 1e-10 of it is the margin


def test_a_batch_of_all_records_is_no_batch():
    """At q = 1 the bound is exactly the Gaussian's, over six decades of noise; with one direction only it is not."""
    for s in (1e-3, 0.03, 0.5, 3.0, 20.0):
        for alpha in (1.01, 1.7, 2.0, 30.0, 700.0):
            log_excess = _log_excess(1.0, s, alpha)
            if math.isfinite(log_excess):
                exact = 0.5 * alpha * s * s
                assert np.logaddexp(0, log_excess) / (alpha - 1) == pytest.approx(exact, rel=1e-9, abs=0)
    one_direction = mpmath_excess(1, 0.5, 3) + mpmath.log(0.6)
    assert abs(mpmath.log1p(mpmath.exp(one_direction)) / 2 - 1.5 * 0.25) > 0.01
    whole = SubsampledGaussianReleases(2.0, 10, 10, 5)
    assert whole.mu == whole.rho == GaussianReleases(2.0, 5).mu
    assert epsilon_of(whole, 1e-6) == epsilon_of(GaussianReleases(2.0, 5), 1e-6)


def mixture(shifts, weights, grid, scale):
    """Log density on the grid of a mixture of normals."""
    return logsumexp(
        -0.5 * ((grid[:, None] - shifts) / scale) ** 2 - math.log(scale * math.sqrt(2 * math.pi)),
        b=weights,
        axis=1,
    )


def batch_mixture(values, batch_size, grid, scale):
    """Log density of a noisy batch sum, over all batches."""
    sums = np.array([sum(batch) for batch in itertools.combinations(values, batch_size)])
    return mixture(sums, np.full(len(sums), 1 / len(sums)), grid, scale)


def test_the_amplified_bound_holds_for_all_neighbours():
    """Records in {0, 1}, noisy batch sums (sensitivity 1): no pair exceeds the bound; the worst comes within a factor.

    A bound for half of q, what a slip of a factor would give, is exceeded.
    """
    grid = np.linspace(-40, 45, 12_001)
    for n, b, scale in ((4, 1, 1.0), (4, 2, 0.7), (6, 2, 3.0), (5, 4, 1.5)):
        releases = SubsampledGaussianReleases(scale, b, n)
        tempting = SubsampledGaussianReleases(scale, b, 2 * n)
        for alpha in (1.5, 2.0, 4.0, 10.0):
            worst = 0.0
            for ones in range(n):
                p, q = (batch_mixture([1] * k + [0] * (n - k), b, grid, scale) for k in (ones, ones + 1))
                worst = max(worst, exact_divergence(p, q, alpha, grid), exact_divergence(q, p, alpha, grid))
            bound = float(releases.rdp(alpha))
            assert worst <= bound * (1 + 1e-9)
            assert worst > 0.4 * bound
            assert worst > float(tempting.rdp(alpha))


def test_amplification_never_costs_more():
    for q, multiplier in ((1, 0.2), (10, 1.0), (10, 8.0), (999, 1.0)):
        batch = SubsampledGaussianReleases(multiplier, q, 1000, 3)
        whole = GaussianReleases(multiplier, 3)
        assert np.all(batch.rdp(ORDERS) <= whole.rdp(ORDERS))
        assert np.all(np.diff(batch.rdp(ORDERS)) >= -1e-9 * batch.rdp(ORDERS)[1:])  # divergences grow with the order
        assert epsilon_of(batch, 1e-6) <= epsilon_of(whole, 1e-6)
        assert batch.rho == whole.rho and batch.mu is None
        assert epsilon_of(batch, 1e-6, "zcdp") == epsilon_of(whole, 1e-6, "zcdp")
    bounds = [SubsampledGaussianReleases(1.0, b, 100).rdp(ORDERS[::5]) for b in (1, 2, 10, 50, 100)]
    assert np.all(np.diff(bounds, axis=0) >= 0)


# ---------------------------------------------------------------- Theorem 9, for any mechanism


def theorem_9(curve, q, alpha):
    """Wang, Balle & Kasiviswanathan (2019), Theorem 9, as it is printed, with mpmath's digits."""
    with mpmath.workdps(50):
        q, epsilon = mpmath.mpf(q), lambda j: mpmath.mpf(float(curve(np.array([float(j)]))[0]))
        worst = epsilon(math.inf)
        gap = mpmath.inf if worst == mpmath.inf else mpmath.expm1(worst)
        total = (
            q**2
            * mpmath.binomial(alpha, 2)
            * min(4 * mpmath.expm1(epsilon(2)), mpmath.exp(epsilon(2)) * min(2, gap**2))
        )
        for j in range(3, alpha + 1):
            total += q**j * mpmath.binomial(alpha, j) * mpmath.exp((j - 1) * epsilon(j)) * min(2, gap**j)
        return mpmath.log1p(total) / (alpha - 1)


def pure(epsilon):
    """Divergences of randomised response, the worst ε-DP mechanism."""

    def rdp(orders):
        p = 1 / (1 + math.exp(-epsilon))
        finite = np.minimum(orders, 1e6)
        logs = [finite * math.log(x) + (1 - finite) * math.log(1 - x) for x in (p, 1 - p)]
        return np.where(np.isinf(orders), epsilon, np.minimum(logsumexp(logs, axis=0) / (finite - 1), epsilon))

    return rdp


@pytest.mark.parametrize("curve", [lambda a: 0.125 * a, lambda a: 3.0 * a, pure(0.2), pure(3.0), barker_rdp(400)])
def test_theorem_9_is_what_is_printed(curve):
    for q in (0.001, 0.05, 0.7):
        for alpha in (2, 3, 7, 40):
            value = float(by_ternary_divergences(curve, q, np.array([float(alpha)]))[0])
            assert value == pytest.approx(float(theorem_9(curve, q, alpha)), rel=1e-9, abs=0)


def test_theorem_9_between_integers_and_at_large_orders():
    """(α-1)·ε is a chord; nothing overflows where e^((j-1)ε(j)) would."""
    two, three, between, below = by_ternary_divergences(lambda a: 0.01 * a, 0.01, np.array([2.0, 3.0, 2.25, 1.5]))
    assert between == pytest.approx((0.75 * two + 0.25 * 2 * three) / 1.25, rel=1e-12)
    assert below == pytest.approx(two, rel=1e-12)
    assert by_ternary_divergences(lambda a: 0.01 * a, 0.01, np.array([20_000.0])) == math.inf
    for q in (1, 10, 999):
        large = SubsampledReleases(lambda a: 50.0 * a, q, 1000).rdp(ORDERS)
        assert np.all(np.isfinite(large)) and np.all(large <= 50 * ORDERS)
    assert np.isinf(SubsampledReleases(lambda a: np.where(a < 5, a, np.inf), 1, 10).rdp([6.0, math.inf])).all()
    assert SubsampledReleases(pure(0.3), 1, 1000).rdp(math.inf) == 0.3


def test_theorem_9_holds_for_randomised_response_by_brute_force():
    """Batches of one record through randomised response; the bound for half of q is exceeded."""
    epsilon, n = 1.0, 6
    p = 1 / (1 + math.exp(-epsilon))
    for alpha in (2, 3, 5, 20):
        worst, bound = 0.0, float(SubsampledReleases(pure(epsilon), 1, n).rdp(alpha))
        for ones in range(n):
            one = [(k * p + (n - k) * (1 - p)) / n for k in (ones, ones + 1)]
            for a, b in (one, one[::-1]):
                total = a**alpha * b ** (1 - alpha) + (1 - a) ** alpha * (1 - b) ** (1 - alpha)
                worst = max(worst, math.log(total) / (alpha - 1))
        assert worst <= bound
        assert worst > float(SubsampledReleases(pure(epsilon), 1, 8 * n).rdp(alpha))


def test_the_gaussian_bound_is_tighter_than_theorem_9():
    """At every order, and by a factor of about four where noise is large."""
    orders = ORDERS[ORDERS < 3000]  # beyond, with little noise, the integral is not worth its work
    for multiplier, b in ((0.7, 10), (3.0, 10), (10.0, 300)):
        mu = 0.5 / multiplier**2
        ours = SubsampledGaussianReleases(multiplier, b, 1000).rdp(orders)
        general = np.minimum(by_ternary_divergences(lambda a, mu=mu: a * mu, b / 1000, orders), orders * mu)
        assert np.all(ours <= general * (1 + 1e-9))
    order_2 = [
        float(SubsampledGaussianReleases(10.0, 1, 1000).rdp(2)),
        float(by_ternary_divergences(lambda a: a * 0.005, 0.001, np.array([2.0]))[0]),
    ]
    assert 3.3 < order_2[1] / order_2[0] < 4.0


def test_a_curve_that_is_none_is_refused():
    for curve in (lambda a: -a, lambda a: a * np.nan, lambda a: 1.0):
        with pytest.raises(ValueError, match="rdp must return one divergence of at least 0"):
            SubsampledReleases(curve, 2, 10)
    with pytest.raises(TypeError, match="rdp must be a function of an array of orders, got 2"):
        SubsampledReleases(2, 2, 10)


def test_a_curve_that_changes_is_noticed():
    """Divergences of an earlier mechanism are not those of this one, whichever came first."""
    sigma = [20.0]

    def curve(orders):
        return orders / (2.0 * sigma[0] ** 2)

    little = SubsampledReleases(curve, 100, 1000, 50)
    before = little.rdp([2.0, 8.0])
    sigma[0] = 2.0
    much = SubsampledReleases(curve, 100, 1000, 50).rdp([2.0, 8.0])
    fresh = SubsampledReleases(lambda orders: orders / 8.0, 100, 1000, 50).rdp([2.0, 8.0])
    assert np.all(much > 10.0 * before)
    np.testing.assert_array_equal(much, fresh)
    with pytest.raises(ValueError, match="gives other divergences than when it was passed"):
        little.rdp([2.0, 8.0])


def test_pickles_keep_what_the_curve_was():
    """Those from before it was kept begin with what it is."""
    releases = SubsampledReleases(barker_rdp(100), 100, 1000, 50)
    again = pickle.loads(pickle.dumps(releases))
    old = object.__new__(SubsampledReleases)
    old.__setstate__({name: value for name, value in vars(releases).items() if name != "_at_first"})
    for one in (again, old):
        assert one == releases
        np.testing.assert_array_equal(one.rdp([2.0, 8.0]), releases.rdp([2.0, 8.0]))


# ---------------------------------------------------------------- Theorem 9's rival, by the privacy profile


def profile_integral(curve, q, alpha):
    """The integral of the profile that a curve implies, by the trapezium rule on a grid of its own."""
    x = np.concatenate([np.linspace(0, 0.01, 2001)[:-1], np.geomspace(0.01, 300, 30_001)])
    rdp = curve(ORDERS)
    known = np.isfinite(rdp)
    log_h = np.full(len(x), 0.5 * math.log(-math.expm1(-rdp.min())))
    for order, divergence in zip(ORDERS[known], rdp[known]):
        log_h = np.minimum(log_h, (order - 1) * (divergence - x + math.log1p(-1 / order)) - math.log(order))
    log_w = np.log1p(q * np.expm1(x))
    logs = np.logaddexp((alpha - 2) * log_w, -(alpha + 1) * log_w) + log_h + x
    steps = np.diff(x)
    total = logsumexp(np.concatenate([logs[1:] + np.log(steps / 2), logs[:-1] + np.log(steps / 2)]))
    return np.logaddexp(0, math.log(alpha * (alpha - 1) * q * q) + total) / (alpha - 1)


@pytest.mark.parametrize("curve", [lambda a: 0.02 * a, lambda a: 0.5 * a, pure(1.0), barker_rdp(100)])
def test_the_profile_bound_is_its_integral(curve):
    """Cells and tails lose less than a hundredth, never the other way."""
    for q in (0.001, 0.1, 0.7):
        for alpha in (1.1, 1.9, 2.0, 3.5, 12.0):
            bound = float(by_profile(curve, q, np.array([alpha]))[0])
            integral = profile_integral(curve, q, alpha)
            assert integral * (1 - 1e-5) <= bound <= 1.01 * integral


def test_the_profile_bound_is_above_the_exact_profile():
    """A Gaussian's curve knows less than its profile: it costs more, below twice as much where noise is large."""
    for multiplier, b in ((1.0, 10), (8.0, 10), (3.0, 400)):
        mu = 0.5 / multiplier**2
        orders = ORDERS[(ORDERS > 1.2) & (ORDERS < 200)]
        general = by_profile(lambda a, mu=mu: a * mu, b / 1000, orders)
        ours = SubsampledGaussianReleases(multiplier, b, 1000).rdp(orders)
        assert np.all(ours <= general)
        assert multiplier == 1 or np.all(np.minimum(general, orders * mu) < 2 * ours)


def test_the_profile_bound_beats_theorem_9_where_no_pure_guarantee_exists():
    """Half of it at order 2, a tenth at order 12 for a Barker test; Theorem 9 keeps the edge for a pure mechanism."""
    orders = np.array([2.0, 12.0])
    ternary = by_ternary_divergences(barker_rdp(1000), 0.01, orders)
    assert np.all(by_profile(barker_rdp(1000), 0.01, orders) < [0.5, 0.1] * ternary)
    releases = SubsampledReleases(barker_rdp(1000), 1000, 100_000)
    np.testing.assert_array_equal(releases.rdp(orders), by_profile(barker_rdp(1000), 0.01, orders))
    weak = by_ternary_divergences(pure(0.05), 0.01, orders)
    np.testing.assert_array_equal(SubsampledReleases(pure(0.05), 1, 100).rdp(orders), weak)


# ---------------------------------------------------------------- the Barker test


def barker_release(a, variance, correction=1.0):
    """Mean and variance of a release from a batch's a_j = n·T·r_j: the definition, not what the bound uses."""
    return float(np.mean(a)), variance - correction * float(np.var(a, ddof=1)) / len(a)


def normal_divergence(first, second, alpha):
    """Rényi divergence of two normals by quadrature; inf where it does not exist."""
    (_, v1), (_, v2) = first, second
    if alpha * v2 + (1 - alpha) * v1 <= 0:
        return math.inf
    x = np.linspace(-60, 60, 6001)
    p, q = (-0.5 * (x - m) ** 2 / v - 0.5 * math.log(2 * math.pi * v) for m, v in (first, second))
    return exact_divergence(p, q, alpha, x)


def extremes(b, c):
    """All neighbouring batches of values in {-c, c}: those that the bound is about are among them."""
    for n_high in range(b):
        batch = np.where(np.arange(b) < n_high, c, -c)
        other = batch.copy()
        other[-1] = c
        yield batch, other


def neighbours(rng, b, c, n_pairs):
    """Random neighbouring batches of values in [-c, c]."""
    for _ in range(n_pairs):
        batch = rng.uniform(-c, c, b) if rng.random() < 0.5 else rng.choice([-c, c, 0.3 * c], b)
        other = batch.copy()
        other[0] = rng.choice([-c, 0.0, c, rng.uniform(-c, c)])
        yield batch, other


def worst_barker(pairs, variance, alpha, correction=1.0):
    """The largest divergence among neighbours, in both directions."""
    worst = 0.0
    for batch, other in pairs:
        first, second = (barker_release(a, variance, correction) for a in (batch, other))
        worst = max(worst, normal_divergence(first, second, alpha), normal_divergence(second, first, alpha))
    return worst


BARKER = [(2, 2.0, 0.5), (5, 2.0, 0.8), (8, 2.0, 1.0), (21, 3.0, 1.0), (21, 1.5, 0.9), (50, 2.0, 0.5)]


@pytest.mark.parametrize("b, variance, clip", BARKER)
def test_barker_bound_holds_for_all_neighbours(b, variance, clip):
    """No neighbouring batches exceed it, random or extreme; the extreme ones come within half of it."""
    rng = np.random.default_rng(b)
    curve, c = barker_rdp(b, variance, clip), clip * math.sqrt(b)
    n_checked = 0
    for alpha in (1.2, 2.0, 3.0, 6.0, 0.3 * b):
        bound = float(curve(alpha)) if alpha > 1 else math.inf
        if bound < math.inf:
            n_checked += 1
            worst = worst_barker(extremes(b, c), variance, alpha)
            assert worst_barker(neighbours(rng, b, c, 60), variance, alpha) <= bound * (1 + 1e-9)
            assert 0.5 * bound < worst <= bound * (1 + 1e-9)
            assert worst_barker(extremes(b, c), variance, alpha, correction=0.4) <= bound  # 1 - b/n
    assert n_checked >= 2


def test_barker_bound_needs_the_change_of_variance():
    """The broken twin: neighbours' means at the least variance, as if their variances were equal, is exceeded."""
    for b, alpha in ((8, 2.5), (22, 7.0), (50, 15.0)):
        twin = 0.5 * alpha * (4 / b) / (2.0 - b / (b - 1))
        worst = worst_barker(extremes(b, math.sqrt(b)), 2.0, alpha)
        assert twin < worst <= float(barker_rdp(b)(alpha))


def test_barker_batch_variance_is_attained():
    """σ² reaches clip²·b/(b-1) for half of the ratios at either end, and no batch exceeds it."""
    rng = np.random.default_rng(3)
    for b in (2, 3, 4, 7, 10):
        most = barker_rdp(b, 4.0).most_batch_variance
        c = math.sqrt(b)
        reached = 4.0 - barker_release(c * np.resize([-1.0, 1.0], b), 4.0)[1]
        assert reached == pytest.approx(most if b % 2 == 0 else (b + 1) / b, rel=1e-12)
        for batch, _ in neighbours(rng, b, c, 200):
            assert 4.0 - barker_release(batch, 4.0)[1] <= most * (1 + 1e-12)


@pytest.mark.parametrize("n, b, clip", [(60, 20, 0.6), (100, 40, 1.0), (400, 40, 1.0)])
def test_a_subsampled_barker_test_keeps_its_bound(n, b, clip):
    """Brute force over all batches of all data sets of ratios at the clips: no neighbours exceed the bound.

    A twin that takes the batch for a third of its share is exceeded.
    """
    grid = np.linspace(-30, 30, 3001)
    c = clip * math.sqrt(b)

    def log_density(n_high):
        counts = np.arange(max(0, b - n + n_high), min(b, n_high) + 1)  # ratios at the upper clip in a batch
        values = [np.where(np.arange(b) < k, c, -c) for k in counts]
        mean, var = np.array([barker_release(batch, 2.0) for batch in values]).T
        weights = stats.hypergeom.pmf(counts, n, n_high, b)
        return logsumexp(-0.5 * (grid[:, None] - mean) ** 2 / var - 0.5 * np.log(2 * np.pi * var), b=weights, axis=1)

    logs = {n_high: log_density(n_high) for start in range(0, n, 7) for n_high in (start, start + 1)}
    curve = barker_rdp(b, clip=clip)
    for alpha in (1.5, 4.0, 12.0):
        worst = max(exact_divergence(logs[k + i], logs[k + 1 - i], alpha, grid) for k in range(0, n, 7) for i in (0, 1))
        assert worst <= float(SubsampledReleases(curve, b, n).rdp(alpha)) < 6 * worst
        assert worst > float(by_profile(curve, b / n / 3, np.array([alpha]))[0])


def thesis_theorem_8(b, alpha):
    """ε'(α) of the thesis at variance 2 and clip 1."""
    return 2.5 / b + math.log(2 * b / (b - 5 * alpha)) / (2 * (alpha - 1)) + 2 * alpha / (b - 5 * alpha)


def test_barker_bound_is_below_the_thesis():
    """Wherever Theorem 8 holds (α < b/5), and by two orders of magnitude at small orders of large batches."""
    for b in (50, 200, 1000, 10_000):
        for alpha in (2, 3, 5, 9, *np.unique(np.geomspace(10, b / 5 - 1e-9, 10).astype(int))):
            if alpha < b / 5:
                assert float(barker_rdp(b)(alpha)) < thesis_theorem_8(b, alpha)
    assert thesis_theorem_8(1000, 2) > 80 * float(barker_rdp(1000)(2))


def test_barker_bound_is_monotone():
    orders = np.linspace(1.01, 200, 300)
    assert np.all(np.diff(barker_rdp(1000)(orders)) > 0)
    assert np.all(np.diff([barker_rdp(b)(8.0) for b in range(60, 400, 2)]) < 0)
    assert np.all(np.diff([barker_rdp(100, clip=clip)(8.0) for clip in np.linspace(0.1, 1.2, 20)]) > 0)
    assert np.all(np.diff([barker_rdp(100, variance)(8.0) for variance in np.linspace(1.5, 3.2, 20)]) < 0)
    assert np.isinf(barker_rdp(100)(np.array([40.0, 50.0, math.inf]))).tolist() == [False, True, True]


def test_barker_arguments():
    with pytest.raises(ValueError, match=r"clip=1.5 lets the variance over batches reach 2.27.*pass clip < 1.407"):
        barker_rdp(100, 2.0, 1.5)
    barker_rdp(100, 2.0, 1.407)
    for bad in (1, 2.5, True, "3"):
        with pytest.raises(ValueError, match="batch_size must be an integer of at least 2, got"):
            barker_rdp(bad)
    for name in ("variance", "clip"):
        with pytest.raises(ValueError, match=f"{name} must be a finite number greater than 0, got -1.0"):
            barker_rdp(10, **{name: -1.0})
