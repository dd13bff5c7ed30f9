"""Maximum mean discrepancy: against the definition pair by pair, closed forms and invariances."""

import itertools
import math
import re
import tracemalloc

import numpy as np
import pytest
from scipy import stats
from scipy.spatial.distance import cdist

from sklearn_dpmix.metrics import _mmd, mmd

ALPHA = 1e-6


def naive_mmd2(X, Y, bandwidth, biased):
    """MMD² by the definition, pair by pair."""

    def mean(A, B, own):
        values = [
            math.exp(-sum((a - b) ** 2 for a, b in zip(A[i], B[j])) / (2 * bandwidth**2))
            for i in range(len(A))
            for j in range(len(B))
            if not own or i != j
        ]
        return math.fsum(values) / len(values)

    return mean(X, X, not biased) + mean(Y, Y, not biased) - 2 * mean(X, Y, False)


@pytest.mark.parametrize("biased", [False, True])
def test_mmd_is_the_mean_over_pairs(biased):
    """Catches a wrong divisor, a point that meets itself, σ for σ², and a median with distances of 0 in it."""
    rng = np.random.default_rng(12)
    X, Y = rng.normal(size=(9, 3)), rng.normal(0.7, 1.5, size=(6, 3))
    pooled = np.concatenate([X, Y])
    median = np.median([math.dist(a, b) for a, b in itertools.combinations(pooled, 2)])
    for bandwidth, width in ((0.6, 0.6), (3.0, 3.0), ("median", median)):
        expected = naive_mmd2(X, Y, width, biased)
        found = mmd(X, Y, bandwidth=bandwidth, biased=biased, squared=True)
        assert isinstance(found, float) and found == pytest.approx(expected, rel=1e-12, abs=1e-15)
        root = mmd(X.tolist(), Y.tolist(), bandwidth=bandwidth, biased=biased)
        assert root == pytest.approx(math.sqrt(max(expected, 0.0)), rel=1e-12, abs=1e-15)
    one = mmd(X[:, 0], Y[:, 0], biased=biased, squared=True)
    assert one == mmd(X[:, :1], Y[:, :1], biased=biased, squared=True)


def expected_mmd2(shift, bandwidth):
    """Between N(0, 1) and N(shift, 1): E k is a normal density's ratio, as x - x' ~ N(·, 2)."""
    same = bandwidth / math.sqrt(bandwidth**2 + 2)
    return 2 * same * (1 - math.exp(-(shift**2) / (2 * (bandwidth**2 + 2)))), same


@pytest.mark.parametrize("shift", [0.0, 1.0])
def test_estimate_without_bias_has_none(shift):
    """Closed form.  Catches an estimate of MMD² that is cut off at 0, and the biased one for the other."""
    rng = np.random.default_rng(13)
    n, m, repeats = 6, 4, 500
    samples = [(rng.normal(size=n), rng.normal(shift, 1.0, size=m)) for _ in range(repeats)]
    expected, same = expected_mmd2(shift, 0.8)
    bias = (1 / n + 1 / m) * (1 - same)
    for biased, value in ((False, expected), (True, expected + bias)):
        found = np.array([mmd(X, Y, bandwidth=0.8, biased=biased, squared=True) for X, Y in samples])
        error = found.std() / math.sqrt(repeats)
        assert abs(found.mean() - value) <= stats.norm.isf(ALPHA / 2) * error
        assert bias > 2 * stats.norm.isf(ALPHA / 2) * error  # so the two cannot be taken for each other
        assert biased or found.min() < 0


def test_memory_is_that_of_a_block(monkeypatch):
    """Catches a full matrix of distances, and blocks that are lost, counted twice or cut differently."""
    rng = np.random.default_rng(15)
    X, Y = rng.normal(size=(2500, 2)), rng.normal(size=(3000, 2)) + 0.1
    within_x, within_y, between = (
        np.exp(-0.5 * cdist(*pair, "sqeuclidean")).mean() for pair in ((X, X), (Y, Y), (X, Y))
    )
    monkeypatch.setattr(_mmd, "WORKING_MEMORY", 1)
    tracemalloc.start()
    found = mmd(X, Y, bandwidth=1.0, biased=True, squared=True)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == pytest.approx(within_x + within_y - 2 * between, abs=1e-14)
    assert peak < 8e6 < len(X) * len(Y) * 8 / 5


def test_mmd_does_not_depend_on_the_frame():
    """Catches features that are treated apart, and differences that are lost far from 0, as in ‖x‖² + ‖y‖² - 2xy."""
    rng = np.random.default_rng(16)
    X, Y = rng.normal(size=(60, 3)), rng.normal(0.5, 1.0, size=(50, 3))
    X, Y = X.round(9), Y.round(9)
    expected = mmd(X, Y)
    turn = stats.special_ortho_group.rvs(3, random_state=rng)
    assert mmd(Y, X) == pytest.approx(expected, rel=1e-12)
    assert mmd(rng.permutation(X), Y) == pytest.approx(expected, rel=1e-12)
    assert mmd(X @ turn, Y @ turn) == pytest.approx(expected, rel=1e-12)
    assert mmd(1e-9 * X, 1e-9 * Y) == pytest.approx(expected, rel=1e-12)  # the median moves along
    # a shift by 2^23 rounds each coordinate by 2^-30, with differences of order 1
    assert mmd(X + 2.0**23, Y + 2.0**23) == pytest.approx(expected, rel=1e-7)
    assert abs(mmd(X * [1, 1, 5], Y * [1, 1, 5]) - expected) > 1e-3


