"""A fit to a summary of a release sees what it would see in the records."""

import math
import warnings
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.metrics import adjusted_rand_score
from summary_case import LAPLACE, MECHANISMS, differ, model, release

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._posterior import cluster
from sklearn_dpmix._posterior.predictive import Releases, mean_marginal
from sklearn_dpmix._releases.nodes import cell_edges, compress
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism, SquareWaveMechanism
from sklearn_dpmix.mixings import PitmanYor
from sklearn_dpmix.samplers import MixingMeasure, Neal5
from sklearn_dpmix.samplers.mixture.measure._walk_atoms import CUT
from sklearn_dpmix.samplers.mixture.measure._which_chart import masses_of


def log_densities(mechanism, z, weights, means, sds):
    """log f_P(z) of each z, by the closed forms of single records (not those on nodes)."""
    theta = np.column_stack([means, sds, 1.0 / sds, np.log(sds)])
    channel = mechanism._lower(n_records=len(z), n_features=1)
    kernel = NormalKernel(0.0, 0.1, 3.0, 3.0)._lower(n_features=1)
    start, Z = np.array([0, len(weights)]), np.ascontiguousarray(z[:, None])
    return mean_marginal(channel, kernel, start, np.log(weights), theta, Z, np.arange(len(z)))


def folding(mechanism, z):
    """What all log likelihoods have in common, that nodes at the bounds leave out."""
    return -math.fsum(np.abs(z - mechanism.folded(z)) / mechanism.noise_scale)


def errors(mechanism, z, nodes, sd, seed=0):
    """Of the log likelihood on each of some nodes, for four populations with components of this standard deviation."""
    rng, found = np.random.default_rng(seed), []
    for _ in range(4):
        weights = np.concatenate([0.7 * rng.dirichlet([9, 9, 9]), 0.3 * rng.dirichlet(np.ones(4))])
        at = np.append([-5, 0, 5], rng.uniform(-8, 8, 4)), np.append(np.ones(3), np.full(4, sd))
        exact = math.fsum(log_densities(mechanism, z, weights, *at)) - folding(mechanism, z)
        found.append([math.fsum(w * log_densities(mechanism, x, weights, *at)) - exact for x, w in nodes])
    return np.array(found)


