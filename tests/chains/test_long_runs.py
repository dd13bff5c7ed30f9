"""Long runs: one that was killed or stopped goes on to the draws of an uninterrupted one; or ends by itself."""

import json
import os
import resource
import subprocess
import sys
import textwrap
import threading
import zipfile

import numpy as np
import pytest
from damaged_archives import encrypted, open_header
from long_run_case import COINS, FITS, RECORDS, RELEASE, TIMES, draws_of, mixture, save_always, stop_at
from sklearn.base import clone

from sklearn_dpmix import (
    NaivePosterior,
    PrivateDPMixtureRegressor,
)
from sklearn_dpmix._chains import chain as chain_module
from sklearn_dpmix._chains import checkpoint, long_run
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


# --- killed, interrupted, failed -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", sorted(FITS))
@pytest.mark.parametrize("at", [9, 33])
def test_a_run_that_failed_goes_on_to_the_draws_of_one_run(name, at, tmp_path, monkeypatch):
    """Catches state, a generator or draws that are not in the file; in the warm-up and beyond, for every estimator."""
    save_always(monkeypatch)
    model, release = FITS[name]
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_at(patch, at, RuntimeError)  # an error: nothing is saved on the way out
        with pytest.raises(RuntimeError):
            clone(model).set_params(checkpoint=path).fit(release)
    assert _sweeps(path) == at - 1
    resumed = clone(model).set_params(checkpoint=str(path), n_jobs=2).fit(release)
    np.testing.assert_equal(draws_of(resumed), draws_of(clone(model).fit(release)))
    assert {entry.name for entry in tmp_path.iterdir()} == {"run", "run.lock"}


def _sweeps(path):
    with np.load(path) as arrays:
        return json.loads(arrays["header"].tobytes())["n_done"]


def test_interrupted_warm_up_is_in_the_file(tmp_path, monkeypatch):
    """Catches a Ctrl-C in the warm-up, which leaves no fit, that throws the sweeps away."""
    path = tmp_path / "run"
    with monkeypatch.context() as patch:
        stop_at(patch, 15)
        with pytest.raises(KeyboardInterrupt, match="warm-up"):
            mixture(checkpoint=path).fit(RELEASE)
    assert _sweeps(path) == 15
    np.testing.assert_equal(draws_of(mixture(checkpoint=path).fit(RELEASE)), draws_of(mixture().fit(RELEASE)))


def test_more_draws_go_on_from_a_finished_run(tmp_path, monkeypatch):
    """Catches a file that is only good for the run that wrote it, and one that warm_start overwrites with less."""
    path = tmp_path / "run"
    mixture(checkpoint=path).fit(RELEASE)
    short = mixture(n_draws=10, warm_start=True).fit(RELEASE)
    reference = draws_of(mixture(n_draws=45).fit(RELEASE))
    np.testing.assert_equal(draws_of(mixture(n_draws=45, checkpoint=path).fit(RELEASE)), reference)

    def fail(*args, **kwargs):
        raise AssertionError("a sweep was run again")

    monkeypatch.setattr(chain_module.Chain, "advance", fail)
    np.testing.assert_equal(draws_of(short.set_params(n_draws=45, checkpoint=path).fit(RELEASE)), reference)
    with pytest.raises(ValueError, match=r"checkpoint=.*n_draws=12, but there are 45"):
        mixture(n_draws=12, checkpoint=path).fit(RELEASE)


