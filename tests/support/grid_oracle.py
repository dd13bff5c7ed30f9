"""Exact posterior of tiny mixtures under binned, histogram, category and Laplace channels: an oracle for tests.

The counterpart of ``oracle.py`` for beta, normal and categorical kernels, written from the mathematics.  All partitions
of n <= 4 records are enumerated with their urn probabilities.  A cluster's marginal likelihood and predictive density
are sums over a grid of the kernel's parameters: the trapezoidal rule in (log a, log b) for Beta(a, b), in (log sigma^2,
(mu - mean) / sigma) for the normal.  Both integrands are analytic in a strip around the real plane, whatever the
channel, so that the rule is exponentially accurate; every call compares the grid with the one of twice the step, and
the rim's mass with the total (``oracle.RTOL``).  Where the release ties the records together, a histogram of all of
them, the bins of all records are enumerated too.  Categories have finite sums only.
"""

from functools import cached_property
from itertools import combinations, combinations_with_replacement, pairwise, product

import numpy as np
from oracle import ExactPosterior, _check, _integrate, log_normal
from scipy.special import (
    betainc,
    betaln,
    comb,
    gammainc,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_ndtr,
    ndtr,
    xlog1py,
    xlogy,
)

LOW, TAIL = 1e-10, 1e-15  # prior mass that a grid leaves out: towards a = b = 0, and elsewhere
BETA_RANGE = (1e-3, 1e6)  # the package restricts a and b to it, which the oracle ignores: refused where it matters
MAX_RECORDS = 4


# --- channels: log q(release | confidential) --------------------------------------------------------------------------


def haar_coefficients(resolution):
    """psi_jk at the centre of each of the 2^(J+1) bins, shape (n_bins, 2^(J+1) - 1), level by level."""
    n_bins = 2 ** (resolution + 1)
    centre = (np.arange(n_bins) + 0.5) / n_bins
    columns = []
    for j in range(resolution + 1):
        for k in range(2**j):
            u = centre * 2**j - k
            columns.append(2 ** (j / 2) * (((u >= 0) & (u < 0.5)) * 1.0 - ((u >= 0.5) & (u < 1))))
    return np.column_stack(columns)


def log_haar(Z, psi, epsilon, calibration="exact"):
    """Log density of each release (n, n_coefficients) given the row of psi that is its record's: (n, n_rows)."""
    Z = np.asarray(Z, float)
    if calibration == "exact":  # the L1 sensitivity by brute force over pairs of bins
        scale = np.abs(psi[:, None] - psi[None]).sum(axis=2).max() / epsilon
    else:
        scale = 12 / epsilon * np.sqrt(2) / (np.sqrt(2) - 1) * np.sqrt((Z.shape[1] + 1) / 2)
    return np.sum(-np.abs(Z[:, None] - psi) / scale - np.log(2 * scale), axis=2)


def log_smoothed_histogram(z, counts, epsilon, bounds=(0, 1)):
    """Log density of each of the k draws z of a smoothed histogram with these counts.

    The smoothing is where k draws cost epsilon: log of the largest ratio of densities when a record moves, times k.
    """
    z, counts = (np.asarray(z, float) - bounds[0]) / (bounds[1] - bounds[0]), np.asarray(counts, float)
    n, m = counts.sum(), len(counts)
    ratio = np.exp(epsilon / len(z))  # (delta + (1 - delta) m / n) / delta
    delta = (m / n) / (ratio - 1 + m / n)
    inside = (z >= 0) & (z <= 1)
    density = (1 - delta) * m * counts[np.clip((z * m).astype(int), 0, m - 1)] / n + delta
    return np.log(np.where(inside, density, 0)) - np.log(bounds[1] - bounds[0])


def log_perturbed_histogram(z, counts, epsilon, noise="laplace"):
    """Log density (or mass) of noisy counts: independent noise of L1 sensitivity 2."""
    away = np.abs(np.asarray(z, float) - counts)
    if noise == "laplace":
        return np.log(epsilon / 4) - away * epsilon / 2
    r = np.exp(-epsilon / 2)  # masses r^|k| (1 - r) / (1 + r)
    return away * np.log(r) + np.log((1 - r) / (1 + r))


