"""Displays draw the numbers that they say they draw, on the axes that they are given, or say what is wrong."""

import subprocess
import sys
import warnings

import numpy as np
import pandas as pd
import pytest
from scipy import stats
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression

from sklearn_dpmix import PrivateDPMixture, PrivateLinearRegressionDA
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.metrics import posterior_ranks, rank_uniformity
from sklearn_dpmix.plotting import (
    CalibrationDisplay,
    CoefficientDisplay,
    DensityDisplay,
    PrivacyUtilityDisplay,
    RankDisplay,
    SimilarityDisplay,
    TraceDisplay,
)
from sklearn_dpmix.plotting._rank import rank_shares
from sklearn_dpmix.plotting._style import COLORS, LINES, style

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
plt = pytest.importorskip("matplotlib.pyplot")
to_rgb = matplotlib.colors.to_rgb

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


@pytest.fixture(autouse=True)
def no_figure_stays_open():
    plt.close("all")
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def records():
    return np.random.default_rng(0).normal([-3.0, 3.0], 0.5, size=(20, 2)).reshape(-1, 1)


@pytest.fixture(scope="module")
def mixture(records):
    mechanism = LaplaceMechanism(epsilon=100.0, bounds=(-5, 5))
    Z = mechanism.privatize(records, random_state=1)
    return PrivateDPMixture(mechanism, n_chains=2, n_warmup=100, n_draws=200, random_state=0).fit(Z)


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    return PrivateLinearRegressionDA(n_chains=2, n_warmup=50, n_draws=100, random_state=0).fit(
        X, X @ [1.0, 0.0, -1.0] + rng.normal(size=100)
    )


class Stub(BaseEstimator):
    """A fitted estimator with what a test gives it."""

    def __init__(self, **has):
        vars(self).update(has)

    def fit(self, X):
        return self

    def __sklearn_is_fitted__(self):
        return True


class Margins(Stub):
    """Offers the density of one of two features: N(feature, 1)."""

    n_features_in_ = 2

    def score_samples(self, X, feature=None):
        return stats.norm.logpdf(X[:, 0], feature)

    def density_interval(self, X, level=0.95, feature=None):
        density = stats.norm.pdf(X[:, 0], feature)
        return (1.0 - level) * density, (1.0 + level) * density


def band_of(collection, points):
    """(lower, upper) of what ``fill_between`` drew at the points."""
    vertices = collection.get_paths()[0].vertices
    ends = [vertices[np.isclose(vertices[:, 0], x), 1] for x in points]
    return np.array([[y.min(), y.max()] for y in ends]).T


# ---------------------------------------------------------------- density


def test_density_draws_the_estimator_s_mean_and_band(mixture):
    """Catches log densities drawn as they are, a band of another level, or of other points than the line."""
    display = DensityDisplay.from_estimator(mixture, level=0.8, feature_name="depth", unit="m")
    x, y = display.line_.get_data()
    np.testing.assert_allclose(y, np.exp(mixture.score_samples(x[:, None])))
    lower, upper = band_of(display.band_, x)
    np.testing.assert_allclose([lower, upper], mixture.density_interval(x[:, None], level=0.8))
    assert np.mean((lower <= y) & (y <= upper)) > 0.9
    assert display.ax_.get_xlabel() == "depth (m)" and display.ax_.get_ylabel() == "density (per m)"
    legend = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert legend == ["posterior mean", "pointwise 80 % band"]


def test_density_s_own_points_cover_the_population(mixture):
    """Catches default points that leave out a cluster, or that are mostly empty."""
    display = DensityDisplay.from_estimator(mixture, n_points=300)
    x, y = display.line_.get_data()
    assert len(x) == 300 and display.ax_.get_xlim() == (x[0], x[-1])
    assert 0.97 < np.trapezoid(y, x) <= 1.001
    assert x[0] < -3.0 and x[-1] > 3.0 and x[-1] - x[0] < 20.0


