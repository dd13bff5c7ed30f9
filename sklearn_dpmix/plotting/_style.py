"""What displays share: matplotlib when it is needed, the axes to draw on, and styles that can be printed in grey."""

import numpy as np

#: Okabe and Ito's palette, safe for colour-blind readers.
BLUE, ORANGE, GREEN, PINK, AMBER, SKY, BLACK = COLORS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000"
)  # fmt: skip
PALE = "#C4C4C4"  # confidential records
LINES = ("-", "--", "-.", ":", (0, (6, 1, 1, 1, 1, 1)))
MARKERS = ("o", "D", "s", "^", "v", "P", "X")


def style(i):
    """Colour and line style of the i-th of several lines; 35 combinations differ."""
    return {"color": COLORS[i % len(COLORS)], "linestyle": LINES[i % len(LINES)]}


def require_matplotlib(caller):
    """Return pyplot, or raise an error that says how to install it."""
    try:
        import matplotlib.pyplot as plt
    except ImportError:
        raise ImportError(f"{caller} needs matplotlib: pip install 'sklearn-dpmix[plot]'") from None
    return plt


def one_axes(ax, caller, figsize=(6.0, 4.0)):
    """Return the given axes, or those of a new figure."""
    plt = require_matplotlib(caller)
    if ax is None:
        return plt.subplots(figsize=figsize, layout="constrained")[1]
    _check_axes(ax, "ax must be one matplotlib Axes")
    return ax


def many_axes(ax, n, caller, n_columns=1, panel=(6.0, 1.6)):
    """Return n axes as an array: the given ones, or those of a new figure."""
    plt = require_matplotlib(caller)
    if ax is None:
        n_columns = min(n, n_columns)
        n_rows = -(-n // n_columns)
        figsize = panel[0] * n_columns, panel[1] * n_rows + 0.5
        axes = plt.subplots(n_rows, n_columns, squeeze=False, figsize=figsize, layout="constrained")[1].ravel()
        for spare in axes[n:]:
            spare.remove()
        return axes[:n]
    axes = np.ravel(np.asarray(ax, dtype=object))
    for one in axes:
        _check_axes(one, "ax must be matplotlib Axes")
    if len(axes) != n:
        raise ValueError(
            f"ax must hold {n} Axes, one per quantity, got {len(axes)}: pass plt.subplots({n})[1], or fewer names"
        )
    return axes


def _check_axes(ax, what):
    from matplotlib.axes import Axes

    if not isinstance(ax, Axes):
        raise TypeError(f"{what}, got {ax!r}: pass those of figure, ax = plt.subplots(), or None for a new figure")


def legend_at_top(ax, handles, labels=None):
    """Put a legend within the axes, at the top, and room for it above what is drawn."""
    labels = [handle.get_label() for handle in handles] if labels is None else labels
    look = {"frameon": False, "fontsize": "small", "loc": "upper center", "columnspacing": 1.2, "handlelength": 1.8}
    room = ax.get_window_extent()
    for n_columns in (3, 2, 1):
        legend = ax.legend(handles, labels, ncols=n_columns, **look)
        needs = legend.get_window_extent()
        if needs.width <= room.width:
            break
    share = min(needs.height / room.height, 0.5)
    bottom, top = ax.get_ylim()
    ax.set_ylim(bottom, bottom + (top - bottom) / (1.0 - share))


def label(name, unit=None):
    """Axis label with its unit."""
    return name if unit is None else f"{name} ({unit})"
