"""What the estimators that release posterior draws of confidential records under a budget have in common."""

from functools import partial
from numbers import Integral, Real
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..._base.choices import evenly_spaced
from ..._base.parameters import check_responses, check_table
from ..._base.typing import Floats
from ..._chains.chain import run_chains
from ..._chains.progress import CallbackSupportMixin, Progress
from ...samplers import PrivateNewton
from ...samplers.private._chain_value import PrivateChain
from ...samplers.private._newton import private_steps, shortened
from ...samplers.private._target import Target
from ...samplers.private._walk_moves import Coordinates
from .._chain_estimator import N_JOBS, warn_user
from .._decorators import fit_context, with_callbacks
from .._monitored_draws import MonitoredDraws, despite_interruption
from ._dp_inputs import DPInputs

MOST_PREDICTIVE = 500  # draws that a predictive density averages over
CHUNK = 1_000_000  # numbers of a temporary (n_draws, n) table
FEWEST = 8  # draws of a chain needed for R-hat
UNUSED_START = (
    "the budget counts as spent, but the end of the noisy Newton steps is kept as unused_release: "
    "init=unused_release starts there"
)
UNUSED_DRAWS = (
    "the budget counts as spent, but the draws that were made are kept as unused_release, of shape (n_chains, n, "
    "n_params)"
)


class Plan(NamedTuple):
    """What a fit will release, decided before it sees the data."""

    n_iter: int  # of each chain
    multiplier: float  # noise of a log ratio, in sensitivities; 0: none
    optimum: Any  # GaussianReleases of the search for a mode, or None
    clipped: Any  # GaussianReleases of the clipped fraction, or None
    releases: list  # all of it


