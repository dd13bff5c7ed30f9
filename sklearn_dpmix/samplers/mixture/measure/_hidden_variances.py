"""A variance of the noise kept for each release, where densities under noise have no closed form.

Laplace noise is normal noise whose variance v is 2b² times an exponential number (Andrews & Mallows 1974).  Given v, a
release of N(μ, LL') is normal, with covariance LL' + diag(v): allocations and records are integrated out.  Bounds are
dealt with feature by feature.  Let c be the record x clamped, and κ the noise's density at the distance of z from the
bounds, over that at zero.  Then κ q(z | x) <= q(z | c), and of the two parts of

    q(z | c) = κ q(z | x) + (q(z | c) - κ q(z | x))

the second is zero where x and z are within the bounds.  In the first part (z, v) is kept, in the second x: (x, 0).

Under much noise the few releases whose v is small say most, and which these are is known but roughly; residuals
(``_hidden_residuals``) are better then.  Sweeps move atoms given the ones and given the others by turns (interweaving:
Yu & Meng 2011).  From one to the other a record draws its atom, and then itself.
"""

from math import log, sqrt

from ...._base.compiled import apart, apart_sums, helper
from ...._base.numeric import HALF_LOG_2PI
from ...._base.vector import exp_bounded
from ._correlated_splits import invert
from ._hidden_residuals import made, slice_residual
from ._walk_atoms import BY_RESIDUALS, at, n_all, number, row
from ._walk_draws import draw_atoms
from ._walk_likelihood import refresh

NEAR_BOUND = 20.0  # noise scales from a bound within which a release's record may be beyond it


@helper
def packed(i, j):
    """Where entry (i, j) of a lower triangle is, row after row."""
    return i * (i + 1) // 2 + j


@helper
def factor_given(chart, walk, a):
    """Of the atom that begins at ``a``, S = MΔM' and r of all records, in units of the prior's scales.

    With D = diag(s²), V = diag(v) and r = T(y - μ), S = D + TVT' is the covariance of r.  ``score`` gets MΔ below the
    diagonal and 1/Δ on it, then M⁻¹r.
    """
    n, d, atoms, score, kept = walk.n_nodes, chart.n_features, walk.atoms, walk.score, walk.records
    at_f = packed(d, 0)
    for i in range(d):
        f = (at_f + i) * n
        for m in range(n):
            score[f + m] = 0.0
        for j in range(i + 1):
            t, y, mean, to = chart.slope(walk, a, i, j), j * n, atoms[a + 1 + 2 * j], packed(i, j) * n
            for m in range(n):
                score[f + m] += t * (kept[y + m] - mean)
                score[to + m] = 0.0
            for r in range(j + 1):
                c, v = chart.slope(walk, a, i, r) * chart.slope(walk, a, j, r), (d + r) * n
                for m in range(n):
                    score[to + m] += c * kept[v + m]
            for r in range(j):
                one, other, pivot = packed(i, r) * n, packed(j, r) * n, packed(r, r) * n
                for m in range(n):
                    score[to + m] -= score[one + m] * score[other + m] * score[pivot + m]
            if j < i:
                pivot, before = packed(j, j) * n, (at_f + j) * n
                for m in range(n):
                    score[f + m] -= score[to + m] * score[pivot + m] * score[before + m]
        pivot, square = packed(i, i) * n, chart.variance(walk, a, i)
        for m in range(n):
            score[pivot + m] = 1.0 / (max(score[pivot + m], 0.0) + square)


@apart_sums
def fill_given(chart, walk, k):
    """Densities of what is kept under atom k, in units of the prior's scales."""
    n, d, tables, score, a, g = walk.n_nodes, chart.n_features, walk.tables, walk.score, at(walk, k), row(walk, k)
    constant, log_size = -d * HALF_LOG_2PI, packed(d, d) * n
    factor_given(chart, walk, a)
    for m in range(n):
        tables[g + m], score[log_size + m] = 1.0, 0.0
    for i in range(d):
        constant -= walk.atoms[a + 2 + 2 * i]
        f, pivot, square = (packed(d, 0) + i) * n, packed(i, i) * n, chart.variance(walk, a, i)
        for m in range(n):
            tables[g + m] *= square * score[pivot + m]
            score[log_size + m] += score[pivot + m] * score[f + m] * score[f + m]
    for m in range(n):
        tables[g + m] = sqrt(tables[g + m]) * exp_bounded(min(constant - 0.5 * score[log_size + m], 700.0))


