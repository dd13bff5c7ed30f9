"""Priors of scales that are far wider than conjugate ones, for inference where noise hides how small a scale is.

A conjugate prior counts for records, and one record at distance h from the rest has density exp(-h²/s²) or exp(-h/s) as
a function of the scale s.  This is negligible next to records that are seen.  It is not negligible next to a noisy sum
of them: where the noise cannot tell s = h/100 from h/30, such a prior can, by hundreds in the exponent.  The priors
here fall as powers at either end.

Each is a mixture of conjugate priors, with which imputed records update parameters.
"""

from typing import Any

import numpy as np
from scipy.special import gammaln, logsumexp, softmax

from .._base.typing import Array, Floats
from ._priors import LARGEST_BETA, SMALLEST_DRAW, Prior


class NormalCauchyPrior(Prior):
    """Prior on a normal's mean and variance: the mean is Cauchy, the standard deviation half-Cauchy, independent.

    Parameters
    ----------
    mean : float, default=0.0
        Median of the mean.
    spread : float, default=1.0
        Half of the prior is on means that are less than this away from ``mean``.
    deviation : float, default=1.0
        Median of the standard deviation.

    Raises
    ------
    ValueError
        On use, for a parameter that is not positive (``mean``: not finite), and by an estimator that has neither noise
        nor bounds, where the prior must be conjugate.

    Examples
    --------
    >>> from sklearn_dpmix.models import NormalCauchyPrior
    >>> NormalCauchyPrior(mean=170.0, spread=20.0, deviation=10.0).spread
    20.0
    """

    def __init__(self, mean: float = 0.0, spread: float = 1.0, deviation: float = 1.0) -> None:
        self.mean = mean
        self.spread = spread
        self.deviation = deviation

    def check(self) -> None:
        self._positive("spread", "deviation")
        self._check_mean()

    def fields(self, family: Any) -> Any:
        deviation, spread = float(self.deviation), float(self.spread)
        return {
            "mean": float(self.mean), "mean_precision": 0.0, "shape": 0.5, "scale": deviation**2, "spread": spread
        }  # fmt: skip

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        mean = self.mean + self.spread * rng.standard_cauchy(size)
        return np.column_stack([mean, np.maximum((self.deviation * rng.standard_cauchy(size)) ** 2, SMALLEST_DRAW)])

    def log_density(self, theta: Array) -> Floats:
        mean, variance = theta.T
        inside = np.where(variance > 0.0, variance, 1.0)
        value = -np.log1p(((mean - self.mean) / self.spread) ** 2) - np.log(np.pi * self.spread)
        value -= np.log1p(inside / self.deviation**2) + 0.5 * np.log(inside) + np.log(np.pi * self.deviation)
        return np.where(variance > 0.0, value, -np.inf)


class LogLogisticPrior(Prior):
    """Log-logistic prior on a rate θ: density scale/(scale + θ)², so log θ is logistic about log(scale).

    Parameters
    ----------
    scale : float, default=1.0
        Median of the rate.

    Raises
    ------
    ValueError
        On use, for a scale that is not positive, and by an estimator that has neither noise nor bounds, where the prior
        must be conjugate.

    Examples
    --------
    >>> from sklearn_dpmix.models import LogLogisticPrior
    >>> LogLogisticPrior(scale=0.2)
    LogLogisticPrior(scale=0.2)
    """

    def __init__(self, scale: float = 1.0) -> None:
        self.scale = scale

    def check(self) -> None:
        self._positive("scale")

    def fields(self, family: Any) -> Any:
        return {"shape": 1.0, "rate": float(self.scale), "wide": 1.0}

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        return np.maximum(self.scale * np.exp(rng.logistic(size=(size, 1))), SMALLEST_DRAW)

    def log_density(self, theta: Array) -> Floats:
        rate = theta[:, 0]
        inside = np.where(rate > 0.0, rate, 1.0)
        return np.where(rate > 0.0, np.log(self.scale) - 2.0 * np.log(self.scale + inside), -np.inf)


