"""How compiled functions are made of parts, in less time than numba takes: linked once, optimised once.

An entry is what Python calls; a part is what only compiled code calls.
"""

import gc
import types as pytypes
from contextlib import contextmanager
from functools import cache

from llvmlite.binding import Linkage, create_pass_builder, create_pipeline_tuning_options, ffi, parse_assembly
from numba.core import base, config, types
from numba.core.base import BaseContext
from numba.core.cgutils import normalize_ir_text
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler, CompilerBase, Flags
from numba.core.types.functions import BaseFunction
from numba.core.typing.context import BaseContext as Typing

from .passes import Passes, is_simple


class Part(JITCodeLibrary):
    """The code of a function that only compiled code calls: linked into the entries that reach it, optimised there.

    numba would optimise it, and make machine code of it, by itself; and link and optimise it again as a part of each
    function that it is linked into, at every level.
    """

    is_inlined = True

    def add_ir_module(self, ir_module):
        """As numba does, without a look whether what it wrote is well formed: entries are looked at as a whole."""
        if not self.is_inlined:
            for function in ir_module.functions:
                if not function.is_declaration:
                    function.attributes.add("noinline")
        module = parse_assembly(normalize_ir_text(str(ir_module)))
        module.name, module.data_layout = ir_module.name, self._codegen._data_layout
        if any(not function.is_declaration for function in self._final_module.functions):
            self._final_module.link_in(module)
        else:
            self._final_module = module

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


class Whole(JITCodeLibrary):
    """The code of an entry: all parts that it reaches are linked into it, each once, and then optimised."""

    def _optimize_functions(self, ll_module):
        ll_module.data_layout = self._codegen._data_layout

    def _optimize_final_module(self):
        """Once: numba would first optimise function by function, and then all of it to find references to prune.

        Loops are not unrolled: it makes a third more code, and none of it is faster.
        """
        tuning = create_pipeline_tuning_options(config.OPT)
        tuning.loop_vectorization, tuning.slp_vectorization = config.LOOP_VECTORIZE, config.SLP_VECTORIZE
        tuning.loop_unrolling = False
        builder = create_pass_builder(self._codegen._tm, tuning)
        passes = builder.getModulePassManager()
        passes.add_refprune_pass()
        passes.run(self._final_module, builder)

    def finalize(self):
        _link_all(self, self._final_module)
        self._linking_libraries = []
        super().finalize()


def _link_all(library, module):
    """Link into a module the code of all that a library reaches, callers first: LLVM drops what nothing calls yet."""
    for callee in reached(library):
        if hasattr(library, "_reload_init"):  # not before numba 0.62
            library._reload_init.update(callee._reload_init)
        code = callee._final_module if isinstance(callee, Part) else callee._get_module_for_linking()
        module.link_in(code, preserve=True)
    for function in module.functions:
        if function.is_declaration and function.name.startswith("_ZN"):
            raise AssertionError(f"{function.name} is called but was not linked")


def reached(library):
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
            waiting.append((callee, iter(callee._linking_libraries if isinstance(callee, Part) else ())))
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
        function = self.state.func_id.func
        has_inner = any(isinstance(constant, pytypes.CodeType) for constant in function.__code__.co_consts)
        if has_inner or not is_simple(function.__globals__.get("__name__")):
            return super().define_pipelines()
        return [Passes(super().define_pipelines)]


