"""Releases of a histogram of all records: draws from a smoothed one, or noisy counts (Beraha et al., §5, App. C).

Given the other records, one record's effect on such a release is flat on bins, so that the channel of a single record
is a :class:`BinnedChannel` whose table changes as records move.  A chain keeps that table: row 0 has the weight
q(Z | one more record in the bin)/q(Z | none more), row 1 the imputed records in each bin, row 2 what was released.
"""

from math import exp, log

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled
from .._base.generators import as_generator
from .._base.parameters import (
    check_array,
    check_flag,
    finite_scale,
    is_integer,
    numbers,
    positive_number,
    refuse_seed,
)
from .._base.typing import Array, Floats, Seed
from ..privacy import PrivacyGuarantee
from ._binned import BinnedChannel
from ._discrete_laplace import draw_discrete_laplace
from ._secure import secure_release

WEIGHT, COUNT, RELEASED = range(3)


class HistogramMechanism(BinnedChannel):
    """Base class of mechanisms whose release depends on the counts of records in ``n_bins`` bins.

    A subclass defines ``released(Z)``, what was released of each bin, the compiled
    ``log_released(self, table, b, count)``, the log density of that with so many records in bin b, up to a constant,
    and its constants by ``_fields()``.
    """

    is_local = False
    is_histogram = True

    def check(self, n_features: int | None = None) -> None:
        self.bounds_for(1)
        self.positive_integer("n_bins")
        self.positive_integer("n_records")

    def positive_integer(self, name: str) -> int:
        """A parameter that must be a positive integer."""
        value = getattr(self, name)
        if not is_integer(value) or not 1 <= value <= 2**31:
            raise ValueError(f"{name} of {type(self).__name__} must be a positive integer, got {name}={value!r}")
        return int(value)

    def _column(self, Z):
        """A release as a column of floats."""
        Z = check_array(Z, dtype=np.float64, ensure_2d=False, input_name="Z", estimator=type(self).__name__)
        return Z.reshape(-1, 1)

    def counts(self, X: ArrayLike) -> Array:
        """Records in each bin."""
        X = self._check_records(X)
        if len(X) != self.positive_integer("n_records"):
            raise ValueError(f"X has {len(X)} records, but n_records={self.n_records!r}: they must agree")
        return np.bincount(self.bin_of(X[:, 0]), minlength=self.n_bins).astype(np.float64)

    def encode(self, Z: Array) -> Array:
        """The table that a chain starts from."""
        self.check_loss(self.guarantee().epsilon)
        table = np.zeros((3, self.n_bins + 1))
        table[RELEASED, :-1] = self.released(Z)
        return table

    def proportions(self, Z: Array) -> Array:
        """Proportions of records in each bin, roughly."""
        released = np.maximum(self.released(Z), 0.0) + 1e-3
        return released / released.sum()

    def moments(self, Z: Array) -> tuple[Floats, Floats]:
        p, centres = self.proportions(Z), self.centres()
        width = np.diff(self.bounds_for(1)[0]).item() / self.n_bins
        mean = p @ centres
        return np.array([mean]), np.array([p @ (centres - mean) ** 2 + width**2 / 12.0])

    def guess(self, Z: Array) -> Floats | None:
        levels = (np.arange(self.n_records) + 0.5) / self.n_records
        bins = np.searchsorted(np.cumsum(self.proportions(Z)), levels)
        return self.centres()[np.minimum(bins, self.n_bins - 1)][:, None]

    @compiled
    def row(self, i):
        return 0

    @compiled
    def take_off(self, Z, records, i):
        self.count(Z, self.bin(records[i, 0, 0]), -1.0)

    @compiled
    def put_on(self, Z, records, i):
        self.count(Z, self.bin(records[i, 0, 0]), 1.0)

    @compiled
    def count(self, table, b, change):
        """One record more or less in bin b, in O(1)."""
        table[1, b] += change
        now = table[1, b]
        table[0, b] = exp(self.log_released(table, b, now + 1.0) - self.log_released(table, b, now))


