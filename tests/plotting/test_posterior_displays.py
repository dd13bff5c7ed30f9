"""Displays of densities, utility, clusters and coefficients draw the numbers that they say they draw."""

import warnings

import numpy as np
import pandas as pd
import pytest
from plotting_case import Margins, Stub, band_of, plt, to_rgb
from scipy import stats
from sklearn.linear_model import LinearRegression

from sklearn_dpmix import DeconvolutionKDE, PrivateDPMixture, PrivateLinearRegressionDA
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism, LaplaceMechanism
from sklearn_dpmix.plotting import (
    CalibrationDisplay,
    CoefficientDisplay,
    DensityDisplay,
    PrivacyUtilityDisplay,
    SimilarityDisplay,
)

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


@pytest.fixture(scope="module")
def regression():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 3))
    return PrivateLinearRegressionDA(n_chains=2, n_warmup=50, n_draws=100, random_state=0).fit(
        X, X @ [1.0, 0.0, -1.0] + rng.normal(size=100)
    )


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


def test_bars_of_integers_hold_as_many_each():
    """Catches bars between integers, and those twice as high for the two in them."""
    records = np.repeat(np.arange(10.0), 50)
    for high, width in ((9.0, 1.0), (200.0, 9.0)):
        display = DensityDisplay(points=[0.0, high], density=[1.0, 1.0], records=records, release=records + 0.3)
        edges = display.plot()._edges()
        np.testing.assert_array_equal(np.diff(edges), width)
        assert edges[0] == -0.5 and edges[-1] >= high
    display = DensityDisplay(points=[0.0, 9.0], density=[1.0, 1.0], records=records).plot()
    np.testing.assert_allclose(display.records_.get_data().values, 0.1)


def test_default_points_of_integers_are_those_of_their_density():
    """The density is that of numbers before they are rounded: of records that are all 0 it is around 0 alone."""
    mechanism = DiscreteLaplaceMechanism(epsilon=3.0, bounds=(0, 1))
    kernel = NormalKernel(0.0, 1.0, 3.0, 0.01)
    model = PrivateDPMixture(mechanism, kernel=kernel, n_chains=1, n_warmup=50, n_draws=100, random_state=0)
    model.fit(mechanism.privatize(np.zeros((200, 1)), random_state=1))
    x, y = DensityDisplay.from_estimator(model, n_points=400).line_.get_data()
    assert 0.9 < np.trapezoid(y, x) <= 1.001


def test_a_table_s_column_is_shown():
    X = np.random.default_rng(0).normal([20.0, 70.0], 3.0, (200, 2))
    mechanism = LaplaceMechanism(epsilon=20.0, bounds=[(0, 100)] * 2)
    frame = pd.DataFrame(mechanism.privatize(X, random_state=1), columns=["age", "height"])
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=20, n_draws=20, random_state=0).fit(frame)
    for table in (X, pd.DataFrame(X, columns=["age", "height"])):
        display = DensityDisplay.from_estimator(model, feature="height", records=table, release=frame)
        np.testing.assert_array_equal(display.records, X[:, 1])
        np.testing.assert_array_equal(display.release, frame["height"])


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


@pytest.mark.filterwarnings("error:X does not have valid feature names")
def test_density_of_records_with_a_name():
    """Catches a warning that the display's own points have no name."""
    mechanism = LaplaceMechanism(scale=0.5)
    Z = pd.DataFrame({"depth": mechanism.privatize(np.linspace(0.0, 3.0, 60)[:, None], random_state=0)[:, 0]})
    model = PrivateDPMixture(mechanism, n_chains=1, n_warmup=10, n_draws=20, random_state=0).fit(Z)
    display = DensityDisplay.from_estimator(model, compare={"kernel": DeconvolutionKDE(mechanism).fit(Z)})
    assert display.ax_.get_xlabel().startswith("depth") and len(display.curves) == 1


def test_density_of_draws_is_their_mean_and_quantiles():
    """Catches quantiles over points instead of draws, and a tail that is twice as long."""
    draws = np.random.default_rng(0).random((2, 50, 3))
    display = DensityDisplay.from_draws([0.0, 1.0, 2.0], draws, level=0.5)
    flat = draws.reshape(100, 3)
    np.testing.assert_allclose(display.line_.get_ydata(), flat.mean(axis=0))
    np.testing.assert_allclose(band_of(display.band_, [0, 1, 2]), np.quantile(flat, [0.25, 0.75], axis=0))


def test_weights_of_draws_count():
    """Catches draws with weights that all count alike; and the model itself changed."""
    theta, weights = np.linspace(0.0, 1.0, 101)[:, None], np.arange(101.0) / 5050.0
    model = Stub(theta_draws_=theta, weights_=weights)
    curve = PrivacyUtilityDisplay.from_estimators({1.0: model}, lambda one: one.theta_draws_).curves["posterior"]
    ends = np.quantile(theta[:, 0], [0.025, 0.975], weights=weights, method="inverted_cdf")
    np.testing.assert_allclose([*curve.value, *curve.lower, *curve.upper], [weights @ theta[:, 0], *ends], atol=0.02)
    assert model.theta_draws_ is theta and model.weights_ is weights


LINES = {f"a quantity with a long name {j}": np.full(40, j % 20) for j in range(30)}


@pytest.mark.parametrize(
    "display",
    [
        lambda: CalibrationDisplay.from_ranks(LINES, 19),
        lambda: PrivacyUtilityDisplay.from_values(
            [0.1, 1.0, 10.0], {"a": [1, 2, 3], "b": [1, 1, 2]}, intervals={"a": ([0, 1, 2], [2, 3, 4])}
        ),
    ],
)
def test_the_legend_stays_above_what_is_drawn(display):
    """Catches one that covers lines and bars, or grows beyond the axes with the number of lines."""
    display = display()
    room, legend = display.ax_.get_window_extent(), display.ax_.get_legend().get_window_extent()
    assert legend.y1 <= room.y1
    assert display.ax_.transData.transform((0.0, display.ax_.dataLim.y1))[1] <= legend.y0


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
