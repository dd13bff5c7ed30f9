"""Predictors of a regression with a histogram each: the public class, and their part of data augmentation.

Each predictor is independent of the others and has K + 2 cells: its lower bound, K bins of one width, in each of which
it is uniform, and its upper bound.  With c_jk of n records in cell k of predictor j, and a = concentration / (K + 2),

    shares of j | records ~ Dirichlet(a + c_j0, ..., a + c_j,K+1).

Parameters, flat, after the regression's own p + 2: the K + 2 shares of the first predictor, of the second, ...
"""

from math import inf
from numbers import Real

import numpy as np
from scipy.special import ndtr
from sklearn.base import BaseEstimator

from .._base.compiled import compiled, helper, lower
from .._base.numeric import draw_weighted
from .._base.parameters import is_integer
from .._base.restore import require
from .._base.typing import Floats
from ._cell_counts import choose_cell, mean_square, middle, propose_change
from ._predictor_law import PredictorLaw
from ._shares import dirichlet_from_counts

#: Number of records that the first shares of a chain count for; a small one makes chains start apart.
START_WEIGHT = 20.0


class HistogramPredictors(BaseEstimator):
    """Model of a regression's predictors: each has a histogram on its public bounds, which is inferred from the
    release.

    A predictor is at its lower bound, or uniform in one of ``n_bins`` bins of one width, or at its upper bound.  Each
    of these cells has a share of the population; shares have a Dirichlet prior.  The bounds have their own cells, for
    predictors that are 0 or 1, and for predictors that were clamped before y depended on them.  Predictors are
    independent of each other and within their bounds; y | x ~ N(α + xβ, σ²) is clamped to its bounds.

    Parameters
    ----------
    n_bins : int, default=10
        Number of bins for each predictor, at least 1.  A predictor that varies less than the width of a bin needs more.
    concentration : float, default=2.0
        Concentration of the Dirichlet prior of each predictor's shares: the prior is worth this many records, with the
        same number in each of the n_bins + 2 cells.  A large one says that predictors are spread evenly.

    Notes
    -----
    The confidential records are imputed: Ju, Awan, Gong, Rao (2022), "Data augmentation MCMC for Bayesian inference
    from privatized data", Algorithm 1, with this distribution of x.  A release has two moments of each predictor; the
    rest of its shape comes from the prior.  This matters for the coefficients if much of y is clamped, and hardly ever
    otherwise; in that case many records change their cells at once in each sweep.

    Examples
    --------
    >>> from sklearn_dpmix.models import HistogramPredictors
    >>> HistogramPredictors(n_bins=20)
    HistogramPredictors(n_bins=20)
    """

    #: The draws of a fit that determine the distribution of new predictors.
    _draw_names = ("x_share",)

    def __init__(self, n_bins: int = 10, concentration: float = 2.0) -> None:
        self.n_bins = n_bins
        self.concentration = concentration

    def check(self) -> None:
        """Raise ValueError if a parameter is wrong."""
        n_bins, concentration = self.n_bins, self.concentration
        if not (is_integer(n_bins) and 1 <= n_bins <= 10_000):
            raise ValueError(f"HistogramPredictors: n_bins must be a whole number from 1 to 10000, got {n_bins=!r}")
        if not isinstance(concentration, Real) or isinstance(concentration, bool) or not 0 < concentration < inf:
            raise ValueError(f"HistogramPredictors: concentration must be a positive number, got {concentration=!r}")

    def scaled(self, bounds: Floats) -> "HistogramPredictors":
        """Return the model, checked; it is the same for any ``bounds``."""
        self.check()
        return self

    def _law(self, bounds: Floats) -> "HistogramLaw":
        """Return the component of compiled code, for ``bounds`` of shape (p + 1, 2)."""
        return HistogramLaw(bounds[:-1], int(self.n_bins), self.concentration / (self.n_bins + 2.0))

    def _draw(self, rng: np.random.Generator, draw: dict[str, Floats], n: int, bounds: Floats) -> Floats:
        """Return the predictors of n new records under one posterior draw of the quantities in ``_draw_names``."""
        columns = []
        for (lo, hi), share in zip(bounds[:-1], draw["x_share"], strict=True):
            edges = cell_edges(lo, hi, self.n_bins)
            cells = rng.choice(len(share), size=n, p=share / share.sum())
            columns.append(rng.uniform(edges[cells], edges[cells + 1]))
        return np.column_stack(columns)


def cell_edges(lo, hi, n_bins):
    """Where the cells begin and end, (n_bins + 3,): the first and the last are the bounds, and have no width."""
    return np.concatenate([[lo], np.linspace(lo, hi, n_bins + 1), [hi]])


