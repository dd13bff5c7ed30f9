"""Randomised response over categories (Warner 1965; Kairouz, Bonawitz & Ramage 2016)."""

from fractions import Fraction
from math import exp, floor, inf

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled, lower
from .._base.parameters import check_one_each
from .._base.typing import Array, Floats
from ._categories import CategoryChannel
from ._channel import Share
from ._losses import RecordLosses
from ._own_draws import OwnDraws

#: Probabilities of one of K values are multiples of 1/(K CELLS) under ``secure=True``.
CELLS = 2**128


class RandomizedResponseMechanism(OwnDraws, RecordLosses, CategoryChannel):
    """Release a record's category c in 0..K-1 with probability e^ε/(e^ε + K - 1), otherwise another at random.

    A record of d categories spends ε/d on each.

    Parameters
    ----------
    epsilon : float or array of shape (n_records,)
        Privacy loss of a record; an array gives every record its own.
    n_categories : int
        K, at least 2.

    Raises
    ------
    ValueError
        On use, for a parameter out of range; for records or releases that are not integers 0..K-1.

    References
    ----------
    Warner (1965); Kairouz, Bonawitz, Ramage (2016); Beraha, Favaro, Rao, §2.1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import RandomizedResponseMechanism
    >>> mechanism = RandomizedResponseMechanism(epsilon=1.0, n_categories=4)
    >>> mechanism.privatize(np.array([[0], [3], [2]]), random_state=0).ravel()
    array([0., 3., 0.])
    >>> mechanism.guarantee().epsilon
    1.0
    """

    noised_kernels = frozenset({"categorical"})

    @property
    def n_answers(self) -> int | None:  # type: ignore[override]
        """K."""
        return self.n_categories

    def __init__(self, epsilon: ArrayLike | None = None, n_categories: int | None = None) -> None:
        self.epsilon = epsilon
        self.n_categories = n_categories

    def check(self, n_features: int | None = None) -> None:
        self._losses()
        self._n_categories()

    def log_probabilities(self, n_records: int, n_features: int) -> tuple[Floats, Floats]:
        """Log probabilities of the true category and of each other category, each of shape (n_records,)."""
        epsilon = self._losses_of(n_records, n_features)
        rest = np.log1p((self._n_categories() - 1) * np.exp(-epsilon))
        return -rest, -epsilon - rest

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""
        self._check_values(Z, "Z")

    def _release(self, Z):
        return self._check_categories(Z, "Z")

    def _simulate(self, rng, X):
        log_keep, _ = self.log_probabilities(*X.shape)
        keep = np.exp(log_keep)[:, None]
        shift = rng.integers(1, self._n_categories(), size=X.shape)
        return np.where(rng.random(X.shape) < keep, X, (X + shift) % self._n_categories())

    def _secure(self, X):
        from secrets import randbelow

        epsilon, K = self._losses_of(*X.shape), self._n_categories()
        keeps = {one: integer_odds(one, K) for one in np.unique(epsilon).tolist()}
        released = X.copy()
        for i, j in np.ndindex(X.shape):
            if randbelow(K * CELLS) >= keeps[epsilon[i]]:
                released[i, j] = (X[i, j] + 1 + randbelow(K - 1)) % K
        return released

    def _log_law(self, Z, X):
        check_one_each(Z, X)
        keep, other = self.log_probabilities(*X.shape)
        return np.where(Z == X, keep[:, None], other[:, None]).sum(axis=1)

    def shares(self, Z: Array) -> list[Share]:
        """Of each answer; all that nobody gave are alike."""
        found: list[Share] = []
        if not self.has_one_law:
            return found
        keep, other = (float(np.exp(one[0])) for one in self.log_probabilities(1, Z.shape[1]))
        for j in range(Z.shape[1]):
            answers, counts = np.unique(Z[:, j], return_counts=True)
            given = zip(answers, counts / len(Z), strict=True)
            found += [Share(f"answer {z:g} in feature {j}", share, other, keep) for z, share in given]
            if (n_others := self._n_categories() - len(answers)) > 0:
                found.append(Share(f"an answer that nobody gave in feature {j}", 0.0, other, keep, n_others))
        return found

    def chances(self, Z: Array) -> Floats:
        n_records = 1 if self.has_one_law else len(Z)
        keep, other = (np.exp(one) for one in self.log_probabilities(n_records, Z.shape[1]))
        return np.where(Z.T[:, None] == np.arange(self._n_categories())[:, None], keep, other)

    def _lower(self, *, n_records, n_features, **context):
        n, each = self._number_of_losses(n_records)
        keep, other = self.log_probabilities(n, n_features)
        fields = {"log_keep": keep, "log_other": other, "each": each, "top": self._n_categories() - 1.0}
        return lower(type(self), fields)

    # --- compiled: a category c stands for the records in (c - ½, c + ½) ---------------------------------------------

    @compiled
    def log_channel(self, Z, i, j, y):
        c = floor(min(max(y, 0.0), self.top) + 0.5)
        return self.log_keep[i * self.each] if c == Z[i, j] else self.log_other[i * self.each]

    @compiled
    def n_pieces(self):
        return 3

    @compiled
    def piece(self, Z, i, j, p):
        """Below the released category, in it, above it; what is beyond the categories counts as the nearest."""
        z = Z[i, j]
        lo, hi = z - 0.5 if z > 0.0 else -inf, z + 0.5 if z < self.top else inf
        if p == 0:
            return -inf, lo, 0.0, self.log_other[i * self.each], 0.0, 0.0
        if p == 1:
            return lo, hi, 0.0, self.log_keep[i * self.each], 0.0, 0.0
        return hi, inf, 0.0, self.log_other[i * self.each], 0.0, 0.0


def integer_odds(epsilon, n_values, n_inside=1):
    """Return t, with t/(n ``CELLS``) the probability of being inside: a little less than it should be.

    It is shared evenly by k = ``n_inside`` of n values (the true category or a window), and the rest is shared by the
    others.  So the ratio of two values' probabilities, t (n - k)/(k (n ``CELLS`` - t)), must be from 1 to e^ε.  It is
    at most e^ε because t is rounded down, from an e^-ε that is rounded up, in whole numbers.  It is at least 1 because
    t is at least k ``CELLS``; these are even odds, which is all that an ε below 2^-50 gets.  e^-ε is at least 2^-90, so
    that each value is possible.
    """
    other = Fraction(max(exp(-epsilon) * (1.0 + 2.0**-50), 2.0**-90))
    odds = 1 + Fraction(n_values - n_inside, n_inside) * other
    return max(floor(n_values * CELLS / odds), n_inside * CELLS)