class MeanPrecisionPrior(Prior):
    """Prior on a beta distribution's mean a/(a + b), which is uniform, and its precision a + b, independent.

    1/√(a + b), about the standard deviation of records whose mean is 1/2, times two, is half-Cauchy.

    Parameters
    ----------
    precision : float, default=10.0
        Median of the precision: 90 % of the prior is between 0.0062 and 161 times that.  At most 10⁸; a precision
        beyond 10⁹, where densities of beta distributions are lost in rounding, has no prior probability.

    Raises
    ------
    ValueError
        On use, for a precision that is not positive, or too large.

    Notes
    -----
    If noise hides how narrow the records are, a and b may be very large under the posterior, too, and their posterior
    means say little.  Report the mean a/(a + b), the standard deviation, or quantiles of a and b.

    Examples
    --------
    >>> from sklearn_dpmix.models import MeanPrecisionPrior
    >>> MeanPrecisionPrior(precision=50.0)
    MeanPrecisionPrior(precision=50.0)
    """

    def __init__(self, precision: float = 10.0) -> None:
        self.precision = precision

    def check(self) -> None:
        self._positive("precision")
        if not self.precision <= 0.1 * LARGEST_BETA:
            raise ValueError(
                f"precision of MeanPrecisionPrior must be at most {0.1 * LARGEST_BETA:g}: beyond, the densities of "
                f"beta distributions are lost in rounding; got precision={self.precision!r}"
            )

    def fields(self, family: Any) -> Any:
        return {"shape": np.ones(2), "rate": np.zeros(2), "precision": float(self.precision)}

    def _left_out(self):
        """What the half-Cauchy distribution has beyond the largest precision."""
        return 2.0 / np.pi * np.arctan(np.sqrt(float(self.precision) / LARGEST_BETA))

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        least = self._left_out()
        root = np.tan(0.5 * np.pi * (least + (1.0 - least) * rng.random(size)))
        mean, both = rng.random(size), np.minimum(float(self.precision) / root**2, LARGEST_BETA)
        return np.maximum(np.column_stack([mean * both, (1.0 - mean) * both]), SMALLEST_DRAW)

    def log_density(self, theta: Array) -> Floats:
        both = theta.sum(axis=1)
        inside = np.all(theta > 0.0, axis=1) & (both <= LARGEST_BETA)
        both = np.where(inside, both, 1.0)
        precision = float(self.precision)
        value = 0.5 * np.log(precision) - np.log(np.pi * (1.0 - self._left_out()))
        return np.where(inside, value - 1.5 * np.log(both) - np.log(precision + both), -np.inf)


class WideDirichletPrior(Prior):
    """Prior on the probabilities of categories: Dirichlet(α, ..., α), with one α that is unknown and log-logistic.

    Parameters
    ----------
    alpha : float, default=1.0
        Median of α: 90 % of the prior is between 1/19 and 19 times that.

    Raises
    ------
    ValueError
        On use, for a value that is not positive, and by an estimator that knows the counts or takes them to be normal,
        where the prior must be conjugate.

    Notes
    -----
    If α is large, all categories are about equally frequent; if it is small, most are rare.  A prior with a fixed α
    counts for α records in each category.  Where there are many categories, and noise hides which of them are rare,
    these are many records, and the rare categories together come out far too frequent.

    Examples
    --------
    >>> from sklearn_dpmix.models import WideDirichletPrior
    >>> WideDirichletPrior(alpha=0.5)
    WideDirichletPrior(alpha=0.5)
    """

    def __init__(self, alpha: float = 1.0) -> None:
        self.alpha = alpha

    def check(self) -> None:
        self._positive("alpha")

    def fields(self, family: Any) -> Any:
        alpha = np.full(family.n_params, float(self.alpha))
        return {"alpha": alpha, "alpha_total": float(alpha.sum()), "median_alpha": float(self.alpha)}

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        log_alpha = np.log(self.alpha) + rng.logistic(size=size)
        # in logarithms, since gamma variates of a small shape underflow: G(a) = G(a + 1) U^(1/a)
        log_gamma = np.log(rng.standard_gamma(np.exp(log_alpha)[:, None] + 1.0, (size, family.n_params)))
        log_gamma -= rng.standard_exponential(log_gamma.shape) * np.exp(-log_alpha)[:, None]
        return softmax(log_gamma, axis=1)

    def log_density(self, theta: Array) -> Floats:
        # α is summed over on a grid of its logarithm, on which the logistic density leaves out 10⁻¹³
        v = np.linspace(-30.0, 30.0, 1201)
        alpha, size = self.alpha * np.exp(v)[:, None], theta.shape[1]
        log_constant = gammaln(size * alpha) - size * gammaln(alpha) + (v - 2.0 * np.log1p(np.exp(v)))[:, None]
        with np.errstate(divide="ignore"):
            logs = np.log(np.where(theta > 0.0, theta, 0.0)).sum(axis=1)
        inside = np.all(theta > 0.0, axis=1) & (np.abs(theta.sum(axis=1) - 1.0) < 1e-6)
        logs = np.where(inside, logs, 0.0)
        terms = log_constant + (alpha - 1.0) * logs
        return np.where(inside, logsumexp(terms, axis=0) + np.log(v[1] - v[0]), -np.inf)
