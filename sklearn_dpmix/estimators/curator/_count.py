"""The number of records behind a release: known, or itself released with noise."""

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from ..._base.parameters import positive_integer
from ...queries import NoisyCount
from ...samplers.augmentation._number import KnownNumber, NoisyNumber

#: More records cannot be counted in floating point.
LARGEST_COUNT = 2**53


@dataclass(frozen=True)
class KnownCount:
    """A public number of records.

    Both kinds have the ``known`` number, 0 if there is none; a ``likely`` one to start from, and the ``most`` that
    there can be; the noisy ``value`` and the ``variance`` of its noise, 0 if there is none.
    """

    known: int
    is_log_concave: ClassVar[bool] = True
    value: ClassVar[float] = 0.0
    variance: ClassVar[float] = 0.0

    @property
    def likely(self) -> int:
        return self.known

    @property
    def most(self) -> int:
        return self.known

    def releases(self) -> np.ndarray:
        """The noisy values as samplers see them, (0, 1)."""
        return np.zeros((0, 1))

    def lowered_channel(self, of_statistic: Any) -> Any:
        """What the count went through, as compiled code sees it: it is not asked, and compiled like the statistic's."""
        return of_statistic

    def counting(self, noisy: Any = NoisyNumber) -> KnownNumber:
        """The births and deaths of records that a sampler then has."""
        return KnownNumber()

    def __str__(self) -> str:
        return str(self.known)


@dataclass(frozen=True)
class UnknownCount:
    """A number of records that was released with noise: as :class:`KnownCount`."""

    noisy: NoisyCount
    known: ClassVar[int] = 0

    @property
    def is_log_concave(self) -> bool:
        return getattr(self.noisy.mechanism, "is_log_concave", False)

    @property
    def likely(self) -> int:
        return self.noisy.likely

    @property
    def most(self) -> int:
        return self.noisy.most

    @property
    def value(self) -> float:
        return float(self.noisy.value)

    @property
    def variance(self) -> float:
        return variance_of(self.noisy.mechanism)

    def releases(self) -> np.ndarray:
        return self.noisy.releases()

    def lowered_channel(self, of_statistic: Any) -> Any:
        return self.noisy.mechanism._lower(n_records=1, n_features=1)

    def counting(self, noisy: Any = NoisyNumber) -> KnownNumber:
        return noisy(self.noisy.mechanism, self.noisy.scale)

    def __str__(self) -> str:
        return repr(self.noisy)


def check_count(who, n_records, takes_noisy=True):
    """Return what ``n_records`` says of the number of records; raise if it does not say it."""
    if n_records is None:
        also = ", or NoisyCount(value, mechanism) where it was itself released with noise" if takes_noisy else ""
        raise ValueError(
            f"{who}: n_records must say how many records are behind the release, got n_records=None: give a positive "
            f"integer{also}"
        )
    if isinstance(n_records, NoisyCount):
        n_records.check()
        return UnknownCount(n_records)
    return KnownCount(positive_integer("n_records", n_records, most=LARGEST_COUNT))


def variance_of(mechanism):
    """Mean variance of the noise; if it is unknown, that of Laplace noise of the same scale."""
    variance = mechanism.noise_variance(1)
    return 2.0 * float(np.mean(np.square(mechanism.noise_scale_for(1)))) if variance is None else float(variance)
