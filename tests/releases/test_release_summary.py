"""Summaries of releases, merged, saved and loaded, are those of the whole; what cannot be summarised is refused."""

import pickle
from copy import deepcopy
from fractions import Fraction

import numpy as np
import pytest
from damaged_archives import encrypted, open_header
from scipy import sparse
from summary_case import LAPLACE, MECHANISMS, differ, model, release, three_normals

from sklearn_dpmix import ReleaseSummary
from sklearn_dpmix._releases import summary as of_summaries
from sklearn_dpmix._releases.fine_cells import OF_HALVES, FineCells, Grid, no_cells
from sklearn_dpmix._releases.nodes import FEW
from sklearn_dpmix._releases.release import FINER, Release
from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism, GaussianMechanism, LaplaceMechanism


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


@pytest.mark.parametrize("n", [0, 3, 5000])
@pytest.mark.parametrize("mechanism", MECHANISMS, ids=repr)
def test_saved_and_loaded(mechanism, n, tmp_path):
    summary = ReleaseSummary(mechanism, width=0.1 if n == 3 else None)
    if n:
        summary.update(release(n, mechanism))
    summary.save(tmp_path / "summary.npz")
    loaded = ReleaseSummary.load(str(tmp_path / "summary.npz"))
    for one, other in zip(summary._contents(), loaded._contents(), strict=True):
        np.testing.assert_array_equal(one, other)
    assert (loaded.n_batches, loaded.width) == (summary.n_batches, summary.width)
    assert not differ(loaded.merge(summary), deepcopy(summary).merge(summary))


def test_sums_of_squares_may_be_as_large_as_records_allow(tmp_path):
    """A summary of huge units was saved, and then called damaged."""
    mechanism = LaplaceMechanism(scale=1e74)
    summary = ReleaseSummary(mechanism).update(1e74 * release(1000, LAPLACE))
    summary.save(tmp_path / "summary.npz")
    assert not differ(ReleaseSummary.load(tmp_path / "summary.npz"), summary)


def test_damaged_files_are_named(tmp_path):
    path = tmp_path / "summary.npz"
    summary = ReleaseSummary(LAPLACE).update(release(2000))
    summary.save(path)
    whole = path.read_bytes()
    cut = b"", whole[:3000], whole[:2000] + b"xxxx" + whole[2004:], b"no zip"
    for wrong in (*cut, open_header(whole), encrypted(whole)):
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match=r"path=.*summary\.npz' cannot be read as a summary"):
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
        with pytest.raises(ValueError, match=r"cannot be read as a summary"):
            ReleaseSummary.load(path)
    with pytest.raises(FileNotFoundError):
        ReleaseSummary.load(tmp_path / "none.npz")


def test_bad_batches_leave_the_summary_as_it_was():
    pd = pytest.importorskip("pandas")
    summary = ReleaseSummary(LAPLACE).update(pd.DataFrame({"age": release(400)[:, 0]}))
    before = summary._contents()
    for batch, words in (
        (np.ones((3, 2)), "batch 1: a summary takes one feature for now, but there are 2 columns"),
        (np.ones(3), r"batch 1: Expected 2D array"),
        ([[1.0], [np.nan]], "batch 1: .*NaN"),
        ([[1.0], [np.inf]], "batch 1: .*infinity"),
        ([[1e200]], "batch 1: .*squares overflow"),
        (pd.DataFrame({"height": [1.0]}), "batch 1 has column 'height', but this summary was built from 'age'"),
        ([["a"]], "batch 1: "),
    ):
        with pytest.raises(ValueError, match=words) as caught:
            summary.update(batch)
        assert "is unchanged" in str(caught.value)
    with pytest.raises(TypeError, match=r"batch 1: .*dense data is required.*is unchanged"):
        summary.update(sparse.csr_array(np.ones((3, 1))))
    for one, other in zip(before, summary._contents(), strict=True):
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
            with pytest.raises(ValueError, match=r"was built from releases of Laplace.*epsilon=10") as caught:
                attempt()
            assert repr(other) in str(caught.value)
    summary.merge(ReleaseSummary(LaplaceMechanism(scale=2.0, bounds=(-10, 10))))  # the same noise, said otherwise
    with pytest.raises(TypeError, match=r"other must be a ReleaseSummary, got ndarray: update\(\) takes records"):
        summary.merge(release(3))
    with pytest.raises(ValueError, match=r"width=None and width=0\.5"):
        summary.merge(ReleaseSummary(LAPLACE, width=0.5))
    with pytest.raises(ValueError, match="this summary itself"):
        summary.merge(summary)
    many = ReleaseSummary(LAPLACE).update(release(200))
    for _ in range(45):
        many.merge(deepcopy(many))
    with pytest.raises(ValueError, match=r"a summary holds fewer than 2\*\*53"):
        many.merge(deepcopy(many))
    assert summary.n_records == 200
    fitted = model(LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))).fit(summary)  # which set_params changes
    with pytest.raises(ValueError, match="this summary was built from releases of"):
        fitted.set_params(mechanism__epsilon=3.0).partial_fit(release(3))
    assert fitted.summary_.n_records == 200