@apart_sums
def fill_given_slopes(chart, walk, k):
    """Derivatives of these densities.

    Let f be S⁻¹r.  Those of the log density are T'f by μ, s_j²(f_j² - S⁻¹_jj) by log s_j, and
    v_j (f_i (T'f)_j - (S⁻¹T)_ij) - f_i (y - μ)_j by t_ij.  ``score`` gets f in place of M⁻¹r, then S⁻¹.
    """
    n, d, atoms, tables, score, kept = walk.n_nodes, chart.n_features, walk.atoms, walk.tables, walk.score, walk.records
    a, g = at(walk, k), row(walk, k)
    at_f, at_inverse = packed(d, 0), packed(d, d)
    factor_given(chart, walk, a)
    for j in range(d - 1, -1, -1):
        pivot, f = packed(j, j) * n, (at_f + j) * n
        for i in range(d - 1, j - 1, -1):
            to = (at_inverse + packed(i, j)) * n
            for m in range(n):
                score[to + m] = score[pivot + m] if i == j else 0.0
            for r in range(j + 1, d):
                below, known = packed(r, j) * n, (at_inverse + packed(max(i, r), min(i, r))) * n
                for m in range(n):
                    score[to + m] -= score[below + m] * score[pivot + m] * score[known + m]
        for r in range(j + 1, d):
            below, after = packed(r, j) * n, (at_f + r) * n
            for m in range(n):
                score[f + m] -= score[below + m] * score[after + m]
        for m in range(n):
            score[f + m] *= score[pivot + m]
    for j in range(d):
        of_mean, of_scale = g + (1 + 2 * j) * n, g + (2 + 2 * j) * n
        f, inverse, square = (at_f + j) * n, (at_inverse + packed(j, j)) * n, chart.variance(walk, a, j)
        for m in range(n):
            tables[of_mean + m] = 0.0
            tables[of_scale + m] = tables[g + m] * square * (score[f + m] * score[f + m] - score[inverse + m])
        for i in range(j, d):
            t, f = chart.slope(walk, a, i, j), (at_f + i) * n
            for m in range(n):
                tables[of_mean + m] += t * score[f + m]
        y, v, mean = j * n, (d + j) * n, atoms[a + 1 + 2 * j]
        for i in range(j + 1, d):
            f, to = (at_f + i) * n, g + (1 + 2 * d + i * (i - 1) // 2 + j) * n
            for m in range(n):
                tables[to + m] = score[f + m] * (kept[v + m] * tables[of_mean + m] - (kept[y + m] - mean))
            for r in range(j, d):
                c, inverse = chart.slope(walk, a, r, j), (at_inverse + packed(max(i, r), min(i, r))) * n
                for m in range(n):
                    tables[to + m] -= c * kept[v + m] * score[inverse + m]
            for m in range(n):
                tables[to + m] *= tables[g + m]
        for m in range(n):
            tables[of_mean + m] *= tables[g + m]


@apart_sums
def fill_pair(chart, walk, k):
    """``fill_given`` for two features, in one loop."""
    n, atoms, tables, kept, a, g = walk.n_nodes, walk.atoms, walk.tables, walk.records, at(walk, k), row(walk, k)
    constant = -2.0 * HALF_LOG_2PI - atoms[a + 2] - atoms[a + 4]
    mean, second_mean, t = atoms[a + 1], atoms[a + 3], atoms[a + 5]
    square, second_square = chart.variance(walk, a, 0), chart.variance(walk, a, 1)
    for m in range(n):
        y, y2, v, v2 = kept[m] - mean, kept[n + m] - second_mean, kept[2 * n + m], kept[3 * n + m]
        pivot = 1.0 / (square + v)
        pivot2 = 1.0 / (second_square + t * t * v * (square * pivot) + v2)
        r2 = y2 + t * y - t * v * pivot * y
        density = exp_bounded(min(constant - 0.5 * (pivot * y * y + pivot2 * r2 * r2), 700.0))
        tables[g + m] = density * sqrt((square * pivot) * (second_square * pivot2))


@apart_sums
def fill_pair_slopes(chart, walk, k):
    """``fill_given_slopes`` for two features, in one loop."""
    n, atoms, tables, kept, a, g = walk.n_nodes, walk.atoms, walk.tables, walk.records, at(walk, k), row(walk, k)
    mean, second_mean, t = atoms[a + 1], atoms[a + 3], atoms[a + 5]
    square, second_square = chart.variance(walk, a, 0), chart.variance(walk, a, 1)
    for m in range(n):
        y, y2, v, v2 = kept[m] - mean, kept[n + m] - second_mean, kept[2 * n + m], kept[3 * n + m]
        density, pivot = tables[g + m], 1.0 / (square + v)
        below = t * v * pivot  # M_21
        pivot2 = 1.0 / (second_square + t * t * v * (square * pivot) + v2)
        r2 = y2 + t * y - below * y
        f2 = pivot2 * r2
        f = pivot * y - below * f2
        off = -below * pivot2
        a1 = f + t * f2
        tables[g + n + m] = density * a1
        tables[g + 2 * n + m] = density * square * (f * f - pivot + below * off)
        tables[g + 3 * n + m] = density * f2
        tables[g + 4 * n + m] = density * second_square * (f2 * f2 - pivot2)
        tables[g + 5 * n + m] = density * (f2 * (v * a1 - y) - v * (off + t * pivot2))


@apart
def exchange(rng, channel, chart, walk):
    """Draw records given what is kept, and what is kept given them: residuals for variances, if the chart has both."""
    n, d, n_atoms, residuals = walk.n_nodes, chart.n_features, n_all(walk), walk.residuals
    by_residuals, is_changed = walk.law[BY_RESIDUALS] == 1.0, chart.of_variances < 1.0
    walk.law[BY_RESIDUALS] = 1.0 if is_changed and not by_residuals else 0.0
    draw_atoms(rng, walk, walk.trial)
    first, after = walk.marks, walk.score  # of an atom's records
    for k in range(n_atoms):
        first[k] = -1.0
    for m in range(n - 1, -1, -1):
        k = int(walk.trial[m])
        after[m], first[k] = first[k], m
    for k in range(n_atoms):
        a, m = at(walk, number(walk, k)), int(first[k])
        if m >= 0:
            invert(chart, walk, a)
        while m >= 0:
            if by_residuals:
                for i in range(d):
                    chart.residual[i] = residuals[i * n + m]
            else:
                if d == 2:
                    draw_pair(rng, chart, walk, a, m)
                else:
                    draw_record(rng, chart, walk, a, m)
                if is_near_bound(channel, walk, m):
                    slice_residual(rng, channel, chart, walk, m)
            for i in range(d):
                if walk.law[BY_RESIDUALS] == 1.0:
                    residuals[i * n + m] = chart.residual[i]
                else:
                    is_changed = keep(rng, channel, walk, i, m, made(chart, i, chart.residual)) or is_changed
            m = int(after[m])
    if is_changed:
        for k in range(n_atoms):
            chart.fill(channel, walk, number(walk, k))
        refresh(walk)


@helper
def is_near_bound(channel, walk, m):
    """Whether record m may well be beyond a bound, where what is kept often is the record itself, and stays the same.

    By the release alone, not by what is kept: a step that keeps the law of a record given its release, taken only where
    the record is kept, would keep neither that law nor the one given this.
    """
    for j in range(walk.n_features):
        z, reach = walk.nodes[2 * j * walk.n_nodes + m], NEAR_BOUND / walk.nodes[(2 * j + 1) * walk.n_nodes + m]
        if min(z - channel.low[j], channel.high[j] - z) < reach:
            return True
    return False


@helper
def draw_record(rng, chart, walk, a, m):
    """Draw the residual of record m, given that it is of the atom that begins at ``a``, and what is kept of it.

    From their law u, and y = μ + Lu + w with w ~ N(0, V), are drawn; u then moves by diag(s) S⁻¹ T times what y lacks
    of the one that is kept (Matheron's rule).
    """
    n, d, kept = walk.n_nodes, chart.n_features, walk.records
    u, lack, factor = chart.residual, chart.direction, chart.first
    for j in range(d):
        u[j] = rng.standard_normal()
        lack[j] = kept[j * n + m] - sqrt(kept[(d + j) * n + m]) * rng.standard_normal()
    for j in range(d):
        lack[j] -= made(chart, j, u)
    for i in range(d - 1, -1, -1):  # times T, from below
        for j in range(i):
            lack[i] += chart.slope(walk, a, i, j) * lack[j]
    for i in range(d):
        for j in range(i + 1):
            value = 0.0
            for r in range(j + 1):
                value += chart.slope(walk, a, i, r) * chart.slope(walk, a, j, r) * kept[(d + r) * n + m]
            for r in range(j):
                value -= factor[i, r] * factor[j, r] * factor[r, r]
            factor[i, j] = value if j < i else 1.0 / (max(value, 0.0) + chart.root[i, i] ** 2)
            if j < i:
                lack[i] -= value * factor[j, j] * lack[j]
    for j in range(d - 1, -1, -1):
        for r in range(j + 1, d):
            lack[j] -= factor[r, j] * lack[r]
        lack[j] *= factor[j, j]
        u[j] += lack[j] * chart.root[j, j]


@helper
def draw_pair(rng, chart, walk, a, m):
    """``draw_record`` for two features."""
    n, kept, u, t = walk.n_nodes, walk.records, chart.residual, walk.atoms[a + 5]
    s, both, s2, v, v2 = chart.root[0, 0], chart.root[1, 0], chart.root[1, 1], kept[2 * n + m], kept[3 * n + m]
    u[0] = rng.standard_normal()
    r = kept[m] - chart.mean[0] - s * u[0] - sqrt(v) * rng.standard_normal()
    u[1] = rng.standard_normal()
    r2 = kept[n + m] - chart.mean[1] - both * u[0] - s2 * u[1] - sqrt(v2) * rng.standard_normal()
    pivot = 1.0 / (s * s + v)
    below = t * v * pivot
    f2 = (r2 + t * r - below * r) / (s2 * s2 + t * t * v * (s * s * pivot) + v2)
    u[0] += s * (pivot * r - below * f2)
    u[1] += s2 * f2


@helper
def keep(rng, channel, walk, j, m, x):
    """Draw what is kept of feature j of record m, given that it is x; return whether it is another than before."""
    n, nodes, kept, low, high = walk.n_nodes, walk.nodes, walk.records, channel.low[j], channel.high[j]
    z, rate, at_variance = nodes[2 * j * n + m], nodes[(2 * j + 1) * n + m], (walk.n_features + j) * n + m
    y, v, part = kept[j * n + m], kept[at_variance], 0.0  # the log share of the first part
    if not (low <= x <= high and low <= z <= high):
        part += channel.log_noise((z - x) * rate, 1.0) - channel.log_noise((z - min(max(x, low), high)) * rate, 1.0)
        part += channel.log_noise((z - min(max(z, low), high)) * rate, 1.0) - channel.log_noise(0.0, 1.0)
    if part < 0.0 and part < log(1.0 - rng.random()):
        kept[j * n + m], kept[at_variance] = x, 0.0
    else:
        kept[j * n + m], kept[at_variance] = z, channel.draw_variance(rng, (z - x) * rate) / (rate * rate)
    return y != kept[j * n + m] or v != kept[at_variance]