class SmoothedHistogramMechanism(HistogramMechanism):
    """Release independent draws from the records' histogram, mixed with the uniform law (Wasserman & Zhou 2010).

    With m bins on [0, 1] the density is (1 - δ) m c_j/n + δ on bin j, which has c_j of the n records.  Replacing a
    record changes it by a factor of at most 1 + (1 - δ) m/(n δ), so k draws cost ε = k log(1 + (1 - δ) m/(n δ))
    (ERRATA on (12) and on its condition), and δ = m/(m + n (e^(ε/k) - 1)).

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
        δ.  None: from ``epsilon``; the property ``smoothing_`` is the one in force.

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
        """δ in force."""
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
            raise ValueError(f"epsilon={self.epsilon!r} for {k} draw(s) leaves no smoothing at all in floating point")
        return float(m / (m + n * np.expm1(epsilon / k)))

    def _numbers(self):
        """Of bins, records and draws."""
        return tuple(self.positive_integer(name) for name in ("n_bins", "n_records", "n_released"))

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of the whole release."""
        self.check()
        delta, (m, n, k) = self.smoothing_, self._numbers()
        return PrivacyGuarantee.pure(k * float(np.log1p((1.0 - delta) * m / (delta * n))))

    def densities(self, X: ArrayLike) -> Array:
        """Smoothed density on each bin, with respect to the uniform law on the bounds."""
        delta, (m, n, _) = self.smoothing_, self._numbers()
        return (1.0 - delta) * m * self.counts(X) / n + delta

    def privatize(self, X: ArrayLike, *, random_state: Seed = None, secure: bool = False) -> Array:
        """Release draws from the smoothed histogram.

        Parameters
        ----------
        X : array-like of shape (n_records, 1)
        random_state : int, Generator, RandomState or None
            For simulation.  A seed that made a release is a secret.
        secure : bool, default=False
            Not available: ValueError.

        Returns
        -------
        Z : ndarray of shape (n_released,)
        """
        self.check()
        if check_flag("secure", secure):
            raise ValueError("SmoothedHistogramMechanism has no secure=True: it draws with NumPy only")
        rng, (lo, hi) = as_generator(random_state), self.bounds_for(1)[0]
        bins = rng.choice(self.n_bins, size=self.n_released, p=self.densities(X) / self.n_bins)
        return lo + (hi - lo) * (bins + rng.random(self.n_released)) / self.n_bins

    def check_release(self, Z: Array) -> None:
        """Raise ValueError where Z cannot be a release of this mechanism."""
        lo, hi = self.bounds_for(1)[0]
        if Z.shape != (self.n_released, 1):
            raise ValueError(
                f"Z has shape {Z.shape}, but n_released={self.n_released!r} draws were released: give an "
                f"array of shape ({self.n_released},)"
            )
        if not np.all((Z >= lo) & (Z <= hi)):
            worst = Z[np.argmax(np.maximum(lo - Z, Z - hi))].item()
            raise ValueError(f"Z has {worst:g}, outside bounds={self.bounds!r}: were they other ones?")

    def log_density(self, Z: ArrayLike, X: ArrayLike) -> Floats:
        """Log density of each draw given all records.

        Parameters
        ----------
        Z : array-like of shape (n_released,) or (n_released, 1)
        X : array-like of shape (n_records, 1)

        Returns
        -------
        log_density : ndarray of shape (n_released,)
        """
        self.check()
        Z = self._column(Z)
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
        """How many records the draws in bin b came from: each from none, the smoothing, or from any of them alike."""
        count, n_sources = table[1, b], 0.0
        share = self.gain * count / (self.gain * count + self.smoothing_in_force)
        for _ in range(int(table[2, b])):
            if rng.random() < share and rng.random() * count < count - n_sources:
                n_sources += 1.0
        return n_sources


