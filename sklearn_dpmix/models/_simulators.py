"""Models of one statistic of a data set, for inference by simulation: counts, and the two sums of normal records.

Each has what ``PrivateABC`` and ``PrivateMCEM`` may need: ``sample_prior``, ``log_prior``, ``sample_statistic``,
``log_likelihood``, and in closed form ``maximise``, ``score`` and ``hessian``.
"""

import numpy as np
from scipy.special import gammaln, xlog1py, xlogy
from sklearn.base import BaseEstimator

from .._base.parameters import positive_integer
from .._base.typing import Array, Floats
from ._priors import BetaPrior, GammaPrior, NormalInverseGammaPrior, Prior


class StatisticModel(BaseEstimator):
    """Base class of the models here: a prior object and a number of records.

    A subclass sets ``prior_class`` and ``n_fewest``, the smallest number of records for which it makes sense.
    """

    prior_class: type = GammaPrior
    n_fewest = 1

    def _check(self):
        """Return (number of records, prior)."""
        n, who = self.n_records, type(self).__name__
        n = positive_integer(f"n_records of {who}", n, self.n_fewest, most=2**53)
        prior = self.prior_class() if self.prior is None else self.prior
        if not isinstance(prior, self.prior_class):
            raise ValueError(f"prior of {who} must be a {self.prior_class.__name__}, got prior={prior!r}")
        prior.check()
        return n, prior

    def sample_prior(self, rng: np.random.Generator, size: int) -> Floats:
        """Draws from the prior, (size, n_params)."""
        return self._check()[1].draw(rng, size, None)

    def log_prior(self, theta: Array) -> Floats:
        """Log prior density, (size,); -inf outside the support."""
        return self._check()[1].log_density(np.asarray(theta, dtype=np.float64))


class Count(StatisticModel):
    """Base class of sums of records with mean θ."""

    def __init__(self, n_records: int = 1, prior: Prior | None = None) -> None:
        self.n_records = n_records
        self.prior = prior

    def maximise(self, statistics: Array, weights: Array) -> Floats:
        """θ of the largest weighted log likelihood, (1,)."""
        return np.average(statistics, axis=0, weights=weights) / self._check()[0]


class PoissonCount(Count):
    """The sum of ``n_records`` Poisson(θ) counts.

    Parameters
    ----------
    n_records : int, default=1
    prior : GammaPrior, optional
        On θ; None is ``GammaPrior()``.

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    References
    ----------
    Gong (2019), Example 4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import PrivateMCEM
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.models import PoissonCount
    >>> fitted = PrivateMCEM(LaplaceMechanism(scale=5.0), model=PoissonCount(), random_state=0).fit([37.4])
    >>> bool(abs(fitted.theta_[0] - 37.237) < 0.1)
    True
    """

    def sample_statistic(self, rng: np.random.Generator, theta: Array) -> Array:
        """Sums of simulated data sets, (size, 1)."""
        return rng.poisson(self._check()[0] * theta).astype(np.float64)

    def log_likelihood(self, statistics: Array, theta: Array) -> Floats:
        """Log probability of each statistic, (size,); -inf for a negative θ."""
        s, mean = statistics[:, 0], self._check()[0] * theta[:, 0]
        with np.errstate(invalid="ignore"):
            return np.where(mean >= 0.0, xlogy(s, mean) - mean - gammaln(s + 1.0), -np.inf)

    def score(self, statistics: Array, theta: Array) -> Floats:
        """Gradients of the log likelihood, (size, 1)."""
        return statistics / theta - self._check()[0]

    def hessian(self, statistics: Array, theta: Array) -> Floats:
        """Second derivatives of the log likelihood, (size, 1, 1)."""
        return (-statistics / theta**2)[:, :, None]


class BinomialCount(Count):
    """The number of ones among ``n_records`` records that are 1 with probability θ.

    Parameters
    ----------
    n_records : int, default=1
    prior : BetaPrior, optional
        On θ; None is ``BetaPrior()``.

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import PrivateABC
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.models import BinomialCount
    >>> fitted = PrivateABC(LaplaceMechanism(scale=2.0), model=BinomialCount(100), random_state=0).fit([30.0])
    >>> bool(abs(fitted.theta_draws_.mean() - 0.3) < 0.03)
    True
    """

    prior_class = BetaPrior

    def sample_statistic(self, rng: np.random.Generator, theta: Array) -> Array:
        """Counts of simulated data sets, (size, 1)."""
        return rng.binomial(self._check()[0], theta).astype(np.float64)

    def maximise(self, statistics: Array, weights: Array) -> Floats:
        return np.minimum(super().maximise(statistics, weights), 1.0)  # which rounding may exceed

    def log_likelihood(self, statistics: Array, theta: Array) -> Floats:
        """Log probability of each statistic, (size,); -inf for θ outside [0, 1]."""
        n, s, theta = self._check()[0], statistics[:, 0], theta[:, 0]
        with np.errstate(invalid="ignore"):
            value = xlogy(s, theta) + xlog1py(n - s, -theta)
        value += gammaln(n + 1.0) - gammaln(s + 1.0) - gammaln(n - s + 1.0)
        return np.where((theta >= 0.0) & (theta <= 1.0), value, -np.inf)

    def score(self, statistics: Array, theta: Array) -> Floats:
        """Gradients of the log likelihood, (size, 1)."""
        return statistics / theta - (self._check()[0] - statistics) / (1.0 - theta)

    def hessian(self, statistics: Array, theta: Array) -> Floats:
        """Second derivatives of the log likelihood, (size, 1, 1)."""
        return (-statistics / theta**2 - (self._check()[0] - statistics) / (1.0 - theta) ** 2)[:, :, None]


