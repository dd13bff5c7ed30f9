"""A ledger's file is the ledger: through crashes, damage, removal and other names."""

import json
import math
import os

import pytest
from ledger_case import FIT, ONE, text_of

from sklearn_dpmix.privacy import (
    GaussianReleases,
    LedgerEntry,
    PrivacyLedger,
    Releases,
    SubsampledGaussianReleases,
    SubsampledReleases,
    barker_rdp,
    epsilon_of,
)
from sklearn_dpmix.privacy import _ledger_file as ledger_file


def test_a_file_is_the_same_ledger(path):
    """Entries, numbers to the last digit, and words survive; two open ledgers see each other's entries."""
    first, second = PrivacyLedger(4.0, 1e-6, path=path), PrivacyLedger(4.0, 1e-6, path=str(path))
    kinds = [
        GaussianReleases(0.1 + 0.2 + 20, 3),
        SubsampledGaussianReleases(math.pi, 7, 1000, 5),
        SubsampledReleases(barker_rdp(100, 2.5, 0.7), 100, 10**5, 11),
    ]
    first.spend(kinds[:2], "größe \ud800 ε")
    second.spend(kinds[2], 'two\n"lines"')
    again = PrivacyLedger(4.0, 1e-6, path=path)
    assert first.entries == second.entries == again.entries
    assert again.entries[0] == LedgerEntry("größe \ud800 ε", tuple(kinds[:2]))
    assert again.entries[1] == LedgerEntry('two\n"lines"', (kinds[2],))
    assert first.spent == again.spent
    content = json.loads(path.read_text())
    assert content["epsilon"] == 4.0 and content["entries"][0]["releases"][0]["n_releases"] == 3
    assert sorted(os.listdir(path.parent)) == ["budget.json"]


def test_a_file_of_another_budget_is_refused(path):
    PrivacyLedger(4.0, 1e-6, path=path).spend(ONE)
    before = text_of(path)
    for budget in ({"epsilon": 5.0}, {"delta": 1e-5}, {"accountant": "rdp"}):
        with pytest.raises(
            ValueError, match=r"has another budget, epsilon=4\.0, delta=1e-06, accountant='tight', than"
        ):
            PrivacyLedger(**{"epsilon": 4.0, "delta": 1e-6, **budget}, path=path)
    assert text_of(path) == before


