"""Exponential families of counts, by their sufficient statistic t(x) (Bernstein & Sheldon 2018, §2), and all by name.

How far apart t(x) and t(x') can be for x, x' inside bounds is a fact about the curve t.  Each family states it in
closed form, and noise is calibrated by it (:class:`sklearn_dpmix.queries.SufficientStatistics`).
"""

from math import exp, inf, sqrt
from typing import Any

import numpy as np
from scipy.special import gammaln, logit, xlog1py, xlogy

from .._base.compiled import compiled
from .._base.numeric import log1p_exp
from .._base.parameters import MOST, is_integer, refuse_class
from .._base.typing import Array, Floats
from ._continuous import Beta, Exponential, Gamma, GammaRecords, Normal
from ._exponential_family import Family, Identity
from ._moments import poisson_moments
from ._priors import BetaPrior, DirichletPrior, GammaPrior
from ._wide_priors import WideDirichletPrior


class Bernoulli(Identity):
    """Records 0 and 1, t(x) = x; the sum is binomial.  θ is the probability of 1, its prior a :class:`BetaPrior`.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import Bernoulli
    >>> Bernoulli().statistics(np.array([0.0, 1.0])).ravel()
    array([0., 1.])
    """

    names = ("bernoulli", "binomial")
    support = (0.0, 1.0)
    is_integer = True
    is_bounded = True
    prior_class = BetaPrior
    param_names = ("probability",)
    exact_law = "counts"

    def log_density(self, x: Array, theta: Array) -> Floats:
        x, p = _in_support(x, (x == 0) | (x == 1)), theta[:, :1]
        return np.where(np.isnan(x), -inf, xlogy(x, p) + xlog1py(1.0 - x, -p))

    def possible(self, theta: Array) -> Any:
        return (theta[:, 0] >= 0) & (theta[:, 0] <= 1)

    def mean(self, theta: Array) -> Array:
        return theta[:, 0]

    def draw(self, rng: np.random.Generator, theta: Array) -> Array:
        return (rng.random(len(theta)) < theta[:, 0]).astype(np.float64)

    def draw_sums(self, rng: np.random.Generator, theta: Array, n: Array) -> Floats:
        return rng.binomial(n, theta[:, 0])[:, None].astype(np.float64)

    def to_free(self, theta: Array) -> Array:
        return logit(np.clip(theta, 1e-100, 1.0 - 1e-15))

    @compiled
    def to_theta(self, v, theta):
        theta[0] = exp(-log1p_exp(-v[0]))

    @compiled
    def log_prior(self, v):
        """Log prior density of the logit: density θ^a (1-θ)^b."""
        return -self.alpha[0] * log1p_exp(-v[0]) - self.alpha[1] * log1p_exp(v[0])

    @compiled
    def moments(self, v, mean, root):
        mean[0] = exp(-log1p_exp(-v[0]))
        root[0, 0] = exp(-0.5 * (log1p_exp(v[0]) + log1p_exp(-v[0])))


class Multinomial(Family):
    """Categories 0..K-1, where t(x) is the indicator of each; the sums are the counts.

    θ has their probabilities, under a :class:`DirichletPrior` or a :class:`WideDirichletPrior`.

    Parameters
    ----------
    n_categories : int, optional
        K, at least 2.  None: not known yet.

    Raises
    ------
    ValueError
        On use, if ``n_categories`` is not such an integer.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import Multinomial
    >>> Multinomial(n_categories=3).statistics(np.array([2.0, 0.0]))
    array([[0., 0., 1.],
           [1., 0., 0.]])
    """

    names = ("multinomial", "categorical")
    is_integer = True
    is_bounded = True
    prior_class = DirichletPrior
    wide_prior_class = WideDirichletPrior
    exact_law = "counts"
    adds_up = True

    def __init__(self, n_categories: int | None = None) -> None:
        self.n_categories = n_categories

    def check(self) -> None:
        n = self.n_categories
        if n is not None and (not is_integer(n) or not 2 <= n <= MOST):
            raise ValueError(
                f"n_categories must be an integer from 2 to {MOST}, or None if not known yet, got n_categories={n!r}"
            )

    def wide_prior(self, bounds: Any) -> WideDirichletPrior:
        return WideDirichletPrior()

    @property
    def n_params(self) -> int | None:  # type: ignore[override]
        return self.n_categories

    @property
    def n_statistics(self) -> int | None:  # type: ignore[override]
        return self.n_categories

    @property
    def param_names(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"probability_{category}" for category in range(self.n_categories or 0))

    @property
    def labels(self) -> tuple[str, ...]:  # type: ignore[override]
        return tuple(f"x=={category}" for category in range(self.n_categories or 0))

    @property
    def support(self) -> tuple[float, float]:  # type: ignore[override]
        return 0.0, inf if self.n_categories is None else self.n_categories - 1.0

    def statistics(self, x: Array) -> Array:
        return (x[:, None] == np.arange(self.n_categories or 0)).astype(np.float64)

    def agrees(self, other: Family) -> bool:
        return type(other) is type(self) and self.n_categories in (None, other.get_params()["n_categories"])

    def with_statistics(self, n: int) -> Family:
        return self if self.n_categories == n else type(self)(n_categories=n)

    def statistic_range(self, x: Array) -> tuple[Array, Array]:
        return np.zeros(self.n_categories or 0), np.ones(self.n_categories or 0)

    def prediction(self, theta: Array) -> float:
        """Return the most probable category."""
        return int(np.argmax(theta.mean(axis=0)))

    def is_statistic(self, s: Array, n: float, slack: Array) -> bool:
        return super().is_statistic(s, n, slack) and (not n or bool(s.sum() == n))

    def nearest_statistic(self, s: Array, n: float) -> Array:
        share = np.maximum(s, 0.0)
        share = share / share.sum() if share.sum() > 0 else np.full(len(s), 1.0 / len(s))
        counts = np.floor(n * share)
        counts[np.argsort(counts - n * share)[: int(n - counts.sum())]] += 1.0  # the largest remainders
        return counts

    def log_density(self, x: Array, theta: Array) -> Floats:
        inside = (x >= 0) & (x < theta.shape[1]) & (x == np.floor(x))
        with np.errstate(divide="ignore"):
            log_p = np.log(theta[:, np.where(inside, x, 0).astype(np.intp)])
        return np.where(inside, log_p, -inf)

    def possible(self, theta: Array) -> Any:
        return np.all(theta >= 0, axis=1) & (np.abs(theta.sum(axis=1) - 1.0) < 1e-6)

    def mean(self, theta: Array) -> Array:
        return theta @ np.arange(theta.shape[1])

    def draw(self, rng: np.random.Generator, theta: Array) -> Array:
        below = np.cumsum(theta, axis=1)
        return (rng.random((len(theta), 1)) * below[:, -1:] >= below[:, :-1]).sum(axis=1).astype(np.float64)

    def draw_sums(self, rng: np.random.Generator, theta: Array, n: Array) -> Floats:
        return rng.multinomial(n, theta / theta.sum(axis=1, keepdims=True)).astype(np.float64)

    def diameter(self, lo: Any, hi: Any, norm: int) -> Any:
        """Two entries differ by 1."""
        return 2.0 if norm == 1 else sqrt(2.0)

    def radius(self, lo: Any, hi: Any, norm: int) -> Any:
        return 1.0


