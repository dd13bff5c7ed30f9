"""Each move of the walk over mixing measures keeps the prior: without records, draws of the prior stay such draws.

In plain Python, so that a broken twin is one function in place of another.
"""

import sys
from functools import cache
from math import gamma, log
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ks_2samp

from sklearn_dpmix._base.compiled import _Helper, compiled
from sklearn_dpmix.kernels import CategoricalKernel, NormalKernel
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers.mixture.measure import (
    _categorical_atoms,
    _dirichlet_masses,
    _finite_masses,
    _many_categories,
    _masses,
    _parts,
    _pitman_yor_masses,
    _slides,
    _splits,
    _steps,
    _walk_state,
)
from sklearn_dpmix.samplers.mixture.measure._categorical_atoms import CategoricalChart, chances_of
from sklearn_dpmix.samplers.mixture.measure._many_categories import ManyCategoriesChart
from sklearn_dpmix.samplers.mixture.measure._normal_atoms import NormalChart, step_neighbours
from sklearn_dpmix.samplers.mixture.measure._walk import law_of, masses_of
from sklearn_dpmix.samplers.mixture.measure._walk_state import (
    CONCENTRATION,
    CUT,
    DUST_RANGE,
    LOG_LIKELIHOOD,
    N_ATOMS,
    N_DUST,
    N_RECORDS,
    TILT,
    TOTAL,
    Walk,
    new_state,
)
from sklearn_dpmix.samplers.mixture.measure._ways import Ways

FIXED, RANDOM = DirichletProcess(1.5), DirichletProcess(None, (3.0, 2.0))
POWER_LAW = PitmanYor(1.5, 0.25)
FINITE = MixtureOfFiniteMixtures(0.6, 0.25), MixtureOfFiniteMixtures(0.4, (0.0, 1.0, 3.0, 2.0))
CUT_AT = 0.001
N, N_BEFORE = 1000, 4000  # two-sample tests of these see as much as of twice 1600
SIZES = 250, 500, 1000, 2000, 4000
CATEGORIES, MANY = "categories", "many categories"
ANSWERS = np.linspace(0.2, 0.8, 8)[:, None]
AXES = np.vstack([np.eye(7, 8) - np.eye(7, 8, 1)])


class PlainWalk(SimpleNamespace):
    """A walk for plain Python, which is made in an instant."""

    is_lost, judged, fill_unseen = Walk.is_lost, Walk.judged, Walk.fill_unseen

    def copy(self, law_of_masses):
        """The same walk, with atoms and tables of its own, and what it works in shared."""
        own = {name: vars(self)[name].copy() for name in ("law", "atoms", "tables")}
        return PlainWalk(**vars(self) | own | {"masses": law_of_masses})


