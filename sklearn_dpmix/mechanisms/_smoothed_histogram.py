"""Draws from a smoothed histogram of all records (Beraha et al., §5, App. C)."""

from math import log

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled
from .._base.parameters import numbers, positive_number
from .._base.typing import Array
from ..privacy import PrivacyGuarantee
from ._histogram import HistogramMechanism


class SmoothedHistogramMechanism(HistogramMechanism):
    """Release independent draws from the histogram of the records, mixed with a uniform (Wasserman & Zhou 2010).

    With m bins on [0, 1], the density is (1 - δ) m c_j/n + δ on bin j, which has c_j of the n records.  Replacing a
    record changes it by a factor of at most 1 + (1 - δ) m/(n δ), so k draws cost ε = k log(1 + (1 - δ) m/(n δ)) (ERRATA
    on (12) and on its condition), and δ = m/(m + n (e^(ε/k) - 1)).

    Parameters
    ----------
    epsilon : float, optional
        Privacy loss of all the draws together.  None: give ``smoothing``.
    n_bins : int
        m.
    n_released : int
        k, number of draws.
    n_records : int
        n, public.
    bounds : pair (lo, hi), default=(0, 1)
        Public bounds; records outside are moved to the bound.
    smoothing : float in (0, 1), optional
        δ.  None: computed from ``epsilon``; the property ``smoothing_`` is the one that is used.

    Raises
    ------
    ValueError
        On use, for a parameter out of range.

    References
    ----------
    Wasserman & Zhou (2010); Beraha, Favaro, Rao, §5 and App. C, eq. (12).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import SmoothedHistogramMechanism
    >>> mechanism = SmoothedHistogramMechanism(10.0, 4, 20, n_records=100)
    >>> round(mechanism.smoothing_, 4)
    0.0581
    >>> mechanism.privatize(np.full((100, 1), 0.3), random_state=0).shape
    (20,)
    """

    has_sources = True

    def __init__(
        self,
        epsilon: ArrayLike | None = None,
        n_bins: int | None = None,
        n_released: int | None = None,
        *,
        n_records: int | None = None,
        bounds: ArrayLike | None = (0, 1),
        smoothing: float | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.n_bins = n_bins
        self.n_released = n_released
        self.n_records = n_records
        self.bounds = bounds
        self.smoothing = smoothing

    def check(self, n_features: int | None = None) -> None:
        super().check()
        self.positive_integer("n_released")
        _ = self.smoothing_

    @property
    def smoothing_(self) -> float:
        """δ that is used."""
        if (self.epsilon is None) == (self.smoothing is None):
            raise ValueError(
                f"give exactly one of epsilon and smoothing, got epsilon={self.epsilon!r}, smoothing={self.smoothing!r}"
            )
        if self.smoothing is not None:
            value = numbers(self.smoothing)
            if value is None or value.ndim or not 0 < value < 1:
                raise ValueError(f"smoothing must be strictly between 0 and 1, got smoothing={self.smoothing!r}")
            return float(value)
        epsilon = positive_number("epsilon", self.epsilon)
        m, n, k = self._numbers()
        if epsilon / k > 700:
            raise ValueError(
                f"epsilon={self.epsilon!r} for {k} draw(s) leaves no smoothing in floating point: use a smaller epsilon"
            )
        return float(m / (m + n * np.expm1(epsilon / k)))

    def _numbers(self):
        """Numbers of bins, records and draws."""
        return tuple(self.positive_integer(name) for name in ("n_bins", "n_records", "n_released"))

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of the whole release."""
        self.check()
        delta, (m, n, k) = self.smoothing_, self._numbers()
        return PrivacyGuarantee.pure(k * float(np.log1p((1.0 - delta) * m / (delta * n))))

    def densities(self, X: ArrayLike) -> Array:
        """Smoothed density on each bin, with respect to the uniform distribution on the bounds."""
        delta, (m, n, _) = self.smoothing_, self._numbers()
        return (1.0 - delta) * m * self.counts(X) / n + delta

    def _simulate(self, rng, X):
        lo, hi = self.bounds_for(1)[0]
        bins = rng.choice(self.n_bins, size=self.n_released, p=self.densities(X) / self.n_bins)
        return lo + (hi - lo) * (bins + rng.random(self.n_released)) / self.n_bins

    def _secure(self, X):
        raise ValueError("SmoothedHistogramMechanism has no secure=True: it draws with NumPy only")

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""
        lo, hi = self.bounds_for(1)[0]
        if Z.shape != (self.n_released, 1):
            raise ValueError(
                f"Z has shape {Z.shape}, but n_released={self.n_released!r} draws were released: give an "
                f"array of shape ({self.n_released},)"
            )
        if not np.all((Z >= lo) & (Z <= hi)):
            worst = Z[np.argmax(np.maximum(lo - Z, Z - hi))].item()
            raise ValueError(f"Z has {worst:g}, outside bounds={self.bounds!r}: pass the bounds that were used")

    def _log_law(self, Z, X):
        self.check_release(Z)
        return np.log(self.densities(X)[self.bin_of(Z[:, 0])]) - np.log(np.diff(self.bounds_for(1)[0]).item())

    def released(self, Z: Array) -> Array:
        return np.bincount(self.bin_of(Z[:, 0]), minlength=self._numbers()[0]).astype(np.float64)

    def _fields(self):
        delta = self.smoothing_
        return {"gain": (1.0 - delta) * self.n_bins / self.n_records, "smoothing_in_force": delta}

    @compiled
    def log_released(self, table, b, count):
        """Eq. (12): the draws in bin b have density gain·count + δ."""
        return table[2, b] * log(self.gain * count + self.smoothing_in_force)

    @compiled
    def draw_n_sources(self, rng, table, b):
        """How many records the draws in bin b came from: each from none (smoothing), or from any record in it alike."""
        count, n_sources = table[1, b], 0.0
        share = self.gain * count / (self.gain * count + self.smoothing_in_force)
        for _ in range(int(table[2, b])):
            if rng.random() < share and rng.random() * count < count - n_sources:
                n_sources += 1.0
        return n_sources
