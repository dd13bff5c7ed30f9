"""Chains as values: the draws depend on the seed and the data only, whatever runs, stops or resumes the chains."""

import copy
import os
import pickle
import signal
import threading
from contextlib import contextmanager

import joblib
import numpy as np
import pytest
from chain_fits import MECHANISM, RELEASE, assert_same_fit, mixture
from sklearn.base import clone

import sklearn_dpmix
from sklearn_dpmix._chains import chain as chain_module
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import N_SWEEPS

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


# --- the draws depend on the seed and the data only ------------------------------------------------------------------


@pytest.mark.parametrize("n_jobs", [2, -1])
def test_draws_do_not_depend_on_n_jobs(n_jobs):
    """Catches chains that share a generator, or a state array that two threads write."""
    assert_same_fit(mixture(n_jobs=n_jobs, n_chains=3).fit(RELEASE), mixture(n_chains=3).fit(RELEASE))


@pytest.mark.slow
@pytest.mark.parametrize("backend", ["threading", "loky"])
def test_draws_do_not_depend_on_the_joblib_backend(backend):
    """Catches a chain that does not survive pickling, and draws written to a copy in another process."""
    with joblib.parallel_config(backend=backend, n_jobs=2):
        fitted = mixture().fit(RELEASE)
    assert_same_fit(fitted, mixture().fit(RELEASE))


@contextmanager
def dask_client(processes):
    distributed = pytest.importorskip("distributed")
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=processes, dashboard_address=None, silence_logs=50
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def processes_of_dask():
    """Both tests' own: workers import the package first."""
    with dask_client(processes=True) as client:
        yield client


@pytest.mark.slow
def test_draws_do_not_depend_on_dask():
    """Catches a value that dask cannot send to a worker."""
    with dask_client(processes=False), joblib.parallel_config(backend="dask"):
        fitted = mixture().fit(RELEASE)
    assert_same_fit(fitted, mixture().fit(RELEASE))


@pytest.mark.slow
def test_draws_do_not_depend_on_processes_of_dask(processes_of_dask):
    """Catches a value that a worker numbs to another compiled type."""
    with joblib.parallel_config(backend="dask"):
        fitted = mixture().fit(RELEASE)
    assert_same_fit(fitted, mixture().fit(RELEASE))


@pytest.mark.slow
def test_a_dask_worker_that_is_killed_costs_a_block(processes_of_dask):
    """Catches state that lives in a worker: the chains go on from the blocks that came back, to the same draws."""
    client, timers = processes_of_dask, []

    def kill_one(progress, n_done, words=None):
        if not timers:  # a little later, while the next block runs
            pid = next(iter(client.run(os.getpid).values()))
            timers.append(threading.Timer(0.1, os.kill, (pid, signal.SIGKILL)))
            timers[0].start()

    with joblib.parallel_config(backend="dask"), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn_dpmix._chains.progress.Progress.__call__", kill_one)
        before = set(client.scheduler_info()["workers"])
        fitted = mixture(n_draws=10_000).fit(RELEASE)
        timers[0].join()
        assert set(client.scheduler_info()["workers"]) != before
    assert_same_fit(fitted, mixture(n_draws=10_000).fit(RELEASE))


@pytest.mark.parametrize(
    "sampler",
    ["auto", *(pytest.param(name, marks=pytest.mark.slow) for name in ("neal5", "slice", "conditional", "neal8"))],
)
def test_draws_do_not_depend_on_where_blocks_end(monkeypatch, sampler):
    """Catches a sweep that does something at the start of a block (a refresh, a tuning step, a drawn weight).

    With so many clusters that the state grows on the way.
    """
    params = {"sampler": sampler, "mixing": DirichletProcess(40.0)}
    monkeypatch.setattr(chain_module, "BLOCK_SECONDS", 1e9)
    reference = mixture(**params).fit(RELEASE)
    assert reference.n_clusters_draws_.max() > 32
    monkeypatch.setattr(chain_module, "BLOCK_SECONDS", 0.0)
    assert_same_fit(mixture(**params).fit(RELEASE), reference)
    warm = mixture(**params, n_draws=11).fit(RELEASE)
    assert_same_fit(warm.set_params(n_draws=30, warm_start=True).fit(RELEASE), reference)


@pytest.mark.parametrize("make", [int, np.random.default_rng, np.random.RandomState])
def test_random_state_of_any_kind_reproduces(make):
    """Catches a seed that is not used, or used for one of the chains only."""
    one, other = (mixture(random_state=make(7)).fit(RELEASE) for _ in range(2))
    assert_same_fit(one, other)
    assert not np.array_equal(one.n_clusters_draws_, mixture(random_state=make(8)).fit(RELEASE).n_clusters_draws_)
    assert not np.array_equal(one.n_clusters_draws_[0], one.n_clusters_draws_[1])


def test_generator_moves_on_and_no_seed_is_fresh():
    """Catches two fits with one generator that give the same draws, and a None that is a fixed seed."""
    generator = np.random.default_rng(0)
    one, other = (mixture(random_state=generator).fit(RELEASE) for _ in range(2))
    assert not np.array_equal(one.n_clusters_draws_, other.n_clusters_draws_)
    one, other = (mixture(random_state=None).fit(RELEASE) for _ in range(2))
    assert not np.array_equal(one.n_clusters_draws_, other.n_clusters_draws_)


def test_fit_leaves_numpys_global_generator_alone():
    """Catches a sampler that draws from, or seeds, the global generator."""
    before = np.random.mtrand._rand.__getstate__()["state"]
    mixture().fit(RELEASE)
    np.testing.assert_equal(np.random.mtrand._rand.__getstate__()["state"], before)


