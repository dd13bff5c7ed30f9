"""Batches, memory maps, Arrow and Dask as sources of a summary."""

import numpy as np
import pytest
from summary_case import LAPLACE, differ, model, release

from sklearn_dpmix import ReleaseSummary
from sklearn_dpmix._releases.release import Release
from sklearn_dpmix.estimators._confidential import check_confidential
from sklearn_dpmix.estimators.mixture._batches import _merged, summary_of
from sklearn_dpmix.mechanisms import LaplaceMechanism, PiecewiseMechanism, SquareWaveMechanism


def test_iterators_of_batches():
    Z = release(400)
    of_batches = model().fit(Z[first : first + 90] for first in range(0, 400, 90))
    np.testing.assert_allclose(of_batches.weights_draws_, model().fit(Z).weights_draws_, rtol=1e-6)
    assert of_batches.summary_.n_batches == 5
    with pytest.raises(ValueError, match="holds no records"):
        model().fit(iter([]))


def test_a_list_of_batches_is_refused_by_name():
    """Catches NumPy's words on lists: an inhomogeneous shape, or three dimensions."""
    Z = release(90)
    for batches in ([Z[:40], Z[40:]], (Z[:45], Z[45:])):
        with pytest.raises(ValueError, match=r"of 2 tables: pass an iterator of batches, iter\(Z\)"):
            model().fit(batches)
        with pytest.raises(ValueError, match="of 2 tables"):
            model().partial_fit(batches)


def test_masked_entries_are_refused():
    """Catches a mask that is lost, so that what it hides is fitted; and a masked array that hides nothing."""
    Z = np.ma.masked_array(release(90), mask=False)
    model().fit(Z)
    ReleaseSummary(LAPLACE).update(Z)
    Z[3] = np.ma.masked
    summary = ReleaseSummary(LAPLACE)
    for take in (model().fit, model().partial_fit, summary.update, LAPLACE.privatize):
        with pytest.raises(ValueError, match=r"[ZX] has masked entries, whose mask would be lost"):
            take(Z)
    with pytest.raises(ValueError, match="X must be a table of finite numbers"):
        check_confidential(model(), Z)


