"""Ten million privatised records, read from a memory map: seconds a sweep and memory, each in a process of its own."""

import json
import pathlib
import subprocess
import sys
import tempfile
import textwrap

import numpy as np

N_RECORDS = 10_000_000
SAMPLERS = ("neal5", "auto")

SCRIPT = """
    import json, sys, threading, time, warnings
    import numpy as np
    from sklearn.base import clone
    from sklearn_dpmix import PrivateDPMixture
    from sklearn_dpmix.mechanisms import LaplaceMechanism

    path, sampler = sys.argv[1:]
    warnings.simplefilter("ignore")
    parts = {"sampler": sampler, "n_chains": 1, "n_warmup": 1, "n_draws": 1, "random_state": 0, "n_jobs": 2}
    model = PrivateDPMixture(LaplaceMechanism(epsilon=20.0, bounds=(-10, 10)), **parts)
    Z = np.load(path, mmap_mode="r")

    def resident(kind):
        with open("/proc/self/status") as status:
            return next(1024 * int(line.split()[1]) for line in status if line.startswith(kind))

    def watch():
        while not done.wait(0.01):
            peak.append(resident("RssAnon"))

    model.fit(np.array(Z[:50_000]))  # compiles, or loads what is compiled
    before, peak, done = resident("RssAnon"), [], threading.Event()
    watcher = threading.Thread(target=watch)
    watcher.start()
    seconds = []
    for n_draws in (1, 11):  # the difference is ten sweeps: what a fit does once is in both
        started = time.perf_counter()
        clone(model).set_params(n_draws=n_draws).fit(Z)  # a second fit of one model keeps the first until it is done
        seconds.append(time.perf_counter() - started)
    done.set()
    watcher.join()
    print(json.dumps([(seconds[1] - seconds[0]) / 10, seconds[0], (max(peak) - before) / Z.nbytes]))
"""


def sweeps():
    """Rows (sampler, seconds a sweep, seconds of the rest of a fit, memory beyond the map in multiples of the data)."""
    with tempfile.TemporaryDirectory() as folder:
        path = str(pathlib.Path(folder) / "release.npy")
        rng = np.random.default_rng(0)
        release = np.lib.format.open_memmap(path, "w+", np.float64, (N_RECORDS, 1))
        for first in range(0, N_RECORDS, 1_000_000):  # normals at -5, 0, 5, with Laplace noise of epsilon 20
            block = release[first : first + 1_000_000]
            block[:] = 5.0 * rng.integers(-1, 2, block.shape) + 0.7 * rng.standard_normal(block.shape)
            block += rng.laplace(0.0, 1.0, block.shape)
        release.flush()
        del release
        for sampler in SAMPLERS:
            command = [sys.executable, "-c", textwrap.dedent(SCRIPT), path, sampler]
            done = subprocess.run(command, capture_output=True, text=True, check=True)
            yield sampler, *json.loads(done.stdout)
