"""Components as numba values: ``component.method(...)`` inside compiled code, dispatched by type.

A :class:`Component` is a scikit-learn object.  Its methods marked ``@compiled`` are plain Python, and compiled code can
call them on the component's *value*: what :func:`lower` makes of it, a handful of numbers and arrays.  Dispatch is on the
type of the value, so it costs nothing at run time, misses no disk cache, and pickles.

The disk cache must never lie.  numba keys a cached function by the file it stands in and by the types of its arguments; it
does not see that a callee in another file changed.  So the type of a value carries a digest of everything its class's
compiled methods can reach (:func:`reachable_digest`), and every function that is cached (``entry``) takes a component.
"""

import hashlib
import inspect
import pathlib
import pickle
import sys
import types as pytypes
import uuid
from functools import cache

import numba
import numpy as np
from numba import njit, types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    overload_method,
    register_model,
    typeof_impl,
    unbox,
)
from sklearn.base import BaseEstimator

__all__ = ["Component", "Value", "compiled", "entry", "helper", "lower"]

#: Compiled into its callers, never cached by itself.
helper = njit(nogil=True, error_model="numpy")
#: A cached function called from Python.  Its first argument must be a component's value: that keeps the cache honest.
entry = njit(nogil=True, cache=True, error_model="numpy")


def compiled(method):
    """Mark a method as callable on the component's value inside compiled code (it stays plain Python)."""
    method._is_compiled = True
    return method


class Component(BaseEstimator):
    """A scikit-learn object whose ``@compiled`` methods compiled code can call."""

    def _lower(self, **context):
        """Return the component's :class:`Value`; by default its numeric parameters, as floats and float arrays."""
        fields = {}
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, (bool, int, float, np.number)):
                fields[name] = float(value)
            elif isinstance(value, (list, tuple, np.ndarray)):
                fields[name] = np.array(value, dtype=np.float64)
        return lower(type(self), fields)


class Value:
    """A component as compiled code sees it: fields (numbers, arrays) and the compiled methods of its class."""

    def __init__(self, owner, fields):
        self.__dict__.update(fields)
        self._owner, self._fields = owner, tuple(fields)

    def __reduce__(self):
        return lower, (self._owner, {name: getattr(self, name) for name in self._fields})


def lower(owner, fields):
    """Make the value of a component: an instance that carries ``fields`` and ``owner``'s compiled methods.

    Parameters
    ----------
    owner : type
        A :class:`Component` class.
    fields : dict of str to number or ndarray
        What the compiled methods read as ``self.<name>``.
    """
    fields = {name: _frozen(field) for name, field in fields.items()}
    methods = {name: getattr(owner, name) for name in _compiled_names(owner)}
    value = type(f"{owner.__name__}Value", (Value,), methods)(owner, fields)
    field_types = tuple((name, _field_type(field)) for name, field in fields.items())
    value._numba_type = _register(owner, _class_digest(owner))(field_types)
    return value


def _frozen(field):
    """Arrays read-only, so that their type is the same whether or not a worker process mapped them from memory."""
    if isinstance(field, np.ndarray):
        field = np.ascontiguousarray(field).view(np.ndarray)
        field.flags.writeable = False
    return field


def _field_type(field):
    """Numba type of a field.  The integer 1 is a compile-time constant: loops over one feature, one auxiliary vanish."""
    return types.literal(1) if type(field) is int and field == 1 else numba.typeof(field)


def _compiled_names(owner):
    return sorted(n for n in dir(owner) if getattr(inspect.getattr_static(owner, n), "_is_compiled", False))


# --- what a cached function depends on ------------------------------------------------------------------------------

_PACKAGE = __name__.partition(".")[0]
_PINNED = {"numpy", "numba", "math", "builtins", _PACKAGE}  # by version, or by the digest of the package's sources


@cache
def _package_digest():
    sources = sorted(pathlib.Path(__file__).parent.rglob("*.py"))
    versions = f"{numba.__version__} {np.__version__} {sys.version}".encode()
    return hashlib.sha1(versions + b"".join(path.read_bytes() for path in sources)).hexdigest()


def _class_digest(owner):
    methods = [inspect.getattr_static(owner, name) for name in _compiled_names(owner)]
    return reachable_digest(*(m for m in methods if _root(m.__module__) != _PACKAGE))


def reachable_digest(*functions):
    """Digest of the package and of all that ``functions`` can reach: callees, globals, closures, in whatever file.

    It is taken from byte code and constants, not from files, so that it also works in a notebook and is the same in a
    worker process that got the functions by pickling.
    """
    digest, seen = hashlib.sha1(_package_digest().encode()), set()
    for function in functions:
        _visit(function, digest, seen)
    return digest.hexdigest()[:16]


def _root(module_name):
    return (module_name or "").partition(".")[0]


