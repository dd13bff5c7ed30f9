"""Smooth sensitivity by brute force over all data sets of a grid; noise calibrated by it, by quadrature.

A check takes what it checks as an argument, and is shown to reject a broken twin of it.
"""

import itertools
import math
import pickle
import re
import statistics
import warnings

import numpy as np
import pytest
from scipy import stats
from sklearn.base import clone

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.mechanisms import (
    LaplaceMechanism,
    SmoothCauchyMechanism,
    SmoothGaussianMechanism,
    SmoothLaplaceMechanism,
    SmoothStudentTMechanism,
)
from sklearn_dpmix.mechanisms._dilated import GUARD, N_CELLS, balanced_xi, least_multiplier
from sklearn_dpmix.mechanisms._smooth_gaussian import GaussianLaw
from sklearn_dpmix.mechanisms._smooth_laplace import LaplaceLaw
from sklearn_dpmix.mechanisms._smooth_student_t import StudentTLaw
from sklearn_dpmix.queries import BoundedRecords, SmoothMedian, SmoothQuery, SmoothTrimmedMean

mpmath = pytest.importorskip("mpmath")

ALPHA = 1e-6
XIS = (0.01, 0.1, 0.5, 2.0)
GRIDS = {1: (-1, -0.4, 0.2, 0.5, 3), 2: (-1, -0.4, 0, 0.2, 1, 3), 3: (-1, -0.4, 0, 1, 3), 4: (-1, 0, 0.1, 1.5, 3)}
GRIDS[5] = (-1, -0.2, 0.5, 3)
QUERIES = [SmoothMedian((-1, 3))] + [SmoothTrimmedMean((-1, 3), trim) for trim in (0, 0.2, 0.25, 0.34, 0.49)]


def plain_value(query, records):
    """The value in plain Python."""
    records = sorted(min(max(x, -1), 3) for x in records)
    if isinstance(query, SmoothMedian):
        return statistics.median(records)
    g = math.floor(query.trim * len(records))
    return statistics.fmean(records[g : len(records) - g])


def brute_force(query, grid, n, xi):
    """(values, local sensitivities, smooth sensitivities) at all data sets of n numbers of the grid: (m,) * n each.

    The smooth sensitivity is a maximum over how each record may change, so it can be taken record by record.
    """
    m = len(grid)
    value = np.array([plain_value(query, x) for x in itertools.product(grid, repeat=n)]).reshape((m,) * n)
    local = np.zeros_like(value)
    for axis in range(n):
        highest, lowest = value.max(axis, keepdims=True), value.min(axis, keepdims=True)
        local = np.maximum(local, np.maximum(highest - value, value - lowest))
    smooth = local
    for axis in range(n):
        smooth = np.maximum(smooth, math.exp(-xi) * smooth.max(axis, keepdims=True))
    return value, local, smooth


def agrees(query, statistics_of):
    """Whether values and smooth sensitivities are the brute force's on all grids."""
    for (n, grid), xi in itertools.product(GRIDS.items(), XIS):
        value, _, smooth = brute_force(query, grid, n, xi)
        found = statistics_of(np.array(list(itertools.product(grid, repeat=n))), xi)
        close = [np.allclose(f, e.ravel(), rtol=1e-12, atol=1e-12) for f, e in zip(found.T, (value, smooth))]
        if not all(close):
            return False
    return True


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_smooth_sensitivity_is_exact(query):
    """At every data set of a grid that holds the bounds: its definition, by exhaustion.

    Rejected: the local sensitivity alone; a bound that looks one replacement too far or not far enough; another ξ.
    """
    assert agrees(query, query.statistics)

    def with_smooth(change):
        def twin(X, xi):
            found = query.statistics(X, xi)
            found[:, 1] = change(found[:, 1], X, xi)
            return found

        return twin

    assert not agrees(query, with_smooth(lambda smooth, X, xi: math.exp(-xi) * smooth))
    assert not agrees(query, with_smooth(lambda smooth, X, xi: query.statistics(X, 1.1 * xi)[:, 1]))
    assert not agrees(query, with_smooth(lambda smooth, X, xi: query.statistics(X, 50.0)[:, 1]))


