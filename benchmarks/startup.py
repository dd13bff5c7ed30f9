"""Import time, first fits with a cold and a warm cache, and peak memory, each in a process of its own.

``python -m benchmarks.startup`` prints the first fits.
"""

import os
import subprocess
import sys
import tempfile

HEAD = """
import time, warnings
import numpy as np
import sklearn_dpmix
from sklearn_dpmix import *
from sklearn_dpmix.mechanisms import GaussianMechanism, LaplaceMechanism
from sklearn_dpmix.models import PoissonCount, GaussianMean
from sklearn_dpmix.queries import BoundedRecords, ClassFeatureCounts, RegressionMoments, SufficientStatistics
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
"""

MIXTURE = """
mechanism = {mechanism}
X = rng.normal([20, 50, 70], 5, ({n}, 3))[:, :{n_features}]
data, model = (mechanism.privatize(X, random_state=1),), PrivateDPMixture(mechanism, random_state=2{more})
"""
LAPLACE = "LaplaceMechanism(epsilon=5.0, bounds=[(0, 100)] * {n_features})"
GAUSSIAN = "GaussianMechanism(epsilon=5.0, delta=1e-6, bounds=[(0, 100)] * {n_features})"


def mixture(n, n_features=1, mechanism=LAPLACE, more=""):
    return MIXTURE.format(n=n, n_features=n_features, mechanism=mechanism.format(n_features=n_features), more=more)


#: What makes ``data``, a tuple, and ``model``, all else by default
FIRST_FITS = {
    "mixture, n = 1000": mixture(1000),
    "mixture, n = 1000, Gaussian noise": mixture(1000, mechanism=GAUSSIAN),
    "mixture, n = 10⁵": mixture(100_000),
    "mixture, two features, n = 1000": mixture(1000, 2),
    "mixture, two features, n = 1000, Gaussian noise": mixture(1000, 2, GAUSSIAN),
    "mixture, two correlated features, n = 300": mixture(300, 2, more=", kernel='multivariate_normal'"),
    "mixture, no noise, n = 1000": mixture(1000).replace("Mixture(mechanism,", "Mixture(None,"),
    "mixture regressor, n = 1000": """
mechanism = GaussianMechanism(scale=1.0)
x = rng.normal(size=1000)
Z = mechanism.privatize(np.column_stack([x, 1.0 + 2.0 * x + rng.normal(size=1000)]), random_state=1)
data, model = (Z[:, :1], Z[:, 1]), PrivateDPMixtureRegressor(mechanism, random_state=2)
""",
    "linear regression": """
X = rng.normal(size=(500, 1))
query = RegressionMoments(x_bounds=(-4, 4), y_bounds=(-10, 10), n_features=1)
mechanism = LaplaceMechanism(epsilon=10.0, query=query)
S = mechanism.privatize(np.column_stack([X, 1.0 + 2.0 * X[:, 0] + rng.normal(size=500)]), random_state=1)
data, model = (S,), PrivateLinearRegressionDA(mechanism, n_records=500, random_state=2)
""",
    "binomial family": """
mechanism = LaplaceMechanism(epsilon=0.1, query=SufficientStatistics("binomial"))
S = mechanism.privatize(rng.random((1000, 1)) < 0.3, random_state=1)
data, model = (S,), PrivateExpFamilyGibbs(mechanism, family="binomial", n_records=1000, random_state=2)
""",
    "normal family": """
query = SufficientStatistics("normal", bounds=(0, 100))
mechanism = LaplaceMechanism(epsilon=1.0, query=query)
S = mechanism.privatize(rng.normal(40.0, 10.0, (1000, 1)), random_state=1)
data, model = (S,), PrivateExpFamilyGibbs(mechanism, family="normal", n_records=1000, random_state=2)
""",
    "naive Bayes": """
y = rng.integers(0, 2, 500)
X = np.column_stack([(y + rng.integers(0, 2, 500)) // 2, rng.integers(0, 3, 500)])
mechanism = LaplaceMechanism(epsilon=1.0, query=ClassFeatureCounts(n_classes=2, n_values=[2, 3]))
S = mechanism.privatize(np.column_stack([X, y]), random_state=1)
data, model = (S,), PrivateNaiveBayesDA(mechanism, n_records=500, random_state=2)
""",
    "posterior by data augmentation": """
class NormalMean:
    theta_init = [0.0]
    def sample_records(self, rng, theta, n):
        return rng.normal(theta[0], 1.0, n)
    def sample_posterior(self, rng, records, theta):
        precision = 0.01 + len(records)
        return rng.normal(records.sum() / precision, precision**-0.5, 1)
mechanism = LaplaceMechanism(epsilon=1.0, query=BoundedRecords((-3, 5)))
S = mechanism.privatize(rng.normal(2.0, size=(100, 1)), random_state=1)
data, model = (S,), PrivatePosteriorDA(mechanism, model=NormalMean(), n_records=100, random_state=2)
""",
    "ABC": """
class Count:
    def sample_prior(self, rng, size):
        return rng.gamma(25.0, 1.0, (size, 1))
    def sample_statistic(self, rng, theta):
        return rng.poisson(theta)
data, model = ([37.4],), PrivateABC(LaplaceMechanism(scale=5.0), model=Count(), random_state=0)
""",
    "Monte Carlo EM": """
data, model = ([37.4],), PrivateMCEM(LaplaceMechanism(scale=5.0), model=PoissonCount(), random_state=0)
""",
    "logistic regression": """
X = rng.uniform(-1.0, 1.0, (5000, 1))
y = (rng.random(5000) < 1.0 / (1.0 + np.exp(-4.0 * X[:, 0]))).astype(int)
data, model = (X, y), DPLogisticRegressionMCMC(GaussianMechanism(epsilon=2.0, delta=1e-6), data_norm=1.0)
""",
    "penalty algorithm": """
X, budget = rng.normal(1.0, 1.0, (10_000, 1)), GaussianMechanism(epsilon=2.0, delta=1e-6)
data, model = (X,), DPPenaltyMCMC(budget, model=GaussianMean(data_norm=5.0), n_iter=2000)
""",
    "deconvolution": """
mechanism = LaplaceMechanism(epsilon=20.0, bounds=(-10, 10))
data, model = (mechanism.privatize(rng.normal(2.0, 1.0, size=(2000, 1)), random_state=1),), DeconvolutionKDE(mechanism)
""",
}
TIMED = """
wall, cpu = time.perf_counter(), time.process_time()
model.fit(*data)
print(time.perf_counter() - wall, time.process_time() - cpu)
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


def first_fits():
    """For each kind of fit: seconds of the first in a fresh process, of the processor and without it a warm cache."""
    for name, code in FIRST_FITS.items():
        with tempfile.TemporaryDirectory() as folder:
            cold, warm = (run(HEAD + code + TIMED, NUMBA_CACHE_DIR=folder) for _ in range(2))
        yield name, *cold, warm[0]


def peak_memory():
    """Peak resident memory in GiB of a fit of a million records, 4 chains, 500 draws each."""
    return run(MEMORY)[0]


if __name__ == "__main__":
    for name, wall, cpu, warm in first_fits():
        print(f"{name}: cold {wall:.1f} s ({cpu:.1f} s CPU), warm {warm:.1f} s", flush=True)
