"""The walk over mixing measures with records on an interval, and with kernels that absorb the noise.

Densities against quadrature, the posterior of more records than ``test_exact_channels`` enumerates against other
samplers, a summary, and what is refused.  Broken twins: one plausible mistake each.
"""

from functools import cache

import numpy as np
import pytest
import test_exact
from scipy.stats import beta, laplace, norm, truncnorm
from statistical import Disagreement, assert_means_agree

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._base.compiled import compiled, entry
from sklearn_dpmix.kernels import BetaKernel, ConvolvedNormalKernel, TruncatedNormalKernel
from sklearn_dpmix.mechanisms import (
    GaussianMechanism,
    HybridMechanism,
    LaplaceMechanism,
    PiecewiseMechanism,
    SquareWaveMechanism,
)
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure, ReUse
from sklearn_dpmix.samplers.mixture.measure import _node_layout, _which_chart
from sklearn_dpmix.samplers.mixture.measure._beta_atoms import BetaChart
from sklearn_dpmix.samplers.mixture.measure._compressed import Compressed
from sklearn_dpmix.samplers.mixture.measure._convolved_atoms import ConvolvedNormalChart
from sklearn_dpmix.samplers.mixture.measure._truncated_atoms import TruncatedNormalChart
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import N_RECORDS, PER_FEATURE
from sklearn_dpmix.samplers.mixture.measure._walk_state import new_state
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_of, masses_of

MECHANISMS = [
    LaplaceMechanism(epsilon=1.0, bounds=(0, 1)),
    LaplaceMechanism(epsilon=20.0, bounds=(0, 1)),
    LaplaceMechanism(epsilon=3.0, bounds=(0, 1), clamp=False),
    LaplaceMechanism(epsilon=5.0, bounds=(0.2, 0.9)),  # not the kernel's
    GaussianMechanism(epsilon=1.0, delta=1e-5, bounds=(0, 1)),
    GaussianMechanism(epsilon=30.0, delta=1e-5, bounds=(0, 1)),
    SquareWaveMechanism(epsilon=2.0, bounds=(0, 1)),
    PiecewiseMechanism(epsilon=4.0, bounds=(0, 1)),
]
TRUNCATED = TruncatedNormalKernel(0.4, 0.1, 3.0, 0.05, bounds=(0, 1))
BETA = BetaKernel(2.0, 0.5, bounds=(0, 1))


# --- densities -------------------------------------------------------------------------------------------------------


@entry
def fill_atom(chart, channel, walk):
    chart.fill(channel, walk, 0)


def filled(chart, mechanism, places, coordinates):
    """g at releases and its two derivatives."""
    nodes, law = np.vstack([places, np.ones(len(places))]), np.zeros(PER_FEATURE + 3)
    law[N_RECORDS] = len(places)
    masses = masses_of(DirichletProcess()._lower())
    seen = Compressed(chart, masses, nodes, chart.lookup(mechanism, nodes[:-1]), nodes[:-1], law, True)
    state = new_state(2, 2)
    state.mass[0], state.place[0] = 1.0, coordinates
    walk = seen.walk(state)
    fill_atom(chart.value(), mechanism._lower(n_records=len(places), n_features=1), walk)
    return walk.tables[: 3 * walk.n_nodes].reshape(3, -1)[:, : len(places)].copy()


def by_quadrature(mechanism, places, density, middle):
    """g by Gauss–Legendre between the places where the integrand turns, on [0, 1]."""
    found = []
    for z in places:
        channel, Z = mechanism._lower(n_records=1, n_features=1), np.array([[z]])
        pieces = [channel.piece(Z, 0, 0, p) for p in range(channel.n_pieces())]
        turns = [0.0, 1.0, middle, *(end for piece in pieces if piece[0] < piece[1] for end in piece[:2])]
        widths = [0.0, *(10.0 ** np.arange(-9.0, 0.0)), 0.003, 0.03, 0.2, 0.3]
        edges = np.unique(np.clip([turn + s * w for turn in turns for w in widths for s in (-1, 1)], 0.0, 1.0))
        t, w = np.polynomial.legendre.leggauss(24)
        y = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * t).ravel()
        q = [channel_density(pieces, one) for one in y]
        found.append(np.sum((0.5 * np.diff(edges)[:, None] * w).ravel() * q * density(y)))
    return np.array(found)