def test_shapes_and_names():
    """One data set as a column, a list or a row of many; records beyond the bounds count as on them."""
    query = SmoothMedian((-1, 3))
    records = [0.5, 7.0, -9.0, 0.25]
    row = query.statistics([records], 0.3)
    assert row.shape == (1, 2) and query.value(records).shape == (1,)
    for given in (records, np.array(records)[:, None], [[x] for x in records]):
        assert query.value(given)[0] == row[0, 0] == 0.375 and query.smooth_sensitivity(given, 0.3) == row[0, 1]
    np.testing.assert_array_equal(query.statistics([np.clip(records, -1, 3)], 0.3), row)
    assert SmoothTrimmedMean((0, 1), 0.29).n_trimmed(100) == 29  # 0.29 × 100 < 29 in floating point
    assert [SmoothTrimmedMean((0, 1), 0.5 - 1e-12).n_trimmed(n) for n in (1, 2, 6)] == [0, 0, 2]


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_pruned_search_is_the_full_one(query):
    """On many records, against all pairs of ranks; and chunks of rows against rows one by one."""
    rng = np.random.default_rng(0)
    for n, xi in itertools.product((1, 2, 17, 64, 201), (1e-3, 0.05, 0.6)):
        X = np.concatenate([rng.normal(1, 1, (20, n)), rng.choice([-1, 0, 3], (10, n)), rng.beta(0.1, 0.1, (10, n))])
        g = query.n_trimmed(n)
        r = n - 2 * g
        x = np.column_stack([np.full(40, -1.0), np.sort(np.clip(X, -1, 3), axis=1), np.full(40, 3.0)])
        p, q = np.arange(g + 2)[:, None], np.arange(n - g, n + 2)[None, :]
        weight = np.where(q - p >= r, np.exp(-xi * (q - p - r)), 0.0)
        full = [np.max(weight * (row[q] - row[p])) / r for row in x]
        found = query.statistics(X, xi)
        np.testing.assert_allclose(found[:, 1], full, rtol=1e-12)
        np.testing.assert_array_equal(found[7], [query.value(X[7])[0], query.smooth_sensitivity(X[7], xi)])
    many = np.repeat(X, 40, axis=0)  # more rows than are sorted at a time
    np.testing.assert_array_equal(query.statistics(many, xi), np.repeat(found, 40, axis=0))


@pytest.mark.parametrize("query", QUERIES, ids=repr)
def test_smallest_smooth_sensitivity_is_attained_and_never_passed(query):
    """By records in the middle; twin: a bound that is 1 % larger is passed."""
    rng = np.random.default_rng(1)
    for n, xi in itertools.product((1, 2, 3, 8, 31), XIS):
        smallest = query.smallest_smooth_sensitivity(n, xi)
        X = rng.uniform(-1, 3, (3000, n))
        X[:1000] = 1.0 + rng.uniform(-2, 2, (1000, 1)) * rng.random((1000, n)) ** rng.uniform(0, 20, (1000, 1))
        X[0] = 1.0
        found = query.statistics(X, xi)[:, 1]
        assert found[0] == pytest.approx(smallest, rel=1e-12)
        assert np.all(found >= smallest * (1 - 1e-12)) and np.any(found < smallest * 1.01)


def test_no_data_set_is_released_without_noise():
    """ξ n so large that e^-ξn underflows: there is a floor, and it is the smallest too."""
    query = SmoothMedian((0, 1))
    X = np.full((1, 20_001), 0.5)
    assert query.statistics(X, 1.0)[0, 1] == query.smallest_smooth_sensitivity(20_001, 1.0) == 1e-100
    mechanism = SmoothCauchyMechanism(2.0, query=query, xi=1.0, n_records=20_001)
    assert np.isfinite(mechanism.release_density([[0.6]])(query.statistics(X, 1.0)))[0]
    assert np.isfinite(mechanism.log_release_mode([[0.5]]))


# ---------------------------------------------------------------- what the noise hides

LAWS = {"laplace": LaplaceLaw(), "gaussian": GaussianLaw()}


def exact_hockey_stick(name, epsilon, s, t):
    """E_ε with 60 digits: the sign of p - e^ε q between its roots, and masses by the distribution functions."""
    with mpmath.workdps(60):
        epsilon, s, t = mpmath.mpf(epsilon), mpmath.mpf(s), mpmath.mpf(t)
        b = mpmath.exp(t)
        if name == "gaussian":
            a, c, d = 1 / b**2 - 1, s / b**2, s**2 / b**2 + 2 * (t - epsilon)
            roots = [(c + sign * mpmath.sqrt(c * c - a * d)) / a for sign in (-1, 1)] if c * c > a * d else []
            cdf = mpmath.ncdf

            def log_density(u):
                return -u * u / 2
        else:
            roots = [(epsilon - t - s / b) / (1 - 1 / b), (t + s / b - epsilon) / (1 + 1 / b)]
            roots = [roots[0]] * (roots[0] <= 0) + [roots[1]] * (0 <= roots[1] <= s)
            right = (epsilon - t + s / b) / (1 / b - 1)
            roots += [right] * (right >= s)

            def cdf(u):
                return mpmath.exp(u) / 2 if u < 0 else 1 - mpmath.exp(-u) / 2

            def log_density(u):
                return -abs(u)

        edges = [-mpmath.inf, *sorted(roots), mpmath.inf]
        total = mpmath.mpf(0)
        for low, high in itertools.pairwise(edges):
            beyond = high - 1 if mpmath.isfinite(high) else low + 1
            inside = (low + high) / 2 if mpmath.isfinite(low + high) else beyond
            if log_density(inside) - (log_density((inside - s) / b) - t) > epsilon:
                total += cdf(high) - cdf(low) - mpmath.exp(epsilon) * (cdf((high - s) / b) - cdf((low - s) / b))
        return total


