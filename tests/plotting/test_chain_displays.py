"""Displays of chains, ranks and calibration draw the numbers that they say they draw."""

import numpy as np
import pytest
from plotting_case import Stub, band_of, plt
from scipy import stats

from sklearn_dpmix.metrics import posterior_ranks, rank_uniformity
from sklearn_dpmix.plotting import CalibrationDisplay, RankDisplay, TraceDisplay
from sklearn_dpmix.plotting._rank import rank_shares

pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")


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


def test_traces_of_draws_that_are_odd():
    """Catches a single draw that a line does not show, a warning about infinity, and an error that names nothing."""
    lines = TraceDisplay.from_draws({"a": [[1.0], [2.0]], "b": np.full((2, 9), np.inf)}).lines_
    assert [line.get_marker() for line in (*lines["a"], *lines["b"])] == ["o", "o", "", ""]
    for wrong in ([["x", "y"]], [[1.0, 2.0], [3.0]], np.ones(3), np.ones((2, 0))):
        with pytest.raises(ValueError, match=r"draws\['a'\] must have shape \(n_chains, n_draws\)"):
            TraceDisplay.from_draws({"a": wrong})


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
