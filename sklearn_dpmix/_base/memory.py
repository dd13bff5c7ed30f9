"""The fields of a component's value as they lie in memory: what compiled code gets is one pointer to them.

Taken apart into numbers, a value of forty fields would be put together again in every function that it goes to, and
taken apart at every call: a third of the time to compile everything.  Nobody writes to that memory, so loads from it
may leave loops.
"""

import numpy as np
from numba.core import types
from numba.np.numpy_support import as_dtype

WORD = 8  # bytes


def address(array):
    """Where an array's numbers are."""
    return array.__array_interface__["data"][0]


def words_of(kind, field):
    """A field of this numba type, as integers of eight bytes; of arrays and of other values their addresses."""
    if isinstance(kind, types.IntegerLiteral):  # compiled code knows it
        return []
    if isinstance(kind, types.CPointer):
        return [address(field)]
    if isinstance(kind, types.Array):  # without a count of references: the value outlives the call
        return [0, 0, field.size, field.itemsize, address(field), *field.shape, *field.strides]
    if isinstance(kind, types.BaseTuple):
        return [word for one, part in zip(kind.types, field, strict=True) for word in words_of(one, part)]
    if isinstance(kind, (types.Number, types.Boolean)):
        words = np.zeros(n_words(kind), np.int64)
        words.view(np.uint8)[: as_dtype(kind).itemsize] = np.array([field], as_dtype(kind)).view(np.uint8)
        return words.tolist()
    if not hasattr(field, "_address"):
        raise TypeError(f"{kind} has no place in memory")
    return [field._address]


def n_words(kind):
    """How many words such a field takes."""
    if isinstance(kind, types.IntegerLiteral):
        return 0
    if isinstance(kind, types.Array):
        return 5 + 2 * kind.ndim
    if isinstance(kind, types.BaseTuple):
        return sum(map(n_words, kind.types))
    return -(-as_dtype(kind).itemsize // WORD) if isinstance(kind, types.Number) else 1


def load(context, builder, kind, pointer, place):
    """Compile the load of a field that begins at word ``place``."""
    if isinstance(kind, types.IntegerLiteral):
        return context.get_constant(types.intp, kind.literal_value)
    if isinstance(kind, types.BaseTuple):
        parts = []
        for one in kind.types:
            parts.append(load(context, builder, one, pointer, place))
            place += n_words(one)
        return context.make_tuple(builder, kind, parts)
    model = context.data_model_manager[kind]
    start = builder.gep(pointer, [context.get_constant(types.intp, WORD * place)])
    field = builder.load(builder.bitcast(start, model.get_data_type().as_pointer()))
    field.set_metadata("invariant.load", builder.module.add_metadata([]))
    return model.from_data(builder, field) if isinstance(kind, (types.Boolean, types.Complex)) else field
