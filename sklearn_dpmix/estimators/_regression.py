"""Linear regression from clamped, noisy moments."""

import os
from functools import partial
from numbers import Integral
from operator import methodcaller
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from .._draws import central_interval
from .._parameters import check_array, check_flag
from .._typing import Floats, Seed
from ..models import GaussianPredictors, RegressionPrior
from ..models._regression import ClampedRegression
from ..queries import NoisyCount, RegressionMoments
from ..samplers._augmentation import advance_augmentation, advance_known
from ..samplers._augmented_state import (
    ACCEPTED,
    LOG_MIN_ACCEPT,
    MOVES_ACCEPTED,
    MOVES_PROPOSED,
    PROPOSED,
    AugmentedState,
    start_augmentation,
    start_known_records,
)
from ..samplers._number import counting
from ..samplers._regression import RegressionAugmentation
from ._auto_draws import AutoDraws
from ._chain_estimator import ChainEstimator
from ._confidential import check_confidential
from ._curator import (
    check_curator,
    check_query_release,
    check_raw,
    check_shape,
    keep_names,
    new_records,
    number_of_records,
    privatize_records,
    warn_if_impossible,
)
from ._datatree_contents import RegressionContents
from ._decorators import fit_context, with_callbacks

#: Steps of the non-centred random walk in a sweep.
N_MOVES = 50


