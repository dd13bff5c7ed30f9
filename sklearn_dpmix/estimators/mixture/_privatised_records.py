"""What a mixture's draws say about privatised records: labels, partitions, densities, and releases that did not
appear."""

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ..._base.generators import as_generator
from ..._base.parameters import positive_integer
from ..._base.typing import Array, Floats, Seed
from ..._posterior.cluster import draw_partitions
from ..._posterior.partition import point_partition, similarity
from ..._posterior.predictive import Releases, release_log_density, released_shares
from ...mechanisms import NoNoise
from ...mechanisms._losses import RecordLosses
from ...samplers.mixture._auto import has_marginal, has_noised_normal, has_normal_releases
from .._decorators import available_if
from ._mixture_problem import lowered_channel

MOST_SUPPRESSED = 2.0**60  # larger numbers of records are not told apart
MAX_PARTITION = 5000  # most records whose partitions are compared: similarities take 8 bytes a pair


def is_local(mechanism):
    """Whether records are released one by one."""
    return getattr(mechanism, "is_local", True)


def fitted_mechanism(estimator):
    """That of the fit, whatever ``set_params`` says since; before a fit, the parameter."""
    return getattr(estimator, "mechanism_", estimator.mechanism)


def fits_records(estimator):
    """Whether the next fit is to records that are released one by one."""
    return is_local(estimator.mechanism)


def has_records(estimator):
    """Whether records were released one by one: only then do they have labels, and new ones a density."""
    return is_local(fitted_mechanism(estimator))


def has_threshold(estimator):
    """Whether only releases above a threshold appeared."""
    return getattr(fitted_mechanism(estimator), "released_above", None) is not None


def check_same_number(mechanism, n):
    """Raise ValueError if each record has its noise scale or its ε, but for another number of records."""
    if mechanism is None:
        return
    n_fitted = np.size(mechanism.epsilon if isinstance(mechanism, RecordLosses) else mechanism.noise_scale)
    if n_fitted not in (1, n):
        is_epsilon = mechanism.get_params().get("epsilon") is not None
        raise ValueError(
            f"Z has {n} records, but the fitted {type(mechanism).__name__} has noise for each of {n_fitted}: "
            + ("pass epsilon=, one number or one per record" if is_epsilon else "give the records that were fitted")
        )