class HistogramLaw(PredictorLaw):
    """Predictors with a histogram each, as data augmentation sees them.

    Parameters
    ----------
    bounds : ndarray of shape (p, 2)
    n_bins : int
    alpha : float
        Parameter of the Dirichlet prior, for each cell.
    """

    def __init__(self, bounds, n_bins, alpha):
        self.bounds = bounds
        self.n_bins = n_bins
        self.alpha = alpha

    n_scratch = 1

    def _lower(self, **context):
        lo, hi = self.bounds.T
        fields = {
            "p": len(lo),
            "n_cells": self.n_bins + 2,
            "low": lo,
            "high": hi,
            "bin_width": (hi - lo) / self.n_bins,
            "centre": 0.5 * (lo + hi),
            "rate": 2.0 / (hi - lo),
            "alpha": self.alpha,
        }
        return lower(type(self), fields)

    @property
    def n_params(self):
        return len(self.bounds) * (self.n_bins + 2)

    @property
    def has_shape(self):
        """Whether there are the four cells that a change of counts needs."""
        return self.n_bins >= 2

    def start(self, centre, spread, rng):
        """Near the cells' probabilities under a normal distribution, with the mass beyond the bounds put on them."""
        parts = []
        for (lo, hi), mean, variance in zip(self.bounds, centre, np.diag(spread), strict=True):
            below = ndtr((np.linspace(lo, hi, self.n_bins + 1) - mean) / np.sqrt(variance))
            probabilities = np.diff(below, prepend=0.0, append=1.0)
            parts.append(rng.dirichlet(np.maximum(self.alpha + START_WEIGHT * probabilities, 1e-3)))
        return np.concatenate(parts)

    def check(self, theta):
        n_cells = self.n_bins + 2
        shares = theta.reshape(len(theta), theta.shape[1] // n_cells, n_cells)  # there may be no draws yet
        require(shares >= 0, "theta", "has shares that are negative")
        require(np.abs(shares.sum(axis=-1) - 1.0) < 1e-9, "theta", "has shares that do not add up to 1")

    def draws(self, theta, bounds):
        shares = theta.reshape(*theta.shape[:-1], len(bounds), self.n_bins + 2)
        mean, covariance = np.empty(shares.shape[:-1]), np.zeros((*shares.shape[:-1], len(bounds)))
        for j, (lo, hi) in enumerate(bounds):
            edges = cell_edges(lo, hi, self.n_bins)
            middle, within = 0.5 * (edges[1:] + edges[:-1]), np.diff(edges) ** 2 / 12.0
            mean[..., j] = shares[..., j, :] @ middle
            gaps = middle - mean[..., j, None]
            covariance[..., j, j] = np.sum(shares[..., j, :] * (gaps**2 + within), axis=-1)
        return {"x_mean": mean, "x_covariance": covariance, "x_share": shares}

    # --- compiled ----------------------------------------------------------------------------------------------------

    @compiled
    def draw(self, rng, theta, records, i):
        for j in range(self.p):
            k = draw_weighted(rng, theta, first_share(self, j), self.n_cells, 1.0)
            records[i, j] = self.place(rng, j, k)

    @compiled
    def place(self, rng, j, k):
        """Predictor j in its cell k."""
        if k == 0:
            return self.low[j]
        if k == self.n_cells - 1:
            return self.high[j]
        return self.low[j] + self.bin_width[j] * (k - 1 + rng.random())

    @compiled
    def cell(self, j, x):
        """The cell of predictor j that has x."""
        if x <= self.low[j]:
            return 0
        if x >= self.high[j]:
            return self.n_cells - 1
        return min(1 + int((x - self.low[j]) / self.bin_width[j]), self.n_cells - 2)

    @compiled
    def update(self, rng, theta, records, n, sums, matrix, vector, scratch):
        """Shares given the records' cells: Dirichlet."""
        for j in range(self.p):
            first = first_share(self, j)
            for k in range(self.n_cells):
                theta[first + k] = 0.0
            for i in range(n):
                theta[first + self.cell(j, records[i, j])] += 1.0
            dirichlet_from_counts(rng, self.alpha, theta, first, self.n_cells)

    @compiled
    def standardise(self, theta, records, i, row):
        """z is x: the moves keep it."""
        for j in range(self.p):
            records[row, j] = records[i, j]

    @compiled
    def count(self, records, n, j, counts):
        """How many records are in each cell of predictor j."""
        for k in range(self.n_cells):
            counts[k] = 0.0
        for i in range(n):
            counts[self.cell(j, records[i, j])] += 1.0

    @compiled
    def propose(self, rng, n, counts, cells, direction, change):
        """Propose ``change`` for the counts of n records; return the log ratio, with shares integrated out."""
        return propose_change(rng, self.alpha, self.n_cells, n, counts, cells, direction, change)

    @compiled
    def change_moments(self, change):
        """The changes of Σ x and Σ x², for x on [-1, 1] and each record in the middle of its cell."""
        first, second = 0.0, 0.0
        for k in range(self.n_cells):
            first += change[k] * middle(self.n_cells, k)
            second += change[k] * mean_square(self.n_cells, k)
        return first, second

    @compiled
    def relocate(self, rng, records, n, j, counts, change, column):
        """Write predictor j after the change of ``counts`` into ``column``; uses up both.

        Records that leave their cells are chosen at random, as are those that a cell gains.  Each keeps its place
        within the bin, or gets a random one if it comes from a bound.
        """
        for i in range(n):
            x = records[i, j]
            k = self.cell(j, x)
            if change[k] < 0.0:
                leaves = rng.random() * counts[k] < -change[k]
                counts[k] -= 1.0
                if leaves:
                    change[k] += 1.0
                    to = choose_cell(rng, change, self.n_cells)
                    inside = 0 < k < self.n_cells - 1 and 0 < to < self.n_cells - 1
                    x = x + self.bin_width[j] * (to - k) if inside else self.place(rng, j, to)
            records[i, column] = x

    @compiled
    def set_coefs(self, theta, coefs):
        for j in range(self.p):
            for r in range(self.p + 2):
                coefs[j, r] = 0.0
            coefs[j, 0] = -self.centre[j] * self.rate[j]
            coefs[j, 1 + j] = self.rate[j]


@helper
def first_share(law, j):
    """Where the shares of predictor j begin in θ."""
    return law.p + 2 + j * law.n_cells
