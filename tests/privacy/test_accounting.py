"""What releases cost together: closed forms, mpmath, brute force over neighbours, dp-accounting; broken twins."""

import math
import pickle

import numpy as np
import pytest
from renyi_oracle import exact_delta, exact_divergence

from sklearn_dpmix.privacy import (
    GaussianReleases,
    Releases,
    SubsampledGaussianReleases,
    SubsampledReleases,
    approx_dp_to_zcdp,
    barker_rdp,
    delta_of,
    epsilon_of,
    gaussian_delta,
    gaussian_mu,
    max_releases,
    noise_multiplier_for,
    zcdp_to_approx_dp,
)
from sklearn_dpmix.privacy._accountants import at_best_orders, total_rdp
from sklearn_dpmix.privacy._renyi import ORDERS, renyi_epsilon, renyi_log_delta

mpmath = pytest.importorskip("mpmath")

ACCOUNTANTS = ("zcdp", "rdp", "tight")
BANANA = 0.17 * 100_000**0.5  # noise multiplier of the thesis' penalty tests, at ε = 4 and δ = 1e-6


# ---------------------------------------------------------------- Gaussian releases


def test_gaussian_releases_are_the_closed_forms():
    for multiplier, n in ((0.3, 1), (1.0, 7), (53.7, 2028), (1e5, 10**9)):
        releases = GaussianReleases(multiplier, n)
        mu = n / (2 * multiplier**2)
        assert releases.mu == releases.rho == releases.gaussian_mu_bound == pytest.approx(mu, rel=1e-15, abs=0)
        np.testing.assert_allclose(releases.rdp([1.5, 2, 100]), np.array([1.5, 2, 100]) * mu, rtol=1e-15)
        assert releases.rdp(3).shape == () and releases.rdp(math.inf) == math.inf


def test_gaussian_rdp_is_the_divergence_of_two_normals():
    """By quadrature; a divergence without the square would not pass."""
    x = np.linspace(-60, 60, 40_001)
    for multiplier, alpha in ((1.0, 2.0), (3.0, 1.3), (0.7, 9.0)):
        p, q = -0.5 * (x - 1 / multiplier) ** 2, -0.5 * x**2
        log_norm = 0.5 * math.log(2 * math.pi)
        assert exact_divergence(p - log_norm, q - log_norm, alpha, x) == pytest.approx(
            float(GaussianReleases(multiplier).rdp(alpha)), rel=1e-9, abs=0
        )


def test_nothing_released_costs_nothing():
    for none in (
        GaussianReleases(1e-200, 0),
        SubsampledGaussianReleases(0.5, 2, 10, 0),
        SubsampledReleases(lambda a: a * np.inf, 2, 10, 0),
    ):
        assert np.all(none.rdp([2.0, math.inf]) == 0)
    assert epsilon_of([], 1e-6) == epsilon_of(GaussianReleases(1.0, 0), 1e-6, "rdp") == delta_of([], 0.0) == 0
    assert epsilon_of([], 1e-6, "zcdp") == delta_of([], 0.0, "zcdp") == 0


def test_noise_too_small_for_floating_point_costs_everything():
    releases = GaussianReleases(1e-300)
    for accountant in ACCOUNTANTS:
        assert epsilon_of(releases, 1e-6, accountant) == math.inf
        assert delta_of(releases, 5.0, accountant) == 1.0
    assert epsilon_of(SubsampledGaussianReleases(1e-300, 1, 10), 1e-6) == math.inf


# ---------------------------------------------------------------- the exact Gaussian accountant


@pytest.mark.parametrize("delta", [1e-200, 1e-30, 1e-6, 0.01, 0.5, 0.99])
def test_gaussian_mu_is_the_largest_that_is_private(delta):
    """By mpmath, never only nearly; a part in 10⁹ more is not private."""
    for epsilon in (0.0, 1e-9, 1e-3, 0.3, 1.0, 4.0, 50.0) if delta > 1e-100 else (1e-9, 4.0):  # μ = δ²·π at ε = 0
        mu = gaussian_mu(epsilon, delta)
        assert gaussian_delta(epsilon, mu) <= delta
        assert exact_delta(epsilon, mu) <= delta
        assert exact_delta(epsilon, mpmath.mpf(mu) * (1 + mpmath.mpf("1e-9"))) > delta


