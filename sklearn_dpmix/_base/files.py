"""Files that outlive a crash: replaced whole by one rename, under a lock that other processes respect."""

import contextlib
import datetime
import os
import re
import socket
import stat
import tempfile
import time
import tokenize
import zipfile
import zlib

PATIENCE = 30.0  # seconds to wait for one and the same holder of a lock
#: What ``numpy.load`` and checks raise where an archive of arrays is damaged.  The header of a large array is read, as
#: Python, before the checksum of the whole.
DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, MemoryError),
    *(tokenize.TokenError, SyntaxError),
    *(OSError, ValueError, KeyError, TypeError, AttributeError, OverflowError),
)


def resolved(name, path):
    """The absolute path, links and ~ followed, that a parameter of that name says; an error if no file has it."""
    try:
        path = os.path.expanduser(os.fsdecode(path))
        os.fsencode(path)
        return os.path.realpath(path)
    except (TypeError, ValueError) as error:  # not a path; half of a surrogate pair; a null character
        kind = TypeError if isinstance(error, TypeError) else ValueError
        raise kind(f"{name}={path!r} is not a valid path for a file ({error}): pass another") from None


@contextlib.contextmanager
def replacing(path, held=None):
    """Open a binary file to write; when the block ends it takes the place of ``path``, and on failure it is gone.

    It is written beside the old file and flushed to the disk first, so that a crash leaves the old file or the new one.

    Parameters
    ----------
    path : str
    held : HeldFile, optional
        The lock of the old file, which then goes over to the new one.
    """
    with _beside(path) as (file, temporary):
        yield file
        file.flush()
        os.fsync(file.fileno())
        if os.path.lexists(path):
            os.chmod(temporary, stat.S_IMODE(os.stat(path).st_mode))
        if held is not None:
            held.move_to(temporary)
        file.close()
        os.replace(temporary, path)
    _flush_folder(os.path.dirname(path))


@contextlib.contextmanager
def beginning(path):
    """As :func:`replacing`, but where there is a file by then it is left as it is: FileExistsError."""
    with _beside(path) as (file, temporary):
        yield file
        file.flush()
        os.fsync(file.fileno())
        file.close()
        if os.name == "nt":  # pragma: no cover
            os.rename(temporary, path)  # which replaces nothing there
        else:
            os.link(temporary, path)  # a rename would replace what another process has just begun
            os.unlink(temporary)
    _flush_folder(os.path.dirname(path))


@contextlib.contextmanager
def _beside(path):
    """Give (a new file in the folder of ``path``, its path); on failure it is gone."""
    folder, name = os.path.split(path)
    descriptor, temporary = tempfile.mkstemp(prefix=f".{name}.", suffix=".tmp", dir=folder)
    try:
        with open(descriptor, "wb") as file:
            yield file, temporary
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise


def remove_leftovers(path):
    """Remove what a process that was killed in :func:`replacing` left beside ``path``; only under the lock."""
    folder, name = os.path.split(path)
    own = re.compile(rf"\.{re.escape(name)}\.[^.]+\.tmp")  # not those of a path that begins alike, such as "name.2"
    for entry in os.listdir(folder):
        if own.fullmatch(entry):
            with contextlib.suppress(OSError):
                os.unlink(os.path.join(folder, entry))


@contextlib.contextmanager
def locked(path):
    """Hold the lock that goes with a path: no other process, and no other holder in this one, has it.

    The lock is on a file of its own (the path with ``.lock``), which stays where it is, empty.  It is for a file that
    may not be there yet, and where two holders would be a waste, no harm: whoever removes the lock's file while it is
    held lets a second one in.  Locks are the operating system's and end with the process that holds them; network file
    systems may not have them.

    Raises
    ------
    FileNotFoundError
        Where the folder does not exist.
    BlockingIOError
        Where another holds it.
    """
    descriptor = os.open(path + ".lock", os.O_RDWR | os.O_CREAT, 0o666)
    try:
        if not _try_lock(descriptor):
            raise BlockingIOError("locked by another process")
        try:
            yield
        finally:
            _unlock(descriptor)  # not left to close(): a process forked meanwhile has a descriptor of the lock, too
    finally:
        os.close(descriptor)


