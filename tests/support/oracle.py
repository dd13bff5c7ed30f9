"""Exact posterior of tiny privatised Dirichlet-process mixtures: an oracle for tests, written from the mathematics.

Every partition of n <= 5 records is enumerated. A cluster's marginal likelihood and predictive density are integrals
over (mu, sigma^2), done by the trapezoidal rule in u = log sigma^2 and t = (mu - mean) / sigma. Both rules are
exponentially accurate for *any* channel q(z|y), because the integrand is a mixture over y of functions that are entire
in t and analytic for |Im u| < pi/2: with N = records + mean_precision and A = shape + records / 2 the relative errors
are about 2 exp(-2 pi^2 / (h_t^2 N)) and 2 min_w cos(w)^-A exp(-2 pi w / h_u), however small the noise. The answer
uses half the steps that make those 1e-8; every call compares the two grids, and the rim's mass with the total.
"""

from itertools import pairwise
from typing import NamedTuple

import numpy as np
from scipy.special import erf, erfcx, gammainccinv, gammaincinv, gammaln, log_ndtr

RTOL = 1e-6  # a call raises ValueError when halving the steps, or the rim of the grid, changes anything by more
_TAIL = 1e-14  # prior or posterior mass that the grid may leave out
_GL_NODES, _GL_WEIGHTS = np.polynomial.legendre.leggauss(7)


class ExactPosterior(NamedTuple):
    """P(number of occupied clusters), shape (n + 1,); predictive density, (n_points,); co-clustering matrix, (n, n)."""

    n_clusters_pmf: np.ndarray
    predictive: np.ndarray
    p_together: np.ndarray


def log_normal(x, mean, variance):
    """Log density of N(mean, variance) at x."""
    return -0.5 * (np.log(2 * np.pi * variance) + (x - mean) ** 2 / variance)


def log_tilted_mass(mu, sigma, lo, hi, slope, ref):
    """Log of the integral over [lo, hi] of exp(slope * (y - ref)) N(y | mu, sigma^2).

    Either bound (not both) may be infinite. The mass is anchored at the bound nearest the tilted normal's peak, so that
    neither a steep slope nor a far tail cancels.
    """
    mu, sigma = np.broadcast_arrays(np.asarray(mu, float), np.asarray(sigma, float))
    peak = mu + slope * sigma**2
    flip = lo + hi < 2 * peak
    edge = np.where(flip, hi, lo)
    near, width = np.where(flip, peak - hi, lo - peak) / sigma, (hi - lo) / sigma  # from the peak, in sigmas
    far = near + width  # now |near| <= far; the width is never a difference of large numbers
    inside = near <= 0
    with np.errstate(divide="ignore", invalid="ignore", over="ignore", under="ignore"):
        # the peak lies in [lo, hi]: a sum of two positive parts
        at_peak = slope * (peak - ref) - 0.5 * (slope * sigma) ** 2
        log_in = at_peak + np.log(0.5 * (erf(far / np.sqrt(2)) - erf(near / np.sqrt(2))))
        # the peak lies outside: a scaled tail minus a scaled tail, or Gauss-Legendre when they nearly cancel
        a = np.maximum(near, 0)
        tails = 0.5 * (erfcx(a / np.sqrt(2)) - np.exp(-0.5 * width * (2 * a + width)) * erfcx(far / np.sqrt(2)))
        short = width * (1 + a) < 0.1
        w = np.where(short, width, 0.0)
        v = 0.5 * w[..., None] * (1 + _GL_NODES)
        direct = 0.5 * w * (np.exp(-(a[..., None] + 0.5 * v) * v) @ _GL_WEIGHTS) / np.sqrt(2 * np.pi)
        log_out = slope * (edge - ref) - 0.5 * ((edge - mu) / sigma) ** 2 + np.log(np.where(short, direct, tails))
    return np.where(inside, log_in, log_out)


