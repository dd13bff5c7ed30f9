"""Deconvoluting kernel density estimator (Stefanski & Carroll 1990), bandwidths of Delaigle & Gijbels (2004)."""

from functools import partial
from math import log, sqrt
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.integrate import trapezoid
from sklearn.base import BaseEstimator, DensityMixin
from sklearn.utils._param_validation import Interval, StrOptions
from sklearn.utils.validation import check_is_fitted, validate_data

from ..._base.parameters import check_array, refuse_threshold
from ..._base.typing import Floats
from ..._releases.misfits import misfits
from ..._releases.release import Release
from .._chain_estimator import warn_user
from .._decorators import fit_context
from ._bandwidths import SELECTORS
from ._noise_inversion import empirical_cf, evaluate, evaluate_evenly, inversion

MARGIN = 10.0  # bandwidths beyond the release where the estimate ends; K falls off as x⁻⁴
STEPS = 32  # grid points per bandwidth where the positive part is integrated
MAX_SPAN = 1e4  # bandwidths; the cost grows with the square


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
        cf = partial(empirical_cf, y=(Z - low) / h)
        self._frequencies_, self._coefficients_ = inversion(cf, log_gain, 1.0, span + MARGIN)
        n_points = 1 + int(np.ceil((span + 2.0 * MARGIN) * STEPS))
        step = (span + 2.0 * MARGIN) / (n_points - 1)
        values = evaluate_evenly(self._frequencies_, self._coefficients_, -MARGIN, step, n_points)
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
            values[inside] = evaluate(self._frequencies_, self._coefficients_, points)
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
