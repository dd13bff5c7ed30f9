"""Moments of two correlated normal features that are clamped, of Chebyshev's polynomials T: one atom's at a time.

Σ = diag(s²) + l l' makes the features independent given t ~ N(0, 1): x = μ + l t + s e.  A smooth integral over the
line is by equal steps exact but for rounding (Trefethen & Weideman 2014), and moments of one clamped feature, scaled so
that its bounds are ±1, have a recurrence.  Derivatives by Σ are halves of second derivatives by μ.
"""

from functools import cache
from math import ceil, sqrt

import numpy as np
from numpy.polynomial import chebyshev, legendre

from ...._base.compiled import apart_sums, helper
from ...._base.numeric import INV_SQRT_2PI, SQRT_HALF
from ...._base.vector import erfcx_positive, exp_bounded

SIDE = 4  # of a block of moments, by which loops go; moments for derivatives are of one block
ENDS = 6.4  # of the integral over t
STEP = 0.99  # ... where its integrand is as smooth as the normal density: leaves out e^-20
MOST_SHARED = 1.0 - 1e-5  # in place of a larger |ρ|
BLOCK = 16  # steps at once: loops of a known length
NEAR_BOUND = 6.5  # standard deviations from a bound to a mean, beyond which it does not matter
WIDE = 0.8  # standard deviation in units of the noise's, from which on moments are by Gauss's rule
N_GAUSS = 48
FARTHEST_BOUND = 40.0  # standard deviations
CURVATURES = 0.0, 0.0, 4.0, 24.0  # T_r'' in units of T_(r-2)
VALUE, SLOPE, CURVATURE = range(3)
PAIRS = (VALUE, VALUE), (SLOPE, VALUE), (VALUE, SLOPE), (CURVATURE, VALUE), (SLOPE, SLOPE), (VALUE, CURVATURE)
WEIGHT, MEAN, BELOW, ABOVE, AT_LOW, AT_HIGH, SCRATCH = range(7)


def moment_fields(low, high, noise, degree):
    """What a chart needs for moments up to this degree: places, and room to work in."""
    size, half = degree + 1, 0.5 * (high - low)
    rows = {"line": 7, "inside": size, "slopes": size, "left": size + 2 * SIDE, "right": size + 2 * SIDE}
    room = {name: np.zeros((n, BLOCK)) for name, n in rows.items()} | {"sums": np.zeros((len(PAIRS), size, size))}
    scale = {"centre": 0.5 * (low + high), "half": half, "wide": WIDE * noise / half.max()}
    return room | gauss_fields(degree) | scale | {"degree": np.int64(degree)}  # an int would be compiled in


@cache
def gauss_fields(degree):
    """Gauss's rule on [-1, 1], which a block of sweeps would take longer to make than some of its moves."""
    points, weights = legendre.leggauss(N_GAUSS)
    return {"points": points, "weighted": weights * chebyshev.chebvander(points, degree).T}


# --- compiled --------------------------------------------------------------------------------------------------------


@helper
def fill_sums(chart):
    """E[f_i(y_1) f_j(y_2)] of the pairs of functions ``PAIRS``, of the atom that ``invert`` was called for."""
    sums, line, size = chart.sums, chart.line, chart.degree + 1
    first, second = chart.root[0, 0], sqrt(chart.root[1, 0] ** 2 + chart.root[1, 1] ** 2)
    share = min(abs(chart.root[1, 0]) / second, MOST_SHARED)
    bends = is_near_bound(chart, 0, first), is_near_bound(chart, 1, second)
    n_bends = (1.0 if bends[0] else 0.0) + (1.0 if bends[1] else 0.0)
    step = STEP * sqrt((1.0 - share) / (1.0 - share + n_bends * share))
    n_blocks = int(ceil((1.0 + 2.0 * ENDS / step) / BLOCK))
    step = 2.0 * ENDS / (n_blocks * BLOCK - 1)
    for p in range(len(PAIRS)):
        for i in range(size):
            for j in range(size):
                sums[p, i, j] = 0.0
    for block in range(n_blocks):
        for j in range(2):
            sd = (first if j == 0 else second) / chart.half[j]
            mean, slope = (chart.mean[j] - chart.centre[j]) / chart.half[j], sqrt(share) * sd
            slope = -slope if j == 1 and chart.root[1, 0] < 0.0 else slope
            for m in range(BLOCK):
                t = (block * BLOCK + m) * step - ENDS
                line[WEIGHT, m] = step * INV_SQRT_2PI * exp_bounded(-0.5 * t * t)
                line[MEAN, m] = mean + slope * t
            cut(chart, bends[j], mean, sqrt(1.0 - share) * sd)
            fill_inside(chart, sqrt(1.0 - share) * sd)
            fill_moments(chart, chart.left if j == 0 else chart.right)
        for i in range(0, size, SIDE):
            for j in range(0, size - i, SIDE):
                add_products(chart, i, j, 0, i, j)
        for p in range(1, len(PAIRS)):
            of_first, of_second = PAIRS[p]
            add_products(chart, begin(size, of_first), begin(size, of_second), p, 0, 0)