def channel_density(pieces, y):
    for low, high, anchor, value, slope, curvature in pieces:
        if low <= y <= high:
            return np.exp(value + slope * (y - anchor) - 0.5 * curvature * (y - anchor) ** 2)
    raise AssertionError(f"no piece has {y}")


def atom_of(kernel, rng):
    """Coordinates of a draw of the prior, its density on [0, 1], and where that has its middle."""
    if isinstance(kernel, BetaKernel):
        a, b = 1.0 + rng.gamma(kernel.shape, 1.0 / kernel.rate, 2)  # smaller ones are beyond the quadrature
        return np.log([a, b]), lambda y: beta.pdf(y, a, b), a / (a + b)
    variance = kernel.scale / rng.gamma(kernel.shape)
    mean, sd = kernel.mean + np.sqrt(variance / kernel.mean_precision) * rng.standard_normal(), np.sqrt(variance)
    flip = mean > 0.5  # the smaller tail does not cancel
    ends = np.array([0.0, 1.0] if not flip else [-1.0, 0.0])
    inside = np.diff(norm.sf(ends[::-1], -mean if flip else mean, sd))[0]
    return np.array([mean, np.log(variance)]), lambda y: norm.pdf(y, mean, sd) / inside, np.clip(mean, 0.0, 1.0)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("kernel", [TRUNCATED, BETA], ids=["truncated", "beta"])
def test_densities(kernel, mechanism):
    """Against quadrature; the derivatives against differences."""
    rng, chart, step = np.random.default_rng(0), chart_of(kernel._lower(n_features=1)), 1e-5
    kinks = mechanism.kinks(1)[0]
    low, high = (kinks[0], kinks[-1]) if len(kinks) else (-0.4, 1.5)
    for _ in range(12):
        places = np.sort(rng.uniform(low, high, 5))
        coordinates, density, middle = atom_of(kernel, rng)
        g, *slopes = filled(chart, mechanism, places, coordinates)
        np.testing.assert_allclose(g, by_quadrature(mechanism, places, density, middle), rtol=2e-8)
        for e, slope in enumerate(slopes):
            up, down = coordinates.copy(), coordinates.copy()
            up[e] += step
            down[e] -= step
            difference = (filled(chart, mechanism, places, up)[0] - filled(chart, mechanism, places, down)[0]) / step
            np.testing.assert_allclose(slope / g, 0.5 * difference / g, atol=1e-5)


@pytest.mark.parametrize("kernel", [TRUNCATED, BETA], ids=["truncated", "beta"])
def test_densities_of_a_coin(kernel):
    """Its sides between windows, against quadrature; the twin has its sides the other way round."""
    mechanism, rng = HybridMechanism(2.0, bounds=(0.2, 0.9)), np.random.default_rng(1)
    chart = chart_of(kernel._lower(n_features=1))
    side = 0.35 / np.tanh(1.0)
    released = np.array([0.55 - side, 0.1, 0.6, 0.55 + side])
    places = mechanism.on_line(released)
    edges = np.unique(np.concatenate([np.linspace(0, 1, 2001), (0.2, 0.9), mechanism.lookup(places[None])[:2].ravel()]))
    edges = edges[(edges >= 0.0) & (edges <= 1.0)]
    t, w = np.polynomial.legendre.leggauss(8)
    y = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * t).ravel()
    q = np.exp([mechanism.log_density(np.full((len(y), 1), z), y[:, None]) for z in released])
    for _ in range(6):
        coordinates, density, _ = atom_of(kernel, rng)
        g = filled(chart, mechanism, places, coordinates)[0]
        expected = q @ ((0.5 * np.diff(edges)[:, None] * w).ravel() * density(y))
        np.testing.assert_allclose(g, expected, rtol=1e-6)
        with pytest.raises(AssertionError):
            np.testing.assert_allclose(g, expected[::-1], rtol=1e-3)


