"""The mean of normal records with a known standard deviation."""

from math import log, sqrt
from typing import Any

import numpy as np

from .._base.compiled import compiled
from .._base.numeric import HALF_LOG_2PI
from .._base.parameters import positive_integer
from .._base.typing import Array, Floats
from ._likelihood import LikelihoodModel, stretch


class GaussianMean(LikelihoodModel):
    """x ~ N(θ, sigma² I) with θ ~ N(0, prior_sigma² I).

    Parameters
    ----------
    n_features : int, default=1
    sigma : float, default=1.0
    prior_sigma : float, default=10.0
    data_norm : float, optional
        Records are moved into ‖x‖ <= data_norm, a public number.  None: log ratios need a ``clip_bound``.

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import GaussianMean
    >>> GaussianMean(n_features=2, data_norm=3.0).log_ratio_range(np.zeros(2), np.array([0.3, 0.4]))
    3.0
    """

    def __init__(
        self, n_features: int = 1, sigma: float = 1.0, prior_sigma: float = 10.0, data_norm: float | None = None
    ) -> None:
        self.n_features = n_features
        self.sigma = sigma
        self.prior_sigma = prior_sigma
        self.data_norm = data_norm

    @property
    def n_params(self) -> int:  # type: ignore[override]
        return self.n_features

    n_columns = n_params

    def check(self) -> None:
        super().check()
        self._positive("sigma")
        positive_integer("n_features of GaussianMean", self.n_features)

    def sample_records(self, rng: np.random.Generator, theta: Array, n: int) -> Array:
        """Records from the model, (n, n_features)."""
        return rng.normal(theta, self.sigma, (n, self.n_features))

    def sample_posterior(
        self,
        rng: np.random.Generator,
        records: Array,
        theta: Array | None = None,
        *,
        size: int | None = None,
        temperature: float = 1.0,
    ) -> Floats:
        """Independent draws from the posterior given the records themselves, (n_params,) or (size, n_params)."""
        precision = temperature * len(records) / self.sigma**2
        variance = 1.0 / (precision + 1.0 / self.prior_sigma**2)
        shape = (self.n_params,) if size is None else (size, self.n_params)
        return rng.normal(variance * precision * records.mean(axis=0), sqrt(variance), shape)

    def log_density(self, X: Array, theta: Array) -> Floats:
        """Log density of each record, (n,)."""
        u = (X - theta) / self.sigma
        return -0.5 * np.einsum("ij,ij->i", u, u) - self.n_features * (log(self.sigma) + HALF_LOG_2PI)

    def grad_log_density(self, X: Array, theta: Array) -> Floats:
        """Its gradient, (n, n_params)."""
        return (X - theta) / self.sigma**2

    def log_ratio_range(self, theta: Array, new: Array) -> Any:
        """2R ‖θ' - θ‖/σ²: the log ratio is linear in x."""
        if self.data_norm is None:
            return None
        step = new - theta
        return 2.0 * self.data_norm * sqrt(step @ step) / self.sigma**2

    def gradient_range(self, theta: Array, frame: Any) -> Any:
        """2R ‖F‖/σ²."""
        return None if self.data_norm is None else 2.0 * self.data_norm * stretch(frame) / self.sigma**2

    def information(self, theta: Array) -> Any:
        """Fisher information of a record, (n_params, n_params)."""
        return np.eye(self.n_features) / self.sigma**2

    def _lower(self, **context):
        return super()._lower(n_features=int(self.n_features))

    @compiled
    def record_log_ratio(self, X, i, theta, new):
        ratio = 0.0
        for j in range(int(self.n_features)):
            ratio += (new[j] - theta[j]) * (X[i, j] - 0.5 * (theta[j] + new[j]))
        return ratio / (self.sigma * self.sigma)

    @compiled
    def add_gradient(self, X, i, theta, out):
        for j in range(int(self.n_features)):
            out[j] += (X[i, j] - theta[j]) / (self.sigma * self.sigma)
