"""Randomised response over categories (Warner 1965; Kairouz, Bonawitz & Ramage 2016)."""

from fractions import Fraction
from math import exp, floor, inf
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._compiled import compiled, lower
from .._parameters import check_array, positive_array, refuse_seed
from .._random import as_generator
from .._typing import Array, Floats, Seed
from ..privacy import PrivacyGuarantee
from ._channel import RecordChannel

#: Probabilities are multiples of 1/(K CELLS) under ``secure=True``.
CELLS = 2**128


class RandomizedResponseMechanism(RecordChannel):
    """Release a record's category c in 0..K-1 with probability e^ε/(e^ε + K - 1), else one of the others at random.

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

    piece_shape = "flat"
    noised_kernels = frozenset({"categorical"})

    @property
    def has_one_law(self) -> bool:
        """Whether all records have one ε."""
        return np.size(self.epsilon) == 1

    def __init__(self, epsilon: ArrayLike | None = None, n_categories: int | None = None) -> None:
        self.epsilon = epsilon
        self.n_categories = n_categories

    def check(self, n_features: int | None = None) -> None:
        positive_array("epsilon", self.epsilon)
        self._n_categories()

    def _n_categories(self):
        value = self.n_categories
        if not isinstance(value, (int, np.integer)) or isinstance(value, bool) or not 2 <= value <= 2**31:
            raise ValueError(f"n_categories must be an integer of at least 2, got n_categories={value!r}")
        return int(value)

    def _epsilons(self, n_records):
        epsilon = np.atleast_1d(positive_array("epsilon", self.epsilon))
        if epsilon.shape not in ((1,), (n_records,)):
            raise ValueError(
                f"epsilon has shape {epsilon.shape}, but there are {n_records} records: give one number, "
                "or one a record"
            )
        return np.broadcast_to(epsilon, (n_records,))

    def log_probabilities(self, n_records: int, n_features: int) -> Any:
        """Log probabilities of the true category and of each other one, each of shape (n_records,)."""
        epsilon = self._epsilons(n_records) / n_features
        rest = np.log1p((self._n_categories() - 1) * np.exp(-epsilon))
        return -rest, -epsilon - rest

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one record's release; of the least protected record where each has its own ε."""
        epsilon = float(np.max(positive_array("epsilon", self.epsilon)))
        return PrivacyGuarantee.pure(epsilon)

    def _check_categories(self, X, name):
        try:
            X = check_array(X, dtype=np.float64, input_name=name, estimator=type(self).__name__)
        except ValueError as error:
            if "could not convert" not in str(error):
                raise
            raise ValueError(
                f"{name} must hold categories, integers from 0 to n_categories - 1 = {self._n_categories() - 1}: "
                f"encode text, e.g. by scikit-learn's OrdinalEncoder ({error})"
            ) from None
        self._check_values(X, name)
        return X

    def _check_values(self, X, name):
        wrong = (X != np.floor(X)) | (X < 0) | (X >= self._n_categories())
        if wrong.any():
            i, j = np.argwhere(wrong)[0]
            raise ValueError(
                f"{name} must hold categories, integers from 0 to n_categories - 1 = {self._n_categories() - 1}, but "
                f"row {i}, column {j} has {X[i, j]:g}: encode them, e.g. by scikit-learn's OrdinalEncoder"
            )

    def check_release(self, Z: ArrayLike) -> None:
        """Raise ValueError where Z cannot be a release of this mechanism."""
        self._check_values(Z, "Z")

    def privatize(self, X: ArrayLike, *, random_state: Seed = None, secure: bool = False) -> Array:
        """Release a category for each one.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features), integers 0..K-1
        random_state : int, Generator, RandomState or None
            For simulation.  A seed that made noise is a secret.
        secure : bool, default=False
            Draw from the operating system's entropy (``secrets``), with probabilities rounded in favour of privacy.

        Returns
        -------
        Z : ndarray of shape (n_records, n_features)
        """
        X = self._check_categories(X, "X")
        refuse_seed(secure, random_state)
        if secure:
            return self._secure(X)
        log_keep, _ = self.log_probabilities(*X.shape)
        keep = np.exp(log_keep)[:, None]
        rng = as_generator(random_state)
        shift = rng.integers(1, self._n_categories(), size=X.shape)
        return np.where(rng.random(X.shape) < keep, X, (X + shift) % self._n_categories())

    def _secure(self, X):
        from secrets import randbelow

        n_records, n_features = X.shape
        epsilon, K = self._epsilons(n_records) / n_features, self._n_categories()
        keeps = {one: integer_odds(one, K) for one in np.unique(epsilon).tolist()}
        released = X.copy()
        for i, j in np.ndindex(X.shape):
            if randbelow(K * CELLS) >= keeps[epsilon[i]]:
                released[i, j] = (X[i, j] + 1 + randbelow(K - 1)) % K
        return released

    def log_density(self, Z: ArrayLike, X: ArrayLike) -> Floats:
        """Log probability of each release given its confidential record, summed over features.

        Parameters
        ----------
        Z, X : array-like of shape (n_records, n_features), integers 0..K-1

        Returns
        -------
        log_density : ndarray of shape (n_records,)
        """
        Z, X = self._check_categories(Z, "Z"), self._check_categories(X, "X")
        if Z.shape != X.shape:
            raise ValueError(f"Z has shape {Z.shape}, but X {X.shape}: give one release a record")
        keep, other = self.log_probabilities(*X.shape)
        return np.where(Z == X, keep[:, None], other[:, None]).sum(axis=1)

    def _lower(self, *, n_records, n_features, **context):
        keep, other = self.log_probabilities(n_records, n_features)
        first = {"p_keep": float(np.exp(keep[0])), "p_other": float(np.exp(other[0]))}
        return lower(type(self), {"log_keep": keep, "log_other": other} | first)

    # --- compiled: a category c stands for the records in (c - ½, c + ½) ---------------------------------------------

    @compiled
    def log_channel(self, Z, i, j, y):
        return self.log_keep[i] if abs(y - Z[i, j]) < 0.5 else self.log_other[i]

    @compiled
    def answer(self, j, z, c):
        return self.p_keep if z == c else self.p_other

    @compiled
    def n_pieces(self):
        return 3

    @compiled
    def piece(self, Z, i, j, p):
        """Below the released category, in it, above it."""
        z = Z[i, j]
        if p == 0:
            return -inf, z - 0.5, 0.0, self.log_other[i], 0.0, 0.0
        if p == 1:
            return z - 0.5, z + 0.5, 0.0, self.log_keep[i], 0.0, 0.0
        return z + 0.5, inf, 0.0, self.log_other[i], 0.0, 0.0


def integer_odds(epsilon, n_categories):
    """Return t, with t/(K ``CELLS``) the probability of the true category: a little less than it should be.

    The others share the rest evenly, so that the ratio t (K - 1)/(K ``CELLS`` - t) must be from 1 to e^ε.  It is at
    most e^ε as t is rounded down, from an e^-ε that is rounded up, in whole numbers; and from 1 on with t at least
    ``CELLS``, the even odds that are all that an ε below 2^-50 gets.  e^-ε is 2^-90 at least, so that each category is
    possible.
    """
    other = Fraction(max(exp(-epsilon) * (1.0 + 2.0**-50), 2.0**-90))
    return max(floor(n_categories * CELLS / (1 + (n_categories - 1) * other)), CELLS)
