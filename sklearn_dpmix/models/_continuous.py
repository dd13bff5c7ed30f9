"""Exponential families of numbers on the line, by their sufficient statistic t(x) (Bernstein & Sheldon 2018, §2)."""

from math import copysign, exp, hypot, inf, log, sqrt
from typing import Any

import numpy as np
from scipy.special import betaln, gammaln, xlog1py, xlogy
from sklearn.base import clone

from .._base.compiled import compiled
from .._base.parameters import is_real
from .._base.typing import Array, Floats
from ._beta_updates import log_shapes, update_shapes
from ._exponential_family import Family, Identity, LargestAtTheEnds
from ._moments import beta_moments, gamma_moments, normal_moments
from ._prior_updates import log_normal_prior, log_rate_prior, log_shapes_prior
from ._priors import GammaPrior, GammaProductPrior, NormalInverseGammaPrior
from ._wide_priors import LogLogisticPrior, MeanPrecisionPrior, NormalCauchyPrior

ROUNDED = 1e-13  # share of a sum of squares that is little more than its rounding error


class GammaRecords(Identity):
    """Gamma(known_shape, rate θ) records: the common part of the exponential and the gamma family."""

    support = (0.0, inf)
    prior_class = GammaPrior
    wide_prior_class = LogLogisticPrior
    param_names = ("rate",)
    exact_law = "gamma"
    known_shape = 1.0

    def _numbers(self):
        return {"known_shape": float(self.known_shape)}

    def default_prior(self, bounds: tuple[float, float] | None) -> GammaPrior | None:
        """Under bounds (lo, hi) the mean of a record is hi/10 over a standard exponential variate.

        So a priori it is between hi/20 and hi with probability 0.77, and above hi with 0.1.
        """
        return None if bounds is None else GammaPrior(shape=1.0, rate=0.1 * bounds[1] / self.known_shape)

    def wide_prior(self, bounds: tuple[float, float]) -> LogLogisticPrior:
        """The mean of a record has median 15 % of the upper bound hi; 90 % of the prior is from 0.8 % to 285 %."""
        return LogLogisticPrior(self.known_shape / (0.15 * bounds[1]))

    def bounds_of(self, statistic: Array, n_records: int) -> tuple[float, float]:
        """From 0 to ten times the mean: the posterior mean of the rate is then known_shape over the records' mean."""
        return 0.0, 10.0 * float(statistic[0]) / n_records

    def prior_in_units(self, prior: Any, centre: float, unit: float) -> Any:
        if isinstance(prior, LogLogisticPrior):
            return clone(prior).set_params(scale=prior.scale * unit)
        return clone(prior).set_params(rate=prior.rate / unit)

    def theta_from_units(self, theta: Array, centre: float, unit: float) -> Array:
        return theta / unit

    def is_statistic(self, s: Array, n: float, slack: Array) -> bool:
        return bool(s[0] > 0.0)

    def nearest_statistic(self, s: Array, n: float) -> Any:
        return np.where(s > 0.0, s, 1e-6 * np.abs(s))  # of no unit

    def log_density(self, x: Array, theta: Array) -> Floats:
        k, rate = self.known_shape, theta[:, :1]
        inside = (x >= 0)[None, :]
        x = np.where(inside, x, 1.0)
        with np.errstate(divide="ignore"):
            return np.where(inside, xlogy(k, rate) + xlogy(k - 1.0, x) - rate * x - gammaln(k), -inf)

    def possible(self, theta: Array) -> Any:
        return theta[:, 0] >= 0  # exp(log θ) may be 0 in floating point

    def mean(self, theta: Array) -> Array:
        return self.known_shape / theta[:, 0]

    def draw(self, rng: np.random.Generator, theta: Array) -> Array:
        return rng.gamma(self.known_shape, 1.0 / theta[:, 0])

    @compiled
    def to_theta(self, v, theta):
        theta[0] = exp(v[0])

    @compiled
    def log_prior(self, v):
        """Log prior density of log θ."""
        return log_rate_prior(self, v[0])

    @compiled
    def moments(self, v, mean, root):
        rate = exp(v[0])
        gamma_moments(self.known_shape, rate, self.lo, self.hi, self.outside, self.gain, self.offset, mean, root)


class Exponential(GammaRecords):
    """Exponential records, at least 0, t(x) = x.  θ is the rate, its prior a :class:`GammaPrior`.

    Examples
    --------
    >>> from sklearn_dpmix.models import Exponential
    >>> Exponential().radius(0.5, 10, norm=1)
    10.0
    """

    names = ("exponential",)


class Gamma(GammaRecords):
    """Gamma records of known shape and unknown rate θ, t(x) = x; the rate's prior is a :class:`GammaPrior`.

    Parameters
    ----------
    shape : float, default=1.0
        The known shape, positive; 1 is the exponential family.

    Raises
    ------
    ValueError
        On use, for a shape that is not positive.

    Examples
    --------
    >>> from sklearn_dpmix.models import Gamma
    >>> Gamma(shape=2.0).diameter(0, 10, norm=2)
    10.0
    """

    names = ("gamma",)

    def __init__(self, shape: float | None = 1.0) -> None:
        self.shape = shape

    @property
    def known_shape(self) -> Any:  # type: ignore[override]
        return self.shape

    def check(self) -> None:
        shape = self.shape
        if not (is_real(shape) and 0 < shape < inf):
            raise ValueError(f"shape must be a positive finite number, got shape={shape!r}")


