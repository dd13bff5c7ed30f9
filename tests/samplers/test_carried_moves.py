"""Moves that carry records along, of correlated features: each keeps the prior of partition, parameters and records.

In plain Python, under a channel that says nothing, so that a broken twin is one function in place of another.
"""

from math import log

import numpy as np
import pytest
from scipy.stats import invwishart, ks_2samp, multivariate_normal

from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix.kernels import MultivariateNormalKernel
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import Imputed
from sklearn_dpmix.samplers.mixture._places import (
    CONCENTRATION,
    MOVES_STEPS,
    N_BINS,
    N_CLUSTERS,
    N_SLOTS,
    RESCALING_STEPS,
)
from sklearn_dpmix.samplers.mixture._state import compact, new_state
from sklearn_dpmix.samplers.mixture.moves import _rescaling
from sklearn_dpmix.samplers.mixture.moves._noncentred import noncentred_moves
from sklearn_dpmix.samplers.mixture.moves._split_merge import sort_records, split_merge, try_merge, try_split

N_RECORDS, N = 5, 1500
PRIOR = {"mean": [0.3, -1.0], "mean_precision": 0.5, "dof": 6.0, "scale": [[2.0, 0.5], [0.5, 1.0]]}
MIXING = DirichletProcess(1.5)._lower()


class Channel:
    """Says nothing of the records."""

    def log_weight(self, kernel, Z, i, j, theta, k, y):
        return 0.0

    def cache(self, kernel, theta, k):
        pass


def draw_state(rng, kernel):
    """A partition of the urn, parameters, and records given both."""
    sizes = MultivariateNormalKernel(**PRIOR).sizes(2)
    state = new_state(N_RECORDS, 1, 2, *sizes, order=True)
    state.floats[MOVES_STEPS : MOVES_STEPS + 2 * N_BINS] = state.floats[RESCALING_STEPS : RESCALING_STEPS + 2] = -0.5
    state.floats[CONCENTRATION], counts = MIXING.start, []
    for i in range(N_RECORDS):
        k = rng.choice(len(counts) + 1, p=np.append(counts, MIXING.start) / (i + MIXING.start))
        counts = [*counts, 0] if k == len(counts) else counts
        counts[k] += 1
        state.alloc[i] = k
    state.counts[: len(counts)], state.counts[len(counts) :] = counts, 0.0
    state.ints[N_SLOTS] = state.ints[N_CLUSTERS] = len(counts)
    for k in range(len(counts)):
        kernel.draw_prior(rng, state.theta, k)
    for i in range(N_RECORDS):
        kernel.draw_record(rng, state.theta, state.alloc[i], state.records, i, 0)
    return state


def summary(state):
    """Of record 0, of its cluster, and of all."""
    k, y = state.alloc[0], state.records[:N_RECORDS, 0]
    mean, sd, root = state.theta[k, 0:8:4], state.theta[k, 1:8:4], state.theta[k, 11:14]
    of_cluster = state.counts[k], *mean, *np.log(sd), root[1] / root[2], *(y[0] - mean) / sd
    return [state.ints[N_CLUSTERS], *of_cluster, *y[0], y[0] @ y[1], *np.log(y.std(axis=0)), *y.mean(axis=0)]


def p_value(move, kernel=MultivariateNormalKernel, seed=0, n_moves=2, n=N):
    """The least p-value of two-sample tests of moved draws of the prior against others."""
    rng, kernel = np.random.default_rng(seed), kernel(**PRIOR)._lower(n_features=2)
    found = np.zeros((2, n, 16))
    for t in range(n):
        for moved in (0, 1):
            state = draw_state(rng, kernel)
            for _ in range(n_moves * moved):
                sort_records(state)
                move(rng, kernel, state)
            found[moved, t] = summary(state)
    before, after = found
    return min(ks_2samp(a, b).pvalue for a, b in zip(before.T, after.T, strict=True))


SAMPLER = Imputed()


def near_splits(rng, kernel, state):
    for _ in range(4):
        move = try_split if rng.random() < 0.5 else try_merge
        move(SAMPLER, rng, Channel(), kernel, MIXING, None, state, True)
    compact(state)


