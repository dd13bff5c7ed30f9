"""What holds for all tests: what the compile cache goes by is what is compiled."""

from compiled_reach import Watch
from numba import config
from numba.core import event

if not config.DISABLE_JIT:
    event.register("numba:compile", Watch())
