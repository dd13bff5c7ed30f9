"""Atoms of beta kernels, with g by a table of the interval."""

from math import exp, log

import numpy as np
from scipy.special import betaln, gammainccinv

from ...._base.beta_numeric import digamma, log_beta
from ...._base.compiled import compiled
from ...._base.restore import require_range
from ...._base.table import padded
from ...._base.vector import exp_bounded
from ._chart import Chart
from ._interval import Spots, grid
from ._on_interval import CELL, MARGIN, InBins, OnInterval
from ._steps import step_above
from ._walk_atoms import at, row

CURVATURE = 0.3
END = 1e-4  # share of the interval that is left to a power of the distance from an end
GROWTH = 3.0  # of the cells there
REACH = 12.0  # standard deviations from the mean, with mass
UNLIKELY = 1e-6  # prior probability of a larger shape


class BetaChart(OnInterval, Chart):
    """Coordinates (log a, log b); one feature.

    Next to an end the density is a power: the mass there has a formula, and a row of the table of its own.
    """

    def __init__(self, kernel, n_features, channel=None, finer=1.0, narrow=None):
        super().__init__(kernel, n_features, channel)
        self.low, self.width = float(kernel.low), float(kernel.width)
        self.most = min(float(gammainccinv(kernel.prior_shape, UNLIKELY)) / kernel.prior_rate, kernel.most)
        self.narrow = narrow
        largest = max(self.most, 1.0) if narrow is None else max(self.most, 1.0, MARGIN**2 * narrow[:, :2].max())
        self.end = END / largest / finer
        widest = CELL * self.narrowest_share() / finer
        self.grid = grid(self.end, 2.0 * self.end, widest, GROWTH, self.cuts(), self.spots(finer))

    def spots_of(self, theta):
        a, b = theta[:, 0], theta[:, 1]
        mean = a / (a + b)
        sd = np.sqrt(mean * (1.0 - mean) / (a + b + 1.0))
        return Spots(mean, REACH * sd, CELL * sd)

    def is_too_narrow(self, theta):
        """The formula for the mass next to an end is for shapes that are not too large, too."""
        return super().is_too_narrow(theta) | (theta[:, :2].max(axis=1) * self.end > MARGIN * END)

    def narrowest_share(self):
        """Standard deviation of the narrowest components, as a share of the interval."""
        return 0.5 / (2.0 * self.most + 1.0) ** 0.5

    def narrowest(self):
        return np.array([self.width * self.narrowest_share()])

    def ends(self):
        near = self.width * 4.0 ** -np.arange(1.0, 8.0)  # log f is no polynomial near the ends
        high = self.low + self.width
        return (self.low, *(self.low + near[::-1]), *(high - near), high)

    def other_rows(self, noise):
        return [noise.at_record(self.low + self.width * u) for u in (0.0, self.end, 1.0, 1.0 - self.end)]

    def n_coordinates(self):
        return 2

    def n_params(self):
        return 4

    def start(self, places, rng):
        """Around places a component as narrow as two draws from the prior make it."""
        m = np.clip((places[0] - self.low) / self.width, 0.05, 0.95)
        size = rng.standard_gamma(2.0 * self.kernel.prior_shape, len(m)) / self.kernel.prior_rate
        size = np.clip(size, 20.0 * self.kernel.least, 0.5 * self.kernel.most)
        return np.log(np.column_stack([m * size, (1.0 - m) * size]))

    def densities(self, theta, points):
        u = np.clip((points[0] - self.low) / self.width, 1e-3, 1.0 - 1e-3)
        a, b = theta[:, 0, None], theta[:, 1, None]
        return np.exp((a - 1.0) * np.log(u) + (b - 1.0) * np.log1p(-u) - betaln(a, b)) / self.width

    def moments(self, theta, j):
        a, b = theta[:, 0], theta[:, 1]
        mean, size = a / (a + b), a + b
        return self.low + self.width * mean, self.width * np.sqrt(mean * (1.0 - mean) / (size + 1.0))

    def fields(self):
        cells, n = self.grid, len(self.grid.below) + 4
        one = padded(np.zeros(n))
        log_below, log_above = one.copy(), one.copy()
        log_below[: n - 4], log_above[: n - 4] = np.log(cells.below), np.log(cells.above)
        fields = {"log_below": log_below, "log_above": log_above, "values": np.empty(3 * len(one))}
        fields |= {"n_places": np.int64(len(one)), "n_inside": np.int64(n - 4), "end": self.end}
        fields |= {"log_end": log(self.end), "log_width": log(self.width)}
        return super().fields() | fields | {"log_least": log(self.kernel.least), "log_most": log(self.kernel.most)}

    def check_places(self, **places):
        require_range(log(self.kernel.least), log(self.kernel.most), **places)

    @compiled
    def log_base(self, walk, k):
        kernel, a = self.kernel, at(walk, k)
        x, y = walk.atoms[a + 1], walk.atoms[a + 2]
        return kernel.log_prior_constant + kernel.prior_shape * (x + y) - kernel.prior_rate * (exp(x) + exp(y))

    @compiled
    def draw_base(self, rng, walk, k):
        a = at(walk, k)
        walk.atoms[a + 1], walk.atoms[a + 2] = log(self.kernel.draw_shape(rng)), log(self.kernel.draw_shape(rng))

    @compiled
    def add_prior(self, walk, a, i):
        for e in range(1, 3):
            pull = self.kernel.prior_rate * exp(walk.atoms[a + e])
            walk.gradient[i + e] += self.kernel.prior_shape - pull
            walk.metric[i + e, i + e] += pull + CURVATURE

    @compiled
    def is_proper(self, walk, a):
        for e in range(1, 3):
            if not self.log_least <= walk.atoms[a + e] <= self.log_most:
                return False
        return True

    @compiled
    def near(self, walk, e):
        return 1.0

    @compiled
    def fill(self, channel, walk, k):
        atom, g, n = at(walk, k), row(walk, k), walk.n_nodes
        a, b = exp(walk.atoms[atom + 1]), exp(walk.atoms[atom + 2])
        values, size, inside = self.values, self.n_places, self.n_inside
        both = digamma(a + b)
        of_a, of_b, norm = digamma(a) - both, digamma(b) - both, -log_beta(a, b)
        for p in range(inside):
            x, y = self.log_below[p], self.log_above[p]
            f = exp_bounded((a - 1.0) * x + (b - 1.0) * y + norm - self.log_width)
            values[p] = f
            values[size + p] = f * a * (x - of_a)
            values[2 * size + p] = f * b * (y - of_b)
        for p in range(inside, size):
            values[p] = values[size + p] = values[2 * size + p] = 0.0
        self.put_end(a, b, of_a, of_b, norm, inside, size, 2 * size)
        self.put_end(b, a, of_b, of_a, norm, inside + 2, 2 * size, size)
        self.multiply(walk.nodes, n, walk.tables, g, g + n)

    @compiled
    def put_end(self, a, b, of_a, of_b, norm, p, by_a, by_b):
        """The mass within δ of the lower end, ∫_0^δ x^(a - 1) (1 - x)^(b - 1) dx/B(a, b), to first order in b δ.

        As masses at 0 and at δ that have its mean, δ a/(a + 1).
        """
        mass = exp_bounded(min(a * self.log_end + norm - log(a), 0.0))
        change = (b - 1.0) * self.end * a / (a + 1.0)
        mass *= max(1.0 - change, 0.0)
        slope, far, values = a * (self.log_end - of_a) - 1.0, a / (a + 1.0), self.values
        values[p], values[p + 1] = mass * (1.0 - far), mass * far
        values[by_a + p] = mass * (1.0 - far) * (slope - far)
        values[by_a + p + 1] = mass * far * (slope + 1.0 - far)
        values[by_b + p] = -mass * (1.0 - far) * b * of_b
        values[by_b + p + 1] = -mass * far * b * of_b

    @compiled
    def put(self, walk, a, theta, row):
        self.kernel.put_params(theta, row, exp(walk.atoms[a + 1]), exp(walk.atoms[a + 2]))

    @compiled
    def take(self, theta, row, walk):
        walk.atoms[1], walk.atoms[2] = log(theta[row, 0]), log(theta[row, 1])

    @compiled
    def step(self, rng, channel, walk):
        step_above(rng, channel, self, walk)


class BetaInBins(InBins, BetaChart):
    """Under a channel that tells bins apart."""

    def shares(self):
        inside = self.grid.weights * self.width
        return np.concatenate([self.grid.below, [0.0, 0.0, 1.0, 1.0]]), np.append(inside, np.ones(4))