def log_randomized_response(Z, epsilon, n_categories):
    """Log probability of each released category given the true one, shape (n, n_features, n_categories).

    ``epsilon`` is the record's, shared equally among features: a number, or one a record; None means no noise.
    """
    hit = np.asarray(Z, int)[..., None] == np.arange(n_categories)
    with np.errstate(divide="ignore"):
        if epsilon is None:
            return np.log(hit)
        e = np.exp(np.broadcast_to(epsilon, len(hit))[:, None, None] / hit.shape[1])
        return np.log(np.where(hit, e, 1.0) / (e + n_categories - 1))


# --- kernels with their base measure on a grid ------------------------------------------------------------------------


class BetaGrid:
    """Beta(a, b) on an interval, a and b independent Gamma(shape, rate)."""

    what = "beta kernel"

    def __init__(self, shape, rate, bounds=(0.0, 1.0), step=0.08):
        if gammainc(shape, BETA_RANGE[0] * rate) > 1e-5:
            raise ValueError("too much of the gamma prior is below the smallest parameter of the package's kernel")
        low, high = np.log(gammaincinv(shape, LOW) / rate), np.log(gammainccinv(shape, TAIL) / rate)
        u = low + step * np.arange(2 * int(np.ceil((high - low) / step / 2)) + 1)
        self.bounds, self.width = bounds, bounds[1] - bounds[0]
        self.a, self.b = np.exp(u)[:, None], np.exp(u)
        log_prior = shape * (u + np.log(rate)) - rate * np.exp(u) - gammaln(shape) + np.log(step)
        self.log_weight = log_prior[:, None] + log_prior

    def unit(self, y):
        return (y - self.bounds[0]) / self.width

    @cached_property
    def log_beta(self):
        return betaln(self.a, self.b)

    def log_density(self, x):
        """Log density of a confidential record at a number x."""
        y = self.unit(x)
        return xlogy(self.a - 1, y) + xlog1py(self.b - 1, -y) - self.log_beta - np.log(self.width)

    def log_bin_mass(self, n_bins):
        """Log probability of each of n_bins equal bins of the interval: (n_bins, n_u, n_v)."""
        cdf = np.array([betainc(self.a, self.b, j / n_bins) for j in range(n_bins + 1)])
        with np.errstate(divide="ignore"):
            return np.log(np.diff(cdf, axis=0))

    def log_binomial(self, z, epsilon, n_trials):
        """Log probability of z successes, of probability low + (high - low) u each, u the record on [0, 1].

        Powers of low + (high - low) u and of low + (high - low) (1 - u) multiplied out: moments of u^i (1 - u)^j.
        """
        low, total, misses = 1 / (1 + np.exp(epsilon / n_trials)), 0.0, n_trials - z
        for i, j in product(range(z + 1), range(misses + 1)):
            weight = comb(z, i) * comb(misses, j) * low ** (n_trials - i - j) * (1 - 2 * low) ** (i + j)
            total = total + weight * np.exp(betaln(self.a + i, self.b + j) - self.log_beta)
        return np.log(comb(n_trials, z) * total)

    def log_laplace(self, z, scale):
        """Log density of a release y + Laplace(scale)."""
        z, b = self.unit(z), scale / self.width

        def q(y):
            return np.exp(-np.abs(z - y) / b) / (2 * b)

        return self.log_additive(z, q, lambda y: np.sign(z - y) * q(y) / b)

    def log_gaussian(self, z, scale):
        """Log density of a release y + N(0, scale²)."""
        z, b = self.unit(z), scale / self.width

        def q(y):
            return np.exp(log_normal(z, y, b**2))

        return self.log_additive(z, q, lambda y: (z - y) / b**2 * q(y))

    def log_additive(self, z, q, slope, step=1 / 16):
        """Log density of a release whose density is q(y) given the record y on [0, 1], and q' is ``slope``.

        By parts, q(1) - integral of q'(y) F(y) dy: the distribution function F is bounded where the density is not.
        The double exponential rule on either side of z copes with what is left at the ends, F ~ y^a.
        """
        v = step * np.arange(-int(3.2 / step), int(3.2 / step) + 1)
        s = 1 / (1 + np.exp(-np.pi * np.sinh(v)))
        weight = step * np.pi * np.cosh(v) * s * (1 - s)
        fine, coarse = (np.full(self.log_weight.shape, q(1.0)) for _ in range(2))
        for low, high in pairwise([0.0, z, 1.0] if 0 < z < 1 else [0.0, 1.0]):
            for j, (node, w) in enumerate(zip(s, weight, strict=True)):
                y = low + (high - low) * node
                term = slope(y) * (high - low) * w * betainc(self.a, self.b, y)
                fine -= term
                if j % 2 == 0:
                    coarse -= 2 * term
        prior = np.exp(self.log_weight)  # the check's average: q is bounded, so that no posterior is far from it
        total, error = np.sum(prior * fine), np.sum(prior * np.abs(fine - coarse))
        _check(total, total + error, 0.0, "the integral over the record")
        return np.log(np.maximum(fine, 1e-18) / self.width)  # of rounding where q is next to nothing on all records


