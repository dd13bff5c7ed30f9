"""The banana: a posterior with a curved ridge that is known exactly (Räisä 2021, Theorem 5)."""

from math import log, pi, sqrt
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled
from .._base.typing import Array, Floats
from ._likelihood import LARGEST, LikelihoodModel, clip_rows


class Banana(LikelihoodModel):
    """x1 ~ N(θ1, σ1²), x2 ~ N(θ2 + a(θ1 - m)² + b, σ2²), xj ~ N(θj, σj²) for j > 2.

    The prior is N(0, prior_sigma² I) on φ = (θ1, θ2 + a(θ1 - m)² + b, θ3, ...), so the posterior of φ is normal too.

    Parameters
    ----------
    a, b, m : float, default=20.0, 0.0, 0.0
    sigma : sequence of float of length n_features >= 2
        Standard deviations σ; the default is that of the thesis' experiments.
    prior_sigma : float, default=√1000
    data_norm : float, optional
        Records are moved into ‖(x1/σ1, x2/σ2, ...)‖ <= data_norm, a public number, so that sensitivities are those of
        the move in question and no ratio is clipped.  The ball is around zero: if the mean of the records is not near
        zero, shift them by public numbers first, or the bound cuts off one side.  None: records are not changed, and
        ratios need a ``clip_bound``.

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    References
    ----------
    Räisä (2021), "Differentially private Markov chain Monte Carlo", §2.3 and Theorem 5.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import Banana
    >>> model = Banana()
    >>> X = model.sample_records(np.random.default_rng(0), np.array([0.0, 3.0]), 1000)
    >>> model.log_density(X, np.array([0.0, 3.0])).shape
    (1000,)
    """

    def __init__(
        self,
        a: float = 20.0,
        b: float = 0.0,
        m: float = 0.0,
        sigma: ArrayLike = (2000.0**0.5, 50.0),
        prior_sigma: float = 1000.0**0.5,
        data_norm: float | None = None,
    ) -> None:
        self.a = a
        self.b = b
        self.m = m
        self.sigma = sigma
        self.prior_sigma = prior_sigma
        self.data_norm = data_norm

    @property
    def n_params(self) -> int:  # type: ignore[override]
        return np.size(self.sigma)

    n_columns = n_params

    def check(self) -> None:
        super().check()
        self._finite("sigma", low=1.0 / LARGEST, ndim=1)
        for name in ("a", "b", "m"):
            self._finite(name)
        if np.size(self.sigma) < 2:
            raise ValueError(f"sigma of Banana must have at least 2 entries, got sigma={self.sigma!r}")

    def _bend(self, theta1):
        return self.a * (theta1 - self.m) ** 2 + self.b

    def to_working(self, theta: Array) -> Array:
        """φ of θ, the mean of a record: (..., n_params)."""
        phi = np.array(theta, dtype=np.float64)
        phi[..., 1] += self._bend(phi[..., 0])
        return phi

    def from_working(self, phi: Array) -> Array:
        """θ of φ; this preserves volumes."""
        theta = np.array(phi, dtype=np.float64)
        theta[..., 1] -= self._bend(theta[..., 0])
        return theta

    def working_jacobian(self, phi: Array) -> Array:
        """dθ/dφ, (n_params, n_params)."""
        jacobian = np.eye(len(phi))
        jacobian[1, 0] = -2.0 * self.a * (phi[0] - self.m)
        return jacobian

    def log_prior(self, theta: Array) -> Floats:
        return super().log_prior(self.to_working(np.atleast_2d(theta)))

    def grad_log_prior(self, theta: Array) -> Floats:
        return self._pull_back(theta, super().grad_log_prior(self.to_working(theta)))

    def sample_prior(self, rng: np.random.Generator, size: int) -> Floats:
        return self.from_working(super().sample_prior(rng, size))

    def sample_records(self, rng: np.random.Generator, theta: Array, n: int) -> Array:
        """Records from the model, (n, n_params)."""
        return rng.normal(self.to_working(theta), np.asarray(self.sigma), (n, self.n_params))

    def sample_posterior(
        self,
        rng: np.random.Generator,
        records: Array,
        theta: Array | None = None,
        *,
        size: int | None = None,
        temperature: float = 1.0,
    ) -> Floats:
        """Independent draws from the posterior given the records themselves (Theorem 5), (n_params,) or (size, ...)."""
        precision = temperature * len(records) / np.square(self.sigma)
        variance = 1.0 / (precision + 1.0 / self.prior_sigma**2)
        shape = (self.n_params,) if size is None else (size, self.n_params)
        return self.from_working(rng.normal(variance * precision * records.mean(axis=0), np.sqrt(variance), shape))

    def log_density(self, X: Array, theta: Array) -> Floats:
        """Log density of each record, (n,)."""
        sigma = np.asarray(self.sigma)
        u = (X - self.to_working(theta)) / sigma
        return -0.5 * np.einsum("ij,ij->i", u, u) - np.sum(np.log(sigma)) - 0.5 * len(sigma) * log(2.0 * pi)

    def grad_log_density(self, X: Array, theta: Array) -> Floats:
        """Its gradient, (n, n_params)."""
        return self._pull_back(theta, (X - self.to_working(theta)) / np.square(self.sigma))

    def _pull_back(self, theta, gradient):
        """From a gradient in φ to that in θ."""
        gradient = np.array(gradient)
        gradient[..., 0] += gradient[..., 1] * 2.0 * self.a * (theta[0] - self.m)
        return gradient

    def clip_records(self, X: Array) -> Array:
        return X if self.data_norm is None else clip_rows(X, self.data_norm, np.asarray(self.sigma))

    def log_ratio_range(self, theta: Array, new: Array) -> Any:
        """2R ‖(φ' - φ)/σ‖: the log ratio is linear in x/σ, with gradient (φ' - φ)/σ."""
        if self.data_norm is None:
            return None
        step = (self.to_working(new) - self.to_working(theta)) / np.asarray(self.sigma)
        return 2.0 * self.data_norm * sqrt(step @ step)

    def gradient_range(self, theta: Array, frame: Any) -> Any:
        """The gradient is Jᵀ Σ^-1 (x - φ), with J = dφ/dθ: 2R ‖Fᵀ Jᵀ Σ^-1/2‖."""
        if self.data_norm is None:
            return None
        return 2.0 * self.data_norm * np.linalg.norm(frame.T @ self._mean_jacobian(theta).T / np.asarray(self.sigma), 2)

    def _mean_jacobian(self, theta):
        jacobian = np.eye(len(theta))
        jacobian[1, 0] = 2.0 * self.a * (theta[0] - self.m)
        return jacobian

    def information(self, theta: Array) -> Any:
        """Fisher information of a record, (n_params, n_params)."""
        scaled = self._mean_jacobian(theta) / np.asarray(self.sigma)[:, None]
        return scaled.T @ scaled

    def _lower(self, **context):
        return super()._lower(n_features=self.n_params)

    @compiled
    def record_log_ratio(self, X, i, theta, new):
        ratio = 0.0
        for j in range(self.n_features):
            old_mean, new_mean = theta[j], new[j]
            if j == 1:
                old_mean += self.a * (theta[0] - self.m) ** 2 + self.b
                new_mean += self.a * (new[0] - self.m) ** 2 + self.b
            middle = 0.5 * (old_mean + new_mean)
            ratio += (new_mean - old_mean) * (X[i, j] - middle) / (self.sigma[j] * self.sigma[j])
        return ratio

    @compiled
    def add_gradient(self, X, i, theta, out):
        for j in range(self.n_features):
            mean = theta[j]
            if j == 1:
                mean += self.a * (theta[0] - self.m) ** 2 + self.b
            slope = (X[i, j] - mean) / (self.sigma[j] * self.sigma[j])
            out[j] += slope
            if j == 1:
                out[0] += slope * 2.0 * self.a * (theta[0] - self.m)
