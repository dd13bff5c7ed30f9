"""Distances between densities on a grid, against closed forms."""

import re

import numpy as np
import pytest
from scipy.stats import norm

from sklearn_dpmix.metrics import hellinger_distance, integrated_squared_error

GRID = np.linspace(-40.0, 40.0, 4001)  # the trapezoid rule is exact to rounding for normals of sd 0.5 and more here
UNEVEN = np.sinh(np.linspace(-6.0, 6.0, 4001)) / 5.0  # to ±40, steps from 6e-4 to 0.12


def normals(m, s, n, t):
    """Closed form: 1 - ∫√(pq) = 1 - √(2st/(s² + t²)) exp(-(m - n)²/(4(s² + t²)))."""
    return np.sqrt(1.0 - np.sqrt(2 * s * t / (s * s + t * t)) * np.exp(-((m - n) ** 2) / (4 * (s * s + t * t))))


@pytest.mark.parametrize("m, s, n, t", [(0, 1, 1, 1), (-2, 0.5, 1, 3), (0, 1, 0, 2), (0, 1, 1e-3, 1)])
def test_hellinger_of_two_normals(m, s, n, t):
    """Catches a missing root, the factor 1/2, and, for close densities, the digits that 1 - ∫√(pq) loses."""
    p, q, expected = norm.pdf(GRID, m, s), norm.pdf(GRID, n, t), normals(m, s, n, t)
    # the closed form itself loses digits: rounding in 1 - x is eps, in its root eps / (2 root)
    tolerance = 1e-12 + np.finfo(float).eps / expected
    assert hellinger_distance(p, q, GRID) == pytest.approx(expected, abs=tolerance)
    assert hellinger_distance(q, p, GRID) == hellinger_distance(p, q, GRID)
    assert isinstance(hellinger_distance(p, q), float)


def test_hellinger_on_an_uneven_grid():
    """Catches a rule that takes the steps as equal: the composite trapezoid error is at most Σ step³ max|g''|/12."""
    p, q = norm.pdf(UNEVEN), norm.pdf(UNEVEN, 1.0, 2.0)
    step = np.diff(UNEVEN)
    bend = np.abs(np.gradient(np.gradient((np.sqrt(p) - np.sqrt(q)) ** 2, UNEVEN), UNEVEN))
    error = np.sum(step**3 * np.maximum(bend[1:], bend[:-1])) / 12
    expected = normals(0, 1, 1, 2)
    tolerance = 3 * error / expected  # of a root, with the two normalisations
    assert tolerance < 1e-3
    assert hellinger_distance(p, q, UNEVEN) == pytest.approx(expected, abs=tolerance)
    assert abs(hellinger_distance(p, q) - expected) > 10 * tolerance  # the broken twin


def test_equal_is_zero_and_disjoint_is_one():
    """Catches √ of a rounding error: 1e-8 in place of 0, or a distance beyond 1."""
    p = norm.pdf(GRID)
    assert hellinger_distance(p, p, GRID) == 0.0
    left, right = np.where(GRID < -1, p, 0.0), np.where(GRID > 1, p, 0.0)
    assert hellinger_distance(left, right, GRID) == pytest.approx(1.0, abs=1e-15)
    assert hellinger_distance(left, right, GRID) <= 1.0


def test_constants_do_not_matter():
    """Catches a density that is not normalised, and one whose integral leaves the range of floats."""
    p, q = norm.pdf(GRID), norm.pdf(GRID, 1, 2)
    expected = hellinger_distance(p, q, GRID)
    for factor in (3.0, 1e-200, 1e300):
        assert hellinger_distance(factor * p, q, GRID) == pytest.approx(expected, rel=1e-12)
    assert hellinger_distance(p, q) == pytest.approx(expected, rel=1e-12)  # nor does the spacing


