"""Signs that a release is not what it is said to be."""

import numpy as np
from scipy.special import bdtr, bdtrc, gammainc

MISFIT = 1e-6  # probability below which a release is said not to fit its mechanism
SURE = 0.95  # probability above which the population is said to be outside the bounds


def misfits(release, kernel=None):
    """What makes it improbable that the release came from this mechanism, or suits the kernel, as sentences."""
    has_categories = release.channel.n_categories is not None
    if has_categories and kernel is not None and getattr(kernel, "n_categories", None) is None:
        yield (
            f"{release.mechanism!r} releases categories, and kernel {type(kernel).__name__} treats them as ordered "
            'numbers: if the order means nothing, use PrivateDPMixture with kernel="categorical"'
        )
    if release.noise_variance() > 0 and release.channel.released_above is None:
        yield from less_than_noise(release)
        yield from out_of_reach(release)
    yield from improbable_shares(release)


def less_than_noise(release):
    """A release varies at least as its noise does.

    Whatever the records are, its sum of squares about the mean is stochastically larger than the noise's own
    (Anderson 1955: the noise is symmetric and unimodal), whose law is about a gamma with the same mean and
    variance.  The lower tail of that gamma is exact for Gaussian noise, and heavier than the truth for Laplace
    noise or unequal scales.
    """
    kurtosis = release.channel.kurtosis
    n = release.n_records
    if kurtosis is None or n < 2:
        return
    shape = (n - 1) * release.evenness() / (kurtosis - 1.0)
    variance = release.spread[1]
    n_features, ratio = len(variance), variance * (n / (n - 1)) / release.noise_variance()
    worst = int(np.argmin(ratio))
    if ratio[worst] == 0.0 and release.channel.is_discrete:
        return  # integers may well be all the same
    probability = n_features * float(gammainc(shape, shape * ratio[worst]))
    if probability < MISFIT:
        noise = np.sqrt(release.noise_variance())
        yield (
            f"feature {worst} of the release has standard deviation {np.sqrt(ratio[worst]) * noise:.4g}, less than "
            f"the noise of {release.mechanism!r} alone ({noise:.4g}; the probability of so small a spread is "
            f"{probability:.2g}): was the release rescaled, or is this another mechanism's, or are these records "
            "that were never privatised? Fit the release as it was published; to rescale, use the mechanism's bounds "
            "or scale"
        )


def improbable_shares(release):
    """Each answer has a probability between those under the records that make it least and most probable.

    So its number is between those of two binomial distributions, whatever the records are.
    """
    found = release.shares()
    if not found:
        return
    what, shares, *others = zip(*found, strict=True)
    count, n, (low, high, n_alike) = np.round(release.n_records * np.array(shares)), release.n_records, np.array(others)
    too_few, too_many = np.where(low < 1.0, bdtr(count, n, low), count >= n), bdtrc(count - 1.0, n, high)
    tail = np.minimum(too_few, np.where(count > 0.0, too_many, 1.0))
    worst = int(np.argmin(tail))
    probability = min(1.0, 2.0 * n_alike.sum() * float(tail[worst]))
    if probability < MISFIT:
        yield (
            f"{what[worst]} has a share of {shares[worst]:.4g} in the release, but under {release.mechanism!r} it is "
            f"released with a probability from {low[worst]:.4g} to {high[worst]:.4g}, whatever the records are (the "
            f"probability of such a share is {probability:.2g}): was the release made with another epsilon or other "
            "bounds, or are these the records?"
        )


def out_of_reach(release):
    """Records lie in the bounds: a release far outside them is improbable, by the noise's tail."""
    bounds = release.bounds()
    if bounds is None or not release.channel.clamp:
        return
    least, which, value, n_values = release.farthest(bounds)
    probability = min(1.0, 2.0 * least * n_values)  # on either side
    if probability < MISFIT:
        yield (
            f"{which} has {value}, which is improbable under {release.mechanism!r}: the probability that any of "
            f"{n_values} values falls this far outside the bounds is {probability:.2g}; was the release made with "
            "other bounds or another epsilon?"
        )


def beyond_bounds(means, release):
    """Where draws of the population's mean, (n_chains, n_draws) or with features, are sure to be outside the bounds."""
    bounds = release.bounds()
    if bounds is None or not release.channel.clamp:
        return
    means = means.reshape(means.shape[0] * means.shape[1], -1)
    outside = np.mean((means < bounds[:, 0]) | (means > bounds[:, 1]), axis=0)
    j = int(np.argmax(outside))
    if outside[j] > SURE:
        yield (
            f"with probability {outside[j]:.2g} the population's mean of feature {j} lies outside the bounds from "
            f"{bounds[j, 0]:g} to {bounds[j, 1]:g}, to which {release.mechanism!r} moves records: the posterior "
            "reflects little beyond the kernel and the prior there; release with wider bounds"
        )
