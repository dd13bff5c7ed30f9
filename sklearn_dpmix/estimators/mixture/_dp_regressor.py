"""Regression on records that were privatised one by one, response and predictors alike."""

import os
from copy import copy
from functools import partial
from typing import Any, ClassVar, Literal, Self, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, RegressorMixin
from sklearn.utils.validation import check_is_fitted

from ..._base.compiled import Component
from ..._base.parameters import check_flag, check_responses, check_table, in_unit_interval, tails
from ..._base.typing import Floats, Seed
from ..._chains.auto_draws import AutoDraws
from ..._chains.progress import CallbackSupportMixin
from ..._posterior.response_law import AtPlace, AtRelease, ConditionalLaw, predictive_moments, regression
from ..._releases.release import Release
from ...kernels import Kernel, MultivariateNormalKernel
from ...mechanisms import NoNoise
from ...mixings import MixtureOfFiniteMixtures
from ...samplers import MixtureSampler
from ...samplers.mixture._one_normal import OneNormal
from .._decorators import fit_context, with_callbacks
from .._monitored_draws import CoefficientsMixin, MonitoredDraws
from ._compose import resolve_components
from ._dp_mixture import PrivateDPMixture
from ._joint_mixture import JointMixture
from ._mixture_contents import RegressorContents
from ._regressor_inputs import check_columns, check_noised_inputs, check_released_inputs

FAR = 1e5  # scales of noise beyond bounds, where a release says within some 1e-5 that its record is at the bound