def test_gaussian_mu_near_certainty_and_at_tiny_arguments():
    """Where δ no longer shows a change of μ in floating point, it is still kept to."""
    for epsilon in (0.0, 1e-300, 1e-12, 1.0, 30.0):
        for delta in (5e-324, 1e-300, 1 - 1e-9, 1 - 1e-15):
            mu = gaussian_mu(epsilon, delta)
            assert mu >= 0 and gaussian_delta(epsilon, mu) <= delta


@pytest.mark.parametrize("delta", [1e-305, 1e-30, 1e-6, 0.1])
def test_tight_epsilon_is_the_smallest_that_is_private(delta):
    for mu in (1e-8, 1e-3, 0.3, 5.0, 400.0):
        releases = GaussianReleases(math.sqrt(0.5 / mu))
        epsilon = epsilon_of(releases, delta)
        assert exact_delta(epsilon, releases.mu) <= delta
        assert epsilon == 0 or exact_delta(mpmath.mpf(epsilon) * (1 - mpmath.mpf("1e-9")), releases.mu) > delta


def test_tight_epsilon_where_delta_leaves_floating_point():
    """At the upper end of the search δ is 0 there, whose logarithm must not end it."""
    for mu in (1e-3, 1.0, 30.0):
        releases = GaussianReleases(math.sqrt(0.5 / mu))
        epsilon = epsilon_of(releases, 5e-324)
        assert gaussian_delta(epsilon, releases.mu) <= 5e-324 < gaussian_delta(0.99 * epsilon, releases.mu)


def test_tight_delta_is_exact():
    for mu, epsilon in ((0.3, 1.0), (1e-4, 0.05), (20.0, 3.0), (0.35, 4.0)):
        value = delta_of(GaussianReleases(math.sqrt(0.5 / mu)), epsilon)
        assert value == pytest.approx(float(exact_delta(epsilon, mu)), rel=1e-10, abs=0)


def test_what_is_released_together_adds_up():
    """μ's add: ten kinds of noise cost as one of the summed precision.  Adding ε's would cost far more."""
    multipliers = [3.0, 5.0, 7.0, 20.0]
    parts = [GaussianReleases(m, 3) for m in multipliers]
    whole = GaussianReleases(1 / math.sqrt(sum(3 / m**2 for m in multipliers)))
    for accountant in ACCOUNTANTS:
        assert epsilon_of(parts, 1e-6, accountant) == pytest.approx(epsilon_of(whole, 1e-6, accountant), rel=1e-11)
        assert sum(epsilon_of(part, 1e-6 / 4, accountant) for part in parts) > 1.3 * epsilon_of(parts, 1e-6, accountant)
    assert epsilon_of(tuple(parts), 1e-6) == epsilon_of(iter(parts), 1e-6) == epsilon_of(parts, 1e-6)


# ---------------------------------------------------------------- Rényi divergence and zCDP to (ε, δ)


def test_a_budget_whose_rho_rounds_to_zero_is_named():
    with pytest.raises(ValueError, match="epsilon=1e-170 is so small that its ρ rounds to 0"):
        noise_multiplier_for(1e-170, 1e-5, 1, "zcdp")


def test_zcdp_is_the_closed_form():
    for rho in (0.01, 1.0, 9.0):
        releases = GaussianReleases(math.sqrt(0.5 / rho))
        assert epsilon_of(releases, 1e-6, "zcdp") == pytest.approx(zcdp_to_approx_dp(rho, 1e-6), rel=1e-14)
        assert delta_of(releases, zcdp_to_approx_dp(rho, 1e-6), "zcdp") == pytest.approx(1e-6, rel=1e-9)
        assert delta_of(releases, rho / 2, "zcdp") == 1.0


