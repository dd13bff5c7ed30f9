"""Draws of a mixing measure, and what can be computed from them: densities, cdfs, quantiles, moments, samples, clusters."""

from math import exp, inf, log

import numpy as np

from ._compiled import entry, helper
from .samplers._run import Draws

__all__ = ["MixtureDraws", "convergence"]


class MixtureDraws:
    """Draws of P from all chains, kept flat: atom rows ``start[t]:start[t + 1]`` belong to draw ``t``.

    Draw t of chain c is number ``c * n_draws + t``.  See :class:`sklearn_dpmix.samplers._run.Draws` for the rows' order.
    """

    def __init__(self, chains):
        self.n_chains, self.n_draws = len(chains), len(chains[0].n_clusters)
        self.n_clusters = np.concatenate([chain.n_clusters for chain in chains])
        self.concentration = np.concatenate([chain.concentration for chain in chains])
        self.start = np.concatenate([[0], np.cumsum(np.concatenate([chain.n_atoms for chain in chains]))])
        self.weights = np.concatenate([chain.weights for chain in chains])
        self.theta = np.concatenate([chain.theta for chain in chains])

    def by_chain(self, values):
        """Reshape (n_chains * n_draws, ...) to (n_chains, n_draws, ...)."""
        return values.reshape(self.n_chains, self.n_draws, *values.shape[1:])

    def occupied_weights(self):
        """Weights of occupied clusters, largest cluster first, padded with 0: (n_chains, n_draws, most clusters)."""
        padded = np.zeros((len(self.n_clusters), self.n_clusters.max()))
        for t, (start, k) in enumerate(zip(self.start, self.n_clusters, strict=False)):
            padded[t, :k] = self.weights[start : start + k]
        return self.by_chain(padded)

    def every(self, n_most):
        """Numbers of at most ``n_most`` draws, evenly spaced over all chains."""
        total = len(self.n_clusters)
        return np.unique(np.linspace(0, total - 1, min(n_most, total)).astype(np.int64))

    def density(self, kernel, X):
        """(n_chains * n_draws, n_points) densities of confidential records."""
        return np.exp(mixture_log_density(kernel, self.start, self.weights, self.theta, X))

    def cdf(self, kernel, X):
        """(n_chains * n_draws, n_points) probabilities that every feature is at most X."""
        return mixture_cdf(kernel, self.start, self.weights, self.theta, X)

    def quantile(self, kernel, j, q):
        """(n_chains * n_draws, n_q) quantiles of feature j."""
        return mixture_quantile(kernel, self.start, self.weights, self.theta, j, q)

    def moments(self, kernel, n_features):
        """Means and variances, each (n_chains * n_draws, n_features)."""
        return mixture_moments(kernel, self.start, self.weights, self.theta, n_features)

    def sample(self, kernel, rng, n, n_features):
        """n records from the posterior predictive: a draw at random for each."""
        return mixture_sample(kernel, self.start, self.weights, self.theta, n, n_features, rng)


def join(blocks):
    """Concatenate the draws of one chain's blocks."""
    return Draws(*(np.concatenate(parts) for parts in zip(*blocks, strict=True)))


def convergence(monitors):
    """R-hat (rank-normalised split) and bulk effective sample size of each monitored quantity.

    Parameters
    ----------
    monitors : dict of str to ndarray of shape (n_chains, n_draws)

    Returns
    -------
    r_hat, ess : dict of str to float
        NaN for a quantity that never varies, or with too few draws to say.
    """
    from arviz_stats.base import array_stats

    r_hat, ess = {}, {}
    for name, values in monitors.items():
        values = np.asarray(values, dtype=np.float64)
        enough = values.shape[1] >= 4 and np.ptp(values) > 0
        r_hat[name] = float(array_stats.rhat(values, chain_axis=0, draw_axis=1)) if enough else np.nan
        ess[name] = float(array_stats.ess(values, chain_axis=0, draw_axis=1)) if enough else np.nan
    return r_hat, ess


# --- compiled ---------------------------------------------------------------------------------------------------------


@helper
def log_sum_in(top, total, value):
    """One step of a running log-sum-exp: (top, total) with total·exp(top) the sum so far."""
    if value > top:
        return value, total * exp(top - value) + 1.0
    if value > -inf:
        return top, total + exp(value - top)
    return top, total


@entry
def mixture_log_density(kernel, start, weights, theta, X):
    """Log density of each draw at each row of X.  The last atom of a draw stands for the base measure: use its density."""
    n_draws, n_points, d = start.size - 1, X.shape[0], X.shape[1]
    result = np.empty((n_draws, n_points))
    base = np.zeros(n_points)
    if kernel.has_base_predictive():
        for p in range(n_points):
            for j in range(d):
                base[p] += kernel.log_base_predictive(j, X[p, j])
    for t in range(n_draws):
        for p in range(n_points):
            top, total = -inf, 0.0
            for h in range(start[t], start[t + 1]):
                if weights[h] > 0.0:
                    value = log(weights[h])
                    if h == start[t + 1] - 1 and kernel.has_base_predictive():
                        value += base[p]
                    else:
                        for j in range(d):
                            value += kernel.log_density(theta, h, j, X[p, j])
                    top, total = log_sum_in(top, total, value)
            result[t, p] = top + log(total) if total > 0.0 else -inf
    return result


@entry
def mixture_cdf(kernel, start, weights, theta, X):
    n_draws, n_points, d = start.size - 1, X.shape[0], X.shape[1]
    result = np.zeros((n_draws, n_points))
    for t in range(n_draws):
        for p in range(n_points):
            for h in range(start[t], start[t + 1]):
                value = weights[h]
                for j in range(d):
                    value *= kernel.cdf(theta, h, j, X[p, j])
                result[t, p] += value
    return result