NARROW = [(TRUNCATED, 0.37, 0.002), (TRUNCATED, -0.05, 0.002), (BETA, 3700.0, 6300.0), (BETA, 1e5, 1.5)]


@pytest.mark.parametrize(("kernel", "first", "second"), NARROW, ids=["mean, sd", "beyond", "a, b", "at an end"])
def test_points_for_narrow_components(kernel, first, second):
    """Many records at one place make components that are far narrower than the prior's: they ask for points."""
    chart, theta = chart_of(kernel._lower(n_features=1)), np.array([[first, second, 0.0, 0.0]])
    fitting, mechanism = chart.with_points_for(chart.narrower(theta)), LaplaceMechanism(epsilon=20.0, bounds=(0, 1))
    if kernel is BETA:
        coordinates, middle = np.log([first, second]), first / (first + second)
        density = beta(first, second).pdf
    else:
        coordinates, middle = np.array([first, 2.0 * np.log(second)]), max(first, 0.0)
        density = truncnorm(-first / second, (1.0 - first) / second, first, second).pdf
    places = middle + np.array([-0.1, -0.01, 0.0004, 0.02, 0.3])
    exact = by_quadrature(mechanism, places, density, middle)
    np.testing.assert_allclose(filled(fitting, mechanism, places, coordinates)[0], exact, rtol=1e-6)
    assert np.max(np.abs(filled(chart, mechanism, places, coordinates)[0] / exact - 1.0)) > 1e-3
    assert fitting.narrower(theta) is None and len(fitting.grid.below) < 1200


def test_bounds_far_apart_need_few_points():
    """Where nothing is known of what is there, cells are wide, however narrow the prior's components are."""
    kernel = TruncatedNormalKernel(4e4, 0.1, 3.0, 1.0, bounds=(0, 1e5))
    chart, theta = chart_of(kernel._lower(n_features=1)), np.array([[4e4, 1.0, 0.0, 0.0], [4.0001e4, 0.1, 0.0, 0.0]])
    assert len(chart.grid.below) < 1200
    fitting, mechanism = chart.with_points_for(chart.narrower(theta)), LaplaceMechanism(scale=0.5)
    assert len(fitting.grid.below) < 2400
    x = np.array([-3.0, -1.0, 0.1, 2.0])
    for mean, sd, *_ in theta:
        g = filled(fitting, mechanism, mean + x, np.array([mean, 2.0 * np.log(sd)]))[0]
        y = np.linspace(-9.0, 9.0, 360_001)  # 0.00005 standard deviations apart
        exact = [np.sum(norm.pdf(y) * laplace.pdf(z - sd * y, scale=0.5)) * (y[1] - y[0]) for z in x]
        np.testing.assert_allclose(g, exact, rtol=1e-6)


@pytest.mark.parametrize("a", [0.002, 0.05, 0.4])
def test_mass_at_an_end(a):
    """Shapes below 1: against a grid that leaves half as much to the formula, and g integrates to 1 over releases."""
    chart, mechanism = chart_of(BETA._lower(n_features=1)), LaplaceMechanism(epsilon=20.0, bounds=(0, 1))
    places = np.linspace(0.01, 0.99, 9)
    for coordinates in (np.log([a, 1.3]), np.log([2.0, a])):
        g = filled(chart, mechanism, places, coordinates)[0]
        np.testing.assert_allclose(g, filled(chart.finer(), mechanism, places, coordinates)[0], rtol=2e-6)
        t, w = np.polynomial.legendre.leggauss(40)
        edges = np.concatenate(
            [np.linspace(-2.0, 0.0, 9)[:-1], np.linspace(0.0, 1.0, 60), np.linspace(1.0, 3.0, 9)[1:]]
        )
        x = (0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * t).ravel()
        weights = (0.5 * np.diff(edges)[:, None] * w).ravel()
        assert weights @ filled(chart, mechanism, x, coordinates)[0] == pytest.approx(1.0, abs=1e-6)


