"""Components as numba values: ``component.method(...)`` inside compiled code, dispatched by type.

A :class:`Component` is a scikit-learn object.  Its methods marked ``@compiled`` are plain Python, and compiled code can
call them on the component's *value*: what :func:`lower` makes of it, a handful of numbers and arrays.  Dispatch is on
the type of the value, so it costs nothing at run time, misses no disk cache, and pickles.

The disk cache must never lie.  numba keys a cached function by the file it stands in and by the types of its arguments;
it does not see that a callee in another file changed.  So a cached function (:func:`entry`) is kept under a digest of
everything that it can reach (:class:`Reach`); the type of a value carries one of all that its class's compiled methods
can.  A cached function takes a component's value as its first argument.
"""

import inspect
from functools import cache, cached_property
from numbers import Real
from typing import Any

import numba
import numpy as np
from numba import jit, types
from numba.core import config
from numba.core.caching import CompileResultCacheImpl, FunctionCache, IndexDataCacheFile
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher, cpu_target
from numba.extending import overload_method, typeof_impl

from .memory import ComponentType, address, type_class, words_of
from .one_line import OneLine
from .reach import TOOLS, Reach, is_ours
from .typing import Function

__all__ = ["Component", "Value", "compiled", "entry", "helper", "lower", "sums_helper"]

#: the newest version of numba whose inner parts ``compiler`` was tried with
NEWEST = 0, 68

if numba.version_info[:2] <= NEWEST:
    from .compiler import ApartCompiler, EntryCompiler, PartCompiler
else:  # as numba compiles by itself: a first fit takes a minute or two
    ApartCompiler = EntryCompiler = PartCompiler = Compiler  # type: ignore[assignment, misc]

#: ``fastmath`` is said outright: otherwise a part takes over that of its first caller, and last digits depend on what a
#: process compiled before.
_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True, "fastmath": False}


_LITERALS = types.IntegerLiteral, types.BooleanLiteral


class _Part(CPUDispatcher):
    """A function without the code that Python would enter it by: a sixth of the time to compile everything."""

    def get_call_template(self, args, kws):
        """Compile once for all numbers: numba would, for -1 and for True, compile apart."""
        args = tuple(types.unliteral(a) if isinstance(a, _LITERALS) else a for a in args)
        return super().get_call_template(args, kws)

    def compile(self, sig):
        known = self.overloads.get(tuple(sig))
        if known is not None:  # nine times of ten; numba would set up its timers first
            return known.entry_point
        compiled = super().compile(sig)
        returned = self.overloads[tuple(sig)].signature.return_type
        model = cpu_target.target_context.data_model_manager[returned]
        if not self.targetoptions["_nrt"] and model.contains_nrt_meminfo():
            raise TypeError(
                f"helper {self.py_func.__qualname__} returns {returned}, which it borrows from its caller: write into "
                "an array instead"
            )
        return compiled


class _Helper(_Part):
    """A part that is plain Python when Python calls it."""

    def __call__(self, *args):
        return self.py_func(*args)


class _Shared(_Part):
    """A part that is compiled by itself for Python, when Python calls it."""

    @cached_property
    def alone(self):
        return jit(**_OPTIONS)(self.py_func)  # type: ignore[call-overload]

    def __call__(self, *args):
        return self.alone(*args)


def helper(function: Function, **options: Any) -> Function:
    """Compile a function into its callers; never cached by itself, and plain Python when Python calls it."""
    return _part(_Helper, function, options)


def _part(kind: Any, function: Any, options: dict[str, Any]) -> Any:
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    options = {**_OPTIONS, "no_cpython_wrapper": True, "_nrt": _counts_references(function), **options}
    return kind(function, targetoptions=options, pipeline_class=PartCompiler)


def sums_helper(function: Function) -> Function:
    """A helper whose sums may be taken in another order, as loops need that add up several numbers at a time."""
    return helper(function, fastmath={"reassoc", "contract"})


def apart(function: Function, **options: Any) -> Function:
    """A helper that is called, not copied into its callers: for long loops that many moves share."""
    part = helper(function, **options)
    if part is not function:
        part._compiler.pipeline_class = ApartCompiler  # type: ignore[attr-defined]
    return part


def apart_sums(function: Function) -> Function:
    """A helper that is called, and whose sums may be taken in another order."""
    return apart(function, fastmath={"reassoc", "contract"})


def shared(function: Function) -> Function:
    """A helper that Python calls, too, compiled."""
    return _part(_Shared, function, {})


