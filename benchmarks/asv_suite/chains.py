"""What a sweep costs, of mixtures and of a regression."""

import warnings

from benchmarks import curator, regression
from benchmarks.speed import PackageChain
from sklearn_dpmix.samplers import Auto, Conditional, Neal5, Slice

SAMPLERS = {"neal5": Neal5, "slice": Slice, "conditional": Conditional, "auto": Auto}
NEVER = 10**9  # sweeps of warm-up: no draw is kept


class Mixture:
    """Section 4.1 of Beraha et al., 1000 records."""

    timeout = 600  # it compiles
    params = (list(SAMPLERS), [2.0, 50.0])
    param_names = ("sampler", "epsilon")

    def setup(self, sampler, epsilon):
        self.chain = PackageChain(SAMPLERS[sampler](), 1000, epsilon)
        self.chain.run(100, NEVER)

    def time_100_sweeps(self, sampler, epsilon):
        self.chain.run(100, NEVER)


class Regression:
    """Ju et al., §4.2: two predictors, noisy moments of 100 records."""

    timeout = 600
    params = (False, True)
    param_names = ("interweave",)
    unit = "µs a sweep"

    def track_sweep(self, interweave):
        warnings.simplefilter("ignore", RuntimeWarning)
        mechanism, S = regression.release(100, 10.0)
        return regression.seconds_a_sweep(mechanism, S, 100, interweave, 10_000, thin=100)[0] * 1e6


def track_naive_bayes():
    return curator.naive_bayes()


track_naive_bayes.unit = "s of 10,000 draws"