def test_leading_axes_are_draws():
    """Catches an integral over the wrong axis, and normalisation over all draws at once."""
    means, sds = np.array([[0.0, 1.0, -2.0], [0.5, 3.0, 0.0]]), np.array([[1.0, 2.0, 0.5], [1.0, 1.0, 3.0]])
    draws, q = norm.pdf(GRID, means[..., None], sds[..., None]), norm.pdf(GRID, 1.0, 1.5)
    distances, errors = hellinger_distance(draws, q, GRID), integrated_squared_error(draws, q, GRID)
    assert distances.shape == errors.shape == (2, 3)
    for i in np.ndindex(2, 3):
        assert distances[i] == pytest.approx(normals(means[i], sds[i], 1.0, 1.5), abs=1e-12)
        assert errors[i] == integrated_squared_error(draws[i], q, GRID)
    np.testing.assert_array_equal(hellinger_distance(q, draws, GRID.tolist()), distances)


def test_integrated_squared_error_of_two_normals():
    """Closed form from ∫N(x|m,s²)N(x|n,t²)dx = N(m|n,s²+t²); catches a root, a missing cross term, normalisation."""
    p, q = norm.pdf(GRID, 0, 1), norm.pdf(GRID, 1, 2)
    expected = norm.pdf(0, 0, np.sqrt(2)) + norm.pdf(0, 0, np.sqrt(8)) - 2 * norm.pdf(0, 1, np.sqrt(5))
    assert integrated_squared_error(p, q, GRID) == pytest.approx(expected, rel=1e-11)
    assert integrated_squared_error(-2 * p, -2 * q, GRID) == pytest.approx(4 * expected, rel=1e-11)


FIVE = np.linspace(0.0, 1.0, 5)


@pytest.mark.parametrize(
    "p, q, grid, message",
    [
        (np.ones(5), np.ones(4), None, r"same points.*\(5,\).*\(4,\)"),
        (np.ones(5), np.ones((3, 1)), None, r"q must have shape.*at least 2 points.*\(3, 1\)"),
        (np.ones((2, 5)), np.ones((3, 5)), None, r"leading axes that broadcast.*\(2, 5\).*\(3, 5\)"),
        (1.0, np.ones(5), None, r"p must have shape"),
        (["a", "b"], np.ones(2), None, r"p must be an array of numbers"),
        (np.ones(5), [1, 1, np.nan, 1, 1], None, r"q must be finite, got nan"),
        (
            np.log(FIVE + 0.0 ** np.arange(5)),
            np.array([-np.inf] + 4 * [1.0]),
            None,
            r"q must be finite.*not their logs",
        ),
        (np.ones(5), FIVE - 0.5, None, r"q must be at least 0, got -0.5"),
        (np.zeros(5), np.ones(5), None, r"p is 0 at each point"),
        (np.ones((2, 5)), [[1, 1, 1, 1, 1], [0, 0, 0, 0, 0]], None, r"q is 0 at each point.*one row"),
        (np.ones(5), np.ones(5), FIVE[:4], r"grid must have shape \(5,\).*\(4,\)"),
        (np.ones(5), np.ones(5), FIVE[::-1], r"grid must be finite and increasing"),
        (np.ones(5), np.ones(5), [0, 1, 1, 2, 3], r"without ties"),
        (np.ones(5), np.ones(5), [0, 1, 2, 3, np.inf], r"grid must be finite"),
        (np.ones(5), np.ones(5), list("abcde"), r"grid must be an array of numbers"),
    ],
)
def test_bad_input_is_named(p, q, grid, message):
    """Catches silent broadcasting of a wrong axis, NaN in place of a distance, and a message without the parameter."""
    with pytest.raises(ValueError, match=re.compile(message, re.DOTALL)):
        hellinger_distance(p, q, grid)


def test_the_error_needs_a_grid():
    """Catches a spacing of 1 taken for granted where it matters."""
    with pytest.raises(ValueError, match="grid=None"):
        integrated_squared_error(np.ones(5), np.ones(5), None)