def log_channel(z, y, noise, noise_scale):
    """Log density of the release z = y + noise."""
    if noise == "laplace":
        return -np.abs(z - y) / noise_scale - np.log(2 * noise_scale)
    return log_normal(z, y, noise_scale**2)


def log_marginal_kernel(z, mu, sigma, noise=None, noise_scale=None, bounds=None):
    """Log g(z | mu, sigma), the density of the release of a record drawn from N(mu, sigma^2); z is a number."""
    if noise is None:
        return log_normal(z, mu, sigma**2)
    lo, hi = (-np.inf, np.inf) if bounds is None else bounds
    if noise == "gaussian":
        total = sigma**2 + noise_scale**2
        middle = log_normal(z, mu, total)
        if bounds is None:
            return middle
        centre, spread = (mu * noise_scale**2 + z * sigma**2) / total, sigma * noise_scale / np.sqrt(total)
        terms = [middle + log_tilted_mass(centre, spread, lo, hi, 0.0, z)]
    else:
        cuts = [lo, z, hi] if lo < z < hi else [lo, hi]
        terms = []
        for left, right in pairwise(cuts):
            slope = (1 if right <= z else -1) / noise_scale
            terms.append(log_tilted_mass(mu, sigma, left, right, slope, z) - np.log(2 * noise_scale))
    if bounds is not None:
        terms.append(log_channel(z, lo, noise, noise_scale) + log_ndtr((lo - mu) / sigma))
        terms.append(log_channel(z, hi, noise, noise_scale) + log_ndtr((mu - hi) / sigma))
    return np.logaddexp.reduce(terms)


def _subsets(n):
    """Membership matrix (2**n, n) of all subsets; the row number is the bit mask."""
    return (np.arange(2**n)[:, None] >> np.arange(n)) & 1 == 1


def _check(fine, coarse, rim, what):
    """Raise ValueError unless two grids agree and the rim carries no mass (values below 1e-200 are not judged)."""
    error = np.maximum(np.abs(coarse - fine), rim) / np.maximum(fine, 1e-200)
    if not np.all(np.isfinite(error)) or error.max() > RTOL:
        raise ValueError(f"oracle quadrature of {what} is not accurate: relative error {error.max():.1e}")


def _integrate(log_weight, densities, what):
    """Mass of exp(log_weight) for each subset, and means of densities under it, each with the grid's own check.

    Parameters
    ----------
    log_weight : ndarray of shape (n_subsets, n_u, n_t)
        Log integrand times log cell; n_u odd; n_t odd, or 1 for a one-dimensional integral.
    densities : iterable of ndarray broadcastable to (n_subsets, n_u, n_t)
        One for each point x.

    Returns
    -------
    log_mass, means : ndarrays of shapes (n_subsets,) and (n_subsets, n_points)
    """
    top = log_weight.max(axis=(1, 2), keepdims=True)
    weight = np.exp(log_weight - top)
    ends, two_d = [0, 1, -2, -1], weight.shape[2] > 1
    half, rim_u, rim_t = weight[:, ::2, ::2].copy(), weight[:, ends], weight[:, :, ends] if two_d else None

    def sums(f):
        def dot(w, v):
            return np.einsum("sut,sut->s", w, np.broadcast_to(v, w.shape))

        rim = dot(rim_u, f[:, ends]) + (dot(rim_t, f[:, :, ends]) if two_d else 0)
        return np.array([dot(weight, f), dot(half, f[:, ::2, ::2]) * (4 if two_d else 2), rim])

    mass = sums(np.ones((1, *weight.shape[1:])))
    _check(*mass, f"the marginal likelihood ({what})")
    means = np.empty((len(weight), 0))
    for density in densities:
        mean = sums(density) / mass[0]
        _check(*mean, f"the predictive density ({what})")
        means = np.column_stack([means, mean[0]])
    return np.log(mass[0]) + top[:, 0, 0], means


def _largest_u(distance, shape, scale):
    """Upper end of the grid in log sigma^2, from distances of the records to the prior mean."""
    return np.log((scale + 0.5 * np.sum(distance**2)) / max(gammaincinv(shape, _TAIL), 1e-300))