class NormalGrid:
    """N(mu, sigma^2) with N(mu | mean, sigma^2 / mean_precision) IG(sigma^2 | shape, scale)."""

    what = "normal kernel"

    def __init__(self, mean, mean_precision, shape, scale, bounds=(0.0, 1.0), steps=(0.1, 0.15)):
        low = np.log(scale / gammainccinv(shape + 1, TAIL))
        high = np.log(scale / gammaincinv(shape, TAIL))
        u = low + steps[0] * np.arange(2 * int(np.ceil((high - low) / steps[0] / 2)) + 1)
        reach = 9.0 / np.sqrt(mean_precision) + 9.0
        t = steps[1] * np.arange(-2 * int(np.ceil(reach / steps[1] / 2)), 2 * int(np.ceil(reach / steps[1] / 2)) + 1)
        self.bounds = bounds
        self.sigma = np.exp(0.5 * u)[:, None]
        self.mu = mean + self.sigma * t
        log_u = shape * np.log(scale) - gammaln(shape) - shape * u - scale * np.exp(-u) + np.log(steps[0])
        self.log_weight = log_u[:, None] + log_normal(t, 0.0, 1 / mean_precision) + np.log(steps[1])

    def log_density(self, x):
        """Log density of a confidential record, before clamping."""
        return log_normal(x, self.mu, self.sigma**2)

    def edges(self, n_bins):
        """Ends of equal bins of the bounds; records outside are moved to the bound, into the outer bins."""
        return np.array([-np.inf, *np.linspace(*self.bounds, n_bins + 1)[1:-1], np.inf])

    def log_bin_mass(self, n_bins):
        """Log probability of each bin: (n_bins, n_u, n_t)."""
        edges = self.edges(n_bins)
        low, high = ((edge[:, None, None] - self.mu) / self.sigma for edge in (edges[:-1], edges[1:]))
        flip = low > 0  # the smaller tail does not cancel
        with np.errstate(divide="ignore"):
            return np.log(np.where(flip, ndtr(-low) - ndtr(-high), ndtr(high) - ndtr(low)))

    def log_binomial(self, z, epsilon, n_trials):
        """Log probability of z successes, as of :meth:`BetaGrid.log_binomial`: records in the bounds, then on them."""
        least, (low, high) = 1 / (1 + np.exp(epsilon / n_trials)), self.bounds

        def log_q(y):
            p = least + (1 - 2 * least) * (y - low) / (high - low)
            return np.log(comb(n_trials, z)) + z * np.log(p) + (n_trials - z) * np.log(1 - p)

        total = np.exp(log_release(self, log_q, []))
        total += np.exp(log_q(low)) * ndtr((low - self.mu) / self.sigma)
        return np.log(total + np.exp(log_q(high)) * ndtr((self.mu - high) / self.sigma))


