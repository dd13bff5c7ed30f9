"""What is kept beside releases of correlated normals, drawn anew: the records' law given one atom, by a grid."""

import numpy as np
import pytest
from scipy import stats
from statistical import ALPHA
from test_correlated_atoms import SCALES, law_of, walk_of

from sklearn_dpmix._base.compiled import apart, entry, helper
from sklearn_dpmix.kernels import MultivariateNormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.samplers.mixture.measure import _hidden_variances
from sklearn_dpmix.samplers.mixture.measure._correlated_hidden import CorrelatedHiddenChart
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import BY_RESIDUALS, N_ATOMS

LOW, HIGH, EACH, N_ROUNDS = -0.5, 0.6, 400, 200
PLACE = np.array([0.3, -0.4, -0.2, -0.3, 0.9])  # of the atom
RELEASES = np.array([[0.0, 0.1], [0.55, -0.45], [0.9, 0.2], [0.7, -1.2]])
NOISES = [
    LaplaceMechanism(scale=0.3, bounds=(LOW, HIGH)),
    LaplaceMechanism(scale=0.1, bounds=(LOW, HIGH)),
    GaussianMechanism(scale=0.3, bounds=(LOW, HIGH)),
]


def rounds_of(exchange):
    """A compiled function that draws what is kept anew, so many times over."""

    @entry
    def rounds(chart, channel, walk, rng, n):
        for _ in range(n):
            exchange(rng, channel, chart, walk)

    return rounds


def problem(mechanism):
    """(Values of a chart and a channel, a walk with one atom and many copies of each release, μ, Σ, L)."""
    kernel = MultivariateNormalKernel([0.1, 0.2], 0.8, 6.0, SCALES[2])._lower(n_features=2)
    Z = np.repeat(RELEASES, EACH, axis=0)
    channel = mechanism._lower(n_records=len(Z), n_features=2)
    chart = CorrelatedHiddenChart(kernel, 2, channel)
    kept = chart.kept(mechanism.near(Z.T), chart.lookup(mechanism, Z.T))
    walk = walk_of(chart, mechanism, Z, PLACE, kept)
    walk.law[N_ATOMS] = 1.0
    return chart.value(), channel, walk, *law_of(chart, walk, 2)


def expected(mechanism, z, mean, covariance):
    """Means of x_1, x_2, x_1², x_2² and x_1 x_2 given a release, by a grid."""
    axes = [m + np.sqrt(v) * np.linspace(-7.0, 7.0, 1401) for m, v in zip(mean, np.diag(covariance), strict=True)]
    x, y = np.meshgrid(*axes, indexing="ij")
    noise = stats.laplace if isinstance(mechanism, LaplaceMechanism) else stats.norm
    w = stats.multivariate_normal(mean, covariance).pdf(np.stack([x, y], axis=-1))
    for axis, place in zip((x, y), z, strict=True):
        w *= noise.pdf(place, np.clip(axis, LOW, HIGH), mechanism.scale)
    w /= w.sum()
    return np.array([(w * part).sum() for part in (x, y, x * x, y * y, x * y)])


def gaps(mechanism, exchange):
    """Distances of the five means from these, in standard errors: (releases, 5)."""
    rounds, rng = rounds_of(exchange), np.random.default_rng(3)
    chart, channel, walk, mean, covariance, root = problem(mechanism)
    total, n_seen = np.zeros((5, len(RELEASES) * EACH)), 0
    rounds(chart, channel, walk, rng, 41)  # an odd number of turns from variances: residuals are kept
    for _ in range(N_ROUNDS):
        assert walk.law[BY_RESIDUALS] == 1.0
        x, y = mean[:, None] + root @ walk.residuals.reshape(2, -1)
        total += np.array([x, y, x * x, y * y, x * y])
        n_seen += 1
        rounds(chart, channel, walk, rng, 2)
    found = (total / n_seen).reshape(5, len(RELEASES), EACH)  # of each record, which are independent
    truth = np.array([expected(mechanism, z, mean, covariance) for z in RELEASES])
    return (found.mean(axis=2).T - truth) / (found.std(axis=2).T / np.sqrt(EACH))


@pytest.mark.slow
@pytest.mark.parametrize("mechanism", NOISES, ids=["laplace", "narrow laplace", "gaussian"])
def test_records_have_their_law_given_releases(mechanism):
    """Catches a record, a residual or a variance that is drawn from another law than that given the others."""
    most = stats.norm.isf(ALPHA / 2)
    assert np.all(np.abs(gaps(mechanism, _hidden_variances.exchange)) < most)


@pytest.mark.slow
def test_steps_of_records_that_are_kept_are_rejected(monkeypatch):
    """A step chosen by what is kept has another law: records beyond a bound were pulled inwards."""

    def is_kept(channel, walk, m):
        n, d = walk.n_nodes, walk.n_features
        return min(walk.records[d * n + m], walk.records[(d + 1) * n + m]) == 0.0

    monkeypatch.setattr(_hidden_variances, "is_near_bound", helper(is_kept))
    twin = apart(_hidden_variances.exchange.py_func)
    assert np.max(np.abs(gaps(NOISES[0], twin))) > 2.0 * stats.norm.isf(ALPHA / 2)