def test_renyi_conversion_is_the_formula():
    """Against mpmath on the same orders, to 1e-12."""
    for mu, delta in ((0.01, 1e-6), (1.0, 1e-3), (0.4, 1e-12)):
        with mpmath.workdps(30):
            exact = min(
                mpmath.mpf(a) * mu
                + mpmath.log((mpmath.mpf(a) - 1) / a)
                - (mpmath.log(delta) + mpmath.log(a)) / (mpmath.mpf(a) - 1)
                for a in ORDERS
            )
        assert renyi_epsilon(ORDERS * mu, delta) == pytest.approx(float(exact), rel=1e-12, abs=0)


def test_renyi_conversions_are_inverses():
    for mu in (1e-5, 0.02, 1.0, 30.0):
        for delta in (1e-30, 1e-6, 0.05):
            epsilon = renyi_epsilon(ORDERS * mu, delta)
            if epsilon > 0:
                assert renyi_log_delta(ORDERS * mu, epsilon) == pytest.approx(math.log(delta), rel=1e-9)


def test_the_grid_of_orders_costs_a_part_in_ten_thousand():
    """The best order of a continuum, in the closed form; ten times as coarse a grid is seen."""
    coarse = 0.0
    for mu in np.geomspace(1e-6, 20, 25):
        for delta in (1e-12, 1e-6, 1e-3):
            a = 1 + np.geomspace(1e-3, 1e7, 300_000)
            continuum = np.min(a * mu + np.log1p(-1 / a) - np.log(delta * a) / (a - 1))
            if continuum > 0.01:  # near 0 it is a difference of large terms
                assert continuum <= renyi_epsilon(ORDERS * mu, delta) <= continuum * (1 + 1e-4)
                coarse = max(coarse, renyi_epsilon(ORDERS[::10] * mu, delta, ORDERS[::10]) / continuum)
    assert coarse > 1 + 1e-3


def test_accountants_are_bounds_of_the_exact_one():
    """zCDP and Rényi never promise more than is true; the conversion without (α-1)/α and α is looser (Mironov 2017)."""
    for multiplier in (1.0, 5.0, 60.0):
        for n in (1, 10, 1000):
            releases = GaussianReleases(multiplier, n)
            for delta in (1e-12, 1e-6, 1e-2):
                exact, rdp, zcdp = (epsilon_of(releases, delta, a) for a in ("tight", "rdp", "zcdp"))
                assert exact < rdp < zcdp
                assert delta_of(releases, exact) <= delta * (1 + 1e-9)
                assert delta_of(releases, rdp, "rdp") == pytest.approx(delta, rel=1e-9)
                assert delta_of(releases, exact, "rdp") > delta


def test_total_variation_is_a_bound_where_delta_is_large():
    """ε = 0 where √(1 - e^-μ) <= δ; the exact total variation is smaller still."""
    for mu in (1e-4, 0.1, 1.0):
        releases = GaussianReleases(math.sqrt(0.5 / mu))
        assert epsilon_of(releases, math.sqrt(-math.expm1(-1.0101 * mu)), "rdp") == 0
        assert delta_of(releases, 0.0) < delta_of(releases, 0.0, "rdp") <= math.sqrt(-math.expm1(-1.0101 * mu))


# ---------------------------------------------------------------- budgets


def test_banana_budget():
    """ε = 4, δ = 1e-6 and τ = 0.17 at n = 100,000: 2028 exactly accounted, ⌊2m²ρ⌋ by zCDP."""
    assert max_releases(4.0, 1e-6, BANANA) == 2028
    assert max_releases(4.0, 1e-6, BANANA, "zcdp") == math.floor(2 * BANANA**2 * approx_dp_to_zcdp(4.0, 1e-6)) == 1467
    mu = 1 / (2 * BANANA**2)
    assert exact_delta(4.0, 2028 * mu) <= 1e-6 < exact_delta(4.0, 2029 * mu)


