"""Logistic and linear regression on rows of bounded length: Lipschitz in θ, so DP-MCMC clips no ratio."""

from math import exp, hypot, inf, lgamma, log, pi, sqrt
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit, ndtr

from .._base.compiled import compiled
from .._base.numeric import HALF_LOG_2PI, log1p_exp
from .._base.parameters import check_flag, positive_integer
from .._base.typing import Array, Floats
from ._likelihood import LikelihoodModel, clip_rows, stretch

# σ(u) to 5e-5 as Σ shares Φ(u/scales), after Monahan & Stefanski 1992, by least squares on σ'
PROBIT_SHARES = np.array([0.19989, 0.51661, 0.25786, 0.02564])
PROBIT_SCALES = np.array([1.06757, 1.60285, 2.36014, 3.41149])


class LinearLikelihood(LikelihoodModel):
    """Base class: records are rows (x, y), and y depends on xᵀθ, with 1 added to x for an intercept."""

    def __init__(
        self, n_features: int = 1, fit_intercept: bool = True, prior_sigma: float = 1.0, data_norm: float | None = None
    ) -> None:
        self.n_features = n_features
        self.fit_intercept = fit_intercept
        self.prior_sigma = prior_sigma
        self.data_norm = data_norm

    @property
    def n_params(self) -> int:  # type: ignore[override]
        return self.n_features + bool(self.fit_intercept)

    @property
    def n_columns(self) -> int:
        return self.n_features + 1

    @property
    def row_norm(self) -> Any:
        """Largest length of a row of the design, the intercept's 1 included; None if rows are not bounded."""
        return None if self.data_norm is None else sqrt(self.data_norm**2 + bool(self.fit_intercept))

    def check(self) -> None:
        super().check()
        positive_integer(f"n_features of {type(self).__name__}", self.n_features)
        check_flag(f"fit_intercept of {type(self).__name__}", self.fit_intercept)

    def clip_records(self, X: Array) -> Array:
        """The features of each record moved into ‖x‖ <= data_norm, and y to where the likelihood is defined."""
        features = X[:, :-1] if self.data_norm is None else clip_rows(X[:, :-1], self.data_norm)
        return np.column_stack([features, self._clip_response(X[:, -1])])

    def design(self, X: Array) -> Array:
        """Rows of the design of records, or of features alone: (n, n_params)."""
        X = X[:, : self.n_features]
        return np.column_stack([X, np.ones(len(X))]) if self.fit_intercept else X

    def observed_information(self, X: Array, theta: Array) -> Any:
        """Minus the Hessian of the log likelihood of all records, (n_params, n_params)."""
        design = self.design(X)
        return (design * self._weights(design, theta)[:, None]).T @ design

    def _lower(self, **context):
        return super()._lower(n_features=int(self.n_features))

    @compiled
    def predictor(self, X, i, theta):
        eta = theta[int(self.n_features)] if self.fit_intercept else 0.0
        for j in range(int(self.n_features)):
            eta += X[i, j] * theta[j]
        return eta

    @compiled
    def add_slope(self, X, i, slope, out):
        for j in range(int(self.n_features)):
            out[j] += slope * X[i, j]
        if self.fit_intercept:
            out[int(self.n_features)] += slope


