"""Checks of what PrivateExpFamilyGibbs is given: family, prior, mechanism, release, bounds, number of records."""

from numbers import Integral
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ..._base.parameters import check_array, numbers
from ...mechanisms import (
    AdditiveMechanism,
)
from ...models import Family, Multinomial, Prior, resolve_family
from ...models._scaling import Scaling, scaling_of
from ...queries import NoisyCount, SufficientStatistics
from .._chain_estimator import warn_user
from ._curator import IMPOSSIBLE, check_statistic_names, probability_outside, reach

#: Draws of a prior, and records given each draw, with which a prior or a posterior is compared with the bounds.
N_PRIOR, N_RECORDS = 2000, 40
#: A prior is doubted if the bounds hold half of the records with a smaller probability than this.
FAR_PRIOR = 0.01
#: A release that is impossible under its scaling was made with the other if it is at least this likely under that.
ORDINARY = 0.01


class Problem(NamedTuple):
    """All that the posterior depends on, in the units of the data or in those of a scaled release."""

    family: Family
    prior: Prior
    mechanism: Any  # or None
    bounds: tuple[float, float] | None
    outside: str | None  # "clamp", "drop" or None
    n_records: Any  # int or NoisyCount
    S: np.ndarray  # (n_releases, n_statistics)
    scaling: Scaling | None  # of the release

    @property
    def n_known(self):
        """The number of records, 0.0 if it is unknown."""
        return 0.0 if isinstance(self.n_records, NoisyCount) else float(self.n_records)

    @property
    def gains(self):
        """(gain, offset) of a scaled release: a record in units adds gain · t + offset; otherwise None."""
        return None if self.scaling is None else (self.scaling.gain, self.scaling.offset)

    def in_units(self):
        """The same problem with records in the units of a scaled release; so its numbers are of the order of 1."""
        if self.scaling is None:
            return self
        centre, unit = self.scaling.centre, self.scaling.unit
        prior = self.family.prior_in_units(self.prior, centre, unit)
        return self._replace(prior=prior, bounds=self.scaling.bounds(*self.bounds))

    def theta_from_units(self, theta):
        """Parameters (..., n_params) of the data, from those of :meth:`in_units`."""
        if self.scaling is None:
            return theta
        return self.family.theta_from_units(theta, self.scaling.centre, self.scaling.unit)

    @property
    def labels(self):
        """The entries of the statistic."""
        return self.family.labels if self.scaling is None else self.scaling.labels


def read_problem(estimator, S):
    """Return the :class:`Problem` of an estimator and its release, or raise an error that says what is wrong."""
    query = check_mechanism(estimator.mechanism)
    family = check_family(estimator.family, query)
    n_records = check_n_records(estimator.n_records)
    if query is not None:
        check_statistic_names(S, query)
    S = check_release(estimator, S, family)
    if isinstance(family, Multinomial) and family.n_categories is None:
        family = Multinomial(n_categories=S.shape[1])
        family.check()
    bounds, outside = check_bounds(estimator.truncation, family, query)
    wide = may_be_wide(family, bounds, estimator.mechanism, estimator.approximation)
    prior = None if estimator.prior is None else check_prior(estimator.prior, family, wide=wide)
    scaling = None if query is None else query._scaling(family)
    problem = Problem(family, prior, estimator.mechanism, bounds, outside, n_records, S, scaling)
    if estimator.mechanism is None:
        check_exact_statistic(problem)
    else:
        check_noise(problem)
    if prior is None:
        problem = problem._replace(prior=default_prior(problem, wide))
    if estimator.mechanism is not None:
        check_possible(problem)
    if prior is not None and bounds is not None:
        warn_if_prior_is_outside(problem)
    return problem


def check_mechanism(mechanism):
    """Return the mechanism's query, or None."""
    if mechanism is None:
        return None
    example = 'LaplaceMechanism(epsilon=1.0, query=SufficientStatistics("poisson", bounds=(0, 20)))'
    if isinstance(mechanism, type) or not isinstance(mechanism, AdditiveMechanism):
        raise TypeError(f"mechanism must add noise to a statistic, as {example} does, or be None, got {mechanism!r}")
    if not mechanism.is_log_concave:
        raise ValueError(
            f"mechanism must add noise with a log-concave density, such as Laplace or Gaussian, got {mechanism!r}; if "
            "its noise is, give the class an attribute is_log_concave = True"
        )
    query = mechanism.query
    if query is None and mechanism.bounds is not None:
        raise ValueError(
            f"mechanism={mechanism!r} releases records one by one (bounds=), but PrivateExpFamilyGibbs needs a release "
            f"of their statistic: use {example}, or scale= alone"
        )
    if query is not None:
        if not isinstance(query, SufficientStatistics):
            raise ValueError(
                f"PrivateExpFamilyGibbs understands releases of SufficientStatistics only, got query={query!r}: use "
                f"{example}"
            )
        query.check()
    return query