def _counts_references(function):
    """Whether a function may make arrays.

    The package's own do where they name NumPy, or draw Poisson numbers (numba's own code for these makes a list); the
    others borrow all arrays and generators from their callers: to count references to them takes as long as to draw
    from a generator.
    """
    makes = not {"np", "poisson"}.isdisjoint(function.__code__.co_names)
    return makes or not is_ours(function.__globals__.get("__name__"))


def entry(function: Function, **options: Any) -> Function:
    """Compile a function that Python calls, and keep it on disk.  Its first argument is a component's value."""
    options = {**_OPTIONS, **options}
    dispatcher: Any = jit(pipeline_class=EntryCompiler, **options)(function)  # type: ignore[call-overload]
    if dispatcher is not function:  # it is, under NUMBA_DISABLE_JIT=1
        try:
            dispatcher._cache = _Cache(function)
        except RuntimeError:  # no folder that can be written: compile anew in every process
            pass
    return dispatcher


class _Place(CompileResultCacheImpl):
    """Where an entry is kept: under its name, wherever in its file it stands."""

    def get_filename_base(self, fullname, abiflags):
        return super().get_filename_base(fullname, abiflags).replace(f"-{self._locator.get_disambiguator()}.py", ".py")


class _Cache(FunctionCache):
    """numba's cache, but honest and patient.

    Kept code is found by what an entry can reach, not by its file's time.  Without a component's digest in the
    signature nothing is kept.  And what is read is compared with what was asked for: two processes that add an entry at
    the same time, or one that is killed meanwhile, can leave an index that names another entry's code.
    """

    _impl_class = _Place

    def __init__(self, function):
        super().__init__(function)
        self._cache_file = IndexDataCacheFile(self._cache_path, self._impl.filename_base, TOOLS)

    def _index_key(self, sig, codegen):
        reach = Reach()
        reach.visit(self._py_func)
        reach.visit_signature(sig)
        return sig, codegen.magic_tuple(), reach.hexdigest()

    def load_overload(self, sig, target_context):
        if not isinstance(sig[0], ComponentType):
            return None
        try:
            found = super().load_overload(sig, target_context)
        except (ImportError, AttributeError):  # written by a version of the package in which things stood elsewhere
            self.flush()
            return None
        if found is not None and tuple(found.signature.args) != tuple(sig):
            self.flush()
            return None
        return found

    def save_overload(self, sig, data):
        if isinstance(sig[0], ComponentType):
            super().save_overload(sig, data)


def compiled(method: Function) -> Function:
    """Mark a method as callable on the component's value inside compiled code (it stays plain Python).

    Parameters
    ----------
    method : function
        Takes and returns numbers, and writes into arrays: what numba's nopython mode compiles.  It may call the
        component's other compiled methods, functions of ``math``, and functions that are compiled themselves.

    Returns
    -------
    method : function
        The same one.

    Examples
    --------
    >>> from math import log, pi
    >>> from sklearn_dpmix.mechanisms import AdditiveMechanism, compiled
    >>> class CauchyMechanism(AdditiveMechanism):
    ...     def __init__(self, scale=1.0):
    ...         self.scale = scale
    ...
    ...     @compiled
    ...     def log_noise(self, e, scale):
    ...         return -log(pi * scale * (1.0 + (e / scale) ** 2))
    ...
    ...     def draw_noise(self, rng, scale, size):
    ...         return scale * rng.standard_cauchy(size)
    >>> round(CauchyMechanism().log_noise(0.0, 1.0), 4)  # plain Python, here
    -1.1447
    """
    method._is_compiled = True  # type: ignore[attr-defined]
    return method


class Component(OneLine):
    """A scikit-learn object whose ``@compiled`` methods compiled code can call."""

    def _lower(self, *, n_features=None, **context):
        """Return the component's :class:`Value`: its numeric parameters as floats and float arrays, and ``n_features``.

        Override it where compiled methods want something else as ``self.<name>``.
        """
        fields = {} if n_features is None else {"n_features": n_features}
        for name, value in self.get_params(deep=False).items():
            if isinstance(value, (Real, np.bool_)) or (isinstance(value, np.ndarray) and not value.ndim):
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


