"""Numbers of records in the cells of a histogram: proposals that keep two moments, with shares integrated out.

The K + 2 cells are on [-1, 1]: the lower bound, K bins of one width, the upper bound.  With c_k of n records in cell k
and shares ~ Dirichlet(a, ..., a), counts have weights Π Γ(a + c_k)/c_k!, and all choices of the records in a cell are
equally likely.  For four cells there is one direction in which the number, mean and mean square of their records do not
change, except for rounding.  Counts move along it, by steps on a scale on which the prior is nearly even: a cell is
often empty.
"""

from math import exp, floor, inf, lgamma, log

from .._base.compiled import helper

SHORTEST = exp(-1.0)  # step: half of the widest interval of proposals, if the whole possible range has length 1
LEAST = 0.03  # share of all records: single records move well enough without these moves
LEAST_POWER = 0.1  # largest power of the stretch: beyond this, its inverse overflows


@helper
def middle(n_cells, k):
    """Mean of cell k."""
    return min(max((2.0 * k - 1.0) / (n_cells - 2) - 1.0, -1.0), 1.0)


@helper
def mean_square(n_cells, k):
    """Mean square of cell k."""
    mean = middle(n_cells, k)
    return mean * mean + (1.0 / (3.0 * (n_cells - 2) ** 2) if 0 < k < n_cells - 1 else 0.0)


@helper
def propose_change(rng, alpha, n_cells, n, counts, cells, direction, change):
    """Propose the change of each of the counts of ``n`` records.

    Returns the log ratio of weights and proposals, -inf if there is no proposal.  ``cells`` and ``direction`` are
    scratch for four numbers.
    """
    for k in range(n_cells):
        change[k] = 0.0
    choose_four(rng, n_cells, cells)
    set_direction(n_cells, cells, direction)
    low, high = reach(counts, change, cells, direction)
    if low + high < 1.0:
        return -inf
    power, step, size = min(max(alpha, LEAST_POWER), 1.0), SHORTEST ** rng.random(), low + high + 1.0
    end = stretched((low + 0.5) / size, power) + step * (2.0 * rng.random() - 1.0)
    if not 0.0 < end < 1.0:
        return -inf
    t = min(floor(stretched(end, 1.0 / power) * size), size - 1.0) - low
    there = log_chance(power, step, low, high, t)
    if abs(t) < max(LEAST * n, 1.0) or there == -inf:
        return -inf
    set_change(n_cells, cells, direction, t, change)
    gain = 0.0
    for r in range(4):
        k = int(cells[r])
        if counts[k] + change[k] < 0.0:
            return -inf
        gain += log_weight(alpha, counts[k] + change[k]) - log_weight(alpha, counts[k])
    low, high = reach(counts, change, cells, direction)
    return gain + log_chance(power, step, low, high, -t) - there


@helper
def choose_four(rng, n_cells, cells):
    """Four different cells in order, all choices equally likely."""
    for r in range(4):
        k, at = min(int(rng.random() * (n_cells - r)), n_cells - r - 1), 0
        while at < r and k >= cells[at]:
            k += 1
            at += 1
        for s in range(r, at, -1):
            cells[s] = cells[s - 1]
        cells[at] = k


@helper
def set_direction(n_cells, cells, direction):
    """The proportions in which the four change, with no effect on sum, mean and mean square; signs + - + -, largest 1.

    These are determinants of (1, mean, mean square) of the other three, with alternating sign, and are positive: the
    cells' (mean, mean square) are corners of a convex curve.
    """
    largest = 0.0
    for r in range(4):
        a, b, c = int(cells[0 if r > 0 else 1]), int(cells[1 if r > 1 else 2]), int(cells[2 if r > 2 else 3])
        x, y = middle(n_cells, b) - middle(n_cells, a), middle(n_cells, c) - middle(n_cells, a)
        low = mean_square(n_cells, a)
        value = x * (mean_square(n_cells, c) - low) - y * (mean_square(n_cells, b) - low)
        direction[r] = value if r % 2 == 0 else -value
        largest = max(largest, abs(value))
    for r in range(4):
        direction[r] /= largest


@helper
def reach(counts, change, cells, direction):
    """(low, high): how far the counts may move down and up, in records of the cell that changes most."""
    low, high = inf, inf
    for r in range(4):
        count, rate = counts[int(cells[r])] + change[int(cells[r])], direction[r]
        if rate > 0.0:
            low = min(low, count / rate)
        elif rate < 0.0:
            high = min(high, count / -rate)
    return floor(low + 0.5), floor(high + 0.5)


@helper
def set_change(n_cells, cells, direction, t, change):
    """Whole numbers near t times the direction that add up to 0; -t gives them with the other sign."""
    a, b, c, d = int(cells[0]), int(cells[1]), int(cells[2]), int(cells[3])
    last = middle(n_cells, d)
    change[b], change[c] = whole(t * direction[1]), whole(t * direction[2])
    lever = change[b] * (middle(n_cells, b) - last) + change[c] * (middle(n_cells, c) - last)
    change[a] = whole(lever / (last - middle(n_cells, a)))
    change[d] = -change[a] - change[b] - change[c]


@helper
def whole(value):
    """The nearest whole number; an odd function."""
    return floor(value + 0.5) if value > 0.0 else -floor(0.5 - value)


@helper
def log_weight(alpha, count):
    return lgamma(alpha + count) - lgamma(count + 1.0)


@helper
def stretched(share, power):
    """A map of [0, 1] onto itself, like share^power at its ends; ``1 / power`` undoes it."""
    if share <= 0.0 or share >= 1.0:
        return min(max(share, 0.0), 1.0)
    odds = (share / (1.0 - share)) ** power
    return odds / (1.0 + odds) if odds < 1e300 else 1.0


@helper
def log_chance(power, step, low, high, t):
    """Log probability of the proposal t: that of its interval on the stretched scale, within ``step`` of the middle."""
    if t < -low or t > high:
        return -inf
    size = low + high + 1.0
    centre = stretched((low + 0.5) / size, power)
    begin = max(stretched((low + t) / size, power), centre - step)
    end = min(stretched((low + t + 1.0) / size, power), centre + step)
    return log((end - begin) / (2.0 * step)) if end > begin else -inf


@helper
def choose_cell(rng, change, n_cells):
    """A cell that gains, in proportion to what it still gains; it gains one less from now on."""
    total = 0.0
    for k in range(n_cells):
        total += max(change[k], 0.0)
    u, chosen = rng.random() * total, -1
    for k in range(n_cells):
        if change[k] > 0.0:
            chosen = k
            u -= change[k]
            if u < 0.0:
                break
    change[chosen] -= 1.0
    return chosen
