"""The baselines of the exponential-family paper: the posterior that ignores the noise, and one that is released."""

from math import log, log1p
from numbers import Integral
from operator import methodcaller
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ..._base.beta_numeric import draw_beta_interval
from ..._base.generators import as_generator
from ..._base.parameters import positive_number
from ..._base.typing import Seed
from ...models import BetaPrior, Prior
from ...privacy import PrivacyGuarantee
from .._confidential import check_confidential
from .._decorators import fit_context, with_callbacks
from ._count import known_count
from ._curator import keep_names
from ._exp_family import PrivateExpFamilyGibbs
from ._exp_family_engines import choose_engine
from ._exp_family_inputs import (
    FamilyProblem,
    check_bounds,
    check_family,
    check_mechanism,
    check_n_records,
    check_prior,
    check_release,
    default_prior,
)
from ._exp_family_release import check_exact_statistic
from ._statistic_contents import NaiveContents


class NaivePosterior(PrivateExpFamilyGibbs):
    """The ordinary posterior with the release in place of the statistic, as if there were no noise.  A baseline.

    A release that cannot be a statistic of n records is moved to one near it that can: counts of categories are cut
    at 0 and scaled to the sum n, others go to the nearest end of what is possible.  Where noise matters, this posterior
    is too narrow and in the wrong place.  Compare :class:`PrivateExpFamilyGibbs` with it.

    Parameters
    ----------
    mechanism, family, prior, n_records, truncation, approximation, n_chains, n_warmup, n_draws, thin, n_jobs, \
random_state, warm_start, checkpoint, verbose :
        As in :class:`PrivateExpFamilyGibbs`.  The mechanism's noise and bounds are ignored, and so is ``truncation``.
        The default ``prior`` is a conjugate one, also for normal and multinomial families, where the other estimator's
        is wider: to see what the noise alone does, give both the same conjugate prior.

    Attributes
    ----------
    theta_draws_, family_, prior_, approximation_, r_hat_, ess_, n_features_in_, feature_names_in_ :
        As in :class:`PrivateExpFamilyGibbs`.

    References
    ----------
    Bernstein, Sheldon (2018), §4, "naive".

    Examples
    --------
    >>> from sklearn_dpmix import NaivePosterior, PrivateExpFamilyGibbs
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> parts = {"family": "binomial", "n_records": 100, "random_state": 0}
    >>> naive = NaivePosterior(LaplaceMechanism(scale=20.0), **parts).fit([103.0])
    >>> aware = PrivateExpFamilyGibbs(LaplaceMechanism(scale=20.0), **parts).fit([103.0])
    >>> bool(naive.theta_draws_.min() > 0.8 > aware.theta_draws_.min())
    True
    """

    _contents = NaiveContents

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, S: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw from the posterior that treats a release as the statistic.

        Parameters
        ----------
        S : array-like of shape (n_statistics,) or (n_releases, n_statistics)
            Several releases are averaged.
        y : ignored

        Returns
        -------
        self
        """
        with self._refit() as earlier:
            problem = self._problem(S)
            ordinary = problem.in_units()._replace(bounds=None, scaling=None)
            check_exact_statistic(ordinary)
            engine = choose_engine(ordinary, "auto")
            self._n_records_, self.family_, self.prior_ = problem.n_records.known, problem.family, problem.prior
            self.approximation_ = engine.approximation
            self._advance_chains(engine.posed, methodcaller("_keep", engine, problem), earlier)
        self._warn_about_chains()
        return self

    def _problem(self, S):
        """The problem without noise; its statistic is of records in the units of a scaled release."""
        query = check_mechanism(self.mechanism)
        family = check_family(self.family, query)
        n = check_n_records(self).likely
        released = check_release(self, S, family)
        keep_names(self, S, released)
        s = released.mean(axis=0)
        family = family.with_statistics(len(s))
        bounds, _ = check_bounds(None, family, query)
        scaling = None if query is None else query._scaling(family)
        if scaling is not None:
            s = (s - n * scaling.offset) / scaling.gain
        prior = family.default_prior(bounds) if self.prior is None else check_prior(self.prior, family)
        nearest = family.nearest_statistic(s, n)
        problem = FamilyProblem(family, prior, None, bounds, None, known_count(n), nearest[None], scaling)
        if prior is None:
            prior = default_prior(problem._replace(bounds=None), wide=False)
        return problem._replace(prior=prior)

    def _keep(self, engine, problem):
        super()._keep(engine, problem)
        if problem.gains is not None:
            gain, offset = problem.gains
            self.statistic_draws_ = gain * self.statistic_draws_ + problem.n_records.known * offset


class OnePosteriorSampling(BaseEstimator):
    """Draws from a flattened posterior that are themselves the release (exponential mechanism).  A baseline.

    ``fit`` takes confidential records 0 and 1.  With θ in [low, 1 - low], one record changes the log likelihood by at
    most Δ = log((1 - low)/low).  So a draw from the density ∝ prior(θ) p(x | θ)^c, with c = min(1, ε/(2Δ n_draws)) and
    θ restricted to that interval, is ε/n_draws-DP, and n_draws of them are ε-DP, in exact arithmetic.  There is no
    ``secure``: the draws are NumPy's, whose floating-point values may reveal more, so this is for simulation.

    Parameters
    ----------
    epsilon : float, default=1.0
        What all draws spend together.
    prior : BetaPrior, optional
        None is ``BetaPrior()``.
    n_draws : int, default=100
    low : float in (0, 0.5), default=0.1
        The paper's a0.
    random_state : int, Generator, RandomState or None
        For simulation only.  A seed or a generator that made the draws reveals how many ones there were, and the fitted
        estimator keeps it: then share ``theta_draws_``, and neither the estimator nor a pickle of it.  None takes fresh
        entropy, which is not kept.

    Attributes
    ----------
    theta_draws_ : ndarray of shape (1, n_draws, 1)
    guarantee_ : PrivacyGuarantee

    Raises
    ------
    ValueError
        For a parameter out of range, or records other than 0 and 1.

    References
    ----------
    Foulds, Geumlek, Welling, Chaudhuri (2016), §3; Bernstein, Sheldon (2018), §4, "OPS".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import OnePosteriorSampling
    >>> records = np.random.default_rng(0).random((5000, 1)) < 0.3
    >>> model = OnePosteriorSampling(epsilon=200.0, random_state=1).fit(records)
    >>> model.theta_draws_.shape, bool(abs(model.theta_draws_.mean() - 0.3) < 0.02)
    ((1, 100, 1), True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "epsilon": "no_validation",
        "prior": [BetaPrior, None],
        "n_draws": [Interval(Integral, 1, None, closed="left")],
        "low": "no_validation",
        "random_state": "no_validation",
    }

    def __init__(
        self,
        epsilon: float = 1.0,
        *,
        prior: Prior | None = None,
        n_draws: int = 100,
        low: float = 0.1,
        random_state: Seed = None,
    ) -> None:
        self.epsilon = epsilon
        self.prior = prior
        self.n_draws = n_draws
        self.low = low
        self.random_state = random_state

    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Release draws of the probability of a 1.

        Parameters
        ----------
        X : array-like of shape (n_records, 1) or (n_records,)
            Confidential records, 0 or 1.
        y : ignored

        Returns
        -------
        self
        """
        named, X = X, check_confidential(self, X, ensure_2d=False)
        x = X.reshape(-1)
        if X.ndim > 2 or X.size != len(X) or not np.all((x == 0) | (x == 1)):
            raise ValueError("X must hold one 0 or 1 per record, of shape (n_records, 1)")
        epsilon, low = positive_number("epsilon", self.epsilon), positive_number("low", self.low)
        if low >= 0.5:
            raise ValueError(f"low must be between 0 and 0.5, got low={self.low!r}")
        prior = BetaPrior() if self.prior is None else self.prior
        prior.check()
        power = min(1.0, 0.5 * (epsilon / self.n_draws) / (log1p(-low) - log(low)))
        a, b = float(prior.a + power * x.sum()), float(prior.b + power * (len(x) - x.sum()))
        rng = as_generator(self.random_state)
        theta = [draw_beta_interval(rng, a, b, low, 1.0 - low) for _ in range(self.n_draws)]  # no cdf, which saturates
        self.theta_draws_ = np.array(theta).reshape(1, -1, 1)
        self.guarantee_ = PrivacyGuarantee.pure(epsilon)
        keep_names(self, named, X.reshape(-1, 1))
        return self