@pytest.mark.parametrize("kind", [LaplaceMechanism, SquareWaveMechanism, PiecewiseMechanism])
def test_memory_maps_are_not_copied(tmp_path, kind):
    """What a summary, and a fit before its chains, takes of memory does not grow with the number of records."""
    import tracemalloc

    mechanism, n = kind(epsilon=2.0, bounds=(0, 100)), 3_000_000
    records = np.random.default_rng(0).uniform(20.0, 80.0, (n, 1))
    np.save(tmp_path / "z.npy", mechanism.privatize(records, random_state=0))
    Z = np.load(tmp_path / "z.npy", mmap_mode="r")

    def look(Z):
        release = Release(Z, mechanism)
        mechanism.check_release(Z)
        mechanism._lower(n_records=len(Z), n_features=1)
        return release.centre(), release.typical_moments(), release.nodes(1.0), release.shares()

    for use in (ReleaseSummary(mechanism).update, look):
        peaks = []
        for rows in (Z[: n // 2], Z):
            tracemalloc.start()
            use(rows)
            peaks.append(tracemalloc.get_traced_memory()[1])
            tracemalloc.stop()
        assert peaks[1] - peaks[0] < Z.nbytes / 10


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
    with pytest.raises(ValueError, match=r"batch 0: .*NaN.*the summary is unchanged"):
        model().fit(dataset.dataset(missing))


@pytest.mark.parametrize(
    ("second", "words"),
    [
        ({"height": [1.0]}, r"part1.parquet has columns \['height'\], but .*part0.parquet has \['age'\]"),
        ({"age": [1.0], "height": [1.0]}, r"part1.parquet has columns \['age', 'height'\]"),
        ({"age": ["b"]}, r"part1.parquet: .*'b'"),
    ],
)
def test_a_file_unlike_the_others_is_named(tmp_path, second, words):
    """Catches another column that is read as missing values, and one that is left out."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"age": release(90)[:, 0]}), tmp_path / "part0.parquet")
    parquet.write_table(pa.table(second), tmp_path / "part1.parquet")
    with pytest.raises(ValueError, match=words):
        model().fit(tmp_path)


@pytest.mark.parametrize("first", ["float32", "int64", "null"])
def test_files_of_several_types_keep_their_digits(tmp_path, first):
    """Catches numbers that are read in the type of the first file; one of 1.6e9 as float32 is known to 64 only."""
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    begin = pa.nulls(0) if first == "null" else pa.array(np.array([1.6e9], first))
    later = [1_600_000_000.5, 1_600_000_001.25]
    parquet.write_table(pa.table({"age": begin}), tmp_path / "part0.parquet")
    parquet.write_table(pa.table({"age": later}), tmp_path / "part1.parquet")
    places, _ = summary_of(tmp_path, LaplaceMechanism(scale=1.0)).nodes()
    assert places.tolist() == [1.6e9] * len(begin) + later


def test_files_without_rows_are_refused(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    parquet.write_table(pa.table({"age": pa.array([], pa.float64())}), tmp_path / "part0.parquet")
    with pytest.raises(ValueError, match="Z holds no records: its files have no rows"):
        model().fit(tmp_path)


def test_a_data_set_that_was_filtered_or_told_its_columns_is_read(tmp_path):
    pa, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    datasets, Z = pytest.importorskip("pyarrow.dataset"), release(90)
    parquet.write_table(pa.table({"age": Z[:, 0]}), tmp_path / "part0.parquet")
    kept = datasets.dataset(tmp_path).filter(datasets.field("age") > 0.0)
    assert summary_of(kept, LAPLACE).n_records == np.sum(Z > 0.0)
    parquet.write_table(pa.table({"height": [1.0], "age": [2.0]}), tmp_path / "part1.parquet")
    told = datasets.dataset(tmp_path, schema=pa.schema([("age", pa.float64())]))
    with pytest.raises(ValueError, match=r"part1.parquet has columns .*scanner\(columns=\[name\]\)"):
        summary_of(told, LAPLACE)
    assert summary_of(told.scanner(columns=["age"]), LAPLACE).n_records == 91


class Batches:
    def __iter__(self):
        return iter([release(90)])


@pytest.mark.parametrize(
    ("Z", "words"),
    [
        (iter([]), "Z holds no records: it is an empty list_iterator"),
        (Batches(), r"Z is a Batches, which is neither a table nor an iterator of batches: .*iter\(Z\)"),
        (lambda: iter([release(90)]), "Z is a function, which is neither"),
        ([ReleaseSummary(LAPLACE)], r"Z is a list of 1 summaries: merge them into one, by merge\(\)"),
        (ReleaseSummary(LAPLACE), "this summary holds no records"),
    ],
)
def test_what_is_no_release_is_refused_by_name(Z, words):
    with pytest.raises((TypeError, ValueError), match=words):
        model().fit(Z)


def test_a_summary_is_no_batch():
    with pytest.raises(TypeError, match=r"batch 0 is a ReleaseSummary: merge\(\) adds"):
        ReleaseSummary(LAPLACE).update(ReleaseSummary(LAPLACE))


def test_the_old_mechanism_and_the_new_one_are_not_mixed_up():
    fitted = model().fit(release(90)).set_params(mechanism=LaplaceMechanism(epsilon=1.0, bounds=(-10, 10)))
    with pytest.raises(ValueError, match=r"built from releases of .*epsilon=10.0\), but the model's .*epsilon=1.0"):
        fitted.partial_fit(release(90))


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


def test_merging_for_dask_leaves_the_parts_as_they_were():
    """A task may run again, on the same inputs."""
    parts = [ReleaseSummary(LAPLACE).update(part) for part in np.split(release(600), 3)]
    for _ in range(2):
        assert _merged(parts).n_records == 600
    assert [part.n_records for part in parts] == [200, 200, 200]


def test_dask_frames():
    dask, pd = pytest.importorskip("dask"), pytest.importorskip("pandas")
    frames = pytest.importorskip("dask.dataframe")
    Z = release(600)
    with dask.config.set(scheduler="synchronous"):
        frame = frames.from_pandas(pd.DataFrame({"age": Z[:, 0]}), npartitions=5)
        summary = summary_of(frame, LAPLACE)
        parts = [dask.delayed(pd.DataFrame)({name: [1.0]}) for name in ("age", "height")]
        odd = frames.from_delayed(parts, meta={"age": float}, verify_meta=False)
        with pytest.raises(ValueError, match="part 1 has column 'height', but the frame has 'age'"):
            model().fit(odd)
        unnamed = frames.from_pandas(pd.DataFrame(Z), npartitions=2)
        assert summary_of(unnamed, LAPLACE).n_records == 600
        with pytest.raises(TypeError, match="Z is a Bag of Dask"):
            model().fit(pytest.importorskip("dask.bag").from_sequence([1.0]))
    assert not differ(summary, ReleaseSummary(LAPLACE).update(Z))
    assert summary._column == "age"
