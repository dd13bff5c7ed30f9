"""Discrete Laplace noise, or two-sided geometric: pure privacy of integers (Ghosh, Roughgarden, Sundararajan 2012)."""

from math import exp, floor, log, tanh

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled
from .._base.typing import Array, Floats
from ._calibrated import LaplaceCalibrated
from ._discrete import IntegerMechanism
from ._integer_series import laplace_series
from ._noised_integers import fill_integers_laplace


class DiscreteLaplaceMechanism(IntegerMechanism, LaplaceCalibrated):
    """Release z = clamp(y) + e for integer y, P(e) = (1-r)/(1+r) r^|e| with r = exp(-1/b), independently by feature.

    Records in ``bounds`` differ by at most Δ₁ = Σ(hi - lo) in L1, an integer, and the ratio of probabilities is at most
    exp(Δ₁/b).  So ε = Δ₁/b, which is attained.  The variance is 2r/(1-r)², a little below that of continuous Laplace
    noise, 2b².

    Parameters
    ----------
    epsilon : float or array of shape (n_records,), optional
        Privacy loss of a record: b = Δ₁/ε.  An array gives every record its own channel, chosen without looking at the
        data.
    bounds : pair (lo, hi) or array of shape (n_features, 2), optional
        Public bounds of the records, integers within ±2**52; one pair holds for each feature, and Δ₁ adds up over
        features.
    query : object of ``sklearn_dpmix.queries``, optional
        What is released in place of the records: its ``value(X)`` holds integers, and it has ``sensitivity(1)``.
    scale : float or array of shape (n_records,), optional
        b itself, up to 2**45, in units of the records; it need not be an integer.
    rho : float or array, optional
        Zero-concentrated privacy: b = Δ₁/√(2ρ).  Any ε-DP mechanism is ε²/2-zCDP (Bun & Steinke 2016, Proposition 1.4);
        the ρ of this noise itself is smaller, as for continuous Laplace noise.
    clamp : bool, default=True
        Move records outside the bounds to the bound before adding noise.  False: the bounds only calibrate the noise,
        and the guarantee is for records inside them.

    Raises
    ------
    ValueError
        On use, if not exactly one of ``epsilon``, ``rho``, ``scale`` is given, or one is not positive; if bounds are
        reversed or not integers; if records, a query's value or releases are not integers.

    Notes
    -----
    Releases are float arrays that hold integers of magnitude below 2**53, exactly.  Samplers treat the confidential
    record as a real number that was rounded, halves up, before the release.

    References
    ----------
    Ghosh, Roughgarden, Sundararajan (2012), "Universally utility-maximizing privacy mechanisms", Definition 2.1.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism
    >>> mechanism = DiscreteLaplaceMechanism(epsilon=2.0, bounds=(0, 10))
    >>> mechanism.noise_scale
    5.0
    >>> Z = mechanism.privatize([[3], [12]], random_state=0)
    >>> bool((Z == Z.round()).all())
    True
    >>> mechanism.guarantee()
    PrivacyGuarantee(epsilon=2.0, delta=0.0, rho=2.0, neighbours='replace one record')
    """

    noised_kernels = frozenset({"normal"})
    secure_noise = "discrete laplace"
    continuous = "LaplaceMechanism"

    def tail_probability(self, distance: ArrayLike, scale: ArrayLike) -> Floats:
        """P(e > distance) = r^(⌊distance⌋ + 1)/(1 + r)."""
        scale = np.asarray(scale, dtype=np.float64)
        return np.exp(-(np.floor(distance) + 1.0) / scale) / (1.0 + np.exp(-1.0 / scale))

    @staticmethod
    def log_sum(scale: ArrayLike) -> Floats:
        """``log Σ exp(-|e|/b)`` = log((1+r)/(1-r))."""
        return -np.log(np.tanh(0.5 / np.asarray(scale)))

    def _noise_fields(self, scale):
        return {"series": laplace_series(1.0 / scale)}

    @staticmethod
    def _noise_moments(scale):
        with np.errstate(over="ignore"):
            second = 0.5 / np.sinh(0.5 / scale) ** 2  # 2r/(1-r)²
        return second, second * (6.0 * second + 1.0)

    def draw_noise(self, rng: np.random.Generator, scale: ArrayLike, size: int | tuple[int, ...]) -> Array:
        return draw_discrete_laplace(rng, scale, size)

    @compiled
    def log_shape(self, e, rate):
        return -abs(e) * rate

    @compiled
    def log_noise(self, e, scale):
        return log(tanh(0.5 / scale)) - abs(e) / scale

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """g(x | μ, σ²) of feature j of a normal kernel at all nodes, and its derivatives (``_noised_integers``)."""
        low, high, rate, q = self.low[j], self.high[j], self.rate[0], exp(-self.log_total[0])
        x, series = 3 * j * n, self.series
        fill_integers_laplace(nodes, x, n, low, high, rate, q, series, mean, log_variance, out, first, second)

    @compiled
    def draw_integer(self, rng, scale):
        return floor(scale * rng.standard_exponential()) - floor(scale * rng.standard_exponential())


def draw_discrete_laplace(rng, scale, size):
    """Draw integers with P(e) proportional to exp(-|e|/scale), as floats.

    The difference of two geometric variates: ⌊bE⌋ with E exponential has P(⌊bE⌋ >= k) = exp(-k/b), exactly.
    """
    return np.floor(scale * rng.standard_exponential(size)) - np.floor(scale * rng.standard_exponential(size))
