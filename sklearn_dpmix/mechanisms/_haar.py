"""Haar wavelet coefficients of one bounded record, with Laplace noise (Butucea et al. 2020; Beraha et al., §2.1)."""

from math import sqrt

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import check_array, finite_scale, is_integer, positive_number
from .._base.typing import Array, Floats
from ..privacy import PrivacyGuarantee
from ._binned import BinnedChannel
from ._secure import secure_release

MAX_RESOLUTION = 20


class HaarWaveletMechanism(BinnedChannel):
    r"""Release the Haar coefficients ψ_jk(y), j = 0..J, k = 0..2^j - 1, of a record, each with Laplace noise.

    With x the record mapped from ``bounds`` to [0, 1], ψ_jk(x) = 2^(j/2) on the first half of [k 2^-j, (k+1) 2^-j),
    -2^(j/2) on the second and 0 elsewhere; the last interval of each level is closed.  The 2^(J+1) - 1 coefficients
    come level by level: j = 0; j = 1, k = 0, 1; and so on.  They depend only on which of 2^(J+1) equal bins x is in, so
    inference is exact for every kernel with a distribution function.

    Parameters
    ----------
    epsilon : float
        Privacy loss of a record.
    resolution : int
        J, at least 0.
    bounds : pair (lo, hi), default=(0, 1)
        Public bounds; records outside are moved to the bound.
    calibration : {"exact", "butucea"}, default="exact"
        "exact": Laplace scale Δ₁/ε with the exact L1 sensitivity Δ₁ = 2 (2^((J+1)/2) - 1)/(√2 - 1), which two records
        that share no half-interval attain.  "butucea": the scale (12/ε) (√2/(√2 - 1)) 2^(J/2) of Butucea et al. (2020),
        which was made for general wavelets and has 6 to 20 times more noise (ERRATA); ``guarantee()`` then states the
        smaller ε that this noise gives.

    Raises
    ------
    ValueError
        On use, for a parameter out of range.

    References
    ----------
    Butucea, Dubois, Kroll, Saumard (2020); Beraha, Favaro, Rao, eq. (3) (with ERRATA on sensitivity and the last bin).

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.mechanisms import HaarWaveletMechanism
    >>> mechanism = HaarWaveletMechanism(epsilon=10.0, resolution=2)
    >>> mechanism.privatize(np.array([[0.1], [0.7]]), random_state=0).shape
    (2, 7)
    >>> round(mechanism.sensitivity(), 3)
    8.828
    """

    noised_kernels = frozenset({"beta", "normal", "truncated_normal"})
    has_one_law = True

    def __init__(
        self,
        epsilon: float | None = None,
        resolution: int | None = None,
        *,
        bounds: ArrayLike | None = (0, 1),
        calibration: str = "exact",
    ) -> None:
        self.epsilon = epsilon
        self.resolution = resolution
        self.bounds = bounds
        self.calibration = calibration

    def check(self, n_features: int | None = None) -> None:
        self.bounds_for(1)
        self.noise_scale_for(1)

    def _resolution(self):
        value = self.resolution
        if not (is_integer(value) and 0 <= value <= MAX_RESOLUTION):
            raise ValueError(
                f"resolution must be an integer from 0 to {MAX_RESOLUTION} (2^(J+1) - 1 coefficients per record), "
                f"got resolution={value!r}"
            )
        return int(value)

    @property
    def n_bins(self) -> int:
        """Number of bins that the coefficients tell apart."""
        return 2 ** (self._resolution() + 1)

    @property
    def noise_scale(self) -> float | Floats:  # type: ignore[override]
        """Scale of the Laplace noise on each coefficient."""
        return self.noise_scale_for(1)

    def sensitivity(self, n_features: int | None = None) -> float:
        """Exact L1 sensitivity of the coefficients, under replacement."""
        return 2.0 * (2.0 ** ((self._resolution() + 1) / 2) - 1.0) / (sqrt(2.0) - 1.0)

    def noise_scale_for(self, n_features: int | None) -> float | Floats:
        epsilon = positive_number("epsilon", self.epsilon)
        if not isinstance(self.calibration, str) or self.calibration not in ("exact", "butucea"):
            raise ValueError(f'calibration must be "exact" or "butucea", got {self.calibration!r}')
        if self.calibration == "exact":
            scale = self.sensitivity() / epsilon
        else:
            scale = 12.0 / epsilon * sqrt(2.0) / (sqrt(2.0) - 1.0) * 2.0 ** (self._resolution() / 2)
        return finite_scale(self, "epsilon", scale)

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one record's release: the ε that the noise gives."""
        scale = self.noise_scale_for(1)
        if self.calibration == "exact":
            return PrivacyGuarantee.pure(positive_number("epsilon", self.epsilon))
        return PrivacyGuarantee.pure(float(self.sensitivity() / scale))

    def coefficients(self) -> Floats:
        """Coefficients of a record in each bin: (n_bins, 2^(J+1) - 1)."""
        bins = np.arange(self.n_bins)
        levels = []
        for j in range(self._resolution() + 1):
            half = bins >> (self._resolution() - j)  # number of the half-interval of level j that holds the bin
            sign = np.where(half % 2 == 0, 2.0 ** (j / 2), -(2.0 ** (j / 2)))
            levels.append(np.where(half[:, None] // 2 == np.arange(2**j), sign[:, None], 0.0))
        return np.hstack(levels)

    def _simulate(self, rng, X):
        value = self.coefficients()[self.bin_of(X[:, 0])]
        return value + rng.laplace(scale=self.noise_scale, size=value.shape)

    def _secure(self, X):
        return secure_release("laplace", self.coefficients()[self.bin_of(X[:, 0])], self.noise_scale)

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""
        if Z.shape[1] != self.n_bins - 1:
            raise ValueError(
                f"Z has {Z.shape[1]} columns, but resolution={self.resolution!r} releases {self.n_bins - 1} "
                "coefficients per record (level by level, 2^(resolution+1) - 1 in all)"
            )

    def log_bins(self, Z: Array) -> Array:
        """Log density of each release given each bin, (n, n_bins).

        Only one coefficient per level is not 0, so a bin's value is that of pure noise plus J + 1 corrections.
        """
        Z = check_array(Z, dtype=np.float64, input_name="Z", estimator=type(self).__name__)
        self.check_release(Z)
        scale, bins = self.noise_scale, np.arange(self.n_bins)
        log_q = np.tile(-np.abs(Z).sum(axis=1, keepdims=True), (1, self.n_bins))
        for j in range(self._resolution() + 1):
            half = bins >> (self._resolution() - j)
            column = Z[:, 2**j - 1 + half // 2]
            peak = np.where(half % 2 == 0, 1.0, -1.0) * 2.0 ** (j / 2)
            log_q += np.abs(column) - np.abs(column - peak)
        return log_q / scale - Z.shape[1] * np.log(2.0 * scale)
