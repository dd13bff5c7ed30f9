"""What was released, as a value that accountants can add up; and releases with Gaussian noise."""

from dataclasses import dataclass
from math import inf

import numpy as np
from numpy.typing import ArrayLike

from .._base.typing import Floats
from ._number_checks import check_count, check_number, check_orders


class Releases:
    """Releases of one kind, each of which may be chosen after seeing those before it; neighbours replace one record.

    A subclass is a frozen dataclass with ``n_releases``.  All numbers are totals over its releases, in nats, and upper
    bounds wherever they are not exact.

    See Also
    --------
    GaussianReleases, SubsampledGaussianReleases, SubsampledReleases
    epsilon_of, delta_of : What a list of releases costs.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import GaussianReleases, Releases
    >>> releases = GaussianReleases(noise_multiplier=10.0, n_releases=50)
    >>> isinstance(releases, Releases), round(releases.rho, 6), releases.rdp([2.0, 4.0])
    (True, 0.25, array([0.5, 1. ]))
    """

    n_releases: int
    #: whether (α-1)·rdp(α) is convex in α, as the log of a moment is: accountants then look at few orders
    _log_moment_is_convex = False

    @property
    def mu(self) -> float | None:
        """Mean of the privacy-loss distribution if that is exactly N(μ, 2μ); None if it is not."""
        return None

    @property
    def rho(self) -> float | None:
        """ρ of zero-concentrated differential privacy, or None if there is none."""
        return None

    @property
    def gaussian_mu_bound(self) -> float | None:
        """A μ such that N(μ, 2μ) is the loss of noise that is at least as revealing; None if none is known."""
        return self.mu

    def rdp(self, orders: ArrayLike) -> Floats:
        """Return, for each order α > 1, the Rényi divergence that no pair of neighbours exceeds; inf if there is none.

        Parameters
        ----------
        orders : float or array-like of shape (n_orders,)
            Each greater than 1; infinity is allowed.

        Returns
        -------
        rdp : ndarray of the shape of ``orders``
        """
        raise NotImplementedError


@dataclass(frozen=True)
class GaussianReleases(Releases):
    """Gaussian noise of standard deviation ``noise_multiplier`` × L2 sensitivity, ``n_releases`` times.

    The privacy loss of one release is N(m, 2m) with m = 1/(2·noise_multiplier²), and losses add up: μ is exact, not a
    bound, whatever later queries do with earlier answers as long as each sensitivity is attained (Sommer, Meiser &
    Mohammadi 2019, Lemma 11 and Theorem 1).  ρ of zCDP is μ (Bun & Steinke 2016, Proposition 1.6) and the Rényi
    divergence of order α is α·μ (Mironov 2017, Corollary 3).

    Parameters
    ----------
    noise_multiplier : float, positive
        Standard deviation of the noise in units of the query's L2 sensitivity under replacement of one record.
    n_releases : int, default=1
        At least 0.

    Attributes
    ----------
    mu, rho : float
        n_releases / (2·noise_multiplier²), in nats.

    Raises
    ------
    ValueError
        For a multiplier that is not positive and finite, or a count that is not an integer of at least 0.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import GaussianReleases
    >>> releases = GaussianReleases(noise_multiplier=10.0, n_releases=100)
    >>> releases.mu, releases.rdp([2.0, 8.0])
    (0.5, array([1., 4.]))
    """

    noise_multiplier: float
    n_releases: int = 1
    _log_moment_is_convex = True

    def __post_init__(self):
        check_number("noise_multiplier", self.noise_multiplier, 0)
        object.__setattr__(self, "noise_multiplier", float(self.noise_multiplier))
        object.__setattr__(self, "n_releases", check_count("n_releases", self.n_releases, 0))

    @property
    def mu(self) -> float:
        """Mean of the privacy-loss distribution N(μ, 2μ); infinite if it is about to leave floating point."""
        n, m = self.n_releases, self.noise_multiplier
        if not n:
            return 0.0
        return n / (2.0 * m * m) if m > 1e-140 else inf

    @property
    def rho(self) -> float:
        """ρ of zCDP: μ."""
        return self.mu

    def rdp(self, orders: ArrayLike) -> Floats:
        """Return α·μ for each order α."""
        return times(check_orders(orders), self.mu)


def times(divergence, count):
    """Return the product with 0·inf = 0: nothing released costs nothing."""
    divergence = np.asarray(divergence, dtype=np.float64)
    return divergence * count if count else np.zeros_like(divergence)
