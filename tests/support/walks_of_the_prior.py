"""Walks over mixing measures of which nothing is known but the prior, in plain Python, and what moves make of them.

A broken twin is one function in place of another.
"""

import sys
from copy import copy
from functools import cache
from math import gamma, log
from operator import mul
from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import ks_2samp

from sklearn_dpmix._base import compiled as compiled_components
from sklearn_dpmix._base.compiled import Value, _Helper, compiled
from sklearn_dpmix.kernels import CategoricalKernel, MultivariateNormalKernel, NormalKernel
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers.mixture.measure import _pitman_yor_masses, _walk_atoms, _walk_state
from sklearn_dpmix.samplers.mixture.measure._categorical_atoms import CategoricalChart
from sklearn_dpmix.samplers.mixture.measure._correlated_hidden import CorrelatedHiddenChart
from sklearn_dpmix.samplers.mixture.measure._many_categories import ManyCategoriesChart
from sklearn_dpmix.samplers.mixture.measure._normal_atoms import NormalChart
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import (
    CONCENTRATION,
    CUT,
    DUST_RANGE,
    LOG_LIKELIHOOD,
    N_ATOMS,
    N_DUST,
    N_RECORDS,
    TILT,
    TOTAL,
)
from sklearn_dpmix.samplers.mixture.measure._walk_state import Walk, new_state
from sklearn_dpmix.samplers.mixture.measure._ways import Ways
from sklearn_dpmix.samplers.mixture.measure._which_chart import law_of, masses_of

FIXED, RANDOM = DirichletProcess(1.5), DirichletProcess(None, (3.0, 2.0))
POWER_LAW = PitmanYor(1.5, 0.25)
FINITE = MixtureOfFiniteMixtures(0.6, 0.25), MixtureOfFiniteMixtures(0.4, (0.0, 1.0, 3.0, 2.0))
CUT_AT = 0.001
N, N_BEFORE = 1000, 4000  # two-sample tests of these see as much as of twice 1600
SIZES = 250, 500, 1000, 2000, 4000
CATEGORIES, MANY = "categories", "many categories"
CORRELATED = {"two correlated": 2, "three correlated": 3}
SCALE = np.array([[2.0, 0.9, -0.8], [0.9, 0.8, -0.1], [-0.8, -0.1, 1.5]])
ANSWERS = np.linspace(0.2, 0.8, 8)[:, None]
# compiled where Python calls them: to hand over a generator takes longer than to draw
DRAWS = "draw_gamma", "draw_gamma_below"
AXES = np.vstack([np.eye(7, 8) - np.eye(7, 8, 1)])


class PlainWalk(SimpleNamespace):
    """A walk for plain Python, which is made in an instant."""

    is_lost, judged, fill_unseen = Walk.is_lost, Walk.judged, Walk.fill_unseen

    def copy(self, law_of_masses):
        """The same walk, with atoms and tables of its own, and what it works in shared."""
        own = {name: vars(self)[name].copy() for name in ("law", "atoms", "tables")}
        return PlainWalk(**vars(self) | own | {"masses": law_of_masses, "affinities": {}})


def in_lists(parts):
    """A walk or a chart with lists in place of arrays of one axis, of which Python takes numbers much faster."""
    for name, field in vars(parts).items():
        if isinstance(field, np.ndarray) and field.ndim == 1:
            setattr(parts, name, field.tolist())
        elif isinstance(field, Value):
            setattr(parts, name, in_lists(copy(field)))
    return parts


@pytest.fixture(scope="module", autouse=True)
def plain():
    """Helpers are their functions, and a walk is its fields: to ask numba for them takes longer than the moves."""
    with pytest.MonkeyPatch.context() as patch:
        for name in [name for name in sys.modules if name.startswith("sklearn_dpmix.")]:
            for key, value in list(vars(sys.modules[name]).items()):
                if isinstance(value, _Helper) or key in DRAWS:
                    patch.setitem(vars(sys.modules[name]), key, getattr(value, "py_func", value))
        patch.setattr(_pitman_yor_masses, "LEFT_OUT", _pitman_yor_masses.IN_DUST * np.exp(-1.5))  # little dust
        patch.setattr(_walk_state, "lower", lambda owner, fields, frozen: PlainWalk(**fields))
        # nothing is compiled here, so what a method reaches need not be looked at again
        patch.setattr(compiled_components, "_register", cache(compiled_components._register))
        yield


