"""Exact posteriors given noisy sums that a curator released: oracles for tests, written from the mathematics.

A curator holds n records x_i and releases y = s + noise once or several times, where s = Σ t(x_i) and the noise of each
entry of each release is independent.  Wherever the law p(s | θ) and the posterior p(θ | s) are known,

    p(θ | y) = Σ_s p(s | y) p(θ | s),    p(s | y) ∝ p(s) Π_r q(y_r - s),    p(s) = ∫ p(θ) p(s | θ) dθ,

a mixture of betas or gammas over a table of s (:class:`Mixture`).  Where records are clamped to bounds, or dropped
outside them, s says less than the records: p(y | θ) is then a sum over quadrature nodes of the n <= 2 records, and the
posterior lives on a grid of θ (:class:`GridPosterior`).  Every quadrature compares itself with a coarser one and raises
ValueError where they differ.

The last part is the approximation of Bernstein & Sheldon (2018): s | θ is normal with the exact mean and variance.
"""

from itertools import pairwise, product

import numpy as np
from oracle import log_normal, log_tilted_mass
from scipy.interpolate import CubicSpline
from scipy.special import (
    betainc,
    betaln,
    expit,
    gammainc,
    gammainccinv,
    gammaincinv,
    gammaln,
    log_expit,
    log_ndtr,
    logit,
    logsumexp,
    ndtr,
    xlog1py,
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


def dirichlet_multinomial(y, n, alpha, log_noise, *, count=None, count_noise=None):
    """θ ~ Dirichlet(alpha), s ~ Multinomial(n, θ), y_r = s + noise in every one of the K entries.

    θ_k | s ~ Beta(α_k + s_k, Σα - α_k + n - s_k), summed over the simplex lattice.  ``n=None``: a flat prior on n, and
    ``count`` is optional, because the counts themselves sum to n.  ``y`` has shape (K,) or (n_releases, K).
    """
    alpha = np.asarray(alpha, float)
    total = alpha.sum()

    def table(limit, exactly=False):
        grid = np.array(list(product(range(limit + 1), repeat=len(alpha) - 1)), float)
        grid = grid[grid.sum(axis=1) <= limit]
        if exactly:
            s = np.column_stack([grid, limit - grid.sum(axis=1)])
        else:
            s = np.array([(*row, last) for row in grid for last in range(int(limit - sum(row)) + 1)])
        m = s.sum(axis=1)
        log_weight = gammaln(m + 1) - gammaln(s + 1).sum(axis=1) + gammaln(total) - gammaln(total + m)
        log_weight += (gammaln(alpha + s) - gammaln(alpha)).sum(axis=1) + log_release(y, s, log_noise)
        if count is not None:
            log_weight += log_release(count, m[:, None], count_noise or log_noise)
        return m, s, log_weight

    m, s, log_weight = table(n, exactly=True) if n is not None else _until_negligible(table, 16)
    return Mixture("beta", s, log_weight, alpha + s, total - alpha + m[:, None] - s)


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


def _split(breaks, n_panels):
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
        u, w = panels(_split(breaks, n_panels))
        now = Mixture("gamma", np.exp(u), log_integrand(u) + np.log(w), shape + m, rate + np.exp(u))
        if previous is not None and _distance(now, previous) < 1e-9:
            return now
        previous = now
    raise ValueError("the quadrature over s does not converge")


def _distance(one, other):
    """Largest difference of two posteriors' means and standard deviations, in standard deviations, and of log p(y)."""
    gap = np.abs([one.mean - other.mean, one.sd - other.sd]) / one.sd
    return max(gap.max(), abs(one.log_evidence - other.log_evidence))


# --- posteriors on a grid of θ ----------------------------------------------------------------------------------------

LOG = (np.exp, np.log, lambda v: v)  # θ = f(v), v = f⁻¹(θ), log dθ/dv
LOGIT = (expit, logit, lambda v: log_expit(v) + log_expit(-v))


def _sinh(centre, scale):
    """θ = centre + scale sinh v: even steps in the middle, growing ones in the tails."""
    return (lambda v: centre + scale * np.sinh(v), lambda x: np.arcsinh((x - centre) / scale),
            lambda v: np.log(scale * np.cosh(v)))  # fmt: skip


class GridPosterior:
    """A posterior of one or two parameters on a product grid, even in v where θ_k = f_k(v_k).

    The trapezoidal rule gives ``mean``, ``sd`` (n_params,) and ``log_evidence``; a spline gives ``cdf(x, k=0)``.
    """

    def __init__(self, axes, transforms, log_density):
        self.transforms, self.axes = transforms, axes
        step = np.prod([v[1] - v[0] for v in axes])
        self.log_evidence = logsumexp(log_density) + np.log(step)
        weight = np.exp(log_density - log_density.max())
        self.weight = weight / weight.sum()
        every = range(len(axes))
        self.margins = [self.weight.sum(axis=tuple(j for j in every if j != k)) for k in every]
        theta = [f(v) for (f, _, _), v in zip(transforms, axes)]
        self.mean = np.array([w @ x for w, x in zip(self.margins, theta)])
        self.sd = np.sqrt([w @ (x - mean) ** 2 for w, x, mean in zip(self.margins, theta, self.mean)])

    def cdf(self, x, k=0):
        """P(θ_k <= x | y) for a number or an array x."""
        v, w = self.axes[k], self.margins[k]
        below = CubicSpline(v, w / (v[1] - v[0])).antiderivative()
        with np.errstate(divide="ignore"):
            x = self.transforms[k][1](np.asarray(x, float))
        return np.clip(below(np.clip(x, v[0], v[-1])), 0, 1)


def grid_posterior(log_target, transforms, box, n_nodes):
    """The posterior with log density ``log_target(theta, v)``, from two arrays (n, n_params) to (n,), prior included.

    ``box`` holds generous (lowest, highest) v of each parameter; it shrinks to where the density is not negligible.
    """
    for _ in range(3):
        axes = [np.linspace(lo, hi, m) for (lo, hi), m in zip(box, n_nodes)]
        mesh = np.stack([c.ravel() for c in np.meshgrid(*axes, indexing="ij")], axis=1)
        theta = np.stack([f(v) for (f, _, _), v in zip(transforms, mesh.T)], axis=1)
        log_density = log_target(theta, mesh) + sum(jacobian(v) for (_, _, jacobian), v in zip(transforms, mesh.T))
        log_density = log_density.reshape(n_nodes)
        inside = np.nonzero(log_density > log_density.max() - 45)
        shrunk = []
        for v, i in zip(axes, inside):
            shrunk.append((v[max(i.min() - 1, 0)], v[min(i.max() + 1, len(v) - 1)]))
        narrow = any(b - a < 0.7 * (hi - lo) for (a, b), (lo, hi) in zip(shrunk, box))
        if not narrow:
            break
        box = shrunk
    fine = GridPosterior(axes, transforms, log_density)
    half = GridPosterior([v[::2] for v in axes], transforms, log_density[(slice(None, None, 2),) * len(axes)])
    if _distance(fine, half) > RTOL:
        raise ValueError(f"the grid of θ is too coarse: {_distance(fine, half):.1e}")
    return fine


def log_gamma(x, shape, rate):
    """Log density of Gamma(shape, rate) at x."""
    return shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(x) - rate * x


def _log_gamma_box(shape, rate, tail=1e-25):
    return np.log(gammaincinv(shape, tail) / rate), np.log(gammainccinv(shape, tail) / rate)


# --- records clamped to bounds, or dropped outside them: n = 1 or 2 ---------------------------------------------------


def _contributions(y, n, bounds, outside, statistic, solve, density, cdf, n_panels):
    """What a record adds: values (n_nodes, n_statistics), and a function theta -> probabilities (n_theta, n_nodes).

    Quadrature nodes inside the bounds, then the atoms: statistic(lo) and statistic(hi) for ``outside="clamp"``, 0 for
    ``"drop"``.  Panels end where Laplace noise has a kink: solve(y) are the x with an entry of statistic(x) equal to
    that of a release, or of a release less the other record's atom.
    """
    lo, hi = bounds
    if outside not in ("clamp", "drop"):
        raise ValueError(f"outside={outside!r}")
    atoms = statistic(np.array([lo, hi]))
    atoms = atoms if outside == "clamp" else 0 * atoms[:1]
    y = np.asarray(y, float).reshape(-1, atoms.shape[1])
    kinks = np.concatenate([solve(target) for target in ([y] if n == 1 else [y, *(y - atom for atom in atoms)])])
    breaks = np.unique([lo, hi, *kinks[(kinks > lo) & (kinks < hi)]])
    x, w = panels(_split(breaks, n_panels), 8)

    def probabilities(theta):
        theta = [c[:, None] for c in theta.T]
        below, above = cdf(lo, *theta), 1 - cdf(hi, *theta)
        return np.hstack([density(x, *theta) * w, *([below, above] if outside == "clamp" else [below + above])])

    return np.vstack([statistic(x), atoms]), probabilities


def _records_posterior(y, n, values, probabilities, log_noise, log_prior, transforms, box, n_nodes):
    """Posterior on a grid from p(y | θ) = Σ over nodes of n = 1 or 2 records: p_θ' L, or p_θ' L p_θ."""
    if n == 1:
        log_l = log_release(y, values, log_noise)
    elif n == 2:
        log_l = log_release(y, values[:, None] + values, log_noise)
    else:
        raise ValueError("one or two records")
    top = log_l.max()
    likelihood, lost = np.exp(log_l - top), []

    def log_target(theta, _):
        result = np.empty(len(theta))
        for rows in np.array_split(np.arange(len(theta)), len(theta) // 2000 + 1):
            p = probabilities(theta[rows])
            result[rows] = p @ likelihood if n == 1 else np.sum((p @ likelihood) * p, axis=1)
            lost.append(np.abs(p.sum(axis=1) - 1))
        with np.errstate(divide="ignore"):
            return np.log(result) + top + log_prior(theta)

    posterior = grid_posterior(log_target, transforms, box, n_nodes)
    # on the grid in use, where the posterior has mass, the nodes of a record must carry all of its probability
    gap = np.concatenate(lost)[-np.prod(n_nodes) :]
    if posterior.weight.ravel() @ gap > RTOL:
        raise ValueError("the quadrature over a record is too coarse")
    return posterior


def _bounded(y, n, *model, **grid):
    """`_records_posterior` with ever more panels, until twice as many change nothing."""
    previous, tolerance = None, RTOL if n == 1 else RTOL_TWO_RECORDS
    for n_panels in (24, 48, 96, 192):
        values, probabilities = _contributions(y, n, *model, n_panels)
        now = _records_posterior(y, n, values, probabilities, **grid)
        if previous is not None and _distance(now, previous) < tolerance:
            return now
        previous = now
    raise ValueError("the quadrature over records does not converge")


def _column(x):
    return x[:, None]


def _onto_unit(statistic, solve, bounds):
    """The statistic with each entry mapped to [-1, 1] over the bounds, and its ``solve``."""
    ends = statistic(np.array(bounds, dtype=float))
    centre, half = ends.mean(axis=0), np.abs(ends[1] - ends[0]) / 2
    return (lambda x: (statistic(x) - centre) / half), (lambda y: solve(centre + half * y))


def bounded_gamma(y, n, bounds, known_shape, prior, log_noise, *, outside="clamp", scaled=False):
    """θ ~ Gamma(shape, rate); records Gamma(known_shape, rate θ) (1: exponential); s = Σx, clamped or dropped; n <= 2.

    ``scaled``: s = Σ(x - c)/h, with c and h the centre and half width of the bounds.

    Returns
    -------
    GridPosterior of one parameter, θ.
    """
    k = known_shape

    def density(x, theta):
        return np.exp(log_gamma(x, k, theta))

    def cdf(x, theta):
        return gammainc(k, np.maximum(x, 0) * theta)

    statistic, solve = _onto_unit(_column, np.ravel, bounds) if scaled else (_column, np.ravel)
    return _bounded(y, n, bounds, outside, statistic, solve, density, cdf, log_noise=log_noise,
                    log_prior=lambda theta: log_gamma(theta[:, 0], *prior), transforms=[LOG],
                    box=[_log_gamma_box(*prior)], n_nodes=(801,))  # fmt: skip


def bounded_poisson(y, n, bounds, prior, log_noise, *, outside="clamp"):
    """θ ~ Gamma(shape, rate); records Poisson(θ); s = Σx, clamped to the integers ``bounds`` or dropped outside them.

    The law of s given θ is the n-th convolution power of one record's, exactly; n up to about 20.
    """
    lo, hi = bounds
    if lo != int(lo) or hi != int(hi) or lo < 0 or outside not in ("clamp", "drop"):
        raise ValueError("bounds must be integers >= 0, and outside clamp or drop")
    k = np.arange(hi + 1.0)
    s = np.arange(n * hi + 1.0)[:, None]
    log_l = log_release(y, s, log_noise)

    def log_target(theta, _):
        theta = theta[:, 0]
        pmf = np.exp(xlogy(k, theta[:, None]) - theta[:, None] - gammaln(k + 1))
        above = np.maximum(1 - pmf.sum(axis=1), 0)
        below = pmf[:, :lo].sum(axis=1)
        pmf[:, :lo] = 0
        if outside == "clamp":
            pmf[:, lo] += below
            pmf[:, hi] += above
        else:
            pmf[:, 0] += below + above
        law = np.ones((len(theta), 1))
        for _ in range(n):
            wider = np.zeros((len(theta), law.shape[1] + hi))
            for j in range(hi + 1):
                wider[:, j : j + law.shape[1]] += law * pmf[:, j, None]
            law = wider
        with np.errstate(divide="ignore"):
            return np.log(law @ np.exp(log_l - log_l.max())) + log_l.max() + log_gamma(theta, *prior)

    return grid_posterior(log_target, [LOG], [_log_gamma_box(*prior)], (801,))


def bounded_normal_mean(y, n, bounds, variance, prior, log_noise, *, outside="clamp"):
    """μ ~ N(prior mean, prior variance); records N(μ, variance), the variance known; s = Σx, bounded; n <= 2.

    Returns
    -------
    GridPosterior of one parameter, μ.
    """
    mean, spread, sd = prior[0], np.sqrt(prior[1]), np.sqrt(variance)

    def density(x, mu):
        return np.exp(log_normal(x, mu, variance))

    def cdf(x, mu):
        return ndtr((x - mu) / sd)

    transform = _sinh(mean, 4 * spread)
    return _bounded(y, n, bounds, outside, _column, np.ravel, density, cdf, log_noise=log_noise,
                    log_prior=lambda theta: log_normal(theta[:, 0], *prior), transforms=[transform],
                    box=[(transform[1](mean - 12 * spread), transform[1](mean + 12 * spread))],
                    n_nodes=(801,))  # fmt: skip


def bounded_normal(y, n, bounds, prior, log_noise, *, outside="clamp", n_nodes=(161, 121), scaled=False):
    """μ | σ² ~ N(mean, σ²/mean_precision), σ² ~ InvGamma(shape, scale); s = (Σx, Σx²), clamped or dropped; n <= 2.

    ``scaled``: s = (Σu, Σ(2u² - 5/4)), u = (x - c)/h, with c and h the centre and half width of the bounds.

    The prior's tails are the posterior's, records outside being possible for every σ²: choose shape > 3, or the
    standard deviation of σ² hardly exists and the grid is refused.

    Parameters
    ----------
    y : array-like of shape (2,) or (n_releases, 2)
    prior : (mean, mean_precision, shape, scale)

    Returns
    -------
    GridPosterior of two parameters, μ and σ².
    """
    mean, mean_precision, shape, scale = prior
    low, high = scale / gammainccinv(shape, 1e-25), scale / gammaincinv(shape, 1e-25)

    c, h, w, o = (sum(bounds) / 2, (bounds[1] - bounds[0]) / 2, 2.0, 1.25) if scaled else (0.0, 1.0, 1.0, 0.0)

    def statistic(x):
        u = (x - c) / h
        return np.stack([u, w * u**2 - o], axis=1)

    def solve(y):
        root = np.sqrt(np.maximum(y[:, 1] + o, 0) / w)
        return c + h * np.concatenate([y[:, 0], root, -root])

    def density(x, mu, sigma2):
        return np.exp(log_normal(x, mu, sigma2))

    def cdf(x, mu, sigma2):
        return ndtr((x - mu) / np.sqrt(sigma2))

    def log_prior(theta):
        mu, sigma2 = theta.T
        return log_normal(mu, mean, sigma2 / mean_precision) + log_gamma(1 / sigma2, shape, scale) - 2 * np.log(sigma2)

    transform = _sinh(mean, np.sqrt(scale / (shape * mean_precision)))
    reach = 30 * np.sqrt(high / mean_precision)
    box = [(transform[1](mean - reach), transform[1](mean + reach)), (np.log(low), np.log(high))]
    return _bounded(y, n, bounds, outside, statistic, solve, density, cdf, log_noise=log_noise, log_prior=log_prior,
                    transforms=[transform, LOG], box=box, n_nodes=n_nodes)  # fmt: skip


def bounded_beta(y, n, bounds, prior, log_noise, *, outside="clamp", n_nodes=(121, 121), scaled=False):
    """Records Beta(a, b); a, b independent Gamma(shape, rate); s = (Σ log x, Σ log(1 - x)) within bounds; n <= 2.

    ``scaled``: either logarithm is mapped to [-1, 1] over the bounds.

    Parameters
    ----------
    y : array-like of shape (2,) or (n_releases, 2)
    bounds : (lo, hi) with 0 < lo < hi < 1
    prior : ((shape, rate), (shape, rate))
        Of a and of b.

    Returns
    -------
    GridPosterior of two parameters, a and b.
    """

    def statistic(x):
        return np.stack([np.log(x), np.log1p(-x)], axis=1)

    def solve(y):
        return np.concatenate([np.exp(np.minimum(y[:, 0], 0)), -np.expm1(np.minimum(y[:, 1], 0))])

    if scaled:
        statistic, solve = _onto_unit(statistic, solve, bounds)

    def density(x, a, b):
        return np.exp(xlogy(a - 1, x) + xlog1py(b - 1, -x) - betaln(a, b))

    def cdf(x, a, b):
        return betainc(a, b, x)

    def log_prior(theta):
        return log_gamma(theta[:, 0], *prior[0]) + log_gamma(theta[:, 1], *prior[1])

    return _bounded(y, n, bounds, outside, statistic, solve, density, cdf, log_noise=log_noise, log_prior=log_prior,
                    transforms=[LOG, LOG], box=[_log_gamma_box(*p, 1e-12) for p in prior],
                    n_nodes=n_nodes)  # fmt: skip


# --- the normal approximation of s | θ, and the sampler that mixes it with the exact θ | s ----------------------------


def sum_moments(family, theta, n, known_shape=1.0, complement=None):
    """Mean and variance of s = Σx given θ: n(θ, θ(1-θ)), n(θ, θ) or n(k/θ, k/θ²); ``complement`` is 1-θ, if at hand."""
    if family == "binomial":
        return n * theta, n * theta * (1 - theta if complement is None else complement)
    if family == "poisson":
        return n * theta, n * theta
    if family in ("exponential", "gamma"):
        return n * known_shape / theta, n * known_shape / theta**2
    raise ValueError(f"family={family!r}")


def log_normal_release(y, mean, variance, noise, scale, support=(-np.inf, np.inf)):
    """Log of ∫ N(s | mean, variance) Π_r q(y_r - s) ds over the support, in closed form.

    Laplace noise: between neighbouring releases the exponent is linear in s, which tilts the normal.  Gaussian noise:
    a product of normals.  ``mean`` and ``variance`` are arrays of one shape, which the result has.
    """
    y, (lo, hi) = np.sort(np.ravel(np.asarray(y, float))), support
    mean, variance = np.asarray(mean, float), np.asarray(variance, float)
    if noise == "gaussian":
        precision = 1 / variance + len(y) / scale**2
        centre = (mean / variance + y.sum() / scale**2) / precision
        log_peak = log_normal(centre, mean, variance) + sum(log_normal(value, centre, scale**2) for value in y)
        a, b = ((bound - centre) * np.sqrt(precision) for bound in support)
        with np.errstate(invalid="ignore"):
            flip = a + b > 0  # to the smaller tail; False on the whole line
        a, b = np.where(flip, -b, a), np.where(flip, -a, b)
        log_mass = log_ndtr(b) + np.log1p(-np.exp(log_ndtr(a) - log_ndtr(b)))
        return log_peak + 0.5 * np.log(2 * np.pi / precision) + log_mass
    cuts = np.concatenate([[lo], y[(y > lo) & (y < hi)], [hi]])
    if len(cuts) == 2 and np.all(np.isinf(cuts)):
        raise ValueError("no release")
    terms = []
    for left, right in pairwise(cuts):
        ref = left if np.isfinite(left) else right
        slope = (np.sum(y >= right) - np.sum(y <= left)) / scale
        height = np.sum(-np.abs(y - ref)) / scale - len(y) * np.log(2 * scale)
        terms.append(log_tilted_mass(mean, np.sqrt(variance), left, right, slope, ref) + height)
    return np.logaddexp.reduce(terms)


def normal_approximation(family, y, n, prior, noise, scale, *, known_shape=1.0):
    """p(θ | y) where s | θ ~ N(nμ(θ), nΣ(θ)) stands for the exact law: one joint law of θ, s and y.

    Parameters
    ----------
    family : {"binomial", "poisson", "exponential", "gamma"}
    y : float or array-like of shape (n_releases,)
    prior : (a, b) of a beta law, or (shape, rate)
    noise, scale : "laplace" and b, or "gaussian" and the standard deviation

    Returns
    -------
    GridPosterior of one parameter.
    """

    def log_target(theta, v):
        theta, v = theta[:, 0], v[:, 0]
        likelihood = log_normal_release(y, *sum_moments(family, theta, n, known_shape, expit(-v)), noise, scale)
        if family == "binomial":
            return likelihood + (prior[0] - 1) * log_expit(v) + (prior[1] - 1) * log_expit(-v) - betaln(*prior)
        return likelihood + log_gamma(theta, *prior)

    if family == "binomial":
        box = (-60 / min(prior[0], 1), 60 / min(prior[1], 1))
        return grid_posterior(log_target, [LOGIT], [box], (4001,))
    return grid_posterior(log_target, [LOG], [_log_gamma_box(*prior)], (4001,))


def _statistic_edges(family, n, known_shape, lo, top, marks, decades):
    """Edges of panels of s, at most four standard deviations of s | θ wide, ever smaller on both sides of each mark."""
    span = top - lo
    if family == "binomial":
        edges = lo + span * np.sin(np.linspace(0, np.pi / 2, int(np.sqrt(n)) + 25)) ** 2
    elif family == "poisson":
        edges = lo + span * np.linspace(0, 1, int(np.sqrt(span) / 2) + 25) ** 2
    else:
        edges = lo + np.append(0, np.geomspace(1e-8 * span, span, int(5 * np.sqrt(n * known_shape)) + 25))
    near = span / 25 * 10.0 ** np.arange(-decades, 0.01, 0.5)
    edges = np.unique(np.concatenate([edges, *(m + sign * np.append(0, near) for m in marks for sign in (-1, 1))]))
    edges = edges[(edges >= lo) & (edges <= top)]
    return edges[np.append(True, np.diff(edges) > 1e-12 * span)]


def _parameter_edges(low, high, sd):
    """Edges of panels of v, three sd(v) wide and at most 1."""
    edges = [low]
    while edges[-1] < high:
        edges.append(edges[-1] + min(1.0, 3 * sd(edges[-1])))
    return edges


def gibbs_stationary(family, y, n, prior, noise, scale, *, known_shape=1.0, support=None, augmented=False):
    """The law that the sampler of Bernstein & Sheldon, Algorithm 1, leaves invariant, found numerically.

    The sampler alternates the exact conjugate θ | s, Beta(a + s, b + n - s) or Gamma(shape + s, rate + n) or
    Gamma(shape + nk, rate + s), with s | θ, y under the normal approximation, N(s | nμ(θ), nΣ(θ)) Π_r q(y_r - s)
    restricted to the support ("rejection sampling until valid").  No joint law has both conditionals, so the answer is
    neither the exact posterior nor :func:`normal_approximation`: it is the fixed point of
    K(s, s') = ∫ p(θ | s) p(s' | θ, y) dθ, a matrix on Gauss-Legendre nodes of s.

    Parameters
    ----------
    family, y, n, prior, noise, scale, known_shape : as in :func:`normal_approximation`
    support : (lo, hi), default (0, n) for the binomial family and (0, inf) otherwise
    augmented : bool
        False: s | θ, y is drawn as it stands.  True (Laplace, one release): as the paper writes it, through
        s | θ, σ², y and then 1/σ² | s ~ InverseGaussian(1/(b|y - s|), 1/b²).  As the conditionals are incompatible,
        the two have different invariant laws; K(s, s') = ∫∫ p(θ | s) p(σ² | s) p(s' | θ, σ², y) dσ² dθ.

    Returns
    -------
    Mixture over the nodes of s, with ``mean``, ``sd`` and ``cdf`` of θ.
    """
    y = np.ravel(np.asarray(y, float))
    if augmented and (noise != "laplace" or len(y) != 1):
        raise ValueError("the augmented sampler is for one release with Laplace noise")
    lo, hi = support or ((0.0, float(n)) if family == "binomial" else (0.0, np.inf))
    top = hi
    reach = max(y.max(), 1.0) + 30 * scale + 10 * np.sqrt(n)
    for _ in range(4):
        top = min(hi, reach)
        mixture, edge = _gibbs_on(family, y, n, prior, noise, scale, known_shape, (lo, hi), top, augmented)
        if top == hi or edge < 1e-10:
            return mixture
        reach *= 2
    raise ValueError("the law of s does not end")


def _gibbs_on(family, y, n, prior, noise, scale, known_shape, support, top, augmented):
    """:func:`gibbs_stationary` with s up to ``top``; also the mass of the last two panels."""
    lo, hi = support
    marks = [lo, *y[(y > lo) & (y < top)], *([hi] if np.isfinite(hi) else [])]
    edges = _statistic_edges(family, n, known_shape, lo, top, marks, 6 if augmented else 3)
    s, w = panels(edges, 8)
    if family == "binomial":
        kind, f, a, b = "beta", expit, prior[0] + s, prior[1] + n - s
        low, high = -32 / min(prior[0] + lo, 1), 32 / min(prior[1] + n - top, 1)
        v, dv = panels(_parameter_edges(low, high, lambda v: (sum(prior) + n * expit(v) * expit(-v)) ** -0.5), 8)
        log_theta = np.outer(a, log_expit(v)) + np.outer(b, log_expit(-v)) - betaln(a, b)[:, None]
    else:
        kind, f, zero = "gamma", np.exp, 0 * s
        if family == "poisson":
            a, b = prior[0] + s, prior[1] + n + zero
        else:
            a, b = prior[0] + n * known_shape + zero, prior[1] + s
        low, high = np.log(gammaincinv(a.min(), 1e-13) / b.max()), np.log(gammainccinv(a.max(), 1e-13) / b.min())
        v, dv = panels(_parameter_edges(low, high, lambda v: min(a.max(), a.min() + n * np.exp(v)) ** -0.5), 8)
        log_theta = log_gamma(np.exp(v), a[:, None], b[:, None]) + v
    to_theta = np.exp(log_theta) * dv  # (n_s, n_theta)
    mean, variance = sum_moments(family, f(v), n, known_shape, expit(-v))
    seen = to_theta.max(axis=0) > 1e-13
    to_theta, mean, variance = to_theta[:, seen], mean[seen], variance[seen]
    if not augmented:
        log_noise = {"laplace": laplace, "gaussian": gaussian}[noise](scale)
        log_s = log_normal(s, mean[:, None], variance[:, None]) + log_release(y, s[:, None], log_noise)
        log_total = log_normal_release(y, mean, variance, noise, scale, support)
        kernel = to_theta @ (np.exp(log_s - log_total[:, None]) * w)
    else:
        kernel, step = np.zeros((len(s), len(s))), 0.25
        grid = np.log(2 * scale**2) + np.arange(-26, 6.5, step)  # log σ²
        error = (y[0] - s)[:, None]
        # p(σ² | s) = (σ²)^(-1/2) exp(-(y - s)²/(2σ²) - σ²/(2b²) + |y - s|/b) / (b √(2π))
        log_mix = 0.5 * grid - 0.5 * error**2 * np.exp(-grid) - 0.5 * np.exp(grid) / scale**2 + np.abs(error) / scale
        mix = np.exp(log_mix) * step / (scale * np.sqrt(2 * np.pi))
        for k, sigma2 in enumerate(np.exp(grid)):
            precision = 1 / variance + 1 / sigma2
            centre = (mean / variance + y[0] / sigma2) / precision
            log_total = log_normal_release(y, mean, variance, "gaussian", np.sqrt(sigma2), support)
            log_inside = log_total - log_normal(y[0], mean, variance + sigma2)
            log_s = log_normal(s, centre[:, None], 1 / precision[:, None]) - log_inside[:, None]
            kernel += mix[:, [k]] * (to_theta @ (np.exp(log_s) * w))
    rows = kernel.sum(axis=1)
    kernel /= rows[:, None]
    p = np.linalg.solve(np.eye(len(s)) - kernel.T + 1.0, np.ones(len(s)))  # the fixed point p = p K with Σp = 1
    if np.abs(p @ kernel - p).sum() > 1e-9 or p.min() < -1e-9 or np.abs(p) @ np.abs(rows - 1) > 1e-6:
        raise ValueError("the grid of s or θ is too coarse")
    with np.errstate(divide="ignore"):
        mixture = Mixture(kind, s, np.log(np.maximum(p, 0)), a, b)
    return mixture, p[s > edges[-3]].sum() if top < hi else 0.0
