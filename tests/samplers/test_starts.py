"""Where chains of the walk begin: near explanations of the release that few records would have, too."""

import numpy as np

from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.estimators.mixture._mixture_problem import MixtureProblem
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _starts
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import N_ATOMS, N_RECORDS

N = 100_000


def heavy_tail():
    """Problem of records of which 2 % are beyond bounds: one wide component explains both ends, or one for each end.

    The first is far likelier: it takes fewer components, and default fits all end there.
    """
    records = 50.0 + 8.0 * np.random.default_rng(0).standard_t(2, (N, 1))
    mechanism = LaplaceMechanism(epsilon=50.0, bounds=(0, 100))
    release = Release(mechanism.privatize(records, random_state=1), mechanism)
    kernel = NormalKernel(mean=50.0, mean_precision=0.1, shape=2.0, scale=50.0)
    return MixtureProblem(release, mechanism, kernel, DirichletProcess(), MixingMeasure(n_moves=200))


def n_wide(problem, n_starts=24):
    """How many chains have the wide component after 50 sweeps."""
    sampler, seen, found = problem.sampler, problem.seen, 0
    for seed in range(n_starts):
        rng = np.random.default_rng(seed)
        state = sampler.init(problem.values, seen, None, None, rng)
        state, _ = sampler.advance(problem.values, seen, state, rng, 50, 50, 1)
        n = state.ints[N_ATOMS]
        found += np.any((state.mass[:n] > 0.06) & (state.place[:n, 1] > 2.0 * np.log(30.0)))
    return found


def test_chains_begin_near_the_likelier_explanation(monkeypatch):
    """Of 24, most; where all records count from the first sweep on, the others are held by the other one."""
    problem = heavy_tail()
    assert n_wide(problem) >= 17
    monkeypatch.setattr(_starts, "EASY", 2.0 * N)
    assert n_wide(problem) <= 13


def test_a_lighter_release_has_that_share_of_the_log_likelihood():
    seen = heavy_tail().seen
    lighter = seen.lighter(0.25)
    np.testing.assert_array_equal(lighter.weights, 0.25 * seen.weights)
    assert lighter.law[N_RECORDS] == 0.25 * seen.law[N_RECORDS] == 0.25 * N
    np.testing.assert_array_equal(lighter.nodes[:-1], seen.nodes[:-1])