class Channel:
    """Any densities will do: they have no weight."""

    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        out[first], out[second], out[second + n] = 1.0, 0.1, 0.1


class PlainCorrelatedChart(CorrelatedHiddenChart):
    """Without records; it knows the affinities of atoms that moves left as they were, which take most of the time."""

    @compiled
    def fill(self, channel, walk, k):
        walk.tables[_walk_atoms.row(walk, k)] = 1.0

    @compiled
    def affinity(self, walk, i, j):
        a, b = _walk_atoms.at(walk, i), _walk_atoms.at(walk, j)
        pair = tuple(walk.atoms[a : a + walk.width] + walk.atoms[b : b + walk.width])
        if pair not in walk.affinities:
            walk.affinities[pair] = CorrelatedHiddenChart.affinity(self, walk, i, j)
        return walk.affinities[pair]


def chart_of(n_features):
    priors = [0.3, -1.0], [0.5, 0.2], [3.0, 2.5], [2.0, 0.7]
    if n_features == CATEGORIES:
        return CategoricalChart(CategoricalKernel(3, 0.8)._lower(n_features=2), 2)
    if n_features == MANY:
        return ManyCategoriesChart(CategoricalKernel(8, 1.7)._lower(n_features=1), 1)
    if n_features in CORRELATED:
        d = CORRELATED[n_features]
        kernel = MultivariateNormalKernel(np.arange(d) - 0.5, 0.8, d + 4.0, SCALE[:d, :d])
        return PlainCorrelatedChart(kernel._lower(n_features=d), d)
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
    if isinstance(chart, CorrelatedHiddenChart):
        return draw_correlated(rng, chart, n)
    variance = kernel.prior_scale / rng.gamma(kernel.prior_shape, size=(n, chart.n_features))
    mean = kernel.prior_mean + np.sqrt(variance / kernel.precision) * rng.standard_normal(variance.shape)
    return np.stack([mean, np.log(variance)], axis=2).reshape(n, chart.n_coordinates())


def draw_correlated(rng, chart, n):
    """μ_j and log s_j in the prior's unit, by feature, then t_ij; the inverse Wishart law by Bartlett's triangles."""
    kernel, d = chart.kernel, chart.n_features
    triangle = np.tril(rng.standard_normal((n, d, d)), -1)
    triangle[:, range(d), range(d)] = np.sqrt(rng.chisquare(kernel.dof - np.arange(d), size=(n, d)))
    triangle = np.linalg.cholesky(np.linalg.inv(SCALE[:d, :d])) @ triangle
    root = np.linalg.cholesky(np.linalg.inv(triangle @ triangle.transpose(0, 2, 1)))
    mean = kernel.prior_mean + np.einsum("nij,nj->ni", root, rng.standard_normal((n, d))) / np.sqrt(kernel.precision)
    s = np.diagonal(root, axis1=1, axis2=2)
    slopes = (s[:, :, None] * np.linalg.inv(root))[:, *np.tril_indices(d, -1)]
    return np.hstack([np.stack([mean, np.log(s / chart.units())], axis=2).reshape(n, 2 * d), slopes])


def draw_masses(rng, mixing, law_of_masses):
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
            dust = power_law_masses(rng, time, CUT_AT * np.exp(-law_of_masses.dust_range), CUT_AT)
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
    found, dust, value = draw_masses(rng, mixing, law_of_masses)
    state, n_features = new_state(chart.n_coordinates(), 256 if mixing is POWER_LAW else 64), chart.n_features
    state.ints[:2], state.floats[0] = (len(found), len(dust)), value
    for mass, place, values in ((state.mass, state.place, found), (state.dust_mass, state.dust_place, dust)):
        n = len(values)
        mass[:n] = rng.permutation(values)
        place[:n] = draw_places(rng, chart, n)
    nodes, ends = np.zeros((n_features + 1, 1)), np.zeros((2 * n_features, 1))
    ways, chances = Ways(ANSWERS[None], AXES, AXES @ ANSWERS) if chart.goes_ways else None, None
    if isinstance(chart, CategoricalChart):
        chances = ways.answers if ways else np.tile([[0.5], [0.6], [0.7]], (n_features, 1, 1))
    return Walk.of(state, nodes, ends, law, law_of_masses, ways=ways, chances=chances)


