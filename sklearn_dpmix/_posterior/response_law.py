"""The distribution of the last feature, y, given the others, x, or a release of them, under draws of a mixture.

In a draw of the mixture, that distribution is a mixture again.  Each component, with its normal joint distribution of x
and y, gives one or several *pieces*: under piece p

    y = c + k t + τ e,  e ~ N(0, 1), t ~ N(0, 1) within (α, β),

and the piece's mass is what the component gives to x, or to the release of x.  Given x itself, or x plus Gaussian
noise, a component is one piece with k = 0 (:class:`AtPlace`).  Given a release by a channel that is piecewise
log-quadratic in x (Laplace noise, clamped records), x is a normal cut to an interval for each piece of the channel
(:class:`AtRelease`), for one feature x.

The last atom of a draw, which stands for the rest below a mass of 0.001, counts as it was drawn.
"""

from math import inf

import numpy as np
from numpy.polynomial.legendre import leggauss

from .._base.compiled import Component, compiled, lower
from .._base.numeric import HALF_LOG_2PI
from .mixture import in_chunks
from .response_pieces import (
    CENTRE,
    HIGH,
    LOW,
    MASS,
    N_COLUMNS,
    N_NODES,
    SD,
    SLOPE,
    curve_moments,
    fill_table,
    mean_log_density,
    table_quantiles,
)

CHUNK = 1_000_000  # numbers of a temporary (n_draws, n_places) table
N_PLACES = 64  # given to a thread at a time


class ConditionalLaw:
    """The distribution of y in all draws, at many places.

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
        refuse_far(X, np.isfinite(mean).all(axis=0) & ~np.isnan(variance).any(axis=0))
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

        found = np.concatenate(in_chunks(find, len(X), N_PLACES, n_jobs))
        refuse_far(X, ~np.isnan(found))
        return found

    def quantiles(self, X, q, n_jobs=None):
        """(n_places, n_q) quantiles of the mean of the draws' distributions of y."""
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


def refuse_far(X, is_known):
    """Raise ValueError if a place is so far from all components that their densities there are not known."""
    if not is_known.all():
        raise ValueError(
            f"X has the row {X[~is_known][0].tolist()}, which is too far from all records that were fitted for a "
            "distribution of y: the density there is 0 in floating point"
        )


def predictive_moments(mean, variance):
    """Mean and variance of y at each place, from those in each draw: (2, n_places)."""
    return np.array([mean.mean(axis=0), variance.mean(axis=0) + mean.var(axis=0)])


def regression(theta, d, noise_variance=0.0):
    """Regression of y on x plus independent noise in each atom.

    Returns
    -------
    slope : ndarray of shape (n_atoms, d - 1)
    intercept, variance : ndarrays of shape (n_atoms,)
    inverse : ndarray of shape (n_atoms, d - 1, d - 1)
        Inverse of the lower factor of the covariance of x plus noise.
    """
    mean, root = theta[:, 0 : 4 * d : 4], np.zeros((len(theta), d, d))  # of ``MultivariateNormalKernel``'s θ
    root[:, *np.tril_indices(d)] = theta[:, 4 * d + d * (d + 1) // 2 : 4 * d + d * (d + 1)]
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
    """y given x, or given x plus Gaussian noise: one piece per component.

    ``atoms`` has a row per atom, with its log weight and the constant of x's density; the constant and the slopes of c;
    τ; the centre of x; and the inverse of the factor of x's covariance, row by row.
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
    def value(cls, draws, most_pieces):
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
