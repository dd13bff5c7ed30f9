"""The walk over mixing measures under windows of each record's own ε: densities, nodes, the default fit.

Small posteriors are enumerated in ``test_exact_channels.py``.  Broken twins: windows of other records, an edge of the
cells that is forgotten.
"""

import numpy as np
import pytest
from test_window_nodes import BOUNDS, KINDS, adversaries, population

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import SquareWaveMechanism
from sklearn_dpmix.mechanisms._window import WindowChannel
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture._run import Draws
from sklearn_dpmix.samplers.mixture.measure import _node_layout
from sklearn_dpmix.samplers.mixture.measure._any_noise import with_densities
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_and_masses


def wrong_epsilons(seen):
    """Nodes whose windows are those of the node before."""
    lookup = seen.lookup.reshape(seen.chart.n_features, 4, -1).copy()
    lookup[:, 2:] = np.roll(lookup[:, 2:], 1, axis=2)
    return seen._replace(lookup=lookup.reshape(seen.lookup.shape))


@KINDS
@pytest.mark.parametrize("n_features", [1, 2])
def test_densities_of_records_with_their_own_epsilon(kind, n_features):
    """Catches an ε that is read in the wrong place: node by node, against a mechanism of that ε."""
    rng, n = np.random.default_rng(0), 5
    bounds, d = [BOUNDS, (0.0, 10.0)][:n_features], n_features
    for _ in range(40):
        epsilon, mean, log_variance = 10 ** rng.uniform(-1, 1, n), 2.0 * rng.standard_normal(), rng.uniform(-7, 4)
        own, out, expected = kind(epsilon, bounds), np.zeros(3 * n), np.zeros((3, n))
        x = own.privatize(rng.uniform(-3.0, 11.0, (n, d)), random_state=rng).T
        lookup = own.lookup(x, own.scales(n, d)).reshape(d, 4, n)
        nodes, value = np.hstack([x[:, None], lookup]), with_densities(own._lower(n_records=n, n_features=d))
        for j in range(d):
            value.fill_normal(j, nodes.ravel(), n, mean, log_variance, out, 0, n)
            for i in range(n):
                one, of_one = kind(epsilon[i], bounds), np.zeros(3)
                nodes_of_one = np.hstack([x[:, None, [i]], one.lookup(x[:, [i]]).reshape(d, 2, 1)]).ravel()
                of_all = one._lower(n_records=1, n_features=d)
                of_all.fill_normal(j, nodes_of_one, 1, mean, log_variance, of_one, 0, 1)
                expected[:, i] = of_one
            found = out.reshape(3, n)
            np.testing.assert_allclose(found[0], expected[0], rtol=1e-12)
            np.testing.assert_allclose(found[1:] / found[0], expected[1:] / expected[0], rtol=1e-11, atol=1e-13)


@KINDS
def test_nodes_stand_for_records_with_their_own_epsilon(kind, monkeypatch):
    """The log likelihood of random populations, to 10⁻⁴ of a unit of 6000 records; of many ε each record is a node."""
    n, sampler, draws, rng = 6000, MixingMeasure(50), narrow_draws(), np.random.default_rng(0)
    mechanism = kind(rng.choice([0.5, 2.0, 8.0], n), BOUNDS)
    Z = mechanism.privatize(population(n), random_state=4)
    channel, kernel = with_densities(mechanism._lower(n_records=n, n_features=1)), NormalKernel(0.4, 0.3, 3.0, 2.0)
    values = None, channel, kernel._lower(n_features=1), DirichletProcess()._lower()
    release, parts = Release(Z, mechanism), chart_and_masses(values)
    width = mechanism.node_spacing(parts[0].narrowest()[0])
    nodes = sampler.compressed(release, *parts, 0.5 * width)
    monkeypatch.setattr(_node_layout, "FEWER", 0.0)
    records = sampler.compressed(release, *parts, width)
    assert records.are_records and records.nodes.shape[1] == n
    assert not nodes.are_records and nodes.nodes.shape[1] < 1500
    np.testing.assert_allclose(nodes.weights.sum(), n, rtol=1e-11)
    assert sampler.difference(nodes, records, draws) < 1e-4
    assert sampler.difference(wrong_epsilons(nodes), records, draws) > 1.0
    kinks = WindowChannel.kinks
    monkeypatch.setattr(WindowChannel, "kinks", lambda self, n: np.delete(kinks(self, n), np.s_[2:3], axis=1))
    monkeypatch.setattr(_node_layout, "FEWER", 1.0)
    assert sampler.difference(sampler.compressed(release, *parts, 0.5 * width), records, draws) > 1.0


def test_rare_epsilons_leave_the_others_their_rules():
    n, rng = 6000, np.random.default_rng(0)
    epsilon = np.where(np.arange(n) < 5000, 2.0, rng.uniform(1.0, 4.0, n))
    mechanism = SquareWaveMechanism(epsilon, BOUNDS)
    values = None, mechanism._lower(n_records=n, n_features=1), NormalKernel(0.4, 0.3, 3.0, 2.0)._lower(n_features=1)
    release = Release(mechanism.privatize(population(n), random_state=4), mechanism)
    parts = chart_and_masses((*values, DirichletProcess()._lower()))
    nodes = MixingMeasure(50).compressed(release, *parts, mechanism.node_spacing(parts[0].narrowest()[0]))
    assert 1000 < nodes.nodes.shape[1] < 1600
    np.testing.assert_allclose(nodes.weights.sum(), n, rtol=1e-11)


def narrow_draws():
    """Populations of :func:`adversaries`, as draws."""
    found = [np.broadcast_arrays(*map(np.asarray, one)) for one in adversaries(0.3)]
    weights, means, sds = (np.concatenate(part) for part in zip(*found, strict=True))
    whole = np.array([len(one[0]) for one in found])
    theta = np.column_stack([means, sds, 0.0 * sds, np.log(sds)])
    return Draws(whole, whole, np.ones(len(whole)), weights, theta)


def test_default_fit_of_records_with_their_own_epsilon():
    """``"auto"`` walks, of one feature and of two; scores and labels are there for releases of another ε."""
    rng = np.random.default_rng(0)
    for d in (1, 2):
        X = rng.choice([20.0, 70.0], (300, d)) + rng.normal(0.0, 4.0, (300, d))
        mechanism = SquareWaveMechanism(rng.choice([2.0, 8.0], 300) * d, [(0, 100)] * d)
        Z = mechanism.privatize(X, random_state=1)
        model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=50, n_draws=200, random_state=0).fit(Z)
        assert isinstance(model.sampler_, MixingMeasure) and model.labels_.shape == (300,)
        assert np.abs(model.moment_draws()[0].mean(axis=(0, 1)) - X.mean(axis=0)).max() < 8.0
        with pytest.raises(ValueError, match="pass epsilon="):
            model.predict(Z[:2])
        assert model.predict(Z[:2], epsilon=4.0).shape == (2,)
