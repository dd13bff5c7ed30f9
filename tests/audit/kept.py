"""What can be reached of a fit: attributes, pickle, warnings, what it printed, files; or the error that ended it."""

import contextlib
import io
import os
import pathlib
import pickle
import warnings

import numpy as np
from sklearn.base import clone

from sklearn_dpmix.mechanisms import LaplaceMechanism


def contents(value, seen=()):
    """A value as nested tuples that compare by what they hold, private attributes included."""
    if id(value) in seen:
        return ("again", type(value).__name__)
    seen = (*seen, id(value))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return ("array", value.dtype.str, value.shape, value.tobytes())
    if isinstance(value, np.ndarray):
        return ("objects", value.shape, *(contents(one, seen) for one in value.ravel()))
    if isinstance(value, dict):
        return ("dict", *((contents(k, seen), contents(v, seen)) for k, v in value.items()))
    if isinstance(value, (list, tuple)):
        return (type(value).__name__, *(contents(one, seen) for one in value))
    if isinstance(value, (set, frozenset)):
        return ("set", *sorted(map(repr, value)))
    if isinstance(value, float) and value != value:
        return ("nan",)
    if value is None or isinstance(value, (bool, int, float, str, bytes, np.generic, type)) or callable(value):
        return (type(value).__name__, repr(value) if not hasattr(value, "__dict__") else type(value).__qualname__)
    state = getattr(value, "__dict__", None)
    slots = {name: getattr(value, name) for name in getattr(type(value), "__slots__", ()) if hasattr(value, name)}
    return (type(value).__qualname__, contents({**slots, **(state or {})}, seen), "" if state or slots else repr(value))


def outcome(estimator, data, folder, leave_out=()):
    """{what: its contents} of a fit of a copy in an empty folder.

    Parameters
    ----------
    estimator : estimator
    data : tuple
        Arguments of ``fit``.
    folder : pathlib.Path
    leave_out : tuple of str
        Attributes that are the release itself.
    """
    folder.mkdir()
    printed = io.StringIO()
    found = {}
    with (
        contextlib.chdir(folder),
        warnings.catch_warnings(record=True) as caught,
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        warnings.simplefilter("always")
        try:
            fitted = clone(estimator).fit(*data)
        except Exception as error:
            found["error"] = (type(error).__name__, str(error))
        else:
            for name in leave_out:
                delattr(fitted, name)
            found["attributes"] = contents(vars(fitted))
            found["pickle"] = pickle.dumps(fitted)
            found["text"] = repr(fitted)
    found["warnings"] = [(one.category.__name__, str(one.message)) for one in caught]
    found["printed"] = printed.getvalue()
    found["files"] = {str(p.relative_to(folder)): p.read_bytes() for p in sorted(folder.rglob("*")) if p.is_file()}
    return found


def differences(one, other):
    """Which of them differ."""
    return sorted(what for what in {*one, *other} if one.get(what) != other.get(what))


class Fixed(LaplaceMechanism):
    """A mechanism whose noise was such that it released these numbers."""

    release = np.zeros(0)

    def privatize(self, X, *, random_state=None, secure=False):
        return self.release.copy()


def neighbours(rng, n, draw):
    """Records at random, and the same with one of them drawn again."""
    first = np.array([draw(rng) for _ in range(n)])
    second = first.copy()
    second[rng.integers(n)] = draw(rng)
    return first, second


def folders(tmp_path):
    """New folders, one after another; none is made yet."""
    k = 0
    while True:
        yield pathlib.Path(tmp_path) / f"{os.getpid()}_{k}"
        k += 1
