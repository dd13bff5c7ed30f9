"""What a private linear regression runs: one class for each kind of knowledge about the predictors.

Each has ``posed``, the problem as chains know it, and ``keep(fit)``, which sets its own attributes and returns those
that are monitored.  All run in coordinates in which the bounds are [-1, 1], so that units do not matter.  The first
numbers of their θ are the intercept, the slopes and σ in these coordinates.
"""

from functools import partial

import numpy as np
from scipy.special import ndtr

from ..._base.restore import require, require_whole
from ..._chains.problem import Problem
from ...models._regression_model import ClampedRegression
from ...models._regression_moments import MomentRegression
from ...models._regression_prior import centre_and_half
from ...samplers._driver import advance_sampler, most_times
from ...samplers._parameter_draws import ThetaDraws
from ...samplers.augmentation import _regression_paths as paths
from ...samplers.augmentation._augmented_state import (
    MOVES_ACCEPTED,
    MOVES_PROPOSED,
    restored_augmentation,
    start_augmentation,
)
from ...samplers.augmentation._regression_count import NoisyRegressionNumber
from ...samplers.augmentation._regression_given_design import MomentsSampler, restored_moments
from ...samplers.augmentation._regression_known import KnownState, advance_known, start_known
from ...samplers.augmentation._regression_records import RegressionAugmentation
from ...samplers.augmentation._regression_shapes import ShapeAugmentation
from ...samplers.augmentation._regression_start import start_moments
from ...samplers.augmentation._sweeps import advance_augmentation
from .._chain_estimator import warn_user
from ._count import known_count, variance_of
from ._curator import warn_if_unlikely

#: Records that a sweep visits for paths that are mostly rejected, and for proposals of other shapes of the predictors.
WALK_RECORDS, TRY_RECORDS = 12_000, 900_000
#: Residuals of known records, in half-widths, are taken to be at least this: a line through all records has no σ.
ROUNDING = 1e-12
#: What is worth a warning: a share of responses beyond their bounds; less, where that moves the line's level or σ by so
#: many posterior standard deviations; and the probability that counts as sure.
CUT, MOVED, SURE = 0.05, 0.5, 0.95
#: Places that stand for a uniform distribution with standard deviation 1, and their weights (Gauss-Legendre).
PLACES, WEIGHTS = np.sqrt(1.8) * np.array([[-1.0], [0.0], [1.0]]), np.array([5.0, 8.0, 5.0]) / 18.0
#: The prior's standard deviation of y, in widths of its bounds, that is worth a warning.
NARROW, WIDE = 0.01, 1e4


class KnownRecords:
    """The records themselves are given; the bounds of a column are its mean plus or minus two standard deviations."""

    def __init__(self, prior, X, y):
        records = np.ascontiguousarray(np.column_stack([X, y]))  # the same sums for any order in memory
        centre, half = records.mean(axis=0), 2.0 * records.std(axis=0)
        flat = ~(half > 1e-12 * np.abs(centre))
        half[flat] = np.where(centre == 0.0, 1.0, np.abs(centre))[flat]
        self.bounds = np.column_stack([centre - half, centre + half])
        self.count, self.prior = known_count(len(X)), prior.scaled(self.bounds)
        scaled = (records - centre) / half
        design = np.column_stack([np.ones(len(X)), scaled[:, :-1]])
        fit = np.linalg.lstsq(design, scaled[:, -1])[0]
        residual = max(float(np.sum((scaled[:, -1] - design @ fit) ** 2)), len(X) * ROUNDING**2)
        model = MomentRegression(self.prior, len(X), len(X))
        advance = partial(advance_known, model._lower(), design.T @ design, fit, residual, len(X))
        check = partial(check_draws, X.shape[1], None, None)
        self.posed = Problem((X, y), partial(start_known, model), advance, KnownState.restored, check)

    def keep(self, fit):
        return {}

    def warn_of_misfit(self, fit):
        """There is no release that could contradict the model."""


