"""The walk over mixing measures on more records than ``test_exact`` enumerates, and on nodes that stand for many.

Broken twins: one plausible mistake each, which the enumeration or the comparison with the records must reject.
"""

import numpy as np
import pytest
import test_exact
from scipy.stats import norm
from sklearn.base import clone
from statistical import Disagreement
from summary_case import three_normals

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix._base.compiled import compiled
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.estimators.mixture._mixture_problem import MixtureProblem
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, SquareWaveMechanism
from sklearn_dpmix.mixings import DirichletProcess, MixtureOfFiniteMixtures, PitmanYor
from sklearn_dpmix.samplers import Auto, MixingMeasure
from sklearn_dpmix.samplers.mixture.measure import _node_layout, _sheet, _walk
from sklearn_dpmix.samplers.mixture.measure._masses import bear_or_kill, change_mass, move_mass
from sklearn_dpmix.samplers.mixture.measure._normal_atoms import step_neighbours
from sklearn_dpmix.samplers.mixture.measure._parts import part_or_join
from sklearn_dpmix.samplers.mixture.measure._splits import split_or_merge
from sklearn_dpmix.samplers.mixture.measure._steps import step_one
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import CONCENTRATION
from sklearn_dpmix.samplers.mixture.measure._walk_draws import sort_down
from sklearn_dpmix.samplers.mixture.measure._which_chart import chart_and_masses

CASES = list(test_exact.NOISY)


@pytest.fixture(autouse=True)
def settings(monkeypatch):
    monkeypatch.setitem(test_exact.SAMPLERS, "mixing measure", (MixingMeasure(), 1))


# --- the posterior ---------------------------------------------------------------------------------------------------


class TwiceTheBirths(MixingMeasure):
    """Births as if the process had twice its intensity."""

    @compiled
    def sweep(self, channel, chart, walk, rng):
        for _ in range(20):
            move_mass(rng, walk)
            change_mass(rng, walk)
            walk.law[CONCENTRATION] *= 2.0
            bear_or_kill(rng, channel, chart, walk)
            walk.law[CONCENTRATION] *= 0.5
            split_or_merge(rng, channel, chart, walk)
            part_or_join(rng, channel, chart, walk)
            step_one(rng, channel, chart, walk)
            step_neighbours(rng, channel, chart, walk)
        walk.masses.renew(rng, channel, chart, walk)


class SplitsTooOften(MixingMeasure):
    """Splits as if the process had one and a half times its intensity."""

    @compiled
    def sweep(self, channel, chart, walk, rng):
        for _ in range(20):
            move_mass(rng, walk)
            change_mass(rng, walk)
            bear_or_kill(rng, channel, chart, walk)
            walk.law[CONCENTRATION] *= 1.5
            split_or_merge(rng, channel, chart, walk)
            walk.law[CONCENTRATION] /= 1.5
            part_or_join(rng, channel, chart, walk)
            step_one(rng, channel, chart, walk)
            step_neighbours(rng, channel, chart, walk)
        walk.masses.renew(rng, channel, chart, walk)


class HeavyNodes(MixingMeasure):
    """Records count for a third more than they are."""

    def compressed(self, *args):
        seen = super().compressed(*args)
        seen.nodes[-1] *= 1.33
        return seen


@pytest.mark.slow
@pytest.mark.parametrize(
    "twin",
    [TwiceTheBirths, pytest.param(SplitsTooOften, marks=pytest.mark.nightly), HeavyNodes],
)
def test_broken_twins_are_rejected(twin, monkeypatch):
    monkeypatch.setattr(test_exact, "N_DRAWS", 3000)
    with pytest.raises(Disagreement):
        for seed, name in enumerate(CASES[:3]):
            test_exact.check("mixing measure", "laplace", 1, name, seed=seed, sampler=twin())


# --- the estimator ---------------------------------------------------------------------------------------------------


def small_fit(mechanism=None, **parameters):
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10)) if mechanism is None else mechanism
    Z = mechanism.privatize(three_normals(500), random_state=1)
    parameters = {"n_chains": 2, "n_warmup": 100, "n_draws": 100, "random_state": 0} | parameters
    return PrivateDPMixture(mechanism, **parameters).fit(Z)


