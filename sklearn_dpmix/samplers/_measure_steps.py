"""Langevin steps of one atom, or of two neighbours together, in (log J, μ, log σ²).

The metric is that of the records, Σ_m ω_m s(x_m) s(x_m)ᵀ with s the score of log f, and the prior's curvature: no step
size is tuned.  It depends on where the walk is, and both proposal densities are in the acceptance probability (Girolami
& Calderhead 2011, the simplified manifold MALA).
"""

from math import exp, log, sqrt

from .._compiled import helper, sums_helper
from ._measure_state import (
    CENTRE,
    CUT,
    LARGEST,
    LEAST_DENSITY,
    LOG_LIKELIHOOD,
    N_ATOMS,
    REACH,
    TILT,
    TOTAL,
    accepts,
    copy_table,
    copy_to,
    keep_trial,
    log_base,
    log_likelihood,
    log_tilt,
)

LONGEST = 1.8  # of the steps' lengths, which go down to a fifth of it
MASS_CURVATURE, SCALE_CURVATURE = 0.25, 0.3


@helper
def step_one(rng, channel, kernel, walk):
    """A step of one atom."""
    k = int(rng.random() * walk.ints[N_ATOMS])
    step(rng, channel, kernel, walk, k, k, 1, 0.0, 0.0, -1.0)


@helper
def step_two(rng, channel, kernel, walk):
    """A step of the two atoms nearest to a random place among those above a random mass; they must stay it."""
    n, law, place, found = walk.ints[N_ATOMS], walk.law, walk.place, 0
    centre = law[CENTRE] + law[REACH] * (2.0 * rng.random() - 1.0)
    log_least = log(10.0 * law[CUT])
    least = exp(log_least + rng.random() * (log(0.1) - log_least))
    first, second = -1, -1
    a, b, c = 1e300, 1e300, 1e300  # the three least distances
    for k in range(n):
        if walk.mass[k] > least:
            found += 1
            distance = abs(place[k, 0] - centre)
            if distance < a:
                first, second = k, first
                a, b, c = distance, a, b
            elif distance < b:
                second = k
                b, c = distance, b
            elif distance < c:
                c = distance
    if found > 0:
        step(rng, channel, kernel, walk, first, max(second, 0), min(found, 2), least, centre, c)


@sums_helper
def fill_geometry(kernel, walk, size, table, table_2, density, total):
    """Gradient and metric, into ``vectors[0]`` and ``metric``, of the ``size`` atoms in ``pair`` with these tables."""
    score, roots, pair, gradient, metric = walk.score, walk.roots, walk.pair, walk.vectors[0], walk.metric
    n_nodes, n = roots.size, 3 * size
    scaled = score[6]
    for m in range(n_nodes):
        scaled[m] = roots[m] / max(density[m], LEAST_DENSITY)
    for a in range(size):
        mass = exp(pair[a, 0])
        for e in range(3):
            row, g, share, value = score[3 * a + e], table_2[e] if a else table[e], mass / total if e == 0 else 0.0, 0.0
            for m in range(n_nodes):
                y = mass * g[m] * scaled[m] - share * roots[m]
                row[m] = y
                value += y * roots[m]
            gradient[3 * a + e] = value
    for i in range(n):
        for j in range(i + 1):
            value, row, other = 0.0, score[i], score[j]
            for m in range(n_nodes):
                value += row[m] * other[m]
            metric[i, j] = value
    for a in range(size):
        i, share = 3 * a, exp(pair[a, 0]) / total
        gradient[i] += TILT * share - (TILT + 1.0) * exp(pair[a, 0])
        for b in range(a + 1):
            metric[i, 3 * b] += TILT * share * exp(pair[b, 0]) / total
        metric[i, i] += MASS_CURVATURE
        precision, d = exp(-pair[a, 2]), pair[a, 1] - kernel.prior_mean[0]
        pull = (kernel.prior_scale[0] + 0.5 * kernel.precision[0] * d * d) * precision
        gradient[i + 1] -= kernel.precision[0] * d * precision
        metric[i + 1, i + 1] += kernel.precision[0] * precision
        gradient[i + 2] += pull - kernel.prior_shape[0] - 0.5
        metric[i + 2, i + 2] += pull + SCALE_CURVATURE


