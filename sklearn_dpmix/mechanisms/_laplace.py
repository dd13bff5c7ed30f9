"""Laplace noise: pure differential privacy from L1 sensitivity (Dwork et al. 2006; Beraha et al., §2.1)."""

from math import inf, log, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled
from .._base.typing import Array, Floats
from ._calibrated import LaplaceCalibrated
from ._noised_normal import fill_normal_laplace
from ._noised_scales import fill_normal_laplace_scales
from ._thresholds import fill_released_laplace


class LaplaceMechanism(LaplaceCalibrated):
    """Release z = clamp(y) + Laplace(b), independently for each feature (or a query's value + Laplace).

    The density of the noise e is ``exp(-|e|/b)/(2b)``, and its variance is 2b².  Records in ``bounds`` differ by at
    most Δ₁ = Σ(hi - lo) in L1, and the density ratio is at most exp(Δ₁/b), so ε = Δ₁/b.

    Parameters
    ----------
    epsilon : float or array of shape (n_records,), optional
        Privacy loss of a record: b = Δ₁/ε.  An array gives every record its own channel, chosen without looking at the
        data.
    bounds : pair (lo, hi) or array of shape (n_features, 2), optional
        Public bounds of the records; one pair holds for each feature, and Δ₁ adds up over features.  All features get
        the same noise: scale them to bounds of equal width before.
    query : object of ``sklearn_dpmix.queries``, optional
        What is released instead of the records; it has ``value(X)`` and ``sensitivity(1)``.
    scale : float or array of shape (n_records,), optional
        b itself, in units of the records.
    rho : float or array, optional
        Zero-concentrated privacy: b = Δ₁/√(2ρ) (ERRATA; Bun & Steinke 2016).
    clamp : bool, default=True
        Move records outside the bounds to the bound before adding noise.  False: the bounds only calibrate the noise,
        and the guarantee is for records inside them.
    released_above : float, optional
        Only releases above this public threshold appear; for one feature.  ``PrivateDPMixture`` then infers those that
        were left out, too.  If records have their own noise scales, the mechanism to fit has those of the records that
        appeared, at most 64 different ones.

    Raises
    ------
    ValueError
        On use, if not exactly one of ``epsilon``, ``rho``, ``scale`` is given, or one is not positive, or bounds are
        reversed.

    References
    ----------
    Dwork, McSherry, Nissim, Smith (2006); Beraha, Favaro, Rao, §2.1.  Its ρ of zero-concentrated privacy is ε²/2 (Bun &
    Steinke 2016, Proposition 1.4).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(epsilon=2.0, bounds=(-10, 10))
    >>> mechanism.noise_scale
    10.0
    >>> mechanism.privatize(np.zeros((3, 1)), random_state=0).shape
    (3, 1)
    >>> mechanism.guarantee().epsilon
    2.0
    """

    secure_noise = "laplace"
    noised_kernels = frozenset({"beta", "correlated_normal", "normal", "truncated_normal"})
    piece_shape = "linear"
    kurtosis = 6.0

    def __init__(
        self,
        epsilon: ArrayLike | None = None,
        *,
        bounds: ArrayLike | None = None,
        query: Any = None,
        scale: ArrayLike | None = None,
        rho: ArrayLike | None = None,
        clamp: bool = True,
        released_above: float | None = None,
    ) -> None:
        super().__init__(epsilon, bounds=bounds, query=query, scale=scale, rho=rho, clamp=clamp)
        self.released_above = released_above

    def noise_variance(self, n_features: int | None = None) -> float | None:
        return float(np.mean(2.0 * np.square(self.noise_scale_for(n_features))))

    def tail_probability(self, distance: ArrayLike, scale: ArrayLike) -> Floats:
        return 0.5 * np.exp(-np.asarray(distance) / scale)

    def log_gain(self, t: ArrayLike, scale: float) -> Floats:
        return np.log1p(np.square(scale * np.asarray(t)))

    def draw_noise(self, rng: np.random.Generator, scale: float | Floats, size: int | tuple[int, ...]) -> Array:
        return rng.laplace(scale=scale, size=size)

    @compiled
    def log_noise(self, e, scale):
        return -abs(e) / scale - log(2.0 * scale)

    @compiled
    def log_noise_slope(self, r):
        return -abs(r), 1.0 if r > 0.0 else -1.0

    @compiled
    def draw_variance(self, rng, r):
        """Variance of the normal noise that noise of scale 1 was, r large: one over IG(1/abs(r), 1), of mean and shape.

        Its law, whatever r was, is 2 Exp(1).  Michael, Schucany & Haas (1976) draw from the inverse Gaussian law.
        """
        r, y = abs(r), rng.standard_normal() ** 2
        larger = r + 0.5 * y + sqrt(y * (r + 0.25 * y))
        return larger if rng.random() * (r + larger) <= larger else r * r / larger

    @compiled
    def log_weight(self, kernel, Z, i, j, theta, k, y):
        return -abs(Z[i, j] - min(max(y, self.low[j]), self.high[j])) * self.rate[i * self.each]

    @compiled
    def log_release(self, S, r, j, value):
        return -abs(S[r, j] - value) * self.rate[r * self.each]

    @compiled
    def can_reverse(self):
        return True

    @compiled
    def draw_reverse(self, rng, Z, i, j):
        e = rng.standard_exponential() * self.noise[i * self.each]
        return Z[i, j] + e if rng.random() < 0.5 else Z[i, j] - e

    @compiled
    def log_reverse(self, Z, i, j, y):
        return -abs(Z[i, j] - y) * self.rate[i * self.each]

    @compiled
    def log_reverse_total(self, i):
        return log(2.0 / self.rate[i * self.each])

    @compiled
    def n_pieces(self):
        return 4

    @compiled
    def piece(self, Z, i, j, p):
        """Flat below the bounds, slope 1/b up to z, -1/b beyond, flat above the bounds."""
        z, b, lo, hi = Z[i, j], self.noise[i * self.each], self.low[j], self.high[j]
        if p == 0:
            return -inf, lo, lo, self.log_noise(z - lo, b), 0.0, 0.0
        if p == 3:
            return hi, inf, hi, self.log_noise(z - hi, b), 0.0, 0.0
        peak = min(max(z, lo), hi)
        if p == 1:
            return lo, peak, z, -log(2.0 * b), 1.0 / b, 0.0
        return peak, hi, z, -log(2.0 * b), -1.0 / b, 0.0

    @compiled
    def fill_released(self, sign, noise, mean, log_variance, out, first, second, third):
        """Probability that a normal record's release appears (sign 1) or does not (-1), and its two derivatives."""
        low, high = (self.low[0], self.high[0]) if sign > 0.0 else (-self.high[0], -self.low[0])
        t = sign * self.threshold
        fill_released_laplace(t, low, high, noise, sign * mean, log_variance, out, first, second, third)
        out[second] *= sign

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """g(x | μ, σ²) of feature j of a normal kernel at all nodes, and its derivatives (``_noised_normal``)."""
        low, high, noise = self.low[j], self.high[j], self.noise[0]
        fill_normal_laplace(nodes, 3 * j * n, n, low, high, noise, mean, log_variance, out, first, second)


class _LaplaceOfScales(LaplaceMechanism):
    """The compiled form for a noise scale per record; separate, so that the form for one scale compiles faster."""

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        low, high = self.low[j], self.high[j]
        fill_normal_laplace_scales(nodes, 4 * j * n, n, low, high, mean, log_variance, out, first, second)


LaplaceMechanism._of_scales = _LaplaceOfScales