@pytest.fixture(scope="module", autouse=True)
def plain():
    """Helpers are their functions, and a walk is its fields: to ask numba for them takes longer than the moves."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.startswith("sklearn_dpmix.")]:
            for key, value in list(vars(sys.modules[name]).items()):
                if isinstance(value, _Helper):
                    patch.setitem(vars(sys.modules[name]), key, value.py_func)
        patch.setattr(_pitman_yor_masses, "LEFT_OUT", _pitman_yor_masses.IN_DUST * np.exp(-1.5))  # little dust
        patch.setattr(_walk_state, "lower", lambda owner, fields, frozen: PlainWalk(**fields))
        yield


class Channel:
    """Any densities will do: they have no weight."""

    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        out[first], out[second], out[second + n] = 1.0, 0.1, 0.1

    def answer(self, j, z, c):
        return 0.5 + 0.1 * c


def chart_of(n_features):
    priors = [0.3, -1.0], [0.5, 0.2], [3.0, 2.5], [2.0, 0.7]
    if n_features == CATEGORIES:
        return CategoricalChart(CategoricalKernel(3, 0.8)._lower(n_features=2), 2)
    if n_features == MANY:
        return ManyCategoriesChart(CategoricalKernel(8, 1.7)._lower(n_features=1), 1)
    kernel = NormalKernel(*(prior[:n_features] for prior in priors))._lower(n_features=n_features)
    return NormalChart(kernel, n_features)


def masses(rng, alpha, low, high):
    """Points of the Poisson process α J⁻¹ e⁻ᴶ dJ between two masses, by thinning."""
    mass = low * np.exp(log(high / low) * rng.random(rng.poisson(alpha * log(high / low))))
    return mass[rng.random(len(mass)) < np.exp(-mass)]


def power_law_masses(rng, time, low, high):
    """The same of a process of intensity ζ c J⁻¹⁻ᵈ e⁻ᴶ, c = d/Γ(1 - d)."""
    d = POWER_LAW.discount
    n = rng.poisson(time / gamma(1.0 - d) * (low**-d - high**-d))
    mass = (low**-d - rng.random(n) * (low**-d - high**-d)) ** (-1.0 / d)
    return mass[rng.random(n) < np.exp(-mass)]


def draw_places(rng, chart, n):
    """Coordinates of the base measure."""
    kernel = chart.kernel
    if isinstance(chart, CategoricalChart):
        return np.log(rng.gamma(kernel.concentration, size=(n, chart.n_coordinates())))
    variance = kernel.prior_scale / rng.gamma(kernel.prior_shape, size=(n, chart.n_features))
    mean = kernel.prior_mean + np.sqrt(variance / kernel.precision) * rng.standard_normal(variance.shape)
    return np.stack([mean, np.log(variance)], axis=2).reshape(n, chart.n_coordinates())


def draw_masses(rng, mixing):
    """Masses above the cut, dust, and what is random beside them; the law of the total is tilted."""
    if mixing in FINITE:
        table = np.append(0.0, mixing.prior)
        n = rng.geometric(mixing.prior) if np.ndim(mixing.prior) == 0 else rng.choice(len(table), p=table / table.sum())
        found = rng.gamma(mixing.concentration, size=n)
        found *= rng.gamma(TILT, 1.0 / (TILT + 1.0)) / found.sum()
        return found[found > CUT_AT], np.zeros(0), float(np.sum(found <= CUT_AT))
    if mixing is POWER_LAW:
        while True:
            time = rng.gamma(mixing.concentration / mixing.discount)
            found = power_law_masses(rng, time, CUT_AT, 20.0)
            dust = power_law_masses(rng, time, CUT_AT * np.exp(-masses_of(mixing._lower()).dust_range), CUT_AT)
            total = found.sum() + dust.sum()
            if len(found) and rng.random() < (total * np.exp(1.0 - total)) ** TILT:
                return found, dust, time
    alpha = rng.gamma(mixing.prior[0], 1.0 / mixing.prior[1]) if mixing is RANDOM else mixing.concentration
    while True:
        found, dust = masses(rng, alpha, CUT_AT, 20.0), masses(rng, alpha, CUT_AT * np.exp(-DUST_RANGE), CUT_AT)
        total = found.sum() + dust.sum()
        if len(found) and total > 0 and rng.random() < (total * np.exp(1.0 - total)) ** TILT:
            return found, dust, alpha


def law_of_walks(chart, mixing):
    """(law, value of the masses' law): what all walks of the prior have alike."""
    law_of_masses, n_features = masses_of(mixing._lower()), chart.n_features
    law = law_of(chart, law_of_masses, 1, np.zeros(n_features), np.ones(n_features))
    law[N_RECORDS], law[CUT] = 0.0, CUT_AT
    return law, law_of_masses.value()


def draw_walk(rng, chart, mixing, law, law_of_masses):
    """A walk of the prior."""
    found, dust, value = draw_masses(rng, mixing)
    state, n_features = new_state(chart.n_coordinates(), 256 if mixing is POWER_LAW else 64), chart.n_features
    state.ints[:2], state.floats[0] = (len(found), len(dust)), value
    for mass, place, values in ((state.mass, state.place, found), (state.dust_mass, state.dust_place, dust)):
        n = len(values)
        mass[:n] = rng.permutation(values)
        place[:n] = draw_places(rng, chart, n)
    nodes, ends = np.zeros((n_features + 1, 1)), np.zeros((2 * n_features, 1))
    ways = Ways(ANSWERS, AXES, AXES @ ANSWERS) if chart.goes_ways else None
    chances = chances_of(Channel(), nodes, 3) if isinstance(chart, CategoricalChart) else None
    return Walk.of(state, nodes, ends, law, law_of_masses, ways=ways, chances=chances)


def summary(walk, chart):
    n, n_dust = int(walk.law[N_ATOMS]), int(walk.law[N_DUST])
    atoms = walk.atoms.reshape(-1, int(walk.width))
    mass, place = atoms[:n, 0], atoms[:n, 1:]
    share = mass / mass.sum()
    if isinstance(chart, CategoricalChart):
        gamma = np.exp(place.reshape(n, chart.n_features, -1))
        pi = gamma / gamma.sum(axis=2, keepdims=True)
        spread = [*(share @ pi.reshape(n, -1)), *pi[0].ravel(), share @ (pi[:, 0, 0] * pi[:, -1, 1])]
    else:
        spread = np.log(share @ (np.exp(place[:, 1::2]) + place[:, ::2] ** 2))
    total = mass.sum() + atoms[walk.capacity : walk.capacity + n_dust, 0].sum()
    return [n, n_dust, total, share.max(), walk.law[CONCENTRATION], *(share @ place), *place[0], *spread]


@cache
def before(n_features, mixing):
    """Summaries of draws of the prior, as any move should leave them, each sorted."""
    rng, chart = np.random.default_rng(1), chart_of(n_features)
    laws = law_of_walks(chart, mixing)
    found = [summary(draw_walk(rng, chart, mixing, *laws), chart) for _ in range(N_BEFORE)]
    return np.sort(np.transpose(found))


def add_up(walk):
    """``refresh`` where nothing was released, by NumPy."""
    n, n_dust, capacity, width, n_rows = (
        int(part) for part in (walk.law[N_ATOMS], walk.law[N_DUST], walk.capacity, walk.width, walk.n_rows)
    )
    first, last = capacity * width, (capacity + n_dust) * width
    mass, dust = walk.atoms[: n * width : width], walk.atoms[first:last:width]
    first, last = capacity * n_rows, (capacity + n_dust) * n_rows
    walk.mix[0] = mass @ walk.tables[: n * n_rows : n_rows] + dust @ walk.tables[first:last:n_rows]
    walk.law[TOTAL], walk.law[LOG_LIKELIHOOD] = mass.sum() + dust.sum(), 0.0


@cache
def supply(n_features, mixing, seed):
    """Where :func:`start` keeps what it drew."""
    return np.random.default_rng(seed), []


def start(n_features, mixing, seed, i):
    """The i-th of other draws of the prior, which moves may change a copy of: all tests share them."""
    rng, walks = supply(n_features, mixing, seed)
    if i >= len(walks):
        chart = chart_of(n_features)
        laws = law_of_walks(chart, mixing)
        while len(walks) < i + 100:
            walks.append(draw_walk(rng, chart, mixing, *laws))
            walks[-1].tables[:] = 1.0
    return walks[i]


def p_values(move, n_features=1, *, mixing=FIXED, n_moves=4, seed=0, sizes=(N,)):
    """The least p-value of two-sample tests of moved draws of the prior against others, for so many, then more."""
    rng, chart = np.random.default_rng([seed, 1]), chart_of(n_features)
    value, channel, after = chart.value(), Channel(), []
    law_of_masses = law_of_walks(chart, mixing)[1]  # made anew: a twin may have changed it
    for n in sizes:
        for i in range(len(after), n):
            walk = start(n_features, mixing, seed, i).copy(law_of_masses)
            for _ in range(n_moves):
                add_up(walk)
                move(rng, channel, value, walk)
            after.append(summary(walk, chart))
        pairs = zip(before(n_features, mixing), np.transpose(after), strict=True)
        yield min(ks_2samp(a, b).pvalue for a, b in pairs if a[0] < a[-1])


def p_value(move, n_features=1, **setting):
    """The same for as many as show what a move does wrong."""
    return next(p_values(move, n_features, **setting))


def breaks(move, n_features=1, **setting):
    """Whether a move is seen to leave the prior, by no more draws than that takes."""
    return any(p < 1e-6 for p in p_values(move, n_features, sizes=SIZES, **setting))


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
}


