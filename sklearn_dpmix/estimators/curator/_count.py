"""The number of records behind a release: known, or itself released with noise."""

from dataclasses import dataclass
from typing import Any

import numpy as np

from ..._base.parameters import is_integer, positive_integer
from ...queries import NoisyCount
from ...samplers.augmentation._number import KnownNumber, NoisyNumber
from .._chain_estimator import warn_user
from ._curator import IMPOSSIBLE, probability_beyond

#: More records cannot be counted in floating point.
LARGEST_COUNT = 2**53


@dataclass(frozen=True)
class RecordCount:
    """What is known of the number of records.

    The ``known`` number, 0 if there is none; a ``likely`` one to start from, and the ``most`` that there can be; and if
    it was released with noise, the ``noisy`` count, its ``value`` and the ``variance`` of its noise.
    """

    known: int
    likely: int
    most: int
    value: float = 0.0
    variance: float = 0.0
    noisy: NoisyCount | None = None

    def releases(self) -> np.ndarray:
        """The noisy count as samplers see it, (1, 1), or (0, 1)."""
        return np.zeros((0, 1)) if self.noisy is None else self.noisy.releases()

    def lowered_channel(self, of_statistic: Any) -> Any:
        """What the count went through, as compiled code sees it; a known one has that of the statistic, never asked."""
        return of_statistic if self.noisy is None else self.noisy.mechanism._lower(n_records=1, n_features=1)

    def counting(self, noisy: Any = NoisyNumber) -> KnownNumber:
        """The births and deaths of records that a sampler then has."""
        return KnownNumber() if self.noisy is None else noisy(self.noisy.mechanism, self.noisy.scale)

    def __str__(self) -> str:
        return str(self.known or self.noisy)


def known_count(n_records):
    """A public number of records."""
    return RecordCount(n_records, n_records, n_records)


def check_count(who, n_records, takes_noisy=True):
    """Return what ``n_records`` says of the number of records; raise if it does not say it."""
    if isinstance(n_records, NoisyCount):
        n_records.check()
        if n_records.value < 0:
            warn_if_impossible(n_records)
        variance = variance_of(n_records.mechanism)
        return RecordCount(0, n_records.likely, n_records.most, float(n_records.value), variance, n_records)
    if not is_integer(n_records):
        also = ", or NoisyCount(value, mechanism) where it was itself released with noise" if takes_noisy else ""
        raise ValueError(
            f"{who}: n_records must say how many records are behind the release, got n_records={n_records!r}: give a "
            f"positive integer{also}"
        )
    return known_count(positive_integer("n_records", n_records, most=LARGEST_COUNT))


def warn_if_impossible(noisy):
    """Warn if noise hardly ever takes a number of records, at least 0, so far below that."""
    tail = probability_beyond(noisy.mechanism, -float(noisy.value), noisy.scale)
    if tail is not None and tail < IMPOSSIBLE:
        warn_user(
            f"n_records={noisy!r} is negative, and noise takes a count so far below 0 with probability "
            f"{float(tail):.2g} only: check its sign, its mechanism, and whether it is the count of these records",
            UserWarning,
        )


def variance_of(mechanism):
    """Mean variance of the noise; if it is unknown, that of Laplace noise of the same scale."""
    variance = mechanism.noise_variance(1)
    return 2.0 * float(np.mean(np.square(mechanism.noise_scale_for(1)))) if variance is None else float(variance)
