"""Which of numba's passes a function goes through: those that most need, or all where a variable asks for it."""

from numba.core import types
from numba.core.compiler_machinery import PassManager
from numba.core.errors import TypingError
from numba.core.interpreter import Interpreter
from numba.core.ir import UNDEFINED, Arg, Assign, Const, Expr, FreeVar, Global, Var
from numba.core.lowering import Lower
from numba.core.postproc import PostProcessor
from numba.core.rewrites import rewrite_registry
from numba.core.typed_passes import AnnotateTypes, NativeLowering, NoPythonBackend, NopythonTypeInference
from numba.core.untyped_passes import FixupArgs

from .reach import is_ours

#: numba's modules of numbers and generators
_SCALAR = "numba.cpython.builtins", "numba.cpython.numbers", "numba.np.random."


def is_simple(module):
    """Whether the functions of a module are the package's, or numba's of numbers and generators."""
    return is_ours(module) or str(module).startswith(_SCALAR)


class Passes(PassManager):
    """The passes that most functions need, one after the other; all of numba's, if a variable has several types."""

    def __init__(self, define_all):
        super().__init__("nopython")
        self.define_all = define_all

    def run(self, state):
        try:
            for one in _PASSES:
                one.run_pass(state)
        except TypingError:
            state.func_ir = state.typemap = state.return_type = state.calltypes = None
            (whole,) = self.define_all()
            whole.run(state)


class _Translate:
    """Byte code to numba's statements; what it does for ``with``, dictionaries and stars, only if there are any."""

    def run_pass(self, state):
        state.func_ir = _Interpreter(state.func_id).interpret(state.bc)


class _Interpreter(Interpreter):
    def post_process(self, peepholes, func_ir):
        names = "".join({instruction.opname for instruction in self.bytecode})
        needs = any(part in names for part in ("WITH", "SPECIAL", "POP_BLOCK", "MAP", "DICT", "LIST", "_EX"))
        return super().post_process(peepholes, func_ir) if needs else func_ir


class _Rewrites:
    """numba's rewrites before types are known."""

    def run_pass(self, state):
        function = state.func_ir
        for rewriter in rewrite_registry.rewrites["before-inference"]:
            rewrite, waiting = rewriter(state), list(function.blocks.items())
            while waiting:
                label, block = waiting.pop()
                if rewrite.match(function, block, state.typemap, state.calltypes):
                    function.blocks[label] = rewrite.apply()
                    waiting.append((label, function.blocks[label]))


class _OneType:
    """Check that each variable has one type: numba would make several variables of it."""

    def run_pass(self, state):
        seen = {}
        for block in state.func_ir.blocks.values():
            for assign in block.find_insts(Assign):
                name = assign.target.name
                if not name.startswith("$"):
                    seen.setdefault(name, []).append(assign.value)
        for name, values in seen.items():
            if len(values) > 1 and len({types.unliteral(_type_of(state, name, value)) for value in values}) > 1:
                raise TypingError(f"{name} has several types")


def _type_of(state, name, value):
    """The type of what a variable of that name is assigned."""
    if isinstance(value, Var):
        return state.typemap[value.name]
    if isinstance(value, Arg):
        return state.args[value.index]
    if isinstance(value, (Const, Global, FreeVar)):
        return state.typingctx.resolve_value_type(value.value)
    if isinstance(value, Expr) and value.op == "getattr":
        return state.typingctx.resolve_getattr(state.typemap[value.value.name], value.attr)
    signature = state.calltypes.get(value) if isinstance(value, Expr) else None
    return state.typemap[name] if signature is None else signature.return_type


class _Lifetimes:
    """Note where variables end, if references to them are counted."""

    def run_pass(self, state):
        if state.flags.nrt:
            PostProcessor(state.func_ir).run(emit_dels=True)


class _Lower(Lower):
    """numba's, with two short cuts: operators without constants, and variables of which no references are counted."""

    def lower_block(self, block):
        self.pre_block(block)
        for statement in block.body:
            self.loc = statement.loc
            if isinstance(statement, Assign) and not isinstance(statement.value, Arg):
                name = statement.target.name
                self.storevar(self.lower_assign(self.typeof(name), statement), name)
            else:
                self.lower_inst(statement)
        self.post_block(block)

    def storevar(self, value, name, argidx=None):
        if self.context.enable_nrt or argidx is not None or name in self._singly_assigned_vars:
            super().storevar(value, name, argidx)
        else:
            self._alloca_var(name, self.typeof(name))
            self.builder.store(value, self.getvar(name))

    def lower_binop(self, resty, expr, op):
        if not (expr.static_lhs is expr.static_rhs is UNDEFINED):
            return super().lower_binop(resty, expr, op)
        context, builder, signature = self.context, self.builder, self.fndesc.calltypes[expr]
        function = context.typing_context.resolve_value_type(op)
        operands = [
            context.cast(builder, self.loadvar(operand.name), self.typeof(operand.name), wanted)
            for operand, wanted in zip((expr.lhs, expr.rhs), signature.args, strict=True)
        ]
        called = function.get_call_type(context.typing_context, signature.args, {})
        result = context.get_function(function, called)(builder, operands)
        return context.cast(builder, result, signature.return_type, resty)


class _Lowering(NativeLowering):
    @property
    def lowering_class(self):
        return _Lower


#: numba's without those for closures, unrolling, array expressions, None, variables of several types
_PASSES = (
    _Translate(),
    FixupArgs(),
    _Rewrites(),
    NopythonTypeInference(),
    _OneType(),
    _Lifetimes(),
    AnnotateTypes(),
    _Lowering(),
    NoPythonBackend(),
)