def quadrature(log_p, log_q, epsilon, edges):
    """∫ max(p - e^ε q, 0) by Gauss-Legendre on the panels between sorted edges."""
    nodes, weights = np.polynomial.legendre.leggauss(8)
    half = 0.5 * np.diff(edges)[:, None]
    u = (edges[:-1, None] + half * (1 + nodes)).ravel()
    p, q = np.exp(log_p(u)), np.exp(epsilon + log_q(u))
    return float(np.sum(np.maximum(p - q, 0.0) * (half * weights).ravel()))


def shifted(law, s, t):
    return lambda u: law.log_density((u - s) * np.exp(-t)) - t


def cases(seed, n):
    """(ε, shift, log dilation), around where δ is neither 1 nor nothing."""
    rng = np.random.default_rng(seed)
    for _ in range(n):
        epsilon = 10.0 ** rng.uniform(-2, 1.5)
        t = rng.choice([-1, 1]) * epsilon * 10.0 ** rng.uniform(-3, -0.05)
        yield epsilon, epsilon * 10.0 ** rng.uniform(-1.5, 0.3), t


def worst_error(name, hockey_stick):
    """Largest relative error where E_ε is at least 1e-15, and how many cases that was."""
    worst, n = 0.0, 0
    for epsilon, s, t in cases(2, 600):
        exact = exact_hockey_stick(name, epsilon, s, t)
        if exact >= 1e-15:
            worst, n = max(worst, float(abs(hockey_stick(epsilon, s, t) - exact) / exact)), n + 1
    return worst, n


@pytest.mark.slow
@pytest.mark.parametrize("name", LAWS)
def test_hockey_stick_divergence_is_exact(name):
    """Rounding errors stay a hundred times below the guard.  Twin: a second-order slip in the dilation."""
    law = LAWS[name]

    def exact(epsilon, s, t):
        return float(law.hockey_stick(epsilon, np.array([s]), np.array([t]))[0])

    worst, n = worst_error(name, exact)
    assert n > 150 and worst < 0.01 * GUARD
    assert worst_error(name, lambda epsilon, s, t: exact(epsilon, s, t + 0.001 * t * t))[0] > GUARD


@pytest.mark.parametrize("name", LAWS)
def test_hockey_stick_divergence_is_the_integral_of_its_definition(name):
    """By quadrature, without roots or sets.  Twin: the other one of the pair taken for the first."""
    law, twins = LAWS[name], 0
    for epsilon, s, t in cases(3, 60):
        width = 40.0 * math.exp(max(t, 0.0))
        edges = np.unique(np.concatenate([np.linspace(-width, width, 6001), [0.0, s]]))
        found = quadrature(law.log_density, shifted(law, s, t), epsilon, edges)
        exact = float(law.hockey_stick(epsilon, np.array([s]), np.array([t]))[0])
        assert found == pytest.approx(exact, rel=2e-3, abs=1e-12)
        if exact > 1e-9:
            twin = float(law.hockey_stick(epsilon, np.array([s]), np.array([-t]))[0])
            twins += found != pytest.approx(twin, rel=0.01)
    assert twins > 10


@pytest.mark.parametrize("name", LAWS)
def test_what_is_stated_bounds_every_shift_and_dilation(name):
    """At random points within the allowed set and at its corners; and it is not loose: within 3 % of the largest."""
    law, rng = LAWS[name], np.random.default_rng(4)
    for epsilon, delta in ((1.0, 1e-6), (0.2, 1e-4), (5.0, 1e-9)):
        for part in (0.3, 1.0):
            xi = part * balanced_xi(law, epsilon, delta)
            m = least_multiplier(law, epsilon, delta, xi)
            t = np.concatenate([rng.uniform(-xi, xi, 20_000), [-xi, xi], np.linspace(-xi, xi, 2000)])
            s = np.exp(np.minimum(t, 0.0)) / m * np.append(rng.random(20_000) ** 0.1, np.ones(2002))
            found = law.hockey_stick(epsilon, s, t).max()
            stated = law.spent(epsilon, xi, m)[1]
            assert 0.97 * stated < found <= stated <= delta
            assert law.hockey_stick(epsilon, 1.05 * s, t).max() > stated  # twin: a shift beyond what is allowed