MOVES = {
    "noncentred": lambda rng, kernel, state: noncentred_moves(SAMPLER, rng, Channel(), kernel, None, state, False),
    "splits": lambda rng, kernel, state: split_merge(SAMPLER, rng, 4, Channel(), kernel, MIXING, None, state),
    "near splits": lambda rng, kernel, state: near_splits(rng, kernel, state),
    "rescaling": lambda rng, kernel, state: _rescaling.rescale_all(rng, Channel(), kernel, None, state, False),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MOVES)
def test_moves_keep_the_prior(name):
    assert p_value(MOVES[name]) > 1e-6


class OneDegreeMore(MultivariateNormalKernel):
    """The prior of steps has one degree of freedom more."""

    right = MultivariateNormalKernel.log_prior_cluster

    @compiled
    def log_prior_cluster(self, theta, k):
        return self.right(theta, k) + 2.0 * theta[k, self.at_log_det]


class AnotherConstant(MultivariateNormalKernel):
    """Eight times the density of G0."""

    right = MultivariateNormalKernel.log_prior_cluster

    @compiled
    def log_prior_cluster(self, theta, k):
        return self.right(theta, k) + log(8.0)


class RecordsStay(MultivariateNormalKernel):
    """Records do not go along."""

    @compiled
    def carry_record(self, theta, k, to, records, i):
        pass


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "twin", "n_moves", "n"),
    [
        ("noncentred", OneDegreeMore, 10, N),
        ("noncentred", RecordsStay, 10, N),
        ("near splits", AnotherConstant, 20, 500),
    ],
)
def test_broken_moves_do_not(name, twin, n_moves, n):
    assert p_value(MOVES[name], twin, n_moves=n_moves, n=n) < 1e-6


@pytest.mark.slow
def test_rescaling_need_their_jacobian(monkeypatch):
    """Clusters' means are spread as if that changed no volume: e^spread once a cluster is left out."""

    class WithoutJacobian(MultivariateNormalKernel):
        right = MultivariateNormalKernel.log_prior_change

        @compiled
        def log_prior_change(self, theta, k, to):
            row = self.at_root + 2  # L_22: only the second feature's is forgotten
            return self.right(theta, k, to) - log(theta[to, row] / theta[k, row])

    assert p_value(MOVES["rescaling"], WithoutJacobian, n_moves=10) < 1e-6


def test_the_prior_of_steps():
    """Against SciPy, with the Jacobian of Σ = L L' in log L_ii and L_ij/L_ii: 2^d Π L_ii^(d - i + 2) L_ii^(i - 1)."""
    for d, dof in ((1, 3.0), (2, 6.0), (3, 7.5)):
        rng = np.random.default_rng(d)
        A = rng.standard_normal((d, d))
        prior = {"mean": rng.standard_normal(d), "mean_precision": 0.7, "dof": dof, "scale": A @ A.T + np.eye(d)}
        component = MultivariateNormalKernel(**prior)
        kernel, theta = component._lower(n_features=d), np.zeros((4, component.sizes(d)[0]))
        for _ in range(20):
            kernel.draw_prior(rng, theta, 0)
            L = np.zeros((d, d))
            L[np.tril_indices(d)] = theta[0, kernel.at_root : kernel.at_root + d * (d + 1) // 2]
            S, mean = L @ L.T, theta[0, 0 : 4 * d : 4]
            expected = invwishart.logpdf(S, dof, prior["scale"]) + d * log(2.0) + (d + 1) * np.log(np.diag(L)).sum()
            expected += multivariate_normal.logpdf(mean, prior["mean"], S / prior["mean_precision"])
            np.testing.assert_allclose(kernel.log_prior_cluster(theta, 0), expected, rtol=1e-9)
            kernel.perturb_cluster(rng, theta, 0, 1, 0.0, 0.0)
            np.testing.assert_allclose(theta[1], theta[0], rtol=1e-9, atol=1e-12)
            kernel.rescale(theta, 0, 1, d - 1, 0.4, 0.3)
            kernel.rescale(theta, 1, 2, d - 1, -0.4 * np.exp(-0.3), -0.3)
            np.testing.assert_allclose(theta[2], theta[0], rtol=1e-9, atol=1e-12)
