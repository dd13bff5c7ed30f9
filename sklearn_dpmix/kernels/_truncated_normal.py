"""Normal kernel truncated to public bounds: there is no mass where no record can be."""

from math import exp, inf, log, sqrt
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled, helper
from .._base.numeric import HALF_LOG_2PI, draw_truncated_normal, log_interval_ratio, log_ndtr_interval
from .._base.parameters import check_bounds
from ._normal import NormalKernel, is_narrow

JUMPS = 0.3  # share of updates that begin with a draw from the posterior without truncation
NODES, WEIGHTS = (tuple(part.tolist()) for part in np.polynomial.legendre.leggauss(48))


class TruncatedNormalKernel(NormalKernel):
    """Records on an interval: N(μ, σ²) truncated to it, with the base measure of :class:`NormalKernel` on (μ, σ²).

    With several features the kernel is a product, with each feature truncated to its own bounds.  μ and σ² are those of
    the normal distribution before truncation.  They move by Metropolis steps: a draw from the conjugate posterior that
    ignores truncation, and a random walk on (μ, log σ) whose step is tuned only in the warm-up, separately for each
    octave of the cluster's size.

    Parameters
    ----------
    mean, mean_precision, shape, scale : as in :class:`NormalKernel`
    bounds : pair (lo, hi) or array of shape (n_features, 2), optional
        The interval.  None: the mechanism's bounds.

    Raises
    ------
    ValueError
        On fit, if neither the kernel nor the mechanism has bounds, and for noise-free records outside them.

    Examples
    --------
    >>> from sklearn_dpmix.kernels import TruncatedNormalKernel
    >>> TruncatedNormalKernel(bounds=(0, 1))
    TruncatedNormalKernel(bounds=(0, 1))
    """

    least_log_mass = -np.inf
    noised_as = "truncated_normal"

    def __init__(
        self,
        mean: ArrayLike | None = None,
        mean_precision: ArrayLike = 0.1,
        shape: ArrayLike = 3.0,
        scale: ArrayLike | None = None,
        *,
        bounds: ArrayLike | None = None,
    ) -> None:
        super().__init__(mean, mean_precision, shape, scale)
        self.bounds = bounds

    def can(self, capability: str) -> bool:
        """It is not conjugate, its residuals may leave the bounds, and its fourth column is not log σ."""
        return capability not in ("predictive", "residuals", "steps") and super().can(capability)

    def resolve(self, release: Any) -> Self:
        bounds = self.bounds if self.bounds is not None else release.bounds()
        if bounds is None:
            raise ValueError(
                f"TruncatedNormalKernel needs bounds, of its own or the mechanism's; got bounds=None and "
                f"mechanism={release.mechanism!r}: pass TruncatedNormalKernel(bounds=(lo, hi))"
            )
        low, high = check_bounds(bounds, release.n_features).T
        if release.mechanism is None and not np.all((release.Z >= low) & (release.Z <= high)):
            raise ValueError(
                f"Z has values from {release.Z.min():g} to {release.Z.max():g}, outside the kernel's "
                f"bounds={bounds!r}: pass wider bounds"
            )
        parameters = self.mean, self.mean_precision, self.shape, self.scale
        normal = NormalKernel(*parameters).resolve(release)  # type: ignore[arg-type]
        return type(self)(**normal.get_params(), bounds=np.column_stack([low, high]))

    def margin(self, j: int, n_features: int) -> tuple["TruncatedNormalKernel", slice]:
        kernel, columns = super().margin(j, n_features)
        kernel.bounds = tuple(check_bounds(self.bounds, n_features)[j].tolist())
        return kernel, columns

    def _hyperparameters(self, n_features):
        low, high = check_bounds(self.bounds, n_features).T
        return super()._hyperparameters(n_features) | {"low": low.copy(), "high": high.copy()}

    @compiled
    def put_params(self, theta, k, j, mean, sd):
        """The fourth column is log σ plus the log mass inside the bounds, so the likelihood is that of the parent."""
        theta[k, 4 * j] = mean
        theta[k, 4 * j + 1] = sd
        theta[k, 4 * j + 2] = 1.0 / sd
        first, last, width = (self.low[j] - mean) / sd, (self.high[j] - mean) / sd, (self.high[j] - self.low[j]) / sd
        if is_narrow(first, last, width):
            log_mass = log_interval_ratio(first, width) - 0.5 * first * first - HALF_LOG_2PI
        else:
            log_mass = log_ndtr_interval(first, last)
        theta[k, 4 * j + 3] = log(sd) + log_mass

    @compiled
    def log_inside(self, theta, k, j):
        """Log mass of the untruncated distribution inside the bounds."""
        return theta[k, 4 * j + 3] + log(theta[k, 4 * j + 2])

    # --- parameters --------------------------------------------------------------------------------------------------

    @compiled
    def has_base_predictive(self):
        return False

    @compiled
    def target_acceptance(self):
        return 0.35

    @compiled
    def update_params(self, rng, theta, k, stats, n):
        self.move_params(rng, theta, k, stats, n, 1.0)

    @compiled
    def move_params(self, rng, theta, k, stats, n, step):
        total = 0.0
        for j in range(self.n_features):
            precision, shift, shape, scale = self.posterior(stats, k, j, n)
            centre = self.prior_mean[j] + shift
            if rng.random() < JUMPS:
                mean, sd, inside = theta[k, 4 * j], theta[k, 4 * j + 1], self.log_inside(theta, k, j)
                new_sd = self.draw_sd(rng, shape, scale)
                self.put_params(theta, k, j, centre + new_sd / sqrt(precision) * rng.standard_normal(), new_sd)
                if not rng.random() < exp(min(n * (inside - self.log_inside(theta, k, j)), 0.0)):
                    self.put_params(theta, k, j, mean, sd)
            mean, sd = theta[k, 4 * j], theta[k, 4 * j + 1]
            before = log_joint(mean, sd, centre, precision, shape, scale) - n * self.log_inside(theta, k, j)
            width = step / sqrt(n + 1.0)
            new_sd = sd * exp(width * rng.standard_normal())
            new_mean = mean + width * self.step_scale(j) * rng.standard_normal()
            self.put_params(theta, k, j, new_mean, new_sd)
            after = log_joint(new_mean, new_sd, centre, precision, shape, scale) - n * self.log_inside(theta, k, j)
            probability = exp(min(after - before, 0.0))
            if not rng.random() < probability:
                self.put_params(theta, k, j, mean, sd)
            total += probability
        return total / self.n_features

    @compiled
    def step_scale(self, j):
        """A typical σ.  With σ itself, which moves too, the reverse move would have another step size."""
        return sqrt(self.prior_scale[j] / self.prior_shape[j])

    # --- the record given θ ------------------------------------------------------------------------------------------

    @compiled
    def log_likelihood(self, theta, k, j, y):
        if y < self.low[j] or y > self.high[j]:
            return -inf
        e = (y - theta[k, 4 * j]) * theta[k, 4 * j + 2]
        return -0.5 * e * e - theta[k, 4 * j + 3] - HALF_LOG_2PI

    @compiled
    def peak(self, theta, k, j):
        y = min(max(theta[k, 4 * j], self.low[j]), self.high[j])
        return exp(self.log_likelihood(theta, k, j, y))

    @compiled
    def log_relative(self, theta, k, j, y):
        top = min(max(theta[k, 4 * j], self.low[j]), self.high[j])
        return self.log_likelihood(theta, k, j, y) - self.log_likelihood(theta, k, j, top)

    @compiled
    def draw(self, rng, theta, k, j):
        return self.draw_tilted(rng, theta, k, j, self.low[j], self.high[j], 0.0, 0.0, 0.0)

    @compiled
    def cdf(self, theta, k, j, y):
        if y <= self.low[j]:
            return 0.0
        return min(exp(self.log_tilted_mass(theta, k, j, self.low[j], y, 0.0, 0.0, 0.0)), 1.0)

    @compiled
    def ends(self, j):
        return self.low[j], self.high[j]

    @compiled
    def log_tilted_mass(self, theta, k, j, lo, hi, anchor, slope, curvature):
        lo, hi = max(lo, self.low[j]), min(hi, self.high[j])
        if lo >= hi:
            return -inf
        mass = self.log_normal_mass(theta, k, j, lo, hi, anchor, slope, curvature)
        return mass - self.log_inside(theta, k, j)

    @compiled
    def draw_tilted(self, rng, theta, k, j, lo, hi, anchor, slope, curvature):
        lo, hi = max(lo, self.low[j]), min(hi, self.high[j])
        mean, sd, _ = self.tilted_normal(theta, k, j, anchor, slope, curvature)
        first, last = (lo - mean) / sd, (hi - mean) / sd
        if is_narrow(first, last, (hi - lo) / sd):
            return draw_in_narrow(rng, lo, hi, mean, sd)
        return min(max(mean + sd * draw_truncated_normal(rng, first, last), lo), hi)

    @compiled
    def moment(self, theta, k, j, low, high, centre, power):
        """Mean of (y - centre)^power given low < y < high, by Gauss–Legendre quadrature where the mass is."""
        mean, sd = theta[k, 4 * j], theta[k, 4 * j + 1]
        top = min(max(mean, low), high)
        reach = 9.0 * sd if top == mean else 40.0 * min(sd, sd * sd / abs(top - mean))
        first, last = max(low, top - reach), min(high, top + reach)
        half, total, mass = 0.5 * (last - first), 0.0, 0.0
        for i in range(len(NODES)):
            y = first + half * (1.0 + NODES[i])
            f = WEIGHTS[i] * exp(self.log_likelihood(theta, k, j, y) - self.log_likelihood(theta, k, j, top))
            total += f * (y - centre) ** power
            mass += f
        return total / mass

    @compiled
    def clamped_mean(self, theta, k, j, lo, hi):
        """Mean of the record moved to [lo, hi]."""
        if lo <= self.low[j] and hi >= self.high[j]:
            return self.mean(theta, k, j)
        first, last = max(lo, self.low[j]), min(hi, self.high[j])
        inside = 0.0
        if first < last:
            inside = exp(self.log_tilted_mass(theta, k, j, first, last, 0.0, 0.0, 0.0))
            inside *= self.moment(theta, k, j, first, last, 0.0, 1)
        return inside + lo * self.cdf(theta, k, j, lo) + hi * (1.0 - self.cdf(theta, k, j, hi))

    @compiled
    def mean(self, theta, k, j):
        return self.moment(theta, k, j, self.low[j], self.high[j], 0.0, 1)

    @compiled
    def variance(self, theta, k, j):
        return self.moment(theta, k, j, self.low[j], self.high[j], self.mean(theta, k, j), 2)


@helper
def draw_in_narrow(rng, lo, hi, mean, sd):
    """A normal record within an interval where the density hardly changes: by rejection from the uniform law."""
    top = min(max(mean, lo), hi)
    while True:
        y = lo + (hi - lo) * rng.random()
        if rng.random() < exp(-0.5 * ((y - top) / sd) * ((y - mean) / sd + (top - mean) / sd)):
            return y


@helper
def log_joint(mean, sd, centre, precision, shape, scale):
    """Log density of (μ, log σ) given the records without truncation, up to a constant."""
    u = (mean - centre) / sd
    return -(2.0 * shape + 1.0) * log(sd) - 0.5 * precision * u * u - scale / (sd * sd)
