"""Checks of parameters: numbers, arrays, counts, objects; and the calibration by a sensitivity."""

from functools import partial
from numbers import Real
from typing import Any, TypeGuard

import numpy as np
from sklearn.utils import validation

#: Features, classes, categories: more are a slip, and arrays of so many would not fit.
MOST = 10_000_000
MOST_SHOWN = 20  # numbers of an array in an error: of more only the first that is wrong

SMALLEST_NORMAL = float(np.finfo(np.float64).tiny)

#: How types of dates and of spans of time, and of text, are called by NumPy, pandas, Arrow and Polars
TIMES = ("date", "time", "duration", "period")
TEXT = ("<u", "str", "large_string")
ADVICE = " For supervised learning, you might want to consider"  # where scikit-learn begins to name estimators


def numbers(value):
    """Return ``value`` as a float array, or None where it is not made of numbers (text, bool and a masked entry)."""
    if has_masked(value):
        return None
    try:
        array = np.asarray(value)
        if array.dtype.kind in "iuf" or (array.dtype == object and all(isinstance(one, Real) for one in array.flat)):
            return array.astype(np.float64)
    except (TypeError, ValueError, OverflowError):  # ragged; not a number; an integer beyond floating point
        pass
    return None


def as_floats(name, values, more=""):
    """Return an array of floats; raise ValueError, which may say ``more``, where ``values`` are not numbers."""
    try:
        if has_masked(values) or np.asarray(values).dtype.kind in "cmMSU":  # which NumPy would make into floats
            raise TypeError
        return np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ValueError(f"{name} must be an array of numbers{more}, got {values!r}") from None


def refuse_class(name, value):
    """Raise TypeError if a parameter that must be an object is a class."""
    if isinstance(value, type):
        raise TypeError(f"{name} must be an object, got the class {value.__name__}: pass {name}={value.__name__}(...)")


def check_responses(estimator, y, n):
    """Return responses as floats, one per row of X."""
    y = check_array(y, dtype=np.float64, ensure_2d=False, input_name="y", estimator=estimator)
    if y.shape != (n,):
        raise ValueError(f"y must have shape ({n},), one response per row of X, got {y.shape}")
    return y


def has_masked(value):
    """Whether a value is a masked array that hides an entry."""
    return isinstance(value, np.ma.MaskedArray) and bool(np.ma.is_masked(value))


def check_array(X, **options):
    """scikit-learn's check; an integer beyond floating point, a masked entry and a date are a ValueError, too."""
    return _within_floats(validation.check_array, X, **options)


def check_table(estimator, X, name="X", *, reset=False, **options):
    """Return a table as floats; with ``reset`` the estimator learns its width and names, else they must be the same."""
    array = check_array(X, dtype=np.float64, input_name=name, estimator=estimator, **options)
    validation.validate_data(estimator, X, reset=reset, skip_check_array=True)
    return array


def check_X_y(X, y, **options):
    """As :func:`check_array`."""
    return _within_floats(validation.check_X_y, X, y, **options)


def validate_data(estimator, *arrays, **options):
    """As :func:`check_array`."""
    return _within_floats(partial(validation.validate_data, estimator), *arrays, **options)


class HoldsText(ValueError):
    """Text where numbers should be."""


