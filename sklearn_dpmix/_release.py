"""What can be said of a release before any sampling: moments of the records behind it, and signs that something is wrong."""

import warnings

import numpy as np


class Release:
    """Privatised records and the mechanism that made them (None: the records themselves)."""

    def __init__(self, Z, mechanism):
        self.Z = Z
        self.mechanism = mechanism

    def noise_variance(self):
        """Variance of the noise on a feature, 0 where it is unknown."""
        noise = getattr(self.mechanism, "noise_variance", None)
        return (noise(self.Z.shape[1]) if noise is not None else None) or 0.0

    def bounds(self):
        """Bounds of the confidential records, (n_features, 2), or None."""
        bounds_for = getattr(self.mechanism, "bounds_for", None)
        return bounds_for(self.Z.shape[1]) if bounds_for is not None else None

    def moments(self):
        """Mean and variance of the confidential records by feature, the noise variance taken off.

        The variance is kept above a thousandth of the release's own and, given bounds, between (range/20)² and
        (range/2)²; the mean is moved into the bounds.
        """
        mean, variance = self.Z.mean(axis=0), self.Z.var(axis=0)
        floor = np.maximum(1e-3 * variance, np.finfo(float).tiny)
        floor = np.where(variance > 0, floor, 1.0)
        centred = np.maximum(variance - self.noise_variance(), floor)
        bounds = self.bounds()
        if bounds is not None:
            width = bounds[:, 1] - bounds[:, 0]
            centred = np.clip(centred, (width / 20) ** 2, (width / 2) ** 2)
            mean = np.clip(mean, bounds[:, 0], bounds[:, 1])
        return mean, centred

    def guess(self):
        """Records near which a chain may start: the release, shrunk to the variance of the confidential records."""
        if self.mechanism is None:
            return self.Z
        mean, variance = self.moments()
        spread = self.Z.std(axis=0)
        shrink = np.sqrt(variance) / np.where(spread > 0, spread, 1.0)
        return mean + (self.Z - self.Z.mean(axis=0)) * np.minimum(shrink, 1.0)

    def warn_if_implausible(self):
        """Warn where the release cannot well have come from this mechanism."""
        if self.noise_variance() > 0:
            self._warn_if_less_than_noise()
            self._warn_if_out_of_reach()

    def _warn_if_less_than_noise(self):
        """A release varies at least as its noise does: Var Z = Var Y + Var noise (the records being independent of it)."""
        n, noise = len(self.Z), self.noise_variance()
        if n < 10:
            return
        kurtosis = getattr(self.mechanism, "kurtosis", 3.0)
        lowest = noise * max(1.0 - 5.0 * np.sqrt((kurtosis - 1.0) / n), 0.05)
        variance = self.Z.var(axis=0, ddof=1)
        worst = int(np.argmin(variance))
        if variance[worst] < lowest:
            warnings.warn(
                f"feature {worst} of the release has standard deviation {np.sqrt(variance[worst]):.4g}, less than the noise "
                f"of {self.mechanism!r} alone ({np.sqrt(noise):.4g}): was the release rescaled, or is this another mechanism's? "
                "Fit the release as it was published; rescale through the mechanism's bounds or scale",
                UserWarning,
                stacklevel=4,
            )

    def _warn_if_out_of_reach(self):
        """Records lie in the bounds: a release far outside them is improbable, by the noise's tail."""
        bounds = self.bounds()
        if bounds is None or not getattr(self.mechanism, "clamp", True):
            return
        outside = np.maximum(np.maximum(bounds[:, 0] - self.Z, self.Z - bounds[:, 1]), 0.0)
        scale = np.broadcast_to(np.atleast_1d(self.mechanism.noise_scale_for(self.Z.shape[1])), (len(self.Z),))
        tail = self.mechanism.tail_probability(outside, scale[:, None])
        if tail is None:
            return
        tail = np.where(outside > 0, tail, 1.0)
        record, feature = np.unravel_index(np.argmin(tail), tail.shape)
        probability = min(1.0, float(tail[record, feature]) * self.Z.size)
        if probability < 1e-6:
            warnings.warn(
                f"record {record} of the release has {self.Z[record, feature]:.6g} in feature {feature}, which "
                f"{self.mechanism!r} makes improbable: among {self.Z.size} values one so far outside the bounds has tail "
                f"probability {probability:.2g}; was the release made with other bounds or another epsilon?",
                UserWarning,
                stacklevel=4,
            )
