"""What a fitted estimator holds."""

import pickle

import numpy as np

from sklearn_dpmix.estimators.private._noise_source import SystemNoise


def holds(value, seen):
    """Objects that a value refers to, itself included, wherever they are."""
    if id(value) in seen:
        return
    seen[id(value)] = value
    if isinstance(value, dict):
        parts = [*value.keys(), *value.values()]
    elif isinstance(value, (list, tuple, set, frozenset)):
        parts = list(value)
    elif isinstance(value, np.ndarray):
        parts = [value.base] if value.base is not None else []
    else:
        parts = list(getattr(value, "__dict__", {}).values())
    for part in parts:
        holds(part, seen)


def leaks(estimator, data):
    """What of a fitted estimator should not be there: records of the data, generators."""
    found, objects = [], {}
    holds(estimator, objects)
    forbidden = (np.random.Generator, np.random.BitGenerator, np.random.RandomState, np.random.SeedSequence)
    found += [type(one).__name__ for one in objects.values() if isinstance(one, (*forbidden, SystemNoise))]
    stored = pickle.dumps(estimator)
    found += [f"record value {value}" for value in np.unique(data) if np.float64(value).tobytes() in stored]
    return found
