"""Normal records, rounded to an integer between bounds, behind integer noise: as ``_noised_normal``.

The records' integers are cells of the line, of which the first and the last extend to infinity, and

    g(x) = Σ_y P(y) q(x - y),  P(y) = Φ((y + ½ - μ)/σ) - Φ((y - ½ - μ)/σ).

Only cells with any mass count.  Sums over them are recursions under Laplace noise; under Gaussian noise they are closed
forms far from bounds, go as far as the noise reaches, or if that is far, over ``DEGREE`` places in each block of cells.
"""

from math import exp, sqrt

import numpy as np

from .._base.compiled import helper, sums_helper
from .._base.vector import erfcx_positive, exp_bounded
from ._noised_normal import FARTHEST, INV_SQRT_2PI, SQRT_HALF

DEGREE = 16  # places in a block: the noise, one σ across it, is off by less than 1e-16 between them
#: Standard deviations beyond which Gaussian noise is left out: 1e-60 of its largest probability
FAR_NOISE = 16.7
END_NOISE = 12.0  # ... from a bound, beyond which its records matter to no release: 1e-31


def block_of(n_cells):
    """Weights of the places in a block of so many cells, (cells, DEGREE), and the places from the first cell on."""
    turns = (np.arange(DEGREE) + 0.5) * np.pi / DEGREE
    nodes, cells = -np.cos(turns), (2.0 * np.arange(n_cells) + 1.0) / n_cells - 1.0
    signs = (-1.0) ** np.arange(DEGREE) * np.sin(turns)  # barycentric weights of Chebyshev points
    apart = cells[:, None] - nodes
    hit = apart == 0.0
    terms = signs / np.where(hit, 1.0, apart)
    weights = np.where(hit.any(axis=1)[:, None], hit, terms / terms.sum(axis=1)[:, None])
    return weights, 0.5 * n_cells * (nodes + 1.0) - 0.5


@helper
def first_with_mass(low, high, mean, sd):
    """The first cell with any mass."""
    return min(max(np.floor(mean - FARTHEST * sd), low), high)


@helper
def last_with_mass(low, high, mean, sd):
    """The last one."""
    return min(max(np.ceil(mean + FARTHEST * sd), low), high)


@helper
def fill_cells(start, n, mean, log_variance, found):
    """Masses of the cells of n integers from ``start`` on, then their derivatives; no other cell has any."""
    inverse = exp(-0.5 * log_variance)
    edges, tails, peaks = np.empty(n + 1), np.empty(n + 1), np.empty(n + 1)
    for i in range(n + 1):
        t = min(max((start + i - 0.5 - mean) * inverse, -FARTHEST), FARTHEST)
        t = -FARTHEST if i == 0 else t
        t = FARTHEST if i == n else t
        e = exp_bounded(-0.5 * t * t)
        edges[i], tails[i], peaks[i] = t, 0.5 * e * erfcx_positive(abs(t) * SQRT_HALF), INV_SQRT_2PI * e
    for p in range(n):
        mass = 1.0 - tails[p] - tails[p + 1]
        mass = tails[p] - tails[p + 1] if edges[p] > 0.0 else mass
        mass = tails[p + 1] - tails[p] if edges[p + 1] < 0.0 else mass
        found[p] = mass
        found[n + p] = (peaks[p] - peaks[p + 1]) * inverse
        found[2 * n + p] = 0.5 * (edges[p] * peaks[p] - edges[p + 1] * peaks[p + 1])


@sums_helper
def fill_integers_laplace(nodes, x, n, low, high, rate, q, mean, log_variance, out, first, second):
    """Noise with P(e) = q exp(-|e| rate).

    From cell to cell, sums over those below and over those above are multiplied by exp(-rate).
    """
    sd = exp(0.5 * log_variance)
    start = first_with_mass(low, high, mean, sd)
    n_cells = int(last_with_mass(low, high, mean, sd) - start) + 1
    sums, above, r = np.empty(3 * n_cells), np.empty(3 * n_cells), exp(-rate)
    fill_cells(start, n_cells, mean, log_variance, sums)
    total, by_mean, by_scale = 0.0, 0.0, 0.0
    for i in range(n_cells):
        p = n_cells - 1 - i
        above[p], above[n_cells + p], above[2 * n_cells + p] = total, by_mean, by_scale
        total = r * total + r * sums[p]
        by_mean = r * by_mean + r * sums[n_cells + p]
        by_scale = r * by_scale + r * sums[2 * n_cells + p]
    total, by_mean, by_scale = 0.0, 0.0, 0.0
    for p in range(n_cells):
        total = r * total + sums[p]
        by_mean = r * by_mean + sums[n_cells + p]
        by_scale = r * by_scale + sums[2 * n_cells + p]
        sums[p] = q * (total + above[p])
        sums[n_cells + p] = q * (by_mean + above[n_cells + p])
        sums[2 * n_cells + p] = q * (by_scale + above[2 * n_cells + p])
    for m in range(n):
        place = nodes[x + m] - start
        cell = min(max(place, 0.0), n_cells - 1.0)
        c, p = exp_bounded(-abs(place - cell) * rate), int(cell)
        out[first + m] = c * sums[p]
        out[second + m] = c * sums[n_cells + p]
        out[second + n + m] = c * sums[2 * n_cells + p]