def check_family(family, query):
    """Return the family as an object, which agrees with the query's."""
    if family is None:
        raise ValueError('family must be given, by name ("poisson") or as an object of sklearn_dpmix.models, got None')
    family = resolve_family(family)
    family.check()
    if family.prior_class is None:
        raise ValueError(
            f"family={family!r} has no prior_class, so nothing can be inferred: define what Family requires, or "
            "use one of sklearn_dpmix.models"
        )
    if query is None:
        return family
    other = resolve_family(query.family)
    same = type(other) is type(family)
    if same and isinstance(family, Multinomial):
        if family.n_categories in (None, other.n_categories):
            return other
        same = False
    if not same or other.get_params() != family.get_params():
        raise ValueError(
            f"family={family!r}, but the mechanism released statistics of {other!r} (query={query!r}): give the same "
            "family to both"
        )
    return family


def check_prior(prior, family, wide=False):
    """Return the prior; ``wide`` ones are for noisy sums of records within bounds."""
    classes = [family.prior_class]
    if (wide or not family.needs_conjugate_prior) and family.wide_prior_class is not None:
        classes.append(family.wide_prior_class)
    if not isinstance(prior, tuple(classes)):
        names = " or ".join(one.__name__ for one in classes)
        why = ""
        if family.wide_prior_class is not None and isinstance(prior, family.wide_prior_class):
            also = "approximation='exact'" if isinstance(family, Multinomial) else "records within bounds"
            why = f": this one needs a mechanism and {also}"
        raise ValueError(f"prior of family {type(family).__name__} must be a {names}, got prior={prior!r}{why}")
    prior.check()
    prior.fields(family)
    return prior


def may_be_wide(family, bounds, mechanism, approximation):
    """Whether noise hides a sum of records that are bounded, so that a prior need not be conjugate.

    Under the normal approximation that of categories stays conjugate: a wide one allows for rare categories, for which
    the approximation is wrong.
    """
    is_hidden = mechanism is not None and (bounds is not None or family.is_bounded)
    return is_hidden and not (isinstance(family, Multinomial) and approximation == "normal")


def default_prior(problem, wide):
    """The family's prior in the unit of the public bounds; without noise, in that of the statistic itself."""
    family, bounds = problem.family, problem.bounds
    if wide:
        return check_prior(family.wide_prior(bounds), family, wide=True)
    if bounds is None and problem.mechanism is None:
        n = problem.n_records.likely if isinstance(problem.n_records, NoisyCount) else problem.n_records
        bounds = family.bounds_of(problem.S[0], n)
    prior = family.default_prior(bounds)
    if prior is None:
        raise ValueError(
            f"prior=None for family {type(family).__name__}: the unit of its records is not known, since "
            f"mechanism={problem.mechanism!r} has no bounds; give a mechanism with "
            f"query=SufficientStatistics({family.names[0]!r}, bounds=(lo, hi), scaled=False) if the release was made "
            f"that way, truncation=(lo, hi) if records outside were dropped, or a prior in the records' unit, such as "
            f"{family.prior_class.__name__}(...)"
        )
    return check_prior(prior, family)


def check_n_records(n_records):
    """Return the number of records, an int or a NoisyCount."""
    if isinstance(n_records, NoisyCount):
        n_records.check()
        if not getattr(n_records.mechanism, "is_log_concave", False):
            raise ValueError(f"n_records must have noise with a log-concave density, got n_records={n_records!r}")
        return n_records
    if n_records is None:
        raise ValueError(
            "n_records must say how many records are behind the release, got n_records=None: a positive integer, or "
            "NoisyCount(value, mechanism) where it was itself released with noise"
        )
    if not isinstance(n_records, Integral) or isinstance(n_records, (bool, np.bool_)) or n_records < 1:
        raise ValueError(f"n_records must be a positive integer or a NoisyCount, got n_records={n_records!r}")
    return int(n_records)


