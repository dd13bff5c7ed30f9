"""Normal kernel with a normal-inverse-gamma base measure, a product over features (Beraha et al., §4.1)."""

from copy import copy
from math import erfc, exp, inf, lgamma, log, pi, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled, helper, lower
from .._base.numeric import (
    HALF_LOG_2PI,
    INV_SQRT_2PI,
    draw_gamma,
    draw_truncated_normal,
    log_interval_ratio,
    log_ndtr_interval,
)
from .._base.restore import require
from .._base.typing import Array
from ._kernel import Kernel, per_feature

FAR = 20.0  # standard deviations from a tilt's peak, beyond which log_interval_ratio is accurate
NARROW = 1e-6  # standard deviations: the difference of such ends has some ten digits


class NormalKernel(Kernel):
    r"""Normal records, N(y | μ, σ²), with base measure N(μ | mean, σ²/mean_precision) · IG(σ² | shape, scale).

    With several features the kernel is a product: each feature has its own μ and σ² and its own base measure.

    Parameters
    ----------
    mean : float or array of shape (n_features,), optional
        Centre of the cluster means.  None: m, the mean of the release; if the mechanism has bounds, the mean of N(m,
        s²) truncated to the bounds, with s the standard error of m.  If noise hides m, this is near the centre of the
        bounds.
    mean_precision : float or array of shape (n_features,), default=0.1
        λ: a cluster mean has prior variance σ²/λ.  Positive.
    shape : float or array of shape (n_features,), default=3.0
        Shape of the inverse gamma on σ².  Positive.
    scale : float or array of shape (n_features,), optional
        Scale of the inverse gamma on σ², in squared units of the records.  None: such that a record drawn from the
        prior has v, the variance of the release minus that of the noise: scale = v·(shape-1)/(1+1/mean_precision).  One
        standard error of the noise's sample variance is added to v, so that the prior is wide if the noise hides how
        wide the records are; v is kept below (range/2)² of the bounds, if there are any, and above a thousandth of the
        release's own variance.  Without bounds, records farther than fifteen interquartile ranges beyond the quartiles,
        or than three times the range of the middle 98 % beyond it (of fewer than 100: of all but the lowest and the
        highest), are moved to the nearer of the two (from ten records on).  The default uses the data twice, once for
        the prior (empirical Bayes).  The two parameters that are set in this way vary by O(n^-1/2), which matters for
        few records or much noise.  Pass numbers for a prior of your own.  ``scale=None`` needs ``shape > 1``.

    References
    ----------
    Beraha, Favaro, Rao, "MCMC for Bayesian nonparametric mixture modeling under differential privacy", §4.1
    (mean 0, mean_precision 0.1, shape 3, scale 3).

    Examples
    --------
    >>> from sklearn_dpmix.kernels import NormalKernel
    >>> NormalKernel(mean=0.0, mean_precision=0.1, shape=3.0, scale=3.0)
    NormalKernel(mean=0.0, scale=3.0)
    """

    tilts = frozenset({"flat", "linear", "quadratic", "mean"})
    noised_as = "normal"
    _N_PARAMS = 4  # a feature: μ, σ, 1/σ, log σ
    _PER_FEATURE = "mean", "mean_precision", "shape", "scale"

    def __init__(
        self,
        mean: ArrayLike | None = None,
        mean_precision: ArrayLike = 0.1,
        shape: ArrayLike = 3.0,
        scale: ArrayLike | None = None,
    ) -> None:
        self.mean = mean  # type: ignore[assignment, method-assign]
        self.mean_precision = mean_precision
        self.shape = shape
        self.scale = scale

    def sizes(self, n_features: int) -> tuple[int, int]:
        return self._N_PARAMS * n_features, 2 * n_features

    def resolve(self, release: Any) -> Self:
        if self.mean is not None and self.scale is not None:
            return self
        centre, variance = release.typical_moments()
        shape = per_feature("shape", self.shape, len(centre), 0.0)
        precision = per_feature("mean_precision", self.mean_precision, len(centre), 0.0)
        if self.scale is None and np.any(shape <= 1):
            raise ValueError(f"shape must be greater than 1 when scale is None, got {self.shape!r}: pass scale too")
        return type(self)(
            mean=centre if self.mean is None else self.mean,  # type: ignore[arg-type]
            mean_precision=self.mean_precision,
            shape=self.shape,
            scale=self._default_scale(variance, shape, precision, release) if self.scale is None else self.scale,
        )

    def _default_scale(self, variance, shape, precision, release):
        return variance * (shape - 1.0) / (1.0 + 1.0 / precision)

    def _hyperparameters(self, n_features):
        return {
            "n_features": n_features,
            "prior_mean": per_feature("mean", self.mean, n_features),
            "precision": per_feature("mean_precision", self.mean_precision, n_features, 0.0),
            "prior_shape": per_feature("shape", self.shape, n_features, 0.0),
            "prior_scale": per_feature("scale", self.scale, n_features, 0.0),
        }

    def margin(self, j: int, n_features: int) -> tuple["NormalKernel", slice]:
        if not self.is_product:
            return super().margin(j, n_features)  # type: ignore[return-value]
        alone = copy(self)
        for name in self._PER_FEATURE:
            setattr(alone, name, per_feature(name, getattr(self, name), n_features)[j].item())
        return alone, slice(self._N_PARAMS * j, self._N_PARAMS * (j + 1))

    def _lower(self, *, n_features, **context):
        return lower(type(self), self._hyperparameters(n_features))

    # --- base measure and conjugate update; sums are of y - mean, so that no offset spoils them ----------------------

    @compiled
    def add(self, stats, k, j, y, sign):
        u = y - self.prior_mean[j]
        stats[k, 2 * j] += sign * u
        stats[k, 2 * j + 1] += sign * u * u

    @compiled
    def posterior(self, stats, k, j, n):
        """(λ_n, μ_n - mean, a_n, b_n) of the normal-inverse-gamma distribution given n records."""
        precision = self.precision[j] + n
        shift = stats[k, 2 * j] / precision
        excess = stats[k, 2 * j + 1] - precision * shift * shift
        return precision, shift, self.prior_shape[j] + 0.5 * n, self.prior_scale[j] + 0.5 * max(excess, 0.0)

    @compiled
    def draw_sd(self, rng, shape, scale):
        """σ, with σ² from IG(shape, scale)."""
        return sqrt(scale / draw_gamma(rng, shape))

    @compiled
    def update_params(self, rng, theta, k, stats, n):
        for j in range(self.n_features):
            precision, shift, shape, scale = self.posterior(stats, k, j, n)
            sd = self.draw_sd(rng, shape, scale)
            self.put_params(theta, k, j, self.prior_mean[j] + shift + sd / sqrt(precision) * rng.standard_normal(), sd)

    @compiled
    def draw_prior(self, rng, theta, k):
        for j in range(self.n_features):
            sd = self.draw_sd(rng, self.prior_shape[j], self.prior_scale[j])
            mean = self.prior_mean[j] + sd / sqrt(self.precision[j]) * rng.standard_normal()
            self.put_params(theta, k, j, mean, sd)

    #: smallest log mass inside the bounds, which is added to log σ in the fourth column
    least_log_mass = 0.0

    def check_state(self, theta: Array, records: Array) -> None:
        for j in range(records.shape[2]):
            sd, inverse = theta[:, 4 * j + 1], theta[:, 4 * j + 2]
            require(sd > 0, "theta", "has a standard deviation that is not positive")
            log_mass = theta[:, 4 * j + 3] - np.log(sd)
            is_same = (np.abs(sd * inverse - 1.0) < 1e-6) & (log_mass > self.least_log_mass - 1e-6) & (log_mass < 1e-6)
            require(is_same, "theta", "has inconsistent columns")

    @compiled
    def put_params(self, theta, k, j, mean, sd):
        theta[k, 4 * j] = mean
        theta[k, 4 * j + 1] = sd
        theta[k, 4 * j + 2] = 1.0 / sd
        theta[k, 4 * j + 3] = log(sd)

    @compiled
    def log_predictive(self, stats, k, n, j, y):
        """log p(y | the n records in ``stats[k]``): a Student t."""
        precision, shift, shape, scale = self.posterior(stats, k, j, n)
        spread = scale * (precision + 1.0) / precision
        return log_student(y - self.prior_mean[j] - shift, shape, spread)

    @compiled
    def has_base_predictive(self):
        return True

    @compiled
    def log_base_predictive(self, j, y):
        shape = self.prior_shape[j]
        spread = self.prior_scale[j] * (1.0 + 1.0 / self.precision[j])
        return log_student(y - self.prior_mean[j], shape, spread)

    # --- the record given θ ----------------------------------------------------------------------------------------

    @compiled
    def log_likelihood(self, theta, k, j, y):
        e = (y - theta[k, 4 * j]) * theta[k, 4 * j + 2]
        return -0.5 * e * e - theta[k, 4 * j + 3] - HALF_LOG_2PI

    @compiled
    def peak(self, theta, k, j):
        """Largest density of feature j in cluster k."""
        return theta[k, 4 * j + 2] * INV_SQRT_2PI

    @compiled
    def log_relative(self, theta, k, j, y):
        """Log likelihood relative to :meth:`peak`: at most 0."""
        e = (y - theta[k, 4 * j]) * theta[k, 4 * j + 2]
        return -0.5 * e * e

    @compiled
    def draw(self, rng, theta, k, j):
        return theta[k, 4 * j] + theta[k, 4 * j + 1] * rng.standard_normal()

    @compiled
    def cdf(self, theta, k, j, y):
        return 0.5 * erfc(-(y - theta[k, 4 * j]) * theta[k, 4 * j + 2] / sqrt(2.0))

    @compiled
    def mean(self, theta, k, j):
        return theta[k, 4 * j]

    @compiled
    def variance(self, theta, k, j):
        return theta[k, 4 * j + 1] ** 2

    @compiled
    def clamped_mean(self, theta, k, j, lo, hi):
        """Mean of the record moved to [lo, hi]: lo + E(y - lo)₊ - E(y - hi)₊."""
        mean, sd = theta[k, 4 * j], theta[k, 4 * j + 1]
        return lo + sd * (mean_above((lo - mean) / sd) - mean_above((hi - mean) / sd))

    @compiled
    def clamped_variance(self, theta, k, j, lo, hi):
        """Variance of the record moved to [lo, hi]: of e - (e - b)₊ + (-a - e)₊ for standard normal e, times σ²."""
        mean, sd = theta[k, 4 * j], theta[k, 4 * j + 1]
        a, b = (mean - lo) / sd, (hi - mean) / sd
        away = mean_above(a) - mean_above(b)
        return sd * sd * max(0.0, 1.0 + square_beyond(a) + square_beyond(b) - away * away)

    # --- tilts: N(μ, σ²)·exp(slope·u - curvature·u²/2), u = y - anchor, is again normal -----------------

    @compiled
    def tilted_normal(self, theta, k, j, anchor, slope, curvature):
        """(mean, sd, log mass) of exp(tilt)·N(μ, σ²) on the line."""
        mean, sd = theta[k, 4 * j], theta[k, 4 * j + 1]
        u = mean - anchor
        shrink = 1.0 / (1.0 + curvature * sd * sd)
        step = sd * sd * shrink * (slope - curvature * u)
        log_mass = shrink * (slope * u + 0.5 * (slope * slope * sd * sd - curvature * u * u)) + 0.5 * log(shrink)
        return mean + step, sd * sqrt(shrink), log_mass

    @compiled
    def log_tilted_mass(self, theta, k, j, lo, hi, anchor, slope, curvature):
        return self.log_normal_mass(theta, k, j, lo, hi, anchor, slope, curvature)

    @compiled
    def log_normal_mass(self, theta, k, j, lo, hi, anchor, slope, curvature):
        """log ∫_lo^hi exp(slope (y-anchor) - curvature (y-anchor)²/2) f(y | θ_k) dy."""
        mean, sd, log_mass = self.tilted_normal(theta, k, j, anchor, slope, curvature)
        if lo == -inf and hi == inf:
            return log_mass
        below, above = (lo - mean) / sd, (mean - hi) / sd
        if below < FAR and above < FAR and not is_narrow(below, -above, (hi - lo) / sd):
            return log_mass + log_ndtr_interval(below, -above)
        # far in a tail, log_mass and the tail's logarithm would cancel, and so would the ends of a narrow interval: use
        # the integrand at the nearer end instead
        end, far = (lo, below) if below > above else (hi, above)
        u, e = end - anchor, (end - theta[k, 4 * j]) * theta[k, 4 * j + 2]
        log_end = slope * u - 0.5 * curvature * u * u - 0.5 * e * e + log(theta[k, 4 * j + 2]) - HALF_LOG_2PI
        return log_end + log(sd) + log_interval_ratio(far, (hi - lo) / sd)

    @compiled
    def draw_tilted(self, rng, theta, k, j, lo, hi, anchor, slope, curvature):
        mean, sd, _ = self.tilted_normal(theta, k, j, anchor, slope, curvature)
        y = mean + sd * draw_truncated_normal(rng, (lo - mean) / sd, (hi - mean) / sd)
        return min(max(y, lo), hi)

    # --- non-centred coordinates: e = (y - μ)/σ, moves in (μ, log σ) ------------------------------------

    @compiled
    def residual(self, theta, k, j, y):
        return (y - theta[k, 4 * j]) * theta[k, 4 * j + 2]

    @compiled
    def from_residual(self, theta, k, j, e):
        return theta[k, 4 * j] + theta[k, 4 * j + 1] * e

    @compiled
    def perturb(self, rng, theta, k, to, j, mean_step, scale_step):
        """Symmetric step in (μ, log σ): the proposal for feature ``j`` of cluster k is written into ``theta[to]``."""
        sd = theta[k, 4 * j + 1] * exp(scale_step * rng.standard_normal())
        self.put_params(theta, to, j, theta[k, 4 * j] + mean_step * rng.standard_normal(), sd)

    @compiled
    def log_perturb(self, theta, k, to, j, mean_step, scale_step):
        """Log density, in (μ, log σ), of :meth:`perturb` going from row k to row ``to``."""
        u = (theta[to, 4 * j] - theta[k, 4 * j]) / mean_step
        v = (theta[to, 4 * j + 3] - theta[k, 4 * j + 3]) / scale_step
        return -0.5 * (u * u + v * v) - log(mean_step * scale_step) - 2.0 * HALF_LOG_2PI

    @compiled
    def prior_spread(self, j):
        """A typical distance between the means of two clusters."""
        return sqrt(self.prior_scale[j] / (self.precision[j] * self.prior_shape[j]))

    @compiled
    def log_prior(self, theta, k, j):
        """Log density of G0 for feature ``j`` in the coordinates (μ, log σ)."""
        shape, scale, precision = self.prior_shape[j], self.prior_scale[j], self.precision[j]
        u = theta[k, 4 * j] - self.prior_mean[j]
        quadratic = (0.5 * precision * u * u + scale) * theta[k, 4 * j + 2] ** 2
        constant = 0.5 * log(precision) - HALF_LOG_2PI + log(2.0) + shape * log(scale) - lgamma(shape)
        return constant - (2.0 * shape + 1.0) * theta[k, 4 * j + 3] - quadratic


@helper
def log_student(u, shape, spread):
    """Log density of a Student t at u from its centre: a normal whose variance is IG(shape, spread)."""
    t = 0.5 * u * u / spread
    rise = log(1.0 + t) if t < inf else 2.0 * log(abs(u)) - log(2.0 * spread)
    return lgamma(shape + 0.5) - lgamma(shape) - 0.5 * log(2.0 * pi * spread) - (shape + 0.5) * rise


@helper
def is_narrow(first, last, width):
    """Whether the difference of an interval's ends, in standard deviations, loses digits that its width has."""
    return width < NARROW and width * max(1.0, last, -first) < 0.1


@helper
def mean_above(t):
    """E(e - t)₊, with e standard normal."""
    return exp(-0.5 * t * t) / sqrt(2.0 * pi) - 0.5 * t * erfc(t / sqrt(2.0))


@helper
def square_beyond(t):
    """E((e - t)₊² - 2 e (e - t)₊), with e standard normal."""
    return 0.5 * (t * t - 1.0) * erfc(t / sqrt(2.0)) - t * exp(-0.5 * t * t) / sqrt(2.0 * pi)