class DPMCMC(CallbackSupportMixin, MonitoredDraws, DPInputs, BaseEstimator):
    """Base class.  A subclass has ``_releases(multiplier, n_iter, n_records)`` and ``_sampler(...)``."""

    _KEPT = ("model",)
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "mechanism": "no_validation",
        "model": "no_validation",
        "clip_bound": [Interval(Real, 0, None, closed="neither"), None],
        "n_iter": [Interval(Integral, 1, None, closed="left"), None],
        "noise_multiplier": [Interval(Real, 0, None, closed="neither"), None],
        "init": ["array-like", None],
        "temperature": [Interval(Real, 0, 1, closed="right")],
        "preconditioner": [PrivateNewton, None],
        "burn_in": [Interval(Real, 0, 1, closed="left")],
        "clipped_fraction_share": [Interval(Real, 0, 1, closed="neither"), None],
        "ledger": "no_validation",
        "secure": ["boolean"],
        "simulate": ["boolean"],
        "n_chains": [Interval(Integral, 1, None, closed="left")],
        "n_jobs": N_JOBS,
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    @with_callbacks
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw from the posterior of confidential records; what is kept may be published.

        Parameters
        ----------
        X : array-like of shape (n_records, n_features)
            Confidential.
        y : array-like of shape (n_records,), optional
            Confidential; the last column of the model's records.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            For a bad parameter or a model that lacks what is needed, before the data are looked at; for a budget that
            does not allow one iteration, or that the ledger no longer has; for data that are not finite.

        Warns
        -----
        RuntimeWarning
            If the chains have not mixed, or were interrupted.
        UserWarning
            If ``simulate=True``, since the result is then not private.
        """
        self._warn(self._draw(X, y))
        return self

    @fit_context(prefer_skip_nested_validation=True)
    def _draw(self, X, y):
        """:meth:`fit` without its warnings about the draws; return the plan, from which they follow."""
        model, budget, plan = self._prepare(_num_samples(X))
        with self._refit():
            records = self._check_records(model, X, y)
            if self.ledger is not None and not self.simulate:
                self.ledger.spend(plan.releases, type(self).__name__)
            self._run(model, records, budget, plan)
        return plan

    # ---------------------------------------------------------------- the plan

    def _prepare(self, n_records):
        """(model, Budget or None, Plan), with all checks that need no record."""
        model, budget = self._check_model(), self._check_privacy()
        plan = self._plan(budget, n_records)
        if self.ledger is not None and not self.simulate:
            self.ledger.check(plan.releases, type(self).__name__)
        return model, budget, plan

    def _plan(self, budget, n_records):
        """How many iterations with how much noise; raises if the budget allows none."""
        multiplier, n_iter = self.noise_multiplier, self.n_iter
        multiplier = None if multiplier is None else float(multiplier)
        self._check_one_of(multiplier, n_iter)
        if n_iter is not None and n_iter < self.n_chains:
            raise ValueError(
                f"n_iter is the total over chains: n_iter={n_iter} leaves none for some of n_chains={self.n_chains}"
            )
        if self._uses_batches() and self.batch_size > n_records:
            raise ValueError(
                f"batch_size must be at most the number of records, {n_records}, got batch_size={self.batch_size}"
            )
        if budget is None:
            return Plan(n_iter // self.n_chains, 0.0, None, None, [])
        optimum = clipped = None
        if self.preconditioner is not None:
            optimum = budget.part(self.preconditioner.share, self.preconditioner.n_releases(self.model))
        if self.clipped_fraction_share is not None:
            if not self._is_clipping() or self._uses_batches():
                raise ValueError(
                    f"clipped_fraction_share={self.clipped_fraction_share} needs clip_bound and batch_size=None: "
                    "otherwise there is no clipped fraction to release"
                )
            clipped = budget.part(self.clipped_fraction_share, 1)
        fixed = [part for part in (optimum, clipped) if part is not None]
        if len(fixed) > 1 and not budget.allows(fixed):
            raise ValueError(
                f"share={self.preconditioner.share:g} of preconditioner and clipped_fraction_share="
                f"{self.clipped_fraction_share:g} together are more than the whole budget: lower one of them"
            )

        def releases(m, n):
            return [*fixed, *self._releases(m, self.n_chains * n, n_records)]

        if n_iter is None:
            n_iter = budget.largest_count(lambda n: releases(multiplier, n))
            if n_iter < 1:
                raise ValueError(
                    f"the budget ({budget!r}) is too small for one iteration of n_chains={self.n_chains} chains at "
                    f"{self._describe_noise()}: use more noise, fewer chains, or a larger budget"
                )
        else:
            n_iter = n_iter // self.n_chains
            multiplier = self._multiplier_for(budget, lambda m: releases(m, n_iter))
        return Plan(n_iter, multiplier, optimum, clipped, releases(multiplier, n_iter))

    def _uses_batches(self):
        return self.batch_size is not None

    def _multiplier_for(self, budget, releases_of):
        return budget.smallest_multiplier(releases_of, 1e-3 if self._uses_batches() else 1e-9)

    def _describe_noise(self):
        return f"noise_multiplier={self.noise_multiplier:g}"

    def _check_one_of(self, multiplier, n_iter):
        who = type(self).__name__
        if self.mechanism is None:
            if n_iter is None or multiplier is not None:
                raise ValueError(
                    f"{who} without a mechanism has no noise: give n_iter and no noise_multiplier, got n_iter={n_iter} "
                    f"and noise_multiplier={multiplier}"
                )
        elif (multiplier is None) == (n_iter is None):
            raise ValueError(
                f"{who} takes exactly one of n_iter (over all chains; noise follows from the budget) and "
                f"noise_multiplier (iterations follow), got n_iter={n_iter} and noise_multiplier={multiplier}"
            )

    # ---------------------------------------------------------------- the run

    def _run(self, model, records, budget, plan):
        sources = self._sources(self.n_chains + 1)
        clip_bounds = self.clip_bound, self.gradient_clip_bound
        target = Target(model, records, *clip_bounds, self.temperature, is_private=budget is not None)
        coordinates, starts = self._starts(target, plan, sources)
        sampler = self._sampler(target, coordinates, plan)
        chains = [
            PrivateChain(sampler.init(psi, source), source) for psi, source in zip(starts, sources[1:], strict=True)
        ]
        made = ()
        with Progress(self, 0, plan.n_iter, unit="iteration") as progress:

            def watch(chains, blocks, n_done):
                nonlocal made
                made = blocks
                progress(n_done)

            try:
                chains, blocks, n_done = run_chains(chains, sampler, plan.n_iter, n_jobs=self.n_jobs, watch=watch)
            except Exception:
                if made and budget is not None and not self.simulate:
                    self._keep_unused(draws_of(zip(*made, strict=True)), UNUSED_DRAWS)
                raise
        if n_done == 0:
            raise KeyboardInterrupt("interrupted before there was anything to keep; the budget is spent nevertheless")
        self.theta_draws_, self.n_iter_ = draws_of(blocks), n_done
        self._keep(budget, plan, [chain.state for chain in chains], sources[0], len(records))

    def _starts(self, target, plan, sources):
        """Coordinates of the moves, and where chains start in these: at the public start, or around a noisy mode."""
        model, start = target.model, self._start(target.model)
        zero, newton = np.zeros(len(start)), self.preconditioner
        plain = Coordinates(model, zero, np.eye(len(start)))
        if newton is None:
            return Coordinates(model, plain.psi(start), plain.root), [zero.copy() for _ in range(self.n_chains)]
        noise = 0.0 if plan.optimum is None else plan.optimum.noise_multiplier
        steps = private_steps(target, start, newton.n_steps, noise, sources[0], newton.gradient_clip_bound)
        for step in steps:
            phi, root, error = step
            if plan.optimum is not None and not self.simulate:
                self._keep_unused(plain.theta(phi), UNUSED_START)
        coordinates, spread = Coordinates(model, phi, root), np.sqrt(1.0 + error**2)
        self.mode_, self.covariance_root_ = coordinates.theta(zero), root

        def is_possible(psi):
            return target.log_prior(coordinates.theta(psi)) > -np.inf

        draws = [spread * source.standard_normal(len(start)) for source in sources[1:]]
        return coordinates, [shortened(draw, is_possible) for draw in draws]

    def _unit(self, target, coordinates, unknown=None):
        """The posterior's smallest standard deviation in the coordinates of moves, roughly, from what is public.

        ``unknown`` is used if neither a preconditioner nor the model's ``information`` tells; None: 1/√(nT).
        """
        if self.preconditioner is not None:
            return 1.0
        size = target.n_records * target.temperature
        if not hasattr(target.model, "information"):
            return size**-0.5 if unknown is None else unknown
        psi = np.zeros(len(coordinates.centre))
        frame = coordinates.jacobian(psi)
        information = frame.T @ target.model.information(coordinates.theta(psi)) @ frame
        return (size * np.linalg.norm(information, 2)) ** -0.5

    def _keep(self, budget, plan, states, source, n_records):
        """What may be published, and nothing else."""
        self.noise_multiplier_ = plan.multiplier
        self.is_private_ = budget is not None and not self.simulate
        self.privacy_spent_ = None if budget is None else budget.spent(plan.releases)
        self.acceptance_rate_ = float(np.mean([state.n_accepted for state in states])) / self.n_iter_
        if self._is_clipping() and (budget is None or self.simulate or plan.clipped is not None):
            fraction = float(np.mean([state.clipped for state in states])) / self.n_iter_
            if plan.clipped is not None:
                fraction = source.release(np.array([fraction]), 1.0 / n_records, plan.clipped.noise_multiplier)[0]
            self.clipped_fraction_ = float(fraction)
        self._was_interrupted_ = despite_interruption(partial(self._monitor, {"theta": self.settled_draws()}))

    def _is_clipping(self):
        return self.clip_bound is not None

    def settled_draws(self) -> Floats:
        """The draws that summaries use: (n_chains, n, n_params)."""
        return self.theta_draws_[:, int(self.burn_in * self.n_iter_) :]

    def _warn(self, plan):
        self._warn_of_simulation()
        if self.n_iter_ < plan.n_iter or self._was_interrupted_:
            warn_user(
                f"interrupted: kept {self.n_iter_} of {plan.n_iter} iterations of each chain; the whole budget "
                "counts as spent",
                RuntimeWarning,
            )
        complaint = self._not_mixed()
        if np.all(np.isnan(list(self.r_hat_.values()))):
            if self.n_iter_ < FEWEST:
                warn_user(
                    f"{self.n_iter_} iterations of each chain are too few to say whether the chains have mixed",
                    RuntimeWarning,
                )
            else:
                complaint = "the chains have not mixed: none of them moved"
        if complaint:
            has_none = self.preconditioner is None
            more, start = ("a preconditioner, ", "") if has_none else ("", ", a draw of a normal approximation")
            warn_user(
                f"{complaint}, without the first {self.burn_in:.0%}; what helps under a budget: {more}records of "
                "bounded length (data_norm), temperature below 1, a larger epsilon.  The draws are still close to "
                f"the start of the chains{start}",
                RuntimeWarning,
            )

    # ---------------------------------------------------------------- afterwards: from draws alone

    def score_samples(self, X: ArrayLike, y: ArrayLike | None = None) -> Floats:
        """Log posterior predictive density of records, moved to where the model holds (``clip_records``) as in a fit.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,), optional
            As in :meth:`fit`.

        Returns
        -------
        log_density : ndarray of shape (n,)
            The average over up to 500 draws, without the first ``burn_in``.
        """
        check_is_fitted(self)
        X = check_table(self, X)
        X = X if y is None else np.column_stack([X, check_responses(self, y, len(X))])
        model = self._parts_["model"]
        self._check_columns(model, X, y)
        if hasattr(model, "clip_records"):
            X = model.clip_records(X)
        draws = self.settled_draws().reshape(-1, self.theta_draws_.shape[2])
        draws = draws[evenly_spaced(len(draws), MOST_PREDICTIVE)]
        parts = np.array_split(X, -(-len(X) * len(draws) // CHUNK))
        densities = [logsumexp([model.log_density(x, theta) for theta in draws], axis=0) for x in parts]
        return np.concatenate(densities) - np.log(len(draws))


def draws_of(blocks):
    """All draws, (n_chains, n, n_params), of the blocks of each chain."""
    return np.array([np.concatenate(own) for own in blocks])
