"""Exponential families from noisy sufficient statistics."""

import os
from operator import methodcaller
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import BaseEstimator
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _num_samples, check_is_fitted

from ..._base.generators import as_generator
from ..._base.parameters import check_array, positive_integer
from ..._base.typing import Array, Floats, Seed
from ..._chains.auto_draws import AutoDraws
from ..._chains.datatree import Contents
from ...models import Family, Prior
from ...models._scaling import scaling_of
from ...queries import NoisyCount
from .._chain_estimator import ChainEstimator, warn_user
from .._decorators import fit_context, with_callbacks
from ._curator import keep_names, warn_if_unlikely
from ._exp_family_engines import choose_engine
from ._exp_family_inputs import read_problem
from ._exp_family_release import N_PRIOR, share_inside
from ._statistic_contents import ExpFamilyContents

CHUNK = 2**22  # numbers that a prediction holds at a time
SURE = 0.95  # posterior probability at which the bounds are doubted


class PrivateExpFamilyGibbs(ChainEstimator):
    """Posterior of an exponential family's parameters given noisy sums of its sufficient statistics.

    A curator holds n records x_i and released y = Σ t(x_i) + noise, once or several times.  The noise is part of the
    model: the posterior is that of θ given y, with the hidden statistic s = Σ t(x_i) drawn too or integrated out.

    Parameters
    ----------
    mechanism : mechanism object or None, default=None
        What s went through: Laplace, Gaussian, discrete Laplace or discrete Gaussian noise, with
        ``query=SufficientStatistics(...)`` or just ``scale=``.  None: s was released as it is, and the posterior is the
        ordinary conjugate one.
    family : str or object of :mod:`sklearn_dpmix.models`
        Required: "bernoulli" (or "binomial": n_records of them), "multinomial" (or "categorical"), "poisson",
        "exponential", "gamma" (its shape known: ``Gamma(shape=...)``), "normal" or "beta".
    prior : object of :mod:`sklearn_dpmix.models`, optional
        The prior that is conjugate to the family, in the records' unit, or one of those in the table.  None: uniform on
        the probability of 1; under public bounds, weakly informative in their unit, so that records, bounds and release
        in another unit give the same posterior in that unit.  The defaults, where c and h are the centre and half width
        of bounds (lo, hi):

        ===================  ==========================================  =============================================
        family               prior                                       so that a priori
        ===================  ==========================================  =============================================
        normal               NormalCauchyPrior(c, h, 0.15 h)             the mean is inside the bounds with probability
                                                                         1/2; the sd is 0.6 % to 95 % of them with 0.9
        exponential, gamma   LogLogisticPrior(shape/(0.15 hi))           the mean of a record is 0.8 % to 285 % of hi
                                                                         with 0.9
        poisson              GammaPrior(1, 2/hi)                         the mean is below hi with 0.86
        beta                 MeanPrecisionPrior(10)                      the mean is uniform, a + b is 0.06 to 1600 with
                                                                         0.9 (there is no unit)
        multinomial          WideDirichletPrior(1)                       probabilities are Dirichlet(α, ..., α), where α
                                                                         is 1/19 to 19 with 0.9 (DirichletPrior(1) if
                                                                         ``approximation="normal"``)
        ===================  ==========================================  =============================================

        Bounds may be far wider than the records within them.  Priors that fall faster than these would treat a small
        scale as impossible where noise hides it.  Without a mechanism nothing is hidden, so priors are conjugate
        (NormalInverseGammaPrior(c, 0.01, 1/2, h²/200), GammaPrior(1, hi/(10 shape)), DirichletPrior(1)), and bounds are
        taken from the statistic: for normal records, their mean plus or minus two standard deviations; for exponential
        and gamma records, 0 to ten times their mean.  Under a mechanism without bounds (``scale=`` alone) normal,
        exponential and gamma records have no default and need a prior in their unit; Poisson counts, whose unit is 1,
        have GammaPrior(1, 0.01).
    n_records : int or NoisyCount
        Required: n, or a noisy release of it.  In the second case n has a flat prior on 0, 1, 2, ... (from 1 on for
        exponential and gamma records that are not cut at bounds, and under the normal approximation).
    truncation : pair (lo, hi), optional
        Records outside were dropped before summing.  Use this for a mechanism without a query; a query has its own
        bounds, and says whether records outside are dropped or moved to the bound.
    approximation : {"auto", "exact", "normal"}, default="auto"
        "exact": no approximation; "normal": the hidden statistic s is taken to be normal given θ; "auto": exact if that
        is affordable.  See Notes.
    n_chains, n_warmup, n_draws, thin, n_jobs, random_state, warm_start, checkpoint, verbose :
        As in :class:`PrivateDPMixture`; strongly correlated draws are thinned, by a factor of up to eight.

    Attributes
    ----------
    theta_draws_ : ndarray of shape (n_chains, n_draws, n_params)
        The probability of 1; the probabilities of the categories; the Poisson mean; the rate; (mean, variance); (a, b).
    statistic_draws_ : ndarray of shape (n_chains, n_draws, n_statistics)
        The hidden statistic.
    n_records_draws_ : ndarray of int, (n_chains, n_draws)
        Only if ``n_records`` is a ``NoisyCount``.
    release_ : ndarray of shape (n_releases, n_statistics)
        The release that was used for inference; only under a mechanism.
    approximation_ : str
        "exact" or "normal": what was used.
    acceptance_rate_ : float
        Acceptance rate of the moves of θ under the normal approximation, or of imputed records.
    prior_, family_ : the objects in use
    r_hat_, ess_ : dict of str to float
        For the parameters, and for n.
    n_iter_, n_features_in_ : int
        Sweeps of each chain; numbers in a release.

    Notes
    -----
    *Exact*: for counts (binomial, multinomial), Poisson sums and gamma sums that are not cut at bounds, the
    distribution of s has a closed form.  θ is integrated out of it, so draws are independent or nearly so, whatever n
    and however large the noise; then θ | s is conjugate.  (For a binomial or Poisson release with known n, draws come
    from a table of p(s | y).)  If records are dropped or clamped, and for normal and beta records, all n records are
    imputed (data augmentation).  Under "auto" this is done for up to 1,000 of them (Poisson 200), from 200 on only if
    the posterior seems to have one mode and fewer than 20 of them are beyond the bounds.  It is never done for beta
    records, nor for normal ones of an unscaled release, whose chains mix slowly under much noise.  Nor is it done if n
    is unknown and 20 or more, and the noise is less than twice what one record adds: the release then hardly lets the
    chain add or remove a record.

    *Normal*: s | θ ~ N(nμ(θ), nΣ(θ)), where μ and Σ are the exact mean and covariance of what one record adds, records
    that are dropped or clamped included (Bernstein & Sheldon's Algorithms 1 and 2, without their scale mixture and
    their imputation of truncated records).  It is an approximation.  It is good if many records contribute (from about
    n = 100 on, with some tens of records on either side of a bound or in a rare category), or if the noise is larger
    than the spread of s.  It is not good if few records make up s and there is little noise, as for a count of 1 in 10.
    Under ``outside="drop"`` two different θ can explain the same sums; both are searched for.

    scikit-learn's ``check_estimator`` does not apply: ``family`` and ``n_records`` have no default, and what ``fit``
    takes is not a table of records.

    References
    ----------
    Bernstein, Sheldon (2018), "Differentially private Bayesian inference for exponential families".

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import PrivateExpFamilyGibbs
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.queries import SufficientStatistics
    >>> mechanism = LaplaceMechanism(epsilon=0.1, query=SufficientStatistics("binomial"))
    >>> records = np.random.default_rng(0).random((1000, 1)) < 0.3
    >>> S = mechanism.privatize(records, random_state=1)
    >>> model = PrivateExpFamilyGibbs(mechanism, family="binomial", n_records=1000, random_state=2).fit(S)
    >>> model.approximation_
    'exact'
    >>> low, high = np.quantile(model.theta_draws_, [0.025, 0.975])
    >>> bool(low < 0.3 < high)
    True
    """

    _contents: ClassVar[type[Contents]] = ExpFamilyContents
    _KEPT = ("mechanism", "truncation")
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ChainEstimator._parameter_constraints,
        "mechanism": "no_validation",
        "family": "no_validation",
        "prior": "no_validation",
        "n_records": "no_validation",
        "truncation": "no_validation",
        "approximation": [StrOptions({"auto", "exact", "normal"})],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        family: Family | str | None = None,
        prior: Prior | None = None,
        n_records: int | NoisyCount | None = None,
        truncation: tuple[float, float] | None = None,
        approximation: str = "auto",
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
        self.family = family
        self.prior = prior
        self.n_records = n_records
        self.truncation = truncation
        self.approximation = approximation
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
        S : array-like of shape (n_statistics,) or (n_releases, n_statistics)
            The released sums; several releases of the same records go one per row.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any chain starts, for a bad parameter, parts that do not fit together, or a release that is not made
            of n_statistics finite numbers.

        Warns
        -----
        UserWarning
            If the noise hardly ever takes a release as far as this one from what the statistic can be, or from what it
            is under the posterior (probability below 10⁻³, with all numbers allowed for); if your own prior is far
            outside the bounds; if most of the population seems to be outside them.
        """
        with self._refit() as earlier:
            problem = read_problem(self, S)
            keep_names(self, S, problem.S)
            engine = choose_engine(problem.in_units(), self.approximation)
            self._n_records_ = problem.n_records.known
            if self.mechanism is not None:
                self.release_ = problem.S
            self.family_, self.prior_, self.approximation_ = problem.family, problem.prior, engine.approximation
            keep = methodcaller("_keep", engine, problem)
            self._advance_chains(engine.posed, keep, earlier)
        self._warn_about_chains()
        if self.mechanism is not None:
            hint = "the scaling of its query, the bounds, and whether prior is in the records' unit"
            warn_if_unlikely(self, self.statistic_draws_, [f"sum({label})" for label in problem.labels], hint)
        if problem.bounds is not None:
            self._warn_about_bounds(problem)
        return self

    def _warn_about_bounds(self, problem):
        """Warn if the posterior is sure that most of the population is outside the bounds."""
        theta = self._theta()
        some = theta[:: max(1, len(theta) // N_PRIOR)]
        inside = share_inside(self.family_, some, problem.bounds, np.random.default_rng(0))
        probability = float(np.mean(inside < 0.5))
        if probability > SURE:
            lo, hi = problem.bounds
            hint = ""
            if self.mechanism is not None and problem.scaling is None and scaling_of(self.family_, lo, hi) is not None:
                # scaled sums are small: read as Σx and Σx² they are those of records beyond a bound
                hint = ", or give scaled=True to its query if that is how it was made"
            warn_user(
                f"with probability {probability:.2g} more than half of the population lies outside the bounds from "
                f"{lo:g} to {hi:g} ({1.0 - float(np.mean(inside)):.0%} on average): what the posterior says about "
                f"it is hardly more than what family={self.family_!r} assumes; release with wider bounds{hint}",
                UserWarning,
            )

    def _keep(self, engine, problem):
        self.theta_draws_ = problem.theta_from_units(self._all_draws("theta"))
        if not np.all(np.isfinite(self.theta_draws_)):
            raise FloatingPointError(
                f"the parameters of {self.family_!r} overflowed: choose a unit for records and release, and parameters "
                f"of prior={self.prior_!r}, such that their values are of order 1"
            )
        self.statistic_draws_ = self._all_draws("statistic")
        names = self.family_.param_names
        monitors = {name: self.theta_draws_[..., p] for p, name in enumerate(names)}
        if not problem.n_records.known:
            self.n_records_draws_ = self._all_draws("n_records").astype(np.int64)
            monitors["n_records"] = self.n_records_draws_
        proposed, accepted = np.sum([engine.n_proposed(chain.state) for chain in self._run_.chains], axis=0)
        if proposed:
            self.acceptance_rate_ = float(accepted / proposed)
        self._monitor(monitors)

    # --- prediction --------------------------------------------------------------------------------------------------

    def _theta(self):
        check_is_fitted(self)
        return self.theta_draws_.reshape(-1, self.theta_draws_.shape[-1])

    def predict(self, X: ArrayLike) -> Array:
        """Posterior predictive mean of a record, or the most probable category: the same for each row of X.

        Parameters
        ----------
        X : array-like of shape (n_samples, ...)
            Only its length matters: a record has no other features.

        Returns
        -------
        prediction : ndarray of shape (n_samples,)
        """
        theta = self._theta()
        return np.full(_num_samples(X), self.family_.prediction(theta))

    def score_samples(self, X: ArrayLike) -> Floats:
        """Log posterior predictive density (mass) of confidential records, as they are before any bounds.

        Parameters
        ----------
        X : array-like of shape (n_samples, 1) or (n_samples,)

        Returns
        -------
        log_density : ndarray of shape (n_samples,)
            -inf outside the family's support.
        """
        theta = self._theta()
        X = check_array(X, dtype=np.float64, ensure_2d=False, input_name="X", estimator=self)
        if X.ndim == 2 and X.shape[1] == 1:
            X = X[:, 0]
        if X.ndim != 1:
            raise ValueError(f"X must have shape (n_samples, 1), one number per record, got {X.shape}")
        x, where = np.unique(X, return_inverse=True)
        n_parts = -(-x.size * len(theta) // CHUNK)
        parts = [
            logsumexp(self.family_.log_density(part, theta), axis=0) for part in np.array_split(x, max(n_parts, 1))
        ]
        return (np.concatenate(parts) - np.log(len(theta)))[where.ravel()]

    def sample(self, n_samples: int = 1, random_state: Seed = None) -> Array:
        """Records from the posterior predictive: synthetic confidential records.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None

        Returns
        -------
        X : ndarray of shape (n_samples, 1)
        """
        theta = self._theta()
        size, rng = positive_integer("n_samples", n_samples, most=2**53), as_generator(random_state)
        rows = rng.integers(len(theta), size=size)
        return self.family_.draw(rng, theta[rows])[:, None]
