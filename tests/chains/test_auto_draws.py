"""Runs that end when there are enough effective draws, ``n_draws="auto"``."""

import copy
from functools import partial

import numpy as np
import pytest
from long_run_case import FITS, RELEASE, draws_of, mixture, save_always, stop_at
from sklearn.base import clone

from sklearn_dpmix import AutoDraws
from sklearn_dpmix._chains import auto_draws, long_run
from sklearn_dpmix._chains import chain as chain_module

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


def test_auto_draws_have_the_effective_size_asked_for():
    """Catches a rule that looks at one quantity only, or that stops at the first look."""
    few = mixture(n_draws=AutoDraws(min_ess=60), n_chains=4).fit(RELEASE)
    many = mixture(n_draws=AutoDraws(min_ess=1500), n_chains=4).fit(RELEASE)
    for model, least in ((few, 60), (many, 1500)):
        assert min(model.ess_.values()) >= least
        assert max(model.r_hat_.values()) <= 1.05
    assert few.n_clusters_draws_.shape[1] == auto_draws.FIRST_LOOK < many.n_clusters_draws_.shape[1]
    n = many.n_clusters_draws_.shape[1]
    np.testing.assert_equal(draws_of(mixture(n_draws=n, n_chains=4).fit(RELEASE)), draws_of(many))


def test_auto_draws_do_not_depend_on_stops(tmp_path, monkeypatch):
    """Catches looks that follow the clock, and a resumed run that looks elsewhere and so ends elsewhere."""
    save_always(monkeypatch)
    slow = partial(mixture, n_draws=AutoDraws(min_ess=400), sampler="interweaved")
    reference = slow().fit(RELEASE)
    assert reference.n_clusters_draws_.shape[1] > 700
    path = tmp_path / "run"
    for at in (300, 700):
        with monkeypatch.context() as patch:
            stop_at(patch, at, RuntimeError)
            with pytest.raises(RuntimeError):
                slow(checkpoint=path).fit(RELEASE)
    np.testing.assert_equal(draws_of(slow(checkpoint=path).fit(RELEASE)), draws_of(reference))
    with monkeypatch.context() as patch, pytest.warns(RuntimeWarning, match="interrupted: kept 580"):
        stop_at(patch, 600)
        stopped = slow(warm_start=True).fit(RELEASE)
    np.testing.assert_equal(draws_of(copy.deepcopy(stopped).fit(RELEASE)), draws_of(reference))


@pytest.mark.parametrize(
    ("limits", "words"),
    [({"max_draws": 120}, "max_draws=120 after 120 draws"), ({"max_seconds": 1.0}, "max_seconds=1 after")],
    ids=["draws", "seconds"],
)
def test_limits_end_an_auto_run_with_one_warning(limits, words):
    """Catches a run without end, a limit that nobody hears of, and two warnings about one thing."""
    with pytest.warns(RuntimeWarning) as caught:
        model = mixture(n_draws=AutoDraws(min_ess=1e7, **limits), n_warmup=5).fit(RELEASE)
    assert len(caught) == 1
    assert words in str(caught[0].message)
    assert "should be at least 1e+07" in str(caught[0].message)
    assert model.n_clusters_draws_.shape[1] > 0
    grown = model.set_params(n_draws=model.n_clusters_draws_.shape[1] + 10, warm_start=True).fit(RELEASE)
    np.testing.assert_equal(grown.n_iter_, model.n_draws + 5)


def test_auto_draws_refuse_what_cannot_be(monkeypatch):
    """Catches a limit that is never met, and methods without chains that take "auto" for a number."""
    for bad in (AutoDraws(0), AutoDraws(max_seconds=-1.0), AutoDraws(max_draws=10.5), AutoDraws("many")):
        with pytest.raises(ValueError, match=r"AutoDraws: m.* must be a positive"):
            mixture(n_draws=bad).fit(RELEASE)
    with pytest.raises(ValueError, match="'n_draws' parameter"):
        mixture(n_draws="enough").fit(RELEASE)
    with pytest.raises(ValueError, match="n_draws='auto' monitors chains"):
        clone(FITS["abc"][0]).set_params(method="rejection", n_draws="auto").fit([3.0])
    with pytest.raises(TimeoutError, match="during the warm-up; raise max_seconds"):
        mixture(n_draws=AutoDraws(max_seconds=1e-9), n_warmup=10_000).fit(RELEASE)


def test_quantities_that_do_not_vary_need_no_draws():
    """Catches an effective size of nan that is never reached."""
    rule = auto_draws.draws_rule("auto")
    nothing = {"a": np.nan}
    assert rule.next(500, lambda: (nothing, nothing)) is None
    assert rule.next(500, lambda: ({"a": 1.0}, {"a": 399.0})) == 625
    assert rule.next(500, lambda: ({"a": 1.0}, {"a": 100.0})) == 1000
    assert rule.next(500, lambda: ({"a": 1.2}, {"a": 500.0})) == 625
    assert rule.next(500, lambda: ({"a": 1.0}, {"a": 400.0})) is None


def test_the_bar_says_how_well_the_chains_mix(monkeypatch, capsys):
    """Catches a bar that shows sweeps only, and one that counts R-hat anew at each block."""
    monkeypatch.setattr(long_run, "SECONDS", 0.0)
    monkeypatch.setattr(long_run, "SHARE", 0)
    monkeypatch.setattr(chain_module, "BLOCK_SECONDS", 0.05)
    mixture(n_draws=2000, verbose=1).fit(RELEASE)
    bar = capsys.readouterr().err
    for words in ("warm-up", "draws/s", "R-hat 1.", "ESS "):
        assert words in bar
    mixture(n_draws="auto", verbose=1).fit(RELEASE)
    assert "of 400, about" in capsys.readouterr().err
