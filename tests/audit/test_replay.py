"""Whole fits under a budget, replayed on a neighbour: one record moves nothing further than the noise was made for."""

import numpy as np
import pytest

from sklearn_dpmix import PrivateLinearRegressionDA, PrivateNaiveBayesDA
from sklearn_dpmix.estimators.private._noise_source import SystemNoise
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.models import GaussianMean
from sklearn_dpmix.queries import ClassFeatureCounts, RegressionMoments

from .measure import ALPHA, fit_of_continuous
from .replay import barker_shares, fit, replay, replay_barker, shares
from .replay_cases import BARKER, CASES, ENDS, NEAR, PENALTY, QUICK, with_params

NIGHTLY = pytest.mark.nightly
ROUNDING = 1.0 + 1e-9
#: Worst neighbours are to be at least that far apart, or the check would see little.
NEARLY = 0.9


def marked(names):
    return [pytest.param(name, marks=() if name in QUICK else NIGHTLY) for name in names]


@pytest.mark.parametrize("name", marked(CASES))
def test_one_record_moves_no_release_further_than_its_sensitivity(name):
    """Catches a sensitivity that is too small, or a path that depends on more than what was released."""
    pairs, fitted, again = replay(*CASES[name])
    found = shares(pairs)
    assert np.max(found) <= ROUNDING, (name, np.max(found))
    assert name in NEAR or np.max(found) > NEARLY, (name, np.max(found))
    draws = [getattr(one, "sampler_", one).theta_draws_ for one in (fitted, again)]
    np.testing.assert_array_equal(*draws)


@NIGHTLY
@pytest.mark.parametrize("name", BARKER)
def test_one_record_moves_no_barker_test_further_than_it_is_accounted_for(name):
    """Its Rényi divergences, the batch's variance included, against the accountant's curve."""
    estimator, first, second = BARKER[name]
    pairs, fitted, again = replay_barker(estimator, first, second)
    found = barker_shares(pairs, estimator._curve())
    assert np.max(found) <= ROUNDING, np.max(found)
    assert np.max(found) > NEARLY, np.max(found)
    np.testing.assert_array_equal(fitted.theta_draws_, again.theta_draws_)


def test_the_systems_noise_is_that_of_the_sensitivity():
    """The other half: noise on a release is normal, of multiplier × sensitivity."""
    noise = SystemNoise().release(np.zeros(40_000), 2.0, 3.0) / 6.0
    from scipy.stats import norm

    assert fit_of_continuous(noise, norm.cdf) >= ALPHA
    assert fit_of_continuous(0.9 * noise, norm.cdf) < ALPHA


# --- broken twins ----------------------------------------------------------------------------------------------------


@NIGHTLY
def test_a_twin_with_a_sensitivity_a_tenth_too_small_is_found():
    """A model that understates how far a log ratio ranges."""

    class Narrow(GaussianMean):
        def log_ratio_range(self, theta, new):
            return 0.9 * super().log_ratio_range(theta, new)

    pairs, *_ = replay(with_params(PENALTY, model=Narrow(1, data_norm=3.0)), *ENDS)
    assert np.max(shares(pairs)) > 1.1


@NIGHTLY
def test_a_twin_that_forgets_to_clip_is_found():
    """Records longer than the model says."""

    class Loose(GaussianMean):
        def clip_records(self, X):
            return X

    pairs, *_ = replay(with_params(PENALTY, model=Loose(1, data_norm=3.0)), *ENDS)
    assert np.max(shares(pairs)) > 2.0


@NIGHTLY
def test_a_barker_twin_whose_curve_leaves_a_tenth_out_is_found():
    """Accounted for at a ratio limit that is a tenth below the one in force."""
    name = "DPBarkerMCMC, user's model"
    estimator, first, second = BARKER[name]
    pairs, *_ = replay_barker(estimator, first, second)
    assert np.max(barker_shares(pairs, with_params(estimator, ratio_limit=0.9 * estimator.ratio_limit)._curve())) > 1.05


# --- fit(X, y) under a mechanism: one release, the noise taken off ---------------------------------------------------


class Silent(LaplaceMechanism):
    """Releases what it would have put noise on."""

    def draw_noise(self, rng, scale, size):
        return np.zeros(size)


def released(estimator, X, y):
    """The value before noise of a whole fit."""
    return fit(estimator, (X, y)).release_[0]


SMALL = {"n_chains": 1, "n_warmup": 2, "n_draws": 8, "random_state": 0}
COUNTS = Silent(1.0, query=ClassFeatureCounts(2, [2, 3]))
MOMENTS = Silent(1.0, query=RegressionMoments((-1, 1), (-1, 1), 2))
RECORDS = {
    "PrivateNaiveBayesDA": (PrivateNaiveBayesDA(COUNTS, **SMALL), [[0, 0, 0]], [[1, 2, 1]]),
    "PrivateLinearRegressionDA": (PrivateLinearRegressionDA(MOMENTS, **SMALL), [[9.0, 9.0, 9.0]], [[-0.25] * 3]),
}


@NIGHTLY
@pytest.mark.parametrize("name", RECORDS)
def test_one_record_moves_a_release_of_a_fit_by_its_sensitivity(name):
    """In L1; no further, and on worst neighbours as far."""
    estimator, first, second = RECORDS[name]
    rest = np.array([[0, 1, 1], [1, 0, 0], [1, 2, 0]])
    data = [np.vstack([rest, row]) for row in (first, second)]
    values = [released(estimator, records[:, :-1], records[:, -1]) for records in data]
    mechanism = estimator.mechanism
    share = np.abs(values[0] - values[1]).sum() / (mechanism.epsilon * mechanism.noise_scale)
    assert NEARLY < share <= ROUNDING
