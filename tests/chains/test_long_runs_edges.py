"""Long runs at odd moments and with odd parameters: what is kept, what is found again, and what is said."""

import os

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpmix import AutoDraws, PrivateDPMixture, PrivateExpFamilyGibbs, PrivatePosteriorDA
from sklearn_dpmix._chains import auto_draws, checkpoint
from sklearn_dpmix._chains.chain import Chain
from sklearn_dpmix._chains.progress import Progress
from sklearn_dpmix._posterior import cluster
from sklearn_dpmix._posterior.cluster import choose_clustering
from sklearn_dpmix.estimators._chain_estimator import fingerprint
from sklearn_dpmix.mechanisms import LaplaceMechanism

NOISE = LaplaceMechanism(scale=2.0)
pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")

QUICK = AutoDraws(min_ess=60)  # met at the first look


def binomial(**params):
    times = {"n_chains": 2, "n_warmup": 20, "n_draws": 30, "random_state": 0}
    return PrivateExpFamilyGibbs(NOISE, family="binomial", n_records=20, **(times | params))


def fit(**params):
    return binomial(**params).fit([13.0])


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def test_numbers_of_numpy_are_numbers(tmp_path):
    """Catches a file that cannot be written, or is another fit's, where a parameter is one of NumPy's integers."""
    reference = fit(n_draws=45)
    fit(n_warmup=np.int64(20), n_draws=np.int64(30), checkpoint=tmp_path / "run")
    resumed = fit(n_draws=45, checkpoint=tmp_path / "run")
    np.testing.assert_array_equal(resumed.theta_draws_, reference.theta_draws_)
    fit(n_draws=AutoDraws(min_ess=1.0, max_draws=np.int64(60)), checkpoint=tmp_path / "run")


def test_data_are_what_is_in_them():
    """Catches a run that is another fit's because its data came with other strides, as those of x[:, None] are."""
    x = np.arange(6.0)
    same = x[:, None], x.reshape(-1, 1), np.repeat(x, 2)[::2][:, None]
    assert len({fingerprint(data) for data in same}) == 1
    table = x.reshape(2, 3)
    assert fingerprint((table, x)) == fingerprint((np.asfortranarray(table), x.copy()))
    assert len({fingerprint(data) for data in (x, table, table.T, x.reshape(3, 2), x.astype(np.float32), -x)}) == 6


def test_auto_draws_take_no_aim_from_a_fixed_number(tmp_path, monkeypatch):
    """Catches a run of too many draws that was stopped, and goes on to all of them under "auto"."""

    def stop(self, n_done, words=""):
        if n_done > 100:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="interrupted"):
        patch.setattr(Progress, "__call__", stop)
        model = fit(n_draws=50_000, checkpoint=tmp_path / "run")
    n_kept = model.theta_draws_.shape[1]
    n_auto = fit(n_draws=QUICK, checkpoint=tmp_path / "run").theta_draws_.shape[1]
    assert n_auto == max(n_kept, auto_draws.FIRST_LOOK) < 50_000
    model.set_params(n_draws=QUICK, warm_start=True, checkpoint=None)
    assert model.fit([13.0]).theta_draws_.shape[1] == n_auto


def test_auto_draws_are_not_looked_at_before_the_first_look():
    """Catches an effective size guessed from few draws, after a limit on draws was raised or a short run grew."""
    few = AutoDraws(max_draws=120)
    assert few.first(0, None) == 120
    assert AutoDraws().first(120, 120) == AutoDraws().first(10, None) == auto_draws.FIRST_LOOK
    assert AutoDraws().first(600, 700) == 700


def test_too_few_draws_are_not_enough():
    """Catches a limit that leaves a handful of draws, of which no effective size is known, without a word."""
    with pytest.warns(RuntimeWarning, match="max_draws=3 after 3 draws of each chain: too few"):
        fit(n_draws=AutoDraws(max_draws=3))


@pytest.mark.parametrize("moment", ["look", "save"])
def test_interruption_between_blocks_keeps_the_draws(moment, tmp_path, monkeypatch):
    """Catches Ctrl-C that loses all draws while R-hat is estimated, or while the last save is on its way."""
    model = binomial(n_draws=QUICK, checkpoint=tmp_path / "run", warm_start=True)
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="interrupted: kept 500"):
        if moment == "look":
            patch.setattr(AutoDraws, "has_enough", interrupt)
        else:
            save = checkpoint.Checkpoint.save
            patch.setattr(
                checkpoint.Checkpoint, "save", lambda self, run: interrupt() if run.n_done else save(self, run)
            )
        model.fit([13.0])
    reference = fit(n_draws=QUICK)
    np.testing.assert_array_equal(model.theta_draws_, reference.theta_draws_)
    np.testing.assert_array_equal(model.fit([13.0]).theta_draws_, reference.theta_draws_)
    np.testing.assert_array_equal(fit(n_draws=QUICK, checkpoint=tmp_path / "run").theta_draws_, reference.theta_draws_)


