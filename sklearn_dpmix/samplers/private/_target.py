"""The target of a private chain: a tempered posterior, of which only noisy sums over records are ever seen."""

from math import sqrt

import numpy as np

from ..._base.differences import central_differences
from ._likelihood_pass import CompiledPass, PlainPass, observed_information

BLOCK = 8192
#: Slack for the rounding of the values that the bounds are for.
ROUNDING = 1.0 + 1e-6
MOST_SHORTER = 30  # times that a step is made ten times shorter


class Target:
    """A model, its records, and how far one record can move what is released.

    Parameters
    ----------
    model : object
        As :class:`LikelihoodModel` describes.
    X : ndarray of shape (n_records, n_columns)
        Confidential.
    clip_bound : float, optional
        Log ratios are clipped to ±clip_bound ‖θ' - θ‖.  None: the model's ``log_ratio_range`` bounds them.
    gradient_clip_bound : float, optional
        Gradients are clipped to this length.  None: the model's ``gradient_range`` bounds their differences.
    temperature : float
        T, the power of the likelihood.
    is_private : bool
        False: ranges are not needed.
    """

    def __init__(self, model, X, clip_bound=None, gradient_clip_bound=None, temperature=1.0, is_private=True):
        if hasattr(model, "clip_records"):
            X = _clipped(model, X)
        passes = CompiledPass if hasattr(model, "record_log_ratio") else PlainPass
        self.model, self.n_records, self.is_private = model, len(X), is_private
        self.clip_bound, self.gradient_clip_bound = as_float(clip_bound), as_float(gradient_clip_bound)
        self.temperature = float(temperature)
        self._passes = passes(model, np.ascontiguousarray(X))

    # ---------------------------------------------------------------- public: of θ alone

    def log_prior(self, theta):
        """-inf outside the support."""
        value = float(np.asarray(self.model.log_prior(theta[None, :]))[0])
        return value if value == value else -np.inf

    def grad_log_prior(self, theta):
        """By central differences if the model does not have it; the prior is public."""
        if hasattr(self.model, "grad_log_prior"):
            return self.model.grad_log_prior(theta)
        return slopes(self.model.log_prior, theta, 1e-6)

    def ratio_bound(self, theta, new):
        """(What log ratios are clipped to, the width of what they then range over or None if nothing says)."""
        if self.clip_bound is not None:
            bound = self.clip_bound * sqrt((new - theta) @ (new - theta))
            return bound, 2.0 * bound * ROUNDING
        if not self.is_private:
            return np.inf, 0.0
        width_of = getattr(self.model, "log_ratio_range", None)
        there = width_of(theta, new) if callable(width_of) else None
        if there is None:
            return np.inf, None
        # the same both ways, or the chain leaves its target
        return np.inf, max(there, width_of(new, theta)) * ROUNDING

    def gradient_bound(self, theta, frame, clip_bound=None):
        """The same of gradients Fᵀg; ``clip_bound`` goes before the target's own."""
        bound = self.gradient_clip_bound if clip_bound is None else float(clip_bound)
        if bound is not None:
            return bound, 2.0 * bound * ROUNDING
        if not self.is_private:
            return np.inf, 0.0
        return np.inf, self.model.gradient_range(theta, frame) * ROUNDING

    def information_width(self, theta):
        """How far one record can move :meth:`information`, in the Frobenius norm; 0 if nothing is private."""
        return information_range(self.model, theta) * ROUNDING if self.is_private else 0.0

    # ---------------------------------------------------------------- confidential: only to be released with noise

    def ratios(self, theta, new, bound, rows=None):
        """Sums over records, or over some, of clipped log ratios; the temperature is left out."""
        return self._passes.ratios(theta, new, bound, rows)

    def gradient(self, theta, frame, bound):
        """T Σ clipped Fᵀg."""
        return self.temperature * self._passes.gradient(theta, frame, bound)

    def information(self, theta):
        """Minus the Hessian of the log likelihood of all records; the temperature is left out."""
        X = self._passes.X
        return sum(observed_information(self.model, X[i : i + BLOCK], theta) for i in range(0, len(X), BLOCK))

    def batch(self, source, size, order):
        """The numbers of ``size`` records without replacement; ``order``, a permutation, is shuffled for it."""
        return self._passes.batch(source, size, order)


def slopes(function, theta, share):
    """Central differences by each parameter of a function of points (n, n_params), (n_params,).

    Steps begin at a ``share`` of the parameter, or of 1, and are shortened where they leave the support.
    """
    steps, found = share * np.maximum(1.0, np.abs(theta)), np.full(len(theta), np.nan)
    for _ in range(MOST_SHORTER):
        with np.errstate(invalid="ignore"):
            found = central_differences(function, theta, steps)
        if np.all(np.isfinite(found)):
            break
        steps = np.where(np.isfinite(found), steps, 0.1 * steps)
    return found


def as_float(bound):
    """A bound in double precision, whatever it was given in: it is the sensitivity that noise is made for."""
    return None if bound is None else float(bound)


def has_range(model, method, theta):
    """Whether a model says how far one record can move ``method``'s quantity: the package's do with ``data_norm``."""
    if not callable(getattr(model, method, None)):
        return False
    second = {"log_ratio_range": [theta], "gradient_range": [np.eye(len(theta))], "information_range": []}[method]
    return getattr(model, method)(theta, *second) is not None


def information_range(model, theta):
    """The model's range; 0 is refused, since noise of no size would let the rounding of the sum through."""
    value = model.information_range(theta)
    if value == 0.0:
        raise ValueError(
            f"information_range of {type(model).__name__} is 0 at theta={theta.tolist()}: observed information that "
            "depends on no record is public and is not released with noise; give the model information(theta), that "
            "of one record, of shape (n_params, n_params)"
        )
    return value


def _clipped(model, X):
    """The records that the model's bounds hold for, made block by block: one copy of the data and no more."""
    clipped = np.empty(X.shape)
    for first in range(0, len(X), BLOCK):
        clipped[first : first + BLOCK] = model.clip_records(X[first : first + BLOCK])
    return clipped
