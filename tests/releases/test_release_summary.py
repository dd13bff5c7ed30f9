"""Summaries of releases: merged they are those of the whole, and a fit sees in them what it would see in the records.

Broken twins: a moment left out, the moments of a cell put into another, a weight that is off by 1 %, halves of a cell
that are joined as if they were at the same place.
"""

import math
import pickle
import warnings
from copy import deepcopy
from types import SimpleNamespace

import numpy as np
import pytest

from sklearn_dpmix import PrivateDPMixture, ReleaseSummary
from sklearn_dpmix._posterior import cluster
from sklearn_dpmix._posterior.cluster import mean_marginal
from sklearn_dpmix._releases.fine_cells import OF_HALVES, FineCells, Grid, no_cells
from sklearn_dpmix._releases.nodes import FEW, cell_edges, compress
from sklearn_dpmix.estimators.mixture._batches import summary_of
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.mixings import PitmanYor
from sklearn_dpmix.samplers import Neal5
from sklearn_dpmix.samplers.mixture.measure._walk_state import CUT

LAPLACE = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))
MECHANISMS = [
    LAPLACE,
    LaplaceMechanism(epsilon=5.0, bounds=(-10, 10), clamp=False),
    LaplaceMechanism(scale=0.02),
    GaussianMechanism(epsilon=10.0, delta=1e-5, bounds=(-10, 10)),
]


def three_normals(n, seed=0):
    rng = np.random.default_rng(seed)
    return (rng.choice([-5.0, 0.0, 5.0], n) + rng.standard_normal(n))[:, None]


def release(n, mechanism=LAPLACE):
    return mechanism.privatize(three_normals(n), random_state=1)


def model(mechanism=LAPLACE, **parameters):
    return PrivateDPMixture(mechanism, **{"n_chains": 2, "n_warmup": 20, "n_draws": 20, "random_state": 0} | parameters)


# --- merged is whole -------------------------------------------------------------------------------------------------


def differ(one, other):
    """Whether two summaries differ by more than rounding."""
    cells, others, sums, other_sums = one._cells, other._cells, one._sums, other._sums
    if one.n_records != other.n_records or cells.grid != others.grid or not np.array_equal(cells.keys, others.keys):
        return True
    apart = np.abs(cells.moments - others.moments) > 1e-12 * (10.0 + cells.moments[:, :1])
    same_sums = sums.n == 0 or np.allclose(sums, other_sums, rtol=1e-12, atol=1e-12 * abs(sums.largest))
    same_ends = np.array_equal(cells.at_ends, others.at_ends)
    return not (same_sums and same_ends and np.array_equal(one._records, other._records)) or bool(apart.any())


@pytest.mark.parametrize("heavy", [False, True], ids=["normals", "Cauchy"])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_merged_is_whole(mechanism, heavy):
    """Any split, any order, as a list or as a tree; wide tails make parts end at cells of different widths."""
    rng, n = np.random.default_rng(1), 20_000 if heavy else 6_000
    X = 3.0 * rng.standard_cauchy((n, 1)) if heavy else three_normals(n)
    Z = mechanism.privatize(X, random_state=2)
    whole = ReleaseSummary(mechanism).update(Z)
    widths = set()
    for seed in range(3):
        rng = np.random.default_rng(seed)
        cuts = np.sort(rng.choice(n, rng.integers(1, 9), replace=False))
        parts = [ReleaseSummary(mechanism).update(part) for part in np.split(rng.permutation(Z), [0, *cuts, cuts[-1]])]
        widths |= {part.cell_width for part in parts}
        while len(parts) > 1:  # some tree
            one, other = rng.choice(len(parts), 2, replace=False)
            merged = deepcopy(parts[one]).merge(parts[other])
            parts = [part for k, part in enumerate(parts) if k not in (one, other)] + [merged]
        assert not differ(whole, parts[0])
        batches = ReleaseSummary(mechanism)
        for part in np.split(rng.permutation(Z), cuts):
            batches.update(part)
        assert not differ(whole, batches)
    assert len(widths - {None}) > 1 or not heavy or mechanism is LAPLACE
    assert len(whole._cells.keys) <= 4096
    assert len(pickle.dumps(whole)) < 1_000_000


