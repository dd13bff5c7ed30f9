"""Langevin steps of the whole population, whose atoms are shifted and spread together, and rescaling of one atom.

Where noise hides the population's shape, its mean and variance are still known well, and no move of an atom or two
changes much of either.
"""

from math import exp, log, sqrt

from ...._base.compiled import apart, apart_sums, helper
from ._factors import copy_feature, fill_feature, times_others
from ._steps import LONGEST
from ._walk_atoms import (
    CENTRE,
    LOG_LIKELIHOOD,
    N_ATOMS,
    PER_FEATURE,
    TOTAL,
    accepts,
    at,
    copy_numbers,
    draw_above,
    draw_level,
    n_above,
    random_mass,
    row,
)
from ._walk_likelihood import LEAST_DENSITY, begin_trial, keep_trial, replace_in_trial, try_sum, try_three


@apart_sums
def fill_slide(chart, walk, first, least, j, centre, density):
    """Gradient and metric by shift and log spread of feature j, of atoms above ``least``: ``gradient``, ``metric``.

    An atom's μ has derivatives 1 and μ - c, its log σ² 0 and 2.
    """
    n, tables, atoms, score, roots = walk.n_nodes, walk.tables, walk.atoms, walk.score, walk.roots
    gradient, metric, kernel = walk.gradient, walk.metric, chart.kernel
    for m in range(2 * n):
        score[m] = 0.0
    by_shift, by_spread, of_shift, of_both, of_spread = 0.0, 0.0, 0.0, 0.0, 0.0
    for k in range(first, first + int(walk.law[N_ATOMS])):
        a, g = at(walk, k), row(walk, k) + (1 + 2 * j) * n
        if atoms[a] <= least:
            continue
        mass, mean, precision = atoms[a], atoms[a + 1 + 2 * j], exp(-atoms[a + 2 + 2 * j])
        d, e = mean - centre, mean - kernel.prior_mean[j]
        for m in range(n):
            score[2 * n + m] = mass
        times_others(walk, score, 2 * n, k, j, 0, n)
        for m in range(n):
            y = score[2 * n + m] * tables[g + m]
            score[m] += y
            score[n + m] += d * y + 2.0 * score[2 * n + m] * tables[g + n + m]
        pull = (kernel.prior_scale[j] + 0.5 * kernel.precision[j] * e * e) * precision
        slope, curvature = -kernel.precision[j] * e * precision, kernel.precision[j] * precision
        by_shift += slope
        by_spread += slope * d + 2.0 * (pull - kernel.prior_shape[j] - 0.5)
        of_shift += curvature
        of_both += curvature * d
        of_spread += curvature * d * d + 4.0 * pull
    for m in range(n):
        scale = roots[m] / max(density[m], LEAST_DENSITY)
        y, z = score[m] * scale, score[n + m] * scale
        by_shift += y * walk.signed[m]
        by_spread += z * walk.signed[m]
        of_shift += y * y
        of_both += y * z
        of_spread += z * z
    gradient[0], gradient[1] = by_shift, by_spread
    metric[0, 0], metric[1, 0], metric[1, 1] = of_shift, of_both, of_spread


@helper
def log_proposal(walk, length, shift, spread):
    """Log density of a step under the gradient and metric at hand, up to a constant; -1e300 if there is none."""
    a, b, c = walk.metric[0, 0], walk.metric[1, 0], walk.metric[1, 1]
    determinant = a * c - b * b
    if not (determinant > 1e-12 * a * c and a * c < 1e300):
        return -1e300
    # the mean is length²/2 times the metric's inverse times the gradient
    half = 0.5 * length * length / determinant
    u = shift - half * (c * walk.gradient[0] - b * walk.gradient[1])
    v = spread - half * (a * walk.gradient[1] - b * walk.gradient[0])
    return 0.5 * log(determinant) - 0.5 * (a * u * u + 2.0 * b * u * v + c * v * v) / (length * length)


@helper
def log_jacobian(n_atoms, spread):
    """Of the atoms' μ, shift and spread before to those after."""
    return (n_atoms - 1.0) * spread


