"""Excursions over a few nodes keep the posterior, however little the few stand for all; and which nodes are few."""

from types import SimpleNamespace

import numpy as np
import pytest
import test_exact
from scipy.stats import norm
from sklearn.base import clone
from statistical import Disagreement, assert_means_agree

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import DirichletProcess
from sklearn_dpmix.samplers import MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _compressed, _few_nodes
from sklearn_dpmix.samplers.mixture.measure._compressed import Compressed
from sklearn_dpmix.samplers.mixture.measure._correlated_gaussian import CorrelatedGaussianChart
from sklearn_dpmix.samplers.mixture.measure._few_nodes import (
    A_DRAW,
    CLOSE,
    N_AROUND,
    N_FITTED,
    N_OTHERS,
    Functions,
    chosen_nodes,
    fill_densities,
    functions_of,
    left_out,
)
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import IS_EXCURSION, N_ATOMS, N_MOVES, N_RECORDS, PER_FEATURE
from sklearn_dpmix.samplers.mixture.measure._walk_state import new_state

# --- against all partitions, compiled --------------------------------------------------------------------------------


class GoesFar(MixingMeasure):
    """Excursions over all records but the last, which count for as many, and few moves in between."""

    def summarise(self, values, Z, release):
        seen = super().summarise(values, Z, release)
        n = len(seen.weights)
        places = np.arange(max(n - 1, 1))
        return seen.with_excursions(seen.of_few(places, np.full(len(places), max(n, 1.5) / len(places)), 60), 1, 4.0)


def stay_there(channel, chart, walk, few, rng):
    """An excursion without the look at all nodes."""
    walk.atoms[:] = few.atoms
    walk.law[N_ATOMS] = few.law[N_ATOMS]


CASES = (1, "clamped"), (2, "clamped"), (1, "random concentration"), (1, "own noise each")


@pytest.fixture
def setting(monkeypatch):
    monkeypatch.setitem(test_exact.SAMPLERS, "mixing measure", (MixingMeasure(), 2))


@pytest.mark.slow
@pytest.mark.parametrize(("d", "name"), [*CASES[:3], pytest.param(*CASES[3], marks=pytest.mark.nightly)])
def test_posterior_is_exact(setting, d, name):
    test_exact.check("mixing measure", "laplace", d, name, sampler=GoesFar())


@pytest.mark.slow
def test_posterior_under_a_power_law_is_exact(setting, monkeypatch):
    """Small masses, of which a power law has many, are renewed once an excursion, which takes less time than four."""
    monkeypatch.setattr(_compressed, "RENEWALS", 1.0)
    monkeypatch.setattr(test_exact, "N_DRAWS", 1000)
    test_exact.check("mixing measure", "pitman-yor", 1, "clamped", sampler=GoesFar())


@pytest.mark.slow
def test_without_a_look_at_all_records_it_is_not(setting, monkeypatch):
    monkeypatch.setattr(_few_nodes, "come_home", stay_there)
    monkeypatch.setattr(test_exact, "N_DRAWS", 2000)
    with pytest.raises(Disagreement):
        for seed, (d, name) in enumerate(CASES):
            test_exact.check("mixing measure", "laplace", d, name, seed=seed, sampler=GoesFar())


class GoesBlind(MixingMeasure):
    """Excursions over nodes without weight, to where the prior leads."""

    def summarise(self, values, Z, release):
        seen = super().summarise(values, Z, release)
        few = seen.of_few(np.arange(len(seen.weights)), np.zeros(len(seen.weights)), 60)
        few.law[N_RECORDS] = 0.0
        return seen.with_excursions(few, 1, 0.0)