def lower(owner, fields, *, frozen=True):
    """Make the value of a component: an instance that carries ``fields`` and ``owner``'s compiled methods.

    Parameters
    ----------
    owner : type
        A :class:`Component` class.
    fields : dict of str to number or ndarray
        What the compiled methods read as ``self.<name>``.
    frozen : bool
        Whether arrays are made read-only.
    """
    fields = {name: _frozen(field) for name, field in fields.items()} if frozen else fields
    methods = tuple(_compiled_methods(owner).items())
    value, first = _value_class(owner, methods)(owner, fields), _first_with(owner, methods)
    field_types = tuple((name, _field_type(first, field)) for name, field in fields.items())
    value._numba_type = _type_class_of(first, methods)(field_types)
    words = [0]  # so that there is memory without fields, too
    for (name, kind), field in zip(field_types, fields.values(), strict=True):
        try:
            words += words_of(kind, field)
        except TypeError:
            raise TypeError(
                f"{owner.__name__}.{name} must be a number, an array, a component's value or a tuple, got {field!r}"
            ) from None
    value._memory = np.array(words, np.int64)
    value._address = address(value._memory)
    return value


def _type_class_of(owner, methods):
    """The type class of values of ``owner``: where all methods are the package's, what they reach does not change."""
    ours = all(is_ours(method.__globals__.get("__name__")) for _, method in methods)
    return (_register_once if ours else _register)(owner, methods)


@cache
def _value_class(owner, methods):
    """One class for all values of a component: numba looks for the type of an instance of a new class for 1 ms."""
    return type(f"{owner.__name__}Value", (Value,), dict(methods))


@cache
def _first_with(owner, methods):
    """The oldest ancestor with all compiled methods of a class: subclasses that change none share its code."""
    for base in reversed(owner.__mro__) if methods else ():
        if all(inspect.getattr_static(base, name, None) is method for name, method in methods):
            return base
    return owner


def _frozen(field):
    """Arrays read-only, so that their type is the same whether or not a worker process mapped them from memory."""
    if isinstance(field, np.ndarray):
        field = np.ascontiguousarray(field).view(np.ndarray)
        field.flags.writeable = False
    return field


def _field_type(owner, field):
    """Numba type of a field.

    The integer 1 is a compile-time constant: loops over one feature vanish.  In the package's own classes an array of
    floats with one axis is a bare pointer, which only positive indices go with: as an array it would be
    reference-counted in every loop that calls a method, and such a loop is never vectorised.  A user's class that has
    compiled methods of its own may do with its arrays what arrays do.
    """
    is_line = isinstance(field, np.ndarray) and field.ndim == 1 and field.dtype == np.float64
    if is_line and field.flags.c_contiguous and is_ours(owner.__module__):
        return types.CPointer(types.float64)
    return types.literal(1) if type(field) is int and field == 1 else numba.typeof(field)


def _compiled_methods(owner):
    """The compiled methods of a class by name, its bases' included."""
    names = (_names_once if is_ours(owner.__module__) else _compiled_names)(owner)
    methods = {name: getattr(owner, name) for name in names}
    for name, method in methods.items():
        if not _is_compiled(method):
            raise TypeError(f"{owner.__qualname__}.{name} is called by compiled code: mark it with @compiled")
    return methods


def _compiled_names(owner):
    found = {name for base in owner.__mro__ for name, member in vars(base).items() if _is_compiled(member)}
    return sorted(found | {name for name in getattr(owner, "called_compiled", ()) if hasattr(owner, name)})


_names_once = cache(_compiled_names)


def _is_compiled(member):
    return getattr(member, "_is_compiled", False)


# --- the methods, as numba knows them --------------------------------------------------------------------------------


_registered: dict[type, dict[str, Any]] = {}  # the methods of a type class


@global_compiler_lock  # numba's own; two threads may be the first to use a component
def _register(owner, methods):
    """Make the compiled methods of ``owner`` known to numba, once for each digest; return the type class."""
    methods = dict(methods)
    reach = Reach()
    reach.visit(methods)
    cls = type_class(f"{owner.__module__}.{owner.__qualname__}", reach.hexdigest())
    if cls not in _registered:
        for name, method in methods.items():
            _overload(cls, name, method)
        _registered[cls] = methods
    return cls


_register_once = cache(_register)


def _overload(cls, name, method):
    def resolve(*args, **kwargs):
        return method

    resolve.__signature__ = inspect.signature(method)
    options = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    options |= {"_nrt": _counts_references(method), "pipeline_class": PartCompiler}
    overload_method(cls, name, jit_options=options)(resolve)


@typeof_impl.register(Value)
def _typeof_value(value, context):
    return value._numba_type
