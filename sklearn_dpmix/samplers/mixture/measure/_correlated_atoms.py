"""Atoms of correlated normals: means, and each feature's regression on those before it."""

from math import exp, log

import numpy as np

from ...._base.compiled import apart, compiled, helper
from ...._base.numeric import LEAST_GAMMA
from ...._base.restore import require_range
from ._correlated_splits import invert, merge_covariances, split_covariance
from ._normal_atoms import SCALE_CURVATURE, MomentsChart
from ._steps import step_above, step_nearest
from ._walk_atoms import (
    LOG_LIKELIHOOD,
    N_ATOMS,
    NEAR,
    PER_FEATURE,
    TOTAL,
    accepts,
    at,
    copy_atom,
    copy_numbers,
    random_mass,
)
from ._walk_likelihood import begin_trial, keep_trial, replace_in_trial, try_sum

# Least degrees of freedom beyond n_features - 1.  With fewer the prior draws atoms more than 10^13 times as wide along
# a line as across: coordinates in floating point do not say where these are, and its density there is but rounding.
LEAST_DOF = 0.5
NEAR_SCALE = 0.7  # how far log standard deviations of atoms nearby may be
P_SLIDE = 0.3  # of a slide: it is one, not another step; it costs as many densities as there are atoms
P_ABOVE = 0.3  # of a step of two atoms: it is of any two, not of neighbours


def keeps_normal(channel):
    """Whether a normal record's release is normal under a channel's value, where nothing is clamped."""
    return vars(channel._owner).get("keeps_normal", False)


def is_clamped(channel):
    """Whether records are clamped under a channel's value."""
    return bool(np.isfinite([channel.low, channel.high]).any())


def is_near_limit(dof, n_features):
    """Whether degrees of freedom, None for the default ones, are too near the limit for the walk."""
    return dof is not None and dof < n_features - 1.0 + LEAST_DOF


