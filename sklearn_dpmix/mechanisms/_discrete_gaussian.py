"""Discrete Gaussian noise: concentrated or approximate privacy of integers (Canonne, Kamath, Steinke 2020)."""

from functools import lru_cache
from math import ceil, exp, floor, inf, log, log1p, pi, sqrt

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq, minimize_scalar
from scipy.special import ndtr

from .._base.compiled import compiled, helper
from .._base.numeric import HALF_LOG_2PI
from .._base.typing import Array, Floats
from ..privacy import gaussian_scale
from ._calibrated import GaussianCalibrated
from ._discrete import IntegerMechanism
from ._discrete_laplace import draw_discrete_laplace
from ._gaussian import GaussianMechanism
from ._integer_series import gaussian_series, slopes_at_end
from ._noised_integers import EVEN, FAR_NOISE, N_LOOKED_UP, WIDE, fill_integers_gaussian

#: δ is calibrated to this much below the requested δ, relatively, so that privacy never pays for rounding, or for
#: OpenDP's margin on the scale where δ rises with it.
SLACK = 1e-8
#: ε beyond which rounding determines the exact δ.
LARGEST_EPSILON = 1e8
#: Terms of a sum over integers that are added one by one before an integral takes over.
N_TERMS = 1000
NODES, WEIGHTS = np.polynomial.legendre.leggauss(20)