class LogisticLikelihood(LinearLikelihood):
    """Logistic regression: y is 1 with probability 1/(1 + exp(-xᵀθ)), otherwise 0; θ ~ N(0, prior_sigma² I).

    Parameters
    ----------
    n_features : int, default=1
    fit_intercept : bool, default=True
        The intercept is the last entry of θ.
    prior_sigma : float, default=1.0
        Standard deviation of each entry of θ, or its scale if ``prior_df`` is given.
    data_norm : float, optional
        Rows are moved into ‖x‖ <= data_norm, a public number, so nothing else is clipped.
    prior_df : float, optional
        ν: entries of θ have a Student's t distribution with ν degrees of freedom instead of a normal; 1 is the Cauchy
        (Gelman et al. 2008).  This is a normal with its own variance for each entry, Inv-Gamma(ν/2, ν prior_sigma²/2).

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import LogisticLikelihood
    >>> model = LogisticLikelihood(n_features=1, fit_intercept=False, data_norm=2.0)
    >>> records = np.array([[1.0, 1.0], [2.0, 0.0]])  # x, y
    >>> model.log_density(records, np.array([0.5])).round(4)
    array([-0.4741, -1.3133])
    """

    def __init__(
        self,
        n_features: int = 1,
        fit_intercept: bool = True,
        prior_sigma: float = 1.0,
        data_norm: float | None = None,
        prior_df: float | None = None,
    ) -> None:
        super().__init__(n_features, fit_intercept, prior_sigma, data_norm)
        self.prior_df = prior_df

    def check(self) -> None:
        super().check()
        self._positive(*([] if self.prior_df is None else ["prior_df"]))

    def sample_prior(self, rng: np.random.Generator, size: int) -> Floats:
        """Draws from the prior, (size, n_params)."""
        if self.prior_df is None:
            return super().sample_prior(rng, size)
        return self.prior_sigma * rng.standard_t(self.prior_df, (size, self.n_params))

    def log_prior(self, theta: Array) -> Floats:
        """Log prior density, (size,)."""
        if self.prior_df is None:
            return super().log_prior(theta)
        nu, u = self.prior_df, np.atleast_2d(theta) / self.prior_sigma
        constant = lgamma(0.5 * (nu + 1.0)) - lgamma(0.5 * nu) - 0.5 * log(nu * pi) - log(self.prior_sigma)
        return (constant - 0.5 * (nu + 1.0) * np.log1p(u * u / nu)).sum(axis=1)

    def grad_log_prior(self, theta: Array) -> Floats:
        """Its gradient at one θ, (n_params,)."""
        if self.prior_df is None:
            return super().grad_log_prior(theta)
        return -(self.prior_df + 1.0) * theta / (self.prior_df * self.prior_sigma**2 + theta * theta)

    def _clip_response(self, y):
        """0 or 1, whatever a record says; the ranges rely on it."""
        return (y > 0.5).astype(np.float64)

    def log_density(self, X: Array, theta: Array) -> Floats:
        """Log probability of each y, (n,)."""
        return -np.logaddexp(0.0, -(2.0 * X[:, -1] - 1.0) * (self.design(X) @ theta))

    def grad_log_density(self, X: Array, theta: Array) -> Floats:
        """Its gradient, (n, n_params)."""
        design = self.design(X)
        return (X[:, -1] - expit(design @ theta))[:, None] * design

    def _weights(self, design, theta):
        p = expit(design @ theta)
        return p * (1.0 - p)

    def log_ratio_range(self, theta: Array, new: Array) -> Any:
        """R ‖θ' - θ‖ times ``logistic_diameter`` at the longer of θ, θ': the ratio is a mean of slopes between them."""
        if self.data_norm is None:
            return None
        longest = max(np.linalg.norm(theta), np.linalg.norm(new))
        return self.row_norm * np.linalg.norm(new - theta) * logistic_diameter(self.row_norm * longest)

    def gradient_range(self, theta: Array, frame: Any) -> Any:
        """R ‖F‖ times ``logistic_diameter`` at θ."""
        if self.data_norm is None:
            return None
        diameter = logistic_diameter(self.row_norm * np.linalg.norm(theta))
        return self.row_norm * stretch(frame) * diameter

    def information_range(self, theta: Array) -> Any:
        """Largest Frobenius norm of the difference of two records' information: √2 R²/4, since both are positive."""
        return None if self.data_norm is None else sqrt(2.0) * self.row_norm**2 / 4.0

    @property
    def largest_information(self) -> Any:
        """Largest trace of a record's information: R²/4."""
        return None if self.data_norm is None else self.row_norm**2 / 4.0

    def normal_means(self, mean: Any, variance: Any) -> tuple[Any, Any, Any, Any]:
        """Means of σ and its first three derivatives over records with normal logits; σ is a mixture of probits."""
        scale = np.sqrt(PROBIT_SCALES**2 + np.asarray(variance)[..., None])
        u = np.asarray(mean)[..., None] / scale
        density = PROBIT_SHARES * np.exp(-0.5 * u * u) / (sqrt(2.0 * pi) * scale)
        parts = PROBIT_SHARES * ndtr(u), density, -density * u / scale, density * (u * u - 1.0) / scale**2
        response, slope, second, third = (part.sum(axis=-1) for part in parts)
        return response, slope, second, third

    @compiled
    def record_log_ratio(self, X, i, theta, new):
        sign = 1.0 - 2.0 * X[i, int(self.n_features)]
        return log1p_exp(sign * self.predictor(X, i, theta)) - log1p_exp(sign * self.predictor(X, i, new))

    @compiled
    def add_gradient(self, X, i, theta, out):
        eta = self.predictor(X, i, theta)
        p = 1.0 / (1.0 + exp(-eta)) if eta > 0.0 else exp(eta) / (1.0 + exp(eta))
        self.add_slope(X, i, X[i, int(self.n_features)] - p, out)


