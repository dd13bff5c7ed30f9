"""How much noise a budget needs, and what noise guarantees: the common part of continuous and discrete noise."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import calibrate, is_real
from .._base.typing import Array, Floats
from ..privacy import PrivacyGuarantee
from ..privacy._guarantee import half_square
from ._additive import AdditiveMechanism


class LaplaceCalibrated(AdditiveMechanism):
    """Parameters and guarantee of two-sided exponential noise, on the line or on integers: ε = Δ₁/b."""

    norm = 1
    is_log_concave = True

    def __init__(
        self,
        epsilon: ArrayLike | None = None,
        *,
        bounds: ArrayLike | None = None,
        query: Any = None,
        scale: ArrayLike | None = None,
        rho: ArrayLike | None = None,
        clamp: bool = True,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.query = query
        self.scale = scale
        self.rho = rho
        self.clamp = clamp

    def noise_scale_for(self, n_features: int | None) -> float | Floats:
        return calibrate(
            self,
            self.sensitivity(n_features),
            epsilon=lambda epsilon, delta_1: delta_1 / epsilon,
            rho=lambda rho, delta_1: delta_1 / np.sqrt(2.0 * rho),
        )

    def kinks(self, n_features: int) -> Floats:
        """The bounds: beyond them all densities fall in the same way."""
        bounds = self.bounds_for(n_features)
        return np.empty((n_features, 0)) if bounds is None or not self.clamp else bounds

    def likeliest_value(self, S: Array, scale: Array) -> Floats:
        """Median with weights 1/b, one of the releases: the slope of ``Σ |z - y|/b`` changes its sign there."""
        order = np.argsort(S, axis=0)
        weight = np.cumsum(1.0 / scale[order], axis=0)
        middle = np.argmax(weight >= 0.5 * weight[-1], axis=0)
        return np.take_along_axis(S, np.take_along_axis(order, middle[None], axis=0), axis=0)[0]

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one release, for the least protected record if each has its own channel.

        Parameters
        ----------
        n_features : int, optional
            Needed if the noise was given as ``scale`` and the bounds as one pair, which may stand for any number.

        Raises
        ------
        ValueError
            With ``scale`` alone: what it is noise *on* is then unknown.  With ``scale`` and one pair of bounds, and no
            ``n_features``.
        """
        loss = self._loss(n_features)
        epsilon = loss if self.epsilon is None else float(np.max(np.asarray(self.epsilon)))
        return PrivacyGuarantee.pure(epsilon, self._neighbours())


class GaussianCalibrated(AdditiveMechanism):
    """Parameters and guarantee of Gaussian noise, on the line or on integers: ρ = Δ₂²/(2σ²), and (ε, δ).

    A subclass defines ``calibrations``, the names that it knows, and ``_scale_of(epsilon, sensitivity, n_features)``,
    the noise scale for one ε.
    """

    norm = 2
    is_log_concave = is_gaussian = True
    calibrations: tuple[str, ...] = ()

    def __init__(
        self,
        epsilon: ArrayLike | None = None,
        delta: float | None = None,
        *,
        bounds: ArrayLike | None = None,
        query: Any = None,
        scale: ArrayLike | None = None,
        rho: ArrayLike | None = None,
        calibration: str = "analytic",
        clamp: bool = True,
    ) -> None:
        self.epsilon = epsilon
        self.delta = delta
        self.bounds = bounds
        self.query = query
        self.scale = scale
        self.rho = rho
        self.calibration = calibration
        self.clamp = clamp

    def noise_scale_for(self, n_features: int | None) -> float | Floats:
        if not isinstance(self.calibration, str) or self.calibration not in self.calibrations:
            known = " or ".join(f'"{name}"' for name in self.calibrations)
            raise ValueError(
                f"calibration must be {known}, got {self.calibration!r}: no other is proved for the noise of "
                f"{type(self).__name__}"
            )
        if (self.epsilon is None) != (self.delta is None):
            raise ValueError(
                f"epsilon and delta go together, got epsilon={self.epsilon!r}, delta={self.delta!r}: Gaussian noise "
                "has no pure epsilon; give both, or rho=, or scale="
            )
        if self.delta is not None and not (is_real(self.delta) and 0 < self.delta < 1):
            raise ValueError(f"delta must be a number strictly between 0 and 1, got delta={self.delta!r}")
        return calibrate(
            self,
            self.sensitivity(n_features),
            epsilon=lambda epsilon, delta_2: self._from_epsilon(epsilon, delta_2, n_features),
            rho=lambda rho, delta_2: delta_2 / np.sqrt(2.0 * rho),
        )

    def _from_epsilon(self, epsilon, sensitivity, n_features):
        distinct, inverse = np.unique(epsilon, return_inverse=True)
        scales = np.array([self._scale_of(one, sensitivity, n_features) for one in distinct.tolist()])[inverse]
        return scales.reshape(np.shape(epsilon)) if np.ndim(epsilon) else float(scales.item())

    def delta_of(self, epsilon: float, rho: float) -> float:
        """δ of the noise that is used, at ε."""
        assert self.delta is not None
        return float(self.delta)

    def likeliest_value(self, S: Array, scale: Array) -> Floats:
        """Mean with weights 1/σ²."""
        return np.average(S, axis=0, weights=(scale.min() / scale) ** 2)

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one release: (ε, δ) if ε was given, and ρ always.

        It is that of the least protected record if each has its own channel; δ is that of the noise that is used.

        Parameters
        ----------
        n_features : int, optional
            Needed if the noise was given as ``scale`` and the bounds as one pair, which may stand for any number.
            Otherwise, ρ without it is the largest for any number of features.

        Raises
        ------
        ValueError
            With ``scale`` alone: what it is noise *on* is then unknown.  With ``scale`` and one pair of bounds, and no
            ``n_features``.
        """
        rho = half_square(self._loss(n_features))
        if self.epsilon is None:
            return PrivacyGuarantee(None, None, rho, self._neighbours())
        epsilon = float(np.max(np.asarray(self.epsilon)))
        return PrivacyGuarantee(epsilon, self.delta_of(epsilon, rho), rho, self._neighbours())
