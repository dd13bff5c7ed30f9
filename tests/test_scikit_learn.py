"""scikit-learn's own checks of every estimator; also run on the oldest scikit-learn that we support."""

import pytest
from sklearn.utils.estimator_checks import parametrize_with_checks

from sklearn_dpmix import PrivateDPMixture


@pytest.mark.filterwarnings("ignore:the chains have not mixed:RuntimeWarning")
@parametrize_with_checks([PrivateDPMixture(), PrivateDPMixture(n_chains=1, n_warmup=20, n_draws=30)])
def test_scikit_learns_checks(estimator, check):
    """Catches a departure from scikit-learn's conventions; none is expected to fail."""
    check(estimator)