def feature_tables(z, x, noise, noise_scale, bounds, mean, mean_precision, shape, scale):
    """Cluster marginals and predictives of one feature, for every subset S of the records.

    Returns
    -------
    log_m : ndarray of shape (2**n,)
        log of the integral of G0(mu, sigma^2) prod_{i in S} g_i(z_i | mu, sigma).
    predictive : ndarray of shape (2**n, n_points)
        E[N(x | mu, sigma^2) | z_S].
    """
    n = len(z)
    sizes = np.arange(n + 2)  # a point x counts as one more record
    gamma = gammainccinv(shape + sizes / 2, _TAIL)  # (scale + quadratic form) / sigma^2 is Gamma(shape + size / 2)
    total = sizes + mean_precision  # precision of t given sigma and the records, whose mean is bounded through gamma
    t_max = np.max(np.sqrt(2 * gamma * sizes / (mean_precision * total)) + 7.8 / np.sqrt(total))
    h_t = 0.5 * np.pi * np.sqrt(2 / (19 * (n + 1 + mean_precision)))
    half = 2 * int(np.ceil(t_max / h_t / 2)) + 2
    t = h_t * np.arange(-half, half + 1)

    steps, w = np.geomspace(0.8, 1e-3, 300), np.linspace(0.01, 1.56, 300)
    bound = np.min(-(shape + (n + 1) / 2) * np.log(np.cos(w)) - 2 * np.pi * w / steps[:, None], axis=1)
    h_u = 0.5 * steps[bound < -19][0]
    distance = np.abs(z - mean) + (0 if noise is None else 40 * noise_scale)
    if len(x):
        distance = np.append(distance, np.abs(x - mean).max())
    u_min = np.log(scale / gamma[-1])
    u = u_min + h_u * np.arange(-2, 2 * int(np.ceil((_largest_u(distance, shape, scale) - u_min) / h_u / 2)) + 3)

    sigma = np.exp(0.5 * u)[:, None]
    mu = mean + sigma * t
    log_prior = log_normal(t, 0.0, 1 / mean_precision) + np.log(h_t * h_u) + shape * np.log(scale) - gammaln(shape)
    log_prior = log_prior - (shape * u + scale * np.exp(-u))[:, None]
    log_weight = np.empty((2**n, *mu.shape))
    log_weight[0] = log_prior
    for i in range(n):
        b = None if noise is None else noise_scale[i]
        log_weight[2**i : 2 ** (i + 1)] = log_weight[: 2**i] + log_marginal_kernel(z[i], mu, sigma, noise, b, bounds)
    densities = (np.exp(log_normal(point, mu, sigma**2))[None] for point in x)
    return _integrate(log_weight, densities, "normal kernel")


def convolved_tables(z, x, eta, mean, mean_precision, shape, scale):
    """`feature_tables` for the total-variance base measure, tau^2 >= eta^2, under unclamped N(0, eta^2) noise.

    Given tau all is Gaussian in mu, so one integral over u = log(tau^2 - eta^2) is left; dividing by the empty subset's
    normalises the base measure.
    """
    member = _subsets(len(z))
    size = member.sum(axis=1)[:, None, None]
    distance = np.append(np.abs(z - mean) + 40 * eta, np.abs(x - mean).max() if len(x) else 0.0)
    u = np.linspace(2 * np.log(eta) - 38, _largest_u(distance, shape, scale + eta**2), 4001)[:, None]
    tau2 = eta**2 + np.exp(u)
    precision = mean_precision + size
    centre = (mean_precision * mean + (member @ z)[:, None, None]) / precision
    square = (member @ (z - mean) ** 2)[:, None, None] - precision * (centre - mean) ** 2
    log_weight = u - (shape + 1 + size / 2) * np.log(tau2) - (scale + 0.5 * square) / tau2
    log_weight = log_weight + 0.5 * np.log(mean_precision / precision) - 0.5 * size * np.log(2 * np.pi)
    densities = (np.exp(log_normal(point, centre, tau2 / precision + np.exp(u))) for point in x)
    log_m, predictive = _integrate(log_weight, densities, "convolved kernel")
    return log_m - log_m[0], predictive


