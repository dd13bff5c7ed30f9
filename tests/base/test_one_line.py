"""How components are written."""

import numpy as np
import pytest
from sklearn.base import clone

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.queries import SufficientStatistics


def test_a_nested_component_is_on_one_line():
    mechanism = LaplaceMechanism(epsilon=1.0, query=SufficientStatistics("poisson", bounds=(0, 10)))
    with pytest.raises(
        ValueError, match=r"has no sampler for mechanism=.*PrivateExpFamilyGibbs.* query released"
    ) as found:
        PrivateDPMixture(mechanism).fit([[3.0]])
    text = "LaplaceMechanism(epsilon=1.0, query=SufficientStatistics(bounds=(0, 10), family='poisson'))"
    assert repr(mechanism) == text and text in str(found.value)


def test_a_long_array_is_told_by_its_size():
    epsilon = np.linspace(1.0, 2.0, 1000)
    mechanism = LaplaceMechanism(epsilon=epsilon, bounds=[(0, 1), (0, 2)])
    assert repr(mechanism) == "LaplaceMechanism(bounds=[(0, 1), (0, 2)], epsilon=<array of shape (1000,)>)"
    assert mechanism.epsilon is epsilon and repr(clone(mechanism)) == repr(mechanism)
    assert "epsilon=[0.5, 0.7]" in repr(LaplaceMechanism(epsilon=[0.5, 0.7], bounds=(0, 1)))
    assert repr(LaplaceMechanism(epsilon=epsilon.tolist())) == "LaplaceMechanism(epsilon=<list of 1000>)"


@pytest.mark.parametrize("bounds", [[(0, 1), (2,)], [0, [1, 2]], [["a"], None], np.array(3.0), []])
def test_what_is_no_array_can_be_written(bounds):
    """Catches an error in the words of another one: those of wrong bounds quote the mechanism."""
    for component in (LaplaceMechanism(1.0, bounds=bounds), SufficientStatistics("poisson", bounds=bounds)):
        assert f"bounds={bounds!r}" in repr(component)
