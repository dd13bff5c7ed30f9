"""What a release says before any sampling: moments of the records behind it, and signs that something is wrong."""

import numpy as np
from scipy.special import gammainc

from .mechanisms import NoNoise

DOUBT = 1e-6  # probability below which an honest release is doubted
CHUNK = 2**18  # records looked at together, which bounds the memory of what is kept of each


class Release:
    """Privatised records and the mechanism that made them (None: the records themselves)."""

    def __init__(self, Z, mechanism):
        self.Z = Z
        self.mechanism = mechanism
        self.channel = NoNoise() if mechanism is None else mechanism
        self.n_features = self.channel.n_features(Z.shape[1])

    def noise_variance(self):
        """Mean variance of the noise on a feature, 0 where it is unknown."""
        return self.channel.noise_variance(self.n_features) or 0.0

    def noise_scale(self):
        """Scale of the noise, (n, 1)."""
        scale = np.atleast_1d(self.mechanism.noise_scale_for(self.n_features))
        return np.broadcast_to(scale, (len(self.Z),))[:, None]

    def bounds(self):
        """Bounds of the confidential records, (n_features, 2), or None."""
        return self.channel.bounds_for(self.n_features)

    def moments(self):
        """Mean and variance of the confidential records by feature, the noise variance taken off.

        The variance is one standard error larger than that, as far as the noise is the reason for it: where the noise
        is much larger than the spread of the records, a difference of two variances hardly tells what that spread is,
        and half of the time a prior made from it would be sure of far too small a one.  It is kept above a thousandth
        of the release's own and, given bounds, between (range/20)² and (range/2)²; the mean is moved into the bounds.
        Where the release does not vary (one record, constant records), its own variance is taken to be the noise's,
        or 1 without noise.

        Raises
        ------
        ValueError
            Where squares of the records overflow.
        """
        known = self.channel.moments(self.Z)
        if known is not None:
            return known
        with np.errstate(over="ignore", invalid="ignore"):
            mean, variance = self.Z.mean(axis=0), self.Z.var(axis=0)
        if not np.all(np.isfinite(variance)):
            raise ValueError(
                f"Z has values as large as {np.abs(self.Z).max():.3g}, whose squares overflow: use another unit, in "
                "records and in the mechanism"
            )
        rounding = 8.0 * np.finfo(float).eps * np.abs(self.Z).max(axis=0)
        noise = self.noise_variance()
        floor = np.where(variance > rounding**2, 1e-3 * variance, noise or 1.0)
        centred = np.maximum(np.maximum(variance - noise, 0.0) + self._noise_error(), floor)
        bounds = self.bounds()
        if bounds is not None:
            width = bounds[:, 1] - bounds[:, 0]
            centred = np.clip(centred, (width / 20) ** 2, (width / 2) ** 2)
            mean = np.clip(mean, bounds[:, 0], bounds[:, 1])
        return mean, centred

    def _noise_error(self):
        """Standard error of the sample variance of the noise, 0 where its kurtosis is unknown."""
        if not self.noise_variance() or self.channel.kurtosis is None:
            return 0.0
        return self.noise_variance() * np.sqrt((self.channel.kurtosis - 1.0) / (len(self.Z) * self._evenness()))

    def _evenness(self):
        """How far all records have noise of one size: 1, or less."""
        scale = self.noise_scale()
        relative = (scale / scale.max()) ** 2  # no power overflows
        return relative.mean() ** 2 / np.mean(relative**2)

    def guess(self):
        """Records near which a chain may start: the release, shrunk to the variance of the confidential records."""
        if self.mechanism is None:
            return self.Z
        known = self.channel.guess(self.Z)
        if known is not None:
            return known
        mean, variance = self.moments()
        spread = self.Z.std(axis=0)
        shrink = np.sqrt(variance) / np.where(spread > 0, spread, 1.0)
        records = self.Z - self.Z.mean(axis=0)  # then in place: there may be many
        records *= np.minimum(shrink, 1.0)
        records += mean
        return np.asarray(records)

    def doubts(self, kernel=None):
        """What makes it improbable that the release came from this mechanism, or suits the kernel, as sentences."""
        categories = getattr(self.mechanism, "n_categories", None)
        if categories is not None and kernel is not None and getattr(kernel, "n_categories", None) is None:
            yield (
                f"{self.mechanism!r} releases categories, and kernel {type(kernel).__name__} takes them for numbers in "
                'that order: pass kernel="categorical" where the order means nothing'
            )
        if self.noise_variance() > 0:
            yield from self._less_than_noise()
            yield from self._out_of_reach()

    def _less_than_noise(self):
        """A release varies at least as its noise does.

        Whatever the records are, its sum of squares about the mean is stochastically larger than the noise's own
        (Anderson 1955: the noise is symmetric and unimodal), whose law is about a gamma with the same mean and
        variance.  The lower tail of that gamma is exact for Gaussian noise, and heavier than the truth for Laplace
        noise or unequal scales.
        """
        kurtosis = self.channel.kurtosis
        n, n_features = self.Z.shape
        if kurtosis is None or n < 2:
            return
        shape = (n - 1) * self._evenness() / (kurtosis - 1.0)
        ratio = self.Z.var(axis=0, ddof=1) / self.noise_variance()
        worst = int(np.argmin(ratio))
        if ratio[worst] == 0.0 and self.channel.is_discrete:
            return  # integers may well be all the same
        probability = n_features * float(gammainc(shape, shape * ratio[worst]))
        if probability < DOUBT:
            noise = np.sqrt(self.noise_variance())
            yield (
                f"feature {worst} of the release has standard deviation {np.sqrt(ratio[worst]) * noise:.4g}, less than "
                f"the noise of {self.mechanism!r} alone ({noise:.4g}; so little has probability {probability:.2g}): "
                "was the release rescaled, or is this another mechanism's? Fit the release as it was published; to "
                "rescale, use the mechanism's bounds or scale"
            )

    def _out_of_reach(self):
        """Records lie in the bounds: a release far outside them is improbable, by the noise's tail."""
        bounds = self.bounds()
        if bounds is None or not getattr(self.mechanism, "clamp", True):
            return
        least, record, feature, scale = np.inf, 0, 0, self.noise_scale()
        for first in range(0, len(self.Z), CHUNK):
            rows = slice(first, first + CHUNK)
            outside = np.maximum(np.maximum(bounds[:, 0] - self.Z[rows], self.Z[rows] - bounds[:, 1]), 0.0)
            tail = self.mechanism.tail_probability(outside, scale[rows])
            if tail is None:
                return
            tail = np.where(outside > 0, tail, 1.0)
            if tail.min() < least:
                least = float(tail.min())
                record, feature = np.unravel_index(np.argmin(tail), tail.shape)
                record += first
        probability = min(1.0, 2.0 * least * self.Z.size)  # on either side
        if probability < DOUBT:
            yield (
                f"record {record} of the release has {self.Z[record, feature]:.6g} in feature {feature}, which "
                f"{self.mechanism!r} makes improbable: among {self.Z.size} values one so far outside the bounds has "
                f"tail probability {probability:.2g}; was the release made with other bounds or another epsilon?"
            )
