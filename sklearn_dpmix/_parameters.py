"""Checks of mechanisms' parameters, and the calibration that the ones with a sensitivity share."""

from numbers import Integral

import numpy as np

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)


def numbers(value):
    """Return ``value`` as a float array, or None where it is not made of numbers (text and bool are not)."""
    try:
        array = np.asarray(value)
        if array.dtype.kind in "iuf" or (array.dtype == object and not isinstance(value, (str, bool))):
            return array.astype(np.float64)
    except (TypeError, ValueError):
        pass
    return None


def in_unit_interval(name, value, ndim):
    """Return numbers strictly between 0 and 1 as an array of at most ``ndim`` axes."""
    array = numbers(value)
    if array is None or array.ndim > ndim or array.size == 0 or not np.all((array > 0) & (array < 1)):
        what = "a probability between 0 and 1" if ndim == 0 else "probabilities between 0 and 1, one or a list of them"
        raise ValueError(f"{name} must be {what}, both excluded, got {name}={value!r}: pass 0.95 for 95 %")
    return array


def check_level(level):
    """Return the level of an interval as a float."""
    return float(in_unit_interval("level", level, 0))


def tails(level):
    """Probabilities of the ends of a central interval."""
    level = check_level(level)
    return [0.5 - 0.5 * level, 0.5 + 0.5 * level]


def feature_number(feature, names, n_features):
    """Return the number of a feature that is given by number or by name; names of something else are left aside."""
    names = list(names) if len(names) == n_features else []
    if feature in names:
        return names.index(feature)
    if isinstance(feature, Integral) and not isinstance(feature, bool) and 0 <= feature < n_features:
        return int(feature)
    known = f" or one of {[str(name) for name in names]}" if names else ""
    raise ValueError(f"feature must be an integer from 0 to {n_features - 1}{known}, got feature={feature!r}")


def check_bounds(bounds, n_features):
    """Return bounds as an array of shape (n_features, 2), or say what is wrong with them."""
    array = numbers(bounds)
    if array is not None and array.shape == (2,):
        array = np.tile(array, (n_features or 1, 1))
    if array is None or array.ndim != 2 or array.shape[1] != 2 or array.shape[0] == 0:
        raise ValueError(
            f"bounds must be a pair (lo, hi) or one pair a feature (shape (n_features, 2)), got bounds={bounds!r}"
        )
    if n_features is not None and len(array) != n_features:
        raise ValueError(
            f"bounds={bounds!r} has {len(array)} pair(s), but the records have {n_features} feature(s): give one pair "
            "(lo, hi), or one a feature"
        )
    with np.errstate(over="ignore"):
        if not np.all(np.isfinite(array[:, 1] - array[:, 0])) or not np.all(array[:, 0] < array[:, 1]):
            raise ValueError(f"bounds must be finite with lo < hi, got bounds={bounds!r}")
    return array


def positive_array(name, value):
    """Return a positive number, or one a record, as a float or an array of shape (n_records,)."""
    array = numbers(value)
    if array is None or array.ndim > 1 or array.size == 0 or not np.all((array > 0) & np.isfinite(array)):
        raise ValueError(
            f"{name} must be positive and finite, a number or an array of shape (n_records,), got {name}={value!r}"
        )
    return array if array.ndim else float(array)


def positive_number(name, value):
    """Return one positive number as a float."""
    number = positive_array(name, value)
    if np.ndim(number):
        raise ValueError(f"{name} must be one number for the whole release, got {name}={value!r}")
    return number


def refuse_seed(secure, random_state):
    """Raise ValueError for a seed together with ``secure=True``."""
    if secure and random_state is not None:
        raise ValueError(
            f"secure=True draws from the operating system and takes no seed, got random_state={random_state!r}: pass "
            "random_state=None"
        )


def calibrate(mechanism, sensitivity, **rules):
    """Return the noise scale from the one of ``epsilon``, ``rho``, ``scale`` that is given.

    ``rules`` maps a parameter's name to a function of (its value, the sensitivity); ``scale`` is taken as it is.
    """
    who = type(mechanism).__name__
    given = [name for name in ("epsilon", "rho", "scale") if getattr(mechanism, name) is not None]
    if len(given) != 1:
        values = ", ".join(f"{name}={getattr(mechanism, name)!r}" for name in ("epsilon", "rho", "scale"))
        raise ValueError(f"{who} takes exactly one of epsilon, rho and scale, got {values}")
    name = given[0]
    value = positive_array(name, getattr(mechanism, name))
    if name == "scale":
        return value
    if sensitivity is None:
        raise ValueError(
            f"{who} with {name}={value!r} needs bounds=(lo, hi) or query= to know how much noise that is; if you know "
            "the noise itself, pass scale="
        )
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        scale = rules[name](value, sensitivity)
    check_scale(scale, who, name, value, sensitivity)
    return scale if np.ndim(scale) else float(scale)


def check_scale(scale, who, name, value, sensitivity):
    """Raise ValueError for a noise scale that is not a normal double: its rounding would be paid for in privacy."""
    if not np.all((scale >= SMALLEST_NORMAL) & np.isfinite(scale)):
        raise ValueError(
            f"{who} with {name}={value!r} and sensitivity {sensitivity!r} has noise beyond floating point: "
            f"{name} must be nearer 1"
        )
