"""Linear regression from noisy moments."""

import os
from functools import partial
from numbers import Integral
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted

from ..._base.numeric import HALF_LOG_2PI
from ..._base.parameters import check_flag, check_responses, in_unit_interval, validate_data
from ..._base.typing import Floats, Seed
from ..._chains.auto_draws import AutoDraws
from ...models import GaussianPredictors, HistogramPredictors, RegressionPrior
from ...models._predictor_law import PredictorLaw
from ...queries import NoisyCount, RegressionMoments
from .._chain_estimator import ChainEstimator, warn_user
from .._confidential import check_confidential
from .._decorators import fit_context, with_callbacks
from .._monitored_draws import CoefficientsMixin
from ._count import check_count, known_count
from ._curator import (
    check_curator,
    check_query_release,
    check_raw,
    check_shape,
    keep_names,
    new_records,
    privatize_records,
    refuse_noise_on_integers,
    warn_if_impossible,
)
from ._new_responses import carried_by_few, quantiles_of
from ._regression_problems import GivenDesign, ImputedRecords, KnownRecords, unscale, warn_about_prior
from ._statistic_contents import RegressionContents

#: Numbers of a temporary table of rows and draws, which a core's cache holds.
BLOCK = 2**16


class PrivateLinearRegressionDA(CoefficientsMixin, RegressorMixin, ChainEstimator):
    """Bayesian linear regression from moments that a curator released with noise.

    The moments of records within public bounds were released (:class:`RegressionMoments`).  There are three models of
    the records, and the posterior given the release is exact under each:

    - *the design is given* (``x_model=None``): y is a line in x plus normal errors, and nothing is assumed about the
      predictors except their bounds.  Moments of any n records are a few numbers, so the time of a fit does not depend
      on n.  This model is right if the bounds of y hold nearly all of y, for any predictors but the 0/1 columns of a
      variable with six or more categories, whose slopes come out too low (docs/curator.md);
    - *normal predictors, clamped records* (``x_model=GaussianPredictors()``): right if predictors are normal and bounds
      really cut off some of x or y, since clamping is part of the model.  Predictors that are not normal bias it. The
      confidential records are imputed, at a cost that grows with n;
    - *a histogram of each predictor, clamped responses* (``x_model=HistogramPredictors()``): right for independent
      predictors of any kind within their bounds, if the bounds of y cut off a little of y, or if there are fewer than
      n_features + 2 records.  Records are imputed, too. If much of y is cut off, chains are slow; then use ``thin``.

    Parameters
    ----------
    mechanism : mechanism object with ``query=RegressionMoments(...)``, or None
        What the moments went through.  None: the records are not confidential, and this is an ordinary Bayesian
        regression.
    prior : RegressionPrior, optional
        None is ``RegressionPrior()``.
    n_records : int or NoisyCount, optional
        Number of records behind a release, or a noisy release of that number; not needed for ``fit(X, y)``.
    x_model : GaussianPredictors or HistogramPredictors, optional
        What is known about the predictors.  None: nothing, and the design is given.
    interweave : bool, default=True
        Only if records are imputed: add non-centred moves of the parameters.  Without these the parameters hardly move
        if there are many records.
    secure : bool, default=False
        Let OpenDP (extra ``[secure]``) draw the noise of ``fit(X, y)`` under a mechanism.  False: NumPy draws it, which
        is for simulation, and ``fit`` warns.  No noise is drawn if ``fit`` gets a release.
    n_chains, n_warmup, n_draws, thin, n_jobs, random_state, warm_start, checkpoint, verbose :
        As in :class:`PrivateDPMixture`; strongly correlated draws are thinned, by a factor of up to eight, unless
        ``interweave=False``.  Noise is never drawn from ``random_state``.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        Posterior means.
    coef_draws_ : ndarray of shape (n_chains, n_draws, n_features)
    intercept_draws_, sigma_draws_ : ndarrays of shape (n_chains, n_draws)
        σ is the residual standard deviation.
    x_mean_draws_, x_covariance_draws_ : ndarrays of shape (n_chains, n_draws, n_features[, n_features])
        Mean and covariance of the predictors: of the n records if the design is given, of the population if ``x_model``
        is one.  Only under a mechanism.
    x_share_draws_ : ndarray of shape (n_chains, n_draws, n_features, n_bins + 2)
        Only under ``HistogramPredictors``: shares of the lower bound, of the bins, of the upper bound.
    statistic_draws_ : ndarray of shape (n_chains, n_draws, n_statistics)
        The moments before noise, in the order and the units of the release; only if the design is given.
    n_records_draws_ : ndarray of int, (n_chains, n_draws)
        Only if ``n_records`` is a ``NoisyCount``.
    release_ : ndarray of shape (n_releases, n_statistics)
        The release that was used for inference; only under a mechanism.
    unused_release : ndarray of shape (1, n_statistics)
        Only after ``fit(X, y)`` was interrupted, or failed, before there were draws: what it released.  Fit it with
        ``n_records``, since another ``fit(X, y)`` would spend the budget again.
    acceptance_rate_ : float
        Mean acceptance probability of Hamiltonian paths or, if records are imputed, acceptance rate of record
        proposals.  Only under a mechanism.
    min_acceptance_, move_acceptance_rate_ : float
        Only if records are imputed: the smallest acceptance probability of a record proposal that occurred, at least
        exp(-ε), and the acceptance rate of non-centred moves.
    r_hat_, ess_ : dict of str to float
    n_iter_ : int

    References
    ----------
    Ju, Awan, Gong, Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data", §4.2, for imputed
    records.  The model of the moments given the design is ours.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import PrivateLinearRegressionDA
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.queries import RegressionMoments
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(500, 1))
    >>> y = 1.0 + 2.0 * X[:, 0] + rng.normal(size=500)
    >>> query = RegressionMoments(x_bounds=(-4, 4), y_bounds=(-10, 10), n_features=1)
    >>> mechanism = LaplaceMechanism(epsilon=10.0, query=query)
    >>> S = mechanism.privatize(np.column_stack([X, y]), random_state=1)
    >>> model = PrivateLinearRegressionDA(mechanism, n_records=500, random_state=2).fit(S)
    >>> low, high = model.coef_interval()
    >>> bool(low[0] < 2.0 < high[0])
    True
    """

    _contents = RegressionContents
    _KEPT = ("mechanism", "x_model")
    _FREE = ChainEstimator._FREE | {"secure", "n_records"}  # the number is in the data
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ChainEstimator._parameter_constraints,
        "mechanism": "no_validation",
        "prior": [RegressionPrior, None],
        "n_records": [Interval(Integral, 1, None, closed="left"), NoisyCount, None],
        "x_model": [GaussianPredictors, HistogramPredictors, None],
        "interweave": ["boolean"],
        "secure": ["boolean"],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        prior: RegressionPrior | None = None,
        n_records: int | NoisyCount | None = None,
        x_model: PredictorLaw | None = None,
        interweave: bool = True,
        secure: bool = False,
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
        self.prior = prior
        self.n_records = n_records
        self.x_model = x_model
        self.interweave = interweave
        self.secure = secure
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
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw from the posterior given a release, or privatise records and then do so.

        Parameters
        ----------
        X : array-like of shape (n_statistics,) or (n_releases, n_statistics)
            With ``y=None``: the release, in the order of ``RegressionMoments``; several releases of the same records go
            one per row.  With ``y``: confidential predictors of shape (n_records, n_features).
        y : array-like of shape (n_records,), optional
            Confidential responses.  Noise is then drawn from the operating system's entropy (by OpenDP with
            ``secure=True``), and inference uses the noisy moments alone.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a bad parameter, a release of the wrong length, or data that are not finite numbers (for confidential
            records the error states their shapes, and nothing that they hold); if the design is given, for fewer than
            n_features + 2 records.
        ImportError
            For ``secure=True`` without OpenDP.

        Warns
        -----
        UserWarning
            For ``fit(X, y)`` under a mechanism without ``secure=True``.  If the release contradicts the bounds or the
            model: a released moment has posterior predictive probability below 10⁻³, with all moments allowed for.  If
            the design is given and more than 5 % of the responses seem to be beyond their bounds, or fewer that move
            the line or σ by more than half a posterior standard deviation.  If the prior is far from the bounds: it
            gives y a standard deviation below 1 % of the width of its bounds, or above 10⁴ times that.
        RuntimeWarning
            If the chains have not mixed.
        """
        self._prior().check()
        with self._refit() as earlier:
            problem = self._known(X, y) if self.mechanism is None else self._released(X, y, earlier)
            self._advance_chains(problem.posed, partial(_keep, problem), earlier)
        self._warn_about_chains()
        problem.warn_of_misfit(self)
        return self

    def _prior(self):
        return RegressionPrior() if self.prior is None else self.prior

    def _known(self, X, y):
        """The records themselves are given: θ by its conjugate updates."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        check_shape(self, X, X.shape[1])
        return KnownRecords(self._prior(), X, y)

    def _released(self, X, y, earlier):
        """A release, or records that are privatised first."""
        query = check_curator(self, RegressionMoments)
        refuse_noise_on_integers(self.mechanism, "a moment of a regression")
        p, bounds = query.n_features, query._bounds()
        problem_class = GivenDesign if self.x_model is None else ImputedRecords
        if self.x_model is not None:
            self.x_model.scaled(bounds)  # checked before anything is spent
        warn_about_prior(self._prior().scaled(bounds), bounds)
        if y is None:
            S, count = check_query_release(self, X, query), check_count(type(self).__name__, self.n_records)
        else:
            check_raw(self, query, earlier)
            named, (X, y) = X, check_confidential(self, X, y, y_numeric=True)
            check_shape(self, X, p)
            keep_names(self, named, X)
            problem_class.check_number(p, len(X))  # before anything is spent
            S, count = privatize_records(self, np.column_stack([X, y])), known_count(len(X))
        self.n_features_in_, self.release_, self._n_records_ = p, S, count.known
        problem_class.check_number(p, count.most)
        low, high = query.value_range(count.most)
        unscaled = query._unscaled_range(count.most)
        warn_if_impossible(self.mechanism, S, low, high, query.statistic_names(), unscaled)
        return problem_class(self, S, count)

    # --- prediction --------------------------------------------------------------------------------------------------

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = False) -> Floats: ...

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[Floats, Floats]: ...

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Posterior mean of y.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Predictors on the original scale.
        return_std : bool, default=False
            Also return the standard deviation of a new y, from both the mean and the residual.

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,), with ``return_std=True``

        Warns
        -----
        RuntimeWarning
            If few draws of σ decide about the standard deviation.  Where y is clamped, no release rules out a huge σ,
            and under a prior whose tail is as heavy as the default's (``sigma_shape`` at most 1) a new y has no
            variance.  That shows under few records or much noise: then use :meth:`predict_quantiles`.
        """
        X = self._predictors(X)
        mean = self.intercept_ + X @ self.coef_
        if not check_flag("return_std", return_std):
            return mean
        coef = np.concatenate([self.intercept_draws_[..., None], self.coef_draws_], axis=-1).reshape(-1, X.shape[1] + 1)
        design = np.column_stack([np.ones(len(X)), X])
        centred = coef - coef.mean(axis=0)
        of_mean = np.einsum("ij,jk,ik->i", design, centred.T @ centred / len(coef), design)
        if share := carried_by_few(self.sigma_draws_):
            warn_user(
                f"a thousandth of the draws of sigma make up {share:.0%} of the mean of sigma²: a new y may have no "
                "variance; use predict_quantiles, or a prior with a larger sigma_shape",
                RuntimeWarning,
            )
        return mean, np.sqrt(np.maximum(of_mean, 0.0) + np.mean(self.sigma_draws_**2))

    def predict_quantiles(self, X: ArrayLike, q: ArrayLike) -> Floats:
        """Posterior predictive quantiles of a new y.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        q : float or array-like of shape (n_q,), in (0, 1)

        Returns
        -------
        quantiles : ndarray of shape (n, n_q)
        """
        X, q = self._predictors(X), np.atleast_1d(in_unit_interval("q", q, 1))
        found = [quantiles_of(location, sigma, q) for _, location, sigma in self._locations(X)]
        return np.concatenate(found)

    def score_samples(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Log posterior predictive density of new confidential records y given X.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
        y : array-like of shape (n,)

        Returns
        -------
        log_density : ndarray of shape (n,)
        """
        X = self._predictors(X)
        y = check_responses(self, y, len(X))
        result, log_sigma = np.empty(len(X)), np.log(self.sigma_draws_.ravel())
        with np.errstate(over="ignore", divide="ignore"):  # a response may be possible in no draw
            for rows, location, sigma in self._locations(X):
                u = (y[rows, None] - location) / sigma
                result[rows] = logsumexp(-0.5 * u * u - log_sigma, axis=1)
        return result - np.log(log_sigma.size) - HALF_LOG_2PI

    def _locations(self, X):
        """For some rows after the other: (rows, the draws' means of y there, (rows, draws), the draws of σ)."""
        coef, intercept = self.coef_draws_.reshape(-1, X.shape[1]), self.intercept_draws_.ravel()
        sigma = self.sigma_draws_.ravel()
        step = max(1, BLOCK // len(sigma))
        for first in range(0, len(X), step):
            rows = slice(first, first + step)
            yield rows, intercept + X[rows] @ coef.T, sigma

    def _predictors(self, X):
        check_is_fitted(self)
        return validate_data(self, new_records(self, X), dtype=np.float64, reset=False)


def _keep(problem, fit):
    """Set the attributes of a fit from its draws."""
    theta = fit._all_draws("theta")
    fit.intercept_draws_, fit.coef_draws_, fit.sigma_draws_ = unscale(theta, problem.bounds)
    fit.intercept_, fit.coef_ = float(fit.intercept_draws_.mean()), fit.coef_draws_.mean(axis=(0, 1))
    monitors = {"coef": fit.coef_draws_, "intercept": fit.intercept_draws_}
    if problem.prior.sigma is None:
        monitors["log_sigma"] = np.log(fit.sigma_draws_)
    monitors |= problem.keep(fit)
    if not problem.count.known:
        fit.n_records_draws_ = fit._all_draws("n_records").astype(np.int64)
        monitors["n_records"] = fit.n_records_draws_
    fit._monitor(monitors)
