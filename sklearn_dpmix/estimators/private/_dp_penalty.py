"""DP penalty: a random walk on noisy log likelihood ratios."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval, StrOptions

from ..._base.typing import Seed
from ...privacy import GaussianReleases, PrivacyLedger, SubsampledGaussianReleases
from ...samplers import PrivateNewton
from ...samplers.private._penalty import Penalty
from ...samplers.private._walk_moves import MOVES
from ._dp_mcmc import DPMCMC
from ._dp_scale import NOISE_OF_A_MOVE, largest_scale, typical_steps, widths


class RandomWalkMCMC(DPMCMC):
    """Base class of random walks: the scale of their moves."""

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DPMCMC._parameter_constraints,
        "move": [StrOptions(set(MOVES))],
        "proposal_scale": [Interval(Real, 0, None, closed="neither"), None],
        "batch_size": [Interval(Integral, 2, None, closed="left"), None],
    }

    def _move(self, target, coordinates, are_fine):
        """The moves, of the given scale or else the best one; if ``are_fine`` asks the widths of the ranges of typical
        moves' log ratios, of the largest scale up to that at which they are."""
        scale, (n_params, at_once) = self.proposal_scale, (len(coordinates.centre), self.move == "full")
        if scale is None:
            best, steps = 2.4 / (n_params if at_once else 1) ** 0.5, typical_steps(n_params, not at_once)
            if are_fine is None:
                scale = best * self._unit(target, coordinates)
            else:
                most = best * self._unit(target, coordinates, np.inf)
                scale = largest_scale(lambda scale: are_fine(widths(target, coordinates, scale * steps)), most)
        return MOVES[self.move](scale)


