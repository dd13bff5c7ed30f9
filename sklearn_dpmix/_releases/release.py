"""What a release says before any sampling: nodes that stand for it, and moments of the records behind it."""

from functools import cached_property

import numpy as np
from scipy.special import ndtr, ndtri

from .._base.chunks import CHUNK, chunks
from .._base.distinct import distinct_rows
from .._base.numeric import INV_SQRT_2PI
from ..mechanisms import NoNoise
from .nodes import FEW, Nodes
from .summary import ReleaseSummary

FINER = 8.0  # narrow cells of a summary in the width of cells that nodes are asked for
MOST_ROUNDS = 50  # of weights for records of unequal noise
ODD = 0.01  # share of the records, the lowest or the highest, that may be errors or from elsewhere
LEVELS = np.array([ODD, 0.25, 0.75, 1.0 - ODD])
RANGES = np.array([0.05, 0.25, 0.5, 0.75, 0.95])  # quantiles between which a release is compared with its noise
FEWEST = 10  # records whose quartiles say where most are
MOST_NOISE = 10.0  # scales of it that a release is hardly ever away from its record
FAR = np.array([3.0, 15.0])  # ranges of all but these, and of the middle half: for the prior, no record is farther away


class Release:
    """Privatised records and the mechanism that made them (None: the records themselves)."""

    def __init__(self, Z, mechanism, n_all=None):
        self.Z = Z
        self.n_all = n_all  # records, with those whose releases did not appear; None: unknown, or all appeared
        self.mechanism = mechanism
        self.channel = NoNoise() if mechanism is None else mechanism
        self.n_features = self.channel.n_features(Z.shape[1])
        self.n_records = len(Z)
        self._summary, self._is_narrowest = None, False  # whether its cells are as narrow as they may be
        self._remembered = {}

    @cached_property
    def spread(self):
        """Mean, variance and largest absolute value of the release, by feature."""
        with np.errstate(over="ignore", invalid="ignore"):
            mean, squares, largest = self.Z.mean(axis=0), 0.0, 0.0
            for rows in self._parts():
                squares = squares + np.square(rows - mean).sum(axis=0)
                largest = np.maximum(largest, np.abs(rows).max(axis=0))
            return mean, squares / len(self.Z), largest

    def _parts(self):
        return (self.Z[rows] for rows in chunks(len(self.Z)))

    def nodes(self, width):
        """Weighted places that stand for the records of the one feature, for cells of this width and wider ones."""
        if self.channel.releases_records:
            return self._places
        if self._summary is None:
            self._summary = self._summarised(None)
        wanted = width / FINER
        if not self._is_narrowest and (self._summary.cell_width or 0.0) > wanted:
            self._summary = self._summarised(wanted)
            self._is_narrowest = self._summary.cell_width > wanted
        return self._summary.nodes()

    def remembered(self, key, make):
        """What ``make`` returned for this key; the last two are kept: a layout that was tried is often the next one."""
        if key not in self._remembered:
            self._remembered = dict(list(self._remembered.items())[-1:]) | {key: make()}
        return self._remembered[key]

    @cached_property
    def _places(self):
        """The different records and how many there are of each; all of them while they are few."""
        z = np.sort(self.Z[:, 0])
        if len(z) <= FEW:
            return Nodes(z, np.ones(len(z)))
        places, counts = np.unique(z, return_counts=True)
        return Nodes(places, counts.astype(float))

    def _summarised(self, width):
        summary = ReleaseSummary(self.mechanism)
        if width is not None:
            summary._narrow(width)
        summary._add(self.Z[:, 0], None)
        return summary

    def data(self):
        """What tells this release from another."""
        return self.Z

    def encoded(self):
        """The records as samplers see them; None if only a summary is left."""
        return self.channel.encode(self.Z)

    def with_scales(self):
        """The records as samplers see them, and behind each its scale where they have their own."""
        Z, channel = self.encoded(), self.channel
        return Z if channel.has_one_law else np.column_stack([Z, channel.scales(len(Z), self.n_features)])

    def count_different(self):
        """Number of different releases; of one ε or scale, if there are several."""
        return len(distinct_rows(self.with_scales())[0])

    def narrowest(self):
        """Width of the narrowest cells for which :meth:`nodes` are as good as the records."""
        return FINER * self._summary.cell_width if self._is_narrowest else 0.0

    def narrow_nodes(self):
        """Nodes of the cells, and rules of one node less: their difference bounds what the first leave out.

        A comparison with cells twice as wide would not do: where all records of a cell lie in one half of it, both give
        the same nodes.
        """
        return self._summary.nodes(), self._summary._rougher_nodes()

    def centre(self):
        """About the median of the confidential records, by feature: (1, n_features); of many by some of them."""
        step, some = self._step() if self.channel.has_one_law else 1, self
        if step > 1:
            some = Release(self.Z[::step], self.mechanism, None if self.n_all is None else self.n_all / step)
        return np.median(some.guess(), axis=0, keepdims=True)

    def _step(self):
        """From one record to the next of some, at most ``CHUNK``, that say roughly where all are."""
        return -(-self.n_records // CHUNK)

    def noise_variance(self):
        """Mean variance of the noise on a feature, 0 where it is unknown."""
        return self.channel.noise_variance(self.n_features) or 0.0

    def noise_scale(self):
        """Scale of the noise, (n, 1)."""
        return np.broadcast_to(self._scales(), (self.n_records,))[:, None]

    def _scales(self):
        """Of all records together, (1,), or (n,)."""
        return np.atleast_1d(self.mechanism.noise_scale_for(self.n_features))

    def shares(self):
        """What the mechanism says of shares of this release (:meth:`RecordChannel.shares`)."""
        return self.channel.shares(self.Z)

    def bounds(self):
        """Bounds of the confidential records, (n_features, 2), or None."""
        return self.channel.bounds_for(self.n_features)

    def moments(self):
        """Mean and variance of the confidential records by feature, the noise variance taken off.

        One standard error of the noise variance is added: where noise is much larger than the spread of the records,
        the difference of two nearly equal variances is too small half of the time, and a prior made from it would be
        overconfident.  The variance is kept above a thousandth of the release's own and, given bounds, below
        (range/2)²; :func:`inside` moves the mean into them.  Bounds do not show how narrow a population is: they may be
        generous.  Of releases that pile up above a threshold the variance is larger and the mean lower, since the
        population goes on below.  Where noise has scales of its own, records with less noise count for more: see
        :meth:`_weighed`.  Where the release does not vary (one record, constant records), its own variance is taken to
        be the noise's, or 1 without noise.

        Raises
        ------
        ValueError
            Where squares of the records overflow.
        """
        known = self._known_moments()
        if known is not None:
            return known
        mean, variance, error = self._less_noise() if self._noise is None else self._within_noise()
        bounds = self.bounds()
        if bounds is not None:
            width = bounds[:, 1] - bounds[:, 0]
            variance = np.minimum(variance, (width / 2) ** 2)
            mean = inside(mean, error, bounds[:, 0], bounds[:, 1])
        return mean, variance

    def _less_noise(self):
        """Mean and variance as in :meth:`moments`, before bounds, and the standard error of the mean."""
        mean, variance, largest = self.spread
        noise, error = self.noise_variance(), self._noise_error()
        if not np.all(np.isfinite(variance)):
            raise ValueError(
                f"Z has values as large as {largest.max():.3g}, whose squares overflow: use another unit, for the "
                "records and the mechanism"
            )
        if noise and self.channel.kurtosis is not None and len(self._scales()) > 1:
            mean, variance, noise, error, of_mean = self._weighed(variance)
        else:
            of_mean = np.sqrt(np.maximum(variance, noise) / self.n_records)
        rounding = 8.0 * np.finfo(float).eps * largest
        if self.channel.released_above is not None:
            mean, variance = self._with_unseen(mean, variance)
        floor = np.where(variance > rounding**2, 1e-3 * variance, np.where(noise > 0, noise, 1.0))
        return mean, np.maximum(np.maximum(variance - noise, 0.0) + error, floor), of_mean

    @cached_property
    def _noise(self):
        return self.channel.simulated_noise(self.n_records, self.n_features)

    def _within_noise(self):
        """As :meth:`_less_noise`, for noise whose variance is unknown, or infinite: by quantiles of release and noise.

        Squares of ranges of normal laws add up.  The larger of two ranges counts, since the middle half says nothing of
        a smaller group.
        """
        of_release, of_noise = self._quantiles(RANGES), np.quantile(self._noise, RANGES, axis=0)
        release, noise = ((x[[3, 4]] - x[[1, 0]]) ** 2 for x in (of_release, of_noise))
        squares = np.maximum(release - noise, 0.0) + 3.0 / np.sqrt(self.n_records) * noise
        unit = (2.0 * ndtri(RANGES[[3, 4], None])) ** 2
        error = np.sqrt(0.5 * np.pi / self.n_records * (release / unit)[0])  # of the median of a normal law
        return of_release[2] - of_noise[2], (squares / unit).max(axis=0), error

    def _quantiles(self, levels):
        """Of the release, by feature."""
        return np.quantile(self.Z, levels, axis=0)

    def typical_moments(self):
        """As :meth:`moments`, for a prior: where nothing bounds them, records far from most others count as nearer.

        Otherwise a single entry of a million among ages would give a prior of components that are centuries wide, and a
        heavy tail one of components that are wider than most of the records.  Too narrow a guess does no harm: the
        prior of a component's standard deviation falls slowly towards large ones.
        """
        is_open = self._known_moments() is None and self.bounds() is None
        moved = self._moved_nearer() if is_open and self.n_records >= FEWEST else None
        return self.moments() if moved is None else moved.moments()

    def _moved_nearer(self):
        """This release with its far records moved, or None if it has none."""
        some = np.sort(self.Z[:: self._step()], axis=0)
        below = np.maximum(LEVELS[:2] * len(some), 1.0).astype(int)
        low, high = reach_of(some[[*below, *(len(some) - 1 - below[::-1])]])
        if not self.channel.has_one_law:  # those with more noise of their own may be farther out
            room = MOST_NOISE * self.channel.scales(self.n_records, self.n_features)[:, None]
            low, high = low - room, high + room
        elif all(np.all((rows >= low) & (rows <= high)) for rows in self._parts()):
            return None
        return Release(np.clip(self.Z, low, high), self.mechanism, self.n_all)

    def _weighed(self, variance):
        """Mean and variance of the release by feature, the noise's part of that variance, errors of it and the mean.

        With weights for records of unequal noise: the inverse of a release's variance for the mean, its square for the
        variance, as if both laws were normal.  The population's part of a release's variance is found on the way, from
        above: each round of estimates needs a rough one only.
        """
        scales = self.channel.scales(self.n_records, self.n_features)[:, None]  # raises for another number of records
        relative = (scales / scales.max()) ** 2  # no power overflows
        noise = self.noise_variance() * relative / relative.mean()
        within, error = variance, variance
        for _ in range(MOST_ROUNDS):
            weights = 1.0 / (within + noise)
            squares = weights**2
            total = squares.sum(axis=0)
            mean = (weights * self.Z).sum(axis=0) / weights.sum(axis=0)
            variance = (squares * (self.Z - mean) ** 2).sum(axis=0) / total
            of_noise = (squares * noise).sum(axis=0) / total
            error = np.sqrt((self.channel.kurtosis - 1.0) * ((squares * noise) ** 2).sum(axis=0)) / total
            last, within = within, np.maximum(variance - of_noise, 0.0) + error
            if np.all(np.abs(within - last) <= 0.01 * last):
                break
        return mean, variance, of_noise, error, 1.0 / np.sqrt(weights.sum(axis=0))

    def _with_unseen(self, mean, variance):
        """Mean and variance of all releases, from those above a threshold: the same where that is far below them.

        Else as if they were normal and a share of them appeared, half where their number is unknown.  The variance is
        at least that about the threshold, and with bounds larger by a quarter of the squared way to the lower one.
        """
        threshold, bounds = self.channel.released_above, self.bounds()
        share = 0.5 if self.n_all is None else min(self.n_records / self.n_all, 0.99)
        place = -ndtri(share)  # of the threshold, in standard deviations above the mean
        rise = INV_SQRT_2PI * np.exp(-0.5 * place**2) / share - place  # from there to the mean of those that appear
        with np.errstate(over="ignore", invalid="ignore"):
            away = np.where(variance > 0, (mean - threshold) / np.sqrt(np.where(variance > 0, variance, 1.0)), 0.0)
            further = 0.0 if bounds is None else 0.25 * np.maximum(threshold - bounds[:, 0], 0.0) ** 2
            weight = np.exp(-(np.minimum(0.5 * away, 100.0) ** 4))  # half of a normal law has 1.3 of these distances
            above = np.minimum(away, 10.0) ** 2 * variance
            centre = np.where(away < 10.0, threshold - place * np.sqrt(above) / rise, mean)
        more = np.maximum(above, above / rise**2 - variance)
        return mean + weight * (centre - mean), variance + weight * (more + further)

    def _known_moments(self):
        return self.channel.moments(self.Z)

    def _noise_error(self):
        """Standard error of the sample variance of the noise, 0 where its kurtosis is unknown."""
        if not self.noise_variance() or self.channel.kurtosis is None:
            return 0.0
        return self.noise_variance() * np.sqrt((self.channel.kurtosis - 1.0) / (self.n_records * self.evenness()))

    def evenness(self):
        """How far all records have noise of one size: 1, or less."""
        scale = self._scales()
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
        if self._noise is not None:  # releases may be anywhere
            return np.clip(self.Z, mean - 3.0 * np.sqrt(variance), mean + 3.0 * np.sqrt(variance))
        spread = self.Z.std(axis=0)
        shrink = np.sqrt(variance) / np.where(spread > 0, spread, 1.0)
        records = self.Z - self.Z.mean(axis=0)  # then in place: there may be many
        records *= np.minimum(shrink, 1.0)
        records += mean
        return np.asarray(records)

    def farthest(self, bounds):
        """(Tail probability of the least probable value, which record it is, that value, number of values)."""
        least, record, feature, scale = np.inf, 0, 0, self.noise_scale()
        for rows in chunks(len(self.Z)):
            outside = np.maximum(np.maximum(bounds[:, 0] - self.Z[rows], self.Z[rows] - bounds[:, 1]), 0.0)
            tail = self.mechanism.tail_probability(outside, scale[rows])
            if tail is None:
                return 1.0, "", "", self.Z.size
            tail = np.where(outside > 0, tail, 1.0)
            if tail.min() < least:
                least = float(tail.min())
                record, feature = np.unravel_index(np.argmin(tail), tail.shape)
                record += rows.start
        value = f"{self.Z[record, feature]:.6g} in feature {feature}"
        return least, f"record {record} of the release", value, self.Z.size


def inside(mean, error, low, high):
    """Mean of N(mean, error²) between bounds: an estimate with that error, of what is known to be there.

    Where the noise hides it, that is near the centre of the bounds.  The nearest number between them would be one of
    the bounds, as sure as if the release had said so.
    """
    half, centre = 0.5 * (high - low), 0.5 * (low + high)
    error = np.clip(error, 1e-12 * half, 1e3 * half)  # beyond these it is the nearest number, or the centre
    mean = np.clip(mean, low - 30.0 * error, high + 30.0 * error)
    side = np.where(mean > centre, -1.0, 1.0)  # by symmetry on the low side, where tails keep their digits
    a, b = ((end - side * (mean - centre)) / error for end in (-half, half))
    rise = INV_SQRT_2PI * (np.exp(-0.5 * a * a) - np.exp(-0.5 * b * b)) / (ndtr(-a) - ndtr(-b))
    return np.clip(mean + side * error * rise, low, high)


def reach_of(quantiles):
    """How far out records may be to set the prior, by quantiles of ``LEVELS``; anywhere if most are at one place."""
    low, high = np.array(quantiles[:2]), np.array(quantiles[:1:-1])
    reach = np.where(high > low, (high - low) * FAR.reshape(-1, *[1] * (low.ndim - 1)), np.inf)
    return (low - reach).max(axis=0), (high + reach).min(axis=0)
