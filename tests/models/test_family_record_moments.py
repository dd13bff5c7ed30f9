"""What one record adds to a sum of an exponential family: its mean and variance, cut at bounds and not."""

import curator_oracle as oracle
import numpy as np
import pytest
from exp_family_case import MIXED
from scipy import stats
from scipy.special import expit, polygamma, psi

from sklearn_dpmix.models import (
    Beta,
    Exponential,
    Gamma,
    GammaPrior,
    GammaProductPrior,
    MeanPrecisionPrior,
    Normal,
    NormalInverseGammaPrior,
    Poisson,
    resolve_family,
)

pytestmark = pytest.mark.filterwarnings(MIXED)


def numeric_moments(family, law, bounds, outside, n_panels=4001, gains=(1.0, 0.0)):
    """Mean and covariance of gain · t(x) + offset cut at bounds, by quadrature over quantiles (or by a sum)."""
    lo, hi = bounds
    if family.is_integer:
        x = np.arange(lo, hi + 1.0)
        w, below, above = law.pmf(x), law.cdf(lo - 1), law.sf(hi)
    else:
        quantiles = np.clip(law.ppf(np.linspace(1e-12, 1 - 1e-12, n_panels)), lo, hi)
        x, w = oracle.panels(np.unique(np.append(np.linspace(lo, hi, n_panels), quantiles)), 4)
        w, below, above = w * law.pdf(x), law.cdf(lo), law.sf(hi)
    t = gains[0] * family.statistics(x) + gains[1]
    if outside == "clamp":
        ends = gains[0] * family.statistics(np.array([lo, hi])) + gains[1]
        t, w = np.vstack([t, ends]), np.append(w, [below, above])
    else:
        t, w = np.vstack([t, 0 * t[:1]]), np.append(w, below + above)
    mean = w @ t
    return mean, ((t - mean) * w[:, None]).T @ (t - mean)


RECORDS = [  # family, prior, v, the law of a record, bounds
    *((Exponential(), GammaPrior(), [np.log(r)], stats.expon(scale=1 / r), (0.5, 5.0)) for r in (0.01, 0.5, 2.0)),
    *((Gamma(2.5), GammaPrior(), [np.log(r)], stats.gamma(2.5, scale=1 / r), (0.0, 5.0)) for r in (0.05, 1.0, 9.0)),
    *((Poisson(), GammaPrior(), [np.log(r)], stats.poisson(r), (0, 10)) for r in (0.01, 3.0, 15.0)),
    *((Poisson(), GammaPrior(), [np.log(r)], stats.poisson(r), (2, 7)) for r in (0.5, 3.0, 15.0)),
    *(
        (Normal(), NormalInverseGammaPrior(), [m, 2 * np.log(s)], stats.norm(m, s), bounds)
        for m, s, bounds in [
            (0.0, 1.0, (-1.0, 2.0)), (3.0, 0.2, (-1.0, 2.9)), (1.0, 0.01, (-1.0, 2.0)), (0.0, 30.0, (-1.0, 2.0)),
            (0.3, 3e4, (-1.0, 2.0)), (2e5, 1e5, (-1.0, 2.0)), (0.1, 1.2, (-0.5, 0.6)), (4.0, 1.0, (0.0, 0.9)),
            (-4.0, 1.0, (-1.0, 2.0)), (170.0, 8.0, (120.0, 220.0)), (110.0, 20.0, (120.0, 220.0)),
        ]
    ),
    *(
        (Beta(), GammaProductPrior(), [np.log(a / b), np.log(a + b)], stats.beta(a, b), (0.05, 0.9))
        for a, b in [(1.0, 1.0), (0.3, 0.5), (5.0, 2.0), (50.0, 30.0), (0.05, 3.0)]
    ),
]  # fmt: skip


@pytest.mark.parametrize("is_scaled", [False, True])
@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("family, prior, v, law, bounds", RECORDS)
def test_moments_of_a_record(family, prior, v, law, bounds, outside, is_scaled):
    """Catches a wrong closed form, and cancellation where the spread is far below the mean."""
    k = family.n_statistics
    mean, root = np.zeros(k), np.zeros((k, k))
    gains = (np.array([0.7, 2.0])[:k], np.array([0.3, 1.2])[:k]) if is_scaled else (np.ones(k), np.zeros(k))
    value = family._lower(prior=prior, bounds=bounds, outside=outside, gains=gains)
    value.moments(np.array(v, dtype=float), mean, root)
    expected, covariance = numeric_moments(family, law, bounds, outside, gains=gains)
    np.testing.assert_allclose(mean, expected, rtol=1e-9, atol=1e-12 if is_scaled else 0.0)
    np.testing.assert_allclose(root, np.linalg.cholesky(covariance), rtol=1e-5, atol=1e-300)


