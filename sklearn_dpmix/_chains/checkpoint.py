"""Chains and their draws in a file, so that a run that was killed goes on where it was.

The file is a zip of arrays (``numpy.savez``'s format, read without pickles, each with its CRC) and a header in JSON.
It holds the chains' states with their generators, and the draws: what the fit knows, and nothing that noise could be
made from again.
"""

import contextlib
import json
import os
import sys
import time
import zipfile
from typing import Any, NamedTuple

import numpy as np

from .._base.files import DAMAGE, locked, remove_leftovers, replacing, resolved
from .chain import Chain
from .pace import Pace

FORMAT, VERSION = "sklearn_dpmix checkpoint", 2
SECONDS = 30.0  # between two saves
SHARE = 20  # ... and at least so many times as long as the last one took


class SoFar(NamedTuple):
    """A run on its way."""

    chains: list
    draws: list  # one NamedTuple of arrays a chain; empty before the first block
    n_done: int  # sweeps of each chain
    pace: Pace
    aim: int | None = None  # draws at which the run looks next whether it has enough; None: their number is fixed

    def n_drawn(self):
        return self.pace.n_drawn(self.n_done)


class Checkpoint:
    """The file of one run, while its lock is held."""

    def __init__(self, path, owner, signature):
        self.path, self.owner, self.signature = path, owner, signature
        self.due = 0.0
        self.held = None  # which run is in the file, where this process knows it

    def load(self, reader):
        """Return the run in the file, or None where there is no file.

        Parameters
        ----------
        reader : callable () -> callable (SoFar) -> SoFar
            Makes what checks all arrays of the run, and raises ValueError where compiled code could not take them: a
            checksum says only that the file is as it was written.

        Raises
        ------
        ValueError
            For a file that is damaged, is no checkpoint, or is another fit's; it is left as it is.
        """
        if not os.path.lexists(self.path):
            return None
        checked = reader()  # an error of its own is not the file's
        try:
            with open(self.path, "rb") as file:  # is_zipfile(path) says no where the file may not be read, too
                if not zipfile.is_zipfile(file):
                    raise ValueError("it is cut off, or is no checkpoint")
                file.seek(0)
                with np.load(file, allow_pickle=False) as arrays:
                    header = json.loads(arrays["header"].tobytes())
                    if header.get("format") != FORMAT:
                        raise ValueError("it is not a checkpoint")
                    self._check(header)
                    run = checked(self._read(header, arrays))
        except _Foreign as error:
            raise ValueError(str(error)) from None
        except DAMAGE as error:
            raise ValueError(
                f"checkpoint={self.path!r} cannot be read ({error}); it was left as it is: restore it from a copy, or "
                "remove it, or pass another path, to start anew"
            ) from error
        self.held = _place(run)
        return run

    def _check(self, header):
        """Raise for a checkpoint that this fit cannot go on from."""
        who = header["owner"], header["version"], header["package"]
        if who != (self.owner, VERSION, package_version()):
            raise _Foreign(
                f"checkpoint={self.path!r} was written by {who[0]} of sklearn_dpmix {who[2]}, and this is {self.owner} "
                f"of {package_version()}: draws would not be those of one run; pass another path"
            )
        changed = differences(self.signature, header["signature"])
        if changed:
            raise _Foreign(
                f"checkpoint={self.path!r} is from another fit: {', '.join(changed)} changed; it was left as it is: "
                "undo that to continue, or pass another path"
            )

    def _read(self, header, arrays):
        state, draws = (_named_tuple(header[name]) for name in ("state", "draws"))
        chains, kept, n_done, aim, pace = [], [], header["n_done"], header["aim"], Pace(*header["pace"])
        numbers = n_done, *pace, *(() if aim is None else (aim,))
        if not all(type(number) is int and abs(number) < 2**62 for number in numbers) or min(n_done, aim or 0) < 0:
            raise ValueError(f"its numbers of sweeps or draws are impossible: {numbers!r}")
        for c, rng_state in enumerate(header["rng_states"]):
            np.random.PCG64().state = rng_state  # raises for what is none
            chains.append(Chain(state(*(arrays[f"state/{c}/{name}"] for name in state._fields)), rng_state))
            if draws is not None:
                kept.append(draws(*(arrays[f"draws/{c}/{name}"] for name in draws._fields)))
        return SoFar(chains, kept, n_done, pace, aim)

    def save(self, run, blocks=()):
        """Write the run, with the draws of later ``blocks`` (one list a block, of one per chain), in the file's place.

        Nothing is written where the file holds these chains already, so that a run that has ended needs no room.

        Raises
        ------
        OSError
            Where the file cannot be written, such as on a full disk; the last good checkpoint is still there.
        """
        if _place(run) == self.held:
            return
        started = time.monotonic()
        parts = [[*(run.draws[c : c + 1]), *(block[c] for block in blocks)] for c in range(len(run.chains))]
        header = {
            "format": FORMAT,
            "version": VERSION,
            "package": package_version(),
            "owner": self.owner,
            "signature": self.signature,
            "n_done": int(run.n_done),  # a parameter may be one of NumPy's integers
            "pace": [int(number) for number in run.pace],
            "aim": None if run.aim is None else int(run.aim),
            "state": _name_of(run.chains[0].state),
            "draws": _name_of(parts[0][0]) if parts[0] else None,
            "rng_states": [chain.rng_state for chain in run.chains],
        }
        try:
            with replacing(self.path) as file, zipfile.ZipFile(file, "w", allowZip64=True) as archive:
                _write(archive, "header", np.frombuffer(json.dumps(header).encode(), dtype=np.uint8))
                for c, chain in enumerate(run.chains):
                    for name, value in zip(chain.state._fields, chain.state, strict=True):
                        _write(archive, f"state/{c}/{name}", np.asarray(value))
                    for j, name in enumerate(parts[c][0]._fields if parts[c] else ()):
                        _write(archive, f"draws/{c}/{name}", np.concatenate([part[j] for part in parts[c]]))
        except OSError as error:
            there = "the last good one was kept" if os.path.lexists(self.path) else "there is none yet"
            raise type(error)(
                error.errno,
                f"{error.strerror}: cannot write the checkpoint, {there}; make room or pass another path, and fit "
                "again: it goes on from there",
                self.path,
            ) from error
        self.held = _place(run)
        ended = time.monotonic()
        self.due = ended + max(SECONDS, SHARE * (ended - started))


