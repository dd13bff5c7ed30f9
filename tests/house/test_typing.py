"""The public surface has types; that they are the right ones is for ``tests/typing_surface.py`` and mypy."""

import importlib
import inspect

import sklearn_dpmix
from sklearn_dpmix._base.compiled import _is_compiled

PARTS = "datasets kernels mechanisms metrics mixings models plotting privacy queries samplers".split()


def functions_of(found):
    """The package's own functions that a user calls through a public object; compiled ones are called by numba."""
    if inspect.isclass(found):
        bases = [base for base in found.__mro__ if base.__module__.startswith("sklearn_dpmix")]
        members = [
            member for base in bases for name, member in vars(base).items() if name[0] != "_" or name == "__init__"
        ]
    else:
        members = [found]
    for member in members:
        function = getattr(member, "fget", None) or getattr(member, "fn", None) or getattr(member, "__func__", member)
        function = inspect.unwrap(function)
        if (
            inspect.isfunction(function)
            and function.__module__.startswith("sklearn_dpmix")
            and not _is_compiled(function)
        ):
            yield function


def lacks_types(function):
    """Whether a parameter other than self, or the result, has no annotation."""
    signature = inspect.signature(function)
    parameters = [p for name, p in signature.parameters.items() if name not in ("self", "cls")]
    return any(p.annotation is p.empty for p in parameters) or signature.return_annotation is signature.empty


def test_every_public_signature_is_annotated():
    """Catches a public function or method that a user's ``mypy --strict`` would refuse to have called."""
    modules = [sklearn_dpmix, *(importlib.import_module(f"sklearn_dpmix.{part}") for part in PARTS)]
    functions = {f for module in modules for name in module.__all__ for f in functions_of(getattr(module, name))}
    assert len(functions) > 400  # else nothing was found
    assert {f.__qualname__ for f in functions if lacks_types(f) and "<lambda>" not in f.__qualname__} == set()


def test_an_annotation_that_is_missing_is_seen():
    """The broken twin: one parameter, or the result, without a type."""

    def whole(x: int) -> int:
        return x

    def no_result(x: int):
        return x

    def no_parameter(x) -> int:
        return x

    assert [lacks_types(f) for f in (whole, no_result, no_parameter)] == [False, True, True]
