"""Chains whose draws are worth little go on with more work behind each draw, where the sampler chooses that work."""

from types import SimpleNamespace
from typing import NamedTuple

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpmix import PrivateDPMixture, PrivateExpFamilyGibbs
from sklearn_dpmix._chains import auto_draws, chain
from sklearn_dpmix._chains.checkpoint import NoCheckpoint, SoFar
from sklearn_dpmix._chains.draws import join
from sklearn_dpmix._chains.long_run import LongRun
from sklearn_dpmix._chains.pace import Pace
from sklearn_dpmix._chains.problem import Problem
from sklearn_dpmix._chains.progress import Progress
from sklearn_dpmix.datasets import make_three_normals
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.samplers import Interweaved, MixingMeasure
from sklearn_dpmix.samplers.mixture._auto import AutoOfRecords
from sklearn_dpmix.samplers.mixture.measure import _starts
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import N_MOVES

RECORDS = LaplaceMechanism(epsilon=20.0, bounds=(-10, 10))
RELEASE = RECORDS.privatize(make_three_normals(60, random_state=0)[0], random_state=1)
pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning", "ignore:interrupted")


def fitted(**parameters):
    parameters = {"n_chains": 2, "n_warmup": 20, "n_draws": 31, "random_state": 0} | parameters
    return PrivateDPMixture(RECORDS, **parameters).fit(RELEASE)


def times(model):
    return model._run_.pace.times


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
        few = seen.of_few(places, np.full(len(places), 2.0), self.length)
        start = self.init(values, seen, None, None, np.random.default_rng(0))
        return seen.with_excursions(few, self.apart, 4.0)._replace(reached=start)

    def most_times(self, seen):
        return MixingMeasure().most_times(seen)  # not one, though the moves are given


@pytest.fixture
def never_enough(monkeypatch):
    monkeypatch.setattr(auto_draws, "FIRST_LOOK", 20)
    monkeypatch.setattr(auto_draws, "WORTH_ESS", np.inf)


class Numbered(NamedTuple):
    """Numbers of the sweeps that left a draw; as a state, of the last sweep."""

    sweep: np.ndarray


def count(state, rng, n_sweeps, n_warmup, thin):
    sweeps = state.sweep[0] + 1 + np.arange(n_sweeps)
    state.sweep[0] += n_sweeps
    return state, Numbered(sweeps[(sweeps > n_warmup) & ((sweeps - n_warmup) % thin == 0)])


@pytest.mark.parametrize(("n_draws", "stop"), [(32, 0), (37, 0), (20, 61), (21, 62)])
def test_sweeps_that_count_as_one_are_as_thinned(never_enough, n_draws, stop):
    """Catches draws that are lost, kept twice or out of step where the work behind each is doubled.

    A run that was stopped between two draws may be found slow before it makes another sweep.
    """
    problem = Problem(None, None, count, None, most_times=8)
    estimator = SimpleNamespace(n_jobs=1, n_chains=2, verbose=0)
    rule, nothing = auto_draws.FixedDraws(n_draws), ({"x": 2.0}, {"x": 1.0})
    asked, done = Pace(20, 3), 20 * (stop > 0) + stop
    chains = chain.start_chains(np.random.SeedSequence(0), 2, lambda rng: Numbered(np.zeros(1, np.int64)))
    chains, blocks, _ = chain.run_chains(chains, problem.step(asked), done)
    run = LongRun(estimator, problem, rule, lambda so_far: nothing, NoCheckpoint())
    so_far, was_interrupted = run.run(SoFar(chains, [join(own) for own in blocks if own], done, asked))
    pace = so_far.pace
    assert not was_interrupted and (pace.times, pace.thin) == (8, 24)
    pace.check(asked, 8)
    for one, draws in zip(so_far.chains, so_far.draws, strict=True):
        assert one.state.sweep == so_far.n_done == pace.n_warmup + 24 * n_draws
        np.testing.assert_array_equal(draws.sweep, pace.n_warmup + 24 * np.arange(1, n_draws + 1))


def test_where_there_are_excursions_they_are_longer(monkeypatch):
    """Twice as long, in place of twice as many: the look at all nodes that ends each takes as long as many moves."""
    monkeypatch.setattr(_starts, "SET_OUT", 0)  # excursions from where chains begin
    with monkeypatch.context() as patch:
        found = GoesFar.summarise
        patch.setattr(GoesFar, "share_taken", lambda self, *args: 1.0)
        patch.setattr(
            GoesFar, "summarise", lambda self, values, *args: self.longer(values, found(self, values, *args), 2)
        )
        longer = fitted(sampler=GoesFar(n_moves=20))
    monkeypatch.setattr(GoesFar, "apart", 4)
    monkeypatch.setattr(GoesFar, "length", 40)
    assert_same(longer, fitted(sampler=GoesFar(n_moves=20)))