OF_PLACES = [name for name in MOVES if name not in ("move_mass", "change_mass")]


#: of any kernel
OF_CHARTS = {
    "bear_or_kill": MOVES["bear_or_kill"],
    "part_or_join": MOVES["part_or_join"],
    "step_one": MOVES["step_one"],
    "a step of two": lambda rng, channel, chart, walk: chart.step(rng, channel, walk),
    "parts": lambda rng, channel, chart, walk: chart.part(rng, channel, walk),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", OF_CHARTS)
def test_moves_of_categories_keep_the_prior(name):
    assert p_value(OF_CHARTS[name], CATEGORIES) > 1e-6


def of_masses(move, n_times=4):
    """The move of the masses M_c of the first two atoms, where there are two, some times."""

    def moved(rng, channel, chart, walk):
        a, b = (_walk_state.at(walk, 2 * walk.capacity + i) for i in (0, 1))
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
        "log_poured",
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
    monkeypatch.setattr(_many_categories, function, plus(getattr(_many_categories, function), change))
    assert breaks(OF_MANY[name], MANY, n_moves=n_moves)


@pytest.mark.slow
def test_parts_of_categories_need_their_jacobian(monkeypatch):
    broken = plus(_categorical_atoms.log_rest, lambda chart, walk, whole, rest, both, mass: -4.0 * log(both / mass))
    monkeypatch.setattr(_categorical_atoms, "log_rest", broken)
    assert breaks(OF_CHARTS["parts"], CATEGORIES, n_moves=12)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "n_features"), [*((name, 1) for name in MOVES), *((name, 2) for name in OF_PLACES)])
