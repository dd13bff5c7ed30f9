"""Additive noise of any kind, of which only the density is known: parts of it on which that is a polynomial."""

from math import exp, inf

import numpy as np
from numpy.polynomial import legendre

from ...._base.compiled import entry
from ._interval import FINE_POINTS, FINE_WEIGHTS, N_FINE, OneByOne

#: From values at these to the last two Legendre coefficients
OF_LAST = (legendre.legvander(FINE_POINTS, N_FINE - 1) * (np.arange(N_FINE) + 0.5))[:, -2:] * FINE_WEIGHTS[:, None]
ROUGH, LEAST_PART = 1e-11, 1e-13  # of the largest density of a part; of its distance from zero
LEAST_SEEN, MOST_ROUGH = 1e-290, 5000  # density that counts; parts at once
FAR, MOST_JUMPS = 8.0, 100  # widths of the bounds beyond which jumps are not looked for; more are not told of


class OfNoise(OneByOne):
    """Such noise of one scale, on records of an interval that are moved to bounds, and some releases."""

    def __init__(self, mechanism, places, low, width):
        self.places = places
        self.channel = mechanism._lower(n_records=1, n_features=1)
        self.bounds = self.channel.low[0], self.channel.high[0]
        low, high = np.clip([low, low + width], *self.bounds)
        self.breaks, _ = parts_between(self.channel, places.min() - high, places.max() - low)

    def ends(self, i, edges):
        """Ends of parts of the cells in which the density of release i is a polynomial of the record."""
        breaks = np.append(self.places[i] - self.breaks, self.bounds)
        return np.union1d(edges, breaks[(breaks > edges[0]) & (breaks < edges[-1])])

    def density(self, i, y):
        """q(z_i | y)."""
        return noise_density(self.channel, self.places[i] - np.clip(y, *self.bounds))


def jumps_of(channel, width):
    """Noise at which its density bends or jumps: zero and, unless they are many, the jumps near it."""
    jumps = parts_between(channel, -FAR * width, FAR * width)[1]
    is_other = np.diff(jumps, prepend=-inf) > 1e-9 * channel.noise[0]
    return np.union1d(0.0, jumps[is_other]) if is_other.sum() <= MOST_JUMPS else np.zeros(1)


def parts_between(channel, low, high):
    """Noise from ``low`` to ``high`` between which its density is a polynomial of degree below 16, but for rounding.

    And, in order, the ends of parts that are as good as points, around jumps.
    """
    scale = channel.noise[0]
    n = int(np.ceil(np.log2(max((high - low) / scale, 1.0)))) + 2
    steps = scale * 2.0 ** np.arange(-2, n)
    first = np.unique(np.clip(np.concatenate([[low], -steps, [0.0], steps, [high]]), low, high))
    found, jumps = halved_where_rough(channel, first)
    if len(jumps):  # then the many parts are not needed that led to them
        found, _ = halved_where_rough(channel, np.union1d(first, jumps))
    return found, jumps


def halved_where_rough(channel, edges):
    """These edges and middles of parts whose last Legendre coefficients count; ends of those that are but points."""
    scale = channel.noise[0]
    found, jumps, ends = [edges], [], np.column_stack([edges[:-1], edges[1:]])
    while 0 < len(ends) <= MOST_ROUGH:
        middle, half = ends.mean(axis=1), 0.5 * np.diff(ends)[:, 0]
        values = noise_density(channel, middle[:, None] + half[:, None] * FINE_POINTS)
        most, last = values.max(axis=1), np.abs(values @ OF_LAST).max(axis=1)
        fall = np.log(np.maximum(most, LEAST_SEEN) / np.maximum(values.min(axis=1), LEAST_SEEN))
        rounding = np.finfo(float).eps * np.abs(middle) * fall / half  # of the noise, in the log density
        is_rough = (last > most * (ROUGH + 8.0 * rounding)) & (most > LEAST_SEEN)
        is_point = half <= LEAST_PART * (np.abs(middle) + scale)
        jumps.append(ends[is_point].ravel())
        ends, middle = ends[is_rough & ~is_point], middle[is_rough & ~is_point]
        found.append(middle)
        ends = np.concatenate([np.column_stack([ends[:, 0], middle]), np.column_stack([middle, ends[:, 1]])])
    return np.unique(np.concatenate(found)), np.unique(np.concatenate([np.empty(0), *jumps]))


def noise_density(channel, noise):
    """The density of an additive channel's noise of one scale, (parts, points)."""
    found = np.empty(noise.size)
    fill_density(channel, noise.ravel(), found)
    if not np.isfinite(found).all():
        worst = np.argmin(np.isfinite(found))
        raise ValueError(
            f"{channel._owner.__name__}.log_noise(e, scale) must be the log of a finite density (-inf where there is "
            f"no noise), but the density is {found[worst]} at e={noise.flat[worst]:.6g}: return a number there"
        )
    return found.reshape(noise.shape)


@entry
def fill_density(channel, noise, found):
    for i in range(noise.size):
        found[i] = exp(channel.log_noise(noise[i], channel.noise[0]))