class NoCheckpoint:
    """Nothing is saved."""

    due = np.inf

    def load(self, reader):
        return None

    def save(self, run, blocks=()):
        pass


@contextlib.contextmanager
def open_checkpoint(path, owner, signature):
    """The :class:`Checkpoint` at a path, locked; for None one that saves nothing."""
    if path is None:
        yield NoCheckpoint()
        return
    path = resolved("checkpoint", path)
    unstable = [name for name, value in signature.items() if not isinstance(value, str)]
    if unstable:
        raise TypeError(
            f"checkpoint={path!r}: {', '.join(unstable)} cannot be pickled, so another process could not tell that it "
            "is the same: define its class and functions in a module, or leave checkpoint out"
        )
    if os.path.isdir(path):
        raise IsADirectoryError(f"checkpoint={path!r} is a folder: pass the path of a file in it")
    if os.path.lexists(path) and not os.path.isfile(path):  # reading it may never end
        raise ValueError(f"checkpoint={path!r} is a device or a pipe: pass the path of a file")
    with contextlib.ExitStack() as stack:
        try:
            stack.enter_context(locked(path))
        except BlockingIOError:
            raise BlockingIOError(
                f"checkpoint={path!r} is in use by another fit: wait for it, or pass another path"
            ) from None
        except OSError as error:
            raise type(error)(
                error.errno,
                f"{error.strerror}: checkpoint= needs a folder that exists, can be written and has file locks",
                path,
            ) from error
        remove_leftovers(path)
        yield Checkpoint(path, owner, signature)


def differences(one, other):
    """Names of what differs between two signatures; of a component that changed, not its parameters too."""
    names = sorted(one.keys() | other.keys())
    changed = [name for name in names if one.get(name) != other.get(name)]
    return [name for name in changed if name.rpartition("__")[0] not in changed]


class _Foreign(Exception):
    """Not the checkpoint of this fit."""


def _place(run):
    """What tells a run from others, and from itself at other times; not its chains themselves, which may be large."""
    return run.n_done, run.pace, run.aim, [chain.rng_state for chain in run.chains]


def package_version():
    """The version of this package."""
    from .. import __version__

    return __version__


def _name_of(value):
    return [type(value).__module__, type(value).__qualname__]


def _named_tuple(name):
    """The class of a state or of draws: one that this process already knows, so that a file imports nothing."""
    if name is None:
        return None
    module, qualname = name
    cls = getattr(sys.modules.get(module), qualname, None)
    if not (isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")):
        raise ValueError(f"{module}.{qualname} is not known")
    return cls


def _write(archive: Any, name: str, array: Any) -> None:
    if array.dtype.hasobject:
        raise TypeError(
            f"checkpoint= saves numbers and text only, and {name} has Python objects: give the model's records "
            "another dtype, or leave checkpoint out"
        )
    with archive.open(f"{name}.npy", "w", force_zip64=True) as file:
        np.lib.format.write_array(file, array, allow_pickle=False)
