"""Noise of any kind behind one type: moves are compiled once, and of each kind of noise its densities alone."""

from functools import cache
from math import inf
from typing import Any

from numba.core import config

from ...._base.compiled import Component, compiled, lower
from ...._base.native import FLOAT, FLOATS, INTEGER, address_of, caller_of, native_entry

#: j, nodes, n, mean, log_variance, out, first, second
ARGUMENTS = INTEGER, FLOATS, INTEGER, FLOAT, FLOAT, FLOATS, INTEGER, INTEGER
call = caller_of(ARGUMENTS)
#: nodes, start, n, mean, log_variance, out, first, second
UNSEEN_ARGUMENTS = FLOATS, INTEGER, INTEGER, FLOAT, FLOAT, FLOATS, INTEGER, INTEGER
call_unseen = caller_of(UNSEEN_ARGUMENTS)


class AnyNoise(Component):
    """A channel of which moves know where its densities and its numbers stand in memory, and no more."""

    @compiled
    def fill_normal(self, j, nodes, n, mean, log_variance, out, first, second):
        call(self.function, self.channel, (j, nodes, n, mean, log_variance, out, first, second))

    @compiled
    def fill_unseen(self, nodes, start, n, mean, log_variance, out, first, second):
        call_unseen(self.unseen, self.channel, (nodes, start, n, mean, log_variance, out, first, second))


class NoiseInTable(Component):
    """A channel whose part in the densities stands in the nodes' table: moves ask nothing of it."""


def with_densities(channel: Any) -> Any:
    """The value of a channel for what asks for densities at nodes (``fill_normal``).

    It is another one where records have noise scales of their own: all that asks for none is compiled once for one
    scale and for many.
    """
    of_scales = vars(channel._owner).get("_of_scales")
    if of_scales is None or not channel.each:
        return channel
    return lower(of_scales, {name: getattr(channel, name) for name in channel._fields})


def any_noise(channel: Any) -> Any:
    """The value of :class:`AnyNoise` for a channel's value."""
    if config.DISABLE_JIT:  # type: ignore[attr-defined]
        return with_densities(channel)
    if not hasattr(channel, "_any_noise"):
        dense = with_densities(channel)
        is_cut = getattr(dense, "threshold", -inf) > -inf
        fields = {
            "function": address_of(fill_normal, dense, ARGUMENTS),
            "unseen": address_of(fill_unseen, dense, UNSEEN_ARGUMENTS) if is_cut else 0,  # asked of no other
            "channel": dense._address,
        }
        channel._any_noise = lower(AnyNoise, fields)
        channel._any_noise._behind = dense  # its numbers must stay where they are
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


@native_entry
def fill_unseen(channel, nodes, start, n, mean, log_variance, out, first, second):
    """The same of records whose releases did not appear."""
    channel.fill_unseen(nodes, start, n, mean, log_variance, out, first, second)