@helper
def fill_integers_near(nodes, x, n, low, high, scale, noise, far, mean, log_variance, out, first, second):
    """Gaussian noise of this scale, with these probabilities from -far to far.

    If neither noise nor component is narrow, sums over all integers are integrals (``is_smooth``), and only releases
    near a bound need a sum over cells.
    """
    sd = exp(0.5 * log_variance)
    start, last = first_with_mass(low, high, mean, sd), last_with_mass(low, high, mean, sd)
    n_cells = int(last - start) + 1
    if not is_smooth(scale, sd):
        masses = np.empty(3 * n_cells)
        fill_cells(start, n_cells, mean, log_variance, masses)
        for m in range(n):
            add_cells(nodes, x, n, m, start, n_cells, noise, far, masses, out, first, second)
        return
    fill_rounded(nodes, x, n, scale, mean, log_variance, out, first, second)
    begin = low + END_NOISE * scale if start == low else -np.inf
    end = high - END_NOISE * scale if last == high else np.inf
    n_near = 0
    for m in range(n):
        n_near += 1 if nodes[x + m] < begin or nodes[x + m] > end else 0
    if n_near > 0:
        masses = np.empty(3 * n_cells)
        fill_cells(start, n_cells, mean, log_variance, masses)
        for m in range(n):
            if nodes[x + m] < begin or nodes[x + m] > end:
                add_cells(nodes, x, n, m, start, n_cells, noise, far, masses, out, first, second)


@helper
def is_smooth(scale, sd):
    """Whether the noise's density times a cell's mass has an integral that is its sum over the integers.

    Poisson's formula: up to 2 exp(-2π²v) of it, below 1e-16, with 1/v = 1/scale² + 1/sd².
    """
    return scale >= 1.5 and sd >= 4.0


@helper
def fill_rounded(nodes, x, n, scale, mean, log_variance, out, first, second):
    """Normal records and normal noise of this scale, rounded to the release."""
    variance = exp(log_variance)
    total = variance + scale * scale
    inverse = 1.0 / sqrt(total)
    by_mean, by_scale = INV_SQRT_2PI * inverse, 0.5 * INV_SQRT_2PI * variance / total
    for m in range(n):
        low = min(max((nodes[x + m] - 0.5 - mean) * inverse, -FARTHEST), FARTHEST)
        high = min(max((nodes[x + m] + 0.5 - mean) * inverse, -FARTHEST), FARTHEST)
        e_low, e_high = exp_bounded(-0.5 * low * low), exp_bounded(-0.5 * high * high)
        tail_low = 0.5 * e_low * erfcx_positive(abs(low) * SQRT_HALF)
        tail_high = 0.5 * e_high * erfcx_positive(abs(high) * SQRT_HALF)
        inside = 1.0 - tail_low - tail_high
        inside = tail_low - tail_high if low > 0.0 else inside
        inside = tail_high - tail_low if high < 0.0 else inside
        out[first + m] = inside
        out[second + m] = by_mean * (e_low - e_high)
        out[second + n + m] = by_scale * (low * e_low - high * e_high)


@sums_helper
def add_cells(nodes, x, n, m, start, n_cells, noise, far, masses, out, first, second):
    """What node m gets from all cells in the noise's reach."""
    place, total, by_mean, by_scale = int(nodes[x + m] - start), 0.0, 0.0, 0.0
    begin, end = max(place - far, 0), min(place + far + 1, n_cells)
    if begin < end:
        a, b = masses[begin:end], masses[n_cells + begin : n_cells + end]
        c, at = masses[2 * n_cells + begin : 2 * n_cells + end], begin + far - place
        for p in range(a.size):
            e = noise[at + p]
            total += a[p] * e
            by_mean += b[p] * e
            by_scale += c[p] * e
    out[first + m], out[second + m], out[second + n + m] = total, by_mean, by_scale


@sums_helper
def fill_integers_far(nodes, x, n, low, high, block, size, mean, log_variance, out, first, second):
    """Noise of which the probabilities at places in each block of cells are looked up."""
    sd = exp(0.5 * log_variance)
    start = first_with_mass(low, high, mean, sd)
    n_cells = int(last_with_mass(low, high, mean, sd) - start) + 1
    masses, skipped = np.empty(3 * n_cells), int(start - low)
    fill_cells(start, n_cells, mean, log_variance, masses)
    for m in range(n):
        out[first + m] = 0.0
        out[second + m] = 0.0
        out[second + n + m] = 0.0
    begin = 0
    while begin < n_cells:
        number = (skipped + begin) // size
        end, at = min((number + 1) * size - skipped, n_cells), skipped - number * size
        a, b = masses[begin:end], masses[n_cells + begin : n_cells + end]
        c = masses[2 * n_cells + begin : 2 * n_cells + end]
        for i in range(DEGREE):
            mass, by_mean, by_scale, of_place = 0.0, 0.0, 0.0, i * size + at + begin
            for p in range(a.size):
                mass += block[of_place + p] * a[p]
                by_mean += block[of_place + p] * b[p]
                by_scale += block[of_place + p] * c[p]
            q = x + (1 + number * DEGREE + i) * n
            for m in range(n):
                out[first + m] += mass * nodes[q + m]
                out[second + m] += by_mean * nodes[q + m]
                out[second + n + m] += by_scale * nodes[q + m]
        begin = end
    for m in range(n):
        out[first + m] = max(out[first + m], 0.0)  # weights of places are of both signs
