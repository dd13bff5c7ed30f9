"""A user's simulator, and a release of what it simulates: what simulation-based inference works with."""

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from ..._base.parameters import numbers

MOST_WIDE = 1e15


def read_only(array):
    """A view that a user's method cannot change by mistake."""
    array = array.view()
    array.flags.writeable = False
    return array


class Simulator:
    """The user's model with what its methods return checked, next to the release.

    Parameters
    ----------
    model : object
        It has ``sample_statistic(rng, theta)`` -> (size, n_columns), and ``sample_prior`` and ``log_prior`` if the
        algorithm needs them.
    mechanism : object with ``release_density``, ``log_release_mode`` and ``n_columns``
    S : ndarray of shape (n_releases, n_statistics)
    """

    def __init__(self, model, mechanism, S):
        self.model, self.mechanism, self.S = model, mechanism, S
        self.n_columns = mechanism.n_columns(S.shape[1])

    @cached_property
    def log_release(self):
        """Statistics (size, n_columns) -> log density of the release, (size,)."""
        return self.mechanism.release_density(self.S)

    def log_release_widened(self, factor):
        """The same under noise that many times as wide."""
        return self.mechanism.release_density(self.S, factor)

    @property
    def most_wide(self):
        """Largest factor of the noise's scale that is tried: noise on integers has a largest scale."""
        if not getattr(self.mechanism, "is_discrete", False):
            return MOST_WIDE
        return min(MOST_WIDE, 2.0**44 / float(np.max(self.mechanism.noise_scale_for(self.S.shape[1]))))

    @cached_property
    def log_mode(self):
        """Largest value of :attr:`log_release`, or a bound of it."""
        return self.mechanism.log_release_mode(self.S)

    def _floats(self, call, value):
        """What a method of the model returned, as a float array."""
        array = np.asarray(value)
        if array.dtype in (np.float64, np.bool_):
            return array.astype(np.float64, copy=False)
        found = numbers(array)
        if found is None:
            raise self._wrong(call, "return an array of real numbers", f"{type(value).__name__} of {array.dtype}")
        return found

    def _wrong(self, call, must, got):
        return ValueError(f"{type(self.model).__name__}.{call} must {must}, got {got}")

    def prior(self, rng, size):
        """Draws from the prior, (size, n_params)."""
        call = f"sample_prior(rng, {size})"
        theta = np.array(self._floats(call, self.model.sample_prior(rng, size)))  # a copy: it is ours to change
        if theta.ndim != 2 or len(theta) != size or theta.shape[1] == 0:
            raise self._wrong(call, f"have shape ({size}, n_params)", theta.shape)
        if not np.all(np.isfinite(theta)):
            raise self._wrong(call, "be finite", theta[~np.isfinite(theta).all(axis=1)][0])
        return theta

    def log_prior(self, theta):
        """Log prior density, (size,); -inf outside the support."""
        value = self._floats("log_prior(theta)", self.model.log_prior(read_only(theta)))
        if value.shape != (len(theta),):
            must = f"have shape ({len(theta)},), one number per row of theta"
            raise self._wrong("log_prior(theta)", must, value.shape)
        if np.any(value == np.inf):
            raise self._wrong("log_prior(theta)", "be below infinity", f"inf at {theta[np.argmax(value)].tolist()}")
        return np.where(np.isnan(value), -np.inf, value)

    def statistics(self, rng, theta):
        """A simulated statistic for each row of θ, (size, n_columns)."""
        value = self._floats("sample_statistic(rng, theta)", self.model.sample_statistic(rng, read_only(theta)))
        expected = len(theta), self.n_columns
        if value.shape != expected:
            must = f"have shape {expected}, "
            if self.n_columns > self.S.shape[1]:
                must += "the last column being the smooth sensitivity of the data set"
            else:
                must += "a column for each number of the release (pass several releases as rows)"
            raise self._wrong("sample_statistic(rng, theta)", must, value.shape)
        if not np.all(np.isfinite(value)):
            row = int(np.argmin(np.isfinite(value).all(axis=1)))
            raise self._wrong(
                "sample_statistic(rng, theta)", "be finite", f"{value[row].tolist()} at theta={theta[row].tolist()}"
            )
        return value

    def from_prior(self, rng, size):
        """(parameters from the prior, a statistic of each, the log density of the release given each)."""
        theta = self.prior(rng, size)
        statistics = self.statistics(rng, theta)
        return theta, statistics, self.log_release(statistics)


@dataclass
class WeightedDraws:
    """Draws from a posterior that are not a chain."""

    theta: np.ndarray  # (n, n_params)
    statistics: np.ndarray  # (n, n_columns): simulated statistics that the draws came with
    weights: np.ndarray  # (n,): they sum to 1
    ess: np.ndarray  # (n_params,): effective sample sizes
    log_evidence: float  # log density of the release
    log_evidence_error: float
    acceptance_rate: float  # mean acceptance probability of a simulation; nan if there is none
    n_simulations: int
    complete: bool  # whether there are as many draws as requested, and nothing had to be cut short
    was_interrupted: bool = False  # by Ctrl-C, whatever there was by then
    attributes: dict = field(default_factory=dict)  # further attributes that the estimator shows


def block_generator(root, *key):
    """The generator of one block of simulations: it depends on its place only."""
    seed = np.random.SeedSequence(root.entropy, spawn_key=(*root.spawn_key, *key))
    return np.random.Generator(np.random.PCG64(seed))
