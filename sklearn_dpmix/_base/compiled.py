"""Components as numba values: ``component.method(...)`` inside compiled code, dispatched by type.

A :class:`Component` is a scikit-learn object.  Its methods marked ``@compiled`` are plain Python, and compiled code can
call them on the component's *value*: what :func:`lower` makes of it, a handful of numbers and arrays.  Dispatch is on
the type of the value, so it costs nothing at run time, misses no disk cache, and pickles.

The disk cache must never lie.  numba keys a cached function by the file it stands in and by the types of its arguments;
it does not see that a callee in another file changed.  So the type of a value carries a digest of the package's sources
and of everything that its class's compiled methods can reach (:class:`Reach`), and a cached function (:func:`entry`)
takes a component's value as its first argument.
"""

import enum
import gc
import hashlib
import inspect
import pathlib
import pickle
import sys
import types as pytypes
import uuid
from contextlib import contextmanager
from functools import cache
from numbers import Real
from typing import Any

import numba
import numpy as np
from llvmlite.binding import Linkage, ffi
from numba import jit, types
from numba.core import cgutils, config
from numba.core.caching import FunctionCache
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, Flags
from numba.core.compiler_lock import global_compiler_lock
from numba.core.compiler_machinery import PassManager
from numba.core.dispatcher import Dispatcher
from numba.core.registry import CPUDispatcher, cpu_target
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

from .typing import Function

__all__ = ["Component", "Value", "compiled", "entry", "helper", "lower", "sums_helper"]