@pytest.mark.nightly
def test_excursions_are_as_likely_backwards(monkeypatch):
    """Catches small masses drawn anew after the moves only: concentrations were 5 % too small."""
    model = PrivateDPMixture(
        LaplaceMechanism(scale=1.0, bounds=(-20, 20)), kernel=NormalKernel(0.0, 0.2, 3.0, 3.0),
        mixing=DirichletProcess(None, (2.0, 1.0)), sampler=MixingMeasure(n_moves=40), n_draws=20_000, random_state=1,
    )  # fmt: skip
    Z = [[-6.0], [-1.0], [4.0], [9.0]]
    means = [clone(model).set_params(sampler=s).fit(Z).concentration_draws_ for s in (model.sampler, GoesBlind(40))]
    assert_means_agree(*means)
    own = Compressed.with_excursions

    def in_a_fixed_order(*args):
        seen = own(*args)
        seen.few.law[IS_EXCURSION] = 0.0
        return seen

    monkeypatch.setattr(Compressed, "with_excursions", in_a_fixed_order)
    twin = clone(model).set_params(sampler=GoesBlind(40)).fit(Z).concentration_draws_
    with pytest.raises(Disagreement):
        assert_means_agree(means[0], twin)


def test_half_of_all_excursions_begin_with_small_masses():
    calls, rng = [], np.random.default_rng(0)
    masses = SimpleNamespace(renew=lambda *args: calls.append("renew"))
    sampler = SimpleNamespace(move_often=lambda *args: calls.append("move"))
    walk = SimpleNamespace(law=np.zeros(PER_FEATURE), masses=masses)
    for is_excursion in (0.0, 1.0):
        walk.law[IS_EXCURSION] = is_excursion
        calls.clear()
        for _ in range(400):
            MixingMeasure.sweep(sampler, None, None, walk, rng)
        first = calls[::2].count("renew")
        assert all(sorted(both) == ["move", "renew"] for both in zip(calls[::2], calls[1::2], strict=True))
        assert (140 < first < 260) if is_excursion else first == 0


# --- which nodes, and the estimator ----------------------------------------------------------------------------------


def test_few_nodes_stand_for_all():
    """In draws that they were not made for; the same nodes with even weights do not."""
    rng = np.random.default_rng(0)
    z = rng.choice([-4.0, 0.0, 5.0], (1500, 2)) + 2.0 * rng.standard_normal((1500, 2))

    def parts(shares, means):
        return shares[:, None] * np.prod(norm.pdf(z, means[:, None], 2.0), axis=2)

    draws = [
        parts(rng.dirichlet([40.0, 40.0, 40.0]), [[-4.0, -4.0], [0.0, 0.0], [5.0, 5.0]] + rng.normal(0, 0.2, (3, 2)))
        for _ in range(60)
    ]
    logs, scores = np.array([np.log(draw.sum(axis=0)) for draw in draws]), [0.1 * draw / draw.sum(0) for draw in draws]
    weights = np.ones(len(z))
    mean = logs[:40].mean(axis=0)
    functions = Functions(mean, np.vstack([logs[:40] - mean, *scores[:40]]), logs[40:] - mean)
    places, found, error = chosen_nodes(functions, weights, 0)
    assert 0 < len(places) < 100
    assert np.all(found > 0.0)
    assert found.sum() == pytest.approx(len(z))
    exact = logs[40:] @ weights
    assert np.std(exact - logs[40:, places] @ found) == pytest.approx(error)
    assert error < CLOSE
    assert np.std(exact - logs[40:, places] @ np.full(len(places), len(z) / len(places))) > 4 * CLOSE
    assert 110 < len(chosen_nodes(functions, weights, 120)[0]) <= 120


