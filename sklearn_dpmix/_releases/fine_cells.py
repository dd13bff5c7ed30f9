"""Chebyshev moments of the records in many narrow cells of the line: one pass, any number of batches, added up.

Cells are on a grid that does not depend on the data, of widths h, 2h, 4h, ...; kinks of a channel cut it into parts of
as many cells each, so that no cell reaches across one.  Where more cells have records than there may be, pairs of them
become one: moments of a cell are linear in those of its halves.  So the width at the end is the least at which the
occupied cells are few enough, a property of the records as a whole: neither their order nor how they came in batches
changes anything but rounding.
"""

from math import floor, isfinite
from typing import NamedTuple

import numpy as np
from numpy.polynomial import chebyshev

from .._base.compiled import Component, entry, lower, sums_helper
from .nodes import gauss_rules, ordered

N_MOMENTS = 8  # of a cell: of T_0 to T_7, for a rule of four nodes
EMPTY = -(2**62)  # key of a free row
FARTHEST = 2.0**50  # cells from the origin


class Grid(NamedTuple):
    """Where cells begin, their width, and the ends beyond which records count as being at the ends.

    With kinks between the ends, the width is that in the longest part.
    """

    origin: float
    width: float
    low: float
    high: float
    kinks: tuple[float, ...] = ()

    def parts(self):
        """(Where each part begins, the width of its cells, where it ends, how many cells each part has)."""
        if not isfinite(self.high):
            return np.array([self.origin]), np.array([self.width]), np.array([np.inf]), 0
        ends = np.array([self.low, *self.kinks, self.high])
        lengths = np.diff(ends)
        n = round(lengths.max() / self.width)
        return ends[:-1], lengths / n, ends[1:], n


class Sums(NamedTuple):
    """Number, mean, sum of squares about it, least and largest of some records."""

    n: int = 0
    mean: float = 0.0
    squares: float = 0.0
    least: float = np.inf
    largest: float = -np.inf

    def joined(self, other):
        """The sums of both (Chan, Golub & LeVeque 1983)."""
        n = self.n + other.n
        if not self.n or not other.n:
            return other if other.n else self
        apart = other.mean - self.mean
        return Sums(
            n,
            self.mean + apart * (other.n / n),
            self.squares + other.squares + apart * apart * (self.n / n) * other.n,
            min(self.least, other.least),
            max(self.largest, other.largest),
        )


class FineCells(NamedTuple):
    """Occupied cells in order; the grid's width is theirs."""

    grid: Grid
    keys: np.ndarray  # (cells,) int64: number of cells from the origin
    moments: np.ndarray  # (cells, N_MOMENTS): Σ T_p(t), t from -1 to 1 across the cell
    at_ends: np.ndarray  # (2,): records at either end

    def added(self, z, most):
        """(These cells and the records ``z``, the sums of the records); at most ``most`` cells."""
        z = np.ascontiguousarray(z).view(np.ndarray)  # one type for compiled code, of memory maps too
        z.flags.writeable = False
        cells, sums, first = self.reaching(z), Sums(), 0
        while first < len(z):
            keys, moments = cells.table(most)
            at_ends, found = cells.at_ends.copy(), np.array([0.0, 0.0, np.inf, -np.inf])
            shift = float(np.median(z[first : first + 99]))
            n = add_records(cells.line(), z[first:], shift, keys, moments, at_ends, most - len(cells.keys), found)
            if n:
                total, squares, least, largest = found.tolist()
                squares = max(squares - total * (total / n), 0.0)
                sums = sums.joined(Sums(n, shift + total / n, squares, least, largest))
            order = np.argsort(keys, kind="stable")[(keys == EMPTY).sum() :]
            cells, first = FineCells(cells.grid, keys[order], moments[order], at_ends), first + n
            if first < len(z):
                cells = cells.coarser()
        return cells, sums

    def line(self):
        """The grid as compiled code sees it."""
        starts, widths, ends, n = self.grid.parts()
        last = n - 1 if n else -EMPTY  # rounding must not put a record beyond the last cell
        fields = {"starts": starts, "rates": 1.0 / widths, "ends": ends, "n_each": np.int64(n), "last": np.int64(last)}
        return lower(Line, fields | {"low": float(self.grid.low), "high": float(self.grid.high)})

    def table(self, most):
        """The cells in a table with room for twice as many as there may be, each in the row of its key's last bits."""
        size = 2 << int(most - 1).bit_length()
        keys, moments = np.full(size, EMPTY), np.zeros((size, N_MOMENTS))
        rows = self.keys & (size - 1)
        taken = set()
        if len(np.unique(rows)) < len(rows):  # cells far apart: the next free row
            for k, row in enumerate(rows.tolist()):
                while row in taken:
                    row = (row + 1) & (size - 1)
                taken.add(row)
                rows[k] = row
        keys[rows], moments[rows] = self.keys, self.moments
        return keys, moments

    def reaching(self, z):
        """Cells so wide that no record is too many of them from the origin."""
        cells = self
        if np.isfinite(cells.grid.high) or not len(z):
            return cells
        farthest = max(float(z.max()), -float(z.min()))
        while farthest > cells.grid.width * FARTHEST:
            cells = cells.coarser()
        return cells

    def coarser(self):
        """Cells twice as wide."""
        halves = np.einsum("cpq,cq->cp", OF_HALVES[self.keys & 1], self.moments)
        keys, starts = np.unique(self.keys >> 1, return_index=True)
        moments = np.add.reduceat(halves, starts) if len(keys) else halves
        return self._replace(grid=self.grid._replace(width=2.0 * self.grid.width), keys=keys, moments=moments)

    def joined(self, other, most):
        """The cells of both."""
        one, other = self, other
        while one.grid.width < other.grid.width:
            one = one.coarser()
        while other.grid.width < one.grid.width:
            other = other.coarser()
        keys, places = np.unique(np.append(one.keys, other.keys), return_inverse=True)
        moments = np.zeros((len(keys), N_MOMENTS))
        for p, column in enumerate(np.concatenate([one.moments, other.moments]).T):
            moments[:, p] = np.bincount(places, column, minlength=len(keys))
        cells = FineCells(one.grid, keys, moments, one.at_ends + other.at_ends)
        while len(cells.keys) > most:
            cells = cells.coarser()
        return cells

    def nodes(self, n_moments=N_MOMENTS):
        """The rules of all cells, of so many moments, and the ends where records are."""
        grid, (places, weights) = self.grid, gauss_rules(self.moments[:, :n_moments])
        starts, widths, _, n = grid.parts()
        part, cell = np.divmod(self.keys, n) if n else (np.zeros_like(self.keys), self.keys)
        places = starts[part, None] + widths[part, None] * (cell[:, None] + 0.5 * (places + 1.0))
        is_node, is_end = weights > 0.0, self.at_ends > 0
        ends = np.array([grid.low, grid.high])
        places = np.append(np.clip(places[is_node], *ends), ends[is_end])
        return ordered(places, np.append(weights[is_node], self.at_ends[is_end]))


