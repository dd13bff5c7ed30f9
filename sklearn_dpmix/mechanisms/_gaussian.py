"""Gaussian noise: approximate or concentrated privacy from L2 sensitivity (Balle & Wang 2018; Bun & Steinke 2016)."""

import warnings
from math import hypot, inf, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtr

from .._base.compiled import compiled
from .._base.numeric import HALF_LOG_2PI
from .._base.typing import Array, Floats, Seed
from ..privacy import gaussian_delta, gaussian_scale
from ._additive import AdditiveMechanism
from ._calibrated import GaussianCalibrated
from ._noised_normal import fill_normal_gaussian
from ._noised_scales import fill_normal_gaussian_scales
from ._thresholds import fill_released_clamped_gaussian, fill_released_gaussian


class GaussianMechanism(GaussianCalibrated):
    """Release z = clamp(y) + N(0, η²), independently for each feature (or a query's value + Gaussian noise).

    Records in ``bounds`` differ by at most Δ₂ = √Σ(hi - lo)² in L2.

    Parameters
    ----------
    epsilon : float or array of shape (n_records,), optional
        With ``delta``: (ε, δ)-DP.  An array gives every record its own channel, chosen without looking at the data.
    delta : float, optional
        In (0, 1); goes with ``epsilon``.
    bounds : pair (lo, hi) or array of shape (n_features, 2), optional
        Public bounds of the records; one pair holds for each feature.  All features get the same noise: scale them to
        bounds of equal width before.
    query : object of ``sklearn_dpmix.queries``, optional
        What is released instead of the records; it has ``value(X)`` and ``sensitivity(2)``.
    scale : float or array of shape (n_records,), optional
        The standard deviation η itself, in units of the records.
    rho : float or array, optional
        Zero-concentrated privacy: η = Δ₂/√(2ρ).
    calibration : {"analytic", "classical"}, default="analytic"
        How η follows from (ε, δ): exactly (Balle & Wang), or as √(2 ln(1.25/δ))Δ₂/ε, which is proved only for ε < 1.
        Beyond that, ``guarantee()`` gives the analytic δ of the classical noise, and ``privatize`` warns.
    clamp : bool, default=True
        As in :class:`LaplaceMechanism`.
    released_above : float, optional
        As in :class:`LaplaceMechanism`.

    Raises
    ------
    ValueError
        On use, if not exactly one of ``epsilon``, ``rho``, ``scale`` is given, ``delta`` is missing, or bounds are
        reversed.

    References
    ----------
    Balle, Wang (2018), Theorem 8 and Algorithm 1; Dwork, Roth (2014), Theorem A.1 (``"classical"``); Bun, Steinke
    (2016), Proposition 1.6 (ρ = Δ₂²/(2η²)).

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import GaussianMechanism
    >>> mechanism = GaussianMechanism(epsilon=1.0, delta=1e-5, bounds=(0, 1))
    >>> round(mechanism.noise_scale, 4)
    3.7306
    >>> GaussianMechanism(rho=0.5, bounds=(0, 1)).noise_scale
    1.0
    """

    calibrations = ("analytic", "classical")
    secure_noise = "gaussian"
    noised_kernels = frozenset({"beta", "convolved_normal", "correlated_normal", "normal", "truncated_normal"})
    #: whether a normal record's release is normal, where nothing is clamped
    keeps_normal = True
    piece_shape = "quadratic"
    kurtosis = 3.0

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
        released_above: float | None = None,
    ) -> None:
        super().__init__(
            epsilon, delta, bounds=bounds, query=query, scale=scale, rho=rho, calibration=calibration, clamp=clamp
        )
        self.released_above = released_above

    @property
    def is_absorbable(self) -> bool:
        """Whether a normal kernel can absorb the noise (paper §3.3): nothing is clamped and there is one scale."""
        return self.is_local and not self.is_clamped and self.has_one_law

    def _scale_of(self, epsilon, sensitivity, n_features):
        if self.calibration == "classical":
            return np.sqrt(2.0 * np.log(1.25 / self.delta)) * sensitivity / epsilon
        return gaussian_scale(epsilon, self.delta, sensitivity)

    def delta_of(self, epsilon: float, rho: float) -> float:
        if self.calibration == "analytic":
            return super().delta_of(epsilon, rho)
        return gaussian_delta(epsilon, rho) if rho < inf else 1.0

    def node_spacing(self, sd: float) -> float:
        """Width of cells in which nodes stand for releases of normal components with this standard deviation.

        If noise has several scales, with the smallest."""
        return max(4.0 * sd, 1.25 * hypot(sd, float(np.min(self.noise_scale))))

    def noise_variance(self, n_features: int | None = None) -> float | None:
        return float(np.mean(np.square(self.noise_scale_for(n_features))))

    def privatize(self, X: ArrayLike, *, random_state: Seed = None, secure: bool = False) -> Array:
        release = super().privatize(X, random_state=random_state, secure=secure)
        if self.epsilon is not None and self.calibration == "classical" and np.max(np.asarray(self.epsilon)) >= 1:
            guarantee = self.guarantee(np.shape(X)[1])
            warnings.warn(
                f'calibration="classical" is proved for epsilon < 1 only, got epsilon={guarantee.epsilon:g}: the noise '
                f'is ({guarantee.epsilon:g}, {guarantee.delta:.3g})-DP; use calibration="analytic"',
                UserWarning,
                stacklevel=2,
            )
        return release

    privatize.__doc__ = AdditiveMechanism.privatize.__doc__

    def tail_probability(self, distance: ArrayLike, scale: ArrayLike) -> Floats:
        return ndtr(-np.asarray(distance) / scale)

    def log_gain(self, t: ArrayLike, scale: float) -> Floats:
        return 0.5 * np.square(scale * np.asarray(t))

    def draw_noise(self, rng: np.random.Generator, scale: float | Floats, size: int | tuple[int, ...]) -> Array:
        return rng.normal(scale=scale, size=size)

    @compiled
    def log_noise(self, e, scale):
        u = e / scale
        return -0.5 * u * u - log(scale) - HALF_LOG_2PI

    @compiled
    def log_noise_slope(self, r):
        return -0.5 * r * r, r

    @compiled
    def draw_variance(self, rng, r):
        """Variance of normal noise of scale 1, however large it was."""
        return 1.0

    @compiled
    def log_weight(self, kernel, Z, i, j, theta, k, y):
        u = (Z[i, j] - min(max(y, self.low[j]), self.high[j])) * self.rate[i * self.each]
        return -0.5 * u * u

    @compiled
    def log_release(self, S, r, j, value):
        u = (S[r, j] - value) * self.rate[r * self.each]
        return -0.5 * u * u

    @compiled
    def can_reverse(self):
        return True

    @compiled
    def draw_reverse(self, rng, Z, i, j):
        return Z[i, j] + self.noise[i * self.each] * rng.standard_normal()

    @compiled
    def log_reverse(self, Z, i, j, y):
        u = (Z[i, j] - y) * self.rate[i * self.each]
        return -0.5 * u * u

    @compiled
    def log_reverse_total(self, i):
        return HALF_LOG_2PI - log(self.rate[i * self.each])

    @compiled
    def n_pieces(self):
        return 3

    @compiled
    def piece(self, Z, i, j, p):
        """Flat below the bounds, quadratic around z, flat above."""
        z, sd, lo, hi = Z[i, j], self.noise[i * self.each], self.low[j], self.high[j]
        if p == 0:
            return -inf, lo, lo, self.log_noise(z - lo, sd), 0.0, 0.0
        if p == 2:
            return hi, inf, hi, self.log_noise(z - hi, sd), 0.0, 0.0
        return lo, hi, z, self.log_noise(0.0, sd), 0.0, 1.0 / (sd * sd)

    @compiled
    def fill_released(self, sign, noise, mean, log_variance, out, first, second, third):
        """Probability that a normal record's release appears (sign 1) or does not (-1), and its two derivatives."""
        low, high = (self.low[0], self.high[0]) if sign > 0.0 else (-self.high[0], -self.low[0])
        t = sign * self.threshold
        if low > -inf:
            fill_released_clamped_gaussian(t, low, high, noise, sign * mean, log_variance, out, first, second, third)
        else:
            fill_released_gaussian(t, noise, sign * mean, log_variance, out, first, second, third)
        out[second] *= sign

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """g(x | μ, σ²) of feature j of a normal kernel at all nodes, and its derivatives (``_noised_normal``)."""
        low, high, noise = self.low[j], self.high[j], self.noise[0]
        fill_normal_gaussian(nodes, 3 * j * n, n, low, high, noise, mean, log_variance, out, first, second)


class _GaussianOfScales(GaussianMechanism):
    """The compiled form for a noise scale per record; separate, so that the form for one scale compiles faster."""

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        low, high = self.low[j], self.high[j]
        fill_normal_gaussian_scales(nodes, 4 * j * n, n, low, high, mean, log_variance, out, first, second)


GaussianMechanism._of_scales = _GaussianOfScales