def test_it_is_the_default():
    model = small_fit()
    assert isinstance(model.sampler_, MixingMeasure)
    assert model.labels_.shape == (500,)
    assert np.all(model.weights_draws_.sum(axis=-1) <= 1 + 1e-9)
    assert np.all(np.diff(model.weights_draws_, axis=-1) <= 0)
    assert model.compression_error_ < 1e-3


def glide_always(patch, least):
    """Glides where the records ask for none, on which the density changes elsewhere by this many standard errors."""
    lengthen = MixingMeasure.lengthen
    patch.setattr(MixingMeasure, "lengthen", lambda *args: max(lengthen(*args), 9.0))
    patch.setattr(_sheet, "LEAST", least)


@pytest.mark.slow
def test_glides_keep_the_posterior(monkeypatch):
    glide_always(monkeypatch, 0.02)
    monkeypatch.setattr(_walk, "MOVES_BESIDE", 60)  # as many glides for each, of draws that are cheaper
    monkeypatch.setattr(test_exact, "N_DRAWS", 12_000)
    for seed, name in enumerate(CASES[:3]):
        test_exact.check("mixing measure", "laplace", 1, name, seed=seed, sampler=MixingMeasure())


@pytest.mark.parametrize("glides", [False, True])
def test_draws_do_not_depend_on_blocks(glides, monkeypatch):
    """One sweep at a time gives the draws of one block: a block begins with tables made anew."""
    if glides:
        glide_always(monkeypatch, 1.0)
    mechanism, kernel = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10)), NormalKernel(0.0, 0.1, 3.0, 3.0)
    model = PrivateDPMixture(
        mechanism, kernel=kernel, mixing=DirichletProcess(None, (2.0, 1.0)), n_chains=1, n_draws=40, random_state=0
    )
    Z = mechanism.privatize(three_normals(500), random_state=1)
    whole = model.fit(Z)._draws_.flat
    model = clone(model).set_params(n_draws=1, warm_start=True).fit(Z)
    for n in (2, 3, 10, 40):
        model.set_params(n_draws=n).fit(Z)
    for one, other in zip(whole, model._draws_.flat, strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize(("n_warmup", "times", "every"), [(1000, 1.0, 4), (1000, 9.0, 2), (1000, 20.0, 1), (200, 1, 2)])
def test_a_long_warm_up_leaves_sweeps_out(n_warmup, times, every):
    """As many as a trial run says, and none after it; excursions come after those that are made."""
    mechanism, sampler = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10)), MixingMeasure(n_moves=30)
    release = Release(mechanism.privatize(three_normals(60), random_state=1), mechanism)
    problem = MixtureProblem(release, mechanism, NormalKernel(), DirichletProcess(), sampler)
    seen = problem.seen.with_excursions(problem.seen.of_few(np.arange(60), np.ones(60), 30), 2, 30.0)
    seen, rng = seen._replace(times=times), np.random.default_rng(0)
    state, made = sampler.init(problem.values, seen, None, None, rng), []
    for _ in range(24):
        before = rng.bit_generator.state["state"]["state"]
        state, _ = sampler.advance(problem.values, seen, state, rng, 1, n_warmup, 1)
        made.append(rng.bit_generator.state["state"]["state"] != before)
    assert made == [k % every == 0 or (k + 1) % (2 * every) == 0 for k in range(24)]
    by_one, rng = state, np.random.default_rng(0)
    state = sampler.init(problem.values, seen, None, None, rng)
    state, _ = sampler.advance(problem.values, seen, state, rng, 24, n_warmup, 1)
    np.testing.assert_array_equal(state.mass, by_one.mass)
    for _ in range(2):  # the warm-up is over
        before = rng.bit_generator.state["state"]["state"]
        state, draws = sampler.advance(problem.values, seen, state, rng, 1, 24, 1)
        assert len(draws.n_atoms) == 1
        assert rng.bit_generator.state["state"]["state"] != before


