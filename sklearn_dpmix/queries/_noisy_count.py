"""A number of records that was itself released with noise (add/remove neighbours)."""

import math

import numpy as np
from sklearn.base import BaseEstimator

from .._base.one_line import OneLine
from .._base.parameters import numbers, refuse_threshold
from .._base.typing import Floats


class NoisyCount(OneLine):
    """The number of records behind a release, if only a noisy count of them is public.

    Adding or removing a record changes the number of records by 1, so that number needs its own noise.  Pass this as
    ``n_records=`` to an estimator: n is then unknown, with a flat prior on 0, 1, 2, ..., and is drawn too.

    Parameters
    ----------
    value : float
        The released count; it may be negative.
    mechanism : mechanism object
        What the count went through: additive noise with ``scale=``, or with a query of one number and sensitivity 1.

    Raises
    ------
    ValueError, TypeError
        On use, for a value that is not finite, or a mechanism that does not count records.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import DiscreteLaplaceMechanism
    >>> from sklearn_dpmix.queries import NoisyCount
    >>> count = NoisyCount(1013, DiscreteLaplaceMechanism(scale=2.0))  # ε = 1/2, for the count alone
    >>> count.check()
    >>> count.likely
    1013
    """

    def __init__(self, value: float, mechanism: BaseEstimator) -> None:
        self.value = value
        self.mechanism = mechanism

    def check(self) -> None:
        """Raise ValueError or TypeError if a parameter is wrong."""
        values, mechanism = numbers(self.value), self.mechanism
        if values is None or values.ndim or not np.isfinite(values):
            raise ValueError(f"value of NoisyCount must be a finite number, got value={self.value!r}")
        if abs(values) > 2**53:
            raise ValueError(f"value of NoisyCount must be at most 2**53, got value={self.value!r}")
        if isinstance(mechanism, type) or not hasattr(mechanism, "noise_scale_for"):
            raise TypeError(
                "mechanism of NoisyCount must be an object that adds noise, such as LaplaceMechanism(scale=2.0), got "
                f"{mechanism!r}"
            )
        refuse_threshold(mechanism, "NoisyCount")
        query = getattr(mechanism, "query", None)
        if getattr(mechanism, "bounds", None) is not None:
            raise ValueError(
                f"mechanism of NoisyCount releases a count, which has no bounds, got {mechanism!r}: leave bounds out "
                "and give scale="
            )
        n_statistics = getattr(query, "n_statistics", None)
        if query is not None and (n_statistics not in (1, None) or query.sensitivity(mechanism.norm) != 1.0):
            raise ValueError(
                "mechanism of NoisyCount must have a query of one number and sensitivity 1, or none and scale=, got "
                f"query={query!r} of sensitivity {query.sensitivity(mechanism.norm):g}: one record changes a count by 1"
            )
        if query is None and getattr(mechanism, "scale", 1.0) is None:
            raise ValueError(
                "mechanism of NoisyCount must have scale=, or a query of sensitivity 1: one record changes a count by "
                f"1, so that scale=1/epsilon is Laplace noise of that epsilon; got {mechanism!r}"
            )
        mechanism.check(1)
        if np.size(mechanism.noise_scale_for(1)) != 1:
            raise ValueError(
                f"mechanism of NoisyCount must have noise of one scale, for its one count, got {mechanism!r}: give one "
                "epsilon, rho or scale"
            )
        if getattr(mechanism, "is_discrete", False) and values != np.floor(values):
            raise ValueError(f"value of NoisyCount must be an integer under {mechanism!r}, got value={self.value!r}")
        if hasattr(mechanism, "check_release"):
            mechanism.check_release(self.releases())

    def releases(self) -> Floats:
        """The release as samplers see it, (1, 1)."""
        return np.array([[self.value]], dtype=np.float64)

    @property
    def scale(self) -> float:
        """Scale of the noise."""
        return np.asarray(self.mechanism.noise_scale_for(1)).item()

    @property
    def likely(self) -> int:
        """The number of records that is nearest to the count: int, at least 1."""
        return max(round(float(self.value)), 1)

    @property
    def most(self) -> int:
        """An upper limit on the number of records: 40 scales above the count; Laplace noise is larger once in e^40."""
        return self.likely + math.ceil(40.0 * self.scale)