def test_equal_samples_have_no_distance():
    """Catches the root of a rounding error, 1e-8, and NaN, the root of an estimate below 0."""
    X = np.random.default_rng(17).normal(size=(301, 2))
    assert mmd(X, X, biased=True) == mmd(X, X.copy(), biased=True, squared=True) == 0.0
    assert mmd(X, X) == 0.0 > mmd(X, X, squared=True)
    assert mmd([0.0], [1e6], bandwidth=1.0, biased=True, squared=True) == 2.0
    assert 0.0 <= mmd(X, X[::-1], biased=True) < 1e-7


def test_median_is_over_a_sample_of_many_points():
    """Catches a median that ignores n_median, the seed, or one of the samples."""
    rng = np.random.default_rng(18)
    X, Y = rng.normal(size=(300, 1)), rng.normal(100.0, 1.0, size=(700, 1))
    assert mmd(X, Y) == mmd(X, Y, n_median=1000, random_state=3) != mmd(X, Y, n_median=999, random_state=3)
    some = [mmd(X, Y, n_median=50, random_state=seed) for seed in (3, 3, 4)]
    assert some[0] == some[1] != some[2]
    for seed in range(60):  # a point drawn twice would have distance 0, which is refused
        assert mmd([0.0, 1.0], [3.0, 7.0], n_median=2, random_state=seed, biased=True) > 0
    # with as many of X as of Y, more than half of all distances are near 100; within either sample they are near 1
    assert mmd(X, Y[:300], squared=True) < 1.0 < mmd(X, Y[:300], bandwidth=1.0, squared=True)


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: mmd(np.ones((3, 2)), np.ones((3, 1))), r"X and Y must have the same features.*\(3, 2\).*\(3, 1\)"),
        (lambda: mmd(np.ones((3, 2)), np.ones(3)), r"X and Y must have the same features"),
        (lambda: mmd(np.ones((3, 2, 2)), np.ones(3)), r"X must have shape.*\(3, 2, 2\)"),
        (lambda: mmd(1.0, np.ones(3)), r"X must have shape.*\(\)"),
        (lambda: mmd(np.ones(3), np.ones((3, 0))), r"Y must have shape.*\(3, 0\)"),
        (lambda: mmd([1.0], [1.0, 2.0]), r"X must have at least 2 point.*biased=True"),
        (lambda: mmd([1.0], [], biased=True), r"Y must have at least 1 point"),
        (lambda: mmd([1.0, np.nan], [1.0, 2.0]), r"X must be finite, got nan"),
        (lambda: mmd([1.0, 2.0], [1.0, -np.inf]), r"Y must be finite, got -inf"),
        (lambda: mmd(["a", "b"], [1.0, 2.0]), r"X must be an array of numbers"),
        (lambda: mmd(["1", "2"], [1.0, 2.0]), r"X must be an array of numbers"),
        (lambda: mmd(np.ma.masked_equal([1.0, 2.0], 2.0), [1.0, 2.0]), r"X must be an array of numbers"),
        (lambda: mmd([1.0, 2.0], np.array([1, 2], "M8[s]")), r"Y must be an array of numbers"),
        (lambda: mmd([1.0, 2.0], np.array([1j, 2])), r"Y must be an array of numbers"),
        (lambda: mmd([1.0, 2.0], [1.0, 2.0], bandwidth=0), r"bandwidth must be.*bandwidth=0"),
        (lambda: mmd([1.0, 2.0], [1.0, 2.0], bandwidth=np.nan), r"bandwidth must be.*bandwidth=nan"),
        (lambda: mmd([1.0, 2.0], [1.0, 2.0], bandwidth="scott"), r"bandwidth must be 'median'.*'scott'"),
        (lambda: mmd([1.0, 2.0], [1.0, 2.0], bandwidth=[1.0, 2.0]), r"bandwidth must be.*\[1.0, 2.0\].*divide"),
        (lambda: mmd([1.0, 2.0], [1.0, 2.0], bandwidth=None), r"bandwidth must be.*None"),
        (lambda: mmd([0.0, 1e300], [1.0, 2.0], bandwidth=1e-10), r"bandwidth=1e-10 is too small"),
        (lambda: mmd([1.0, 1.0, 1.0], [1.0, 1.0, 2.0]), r"bandwidth='median' is 0 .*pass a number"),
        (lambda: mmd([1.0, 2.0], [1.0, 2.0], n_median=1), r"n_median must be an integer, 2 or more, got n_median=1"),
        (lambda: mmd([1.0, 2.0], [1.0, 2.0], random_state="x"), r"random_state must be"),
    ],
)
def test_bad_samples_are_named(call, message):
    """Catches broadcasting of a column, NaN in place of a distance, and a kernel of width 0."""
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        call()
