"""Normal atoms: mean and log variance of each feature."""

from math import exp, log, sqrt

import numpy as np
from scipy.special import gammaln
from scipy.stats import norm

from .._compiled import apart, compiled, helper
from .._restore import require_range
from ._measure_chart import Chart
from ._measure_slides import slide
from ._measure_splits import split_or_merge
from ._measure_state import CENTRE, CUT, HALF_LOG_2PI, N_ATOMS, NEAR, PER_FEATURE, REACH, at, row
from ._measure_steps import AXIS, FROM, LEAST, LIMIT, step

N_WIDTHS = 4.0  # standard deviations of the population on either side of its mean, where most of it is
SCALE_CURVATURE = 0.3


class NormalChart(Chart):
    """Coordinates (μ, log σ²), once a feature."""

    def n_coordinates(self):
        return 2 * self.n_features

    def n_params(self):
        return 4 * self.n_features

    def law(self, mean, variance):
        """Centre and reach of the records, and how far means are apart, by feature."""
        kernel = self.kernel
        spread = kernel.prior_scale / kernel.prior_shape * (1.0 + 1.0 / kernel.precision)
        return np.column_stack([mean, 0.75 * N_WIDTHS * np.sqrt(variance), np.sqrt(spread)]).ravel()

    def densities(self, theta, points):
        values = np.ones((len(theta), points.shape[1]))
        for j, x in enumerate(points):
            values *= norm.pdf(x, theta[:, 4 * j, None], theta[:, 4 * j + 1, None])
        return values

    def moments(self, theta, j):
        return theta[:, 4 * j], theta[:, 4 * j + 1]

    def fields(self):
        """With the constant of G0's log density."""
        shape, scale, precision = self.kernel.prior_shape, self.kernel.prior_scale, self.kernel.precision
        constant = np.sum(0.5 * np.log(precision) - HALF_LOG_2PI + shape * np.log(scale) - gammaln(shape))
        return super().fields() | {"constant": float(constant)}

    def start(self, places, rng):
        found = np.empty((places.shape[1], 2 * self.n_features))
        for j, place in enumerate(places):
            variance = self.kernel.prior_scale[j] / rng.standard_gamma(self.kernel.prior_shape[j], len(place))
            found[:, 2 * j], found[:, 2 * j + 1] = place, np.log(variance)
        return found

    def check_places(self, **places):
        require_range(-600.0, 600.0, **{name: place[:, 1::2] for name, place in places.items()})

    @compiled
    def log_base(self, walk, k):
        kernel, atoms, value, a = self.kernel, walk.atoms, self.constant, at(walk, k)
        for j in range(self.n_features):
            d, log_variance = atoms[a + 1 + 2 * j] - kernel.prior_mean[j], atoms[a + 2 + 2 * j]
            pull = (kernel.prior_scale[j] + 0.5 * kernel.precision[j] * d * d) * exp(-log_variance)
            value -= (kernel.prior_shape[j] + 0.5) * log_variance + pull
        return value

    @compiled
    def draw_base(self, rng, walk, k):
        kernel, a = self.kernel, at(walk, k)
        for j in range(self.n_features):
            variance = kernel.prior_scale[j] / rng.standard_gamma(kernel.prior_shape[j])
            mean = kernel.prior_mean[j] + sqrt(variance / kernel.precision[j]) * rng.standard_normal()
            walk.atoms[a + 1 + 2 * j], walk.atoms[a + 2 + 2 * j] = mean, log(variance)

    @compiled
    def add_prior(self, walk, a, i, n):
        kernel, atoms, gradient, metric = self.kernel, walk.atoms, walk.gradient, walk.metric
        for j in range(self.n_features):
            e = i + 1 + 2 * j
            precision, d = exp(-atoms[a + 2 + 2 * j]), atoms[a + 1 + 2 * j] - kernel.prior_mean[j]
            pull = (kernel.prior_scale[j] + 0.5 * kernel.precision[j] * d * d) * precision
            gradient[e] -= kernel.precision[j] * d * precision
            metric[e * n + e] += kernel.precision[j] * precision
            gradient[e + 1] += pull - kernel.prior_shape[j] - 0.5
            metric[(e + 1) * n + e + 1] += pull + SCALE_CURVATURE

    @compiled
    def is_proper(self, walk, a):
        for j in range(self.n_features):
            if not (abs(walk.atoms[a + 1 + 2 * j]) < 1e100 and abs(walk.atoms[a + 2 + 2 * j]) < 500.0):
                return False
        return True

    @compiled
    def near(self, walk, e):
        return walk.law[PER_FEATURE + 3 * ((e - 1) // 2) + NEAR] if e % 2 == 1 else 1.0

    @compiled
    def fill(self, channel, walk, k):
        fill(channel, walk, k)

    @compiled
    def put(self, walk, a, theta, row):
        for j in range(self.n_features):
            self.kernel.set_params(theta, row, j, walk.atoms[a + 1 + 2 * j], exp(0.5 * walk.atoms[a + 2 + 2 * j]))

    @compiled
    def take(self, theta, row, walk):
        for j in range(self.n_features):
            walk.atoms[1 + 2 * j], walk.atoms[2 + 2 * j] = theta[row, 4 * j], 2.0 * theta[row, 4 * j + 3]

    @compiled
    def part(self, rng, channel, walk):
        split_or_merge(rng, channel, self, walk)

    @compiled
    def step(self, rng, channel, walk):
        step_neighbours(rng, channel, self, walk)

    @compiled
    def slide(self, rng, channel, walk):
        slide(rng, channel, self, walk)


@apart
def fill(channel, walk, k):
    """g of atom k and its derivatives: of features that are independent given their atom, a product."""
    atoms, tables, n, d, a, start = walk.atoms, walk.tables, walk.n_nodes, walk.n_features, at(walk, k), row(walk, k)
    factors = start if d == 1 else start + (1 + 2 * d) * n
    for j in range(d):
        mean, log_variance, slopes = atoms[a + 1 + 2 * j], atoms[a + 2 + 2 * j], start + (1 + 2 * j) * n
        channel.fill_normal(j, walk.nodes, n, mean, log_variance, tables, factors + j * n, slopes)
    if d == 1:
        return
    for m in range(n):
        g = 1.0
        for j in range(d):
            g *= tables[factors + j * n + m]
        tables[start + m] = g
        for j in range(d):
            others, slopes = 1.0, start + (1 + 2 * j) * n + m
            for i in range(d):
                if i != j:
                    others *= tables[factors + i * n + m]
            tables[slopes] *= others
            tables[slopes + n] *= others


@helper
def step_neighbours(rng, channel, chart, walk):
    """A step of the two atoms nearest to a random place among those above a random mass; they must stay it."""
    law, atoms, found = walk.law, walk.atoms, 0
    j = int(rng.random() * walk.n_features) if walk.n_features > 1 else 0
    place = PER_FEATURE + 3 * j
    centre = law[place + CENTRE] + law[place + REACH] * (2.0 * rng.random() - 1.0)
    log_least = log(10.0 * law[CUT])
    least = exp(log_least + rng.random() * (log(0.1) - log_least))
    first, second = -1, -1
    nearest, next_one, limit = 1e300, 1e300, 1e300  # the three least distances
    for k in range(int(law[N_ATOMS])):
        a = at(walk, k)
        if atoms[a] > least:
            found += 1
            distance = abs(atoms[a + 1 + 2 * j] - centre)
            if distance < nearest:
                first, second = k, first
                nearest, next_one, limit = distance, nearest, next_one
            elif distance < next_one:
                second = k
                next_one, limit = distance, next_one
            elif distance < limit:
                limit = distance
    if found > 0:
        fence = walk.fence
        fence[LEAST], fence[AXIS], fence[FROM], fence[LIMIT] = least, 1 + 2 * j, centre, limit
        step(rng, channel, chart, walk, first, second if found > 1 else first)
