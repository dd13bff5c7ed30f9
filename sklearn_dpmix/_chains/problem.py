"""What chains are run for, as one value."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from .draws import every_second


class Problem(NamedTuple):
    """How to start chains, to advance them, and to check what a file says of them."""

    #: what identifies the problem: chains go on only if this is unchanged
    data: Any
    #: (rng) -> state
    start: Callable[..., Any]
    #: (state, rng, n_sweeps, n_warmup, thin) -> (state, draws); it is sent to other processes
    advance: Callable[..., Any]
    #: (state, fresh state, n_sweeps) -> state: checks a state of a checkpoint, as in :mod:`sklearn_dpmix._base.restore`
    restored: Callable[..., Any]
    #: (draws): raises ValueError where draws of a checkpoint, finite and of the right shapes, cannot be draws
    check_draws: Callable[..., None] | None = None
    #: how many sweeps may count as one, where draws are worth little
    most_times: int = 1
    #: (draws) -> draws: every second, the last among them
    every_second: Callable[..., Any] = every_second
    #: (times) -> ``advance`` where so many sweeps count as one
    longer: Callable[..., Any] | None = None

    def step(self, pace):
        """What advances a chain at this pace: callable (state, rng, n_sweeps) -> (state, draws)."""
        advance = self.advance if self.longer is None else self.longer(pace.times)
        return partial(advance, n_warmup=pace.n_warmup, thin=pace.thin)
