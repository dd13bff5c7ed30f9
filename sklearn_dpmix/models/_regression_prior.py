"""What is known of a linear regression and of its predictors before the release."""

from math import inf

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator

from .._typing import Floats


class RegressionPrior(BaseEstimator):
    """Prior of a linear regression: α, β_j ~ N(0, coef_scale²) and σ² ~ InverseGamma(sigma_shape, sigma_scale).

    Parameters
    ----------
    coef_scale : float, default=2.0
        Standard deviation of each coefficient and of the intercept, on the data's original scale.
    sigma : float, optional
        The residual standard deviation where it is known; None gives it a prior.
    sigma_shape : float, default=1.0
    sigma_scale : float, optional
        None: the square of an eighth of the width of ``y_bounds`` (without a mechanism: the variance of y).

    Examples
    --------
    >>> from sklearn_dpmix.models import RegressionPrior
    >>> RegressionPrior(coef_scale=5.0, sigma=1.5)
    RegressionPrior(coef_scale=5.0, sigma=1.5)
    """

    def __init__(
        self,
        coef_scale: float = 2.0,
        sigma: float | None = None,
        *,
        sigma_shape: float = 1.0,
        sigma_scale: float | None = None,
    ) -> None:
        self.coef_scale = coef_scale
        self.sigma = sigma
        self.sigma_shape = sigma_shape
        self.sigma_scale = sigma_scale

    def check(self) -> None:
        """Raise ValueError where a parameter is wrong."""
        for name in ("coef_scale", "sigma", "sigma_shape", "sigma_scale"):
            value = getattr(self, name)
            if value is None and name in ("sigma", "sigma_scale"):
                continue
            if not isinstance(value, (int, float, np.number)) or isinstance(value, bool) or not 0 < value < inf:
                raise ValueError(f"RegressionPrior: {name} must be a positive number, got {name}={value!r}")


class GaussianPredictors(BaseEstimator):
    """Model of a regression's predictors, x ~ N(mean, covariance), which the release alone must tell of.

    Parameters
    ----------
    mean : array-like of shape (n_features,), optional
        None gives it the prior N(c, diag(w²/4)), c the centres and w the widths of ``x_bounds``.
    covariance : array-like of shape (n_features, n_features), optional
        None gives it the prior InverseWishart(p + 2, diag(w²/16)), whose mean is that matrix.

    Examples
    --------
    >>> from sklearn_dpmix.models import GaussianPredictors
    >>> GaussianPredictors(mean=[0.0, 1.0])
    GaussianPredictors(mean=[0.0, 1.0])
    """

    def __init__(self, mean: ArrayLike | None = None, covariance: ArrayLike | None = None) -> None:
        self.mean = mean
        self.covariance = covariance

    def check(self, n_features: int) -> tuple[Floats | None, Floats | None]:
        """Return (mean or None, covariance or None) as arrays; raise ValueError where one is wrong."""
        mean = None if self.mean is None else _array("mean", self.mean, (n_features,))
        covariance = None if self.covariance is None else _array("covariance", self.covariance, (n_features,) * 2)
        if covariance is not None:
            is_symmetric = np.allclose(covariance, covariance.T, rtol=1e-10, atol=0)
            if not is_symmetric or np.linalg.eigvalsh(covariance)[0] <= 0:
                raise ValueError(
                    "GaussianPredictors: covariance must be symmetric and positive definite, got "
                    f"covariance={self.covariance!r}"
                )
        return mean, covariance


def _array(name, value, shape):
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.array(np.nan)
    if array.size == 1 and max(shape) == 1:  # a number will do for one predictor
        array = array.reshape(shape)
    if array.shape != shape or not np.all(np.isfinite(array)):
        raise ValueError(f"GaussianPredictors: {name} must be finite and of shape {shape}, got {name}={value!r}")
    return array
