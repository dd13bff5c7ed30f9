"""Files that outlive a crash: replaced whole by one rename, under a lock that other processes respect."""

import contextlib
import os
import re
import stat
import tempfile
import time


@contextlib.contextmanager
def replacing(path):
    """Open a binary file to write; when the block ends it takes the place of ``path``, and on failure it is gone.

    It is written beside the old file and flushed to the disk first, so that a crash leaves the old file or the new one.
    """
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    try:
        with open(descriptor, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if os.path.lexists(path):
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    _flush_folder(folder)


def remove_leftovers(path):
    """Remove what a process that was killed in :func:`replacing` left beside ``path``; only under the lock."""
    folder, name = os.path.split(path)
    own = re.compile(rf"\.{re.escape(name)}\.[^.]+\.tmp")  # not those of a path that begins alike, such as "name.2"
    for entry in os.listdir(folder):
        if own.fullmatch(entry):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, entry))


@contextlib.contextmanager
def locked(path, *, wait=True):
    """Hold the lock of a file: no other process, and no other holder in this one, has it.

    The lock is on a file of its own (the path with ``.lock``), since a rename would pull the locked file away from
    under those who wait; it stays where it is, empty.  Locks are the operating system's and end with the process that
    holds them; network file systems may not have them.

    Raises
    ------
    FileNotFoundError
        Where the folder does not exist.
    BlockingIOError
        Where another holds it, with ``wait=False``.
    """
    descriptor = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        _lock(descriptor, wait)
        try:
            yield
        finally:
            _unlock(descriptor)  # not left to close(): a process forked meanwhile has a descriptor of the lock, too
    finally:
        os.close(descriptor)


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

    def _lock(descriptor, wait):
        while True:
            try:
                os.lseek(descriptor, 0, os.SEEK_SET)
                return msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
            except OSError:
                if not wait:
                    raise BlockingIOError("locked by another process") from None
                time.sleep(0.01)

    def _unlock(descriptor):
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]

else:
    import fcntl

    def _lock(descriptor, wait):
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)

    def _unlock(descriptor):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
