"""All displays draw on the axes that they are given, load Matplotlib late, and say what is wrong."""

import subprocess
import sys

import numpy as np
import pytest
from plotting_case import Margins, Stub, plt, to_rgb
from scipy import stats
from sklearn.exceptions import NotFittedError

from sklearn_dpmix import PrivateDPMixture, PrivateLinearRegressionDA
from sklearn_dpmix.plotting import (
    CalibrationDisplay,
    CoefficientDisplay,
    DensityDisplay,
    PrivacyUtilityDisplay,
    RankDisplay,
    SimilarityDisplay,
    TraceDisplay,
)
from sklearn_dpmix.plotting._style import COLORS, LINES, style

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
    "independent": (
        lambda: RankDisplay.from_estimator(Stub(_monitors_={"coef": np.zeros((1, 9))})),
        TypeError,
        r"are independent: fit with sampler=DPPenaltyMCMC\(",
    ),
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
    "no draws": (lambda: RankDisplay.from_draws({}), ValueError, "at least one quantity, got draws={}"),
    "flat draws": (lambda: TraceDisplay.from_draws({"a": DRAWS[0]}), ValueError, r"draws\['a'\] must have shape"),
    "names": (lambda: TraceDisplay.from_draws({"a": DRAWS}, names=["b"]), ValueError, "names must be among a, .*'b'"),
    "axes": (lambda: TraceDisplay.from_draws({"a": DRAWS}, ax=plt.subplots(2)[1]), ValueError, "hold 1 Axes.*got 2"),
    "bins": (lambda: RankDisplay.from_draws({"a": DRAWS}, n_bins=1), ValueError, "n_bins=1"),
    "one draw": (lambda: RankDisplay.from_draws({"a": DRAWS[:, :1]}), ValueError, r"\(2, 1\), too few"),
    "ranks of NaN": (lambda: RankDisplay.from_draws({"a": DRAWS + np.nan}), ValueError, "a has draws that are NaN"),
    "names of ranks": (lambda: CalibrationDisplay.from_ranks([0], 1, names=["a", "b"]), ValueError, "hold 1 different"),
    "other truths": (
        lambda: CalibrationDisplay.from_draws({"a": DRAWS}, {"b": [0, 0]}), ValueError, "truth must have the names",
    ),
    "different numbers": (
        lambda: CalibrationDisplay.from_draws({"a": DRAWS, "b": DRAWS[:, :5]}, [0, 0]), ValueError, "of one shape",
    ),
    "simulations": (lambda: CalibrationDisplay.from_ranks({"a": [0], "b": [0, 1]}, 1), ValueError, "display of each"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_errors_name_what_was_given_and_what_to_do(case):
    """Catches input that is drawn as something else, or fails where nobody can tell why."""
    call, kind, words = WRONG[case]
    with pytest.raises(kind, match=words):
        call()
