"""Chains that are stopped keep whole blocks of draws; bars and callbacks follow the sweeps."""

import subprocess
import sys
import textwrap
import warnings
from typing import NamedTuple

import numpy as np
import pytest
from chain_fits import RELEASE, assert_same_fit, mixture
from sklearn.exceptions import NotFittedError

from sklearn_dpmix import PrivateDPMixtureRegressor
from sklearn_dpmix._chains import chain as chain_module
from sklearn_dpmix._chains.chain import run_chains, start_chains
from sklearn_dpmix.mixings import DirichletProcess

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


# --- interruption ----------------------------------------------------------------------------------------------------


class Interrupt:
    """A progress callback that raises KeyboardInterrupt at a number of sweeps."""

    def __init__(self, at):
        self.at = at

    def __call__(self, n_done):
        if n_done >= self.at:
            raise KeyboardInterrupt


@pytest.fixture
def interrupt_at(monkeypatch):
    """Make the next fit stop after some sweeps; single sweeps are blocks."""
    from sklearn_dpmix._chains import progress

    def arm(at):
        monkeypatch.setattr(chain_module, "BLOCK_SECONDS", 0.0)
        monkeypatch.setattr(progress.Progress, "__call__", lambda self, n_done: Interrupt(at)(n_done))
        return monkeypatch.undo

    return arm


@pytest.mark.parametrize("n_jobs", [None, 2])
def test_interrupt_keeps_what_was_drawn_and_warm_start_goes_on(interrupt_at, n_jobs):
    """Catches draws lost on Ctrl-C, chains of unequal length, and a resumed run that is not the uninterrupted one."""
    disarm = interrupt_at(33)
    with pytest.warns(RuntimeWarning, match="interrupted: kept 13 of n_draws=30 draws") as caught:
        partial = mixture(n_jobs=n_jobs).fit(RELEASE)
    disarm()
    assert caught[0].filename == __file__
    assert partial.n_iter_ == 33
    assert partial.n_clusters_draws_.shape == (2, 13)
    assert_same_fit(partial, mixture(n_draws=13).fit(RELEASE))
    assert_same_fit(partial.set_params(warm_start=True).fit(RELEASE), mixture().fit(RELEASE))


def test_interrupt_in_the_warm_up_raises_and_keeps_the_last_fit(interrupt_at):
    """Catches a fitted estimator with no draws."""
    fitted = mixture().fit(RELEASE)
    before = dict(vars(fitted))
    interrupt_at(20)
    with pytest.raises(KeyboardInterrupt, match="warm-up"):
        fitted.fit(RELEASE)
    assert vars(fitted) == before
    with pytest.raises(KeyboardInterrupt):
        (unfitted := mixture()).fit(RELEASE)
    with pytest.raises(NotFittedError):
        unfitted.predict(RELEASE)


class Count(NamedTuple):
    """A chain's state that counts its sweeps."""

    value: np.ndarray


class Counting:
    """A step whose draws are the sweeps' numbers, and which is interrupted at a call."""

    def __init__(self, at):
        self.calls, self.at = 0, at

    def __call__(self, state, rng, n_sweeps):
        self.calls += 1
        if self.calls == self.at:
            raise KeyboardInterrupt
        start = int(state.value)
        state.value[...] += n_sweeps
        return state, [*range(start, start + n_sweeps)]


@pytest.mark.parametrize("at", [1, 2, 3, 4, 5, 12, 15, 1000])
def test_interrupt_anywhere_leaves_whole_blocks(at):
    """Catches a block whose chains moved on but whose draws were not kept (or the reverse)."""
    chains = start_chains(np.random.SeedSequence(0), 3, lambda rng: Count(np.zeros(())))
    ended, blocks, n_done = run_chains(chains, Counting(at), 500)
    assert n_done == (500 if at == 1000 else n_done) < 501
    for chain, kept in zip(ended, blocks, strict=True):
        assert chain.state.value == n_done
        assert [number for block in kept for number in block] == [*range(n_done)]
    assert chains[0].state.value == 0


SCRIPT = """
    import os, signal, sys, threading, warnings
    import joblib, numpy as np
    from sklearn_dpmix import PrivateDPMixture
    from sklearn_dpmix._chains import chain as chain_module
    from sklearn_dpmix.datasets import make_three_normals
    from sklearn_dpmix._chains.progress import Progress
    from sklearn_dpmix.mechanisms import LaplaceMechanism

    mechanism = LaplaceMechanism(epsilon=20.0, bounds=(-10, 10))
    Z = mechanism.privatize(make_three_normals(60, random_state=0)[0], random_state=1)
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell may have started us with SIGINT ignored
    chain_module.BLOCK_SECONDS = 0.02

    def interrupted(backend, seconds):
        timer = threading.Timer(float(seconds), os.kill, (os.getpid(), signal.SIGINT))
        Progress.__call__ = lambda self, n_done: timer.ident or timer.start()  # from the first block on
        model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=0, n_draws=10_000_000, random_state=0, n_jobs=2)
        with joblib.parallel_config(backend=backend), warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            model.fit(Z)
        assert any("interrupted: kept" in str(w.message) for w in caught), [str(w.message) for w in caught]
        n_kept = model.n_clusters_draws_.shape[1]
        assert model.n_clusters_draws_.shape[0] == 2 and model.n_iter_ == n_kept, model.n_clusters_draws_.shape
        model.set_params(n_draws=n_kept + 50, warm_start=True).fit(Z)
        longer = PrivateDPMixture(mechanism, n_chains=2, n_warmup=0, n_draws=n_kept + 50, random_state=0).fit(Z)
        np.testing.assert_array_equal(model.n_clusters_draws_, longer.n_clusters_draws_)
        np.testing.assert_array_equal(model.weights_draws_, longer.weights_draws_)
        print("resumed after", n_kept, backend)

    interrupted(*sys.argv[1:3])
    interrupted(*sys.argv[3:5])
"""