@helper
def begin(size, kind):
    """The first row of the moments of T, of its slopes or of its curvatures."""
    return 0 if kind == VALUE else size + (kind - 1) * SIDE


@helper
def is_near_bound(chart, j, sd):
    """Whether some records of this mean and standard deviation are within the bounds, and some beyond."""
    from_bound = abs(abs(chart.mean[j] - chart.centre[j]) - chart.half[j])
    return from_bound < NEAR_BOUND * sd


@apart_sums
def cut(chart, is_near, centre, sd):
    """The masses between the bounds and beyond, and densities there, of one feature for all its means."""
    line, inside, inverse = chart.line, chart.inside, 1.0 / sd
    if not is_near:
        for m in range(BLOCK):
            line[BELOW, m] = 1.0 if centre < -1.0 else 0.0
            line[ABOVE, m] = 1.0 if centre > 1.0 else 0.0
            inside[0, m] = 0.0 if abs(centre) > 1.0 else 1.0
            line[AT_LOW, m] = 0.0
            line[AT_HIGH, m] = 0.0
        return
    for m in range(BLOCK):
        a = min(max((-1.0 - line[MEAN, m]) * inverse, -FARTHEST_BOUND), FARTHEST_BOUND)
        b = min(max((1.0 - line[MEAN, m]) * inverse, -FARTHEST_BOUND), FARTHEST_BOUND)
        e_a, e_b = exp_bounded(-0.5 * a * a), exp_bounded(-0.5 * b * b)
        tail_a = 0.5 * e_a * erfcx_positive(abs(a) * SQRT_HALF)
        tail_b = 0.5 * e_b * erfcx_positive(abs(b) * SQRT_HALF)
        mass = 1.0 - tail_a - tail_b
        mass = tail_a - tail_b if a > 0.0 else mass
        inside[0, m] = tail_b - tail_a if b < 0.0 else mass
        line[BELOW, m] = tail_a if a < 0.0 else 1.0 - tail_a
        line[ABOVE, m] = tail_b if b > 0.0 else 1.0 - tail_b
        line[AT_LOW, m], line[AT_HIGH, m] = INV_SQRT_2PI * e_a * inverse, INV_SQRT_2PI * e_b * inverse