class TruncatedNormalGrid(NormalGrid):
    """The same law of (mu, sigma^2); records are N(mu, sigma^2) truncated to the bounds."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        low, high = ((bound - self.mu) / self.sigma for bound in self.bounds)
        low, high = np.where(low > 0, -high, low), np.where(low > 0, -low, high)  # the smaller tail does not cancel
        self.log_inside = log_ndtr(high) + np.log1p(-np.exp(log_ndtr(low) - log_ndtr(high)))

    def log_density(self, x):
        inside = self.bounds[0] <= x <= self.bounds[1]
        return super().log_density(x) - self.log_inside if inside else np.full(self.mu.shape, -np.inf)

    def log_laplace(self, z, scale):
        """Log density of a release y + Laplace(scale)."""
        return log_release(self, lambda y: -abs(z - y) / scale - np.log(2 * scale), [z])

    def log_gaussian(self, z, scale):
        """Log density of a release y + N(0, scale²)."""
        return log_release(self, lambda y: log_normal(z, y, scale**2), [z])


def log_release(grid, log_q, kinks):
    """Log of the integral of q(z | y) f(y) over records in the bounds, on panels as narrow as the narrowest kernel."""
    low, high = grid.bounds
    cuts = np.unique([*np.linspace(low, high, 81), *(kink for kink in kinks if low < kink < high)])
    nodes, weights = np.polynomial.legendre.leggauss(6)
    total = np.zeros(grid.mu.shape)
    for low, high in pairwise(cuts):
        for node, weight in zip(low + 0.5 * (high - low) * (1 + nodes), 0.5 * (high - low) * weights, strict=True):
            total += weight * np.exp(grid.log_density(node) + log_q(node))
    return np.log(total)


# --- posteriors -------------------------------------------------------------------------------------------------------


def partitions(n, concentration, discount=0.0):
    """All partitions of range(n), as tuples of tuples, each with its probability by the urn, record after record."""
    grown = [(((0,),), 1.0)]
    for i in range(1, n):
        grown, before = [], grown
        for clusters, p in before:
            for k, members in enumerate(clusters):
                joined = (*clusters[:k], (*members, i), *clusters[k + 1 :])
                grown.append((joined, p * (len(members) - discount) / (concentration + i)))
            alone = p * (concentration + discount * len(clusters)) / (concentration + i)
            grown.append(((*clusters, (i,)), alone))
    return grown


def _sum_over_partitions(n, cluster, n_points, concentration, discount):
    """Sums over partitions of probability times evidence times (pmf, predictive, co-clustering), not normalised.

    ``cluster(members)`` gives the evidence of the records of a cluster and the predictive densities given them;
    ``cluster(())`` those of an unseen cluster.
    """
    pmf, predictive, together = np.zeros(n + 1), np.zeros(n_points), np.zeros((n, n))
    for clusters, p in partitions(n, concentration, discount):
        parts = [cluster(members) for members in clusters]
        weight = p * np.prod([evidence for evidence, _ in parts])
        pmf[len(clusters)] += weight
        mean = (concentration + discount * len(clusters)) * cluster(())[1]
        for members, (_, density) in zip(clusters, parts, strict=True):
            mean = mean + (len(members) - discount) * density
            together[np.ix_(members, members)] += weight
        predictive += weight * mean / (concentration + n)
    return pmf, predictive, together


def _normalised(sums):
    total = sums[0].sum()
    return ExactPosterior(*(s / total for s in sums))


def _check_sizes(n):
    if not 1 <= n <= MAX_RECORDS:
        raise ValueError(f"need 1 to {MAX_RECORDS} records")


def local_posterior(grid, log_g, x, concentration=1.0, discount=0.0):
    """Posterior where every record was released by itself.

    Parameters
    ---------
    grid : BetaGrid or NormalGrid
    log_g : ndarray of shape (n, n_u, n_v)
        Log density of each release (or, without noise, of each record) given the parameters of its cluster.
    x : sequence of float
        Where to evaluate the predictive density of a new confidential record.
    """
    n = len(log_g)
    _check_sizes(n)
    subsets = [s for size in range(n + 1) for s in combinations(range(n), size)]
    log_weight = np.array([grid.log_weight + sum(log_g[i] for i in s) for s in subsets])
    densities = (np.exp(grid.log_density(point))[None] for point in x)
    log_mass, means = _integrate(log_weight, densities, grid.what)
    table = {s: (np.exp(log_mass[row]), means[row]) for row, s in enumerate(subsets)}
    return _normalised(_sum_over_partitions(n, table.get, len(x), concentration, discount))


def binned_log_g(grid, log_q):
    """`local_posterior`'s log_g of a channel that sees the bin of a record only; log_q of shape (n, n_bins)."""
    mass = np.exp(grid.log_bin_mass(log_q.shape[1]))
    with np.errstate(divide="ignore"):
        return np.log(np.tensordot(np.exp(log_q), mass, axes=1))


