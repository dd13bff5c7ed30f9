"""The law of the last feature, y, given the others, x, or a release of them: what draws of a mixture say of it.

In a draw of the mixture that law is a mixture again.  Each component, with its normal joint law of x and y, gives one
or several *pieces*: under piece p

    y = c + k t + τ e,  e ~ N(0, 1), t ~ N(0, 1) within (α, β),

and the piece's mass is what the component gives to x, or to the release of x.  Given x itself, or x plus Gaussian
noise, a component is one piece with k = 0 (:class:`AtPlace`).  Given a release by a channel that is piecewise
log-quadratic in x (Laplace noise, clamped records), x is a normal cut to an interval for each piece of the channel
(:class:`AtRelease`), for one feature x.

The last atom of a draw, which stands for what is left below a mass of 0.001, counts as it was drawn.
"""

from math import erfc, exp, inf, log, pi, sqrt

import numpy as np
from numpy.polynomial.legendre import leggauss

from ._compiled import Component, compiled, entry, helper, lower
from ._mixture import in_chunks, log_sum_in
from ._numeric import log_ndtr_interval

MASS, CENTRE, SLOPE, SD, LOW, HIGH, N_COLUMNS = range(7)  # of a piece: its log mass, c, k, τ, α, β
CHUNK = 1_000_000  # numbers of a temporary (n_draws, n_places) table
N_PLACES = 64  # given to a thread at a time
FAR = 45.0  # a piece whose log mass is so far below another's does not count
REACH = 9.0  # standard deviations, beyond which a normal density does not count
N_NODES = 40  # of a Gauss rule, over REACH standard deviations
LEAST = 1e-17  # mass of pieces that do not count in a distribution function
SQRT_HALF, HALF_LOG_2PI = sqrt(0.5), 0.5 * log(2.0 * pi)


