"""A residual kept for each release, where densities under noise have no closed form.

A record of atom k is x = μ_k + L_k u.  The residual u is standard normal before z is seen, and given the mixture and u
a release has density Σ_k w_k q(z | μ_k + L_k u).
"""

from math import cos, pi, sin

from ...._base.compiled import apart_sums, helper
from ...._base.vector import exp_bounded
from ._correlated_splits import invert
from ._walk_atoms import at, row


@apart_sums
def fill_by_residuals(channel, chart, walk, k):
    """Densities of the releases given the records that atom k makes of residuals."""
    n, d, tables, nodes, score, g = walk.n_nodes, chart.n_features, walk.tables, walk.nodes, walk.score, row(walk, k)
    invert(chart, walk, at(walk, k))
    for m in range(n):
        tables[g + m] = 0.0
    for i in range(d):
        make_feature(chart, walk, i)
        z, rate, mean, low, high = 2 * i * n, (2 * i + 1) * n, chart.mean[i], channel.low[i], channel.high[i]
        for m in range(n):
            x = min(max(mean + score[i * n + m], low), high)
            tables[g + m] += channel.log_noise_slope((nodes[z + m] - x) * nodes[rate + m])[0]
    for m in range(n):
        tables[g + m] = exp_bounded(tables[g + m])


@helper
def make_feature(chart, walk, i):
    """Write feature i of records less its mean, of the atom at hand, into row i of ``score``."""
    n, score, residuals, y = walk.n_nodes, walk.score, walk.residuals, i * walk.n_nodes
    for m in range(n):
        score[y + m] = 0.0
    for j in range(i + 1):
        c = chart.root[i, j]
        for m in range(n):
            score[y + m] += c * residuals[j * n + m]


@apart_sums
def fill_slopes_by_residuals(channel, chart, walk, k):
    """Their derivatives."""
    n, d, tables, nodes, score, g = walk.n_nodes, chart.n_features, walk.tables, walk.nodes, walk.score, row(walk, k)
    residuals = walk.residuals
    invert(chart, walk, at(walk, k))
    for m in range(n, walk.width * n):
        tables[g + m] = 0.0
    for i in range(d):  # x - μ into row i of ``score``, slopes by x into row d + i
        make_feature(chart, walk, i)
        y, slope, mean, low, high = i * n, (d + i) * n, chart.mean[i], channel.low[i], channel.high[i]
        z, rate, of_mean = 2 * i * n, (2 * i + 1) * n, g + (1 + 2 * i) * n
        for m in range(n):
            x = mean + score[y + m]
            inside = min(max(x, low), high)
            pull = channel.log_noise_slope((nodes[z + m] - inside) * nodes[rate + m])[1]
            score[slope + m] = tables[g + m] * pull * nodes[rate + m] if x == inside else 0.0
            tables[of_mean + m] = score[slope + m]
    for i in range(d):
        slope = (d + i) * n
        for j in range(i + 1):
            c, of_scale = chart.root[i, j], g + (2 + 2 * j) * n
            for m in range(n):
                tables[of_scale + m] += c * residuals[j * n + m] * score[slope + m]
        for r in range(1, i + 1):
            c = chart.inverse[i, r]
            for j in range(r):
                of_slope = g + (1 + 2 * d + r * (r - 1) // 2 + j) * n
                for m in range(n):
                    tables[of_slope + m] -= c * score[j * n + m] * score[slope + m]


@apart_sums
def fill_pair_by_residuals(channel, chart, walk, k):
    """``fill_by_residuals`` for two features, in one loop."""
    n, tables, nodes, residuals, g = walk.n_nodes, walk.tables, walk.nodes, walk.residuals, row(walk, k)
    invert(chart, walk, at(walk, k))
    mean, mean2, l11, l21, l22 = chart.mean[0], chart.mean[1], chart.root[0, 0], chart.root[1, 0], chart.root[1, 1]
    low, high, low2, high2 = channel.low[0], channel.high[0], channel.low[1], channel.high[1]
    for m in range(n):
        x, x2 = mean + l11 * residuals[m], mean2 + (l21 * residuals[m] + l22 * residuals[n + m])
        inside, inside2 = min(max(x, low), high), min(max(x2, low2), high2)
        value = channel.log_noise_slope((nodes[m] - inside) * nodes[n + m])[0]
        value += channel.log_noise_slope((nodes[2 * n + m] - inside2) * nodes[3 * n + m])[0]
        tables[g + m] = exp_bounded(value)


@apart_sums
def fill_pair_slopes_by_residuals(channel, chart, walk, k):
    """``fill_slopes_by_residuals`` for two features, in one loop."""
    n, tables, nodes, residuals, g = walk.n_nodes, walk.tables, walk.nodes, walk.residuals, row(walk, k)
    invert(chart, walk, at(walk, k))
    mean, mean2, l11, l21, l22 = chart.mean[0], chart.mean[1], chart.root[0, 0], chart.root[1, 0], chart.root[1, 1]
    low, high, low2, high2 = channel.low[0], channel.high[0], channel.low[1], channel.high[1]
    for m in range(n):
        y, y2 = l11 * residuals[m], l21 * residuals[m] + l22 * residuals[n + m]
        x, x2, rate, rate2 = mean + y, mean2 + y2, nodes[n + m], nodes[3 * n + m]
        inside, inside2 = min(max(x, low), high), min(max(x2, low2), high2)
        pull = channel.log_noise_slope((nodes[m] - inside) * rate)[1]
        pull2 = channel.log_noise_slope((nodes[2 * n + m] - inside2) * rate2)[1]
        density = tables[g + m]
        slope = density * pull * rate if x == inside else 0.0
        slope2 = density * pull2 * rate2 if x2 == inside2 else 0.0
        tables[g + n + m] = slope
        tables[g + 2 * n + m] = y * slope + l21 * residuals[m] * slope2
        tables[g + 3 * n + m] = slope2
        tables[g + 4 * n + m] = l22 * residuals[n + m] * slope2
        tables[g + 5 * n + m] = -y * slope2


@helper
def made(chart, i, residual):
    """Feature i of the record that the atom at hand makes of a residual."""
    x = chart.mean[i]
    for j in range(i + 1):
        x += chart.root[i, j] * residual[j]
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