@pytest.mark.parametrize("name", LAWS)
@pytest.mark.parametrize("n_cells", [3, 9, N_CELLS])
def test_each_cell_of_dilations_is_bounded_as_a_whole(name, n_cells):
    """At points within each cell, for much noise and little.  Twins: the shift, or the ε, of a cell's first point."""
    law, rng = LAWS[name], np.random.default_rng(9)
    passed = {"shift": 0, "epsilon": 0}
    for _ in range(200):
        epsilon = 10.0 ** rng.uniform(-1, 1.3)
        xi = epsilon * 10.0 ** rng.uniform(-3, -0.3)
        m = rng.choice([10.0 ** rng.uniform(-0.5, 0.5) / epsilon, 1.0 / (epsilon + xi * rng.uniform(-1, 1.5))])
        width, start = 2.0 * xi / n_cells, xi * np.arange(-n_cells, n_cells, 2) / n_cells
        t = start + width * np.linspace(0.003, 1, 50)[:, None]
        found = law.hockey_stick(epsilon, np.exp(np.minimum(t, 0.0)) / m, t).max(axis=0)
        bounds = law.bounds(epsilon, xi, m, n_cells)
        assert np.all((found <= bounds * (1.0 + GUARD)) | (found < 1e-15))
        assert law.spent(epsilon, xi, m)[1] >= found.max() or found.max() < 1e-15
        for twin, end, less in (("shift", start, epsilon - width), ("epsilon", start + width, epsilon)):
            passed[twin] += np.any(found > 1e-12 + law.hockey_stick(less, np.exp(np.minimum(end, 0.0)) / m, start))
    assert passed["shift"] > 10
    if name == "laplace":  # the Gaussian's divergence falls as a wider noise gets wider: ε needs no slack there
        assert passed["epsilon"] > 10


@pytest.mark.parametrize("law", [*LAWS.values(), StudentTLaw(1.0), StudentTLaw(3.0)], ids=repr)
def test_least_multiplier_is_least(law):
    """1 % less noise is refused, and so is a ξ whose change of scale spends all of ε."""
    for epsilon in (0.1, 1.0, 6.0):
        delta = 0.0 if isinstance(law, StudentTLaw) else 1e-6
        xi = balanced_xi(law, epsilon, delta)
        m = least_multiplier(law, epsilon, delta, xi)
        assert law.holds(epsilon, delta, xi, m) and not law.holds(epsilon, delta, xi, 0.99 * m)
        too_large = 1.001 * epsilon / (law.df if delta == 0.0 else 1.0)
        assert least_multiplier(law, epsilon, delta, too_large) is None


@pytest.mark.parametrize("law", [*LAWS.values(), StudentTLaw(1.0), StudentTLaw(3.0)], ids=repr)
def test_balanced_xi_has_the_least_noise_on_evenly_spaced_records(law):
    """Of the median's noise at a fine range of ξ, none is 1 % less; at twice ξ or half of it there is more."""
    query, X = SmoothMedian((0, 1)), np.linspace(0, 1, 4001)[:, None]
    for epsilon in (0.5, 1.0, 6.0):
        delta = 0.0 if isinstance(law, StudentTLaw) else 1e-6
        best = balanced_xi(law, epsilon, delta)

        def noise(xi, epsilon=epsilon, delta=delta):
            m = least_multiplier(law, epsilon, delta, xi)
            return math.inf if m is None else m * query.smooth_sensitivity(X, xi)

        assert noise(best) < 1.01 * min(noise(xi) for xi in (best * 2.0 ** np.linspace(-0.5, 0.5, 41)).tolist())
        if epsilon <= 1.0:  # beyond, pure ε has room for more than one ξ
            assert noise(best) < 0.99 * min(noise(0.5 * best), noise(2.0 * best))


