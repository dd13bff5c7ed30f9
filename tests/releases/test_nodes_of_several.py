"""Nodes that stand for records of several features, and tables whose factors are filled one by one."""

import tracemalloc
from math import exp, log

import numpy as np
import pytest
from scipy.stats import norm
from statistical import Disagreement, assert_means_agree

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._releases import nodes as of_line
from sklearn_dpmix._releases import nodes_of_several
from sklearn_dpmix._releases.nodes import Nodes, cell_edges, compress
from sklearn_dpmix._releases.nodes_of_several import compress_boxes, compress_records, moments
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _node_layout, _steps
from sklearn_dpmix.samplers.mixture.measure._chart import Chart
from sklearn_dpmix.samplers.mixture.measure._dirichlet_masses import DirichletMasses
from sklearn_dpmix.samplers.mixture.measure._factors import copy_feature, fill, fill_feature
from sklearn_dpmix.samplers.mixture.measure._normal_atoms import NormalChart
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import LOG_LIKELIHOOD, N_ATOMS, TOTAL, at, log_tilt, row
from sklearn_dpmix.samplers.mixture.measure._walk_likelihood import refresh
from sklearn_dpmix.samplers.mixture.measure._walk_state import Walk, new_state
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_of, law_of

BOUNDS = [(-10, 10), (-5, 5)]
MECHANISMS = [LaplaceMechanism(epsilon=10.0, bounds=BOUNDS), GaussianMechanism(epsilon=10.0, delta=1e-5, bounds=BOUNDS)]


def two_features(n):
    rng = np.random.default_rng(0)
    return rng.choice([[-5.0, 2.0], [0.0, -3.0], [5.0, 1.0]], n) + rng.standard_normal((n, 2)) * [1.0, 0.6]


