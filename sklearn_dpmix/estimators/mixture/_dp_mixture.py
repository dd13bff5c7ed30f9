"""Dirichlet-process mixture of privatised records."""

import os
from functools import partial
from numbers import Integral
from operator import methodcaller
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import BaseEstimator, ClusterMixin, DensityMixin
from sklearn.utils._param_validation import Interval

from ..._base.compiled import Component
from ..._base.typing import Seed
from ..._chains.auto_draws import AutoDraws
from ..._chains.checkpoint import package_version
from ..._chains.mixed import have_mixed, worst_monitors
from ..._posterior.cluster import ReleaseClusters
from ..._posterior.mixture import MixtureDraws
from ..._releases.misfits import beyond_bounds, misfits
from ..._releases.release import Release
from ..._releases.summarised_release import SummarisedRelease
from ...kernels import Kernel
from ...samplers import MixtureSampler
from ...samplers.mixture.measure._node_layout import TOLERANCE
from .._chain_estimator import VERSION, ChainEstimator, warn_user
from .._decorators import available_if, fit_context, with_callbacks
from ._batches import check_takes_summaries, kind_of, summary_of, summary_so_far
from ._compose import check_n_records, copies, resolve_components
from ._mixture_contents import MixtureContents
from ._mixture_problem import MixtureProblem
from ._population import PopulationMixin
from ._privatised_records import PrivatisedRecordsMixin, fits_records

FAR_OFF = 0.1  # of the log likelihood of a draw, from which on a warning says so


def takes_batches(estimator):
    """Whether there is noise, so that a release may come in batches."""
    return estimator.mechanism is not None and fits_records(estimator)


