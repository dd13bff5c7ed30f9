"""Normal atoms: mean and log variance of each feature."""

from math import exp, log, sqrt

import numpy as np
from scipy.special import gammainccinv, gammaln
from scipy.stats import norm

from ...._base.compiled import compiled, helper
from ...._base.numeric import HALF_LOG_2PI, LEAST_GAMMA, draw_gamma
from ...._base.restore import require_range
from ...._base.vector import exp_bounded
from ._any_noise import any_noise
from ._chart import MOVES, NARROWEST, Chart
from ._factors import copy_feature, fill, fill_feature, scale_others
from ._normal_splits import merge_features, split_features
from ._slides import rescale, slide
from ._splits import split_or_merge
from ._steps import FIRST, N_MOVING, add_slope, some_of_many, step_nearest
from ._walk_atoms import NEAR, PER_FEATURE, STIFFNESS, at, copy_atom, row

N_WIDTHS = 4.0  # standard deviations of the population on either side of its mean, where most of it is
SCALE_CURVATURE = 0.3
OF_ONE_FEATURE = 0.08, 0.13, 0.31, 0.49, 0.69, 0.78, 0.97  # moves, by what effective draws they made for their time
P_ALONE = 0.7  # of a step: it moves one feature
MOST_LOG_SIZE = 600.0  # of the product of all standard deviations: densities are floats above 1e-300


class MomentsChart(Chart):
    """Base class: a component has a mean and a variance of each feature, which splits and merges keep."""

    def variances(self):
        """Shape and scale of the inverse gamma law of each feature's variance."""
        return self.kernel.prior_shape, self.kernel.prior_scale

    def check(self, label, n_features):
        super().check(label, n_features)
        shape, scale = self.variances()
        log_size = 0.5 * float(np.log(scale / shape).sum())
        if abs(log_size) > MOST_LOG_SIZE:
            raise ValueError(
                f"sampler {label} multiplies densities of all {n_features} features, here of the order of "
                f"1e{-log_size / np.log(10.0):+.0f}: use units in which the records are nearer to 1"
            )

    def narrowest(self):
        shape, scale = self.variances()
        return np.sqrt(scale / gammainccinv(shape, NARROWEST))

    def law(self, mean, variance):
        """Centre and reach of the records, and how far means are apart, by feature."""
        shape, scale = self.variances()
        spread = scale / shape * (1.0 + 1.0 / self.kernel.precision)
        return np.column_stack([mean, 0.75 * N_WIDTHS * np.sqrt(variance), np.sqrt(spread)]).ravel()

    def moments(self, theta, j):
        return theta[:, 4 * j], theta[:, 4 * j + 1]

    @compiled
    def split(self, rng, channel, walk):
        split_or_merge(rng, channel, self, walk)


