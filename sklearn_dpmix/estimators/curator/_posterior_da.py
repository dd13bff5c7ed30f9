"""The posterior of a user's own model given a private release."""

import os
from functools import partial
from numbers import Integral
from operator import methodcaller
from typing import Any, ClassVar, Self

from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ..._base.parameters import refuse_class, refuse_noncompliance, refuse_threshold
from ..._base.typing import Seed
from ..._chains.auto_draws import AutoDraws
from ..._chains.problem import Problem
from ...samplers.augmentation._user_model import (
    QueryRelease,
    RecordReleases,
    UserModel,
    advance_user_model,
    restored_user,
    start_known,
    start_user_model,
)
from .._chain_estimator import ChainEstimator
from .._decorators import fit_context, with_callbacks
from ._count import check_count
from ._curator import check_release, keep_names, require_method
from ._statistic_contents import PosteriorDAContents

#: What the model must have, and what each returns.
METHODS = {
    "sample_records": "sample_records(rng, theta, n) -> records of shape (n, ...)",
    "sample_posterior": "sample_posterior(rng, records, theta) -> theta of shape (n_params,)",
}
START = "sample_prior(rng, size) -> theta of shape (size, n_params), or theta_init of shape (n_params,)"


class PrivatePosteriorDA(ChainEstimator):
    """Posterior of any model given noisy sums over its records, or records that were privatised one by one.

    You write the model in plain NumPy: how records are drawn given the parameters, and one move of the parameters given
    records, as for data that are not private.  The confidential records are imputed, and the posterior is exact.

    Parameters
    ----------
    mechanism : mechanism object, or None
        What the release went through: noise on a query (``LaplaceMechanism(epsilon=1.0, query=...)``; any query with
        ``contributions(records)`` -> (n, n_statistics)), or a local mechanism with ``log_density(Z, X)``.  None: the
        records are not confidential.
    model : object
        It needs the methods below; ``rng`` is a :class:`numpy.random.Generator`, and ``theta`` has shape (n_params,).

        ``sample_records(rng, theta, n)`` -> records of shape (n, ...)
            Independent records given θ.
        ``sample_posterior(rng, records, theta)`` -> theta of shape (n_params,)
            A draw from the posterior given records, or any move that leaves it invariant; ``theta`` is the current one.
        ``sample_prior(rng, size)`` -> theta of shape (size, n_params)
            Where chains start; or an attribute ``theta_init`` of shape (n_params,).
    n_records : int, optional
        Number of records behind the release of a query.
    n_chains, n_warmup, n_draws, thin, n_jobs, random_state, warm_start, checkpoint, verbose :
        As in :class:`PrivateDPMixture`.

    Attributes
    ----------
    theta_draws_ : ndarray of shape (n_chains, n_draws, n_params)
    release_ : ndarray of shape (n_releases, n_statistics), or (n_records, n_released)
        The release that was used for inference; only under a mechanism.
    acceptance_rate_, min_acceptance_ : float
        Of record proposals: the mean acceptance rate, and the smallest probability that occurred, which is at least
        exp(-ε) if the mechanism is ε-DP.  Only under a mechanism.
    r_hat_, ess_ : dict of str to float
    n_iter_ : int

    Notes
    -----
    A sweep proposes all records at once, so that a model runs at NumPy's speed; decisions are compiled.  Chains run in
    threads, which take turns at running Python code.  For models that can be pickled, ``with
    joblib.parallel_config("loky"):`` gives each chain its own process.  Many records hold the parameters in place, and
    the parameters then move by about 1/√n of their spread in a sweep, so look at ``ess_``.

    References
    ----------
    Ju, Awan, Gong, Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data", Algorithm 1.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import PrivatePosteriorDA
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.queries import BoundedRecords
    >>> class NormalMean:  # x ~ N(μ, 1), μ ~ N(0, 100)
    ...     theta_init = [0.0]
    ...
    ...     def sample_records(self, rng, theta, n):
    ...         return rng.normal(theta[0], 1.0, n)
    ...
    ...     def sample_posterior(self, rng, records, theta):
    ...         precision = 0.01 + len(records)
    ...         return rng.normal(records.sum() / precision, precision**-0.5, 1)
    >>> curator = LaplaceMechanism(epsilon=1.0, query=BoundedRecords((-3, 5)))
    >>> S = curator.privatize(np.random.default_rng(0).normal(2.0, size=(100, 1)), random_state=1)
    >>> fitted = PrivatePosteriorDA(curator, model=NormalMean(), n_records=100, random_state=2).fit(S)
    >>> low, high = np.quantile(fitted.theta_draws_, [0.025, 0.975])
    >>> bool(low < 2.0 < high)
    True
    """

    _contents = PosteriorDAContents
    _KEPT = ("mechanism", "model")
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ChainEstimator._parameter_constraints,
        "mechanism": "no_validation",
        "model": "no_validation",
        "n_records": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        model: Any = None,
        n_records: int | None = None,
        n_chains: int = 4,
        n_warmup: int = 1000,
        n_draws: int | str | AutoDraws = 1000,
        thin: int = 1,
        n_jobs: int | None = None,
        random_state: Seed = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.mechanism = mechanism
        self.model = model
        self.n_records = n_records
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.thin = thin
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, S: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw from the posterior given a release.

        Parameters
        ----------
        S : array-like
            For a query, of shape (n_statistics,), or (n_releases, n_statistics) for several releases of the same
            records.  For a local mechanism, of shape (n_records, n_released), one row per record.  Without a mechanism,
            the records, (n_records, n_features).
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        TypeError
            For a model or a mechanism that lacks what is needed.
        ValueError
            For a bad parameter or release; if the model or the query returns the wrong shape.
        """
        self._check_model()
        with self._refit() as earlier:
            model = UserModel(self.model)
            release, data, init = self._release(model, S)
            advance = partial(advance_user_model, model, release)
            restored = partial(restored_user, model, release)
            keep = methodcaller("_keep", release)
            self._advance_chains(Problem(data, init, advance, restored), keep, earlier)
        self._warn_about_chains()
        return self

    def _keep(self, release):
        self.theta_draws_ = self._all_draws("theta")
        if release is not None:
            self._set_acceptance()
        self._monitor({"theta": self.theta_draws_})

    def _check_model(self):
        """Raise TypeError if the model lacks a method."""
        refuse_class("model", self.model)
        for method, words in METHODS.items():
            require_method("PrivatePosteriorDA", self.model, method, words)
        if getattr(self.model, "theta_init", None) is None:
            require_method("PrivatePosteriorDA", self.model, "sample_prior", START)

    def _release(self, model, S):
        """Return (release, what must not change for a warm start, how a chain starts)."""
        mechanism = self.mechanism
        if mechanism is None:
            records = self._check_input(S, "S", reset=True)
            self._check_n_records(len(records))
            return None, records, partial(start_known, model, records)
        if isinstance(mechanism, type) or not hasattr(mechanism, "privatize"):
            raise TypeError(
                "PrivatePosteriorDA: mechanism must be an object such as LaplaceMechanism(epsilon=1.0, query=...) or "
                f"None, got {mechanism!r}"
            )
        if getattr(mechanism, "query", None) is not None and hasattr(mechanism, "log_release"):
            given, S, n_records = S, self._check_sums(S), self.n_records
            keep_names(self, given, S)
            channel = mechanism._lower(n_records=len(S), n_features=S.shape[1])
            release = QueryRelease(mechanism.query, channel, S, mechanism.is_discrete)
        elif getattr(mechanism, "is_local", False) and hasattr(mechanism, "log_density"):
            refuse_threshold(mechanism, "PrivatePosteriorDA")
            refuse_noncompliance(mechanism, "PrivatePosteriorDA")
            S = self._check_input(S, "S", reset=True)
            mechanism.check(mechanism.n_features(S.shape[1]))
            mechanism.check_release(S)
            self._check_n_records(len(S))
            release, n_records = RecordReleases(mechanism, S), len(S)
        else:
            raise TypeError(
                "PrivatePosteriorDA: mechanism must add noise to a query, or be local and have log_density(Z, X) -> "
                f"(n,), got {mechanism!r}"
            )
        self.release_, self._n_records_ = S, n_records
        return release, (S, n_records), partial(start_user_model, model, release, n_records)

    def _check_n_records(self, n):
        if self.n_records not in (None, n):
            raise ValueError(f"n_records={self.n_records}, but S has {n} rows, one per record: leave n_records out")

    def _check_sums(self, S):
        """A query's release as an array of shape (n_releases, n_statistics)."""
        mechanism = self.mechanism
        if not callable(getattr(mechanism.query, "contributions", None)):
            raise TypeError(
                "PrivatePosteriorDA: the query needs contributions(records) -> (n, n_statistics), which "
                f"{type(mechanism.query).__name__} does not have"
            )
        mechanism.check()
        S = check_release(self, S, getattr(mechanism.query, "n_statistics", None))
        check_count(type(self).__name__, self.n_records, takes_noisy=False)
        return S