class GivenDesign:
    """No model of the predictors: moments of normal errors given the design."""

    @staticmethod
    def check_number(n_features, most):
        """Raise if there are too few records, of which there are at most ``most``."""
        if most < n_features + 2:
            raise ValueError(
                f"n_records must be at least n_features + 2 = {n_features + 2}, so that residuals say something "
                f"about sigma, got {most}; x_model=GaussianPredictors() works with fewer records"
            )

    def __init__(self, fit, S, count):
        query, mechanism = fit.mechanism.query, fit.mechanism
        self.count, self.bounds = count, query._bounds()
        self.prior = fit._prior().scaled(self.bounds)
        model = MomentRegression(self.prior, count.known, count.most)
        channel = mechanism._lower(n_records=len(S), n_features=S.shape[1])
        variance = variance_of(mechanism)
        sampler = MomentsSampler(np.sqrt(variance), fit.n_warmup)
        values = sampler._lower(), model._lower(), channel, count.lowered_channel(channel)
        init = partial(start_moments, model, S, count.likely, variance, count.variance)
        advance = partial(advance_sampler, values, S, count.releases(), len(self.prior.mean) + 1)
        squares = query.value_range(1)[0] == 0.0
        check = partial(check_draws, query.n_features, squares, count.known or None)
        self.posed = Problem((S, str(count)), init, advance, partial(restored_moments, values[1]), check, most_times())

    def keep(self, fit):
        p, floats = fit.n_features_in_, fit._state_floats()
        n_paths = sum(chain.state.ints[paths.PROPOSED] for chain in fit._run_.chains)
        fit.acceptance_rate_ = float(floats[:, paths.ACCEPTED].sum() / n_paths)
        fit.statistic_draws_, n = fit._all_draws("statistic"), fit._all_draws("n_records")[..., None]
        means, products = np.split(fit.statistic_draws_[..., p + 2 :] / n, [p], axis=-1)
        centre, half = centre_and_half(self.bounds[:-1])
        fit.x_mean_draws_ = centre + half * means
        rows, columns = np.triu_indices(p)
        covariance = np.empty((*means.shape, p))
        covariance[..., rows, columns] = covariance[..., columns, rows] = products
        covariance -= means[..., :, None] * means[..., None, :]
        fit.x_covariance_draws_ = covariance * np.outer(half, half)
        return {}

    def warn_of_misfit(self, fit):
        """Warn if the release contradicts the model, or the bounds cut off responses."""
        hint = "and whether y is a line in x plus normal errors that its bounds do not cut off"
        warn_if_unlikely(fit, fit.statistic_draws_, fit.mechanism.query.statistic_names(), hint)
        self.warn_if_cut_off(fit)

    def warn_if_cut_off(self, fit):
        """Warn if clamped responses, about which this model knows nothing, are surely many, or move the posterior.

        For each draw it uses three values of the line, as if it were spread evenly over the records, within what the
        bounds of the predictors allow.  If noise hides nearly everything, lines are those of the prior, most of which
        leave the bounds.  Such draws carry no information, since no clamped responses have their sum of squares, so
        they are left out.
        """
        size = fit.coef_draws_[..., 0].size
        some = slice(None, None, max(1, size // 1000))
        coef, mean = (getattr(fit, f"{name}_draws_").reshape(size, -1)[some] for name in ("coef", "x_mean"))
        intercept, sigma = fit.intercept_draws_.ravel()[some], fit.sigma_draws_.ravel()[some]
        covariance = fit.x_covariance_draws_.reshape(size, coef.shape[1], -1)[some]
        spread = np.sqrt(np.maximum(np.einsum("ij,ijk,ik->i", coef, covariance, coef), 0.0))
        ends = self.bounds[:-1, 0] * coef, self.bounds[:-1, 1] * coef
        level = intercept + np.sum(coef * mean, axis=1)
        lowest, highest = (intercept + end(*ends).sum(axis=1) for end in (np.minimum, np.maximum))
        line = np.clip(level + PLACES * spread, lowest, highest)
        lo, hi = self.bounds[-1]
        beyond, moved, lost = np.tensordot(WEIGHTS, clamped((line - lo) / sigma) + clamped((hi - line) / sigma), (0, 1))
        moves = (sigma * moved > MOVED * level.std()) | (0.5 * sigma * lost > MOVED * sigma.std())
        is_possible = fit.statistic_draws_[..., coef.shape[1] + 1] <= fit._all_draws("n_records")
        if np.mean(((beyond > CUT) | moves) & is_possible.ravel()[some]) > SURE:
            warn_user(
                f"about {100.0 * np.mean(beyond):.2g}% of the responses seem to be beyond y_bounds from {lo:g} to "
                f"{hi:g}, where they were clamped, but the model assumes responses that were not: slopes are then too "
                "flat, and sigma too small, by more than the posterior allows for; release with wider y_bounds, or "
                "pass x_model=HistogramPredictors() or GaussianPredictors(), which model clamping",
                UserWarning,
            )


def clamped(z):
    """How a standard normal variable changes where it is moved to z if it is larger, (3, z.shape).

    The probability that it is larger, the mean distance by which it is moved, and what its mean square loses.
    """
    beyond, density = ndtr(-z), np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
    return np.array([beyond, density - z * beyond, z * density + (1.0 - z**2) * beyond])


def interweaving_sampler(law, p, n_records, sd, n_warmup):
    """Return the sampler with all its moves, for p predictors with this distribution."""
    n_walks = min(max(WALK_RECORDS // max(n_records, 1), 2), 20)
    if law.has_shape:
        n_tries = min(max(TRY_RECORDS // max(n_records, 1), 20), 600)
        return ShapeAugmentation(sd, n_warmup, n_walks, n_tries=max(n_tries // p, 1))
    return RegressionAugmentation(sd, n_warmup, n_walks)


class ImputedRecords:
    """A model of the predictors, and clamped records: the confidential records are imputed."""

    @staticmethod
    def check_number(n_features, most):
        """Any number will do."""

    def __init__(self, fit, S, count):
        query, channel = fit.mechanism.query, fit.mechanism._lower(n_records=len(S), n_features=S.shape[1])
        self.count, self.bounds = count, query._bounds()
        self.prior, self.interweave = fit._prior().scaled(self.bounds), fit.interweave
        start = count.likely
        unit = np.tile([-1.0, 1.0], (len(self.bounds), 1))
        self.model = ClampedRegression(unit, self.prior, fit.x_model.scaled(self.bounds))
        sd, sampler = np.sqrt(variance_of(fit.mechanism)), RegressionAugmentation()
        if fit.interweave:
            sampler = interweaving_sampler(self.model.x, query.n_features, start, sd, fit.n_warmup)
        values = sampler._lower(), self.model._lower(), channel, count.counting(NoisyRegressionNumber)._lower()
        init = partial(start_augmentation, self.model, values[1], start, count.most, S, moments_of(S, start))
        advance = partial(advance_augmentation, values, S, count.value)
        squares = query.value_range(1)[0] == 0.0
        check = partial(check_draws, query.n_features, squares, count.known or None, law=self.model.x)
        most = most_times(start) if fit.interweave else 1
        self.posed = Problem((S, str(count)), init, advance, partial(self._restored, values[1]), check, most)

    def _restored(self, model, state, fresh, n_sweeps):
        state = restored_augmentation(model, state, fresh, n_sweeps)
        theta = ThetaDraws(np.stack([state.theta, state.reference]))
        check_draws(len(self.bounds) - 1, None, None, theta, law=self.model.x)
        return state

    def keep(self, fit):
        fit._set_acceptance()
        if self.interweave:
            floats = fit._state_floats().sum(axis=0)
            fit.move_acceptance_rate_ = float(floats[MOVES_ACCEPTED] / floats[MOVES_PROPOSED])
        law, theta = self.model.x, fit._all_draws("theta")[..., fit.n_features_in_ + 2 :]
        draws = law.draws(theta, self.bounds[:-1])
        for name, values in draws.items():
            setattr(fit, f"{name}_draws_", values)
        return {name: draws[name] for name in law.monitored}

    def warn_of_misfit(self, fit):
        """Warn if the release contradicts the model."""
        hint = "what x_model says about the predictors, and whether y is a line in x plus normal errors"
        warn_if_unlikely(fit, fit._all_draws("statistic"), fit.mechanism.query.statistic_names(), hint)


def check_draws(p, squares, known, draws, law=None):
    """Raise ValueError if draws of a checkpoint are impossible; ``known`` records, or None."""
    require(draws.theta[:, p + 1] > 0, "theta", "has standard deviations that are not positive")
    if law is not None:
        law.check(draws.theta[:, p + 2 :])
    if hasattr(draws, "n_records"):
        require_whole(known, n_records=draws.n_records)
        require(draws.statistic[:, squares] >= 0, "statistic", "has sums of squares that are negative")


def unscale(theta, bounds):
    """(intercept, slopes, σ) on the original scale, from those in coordinates where the bounds are [-1, 1]."""
    d = len(bounds)
    centre, half = centre_and_half(bounds)
    slopes = theta[..., 1:d] * (half[-1] / half[:-1])
    intercept = centre[-1] + half[-1] * theta[..., 0] - slopes @ centre[:-1]
    return intercept, slopes, half[-1] * theta[..., d]


def moments_of(S, n_records):
    """Means of the products of (1, x, y), from the mean of the releases: (p + 2, p + 2)."""
    mean = S.mean(axis=0) / n_records
    p = round((np.sqrt(9.0 + 8.0 * len(mean)) - 5.0) / 2.0)  # (p + 1)(p + 4)/2 numbers
    moments = np.zeros((p + 2, p + 2))
    moments[0, 0] = 1.0
    moments[0, p + 1], moments[1 : p + 1, p + 1], moments[p + 1, p + 1] = mean[0], mean[1 : p + 1], mean[p + 1]
    moments[0, 1 : p + 1] = mean[p + 2 : 2 * p + 2]
    rows, columns = np.triu_indices(p)
    moments[1 + rows, 1 + columns] = mean[2 * p + 2 :]
    return np.triu(moments) + np.triu(moments, 1).T


def warn_about_prior(prior, bounds):
    """Warn if the prior is far from the bounds, judged by the prior's standard deviation of the line within them."""
    p = len(bounds) - 1
    covariance = prior.covariance
    corners = np.sqrt(covariance[0, 0] + np.trace(covariance[1:, 1:]) / 3.0)  # x uniform within the bounds
    spread, width = 0.5 * corners, np.diff(bounds[-1])[0]
    if NARROW <= spread <= WIDE:
        return
    warn_user(
        f"under the prior y has standard deviation {spread * width:.3g} over predictors within their bounds, which is "
        f"{spread:.3g} times the width {width:.3g} of its own bounds: check coef_scale of RegressionPrior and the "
        f"{p + 1} bounds; coef_scale=None uses the bounds as units",
        UserWarning,
    )
