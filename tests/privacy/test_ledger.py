"""A budget that cannot be overspent: by one caller, by threads, by processes, by a crash or by a copy."""

import contextlib
import copy
import json
import math
import os
import pickle
import subprocess
import sys
import threading
import time

import pytest
from sklearn.base import BaseEstimator, clone

import sklearn_dpmix
from sklearn_dpmix._base import files
from sklearn_dpmix.privacy import (
    BudgetExceededError,
    GaussianReleases,
    LedgerEntry,
    PrivacyGuarantee,
    PrivacyLedger,
    Releases,
    SubsampledGaussianReleases,
    SubsampledReleases,
    approx_dp_to_zcdp,
    barker_rdp,
    epsilon_of,
    gaussian_mu,
    max_releases,
)
from sklearn_dpmix.privacy import _ledger as ledger_module
from sklearn_dpmix.privacy import _ledger_file as ledger_file

ONE = GaussianReleases(10.0)  # 55 of these fit ε = 4 at δ = 1e-6 ...
FIT = max_releases(4.0, 1e-6, 10.0)


@pytest.fixture(params=["memory", "file"])
def ledger(request, tmp_path):
    """A ledger of (4, 1e-6), without and with a file."""
    return PrivacyLedger(4.0, 1e-6, path=None if request.param == "memory" else tmp_path / "budget.json")


@pytest.fixture
def path(tmp_path):
    return tmp_path / "budget.json"


def text_of(path):
    return path.read_bytes()


# ---------------------------------------------------------------- arithmetic


def test_spending_composes_and_stops_at_the_budget(ledger):
    """As many fit one by one as at once, and not one more: no other rule of composition gives this number."""
    for _ in range(FIT):
        ledger.spend(ONE)
    assert not ledger.would_fit(ONE)
    with pytest.raises(BudgetExceededError):
        ledger.spend(ONE)
    assert len(ledger.entries) == FIT
    assert 3.9 < ledger.spent.epsilon <= 4.0


def test_spent_is_the_guarantee_of_all_entries(ledger):
    assert ledger.spent == PrivacyGuarantee(0.0, 1e-6, 0.0, "replace one record")
    parts = [GaussianReleases(30.0, 5), GaussianReleases(8.0, 2)]
    ledger.spend(parts, "first")
    ledger.spend(GaussianReleases(50.0, 7))
    parts.append(GaussianReleases(50.0, 7))
    assert ledger.spent == PrivacyGuarantee(epsilon_of(parts, 1e-6), 1e-6, sum(one.mu for one in parts))
    assert ledger.entries == (LedgerEntry("first", tuple(parts[:2])), LedgerEntry("", (parts[2],)))
    batch = SubsampledReleases(barker_rdp(100), 100, 10_000, 20)
    ledger.spend(batch)
    assert ledger.spent.epsilon == epsilon_of([*parts, batch], 1e-6) and ledger.spent.rho is None


@pytest.mark.parametrize("accountant", ["zcdp", "rdp", "tight"])
def test_each_accountant_stops_where_its_releases_do(accountant):
    n = max_releases(4.0, 1e-6, 10.0, accountant)
    ledger = PrivacyLedger(4.0, 1e-6, accountant=accountant)
    ledger.spend(GaussianReleases(10.0, n - 1))
    assert not ledger.would_fit(GaussianReleases(10.0, 2))
    ledger.spend(ONE)
    with pytest.raises(BudgetExceededError):
        ledger.spend(ONE)
    assert ledger.spent.epsilon <= 4.0


def test_remaining_mu_can_be_spent_to_the_last(ledger):
    """All of it fits, a part in 10⁹ more does not; None once an entry is not Gaussian."""
    assert ledger.remaining_mu() == pytest.approx(gaussian_mu(4.0, 1e-6), rel=1e-11)
    ledger.spend(GaussianReleases(7.0, 11))
    mu = ledger.remaining_mu()
    assert mu == pytest.approx(gaussian_mu(4.0, 1e-6) - 11 / 98, rel=1e-10)
    assert not ledger.would_fit(GaussianReleases(math.sqrt(0.5 / mu) * (1 - 1e-9)))
    ledger.spend(GaussianReleases(math.sqrt(0.5 / mu)))
    assert 0 <= ledger.remaining_mu() < 1e-10
    other = PrivacyLedger(4.0, 1e-6)
    other.spend(SubsampledGaussianReleases(3.0, 1, 10))
    assert other.remaining_mu() is None


