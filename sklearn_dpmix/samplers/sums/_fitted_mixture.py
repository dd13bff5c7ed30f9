"""A mixture of t fitted to a density of a few variables, so that independence proposals follow a curved ridge.

It starts from the modes and curvatures of :mod:`_modes`.  Each round draws from the mixture, weights the draws by the
density over the mixture, and takes one step of the EM algorithm for t mixtures with these weights (Cappé, Douc,
Guillin, Marin & Robert 2008, adaptive importance sampling in general mixture classes).  It changes how fast chains mix
and not what they converge to.
"""

import numpy as np
from scipy.special import logsumexp

from .._proposal import DEGREES, WIDEN

N_COMPONENTS, N_ROUNDS, N_DRAWS = 20, 15, 4000
ENOUGH = 0.85  # of the draws' weight: no more rounds then
REACHES = (1.0, 3.0, 10.0)  # factors by which the modes are widened to look around at first
POWER, POWER_SHARE = 0.4, 0.3
MODES_SHARE = 0.1  # of proposals, near the modes themselves
LEAST_SHARE = 1e-3  # of a component
FLOOR = 1e-4  # of the overall covariance, in a component's


def fit_mixture(log_density, centres, factors, log_weights):
    """Return (centres, factors, log_weights) of a mixture, for ``proposal_fields``.

    Part of it is fitted to a power of the density, which reaches further along a ridge: where a chain comes and hardly
    any proposal does, it would stay.

    Parameters
    ----------
    log_density : callable, (m, d) -> (m,)
        Up to a constant.
    centres, factors, log_weights : ndarrays of shapes (k, d), (k, d, d), (k,)
        The modes.
    """
    modes = centres, factors, log_weights
    parts = [adapt(log_density, *modes), adapt(lambda x: POWER * log_density(x), *modes)]
    shares = [np.log1p(-POWER_SHARE), np.log(POWER_SHARE)]
    if len(centres) > 1:  # what is fitted may leave one out, and a chain that starts there would stay
        parts, shares = [*parts, modes], [*np.add(shares, np.log1p(-MODES_SHARE)), np.log(MODES_SHARE)]
    parts = [(c, f, w + share) for (c, f, w), share in zip(parts, shares, strict=True)]
    return tuple(np.concatenate(part) for part in zip(*parts, strict=True))


def adapt(log_density, centres, factors, log_weights):
    """The mixture for one density."""
    rng = np.random.default_rng(0)
    wide = [(centres, WIDEN * reach * factors, log_weights - np.log(len(REACHES))) for reach in REACHES]
    mixture = tuple(np.concatenate(parts) for parts in zip(*wide, strict=True))
    d = centres.shape[1]
    best = (0.0, centres, factors, log_weights)
    for turn in range(N_ROUNDS + 1):
        x = draw_mixture(rng, *mixture, N_DRAWS)
        parts = log_parts(x, *mixture)
        log_w = log_density(x) - logsumexp(parts, axis=1)
        w = np.exp(log_w - log_w.max())
        w /= w.sum()
        efficiency = 1.0 / (len(w) * (w @ w))
        if turn > 0 and efficiency > best[0]:
            best = (efficiency, mixture[0], mixture[1] / WIDEN, mixture[2])
            if efficiency > ENOUGH:
                break
        centre = w @ x
        spread = ((x - centre) * w[:, None]).T @ (x - centre)
        if turn == 0:
            at = np.searchsorted(np.cumsum(w), (rng.random() + np.arange(N_COMPONENTS)) / N_COMPONENTS)
            covariance = spread * N_COMPONENTS ** (-2.0 / d)
            mixture = assemble(x[np.minimum(at, len(x) - 1)], np.tile(covariance, (N_COMPONENTS, 1, 1)), spread)
        else:
            mixture = step(x, w, parts, mixture, spread)
    return best[1:]


def assemble(centres, covariances, spread, shares=None):
    """(centres, factors, log shares), with covariances kept away from 0."""
    floor = FLOOR * np.diag(np.maximum(np.diag(spread), 1e-300))
    shares = np.full(len(centres), 1.0 / len(centres)) if shares is None else shares / shares.sum()
    return centres, np.linalg.cholesky(covariances + floor), np.log(shares)


def step(x, w, parts, mixture, spread):
    """One step of EM."""
    centres, factors, _ = mixture
    d = x.shape[1]
    responsibility = w[:, None] * np.exp(parts - logsumexp(parts, axis=1, keepdims=True))
    pull = responsibility * (DEGREES + d) / (DEGREES + squares(x, centres, factors))
    shares = responsibility.sum(axis=0)
    kept = shares > LEAST_SHARE
    new_centres, covariances = [], []
    for m in np.flatnonzero(kept):
        centre = pull[:, m] @ x / pull[:, m].sum()
        off = x - centre
        new_centres.append(centre)
        covariances.append((off * pull[:, m, None]).T @ off / shares[m])
    return assemble(np.array(new_centres), np.array(covariances), spread, shares[kept])


def squares(x, centres, factors):
    """‖F⁻¹ (x - c)‖² of each point and component, (n, k)."""
    return np.stack(
        [np.sum(np.linalg.solve(f, (x - c).T) ** 2, axis=0) for c, f in zip(centres, factors, strict=True)], axis=1
    )


def log_parts(x, centres, factors, log_shares):
    """Log share times density of each component at each point, up to a constant, (n, k)."""
    d = x.shape[1]
    scale = np.log(np.diagonal(factors, axis1=1, axis2=2)).sum(axis=1)
    return log_shares - scale - 0.5 * (DEGREES + d) * np.log1p(squares(x, centres, factors) / DEGREES)


def draw_mixture(rng, centres, factors, log_shares, size):
    """Draws (size, d)."""
    which = rng.choice(len(centres), size=size, p=np.exp(log_shares) / np.exp(log_shares).sum())
    e = rng.standard_normal((size, centres.shape[1])) / np.sqrt(rng.chisquare(DEGREES, (size, 1)) / DEGREES)
    return centres[which] + np.einsum("nij,nj->ni", factors[which], e)
