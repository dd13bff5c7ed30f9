"""A budget that cannot be overspent by threads or processes that share it."""

import contextlib
import os
import subprocess
import sys
import threading
import time

import pytest
from ledger_case import FIT, ONE

import sklearn_dpmix
from sklearn_dpmix._base import files
from sklearn_dpmix.privacy import BudgetExceededError, GaussianReleases, PrivacyLedger
from sklearn_dpmix.privacy import _ledger as ledger_module
from sklearn_dpmix.privacy import _ledger_file as ledger_file


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
