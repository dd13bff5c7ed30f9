"""Excursions over a node of which the walk knows nothing keep the prior; in plain Python (``test_measure_moves``)."""

from math import exp, pi, sqrt

import numpy as np
import pytest
from test_measure_moves import MOVES
from walks_of_the_prior import FIXED, RANDOM, breaks, chart_of, draw_walk, law_of_walks, p_value, plain

from sklearn_dpmix.samplers.mixture.measure import _excursions
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import (
    CONCENTRATION,
    LOG_LIKELIHOOD,
    N_ATOMS,
    N_DUST,
    N_RECORDS,
    at,
    row,
)
from sklearn_dpmix.samplers.mixture.measure._walk_draws import n_all, number
from sklearn_dpmix.samplers.mixture.measure._walk_likelihood import refresh
from sklearn_dpmix.samplers.mixture.measure._walk_state import Walk, new_state

__all__ = ["plain"]
HOME = N_ATOMS, N_DUST, CONCENTRATION


class Noised:
    """Normal densities with noise of variance 1/4 at one node."""

    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        variance, inner, d = 0.25 + exp(log_variance), exp(log_variance), nodes[0] - mean
        out[first] = density = exp(-0.5 * d * d / variance) / sqrt(2.0 * pi * variance)
        out[second] = density * d / variance
        out[second + n] = density * 0.5 * inner / variance * (d * d / variance - 1.0)


def excursion(rng, channel, chart, walk):
    """Four moves, and new small masses, over a node of three records, of which the walk knows nothing."""
    nodes, law = np.concatenate([np.full(chart.n_features, 0.5), [3.0]])[:, None], walk.law.copy()
    law[N_RECORDS] = 3.0
    few = Walk.of(
        new_state(walk.width - 1, walk.capacity), nodes, np.zeros((2 * chart.n_features, 1)), law, walk.masses
    )
    _excursions.set_out(walk, few)
    for k in range(n_all(few)):
        chart.fill(Noised(), few, number(few, k))
    refresh(few)
    for name in rng.choice(list(MOVES), 4):
        MOVES[name](rng, Noised(), chart, few)
    few.masses.renew(rng, Noised(), chart, few)
    getattr(_excursions.come_home, "py_func", _excursions.come_home)(Noised(), chart, walk, few, rng)
    return few


@pytest.mark.slow
@pytest.mark.parametrize(("n_features", "mixing"), [(1, RANDOM), (2, FIXED)], ids=str)
def test_excursions_keep_the_prior(n_features, mixing):
    assert p_value(excursion, n_features, mixing=mixing) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("twin", ["taken as they are", "accepted by all nodes alone"])
def test_what_excursions_need(monkeypatch, twin):
    """The look at all nodes, and the likelihood of the few by which they went."""
    if twin == "taken as they are":
        monkeypatch.setattr(_excursions, "accepts", lambda rng, ratio: True)
    else:
        as_after = lambda channel, chart, walk, few: few.law[LOG_LIKELIHOOD]  # noqa: E731
        monkeypatch.setattr(_excursions, "log_likelihood_before", as_after)
    assert breaks(excursion, n_moves=12)


def test_all_that_moved_comes_home(monkeypatch):
    """Atoms, dust and the concentration."""
    monkeypatch.setattr(_excursions, "accepts", lambda rng, ratio: True)
    rng, chart, n_moved = np.random.default_rng(3), chart_of(1), 0
    for _ in range(10):
        walk = draw_walk(rng, chart, RANDOM, *law_of_walks(chart, RANDOM))
        before = walk.law[CONCENTRATION]
        few = excursion(rng, Noised(), chart.value(), walk)
        n_moved += walk.law[CONCENTRATION] != before
        assert [walk.law[i] for i in HOME] == [few.law[i] for i in HOME]
        for k in range(n_all(few)):
            a = at(few, number(few, k))
            assert list(walk.atoms[a : a + walk.width]) == list(few.atoms[a : a + walk.width])
    assert n_moved > 5


def worst_table():
    """Largest error of a table, and of the mixture, after excursions."""
    rng, chart, worst = np.random.default_rng(2), chart_of(2), 0.0
    for _ in range(40):
        walk = draw_walk(rng, chart, FIXED, *law_of_walks(chart, FIXED))
        for k in range(n_all(walk)):
            chart.value().fill(Noised(), walk, number(walk, k))
        excursion(rng, Noised(), chart.value(), walk)
        mixture = 0.0
        for k in range(n_all(walk)):
            h, spare = number(walk, k), 3 * walk.capacity
            walk.atoms[at(walk, spare) :][: walk.width] = walk.atoms[at(walk, h) :][: walk.width]
            chart.value().fill(Noised(), walk, spare)
            mixture += walk.atoms[at(walk, h)] * walk.tables[row(walk, spare)]
            found, wanted = (walk.tables[row(walk, e) :][: walk.n_rows] for e in (h, spare))
            worst = max(worst, np.max(np.abs(found - wanted)))
        worst = max(worst, abs(mixture - walk.mix[0]))
    return worst


@pytest.mark.parametrize("is_taken", [True, False])
def test_tables_follow_atoms(monkeypatch, is_taken):
    """Of atoms that are new, or in another row, whether they stay or go back; left behind, they are wrong."""
    monkeypatch.setattr(_excursions, "accepts", lambda rng, ratio: is_taken)
    assert worst_table() < 1e-12
    if is_taken:
        monkeypatch.setattr(_excursions, "is_there", lambda walk, few, h: True)
    else:
        monkeypatch.setattr(_excursions, "is_used", lambda walk, h: False)
    assert worst_table() > 1e-3


def test_a_refused_excursion_leaves_all_as_it_was(monkeypatch):
    """Masses, places and the concentration; left where the excursion went, they are not."""

    def moved():
        rng, chart, largest = np.random.default_rng(4), chart_of(1), 0.0
        for _ in range(10):
            walk = draw_walk(rng, chart, RANDOM, *law_of_walks(chart, RANDOM))
            slots = [number(walk, k) for k in range(n_all(walk))]
            before = [walk.atoms[at(walk, h) :][: walk.width].copy() for h in slots]
            home = [walk.law[i] for i in HOME]
            excursion(rng, Noised(), chart.value(), walk)
            assert [walk.law[i] for i in HOME] == home
            for h, numbers in zip(slots, before, strict=True):
                largest = max(largest, np.max(np.abs(walk.atoms[at(walk, h) :][: walk.width] - numbers)))
        return largest

    monkeypatch.setattr(_excursions, "accepts", lambda rng, ratio: False)
    assert moved() == 0.0
    monkeypatch.setattr(_excursions, "go_back", lambda channel, chart, walk, few: None)
    assert moved() > 0.01