@pytest.mark.parametrize("batch", [{}, {"batch_size": 20, "n_records": 1000}])
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_max_releases_is_the_largest_that_fits(accountant, batch):
    for epsilon, delta, multiplier in ((4.0, 1e-6, 20.0), (0.5, 1e-3, 25.0), (20.0, 1e-9, 3.0)):
        n = max_releases(epsilon, delta, multiplier, accountant, **batch)
        assert n > 0

        def kind(count, multiplier=multiplier):
            if batch:
                return SubsampledGaussianReleases(multiplier, batch["batch_size"], batch["n_records"], count)
            return GaussianReleases(multiplier, count)

        assert epsilon_of(kind(n), delta, accountant) <= epsilon < epsilon_of(kind(n + 1), delta, accountant)
        assert delta_of(kind(n), epsilon, accountant) <= delta < delta_of(kind(n + 1), epsilon, accountant)


@pytest.mark.parametrize("batch", [{}, {"batch_size": 20, "n_records": 1000}])
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_noise_multiplier_is_the_inverse(accountant, batch):
    """It fits as many as were asked for, exactly; a part in 10⁶ less does not."""
    for epsilon, delta, n in ((4.0, 1e-6, 1), (1.0, 1e-5, 333)):
        multiplier = noise_multiplier_for(epsilon, delta, n, accountant, **batch)
        assert max_releases(epsilon, delta, multiplier, accountant, **batch) == n
        assert max_releases(epsilon, delta, multiplier * (1 - 1e-6), accountant, **batch) == n - 1


def test_noise_multiplier_for_gaussians_never_overpays():
    """By mpmath: what it returns is private, a part in 10⁹ less is not."""
    for epsilon, delta, n in ((4.0, 1e-6, 2028), (0.1, 1e-9, 5), (30.0, 0.01, 10**6)):
        multiplier = mpmath.mpf(noise_multiplier_for(epsilon, delta, n))
        assert exact_delta(epsilon, n / (2 * multiplier**2)) <= delta
        assert exact_delta(epsilon, n / (2 * (multiplier * (1 - mpmath.mpf("1e-9"))) ** 2)) > delta


def test_budgets_are_monotone():
    for batch in ({}, {"batch_size": 5, "n_records": 50}):
        counts = [max_releases(2.0, 1e-6, m, **batch) for m in np.geomspace(1, 30, 5)]
        assert sorted(counts) == counts and counts[0] < counts[-1]
        counts = [max_releases(e, 1e-6, 10.0, **batch) for e in np.geomspace(0.5, 20, 5)]
        assert sorted(counts) == counts and counts[0] < counts[-1]
    counts = [max_releases(2.0, 1e-6, 10.0, a) for a in ACCOUNTANTS]
    assert sorted(counts) == counts
    assert max_releases(2.0, 1e-6, 10.0, batch_size=7, n_records=7) == max_releases(2.0, 1e-6, 10.0)


@pytest.mark.parametrize("batch", [{}, {"batch_size": 5, "n_records": 100}])
@pytest.mark.parametrize("accountant", ACCOUNTANTS)
def test_no_more_releases_are_counted_than_floats_hold(accountant, batch):
    """Noise so large that all fit gives the largest count; the search for it went on to counts that are refused."""
    assert max_releases(4.0, 1e-6, 1e9, accountant, **batch) == 2**53


def test_no_release_fits_where_the_noise_is_too_small():
    for accountant in ACCOUNTANTS:
        assert max_releases(0.1, 1e-6, 0.5, accountant) == 0


# ---------------------------------------------------------------- dp-accounting


def their_accountant(orders, releases):
    """dp-accounting's Rényi accountant after subsampled Gaussian releases; replace-one neighbours."""
    accounting = pytest.importorskip("dp_accounting")
    rdp = pytest.importorskip("dp_accounting.rdp")
    accountant = rdp.RdpAccountant(orders, accounting.NeighboringRelation.REPLACE_ONE)
    event = accounting.GaussianDpEvent(releases.noise_multiplier)
    if isinstance(releases, SubsampledGaussianReleases):
        event = accounting.SampledWithoutReplacementDpEvent(releases.n_records, releases.batch_size, event)
    accountant.compose(event, releases.n_releases)
    return accountant