class DiscreteGaussianMechanism(IntegerMechanism, GaussianCalibrated):
    """Release z = clamp(y) + e for integer y, with P(e) proportional to exp(-e²/(2σ²)), independently by feature.

    Records in ``bounds`` differ by at most Δ₂ = √Σ(hi - lo)² in L2, and a release is Δ₂²/(2σ²)-zCDP.  σ is a parameter
    and not the standard deviation, which is smaller: by a relative 1e-7 at σ = 1 and by less for larger σ, but by 7 %
    at σ = 0.5.

    Parameters
    ----------
    epsilon : float or array of shape (n_records,), optional
        With ``delta``: (ε, δ)-DP, ε up to 1e8.  An array gives every record its own channel, chosen without looking at
        the data.
    delta : float, optional
        In (0, 1); goes with ``epsilon``.
    bounds : pair (lo, hi) or array of shape (n_features, 2), optional
        Public bounds of the records, integers within ±2**52; one pair holds for each feature.
    query : object of ``sklearn_dpmix.queries``, optional
        What is released in place of the records: its ``value(X)`` holds integers, and it has ``sensitivity(2)``.  An
        attribute ``n_statistics`` equal to 1 says that it releases one number.
    scale : float or array of shape (n_records,), optional
        σ itself, up to 2**45, in units of the records; it need not be an integer.
    rho : float or array, optional
        Zero-concentrated privacy: σ = Δ₂/√(2ρ).
    calibration : {"analytic"}, default="analytic"
        How σ follows from (ε, δ); see Notes.  No classical calibration is proved for this distribution.
    clamp : bool, default=True
        As in :class:`DiscreteLaplaceMechanism`.

    Raises
    ------
    ValueError
        On use, if not exactly one of ``epsilon``, ``rho``, ``scale`` is given, if ``delta`` is missing, if bounds are
        reversed or not integers, or if records, a query's value or releases are not integers.

    Notes
    -----
    One feature (or a query of one number): σ is the smallest found at which the exact δ of Theorem 7,

        δ(σ) = P[e > εσ²/Δ - Δ/2] - e^ε P[e > εσ²/Δ + Δ/2],

    is at most ``delta``.  A shift by less than Δ costs less, because the distribution is log-concave.  If ε is larger
    than Δ, δ(σ) rises and falls once with each integer that the threshold εσ²/Δ - Δ/2 passes, so slightly larger noise
    than the calibrated one may have a larger δ.  The guarantee is for the noise that is used.

    Several features: the theorem does not apply, and σ is the smallest at which ρ = Δ₂²/(2σ²) gives (ε, δ)-DP by
    Corollary 13, whatever the direction of the shift.  It is conservative: at ε = 1, by 4 % of σ for δ = 1e-12 and by 8
    % for 1e-5.

    Releases are float arrays that hold integers of magnitude below 2**53, exactly.  Samplers treat the confidential
    record as a real number that was rounded, halves up, before the release.

    References
    ----------
    Canonne, Kamath, Steinke (2020), "The discrete Gaussian for differential privacy": Theorem 4 (ρ), Theorem 7 (δ),
    Corollary 13 (δ from ρ), Algorithm 3 (draws).

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import DiscreteGaussianMechanism
    >>> mechanism = DiscreteGaussianMechanism(epsilon=1.0, delta=1e-5, bounds=(0, 1))
    >>> round(mechanism.noise_scale, 4)
    3.7405
    >>> DiscreteGaussianMechanism(rho=0.5, bounds=(0, 4)).guarantee()
    PrivacyGuarantee(epsilon=None, delta=None, rho=0.5, neighbours='replace one record')
    """

    calibrations = ("analytic",)
    noised_kernels = frozenset({"normal"})
    secure_noise = "discrete gaussian"
    continuous = "GaussianMechanism"
    node_spacing = GaussianMechanism.node_spacing

    @property
    def is_grained(self) -> bool:
        """Whether noise is so narrow that densities are not offered between integers, where wide noise is smooth."""
        return float(np.min(self.noise_scale)) < WIDE

    @property
    def least_density(self) -> float:
        """Noise that is looked up ends at ``FAR_NOISE``: beyond it are some 1e-61 of a record."""
        return 1e-52 if self.is_grained else super().least_density

    def _scale_of(self, epsilon, sensitivity, n_features):
        if epsilon > LARGEST_EPSILON:
            raise ValueError(
                f"epsilon must be at most {LARGEST_EPSILON:g} for {type(self).__name__}, got epsilon={epsilon!r}: such "
                "noise hides nothing; use a smaller epsilon, or rho="
            )
        shift = floor(sensitivity * (1.0 + 1e-9))  # integers differ by integers; that a query rounded is no excuse
        if shift > 0 and self._one_number(sensitivity, n_features):
            return _exact_scale(epsilon, float(self.delta), shift)
        return sensitivity * _unit_scale(epsilon, float(self.delta))

    def _one_number(self, sensitivity, n_features):
        """Whether two neighbours' values differ in one coordinate only, so that Theorem 7 applies."""
        if self.is_local:
            return len(self.bounds_for(n_features)) == 1
        # integer vectors shorter than √2 have one coordinate that is not zero
        return sensitivity < 1.4 or getattr(self.query, "n_statistics", None) == 1

    def tail_probability(self, distance: ArrayLike, scale: ArrayLike) -> Floats:
        """P(e > distance), to 1e-9 of itself as far as 30 σ."""
        first, scale = np.broadcast_arrays(np.floor(distance) + 1.0, np.asarray(scale, dtype=np.float64))
        tail = np.empty(first.shape)
        narrow = scale < 30.0
        tail[narrow] = _tail_by_terms(first[narrow], scale[narrow])
        tail[~narrow] = _tail_by_integral(first[~narrow], scale[~narrow])
        return tail * np.exp(-self.log_sum(scale))

    @staticmethod
    def log_sum(scale: ArrayLike) -> Floats:
        """log Σ exp(-e²/(2σ²))."""
        distinct, of = np.unique(scale, return_inverse=True)
        return np.reshape(np.array([log_theta(one) for one in distinct.tolist()])[of], np.shape(scale))

    @staticmethod
    def _noise_moments(scale):
        """Direct sums for narrow noise; otherwise Poisson's formula for them, differentiated by -1/(2σ²)."""
        small, large = np.minimum(scale, 1.0)[..., None], np.maximum(scale, 1.0)[..., None]
        e = np.arange(1.0, 13.0)
        weight = np.exp(-0.5 * (e / small) ** 2)
        total = 1.0 + 2.0 * weight.sum(axis=-1)
        frequency = (pi * np.arange(1.0, 4.0)) ** 2
        dual = 2.0 * np.exp(-2.0 * frequency * large**2)
        dual_total = 1.0 + dual.sum(axis=-1)
        first, second = ((frequency**k * dual).sum(axis=-1) / dual_total for k in (1, 2))
        v = large[..., 0] ** 2
        return (
            np.where(scale < 1.0, 2.0 * (e**2 * weight).sum(axis=-1) / total, v - 4.0 * v**2 * first),
            np.where(
                scale < 1.0,
                2.0 * (e**4 * weight).sum(axis=-1) / total,
                3.0 * v**2 - 24.0 * v**3 * first + 16.0 * v**4 * second,
            ),
        )

    def lookup(self, places: Floats, scales: Floats | None = None) -> Floats:
        """As in :class:`AdditiveMechanism`, and for wide noise before bounds also its derivatives there.

        Parameters
        ----------
        places : ndarray of shape (n_features, n)
        scales : None

        Returns
        -------
        found : ndarray of shape (n_features · numbers looked up, n)
        """
        ends, (n_features, n) = super().lookup(places), places.shape
        scale = float(self.noise_scale_for(n_features))
        if not self._has_wide_ends(scale):
            return ends
        bounds = np.asarray(self.bounds_for(n_features))
        apart = np.stack([places - bounds[:, :1] + 0.5, bounds[:, 1:] + 0.5 - places], axis=1)  # seen from within
        slopes = np.moveaxis(slopes_at_end(apart, scale), 0, 2).reshape(n_features, -1, n)
        rest = np.zeros((n_features, N_LOOKED_UP - slopes.shape[1], n))
        return np.concatenate([ends.reshape(n_features, 2, n), slopes, rest], axis=1).reshape(-1, n)

    def _has_wide_ends(self, scale):
        """Whether the noise's derivatives at bounds are looked up."""
        return self.bounds is not None and self.clamp and scale >= WIDE

    def _noise_fields(self, scale):
        far = ceil(FAR_NOISE * scale) if scale < WIDE else 0
        e = np.arange(-far, far + 1.0)
        with np.errstate(over="ignore"):
            near = np.exp(-0.5 * (e / scale) ** 2 - self.log_sum(scale))
        series = gaussian_series(near[far:], near @ e**2) if scale < EVEN else gaussian_series((), scale**2)
        n_rows = 3 + (N_LOOKED_UP if self._has_wide_ends(scale) else 0)
        return {"near": near, "far": far, "series": series, "n_rows": n_rows}

    def likeliest_value(self, S: Array, scale: Array) -> Floats:
        """The integer next to the mean: the logarithm falls with the squared distance from it."""
        return np.rint(super().likeliest_value(S, scale))

    def draw_noise(self, rng: np.random.Generator, scale: ArrayLike, size: int | tuple[int, ...]) -> Array:
        """Rejection from discrete Laplace noise of scale ⌊σ⌋ + 1 (Algorithm 3), all numbers at once."""
        scale = np.broadcast_to(scale, size).ravel()
        noise = np.empty(scale.shape)
        left = np.arange(len(scale))
        while len(left):
            sigma = scale[left]
            t = np.floor(sigma) + 1.0
            e = draw_discrete_laplace(rng, t, len(left))
            with np.errstate(over="ignore"):
                excess = (np.abs(e) / sigma - sigma / t) ** 2
            accepted = 2.0 * rng.standard_exponential(len(left)) >= excess
            noise[left[accepted]] = e[accepted]
            left = left[~accepted]
        return noise.reshape(size)

    @compiled
    def log_shape(self, e, rate):
        u = e * rate
        return -0.5 * u * u

    @compiled
    def log_noise(self, e, scale):
        u = e / scale
        return -0.5 * u * u - log_theta(scale)

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        """g(x | μ, σ²) of feature j of a normal kernel at all nodes, and its derivatives (``_noised_integers``)."""
        low, high, scale, x = self.low[j], self.high[j], self.noise[0], j * self.n_rows * n
        near, far, series = self.near, self.far, self.series
        fill_integers_gaussian(nodes, x, n, low, high, scale, near, far, series, mean, log_variance, out, first, second)

    @compiled
    def draw_integer(self, rng, scale):
        t = floor(scale) + 1.0
        while True:
            e = floor(t * rng.standard_exponential()) - floor(t * rng.standard_exponential())
            excess = abs(e) / scale - scale / t
            if 2.0 * rng.standard_exponential() >= excess * excess:
                return e


