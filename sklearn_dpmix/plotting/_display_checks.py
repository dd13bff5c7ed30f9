"""Checks of the inputs of displays; each message names the parameter, what it was, and what to do."""

from collections.abc import Mapping

import numpy as np
from sklearn.utils.validation import check_is_fitted

from .._base.parameters import numbers


def vector(name, values, size=None, what="one number per point", allow_nan=False):
    """Return numbers of shape (n,) or (n, 1) as floats of shape (n,), ``size`` of them if that is known."""
    array = numbers(values)
    if array is not None and array.ndim == 2 and array.shape[1] == 1:
        array = array[:, 0]
    if array is None or array.ndim != 1 or len(array) == 0 or (size is not None and len(array) != size):
        shape = "(n,)" if size is None else f"({size},)"
        got = repr(values) if array is None else f"shape {array.shape}"
        raise ValueError(f"{name} must be numbers of shape {shape}, {what}, got {got}")
    if not allow_nan and not np.all(np.isfinite(array)):
        raise ValueError(f"{name} must be finite, got {array[~np.isfinite(array)][0]}: leave such values out")
    return array


def interval(name, ends, size):
    """Return a pair (lower, upper) of arrays as floats; NaN says that there is none."""
    if isinstance(ends, (str, Mapping)) or not hasattr(ends, "__len__") or len(ends) != 2:
        raise ValueError(f"{name} must be a pair (lower, upper) of arrays of shape ({size},), got {ends!r}")
    lower, upper = (vector(f"{name}[{i}]", end, size, allow_nan=True) for i, end in enumerate(ends))
    if np.any(lower > upper):
        i = int(np.argmax(lower > upper))
        raise ValueError(f"{name} must be (lower, upper), got {lower[i]:g} above {upper[i]:g}: swap them")
    return lower, upper


def check_estimator(estimator, caller, *needed, instead=""):
    """Raise unless ``estimator`` is a fitted object that has what is needed.

    Methods are checked first, since fitting would not add them; attributes that end in "_" come with a fit.
    """
    if isinstance(estimator, type) or not hasattr(estimator, "fit"):
        raise TypeError(
            f"{caller} needs a fitted estimator, got estimator={estimator!r}: pass the object that was fitted"
        )
    methods = [name for name in needed if not name.endswith("_")]
    _check_has(estimator, caller, methods, instead)
    check_is_fitted(estimator)
    _check_has(estimator, caller, [name for name in needed if name.endswith("_")], instead)


def _check_has(estimator, caller, names, instead):
    missing = [name for name in names if not hasattr(estimator, name)]
    if missing:
        raise TypeError(
            f"{caller} needs an estimator with {' and '.join(missing)}, which {type(estimator).__name__} does not "
            f"have with these parameters{instead and ': '}{instead}"
        )


def names_of_features(given, estimator, n_features):
    """Return names of n_features features: those given, those the estimator was fitted with, or x0, x1, ..."""
    names = given
    if names is None:
        names = getattr(estimator, "feature_names_in_", None)
        if names is None or len(names) != n_features:  # a release has its own names
            names = [f"x{j}" for j in range(n_features)]
    names = [names] if isinstance(names, str) else list(names)
    if len(names) != n_features:
        raise ValueError(f"feature_names must hold {n_features} names, one per feature, got {given!r}")
    return [str(name) for name in names]
