"""The digest behind the compile cache sees all that an entry reaches, and nothing that is not compiled."""

import threading
from typing import NamedTuple

import numba
import pytest
from scripts import COMPILES, run

from sklearn_dpmix._base.compiled import lower
from sklearn_dpmix._base.reach import Reach
from sklearn_dpmix.mechanisms import NoNoise

# ---------------------------------------------------------------- the digest


BASE = """
import enum
import math
import types
from typing import NamedTuple
import numpy as np
from numba import njit, vectorize
from numba.extending import overload, register_jitable
from sklearn_dpmix.mechanisms import AdditiveMechanism, GaussianMechanism, LaplaceMechanism, compiled

class Point(NamedTuple):
    x: float = 1.0
    y: float = 2.0

class Colour(enum.IntEnum):
    RED = 1

POINT = Point(1.0, 2.0)
TABLE = np.array([1.0, 2.0])
NESTED = (1.0, (2.0, 1.0))
PAIRS = np.array([(1.0, 2.0)], dtype=[("a", "f8"), ("b", "f8")])
tools = types.ModuleType("tools")
tools.scale = 2.0
tools.unused = 0.0

@njit
def one(e):
    return 1.0 * e

@njit(fastmath=False)
def two(e):
    return 2.0 * e

@vectorize
def three(e):
    return 3.0 * e

@register_jitable
def four(e, times=4.0):
    return times * e

def five(e):
    pass

@overload(five)
def five_compiled(e):
    def implementation(e):
        return 5.0 * e
    return implementation

def maker(c):
    @njit
    def made(e):
        return c * e
    return made

first, second, third = one, two, one
closure = maker(6.0)
other = maker(7.0)

class Own(LaplaceMechanism):
    '''Docstring.'''

    @compiled
    def log_noise(self, e, scale):
        '''Docstring.'''
        if e == Colour.RED or e in (7.0, 8.0):
            return math.log(e)
        total = first(e) + second(e) + third(e) + three(e) + four(e) + five(e) + closure(e) + other(e)
        return total + POINT.x + PAIRS[0]["a"] + TABLE[0] + NESTED[1][1] + tools.scale + self.bend(e)

    @compiled
    def bend(self, e):
        return e if e > 0.0 else [v for v in (-e,)][0]
"""
SAME = [
    ("'''Docstring.'''\n\n", "'''Another one.'''\n\n"),
    ("        '''Docstring.'''\n        if", "        '''Another one.'''\n        if"),
    ("class Own", "# a comment\nclass Own"),
    ("tools.unused = 0.0", "tools.unused = 1.0"),
]
DIFFERENT = [
    ("return 1.0 * e", "return 1.5 * e"),
    ("fastmath=False", "fastmath=True"),
    ("return 3.0 * e", "return 3.5 * e"),
    ("times=4.0", "times=4.5"),
    ("return 5.0 * e", "return 5.5 * e"),
    ("maker(6.0)", "maker(6.5)"),
    ("maker(6.0)\nother = maker(7.0)", "maker(7.0)\nother = maker(6.0)"),
    ("third = one, two, one", "third = one, two, two"),  # both seen before: which one counts
    ("third = one, two, one", "third = one, one, two"),
    ("x: float = 1.0\n    y: float = 2.0", "y: float = 2.0\n    x: float = 1.0"),  # POINT is (1.0, 2.0) still
    ("RED = 1", "RED = 2"),
    ("np.array([1.0, 2.0])", "np.array([1.0, 2.5])"),
    ("np.array([1.0, 2.0])", "np.array([1.0, 2.0], np.float32)"),
    ("(1.0, (2.0, 1.0))", "(1.0, (2.0, 2.0))"),
    ('[("a", "f8"), ("b", "f8")]', '[("b", "f8"), ("a", "f8")]'),
    ("tools.scale = 2.0", "tools.scale = 2.5"),
    ("math.log(e)", "math.exp(e)"),
    ("(7.0, 8.0)", "(7.0, 7.0)"),
    ("class Own(LaplaceMechanism)", "class Own(GaussianMechanism)"),  # its inherited methods are others
    ("    @compiled\n    def bend", "    log_weight = GaussianMechanism.log_weight\n\n    @compiled\n    def bend"),
    ("def bend(self, e)", "def bend(self, e, more=1.0)"),
    ("def bend(self, e)", "def bend(self, e, *more)"),
    ("(-e,)", "(e,)"),
    ("e > 0.0", "e >= 0.0"),
]


def digest_of(source):
    namespace = {"__name__": "a_script"}
    exec(compile(source, "<script>", "exec"), namespace)
    return namespace["Own"](scale=1.0)._lower(n_records=1, n_features=1)._numba_type.digest


@pytest.mark.parametrize("old, new", SAME)
def test_the_digest_ignores_what_is_not_compiled(old, new):
    assert BASE.count(old) == 1
    assert digest_of(BASE.replace(old, new)) == digest_of(BASE)


@COMPILES
@pytest.mark.parametrize("old, new", DIFFERENT)
def test_the_digest_sees_every_edit(old, new):
    """Each of these would change the answer, and an older digest of this package missed some."""
    assert BASE.count(old) == 1
    assert digest_of(BASE.replace(old, new)) != digest_of(BASE)


def test_the_digest_is_the_same_in_another_process(tmp_path):
    """Else nothing would ever hit the cache; string hashing and the order of sets differ between processes."""
    script = tmp_path / "digest.py"
    source = BASE.replace("(7.0, 8.0)", "('a', 'b', 'c')").replace("e in (", "e in {").replace("'c')", "'c'}")
    assert source != BASE
    tail = "import json\nprint(json.dumps(Own(scale=1.0)._lower(n_records=1, n_features=1)._numba_type.digest))\n"
    script.write_text(source + tail)
    digests = {run(script, cache=tmp_path, PYTHONHASHSEED=str(seed)) for seed in (1, 2)}
    assert len(digests) == 1


def test_the_digest_sees_the_order_of_a_tuples_names():
    """Of a named tuple that an entry takes, and of one that is a component's field."""

    def digest(names, is_field):
        cls = NamedTuple("Pair", [(name, float) for name in names])
        value = lower(NoNoise, {"pair": cls(1.0, 2.0)}, frozen=False) if is_field else cls(1.0, 2.0)
        reach = Reach()
        reach.visit_signature([numba.typeof(value)])
        return reach.hexdigest()

    for is_field in (False, True):
        assert digest("xy", is_field) == digest("xy", is_field)
        assert digest("xy", is_field) != digest("yx", is_field)


def test_what_cannot_be_named_is_never_shared_between_processes():
    """A thing without a pickle gets a mark of this process; within it the digest stays the same."""
    lock = threading.Lock()
    marks = []
    for _ in range(2):
        reach = Reach()
        reach.visit(lock)
        marks.append(reach.hexdigest())
    assert marks[0] == marks[1]
    reach = Reach()
    reach.visit(threading.Lock())
    assert reach.hexdigest() != marks[0]


def test_a_pinned_function_counts_by_its_name_whatever_wraps_it():
    """functools.wraps lends a user's function the name of a library's; its code must be seen all the same."""

    def digest(c):
        def helper(e):
            return c * e

        helper.__module__, helper.__qualname__ = "numpy", "exp"
        reach = Reach()
        reach.visit(helper)
        return reach.hexdigest()

    assert digest(1.0) != digest(2.0)
