"""Noise of any kind behind one type: moves are compiled once, and of each kind of noise its densities alone."""

from functools import cache
from typing import Any

from numba.core import config

from ...._base.compiled import Component, compiled, lower
from ...._base.native import FLOAT, FLOATS, INTEGER, address_of, caller_of, native_entry

#: j, nodes, n, mean, log_variance, out, first, second
ARGUMENTS = INTEGER, FLOATS, INTEGER, FLOAT, FLOAT, FLOATS, INTEGER, INTEGER
call = caller_of(ARGUMENTS)


class AnyNoise(Component):
    """A channel of which moves know where its ``fill_normal`` and its numbers stand in memory, and no more."""

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        call(self.function, self.channel, (j, nodes, n, mean, log_variance, out, first, second))


class NoiseInTable(Component):
    """A channel whose part in the densities stands in the nodes' table: moves ask nothing of it."""


def any_noise(channel: Any) -> Any:
    """The value of :class:`AnyNoise` for a channel's value."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return channel
    if not hasattr(channel, "_any_noise"):
        place = address_of(fill_normal, channel, ARGUMENTS)
        channel._any_noise = lower(AnyNoise, {"function": place, "channel": channel._address})
        channel._any_noise._behind = channel  # its numbers must stay where they are
    return channel._any_noise


@cache
def noise_in_table() -> Any:
    """The value of :class:`NoiseInTable`."""
    return lower(NoiseInTable, {})


# --- compiled --------------------------------------------------------------------------------------------------------


@native_entry
def fill_normal(channel, j, nodes, n, mean, log_variance, out, first, second):
    """What :class:`AnyNoise` calls."""
    channel.fill_normal(j, nodes, n, mean, log_variance, out, first, second)