@pytest.mark.parametrize("n", [1, 2, FEW - 1, FEW, FEW + 1, 1000])
def test_few_records_are_kept(n):
    Z = release(n)
    whole = ReleaseSummary(LAPLACE).update(Z)
    for cut in {0, 1, n // 2, n}:
        parts = ReleaseSummary(LAPLACE).update(Z[cut:]), ReleaseSummary(LAPLACE).update(Z[:cut])
        assert not differ(whole, parts[0].merge(parts[1]))
    places, weights = whole.nodes()
    assert weights.sum() == pytest.approx(n, rel=1e-12)
    if n <= FEW:
        np.testing.assert_array_equal(places, np.sort(np.clip(Z[:, 0], -10, 10)))


def test_broken_merges_are_rejected(monkeypatch):
    """What :func:`differ` and the tests above would say of plausible mistakes."""
    Z = release(20_000, MECHANISMS[2])
    whole, other = (ReleaseSummary(MECHANISMS[2]).update(Z) for _ in range(2))
    moments, keys = other._cells.moments, other._cells.keys
    for wrong in (
        np.where(np.arange(8) == 5, 0.0, moments),  # a moment left out
        np.roll(moments, 1, axis=0),  # in another cell
        np.where(np.arange(len(keys))[:, None] == 700, 1.01 * moments, moments),  # a weight off by 1 %
    ):
        other._hold(other._sums, other._records, other._cells._replace(moments=wrong))
        assert differ(whole, other)
    monkeypatch.setattr("sklearn_dpmix._releases.fine_cells.OF_HALVES", np.array([np.eye(8)] * 2))
    assert differ(whole, ReleaseSummary(MECHANISMS[2]).update(Z[:50]).update(Z[50:]))


def test_cells_twice_as_wide_have_the_moments_of_their_records():
    z = np.random.default_rng(0).standard_normal(500) * 3.0
    narrow, _ = no_cells(Grid(0.0, 0.25, -np.inf, np.inf)).added(z, 4096)
    wide, _ = no_cells(Grid(0.0, 0.5, -np.inf, np.inf)).added(z, 4096)
    found = narrow.coarser()
    np.testing.assert_array_equal(found.keys, wide.keys)
    np.testing.assert_allclose(found.moments, wide.moments, atol=1e-12)
    twin = narrow._replace(keys=narrow.keys ^ 1)  # left halves for right ones
    assert np.abs(twin.coarser().moments - wide.moments).max() > 0.1
    assert OF_HALVES.shape == (2, 8, 8)


def test_moments_are_sums_over_records():
    """Against Chebyshev polynomials of all records, one by one, at the ends, far out and in a crowded table too."""
    rng = np.random.default_rng(0)
    z = np.concatenate([rng.uniform(0, 1, 500), [0.0, 1.0, -3.0, 1.0 - 1e-16, 5.0]])
    cells, sums = no_cells(Grid(0.0, 1.0 / 32, 0.0, 1.0)).added(z, 32)
    assert cells.at_ends.tolist() == [2, 2] and sums.n == len(z)
    inside = z[(z > 0) & (z < 1)]
    key = np.minimum(np.floor(32 * inside), 31).astype(int)
    t = 2 * (32 * inside - key) - 1
    expected = np.zeros((32, 8))
    for p in range(8):
        np.add.at(expected[:, p], key, np.cos(p * np.arccos(np.clip(t, -1, 1))))
    np.testing.assert_allclose(cells.moments, expected, atol=1e-11)
    np.testing.assert_allclose([sums.mean, sums.squares], [z.mean(), z.var() * len(z)], rtol=1e-13)
    far = np.arange(40.0) * 2.0**20 + 0.3  # keys that all want the same row
    cells, _ = no_cells(Grid(0.0, 1.0, -np.inf, np.inf)).added(np.tile(far, 3), 64)
    assert isinstance(cells, FineCells) and cells.moments[:, 0].tolist() == [3.0] * 40
    cells = no_cells(Grid(0.0, 1.0, -np.inf, np.inf)).added(far[:20], 64)[0].added(far[10:], 64)[0]
    assert cells.moments[:, 0].tolist() == [1.0] * 10 + [2.0] * 10 + [1.0] * 20


# --- the likelihood --------------------------------------------------------------------------------------------------


def log_densities(mechanism, z, weights, means, sds):
    """log f_P(z) of each z, by the closed forms of single records (not those on nodes)."""
    theta = np.column_stack([means, sds, 1.0 / sds, np.log(sds)])
    channel = mechanism._lower(n_records=len(z), n_features=1)
    kernel = NormalKernel(0.0, 0.1, 3.0, 3.0)._lower(n_features=1)
    start, Z = np.array([0, len(weights)]), np.ascontiguousarray(z[:, None])
    return mean_marginal(channel, kernel, start, np.log(weights), theta, Z, 0, len(z))


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
        narrow, wide = errors(LAPLACE, z, [summary.nodes(), summary.coarser_nodes()], share * summary.cell_width).T
        assert np.abs(narrow).max() < np.abs(narrow - wide).max() + 1e-8


# --- fits ------------------------------------------------------------------------------------------------------------


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
    assert np.mean(of_summary.predict(Z) == of_records.labels_) > 0.95
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
    with pytest.raises(AttributeError, match=r"has no attribute 'labels_'$"):
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
    with pytest.raises(ValueError, match="another fit's: the data changed"):
        model(n_draws=40, checkpoint=path).fit(other)
    with pytest.raises(ValueError, match="but the data changed"):
        parts.fit(other)


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


def test_partial_fit_goes_on_with_the_chains():
    """A chain starts at the atoms where the last one ended, with the dust that is no dust of more records."""
    fitted = model().partial_fit(release(3000))
    sampler, state = fitted.sampler_, fitted._run_.chains[0].state
    n, n_dust = state.ints[0], state.ints[1]
    assert n_dust > 0
    cut = np.sort(state.dust_mass[:n_dust])[n_dust // 2]
    law = np.zeros(20)
    law[CUT] = cut
    mixing = fitted.mixing_._lower()
    start = sampler.continued((None, None, None, mixing), SimpleNamespace(law=law), state)
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
    assert np.array_equal(again.summary_.contents()[1], fresh.summary_.contents()[1])
    assert not np.array_equal(again.weights_draws_[:, 0], fresh.weights_draws_[:, 0])
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
        of = cluster.Clustering(np.log([0.3, 0.3, 0.4]), theta, np.arange(3), True)
        one_by_one = of.clusters(channel, kernel, Z)
        np.testing.assert_array_equal(of.clusters(channel, kernel, Z, None, mechanism), one_by_one)
        assert np.all(np.bincount(one_by_one) > 1000)
        twin = of._replace(theta=theta + [0.1, 0.0, 0.0, 0.0])
        assert np.any(twin.clusters(channel, kernel, Z, None, mechanism) != one_by_one)


# --- sources ---------------------------------------------------------------------------------------------------------


def test_iterators_of_batches():
    Z = release(400)
    of_batches = model().fit(Z[first : first + 90] for first in range(0, 400, 90))
    np.testing.assert_allclose(of_batches.weights_draws_, model().fit(Z).weights_draws_, rtol=1e-6)
    assert of_batches.summary_.n_batches == 5
    with pytest.raises(ValueError, match="there are no records"):
        model().fit(iter([]))


def test_memory_maps_are_not_copied(tmp_path):
    """The peak of a fit of a memory map is far below its size."""
    import tracemalloc

    n = 2_000_000
    np.save(tmp_path / "z.npy", release(n))
    Z = np.load(tmp_path / "z.npy", mmap_mode="r")
    summary = ReleaseSummary(LAPLACE)
    tracemalloc.start()
    summary.update(Z)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert summary.n_records == n
    assert peak < Z.nbytes / 4


def test_arrow(tmp_path):
    pa = pytest.importorskip("pyarrow")
    dataset, parquet = pytest.importorskip("pyarrow.dataset"), pytest.importorskip("pyarrow.parquet")
    Z = release(600)
    table = pa.table({"age": Z[:, 0], "place": np.arange(600)})
    for k in range(2):
        parquet.write_table(table.select(["age"]).slice(300 * k, 300), tmp_path / f"part{k}.parquet")
    whole = ReleaseSummary(LAPLACE).update(Z)
    data = dataset.dataset(tmp_path)
    for source in (
        data,
        data.scanner(columns=["age"], batch_size=70),
        tmp_path,
        str(tmp_path),
        [tmp_path / "part0.parquet", str(tmp_path / "part1.parquet")],
        pa.RecordBatchReader.from_batches(data.schema, data.to_batches()),
        iter(table.select(["age"]).to_batches(100)),
    ):
        summary = summary_of(source, LAPLACE)
        assert not differ(summary, whole)
        assert summary._column == "age"
    fitted = model().fit(tmp_path)
    assert not differ(fitted.summary_, whole)
    assert fitted.feature_names_in_.tolist() == ["age"]
    assert model().fit(table.select(["age"])).labels_.shape == (600,)  # it is in memory
    with pytest.raises(ValueError, match="batch 0: a summary takes one feature for now, but there are 2 columns"):
        model().fit(dataset.dataset(table))
    missing = pa.table({"age": pa.array([1.0, None])})
    with pytest.raises(ValueError, match=r"batch 0: .*NaN.*the summary stays as it was"):
        model().fit(dataset.dataset(missing))


def test_dask(tmp_path):
    dask, array = pytest.importorskip("dask"), pytest.importorskip("dask.array")
    Z = release(600)
    whole = ReleaseSummary(LAPLACE).update(Z)
    with dask.config.set(scheduler="synchronous"):
        for chunks in (600, 50, (7, 1)):
            assert not differ(summary_of(array.from_array(Z, chunks=chunks), LAPLACE), whole)
        fitted = model().fit(array.from_array(Z, chunks=100)).partial_fit(array.from_array(Z, chunks=100))
        assert fitted.summary_.n_records == 1200
        with pytest.raises(ValueError, match="one feature for now, as a column, but Z has 2 columns"):
            model().fit(array.from_array(np.hstack([Z, Z]), chunks=100))
        Z[350] = np.nan
        with pytest.raises(ValueError, match=r"part 3: .*NaN"):
            model().fit(array.from_array(Z, chunks=100))


def test_dask_frames():
    dask, pd = pytest.importorskip("dask"), pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    Z = release(600)
    with dask.config.set(scheduler="synchronous"):
        frame = frames.from_pandas(pd.DataFrame({"age": Z[:, 0]}), npartitions=5)
        summary = summary_of(frame, LAPLACE)
    assert not differ(summary, ReleaseSummary(LAPLACE).update(Z))
    assert summary._column == "age"


# --- files -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [0, 3, 5000])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_saved_and_loaded(mechanism, n, tmp_path):
    summary = ReleaseSummary(mechanism, width=0.1 if n == 3 else None)
    if n:
        summary.update(release(n, mechanism))
    summary.save(tmp_path / "summary.npz")
    loaded = ReleaseSummary.load(str(tmp_path / "summary.npz"))
    for one, other in zip(summary.contents(), loaded.contents(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (loaded.n_batches, loaded.width) == (summary.n_batches, summary.width)
    assert not differ(loaded.merge(summary), deepcopy(summary).merge(summary))


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "summary.npz"
    summary = ReleaseSummary(LAPLACE).update(release(2000))
    summary.save(path)
    whole = path.read_bytes()
    for wrong in (b"", whole[:3000], whole[:2000] + b"xxxx" + whole[2004:], b"no zip"):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"path=.*summary\.npz' is no summary that can be read"):
            ReleaseSummary.load(path)
    cells = summary._cells
    for wrong in (
        cells._replace(moments=-cells.moments),
        cells._replace(moments=cells.moments[:, :7]),
        cells._replace(moments=np.where(np.arange(8) == 3, np.nan, cells.moments)),
        cells._replace(keys=cells.keys[::-1]),
        cells._replace(keys=cells.keys.astype(float)),
        cells._replace(at_ends=cells.at_ends + 1),
        cells._replace(grid=cells.grid._replace(width=0.003)),
    ):
        damaged = deepcopy(summary)
        damaged._hold(summary._sums, summary._records, wrong)
        damaged.save(path)
        with pytest.raises(ValueError, match=r"is no summary that can be read"):
            ReleaseSummary.load(path)
    with pytest.raises(FileNotFoundError):
        ReleaseSummary.load(tmp_path / "none.npz")


# --- refusals --------------------------------------------------------------------------------------------------------


def test_bad_batches_leave_the_summary_as_it_was():
    pd = pytest.importorskip("pandas")
    summary = ReleaseSummary(LAPLACE).update(pd.DataFrame({"age": release(400)[:, 0]}))
    before = summary.contents()
    for batch, words in (
        (np.ones((3, 2)), "batch 1: a summary takes one feature for now, but there are 2 columns"),
        (np.ones(3), r"batch 1: Expected 2D array"),
        ([[1.0], [np.nan]], "batch 1: .*NaN"),
        ([[1.0], [np.inf]], "batch 1: .*infinity"),
        ([[1e200]], "batch 1: .*squares overflow"),
        (pd.DataFrame({"height": [1.0]}), "batch 1 has the column 'height', and the summary is of 'age'"),
        ([["a"]], "batch 1: "),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            summary.update(batch)
        assert "stays as it was" in str(caught.value)
    for one, other in zip(before, summary.contents(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (summary.n_batches, summary.n_records) == (1, 400)
    summary.update(np.empty((0, 1))).update([[1]])
    assert (summary.n_batches, summary.n_records) == (3, 401)


def test_other_mechanisms_are_refused():
    summary = ReleaseSummary(LAPLACE).update(release(200))
    for other in (
        LaplaceMechanism(epsilon=5.0, bounds=(-10, 10)),
        LaplaceMechanism(scale=2.0, bounds=(-10, 11)),
        LaplaceMechanism(epsilon=10.0, bounds=(-10, 10), clamp=False),
        GaussianMechanism(scale=2.0, bounds=(-10, 10)),
    ):
        for attempt in (lambda: summary.merge(ReleaseSummary(other)), lambda: model(other).fit(summary)):  # noqa: B023
            with pytest.raises(ValueError, match=r"this summary is of releases of Laplace.*epsilon=10") as caught:
                attempt()
            assert " ".join(repr(other).split()) in " ".join(str(caught.value).split())
    summary.merge(ReleaseSummary(LaplaceMechanism(scale=2.0, bounds=(-10, 10))))  # the same noise, said otherwise
    with pytest.raises(TypeError, match=r"other must be a ReleaseSummary, got ndarray: update\(\) takes records"):
        summary.merge(release(3))
    with pytest.raises(ValueError, match=r"width=None and width=0\.5"):
        summary.merge(ReleaseSummary(LAPLACE, width=0.5))
    assert summary.n_records == 200
    fitted = model().fit(summary)
    with pytest.raises(ValueError, match="this summary is of releases of"):
        fitted.set_params(mechanism__epsilon=3.0).partial_fit(release(3))
    assert fitted.summary_.n_records == 200


def test_what_cannot_be_summarised_is_refused(monkeypatch):
    for mechanism, words in (
        (None, "additive noise, .*got mechanism=None"),
        (DiscreteLaplaceMechanism(epsilon=1.0, bounds=(0, 5)), "additive noise, .*got mechanism=DiscreteLaplace"),
        (LaplaceMechanism(epsilon=[1.0, 2.0], bounds=(0, 5)), "noise of one scale for all records, got"),
    ):
        with pytest.raises(ValueError, match=words):
            ReleaseSummary(mechanism)
    with pytest.raises(TypeError, match=r"must be an object, got the class LaplaceMechanism"):
        ReleaseSummary(LaplaceMechanism)
    for width in (0.0, -1.0, "a", [1.0, 2.0]):
        with pytest.raises(ValueError, match="width must be"):
            ReleaseSummary(LAPLACE, width=width)
    monkeypatch.setattr("sklearn_dpmix._releases.summary.MOST_OF_WIDTH", 1000)
    for mechanism, width in ((LAPLACE, 0.01), (MECHANISMS[2], 1e-4)):
        with pytest.raises(ValueError, match=r"width=0\.0\d* makes more than 1000 cells"):
            ReleaseSummary(mechanism, width=width).update(release(2000))


def test_samplers_and_kernels_that_need_records_refuse_summaries():
    summary = ReleaseSummary(LAPLACE).update(release(200))
    for parameters in (
        {"sampler": Neal5()},
        {"mixing": PitmanYor()},
        {"kernel": "multivariate_normal"},
        {"mechanism": None},
    ):
        for source in (summary, iter([release(20)])):
            with pytest.raises(ValueError, match=r"needs all records at once, not batches or a summary.*fit an array"):
                model(**parameters).fit(source)
    with pytest.raises(ValueError, match="needs all records at once"):
        model(sampler="neal5").partial_fit(release(20))
    with pytest.raises(ValueError, match="n_records=7, but the release has 200 records"):
        model(n_records=7).fit(summary)