@pytest.mark.slow
@pytest.mark.parametrize(
    "mechanism",
    [MECHANISMS[0], MECHANISMS[3], *(pytest.param(one, marks=pytest.mark.nightly) for one in MECHANISMS[1:3])],
    ids=repr,
)
def test_the_log_likelihood_is_that_of_the_records(mechanism):
    """Against compensated sums over 5000 records: 10⁻⁷ down to components as narrow as two cells."""
    z = release(5000, mechanism)[:, 0]
    summary = ReleaseSummary(mechanism).update(z[:, None])
    nodes, width = summary.nodes(), summary.cell_width
    edges = cell_edges(nodes.places[0], nodes.places[-1], -17.0, 17.0, 8.0 * width)
    for sd in (2.0 * width, 0.5):
        assert np.abs(errors(mechanism, z, [nodes], sd)).max() < 1e-7
    assert np.abs(errors(mechanism, z, [compress(nodes, edges)], 2.0 * width)).max() < 1e-6
    twins = [nodes._replace(weights=nodes.weights.copy()), nodes._replace(places=nodes.places.copy())]
    twins[0].weights[len(nodes.weights) // 3] *= 1.01
    twins[1].places[len(nodes.places) // 3 :][:4] += width
    cells = summary._cells
    left_out = np.where(np.arange(8) == 2, 0.0, cells.moments)
    twins.append(cells._replace(moments=left_out).nodes())
    twins.append(cells._replace(moments=np.roll(cells.moments, 1, axis=0)).nodes())
    assert np.all(np.abs(errors(mechanism, z, twins, 2.0 * width)).max(axis=0) > 1e-6)


@pytest.mark.slow
def test_much_narrower_components_are_seen_by_the_difference_of_two_levels():
    """The error is below their difference, down to components far narrower than a cell."""
    z = release(5000)[:, 0]
    summary = ReleaseSummary(LAPLACE).update(z[:, None])
    for share in (1.0, 0.3, 0.1):
        levels = [summary.nodes(), summary._cells.coarser().nodes()]
        narrow, wide = errors(LAPLACE, z, levels, share * summary.cell_width).T
        assert np.abs(narrow).max() < np.abs(narrow - wide).max() + 1e-8


@pytest.mark.slow
@pytest.mark.parametrize("n", [100, 2000])
def test_a_fit_of_a_summary_is_that_of_the_records(n):
    Z = release(n)
    summary = ReleaseSummary(LAPLACE)
    for part in np.array_split(Z, 3):
        summary.update(part)
    of_records, of_summary = model().fit(Z), model().fit(summary)
    np.testing.assert_allclose(of_summary.weights_draws_, of_records.weights_draws_, rtol=1e-6)
    np.testing.assert_array_equal(of_summary.n_clusters_draws_, of_records.n_clusters_draws_)
    np.testing.assert_allclose(of_summary.score_samples([[0.0]]), of_records.score_samples([[0.0]]), rtol=1e-6)
    assert of_summary.compression_error_ < 1e-6
    assert of_summary.kernel_.scale == pytest.approx(of_records.kernel_.scale)
    releases, fits = of_records._fitted_releases(), (of_records, of_summary)
    likelier = np.diff([fit._clusters_.clustering.classify(releases, np.arange(n))[1] for fit in fits])
    assert abs(likelier) < 1.0  # nodes may make another draw the best, if it is about as good
    assert adjusted_rand_score(of_summary.predict(Z), of_records.labels_) > 0.9
    assert of_summary.score_release(Z[:50]) == pytest.approx(of_records.score_release(Z[:50]), rel=1e-6)
    assert set(of_summary.summary().index) == set(of_records.summary().index)
    assert summary.n_records == of_summary.summary_.n_records == n
    summary.update(Z)
    assert of_summary.summary_.n_records == n  # a copy


def test_what_needs_records_says_how_to_get_them():
    fitted = model().fit(ReleaseSummary(LAPLACE).update(release(300)))
    assert not hasattr(fitted, "labels_")
    with pytest.raises(AttributeError, match=r"'labels_', since it was fitted to a summary.*predict\(Z\) gives the"):
        _ = fitted.labels_
    with pytest.raises(AttributeError, match="has no attribute 'labels_', since it is not fitted yet"):
        _ = model().labels_
    for method in (fitted.similarity, fitted.point_partition):
        with pytest.raises(ValueError, match=r"partitions are of records.*predict\(Z\) gives labels, or fit an array"):
            method()
    tree = fitted.to_datatree()
    assert "observed_data" not in tree.children
    for group in ("log_likelihood", "posterior_predictive"):
        with pytest.raises(ValueError, match="a summary was fitted, which keeps no records: fit an array"):
            fitted.to_datatree(**{group: True})


def test_warm_start_and_checkpoints_of_summaries(tmp_path):
    summary, path = ReleaseSummary(LAPLACE).update(release(500)), tmp_path / "chains"
    whole = model(n_draws=40).fit(summary)
    parts = model(n_draws=20, warm_start=True).fit(summary).set_params(n_draws=40).fit(summary)
    np.testing.assert_array_equal(whole.weights_draws_, parts.weights_draws_)
    model(n_draws=20, checkpoint=path).fit(summary)
    resumed = model(n_draws=40, checkpoint=path).fit(summary)
    np.testing.assert_array_equal(whole.weights_draws_, resumed.weights_draws_)
    other = deepcopy(summary).update(release(1))
    with pytest.raises(ValueError, match="from another fit: the data changed"):
        model(n_draws=40, checkpoint=path).fit(other)
    with pytest.raises(ValueError, match="but the data changed"):
        parts.fit(other)


def test_cells_that_hold_all_records_are_called_too_wide():
    """Cells twice as wide, each with the records of one of them, are no rougher, and said that nothing is wrong."""
    mechanism = LaplaceMechanism(scale=0.5, bounds=(-1e4, 1e4))
    Z = mechanism.privatize(np.random.default_rng(0).beta(2.0, 5.0, (3000, 1)), random_state=1)
    with pytest.warns(RuntimeWarning, match=r"cells are 4\.88 wide, .* too wide for this fit.*with width="):
        fitted = model(mechanism).fit(ReleaseSummary(mechanism, width=5.0).update(Z))
    assert fitted.compression_error_ > 1.0
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*too wide")
        fitted = model(mechanism).fit(ReleaseSummary(mechanism).update(Z))
    assert fitted.compression_error_ < 1e-6


def test_cells_that_the_trial_run_found_narrow_enough_are_called_too_wide(monkeypatch):
    """The fit's own draws had components narrower than the trial run's: nothing was said of the cells."""
    errors = iter([0.0, 0.05])  # of the trial run, and of the fit
    monkeypatch.setattr(MixingMeasure, "compression_error", lambda *args: next(errors))
    with pytest.warns(RuntimeWarning, match=r"cells are 0\.156 wide, .* off by up to 0\.05; .*with width=0\.11"):
        model().fit(ReleaseSummary(LAPLACE, width=0.2).update(release(300)))


def test_narrow_cells_that_are_wanted_are_named():
    """A kernel of components far narrower than a cell: the number that is asked for is enough."""
    rng = np.random.default_rng(0)
    mechanism = LaplaceMechanism(epsilon=20_000.0, bounds=(-10, 10))
    Z = mechanism.privatize(0.01 * rng.standard_normal((20_000, 1)) + 3.0, random_state=1)
    kernel = NormalKernel(3.0, 0.1, 3.0, 1e-4)
    coarse = ReleaseSummary(mechanism, width=0.05).update(Z)
    with pytest.warns(RuntimeWarning, match=r"cells are 0\.0391 wide, .* too wide for this fit.*with width=") as caught:
        fitted = model(mechanism, kernel=kernel).fit(coarse)
    assert fitted.compression_error_ > 0.01
    (text,) = [str(one.message) for one in caught if "too wide" in str(one.message)]
    width = float(text.rpartition("width=")[2])
    fine = ReleaseSummary(mechanism, width=width).update(Z)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", message=".*too wide")
        fitted = model(mechanism, kernel=kernel).fit(fine)
    assert fitted.compression_error_ < 0.01
    z, draws = Z[:, 0], fitted._draws_
    for t in (0, 20, 39):
        rows = slice(draws.start[t], draws.start[t + 1])
        theta = draws.flat.theta[rows]
        parts = draws.flat.weights[rows], theta[:, 0], theta[:, 1]
        exact = math.fsum(log_densities(mechanism, z, *parts)) - folding(mechanism, z)
        for nodes, bound in ((fine.nodes(), 0.01), (coarse.nodes(), np.inf)):
            error = abs(math.fsum(nodes.weights * log_densities(mechanism, nodes.places, *parts)) - exact)
            assert error < bound


def test_partial_fit_is_a_fit_of_all_records():
    Z = release(900)
    part = model(n_warmup=100, n_draws=200)
    for batch in np.array_split(Z, 3):
        part.partial_fit(batch)
    whole = model(n_warmup=100, n_draws=200).fit(ReleaseSummary(LAPLACE).update(Z))
    assert part.summary_.n_records == 900 and not differ(part.summary_, whole.summary_)
    mean, _ = part.moment_draws()
    other, _ = whole.moment_draws()
    assert abs(mean.mean() - other.mean()) < 6.0 * mean.std() * np.sqrt(2.0 / 100.0)  # of 100 effective draws
    first = model().partial_fit(Z[:300])
    of_summary = model().fit(ReleaseSummary(LAPLACE).update(Z[:300]))
    np.testing.assert_array_equal(first.weights_draws_, of_summary.weights_draws_)
    after_fit = model().fit(Z[:600]).partial_fit(Z[600:])
    assert not differ(after_fit.summary_, whole.summary_)
    assert not hasattr(after_fit, "labels_")


def test_there_may_be_more_nodes_than_records():
    """Catches a channel for as many releases as there are records, and then read beyond its end."""
    mechanism = SquareWaveMechanism(3.0)
    summary = ReleaseSummary(mechanism).update(mechanism.privatize(np.linspace(0, 1, 1000)[:, None], random_state=0))
    n_nodes = len(summary.nodes().places)
    assert n_nodes > 1000
    fitted = model(mechanism, kernel="truncated_normal", n_warmup=2, n_draws=2).fit(summary)
    _, releases, *_ = fitted._clusters_.parts
    assert len(releases.Z) == n_nodes
    assert releases.channel.each == 0  # what it knows is for all


@pytest.mark.parametrize("first", ["fit", "partial_fit"])
def test_partial_fit_takes_the_same_column(first):
    """Catches the name of a column that is forgotten, so that another one's records are added to it."""
    pd = pytest.importorskip("pandas")
    Z = release(200)
    fitted = getattr(model(), first)(pd.DataFrame({"age": Z[:100, 0]}))
    with pytest.raises(ValueError, match="batch 1 has column 'height', but this summary was built from 'age'"):
        fitted.partial_fit(pd.DataFrame({"height": Z[100:, 0]}))
    fitted.partial_fit(Z[100:])
    np.testing.assert_array_equal(fitted.feature_names_in_, ["age"])


def test_partial_fit_goes_on_with_the_chains(monkeypatch):
    """A chain starts at the atoms where the last one ended, with the dust that is no dust of more records."""
    fitted = model().partial_fit(release(3000))
    sampler, state = fitted.sampler_, fitted._run_.chains[0].state
    n, n_dust = state.ints[0], state.ints[1]
    assert n_dust > 0
    cut = np.sort(state.dust_mass[:n_dust])[n_dust // 2]
    law = np.zeros(20)
    law[CUT] = cut
    mixing = fitted.mixing_._lower()
    start = sampler.with_dust(SimpleNamespace(law=law, masses=masses_of(mixing), start=lambda: None), state)
    kept = state.dust_mass[:n_dust] > cut
    assert start.ints.tolist() == [n + kept.sum(), 0, 0]
    np.testing.assert_array_equal(start.mass[:n], state.mass[:n])
    np.testing.assert_array_equal(start.place[n : n + kept.sum()], state.dust_place[:n_dust][kept])
    assert start.mass.size >= 2 * start.ints[0]
    assert start.floats[0] == mixing.start
    # twin: without those chains another start, and other draws
    again, fresh = deepcopy(fitted), deepcopy(fitted)
    del fresh._run_
    for one in (again, fresh):
        one.set_params(n_warmup=0).partial_fit(release(20))
    assert np.array_equal(again.summary_._contents()[1], fresh.summary_._contents()[1])
    assert not np.array_equal(again.weights_draws_[:, 0], fresh.weights_draws_[:, 0])
    with monkeypatch.context() as patch:
        patch.setattr("sklearn_dpmix.__version__", "99.0")  # as after unpickling the fit of another version
        with pytest.raises(ValueError, match="but the version of sklearn_dpmix changed: fit all records anew"):
            fitted.partial_fit(batches := iter([release(3)]))
        assert fitted.summary_.n_records == 3000 and next(batches).shape == (3, 1)  # it was not read
        assert fitted.fit(fitted.summary_).partial_fit(release(3)).summary_.n_records == 3003
    with pytest.raises(ValueError, match="pass checkpoint=None"):
        fitted.set_params(checkpoint="x").partial_fit(release(3))
    assert not hasattr(PrivateDPMixture(), "partial_fit")


def test_labels_of_many_records_are_those_of_few():
    """Densities at many places at once against the closed forms of single records, very far ones included."""
    sds = np.array([1.0, 0.3, 2.0])
    theta = np.column_stack([[-5.0, 0.0, 6.0], sds, 1.0 / sds, np.log(sds)])
    kernel = NormalKernel(0.0, 0.1, 3.0, 3.0)._lower(n_features=1)
    for mechanism in (LAPLACE, GaussianMechanism(scale=1.0)):
        Z = release(20_000, mechanism)
        Z[:6, 0] = [-1e4, 1e4, -500, 500, 30, -30]
        channel = mechanism._lower(n_records=len(Z), n_features=1)
        of = cluster.Clustering(np.log([0.3, 0.3, 0.4]), theta, np.arange(3))
        at_once = Releases(Z, channel, kernel, has_marginal=True, noised=mechanism)
        one_by_one = of.clusters(at_once._replace(noised=None))
        np.testing.assert_array_equal(of.clusters(at_once), one_by_one)
        assert np.all(np.bincount(one_by_one) > 1000)
        twin = of._replace(theta=theta + [0.1, 0.0, 0.0, 0.0])
        assert np.any(twin.clusters(at_once) != one_by_one)


def test_samplers_and_kernels_that_need_records_refuse_summaries():
    summary = ReleaseSummary(LAPLACE).update(release(200))
    for parameters in (
        {"sampler": Neal5()},
        {"mixing": PitmanYor()},
        {"kernel": "multivariate_normal"},
        {"kernel": "multivariate_normal", "sampler": "mixing_measure"},
        {"mechanism": None},
    ):
        for source in (summary, iter([release(20)])):
            with pytest.raises(ValueError, match=r"Z is a .*needs all records at once: fit an array"):
                model(**parameters).fit(source)
    with pytest.raises(ValueError, match="needs all records at once"):
        model(sampler="neal5").partial_fit(release(20))
    with pytest.raises(ValueError, match="n_records=7, but the release has 200 records"):
        model(n_records=7).fit(summary)
