"""Densities of two correlated features that are clamped before wide noise, against integrals by SciPy."""

from copy import copy
from functools import cache
from itertools import pairwise
from math import exp, pi, sqrt

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import ndtr
from test_correlated_atoms import N, fill, law_of, problem, table_and_slopes, walk_of

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.compiled import _Helper, entry
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _clamped_moments, _correlated_clamped, _walk
from sklearn_dpmix.samplers.mixture.measure._correlated_clamped import ERROR, degree_for
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import N_ATOMS, N_DUST
from sklearn_dpmix.samplers.mixture.measure._walk_draws import n_all, number
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_of

LOW, HIGH = -1.0, 1.5
NOISES = 0.5, 3.0, 20.0
ATOMS = {
    "inside": [0.3, -2.5, 0.2, -2.5, 0.6],
    "at a corner": [1.5, -0.5, -1.1, 0.2, -1.0],
    "beyond a bound": [4.0, -1.0, 0.0, -0.5, 0.4],
    "far beyond": [40.0, -1.0, -30.0, -0.5, 0.4],
    "wide": [0.3, 2.5, -0.2, 2.0, 0.3],
    "near a line": [0.1, 0.0, 0.3, -3.0, -2.0],
}


def normal(x, mean, sd):
    """Its density at a number: SciPy's takes fifty times as long."""
    return exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * sqrt(2.0 * pi))


def density_of_feature(mean, sd, z, noise):
    """g(z) of one clamped feature."""
    total, tau = sqrt(sd**2 + noise**2), sd * noise / sqrt(sd**2 + noise**2)
    inner = mean + (sd / total) ** 2 * (z - mean)
    density = normal(z, mean, total) * (ndtr((HIGH - inner) / tau) - ndtr((LOW - inner) / tau))
    density += normal(z, LOW, noise) * ndtr((LOW - mean) / sd)
    return density + normal(z, HIGH, noise) * ndtr((mean - HIGH) / sd)


@cache
def density_of_release(mean, covariance, z, noise):
    """The same of two: an integral over the first."""
    mean, covariance, z = (np.reshape(flat, shape) for flat, shape in ((mean, 2), (covariance, (2, 2)), (z, 2)))
    sd, slope = np.sqrt(covariance[0, 0]), covariance[0, 1] / covariance[0, 0]
    rest, reach = np.sqrt(covariance[1, 1] - slope * covariance[0, 1]), mean[0] + 9.0 * sd * np.array([-1.0, 1.0])

    def integrand(x):
        of_first = normal(x, mean[0], sd) * normal(z[0], min(max(x, LOW), HIGH), noise)
        return of_first * density_of_feature(mean[1] + slope * (x - mean[0]), rest, z[1], noise)

    ends = pairwise(np.unique([*reach, *np.clip([LOW, HIGH], *reach)]))
    return sum(quad(integrand, *part, epsabs=0.0, epsrel=1e-11, limit=200)[0] for part in ends)


def problem_of(noise, place):
    """A chart, the walk with one atom, and its releases."""
    plain, _, _, Z = problem(2)
    mechanism = GaussianMechanism(scale=noise, bounds=(LOW, HIGH))
    chart = chart_of(plain.kernel, mechanism._lower(n_records=N, n_features=2))
    return chart, walk_of(chart, mechanism, noise * Z, place), noise * Z


def error_of(walk, chart, Z, noise):
    """Largest error of the densities in the walk's table, relative to them, or to a density five noises away."""
    mean, covariance, _ = law_of(chart, walk, 2)
    expected = np.array([density_of_release(tuple(mean), tuple(covariance.ravel()), tuple(z), noise) for z in Z])
    least = normal(5.0, 0.0, 1.0) * normal(0.0, 0.0, 1.0) / noise**2
    return np.max(np.abs(walk.tables[:N] - expected) / np.maximum(expected, least))


@pytest.mark.parametrize("name", ATOMS)
@pytest.mark.parametrize("noise", NOISES)
def test_densities(noise, name):
    """Catches a wrong moment, of narrow components and wide ones."""
    chart, walk, Z = problem_of(noise, ATOMS[name])
    fill(chart.seen_of(None), chart.value(), walk, 0)
    assert error_of(walk, chart, Z, noise) < 2.0 * ERROR