@pytest.mark.slow
def test_sigint_keeps_what_was_drawn():
    """Catches a real Ctrl-C that kills the run, tears a block, or leaves worker threads that hang the process."""
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", textwrap.dedent(SCRIPT), "threading", "0.3", "loky", "0.5"],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert [line.split()[-1] for line in done.stdout.splitlines()] == ["threading", "loky"]


# --- progress --------------------------------------------------------------------------------------------------------


def test_verbose_shows_a_bar_on_stderr(capsys):
    """Catches a bar that counts blocks in place of sweeps, or that writes to stdout."""
    mixture(verbose=1).fit(RELEASE)
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "PrivateDPMixture" in captured.err
    assert "50/50" in captured.err
    mixture().fit(RELEASE)
    assert capsys.readouterr().err == ""


class Recorder:
    """A scikit-learn callback that counts what it is called for."""

    max_propagation_depth = None

    def __init__(self):
        self.begun, self.ended, self.open, self.of = [], [], 0, set()

    def setup(self, estimator, context):
        self.of.add(type(estimator).__name__)
        self.open += 1

    def on_fit_task_begin(self, estimator, context):
        self.begun.append((context.task_name, context.max_subtasks))
        self.of.add(type(estimator).__name__)

    def on_fit_task_end(self, estimator, context):
        self.of.add(type(estimator).__name__)
        self.ended.append((context.task_name, context.max_subtasks))

    def teardown(self, estimator, context):
        self.open -= 1

    def assert_of(self, name, n_sweeps):
        assert self.of == {name}
        assert self.open == 0
        assert sorted(self.begun) == sorted(self.ended)
        assert self.begun[0] == ("fit", n_sweeps)
        assert self.begun.count(("sweeps", 0)) == n_sweeps


def test_callbacks_follow_the_sweeps():
    """Catches a callback that is not set up or torn down, and ticks that do not add up to the announced number."""
    pytest.importorskip("sklearn.callback")
    recorder = Recorder()
    mixture().set_callbacks(recorder).fit(RELEASE)
    recorder.assert_of("PrivateDPMixture", 50)
    recorder = Recorder()
    with pytest.raises(ValueError, match="NaN"):
        mixture().set_callbacks(recorder).fit([[np.nan]])
    assert recorder.open == 0


def test_callbacks_of_the_regressor_follow_its_joint_mixture():
    """Catches callbacks that nobody calls, or that are called for the mixture that the regressor has inside."""
    pytest.importorskip("sklearn.callback")
    recorder, rng = Recorder(), np.random.default_rng(0)
    model = PrivateDPMixtureRegressor(linear=True, n_warmup=20, n_draws=30, random_state=0)
    model.set_callbacks(recorder).fit(rng.normal(size=(20, 1)), rng.normal(size=20))
    recorder.assert_of("PrivateDPMixtureRegressor", 50)
    assert not hasattr(model._joint_, "_part_of")


def test_interrupt_from_a_callback_keeps_the_draws(monkeypatch):
    """Catches a callback whose KeyboardInterrupt is taken for an error of the fit."""
    pytest.importorskip("sklearn.callback")
    monkeypatch.setattr(chain_module, "BLOCK_SECONDS", 0.0)

    class Stop(Recorder):
        def on_fit_task_end(self, estimator, context):
            super().on_fit_task_end(estimator, context)
            if len(self.ended) == 40:
                raise KeyboardInterrupt

    with pytest.warns(RuntimeWarning, match="interrupted: kept 20"):
        partial = mixture().set_callbacks(stop := Stop()).fit(RELEASE)
    assert stop.open == 0
    assert_same_fit(partial, mixture(n_draws=20).fit(RELEASE))


def test_progress_bar_of_scikit_learn(capsys):
    """Catches a task tree that scikit-learn's own callback does not understand."""
    callback = pytest.importorskip("sklearn.callback")
    pytest.importorskip("rich")
    from sklearn.model_selection import GridSearchCV
    from sklearn.pipeline import make_pipeline

    mixture().set_callbacks(callback.ProgressBar()).fit(RELEASE)
    assert "PrivateDPMixture - fit" in capsys.readouterr().out
    pipeline = make_pipeline(mixture()).set_callbacks(callback.ProgressBar(max_propagation_depth=None))
    assert "PrivateDPMixture - fit" in (pipeline.fit(RELEASE), capsys.readouterr().out)[1]
    search = GridSearchCV(
        mixture(mixing=DirichletProcess()),
        {"mixing__concentration": [0.5, 2.0]},
        scoring=lambda model, Z, y=None: model.score_release(Z),
        cv=2,
    )
    search.set_callbacks(callback.ProgressBar(max_propagation_depth=None)).fit(RELEASE)
    assert "GridSearchCV - fit" in capsys.readouterr().out


def test_draws_stay_when_warnings_are_errors(interrupt_at):
    """Catches draws that are thrown away because a warning about them was turned into an error."""
    interrupt_at(33)
    model = mixture()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(RuntimeWarning, match="interrupted"):
            model.fit(RELEASE)
    assert model.n_clusters_draws_.shape == (2, 13)