def histogram_posterior(grid, log_q, n, n_bins, x, concentration=1.0, discount=0.0):
    """Posterior where the release depends on the bins of all records together: all n_bins^n of them are enumerated.

    Parameters
    ---------
    log_q : callable
        Log density of the release given the tuple of the records' bins.
    """
    _check_sizes(n)
    log_bins = grid.log_bin_mass(n_bins)
    kinds = [s for size in range(n + 1) for s in combinations_with_replacement(range(n_bins), size)]
    log_weight = np.array([grid.log_weight + sum(log_bins[j] for j in s) for s in kinds])
    densities = (np.exp(grid.log_density(point))[None] for point in x)
    log_mass, means = _integrate(log_weight, densities, grid.what)
    table = {s: (np.exp(log_mass[row]), means[row]) for row, s in enumerate(kinds)}
    sums = None
    for bins in product(range(n_bins), repeat=n):

        def cluster(members, bins=bins):
            return table[tuple(sorted(bins[i] for i in members))]

        terms = _sum_over_partitions(n, cluster, len(x), concentration, discount)
        terms = [np.exp(log_q(bins)) * term for term in terms]
        sums = terms if sums is None else [s + term for s, term in zip(sums, terms, strict=True)]
    return _normalised(sums)


def categorical_posterior(log_q, alpha, x, concentration=1.0, discount=0.0):
    """Posterior of a mixture of products of Dirichlet(alpha, ..., alpha) categories.

    Parameters
    ---------
    log_q : ndarray of shape (n, n_features, n_categories)
        Log probability of each release given the true category.
    x : array-like of int, shape (n_points, n_features)
    """
    return _normalised(_categorical_sums(log_q, alpha, x, concentration, discount))


def _categorical_sums(log_q, alpha, x, concentration, discount=0.0):
    n, d, k = log_q.shape
    _check_sizes(n)
    q, x, table = np.exp(log_q), np.asarray(x, int).reshape(-1, d), {}
    for members in (s for size in range(n + 1) for s in combinations(range(n), size)):
        evidence, density = 1.0, np.ones(len(x))
        for j in range(d):
            total, after = 0.0, np.zeros(k)
            for truth in product(range(k), repeat=len(members)):
                p, counts = 1.0, np.zeros(k)
                for i, c in zip(members, truth, strict=True):
                    p *= q[i, j, c] * (alpha + counts[c]) / (k * alpha + counts.sum())
                    counts[c] += 1
                total += p
                after += p * (alpha + counts) / (k * alpha + counts.sum())
            evidence *= total
            density *= after[x[:, j]] / total
        table[members] = evidence, density
    return _sum_over_partitions(n, table.get, len(x), concentration, discount)


def noncompliance_posterior(log_q, log_outside, a, b, alpha, x, concentration=1.0):
    """The same where a share γ ~ Beta(a, b) of people answers by another law, ``log_outside`` (n,).

    By who those are, and the partitions of the others.  Return the means of γ and γ², the probabilities of the number
    of clusters (none counts as one), and the predictive density.
    """
    n, _, k = log_q.shape
    total, found = 0.0, [0.0, 0.0, np.zeros(n + 1), np.zeros(len(x))]
    for outside in (np.array(s, int) for size in range(n + 1) for s in combinations(range(n), size)):
        inside, m = np.setdiff1d(np.arange(n), outside), len(outside)
        pmf, predictive = np.eye(n + 1)[1], np.full(len(x), 1.0 / k ** log_q.shape[1])
        if len(inside):
            pmf, predictive, _ = _categorical_sums(log_q[inside], alpha, x, concentration)
            pmf = np.append(pmf, np.zeros(m))
        weight = np.exp(betaln(a + m, b + n - m) - betaln(a, b) + log_outside[outside].sum())
        mean = (a + m) / (a + b + n)
        parts = mean, mean * (a + m + 1) / (a + b + n + 1)
        total += weight * pmf.sum()
        for i, part in enumerate((*(one * pmf.sum() for one in parts), pmf, predictive)):
            found[i] = found[i] + weight * part
    return tuple(one / total for one in found)