def test_moments_without_bounds():
    """The derivatives of the log-partition: against quadrature over all but nothing of the mass."""
    for family, prior, v, law, bounds in [
        (Exponential(), GammaPrior(), [0.7], stats.expon(scale=np.exp(-0.7)), (0.0, 40.0)),
        (Gamma(2.5), GammaPrior(), [0.7], stats.gamma(2.5, scale=np.exp(-0.7)), (0.0, 40.0)),
        (Poisson(), GammaPrior(), [0.7], stats.poisson(np.exp(0.7)), (0, 60)),
        (Normal(), NormalInverseGammaPrior(), [3.0, 0.7], stats.norm(3.0, np.exp(0.35)), (-30.0, 30.0)),
        (Beta(), GammaProductPrior(), [0.4, 1.6], stats.beta(*np.exp(1.6) * expit([0.4, -0.4])), (1e-9, 1 - 1e-9)),
    ]:
        k = family.n_statistics
        mean, root = np.zeros(k), np.zeros((k, k))
        family._lower(prior=prior).moments(np.array(v), mean, root)
        expected, covariance = numeric_moments(family, law, bounds, "clamp")
        np.testing.assert_allclose(mean, expected, rtol=1e-6)
        np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-5)


@pytest.mark.parametrize("outside", ["clamp", "drop"])
@pytest.mark.parametrize("precision", [1e3, 1e6, 1e9])
def test_moments_of_beta_records_that_are_nearly_equal(precision, outside):
    """Bounds are far off, so that they are the derivatives of the log-partition; catches variances lost in rounding."""
    a, b = 0.4 * precision, 0.6 * precision
    mean, root = np.zeros(2), np.zeros((2, 2))
    value = Beta()._lower(prior=MeanPrecisionPrior(), bounds=(0.001, 0.999), outside=outside)
    value.moments(np.array([np.log(a / b), np.log(precision)]), mean, root)
    np.testing.assert_allclose(mean, psi([a, b]) - psi(precision), rtol=1e-11)
    covariance = np.diag(polygamma(1, [a, b])) - polygamma(1, precision)
    np.testing.assert_allclose(root @ root.T, covariance, rtol=1e-5)


@pytest.mark.parametrize("name", ["bernoulli", "poisson", "exponential", "normal", "beta", "beta, wide"])
def test_the_prior_of_free_coordinates(name):
    """Draws of the prior, as coordinates v, have the density that the compiled ``log_prior`` says: by its score."""
    family = resolve_family(name.split(",")[0])
    prior = {
        "normal": NormalInverseGammaPrior(1.0, 0.5, 3.0, 2.0),
        "beta": GammaProductPrior((2.0, 1.5), 0.7),
        "beta, wide": MeanPrecisionPrior(30.0),
    }.get(name, family.prior_class(2.0, 1.5))
    value = family._lower(prior=prior)
    v = family.to_free(prior.draw(np.random.default_rng(0), 20_000, family))
    theta = np.zeros(family.n_params)
    value.to_theta(v[0], theta)
    np.testing.assert_allclose(family.to_free(theta[None])[0], v[0])
    h = 1e-4
    for a in range(v.shape[1]):
        e = h * np.eye(v.shape[1])[a]
        score = np.array([(value.log_prior(row + e) - value.log_prior(row - e)) / (2 * h) for row in v])
        for weight in (np.ones(len(v)), np.tanh(v[:, a]), np.tanh(v[:, -1])):  # E[score w] = -E[∂w]
            slope = {True: 1.0 - weight**2, False: 0.0}[weight is not None and weight.std() > 0]
            slope = slope if a == v.shape[1] - 1 or np.array_equal(weight, np.tanh(v[:, a])) else 0.0
            sample = score * weight + slope
            assert abs(sample.mean()) < 5 * sample.std() / np.sqrt(len(v)), (name, a)
