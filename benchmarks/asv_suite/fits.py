"""What a whole process costs: the import, the first fit, and the memory of a fit; and simulations a second."""

import warnings

from benchmarks import simulation, startup
from benchmarks.speed import section_4_1
from sklearn_dpmix import PrivateDPMixture


def timeraw_import():
    return "import sklearn_dpmix"


def track_first_fit_with_a_cold_cache():
    return startup.first_fit(startup.mixture(1000))[0]


track_first_fit_with_a_cold_cache.unit = "s"
track_first_fit_with_a_cold_cache.timeout = 600


class Memory:
    """Chains of 100,000 records."""

    timeout = 600

    def setup(self):
        mechanism, self.Z, _ = section_4_1(100_000, 10.0)
        self.model = PrivateDPMixture(mechanism, n_chains=2, n_warmup=10, n_draws=50, n_jobs=2, random_state=0)

    def peakmem_fit(self):
        warnings.simplefilter("ignore", RuntimeWarning)
        self.model.fit(self.Z)


def track_simulations():
    return simulation.rejection()[0]


track_simulations.unit = "millions a second"