_OPTIONS = {"nopython": True, "nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}


class _Part(JITCodeLibrary):
    """The code of a function that only compiled code calls: linked into the entries that reach it, optimised there.

    numba would optimise it, and make machine code of it, by itself; and link and optimise it again as a part of each
    function that it is linked into, at every level.
    """

    is_inlined = True

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout
        if not self.is_inlined:
            for function in ll_module.functions:
                if not function.is_declaration:
                    function.add_function_attribute("noinline")

    def finalize(self):
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage == Linkage.external:
                function.linkage = "linkonce_odr"
        self._finalize_dynamic_globals()
        self._finalized = True

    def _get_module_for_linking(self):
        """Code of this function and of all that it calls, for numba's own functions; entries gather the parts."""
        self._ensure_finalized()
        if self._shared_module is None:
            self._shared_module = self._final_module.clone()
            _link_all(self, self._shared_module)
        return self._shared_module

    def get_pointer_to_function(self, name):
        self._ensure_finalized()
        return 0  # no machine code

    @property
    def codegen(self):
        return _NoEnvironment


class _Whole(JITCodeLibrary):
    """The code of an entry: all parts that it reaches are linked into it, each once, and then optimised."""

    def finalize(self):
        _link_all(self, self._final_module)
        self._linking_libraries = []
        super().finalize()


def _link_all(library, module):
    """Link into a module the code of all that a library reaches, callers first: LLVM drops what nothing calls yet."""
    for callee in _reached(library):
        library._reload_init.update(callee._reload_init)
        code = callee._final_module if isinstance(callee, _Part) else callee._get_module_for_linking()
        module.link_in(code, preserve=True)
    for function in module.functions:
        if function.is_declaration and function.name.startswith("_ZN"):
            raise AssertionError(f"{function.name} is called and was not linked")


def _reached(library):
    """The libraries that a library reaches through parts; none before one that calls it."""
    known, ended, waiting = {library}, [], [(library, iter(library._linking_libraries))]
    while waiting:
        caller, callees = waiting[-1]
        callee = next(callees, None)
        if callee is None:
            waiting.pop()
            ended.append(caller)
        elif callee not in known:
            known.add(callee)
            waiting.append((callee, iter(callee._linking_libraries if isinstance(callee, _Part) else ())))
    return ended[-2::-1]


class _NoEnvironment:
    """What numba asks for a place to keep the objects of a function that Python calls: a part has none."""

    @staticmethod
    def set_env(name, env):
        pass


class _Flags(Flags):
    """How a function is compiled, compared in an instant: numba looks at all forty options, a hundred thousand times.

    What is being compiled passes on to the functions that numba brings along (those of generators, ``max``) only what
    they must share, so that they are compiled once, and not forced into each caller.
    """

    __slots__ = ()
    shared = "nrt", "fastmath", "error_model"

    def copy(self):
        flags = _Flags()
        for name in self.shared:
            setattr(flags, name, getattr(self, name))
        return flags

    def __eq__(self, other):
        return isinstance(other, _Flags) and self._values == other._values

    def __hash__(self):
        return hash(frozenset(self._values))


class _Compiler(Compiler):
    """numba's compiler with :class:`_Flags`."""

    def __init__(self, typingctx, targetctx, library, args, return_type, flags, locals):
        super().__init__(typingctx, targetctx, library, args, return_type, _Flags(flags), locals)

    def compile_extra(self, func):
        with _unobserved():
            return super().compile_extra(func)

    def define_pipelines(self):
        pipelines, function = super().define_pipelines(), self.state.func_id.func
        has_inner = any(isinstance(constant, pytypes.CodeType) for constant in function.__code__.co_consts)
        if has_inner or not _is_pinned(function.__globals__.get("__name__")):
            return pipelines
        short = []
        for pipeline in pipelines:
            short.append(PassManager(pipeline.pipeline_name))
            for name, description in pipeline.passes:
                if name.__name__ not in _NOT_NEEDED:
                    short[-1].add_pass(name, description)
            short[-1].finalize()
        return short


class _EntryCompiler(_Compiler):
    """Compiles into a :class:`_Whole`."""

    def compile_extra(self, func):
        self.state.library = _Whole(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        return super().compile_extra(func)


@contextmanager
def _unobserved():
    """Compile with few collections of garbage, and without telling numba's timers of each call of LLVM.

    Both take time for each of the many levels of a compilation: garbage is looked for among all that there is, and each
    function that waits for its callees times all calls of LLVM that are made for them.
    """
    thresholds, observers = gc.get_threshold(), list(getattr(getattr(ffi.lib, "_lock", None), "_cblist", ()))
    gc.set_threshold(100_000, 50, 100)
    for observer in observers:
        ffi.unregister_lock_callback(*observer)
    try:
        yield
    finally:
        gc.set_threshold(*thresholds)
        for observer in observers:
            ffi.register_lock_callback(*observer)


#: numba's passes for closures, unrolling, array expressions: the package's own compiled code has none of them
_NOT_NEEDED = {
    "InlineClosureLikes",
    "RewriteDynamicRaises",
    "MakeFunctionToJitFunction",
    "InlineInlinables",
    "FindLiterallyCalls",
    "LiteralUnroll",
    "LiteralPropagationSubPipelinePass",
    "InlineOverloads",
    "NopythonRewrites",
    "DumpParforDiagnostics",
}


class _PartCompiler(_Compiler):
    """Compiles into a :class:`_Part`."""

    is_inlined = True

    def compile_extra(self, func):
        self.state.library = _Part(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.is_inlined = self.is_inlined
        return super().compile_extra(func)


class _ApartCompiler(_PartCompiler):
    is_inlined = False


_LITERALS = types.IntegerLiteral, types.BooleanLiteral


class _Helper(CPUDispatcher):
    """A function without the code that Python would enter it by: a sixth of the time to compile everything."""

    def __call__(self, *args):
        return self.py_func(*args)

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


def helper(function: Function, **options: Any) -> Function:
    """Compile a function into its callers; never cached by itself, and plain Python when Python calls it."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return function
    options = {**_OPTIONS, "no_cpython_wrapper": True, "_nrt": _counts_references(function), **options}
    return _Helper(function, targetoptions=options, pipeline_class=_PartCompiler)  # type: ignore[return-value]


def sums_helper(function: Function) -> Function:
    """A helper whose sums may be taken in another order, as loops need that add up several numbers at a time."""
    return helper(function, fastmath={"reassoc", "contract"})


def apart(function: Function, **options: Any) -> Function:
    """A helper that is called, not copied into its callers: for long loops that many moves share."""
    part = helper(function, **options)
    if part is not function:
        part._compiler.pipeline_class = _ApartCompiler  # type: ignore[attr-defined]
    return part


def apart_sums(function: Function) -> Function:
    """A helper that is called, and whose sums may be taken in another order."""
    return apart(function, fastmath={"reassoc", "contract"})


def _counts_references(function):
    """Whether a function may make arrays.

    The package's own do where they name NumPy, or draw Poisson numbers (numba's own code for these makes a list); the
    others borrow all arrays and generators from their callers: to count references to them takes as long as to draw
    from a generator.
    """
    makes = not {"np", "poisson"}.isdisjoint(function.__code__.co_names)
    return makes or not _is_pinned(function.__globals__.get("__name__"))


def entry(function: Function) -> Function:
    """Compile a function that Python calls, and keep it on disk.  Its first argument is a component's value."""
    dispatcher: Any = jit(pipeline_class=_EntryCompiler, **_OPTIONS)(function)  # type: ignore[call-overload]
    if dispatcher is not function:  # it is, under NUMBA_DISABLE_JIT=1
        try:
            dispatcher._cache = _Cache(function)
        except RuntimeError:  # no folder that can be written: compile anew in every process
            pass
    return dispatcher


class _Cache(FunctionCache):
    """numba's cache, but honest.

    Without a component's digest in the signature nothing is kept.  And what is read is compared with what was asked
    for: two processes that add an entry at the same time, or one that is killed meanwhile, can leave an index that
    names another entry's code.
    """

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


class Component(BaseEstimator):
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
    value = _value_class(owner, methods)(owner, fields)
    field_types = tuple((name, _field_type(owner, field)) for name, field in fields.items())
    value._numba_type = _type_class_of(_first_with(owner, methods), methods)(field_types)
    return value


def _type_class_of(owner, methods):
    """The type class of values of ``owner``: where all methods are the package's, what they reach does not change."""
    is_ours = all(_is_pinned(method.__globals__.get("__name__")) for _, method in methods)
    return (_register_once if is_ours else _register)(owner, methods)


@cache
def _value_class(owner, methods):
    """One class for all values of a component: numba looks for the type of an instance of a new class for 1 ms."""
    return type(f"{owner.__name__}Value", (Value,), dict(methods))


@cache
def _first_with(owner, methods):
    """The ancestor whose compiled methods are all of a class: what changes none of them shares its code."""
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
    reference-counted in every loop that calls a method, and such a loop is never vectorised.  A user's class may do
    with its arrays what arrays do.
    """
    if isinstance(field, np.ndarray) and field.ndim == 1 and field.dtype == np.float64 and _is_pinned(owner.__module__):
        return types.CPointer(types.float64)
    return types.literal(1) if type(field) is int and field == 1 else numba.typeof(field)


def _compiled_methods(owner):
    """The compiled methods of a class by name, its bases' included."""
    members, names = {}, set()
    for base in reversed(owner.__mro__):
        members.update(vars(base))
        names.update(name for name, member in vars(base).items() if _is_compiled(member))
    methods = {name: members[name] for name in sorted(names)}
    for name, method in methods.items():
        if not _is_compiled(method):
            raise TypeError(
                f"{owner.__qualname__}.{name} overrides a compiled method, so it must be one: mark it with @compiled"
            )
    return methods


def _is_compiled(member):
    return getattr(member, "_is_compiled", False)


# --- what a cached function depends on ------------------------------------------------------------------------------

_PACKAGE = __name__.partition(".")[0]
_PINNED = {"numpy", "numba", "math", "builtins", _PACKAGE}  # by version, or by the digest of the package's sources


def _package_digest():
    """Digest of the versions below us and of the package's sources."""
    digest = hashlib.sha1(f"{numba.__version__} {np.__version__} {sys.version}".encode())
    folder = pathlib.Path(__file__).parents[1]
    for path in sorted(folder.rglob("*.py")):
        source = path.read_bytes()
        digest.update(f"{path.relative_to(folder)} {len(source)} ".encode() + source)
    return digest.digest()


_PACKAGE_DIGEST = _package_digest()  # on import: a later edit of a file does not change the code that this process runs


class Reach:
    """Digest of the package and of all that functions can reach: callees, globals, closures, in whatever file.

    It is taken from byte code and constants, not from files, so that it also works in a notebook and is the same in a
    worker process that got the functions by pickling.  Functions of ``_PINNED`` packages count by name.
    """

    def __init__(self):
        self.digest = hashlib.sha1(_PACKAGE_DIGEST)
        self.seen = {}  # id -> (number, object); it keeps the object, so that no id comes twice

    def hexdigest(self):
        return self.digest.hexdigest()[:16]

    def note(self, *parts):
        self.digest.update(repr(parts).encode())

    def visit(self, obj):
        """Add what ``obj``, a thing that compiled code names, means to it."""
        obj = getattr(obj, "_dispatcher", getattr(obj, "_defn", obj))  # of a vectorized function, of an intrinsic
        if isinstance(obj, Dispatcher):
            self.note("jit", sorted(obj.targetoptions.items()), obj.locals)  # how it is compiled counts too
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
            self.note("array", obj.dtype.str, obj.shape, np.ascontiguousarray(obj).tobytes())
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

    def visit_container(self, obj):
        self.note(type(obj).__qualname__, len(obj))
        if isinstance(obj, tuple) and type(obj) is not tuple:
            self.visit(type(obj))  # a named tuple: which name is which item
        items = [part for pair in obj.items() for part in pair] if isinstance(obj, dict) else obj
        for item in sorted(items, key=repr) if isinstance(obj, (set, frozenset)) else items:
            self.visit(item)

    def visit_definition(self, obj):
        """Add a function or a class on first sight."""
        module = obj.__module__ if isinstance(obj, type) else obj.__globals__.get("__name__")  # no wraps() hides it
        if _is_pinned(module):
            self.note("pinned", module, obj.__qualname__)
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


def _overloads(function):
    """What compiled code runs in place of a plain function (``@overload``, ``@register_jitable``)."""
    context = cpu_target.typing_context
    context.refresh()
    found = context._lookup_global(function)
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


# --- the numba side -------------------------------------------------------------------------------------------------


class ComponentType(types.Type):
    """Numba type of a value: one subclass for each (class, digest); instances differ by the fields' types."""

    owner = digest = ""

    def __init__(self, fields):
        self.fields = fields
        super().__init__(f"Component({self.owner}@{self.digest}{fields})")

    def __reduce__(self):
        return _component_type, (self.owner, self.digest, self.fields)


@global_compiler_lock
def _component_type(owner_name, digest, fields):
    return _type_class(owner_name, digest)(fields)


@cache
def _type_class(owner_name, digest):
    """The type class of a component; without its methods, so that a cache index naming it can always be read."""
    cls = type("ComponentType", (ComponentType,), {"owner": owner_name, "digest": digest})

    @register_model(cls)
    class _Model(models.StructModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, [(name, types.unliteral(field)) for name, field in fe_type.fields])

    return cls


_registered: set[type] = set()


@global_compiler_lock  # numba's own; two threads may be the first to use a component
def _register(owner, methods):
    """Make the compiled methods of ``owner`` known to numba, once for each digest; return the type class."""
    methods = dict(methods)
    reach = Reach()
    reach.visit(methods)
    cls = _type_class(f"{owner.__module__}.{owner.__qualname__}", reach.hexdigest())
    if cls not in _registered:
        for name, method in methods.items():
            _overload(cls, name, method)
        _registered.add(cls)
    return cls


_register_once = cache(_register)


def _overload(cls, name, method):
    def resolve(*args, **kwargs):
        return method

    resolve.__signature__ = inspect.signature(method)
    options = {"forceinline": True, "no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    options["_nrt"] = _counts_references(method)
    options["pipeline_class"] = _PartCompiler
    overload_method(cls, name, jit_options=options)(resolve)


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


_FLOATS = types.Array(types.float64, 1, "C", readonly=True)


@unbox(ComponentType)
def _unbox(typ, obj, c):
    struct = cgutils.create_struct_proxy(typ)(c.context, c.builder)
    for name, field_type in typ.fields:
        field = c.pyapi.object_getattr_string(obj, name)
        if isinstance(field_type, types.CPointer):  # the value, alive as long as the call, owns the memory
            array = c.unbox(_FLOATS, field).value
            setattr(struct, name, c.context.make_array(_FLOATS)(c.context, c.builder, array).data)
            c.context.nrt.decref(c.builder, _FLOATS, array)
        else:
            setattr(struct, name, c.unbox(types.unliteral(field_type), field).value)
        c.pyapi.decref(field)
    return NativeValue(struct._getvalue(), is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))


@typeof_impl.register(Value)
def _typeof_value(value, context):
    return value._numba_type
