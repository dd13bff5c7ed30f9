"""Exact posteriors given noisy sums of records that were clamped to bounds, or dropped outside them.

There s says less than the records: p(y | θ) is a sum over quadrature nodes of the n <= 2 records, and the posterior
lives on a grid of θ (:class:`GridPosterior`).
"""

import numpy as np
from curator_oracle import RTOL, RTOL_TWO_RECORDS, distance, log_release, panels, split
from oracle import log_normal
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
    logit,
    logsumexp,
    ndtr,
    xlog1py,
    xlogy,
)

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
    if distance(fine, half) > RTOL:
        raise ValueError(f"the grid of θ is too coarse: {distance(fine, half):.1e}")
    return fine


def log_gamma(x, shape, rate):
    """Log density of Gamma(shape, rate) at x."""
    return shape * np.log(rate) - gammaln(shape) + (shape - 1) * np.log(x) - rate * x


def log_gamma_box(shape, rate, tail=1e-25):
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
    x, w = panels(split(breaks, n_panels), 8)

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
        if previous is not None and distance(now, previous) < tolerance:
            return now
        previous, grid["box"] = now, [(v[0], v[-1]) for v in now.axes]
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
                    box=[log_gamma_box(*prior)], n_nodes=(801,))  # fmt: skip


def bounded_poisson(y, n, bounds, prior, log_noise, *, outside="clamp", n_nodes=801):
    """θ ~ Gamma(shape, rate); records Poisson(θ); s = Σx, clamped to the integers ``bounds`` or dropped outside them.

    The law of s given θ is the n-th convolution power of one record's; n up to about 20.
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
        law = np.maximum(np.fft.irfft(np.fft.rfft(pmf, 2 * len(s)) ** n, 2 * len(s))[:, : len(s)], 0.0)
        with np.errstate(divide="ignore"):
            return np.log(law @ np.exp(log_l - log_l.max())) + log_l.max() + log_gamma(theta, *prior)

    return grid_posterior(log_target, [LOG], [log_gamma_box(*prior)], (n_nodes,))


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
                    transforms=[LOG, LOG], box=[log_gamma_box(*p, 1e-12) for p in prior],
                    n_nodes=n_nodes)  # fmt: skip