def test_remaining_mu_is_the_accountants():
    assert PrivacyLedger(4.0, 1e-6, accountant="zcdp").remaining_mu() == pytest.approx(approx_dp_to_zcdp(4.0, 1e-6))
    mu = PrivacyLedger(4.0, 1e-6, accountant="rdp").remaining_mu()
    assert epsilon_of(GaussianReleases(math.sqrt(0.5 / mu)), 1e-6, "rdp") == pytest.approx(4.0, rel=1e-9)


def test_a_refusal_leaves_everything_as_it_was(ledger):
    """And says what was asked, what was spent, what is left and what to do."""
    ledger.spend(GaussianReleases(10.0, 40), "first chain")
    before = (ledger.entries, ledger.spent, ledger.path and text_of_path(ledger.path))
    with pytest.raises(BudgetExceededError) as caught:
        ledger.spend(GaussianReleases(10.0, 40), "second chain")
    assert (ledger.entries, ledger.spent, ledger.path and text_of_path(ledger.path)) == before
    message = str(caught.value)
    for part in (
        "'second chain' asks for ε = 2.92",
        "(μ = 0.2)",
        "budget of ε = 4",
        "have used 2.92",
        "Gaussian releases of μ = 0.151",
        "together they would be 4.3",
        "Nothing was spent",
        "Make fewer releases or add more noise",
    ):
        assert part in message, (part, message)
    assert isinstance(caught.value, ValueError)
    assert str(pickle.loads(pickle.dumps(caught.value))) == message
    ledger.spend(GaussianReleases(10.0, FIT - 40))


def text_of_path(path):
    with open(path, "rb") as file:
        return file.read()


def test_a_refusal_of_what_cannot_be_accounted_records_nothing():
    ledger = PrivacyLedger(4.0, 1e-6, accountant="zcdp")
    with pytest.raises(ValueError, match="has no ρ"):
        ledger.spend([ONE, SubsampledReleases(barker_rdp(10), 1, 10)])
    for bad in (3.0, [ONE, None]):
        with pytest.raises(TypeError, match="releases must be a Releases or a list of them"):
            ledger.spend(bad)
    with pytest.raises(TypeError, match="what must be a string, got 3"):
        ledger.spend(ONE, 3)
    assert ledger.entries == ()


# ---------------------------------------------------------------- the file


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


# ---------------------------------------------------------------- threads and processes


def spend_all(ledger, done, stop):
    """Spend until refused."""
    with contextlib.suppress(stop):
        while True:
            ledger.spend(GaussianReleases(10.0, 5))
            done.append(1)


