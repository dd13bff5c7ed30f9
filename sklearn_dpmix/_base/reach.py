"""What a cached function depends on: a digest of all that it can reach."""

import enum
import hashlib
import pathlib
import pickle
import sys
import types as pytypes
import uuid

import llvmlite
import numba
import numpy as np
from numba import types
from numba.core.dispatcher import Dispatcher
from numba.core.registry import cpu_target

_PACKAGE = __name__.partition(".")[0]
_PINNED = {"numpy", "numba", "llvmlite", "math", "builtins"}  # by version


def _digest_of_tools():
    """Digest of the versions below us, and of the files that say how functions are compiled."""
    versions = numba.__version__, llvmlite.__version__, np.__version__, sys.version
    digest = hashlib.sha1(" ".join(versions).encode())
    for name in ("compiled", "compiler", "memory", "passes", "reach"):
        digest.update(pathlib.Path(__file__).with_name(f"{name}.py").read_bytes())
    return digest.digest()


TOOLS = _digest_of_tools()  # on import: a later edit of a file does not change the code that this process runs


class Reach:
    """Digest of all that functions can reach: callees, globals, closures, in whatever file.

    It is taken from byte code and constants, not from files, so that it also works in a notebook and is the same in a
    worker process that got the functions by pickling.  Functions of ``_PINNED`` packages count by name.
    """

    def __init__(self):
        cpu_target.typing_context.refresh()  # what stands for plain functions
        self.digest = hashlib.sha1(TOOLS)
        self.seen = {}  # id -> (number, object); it keeps the object, so that no id comes twice

    def hexdigest(self):
        return self.digest.hexdigest()[:16]

    def note(self, *parts):
        self.digest.update(repr(parts).encode())

    def visit(self, obj):
        """Add what ``obj``, a thing that compiled code names, means to it."""
        obj = getattr(obj, "_dispatcher", getattr(obj, "_defn", obj))  # of a vectorized function, of an intrinsic
        if isinstance(obj, Dispatcher):
            self.note("jit", obj._compiler.pipeline_class.__name__)  # how it is compiled counts too
            self.visit([obj.targetoptions, obj.locals])
            obj = obj.py_func
        if isinstance(obj, (pytypes.FunctionType, type)):
            number, _ = self.seen.get(id(obj), (None, None))
            self.note("def", len(self.seen) if number is None else number)
            if number is None:
                self.seen[id(obj)] = len(self.seen), obj
                self.visit_definition(obj)
        elif isinstance(obj, pytypes.BuiltinFunctionType):
            self.note("builtin", obj.__module__, obj.__qualname__)
        elif isinstance(obj, pytypes.ModuleType):
            self.note("module", obj.__name__)
        elif isinstance(obj, types.Type):
            self.note("numba type", str(obj))
        elif isinstance(obj, np.ndarray):
            self.note("array", repr(obj.dtype), obj.dtype.str, obj.shape, np.ascontiguousarray(obj).tobytes())
        elif isinstance(obj, enum.Enum):
            self.note("enum")
            self.visit(type(obj))
            self.visit(obj.value)
        elif isinstance(obj, (tuple, list, dict, set, frozenset)):
            self.visit_container(obj)
        elif obj is None or isinstance(obj, (bool, int, float, complex, str, bytes, np.generic)):
            self.note(type(obj).__qualname__, obj)
        else:
            self.note(_by_pickle(obj))

    def visit_signature(self, types_of_arguments):
        """Add which name is which item of an entry's named tuples; components carry digests of their methods."""
        for argument in types_of_arguments:
            if isinstance(argument, types.BaseTuple):
                if isinstance(argument, types.BaseNamedTuple):
                    self.visit(argument.instance_class)
                self.visit_signature(argument.types)
            elif hasattr(argument, "digest"):
                self.visit_signature(dict(argument.fields).values())

    def visit_container(self, obj):
        self.note(type(obj).__qualname__, len(obj))
        if isinstance(obj, tuple) and type(obj) is not tuple:
            self.visit(type(obj))
        items = [part for pair in obj.items() for part in pair] if isinstance(obj, dict) else obj
        for item in sorted(items, key=repr) if isinstance(obj, (set, frozenset)) else items:
            self.visit(item)

    def visit_definition(self, obj):
        """Add a function or a class on first sight."""
        module = obj.__module__ if isinstance(obj, type) else obj.__globals__.get("__name__")  # no wraps() hides it
        if _is_pinned(module):
            self.note("pinned", module, obj.__qualname__)
        elif hasattr(obj, "_field_defaults"):  # a named tuple: which name is which item
            self.visit((obj._fields, obj._field_defaults))
        elif isinstance(obj, type):
            for base in obj.__bases__:
                self.visit(base)
            for name, member in sorted(vars(obj).items()):
                is_data = not name.startswith("__") and isinstance(member, _DATA)
                is_code = isinstance(member, pytypes.FunctionType) and name not in _ANNOTATES
                if is_data or is_code:
                    self.note("member", name)
                    self.visit(member)
        else:
            self.visit_code(obj.__code__, obj)
            for part in (obj.__defaults__, obj.__kwdefaults__, *_overloads(obj)):
                self.visit(part)

    def visit_code(self, code, function):
        arguments = code.co_argcount, code.co_kwonlyargcount, code.co_posonlyargcount, code.co_flags
        self.note(code.co_code, arguments, code.co_names, code.co_varnames, code.co_freevars, code.co_cellvars)
        for constant in code.co_consts:
            if isinstance(constant, pytypes.CodeType):
                self.visit_code(constant, function)
            elif constant != function.__doc__:
                self.visit(constant)
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
        modules = []
        for name in (*code.co_names, *code.co_freevars):
            if name in cells:
                self.note("cell", name)
                self.visit_named(_contents(cells[name]), code.co_names, modules)
            elif name in function.__globals__:
                self.note("global", name)
                self.visit_named(function.__globals__[name], code.co_names, modules)

    def visit_named(self, found, names, modules):
        """Visit a global; through a module, everything of it that the code could mean by ``module.name``."""
        self.visit(found)
        if isinstance(found, pytypes.ModuleType) and found not in modules and not _is_pinned(found.__name__):
            modules.append(found)
            for name in names:
                if hasattr(found, name):
                    self.note("attribute", name)
                    self.visit_named(getattr(found, name), names, modules)


_ANNOTATES = ("__annotate__", "__annotate_func__")  # since Python 3.14; nothing compiled reads annotations
_DATA = (bool, int, float, complex, str, bytes, tuple, list, dict, np.generic, np.ndarray)


def _is_pinned(module_name):
    return (module_name or "").partition(".")[0] in _PINNED


def is_ours(module_name):
    return (module_name or "").partition(".")[0] == _PACKAGE


def _overloads(function):
    """What compiled code runs in place of a plain function (``@overload``, ``@register_jitable``)."""
    found = cpu_target.typing_context._lookup_global(function)
    return [part._overload_func for part in getattr(found, "templates", ()) if hasattr(part, "_overload_func")]


def _contents(cell):
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


_unnamed: dict[int, tuple[bytes, object]] = {}  # by id; it keeps the object


def _by_pickle(obj):
    """Bytes that stand for an object; where it has none, a mark that no other process has."""
    try:
        return pickle.dumps(obj)
    except Exception:
        return _unnamed.setdefault(id(obj), (uuid.uuid4().bytes, obj))[0]
