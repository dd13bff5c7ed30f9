"""A ledger's file: JSON that is replaced as a whole, under a lock that other processes respect."""

import contextlib
import hashlib
import json
import os
from dataclasses import fields

from .._base.files import HeldFile, beginning, replacing, resolved
from ._barker import BarkerCurve, barker_rdp
from ._releases import GaussianReleases
from ._subsampled import SubsampledReleases
from ._subsampled_gaussian import SubsampledGaussianReleases

FORMAT = "sklearn_dpmix privacy ledger"
VERSION = 1


class LedgerFile:
    """One file of entries; each is a pair (what, releases).

    :mod:`sklearn_dpmix._base.files` says how it is replaced and locked.
    """

    def __init__(self, path, budget):
        self.path = resolved("path", path)
        self.budget = budget
        self._held = None

    def begin(self):
        """Write a ledger without entries, unless there is a file already."""
        try:
            with beginning(self.path) as file:
                file.write(self._content([]))
        except FileExistsError:
            pass  # another process has just begun it, and may have spent from it
        except FileNotFoundError:
            raise FileNotFoundError(f"the folder of the privacy ledger {self.path} does not exist: make it") from None
        except OSError as error:
            raise type(error)(
                error.errno,
                f"{error.strerror}: cannot begin a privacy ledger; it needs a folder that can be written, on a file "
                "system with hard links and locks",
                self.path,
            ) from error

    @contextlib.contextmanager
    def locked(self):
        """Hold the lock: no other process, and no other holder in this one, is between reading and writing."""
        held = HeldFile(self.path)
        try:
            held.acquire()
        except FileNotFoundError:
            raise self._loss() from None
        except TimeoutError as error:
            raise TimeoutError(f"the privacy ledger {error}; nothing was spent") from None
        except OSError as error:
            raise self._refusal(f"cannot be read ({error})") from error
        try:
            self._held = held
            yield
        finally:
            self._held = None
            held.release()

    def exists(self):
        """Whether there is a file."""
        return os.path.lexists(self.path)

    def read(self):
        """Return the entries, after everything in the file has been checked."""
        try:
            with open(self.path, encoding="utf-8") as file:
                text = file.read()
        except FileNotFoundError:
            raise self._loss() from None
        except (OSError, UnicodeDecodeError) as error:
            raise self._refusal(f"cannot be read ({error})") from error
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
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
        with replacing(self.path, self._held) as file:
            file.write(self._content(entries))

    def _content(self, entries):
        content = {
            "format": FORMAT,
            "version": VERSION,
            **self.budget,
            "entries": [{"what": what, "releases": [_to_json(one) for one in releases]} for what, releases in entries],
        }
        content["sha256"] = _digest(content)
        return json.dumps(content, indent=1).encode()

    def _loss(self):
        return FileNotFoundError(
            f"the privacy ledger {self.path} is gone, and with it the record of what was spent: put it back, or "
            "open another path for data that nothing was released from"
        )

    def _refusal(self, reason):
        return ValueError(
            f"{self.path} {reason}; it was left untouched: restore it from a copy, or pass the path of another ledger"
        )


def check_storable(releases):
    """Raise unless releases can be read back from a file."""
    for one in releases:
        _to_json(one)


def _to_json(releases):
    """Return releases in a form for JSON: a kind and numbers."""
    if type(releases) in (GaussianReleases, SubsampledGaussianReleases):
        return {"kind": type(releases).__name__, **vars(releases)}
    if type(releases) is SubsampledReleases and type(releases.one_batch) is BarkerCurve:
        numbers = {one.name: getattr(releases, one.name) for one in fields(releases) if one.name != "one_batch"}
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
        return SubsampledReleases(barker_rdp(**numbers.pop("barker")), **numbers)
    return {"GaussianReleases": GaussianReleases, "SubsampledGaussianReleases": SubsampledGaussianReleases}[kind](
        **numbers
    )


def _digest(content):
    """SHA-256 of everything except the digest, whatever the order and the white space."""
    rest = {name: value for name, value in content.items() if name != "sha256"}
    return hashlib.sha256(json.dumps(rest, sort_keys=True).encode()).hexdigest()
