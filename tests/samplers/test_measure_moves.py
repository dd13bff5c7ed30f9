"""Each move of the walk over mixing measures keeps the prior: without records, draws of the prior stay such draws.

In plain Python, so that a broken twin is one function in place of another.
"""

from math import log

import numpy as np
import pytest
from walks_of_the_prior import (
    CATEGORIES,
    CORRELATED,
    CUT_AT,
    FINITE,
    FIXED,
    MANY,
    POWER_LAW,
    RANDOM,
    breaks,
    p_value,
    plain,
    plus,
)

from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.samplers.mixture.measure import (
    _categorical_atoms,
    _correlated_splits,
    _dirichlet_masses,
    _finite_masses,
    _many_categories,
    _masses,
    _parts,
    _pitman_yor_masses,
    _slides,
    _small_masses,
    _splits,
    _steps,
    _threshold_walk,
    _walk_atoms,
)
from sklearn_dpmix.samplers.mixture.measure._normal_atoms import NormalChart, step_neighbours
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import N_ATOMS

__all__ = ["plain"]

MOVES = {
    "move_mass": lambda rng, channel, chart, walk: _masses.move_mass(rng, walk),
    "change_mass": lambda rng, channel, chart, walk: _masses.change_mass(rng, walk),
    "bear_or_kill": lambda rng, channel, chart, walk: _masses.bear_or_kill(rng, channel, chart, walk),
    "split_or_merge": _splits.split_or_merge,
    "part_or_join": lambda rng, channel, chart, walk: _parts.part_or_join(rng, channel, chart, walk),
    "step_one": lambda rng, channel, chart, walk: _steps.step_one(rng, channel, chart, walk),
    "step_neighbours": lambda rng, channel, chart, walk: step_neighbours(rng, channel, chart, walk),
    "slide": lambda rng, channel, chart, walk: _slides.slide(rng, channel, chart, walk),
    "rescale": lambda rng, channel, chart, walk: _slides.rescale(rng, channel, chart, walk),
    "weigh": lambda rng, channel, chart, walk: _threshold_walk.weigh(rng, channel, chart, walk),
}


OF_PLACES = [name for name in MOVES if name not in ("move_mass", "change_mass")]


#: of any kernel
OF_CHARTS = {
    "bear_or_kill": MOVES["bear_or_kill"],
    "part_or_join": MOVES["part_or_join"],
    "step_one": MOVES["step_one"],
    "a step of two": lambda rng, channel, chart, walk: chart.step(rng, channel, walk),
    "parts": lambda rng, channel, chart, walk: chart.split(rng, channel, walk),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_CHARTS)
def test_moves_of_categories_keep_the_prior(name):
    assert p_value(OF_CHARTS[name], CATEGORIES) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("features", CORRELATED)
def test_splits_of_correlated_atoms_keep_the_prior(features):
    assert p_value(OF_CHARTS["parts"], features, n_moves=12) > 1e-6