class PrivateDPMixtureRegressor(CoefficientsMixin, RegressorMixin, CallbackSupportMixin, MonitoredDraws, BaseEstimator):
    """Regression of y on x from records (x, y) that had noise added one by one.

    Confidential records (x, y) come from a Dirichlet-process mixture of correlated normals, and each went through
    ``mechanism``.  ``fit`` draws from the exact posterior of that mixture (:class:`PrivateDPMixture`).  Predictions are
    about a *confidential* y given x, whose distribution has a closed form in each draw, so noise in x causes no
    attenuation.  With ``linear=True`` the mixture is one normal: y is a line in x plus normal errors, and there is a
    posterior of the coefficients.

    Parameters
    ----------
    mechanism : mechanism object or None, default=None
        What the columns (x, y) went through together, y last, such as ``GaussianMechanism(scale=1.0)`` or
        ``LaplaceMechanism(epsilon=8.0, bounds=(0, 1))``: one pair of bounds for all columns, or one per column.  All
        columns have noise of the same scale.  Before they are privatised, bring them to units in which their bounds
        are equally wide; if they were released with scales of their own, divide each column, and its bounds, by its
        scale, and pass ``scale=1``.  None: nothing was privatised.
    kernel : MultivariateNormalKernel or "multivariate_normal", default="multivariate_normal"
        Joint distribution of (x, y) in a cluster, with its base measure.  If given by name, its parameters are
        estimated from the release; with ``linear=True`` the prior then weighs about as much as one record: dof is
        n_columns + 2, and the mean of Σ is diagonal with the release's variances minus those of the noise.  If noise
        hides bends of the curve, they come out too flat; then pass a kernel with a ``scale`` below that of ``kernel_``.
    mixing : DirichletProcess or PitmanYor, optional
        As in :class:`PrivateDPMixture`; not with ``linear=True``.
    sampler : str or sampler object, default="auto"
        As in :class:`PrivateDPMixture`.  With ``linear=True``, "auto" needs only the release's mean and covariance, at
        the same cost for any n, if noise is Gaussian with one scale and no clamping, or if there is none.
    linear : bool, default=False
        Use one normal instead of the mixture: one linear relation, with x and y jointly normal.
    noised_inputs : bool, default=False
        Whether the X of predictions went through the mechanism, as in ``fit``; y is then predicted given the release of
        x.  False: X is x itself.  Predictions are exact for Gaussian noise of one scale without clamping (closed form),
        and for one predictor under Laplace noise, clamped noise, the square wave or the piecewise mechanism
        (quadrature, to rounding; quantiles then take about 0.04 s per place and 1000 draws).  Other cases are refused.
    n_chains, n_warmup, n_draws, thin, n_jobs, random_state, warm_start, checkpoint, verbose :
        As in :class:`PrivateDPMixture`.

    Attributes
    ----------
    coef_draws_ : ndarray of shape (n_chains, n_draws, n_features)
    intercept_draws_, sigma_draws_ : ndarrays of shape (n_chains, n_draws)
        Coefficients of y on confidential x; σ is the residual standard deviation.  These and the next two exist only
        with ``linear=True``.
    coef_ : ndarray of shape (n_features,)
    intercept_ : float
        Posterior means.
    n_clusters_draws_ : ndarray of int, (n_chains, n_draws)
        Number of occupied clusters; only for the mixture.
    kernel_, mechanism_, sampler_ : the components in use, defaults filled in
    r_hat_, ess_ : dict of str to float
        As in :class:`PrivateDPMixture`, where the columns of the moments are (x, y), and for the curve at the mean of x
        and one standard deviation to either side; with ``linear=True``, for coefficients, intercept and log σ.
    n_iter_ : int
        Sweeps of each chain, warm-up included.

    Notes
    -----
    A draw of the mixture is cut off when less than 0.001 of its mass is left, and one more cluster gets that rest.
    Given the draws, conditional means, variances and densities are exact to rounding, and quantiles to 1e-9 standard
    deviations.

    x is a place of interest, not a new record, so draws have equal weight, whatever density they give to x.

    The default prior expects few and wide clusters.  Where noise leaves open how a curve bends, bands are those of
    smooth curves: of 100,000 records with x uniform on (-2, 2), under Gaussian noise of scale 0.5, 90 % bands
    covered sin 2x and abs x at 13 of 19 places and tanh 4x at 11; under noise of scale 1 sin 2x at 6.  Draws explained
    both releases of sin 2x about as well as the true curve does, so longer chains would not help there.

    The model of ``linear=True`` has x normal.  For other x under Gaussian noise, the slope is still estimated
    consistently, because the normal's mean and covariance are; its interval is then approximate.  Laplace noise reveals
    more of the records' distribution, and the model is misled by it: of 2000 records with uniform x, whose spread was
    0.8 times the noise's, 90 % intervals held the slope in 68 % (of 40 releases), and the slope came out low.  Records
    at the bounds of a mechanism that clamps mislead it most, under Gaussian noise as well: the slope 0.5 of a binary x
    came out as 0.05 (n = 500, ε = 20), without a warning; there the moment correction is right.

    References
    ----------
    Müller, Erkanli, West (1996), "Bayesian curve fitting using multivariate normal mixtures"; Evans, King (2022),
    "Statistically valid inferences from differentially private data releases", for the moment correction, to which
    ``linear=True`` is an alternative.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import PrivateDPMixtureRegressor
    >>> from sklearn_dpmix.mechanisms import GaussianMechanism
    >>> rng = np.random.default_rng(0)
    >>> x = rng.normal(size=2000)
    >>> y = 1.0 + 2.0 * x + rng.normal(size=2000)
    >>> mechanism = GaussianMechanism(scale=1.0)  # of records (x, y)
    >>> release = mechanism.privatize(np.column_stack([x, y]), random_state=1)
    >>> Z, z_y = release[:, :1], release[:, 1]
    >>> round(float(np.polyfit(Z[:, 0], z_y, 1)[0]), 1)  # half of the slope: x has as much noise as spread
    1.0
    >>> model = PrivateDPMixtureRegressor(mechanism, linear=True, random_state=2).fit(Z, z_y)
    >>> low, high = model.coef_interval()
    >>> bool(low[0] < 2.0 < high[0])
    True
    """

    _contents = RegressorContents
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **{name: rule for name, rule in PrivateDPMixture._parameter_constraints.items() if name != "n_records"},
        "linear": ["boolean"],
        "noised_inputs": ["boolean"],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        kernel: Kernel | str = "multivariate_normal",
        mixing: Component | str | None = None,
        sampler: MixtureSampler | str = "auto",
        linear: bool = False,
        noised_inputs: bool = False,
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
        self.kernel = kernel
        self.mixing = mixing
        self.sampler = sampler
        self.linear = linear
        self.noised_inputs = noised_inputs
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.thin = thin
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.checkpoint = checkpoint
        self.verbose = verbose

    # --- fit ---------------------------------------------------------------------------------------------------------

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, Z: ArrayLike, y: ArrayLike) -> Self:
        """Draw from the posterior given a release.

        Parameters
        ----------
        Z : array-like of shape (n, n_features)
            Privatised predictors, as they were published.
        y : array-like of shape (n,)
            Privatised responses.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any chain starts: for a bad parameter, a mechanism that does not cover the n_features + 1 columns of
            (x, y), a ``y`` of another length, data that are not finite numbers, or ``noised_inputs=True`` if that has
            no exact answer.

        Notes
        -----
        With ``linear=True``, under Gaussian noise of one scale without clamping or without noise, the time of a fit
        does not depend on n once the release's covariance is known: a default fit of 10⁶ records takes 0.6 s of one
        core, and one of 10⁷ takes 4.5 s.  Under such noise the mixture takes 5 s for 300 records, 7 s for 1000, 20 to
        40 s for 10⁴, 30 to 65 s for 10⁵ and a minute and a half for 10⁶.  On a curve with two bends, it had at least
        970 effective draws of everything up to 1000 records, and for 10⁴ on a sine 230.  Five fits of 10⁵ records, on
        four curves with bends or errors that widen, had 160 to 830 effective draws of the curve and 30 to 960 of the
        density, and one of 10⁶ on a sine 90 and 45: on such curves chains still mix slowly, and some fits warn.  Where
        x and y are clamped before Gaussian noise whose standard deviation is 0.18 of the bounds' distance or more, a
        fit takes 13 to 19 s for 1000 records, 15 to 20 s for 10⁴, and 18 to 35 s for 10⁵, where it had 230 effective
        draws.

        Under other noise a sweep takes about 0.7 µs per record: a default fit to 10⁴ records takes a minute of one
        core, and one to 10⁵ takes ten.  On the same curve it had 750 effective draws of the curve for 300 records and
        150 for 1000; for 3000 it will probably warn.
        """
        with self._refit() as earlier:
            release = check_columns(self, Z, y)
            joint = copy(earlier["_joint_"]) if self.warm_start and "_joint_" in earlier else JointMixture()
            self._joint_ = joint.set_params(**self._parts(release)).fit_as_part_of(self, release)
            self._joint_._finish(self._keep)
        self._joint_.warn()
        return self

    def _parts(self, release):
        """Parameters of the joint mixture."""
        names = PrivateDPMixture().get_params(deep=False).keys() - {"n_records"}
        parts = {name: getattr(self, name) for name in names}
        kernel, _, _ = resolve_components(self.mechanism, self.kernel, None, "auto", None)
        if not isinstance(kernel, MultivariateNormalKernel):
            raise ValueError(
                "kernel must be 'multivariate_normal' or a MultivariateNormalKernel, whose distribution of y given "
                f"x is known, got {self.kernel!r}"
            )
        return parts | (self._linear_parts(release) if self.linear else {"kernel": kernel})

    def _linear_parts(self, release):
        """Parameters of one normal."""
        if self.mixing is not None:
            raise ValueError(
                f"linear=True fits one normal, not a mixture, got mixing={self.mixing!r}: leave mixing out"
            )
        kernel, sampler = self.kernel, self.sampler
        if isinstance(kernel, str):
            mean, variance = Release(release, self.mechanism).typical_moments()
            kernel = MultivariateNormalKernel(mean=mean, dof=len(mean) + 2.0, scale=np.diag(variance))
        if isinstance(sampler, str) and sampler == "auto":
            is_normal = self.mechanism is None or self.mechanism.is_absorbable
            sampler = OneNormal() if is_normal else sampler
        return {"kernel": kernel, "mixing": MixtureOfFiniteMixtures(prior=[1.0]), "sampler": sampler}

    def _keep(self):
        """Take over the results of the joint mixture's fit."""
        joint = self._joint_
        for name in ("kernel_", "mechanism_", "sampler_", "n_iter_"):
            setattr(self, name, getattr(joint, name))
        if not self.linear:
            self.n_clusters_draws_ = joint.n_clusters_draws_
            self._monitors_, self.r_hat_, self.ess_ = joint._monitors_, joint.r_hat_, joint.ess_
            return
        draws = joint._draws_  # the one cluster comes first in each
        slope, intercept, variance, _ = regression(draws.flat.theta[draws.start[:-1]], joint._n_features_)
        self.coef_draws_, self.intercept_draws_, self.sigma_draws_ = map(
            draws.by_chain, (slope, intercept, np.sqrt(variance))
        )
        self.coef_, self.intercept_ = self.coef_draws_.mean(axis=(0, 1)), float(self.intercept_draws_.mean())
        log_sigma = np.log(self.sigma_draws_)
        self._monitor({"coef": self.coef_draws_, "intercept": self.intercept_draws_, "log_sigma": log_sigma})

    # --- prediction --------------------------------------------------------------------------------------------------

    def _places(self, X):
        check_is_fitted(self)
        X = check_table(self, X, order="C")
        check_noised_inputs(self, self.mechanism_, X.shape[1])
        if self.noised_inputs and self.mechanism_ is not None:
            check_released_inputs(self.mechanism_, X, self._joint_._release_[0, -1])
            X = self._not_far(X)
        return X

    def _not_far(self, X):
        """Releases of one predictor, moved to where they begin to say the same: farther off, their digits are lost."""
        mechanism, theta, d = self.mechanism_, self._joint_._draws_.flat.theta, self._joint_._n_features_
        if mechanism.is_absorbable or mechanism.piece_shape == "flat":
            return X
        scale, bounds = mechanism.noise_scale_for(d), mechanism.bounds_for(d) if mechanism.clamp else None
        if bounds is not None:
            low, high = bounds[0, 0] - FAR * scale, bounds[0, 1] + FAR * scale
        elif mechanism.piece_shape == "linear":
            mean, sd = theta[:, :1], theta[:, 1:2]
            reach = 40.0 * sd + sd**2 / scale  # of the normals that the noise tilts
            low, high = np.min(mean - reach, axis=0), np.max(mean + reach, axis=0)
        else:
            return X
        return np.clip(X[:, 0], low, high)[:, None]

    def _law(self, n):
        """The distribution of y at n places, or at releases of them."""
        joint, mechanism = self._joint_, self.mechanism_
        draws, d, kernel = joint._draws_, joint._n_features_, joint._kernel()
        if not self.noised_inputs or mechanism is None:
            return ConditionalLaw(draws, AtPlace.value(draws, d), NoNoise()._lower(), kernel)
        if mechanism.is_absorbable:
            noise = float(mechanism.noise_scale_for(d)) ** 2
            return ConditionalLaw(draws, AtPlace.value(draws, d, noise), NoNoise()._lower(), kernel)
        channel = mechanism._lower(n_records=n, n_features=d, kernel=self.kernel_)
        return ConditionalLaw(draws, AtRelease.value(draws, int(channel.n_pieces())), channel, kernel)

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[False] = False) -> Floats: ...

    @overload
    def predict(self, X: ArrayLike, return_std: Literal[True]) -> tuple[Floats, Floats]: ...

    def predict(self, X: ArrayLike, return_std: bool = False) -> Floats | tuple[Floats, Floats]:
        """Posterior mean of the regression curve.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Confidential predictors, or releases of them with ``noised_inputs=True``.
        return_std : bool, default=False
            Also return the posterior predictive standard deviation of a confidential y there.

        Returns
        -------
        mean : ndarray of shape (n,)
        std : ndarray of shape (n,), with ``return_std=True``
        """
        X = self._places(X)
        mean, variance = self._law(len(X)).each(X, predictive_moments, self.n_jobs)
        return (mean, np.sqrt(variance)) if check_flag("return_std", return_std) else mean

    def curve_draws(self, X: ArrayLike) -> Floats:
        """Draws of the regression curve, the conditional mean of a confidential y.

        Parameters
        ----------
        X : as in :meth:`predict`

        Returns
        -------
        curves : ndarray of shape (n_chains, n_draws, n_points)
        """
        X = self._places(X)
        return self._joint_._draws_.by_chain(self._law(len(X)).curves(X, self.n_jobs)[0])

    def curve_interval(self, X: ArrayLike, level: float = 0.95) -> tuple[Floats, Floats]:
        """Pointwise posterior interval of the regression curve, in little memory.

        Parameters
        ----------
        X : as in :meth:`predict`
        level : float in (0, 1), default=0.95

        Returns
        -------
        lower, upper : ndarrays of shape (n_points,)
        """
        X, ends = self._places(X), tails(level)
        lower, upper = self._law(len(X)).each(X, partial(curve_quantiles, ends), self.n_jobs)
        return lower, upper

    def predict_quantiles(self, X: ArrayLike, q: ArrayLike) -> Floats:
        """Posterior predictive quantiles of a confidential y.

        Parameters
        ----------
        X : as in :meth:`predict`
        q : float or array-like of shape (n_q,), in (0, 1)

        Returns
        -------
        quantiles : ndarray of shape (n, n_q)
        """
        X = self._places(X)
        q = np.atleast_1d(in_unit_interval("q", q, 1))
        return self._law(len(X)).quantiles(X, q, self.n_jobs)

    def score_samples(self, X: ArrayLike, y: ArrayLike) -> Floats:
        """Log posterior predictive density of confidential responses y given X.

        Parameters
        ----------
        X : as in :meth:`predict`
        y : array-like of shape (n,)

        Returns
        -------
        log_density : ndarray of shape (n,)
        """
        X = self._places(X)
        y = check_responses(self, y, len(X))
        return self._law(len(X)).log_density(X, y, self.n_jobs)


def curve_quantiles(q, mean, variance):
    """Quantiles of the curves at each place: (n_q, n_places)."""
    return np.quantile(mean, q, axis=0)
