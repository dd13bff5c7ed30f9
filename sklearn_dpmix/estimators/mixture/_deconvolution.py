"""Deconvoluting kernel density estimator (Stefanski & Carroll 1990), bandwidths of Delaigle & Gijbels (2004)."""

from functools import partial
from math import exp, factorial, log, pi, sqrt
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import trapezoid
from scipy.optimize import brentq, minimize_scalar
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..._base.parameters import check_array, refuse_threshold
from ..._base.typing import Floats
from ..._releases.misfits import misfits
from ..._releases.release import Release
from .._chain_estimator import warn_user
from .._decorators import fit_context

# --- the kernel, the noise and the inversion -------------------------------------------------------------------------

KERNEL_VARIANCE = 6.0  # ∫x²K(x)dx = -φ_K''(0)
MARGIN = 10.0  # bandwidths beyond the release where the estimate ends; K falls off as x⁻⁴
STEPS = 32  # grid points per bandwidth where the positive part is integrated
MAX_SPAN = 1e4  # bandwidths; the cost grows with the square
BLOCK = 2**20  # entries of a temporary array
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(32)


def _kernel_cf(u):
    """φ_K(u) = (1 - u²)³ on [-1, 1], 0 outside."""
    return np.maximum(1.0 - np.square(u), 0.0) ** 3


def _quadrature(phase):
    """Nodes and weights on [0, 1] for an integrand that turns through ``phase`` radians.

    Panels of 32 Gauss–Legendre nodes, at most 40 radians each: the rule is exact to degree 63, and the Chebyshev
    coefficients of exp(20ix) beyond that are below 1e-20.  Two panels at least, for φ_K²/φ_noise².
    """
    n_panels = 2 + int(phase / 40.0)
    nodes = (np.arange(n_panels)[:, None] + 0.5 + 0.5 * _NODES) / n_panels
    return nodes.ravel(), np.tile(0.5 * _WEIGHTS / n_panels, n_panels)


