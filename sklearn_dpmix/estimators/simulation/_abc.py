"""Exact approximate Bayesian computation: the posterior of a simulator's parameters given a private release."""

import os
from functools import partial
from numbers import Integral, Real
from operator import methodcaller
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..._base.acceptance import PROPOSED
from ..._base.generators import as_generator, as_seed_sequence
from ..._base.parameters import positive_integer
from ..._base.typing import Floats, Seed
from ..._chains.auto_draws import AutoDraws, draws_rule
from ..._chains.datatree import build_tree
from ..._chains.mixed import ESS_LIMIT
from ..._chains.problem import Problem
from ..._chains.progress import Progress
from ...samplers.simulation._abc_importance import ImportanceABC
from ...samplers.simulation._abc_markov import MarkovABC
from ...samplers.simulation._abc_rejection import RejectionABC
from ...samplers.simulation._abc_sequential import SequentialABC
from ...samplers.simulation._simulator import Simulator
from .._chain_estimator import ChainEstimator, warn_user
from .._decorators import fit_context, with_callbacks
from ..curator._curator import keep_names
from ._simulation_contents import ABCContents
from ._simulation_inputs import check_simulation

METHODS = {"importance": ImportanceABC, "mcmc": MarkovABC, "rejection": RejectionABC, "smc": SequentialABC}
K_HAT_LIMIT = 0.7
FEWEST = 8  # draws of a chain after which it should have moved