class HeldFile:
    """A file under lock, where two holders at a time must be impossible, whatever is removed beside it.

    The lock is on the file itself, so that there is nothing else to remove.  Three rules make that safe although the
    file is replaced at each writing:

    1. A lock counts only where the file that was locked is still the one at the path; else it is let go, and the new
       file is locked.
    2. The file that will take the place of the old one is locked *before* it does, so that at each moment the file at
       the path is the holder's.
    3. Nothing is put in the place of a file other than the one that was locked: where the file itself was removed or
       replaced meanwhile, writing fails.

    Who holds it, and since when, is in a note beside the file (the path with ``.holder``), for those who wait in vain;
    it is as private as the file, gone afterwards, and nothing else depends on it.
    """

    def __init__(self, path):
        self.path, self._descriptors = path, []

    def acquire(self):
        """Wait until the lock is ours.

        Raises
        ------
        FileNotFoundError
            Where there is no such file.
        TimeoutError
            Where one holder has had it for ``PATIENCE`` seconds; the error says who.
        """
        holder, deadline = None, time.monotonic() + PATIENCE
        while not self._try():
            now, before = time.monotonic(), holder
            holder = self._holder()
            if holder != before:
                deadline = now + PATIENCE
            elif now > deadline:
                raise TimeoutError(
                    f"{self.path} has been in use for {PATIENCE:g} seconds by {holder or 'an unknown process'}: try "
                    "again later, or end that process, and those that it started, if it hangs"
                )
            time.sleep(0.005)
        self._write_note()

    def release(self):
        """Let go."""
        with contextlib.suppress(OSError):
            os.unlink(self._note)
        while self._descriptors:
            descriptor = self._descriptors.pop()
            _unlock(descriptor)  # as in :func:`locked`
            os.close(descriptor)

    def move_to(self, temporary):
        """Lock the file that is about to take the place of the locked one (rules 2 and 3)."""
        if os.name == "posix":
            descriptor = os.open(temporary, os.O_RDWR)
            self._descriptors.append(descriptor)
            _try_lock(descriptor)  # no other process knows this file yet
            if not _is_at(self._descriptors[-2], self.path):
                raise FileNotFoundError(
                    f"{self.path} was removed or replaced by another file while it was in use; nothing was written: "
                    "put it back"
                )

    def _try(self):
        """Take the lock where it is free; whether it was."""
        if os.name == "nt":  # pragma: no cover
            # an open file can neither be replaced nor removed there: a file of its own is safe, and the only way
            descriptor = os.open(self.path + ".lock", os.O_RDWR | os.O_CREAT, 0o666)
        else:
            try:
                descriptor = os.open(self.path, os.O_RDWR)  # network file systems lock only what could be written
            except PermissionError:
                descriptor = os.open(self.path, os.O_RDONLY)
        if _try_lock(descriptor):
            if os.name == "nt" or _is_at(descriptor, self.path):  # rule 1
                self._descriptors.append(descriptor)
                return True
            _unlock(descriptor)
        os.close(descriptor)
        return False

    @property
    def _note(self):
        return self.path + ".holder"

    def _write_note(self):
        since = datetime.datetime.now(datetime.UTC).isoformat(timespec="milliseconds")
        with contextlib.suppress(OSError):  # such as in a folder that may only be read
            mode = stat.S_IMODE(os.stat(self.path).st_mode)
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._note)  # of a process that was killed; or what it links to would be written
            descriptor = os.open(self._note, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode & 0o666)
            with open(descriptor, "w", encoding="utf-8") as file:
                file.write(f"process {os.getpid()} on {socket.gethostname()} since {since}")

    def _holder(self):
        try:
            with open(self._note, encoding="utf-8", errors="replace") as file:
                return file.read(200)
        except OSError:
            return ""


def _is_at(descriptor, path):
    """Whether an open file is the one at the path."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


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

    def _try_lock(descriptor):
        try:
            os.lseek(descriptor, 0, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)  # type: ignore[attr-defined]
        except OSError:
            return False
        return True

    def _unlock(descriptor):
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)  # type: ignore[attr-defined]

else:
    import fcntl

    def _try_lock(descriptor):
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor):
        fcntl.flock(descriptor, fcntl.LOCK_UN)