@helper
def factorise(metric, n):
    """Cholesky's factor L of the metric, in place; the log of its determinant, or -inf."""
    log_determinant = 0.0
    for i in range(n):
        for j in range(i):
            value = metric[i, j]
            for k in range(j):
                value -= metric[i, k] * metric[j, k]
            metric[i, j] = value / metric[j, j]
        value = metric[i, i]
        for k in range(i):
            value -= metric[i, k] ** 2
        if not 0.0 < value < 1e300:
            return -1e300
        metric[i, i] = sqrt(value)
        log_determinant += log(metric[i, i])
    return log_determinant


@helper
def solve(metric, n, vector):
    """L⁻¹ vector, in place."""
    for i in range(n):
        for k in range(i):
            vector[i] -= metric[i, k] * vector[k]
        vector[i] /= metric[i, i]


@helper
def solve_transposed(metric, n, vector):
    """L⁻ᵀ vector, in place."""
    for i in range(n - 1, -1, -1):
        for k in range(i + 1, n):
            vector[i] -= metric[k, i] * vector[k]
        vector[i] /= metric[i, i]


@helper
def set_pair(walk, a, k):
    walk.pair[a, 0] = log(walk.mass[k])
    walk.pair[a, 1], walk.pair[a, 2] = walk.place[k, 0], walk.place[k, 1]


@helper
def step(rng, channel, kernel, walk, k, other, size, least, centre, limit):
    """A step of atom k, or with ``size`` 2 of atoms k and ``other``.

    Their masses must stay above ``least``, and their distances from ``centre`` below ``limit`` (if that is not -1).
    """
    law, pair, metric, gradient, move, n = walk.law, walk.pair, walk.metric, walk.vectors[0], walk.vectors[1], 3 * size
    set_pair(walk, 0, k)
    set_pair(walk, 1, other)
    fill_geometry(kernel, walk, size, walk.table[k], walk.table[other], walk.mix, law[TOTAL])
    log_forth = factorise(metric, n)
    if log_forth < -1e200:
        return
    length = LONGEST * exp(-1.6 * rng.random())
    solve(metric, n, gradient)
    for i in range(n):
        z = rng.standard_normal()
        log_forth -= 0.5 * z * z
        move[i] = length * (z + 0.5 * length * gradient[i])
    solve_transposed(metric, n, move)
    before, total = 0.0, law[TOTAL]
    for a in range(size):
        before += log_base(kernel, walk, pair[a, 1], pair[a, 2])
        total -= exp(pair[a, 0])
        for e in range(3):
            pair[a, e] += move[3 * a + e]
        if not (abs(move[3 * a]) < 20.0 and abs(pair[a, 1]) < 1e100 and abs(pair[a, 2]) < 500.0):
            return
        new = exp(pair[a, 0])
        if new < law[CUT] or new > LARGEST or new <= least:
            return
        if limit >= 0.0 and abs(pair[a, 1] - centre) >= limit:
            return
        total += new
    after, trial = 0.0, walk.trial
    copy_to(trial, walk.mix)
    for a in range(size):
        h = other if a else k
        after += log_base(kernel, walk, pair[a, 1], pair[a, 2])
        channel.fill_normal(walk.nodes[0], walk.ends, pair[a, 1], pair[a, 2], walk.spare[a])
        replace_in(trial, -walk.mass[h], walk.table[h, 0], exp(pair[a, 0]), walk.spare[a, 0])
    value = log_likelihood(walk, trial, total)
    ratio = value - law[LOG_LIKELIHOOD] + after - before + log_tilt(total) - log_tilt(law[TOTAL])
    if ratio < -30.0:  # as good as rejected: a step back is no e^30 times likelier than one forth
        return
    fill_geometry(kernel, walk, size, walk.spare[0], walk.spare[1], trial, total)
    log_back = factorise(metric, n)
    if log_back < -1e200:
        return
    solve(metric, n, gradient)
    for i in range(n):
        value_i = 0.0
        for j in range(i, n):
            value_i -= metric[j, i] * move[j]
        z = value_i / length - 0.5 * length * gradient[i]
        log_back -= 0.5 * z * z
    if accepts(rng, ratio + log_back - log_forth):
        for a in range(size):
            h = other if a else k
            walk.mass[h] = exp(pair[a, 0])
            walk.place[h, 0], walk.place[h, 1] = pair[a, 1], pair[a, 2]
            copy_table(walk.table[h], walk.spare[a])
        keep_trial(walk, total, value)


@helper
def replace_in(target, c, g, c2, g2):
    for m in range(target.size):
        target[m] += c * g[m] + c2 * g2[m]