def check_release(estimator, S, family):
    """Return the release as (n_releases, n_statistics)."""
    mechanism, k, who = estimator.mechanism, family.n_statistics, type(estimator).__name__
    S = np.reshape(S, 1) if getattr(numbers(S), "ndim", 1) == 0 else S
    array = check_array(S, dtype=np.float64, ensure_2d=False, input_name="the release", estimator=estimator)
    if array.ndim == 1:
        array = array.reshape(1, -1)
    if k is None:
        k = array.shape[1]
        if k < 2:
            raise ValueError(f"{who}: a release of counts must have one number per category, at least 2, got {k}")
    if array.ndim != 2 or array.shape[1] != k:
        names = list(family.labels) or "one count per category"
        raise ValueError(
            f"{who}: a release of family {type(family).__name__} must have {k} number(s), the sums of {names}, got "
            f"shape {np.shape(S)}; pass several releases as rows, (n_releases, {k})"
        )
    if mechanism is not None:
        if mechanism.is_discrete and not family.is_integer:
            raise ValueError(
                f"mechanism={mechanism!r} adds noise to integers, but the statistic of family {type(family).__name__} "
                f"is not an integer: use {mechanism.continuous}"
            )
        mechanism.check_release(array)
    return np.ascontiguousarray(array)


def check_bounds(truncation, family, query):
    """Return (bounds, outside): what happened to records outside the bounds, or (None, None)."""
    of_query = None if query is None or query.bounds is None else query._bounds(family)
    if truncation is None:
        return (None, None) if of_query is None else (of_query, query.outside)
    try:
        dropped = SufficientStatistics(family, bounds=truncation, outside="drop")
        dropped.check()
    except ValueError as error:
        raise ValueError(f"truncation={truncation!r}: {error}") from None
    bounds = dropped._bounds(family)
    if query is None:
        return bounds, "drop"
    if of_query != bounds or query.outside != "drop":
        raise ValueError(
            f"truncation={truncation!r} says that records outside were dropped, but the mechanism's query is "
            f"{query!r}: "
            'leave truncation out, or use a query with these bounds and outside="drop"'
        )
    return bounds, "drop"


def check_noise(problem):
    """Check that the mechanism's noise goes with this many releases and statistics."""
    problem.mechanism.check()
    problem.mechanism._scales(len(problem.S), problem.S.shape[1])


def check_exact_statistic(problem):
    """Without a mechanism the release is the statistic itself: one row, and possible."""
    family, S = problem.family, problem.S
    if np.any(S != S[0]):
        raise ValueError(
            "without a mechanism the release is the statistic itself, so several rows must be equal: give one "
            "row, or the mechanism that made them"
        )
    s, n = S[0], problem.n_known
    low, high = value_range(problem)
    slack = 1e-9 * np.maximum(np.abs(s), 1.0)
    wrong = np.any(s < low - slack) or np.any(s > high + slack)
    if family.is_integer and problem.outside is None:
        wrong = wrong or np.any(s != np.floor(s)) or (isinstance(family, Multinomial) and n and s.sum() != n)
    if not wrong and problem.outside is None and family.names[:1] == ("normal",):
        wrong = s[1] < 0 or (n and s[1] < s[0] ** 2 / n - slack[1])
    if not wrong and problem.outside is None and family.names[:1] == ("beta",) and n:
        wrong = np.exp(s[0] / n) + np.exp(s[1] / n) > 1 + 1e-9
    if not wrong and family.exact_law == "gamma" and problem.outside is None:
        wrong = s[0] <= 0
    if wrong:
        raise ValueError(
            f"no {problem.n_records!r} records of family {type(family).__name__} have the statistic {s.tolist()}: "
            "without a mechanism the release must be exact; give the mechanism that made it"
        )


def value_range(problem):
    """Smallest and largest value of each statistic before noise, (low, high)."""
    family, (lo, hi) = problem.family, problem.bounds or problem.family.support
    x = np.unique([lo, hi, min(max(0.0, lo), hi)])
    with np.errstate(divide="ignore", invalid="ignore"):
        t = family.statistics(x) if problem.scaling is None else np.array([problem.scaling.low, problem.scaling.high])
    if problem.outside == "drop":
        t = np.vstack([t, np.zeros(t.shape[1])])
    low, high = t.min(axis=0), t.max(axis=0)
    if isinstance(family, Multinomial):
        low, high = np.zeros(t.shape[1]), np.ones(t.shape[1])
    n = problem.n_known
    if n:
        return n * low, n * high
    return np.where(low < 0, -np.inf, 0.0), np.where(high > 0, np.inf, 0.0)