@pytest.fixture
def plain(monkeypatch):
    """Helpers are their functions, whose constants may be changed."""
    for module in (_clamped_moments, _correlated_clamped):
        for name, function in list(vars(module).items()):
            if isinstance(function, _Helper):
                monkeypatch.setattr(module, name, function.py_func)


def worst_error():
    """Of the densities, in plain Python."""
    errors = []
    for name in ("at a corner", "wide", "near a line"):
        chart, walk, Z = problem_of(NOISES[0], ATOMS[name])
        alone = copy(chart)
        vars(alone).update(chart.fields())
        alone.fill(None, walk, 0)
        errors.append(error_of(walk, chart, Z, NOISES[0]))
    return max(errors)


def test_densities_in_plain_python(plain):
    assert worst_error() < 2.0 * ERROR


@pytest.mark.parametrize(("constant", "value"), [("STEP", 2.5), ("NEAR_BOUND", 0.5), ("ENDS", 3.0), ("WIDE", np.inf)])
def test_too_coarse_moments_are_noticed(plain, monkeypatch, constant, value):
    monkeypatch.setattr(_clamped_moments, constant, value)
    assert worst_error() > 1e-6


def test_too_few_moments_are_noticed(plain, monkeypatch):
    monkeypatch.setattr(_correlated_clamped, "degree_for", lambda ratio: 7)
    assert worst_error() > 1e-6


@pytest.mark.parametrize("noise", [1.5, 3.0, 20.0])
def test_slopes(noise):
    """Catches a wrong derivative.  They are of the first moments alone, so only near the right ones."""
    for place in ATOMS.values():
        chart, walk, _ = problem_of(noise, place)
        found, slopes = table_and_slopes(chart, walk, None, 1e-5)
        np.testing.assert_allclose(found[1:], slopes, atol=0.06 * np.abs(slopes).max() + 1e-12)


@entry
def fill_all(channel, chart, walk):
    for k in range(n_all(walk)):
        has_slopes = walk.has_slopes[number(walk, k)]
        chart.fill(channel, walk, number(walk, k))
        if has_slopes == 1.0:
            chart.fill_slopes(channel, walk, number(walk, k))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:the chains have not mixed")
@pytest.mark.parametrize(
    "mechanism",
    [
        GaussianMechanism(scale=2.0, bounds=(LOW, HIGH)),
        GaussianMechanism(scale=2.0),
        LaplaceMechanism(scale=2.0, bounds=(LOW, HIGH)),
    ],
)
def test_tables_depend_on_nothing_but_their_atoms(mechanism, monkeypatch):
    """Catches densities whose rounding depends on where they are asked for: then draws depend on where blocks end."""
    X = np.random.default_rng(0).multivariate_normal([0.2, 0.1], [[0.3, 0.2], [0.2, 0.3]], 200)
    right, equal = _walk.write_back, []

    def compare(walk, state):
        right(walk, state)
        channel = mechanism._lower(n_records=200, n_features=2)
        chart, found = chart_of(model.kernel_._lower(n_features=2), channel), walk.tables.copy()
        fill_all(chart.seen_of(channel), chart.value(), walk)
        capacity, size = int(walk.capacity), int(walk.n_rows * walk.n_nodes)
        for k in [*range(state.ints[N_ATOMS]), *range(capacity, capacity + state.ints[N_DUST])]:
            n_rows = int(walk.width) if walk.has_slopes[k] == 1.0 else 1
            rows = slice(k * size, k * size + n_rows * int(walk.n_nodes))
            equal.append(np.array_equal(found[rows], walk.tables[rows]))

    model = PrivateDPMixture(mechanism, kernel="multivariate_normal", sampler=MixingMeasure(n_moves=30), random_state=0)
    model.set_params(n_warmup=10, n_draws=5, warm_start=True).fit(mechanism.privatize(X, random_state=1))
    monkeypatch.setattr(_walk, "write_back", compare)
    for n in range(10, 101, 5):
        model.set_params(n_draws=n).fit(mechanism.privatize(X, random_state=1))
    assert len(equal) > 500 and all(equal)


def test_degrees():
    """The wider the noise, the fewer moments; none where noise is narrow."""
    found = [degree_for(ratio) for ratio in (0.05, 0.4, 1.0, 2.5)]
    assert found == sorted(found) and None not in found
    assert degree_for(4.0) is None
