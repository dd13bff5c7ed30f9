"""A component's value as numba has it: one pointer to its fields, as they lie in memory.

Taken apart into numbers, a value of forty fields would be put together again in every function that it goes to, and
taken apart at every call: a third of the time to compile everything.  Nobody writes to that memory, so loads from it
may leave loops.
"""

import hashlib
from functools import cache

import numpy as np
from numba.core import cgutils, types
from numba.core.compiler_lock import global_compiler_lock
from numba.core.typing.templates import AttributeTemplate
from numba.extending import NativeValue, infer_getattr, lower_getattr_generic, models, register_model, unbox
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


class ComponentType(types.Type):
    """Numba type of a value: one subclass for each (class, digest); instances differ by the fields' types."""

    owner = digest = ""

    def __init__(self, fields):
        self.fields, self.names = fields, [name for name, _ in fields]
        super().__init__(f"Component({self.owner}@{self.digest}{fields})")
        self.symbol = f"{self.owner.rpartition('.')[2]}{hashlib.sha1(self.name.encode()).hexdigest()[:16]}"

    @property
    def mangling_args(self):
        """What it is called in the names of compiled functions, which are read and written a thousand times."""
        return self.symbol, ()

    def __reduce__(self):
        return _component_type, (self.owner, self.digest, self.fields)


@global_compiler_lock
def _component_type(owner_name, digest, fields):
    return type_class(owner_name, digest)(fields)


@cache
def type_class(owner_name, digest):
    """The type class of a component; without its methods, so that a cache index naming it can always be read."""
    cls = type("ComponentType", (ComponentType,), {"owner": owner_name, "digest": digest})

    @register_model(cls)
    class _Model(models.PrimitiveModel):
        def __init__(self, dmm, fe_type):
            super().__init__(dmm, fe_type, cgutils.voidptr_t)

    return cls


@infer_getattr
class _Fields(AttributeTemplate):
    key = ComponentType

    def generic_resolve(self, typ, attr):
        return dict(typ.fields).get(attr)


@lower_getattr_generic(ComponentType)
def _getattr(context, builder, typ, val, attr):
    i = typ.names.index(attr)
    place = 1 + sum(n_words(kind) for _, kind in typ.fields[:i])
    return load(context, builder, typ.fields[i][1], val, place)


@unbox(ComponentType)
def _unbox(typ, obj, c):
    """The pointer; the value, alive as long as the call, owns the memory."""
    number = c.pyapi.object_getattr_string(obj, "_address")
    pointer = c.pyapi.long_as_voidptr(number)
    c.pyapi.decref(number)
    return NativeValue(pointer, is_error=cgutils.is_not_null(c.builder, c.pyapi.err_occurred()))