KILLED = """
    import os, signal, sys, tempfile, time, warnings
    import numpy as np
    from sklearn_dpmix import PrivateDPMixture, PrivateExpFamilyGibbs
    from sklearn_dpmix._chains import chain as chain_module
    from sklearn_dpmix._chains import checkpoint
    from sklearn_dpmix.datasets import make_three_normals
    from sklearn_dpmix.mechanisms import LaplaceMechanism

    path, kind = sys.argv[1:]
    warnings.simplefilter("ignore")
    times = {"n_chains": 2, "n_warmup": 100, "random_state": 0}
    if kind == "mixture":
        mechanism = LaplaceMechanism(epsilon=20.0, bounds=(-10, 10))
        release = mechanism.privatize(make_three_normals(60, random_state=0)[0], random_state=1)
        model, name = PrivateDPMixture(mechanism, n_draws=4000, **times), "weights_draws_"
    else:
        release, name = [13.0], "theta_draws_"
        model = PrivateExpFamilyGibbs(LaplaceMechanism(scale=2.0), family="binomial", n_records=20, **times)
        model.set_params(n_draws=60_000)
    reference = getattr(model.fit(release), name)
    checkpoint.SECONDS = checkpoint.SHARE = 0
    chain_module.BLOCK_SECONDS = 0.002  # a block is soon over, so that about every other kill meets a save
    with tempfile.TemporaryDirectory() as folder:
        started = time.monotonic()
        model.set_params(checkpoint=folder + "/run").fit(release)
        seconds = time.monotonic() - started
    model.set_params(checkpoint=path)
    rng, killed = np.random.default_rng(), 0
    while True:
        child = os.fork()
        if child == 0:
            same = np.array_equal(getattr(model.fit(release), name), reference)
            os._exit(0 if same else 3)
        if killed < 25:
            time.sleep(rng.uniform(0.0, seconds / 8))
            os.kill(child, signal.SIGKILL)
        _, status = os.waitpid(child, 0)
        if not os.WIFSIGNALED(status):
            break
        killed += 1
    assert os.WEXITSTATUS(status) == 0, status
    assert killed >= 3, killed
    left = sorted(os.listdir(os.path.dirname(path)))
    assert left == ["run", "run.lock"], left
    print("killed", killed)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
@pytest.mark.parametrize("kind", [pytest.param("mixture", marks=pytest.mark.nightly), "family"])
def test_killed_many_times_it_ends_with_the_draws_of_one_run(kind, tmp_path):
    """Catches a file that is half written when SIGKILL comes, a stale lock, and what a killed save leaves behind."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(KILLED), str(tmp_path / "run"), kind],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "killed" in done.stdout


# --- files that do not fit, or are damaged ---------------------------------------------------------------------------


@pytest.fixture
def finished(tmp_path):
    """The path of a finished run."""
    path = tmp_path / "run"
    mixture(checkpoint=path).fit(RELEASE)
    return path


def untouched(path, model, release, error, match):
    before = path.read_bytes()
    with pytest.raises(error, match=match):
        model.set_params(checkpoint=path).fit(release)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"n_chains": 3}, "n_chains changed"),
        ({"random_state": 1, "thin": 2}, "random_state, thin changed"),
        ({"mechanism__epsilon": 10.0}, "mechanism__epsilon changed"),
        ({"kernel": NormalKernel(mean=0.0)}, "kernel changed"),
    ],
)
def test_a_checkpoint_of_other_parameters_is_refused(finished, change, named):
    """Catches chains that go on under another model."""
    model = mixture(mechanism=clone(RECORDS)).set_params(**change)
    untouched(finished, model, RELEASE, ValueError, f"from another fit: .*{named}")


def test_a_checkpoint_of_other_data_another_estimator_or_version_is_refused(finished, monkeypatch):
    """Catches chains that go on with other records, and states that mean something else."""
    untouched(finished, mixture(), RELEASE[:-1], ValueError, "the data changed")
    model, release = FITS["family"]
    untouched(finished, clone(model), release, ValueError, "written by PrivateDPMixture")
    monkeypatch.setattr("sklearn_dpmix.__version__", "99.0")
    untouched(finished, mixture(), RELEASE, ValueError, "of 99.0")


@pytest.mark.parametrize("name", ["PrivateDPMixtureRegressor", "NaivePosterior"])
def test_files_and_bars_have_the_names_that_users_know(name, finished, capsys):
    """Catches the names of classes that are behind an estimator."""
    if name == "NaivePosterior":
        model, data = NaivePosterior(LaplaceMechanism(scale=2.0), family="binomial", n_records=20, **TIMES), ([13.0],)
    else:
        model, data = PrivateDPMixtureRegressor(GaussianMechanism(scale=0.5), **TIMES), (RELEASE, RELEASE[:, 0])
    model.set_params(verbose=1).fit(*data)
    assert f"{name}: 100%" in capsys.readouterr().err
    with pytest.raises(ValueError, match=f"written by PrivateDPMixture of .*, and this is {name} of"):
        model.set_params(checkpoint=finished).fit(*data)
    model.set_params(checkpoint=f"{finished}.own").fit(*data)
    with pytest.raises(ValueError, match=f"written by {name} of"):
        mixture(checkpoint=f"{finished}.own").fit(RELEASE)


def flip(data):
    at = data.index(b"theta") + 500
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


