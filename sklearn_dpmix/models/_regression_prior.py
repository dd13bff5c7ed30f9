"""What is known about a linear regression before the release."""

from math import inf, log, log1p, sqrt
from typing import NamedTuple

import numpy as np
from sklearn.base import BaseEstimator

from .._base.compiled import helper
from .._base.linear import draw_normal
from .._base.parameters import is_real
from .._base.typing import Floats

#: Standard deviation, in half-widths of the bounds, of the default prior of slopes and of the intercept at the centre.
COEF_SCALE = 2.5
SCORE_PRECISION = (1.0 / COEF_SCALE) ** 2
#: Median of the default prior's residual, as a share of the half-width of the response's bounds.
RESIDUAL = 0.15


def centre_and_half(bounds):
    """Centres and half-widths, (d,) each, of bounds of shape (d, 2)."""
    return bounds.mean(axis=1), 0.5 * np.diff(bounds).ravel()


class ScaledPrior(NamedTuple):
    """A regression's prior where the bounds are [-1, 1]: γ ~ N(mean, root root'), τ² ~ InverseGamma(shape, scale).

    If ``rate`` is positive, that scale is itself unknown, with distribution Gamma(1/2, rate); with shape 1/2, τ is
    half-Cauchy.
    """

    mean: np.ndarray  # (d,): for the intercept and the slopes
    root: np.ndarray  # (d, d): the upper triangular R such that R R' is the covariance
    sigma: float | None
    shape: float
    scale: float
    rate: float

    @property
    def covariance(self) -> Floats:
        return self.root @ self.root.T

    @property
    def unit(self) -> Floats:
        """U such that γ = mean + U v with independent v_a ~ N(0, 2.5²): by default the identity."""
        return self.root / COEF_SCALE


class RegressionPrior(BaseEstimator):
    r"""Prior of a linear regression, by default in the units of the public bounds.

    Let each coordinate be mapped to [-1, 1] by its bounds.  Then by default each slope, and the intercept at the centre
    of the bounds, is N(0, 2.5²): a predictor that goes from one bound to the other moves y by about 2.5 times the width
    of its bounds.  Of the regression lines drawn from this prior, more leave the bounds of y than stay within, so it
    says little about any line that stays.  The residual standard deviation is half-Cauchy, with median 7.5 % of y's
    width and 90 % between 0.6 % and 95 %, because bounds may be far wider than the residuals.  The posterior does not
    depend on the units of the data.

    A number for ``coef_scale``, ``sigma`` or ``sigma_scale`` is on the data's original scale instead.

    Parameters
    ----------
    coef_scale : float, optional
        Standard deviation of each coefficient and of the intercept (at x = 0), independent, with mean 0, on the data's
        original scale.  None: as above.
    sigma : float, optional
        The residual standard deviation if it is known; None gives it a prior.
    sigma_shape : float, default=0.5
        σ² ~ InverseGamma(sigma_shape, sigma_scale), which is worth 2 sigma_shape records.
    sigma_scale : float, optional
        None: it is unknown, with a Gamma prior of shape 1/2 and mean ``sigma_shape`` times the square of 7.5 % of y's
        width.

    Notes
    -----
    Without a mechanism there are no bounds; then the mean of a column plus or minus two of its standard deviations
    takes their place.

    Examples
    --------
    >>> from sklearn_dpmix.models import RegressionPrior
    >>> RegressionPrior(coef_scale=5.0, sigma=1.5)
    RegressionPrior(coef_scale=5.0, sigma=1.5)
    """

    def __init__(
        self,
        coef_scale: float | None = None,
        sigma: float | None = None,
        *,
        sigma_shape: float = 0.5,
        sigma_scale: float | None = None,
    ) -> None:
        self.coef_scale = coef_scale
        self.sigma = sigma
        self.sigma_shape = sigma_shape
        self.sigma_scale = sigma_scale

    def check(self) -> None:
        """Raise ValueError if a parameter is wrong."""
        for name in ("coef_scale", "sigma", "sigma_shape", "sigma_scale"):
            value = getattr(self, name)
            if value is None and name != "sigma_shape":
                continue
            if not (is_real(value) and 0 < value < inf):
                raise ValueError(f"RegressionPrior: {name} must be a positive number, got {name}={value!r}")

    def scaled(self, bounds: Floats) -> ScaledPrior:
        """Return the prior in coordinates in which ``bounds``, of shape (p + 1, 2), the response last, are [-1, 1]."""
        centre, half = centre_and_half(bounds)
        d = len(bounds)
        mean, root = np.zeros(d), COEF_SCALE * np.eye(d)
        if self.coef_scale is not None:  # (y - c)/h as a function of (x - c_j)/h_j
            root = np.diag([1.0, *half[:-1]])
            root[0, 1:] = centre[:-1]
            mean[0], root = -centre[-1] / half[-1], root * (self.coef_scale / half[-1])
        scale, rate = 0.0, 0.5 / (self.sigma_shape * RESIDUAL**2)
        if self.sigma_scale is not None:
            scale, rate = self.sigma_scale / half[-1] ** 2, 0.0
        sigma = None if self.sigma is None else self.sigma / half[-1]
        return ScaledPrior(mean, root, sigma, float(self.sigma_shape), float(scale), float(rate))


