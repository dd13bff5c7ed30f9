"""Checks of a saved state's arrays, before compiled code, which checks no index, uses them.

A state read from a file is compared with a fresh one, made for the same problem by the same code: its arrays are of the
same number, type and shape.  What they may hold, above all where they are indices, the class of the state says in its
``restored(fresh, n_sweeps)``: it returns the state to go on with, or raises ValueError that names the array.
"""

import numpy as np

LARGEST = 1e150
SCRATCH = "work"  # the field that is written before it is read in each sweep: nothing in it is worth reading


def require(holds, name, words):
    """Raise ValueError unless ``holds``."""
    if not np.all(holds):
        raise ValueError(f"its {name} {words}")


def same_layout(fresh, found):
    """Return ``found`` with its arrays in memory as those of ``fresh`` are, and the scratch of ``fresh``.

    Raises ValueError unless the arrays of both have the same types and shapes; text may be longer or shorter.
    """
    arrays = {}
    require(type(fresh) is type(found), "state", f"is a {type(found).__name__}, not a {type(fresh).__name__}")
    for name, one, other in zip(fresh._fields, fresh, found, strict=True):
        one, other = np.asarray(one), np.asarray(other)
        is_text = one.dtype.kind in "SU" and one.dtype.kind == other.dtype.kind
        require(is_text or one.dtype == other.dtype, name, f"is of type {other.dtype}, not {one.dtype}")
        require(one.shape == other.shape, name, f"has shape {other.shape}, not {one.shape}")
        arrays[name] = np.asarray(other, order="C" if one.flags.c_contiguous else "F")
    if SCRATCH in arrays:
        arrays[SCRATCH] = np.array(getattr(fresh, SCRATCH))
    return type(found)(**arrays)


def require_sweeps(found, n_sweeps, name="ints"):
    """Raise unless a state counts as many sweeps as were made."""
    require(found == n_sweeps, name, f"says {found} sweeps, not {n_sweeps}")


def require_finite(**arrays):
    """Raise where a number is not finite, or its square would not be."""
    for name, array in arrays.items():
        require(np.abs(array) < LARGEST, name, "has numbers that are not finite, or too large")


def require_range(least, most, **arrays):
    """Raise where a number is below ``least`` or above ``most``, or is none."""
    for name, array in arrays.items():
        array, ends = np.asarray(array), np.append(most, least)
        words = f"has numbers that are not from {ends.min():g} to {ends.max():g}"
        require((array >= least) & (array <= most), name, words)


def require_whole(known=None, **arrays):
    """Raise where a number is no count, or is not the ``known`` one."""
    for name, array in arrays.items():
        array = np.asarray(array)
        is_count = (array >= 0) & (array == np.floor(array)) & (array < 2**53)
        require(is_count, name, "has numbers that are not whole, or are negative")
        require(known is None or array == known, name, f"is not {known}, as was given to fit")


def require_total(theta, starts):
    """Raise where groups of columns of θ that begin at ``starts`` are not probabilities that add up to 1."""
    require_range(0.0, 1.0 + 1e-9, theta=theta)
    if len(theta):
        totals = np.add.reduceat(theta, starts, axis=-1)
        require(np.abs(totals - 1.0) < 1e-6, "theta", "has probabilities that do not add up to 1")


def require_same(fresh, found, *names):
    """Raise where an array is not what it was at the start: it holds data, or what is known."""
    for name in names:
        require(np.array_equal(getattr(fresh, name), getattr(found, name)), name, "is not what was given to fit")


def check_layout_of_draws(like, found, n_draws):
    """Raise unless ``found`` are ``n_draws`` draws as those in ``like``, of which there are none.

    A class whose arrays do not have a row per draw says what they are itself, in ``check(like, n_draws)``.
    """
    require(type(like) is type(found), "draws", f"are {type(found).__name__}, not {type(like).__name__}")
    for name, one, other in zip(like._fields, like, found, strict=True):
        require(one.dtype == other.dtype, name, f"of the draws is of type {other.dtype}, not {one.dtype}")
        require(one.shape[1:] == other.shape[1:], name, f"of the draws has shape {other.shape}")
        require(np.abs(other) < LARGEST, name, "of the draws has numbers that are not finite, or too large")
        if not hasattr(found, "check"):
            require(other.shape[:1] == (n_draws,), name, f"of the draws has shape {other.shape}, for {n_draws} draws")
    if hasattr(found, "check"):
        found.check(n_draws)
