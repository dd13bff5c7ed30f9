"""Whether the digest that a cached function is kept under covers every function that numba compiles into it."""

import threading
import types as pytypes

from numba.core import event, types

from sklearn_dpmix._base.compiled import _Cache, _registered
from sklearn_dpmix._base.memory import ComponentType
from sklearn_dpmix._base.reach import _PINNED, Reach


class Watch(event.Listener):
    """Listens to numba; where an entry was compiled, raises if its digest does not see a part of it."""

    def __init__(self):
        self.local = threading.local()

    def on_start(self, event):
        self.local.depth = getattr(self.local, "depth", 0) + 1
        if self.local.depth == 1:
            self.local.parts = set()
        self.local.parts.add(event.data["dispatcher"].py_func)

    def on_end(self, event):
        self.local.depth -= 1
        dispatcher, arguments = event.data["dispatcher"], event.data["args"]
        if self.local.depth == 0 and isinstance(dispatcher._cache, _Cache) and isinstance(arguments[0], ComponentType):
            unseen = unseen_parts(dispatcher.py_func, arguments, self.local.parts)
            if unseen:
                raise AssertionError(f"the digest of {dispatcher.py_func.__qualname__} does not see {unseen}")


def unseen_parts(function, arguments, parts):
    """Names of compiled functions that neither an entry nor its components reach."""
    reach = Reach()
    reach.visit(function)
    for component in components_in(arguments):
        reach.visit(_registered[type(component)])
    seen = {code for _, found in reach.seen.values() for code in codes_in(getattr(found, "__code__", None))}
    theirs = [part for part in parts if part.__globals__.get("__name__", "").partition(".")[0] not in _PINNED]
    return sorted(part.__qualname__ for part in theirs if part.__code__ not in seen)


def components_in(arguments):
    for argument in arguments:
        if isinstance(argument, ComponentType):
            yield argument
            yield from components_in(dict(argument.fields).values())
        elif isinstance(argument, types.BaseTuple):
            yield from components_in(argument.types)


def codes_in(code):
    """A function's code, and that of the functions in it."""
    if isinstance(code, pytypes.CodeType):
        yield code
        for constant in code.co_consts:
            yield from codes_in(constant)
