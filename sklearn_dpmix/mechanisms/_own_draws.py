"""How mechanisms release records by a law of their own: checks, a seed or secure draws, and the law's logarithm."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.generators import as_generator
from .._base.parameters import check_array, refuse_seed
from .._base.typing import Array, Floats, Seed


class OwnDraws:
    """Part of a mechanism, which defines ``_records(X)``: checked records, in the form that it works with.

    Of these ``_simulate(rng, records)`` and ``_secure(records)`` are a release, and ``_log_law(Z, records)`` is the log
    density of one.
    """

    _records: Any
    _simulate: Any
    _secure: Any
    _log_law: Any

    def privatize(self, X: ArrayLike, *, random_state: Seed = None, secure: bool = False) -> Array:
        """Release confidential records.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
        random_state : int, Generator, RandomState or None
            For simulation.  A seed that made noise is a secret.
        secure : bool, default=False
            Draw from the operating system's entropy (``secrets``), with probabilities rounded in favour of privacy;
            numbers with noise come from OpenDP (extra ``[secure]``).

        Returns
        -------
        Z : ndarray of shape (n_records, n_columns)
            One row per record, as the class describes; for a histogram of all records, a vector.
        """
        records = self._records(X)
        refuse_seed(secure, random_state)
        return self._secure(records) if secure else self._simulate(as_generator(random_state), records)

    def log_density(self, Z: ArrayLike, X: ArrayLike) -> Floats:
        """Log density, or log probability, of each release given its confidential record, summed over features.

        Parameters
        ----------
        Z : array-like, as :meth:`privatize` returns it
        X : array-like of shape (n_records, n_features)

        Returns
        -------
        log_density : ndarray of shape (n_records,)
            For a histogram of all records: one value for each number that was released.
        """
        return self._log_law(self._release(Z), self._records(X))

    def _release(self, Z):
        return check_array(Z, dtype=np.float64, input_name="Z", estimator=type(self).__name__)
