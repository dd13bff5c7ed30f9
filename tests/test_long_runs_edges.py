"""Long runs at odd moments and with odd parameters: what is kept, what is found again, and what is said."""


import pytest

from sklearn_dpmix import AutoDraws, PrivateExpFamilyGibbs
from sklearn_dpmix.mechanisms import LaplaceMechanism

NOISE = LaplaceMechanism(scale=2.0)
pytestmark = pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")

QUICK = AutoDraws(min_ess=60)  # met at the first look


def binomial(**params):
    times = {"n_chains": 2, "n_warmup": 20, "n_draws": 30, "random_state": 0}
    return PrivateExpFamilyGibbs(NOISE, family="binomial", n_records=20, **(times | params))


def fit(**params):
    return binomial(**params).fit([13.0])


def interrupt(*args, **kwargs):
    raise KeyboardInterrupt


def test_only_its_own_leftovers_are_removed(tmp_path):
    """Catches a fit that pulls the half-written file away from under that of a path that begins alike."""
    own, other = tmp_path / ".run.ab_c1234.tmp", tmp_path / ".run.2.ab_c1234.tmp"
    own.touch()
    other.touch()
    fit(checkpoint=tmp_path / "run")
    assert not own.exists()
    assert other.exists()
