"""Files that are cut, flipped, overwritten, or right in form and wrong in what they say."""

import json
import os
import tempfile
import warnings
from functools import cache

import numpy as np

import sklearn_dpmix as top
from sklearn_dpmix.privacy import (
    GaussianReleases,
    PrivacyLedger,
    SubsampledGaussianReleases,
    SubsampledReleases,
    barker_rdp,
)
from sklearn_dpmix.privacy import _ledger_file as ledger_file

from .cases import ALLOWED, FORBIDDEN, Wrong
from .parts import family
from .values import NUMBERS

BUDGET = {"epsilon": 4.0, "delta": 1e-6}
WRONG = [*NUMBERS.values(), None, "", "x", [], {}, [1], {"a": 1}, "GaussianReleases"]


@cache
def originals():
    """{name: (bytes, reader)}; a reader returns what must be as it was where it reads the file at all."""
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "one")
        ledger = PrivacyLedger(**BUDGET, path=path)
        ledger.spend(GaussianReleases(10.0, 3), "first")
        ledger.spend([SubsampledGaussianReleases(9.0, 10, 1000, 3), SubsampledReleases(barker_rdp(10), 10, 10_000, 2)])
        found = {"ledger": (read_bytes(path), read_ledger)}
        path = os.path.join(folder, "two")
        fit(path)
        return found | {"checkpoint": (read_bytes(path), read_checkpoint)}


def read_bytes(path):
    with open(path, "rb") as file:
        return file.read()


def fit(path):
    with warnings.catch_warnings(action="ignore"):
        return top.PrivateExpFamilyGibbs(**family(checkpoint=path)).fit([3.0])


def read_checkpoint(path):
    return fit(path).theta_draws_.tolist()


def read_ledger(path):
    ledger = PrivacyLedger(**BUDGET, path=path)
    return [str(ledger.entries), ledger.spent.epsilon, ledger.would_fit(GaussianReleases(10.0))]


def run_file(number, seed):
    """Return "refused" or "right" of the file of a case; raise Wrong."""
    rng = np.random.default_rng([seed, number])
    name = str(rng.choice(["ledger", "ledger", "checkpoint"]))
    original, read = originals()[name]
    kinds = [cut, flip, overwrite, foreign] + [rewrite, rewrite, rewrite] * (name == "ledger")
    kind = kinds[rng.integers(len(kinds))]
    content = kind(rng, original)
    label = f"case {number}: {name}, {kind.__name__}"
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "damaged")
        with open(path, "wb") as file:
            file.write(content)
        try:
            answer = read(path)
        except Exception as error:
            if not isinstance(error, ALLOWED) or isinstance(error, FORBIDDEN) or path not in str(error):
                raise Wrong(f"{label}: {type(error).__name__}: {str(error)[:300]}") from error
            if read_bytes(path) != content:
                raise Wrong(f"{label}: the file was refused, and changed") from None
            return "refused"
    if kind is not rewrite and answer != read_again(name):
        raise Wrong(f"{label}: a damaged file was read as {str(answer)[:300]}")
    if kind is rewrite and not answer[1] >= 0:  # infinite where the noise is next to none
        raise Wrong(f"{label}: a ledger that has spent {answer[1]}")
    return "right"


@cache
def read_again(name):
    """What the file says that nothing happened to."""
    original, read = originals()[name]
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "whole")
        with open(path, "wb") as file:
            file.write(original)
        return read(path)


# --- what happens to a file ------------------------------------------------------------------------------------------


def cut(rng, content):
    return content[: rng.integers(len(content))]


def flip(rng, content):
    """One to three bits turned."""
    array = np.frombuffer(content, dtype=np.uint8).copy()
    for place in rng.integers(len(array), size=rng.integers(1, 4)):
        array[place] ^= np.uint8(1 << rng.integers(8))
    return array.tobytes()


def overwrite(rng, content):
    """A stretch of noise."""
    start, length = rng.integers(len(content)), rng.integers(1, 200)
    return content[:start] + rng.bytes(length) + content[start + length :]


def foreign(rng, content):
    """Another file."""
    others = [b"", b"\0" * 100, b"{}", b"[]", b"null", b"[" * 100_000, b'{"format": 1}', b"PK\3\4", rng.bytes(500)]
    return others[rng.integers(len(others))]


def rewrite(rng, content):
    """A ledger with one thing changed, and the checksum that goes with it."""
    whole = json.loads(content)
    places = list(walk(whole))
    holder, key = places[rng.integers(len(places))]
    if rng.random() < 0.2 and isinstance(holder, dict):
        del holder[key]
    else:
        value = WRONG[rng.integers(len(WRONG))]
        holder[key] = value.item() if isinstance(value, (np.generic, np.ndarray)) and value.dtype != "g" else value
    try:
        whole["sha256"] = ledger_file._digest(whole)
        return json.dumps(whole).encode()
    except TypeError:  # what JSON cannot hold
        return b"{}"


def walk(content):
    """(holder, key) of all that JSON holds."""
    for key in content if isinstance(content, dict) else range(len(content)):
        yield content, key
        if isinstance(content[key], (dict, list)):
            yield from walk(content[key])
