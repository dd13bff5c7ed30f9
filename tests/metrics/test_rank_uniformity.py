"""Uniformity of ranks: against all outcomes, closed forms, simulation, and the transitions of the paper."""

import itertools
import math
import re

import numpy as np
import pytest
from scipy import stats
from statistical import assert_frequency

from sklearn_dpmix.metrics import rank_uniformity

ALPHA = 1e-6


def compositions(n, parts):
    """Each way of n ranks to fall on so many values, as counts."""
    for bars in itertools.combinations(range(n + parts - 1), parts - 1):
        yield np.diff([-1, *bars, n + parts - 1]) - 1


def binomial_tails(k, n, p):
    """P(X ≤ k), P(X ≥ k), by summing."""
    pmf = [math.comb(n, j) * p**j * (1 - p) ** (n - j) for j in range(n + 1)]
    return math.fsum(pmf[: k + 1]), math.fsum(pmf[k:])


def enumerate_laws(n, n_draws, points):
    """Probability, Kolmogorov–Smirnov statistic and smallest tail of each outcome, with ranks that give it."""
    outcomes = []
    for cells in compositions(n, n_draws + 1):
        probability = math.factorial(n) / math.prod(map(math.factorial, cells.tolist())) / (n_draws + 1) ** n
        below = np.cumsum(cells).tolist()  # below[i - 1]: ranks below i
        distance = max(abs(below[i - 1] / n - i / (n_draws + 1)) for i in range(1, n_draws + 1))
        tail = min(min(binomial_tails(below[i - 1], n, i / (n_draws + 1))) for i in points)
        outcomes.append((probability, distance, tail, np.repeat(np.arange(n_draws + 1), cells)))
    return outcomes


@pytest.mark.parametrize(
    "n, n_draws, n_points", [(1, 1, None), (1, 4, 4), (2, 3, None), (4, 4, 4), (6, 3, None), (7, 2, 2), (5, 5, 2)]
)
def test_pvalues_are_those_of_all_outcomes(n, n_draws, n_points):
    """Catches a recursion that loses paths or ties, a strict inequality for a weak one, and a band not of its level."""
    points = np.rint((n_draws + 1) * rank_uniformity([0] * n, n_draws, n_points=n_points).points).astype(int)
    outcomes = enumerate_laws(n, n_draws, points)
    assert math.fsum(o[0] for o in outcomes) == pytest.approx(1.0, rel=1e-12)
    inside = dict.fromkeys((0.3, 0.5, 0.8, 0.95, 0.999), 0.0)
    for probability, distance, tail, ranks in outcomes:
        found = rank_uniformity(ranks, n_draws, n_points=n_points)
        assert found.ks_statistic == pytest.approx(distance, abs=1e-15)
        ks = math.fsum(p for p, d, _, _ in outcomes if d >= distance - 1e-12)
        band = math.fsum(p for p, _, t, _ in outcomes if t <= tail * (1 + 1e-12))
        assert found.ks_pvalue == pytest.approx(ks, rel=1e-11)
        assert found.pvalue == pytest.approx(band, rel=1e-11)
        for level in inside:
            at_level = rank_uniformity(ranks, n_draws, n_points=n_points, level=level)
            assert at_level.inside == (band > 1 - level + 1e-12), (level, band)
            inside[level] += probability * at_level.inside
    for level, total in inside.items():
        assert total >= level - 1e-12


def leaving_by_binomial_steps(found):
    """P(uniform ranks leave the band), with the paper's transitions: the slow twin of the Poisson steps."""
    n, law, before = found.n_simulations, None, 0.0
    for z, low, high in zip(found.points, np.rint(found.lower * n), np.rint(found.upper * n)):
        counts = np.arange(n + 1)
        step = (z - before) / (1.0 - before)
        if law is None:
            law = stats.binom.pmf(counts, n, step)
        else:
            law = law @ stats.binom.pmf(counts[None, :] - counts[:, None], n - counts[:, None], step)
        law[(counts < low) | (counts > high)] = 0.0
        before = z
    return 1.0 - law.sum()


@pytest.mark.parametrize("n, n_draws, n_points", [(150, 99, None), (150, 99, 20), (40, 500, None), (200, 4, None)])
@pytest.mark.parametrize("level", [0.5, 0.95, 0.999])
def test_uniform_ranks_leave_the_band_as_seldom_as_it_says(n, n_draws, n_points, level):
    """Catches a band adjusted by Bonferroni's inequality (too wide), and one not adjusted at all."""
    found = rank_uniformity(np.arange(n) % (n_draws + 1), n_draws, level=level, n_points=n_points)
    leaving = leaving_by_binomial_steps(found)
    # few points with few counts cannot use up the rest of 1 - level
    assert (0.5 if n_draws == 4 else 0.8) * (1 - level) <= leaving <= (1 - level) * (1 + 1e-9)
    assert found.pointwise_level > level
    interval = stats.binom.interval(found.pointwise_level, n, found.points)
    np.testing.assert_allclose(np.array([found.lower, found.upper]) * n, interval, rtol=1e-12)
    np.testing.assert_allclose(found.lower, 1.0 - found.upper[::-1], atol=1e-12)
    np.testing.assert_allclose(found.points, 1.0 - found.points[::-1], atol=1e-12)
    if n_points is not None:
        assert len(found.points) in (n_points, n_points + 1)
    pointwise = stats.binom.interval(level, n, found.points)
    assert np.all(found.lower * n <= pointwise[0] + 1e-9) and np.all(found.upper * n >= pointwise[1] - 1e-9)


