"""Where a chain starts under a channel that has unbiased estimates of bounded records and of their squares."""

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import check_bounds
from .._base.typing import Array, Floats
from ._channel import RecordChannel

UNIFORM = 1.0 / 12.0  # variance of a uniform distribution on [0, 1]
LEAST_VARIANCE = 0.0025  # of records on [0, 1], where the error of its estimate is unknown or larger


class EstimatedChannel(RecordChannel):
    """Base class of such channels.

    A subclass has ``bounds`` and defines ``_estimates(Z)``: estimates of each record u on [0, 1] and of u²,
    (n, n_features) each.  The second is None if the release says nothing about the variance, which is then taken to be
    that of a uniform distribution.
    """

    bounds: ArrayLike | None

    def bounds_for(self, n_features: int | None) -> Floats:
        return check_bounds(self.bounds, n_features)

    def _noise_error(self, mean, n):
        """Standard error of the variance of n records u near ``mean``, as far as it is due to the channel."""
        return 0.0

    def moments(self, Z: Array) -> tuple[Floats, Floats]:
        """Mean and variance of the confidential records by feature: unbiased, then moved to possible values.

        The variance is made one standard error larger, if that is known: a prior from a variance that is far too small
        would be sure of it.
        """
        u, u_squared = self._estimates(Z)
        error = u.var(axis=0) / max(len(u) - 1, 1)
        return self._possible(len(u), u.mean(axis=0), None if u_squared is None else u_squared.mean(axis=0), error)

    def _possible(self, n, mean, mean_square, error):
        """Moments from estimates of those of u, and the variance of the estimate of the mean.

        The more noise hides the mean, the nearer it is moved to the middle, as under a uniform prior on [0, 1].
        """
        lo, hi = self.bounds_for(len(mean)).T
        inside = np.clip(mean, 0.0, 1.0)
        error = (error if n > 1 else 1.0) + (mean - inside) ** 2  # a few releases may be all the same
        share = UNIFORM / (UNIFORM + error)
        variance = UNIFORM + share * error if mean_square is None else mean_square - mean**2 + error
        noise_error = self._noise_error(inside, n)
        variance = np.maximum(variance, 0.0) + noise_error
        inner = np.clip(0.5, inside - np.sqrt(error), inside + np.sqrt(error))
        least = np.where(noise_error > 0.0, np.minimum(LEAST_VARIANCE, noise_error), LEAST_VARIANCE)
        variance = np.clip(variance, least, np.maximum(least, inner - inner**2))
        return lo + (hi - lo) * (0.5 + share * (inside - 0.5)), (hi - lo) ** 2 * variance

    def guess(self, Z: Array) -> Floats | None:
        """Records near which a chain may start: their estimates, shrunk to the moments and kept inside the bounds."""
        lo, hi = self.bounds_for(Z.shape[1]).T
        mean, variance = self.moments(Z)
        estimate = (hi - lo) * self._estimates(Z)[0]
        spread = estimate.std(axis=0)
        shrink = np.minimum(np.sqrt(variance) / np.where(spread > 0, spread, 1.0), 1.0)
        margin = 0.005 * (hi - lo)  # a beta density may be 0 or infinite on a bound
        return np.clip(mean + (estimate - estimate.mean(axis=0)) * shrink, lo + margin, hi - margin)