@apart
def slide(rng, channel, chart, walk):
    """Shift the atoms above a random mass in one feature, and spread them: μ -> c + shift + e^spread (μ - c).

    The way back has the spread with its sign changed, and the shift times -e^-spread.
    """
    law, atoms, n_atoms, trial = walk.law, walk.atoms, int(walk.law[N_ATOMS]), 2 * walk.capacity
    j = int(rng.random() * walk.n_features)
    centre = law[PER_FEATURE + 3 * j + CENTRE]
    least = random_mass(rng, walk)
    fill_slide(chart, walk, 0, least, j, centre, walk.mix)
    length = LONGEST * exp(-1.6 * rng.random())
    first, second = rng.standard_normal(), rng.standard_normal()
    if log_proposal(walk, length, 0.0, 0.0) <= -1e300:
        return
    a, b, c = walk.metric[0, 0], walk.metric[1, 0], walk.metric[1, 1]
    determinant = a * c - b * b
    half = 0.5 * length * length / determinant
    spread = length * second * sqrt(a / determinant)
    shift = length * first / sqrt(a) - spread * b / a + half * (c * walk.gradient[0] - b * walk.gradient[1])
    spread += half * (a * walk.gradient[1] - b * walk.gradient[0])
    if not (abs(spread) < 5.0 and abs(shift) < 1e100):
        return
    log_forth, scale = log_proposal(walk, length, shift, spread), exp(spread)
    begin_trial(walk)
    ratio = log_jacobian(n_above(walk, least), spread) - log_forth
    for k in range(n_atoms):
        to = at(walk, trial + k)
        copy_numbers(walk, trial + k, k)
        if atoms[to] <= least:
            continue
        atoms[to + 1 + 2 * j] = centre + shift + scale * (atoms[to + 1 + 2 * j] - centre)
        atoms[to + 2 + 2 * j] += 2.0 * spread
        if not (abs(atoms[to + 1 + 2 * j]) < 1e100 and abs(atoms[to + 2 + 2 * j]) < 500.0):
            return
        ratio += chart.log_base(walk, trial + k) - chart.log_base(walk, k)
        fill_feature(chart.densities_by(channel), walk, trial + k, k, j)
        replace_in_trial(walk, k, trial + k)
    value = try_sum(walk, law[TOTAL])
    fill_slide(chart, walk, trial, least, j, centre, walk.trial)
    ratio += value - law[LOG_LIKELIHOOD] + log_proposal(walk, length, -shift / scale, -spread)
    if accepts(rng, ratio):
        for k in range(n_atoms):
            if atoms[at(walk, k)] > least:
                copy_feature(walk, k, trial + k, j)
        keep_trial(walk, law[TOTAL], value)


@apart
def rescale(rng, channel, chart, walk):
    """Rescale an atom above a random mass about the prior's mean in one feature: μ - m and σ by the same factor.

    Of an atom beyond a bound records say only that it is there.  The prior then has a ridge along which mean and
    standard deviation grow together, by more than any step is long.
    """
    law, atoms, trial = walk.law, walk.atoms, 2 * walk.capacity
    k = draw_above(rng, walk, random_mass(rng, walk))
    if k < 0:
        return
    j = int(rng.random() * walk.n_features)
    size = 1.5 * exp(-3.0 * rng.random()) * rng.standard_normal()
    a, b, e, mean = at(walk, k), at(walk, trial), 1 + 2 * j, chart.kernel.prior_mean[j]
    copy_numbers(walk, trial, k)
    atoms[b + e] = mean + exp(size) * (atoms[a + e] - mean)
    atoms[b + e + 1] += 2.0 * size
    if not chart.is_proper(walk, b):
        return
    fill_feature(chart.densities_by(channel), walk, trial, k, j)
    ratio = chart.log_base(walk, trial) - chart.log_base(walk, k) + log_rescaling(size)
    level = draw_level(rng, walk, ratio)
    value = try_three(walk, -atoms[a], k, atoms[a], trial, 0.0, k, level)
    if value > level:
        copy_feature(walk, k, trial, j)
        keep_trial(walk, law[TOTAL], value)


@helper
def log_rescaling(size):
    """Log Jacobian of the atom's μ and log σ² before to those after."""
    return size
