"""Exact posteriors given noisy sums that a curator released: oracles for tests, written from the mathematics.

A curator holds n records x_i and releases y = s + noise once or several times, where s = Σ t(x_i) and the noise of each
entry of each release is independent.  Wherever the law p(s | θ) and the posterior p(θ | s) are known,

    p(θ | y) = Σ_s p(s | y) p(θ | s),    p(s | y) ∝ p(s) Π_r q(y_r - s),    p(s) = ∫ p(θ) p(s | θ) dθ,

a mixture of betas or gammas over a table of s (:class:`Mixture`).  Every quadrature compares itself with a coarser one
and raises ValueError where they differ.
"""

from functools import cache
from itertools import pairwise

import numpy as np
from oracle import log_normal
from scipy.special import (
    betainc,
    betaln,
    gammainc,
    gammaln,
    logsumexp,
    xlogy,
)

RTOL = 1e-6  # two orders of a quadrature may differ by that, in standard deviations of the posterior
RTOL_TWO_RECORDS = 1e-4  # the same where the kinks of Laplace noise cut through the product rule of two records
TAIL = 1e-15  # mass that a truncated sum may leave out


# --- noise: functions of the error e = release - statistic, elementwise -----------------------------------------------


def laplace(b):
    """Log density exp(-|e|/b) / (2b)."""
    return lambda e: -np.abs(e) / b - np.log(2 * b)


def gaussian(sd):
    """Log density of N(0, sd²)."""
    return lambda e: log_normal(e, 0.0, sd**2)


def _on_integers(e, log_mass):
    return np.where(np.abs(e - np.rint(e)) < 1e-9, log_mass, -np.inf)


def discrete_laplace(b):
    """Log mass tanh(1/(2b)) exp(-|e|/b) on the integers."""
    return lambda e: _on_integers(e, np.log(np.tanh(0.5 / b)) - np.abs(e) / b)


def discrete_gaussian(sd):
    """Log mass exp(-e²/(2 sd²)) / Σ_k exp(-k²/(2 sd²)) on the integers."""
    k = np.arange(-int(40 * sd) - 10, int(40 * sd) + 11)
    log_total = logsumexp(-0.5 * (k / sd) ** 2)
    return lambda e: _on_integers(e, -0.5 * (e / sd) ** 2 - log_total)


def log_release(y, s, log_noise):
    """Σ of log_noise(y_rj - s_j) over releases r and entries j.

    Parameters
    ----------
    y : array-like of shape (n_releases, n_statistics), or (n_releases,), or a number
    s : ndarray of shape (..., n_statistics)

    Returns
    -------
    ndarray of shape (...)
    """
    y = np.asarray(y, float).reshape(-1, s.shape[-1])
    return sum(np.broadcast_to(log_noise(row - s), s.shape).sum(axis=-1) for row in y)


# --- mixtures of conjugate posteriors ---------------------------------------------------------------------------------


class Mixture:
    """p(θ_k | y) = Σ_s w_s p(θ_k | s): each p(θ_k | s) is Beta(a_sk, b_sk) (``kind="beta"``) or Gamma(a_sk, rate b_sk).

    Attributes
    ----------
    support : ndarray of shape (m, ...)
        The values of s (with n first where n is unknown), in the order of ``weights``, (m,).
    log_evidence : float
        log p(y).
    mean, sd : ndarrays of shape (n_params,)
    """

    def __init__(self, kind, support, log_weight, a, b):
        self.log_evidence = logsumexp(log_weight)
        self.support, self.weights, self.kind = support, np.exp(log_weight - self.log_evidence), kind
        self.a, self.b = (np.asarray(c, float).reshape(len(self.weights), -1) for c in np.broadcast_arrays(a, b))
        if kind == "beta":
            mean, total = self.a / (self.a + self.b), self.a + self.b
            square = mean * (self.a + 1) / (total + 1)
        else:
            mean, square = self.a / self.b, self.a * (self.a + 1) / self.b**2
        self.mean = self.weights @ mean
        self.sd = np.sqrt(self.weights @ (square - mean**2 + (mean - self.mean) ** 2))

    def cdf(self, x, k=0):
        """P(θ_k <= x | y) for a number or an array x."""
        keep = self.weights > 1e-18
        a, b, w = self.a[keep, k], self.b[keep, k], self.weights[keep]
        law = betainc if self.kind == "beta" else (lambda a, b, x: gammainc(a, b * x))
        x = np.asarray(x, float)
        return np.array([w @ law(a, b, value) for value in x.ravel()]).reshape(x.shape)

    def pmf(self, column=0):
        """P(column of the support = 0, 1, 2, ... | y): of the statistic, or of n where that is the first column."""
        return np.bincount(self.support.reshape(len(self.weights), -1)[:, column].astype(int), self.weights)


