"""Private quantiles: the law, the privacy loss over neighbours, and what goes in."""

import numpy as np
import pytest
from scipy import stats

from sklearn_dpmix.queries import private_bounds, private_quantile
from sklearn_dpmix.queries._private_bounds import _interval_probabilities

GRID = np.linspace(0.005, 9.995, 500)


def log_density(x, q, epsilon, points=GRID):
    """Log density of the mechanism's answer at points, from the definition and by a sum over a fine grid."""
    fine = np.linspace(0.0, 10.0, 400_001)
    fine = 0.5 * (fine[1:] + fine[:-1])

    def score(t):
        return -0.5 * epsilon * np.abs((np.clip(x, 0, 10)[:, None] < t).sum(axis=0) - q * len(x))

    values = np.concatenate([score(part) for part in np.array_split(fine, 100)])
    return score(points) - np.log(np.mean(np.exp(values)) * 10.0)


def test_the_answer_has_the_density_that_is_stated():
    """Catches an interval without its length, or a rank that is off by one."""
    x, rng = np.array([2.0, 2.5, 2.5, 7.0, 12.0]), np.random.default_rng(0)
    draws = [private_quantile(x, 0.4, 1.5, (0, 10), random_state=rng)[0] for _ in range(20_000)]
    edges = np.array([0.0, 1.0, 2.0, 2.2, 2.5, 4.0, 7.0, 9.0, 10.0])
    centres = 0.5 * (edges[1:] + edges[:-1])  # the density is flat between records
    probability = np.exp(log_density(x, 0.4, 1.5, centres)) * np.diff(edges)
    probability /= probability.sum()
    counts = np.histogram(draws, edges)[0]
    assert stats.chisquare(counts, probability * len(draws)).pvalue > 1e-6
    shifted = np.roll(probability, 1)
    assert stats.chisquare(counts, shifted * len(draws)).pvalue < 1e-6


@pytest.mark.parametrize("q", [0.0, 0.3, 0.5, 1.0])
def test_no_neighbour_changes_the_density_by_more_than_e_to_the_epsilon(q):
    rng, epsilon, worst = np.random.default_rng(1), 1.2, 0.0
    for _ in range(40):
        x = rng.uniform(0, 10, size=6)
        edges, probability = _interval_probabilities(x, q, epsilon, (0, 10))
        y = x.copy()
        y[rng.integers(6)] = rng.choice([0.0, 10.0, rng.uniform(0, 10)])
        others, other = _interval_probabilities(y, q, epsilon, (0, 10))

        def density(edges, probability):
            k = np.searchsorted(edges, GRID) - 1
            return np.log(probability[k] / np.diff(edges)[k])

        worst = max(worst, np.abs(density(edges, probability) - density(others, other)).max())
    assert 0.3 * epsilon < worst <= epsilon * (1 + 1e-9)


def test_bounds_hold_about_what_they_should_and_say_what_they_spend():
    x = np.random.default_rng(2).normal(size=20_000)
    (lo, hi), guarantee = private_bounds(x, 2.0, (-100, 100), coverage=0.9, random_state=3)
    assert abs(np.mean((x >= lo) & (x <= hi)) - 0.9) < 0.005
    assert guarantee.epsilon == 2.0 and guarantee.delta == 0.0


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"x": [1.0, np.nan]}, "x must be finite"),
        ({"x": []}, "x must be finite"),
        ({"x": [[1.0], [2.0]]}, r"at least one, got shape \(2, 1\)"),
        ({"q": 1.5}, "q must be between 0 and 1, got q=1.5"),
        ({"epsilon": 0.0}, "epsilon must be positive"),
        ({"bounds": (1, 0)}, "bounds must be finite with lo < hi"),
    ],
)
def test_bad_input_is_named(params, message):
    with pytest.raises(ValueError, match=message):
        private_quantile(**{"x": [1.0, 2.0], "q": 0.5, "epsilon": 1.0, "bounds": (0, 1), **params})


def test_coverage_is_checked():
    with pytest.raises(ValueError, match="coverage must be between 0 and 1, got coverage=1"):
        private_bounds([1.0], 1.0, (0, 1), coverage=1)
