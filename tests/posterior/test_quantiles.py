"""Quantiles of one component, which SciPy knows, and of some draws at a time."""

import mpmath
import numpy as np
import pytest
from fitted_mixtures import MECHANISM, RELEASE, fit
from scipy import stats
from scipy.special import betaincinv

from sklearn_dpmix._posterior import mixture
from sklearn_dpmix._posterior.quantile import mixture_quantile
from sklearn_dpmix.kernels import BetaKernel, CategoricalKernel, NormalKernel, TruncatedNormalKernel

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


def normals(kernel, means, sds, j=0):
    """A kernel's value, and parameters of these normals in feature j of two."""
    value, theta = kernel._lower(n_features=2), np.zeros((len(means), 8))
    for k, (mean, sd) in enumerate(zip(means, sds, strict=True)):
        value.put_params(theta, k, j, mean, sd)
    return value, theta


@pytest.mark.parametrize("j", [0, 1])
def test_quantiles_of_mixtures_have_their_level(j):
    """Catches a bracket that does not grow, and a search that stops too soon: of atoms as wide as 1e-6 and as 1e3."""
    means, sds, weights = (
        np.array([-2e3, 0.0, 3.0, 3.0]),
        np.array([1e3, 1.0, 1e-6, 1e3]),
        np.array([0.2, 0.5, 0.2, 0.1]),
    )
    kernel, theta = normals(NormalKernel(0.0, 1.0, 1.0, 1.0), means, sds, j)
    levels = np.array([1e-12, 1e-3, 0.2, 0.45, 0.8, 0.83, 0.97, 1.0 - 1e-9])
    (found,) = mixture_quantile(kernel, np.array([0, 4]), weights, theta, j, levels)
    density = stats.norm.pdf(found[:, None], means, sds) @ weights
    off = stats.norm.cdf(found[:, None], means, sds) @ weights - levels
    assert np.all(abs(off) <= density * 1e-15 * (1.0 + abs(found)) + 4e-16 * np.maximum(levels, 1e-4)), off


def test_quantiles_of_truncated_normals_are_inside():
    """Catches quantiles beyond the end: they are next to it, or at it."""
    bounds, means, sds = np.array([(0.0, 1.0), (-4.0, 8.0)]), np.array([0.5, -3.0, 1.5]), np.array([0.1, 2.0, 100.0])
    levels = np.array([1e-300, 1e-9, 0.01, 0.5, 0.99])
    for j, (low, high) in enumerate(bounds):
        kernel, theta = normals(TruncatedNormalKernel(0.0, 1.0, 1.0, 1.0, bounds=bounds), means, sds, j)
        found = mixture_quantile(kernel, np.arange(4), np.ones(3), theta, j, levels)
        assert np.all((found >= low) & (found <= high))
        for k, (mean, sd) in enumerate(zip(means, sds, strict=True)):
            with mpmath.workdps(330):
                below, *masses = (mpmath.ncdf((mpmath.mpf(x) - mean) / sd) for x in (low, *found[k], high))
                off = [
                    float((mass - below) / (masses[-1] - below) - q) for mass, q in zip(masses, levels, strict=False)
                ]
            assert np.all(np.abs(off) <= (1e-12 * levels if low == 0.0 else 2e-15)), (j, k, off)


def test_quantiles_of_categories_are_where_the_cdf_jumps():
    """Catches a place between two categories where a level is reached exactly."""
    kernel = CategoricalKernel(3)._lower(n_features=1)
    theta, levels = np.array([[0.25, 0.25, 0.5]]), np.array([0.1, 0.25, 0.3, 0.5, 0.6])
    (found,) = mixture_quantile(kernel, np.array([0, 1]), np.ones(1), theta, 0, levels)
    np.testing.assert_allclose(found, [0, 0, 1, 1, 2], atol=1e-12)


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