@pytest.mark.parametrize("df", [0.7, 1.0, 3.0, 8.0])
def test_loss_of_t_noise_is_the_supremum_of_its_log_ratio(df):
    """Over fine grids of releases, shifts and dilations: never passed, and approached.  Twin: noise 2 % larger."""
    law = StudentTLaw(df)
    u = np.concatenate([np.sinh(np.linspace(-25, 25, 20_001))])
    for xi, m in ((0.05, 1.0), (0.3, 0.2), (0.3, 5.0)):
        stated, largest = law.spent(1.0, xi, m)[0], 0.0
        for t in np.linspace(-xi, xi, 21):
            for share in (0.3, 0.9, 1.0):
                s = share * min(1.0, math.exp(t)) / m
                largest = max(largest, np.max(law.log_density(u) - shifted(law, s, t)(u)))
        assert stated * (1 - 1e-4) < largest <= stated
        assert largest > law.spent(1.0, xi, 1.02 * m)[0]


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_published_calibrations(epsilon):
    """Example 2 as printed (m = 1/ε) is refused, m = 2/ε holds; so do Example 3 and the Cauchy noise of 2007.

    At ε = 1, δ = 1e-6: where shift and dilation are taken apart, Example 2 has δ = 8e-3; no pair of neighbours has both
    of these at once, as the value moves by no more than the smaller of both sensitivities; 3e-3 is then the largest.
    """
    delta = 1e-6
    xi = epsilon / (4.0 * (1.0 + math.log(2.0 / delta)))
    laplace, gaussian, cauchy = LaplaceLaw(), GaussianLaw(), StudentTLaw(1.0)
    assert not laplace.holds(epsilon, delta, xi, 1.0 / epsilon) and laplace.holds(epsilon, delta, xi, 2.0 / epsilon)
    assert gaussian.holds(epsilon, delta, xi, 5.0 * math.sqrt(2.0 * math.log(2.0 / delta)) / epsilon)
    assert cauchy.holds(epsilon, 0.0, epsilon / 6.0, 6.0 / epsilon)
    if epsilon == 1.0:
        apart = laplace.hockey_stick(1.0, np.array([1.0]), np.array([-xi]))[0]
        assert 8e-3 < apart < 8.1e-3
        assert 2.9e-3 < laplace.spent(1.0, xi, 1.0)[1] < 3.1e-3


def test_example_2_is_broken_by_a_median_of_one_record():
    """Records 0 and e^-ξ in [0, 1]: the neighbours that attain what the verification finds, by quadrature."""
    xi = 1.0 / (4.0 * (1.0 + math.log(2e6)))
    query = SmoothMedian((0, 1))
    rows = query.statistics([[0.0], [math.exp(-xi)]], xi)
    np.testing.assert_allclose(rows, [[0.0, 1.0], [math.exp(-xi), math.exp(-xi)]], rtol=1e-14)

    def largest_delta(m):
        mechanism = SmoothLaplaceMechanism(1.0, 1e-6, query=query, xi=xi, multiplier=m)
        return delta_between(mechanism, rows[0], rows[1])

    assert largest_delta(1.0) == pytest.approx(LaplaceLaw().spent(1.0, xi, 1.0)[1], rel=0.01)
    assert largest_delta(1.0) > 2.9e-3 and largest_delta(2.0) < 1e-6


def delta_between(mechanism, first, second):
    """E_ε of the release given one data set's statistics against another's, by quadrature."""
    scale = mechanism.multiplier_ * first[1]
    edges = np.unique(np.concatenate([first[0] + scale * np.linspace(-40, 40, 8001), [first[0], second[0]]]))

    def log_density(row):
        return lambda z: np.array([mechanism._log_noise(z[:, None] - row[0], np.tile(row, (len(z), 1)), 1.0)])[0]

    return quadrature(log_density(first), log_density(second), mechanism.epsilon, edges)


def neighbours(grid, n):
    """Pairs of data sets of the grid that differ in the first record (the order does not matter)."""
    for rest in itertools.combinations_with_replacement(grid, n - 1):
        for a, b in itertools.permutations(grid, 2):
            yield (a, *rest), (b, *rest)


def keeps_its_promise(mechanism, statistics_of, n=3):
    """Whether no pair of neighbours of a grid tells apart more than (ε, δ) says."""
    for pair in neighbours(GRIDS[n], n):
        first, second = statistics_of(np.array(pair), mechanism.xi_)
        if isinstance(mechanism, SmoothCauchyMechanism | SmoothStudentTMechanism):
            z = np.sinh(np.linspace(-20, 20, 4001))[:, None]
            ratio = mechanism._log_noise(z - first[0], np.tile(first, (len(z), 1)), 1.0)
            ratio -= mechanism._log_noise(z - second[0], np.tile(second, (len(z), 1)), 1.0)
            if np.max(ratio) > mechanism.epsilon:
                return False
        elif delta_between(mechanism, first, second) > mechanism.delta:
            return False
    return True


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [
        SmoothLaplaceMechanism(1.0, 1e-6, query=SmoothMedian((-1, 3))),
        SmoothGaussianMechanism(1.0, 1e-6, query=SmoothMedian((-1, 3))),
        SmoothCauchyMechanism(1.0, query=SmoothMedian((-1, 3))),
        SmoothStudentTMechanism(2.0, query=SmoothTrimmedMean((-1, 3), 0.34), df=4),
    ],
    ids=repr,
)
def test_releases_of_neighbours_keep_the_guarantee(mechanism):
    """Query, calibration and density together, over all neighbours of a grid.

    Twins: the local sensitivity in place of the smooth one; half the noise.
    """
    query = mechanism.query
    assert mechanism.guarantee().epsilon == mechanism.epsilon and mechanism.guarantee().delta == mechanism.delta
    assert keeps_its_promise(mechanism, query.statistics)

    def local(X, xi):
        return np.maximum(query.statistics(X, 30.0), [-1.0, 1e-3])

    assert not keeps_its_promise(mechanism, local)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        half = clone(mechanism).set_params(xi=mechanism.xi_, multiplier=0.5 * mechanism.multiplier_)
        assert not keeps_its_promise(half, query.statistics)


