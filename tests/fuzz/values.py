"""Bad values: what users pass by mistake, and what no user would."""

import datetime
import decimal
import fractions
import warnings

import numpy as np
import scipy.sparse

#: Numbers at the edges of what floats and integers hold.
NUMBERS = {
    "nan": float("nan"), "inf": float("inf"), "-inf": -float("inf"), "-1": -1, "0": 0, "-0.0": -0.0, "0.5": 0.5, "1": 1,
    "1.5": 1.5, "2": 2, "7": 7, "1e308": 1e308, "-1e308": -1e308, "1e-308": 1e-308, "5e-324": 5e-324, "1e-17": 1e-17,
    "1e17": 1e17, "2**31": 2**31, "2**63": 2**63, "-2**63": -(2**63), "2**64": 2**64, "10**400": 10**400,
    "True": True, "False": False, "float32": np.float32(0.5), "int8": np.int8(-3), "uint64": np.uint64(2**63),
    "float16": np.float16(2.0), "longdouble": np.longdouble(0.5), "bool_": np.bool_(True), "0-d": np.array(0.5),
    "Decimal": decimal.Decimal("0.5"), "Fraction": fractions.Fraction(1, 2), "complex": 0.5 + 1j,
}  # fmt: skip


class FloatChild(float):
    """A float by inheritance."""


class ArrayChild(np.ndarray):
    """An array by inheritance."""


def nested():
    """A list that holds itself."""
    one = []
    one.append(one)
    return one


#: What is no number: made afresh, since some are used up.
OTHERS = {
    "None": lambda: None,
    "empty text": lambda: "",
    "text": lambda: "x",
    "number as text": lambda: "1.0",
    "name": lambda: "normal",
    "auto": lambda: "auto",
    "long text": lambda: "a" * 5000,
    "NUL": lambda: "a\0b",
    "bytes": lambda: b"1.0",
    "object": object,
    "class": lambda: int,
    "function": lambda: len,
    "generator": lambda: (i for i in range(3)),
    "iterator": lambda: iter([0.1, 0.9]),
    "set": lambda: {0.5, 1.5},
    "dict": lambda: {"a": 1},
    "range": lambda: range(3),
    "slice": lambda: slice(2),
    "ellipsis": lambda: ...,
    "NotImplemented": lambda: NotImplemented,
    "date": lambda: datetime.date(2020, 1, 1),
    "datetime64": lambda: np.datetime64("2020-01-01"),
    "timedelta64": lambda: np.timedelta64(3, "D"),
    "float child": lambda: FloatChild(0.5),
    "[]": list,
    "()": tuple,
    "[[]]": lambda: [[]],
    "[None]": lambda: [None],
    "[1]": lambda: [1],
    "pair": lambda: (0.25, 0.75),
    "pair turned": lambda: (1, 0),
    "equal pair": lambda: (1, 1),
    "infinite pair": lambda: (0, float("inf")),
    "wide pair": lambda: (-1e308, 1e308),
    "narrow pair": lambda: (0, 5e-324),
    "NaN pair": lambda: (float("nan"), 1),
    "text pair": lambda: ("0", "1"),
    "ragged": lambda: [[1, 2], [3]],
    "in itself": nested,
    "array of 0": lambda: np.zeros(0),
    "array of (0, 1)": lambda: np.zeros((0, 1)),
    "array of (3, 0)": lambda: np.zeros((3, 0)),
    "array of (2, 2, 2)": lambda: np.zeros((2, 2, 2)),
    "array of (12,)": lambda: np.linspace(0.1, 0.9, 12),
    "array of NaN": lambda: np.full((12, 1), np.nan),
    "array of infinity": lambda: np.full((12, 1), np.inf),
    "array of 1e308": lambda: np.full((12, 1), 1e308),
    "array of 1e-308": lambda: np.full((12, 1), 1e-308),
    "array of -1": lambda: np.full((12, 1), -1.0),
    "array of zeros": lambda: np.zeros((12, 1)),
    "array of integers": lambda: np.arange(12).reshape(-1, 1),
    "array of 2**63": lambda: np.full((12, 1), 2**63, dtype=np.uint64),
    "array of objects": lambda: np.array([object()] * 12).reshape(-1, 1),
    "array of text": lambda: np.array([["a"]] * 12),
    "array of bytes": lambda: np.array([[b"1"]] * 12),
    "array of complex": lambda: np.full((12, 1), 1j),
    "array of bool": lambda: np.ones((12, 1), dtype=bool),
    "array of dates": lambda: np.full((12, 1), np.datetime64("2020-01-01")),
    "record array": lambda: np.zeros(12, dtype=[("a", float), ("b", int)]),
    "masked array": lambda: np.ma.masked_array(np.linspace(0.1, 0.9, 12).reshape(-1, 1), [[True]] + [[False]] * 11),
    "matrix": lambda: np.linspace(0.1, 0.9, 12).reshape(-1, 1).view(np.matrix),
    "array child": lambda: np.linspace(0.1, 0.9, 12).reshape(-1, 1).view(ArrayChild),
    "sparse": lambda: scipy.sparse.csr_array(np.linspace(0.0, 0.9, 12).reshape(-1, 1)),
    "memoryview": lambda: memoryview(np.linspace(0.1, 0.9, 12)),
    "huge and thin": lambda: np.broadcast_to(0.5, (10**6, 1)),
}  # fmt: skip


