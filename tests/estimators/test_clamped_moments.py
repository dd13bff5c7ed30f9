"""Moments of records as the mechanism clamps them: by quadrature of the cdf, and where they are refused."""

import numpy as np
import pytest
from scipy.integrate import cumulative_trapezoid, quad
from scipy.stats import norm

from sklearn_dpmix import PrivateDPMixture
from sklearn_dpmix.kernels import NormalKernel
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism

BOUNDS = [(0.0, 10.0), (-2.0, 3.0)]
FIT = {"n_chains": 2, "n_warmup": 20, "n_draws": 30, "random_state": 0}


@pytest.mark.parametrize(
    ("mean", "sd"), [(1.0, 2.0), (-4.0, 3.0), (9.0, 0.01), (0.0, 1e-9), (50.0, 4.0), (5.0, 1e3), (-3e4, 1e4)]
)
def test_variance_of_a_clamped_record(mean, sd):
    """Against quadrature: inside the bounds, across one or both, and beyond them."""
    lo, hi = BOUNDS[0]
    value = NormalKernel(0.0, 1.0, 3.0, 1.0)._lower(n_features=1)
    theta = np.array([[mean, sd, 1.0 / sd, np.log(sd)]])
    law, points = norm(mean, sd), [x for x in (mean - 8 * sd, mean, mean + 8 * sd) if lo < x < hi] or None
    center = value.clamped_mean(theta, 0, 0, lo, hi)
    above = quad(lambda x: 2.0 * (x - center) * law.sf(x), center, hi, points=points, limit=500, epsabs=1e-14)[0]
    below = quad(lambda x: 2.0 * (center - x) * law.cdf(x), lo, center, points=points, limit=500, epsabs=1e-14)[0]
    assert value.clamped_variance(theta, 0, 0, lo, hi) == pytest.approx(above + below, rel=1e-6, abs=1e-15 * sd * sd)


@pytest.mark.parametrize("kernel", ["normal", "multivariate_normal"])
def test_moments_are_the_cdfs(kernel):
    """E c = hi - ∫ F and E c² = hi² - 2 ∫ x F over the bounds, of each draw and feature."""
    rng = np.random.default_rng(0)
    mechanism = LaplaceMechanism(scale=1.0, bounds=BOUNDS)
    Z = mechanism.privatize(rng.exponential(2.0, size=(60, 2)), random_state=1)
    model = PrivateDPMixture(mechanism, kernel=kernel, **FIT).fit(Z)
    moments = model.moment_draws(clamped=True)
    for j, (lo, hi) in enumerate(BOUNDS):
        x = np.linspace(lo, hi, 2001)
        wide = np.full((len(x), 2), 1e6)
        wide[:, j] = x
        if kernel == "normal":
            F = model.cdf_draws(wide)
        else:  # no distribution function of both: that of the feature, by its density
            F = cumulative_trapezoid(model.density_draws(wide[:, j : j + 1], feature=j), x, initial=0.0)
            below = np.linspace(lo - 300.0, lo, 30_001)
            F += np.trapezoid(model.density_draws(below[:, None], feature=j), below)[..., None]
        first = hi - np.trapezoid(F, x, axis=-1)
        second = hi**2 - 2.0 * np.trapezoid(x * F, x, axis=-1)
        np.testing.assert_allclose(moments.mean[..., j], first, atol=2e-3)
        np.testing.assert_allclose(moments.variance[..., j], second - first**2, atol=2e-2)


def test_clusters_beyond_a_bound_take_the_mean_with_them():
    """Exponential records next to a bound."""
    X = np.random.default_rng(0).exponential(12.0, size=(500, 1))
    mechanism = LaplaceMechanism(epsilon=2.0, bounds=(0, 100))
    model = PrivateDPMixture(mechanism, **FIT).fit(mechanism.privatize(X, random_state=1))
    assert np.all(model.moment_draws(clamped=True).mean > model.moment_draws().mean)


@pytest.mark.parametrize(
    ("mechanism", "kernel", "message"),
    [
        (LaplaceMechanism(scale=1.0), "normal", "needs a mechanism that clamps"),
        (GaussianMechanism(scale=1.0, bounds=(0, 10), clamp=False), "normal", "needs a mechanism that clamps"),
        (None, "normal", "needs a mechanism that clamps"),
        (LaplaceMechanism(scale=1.0, bounds=(0, 10)), "truncated_normal", "needs a normal kernel"),
    ],
)
def test_what_has_no_clamped_moments_is_refused(mechanism, kernel, message):
    model = PrivateDPMixture(mechanism, kernel=kernel, **FIT).fit(np.array([[1.0], [4.0], [9.0]]))
    with pytest.raises(ValueError, match=message):
        model.moment_draws(clamped=True)


def test_clamped_is_true_or_false():
    """Catches "no" that is taken for yes."""
    mechanism = LaplaceMechanism(epsilon=4.0, bounds=(0, 100))
    with pytest.raises(ValueError, match="clamped must be True or False, got clamped='no'"):
        PrivateDPMixture(mechanism, **FIT).fit([[20.0], [50.0]]).moment_draws(clamped="no")
