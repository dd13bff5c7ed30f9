"""Default intervals hold fixed, ordinary truths as often as they say: what ranks over the prior cannot see."""

import numpy as np
import pytest
from scipy import stats

from benchmarks.coverage import CELLS, Answer, Cell, measure, one_release
from sklearn_dpmix.models import RegressionPrior

ALPHA = 1e-6
N_RELEASES = 60


def misses(values, level, column):
    """Whether intervals hold the truth less often than ``level`` says, at level ALPHA."""
    return stats.binom.cdf(values[:, column].sum(), len(values), level) < ALPHA


@pytest.mark.nightly
@pytest.mark.parametrize("cell", [cell for cell in CELLS if cell.knows and cell.part != "mixture"], ids=str)
def test_default_intervals_hold_the_truth(cell):
    """A default prior in the wrong units, or a model of the predictors that is wrong for the data, loses nearly all."""
    for name, values in measure(cell, N_RELEASES).items():
        assert not misses(values, 0.5, 1), name
        assert not misses(values, 0.9, 2), name


def test_a_prior_that_is_far_from_the_data_is_seen(monkeypatch):
    """The broken twin: slopes N(0, 0.02²) where the truth is 0.5."""
    import benchmarks.coverage as module

    class Narrow(module.PrivateLinearRegressionDA):
        def __init__(self, mechanism=None, *, n_records=None, random_state=None):
            super().__init__(
                mechanism, prior=RegressionPrior(coef_scale=0.02), n_records=n_records, random_state=random_state
            )

    monkeypatch.setattr(module, "PrivateLinearRegressionDA", Narrow)
    cell = Cell("regression", "uniform, normal errors", 300, 1.0, "Laplace", True)
    slopes = np.array([one_release(cell, seed)["slope"] for seed in range(12)])
    assert misses(slopes, 0.9, 2)


def test_what_is_counted():
    """Bias, intervals and width of draws that are known."""
    import benchmarks.coverage as module

    draws = np.linspace(-1.0, 1.0, 2001)
    rows = {"a": Answer(draws, 0.0, 0.9), "b": Answer(draws, 0.7, 0.9), "c": Answer(draws, 0.95, 0.45)}
    module_parts = module.PARTS | {"given": lambda cell, rng, seed: rows}
    parts, module.PARTS = module.PARTS, module_parts
    try:
        found = one_release(Cell("given", "", 1, 1.0, "", True), 0)
    finally:
        module.PARTS = parts
    assert found["a"] == pytest.approx((0.0, 1.0, 1.0, 1.0), abs=1e-9)
    assert found["b"][1:] == pytest.approx((0.0, 1.0, 1.0))
    assert found["c"][1:] == pytest.approx((0.0, 0.0, 2.0))


def test_what_is_written(monkeypatch, tmp_path):
    """A part's table and picture; the page keeps other parts, in their order, and sections that are none."""
    pytest.importorskip("matplotlib")
    import benchmarks.coverage as module

    (tmp_path / "images").mkdir()
    monkeypatch.setattr(module, "PAGE", tmp_path / "coverage.md")
    module.PAGE.write_text("# Old\n\n## What it says\n\nWords.\n\n## Mixture\n\nmixtures\n", encoding="utf-8")
    values = np.tile([0.25, 1.0, 1.0, 2.0], (20, 1))
    values[:5, 1:3] = 0.0
    cells = [Cell("normal family", law, 500, 1.0, "Laplace", law == "normal") for law in ("normal", "uniform")]
    rows = [(cells[0], {"mean": values, "sd": values}), (cells[1], {"mean": values})]
    module.draw("normal family", rows)
    module.write({"normal family": module.table("normal family", rows, 20)})
    text = module.PAGE.read_text(encoding="utf-8")
    assert text.startswith(module.HEADER)
    heads = [line for line in text.splitlines() if line.startswith("## ")]
    assert heads == ["## Normal family", "## Mixture", "## What it says"]
    assert "**20 releases in each row**: a correct 90 % interval then shows 0.75 to 1.00" in text
    assert "| normal | 500 | 1 | Laplace | sd | +0.25 | 0.75 | 0.75 | 2.0 |" in text
    assert "| *uniform* | 500 | 1 | Laplace | mean |" in text and text.count("| *uniform* |") == 1
    assert "mixtures" in text and "Words." in text and "# Old" not in text
    assert "images/coverage_normal_family.png" in text
    assert (tmp_path / "images" / "coverage_normal_family.png").stat().st_size > 1000


@pytest.mark.slow
@pytest.mark.parametrize("law", ["normal", "five values"])
def test_mixtures_are_counted(law):
    """A law without a density has no quantiles that an interval could hold."""
    found = one_release(Cell("mixture", law, 60, 10.0, "Laplace", True), 0)
    quantiles = {"median", "0.9 quantile"} if law == "normal" else set()
    assert set(found) == {"mean", "mean, clamped"} | quantiles
