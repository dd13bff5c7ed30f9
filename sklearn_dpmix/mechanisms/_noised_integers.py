"""Normal records, rounded to an integer between bounds, behind integer noise: as ``_noised_normal``.

The records' integers are cells of the line, of which the first and the last extend to infinity, and

    g(x) = Σ_y P(y) q(x - y),  P(y) = Φ((y + ½ - μ)/σ) - Φ((y - ½ - μ)/σ).

However many integers there are, a component with σ < ``WIDE`` has mass on some hundred of them only: sums over these
are recursions under Laplace noise, and go as far as the noise reaches under Gaussian noise.

From there on no sum is needed.  Without bounds g is an operator M(D), D = d/dμ, applied to the normal density f:
rounding is sinh(D/2)/(D/2), and noise Σ_e q(e) exp(eD).  So g is what continuous noise would make of f, times a
constant, and a series Σ_j b_j D^2j f.  For Laplace noise of rate λ < 2π, the constant takes away the poles of M at ±λ;
the next ones are beyond 2π, so that terms fall by some (2πσ)².  Sums that end at bounds have their series, too: under
Laplace noise it is one number for all releases, and under Gaussian noise Euler and Maclaurin's (``fill_between``).
"""

from math import erfc, exp, inf, log, pi, sqrt

import numpy as np

from .._base.compiled import helper, sums_helper
from .._base.numeric import INV_SQRT_2PI, SQRT_HALF
from .._base.table import add_table, clear
from .._base.vector import erfcx_positive, exp_bounded
from ._integer_series import N_ONE_SIDED, N_SLOPES, N_TERMS, add_series, fill_slopes
from ._noised_normal import (
    FARTHEST,
    NO_BOUND,
    add_end,
    fill_normal_gaussian,
    fill_normal_laplace,
    mass_between,
    one_sided,
)

#: Standard deviations, of a component or of noise, from which series over the integers are used
WIDE = 12.0
#: Standard deviation from which that of a component is enough for sums that end at a bound, under wide noise
SMOOTH = 4.0
#: σ from which discrete Gaussian noise has the moments of continuous noise, to rounding
EVEN = 1.5
#: Standard deviations beyond which Gaussian noise is left out: 1e-60 of its largest probability
FAR_NOISE = 16.7
END_NOISE = 12.0  # ... from a bound, beyond which its records matter to no release: 1e-31
SHIFT = 240.0**-0.25  # two shifts by it have the fourth cumulant of all shifts by up to ½
FLAT = 48.0  # σ of noise, from which that is too small to matter
BERNOULLI = (1.0 / 12.0, -1.0 / 720.0, 1.0 / 30240.0)  # B_2j/(2j)!, j = 1, 2, ...
N_LOOKED_UP = 12  # derivatives of the noise at both bounds, with some zeros


# --- cells of single integers ----------------------------------------------------------------------------------------


@helper
def first_with_mass(low, high, reach, mean, sd):
    """The first cell within so many standard deviations: with any mass, if these are ``FARTHEST``."""
    return min(max(np.floor(mean - reach * sd), low), high)


@helper
def last_with_mass(low, high, reach, mean, sd):
    """The last one."""
    return min(max(np.ceil(mean + reach * sd), low), high)


@helper
def fill_cells(start, n, low, high, mean, log_variance, found):
    """Masses of the cells of n integers from ``start`` on, then their derivatives."""
    inverse = exp(-0.5 * log_variance)
    edges, tails, peaks = np.empty(n + 1), np.empty(n + 1), np.empty(n + 1)
    for i in range(n + 1):
        t = min(max((start + i - 0.5 - mean) * inverse, -FARTHEST), FARTHEST)
        t = -FARTHEST if i == 0 and start <= low else t
        t = FARTHEST if i == n and start + n > high else t
        e = exp_bounded(-0.5 * t * t)
        edges[i], tails[i], peaks[i] = t, 0.5 * e * erfcx_positive(abs(t) * SQRT_HALF), INV_SQRT_2PI * e
    for p in range(n):
        mass = 1.0 - tails[p] - tails[p + 1]
        mass = tails[p] - tails[p + 1] if edges[p] > 0.0 else mass
        mass = tails[p + 1] - tails[p] if edges[p + 1] < 0.0 else mass
        found[p] = mass
        found[n + p] = (peaks[p] - peaks[p + 1]) * inverse
        found[2 * n + p] = 0.5 * (edges[p] * peaks[p] - edges[p + 1] * peaks[p + 1])


