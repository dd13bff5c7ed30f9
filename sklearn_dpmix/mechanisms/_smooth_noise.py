"""Noise proportional to the smooth sensitivity of the data: the common part for all its kinds (Nissim et al. 2007)."""

import warnings
from math import inf, log
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from .._base.parameters import positive_integer, positive_number
from .._base.typing import Array, Seed
from ..privacy import PrivacyGuarantee
from ._dilated import LARGEST_EPSILON, SMALLEST_DELTA, SMALLEST_EPSILON, DilatedLaw, balanced_xi, least_multiplier
from ._statistic_noise import StatisticNoise


class SmoothSensitivityMechanism(StatisticNoise):
    """Base class: release s(x) + m SS_ξ(x) u, ε-DP.

    A subclass has ``epsilon``, ``query``, ``xi``, ``multiplier``, ``n_records`` and ``_law``, the distribution of u.
    """

    n_hidden = 1
    delta: float | None = 0.0
    _law: DilatedLaw

    def __init__(
        self,
        epsilon: float,
        *,
        query: Any = None,
        xi: float | None = None,
        multiplier: float | None = None,
        n_records: int | None = None,
    ) -> None:
        self.epsilon = epsilon
        self.query = query
        self.xi = xi
        self.multiplier = multiplier
        self.n_records = n_records

    def check(self, n_features: int | None = None) -> None:
        self._calibration()
        self._number_of_records()
        missing = [name for name in ("value", "smooth_sensitivity") if not hasattr(self.query, name)]
        if self.query is not None and (missing or isinstance(self.query, type)):
            raise TypeError(
                f"{type(self).__name__} needs a query with value(X) and smooth_sensitivity(X, xi), such as "
                f"SmoothMedian(bounds=(0, 1)), got query={self.query!r}"
            )

    def check_width(self, k: int) -> None:
        if k != 1:
            raise ValueError(
                f"{type(self).__name__} releases one number, got a release of {k}: use one mechanism for each"
            )

    def _epsilon(self):
        epsilon = positive_number("epsilon", self.epsilon)
        if not SMALLEST_EPSILON <= epsilon <= LARGEST_EPSILON:
            raise ValueError(
                f"epsilon must be between {SMALLEST_EPSILON:g} and {LARGEST_EPSILON:g} for {type(self).__name__}, to "
                f"be verified in floating point, got epsilon={self.epsilon!r}"
            )
        return epsilon

    def _budget(self):
        return self._epsilon(), 0.0

    def _number_of_records(self):
        n = self.n_records
        return None if n is None else positive_integer("n_records", n, most=2**53)

    @property
    def xi_(self) -> float:
        """ξ that is used."""
        return self._calibration()[0]

    @property
    def multiplier_(self) -> float:
        """m that is used: the scale of the noise is m SS_ξ(x)."""
        return self._calibration()[1]

    def _calibration(self):
        """(ξ, m)."""
        (epsilon, delta), law = self._budget(), self._law
        xi = None if self.xi is None else positive_number("xi", self.xi)
        if xi is not None and not xi < epsilon:
            raise ValueError(
                f"xi must be below epsilon={self.epsilon!r}, got xi={self.xi!r}: the change in the noise's "
                "scale between neighbours would use up all of epsilon"
            )
        if self.multiplier is not None:
            if xi is None:
                raise ValueError(
                    f"multiplier={self.multiplier!r} determines the noise only together with xi=, got xi=None"
                )
            return xi, positive_number("multiplier", self.multiplier)
        found = balanced_xi(law, epsilon, delta) if xi is None else xi
        multiplier = None if found is None else least_multiplier(law, epsilon, delta, found)
        if multiplier is None:
            raise ValueError(
                f"with xi={self.xi!r} the change in scale alone exceeds epsilon={self.epsilon!r}, delta="
                f"{self.delta!r}, so no multiplier works; give a smaller xi, or None"
            )
        return found, multiplier

    def _unverified(self):
        """A sentence if the calibration that is used is not verified to hold, otherwise None."""
        (epsilon, delta), (xi, multiplier) = self._budget(), self._calibration()
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):  # of a multiplier that counts as no noise
            spent = self._law.spent(epsilon, xi, multiplier)
        if spent[0] <= epsilon and spent[1] <= delta:
            return None
        return (
            f"{type(self).__name__} with xi={xi:g}, multiplier={multiplier:g} does not guarantee "
            f"epsilon={epsilon:g}, delta={delta:g}: what is verified is epsilon={spent[0]:.4g}, "
            f"delta={spent[1]:.3g}; leave multiplier out"
        )

    def guarantee(self, n_features: int | None = None) -> PrivacyGuarantee:
        """Return the guarantee of one release, after its numerical verification.

        It holds for a query whose ``smooth_sensitivity`` is correct.  It covers publishing the scale of the noise only
        under :class:`PublishedScaleMechanism`, which releases it.  ``rho`` is infinite if δ is not 0: there is no
        zero-concentrated privacy if tails differ in scale.

        Parameters
        ----------
        n_features : int, optional
            Not used.

        Raises
        ------
        ValueError
            For a ``multiplier`` that does not give (ε, δ), with what it does give; without a query.
        """
        self.check()
        self._check_query("xi and multiplier say")
        wrong = self._unverified()
        if wrong is not None:
            raise ValueError(wrong)
        epsilon, delta = self._budget()
        if delta == 0.0:
            return PrivacyGuarantee.pure(epsilon, self._neighbours())
        return PrivacyGuarantee(epsilon, delta, inf, self._neighbours())

    def privatize(self, X: ArrayLike, *, random_state: Seed = None, secure: bool = False) -> Array:
        self.check()
        if self.multiplier is not None and (wrong := self._unverified()) is not None:
            warnings.warn(wrong, UserWarning, stacklevel=2)
        return super().privatize(X, random_state=random_state, secure=secure)

    privatize.__doc__ = StatisticNoise.privatize.__doc__

    def _statistics(self, X):
        self.check()
        if self.query is None:
            raise ValueError(f"{type(self).__name__} needs query= to take records, such as SmoothMedian(bounds=(0, 1))")
        n = self._number_of_records()
        if n is not None and len(X) != n:
            raise ValueError(f"X has {len(X)} records, but n_records={n}: they must agree")
        value = np.ravel(self.query.value(X))
        if value.shape != (1,):
            raise ValueError(f"{type(self.query).__name__}.value(X) must have shape (1,), got {value.shape}")
        return np.array([[value[0], self.query.smooth_sensitivity(X, self.xi_)]], dtype=np.float64)

    def _scale(self, statistics):
        """(size,) scales of the noise."""
        smooth = statistics[:, -1]
        if not np.all(smooth > 0):
            wrong = float(smooth[~(smooth > 0)][0])
            raise ValueError(
                f"the last column of statistics must be the smooth sensitivity SS_xi of each simulated data set, "
                f"positive, got {wrong}: such as SmoothMedian(bounds).statistics(X, xi) returns"
            )
        return self.multiplier_ * smooth

    def _draw(self, rng, statistics):
        return (self._scale(statistics) * self._law.draw(rng, len(statistics)))[:, None]

    def _log_noise(self, E, statistics, widen):
        scale = widen * self._scale(statistics)
        return self._law.log_density(E[:, 0] / scale) - np.log(scale)

    def _log_peak(self, k):
        """The peak at the smallest scale that n_records records can have; +inf if that is not known."""
        n, least = self._number_of_records(), getattr(self.query, "smallest_smooth_sensitivity", None)
        smallest = 0.0 if n is None or least is None else least(n, self.xi_)
        return float(self._law.log_density(0.0)) - log(self.multiplier_ * smallest) if smallest > 0 else inf


class ApproximateSmoothMechanism(SmoothSensitivityMechanism):
    """Base class of noise whose tails are too light for a change of scale: (ε, δ)-DP."""

    def __init__(
        self,
        epsilon: float,
        delta: float,
        *,
        query: Any = None,
        xi: float | None = None,
        multiplier: float | None = None,
        n_records: int | None = None,
    ) -> None:
        super().__init__(epsilon, query=query, xi=xi, multiplier=multiplier, n_records=n_records)
        self.delta = delta

    def _budget(self):
        delta = positive_number("delta", self.delta)
        if not SMALLEST_DELTA <= delta < 1:
            raise ValueError(
                f"delta must be below 1, and at least {SMALLEST_DELTA:g} to be verified in floating point, got "
                f"delta={self.delta!r}; SmoothCauchyMechanism and SmoothStudentTMechanism need none"
            )
        return self._epsilon(), delta
