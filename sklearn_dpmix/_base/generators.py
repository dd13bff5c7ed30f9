"""From ``random_state`` to generators: one independent stream per chain."""

import numbers

import numpy as np


def as_generator(random_state):
    """Return a Generator from None, an int, a SeedSequence, a Generator (itself) or a RandomState."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(as_seed_sequence(random_state))


def as_seed_sequence(random_state):
    """Return a SeedSequence from what scikit-learn's users pass as ``random_state``.

    A Generator or a RandomState is advanced, so that two calls with the same object give different sequences.
    """
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(random_state.integers(2**32, size=4, dtype=np.uint64).tolist())
    if isinstance(random_state, np.random.RandomState):
        return np.random.SeedSequence(random_state.randint(2**31, size=4).tolist())
    if random_state is np.random:
        return as_seed_sequence(np.random.mtrand._rand)
    is_number = isinstance(random_state, numbers.Integral) and not isinstance(random_state, (bool, np.timedelta64))
    if is_number and random_state >= 0:
        return np.random.SeedSequence(int(random_state))
    raise ValueError(
        f"random_state must be None, a non-negative int, a numpy Generator or a RandomState, got {random_state!r}"
    )