class LinearGaussianLikelihood(LinearLikelihood):
    """Linear regression with a known residual standard deviation: y ~ N(xᵀθ, sigma²), θ ~ N(0, prior_sigma² I).

    Parameters
    ----------
    n_features : int, default=1
    fit_intercept : bool, default=True
        The intercept is the last entry of θ.
    sigma : float, default=1.0
    prior_sigma : float, default=1.0
        Standard deviation of each entry of θ.
    data_norm, y_bound : float, optional
        Records are moved into ‖x‖ <= data_norm and abs(y) <= y_bound, public numbers; give both or neither.

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import LinearGaussianLikelihood
    >>> model = LinearGaussianLikelihood(n_features=1, fit_intercept=False)
    >>> model.log_density(np.array([[1.0, 0.5]]), np.array([0.5])).round(4)
    array([-0.9189])
    """

    def __init__(
        self,
        n_features: int = 1,
        fit_intercept: bool = True,
        sigma: float = 1.0,
        prior_sigma: float = 1.0,
        data_norm: float | None = None,
        y_bound: float | None = None,
    ) -> None:
        super().__init__(n_features, fit_intercept, prior_sigma, data_norm)
        self.sigma = sigma
        self.y_bound = y_bound

    def check(self) -> None:
        super().check()
        self._positive("sigma", *([] if self.y_bound is None else ["y_bound"]))
        if (self.data_norm is None) != (self.y_bound is None):
            raise ValueError(
                f"data_norm and y_bound go together, got data_norm={self.data_norm!r} and y_bound={self.y_bound!r}"
            )

    def _clip_response(self, y):
        return y if self.y_bound is None else np.clip(y, -self.y_bound, self.y_bound)

    def log_density(self, X: Array, theta: Array) -> Floats:
        """Log density of each y, (n,)."""
        u = (X[:, -1] - self.design(X) @ theta) / self.sigma
        return -0.5 * u * u - log(self.sigma) - HALF_LOG_2PI

    def grad_log_density(self, X: Array, theta: Array) -> Floats:
        """Its gradient, (n, n_params)."""
        design = self.design(X)
        return ((X[:, -1] - design @ theta) / self.sigma**2)[:, None] * design

    def sample_posterior(
        self,
        rng: np.random.Generator,
        records: Array,
        theta: Array | None = None,
        *,
        size: int | None = None,
        temperature: float = 1.0,
    ) -> Array:
        """Independent draws from the posterior given the records themselves, (n_params,) or (size, n_params)."""
        design = self.design(records)
        precision = temperature * design.T @ design / self.sigma**2 + np.eye(self.n_params) / self.prior_sigma**2
        mean = np.linalg.solve(precision, temperature * design.T @ records[:, -1] / self.sigma**2)
        z = rng.standard_normal((self.n_params, 1 if size is None else size))
        draws = (mean[:, None] + np.linalg.solve(np.linalg.cholesky(precision).T, z)).T
        return draws[0] if size is None else draws

    def _weights(self, design, theta):
        return np.full(len(design), 1.0 / self.sigma**2)

    def log_ratio_range(self, theta: Array, new: Array) -> Any:
        """‖θ' - θ‖ times the diameter of gradients halfway: the log ratio is that gradient along θ' - θ."""
        if self.data_norm is None or self.y_bound is None:
            return None
        return np.linalg.norm(new - theta) * self._diameter(0.5 * (theta + new))

    def gradient_range(self, theta: Array, frame: Any) -> Any:
        """‖F‖ times the diameter of gradients."""
        if self.data_norm is None or self.y_bound is None:
            return None
        return stretch(frame) * self._diameter(theta)

    def _diameter(self, theta):
        """How far apart two records' gradients can be: R B/σ² times ``linear_diameter``."""
        R, B = self.row_norm, self.y_bound
        return R * B * linear_diameter(R * np.linalg.norm(theta) / B) / self.sigma**2

    def information_range(self, theta: Array) -> Any:
        """√2 R²/σ²."""
        return None if self.data_norm is None else sqrt(2.0) * self.row_norm**2 / self.sigma**2

    @compiled
    def record_log_ratio(self, X, i, theta, new):
        old_mean, new_mean = self.predictor(X, i, theta), self.predictor(X, i, new)
        y = X[i, int(self.n_features)]
        return (new_mean - old_mean) * (y - 0.5 * (old_mean + new_mean)) / (self.sigma * self.sigma)

    @compiled
    def add_gradient(self, X, i, theta, out):
        residual = X[i, int(self.n_features)] - self.predictor(X, i, theta)
        self.add_slope(X, i, residual / (self.sigma * self.sigma), out)


