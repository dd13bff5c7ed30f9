"""Fits of curators' statistics: 10,000 draws of one chain, all that a fit does besides included."""

import time
import warnings

import numpy as np

from sklearn_dpmix import PrivateExpFamilyGibbs, PrivateNaiveBayesDA
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.queries import ClassFeatureCounts, SufficientStatistics

N_DRAWS = 10_000
CHAIN = {"n_chains": 1, "n_warmup": 0, "n_draws": N_DRAWS, "random_state": 0}


def seconds(model, S):
    """Least processor time of three fits, after one that compiles."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        model.fit(S)
        best = np.inf
        for _ in range(3):
            started = time.thread_time()
            model.fit(S)
            best = min(best, time.thread_time() - started)
    return best


def naive_bayes():
    """Seconds at the setting of Ju et al., §4.1: n = 100, five classes, five features of three values, ε = 10."""
    rng = np.random.default_rng(0)
    classes, features = rng.integers(0, 5, 100), rng.integers(0, 3, (100, 5))
    mechanism = LaplaceMechanism(epsilon=10.0, query=ClassFeatureCounts(5, 3, 5))
    S = mechanism.privatize(np.column_stack([features, classes]), random_state=1)
    model = PrivateNaiveBayesDA(mechanism, n_records=100, n_classes=5, n_values=[3] * 5, **CHAIN)
    return seconds(model, S)


def families():
    """Rows (family, approximation, seconds at n = 100, at n = 1,000,000)."""
    rng, rows = np.random.default_rng(0), []
    for family, bounds, approximation, value in (
        ("binomial", None, "exact", 0.3),
        ("multinomial", None, "exact", np.array([0.2, 0.3, 0.5])),
        ("poisson", (0, 20), "normal", 3.0),
        ("exponential", (0, 10), "normal", 2.0),
        ("normal", (-5, 5), "normal", np.array([0.5, 1.0])),
    ):
        found = []
        for n in (100, 1_000_000):
            mechanism = LaplaceMechanism(scale=20.0)
            if bounds is not None:
                mechanism = LaplaceMechanism(scale=20.0, query=SufficientStatistics(family, bounds, scaled=False))
            S = n * np.atleast_1d(value) + 20.0 * rng.laplace(size=np.size(value))
            model = PrivateExpFamilyGibbs(
                mechanism, family=family, n_records=n, approximation=approximation, **CHAIN | {"n_warmup": 500}
            )
            found.append(seconds(model, S))
        rows.append((family, approximation, *found))
    return rows