# --- Laplace noise ---------------------------------------------------------------------------------------------------


@helper
def fill_integers_laplace(nodes, x, n, low, high, rate, q, series, mean, log_variance, out, first, second):
    """Noise with P(e) = q exp(-|e| rate); places within the bounds, with probabilities given a record at either."""
    if log_variance < 2.0 * log(WIDE):
        add_recursions(nodes, x, n, low, high, rate, q, mean, log_variance, out, first, second)
        return
    if series[0] > 0.0:
        fill_normal_laplace(nodes, x, n, -inf, inf, 1.0 / rate, mean, log_variance, out, first, second)
    else:
        clear(n, out, first, second)
    variance = exp(log_variance)
    add_series(nodes, x, n, series[0], series, variance, mean, variance, out, first, second)
    if low > -inf:
        inverse = 1.0 / sqrt(variance)
        below, above = max((low - 0.5 - mean) * inverse, -NO_BOUND), max((mean - high - 0.5) * inverse, -NO_BOUND)
        add_end_integers(nodes, x + n, n, below, -1.0, inverse, rate, series, out, first, second)
        add_end_integers(nodes, x + 2 * n, n, above, 1.0, inverse, rate, series, out, first, second)


@helper
def add_end_integers(nodes, end, n, t, sign, inverse, rate, series, out, first, second):
    """Records beyond an end, t standard deviations above the mean, at it in place of where they are.

    These act on all releases on this side as if each were exp(-rate) times as many for each cell that it is beyond.
    """
    slopes, over = np.empty(N_ONE_SIDED + 2), series[1 + N_TERMS] if rate < 2.0 * pi else 0.0
    fill_slopes(t, inverse, slopes)
    value = one_sided(t, rate / inverse) if over > 0.0 else 0.0
    by_end = slopes[0] - rate * value
    moved, moved_slope = over * value, over * by_end
    moved_second = over * (slopes[1] - rate * by_end)
    for i in range(N_ONE_SIDED):
        c = series[2 + N_TERMS + i]
        moved += c * slopes[i]
        moved_slope += c * slopes[i + 1]
        moved_second += c * slopes[i + 2]
    half_variance = 0.5 / (inverse * inverse)
    mass, by_mean = 0.5 * erfc(-t * SQRT_HALF) - moved, sign * (slopes[0] - moved_slope)
    by_scale = half_variance * (slopes[1] - moved_second)
    add_end(nodes, end, n, out, first, second, mass, by_mean, by_scale)


@sums_helper
def add_recursions(nodes, x, n, low, high, rate, q, mean, log_variance, out, first, second):
    """From cell to cell, sums over those below and over those above are multiplied by exp(-rate)."""
    sd = exp(0.5 * log_variance)
    start = first_with_mass(low, high, FARTHEST, mean, sd)
    n_cells = int(last_with_mass(low, high, FARTHEST, mean, sd) - start) + 1
    sums, above, r = np.empty(3 * n_cells), np.empty(3 * n_cells), exp(-rate)
    fill_cells(start, n_cells, low, high, mean, log_variance, sums)
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


# --- Gaussian noise --------------------------------------------------------------------------------------------------


