"""What a mechanism promises."""

from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True)
class PrivacyGuarantee:
    """What a mechanism promises.

    Attributes
    ----------
    epsilon, delta : float or None
        (ε, δ)-differential privacy; None where only ``rho`` is stated.
    rho : float or None
        ρ of zero-concentrated differential privacy; None where none is known.
    neighbours : str
        Which pairs of inputs the promise is about.

    Examples
    --------
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> LaplaceMechanism(epsilon=2.0, bounds=(0, 1)).guarantee()
    PrivacyGuarantee(epsilon=2.0, delta=0.0, rho=2.0, neighbours='replace one record')
    """

    epsilon: float | None
    delta: float | None
    rho: float | None
    neighbours: str = "replace one record"

    @classmethod
    def pure(cls, epsilon: float, neighbours: str = "replace one record") -> Self:
        """ε-DP, which is ε²/2-zCDP (Bun & Steinke 2016, Proposition 1.4)."""
        return cls(epsilon, 0.0, 0.5 * epsilon * epsilon, neighbours)
