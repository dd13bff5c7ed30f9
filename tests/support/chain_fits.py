"""Short fits of two chains, and whether two fits are the same to the last bit."""

import numpy as np
from short_fits import MECHANISM, RELEASE

from sklearn_dpmix import PrivateDPMixture

DRAWS = (
    "n_clusters_draws_",
    "weights_draws_",
    "labels_",
    "acceptance_rate_",
    "min_acceptance_",
    "n_iter_",
    "r_hat_",
    "ess_",
)


def mixture(**params):
    params = {"n_chains": 2, "n_warmup": 20, "n_draws": 30, "random_state": 0, **params}
    return PrivateDPMixture(params.pop("mechanism", MECHANISM), **params)


def assert_same_fit(one, other):
    """Every fitted attribute and every prediction is the same to the last bit."""
    for name in DRAWS:
        np.testing.assert_equal(getattr(one, name, None), getattr(other, name, None), err_msg=name)
    for left, right in zip(one._run_.chains, other._run_.chains, strict=True):
        assert left.rng_state == right.rng_state
        for name, part, other_part in zip(left.state._fields, left.state, right.state, strict=True):
            np.testing.assert_array_equal(part, other_part, err_msg=name)
    np.testing.assert_array_equal(one.score_samples(RELEASE), other.score_samples(RELEASE))
    np.testing.assert_array_equal(one.predict(RELEASE), other.predict(RELEASE))
