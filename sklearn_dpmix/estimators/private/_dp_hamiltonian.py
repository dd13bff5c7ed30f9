"""DP HMC: Hamiltonian Monte Carlo on noisy gradients and noisy log likelihood ratios."""

from numbers import Integral, Real
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import Interval

from ..._base.parameters import numbers
from ..._base.typing import Seed
from ...privacy import GaussianReleases, PrivacyLedger
from ...samplers import PrivateNewton
from ...samplers.private._hamiltonian import NoisyHamiltonian
from ._dp_mcmc import DPMCMC
from ._dp_scale import NOISE_OF_A_MOVE, largest_scale, typical_steps, widths

LENGTH = 1.5  # length of a trajectory in standard deviations: a quarter of a turn of a normal posterior is π/2


class DPHamiltonianMC(DPMCMC):
    """Posterior draws of confidential records by Hamiltonian Monte Carlo, released under (ε, δ).

    Gradients are clipped and released with noise.  The end of a trajectory is accepted by a noisy log likelihood ratio
    with the penalty correction.  Noise and clipping of *gradients* do not change the posterior; for ratios, see
    :class:`DPPenaltyMCMC`.

    Parameters
    ----------
    mechanism, clip_bound, init, temperature, preconditioner, burn_in, clipped_fraction_share, ledger, secure, simulate,
    n_chains, n_jobs, random_state, verbose :
        As in :class:`DPPenaltyMCMC`.
    model : object
        ``log_density``, ``log_prior`` and ``grad_log_density(X, theta)`` -> (n, n_params); ``grad_log_prior(theta)`` is
        computed by finite differences if it is missing.
    gradient_clip_bound : float, optional
        Gradients of a record (in the coordinates of the preconditioner) are clipped to this length.  None: the model's
        ``gradient_range`` bounds them.
    n_iter : int, optional
        Trajectories over all chains.
    noise_multiplier : float, optional
        Standard deviation of the noise of a ratio, in sensitivities.  Give exactly one of the two.
    gradient_noise_ratio : float, default=2.0
        The noise multiplier of a gradient is this number times that of a ratio.
    step_size : float, optional
        In units of the preconditioner, or without one in units of θ.  None: trajectories of 1.5 standard deviations in
        total, or shorter if the noise of a gradient would turn them around or the noise of a typical ratio would be
        more than 1.8.  Where neither a preconditioner nor the model's ``information`` says what a standard deviation
        is, it is the smallest that the range of gradients allows.
    n_leapfrog : int, default=10
        Steps of a trajectory.
    mass : array-like of shape (n_params,), optional
        Diagonal of the mass matrix; None: 1.
    reuse_gradients : bool, default=True
        The last gradient of a trajectory is the first of the next, which takes k L + 1 gradients per chain for k
        trajectories of L steps.  False: each trajectory gets fresh ones, k (L + 1).  Both are exact.

    Attributes
    ----------
    gradient_noise_multiplier_ : float
    theta_draws_, privacy_spent_, is_private_, noise_multiplier_, acceptance_rate_, clipped_fraction_, mode_,
    covariance_root_, r_hat_, ess_, n_iter_ :
        As in :class:`DPPenaltyMCMC`.

    References
    ----------
    Räisä (2021), "Differentially private Markov chain Monte Carlo", Algorithm 3, without its friction, which would make
    it inexact.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import DPHamiltonianMC
    >>> from sklearn_dpmix.mechanisms import GaussianMechanism
    >>> from sklearn_dpmix.models import GaussianMean
    >>> from sklearn_dpmix.samplers import PrivateNewton
    >>> X = np.random.default_rng(0).normal(1.0, 1.0, (10_000, 1))
    >>> budget = GaussianMechanism(epsilon=2.0, delta=1e-6)
    >>> model = GaussianMean(data_norm=5.0)
    >>> sampler = DPHamiltonianMC(budget, model=model, n_iter=400, preconditioner=PrivateNewton(), n_chains=2)
    >>> bool(abs(sampler.fit(X).theta_draws_.mean() - 1.0) < 0.1)
    True
    """

    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **DPMCMC._parameter_constraints,
        "gradient_clip_bound": [Interval(Real, 0, None, closed="neither"), None],
        "gradient_noise_ratio": [Interval(Real, 0, None, closed="neither")],
        "step_size": [Interval(Real, 0, None, closed="neither"), None],
        "n_leapfrog": [Interval(Integral, 1, None, closed="left")],
        "mass": ["array-like", None],
        "reuse_gradients": ["boolean"],
    }
    _needs = ("grad_log_density",)

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        model: Any = None,
        clip_bound: float | None = None,
        gradient_clip_bound: float | None = None,
        n_iter: int | None = None,
        noise_multiplier: float | None = None,
        gradient_noise_ratio: float = 2.0,
        step_size: float | None = None,
        n_leapfrog: int = 10,
        mass: ArrayLike | None = None,
        reuse_gradients: bool = True,
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
        self.gradient_clip_bound = gradient_clip_bound
        self.n_iter = n_iter
        self.noise_multiplier = noise_multiplier
        self.gradient_noise_ratio = gradient_noise_ratio
        self.step_size = step_size
        self.n_leapfrog = n_leapfrog
        self.mass = mass
        self.reuse_gradients = reuse_gradients
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

    def _check_ranges(self, model):
        super()._check_ranges(model)
        if self.gradient_clip_bound is None:
            self._check_range(model, "gradient_range", "gradient_clip_bound")

    def _check_model(self):
        model = super()._check_model()
        self._masses(len(self._start(model)))
        return model

    def _masses(self, n_params):
        mass = np.ones(n_params) if self.mass is None else numbers(self.mass)
        if mass is None or mass.shape != (n_params,) or not np.all((mass > 0) & np.isfinite(mass)):
            raise ValueError(f"mass must be {n_params} positive numbers, one per parameter, got mass={self.mass!r}")
        return mass

    def _releases(self, multiplier, n, n_records):
        """n ratios and, chain by chain, L gradients per trajectory with one before the first (or before each)."""
        extra = self.n_chains if self.reuse_gradients else n
        gradients = GaussianReleases(self.gradient_noise_ratio * multiplier, n * self.n_leapfrog + extra)
        return [GaussianReleases(multiplier, n), gradients]

    def _sampler(self, target, coordinates, plan):
        self.gradient_noise_multiplier_ = self.gradient_noise_ratio * plan.multiplier
        return NoisyHamiltonian(
            target,
            coordinates,
            self._length(target, coordinates, plan.multiplier) / self.n_leapfrog,
            self.n_leapfrog,
            self._masses(len(coordinates.centre)),
            plan.multiplier,
            self.gradient_noise_multiplier_,
            self.reuse_gradients,
        )

    def _length(self, target, coordinates, multiplier):
        """Length of a trajectory: step size times steps."""
        L, n_params = self.n_leapfrog, len(coordinates.centre)
        if self.step_size is not None:
            return self.step_size * L
        if multiplier == 0.0:
            return LENGTH * self._unit(target, coordinates)
        psi, steps = np.zeros(n_params), typical_steps(n_params)
        _, width = target.gradient_bound(coordinates.theta(psi), coordinates.jacobian(psi))
        least = 2.0 / (width * (target.n_records * target.temperature) ** 0.5)  # a variance is at most (width/2)²
        longest = LENGTH * self._unit(target, coordinates, least)
        turn = self.gradient_noise_multiplier_ * target.temperature * width * (n_params / L) ** 0.5

        def is_fine(scale):
            noise = multiplier * target.temperature * np.median(widths(target, coordinates, scale * steps))
            return noise <= NOISE_OF_A_MOVE and scale * turn <= 1.0

        return largest_scale(is_fine, longest)