def frames():
    """Data frames, where the libraries are there."""
    found = {}
    for library in ("pandas", "polars"):
        try:
            module = __import__(library)
        except ImportError:
            continue
        found[f"{library} frame"] = lambda module=module: module.DataFrame({"a": np.linspace(0.1, 0.9, 12)})
        found[f"{library} frame with gaps"] = lambda module=module: module.DataFrame({"a": [0.5, None, 0.25]})
        found[f"{library} text"] = lambda module=module: module.DataFrame({"a": ["0", "x"], "b": [1, 2]})
        found[f"{library} series"] = lambda module=module: module.Series([0.1, 0.9])
    return found


OTHERS |= frames()


def spoil_entry(good, rng):
    """An array with one entry that is wrong."""
    array = np.array(good, dtype=float)
    wrong = rng.choice([np.nan, np.inf, -np.inf, 1e308, -1e308, -1.0, 0.5, 5e-324])
    array.flat[rng.integers(array.size)] = wrong
    return f"one entry {wrong}", array


def none_entry(good, rng):
    array = np.array(good, dtype=object)
    array.flat[rng.integers(array.size)] = rng.choice([None, "x", b"1", 1j])
    return "one entry no number", array


#: What is made of good numbers.
RESHAPES = {
    "negated": np.negative, "times 1e308": lambda a: a * 1e308, "times 1e-308": lambda a: a * 1e-308,
    "times 1e-300": lambda a: a * 1e-300, "plus 1e16": lambda a: a + 1e16, "transposed": np.transpose, "flat": np.ravel,
    "twice": lambda a: np.concatenate([np.atleast_1d(a)] * 2), "two columns": lambda a: np.stack([a, a], axis=-1),
    "in a list": lambda a: [a], "as lists": np.ndarray.tolist, "without the last": lambda a: np.atleast_1d(a)[:-1],
    "only the first": lambda a: np.atleast_1d(a)[:1], "turned": lambda a: np.atleast_1d(a)[::-1],
    "float16": lambda a: a.astype(np.float16), "float32": lambda a: a.astype(np.float32),
    "int8": lambda a: a.astype(np.int8), "objects": lambda a: a.astype(object), "text": lambda a: a.astype(str),
    "complex": lambda a: a + 0j, "other byte order": lambda a: a.astype(">f8"), "longdouble": lambda a: a.astype("g"),
    "masked": np.ma.masked_array, "sparse": lambda a: scipy.sparse.coo_array(np.atleast_2d(a)),
    "Fortran": np.asfortranarray, "constant": lambda a: np.full_like(a, a.flat[0]),
}  # fmt: skip


def is_numeric(good):
    try:
        array = np.asarray(good)
    except Exception:
        return False
    return array.dtype.kind in "biuf" and array.size > 0


def largest(value):
    """The largest absolute number in a value, 0 where there is none."""
    if isinstance(value, (str, bytes)):
        return 0
    try:
        with warnings.catch_warnings(action="ignore"):  # complex numbers
            return float(np.max(np.abs(np.asarray(value).astype(float))))
    except Exception:
        return 1e300 if isinstance(value, (int, range)) else 0


def bad_value(rng, good, small):
    """Draw (what it is, value): a replacement of a good value, no large number where ``small``."""
    while True:
        label, value = _bad_value(rng, good)
        size = largest(value)
        if not small or not size > 100 or np.isinf(size):
            return label, value


def _bad_value(rng, good):
    kind = rng.random()
    if kind < 0.25 and is_numeric(good) and not isinstance(good, bool):
        make = (spoil_entry, none_entry)[rng.integers(2)] if rng.random() < 0.4 else None
        if make is not None:
            return make(good, rng)
        label = rng.choice(list(RESHAPES))
        with np.errstate(all="ignore"):
            try:
                return label, RESHAPES[label](np.array(good, dtype=float))
            except Exception:  # that is not to be done with this one
                pass
    if kind < 0.6:
        label = rng.choice(list(NUMBERS))
        return label, NUMBERS[label]
    label = rng.choice(list(OTHERS))
    return label, OTHERS[label]()
