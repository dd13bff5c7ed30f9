"""Import time, first fit with a cold and a warm cache, and peak memory, each in a process of its own."""

import os
import subprocess
import sys
import tempfile

FIRST_FIT = """
import time, warnings
import sklearn_dpmix
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.datasets import make_three_normals
warnings.simplefilter("ignore")
X, _ = make_three_normals(200, random_state=0)
mechanism = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))
Z = mechanism.privatize(X, random_state=1)
started = time.perf_counter()
sklearn_dpmix.PrivateDPMixture(mechanism, n_warmup=100, n_draws=100, random_state=0).fit(Z)
print(time.perf_counter() - started)
"""

MEMORY = """
import resource, warnings
import sklearn_dpmix
from sklearn_dpmix.mechanisms import LaplaceMechanism
from sklearn_dpmix.datasets import make_three_normals
warnings.simplefilter("ignore")
X, _ = make_three_normals(1_000_000, random_state=0)
mechanism = LaplaceMechanism(epsilon=10.0, bounds=(-10, 10))
Z = mechanism.privatize(X, random_state=1)
del X
sklearn_dpmix.PrivateDPMixture(mechanism, n_warmup=20, n_draws=500, n_jobs=2, random_state=0).fit(Z)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024**2)
"""

TIMED_IMPORT = "import time; started = time.perf_counter(); import {}; print(time.perf_counter() - started)"


def run(code, **environment):
    """Run code in a fresh interpreter; return the number that it prints last."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return float(done.stdout.split()[-1])


def imports(repeats=5):
    """Seconds (best of a few) to import the package, and scikit-learn's mixtures with numba."""
    ours = min(run(TIMED_IMPORT.format("sklearn_dpmix")) for _ in range(repeats))
    theirs = min(run(TIMED_IMPORT.format("sklearn.mixture, numba")) for _ in range(repeats))
    return ours, theirs


def first_fit():
    """Seconds of the first fit in a fresh process, (cold cache, warm cache)."""
    with tempfile.TemporaryDirectory() as folder:
        return tuple(run(FIRST_FIT, NUMBA_CACHE_DIR=folder) for _ in range(2))


def peak_memory():
    """Peak resident memory in GiB of a fit of a million records, 4 chains, 500 draws each."""
    return run(MEMORY)