@helper
def log_theta(scale):
    """log Σ exp(-e²/(2σ²)) over the integers: term by term, or for σ >= 1 by Poisson's formula.

    The latter is σ√(2π) Σ exp(-2π²σ²k²), of which three terms give full accuracy.
    """
    if scale >= 1.0:
        u = pi * scale
        q = exp(-2.0 * u * u)
        return log(scale) + HALF_LOG_2PI + log1p(2.0 * (q + q**4))
    total = 0.0
    for e in range(1, 10):
        u = e / scale
        total += exp(-0.5 * u * u)
    return log1p(2.0 * total)


# --- tails -----------------------------------------------------------------------------------------------------------


def _tail_by_terms(first, scale):
    """Σ exp(-e²/(2σ²)) over e >= first >= 1, for arrays of small σ."""
    total = np.zeros(first.shape)
    with np.errstate(over="ignore"):
        for k in range(int(9.0 * np.max(scale, initial=0.0)) + 3):
            total += np.exp(-0.5 * ((first + k) / scale) ** 2)
    return total


def _tail_by_integral(first, scale):
    """The same for σ >= 30: the integral from first - ½ and three terms of Euler and Maclaurin for midpoints."""
    x = (first - 0.5) / scale
    h = 1.0 / scale**2
    hermite = x * (1.0 / 24.0 + h * (7.0 / 5760.0) * (3.0 - x * x))  # derivatives of orders 1, 3 and 5
    hermite += x * h * h * (31.0 / 967680.0) * (15.0 - x * x * (10.0 - x * x))
    return scale * sqrt(2.0 * pi) * ndtr(-x) - np.exp(-0.5 * x * x) * hermite / scale


