"""Any mechanism on a batch drawn without replacement: amplification of its Rényi divergences."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from .._base.typing import Array, Floats
from ._amplification import amplified, evaluate
from ._number_checks import check_batch, check_count, check_orders
from ._releases import Releases, times
from ._renyi import ORDERS


@dataclass(frozen=True, init=False)
class SubsampledReleases(Releases):
    """Releases of a mechanism, known only by its Rényi divergences, on a batch drawn without replacement.

    The bound is the smaller of Theorem 9 of Wang, Balle & Kasiviswanathan (2019) and of one through the privacy profile
    that the divergences imply (Balle, Barthe & Gaboardi 2018, Theorem 9): ``_amplification`` has both.  The bound is
    never above the divergence on a batch itself, since a mixture of pairs diverges no more than the worst of them.

    Parameters
    ----------
    rdp : callable
        ``rdp(orders)`` takes an array of orders > 1, infinity included, and returns an array of the divergences of one
        release on a batch of which one record is replaced, in nats; inf if there is no bound.  They must depend on
        the orders alone, and stay as they are.
    batch_size : int
        Records in a batch, at least 1.
    n_records : int
        Records in the data, at least ``batch_size``; public.
    n_releases : int, default=1
        At least 0.

    Attributes
    ----------
    one_batch : callable
        ``rdp`` as given.
    mu, rho : None
        The mechanism's privacy loss is not known to be Gaussian or concentrated.

    Raises
    ------
    ValueError
        For counts that are not integers, a batch beyond the data, divergences that are negative, NaN or of another
        shape than the orders; and in use, if ``rdp`` gives others than at first.
    TypeError
        If ``rdp`` cannot be called.

    Examples
    --------
    >>> from sklearn_dpmix.privacy import SubsampledReleases, barker_rdp
    >>> releases = SubsampledReleases(barker_rdp(1000), batch_size=1000, n_records=100_000, n_releases=500)
    >>> releases.rdp([2.0, 8.0]).round(4)
    array([0.0004, 0.0015])
    """

    one_batch: Callable
    batch_size: int
    n_records: int
    n_releases: int = 1
    _at_first: ClassVar[tuple[float, ...]]

    def __init__(self, rdp: Callable[[Array], Array], batch_size: int, n_records: int, n_releases: int = 1) -> None:
        if not callable(rdp):
            raise TypeError(f"rdp must be a function of an array of orders, got {rdp!r}")
        batch_size, n_records = check_batch(batch_size, n_records)
        object.__setattr__(self, "one_batch", rdp)
        object.__setattr__(self, "batch_size", batch_size)
        object.__setattr__(self, "n_records", n_records)
        object.__setattr__(self, "n_releases", check_count("n_releases", n_releases, 0))
        object.__setattr__(self, "_at_first", self._divergences())

    def __setstate__(self, state):
        vars(self).update(state)
        if "_at_first" not in state:  # pickled before it was kept
            object.__setattr__(self, "_at_first", self._divergences())

    def _divergences(self):
        """Those of one batch, by which a function that has changed is known."""
        return tuple(evaluate(self.one_batch, ORDERS).tolist())

    def rdp(self, orders: ArrayLike) -> Floats:
        """Return the bound for each order α."""
        orders = check_orders(orders)
        if self._divergences() != self._at_first:
            raise ValueError(
                f"rdp={self.one_batch!r} gives other divergences than when it was passed, so what was spent is "
                "unknown: pass a function of the orders alone, a new one for each mechanism"
            )
        key = (self.one_batch, self._at_first, self.batch_size / self.n_records, tuple(np.ravel(orders).tolist()))
        try:
            one = _cached_rdp(*key)
        except TypeError as error:
            if "unhashable" not in str(error):
                raise
            one = _rdp(*key)
        return times(one.reshape(orders.shape), self.n_releases)


def _rdp(curve, at_first, q, orders):
    """Return the bound of one release for each order."""
    bound = amplified(curve, q, np.array(orders))
    bound.flags.writeable = False
    return bound


_cached_rdp = lru_cache(maxsize=64)(_rdp)  # an accountant uses its grid of orders at many counts of one mechanism
