"""scikit-learn's decorators: it has no types, and a method that an untyped decorator wraps would lose its own."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from .._base.typing import Function

if TYPE_CHECKING:

    def available_if(check: Callable[[Any], bool]) -> Callable[[Function], Function]: ...

    def fit_context(*, prefer_skip_nested_validation: bool) -> Callable[[Function], Function]: ...

    def with_callbacks(method: Function) -> Function: ...

else:
    from sklearn.base import _fit_context as fit_context
    from sklearn.utils.metaestimators import available_if

    from .._chains.progress import with_callbacks

__all__ = ["available_if", "fit_context", "with_callbacks"]