class PrivatisedRecordsMixin:
    """Methods on privatised records, for a fitted mixture with ``mechanism_``, ``kernel_`` and draws (``_draws_``)."""

    _draws_: Any
    mechanism: Any
    mechanism_: Any
    kernel_: Any
    n_jobs: int | None
    _check_input: Any
    _kernel: Any
    _clusters_: Any
    _n_features_: int
    _n_released_: int
    _n_all_: int | None
    _Z_: Any
    fit: Any

    def _channel(self, mechanism, n_records):
        return lowered_channel(self.kernel_, mechanism, n_records, self._n_features_)

    def _noised(self, mechanism):
        """The mechanism, if it can compute the densities of the kernel's records at many places at once."""
        if mechanism is None or mechanism.n_answers is not None or mechanism.tables:
            return None
        return mechanism if has_noised_normal(mechanism, self.kernel_) else None

    def _has_answers(self):
        """Whether each release is one of a few answers to each question, from one channel."""
        return self.mechanism_ is not None and self.mechanism_.n_answers is not None and self.mechanism_.has_one_law

    def _has_marginal(self):
        return has_marginal(self.mechanism_, self.kernel_) or has_normal_releases(self.mechanism_, self.kernel_)

    def _releases(self, Z, channel, mechanism):
        """Releases of this channel; with no ``mechanism``, their densities are computed one by one."""
        parts = self.n_jobs, self._noised(mechanism), self._log_outside(Z)
        if has_normal_releases(mechanism, self.kernel_):
            variance = channel.noise.item() ** 2
            noised_theta = partial(self.kernel_.noised, n_features=self._n_features_, variance=variance)
            return Releases(Z, NoNoise()._lower(), self._kernel(), True, *parts, noised_theta)
        return Releases(Z, channel, self._kernel(), has_marginal(self.mechanism_, self.kernel_), *parts)

    def _fitted_releases(self):
        return self._releases(self._Z_, self._channel(self.mechanism_, len(self._Z_)), self.mechanism_)

    def _new_releases(self, Z, epsilon):
        """New privatised records as :class:`Releases`, and their mechanism."""
        check_is_fitted(self)
        Z = self._check_input(Z, "Z")
        mechanism = self.mechanism_
        if epsilon is not None:
            if self.kernel_.absorbs_noise:
                raise ValueError(
                    f"epsilon={epsilon!r} was given, but kernel={self.kernel_!r} holds the noise of the training "
                    "release: leave epsilon out, or use NormalKernel"
                )
            if mechanism is None or "epsilon" not in mechanism.get_params():
                raise ValueError(
                    f"epsilon={epsilon!r} was given, but mechanism={mechanism!r} has no epsilon: leave it out"
                )
            if mechanism.epsilon is None:
                raise ValueError(
                    f"epsilon={epsilon!r} was given, but the fitted {type(mechanism).__name__} was made with scale= or "
                    "rho=: leave epsilon out; for new records with noise of their own, fit with epsilon="
                )
            mechanism = type(mechanism)(**{**mechanism.get_params(deep=False), "epsilon": epsilon})
        else:
            check_same_number(mechanism, len(Z))
        channel = NoNoise() if mechanism is None else mechanism
        channel.check_release(Z)
        return self._releases(channel.encode(Z), self._channel(mechanism, len(Z)), mechanism), mechanism

    @property
    def labels_(self) -> Array:
        """Cluster of each record that was fitted: the k with the largest w_k g(z | θ_k) in a representative draw.

        Where g has no closed form it is estimated, from 100 records of each cluster and 50 around each release.  For a
        few features under additive noise that is right to some 10 %, so the label of a release may then be another one
        if two clusters are nearly as likely.
        """
        of_summary = hasattr(self, "summary_")
        if hasattr(self, "_clusters_") and not of_summary:
            return self._clusters_.labels
        why = f"{type(self).__name__} object has no attribute 'labels_'"
        if not hasattr(self, "mechanism_"):
            why += ", since it is not fitted yet"
        elif not of_summary:
            why += f", since the release of {self.mechanism_!r} is not one of single records"
        else:
            why += (
                ", since it was fitted to a summary, which keeps no records: predict(Z) gives the labels of records, "
                "in batches if they are many"
            )
        raise AttributeError(why)

    @available_if(fits_records)
    def fit_predict(self, Z: ArrayLike, y: ArrayLike | None = None) -> Array:
        """Fit and return ``labels_``."""
        return self.fit(Z).labels_

    @available_if(has_records)
    def predict(self, Z: ArrayLike, epsilon: ArrayLike | None = None) -> Array:
        """Cluster of new privatised records, as ``labels_`` numbers them.

        Parameters
        ----------
        Z : array-like of shape (n, n_features)
        epsilon : float or array of shape (n,), optional
            The new records' own ε, if it is not the mechanism's.

        Returns
        -------
        labels : ndarray of int, (n,)
            A cluster without training records gets a number beyond those of ``labels_``.
        """
        releases, _ = self._new_releases(Z, epsilon)
        return self._clusters_.clustering.predict(releases)

    @available_if(has_records)
    def score_release(self, Z: ArrayLike, y: ArrayLike | None = None, epsilon: ArrayLike | None = None) -> float:
        """Mean log density of new privatised records, log g(z): what cross-validation should maximise.

        The predictive density is averaged over at most 500 draws, evenly spaced over the chains.  If g has no closed
        form (:meth:`point_partition` says where; here integers have one, but for the farthest outliers), it is averaged
        over 100, and g is estimated from 10,000 predictive records and 50 around each release.  For up to three
        features under additive noise, and fits to some hundreds of records, the score is then within some 0.01 of the
        exact one, for eight features within some 0.05.  Of more than 5000 different releases of one feature under equal
        noise it is interpolated, by polynomials on cells that are halved until the error of the log density is near
        1e-7.

        Parameters
        ----------
        Z : array-like of shape (n, n_features)
        y : ignored
        epsilon : as in :meth:`predict`

        Returns
        -------
        score : float
        """
        releases, mechanism = self._new_releases(Z, epsilon)
        by_scale = self._of_each_scale(releases)
        one_law = mechanism is None or len(by_scale) > 1 or mechanism.has_one_law
        repeats = mechanism is not None and (mechanism.is_discrete or mechanism.n_answers is not None)
        found = [release_log_density(self._draws_, part, one_law, repeats) for _, part in by_scale]
        return float(np.mean(np.concatenate(found)))

    def _of_each_scale(self, releases):
        """(Numbers of releases, these) for each noise scale if releases have a threshold; otherwise for all."""
        if self.mechanism_ is None or self.mechanism_.released_above is None or releases.channel.noise.size == 1:
            return [(np.s_[:], releases)]
        scales = np.asarray(releases.channel.noise)
        rows = [(np.flatnonzero(scales == scale), scale) for scale in np.unique(scales).tolist()]
        return [(some, self._releases(releases.Z[some], self._of_scale(scale), None)) for some, scale in rows]

    def _of_scale(self, scale):
        """The fitted mechanism's channel for noise of one scale."""
        return self._channel(self.mechanism_.of_scales(scale, 1), 1)

    def _log_outside(self, Z):
        """Log density of releases of records outside the mixture; None if there are none."""
        mechanism = self.mechanism_
        return None if mechanism is None or mechanism.noncompliance is None else mechanism.log_noncompliant(Z)

    @available_if(has_threshold)
    def released_share_draws(self) -> Floats:
        """Draws of the probability that a record's release appears above the threshold: (n_chains, n_draws).

        With several noise scales it is the probability over all records, Σn/Σ(n/R), where n is the number that appeared
        with each scale.
        """
        check_is_fitted(self)
        counts, shares = self._shares_by_scale()
        return counts.sum() / np.sum(counts / shares, axis=-1)

    def _shares_by_scale(self):
        """How many releases of each noise scale appeared, and draws of the probability that one does."""
        draws = self._draws_
        chosen = np.arange(draws.n_chains * draws.n_draws)
        scales, counts = np.unique(self.mechanism_.noise_scale_for(1), return_counts=True)
        counts = np.array([self._n_released_]) if len(scales) == 1 else counts
        shares = [draws.by_chain(released_shares(draws, self._of_scale(scale), chosen)) for scale in scales.tolist()]
        return counts, np.stack(shares, axis=-1)

    @available_if(has_threshold)
    def n_suppressed_draws(self, random_state: Seed = None) -> Array:
        """Draws of the number of records whose releases did not appear: (n_chains, n_draws).

        Given the population and the number that appeared, it is negative binomial under the prior 1/n on the total (for
        each noise scale).  Each call draws again, unless ``random_state`` is a seed.

        Parameters
        ----------
        random_state : int, Generator, RandomState or None
        """
        check_is_fitted(self)
        counts, shares = self._shares_by_scale()
        if self._n_all_ is not None:
            return np.full(shares.shape[:-1], self._n_all_ - self._n_released_)
        rng = as_generator(random_state)
        rate = rng.standard_gamma(np.broadcast_to(counts, shares.shape)) * (1.0 - shares) / shares
        return rng.poisson(np.minimum(rate, MOST_SUPPRESSED)).sum(axis=-1)

    def _partitions(self, n_partitions, random_state):
        check_is_fitted(self)
        if not self._has_marginal():
            raise ValueError(
                f"partitions are drawn by g(z | θ) of each record, which is not available for kernel={self.kernel_!r} "
                f"under mechanism={self.mechanism_!r}: use labels_"
            )
        if self._Z_ is None:
            raise ValueError(
                "partitions are of records, and a fit to a summary keeps none: predict(Z) gives labels, or fit an array"
            )
        if len(self._Z_) > MAX_PARTITION:
            raise ValueError(
                f"partitions are compared for at most {MAX_PARTITION} records, but there are {len(self._Z_)}: use "
                "labels_, or fit a subsample"
            )
        n_partitions = positive_integer("n_partitions", n_partitions)
        rng = as_generator(random_state)
        return draw_partitions(self._draws_, self._fitted_releases(), n_partitions, rng), rng

    @available_if(has_records)
    def point_partition(
        self, loss: str = "vi", *, n_partitions: int = 500, n_starts: int = 8, random_state: Seed = None
    ) -> Array:
        """The partition of the records that has the least posterior expected loss, by a greedy search.

        A record of someone who does not follow the design (``noncompliance=`` of the mechanism) is in no other's
        cluster.

        Parameters
        ----------
        loss : {"vi", "binder"}, default="vi"
            Variation of information, or the share of pairs on which two partitions disagree.  If noise makes
            memberships uncertain, the first prefers few clusters, and the second leaves uncertain records on their own.
        n_partitions : int, default=500
            Number of posterior draws of the partition, evenly spaced, over which the expectation is taken.
        n_starts : int, default=8
            Number of starts of the search.
        random_state : int, Generator, RandomState or None

        Returns
        -------
        labels : ndarray of int, (n,)
            Consecutive from 0, largest cluster first.

        Raises
        ------
        ValueError
            For more than 5000 records, or if g(z | θ) of a record has no closed form: correlated features under noise
            (but for normal noise of one scale, without bounds or with ``clamp=False``), beta records under additive
            noise, integers released without bounds or with bounds more than 1023 apart, counts of a binomial mechanism
            with a kernel that is not beta.

        References
        ----------
        Binder (1978), "Bayesian cluster analysis"; Meilă (2007), "Comparing clusterings: an information based
        distance"; Wade, Ghahramani (2018), "Bayesian cluster analysis: point estimation and credible balls"; Dahl,
        Johnson, Müller (2022), "Search algorithms and loss functions for Bayesian clustering", for the search.
        """
        partitions, rng = self._partitions(n_partitions, random_state)
        return point_partition(partitions, loss, n_starts=n_starts, rng=rng)[0]

    @available_if(has_records)
    def similarity(self, *, n_partitions: int = 500, random_state: Seed = None) -> Floats:
        """Posterior probability that two records are in one cluster: (n, n), for at most 5000 records.

        Under ``noncompliance=`` of the mechanism, both then follow the design.

        Parameters
        ----------
        n_partitions, random_state : as in :meth:`point_partition`

        Raises
        ------
        ValueError
            As :meth:`point_partition`.
        """
        return similarity(self._partitions(n_partitions, random_state)[0])