# --- calibration -----------------------------------------------------------------------------------------------------


def exact_log_delta(scale, epsilon, shift):
    """Return the log of the exact δ at ε of discrete Gaussian noise on an integer that moves by ``shift``.

    Theorem 7's difference of two tails is the sum of P(e)(1 - exp(-λ(e - t))) over the integers e above t = εσ²/Δ -
    Δ/2, with λ = Δ/σ².  Its terms are positive, so nothing cancels.  ``N_TERMS`` of them are added, and the rest is an
    integral with two corrections of Euler and Maclaurin.

    Parameters
    ----------
    scale : float
        σ.
    epsilon : float
        At least 0.
    shift : int
        Δ, positive.
    """
    t = epsilon * scale**2 / shift - 0.5 * shift
    rate = shift / scale**2
    m = floor(t) + 1.0
    top = max(m, 0.0)  # where exp(-e²/(2σ²)) is largest

    def log_weight(e):
        return -0.5 * (e - top) * (e + top) / scale**2

    def summand(e):
        return np.exp(log_weight(e)) * -np.expm1(-rate * (e - t))

    total = summand(m + np.arange(N_TERMS)).sum()
    start = m + N_TERMS
    reach = top + scale * (sqrt((top / scale) ** 2 + 80.0) - top / scale)  # beyond this, less than e^-40 is left
    if start < reach:
        edges = np.linspace(start, reach, 17)
        half = 0.5 * np.diff(edges)[:, None]
        total += (half * WEIGHTS * summand(edges[:-1, None] + half * (1.0 + NODES))).sum()
        a, v = start / scale**2, 1.0 / scale**2
        factor, decay = exp(log_weight(start)), exp(-rate * (start - t))
        f = factor, -a * factor, (a * a - v) * factor, a * (3.0 * v - a * a) * factor
        g = 1.0 - decay, rate * decay, -(rate**2) * decay, rate**3 * decay
        first = f[1] * g[0] + f[0] * g[1]
        third = f[3] * g[0] + 3.0 * f[2] * g[1] + 3.0 * f[1] * g[2] + f[0] * g[3]
        total += 0.5 * f[0] * g[0] - first / 12.0 + third / 720.0
    if not total > 0.0:
        return -inf
    return log(total) - 0.5 * (top / scale) ** 2 - float(DiscreteGaussianMechanism.log_sum(scale))


