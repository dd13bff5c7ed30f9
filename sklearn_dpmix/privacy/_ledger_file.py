"""A ledger's file: JSON that is replaced whole, under a lock that other processes respect."""

import contextlib
import hashlib
import json
import os
import stat
import tempfile
import time

from ._barker import BarkerCurve
from ._releases import GaussianReleases
from ._subsampled import SubsampledReleases
from ._subsampled_gaussian import SubsampledGaussianReleases

FORMAT = "sklearn_dpmix privacy ledger"
VERSION = 1


class LedgerFile:
    """One file of entries; each is a pair (what, releases).

    A file is written beside the old one, flushed to the disk and put in its place by one rename, so that a crash leaves
    the old entries or the new ones.  The lock is on a file of its own (the path with ``.lock``), since a rename would
    pull the locked file away from under those who wait; it stays where it is, empty.  Locks are the operating system's
    and end with the process that holds them; network file systems may not have them.
    """

    def __init__(self, path, budget):
        self.path = os.path.realpath(path)
        self.budget = budget

    @contextlib.contextmanager
    def locked(self):
        """Hold the lock: no other process, and no other holder in this one, is between reading and writing."""
        try:
            descriptor = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        except FileNotFoundError:
            raise FileNotFoundError(f"the folder of the privacy ledger {self.path} does not exist: make it") from None
        try:
            _lock(descriptor)
            try:
                yield
            finally:
                _unlock(descriptor)  # not left to close(): a process forked meanwhile has a descriptor of the lock, too
        finally:
            os.close(descriptor)

    def exists(self):
        """Whether there is a file."""
        return os.path.lexists(self.path)

    def read(self):
        """Return the entries, once all that the file says has been checked."""
        try:
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            raise FileNotFoundError(
                f"the privacy ledger {self.path} is gone, and with it the record of what was spent: put it back, or "
                "open another path for data that nothing was released from"
            ) from None
        except (OSError, UnicodeDecodeError) as error:
            raise self._refusal(f"cannot be read ({error})") from error
        try:
            content = json.loads(text)
        except ValueError as error:
            raise self._refusal(f"is not JSON ({error})") from error
        if not isinstance(content, dict) or content.get("format") != FORMAT:
            raise self._refusal("is not a privacy ledger")
        if content.get("version") != VERSION:
            raise self._refusal(f"has version {content.get('version')!r}, and this package reads version {VERSION}")
        if content.get("sha256") != _digest(content):
            raise self._refusal("was damaged or edited (its checksum differs)")
        budget = {name: content.get(name) for name in self.budget}
        if budget != self.budget:
            said, given = (", ".join(f"{k}={v!r}" for k, v in one.items()) for one in (budget, self.budget))
            raise ValueError(
                f"the privacy ledger {self.path} has another budget, {said}, than {given}: pass its own, or another "
                "path for other data; a budget cannot be changed once something was spent from it"
            )
        try:
            return [
                (entry["what"], tuple(_from_json(one) for one in entry["releases"])) for entry in content["entries"]
            ]
        except (KeyError, TypeError, ValueError) as error:
            raise self._refusal(f"has an entry that cannot be read ({error!r})") from error

    def write(self, entries):
        """Replace the file; on failure the old one is still there and the error is raised."""
        content = {
            "format": FORMAT,
            "version": VERSION,
            **self.budget,
            "entries": [{"what": what, "releases": [_to_json(one) for one in releases]} for what, releases in entries],
        }
        content["sha256"] = _digest(content)
        text = json.dumps(content, indent=1)
        folder, name = os.path.split(self.path)
        descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
        try:
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(text)
                file.flush()
                os.fsync(file.fileno())
            if self.exists():
                os.chmod(temporary, stat.S_IMODE(os.stat(self.path).st_mode))
            os.replace(temporary, self.path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        _flush_folder(folder)

    def _refusal(self, reason):
        return ValueError(
            f"{self.path} {reason}; it was left untouched: restore it from a copy, or pass the path of another ledger"
        )


def check_storable(releases):
    """Raise unless releases can be read back from a file."""
    for one in releases:
        _to_json(one)


def _to_json(releases):
    """Return releases as what JSON holds: a kind and numbers."""
    if type(releases) in (GaussianReleases, SubsampledGaussianReleases):
        return {"kind": type(releases).__name__, **vars(releases)}
    if type(releases) is SubsampledReleases and type(releases.one_batch) is BarkerCurve:
        numbers = {name: value for name, value in vars(releases).items() if name != "one_batch"}
        return {"kind": "SubsampledReleases", "barker": vars(releases.one_batch), **numbers}
    raise TypeError(
        f"a ledger with a path cannot store {releases!r}: it holds GaussianReleases, SubsampledGaussianReleases and "
        "SubsampledReleases of barker_rdp, since nothing but numbers is stored; use a ledger without a path for others"
    )


def _from_json(content):
    """Return the releases that :func:`_to_json` described; their own checks are run."""
    numbers = dict(content)
    kind = numbers.pop("kind")
    if kind == "SubsampledReleases":
        return SubsampledReleases(BarkerCurve(**numbers.pop("barker")), **numbers)
    return {"GaussianReleases": GaussianReleases, "SubsampledGaussianReleases": SubsampledGaussianReleases}[kind](
        **numbers
    )


def _digest(content):
    """SHA-256 of all but the digest, whatever the order and the white space."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()


def _flush_folder(folder):
    """Make the rename durable, where folders can be flushed."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


if os.name == "nt":  # pragma: no cover
    import msvcrt

    def _lock(descriptor):
        while True:
            try:
                os.lseek(descriptor, 0, os.SEEK_SET)
                return msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            except OSError:
                time.sleep(0.01)

    def _unlock(descriptor):
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]

else:
    import fcntl

    def _lock(descriptor):
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _unlock(descriptor):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
