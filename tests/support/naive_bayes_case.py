"""A naive Bayes model's records and release, and fits of it."""

import numpy as np

from sklearn_dpmix import PrivateNaiveBayesDA
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.queries import ClassFeatureCounts


def fit(S, mechanism, n=None, **params):
    params = {"n_chains": 1, "n_warmup": 0, "n_draws": 4000, "random_state": 0, **params}
    return PrivateNaiveBayesDA(mechanism, n_records=n, **params).fit(S)


RNG = np.random.default_rng(9)
RECORDS = np.column_stack([RNG.integers(0, 2, 80), RNG.integers(0, 3, 80), RNG.integers(0, 2, 80)])
QUERY = ClassFeatureCounts(2, [2, 3])
MECHANISM = LaplaceMechanism(epsilon=5.0, query=QUERY)
RELEASE = MECHANISM.privatize(RECORDS, random_state=10)


def fit_records(records, **params):
    params = {"n_chains": 1, "n_warmup": 0, "n_draws": 4000, "random_state": 0, **params}
    return PrivateNaiveBayesDA(**params).fit(records[:, :-1], records[:, -1])