def _empirical_cf(t, y):
    """φ_emp(t) = Σ exp(ity_i)/n."""
    size = max(1, BLOCK // len(t))
    return sum(np.exp(1j * np.outer(t, y[i : i + size])).sum(axis=1) for i in range(0, len(y), size)) / len(y)


def _inversion(cf, log_gain, bandwidth, span):
    """Frequencies t and coefficients c such that the estimate is f(x) = Re Σ c exp(-itx).

    This is f(x) = (1/π)∫_0^{1/h} Re(exp(-itx) φ(t)) φ_K(th)/φ_noise(t) dt on the nodes t = u/h, for any characteristic
    function φ of the release, where |x - z| is at most ``span``.
    """
    u, weights = _quadrature(span / bandwidth)
    t = u / bandwidth
    return t, weights / (pi * bandwidth) * cf(t) * _kernel_cf(u) * np.exp(log_gain(t))


def _evaluate(t, c, x):
    """Re Σ c exp(-itx) at any points."""
    size = max(1, BLOCK // len(t))
    blocks = [(np.exp(-1j * np.outer(x[i : i + size], t)) @ c).real for i in range(0, len(x), size)]
    return np.concatenate(blocks)


def _evaluate_evenly(t, c, start, step, n_points):
    """Re Σ c exp(-itx) at x = start + step·(mB + l): exp(-itx) factors into (m, t) and (t, l), √n_points of each."""
    size = int(np.ceil(np.sqrt(n_points)))
    outer = np.exp(-1j * np.outer(start + step * size * np.arange(size), t)) * c
    return (outer @ np.exp(-1j * np.outer(t, step * np.arange(size)))).real.ravel()[:n_points]


# --- bandwidths; records are in units of the release's range ---------------------------------------------------------

_U, _W = _quadrature(240.0)  # for the noise terms, whatever the bandwidth


def _log_noise_term(log_h, moment, log_gain, n):
    """Log of (1/πnh)∫_0^1 m(u)/φ_noise(u/h)² du; in logs, because 1/φ_noise² of Gaussian noise overflows."""
    return logsumexp(2.0 * log_gain(_U * exp(-log_h)), b=_W * moment) - log_h - log(pi * n)


def _balance(moment, coefficient, power, log_gain, n):
    """Solve (1/πnh)∫_0^1 m(u)/φ_noise(u/h)² du = coefficient·h^power, whose log ratio falls with h: one root."""
    return exp(
        brentq(
            lambda log_h: _log_noise_term(log_h, moment, log_gain, n) - log(coefficient) - power * log_h, -40.0, 40.0
        )
    )


def _roughness(r, h, y, log_gain):
    """Estimate of ∫f^(r)(x)²dx: (1/π)∫_0^{1/h} t^2r |φ_emp(t)|² φ_K(th)²/φ_noise(t)² dt."""
    u, weights = _quadrature(1.0 / h)
    t = u / h
    amplitude = np.abs(t**r * _empirical_cf(t, y) * _kernel_cf(u)) * np.exp(log_gain(t))
    return float(weights @ amplitude**2) / (pi * h)


def _plug_in(y, log_gain, variance):
    """Plug-in bandwidth, and the pilot with which ∫f''² was estimated (Delaigle & Gijbels 2004, §3).

    ∫f''''² is a normal's of the confidential records' ``variance``; then, for r = 3 and 2, θ_r = ∫f^(r)² is estimated
    with the bandwidth at which its two asymptotic biases, -h²μ₂θ_{r+1} and the noise's, cancel (Delaigle & Gijbels
    2002); last, the asymptotic MISE V(h) + h⁴μ₂²θ_2/4 is minimised: -hV'(h) = h⁴μ₂²θ_2.
    """
    n = len(y)
    theta = factorial(8) / (2.0**9 * factorial(4) * sqrt(pi) * variance**4.5)
    for r in (3, 2):
        moment = _U ** (2 * r) * _kernel_cf(_U) ** 2
        pilot = _balance(moment, KERNEL_VARIANCE * theta, 2 * r + 2, log_gain, n)
        theta = _roughness(r, pilot, y, log_gain)
    falls = 12.0 * _U**2 * (1.0 - _U**2) ** 5  # -u d/du φ_K(u)²: V is ∫φ_K(th)²/φ_noise(t)² dt/(πn), h is in φ_K only
    return _balance(falls, KERNEL_VARIANCE**2 * theta, 4, log_gain, n), pilot


def _bootstrap(y, log_gain, variance):
    """Minimiser of the bootstrap MISE (Delaigle & Gijbels 2004, §4), which has a closed form.

    Resampling from the estimate with pilot g, of characteristic function φ_g, and adding noise, the MISE is exactly
    V(h) + (1/π)∫_0^{1/g}|φ_g(t)|²((1 - 1/n)φ_K(th)² - 2φ_K(th) + 1) dt.  The pilot is the plug-in's, for ∫f''².
    """
    n = len(y)
    centre, pilot = _plug_in(y, log_gain, variance)
    u, weights = _quadrature(1.0 / pilot)
    t = u / pilot
    power = weights / (pi * pilot) * np.square(np.abs(_empirical_cf(t, y) * _kernel_cf(u)) * np.exp(log_gain(t)))

    def mise(log_h):
        kernel = _kernel_cf(t * exp(log_h))
        with np.errstate(over="ignore"):
            noise = np.exp(_log_noise_term(log_h, _kernel_cf(_U) ** 2, log_gain, n))
        return noise + np.sum(power * ((1.0 - 1.0 / n) * kernel**2 - 2.0 * kernel))

    # It may have several minima: take the lowest point of a grid, then refine it.
    grid = log(centre) + np.linspace(-log(100.0), log(100.0), 201)
    best = int(np.argmin([mise(log_h) for log_h in grid]))
    around = grid[max(best - 1, 0)], grid[min(best + 1, len(grid) - 1)]
    return exp(minimize_scalar(mise, bounds=around, method="bounded", options={"xatol": 1e-6}).x)


SELECTORS = {"plug-in": lambda *args: _plug_in(*args)[0], "bootstrap": _bootstrap}


# --- the estimator ---------------------------------------------------------------------------------------------------


class DeconvolutionKDE(DensityMixin, BaseEstimator):
    """Density of confidential one-dimensional records by kernel smoothing with the noise divided out.

    Each release is z = y + noise, so characteristic functions multiply, φ_z = φ_y φ_noise.  The estimate inverts

        f(x) = (1/π) ∫_0^{1/h} Re(exp(-itx) φ_emp(t)) φ_K(th)/φ_noise(t) dt,

    where φ_emp is that of the released records and φ_K(u) = (1 - u²)³ on [-1, 1] is that of the kernel.  Its mean is
    K_h * f, as if the confidential records had been smoothed; its variance grows as 1/φ_noise(1/h)².  It is not
    Bayesian and has no intervals; it is a baseline for :class:`PrivateDPMixture`.

    The estimate can be negative.  ``density`` and ``score_samples`` make it proper: 0 where it is negative, and divided
    by the integral of its positive part (trapezoid rule with 32 points per bandwidth).  It is cut off ten bandwidths
    beyond the smallest and the largest release, where it is small; further out the density is 0.

    Clamping is ignored: the estimate assumes that records lie inside the mechanism's bounds, where clamping does
    nothing.  It does not use the fact that their density is then 0 outside.

    Parameters
    ----------
    mechanism : LaplaceMechanism or GaussianMechanism
        What each record went through, with one noise scale.  With None, ``fit`` raises an error.
    bandwidth : {"plug-in", "bootstrap"} or float, default="plug-in"
        h, in units of the records.  "plug-in" minimises the asymptotic mean integrated squared error, with ∫f''²
        estimated in two stages from a normal reference; "bootstrap" minimises that of the bootstrap, which has a closed
        form, so nothing is resampled.  The variance of the normal reference is that of the release minus that of the
        noise, but at least one standard error of this difference.

    Attributes
    ----------
    bandwidth_ : float
        The bandwidth that was used.
    noise_scale_ : float
        Scale of the noise that was divided out.
    support_ : ndarray of shape (2,)
        Interval outside which the density is 0.
    n_features_in_ : int
        1.

    Raises
    ------
    ValueError
        On ``fit``, for another mechanism, a noise scale for each record, several features, equal records without a
        bandwidth, or a bandwidth at which 1/φ_noise(1/h) has no digits left.

    References
    ----------
    Stefanski, Carroll (1990), "Deconvolving kernel density estimators", Statistics 21(2); Delaigle, Gijbels (2004),
    "Practical bandwidth selection in deconvolution kernel density estimation", Computational Statistics & Data Analysis
    45(2); Delaigle, Gijbels (2002), "Estimation of integrated squared density derivatives from a contaminated sample",
    J. R. Statist. Soc. B 64(4).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import DeconvolutionKDE
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> X = np.random.default_rng(0).normal(2.0, 1.0, size=(2000, 1))
    >>> mechanism = LaplaceMechanism(epsilon=20.0, bounds=(-10, 10))
    >>> Z = mechanism.privatize(X, random_state=1)
    >>> model = DeconvolutionKDE(mechanism).fit(Z)
    >>> bool(model.density([[2.0]]) > model.density([[4.0]]))
    True
    >>> model.score_samples([[1e6]])  # outside the support
    array([-inf])
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "mechanism": "no_validation",
        "bandwidth": [StrOptions(set(SELECTORS)), Interval(Real, 0, np.finfo(float).max, closed="neither")],
    }

    def __init__(self, mechanism: BaseEstimator | None = None, *, bandwidth: float | str = "plug-in") -> None:
        self.mechanism = mechanism
        self.bandwidth = bandwidth

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, Z: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Choose the bandwidth and estimate the density from a release.

        Parameters
        ----------
        Z : array-like of shape (n_records, 1)
            Privatised records, as they were published.
        y : ignored

        Returns
        -------
        self
        """
        Z = self._check_input(Z, "Z", reset=True)
        law, noise_scale = self._noise()
        bandwidth = self._choose_bandwidth(Z[:, 0], law, noise_scale)
        for words in misfits(Release(Z[:, :1], self.mechanism)):
            warn_user(words, UserWarning)
        self._invert(Z[:, 0], law, noise_scale, bandwidth)
        return self

    def _noise(self):
        """-log φ_noise(t, scale) and the scale."""
        mechanism = self.mechanism
        if mechanism is None:
            raise ValueError(
                "mechanism=None: there is no noise to divide out; for records that were not privatised use "
                "sklearn.neighbors.KernelDensity, otherwise pass the mechanism that made Z"
            )
        law = None if isinstance(mechanism, type) else getattr(mechanism, "log_gain", None)
        if law is None or law(0.0, 1.0) is None:
            raise ValueError(
                "mechanism must be a LaplaceMechanism or GaussianMechanism object, whose noise has a known "
                f"characteristic function without zeros, got mechanism={mechanism!r}; for others use PrivateDPMixture"
            )
        if not mechanism.is_local:
            raise ValueError(
                f"mechanism must release records, got one with query={mechanism.query!r}: a statistic of all of them "
                "has no density to estimate; use bounds= or scale= instead"
            )
        refuse_threshold(mechanism, type(self).__name__)
        scale = np.asarray(mechanism.noise_scale_for(1))
        if scale.size != 1:
            raise ValueError(
                f"mechanism must have one noise scale, got one for each of {scale.size} records in {mechanism!r}: "
                "use PrivateDPMixture, or fit the records of each scale separately"
            )
        return law, float(scale.item())

    def _choose_bandwidth(self, Z, law, noise_scale):
        if not isinstance(self.bandwidth, str):
            return float(self.bandwidth)
        with np.errstate(over="ignore"):
            unit = float(np.ptp(Z))
        if len(Z) < 2 or not noise_scale < 1e6 * unit < np.inf:
            raise ValueError(
                f'bandwidth="{self.bandwidth}" needs records that vary: the n_samples={len(Z)} record(s) of Z have '
                f"range {unit:g}, the noise has scale {noise_scale:g}; pass a bandwidth as a number, or the "
                "mechanism that made Z"
            )
        y = (Z - Z.min()) / unit
        total = y.var()
        noise = self.mechanism.noise_variance(1) / unit**2
        # Below its standard error, which is about that of the noise's own sample variance, the difference says nothing.
        error = total * min(1.0, sqrt((self.mechanism.kurtosis - 1.0) / len(Z)))
        log_gain = partial(law, scale=noise_scale / unit)
        return unit * SELECTORS[self.bandwidth](y, log_gain, max(total - noise, error))

    def _invert(self, Z, law, noise_scale, h):
        """Keep the coefficients of the estimate and the integral of its positive part, in units of the bandwidth."""
        low, high = float(Z.min()), float(Z.max())
        span = (high - low) / h
        log_gain = partial(law, scale=noise_scale / h)
        if not span < MAX_SPAN or not log_gain(1.0) < -log(np.finfo(float).eps):
            raise ValueError(
                f"bandwidth={self.bandwidth!r} gives h={h:g}, too small for records of range {high - low:g} and noise "
                f'of scale {noise_scale:g}: nothing can be seen at that resolution; use "plug-in" or a larger bandwidth'
            )
        support = np.array([low - MARGIN * h, high + MARGIN * h])
        if not np.all(np.isfinite(support)):
            raise ValueError(f"bandwidth={self.bandwidth!r} is beyond floating point for Z: use another unit")
        self.bandwidth_, self.noise_scale_, self.support_, self._low_ = h, noise_scale, support, low
        cf = partial(_empirical_cf, y=(Z - low) / h)
        self._frequencies_, self._coefficients_ = _inversion(cf, log_gain, 1.0, span + MARGIN)
        n_points = 1 + int(np.ceil((span + 2.0 * MARGIN) * STEPS))
        step = (span + 2.0 * MARGIN) / (n_points - 1)
        values = _evaluate_evenly(self._frequencies_, self._coefficients_, -MARGIN, step, n_points)
        self._positive_mass_ = float(trapezoid(np.maximum(values, 0.0), dx=step))

    def density(self, X: ArrayLike, proper: bool = True) -> Floats:
        """Density of confidential records.

        Parameters
        ----------
        X : array-like of shape (n_points, 1)
        proper : bool, default=True
            False: the estimate as the integral gives it.  It is negative in places and has the mean K_h * f.

        Returns
        -------
        density : ndarray of shape (n_points,)
            0 outside ``support_``.
        """
        check_is_fitted(self, "support_")  # a fit that fails may leave n_features_in_
        x = self._check_input(X, "X", reset=False)[:, 0]
        inside = (x >= self.support_[0]) & (x <= self.support_[1])
        values = np.zeros(len(x))
        if np.any(inside):
            points = (x[inside] - self._low_) / self.bandwidth_
            values[inside] = _evaluate(self._frequencies_, self._coefficients_, points)
        if proper:
            values = np.maximum(values, 0.0) / self._positive_mass_
        return values / self.bandwidth_

    def score_samples(self, X: ArrayLike) -> Floats:
        """Log density of confidential records, -inf where the estimate is not positive.

        Parameters
        ----------
        X : array-like of shape (n_points, 1)

        Returns
        -------
        log_density : ndarray of shape (n_points,)
        """
        with np.errstate(divide="ignore"):
            return np.log(self.density(X))

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Mean of :meth:`score_samples`; -inf if one of them is."""
        return float(np.mean(self.score_samples(X)))

    def _check_input(self, X, name, *, reset):
        """Return one feature as an array of shape (n, 1)."""
        array = check_array(X, dtype=np.float64, input_name=name, estimator=self)
        if reset:
            self._check_n_columns(array.shape[1], name)
        validate_data(self, X, reset=reset, skip_check_array=True)
        return array

    def _check_n_columns(self, n_features, name):
        if n_features != 1:
            raise ValueError(
                f"{name} must have one feature, got n_features={n_features}: DeconvolutionKDE estimates "
                "one-dimensional densities; pass one column, or use PrivateDPMixture"
            )