class DPPenaltyMCMC(RandomWalkMCMC):
    """Posterior draws of confidential records by the penalty algorithm, released under (ε, δ).

    Each iteration releases one noisy log likelihood ratio and corrects the acceptance probability for the noise, so the
    chain leaves the exact posterior invariant if no ratio is clipped.  What is kept (the draws, their acceptance rate,
    R-hat) follows from these releases alone.

    Parameters
    ----------
    mechanism : GaussianMechanism(epsilon, delta) or (rho=...), or None
        The budget of the whole fit, over all chains, for replacing one record.  None: the data are not confidential,
        and the chain is random walk Metropolis.
    model : object
        ``log_density(X, theta)`` -> (n,) and ``log_prior(theta)`` -> (size,) for θ of shape (size, n_params); see
        :class:`sklearn_dpmix.models.LikelihoodModel` for optional methods.
    clip_bound : float, optional
        Log ratios of a record are clipped to ±clip_bound ‖θ' - θ‖, which changes the posterior wherever a ratio is
        clipped.  None: nothing is clipped; the model's ``log_ratio_range`` bounds them (``data_norm`` of the package's
        models).
    n_iter : int, optional
        Iterations over all chains; the noise follows from the budget.
    noise_multiplier : float, optional
        Standard deviation of the noise, in sensitivities (τ√n in the thesis); the number of iterations follows.  Give
        exactly one of the two.
    move : {"full", "component", "guided"}, default="full"
        All coordinates at once; one at random; or one at random that keeps its direction until a move is rejected.
    proposal_scale : float, optional
        Standard deviation of a move, in units of the preconditioner, or without one in units of θ.  None: such that the
        noise of a typical move from the start is 1.8, but at most 2.4/√d standard deviations if the preconditioner or
        the model's ``information`` tells what these are.  It depends on the plan alone.
    batch_size : int, optional
        Number of records in an iteration, drawn without replacement.  This is **approximate**: the error of a batch is
        taken to be normal with its estimated variance, which is good from hundreds of records on if no single record
        dominates.  It is useful for a small ``temperature``; otherwise the noise grows with n.  Privacy is accounted
        for with Rényi privacy.
    init : array-like of shape (n_params,), optional
        Public start.  None: the model's ``theta_init``, or zeros.
    temperature : float in (0, 1], default=1.0
        Power of the likelihood.
    preconditioner : PrivateNewton, optional
        Uses a share of the budget for a start at the mode and for the geometry of the moves.
    burn_in : float in [0, 1), default=0.5
        Share of each chain that summaries leave out; the draws are all kept.
    clipped_fraction_share : float in (0, 1), optional
        Share of the budget that pays for ``clipped_fraction_``, released with noise.
    ledger : PrivacyLedger, optional
        Refuses the fit before it begins if the budget of several fits is used up.
    secure : bool, default=False
        Let OpenDP (extra ``[secure]``) draw the noise, which then resists floating-point attacks.  False: noise uses
        the operating system's entropy and is made and added in floating point, which does not resist them.
    simulate : bool, default=False
        True: noise comes from ``random_state``, for studies of data that are not confidential; ``fit`` warns, and the
        result is not private.
    n_chains : int, default=4
        Chains share the budget: one chain uses it best, and several show whether they have mixed.
    n_jobs : int, optional
    random_state : None, int, Generator or RandomState
        Only without a mechanism or in a simulation, since a seed that made noise is a secret.
    verbose : int, default=0

    Attributes
    ----------
    theta_draws_ : ndarray of shape (n_chains, n_iter // n_chains, n_params)
        Nothing is dropped.
    privacy_spent_ : PrivacyGuarantee or None
    is_private_ : bool
    noise_multiplier_ : float
    acceptance_rate_ : float
    clipped_fraction_ : float
        Exists under a ``clip_bound``, if it was released with noise, which may take it below 0 or above 1, or if the
        data are not confidential.
    mode_, covariance_root_ : ndarrays of shape (n_params,), (n_params, n_params)
        Those of the preconditioner; the root is in working coordinates.
    r_hat_, ess_ : dict of str to float
        Computed without the first ``burn_in``.
    n_iter_ : int
        Iterations of each chain.
    unused_release : ndarray of shape (n_params,), or (n_chains, n, n_params)
        Only if a fit failed after its budget was spent.  Of shape (n_params,), before the first iteration: where the
        preconditioner's noisy steps had come to; another fit may start there (``init``).  Else the draws that were
        made.

    References
    ----------
    Yildirim, Ermis (2019), "Exact MCMC with differentially private moves"; Räisä (2021), "Differentially private Markov
    chain Monte Carlo", §3.1, §4.1, Theorem 7.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import DPPenaltyMCMC
    >>> from sklearn_dpmix.mechanisms import GaussianMechanism
    >>> from sklearn_dpmix.models import GaussianMean
    >>> from sklearn_dpmix.samplers import PrivateNewton
    >>> X = np.random.default_rng(0).normal(1.0, 1.0, (10_000, 1))
    >>> budget = GaussianMechanism(epsilon=2.0, delta=1e-6)
    >>> model = GaussianMean(data_norm=5.0)
    >>> sampler = DPPenaltyMCMC(budget, model=model, n_iter=2000, preconditioner=PrivateNewton()).fit(X)
    >>> bool(abs(sampler.theta_draws_.mean() - 1.0) < 0.1), sampler.privacy_spent_.epsilon <= 2.0
    (True, True)
    """

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        model: Any = None,
        clip_bound: float | None = None,
        n_iter: int | None = None,
        noise_multiplier: float | None = None,
        move: str = "full",
        proposal_scale: float | None = None,
        batch_size: int | None = None,
        init: ArrayLike | None = None,
        temperature: float = 1.0,
        preconditioner: PrivateNewton | None = None,
        burn_in: float = 0.5,
        clipped_fraction_share: float | None = None,
        ledger: PrivacyLedger | None = None,
        secure: bool = False,
        simulate: bool = False,
        n_chains: int = 4,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int | bool = 0,
    ) -> None:
        self.mechanism = mechanism
        self.model = model
        self.clip_bound = clip_bound
        self.n_iter = n_iter
        self.noise_multiplier = noise_multiplier
        self.move = move
        self.proposal_scale = proposal_scale
        self.batch_size = batch_size
        self.init = init
        self.temperature = temperature
        self.preconditioner = preconditioner
        self.burn_in = burn_in
        self.clipped_fraction_share = clipped_fraction_share
        self.ledger = ledger
        self.secure = secure
        self.simulate = simulate
        self.n_chains = n_chains
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _releases(self, multiplier, n, n_records):
        if self.batch_size is None:
            return [GaussianReleases(multiplier, n)]
        return [SubsampledGaussianReleases(multiplier, self.batch_size, n_records, n)]

    def _sampler(self, target, coordinates, plan):
        def are_fine(widths):
            noise = plan.multiplier * Penalty.sensitivity_of(target, np.median(widths), self.batch_size)
            return noise <= NOISE_OF_A_MOVE

        move = self._move(target, coordinates, are_fine if plan.multiplier > 0.0 else None)
        return Penalty(target, coordinates, move, self.batch_size, plan.multiplier)
