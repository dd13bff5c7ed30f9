"""Compiled functions that other compiled functions call by their address.

What calls one does not depend on its type: it is compiled once, whichever function stands at the address.  Only the
function at the address is compiled for each type of component, and kept on disk under that type's digest.
"""

from typing import Any

import llvmlite.ir as llvm
from numba import types
from numba.extending import intrinsic

from .compiled import entry
from .typing import Function

INTEGER, FLOAT, FLOATS = types.int64, types.float64, types.CPointer(types.float64)


def native_entry(function: Function) -> Function:
    """An entry that has an address.  Its first argument is a component's value, and it returns nothing."""
    return entry(function, no_cfunc_wrapper=False)


def address_of(function: Any, value: Any, argument_types: tuple) -> int:
    """Where a :func:`native_entry` stands, compiled for this component's value and further arguments of these types."""
    argument_types = (value._numba_type, *argument_types)
    function.compile(argument_types)
    compiled = function.overloads[argument_types]
    return compiled.library.get_pointer_to_function(compiled.fndesc.llvm_cfunc_wrapper_name)


def caller_of(argument_types: tuple) -> Any:
    """A function for compiled code: of a :func:`native_entry`'s address, a value's address, and such arguments."""

    def typed(typing_context, function, value, arguments):
        def generate(context, builder, signature, given):
            function, value, arguments = given
            pointer = llvm.IntType(8).as_pointer()
            kind = llvm.FunctionType(pointer, [pointer, *map(context.get_value_type, argument_types)])
            arguments = [builder.extract_value(arguments, i) for i in range(len(argument_types))]
            builder.call(builder.inttoptr(function, kind.as_pointer()), [builder.inttoptr(value, pointer), *arguments])
            return context.get_dummy_value()

        return types.none(types.int64, types.int64, types.Tuple(argument_types)), generate

    return intrinsic(typed)
