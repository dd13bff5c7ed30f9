"""Noisy counts of all records in bins (Beraha et al., §5, App. C)."""

import numpy as np
from numpy.typing import ArrayLike

from .._base.compiled import compiled
from .._base.parameters import finite_scale, positive_number
from .._base.typing import Array, Floats
from ..privacy import PrivacyGuarantee
from ._discrete_laplace import draw_discrete_laplace
from ._histogram import HistogramMechanism
from ._secure import secure_release


class PerturbedHistogramMechanism(HistogramMechanism):
    """Release the number of records in each bin, with independent noise on each.

    Replacing a record moves two counts by one, so the L1 sensitivity is 2 and the scale of the noise is 2/ε.

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
    def noise_scale(self) -> float | Floats:  # type: ignore[override]
        """Scale b of the noise: ``exp(-|e|/b)`` up to a constant."""
        return finite_scale(self, "epsilon", 2.0 / positive_number("epsilon", self.epsilon))

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of the whole release."""
        self.check()
        return PrivacyGuarantee.pure(positive_number("epsilon", self.epsilon))

    def _simulate(self, rng, X):
        counts = self.counts(X)
        if self.noise == "laplace":
            return counts + rng.laplace(scale=self.noise_scale, size=self.n_bins)
        return counts + draw_discrete_laplace(rng, self.noise_scale, self.n_bins)

    def _secure(self, X):
        return secure_release(self.noise.replace("_", " "), self.counts(X), self.noise_scale)

    def check_release(self, Z: Array) -> None:
        """Raise ValueError if Z cannot be a release of this mechanism."""
        if Z.shape != (self.n_bins, 1):
            raise ValueError(
                f"Z has shape {Z.shape}, but n_bins={self.n_bins!r} counts were released: give shape ({self.n_bins},)"
            )
        if self.noise == "discrete_laplace" and not np.all(Z == np.floor(Z)):
            worst = Z[np.argmax(Z != np.floor(Z))].item()
            raise ValueError(f'noise="discrete_laplace" releases integers, but Z has {worst:g}')

    def _log_law(self, Z, X):
        self.check_release(Z)
        rate = 1.0 / self.noise_scale
        constant = np.log(0.5 * rate) if self.noise == "laplace" else np.log(np.tanh(0.5 * rate))
        return constant - rate * np.abs(Z[:, 0] - self.counts(X))

    def released(self, Z: Array) -> Array:
        return Z[:, 0]

    def _more(self):
        return 1.0 + self.noise_scale

    def _fields(self):
        return {"rate": 1.0 / self.noise_scale}

    @compiled
    def log_released(self, table, b, count):
        return -self.rate * abs(table[2, b] - count)
