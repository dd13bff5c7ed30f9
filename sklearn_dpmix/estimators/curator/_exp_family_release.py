"""What a noisy sum of statistics can be: a release that is impossible or unlikely, or a prior far from the bounds."""

from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone

from ...models._scaling import scaling_of
from .._chain_estimator import warn_user
from ._curator import IMPOSSIBLE, probability_beyond, probability_outside

#: Draws of a prior, and records given each draw, with which a prior or a posterior is compared with the bounds.
N_PRIOR, N_RECORDS = 2000, 40
#: A prior is doubted if the bounds hold half of the records with a smaller probability than this.
FAR_PRIOR = 0.01
#: A release that is impossible under its scaling was made with the other if it is at least this likely under that.
ORDINARY = 0.01


def check_exact_statistic(problem):
    """Without a mechanism the release is the statistic itself: one row, and possible."""
    family, S = problem.family, problem.S
    if np.any(S != S[0]):
        raise ValueError(
            "without a mechanism the release is the statistic itself, so several rows must be equal: give one "
            "row, or the mechanism that made them"
        )
    s, n = S[0], problem.n_records.known
    low, high = value_range(problem)
    slack = 1e-9 * np.abs(s)
    is_possible = np.all(s >= low - slack) and np.all(s <= high + slack)
    if not is_possible or (problem.outside is None and not family.is_statistic(s, n, slack)):
        raise ValueError(
            f"no {problem.n_records} records of family {type(family).__name__} have the statistic {s.tolist()}: "
            "without a mechanism the release must be exact; give the mechanism that made it"
        )
    if problem.outside is None and family.is_lost_to_rounding(s, n):
        warn_user(
            f"the records behind {s.tolist()} differ so little for their size that rounding hid the differences in the "
            "sums: the posterior of their spread is close to the prior, or wrong.  Subtract a public number near the "
            "records from all of them first",
            UserWarning,
        )


def value_range(problem):
    """Smallest and largest value of each statistic before noise, (low, high)."""
    family, (lo, hi) = problem.family, problem.bounds or problem.family.support
    x = np.unique([lo, hi, min(max(0.0, lo), hi)])
    if problem.scaling is None:
        with np.errstate(divide="ignore", invalid="ignore"):
            low, high = family.statistic_range(x)
    else:
        low, high = np.array(problem.scaling.low), np.array(problem.scaling.high)
    if problem.outside == "drop":
        low, high = np.minimum(low, 0.0), np.maximum(high, 0.0)
    n = problem.n_records.known
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
    if problem.n_records.known == len(S) > 1:
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
            f"release {row} has sum({problem.labels[j]}) = {S[row, j]:g}, although before noise it is between "
            f"{low[j]:g} and {high[j]:g}: any of {S.size} number(s) is so far outside with probability "
            f"{probability:.2g} under {mechanism!r}; was it released by another mechanism, or from another number of "
            f"records than {problem.n_records}?",
            UserWarning,
        )
    elif problem.family.adds_up and (known := problem.n_records.known):
        off = np.abs(S.sum(axis=1) - known)  # the noise of K counts: one of them is at least off / K
        size = S.shape[1]
        scale = np.reshape(mechanism.noise_scale_for(size), (-1, 1))
        tails = 2.0 * size * np.ravel(probability_beyond(mechanism, off[:, None] / size, scale)) * len(S)
        if tails.min() < IMPOSSIBLE:
            row = int(np.argmin(tails))
            warn_user(
                f"the counts of release {row} add up to {S[row].sum():g}, and to {known:g} before noise; so "
                f"large a gap has a probability of at most {tails[row]:.2g} under {mechanism!r}; is n_records right?",
                UserWarning,
            )