def spend_in_threads(ledgers, stop=BudgetExceededError):
    """How many spendings succeed when each ledger is emptied by a thread of its own, all starting together."""
    done, barrier = [], threading.Barrier(len(ledgers))

    def run(ledger):
        barrier.wait()
        spend_all(ledger, done, stop)

    threads = [threading.Thread(target=run, args=(ledger,)) for ledger in ledgers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return len(done)


def slowly(function):
    """A function that lets other threads run before it returns."""

    def slow(*arguments, **options):
        result = function(*arguments, **options)
        time.sleep(0.002)
        return result

    return slow


def test_threads_share_one_ledger(ledger, monkeypatch):
    """Eight threads together spend what one would, and each spending is an entry, though each checks for long."""
    monkeypatch.setattr(ledger_module, "fits", slowly(ledger_module.fits))
    assert spend_in_threads([ledger] * 8) == len(ledger.entries) == FIT // 5


def test_ledgers_of_one_file_share_its_budget(path, monkeypatch):
    """Four ledger objects on one file, reads slowed down; without the lock spendings are made that nobody records."""
    monkeypatch.setattr(ledger_file.LedgerFile, "read", slowly(ledger_file.LedgerFile.read))
    assert spend_in_threads([PrivacyLedger(4.0, 1e-6, path=path) for _ in range(4)]) == FIT // 5
    assert len(PrivacyLedger(4.0, 1e-6, path=path).entries) == FIT // 5

    monkeypatch.setattr(ledger_file.LedgerFile, "locked", lambda self: contextlib.nullcontext())
    twin = path.with_name("twin.json")
    ledgers = [PrivacyLedger(4.0, 1e-6, path=twin) for _ in range(4)]
    assert spend_in_threads(ledgers, stop=ValueError) > len(PrivacyLedger(4.0, 1e-6, path=twin).entries)


SPENDER = """
import os, sys, time, types
package = types.ModuleType("sklearn_dpmix")  # the privacy arithmetic alone starts faster
package.__path__ = [sys.argv.pop(1)]
sys.modules["sklearn_dpmix"] = package
from sklearn_dpmix.privacy import BudgetExceededError, GaussianReleases, PrivacyLedger
from sklearn_dpmix.privacy._ledger_file import LedgerFile, contextlib
path, ready, lock = sys.argv[1:]
if lock == "none":
    LedgerFile.locked = lambda self: contextlib.nullcontext()
read = LedgerFile.read

def slow_read(self):
    content = read(self)
    time.sleep(0.01)  # others read the same meanwhile, if they can
    return content

ledger = PrivacyLedger(4.0, 1e-6, path=path)
open(ready, "w").close()
folder = os.path.dirname(ready)
while len(os.listdir(folder)) < 3:
    time.sleep(0.001)
LedgerFile.read = slow_read
n = 0
try:
    while True:
        ledger.spend(GaussianReleases(10.0, 5), f"process {os.getpid()}")
        n += 1
except BudgetExceededError:
    pass
except ValueError:
    assert lock == "none"  # an entry of its own was lost
print(n)
"""


def spend_in_processes(folder, lock):
    """How many spendings three processes make when they empty one file together, and how many are recorded."""
    path, ready = folder / "budget.json", folder / "ready"
    ready.mkdir(parents=True)
    PrivacyLedger(4.0, 1e-6, path=path)
    package = os.path.dirname(sklearn_dpmix.__file__)
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", SPENDER, package, str(path), str(ready / str(i)), lock],
            stdout=subprocess.PIPE,
            text=True,
        )
        for i in range(3)
    ]
    spent = [int(process.communicate(timeout=300)[0]) for process in processes]
    return sum(spent), len(PrivacyLedger(4.0, 1e-6, path=path).entries)


