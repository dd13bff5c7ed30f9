"""A hidden record, or residual, kept for each release, where densities under noise have no closed form.

Allocations are integrated out in two ways, and a sweep goes over both (interweaving: Yu & Meng 2011).

By records, x is kept: given P it has density q(z | x) Σ_k w_k N(x | μ_k, L_k L_k').  By residuals, u is kept, standard
normal before z is seen, and given P and u a release has density Σ_k w_k q(z | μ_k + L_k u).  From one to the other: a
record draws its atom k; then x = μ_k + L_k u, the one way or the other, with an elliptical slice of the residual
(Murray, Adams & MacKay 2010) in between.  Under much noise atoms move far while residuals are kept, under little noise
while records are.
"""

from math import cos, exp, pi, sin

from ...._base.compiled import apart, apart_sums, helper
from ...._base.vector import exp_bounded
from ._walk_atoms import BY_RESIDUALS, HALF_LOG_2PI, at, n_all, number, row
from ._walk_draws import draw_atom
from ._walk_likelihood import refresh


@apart_sums
def fill_by_records(chart, walk, k):
    """Densities of the records under atom k, in units of the prior's scales, and their derivatives."""
    n, d, tables, atoms, records, a = walk.n_nodes, chart.n_features, walk.tables, walk.atoms, walk.records, at(walk, k)
    g = row(walk, k)
    for m in range(n):
        tables[g + m] = 0.0
    constant = 0.0
    for i in range(d):  # e = J (x - μ), row i into the place of the derivative by log s_i
        inverse, e = chart.inverse_scale(walk, a, i), g + (2 + 2 * i) * n
        constant -= atoms[a + 2 + 2 * i] + HALF_LOG_2PI
        for m in range(n):
            tables[e + m] = 0.0
        for j in range(i + 1):
            c, mean = inverse * chart.slope(walk, a, i, j), atoms[a + 1 + 2 * j]
            for m in range(n):
                tables[e + m] += c * (records[j * n + m] - mean)
        for m in range(n):
            tables[g + m] += tables[e + m] * tables[e + m]
    for m in range(n):
        tables[g + m] = exp_bounded(min(constant - 0.5 * tables[g + m], 700.0))
    for j in range(d):
        to, mean = g + (1 + 2 * j) * n, atoms[a + 1 + 2 * j]
        for m in range(n):
            tables[to + m] = 0.0
        for i in range(j, d):
            inverse, e = chart.inverse_scale(walk, a, i), g + (2 + 2 * i) * n
            c = inverse * chart.slope(walk, a, i, j)
            for m in range(n):
                tables[to + m] += c * tables[e + m]
            if i > j:
                of_slope = g + (1 + 2 * d + i * (i - 1) // 2 + j) * n
                for m in range(n):
                    tables[of_slope + m] = -tables[g + m] * inverse * tables[e + m] * (records[j * n + m] - mean)
        for m in range(n):
            tables[to + m] *= tables[g + m]
    for i in range(d):
        e = g + (2 + 2 * i) * n
        for m in range(n):
            tables[e + m] = tables[g + m] * (tables[e + m] * tables[e + m] - 1.0)


@apart_sums
def fill_by_residuals(channel, chart, walk, k):
    """Densities of the releases given the records that atom k makes of residuals, and their derivatives."""
    n, d, tables, nodes, score, g = walk.n_nodes, chart.n_features, walk.tables, walk.nodes, walk.score, row(walk, k)
    residuals = walk.residuals
    invert(chart, walk, at(walk, k))
    for m in range(walk.width * n):
        tables[g + m] = 0.0
    for i in range(d):  # x - μ into row i of ``score``, slopes by x into row d + i
        y, slope, mean, low, high = i * n, (d + i) * n, chart.mean[i], channel.low[i], channel.high[i]
        for m in range(n):
            score[y + m] = 0.0
        for j in range(i + 1):
            c = chart.root[i * d + j]
            for m in range(n):
                score[y + m] += c * residuals[j * n + m]
        z, rate = 2 * i * n, (2 * i + 1) * n
        for m in range(n):
            x = mean + score[y + m]
            inside = min(max(x, low), high)
            value, pull = channel.log_noise_slope((nodes[z + m] - inside) * nodes[rate + m])
            tables[g + m] += value
            score[slope + m] = pull * nodes[rate + m] if x == inside else 0.0
    for m in range(n):
        tables[g + m] = exp_bounded(tables[g + m])
    for i in range(d):
        slope, of_mean = (d + i) * n, g + (1 + 2 * i) * n
        for m in range(n):
            score[slope + m] *= tables[g + m]
            tables[of_mean + m] = score[slope + m]
        for j in range(i + 1):
            c, of_scale = chart.root[i * d + j], g + (2 + 2 * j) * n
            for m in range(n):
                tables[of_scale + m] += c * residuals[j * n + m] * score[slope + m]
        for r in range(1, i + 1):
            c = chart.inverse[i * d + r]
            for j in range(r):
                of_slope = g + (1 + 2 * d + r * (r - 1) // 2 + j) * n
                for m in range(n):
                    tables[of_slope + m] -= c * score[j * n + m] * score[slope + m]


@helper
def invert(chart, walk, a):
    """Work out μ, T⁻¹ with T = (t_ij), and L = T⁻¹ diag(s), of the atom that begins at ``a``."""
    d, inverse = chart.n_features, chart.inverse
    for i in range(d):
        chart.mean[i] = walk.atoms[a + 1 + 2 * i]
        for j in range(i + 1):
            value = 1.0 if i == j else 0.0
            for r in range(j, i):
                value -= chart.slope(walk, a, i, r) * inverse[r * d + j]
            inverse[i * d + j] = value
            chart.root[i * d + j] = value * (chart.units[j] * exp(walk.atoms[a + 2 + 2 * j]))


@apart
def exchange(rng, channel, chart, walk):
    """Switch from kept records to kept residuals or back, redrawing what is kept on the way."""
    n, d, n_atoms, records, residuals = walk.n_nodes, chart.n_features, n_all(walk), walk.records, walk.residuals
    by_residuals = walk.law[BY_RESIDUALS] == 1.0
    for m in range(n):
        k = number(walk, draw_atom(rng, walk, m, walk.mix[m], n_atoms, False))
        invert(chart, walk, at(walk, k))
        for i in range(d):
            if by_residuals:
                chart.residual[i] = residuals[i * n + m]
            else:  # u = L⁻¹ (x - μ)
                value = records[i * n + m] - chart.mean[i]
                for j in range(i):
                    value -= chart.root[i * d + j] * chart.residual[j]
                chart.residual[i] = value / chart.root[i * d + i]
        slice_residual(rng, channel, chart, walk, m)
        for i in range(d):
            if by_residuals:
                records[i * n + m] = made(chart, i, chart.residual)
            else:
                residuals[i * n + m] = chart.residual[i]
    walk.law[BY_RESIDUALS] = 0.0 if by_residuals else 1.0
    for k in range(n_atoms):
        chart.fill(channel, walk, number(walk, k))
    refresh(walk)


@helper
def made(chart, i, residual):
    """Feature i of the record that the atom at hand makes of a residual."""
    x = chart.mean[i]
    for j in range(i + 1):
        x += chart.root[i * chart.n_features + j] * residual[j]
    return x


@helper
def log_noise(channel, chart, walk, m, residual):
    """Log density of release m given that its record is what the atom at hand makes of a residual."""
    n, d, value = walk.n_nodes, chart.n_features, 0.0
    for i in range(d):
        x = min(max(made(chart, i, residual), channel.low[i]), channel.high[i])
        value += channel.log_noise_slope((walk.nodes[2 * i * n + m] - x) * walk.nodes[(2 * i + 1) * n + m])[0]
    return value


@helper
def slice_residual(rng, channel, chart, walk, m):
    """One step of the residual at hand that keeps its law given release m and the atom."""
    d, residual, direction, trial = chart.n_features, chart.residual, chart.direction, chart.trial
    for i in range(d):
        direction[i] = rng.standard_normal()
    level = log_noise(channel, chart, walk, m, residual) - rng.standard_exponential()
    angle = 2.0 * pi * rng.random()
    low, high = angle - 2.0 * pi, angle
    while True:
        c, s = cos(angle), sin(angle)
        for i in range(d):
            trial[i] = c * residual[i] + s * direction[i]
        if log_noise(channel, chart, walk, m, trial) >= level or high - low < 1e-12:
            break
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * rng.random()
    for i in range(d):
        residual[i] = trial[i]