#: Splits of correlated atoms with one term forgotten, or changed.
CORRELATED_TWINS = {
    "the volume of covariances": (_correlated_splits, "log_volume", lambda chart, walk, a: -walk.atoms[a + 2]),
    "the inner determinant": (
        _correlated_splits,
        "log_split_ratio",
        lambda share, shift, root, inner, *rest: -np.log(np.diag(inner)).sum(),
    ),
    "the law of a shift": (_correlated_splits, "log_shift", lambda shift, d: log(shift)),
    "the law of a spread": (
        _correlated_splits,
        "log_spread",
        lambda log_first, log_second, share, d: 0.6 * log_first,
    ),
    "the chance of a pair": (_splits, "log_pair", lambda chart, walk, i, j, n: 1.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("twin", CORRELATED_TWINS)
def test_broken_splits_of_correlated_atoms_do_not(twin, monkeypatch):
    module, function, change = CORRELATED_TWINS[twin]
    monkeypatch.setattr(module, function, plus(getattr(module, function), change))
    assert breaks(OF_CHARTS["parts"], "two correlated", n_moves=12)


def of_masses(move, n_times=4):
    """The move of the masses M_c of the first two atoms, where there are two, some times."""

    def moved(rng, channel, chart, walk):
        a, b = (_walk_atoms.at(walk, 2 * walk.capacity + i) for i in (0, 1))
        if walk.law[N_ATOMS] < 2.0:
            return
        for k, to in enumerate((a, b)):
            _many_categories.take_masses(walk, k, to, chart.kernel.size)
        for _ in range(n_times):
            c = int(8 * rng.random())
            move(rng, chart, walk, a, b, c, (c + 1 + int(7 * rng.random())) % 8)
        for k, of in enumerate((a, b)):
            _many_categories.give_back(channel, chart, walk, k, of)

    return moved


#: of one question with many categories
OF_MANY = OF_CHARTS | {
    "along": of_masses(lambda rng, chart, walk, a, b, c, e: _many_categories.go_along(rng, chart, walk, a, c % 7)),
    "between": of_masses(lambda rng, chart, walk, a, b, c, e: _many_categories.go_between(rng, chart, walk, a, c, e)),
    "odds": of_masses(lambda rng, chart, walk, a, b, c, e: _many_categories.change_odds(rng, chart, walk, a, c, e)),
    "swap": of_masses(lambda rng, chart, walk, a, b, c, e: _many_categories.swap(rng, chart, walk, a, b, c, e)),
    "pour": of_masses(lambda rng, chart, walk, a, b, c, e: _many_categories.pour(rng, chart, walk, a, b, CUT_AT)),
    "a step of two and births": lambda *parts: (
        OF_CHARTS["a step of two"](*parts),
        OF_CHARTS["bear_or_kill"](*parts),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mixing", [FIXED, FINITE[0]], ids=str)
@pytest.mark.parametrize("name", OF_MANY)
def test_moves_of_many_categories_keep_the_prior(name, mixing):
    assert p_value(OF_MANY[name], MANY, mixing=mixing) > 1e-6


# The twins' numbers of moves are those after which they are seen with ease.

#: Moves of the shares of many categories with one term forgotten.
MANY_TWINS = {
    "the mass of an atom that is poured into": (
        "a step of two",
        32,
        "log_volume",
        lambda chart, ratio: 8.0 * log(ratio),
    ),
    "the prior of a swap": ("swap", 6, "log_power", lambda chart, new, old: -0.7 * log(new / old)),
    "the prior along an axis": ("along", 6, "log_power", lambda chart, new, old: -0.7 * log(new / old)),
    "the prior between two": ("between", 6, "log_power", lambda chart, new, old: -0.7 * log(new / old)),
    "the odds of two categories": ("odds", 24, "log_of_odds", lambda chart, new, old: -log(new / old)),
}


@pytest.mark.slow
@pytest.mark.parametrize("twin", MANY_TWINS)
def test_broken_moves_of_many_categories_do_not(twin, monkeypatch):
    name, n_moves, function, change = MANY_TWINS[twin]
    where = _many_categories.ManyCategoriesChart if function == "log_volume" else _many_categories
    monkeypatch.setattr(where, function, plus(getattr(where, function), change))
    assert breaks(OF_MANY[name], MANY, n_moves=n_moves)


@pytest.mark.slow
def test_parts_of_categories_need_their_jacobian(monkeypatch):
    broken = plus(_categorical_atoms.log_rest, lambda chart, walk, whole, rest, both, mass: -4.0 * log(both / mass))
    monkeypatch.setattr(_categorical_atoms, "log_rest", broken)
    assert breaks(OF_CHARTS["parts"], CATEGORIES, n_moves=12)


@pytest.fixture(autouse=True)
def some_appear(monkeypatch):
    """As if shares of atoms appeared that depend on where they are: weights then go along with places."""
    monkeypatch.setattr(_threshold_walk, "log_appears", lambda walk, k: 0.5 * walk.atoms[_walk_atoms.at(walk, k) + 2])


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_features"), [*((name, 1) for name in MOVES), *((name, 2) for name in OF_PLACES)])
def test_moves_keep_the_prior(name, n_features):
    assert p_value(MOVES[name], n_features) > 1e-6


def renew(rng, channel, chart, walk):
    walk.masses.renew(rng, channel, chart, walk)


@pytest.mark.slow
def test_concentration_and_dust_keep_the_prior():
    assert p_value(renew, mixing=RANDOM, n_moves=1) > 1e-6


#: what masses have a part in
OF_MASSES = {name: move for name, move in MOVES.items() if name not in ("slide", "rescale")} | {
    "renew": renew,
    "step_neighbours and renew": lambda rng, channel, chart, walk: (
        step_neighbours(rng, channel, chart, walk),
        renew(rng, channel, chart, walk),
    ),
    "bear_or_kill and renew": lambda rng, channel, chart, walk: (
        _masses.bear_or_kill(rng, channel, chart, walk),
        renew(rng, channel, chart, walk),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("mixing", FINITE, ids=str)
@pytest.mark.parametrize("name", OF_MASSES)
def test_moves_keep_the_prior_of_finite_mixtures(name, mixing):
    assert p_value(OF_MASSES[name], mixing=mixing) > 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("name", ["move_mass", "change_mass", "bear_or_kill", "part_or_join", "step_one", "renew"])
def test_moves_keep_the_prior_of_a_power_law(name):
    assert p_value(OF_MASSES[name], mixing=POWER_LAW) > 1e-6


#: Masses of a power law with one term forgotten, or another law of the dust.
POWER_LAW_TWINS = {
    "the intensity": ("bear_or_kill", 20, "log_growth", lambda masses, walk, n: 0.5),
    "the shape of a mass": ("change_mass", 32, "log_ratio", lambda masses, new, old: 0.6 * log(new / old)),
    "the time's prior": ("renew", 1, "above", lambda masses, walk, top: 8.0),
    "the dust's intensity": ("renew", 1, "rate", lambda masses, top, reach: 2.0),
    "the masses above a place": (
        "renew",
        1,
        "log_given_above",
        lambda masses, walk, time, top: -0.3 * _walk_atoms.n_above(walk, top) * log(time),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("twin", POWER_LAW_TWINS)
def test_broken_moves_of_a_power_law_do_not(twin, monkeypatch):
    name, n_moves, method, change = POWER_LAW_TWINS[twin]
    kind = _pitman_yor_masses.PitmanYorMasses
    monkeypatch.setattr(kind, method, plus(getattr(kind, method), change))
    assert breaks(OF_MASSES[name], mixing=POWER_LAW, n_moves=n_moves)


@pytest.mark.slow
def test_moves_of_categories_keep_the_prior_of_finite_mixtures():
    assert p_value(OF_CHARTS["parts"], CATEGORIES, mixing=FINITE[0]) > 1e-6


#: Finite masses with one term forgotten.
FINITE_TWINS = {
    "the number of orders": ("bear_or_kill", 6, "log_growth", lambda masses, walk, n: -log(n + 1.0)),
    "the power of the total": ("bear_or_kill", 12, "power", lambda masses, walk, n: masses.gamma * n),
    "the shape of a mass": ("change_mass", 36, "log_ratio", lambda masses, new, old: 0.6 * log(old / new)),
    "the shape of a step's mass": ("step_one", 24, "log_ratio", lambda masses, new, old: 0.6 * log(old / new)),
    "the shape of weights": ("weigh", 24, "log_ratio", lambda masses, new, old: 0.6 * log(old / new)),
    "the growth of a split": ("split_or_merge", 24, "log_growth", lambda masses, walk, n: 0.5),
    "the growth of a part": ("part_or_join", 12, "log_growth", lambda masses, walk, n: 0.5),
    "those below the cut": ("renew", 6, "log_growth", lambda masses, walk, n: -2.0),
}


@pytest.mark.slow
@pytest.mark.parametrize("twin", FINITE_TWINS)
def test_broken_moves_of_finite_mixtures_do_not(twin, monkeypatch):
    name, n_moves, method, change = FINITE_TWINS[twin]
    broken = plus(getattr(_finite_masses.FiniteMasses, method), change)
    monkeypatch.setattr(_finite_masses.FiniteMasses, method, broken)
    assert breaks(OF_MASSES[name], mixing=FINITE[0], n_moves=n_moves)


#: A move, and a function that it calls, with one term forgotten.
TWINS = {
    "the Jacobian of a split": (
        "split_or_merge",
        6,
        _splits,
        "log_share_ratio",
        lambda share: log(share * (1 - share)),
    ),
    "the chance of a pair": ("split_or_merge", 12, _splits, "log_pair", lambda chart, walk, i, j, n: 1.0),
    "the Jacobian of a slide": ("slide", 6, _slides, "log_jacobian", lambda n, spread: -(n - 1.0) * spread),
    "how many atoms may be split": ("split_or_merge", 16, _splits, "n_above", lambda walk, least: 3.0),
    "the way back of a weight": ("weigh", 6, _threshold_walk, "log_appears", lambda walk, k: 0.5 * (k > 60)),
    "the prior of a place that is weighed": ("weigh", 6, NormalChart, "log_base", lambda chart, walk, k: log(1 + k)),
    "the Jacobian of a rescaling": ("rescale", 24, _slides, "log_rescaling", lambda size: -size),
    "the density of a part": ("part_or_join", 6, _parts, "log_far_density", lambda chart, walk, k, h: 1.0),
    "the tilt of the total": (
        "bear_or_kill",
        6,
        _masses,
        "log_tilt",
        lambda walk, n, total: -20.0 * log(total) + 20.0 * total,
    ),
    "the prior of a step": (
        "step_one",
        6,
        NormalChart,
        "log_base",
        lambda chart, walk, k: 2.0 * walk.atoms[3 * k + 2],
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("twin", TWINS)
def test_broken_moves_do_not(twin, monkeypatch):
    name, n_moves, module, function, change = TWINS[twin]
    monkeypatch.setattr(module, function, plus(getattr(module, function), change))
    assert breaks(MOVES[name], n_moves=n_moves)


#: What a step of the concentration calls, with other numbers.
RANDOM_TWINS = {
    "how many masses come": (_small_masses, "draw_poisson", lambda draw: lambda rng, rate: draw(rng, 1.3 * rate)),
    "which are counted": (_dirichlet_masses, "n_above", lambda n: lambda walk, top: walk.law[N_ATOMS]),
    "how large those are that come": (
        _dirichlet_masses.DirichletMasses,
        "draw_below",
        lambda draw: compiled(lambda masses, rng, walk, top, reach: top * rng.random()),
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("twin", RANDOM_TWINS)
def test_broken_steps_of_the_concentration_do_not(twin, monkeypatch):
    module, function, change = RANDOM_TWINS[twin]
    monkeypatch.setattr(module, function, change(getattr(module, function)))
    assert breaks(renew, mixing=RANDOM, n_moves=1)