@pytest.mark.slow
def test_nodes_are_refined_for_narrow_components():
    """Spikes at five values under little noise: as narrow as the prior hardly allows, and nodes follow."""
    rng = np.random.default_rng(0)
    mechanism = LaplaceMechanism(epsilon=100.0, bounds=(-10, 10))
    Z = mechanism.privatize(rng.choice([-8.0, -3.0, 0.0, 4.0, 9.0], (30_000, 1)), random_state=1)
    model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=300, n_draws=300, random_state=0).fit(Z)
    assert model.compression_error_ < 0.05
    with pytest.MonkeyPatch.context() as patch:  # the twin: nodes for the prior's components only
        patch.setattr(_node_layout, "MANY_NODES", 0)
        patch.setattr(_node_layout, "MOST_NODES", 0)
        patch.setattr(_node_layout, "halved", lambda edges, *args: edges)
        assert model.fit(Z).compression_error_ > 0.05


def bimodal(rng, n):
    return np.where(rng.random(n) < 0.5, rng.normal(-2.0, 0.3, n), rng.normal(2.0, 1.0, n))


def heavy_tailed(rng, n):
    return rng.standard_t(2, n)


TOLD = {
    "cells that were halved": (GaussianMechanism(scale=0.1), bimodal, 20_000),
    "few draws have narrow components": (LaplaceMechanism(scale=0.2), heavy_tailed, 1000),
}


@pytest.mark.parametrize("name", list(TOLD))
def test_what_nodes_leave_out_is_told(name, monkeypatch):
    """The error said against that of the draws that it is of, by a sum over all records, and against that of all draws.

    It was a small part of the latter.  Of 1200 draws 500 are looked at: one of the worst 27, but for a chance of 10⁻⁶.
    """
    (mechanism, draw, n), rng, seen_of = TOLD[name], np.random.default_rng(5), []
    compression_error = MixingMeasure.compression_error
    monkeypatch.setattr(
        MixingMeasure, "compression_error", lambda self, *args: seen_of.append(args) or compression_error(self, *args)
    )
    Z = mechanism.privatize(draw(rng, n)[:, None], random_state=1)
    model = PrivateDPMixture(mechanism, n_warmup=200, n_draws=300, random_state=0).fit(Z)
    _, seen, draws = seen_of[-1]
    places = np.sort(Z, axis=0).T
    every = seen._replace(nodes=np.vstack([places, np.ones(n)]), lookup=mechanism.lookup(places), near=places)
    monkeypatch.setattr(_node_layout, "MOST_WORK_CHECKED", 1e30)
    error = model.sampler_.difference(seen, every, draws)
    assert 0.5 * error < model.compression_error_ < 2.0 * error
    monkeypatch.setattr(_node_layout, "MOST_CHECKED", len(draws.n_atoms))
    parts = [np.zeros(nodes.nodes.shape[1], np.int64) for nodes in (seen, every)]
    errors = np.abs(np.diff(model.sampler_.log_likelihoods((seen, every), draws, parts, 1), axis=0)).ravel()
    assert len(errors) == 1200 and model.compression_error_ > 0.5 * np.sort(errors)[-27]


def test_no_cell_is_compared_with_itself():
    """Cells that were halved once, of several that were, stayed the same where all were to be half as wide."""
    mechanism, n = GaussianMechanism(scale=0.1), 20_000
    Z = mechanism.privatize(bimodal(np.random.default_rng(5), n)[:, None], random_state=1)
    kernel = NormalKernel(0.0, 0.1, 3.0, 0.8)._lower(n_features=1)
    values = (None, mechanism._lower(n_records=n, n_features=1), kernel, DirichletProcess()._lower())
    release, sampler = Release(Z, mechanism), MixingMeasure()
    for width in (1.6, 0.82, 0.4):
        seen = sampler.compressed(release, *chart_and_masses(values), width)
        finer = sampler.with_halves(release, seen, seen.chart)
        is_rule = np.abs(seen.weights - np.rint(seen.weights)) > 1e-6  # and not a few records
        assert not np.isin(seen.nodes[0, is_rule], finer.nodes[0]).any()


