"""Runs cases in a process of its own, which may crash or hang: the one that watches it says at which case.

``python -m fuzz.worker SEED FIRST LAST DEEP`` in the folder of the tests.  Lines on standard output: ``begin N``,
``compile`` and ``compiled`` around compilations, whose time is not the case's, ``end N ENDING`` with JSON.
"""

import json
import os
import queue
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter

SECONDS = 5.0
AS_PYTHON = 4.0  # times as many, where nothing is compiled
TRIAL_AS_PYTHON = 30  # sweeps of a fit's trial run there: two of its own 600 would take longer than all cases
IDLE = 60.0  # ... on a machine that has other work
STARTUP = 900.0  # all that is fitted beforehand compiles first
MEMORY = 2 << 30  # that a case may ask for


def say(*words):
    print(*words, flush=True)


def main(seed, first, last, deep):
    from numba.core import event

    from sklearn_dpmix.samplers.mixture.measure import _walk

    from .cases import Bench, draw_case
    from .files import originals, run_file

    if not deep:
        _walk.N_TRIAL = TRIAL_AS_PYTHON

    class Clock(event.Listener):
        def on_start(self, event):
            say("compile")

        def on_end(self, event):
            say("compiled")

    bench = Bench()
    originals()
    event.register("numba:compile", Clock())
    used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (used + MEMORY, used + MEMORY))
    say("ready")
    for number in range(first, last):
        say("begin", number)
        # every tenth case is a file
        try:
            ending = run_file(number, seed) if number % 10 == 9 else bench.run(draw_case(number, seed, deep))
        except Exception as error:
            ending = f"{type(error).__name__}: {error}"
        say("end", number, json.dumps(ending))
    for name in bench.fitted:
        bench.check(name, "all cases")
    say("done")


def cpu_seconds(process):
    """Seconds that a process has computed."""
    with open(f"/proc/{process}/stat") as file:
        numbers = file.read().rpartition(")")[2].split()
    return (int(numbers[11]) + int(numbers[12])) / os.sysconf("SC_CLK_TCK")


class Watch:
    """Starts workers until all cases have ended, one way or another; ``findings`` are those that ended wrongly.

    Where it is not ``deep``, nothing is compiled: compiled functions run as Python, where a wrong index is an error.
    """

    def __init__(self, seed, first, last, deep=False, folder=None, program=("-m", "fuzz.worker")):
        self.findings, self.endings, self.times = {}, Counter(), {}
        self.arguments, self.program = (seed, last, deep), program
        self.seconds = SECONDS if deep else AS_PYTHON * SECONDS
        self.folder = folder or tempfile.mkdtemp()
        while first < last:
            first = self._watch(first)

    def _watch(self, first):
        """Run one worker; return the number of the case that comes next."""
        seed, last, deep = self.arguments
        tests = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        root = os.path.dirname(tests)
        worker = subprocess.Popen(
            [sys.executable, *self.program, str(seed), str(first), str(last), str(int(deep))],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=self.folder,
            env={**os.environ, "PYTHONPATH": os.pathsep.join([tests, root]), "MPLBACKEND": "Agg"}
            | ({} if deep else {"NUMBA_DISABLE_JIT": "1"}),
        )  # fmt: skip
        lines, errors = queue.Queue(), []
        threading.Thread(target=lambda: [*map(lines.put, worker.stdout), lines.put(None)], daemon=True).start()
        threading.Thread(target=lambda: errors.extend(worker.stderr), daemon=True).start()
        number, left, compiling, since, used = None, STARTUP, 0, time.monotonic(), 0.0
        try:
            while True:
                try:
                    line = lines.get(timeout=max(left - (time.monotonic() - since), 0.0))
                except queue.Empty:
                    elapsed = time.monotonic() - since
                    is_busy = not compiling and number is not None and cpu_seconds(worker.pid) - used < self.seconds
                    if is_busy and elapsed < IDLE:  # the machine, with other work: what counts is the case's own
                        left = elapsed + 0.5
                        continue
                    what = f"no end after {elapsed:.0f} s" + (" of compiling" if compiling else "")
                    return self._lost(number, what, errors)
                word, *rest = line.split(maxsplit=2) if line is not None else ("gone",)
                if word == "gone":
                    return self._lost(number, f"the process ended with {worker.wait()}", errors)
                if word == "done":
                    return last
                if word == "begin":
                    number, left, since, compiling = int(rest[0]), self.seconds, time.monotonic(), 0
                    used = cpu_seconds(worker.pid)
                elif word == "compile":
                    left, since, compiling = STARTUP, time.monotonic(), compiling + 1
                elif word == "compiled":
                    compiling -= 1
                    left, since = (STARTUP if compiling else self.seconds), time.monotonic()
                    used = cpu_seconds(worker.pid)
                elif word == "end":
                    ending = json.loads(rest[1])
                    self.times[number] = time.monotonic() - since
                    self.endings[ending if ending in ("refused", "right") else "wrong"] += 1
                    if ending not in ("refused", "right"):
                        self.findings[number] = ending
        finally:
            worker.kill()
            worker.wait()

    def _lost(self, number, what, errors):
        from .cases import draw_case

        seed, _, deep = self.arguments
        if number is None:
            raise RuntimeError(f"{what} before the first case:\n{''.join(errors[-30:])}")
        case = f"file {number}" if number % 10 == 9 else draw_case(number, seed, deep)
        self.findings[number] = f"{case}: {what}\n{''.join(errors[-30:])}"
        self.endings["wrong"] += 1
        return number + 1


if __name__ == "__main__":
    main(*map(int, sys.argv[1:4]), deep=bool(int(sys.argv[4])))