# --- nodes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n_features", [2, 3])
def test_moments_are_kept(n_features):
    """Of boxes wholly inside, of records on bounds, and of some that are all the same."""
    rng = np.random.default_rng(1)
    records = np.clip(rng.standard_normal((4000, n_features)), -1.0, 0.8)
    places, weights = compress_records(records, np.full(n_features, 1.0))
    assert len(weights) < 0.6 * len(records)
    assert np.all(weights > 0)
    np.testing.assert_allclose(weights.sum(), len(records), rtol=1e-12)
    for powers in rng.integers(0, 2, (20, n_features)):
        exact = np.prod(records**powers, axis=1).sum()
        np.testing.assert_allclose(weights @ np.prod(places**powers, axis=1), exact, atol=1e-8 * len(records))
    corner = np.all(places == -1.0, axis=1)
    assert weights[corner].tolist() == pytest.approx([np.all(records == -1.0, axis=1).sum()])


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_nodes_stand_for_records(mechanism):
    """The log likelihood of random populations, to 10⁻³ of a unit of 4000 records."""
    rng = np.random.default_rng(3)
    z = mechanism.folded(mechanism.privatize(two_features(4000), random_state=4))
    places, weights = compress_records(z, np.array([mechanism.node_spacing(0.5)] * 2))
    assert len(weights) < 0.7 * len(z)

    def log_densities(x, shares, means, sds):
        """By quadrature over each feature's records."""
        value, density = mechanism._lower(n_records=len(x), n_features=2), 0.0
        for share, mean, sd in zip(shares, means, sds, strict=True):
            g = share * np.ones(len(x))
            for j, (low, high) in enumerate(BOUNDS):
                ends = [np.exp(mechanism.log_noise(x[:, j] - end, value.noise[0])) for end in (low, high)]
                nodes, out = np.zeros(6 * len(x)), np.zeros(3 * len(x))
                nodes[3 * j * len(x) :][: 3 * len(x)] = np.concatenate([x[:, j], *ends])
                value.fill_normal(j, nodes, len(x), mean[j], 2 * log(sd[j]), out, 0, len(x))
                g *= out[: len(x)]
            density = density + g
        return np.log(density)

    wrong = weights.copy()
    wrong[len(wrong) // 2] += 0.5
    errors, of_twin = [], []
    for _ in range(5):
        population = rng.dirichlet(np.ones(4)), rng.uniform(-6, 6, (4, 2)), 0.5 + rng.random((4, 2))
        exact, of_nodes = log_densities(z, *population).sum(), log_densities(places, *population)
        errors.append(weights @ of_nodes - exact)
        of_twin.append(wrong @ of_nodes - exact)
    assert np.max(np.abs(errors)) < 1e-3
    assert np.max(np.abs(of_twin)) > 1e-3


class HeavyNodes(MixingMeasure):
    """Records of half the plane count for a third more than they are."""

    def compressed(self, *args):
        seen = super().compressed(*args)
        seen.nodes[-1, seen.nodes[0] > 0] *= 1.33
        return seen


@pytest.mark.nightly
def test_nodes_and_records_agree(monkeypatch):
    """The posterior of 500 records, given nodes and given the records; a twin's is another."""
    mechanism, x = MECHANISMS[0], np.array([[-5.0, 2.0], [0.0, 0.0], [5.0, 3.0]])
    Z = mechanism.privatize(two_features(500), random_state=1)

    def draws(sampler, fewer):
        monkeypatch.setattr(_node_layout, "FEWER", fewer)
        kernel = NormalKernel(0.0, 0.1, 3.0, 3.0)
        model = PrivateDPMixture(mechanism, kernel=kernel, sampler=sampler, n_draws=3000, random_state=0).fit(Z)
        return np.concatenate([model.n_clusters_draws_[..., None], np.log(model.density_draws(x))], axis=-1)

    of_nodes, of_records = draws(MixingMeasure(120), 1.0), draws(MixingMeasure(120), 0.0)
    assert not np.array_equal(of_nodes, of_records)
    assert_means_agree(of_nodes, of_records, what="nodes")
    with pytest.raises(Disagreement):
        assert_means_agree(draws(HeavyNodes(120), 1.0), of_records, min_ess=400, what="twin")


# --- tables and steps ------------------------------------------------------------------------------------------------


def walk_of(mechanism, n=40):
    z = mechanism.folded(mechanism.privatize(two_features(n), random_state=4))
    channel = mechanism._lower(n_records=n, n_features=2)
    noise = channel.noise[0]
    ends = [np.exp(mechanism.log_noise(z[:, j] - end, noise)) for j in (0, 1) for end in BOUNDS[j]]
    kernel = NormalKernel(0.3, 0.5, 3.0, 2.0)._lower(n_features=2)
    chart, state = chart_of(kernel), new_state(4)
    state.ints[N_ATOMS], state.mass[:3] = 3, (0.5, 0.2, 0.4)
    masses = DirichletMasses(DirichletProcess()._lower())
    law = law_of(chart, masses, n, np.zeros(2), np.ones(2))
    state.place[:3] = [-4.0, 0.2, 1.5, -0.5], [0.5, 0.9, -2.0, 0.3], [4.0, -0.3, 1.0, -0.2]
    walk = Walk.of(state, np.vstack([z.T, np.ones(n)]), np.array(ends), law, masses.value())
    for k in range(3):
        fill(channel, walk, k)
    refresh(walk)
    return walk, channel, chart.value()


@pytest.mark.parametrize("n", [5, 43])
def test_nodes_that_fill_a_register_say_nothing(n):
    """Of 43 nodes a walk makes 48; if they had weights, it would be seen."""
    walk, _, _ = walk_of(MECHANISMS[0], n)
    assert walk.n_nodes == (48 if n == 43 else 5)
    mixture = sum(walk.atoms[at(walk, k)] * walk.tables[row(walk, k) :][:n] for k in range(3))
    expected = np.sum(np.log(mixture)) - n * log(walk.law[TOTAL])
    assert walk.law[LOG_LIKELIHOOD] == pytest.approx(expected, rel=1e-12)
    walk.weights[n:] = 1.0
    refresh(walk)
    assert (walk.law[LOG_LIKELIHOOD] != pytest.approx(expected, rel=1e-3)) == (n == 43)


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
@pytest.mark.parametrize("j", [0, 1])
def test_one_factor_is_as_good_as_all(mechanism, j):
    walk, channel, _ = walk_of(mechanism)
    one, other, size = 2 * walk.capacity, 2 * walk.capacity + 1, walk.n_rows * walk.n_nodes
    for k in (one, other):
        walk.atoms[at(walk, k) : at(walk, k) + walk.width] = walk.atoms[: walk.width]
        walk.atoms[at(walk, k) + 1 + 2 * j] += 0.7
    fill(channel, walk, one)
    fill_feature(channel, walk, other, 0, j)
    copy_feature(walk, 0, other, j)
    np.testing.assert_array_equal(walk.tables[row(walk, one) :][:size], walk.tables[:size])
    copy_feature(walk, 0, 1, j)  # the twin: of an atom that differs in the other feature, too
    fill(channel, walk, 1)
    assert not np.array_equal(walk.tables[row(walk, 1) :][:size], walk.tables[:size])


@pytest.mark.parametrize("n", [40, 3000])
@pytest.mark.parametrize("moving", [(1, 4), (1, 2), (3, 2)])
def test_gradients_are_slopes(moving, n, monkeypatch):
    """Of the log density, by differences; forgotten factors of the other feature make them others.

    Of many nodes scores are kept of some only.
    """
    walk, channel, chart = walk_of(MECHANISMS[0], n)
    first, n_moving = moving
    walk.fence[_steps.FIRST], walk.fence[_steps.N_MOVING] = first, n_moving

    def log_density(e, step):
        a = at(walk, 1) + e
        before = walk.atoms[a]
        walk.atoms[a] = before + step if e > 0 else before * exp(step)
        fill(channel, walk, 1)
        refresh(walk)
        value = walk.law[LOG_LIKELIHOOD] + log_tilt(walk, 3, walk.law[TOTAL]) + chart.log_base(walk, 1)
        walk.atoms[a] = before
        fill(channel, walk, 1)
        refresh(walk)
        return value

    wanted = [0, *range(first, first + n_moving)]
    slopes = [(log_density(e, 1e-5) - log_density(e, -1e-5)) / 2e-5 for e in wanted]
    found = gradient(chart, walk, n_moving)
    np.testing.assert_allclose(found, slopes, rtol=1e-4, atol=1e-5 * n / 40)
    monkeypatch.setattr(NormalChart, "add_slope", Chart.add_slope)
    assert np.max(np.abs(gradient(walk_of(MECHANISMS[0], n)[2], walk, n_moving) - slopes)) > 0.1


def gradient(chart, walk, n_moving):
    _steps.fill_geometry(chart, walk, 1, 1, 1, walk.mix, walk.law[TOTAL])
    return walk.gradient[: 1 + n_moving].copy()


def test_spread_of_a_population():
    """What the records were made with is found again, given nodes for 20,000 of them."""
    mechanism = LaplaceMechanism(epsilon=20.0, bounds=BOUNDS)
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=150, n_draws=150, random_state=0)
    model.fit(mechanism.privatize(two_features(20_000), random_state=1))
    assert isinstance(model.sampler_, MixingMeasure)
    assert 0.0 < model.compression_error_ < 0.05
    x = np.array([[-5.0, 2.0], [0.0, -3.0], [5.0, 1.0]])
    found = np.exp(model.score_samples(x))
    np.testing.assert_allclose(found, norm.pdf(0) / 0.6 * norm.pdf(0) / 3, rtol=0.15)