class ConditionalLaw:
    """The law of y in all draws, at many places.

    Parameters
    ----------
    draws : MixtureDraws
    law : value of :class:`AtPlace` or :class:`AtRelease`
    channel, kernel : values of components
    """

    def __init__(self, draws, law, channel, kernel):
        self.draws, self.start, self.theta = draws, draws.start, draws.flat.theta
        self.parts = law, channel, kernel

    def curves(self, X, n_jobs=None):
        """Mean and variance of y at each place in each draw: (n_draws, n_places) each, all chains together."""
        mean, variance = np.empty((2, len(self.start) - 1, len(X)))

        def fill(rows):
            curve_moments(*self.parts, self.start, self.theta, X[rows], rows.start, mean, variance)

        in_chunks(fill, len(X), N_PLACES, n_jobs)
        return mean, variance

    def each(self, X, summarise, n_jobs=None):
        """``summarise(mean, variance)`` of the curves, on the last axis, some places at a time."""
        size = max(1, CHUNK // (len(self.start) - 1))
        parts = [summarise(*self.curves(X[a : a + size], n_jobs)) for a in range(0, len(X), size)]
        return np.concatenate(parts, axis=-1)

    def log_density(self, X, y, n_jobs=None):
        """(n_places,) logs of the draws' mean density of y at its place."""

        def find(rows):
            return mean_log_density(*self.parts, self.start, self.theta, X[rows], y[rows])

        return np.concatenate(in_chunks(find, len(X), N_PLACES, n_jobs))

    def quantiles(self, X, q, n_jobs=None):
        """(n_places, n_q) quantiles of the mean of the draws' laws of y."""
        mean, variance = self.each(X, predictive_moments, n_jobs)
        sd = np.sqrt(variance)

        def find(rows):
            found = np.empty((rows.stop - rows.start, len(q)))
            n_rows = len(self.theta) * self.parts[0].most_pieces
            for i in range(rows.start, rows.stop):
                table = np.empty((n_rows, N_COLUMNS))
                n = fill_table(*self.parts, self.start, self.theta, X[i : i + 1], table)
                found[i - rows.start] = table_quantiles(self.parts[0], table[:n], mean[i], sd[i], q)
            return found

        return np.concatenate(in_chunks(find, len(X), 4, n_jobs))


def predictive_moments(mean, variance):
    """Mean and variance of y at each place, of those in each draw: (2, n_places)."""
    return np.array([mean.mean(axis=0), variance.mean(axis=0) + mean.var(axis=0)])


def joint_law(theta, d):
    """Means (n_atoms, d) and lower factors (n_atoms, d, d) of covariances, as ``MultivariateNormalKernel`` keeps them."""
    root = np.zeros((len(theta), d, d))
    rows, columns = np.tril_indices(d)
    root[:, rows, columns] = theta[:, 4 * d + d * (d + 1) // 2 : 4 * d + d * (d + 1)]
    return theta[:, 0 : 4 * d : 4], root


def regression(theta, d, noise_variance=0.0):
    """Regression of y on x plus independent noise in each atom.

    Returns
    -------
    slope : ndarray of shape (n_atoms, d - 1)
    intercept, variance : ndarrays of shape (n_atoms,)
    inverse : ndarray of shape (n_atoms, d - 1, d - 1)
        Inverse of the lower factor of the covariance of x plus noise.
    """
    mean, root = joint_law(theta, d)
    of_x, of_y = root[:, :-1, :-1], root[:, -1, :-1]
    total = of_x @ np.swapaxes(of_x, 1, 2) + noise_variance * np.eye(d - 1)
    factor = np.linalg.cholesky(total) if noise_variance else of_x
    inverse = np.linalg.inv(factor)
    shrunk = of_y if not noise_variance else np.einsum("aij,ajk,ak->ai", inverse, of_x, of_y)
    slope = np.einsum("ai,aij->aj", shrunk, inverse)
    lost = np.sum(of_y**2, axis=1) - np.sum(shrunk**2, axis=1) if noise_variance else 0.0
    variance = root[:, -1, -1] ** 2 + np.maximum(lost, 0.0)
    intercept = mean[:, -1] - np.sum(slope * mean[:, :-1], axis=1)
    return slope, intercept, variance, inverse


class AtPlace(Component):
    """y given x, or given x plus Gaussian noise: one piece a component.

    A row an atom of ``atoms`` has its log weight and the constant of x's density; c's own part and slopes; τ; the
    centre of x; and the inverse of the factor of x's covariance, row by row.
    """

    @classmethod
    def value(cls, draws, d, noise_variance=0.0):
        theta, p = draws.flat.theta, d - 1
        slope, intercept, variance, inverse = regression(theta, d, noise_variance)
        constant = draws.log_weights + np.log(np.diagonal(inverse, axis1=1, axis2=2)).sum(axis=1) - p * HALF_LOG_2PI
        columns = constant, intercept, slope, np.sqrt(variance), theta[:, 0 : 4 * p : 4]
        atoms = np.column_stack([*columns, inverse[:, *np.tril_indices(p)]])
        return lower(cls, {"p": p, "most_pieces": 1, "atoms": atoms.ravel(), "width": atoms.shape[1], **gauss_rule()})

    @compiled
    def n_pieces(self, channel):
        return 1

    @compiled
    def write_piece(self, channel, kernel, theta, X, i, h, r, out):
        at, p = h * self.width, self.p
        value, centre, row = self.atoms[at], self.atoms[at + 1], at + 3 + 2 * p
        for j in range(p):
            e = 0.0
            for m in range(j + 1):
                e += self.atoms[row] * (X[i, m] - self.atoms[at + 3 + p + m])
                row += 1
            value -= 0.5 * e * e
            centre += self.atoms[at + 2 + j] * X[i, j]
        out[MASS], out[CENTRE], out[SLOPE], out[SD] = value, centre, 0.0, self.atoms[at + 2 + p]
        out[LOW], out[HIGH] = -inf, inf


class AtRelease(Component):
    """y given the release of one feature x, by a channel of pieces."""

    @classmethod
    def value(cls, draws, channel, most_pieces):
        slope, intercept, variance, _ = regression(draws.flat.theta, 2)
        fields = {"log_weight": draws.log_weights, "slope": slope[:, 0], "intercept": intercept}
        return lower(cls, fields | {"sd": np.sqrt(variance), "most_pieces": most_pieces, **gauss_rule()})

    @compiled
    def n_pieces(self, channel):
        return channel.n_pieces()

    @compiled
    def write_piece(self, channel, kernel, theta, X, i, h, r, out):
        lo, hi, anchor, value, slope, curvature = channel.piece(X, i, 0, r)
        out[MASS] = -inf
        if not (lo < hi and self.log_weight[h] > -inf):
            return
        mass = kernel.log_tilted_mass(theta, h, 0, lo, hi, anchor, slope, curvature)
        mean, sd, _ = kernel.tilted_normal(theta, h, 0, anchor, slope, curvature)
        out[MASS], out[SD] = self.log_weight[h] + value + mass, self.sd[h]
        out[CENTRE], out[SLOPE] = self.intercept[h] + self.slope[h] * mean, self.slope[h] * sd
        out[LOW], out[HIGH] = (lo - mean) / sd, (hi - mean) / sd


def gauss_rule():
    """Nodes and weights on [0, 1]."""
    nodes, weights = leggauss(N_NODES)
    return {"nodes": 0.5 * (nodes + 1.0), "shares": 0.5 * weights}


# --- compiled: moments -----------------------------------------------------------------------------------------------


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


# --- compiled: densities and distribution functions ------------------------------------------------------------------


@helper
def log_piece_density(out, y):
    """Log density of y under a piece: t given y is normal, cut to the same interval."""
    variance = out[SLOPE] ** 2 + out[SD] ** 2
    u = y - out[CENTRE]
    value = -0.5 * u * u / variance - 0.5 * log(variance) - HALF_LOG_2PI
    if out[LOW] > -inf or out[HIGH] < inf:
        centre, sd = out[SLOPE] * u / variance, out[SD] / sqrt(variance)
        given = log_ndtr_interval((out[LOW] - centre) / sd, (out[HIGH] - centre) / sd)
        value += given - log_ndtr_interval(out[LOW], out[HIGH])
    return value


@entry
def mean_log_density(law, channel, kernel, start, theta, X, y):
    """Log of the mean over draws of the density of y[i] at row i of X."""
    out, result = np.empty(N_COLUMNS), np.empty(X.shape[0])
    for i in range(X.shape[0]):
        top, total = -inf, 0.0
        for t in range(start.size - 1):
            top_of_x, of_x, top_of_both, of_both = -inf, 0.0, -inf, 0.0
            for h in range(start[t], start[t + 1]):
                for r in range(law.n_pieces(channel)):
                    law.write_piece(channel, kernel, theta, X, i, h, r, out)
                    if out[MASS] > -inf:
                        top_of_x, of_x = log_sum_in(top_of_x, of_x, out[MASS])
                        both = out[MASS] + log_piece_density(out, y[i])
                        top_of_both, of_both = log_sum_in(top_of_both, of_both, both)
            if of_both > 0.0:
                top, total = log_sum_in(top, total, top_of_both + log(of_both / of_x) - top_of_x)
        result[i] = top + log(total / (start.size - 1)) if total > 0.0 else -inf
    return result


@entry
def fill_table(law, channel, kernel, start, theta, X, table):
    """Pieces of all draws at the one row of X, their masses (not logs) adding up to 1 but for those next to nothing.

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
                table[kept, MASS] = mass / n_draws
                kept += 1
    return kept


@helper
def piece_below(law, row, y):
    """P(y' <= y) under a piece."""
    if abs(row[SLOPE]) < 1e-12 * row[SD] or (row[LOW] == -inf and row[HIGH] == inf):
        return 0.5 * erfc(-(y - row[CENTRE]) * SQRT_HALF / sqrt(row[SLOPE] ** 2 + row[SD] ** 2))
    a, b = ends(row[LOW], row[HIGH])
    near = min(max(0.0, a), b)
    at, width = (y - row[CENTRE]) / row[SLOPE], REACH * row[SD] / abs(row[SLOPE])  # of t where it is a half; of the step
    total, below, left = 0.0, 0.0, a
    while left < b:  # panels end where the density is largest, and at the step's middle and ends
        right = b
        for edge in range(4):
            place = near if edge == 0 else at + (edge - 2) * width
            if left < place < right:
                right = place
        for m in range(N_NODES):
            t = left + (right - left) * law.nodes[m]
            density = (right - left) * law.shares[m] * exp(-0.5 * (t - near) * (t + near))
            total += density
            below += density * 0.5 * erfc((row[CENTRE] + row[SLOPE] * t - y) / row[SD] * SQRT_HALF)
        left = right
    return below / total


@entry
def table_quantiles(law, table, mean, sd, q):
    """Quantiles of the mixture of the table's pieces: Newton's steps, halving where they leave the bracket.

    No quantile is farther from the mean than sd √(q/(1 - q)) above, or √((1 - q)/q) below it (Cantelli).
    """
    result = np.empty(q.size)
    for j in range(q.size):
        low, high = mean - sd * sqrt((1.0 - q[j]) / q[j]), mean + sd * sqrt(q[j] / (1.0 - q[j]))
        low, high = low - 1e-9 * (high - low), high + 1e-9 * (high - low)
        y = min(max(mean, low), high)
        for _ in range(200):
            below, density, total = 0.0, 0.0, 0.0
            for r in range(table.shape[0]):
                below += table[r, MASS] * piece_below(law, table[r], y)
                density += table[r, MASS] * exp(log_piece_density(table[r], y))
                total += table[r, MASS]
            gap = below - q[j] * total
            if gap > 0.0:
                high = y
            else:
                low = y
            step = gap / density if density > 0.0 else inf
            if abs(step) <= 1e-13 * sd or high - low <= 1e-15 * (abs(low) + abs(high)):
                y = min(max(y - step, low), high) if step < inf else y
                break
            y = y - step if low < y - step < high else 0.5 * (low + high)
        result[j] = y
    return result
