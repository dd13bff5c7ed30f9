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

from sklearn_dpmix._noise_source import SimulatedNoise
from sklearn_dpmix.estimators._dp_mcmc import DPMCMC
from sklearn_dpmix.samplers._dp_barker import Barker
from sklearn_dpmix.samplers._dp_target import Target


class Release(NamedTuple):
    """Values before noise, how far one record can move them (L2), the noise in units of that, and what came out."""

    value: np.ndarray
    sensitivity: float
    multiplier: float
    released: np.ndarray


class Recording(SimulatedNoise):
    """Noise from a seed; what is released is written down, or read from a ``path`` that was."""

    def __init__(self, seed, path=None):
        super().__init__(np.random.default_rng(seed))
        self.path, self.seen = path, []

    def release(self, values, sensitivity, multiplier):
        noise = super().release(np.zeros(len(values)), sensitivity, multiplier)  # the same numbers are used up
        released = values + noise if self.path is None else self.path[len(self.seen)].released
        self.seen.append(Release(np.array(values), sensitivity, multiplier, released))
        return released


@contextmanager
def recorded(seed, paths=None):
    """Every source of DP-MCMC is a recording one; yields the list of them."""
    made = []

    def sources(self, n):
        made[:] = [Recording([seed, i], None if paths is None else paths[i]) for i in range(n)]
        return made

    with patch.object(DPMCMC, "_sources", sources):
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
    with recorded(seed) as made:
        fitted = fit(estimator, first)
        paths = [source.seen for source in made]
    with recorded(seed, paths) as made:
        again = fit(estimator, second)
        others = [source.seen for source in made]
    pairs = []
    for path, other in zip(paths, others, strict=True):
        pairs += zip(path, other, strict=True)
    return pairs, fitted, again


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


class Test(NamedTuple):
    """Mean and batch variance of a test's normal law, but for what is public, and what was decided."""

    mean: float
    variance: float
    decision: tuple


@contextmanager
def tests_recorded(path=None):
    """Every Barker test is written down; with a ``path``, it is decided as there.  Yields the list."""
    seen, ratios, test = [], Target.ratios, Barker.test
    latest = {}

    def watched(self, *args):
        latest["ratios"] = ratios(self, *args)
        return latest["ratios"]

    def decided(self, state, theta, log_public, source):
        latest.pop("ratios", None)
        decision = test(self, state, theta, log_public, source)
        size, n = self.batch_size, self.target.n_records
        factor, found = n * self.target.temperature / size, latest.get("ratios")
        if found is None:  # rejected unseen
            one = Test(0.0, 0.0, decision)
        else:
            spread = factor * factor * (1.0 - size / n) * size / (size - 1.0) * found.square
            one = Test(factor * found.total, spread, decision)
        seen.append(one)
        return decision if path is None else (path[len(seen) - 1].decision[0], decision[1])

    with patch.object(Target, "ratios", watched), patch.object(Barker, "test", decided):
        yield seen


def replay_barker(estimator, first, second, seed=0):
    """Pairs of tests of D and of its neighbour on the path of D, and the two fits."""
    with recorded(seed) as made, tests_recorded() as path:
        fitted = fit(estimator, first)
        paths = [source.seen for source in made]
    with recorded(seed, paths), tests_recorded(path) as other:
        again = fit(estimator, second)
    return list(zip(path, other, strict=True)), fitted, again


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