def test_a_finished_run_is_not_written_again(tmp_path, monkeypatch):
    """Catches a run that has ended, and cannot be read where there is no room to write it anew."""
    path = tmp_path / "run"
    reference, before = fit(checkpoint=path), os.stat(path)
    monkeypatch.setattr(Chain, "advance", None)
    monkeypatch.setattr(checkpoint, "replacing", None)
    np.testing.assert_array_equal(fit(checkpoint=path).theta_draws_, reference.theta_draws_)
    assert (os.stat(path).st_ino, os.stat(path).st_mtime_ns) == (before.st_ino, before.st_mtime_ns)


def test_only_its_own_leftovers_are_removed(tmp_path):
    """Catches a fit that pulls the half-written file away from under that of a path that begins alike."""
    own, other = tmp_path / ".run.ab_c1234.tmp", tmp_path / ".run.2.ab_c1234.tmp"
    own.touch()
    other.touch()
    fit(checkpoint=tmp_path / "run")
    assert not own.exists()
    assert other.exists()


def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch):
    """Catches advice to remove a good file because of its permissions."""

    def refuse(*args):
        raise PermissionError(13, "Permission denied")

    fit(checkpoint=tmp_path / "run")
    monkeypatch.setattr(checkpoint, "open", refuse, raising=False)
    with pytest.raises(ValueError, match=r"cannot be read .*Permission denied"):
        fit(checkpoint=tmp_path / "run")


def test_too_few_draws_asked_for_names_where_the_draws_are(tmp_path):
    """Catches an error about warm_start where the file, not the last fit, has more draws than are asked for."""
    model = fit(n_draws=10)
    fit(checkpoint=tmp_path / "run")
    with pytest.raises(ValueError, match=r"checkpoint=.* cannot discard draws: n_draws=20, but there are 30"):
        model.set_params(n_draws=20, warm_start=True, checkpoint=tmp_path / "run").fit([13.0])
    with pytest.raises(ValueError, match="warm_start=True cannot discard draws: n_draws=5"):
        model.set_params(n_draws=5, checkpoint=None).fit([13.0])


class Objects:
    """A user's model whose records are Python objects."""

    theta_init = 0.5

    def sample_records(self, rng, theta, n):
        return rng.integers(0, 2, (n, 1)).astype(object)

    def sample_posterior(self, rng, records, theta):
        return rng.random(1)


def test_records_that_are_objects_are_refused_by_name(tmp_path):
    """Catches an error of NumPy's about pickles."""
    mechanism = LaplaceMechanism(epsilon=1.0, bounds=(0, 1))
    model = PrivatePosteriorDA(mechanism, model=Objects(), n_draws=5, checkpoint=tmp_path / "run")
    with pytest.raises(TypeError, match=r"records has Python objects: .* another dtype"):
        model.fit(np.full((4, 1), 0.5))


def test_ctrl_c_in_the_summaries_keeps_the_draws(monkeypatch):
    """Catches an hour of draws that is lost because Ctrl-C came a second after the last block."""
    keep, calls = PrivateExpFamilyGibbs._keep, []

    def once(*args):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        keep(*args)

    reference = fit()
    monkeypatch.setattr(PrivateExpFamilyGibbs, "_keep", once)
    with pytest.warns(RuntimeWarning, match="interrupted: kept 30 of n_draws=30"):
        model = fit()
    np.testing.assert_array_equal(model.theta_draws_, reference.theta_draws_)


def test_ctrl_c_in_the_labels_keeps_the_fit(monkeypatch):
    """Catches labels lost, or a fit, because Ctrl-C came while records were put into clusters."""
    calls = []

    def once(*args):
        calls.append(1)
        if len(calls) == 1:
            raise KeyboardInterrupt
        return choose_clustering(*args)

    mechanism = LaplaceMechanism(epsilon=5.0, bounds=(-3, 3))
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=5, n_draws=30, random_state=0)
    Z = np.linspace(-3.0, 3.0, 20)[:, None]
    labels = clone(model).fit(Z).labels_
    monkeypatch.setattr(cluster, "choose_clustering", once)
    model.fit(Z)
    assert not calls  # they are worked out when asked for
    with pytest.raises(KeyboardInterrupt):
        model.predict(Z)
    np.testing.assert_array_equal(model.labels_, labels)
    np.testing.assert_array_equal(model.predict(Z), labels)
    assert len(calls) == 2


def test_enough_draws_are_enough():
    """Catches a run that ends with as many draws as were asked for, and then a warning that asks for 100."""
    fitted = fit()
    for n_draws, n_effective, words in (
        (AutoDraws(min_ess=50), 60.0, None),
        (AutoDraws(min_ess=50), 40.0, "should be at least 50"),
        (AutoDraws(min_ess=400), 99.0, "should be at least 100"),
        (30, 99.0, "should be at least 100"),
    ):
        fitted.set_params(n_draws=n_draws).ess_ = dict.fromkeys(fitted.ess_, n_effective)
        fitted.r_hat_ = dict.fromkeys(fitted.r_hat_, 1.0)
        complaint = fitted._not_mixed()
        assert complaint is None if words is None else words in complaint