# ---------------------------------------------------------------- the mechanisms

MECHANISMS = {
    SmoothLaplaceMechanism(1.0, 1e-6, query=SmoothMedian((0, 1)), n_records=25): stats.laplace(),
    SmoothGaussianMechanism(0.5, 1e-5, query=SmoothTrimmedMean((0, 1), 0.2), n_records=25): stats.norm(),
    SmoothCauchyMechanism(1.0, query=SmoothMedian((0, 1)), n_records=25): stats.cauchy(),
    SmoothStudentTMechanism(1.0, query=SmoothMedian((0, 1)), df=4, n_records=25): stats.t(4),
}
every_mechanism = pytest.mark.parametrize("mechanism, law", MECHANISMS.items(), ids=lambda one: type(one).__name__)


@every_mechanism
def test_noise_has_its_law_at_the_scale_of_the_data(mechanism, law):
    """KS of many draws at m SS_ξ(x), which are what ``privatize`` adds; noise 5 % larger is rejected."""
    X = np.random.default_rng(5).random((25, 1))
    value, smooth = mechanism.query.value(X)[0], mechanism.query.smooth_sensitivity(X, mechanism.xi_)
    scale = mechanism.multiplier_ * smooth
    rng, draws = np.random.default_rng(6), []
    for _ in range(50):
        draws.append(mechanism._draw(rng, np.tile([value, smooth], (8000, 1)))[:, 0])
    draws = np.concatenate(draws) / scale
    assert stats.kstest(draws, law.cdf).pvalue > ALPHA
    assert stats.kstest(1.05 * draws, law.cdf).pvalue < ALPHA
    for seed in range(20):
        noise = mechanism._draw(np.random.default_rng(seed), np.array([[value, smooth]]))[0]
        np.testing.assert_array_equal(mechanism.privatize(X, random_state=seed), value + noise)


@every_mechanism
def test_log_densities_are_those_of_the_law(mechanism, law):
    """Of releases given records, and given simulated statistics; summed over releases, widened."""
    rng = np.random.default_rng(7)
    X, Z = rng.random((25, 1)), rng.standard_cauchy((6, 1))
    value, smooth = mechanism.query.value(X)[0], mechanism.query.smooth_sensitivity(X, mechanism.xi_)
    scale = mechanism.multiplier_ * smooth
    expected = law.logpdf((Z[:, 0] - value) / scale) - np.log(scale)
    np.testing.assert_allclose(mechanism.log_density(Z, X), expected, rtol=1e-12)
    simulated = mechanism.query.statistics(rng.random((300, 25)), mechanism.xi_)
    for widen in (1.0, 3.0):
        scale = widen * mechanism.multiplier_ * simulated[:, 1]
        expected = [np.sum(law.logpdf((Z[:, 0] - v) / h) - np.log(h)) for v, h in zip(simulated[:, 0], scale)]
        np.testing.assert_allclose(mechanism.release_density(Z, widen)(simulated), expected, rtol=1e-12)
    assert mechanism.n_columns(1) == 2


@every_mechanism
def test_mode_bounds_every_density_and_is_attained(mechanism, law):
    """By a data set in the middle that is released without error; without n_records nothing is known."""
    rng = np.random.default_rng(8)
    X = np.vstack([rng.random((500, 25)), np.full((1, 25), 0.5), 0.5 + 0.01 * rng.standard_normal((500, 25))])
    simulated = mechanism.query.statistics(X, mechanism.xi_)
    mode = mechanism.log_release_mode([[0.5]])
    best = np.array([mechanism.release_density([[row[0]]])(row[None])[0] for row in simulated])
    assert np.all(best <= mode + 1e-12) and best[500] == pytest.approx(mode, rel=1e-12) and best.min() < mode - 0.01
    assert mechanism.log_release_mode([[0.1], [0.2], [0.9]]) == pytest.approx(3 * mode)
    assert clone(mechanism).set_params(n_records=None).log_release_mode([[0.5]]) == math.inf


