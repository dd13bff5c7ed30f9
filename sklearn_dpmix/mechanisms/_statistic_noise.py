"""Noise on the statistics of a whole data set, for estimators that simulate them (Gong 2022, Definition 2)."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.generators import as_generator
from .._base.one_line import OneLine
from .._base.parameters import check_array, check_flag, positive_number
from .._base.typing import Array, Floats, Seed
from ._statistic_releases import least_records, neighbours_of


class StatisticNoise(OneLine):
    """Base class of mechanisms s(x) + noise, where the noise may be joint over the k numbers or depend on the data.

    An estimator that simulates statistics uses :meth:`n_columns`, :meth:`release_density` and :meth:`log_release_mode`.
    A subclass defines ``_statistics(X)``, what a simulator would return for confidential records X, of shape (rows,
    n_columns); ``_draw(rng, statistics)``, noise of shape (rows, k); ``_log_noise(E, statistics, widen)``, the log
    density of such noise, row by row; and ``_log_peak(k)``, the largest value that it takes.
    """

    #: one statistic of all records is released, not records one by one
    is_local = False
    is_histogram = False
    #: columns of the statistics that are not released
    n_hidden = 0
    query: Any = None

    def check(self, n_features: int | None = None) -> None:
        """Raise ValueError or TypeError if a parameter is wrong."""

    def check_width(self, k: int) -> None:
        """Raise ValueError if this mechanism cannot release k numbers."""

    def n_columns(self, k: int) -> int:
        """Return how many columns a simulator must return for a release of k numbers.

        Parameters
        ----------
        k : int

        Returns
        -------
        n_columns : int
            k, or one more if the noise depends on the data: the last column is then their smooth sensitivity.
        """
        self.check_width(k)
        return k + self.n_hidden

    def privatize(self, X: ArrayLike, *, random_state: Seed = None, secure: bool = False) -> Array:
        """Release the query's value with noise.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Confidential records.  If the mechanism has no query: statistics (n_rows, k), and each row gets its own
            noise.
        random_state : int, Generator, RandomState or None
            For simulation.  A seed that made noise is a secret: whoever knows it can remove the noise.
        secure : bool, default=False
            Not available: ValueError.  NumPy's floating-point noise can reveal records.

        Returns
        -------
        Z : ndarray of shape (k,), or (n_rows, k) without a query

        Raises
        ------
        ValueError
            For records that are not finite or do not fit, and for a bad parameter.
        """
        if check_flag("secure", secure):
            raise ValueError(f"{type(self).__name__} has no secure=True: it draws with NumPy only")
        statistics = self._statistics(self._records("X", X, least_records(self.query)))
        Z = statistics[:, : self._k(statistics)] + self._draw(as_generator(random_state), statistics)
        return Z if self.query is None else Z[0]

    def log_density(self, Z: ArrayLike, X: ArrayLike) -> Floats:
        """Log density of releases given the confidential records.

        Parameters
        ----------
        Z : array-like of shape (n_releases, k)
            Releases of the same records; without a query, one row for each row of ``X``.
        X : array-like of shape (n_records, n_features)
            Confidential records.

        Returns
        -------
        log_density : ndarray of shape (n_releases,), one for each row of ``Z``

        Raises
        ------
        ValueError
            For shapes that do not fit, values that are not finite, and a bad parameter.
        """
        Z, statistics = self._records("Z", Z), self._statistics(self._records("X", X))
        if self.query is not None:
            statistics = np.repeat(statistics, len(Z), axis=0)
        k = self._k(statistics)
        if Z.shape != (len(statistics), k):
            raise ValueError(f"Z must have the shape of a release of X, {(len(statistics), k)}, got {Z.shape}")
        return self._log_noise(Z - statistics[:, :k], statistics, 1.0)

    def release_density(self, S: Array, widen: float = 1.0) -> Callable[[Array], Floats]:
        """The log density of releases, as a function of statistics that were simulated.

        Parameters
        ----------
        S : array-like of shape (n_releases, k)
            Releases of one confidential data set; (k,) is one.
        widen : float, default=1.0
            Factor by which the noise's scale is multiplied: wider noise is easier to sample from, on the way to the
            true one.

        Returns
        -------
        log_density : callable
            Takes statistics of shape (size, n_columns), with the columns that :meth:`n_columns` asks for, and returns
            (size,), summed over the releases; raises ValueError for another shape.
        """
        S = np.atleast_2d(np.asarray(S, dtype=np.float64))
        return partial(self._log_releases, S, positive_number("widen", widen))

    def _log_releases(self, S, widen, statistics):
        statistics, k = np.asarray(statistics, dtype=np.float64), S.shape[-1]
        if S.ndim != 2 or statistics.ndim != 2 or statistics.shape[1] != self.n_columns(k):
            raise ValueError(
                f"statistics must have shape (size, {self.n_columns(k)}) for a release of {k} number(s) through "
                f"{type(self).__name__}, got statistics of shape {statistics.shape} and a release of shape {S.shape}"
            )
        return sum(self._log_noise(s - statistics[:, :k], statistics, widen) for s in S)

    def log_densities_given(self, S: Array, statistics: Array) -> Floats:
        """Log density of each release given each row of statistics before noise: (size, n_releases)."""
        return np.column_stack([self.release_density(s[None])(statistics) for s in S])

    def releases_given(self, statistics: Array, n_releases: int, rng: np.random.Generator) -> Floats:
        """Simulate ``n_releases`` releases of each row of statistics before noise: (size, n_releases, n_statistics)."""
        noise = [self._draw(rng, statistics) for _ in range(n_releases)]
        return statistics[:, None, : self._k(statistics)] + np.stack(noise, axis=1)

    def log_release_mode(self, S: ArrayLike) -> float | None:
        """Return what :meth:`release_density` at these releases never exceeds, whatever the statistics.

        Parameters
        ----------
        S : array-like of shape (n_releases, k)

        Returns
        -------
        log_mode : float
            The largest value for one release; for several, the sum of these.  +inf if no bound is known.
        """
        n_releases, k = np.atleast_2d(np.asarray(S, dtype=np.float64)).shape
        self.check_width(k)
        return n_releases * self._log_peak(k)

    def _neighbours(self):
        return neighbours_of(self.query)

    def _check_query(self, words):
        if self.query is None:
            raise ValueError(
                f"{type(self).__name__}.guarantee() needs query=: {words} how large the noise is, not what it was "
                "added to"
            )

    def _k(self, statistics):
        return statistics.shape[1] - self.n_hidden

    def _records(self, name, X, least=1):
        options = {"dtype": np.float64, "order": "C", "estimator": type(self).__name__}
        return check_array(X, **options, input_name=name, ensure_min_samples=least)
