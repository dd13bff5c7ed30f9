"""DP Barker: a random walk whose noisy tests on batches are amplified by subsampling."""

from numbers import Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ..._base.typing import Seed
from ...privacy import PrivacyLedger, SubsampledReleases, barker_rdp
from ...samplers import PrivateNewton
from ...samplers.private._barker_acceptance import Barker
from ...samplers.private._barker_correction import barker_correction
from ...samplers.private._target import has_range
from ._dp_penalty import RandomWalkMCMC


class DPBarkerMCMC(RandomWalkMCMC):
    """Posterior draws of confidential records by Barker's test on noisy batches, released under (ε, δ).

    This is **approximate**, in two ways.  A batch's error is taken to be normal with its estimated variance, which is
    good from hundreds of records on if no single record dominates.  And the correction that makes normal noise logistic
    has an error of at most ``correction_error_`` in each acceptance probability, which acts like a change of
    temperature of 0.2 % at the default.  Privacy is accounted for with Rényi privacy and subsampling without
    replacement.

    Parameters
    ----------
    mechanism, model, move, init, preconditioner, burn_in, ledger, simulate, n_chains, n_jobs, random_state,
    verbose :
        As in :class:`DPPenaltyMCMC`.  There is no ``secure``, since the noise's scale depends on the batch.  Noise uses
        the operating system's entropy and is made and added in floating point, so a floating-point attack may see
        through it.
    clip_bound : float, optional
        Log ratios of a record are clipped to ±clip_bound ‖θ' - θ‖.  None: the model's ``log_ratio_range`` bounds them;
        without one they are clipped to ±ratio_limit √b/(nT), whatever the move.
    batch_size : int, default=1000
        b.  Without a mechanism all records are used, for the exact test.
    temperature : float in (0, 1], default=1.0
        T, the power of the likelihood.  The noise is fixed, and ratios must be small compared with it: this sampler is
        meant for T of about n0/n, with n0 in the hundreds or thousands.
    ratio_limit : float in (0, 1], default=0.3
        Moves whose log ratios could range over more than 2 ratio_limit √b/(nT) are rejected unseen.  A smaller limit
        allows more iterations with shorter moves; nothing is gained below 0.3.
    correction_variance : float, default=1.75
        C, the variance of batch error and noise together, one of 1.0, 1.25, ..., 2.75.  A larger one is cheaper and
        less exact: with 1.75 the posterior is as if at a temperature 0.2 % off, with 2.75 its variance came out
        3.5 % too large.
    n_iter : int, optional
        Iterations over all chains; None: as many as the budget allows.
    proposal_scale : float, optional
        As in :class:`DPPenaltyMCMC`; None: nine of ten typical moves are within the ratio limit, and moves are at most
        2.4/√d standard deviations, if something public says what these are; where not even the range of ratios is
        known, they are taken to be 1/√(nT).

    Attributes
    ----------
    correction_error_ : float
        Largest error of an acceptance probability that the correction makes.
    noise_multiplier_ : float
        0, as the noise of the acceptance test is fixed (``correction_variance``).
    theta_draws_, privacy_spent_, is_private_, acceptance_rate_, clipped_fraction_, mode_, covariance_root_, r_hat_,
    ess_, n_iter_ :
        As in :class:`DPPenaltyMCMC`.

    References
    ----------
    Heikkilä, Jälkö, Dikmen, Honkela (2019), "Differentially private Markov chain Monte Carlo"; Räisä (2021), §3.2.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import DPBarkerMCMC
    >>> from sklearn_dpmix.mechanisms import GaussianMechanism
    >>> from sklearn_dpmix.models import GaussianMean
    >>> from sklearn_dpmix.samplers import PrivateNewton
    >>> X = np.random.default_rng(0).normal(1.0, 1.0, (20_000, 1))
    >>> budget = GaussianMechanism(epsilon=2.0, delta=1e-6)
    >>> model, start = GaussianMean(data_norm=5.0), PrivateNewton()
    >>> sampler = DPBarkerMCMC(budget, model=model, temperature=0.02, n_iter=4000, n_chains=2, preconditioner=start)
    >>> bool(abs(sampler.fit(X).theta_draws_[:, 1000:].mean() - 1.0) < 0.3)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **RandomWalkMCMC._parameter_constraints,
        "ratio_limit": [Interval(Real, 0, 1, closed="right")],
        "correction_variance": [Interval(Real, 0, None, closed="neither")],
    }

    noise_multiplier = None  # of which there is none to choose
    clipped_fraction_share = None  # a test on a batch has no clipped fraction to release

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        model: Any = None,
        clip_bound: float | None = None,
        batch_size: int | None = 1000,
        temperature: float = 1.0,
        ratio_limit: float = 0.3,
        correction_variance: float = 1.75,
        n_iter: int | None = None,
        move: str = "full",
        proposal_scale: float | None = None,
        init: ArrayLike | None = None,
        preconditioner: PrivateNewton | None = None,
        burn_in: float = 0.5,
        ledger: PrivacyLedger | None = None,
        simulate: bool = False,
        n_chains: int = 4,
        n_jobs: int | None = None,
        random_state: Seed = None,
        verbose: int | bool = 0,
    ) -> None:
        self.mechanism = mechanism
        self.model = model
        self.clip_bound = clip_bound
        self.batch_size = batch_size
        self.temperature = temperature
        self.ratio_limit = ratio_limit
        self.correction_variance = correction_variance
        self.n_iter = n_iter
        self.move = move
        self.proposal_scale = proposal_scale
        self.init = init
        self.preconditioner = preconditioner
        self.burn_in = burn_in
        self.ledger = ledger
        self.simulate = simulate
        self.n_chains = n_chains
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def _check_ranges(self, model):
        """If nothing says what range ratios have, they are clipped."""
        barker_correction(self.correction_variance)
        if self.batch_size is None:
            raise ValueError("DPBarkerMCMC under a mechanism needs batch_size, got batch_size=None")
        if self.ratio_limit**2 * (1.0 + 2.0 / self.batch_size) >= self.correction_variance:
            raise ValueError(
                f"with ratio_limit={self.ratio_limit:g}, the batch error alone can exceed correction_variance="
                f"{self.correction_variance:g}: lower ratio_limit to {0.9 * self.correction_variance**0.5:.2g}, or "
                "choose a larger correction_variance"
            )

    def _check_one_of(self, multiplier, n_iter):
        if self.mechanism is None and n_iter is None:
            raise ValueError("DPBarkerMCMC without a mechanism needs n_iter, got n_iter=None")

    def _uses_batches(self):
        return self.mechanism is not None

    def _curve(self):
        return barker_rdp(self.batch_size, self.correction_variance, self.ratio_limit)

    def _releases(self, multiplier, n, n_records):
        return [SubsampledReleases(self._curve(), self.batch_size, n_records, n)]

    def _multiplier_for(self, budget, releases_of):
        releases = releases_of(None)
        if not budget.allows(releases):
            raise ValueError(
                f"n_iter={self.n_iter} tests on batches of {self.batch_size} do not fit the budget ({budget!r}): leave "
                "n_iter=None for as many as do, or lower ratio_limit"
            )
        return 0.0

    def _describe_noise(self):
        return f"batch_size={self.batch_size} and ratio_limit={self.ratio_limit:g}"

    def _is_clipping(self):
        return self.clip_bound is not None or (self.mechanism is not None and not self._knows_range())

    def _knows_range(self):
        return self.clip_bound is not None or has_range(self.model, "log_ratio_range", self._start(self.model))

    def _sampler(self, target, coordinates, plan):
        def are_fine(widths):  # the ratio limit alone keeps moves within two deviations
            return np.quantile(widths, 0.9) <= float(self.ratio_limit) * Barker.widest(target, self.batch_size)

        correction = barker_correction(self.correction_variance)
        self.correction_error_ = correction.error
        is_limited = self.mechanism is not None and self._knows_range()
        move = self._move(target, coordinates, are_fine if is_limited else None)
        batch_size = self.batch_size if self._uses_batches() else None
        return Barker(target, coordinates, move, batch_size, correction, float(self.ratio_limit))