@helper
def fill_integers_gaussian(nodes, x, n, low, high, scale, noise, far, series, mean, log_variance, out, first, second):
    """Gaussian noise of this scale; if it is below ``WIDE``, ``noise`` has the probabilities from -far to far.

    If neither noise nor component is narrow, sums over all integers are integrals (``is_smooth``), and if one is wide,
    they are a series.  At a bound a component that is not narrow has ``fill_between`` under wide noise; else releases
    near it are sums over cells.
    """
    sd = exp(0.5 * log_variance)
    is_low, is_high = low > mean - END_NOISE * sd, high < mean + END_NOISE * sd
    is_beside = is_low or is_high
    reach = FARTHEST if scale < WIDE else FAR_NOISE
    start, last = first_with_mass(low, high, reach, mean, sd), last_with_mass(low, high, reach, mean, sd)
    if (sd < SMOOTH and is_beside and scale >= WIDE) or not (sd >= WIDE or is_smooth(scale, sd)):
        ends = start, last, low, high
        sum_cells(nodes, x, n, -inf, inf, ends, scale, noise, far, mean, log_variance, out, first, second)
        return
    if is_beside and scale >= WIDE:
        fill_between(nodes, x, n, low, high, scale, mean, log_variance, out, first, second)
        return
    variance = exp(log_variance)
    total = variance + series[0]
    if total < WIDE * WIDE:
        fill_rounded(nodes, x, n, total, mean, variance, out, first, second)
    else:
        clear(n, out, first, second)
        add_series(nodes, x, n, 0.0, series, total, mean, variance, out, first, second)
    if is_low:
        near = low + END_NOISE * scale
        ends = start, min(last, np.ceil(near) + far), low, high
        sum_cells(nodes, x, n, -inf, near, ends, scale, noise, far, mean, log_variance, out, first, second)
    if is_high:
        near = high - END_NOISE * scale
        ends = max(start, np.floor(near) - far), last, low, high
        sum_cells(nodes, x, n, near, inf, ends, scale, noise, far, mean, log_variance, out, first, second)


@helper
def is_smooth(scale, sd):
    """Whether the noise's density times a cell's mass has an integral that is its sum over the integers.

    Poisson's formula: up to 2 exp(-2π²v) of it, below 1e-15, with 1/v = 1/scale² + 1/sd².
    """
    a, b = scale * scale, sd * sd
    return a * b >= 1.8 * (a + b)


@helper
def fill_rounded(nodes, x, n, total, mean, variance, out, first, second):
    """Normal records and normal noise, of this variance in ``total``, rounded to the release."""
    inverse = 1.0 / sqrt(total)
    by_mean, by_scale = INV_SQRT_2PI * inverse, 0.5 * INV_SQRT_2PI * variance / total
    for m in range(n):
        low = min(max((nodes[x + m] - 0.5 - mean) * inverse, -FARTHEST), FARTHEST)
        high = min(max((nodes[x + m] + 0.5 - mean) * inverse, -FARTHEST), FARTHEST)
        e_low, e_high = exp_bounded(-0.5 * low * low), exp_bounded(-0.5 * high * high)
        inside = mass_between(low, high, e_low, e_high)
        out[first + m] = inside
        out[second + m] = by_mean * (e_low - e_high)
        out[second + n + m] = by_scale * (low * e_low - high * e_high)