def no_cells(grid):
    """Cells of a grid before the first record."""
    return FineCells(grid, np.empty(0, np.int64), np.empty((0, N_MOMENTS)), np.zeros(2))


def of_half(shift):
    """(p, q): T_p((x + shift)/2) = Σ_q c_pq T_q(x)."""
    x = chebyshev.chebpts1(N_MOMENTS)
    of_cell = chebyshev.chebvander(0.5 * (x + shift), N_MOMENTS - 1)
    return np.linalg.solve(chebyshev.chebvander(x, N_MOMENTS - 1), of_cell).T


OF_HALVES = np.array([of_half(-1.0), of_half(1.0)])


class Line(Component):
    """The line in parts, each cut into as many cells: where parts begin and end, their cells' rate and last one."""


@sums_helper
def add_until_full(line, z, shift, keys, moments, at_ends, room, found):
    """Add records to their cells up to one that needs a new cell where there is no room; return how many."""
    low, high, last = line.low, line.high, line.last
    mask = keys.size - 1
    total, squares, least, largest, n = 0.0, 0.0, found[2], found[3], z.size
    for i in range(z.size):
        x = z[i]
        if x <= low:
            at_ends[0] += 1.0
        elif x >= high:
            at_ends[1] += 1.0
        else:
            part = 0
            while x >= line.ends[part]:
                part += 1
            distance = (x - line.starts[part]) * line.rates[part]
            cell = min(floor(distance), last)
            key = cell + part * line.n_each
            row = key & mask
            while keys[row] != key and keys[row] != EMPTY:
                row = (row + 1) & mask
            if keys[row] != key:
                if room == 0:
                    n = i
                    break
                room -= 1
                keys[row] = key
            now = 2.0 * (distance - cell) - 1.0
            before, twice, of_cell = 1.0, 2.0 * now, moments[row]
            of_cell[0] += 1.0
            for p in range(1, N_MOMENTS):
                of_cell[p] += now
                before, now = now, twice * now - before
        d = x - shift
        total += d
        squares += d * d
        least, largest = min(least, x), max(largest, x)
    found[0], found[1], found[2], found[3] = total, squares, least, largest
    return n


@entry
def add_records(model, z, shift, keys, moments, at_ends, room, found):
    """As :func:`add_until_full`; ``found`` gets Σ(z - shift), its squares' sum, the least and the largest record."""
    return add_until_full(model, z, shift, keys, moments, at_ends, room, found)