@apart_sums
def fill_inside(chart, sd):
    """A_r = E[T_r(y); -1 < y < 1] of one feature for all its means, and the same of its slope, B_r.

    A_(r+1) = 2 (m A_r + s² B_r - s² [T_r φ/s]) - A_(r-1), B_r = r V_(r-1), V_r = 2 A_r + V_(r-2) (of the second kind),
    but where the density is so wide that errors would grow.
    """
    line, inside, slopes, size = chart.line, chart.inside, chart.slopes, chart.degree + 1
    variance, inverse = sd * sd, 1.0 / sd
    for m in range(BLOCK):
        slopes[0, m] = 0.0
        slopes[1, m] = inside[0, m]
    if sd < chart.wide:
        for m in range(BLOCK):
            inside[1, m] = line[MEAN, m] * inside[0, m] - variance * (line[AT_HIGH, m] - line[AT_LOW, m])
        for r in range(1, size - 1):
            sign, ratio = (1.0 if r % 2 == 0 else -1.0), (r + 1.0) / max(r - 1.0, 1.0)
            for m in range(BLOCK):
                at_bounds = line[AT_HIGH, m] - sign * line[AT_LOW, m]
                value = line[MEAN, m] * inside[r, m] + variance * (slopes[r, m] - at_bounds)
                inside[r + 1, m] = 2.0 * value - inside[r - 1, m]
                slopes[r + 1, m] = 2.0 * (r + 1.0) * inside[r, m] + ratio * slopes[r - 1, m]
        return
    for r in range(size):
        for m in range(BLOCK):
            inside[r, m] = 0.0
    for i in range(N_GAUSS):
        point = chart.points[i]
        for m in range(BLOCK):
            u = (point - line[MEAN, m]) * inverse
            line[SCRATCH, m] = INV_SQRT_2PI * inverse * exp_bounded(-0.5 * u * u)
        for r in range(size):
            c = chart.weighted[r, i]
            for m in range(BLOCK):
                inside[r, m] += c * line[SCRATCH, m]
    for r in range(2, SIDE):
        for m in range(BLOCK):
            slopes[r, m] = 2.0 * r * inside[r - 1, m] + r / max(r - 2.0, 1.0) * slopes[r - 2, m]


@apart_sums
def fill_moments(chart, moments):
    """Moments of T, and their first and second derivatives by the mean of x, in units of y.

    The second has what the slope ± r² is at the bounds: there it jumps to zero.
    """
    line, inside, slopes, size = chart.line, chart.inside, chart.slopes, chart.degree + 1
    for r in range(size):
        sign = 1.0 if r % 2 == 0 else -1.0
        for m in range(BLOCK):
            moments[r, m] = inside[r, m] + line[ABOVE, m] + sign * line[BELOW, m]
    for r in range(SIDE):
        first, second, sign, times = size + r, size + SIDE + r, (1.0 if r % 2 == 0 else -1.0), CURVATURES[r]
        before, square = max(r - 2, 0), r * r
        for m in range(BLOCK):
            moments[first, m] = slopes[r, m]
            at_bounds = square * (line[AT_HIGH, m] + sign * line[AT_LOW, m])
            moments[second, m] = times * inside[before, m] - at_bounds


@apart_sums
def add_products(chart, x, y, p, i, j):
    """Add to ``sums`` the products of four moments of the first feature, and four of the second."""
    line, left, right, to = chart.line, chart.left, chart.right, chart.sums
    a0 = a1 = a2 = a3 = b0 = b1 = b2 = b3 = c0 = c1 = c2 = c3 = d0 = d1 = d2 = d3 = 0.0
    for m in range(BLOCK):
        y0, y1, y2, y3 = right[y, m], right[y + 1, m], right[y + 2, m], right[y + 3, m]
        w = line[WEIGHT, m]
        a, b, c, d = w * left[x, m], w * left[x + 1, m], w * left[x + 2, m], w * left[x + 3, m]
        a0, a1, a2, a3 = a0 + a * y0, a1 + a * y1, a2 + a * y2, a3 + a * y3
        b0, b1, b2, b3 = b0 + b * y0, b1 + b * y1, b2 + b * y2, b3 + b * y3
        c0, c1, c2, c3 = c0 + c * y0, c1 + c * y1, c2 + c * y2, c3 + c * y3
        d0, d1, d2, d3 = d0 + d * y0, d1 + d * y1, d2 + d * y2, d3 + d * y3
    add_row(to, p, i, j, a0, a1, a2, a3)
    add_row(to, p, i + 1, j, b0, b1, b2, b3)
    add_row(to, p, i + 2, j, c0, c1, c2, c3)
    add_row(to, p, i + 3, j, d0, d1, d2, d3)


@helper
def add_row(to, p, i, j, first, second, third, fourth):
    to[p, i, j] += first
    to[p, i, j + 1] += second
    to[p, i, j + 2] += third
    to[p, i, j + 3] += fourth