def _visit(obj, digest, seen):
    obj = getattr(obj, "py_func", None) or getattr(getattr(obj, "_dispatcher", None), "py_func", obj)
    if id(obj) in seen:
        return
    seen.add(id(obj))
    if isinstance(obj, pytypes.FunctionType):
        digest.update(f"def {obj.__qualname__}".encode())
        if _root(obj.__module__) not in _PINNED:
            _visit_code(obj.__code__, obj, digest, seen)
            for part in (obj.__defaults__, obj.__kwdefaults__):
                _visit(part, digest, seen)
    elif isinstance(obj, type):
        digest.update(f"class {obj.__module__}.{obj.__qualname__}".encode())
        if _root(obj.__module__) not in _PINNED:
            for name, member in sorted(vars(obj).items()):
                if isinstance(member, pytypes.FunctionType):
                    digest.update(name.encode())
                    _visit(member, digest, seen)
    elif isinstance(obj, np.ndarray):
        digest.update(f"{obj.dtype.str}{obj.shape}".encode() + np.ascontiguousarray(obj).tobytes())
    elif isinstance(obj, (tuple, list, frozenset)):
        digest.update(f"{type(obj).__name__}{len(obj)}".encode())
        for item in sorted(obj, key=repr) if isinstance(obj, frozenset) else obj:
            seen.discard(id(item))
            _visit(item, digest, seen)
    elif obj is None or isinstance(obj, (bool, int, float, complex, str, bytes, np.generic)):
        digest.update(f"{type(obj).__name__} {obj!r}".encode())
    elif isinstance(obj, pytypes.BuiltinFunctionType):
        digest.update(f"builtin {obj.__qualname__}".encode())
    elif isinstance(obj, pytypes.ModuleType):
        digest.update(f"module {obj.__name__}".encode())
    else:
        try:
            digest.update(pickle.dumps(obj))
        except Exception:  # cannot be named reliably: never share a cache entry
            digest.update(uuid.uuid4().bytes)


def _visit_code(code, function, digest, seen):
    digest.update(code.co_code)
    digest.update(repr((code.co_names, code.co_varnames, code.co_freevars, code.co_argcount)).encode())
    for constant in code.co_consts:
        if isinstance(constant, pytypes.CodeType):
            _visit_code(constant, function, digest, seen)
        elif constant != function.__doc__:
            seen.discard(id(constant))
            _visit(constant, digest, seen)
    cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=True))
    modules = []
    for name in (*code.co_names, *code.co_freevars):
        if name in cells:
            found = cells[name].cell_contents
        elif name in function.__globals__:
            found = function.__globals__[name]
        else:
            continue
        digest.update(name.encode())
        _visit_named(found, code.co_names, digest, seen, modules)


def _visit_named(found, names, digest, seen, modules):
    """Visit a global; through a module, everything of it that the code could mean by ``module.name``."""
    _visit(found, digest, seen)
    if isinstance(found, pytypes.ModuleType) and _root(found.__name__) not in _PINNED and found not in modules:
        modules.append(found)
        for name in names:
            if hasattr(found, name):
                digest.update(name.encode())
                _visit_named(getattr(found, name), names, digest, seen, modules)


# --- the numba side -------------------------------------------------------------------------------------------------


class ComponentType(types.Type):
    """Numba type of a value: one subclass for each (class, digest); instances differ by the fields' types."""

    owner = digest = ""

    def __init__(self, fields):
        self.fields = fields
        super().__init__(f"Component({self.owner}@{self.digest}{fields})")

    def __reduce__(self):
        return _component_type, (self.owner, self.digest, self.fields)


@cache
def _type_class(owner_name, digest):
    """The type class of a component; without its methods, so that a cache index naming it can always be read."""
    cls = type("ComponentType", (ComponentType,), {"owner": owner_name, "digest": digest})

    @register_model(cls)
    class _Model(models.StructModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, [(name, types.unliteral(field)) for name, field in fe_type.fields])

    return cls


def _component_type(owner_name, digest, fields):
    return _type_class(owner_name, digest)(fields)


_registered = set()


def _register(owner, digest):
    """Make the compiled methods of ``owner`` known to numba, once for each digest."""
    cls = _type_class(f"{owner.__module__}.{owner.__qualname__}", digest)
    if cls not in _registered:
        _registered.add(cls)
        for name in _compiled_names(owner):
            _overload(cls, name, inspect.getattr_static(owner, name))
    return cls


def _overload(cls, name, method):
    def resolve(*args, **kwargs):
        return method

    resolve.__signature__ = inspect.signature(method)
    overload_method(cls, name)(resolve)


@infer_getattr
class _Fields(AttributeTemplate):
    key = ComponentType

    def generic_resolve(self, typ, attr):
        return dict(typ.fields).get(attr)


@lower_getattr_generic(ComponentType)
def _getattr(context, builder, typ, val, attr):
    if isinstance(dict(typ.fields)[attr], types.IntegerLiteral):
        return context.get_constant(types.intp, dict(typ.fields)[attr].literal_value)
    struct = cgutils.create_struct_proxy(typ)(context, builder, value=val)
    field = getattr(struct, attr)
    return numba.core.imputils.impl_ret_borrowed(context, builder, dict(typ.fields)[attr], field)


@unbox(ComponentType)
def _unbox(typ, obj, c):
    struct = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    for name, field_type in typ.fields:
        field = c.pyapi.object_getattr_string(obj, name)
        setattr(struct, name, c.unbox(types.unliteral(field_type), field).value)
        c.pyapi.decref(field)
    return NativeValue(struct._getvalue(), is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@typeof_impl.register(Value)
def _typeof_value(value, context):
    return value._numba_type