def test_moves_keep_the_prior(name, n_features):
    assert p_value(MOVES[name], n_features) > 1e-6


def renew(rng, channel, chart, walk):
    walk.masses.renew(rng, channel, chart, walk)


@pytest.mark.slow
def test_concentration_and_dust_keep_the_prior():
    assert p_value(renew, mixing=RANDOM) > 1e-6


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
    "the time's prior": ("renew", 1, "above", lambda masses, walk: 8.0),
    "the dust's intensity": ("renew", 1, "dust_rate", lambda masses, walk, time: 2.0 * time),
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


def plus(function, change):
    return compiled(lambda *args: function(*args) + change(*args))


#: A move, and a function that it calls, with one term forgotten.
TWINS = {
    "the Jacobian of a split": (
        "split_or_merge",
        6,
        _splits,
        "log_share_ratio",
        lambda share: log(share * (1 - share)),
    ),
    "the chance of a pair": ("split_or_merge", 12, _splits, "log_pair", lambda walk, i, j, n: 1.0),
    "the Jacobian of a slide": ("slide", 6, _slides, "log_jacobian", lambda n, spread: -(n - 1.0) * spread),
    "how many atoms may be split": ("split_or_merge", 16, _splits, "n_above", lambda walk, least: 3.0),
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


@pytest.mark.slow
def test_dust_of_another_concentration_does_not(monkeypatch):
    drawn = _dirichlet_masses.draw_poisson
    monkeypatch.setattr(_dirichlet_masses, "draw_poisson", lambda rng, rate: drawn(rng, 1.3 * rate))
    assert breaks(renew, mixing=RANDOM)