def test_density_histograms_are_of_all_records():
    """Catches bars that are scaled up for records outside the picture, which the density is not."""
    records, release = np.array([0.1, 0.2, 0.9, 5.0]), np.array([-9.0, 0.5, 0.6, 0.7, 9.0])
    display = DensityDisplay(points=[0.0, 1.0], density=[1.0, 1.0], records=records, release=release[:, None])
    display.plot()
    for artist, share in ((display.records_, 3 / 4), (display.release_, 3 / 5)):
        heights, edges, _ = artist.get_data()
        assert heights @ np.diff(edges) == pytest.approx(share)
        assert edges[0] == 0.0 and edges[-1] == 1.0
    assert display.records_.get_fill() and not display.release_.get_fill()
    assert display.band_ is None


def test_density_compares_estimators_functions_and_numbers(mixture):
    """Catches a curve under another's name, and curves that print in grey cannot tell apart."""
    points = np.linspace(-4, 4, 9)
    compare = {"again": mixture, "normal": stats.norm.pdf, "flat": np.full(9, 0.1)}
    display = DensityDisplay.from_estimator(mixture, points=points, compare=compare, release=points)
    np.testing.assert_allclose(display.curves_["again"].get_ydata(), display.line_.get_ydata())
    np.testing.assert_allclose(display.curves_["normal"].get_ydata(), stats.norm.pdf(points))
    np.testing.assert_allclose(display.curves_["flat"].get_ydata(), 0.1)
    lines = [display.line_, *display.curves_.values()]
    assert len({line.get_linestyle() for line in lines}) == 4
    colors = {to_rgb(line.get_color()) for line in lines}
    assert len(colors) == 4 and to_rgb(display.release_.get_edgecolor()) not in colors


def test_density_of_draws_is_their_mean_and_quantiles():
    """Catches quantiles over points instead of draws, and a tail that is twice as long."""
    draws = np.random.default_rng(0).random((2, 50, 3))
    display = DensityDisplay.from_draws([0.0, 1.0, 2.0], draws, level=0.5)
    flat = draws.reshape(100, 3)
    np.testing.assert_allclose(display.line_.get_ydata(), flat.mean(axis=0))
    np.testing.assert_allclose(band_of(display.band_, [0, 1, 2]), np.quantile(flat, [0.25, 0.75], axis=0))


@pytest.mark.parametrize("width", [3.0, 6.4, 12.0])
def test_the_legend_stays_within_narrow_axes(width):
    """Catches one that runs over the axes beside it, or over the curve."""
    _, ax = plt.subplots(figsize=(width, 4.0))
    points = np.linspace(-3.0, 3.0, 61)
    density = stats.norm.pdf(points)
    band, records = (0.5 * density, 1.5 * density), np.linspace(-2.0, 2.0, 50)
    display = DensityDisplay(points=points, density=density, band=band, level=0.95, records=records, release=records)
    display.plot(ax)
    room, legend = ax.get_window_extent(), display.ax_.get_legend().get_window_extent()
    assert room.x0 <= legend.x0 and legend.x1 <= room.x1
    top = ax.transData.transform((0.0, 1.5 * density.max()))[1]
    assert top <= legend.y0


