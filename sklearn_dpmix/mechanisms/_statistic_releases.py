"""The release of any statistic through additive noise, as inference that simulates statistics sees it."""

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import entry
from .._base.typing import Array, Floats


def least_records(query: Any) -> int:
    """Fewest records of a release: where neighbours add or remove one, a refusal of none would tell them apart."""
    return 0 if getattr(query, "neighbours", "replace") == "add_remove" else 1


def neighbours_of(query: Any) -> str:
    """Which data sets are neighbours, in words."""
    return "replace one record" if least_records(query) else "add or remove one record"


class StatisticReleases:
    """The part of :class:`AdditiveMechanism` that is about statistics before noise, wherever they come from."""

    _lower: Any
    scales: Any
    bounds_for: Any
    clamp: Any
    draw_noise: Any
    is_discrete: Any

    def n_columns(self, n_statistics: int) -> int:
        """How many numbers a simulator returns for a release of ``n_statistics``: the same number."""
        return n_statistics

    def release_density(self, S: Array, widen: float = 1.0) -> Callable[[Array], Floats]:
        """The log density of releases, as a function of the statistics before noise.

        Parameters
        ----------
        S : ndarray of shape (n_releases, n_statistics)
            Releases of the same statistics.
        widen : float, default=1.0
            Factor by which the noise's scale is multiplied.

        Returns
        -------
        log_density : callable
            Takes statistics, before bounds, of shape (size, n_columns), and returns (size,), summed over releases.

        Raises
        ------
        TypeError
            To widen the noise of a mechanism without a parameter ``scale``.

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
        >>> LaplaceMechanism(scale=1.0).release_density(np.array([[1.5]]))(np.array([[1.0], [1.5]])).round(4)
        array([-1.1931, -0.6931])
        """
        mechanism = self if widen == 1.0 else self._widened(widen, S.shape[1])
        return partial(_evaluate, mechanism._lower(n_records=len(S), n_features=S.shape[1]), np.array(S))

    def log_densities_given(self, S: Array, statistics: Array) -> Floats:
        """Log density of each release given each row of statistics before noise: (size, n_releases)."""
        channel, table = self._lower(n_records=len(S), n_features=S.shape[1]), np.empty((len(statistics), len(S)))
        for row, statistic in zip(table, statistics, strict=True):
            row[:] = log_densities(channel, S, np.tile(statistic, (len(S), 1)))
        return table

    def releases_given(self, statistics: Array, n_releases: int, rng: np.random.Generator) -> Floats:
        """Simulate ``n_releases`` releases of each row of statistics before noise: (size, n_releases, n_statistics)."""
        size, k = statistics.shape
        bounds = self.bounds_for(k)
        if bounds is not None and self.clamp:
            statistics = np.clip(statistics, bounds[:, 0], bounds[:, 1])
        if self.is_discrete:
            statistics = np.floor(statistics + 0.5)  # what its noise goes on
        shape = size, n_releases, k
        scale = np.broadcast_to(self.scales(n_releases, k)[:, None], shape)
        return statistics[:, None] + self.draw_noise(rng, scale, shape)

    def log_release_mode(self, S: ArrayLike) -> float | None:
        """Largest value of :meth:`release_density` at these releases, whatever the statistics; for some noises a bound.

        Noise has its mode at 0, so a single release has its largest density given itself, and several releases given
        their :meth:`likeliest_value`.  If that is not known, the sum of their modes is a bound.

        Parameters
        ----------
        S : ndarray of shape (n_releases, n_statistics)

        Returns
        -------
        log_mode : float

        Examples
        --------
        >>> import numpy as np
        >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
        >>> mechanism, S = LaplaceMechanism(scale=1.0), np.array([[1.0], [2.0], [9.0]])
        >>> mode = mechanism.log_release_mode(S)
        >>> bool(mode == mechanism.release_density(S)(np.array([[2.0]]))[0])  # at the median
        True
        """
        S = np.atleast_2d(np.asarray(S, dtype=np.float64))
        scale = np.broadcast_to(self.scales(*S.shape), (len(S),))
        best = S[0] if len(S) == 1 else self.likeliest_value(S, scale)
        if best is not None:  # bounds clip it: densities fall on both sides
            return float(self.release_density(S)(self._within_bounds(best)[None])[0])
        at = self._within_bounds(np.zeros(S.shape[1]))
        return float(self.release_density(np.tile(at, (len(S), 1)))(at[None])[0])

    def likeliest_value(self, S: Array, scale: Array) -> Floats | None:
        """Value that maximises the product of several releases' densities, ignoring bounds; None if it is not known.

        The product must decrease on either side of it.

        Parameters
        ----------
        S : ndarray of shape (n_releases, n_statistics)
        scale : ndarray of shape (n_releases,)

        Returns
        -------
        value : ndarray of shape (n_statistics,), or None
        """
        return None

    def _within_bounds(self, value):
        bounds = self.bounds_for(len(value)) if self.clamp else None
        return value if bounds is None else np.clip(value, bounds[:, 0], bounds[:, 1])

    def _widened(self, factor, n_features):
        """The mechanism with its noise's scale multiplied."""
        params = self.get_params(deep=False)
        if "scale" not in params:
            raise TypeError(f"{type(self).__name__} needs a parameter scale to have wider noise")
        unset = {name: None for name in ("epsilon", "delta", "rho") if name in params}
        return type(self)(**{**params, **unset, "scale": factor * self.noise_scale_for(n_features)})


def _evaluate(channel, S, statistics):
    result = np.empty(len(statistics))
    _log_release_density(channel, S, np.array(statistics, dtype=np.float64), result)
    return result


@entry
def log_densities(channel, Z, X):
    """Log density of each row of ``Z`` given that of ``X``."""
    result = np.zeros(Z.shape[0])
    for i in range(Z.shape[0]):
        for j in range(Z.shape[1]):
            result[i] += channel.log_channel(Z, i, j, X[i, j])
    return result


@entry
def _log_release_density(channel, S, statistics, result):
    constant = 0.0  # log_release leaves it out
    for r in range(S.shape[0]):
        for j in range(S.shape[1]):
            constant += channel.log_noise(0.0, channel.noise[r * channel.each]) - channel.log_release(S, r, j, S[r, j])
    for i in range(statistics.shape[0]):
        value = constant
        for j in range(S.shape[1]):
            y = min(max(statistics[i, j], channel.low[j]), channel.high[j])
            for r in range(S.shape[0]):
                value += channel.log_release(S, r, j, y)
        result[i] = value