class NormalChart(MomentsChart):
    """Coordinates (μ, log σ²), once a feature."""

    can_glide = True

    def n_coordinates(self):
        return 2 * self.n_features

    def n_params(self):
        return 4 * self.n_features

    def narrowest_of(self, n):
        return np.sqrt(self.kernel.prior_scale[0] / (self.kernel.prior_shape[0] + 0.5 * n))

    def check(self, label, n_features):
        super().check(label, n_features)
        for scale in self.kernel.prior_scale:
            if not 1e-200 < scale < 1e200:
                raise ValueError(
                    f"sampler {label} takes kernels with a scale between 1e-200 and 1e200, got scale={scale:.3g}: "
                    "use another unit, for the records and the mechanism"
                )

    def seen_of(self, channel):
        return any_noise(channel)

    def densities(self, theta, points):
        values = np.ones((len(theta), points.shape[1]))
        for j, x in enumerate(points):
            values *= norm.pdf(x, theta[:, 4 * j, None], theta[:, 4 * j + 1, None])
        return values

    def fields(self):
        """With the constant of G0's log density."""
        shape, scale, precision = self.kernel.prior_shape, self.kernel.prior_scale, self.kernel.precision
        constant = np.sum(0.5 * np.log(precision) - HALF_LOG_2PI + shape * np.log(scale) - gammaln(shape))
        return super().fields() | {"constant": float(constant)}

    def start(self, places, rng):
        return self.start_at(places, rng, 0.0)

    def start_at(self, places, rng, n):
        found = np.empty((places.shape[1], 2 * self.n_features))
        for j, place in enumerate(places):
            shape = self.kernel.prior_shape[j] + 0.5 * n
            gammas = np.maximum(rng.standard_gamma(shape, len(place)), LEAST_GAMMA)
            found[:, 2 * j], found[:, 2 * j + 1] = place, np.log(self.kernel.prior_scale[j] / gammas)
        return found

    def check_places(self, **places):
        require_range(-600.0, 600.0, **{name: place[:, 1::2] for name, place in places.items()})

    @compiled
    def moves(self):
        """With one feature, fewer slides (they move all atoms, and are slow), and more births, splits and parts."""
        return OF_ONE_FEATURE if self.n_features == 1 else MOVES

    @compiled
    def blocks(self, walk):
        """Nodes of one feature are in order of their places: some of them would not stand for all."""
        if self.n_features == 1:
            return walk.n_nodes, walk.n_nodes
        return some_of_many(walk)

    @compiled
    def log_base(self, walk, k):
        return log_normal_base(self, walk, k)

    @compiled
    def draw_base(self, rng, walk, k):
        kernel, a = self.kernel, at(walk, k)
        for j in range(self.n_features):
            variance = kernel.prior_scale[j] / draw_gamma(rng, kernel.prior_shape[j])
            mean = kernel.prior_mean[j] + sqrt(variance / kernel.precision[j]) * rng.standard_normal()
            walk.atoms[a + 1 + 2 * j], walk.atoms[a + 2 + 2 * j] = mean, log(variance)

    @compiled
    def add_prior(self, walk, a, i):
        kernel, atoms, gradient, metric = self.kernel, walk.atoms, walk.gradient, walk.metric
        first = (int(walk.fence[FIRST]) - 1) // 2
        for j in range(first, first + int(walk.fence[N_MOVING]) // 2):
            e = i + 1 + 2 * (j - first)
            precision, d = exp(-atoms[a + 2 + 2 * j]), atoms[a + 1 + 2 * j] - kernel.prior_mean[j]
            pull = (kernel.prior_scale[j] + 0.5 * kernel.precision[j] * d * d) * precision
            gradient[e] -= kernel.precision[j] * d * precision
            metric[e, e] += (kernel.precision[j] + walk.law[STIFFNESS] * atoms[a]) * precision
            gradient[e + 1] += pull - kernel.prior_shape[j] - 0.5
            metric[e + 1, e + 1] += pull + SCALE_CURVATURE

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
    def densities_by(self, channel):
        """The object that has ``fill_normal``."""
        return channel

    @compiled
    def kept_by(self, channel):
        """The object whose ``fill_normal`` glides keep at their points: any will do, and a fast one is best."""
        return channel

    @compiled
    def fill(self, channel, walk, k):
        fill(self.densities_by(channel), walk, k)

    @compiled
    def choose_moving(self, rng, walk):
        choose_features(rng, walk, int(rng.random() * self.n_features))

    @compiled
    def choose_along(self, rng, walk, j):
        choose_features(rng, walk, j)

    @compiled
    def fill_moved(self, channel, walk, k, source):
        if walk.fence[N_MOVING] < walk.width - 1.0:
            fill_feature(self.densities_by(channel), walk, k, source, (int(walk.fence[FIRST]) - 1) // 2)
        else:
            fill(self.densities_by(channel), walk, k)

    @compiled
    def keep_moved(self, walk, k, source):
        if walk.fence[N_MOVING] < walk.width - 1.0:
            copy_feature(walk, k, source, (int(walk.fence[FIRST]) - 1) // 2)
        else:
            copy_atom(walk, k, source)

    @compiled
    def add_slope(self, walk, k, e, to, mass, scaled, block, done, n_kept, n_block):
        """Other features' factors are the same for a mean and its log variance, in whose row they wait for it."""
        g, by = row(walk, k) + e * walk.n_nodes + done, scaled
        if self.n_features > 1:
            by = to
            if e % 2 == 1:  # a mean's
                by = to + block
                scale_others(walk, by, scaled, k, e // 2, done, n_block)
        return add_slope(walk, walk.tables, g, to, mass, by, done, n_kept, n_block)

    @compiled
    def put(self, walk, a, theta, row):
        for j in range(self.n_features):
            self.kernel.put_params(theta, row, j, walk.atoms[a + 1 + 2 * j], exp(0.5 * walk.atoms[a + 2 + 2 * j]))

    @compiled
    def take(self, theta, row, walk):
        for j in range(self.n_features):
            walk.atoms[1 + 2 * j], walk.atoms[2 + 2 * j] = theta[row, 4 * j], 2.0 * theta[row, 4 * j + 3]

    @compiled
    def affinity(self, walk, i, j):
        atoms, distance, a, b = walk.atoms, 0.2, at(walk, i), at(walk, j)
        for _ in range(self.n_features):
            d, e = atoms[a + 1] - atoms[b + 1], atoms[a + 2] - atoms[b + 2]
            distance += 2.0 * d * d / (exp_bounded(atoms[a + 2]) + exp_bounded(atoms[b + 2])) + e * e
            a += 2
            b += 2
        return 1.0 / distance

    @compiled
    def split_place(self, rng, walk, a, b, c, share):
        return split_features(rng, walk, a, b, c, share)

    @compiled
    def merge_places(self, walk, a, b, new, share):
        return merge_features(walk, a, b, new, share)

    @compiled
    def step(self, rng, channel, walk):
        step_neighbours(rng, channel, self, walk)

    @compiled
    def slide(self, rng, channel, walk):
        if rng.random() < 0.5:
            slide(rng, channel, self, walk)
        else:
            rescale(rng, channel, self, walk)


@helper
def log_normal_base(chart, walk, k):
    """Log density of the normal-inverse-gamma law at atom k, in (μ, log σ²) of each feature."""
    kernel, atoms, value, a = chart.kernel, walk.atoms, chart.constant, at(walk, k)
    for j in range(chart.n_features):
        d, log_variance = atoms[a + 1 + 2 * j] - kernel.prior_mean[j], atoms[a + 2 + 2 * j]
        pull = (kernel.prior_scale[j] + 0.5 * kernel.precision[j] * d * d) * exp(-log_variance)
        value -= (kernel.prior_shape[j] + 0.5) * log_variance + pull
    return value


@helper
def choose_features(rng, walk, j):
    """Move all features, or more often feature j alone: a shorter step in fewer numbers, and one factor to fill."""
    if walk.n_features > 1 and rng.random() < P_ALONE:
        walk.fence[FIRST], walk.fence[N_MOVING] = 1.0 + 2.0 * j, 2.0
    else:
        walk.fence[FIRST], walk.fence[N_MOVING] = 1.0, walk.width - 1.0


@helper
def step_neighbours(rng, channel, chart, walk):
    """A step of two neighbours in a feature, which moves all features or that one."""
    j = int(rng.random() * walk.n_features) if walk.n_features > 1 else 0
    step_nearest(rng, channel, chart, walk, j)