def test_dp_accounting_agrees_on_gaussian_releases():
    """Divergences and the conversion, to 1e-9, at dp-accounting's own orders."""
    orders = np.array([1.1, 1.5, 2.0, 3.3, 8.0, 40.0, 256.0])
    for multiplier, n in ((1.0, 1), (20.0, 500)):
        releases = GaussianReleases(multiplier, n)
        theirs = their_accountant(orders, releases)
        np.testing.assert_allclose(releases.rdp(orders), theirs.rdp, rtol=1e-9)
        for delta in (1e-9, 1e-5, 0.5):
            assert renyi_epsilon(releases.rdp(orders), delta, orders) == pytest.approx(
                theirs.get_epsilon(delta), rel=1e-9
            )


@pytest.mark.parametrize("b, multiplier", [(1, 0.5), (10, 1.0), (10, 6.0), (300, 2.0), (1000, 1.0)])
def test_dp_accounting_is_never_below_ours_when_subsampled(b, multiplier):
    """Theirs bounds the same by Theorem 27 of Wang et al.; ours is at most that, and equal for a full batch."""
    orders = np.array([1.5, 2.0, 3.0, 4.0, 7.5, 16.0, 32.0, 128.0])
    releases = SubsampledGaussianReleases(multiplier, b, 1000, 10)
    theirs = their_accountant(orders, releases)
    ratio = releases.rdp(orders) / theirs.rdp
    assert np.all(ratio <= 1 + 1e-9)
    if b == 1000:
        np.testing.assert_allclose(ratio, 1, rtol=1e-9)
    else:
        assert np.all(releases.rdp(orders) > 0.2 * theirs.rdp)


# ---------------------------------------------------------------- values and arguments


def test_releases_are_frozen_values():
    for releases in (
        GaussianReleases(2, np.int64(3)),
        SubsampledGaussianReleases(2, 3, 10),
        SubsampledReleases(barker_rdp(10), 3, 10, 5),
    ):
        assert isinstance(releases, Releases)
        assert pickle.loads(pickle.dumps(releases)) == releases
        assert hash(pickle.loads(pickle.dumps(releases))) == hash(releases)
        with pytest.raises(AttributeError):
            releases.n_releases = 7
    assert GaussianReleases(2, 3) == GaussianReleases(2.0, 3) != GaussianReleases(2, 4)
    assert SubsampledReleases(barker_rdp(10), 3, 10) != SubsampledReleases(barker_rdp(12), 3, 10)


@pytest.mark.parametrize("value", [0, -1.0, math.nan, math.inf, "1", True, None, [1.0]])
@pytest.mark.parametrize(
    "name, call",
    [
        ("noise_multiplier", lambda v: GaussianReleases(v)),
        ("noise_multiplier", lambda v: SubsampledGaussianReleases(v, 1, 2)),
        ("noise_multiplier", lambda v: max_releases(1.0, 1e-6, v)),
        ("epsilon", lambda v: max_releases(v, 1e-6, 1.0)),
        ("epsilon", lambda v: noise_multiplier_for(v, 1e-6, 1)),
    ],
)
def test_a_number_out_of_range_is_refused(name, call, value):
    with pytest.raises(ValueError, match=f"{name} must be a finite number greater than 0, got"):
        call(value)


@pytest.mark.parametrize("delta", [0, 1, -0.1, math.nan, "0.1", True, None])
def test_delta_is_strictly_between_0_and_1(delta):
    for call in (
        lambda: gaussian_mu(1.0, delta),
        lambda: epsilon_of([], delta),
        lambda: max_releases(1.0, delta, 1.0),
        lambda: noise_multiplier_for(1.0, delta, 1),
    ):
        with pytest.raises(ValueError, match="delta must be strictly between 0 and 1, got"):
            call()


@pytest.mark.parametrize("count", [-1, 2.0, math.nan, "2", True, None, [1]])
def test_a_count_is_an_integer(count):
    for name, low, call in (
        ("n_releases", 0, lambda: GaussianReleases(1.0, count)),
        ("n_releases", 0, lambda: SubsampledGaussianReleases(1.0, 1, 2, count)),
        ("n_releases", 0, lambda: SubsampledReleases(barker_rdp(10), 1, 2, count)),
        ("n_releases", 1, lambda: noise_multiplier_for(1.0, 0.1, count)),
        ("batch_size", 1, lambda: SubsampledReleases(barker_rdp(10), count, 2)),
        ("n_records", 1, lambda: SubsampledGaussianReleases(1.0, 1, count)),
    ):
        with pytest.raises(ValueError, match=f"{name} must be an integer of at least {low}, got"):
            call()