def test_longer_excursions_do_not_depend_on_blocks(never_enough, monkeypatch):
    asked, longer = [], GoesFar.longer
    monkeypatch.setattr(GoesFar, "longer", lambda self, *args: asked.append(args[-1]) or longer(self, *args))
    whole = fitted(sampler=GoesFar(n_moves=20))
    assert times(whole) == 16 and set(asked) == {1, 2, 4, 8, 16} and len(asked) <= 6  # not at each block anew
    monkeypatch.setattr(chain, "BLOCK_SECONDS", 1e-9)  # a sweep a block
    assert_same(fitted(sampler=GoesFar(n_moves=20)), whole)


@pytest.mark.parametrize(("shares", "expected"), [((1.0, 1.0, 1.0), 8), ((0.9, 0.5, 0.4), 4), ((0.4, 1.0, 1.0), 1)])
def test_excursions_get_longer_while_half_of_them_are_taken(monkeypatch, shares, expected):
    """And then no more: those that are not taken are for nothing."""
    seen, summarise, left = [], GoesFar.summarise, list(shares)
    monkeypatch.setattr(GoesFar, "summarise", lambda self, *args: seen.append(summarise(self, *args)) or seen[0])
    fitted(sampler=GoesFar(n_moves=20))
    monkeypatch.setattr(GoesFar, "share_taken", lambda self, *args: left.pop(0))
    longer = GoesFar().longer(None, seen[0], 8)
    assert (longer.few.law[N_MOVES], longer.apart) == (20 * expected, 2 * expected)


def test_an_interruption_while_lengths_are_tried_keeps_the_draws(never_enough, monkeypatch):
    longer = GoesFar.longer

    def interrupted(self, values, seen, times):
        if times > 1:
            raise KeyboardInterrupt
        return longer(self, values, seen, times)

    monkeypatch.setattr(GoesFar, "longer", interrupted)
    model = fitted(sampler=GoesFar(n_moves=20))
    assert 0 < model.n_clusters_draws_.shape[1] < 31


def test_draws_of_little_worth_get_more_work(never_enough, monkeypatch):
    """As many draws as asked for, the first of them are of the run that was judged; there is a limit."""
    model = fitted()
    assert times(model) == 8 and model.n_clusters_draws_.shape == (2, 31)
    assert_same(model, fitted(n_jobs=2))
    monkeypatch.setattr(auto_draws, "FIRST_LOOK", 100)  # nobody judges
    first = fitted()
    kept = first.n_clusters_draws_[:, ::8]  # a half of a half of a half
    np.testing.assert_array_equal(model.n_clusters_draws_[:, : kept.shape[1]], kept)


def test_who_says_how_much_work_gets_that(never_enough):
    assert times(fitted(sampler=MixingMeasure(n_moves=20))) == 1
    few = auto_draws.AutoDraws(max_draws=31)
    with pytest.warns(RuntimeWarning, match="stopped by max_draws"):
        assert times(fitted(n_draws=few)) == 1
    assert times(fitted(n_draws=19)) == 1  # too few to judge


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
    assert times(model) == 8 and model._run_.pace.n_drawn(model.n_iter_) == 40
    np.testing.assert_array_equal(model.n_clusters_draws_[:, :31], before)


@pytest.mark.parametrize(
    "wrong", [(20, 3, 3), (20, 16, 16), (20, 1, 2), (18, 2, 2), (21, 1, 1), (24, 2, 2), (20, 0, 0)]
)
def test_a_pace_that_no_run_has_is_refused(wrong):
    for right in ((20, 1, 1), (20, 8, 8), (17, 4, 4)):
        Pace(*right).check(Pace(20, 1), 8)
    with pytest.raises(ValueError, match="leave a draw"):
        Pace(*wrong).check(Pace(20, 1), 8)


def test_draws_of_records_get_more_work_where_auto_chose(never_enough, tmp_path):
    model = fitted(sampler=AutoOfRecords(), checkpoint=tmp_path / "run")
    assert isinstance(model.sampler_, Interweaved) and model.n_clusters_draws_.shape == (2, 31) and times(model) == 8
    assert_same(fitted(sampler=AutoOfRecords(), checkpoint=tmp_path / "run"), model)
    assert times(fitted(sampler=Interweaved())) == 1
    assert [model.sampler_.most_times(np.zeros(n)) for n in (3000, 10_000, 30_000)] == [8, 2, 1]


def test_draws_of_sums_get_more_work(never_enough, tmp_path):
    sums = LaplaceMechanism(scale=2.0)
    model = PrivateExpFamilyGibbs(sums, family="binomial", n_records=20, n_chains=2, n_warmup=20, random_state=0)
    model = model.set_params(n_draws=31, checkpoint=tmp_path / "run").fit([13.0])
    assert times(model) == 8 and model.theta_draws_.shape[:2] == (2, 31)
    again = clone(model).fit([13.0])
    np.testing.assert_array_equal(again.theta_draws_, model.theta_draws_)
    assert times(model.set_params(n_draws=19, checkpoint=None).fit([13.0])) == 1
