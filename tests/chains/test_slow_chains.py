"""Chains whose draws are worth little go on with more work behind each draw, where the sampler chooses that work."""

import numpy as np
import pytest

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._chains import auto_draws, chain
from sklearn_dpmix._chains.progress import Progress
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.samplers import Interweaved, MixingMeasure
from sklearn_dpmix.samplers.mixture import _places, _sampler, _state
from sklearn_dpmix.samplers.mixture._auto import AutoOfRecords
from sklearn_dpmix.samplers.mixture.measure import _starts
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import N_SWEEPS, TIMES
from sklearn_dpmix.samplers.mixture.measure._walk_state import new_state

RECORDS = LaplaceMechanism(epsilon=20.0, bounds=(-10, 10))
RELEASE = RECORDS.privatize(make_three_normals(60, random_state=0)[0], random_state=1)
pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning", "ignore:interrupted")


def fitted(**parameters):
    parameters = {"n_chains": 2, "n_warmup": 20, "n_draws": 31, "random_state": 0} | parameters
    return PrivateDPMixture(RECORDS, **parameters).fit(RELEASE)


def times(model):
    return [int(one.state.ints[TIMES]) for one in model._run_.chains]


def assert_same(one, other):
    np.testing.assert_array_equal(one.n_clusters_draws_, other.n_clusters_draws_)
    np.testing.assert_array_equal(one.density_draws([[-3.0], [1.0]]), other.density_draws([[-3.0], [1.0]]))
    assert one.r_hat_ == other.r_hat_ and one.ess_ == other.ess_


class GoesFar(MixingMeasure):
    """After some sweeps an excursion of some moves, over every second record."""

    apart, length = 2, 20

    def summarise(self, values, Z, release):
        seen = super().summarise(values, Z, release)
        places = np.arange(0, len(seen.weights), 2)
        return seen.with_excursions(seen.of_few(places, np.full(len(places), 2.0), self.length), self.apart, 4.0)

    def most_times(self, seen):
        return MixingMeasure().most_times(seen)  # not one, though the moves are given


@pytest.fixture
def never_enough(monkeypatch):
    monkeypatch.setattr(auto_draws, "FIRST_LOOK", 20)
    monkeypatch.setattr(auto_draws, "WORTH_ESS", np.inf)


def fitted_where_two_count_as_one(where=_starts, new_state=new_state, times=TIMES, **parameters):
    def slowed(*args, **named):
        state = new_state(*args, **named)
        state.ints[times] = 2
        return state

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, "new_state", slowed)
        return fitted(**parameters)


def test_two_sweeps_that_count_as_one_are_as_thinned():
    """Catches sweeps that are lost or kept twice where several count as one."""
    assert_same(fitted_where_two_count_as_one(), fitted(n_warmup=40, thin=2))


def test_where_there_are_excursions_they_are_longer(monkeypatch):
    """Twice as long, in place of twice as many: the look at all nodes that ends each takes as long as many moves."""
    monkeypatch.setattr(_starts, "SET_OUT", 0)  # excursions from where chains begin
    slowed = fitted_where_two_count_as_one(sampler=GoesFar(n_moves=20))
    monkeypatch.setattr(GoesFar, "apart", 4)
    monkeypatch.setattr(GoesFar, "length", 40)
    assert_same(slowed, fitted(sampler=GoesFar(n_moves=20), n_warmup=40, thin=2))


def test_longer_excursions_do_not_depend_on_blocks(never_enough, monkeypatch):
    whole = fitted(sampler=GoesFar(n_moves=20))
    assert times(whole) == [16, 16] and whole._run_.chains[0].state.ints[N_SWEEPS] == 16 * 51
    monkeypatch.setattr(chain, "BLOCK_SECONDS", 1e-9)  # a sweep a block
    assert_same(fitted(sampler=GoesFar(n_moves=20)), whole)


