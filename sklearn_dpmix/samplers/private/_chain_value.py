"""A private chain as a value: a sampler's state and where its noise comes from."""

from typing import Any, NamedTuple

import numpy as np


class PrivateChain(NamedTuple):
    """State of a sampler and its source of noise; none of it is kept after a fit."""

    state: Any
    source: Any

    def advance(self, sampler, n_steps):
        """Return (the chain ``n_steps`` further, θ after each of them)."""
        state, draws = self.state, np.empty((n_steps, len(self.state.theta)))
        for i in range(n_steps):
            state, draws[i] = sampler.step(state, self.source)
        return PrivateChain(state, self.source), draws
