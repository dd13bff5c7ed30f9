"""A mode and its curvature, found by a few noisy Newton steps: the start and the geometry of private chains."""

from numbers import Integral, Real
from typing import Any

import numpy as np
from sklearn.base import BaseEstimator

from ._target import has_range, information_range, slopes
from ._walk_moves import Coordinates

MOST_HALVINGS = 60  # of a step


class PrivateNewton(BaseEstimator):
    """Newton steps on noisy gradients, which find where private chains start and the geometry in which they move.

    The curvature is the model's public ``information(theta)`` of one record, or else the released
    ``observed_information(X, theta)``, of which one record changes no more than ``information_range(theta)`` > 0 in the
    Frobenius norm; moves are scaled by it.  Chains start at draws from a normal approximation of the posterior *given
    the noisy steps*: around the end of the steps, with that covariance times 1 + s², where s is the last step's noise
    in standard deviations.  Noise of the curvature and of steps before the last is ignored; three steps are a good
    number.

    Parameters
    ----------
    n_steps : int, default=3
    share : float in (0, 1), default=0.1
        Share of the budget, as the mean of a Gaussian privacy loss (which is ρ in zero-concentrated privacy).
    gradient_clip_bound : float, optional
        Gradients of a record, in units in which the curvature is 1, are clipped to this length.  None: the model's
        ``gradient_range`` bounds them.

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    Examples
    --------
    >>> from sklearn_dpmix.samplers import PrivateNewton
    >>> PrivateNewton(n_steps=2)
    PrivateNewton(n_steps=2)
    """

    def __init__(self, n_steps: int = 3, share: float = 0.1, gradient_clip_bound: float | None = None) -> None:
        self.n_steps = n_steps
        self.share = share
        self.gradient_clip_bound = gradient_clip_bound

    def check(self, model: Any, theta: Any, who: str, is_private: bool) -> None:
        """Raise ValueError or TypeError if a parameter is wrong or the model lacks something at θ."""
        if not isinstance(self.n_steps, Integral) or self.n_steps < 1:
            raise ValueError(f"n_steps of PrivateNewton must be an integer of at least 1, got n_steps={self.n_steps!r}")
        if not isinstance(self.share, Real) or not 0 < self.share < 1:
            raise ValueError(f"share of PrivateNewton must be between 0 and 1, got share={self.share!r}")
        bound = self.gradient_clip_bound
        if bound is not None and not (isinstance(bound, Real) and 0 < bound < np.inf):
            raise ValueError(f"gradient_clip_bound of PrivateNewton must be positive, got {bound!r}")
        if not hasattr(model, "information") and not hasattr(model, "observed_information"):
            raise TypeError(
                f"preconditioner=PrivateNewton() of {who} needs information(theta), or observed_information(X, theta) "
                f"and information_range(theta), of the model, which {type(model).__name__} does not have"
            )
        if not callable(getattr(model, "grad_log_density", None)):
            raise TypeError(
                f"preconditioner=PrivateNewton() of {who} needs grad_log_density of the model, which "
                f"{type(model).__name__} does not have"
            )
        if is_private and not hasattr(model, "information") and not has_range(model, "information_range", theta):
            raise ValueError(
                f"preconditioner=PrivateNewton() of {who} releases observed_information, and needs "
                "information_range(theta), how far one record can move it (data_norm=... of the package's models): got "
                f"model={model!r}"
            )
        if is_private and not hasattr(model, "information"):
            information_range(model, theta)

    def n_releases(self, model: Any) -> int:
        """How many Gaussian releases it makes."""
        return self.n_steps * (1 if hasattr(model, "information") else 2)


def private_steps(target, theta, n_steps, multiplier, source, clip_bound=None):
    """Newton steps from θ on noisy gradients, with public or noisy curvature, one after the other.

    Parameters
    ----------
    target : Target
        Its model has ``information(theta)``, or ``observed_information`` and ``information_range``.
    theta : ndarray of shape (n_params,)
    n_steps : int
    multiplier : float
        Noise of each release in sensitivities.
    source : noise source
    clip_bound : float, optional
        Of whitened gradients.

    Yields
    ------
    phi : ndarray of shape (n_params,)
        Where the step leads, in working coordinates.
    root : ndarray of shape (n_params, n_params)
        Root of the inverse curvature where the step began, by which moves are scaled.
    noise : float
        Standard deviation of the step's noise, in units of ``root``: how far φ is from where it would be.
    """
    model, n_params = target.model, len(theta)
    plain = Coordinates(model, np.zeros(n_params), np.eye(n_params))
    phi = plain.psi(theta)
    for _ in range(n_steps):
        theta = plain.theta(phi)
        frame = plain.jacobian(phi)
        information = _information(target, theta, multiplier, source)
        curvature = frame.T @ information @ frame
        curvature += frame.T @ frame * _prior_precision(target, theta, np.trace(information))
        root = np.linalg.inv(np.linalg.cholesky(curvature)).T
        # the gradient in the units of the posterior, so that one bound on its length suits all its entries
        whitened = frame @ root
        bound, width = target.gradient_bound(theta, whitened, clip_bound)
        total = target.gradient(theta, whitened, bound)
        gradient = source.release(total, target.temperature * width, multiplier)
        gradient = gradient + whitened.T @ target.grad_log_prior(theta)
        phi = phi + shortened(root @ gradient, lambda step, at=phi: target.log_prior(plain.theta(at + step)) > -np.inf)
        yield phi, root, multiplier * target.temperature * width


def shortened(step, is_possible):
    """The step, or half of it, and so on until the prior knows where it leads: public, as the prior is."""
    for _ in range(MOST_HALVINGS):
        if is_possible(step):
            break
        step = 0.5 * step
    return step


def _information(target, theta, multiplier, source):
    """T Σ information, of a public model or released, with eigenvalues that are no less than its noise."""
    if hasattr(target.model, "information"):
        return target.temperature * target.n_records * target.model.information(theta)
    noisy, noise = release_information(target, theta, multiplier, source)
    values, vectors = np.linalg.eigh(noisy)
    floor = noise * np.sqrt(len(theta))  # about the largest eigenvalue of the noise
    return (vectors * np.maximum(values, floor)) @ vectors.T


def release_information(target, theta, multiplier, source):
    """(T Σ observed information with normal noise, the noise's standard deviation in the Frobenius norm)."""
    exact = target.temperature * target.information(theta)
    sensitivity = target.temperature * target.information_width(theta)
    upper = np.triu_indices(len(theta))
    weights = np.where(upper[0] == upper[1], 1.0, np.sqrt(2.0))  # the length of these is the Frobenius norm
    noisy = np.zeros_like(exact)
    noisy[upper] = source.release(exact[upper] * weights, sensitivity, multiplier) / weights
    return noisy + np.triu(noisy, 1).T, multiplier * sensitivity


def _prior_precision(target, theta, known):
    """A rough size of the prior's curvature, so that what the data do not tell stays finite.

    If the prior is flat, or nearly, it is a small part of what is ``known``, in whatever unit that is.
    """

    def own_slopes(points):
        return np.array([target.grad_log_prior(point)[j] for j, point in enumerate(points)])

    least = -float(np.max(slopes(own_slopes, theta, 1e-4)))
    floor = 1e-10 * min(1.0, float(known))
    return least if least > floor else floor