def test_batches_and_accountants_are_checked():
    with pytest.raises(ValueError, match=r"batch_size must be at most n_records.*batch_size=11 with n_records=10"):
        SubsampledGaussianReleases(1.0, 11, 10)
    for one in ({"batch_size": 3}, {"n_records": 3}):
        with pytest.raises(ValueError, match="pass both, or neither"):
            max_releases(1.0, 1e-6, 1.0, **one)
    for call in (
        lambda: epsilon_of([], 0.1, "exact"),
        lambda: delta_of([], 0.1, "exact"),
        lambda: max_releases(1.0, 0.1, 1.0, "exact"),
        lambda: noise_multiplier_for(1.0, 0.1, 1, "exact"),
    ):
        with pytest.raises(ValueError, match="accountant must be one of 'zcdp', 'rdp', 'tight', got 'exact'"):
            call()
    for bad in (3.0, [GaussianReleases(1.0), 3.0], "releases", None):
        with pytest.raises(TypeError, match="releases must be a Releases or a list of them, got"):
            epsilon_of(bad, 0.1)
    with pytest.raises(
        ValueError, match=r'accountant="zcdp" cannot account for SubsampledReleases.*use "rdp" or "tight"'
    ):
        epsilon_of(SubsampledReleases(barker_rdp(10), 1, 10), 0.1, "zcdp")
    for orders in (1.0, [2.0, 0.5], [math.nan], [[2.0]]):
        with pytest.raises(ValueError, match="orders must be numbers greater than 1"):
            GaussianReleases(1.0).rdp(orders)
    with pytest.raises(ValueError, match=r"noise_multiplier=1e.200 is so large that the cost"):
        max_releases(1.0, 0.1, 1e200)
    with pytest.raises(ValueError, match="epsilon must be a finite number at least 0, got -1"):
        delta_of([], -1)


# ---------------------------------------------------------------- the search for the best order


SEARCHED = [
    [SubsampledGaussianReleases(0.6, 2, 4, 2836), GaussianReleases(87.0, 3)],
    [SubsampledGaussianReleases(7.0, 100, 400_000, 19)],
]


@pytest.mark.slow
@pytest.mark.parametrize("releases", SEARCHED, ids=range(len(SEARCHED)))
def test_the_search_finds_the_best_of_all_orders(releases):
    """Catches a search that ends beside the best order: ε and δ would come out too large."""
    full = total_rdp(releases)
    slopes = np.diff((ORDERS - 1.0) * full) / np.diff(ORDERS)
    slopes = slopes[ORDERS[1:] < 39_000 * releases[0].noise_multiplier]  # beyond, rdp jumps up to that without batches
    assert np.all(np.diff(slopes) >= -1e-6 * slopes[1:])  # what the search takes for granted
    for delta in (1e-12, 1e-6, 0.1):
        assert epsilon_of(releases, delta, "rdp") == renyi_epsilon(full, delta)
    for epsilon in (0.01, 1.0, 30.0):
        least = min(0.0, renyi_log_delta(full, epsilon))
        assert delta_of(releases, epsilon, "rdp") == pytest.approx(math.exp(least), rel=1e-12)


def test_a_curve_with_two_valleys_is_not_searched():
    """Its best order is where a search on ever finer parts of the grid does not look."""
    k = 500  # between the coarse orders 448 and 512

    class Valleys(GaussianReleases):
        def rdp(self, orders):
            return np.where(orders == ORDERS[k], 1e-3, super().rdp(orders))

    valleys = Valleys(0.5)
    rdp, orders = at_best_orders([valleys], lambda rdp, orders: rdp)
    assert len(orders) < 60 and ORDERS[k] not in orders  # said to be convex, it is believed
    curve = SubsampledReleases(valleys.rdp, 10, 10)
    rdp, orders = at_best_orders([curve], lambda rdp, orders: rdp)
    assert len(orders) == len(ORDERS) and rdp[k] == 1e-3
