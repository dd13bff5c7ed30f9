"""What is kept beside releases of correlated normals: the records' law given one atom, by weighted draws."""

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
PLACES = {2: [0.3, -0.4, -0.2, -0.3, 0.9], 3: [0.3, -0.4, -0.2, -0.3, 0.5, 0.1, 0.9, -0.6, 0.4]}  # of the atom
RELEASES = np.array([[0.0, 0.1, 0.5], [0.55, -0.45, 0.2], [0.9, 0.2, -0.4], [0.7, -1.2, 0.9]])
CASES = {
    "laplace": (LaplaceMechanism(scale=0.3, bounds=(LOW, HIGH)), 2),
    "narrow laplace": (LaplaceMechanism(scale=0.1, bounds=(LOW, HIGH)), 2),
    "gaussian": (GaussianMechanism(scale=0.3, bounds=(LOW, HIGH)), 2),
    "three features": (LaplaceMechanism(scale=0.4, bounds=(LOW, HIGH)), 3),
}
MOST = stats.norm.isf(ALPHA / 2)


def rounds_of(exchange):
    """A compiled function that draws what is kept anew, so many times over."""

    @entry
    def rounds(chart, channel, walk, rng, n):
        for _ in range(n):
            exchange(rng, channel, chart, walk)

    return rounds


def problem(mechanism, d):
    """(Values of a chart and a channel, a walk with one atom and many copies of each release, μ, Σ, L)."""
    kernel = MultivariateNormalKernel(np.linspace(0.1, 0.3, d), 0.8, d + 4.0, SCALES[d])._lower(n_features=d)
    Z = np.repeat(RELEASES[:, :d], EACH, axis=0)
    channel = mechanism._lower(n_records=len(Z), n_features=d)
    chart = CorrelatedHiddenChart(kernel, d, channel)
    kept = chart.kept(mechanism.near(Z.T), chart.lookup(mechanism, Z.T))
    walk = walk_of(chart, mechanism, Z, np.array(PLACES[d]), kept)
    walk.law[N_ATOMS] = 1.0
    return chart.value(), channel, walk, *law_of(chart, walk, d)


def moments(x):
    """Features (d, n), their squares, and the product of the first and the last."""
    return np.vstack([x, x**2, x[:1] * x[-1:]])


def expected(mechanism, z, mean, root):
    """Means of these given a release, by weighted draws; and their errors."""
    x = mean[:, None] + root @ np.random.default_rng(0).standard_normal((len(mean), 2_000_000))
    noise = stats.laplace if isinstance(mechanism, LaplaceMechanism) else stats.norm
    w = noise.pdf(z[:, None], np.clip(x, LOW, HIGH), mechanism.scale).prod(axis=0)
    w /= w.sum()
    found = moments(x)
    return found @ w, np.sqrt(((found - (found @ w)[:, None]) ** 2) @ w**2)


def gaps(mechanism, d, exchange):
    """Distances of the means from these, in standard errors: (releases, moments)."""
    rounds, rng = rounds_of(exchange), np.random.default_rng(3)
    chart, channel, walk, mean, _, root = problem(mechanism, d)
    total = 0.0
    rounds(chart, channel, walk, rng, 41)  # an odd number of turns from variances: residuals are kept
    for _ in range(N_ROUNDS):
        assert walk.law[BY_RESIDUALS] == 1.0
        total += moments(mean[:, None] + root @ walk.residuals.reshape(d, -1))
        rounds(chart, channel, walk, rng, 2)
    found = (total / N_ROUNDS).reshape(2 * d + 1, len(RELEASES), EACH)  # of each record, which are independent
    truth, error = np.array([expected(mechanism, z, mean, root) for z in RELEASES[:, :d]]).transpose(1, 2, 0)
    return (found.mean(axis=2) - truth) / np.hypot(error, found.std(axis=2) / np.sqrt(EACH))


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_records_have_their_law_given_releases(name):
    """Catches a record, a residual or a variance that is drawn from another law than that given the others."""
    assert np.all(np.abs(gaps(*CASES[name], _hidden_variances.exchange)) < MOST)


@pytest.mark.slow
def test_steps_of_records_that_are_kept_are_rejected(monkeypatch):
    """A step chosen by what is kept has another law: records beyond a bound were pulled inwards."""

    def is_kept(channel, walk, m):
        n, d = walk.n_nodes, walk.n_features
        return min(walk.records[d * n + m], walk.records[(d + 1) * n + m]) == 0.0

    monkeypatch.setattr(_hidden_variances, "is_near_bound", helper(is_kept))
    twin = apart(_hidden_variances.exchange.py_func)
    assert np.max(np.abs(gaps(*CASES["laplace"], twin))) > 2.0 * MOST
