"""Checks of what PrivateExpFamilyGibbs is given: family, prior, mechanism, release, bounds, number of records."""

from typing import Any, NamedTuple

import numpy as np

from ..._base.parameters import refuse_threshold
from ...mechanisms import AdditiveMechanism
from ...models import Family, Prior, resolve_family
from ...models._scaling import Scaling
from ...queries import SufficientStatistics
from ._count import LARGEST_COUNT, RecordCount, check_count
from ._curator import check_statistic_names, read_release, refuse_noise_on_integers
from ._exp_family_release import check_exact_statistic, check_possible, warn_if_prior_is_outside

COMPILED = "to_theta", "log_prior", "moments"  # of a family whose statistic has no law in closed form


class FamilyProblem(NamedTuple):
    """All that the posterior depends on, in the units of the data or in those of a scaled release."""

    family: Family
    prior: Prior
    mechanism: Any  # or None
    bounds: tuple[float, float] | None
    outside: str | None  # "clamp", "drop" or None
    n_records: RecordCount
    S: np.ndarray  # (n_releases, n_statistics)
    scaling: Scaling | None  # of the release

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
    """Return the :class:`FamilyProblem` of an estimator and its release, or raise an error that says what is wrong."""
    query = check_mechanism(estimator.mechanism)
    family = check_family(estimator.family, query)
    count = check_n_records(estimator)
    if query is not None:
        check_statistic_names(S, query)
    S = check_release(estimator, S, family)
    family = family.with_statistics(S.shape[1])
    family.check()
    bounds, outside = check_bounds(estimator.truncation, family, query)
    wide = may_be_wide(family, bounds, estimator.mechanism, estimator.approximation)
    prior = None if estimator.prior is None else check_prior(estimator.prior, family, wide=wide)
    scaling = None if query is None else query._scaling(family)
    problem = FamilyProblem(family, prior, estimator.mechanism, bounds, outside, count, S, scaling)
    if estimator.mechanism is None:
        check_exact_statistic(problem)
    else:
        estimator.mechanism.check()
        estimator.mechanism.scales(*S.shape)
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
    refuse_threshold(mechanism, "PrivateExpFamilyGibbs")
    if not mechanism.is_log_concave:
        raise ValueError(
            f"mechanism must add noise with a log-concave density, such as Laplace or Gaussian, got {mechanism!r}; if "
            "the density of its noise is log-concave, set is_log_concave = True on the class"
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
    required = COMPILED if family.exact_law is None else ()
    missing = [name for name in ("prior_class", *required) if getattr(family, name, None) is None]
    if missing:
        raise ValueError(
            f"family={family!r} has no {', '.join(missing)}, so nothing can be inferred: define what Family requires, "
            "or use one of sklearn_dpmix.models"
        )
    if query is None:
        return family
    other = resolve_family(query.family)
    if not family.agrees(other):
        raise ValueError(
            f"family={family!r}, but the mechanism released statistics of {other!r} (query={query!r}): give the same "
            "family to both"
        )
    return other


def check_prior(prior, family, wide=False):
    """Return the prior; ``wide`` ones are for noisy sums of records within bounds."""
    classes = [family.prior_class]
    if (wide or not family.needs_conjugate_prior) and family.wide_prior_class is not None:
        classes.append(family.wide_prior_class)
    if not isinstance(prior, tuple(classes)):
        names = " or ".join(one.__name__ for one in classes)
        why = ""
        if family.wide_prior_class is not None and isinstance(prior, family.wide_prior_class):
            also = "approximation='exact'" if family.adds_up else "records within bounds"
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
    return is_hidden and not (family.adds_up and approximation == "normal")


def default_prior(problem, wide):
    """The family's prior in the unit of the public bounds; without noise, in that of the statistic itself."""
    family, bounds = problem.family, problem.bounds
    if wide:
        return check_prior(family.wide_prior(bounds), family, wide=True)
    if bounds is None and problem.mechanism is None:
        bounds = family.bounds_of(problem.S[0], problem.n_records.likely)
    prior = family.default_prior(bounds)
    if prior is None:
        raise ValueError(
            f"prior=None for family {type(family).__name__}: the unit of its records is not known, since "
            f"mechanism={problem.mechanism!r} has no bounds; give a mechanism with "
            f"query=SufficientStatistics({family.name or family!r}, bounds=(lo, hi), scaled=False) if the release was "
            f"made that way, truncation=(lo, hi) if records outside were dropped, or a prior in the records' unit, "
            f"such as {family.prior_class.__name__}(...)"
        )
    return check_prior(prior, family)


def check_n_records(estimator):
    """Return the :class:`RecordCount`; raise if no sampler here takes it."""
    count = check_count(type(estimator).__name__, estimator.n_records)
    if count.noisy is not None and not getattr(count.noisy.mechanism, "is_log_concave", False):
        raise ValueError(f"n_records must have noise with a log-concave density, got n_records={count}")
    return count


def check_release(estimator, S, family):
    """Return the release as (n_releases, n_statistics)."""
    mechanism, k, who = estimator.mechanism, family.n_statistics, type(estimator).__name__
    array = read_release(estimator, S)
    shape = array.shape
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
            f"shape {shape}; pass several releases as rows, (n_releases, {k})"
        )
    if mechanism is not None:
        if not family.is_integer:
            refuse_noise_on_integers(mechanism, f"the statistic of family {type(family).__name__}")
        mechanism.check_release(array)
    if family.is_integer and np.any(np.abs(array) > LARGEST_COUNT):
        raise ValueError(
            f"{who}: a release of family {type(family).__name__} must be within ±2**53, beyond which floating point "
            f"leaves integers out, got {np.abs(array).max():g}"
        )
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