# --- broken twins, against the enumeration of test_exact_channels and test_exact --------------------------------------


class EndForgotten(BetaChart):
    """Nothing is next to the ends."""

    @compiled
    def put_end(self, a, b, of_a, of_b, norm, p, by_a, by_b):
        self.values[p] = self.values[p + 1] = 0.0


class ShapesFromOne(BetaChart):
    """The prior of a and b taken for one of their logarithms."""

    @compiled
    def log_base(self, walk, k):
        a = k * walk.width
        x, y = walk.atoms[a + 1], walk.atoms[a + 2]
        log_a_and_b = (self.kernel.prior_shape - 1.0) * (x + y)
        return self.kernel.log_prior_constant + log_a_and_b - self.kernel.prior_rate * (np.exp(x) + np.exp(y))


class NotTruncated(TruncatedNormalChart):
    """The mass within the bounds is not divided by."""

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        values, size, inverse = self.values, self.n_places, np.exp(-0.5 * log_variance)
        for p in range(size):
            e = (self.y[p] - mean) * inverse
            values[p] = 0.3989422804014327 * inverse * np.exp(-0.5 * e * e)
            values[size + p] = values[2 * size + p] = 0.0
        self.multiply(nodes, n, out, first, second)


class NoFloor(ConvolvedNormalChart):
    """The release's variance may be less than the noise's."""

    def fields(self):
        return super().fields() | {"least": -50.0}


def broken(monkeypatch, name, chart):
    monkeypatch.setitem(_which_chart.CHARTS, name, chart)


@pytest.mark.slow
@pytest.mark.usefixtures("digested_once")
@pytest.mark.parametrize(
    ("family", "name", "twin"),
    [
        ("laplace-beta", "beta", ShapesFromOne),
        pytest.param("laplace-truncated", "truncated_normal", NotTruncated, marks=pytest.mark.nightly),
    ],
)
def test_broken_charts_are_rejected(family, name, twin, monkeypatch):
    from exact_answer_cases import FAMILIES
    from exact_channel_cases import compare, exact, fit

    broken(monkeypatch, name, twin)
    case, first = next(iter(FAMILIES[family].values())), next(iter(FAMILIES[family]))
    with pytest.raises(Disagreement):
        compare(*fit(case, "mixing_measure", 0), exact(family, first), family)


def test_forgotten_ends_are_seen():
    chart, mechanism = chart_of(BETA._lower(n_features=1)), LaplaceMechanism(epsilon=20.0, bounds=(0, 1))
    coordinates, places = np.log([0.05, 1.3]), np.array([0.01, 0.5])
    g = filled(chart, mechanism, places, coordinates)[0]
    assert np.max(np.abs(filled(EndForgotten(chart.kernel, 1), mechanism, places, coordinates)[0] / g - 1.0)) > 1e-3


@pytest.mark.slow
@pytest.mark.nightly
def test_convolved_posterior_of_two_features_is_exact():
    """Of one it is what ``test_exact`` finds by default."""
    for seed, name in enumerate(test_exact.CASES["convolved", 2]):
        test_exact.check("auto", "convolved", 2, name, seed=seed)


@pytest.mark.slow
def test_noise_must_not_be_less(monkeypatch):
    broken(monkeypatch, "convolved_normal", NoFloor)
    monkeypatch.setattr(test_exact, "N_DRAWS", 2000)
    with pytest.raises(Disagreement):
        test_exact.check("auto", "convolved", 1, "mostly noise", seed=1)


# --- more records ----------------------------------------------------------------------------------------------------

KERNELS = {"truncated": (TRUNCATED, "conditional"), "beta": (BETA, "neal5"), "convolved": (None, "reuse")}
NOISES = {
    "laplace": LaplaceMechanism(epsilon=10.0, bounds=(0, 1)),
    "gaussian": GaussianMechanism(scale=0.1, bounds=(0, 1)),
}
POINTS = np.array([[0.05], [0.25], [0.5], [0.75], [0.95]])


