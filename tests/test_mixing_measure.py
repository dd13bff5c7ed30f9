"""The walk over mixing measures: exact on n <= 5 records, right on more, and on nodes that stand for many."""

import numpy as np
import pytest
import test_agreement
import test_exact
from statistical import Disagreement, assert_means_agree

from sklearn_dpmix.samplers import MixingMeasure, _measure

test_exact.SAMPLERS["mixing measure"] = (MixingMeasure(), 1)
test_agreement.SAMPLERS["mixing measure"] = (MixingMeasure(), 1)
CASES = [name for name, case in test_exact.NOISY.items() if np.ndim(case.scale) == 0]


@pytest.mark.slow
@pytest.mark.parametrize("channel", ["laplace", "gaussian"])
def test_posterior_is_exact(channel):
    """Catches a wrong target of any move, whatever the reason."""
    for seed, name in enumerate(CASES):
        test_exact.check("mixing measure", channel, 1, name, seed=seed)


@pytest.mark.slow
@pytest.mark.parametrize("noise", ["laplace", "gaussian"])
def test_agrees_on_nodes(noise, monkeypatch):
    """With cells where 60 records would be nodes themselves: nodes, and the Poisson draw of occupied atoms."""
    monkeypatch.setattr(_measure, "FEW", 0)
    draws = test_agreement.summaries.__wrapped__("mixing measure", noise)
    assert_means_agree(draws, test_agreement.summaries("neal8", noise), what=noise)
