"""Maximum likelihood of a model's parameters given a private release, by Monte Carlo EM."""

from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.stats import norm
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..._base.generators import as_generator
from ..._base.parameters import numbers, tails
from ..._base.typing import Floats, Seed
from ..._chains.progress import CallbackSupportMixin, Progress
from ...samplers.simulation._likelihood_ascent import (
    FEWEST_EFFECTIVE,
    MOST_ROUGH,
    Likelihood,
    ascend,
    inside,
    newton_step,
    next_size,
    upper_gain,
)
from ...samplers.simulation._simulator import Simulator
from .._chain_estimator import warn_user
from .._decorators import fit_context, with_callbacks
from ..curator._curator import keep_names
from ._simulation_inputs import check_simulation

N_STARTS = 1000  # draws of the prior whose mean is the start
MOST_NEWTON = 30  # steps


class PrivateMCEM(CallbackSupportMixin, BaseEstimator):
    """Maximum likelihood and standard errors given noisy statistics, by Monte Carlo EM.

    A curator released s_obs = s(x) + noise.  The likelihood of s is known, and that of s_obs is an integral over s: the
    E-step simulates s and weights it by the density of the noise.  Sample sizes follow an ascent rule (Caffo, Jank &
    Jones 2005), so there is no schedule to set; Newton steps with Louis' score and information end the ascent, where EM
    is slow.

    Parameters
    ----------
    mechanism : mechanism object
        What s went through, as in ``LaplaceMechanism(scale=5.0)``.
    model : object
        Plain NumPy; ``rng`` is a :class:`numpy.random.Generator`, ``theta`` of shape (size, n_params).

        ``sample_statistic(rng, theta)`` -> statistics of shape (size, n_columns)
            As in :class:`PrivateABC`.
        ``log_likelihood(statistics, theta)`` -> (size,)
            Log likelihood of each statistic before noise, up to terms that do not depend on θ; -inf or NaN outside the
            support.
        ``theta_init``, or ``sample_prior(rng, size)``
            Where to start: of shape (n_params,), or the mean of draws of the prior.
        ``maximise(statistics, weights)`` -> (n_params,), optional
            The M-step in closed form; Nelder–Mead otherwise.
        ``score(statistics, theta)`` -> (size, n_params), ``hessian(...)`` -> (size, n_params, n_params), optional
            Derivatives of the log likelihood; finite differences otherwise.
    tol : float, default=0.01
        The ascent ends when a step gains less than ``tol²`` in log likelihood, Monte Carlo error included.  Newton
        steps follow, each with a Monte Carlo error of less than ``tol / 10`` standard errors if ``max_simulations``
        allow that, until two in a row are shorter than ``tol`` standard errors; the second is not taken.
    max_iter : int, default=200
        Largest number of EM steps.
    n_simulations : int, default=1000
        Simulations of the first step.
    max_simulations : int, default=10**7
        Largest number of simulations in one step.
    n_starts : int, default=1
        Number of ascents; the one with the largest likelihood is kept, since a likelihood may have several maxima.  The
        first starts as described above, the others at draws from the prior (the model's ``sample_prior``).
    random_state : int, Generator, RandomState or None
    verbose : int, default=0

    Attributes
    ----------
    theta_ : ndarray of shape (n_params,)
        The maximum likelihood estimate.
    information_ : ndarray of shape (n_params, n_params)
        Observed Fisher information of the release at ``theta_``, if ``converged_``.
    standard_error_ : ndarray of shape (n_params,)
        By that information, with a Monte Carlo error of less than 5 % if there is no warning; NaN where the information
        is not positive, or the likelihood has no maximum inside.
    monte_carlo_error_ : ndarray of shape (n_params,)
        Standard error of ``theta_`` as a Monte Carlo estimate of the maximum.
    score_ : ndarray of shape (n_params,)
        Gradient of the log likelihood there.
    log_likelihood_ : float
        Log likelihood of the release there.
    trace_ : dict of str to ndarray
        For each EM step: "theta", "log_likelihood" (before the step), "n_simulations", "gain", "gain_error",
        "n_effective".
    converged_ : bool
    n_iter_ : int
    starts_ : dict of str to ndarray
        For each start: "theta_init", "theta" and "log_likelihood" where it ended, "converged".

    References
    ----------
    Gong (2019), "Exact inference with approximate computation for differentially private data via perturbations", §4;
    Caffo, Jank, Jones (2005), "Ascent-based Monte Carlo expectation–maximization"; Louis (1982).

    Examples
    --------
    Example 4 of the paper:

    >>> from sklearn_dpmix import PrivateMCEM
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.models import PoissonCount
    >>> fitted = PrivateMCEM(LaplaceMechanism(scale=5.0), model=PoissonCount(), random_state=0).fit([37.4])
    >>> bool(abs(fitted.theta_[0] - 37.237) < 0.1), bool(abs(fitted.information_[0, 0] - 0.01582) < 3e-4)
    (True, True)
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        "mechanism": "no_validation",
        "model": "no_validation",
        "tol": [Interval(Real, 0, None, closed="neither")],
        "max_iter": [Interval(Integral, 1, None, closed="left")],
        "n_simulations": [Interval(Integral, 10, None, closed="left")],
        "max_simulations": [Interval(Real, 10, None, closed="left")],
        "n_starts": [Interval(Integral, 1, None, closed="left")],
        "random_state": ["random_state", np.random.Generator],
        "verbose": ["verbose"],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        model: Any = None,
        tol: float = 0.01,
        max_iter: int = 200,
        n_simulations: int = 1000,
        max_simulations: int = 10**7,
        n_starts: int = 1,
        random_state: Seed = None,
        verbose: int | bool = 0,
    ) -> None:
        self.mechanism = mechanism
        self.model = model
        self.tol = tol
        self.max_iter = max_iter
        self.n_simulations = n_simulations
        self.max_simulations = max_simulations
        self.n_starts = n_starts
        self.random_state = random_state
        self.verbose = verbose

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, s_obs: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Climb the likelihood of a release.

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
            For a mechanism or a model that lacks what is needed.
        ValueError
            For a bad parameter or release; if the model returns the wrong shape, or numbers that are not finite; if
            the start cannot have led to the release.

        Warns
        -----
        RuntimeWarning
            If the ascent did not converge, or ended where the information is not positive; if starts ended apart by
            more than Monte Carlo error.
        """
        needs = ("sample_statistic", "log_likelihood")
        S = check_simulation(self, s_obs, needs)
        rng, simulator = as_generator(self.random_state), Simulator(self.model, self.mechanism, S)
        starts, likelihood = self._starts(simulator, rng), Likelihood(self.model)
        fits, n_ended = [], 0
        for start in starts:
            try:
                fits.append(self._climb(simulator, likelihood, start, rng))
            except KeyboardInterrupt:
                if not fits:
                    raise
                break
            if fits[-1].pop("interrupted"):
                break
            n_ended += 1
        best = max(fits, key=lambda fit: fit["log_likelihood_"])
        doubts = best.pop("doubts") + disagreements(fits[: max(n_ended, 1)], best, self.tol)
        if 0 < n_ended < self.n_starts:
            doubts.append(f"it was interrupted after {n_ended} of n_starts={self.n_starts} ascents")
        keep_names(self, s_obs, S)
        vars(self).update(best)  # type: ignore[attr-defined]
        names = "theta_", "log_likelihood_", "converged_"
        self.starts_ = {name[:-1]: np.array([fit[name] for fit in fits]) for name in names}
        self.starts_["theta_init"] = starts[: len(fits)]
        if doubts:
            warn_user(f"Monte Carlo EM ended at theta={self.theta_.tolist()}: {'; '.join(doubts)}", RuntimeWarning)
        return self

    def _starts(self, simulator, rng):
        """(n_starts, n_params)"""
        first, has_prior = getattr(self.model, "theta_init", None), callable(getattr(self.model, "sample_prior", None))
        if not has_prior and (first is None or self.n_starts > 1):
            needs = "needs" if first is not None else "needs theta_init of shape (n_params,), or"
            raise TypeError(
                f"PrivateMCEM with n_starts={self.n_starts}: the model {needs} sample_prior(rng, size), which "
                f"{type(self.model).__name__} does not have"
            )
        draws = simulator.prior(rng, max(N_STARTS, self.n_starts)) if has_prior else None
        if first is None:
            return np.vstack([draws.mean(axis=0), draws[: self.n_starts - 1]])
        start = numbers(first)
        n_params = np.size(start) if draws is None else draws.shape[1]
        if start is None or np.size(start) != max(n_params, 1) or not np.all(np.isfinite(start)):
            raise ValueError(
                f"{type(self.model).__name__}.theta_init must be {n_params} finite number(s), one per parameter, got "
                f"{first!r}"
            )
        start = start.reshape(1, -1)
        return start if draws is None else np.vstack([start, draws[: self.n_starts - 1]])

    def _climb(self, simulator, likelihood, theta, rng):
        """Fitted attributes of an ascent from θ, and what is doubtful about them."""
        theta, steps, converged, interrupted = self._ascend(simulator, likelihood, theta, rng)
        trace = {name: np.array([getattr(step, name) for step in steps]) for name in steps[0]._fields}
        if interrupted:
            doubts = [f"it was interrupted after {len(steps)} steps"]
        else:
            limits = f"max_iter={self.max_iter} steps and max_simulations={self.max_simulations:g} simulations per step"
            doubts = [] if converged else [f"it did not converge within {limits}"]
        found = self._finish(simulator, likelihood, theta, rng, doubts)
        return {"trace_": trace, "n_iter_": len(steps), "interrupted": interrupted, **found}

    def _ascend(self, simulator, likelihood, theta, rng):
        """EM steps until the gain is below ``tol²``: (θ, steps, whether it is below, whether it was interrupted)."""
        steps, size, used_up = [], min(self.n_simulations, int(self.max_simulations)), False
        with Progress(self, 0, self.max_iter, unit="step") as progress:
            while len(steps) < self.max_iter and not used_up:
                try:
                    theta, step, used_up = ascend(simulator, likelihood, theta, size, rng, int(self.max_simulations))
                except KeyboardInterrupt:
                    if not steps:
                        raise
                    return theta, steps, False, True
                steps.append(step)
                progress(len(steps), f"log likelihood {step.log_likelihood:.5g}")
                if upper_gain(step) < self.tol**2 and step.n_effective >= FEWEST_EFFECTIVE:
                    return theta, steps, True, False
                size = min(next_size(step), int(self.max_simulations))
        return theta, steps, False, False

    def _finish(self, simulator, likelihood, theta, rng, doubts):
        """Newton steps until one is short, and the next one, which stays undone, too; and the errors there.

        Short is what is below ``tol``, or what Monte Carlo error alone may be where simulations are too few for that.
        """
        limit, seen, is_last = f"with max_simulations={self.max_simulations:g}", None, False
        for _ in range(MOST_NEWTON):
            top = newton_step(simulator, likelihood, theta, 0.1 * self.tol, int(self.max_simulations), rng)
            if top.step is None and is_last:
                doubts.append(f"{limit}, errors are those one step before the estimate: increase it")
                top = seen
                break
            if top.step is None:
                is_finite = np.all(np.isfinite(top.information))
                found = "observed information is not positive" if is_finite else "log likelihood has no derivatives"
                doubts.append(f"the {found} there: no standard error")
                break
            length = np.sqrt(top.step @ top.information @ top.step)  # in standard errors
            is_short = length < np.fmax(self.tol, 2.0 * np.linalg.norm(top.monte_carlo_error / top.error))
            if is_last and (is_short or doubts):
                break
            seen, is_last = top, is_short or bool(doubts)
            moved = inside(likelihood, top.imputed, theta, top.step * min(1.0, 1.0 / max(length, 1e-300)))
            if moved is None:
                doubts.append("the likelihood rises towards the edge of the parameters: no standard error")
                top = top._replace(error=np.full(len(theta), np.nan))
                break
            theta = moved
        else:
            doubts.append(f"{MOST_NEWTON} Newton steps did not reach the maximum")
        converged = not doubts
        if top.step is not None and (doubt := doubt_of(top, self.tol)):
            doubts.append(f"{limit}, {doubt}")
        return {
            "theta_": theta,
            "information_": top.information,
            "score_": top.score,
            "standard_error_": top.error,
            "monte_carlo_error_": top.monte_carlo_error,
            "log_likelihood_": top.imputed.log_likelihood,
            "converged_": converged,
            "doubts": doubts,
        }

    def interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Wald intervals.

        Parameters
        ----------
        level : float in (0, 1), default=0.95

        Returns
        -------
        lower, upper : ndarrays of shape (n_params,)
        """
        check_is_fitted(self)
        width = norm.isf(tails(level)[0]) * self.standard_error_
        return self.theta_ - width, self.theta_ + width


def doubt_of(top, tol):
    """A few words, if the simulations were too few for the estimate or its errors."""
    if not np.all(np.isfinite(top.monte_carlo_error)):
        return f"fewer than {FEWEST_EFFECTIVE} simulations are near the release: increase it"
    if np.any(top.monte_carlo_error > tol * top.error):
        error = top.monte_carlo_error.tolist()
        return f"the Monte Carlo error of theta is {error}, more than tol={tol:g} standard errors: increase one of them"
    return f"standard errors are known to {top.roughness:.0%} only: increase it" if top.roughness > MOST_ROUGH else ""


def disagreements(fits, best, tol):
    """A sentence, if ascents ended farther from the best than their errors and the Newton steps' tolerance explain."""

    def is_apart(fit):
        error = np.hypot(fit["monte_carlo_error_"], best["monte_carlo_error_"])
        reach = 5.0 * error + 2.0 * tol * best["standard_error_"]
        return not np.all(np.abs(fit["theta_"] - best["theta_"]) <= reach)

    apart = [fit for fit in fits if fit is not best and is_apart(fit)]
    if not apart:
        return []
    ends = ", ".join(f"{fit['theta_'].tolist()} (log likelihood {fit['log_likelihood_']:.6g})" for fit in apart)
    return [f"{len(apart)} of {len(fits)} starts ended elsewhere, at {ends}, and this is the best: increase n_starts"]
