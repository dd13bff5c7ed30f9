"""The last number for which something holds."""


def last_where(holds, start, largest):
    """The largest integer from ``start`` to ``largest`` for which ``holds``, true up to it and false beyond.

    It is a float if ``start`` is one.  ``holds`` is not asked about ``start``.
    """
    low, step = start, 1
    while low + step <= largest and holds(low + step):
        low += step
        step *= 2
    high = min(low + step, largest + 1)
    while high - low > 1:
        middle = (low + high) // 2
        if holds(middle):
            low = middle
        else:
            high = middle
    return low
