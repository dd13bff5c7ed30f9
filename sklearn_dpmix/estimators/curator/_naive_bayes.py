"""Naive Bayes from noisy class-by-feature tables."""

import os
from collections.abc import Sequence
from functools import partial
from numbers import Integral
from operator import methodcaller
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, xlogy
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.utils._param_validation import Interval
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from ..._base.distinct import distinct_rows
from ..._base.parameters import positive_integer, validate_data
from ..._base.typing import Array, Floats, Seed
from ..._chains.auto_draws import AutoDraws
from ..._chains.problem import Problem
from ...models import DirichletPrior
from ...models._naive_bayes_model import NaiveBayes
from ...queries import ClassFeatureCounts
from ...samplers.tables._convolution import independent_tables
from ...samplers.tables._record_chains import (
    CollapsedGibbs,
    KnownTables,
    advance_tables,
    check_tables,
    restored_tables,
    start_records,
    start_tables,
)
from .._chain_estimator import ChainEstimator
from .._confidential import check_confidential, encode_labels
from .._decorators import fit_context, with_callbacks
from ._count import check_count
from ._curator import (
    agrees,
    check_curator,
    check_query_release,
    check_raw,
    check_shape,
    keep_names,
    new_records,
    privatize_records,
)
from ._naive_bayes_inputs import (
    check_confidential_values,
    check_values,
    count_tables,
    encode_classes,
    public_classes,
    warn_about_release,
)
from ._statistic_contents import NaiveBayesContents

#: Numbers that a prediction works on at a time.
BLOCK = 2_000_000


