"""Import time, first fits with a cold and a warm cache, and peak memory, each in a process of its own.

``python -m benchmarks.startup`` prints the first fits.
"""

import os
import subprocess
import sys
import tempfile

from sklearn_dpmix.warmup import estimators

MIXTURE = """
import time, warnings
import numpy as np
from sklearn_dpmix import PrivateDPMixture, PrivateDPMixtureRegressor
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
warnings.simplefilter("ignore")
X = np.random.default_rng(0).normal([20, 50, 70], 5, ({n}, 3))[:, :{n_features}]
mechanism = {noise}, bounds=[(0, 100)] * {n_features})
data, model = (mechanism.privatize(X, random_state=1),), PrivateDPMixture(mechanism, random_state=2{more})
wall, cpu = time.perf_counter(), time.process_time()
model.fit(*data)
print(time.perf_counter() - wall, time.process_time() - cpu)
"""
LAPLACE, GAUSSIAN = "LaplaceMechanism(epsilon=5.0", "GaussianMechanism(epsilon=5.0, delta=1e-6"


def mixture(n, n_features=1, noise=LAPLACE, more=""):
    return MIXTURE.format(n=n, n_features=n_features, noise=noise, more=more)


MIXTURES = {
    "mixture, n = 200, 100 + 100 draws": mixture(200, more=", n_warmup=100, n_draws=100"),
    "mixture, n = 1000": mixture(1000),
    "mixture, n = 1000, Gaussian noise": mixture(1000, noise=GAUSSIAN),
    "mixture, n = 10⁵": mixture(100_000),
    "mixture, two features, n = 1000": mixture(1000, 2),
    "mixture, two features, n = 1000, Gaussian noise": mixture(1000, 2, GAUSSIAN),
    "mixture, two correlated features, n = 300": mixture(300, 2, more=", kernel='multivariate_normal'"),
    "mixture, no noise, n = 1000": mixture(1000).replace("Mixture(mechanism,", "Mixture(None,"),
    "mixture regressor, n = 1000": mixture(1000, 2, GAUSSIAN)
    .replace("(mechanism.privatize(X, random_state=1),)", "np.split(mechanism.privatize(X, random_state=1), 2, axis=1)")
    .replace("Mixture(", "MixtureRegressor("),
}
REGRESSOR = "PrivateDPMixtureRegressor"
EXAMPLE = """
import time
from sklearn_dpmix.warmup import run_examples
cpu = time.process_time()
print(run_examples({!r}), time.process_time() - cpu)
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
    """Run code in a fresh interpreter; return the numbers that it prints."""
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=True
    )
    return [float(number) for number in done.stdout.split()]


def imports(repeats=5):
    """Seconds (best of a few) to import the package, and scikit-learn's mixtures with numba."""
    names = "sklearn_dpmix", "sklearn.mixture, numba"
    return [min(run(TIMED_IMPORT.format(name))[0] for _ in range(repeats)) for name in names]


def first_fit(code):
    """Seconds of the first fit in a fresh process, of the processor, and without it where the cache is warm."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = (run(code, NUMBA_CACHE_DIR=folder) for _ in range(2))
    return *cold, warm[0]


def first_fits():
    """Of mixtures, and of the examples in the docstrings of the other estimators."""
    others = {name: EXAMPLE.format(name) for name in estimators() if name not in ("PrivateDPMixture", REGRESSOR)}
    for name, code in (MIXTURES | others).items():
        yield name, *first_fit(code)


def peak_memory():
    """Peak resident memory in GiB of a fit of a million records, 4 chains, 500 draws each."""
    return run(MEMORY)[0]


if __name__ == "__main__":
    for name, wall, cpu, warm in first_fits():
        print(f"{name}: cold {wall:.1f} s ({cpu:.1f} s CPU), warm {warm:.1f} s", flush=True)