@helper
def sum_cells(nodes, x, n, least, most, ends, scale, noise, far, mean, log_variance, out, first, second):
    """Sums for the nodes from ``least`` to ``most``; ``ends`` are the first and the last cell, and the bounds."""
    start, last, low, high = ends
    n_cells, n_near = int(last - start) + 1, 0
    for m in range(n):
        n_near += 1 if least <= nodes[x + m] <= most else 0
    if n_near == 0:
        return
    masses = np.empty(3 * n_cells)
    fill_cells(start, n_cells, low, high, mean, log_variance, masses)
    for m in range(n):
        if least <= nodes[x + m] <= most:
            if scale < WIDE:
                add_cells(nodes, x, n, m, start, n_cells, noise, far, masses, out, first, second)
            else:
                add_all_cells(nodes, x, n, m, start, n_cells, 1.0 / scale, masses, out, first, second)


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
def add_all_cells(nodes, x, n, m, start, n_cells, rate, masses, out, first, second):
    """The same under wide noise, of which no probabilities are looked up."""
    place, peak, total, by_mean, by_scale = nodes[x + m] - start, INV_SQRT_2PI * rate, 0.0, 0.0, 0.0
    a, b, c = masses[:n_cells], masses[n_cells : 2 * n_cells], masses[2 * n_cells :]
    for p in range(a.size):
        u = (place - p) * rate
        e = exp_bounded(-0.5 * u * u)
        total += a[p] * e
        by_mean += b[p] * e
        by_scale += c[p] * e
    out[first + m], out[second + m], out[second + n + m] = peak * total, peak * by_mean, peak * by_scale


@helper
def fill_between(nodes, x, n, low, high, scale, mean, log_variance, out, first, second):
    """Wide components at a bound, under wide noise.

    By parts, with F the records' distribution function and a = low - ½, the sum from the lower bound on is

        Σ_{y = a+1, a+2, ...} (q(x - y + ½) - q(x - y - ½)) F(y).

    Euler and Maclaurin make it an integral and derivatives at a.  The integral is over records and noise that are both
    continuous, shifted together by up to ½ at random.  Two such shifts and wider noise have the same moments, up to the
    fifth, and noise alone those that matter if it is ``FLAT``.  The upper bound is the lower one's mirror image.
    """
    inverse, values = exp(-0.5 * log_variance), np.zeros(3 * N_LOOKED_UP)
    add_end_gaussian((low - 0.5 - mean) * inverse, 0, -1.0, inverse, values)
    add_end_gaussian((mean - high - 0.5) * inverse, N_SLOPES, 1.0, inverse, values)
    if scale >= FLAT:
        wider, a, b = sqrt(scale * scale + 1.0 / 12.0), low - 0.5, high + 0.5
        fill_normal_gaussian(nodes, x, n, a, b, wider, mean, log_variance, out, first, second)
    else:
        part, wider = np.empty(3 * n), sqrt(scale * scale + 1.0 / 12.0 - SHIFT * SHIFT)
        a, b = low - 0.5 - SHIFT, high + 0.5 - SHIFT
        fill_normal_gaussian(nodes, x, n, a, b, wider, mean - SHIFT, log_variance, out, first, second)
        a, b = low - 0.5 + SHIFT, high + 0.5 + SHIFT
        fill_normal_gaussian(nodes, x, n, a, b, wider, mean + SHIFT, log_variance, part, 0, n)
        average(n, part, 0, out, first)
        average(2 * n, part, n, out, second)
    add_table(nodes, x + 3 * n, n, values, N_LOOKED_UP, out, first, second)
    for m in range(n):
        out[first + m] = max(out[first + m], 0.0)


@helper
def average(n, part, begin, out, first):
    for m in range(n):
        out[first + m] = 0.5 * (out[first + m] + part[begin + m])


@helper
def add_end_gaussian(t, begin, sign, inverse, values):
    """Factors of the noise's derivatives at an end, t standard deviations above the mean: some of F there."""
    slopes, half_variance = np.empty(N_SLOPES + 2), 0.5 / (inverse * inverse)
    fill_slopes(t, inverse, slopes)
    for p in range(N_SLOPES):
        for j in range((p + 1) // 2, (N_SLOPES + 1) // 2):
            c = -BERNOULLI[j]
            for k in range(p):
                c *= -(2.0 * j + 1.0 - k) / (k + 1.0)
            i = 2 * j - p
            values[begin + p] += c * slopes[i]
            values[N_LOOKED_UP + begin + p] += sign * c * slopes[i + 1]
            values[2 * N_LOOKED_UP + begin + p] += half_variance * c * slopes[i + 2]