class PrivateLinearRegressionDA(RegressorMixin, ChainEstimator):
    """Bayesian linear regression from moments that a curator released with noise.

    Records are clamped to public bounds, their moments summed and released (:class:`RegressionMoments`).  The posterior
    given that release is exact, clamping included: the confidential records are imputed.

    Parameters
    ----------
    mechanism : mechanism object with ``query=RegressionMoments(...)``, or None
        What the moments went through.  None: the records are not confidential, an ordinary Bayesian regression.
    prior : RegressionPrior, optional
        None is ``RegressionPrior()``.
    n_records : int or NoisyCount, optional
        Number of records behind a release, or its own noisy release; not needed for ``fit(X, y)``.
    x_model : GaussianPredictors, optional
        None is ``GaussianPredictors()``.
    interweave : bool, default=True
        Add non-centred moves of the parameters, without which they hardly move where there are many records.
    secure : bool, default=False
        Let OpenDP (extra ``[secure]``) draw the noise of ``fit(X, y)`` under a mechanism.  False: NumPy does, which is
        for simulation, and ``fit`` warns.  Nothing is drawn for a release.
    n_chains, n_warmup, n_draws, thin, n_jobs, random_state, warm_start, checkpoint, verbose :
        As in :class:`PrivateDPMixture`.  Noise is never drawn from ``random_state``.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        Posterior means.
    coef_draws_ : ndarray of shape (n_chains, n_draws, n_features)
    intercept_draws_, sigma_draws_ : ndarrays of shape (n_chains, n_draws)
        σ is the residual standard deviation.
    x_mean_draws_, x_covariance_draws_ : ndarrays of shape (n_chains, n_draws, n_features[, n_features])
        Of the predictors; only under a mechanism.
    n_records_draws_ : ndarray of int, (n_chains, n_draws)
        Only where ``n_records`` is a ``NoisyCount``.
    release_ : ndarray of shape (n_releases, n_statistics)
        What was inferred from; only under a mechanism.
    acceptance_rate_, min_acceptance_ : float
        Of record proposals: their mean, and the smallest probability met, at least exp(-ε).
    move_acceptance_rate_ : float
        Of non-centred moves.
    r_hat_, ess_ : dict of str to float
    n_iter_ : int

    References
    ----------
    Ju, Awan, Gong, Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data", §4.2.

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
    _FREE = ChainEstimator._FREE | {"secure"}
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ChainEstimator._parameter_constraints,
        "mechanism": "no_validation",
        "prior": [RegressionPrior, None],
        "n_records": [Interval(Integral, 1, None, closed="left"), NoisyCount, None],
        "x_model": [GaussianPredictors, None],
        "interweave": ["boolean"],
        "secure": ["boolean"],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        prior: Any = None,
        n_records: int | None = None,
        x_model: Any = None,
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
            With ``y=None``: the release, in the order of ``RegressionMoments``; several releases of the same records
            one a row.  With ``y``: confidential predictors of shape (n_records, n_features).
        y : array-like of shape (n_records,), optional
            Confidential responses.  Noise is then drawn from the operating system's entropy (by OpenDP with
            ``secure=True``), and what is inferred is inferred from the noisy moments alone.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a bad parameter, a release of the wrong length, or data that are not finite numbers; of confidential
            records it says shapes, and nothing that they hold.
        ImportError
            For ``secure=True`` without OpenDP.

        Warns
        -----
        UserWarning
            For ``fit(X, y)`` under a mechanism without ``secure=True``.
        """
        prior = RegressionPrior() if self.prior is None else self.prior
        prior.check()
        with self._refit() as earlier:
            run = self._fit_known if self.mechanism is None else self._fit_release
            run(X, y, prior, earlier)
        self._warn_about_chains()
        return self

    def _fit_known(self, X, y, prior, earlier):
        """The records themselves are given: θ by its conjugate updates."""
        X, y = validate_data(self, X, y, dtype=np.float64, y_numeric=True)
        spread = np.var(y) if len(y) > 1 and np.var(y) > 0 else 1.0
        if prior.sigma is None and prior.sigma_scale is None:
            prior = RegressionPrior(**(prior.get_params() | {"sigma_scale": float(spread)}))
        width = 1.0 + np.ptp(np.column_stack([X, y]), axis=0)
        bounds = np.column_stack([-width, width])
        p = X.shape[1]
        model = ClampedRegression(bounds, prior, GaussianPredictors(np.zeros(p), np.eye(p)))
        init = partial(start_known_records, model, np.column_stack([X, y]))
        advance = partial(advance_known, model._lower())
        keep = methodcaller("_keep", model)
        self._advance_chains((X, y), init, advance, keep, earlier, AugmentedState.restored)

    def _fit_release(self, X, y, prior, earlier):
        """A release, or records that are privatised first."""
        query = check_curator(self, RegressionMoments)
        p, n_records = query.n_features, self.n_records
        if y is None:
            S = check_query_release(self, X, query, n_records)
        else:
            check_raw(self, query)
            named, (X, y) = X, check_confidential(self, X, y, y_numeric=True)
            check_shape(self, X, p)
            keep_names(self, named, X)
            S, n_records = privatize_records(self, np.column_stack([X, y])), len(X)
        self.n_features_in_, self.release_, self._n_records_ = p, S, n_records
        start, most, count = number_of_records(n_records)
        low, high = query.value_range(most)
        warn_if_impossible(self.mechanism, S, low, high, query.statistic_names())
        bounds = np.column_stack(query.record_bounds())
        x_model = GaussianPredictors() if self.x_model is None else self.x_model
        model = ClampedRegression(bounds, prior, x_model)
        channel = self.mechanism._lower(n_records=len(S), n_features=S.shape[1])
        sampler = RegressionAugmentation(n_moves=N_MOVES if self.interweave else 0)
        values = sampler._lower(), model._lower(), channel, counting(n_records)._lower()
        init = partial(start_augmentation, model, values[1], start, most, S, moments_of(S, start, bounds))
        advance = partial(advance_augmentation, values, S, count)
        self._advance_chains(S, init, advance, methodcaller("_keep", model), earlier, AugmentedState.restored)

    def _keep(self, model):
        if self.mechanism is not None:
            self._set_acceptance(ACCEPTED, PROPOSED, LOG_MIN_ACCEPT)
            if self.interweave:
                floats = self._state_floats().sum(axis=0)
                self.move_acceptance_rate_ = float(floats[MOVES_ACCEPTED] / floats[MOVES_PROPOSED])
        p = self.n_features_in_
        theta = self._all_draws("theta")
        self.intercept_draws_, self.coef_draws_ = theta[..., 0], theta[..., 1 : p + 1]
        self.sigma_draws_ = theta[..., p + 1]
        self.intercept_, self.coef_ = float(self.intercept_draws_.mean()), self.coef_draws_.mean(axis=(0, 1))
        monitors = {"coef": self.coef_draws_, "intercept": self.intercept_draws_}
        if model.prior.sigma is None:
            monitors["log_sigma"] = np.log(self.sigma_draws_)
        if self.mechanism is not None:
            self.x_mean_draws_ = theta[..., p + 2 : 2 * p + 2]
            root = np.zeros((*theta.shape[:2], p, p))
            root[..., *np.tril_indices(p)] = theta[..., 2 * p + 2 :]
            self.x_covariance_draws_ = root @ np.swapaxes(root, -1, -2)
            if model.x_model.mean is None:
                monitors["x_mean"] = self.x_mean_draws_
        if isinstance(self.n_records, NoisyCount):
            self.n_records_draws_ = self._all_draws("n_records").astype(np.int64)
            monitors["n_records"] = self.n_records_draws_
        self._monitor(monitors)

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
            Also return the standard deviation of a new y: that of the mean and the residual's.

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,), with ``return_std=True``
        """
        X = self._predictors(X)
        mean = self.intercept_ + X @ self.coef_
        if not check_flag("return_std", return_std):
            return mean
        coef = np.concatenate([self.intercept_draws_[..., None], self.coef_draws_], axis=-1).reshape(-1, X.shape[1] + 1)
        design = np.column_stack([np.ones(len(X)), X])
        centred = coef - coef.mean(axis=0)
        of_mean = np.einsum("ij,jk,ik->i", design, centred.T @ centred / len(coef), design)
        return mean, np.sqrt(np.maximum(of_mean, 0.0) + np.mean(self.sigma_draws_**2))

    def score_samples(self, X: ArrayLike, y: ArrayLike | None) -> Floats:
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
        y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=self)
        if y.shape != (len(X),):
            raise ValueError(f"y must have shape ({len(X)},), one response a row of X, got {y.shape}")
        coef = self.coef_draws_.reshape(-1, X.shape[1])
        intercept, sigma = self.intercept_draws_.ravel(), self.sigma_draws_.ravel()
        result = np.empty(len(X))
        for i, (x, value) in enumerate(zip(X, y, strict=True)):
            u = (value - intercept - coef @ x) / sigma
            result[i] = logsumexp(-0.5 * u * u - np.log(sigma)) - np.log(len(sigma)) - 0.5 * np.log(2.0 * np.pi)
        return result

    def coef_interval(self, level: float = 0.95) -> tuple[Floats, Floats]:
        """Posterior interval of each coefficient.

        Parameters
        ----------
        level : float in (0, 1), default=0.95

        Returns
        -------
        lower, upper : ndarrays of shape (n_features,)
        """
        check_is_fitted(self)
        return central_interval(self.coef_draws_, level)

    def _predictors(self, X):
        check_is_fitted(self)
        return validate_data(self, new_records(self, X), dtype=np.float64, reset=False)


def moments_of(S, n_records, bounds):
    """Means of the products of (1, x, y) on the original scale, from the mean of the releases: (p + 2, p + 2)."""
    p, mean = len(bounds) - 1, S.mean(axis=0) / n_records
    scaled = np.zeros((p + 2, p + 2))
    scaled[0, 0] = 1.0
    scaled[0, p + 1], scaled[1 : p + 1, p + 1], scaled[p + 1, p + 1] = mean[0], mean[1 : p + 1], mean[p + 1]
    scaled[0, 1 : p + 1] = mean[p + 2 : 2 * p + 2]
    rows, columns = np.triu_indices(p)
    scaled[1 + rows, 1 + columns] = mean[2 * p + 2 :]
    scaled = np.triu(scaled) + np.triu(scaled, 1).T
    back = np.zeros((p + 2, p + 2))  # (1, x, y) = back @ (1, scaled x, scaled y)
    back[0, 0] = 1.0
    back[1:, 0] = bounds.mean(axis=1)
    back[1:, 1:] = np.diag(0.5 * np.diff(bounds).ravel())
    return back @ scaled @ back.T