class NormalMoments(StatisticModel):
    """The sums (Σx, Σx²) of ``n_records`` normal records; θ is (mean, variance).

    Parameters
    ----------
    n_records : int, default=2
        At least 2.
    prior : NormalInverseGammaPrior, optional
        None is ``NormalInverseGammaPrior()``.

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    Notes
    -----
    Σx ~ N(nμ, nσ²), and Σx² - (Σx)²/n, independent of it, is σ² times a chi-square with n - 1 degrees of freedom.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import PrivateABC
    >>> from sklearn_dpmix.mechanisms import GaussianMechanism
    >>> from sklearn_dpmix.models import NormalInverseGammaPrior, NormalMoments
    >>> model = NormalMoments(50, NormalInverseGammaPrior(mean_precision=0.1, shape=2.0, scale=4.0))
    >>> fitted = PrivateABC(GaussianMechanism(scale=5.0), model=model, method="smc", random_state=0).fit([100.0, 300.0])
    >>> fitted.theta_draws_.shape
    (1000, 2)
    """

    prior_class = NormalInverseGammaPrior
    n_fewest = 2

    def __init__(self, n_records: int = 2, prior: Prior | None = None) -> None:
        self.n_records = n_records
        self.prior = prior

    def sample_statistic(self, rng: np.random.Generator, theta: Array) -> Array:
        """Sums of simulated data sets, (size, 2)."""
        n = self._check()[0]
        total = n * theta[:, 0] + np.sqrt(n * theta[:, 1]) * rng.standard_normal(len(theta))
        return np.column_stack([total, total**2 / n + theta[:, 1] * rng.chisquare(n - 1, len(theta))])

    def log_likelihood(self, statistics: Array, theta: Array) -> Floats:
        """Log density of each pair of sums, (size,); -inf for a variance that is not positive."""
        n, (mean, variance) = self._check()[0], theta.T
        total, half = statistics[:, 0], 0.5 * (n - 1)
        squares = statistics[:, 1] - total**2 / n
        with np.errstate(divide="ignore", invalid="ignore"):
            value = -0.5 * np.log(2.0 * np.pi * n * variance) - 0.5 * (total - n * mean) ** 2 / (n * variance)
            value += (half - 1.0) * np.log(squares) - half * np.log(2.0 * variance) - gammaln(half)
            value -= 0.5 * squares / variance
        return np.where(variance > 0.0, value, -np.inf)

    def maximise(self, statistics: Array, weights: Array) -> Floats:
        """θ of the largest weighted log likelihood, (2,)."""
        first, second = np.average(statistics, axis=0, weights=weights) / self._check()[0]
        return np.array([first, second - first**2])

    def score(self, statistics: Array, theta: Array) -> Floats:
        """Gradients of the log likelihood, (size, 2)."""
        n, variance = self._check()[0], theta[:, 1]
        residual, squares = self._centred(statistics, theta)
        return np.column_stack([residual / variance, 0.5 * squares / variance**2 - 0.5 * n / variance])

    def hessian(self, statistics: Array, theta: Array) -> Floats:
        """Second derivatives of the log likelihood, (size, 2, 2)."""
        n, (mean, variance) = self._check()[0], theta.T
        residual, squares = self._centred(statistics, theta)
        mixed = -residual / variance**2
        of_variance = 0.5 * n / variance**2 - squares / variance**3
        return np.stack(
            [np.stack([-n / variance + 0.0 * mean, mixed], -1), np.stack([mixed, of_variance], -1)], axis=-2
        )

    def _centred(self, statistics, theta):
        """Σ(x - μ) and Σ(x - μ)²."""
        n, mean = self._check()[0], theta[:, 0]
        residual = statistics[:, 0] - n * mean
        return residual, statistics[:, 1] - 2.0 * mean * statistics[:, 0] + n * mean**2
