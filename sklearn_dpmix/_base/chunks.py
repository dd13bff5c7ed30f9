"""Rows handled some at a time, so that temporary arrays stay small and a memory map is never copied as a whole."""

CHUNK = 2**18


def chunks(n):
    """Return slices of at most ``CHUNK`` of n rows."""
    return [slice(first, min(first + CHUNK, n)) for first in range(0, n, CHUNK)]