class Normal(Family):
    """Normal records with both parameters unknown, t(x) = (x, x²).

    θ is (mean, variance), under a :class:`NormalInverseGammaPrior`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import Normal
    >>> Normal().statistics(np.array([1.0, -3.0]))
    array([[ 1.,  1.],
           [-3.,  9.]])
    >>> Normal().diameter(-1, 1, norm=1)  # 1 and -1/2, not the two ends
    2.25
    """

    names = ("normal",)
    n_params = 2
    n_statistics = 2
    n_free = 2
    labels = ("x", "x^2")
    prior_class = NormalInverseGammaPrior
    wide_prior_class = NormalCauchyPrior
    param_names = ("mean", "variance")

    def default_prior(self, bounds: tuple[float, float] | None) -> NormalInverseGammaPrior | None:
        """Under bounds with centre c and half width h: μ is Cauchy(c, h), and σ = (h/10)/abs(Z) with Z standard normal.

        So half of the prior is on means within the bounds, and 4/5 on populations whose middle 95 % (four σ) fill
        between a tenth and all of them.  It counts for one record in the variance, and for 1/100 in the mean."""
        if bounds is None:
            return None
        lo, hi = bounds
        h = 0.5 * hi - 0.5 * lo
        return NormalInverseGammaPrior(mean=0.5 * lo + 0.5 * hi, mean_precision=0.01, shape=0.5, scale=h * h / 200.0)

    def wide_prior(self, bounds: tuple[float, float]) -> NormalCauchyPrior:
        """With centre c and half width h: μ is Cauchy(c, h), as by default; σ is half-Cauchy with median 0.15 h."""
        lo, hi = bounds
        h = 0.5 * hi - 0.5 * lo
        return NormalCauchyPrior(mean=0.5 * lo + 0.5 * hi, spread=h, deviation=0.15 * h)

    def bounds_of(self, statistic: Array, n_records: int) -> tuple[float, float]:
        """The mean plus or minus two standard deviations; for records that are all equal, plus or minus their size."""
        centre = float(statistic[0]) / n_records
        half = 2.0 * sqrt(max(float(statistic[1]) / n_records - centre * centre, 0.0))
        if not half > 1e-7 * abs(centre):  # below this, what the two sums leave is only rounding
            half = abs(centre) or 1.0
        return centre - half, centre + half

    def prior_in_units(self, prior: Any, centre: float, unit: float) -> Any:
        mean = (prior.mean - centre) / unit
        if isinstance(prior, NormalCauchyPrior):
            return clone(prior).set_params(mean=mean, spread=prior.spread / unit, deviation=prior.deviation / unit)
        return clone(prior).set_params(mean=mean, scale=prior.scale / unit / unit)

    def theta_from_units(self, theta: Array, centre: float, unit: float) -> Array:
        return theta * np.array([unit, unit * unit]) + np.array([centre, 0.0])

    def statistics(self, x: Array) -> Array:
        return np.column_stack([x, x * x]).astype(np.float64)

    def is_statistic(self, s: Array, n: float, slack: Array) -> bool:
        return bool(s[1] >= 0.0 and (not n or s[1] >= s[0] ** 2 / n - slack[1]))

    def is_lost_to_rounding(self, s: Array, n: float) -> bool:
        return bool(n > 1 and s[1] - s[0] ** 2 / n < ROUNDED * s[1])

    def nearest_statistic(self, s: Array, n: float) -> Any:
        return np.array([s[0], max(s[1], s[0] ** 2 / n)])

    def log_density(self, x: Array, theta: Array) -> Floats:
        mean, variance = theta[:, :1], theta[:, 1:]
        return -0.5 * (np.log(2.0 * np.pi * variance) + (x - mean) ** 2 / variance)

    def possible(self, theta: Array) -> Any:
        return theta[:, 1] >= 0

    def mean(self, theta: Array) -> Array:
        return theta[:, 0]

    def draw(self, rng: np.random.Generator, theta: Array) -> Array:
        return rng.normal(theta[:, 0], np.sqrt(theta[:, 1]))

    def to_free(self, theta: Array) -> Array:
        return np.column_stack([theta[:, 0], np.log(np.maximum(theta[:, 1], 1e-100))])

    @compiled
    def to_theta(self, v, theta):
        theta[0], theta[1] = v[0], exp(v[1])

    @compiled
    def log_prior(self, v):
        """Log prior density of (μ, log σ²)."""
        return log_normal_prior(self, v[0], v[1])

    @compiled
    def moments(self, v, mean, root):
        normal_moments(v[0], exp(v[1]), self.lo, self.hi, self.outside, self.gain, self.offset, mean, root)

    def diameter(self, lo: Any, hi: Any, norm: int) -> Any:
        """The distance between a bound b and another record x, at a bound or where the derivative in x is 0.

        ‖t(b) - t(x)‖ is abs(b - x) (1 + abs(b + x)) in L1 and abs(b - x) √(1 + (b + x)²) in L2.  With b + x fixed it
        grows with abs(b - x), so one record of a furthest pair is a bound.  L1: it is the larger of abs(g(b) - g(x))
        for g(x) = x² + x and for g(x) = x² - x, which turn at x = ∓1/2.  L2: the derivative of (b - x)² (1 + (b + x)²)
        in x is -2 (b - x) (2x² + 2bx + 1).
        """

        def distance(b, x):
            return abs(b - x) * (1.0 + abs(b + x) if norm == 1 else hypot(1.0, b + x))

        lo, hi = float(lo), float(hi)
        found = distance(lo, hi)
        for b in (lo, hi):
            turns = (-0.5, 0.5)
            if norm == 2:
                root = -0.5 * (b + copysign(sqrt(b * b - 2.0), b)) if b * b > 2.0 else None
                turns = () if root is None else (root, 0.5 / root)
            found = max(found, *(distance(b, min(max(x, lo), hi)) for x in turns), 0.0)
        return found

    def radius(self, lo: Any, hi: Any, norm: int) -> Any:
        """The norm at the record of largest magnitude."""
        x = max(abs(float(lo)), abs(float(hi)))
        return x * (1.0 + x if norm == 1 else hypot(1.0, x))