def summary(walk, chart):
    n, n_dust, width = int(walk.law[N_ATOMS]), int(walk.law[N_DUST]), int(walk.width)
    atoms = np.reshape(walk.atoms[: n * width], (n, width))
    mass, place = atoms[:, 0], atoms[:, 1:]
    share = mass / mass.sum()
    if isinstance(chart, CategoricalChart):
        gamma = np.exp(place.reshape(n, chart.n_features, -1))
        pi = gamma / gamma.sum(axis=2, keepdims=True)
        spread = [*(share @ pi.reshape(n, -1)), *pi[0].ravel(), share @ (pi[:, 0, 0] * pi[:, -1, 1])]
    elif isinstance(chart, CorrelatedHiddenChart):
        d = chart.n_features
        mean, scale, slopes = place[:, : 2 * d : 2], np.exp(place[:, 1 : 2 * d : 2]), place[:, 2 * d :]
        spread = np.log(
            np.hstack([share @ mean**2, share @ scale, share @ slopes**2, share @ (mean[:, 1:] * slopes[:, :1]) ** 2])
        )
    else:
        spread = np.log(share @ (np.exp(place[:, 1::2]) + place[:, ::2] ** 2))
    first = int(walk.capacity) * width
    total = mass.sum() + np.sum(walk.atoms[first : first + n_dust * width : width])
    return [n, n_dust, total, share.max(), walk.law[CONCENTRATION], *(share @ place), *place[0], *spread]


@cache
def before(n_features, mixing):
    """Summaries of draws of the prior, as any move should leave them, each sorted."""
    rng, chart = np.random.default_rng(1), chart_of(n_features)
    laws = law_of_walks(chart, mixing)
    found = [summary(draw_walk(rng, chart, mixing, *laws), chart) for _ in range(N_BEFORE)]
    return np.sort(np.transpose(found))


def add_up(walk):
    """``refresh`` where nothing was released."""
    n, n_dust, capacity, width, n_rows = (
        int(part) for part in (walk.law[N_ATOMS], walk.law[N_DUST], walk.capacity, walk.width, walk.n_rows)
    )
    first, last = capacity * width, (capacity + n_dust) * width
    mass = walk.atoms[: n * width : width] + walk.atoms[first:last:width]
    first, last = capacity * n_rows, (capacity + n_dust) * n_rows
    densities = walk.tables[: n * n_rows : n_rows] + walk.tables[first:last:n_rows]
    walk.mix[0] = sum(map(mul, mass, densities))
    walk.law[TOTAL], walk.law[LOG_LIKELIHOOD] = sum(mass), 0.0


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
            walk = draw_walk(rng, chart, mixing, *laws)
            walk.tables[:] = 1.0
            walks.append(in_lists(walk))
    return walks[i]


def p_values(move, n_features=1, *, mixing=FIXED, n_moves=4, seed=0, sizes=(N,)):
    """The least p-value of two-sample tests of moved draws of the prior against others, for so many, then more."""
    rng, chart = np.random.default_rng([seed, 1]), chart_of(n_features)
    value, channel, after = in_lists(chart.value()), Channel(), []
    law_of_masses = law_of_walks(chart, mixing)[1]  # made anew: a twin may have changed it
    for n in sizes:
        for i in range(len(after), n):
            walk = start(n_features, mixing, seed, i).copy(law_of_masses)
            for _ in range(n_moves):
                add_up(walk)
                move(rng, channel, value, walk)
            after.append(summary(walk, chart))
        pairs = zip(before(n_features, mixing), np.sort(np.transpose(after)), strict=True)
        yield ks_2samp(*max((pair for pair in pairs if pair[0][0] < pair[0][-1]), key=distance)).pvalue


def distance(pair):
    """The largest between two samples' distribution functions, each sorted; its p-value takes much longer."""
    shares = [np.searchsorted(sample, np.concatenate(pair), side="right") / len(sample) for sample in pair]
    return np.max(np.abs(shares[0] - shares[1]))


def p_value(move, n_features=1, **setting):
    """The same for as many as show what a move does wrong."""
    return next(p_values(move, n_features, **setting))


def breaks(move, n_features=1, **setting):
    """Whether a move is seen to leave the prior, by no more draws than that takes."""
    return any(p < 1e-6 for p in p_values(move, n_features, sizes=SIZES, **setting))


def plus(function, change):
    return compiled(lambda *args: function(*args) + change(*args))
