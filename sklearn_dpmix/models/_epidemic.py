"""An epidemic as chain binomials (Reed–Frost with recovery, daily steps): a model without a likelihood."""

import numpy as np
from sklearn.base import BaseEstimator

from .._base.parameters import MOST, positive_integer
from .._base.typing import Array, Floats
from ._priors import GammaPrior


class StochasticSIR(BaseEstimator):
    """New infections week by week in a closed population; θ is (transmission rate, recovery rate), both per day.

    Each day every susceptible person is infected with probability 1 - exp(-β I/N), and every infected one recovers with
    probability 1 - exp(-γ).  The likelihood of weekly counts sums over all paths between them.

    Parameters
    ----------
    n_people : int, default=1000
    n_infected : int, default=5
        Number of infected people on day 0.
    n_weeks : int, default=8
    transmission, recovery : GammaPrior, optional
        Priors on β and γ; None is ``GammaPrior(4, 8)`` and ``GammaPrior(4, 16)``, with means 0.5 and 0.25.

    Raises
    ------
    ValueError
        On use, for a parameter that is not valid.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix.models import StochasticSIR
    >>> weekly = StochasticSIR(n_weeks=3).sample_statistic(np.random.default_rng(0), np.array([[0.6, 0.2]]))
    >>> weekly.shape, bool(np.all(weekly >= 0))
    ((1, 3), True)
    """

    def __init__(
        self,
        n_people: int = 1000,
        n_infected: int = 5,
        n_weeks: int = 8,
        transmission: GammaPrior | None = None,
        recovery: GammaPrior | None = None,
    ) -> None:
        self.n_people = n_people
        self.n_infected = n_infected
        self.n_weeks = n_weeks
        self.transmission = transmission
        self.recovery = recovery

    def _priors(self):
        for name in ("n_people", "n_infected", "n_weeks"):
            positive_integer(f"{name} of StochasticSIR", getattr(self, name), most=MOST if name == "n_weeks" else 2**53)
        if self.n_infected > self.n_people:
            raise ValueError(f"n_infected={self.n_infected} is more than n_people={self.n_people}")
        priors = (
            GammaPrior(4.0, 8.0) if self.transmission is None else self.transmission,
            GammaPrior(4.0, 16.0) if self.recovery is None else self.recovery,
        )
        for name, prior in zip(("transmission", "recovery"), priors, strict=True):
            if not isinstance(prior, GammaPrior):
                raise ValueError(f"{name} of StochasticSIR must be a GammaPrior, got {name}={prior!r}")
            prior.check()
        return priors

    def sample_prior(self, rng: np.random.Generator, size: int) -> Floats:
        """Draws of (β, γ), (size, 2)."""
        return np.column_stack([prior.draw(rng, size, None) for prior in self._priors()])

    def log_prior(self, theta: Array) -> Floats:
        """Log prior density, (size,); -inf outside the support."""
        return sum(prior.log_density(theta[:, j : j + 1]) for j, prior in enumerate(self._priors()))

    def sample_statistic(self, rng: np.random.Generator, theta: Array) -> Array:
        """New infections of each week, (size, n_weeks)."""
        self._priors()
        susceptible = np.full(len(theta), self.n_people - self.n_infected)
        infected = np.full(len(theta), self.n_infected)
        recovers = -np.expm1(-theta[:, 1])
        weekly = np.zeros((len(theta), self.n_weeks))
        for day in range(7 * self.n_weeks):
            new = rng.binomial(susceptible, -np.expm1(-theta[:, 0] * infected / self.n_people))
            gone = rng.binomial(infected, recovers)
            susceptible, infected = susceptible - new, infected + new - gone
            weekly[:, day // 7] += new
        return weekly