def set_partitions(n):
    """All partitions of range(n), each a list of bit masks."""
    partitions = [[]]
    for bit in 1 << np.arange(n):
        grown = [[*p[:k], p[k] | bit, *p[k + 1 :]] for p in partitions for k in range(len(p))]
        partitions = grown + [[*p, bit] for p in partitions]
    return partitions


def _concentration_nodes(concentration, prior, n):
    """Nodes and log weights of the prior of the concentration; one node when it is fixed."""
    if prior is None:
        return np.array([float(concentration)]), np.zeros(1)
    a, rate = prior
    low, high = max(gammaincinv(a, 1e-16), 1e-290), gammainccinv(a + n, 1e-16)
    log_node = np.linspace(np.log(low), np.log(high), 8001)
    log_weight = a * log_node - np.exp(log_node) - gammaln(a) + np.log(log_node[1] - log_node[0])
    weight = np.exp(log_weight)
    _check(weight.sum(), 2 * weight[::2].sum(), abs(1 - weight.sum()), "the concentration's prior")
    return np.exp(log_node) / rate, log_weight


def log_finite_eppf(n, n_clusters, gamma, prior):
    """log V_n(t) of Miller & Harrison (2018), eq. (5); ``prior`` of 1, 2, ... components, or p of a geometric one."""
    k = np.arange(1, 5001 if np.ndim(prior) == 0 else len(prior) + 1)
    p = prior * (1 - prior) ** (k - 1.0) if np.ndim(prior) == 0 else np.array(prior) / np.sum(prior)
    k, p = k[k >= n_clusters], p[k >= n_clusters]
    falling = np.prod(k[:, None] - np.arange(n_clusters), axis=1)
    rising = np.prod(gamma * k[:, None] + np.arange(n), axis=1)
    with np.errstate(divide="ignore"):
        return np.log(np.sum(p * falling / rising))