class Own(SmoothQuery):
    """A user's query that knows no smallest smooth sensitivity."""

    def value(self, X):
        return np.clip(X, 0, 1).mean(axis=0)

    def smooth_sensitivity(self, X, xi):
        return 1.0 / len(X)


def test_a_query_of_ones_own():
    """It needs two methods; without a bound there is no mode; missing methods are named, and so are its neighbours."""
    mechanism = SmoothLaplaceMechanism(1.0, 1e-6, query=Own(), n_records=4)
    Z = mechanism.privatize(np.zeros((4, 1)), random_state=0)
    assert Z.shape == (1,) and mechanism.log_release_mode([[0.5]]) == math.inf
    assert mechanism.guarantee().delta == 1e-6 and mechanism.guarantee().neighbours == "replace one record"
    mechanism.query.neighbours = "add_remove"
    assert mechanism.guarantee().neighbours == "add or remove one record"
    with pytest.raises(TypeError, match=r"SmoothQuery must define value\(self, X\)"):
        SmoothQuery().value([[0.0]])
    with pytest.raises(TypeError, match=r"SmoothQuery must define smooth_sensitivity\(self, X, xi\)"):
        SmoothQuery().smooth_sensitivity([[0.0]], 1.0)


@every_mechanism
def test_they_are_scikit_learn_objects(mechanism, law):
    """clone, get_params, pickle and repr; parameters are stored untouched, whatever was called."""
    before = pickle.dumps(vars(mechanism))
    for copy in (clone(mechanism), pickle.loads(pickle.dumps(mechanism)), eval(repr(mechanism))):
        assert repr(copy) == repr(mechanism) and copy.multiplier_ == mechanism.multiplier_
    mechanism.privatize(np.zeros((25, 1)), random_state=0)
    mechanism.guarantee()
    mechanism.check()
    assert pickle.dumps(vars(mechanism)) == before
    assert mechanism.get_params()["query__bounds"] == (0, 1)


def test_guarantees():
    """Pure ε, or (ε, δ) with no ρ; a calibration given by hand that does not hold is refused, and privatize warns."""
    query = SmoothMedian((0, 1))
    assert SmoothCauchyMechanism(2.0, query=query).guarantee().rho == 2.0
    assert SmoothLaplaceMechanism(2.0, 1e-6, query=query).guarantee().rho == math.inf
    printed = SmoothLaplaceMechanism(1.0, 1e-6, query=query, xi=0.016, multiplier=1.0)
    says = r"does not hold epsilon=1, delta=1e-06: what is verified is epsilon=1, delta=0\.00"
    with pytest.raises(ValueError, match=says):
        printed.guarantee()
    with pytest.warns(UserWarning, match=says):
        printed.privatize([[0.5]], random_state=0)
    doubled = clone(printed).set_params(multiplier=2.0)
    assert doubled.guarantee().epsilon == 1.0 and (doubled.xi_, doubled.multiplier_) == (0.016, 2.0)
    with pytest.raises(ValueError, match=r"what is verified is epsilon=1.* delta=0; leave multiplier out"):
        SmoothCauchyMechanism(1.0, query=query, xi=0.5, multiplier=0.5).guarantee()
    with pytest.raises(ValueError, match=r"guarantee\(\) needs query="):
        SmoothCauchyMechanism(1.0).guarantee()


def laplace(**changes):
    return SmoothLaplaceMechanism(**{"epsilon": 1.0, "delta": 1e-6, "query": SmoothMedian((0, 1)), **changes})


