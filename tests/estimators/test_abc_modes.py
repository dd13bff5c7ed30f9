"""Chains of PrivateABC where noise that depends on the data gives the posterior two modes, one wide, far apart."""

import numpy as np
import pytest
from scipy import stats
from statistical import Disagreement, TooFewDraws, assert_mean_close

from sklearn_dpmix import PrivateABC
from sklearn_dpmix.mechanisms import SmoothGaussianMechanism
from sklearn_dpmix.samplers import MarkovABC
from sklearn_dpmix.samplers.simulation import _abc_markov

MECHANISM = SmoothGaussianMechanism(epsilon=2.0, delta=1e-3, xi=0.3, multiplier=1.7)
RELEASE = -8.0


class GrowingNoise:
    """θ ~ N(0, 9) and x ~ N(θ, 1), whose smooth sensitivity is e^(0.3 x)."""

    def sample_prior(self, rng, size):
        return rng.normal(0.0, 3.0, (size, 1))

    def log_prior(self, theta):
        return stats.norm.logpdf(theta[:, 0], 0.0, 3.0)

    def sample_statistic(self, rng, theta):
        x = theta[:, 0] + rng.standard_normal(len(theta))
        return np.column_stack([x, np.exp(0.3 * x)])


def check(seed=0, method="mcmc"):
    """The mass of the mode above 0, the mean and the second moment, by quadrature over x."""
    x = np.linspace(-25.0, 25.0, 500_001)
    scale = 1.7 * np.exp(0.3 * x)
    weights = stats.norm.pdf(x, 0.0, np.sqrt(10.0)) * stats.norm.pdf((RELEASE - x) / scale) / scale
    weights /= weights.sum()
    mean, sd = 0.9 * x, np.sqrt(0.9)  # of θ given x
    expected = weights @ stats.norm.sf(-mean / sd), weights @ mean, weights @ (mean**2 + sd**2)
    model = PrivateABC(MECHANISM, model=GrowingNoise(), method=method, n_draws=8000, random_state=seed).fit([RELEASE])
    theta = model.theta_draws_[..., 0]
    assert_mean_close(np.stack([theta > 0.0, theta, theta**2], axis=2).astype(float), expected, min_ess=400)


def test_chains_go_from_one_mode_to_the_other():
    """Catches chains that all end in the narrow mode, where their steps become too short to leave it, and agree."""
    check()


class NearOnly(MarkovABC):
    """Without proposals from afar."""

    def init(self, simulator, rng):
        state = super().init(simulator, rng)
        state.width[:] = 0.0
        return state


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
def test_steps_alone_stay_in_a_mode():
    with pytest.raises((Disagreement, TooFewDraws)):
        check(method=NearOnly())


def test_far_proposals_by_another_density_are_rejected(monkeypatch):
    log_far = _abc_markov.log_far
    monkeypatch.setattr(_abc_markov, "log_far", lambda state, place: log_far(state, place) + (place[0] > 0.0))
    with pytest.raises(Disagreement):
        check()


def test_far_proposals_are_as_wide_as_what_explains_the_release():
    """Where one draw of the prior does, others count too; where parameters follow from each other, there are none."""
    rng = np.random.default_rng(0)
    theta, log_release = rng.normal(size=(1000, 2)), np.zeros(1000)
    for explained in (1000, 100, 1):
        log_release[explained:] = -800.0
        centres, width = _abc_markov.far_proposals(theta, log_release, rng)
        assert np.all(np.diagonal(width) > 0.2)
        assert len(np.unique(centres, axis=0)) >= 20
    log_release[:999] = -np.inf
    assert not _abc_markov.far_proposals(theta, log_release, rng)[1].any()
    assert not _abc_markov.far_proposals(theta[:, [0, 0]], np.zeros(1000), rng)[1].any()
