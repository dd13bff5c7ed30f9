"""Dirichlet-process mixture of privatised records."""

from functools import partial
from numbers import Integral
from typing import NamedTuple

import numpy as np
from sklearn.base import ClusterMixin, DensityMixin, _fit_context
from sklearn.utils._param_validation import Interval
from sklearn.utils.validation import check_is_fitted, validate_data

from .._cluster import Classifier
from .._compose import check_composition, has_marginal, resolve_components
from .._draws import MixtureDraws, join, release_log_density, release_log_density_by_records
from .._random import as_generator
from .._release import Release
from ..mechanisms import NoNoise
from ..samplers._state import ACCEPTED, LOG_MIN_ACCEPT, PROPOSED
from ._chain_estimator import ChainEstimator, with_callbacks

CHUNK = 2_000_000  # densities held at a time


class Moments(NamedTuple):
    """Draws of the population's mean and variance, each (n_chains, n_draws, n_features)."""

    mean: np.ndarray
    variance: np.ndarray


class PrivateDPMixture(ClusterMixin, DensityMixin, ChainEstimator):
    """Density and clusters of a population from records that were privatised one by one.

    The confidential records are a mixture of kernels under a Dirichlet-process (or Pitman–Yor) prior, and each went through
    ``mechanism`` before it was released.  ``fit`` draws from the exact posterior of that mixture given the release; all that
    is computed afterwards, densities above all, is about *confidential* records.

    Parameters
    ----------
    mechanism : mechanism object or None, default=None
        What the release went through, such as ``LaplaceMechanism(epsilon=2.0, bounds=(0, 1))``.  Its ε is known, never tuned.
        None: the records are not privatised, and this is the ordinary Bayesian mixture.
    kernel : kernel object or "normal", default="normal"
        Density of a record in a cluster, with its base measure.  "normal" is ``NormalKernel()``, whose open parameters are
        taken from the release with the noise variance taken off (empirical Bayes, see there).
    mixing : DirichletProcess or PitmanYor, optional
        Prior on the partition.  None: a Dirichlet process with concentration 1.
    sampler : str or sampler object, default="auto"
        "auto", "neal5", "slice", "conditional", "neal8", or, on noise-free records, "neal2" and "neal3".  All exact.
    n_records : int, optional
        Number of confidential records, for a mechanism that releases a statistic of all of them.
    n_chains : int, default=4
    n_warmup : int, default=1000
        Sweeps of each chain that are dropped.
    n_draws : int, default=1000
        Draws kept of each chain.
    thin : int, default=1
        Sweeps for one draw.
    n_jobs : int, optional
        Chains run at a time (joblib).  Results do not depend on it.
    random_state : int, Generator, RandomState or None
        Seed of the chains.
    warm_start : bool, default=False
        Go on with the chains of the last fit up to a larger ``n_draws``: the draws are those of one longer run.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    n_clusters_draws_ : ndarray of int, (n_chains, n_draws)
        Number of occupied clusters.
    weights_draws_ : ndarray, (n_chains, n_draws, most clusters)
        Mixture weights of the occupied clusters, largest cluster first, padded with 0; what is missing to 1 is unseen.
    concentration_draws_ : ndarray, (n_chains, n_draws)
        Only where the concentration has a prior.
    labels_ : ndarray of int, (n,)
        Cluster of each record, consecutive from 0: the largest w_k·g(z | θ_k) in a representative draw.
    kernel_, mixing_, sampler_ : the components in force, defaults filled in
    r_hat_, ess_ : dict of str to float
        Split R-hat and bulk effective sample size of the number of clusters, the mixture's moments and its log density at the
        centre.
    acceptance_rate_ : float
        Share of accepted record proposals (samplers with an accept step).
    min_acceptance_ : float
        Smallest acceptance probability met: at least exp(-ε) where Proposition 1 of the paper holds.
    n_iter_ : int
        Sweeps of each chain, warm-up included.

    References
    ----------
    Beraha, Favaro, Rao, "MCMC for Bayesian nonparametric mixture modeling under differential privacy".

    Examples
    --------
    >>> from sklearn_dpmix import PrivateDPMixture
    >>> from sklearn_dpmix.datasets import make_three_normals
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> X, _ = make_three_normals(200, random_state=0)
    >>> mechanism = LaplaceMechanism(epsilon=50.0, bounds=(-10, 10))
    >>> Z = mechanism.privatize(X, random_state=1)
    >>> model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=500, n_draws=1500, random_state=2).fit(Z)
    >>> model.n_clusters_draws_.shape
    (2, 1500)
    >>> bool(model.score_samples([[0.0]]) > model.score_samples([[2.5]]))
    True
    """

    _parameter_constraints = {
        **ChainEstimator._parameter_constraints,
        "mechanism": "no_validation",
        "kernel": "no_validation",
        "mixing": "no_validation",
        "sampler": "no_validation",
        "n_records": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        mechanism=None,
        *,
        kernel="normal",
        mixing=None,
        sampler="auto",
        n_records=None,
        n_chains=4,
        n_warmup=1000,
        n_draws=1000,
        thin=1,
        n_jobs=None,
        random_state=None,
        warm_start=False,
        verbose=0,
    ):
        self.mechanism = mechanism
        self.kernel = kernel
        self.mixing = mixing
        self.sampler = sampler
        self.n_records = n_records
        self.n_chains = n_chains
        self.n_warmup = n_warmup
        self.n_draws = n_draws
        self.thin = thin
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.warm_start = warm_start
        self.verbose = verbose

    # --- fit ---------------------------------------------------------------------------------------------------------

    @with_callbacks
    @_fit_context(prefer_skip_nested_validation=True)
    def fit(self, Z, y=None):
        """Draw from the posterior given a release.

        Parameters
        ----------
        Z : array-like of shape (n, n_features)
            Privatised records, as they were published: a step that rescales them would break the noise model.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any chain starts, for a bad parameter, parts that do not fit together, or data that are not finite numbers.
        """
        kernel, mixing, sampler = resolve_components(self.kernel, self.mixing, self.sampler)
        check_mechanism(self.mechanism, self.n_records)
        sampler = check_composition(self.mechanism, kernel, sampler)
        earlier = {name: getattr(self, name) for name in ("n_features_in_", "feature_names_in_") if hasattr(self, name)}
        try:
            Z = np.ascontiguousarray(validate_data(self, Z, dtype=np.float64))
            Z.flags.writeable = False
            check_n_records(self.n_records, len(Z))
            release = Release(Z, self.mechanism)
            kernel = kernel.resolve(release)
            n_features = Z.shape[1]
            values = (
                sampler._lower(),
                self._lower_channel(self.mechanism, kernel, len(Z), n_features),
                self._lower_kernel(kernel, n_features),
                mixing._lower(),
            )
            release.warn_if_implausible()
            signature, chains, blocks, n_done = self._run(Z, *self._chain_functions(sampler, kernel, values, release))
        except BaseException:
            for name in ("n_features_in_", "feature_names_in_"):
                self.__dict__.pop(name, None)
            self.__dict__.update(earlier)
            raise
        self._signature_, self._chains, self._blocks, self._n_done = signature, chains, blocks, n_done
        self.kernel_, self.mixing_, self.sampler_, self.n_iter_ = kernel, mixing, sampler, n_done
        self._draws = MixtureDraws([join(kept) for kept in blocks])
        self._set_draws(values, Z)
        return self

    def _chain_functions(self, sampler, kernel, values, release):
        guess = release.Z if kernel.absorbs_noise else release.guess()
        sizes = kernel.sizes(release.Z.shape[1])
        init = partial(sampler.init, values, release.Z, guess, sizes)
        return init, partial(_advance, sampler, values, release.Z, n_warmup=self.n_warmup, thin=self.thin)

    def _set_draws(self, values, Z):
        """Set the fitted attributes from the draws."""
        _, channel, kernel, mixing = values
        draws = self._draws
        self.n_clusters_draws_ = draws.by_chain(draws.n_clusters)
        self.weights_draws_ = draws.occupied_weights()
        self.__dict__.pop("concentration_draws_", None)
        monitors = {"n_clusters": self.n_clusters_draws_}
        if self.mixing_.is_random:
            self.concentration_draws_ = draws.by_chain(draws.concentration)
            monitors["concentration"] = self.concentration_draws_
        mean, variance = draws.moments(kernel, Z.shape[1])
        for j in range(Z.shape[1]):
            suffix = f"[{j}]" if Z.shape[1] > 1 else ""
            monitors["mean" + suffix] = draws.by_chain(mean[:, j])
            monitors["log_variance" + suffix] = draws.by_chain(np.log(variance[:, j]))
        centre = np.median(Z, axis=0, keepdims=True)
        monitors["log_density"] = draws.by_chain(np.log(draws.density(kernel, centre)[:, 0] + np.finfo(float).tiny))
        self._set_acceptance()
        self._classifier = Classifier(draws, kernel, has_marginal(self.mechanism, self.kernel_))
        self.labels_ = self._classifier.choose(channel, Z)
        self._summarise(monitors)

    def _set_acceptance(self):
        for name in ("acceptance_rate_", "min_acceptance_"):
            self.__dict__.pop(name, None)
        if self.sampler_.has_acceptance:
            floats = np.array([chain.state.floats for chain in self._chains])
            self.acceptance_rate_ = float(floats[:, ACCEPTED].sum() / floats[:, PROPOSED].sum())
            self.min_acceptance_ = float(np.exp(floats[:, LOG_MIN_ACCEPT].min()))

    def _lower_channel(self, mechanism, kernel, n_records, n_features):
        if mechanism is None or kernel.absorbs_noise:
            return NoNoise()._lower()
        return mechanism._lower(n_records=n_records, n_features=n_features)

    def _lower_kernel(self, kernel, n_features):
        scale = self.mechanism.noise_scale_for(n_features) if kernel.absorbs_noise else None
        return kernel._lower(n_features=n_features, noise_scale=scale)

    # --- confidential records ----------------------------------------------------------------------------------------

    def _points(self, X):
        check_is_fitted(self)
        X = np.ascontiguousarray(validate_data(self, X, reset=False, dtype=np.float64))
        X.flags.writeable = False
        return X, self._lower_kernel(self.kernel_, X.shape[1])

    def _density_chunks(self, X):
        """Densities of a few points at a time: (n_chains * n_draws, n) each."""
        X, kernel = self._points(X)
        size = max(1, CHUNK // len(self._draws.n_clusters))
        for first in range(0, len(X), size):
            yield self._draws.density(kernel, X[first : first + size])

    def density_draws(self, X):
        """Draws of the density of confidential records at X: (n_chains, n_draws, n_points).

        Each draw is a random density, the unseen part of the mixture drawn with it (what is left of it below a mass of 0.001 is
        put to the base measure's own density).
        """
        return self._draws_of(np.concatenate(list(self._density_chunks(X)), axis=1))

    def density_interval(self, X, level=0.95):
        """Pointwise posterior interval of the density at X.

        Parameters
        ----------
        X : array-like of shape (n_points, n_features)
        level : float in (0, 1), default=0.95

        Returns
        -------
        lower, upper : ndarrays of shape (n_points,)
        """
        if not 0 < level < 1:
            raise ValueError(f"level must be strictly between 0 and 1, got {level!r}")
        tail = 0.5 * (1.0 - level)
        parts = [np.quantile(chunk, [tail, 1.0 - tail], axis=0) for chunk in self._density_chunks(X)]
        lower, upper = np.concatenate(parts, axis=1)
        return lower, upper

    def score_samples(self, X):
        """Log posterior predictive density of confidential records X, (n_points,): the log of the mean density draw."""
        with np.errstate(divide="ignore"):
            return np.concatenate([np.log(chunk.mean(axis=0)) for chunk in self._density_chunks(X)])

    def score(self, X, y=None):
        """Mean of :meth:`score_samples`."""
        return float(np.mean(self.score_samples(X)))

    def cdf_draws(self, X):
        """Draws of P(every feature of a confidential record is at most X): (n_chains, n_draws, n_points)."""
        X, kernel = self._points(X)
        return self._draws_of(self._draws.cdf(kernel, X))

    def quantile_draws(self, q):
        """Draws of the quantiles of confidential records.

        Parameters
        ----------
        q : float or array-like of shape (n_q,), in (0, 1)

        Returns
        -------
        quantiles : ndarray of shape (n_chains, n_draws, n_q); with several features (n_chains, n_draws, n_q, n_features)
        """
        check_is_fitted(self)
        q = np.atleast_1d(np.asarray(q, dtype=np.float64))
        if q.ndim != 1 or not np.all((q > 0) & (q < 1)):
            raise ValueError(f"q must be probabilities strictly between 0 and 1, got {q!r}")
        kernel = self._lower_kernel(self.kernel_, self.n_features_in_)
        parts = [self._draws_of(self._draws.quantile(kernel, j, q)) for j in range(self.n_features_in_)]
        return parts[0] if self.n_features_in_ == 1 else np.stack(parts, axis=-1)

    def moment_draws(self):
        """Draws of the population's ``(mean, variance)``, each (n_chains, n_draws, n_features)."""
        check_is_fitted(self)
        kernel = self._lower_kernel(self.kernel_, self.n_features_in_)
        return Moments(*(self._draws_of(part) for part in self._draws.moments(kernel, self.n_features_in_)))

    def sample(self, n_samples=1, random_state=None):
        """Records from the posterior predictive, (n_samples, n_features): synthetic confidential records."""
        check_is_fitted(self)
        kernel = self._lower_kernel(self.kernel_, self.n_features_in_)
        return self._draws.sample(kernel, as_generator(random_state), int(n_samples), self.n_features_in_)

    def _draws_of(self, values):
        return self._draws.by_chain(values)

    # --- privatised records ------------------------------------------------------------------------------------------

    def _new_release(self, Z, epsilon):
        """New privatised records and their channel."""
        Z, kernel = self._points(Z)
        mechanism = self.mechanism
        if epsilon is not None:
            if mechanism is None or "epsilon" not in mechanism.get_params():
                raise ValueError(f"epsilon={epsilon!r} was given, but mechanism={mechanism!r} has no epsilon")
            mechanism = type(mechanism)(**{**mechanism.get_params(deep=False), "epsilon": epsilon})
        return Z, kernel, self._lower_channel(mechanism, self.kernel_, len(Z), Z.shape[1])

    def predict(self, Z, epsilon=None):
        """Cluster of new privatised records, as ``labels_`` numbers them.

        Parameters
        ----------
        Z : array-like of shape (n, n_features)
        epsilon : float or array of shape (n,), optional
            The new records' own ε, where it is not the mechanism's.
        """
        Z, _, channel = self._new_release(Z, epsilon)
        return self._classifier.predict(channel, Z)

    def score_release(self, Z, y=None, epsilon=None):
        """Mean log density of new privatised records, log g(z): what cross-validation should maximise.

        The predictive density is averaged over at most 500 draws, evenly spaced over the chains (over 10,000 predictive records
        where g has no closed form).

        Parameters
        ----------
        Z : array-like of shape (n, n_features)
        y : ignored
        epsilon : as in :meth:`predict`
        """
        Z, kernel, channel = self._new_release(Z, epsilon)
        draws = self._draws
        if has_marginal(self.mechanism, self.kernel_):
            chosen = draws.every(500)
            return float(np.mean(release_log_density(channel, kernel, draws.start, draws.weights, draws.theta, chosen, Z)))
        records = draws.sample(kernel, np.random.default_rng(0), 10_000, Z.shape[1])
        return float(np.mean(release_log_density_by_records(channel, kernel, Z, records)))

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.estimator_type = "clusterer"
        return tags


def _advance(sampler, values, Z, state, rng, n_sweeps, n_warmup, thin):
    Z = np.asarray(Z)
    Z.flags.writeable = False
    return sampler.advance(values, Z, state, rng, n_sweeps, n_warmup, thin)


def check_mechanism(mechanism, n_records):
    """Check that the mechanism is one, and releases records."""
    if mechanism is None:
        return
    if isinstance(mechanism, type) or not hasattr(mechanism, "_lower"):
        raise TypeError(f"mechanism must be a mechanism object such as LaplaceMechanism(epsilon=1.0, bounds=(0, 1)), got {mechanism!r}")
    if not getattr(mechanism, "is_local", True):
        if n_records is None:
            raise ValueError(
                f"mechanism={mechanism!r} releases a statistic of all records: n_records must say how many they were, got "
                "n_records=None"
            )
        raise ValueError(
            f"PrivateDPMixture has no sampler for mechanism={mechanism!r}: it takes mechanisms that release records one by one, "
            "with bounds= or scale= in place of query="
        )
    mechanism.check()


def check_n_records(n_records, n):
    """A local release has one row a record."""
    if n_records is not None and n_records != n:
        raise ValueError(f"n_records={n_records}, but the release has {n} records: leave n_records out for a local mechanism")