class Poisson(Identity):
    """Counts 0, 1, 2, ..., t(x) = x.  θ is the mean, its prior a :class:`GammaPrior`.

    Examples
    --------
    >>> from sklearn_dpmix.models import Poisson
    >>> Poisson().diameter(2, 10, norm=1)
    8.0
    """

    names = ("poisson",)
    support = (0.0, inf)
    is_integer = True
    prior_class = GammaPrior
    param_names = ("mean",)
    exact_law = "poisson"

    def default_prior(self, bounds: tuple[float, float] | None) -> GammaPrior:
        """Under bounds (lo, hi) the mean is exponential, hi/2 on average: 86 % of the prior is below hi."""
        return GammaPrior() if bounds is None else GammaPrior(shape=1.0, rate=2.0 / bounds[1])

    def log_density(self, x: Array, theta: Array) -> Floats:
        x = _in_support(x, (x >= 0) & (x == np.floor(x)))
        return np.where(np.isnan(x), -inf, xlogy(x, theta[:, :1]) - theta[:, :1] - gammaln(x + 1.0))

    def mean(self, theta: Array) -> Array:
        return theta[:, 0]

    def draw(self, rng: np.random.Generator, theta: Array) -> Array:
        return rng.poisson(np.minimum(theta[:, 0], 1e18)).astype(np.float64)  # NumPy refuses 1e19

    def draw_sums(self, rng: np.random.Generator, theta: Array, n: Array) -> Floats:
        return rng.poisson(n * theta[:, 0])[:, None].astype(np.float64)

    # θ is a rate there, too, with the same prior
    possible = GammaRecords.possible
    to_theta, log_prior = GammaRecords.to_theta, GammaRecords.log_prior

    @compiled
    def moments(self, v, mean, root):
        poisson_moments(exp(v[0]), self.lo, self.hi, self.outside, self.gain, self.offset, mean, root)


def _in_support(x, inside):
    """Records with NaN in place of those outside the support, as a row."""
    return np.where(inside, x, np.nan)[None, :]


#: Families by name, as in ``family="..."``.
FAMILIES: dict[str, type[Family]] = {
    name: family
    for family in (Bernoulli, Multinomial, Poisson, Exponential, Gamma, Normal, Beta)
    for name in family.names
}


def resolve_family(value: Family | str) -> Family:
    """Return the family that is meant: the object itself, or the one of that name with its default parameters.

    Parameters
    ----------
    value : str or Family

    Raises
    ------
    ValueError
        For a name that is not in ``FAMILIES``.
    TypeError
        For a value that is neither a name nor a family.

    Examples
    --------
    >>> from sklearn_dpmix.models import resolve_family
    >>> resolve_family("binomial")
    Bernoulli()
    """
    if isinstance(value, Family):
        return value
    known = ", ".join(f'"{name}"' for name in FAMILIES)
    if isinstance(value, str):
        if value in FAMILIES:
            return FAMILIES[value]()
        raise ValueError(f"family must be one of {known} or an object of sklearn_dpmix.models.Family, got {value!r}")
    refuse_class("family", value)
    raise TypeError(f"family must be one of {known} or an object of sklearn_dpmix.models.Family, got {value!r}")
