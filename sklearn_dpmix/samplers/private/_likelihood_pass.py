"""Passes over confidential records: sums of clipped log likelihood ratios and of clipped gradients.

For a model with compiled methods (:class:`LikelihoodModel`), a pass goes in fixed blocks on all cores, and makes
nothing of the size of the data.  The NumPy methods of any other model are called on all records at once.

A ratio that is NaN counts as 0, and so does a gradient without a finite length, or observed information that is not
finite: noise does not hide a NaN, and a sum that one record can make NaN reveals that record.
"""

from math import inf, sqrt
from typing import NamedTuple

import numpy as np

from ..._base.compiled import Component, compiled, entry, helper
from ._threads import in_threads

BLOCK = 8192
NO_ROWS = np.arange(0)


class Ratios(NamedTuple):
    """Results of a pass over log likelihood ratios."""

    total: float
    square: float  # sum of squared deviations from the mean
    n_clipped: int


class CompiledPass:
    """Passes over records with a model's compiled methods.

    Parameters
    ----------
    model : LikelihoodModel
    X : ndarray of shape (n_records, n_columns)
    """

    def __init__(self, model, X):
        self.value, self.X, self.shuffle = model._lower(), X, Shuffle()._lower()

    def ratios(self, theta, new, bound, rows=None):
        """Log ratios of all records, or of some, clipped to ±bound."""
        rows = NO_ROWS if rows is None else rows
        parts = self.value, self.X, theta, new, bound, rows
        return _pool(_blocks(len(rows) or len(self.X), lambda a, b: (b - a, *pass_ratios(*parts, a, b))))

    def gradient(self, theta, frame, bound):
        """Sum of the gradients Fᵀg of log p(x_i | θ), each clipped to length ``bound``."""
        parts = self.value, self.X, theta, frame, bound
        first, *rest = _blocks(len(self.X), lambda a, b: pass_gradient(*parts, a, b))
        return sum(rest, first)

    def batch(self, source, size, order):
        """``size`` different records, all sets equally likely; ``order``, any permutation, is shuffled for it."""
        shuffle_start(self.shuffle, order, source.random(size))
        return order[:size]


class PlainPass:
    """The same with NumPy methods ``log_density(X, theta)`` and ``grad_log_density(X, theta)``."""

    def __init__(self, model, X):
        self.model, self.X, self.shuffle = model, X, Shuffle()._lower()

    def ratios(self, theta, new, bound, rows=None):
        X = self.X if rows is None else self.X[rows]
        with np.errstate(all="ignore"):  # a warning would tell of a record
            r = np.asarray(self.model.log_density(X, new)) - np.asarray(self.model.log_density(X, theta))
        if r.shape != (len(X),):
            raise ValueError(
                f"log_density of {type(self.model).__name__} must return shape (n,) = {(len(X),)} for X of shape "
                f"{X.shape} and theta of shape {theta.shape}, got {r.shape}"
            )
        r = np.where(np.isnan(r) | (np.isinf(r) & (bound == inf)), 0.0, r)
        kept = np.minimum(np.maximum(r, -bound), bound)
        return Ratios(float(kept.sum()), float(np.sum((kept - kept.mean()) ** 2)), int(np.count_nonzero(kept != r)))

    def gradient(self, theta, frame, bound):
        with np.errstate(all="ignore"):
            g = np.asarray(self.model.grad_log_density(self.X, theta))
        if g.shape != (len(self.X), len(theta)):
            raise ValueError(
                f"grad_log_density of {type(self.model).__name__} must return shape (n, n_params) = "
                f"{(len(self.X), len(theta))}, got {g.shape}"
            )
        with np.errstate(all="ignore"):
            g = g @ frame
            lengths = np.sqrt(np.einsum("ij,ij->i", g, g))
        known = np.isfinite(lengths)
        g, lengths = np.where(known[:, None], g, 0.0), np.where(known, lengths, 0.0)
        return np.minimum(1.0, bound / np.maximum(lengths, 1e-300)) @ g

    batch = CompiledPass.batch


def observed_information(model, X, theta):
    """The model's, (n_params, n_params), of all records in X whose own is finite.

    The model sums over records itself: if a sum is not finite, the halves tell which record caused it.
    """
    with np.errstate(all="ignore"):
        total = np.asarray(model.observed_information(X, theta))
        if total.shape != (len(theta), len(theta)):
            raise ValueError(
                f"observed_information of {type(model).__name__} must return shape (n_params, n_params) = "
                f"{(len(theta), len(theta))}, got {total.shape}"
            )
        if np.all(np.isfinite(total)):
            return total
        if len(X) == 1:
            return np.zeros(total.shape)
        middle = len(X) // 2
        return sum(observed_information(model, half, theta) for half in (X[:middle], X[middle:]))


class Shuffle(Component):
    """The shuffle of Fisher and Yates."""

    @compiled
    def place(self, u, i, n):
        """The place that place i is swapped with."""
        return min(i + int(u * (n - i)), n - 1)


def _blocks(n, function):
    """``function(first, last)`` of blocks of records, in order whatever the number of threads."""
    starts = range(0, n, BLOCK)
    if len(starts) < 2:
        return [function(0, n)]
    return in_threads(lambda b: function(starts[b], min(starts[b] + BLOCK, n)), len(starts))


def _pool(parts):
    """Sums of blocks, (size, sum, squares, number clipped), joined into one (Chan, Golub & LeVeque 1983)."""
    n, total, square, n_clipped = parts[0]
    for size, more, more_square, more_clipped in parts[1:]:
        apart = more / size - total / n
        square += more_square + apart * apart * n * size / (n + size)
        total, n, n_clipped = total + more, n + size, n_clipped + more_clipped
    return Ratios(total, square, n_clipped)


@helper
def clip(r, bound):
    """A ratio clipped to ±bound, or 0."""
    if r != r or abs(r) == inf == bound:
        return 0.0
    return bound if r > bound else -bound if r < -bound else r


@entry
def pass_ratios(model, X, theta, new, bound, rows, first, last):
    """(sum, squared deviations, number clipped) of records rows[first..last-1], or first..last-1 for empty rows."""
    total, square, n_clipped, shift, is_batch = 0.0, 0.0, 0, 0.0, len(rows) > 0
    for k in range(first, last):
        r = model.record_log_ratio(X, rows[k] if is_batch else k, theta, new)
        kept = clip(r, bound)
        n_clipped += abs(r) > bound
        if k == first:
            shift = kept  # so that squares do not cancel
        total += kept - shift
        square += (kept - shift) * (kept - shift)
    n = last - first
    return total + n * shift, max(square - total * total / n, 0.0), n_clipped


@entry
def pass_gradient(model, X, theta, frame, bound, first, last):
    """Sum of clipped gradients of rows first..last-1."""
    n_params = len(theta)
    total, one, turned = np.zeros(n_params), np.zeros(n_params), np.zeros(n_params)
    for i in range(first, last):
        for j in range(n_params):
            one[j] = 0.0
        model.add_gradient(X, i, theta, one)
        length = 0.0
        for k in range(n_params):
            turned[k] = 0.0
            for j in range(n_params):
                turned[k] += frame[j, k] * one[j]
            length += turned[k] * turned[k]
        if not length < inf:
            continue
        shrink = bound / sqrt(length) if length > bound * bound else 1.0
        for k in range(n_params):
            total[k] += shrink * turned[k]
    return total


@entry
def shuffle_start(sampler, order, uniforms):
    """The first steps of a shuffle, in place."""
    for i in range(len(uniforms)):
        j = sampler.place(uniforms[i], i, len(order))
        order[i], order[j] = order[j], order[i]
