"""What chains are run for, as one value."""

from collections.abc import Callable
from typing import Any, NamedTuple


class Problem(NamedTuple):
    """How to start chains, to advance them, and to check what a file says of them."""

    #: what tells it from another one: chains go on only where it is the same
    data: Any
    #: (rng) -> state
    start: Callable[..., Any]
    #: (state, rng, n_sweeps, n_warmup, thin) -> (state, draws); it is sent to other processes
    advance: Callable[..., Any]
    #: (state, fresh state, n_sweeps) -> state: checks a state of a checkpoint, as in :mod:`sklearn_dpmix._base.restore`
    restored: Callable[..., Any]
    #: (draws): raises ValueError where draws of a checkpoint, finite and of the right shapes, cannot be draws
    check_draws: Callable[..., None] | None = None
    #: how many sweeps may count as one, where draws are worth little: if several, states have
    #: ``slowed(n_sweeps, most)``, which returns one where twice as many do, with so many behind it, and draws have
    #: ``every_second()``
    most_times: int = 1