def _until_negligible(table, limit=64):
    """table(limit) = (size, support, log_weight, ...) of all terms with size <= limit, for a limit large enough."""
    while limit <= 2**21:
        size, _, log_weight, *_ = terms = table(limit)
        if logsumexp(log_weight[2 * size > limit]) - logsumexp(log_weight) < np.log(TAIL):
            return terms
        limit *= 2
    raise ValueError("the sum does not converge: is the release possible?")


def _log_beta_binomial(s, n, a, b):
    choose = gammaln(n + 1) - gammaln(s + 1) - gammaln(n - s + 1)
    return choose + betaln(a + s, b + n - s) - betaln(a, b)


def beta_binomial(y, n, prior, log_noise, *, count=None, count_noise=None):
    """θ ~ Beta(prior), s ~ Binomial(n, θ), y_r = s + noise: θ | s ~ Beta(a + s, b + n - s).

    Parameters
    ----------
    y : float or array-like of shape (n_releases,)
    n : int or None
        None: n has a flat prior on 0, 1, 2, ... and ``count`` = n + noise, of shape (n_counts,), was released as well;
        ``support`` is then (n, s).
    prior : (a, b)
    log_noise, count_noise : functions of the error, elementwise (``count_noise=None``: the same)
    """
    a, b = prior
    if n is not None:
        s = np.arange(n + 1.0)[:, None]
        log_weight = _log_beta_binomial(s[:, 0], n, a, b) + log_release(y, s, log_noise)
        return Mixture("beta", s, log_weight, a + s, b + n - s)

    def table(limit):
        n, s = np.tril_indices(limit + 1)
        n, s = n.astype(float), s.astype(float)
        log_weight = _log_beta_binomial(s, n, a, b) + log_release(y, s[:, None], log_noise)
        return n, s, log_weight + log_release(count, n[:, None], count_noise or log_noise)

    n, s, log_weight = _until_negligible(table)
    return Mixture("beta", np.column_stack([n, s]), log_weight, a + s, b + n - s)


@cache
def _counts(limit, size, exactly):
    """All counts of ``size`` categories that sum to ``limit``, or to at most that: integers."""
    counts = np.indices((limit + 1,) * (size - exactly)).reshape(size - exactly, -1).T
    counts = counts[counts.sum(axis=1) <= limit]
    return np.column_stack([counts, limit - counts.sum(axis=1)]) if exactly else counts


def dirichlet_multinomial(y, n, alpha, log_noise, *, count=None, count_noise=None):
    """θ ~ Dirichlet(alpha), s ~ Multinomial(n, θ), y_r = s + noise in every one of the K entries.

    θ_k | s ~ Beta(α_k + s_k, Σα - α_k + n - s_k), summed over the simplex lattice.  ``n=None``: a flat prior on n, and
    ``count`` is optional, because the counts themselves sum to n.  ``y`` has shape (K,) or (n_releases, K).
    """
    alpha = np.asarray(alpha, float)
    total = alpha.sum()

    def table(limit, exactly=False):
        s = _counts(limit, len(alpha), exactly)
        m, one = s.sum(axis=1), np.arange(limit + 1.0)[:, None]  # of each count, what all of its values add is known
        own = gammaln(alpha + one) - gammaln(alpha) - gammaln(one + 1)
        own += sum(log_noise(release - one) for release in np.reshape(y, (-1, len(alpha))))
        log_weight = own[s, np.arange(len(alpha))].sum(axis=1) + gammaln(m + 1) + gammaln(total) - gammaln(total + m)
        if count is not None:
            log_weight += log_release(count, one, count_noise or log_noise)[m]
        return m, s, log_weight

    m, s, log_weight = table(n, exactly=True) if n is not None else _until_negligible(table, 16)
    kept = log_weight > log_weight.max() - 80.0  # the rest is less than 1e-28
    m, s, log_weight = m[kept], s[kept], log_weight[kept]
    return Mixture("beta", s, log_weight, alpha + s, total - alpha + m[:, None] - s)


def wide_dirichlet_multinomial(y, n, median, log_noise, **count):
    """The same under Dirichlet(α, ..., α) with log α logistic about log(median): a sum over a grid of log α.

    Everything is analytic in log α on a strip of half width π, and so the sum over steps of 1 is right to e⁻¹⁹.
    """
    v = np.arange(-20.0, 21.0)
    parts = [dirichlet_multinomial(y, n, (a,) * np.shape(y)[-1], log_noise, **count) for a in median * np.exp(v)]
    log_prior = v - 2.0 * np.log1p(np.exp(v))
    with np.errstate(divide="ignore"):
        log_weight = [np.log(p.weights) + p.log_evidence + own for p, own in zip(parts, log_prior, strict=True)]
    support, a, b = (np.concatenate([getattr(part, name) for part in parts]) for name in ("support", "a", "b"))
    return Mixture("beta", support, np.concatenate(log_weight), a, b)


