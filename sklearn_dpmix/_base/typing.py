"""Types of the public signatures."""

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
Floats: TypeAlias = NDArray[np.float64]
#: what ``random_state=`` takes
Seed: TypeAlias = int | np.integer[Any] | np.random.Generator | np.random.RandomState | np.random.SeedSequence | None
#: a function that a decorator gives back with its signature
Function = TypeVar("Function", bound=Callable[..., Any])