def population(n):
    rng = np.random.default_rng(3)
    return np.where(rng.random(n) < 0.6, rng.beta(2, 8, n), rng.beta(12, 4, n))[:, None]


@cache
def summaries(kind, noise, n, sampler, thin, n_draws, kernel=None):
    """Draws of (number of clusters, mean, log density at POINTS)."""
    mechanism = NOISES[noise]
    if kind == "convolved":
        mechanism = GaussianMechanism(scale=0.1)
        kernel = kernel or ConvolvedNormalKernel(0.4, 0.3, 3.0, 0.1)
    Z = mechanism.privatize(population(n), random_state=4)
    model = PrivateDPMixture(
        mechanism,
        kernel=kernel or KERNELS[kind][0],
        sampler=ReUse() if sampler == "reuse" else sampler,
        n_warmup=1000,
        n_draws=n_draws,
        thin=thin,
        n_jobs=2,
        random_state=0,
    ).fit(Z)
    k = model.n_clusters_draws_[..., None]
    mean, _ = model.moment_draws()
    return np.concatenate([k, mean, np.log(model.density_draws(POINTS))], axis=-1)


CASES = [("truncated", "laplace"), ("beta", "laplace"), ("beta", "gaussian"), ("convolved", "gaussian")]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize(("kind", "noise"), CASES)
@pytest.mark.parametrize("few", [0, 100], ids=["nodes", "records"])
def test_samplers_agree(kind, noise, few, monkeypatch):
    """60 records, as nodes of cells and one by one, against a sampler that draws allocations."""
    monkeypatch.setattr(_node_layout, "FEW", few)
    draws = summaries.__wrapped__(kind, noise, 60, "mixing_measure", 1, 3000)
    assert_means_agree(draws, summaries(kind, noise, 60, KERNELS[kind][1], 10, 4000), min_ess=300)


@pytest.mark.slow
@pytest.mark.nightly
def test_another_prior_does_not_agree():
    draws = summaries("beta", "laplace", 60, "mixing_measure", 1, 3000, BetaKernel(2.0, 0.7, bounds=(0, 1)))
    with pytest.raises(Disagreement):
        assert_means_agree(draws, summaries("beta", "laplace", 60, "neal5", 10, 4000), min_ess=300)


@pytest.mark.parametrize("kernel", [BETA, TRUNCATED], ids=["beta", "truncated"])
def test_it_is_the_default(kernel):
    """With labels, scores, a summary and chains that go on."""
    mechanism = NOISES["laplace"]
    Z = mechanism.privatize(population(2000), random_state=1)
    model = PrivateDPMixture(mechanism, kernel=kernel, n_chains=2, n_warmup=50, n_draws=60, random_state=0)
    one = model.fit(Z)
    assert isinstance(one.sampler_, MixingMeasure) and one.labels_.shape == (2000,)
    assert one.compression_error_ < 1e-3
    assert np.isfinite(one.score_release(Z[:50]))
    weights = one.weights_draws_
    of_summary = model.fit(ReleaseSummary(mechanism).update(Z))
    np.testing.assert_allclose(of_summary.weights_draws_, weights, rtol=1e-6)
    model.partial_fit(Z[:100])


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [BETA, TRUNCATED], ids=["beta", "truncated"])
def test_a_hundred_thousand_records(kernel):
    """At the price of a thousand, with the error that is stated; the population is where the posterior says it is."""
    mechanism, rng = NOISES["laplace"], np.random.default_rng(3)
    parts = (beta(2, 8), beta(12, 4)) if kernel is BETA else (truncnorm(-2, 5, 0.3, 0.15), truncnorm(-7, 3, 0.7, 0.1))
    X = np.where(rng.random(100_000) < 0.6, *(part.rvs(100_000, random_state=rng) for part in parts))[:, None]
    model = PrivateDPMixture(mechanism, kernel=kernel, n_chains=2, n_warmup=500, n_draws=1000, random_state=0)
    model.fit(mechanism.privatize(X, random_state=1))
    assert model.compression_error_ < 0.005
    assert abs(model.moment_draws().mean.mean() - X.mean()) < 0.005
    x = np.linspace(0.05, 0.95, 19)
    truth, draws = 0.6 * parts[0].pdf(x) + 0.4 * parts[1].pdf(x), np.log(model.density_draws(x[:, None]))
    z = (draws.mean(axis=(0, 1)) - np.log(truth)) / draws.std(axis=(0, 1))
    assert np.max(np.abs(z)) < 5.0 and draws.std(axis=(0, 1)).max() < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("kernel", [BETA, TRUNCATED], ids=["beta", "truncated"])
