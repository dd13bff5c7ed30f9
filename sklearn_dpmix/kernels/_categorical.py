"""Categorical kernel with a Dirichlet base measure: latent classes of discrete records."""

from math import floor, inf, log
from typing import Any, Self

import numpy as np

from .._base.compiled import compiled, lower
from .._base.parameters import is_real, positive_integer
from .._base.restore import require, require_range, require_total
from .._base.typing import Array
from ._kernel import Kernel


class CategoricalKernel(Kernel):
    """Categories 0..K-1 with probabilities π ~ Dirichlet(alpha, ..., alpha); a product over features.

    "Densities" of records are probabilities of categories; anything but an integer in 0..K-1 has probability 0.

    Parameters
    ----------
    n_categories : int, optional
        K, the same for each feature.  None: the mechanism's (under additive noise, that of its bounds, 0 to K - 1);
        without a mechanism, one more than the largest category.
    alpha : float, default=1.0
        Parameter of the symmetric Dirichlet base measure.  Positive.

    References
    ----------
    Beraha, Favaro, Rao, §2.1 (randomised response); Dunson & Xing (2009) for mixtures of products of multinomials.

    Examples
    --------
    >>> from sklearn_dpmix.kernels import CategoricalKernel
    >>> CategoricalKernel(n_categories=4, alpha=0.5)
    CategoricalKernel(alpha=0.5, n_categories=4)
    """

    tilts = frozenset({"flat"})
    noised_as = "categorical"

    def __init__(self, n_categories: int | None = None, alpha: float = 1.0) -> None:
        self.n_categories = n_categories
        self.alpha = alpha

    def resolve(self, release: Any) -> Self:
        """Fill in ``n_categories``, and check that the release has no others."""
        n_categories = self.n_categories
        known = release.channel.n_categories
        if n_categories is None:
            n_categories = number_of_categories(release) if known is None else known
        positive_integer("n_categories", n_categories, most=2**31)
        if known is not None and n_categories != known:
            raise ValueError(
                f"n_categories={n_categories}, but mechanism={release.mechanism!r} has {known}: leave the kernel's out"
            )
        if not (is_real(self.alpha) and 0 < self.alpha < inf):
            raise ValueError(f"alpha must be a positive number, got alpha={self.alpha!r}")
        if release.mechanism is None:
            Z = release.Z
            if np.any((Z != np.floor(Z)) | (Z < 0) | (Z >= n_categories)):
                raise ValueError(
                    f"Z must hold categories, integers from 0 to {n_categories - 1}, for CategoricalKernel; got values "
                    f"in [{Z.min():g}, {Z.max():g}]: encode them, e.g. by scikit-learn's OrdinalEncoder"
                )
        return type(self)(n_categories=int(n_categories), alpha=self.alpha)

    def _n_categories(self) -> int:
        """K, which :meth:`resolve` fills in."""
        assert self.n_categories is not None
        return self.n_categories

    def sizes(self, n_features: int) -> tuple[int, int]:
        size = self._n_categories() * n_features
        return size, size

    def margin(self, j: int, n_features: int) -> tuple["CategoricalKernel", slice]:
        return self, slice(self._n_categories() * j, self._n_categories() * (j + 1))

    def nearest(self, records: Array) -> Array:
        """Categories: under noise on integers the release's guess may not be a category, and categories are indices."""
        return np.clip(np.rint(records), 0, self._n_categories() - 1)

    def check_state(self, theta: Array, records: Array) -> None:
        require_range(0, self._n_categories() - 1, records=records)
        require(records == np.floor(records), "records", "has categories that are not integers")
        n_columns = self.n_categories * records.shape[2]
        require_total(theta[:, :n_columns], np.arange(0, n_columns, self.n_categories))

    def _lower(self, *, n_features, **context):
        fields = {"n_features": n_features, "size": self.n_categories, "concentration": float(self.alpha)}
        return lower(type(self), fields | {"log_uniform": -np.log(self.n_categories)})

    @compiled
    def draw_prior(self, rng, theta, k):
        for j in range(self.n_features):
            for c in range(self.size):
                theta[k, self.size * j + c] = rng.standard_gamma(self.concentration)
            self.normalise(rng, theta, k, j)

    @compiled
    def normalise(self, rng, theta, k, j):
        """Divide by the sum; if a tiny concentration made all gammas underflow, one category gets everything."""
        total = 0.0
        for c in range(self.size):
            total += theta[k, self.size * j + c]
        if total == 0.0:
            theta[k, self.size * j + min(int(rng.random() * self.size), self.size - 1)] = total = 1.0
        for c in range(self.size):
            theta[k, self.size * j + c] /= total

    @compiled
    def add(self, stats, k, j, y, sign):
        stats[k, self.size * j + int(y)] += sign

    @compiled
    def update_params(self, rng, theta, k, stats, n):
        for j in range(self.n_features):
            for c in range(self.size * j, self.size * (j + 1)):
                theta[k, c] = rng.standard_gamma(self.concentration + max(stats[k, c], 0.0))
            self.normalise(rng, theta, k, j)

    @compiled
    def log_predictive(self, stats, k, n, j, y):
        """log p(y | the n records in ``stats[k]``), Dirichlet–multinomial."""
        count = stats[k, self.size * j + int(y)]
        return log((self.concentration + count) / (self.concentration * self.size + n))

    @compiled
    def has_base_predictive(self):
        return True

    @compiled
    def log_base_predictive(self, j, y):
        return self.log_uniform if y == floor(y) and 0.0 <= y < self.size else -inf

    @compiled
    def has_density(self):
        return False

    @compiled
    def log_likelihood(self, theta, k, j, y):
        if y != floor(y) or y < 0.0 or y >= self.size:
            return -inf
        p = theta[k, self.size * j + int(y)]
        return log(p) if p > 0.0 else -inf

    @compiled
    def peak(self, theta, k, j):
        return 1.0

    @compiled
    def log_relative(self, theta, k, j, y):
        p = theta[k, self.size * j + int(y)]
        return log(p) if p > 0.0 else -inf

    @compiled
    def draw(self, rng, theta, k, j):
        return self.draw_tilted(rng, theta, k, j, -inf, inf, 0.0, 0.0, 0.0)

    @compiled
    def cdf(self, theta, k, j, y):
        total = 0.0
        for c in range(self.first_above(-inf), self.first_above(y)):
            total += theta[k, self.size * j + c]
        return min(total, 1.0)

    @compiled
    def mean(self, theta, k, j):
        total = 0.0
        for c in range(self.size):
            total += c * theta[k, self.size * j + c]
        return total

    @compiled
    def variance(self, theta, k, j):
        mean, total = self.mean(theta, k, j), 0.0
        for c in range(self.size):
            total += (c - mean) ** 2 * theta[k, self.size * j + c]
        return total

    # --- flat tilts: the categories in (lo, hi) ----------------------------------------------------------------------

    @compiled
    def first_above(self, y):
        """The first category greater than y; ``size`` if there is none."""
        return int(floor(min(max(y, -1.0), self.size - 1.0))) + 1

    @compiled
    def log_tilted_mass(self, theta, k, j, lo, hi, anchor, slope, curvature):
        total = 0.0
        for c in range(self.first_above(lo), self.first_above(hi)):
            total += theta[k, self.size * j + c]
        return log(total) if total > 0.0 else -inf

    @compiled
    def draw_tilted(self, rng, theta, k, j, lo, hi, anchor, slope, curvature):
        first, last = self.first_above(lo), self.first_above(hi)
        total = 0.0
        for c in range(first, last):
            total += theta[k, self.size * j + c]
        u, chosen = rng.random() * total, first
        for c in range(first, last):
            if theta[k, self.size * j + c] > 0.0:
                chosen = c
                u -= theta[k, self.size * j + c]
                if u < 0.0:
                    break
        return float(chosen)


def number_of_categories(release: Any) -> int:
    """K if the mechanism has no ``n_categories``: by its bounds, not by a release, which noise has moved."""
    if release.mechanism is None:
        return int(max(release.Z.max(), 0.0)) + 1  # negative ones are refused as they are
    bounds = release.bounds()
    if bounds is None or np.any(bounds != [0.0, np.floor(bounds[0, 1])]):
        raise ValueError(
            f"n_categories=None, but mechanism={release.mechanism!r} does not say how many categories there are: pass "
            "kernel=CategoricalKernel(n_categories=...), or a mechanism with bounds=(0, n_categories - 1)"
        )
    return int(bounds[0, 1]) + 1