def _within_floats(check, *arrays, **options):
    name = options.get("input_name") or "X"
    for array, its_name in zip(arrays, (name, "y"), strict=False):
        if has_masked(array):
            raise ValueError(f"{its_name} has masked entries, whose mask would be lost: pass rows without them")
        if callable(getattr(array, "collect", None)) and not hasattr(array, "__array__"):
            raise ValueError(f"{its_name} is a {type(array).__name__}, not its rows: pass {its_name}.collect()")
        times = [one for one in _types_of(array) if one.lower().startswith(TIMES)]
        if times and (its_name == name or options.get("y_numeric")):
            raise ValueError(
                f"{its_name} has a column of type {times[0]}, whose unit would be lost: pass numbers, such as days "
                "since a date"
            )
    try:
        checked = check(*arrays, **options)
        if not options.get("y_numeric"):
            return checked
        # scikit-learn looks for missing values in y before it converts objects and text
        return checked[0], validation.check_array(checked[1], dtype=np.float64, ensure_2d=False, input_name="y")
    except OverflowError:
        raise ValueError(f"{name} contains an integer that is too large for floating point") from None
    except TypeError as error:
        for one, its_name in zip(arrays, (name, "y"), strict=False):
            if what := _no_number_in(one):
                raise TypeError(f"{its_name} holds {what}: pass real numbers ({error})") from None
        raise
    except ValueError as error:
        if str(error).startswith("could not convert string"):
            tables = [(its_name, one) for one, its_name in zip(arrays, (name, "y"), strict=False) if _has_text(one)]
            its_name, table = (tables or [(name, None)])[0]
            raise HoldsText(
                f"{its_name} holds text{_where_text(table)}: pass numbers, such as those of scikit-learn's "
                "OrdinalEncoder"
            ) from None
        if str(error).startswith("setting an array element with a sequence"):
            raise ValueError(f"{name} holds lists, or rows of different lengths: pass a table of numbers") from None
        if str(error).startswith("Complex data not supported"):  # and all of them, which may be confidential
            its_name = name if np.iscomplexobj(arrays[0]) else "y"
            raise ValueError(f"Complex data not supported: {its_name} must hold real numbers") from None
        if ADVICE in str(error):  # to use another estimator
            raise ValueError(str(error).partition(ADVICE)[0]) from None
        what, _, values = str(error).partition("array=")  # the values may be confidential
        if not values or "\nReshape" not in values:
            raise
        advice = values[values.rindex("\nReshape") :]
        raise ValueError(f"{what.strip()} {name} has shape {np.shape(arrays[0])}.{advice}") from None


def _has_text(array):
    return any(one.lower().startswith(TEXT) for one in _types_of(array))


def _no_number_in(array):
    """What an array of objects holds that is no real number, as words; empty if it holds none."""
    try:
        np.asarray(array, dtype=np.float64)
    except TypeError as error:
        what = str(error).partition("real number, not ")[2].strip("'")
        return "missing values" if what == "NAType" else what
    except (ValueError, OverflowError):
        pass
    return ""


def _where_text(table):
    """Which column of a frame has text that is no number."""
    for name in getattr(table, "columns", ()):
        if isinstance(name, str):
            try:
                np.asarray(table[name], dtype=np.float64)
            except (TypeError, ValueError):
                return f" in column {name!r}"
    return ""


def _types_of(array):
    """Names of the types of a table's columns, and of what is in them where they hold Python objects."""
    if isinstance(array, (list, tuple)):
        try:
            array = np.asarray(array)
        except (TypeError, ValueError, OverflowError):  # no table
            return []
    if hasattr(array, "columns") and hasattr(array, "dtypes"):
        types = array.dtypes
    else:
        types = getattr(getattr(array, "schema", None), "types", [getattr(array, "dtype", "")])
    names = [str(one) for one in types]
    if "object" in names:
        names += sorted({type(one).__name__ for one in np.asarray(array, dtype=object).flat})
    return names


