"""Pieces of a conditional distribution (``response_law``): moments, densities and quantiles of their mixture, compiled.

A ``law`` writes a piece with ``write_piece(channel, kernel, theta, X, i, h, r, out)``, piece r of atom h at row i of X;
``law.nodes`` and ``law.shares`` are a Gauss rule on [0, 1].
"""

from math import erfc, exp, inf, log, nan, sqrt

import numpy as np

from .._base.compiled import entry, helper, sums_helper
from .._base.numeric import HALF_LOG_2PI, SQRT_HALF, log_ndtr_interval, log_sum_in
from .._base.vector import erfcx_positive, exp_bounded

MASS, CENTRE, SLOPE, SD, LOW, HIGH = range(6)  # of a piece: its log mass, c, k, τ, α, β
TOTAL, MEAN, SPREAD, N_COLUMNS = range(6, 10)  # of (α, β), its log probability; of y
FAR = 45.0  # a piece whose log mass is this far below another's does not count
REACH = 9.0  # standard deviations, beyond which a normal density does not count
N_NODES = 40  # of a Gauss rule, over at most REACH standard deviations: to rounding
LEAST = 1e-15  # mass of pieces that do not count in a distribution function
TINY = 1e-300
MOST_STEPS = 4000  # of a search for a quantile: two for each halving from the largest number to the smallest


# --- moments -----------------------------------------------------------------------------------------------


@helper
def ends(low, high):
    """The part of (α, β) where a standard normal's density counts, relative to its largest there."""
    if low >= 0.0:
        return low, min(high, sqrt(low * low + REACH * REACH))
    if high <= 0.0:
        return max(low, -sqrt(high * high + REACH * REACH)), high
    return max(low, -REACH), min(high, REACH)


@helper
def cut_moments(law, low, high):
    """Mean and variance of a standard normal cut to (α, β)."""
    if low == -inf and high == inf:
        return 0.0, 1.0
    a, b = ends(low, high)
    near = min(max(0.0, a), b)  # where the density is largest
    total, first, second = 0.0, 0.0, 0.0
    for side in range(2):
        end = a if side == 0 else b
        width = abs(end - near)
        if width > 0.0:
            for m in range(N_NODES):
                t = (end - near) * law.nodes[m]
                density = width * law.shares[m] * exp(-0.5 * t * t - near * t)
                total += density
                first += density * t
                second += density * t * t
    first /= total
    return near + first, max(second / total - first * first, 0.0)


@entry
def curve_moments(law, channel, kernel, start, theta, X, column, mean, variance):
    """Mean and variance of y at each row of X in each draw, into columns from ``column`` on."""
    out = np.empty(N_COLUMNS)
    for i in range(X.shape[0]):
        for t in range(start.size - 1):
            top, total, centre, spread = -inf, 0.0, 0.0, 0.0
            for h in range(start[t], start[t + 1]):
                for r in range(law.n_pieces(channel)):
                    law.write_piece(channel, kernel, theta, X, i, h, r, out)
                    if not out[MASS] > top - FAR:
                        continue
                    if out[MASS] > top:
                        rescaled = exp(top - out[MASS]) if top > -inf else 0.0
                        total *= rescaled
                        spread *= rescaled
                        top = out[MASS]
                    share = exp(out[MASS] - top)
                    at, own = out[CENTRE], out[SD] ** 2
                    if out[SLOPE] != 0.0:
                        shift, square = cut_moments(law, out[LOW], out[HIGH])
                        at += out[SLOPE] * shift
                        own += out[SLOPE] ** 2 * square
                    total += share
                    gap = at - centre
                    centre += gap * share / total
                    spread += share * (own + gap * (at - centre))
            mean[t, column + i], variance[t, column + i] = centre, spread / total


# --- densities and distribution functions ------------------------------------------------------------------


@helper
def log_piece_density(out, y):
    """Log density of y under a piece, ``out[TOTAL]`` known: t given y is normal, cut to the same interval."""
    variance = out[SLOPE] ** 2 + out[SD] ** 2
    u = y - out[CENTRE]
    value = -0.5 * u * u / variance - 0.5 * log(variance) - HALF_LOG_2PI
    if out[TOTAL] < 0.0:
        centre, sd = out[SLOPE] * u / variance, out[SD] / sqrt(variance)
        value += log_ndtr_interval((out[LOW] - centre) / sd, (out[HIGH] - centre) / sd) - out[TOTAL]
    return value


@helper
def set_total(out):
    """Log probability of (α, β); 0 if nothing that counts is cut off."""
    is_whole = out[LOW] <= -REACH and out[HIGH] >= REACH
    out[TOTAL] = 0.0 if is_whole else min(log_ndtr_interval(out[LOW], out[HIGH]), -TINY)


@entry
def mean_log_density(law, channel, kernel, start, theta, X, y):
    """Log of the mean over draws of the density of y[i] at row i of X; NaN where x has density 0."""
    out, result = np.empty(N_COLUMNS), np.empty(X.shape[0])
    for i in range(X.shape[0]):
        top, total = -inf, 0.0
        for t in range(start.size - 1):
            top_of_x, of_x, top_of_both, of_both = -inf, 0.0, -inf, 0.0
            for h in range(start[t], start[t + 1]):
                for r in range(law.n_pieces(channel)):
                    law.write_piece(channel, kernel, theta, X, i, h, r, out)
                    if out[MASS] > -inf:
                        set_total(out)
                        top_of_x, of_x = log_sum_in(top_of_x, of_x, out[MASS])
                        both = out[MASS] + log_piece_density(out, y[i])
                        top_of_both, of_both = log_sum_in(top_of_both, of_both, both)
            if not of_x > 0.0:
                total = nan
            elif of_both > 0.0:
                top, total = log_sum_in(top, total, top_of_both + log(of_both / of_x) - top_of_x)
        result[i] = -inf if total == 0.0 else top + log(total / (start.size - 1))
    return result