def test_what_cannot_be_summarised_is_refused(monkeypatch):
    for mechanism, words in (
        (None, "additive noise, .*got mechanism=None"),
        (
            DiscreteLaplaceMechanism(epsilon=1.0, bounds=(0, 5)),
            "no integers apart, and under mechanism=DiscreteLaplace",
        ),
        (
            LaplaceMechanism(epsilon=1.0, bounds=[(0, 5), (0, 1)]),
            "a summary takes one feature for now, got bounds of 2",
        ),
        (LaplaceMechanism(epsilon=[1.0, 2.0], bounds=(0, 5)), "one noise scale for all records, got"),
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
        with pytest.raises(ValueError, match=r"width=0\.0\d* would cut this release into more than 1000 cells"):
            ReleaseSummary(mechanism, width=width).update(release(2000))


def test_cells_as_wide_as_the_bounds_have_wider_ones():
    """One cell could not be joined with another: all nodes lay on a bound."""
    Z = release(3000)
    summary = ReleaseSummary(LAPLACE, width=1e6).update(Z)
    for nodes in (summary.nodes(), summary._cells.coarser().nodes()):
        inside = nodes.weights[(nodes.places > LAPLACE.bounds[0]) & (nodes.places < LAPLACE.bounds[1])].sum()
        assert inside == pytest.approx(np.sum((Z > LAPLACE.bounds[0]) & (Z < LAPLACE.bounds[1])))


def test_only_cells_with_records_count():
    """Narrow cells between bounds that are far apart: most have no record."""
    mechanism = LaplaceMechanism(scale=1e-3, bounds=(0, 1000))
    z = mechanism.privatize(np.full((3000, 1), 500.0), random_state=0)
    summary = ReleaseSummary(mechanism, width=1e-4).update(z)
    places, weights = summary.nodes()
    assert summary.cell_width <= 1e-4 and weights.sum() == pytest.approx(3000)
    assert np.sum(weights * np.cos(300.0 * places)) == pytest.approx(np.cos(300.0 * z).sum(), abs=1e-6)
    with pytest.raises(ValueError, match=r"width=1e-300 would cut this release into more than"):
        ReleaseSummary(mechanism, width=1e-300)


@pytest.mark.parametrize("far", [100.0, 1e4, 1e6, 1e15])
def test_cells_are_narrow_beside_the_noise_between_generous_bounds(far):
    """Catches cells that are a share of the bounds' distance: all records were in two of them."""
    mechanism = LaplaceMechanism(scale=0.5, bounds=(-far, far))
    z = mechanism.privatize(np.random.default_rng(0).beta(2.0, 5.0, (3000, 1)), random_state=1)
    summary = ReleaseSummary(mechanism).update(z)
    if far < 1e15:
        places, weights = summary.nodes()
        assert summary.cell_width <= 0.5 / 64.0 and weights.sum() == pytest.approx(3000.0)
        assert np.sum(weights * np.cos(20.0 * places)) == pytest.approx(np.cos(20.0 * z).sum(), abs=1e-6)


def test_cells_between_bounds_get_wider_where_records_are_in_too_many(tmp_path):
    """Far more narrow cells than there may be; the file says how wide they are."""
    mechanism = LaplaceMechanism(scale=1e-3, bounds=(0, 1000))
    z = mechanism.privatize(np.linspace(1.0, 999.0, 20_000)[:, None], random_state=0)
    summary = ReleaseSummary(mechanism)
    for part in np.array_split(z, 7):
        summary.merge(ReleaseSummary(mechanism).update(part))
    assert not differ(summary, ReleaseSummary(mechanism).update(z))
    assert 0.1 < summary.cell_width < 1.0 and len(summary._cells.keys) <= 2**12
    summary.save(tmp_path / "summary")
    assert not differ(ReleaseSummary.load(tmp_path / "summary"), summary)


def with_wide_tails(mechanism):
    """A release of 5000 records from a law a million times as wide as that of the 95,000 others."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 1)) * np.where(np.arange(100_000) < 5000, 1e6, 1.0)[:, None]
    return mechanism.privatize(X, random_state=1)


@pytest.mark.parametrize("bounds", [None, (-1e8, 1e8)], ids=repr)
def test_cells_of_records_are_as_narrow_as_is_asked_for(bounds):
    """Catches cells that are a share of the release's range: 95,000 records were in two of them, 64 wide."""
    mechanism = LaplaceMechanism(scale=0.5, bounds=bounds)
    z = with_wide_tails(mechanism)
    release = Release(z, mechanism)
    places, weights = release.nodes(1.0)
    assert release._summary.cell_width <= 1.0 / FINER and release.narrowest() == 0.0
    assert weights.sum() == pytest.approx(len(z))
    assert np.sum(weights * np.log1p(places**2)) == pytest.approx(np.log1p(z**2).sum(), abs=1e-3)


def test_cells_of_records_that_cannot_be_narrow_enough_are_called_so(monkeypatch):
    """What wide cells leave out counts, of records as of a summary."""
    monkeypatch.setattr(of_summaries, "MOST_OF_WIDTH", 2**12)
    mechanism = LaplaceMechanism(scale=0.5)
    z = with_wide_tails(mechanism)
    release = Release(z, mechanism)
    (places, weights), summary = release.nodes(1.0), release._summary
    assert summary.cell_width > 1.0 and release.narrowest() == FINER * summary.cell_width
    wrong = np.sum(weights * np.log1p(places**2)) - np.log1p(z**2).sum()
    one, other = (np.sum(weights * np.log1p(places**2)) for places, weights in release.narrow_nodes())
    assert abs(wrong) > 1.0 and abs(one - other) > abs(wrong)
    release.nodes(1.0)
    assert release._summary is summary  # and they are not tried again


def test_nodes_are_copies():
    """Catches a caller's change of them that is the next fit's."""
    for n in (3, FEW + 1):
        summary = ReleaseSummary(LaplaceMechanism(scale=1.0)).update(release(n))
        before = summary.nodes()
        for part in summary.nodes():
            part += 1.0
        for one, other in zip(before, summary.nodes(), strict=True):
            np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("scale", [Fraction(1, 3), np.longdouble(0.1)], ids=repr)
def test_any_number_of_a_mechanism_is_saved(scale, tmp_path):
    summary = ReleaseSummary(LaplaceMechanism(scale=scale)).update([[1.0]])
    summary.save(tmp_path / "summary.npz")
    assert ReleaseSummary.load(tmp_path / "summary.npz").mechanism.scale == float(scale)


@pytest.mark.parametrize("path", [None, 3.5])
def test_what_is_no_path_is_refused(path):
    for call in (ReleaseSummary(LAPLACE).save, ReleaseSummary.load):
        with pytest.raises(TypeError, match=f"path={path} is not a valid path"):
            call(path)


def test_paths_may_begin_at_home_and_errors_name_them(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    summary = ReleaseSummary(LAPLACE).update(release(10))
    summary.save("~/summary.npz")
    assert (tmp_path / "summary.npz").is_file()
    assert not differ(ReleaseSummary.load("~/summary.npz"), summary)
    nowhere = tmp_path / "none" / "summary.npz"
    with pytest.raises(FileNotFoundError, match=r"a folder that exists and can be written: '.*summary\.npz'") as caught:
        summary.save(nowhere)
    assert caught.value.filename == str(nowhere)
    with pytest.raises(IsADirectoryError) as caught:
        summary.save(tmp_path)
    assert caught.value.filename == str(tmp_path)
