"""Coefficients given one gradient and one curvature that were released with noise: independent draws, no chains."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ._curvature import CurvaturePosterior, ReleasedScore
from ._dp_target import has_range

N_WALKERS = 100
N_SETTLE = 20  # steps of a walker before its first draw
MOST_THINNING = 16
N_PROPOSALS = 8  # coefficients that are weighed for each curvature
WIDER = 1.5  # of a part of them
NODES, WEIGHTS = np.polynomial.legendre.leggauss(4)
NODES, WEIGHTS = 0.5 * (1.0 + NODES), 0.5 * WEIGHTS  # on (0, 1)


class PrivateNormalApproximation(BaseEstimator):
    """Draws of a posterior given a gradient and a curvature of the log likelihood, released with noise: no chains.

    Noisy Newton steps find a public θ0 near the mode; the last of them has most of the budget.  Draws are of the
    posterior given what it released, the noise of the gradient z and of the curvature Z included, with the log
    likelihood near a quadratic:

        z given θ and H ~ N(a(θ) H (θ - θ0), b(θ) H + s_g² I),   Z given H ~ N(H, s_H²),   θ ~ N(0, prior_sigma² I).

    The prior of H, the curvature at θ0, has a uniform trace up to what the records can have, and given the trace all
    positive matrices alike.  a and b are 1 at θ0: how much flatter the log likelihood is on the way to θ and there, for
    logits that are normal over the records (``mean_weight`` of the model; 1 without it).

    Parameters
    ----------
    n_steps : int, default=4
        Gradients and curvatures that are released, each three times as dear as the one before.
    n_draws : int, default=1000
    curvature_share : float in (0, 1), default=0.25
        Of the budget of a step.
    secure : bool, default=False
        Noise by OpenDP (extra ``[secure]``), which resists floating-point attacks.

    Raises
    ------
    ValueError
        On use, for a parameter that is not such.

    Notes
    -----
    **An approximation**, of the log likelihood and not of the noise: good where the posterior is narrow enough that a
    normal log likelihood with these a and b is a fair picture.  Draws are made with constant a and b and then weighed;
    where fewer than half of ``n_draws`` would count, the weights are raised to a power t < 1 (``correction_power_`` of
    the fitted sampler; 1 in most fits, less where a few hundred records have ten features).  Only the last step is used
    for inference; those before it say where.

    References
    ----------
    Huggins, Adams, Broderick (2017), "PASS-GLM: polynomial approximate sufficient statistics for scalable Bayesian GLM
    inference"; Kulkarni, Jälkö, Koskela, Kaski, Honkela (2021), "Differentially private Bayesian inference for
    generalized linear models" (noise-aware inference from released approximate sufficient statistics).

    Examples
    --------
    >>> from sklearn_dpmix.samplers import PrivateNormalApproximation
    >>> PrivateNormalApproximation(n_draws=2000)
    PrivateNormalApproximation(n_draws=2000)
    """

    gradient_clip_bound = None  # nothing is clipped

    def __init__(
        self, n_steps: int = 4, n_draws: int = 1000, curvature_share: float = 0.25, secure: bool = False
    ) -> None:
        self.n_steps = n_steps
        self.n_draws = n_draws
        self.curvature_share = curvature_share
        self.secure = secure

    def check(self, model: Any, theta: Any, who: str, is_private: bool) -> None:
        """Raise ValueError or TypeError where a parameter is wrong or the model lacks something at θ."""
        for name, least in (("n_steps", 1), ("n_draws", N_WALKERS)):
            value = getattr(self, name)
            if not isinstance(value, Integral) or isinstance(value, bool) or value < least:
                raise ValueError(
                    f"{name} of PrivateNormalApproximation must be an integer from {least} on, got {name}={value!r}"
                )
        share = self.curvature_share
        if not isinstance(share, Real) or not 0 < share < 1:
            raise ValueError(
                f"curvature_share of PrivateNormalApproximation must be between 0 and 1, got curvature_share={share!r}"
            )
        if not is_private:
            raise ValueError(
                f"sampler=PrivateNormalApproximation() of {who} is of noisy releases and needs a mechanism; without "
                "one take chains, as in sampler=DPPenaltyMCMC(n_iter=4000)"
            )
        if not has_range(model, "information_range", theta):
            raise ValueError(f"sampler=PrivateNormalApproximation() of {who} needs data_norm=..., got model={model!r}")

    def parts(self, budget: Any) -> list:
        """(gradient's, curvature's) Gaussian releases of each step: all of a budget."""
        shares = 3.0 ** np.arange(self.n_steps)
        shares /= shares.sum()
        split = 1.0 - self.curvature_share, self.curvature_share
        return [tuple(budget.part(share * one, 1) for one in split) for share in shares]


def normal_draws(target, theta, approximation, parts, source):
    """Newton steps from θ, and draws given what the last one released.

    Parameters
    ----------
    target : Target
        Of a model with ``observed_information``, ranges of it and of gradients, and ``prior_sigma``.
    theta : ndarray of shape (n_params,)
        Public.
    approximation : PrivateNormalApproximation
    parts : list of pairs of GaussianReleases
    source : noise source

    Returns
    -------
    draws : ndarray of shape (n_draws, n_params)
    posterior : NormalPosterior
        What they are of.
    """
    for gradient, curvature in parts:
        released = release_score(target, theta, gradient.noise_multiplier, curvature.noise_multiplier, source)
        posterior = NormalPosterior(released, target.model, target.n_records)
        theta = posterior.mode
    rng = np.random.default_rng((source.random(8) * 2.0**52).astype(np.uint64))  # what follows is post-processing
    return posterior.draws(rng, approximation.n_draws), posterior


def release_score(target, theta, gradient_multiplier, curvature_multiplier, source):
    """Gradient and curvature at θ, each with normal noise of its multiplier times its sensitivity."""
    model, identity = target.model, np.eye(len(theta))
    bound, width = target.gradient_bound(theta, identity)
    gradient = source.release(target.gradient(theta, identity, bound)[0], width, gradient_multiplier)
    sensitivity, exact = model.information_range(theta), target.information(theta)
    upper = np.triu_indices(len(theta))
    weights = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))  # the length of these is the Frobenius norm
    noisy = np.zeros_like(exact)
    noisy[upper] = source.release(exact[upper] * weights, sensitivity, curvature_multiplier) / weights
    return ReleasedScore(
        theta,
        gradient,
        gradient_multiplier * width,
        noisy + np.triu(noisy, 1).T,
        curvature_multiplier * sensitivity,
        model.prior_sigma**-2.0,
        target.n_records * model.largest_information,
    )


class NormalPosterior:
    """θ given a :class:`ReleasedScore`."""

    def __init__(self, released, model, n_records):
        self.released, self.model = released, model
        curvature = CurvaturePosterior(released)
        self.logits = Logits(model, curvature.guess, released.theta, n_records)
        self.mode = self._mode(curvature.guess)
        slope, spread = (float(part[0]) for part in self.logits.flatness(self.mode[None]))
        self.curvature = CurvaturePosterior(released, slope, spread)

    def _mode(self, H):
        """Of θ given H by averaged steps of a fixed point, under a prior by which logits have a sd of at most 2.

        It says where to look next, and noise that is larger than the log likelihood must not lead far off.
        """
        theta, precision = self.released.theta, max(self.released.prior_precision, self.model.largest_information)
        for _ in range(30):
            slope, spread = (part[0] for part in self.logits.flatness(theta[None]))
            mean, _ = self._given(H[None], slope, spread, precision)
            theta = 0.5 * (theta + mean[0])
        return theta

    def _given(self, H, slope, spread, prior_precision=None):
        """Mean and root of the precision of θ given curvatures, where a and b are constants."""
        one, diagonal = self.released, np.arange(H.shape[1])
        noise = spread * H
        noise[:, diagonal, diagonal] += one.gradient_noise**2
        back = np.linalg.solve(noise, slope * H).transpose(0, 2, 1)
        precision = back @ (slope * H)
        linear = back @ one.gradient + precision @ one.theta
        precision = 0.5 * (precision + precision.transpose(0, 2, 1))
        precision[:, diagonal, diagonal] += one.prior_precision if prior_precision is None else prior_precision
        return np.linalg.solve(precision, linear[:, :, None])[:, :, 0], np.linalg.cholesky(precision)

    def draws(self, rng, size):
        """(size, n_params) draws: walkers over H, then θ given H weighed by how flat the log likelihood is there."""
        curvatures = self._curvatures(rng, size)
        H = np.repeat(curvatures, N_PROPOSALS, axis=0)
        theta, log_own = self._proposals(rng, H)
        slope, spread = np.full(len(H), self.curvature.slope), np.full(len(H), self.curvature.spread)
        log_flat = self._log_likelihood(H, theta, *self.logits.flatness(theta))
        log_flat -= self._log_likelihood(H, theta, slope, spread)
        self.power, weights = _tempered(log_own, log_flat, size / 2)
        self.n_effective = min(1.0 / (weights**2).sum(), float(size))
        chosen = np.searchsorted(np.cumsum(weights), (np.arange(size) + rng.random()) / size)
        return theta[rng.permutation(np.minimum(chosen, len(theta) - 1))]

    def _curvatures(self, rng, size):
        """Draws of H, thinned until coefficients drawn given them are as good as independent."""
        from arviz_stats.base import array_stats

        posterior, n_kept = self.curvature, -(-size // N_WALKERS)
        x, step = posterior.settle(rng, *posterior.start(rng, N_WALKERS), N_SETTLE)
        thinning = 1
        while True:
            kept = []
            for i in range(n_kept * thinning):
                x, _ = posterior.move(rng, x, step)
                if i % thinning == thinning - 1:
                    kept.append(x)
            H = posterior.matrices(np.concatenate(kept))
            mean, root = self._given(H, posterior.slope, posterior.spread)
            theta = mean + _unwhiten(root, rng.standard_normal(mean.shape))
            by_walker = theta.reshape(n_kept, N_WALKERS, -1)
            ess = [array_stats.ess(by_walker[:, :, j], chain_axis=1, draw_axis=0) for j in range(theta.shape[1])]
            if min(ess) >= 0.5 * len(theta) or thinning >= MOST_THINNING:
                return H[:size]
            thinning *= 2

    def _proposals(self, rng, H):
        """θ given H from a mixture (itself, wider, the prior), and log(itself/mixture) of each."""
        mean, root = self._given(H, self.curvature.slope, self.curvature.spread)
        p, precision = mean.shape[1], self.released.prior_precision
        noise, kind = rng.standard_normal(mean.shape), rng.choice(3, size=len(H), p=(0.6, 0.2, 0.2))
        theta = mean + _unwhiten(root, noise * np.where(kind == 1, WIDER, 1.0)[:, None])
        theta = np.where((kind == 2)[:, None], noise / np.sqrt(precision), theta)
        u = (root.transpose(0, 2, 1) @ (theta - mean)[:, :, None])[:, :, 0]
        square = (u * u).sum(axis=1)
        log_root = np.log(root[:, np.arange(p), np.arange(p)]).sum(axis=1)
        own = log_root - 0.5 * square
        wider = log_root - 0.5 * square / WIDER**2 - p * np.log(WIDER)
        prior = 0.5 * p * np.log(precision) - 0.5 * precision * (theta * theta).sum(axis=1)
        mixture = np.logaddexp(np.logaddexp(np.log(0.6) + own, np.log(0.2) + wider), np.log(0.2) + prior)
        return theta, own - mixture

    def _log_likelihood(self, H, theta, slope, spread):
        """Of the released gradient given θ and H."""
        one, diagonal = self.released, np.arange(H.shape[1])
        noise = spread[:, None, None] * H
        noise[:, diagonal, diagonal] += one.gradient_noise**2
        root = np.linalg.cholesky(noise)
        rest = one.gradient - slope[:, None] * (H @ (theta - one.theta)[:, :, None])[:, :, 0]
        u = np.linalg.solve(root, rest[:, :, None])[:, :, 0]
        return -np.log(root[:, diagonal, diagonal]).sum(axis=1) - 0.5 * (u * u).sum(axis=1)


class Logits:
    """How flat the log likelihood is away from θ0, relative to there, for logits that are normal over the records.

    Their mean and variance at θ come from H(θ0)/(n w0), the weighted second moments of the design, with w0 the mean
    weight at θ0.
    """

    def __init__(self, model, H, theta, n_records):
        largest = model.mean_weight(0.0, 0.0)
        # a smaller weight would make rows longer than they can be
        least = largest * np.trace(H) / (n_records * model.largest_information)
        self.model, self.theta, weight = model, theta, largest
        for _ in range(30):
            self._moments(H / (n_records * weight))
            weight = max(0.5 * (weight + self._weight(theta[None])[0]), least)
        self.weight = self._weight(theta[None])[0]

    def _moments(self, second):
        self.mean = second[:, -1] if self.model.fit_intercept else np.zeros(len(second))
        values, vectors = np.linalg.eigh(second - np.outer(self.mean, self.mean))
        self.covariance = (vectors * np.maximum(values, 0.0)) @ vectors.T

    def _weight(self, theta):
        return self.model.mean_weight(theta @ self.mean, ((theta @ self.covariance) * theta).sum(axis=1))

    def flatness(self, theta):
        """(a, b) of θ, (size,) each: mean weight on the way from θ0 (Gauss-Legendre) and at θ, relative to θ0's."""
        way = theta - self.theta
        slope = sum(share * self._weight(self.theta + t * way) for t, share in zip(NODES, WEIGHTS, strict=True))
        return slope / self.weight, self._weight(theta) / self.weight


def _tempered(log_own, log_change, n_least):
    """(t, weights) with the largest t <= 1 by which weights own × change^t count for ``n_least`` draws."""
    low, high, power = 0.0, 1.0, 1.0
    for _ in range(12):
        log_weights = log_own + power * log_change
        weights = np.exp(log_weights - log_weights.max())
        weights /= weights.sum()
        enough = (weights**2).sum() * n_least <= 1.0
        if enough and power == 1.0:
            break
        low, high = (power, high) if enough else (low, power)
        power = 0.5 * (low + high)
    return power, weights


def _unwhiten(root, noise):
    """Noise with the precision root rootᵀ, row by row."""
    return np.linalg.solve(root.transpose(0, 2, 1), noise[:, :, None])[:, :, 0]