@pytest.mark.slow
def test_few_nodes_are_made_for_whole_draws(monkeypatch):
    """With their small atoms, which records in the tails came from; far ones count less."""
    calls, own = [], _few_nodes.functions_of
    monkeypatch.setattr(_few_nodes, "functions_of", lambda *args: calls.append(args) or own(*args))
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(0, 100))
    X = (50 + 4 * np.random.default_rng(0).standard_t(2, (20_000, 1))).clip(0, 100)
    with pytest.warns(RuntimeWarning, match="have not mixed"):
        PrivateDPMixture(mechanism, n_chains=1, n_warmup=20, n_draws=10, random_state=0).fit(
            mechanism.privatize(X, random_state=1)
        )
    seen, draws = calls[0]
    walk, over = seen.walk(new_state(seen.chart.n_coordinates(), 1)), seen.compiled()
    densities = np.empty((len(draws.theta), seen.nodes.shape[1]))
    fill_densities(*over, walk, draws.theta, densities)
    exact = np.log(np.add.reduceat(draws.weights[:, None] * densities, np.cumsum(draws.n_atoms) - draws.n_atoms))
    exact = exact[np.linspace(0, len(exact) - 1, N_FITTED + N_OTHERS).astype(int)]
    value, is_other = exact @ seen.weights, slice(1, None, (N_FITTED + N_OTHERS) // N_OTHERS)
    assert np.median(draws.n_atoms) > 15

    def errors(functions, far):
        times = np.maximum((value.max() - value) / far, 1.0)[is_other, None]
        return np.abs(functions.mean + times * functions.others - exact[is_other]) @ seen.weights

    monkeypatch.setattr(_few_nodes, "FAR", 1e3)
    assert errors(own(seen, draws), 1e3).max() < 0.05
    monkeypatch.setattr(_few_nodes, "FAR", 5.0)  # how far a draw is, is told to a hundredth of a record only
    assert errors(own(seen, draws), 5.0).max() < 1.0
    assert errors(own(seen, draws), 1e3).max() > 10.0
    monkeypatch.setattr(_few_nodes, "FAR", 1e3)
    monkeypatch.setattr(_few_nodes, "MOST_ATOMS", 6)
    assert errors(own(seen, draws), 1e3).min() > 1.0


@pytest.mark.slow
def test_few_nodes_are_chosen_by_excursions_from_likely_populations(monkeypatch):
    """Whose ends show what is wrong with them.  Runs over the few alone would stay where these see too little."""
    calls, own = [], MixingMeasure.with_few
    monkeypatch.setattr(MixingMeasure, "with_few", lambda *args: calls.append(args) or own(*args))
    mechanism = LaplaceMechanism(epsilon=20.0, bounds=(0, 100))
    X = np.random.default_rng(0).uniform(10, 90, (30_000, 1))
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=4, n_draws=4, random_state=0)
    model.fit(mechanism.privatize(X, random_state=1))
    sampler, values, seen, _ = calls[0]
    places = np.linspace(0, seen.n_seen - 1, 12).astype(int)
    nearest = np.searchsorted(0.5 * (places[1:] + places[:-1]), np.arange(seen.n_seen))
    of_few = np.bincount(nearest, weights=seen.weights)
    roaming = seen.with_excursions(seen.of_few(places, of_few, 240), 2, 1.0)

    def came_to():
        """Log likelihoods of where walks come to, and what the few leave out of those of their excursions' ends."""
        states, draws = sampler.ends_of_excursions(values, roaming, np.random.default_rng(0), None)
        assert len(draws.n_atoms) == len(states) * N_AROUND
        mass = [state.mass[: state.ints[N_ATOMS]] for state in states]
        density = [
            m @ sampler.densities(values, seen, state.place[: len(m)]) / m.sum()
            for m, state in zip(mass, states, strict=True)
        ]
        return np.log(density) @ seen.weights, left_out(functions_of(seen, draws).others, seen.weights, places, of_few)

    value, left = came_to()
    assert np.ptp(value) < 60.0
    assert left > 10.0
    monkeypatch.setattr(_few_nodes, "come_home", stay_there)
    assert came_to()[0].max() < value.min() - 150.0


def three_features(n):
    rng = np.random.default_rng(0)
    return rng.choice([[-5.0, 2.0, 4.0], [0.0, -3.0, 0.0]], n) + rng.standard_normal((n, 3))


@pytest.mark.slow
def test_default_fits_of_three_features_go_on_excursions(monkeypatch):
    """And one sweep at a time gives the draws of one block."""
    seen, own = [], MixingMeasure.summarise
    monkeypatch.setattr(MixingMeasure, "summarise", lambda *args: seen.append(own(*args)) or seen[-1])
    mechanism = LaplaceMechanism(epsilon=6.0, bounds=[(-10, 10)] * 3)
    Z = mechanism.privatize(three_features(1000), random_state=1)
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=20, n_draws=21, random_state=0)
    whole = model.fit(Z)._draws_.flat
    assert seen[-1].few is not None
    assert len(seen[-1].few.weights) < 0.4 * len(Z)
    model = clone(model).set_params(n_draws=4, warm_start=True).fit(Z)
    for n in (5, 21):
        model.set_params(n_draws=n).fit(Z)
    for one, other in zip(whole, model._draws_.flat, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "goes"), [(1500, True), (200, False)])