def _log_gamma_poisson(s, n, shape, rate):
    log_choose = gammaln(shape + s) - gammaln(shape) - gammaln(s + 1)
    return log_choose - shape * np.log1p(n / rate) + xlogy(s, n / (rate + n))


def gamma_poisson(y, n, prior, log_noise, *, count=None, count_noise=None):
    """θ ~ Gamma(shape, rate), s ~ Poisson(nθ), y_r = s + noise: θ | s ~ Gamma(shape + s, rate + n).

    s is negative binomial: p(s) = Γ(shape + s) / (Γ(shape) s!) (rate / (rate + n))^shape (n / (rate + n))^s.
    ``n=None`` as in :func:`beta_binomial`.
    """
    shape, rate = prior

    def known(limit):
        s = np.arange(limit + 1.0)
        return s, s, _log_gamma_poisson(s, n, shape, rate) + log_release(y, s[:, None], log_noise)

    def unknown(limit):
        n, s = (c.ravel().astype(float) for c in np.indices((limit + 1, limit + 1)))
        log_weight = _log_gamma_poisson(s, n, shape, rate) + log_release(y, s[:, None], log_noise)
        log_weight += log_release(count, n[:, None], count_noise or log_noise)
        return np.maximum(n, s), np.column_stack([n, s]), log_weight

    _, support, log_weight = _until_negligible(unknown if n is None else known)
    m, s = (support[:, 0], support[:, 1]) if n is None else (n, support)
    return Mixture("gamma", support, log_weight, shape + s, rate + m)


def panels(edges, n_nodes=16):
    """Nodes and weights of the Gauss-Legendre rule on each interval between neighbouring edges."""
    node, weight = np.polynomial.legendre.leggauss(n_nodes)
    left, width = np.asarray(edges[:-1])[:, None], np.diff(edges)[:, None]
    return (left + 0.5 * width * (1 + node)).ravel(), (0.5 * width * weight).ravel()


def split(breaks, n_panels):
    """Edges of n_panels equal panels and some more, so that the sorted breaks are edges and every interval is split."""
    step, few = (breaks[-1] - breaks[0]) / n_panels, n_panels / 12
    edges = [np.linspace(a, b, int(np.ceil((b - a) / step + few)) + 1)[:-1] for a, b in pairwise(breaks) if b > a]
    return np.append(np.concatenate(edges), breaks[-1])


def gamma_known_shape(y, n, known_shape, prior, log_noise):
    """θ ~ Gamma(shape, rate), records Gamma(k, rate θ), so s ~ Gamma(nk, rate θ): θ | s ~ Gamma(shape + nk, rate + s).

    p(s) = rate^shape s^(nk-1) (rate + s)^-(shape + nk) / B(nk, shape); one-dimensional quadrature over log s, with the
    kinks of Laplace noise between panels.  ``known_shape=1``: exponential records.
    """
    shape, rate = prior
    m = n * known_shape
    centres = np.append(np.ravel(y), np.mean(y))
    kinks = np.unique(np.log(centres[centres > 0]))

    def log_integrand(u):
        s = np.exp(u)
        log_p = shape * np.log(rate) + m * u - (shape + m) * np.log(rate + s) - betaln(m, shape)
        return log_p + log_release(y, s[:, None], log_noise)

    scan = np.unique(np.concatenate([np.arange(-400, 300, 0.01), kinks]))
    value = log_integrand(scan)
    inside = np.flatnonzero(value > value.max() - 45)
    lo, hi = scan[max(inside[0] - 1, 0)], scan[min(inside[-1] + 1, len(scan) - 1)]
    breaks = np.concatenate([[lo], kinks[(kinks > lo) & (kinks < hi)], [hi]])
    previous = None
    for n_panels in 2 ** np.arange(5, 14):
        u, w = panels(split(breaks, n_panels))
        now = Mixture("gamma", np.exp(u), log_integrand(u) + np.log(w), shape + m, rate + np.exp(u))
        if previous is not None and distance(now, previous) < 1e-9:
            return now
        previous = now
    raise ValueError("the quadrature over s does not converge")


def distance(one, other):
    """Largest difference of two posteriors' means and standard deviations, in standard deviations, and of log p(y)."""
    gap = np.abs([one.mean - other.mean, one.sd - other.sd]) / one.sd
    return max(gap.max(), abs(one.log_evidence - other.log_evidence))