def test_draws_of_little_worth_get_more_work(never_enough, monkeypatch):
    """As many draws as asked for, the first of them are of the run that was judged; there is a limit."""
    model = fitted()
    assert times(model) == [8, 8] and model.n_clusters_draws_.shape == (2, 31) and model.n_iter_ == 51
    assert model._run_.chains[0].state.ints[N_SWEEPS] == 8 * 51
    assert_same(model, fitted(n_jobs=2))
    monkeypatch.setattr(auto_draws, "FIRST_LOOK", 100)  # nobody judges
    first = fitted()
    kept = first.n_clusters_draws_[:, 1::2][:, 1::2][:, 1::2]  # a half of a half of a half
    np.testing.assert_array_equal(model.n_clusters_draws_[:, : kept.shape[1]], kept)


def test_who_says_how_much_work_gets_that(never_enough):
    assert times(fitted(sampler=MixingMeasure(n_moves=20))) == [1, 1]
    few = auto_draws.AutoDraws(max_draws=31)
    with pytest.warns(RuntimeWarning, match="stopped by max_draws"):
        assert times(fitted(n_draws=few)) == [1, 1]
    assert times(fitted(n_draws=19)) == [1, 1]  # too few to judge


def test_an_interrupted_run_goes_on_where_it_was(never_enough, monkeypatch, tmp_path):
    """From the file, to the draws of a run that nothing stopped; catches work that is forgotten in between."""
    whole, told = fitted(), Progress.__call__
    monkeypatch.setattr(chain, "BLOCK_SECONDS", 1e-9)  # a sweep a block
    for stop in (15, 60, 75, 90):
        count = iter(range(10_000))

        def interrupts(self, *args, stop=stop, count=count):
            told(self, *args)
            if next(count) == stop:
                raise KeyboardInterrupt

        path = tmp_path / f"{stop}"
        with monkeypatch.context() as patch:
            patch.setattr(Progress, "__call__", interrupts)
            if stop < 20:
                with pytest.raises(KeyboardInterrupt):
                    fitted(checkpoint=path)
            else:
                assert fitted(checkpoint=path).n_clusters_draws_.shape[1] < 31
        assert_same(fitted(checkpoint=path), whole)


def test_a_warm_start_keeps_the_work(never_enough):
    model = fitted(warm_start=True)
    before = model.n_clusters_draws_
    model.set_params(n_draws=40).fit(RELEASE)
    assert times(model) == [8, 8] and model.n_iter_ == 60
    np.testing.assert_array_equal(model.n_clusters_draws_[:, :31], before)


@pytest.mark.parametrize("wrong", [0, 32])
def test_a_state_with_other_work_is_refused(wrong):
    state = fitted()._run_.chains[0].state
    state.restored(state, 51)
    ints = np.array([*state.ints[:TIMES], wrong])
    with pytest.raises(ValueError, match="ints"):
        state._replace(ints=ints).restored(state, 51)


# --- samplers that keep a record for each release ---


def test_two_sweeps_of_records_that_count_as_one_are_as_thinned():
    slowed = fitted_where_two_count_as_one(_sampler, _state.new_state, _places.TIMES, sampler=Interweaved())
    assert_same(slowed, fitted(sampler=Interweaved(), n_warmup=40, thin=2))


def test_draws_of_records_get_more_work_where_auto_chose(never_enough, tmp_path):
    model = fitted(sampler=AutoOfRecords(), checkpoint=tmp_path / "run")
    ints = model._run_.chains[0].state.ints
    assert isinstance(model.sampler_, Interweaved) and model.n_clusters_draws_.shape == (2, 31)
    assert (ints[_places.TIMES], ints[_places.N_SWEEPS]) == (8, 8 * 51)
    assert_same(fitted(sampler=AutoOfRecords(), checkpoint=tmp_path / "run"), model)
    assert fitted(sampler=Interweaved())._run_.chains[0].state.ints[_places.TIMES] == 1
    assert [model.sampler_.most_times(np.zeros(n)) for n in (3000, 10_000, 30_000)] == [8, 2, 1]
    for wrong in (0, 16):
        other = np.array([*ints[: _places.TIMES], wrong, *ints[_places.TIMES + 1 :]])
        with pytest.raises(ValueError, match="ints"):
            model._run_.chains[0].state._replace(ints=other).restored(model._run_.chains[0].state, 51)
