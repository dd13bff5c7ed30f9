"""Conjugate priors of exponential families, and the names of their parameters (Diaconis & Ylvisaker 1979)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaln, gammaln, xlog1py, xlogy

from .._base.one_line import OneLine
from .._base.parameters import numbers
from .._base.typing import Array, Floats

#: Larger parameters leave the range of floating point once they are squared.
SMALLEST, LARGEST = 1e-100, 1e100
#: The value of a draw that rounds to 0: θ is positive.
SMALLEST_DRAW = 1e-300
#: Larger parameters of a beta distribution, and narrower gamma priors, leave log densities no digits after the point.
LARGEST_BETA = 1e9


class Prior(OneLine):
    """Base class of priors on the parameters of a :class:`Family`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import GammaPrior, Poisson, Prior
    >>> prior = GammaPrior(shape=2.0, rate=1.0)
    >>> isinstance(prior, Prior), prior.log_density(np.array([[1.0], [-1.0]]))
    (True, array([ -1., -inf]))
    >>> prior.draw(np.random.default_rng(0), 3, Poisson()).shape
    (3, 1)
    """

    def check(self) -> None:
        """Raise ValueError if a parameter is wrong."""

    def fields(self, family: Any) -> Any:
        """The numbers that compiled code reads, by name: floats and float arrays."""
        raise NotImplementedError

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        """Draw parameters: ndarray of shape (size, n_params)."""
        raise NotImplementedError

    def log_density(self, theta: Array) -> Floats:
        """Log prior density of parameters (size, n_params): (size,), -inf outside the support."""
        raise NotImplementedError

    def _positive(self, *names):
        for name in names:
            value = numbers(getattr(self, name))
            if value is None or value.ndim or not SMALLEST <= value <= LARGEST:
                raise ValueError(
                    f"{name} of {type(self).__name__} must be a positive finite number, and from {SMALLEST:g} to "
                    f"{LARGEST:g} for floating point, got {name}={getattr(self, name)!r}"
                )

    def _check_mean(self):
        mean = numbers(self.mean)
        if mean is None or mean.ndim or not abs(mean) <= LARGEST:
            raise ValueError(f"mean of {type(self).__name__} must be a finite number, got mean={self.mean!r}")


class BetaPrior(Prior):
    """Beta prior on a probability: density proportional to θ^(a-1) (1-θ)^(b-1).

    Parameters
    ----------
    a, b : float, default=1.0
        Positive; if both are 1, the prior is uniform.

    Raises
    ------
    ValueError
        On use, for a parameter that is not positive.

    Examples
    --------
    >>> from sklearn_dpmix.models import BetaPrior
    >>> BetaPrior(a=2.0, b=3.0)
    BetaPrior(a=2.0, b=3.0)
    """

    def __init__(self, a: float = 1.0, b: float = 1.0) -> None:
        self.a = a
        self.b = b

    def check(self) -> None:
        self._positive("a", "b")

    def fields(self, family: Any) -> Any:
        alpha = np.array([self.a, self.b], dtype=np.float64)
        return {"alpha": alpha, "alpha_total": float(alpha.sum()), "median_alpha": 0.0}

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        return np.clip(rng.beta(float(self.a), float(self.b), (size, 1)), SMALLEST_DRAW, 1.0 - 2.0**-53)

    def log_density(self, theta: Array) -> Floats:
        x, a, b = theta[:, 0], float(self.a), float(self.b)
        with np.errstate(divide="ignore", invalid="ignore"):
            value = xlogy(a - 1.0, x) + xlog1py(b - 1.0, -x) - betaln(a, b)
        return np.where((x > 0.0) & (x < 1.0), value, -np.inf)


class DirichletPrior(Prior):
    """Dirichlet prior on the probabilities of categories: density proportional to Π θ_k^(α_k - 1).

    Parameters
    ----------
    alpha : float or array-like of shape (n_categories,), default=1.0
        Positive; one number stands for all categories, and 1 is uniform on the simplex.

    Raises
    ------
    ValueError
        On use, for a value that is not such numbers.

    Examples
    --------
    >>> from sklearn_dpmix.models import DirichletPrior
    >>> DirichletPrior(alpha=0.5)
    DirichletPrior(alpha=0.5)
    """

    def __init__(self, alpha: ArrayLike = 1.0) -> None:
        self.alpha = alpha

    def check(self) -> None:
        alpha = numbers(self.alpha)
        if alpha is None or alpha.ndim > 1 or alpha.size == 0 or not np.all((alpha > 0) & (alpha < np.inf)):
            raise ValueError(
                "alpha of DirichletPrior must be positive and finite, a number or one per category, got "
                f"alpha={self.alpha!r}"
            )

    def _alpha(self, family):
        alpha = np.asarray(self.alpha, dtype=np.float64)
        if alpha.ndim and len(alpha) != family.n_params:
            raise ValueError(
                f"alpha of DirichletPrior has {len(alpha)} number(s), but there are {family.n_params} categories: "
                "give one number, or one per category"
            )
        return np.broadcast_to(alpha, (family.n_params,)).copy()

    def fields(self, family: Any) -> Any:
        alpha = self._alpha(family)
        return {"alpha": alpha, "alpha_total": float(alpha.sum()), "median_alpha": 0.0}

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        return rng.dirichlet(self._alpha(family), size)

    def log_density(self, theta: Array) -> Floats:
        alpha = np.broadcast_to(np.asarray(self.alpha, dtype=np.float64), theta.shape[1:])
        is_inside = np.all(theta > 0.0, axis=1) & (np.abs(theta.sum(axis=1) - 1.0) < 1e-6)
        value = xlogy(alpha - 1.0, np.where(theta > 0.0, theta, 1.0)).sum(axis=1)
        return np.where(is_inside, value + gammaln(alpha.sum()) - gammaln(alpha).sum(), -np.inf)


class GammaPrior(Prior):
    """Gamma prior on a rate or a Poisson mean: density proportional to θ^(shape-1) exp(-rate·θ).

    Parameters
    ----------
    shape : float, default=1.0
    rate : float, default=0.01
        Positive.  The default is nearly flat below 100, in units of the parameter.

    Raises
    ------
    ValueError
        On use, for a parameter that is not positive.

    Examples
    --------
    >>> from sklearn_dpmix.models import GammaPrior
    >>> GammaPrior(shape=2.0, rate=1.0)
    GammaPrior(rate=1.0, shape=2.0)
    """

    def __init__(self, shape: float = 1.0, rate: float = 0.01) -> None:
        self.shape = shape
        self.rate = rate

    def check(self) -> None:
        self._positive("shape", "rate")

    def fields(self, family: Any) -> Any:
        return {"shape": float(self.shape), "rate": float(self.rate), "wide": 0.0}

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        return np.maximum(rng.gamma(float(self.shape), 1.0 / float(self.rate), (size, 1)), SMALLEST_DRAW)

    def log_density(self, theta: Array) -> Floats:
        return _log_gamma(theta[:, 0], float(self.shape), float(self.rate))


class NormalInverseGammaPrior(Prior):
    """Prior on a normal's mean μ and variance σ²: μ | σ² ~ N(mean, σ²/mean_precision), σ² ~ IG(shape, scale).

    The density of IG(shape, scale) is proportional to x^(-shape-1) exp(-scale/x).

    Parameters
    ----------
    mean : float, default=0.0
    mean_precision : float, default=0.01
        The number of records that the prior mean counts for.
    shape : float, default=1.0
    scale : float, default=1.0

    Raises
    ------
    ValueError
        On use, for a parameter that is not positive (``mean``: not finite).

    Examples
    --------
    >>> from sklearn_dpmix.models import NormalInverseGammaPrior
    >>> NormalInverseGammaPrior(mean=170.0, mean_precision=0.1, shape=2.0, scale=100.0).mean
    170.0
    """

    def __init__(self, mean: float = 0.0, mean_precision: float = 0.01, shape: float = 1.0, scale: float = 1.0) -> None:
        self.mean = mean
        self.mean_precision = mean_precision
        self.shape = shape
        self.scale = scale

    def check(self) -> None:
        self._positive("mean_precision", "shape", "scale")
        self._check_mean()

    def fields(self, family: Any) -> Any:
        names = "mean", "mean_precision", "shape", "scale"
        return {**{name: float(getattr(self, name)) for name in names}, "spread": 0.0}

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        mean, mean_precision, shape, scale, _ = self.fields(family).values()
        variance = scale / rng.gamma(shape, size=size)
        mean = mean + np.sqrt(variance / mean_precision) * rng.standard_normal(size)
        return np.column_stack([mean, variance])

    def log_density(self, theta: Array) -> Floats:
        mean, variance = theta.T
        centre, mean_precision, shape, scale, _ = self.fields(None).values()
        inside = np.where(variance > 0.0, variance, 1.0)
        value = _log_gamma(1.0 / inside, shape, scale) - 2.0 * np.log(inside)  # 1/σ² is a gamma
        of_mean = inside / mean_precision
        value += -0.5 * np.log(2.0 * np.pi * of_mean) - 0.5 * (mean - centre) ** 2 / of_mean
        return np.where(variance > 0.0, value, -np.inf)


class GammaProductPrior(Prior):
    """Independent gamma priors on both parameters of a beta distribution.

    Parameters
    ----------
    shape : float or pair of floats, default=1.0
    rate : float or pair of floats, default=0.1
        Positive; one number stands for both parameters.  ``shape`` and the mean ``shape/rate`` are at most 10⁹: beyond
        that, log densities of beta distributions are lost in rounding.

    Raises
    ------
    ValueError
        On use, for values that are not one or two positive numbers of such a size.

    Examples
    --------
    >>> from sklearn_dpmix.models import GammaProductPrior
    >>> GammaProductPrior(shape=(2.0, 1.0)).shape
    (2.0, 1.0)
    """

    def __init__(self, shape: ArrayLike = 1.0, rate: ArrayLike = 0.1) -> None:
        self.shape = shape
        self.rate = rate

    def check(self) -> None:
        for name in ("shape", "rate"):
            value = numbers(getattr(self, name))
            is_shaped = value is not None and value.shape in ((), (2,))
            if not is_shaped or not np.all((value >= SMALLEST) & (value <= LARGEST)):
                raise ValueError(
                    f"{name} of GammaProductPrior must be positive and finite, a number or a pair, from {SMALLEST:g} "
                    f"to {LARGEST:g} for floating point, got {name}="
                    f"{getattr(self, name)!r}"
                )
        shape, mean = numbers(self.shape), numbers(self.shape) / numbers(self.rate)
        if not (np.all(shape <= LARGEST_BETA) and np.all(mean <= LARGEST_BETA)):
            raise ValueError(
                f"shape of GammaProductPrior, and its mean shape/rate, must be at most {LARGEST_BETA:g}: beyond, the "
                f"densities of beta distributions are lost in rounding; got shape={self.shape!r}, rate={self.rate!r}"
            )

    def fields(self, family: Any) -> Any:
        pairs = {
            name: np.broadcast_to(np.asarray(getattr(self, name), dtype=np.float64), (2,)).copy()
            for name in ("shape", "rate")
        }
        return {**pairs, "precision": 0.0}

    def draw(self, rng: np.random.Generator, size: int, family: Any) -> Array:
        fields = self.fields(family)
        return np.maximum(rng.gamma(fields["shape"], 1.0 / fields["rate"], (size, 2)), SMALLEST_DRAW)

    def log_density(self, theta: Array) -> Floats:
        fields = self.fields(None)
        return _log_gamma(theta, fields["shape"], fields["rate"]).sum(axis=1)


def _log_gamma(x, shape, rate):
    """Log density of Gamma(shape, rate); -inf if x is not positive."""
    with np.errstate(divide="ignore", invalid="ignore"):
        value = shape * np.log(rate) - gammaln(shape) + xlogy(shape - 1.0, x) - rate * x
    return np.where(x > 0.0, value, -np.inf)
