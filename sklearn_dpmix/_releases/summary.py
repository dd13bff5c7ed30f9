"""A release of any number of records, one by one, in a few hundred kilobytes."""

import json
import os
from copy import deepcopy
from math import ceil, floor, log2
from typing import Any, Self
from zipfile import is_zipfile

import numpy as np
from numpy.typing import ArrayLike

from .. import mechanisms
from .._base.files import DAMAGE, replacing, resolved
from .._base.parameters import check_array, positive_number, refuse_class
from .._base.restore import require, require_finite, require_range, require_whole
from .fine_cells import FARTHEST, N_MOMENTS, FineCells, Grid, Sums, no_cells
from .nodes import FEW, Nodes

FORMAT, VERSION = "sklearn_dpmix summary", 1
MOST_CELLS = 2**12  # with records in them, where no width is asked for
MOST_OF_WIDTH = 2**18  # where one is
WIDEST = 2.0**-7  # of the noise's scale: no wider cells to begin with, however far apart the bounds are
MOST_RECORDS = 2**53
LARGEST = 1e150  # squares of larger numbers overflow


class ReleaseSummary:
    """All that a fit needs from privatised records, in a few hundred kilobytes whatever their number.

    Batches are added one by one, and summaries of parts can be merged, also from other machines.  Up to rounding, the
    result is that of all records at once, in any order.  ``PrivateDPMixture(mechanism).fit(summary)`` takes it in place
    of the records.  It is for one feature through one channel: additive noise with one scale (``LaplaceMechanism`` and
    ``GaussianMechanism``, ``DiscreteGaussianMechanism`` with σ of at least 12, or noise of your own on bounded
    records), or a window mechanism with one ε (``SquareWaveMechanism``, ``PiecewiseMechanism``, ``HybridMechanism``).

    Parameters
    ----------
    mechanism : mechanism object
        The mechanism that made the release.  A summary is valid for the noise and the bounds of one mechanism.
    width : float, optional
        Largest width of a cell of the summary, in units of the release; a cell with records takes 64 bytes.  None: such
        that at most 4096 cells have records (under bounds with clamping, at first a 4096th of their range, or a 64th of
        the noise's scale if that is less; for window mechanisms, a 1024th of each of three parts).  A fit that needs
        narrower cells, for narrow components, warns with the number to pass here.

    Attributes
    ----------
    n_records : int
        Number of records so far.
    n_batches : int
        Number of batches so far, those of merged summaries included.
    cell_width : float or None
        Current width of the cells; None while there are at most 150 records, which are kept as they are.

    Notes
    -----
    The records in a cell are replaced by moments of Chebyshev polynomials of degree up to seven, whose Gauss rule has
    four nodes.  This is exact for log likelihoods that are such polynomials in each cell.  Fits work with cells at
    least eight times as wide, so the error is far below rounding; their ``compression_error_`` includes it.  A summary
    is a function of the release, so it needs no more protection than that.  Only one thread at a time may change a
    summary: give each its own, and merge them.

    References
    ----------
    Gautschi (2004), algorithm 2.1, for Gauss rules from modified moments; Chan, Golub & LeVeque (1983) for variances of
    parts.

    Examples
    --------
    >>> import numpy as np
    >>> from sklearn_dpmix import ReleaseSummary
    >>> from sklearn_dpmix.mechanisms import LaplaceMechanism
    >>> mechanism = LaplaceMechanism(epsilon=2.0, bounds=(0, 1))
    >>> Z = mechanism.privatize(np.full((3000, 1), 0.5), random_state=0)
    >>> first = ReleaseSummary(mechanism).update(Z[:1000]).update(Z[1000:2000])
    >>> first.merge(ReleaseSummary(mechanism).update(Z[2000:]))
    ReleaseSummary(LaplaceMechanism(bounds=(0, 1), epsilon=2.0), n_records=3000, cell_width=0.000244)
    """

    def __init__(self, mechanism: mechanisms.RecordChannel, *, width: float | None = None) -> None:
        check_mechanism(mechanism)
        self.mechanism = deepcopy(mechanism)
        self.width = None if width is None else positive_number("width", width)
        self.n_batches = 0
        self._most_cells = MOST_CELLS if width is None else MOST_OF_WIDTH
        self._column: str | None = None
        self._hold(Sums(), np.empty(0), no_cells(self._grid(self.width)))

    def _hold(self, sums, records, cells):
        if sums.n >= MOST_RECORDS:
            raise ValueError(f"these are {sums.n} records, and a summary holds fewer than 2**53; it is unchanged")
        self._sums, self._records, self._cells, self._nodes = sums, records, cells, None

    def _narrow(self, width):
        """Make the cells of a summary without records at most this wide, as long as those with records are not many."""
        self._most_cells = MOST_OF_WIDTH
        self._hold(Sums(), np.empty(0), no_cells(self._grid(width)))

    def _grid(self, width):
        kinks = np.unique(self.mechanism.kinks(1))
        if kinks.size:
            longest = float(np.diff(kinks).max())
            least = max(longest / width, 2.0) if width is not None else self._fewest(longest, len(kinks) - 1)
            n, most = 2.0 ** (floor(log2(least)) if width is None else ceil(log2(least))), FARTHEST / (len(kinks) - 1)
            if self.width is not None and n > most:
                raise self._too_narrow()
            n = min(n, 2.0 ** floor(log2(most)))
            low, *inner, high = kinks.tolist()
            return Grid(low, longest / n, low, high, tuple(inner))
        width = float(np.max(self.mechanism.noise_scale)) / 1024.0 if width is None else width
        return Grid(0.0, 2.0 ** floor(log2(width)), -np.inf, np.inf)

    def _fewest(self, longest, n_parts):
        """Cells of a part at first; if too many of them hold records later, neighbours are merged in pairs."""
        noise = np.inf if self.mechanism.noise_scale is None else self.mechanism.noise_scale
        return min(max(MOST_CELLS / n_parts, longest / (WIDEST * noise)), FARTHEST / n_parts)

    def _too_narrow(self):
        return ValueError(
            f"width={self.width!r} would cut this release into more than {MOST_OF_WIDTH} cells: pass a larger width"
        )

    def __repr__(self) -> str:
        width = "" if self.cell_width is None else f", cell_width={self.cell_width:.3g}"
        return f"ReleaseSummary({self.mechanism!r}, n_records={self.n_records}{width})"

    @property
    def n_records(self) -> int:
        return self._sums.n

    @property
    def cell_width(self) -> float | None:
        return None if self.n_records <= FEW else self._cells.grid.width

    def update(self, batch: ArrayLike) -> Self:
        """Add privatised records.

        Parameters
        ----------
        batch : array-like of shape (n, 1)
            As they were released.

        Returns
        -------
        self

        Raises
        ------
        ValueError
            For a batch that is not one column of finite numbers, or of another column than the earlier ones (if columns
            have names).  The error has the number of the batch, from 0, and the summary does not change.
        """
        self._add(*checked_batch(batch, f"batch {self.n_batches}", self.mechanism))
        return self

    def _add(self, z, column):
        """Add checked records."""
        column, z = self._same_column(column, f"batch {self.n_batches}"), self.mechanism.on_line(z)
        if len(self._records) == self.n_records and self.n_records + len(z) <= FEW:
            _, sums = no_cells(self._grid(self.width)).added(z, self._most_cells)
            parts = self._sums.joined(sums), np.sort(np.append(self._records, z)), self._cells
        else:
            cells, sums = self._folded().added(z, self._most_cells)
            self._check_width(cells)
            parts = self._sums.joined(sums), np.empty(0), cells
        self._hold(*parts)
        self._column, self.n_batches = column, self.n_batches + 1

    def _folded(self):
        """The cells, with the few records put in."""
        return self._cells.added(self._records, self._most_cells)[0] if len(self._records) else self._cells

    def _check_width(self, cells):
        if self.width is not None and cells.grid.width > self.width:
            raise self._too_narrow()

    def _same_column(self, column, who):
        if column is not None and self._column is not None and column != self._column:
            raise ValueError(
                f"{who} has column {column!r}, but this summary was built from {self._column!r}; the summary is "
                "unchanged: pass records of one column"
            )
        return self._column if column is None else column

    def merge(self, other: "ReleaseSummary") -> Self:
        """Add the records of another summary, which does not change.

        Parameters
        ----------
        other : ReleaseSummary
            A summary with the same mechanism, bounds and ``width``.

        Returns
        -------
        self

        Raises
        ------
        TypeError, ValueError
            If ``other`` is not a summary, is this one, or has another mechanism, width or column; this summary then
            does not change.
        """
        if not isinstance(other, ReleaseSummary):
            raise TypeError(f"other must be a ReleaseSummary, got {type(other).__name__}: update() takes records")
        if other is self:
            raise ValueError("other is this summary itself, whose records would count twice: merge another one")
        self._check_same_mechanism(other.mechanism, "the other summary's is")
        if self.width != other.width:
            raise ValueError(
                f"the summaries have width={self.width!r} and width={other.width!r}: make both with the same width"
            )
        column = self._same_column(other._column, "the other summary")
        sums = self._sums.joined(other._sums)
        if sums.n <= FEW:
            self._hold(sums, np.sort(np.append(self._records, other._records)), self._cells)
        else:
            cells = self._folded().joined(other._folded(), self._most_cells)
            self._check_width(cells)
            self._hold(sums, np.empty(0), cells)
        self._column, self.n_batches = column, self.n_batches + other.n_batches
        return self

    def _check_same_mechanism(self, mechanism, who="the model's mechanism is"):
        """Raise ValueError unless a mechanism, which ``who`` names, makes the same releases as the summary's."""
        if mechanism is None or mechanism.law() != self.mechanism.law():
            raise ValueError(
                f"this summary was built from releases of {self.mechanism!r}, but {who} {mechanism!r}: noise, bounds "
                "and clamp must be the same"
            )

    def nodes(self) -> Nodes:
        """Places and weights that stand for the records: the records while they are few, later the cells' Gauss rules.

        Returns
        -------
        places, weights : ndarrays of one length
            Places in increasing order; under Laplace noise with clamping, releases beyond the bounds are moved to the
            bounds, where their likelihood is the same up to a factor.
        """
        if self._nodes is None:
            if self.n_records <= FEW:
                self._nodes = Nodes(self.mechanism.folded(self._records), np.ones(self.n_records))
            else:
                self._nodes = self._cells.nodes()
        return Nodes(*(part.copy() for part in self._nodes))  # theirs to change, as the records are not

    def _rougher_nodes(self):
        """As :meth:`nodes`, with one node less in each cell."""
        return self.nodes() if self.n_records <= FEW else self._cells.nodes(N_MOMENTS - 2)

    def _contents(self):
        """Everything in the summary, as arrays and numbers."""
        return (tuple(self._sums), self._records, *self._cells[1:], float(self._cells.grid.width), self.width)

    def __getstate__(self) -> dict[str, Any]:
        return vars(self) | {"_nodes": None}

    # --- files -------------------------------------------------------------------------------------------------------

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the summary to a file (``numpy.savez``'s format, without pickles), replacing an old one in one step.

        Parameters
        ----------
        path : str or path
            ``~`` is the home folder.

        Raises
        ------
        TypeError
            For a mechanism that is not from this package, since :meth:`load` could not make it.
        OSError
            Where the file cannot be written.
        """
        kind = type(self.mechanism)
        if getattr(mechanisms, kind.__name__, None) is not kind:
            raise TypeError(
                f"save takes mechanisms of sklearn_dpmix.mechanisms, got {self.mechanism!r}: pickle the summary instead"
            )
        header = {
            "format": FORMAT,
            "version": VERSION,
            "mechanism": kind.__name__,
            "parameters": {name: plain(value) for name, value in self.mechanism.get_params(deep=False).items()},
            "width": self.width,
            "cell_width": float(self._cells.grid.width),
            "column": self._column,
            "n_batches": self.n_batches,
        }
        arrays = {"keys": self._cells.keys, "moments": self._cells.moments, "at_ends": self._cells.at_ends}
        arrays |= {"records": self._records, "sums": np.array(self._sums, dtype=np.float64)}
        path = resolved("path", path)
        try:
            with replacing(path) as file:
                np.savez_compressed(file, header=np.frombuffer(json.dumps(header).encode(), np.uint8), **arrays)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
            raise type(error)(  # it named a temporary file
                error.errno,
                f"{error.strerror}: pass the path of a file in a folder that exists and can be written",
                path,
            ) from error

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a summary.

        Parameters
        ----------
        path : str or path

        Returns
        -------
        summary : ReleaseSummary

        Raises
        ------
        FileNotFoundError
        ValueError
            For a file that is damaged, or is not a summary.
        """
        path = resolved("path", path)
        with open(path, "rb") as file:
            try:
                require(is_zipfile(file), "contents", "are no archive")
                file.seek(0)
                with np.load(file, allow_pickle=False) as arrays:
                    header = json.loads(arrays["header"].tobytes())
                    require(header["format"] == FORMAT and header["version"] == VERSION, "header", "is another file's")
                    mechanism = getattr(mechanisms, header["mechanism"])(**header["parameters"])
                    summary = cls(mechanism, width=header["width"])
                    summary._restore(header, **{name: arrays[name] for name in arrays.files if name != "header"})
            except DAMAGE as error:
                raise ValueError(
                    f"path={path!r} cannot be read as a summary ({error}): restore the file from a backup, or build "
                    "the summary again"
                ) from error
        return summary

    def _restore(self, header, *, keys, moments, at_ends, records, sums):
        grid = self._cells.grid
        require((moments.shape == (len(keys), N_MOMENTS)) & (keys.ndim == 1), "moments", f"have shape {moments.shape}")
        require((at_ends.shape == (2,)) & (sums.shape == (5,)) & (records.ndim == 1), "arrays", "are of other shapes")
        require(keys.dtype == np.int64 and len(keys) <= self._most_cells, "keys", "are not those of cells")
        require(np.all(np.diff(keys) > 0), "keys", "are not in order")
        require_range(-FARTHEST, FARTHEST, keys=keys)
        require_whole(moments=moments[:, 0], at_ends=at_ends, sums=sums[0])
        require(np.all(np.abs(moments) <= moments[:, :1] * (1.0 + 1e-9)), "moments", "are larger than the counts")
        require_finite(records=records)
        n, factor = int(sums[0]), header["cell_width"] / grid.width
        is_one = 1.0 <= factor <= (grid.parts()[3] or np.inf) and log2(factor) % 1.0 == 0.0
        require(is_one, "cell_width", "is not one of this mechanism")
        require(len(records) == (n if n <= FEW else 0), "records", f"are {len(records)}, not {n if n <= FEW else 0}")
        require(moments[:, 0].sum() + at_ends.sum() == (0 if n <= FEW else n), "moments", "are not of all records")
        if n:
            require_finite(sums=sums[[1, 3, 4]])
            require(sums[3] <= sums[1] <= sums[4] and 0 <= sums[2] < np.inf, "sums", "contradict each other")
        require(
            isinstance(header["column"], str | None) and type(header["n_batches"]) is int,
            "header",
            "has no valid column or number of batches",
        )
        self._column, self.n_batches = header["column"], header["n_batches"]
        grid = grid._replace(width=float(header["cell_width"]))
        floats = [np.ascontiguousarray(part, dtype=np.float64) for part in (moments, at_ends)]
        self._hold(Sums(n, *sums[1:].tolist()), np.array(records, float), FineCells(grid, keys, *floats))


def check_mechanism(mechanism):
    """Raise unless releases of the mechanism can be summarised."""
    refuse_class("mechanism", mechanism)
    kernels = getattr(mechanism, "noised_kernels", frozenset()) | getattr(mechanism, "tabulated_kernels", frozenset())
    is_offered = not kernels.isdisjoint({"normal", "truncated_normal"})
    is_offered = is_offered and not mechanism.releases_records and mechanism.tables in (None, "noise")
    if not is_offered or not mechanism.is_local:
        raise ValueError(
            "a summary takes releases of single records under additive noise, such as LaplaceMechanism(epsilon=1.0, "
            "bounds=(0, 1)) or GaussianMechanism (noise of your own, too), or by "
            f"SquareWaveMechanism, PiecewiseMechanism or HybridMechanism, got mechanism={mechanism!r}: fit the "
            "records themselves"
        )
    if mechanism.is_grained:
        raise ValueError(
            f"a summary keeps no integers apart, and under mechanism={mechanism!r} they matter: fit an array (with "
            "DiscreteGaussianMechanism and a scale of at least 12 they do not)"
        )
    if np.ndim(getattr(mechanism, "bounds", None)) == 2 and len(mechanism.bounds) > 1:
        raise ValueError(f"a summary takes one feature for now, got bounds of {len(mechanism.bounds)}: {mechanism!r}")
    mechanism.check(1)
    if not mechanism.has_one_law:
        raise ValueError(
            "a summary does not keep which record had which noise, so it needs one noise scale for all records, got "
            f"mechanism={mechanism!r}: fit all records at once, as an array"
        )


def checked_batch(batch, who, mechanism):
    """(Records as a vector of finite floats, name of their column or None)."""
    if isinstance(batch, ReleaseSummary):
        raise TypeError(f"{who} is a ReleaseSummary: merge() adds one to another; the summary is unchanged")
    names = getattr(batch, "column_names", getattr(batch, "columns", None))
    try:
        if hasattr(batch, "column_names") and len(names) == 1:  # of Arrow: without a copy
            batch = np.asarray(batch.column(0))[:, None]
        Z = check_array(batch, dtype=np.float64, order="C", input_name="Z", ensure_min_samples=0)
        if Z.shape[1] != 1:
            raise ValueError(
                f"a summary takes one feature for now, but there are {Z.shape[1]} columns: pass one (of a file, "
                "dataset(path).scanner(columns=[name]))"
            )
        mechanism.check_release(Z)
        if len(Z) and max(Z.max(), -Z.min()) > LARGEST:
            raise ValueError("Z has values whose squares overflow: use another unit, for the records and the mechanism")
    except (TypeError, ValueError) as error:
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{who}: {str(error).rstrip('. ')}; the summary is unchanged") from error
    named = names is not None and len(names) == 1 and isinstance(names[0], str)
    return Z[:, 0], names[0] if named else None


def plain(value):
    """A parameter of a mechanism in a form for JSON."""
    if value is None or isinstance(value, (str, bool)):
        return value
    array = np.asarray(value)
    return (array if array.dtype.kind in "biu" else array.astype(np.float64)).tolist()
