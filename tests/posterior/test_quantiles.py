"""Quantiles of one component, which SciPy knows, and of some draws at a time."""

import numpy as np
import pytest
from fitted_mixtures import MECHANISM, RELEASE, fit
from scipy.special import betaincinv

from sklearn_dpmix._posterior import mixture
from sklearn_dpmix._posterior.mixture import mixture_quantile
from sklearn_dpmix.kernels import BetaKernel

SHAPES = np.array([(0.02, 3.0), (0.001, 0.001), (3.0, 0.02), (2.0, 5.0), (1.0, 1.0)])
Q = np.array([1e-3, 0.01, 0.1, 0.25, 0.5, 0.9, 0.999])


@pytest.mark.parametrize("bounds", [(0.0, 1.0), (-5.0, 3.0)])
def test_quantiles_of_beta_components_are_right_next_to_the_ends(bounds):
    """Catches a bracket that begins outside, and one that is halved too seldom: they are as small as 1e-300."""
    low, high = bounds
    kernel, theta = BetaKernel(bounds=bounds)._lower(n_features=1), np.zeros((len(SHAPES), 4))
    for k, (a, b) in enumerate(SHAPES):
        kernel.put_params(theta, k, a, b)
    found = mixture_quantile(kernel, np.arange(len(SHAPES) + 1), np.ones(len(SHAPES)), theta, 0, Q)
    np.testing.assert_allclose(found, low + (high - low) * betaincinv(*SHAPES.T[..., None], Q), rtol=1e-9, atol=1e-300)
    assert np.all((found >= low) & (found <= high))
    if low == 0.0:
        assert np.all(found > 0.0)


def test_quantiles_do_not_depend_on_blocks_or_jobs(monkeypatch):
    """Catches a block that begins at another draw's atoms, or leaves out the last draws."""
    model = fit(MECHANISM, RELEASE, n_warmup=10, n_draws=25)
    one = model.quantile_draws(Q)
    monkeypatch.setattr(mixture, "N_DRAWS", 7)
    np.testing.assert_array_equal(model.set_params(n_jobs=2).quantile_draws(Q), one)
    draws = model._draws_
    for t in (0, 6, 7, 49):
        alone = mixture_quantile(model._kernel(), draws.start[t : t + 2], draws.flat.weights, draws.flat.theta, 0, Q)
        np.testing.assert_array_equal(one.reshape(50, -1)[t], alone[0])
