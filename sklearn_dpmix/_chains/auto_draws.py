"""How many draws a fit makes: a fixed number, or as many as the effective sample size requires."""

import time
from collections.abc import Callable
from numbers import Integral, Real
from typing import TypeAlias

import numpy as np
from sklearn.base import BaseEstimator

from .mixed import ESS_LIMIT, have_mixed, in_words, worst_monitors

FEWEST = 8  # draws of each chain: from fewer there is no effective sample size
FIRST_LOOK = 500  # draws of each chain: from fewer an effective sample size is a guess
GROWTH = (1.25, 2.0)  # from one look to the next
WORTH_R_HAT, WORTH_ESS = 1.01, 0.1  # of draws that are worth keeping; effective ones, of each draw
RESERVE = 1.1  # on the draws that the effective sample size so far says are needed
Scores: TypeAlias = dict[str, float]  # by the name of a monitored quantity


class AutoDraws(BaseEstimator):
    """Draw until the effective sample size is large enough: pass it as ``n_draws``, or "auto" for the defaults.

    Chains run until every monitored quantity (the keys of ``ess_``) has ``min_ess`` effective draws and an R-hat of at
    most 1.05, or a limit is reached, which gives one warning with the numbers.  They are checked after 500 draws of
    each chain and then at lengths that depend only on the draws; so the seed decides how many draws there are, unless
    ``max_seconds`` ends the run.  A run stops when an estimate happens to be large, so the effective sizes that it
    reports are a little too large.

    Parameters
    ----------
    min_ess : float, default=400
        Effective draws of all chains together.  The Monte Carlo error of a posterior mean is then
        1/√min_ess of the posterior's standard deviation: 5 % for 400.
    max_seconds : float, default=3600
        Time limit for one call of ``fit``, in seconds; it starts again for a fit that continues from a checkpoint or
        with ``warm_start``.
    max_draws : int, default=100000
        Limit on the draws of each chain, which bounds the memory.

    Raises
    ------
    ValueError
        When the estimator is fitted, for a parameter out of range.

    Examples
    --------
    >>> from sklearn_dpmix import AutoDraws, PrivateExpFamilyGibbs
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> model = PrivateExpFamilyGibbs(LaplaceMechanism(scale=20.0), family="binomial", n_records=100, random_state=0)
    >>> model = model.set_params(n_draws=AutoDraws(min_ess=2000)).fit([63.0])
    >>> min(model.ess_.values()) >= 2000
    True
    """

    def __init__(self, min_ess: float = 400, *, max_seconds: float = 3600.0, max_draws: int = 100_000) -> None:
        self.min_ess = min_ess
        self.max_seconds = max_seconds
        self.max_draws = max_draws

    def check(self) -> None:
        """Raise ValueError for a parameter out of range."""
        for name, kind in (("min_ess", Real), ("max_seconds", Real), ("max_draws", Integral)):
            value = getattr(self, name)
            if not isinstance(value, kind) or isinstance(value, bool) or not float(value) > 0:
                what = "integer" if kind is Integral else "number"
                raise ValueError(f"AutoDraws: {name} must be a positive {what}, got {name}={value!r}")

    @property
    def most(self) -> int:
        return self.max_draws

    @property
    def least_ess(self) -> float:
        """Effective draws below which a warning says that the chains have not mixed."""
        return min(float(self.min_ess), ESS_LIMIT)

    def deadline(self) -> float:
        return time.monotonic() + self.max_seconds

    def first(self, n_drawn: int, aim: int | None) -> int:
        """Number of draws at the first check, in a run that has some already and was next to be checked at ``aim``."""
        return min(self.max_draws, max(n_drawn, aim or 0, FIRST_LOOK))

    def next(self, n: int, judge: Callable[[], tuple[Scores, Scores]]) -> int | None:
        """Number of draws at the next check, after ``n``; None: no more.  ``judge()`` returns (r_hat, ess)."""
        r_hat, ess = judge()
        if n >= self.max_draws or self.has_enough(r_hat, ess):
            return None
        factor = np.clip(RESERVE * self.min_ess / ess[worst_monitors(r_hat, ess)[1]], *GROWTH)
        return min(self.max_draws, int(np.ceil(n * factor)))

    def wants_more_work(self, n: int, n_chains: int, judge: Callable[[], tuple[Scores, Scores]]) -> bool:
        """Whether to make more sweeps per draw: never, since this rule makes more draws instead."""
        return False

    def has_enough(self, r_hat: Scores, ess: Scores) -> bool:
        return have_mixed(r_hat, ess, self.min_ess)

    def complaint(self, aim: int, n_drawn: int, r_hat: Scores, ess: Scores) -> str | None:
        """A warning about a run that ended after ``n_drawn`` draws, before its check at ``aim``; None: no warning."""
        worst, fewest = worst_monitors(r_hat, ess)
        too_few = worst is None and n_drawn < FEWEST
        if self.has_enough(r_hat, ess) and not too_few:
            return None
        limit = f"max_seconds={self.max_seconds:g}" if n_drawn < aim else f"max_draws={self.max_draws}"
        if too_few:
            found = "too few for an effective sample size"
        else:
            found = in_words(r_hat, ess, worst, fewest, self.min_ess)
        return (
            f"stopped by {limit} after {n_drawn} draws of each chain: {found}; raise that limit (warm_start=True "
            "continues) or increase n_warmup"
        )

    def words(self, ess: float, seconds: float) -> str:
        """What is missing, for a progress bar, ``seconds`` after the first draw."""
        left = seconds * max(self.min_ess / ess - 1.0, 0.0)
        return f"ESS {ess:.0f} of {self.min_ess:g}, about {left:.0f} s left"


class FixedDraws:
    """A number of draws."""

    least_ess = ESS_LIMIT

    def __init__(self, n_draws):
        self.most = n_draws

    def check(self):
        pass

    def deadline(self):
        return np.inf

    def first(self, n_drawn, aim):
        return None

    def next(self, n, judge):
        return None

    def wants_more_work(self, n, n_chains, judge):
        """Whether the first n draws of each chain are so correlated that each should take more sweeps."""
        if n < FIRST_LOOK:
            return False
        r_hat, ess = judge()
        worst, fewest = worst_monitors(r_hat, ess)
        return worst is not None and (r_hat[worst] > WORTH_R_HAT or ess[fewest] < WORTH_ESS * n_chains * n)

    def complaint(self, aim, n_drawn, r_hat, ess):
        return None

    def words(self, ess, seconds):
        return f"ESS {ess:.0f}"


def draws_rule(n_draws):
    """The rule that ``n_draws``, a number, "auto" or an :class:`AutoDraws`, stands for."""
    if n_draws == "auto":
        return AutoDraws()
    rule = n_draws if isinstance(n_draws, AutoDraws) else FixedDraws(n_draws)
    rule.check()
    return rule
