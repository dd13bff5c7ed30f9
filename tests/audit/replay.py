"""The released path of D fed to a neighbour, and what the two data sets would have released before noise.

On D a source of noise draws from a seed and writes down what it released; on the neighbour it releases the same numbers
again, whatever it is given.  All decisions are then the same, and the values before noise can be compared one by one.
"""

import warnings
from contextlib import contextmanager
from typing import NamedTuple
from unittest.mock import patch

import numpy as np
from sklearn.base import clone

from sklearn_dpmix.estimators.private._dp_mcmc import DPMCMC
from sklearn_dpmix.estimators.private._noise_source import SimulatedNoise
from sklearn_dpmix.samplers.private._barker_acceptance import Barker


class Release(NamedTuple):
    """Values before noise, how far one record can move them (L2), the noise in units of that, and what came out."""

    value: np.ndarray
    sensitivity: float
    multiplier: float
    released: np.ndarray


class Recording(SimulatedNoise):
    """Noise from a seed; what is released is written down, or read from the ``path`` of an earlier source.

    So are the tests of Barker's that drew from it.
    """

    def __init__(self, seed, path=None):
        super().__init__(np.random.default_rng(seed))
        self.path, self.seen, self.tests = path, [], []

    def release(self, values, sensitivity, multiplier):
        noise = super().release(np.zeros(len(values)), sensitivity, multiplier)  # the same numbers are used up
        released = values + noise if self.path is None else self.path.seen[len(self.seen)].released
        self.seen.append(Release(np.array(values), sensitivity, multiplier, released))
        return released


@contextmanager
def recorded(seed, path=None):
    """Every source of DP-MCMC is a recording one; yields the list of them, which may be the ``path`` of another fit."""
    made = []

    def sources(self, n):
        made[:] = [Recording([seed, i], None if path is None else path[i]) for i in range(n)]
        return made

    with patch.object(DPMCMC, "_sources", sources), patch.object(Barker, "test", watched_test):
        yield made


def fit(estimator, data):
    """A fit of a copy, its warnings left aside."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return clone(estimator).fit(*data)


def replay(estimator, first, second, seed=0):
    """Pairs of releases of D and of its neighbour on the path of D, and the two fits.

    Parameters
    ----------
    estimator : DP-MCMC estimator
    first, second : tuples
        Arguments of ``fit``.
    """
    with recorded(seed) as path:
        fitted = fit(estimator, first)
    with recorded(seed, path) as other:
        again = fit(estimator, second)
    return pairs_of(path, other, "seen"), fitted, again


def pairs_of(path, other, what):
    """What two lists of sources wrote down, side by side."""
    sides = ([one for source in sources for one in getattr(source, what)] for sources in (path, other))
    return list(zip(*sides, strict=True))


def shares(pairs):
    """How far values are apart, in units of what is allowed: infinitely where one is NaN or the noise differs."""
    found = []
    for one, other in pairs:
        apart = np.linalg.norm(one.value - other.value)
        if (one.sensitivity, one.multiplier) != (other.sensitivity, other.multiplier) or not np.isfinite(apart):
            found.append(np.inf)
        else:
            found.append(apart / one.sensitivity if one.sensitivity > 0.0 else (0.0 if apart == 0.0 else np.inf))
    return np.array(found)


# --- Barker's test has no value plus noise of one scale: its normal law, given the records, is compared ---------------


class BarkerTest(NamedTuple):
    """Mean and batch variance of a test's normal law, but for what is public, and what was decided."""

    mean: float
    variance: float
    is_accepted: bool


exact_test = Barker.test


def watched_test(self, state, theta, log_public, source):
    """Barker's test, written down; where its source has a path, it is decided as there."""
    latest = []
    ratios = self.target.ratios
    self.target.ratios = lambda *args: latest.append(ratios(*args)) or latest[0]
    try:
        is_accepted, clipped = exact_test(self, state, theta, log_public, source)
    finally:
        del self.target.ratios
    mean = spread = 0.0  # of a proposal that is rejected unseen
    if latest:
        size, n = self.batch_size, self.target.n_records
        factor = n * self.target.temperature / size
        mean = factor * latest[0].total
        spread = factor * factor * (1.0 - size / n) * size / (size - 1.0) * latest[0].square
    if source.path is not None:
        is_accepted = source.path.tests[len(source.tests)].is_accepted
    source.tests.append(BarkerTest(mean, spread, is_accepted))
    return is_accepted, clipped


def replay_barker(estimator, first, second, seed=0):
    """Pairs of tests of D and of its neighbour on the path of D, and the two fits."""
    with recorded(seed) as path:
        fitted = fit(estimator, first)
    with recorded(seed, path) as other:
        again = fit(estimator, second)
    return pairs_of(path, other, "tests"), fitted, again


def renyi(one, other, variance, order):
    """Rényi divergence of two tests' normal laws (Gil, Alajaji & Linder 2013); inf where there is none."""
    v, w = variance - one.variance, variance - other.variance
    mixed = order * w + (1.0 - order) * v
    if mixed <= 0.0:
        return np.inf
    logs = np.log(w / v) + np.log(w / mixed) / (order - 1.0)
    return 0.5 * (order * (one.mean - other.mean) ** 2 / mixed + logs)


def barker_shares(pairs, curve, orders=(1.5, 2.0, 4.0, 8.0)):
    """Largest divergence of each pair, in either direction, in units of what the accountant takes it for."""
    bounds = curve(np.array(orders))
    return np.array([
        max(renyi(a, b, curve.variance, order) / bound
            for order, bound in zip(orders, bounds, strict=True) for a, b in ((one, other), (other, one)))
        for one, other in pairs
    ])  # fmt: skip