def test_cells_without_records_are_not_made(monkeypatch):
    """Catches edges of all cells up to one far record, gigabytes of them; nodes are those of all cells."""
    z = np.sort(np.append(np.random.default_rng(0).normal(40.0, 10.0, 1000), 1e5))
    records = Nodes(z, np.ones(len(z)))
    of_all = compress(records, cell_edges(z[0], z[-1], z[0], z[-1], 0.5))
    monkeypatch.setattr(of_line, "MOST_EDGES", 1000)
    edges = cell_edges(z[0], z[-1], z[0], z[-1], 0.5, places=z)
    assert len(edges) < 500
    for found, expected in zip(compress(records, edges), of_all, strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9)
    z[-1] = 1e18
    assert len(cell_edges(z[0], z[-1], z[0], z[-1], 0.5, places=z)) < 500


def test_no_record_is_lost_far_from_zero():
    """Where rounding leaves records beyond the edges of their cells, nodes that are there, too, count."""
    rng = np.random.default_rng(0)
    z = np.sort(1e9 + 1e-3 * rng.standard_normal(20_000))  # 10,000 numbers to a standard deviation
    places, weights = np.unique(z, return_counts=True)
    for width in (1e-3, 1e-4, 1e-5):
        found = compress(Nodes(places, weights * 1.0), cell_edges(z[0], z[-1], z[0], z[-1], width))
        assert found.weights.sum() == pytest.approx(20_000, abs=1e-6)
        assert found.weights @ (found.places - 1e9) == pytest.approx((z - 1e9).sum(), abs=1e-3)


def test_boxes_of_many_records_go_in_parts(monkeypatch):
    """A part of a box in which one feature does not vary keeps the moments of both, too."""
    monkeypatch.setattr(nodes_of_several, "AT_ONCE", 300)
    rng = np.random.default_rng(0)
    records = rng.normal(size=(5000, 2))
    records[:2000, 1] = 0.5
    kept, weights = compress_boxes(records, np.zeros(5000))
    values = moments(records)
    assert len(kept) <= values.shape[1]
    np.testing.assert_allclose(weights @ values[kept], values.sum(axis=0), atol=1e-9 * 5000)


def test_memory_does_not_grow_with_moments():
    records = np.random.default_rng(0).normal(size=(100_000, 2))
    tracemalloc.start()
    compress_boxes(records, np.zeros(100_000))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 20 * records.nbytes


def test_the_last_two_layouts_are_kept():
    """A layout that is tried is often the next one, and takes a second for 10⁵ records."""
    release, made = Release(two_features(10), MECHANISMS[0]), []
    for key in (1, 2, 1, 2, 3, 2, 1):
        assert release.remembered(key, lambda made_for=key: made.append(made_for) or made_for) == key
    assert made == [1, 2, 3, 1]