@pytest.mark.parametrize(
    "damage",
    [
        *(flip, open_header, encrypted),
        *(lambda data: data[: len(data) // 2], lambda data: b"", lambda data: b"not a checkpoint" * 99),
    ],
    ids=["a bit", "a header", "encrypted", "cut", "empty", "text"],
)
def test_a_damaged_file_is_refused_and_left(finished, damage):
    """Catches draws taken from a file whose checksum is wrong, and a damaged file that is overwritten or not named."""
    finished.write_bytes(damage(finished.read_bytes()))
    untouched(finished, mixture(n_draws=40), RELEASE, ValueError, "cannot be read.*it was left as it is")


def test_a_file_runs_no_code(finished, tmp_path):
    """Catches a loader that unpickles, or that imports what the file names."""
    ran = tmp_path / "ran"

    class Bomb:
        def __reduce__(self):
            return ran.write_text, ("",)

    with open(finished, "wb") as file:
        np.savez(file, header=np.array([Bomb()], dtype=object))
    untouched(finished, mixture(), RELEASE, ValueError, "cannot be read")
    assert not ran.exists()
    finished.unlink()
    mixture(checkpoint=finished).fit(RELEASE)
    with np.load(finished) as arrays:
        parts = dict(arrays)
    header = json.loads(parts["header"].tobytes()) | {"state": ["antigravity", "Chain"]}
    parts["header"] = np.frombuffer(json.dumps(header).encode(), np.uint8)
    with open(finished, "wb") as file:
        np.savez(file, **parts)
    untouched(finished, mixture(), RELEASE, ValueError, "antigravity.Chain is not known")
    assert "antigravity" not in sys.modules


def test_a_full_disk_keeps_the_last_good_checkpoint(tmp_path, monkeypatch):
    """Catches a half-written file in the place of a good one, and an error that does not say what to do."""
    save_always(monkeypatch)
    path, before = tmp_path / "run", resource.getrlimit(resource.RLIMIT_FSIZE)
    mixture(n_draws=500, checkpoint=path).fit(RELEASE)
    good = path.read_bytes()
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(good) + 4096, before[1]))
    try:
        with pytest.raises(OSError, match=r"cannot write the checkpoint, the last good one was kept; make room"):
            mixture(n_draws=5000, checkpoint=path).fit(RELEASE)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert {entry.name for entry in tmp_path.iterdir()} == {"run", "run.lock"}
    assert 520 <= _sweeps(path) < 5020
    resumed = mixture(n_draws=5000, checkpoint=path).fit(RELEASE)
    np.testing.assert_equal(draws_of(resumed), draws_of(mixture(n_draws=5000).fit(RELEASE)))


def test_two_fits_cannot_share_a_file(tmp_path):
    """Catches two runs that overwrite each other's draws."""
    with checkpoint.open_checkpoint(tmp_path / "run", "X", {}):
        with pytest.raises(BlockingIOError, match="in use by another fit"):
            mixture(checkpoint=tmp_path / "run").fit(RELEASE)
    mixture(checkpoint=tmp_path / "run").fit(RELEASE)


def test_bad_paths_and_uses_are_refused_before_any_chain(tmp_path, monkeypatch):
    """Catches an hour of chains before the path turns out to be wrong, and a budget that is spent twice."""
    monkeypatch.setattr(long_run, "run_chains", None)
    with pytest.raises(FileNotFoundError, match="needs a folder that exists"):
        mixture(checkpoint=tmp_path / "none" / "run").fit(RELEASE)
    with pytest.raises(IsADirectoryError, match="is a folder"):
        mixture(checkpoint=tmp_path).fit(RELEASE)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="is a device or a pipe"):
        mixture(checkpoint=tmp_path / "pipe").fit(RELEASE)
    with pytest.raises(ValueError, match="'checkpoint' parameter"):
        mixture(checkpoint=3).fit(RELEASE)
    for path in ("\ud800", "a\0b"):
        with pytest.raises(ValueError, match=r"^checkpoint=.* is not a valid path for a file"):
            mixture(checkpoint=path).fit(RELEASE)
    regression = clone(FITS["regression"][0]).set_params(n_records=None, checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match="each run would spend the budget"):
        regression.fit(np.zeros((4, 1)), np.zeros(4))
    with pytest.raises(ValueError, match=r"checkpoint=.* has none"):
        clone(FITS["abc"][0]).set_params(method="smc", checkpoint=tmp_path / "run").fit([3.0])
    own = clone(FITS["own"][0])
    own.model.hook = lambda: threading.Lock()
    with pytest.raises(TypeError, match="model cannot be pickled"):
        own.set_params(checkpoint=tmp_path / "run").fit(COINS)


def test_no_generator_of_noise_is_in_the_file(finished):
    """Catches a mechanism, a seed or records beyond what the fit itself knows."""
    with zipfile.ZipFile(finished) as archive:
        parts = {name.split("/")[0].removesuffix(".npy") for name in archive.namelist()}
    assert parts == {"header", "state", "draws"}
    with np.load(finished) as arrays:
        header = json.loads(arrays["header"].tobytes())
    assert all(isinstance(value, str) and len(value) < 200 for value in header["signature"].values())