def damage(path, kind):
    """Do to a ledger's file what disks and people do."""
    text = path.read_text()
    content = json.loads(text)
    if kind == "edited":  # ten times the noise: a tenth of what was spent
        path.write_text(text.replace("10.0", "100.0"))
    elif kind == "cut":
        path.write_text(text[: len(text) // 2])
    elif kind == "empty":
        path.write_text("")
    elif kind == "bytes":
        path.write_bytes(b"\xff\xfe\x00")
    elif kind == "foreign":
        path.write_text('{"format": "someone else\'s"}')
    elif kind == "list":
        path.write_text("[1, 2]")
    elif kind == "newer":
        path.write_text(json.dumps({**content, "version": 2}))
    elif kind == "entry":
        content["entries"][0]["releases"][0]["kind"] = "LaplaceReleases"
        content["sha256"] = ledger_file._digest(content)
        path.write_text(json.dumps(content))
    else:
        content["entries"][0]["releases"][0]["noise_multiplier"] = float("nan")
        content["sha256"] = ledger_file._digest(content)
        path.write_text(json.dumps(content))


KINDS = {
    "edited": "was damaged or edited",
    "cut": "is not JSON",
    "empty": "is not JSON",
    "bytes": "cannot be read",
    "foreign": "is not a privacy ledger",
    "list": "is not a privacy ledger",
    "newer": "has version 2",
    "entry": "has an entry that cannot be read",
    "nan": "has an entry that cannot be read",
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_damaged_file_is_refused_and_left_untouched(path, kind):
    ledger = PrivacyLedger(4.0, 1e-6, path=path)
    ledger.spend(ONE)
    damage(path, kind)
    before = text_of(path)
    for call in (lambda: PrivacyLedger(4.0, 1e-6, path=path), lambda: ledger.spend(ONE), lambda: ledger.spent):
        with pytest.raises(ValueError, match=KINDS[kind] + ".*left untouched.*restore"):
            call()
    assert text_of(path) == before
    assert sorted(os.listdir(path.parent)) == ["budget.json"]


def test_a_file_that_loses_its_memory_is_noticed(path):
    """A file that was deleted, or an older copy of it, would give the budget back."""
    ledger = PrivacyLedger(4.0, 1e-6, path=path)
    ledger.spend(GaussianReleases(10.0, FIT - 1))
    older = path.read_text()
    ledger.spend(ONE)
    path.write_text(older)
    with pytest.raises(ValueError, match="has lost entries that were in it"):
        ledger.spend(ONE)
    path.unlink()
    for call in (lambda: ledger.spend(ONE), lambda: ledger.entries):
        with pytest.raises(FileNotFoundError, match="is gone, and with it the record of what was spent"):
            call()
    assert not path.exists()


@pytest.mark.parametrize("step", ["fsync", "replace"])
def test_a_crash_while_writing_leaves_the_old_file(path, monkeypatch, step):
    """Whatever fails before the rename: nothing is recorded, nothing is left behind, and the next spending works."""
    ledger = PrivacyLedger(4.0, 1e-6, path=path)
    ledger.spend(ONE)
    before = text_of(path)

    def fail(*_):
        raise OSError("disk full")

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file.os, step, fail)
        with pytest.raises(OSError, match="disk full"):
            ledger.spend(ONE)
    assert text_of(path) == before and len(ledger.entries) == 1
    assert sorted(os.listdir(path.parent)) == ["budget.json"]
    ledger.spend(ONE)
    assert len(PrivacyLedger(4.0, 1e-6, path=path).entries) == 2


def test_paths_are_resolved(tmp_path, monkeypatch):
    """A relative path means the folder of the moment, and a link means its target: one budget under all its names."""
    monkeypatch.chdir(tmp_path)
    ledger = PrivacyLedger(4.0, 1e-6, path="budget.json")
    os.symlink(tmp_path / "budget.json", tmp_path / "link.json")
    monkeypatch.chdir("/")
    ledger.spend(ONE)
    linked = PrivacyLedger(4.0, 1e-6, path=tmp_path / "link.json")
    linked.spend(ONE)
    assert len(ledger.entries) == 2 and os.path.islink(tmp_path / "link.json") and ledger.path == linked.path
    with pytest.raises(FileNotFoundError, match=r"the folder of the privacy ledger .* does not exist: make it"):
        PrivacyLedger(4.0, 1e-6, path=tmp_path / "none" / "budget.json")
    with pytest.raises(ValueError, match="cannot be read"):
        PrivacyLedger(4.0, 1e-6, path=tmp_path)


def test_permissions_stay(path):
    PrivacyLedger(4.0, 1e-6, path=path)
    os.chmod(path, 0o664)
    PrivacyLedger(4.0, 1e-6, path=path).spend(ONE)
    assert os.stat(path).st_mode & 0o777 == 0o664


def test_only_what_can_be_read_back_is_stored(path):
    """A user's own curve or releases have no numbers to store; without a path they are welcome."""

    class Own(Releases):
        n_releases = 1

        def rdp(self, orders):
            return 0.001 * orders

    ledger = PrivacyLedger(4.0, 1e-6, path=path)
    for own in (Own(), SubsampledReleases(lambda a: 0.01 * a, 1, 10)):
        with pytest.raises(TypeError, match=r"cannot store .* use a ledger without a path"):
            ledger.spend(own)
        free = PrivacyLedger(4.0, 1e-6)
        free.spend(own)
        assert free.spent.epsilon == epsilon_of(own, 1e-6)
    assert ledger.entries == ()


@pytest.mark.parametrize("swap", ["removed", "replaced"])
def test_a_ledger_that_goes_while_it_is_in_use_is_not_written_anew(path, monkeypatch, swap):
    """Catches a writer that puts its entries in the place of a file that it has not read."""
    ledger = PrivacyLedger(4.0, 1e-6, path=path)
    read = ledger_file.LedgerFile.read

    def read_and_lose(self):
        entries = read(self)
        path.rename(path.with_name("away"))
        if swap == "replaced":
            path.write_bytes(b"another ledger")
        return entries

    with monkeypatch.context() as patch:
        patch.setattr(ledger_file.LedgerFile, "read", read_and_lose)
        with pytest.raises(FileNotFoundError, match=r"was removed or replaced .* nothing was written: put it back"):
            ledger.spend(ONE)
    assert sorted(os.listdir(path.parent)) == (["away"] if swap == "removed" else ["away", "budget.json"])
    path.with_name("away").replace(path)
    assert ledger.entries == ()


def test_whoever_begins_a_ledger_second_leaves_what_is_there(path, monkeypatch):
    """Catches an empty ledger put in the place of one that another process has begun and spent from."""
    PrivacyLedger(4.0, 1e-6, path=path).spend(ONE)
    monkeypatch.setattr(ledger_file.LedgerFile, "exists", lambda self: False)  # as it looked a moment ago
    assert len(PrivacyLedger(4.0, 1e-6, path=path).entries) == 1
    assert os.listdir(path.parent) == ["budget.json"]