@entry
def fill_table(law, channel, kernel, start, theta, X, table):
    """Pieces of all draws at the one row of X; their masses (not logs) add up to 1 except for those next to nothing.

    Returns how many rows of ``table`` were filled.
    """
    n_draws, kept = start.size - 1, 0
    for t in range(n_draws):
        first, top, total = kept, -inf, 0.0
        for h in range(start[t], start[t + 1]):
            for r in range(law.n_pieces(channel)):
                law.write_piece(channel, kernel, theta, X, 0, h, r, table[kept])
                if table[kept, MASS] > top - FAR:
                    top, total = log_sum_in(top, total, table[kept, MASS])
                    kept += 1
        last, kept = kept, first
        for row in range(first, last):
            mass = exp(table[row, MASS] - top) / total
            if mass > LEAST:
                for c in range(1, N_COLUMNS):
                    table[kept, c] = table[row, c]
                set_total(table[kept])
                shift, square = cut_moments(law, table[kept, LOW], table[kept, HIGH])
                table[kept, MASS] = mass / n_draws
                table[kept, MEAN] = table[kept, CENTRE] + table[kept, SLOPE] * shift
                table[kept, SPREAD] = sqrt(table[kept, SD] ** 2 + table[kept, SLOPE] ** 2 * square)
                kept += 1
    return kept


@helper
def piece_below(law, row, y):
    """P(y' <= y) under a piece, which as a function of t is a step from 1 to 0, as steep as k/τ is large."""
    if row[TOTAL] == 0.0 or abs(row[SLOPE]) < 1e-12 * row[SD]:
        return 0.5 * erfc((row[CENTRE] - y) * SQRT_HALF / sqrt(row[SLOPE] ** 2 + row[SD] ** 2))
    a, b = ends(row[LOW], row[HIGH])
    near = min(max(0.0, a), b)
    at, width = (y - row[CENTRE]) / row[SLOPE], REACH * row[SD] / abs(row[SLOPE])  # the step's middle, half its width
    left, right = min(max(at - width, a), b), min(max(at + width, a), b)
    below = 0.0  # the mass where t leaves no doubt
    if row[SLOPE] > 0.0 and a < left:
        below = exp(log_ndtr_interval(a, left) - row[TOTAL])
    elif row[SLOPE] < 0.0 and right < b:
        below = exp(log_ndtr_interval(right, b) - row[TOTAL])
    total = 0.0
    while left < right:  # panels end where the density is largest, and in the middle of the step
        end = right
        if left < near < end:
            end = near
        if left < at < end:
            end = at
        total += panel(law, row, y, left, end, near)
        left = end
    return min(below + total * exp(-0.5 * near * near - HALF_LOG_2PI - row[TOTAL]), 1.0)


@sums_helper
def panel(law, row, y, left, right, near):
    """∫ P(y' <= y | t) of the density of t, divided by its value at ``near``, from left to right."""
    total, width = 0.0, right - left
    offset, rate = (row[CENTRE] - y) / row[SD] * SQRT_HALF, row[SLOPE] / row[SD] * SQRT_HALF
    for m in range(N_NODES):
        t = left + width * law.nodes[m]
        u = offset + rate * t
        tail = 0.5 * exp_bounded(-u * u) * erfcx_positive(abs(u))
        tail = tail if u >= 0.0 else 1.0 - tail
        total += law.shares[m] * tail * exp_bounded(-0.5 * (t - near) * (t + near))
    return width * total


@helper
def gap_and_density(law, table, y, q, is_rough):
    """P(y' <= y) - q and the density at y, of the mixture of the table's pieces, or roughly: of normals for them."""
    below, density, total = 0.0, 0.0, 0.0
    for r in range(table.shape[0]):
        mass = table[r, MASS]
        total += mass
        if is_rough:
            u = (y - table[r, MEAN]) / table[r, SPREAD]
            below += mass * 0.5 * erfc(-u * SQRT_HALF)
            density += mass * exp(-0.5 * u * u - HALF_LOG_2PI) / table[r, SPREAD]
        else:
            below += mass * piece_below(law, table[r], y)
            density += mass * exp(log_piece_density(table[r], y))
    return below - q * total, density


@entry
def table_quantiles(law, table, mean, sd, q):
    """Quantiles of the mixture of the table's pieces: Newton steps, and halving where they leave the bracket or creep.

    No quantile is farther from the mean than sd √(q/(1 - q)) above, or √((1 - q)/q) below it (Cantelli).  A step that
    is small for sd may be large for narrow pieces: the probability must be right, too.
    """
    result = np.empty(q.size)
    for j in range(q.size):
        y = mean
        for is_rough in (True, False):
            low, high = mean - sd * sqrt((1.0 - q[j]) / q[j]), mean + sd * sqrt(q[j] / (1.0 - q[j]))
            low, high = low - 1e-9 * (high - low), high + 1e-9 * (high - low)
            for trial in range(MOST_STEPS):
                gap, density = gap_and_density(law, table, y, q[j], is_rough)
                if gap > 0.0:
                    high = y
                else:
                    low = y
                step = gap / density if density > 0.0 else inf
                error = 1e-4 if is_rough else 1e-10
                is_near = abs(step) <= error * sd and abs(gap) <= error
                if is_near or high - low <= 1e-15 * (abs(low) + abs(high)):
                    y = min(max(y - step, low), high) if step < inf else y
                    break
                may_step = (trial < 20 or trial % 2 == 0) and low < y - step < high
                y = y - step if may_step else 0.5 * (low + high)
        result[j] = y
    return result