# γ is drawn, and its prior computed, in terms of v: if coef_scale is a number and predictors are in small units, the
# slope determines the intercept to more digits than a float has, and the precision of γ itself is singular.


@helper
def draw_scores(rng, unit, mean, matrix, vector, d):
    """v given data whose precision of γ is A, the lower triangle of ``matrix``, into ``vector``, which has A γ̂."""
    for a in range(d):
        for b in range(d):
            vector[a] -= matrix[max(a, b), min(a, b)] * mean[b]
    for a in range(d - 1, -1, -1):  # U'(A γ̂ - A m) and U'A U: each entry needs none that was replaced before
        value = 0.0
        for i in range(a + 1):
            value += unit[i, a] * vector[i]
        vector[a] = value
    for b in range(d - 1, -1, -1):
        for a in range(d - 1, b - 1, -1):
            value = 0.0
            for i in range(a + 1):
                for j in range(b + 1):
                    value += unit[i, a] * matrix[max(i, j), min(i, j)] * unit[j, b]
            matrix[a, b] = value
    for a in range(d):
        matrix[a, a] += SCORE_PRECISION
    draw_normal(rng, matrix, vector, d)


@helper
def set_coefs(unit, mean, vector, d):
    """γ in place of v."""
    for a in range(d):
        value = mean[a]
        for b in range(a, d):
            value += unit[a, b] * vector[b]
        vector[a] = value


@helper
def log_coefs(whiten, mean, gamma, d):
    """Log density of γ, up to a constant; ``whiten`` is the inverse of U."""
    value = 0.0
    for a in range(d):
        score = 0.0
        for b in range(a, d):
            score += whiten[a, b] * (gamma[b] - mean[b])
        value -= 0.5 * SCORE_PRECISION * (score * score)
    return value


@helper
def log_residual(shape, scale, rate, tau):
    """Log density of log τ, up to a constant."""
    if rate > 0.0:
        return log(tau) - (shape + 0.5) * log1p(rate * tau * tau)
    return -2.0 * shape * log(tau) - scale / (tau * tau)


@helper
def residual_force(shape, scale, rate, tau):
    """Its derivative in log τ."""
    if rate > 0.0:
        square = rate * tau * tau
        return 1.0 - (2.0 * shape + 1.0) * square / (1.0 + square)
    return -2.0 * shape + 2.0 * scale / (tau * tau)


@helper
def draw_residual(rng, shape, scale, rate, tau, n, squares):
    """τ given n residuals, the sum of whose squares is ``squares``; an unknown scale is drawn given the last τ."""
    if rate > 0.0:
        scale = rng.standard_gamma(shape + 0.5) / (rate + 1.0 / (tau * tau))
    return sqrt((scale + 0.5 * squares) / rng.standard_gamma(shape + 0.5 * n))
