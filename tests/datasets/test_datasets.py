"""The packaged data are what their note says, and the simulators follow the law they state."""

import gzip
import hashlib
import re
from importlib.resources import files
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

from sklearn_dpmix.datasets import (
    load_air_time,
    load_anes96,
    load_engel,
    load_rand_hie,
    load_rossi,
    make_three_normals,
    three_normals_density,
)
from sklearn_dpmix.datasets._simulate import MEANS, _truncated_normal_quantile

ALPHA = 1e-6  # level of every statistical test here; each owns its seed
N = 50_000


def three_normals_cdf(x):
    """The mixture's distribution function from scipy.stats, independent of the package's formulas."""
    return np.mean([stats.truncnorm(-10 - m, 10 - m, loc=m).cdf(x) for m in (-5.0, 0.0, 5.0)], axis=0)


def provenance_entry(file, row):
    """The number or digest that PROVENANCE.md gives for a file, in the table row of this name."""
    note = files("sklearn_dpmix.datasets").joinpath("PROVENANCE.md").read_text(encoding="utf-8")
    section = note.partition(f"## {file}\n")[2].partition("\n## ")[0]
    return re.search(rf"^\| {row} \| `?([^`|,]*)", section, re.MULTILINE)[1].strip()


@pytest.mark.parametrize("file", [f"{name}.csv.gz" for name in ("air_time", "anes96", "engel", "rand_hie", "rossi")])
def test_the_file_is_the_one_in_the_note(file):
    """Catches a regenerated or damaged data file, or a note that was not brought along."""
    packed = files("sklearn_dpmix.datasets").joinpath(file).read_bytes()
    assert hashlib.sha256(packed).hexdigest() == provenance_entry(file, "sha256 of the file")
    assert hashlib.sha256(gzip.decompress(packed)).hexdigest() == provenance_entry(file, "sha256 of the text in it")
    assert packed[4:8] == bytes(4), "the gzip header must carry no time"


def test_rand_hie_values_are_those_in_the_note():
    """Catches a loader that drops the first or last row, reads another type, or rounds."""
    disea = load_rand_hie()
    assert disea.shape == (20190,)
    assert disea.dtype == np.float64
    assert provenance_entry("rand_hie.csv.gz", "rows") == "20190"
    assert provenance_entry("rand_hie.csv.gz", "range") == f"{disea.min():.0f} to {disea.max()}" == "0 to 58.6"
    assert np.unique(disea).size == 31
    assert np.isin([13.73189, 11.84267, 9.967326, 10.57626], disea).all()
    # the sum of the source's column, read with pandas
    assert disea.sum() == pytest.approx(227026.292316, abs=1e-6)


def test_air_time_values_are_those_in_the_note():
    """Catches a loader that drops the first or last minute, takes the count for the minute, or reads another type."""
    minutes = load_air_time()
    assert minutes.shape == (327346,)
    assert minutes.dtype == np.float64
    assert provenance_entry("air_time.csv.gz", "rows") == str(np.unique(minutes).size) == "509"
    assert provenance_entry("air_time.csv.gz", "flights").startswith(f"{len(minutes)};")
    assert provenance_entry("air_time.csv.gz", "range") == f"{minutes.min():.0f} to {minutes.max():.0f} minutes"
    # the source's own: sum, median, upper quartile, read with pandas
    assert minutes.sum() == 49326610
    assert (np.median(minutes), np.quantile(minutes, 0.75)) == (129, 192)


def test_rossi_values_are_those_in_the_note():
    """Catches a loader that drops the first or last row, reads another type, or takes in the censored men."""
    weeks = load_rossi()
    assert weeks.shape == (114,)
    assert weeks.dtype == np.float64
    assert provenance_entry("rossi.csv.gz", "rows") == "114"
    assert provenance_entry("rossi.csv.gz", "range") == f"{weeks.min():.0f} to {weeks.max():.0f}" == "1 to 52"
    assert np.unique(weeks).size == 49
    # the source's own rows: its first and its last arrest, four in week 52, and their sum, read with pandas
    assert weeks[0] == 20 and weeks[-1] == 12
    assert np.sum(weeks == 52) == 4
    assert weeks.sum() == 3273


def test_engel_values_are_those_in_the_note():
    """Catches a loader that drops the first or last row, swaps the columns, reads another type, or rounds."""
    X, y = load_engel()
    assert X.shape == (235, 1) and y.shape == (235,)
    assert X.dtype == y.dtype == np.float64
    assert provenance_entry("engel.csv.gz", "rows") == "235"
    for name, column in (("income", X), ("foodexp", y)):
        assert provenance_entry("engel.csv.gz", f"range of {name}") == f"{column.min():.6f} to {column.max():.6f}"
    # the source's own first and last row, and the sums of its columns, read with pandas
    assert (X[0, 0], y[0]) == (420.157650843928, 255.839424594576)
    assert (X[-1, 0], y[-1]) == (1057.67671146451, 750.320163419201)
    np.testing.assert_allclose([X.sum(), y.sum()], [230881.165338, 146675.276159], atol=1e-6, rtol=0)


