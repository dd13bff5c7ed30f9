"""Coefficients given one gradient and one curvature that were released with noise: independent draws, no chains."""

from numbers import Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ..._base.parameters import positive_integer
from ._curvature import CurvaturePosterior, Expansion, ReleasedScore
from ._newton import release_information
from ._normal_logits import NormalLogits, even_curvatures
from ._target import has_range

N_WALKERS = 100
N_SETTLE = 20  # steps of a walker before its first draw
MOST_THINNING = 16
N_PROPOSALS = 32  # coefficients that are weighed for each curvature
WIDER = 1.5  # of a part of them
CLOSE = 0.01  # to a mode, in standard deviations
OF_NOISE = 0.25  # of the curvature's noise: the least precision of coefficients' prior where a step looks for a mode


class PrivateNormalApproximation(BaseEstimator):
    """Draws of a posterior given a gradient and a curvature of the log likelihood, released with noise; no chains.

    Noisy Newton steps find a public θ0 near the mode; the last step has most of the budget.  Draws are from the
    posterior given what the last step released, with the noise of the gradient z and of the curvature Z included:

        z given θ and H ~ N(H d(θ), b(θ) H + s_g² I),   Z given H ~ N(H, s_H²),   θ ~ the model's prior.

    The prior of H, the curvature at θ0, is centred on S times any number, where S is the curvature of a design with
    independent normal features of one size, and a 1 for the intercept.  That size is unknown, and so is how near H is
    to S.  d(θ) is θ - θ0 and b is 1 near θ0; farther away they are what they would be if the rows were normal
    (``normal_means`` of the model).

    A prior with an unknown variance for each coefficient (``prior_df`` of the model) is multiplied by √det(I + F(θ)/λ),
    relative to θ = 0, with F Fisher's information on θ in z and λ the precision of its scale.  That is Jeffreys' prior
    where z says much, and 1 where it says nothing.

    Parameters
    ----------
    n_steps : int, default=4
        Number of gradients and curvatures that are released, each three times as expensive as the one before.
    n_draws : int, default=1000
    curvature_share : float in (0, 1), default=0.25
        Share of the curvature in the budget of a step.
    secure : bool, default=False
        Let OpenDP (extra ``[secure]``) draw the noise, which then resists floating-point attacks.

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    Notes
    -----
    This is **an approximation** of the log likelihood, but not of the noise.  It is good if the sum of many records'
    gradients is about normal, and rows are not too far from normal or θ0 is not too far from the mode.  Draws are made
    with d linear and b constant near a mode, and then weighted.  If fewer than half of ``n_draws`` would count, the
    weights are raised to a power t < 1 (``correction_power_`` of the fitted sampler, which is 1 or nearly 1 with two or
    five features, and less with ten), and part of that approximation remains.  Only the last step is used for
    inference; the steps before it only find θ0.

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
        """Raise ValueError or TypeError if a parameter is wrong or the model lacks something at θ."""
        for name, least in (("n_steps", 1), ("n_draws", N_WALKERS)):
            positive_integer(f"{name} of PrivateNormalApproximation", getattr(self, name), least, 2**53)
        share = self.curvature_share
        if not isinstance(share, Real) or not 0 < share < 1:
            raise ValueError(
                f"curvature_share of PrivateNormalApproximation must be between 0 and 1, got curvature_share={share!r}"
            )
        if not is_private:
            raise ValueError(
                f"sampler=PrivateNormalApproximation() of {who} works from noisy releases and needs a mechanism; "
                "without one use chains, as in sampler=DPPenaltyMCMC(n_iter=4000)"
            )
        if not has_range(model, "information_range", theta):
            raise ValueError(f"sampler=PrivateNormalApproximation() of {who} needs data_norm=..., got model={model!r}")

    def parts(self, budget: Any) -> list:
        """(gradient's, curvature's) Gaussian releases of each step: all of a budget."""
        shares = 3.0 ** np.arange(self.n_steps)
        shares /= shares.sum()
        split = 1.0 - self.curvature_share, self.curvature_share
        return [tuple(budget.part(share * one, 1) for one in split) for share in shares]


def normal_posteriors(target, theta, parts, source):
    """Newton steps from θ, one after the other: each yields the posterior given what it released alone.

    Parameters
    ----------
    target : Target
        Of a model with ``observed_information``, ranges of it and of gradients, and ``prior_sigma``.
    theta : ndarray of shape (n_params,)
        Public.
    parts : list of pairs of GaussianReleases
    source : noise source

    Yields
    ------
    posterior : NormalPosterior
    """
    for gradient, curvature in parts:
        released = release_score(target, theta, gradient.noise_multiplier, curvature.noise_multiplier, source)
        posterior = NormalPosterior(released, target.model, target.n_records)
        theta = posterior.mode
        yield posterior


def release_score(target, theta, gradient_multiplier, curvature_multiplier, source):
    """Gradient and curvature at θ, each with normal noise of its multiplier times its sensitivity."""
    model, identity = target.model, np.eye(len(theta))
    bound, width = target.gradient_bound(theta, identity)
    gradient = source.release(target.gradient(theta, identity, bound), width, gradient_multiplier)
    return ReleasedScore(
        theta,
        gradient,
        gradient_multiplier * width,
        *release_information(target, theta, curvature_multiplier, source),
        model.prior_sigma**-2.0,
        target.n_records * model.largest_information,
        even_curvatures(model, theta, target.n_records),
        getattr(model, "prior_df", None),
    )


class NormalPosterior:
    """θ given a :class:`ReleasedScore`."""

    def __init__(self, released, model, n_records):
        self.released, self.model = released, model
        guess = CurvaturePosterior(released).guess
        self.logits, self._axes = NormalLogits(model, guess, released.theta, n_records), np.linalg.eigh(guess[None])
        # where to look next: noise that is larger than the log likelihood must not lead far off, and where noise hides
        # the curvature, it hides how far it is back
        known = max(released.prior_precision, model.largest_information, OF_NOISE * released.curvature_noise)
        self.mode = self._mode(released._replace(prior_precision=known, prior_df=None))

    def _mode(self, one):
        """Of θ given the guess, by averaged Gauss-Newton steps.

        A gradient that no θ has, because of its noise, makes steps overshoot to where all probabilities are 0 or 1, and
        come back: then it is the best θ on the way.
        """
        theta, visited = one.theta, []
        for _ in range(30):
            visited.append(theta)
            of_prior = one.precisions(theta)[None]
            mean, root = given(one, self._axes, of_prior, self.expansion(theta))
            step = 0.5 * (mean[0] - theta)
            theta = theta + step
            if np.linalg.norm(step @ root[0]) < CLOSE:
                return theta
        return max(visited, key=lambda theta: self._log_density(one, theta))

    def _log_density(self, one, theta):
        """Of one θ given the guess, up to a constant."""
        displacement, flatness = self.logits.displacement(theta[None]), self.logits.flatness(theta[None])
        return one.log_prior(theta) + _log_likelihood(one, self._axes, displacement[None], flatness[None])[0, 0]

    def expansion(self, theta):
        """The distribution of the gradient as it is near θ."""
        slope = self.logits.tangents(theta[None])[0]
        offset = self.logits.displacement(theta[None])[0] - slope @ theta
        return Expansion(offset, slope, float(self.logits.flatness(theta[None])[0]))

    def draws(self, rng, size):
        """(size, n_params) draws: walkers over H, then θ given H, both as near a mode, weighed by what that leaves out.

        ``power`` and ``n_effective`` say how that went.
        """
        near = self.expansion(self._mode(self.released))
        axes, of_prior = self._curvatures(rng, size, near)
        theta, log_own = _proposals(rng, of_prior, *given(self.released, axes, of_prior, near))
        rows, shape = theta.reshape(-1, theta.shape[2]), theta.shape
        displacement, flatness = self.logits.displacement(rows), self.logits.flatness(rows)
        log_change = _log_likelihood(self.released, axes, displacement.reshape(shape), flatness.reshape(shape[:2]))
        constant = np.full(shape[:2], near.spread)
        log_change -= _log_likelihood(self.released, axes, near.offset + theta @ near.slope.T, constant)
        if self.released.prior_df is not None:
            log_change += self._log_reference(axes, theta)
        self.power, weights = _tempered(log_own.ravel(), log_change.ravel(), size / 2)
        self.n_effective = min(1.0 / (weights**2).sum(), float(size))
        chosen = np.searchsorted(np.cumsum(weights), (np.arange(size) + rng.random()) / size)
        return rows[rng.permutation(np.minimum(chosen, len(rows) - 1))]

    def _log_reference(self, axes, theta):
        """Half the log of det(λI + JᵀV⁻¹J) at θ, less that at 0: (n_curvatures, size).

        J are the derivatives of the gradient's mean, V is its variance given θ and a curvature.
        """
        one, (values, vectors) = self.released, axes
        values = np.maximum(values, 0.0)[:, None, :]

        def log_det(theta):
            rows, shape = theta.reshape(-1, theta.shape[2]), theta.shape
            flatness = self.logits.flatness(rows).reshape(*shape[:2], 1)
            weight = values / np.sqrt(flatness * values + one.gradient_noise**2)
            tangents = self.logits.tangents(rows).reshape(*shape, shape[2])
            root = weight[..., None] * (vectors.transpose(0, 2, 1)[:, None] @ tangents)
            return np.linalg.slogdet(root.swapaxes(2, 3) @ root + one.prior_precision * np.eye(shape[2]))[1]

        return 0.5 * (log_det(theta) - log_det(np.zeros_like(theta[:, :1])))

    def _curvatures(self, rng, size, expansion):
        """Draws of H, as (eigenvalues, axes), and of the coefficients' prior precisions.

        Thinned until coefficients given them are as good as independent.
        """
        from arviz_stats.base import array_stats

        posterior, n_kept = CurvaturePosterior(self.released, expansion), -(-size // N_WALKERS)
        walkers, step = posterior.settle(rng, *posterior.start(rng, N_WALKERS), N_SETTLE)
        thinning = 1
        while True:
            kept = []
            for i in range(n_kept * thinning):
                walkers, _ = posterior.move(rng, walkers, step)
                if i % thinning == thinning - 1:
                    kept.append(walkers.x)
            kept = np.concatenate(kept)
            axes, of_prior = np.linalg.eigh(posterior.matrices(kept)), 1.0 / posterior.variances(kept)
            mean, root = given(self.released, axes, of_prior, expansion)
            theta = mean + (rng.standard_normal(mean.shape)[:, None, :] @ np.linalg.inv(root))[:, 0]
            by_walker = theta.reshape(n_kept, N_WALKERS, -1)
            ess = [array_stats.ess(by_walker[:, :, j], chain_axis=1, draw_axis=0) for j in range(theta.shape[1])]
            if min(ess) >= 0.5 * len(theta) or thinning >= MOST_THINNING:
                return tuple(part[:size] for part in axes), of_prior[:size]
            thinning *= 2


def given(one, axes, of_prior, expansion):
    """Mean and root of the precision of θ given curvatures, (eigenvalues, axes), prior precisions and an expansion."""
    values, vectors = axes
    values = np.maximum(values, 0.0)
    noise = expansion.spread * values + one.gradient_noise**2
    rest = one.gradient @ vectors - values * (expansion.offset @ vectors)
    slope = values[:, :, None] * (vectors.transpose(0, 2, 1) @ expansion.slope)
    back = (slope / noise[:, :, None]).transpose(0, 2, 1)
    precision = back @ slope + of_prior[:, :, None] * np.eye(len(one.theta))
    return np.linalg.solve(precision, back @ rest[:, :, None])[:, :, 0], np.linalg.cholesky(precision)


def _proposals(rng, of_prior, mean, root):
    """θ, (n_curvatures, N_PROPOSALS, p), from a mixture (itself, wider, the prior), and log(itself/mixture) of each."""
    p, mean = mean.shape[1], mean[:, None, :]
    noise = rng.standard_normal((len(mean), N_PROPOSALS, p))
    kind = rng.choice(3, size=noise.shape[:2] + (1,), p=(0.6, 0.2, 0.2))
    theta = (noise * np.where(kind == 1, WIDER, 1.0)) @ np.linalg.inv(root) + mean
    theta = np.where(kind == 2, noise / np.sqrt(of_prior)[:, None, :], theta)
    square = (((theta - mean) @ root) ** 2).sum(axis=2)
    log_root = np.log(np.diagonal(root, axis1=1, axis2=2)).sum(axis=1)[:, None]
    own = log_root - 0.5 * square
    wider = log_root - 0.5 * square / WIDER**2 - p * np.log(WIDER)
    prior = 0.5 * np.log(of_prior).sum(axis=1)[:, None] - 0.5 * (theta * theta * of_prior[:, None, :]).sum(axis=2)
    return theta, own - np.logaddexp(np.logaddexp(np.log(0.6) + own, np.log(0.2) + wider), np.log(0.2) + prior)


def _log_likelihood(one, axes, displacement, flatness):
    """Of the released gradient given curvatures and θ, of which the last two are functions."""
    values, vectors = axes
    values = np.maximum(values, 0.0)[:, None, :]
    noise = flatness[:, :, None] * values + one.gradient_noise**2
    rest = (one.gradient @ vectors)[:, None, :] - values * (displacement @ vectors)
    return -0.5 * (np.log(noise) + rest * rest / noise).sum(axis=2)


def _tempered(log_own, log_change, n_least):
    """(t, weights) with the largest t <= 1 by which weights own × change^t count for ``n_least`` draws."""

    def weigh(power):
        log_weights = log_own + power * log_change
        weights = np.exp(log_weights - log_weights.max())
        return weights / weights.sum()

    low, high, power = 0.0, 1.0, 1.0
    for _ in range(12):
        if (weigh(power) ** 2).sum() * n_least > 1.0:
            high = power
        else:
            low = power
            if power == 1.0:
                break
        power = 0.5 * (low + high)
    return low, weigh(low)