def test_rejection_rate_is_nominal():
    """Catches p-values with the wrong law on simulated ranks, which shares no code with the recursion."""
    n, n_draws, n_repeats = 100, 19, 2000
    ranks = np.random.default_rng(3).integers(0, n_draws + 1, size=(n_repeats, n))
    found = [rank_uniformity(row, n_draws) for row in ranks]
    outside = leaving_by_binomial_steps(found[0])
    assert 0.04 < outside <= 0.05
    assert_frequency(sum(not f.inside for f in found), n_repeats, outside)
    for pvalues in (np.array([f.pvalue for f in found]), np.array([f.ks_pvalue for f in found])):
        for level in (0.05, 0.3, 0.7):
            count = np.count_nonzero(pvalues <= level)
            assert stats.binomtest(count, n_repeats, level, alternative="greater").pvalue >= ALPHA
            # discrete: the largest p-value not above the level is the size
            assert_frequency(count, n_repeats, pvalues[pvalues <= level].max())
    assert all(f.inside == (f.pvalue > 0.05) for f in found)


def test_ks_is_for_discrete_ranks():
    """Catches the law of continuous values, which is too cautious for few draws, and is the limit for many."""
    ranks = np.random.default_rng(4).integers(0, 5, size=200)
    ranks[:30] = 0
    found = rank_uniformity(ranks, 4)
    assert found.ks_pvalue < 0.8 * stats.kstwo.sf(found.ks_statistic, 200)
    n_draws = 20000
    fine = np.random.default_rng(5).integers(0, n_draws + 1, size=300)
    found = rank_uniformity(fine, n_draws)
    # a value moved by 1/n_draws moves √n times the statistic by 2e-3 at most, at slopes of the limit below 2
    assert found.ks_pvalue == pytest.approx(stats.kstwo.sf(found.ks_statistic, 300), abs=5e-3)
    assert found.ks_statistic == pytest.approx(stats.kstest(fine / n_draws, "uniform").statistic, abs=1 / 300 + 1e-3)


@pytest.mark.parametrize("n", [1, 50, 300])
def test_small_pvalues_keep_their_digits(n):
    """Closed form: all ranks 0 is as far out as all ranks n_draws, and nothing else is.  Catches 1 - P(inside)."""
    for ranks in (np.zeros(n), np.full(n, 9)):
        found = rank_uniformity(ranks, 9)
        assert found.ks_statistic == pytest.approx(0.9, rel=1e-15)
        assert found.ks_pvalue == pytest.approx(2 * 0.1**n, rel=1e-10, abs=0)
        if n > 1:
            assert not found.inside
        if n == 50:  # the band looks at all nine points
            assert found.pvalue == pytest.approx(2 * 0.1**n, rel=1e-10, abs=0)
    assert rank_uniformity(np.arange(1000) % 10, 9).ks_pvalue == 1.0  # the distance is 0


def test_ecdf_is_the_fraction_below():
    """Catches an empirical distribution function shifted by one rank, and reflected ranks judged otherwise."""
    ranks = np.random.default_rng(6).binomial(30, 0.55, size=80)
    found, reflected = rank_uniformity(ranks, 30), rank_uniformity(30 - ranks, 30)
    np.testing.assert_allclose(found.points, np.arange(1, 31) / 31, rtol=1e-15)
    np.testing.assert_allclose(found.ecdf, [np.mean(ranks < i) for i in range(1, 31)], rtol=1e-15)
    assert found.inside == bool(np.all((found.lower <= found.ecdf) & (found.ecdf <= found.upper))) is False
    assert reflected.pvalue == pytest.approx(found.pvalue, rel=1e-9)
    assert reflected.ks_pvalue == pytest.approx(found.ks_pvalue, rel=1e-9)
    np.testing.assert_array_equal(reflected.upper, found.upper)
    many = rank_uniformity(np.random.default_rng(7).integers(0, 5000, size=20000), 4999)
    assert len(many.points) == 200


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: rank_uniformity([0, 1, 6], 5), r"ranks must be integers from 0 to n_draws=5, got 6"),
        (lambda: rank_uniformity([0, -1], 5), r"ranks must be integers.*got -1"),
        (lambda: rank_uniformity([0.5, 1], 5), r"ranks must be integers.*got 0.5"),
        (lambda: rank_uniformity([np.nan, 1], 5), r"ranks must be integers.*got nan"),
        (lambda: rank_uniformity([[0, 1], [2, 3]], 5), r"ranks must have shape.*\(2, 2\).*column"),
        (lambda: rank_uniformity([], 5), r"ranks must have shape.*\(0,\)"),
        (lambda: rank_uniformity("ab", 5), r"ranks must be an array of integers"),
        (lambda: rank_uniformity([0, 0], 0), r"n_draws must be an integer, 1 or more, got n_draws=0"),
        (lambda: rank_uniformity([0, 0], 5.0), r"n_draws must be an integer.*n_draws=5.0"),
        (lambda: rank_uniformity([0, 0], True), r"n_draws must be an integer.*n_draws=True"),
        (lambda: rank_uniformity([0, 0], 5, n_points=0), r"n_points must be an integer.*n_points=0"),
        (lambda: rank_uniformity([0, 0], 5, level=1.0), r"level must be a probability.*level=1.0"),
        (lambda: rank_uniformity([0, 0], 5, level=[0.5, 0.9]), r"level must be a probability"),
        (lambda: rank_uniformity([0, 0], 5, level=None), r"level must be a probability.*level=None"),
    ],
)
def test_bad_input_is_named(call, message):
    """Catches a percentage for a probability, NaN, and ranks among another number of draws."""
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        call()
