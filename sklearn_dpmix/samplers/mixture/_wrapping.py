"""Samplers that run another sampler, and so have its requirements too."""

from operator import add, and_, or_
from typing import Any

from sklearn.base import clone

from ..._base.typing import Array
from ._sampler import MixtureSampler

#: How what a wrapper asks for and what the other asks for go together, by the beginning of its name.
TOGETHER: dict[str, Any] = {
    "needs_": or_,
    "has_": or_,
    "takes_": and_,
    "keeps_": and_,
    "max_": min,
    "n_": max,
    "kernel_needs": add,
    "float_ranges": or_,
}


def requirements():
    """Names of all that a sampler declares, each with the function that combines two of them."""
    for name, value in vars(MixtureSampler).items():
        if not (name.startswith("_") or callable(value) or isinstance(value, (property, staticmethod))):
            rules = [rule for start, rule in TOGETHER.items() if name.startswith(start)]
            if not rules:
                raise TypeError(f"a wrapping sampler has no rule for {name}: add it to TOGETHER")
            yield name, rules[0]


class WrappingSampler(MixtureSampler):
    """Base class.  A subclass declares what its own part of a sweep requires, and has ``wrapped``, the other sampler.

    The parameter that holds the other sampler is ``sampler``.
    """

    def __init_subclass__(cls, **kwargs):
        super().__init_subclass__(**kwargs)
        for name, together in requirements():
            own = getattr(cls, name)
            if not isinstance(own, property):
                setattr(cls, name, _forwarded(name, own, together))

    @property
    def wrapped(self) -> MixtureSampler:
        """The other sampler."""
        raise NotImplementedError

    @property
    def label(self) -> str:
        return f"{type(self).__name__}({self.wrapped.label})"

    def check(self) -> None:
        self.wrapped.check()

    def resolve(self, mechanism: Any, kernel: Any, mixing: Any = None) -> MixtureSampler:
        return clone(self).set_params(sampler=self.wrapped.resolve(mechanism, kernel, mixing))

    def sized(self, n_records: int, n_features: int) -> MixtureSampler:
        return clone(self).set_params(sampler=self.wrapped.sized(n_records, n_features))

    def restored(self, values: Any, Z: Array, kernel: Any, mixing: Any, state: Any, fresh: Any, n_sweeps: int) -> Any:
        state = super().restored(values, Z, kernel, mixing, state, fresh, n_sweeps)
        return self.wrapped.restored(values, Z, kernel, mixing, state, fresh, n_sweeps)


def _forwarded(name, own, together):
    return property(lambda self: together(own, getattr(self.wrapped, name)))
