"""Log densities at many points: against those computed themselves, for densities that polynomials are poor at."""

import numpy as np
import pytest
from scipy import stats

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._posterior.many_points import MANY, by_polynomials, edges_around, log_density_at
from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism, HybridMechanism, LaplaceMechanism

MEAN, SD = np.array([0.0, 30.0, 110.234]), np.array([20.0, 1.0, 0.001])
ATOMS = MEAN, SD**2
GRID = np.linspace(-100.0, 150.0, 200_000)


def smooth(x):
    return np.log(stats.norm.pdf(x[:, None], MEAN, SD).mean(axis=1))


def kinked(x):
    return np.logaddexp(-np.abs(x - 12.3), smooth(x))


def bounded(x):
    with np.errstate(divide="ignore"):
        return np.where((x > -70.0) & (x < 81.0), smooth(x), -np.inf) + np.log(np.clip((x + 70.0) / 151.0, 0.0, 1.0))


class Counted:
    """A function that knows at how many points it was computed."""

    def __init__(self, function):
        self.function, self.n = function, 0

    def __call__(self, x):
        assert len(x)
        self.n += len(x)
        return self.function(x)


@pytest.mark.parametrize("function", [smooth, kinked])
def test_polynomials_are_the_density(function):
    """Catches a cell that is taken too soon, points of a neighbour's polynomial, and work that grows with points."""
    counted = Counted(function)
    found = log_density_at(GRID, counted, ATOMS)
    assert np.abs(found - function(GRID)).max() < 1e-6
    assert counted.n < 8000


def test_a_density_that_ends_is_zero_beyond():
    x = GRID[::4]
    found, right = log_density_at(x, bounded, ATOMS), bounded(x)
    is_zero = np.isneginf(right)
    np.testing.assert_array_equal(is_zero, np.isneginf(found))
    assert np.abs(found[~is_zero] - right[~is_zero]).max() < 1e-6


def test_a_peak_is_overlooked_without_the_cells_around_atoms():
    """The twin: what these cells are for."""
    x = np.sort(np.append(GRID[::3], MEAN[2]))
    errors = [np.abs(by_polynomials(x, smooth, edges) - smooth(x)) for edges in (edges_around(*ATOMS), np.empty(0))]
    assert errors[0].max() < 1e-6 and errors[1][x == MEAN[2]] > 1.0


def test_a_cell_without_points_is_not_computed():
    """Catches a density asked for at no point: around an atom between two points, where no other cell has few."""
    atoms = np.array([0.0, 0.5 * (GRID[1000] + GRID[1001])]), np.array([400.0, 1e-18])
    broad = Counted(stats.norm(0.0, 20.0).logpdf)
    assert np.abs(log_density_at(GRID, broad, atoms) - broad.function(GRID)).max() < 1e-6


def test_a_number_that_occurs_often_is_computed_itself():
    x = np.append(GRID[::10], np.full(200, 5.0))
    found = log_density_at(x, lambda x: np.where(x == 5.0, -3.0, smooth(x)), ATOMS)
    assert np.all(found[-200:] == -3.0) and abs(found[len(x) // 2] - smooth(x[[len(x) // 2]])[0]) < 1e-6


def test_few_points_are_computed_themselves_in_their_order():
    x = np.random.default_rng(0).permutation(GRID[:MANY:7])
    np.testing.assert_array_equal(log_density_at(x, smooth, ATOMS), smooth(x))


@pytest.mark.parametrize(
    "mechanism",
    [
        LaplaceMechanism(epsilon=5.0, bounds=(0.0, 10.0)),
        HybridMechanism(epsilon=2.0, bounds=(0.0, 10.0)),
        DiscreteLaplaceMechanism(epsilon=0.0002, bounds=(0.0, 10.0)),
    ],
    ids=lambda mechanism: type(mechanism).__name__,
)
def test_scores_of_many_are_those_of_parts(mechanism):
    """Catches releases between the values of a discrete mechanism, and a coin's two answers."""
    records = np.round(10.0 * np.random.default_rng(1).beta(2.0, 4.0, (2 * MANY, 1)))
    Z = mechanism.privatize(records, random_state=2)
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=20, n_draws=20, random_state=0)
    with pytest.warns(RuntimeWarning, match="not mixed"):
        model.fit(Z[:100])
    assert len(np.unique(Z)) > MANY
    parts = [model.score_release(part) for part in np.split(Z, 2)]
    assert model.score_release(Z) == pytest.approx(np.mean(parts), rel=1e-8)
    X = np.random.default_rng(3).uniform(0.0, 10.0, (2 * MANY, 1))
    parts = np.concatenate([model.score_samples(part) for part in np.split(X, 2)])
    np.testing.assert_allclose(model.score_samples(X), parts, rtol=0.0, atol=1e-6)
