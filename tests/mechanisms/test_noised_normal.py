"""Densities of releases of normal records, and the functions that they are made of."""

from math import log

import numpy as np
import pytest
from scipy.special import erfcx
from scipy.stats import laplace, norm

from sklearn_dpmix._base.vector import erfcx_positive, log_positive
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism


def test_vectorised_functions():
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.uniform(0.5, 2.0, 5000), 10.0 ** rng.uniform(-300, 300, 5000)])
    np.testing.assert_allclose([log_positive(v) for v in x], np.log(x), rtol=5e-16, atol=0)
    x = np.concatenate([np.linspace(0, 30, 5001), 10.0 ** rng.uniform(1, 30, 1000)])
    np.testing.assert_allclose([erfcx_positive(v) for v in x], erfcx(x), rtol=2e-15)


def quadrature(q, x, low, high, mean, sd):
    """g(x) by Gauss–Legendre between the places where the integrand turns."""
    noise = (abs(x - mean) + 1.0) / 50
    turns = [x, mean, *([low] if low > -np.inf else []), *([high] if high < np.inf else [])]
    widths = [0.0, noise, 5 * noise, sd, 3 * sd, 6 * sd, 0.1, 0.5, 2.0]
    low_end, high_end = mean - 14 * sd, mean + 14 * sd
    edges = np.clip([t + s * w for t in turns for w in widths for s in (-1, 1)], low_end, high_end)
    edges = np.unique(np.append(edges, [low_end, high_end]))
    t, w = np.polynomial.legendre.leggauss(40)
    y = 0.5 * (edges[1:] + edges[:-1])[:, None] + 0.5 * np.diff(edges)[:, None] * t
    weights = 0.5 * np.diff(edges)[:, None] * w
    return np.sum(weights * q(x - np.clip(y, low, high)) * norm.pdf(y, mean, sd))


@pytest.mark.parametrize("bounds", [None, (-2.0, 3.0)])
@pytest.mark.parametrize(("mechanism", "law"), [(LaplaceMechanism, laplace), (GaussianMechanism, norm)])
def test_noised_normal_densities(mechanism, law, bounds):
    """Against quadrature; the derivatives against differences."""
    low, high = (-np.inf, np.inf) if bounds is None else bounds
    rng = np.random.default_rng(1)
    for _ in range(40):
        b, sd, mean = 10 ** rng.uniform(-0.7, 0.7), 10 ** rng.uniform(-1, 0.5), 2 * rng.standard_normal()
        value = mechanism(scale=b, bounds=bounds)._lower(n_records=1, n_features=1)
        x = np.clip(mean + 1.5 * np.hypot(sd, b) * rng.standard_normal(4), max(low, -1e9), min(high, 1e9))
        ends = np.array([law.pdf(x - end, scale=b) if np.isfinite(end) else np.zeros(4) for end in (low, high)])

        nodes = np.concatenate([x, *ends])

        def fill(mean, log_variance, value=value, nodes=nodes):
            out = np.zeros(12)
            value.fill_normal(0, nodes, 4, mean, log_variance, out, 0, 4)
            return out.reshape(3, 4)

        found = fill(mean, 2 * log(sd))
        expected = [quadrature(lambda e, b=b: law.pdf(e, scale=b), z, low, high, mean, sd) for z in x]
        np.testing.assert_allclose(found[0], expected, rtol=1e-9)
        step = 1e-5
        by_mean = (fill(mean + step * sd, 2 * log(sd))[0] - fill(mean - step * sd, 2 * log(sd))[0]) / (2 * step)
        by_scale = (fill(mean, 2 * log(sd) + step)[0] - fill(mean, 2 * log(sd) - step)[0]) / (2 * step)
        np.testing.assert_allclose(found[1] * sd / found[0], by_mean / found[0], atol=1e-6)
        np.testing.assert_allclose(found[2] / found[0], by_scale / found[0], atol=1e-6)
