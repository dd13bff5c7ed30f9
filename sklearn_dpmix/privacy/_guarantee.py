"""What a mechanism promises."""

from dataclasses import dataclass
from math import inf, nextafter
from typing import Self


@dataclass(frozen=True)
class PrivacyGuarantee:
    """What a mechanism promises.

    Attributes
    ----------
    epsilon, delta : float or None
        (ε, δ)-differential privacy; None if only ``rho`` is stated.
    rho : float or None
        ρ of zero-concentrated differential privacy; None if none is known.
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
        return cls(epsilon, 0.0, half_square(epsilon), neighbours)


def half_square(loss):
    """ρ of a loss: loss²/2, or infinite beyond floating point."""
    loss = float(loss)
    return rounded_up(0.5 * loss * loss) if loss > 0.0 else 0.0


def rounded_up(loss):
    """A positive loss, rounded up: rounding may have made it smaller, or 0 where doubles get coarse."""
    return nextafter(loss, inf) if loss < 2.3e-308 else loss
