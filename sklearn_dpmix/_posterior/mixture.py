"""Draws of a mixing measure, and what can be computed from them: densities, cdfs, quantiles, moments, samples."""

from copy import copy
from math import exp, inf, log

import numpy as np
from joblib import Parallel, delayed

from .._base.choices import evenly_spaced
from .._base.compiled import entry, helper
from .._base.numeric import draw_weighted, log_sum_in
from .._base.vector import exp_bounded
from ..samplers.mixture._run import Draws
from .many_points import log_density_at
from .quantile import mixture_quantile

POINTS = 512  # points of an inner loop: their partial sums stay in the processor's first cache
N_DRAWS = 64  # whose quantiles a thread finds at a time
N_PRIOR = 5000  # clusters drawn from the base measure if it has no closed-form density
CHUNK = 2_000_000  # numbers of a temporary (n_draws, n_points) table


class MixtureDraws:
    """Draws of P from all chains, kept flat: atom rows ``start[t]:start[t + 1]`` belong to draw ``t``.

    Draw t of chain c is number ``c * n_draws + t``.  See :class:`sklearn_dpmix.samplers.mixture._run.Draws`
    for the rows' order.
    """

    def __init__(self, chains):
        self.n_chains, self.n_draws = len(chains), len(chains[0].n_clusters)
        self.flat = Draws(*(np.concatenate(parts) for parts in zip(*chains, strict=True)))
        self.start = np.concatenate([[0], np.cumsum(self.flat.n_atoms)])
        with np.errstate(divide="ignore"):
            self.log_weights = np.log(self.flat.weights)

    @property
    def atoms(self):
        """(start, log weights, theta) of all draws."""
        return self.start, self.log_weights, self.flat.theta

    def chains(self):
        """The draws chain by chain, as views."""
        cuts = self.n_draws * np.arange(1, self.n_chains)
        n_clusters, n_atoms, concentration, weights, theta, outside = self.flat
        parts = [np.split(part, cuts) for part in (n_clusters, n_atoms, concentration)]
        parts += [np.split(part, self.start[cuts]) for part in (weights, theta)]
        parts.append(np.split(outside, cuts if outside.size else [0] * len(cuts)))
        return [Draws(*chain) for chain in zip(*parts, strict=True)]

    def by_chain(self, values):
        """Reshape (n_chains * n_draws, ...) to (n_chains, n_draws, ...)."""
        return values.reshape(self.n_chains, self.n_draws, *values.shape[1:])

    def occupied(self, t):
        """(log weights, theta) of the occupied clusters of draw t, largest first."""
        rows = slice(self.start[t], self.start[t] + self.flat.n_clusters[t])
        return self.log_weights[rows], self.flat.theta[rows]

    def atoms_of(self, chosen):
        """(start, log weights, theta) of only some draws, with all their atoms."""
        rows = np.concatenate([np.arange(self.start[t], self.start[t + 1]) for t in chosen])
        start = np.concatenate([[0], np.cumsum(self.flat.n_atoms[chosen])])
        return start, self.log_weights[rows], self.flat.theta[rows]

    def occupied_weights(self):
        """Weights of occupied clusters, largest cluster first, padded with 0: (n_chains, n_draws, most clusters)."""
        draw = np.repeat(np.arange(len(self.flat.n_atoms)), self.flat.n_atoms)
        place = np.arange(len(draw)) - self.start[draw]
        is_occupied = place < self.flat.n_clusters[draw]
        padded = np.zeros((len(self.flat.n_atoms), self.flat.n_clusters.max()))
        padded[draw[is_occupied], place[is_occupied]] = self.flat.weights[is_occupied]
        return self.by_chain(padded)

    def with_columns(self, columns):
        """The same draws with only some columns of θ."""
        part = copy(self)
        part.flat = self.flat._replace(theta=np.ascontiguousarray(self.flat.theta[:, columns]))
        return part

    def every(self, n_most):
        """Numbers of at most ``n_most`` draws, evenly spaced over all chains."""
        return evenly_spaced(self.n_chains * self.n_draws, n_most)

    def log_predictive(self, kernel, X, n_jobs=None):
        """(n_points,) logs of the density of confidential records, averaged over all draws."""

        def log_predictive(X):
            def of_chunk(rows):
                return mixture_log_predictive(kernel, *self.atoms, X[rows])

            return np.concatenate(in_chunks(of_chunk, len(X), 4 * POINTS, n_jobs))

        if X.shape[1] > 1:
            return log_predictive(X)
        return log_density_at(X[:, 0], lambda x: log_predictive(x[:, None]), moments_of_atoms(kernel, self.flat.theta))

    def density(self, kernel, X, n_jobs=None):
        """(n_chains, n_draws, n_points) densities of confidential records."""
        return self._table(mixture_density, kernel, X, n_jobs, ((X.shape[1], POINTS), POINTS, POINTS, POINTS))

    def cdf(self, kernel, X, n_jobs=None):
        """(n_chains, n_draws, n_points) probabilities that every feature is at most X."""
        return self._table(mixture_cdf, kernel, X, n_jobs)

    def _table(self, add_to, kernel, X, n_jobs, room=()):
        """Fill a table in chunks, each with arrays of these shapes to write to."""
        table = np.zeros((self.n_chains * self.n_draws, len(X)))

        def add(rows):
            add_to(kernel, *self.atoms, X[rows], table, rows.start, *map(np.empty, room))

        in_chunks(add, len(X), POINTS, n_jobs)
        return self.by_chain(table)

    def density_quantiles(self, kernel, X, q, n_jobs):
        """(n_q, n_points) pointwise quantiles of the density, a few points at a time."""
        n_draws = self.n_chains * self.n_draws

        def quantiles(rows):
            return np.quantile(self.density(kernel, X[rows]).reshape(n_draws, -1), q, axis=0)

        return np.concatenate(in_chunks(quantiles, len(X), max(1, CHUNK // n_draws), n_jobs), axis=1)

    def quantile(self, kernel, j, q, n_jobs=None):
        """(n_chains, n_draws, n_q) quantiles of feature j, some draws at a time."""

        def quantiles(draws):
            start = self.start[draws.start : draws.stop + 1]
            return mixture_quantile(kernel, start, self.flat.weights, self.flat.theta, j, q)

        return self.by_chain(np.concatenate(in_chunks(quantiles, self.n_chains * self.n_draws, N_DRAWS, n_jobs)))

    def distance_from_prior(self, kernel, rng, n, n_features):
        """Hellinger distance between the posterior's and the prior's mean density, from n posterior records.

        H² = 1 - ∫ √(p q) = 1 - E_p √(q/p), whose variance is at most H² (2 - H²).
        """
        X = self.sample(kernel, rng, n, n_features)
        n_atoms = 1 if kernel.has_base_predictive() else N_PRIOR
        start, log_weights = np.array([0, n_atoms]), np.full(n_atoms, -log(n_atoms))
        theta = np.zeros((n_atoms, self.flat.theta.shape[1]))
        draw_prior_atoms(kernel, theta, rng)
        log_prior = mixture_log_predictive(kernel, start, log_weights, theta, X)
        with np.errstate(invalid="ignore"):  # both may be infinite, next to an end of an interval
            ratio = np.exp(0.5 * (log_prior - self.log_predictive(kernel, X)))
        return float(np.sqrt(np.maximum(0.0, 1.0 - ratio.mean())))  # a NaN stays one

    def moments(self, kernel, n_features):
        """Means and variances, each (n_chains, n_draws, n_features)."""
        moments = np.zeros((2, self.n_chains * self.n_draws, n_features))
        mixture_moments(kernel, self.start, self.flat.weights, self.flat.theta, *moments)
        return tuple(map(self.by_chain, moments))

    def clamped_moments(self, kernel, low, high):
        """Mean and variance of one feature's records moved to [low, high], each (n_chains, n_draws)."""
        moments = clamped_moments(kernel, self.start, self.flat.weights, self.flat.theta, low, high)
        return tuple(map(self.by_chain, moments))

    def sample(self, kernel, rng, n, n_features):
        """n records from the posterior predictive, each from a random draw."""
        return mixture_sample(kernel, self.start, self.flat.weights, self.flat.theta, n, n_features, rng)[:, 0]


def in_chunks(function, n_rows, size, n_jobs):
    """A list of ``function`` of slices of ``size`` rows, in ``n_jobs`` threads, on which the slices do not depend."""
    slices = [slice(first, min(first + size, n_rows)) for first in range(0, n_rows, size)]
    if len(slices) == 1:
        return [function(slices[0])]
    return Parallel(n_jobs=n_jobs, require="sharedmem")(delayed(function)(rows) for rows in slices)


def moments_of_atoms(kernel, theta):
    """Mean and variance of the first feature in each component."""
    mean, variance = np.zeros((2, len(theta), 1))
    mixture_moments(kernel, np.arange(len(theta) + 1), np.ones(len(theta)), theta, mean, variance)
    return mean[:, 0], variance[:, 0]


# --- compiled: densities ---------------------------------------------------------------------------------------------


@helper
def add_density(kernel, first, last, log_weights, theta, x, size, values, sums):
    """Add the atoms ``first:last`` at the points x[j, :size] to ``sums``, feature by feature: such loops vectorise."""
    for h in range(first, last):
        log_weight = log_weights[h]
        if log_weight > -inf:
            for p in range(size):
                values[p] = log_weight
            kernel.log_points(theta, h, x, size, values)
            for p in range(size):
                sums[p] += exp_bounded(min(values[p], 709.0))


@helper
def n_explicit(kernel, start, t):
    """End of the atoms of draw t with their own density: the last is that of the base measure, if it has one."""
    return start[t + 1] - 1 if kernel.has_base_predictive() else start[t + 1]


@entry
def mixture_density(kernel, start, log_weights, theta, X, table, column, x, values, sums, base):
    """Density of each draw at each row of X, written to ``table[:, column:]``; the last four are room for some rows."""
    for a in range(0, X.shape[0], POINTS):
        size = min(POINTS, X.shape[0] - a)
        for p in range(size):
            base[p] = exp_bounded(min(kernel.log_base_record(X, a + p), 709.0)) if kernel.has_base_predictive() else 0.0
            for j in range(kernel.n_features):
                x[j, p] = X[a + p, j]
        for t in range(start.size - 1):
            rest = exp_bounded(log_weights[start[t + 1] - 1])
            for p in range(size):
                sums[p] = rest * base[p]
            add_density(kernel, start[t], n_explicit(kernel, start, t), log_weights, theta, x, size, values, sums)
            for p in range(size):
                table[t, column + a + p] = sums[p]


@entry
def mixture_log_predictive(kernel, start, log_weights, theta, X):
    """Log of the draws' mean density at each row of X: one long sum over all atoms of all draws."""
    n_draws = start.size - 1
    result = np.empty(X.shape[0])
    x, values, sums = np.empty((X.shape[1], POINTS)), np.empty(POINTS), np.empty(POINTS)
    rest = 0.0
    for t in range(n_draws):
        rest += exp(log_weights[start[t + 1] - 1])
    for a in range(0, X.shape[0], POINTS):
        size = min(POINTS, X.shape[0] - a)
        for p in range(size):
            sums[p] = rest * exp(kernel.log_base_record(X, a + p)) if kernel.has_base_predictive() else 0.0
            for j in range(kernel.n_features):
                x[j, p] = X[a + p, j]
        for t in range(n_draws):
            add_density(kernel, start[t], n_explicit(kernel, start, t), log_weights, theta, x, size, values, sums)
        for p in range(size):
            if 1e-280 < sums[p] < 1e280:
                result[a + p] = log(sums[p] / n_draws)
            else:  # out of the range of floats
                result[a + p] = log_predictive_at(kernel, start, log_weights, theta, X, a + p)
    return result


@helper
def log_predictive_at(kernel, start, log_weights, theta, X, p):
    """The log predictive density at one point far from everything, without underflow."""
    top, total, base = -inf, 0.0, kernel.log_base_record(X, p)
    x, values = np.empty((X.shape[1], 1)), np.empty(1)
    for j in range(kernel.n_features):
        x[j, 0] = X[p, j]
    for t in range(start.size - 1):
        for h in range(start[t], start[t + 1]):
            values[0] = log_weights[h]
            if h == n_explicit(kernel, start, t):
                values[0] += base
            else:
                kernel.log_points(theta, h, x, 1, values)
            top, total = log_sum_in(top, total, values[0])
    return top + log(total / (start.size - 1)) if total > 0.0 else -inf


# --- compiled: probabilities, moments, samples -----------------------------------------------------------------------


@entry
def mixture_cdf(kernel, start, log_weights, theta, X, table, column):
    """Probability, in each draw, that every feature is at most each row of X, added to ``table[:, column:]``."""
    for t in range(start.size - 1):
        for h in range(start[t], start[t + 1]):
            weight = exp(log_weights[h])
            for p in range(X.shape[0]):
                value = weight
                for j in range(kernel.n_features):
                    value *= kernel.cdf(theta, h, j, X[p, j])
                table[t, column + p] += value


@entry
def mixture_moments(kernel, start, weights, theta, mean, variance):
    """Means and variances of each draw, added to zeros."""
    for t in range(start.size - 1):
        for j in range(mean.shape[1]):
            for h in range(start[t], start[t + 1]):
                mean[t, j] += weights[h] * kernel.mean(theta, h, j)
            for h in range(start[t], start[t + 1]):
                shift = kernel.mean(theta, h, j) - mean[t, j]
                variance[t, j] += weights[h] * (kernel.variance(theta, h, j) + shift * shift)


@entry
def clamped_moments(kernel, start, weights, theta, low, high):
    mean, variance = np.zeros(start.size - 1), np.zeros(start.size - 1)
    for t in range(start.size - 1):
        for h in range(start[t], start[t + 1]):
            mean[t] += weights[h] * kernel.clamped_mean(theta, h, 0, low, high)
        for h in range(start[t], start[t + 1]):
            shift = kernel.clamped_mean(theta, h, 0, low, high) - mean[t]
            variance[t] += weights[h] * (kernel.clamped_variance(theta, h, 0, low, high) + shift * shift)
    return mean, variance


@helper
def draw_atom(rng, start, weights):
    """A draw at random, then one of its atoms by weight."""
    t = min(int(rng.random() * (start.size - 1)), start.size - 2)
    return start[t] + draw_weighted(rng, weights, start[t], start[t + 1] - start[t], 1.0)


@entry
def draw_prior_atoms(kernel, theta, rng):
    for h in range(theta.shape[0]):
        kernel.draw_prior(rng, theta, h)


@entry
def mixture_sample(kernel, start, weights, theta, n, n_features, rng):
    records = np.empty((n, 1, n_features))
    for i in range(n):
        kernel.draw_record(rng, theta, draw_atom(rng, start, weights), records, i, 0)
    return records