class PrivateNaiveBayesDA(ClassifierMixin, ChainEstimator):
    """Naive Bayes classifier for categories, from tables of counts that a curator released with noise.

    The curator counts records by class and value, with one table per feature (:class:`ClassFeatureCounts`), and
    releases the tables with noise.  The posterior given that release is exact.

    Parameters
    ----------
    mechanism : mechanism object with ``query=ClassFeatureCounts(...)``, or None
        What the tables went through.  None: the records are not confidential, and this is an ordinary Bayesian
        classifier.
    prior : DirichletPrior, optional
        The prior of the class probabilities, and of each feature's probabilities in each class; one number ``alpha``
        for all.  None is ``DirichletPrior(1.0)``.  If features have many values and most of them are rare, a smaller
        ``alpha`` such as 0.1 is better: each value counts for that many records in each class.
    n_records : int, optional
        Number of records behind a release; not needed for ``fit(X, y)``.
    n_classes : int, optional
        None: what the query says, or the classes of ``y`` without a mechanism.
    classes : array-like of n_classes different labels, optional
        The public labels, in increasing order: ``classes[k]`` is class k of the query.  None: 0, ..., n_classes - 1
        under a mechanism, and the labels in ``y`` without one.
    n_values : int or sequence of int of length n_features, optional
        Values of a feature are 0, 1, ..., n_values - 1.  None: what the query says, or without a mechanism, up to the
        largest value in ``X``.
    secure : bool, default=False
        Let OpenDP (extra ``[secure]``) draw the noise of ``fit(X, y)`` under a mechanism.  False: NumPy draws it, which
        is for simulation, and ``fit`` warns.  No noise is drawn if ``fit`` gets a release.
    n_chains, n_warmup, n_draws, thin, n_jobs, random_state, warm_start, checkpoint, verbose :
        As in :class:`PrivateDPMixture`.  Noise is never drawn from ``random_state``.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        ``classes``, or 0, ..., n_classes - 1, whatever ``y`` holds.  Without a mechanism and ``classes``, what ``y``
        held (see :meth:`fit`).
    n_values_ : ndarray of int, (n_features,)
    class_prob_draws_ : ndarray of shape (n_chains, n_draws, n_classes)
        P(class).
    feature_prob_draws_ : ndarray of shape (n_chains, n_draws, n_features, n_classes, most values)
        P(value | class) for each feature; 0 beyond a feature's values.
    release_ : ndarray of shape (n_releases, n_statistics)
        The release that was used for inference; only under a mechanism.
    unused_release : ndarray of shape (1, n_statistics)
        Only after ``fit(X, y)`` was interrupted, or failed, before there were draws: what it released.  Fit it with
        ``n_records``, since another ``fit(X, y)`` would spend the budget again.
    r_hat_, ess_ : dict of str to float
        For P(class), and for the mutual information of the class and each feature (in nats).
    n_iter_ : int

    Notes
    -----
    With the probabilities integrated out, the distribution of the counts given a release is a chain of convolutions, so
    they are drawn exactly and independently.  The chains have nothing to forget, and warm-up costs nothing.  Only if
    these sums would take minutes (noise of a scale in the thousands on a hundred thousand records), each record is
    drawn given the others instead; this is exact too, but moves slowly.

    References
    ----------
    Ju, Awan, Gong, Rao (2022), "Data augmentation MCMC for Bayesian inference from privatized data", §4.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import PrivateNaiveBayesDA
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> from sklearn_dpmix.queries import ClassFeatureCounts
    >>> rng = np.random.default_rng(0)
    >>> y = rng.integers(0, 2, 500)
    >>> X = np.column_stack([(y + rng.integers(0, 2, 500)) // 2, rng.integers(0, 3, 500)])
    >>> mechanism = LaplaceMechanism(epsilon=1.0, query=ClassFeatureCounts(n_classes=2, n_values=[2, 3]))
    >>> S = mechanism.privatize(np.column_stack([X, y]), random_state=1)
    >>> model = PrivateNaiveBayesDA(mechanism, n_records=500, random_state=2).fit(S)
    >>> model.predict([[1, 0], [0, 0]])
    array([1, 0])
    """

    _contents = NaiveBayesContents
    _KEPT = ("mechanism",)
    _FREE = ChainEstimator._FREE | {"secure", "n_records"}  # the number is in the data
    _parameter_constraints: ClassVar[dict[str, Any]] = {
        **ChainEstimator._parameter_constraints,
        "mechanism": "no_validation",
        "prior": [DirichletPrior, None],
        "n_records": [Interval(Integral, 1, None, closed="left"), None],
        "n_classes": [Interval(Integral, 1, None, closed="left"), None],
        "classes": ["array-like", None],
        "n_values": [Interval(Integral, 1, None, closed="left"), "array-like", None],
        "secure": ["boolean"],
    }

    def __init__(
        self,
        mechanism: BaseEstimator | None = None,
        *,
        prior: Any = None,
        n_records: int | None = None,
        n_classes: int | None = None,
        classes: ArrayLike | None = None,
        n_values: int | Sequence[int] | None = None,
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
        self.n_classes = n_classes
        self.classes = classes
        self.n_values = n_values
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

    def __sklearn_tags__(self):
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.positive_only = True
        return tags

    @with_callbacks
    @fit_context(prefer_skip_nested_validation=True)
    def fit(self, X: ArrayLike, y: ArrayLike | None = None) -> Self:
        """Draw from the posterior given a release, or privatise records and then do so.

        Parameters
        ----------
        X : array-like of shape (n_statistics,) or (n_releases, n_statistics)
            With ``y=None``: the release, in the order of ``ClassFeatureCounts``; several releases of the same records
            go one per row.  With ``y``: confidential features, integers of shape (n_records, n_features).
        y : array-like of shape (n_records,), optional
            Confidential classes.  Noise is then drawn from the operating system's entropy (by OpenDP with
            ``secure=True``), and inference uses the noisy tables alone.  Under a mechanism, labels are 0, ...,
            n_classes - 1 or ``classes``, whichever of them occur.  Without a mechanism and ``classes``, integers below
            ``n_classes`` are classes 0, ..., n_classes - 1; if there are other labels, there must be ``n_classes`` of
            them.

        Returns
        -------
        self

        Raises
        ------
        ValueError, TypeError
            For a bad parameter, a release of the wrong length, or data that are not such integers.  For confidential
            records the error states their shapes, and nothing that they hold.
        ImportError
            For ``secure=True`` without OpenDP.

        Warns
        -----
        UserWarning
            For ``fit(X, y)`` under a mechanism without ``secure=True``.
        """
        alpha = self._alpha()
        with self._refit() as earlier:
            run = self._fit_known if self.mechanism is None else self._fit_release
            run(X, y, alpha, earlier)
        self._warn_about_chains()
        return self

    def _alpha(self):
        prior = DirichletPrior() if self.prior is None else self.prior
        prior.check()
        if np.ndim(prior.alpha):
            raise ValueError(
                f"prior must have one number alpha for the classes and all features, got prior={prior!r}: use "
                "DirichletPrior(alpha) with a number"
            )
        return float(prior.alpha)

    def _fit_known(self, X, y, alpha, earlier):
        """The records themselves are given: θ given their counts."""
        X, y = validate_data(self, X, y, dtype=np.float64)
        check_shape(self, X, X.shape[1])
        check_classification_targets(y)
        sizes = [int(top) + 1 for top in np.maximum(X.max(axis=0), 0)] if self.n_values is None else self.n_values
        _, sizes = ClassFeatureCounts(2, sizes, X.shape[1])._sizes()
        self.n_values_ = np.array(sizes)
        check_values(X, self.n_values_)
        self.classes_, y = encode_classes(y, self.n_classes, self.classes)
        counts = count_tables(X, y, len(self.classes_), sizes)
        model = NaiveBayes(len(self.classes_), sizes, alpha)
        values = KnownTables()._lower(), model._lower(), KnownTables()._lower()
        advance = partial(advance_tables, values, np.zeros((0, 0)))
        init = partial(start_tables, model, counts)
        checks = partial(restored_tables, model), partial(check_tables, model)
        self._advance_chains(Problem((X, y), init, advance, *checks), methodcaller("_keep"), earlier)

    def _fit_release(self, X, y, alpha, earlier):
        """A release, or records that are privatised first."""
        query = check_curator(self, ClassFeatureCounts)
        n_classes, sizes = query._sizes()
        for name, ours, theirs in (("n_classes", self.n_classes, n_classes), ("n_values", self.n_values, sizes)):
            if ours is not None and not agrees(ours, theirs):
                raise ValueError(f"{name}={ours!r}, but the mechanism's query says {theirs}: leave {name} out")
        self.n_values_, n_records = np.array(sizes), self.n_records
        self.classes_ = public_classes(self.classes, n_classes)
        if y is None:
            S = check_query_release(self, X, query)
            check_count(type(self).__name__, n_records, takes_noisy=False)
            self.n_features_in_ = len(sizes)
        else:
            check_raw(self, query, earlier)
            named, (X, y) = X, check_confidential(self, X, y)
            check_shape(self, X, len(sizes))
            keep_names(self, named, X)
            check_confidential_values(X, self.n_values_)
            y = encode_labels(y, self.classes_)
            S, n_records = privatize_records(self, np.column_stack([X, y])), len(X)
        self.release_, self._n_records_ = S, n_records
        warn_about_release(self.mechanism, query, S, n_records)
        model = NaiveBayes(n_classes, sizes, alpha)
        value, channel = model._lower(), self.mechanism._lower(n_records=len(S), n_features=S.shape[1])
        tail = partial(self.mechanism.tail_probability, scale=self.mechanism.noise_scale_for(S.shape[1]))
        sampler, init = independent_tables(model, channel, S, n_records, tail), partial(start_tables, model, S[0])
        if sampler is None:
            if y is None:
                positive_integer("n_records", n_records)  # each is imputed
            sampler, init = CollapsedGibbs(), partial(start_records, model, value, n_records, S)
        advance = partial(advance_tables, (sampler._lower(), value, channel), S)
        checks = partial(restored_tables, model), partial(check_tables, model)
        self._advance_chains(Problem((S, n_records), init, advance, *checks), methodcaller("_keep"), earlier)

    def _keep(self):
        theta, n_classes, sizes = self._all_draws("theta"), len(self.classes_), self.n_values_
        self.class_prob_draws_, features = theta[..., :n_classes], theta[..., n_classes:]
        shape = (*theta.shape[:2], len(sizes), n_classes, max(sizes))
        if np.all(sizes == max(sizes)):
            self.feature_prob_draws_ = features.reshape(shape)
        else:
            self.feature_prob_draws_ = np.zeros(shape)
            parts = np.split(features, n_classes * np.cumsum(sizes)[:-1], axis=-1)
            for j, (part, size) in enumerate(zip(parts, sizes, strict=True)):
                self.feature_prob_draws_[:, :, j, :, :size] = part.reshape(*theta.shape[:2], n_classes, size)
        self._monitor({"class_prob": self.class_prob_draws_, "information": self._information()})

    def _information(self):
        """Mutual information of the class and each feature under each draw: (n_chains, n_draws, n_features)."""
        of_class = self.class_prob_draws_[..., None]
        parts = []
        for given in np.moveaxis(self.feature_prob_draws_, 2, 0):
            overall = np.sum(of_class * given, axis=-2)
            entropy = -np.sum(xlogy(overall, overall), axis=-1)
            parts.append(entropy + np.sum(of_class * xlogy(given, given), axis=(-2, -1)))
        return np.stack(parts, axis=-1)

    # --- prediction --------------------------------------------------------------------------------------------------

    def predict_log_proba(self, X: ArrayLike) -> Floats:
        """Log posterior predictive probability of each class: p(class, x) averaged over draws, then normalised.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Integers, as in :meth:`fit`.

        Returns
        -------
        log_probabilities : ndarray of shape (n, n_classes)
        """
        check_is_fitted(self)
        X = validate_data(self, new_records(self, X), dtype=np.float64, reset=False)
        check_values(X, self.n_values_)
        X, inverse, _ = distinct_rows(X.astype(np.intp))
        result = np.empty((len(X), self.class_prob_draws_.shape[2]))
        step = max(1, BLOCK // self.class_prob_draws_.size)
        with np.errstate(divide="ignore"):
            log_class = np.log(self.class_prob_draws_)[..., None]
            for first in range(0, len(X), step):
                block = X[first : first + step]
                joint = np.repeat(log_class, len(block), axis=-1)  # (n_chains, n_draws, n_classes, records)
                for j, x in enumerate(block.T):
                    joint += np.log(self.feature_prob_draws_[:, :, j]).take(x, axis=-1)
                result[first : first + step] = logsumexp(joint, axis=(0, 1)).T
        impossible = np.all(result == -np.inf, axis=1)  # no draw has such a record
        result[impossible] = logsumexp(log_class, axis=(0, 1)).T
        return (result - logsumexp(result, axis=1, keepdims=True))[inverse]

    def predict_proba(self, X: ArrayLike) -> Floats:
        """Posterior predictive probability of each class.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Integers, as in :meth:`fit`.

        Returns
        -------
        probabilities : ndarray of shape (n, n_classes)
        """
        return np.exp(self.predict_log_proba(X))

    def predict(self, X: ArrayLike) -> Array:
        """The most probable class.

        Parameters
        ----------
        X : array-like of shape (n, n_features)
            Integers, as in :meth:`fit`.

        Returns
        -------
        classes : ndarray of shape (n,)
        """
        log_probabilities = self.predict_log_proba(X)
        return self.classes_[np.argmax(log_probabilities, axis=1)]