def is_integer(value):
    """Whether a value is an integer; True is none, nor is a span of time, though NumPy has it so."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, (bool, np.bool_, np.timedelta64))


def is_real(value: Any) -> TypeGuard[float]:
    """Whether a value is one number, an integer or a float."""
    return isinstance(value, (float, np.floating)) or is_integer(value)


def positive_integer(name, value, least=1, most=MOST):
    """Return an integer parameter from ``least`` to ``most``; ``name`` may go on with whose it is."""
    given = f"{name.partition(' ')[0]}={value!r}"
    if not is_integer(value) or value < least:
        raise ValueError(f"{name} must be an integer, {least} or more, got {given}")
    if value > most:
        raise ValueError(f"{name} must be at most {most}, got {given}: beyond that, numbers or arrays are too large")
    return int(value)


def check_flag(name, value):
    """Return True or False, or say that a parameter is neither."""
    if not isinstance(value, (bool, np.bool_, int)) or value not in (0, 1):
        raise ValueError(f"{name} must be True or False, got {name}={value!r}")
    return bool(value)


def check_query(query, who, *methods):
    """Raise TypeError unless ``query`` is an object, and not a class, that has these methods."""
    missing = [name for name in methods if not callable(getattr(query, name, None))]
    if missing or isinstance(query, type):
        raise TypeError(
            f"{who} needs a query with {' and '.join(methods)}, an object of sklearn_dpmix.queries, got query={query!r}"
        )


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
    if is_integer(feature) and 0 <= feature < n_features:
        return int(feature)
    known = f" or one of {[str(name) for name in names]}" if names else ""
    raise ValueError(f"feature must be an integer from 0 to {n_features - 1}{known}, got feature={feature!r}")


def check_bounds(bounds, n_features):
    """Return bounds as an array of shape (n_features, 2), or say what is wrong with them."""
    array = numbers(bounds)
    if n_features is not None:
        positive_integer("n_features", n_features)
    if array is not None and array.shape == (2,):
        array = np.tile(array, (n_features or 1, 1))
    if array is None or array.ndim != 2 or array.shape[1] != 2 or array.shape[0] == 0:
        raise ValueError(
            f"bounds must be a pair (lo, hi) or one pair per feature (shape (n_features, 2)), got bounds={bounds!r}"
        )
    if n_features is not None and len(array) != n_features:
        raise ValueError(
            f"bounds={bounds!r} has {len(array)} pair(s), but the records have {n_features} feature(s): give one "
            "pair (lo, hi), or one per feature"
        )
    if not np.all(np.isfinite(array)) or not np.all(array[:, 0] < array[:, 1]):
        raise ValueError(f"bounds must be finite with lo < hi, got bounds={bounds!r}")
    with np.errstate(over="ignore"):
        if not np.all(np.isfinite(array[:, 1] - array[:, 0])):
            raise ValueError(f"bounds must be finite with a finite hi - lo, got bounds={bounds!r}")
    return array


def positive_array(name, value):
    """Return a positive number, or one per record, as a float or an array of shape (n_records,)."""
    array = numbers(value)
    is_right = (array > 0) & np.isfinite(array) if array is not None and array.size else np.zeros(1, np.bool_)
    if is_right.ndim > 1 or not np.all(is_right):
        found = f"{name}={value!r}"
        if is_right.ndim == 1 and len(is_right) > MOST_SHOWN:
            k = int(np.argmin(is_right))
            found = f"{name}[{k}]={array[k]:g}"
        raise ValueError(f"{name} must be positive and finite, a number or an array of shape (n_records,), got {found}")
    return array if array.ndim else float(array)


def noise_parameter(name, value):
    """As :func:`positive_array`; an array of one number is that number, for all records."""
    array = positive_array(name, value)
    return float(np.ravel(array)[0]) if np.size(array) == 1 else array


def refuse_threshold(mechanism, who):
    """Raise ValueError where only releases above a threshold appear, which the model does not know of."""
    if getattr(mechanism, "released_above", None) is not None:
        raise ValueError(
            f"{who} takes releases of all records, got released_above={mechanism.released_above!r}: use "
            "PrivateDPMixture, which infers who was left out"
        )


def refuse_noncompliance(mechanism, who):
    """Raise ValueError where some people may not follow the design, which the model does not know of."""
    if getattr(mechanism, "noncompliance", None) is not None:
        raise ValueError(
            f"{who} takes answers of people who all follow the design, got noncompliance={mechanism.noncompliance!r}: "
            "use PrivateDPMixture, which infers how many do, or leave noncompliance out"
        )


def check_one_each(Z, X):
    """Raise ValueError unless there is a release for each record."""
    if Z.shape != X.shape:
        raise ValueError(f"Z has shape {Z.shape}, but X has {X.shape}: give one release per record")


def positive_number(name, value):
    """Return one positive number as a float."""
    number = numbers(value)
    if number is not None and number.ndim:
        raise ValueError(f"{name} must be one number, not an array, got {name}={value!r}")
    if number is None or not 0.0 < number < np.inf:
        raise ValueError(f"{name} must be positive and finite, got {name}={value!r}")
    return float(number)


def refuse_seed(secure, random_state):
    """Raise ValueError for a seed together with ``secure=True``, and for a ``secure`` that is no flag."""
    if check_flag("secure", secure) and random_state is not None:
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
    value = noise_parameter(name, getattr(mechanism, name))
    if name == "scale":
        return value
    if sensitivity is None:
        raise ValueError(
            f"{who} with {name}={value!r} needs bounds=(lo, hi) or query= to know how much noise that is; if you know "
            "the noise itself, pass scale="
        )
    with np.errstate(over="ignore", under="ignore", divide="ignore"):
        scale = rules[name](value, sensitivity)
    return finite_scale(mechanism, name, scale)


def finite_scale(mechanism, name, scale):
    """Return a noise scale that the parameter ``name`` led to, or say that it left floating point.

    It must be a normal double: the rounding of a smaller one would be paid for in privacy.
    """
    if not np.all((scale >= SMALLEST_NORMAL) & np.isfinite(scale)):
        raise ValueError(
            f"{type(mechanism).__name__} with {name}={getattr(mechanism, name)!r} needs noise that floating point "
            f"cannot hold: choose {name} closer to 1"
        )
    return scale if np.ndim(scale) else float(scale)