def logistic_diameter(t):
    """How far apart two records' gradients of the log likelihood can be, rows in the unit ball, at ‖θ‖ = t.

    It is max 2 √(1 - c²) σ(tc) over c in [0, 1], which rises from 1 at t = 0 towards 2, and never falls with t.

    *Proof.*  A record is a vector z of the ball, the row or, if y = 0, minus the row, with the gradient σ(-θᵀz) z.  Let
    a be the entry of z along θ, c > 0 where √(1 - c²) σ(tc) is largest, f = σ(tc) and m = cf.  The gradient is at most
    ρ = √(1 - c²) f from the point -m of that axis, since with r = σ(-ta) the square of this distance, r²‖z‖² + 2mra +
    m², grows with ‖z‖ if a is fixed, up to q(a) + m² with q(a) = r² + 2mra; and q is largest at a = -c, where q + m² =
    ρ².  For the slope q'(a) has the sign of m (1 + e^v)(1 + e^-v - v) - t, with v = ta, which falls with v (its own
    slope is m times -e^-v - 1 - v e^v < 0, as v e^v >= -1/e), and is 0 at v = -tc, where c = t (1 - f)(1 - c²).  So all
    gradients are in a ball of radius ρ.  Two rows of unit length with a = -c, on opposite sides of the axis, are 2ρ
    apart.  ∎
    """
    if not t < 1e6:  # or infinite
        return 2.0
    c = brentq(lambda c: c - t * expit(-t * c) * (1.0 - c * c), 0.0, 1.0, xtol=1e-300, rtol=1e-15)
    return 2.0 * sqrt(1.0 - c * c) * expit(t * c)


def linear_diameter(t):
    """How far apart the vectors (y - θᵀz) z can be, z in the unit ball and abs(y) <= 1, at ‖θ‖ = t.

    It is max 2 √(1 - c²) (1 + tc) over c in [0, 1].

    *Proof.*  As for ``logistic_diameter``, with f = 1 + tc, m = cf = t (1 - c²) and c <= √½.  A vector's squared
    distance from -m, with r = y - ta, is at most r² + 2mra + m², convex in r and the same at (-a, -r), so largest at
    r = 1 - ta.  There it is quadratic in a, with the leading term t² (2c² - 1) <= 0, and has slope 0 at a = -c.  ∎
    """
    if not t < inf:
        return t
    c = 2.0 * t / (1.0 + hypot(1.0, sqrt(8.0) * t))
    return 2.0 * sqrt(1.0 - c * c) * (1.0 + t * c)