def test_a_peak_of_many_records(kernel):
    """Narrower than the prior's components: more points there, and not ever more nodes, make its likelihood right."""
    mechanism, rng = GaussianMechanism(scale=0.02, bounds=(0, 1)), np.random.default_rng(0)
    X = np.where(rng.random(20_000) < 0.5, 0.37 + 0.001 * rng.standard_normal(20_000), rng.beta(6, 4, 20_000))
    model = PrivateDPMixture(
        mechanism, kernel=kernel, sampler=MixingMeasure(n_moves=30), n_chains=1, n_warmup=50, n_draws=50, random_state=0
    )
    model.fit(mechanism.privatize(X[:, None], random_state=1))
    assert model.compression_error_ < 0.005


def test_own_scales():
    """Each record's noise has its own table."""
    z, scales = np.array([[0.1], [0.4], [0.7]]), np.array([0.05, 0.3, 1.0])
    for kernel in (BETA, TRUNCATED):
        chart, mechanism = chart_of(kernel._lower(n_features=1)), LaplaceMechanism(scale=scales, bounds=(0, 1))
        found = chart.lookup(mechanism, z.T, scales)
        each = [
            chart.lookup(LaplaceMechanism(scale=s, bounds=(0, 1)), z[i : i + 1].T)[:, 0] for i, s in enumerate(scales)
        ]
        np.testing.assert_array_equal(found, np.transpose(each))
        model = PrivateDPMixture(mechanism, kernel=kernel, n_chains=2, n_warmup=20, n_draws=20, random_state=0).fit(z)
        assert isinstance(model.sampler_, MixingMeasure)


def test_what_it_does_not_take():
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(0, 1))
    Z = mechanism.privatize(np.full((20, 2), 0.4), random_state=0)
    parameters = {"n_chains": 2, "n_warmup": 5, "n_draws": 5}
    with pytest.raises(ValueError, match="takes records on an interval of one feature, but these have 2"):
        PrivateDPMixture(mechanism, kernel="truncated_normal", sampler="mixing_measure", **parameters).fit(Z)
    model = PrivateDPMixture(mechanism, kernel="truncated_normal", **parameters).fit(Z)
    assert not isinstance(model.sampler_, MixingMeasure)
    with pytest.raises(ValueError, match=r"released_above=0.1 needs MixingMeasure \(one feature, normal kernel"):
        PrivateDPMixture(
            LaplaceMechanism(epsilon=10.0, bounds=(0, 1), released_above=0.1), kernel="beta", **parameters
        ).fit(Z[:, :1] + 1.0)


def test_beta_atoms_stay_within_the_shapes_of_the_prior():
    """Catches places near an atom that nobody compared with them: a checkpoint with such an atom was refused."""
    kernel, mechanism = BetaKernel(0.3, 0.3, bounds=(0, 1)), LaplaceMechanism(scale=1.0, bounds=(0, 1))
    model = PrivateDPMixture(mechanism, kernel=kernel, sampler=MixingMeasure(n_moves=100), n_chains=1, n_draws=4000)
    model.set_params(n_warmup=50, random_state=1).fit([[0.1], [0.4], [0.5], [0.9], [0.02]])
    shapes = model._draws_.flat.theta[:, :2]
    assert shapes.min() >= 1e-3 * (1.0 - 1e-9) and shapes.max() <= 1e6 * (1.0 + 1e-9)
