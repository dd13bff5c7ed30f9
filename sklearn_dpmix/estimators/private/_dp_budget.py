"""From a budget to a plan of releases: how many iterations, with how much noise."""

from math import inf, sqrt
from numbers import Real

from ..._base.search import last_where
from ...mechanisms import GaussianMechanism
from ...privacy import GaussianReleases, PrivacyGuarantee, epsilon_of, gaussian_mu
from ...privacy._accountants import fits
from ._noise_source import SMALLEST_DELTA

NEIGHBOURS = "replace one record"
MOST_ITERATIONS = 2**30 - 1
#: Relative room for rounding when a number of releases is compared with a budget.
ROUNDING = 1e-12


class Budget:
    """What ``mechanism=GaussianMechanism(epsilon, delta)`` or ``(rho=...)`` allows a whole fit.

    Raises
    ------
    TypeError, ValueError
        For another mechanism, or one that states more than a budget.
    """

    def __init__(self, estimator):
        mechanism, self.who = estimator.mechanism, estimator._public_name
        if not isinstance(mechanism, GaussianMechanism):
            raise TypeError(
                f"mechanism of {self.who} must be GaussianMechanism(epsilon=..., delta=...), which is the budget of "
                f"the whole fit, or None for data that are not confidential; got mechanism={mechanism!r}"
            )
        for name in ("bounds", "query", "scale"):
            if getattr(mechanism, name) is not None:
                raise ValueError(f"mechanism of {self.who} is a budget: it has no {name}, got mechanism={mechanism!r}")
        self.epsilon, self.delta, self.rho = mechanism.epsilon, mechanism.delta, mechanism.rho
        if (self.epsilon is None) == (self.rho is None):
            raise ValueError(f"mechanism of {self.who} needs epsilon and delta, or rho: got mechanism={mechanism!r}")
        if self.rho is not None:
            self._check("rho", self.rho, inf)
            self.mu = float(self.rho)
        else:
            self._check("epsilon", self.epsilon, inf)
            self._check("delta", self.delta, 1)
            if self.delta < SMALLEST_DELTA:
                raise ValueError(
                    f"delta of the mechanism of {self.who} must be at least {SMALLEST_DELTA:g}, got "
                    f"delta={self.delta!r}: smaller values are not supported, because the sampled noise never reaches "
                    "that far"
                )
            self.mu = gaussian_mu(self.epsilon, self.delta)
            if self.mu == 0.0:
                raise self._too_small()

    def _too_small(self):
        return ValueError(
            f"the budget of {self.who}, {self!r}, does not allow even one release: increase epsilon, delta or rho"
        )

    def _check(self, name, value, end):
        if not isinstance(value, Real) or isinstance(value, bool) or not 0 < value < end:
            where = "positive and finite" if end == inf else f"between 0 and {end}"
            raise ValueError(f"{name} of the mechanism of {self.who} must be one number {where}, got {name}={value!r}")

    def allows(self, releases):
        """Whether releases fit into the budget."""
        if self.rho is not None:
            return sum(self._rho_of(one) for one in releases) <= self.rho * (1.0 + ROUNDING)
        return fits(releases, self.epsilon, self.delta, "tight")

    def _rho_of(self, one):
        if one.rho is None:
            raise ValueError(f"{self.who} is accounted for in (epsilon, delta): give these, not rho")
        return one.rho

    def spent(self, releases):
        """The guarantee of the releases that were made.

        Shares of a budget add up to it but for rounding, which the noise's scale was rounded up for.
        """
        rho = sum(one.rho for one in releases) if all(one.rho is not None for one in releases) else inf
        if self.rho is not None:
            return PrivacyGuarantee(None, None, min(rho, float(self.rho)), NEIGHBOURS)
        return PrivacyGuarantee(min(epsilon_of(releases, self.delta), self.epsilon), self.delta, rho, NEIGHBOURS)

    def part(self, share, n_releases):
        """``n_releases`` Gaussian releases that together use a share of the budget."""
        return GaussianReleases(sqrt(n_releases / (2.0 * share * self.mu)), n_releases)

    def largest_count(self, releases_of):
        """The largest n with ``releases_of(n)`` in the budget; 0 if not even one fits."""
        return last_where(lambda n: self.allows(releases_of(n)), 0, MOST_ITERATIONS)

    def smallest_multiplier(self, releases_of, tolerance):
        """The smallest noise multiplier m, to ``tolerance`` of itself, with ``releases_of(m)`` in the budget."""
        high = 1.0
        while not self.allows(releases_of(high)):
            high *= 2.0
            if high > 1e12:
                raise self._too_small()
        low = high / 2.0
        while self.allows(releases_of(low)):
            low, high = low / 2.0, low
        while high / low > 1.0 + tolerance:
            middle = sqrt(low * high)
            low, high = (low, middle) if self.allows(releases_of(middle)) else (middle, high)
        return high

    def __repr__(self):
        if self.rho is not None:
            return f"rho={self.rho:g}"
        return f"epsilon={self.epsilon:g}, delta={self.delta:g}"
