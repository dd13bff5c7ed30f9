"""Different rows of a table: as ``numpy.unique`` along the first axis, but without sorting rows that are integers."""

import numpy as np

MOST_CELLS = 2**62


def distinct_rows(table):
    """Return (different rows in lexicographic order, the number in them of each row, how often there is each).

    Parameters
    ----------
    table : ndarray of shape (n, n_columns), without NaN

    Returns
    -------
    rows : ndarray of shape (n_different, n_columns)
    inverse : ndarray of shape (n,)
    counts : ndarray of shape (n_different,)
    """
    if not len(table):
        return table, np.empty(0, np.int64), np.empty(0, np.int64)
    cell, n_cells = np.zeros(len(table), np.int64), 1
    for column in table.T:
        place, n_places = _places(column)
        if n_cells > MOST_CELLS // n_places:
            cell, n_cells = _without_gaps(cell, n_cells)
        cell *= n_places
        cell += place
        n_cells *= n_places
    cell, n_different = _without_gaps(cell, n_cells)
    at = np.empty(n_different, np.int64)
    at[cell] = np.arange(len(table))
    return table[at], cell, np.bincount(cell)


def _places(column):
    """Integers from 0 in the order of the values, and a bound on them."""
    if column.dtype in (np.float64, np.int64):  # differences of shorter integers overflow
        low, high = column.min(), column.max()
        if float(high) - float(low) <= len(column):
            place = (column - low).astype(np.int64)
            if np.array_equal(place + low, column):
                return place, int(place.max()) + 1
    values, place = np.unique(column, return_inverse=True)
    return place, len(values)


def _without_gaps(cell, n_cells):
    """The cells numbered anew, in their order, without those that are empty; and how many there are."""
    if n_cells > 4 * len(cell):
        values, cell = np.unique(cell, return_inverse=True)
        return cell, len(values)
    number = np.cumsum(np.bincount(cell, minlength=n_cells) > 0) - 1
    return number[cell], int(number[-1]) + 1
