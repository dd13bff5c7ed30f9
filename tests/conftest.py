"""What holds for all tests: the compile cache goes by what is compiled, and garbage is looked for less often."""

import gc
from functools import cache

import pytest
from compiled_reach import Watch
from numba import config
from numba.core import event

from sklearn_dpmix._base import compiled

if not config.DISABLE_JIT:
    event.register("numba:compile", Watch())

# Half a million objects of imported modules and of numba's types stay to the end: to look at them again and again took
# a twentieth of the tests' time.
gc.set_threshold(20_000, 20, 50)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish(session):
    gc.collect()
    gc.freeze()


@pytest.fixture
def digested_once(monkeypatch):
    """What a twin's methods reach is looked at once, not anew for each block of sweeps: it stays the same in a test."""
    monkeypatch.setattr(compiled, "_register", cache(compiled._register))
