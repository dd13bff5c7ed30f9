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