class EntryCompiler(_Compiler):
    """Compiles into a :class:`Whole`."""

    def compile_extra(self, func):
        self.state.library = Whole(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.enable_object_caching()
        with _remembered(), _numba_in_parts():
            return super().compile_extra(func)


@contextmanager
def _numba_in_parts():
    """Compile numba's own functions into parts, too: Python never calls them.

    Those that have a library already are linked by numba wherever their types are met.
    """

    def compile_extra(self, func):
        state = self.state
        if type(self) is not Compiler or state.library is not None or not func.__module__.startswith("numba."):
            return CompilerBase.compile_extra(self, func)
        state.flags.no_cpython_wrapper = state.flags.no_cfunc_wrapper = True
        parts = state.typingctx, state.targetctx, None, state.args, state.return_type, state.flags, state.locals
        return PartCompiler(*parts).compile_extra(func)

    Compiler.compile_extra = compile_extra
    try:
        yield
    finally:
        del Compiler.compile_extra


@contextmanager
def _unobserved():
    """Compile without collecting garbage, and without telling numba's timers of each call of LLVM.

    Both take time for each of the many levels of a compilation: garbage is looked for among all that there is, and each
    function that waits for its callees times all calls of LLVM that are made for them.
    """
    collects, observers = gc.isenabled(), list(getattr(getattr(ffi.lib, "_lock", None), "_cblist", ()))
    gc.disable()
    for observer in observers:
        ffi.unregister_lock_callback(*observer)
    try:
        yield
    finally:
        if collects:
            gc.enable()
        for observer in observers:
            ffi.register_lock_callback(*observer)


@contextmanager
def _remembered():
    """Look up once what numba tries a dozen ways each time: operators on numbers, their code, attributes of a type.

    And look into the registries only when one has grown.
    """
    known, call_type, function = {}, BaseFunction.get_call_type, BaseContext.get_function
    attribute, has_loc, refreshers = Typing.resolve_getattr, base._has_loc, (BaseContext.refresh, Typing.refresh)

    def get_call_type(self, context, args, kws):
        if kws or not all(isinstance(argument, _NUMBERS) for argument in args):
            return call_type(self, context, args, kws)
        if (self, args) not in known:
            known[self, args] = call_type(self, context, args, kws)
        return known[self, args]

    def get_function(self, fn, sig, _firstcall=True):
        if not isinstance(fn, BaseFunction) or not all(isinstance(argument, _NUMBERS) for argument in sig.args):
            return function(self, fn, sig, _firstcall)
        if (self, fn, sig) not in known:
            known[self, fn, sig] = function(self, fn, sig, _firstcall)
        return known[self, fn, sig]

    def resolve_getattr(self, typ, attr):
        if isinstance(typ, types.Module):
            return attribute(self, typ, attr)
        if (self, typ, attr) not in known:
            known[self, typ, attr] = attribute(self, typ, attr)
        return known[self, typ, attr]

    def refresh(self):
        place = id(self._registries)  # contexts for other options share them
        if place not in known:
            refreshers[isinstance(self, Typing)](self)
        elif known[place] != _n_registered(self):
            for registry in tuple(self._registries):
                self.install_registry(registry)
        known[place] = _n_registered(self)
        if isinstance(self, BaseContext):
            self.typing_context.refresh()

    BaseFunction.get_call_type, BaseContext.get_function = get_call_type, get_function
    Typing.resolve_getattr, Typing.refresh, BaseContext.refresh = resolve_getattr, refresh, refresh
    base._has_loc = cache(has_loc)  # it reads the signature of what makes the code, for each statement
    try:
        yield
    finally:
        BaseFunction.get_call_type, BaseContext.get_function = call_type, function
        Typing.resolve_getattr, base._has_loc = attribute, has_loc
        BaseContext.refresh, Typing.refresh = refreshers


def _n_registered(context):
    """How much the registries that a context knows hold."""
    loaders = context._registries.items()
    return sum(len(getattr(registry, name)) for registry, loader in loaders for name in loader.registry_items)


_NUMBERS = types.Number, types.Boolean, types.IntegerLiteral, types.BooleanLiteral


class PartCompiler(_Compiler):
    """Compiles into a :class:`Part`."""

    is_inlined = True

    def compile_extra(self, func):
        self.state.library = Part(self.state.targetctx.codegen(), func.__qualname__)
        self.state.library.is_inlined = self.is_inlined
        return super().compile_extra(func)


class ApartCompiler(PartCompiler):
    is_inlined = False