class PrivateDPMixture(PopulationMixin, PrivatisedRecordsMixin, ClusterMixin, DensityMixin, ChainEstimator):
    """Density and clusters of a population from records that were privatised one by one.

    The confidential records are a mixture of kernels under a Dirichlet-process (or Pitman–Yor) prior, and each went
    through ``mechanism`` before it was released.  ``fit`` draws from the exact posterior of that mixture given the
    release; everything computed from the draws, densities above all, is about *confidential* records.

    Parameters
    ----------
    mechanism : mechanism object or None, default=None
        What the release went through, such as ``LaplaceMechanism(epsilon=2.0, bounds=(0, 1))``.  Its ε is known, never
        tuned. None: the records are not privatised, and this is the ordinary Bayesian mixture.
    kernel : kernel object or its lower-case name, default="normal"
        Density of a record in a cluster, with its base measure.  "normal" is ``NormalKernel()``, whose unset parameters
        are estimated from the release, less the noise variance (empirical Bayes, see there).
    mixing : DirichletProcess or PitmanYor, optional
        Prior on the partition; or MixtureOfFiniteMixtures, or a name: "dirichlet_process", "pitman_yor",
        "mixture_of_finite_mixtures".  None: a Dirichlet process with concentration 1.
    sampler : str or sampler object, default="auto"
        One of :mod:`sklearn_dpmix.samplers` or its name: "auto", "mixing_measure", "interweaved", "imputed", "cells",
        "neal5", "slice", "conditional", "neal8", "jain_neal", "neal2", "neal3" or "reuse".  All are exact; the last
        three need records without noise, or a convolved normal kernel.
    n_records : int, optional
        Number of confidential records, for a mechanism that releases a statistic of all of them, or that has
        ``released_above``.  None: unknown, with prior 1/n.  It must be None if records have their own noise scales.
    n_chains : int, default=4
    n_warmup : int, default=1000
        Sweeps of each chain that are dropped.  If a trial run shows that chains forget their start quickly,
        ``MixingMeasure`` makes a half, a third or a quarter of them.
    n_draws : int, "auto" or AutoDraws, default=1000
        Draws kept of each chain; "auto": until there are enough, see :class:`AutoDraws`.  If 500 or more draws have an
        R-hat above 1.01, or an effective sample size below a tenth of their number, ``MixingMeasure`` (and
        ``Interweaved``, if "auto" chose it) thins the chains: every second draw is dropped, and the chains continue
        with ``2 * thin`` sweeps per draw.  This is repeated, up to eight times the sweeps, or sixteen in some fits.
    thin : int, default=1
        Sweeps for one draw.
    n_jobs : int, optional
        Chains run at a time (joblib).  Results do not depend on it.
    random_state : int, Generator, RandomState or None
        Seed of the chains.
    warm_start : bool, default=False
        Continue the chains of the last fit up to a larger ``n_draws``.  The draws are those of one longer run, if
        neither run had to be thinned (see ``n_draws``).
    checkpoint : str or path, optional
        File to which the run is saved every half minute and at its end.  A fit that finds it resumes from there, with
        the draws of an uninterrupted run; a file from another fit is refused and left as it is.  An empty ``.lock``
        file stays next to it.
    verbose : int, default=0
        1 shows a progress bar, with draws per second, R-hat so far and the time left.

    Attributes
    ----------
    n_clusters_draws_ : ndarray of int, (n_chains, n_draws)
        Number of occupied clusters; under ``released_above``, of the records that appeared.  In draws where nobody
        follows the design (``noncompliance=``), the largest component counts as occupied: it is at least 1.
    weights_draws_ : ndarray, (n_chains, n_draws, most clusters)
        Mixture weights of the occupied clusters, largest cluster first, padded with 0; the
        rest, up to 1, belongs to clusters without records.
    concentration_draws_ : ndarray, (n_chains, n_draws)
        Only where the concentration has a prior.
    n_components_draws_ : ndarray, (n_chains, n_draws)
        Components of the population, those without records included; only for ``MixtureOfFiniteMixtures``.
    labels_ : ndarray of int, (n,)
        Cluster of each record, consecutive from 0: the largest w_k·g(z | θ_k) in a representative draw.  Only where
        records were released one by one, and ``fit`` was given all of them as an array.  Computed when first accessed.
    noncompliance_draws_ : ndarray, (n_chains, n_draws)
        Share of people who did not follow the design; only for ``noncompliance=`` of the mechanism.  Everything else is
        about the population of those who did.
    mechanism_, kernel_, mixing_, sampler_ : the components in use, defaults filled in
    r_hat_, ess_ : dict of str to float
        Split R-hat and bulk effective sample size of the number of clusters, the mixture's moments and its log density
        at the centre.
    acceptance_rate_ : float
        Share of accepted record proposals (samplers with an accept step).
    min_acceptance_ : float
        Smallest acceptance probability met: at least exp(-ε) where Proposition 1 of the paper holds.
    summary_ : ReleaseSummary
        Of all records, if ``fit`` was given a summary or batches, and after ``partial_fit``.
    compression_error_ : float
        Largest error in the log likelihood of all records, over 500 draws (or 100 or more, if 500 would take long),
        because ``MixingMeasure`` computes it from weighted nodes.  Only for that sampler.
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

    _contents = MixtureContents
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ChainEstimator._parameter_constraints,
        "mechanism": "no_validation",
        "kernel": "no_validation",
        "mixing": "no_validation",
        "sampler": "no_validation",
        "n_records": [Interval(Integral, 1, None, closed="left"), None],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        kernel: Kernel | str = "normal",
        mixing: Component | str | None = None,
        sampler: MixtureSampler | str = "auto",
        n_records: int | None = None,
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
        self.n_records = n_records
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
    def fit(self, Z: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw from the posterior given a release.

        Parameters
        ----------
        Z : array-like of shape (n, n_features)
            Privatised records, as they were published: rescaling them would invalidate the noise model.  Under a
            mechanism that releases a histogram of all records: its release, of shape (n_released,) or (n_released, 1).

            One feature under a mechanism that :class:`ReleaseSummary` takes may also come as such a summary; an
            iterator of batches; an Arrow dataset, scanner or reader of record batches; the path of a Parquet file or of
            a folder of them, or a list of paths; a Dask array or data frame.  It is read once, and never held in memory
            as a whole.
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            Before any chain starts, for a bad parameter, parts that do not fit together, or data that are not finite
            numbers.
        """
        parts = resolve_components(self.mechanism, self.kernel, self.mixing, self.sampler, self.n_records)
        with self._refit() as earlier:
            if kind_of(Z) is not None:
                check_takes_summaries(f"Z is a {type(Z).__name__}", *parts)
            self._draw(Z, summary_of(Z, self.mechanism), parts, earlier)
        self._warn_about_chains()
        return self

    @available_if(takes_batches)
    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def partial_fit(self, Z: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Add records to those fitted before, and continue the chains on all of them.

        Chains start where the last ones ended, and warm up again.  The first call is :meth:`fit` on a summary.

        Parameters
        ----------
        Z : array-like of shape (n, 1), or anything else that :meth:`fit` takes
        y : ignored

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            As :meth:`fit` does, and if ``checkpoint`` is set, which is for a single fit, or another version of the
            package made the chains.  The model stays as it was.
        """
        if self.checkpoint is not None:
            raise ValueError(
                f"checkpoint={self.checkpoint!r} is for one fit, but partial_fit makes many: pass checkpoint=None, "
                "and save summary_ instead"
            )
        parts = resolve_components(self.mechanism, self.kernel, self.mixing, self.sampler, self.n_records)
        check_takes_summaries("partial_fit keeps a summary of the records", *parts)
        chains = self._run_.chains if hasattr(self, "_run_") and self.sampler_.takes_summaries else None
        if chains is not None and self._run_.signature.get(VERSION) != package_version():
            raise ValueError(
                f"partial_fit continues the chains of the last fit, but {VERSION} changed: fit all records anew, or "
                "summary_, if there is one"
            )
        summary = summary_of(Z, self.mechanism, summary_so_far(self))
        with self._refit():
            self._draw(Z, summary, parts, {}, chains)
        self._warn_about_chains()
        return self

    def _draw(self, Z, summary, parts, earlier, chains=None):
        """Fit records, or a summary in their place."""
        if summary is None:
            Z = self._checked_records(Z)
        # copies: what is fitted does not change with set_params
        self.mechanism_, kernel, self.mixing_, sampler = copies(self.mechanism, *parts)
        if summary is None:
            release = Release(Z, self.mechanism_, self.n_records)
        else:
            release, self.summary_ = SummarisedRelease(summary, self.mechanism_, self.n_records), summary
            self._take_columns(summary)
        problem = MixtureProblem(release, self.mechanism_, kernel, self.mixing_, sampler)
        self.kernel_, self.sampler_, self._Z_ = problem.kernel, problem.sampler, problem.Z
        self._n_features_, self._n_released_, self._n_all_ = release.n_features, release.n_records, self.n_records
        for words in misfits(release, self.kernel_):
            warn_user(words, UserWarning)
        centre = self.kernel_.nearest(release.centre())
        self._advance_chains(problem.posed(chains), methodcaller("_keep", centre), earlier)
        self._finish(partial(self._note, problem, Z, summary))

    def _note(self, problem, Z, summary):
        """Keep what follows from the draws and the release together."""
        self._note_compression(problem, summary)
        if summary is None:
            self._keep_release(Z)
        self._note_clusters(problem.values, summary)
        for words in beyond_bounds(self._monitors_["mean"], problem.release):
            warn_user(words, UserWarning)

    def _note_compression(self, problem, summary):
        """Record how accurately the nodes stood for the records, and what is to be said if that is not enough."""
        error, self._inaccuracy_ = problem.compression_error(self._draws_.flat), None
        if error is not None:
            self.compression_error_ = error
            wanted = problem.sampler.wanted(problem.release, problem.seen)
            if summary is not None and error > TOLERANCE and wanted:  # the summary's cells were too wide
                self._inaccuracy_ = problem.release.shortage(wanted, error)
            elif error > FAR_OFF:
                self._inaccuracy_ = (
                    f"the log likelihood of some draws is off by {error:.2g} (compression_error_), as it is computed "
                    "from weighted nodes; the draws are approximate: use a sampler that keeps the records, such as "
                    '"interweaved" or, without a mechanism, "reuse"'
                )

    def _warn_about_chains(self):
        if self._inaccuracy_ is not None:
            warn_user(self._inaccuracy_, RuntimeWarning)
        super()._warn_about_chains()

    def _keep_release(self, Z):
        """Keep a copy, since the caller may write to the array; not of a memory map."""
        self._release_ = Z if is_mapped(Z) else Z.copy()
        self._release_.flags.writeable = False
        if self._Z_ is Z:
            self._Z_ = self._release_

    def _note_clusters(self, values, summary):
        if not fits_records(self):
            return
        Z, weights, channel = self._Z_, None, values[1]
        if summary is not None:
            places, weights = summary.nodes()
            Z = np.ascontiguousarray(places[:, None])
            channel = self._channel(self.mechanism_, len(Z))  # there may be more nodes than records
        releases = self._releases(Z, channel, self.mechanism_)
        self._clusters_ = ReleaseClusters(self._draws_, releases, weights, self._has_answers())

    def _checked_records(self, Z):
        if not fits_records(self) and np.ndim(Z) == 1:
            Z = np.reshape(Z, (-1, 1))  # one release of all records: a column
        Z = self._check_input(Z, "Z", reset=True)
        check_n_records(self.mechanism, self.n_records, len(Z))
        if self.mechanism is not None:
            self.mechanism.check_release(Z)
        return Z

    def _take_columns(self, summary):
        """Columns as of an array."""
        if summary.n_records == 0:
            raise ValueError("this summary holds no records: add some with update()")
        check_n_records(self.mechanism, self.n_records, summary.n_records)
        self.n_features_in_ = 1
        if summary._column is not None:
            self.feature_names_in_ = np.array([summary._column], dtype=object)

    def _take_run(self, signature, so_far):
        super()._take_run(signature, so_far._replace(draws=MixtureDraws(so_far.draws)))

    def _chains_of(self, draws):
        return draws.chains()

    def _keep(self, centre):
        draws = self._draws_
        self.n_clusters_draws_ = draws.by_chain(draws.flat.n_clusters)
        self.weights_draws_ = draws.occupied_weights()
        if random_part := self._random_part():
            setattr(self, f"{random_part}_draws_", draws.by_chain(draws.flat.concentration))
        if draws.flat.outside.size:
            self.noncompliance_draws_ = draws.by_chain(draws.flat.outside)
        if self.sampler_.has_acceptance:
            self._set_acceptance()
        self._monitor(self._monitors(centre))

    def _random_part(self):
        """The name of what is random of the mixing; None: nothing, as of mixings of one's own that do not say."""
        return getattr(self.mixing_, "random_part", None)

    def _monitors(self, centre):
        """The quantities whose convergence is checked; none depends on how clusters are numbered."""
        monitors = {"n_clusters": self.n_clusters_draws_}
        if random_part := self._random_part():
            monitors[random_part] = getattr(self, f"{random_part}_draws_")
        if self._draws_.flat.outside.size:
            monitors["noncompliance"] = self.noncompliance_draws_
        tiny = np.finfo(float).tiny  # categories need not vary
        mean, variance = self.moment_draws()
        for name, values in {"mean": mean, "log_variance": np.log(variance + tiny)}.items():
            monitors[name] = values[..., 0] if self._n_features_ == 1 else values
        at_centre = self._draws_.density(self._kernel(), centre)[..., 0]
        monitors["log_density"] = np.log(at_centre + tiny)
        return monitors

    def _not_mixed(self):
        """As the parent; if only the number of clusters has not mixed, add that the density has."""
        complaint, of_clusters = super()._not_mixed(), {"n_clusters", self._random_part()}
        r_hat = {name: value for name, value in self.r_hat_.items() if name not in of_clusters}
        worst, fewest = worst_monitors(r_hat, self.ess_)
        if complaint and worst is not None and have_mixed(r_hat, self.ess_, self._least_ess()):
            complaint += f" (but all quantities of the density have: {r_hat[worst]:.3f}, {self.ess_[fewest]:.0f})"
        return complaint


def is_mapped(array):
    """Whether an array's numbers are in a file."""
    while array is not None and not isinstance(array, np.memmap):
        array = getattr(array, "base", None)
    return array is not None