def test_excursions_are_for_walks_that_take_long(monkeypatch, n, goes):
    """Though moves over all records would be as many as are allowed."""
    seen, own = [], MixingMeasure.summarise
    monkeypatch.setattr(MixingMeasure, "summarise", lambda *args: seen.append(own(*args)) or seen[-1])
    mechanism = LaplaceMechanism(epsilon=5.0, bounds=[(0, 100)] * 2)
    Z = mechanism.privatize(np.random.default_rng(0).normal([20, 50], 5, (n, 2)), random_state=1)
    with pytest.warns(RuntimeWarning, match="have not mixed"):
        PrivateDPMixture(mechanism, n_chains=1, n_warmup=20, n_draws=10, random_state=0).fit(Z)
    assert (seen[-1].few is not None) == goes
    assert goes or seen[-1].law[N_MOVES] < MixingMeasure().moves_over(seen[-1].nodes, seen[-1].chart)[1]


@pytest.mark.parametrize(
    ("n", "exact", "times", "goes"),
    [(400, False, 1.0, True), (300, False, 1.0, False), (400, True, 2.0, False), (100, False, 2.0, True),
     (80, False, 2.0, False)],
)  # fmt: skip
def test_excursions_of_one_feature_are_for_many_nodes(n, exact, times, goes):
    """Or for draws that follow each other slowly.  Under noise: without, a component as narrow as the prior allows fits
    one of few nodes far too well."""
    release = SimpleNamespace(n_features=1, channel=SimpleNamespace(tables=None, releases_records=exact))
    law = np.full(N_MOVES + 1, 300.0)
    seen = Compressed(None, None, np.ones((2, n)), np.ones((2, n)), np.ones((1, n)), law, False, times=times)
    assert MixingMeasure().may_roam(seen, release) == goes


@pytest.mark.slow
def test_excursions_are_longer_where_draws_follow_each_other_slowly(monkeypatch):
    """Along a bent curve; not where fewer of longer ones are taken, and not beyond what the chart allows."""
    rng, lengths = np.random.default_rng(0), []
    x = rng.uniform(-2.0, 2.0, 4000)
    mechanism = GaussianMechanism(scale=0.5)
    Z = mechanism.privatize(np.column_stack([x, np.sin(2.0 * x) + 0.3 * rng.normal(size=4000)]), random_state=1)
    own = MixingMeasure.with_best_length

    def with_best_length(self, values, seen, roaming, *args):
        first = roaming.few.law[N_MOVES]

        def length():
            return own(self, values, seen, roaming, *args).few.law[N_MOVES] / first

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(_few_nodes, "sweeps_a_draw", lambda *args: 2.0 * A_DRAW)
            lengths.append(length())
            patch.setattr(MixingMeasure, "share_taken", lambda self, _, nodes, *args: nodes.few.law[N_MOVES] == first)
            lengths.append(length())
            patch.setattr(MixingMeasure, "share_taken", lambda *args: 1.0)
            patch.setattr(_few_nodes, "sweeps_a_draw", lambda *args: 0.5 * A_DRAW)
            lengths.append(length())
            patch.setattr(MixingMeasure, "share_taken", lambda *args: 0.4)
            assert own(self, values, seen, roaming, *args) is seen
        lengths.append(length())
        assert roaming.few.law[N_MOVES] == first
        assert lengths[-1] <= seen.chart.longest
        return own(self, values, seen, roaming, *args)

    monkeypatch.setattr(MixingMeasure, "with_best_length", with_best_length)
    model = PrivateDPMixture(
        mechanism, kernel="multivariate_normal", n_chains=1, n_warmup=20, n_draws=10, random_state=0
    )
    with pytest.warns(RuntimeWarning, match="have not mixed"):
        model.fit(Z)
    assert lengths[:3] == [2.0, 1.0, 1.0]
    assert lengths[3] > 1.0
    monkeypatch.setattr(CorrelatedGaussianChart, "longest", 1.5)
    with pytest.warns(RuntimeWarning, match="have not mixed"):
        model.fit(Z)
    assert lengths[4:] == [1.5, 1.0, 1.0, 1.5]