def warn_if_prior_is_outside(problem):
    """Warn if hardly any parameters that the prior considers possible put half of the records inside the bounds."""
    lo, hi = problem.bounds
    rng = np.random.default_rng(0)
    theta = problem.prior.draw(rng, N_PRIOR, problem.family)
    inside = share_inside(problem.family, theta, problem.bounds, rng)
    probability = float(np.mean(inside >= 0.5))
    if probability < FAR_PRIOR:
        low, high = np.quantile(problem.family.mean(theta), [0.05, 0.95])
        warn_user(
            f"under prior={problem.prior!r} the mean of a record is between {low:.3g} and {high:.3g} with probability "
            f"0.9, and half of the records or more are inside the bounds from {lo:g} to {hi:g} with probability "
            f"{probability:.2g}: is the prior in the unit of the bounds?  prior=None is",
            UserWarning,
        )


def share_inside(family, theta, bounds, rng):
    """The share of records inside the bounds, for each row of θ, from N_RECORDS draws of each."""
    lo, hi = bounds
    x = np.array([family.draw(rng, theta) for _ in range(N_RECORDS)])
    return np.mean((x >= lo) & (x <= hi), axis=0)


class Outlier(NamedTuple):
    """The number in a release that is furthest outside what the statistic can be."""

    probability: float  # probability that noise takes any of the numbers so far
    row: int
    entry: int
    low: Any  # (n_statistics,)
    high: Any


def furthest(problem):
    """The :class:`Outlier` of a release, or None if the tails of the noise are unknown."""
    S, (low, high) = problem.S, value_range(problem)
    tail = probability_outside(problem.mechanism, S, low, high)
    if tail is None:
        return None
    row, j = np.unravel_index(np.argmin(tail), S.shape)
    return Outlier(min(1.0, 2.0 * float(tail[row, j]) * S.size), row, j, low, high)


def refuse_other_scaling(problem, outlier):
    """Raise if a release that is impossible for its query would be an ordinary one under the query's other scaling."""
    mechanism, family = problem.mechanism, problem.family
    if problem.bounds is None or mechanism.query is None or scaling_of(family, *problem.bounds) is None:
        return
    scaled = not mechanism.query.scaled
    query = clone(mechanism.query).set_params(scaled=scaled)
    other = problem._replace(mechanism=clone(mechanism).set_params(query=query), scaling=query._scaling(family))
    if furthest(other).probability > ORDINARY:
        label, value = problem.labels[outlier.entry], problem.S[outlier.row, outlier.entry]
        raise ValueError(
            f"the release was made with another scaling: sum({label}) = {value:g} is between "
            f"{outlier.low[outlier.entry]:g} and {outlier.high[outlier.entry]:g} before noise, but as "
            f"{query.statistic_names()} release {outlier.row}, {problem.S[outlier.row].tolist()}, is an ordinary one; "
            f"give scaled={scaled} to SufficientStatistics, or correct n_records or the order of the release"
        )


def check_possible(problem):
    """Refuse a release of the other scaling; warn if noise hardly ever goes so far outside the possible values."""
    mechanism, S = problem.mechanism, problem.S
    if problem.n_known == len(S) > 1:
        warn_user(
            f"the release has as many rows, {len(S)}, as there are records, and each row is treated as a release "
            "of the sum over all of them: if these are the records themselves, fit mechanism.privatize(records)",
            UserWarning,
        )
    outlier = furthest(problem)
    if outlier is None:
        return
    probability, row, j, low, high = outlier
    if probability < IMPOSSIBLE:
        refuse_other_scaling(problem, outlier)
        warn_user(
            f"release {row} has sum({problem.labels[j]}) = {S[row, j]:g}, which is between {low[j]:g} and "
            f"{high[j]:g} before noise: among {S.size} number(s) one so far outside has probability {probability:.2g} "
            f"under {mechanism!r}; was it released by another mechanism, or from another number of records than "
            f"{problem.n_records!r}?",
            UserWarning,
        )
    elif isinstance(problem.family, Multinomial) and problem.n_known:
        off = np.abs(S.sum(axis=1) - problem.n_known)  # the noise of K counts: one of them is at least off / K
        size = S.shape[1]
        scale = np.reshape(mechanism.noise_scale_for(size), (-1, 1))
        tails = 2.0 * size * np.ravel(reach(mechanism, off[:, None] / size, scale)) * len(S)
        if tails.min() < IMPOSSIBLE:
            row = int(np.argmin(tails))
            warn_user(
                f"the counts of release {row} add up to {S[row].sum():g}, and to {problem.n_known:g} before noise: so "
                f"far off has a probability of at most {tails[row]:.2g} under {mechanism!r}; is n_records right?",
                UserWarning,
            )