@pytest.mark.slow
def test_processes_share_the_budget_of_a_file(tmp_path):
    """Together they spend what one would; without the lock spendings are made that nobody records."""
    assert spend_in_processes(tmp_path / "locked", "lock") == (FIT // 5, FIT // 5)
    made, recorded = spend_in_processes(tmp_path / "twin", "none")
    assert made > recorded


@pytest.mark.skipif(not hasattr(os, "fork"), reason="nothing is forked")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_process_has_no_second_budget(path):
    """A ledger in memory refuses in the child; one with a file spends from it, even where a thread held its locks."""
    memory, stored = PrivacyLedger(4.0, 1e-6), PrivacyLedger(4.0, 1e-6, path=path)
    stored._mutex.acquire()  # as another thread might at the moment of the fork
    child = os.fork()
    if child == 0:
        code = 1
        try:
            stored.spend(ONE, "child")
            memory.spend(ONE)
        except RuntimeError as error:
            code = 0 if "would be a second budget; pass path=" in str(error) else 2
        finally:
            os._exit(code)
    stored._mutex.release()
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert [entry.what for entry in stored.entries] == ["child"] and memory.entries == ()


@pytest.mark.slow
def test_processes_share_the_budget_whatever_is_removed_beside_the_file(tmp_path):
    """Catches a lock that whoever tidies the folder removes while it is held: the next one would lock another file."""
    folder, stop = tmp_path / "budget", threading.Event()

    def tidy():
        while not stop.is_set():
            for name in os.listdir(folder) if folder.exists() else ():
                if name not in ("budget.json", "ready") and not name.endswith(".tmp"):
                    with contextlib.suppress(OSError):
                        os.unlink(folder / name)
            time.sleep(0.001)

    cleaner = threading.Thread(target=tidy)
    cleaner.start()
    try:
        made, recorded = spend_in_processes(folder, "lock")
    finally:
        stop.set()
        cleaner.join()
    assert made == recorded == FIT // 5


HOLDER = (
    SPENDER[: SPENDER.index("path, ready, lock")]
    + """
path, ready = sys.argv[1:]
ledger = PrivacyLedger(4.0, 1e-6, path=path)
with ledger._file.locked():
    open(ready, "w").close()
    sys.stdin.read()
"""
)


@pytest.fixture
def holder(path):
    """Another process that holds a new ledger's lock, until its standard input ends."""
    ready, package = path.with_name("ready"), os.path.dirname(sklearn_dpmix.__file__)
    process = subprocess.Popen(
        [sys.executable, "-c", HOLDER, package, str(path), str(ready)], stdin=subprocess.PIPE, text=True
    )
    try:
        while not ready.exists():
            assert process.poll() is None
            time.sleep(0.01)
        yield process
    finally:
        process.kill()
        process.communicate()


@pytest.mark.slow
def test_a_wait_ends_and_says_who_holds_the_ledger(path, holder, monkeypatch):
    """Catches a fit that hangs for ever behind a process that does, and a lock that others may see more of."""
    assert {os.stat(path.parent / name).st_mode & 0o077 for name in os.listdir(path.parent) if name != "ready"} == {0}
    monkeypatch.setattr(files, "PATIENCE", 0.2)
    with pytest.raises(TimeoutError, match=rf"0\.2 seconds by process {holder.pid} on .* since 20.*nothing was spent"):
        PrivacyLedger(4.0, 1e-6, path=path)
    os.unlink(f"{path}.holder")
    with pytest.raises(TimeoutError, match="by an unknown process"):
        PrivacyLedger(4.0, 1e-6, path=path)
    holder.kill()  # the lock ends with it, whatever it left
    holder.wait()
    PrivacyLedger(4.0, 1e-6, path=path).spend(ONE)
    assert sorted(os.listdir(path.parent)) == ["budget.json", "ready"]


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


# ---------------------------------------------------------------- copies


class Estimator(BaseEstimator):
    def __init__(self, ledger=None):
        self.ledger = ledger


def test_copies_are_the_same_budget(ledger):
    """Copies of an estimator, and scikit-learn's clones of it, share its ledger: a copy would be a second budget."""
    for other in (
        copy.copy(ledger),
        copy.deepcopy(ledger),
        copy.deepcopy([ledger])[0],
        clone(Estimator(ledger)).ledger,
    ):
        assert other is ledger


def test_a_pickled_ledger_reopens_its_file(path):
    ledger = PrivacyLedger(4.0, 1e-6, path=path, accountant="rdp")
    other = pickle.loads(pickle.dumps(ledger))
    assert repr(other) == repr(ledger) and other.accountant == "rdp"
    other.spend(ONE, "copy")
    assert ledger.entries == other.entries == (LedgerEntry("copy", (ONE,)),)
    pickled = pickle.dumps(ledger)
    path.unlink()
    with pytest.raises(FileNotFoundError, match="is gone"):
        pickle.loads(pickled)
    assert not path.exists()


def test_a_ledger_without_a_path_is_not_pickled():
    with pytest.raises(TypeError, match=r"cannot be pickled, since its copy would be a second budget.*pass path="):
        pickle.dumps(PrivacyLedger(4.0, 1e-6))


# ---------------------------------------------------------------- arguments


def test_arguments_are_checked(path):
    for epsilon in (0, -1.0, math.nan, math.inf, "1", None, True):
        with pytest.raises(ValueError, match="epsilon must be a finite number greater than 0, got"):
            PrivacyLedger(epsilon, 1e-6, path=path)
    for delta in (0, 1, math.nan, "0.1", None):
        with pytest.raises(ValueError, match="delta must be strictly between 0 and 1, got"):
            PrivacyLedger(1.0, delta, path=path)
    with pytest.raises(ValueError, match="accountant must be one of"):
        PrivacyLedger(1.0, 0.1, path=path, accountant="exact")
    for wrong in ("\ud800", "a\0b"):
        with pytest.raises(ValueError, match=r"^path=.* is a path that no file can have"):
            PrivacyLedger(1.0, 0.1, path=wrong)
    assert not path.exists()
    with pytest.raises(TypeError):
        PrivacyLedger(1.0, 0.1, path)
    ledger = PrivacyLedger(1, 1e-6)
    for name in ("epsilon", "delta", "path", "accountant", "spent", "entries"):
        with pytest.raises(AttributeError):
            setattr(ledger, name, 3.0)
    assert repr(ledger) == "PrivacyLedger(epsilon=1.0, delta=1e-06, accountant='tight')"
