"""Integer noise on integers: the common part of the discrete mechanisms.

The release is z = clamp(y) + e for integer records y (or a query's integer value) and integer noise e.  There is no
floating-point hole to attack (Mironov 2012): every release is an integer, whatever the record was.

Samplers treat the confidential y as a real number that was rounded, halves up, before the release.  As a function of y
the channel is then flat on unit cells, so with bounds it has finitely many pieces (see :class:`RecordChannel`).
"""

from collections.abc import Callable
from functools import partial
from math import floor, inf

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled, lower
from .._base.parameters import check_array
from .._base.typing import Array, Floats
from ._additive import AdditiveMechanism

#: Integers below it in magnitude are exact as floats.
EXACT = 2.0**53
#: Largest magnitude of a value before noise, and largest noise scale.  Noise that takes a release from this to
#: ``EXACT`` has probability e^-128, so no release is ever refused; a refusal would say something about the record.
LARGEST_VALUE, LARGEST_SCALE = 2.0**52, 2.0**45
#: Smallest noise scale: its square does not underflow.  Any scale below 0.01 is no noise at all in double precision.
SMALLEST_SCALE = 2.0**-500
#: With more cells than this, an integral over all of them costs more than samplers that need no integral.
MAX_CELLS = 1024


class IntegerMechanism(AdditiveMechanism):
    """Base class of mechanisms that add integer noise.

    The distribution of the noise is P(e) = exp(s(e) - c), with a shape s that is symmetric and falls in |e|.  A
    subclass defines the compiled methods ``log_shape(self, e, rate)``, which is s(e) at scale 1/rate,
    ``draw_integer(self, rng, scale)``, ``log_noise`` and ``draw_noise``.  In Python it defines ``log_sum(scale)``,
    which is c, and ``_noise_moments(scale)``, the second and the fourth moment of the noise, each an array of the shape
    of ``scale``.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms._discrete_laplace import DiscreteLaplaceMechanism
    >>> mechanism = DiscreteLaplaceMechanism(scale=1.0, bounds=(0, 3))
    >>> mechanism.log_density([[2]], [[2]]).round(4)
    array([-0.7719])
    >>> mechanism._lower(n_records=1, n_features=1).n_pieces()
    4
    """

    is_discrete = True
    of_integers = True
    #: name of the mechanism for records that are not integers
    continuous = ""

    @property
    def piece_shape(self) -> str | None:  # type: ignore[override]
        """``"flat"`` if bounds make the cells few (``MAX_CELLS`` per feature), otherwise None."""
        bounds = self.bounds_for(None) if self.clamp else None
        return "flat" if bounds is not None and np.max(np.diff(bounds)) < MAX_CELLS else None

    @property
    def tabulated_kernels(self) -> frozenset[str]:  # type: ignore[override]
        """Kernels on an interval, if the cells that are rounded to an integer are few (``piece_shape``)."""
        own = "noised_kernels" in vars(type(self))  # a derived class may have another law
        can = own and self.is_local and self.piece_shape == "flat" and self.released_above is None
        return frozenset({"beta", "truncated_normal"} if can else ())

    @property
    def kurtosis(self) -> float | None:  # type: ignore[override]
        """Kurtosis of the noise, or None if its variance is below 1: noise that is mostly zeros is not judged by it.

        If each record has its own noise, it is the kurtosis with which the variance of the sum of squares is right, as
        if each variance were the square of the scale.
        """
        scale = np.atleast_1d(self.noise_scale_for(None))
        second, fourth = self._noise_moments(scale)
        if np.mean(second) < 1:
            return None
        relative = np.mean(fourth - second**2) / np.mean(second) ** 2
        return float(1.0 + relative * np.mean(scale**2) ** 2 / np.mean(scale**4))

    def noise_variance(self, n_features: int | None = None) -> float | None:
        """Mean variance of the noise on one feature, over records."""
        return float(np.mean(self._noise_moments(np.atleast_1d(self.noise_scale_for(n_features)))[0]))

    def bounds_for(self, n_features: int | None) -> Floats | None:
        """Return ``bounds`` as an array of integers (floats) of shape (n_features, 2), or None."""
        bounds = super().bounds_for(n_features)
        if bounds is not None and not np.all((np.floor(bounds) == bounds) & (np.abs(bounds) <= LARGEST_VALUE)):
            raise ValueError(
                f"bounds must be integers within ±2**52 for {type(self).__name__}, got bounds={self.bounds!r}: round "
                f"them outwards, or use {self.continuous} for records that are not integers"
            )
        return bounds

    def noise_scale_for(self, n_features: int | None) -> float | Floats:
        scale = super().noise_scale_for(n_features)
        if np.max(scale) > LARGEST_SCALE or np.min(scale) < SMALLEST_SCALE:
            name = next(name for name in ("epsilon", "rho", "scale") if getattr(self, name) is not None)
            raise ValueError(
                f"{type(self).__name__} with {name}={getattr(self, name)!r} has noise of scale {np.max(scale):.3g}; it "
                "must be between 2**-500 and 2**45, for floats to hold what is released: use another unit, or "
                f"{self.continuous}"
            )
        return scale

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if a release has values that this mechanism cannot have released.

        Parameters
        ----------
        Z : array-like of shape (n_records, n_features)
            Releases: integers of magnitude below 2**53, as floats or as integers.
        """
        Z = np.asarray(Z, dtype=np.float64)
        who, name = type(self).__name__, "Z" if self.is_local else "the release"
        self._check_integers(
            name, Z, f"{who} releases integers only; pass the release as it was published, or {self.continuous}"
        )
        self._check_size(name, Z, EXACT - 1, "2**53 - 1")

    def _value(self, X):
        remedy = f"{type(self).__name__} adds noise to integers; round first, or use {self.continuous}"
        if self.is_local:  # before clamping, which would hide what is beyond the bounds
            self._check_integers("X", X, remedy)
        value = super()._value(X)
        self._check_integers("X" if self.is_local else "query.value(X)", value, remedy, is_quoted=self.is_local)
        if not self.is_local:  # a refusal would say something about the records; a cut adds nothing to what they change
            return np.clip(value, -LARGEST_VALUE, LARGEST_VALUE)
        self._check_size("X", value, LARGEST_VALUE, "2**52")
        return value

    @staticmethod
    def _check_integers(name, values, remedy, is_quoted=True):
        wrong = ~(np.floor(values) == values)
        if np.any(wrong):
            raise ValueError(f"{name} must hold integers{_quote(values, wrong, is_quoted)}: {remedy}")

    @staticmethod
    def _check_size(name, values, largest, words):
        wrong = np.abs(values) > largest
        if np.any(wrong):
            raise ValueError(
                f"{name} must be at most {words} in magnitude{_quote(values, wrong, True)}: above 2**53 floats "
                "skip integers, and noise needs room; use another unit"
            )

    def log_density(self, Z: ArrayLike, X: ArrayLike) -> Floats:
        """As in :class:`AdditiveMechanism`, for integers; ValueError if a release or a record is not an integer."""
        Z = check_array(Z, dtype=np.float64, order="C", input_name="Z", estimator=type(self).__name__)
        self.check_release(Z)
        return super().log_density(Z, X)

    def release_density(self, S: Array, widen: float = 1.0) -> Callable[[Array], Floats]:
        """As in :class:`AdditiveMechanism`; the function raises ValueError for statistics that are not integers."""
        return partial(self._of_integers, super().release_density(S, widen))

    def _of_integers(self, log_density, statistics):
        self._check_integers("statistics", statistics, f"{type(self).__name__} adds noise to integers only")
        return log_density(statistics)

    def _lower(self, *, n_records, n_features, **context):
        fields = self._fields(n_records, n_features)
        cells = np.max(fields["high"] - fields["low"]) + 1.0
        distinct, inverse = np.unique(fields["noise"], return_inverse=True)
        fields["log_total"] = np.asarray(self.log_sum(distinct))[inverse]
        fields["cells"] = int(cells) if cells < inf else 0
        return lower(type(self), fields | self._noise_fields(float(fields["noise"][0])))

    def _noise_fields(self, scale):
        """What ``fill_normal`` needs to know of noise of this scale."""
        return {}

    # --- compiled ----------------------------------------------------------------------------------------------------

    @compiled
    def noise_of(self, Z, i, j, y):
        """What the noise was if the record was y: z minus the integer next to clamp(y), half up."""
        return Z[i, j] - floor(min(max(y, self.low[j]), self.high[j]) + 0.5)

    @compiled
    def log_channel(self, Z, i, j, y):
        """log q(z_ij | y), a log probability."""
        return self.log_shape(self.noise_of(Z, i, j, y), self.rate[i * self.each]) - self.log_total[i * self.each]

    @compiled
    def log_weight(self, kernel, Z, i, j, theta, k, y):
        return self.log_shape(self.noise_of(Z, i, j, y), self.rate[i * self.each])

    @compiled
    def log_release(self, S, r, j, value):
        return self.log_shape(S[r, j] - value, self.rate[r * self.each])

    @compiled
    def can_reverse(self):
        return True

    @compiled
    def draw_reverse(self, rng, Z, i, j):
        """Draw y anywhere in the cell of z plus noise: as a density of y this is the unclamped channel itself."""
        return Z[i, j] + self.draw_integer(rng, self.noise[i * self.each]) + rng.random() - 0.5

    @compiled
    def log_reverse(self, Z, i, j, y):
        return self.log_shape(Z[i, j] - floor(y + 0.5), self.rate[i * self.each])

    @compiled
    def log_reverse_total(self, i):
        return self.log_total[i * self.each]

    @compiled
    def n_pieces(self):
        """That of the feature with most cells; pieces beyond a feature's own are empty."""
        return self.cells

    @compiled
    def piece(self, Z, i, j, p):
        """The cell of the integer lo + p; the first and the last extend to infinity."""
        c = self.low[j] + p
        if c > self.high[j]:
            return inf, inf, self.high[j], -inf, 0.0, 0.0
        value = self.log_shape(Z[i, j] - c, self.rate[i * self.each]) - self.log_total[i * self.each]
        return c - 0.5 if p > 0 else -inf, c + 0.5 if c < self.high[j] else inf, c, value, 0.0, 0.0


def _quote(values, wrong, is_quoted):
    """The first wrong value and where it is; nothing for a query's value, from which no record could be found."""
    if not is_quoted:
        return ""
    first = tuple(np.argwhere(wrong)[0].tolist())
    return f", got {float(values[first])!r} at position {first}"
