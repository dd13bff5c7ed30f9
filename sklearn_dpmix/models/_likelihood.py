"""Models with a likelihood, as DP-MCMC needs them: a log density of records and a normal prior."""

from functools import lru_cache
from math import log

import numpy as np

from .._base.compiled import Component, compiled
from .._base.numeric import HALF_LOG_2PI
from .._base.parameters import numbers
from .._base.typing import Array, Floats

#: Largest size of a parameter: its squares, and their sums, stay within floating point.
LARGEST = 1e100


class LikelihoodModel(Component):
    """Base class of models of independent records given θ with a compiled log likelihood ratio.

    DP-MCMC needs ``log_prior`` and ``log_density`` from any object (and for Hamiltonian moves ``grad_log_density``).  A
    subclass of this class has the same as compiled methods, which a pass over all records then uses,

    ============================================  ====================================================================
    ``record_log_ratio(X, i, theta, new)``        log p(x_i | new) - log p(x_i | theta)
    ``add_gradient(X, i, theta, out)``            adds the gradient of log p(x_i | θ) to ``out``
    ============================================  ====================================================================

    and may have more methods, all of them public:

    ============================================  ====================================================================
    ``clip_records(X)``                           the records moved into the set that the two ranges hold on
    ``log_ratio_range(theta, new)``               the largest less the smallest log ratio of any record
    ``gradient_range(theta, frame)``              the largest ‖Fᵀ(g - g')‖ between gradients of any two records
    ``information(theta)``                        Fisher information of a record, (n_params, n_params)
    ``to_working(theta)``, ``from_working(phi)``  coordinates in which moves are made, if not θ; ``(n_params,)`` each
    ``working_jacobian(phi)``                     dθ/dφ there
    ============================================  ====================================================================

    With the ranges nothing is clipped, and the noise is what this move needs and not what the worst move would need.  A
    log ratio or gradient that is not finite counts as 0.  If some record may have one, the ranges must include 0, or
    that record moves a release further than the noise allows for.

    Examples
    --------
    >>> from math import exp
    >>> import numpy as np
    >>> from scipy.special import gammaln
    >>> from sklearn_dpmix.mechanisms import compiled
    >>> from sklearn_dpmix.models import LikelihoodModel
    >>> class PoissonLog(LikelihoodModel):  # counts up to ``most``, x ~ Poisson(exp θ)
    ...     n_params, n_columns = 1, 1
    ...
    ...     def __init__(self, most=20, prior_sigma=3.0):
    ...         self.most = most
    ...         self.prior_sigma = prior_sigma
    ...
    ...     def clip_records(self, X):
    ...         return np.clip(X, 0, self.most)
    ...
    ...     def log_ratio_range(self, theta, new):
    ...         return self.most * abs(float(new[0] - theta[0]))
    ...
    ...     def log_density(self, X, theta):
    ...         return X[:, 0] * theta[0] - exp(theta[0]) - gammaln(X[:, 0] + 1)
    ...
    ...     @compiled
    ...     def record_log_ratio(self, X, i, theta, new):
    ...         return X[i, 0] * (new[0] - theta[0]) - exp(new[0]) + exp(theta[0])
    ...
    ...     @compiled
    ...     def add_gradient(self, X, i, theta, out):
    ...         out[0] += X[i, 0] - exp(theta[0])
    >>> model = PoissonLog()
    >>> model.record_log_ratio(np.array([[3.0]]), 0, np.array([1.0]), np.array([1.2])).round(4).item()
    -0.0018
    >>> round(model.log_ratio_range(np.array([1.0]), np.array([1.2])), 4)
    4.0
    """

    prior_sigma: float
    n_params: int
    data_norm: float | None = None

    def check(self) -> None:
        """Raise ValueError if a parameter is wrong."""
        self._positive("prior_sigma", *([] if self.data_norm is None else ["data_norm"]))

    def _positive(self, *names):
        for name in names:
            self._finite(name, low=1.0 / LARGEST)

    def _finite(self, name, low=-LARGEST, ndim=0):
        """Raise ValueError unless a parameter is between ``low`` and ``LARGEST``, and has ``ndim`` axes."""
        value = numbers(getattr(self, name))
        if value is None or value.ndim != ndim or not np.all((low <= value) & (value <= LARGEST)):
            raise ValueError(
                f"{name} of {type(self).__name__} must be {'a list of numbers' if ndim else 'a number'} from {low:g} "
                f"to {LARGEST:g}, got {name}={getattr(self, name)!r}"
            )

    def clip_records(self, X: Array) -> Array:
        """Records, with those whose norm is larger than ``data_norm`` moved to it, if there is one."""
        return X if self.data_norm is None else clip_rows(X, self.data_norm)

    def sample_prior(self, rng: np.random.Generator, size: int) -> Floats:
        """Draws from the prior, (size, n_params)."""
        return rng.normal(scale=self.prior_sigma, size=(size, self.n_params))

    def log_prior(self, theta: Array) -> Floats:
        """Log prior density, (size,)."""
        theta = np.atleast_2d(theta)
        square = (theta * theta).sum(axis=1)
        return -0.5 * square / self.prior_sigma**2 - theta.shape[1] * (log(self.prior_sigma) + HALF_LOG_2PI)

    def grad_log_prior(self, theta: Array) -> Floats:
        """Its gradient at one θ, (n_params,)."""
        return -theta / self.prior_sigma**2

    @compiled
    def record_log_ratio(self, X, i, theta, new):
        raise NotImplementedError

    @compiled
    def add_gradient(self, X, i, theta, out):
        raise NotImplementedError


def stretch(frame):
    """‖F‖, the spectral norm; a chain in straight coordinates asks for that of one frame at every gradient."""
    return _stretch(np.asarray(frame, dtype=np.float64).tobytes(), len(frame))


@lru_cache(maxsize=16)
def _stretch(entries, n_rows):
    return np.linalg.norm(np.frombuffer(entries).reshape(n_rows, -1), 2)


def clip_rows(X, norm, unit=1.0):
    """Rows of ``X`` whose length, with columns in these units, is more than ``norm`` shortened to it."""
    largest = np.maximum(np.max(np.abs(X), axis=1, keepdims=True), 1e-300)  # squares of 1e200 overflow
    directions = X / largest
    scaled = directions / unit
    lengths = np.sqrt(np.einsum("ij,ij->i", scaled, scaled))[:, None]
    with np.errstate(over="ignore"):  # a warning would tell of a record
        is_long = lengths * largest > norm
    return np.where(is_long, directions * (norm / np.maximum(lengths, 1e-300)), X)