def exact_posterior(Z, *, noise=None, noise_scale=None, bounds=None, mean, mean_precision, shape, scale,
                    concentration=1.0, concentration_prior=None, discount=0.0, components=None, x=None,
                    kernel="normal"):  # fmt: skip
    """Exact posterior of a mixture of product normals, given privatised records.

    Parameters
    ----------
    Z : array-like of shape (n, d)
        Releases, n <= 5; a 1-D array is one feature.
    noise : {None, "laplace", "gaussian"}
        Additive noise of the channel; None means Z is the confidential record.
    noise_scale : float or array-like of shape (n,) or (n, d)
        Laplace's b or the Gaussian's standard deviation.
    bounds : None, (lo, hi) or sequence of d pairs
        When given, records are clamped to the bounds before noise.
    mean, mean_precision, shape, scale : float or array-like of shape (d,)
        G0 = prod_j N(mu_j | mean_j, sigma_j^2 / mean_precision_j) IG(sigma_j^2 | shape_j, scale_j).
    concentration, discount : float
        Pitman-Yor parameters; discount 0 is the Dirichlet process.
    concentration_prior : None or (shape, rate)
        Gamma prior of the concentration, in place of `concentration`; only with discount 0.
    components : None or (gamma, prior)
        A finite mixture in place of the above: Dirichlet(gamma, ...) weights of a number of components with that prior,
        see `log_finite_eppf`.
    x : array-like of shape (n_points, d), optional
        Where to evaluate the predictive density of a new confidential record.
    kernel : {"normal", "convolved"}
        "convolved": the base measure is on tau^2 = sigma^2 + eta^2, restricted to tau^2 >= eta^2 and normalised, eta
        the one scale of an unclamped Gaussian channel; a confidential record of a cluster is N(mu, tau^2 - eta^2).

    Returns
    -------
    ExactPosterior
        ValueError is raised when the quadrature's own check is worse than `RTOL`.
    """
    Z = np.asarray(Z, float)
    Z = Z[:, None] if Z.ndim == 1 else Z
    n, d = Z.shape
    if not 1 <= n <= 5 or noise not in (None, "laplace", "gaussian") or kernel not in ("normal", "convolved"):
        raise ValueError("need 1 to 5 records, a known noise and a known kernel")
    if (noise is None) != (noise_scale is None) or (noise is None and bounds is not None):
        raise ValueError("noise needs noise_scale, and neither noise_scale nor bounds mean anything without noise")
    if not 0 <= discount < 1 or concentration <= -discount or (concentration_prior is not None and discount):
        raise ValueError("need 0 <= discount < 1, concentration > -discount, and a prior only with discount 0")
    if noise is not None:
        noise_scale = np.asarray(noise_scale, float)
        noise_scale = np.broadcast_to(noise_scale[:, None] if noise_scale.ndim == 1 else noise_scale, (n, d))
    if kernel == "convolved" and (noise != "gaussian" or bounds is not None or np.ptp(noise_scale) > 0):
        raise ValueError("the convolved kernel needs an unclamped Gaussian channel with one noise scale")
    bounds = None if bounds is None else np.broadcast_to(np.asarray(bounds, float), (d, 2))
    x = np.empty((0, d)) if x is None else np.asarray(x, float).reshape(-1, d)
    prior = [np.broadcast_to(np.asarray(p, float), (d,)) for p in (mean, mean_precision, shape, scale)]

    log_m, density = np.zeros(2**n), np.ones((2**n, len(x)))
    for j in range(d):
        hyper = [p[j] for p in prior]
        if kernel == "convolved":
            table = convolved_tables(Z[:, j], x[:, j], noise_scale[0, 0], *hyper)
        else:
            b = None if noise is None else noise_scale[:, j]
            table = feature_tables(Z[:, j], x[:, j], noise, b, None if bounds is None else bounds[j], *hyper)
        log_m, density = log_m + table[0], density * table[1]

    alpha, log_alpha_weight = _concentration_nodes(concentration, concentration_prior, n)
    if components is not None:
        discount = -components[0]
        v, v_next = ([log_finite_eppf(m, t, *components) for t in range(n + 2)] for m in (n, n + 1))
    member, partitions = _subsets(n), set_partitions(n)
    log_post = np.empty((len(partitions), len(alpha)))
    seen = np.empty((len(partitions), len(x)))
    for row, partition in enumerate(partitions):
        sizes = member[partition].sum(axis=1)
        if components is None:
            log_eppf = sum(np.log(alpha + k * discount) for k in range(1, len(sizes)))
            log_eppf = log_eppf - sum(np.log(alpha + i) for i in range(1, n))
            log_eppf = log_eppf + np.sum(gammaln(sizes - discount) - gammaln(1 - discount))
        else:
            log_eppf = v[len(sizes)] + np.sum(gammaln(sizes - discount) - gammaln(-discount))
        log_post[row] = log_eppf + log_alpha_weight + log_m[partition].sum()
        seen[row] = (sizes - discount) @ density[partition]
    post = np.exp(log_post - log_post.max())
    post /= post.sum()

    pmf, together, predictive = np.zeros(n + 1), np.zeros((n, n)), np.zeros(len(x))
    for row, partition in enumerate(partitions):
        pmf[len(partition)] += post[row].sum()
        together += post[row].sum() * sum(np.outer(member[mask], member[mask]) for mask in partition)
        t = len(partition)
        old, fresh = 1 / (alpha + n), (alpha + t * discount) / (alpha + n)
        if components is not None and post[row] > 0:
            old, fresh = np.exp(v_next[t] - v[t]), -discount * np.exp(v_next[t + 1] - v[t])
        predictive += np.sum(post[row] * old) * seen[row] + np.sum(post[row] * fresh) * density[0]
    return ExactPosterior(pmf, predictive, together)