@pytest.mark.parametrize(
    "mechanism, error, says",
    [
        (laplace(epsilon=-1.0), ValueError, "epsilon must be positive and finite, .* got epsilon=-1.0"),
        (laplace(epsilon=[1.0, 2.0]), ValueError, "epsilon must be one number"),
        (laplace(delta=0), ValueError, "delta must be positive and finite"),
        (laplace(delta=1.0), ValueError, r"delta must be below 1, and at least 1e-15 .* got delta=1.0"),
        (laplace(delta=1e-16), ValueError, "delta must be below 1, and at least 1e-15 .* SmoothCauchyMechanism"),
        (laplace(xi=1.0), ValueError, "xi must be below epsilon=1.0, got xi=1.0"),
        (laplace(xi=0.5), ValueError, "xi=0.5 leaves nothing for the shift at epsilon=1.0, delta=1e-06: .* smaller xi"),
        (laplace(multiplier=2.0), ValueError, r"multiplier=2.0 says how much noise only with xi=, got xi=None"),
        (laplace(xi=0.01, multiplier=0.0), ValueError, "multiplier must be positive and finite"),
        (laplace(n_records=2.5), ValueError, "n_records must be a positive integer or None, got n_records=2.5"),
        (laplace(n_records=3), ValueError, "X has 2 records, but n_records=3: they must agree"),
        (laplace(query=None), ValueError, "SmoothLaplaceMechanism needs query= where it is given"),
        (laplace(query=BoundedRecords((0, 1))), TypeError, r"needs a query with value\(X\) and smooth_sensitivity"),
        (laplace(query=SmoothMedian), TypeError, r"needs a query with value\(X\) and smooth_sensitivity"),
        (laplace(query=SmoothMedian((1, 0))), ValueError, r"bounds must be finite with lo < hi, got bounds=\(1, 0\)"),
        (laplace(query=SmoothTrimmedMean((0, 1), 0.5)), ValueError, r"trim must be .* in \[0, 0.5\), got trim=0.5"),
        (laplace(query=SmoothTrimmedMean((0, 1), "a")), ValueError, "trim must be .* got trim='a'"),
        (SmoothStudentTMechanism(1.0, query=SmoothMedian((0, 1)), df=0), ValueError, "df must be positive and finite"),
        (SmoothStudentTMechanism(1.0, query=SmoothMedian((0, 1)), xi=0.4), ValueError, "xi=0.4 leaves nothing"),
    ],
    ids=str,
)
def test_wrong_parameters_are_named(mechanism, error, says):
    with pytest.raises(error, match=says):
        mechanism.privatize([[0.2], [0.7]], random_state=0)


def test_wrong_inputs_are_named():
    mechanism = laplace()
    with pytest.raises(ValueError, match="SmoothLaplaceMechanism has no secure=True: it draws with NumPy only"):
        mechanism.privatize([[0.5]], secure=True)
    with pytest.raises(ValueError, match="needs query= where it is given records, such as SmoothMedian"):
        laplace(query=None).log_density([[0.5]], [[0.5]])
    with pytest.raises(ValueError, match="X contains NaN"):
        mechanism.privatize([[np.nan]])
    with pytest.raises(ValueError, match=r"records must have shape \(n_records, 1\)"):
        mechanism.privatize([[0.5, 0.5]])
    with pytest.raises(ValueError, match=r"Z must have the shape of what is released of X, \(1, 1\), got \(1, 2\)"):
        mechanism.log_density([[0.5, 0.5]], [[0.5]])
    with pytest.raises(ValueError, match="releases one number, got a release of 2"):
        mechanism.n_columns(2)
    with pytest.raises(ValueError, match=r"statistics must have shape \(size, 2\) for a .* got .*\(3, 1\)"):
        mechanism.release_density([[0.5]])(np.ones((3, 1)))
    for bad in (0.0, -1.0, np.nan):
        with pytest.raises(ValueError, match=r"last column of statistics must be the smooth .* positive"):
            mechanism.release_density([[0.5]])([[0.5, 0.1], [0.5, bad]])
    with pytest.raises(ValueError, match="widen must be positive and finite"):
        mechanism.release_density([[0.5]], widen=0.0)([[0.5, 0.1]])
    query = SmoothMedian((0, 1))
    for X in ([0.5, 0.5], [[np.nan]], [["a"]], np.zeros((2, 0)), np.zeros((1, 2, 1))):
        with pytest.raises(ValueError, match=r"X must be finite numbers of shape \(size, n_records\)"):
            query.statistics(X, 0.1)
    for xi in (0.0, -1.0, np.inf, "a"):
        with pytest.raises(ValueError, match="xi must be positive and finite"):
            query.statistics([[0.5]], xi)
    for call in (query.value, lambda X: query.smooth_sensitivity(X, 0.1)):
        with pytest.raises(ValueError, match="at least one record"):
            call([])


def test_elsewhere_they_are_refused_in_a_sentence():
    """A mixture has no sampler for them, and other mechanisms no noise for such a query."""
    for n_records in (None, 5):
        with pytest.raises(ValueError, match=r"(?s)PrivateDPMixture has no sampler for .* release records one by one"):
            PrivateDPMixture(laplace(), n_records=n_records).fit(np.zeros((5, 1)))
    with pytest.raises(TypeError, match=re.escape("SmoothMedian has a sensitivity that depends on the data")):
        LaplaceMechanism(epsilon=1.0, query=SmoothMedian((0, 1))).privatize([[0.5]])