def test_what_it_does_not_take():
    many, gap, one = (MixtureOfFiniteMixtures(1.0, prior) for prior in (0.001, (1.0, 0.0, 1.0), (0.0, 1.0)))
    steep, negative = PitmanYor(1.0, 0.5), PitmanYor(-0.1, 0.25)
    for mixing in (steep, negative, DirichletProcess(100.0), DirichletProcess(None, (2.0, 0.01)), many, gap, one):
        with pytest.raises(ValueError, match=r"Dirichlet processes with a concentration of at most 20.*got mixing="):
            small_fit(sampler="mixing_measure", mixing=mixing)
    mechanism = SquareWaveMechanism(2.0, (-10, 10))
    with pytest.raises(ValueError, match="computes the density of a release given a cluster"):
        small_fit(mechanism, sampler="mixing_measure", kernel="multivariate_normal")
    with pytest.raises(ValueError, match=r"would have to walk over some .* masses, more than its limit of 1500"):
        small_fit(sampler="mixing_measure", mixing=PitmanYor(5.0, 0.3))
    with pytest.raises(ValueError, match="n_moves must be a positive integer"):
        small_fit(sampler=MixingMeasure(n_moves=0))


@pytest.mark.slow
@pytest.mark.nightly
def test_power_law_posterior_is_exact(monkeypatch):
    """A Pitman–Yor process, against all partitions; with another discount it is not that posterior."""
    five = test_exact.CASES["pitman-yor", 1]["clamped"]
    skewed = test_exact.Case(test_exact.SKEWED, 1.5, mixing=PitmanYor(0.5, 0.1))
    pairs = test_exact.CASES["laplace", 2]["clamped"]._replace(mixing=PitmanYor(1.0, 0.25))
    monkeypatch.setitem(test_exact.CASES, ("pitman-yor", 1), {"clamped": five, "small discount": skewed})
    monkeypatch.setitem(test_exact.CASES, ("pitman-yor", 2), {"pairs": pairs})
    for seed, (d, name) in enumerate([(1, "clamped"), (1, "small discount"), (2, "pairs")]):
        test_exact.check("mixing measure", "pitman-yor", d, name, seed=seed)
    with pytest.raises(Disagreement):
        test_exact.check("mixing measure", "pitman-yor", 1, "clamped", mixing=SteeperThanStated)


class SteeperThanStated(PitmanYor):
    """More small clusters than it says."""

    masses_as = "pitman_yor"

    def _lower(self, **context):
        return PitmanYor(self.concentration + 0.5, self.discount)._lower()


@pytest.mark.parametrize("n", [0, 1, 2, 5, 40, 300])
def test_atoms_of_a_draw_are_put_in_order(n):
    """Within some rows; those before and behind stay."""
    weights, theta = np.random.default_rng(n).random(n + 4), np.arange(n + 4.0)[:, None]
    before = weights.copy()
    sort_down(weights, theta, 2, n + 2)
    assert list(weights[2:-2]) == sorted(before[2:-2], reverse=True)
    np.testing.assert_array_equal(weights, before[theta[:, 0].astype(int)])
    assert list(theta[[0, 1, -2, -1], 0]) == [0, 1, n + 2, n + 3]


def test_up_to_twenty_features_go_by_it():
    chosen = Auto().resolve(LaplaceMechanism(scale=1.0), NormalKernel())
    assert isinstance(chosen.sized(10**7, 2), MixingMeasure)
    of_scales = Auto().resolve(LaplaceMechanism(scale=np.array([1.0, 2.0])), NormalKernel())
    assert isinstance(of_scales.sized(50_000, 2), MixingMeasure)
    assert not isinstance(of_scales.sized(50_001, 2), MixingMeasure)
    walked = [(20_000, 3), (7500, 4), (5000, 6), (1500, 20)]
    assert all(isinstance(chosen.sized(*size), MixingMeasure) for size in walked)
    assert not any(isinstance(chosen.sized(n + 1, d), MixingMeasure) for n, d in walked)
    assert not isinstance(chosen.sized(100, 21), MixingMeasure)


