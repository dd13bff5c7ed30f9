"""Nodes of one feature: Gauss rules of the records of each cell."""

import numpy as np
import pytest
from summary_case import three_normals

from sklearn_dpmix import ReleaseSummary
from sklearn_dpmix._releases.nodes import Nodes, cell_edges, compress, gauss_rules
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture._run import Draws
from sklearn_dpmix.samplers.mixture.measure._compressed import Compressed
from sklearn_dpmix.samplers.mixture.measure._dirichlet_masses import DirichletMasses
from sklearn_dpmix.samplers.mixture.measure._normal_atoms import NormalChart
from sklearn_dpmix.samplers.mixture.measure._which_chart import law_of

MECHANISMS = [
    LaplaceMechanism(epsilon=10.0, bounds=(-10, 10)),
    LaplaceMechanism(epsilon=1.0, bounds=(-10, 10)),
    LaplaceMechanism(epsilon=5.0, bounds=(-10, 10), clamp=False),
    GaussianMechanism(epsilon=10.0, delta=1e-5, bounds=(-10, 10)),
    GaussianMechanism(epsilon=1.0, delta=1e-5, bounds=(-10, 10), clamp=False),
]


@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_nodes_stand_for_records(mechanism):
    """The log likelihood of random populations, of some narrow components too, to 10⁻⁵ of a unit of 30,000 records."""
    n, rng = 30_000, np.random.default_rng(3)
    Z = mechanism.privatize(three_normals(n), random_state=4)
    value, z = mechanism._lower(n_records=n, n_features=1), mechanism.folded(Z[:, 0])
    fine = ReleaseSummary(mechanism).update(Z).nodes()
    edges = cell_edges(fine.places[0], fine.places[-1], -17.0, 17.0, mechanism.node_spacing(0.42))
    nodes = compress(fine, edges)
    assert len(nodes.places) < 400
    np.testing.assert_allclose(nodes.weights.sum(), n, rtol=1e-12)
    assert np.all(nodes.weights > 0)
    np.testing.assert_allclose(nodes.weights @ nodes.places, z.sum(), atol=1e-7 * np.abs(z).sum())

    def seen(nodes):
        places = np.vstack([nodes.places, nodes.weights])
        return Compressed(chart, masses, places, mechanism.lookup(places[:-1]), places[:-1], law, False)

    kernel, masses = NormalKernel(0.0, 0.1, 3.0, 3.0)._lower(n_features=1), DirichletMasses(DirichletProcess()._lower())
    chart = NormalChart(kernel, 1, value)
    law = law_of(chart, masses, n, np.zeros(1), np.ones(1))
    records, twin = Nodes(z, np.ones(n)), nodes._replace(weights=nodes.weights * 1.0)
    twin.weights[len(z) % 7] *= 1.01
    draws = []
    for _ in range(10):
        weights = np.concatenate([0.7 * rng.dirichlet([9, 9, 9]), 0.3 * rng.dirichlet(np.ones(4))])
        sd = np.sqrt(3.0 / np.append(rng.standard_gamma(3.0, 6), 16.0))
        mean = np.append([-5, 0, 5], rng.uniform(-8, 8, 4))
        draws.append((weights, np.column_stack([mean, sd, 0.0 * sd, np.log(sd)])))
    whole = np.full(10, 7)
    draws = Draws(whole, whole, np.ones(10), *(np.concatenate(part) for part in zip(*draws, strict=True)))
    assert MixingMeasure().difference(seen(nodes), seen(records), draws) < 1e-5
    assert MixingMeasure().difference(seen(twin), seen(records), draws) > 1e-5  # one node's weight off by 1 %


def test_nodes_of_repeated_records():
    """Cells with fewer places than a rule has nodes, records on edges, and all records the same."""
    z = np.repeat([0.0, 0.25, 0.3, 1.0, 2.0, 7.0], [400, 300, 200, 7, 1, 50])
    nodes = compress(Nodes(z, np.ones(len(z))), cell_edges(0.0, 7.0, 0.0, 3.0, 1.0))
    for power in range(8):
        np.testing.assert_allclose(nodes.weights @ nodes.places**power, np.sum(z**power), rtol=1e-9)
    places, weights = gauss_rules(np.array([[100.0, *([100.0] * 15)]]))  # all records at 1
    assert weights[0].sum() == pytest.approx(100.0)
    assert places[0][weights[0] > 1e-9] == pytest.approx(1.0)