class PrivateABC(ChainEstimator):
    """Exact posterior of any simulator's parameters given noisy statistics.

    A curator released s_obs = s(x) + noise.  You write how parameters are drawn from their prior and how the statistic
    s of a data set is simulated given them; no likelihood is needed.  The kernel of ABC is the mechanism's own noise:
    there is no tolerance to choose, and what is approximate elsewhere is exact here.

    Parameters
    ----------
    mechanism : mechanism object
        What s went through, as in ``LaplaceMechanism(scale=5.0)``: noise on a statistic, with a query or ``scale=``;
        or on one record, with ``bounds=``, to which what is simulated is then clamped, too.
    model : object
        Plain NumPy; ``rng`` is a :class:`numpy.random.Generator`, ``theta`` of shape (size, n_params).

        ``sample_statistic(rng, theta)`` -> (size, n_columns)
            A simulated statistic for each row of θ, before noise.  Under a mechanism whose noise follows the data's
            smooth sensitivity, that sensitivity is the last column.
        ``sample_prior(rng, size)`` -> theta
            Draws from the prior.
        ``log_prior(theta)`` -> (size,)
            For "mcmc", "smc" and importance sampling with a proposal: the normalised log density of what
            ``sample_prior`` draws (for "mcmc" up to a constant); -inf outside the support, where nothing is ever
            simulated.
    method : {"rejection", "importance", "mcmc", "smc"} or object, default="rejection"
        "rejection"
            Independent draws; needs 1/``acceptance_rate_`` simulations per draw.
        "importance"
            ``n_draws`` weighted simulations; ``ImportanceABC(proposal=...)`` takes a proposal of your own.
        "mcmc"
            Pseudo-marginal chains, exact for any number of replicates: ``MarkovABC(n_replicates=...)``.
        "smc"
            The noise is narrowed to the mechanism's own while a proposal is learnt; then importance sampling from it
            until ``n_draws`` simulations are effective, and as many resampled.  Use it if rejection keeps less than one
            simulation in a thousand.

        The classes are in :mod:`sklearn_dpmix.samplers`.
    n_draws : int, default=1000
        Draws (of each chain, for "mcmc", which also takes "auto" and :class:`AutoDraws`).
    max_simulations : int, default=10**8
        Limit on simulations; the draws made by then are kept, with a warning.  "mcmc", which knows in advance how many
        it needs, raises ValueError.
    n_chains, n_warmup, thin, warm_start, checkpoint :
        As in :class:`PrivateDPMixture`; only for "mcmc".
    n_jobs, random_state, verbose :
        As in :class:`PrivateDPMixture`; draws do not depend on ``n_jobs``.

    Attributes
    ----------
    theta_draws_ : ndarray of shape (n_draws, n_params), for "mcmc" (n_chains, n_draws, n_params)
    statistic_draws_ : ndarray of shape (n_draws, n_columns), for "mcmc" (n_chains, n_draws, n_columns)
        Posterior draws of the statistic before noise, and before it is moved to the mechanism's bounds, if there are
        any.
    weights_ : ndarray of shape (n_draws,)
        They sum to 1; not for "mcmc".
    release_ : ndarray of shape (n_releases, n_statistics)
        The release that was fitted.
    log_evidence_, log_evidence_error_ : float
        Log density of the release under the model, and its standard error; not for "mcmc".
    acceptance_rate_ : float
        Acceptance rate of simulations ("rejection"; for "smc" the effective share of the last ones) or of moves; nan
        for "importance".
    n_simulations_ : int
        For "mcmc", the number of steps times replicates, those outside the support included.
    ess_, r_hat_ : dict of str to float
        Effective sample sizes of means, at most Kish's 1/Σw² (for "smc" a lower bound, as if resampling were at
        random); R-hat for "mcmc".
    k_hat_ : float
        "importance" only: Pareto k-hat of the weights; above 0.7, do not trust them.
    widths_ : ndarray
        "smc" only: how many times as wide as the mechanism's the noise was, step by step.
    n_iter_ : int
        "mcmc" only: steps of each chain.

    References
    ----------
    Gong (2019), "Exact inference with approximate computation for differentially private data via perturbations".

    Examples
    --------
    Example 4 of the paper: a count, Poisson with a Gamma(25, 1) mean, released with Laplace noise, ε = 0.2.

    >>> import numpy as np
    >>> from sklearn_dpmix import PrivateABC
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> class Count:
    ...     def sample_prior(self, rng, size):
    ...         return rng.gamma(25.0, 1.0, (size, 1))
    ...
    ...     def sample_statistic(self, rng, theta):
    ...         return rng.poisson(theta)
    >>> model = PrivateABC(LaplaceMechanism(scale=5.0), model=Count(), n_draws=4000, random_state=0).fit([37.4])
    >>> model.theta_draws_.shape
    (4000, 1)
    >>> bool(abs(model.theta_draws_.mean() - 28.576) < 0.3)
    True
    """

    _contents = ABCContents
    _KEPT = ("mechanism", "model")
    _FREE = ChainEstimator._FREE | {"max_simulations"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ChainEstimator._parameter_constraints,
        "mechanism": "no_validation",
        "model": "no_validation",
        "method": "no_validation",
        "max_simulations": [Interval(Integral, 1, None, closed="left"), Interval(Real, 1, None, closed="left")],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        model: Any = None,
        method: BaseEstimator | str = "rejection",
        n_draws: int | str | AutoDraws = 1000,
        max_simulations: int = 10**8,
        n_chains: int = 4,
        n_warmup: int = 1000,
        thin: int = 1,
        n_jobs: int | None = None,
        random_state: Seed = None,
        warm_start: bool = False,
        checkpoint: str | os.PathLike[str] | None = None,
        verbose: int | bool = 0,
    ) -> None:
        self.mechanism = mechanism
        self.model = model
        self.method = method
        self.n_draws = n_draws
        self.max_simulations = max_simulations
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.thin = thin
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, s_obs: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw from the posterior given a release.

        Parameters
        ----------
        s_obs : array-like of shape (n_statistics,) or (n_releases, n_statistics)
            The released statistic; several releases of the same statistic go one per row.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        TypeError
            For a mechanism or a model that lacks what the method needs.
        ValueError
            For a bad parameter or release; if the simulator returns the wrong shape, or numbers that are not finite;
            if ``max_simulations`` simulations do not give a single draw.

        Warns
        -----
        RuntimeWarning
            If simulations ran out, weights cannot be trusted, or chains have not mixed.
        """
        method = resolve_method(self.method)
        S = check_simulation(self, s_obs, ("sample_statistic", *method.needs))
        if not method.has_chains:
            self._check_without_chains()
        with self._refit() as earlier:
            keep_names(self, s_obs, S)
            self.release_ = S
            run = self._fit_chains if method.has_chains else self._fit_draws
            warn = run(method, Simulator(self.model, self.mechanism, S), earlier)
        warn()  # the draws are kept by now: a warning may be an error
        return self

    def _check_without_chains(self):
        if self.warm_start:
            raise ValueError(
                f"warm_start=True continues chains, but method={self.method!r} has none: pass warm_start=False"
            )
        if self.checkpoint is not None:
            raise ValueError(
                f"checkpoint={self.checkpoint!r} saves chains, but method={self.method!r} has none: leave it out"
            )
        if not isinstance(self.n_draws, Integral):
            raise ValueError(
                f"n_draws={self.n_draws!r} monitors chains as they run, but method={self.method!r} has none: give a "
                "number"
            )

    def _fit_draws(self, method, simulator, earlier):
        """Set the draws; return what warns about them."""
        root, most = as_seed_sequence(self.random_state), int(self.max_simulations)
        with Progress(self, 0, self.n_draws, unit="draw") as progress:
            draws = method.run(
                simulator, self.n_draws, root, n_jobs=self.n_jobs, max_simulations=most, progress=progress
            )
        self.n_simulations_ = draws.n_simulations
        self.acceptance_rate_, self.log_evidence_ = draws.acceptance_rate, draws.log_evidence
        if len(draws.theta) == 0 or not draws.weights.any():
            words = self._words(draws, simulator)
            if draws.was_interrupted:
                raise KeyboardInterrupt(f"interrupted before there was a draw: {words}")
            raise ValueError(words + ', so there is no draw: use method="smc", or check the release')
        self.theta_draws_, self.statistic_draws_, self.weights_ = draws.theta, draws.statistics, draws.weights
        self.log_evidence_error_ = draws.log_evidence_error
        vars(self).update(draws.attributes)
        self._monitors_ = {"theta": draws.theta[None]}
        names = [f"theta[{p}]" for p in range(draws.theta.shape[1])]
        self.ess_ = dict(zip(names, map(float, draws.ess), strict=True))
        self.r_hat_ = dict.fromkeys(names, np.nan)
        return partial(self._warn_about_draws, draws, simulator)

    def _words(self, draws, simulator):
        """How many simulations there were, and what share of them rejection would keep."""
        if simulator.log_mode == np.inf:
            return f"few of {draws.n_simulations} simulations are compatible with the release"
        share = np.exp(draws.log_evidence - simulator.log_mode)
        words = f"{share:.2g}" if share > 0.0 else "less than 1e-300"
        return f"a share of {words} of {draws.n_simulations} simulations is compatible with the release"

    def _warn_about_draws(self, draws, simulator):
        """Warn once: of a fit that was cut short, or of weights that cannot be trusted."""
        n, fewest, k_hat = len(draws.theta), min(self.ess_.values()), getattr(self, "k_hat_", 0.0)
        if not draws.complete:
            kept = f"{n} of n_draws={self.n_draws} draws, {fewest:.0f} of them effective"
            words = self._words(draws, simulator)
            warn_user(
                f"interrupted after {draws.n_simulations} simulations: kept {kept}; {words}"
                if draws.was_interrupted
                else f"stopped early, after {draws.n_simulations} simulations (max_simulations="
                f"{self.max_simulations:g}): {kept}; {words}: if that is too few, method="
                '"smc" needs the fewest simulations, or method="mcmc" with many parameters',
                RuntimeWarning,
            )
        elif k_hat > K_HAT_LIMIT or (np.ptp(draws.weights) > 0.0 and fewest < min(ESS_LIMIT, n)):
            tail = f", Pareto k-hat {k_hat:.2f} (should be at most {K_HAT_LIMIT})" if k_hat > K_HAT_LIMIT else ""
            warn_user(
                f"the effective sample size is only {fewest:.0f} of {n} draws{tail}; increase n_draws, or use "
                'another method, such as "smc"',
                RuntimeWarning,
            )

    def _fit_chains(self, method, simulator, earlier):
        """Set the draws; return what warns about them."""
        n_draws = draws_rule(self.n_draws).most
        planned = self.n_chains * (self.n_warmup + n_draws * self.thin) * method.n_replicates
        if planned > self.max_simulations:
            raise ValueError(
                f"max_simulations={self.max_simulations:g} is less than the {planned} simulations that n_chains, "
                "n_warmup, n_draws, thin and n_replicates require"
            )
        init, advance = partial(method.init, simulator), partial(method.advance, simulator)
        checks = partial(method.restored, simulator), partial(method.check_draws, simulator)
        posed = Problem(simulator.S, init, advance, *checks)
        self._advance_chains(posed, methodcaller("_keep", method), earlier)
        return self._warn_about_chains

    def _keep(self, method):
        self.theta_draws_, self.statistic_draws_ = self._all_draws("theta"), self._all_draws("statistics")
        self.acceptance_rate_ = self._acceptance_rate()  # no bound holds for the smallest probability
        self.n_simulations_ = int(self._state_floats()[:, PROPOSED].sum()) * method.n_replicates
        self._monitor({"theta": self.theta_draws_})

    def _not_mixed(self):
        """As the parent; R-hat is nan where no chain moved, which only a prior that is a point explains."""
        moves = self._run_.chains[0].state.moves
        if len(moves) and self.theta_draws_.shape[1] >= FEWEST and not np.ptp(self.theta_draws_, axis=(0, 1)).any():
            return "the chains have not mixed: none of them moved"
        return super()._not_mixed()

    def resample(self, n_draws: int | None = None, random_state: Seed = None) -> Floats:
        """Draws of equal weight.

        Parameters
        ----------
        n_draws : int, optional
            None: as many as there are.
        random_state : int, Generator, RandomState or None

        Returns
        -------
        theta : ndarray of shape (n_draws, n_params)
        """
        check_is_fitted(self)
        theta = self.theta_draws_.reshape(-1, self.theta_draws_.shape[-1])
        return theta[self._resampled(n_draws, as_generator(random_state))]

    def _resampled(self, n_draws, rng):
        """Numbers of draws, drawn by weight."""
        total = self.theta_draws_.size // self.theta_draws_.shape[-1]
        n = total if n_draws is None else positive_integer("n_draws", n_draws, most=2**53)
        return rng.choice(total, size=n, p=getattr(self, "weights_", None))

    def to_datatree(
        self,
        *,
        weights: str | None = None,
        log_likelihood: bool = False,
        posterior_predictive: bool = False,
        thin: int = 1,
        random_state: Seed = None,
    ) -> Any:
        """The draws, the release, and what follows from both, for ArviZ.

        Parameters
        ----------
        weights : {None, "resample", "keep"}
            What to do if weights differ, which ArviZ ignores.  None: ValueError; "resample": take as many draws of
            equal weight, by ``random_state``; "keep": take them as they are, with ``weight`` in the group
            "sample_stats", for functions of your own.
        log_likelihood, posterior_predictive, thin, random_state :
            As in :meth:`PrivateDPMixture.to_datatree`.

        Returns
        -------
        tree : xarray.DataTree
            As there.  The posterior has ``log_evidence``, its error and ``k_hat`` among its attributes, where the
            method gives them.  Draws that are not from chains appear as one chain.

        Raises
        ------
        ImportError, ValueError
        """
        check_is_fitted(self)
        rng, rows = as_generator(random_state), None
        if weights not in (None, "keep", "resample"):
            raise ValueError(f'weights must be None, "keep" or "resample", got weights={weights!r}')
        if np.ptp(getattr(self, "weights_", 0.0)) > 0.0:
            if weights is None:
                raise ValueError(
                    "the draws have weights, which ArviZ would ignore: use resample(), or "
                    'to_datatree(weights="resample"), or weights="keep", which puts them into sample_stats'
                )
            rows = self._resampled(None, rng) if weights == "resample" else None
        return build_tree(
            self,
            ABCContents(self, rows),
            log_likelihood=log_likelihood,
            posterior_predictive=posterior_predictive,
            thin=thin,
            random_state=rng,
        )


def resolve_method(method):
    """Return the method as an object."""
    if isinstance(method, str):
        if method not in METHODS:
            raise ValueError(f"method must be one of {sorted(METHODS)} or an object, got method={method!r}")
        return METHODS[method]()
    if not isinstance(method, tuple(METHODS.values())):
        raise TypeError(
            f"method must be one of {sorted(METHODS)}, or an object such as SequentialABC(), got method={method!r}"
        )
    method._validate_params()
    return method