@lru_cache(maxsize=100_000)  # records with their own epsilon need many, again on each use
def _exact_scale(epsilon, delta, shift):
    """The smallest σ found with an exact δ of at most ``delta``."""
    target = log(delta) + log1p(-SLACK)

    def excess(log_scale):
        return max(exact_log_delta(exp(log_scale), epsilon, shift) - target, -1e3)

    low = high = log(gaussian_scale(epsilon, delta, shift))
    while excess(high) > 0:
        high += 0.1
    while excess(low) <= 0:
        low -= 0.1
    found = brentq(excess, low, high, xtol=1e-12, rtol=1e-15)
    if epsilon > 0.5 * shift:
        found = _first_dip(excess, found, epsilon, shift)
    found, step = found + 1e-12, 1e-12  # if ε is large, rounding of σ alone changes δ
    while excess(found) > 0:
        found, step = found + step, 2.0 * step
    return exp(found)


def _first_dip(excess, found, epsilon, shift):
    """log σ of the first of the dips, at most two thresholds apart, that lead down to the root ``found``.

    As a function of σ, δ falls where the threshold nears an integer, and may rise between two of them.
    """

    def log_scale(t):
        return 0.5 * log((t + 0.5 * shift) * shift / epsilon)

    step = 1.0 / 16.0
    bottom = 1e-9 * step - 0.5 * shift  # σ = 0 is at -Δ/2
    while True:
        t = epsilon * exp(2.0 * found) / shift - 0.5 * shift
        below = (t - step * k for k in range(32, 0, -1))
        low = next((t for t in below if t > bottom and excess(log_scale(t)) <= 0), None)
        if low is None:
            return found
        high = low
        while low > bottom and excess(log_scale(low)) <= 0:
            low = max(low - step, bottom)
        found = brentq(excess, log_scale(low), log_scale(high), xtol=1e-12, rtol=1e-15)


@lru_cache(maxsize=100_000)
def _unit_scale(epsilon, delta):
    """The smallest σ/Δ₂ at which Corollary 13 gives (ε, δ)-DP from ρ = Δ₂²/(2σ²).

    It says δ = exp((α-1)(αρ-ε))(1-1/α)^(α-1)/α for any order α > 1.  Each order gives a ρ that is enough, and the
    largest is used.
    """

    def minus_rho(log_order):
        shifted = exp(log_order)  # α - 1
        order = 1.0 + shifted
        return -(epsilon + (log(delta) + log(order)) / shifted + log1p(1.0 / shifted)) / order

    grid = np.linspace(-15.0, 60.0, 301)
    best = grid[np.argmin([minus_rho(v) for v in grid])]
    result = minimize_scalar(minus_rho, bounds=(best - 0.25, best + 0.25), method="bounded", options={"xatol": 1e-9})
    return (1.0 + SLACK) / sqrt(-2.0 * result.fun)