def test_power_laws_of_many_records_go_by_it():
    many = Auto().resolve(LaplaceMechanism(scale=1.0), NormalKernel(), PitmanYor())
    assert not isinstance(many.sized(200, 1), MixingMeasure) and isinstance(many.sized(300, 1), MixingMeasure)
    assert isinstance(many.sized(5000, 1), MixingMeasure) and not many.takes_summaries
    small = Auto().resolve(LaplaceMechanism(scale=1.0), NormalKernel(), PitmanYor(1.0, 0.01))
    assert isinstance(small.sized(30, 1), MixingMeasure) and not isinstance(small.sized(10, 1), MixingMeasure)
    assert not isinstance(many.sized(10**7, 1), MixingMeasure) and not isinstance(many.sized(5000, 2), MixingMeasure)
    assert isinstance(many.sized(1500, 3), MixingMeasure) and not isinstance(many.sized(500, 3), MixingMeasure)
    assert isinstance(small.sized(100, 2), MixingMeasure) and not isinstance(small.sized(50, 2), MixingMeasure)
    assert isinstance(small.sized(60_000, 2), MixingMeasure)
    model = small_fit(mixing=PitmanYor(), sampler="mixing_measure")
    assert isinstance(model.sampler_, MixingMeasure) and model.weights_draws_.sum(axis=-1).max() <= 1 + 1e-9


def test_without_a_discount_it_is_a_dirichlet_process():
    one, other = small_fit(mixing=PitmanYor(1.5, 0.0)), small_fit(mixing=DirichletProcess(1.5))
    assert isinstance(one.sampler_, MixingMeasure)
    np.testing.assert_array_equal(one.weights_draws_, other.weights_draws_)


@pytest.mark.slow
def test_any_number_of_records():
    """A hundred thousand records in the time of a few hundred, well mixed."""
    mechanism = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))
    model = PrivateDPMixture(mechanism, random_state=0)
    model.fit(mechanism.privatize(three_normals(100_000), random_state=1))
    assert max(model.r_hat_.values()) < 1.03
    mean, _ = model.moment_draws()
    assert abs(mean.mean()) < 0.05 and mean.std() < 0.03
    x = np.linspace(-9, 9, 37)[:, None]
    truth = np.mean([norm.pdf(x[:, 0], m) for m in (-5.0, 0.0, 5.0)], axis=0)
    assert np.max(np.abs(np.exp(model.score_samples(x)) - truth)) < 0.01


def test_chains_go_on_under_another_mixing():
    """What was random under the old mixing is started anew: a hidden count is no concentration."""
    mechanism = LaplaceMechanism(scale=1.0, bounds=(-8, 8))
    z = mechanism.privatize(np.repeat([-3.0, 3.0], 15)[:, None], random_state=0)
    kept = {"n_chains": 2, "n_warmup": 300, "n_draws": 1000, "random_state": 0}
    pairs = (MixtureOfFiniteMixtures(), DirichletProcess(1.0)), (DirichletProcess(0.1), DirichletProcess(8.0))
    for first, second in pairs:
        model = PrivateDPMixture(mechanism, mixing=first, **kept).partial_fit(z[:15])
        model.set_params(mixing=second).partial_fit(z[15:])
        anew = PrivateDPMixture(mechanism, mixing=second, **kept).fit(z)
        assert model.n_clusters_draws_.mean() == pytest.approx(anew.n_clusters_draws_.mean(), rel=0.1)


@pytest.mark.parametrize(("unit", "size"), [(1e8, "-3"), (1e-8, r"\+3")])
def test_products_of_densities_that_leave_floating_point_are_refused(unit, size):
    """Catches 40 features in such units: of two groups far apart there was one cluster."""
    kernel, mechanism = NormalKernel(0.0, 0.1, 3.0, 3.0 * unit**2), GaussianMechanism(scale=unit)
    model = PrivateDPMixture(mechanism, kernel=kernel, sampler=MixingMeasure())
    with pytest.raises(ValueError, match=rf"multiplies densities of all 40 features.*1e{size}\d\d: use units"):
        model.fit(unit * np.ones((3, 40)))