def test_anes96_values_are_those_in_the_note():
    """Catches a loader that drops the first or last row, mixes up the columns, or counts one of them from 1."""
    X, y = load_anes96()
    assert X.shape == (944, 5) and y.shape == (944,)
    assert X.dtype == y.dtype == np.int64
    assert provenance_entry("anes96.csv.gz", "rows") == "944"
    np.testing.assert_array_equal([X.min(axis=0), X.max(axis=0)], [[0] * 5, [6] * 5])
    assert set(y) == {0, 1}
    # the source's own first and last respondent, and the sums of its columns less what it counts from, with pandas
    np.testing.assert_array_equal(X[[0, -1]], [[6, 0, 5, 6, 2], [3, 1, 5, 3, 6]])
    assert (y[0], y[-1], y.sum()) == (1, 1, 393)
    np.testing.assert_array_equal(X.sum(axis=0) + 944 * np.array([1, 1, 1, 0, 1]), [4083, 2775, 5092, 2683, 4310])


@pytest.mark.parametrize("load", [load_air_time, load_rand_hie, load_rossi])
def test_data_are_the_callers_to_change(load):
    """Catches a cache that hands the same array to everyone."""
    load()[:] = -1
    assert load().min() >= 0


@pytest.mark.parametrize("load", [load_anes96, load_engel])
def test_predictors_and_response_are_the_callers_to_change(load):
    """Catches a cache that hands the same arrays to everyone, and two arrays that share their numbers."""
    X, y = load()
    X[:] = -1
    assert y.min() >= 0
    y[:] = -1
    assert min(array.min() for array in load()) >= 0


def test_three_normals_have_the_stated_law():
    """Catches a wrong mean, variance or weight: the Kolmogorov-Smirnov test at 50,000 records sees 2 % in the cdf."""
    X, _ = make_three_normals(N, random_state=1)
    assert stats.kstest(X[:, 0], three_normals_cdf).pvalue > ALPHA


@pytest.mark.parametrize("broken", ["variance", "weights", "mean"])
def test_the_law_test_rejects_a_broken_twin(broken):
    """The test above would be worth nothing if these passed it."""
    rng = np.random.default_rng(2)
    labels = rng.choice(3, size=N, p=[0.36, 0.32, 0.32] if broken == "weights" else [1 / 3] * 3)
    x = rng.normal(MEANS[labels] + 0.1 * (broken == "mean"), 1.2 if broken == "variance" else 1.0)
    assert stats.kstest(x, three_normals_cdf).pvalue < ALPHA


def test_three_normals_labels_name_the_component():
    """Catches labels that are shuffled against the records, and unequal weights."""
    X, labels = make_three_normals(N, random_state=3)
    assert stats.chisquare(np.bincount(labels, minlength=3)).pvalue > ALPHA
    for k, mean in enumerate((-5.0, 0.0, 5.0)):
        assert stats.kstest(X[labels == k, 0], stats.norm(mean).cdf).pvalue > ALPHA


def test_three_normals_are_truncated_to_the_bounds():
    """Catches a missing truncation, which 50,000 draws would not show: it takes off 3e-7 of a component."""
    u = np.array([0.0, 1e-9, 0.25, 0.5, 1 - 1e-9, 1.0])
    for mean in (-5.0, 0.0, 5.0):
        exact = stats.truncnorm(-10 - mean, 10 - mean, loc=mean).ppf(u)
        np.testing.assert_allclose(_truncated_normal_quantile(u, mean), exact, atol=1e-6)
        assert _truncated_normal_quantile(0.0, mean) >= -10
        assert _truncated_normal_quantile(1.0, mean) <= 10


def test_three_normals_density_is_the_derivative_of_the_law():
    """Catches a wrong normalisation: mass over every interval of a grid against the independent cdf."""
    grid = np.linspace(-10, 10, 41)
    mass = [integrate.quad(three_normals_density, a, b, epsabs=1e-13)[0] for a, b in pairwise(grid)]
    np.testing.assert_allclose(mass, np.diff(three_normals_cdf(grid)), rtol=1e-9, atol=1e-13)


def test_three_normals_density_keeps_shapes_and_ends_at_the_bounds():
    assert three_normals_density(np.zeros((4, 1))).shape == (4, 1)
    assert three_normals_density(0.0).shape == ()
    inside, outside = three_normals_density([[-10.0, 10.0], [-10.001, 10.001]])
    assert (inside > 0).all()
    assert (outside == 0).all()
    assert np.isnan(three_normals_density(np.nan))


def test_make_three_normals_repeats_with_a_seed_and_only_then():
    X, labels = make_three_normals(50, random_state=7)
    X_again, labels_again = make_three_normals(50, random_state=np.random.default_rng(7))
    np.testing.assert_array_equal(X, X_again)
    np.testing.assert_array_equal(labels, labels_again)
    make_three_normals(50, random_state=np.random.RandomState(7))  # scikit-learn's own kind is taken too
    assert (make_three_normals(50)[0] != make_three_normals(50)[0]).all()


@pytest.mark.parametrize("n_records", [0, -1, 2.5, True, "10", None])
def test_make_three_normals_refuses_a_wrong_number_of_records(n_records):
    with pytest.raises(ValueError, match="n_records must be an integer, 1 or more"):
        make_three_normals(n_records)