class CorrelatedChart(MomentsChart):
    """Coordinates (μ_j, log s_j) once a feature, then t_ij, j < i: J = L⁻¹ has rows (t_i1, ..., 1, 0, ...)/s_i.

    s_j is in units of √Ψ_jj, so that another unit of the records changes no rounding of what chains do.  x_i given the
    features before it is normal with standard deviation s_i, and -t_ij is its slope on x_j."""

    def n_coordinates(self):
        return 2 * self.n_features + self.n_features * (self.n_features - 1) // 2

    def n_params(self):
        return int(self.kernel.at_log_det) + 1

    def check(self, label, n_features):
        super().check(label, n_features)
        if is_near_limit(self.kernel.dof, n_features):
            raise ValueError(
                f"sampler {label} takes a kernel with dof of at least n_features - {1.0 - LEAST_DOF} = "
                f'{n_features - 1.0 + LEAST_DOF}, got dof={self.kernel.dof}: use another dof, or sampler="imputed"'
            )

    def variances(self):
        d = self.n_features
        scale = 0.5 * np.array([self.kernel.prior_scale[j * (j + 3) // 2] for j in range(d)])
        return 0.5 * (self.kernel.dof - d + 1.0), scale

    def units(self):
        """√Ψ_jj."""
        return np.sqrt(2.0 * self.variances()[1])

    def lookup(self, mechanism, places, *scales):
        """One over the noise's scale, of each feature."""
        return np.array(np.broadcast_to(1.0 / np.asarray(mechanism.noise_scale_for(len(places))), places.shape))

    def factors(self, theta):
        """J of each component."""
        d, kernel = self.n_features, self.kernel
        found = np.zeros((len(theta), d, d))
        found[:, *np.tril_indices(d)] = theta[:, kernel.at_factor : kernel.at_root]
        return found

    def densities(self, theta, points):
        apart = points.T - theta[:, None, 0 : 4 * self.n_features : 4]
        values = np.exp(-0.5 * (np.einsum("kij,kpj->kpi", self.factors(theta), apart) ** 2).sum(axis=2))
        return values * np.exp(theta[:, self.kernel.at_log_det])[:, None]

    def start(self, places, rng):
        found, shape = np.zeros((places.shape[1], self.n_coordinates())), self.variances()[0]
        for j, place in enumerate(places):
            found[:, 2 * j] = place
            found[:, 2 * j + 1] = 0.5 * np.log(0.5 / np.maximum(rng.standard_gamma(shape, len(place)), LEAST_GAMMA))
        return found

    def check_places(self, **places):
        scales = slice(1, 2 * self.n_features, 2)
        require_range(-300.0, 300.0, **{name: place[:, scales] for name, place in places.items()})

    def fields(self):
        """With room for what is worked out of one atom and one record."""
        d, theta, units = self.n_features, np.zeros((1, self.n_params())), self.units()
        vectors = {name: np.zeros(d) for name in ("mean", "residual", "direction", "trial")}
        vectors |= {"units": units, "log_units": np.log(units)}
        names = "root", "inverse", "inner", "first", "second", "scratch"
        return super().fields() | vectors | {"theta": theta} | {name: np.zeros((d, d)) for name in names}

    @compiled
    def slope(self, walk, a, i, j):
        """t_ij of the atom that begins at ``a``, j <= i."""
        return 1.0 if i == j else walk.atoms[a + 1 + 2 * self.n_features + i * (i - 1) // 2 + j]

    @compiled
    def inverse_scale(self, walk, a, i):
        """1/s_i of the atom that begins at ``a``, in the records' unit."""
        return exp(-walk.atoms[a + 2 + 2 * i]) / self.units[i]

    @compiled
    def variance(self, walk, a, i):
        """s_i².  No power of a number in the records' unit: its last digit would depend on that unit."""
        scale = exp(walk.atoms[a + 2 + 2 * i]) * self.units[i]
        return scale * scale

    @compiled
    def form(self, walk, a, i):
        """t_i Q t_i', Q = Ψ + λ (μ - m)(μ - m)'."""
        kernel, value, pull = self.kernel, 0.0, 0.0
        for j in range(i + 1):
            t = self.slope(walk, a, i, j)
            pull += t * (walk.atoms[a + 1 + 2 * j] - kernel.prior_mean[j])
            for m in range(j + 1):
                twice = 1.0 if m == j else 2.0
                value += twice * t * self.slope(walk, a, i, m) * kernel.prior_scale[j * (j + 1) // 2 + m]
        return value + kernel.precision * pull * pull

    @compiled
    def log_base(self, walk, k):
        """The inverse Wishart law's in these coordinates, |dΣ| = Π_i 2 s_i^(2(d - i)) dlog s_i Π dt, i from 0."""
        kernel, a, d = self.kernel, at(walk, k), self.n_features
        value = kernel.log_constant
        for i in range(d):
            log_scale = walk.atoms[a + 2 + 2 * i] + self.log_units[i]
            value += (d - 2.0 - 2.0 * i - kernel.dof) * log_scale
            value -= 0.5 * self.inverse_scale(walk, a, i) ** 2 * self.form(walk, a, i)
        return value

    @compiled
    def draw_base(self, rng, walk, k):
        self.kernel.draw_prior(rng, self.theta, 0)
        read(self, walk, at(walk, k), self.theta, 0)

    @compiled
    def add_prior(self, walk, a, i):
        kernel, atoms, gradient, metric, d = self.kernel, walk.atoms, walk.gradient, walk.metric, self.n_features
        for r in range(d):
            at_scale, precision, pull = i + 2 + 2 * r, self.inverse_scale(walk, a, r) ** 2, 0.0
            of_form = precision * self.form(walk, a, r)
            gradient[at_scale] += of_form + d - 2.0 - 2.0 * r - kernel.dof
            metric[at_scale, at_scale] += of_form + SCALE_CURVATURE
            for j in range(r + 1):
                pull += self.slope(walk, a, r, j) * (atoms[a + 1 + 2 * j] - kernel.prior_mean[j])
            pull *= kernel.precision
            for j in range(r + 1):
                t, e = self.slope(walk, a, r, j), atoms[a + 1 + 2 * j] - kernel.prior_mean[j]
                gradient[i + 1 + 2 * j] -= precision * t * pull
                for m in range(j + 1):
                    both = kernel.precision * precision * t * self.slope(walk, a, r, m)
                    metric[i + 1 + 2 * j, i + 1 + 2 * m] += both
                if j < r:
                    row = i + 1 + 2 * d + r * (r - 1) // 2
                    q = pull * e
                    for m in range(r + 1):
                        h, low = max(j, m), min(j, m)
                        covariance = kernel.prior_scale[h * (h + 1) // 2 + low]
                        q += self.slope(walk, a, r, m) * covariance
                        if m <= j:
                            e_m = atoms[a + 1 + 2 * m] - kernel.prior_mean[m]
                            metric[row + j, row + m] += precision * (covariance + kernel.precision * e * e_m)
                    gradient[row + j] -= precision * q

    @compiled
    def is_proper(self, walk, a):
        for e in range(1, walk.width):
            if not abs(walk.atoms[a + e]) < 1e100:
                return False
        for j in range(self.n_features):
            if not abs(walk.atoms[a + 2 + 2 * j]) < 250.0:
                return False
        return True

    @compiled
    def near(self, walk, e):
        d = self.n_features
        if e > 2 * d:
            at_slope, i = e - 1 - 2 * d, 1
            while i * (i + 1) // 2 <= at_slope:
                i += 1
            j = at_slope - i * (i - 1) // 2
            return walk.law[PER_FEATURE + 3 * i + NEAR] / walk.law[PER_FEATURE + 3 * j + NEAR]
        return walk.law[PER_FEATURE + 3 * ((e - 1) // 2) + NEAR] if e % 2 == 1 else NEAR_SCALE

    @compiled
    def affinity(self, walk, i, j):
        """By the distance of the means, in units of the two covariances, and by how far scales and slopes differ."""
        atoms, a, b, d = walk.atoms, at(walk, i), at(walk, j), self.n_features
        by_first, by_second, distance = 1e-12, 1e-12, 0.2
        for f in range(d):
            first, second = self.inverse_scale(walk, a, f), self.inverse_scale(walk, b, f)
            e, e2 = 0.0, 0.0
            for g in range(f + 1):
                shift, t, t2 = atoms[a + 1 + 2 * g] - atoms[b + 1 + 2 * g], self.slope(walk, a, f, g), 1.0
                if g < f:
                    t2 = self.slope(walk, b, f, g)
                    scales = self.inverse_scale(walk, a, g) * self.inverse_scale(walk, b, g)
                    distance += (t - t2) ** 2 * first * second / scales
                e += t * shift
                e2 += t2 * shift
            by_first += (e * first) ** 2
            by_second += (e2 * second) ** 2
            distance += 4.0 * (atoms[a + 2 + 2 * f] - atoms[b + 2 + 2 * f]) ** 2
        return 1.0 / (distance + 2.0 / (1.0 / by_first + 1.0 / by_second))

    @compiled
    def split_place(self, rng, walk, a, b, c, share):
        return split_covariance(rng, self, walk, a, b, c, share)

    @compiled
    def merge_places(self, walk, a, b, new, share):
        return merge_covariances(self, walk, a, b, new, share)

    @compiled
    def put(self, walk, a, theta, row):
        invert(self, walk, a)
        kernel = self.kernel
        for i in range(self.n_features):
            theta[row, 4 * i] = walk.atoms[a + 1 + 2 * i]
            for j in range(i + 1):
                theta[row, kernel.at_root + i * (i + 1) // 2 + j] = self.root[i, j]
        kernel.complete(theta, row)

    @compiled
    def take(self, theta, row, walk):
        read(self, walk, 0, theta, row)

    @compiled
    def step(self, rng, channel, walk):
        if rng.random() < P_ABOVE:
            step_above(rng, channel, self, walk)
        else:
            step_nearest(rng, channel, self, walk, int(rng.random() * self.n_features))

    @compiled
    def slide(self, rng, channel, walk):
        if rng.random() < P_SLIDE:
            shift_or_spread(rng, channel, self, walk)
        else:
            self.step(rng, channel, walk)


@helper
def read(chart, walk, a, theta, row):
    """Write a component's μ and J as the coordinates of the atom that begins at ``a``."""
    at_slope = a + 1 + 2 * chart.n_features
    for i in range(chart.n_features):
        first = chart.kernel.at_factor + i * (i + 1) // 2
        walk.atoms[a + 1 + 2 * i] = theta[row, 4 * i]
        walk.atoms[a + 2 + 2 * i] = -log(theta[row, first + i] * chart.units[i])
        for j in range(i):
            walk.atoms[at_slope] = theta[row, first + j] / theta[row, first + i]
            at_slope += 1


@apart
def shift_or_spread(rng, channel, chart, walk):
    """Shift or spread the atoms above a random mass in one feature, about the prior's mean, by a step of random size.

    Spread by e^v, μ_j - m_j and s_j grow by that, slopes of feature j too, and slopes on it shrink.
    """
    law, atoms, n_atoms, trial, d = walk.law, walk.atoms, int(walk.law[N_ATOMS]), 2 * walk.capacity, chart.n_features
    j, least = int(rng.random() * d), random_mass(rng, walk)
    size, shift, spread = exp(-4.0 * rng.random()) * rng.standard_normal(), 0.0, 0.0
    if rng.random() < 0.5:
        shift = 0.3 * law[PER_FEATURE + 3 * j + NEAR] * size
    else:
        spread = 0.5 * size
    ratio, scale, centre = 0.0, exp(spread), chart.kernel.prior_mean[j]
    begin_trial(walk)
    for k in range(n_atoms):
        to = at(walk, trial + k)
        copy_numbers(walk, trial + k, k)
        if atoms[to] <= least:
            continue
        atoms[to + 1 + 2 * j] = centre + shift + scale * (atoms[to + 1 + 2 * j] - centre)
        atoms[to + 2 + 2 * j] += spread
        for i in range(d):
            if i < j:
                atoms[to + 1 + 2 * d + j * (j - 1) // 2 + i] *= scale
            elif i > j:
                atoms[to + 1 + 2 * d + i * (i - 1) // 2 + j] /= scale
        if not chart.is_proper(walk, to):
            return
        ratio += chart.log_base(walk, trial + k) - chart.log_base(walk, k) + (2.0 + 2.0 * j - d) * spread
        chart.fill(channel, walk, trial + k)
        replace_in_trial(walk, k, trial + k)
    value = try_sum(walk, law[TOTAL])
    if accepts(rng, ratio + value - law[LOG_LIKELIHOOD]):
        for k in range(n_atoms):
            if atoms[at(walk, k)] > least:
                copy_atom(walk, k, trial + k)
        keep_trial(walk, law[TOTAL], value)