@pytest.mark.parametrize(("n_warmup", "n_draws", "thin"), [(20, 10, 3), (0, 50, 1), (7, 1, 43)])
def test_n_draws_thin_and_n_iter_count_sweeps(n_warmup, n_draws, thin):
    """Catches thinning that keeps n_draws/thin draws, and a warm-up that is counted in thinned sweeps."""
    fitted = mixture(n_warmup=n_warmup, n_draws=n_draws, thin=thin).fit(RELEASE)
    assert fitted.n_iter_ == 50
    assert fitted.n_clusters_draws_.shape == (2, n_draws)
    assert fitted.weights_draws_.shape[:2] == (2, n_draws)
    assert {chain.state.ints[N_SWEEPS] for chain in fitted._run_.chains} == {50}


# --- warm start ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("thin", [1, 3])
def test_warm_start_is_one_longer_run(thin):
    """Catches a warm start that starts a new chain, drops the earlier draws or warms up again."""
    warm = mixture(n_draws=10, thin=thin, warm_start=True).fit(RELEASE)
    for n_draws in (17, 17, 40):
        warm.set_params(n_draws=n_draws, n_jobs=2).fit(RELEASE)
        assert warm.n_clusters_draws_.shape == (2, n_draws)
    assert_same_fit(warm, mixture(n_draws=40, thin=thin).fit(RELEASE))


def test_warm_start_on_a_pickled_copy():
    """Catches state that lives outside the estimator."""
    warm = pickle.loads(pickle.dumps(mixture(n_draws=10).fit(RELEASE)))
    assert_same_fit(warm.set_params(n_draws=30, warm_start=True).fit(RELEASE), mixture(n_draws=30).fit(RELEASE))


def test_warm_start_on_a_fit_of_another_version_is_refused(monkeypatch):
    """Catches states that compiled code of another version takes as they are, and draws that are not of one run."""
    warm = pickle.loads(pickle.dumps(mixture(n_draws=10).fit(RELEASE)))
    monkeypatch.setattr(sklearn_dpmix, "__version__", "99")
    with pytest.raises(ValueError, match="but the version of sklearn_dpmix changed"):
        warm.set_params(n_draws=30, warm_start=True).fit(RELEASE)
    assert warm.n_clusters_draws_.shape == (2, 10)


@pytest.mark.parametrize(
    ("change", "named", "not_named"),
    [
        ({"mechanism__epsilon": 3.0}, "mechanism__epsilon", "mechanism,"),
        ({"mechanism": None}, "mechanism changed", "mechanism__epsilon"),
        ({"mixing": DirichletProcess(2.0)}, "mixing", "mixing__"),
        ({"n_warmup": 21, "thin": 2}, "n_warmup, thin", "n_draws"),
        ({"n_chains": 3}, "n_chains", "n_draws"),
        ({"random_state": 1}, "random_state", "n_draws"),
        ({"n_draws": 29}, "n_draws=29", "n_chains"),
    ],
)
def test_warm_start_names_what_changed_and_keeps_the_fit(change, named, not_named):
    """Catches a warm start that goes on under another model, and one that loses the last fit when it refuses."""
    warm = mixture(mechanism=clone(MECHANISM), warm_start=True).fit(RELEASE)
    warm.set_params(**change)
    before = dict(vars(warm))
    with pytest.raises(ValueError, match="warm_start") as error:
        warm.fit(RELEASE)
    assert named in str(error.value)
    assert not_named not in str(error.value)
    assert vars(warm) == before


def test_warm_start_notices_other_data():
    """Catches chains that go on with records of another release."""
    warm = mixture(warm_start=True).fit(RELEASE)
    other = RELEASE.copy()
    other[0] += 1e-9
    with pytest.raises(ValueError, match="the data changed"):
        warm.fit(other)
    assert_same_fit(warm.fit(RELEASE.tolist()), mixture().fit(RELEASE))


def test_cold_start_forgets_the_last_fit():
    """Catches attributes of an earlier fit with other parts that stay behind."""
    fitted = mixture(mixing=DirichletProcess(None, prior=(1.0, 1.0))).fit(RELEASE)
    assert fitted.concentration_draws_.shape == (2, 30)
    fitted.set_params(mixing=None, n_draws=5).fit(RELEASE)
    assert not hasattr(fitted, "concentration_draws_")
    assert "concentration" not in fitted.r_hat_
    assert fitted.n_clusters_draws_.shape == (2, 5)


# --- copies ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("duplicate", [lambda model: pickle.loads(pickle.dumps(model)), copy.deepcopy, copy.copy])
def test_copies_predict_the_same(duplicate):
    """Catches fitted state (a compiled value, a lambda, a lock) that does not survive a copy."""
    fitted = mixture().fit(RELEASE)
    assert_same_fit(duplicate(fitted), fitted)


def test_set_params_does_not_change_what_was_fitted():
    """Catches predictions that read a parameter, and not the part that was in force when the estimator was fitted."""
    fitted = mixture(mechanism=clone(MECHANISM), mixing=DirichletProcess()).fit(RELEASE)
    before = fitted.score_samples(RELEASE), fitted.score_release(RELEASE), fitted.predict(RELEASE)
    fitted.set_params(mechanism__epsilon=0.1, mixing__concentration=9.0)
    fitted.set_params(kernel="convolved_normal", sampler="neal2")
    for left, right in zip(
        before, (fitted.score_samples(RELEASE), fitted.score_release(RELEASE), fitted.predict(RELEASE))
    ):
        np.testing.assert_array_equal(left, right)
