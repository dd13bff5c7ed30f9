"""Proposals that leave next to nothing of a density: it is made anew, unless they are hopeless in any case."""

from types import SimpleNamespace

import numpy as np
import pytest
from walks_of_the_prior import plain

from sklearn_dpmix.samplers.mixture.measure import _masses, _walk_likelihood
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import CUT, N_ATOMS, N_RECORDS, OUTSIDE_B, PER_FEATURE, TOTAL

__all__ = ["plain"]

N_NODES = 12


def without_the_largest(rng):
    """A walk of three atoms whose first one is to go: at some nodes the others have a share of 1e-12 to 1e-25."""
    table = rng.gamma(1.0, 1.0, (3, N_NODES))
    table[1:] *= 10.0 ** np.where(rng.random(N_NODES) < 0.4, rng.uniform(-25.0, -12.0, N_NODES), 0.0)
    mass, law, weights = np.array([0.5, 0.3, 0.2]), np.zeros(OUTSIDE_B + 1), rng.gamma(2.0, 1.0, N_NODES)
    law[N_ATOMS], law[TOTAL], law[N_RECORDS] = 3.0, 1.0, weights.sum()
    mix = mass @ table
    fields = {"law": law, "atoms": mass, "tables": table.ravel(), "mix": mix, "outside": np.zeros(N_NODES)}
    fields |= {"trial": mix - mass[0] * table[0], "weights": weights, "n_nodes": N_NODES, "n_rows": 1, "width": 1}
    return SimpleNamespace(**fields, capacity=4, is_lost=lambda density: False), mass[1:] @ table[1:]


def judged(walk, level):
    return _walk_likelihood.with_digits(walk, np.nan, -0.5, 0, 0.0, 0, 0.0, 0, 0.5, level)


@pytest.mark.parametrize("seed", range(20))
def test_what_is_called_hopeless_is(seed):
    """Catches a bound that some proposals exceed: they would be turned down though the level is below them."""
    walk, density = without_the_largest(np.random.default_rng(seed))
    most = _walk_likelihood.most_likely(walk, 0.5)
    exact = walk.weights @ np.log(density) - walk.law[N_RECORDS] * np.log(0.5)
    assert judged(walk, np.nextafter(most, np.inf)) == -1e300
    assert judged(walk, exact - 1e-6) == pytest.approx(exact, rel=1e-12)
    assert most > exact


def test_without_room_for_lost_digits_it_would_not_be(monkeypatch):
    """The broken twin: what subtraction left, taken for the density."""
    monkeypatch.setattr(_walk_likelihood, "FAR", 0.0)
    found = []
    for seed in range(20):
        walk, density = without_the_largest(np.random.default_rng(seed))
        exact = walk.weights @ np.log(density) - walk.law[N_RECORDS] * np.log(0.5)
        found.append(_walk_likelihood.most_likely(walk, 0.5) > exact)
    assert not all(found)


def two_atoms(large, small):
    """A walk of two atoms, of which only the small one has a density at the only node, and the data say nothing."""
    law = np.zeros(PER_FEATURE)
    law[N_ATOMS], law[TOTAL], law[CUT] = 2.0, large + small, 1e-7
    masses = SimpleNamespace(log_ratio=lambda new, old: 0.0)
    fields = {name: np.zeros(1) for name in ("weights", "outside", "trial")}
    fields |= {"law": law, "atoms": np.array([large, small]), "tables": np.array([0.0, 1.0]), "mix": np.array([small])}
    fields |= {"most": np.array([small]), "width": 1, "n_rows": 1, "n_nodes": 1, "capacity": 2, "masses": masses}
    return SimpleNamespace(**fields, is_lost=lambda density: False, judged=lambda value, *proposal: value)


def error_of_a_small_mass():
    """Largest relative error of the sum where mass went from a large atom to a small one, or back."""
    errors = []
    for seed in range(200):
        walk = two_atoms(0.5, 1e-5)
        _masses.move_mass(np.random.default_rng(seed), walk)
        if 1e-6 < walk.atoms[1] < 1e-4:
            errors.append(abs(walk.mix[0] / walk.atoms[1] - 1.0))
    assert len(errors) > 100
    return max(errors)


def test_small_masses_keep_their_digits(monkeypatch):
    """Such a mass is a difference, with the large one's rounding, which the sum must get, too.

    The twin adds what the large atom lost: what was left when a small one had gone was then more than rounding, and
    chains lost the only atom near some records.
    """
    assert error_of_a_small_mass() < 1e-14
    try_three = _masses.try_three
    monkeypatch.setattr(_masses, "try_three", lambda walk, c, j, other, *more: try_three(walk, c, j, -c, *more))
    assert error_of_a_small_mass() > 1e-13