class Beta(LargestAtTheEnds):
    """Beta(a, b) records, strictly between 0 and 1, t(x) = (log x, log(1 - x)).

    θ is (a, b), under a :class:`MeanPrecisionPrior` or a :class:`GammaProductPrior`.

    Both logarithms are monotone, so in any norm the bounds are furthest apart.  abs(t₁) + abs(t₂) = -log x(1 - x) and
    t₁² + t₂² are convex in x, because (log² x)'' = 2 (1 - log x)/x² > 0, so they are largest at a bound.

    Examples
    --------
    >>> from sklearn_dpmix.models import Beta
    >>> round(Beta().diameter(0.1, 0.9, norm=1), 6)  # 2 logit(0.9)
    4.394449
    """

    names = ("beta",)
    n_params = 2
    n_statistics = 2
    n_free = 2
    labels = ("log(x)", "log(1-x)")
    support = (0.0, 1.0)
    prior_class = GammaProductPrior
    wide_prior_class = MeanPrecisionPrior
    needs_conjugate_prior = False
    param_names = ("a", "b")

    def default_prior(self, bounds: tuple[float, float] | None) -> MeanPrecisionPrior:
        """The mean is uniform, and a + b has median 10; 90 % of the prior on it from 0.06 to 1600."""
        return MeanPrecisionPrior()

    def statistics(self, x: Array) -> Array:
        with np.errstate(divide="ignore"):
            return np.column_stack([np.log(x), np.log1p(-x)])

    def is_statistic(self, s: Array, n: float, slack: Array) -> bool:
        """exp(E log x) + exp(E log(1 - x)) is at most 1."""
        return not n or bool(np.exp(s / n).sum() <= 1.0 + 1e-9)

    def nearest_statistic(self, s: Array, n: float) -> Any:
        mean = s / n
        if np.all(mean < 0.0) and np.exp(mean).sum() < 1.0:
            return s
        mean = np.minimum(mean, -1e-3)
        return n * (mean - max(log(np.exp(mean).sum() / 0.999), 0.0))

    def log_density(self, x: Array, theta: Array) -> Floats:
        inside = ((x > 0) & (x < 1))[None, :]
        x, a, b = np.where(inside, x, 0.5), theta[:, :1], theta[:, 1:]
        return np.where(inside, xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - betaln(a, b), -inf)

    def possible(self, theta: Array) -> Any:
        return np.all(theta >= 0, axis=1)

    def mean(self, theta: Array) -> Array:
        return theta[:, 0] / theta.sum(axis=1)

    def draw(self, rng: np.random.Generator, theta: Array) -> Array:
        return rng.beta(theta[:, 0], theta[:, 1])

    def to_free(self, theta: Array) -> Array:
        theta = np.maximum(theta, 1e-100)
        return np.column_stack([np.log(theta[:, 0]) - np.log(theta[:, 1]), np.log(theta.sum(axis=1))])

    @compiled
    def to_theta(self, v, theta):
        log_a, log_b = log_shapes(v[0], v[1])
        theta[0], theta[1] = exp(log_a), exp(log_b)

    @compiled
    def log_prior(self, v):
        """Log prior density of logit(a/(a+b)) and log(a+b): that of (log a, log b), as the volume is the same."""
        log_a, log_b = log_shapes(v[0], v[1])
        return log_shapes_prior(self, log_a, log_b)

    @compiled
    def update_theta(self, rng, theta, sums, n):
        update_shapes(rng, self, theta, sums, n)

    @compiled
    def moments(self, v, mean, root):
        log_a, log_b = log_shapes(v[0], v[1])
        beta_moments(exp(log_a), exp(log_b), self.lo, self.hi, self.outside, self.gain, self.offset, mean, root)
