"""Channels of categories 0..K-1: checks of their inputs, and where a chain starts."""

from math import floor, inf

import numpy as np

from .._base.compiled import compiled
from .._base.parameters import HoldsText, check_array, positive_integer
from .._base.typing import Array, Floats
from ._channel import RecordChannel


class CategoryChannel(RecordChannel):
    """Base class.  A subclass has ``n_categories``; category c stands for the records in (c - ½, c + ½)."""

    piece_shape = "flat"
    of_integers = True
    n_categories: int | None
    #: More categories than this are taken to be a mistake
    most_categories = 2**31

    def chances(self, Z: Array) -> Floats:
        """Probability of each answer of encoded releases given each category, (features, categories, releases).

        Those of one answer may have a common factor.  Needed where ``n_answers`` is given.
        """
        raise NotImplementedError

    def guess_encoded(self, Z: Array) -> Floats:
        """As :meth:`guess`, of encoded releases: here these themselves, or their answers."""
        return Z

    def _n_categories(self):
        return positive_integer("n_categories", self.n_categories, least=2, most=self.most_categories)

    def _records(self, X):
        return self._check_categories(X, "X")

    def _check_categories(self, X, name):
        try:
            X = check_array(X, dtype=np.float64, input_name=name, estimator=type(self).__name__)
        except HoldsText as error:
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


class IndirectChannel(CategoryChannel):
    """Base class of channels whose releases are not categories themselves: one piece per category.

    A subclass lowers the field ``size``, K, and defines the compiled ``log_category(self, Z, i, j, c)``, the log
    probability of feature j of release i given category c.  It also defines ``_shares(Z)``, rough shares of the
    categories, (n_features, K), and either ``_likelihoods(Z, j)``, the likelihood of each category given feature j of
    each release, (n, K), or :meth:`guess` itself.
    """

    def moments(self, Z: Array) -> tuple[Floats, Floats]:
        """Mean and variance of the confidential categories by feature, from rough shares."""
        c, shares = np.arange(self._n_categories()), self._shares(Z)
        mean = shares @ c
        return mean, shares @ c**2 - mean**2 + 1.0 / 12.0

    def guess(self, Z: Array) -> Floats | None:
        """(n, n_features) categories near which a chain may start: the most probable ones."""
        best = [np.argmax(self._likelihoods(Z, j) * share, axis=1) for j, share in enumerate(self._shares(Z))]
        return np.column_stack(best).astype(np.float64)

    # --- compiled ----------------------------------------------------------------------------------------------------

    @compiled
    def log_channel(self, Z, i, j, y):
        return self.log_category(Z, i, j, int(min(max(floor(y + 0.5), 0.0), self.size - 1.0)))

    @compiled
    def n_pieces(self):
        return self.size

    @compiled
    def piece(self, Z, i, j, p):
        """The interval around a category; what is below the first or above the last counts as that category."""
        lo, hi = p - 0.5 if p > 0 else -inf, p + 0.5 if p < self.size - 1 else inf
        return lo, hi, 0.0, self.log_category(Z, i, j, p), 0.0, 0.0