def test_density_of_one_feature_of_a_mixture():
    """Catches points, limits or a density of another feature than the one that was asked for by name."""
    rng = np.random.default_rng(0)
    Z = pd.DataFrame({"low": rng.normal(-5.0, 1.0, 60), "high": rng.normal(50.0, 1.0, 60)})
    model = PrivateDPMixture(n_chains=1, n_warmup=20, n_draws=50, random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(Z)
    display = DensityDisplay.from_estimator(model, feature="high", n_points=20)
    assert display.ax_.get_xlabel() == "high" and 40.0 < display.points[0] < display.points[-1] < 60.0
    expected = np.exp(model.score_samples(display.points[:, None], feature=1))
    np.testing.assert_array_equal(display.line_.get_ydata(), expected)


def test_density_of_a_margin_where_the_estimator_offers_it():
    """Catches a feature that does not reach the estimator's methods."""
    model = Margins(feature_names_in_=np.array(["age", "height"]))
    display = DensityDisplay.from_estimator(model, feature=1, points=[0.0, 1.0, 2.0])
    np.testing.assert_allclose(display.line_.get_ydata(), stats.norm.pdf([0.0, 1.0, 2.0], 1.0))
    assert display.ax_.get_xlabel() == "height"


# ---------------------------------------------------------------- privacy and utility


def test_privacy_utility_draws_values_and_intervals_by_epsilon():
    """Catches values left in the order they came in while ε is sorted, and bars that end elsewhere."""
    display = PrivacyUtilityDisplay.from_values(
        [10.0, 0.1, 1.0],
        {"ours": [3.0, 1.0, 2.0], "naive": [30.0, 10.0, np.nan]},
        intervals={"ours": ([2.5, 0.0, 1.9], [3.5, 5.0, 2.2])},
        reference={"truth": 3.0, "not private": 3.1},
        value_name="mean",
        unit="kg",
    )
    line, bars = display.lines_["ours"], display.intervals_["ours"]
    np.testing.assert_allclose(line.get_ydata(), [1.0, 2.0, 3.0])
    ends = np.array([segment[:, 1] for segment in bars.get_segments()])
    np.testing.assert_allclose(ends, [[0.0, 5.0], [1.9, 2.2], [2.5, 3.5]])
    other = display.lines_["naive"]
    np.testing.assert_allclose(np.sqrt(line.get_xdata() * other.get_xdata()), [0.1, 1.0, 10.0])  # a little apart
    assert np.all(line.get_xdata() < other.get_xdata()) and line.get_marker() != other.get_marker()
    assert line.get_linestyle() != other.get_linestyle()
    assert [drawn.get_ydata()[0] for drawn in display.references_.values()] == [3.0, 3.1]
    assert display.ax_.get_xscale() == "log" and display.ax_.get_ylabel() == "mean (kg)"
    assert display.ax_.get_xticks().tolist() == [0.1, 1.0, 10.0]


def test_privacy_utility_of_one_method_is_at_its_epsilon():
    """Catches points that are moved aside where there is nothing to make room for."""
    display = PrivacyUtilityDisplay.from_values([0.5, 2.0], [1.0, 2.0])
    np.testing.assert_allclose(display.lines_["posterior"].get_xdata(), [0.5, 2.0])
    assert display.ax_.get_legend() is None


def test_privacy_utility_of_models_is_of_their_draws():
    """Catches a quantity that is asked of the wrong model, and an interval of another level."""
    draws = np.random.default_rng(0).random((2, 40))
    models = {2.0: Stub(a_=draws + 1.0), 1.0: Stub(a_=draws)}
    curve = PrivacyUtilityDisplay.from_estimators(models, lambda model: model.a_, level=0.8).curves["posterior"]
    np.testing.assert_allclose(curve.value, draws.mean() + [0.0, 1.0])
    np.testing.assert_allclose(curve.lower, np.quantile(draws, 0.1) + [0.0, 1.0])
    np.testing.assert_allclose(curve.upper, np.quantile(draws, 0.9) + [0.0, 1.0])
    nested = PrivacyUtilityDisplay.from_estimators({"score": models}, lambda model: model.a_.max())
    assert np.all(np.isnan(nested.curves["score"].lower))
    np.testing.assert_allclose(nested.curves["score"].value, draws.max() + [0.0, 1.0])


# ---------------------------------------------------------------- similarity


def test_similarity_draws_clusters_as_blocks(mixture, records):
    """Catches rows that are ordered and columns that are not, and boxes around other records than a cluster's."""
    display = SimilarityDisplay.from_estimator(mixture, random_state=0)
    S, image = mixture.similarity(random_state=0), display.image_.get_array()
    np.testing.assert_allclose(image, S[np.ix_(display.order, display.order)])
    assert sorted(display.order) == list(range(len(S)))
    labels = mixture.point_partition(random_state=0)
    assert np.all(np.diff(labels[display.order]) >= 0)
    sizes = np.bincount(labels)
    assert [box.get_width() for box in display.boxes_] == sizes[sizes > 1].tolist()
    for box in display.boxes_:
        first = int(box.get_x() + 0.5)
        assert len(set(labels[display.order[first : first + int(box.get_width())]])) == 1
    assert display.image_.get_clim() == (0.0, 1.0)
    assert display.colorbar_.ax.get_ylabel() == "posterior probability of one cluster"


def test_similarity_orders_by_hierarchical_clustering():
    """Catches an order that leaves clusters apart: records of two clusters come in turn."""
    labels = np.tile([0, 1], 10)
    display = SimilarityDisplay.from_partitions([labels, labels, np.arange(20)])
    assert len(set(labels[display.order[:10]])) == 1
    assert display.boxes_ == [] and "hierarchical" in display.ax_.get_xlabel()


def test_similarity_s_colours_get_darker_with_probability():
    """Catches a colour map that says something else in grey than in colour."""
    display = SimilarityDisplay(np.eye(3)).plot(colorbar=False)
    lightness = display.image_.cmap(np.linspace(0, 1, 50))[:, :3] @ [0.299, 0.587, 0.114]
    assert np.all(np.diff(lightness) < 0) and display.colorbar_ is None


# ---------------------------------------------------------------- coefficients


def bars_of(collection):
    """Ends of horizontal bars, (n, 2)."""
    return np.array([segment[:, 0] for segment in collection.get_segments()])


def test_coefficients_draw_the_posterior_s_intervals(regression):
    """Catches intervals of another level or in another order than the names, which go from the top down."""
    display = CoefficientDisplay.from_estimator(
        regression, level=0.8, naive=[1.0, np.nan, 3.0], truth=[1, 0, -1], feature_names=["a", "b", "c"], unit="kg"
    )
    np.testing.assert_allclose(bars_of(display.intervals_).T, regression.coef_interval(0.8))
    np.testing.assert_allclose(display.estimates_.get_xdata(), regression.coef_)
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["a", "b", "c"]
    assert display.ax_.yaxis_inverted() and display.ax_.get_xlabel() == "coefficient (kg)"
    np.testing.assert_array_equal(display.naive_.get_xdata(), [1.0, np.nan, 3.0])
    np.testing.assert_allclose(display.truth_.get_data(), [[1, 0, -1], [0, 1, 2]])
    assert np.all(display.estimates_.get_ydata() < display.naive_.get_ydata())
    assert display.estimates_.get_marker() != display.naive_.get_marker()


def test_coefficients_beside_another_estimator(regression):
    """Catches intervals of the one estimator drawn for the other, and ends that depend on where the estimate is."""
    other = Stub(coef_=np.array([[1.0, 2.0, 3.0]]), coef_draws_=np.arange(33.0).reshape(1, 11, 3))
    display = CoefficientDisplay.from_estimator(regression, naive=other, level=0.8)
    np.testing.assert_allclose(display.naive_.get_xdata(), [1.0, 2.0, 3.0])
    np.testing.assert_allclose(bars_of(display.naive_intervals_), [[3 + j, 27 + j] for j in range(3)])
    without = CoefficientDisplay.from_estimator(regression, naive=LinearRegression().fit(np.eye(3), [1.0, 2.0, 4.0]))
    assert without.naive_intervals_ is None


def test_coefficients_of_draws():
    """Catches means over features instead of draws."""
    draws = np.random.default_rng(0).random((2, 30, 4))
    display = CoefficientDisplay.from_draws(draws)
    np.testing.assert_allclose(display.estimates_.get_xdata(), draws.mean(axis=(0, 1)))
    assert [text.get_text() for text in display.ax_.get_yticklabels()] == ["x0", "x1", "x2", "x3"]


# ---------------------------------------------------------------- chains


def test_traces_are_the_draws_chain_by_chain(mixture):
    """Catches chains drawn over each other or in another order, and numbers of another quantity in a title."""
    display = TraceDisplay.from_estimator(mixture)
    assert list(display.lines_) == list(mixture.r_hat_) and len(display.axes_) == len(mixture.r_hat_)
    drawn = display.lines_["n_clusters"]
    np.testing.assert_array_equal([line.get_ydata() for line in drawn], mixture.n_clusters_draws_)
    np.testing.assert_array_equal(np.concatenate([line.get_xdata() for line in drawn]), np.arange(400))
    for axes, name in zip(display.axes_, mixture.r_hat_, strict=True):
        assert axes.get_ylabel() == name
        assert axes.get_title("right") == f"R-hat {mixture.r_hat_[name]:.2f}, ESS {mixture.ess_[name]:.0f}"


def test_a_classifier_s_chains_are_its_sampler_s():
    """Catches a display that does not find the chains of an estimator that has them in its sampler."""
    monitors = {"theta": np.random.default_rng(0).normal(size=(2, 10, 2))}
    numbers = {"theta[0]": 1.0, "theta[1]": 1.5}
    sampler = Stub(_monitors_=monitors, r_hat_=numbers, ess_=numbers)
    display = TraceDisplay.from_estimator(Stub(sampler_=sampler))
    np.testing.assert_array_equal(display.lines_["theta[1]"][0].get_ydata(), monitors["theta"][0, :, 1])


def test_traces_of_too_many_quantities_are_those_that_mixed_worst():
    """Catches a picture that leaves out the one quantity that has not mixed."""
    draws = np.random.default_rng(0).normal(size=(2, 100, 20))
    draws[1, :, 13] += 5.0
    display = TraceDisplay.from_draws({"theta": draws, "constant": np.zeros((2, 100))})
    assert len(display.lines_) == 8 and "theta[13]" in display.lines_ and "constant" not in display.lines_
    assert len(TraceDisplay.from_draws({"theta": draws}, names="theta").lines_) == 20
    assert list(TraceDisplay.from_draws({"theta": draws}, names=["theta[3]"]).lines_) == ["theta[3]"]


def test_rank_shares_are_those_of_ties_broken_at_random():
    """Catches ranks in which equal values all fall into one bin: against shares averaged over random orders of ties."""
    rng = np.random.default_rng(0)
    draws = rng.integers(0, 4, size=(3, 20))
    expected, n = np.zeros((3, 7)), 2000
    for _ in range(n):
        ranks = np.argsort(np.lexsort((rng.random(60), draws.ravel()))) + rng.random(60)  # anywhere within its rank
        bins = np.minimum((ranks / 60 * 7).astype(int), 6).reshape(3, 20)
        expected += [np.bincount(row, minlength=7) * 7 / 20 for row in bins]
    shares = rank_shares(draws, 7)
    error = 7.0 / 20.0 * np.sqrt(20 / 4 / n)  # of a sum of 20 indicators, at most
    assert np.abs(shares - expected / n).max() < stats.norm.isf(0.5e-6) * error
    np.testing.assert_allclose(shares.sum(axis=0), 3.0)
    np.testing.assert_allclose(shares.sum(axis=1), 7.0)


def test_ranks_show_the_chain_that_is_elsewhere():
    """Catches a band that chains which disagree make wide enough to hide it, as their common effective size does."""
    draws = np.random.default_rng(0).normal(size=(4, 200))
    draws[2] += 1.5
    display = RankDisplay.from_draws({"a": draws})
    top = max(patch.get_y() + patch.get_height() for patch in display.ax_.patches if hasattr(patch, "get_height"))
    assert display.shares["a"][2, -1] > top > 1.0
    assert display.lines_["a"][2].get_data().values[-1] == display.shares["a"][2, -1]
    assert len({str(line.get_linestyle()) for line in display.lines_["a"]}) == 4


def test_ranks_of_one_chain_compare_its_halves():
    """Catches a single chain ranked against itself, which is uniform whatever it does."""
    drifting = RankDisplay.from_draws({"a": np.arange(100.0)[None]}, n_bins=2)
    np.testing.assert_allclose(drifting.shares["a"], [[2.0, 0.0], [0.0, 2.0]])


def test_ranks_take_the_names_and_axes_given(mixture):
    """Catches panels that are drawn elsewhere than on the given axes."""
    _, axes = plt.subplots(1, 2)
    display = RankDisplay.from_estimator(mixture, names=["mean", "n_clusters"], n_bins=5, ax=axes)
    assert list(display.axes_) == list(axes) and len(plt.get_fignums()) == 1
    assert [one.get_title("left") for one in axes] == ["mean", "n_clusters"]
    assert display.shares["mean"].shape == (2, 5)


# ---------------------------------------------------------------- calibration


def test_calibration_draws_the_ranks_less_uniform_ones():
    """Catches a line or a band of other ranks, and a level that does not allow for several quantities."""
    rng = np.random.default_rng(0)
    truth, draws = rng.normal(size=(80, 2)), rng.normal(size=(80, 19, 2))
    display = CalibrationDisplay.from_draws(draws, truth, names=["a", "b"], level=0.9)
    ranks = posterior_ranks(draws, truth)
    for j, name in enumerate("ab"):
        found = rank_uniformity(ranks[:, j], 19, level=0.95)
        x, y = display.lines_[name].get_data()
        np.testing.assert_allclose(x[1:-1], found.points)
        np.testing.assert_allclose(y[1:-1], found.ecdf - found.points)
    lower, upper = band_of(display.band_, found.points)
    np.testing.assert_allclose([lower, upper], [found.lower - found.points, found.upper - found.points])
    assert np.all((lower < 0) & (upper > 0))


def test_calibration_tells_posteriors_apart():
    """Catches a display that gives one posterior's ranks, or one truth, to another."""
    rng = np.random.default_rng(0)
    truth, draws = rng.normal(size=200), rng.normal(size=(200, 99))
    display = CalibrationDisplay.from_draws({"right": draws, "low": draws - 1.0}, truth, level=0.999)
    texts = [text.get_text() for text in display.ax_.get_legend().get_texts()]
    assert any(text.startswith("right (inside") for text in texts) and "low (outside, p < 0.0001)" in texts
    assert display.lines_["low"].get_ydata().mean() < -0.1  # most truths above: few low ranks
    assert display.lines_["right"].get_linestyle() != display.lines_["low"].get_linestyle()
    twice = CalibrationDisplay.from_draws({"a": draws, "b": draws + 5.0}, {"a": truth, "b": truth + 5.0})
    np.testing.assert_allclose(twice.lines_["a"].get_ydata(), twice.lines_["b"].get_ydata())


# ---------------------------------------------------------------- all of them

DRAWS = np.random.default_rng(0).normal(size=(2, 20))
DISPLAYS = {
    "density": lambda **ax: DensityDisplay.from_draws([0, 1], DRAWS[:, :2], **ax),
    "privacy_utility": lambda **ax: PrivacyUtilityDisplay.from_values([1, 2], [3, 4], **ax),
    "similarity": lambda **ax: SimilarityDisplay.from_partitions([[0, 0, 1]], **ax),
    "coefficients": lambda **ax: CoefficientDisplay.from_draws(DRAWS, **ax),
    "trace": lambda **ax: TraceDisplay.from_draws({"a": DRAWS}, **ax),
    "rank": lambda **ax: RankDisplay.from_draws({"a": DRAWS}, **ax),
    "calibration": lambda **ax: CalibrationDisplay.from_ranks([0, 1, 2, 2], 3, **ax),
}


@pytest.mark.parametrize("name", DISPLAYS)
def test_axes_are_those_given_or_of_one_new_figure(name):
    """Catches a display that draws on the current axes, or opens a figure although it was given axes."""
    figure, (other, ax) = plt.subplots(1, 2)
    display = DISPLAYS[name](ax=ax)
    assert display.ax_ is ax and display.figure_ is figure and ax.has_data() and not other.has_data()
    assert plt.get_fignums() == [figure.number]
    assert display.plot() is display
    assert len(plt.get_fignums()) == 2 and display.figure_ is not figure
    display.figure_.canvas.draw()


@pytest.mark.parametrize("name", DISPLAYS)
def test_what_is_no_axes_is_refused(name):
    """Catches a display that fails somewhere inside matplotlib instead of naming ax."""
    for wrong in ("axes", plt.figure()):
        with pytest.raises(TypeError, match=r"ax must be .*matplotlib Axes, got .*plt.subplots"):
            DISPLAYS[name](ax=wrong)


@pytest.mark.parametrize("name", DISPLAYS)
def test_without_matplotlib_the_error_names_the_extra(name, monkeypatch):
    """Catches an import that fails without saying what to install."""
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(ImportError, match=r"Display\.from_\w+ needs matplotlib: pip install 'sklearn-dpmix\[plot\]'"):
        DISPLAYS[name]()


def test_importing_displays_leaves_matplotlib_for_later():
    """Catches an import of matplotlib at the top of a file, by which the package would need it."""
    code = "import sys, sklearn_dpmix.plotting; sys.exit('matplotlib' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_styles_differ_in_grey_too():
    """Catches line styles that repeat before the colours do."""
    styles = [style(i) for i in range(len(COLORS) * len(LINES))]
    assert len({str(sorted(one.items(), key=str)) for one in styles}) == len(styles)
    assert len({str(one["linestyle"]) for one in styles[: len(LINES)]}) == len(LINES)
    assert len({to_rgb(color) for color in COLORS}) == len(COLORS)


class Density(Stub):
    n_features_in_ = 1

    def score_samples(self, X):
        return stats.norm.logpdf(X[:, 0])

    def density_interval(self, X, level):
        return 0.0 * X[:, 0], 1.0 + 0.0 * X[:, 0]


class Wide(Density):
    n_features_in_ = 3


MONITORED = {"_monitors_": {"a": DRAWS}, "r_hat_": {"a": 1.0}, "ess_": {"a": 9.0}}
POINTS = {"points": [0.0, 1.0], "density": [1.0, 1.0]}

WRONG = {
    "no estimator": (lambda: DensityDisplay.from_estimator(3), TypeError, "fitted estimator, got estimator=3"),
    "a class": (lambda: TraceDisplay.from_estimator(PrivateDPMixture), TypeError, "pass the object"),
    "density unfitted": (lambda: DensityDisplay.from_estimator(PrivateDPMixture()), NotFittedError, "fit"),
    "similarity unfitted": (lambda: SimilarityDisplay.from_estimator(PrivateDPMixture()), NotFittedError, "fit"),
    "trace unfitted": (lambda: TraceDisplay.from_estimator(PrivateDPMixture()), NotFittedError, "fit"),
    "rank unfitted": (lambda: RankDisplay.from_estimator(PrivateDPMixture()), NotFittedError, "fit"),
    "coefficients unfitted": (
        lambda: CoefficientDisplay.from_estimator(PrivateLinearRegressionDA()), NotFittedError, "fit",
    ),
    "models unfitted": (
        lambda: PrivacyUtilityDisplay.from_estimators({1.0: PrivateDPMixture()}, np.mean), NotFittedError, "fit",
    ),
    "no density": (lambda: DensityDisplay.from_estimator(Stub()), TypeError, "density_interval and score_samples"),
    "no similarity": (lambda: SimilarityDisplay.from_estimator(Stub()), TypeError, "similarity.*one by one"),
    "no coefficients": (lambda: CoefficientDisplay.from_estimator(Stub(coef_=[1])), TypeError, "coef_draws_.*naive="),
    "no chains": (lambda: RankDisplay.from_estimator(Stub()), TypeError, "Markov chains, which Stub"),
    "weights": (lambda: TraceDisplay.from_estimator(Stub(weights_=[1], **MONITORED)), TypeError, "have weights"),
    "level 95": (lambda: DensityDisplay.from_estimator(Density(), level=95), ValueError, "level=95: pass 0.95"),
    "level 0": (lambda: CoefficientDisplay.from_draws(DRAWS, level=0.0), ValueError, "level=0.0"),
    "level of ranks": (lambda: CalibrationDisplay.from_ranks([0], 1, level=1), ValueError, "level=1"),
    "three features": (
        lambda: DensityDisplay.from_estimator(Wide()), ValueError, "have 3: pass feature=0",
    ),
    "no margin": (
        lambda: DensityDisplay.from_estimator(Wide(), feature=1), ValueError, "feature=1, but Wide offers no density",
    ),
    "feature 3": (lambda: DensityDisplay.from_estimator(Margins(), feature=2), ValueError, "to 1, got feature=2"),
    "no range": (lambda: DensityDisplay.from_estimator(Density()), ValueError, "no quantile_draws.*pass points"),
    "categories": (
        lambda: DensityDisplay.from_estimator(Density(kernel_=Stub(n_categories=3))), ValueError, "are categories",
    ),
    "points in no order": (lambda: DensityDisplay(points=[1, 0], density=[1, 1]), ValueError, "increasing.*sort"),
    "too few densities": (lambda: DensityDisplay(points=[0, 1], density=[1]), ValueError, r"density .*\(2,\).*\(1,\)"),
    "band in no order": (lambda: DensityDisplay(**POINTS, band=([1, 1], [0, 2])), ValueError, "band .*1 above 0"),
    "no pair": (lambda: DensityDisplay(**POINTS, band=[1, 2, 3]), ValueError, "band must be a pair"),
    "NaN": (lambda: DensityDisplay(**POINTS, records=[np.nan]), ValueError, "records must be finite"),
    "curves": (lambda: DensityDisplay(**POINTS, curves=[1, 1]), TypeError, "curves must be a dict"),
    "negative epsilon": (lambda: PrivacyUtilityDisplay.from_values([-1], [1]), ValueError, "positive, got -1"),
    "too few values": (lambda: PrivacyUtilityDisplay.from_values([1, 2], [1]), ValueError, r"'posterior' .*\(2,\)"),
    "intervals": (
        lambda: PrivacyUtilityDisplay.from_values([1], {"a": [1]}, intervals={"b": 1}), ValueError, r"among \['a'\]",
    ),
    "reference": (lambda: PrivacyUtilityDisplay.from_values([1], [1], reference="x"), ValueError, "reference must be"),
    "models": (lambda: PrivacyUtilityDisplay.from_estimators([1], np.mean), TypeError, "dict of ε"),
    "quantity": (lambda: PrivacyUtilityDisplay.from_estimators({1: Stub()}, "mean"), TypeError, "quantity must be"),
    "order": (lambda: SimilarityDisplay.from_estimator(Stub(), order="x"), ValueError, "order='x'"),
    "not square": (lambda: SimilarityDisplay(np.ones((2, 3))), ValueError, r"similarity .*got shape \(2, 3\)"),
    "distances": (lambda: SimilarityDisplay(5.0 * np.eye(2)), ValueError, "from 0 to 5"),
    "asymmetric": (lambda: SimilarityDisplay([[1, 0.5], [0, 1]]), ValueError, "symmetric"),
    "labels": (lambda: SimilarityDisplay(np.eye(2), labels=[0]), ValueError, r"labels must have shape \(2,\)"),
    "feature names": (
        lambda: CoefficientDisplay.from_draws(DRAWS, feature_names=["a"]), ValueError, "feature_names must hold 20",
    ),
    "band alone": (lambda: CoefficientDisplay.from_draws(DRAWS, naive_band=(1, 2)), ValueError, "without naive"),
    "draws": (lambda: TraceDisplay.from_draws(DRAWS), TypeError, "draws must be a dict"),
    "flat draws": (lambda: TraceDisplay.from_draws({"a": DRAWS[0]}), ValueError, r"draws\['a'\] must have shape"),
    "names": (lambda: TraceDisplay.from_draws({"a": DRAWS}, names=["b"]), ValueError, "names must be among a, .*'b'"),
    "axes": (lambda: TraceDisplay.from_draws({"a": DRAWS}, ax=plt.subplots(2)[1]), ValueError, "hold 1 Axes.*got 2"),
    "bins": (lambda: RankDisplay.from_draws({"a": DRAWS}, n_bins=1), ValueError, "n_bins=1"),
    "one draw": (lambda: RankDisplay.from_draws({"a": DRAWS[:, :1]}), ValueError, r"\(2, 1\), too few"),
    "names of ranks": (lambda: CalibrationDisplay.from_ranks([0], 1, names=["a", "b"]), ValueError, "hold 1 different"),
    "other truths": (
        lambda: CalibrationDisplay.from_draws({"a": DRAWS}, {"b": [0, 0]}), ValueError, "truth must have the names",
    ),
    "different numbers": (
        lambda: CalibrationDisplay.from_draws({"a": DRAWS, "b": DRAWS[:, :5]}, [0, 0]), ValueError, "as many draws",
    ),
    "simulations": (lambda: CalibrationDisplay.from_ranks({"a": [0], "b": [0, 1]}, 1), ValueError, "display of each"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_what_was_given_and_what_to_do(case):
    """Catches input that is drawn as something else, or fails where nobody can tell why."""
    call, kind, words = WRONG[case]
    with pytest.raises(kind, match=words):
        call()
