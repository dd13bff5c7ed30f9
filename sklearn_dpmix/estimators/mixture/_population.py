"""What draws of a mixture say about confidential records: densities, probabilities, moments, new records."""

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import _get_feature_names, check_is_fitted

from ..._base.generators import as_generator
from ..._base.parameters import check_array, check_flag, feature_number, in_unit_interval, positive_integer, tails
from ..._base.typing import Array, Floats, Seed
from ._mixture_problem import lowered_kernel

MOST_INTEGERS = 1000  # between bounds, whose probabilities are added up; with more, rounding hardly matters


class Moments(NamedTuple):
    """Draws of the population's mean and variance, each (n_chains, n_draws, n_features)."""

    mean: np.ndarray
    variance: np.ndarray


class PopulationMixin:
    """Methods on the population, for an estimator with draws (``_draws_``), a kernel and a number of features.

    Under integer noise a record is a real number that was rounded, halves up.  Densities and moments are of that
    number; probabilities, quantiles, samples and clamped moments of the integer.
    """

    _draws_: Any
    _n_features_: int
    kernel_: Any
    mechanism_: Any
    n_jobs: int | None

    def _kernel(self):
        return self._lowered(self.kernel_, self._n_features_)

    def _lowered(self, kernel, n_features):
        return lowered_kernel(kernel, self.mechanism_, n_features, self._n_features_)

    def _points(self, X):
        check_is_fitted(self)
        if self._n_features_ == self.n_features_in_ and (self.mechanism_ is None or self.mechanism_.is_local):
            return self._check_input(X, "X")
        X = check_array(X, dtype=np.float64, order="C", input_name="X", estimator=self)
        if X.shape[1] != self._n_features_:
            raise ValueError(f"X has {X.shape[1]} features, but confidential records have {self._n_features_}")
        return X

    def _density_of(self, X, feature):
        """(draws, compiled kernel, points) for the density of whole records, or of one of their features."""
        if feature is None:
            X = self._points(X)
            return self._draws_, self._kernel(), X
        check_is_fitted(self)
        names, named = getattr(self, "feature_names_in_", ()), _get_feature_names(X)
        j = feature_number(feature, names, self._n_features_)
        X = check_array(X, dtype=np.float64, order="C", input_name="X", estimator=self)
        if X.shape[1] != 1:
            raise ValueError(f"X must have one column with feature={feature!r}, got shape {X.shape}")
        if named is not None and len(names) == self._n_features_ and named[0] != names[j]:
            raise ValueError(f"X has the column {named[0]!r}, but feature={feature!r} is {names[j]!r}")
        kernel, columns = self.kernel_.margin(j, self._n_features_)
        return self._draws_.with_columns(columns), self._lowered(kernel, 1), X

    def density_draws(self, X: ArrayLike, *, feature: int | str | None = None) -> Floats:
        """Draws of the density of confidential records.

        Each draw is a random density, including the unseen part of the mixture (once its remaining mass is below 0.001,
        the remainder has the base measure's density).  Far from all records, most of a draw's density is that of this
        remainder.  ``MixingMeasure`` makes it smaller than the other samplers do, so log densities differ there.

        Parameters
        ----------
        X : array-like of shape (n_points, n_features)
            With ``feature`` of shape (n_points, 1).
        feature : int or str, optional
            One feature, by its number or its name at ``fit``: the density of that feature alone.

        Returns
        -------
        densities : ndarray of shape (n_chains, n_draws, n_points)
        """
        draws, kernel, X = self._density_of(X, feature)
        return draws.density(kernel, X, self.n_jobs)

    def density_interval(
        self, X: ArrayLike, level: float = 0.95, *, feature: int | str | None = None
    ) -> tuple[Floats, Floats]:
        """Pointwise posterior interval of the density at X, in little memory.

        Parameters
        ----------
        X : array-like of shape (n_points, n_features)
        level : float in (0, 1), default=0.95
        feature : as in :meth:`density_draws`

        Returns
        -------
        lower, upper : ndarrays of shape (n_points,)
        """
        draws, kernel, X = self._density_of(X, feature)
        lower, upper = draws.density_quantiles(kernel, X, tails(level), self.n_jobs)
        return lower, upper

    def score_samples(self, X: ArrayLike, *, feature: int | str | None = None) -> Floats:
        """Log posterior predictive density of confidential records: the log of the mean density draw.

        At more than 5000 different numbers it is interpolated, by polynomials on cells that are halved until the error
        is near 1e-7.

        Parameters
        ----------
        X : array-like of shape (n_points, n_features)
        feature : as in :meth:`density_draws`

        Returns
        -------
        log_density : ndarray of shape (n_points,)
        """
        draws, kernel, X = self._density_of(X, feature)
        return draws.log_predictive(kernel, X, self.n_jobs)

    def score(self, X: ArrayLike, y: ArrayLike | None = None) -> float:
        """Mean of :meth:`score_samples`: X are confidential records, as far as scikit-learn's scorers know.

        For releases, as in cross-validation, there is ``score_release``.
        """
        return float(np.mean(self.score_samples(X)))

    def _integers(self):
        """Bounds of confidential integers, (n_features, 2), infinite if there are none; None if records are others."""
        mechanism, n = self.mechanism_, self._n_features_
        if mechanism is None or mechanism.n_answers is not None or not mechanism.of_integers:
            return None
        bounds = mechanism.bounds_for(n) if mechanism.clamp else None
        return np.tile([-np.inf, np.inf], (n, 1)) if bounds is None else bounds

    def _rounded(self, records):
        """What the mechanism takes records for: integers within its bounds, if it adds noise to these."""
        integers = self._integers()
        return records if integers is None else np.clip(np.floor(records + 0.5), *integers.T)

    def cdf_draws(self, X: ArrayLike) -> Floats:
        """Draws of P(every feature of a confidential record is at most X): (n_chains, n_draws, n_points).

        Under integer noise records are integers, so the probability changes only at integers.

        Raises ValueError for features that go together within a cluster (``kernel="multivariate_normal"``).
        """
        X = self._points(X)
        if self._n_features_ > 1 and not self.kernel_.is_product:
            raise ValueError(
                f"cdf_draws needs features that are independent within a cluster, which those of {self.kernel_!r} are "
                "not: count how many of sample(n) are at most X"
            )
        if (integers := self._integers()) is not None:
            low, high = integers.T
            X = np.where(X < low, -np.inf, np.where(X >= high, np.inf, np.floor(X) + 0.5))
        return self._draws_.cdf(self._kernel(), X, self.n_jobs)

    def quantile_draws(self, q: ArrayLike) -> Floats:
        """Draws of the quantiles of confidential records; under integer noise these are integers.

        Parameters
        ----------
        q : float or array-like of shape (n_q,), in (0, 1)

        Returns
        -------
        quantiles : ndarray of shape (n_chains, n_draws, n_q); with several features (n_chains, n_draws, n_q,
        n_features)
        """
        quantiles = self._rounded(self._quantiles(q))
        found = self.kernel_.nearest(quantiles.reshape(-1, self._n_features_)).reshape(quantiles.shape)
        return found[..., 0] if self._n_features_ == 1 else found

    def _density_quantiles(self, q):
        """As :meth:`quantile_draws`, of what densities are of."""
        return self.quantile_draws(q) if self._integers() is None else self._quantiles(q)

    def _quantiles(self, q):
        """Quantiles of real numbers, before rounding under integer noise, with an axis of features."""
        check_is_fitted(self)
        probabilities = np.atleast_1d(in_unit_interval("q", q, 1))
        quantile = partial(self._draws_.quantile, self._kernel(), q=probabilities, n_jobs=self.n_jobs)
        parts = [quantile(j=j) for j in range(self._n_features_)]
        return np.stack(parts, axis=-1)

    def moment_draws(self, *, clamped: bool = False) -> Moments:
        """Draws of the population's ``(mean, variance)``, each (n_chains, n_draws, n_features).

        Parameters
        ----------
        clamped : bool, default=False
            Return the moments of records as the mechanism clamps them to its bounds, not of the records themselves.  A
            release does not say how far beyond the bounds records are: there a draw continues as normal clusters do,
            and this affects its moments.  If all records are known to lie within the bounds, the clamped moments are
            the right ones, and often much less uncertain.  Only for normal kernels; the records of other kernels have
            bounds.  Between bounds of up to 1000 integers, under integer noise, they are the moments of integers.

        Raises
        ------
        ValueError
            If ``clamped`` is neither True nor False; or if it is True and the mechanism does not clamp, or the kernel
            is not normal.

        Examples
        --------
        Waiting times cannot be negative, but clusters of noisy ones can:

        >>> import numpy as np
        >>> from sklearn_dpmix import PrivateDPMixture
        >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
        >>> X = np.random.default_rng(0).exponential(12.0, size=(500, 1))
        >>> mechanism = LaplaceMechanism(epsilon=2.0, bounds=(0, 100))
        >>> model = PrivateDPMixture(mechanism, random_state=0).fit(mechanism.privatize(X, random_state=1))
        >>> bool(model.moment_draws().mean.mean() < model.moment_draws(clamped=True).mean.mean())
        True
        """
        check_is_fitted(self)
        if not check_flag("clamped", clamped):
            return Moments(*self._draws_.moments(self._kernel(), self._n_features_))
        parts = [self._clamped_moments(*margin) for margin in self._clamped_margins()]
        return Moments(*(np.stack(part, axis=-1) for part in zip(*parts, strict=True)))

    def _clamped_moments(self, kernel, columns, bounds):
        """Mean and variance of a feature within bounds: (n_chains, n_draws) each."""
        draws, kernel, (low, high) = self._draws_.with_columns(columns), self._lowered(kernel, 1), bounds
        if self._integers() is None or high - low > MOST_INTEGERS:
            return draws.clamped_moments(kernel, low, high)
        steps = np.arange(high - low + 1.0)
        below = draws.cdf(kernel, low + 0.5 + steps[:-1, None], self.n_jobs)
        shares = np.maximum(np.diff(below, axis=-1, prepend=0.0, append=1.0), 0.0)
        mean = shares @ steps
        return low + mean, np.sum(shares * (steps - mean[..., None]) ** 2, axis=-1)

    def _clamped_margins(self):
        """(Kernel, columns of its parameters, bounds) of each feature."""
        mechanism, n = self.mechanism_, self._n_features_
        bounds = None if mechanism is None else mechanism.bounds_for(n)
        if bounds is None or not mechanism.clamp:
            raise ValueError(
                f"moment_draws(clamped=True) needs a mechanism that clamps records to its bounds, got {mechanism!r}: "
                "use clamped=False"
            )
        margins = [self.kernel_.margin(j, n) for j in range(n)]
        if not all(kernel.noised_as == "normal" for kernel, _ in margins):
            raise ValueError(
                f"moment_draws(clamped=True) needs a normal kernel, got {self.kernel_!r}: use clamped=False"
            )
        return [(*margin, limits) for margin, limits in zip(margins, bounds, strict=True)]

    def sample(self, n_samples: int = 1, random_state: Seed = None) -> Array:
        """Records from the posterior predictive: synthetic confidential records; under integer noise, integers.

        Parameters
        ----------
        n_samples : int, default=1
        random_state : int, Generator, RandomState or None

        Returns
        -------
        X : ndarray of shape (n_samples, n_features)
        """
        check_is_fitted(self)
        n_samples = positive_integer("n_samples", n_samples, most=2**53)
        rng = as_generator(random_state)
        return self._rounded(self._draws_.sample(self._kernel(), rng, n_samples, self._n_features_))

    def informativeness(self, n_samples: int = 20_000, random_state: Seed = None) -> float:
        """Hellinger distance between the posterior's and the prior's mean density: is this release informative?

        Near 0, the release has said next to nothing, and the posterior is almost the prior.  The paper recommends this
        check (§4.1, Figure 1).  Under an empirical-Bayes kernel the "prior" has already seen the release, so pass a
        kernel with numbers.

        Parameters
        ----------
        n_samples : int, default=20000
            Number of posterior records in the Monte Carlo estimate; its square has a standard error of at most
            n_samples^-1/2.
        random_state : int, Generator, RandomState or None

        Returns
        -------
        distance : float in [0, 1]
            NaN if it is not known: posterior records of a beta kernel with small shapes may round to an end of its
            interval, where the densities are 0 or infinite.
        """
        check_is_fitted(self)
        n_samples = positive_integer("n_samples", n_samples, 2, 2**53)
        rng = as_generator(random_state)
        return self._draws_.distance_from_prior(self._kernel(), rng, n_samples, self._n_features_)