@helper
def cdf_at(kernel, first, last, weights, theta, j, x):
    total = 0.0
    for h in range(first, last):
        total += weights[h] * kernel.cdf(theta, h, j, x)
    return total


@entry
def mixture_quantile(kernel, start, weights, theta, j, q):
    """Bisection on the cdf, to the last bits of the bracket's width."""
    result = np.empty((start.size - 1, q.size))
    for t in range(start.size - 1):
        lowest, highest = inf, -inf
        for h in range(start[t], start[t + 1]):
            sd = kernel.variance(theta, h, j) ** 0.5
            lowest = min(lowest, kernel.mean(theta, h, j) - 10.0 * sd)
            highest = max(highest, kernel.mean(theta, h, j) + 10.0 * sd)
        for p in range(q.size):
            lo, hi = lowest, highest
            while cdf_at(kernel, start[t], start[t + 1], weights, theta, j, lo) > q[p]:
                lo -= hi - lo
            while cdf_at(kernel, start[t], start[t + 1], weights, theta, j, hi) < q[p] and hi - lo < 1e300:
                hi += hi - lo
            for _ in range(80):
                mid = 0.5 * (lo + hi)
                if mid <= lo or mid >= hi:
                    break
                if cdf_at(kernel, start[t], start[t + 1], weights, theta, j, mid) < q[p]:
                    lo = mid
                else:
                    hi = mid
            result[t, p] = 0.5 * (lo + hi)
    return result


@entry
def mixture_moments(kernel, start, weights, theta, n_features):
    mean = np.zeros((start.size - 1, n_features))
    variance = np.zeros((start.size - 1, n_features))
    for t in range(start.size - 1):
        for j in range(n_features):
            for h in range(start[t], start[t + 1]):
                mean[t, j] += weights[h] * kernel.mean(theta, h, j)
            for h in range(start[t], start[t + 1]):
                shift = kernel.mean(theta, h, j) - mean[t, j]
                variance[t, j] += weights[h] * (kernel.variance(theta, h, j) + shift * shift)
    return mean, variance


@helper
def draw_atom(rng, start, weights):
    """A draw at random, then one of its atoms by weight."""
    t = min(int(rng.random() * (start.size - 1)), start.size - 2)
    u = rng.random()
    for h in range(start[t], start[t + 1]):
        u -= weights[h]
        if u < 0.0:
            return h
    return start[t + 1] - 1


@entry
def mixture_sample(kernel, start, weights, theta, n, n_features, rng):
    records = np.empty((n, n_features))
    for i in range(n):
        h = draw_atom(rng, start, weights)
        for j in range(n_features):
            records[i, j] = kernel.draw(rng, theta, h, j)
    return records


# --- releases: g(z) and clusters ---------------------------------------------------------------------------------------


@entry
def release_log_density(channel, kernel, start, weights, theta, chosen, Z):
    """Log of the mean over the ``chosen`` draws of the density of each release, log g(z), in closed form."""
    result = np.empty(Z.shape[0])
    for i in range(Z.shape[0]):
        top, total = -inf, 0.0
        for t in chosen:
            for h in range(start[t], start[t + 1]):
                if weights[h] > 0.0:
                    value = log(weights[h])
                    for j in range(kernel.n_features):
                        value += channel.log_marginal(kernel, Z, i, j, theta, h)
                    top, total = log_sum_in(top, total, value)
        result[i] = top + log(total / chosen.size) if total > 0.0 else -inf
    return result


@entry
def release_log_density_by_records(channel, kernel, Z, records):
    """The same where g has no closed form: the mean of q(z | y) over posterior predictive records y."""
    result = np.empty(Z.shape[0])
    for i in range(Z.shape[0]):
        top, total = -inf, 0.0
        for s in range(records.shape[0]):
            value = 0.0
            for j in range(records.shape[1]):
                value += channel.log_channel(Z, i, j, records[s, j])
            top, total = log_sum_in(top, total, value)
        result[i] = top + log(total / records.shape[0]) if total > 0.0 else -inf
    return result


@entry
def classify(channel, kernel, weights, theta, Z, rows, labels):
    """Put each release of ``rows`` in the atom with the largest w_k g(z | θ_k); return the sum of the logs of those maxima."""
    score = 0.0
    for r in range(rows.size):
        i, best = rows[r], -inf
        for h in range(weights.size):
            value = log(weights[h])
            for j in range(kernel.n_features):
                value += channel.log_marginal(kernel, Z, i, j, theta, h)
            if value > best:
                best = value
                labels[r] = h
        score += best
    return score


@entry
def classify_by_records(channel, kernel, weights, theta, Z, rows, labels, rng):
    """The same where g has no closed form: estimated by 200 records drawn from each atom's kernel."""
    d, size = kernel.n_features, 200
    records = np.empty((weights.size, size, d))
    for h in range(weights.size):
        for s in range(size):
            for j in range(d):
                records[h, s, j] = kernel.draw(rng, theta, h, j)
    score = 0.0
    for r in range(rows.size):
        i, best = rows[r], -inf
        for h in range(weights.size):
            top, total = -inf, 0.0
            for s in range(size):
                value = 0.0
                for j in range(d):
                    value += channel.log_channel(Z, i, j, records[h, s, j])
                top, total = log_sum_in(top, total, value)
            value = top + log(total * weights[h]) if total > 0.0 else -inf
            if value > best:
                best = value
                labels[r] = h
        score += best
    return score