class PerturbedHistogramMechanism(HistogramMechanism):
    """Release the records' counts in each bin, with independent noise on each.

    Replacing a record moves two counts by one, so the L1 sensitivity is 2 and the scale of the noise 2/ε.

    Parameters
    ----------
    epsilon : float
    n_bins : int
    n_records : int
        Public.
    bounds : pair (lo, hi), default=(0, 1)
    noise : {"laplace", "discrete_laplace"}, default="laplace"
        "discrete_laplace" releases integers (Ghosh, Roughgarden & Sundararajan 2012).

    Raises
    ------
    ValueError
        On use, for a parameter out of range.

    References
    ----------
    Dwork, McSherry, Nissim, Smith (2006); Beraha, Favaro, Rao, §5.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import PerturbedHistogramMechanism
    >>> mechanism = PerturbedHistogramMechanism(2.0, 4, n_records=50, noise="discrete_laplace")
    >>> mechanism.privatize(np.full((50, 1), 0.3), random_state=0).shape
    (4,)
    """

    def __init__(
        self,
        epsilon: ArrayLike | None = None,
        n_bins: int | None = None,
        *,
        n_records: int | None = None,
        bounds: ArrayLike | None = (0, 1),
        noise: str = "laplace",
    ) -> None:
        self.epsilon = epsilon
        self.n_bins = n_bins
        self.n_records = n_records
        self.bounds = bounds
        self.noise = noise

    def check(self, n_features: int | None = None) -> None:
        super().check()
        _ = self.noise_scale
        if not isinstance(self.noise, str) or self.noise not in ("laplace", "discrete_laplace"):
            raise ValueError(f'noise must be "laplace" or "discrete_laplace", got {self.noise!r}')

    @property
    def noise_scale(self) -> float | Floats:
        """Scale b of the noise: ``exp(-|e|/b)`` up to a constant."""
        return finite_scale(self, "epsilon", 2.0 / positive_number("epsilon", self.epsilon))

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of the whole release."""
        self.check()
        return PrivacyGuarantee.pure(positive_number("epsilon", self.epsilon))

    def privatize(self, X: ArrayLike, *, random_state: Seed = None, secure: bool = False) -> Array:
        """Release noisy counts.

        Parameters
        ----------
        X : array-like of shape (n_records, 1)
        random_state : int, Generator, RandomState or None
            For simulation.  A seed that made noise is a secret.
        secure : bool, default=False
            Let OpenDP (extra ``[secure]``) add the noise.

        Returns
        -------
        Z : ndarray of shape (n_bins,)
        """
        self.check()
        counts = self.counts(X)
        refuse_seed(secure, random_state)
        if secure:
            return secure_release(self.noise.replace("_", " "), counts, self.noise_scale)
        rng = as_generator(random_state)
        if self.noise == "laplace":
            return counts + rng.laplace(scale=self.noise_scale, size=self.n_bins)
        return counts + draw_discrete_laplace(rng, self.noise_scale, self.n_bins)

    def check_release(self, Z: Array) -> None:
        """Raise ValueError where Z cannot be a release of this mechanism."""
        if Z.shape != (self.n_bins, 1):
            raise ValueError(
                f"Z has shape {Z.shape}, but n_bins={self.n_bins!r} counts were released: give shape ({self.n_bins},)"
            )
        if self.noise == "discrete_laplace" and not np.all(Z == np.floor(Z)):
            worst = Z[np.argmax(Z != np.floor(Z))].item()
            raise ValueError(f'noise="discrete_laplace" releases integers, but Z has {worst:g}')

    def log_density(self, Z: ArrayLike, X: ArrayLike) -> Floats:
        """Log density (or mass) of each released count given all records.

        Parameters
        ----------
        Z : array-like of shape (n_bins,) or (n_bins, 1)
        X : array-like of shape (n_records, 1)

        Returns
        -------
        log_density : ndarray of shape (n_bins,)
        """
        self.check()
        Z = self._column(Z)
        self.check_release(Z)
        rate = 1.0 / self.noise_scale
        constant = np.log(0.5 * rate) if self.noise == "laplace" else np.log(np.tanh(0.5 * rate))
        return constant - rate * np.abs(Z[:, 0] - self.counts(X))

    def released(self, Z: Array) -> Array:
        return Z[:, 0]

    def _fields(self):
        return {"rate": 1.0 / self.noise_scale}

    @compiled
    def log_released(self, table, b, count):
        return -self.rate * abs(table[2, b] - count)
